"""Short trainings of every system at :tiny, alone or as one of several processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from canon.registry import SYSTEMS, System

NAMES = [system.name for system in SYSTEMS]
OF_EXAMPLES = [system.name for system in SYSTEMS if system.loop != "environment"]  # the others act, in one process
BY_NAME = {system.name: system for system in SYSTEMS}
HERE = Path(__file__).parent
SOURCE = {
    "classification": "digits",
    "regression": "diabetes",
    "contrastive": "digits",
    "generation": "digits",
    "transduction": str(HERE / "pairs.tsv"),  # numbers in words, and in digits
    "language-model": str(HERE / "text.txt"),  # counting
    "bidirectional-language-model": str(HERE / "text.txt"),
    "word-vectors": str(HERE / "text.txt"),
    "pretraining": str(HERE / "documents.txt"),  # counting, in whole sentences
    "labels": str(HERE / "labels.txt"),  # numbers in words: even or odd, and round
    "fine-tuning": str(HERE / "sentences.csv"),  # the same with one label each
    "prompting": str(HERE / "sentences.csv"),
    "future-steps": str(HERE / "documents.txt"),
    "ranking": str(HERE / "queries.letor"),  # grades by three features of four
    "retrieval": str(HERE / "triples.csv"),  # numbers in words, backwards, and others
    "recommendation": str(HERE / "interactions.csv"),  # users who mostly take every third item
    "click-prediction": str(HERE / "clicks.csv"),  # who, when, what and whether there was a click
    "control": "FrozenLake8x8-v1",
    "policy-evaluation": "five-state-walk",
}
# Of text: whole words, so that vocabularies are small; tokens and windows so that an epoch has about ten steps.
TEXT = {"data.tokenizer": "split", "data.target_tokenizer": "split", "train.tokens": 70, "optimizer.lr": 0.03}
OF_TASK = {
    "transduction": TEXT,
    "language-model": {"data.tokenizer": "split", "data.window": 10, "data.limit": 320},
    "bidirectional-language-model": {"data.tokenizer": "split", "data.window": 10, "data.limit": 320},
    "pretraining": {
        "data.tokenizer": "word",
        "data.vocab_size": 0,
        "data.max_length": 32,
        "system.dim": 32,
        "system.num_layers": 2,
        "system.num_heads": 2,
        "system.hidden": 64,
    },
    "future-steps": {"data.tokenizer": "word", "data.steps": 4, "data.vocab_size": 0},
    "word-vectors": {"data.tokenizer": "split", "data.min_count": 1, "data.limit": 0, "train.batch": 220},
    "prompting": {"data.template": "{text} {mask}", "data.words": {}, "data.shots": 0, "data.seed": 0},
}

OF_SYSTEM = {
    "nadaraya-watson": {"system.width": 5.0, "optimizer.lr": 0.1},  # far too narrow at first
    "hard-prompt": {"data.template": "{text} {trigger:2} {mask}"},
    "prank": {"train.batch": 1},  # one query is enough to learn much of what there is
    "popular": {"train.batch": 2},
    "item-knn": {"train.batch": 4},
    "ngram": {"train.batch": 2},  # some of the text is still to be counted at the last of few steps
}


# Of a training that is done by one process and by two: a checkpoint of shards takes longer than steps do.
TWELVE = {"train__evaluate_every": 6, "train__checkpoint_every": 12, "train__precision": "float32"}


@cache
def built_in_recipes() -> list[str]:
    """Recipes whose data needs no download and that are not for a GPU: they are run, and measured, on any machine."""
    from canon import recipe
    from canon.data.catalogue import CATALOGUE
    from canon.data.config import DataConfig
    from canon.data.kinds import by_name

    def is_small(name: str) -> bool:
        return "H200" not in (recipe.RECIPES / f"{name}.toml").read_text().splitlines()[0]

    def is_here(source: str) -> bool:
        return CATALOGUE[source].builtin if source in CATALOGUE else by_name(DataConfig(source=source)) is not None

    return [name for name in recipe.names() if is_here(recipe.load(name).data.source) and is_small(name)]


def threads(system: System) -> int:
    """As many as this process may have; what learns without gradients is exact with one only."""
    return int(os.environ.get("OMP_NUM_THREADS", "1")) if system.loop == "gradient" else 1


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
        "train.threads": threads(system),
        "train.device": "cpu",
    }
    own |= OF_TASK.get(system.task, {}) | OF_SYSTEM.get(system.name, {})
    return own | {key.replace("__", "."): value for key, value in more.items()}


def fit(name: str, out: Path, steps: int, resume: bool = False, **more: Any) -> None:
    from canon.training.trainer import train

    changes = {"train.steps": steps} if resume else short(BY_NAME[name], steps, **more)
    train(BY_NAME[name].recipe, out=out, resume=resume, changes=changes, quiet=True)


@contextmanager
def in_float64() -> Iterator[None]:
    """Gradient systems calculate in float64: what differs by the order of sums alone then differs by 1e-16, not by
    1e-7, and stays apart from what differs by more, however chaotic a system is."""
    import pytest
    import torch

    from canon.data.batching.loader import Examples

    take = Examples.take

    def double(*arguments: Any, **more: Any) -> Any:
        rows = take(*arguments, **more)
        return {key: value.double() if value.is_floating_point() else value for key, value in rows.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Examples, "take", double)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)


def main(folder: str) -> None:
    """What each process of the two-process test does: all systems, one after the other, with copies and with shards."""
    import torch.distributed as dist

    from canon.training import trainer

    trainer.leave_world = lambda _: None  # one group serves all runs
    with in_float64():
        for name in OF_EXAMPLES:
            for parallel in ("ddp", "fsdp"):
                fit(name, Path(folder) / parallel / name, 12, train__parallel=parallel, **TWELVE)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(*sys.argv[1:])
