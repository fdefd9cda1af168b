"""Short trainings of every system at :tiny, alone or as one of several processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from canon.registry import SYSTEMS, System

NAMES = [system.name for system in SYSTEMS]
BY_NAME = {system.name: system for system in SYSTEMS}
SOURCE = {"classification": "digits", "regression": "diabetes", "contrastive": "digits", "generation": "digits"}


def built_in_recipes() -> list[str]:
    """Recipes whose data needs no download: they are run, and measured, on any machine."""
    from canon import recipe
    from canon.data.catalogue import CATALOGUE

    return [name for name in recipe.names() if CATALOGUE[recipe.load(name).data.source].builtin]


def short(system: System, steps: int, **more: Any) -> dict[str, Any]:
    """Settings of a run of a few steps: 10 per epoch, so that most stops are in the middle of one."""
    own = {
        "system.name": f"{system.name}:tiny",
        "data.source": SOURCE[system.task],
        "data.limit": 160,
        "optimizer.name": "adam",
        "optimizer.lr": 0.01,
        "train.steps": steps,
        "train.batch": 16,
        "train.log_every": 2,
        "train.evaluate_every": 5,
        "train.checkpoint_every": 3,
        "train.seed": 7,
        "train.threads": 1,
        "train.device": "cpu",
    }
    return own | {key.replace("__", "."): value for key, value in more.items()}


def fit(name: str, out: Path, steps: int, resume: bool = False, **more: Any) -> None:
    from canon.training.trainer import train

    changes = {"train.steps": steps} if resume else short(BY_NAME[name], steps, **more)
    train(BY_NAME[name].recipe, out=out, resume=resume, changes=changes, quiet=True)


def main(folder: str, parallel: str) -> None:
    """What each process of the two-process test does: all systems, one after the other."""
    import torch.distributed as dist

    from canon.training import trainer

    trainer.leave_world = lambda: None  # one group serves all runs
    for name in NAMES:
        fit(name, Path(folder) / name, 12, train__parallel=parallel, train__precision="float32")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
