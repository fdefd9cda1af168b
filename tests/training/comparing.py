"""One process of a short training of `embed` in float64: `python -m tests.training.comparing FOLDER OBJECTIVE`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from canon.storage import write_text
from tests.battery.runs import in_float64

TEXTS = Path(__file__).parent.parent / "battery" / "triples.csv"
TARGETS = {"cosent": "score", "cosine": "score", "softmax-nli": "label"}


def source(folder: Path, objective: str) -> Path:
    """The texts, with a score or a class of each two where the objective learns from one."""
    if objective not in TARGETS:
        return TEXTS
    rows = list(csv.reader(TEXTS.read_text().splitlines()))[1:]
    score = TARGETS[objective] == "score"
    lines = [f"sentence1,sentence2,{TARGETS[objective]}"]
    for number, (a, b, c) in enumerate(rows):
        lines.append(f"{a},{(b, c)[number % 2]},{number % 6 if score else ('entailed', 'other')[number % 2]}")
    write_text(folder / f"{objective}.csv", "\n".join(lines) + "\n")
    return folder / f"{objective}.csv"


def fit(out: Path, objective: str, **more: Any) -> None:
    """Three steps of plain gradient descent: the weights after them are the gradients."""
    from canon.training.trainer import train

    changes: dict[str, Any] = {
        "system.name": "embed:tiny",
        "data.source": str(source(out.parent, objective)),
        "data.valid": 0.0,
        "data.test": 0.0,
        "data.tokenizer": "word",
        "objective.name": objective,
        "optimizer.name": "sgd",
        "optimizer.lr": 0.5,
        "optimizer.schedule": "constant",
        "train.steps": 3,
        "train.batch": 16,
        "train.clip": None,
        "train.seed": 3,
        "train.device": "cpu",
        "train.precision": "float32",
        "train.threads": 1,
        **more,
    }
    if objective == "simcse":
        changes["data.features"] = ["anchor"]
    train("embed", out=out, changes={key: value for key, value in changes.items() if value is not None}, quiet=True)


if __name__ == "__main__":
    import torch.distributed as dist

    from canon.training import trainer

    trainer.leave_world = lambda world: None  # one group serves all runs
    with in_float64():
        for name in sys.argv[2:]:
            fit(Path(sys.argv[1]) / name, name)
    dist.destroy_process_group()
