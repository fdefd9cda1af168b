"""The scores of recommended items against sorting all scores by hand, and who may be compared with whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

from canon import registry
from canon.compare.compare import compare_runs
from canon.data.batching.sequences import Uneven
from canon.errors import CanonError
from canon.tasks import table as tasks
from canon.training.trainer import train
from tests.battery.runs import SOURCE
from tests.systems.made_events import data_of, events, learner_of


def by_hand(scores: np.ndarray, seen: set[int], targets: list[int], chosen: set[int] | None) -> dict[str, float]:
    ranked = [i for i in np.argsort(-scores).tolist() if i not in seen and (chosen is None or i in chosen)]
    places = sorted(ranked.index(target) for target in targets)
    gain = sum(1 / np.log2(place + 2) for place in places if place < 10)
    ideal = sum(1 / np.log2(place + 2) for place in range(min(len(targets), 10)))
    right = sum(ranked.index(t) < k for t in targets for k in range(len(ranked)) if ranked[k] not in targets)
    return {
        "hit@1": float(places[0] == 0),
        "hit@10": float(places[0] < 10),
        "ndcg@10": gain / ideal,
        "recall@20": sum(place < 20 for place in places) / len(places),
        "user_auc": right / (len(targets) * (len(ranked) - len(targets))),
    }


@pytest.mark.parametrize("sampled", [False, True])
def test_scores_are_those_of_sorting(sampled: bool) -> None:
    users, items = events(30, 40, 8)
    data = data_of(users, items)
    learner = learner_of("bpr", data, steps=20, batch=240, dim=8, lr=0.1)
    for step in range(1, 21):
        learner.step(step)
    random = np.random.default_rng(1)
    rows: list[tuple[set[int], list[int], set[int]]] = []
    for user in range(30):
        seen = set(items[users == user].tolist())
        left = [item for item in range(40) if item not in seen]
        targets = sorted(random.choice(left, 1 if sampled else random.integers(1, 5), replace=False).tolist())
        rows.append((seen, targets, {*random.choice(left, 12, replace=False).tolist(), *targets}))

    def lists(of: list[Any]) -> Uneven:
        return Uneven(np.array([i for row in of for i in sorted(row)], np.int32), np.array(list(map(len, of))))

    columns: dict[str, Any] = {"input": np.arange(30, dtype=np.int32)}
    columns |= {"history": lists([row[0] for row in rows]), "target": lists([row[1] for row in rows])}
    if sampled:
        columns["candidates"] = lists([row[2] for row in rows])
    system, _ = registry.find("bpr")
    scores = tasks.create(system, learner.config, data.schema).score(learner.outputs(columns), columns)
    table = learner.scores(np.arange(30), learner.seen)
    whole = [by_hand(table[user], seen, targets, None) for user, (seen, targets, _) in enumerate(rows)]
    asked = [by_hand(table[user], *row) for user, row in enumerate(rows)] if sampled else whole
    for name in asked[0]:
        assert scores[name] == pytest.approx(np.mean([each[name] for each in asked])), name
    if sampled:
        assert scores["full_hit@10"] == pytest.approx(np.mean([each["hit@10"] for each in whole]))
        assert scores["full_ndcg@10"] == pytest.approx(np.mean([each["ndcg@10"] for each in whole]))


@pytest.mark.parametrize("sampled", [False, True])
def test_the_guess_is_the_order_by_popularity(sampled: bool) -> None:
    """Of items with different counts, so that no order is by chance."""
    random = np.random.default_rng(2)
    counts = random.permutation(40) + 1
    data = data_of(*events(30, 40, 8))
    data = replace(data, schema=replace(data.schema, counts=tuple(counts.tolist())))
    learner = learner_of("bpr", data, dim=4)
    rows = [random.permutation(40) for _ in range(25)]
    seen = [set(row[:9].tolist()) for row in rows]
    asked = [row[9 : 10 + user % 3].tolist() for user, row in enumerate(rows)]
    chosen = [{*row[9:25].tolist()} for row in rows]

    def lists(of: list[Any]) -> Uneven:
        return Uneven(np.array([i for row in of for i in sorted(row)], np.int32), np.array(list(map(len, of))))

    task = tasks.create(registry.find("bpr")[0], learner.config, data.schema)
    guess = task._popular(lists(seen), lists(asked), lists(chosen) if sampled else None)  # type: ignore[attr-defined]
    scores = counts.astype(float)
    wanted = [by_hand(scores, *row) for row in zip(seen, asked, chosen if sampled else [None] * 25, strict=True)]
    assert guess == pytest.approx(np.mean([each["ndcg@10"] for each in wanted]))


def test_unlike_protocols_are_not_compared(tmp_path: Path) -> None:
    changes = {"train.steps": 2, "train.batch": 50}
    runs = []
    for protocol in ("loo-full", "loo-sampled-5"):
        for name in ("popular", "bpr:tiny"):
            out = tmp_path / f"{name.partition(':')[0]}-{protocol}"
            train(name, SOURCE["recommendation"], out, changes={**changes, "data.protocol": protocol}, quiet=True)
            runs.append(out)

    assert compare_runs(runs[:2], tmp_path / "alike")
    with pytest.raises(CanonError, match="protocol of one is loo-full, of the other loo-sampled-5"):
        compare_runs([runs[0], runs[3]], tmp_path / "unlike")
