"""Encoders against scikit-learn's StandardScaler and OneHotEncoder; labels against hand-made ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from canon.data import column_plan, columns
from canon.data.column_encoders import CategoryColumn, CentredLabels, ColumnEncoder
from canon.data.formats.tables import Table
from canon.errors import CanonError

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(5, 3, (40, 2))
COLOURS = np.array(RNG.choice(["red", "green", "blue"], 40), dtype=object)
TABLE = Table("t", {"a": NUMBERS[:, 0], "b": NUMBERS[:, 1], "colour": COLOURS})
ROWS = np.arange(0, 40, 2)


def fitted(table: Table, names: tuple[str, ...], rows: np.ndarray, missing: str = "error") -> tuple[ColumnEncoder, ...]:
    return column_plan.plan(table, names, rows, missing, CentredLabels(np.zeros((len(rows), 1)))).encoders


def test_features_equal_scikit_learns() -> None:
    encoders = fitted(TABLE, ("a", "b", "colour"), ROWS)
    actual = column_plan.apply(TABLE, encoders, "error")
    scaled = StandardScaler().fit(NUMBERS[ROWS]).transform(NUMBERS)
    one_hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(COLOURS[ROWS, None])
    expected = np.hstack([scaled, one_hot.transform(COLOURS[:, None])])
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_rows_that_were_not_trained_on_change_nothing() -> None:
    other = Table("t", {**TABLE._cells, "a": np.where(np.arange(40) % 2, 1e6, NUMBERS[:, 0])})
    assert fitted(other, ("a",), ROWS) == fitted(TABLE, ("a",), ROWS)


def test_an_unseen_category_is_all_zeros() -> None:
    encoder = CategoryColumn("colour", categories=("blue", "green"))
    table = Table("t", {"colour": np.array(["green", "violet", "aqua", "blue"], dtype=object)})
    assert column_plan.apply(table, [encoder], "error").tolist() == [[0, 1], [0, 0], [0, 0], [1, 0]]


def test_a_constant_column_becomes_zero() -> None:
    table = Table("t", {"c": np.full(5, 3.0)})
    encoders = fitted(table, ("c",), np.arange(5))
    assert encoders[0].std == 1.0 and not column_plan.apply(table, encoders, "error").any()


def test_missing_numbers_become_the_training_mean() -> None:
    table = Table("t", {"c": np.array(["1", "", "3", "nan", "100"], dtype=object)})
    encoders = fitted(table, ("c",), np.arange(4), "mean")
    assert encoders[0].mean == 2.0 and encoders[0].std == 1.0
    assert column_plan.apply(table, encoders, "mean").tolist() == [[-1, 0], [0, 1], [1, 0], [0, 1], [98, 0]]


def labels(*texts: str) -> Table:
    return Table("t", {"y": np.array(texts, dtype=object)})


def test_numeric_classes_are_in_numeric_order() -> None:
    table = labels("10", "9", "2.0", "02", "9")
    classes = columns.class_names(table, "y")
    assert classes == ("2", "9", "10")
    assert columns.class_codes(table, "y", classes).tolist() == [2, 1, 0, 0, 1]


def test_text_classes_are_in_the_order_of_their_characters() -> None:
    table = labels("b", "a", "10")
    classes = columns.class_names(table, "y")
    assert classes == ("10", "a", "b")
    assert columns.class_codes(table, "y", classes).tolist() == [2, 1, 0]


def test_the_label_is_guessed_and_reported() -> None:
    assert (
        columns.choose_label(Table("t", {"Class": np.zeros(1), "y": np.zeros(1), "z": np.zeros(1)}), "")[0] == "Class"
    )
    for last, sentence in (("species", 'the column "species"'), ("b", 'the last column, "b"')):
        name, note = columns.choose_label(Table("t", {"a": np.zeros(1), last: np.zeros(1)}), "")
        assert name == last and note == f"The label is {sentence}; data.label chooses another."


@pytest.mark.parametrize(
    "column,message",
    [
        ([f"id{i}" for i in range(30)], r'no column to predict from \("c": 30 different texts in 30 rows\)'),
        ([str(i) for i in range(29)] + ["x7"], 'row 30: column "c" has numbers elsewhere, but "x7" here'),
        ([""] * 30, r'no column to predict from \("c": empty\)'),
        (["1"] * 29 + ["inf"], 'row 30: column "c" is infinite'),
    ],
)
def test_columns_that_cannot_be_features(column: list[str], message: str) -> None:
    table = Table("t", {"c": np.array(column, dtype=object)})
    with pytest.raises(CanonError, match=message):
        fitted(table, ("c",), np.arange(30), "error" if "x7" in column else "mean")


def test_too_many_numeric_labels_are_no_classes() -> None:
    table = Table("t", {"y": np.arange(100.0)})
    with pytest.raises(CanonError, match="100 different values in 100 rows, too many for classes"):
        columns.class_names(table, "y")
