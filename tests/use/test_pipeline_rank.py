"""A ranker in a pipeline: trained on candidates by canon's trainer, several weighted by hand, explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import canon as library
from canon.errors import CanonError
from canon.use.pipeline.pipeline import Pipeline
from canon.use.pipeline.rank import z_scores

WORDS = "ash birch cedar elm fir gum hazel ivy larch maple oak pine".split()  # noqa: SIM905
RECIPE = """
[documents]
source = "docs.jsonl"
columns = ["stars"]
[queries]
source = "queries.jsonl"
qrels = "qrels.txt"
[[recall]]
name = "bm25"
top = 12
[rank]
features = ["bm25-lucene.title", "bm25-lucene.body", "stars"]
"""
TRAINED = 'recipe = "linear-ranker:tiny"\nset = { "train.steps" = 40, "optimizer.lr" = 0.1, "train.batch" = 20 }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 documents of two words of titles and bodies; of those with a query's word in the title the starred are right,
    which BM25 over the whole text cannot see."""
    draw = np.random.default_rng(0)
    documents = []
    for i in range(60):
        title, body = draw.choice(WORDS, 2), draw.choice(WORDS, 6)
        documents.append({"id": f"d{i}", "title": " ".join(title), "body": " ".join(body), "stars": i % 5})
    queries = [f"{a} {b}" for a in WORDS for b in WORDS if a < b]
    judged = [
        f"q{n} 0 {row['id']} {int(bool(set(query.split()) & set(row['title'].split())) and row['stars'] > 2)}\n"
        for n, query in enumerate(queries)
        for row in documents
    ]
    Path("docs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in documents))
    texts = ({"id": f"q{n}", "query": query} for n, query in enumerate(queries))
    Path("queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in texts))
    Path("qrels.txt").write_text("".join(judged))
    return tmp_path


def test_a_ranker_is_trained_and_beats_what_it_reads(folder: Path, canon: Callable[..., Any]) -> None:
    Path("trees.toml").write_text(RECIPE + TRAINED)
    outcome = canon("train", "trees.toml", "--out", "run", "--quiet", "--json")
    assert outcome.code == 0, outcome.err
    stages = {row["stage"]: row for row in json.loads(outcome.out)["stages"]}
    assert stages["rank"]["ndcg@10"] > stages["bm25"]["ndcg@10"] and stages["rank"]["p"] < 0.05
    row = json.loads(canon("search", "run", "oak pine", "--explain", "--json").out)[0]["results"][0]
    names = ["bm25-lucene.title", "bm25-lucene.body", "stars", "bm25-inverse-rank", "bm25-score"]
    assert list(row["features"]) == names and row["features"]["stars"] == row["stars"]
    assert json.loads(canon("evaluate", "run", "--json").out) == list(stages.values())
    outcome = canon("rank", "run", "features.csv")
    assert (
        outcome.code == 2 and "run is a pipeline" in outcome.err and "its ranker is the run run/rank/run" in outcome.err
    )
    # The ranker is a run like any other, and its scores are those that it predicts for the pipeline's features.
    answer = Pipeline.open("run").answer(["oak pine"])[0]
    ranked = library.load("run/rank/run").predict(answer.features, top=100)[0]["top"]
    docs = answer.recalled.candidates.docs[[int(one["document"]) - 1 for one in ranked]]
    assert docs.tolist() == answer.stages["rank"].docs.tolist()
    assert [one["score"] for one in ranked] == pytest.approx(answer.stages["rank"].scores.tolist())


def test_several_rankers_are_added_as_z(folder: Path, canon: Callable[..., Any]) -> None:
    Path("one.toml").write_text(RECIPE + TRAINED)
    Path("two.toml").write_text(RECIPE + TRAINED.replace("40", "2"))
    for name in ("one", "two"):
        assert canon("train", f"{name}.toml", "--out", name, "--quiet").code == 0
    runs = 'runs = [{ run = "one/rank/run", weight = 0.25 }, { run = "two/rank/run", weight = 2.0 }]\n'
    Path("both.toml").write_text(RECIPE + runs)
    assert canon("train", "both.toml", "--out", "both", "--quiet").code == 0
    scores = {}
    for name in ("one", "two", "both"):
        ordered = Pipeline.open(name).answer(["ash elm"])[0].stages["rank"]
        scores[name] = ordered.scores[np.argsort(ordered.docs)]
    z = {name: (values - values.mean()) / values.std() for name, values in scores.items()}
    assert scores["both"] == pytest.approx(0.25 * z["one"] + 2 * z["two"], abs=1e-5)
    assert z_scores(np.array([1.0, 3.0, 5.0]), np.array([0, 2, 3])).tolist() == [-1, 1, 0]


def test_a_ranker_of_other_features_is_refused(folder: Path, canon: Callable[..., Any]) -> None:
    Path("one.toml").write_text(RECIPE + TRAINED)
    assert canon("train", "one.toml", "--out", "one", "--quiet").code == 0
    Path("two.toml").write_text(RECIPE.replace(', "stars"]', "]") + 'runs = [{ run = "one/rank/run" }]\n')
    outcome = canon("train", "two.toml", "--out", "two")
    assert outcome.code == 2 and "was trained on other features" in outcome.err
    Path("none.toml").write_text(RECIPE.replace('source = "queries.jsonl"\nqrels = "qrels.txt"\n', "") + TRAINED)
    assert "give judged queries" in canon("train", "none.toml", "--out", "none").err


def test_what_was_killed_goes_on(folder: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("one.toml").write_text(RECIPE + TRAINED)
    whole = canon("train", "one.toml", "--out", "whole", "--quiet", "--json")

    def stop(*arguments: object, **more: object) -> None:
        raise CanonError("stopped.")

    with monkeypatch.context() as patch:
        patch.setattr("canon.training.trainer.train", stop)
        assert canon("train", "one.toml", "--out", "cut", "--quiet").code == 2
    again = canon("train", "one.toml", "--out", "cut", "--quiet", "--resume", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["stages"] == json.loads(whole.out)["stages"]
