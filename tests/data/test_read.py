"""`read` on built-in sets against scikit-learn's arrays, on tables against brute force, and its splits and records."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from canon.data.config import DataConfig
from canon.data.encodings import Ask, find
from canon.data.encodings.pixels import PixelSchema
from canon.data.kinds.text import TEXT
from canon.data.read import read
from canon.data.schema import Schema
from canon.data.splits import hold_out
from canon.data.targets import Class, Nothing, Number, Target
from canon.errors import CanonError
from tests.reading import read_as

FASHION = Path("/usr/share/datasets/fashion-mnist")


def rows_of(
    num_examples: int, classes: np.ndarray | None, test: float = 0.2, valid: float = 0.1
) -> dict[str, np.ndarray]:
    """The rows of each split by the documented rule: test first, then valid of what is left."""
    kept, tested = hold_out(num_examples, test, 0, "test", classes)
    train, valid_rows = hold_out(len(kept), valid, 0, "valid", None if classes is None else classes[kept])
    return {"train": kept[train], "valid": kept[valid_rows], "test": tested}


def test_digits_are_scikit_learns() -> None:
    images, labels = datasets.load_digits(return_X_y=True)
    data = read_as(DataConfig(source="digits"), "pixels")
    assert data.schema == PixelSchema(
        Class(tuple("0123456789"), counts=tuple(np.bincount(labels[rows_of(len(labels), labels)["train"]]).tolist())),
        (1, 8, 8),
        mean=(0.0,),
        std=(16.0,),
        white=16,
    )
    for name, rows in rows_of(len(labels), labels).items():
        np.testing.assert_array_equal(np.asarray(data.splits[name]["input"]).reshape(-1, 64), images[rows])
        np.testing.assert_array_equal(data.splits[name]["target"], labels[rows])
    assert data.protocol["split"] == {"test": "0.2 of each class", "valid": "0.1 of each class"}
    assert data.protocol["sizes"] == {"train": 1294, "valid": 144, "test": 359}


@pytest.mark.parametrize("name", ["iris", "wine", "breast-cancer"])
def test_tables_of_classes_are_scikit_learns(name: str) -> None:
    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    data = read_as(DataConfig(source=name), "features")
    names = bunch.target_names[bunch.target]
    assert data.schema.classes == tuple(sorted(bunch.target_names))
    codes = np.searchsorted(np.array(data.schema.classes), names)
    split = rows_of(len(codes), codes)
    scaler = StandardScaler().fit(bunch.data[split["train"]])
    for part, rows in split.items():
        np.testing.assert_array_equal(data.splits[part]["target"], codes[rows])
        np.testing.assert_allclose(data.splits[part]["input"], scaler.transform(bunch.data[rows]), rtol=1e-4, atol=1e-5)


def test_diabetes_is_scikit_learns() -> None:
    bunch = datasets.load_diabetes(scaled=False)
    data = read_as(DataConfig(source="diabetes"), "features", target=Number)
    split = rows_of(len(bunch.target), None)
    np.testing.assert_array_equal(data.splits["test"]["target"], bunch.target[split["test"]].astype(np.float32))
    assert data.schema.target.mean == pytest.approx(bunch.target[split["train"]].mean())
    assert data.schema.target.std == pytest.approx(bunch.target[split["train"]].std())


@pytest.mark.skipif(not FASHION.is_dir(), reason="the package dataset-fashion-mnist is not installed")
def test_fashion_mnist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANON_DATA", str(tmp_path))
    data = read_as(DataConfig(source="fashion-mnist"), "pixels")
    assert data.protocol["sizes"] == {"train": 54000, "valid": 6000, "test": 10000}
    assert np.bincount(np.asarray(data.splits["test"]["target"])).tolist() == [1000] * 10
    whole = read_as(DataConfig(source="fashion-mnist", valid=0.0), "pixels")
    # The values that every published use of the set has: 0.2860 and 0.3530 on the 0-1 scale.
    assert whole.schema.mean[0] / 255 == pytest.approx(0.2860, abs=5e-5)
    assert whole.schema.std[0] / 255 == pytest.approx(0.3530, abs=5e-5)


def table(path: Path, count: int = 40, header: str = "size,colour,label") -> list[list[str]]:
    rng = np.random.default_rng(3)
    rows = [[f"{rng.normal():.3f}", "rgb"[index % 3], ("yes", "no")[index % 2]] for index in range(count)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return rows


def test_csv_against_brute_force(tmp_path: Path) -> None:
    rows = table(tmp_path / "t.csv")
    data = read_as(DataConfig(source=str(tmp_path / "t.csv")), "features")
    assert data.schema.classes == ("no", "yes")
    codes = np.array([["no", "yes"].index(row[2]) for row in rows])
    split = rows_of(40, codes, test=0.1)
    sizes = np.array([float(row[0]) for row in rows])
    known = sizes[split["train"]]
    for name, chosen in split.items():
        for result, row, code in zip(np.asarray(data.splits[name]["input"]), chosen, codes[chosen], strict=True):
            one_hot = [float(rows[row][1] == colour) for colour in "bgr"]
            np.testing.assert_allclose(result, [(sizes[row] - known.mean()) / known.std(), *one_hot], rtol=1e-5)
            assert (code == 1) == (rows[row][2] == "yes")
    record = data.files[0]
    assert record.sha256 == hashlib.sha256((tmp_path / "t.csv").read_bytes()).hexdigest()
    assert 'The label is the column "label".' in data.notes
    json.dumps(data.protocol)


def test_given_files_and_own_splits(tmp_path: Path) -> None:
    for name, count in (("train.csv", 30), ("dev.csv", 8), ("test.csv", 6), ("other.csv", 5)):
        table(tmp_path / name, count)
    (tmp_path / "other.csv").rename(tmp_path / "more.data")
    own = read_as(DataConfig(source=str(tmp_path)), "features")
    assert own.protocol["sizes"] == {"train": 30, "valid": 8, "test": 6}
    (tmp_path / "more.data").rename(tmp_path.parent / "more.csv")
    given = DataConfig(source=str(tmp_path / "train.csv"), valid=0.0, test=str(tmp_path.parent / "more.csv"))
    data = read_as(given, "features")
    assert data.protocol["sizes"] == {"train": 30, "test": 5} and data.protocol["split"]["test"] == "file more.csv"
    assert len(data.files) == 2


def test_limit_takes_a_fair_sample_of_the_training_split(tmp_path: Path) -> None:
    table(tmp_path / "t.csv", 100)
    whole = read_as(DataConfig(source=str(tmp_path / "t.csv")), "features")
    data = read_as(DataConfig(source=str(tmp_path / "t.csv"), limit=20), "features")
    assert np.bincount(np.asarray(data.splits["train"]["target"])).tolist() == [10, 10]
    np.testing.assert_array_equal(data.splits["test"]["target"], whole.splits["test"]["target"])


def test_the_fingerprint_follows_content_and_split(tmp_path: Path) -> None:
    table(tmp_path / "a.csv")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").write_bytes((tmp_path / "a.csv").read_bytes())

    def fingerprint(source: str, **settings: object) -> str:
        return read_as(DataConfig(source=source, **settings), "features").fingerprint()  # type: ignore[arg-type]

    first = fingerprint(str(tmp_path / "a.csv"))
    assert first == fingerprint(str(tmp_path / "sub" / "a.csv"))
    assert first != fingerprint(str(tmp_path / "a.csv"), seed=1)
    (tmp_path / "a.csv").write_text((tmp_path / "a.csv").read_text().replace("r", "g", 1))
    assert first != fingerprint(str(tmp_path / "a.csv"))


def test_number_targets_stay_raw(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i * 100}\n" for i in range(10)), encoding="utf-8")
    data = read_as(DataConfig(source=str(path), valid=0.0, test=0.0), "features", target=Number)
    assert data.splits["train"]["target"].tolist() == [100.0 * i for i in range(10)]  # type: ignore[union-attr]
    assert data.schema.target.mean == 450.0 and data.schema.target.std == pytest.approx(np.arange(0, 1000, 100).std())
    assert set(data.splits) == {"train"}


def test_targets_may_be_left_out(tmp_path: Path) -> None:
    table(tmp_path / "t.csv")
    data = read_as(DataConfig(source=str(tmp_path / "t.csv"), label="label"), "features", target=Nothing)
    assert set(data.splits["train"]) == {"input"} and data.schema.shape == (4,)


def test_the_schema_survives_its_files(tmp_path: Path) -> None:
    cases: tuple[tuple[str, str, type[Target]], ...] = (
        ("digits", "pixels", Class),
        ("iris", "features", Class),
        ("diabetes", "features", Number),
    )
    for name, encoding, target in cases:
        schema = read_as(DataConfig(source=name), encoding, target=target).schema
        for file, text in schema.files().items():
            (tmp_path / file).write_text(text, encoding="utf-8")
        assert Schema.open(tmp_path) == schema


@pytest.mark.parametrize(
    "source,encodings,sentence",
    [
        ("iris", ("pixels",), "lenet reads images, but iris is a table."),
        ("digits", ("features", "windows"), "lenet reads tables or running text, but digits is a set of images."),
    ],
)
def test_the_wrong_kind_of_data(source: str, encodings: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CanonError) as caught:
        read(DataConfig(source=source), [find(name) for name in encodings], Ask((Class,), "lenet"))
    assert str(caught.value) == sentence


def test_python_texts_are_english_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from canon.data.catalogue import builtin

    monkeypatch.setattr(builtin, "_modules", lambda: iter([Path(json.__file__), Path(csv.__file__)]))

    def texts(name: str) -> list[str]:
        return list(TEXT.source(DataConfig(source=name)).parts["train"].documents)

    assert texts("python-source") == [Path(module.__file__).read_text() for module in (json, csv)]
    assert (json.dump.__doc__ or "")[:60].strip() in "\n".join(texts("python-docs"))
