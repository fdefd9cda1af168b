"""Scorers of documents: what they compute, on lists end to end, and a run from a file to ranked documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
import torch
from torch import nn

from canon.data.batching.lists import Grades, Lists
from canon.nn.ragged import Layout
from canon.systems.ranking import attention, fm, linear, mlp
from canon.systems.ranking.head import Head, Scorer
from canon.tasks.rankings import measures
from canon.training.run import Run
from canon.training.trainer import train

QUERIES = Path(__file__).parents[1] / "battery" / "queries.letor"
SIZES = [3, 1, 7, 2]
SHORT = {"train.epochs": 3}


def networks() -> list[nn.Module]:
    torch.manual_seed(0)
    built: list[nn.Module] = [
        linear.LinearRanker(linear.Config(shape=(5,))),
        mlp.MLPRanker(mlp.Config(shape=(5,), hidden=(8, 4), norm="layer")),
        fm.FMRanker(fm.Config(shape=(5,), dim=3)),
        attention.AttentionRanker(attention.Config(shape=(5,), dim=8, hidden=16)),
    ]
    for network in built:
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.5)
    return [network.eval() for network in built]


@pytest.mark.parametrize("network", networks(), ids=lambda network: type(network).__name__)
def test_a_query_is_scored_as_if_it_were_alone_and_in_any_order(network: nn.Module) -> None:
    x = torch.randn(sum(SIZES), 5, generator=torch.Generator().manual_seed(1))
    whole = network(x, Layout(torch.tensor(SIZES)))
    assert whole.shape == (sum(SIZES),)
    start = 0
    for size in SIZES:
        own = x[start : start + size]
        torch.testing.assert_close(network(own, Layout(torch.tensor([size]))), whole[start : start + size])
        turned = network(own.flip(0), Layout(torch.tensor([size])))
        torch.testing.assert_close(turned.flip(0), whole[start : start + size])
        start += size


def test_only_attention_sees_the_other_documents() -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(2))
    other = torch.cat([x[:3], x[3:] + 1])
    layout = Layout(torch.tensor([4]))
    seen = [not torch.allclose(network(x, layout)[0], network(other, layout)[0]) for network in networks()]
    assert seen == [False, False, False, True]


def test_heads_put_out_what_objectives_ask_for() -> None:
    hidden = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    assert Head(4, Scorer(head="grades", grades=5))(hidden).shape == (6, 5)
    ordered = Head(4, Scorer(head="ordered", grades=5))
    with torch.no_grad():
        ordered.gap.copy_(torch.tensor([-2.0, 0.0, 1.0]))
        logits = ordered(hidden)
        score = hidden @ ordered.output.weight[0] + ordered.output.bias
    thresholds = score[:, None] - logits
    assert (thresholds.diff(dim=1) > 0).all()
    wanted = np.cumsum([0.0, np.exp(-2.0), 1.0, np.e])
    assert thresholds[0].tolist() == pytest.approx(wanted.tolist(), abs=1e-5)


@pytest.mark.parametrize("head", ["score", "grades", "ordered"])
def test_a_factorization_machine_is_the_sum_over_pairs_of_features(head: Any) -> None:
    network = fm.FMRanker(fm.Config(shape=(4,), dim=3, grades=3, head=head))
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(4))
    linear_NK = network.head(x).reshape(6, -1)
    found_NK = network(x).reshape(6, -1)
    for n in range(6):
        for k, factors in enumerate(network.factors.expand(linear_NK.shape[1], -1, -1)):
            pairs = sum(factors[i] @ factors[j] * x[n, i] * x[n, j] for i in range(4) for j in range(i + 1, 4))
            torch.testing.assert_close(found_NK[n, k], linear_NK[n, k] + pairs, rtol=1e-4, atol=1e-5)


def test_measures_are_those_of_trec_eval() -> None:
    draw = np.random.default_rng(0)
    grades = Grades.of([draw.integers(0, 2, size).astype(float) for size in (8, 20, 5, 12)])
    scores = draw.permutation(len(grades.values)).astype(float)  # none are equal
    measured = measures(grades, scores)
    judged = {f"q{q}": {f"d{d}": int(g) for d, g in enumerate(own)} for q, own in enumerate(grades)}
    run = {
        f"q{q}": {f"d{d}": float(s) for d, s in enumerate(own)} for q, own in enumerate(Lists(scores, grades.offsets))
    }
    names = {"ndcg_cut_10": "ndcg@10", "map": "map", "recip_rank": "mrr", "P_5": "precision@5"}
    by_query = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "map", "recip_rank", "P.5"}).evaluate(run)
    for theirs, ours in names.items():
        assert measured[ours] == pytest.approx(np.mean([each[theirs] for each in by_query.values()]))


def test_a_run_ranks_documents(tmp_path: Path, canon: Callable[..., Any]) -> None:
    run = train("mlp-ranker:tiny", str(QUERIES), tmp_path / "run", changes=SHORT, quiet=True)
    scores = json.loads(canon("evaluate", str(run.path), "--data", str(QUERIES), "--json").out)
    assert scores["ndcg@10"] > 0.6
    rows = json.loads(canon("rank", str(run.path), str(QUERIES), "--json").out)
    own = [row for row in rows if row["source"] == "query 3"]
    assert [row["rank"] for row in own] == list(range(1, len(own) + 1))
    assert [row["score"] for row in own] == sorted((row["score"] for row in own), reverse=True)
    assert all(row["document"].startswith("D3-") for row in own)
    done = canon("rank", str(run.path), str(QUERIES), "--trec", "mine", "--out", str(tmp_path / "mine.run"))
    assert done.code == 0
    scores_of: dict[str, dict[str, float]] = {}
    for line in (tmp_path / "mine.run").read_text().splitlines():
        query, q0, document, _, score, name = line.split()
        assert (q0, name) == ("Q0", "mine")
        scores_of.setdefault(query, {})[document] = float(score)
    judged: dict[str, dict[str, int]] = {}
    for line in QUERIES.read_text().splitlines()[1:]:
        cells = line.split()
        judged.setdefault(cells[1][4:], {})[cells[-1]] = int(cells[0])
    assert {query: set(own) for query, own in scores_of.items()} == {query: set(own) for query, own in judged.items()}
    by_query = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(scores_of)
    assert scores["map"] == pytest.approx(np.mean([each["map"] for each in by_query.values()]), abs=1e-6)
    assert canon("rank", str(run.path), str(QUERIES), "--trec", "a b").code == 2


def test_equal_scores_are_ranked_as_they_come(tmp_path: Path) -> None:
    from canon.use.ranking import RankedDocument, trec_lines

    rows = [RankedDocument("1", "query 1", rank, f"d {rank}", 0.5) for rank in (1, 2, 3)]
    lines = [line.split() for line in trec_lines(iter(rows), "x")]
    assert [cells[2] for cells in lines] == ["d_1", "d_2", "d_3"]
    values = [float(cells[4]) for cells in lines]
    assert values[0] > values[1] > values[2]


def test_only_rankers_rank(tmp_path: Path, canon: Callable[..., Any]) -> None:
    train("mlp:tiny", "iris", tmp_path / "run", changes={"train.epochs": 1}, quiet=True)
    done = canon("rank", str(tmp_path / "run"), "iris")
    assert done.code == 2 and "does not rank documents" in done.err


def test_any_scorer_takes_any_loss(tmp_path: Path) -> None:
    """What the objective needs of the network is decided by its record, and kept by the run."""
    for system, name, head in (
        ("linear-ranker:tiny", "mcrank", "grades"),
        ("linear-ranker:tiny", "ordinal-hinge", "ordered"),
        ("fm-ranker:tiny", "cumulative-logit", "ordered"),
        ("fm-ranker:tiny", "pair-bpr", "score"),
        ("linear-ranker:tiny", "listnet", "score"),
    ):
        changes = {**SHORT, "train.epochs": 1, "objective.name": name}
        run = train(system, str(QUERIES), tmp_path / name, changes=changes, quiet=True)
        assert Run.open(run.path).recipe.config.head == head and run.result is not None
        assert np.isfinite(run.result["scores"]["test"]["loss"])
