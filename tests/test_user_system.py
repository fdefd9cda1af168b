"""A system in a user's file: all verbs take it by the file's name, and a mistake in the file is a sentence about it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import canon as toolkit
from canon import registry
from canon.errors import CanonError
from canon.training.run import Run
from canon.training.trainer import train

FILE = """
from math import prod

import torch
from pydantic import Field
from torch import nn

from canon.config import settings
from canon.registry import System

SYSTEM = System(
    name="plane",
    title="A plane",
    chapter="linear",
    paper="Euclid, Elements, book XI",
    module="plane:Plane",
    encodings=("features", "pixels"),
    task="classification",
    objective="cross-entropy",
    presets={"tiny": {"scale": 0.1}},
)


@settings
class Config:
    shape: tuple[int, ...] = (2,)
    num_classes: int = 2
    scale: float = Field(default=1.0, gt=0)


class Plane(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.scale, self.output = config.scale, nn.Linear(prod(config.shape), config.num_classes)

    def forward(self, x):
        return self.output(self.scale * x.flatten(1))
"""


@pytest.fixture
def plane() -> Path:
    Path("table.csv").write_text(
        "a,b,side\n" + "".join(f"{i % 7},{i % 5},{'lo' if i % 7 < 4 else 'hi'}\n" for i in range(90))
    )
    path = Path("plane.py")
    path.write_text(FILE)
    return path


def test_every_verb_takes_it(plane: Path, canon: Callable[..., Any]) -> None:
    outcome = canon("train", "plane.py:tiny", "--data", "table.csv", "--set", "train.steps=4", "--out", "cut")
    assert outcome.code == 0 and "A plane (plane.py:tiny) on table.csv" in outcome.out + outcome.err, outcome.err
    assert Run.open("cut").recipe.config.scale == 0.1
    outcome = canon("train", "cut", "--resume", "--set", "train.steps=9")
    assert outcome.code == 0, outcome.err
    whole = train("plane.py:tiny", "table.csv", Path("whole"), changes={"train.steps": 9}, quiet=True)
    assert json.loads(canon("evaluate", "cut", "--json").out) == json.loads(canon("evaluate", "whole", "--json").out)
    assert len(json.loads(canon("predict", str(whole.path), "table.csv", "--json").out)) == 90
    described = json.loads(canon("describe", "plane.py", "--json").out)
    assert (described["system"], described["parameters"]) == ("plane.py", 6)
    compared = canon(
        *("compare", "plane.py", "softmax-regression", "--data", "table.csv", "--seeds", 2),
        *("--budget", "epochs=2", "--out", "compared"),
    )
    assert compared.code == 0 and "plane" in compared.out, compared.err
    assert toolkit.create("plane.py", shape=(3,)).output.in_features == 3


def test_the_file_is_what_it_is_now(plane: Path) -> None:
    first, again = (registry.find("plane.py")[0].load()[0] for _ in range(2))
    assert first is again
    stat = plane.stat()
    plane.write_text(FILE.replace("default=1.0", "default=2.0"))
    os.utime(plane, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # an edit within the clock's tick, of the same length
    assert registry.find("plane.py")[0].load()[0]().scale == 2.0


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("SYSTEM = System(", "SYSTEM = dict(", "plane.py has no record of a system"),
        ("SYSTEM = System(", "PLANE = System(", "plane.py has no record of a system"),
        ('task="classification"', 'task="classify"', 'plane.py has the task "classify", which the objective '),
        ("class Plane(", "class Plain(", "plane.py has no class Plane: "),
        ("class Config:", "class Settings:", "plane.py has no class Config: "),
        ("class Plane(nn.Module):", "class Plane(nn.Module)", "plane.py cannot be imported: expected ':'"),
        ('title="A plane",', 'title="A plane", recipe="linear/digits-mlp",', "plane.py: leave recipe out"),
        (
            "    def forward(self, x):",
            "    def forward(self, x, y):",
            "'y'. This is a bug in canon, or a mistake in ",
        ),
    ],
)
def test_a_mistake_in_the_file_is_its_sentence(
    plane: Path, canon: Callable[..., Any], old: str, new: str, sentence: str
) -> None:
    plane.write_text(FILE.replace(old, new, 1))
    outcome = canon("train", "plane.py", "--data", "table.csv", "--set", "train.steps=2")
    assert outcome.code in (1, 2) and sentence in outcome.err, outcome.err
    assert outcome.err.count("\n") == 1


def test_a_mistake_in_the_network_names_its_line(plane: Path, canon: Callable[..., Any]) -> None:
    plane.write_text(FILE.replace("x.flatten(1)", "x.flatten(1).T"))
    outcome = canon("train", "plane.py", "--data", "table.csv", "--set", "train.steps=2")
    line = next(n for n, text in enumerate(plane.read_text().splitlines(), start=1) if "flatten(1).T" in text)
    assert outcome.code == 2 and f"canon: plane.py, line {line}: RuntimeError: " in outcome.err, outcome.err


def test_names_that_are_no_system(plane: Path) -> None:
    with pytest.raises(CanonError, match=r'No system "plane\.py:huge"; did you mean plane\.py:tiny\?'):
        registry.find("plane.py:huge")
    with pytest.raises(CanonError, match=r"There is no file gone\.py, which a system is named by"):
        registry.find("gone.py")
    Path("game.py").write_text("class Game: ...\n")
    assert (
        registry.is_system("plane.py:tiny")
        and not registry.is_system("game.py")
        and not registry.is_system("game.py:Game")
    )
