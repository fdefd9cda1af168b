"""Every recipe that needs neither a download nor a GPU, run as it is: what it reaches against what it says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from canon import recipe as recipes
from canon.data.catalogue import builtin
from canon.training.run import Run
from canon.training.trainer import train
from tests.battery.runs import built_in_recipes, threads

# The figures that the systems are held to, whatever the recipe says.
TARGETS = {"linear/digits-softmax": 0.95, "linear/digits-mlp": 0.97, "vision/digits-lenet": 0.97}
# Built-in texts are the running Python's own; what a recipe says was measured with those of this one.
TEXTS_OF = (3, 11)


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
        changes = {"train.threads": threads(recipes.load(name).system), "train.device": "cpu"}
        if needed := recipes.load(name).needs:
            changes["train.init"] = str(run(needed).path)
        return train(name, out=tmp_path_factory.mktemp("golden") / "run", changes=changes, quiet=True)

    return run


def by_length(name: str) -> object:
    """Recipes that take minutes are run by `make test-all` only."""
    takes = (recipes.RECIPES / f"{name}.toml").read_text().splitlines()[0]
    return pytest.param(name, marks=pytest.mark.slow) if "minute" in takes else name


@pytest.mark.parametrize("name", [by_length(name) for name in built_in_recipes()])
def test_a_recipe_reaches_what_it_says(name: str, trained: Callable[[str], Run]) -> None:
    if recipes.load(name).data.source.startswith("python-") and sys.version_info[:2] != TEXTS_OF:
        pytest.skip(f"measured with the texts of Python {'.'.join(map(str, TEXTS_OF))}")
    run = trained(name)
    assert run.result is not None
    scores = run.result["scores"]["test"]
    expect = dict(recipes.load(name).expect)
    curve = expect.pop("curve")
    assert expect.keys() == {f"test/{key}" for key in scores}
    for key, (low, high) in expect.items():
        assert low <= scores[key.removeprefix("test/")] <= high, key
    rows = run.metrics()
    for key, points in curve.items():
        own = {row["step"]: row[key] for row in rows if key in row}
        for step, low, high in points:
            assert low <= own[step] <= high, (key, step)
    assert scores.get("accuracy", 1.0) >= TARGETS.get(name, 0.0)
