"""Every recipe that trains in seconds, run as it is: what it reaches against what it says it reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from canon import recipe as recipes
from canon.training.trainer import train

# The figures that the systems are held to, whatever the recipe says.
TARGETS = {"linear/digits-softmax": 0.95, "linear/digits-mlp": 0.97, "vision/digits-lenet": 0.97}
# Another processor adds in another order: a curve may leave its band by this much of its value.
SLACK = 0.05


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_reaches_what_it_says(name: str, tmp_path: Path) -> None:
    run = train(name, out=tmp_path / "run", changes={"train.threads": 1, "train.device": "cpu"}, quiet=True)
    assert run.result is not None
    scores = run.result["scores"]["test"]
    expect = dict(recipes.load(name).expect)
    curve = expect.pop("curve")
    assert expect.keys() == {f"test/{key}" for key in scores}
    for key, (low, high) in expect.items():
        value = scores[key.removeprefix("test/")]
        assert low - SLACK * abs(low) <= value <= high + SLACK * abs(high), key
    rows = run.metrics()
    for key, points in curve.items():
        own = {row["step"]: row[key] for row in rows if key in row}
        for step, low, high in points:
            margin = SLACK * abs(high) + 0.01
            assert low - margin <= own[step] <= high + margin, (key, step)
    assert scores.get("accuracy", 1.0) >= TARGETS.get(name, 0.0)
