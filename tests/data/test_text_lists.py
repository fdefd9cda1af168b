"""Queries with lists of texts, against rows written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canon.data.config import DataConfig
from canon.data.formats.text_lists import has_lists
from canon.data.kinds import kind_of
from canon.data.kinds.sentences import SENTENCES
from canon.errors import CanonError

QUERIES: list[dict[str, Any]] = [
    {"query": "q1", "pos": ["a", "b"], "neg": ["x", "y", "z"]},
    {"query": "q2", "pos": ["c"], "neg": ["u", "v"]},
    {"query": "q3", "pos": "d", "neg": ["s", "t", "w"]},
]
ROWS = [("q1", "a", "x", "y"), ("q1", "b", "x", "y"), ("q2", "c", "u", "v"), ("q3", "d", "s", "t")]


def write(path: Path, rows: list[dict[str, Any]]) -> DataConfig:
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        listed = [
            {name: [value] if isinstance(value, str) and name != "query" else value for name, value in row.items()}
            for row in rows
        ]
        pq.write_table(pa.Table.from_pylist(listed), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return DataConfig(source=str(path), valid=0.0, test=0.0)


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_each_text_that_belongs_is_a_row_with_equally_many_others(ending: str, tmp_path: Path) -> None:
    config = write(tmp_path / f"data.{ending}", QUERIES)
    assert kind_of(config) is SENTENCES
    source = SENTENCES.source(config)
    rows = source.parts["train"]
    assert list(rows.sentences) == ROWS
    assert list(rows.groups) == [0, 0, 1, 2]
    assert rows.where(3) == ("row 3" if ending == "parquet" else "line 3")
    assert 'each text of "pos" is a row with 2 of "neg"' in " ".join(source.notes)


def test_lists_without_others_are_pairs(tmp_path: Path) -> None:
    config = write(tmp_path / "data.jsonl", [{"question": row["query"], "positives": row["pos"]} for row in QUERIES])
    assert list(SENTENCES.source(config).parts["train"].sentences) == [row[:2] for row in ROWS]


def test_lists_of_numbers_are_something_else(tmp_path: Path) -> None:
    write(tmp_path / "data.jsonl", [{"query": "q", "pos": [1, 2], "text": "a b c"}] * 3)
    assert has_lists(tmp_path / "data.jsonl") == ()


def test_plain_columns_of_these_names_are_a_table(tmp_path: Path) -> None:
    config = write(
        tmp_path / "data.jsonl", [{"query": "q", "pos": "a", "neg": "x"}, {"query": "r", "pos": "b", "neg": "y"}]
    )
    assert list(SENTENCES.source(config).parts["train"].sentences) == [("q", "a", "x"), ("r", "b", "y")]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([QUERIES[0], {"query": "q", "pos": [{"id": 3}], "neg": []}], "line 2: \"pos\" must hold texts, got {'id': 3}"),
        ([QUERIES[0], {"query": "q", "pos": ["a"], "neg": [3]}], 'line 2: "neg" must hold texts, got 3'),
        ([QUERIES[0], {"query": None, "pos": ["a"], "neg": ["b"]}], 'line 2: "query" must hold texts, got None'),
        ([{"query": "q", "pos": [], "neg": ["b"]}], 'every list "pos" is empty'),
    ],
)
def test_mistakes_name_the_line(rows: list[dict[str, Any]], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(CanonError) as mistake:
        SENTENCES.source(write(tmp_path / "data.jsonl", rows))
    assert sentence in str(mistake.value)
