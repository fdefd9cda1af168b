"""Tests of word vectors: files as published and as users have them, against lists written by hand; and as a column."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from canon import metrics
from canon.data import catalogue
from canon.data.config import DataConfig
from canon.data.encodings.word_ids import WordIdSchema
from canon.data.formats import word_tests
from canon.data.formats.word_tests import WordTestForm, form_of, read_analogies, read_pairs, read_tests
from canon.data.read import labelled
from canon.data.schema import num_examples
from canon.data.text.words import Words
from canon.errors import CanonError
from tests.reading import read_as

QUESTIONS = ": capitals\nAthens Greece Oslo Norway\nOslo Norway Athens Greece\n\n: family\nboy girl king queen\n"
SECTIONS = {
    "capitals": [("Athens", "Greece", "Oslo", "Norway"), ("Oslo", "Norway", "Athens", "Greece")],
    "family": [("boy", "girl", "king", "queen")],
}
PAIRS = "# a comment\n# Word 1\tWord 2\tHuman (mean)\nlove\tsex\t6.77\ntiger\tcat\t7.35\n"
RATED = [("love", "sex", 6.77), ("tiger", "cat", 7.35)]


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_analogies(tmp_path: Path) -> None:
    assert read_analogies(write(tmp_path / "q.txt", QUESTIONS)) == SECTIONS
    assert metrics.read_analogies(tmp_path / "q.txt") == SECTIONS  # the metrics' own reader is this one
    chinese = ": geography\r\n伦敦 英国 北京 中国\r\n: A\r\n\r\n避 避一避 补 补一补\r\n"
    path = write(tmp_path / "CA8.txt.xz", lzma.compress(chinese.encode()))
    assert read_analogies(path) == {
        "geography": [("伦敦", "英国", "北京", "中国")],
        "A": [("避", "避一避", "补", "补一补")],
    }


@pytest.mark.parametrize(
    "text",
    [
        PAIRS,
        PAIRS.replace("\n", "\r\n"),
        "word1,word2,human\nlove,sex,6.77\ntiger,cat,7.35",
        "love sex 6.77\ntiger  cat 7.35\n",
        "love;sex;6.77\n\ntiger;cat;7.35\n",
    ],
)
def test_pairs_however_they_are_parted(tmp_path: Path, text: str) -> None:
    assert read_pairs(write(tmp_path / "p.tsv", text)) == RATED
    assert form_of(tmp_path / "p.tsv") is WordTestForm.PAIRS
    assert read_pairs(write(tmp_path / "p.tsv.gz", gzip.compress(text.encode()))) == RATED


def test_a_test_is_distinguished_from_a_text(tmp_path: Path) -> None:
    assert form_of(write(tmp_path / "q.txt", QUESTIONS)) is WordTestForm.ANALOGIES
    for text in (
        "",
        "just a text of some words\nand more of it\n",
        "a b c\nd e f\n",
        ": no questions\n",
        "x y 3\nno pair",
    ):
        assert form_of(write(tmp_path / "t.txt", text)) is None


def published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named set, with small files in place of the published ones."""
    contents = {"wordsim353": PAIRS, "simlex999": PAIRS.replace("6.77", "1")}
    record = catalogue.CATALOGUE[word_tests.SET]
    files = []
    for file in record.files:
        content = contents.get(file.split, QUESTIONS).encode()
        write(folder / word_tests.SET / f"{file.name}.xz", lzma.compress(content))
        files.append(replace(file, content=hashlib.sha256(content).hexdigest()))
    monkeypatch.setitem(catalogue.CATALOGUE, word_tests.SET, replace(record, files=tuple(files)))


def test_named_tests_and_files_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert word_tests.NAMES == ("wordsim353", "simlex999", "questions-words", "CA8/morphological", "CA8/semantic")
    published(tmp_path / "data", monkeypatch)
    own = write(tmp_path / "mine.v2.tsv.gz", gzip.compress(PAIRS.encode()))
    result = read_tests(["wordsim353", "CA8/semantic", "questions-words", str(own)])
    assert result.names == ("wordsim353", "mine", "CA8-semantic", "questions-words")
    assert result.pairs == {"wordsim353": RATED, "mine": RATED}
    assert result.analogies == {"CA8-semantic": SECTIONS, "questions-words": SECTIONS}
    assert len(result) == 2 + 2 + 3 + 3


def test_the_set_is_fetched_into_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(tmp_path / "elsewhere", monkeypatch)
    record = catalogue.CATALOGUE[word_tests.SET]
    files = []
    for file in record.files:
        content = lzma.decompress((tmp_path / "elsewhere" / word_tests.SET / f"{file.name}.xz").read_bytes())
        source = write(tmp_path / "server" / file.name, content)
        files.append(replace(file, url=source.as_uri(), sha256=file.content, bytes=len(content)))
    monkeypatch.setitem(catalogue.CATALOGUE, word_tests.SET, replace(record, files=tuple(files)))
    assert catalogue.fetch(word_tests.SET, progress=False) == tmp_path / "data" / word_tests.SET
    assert read_tests(["CA8/semantic"]).analogies == {"CA8-semantic": SECTIONS}
    assert (tmp_path / "data" / word_tests.SET / "CA8" / "semantic.txt").is_file()


def test_a_changed_file_of_the_named_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(tmp_path / "data", monkeypatch)
    path = write(tmp_path / "data" / word_tests.SET / "wordsim353.tsv.xz", lzma.compress(b"a\tb\t1\n"))
    with pytest.raises(CanonError, match=f"{path} is not the published file"):
        read_tests(["wordsim353"])


def test_as_a_column() -> None:
    tests = word_tests.Tests({"p": RATED}, {"q": SECTIONS})
    assert tests.take(np.array([3, 1])) is tests and tests.shape == (5,) and tests.dtype == object
    assert num_examples({"tests": tests}) == 5


@pytest.mark.parametrize(
    ("changes", "judged"),
    [({}, "test"), ({"test": 0.0}, "valid"), ({"test": 0.0, "valid": 0.0}, "train")],
)
def test_tests_go_with_the_last_split(tmp_path: Path, changes: dict[str, float], judged: str) -> None:
    text = write(tmp_path / "t.txt", "love and war and cat and tiger\n" * 30)
    pairs, questions = write(tmp_path / "p.tsv", PAIRS), write(tmp_path / "q.txt", QUESTIONS)
    config = DataConfig(source=str(text), tests=(str(pairs), str(questions)), **changes)  # type: ignore[arg-type]
    data = read_as(config, "word-ids", system="word2vec")
    assert [name for name, columns in data.splits.items() if "tests" in columns] == [judged]
    tests = data.splits[judged]["tests"]
    assert isinstance(tests, word_tests.Tests) and tests.pairs == {"p": RATED} and tests.analogies == {"q": SECTIONS}
    assert num_examples(data.splits[judged]) == len(data.splits[judged]["input"])
    assert {str(pairs), str(questions)} < {record.name for record in data.files}
    without = read_as(replace(config, tests=()), "word-ids", system="word2vec")
    assert without.fingerprint() != data.fingerprint()


def test_to_evaluate_a_run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = WordIdSchema(words=Words(["love", "cat"], np.array([2, 1]), 3))
    columns = labelled(schema, write(tmp_path / "p.tsv", PAIRS), DataConfig())
    assert list(columns) == ["tests"] and columns["tests"].pairs == {"p": RATED}  # type: ignore[union-attr]
    published(tmp_path / "data", monkeypatch)
    columns = labelled(schema, Path("CA8/semantic"), DataConfig())
    assert columns["tests"].analogies == {"CA8-semantic": SECTIONS}  # type: ignore[union-attr]
    assert columns["tests"].names == ("CA8-semantic",)  # type: ignore[union-attr]
    every = labelled(schema, Path(word_tests.SET), DataConfig())
    assert len(every["tests"].names) == 5  # type: ignore[union-attr]
    columns = labelled(schema, write(tmp_path / "t.txt", "a love story\n"), DataConfig())
    assert columns["input"].tokens.tolist() == [0, -1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (QUESTIONS + "a b c\n", "line 7: the question has 3 words instead of 4."),
        (PAIRS + "a\tb\tmany\n", "line 5: expected two words and a number, got 'a\\tb\\tmany'."),
        ("so this is a text\n", "is not a test of word vectors; such a test has two words and a number a line, or"),
        ("", "is not a test of word vectors;"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "t.txt", text)
    with pytest.raises(CanonError) as raised:
        read_tests([str(path)])
    assert said in str(raised.value) and str(path) in str(raised.value)


def test_bad_names(tmp_path: Path) -> None:
    with pytest.raises(
        CanonError, match=r'data.tests: there is no file or folder "wordsim" \(named ones are wordsim353'
    ):
        read_tests(["wordsim"])
    with pytest.raises(CanonError, match="is a folder; name its files"):
        read_tests([str(tmp_path)])
    with pytest.raises(CanonError, match="word-vector-tests is not on this machine: run canon data fetch"):
        read_tests(["wordsim353"])
    first, second = write(tmp_path / "a" / "p.tsv", PAIRS), write(tmp_path / "b" / "p.txt", QUESTIONS)
    with pytest.raises(CanonError, match='two tests are named "p"; rename a file'):
        read_tests([str(first), str(second)])
    with pytest.raises(CanonError, match=r"cut\.gz is not a whole gz file"):
        read_tests([str(write(tmp_path / "cut.gz", gzip.compress(PAIRS.encode())[:-9]))])
