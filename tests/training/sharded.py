"""What each process does for test_shards.py: trains in shards, with checkpoints in one file and in a file of each."""

from __future__ import annotations

import os
import sys
from pathlib import Path

RECIPE = "pretrained/gpt2"
CHANGES = {
    "system.name": "gpt2:tiny",
    "data.tokenizer": "word",
    "data.max_length": 24,
    "train.batch": 8,
    "train.log_every": 1,
    "train.evaluate_every": 100,
    "train.checkpoint_every": 100,
    "train.device": "cpu",
    "train.parallel": "fsdp",
}
KINDS = {"whole": "off", "pieces": "on"}


def main(folder: str, text: str, steps: str) -> None:
    import torch.distributed as dist

    from canon.training import trainer

    trainer.leave_world = lambda world: None  # one group serves all runs
    for name, shards in KINDS.items():
        changes = {**CHANGES, "train.steps": int(steps), "train.shards": shards}
        changes = {"train.steps": int(steps)} if (Path(folder) / name).exists() else changes
        recipe = "" if len(changes) == 1 else RECIPE
        run = str(Path(folder) / name)
        trainer.train(recipe or run, text if recipe else "", run if recipe else None, not recipe, changes, quiet=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
