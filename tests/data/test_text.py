"""Text: documents against plain splitting, positions of bad bytes, and memory that does not grow with the file."""

from __future__ import annotations

import lzma
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canon.data.config import DataConfig
from canon.data.formats import files
from canon.data.formats.files import lines
from canon.data.formats.text import documents
from canon.errors import CanonError
from tests.reading import read_as, texts_of


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=60), st.integers(1, 7))
def test_lines_equal_splitting_whatever_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, text: str, chunk: int
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.txt"
    path.write_text(text, encoding="utf-8")
    before = files.CHUNK
    files.CHUNK = chunk
    try:
        values = list(lines(path))
    finally:
        files.CHUNK = before
    expected = text.removeprefix("\ufeff").split("\n")
    assert values == (expected[:-1] if expected[-1] == "" else expected)


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_bad_bytes_are_placed(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK", chunk)
    path = tmp_path / "t.txt"
    path.write_bytes("é\nok\nx".encode() + b"\xff\n")
    with pytest.raises(CanonError, match=r"t\.txt, line 3: byte 7 \(0xFF\) is not utf-8"):
        list(lines(path))


def test_blocks_lines_and_compression(tmp_path: Path) -> None:
    blocks = tmp_path / "b.txt"
    blocks.write_text("one\ntwo\n\n \nthree\n", encoding="utf-8")
    assert list(documents(blocks)) == ["one\ntwo", "three"]
    single = tmp_path / "l.txt.xz"
    single.write_bytes(lzma.compress(b"one\r\ntwo\r\n"))
    assert list(documents(single)) == ["one", "two"]
    assert list(documents(tmp_path)) == ["one\ntwo", "three", "one", "two"]


def test_a_table_gives_its_text_column(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "long enough", "label": 1}\n{"text": "another one", "label": 0}\n', encoding="utf-8")
    assert list(documents(path)) == ["long enough", "another one"]
    assert texts_of(read_as(DataConfig(source=str(path), tokenizer="word", test=0.0, valid=0.0), "windows")) == {
        "train": ["long enough", "another one"]
    }


def test_running_text_is_cut_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("\n".join(str(i) for i in range(20)), encoding="utf-8")
    data = read_as(DataConfig(source=str(path), tokenizer="byte-bpe", vocab_size=300, test=0.2, valid=0.25), "windows")
    numbers = [str(i) for i in range(20)]
    assert texts_of(data) == {"train": numbers[:12], "valid": numbers[12:16], "test": numbers[16:]}


def test_a_folder_with_splits(tmp_path: Path) -> None:
    for name in ("corpus.train.txt", "corpus.valid.txt", "corpus.test.txt"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    data = read_as(DataConfig(source=str(tmp_path), tokenizer="byte-bpe", vocab_size=300), "windows")
    assert texts_of(data) == {
        "train": ["corpus.train.txt"],
        "valid": ["corpus.valid.txt"],
        "test": ["corpus.test.txt"],
    }


@pytest.mark.parametrize("newlines", [True, False])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, newlines: bool) -> None:
    peaks = []
    for count in (200_000, 800_000):
        path = tmp_path / "big.txt"
        path.write_text(("some words of text" + ("\n" if newlines else " ")) * count, encoding="utf-8")
        tracemalloc.start()
        total = sum(document.count("words") for document in documents(path))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total == count
    assert path.stat().st_size > 15e6 and peaks[1] < 1.1 * peaks[0]
