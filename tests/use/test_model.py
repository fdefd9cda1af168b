"""Using a run: predictions and scores against numpy and scikit-learn on the run's own weights."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import accuracy_score, f1_score, log_loss, mean_squared_error, r2_score, roc_auc_score

import canon
from canon.data.targets import Number
from canon.errors import CanonError
from canon.training.data import read_data
from canon.training.trainer import train
from canon.use.model import Model

SHORT = {"train.steps": 60, "train.batch": 32, "train.threads": 1}


def write(path: Path, names: Sequence[str], rows: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def people(seed: int, count: int) -> tuple[list[list[Any]], list[str]]:
    """Ages and cities, and a label that depends on both, with noise."""
    rng = np.random.default_rng(seed)
    age, city, noise = rng.normal(40, 12, count).round(1), rng.integers(0, 3, count), rng.normal(0, 1, count)
    rows = [[float(a), "PQR"[c]] for a, c in zip(age, city, strict=True)]
    return rows, ["yes" if (a - 40) / 12 + (c == 1) + n > 0 else "no" for a, c, n in zip(age, city, noise, strict=True)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """people.csv and three runs: logistic on it, LeNet on digits, linear regression on diabetes."""
    folder = tmp_path_factory.mktemp("made")
    rows, labels = people(0, 200)
    table = write(
        folder / "people.csv", ["age", "city", "bought"], [[*r, b] for r, b in zip(rows, labels, strict=True)]
    )
    train("logistic-regression", str(table), folder / "people", changes={**SHORT, "data.label": "bought"}, quiet=True)
    train("lenet:tiny", out=folder / "digits", changes=SHORT, quiet=True)
    train("linear-regression", out=folder / "diabetes", changes=SHORT, quiet=True)
    return folder


@pytest.fixture(scope="module")
def logistic(made: Path) -> Model:
    return canon.load(made / "people")


@pytest.fixture(scope="module")
def digits(made: Path) -> Model:
    return canon.load(made / "digits")


def by_hand(model: Model, rows: Sequence[Sequence[Any]]) -> np.ndarray:
    """P(yes): the stored encoders and weights, applied in numpy."""
    state = {name: tensor.double().numpy() for name, tensor in model.network.state_dict().items()}
    age, city = model.schema.encoders
    ages = (np.array([row[0] for row in rows], float) - age.mean) / age.std
    cities = np.array([[row[1] == name for name in city.categories] for row in rows], float)
    scores = np.column_stack([ages, cities]) @ state["output.weight"][0] + state["output.bias"][0]
    return 1 / (1 + np.exp(-scores))


def test_a_table_is_predicted_as_by_hand(logistic: Model, tmp_path: Path) -> None:
    """Columns in another order, one too many and no label; the encoders are those of training."""
    rows, _ = people(1, 30)
    path = write(tmp_path / "new.csv", ["city", "hobby", "age"], [[city, "chess", age] for age, city in rows])
    predictions = logistic.predict([path], top=2)
    assert [row["source"] for row in predictions] == [f"{path}, row {i + 1}" for i in range(30)]
    probability = by_hand(logistic, rows)
    assert [row["prediction"] for row in predictions] == ["yes" if p > 0.5 else "no" for p in probability]
    values = [next(c["probability"] for c in row["top"] if c["class"] == "yes") for row in predictions]
    np.testing.assert_allclose(values, probability, rtol=1e-4)


def test_an_unseen_category_counts_as_none(logistic: Model, tmp_path: Path) -> None:
    path = write(tmp_path / "new.csv", ["age", "city"], [[40.0, "Z"]])
    (result,) = logistic.predict([path], top=2)
    values = {choice["class"]: choice["probability"] for choice in result["top"]}
    np.testing.assert_allclose(values["yes"], by_hand(logistic, [[40.0, "Z"]])[0], rtol=1e-4)


def test_several_files_follow_each_other(logistic: Model, tmp_path: Path) -> None:
    rows, _ = people(2, 7)
    whole = write(tmp_path / "whole.csv", ["age", "city"], rows)
    first = write(tmp_path / "first.csv", ["age", "city"], rows[:3])
    second = write(tmp_path / "second.csv", ["age", "city"], rows[3:])
    parts = logistic.predict([first, second])
    assert [row["prediction"] for row in parts] == [row["prediction"] for row in logistic.predict([whole])]
    assert [row["source"] for row in parts][2:4] == [f"{first}, row 3", f"{second}, row 1"]


def test_other_labelled_data_is_scored_as_by_scikit_learn(logistic: Model, tmp_path: Path) -> None:
    rows, labels = people(3, 80)
    path = write(
        tmp_path / "other.csv", ["bought", "age", "city"], [[b, *r] for r, b in zip(rows, labels, strict=True)]
    )
    scores = logistic.evaluate(path)
    truth, probability = np.array(labels) == "yes", by_hand(logistic, rows)
    reported = probability > 0.5
    assert scores["accuracy"] == accuracy_score(truth, reported)
    assert scores["f1_macro"] == pytest.approx(f1_score(truth, reported, average="macro"), rel=1e-12)
    assert scores["auc"] == pytest.approx(roc_auc_score(truth, probability), rel=1e-9)
    assert scores["loss"] == pytest.approx(log_loss(truth, probability), rel=1e-5)


def test_its_own_splits_are_scored_as_by_scikit_learn(digits: Model) -> None:
    splits = read_data(digits.run.recipe).splits
    result = digits.run.result
    assert result is not None
    for split in ("train", "valid", "test"):
        rows = digits.predict(np.asarray(splits[split]["input"]))
        wanted = accuracy_score(splits[split]["target"], [int(row["prediction"]) for row in rows])
        assert digits.evaluate(split=split)["accuracy"] == wanted == result["scores"][split]["accuracy"]


def test_the_best_weights_are_used(digits: Model) -> None:
    """The checkpoint loaded is the one whose validation score was the best of all evaluations."""
    rows = [row for row in digits.run.metrics() if "valid/accuracy" in row]
    best = max(rows, key=lambda row: (row["valid/accuracy"], -row["valid/loss"]))
    assert digits.checkpoint.name == f"step-{best['step']:08d}"
    assert digits.evaluate(split="valid")["accuracy"] == best["valid/accuracy"]


@pytest.fixture
def pictures(digits: Model, tmp_path: Path) -> tuple[Path, np.ndarray]:
    """The first test digits as PNG files: 0 to 16 stretched to 0 to 255."""
    pixels = np.asarray(read_data(digits.run.recipe).splits["test"]["input"])[:20]
    folder = tmp_path / "pictures"
    folder.mkdir()
    for index, image in enumerate(pixels):
        Image.fromarray(np.rint(image[0] * (255 / 16)).astype(np.uint8)).save(folder / f"{index:02}.png")
    return folder, pixels


def test_images_are_predicted_as_the_arrays_they_were_made_from(
    digits: Model, pictures: tuple[Path, np.ndarray]
) -> None:
    folder, pixels = pictures
    actual, wanted = digits.predict([folder], top=10), digits.predict(pixels, top=10)
    assert [row["source"] for row in actual] == [str(folder / f"{index:02}.png") for index in range(20)]
    assert [row["top"] for row in actual] == [row["top"] for row in wanted], "the same bits: no pixel was changed"
    assert [row["source"] for row in wanted] == [str(index) for index in range(20)]
    (alone,) = digits.predict([folder / "07.png"], top=10)
    reported, wanted_7 = ([choice["probability"] for choice in row["top"]] for row in (alone, actual[7]))
    assert reported == pytest.approx(wanted_7, rel=1e-5), "alone as among others, but for the order of sums"


def test_a_colour_image_of_another_size_is_made_what_the_run_reads(
    digits: Model, pictures: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    """A grey digit saved as RGB gives the same; twice as large, it is brought to 8 × 8 and still read."""
    folder, _ = pictures
    image = Image.open(folder / "03.png")
    image.convert("RGB").save(tmp_path / "colour.png")
    image.resize((16, 16), Image.Resampling.NEAREST).save(tmp_path / "large.png")
    plain, colour, large = digits.predict([folder / "03.png", tmp_path / "colour.png", tmp_path / "large.png"], top=3)
    assert colour["top"] == plain["top"]
    assert large["prediction"] == plain["prediction"]


def test_labelled_images_are_scored(digits: Model, pictures: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    """A folder per class: the accuracy over it against counting."""
    folder, pixels = pictures
    labels = np.asarray(read_data(digits.run.recipe).splits["test"]["target"])[:20]
    for index, label in enumerate(labels):
        (tmp_path / "classes" / str(label)).mkdir(parents=True, exist_ok=True)
        (folder / f"{index:02}.png").rename(tmp_path / "classes" / str(label) / f"{index:02}.png")
    values = [int(row["prediction"]) for row in digits.predict(pixels)]
    assert digits.evaluate(tmp_path / "classes")["accuracy"] == accuracy_score(labels, values)


@pytest.mark.parametrize("top", [1, 3, 10, 99])
def test_probabilities_are_sorted_and_sum_to_one(digits: Model, top: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 17, (5, 1, 8, 8), dtype=np.uint8)
    everything = digits.predict(pixels, top=10)
    for row, whole in zip(digits.predict(pixels, top=top), everything, strict=True):
        assert row["top"] == whole["top"][:top]
        assert row["prediction"] == row["top"][0]["class"]
        values = [choice["probability"] for choice in whole["top"]]
        assert values == sorted(values, reverse=True)
        assert sum(values) == pytest.approx(1, abs=1e-6)
        assert {choice["class"] for choice in whole["top"]} == set("0123456789")


def test_numbers_are_predicted_in_the_units_of_the_data(made: Path) -> None:
    model = canon.load(made / "diabetes")
    test = read_data(model.run.recipe).splits["test"]
    state = {name: tensor.double().numpy() for name, tensor in model.network.state_dict().items()}
    scaled = np.asarray(test["input"]) @ state["output.weight"][0] + state["output.bias"][0]
    target = model.schema.target
    assert isinstance(target, Number)
    wanted = scaled * target.std + target.mean
    scale = [np.array([vars(encoder)[name] for encoder in model.schema.encoders]) for name in ("std", "mean")]
    rows = np.asarray(test["input"], dtype=np.float64) * scale[0] + scale[1]  # as they are in the table
    values = [row["prediction"] for row in model.predict(rows)]
    np.testing.assert_allclose(values, wanted, rtol=1e-5)
    scores = model.evaluate()
    assert scores["mse"] == pytest.approx(mean_squared_error(test["target"], wanted), rel=1e-5)
    assert scores["r2"] == pytest.approx(r2_score(test["target"], wanted), rel=1e-5)


def test_an_array_of_another_shape_is_a_mistake(digits: Model) -> None:
    with pytest.raises(CanonError) as caught:
        digits.predict(np.zeros((3, 64), np.uint8))
    forms = "predicts from a file, a list of these, or an array [N, 1, 8, 8]"
    assert str(caught.value) == f"{digits.run.path} was trained on images and {forms}; got an array [3, 64]."
    assert digits.predict(np.zeros((0, 1, 8, 8), np.uint8)) == []


def test_an_unknown_split_names_those_there_are(digits: Model, made: Path) -> None:
    with pytest.raises(CanonError, match=r'^No split "tests"; did you mean test\?$'):
        digits.evaluate(split="tests")
    with pytest.raises(CanonError, match=r'^No split "valid"; there are: test, train\.$'):
        canon.load(made / "diabetes").evaluate(split="valid")


def test_what_is_not_a_run_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"^There is no run .*nowhere\.$"):
        canon.load(tmp_path / "nowhere")
    with pytest.raises(CanonError, match=r"is not a run: it has no recipe\.toml\.$"):
        canon.load(tmp_path)
