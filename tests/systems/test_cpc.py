"""CPC against `cpc` of the objectives (a loop there), causality, and short trainings on a text and on a series."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import canon
from canon.data.encodings.steps import StepSchema, cut, series
from canon.data.targets import Nothing
from canon.errors import CanonError
from canon.nn.ragged import Layout
from canon.objectives.contrastive import FutureSteps, cpc
from canon.objectives.settings import NoSettings
from canon.registry import find
from canon.training.data import read_data
from canon.training.trainer import train
from tests.battery.runs import SOURCE

B, T, K = 5, 6, 2


def network(**changes: object) -> torch.nn.Module:
    system, _ = find("cpc:tiny")
    torch.manual_seed(0)
    return system.load()[1](system.configure("tiny", dict(changes))).double()


def test_the_loss_is_the_mean_of_cpc_over_steps() -> None:
    own = network(shape=[T, 3])
    x = torch.randn(B, T, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    coded = own(x.flatten(0, 1), Layout(torch.full((B,), T)))
    both = torch.cat([coded.z_SD[:, None], coded.predicted_SKD], dim=1).view(B, T, 1 + K, 16)
    weight = own.ahead.weight.view(K, 16, 24)
    losses = cpc(coded.c_SE.view(B, T, 24), coded.z_SD.view(B, T, 16), weight)
    ours = FutureSteps(NoSettings()).losses(both, (0, B))
    by_strand = torch.cat([part.view(-1, B) for part in losses.split([(T - k) * B for k in (1, 2)])]).mean(0)
    assert torch.allclose(ours, by_strand, rtol=1e-12)
    some = FutureSteps(NoSettings()).losses(both, (1, 3))
    assert torch.allclose(some, ours[1:3], rtol=1e-12)
    judged, right = FutureSteps(NoSettings()).judged(both)
    scores = [
        [((both[i, t, k] @ both[j, t + k, 0]).item(), j) for j in range(B)]
        for i in range(B)
        for k in (1, 2)
        for t in range(T - k)
    ]
    wins = [max(row)[1] == i for row, i in zip(scores, np.repeat(np.arange(B), 9), strict=True)]
    assert right.mean().item() == pytest.approx(np.mean(wins)) and torch.equal(judged, ours)


def test_a_context_knows_nothing_of_what_follows() -> None:
    own = network(vocab_size=9)
    tokens = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8])
    parts, sentences = Layout(torch.tensor([4])), Layout(torch.tensor([2, 3, 1, 2]))
    before = own(tokens, parts, sentences)
    tokens[5:] = 1  # the last two sentences
    after = own(tokens, parts, sentences)
    assert torch.equal(before.c_SE[:2], after.c_SE[:2]) and not torch.equal(before.c_SE[2:], after.c_SE[2:])


def test_strands() -> None:
    assert cut("abcdefg", 3) == ["abc", "def", "efg"] and cut("ab", 3) == []
    schema = StepSchema(Nothing(), (2, 2), steps=2, stride=2, columns=("x",), mean=(1.0,), std=(2.0,))
    rows = series(schema, np.arange(7.0)[:, None], "x")
    assert rows.tolist() == [
        [[-0.5, 0.0], [0.5, 1.0]],
        [[0.5, 1.0], [1.5, 2.0]],
    ]
    with pytest.raises(CanonError, match="has 3 rows, but 2 steps of 2 rows are one strand"):
        series(schema, np.zeros((3, 1)), "few.csv")


def test_a_series_is_learned(tmp_path: Path) -> None:
    """Waves of different lengths, whose next piece follows from those before."""
    rng = np.random.default_rng(0)
    lengths = np.repeat(rng.uniform(6, 40, 60), 100)
    wave = np.sin(np.cumsum(2 * np.pi / lengths)) + 0.05 * rng.normal(size=6000)
    (tmp_path / "wave.csv").write_text("x\n" + "\n".join(f"{value:.4f}" for value in wave) + "\n")
    changes = {
        "data.source": str(tmp_path / "wave.csv"),
        "data.stride": 8,
        "train.steps": 150,
        "train.batch": 32,
        "optimizer.lr": 0.005,
        "train.device": "cpu",
    }
    run = train("cpc:tiny", out=tmp_path / "run", quiet=True, changes=changes)
    scores = run.result["scores"]["test"]  # type: ignore[index]
    assert scores["information"] > 0.3
    rows = canon.load(tmp_path / "run").predict(str(tmp_path / "wave.csv"))
    assert len(rows[0]["context"]) == 24 and rows[0]["source"].endswith("strand 1")
    assert canon.load(tmp_path / "run").evaluate(tmp_path / "wave.csv")["loss"] < math.log(256)


def test_a_probe_tells_documents_and_classes_apart(tmp_path: Path) -> None:
    """A series of two kinds of waves, whose kind is the label; documents of words of their own."""
    rng = np.random.default_rng(0)
    kind = np.repeat(rng.integers(0, 2, 40), 64)
    wave = np.sin(np.cumsum(2 * np.pi / np.where(kind, 5, 20))) + 0.05 * rng.normal(size=len(kind))
    rows = [f"{value:.4f},{'fast' if of else 'slow'}" for value, of in zip(wave, kind, strict=True)]
    (tmp_path / "wave.csv").write_text("x,kind\n" + "\n".join(rows) + "\n")
    changes = {"data.source": str(tmp_path / "wave.csv"), "data.stride": 4, "data.steps": 4, "data.label": "kind"}
    run = train("cpc:tiny", out=tmp_path / "run", quiet=True, changes={**changes, "train.steps": 60})
    data = read_data(run.recipe, run.path)
    part = data.splits["valid"]
    assert data.schema.columns == ("x",) and set(part["probe"].tolist()) == {0, 1}  # type: ignore[attr-defined]
    curve = [row["valid/probe_accuracy"] for row in run.metrics() if "valid/probe_accuracy" in row]
    assert curve and curve[-1] > 0.7
    other = canon.load(run.path).evaluate(tmp_path / "wave.csv")
    assert other["probe_accuracy"] > 0.7  # type: ignore[operator]
    text = [" ".join(f"We {word} it {i}." for i in range(size)) for word, size in (("see", 24), ("eat", 16), ("do", 8))]
    (tmp_path / "text.txt").write_text("\n\n".join(text))
    more = {"data.source": str(tmp_path / "text.txt"), "data.valid": 0.0, "data.test": 0.0, "data.steps": 4}
    run = train("cpc:tiny", out=tmp_path / "t", quiet=True, changes={**more, "train.steps": 3})
    probe = read_data(run.recipe, run.path).splits["train"]["probe"].tolist()  # type: ignore[union-attr]
    assert probe == [0] * 6 + [1] * 4 + [-1] * 2  # of the third there are too few
    assert run.result["scores"]["train"]["probe_accuracy"] == 1  # type: ignore[index]
    (tmp_path / "n.csv").write_text("x,time\n" + "\n".join(f"{value:.4f},{i}" for i, value in enumerate(wave)) + "\n")
    with pytest.raises(CanonError, match=r'the column "time" \(data.label\) has 2,560 classes; a probe takes 2 to 50'):
        train("cpc:tiny", str(tmp_path / "n.csv"), tmp_path / "x", changes={"data.label": "time"}, quiet=True)


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    def fit(**changes: object) -> None:
        train("cpc:tiny", out=tmp_path / "x", quiet=True, changes={"train.steps": 1, **changes})

    (tmp_path / "short.txt").write_text("One sentence.\n\nAnother one.\n")
    with pytest.raises(CanonError, match=r"no document of the train split has 8 sentences; lower data\.steps"):
        fit(**{"data.source": str(tmp_path / "short.txt"), "data.valid": 0.0, "data.test": 0.0})
    with pytest.raises(CanonError, match=r"system\.ahead is 9, but strands have 4 steps"):
        fit(**{"data.source": SOURCE["future-steps"], "data.steps": 4, "system.ahead": 9})
    with pytest.raises(CanonError, match=r"train\.batch to 2 or more"):
        fit(**{"data.source": SOURCE["future-steps"], "data.steps": 4, "train.batch": 1})
    (tmp_path / "names.csv").write_text("x,y\na,b\nc,d\n")
    with pytest.raises(CanonError):
        fit(**{"data.source": str(tmp_path / "names.csv")})
