"""Table files against Python's csv and json modules, pyarrow against the slow reader, and where rows are in a file."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canon.data.config import DataConfig
from canon.data.formats import tables
from canon.data.formats.cells import parse_number
from canon.data.formats.tables import canonical, read_table
from canon.errors import CanonError

CONFIG = DataConfig()
ROWS = [["a", "b, c", "1.5"], ['say "hi"', "two\nlines", "-3e2"], ["", "é中", " 7 "]]


def write_csv(path: Path, header: list[str], rows: list[list[str]], **options: str) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **options).writerows([header, *rows])  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("fast", [True, False])
def test_csv_cells_equal_the_csv_modules(tmp_path: Path, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fast:
        monkeypatch.setattr(tables, "arrow_columns", lambda *_: None)
    path = write_csv(tmp_path / "t.csv", ["x", "y", "z"], ROWS)
    table = read_table(path, CONFIG)
    assert table.names == ("x", "y", "z")
    for index, name in enumerate(table.names):
        assert table.texts(name).tolist() == [row[index] for row in ROWS]
    values, bad = table.numbers("z")
    assert values.tolist() == [1.5, -300.0, 7.0] and not bad.any()
    assert table.numbers("y")[1].tolist() == [True, True, True]


cell = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=6)


@settings(max_examples=60)
@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=8))
def test_fast_and_slow_readers_agree(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("p", "q"), *rows])
    text = buffer.getvalue()
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    slow = tables._slow_columns(path, islice(tables.csv_rows(path, "utf-8", ","), 1, None), ("p", "q"))
    assert [tuple(row) for row in zip(slow["p"], slow["q"], strict=True)] == rows
    fast = tables.arrow_columns(path, "utf-8", ",", ("p", "q"), 1)
    if fast is not None:
        assert [tuple(row) for row in zip(*(fast[name].to_pylist() for name in "pq"), strict=True)] == rows


@pytest.mark.parametrize("opener,suffix", [(gzip.open, ".gz"), (lzma.open, ".xz"), (bz2.open, ".bz2")])
def test_compressed_tables_are_the_plain_ones(tmp_path: Path, opener, suffix: str) -> None:
    plain = write_csv(tmp_path / "t.csv", ["x", "y"], [["1", "2"], ["3", "4"]])
    packed = tmp_path / f"t.csv{suffix}"
    with opener(packed, "wb") as file:
        file.write(plain.read_bytes())
    assert read_table(packed, CONFIG).texts("y").tolist() == read_table(plain, CONFIG).texts("y").tolist()


def test_tab_separated_files_know_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('text\tlabel\nthe "best\t1\n"worst" of all\t0\n', encoding="utf-8")
    assert read_table(path, CONFIG).texts("text").tolist() == ['the "best', '"worst" of all']


def test_json_lines_equal_the_json_module(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": "x"}, {"b": "y", "c": True}, {"a": None, "c": 2.5}]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    table = read_table(path, CONFIG)
    assert table.names == ("a", "b", "c")
    assert table.texts("a").tolist() == ["1", "", ""]
    assert table.texts("c").tolist() == ["", "true", "2.5"]
    assert np.array_equal(table.numbers("a")[0], [1.0, np.nan, np.nan], equal_nan=True)


def test_parquet_equals_what_was_written(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "n": pa.array([1, None, 3]),
        "x": pa.array([0.5, 1.0, -2.0]),
        "s": pa.array(["a", "b", None]),
        "d": pa.array(["u", "v", "u"]).dictionary_encode(),
        "t": pa.array([True, False, True]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", CONFIG)
    assert np.array_equal(table.numbers("n")[0], [1.0, np.nan, 3.0], equal_nan=True)
    assert table.texts("n").tolist() == ["1", "", "3"]
    assert table.numbers("x")[0].tolist() == [0.5, 1.0, -2.0]
    assert table.texts("s").tolist() == ["a", "b", ""]
    assert table.texts("d").tolist() == ["u", "v", "u"]
    assert table.texts("t").tolist() == ["true", "false", "true"]
    assert table.line(2) == "row 3"


def test_line_counts_quoted_line_ends_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"x\ny"\n\n2,z\n', encoding="utf-8")
    table = read_table(path, CONFIG)
    assert [table.line(row) for row in range(2)] == ["line 2", "line 5"]


def test_encodings_and_byte_order_marks(tmp_path: Path) -> None:
    text = "nom,y\nété,1\nhiver,0\n"
    for encoding, setting in (
        ("latin-1", "latin-1"),
        ("utf-16", "utf-16"),
        ("utf-8-sig", "utf-8"),
        ("gb18030", "gb18030"),
    ):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes(text.encode(encoding))
        table = read_table(path, DataConfig(encoding=setting))
        assert table.names == ("nom", "y") and table.texts("nom")[0] == "été"


def test_header_of_counting_numbers_is_a_header(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ["0", "1", "label"], [["5.1", "2", "a"], ["3", "4", "b"]])
    assert read_table(path, CONFIG).names == ("0", "1", "label")


@pytest.mark.parametrize(
    "text,value", [("1", 1.0), (" 2.5e-1 ", 0.25), ("x", None), ("1_000", None), ("-inf", -np.inf)]
)
def test_parse_number(text: str, value: float | None) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "NA", "nan", "NULL", "None", "#N/A"])
def test_missing_cells_are_nan(text: str) -> None:
    result = parse_number(text)
    assert result is not None and np.isnan(result)


def test_few_cells_are_read_as_many_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few by Python, which needs no pyarrow.compute; many by Arrow."""
    cells = ["1", " 2.5 ", "", "NA", "nan", "-inf", "1e3", ".5", "+4", "1_000", "three", "٣", "$5", "0x10"]
    path = tmp_path / "cells.csv"
    path.write_text("a,b\n" + "".join(f"{cell},{number}\n" for number, cell in enumerate(cells)), encoding="utf-8")
    read = []
    for few in (tables.FEW, 0):
        monkeypatch.setattr(tables, "FEW", few)
        table = read_table(path, DataConfig())
        read.append((*table.numbers("a"), table.numbers("b")[0], list(table.stream("a", np.arange(2, 9)))))
    np.testing.assert_equal(read[0], read[1])
    assert np.flatnonzero(read[0][1]).tolist() == [9, 10, 12, 13] and read[0][3] == cells[2:9]


def test_canonical_gives_one_name_to_one_number() -> None:
    assert {canonical(text) for text in ("1", "1.0", "01", "1e0")} == {"1"}
    assert canonical("0.50") == "0.5" and canonical("cat") == "cat"


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ["a", "b"], [["1", "2"]])
    with pytest.raises(CanonError, match=r"data\.delimiter must be one character, not a quote or a line end, got ';;'"):
        read_table(path, DataConfig(delimiter=";;"))
    with pytest.raises(CanonError, match=r'there is no text encoding "utf-9"'):
        read_table(path, DataConfig(encoding="utf-9"))
