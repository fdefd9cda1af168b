"""Recommendations by the command and by Python: for users of training, for new ones, for nobody known; and why."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")

import canon as package
from canon.errors import CanonError
from canon.training.trainer import train
from tests.battery.runs import SOURCE

SYSTEMS = ("bpr", "mf", "ials", "item-knn", "popular")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recommend")
    changes = {"train.steps": 150, "train.batch": 100, "train.threads": 1}
    for name in SYSTEMS:
        train(f"{name}:tiny", SOURCE["recommendation"], folder / name, changes=changes, quiet=True)
    return {name: folder / name for name in SYSTEMS}


def had() -> dict[str, set[str]]:
    rows = csv.DictReader(Path(SOURCE["recommendation"]).read_text().splitlines())
    of: dict[str, set[str]] = {}
    for row in rows:
        of.setdefault(row["user"], set()).add(row["item"])
    return of


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_user_of_training_gets_what_it_has_not_and_predict_says_the_same(name: str, runs: dict[str, Path]) -> None:
    model = package.load(runs[name])
    for user in ("u00", "u17"):
        answer = model.recommend(user=user, top=5)
        items = [row["item"] for row in answer["items"]]
        assert answer["how"] == "trained" and len(set(items)) == 5 and not set(items) & had()[user]
        scores = [row["score"] for row in answer["items"]]
        assert scores == sorted(scores, reverse=True)
        assert all(set(row["because"]) <= had()[user] for row in answer["items"])
        predicted = model.predict([user], top=5, text=True)[0]["top"]
        assert [row["score"] for row in predicted] == pytest.approx(scores, rel=1e-5)


@pytest.mark.parametrize("name", ["bpr", "mf", "ials", "item-knn"])
def test_items_of_a_group_bring_more_of_it_and_are_the_reason(name: str, runs: dict[str, Path]) -> None:
    answer = package.load(runs[name]).recommend(items=["i03", "i09", "i12"], top=24)
    assert answer["how"] == "fold-in" and answer["note"] == ""
    ranks = {
        own: [row["rank"] for row in answer["items"] if (int(row["item"][1:]) % 3 == 0) is own] for own in (True, False)
    }
    assert sum(ranks[True]) / len(ranks[True]) < sum(ranks[False]) / len(ranks[False]) - 2
    assert {reason for row in answer["items"] for reason in row["because"]} <= {"i03", "i09", "i12"}
    assert any(row["because"] for row in answer["items"])


@pytest.mark.parametrize("name", SYSTEMS)
def test_nobody_known_gets_what_most_have_and_hears_so(name: str, runs: dict[str, Path]) -> None:
    model = package.load(runs[name])
    answer = model.recommend(user="nobody", top=3)
    counts = dict(zip(model.schema.items, model.schema.counts, strict=True))
    assert [counts[row["item"]] for row in answer["items"]] == sorted(counts.values(), reverse=True)[:3]
    assert answer["how"] == "popular" and "most users have" in answer["note"]
    assert model.predict(["nobody"], text=True)[0]["unknown_user"]
    unknown = model.recommend(items=["i99"])
    assert unknown["how"] == "popular" and "not in training: i99" in unknown["note"]


def test_the_command(runs: dict[str, Path], tmp_path: Path, canon: Callable[..., Any]) -> None:
    run = str(runs["item-knn"])
    (tmp_path / "titles.dat").write_text("".join(f"i{n:02}::Film {n} (1995)::Drama\n" for n in range(24)))
    plain = canon("recommend", run, "--user", "u00", "--titles", str(tmp_path / "titles.dat"), "--top", "3")
    assert plain.code == 0 and "For user u00" in plain.out and "(1995)" in plain.out and "you have Film" in plain.out
    answer = json.loads(canon("recommend", run, "--items", "i00,i03", "--json").out)
    assert answer["given"] == ["i00", "i03"] and answer["items"][0]["rank"] == 1
    out = tmp_path / "best.jsonl"
    assert canon("recommend", run, "--user", "u00", "--user", "u01", "--out", str(out)).code == 0
    assert [json.loads(line)["user"] for line in out.read_text().splitlines()] == ["u00", "u01"]
    neither = canon("recommend", run)
    assert neither.code == 2 and "Give --user U, or --items A,B, one of both." in neither.err


def test_other_runs_recommend_nothing(tmp_path: Path) -> None:
    other = train("mlp:tiny", "iris", tmp_path / "mlp", changes={"train.steps": 2}, quiet=True)
    with pytest.raises(CanonError, match="is a run of mlp, which recommends nothing"):
        package.load(other.path).recommend(user="u00")
