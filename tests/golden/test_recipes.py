"""Every recipe that needs neither a download nor a GPU, run as it is: what it reaches against what it says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from canon import recipe as recipes
from canon.data.catalogue import builtin
from canon.training import trainer
from canon.training.run import Run
from canon.training.trainer import train
from tests.battery.runs import built_in_recipes, threads

# The figures that the systems are held to, whatever the recipe says.
TARGETS = {"linear/digits-softmax": 0.95, "linear/digits-mlp": 0.97, "vision/digits-lenet": 0.97}
# Built-in texts are the running Python's own; what a recipe says was measured with those of this one.
TEXTS_OF = (3, 11)
LONG = 10  # seconds, as a recipe's first line has them, from which on `make test` makes the first steps alone;
# a learner may have no other than its whole training


@pytest.fixture(scope="module", autouse=True)
def _read_once() -> Iterator[None]:
    """The text that several recipes are for is read for the first of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtin, "python_docs", cache(lambda read=builtin.python_docs: tuple(read())))
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a recipe, made once; before it the one that it starts from."""

    @cache
    def run(name: str) -> Run:
        init = {"train.init": str(run(needed).path)} if (needed := recipes.load(name).needs) else {}
        out = tmp_path_factory.mktemp("golden") / "run"
        return train(name, out=out, changes=changes(name) | init, quiet=True)

    return run


def changes(name: str) -> dict[str, Any]:
    return {"train.threads": threads(recipes.load(name).system), "train.device": "cpu"}


def seconds(name: str) -> float:
    """Of a recipe and of the one that it starts from, as their first lines say."""
    takes = (recipes.RECIPES / f"{name}.toml").read_text().splitlines()[0]
    own = 60 if "minute" in takes else int(match[1]) if (match := re.search(r"about (\d+) seconds", takes)) else 0
    return own + (seconds(needed) if (needed := recipes.load(name).needs) else 0)


def is_long(name: str) -> bool:
    return seconds(name) >= (60 if recipes.load(name).system.loop == "learner" else LONG)


def by_length(name: str) -> object:
    """Recipes that take long are run to their end by `make test-all` only."""
    return pytest.param(name, marks=pytest.mark.slow) if is_long(name) else name


def require_texts(name: str) -> None:
    if recipes.load(name).data.source.startswith("python-") and sys.version_info[:2] != TEXTS_OF:
        pytest.skip(f"measured with the texts of Python {'.'.join(map(str, TEXTS_OF))}")


def check_curve(run: Run, curve: Mapping[str, Any]) -> None:
    rows = run.metrics()
    for key, points in curve.items():
        own = {row["step"]: row[key] for row in rows if key in row}
        for step, low, high in points:
            assert low <= own[step] <= high, (key, step)


BEGUN = [name for name in built_in_recipes() if is_long(name) and seconds(name) < 60 and not recipes.load(name).needs]


@pytest.mark.parametrize("name", BEGUN)
def test_a_long_recipe_begins_as_it_says(name: str, tmp_path: Path) -> None:
    """Up to the second point of its curves."""
    require_texts(name)
    curve = {key: points[:2] for key, points in recipes.load(name).expect["curve"].items()}
    last = max(points[-1][0] for points in curve.values())
    recipe, path = trainer.plan(name, "", tmp_path / "run", False, changes(name))
    training = trainer.Trainer(recipe, path, trainer.enter_world(recipe.train), quiet=True)
    learn = training.learner.step

    def stop_after(step: int) -> bool:
        training.signals.number = 2 if step > last else 0
        return learn(step)

    training.learner.step = stop_after  # type: ignore[method-assign]
    with pytest.raises(trainer.Interrupted):
        training.fit()
    check_curve(Run(path), curve)


@pytest.mark.parametrize("name", [by_length(name) for name in built_in_recipes()])
def test_a_recipe_reaches_what_it_says(name: str, trained: Callable[[str], Run]) -> None:
    require_texts(name)
    run = trained(name)
    assert run.result is not None
    scores = run.result["scores"]["test"]
    expect = dict(recipes.load(name).expect)
    curve = expect.pop("curve")
    assert expect.keys() == {f"test/{key}" for key in scores}
    for key, (low, high) in expect.items():
        assert low <= scores[key.removeprefix("test/")] <= high, key
    check_curve(run, curve)
    assert scores.get("accuracy", 1.0) >= TARGETS.get(name, 0.0)
