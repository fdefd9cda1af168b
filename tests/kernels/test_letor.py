"""The compiled reader of svmlight's lines against the plain one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from canon.data.formats import letor
from canon.errors import CanonError

LINES = [
    b"2 qid:10 1:0.03 2:-0.5 7:1e-3 # docid = GX1 inc = 1",
    b"0 qid:10 3:+12.5E+2 4:0.0000001234567890123456789\r",
    b"",
    b"# a comment",
    b"  1.0\tqid:a/b 2:123456789012345678901 3:.5 4:5. #",
    b"0 qid:a/b 1:0.31586555555555558 46:-0.0 #x",
    b"3 1:1",
    b"1 qid:9",
]


def parts(text: bytes) -> tuple[letor._Part, letor._Part]:
    compiled = letor._compiled(text, 5)
    assert compiled is not None
    return compiled, letor._plain(text, Path("a.txt"), 5)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_both_read_the_same(end: bytes) -> None:
    compiled, plain = parts(b"\n".join(LINES) + end)
    for name, ours, theirs in zip(plain._fields, compiled, plain, strict=True):
        assert list(ours) == list(theirs), name


def test_random_numbers_are_those_of_python() -> None:
    draw = np.random.default_rng(0)
    values = draw.standard_normal(3000) * 10.0 ** draw.integers(-30, 30, 3000)
    forms = ["{:.6f}", "{!r}", "{:.3g}", "{:.15e}"]
    cells = [f"{place + 1}:{forms[place % 4].format(value)}" for place, value in enumerate(values.tolist())]
    compiled, plain = parts(" ".join(["1", "qid:1", *cells]).encode())
    assert np.array_equal(compiled.columns, plain.columns)
    np.testing.assert_array_max_ulp(compiled.numbers, plain.numbers, 1)
    assert (compiled.numbers != plain.numbers).mean() < 0.01


@pytest.mark.parametrize(
    "line",
    [
        *(b"x qid:1 1:1", b"-1 qid:1 1:1", b"1 qid:1 1:", b"1 qid:1 1:1e", b"1 qid:1 1", b"1 qid:1 2:1 1:1"),
        *(b"1qid:1 1:1", b"1 qid:1 1:nan", b"1 qid:1 1:1x", b"1 1:1 qid:1", b"1 qid:1 1:--1", b"1 qid:1 1:1.2.3"),
        b"1 qid:1 1:1e999",
    ],
)
def test_it_stops_at_whatever_it_does_not_know(line: bytes) -> None:
    assert letor._compiled(b"0 qid:1 1:1\n" + line + b"\n", 1) is None


def test_a_large_file_is_read_by_it_and_its_mistakes_by_the_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letor, "_LARGE", 0)
    path = tmp_path / "a.txt"
    path.write_bytes(b"0 qid:1 1:1\n" * 3 + b"1 qid:1 1:1 1:2\n")
    with pytest.raises(CanonError, match=r"a\.txt, line 4: feature 1 comes twice"):
        letor.read_letor(path)
    path.write_bytes(b"0 qid:1 2:1 1:3\n")  # not in order, but right
    assert letor.read_letor(path)[0].values.tolist() == [[3, 1]]
