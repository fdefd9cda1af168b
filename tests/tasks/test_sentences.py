"""Scores of sentence vectors against scipy, loops and align_uniform's formulas; what bad data says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import canon
from canon.data.encodings.texts import SentenceSchema
from canon.data.targets import Match, Nothing, Score
from canon.errors import CanonError
from canon.registry import find
from canon.tasks.sentence_pictures import main_directions, neighbourhoods, sentence_map
from canon.tasks.sentences import SentenceTask
from canon.training.trainer import train
from tests.objectives.choices import choice


def task(name: str, of: str, schema: SentenceSchema) -> SentenceTask:
    return SentenceTask(choice(name, of), find("embed:tiny")[0].configure("tiny", {}), schema)


def vectors(n: int, C: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, C, 6, generator=torch.Generator().manual_seed(seed))


def test_similarity_is_scipys_with_ties_averaged() -> None:
    from scipy import stats

    made = task("cosent", "similarity", SentenceSchema(Score(low=0.0, high=5.0), width=2))
    x = vectors(30, 2)
    given = np.random.default_rng(0).integers(0, 6, 30).astype(np.float32)
    origin = np.repeat([0, 1, 1], 10)
    columns = {"target": given, "keys": np.arange(60).reshape(30, 2), "origin": origin}
    scores = made.score({"vectors": x.numpy()}, columns)
    cosine = torch.cosine_similarity(x[:, 0].double(), x[:, 1].double()).numpy()
    assert scores["spearman"] == pytest.approx(stats.spearmanr(given, cosine).statistic)
    assert scores["pearson"] == pytest.approx(stats.pearsonr(given, cosine).statistic)
    each = [stats.spearmanr(given[origin == f], cosine[origin == f]).statistic for f in (0, 1)]
    assert scores["spearman_mean"] == pytest.approx(np.mean(each))
    assert scores["spearman_wmean"] == pytest.approx((each[0] * 10 + each[1] * 20) / 30)
    unit = torch.nn.functional.normalize(x.double(), dim=2)
    alike = unit[torch.from_numpy(given > 4)]
    assert scores["alignment"] == pytest.approx((alike[:, 0] - alike[:, 1]).norm(dim=1).pow(2).mean().item())
    flat = unit.flatten(0, 1)
    pairs = [math.exp(-2 * (flat[i] - flat[j]).norm().item() ** 2) for i in range(60) for j in range(i)]
    assert scores["uniformity"] == pytest.approx(math.log(np.mean(pairs)))


def test_retrieval_ranks_all_other_texts() -> None:
    """A loop; equal texts are one, and ties go by row."""
    made = task("mnrl", "retrieval", SentenceSchema(Match(), width=3))
    x, keys = vectors(12, 3), np.arange(36).reshape(12, 3)
    x[5, 1], keys[5, 1] = x[2, 1], keys[2, 1]  # one text for two queries
    x[7, 0], keys[7, 0] = x[3, 0], keys[3, 0]  # one query with two texts
    x[8, 2] = x[8, 1]  # a tie
    scores = made.score({"vectors": x.numpy()}, {"keys": keys})
    unit = torch.nn.functional.normalize(x.double(), dim=2)
    texts: dict[int, torch.Tensor] = {}
    for row in range(12):
        for c in (1, 2):
            texts.setdefault(int(keys[row, c]), unit[row, c])
    ranks = {}
    for row in range(12):
        query = int(keys[row, 0])
        order = sorted(texts, key=lambda key, row=row: -(unit[row, 0] @ texts[key]).item())
        ranks.setdefault(query, set()).add(order.index(int(keys[row, 1])))
    first = [min(places) for places in ranks.values()]
    assert len(first) == 11
    assert scores["hit@1"] == pytest.approx(np.mean([place == 0 for place in first]))
    assert scores["mrr@10"] == pytest.approx(np.mean([1 / (place + 1) if place < 10 else 0 for place in first]))
    recall = [np.mean([place < 10 for place in places]) for places in ranks.values()]
    assert scores["recall@10"] == pytest.approx(np.mean(recall))


def test_answers_of_a_question_are_ranked_among_themselves() -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    made = task("cosent", "similarity", SentenceSchema(Score(), width=2))
    x = vectors(12, 2)
    keys = np.stack([np.repeat([0, 1, 2], 4), np.arange(10, 22)], axis=1)
    given = np.array([1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0], dtype=np.float32)
    scores = made.score({"vectors": x.numpy()}, {"target": given, "keys": keys})
    cosine = torch.cosine_similarity(x[:, 0].double(), x[:, 1].double()).numpy()
    assert scores["auc"] == pytest.approx(roc_auc_score(given, cosine))
    asked = [slice(0, 4), slice(8, 12)]  # the second question has no right answer
    assert scores["map"] == pytest.approx(np.mean([average_precision_score(given[s], cosine[s]) for s in asked]))
    first = [1 + np.argmax(given[s][np.argsort(-cosine[s])]) for s in asked]
    assert scores["mrr"] == pytest.approx(np.mean([1 / rank for rank in first]))


def test_the_map_is_pca() -> None:
    from sklearn.decomposition import PCA

    x = vectors(40, 1)[:, 0].numpy().astype(np.float64)
    place, share = main_directions(x)
    theirs = PCA(2, svd_solver="full").fit(x)
    assert share == pytest.approx(theirs.explained_variance_ratio_)
    assert np.abs(place) == pytest.approx(np.abs(theirs.transform(x)), abs=1e-9)


def test_neighbourhoods_stay_together() -> None:
    """Of two groups far apart, a text's nearest ones in the map are of its own group."""
    draws = np.random.RandomState(0)
    x = np.repeat(np.eye(8)[:2], 12, axis=0) + 0.05 * draws.randn(24, 8)
    place = neighbourhoods(x, "tsne")
    apart = np.linalg.norm(place[:, None] - place[None], axis=2) + 1e9 * np.eye(24)
    assert (apart.argmin(1) // 12 == np.arange(24) // 12).all()
    with pytest.raises(CanonError, match=r"needs 5 texts at least, and there are 3"):
        neighbourhoods(x[:3], "tsne")
    with pytest.raises(CanonError, match=r"No map \(--by\)"):
        sentence_map(x, by="mds")


def test_views_without_dropout_are_remarked() -> None:
    made = task("simcse", "sentence-views", SentenceSchema(Nothing()))
    network = find("embed:tiny")[0].load()[1](made.config)
    token = torch.zeros(4, dtype=torch.int64)
    batch = {
        "input": token,
        "segment": token,
        "input_lengths": torch.tensor([2, 2]),
        "part_lengths": torch.tensor([1, 1]),
        "keys": torch.tensor([[1], [2]]),
    }
    from canon.tasks.base import Turn

    made.loss(network, batch, "all", Turn())
    assert made.remarks[0].startswith("Nothing is dropped (dropout is 0)")


# ---- bad data


PAIRS = ["sentence1,sentence2,score", *(f"one text {i},another text {i},{i % 6}" for i in range(12))]
TRIPLES = ["anchor,positive,negative", *(f"a text {i},its text {i},other text {i}" for i in range(12))]


def lines_of(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.mark.parametrize(
    ("lines", "changes", "sentence"),
    [
        (TRIPLES, {"train.batch": 1}, "mnrl compares the rows of a batch with each other, but the batch has one row"),
        (TRIPLES, {"train.batch": 1, "objective.name": "simcse"}, "simcse compares the rows of a batch"),
        (PAIRS, {"train.batch": 1}, "cosent compares the rows of a batch"),
        ([row.rpartition(",")[0] for row in TRIPLES], {"objective.name": "triplet"}, "has 2 texts in a row"),
        (PAIRS, {"data.score_range": [0.0, 4.0]}, r"line 7: the score 5 is not between 0 and 4 \(data.score_range\)"),
        (PAIRS, {"data.score_range": [4.0, 0.0]}, "data.score_range must be two rising numbers"),
        (PAIRS, {"objective.name": "mnrl"}, "has scores, not pairs that all belong together"),
        (PAIRS, {"objective.name": "softmax-nli"}, "has no column of classes"),
        (TRIPLES, {"objective.name": "cosine"}, "has no column of scores"),
        (TRIPLES, {"data.features": ["anchor", "passage"]}, 'data.features: no column "passage"'),
        ([*PAIRS, "one,two,high"], {}, 'line 14: the score .* must be a number, got "high"'),
        ([PAIRS[0], "a b,c d,3", "e f,g h,3"], {}, "every score is 3"),
        (["text", "a b c", "d e f"], {"objective.name": "mnrl"}, "has one text in each row"),
        ([TRIPLES[0], ",b c,d e", "a b,,c d"], {}, "every row has an empty text"),
        ([TRIPLES[0], *["a b,c d,e f"] * 9], {}, "no two rows with different texts"),
        ([], {}, "data.csv is empty"),
        (TRIPLES, {"system.backbone": "gpt2", "system.pooling": "cls"}, r"gpt2 has no \[CLS\] token for cls"),
        (TRIPLES, {"system.pooling": "middle"}, "system.pooling"),
        (TRIPLES, {"train.init": "nowhere"}, "from: there is no run, file or folder nowhere"),
    ],
)
def test_bad_data_is_a_sentence(lines: list[str], changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    base = {"data.source": lines_of(tmp_path / "data.csv", lines), "train.steps": 1, "train.device": "cpu"}
    with pytest.raises(CanonError, match=sentence) as mistake:
        train("embed:tiny", out=tmp_path / "run", quiet=True, changes={"data.valid": 0.0, **base, **changes})
    assert "\n" not in str(mistake.value) and not (tmp_path / "run").exists()


def test_empty_truncated_and_repeated_texts_are_counted(tmp_path: Path) -> None:
    rows = [*TRIPLES, "word " * 60 + ",b,c", "a,,c", TRIPLES[1]]
    base = {"data.source": lines_of(tmp_path / "data.csv", rows), "train.steps": 1, "data.max_length": 16}
    more = {"data.valid": 0.0, "data.test": 0.0, "train.device": "cpu"}
    run = train("embed:tiny", out=tmp_path / "run", quiet=True, changes={**base, **more})
    notes = " ".join(run.data["notes"])
    assert "1 of 15 rows have an empty text and are left out (the first: line 15)" in notes
    assert "1 of 42 texts are longer than 16 tokens and cut" in notes
    assert "1 of 14 training rows have the texts of an earlier row" in notes


@pytest.mark.parametrize(
    ("name", "backbone", "pooling"),
    [
        ("gpt2", {"dim": 16, "num_layers": 2, "num_heads": 2, "hidden": 32, "max_positions": 64}, ["last"]),
        ("t5", {"dim": 16, "num_layers": 1, "num_heads": 2, "hidden": 32, "head_dim": 8}, ["mean", "max"]),
        (
            "elmo",
            {"char_dim": 4, "filters": [[1, 8], [2, 8]], "num_highway": 1, "hidden": 8, "projection": 4},
            ["mean"],
        ),
        ("xlnet", {"dim": 16, "num_layers": 2, "num_heads": 2, "hidden": 32}, ["cls", "first-last", "top-2"]),
    ],
)
def test_any_encoder_takes_any_objective(
    name: str, backbone: dict[str, Any], pooling: list[str], tmp_path: Path
) -> None:
    triples, pairs = lines_of(tmp_path / "t.csv", TRIPLES), lines_of(tmp_path / "p.csv", PAIRS)
    for objective, data in {"mnrl": triples, "triplet": triples, "simcse": triples, "cosent": pairs}.items():
        changes: dict[str, Any] = {
            "system.backbone": name,
            "system.settings": backbone,
            "system.pooling": pooling,
            "objective.name": objective,
            "data.source": data,
            "train.steps": 2,
            "train.batch": 4,
            "train.device": "cpu",
        }
        run = train("embed", out=tmp_path / objective, quiet=True, changes=changes)
        assert run.result is not None
    dim = {"elmo": 8}.get(name, 16) * len(pooling)
    assert len(canon.load(tmp_path / "mnrl").predict("a text")[0]["vector"]) == dim
