"""What the report shows of rankers and recommenders, against counts by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import canon as package
from canon.report.facts import gather
from canon.report.run import write_report
from canon.training.run import Run
from tests.systems.made_events import events

pytest.importorskip("numba")


def test_queries_against_the_best_feature(tmp_path: Path) -> None:
    draw, lines = np.random.default_rng(0), []
    for query in range(120):
        for grade in draw.integers(0, 3, 6).tolist():
            x = (draw.random(), -grade + draw.normal(0, 0.8), grade + draw.normal(0, 0.8))  # the second one falls
            lines.append(f"{grade} qid:{query} " + " ".join(f"{n}:{value:.4f}" for n, value in enumerate(x, 1)))
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    more = {"train": {"epochs": 20}, "optimizer": {"lr": 0.1}}
    path = package.train("linear-ranker:tiny", data=str(tmp_path / "a.txt"), out=tmp_path / "run", quiet=True, **more)
    orders = gather(Run.open(path.path))["orders"]
    assert orders is not None and orders["kind"] == "rankings" and orders["feature"] in ("2", "3")
    assert orders["rising"] == (orders["feature"] == "2") and sum(orders["counts"].values()) == orders["examples"]
    changes = [row["change"] for row in orders["queries"]]
    assert changes == sorted(changes, reverse=True) and len(changes) <= 16
    middle = [one["quantiles"][2] for one in orders["grades"]]
    assert [one["grade"] for one in orders["grades"]] == [0, 1, 2] and middle == sorted(middle)
    scores = package.load(path.path).evaluate()
    assert orders["means"][1] == pytest.approx(scores["ndcg@10"])
    html = write_report(Run.open(path.path)).read_text()
    assert "Scores by grade" in html and "Against the order by feature" in html


def test_recommendations_are_counted(tmp_path: Path) -> None:
    users, items = events(40, each=8)
    rows = "".join(f"u{user},i{item}\n" for user, item in zip(users, items, strict=True))
    (tmp_path / "a.csv").write_text("user,item\n" + rows)
    run = package.train(
        "ials:tiny", data=str(tmp_path / "a.csv"), out=tmp_path / "run", quiet=True, train={"epochs": 3}
    )
    orders = gather(Run.open(run.path))["orders"]
    assert orders is not None and orders["kind"] == "recommendations"
    assert orders["coverage"] == sorted(orders["coverage"])
    assert orders["coverage"][-1] == pytest.approx(package.load(run.path).evaluate()["coverage"])
    shares = orders["popularity"]
    assert shares["events"] == sorted(shares["events"]) and shares["events"][-1] == shares["recommended"][-1] == 1
    model = package.load(run.path)
    places = {one["item"]: one["place"] for one in orders["map"]}
    known = [places[name] for name in model.schema.items]
    factors = model.learner.arrays["items"] / np.linalg.norm(model.learner.arrays["items"], axis=1, keepdims=True)
    wanted = (factors - factors.mean(0)) @ np.linalg.svd(factors - factors.mean(0))[2][:2].T
    assert np.abs(np.array(known)) == pytest.approx(np.abs(wanted), abs=1e-3)
    assert "Who is recommended" in write_report(Run.open(run.path)).read_text()
