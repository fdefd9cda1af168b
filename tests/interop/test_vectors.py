"""Files of word vectors against gensim, the safetensors library, numpy and Python's own float(); and bad ones.

Every reader goes through `read`, which never gets the format.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from gensim.models import KeyedVectors, Word2Vec
from hypothesis import given
from hypothesis import strategies as st

from canon import interop
from canon.errors import CanonError
from canon.interop import vectors_stream
from canon.interop.formats import GivesVectors
from canon.interop.vectors import read
from canon.interop.vectors_write import FORMATS, write
from canon.interop.word_list import WordList

WORDS = ["the", "naïve", "北京", "New\u00a0York", "don't", "x", "2", "</s>"]
MATRIX = np.random.default_rng(0).normal(0, 0.3, (len(WORDS), 5)).astype(np.float32)
TEXT = ("word2vec-text", "glove", "fasttext-vec")


def keyed(words: list[str] = WORDS, matrix: np.ndarray = MATRIX) -> KeyedVectors:
    made = KeyedVectors(matrix.shape[1])
    made.add_vectors(words, matrix)
    return made


def binary(records: list[tuple[bytes, np.ndarray]], count: int, dim: int, newline: bytes = b"") -> bytes:
    """word2vec's binary by the definition."""
    return b"%d %d\n" % (count, dim) + b"".join(word + b" " + row.tobytes() + newline for word, row in records)


def bits(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float32).view(np.uint32)


# Against other tools


@pytest.mark.parametrize("is_binary", [True, False])
def test_gensims_files_are_read_to_the_bit(is_binary: bool, tmp_path: Path) -> None:
    keyed().save_word2vec_format(tmp_path / "vectors", binary=is_binary)
    data = read(tmp_path / "vectors")
    assert data.format == ("word2vec" if is_binary else "word2vec-text")
    assert data.words == WORDS and np.array_equal(bits(data.matrix), bits(MATRIX))


@pytest.mark.parametrize("to", ["word2vec", "word2vec-text", "fasttext-vec", "glove"])
def test_gensim_reads_what_is_written_to_the_bit(to: str, tmp_path: Path) -> None:
    write(tmp_path / "vectors", to, WORDS, MATRIX)
    options = {"binary": to == "word2vec", "no_header": to == "glove"}
    result = KeyedVectors.load_word2vec_format(tmp_path / "vectors", **options)
    assert result.index_to_key == WORDS and np.array_equal(bits(result.vectors), bits(MATRIX))


@pytest.mark.parametrize(("to", "is_binary"), [("word2vec", True), ("word2vec-text", False)])
def test_the_bytes_are_gensims(to: str, is_binary: bool, tmp_path: Path) -> None:
    """Also in text: the shortest digits that read back as the same float32, as numpy prints them."""
    matrix = np.random.default_rng(1).normal(0, 1, (500, 20)).astype(np.float32)
    matrix[7, :6] = 0, -0.0, 1, -20, 1e-6, 12345.5
    words = [f"word{i}" for i in range(len(matrix))]
    keyed(words, matrix).save_word2vec_format(tmp_path / "gensim", binary=is_binary)
    write(tmp_path / "canon", to, words, matrix)
    assert (tmp_path / "canon").read_bytes() == (tmp_path / "gensim").read_bytes()


def test_a_newline_after_each_vector(tmp_path: Path) -> None:
    """As word2vec's own program writes them."""
    records = [(word.encode(), row) for word, row in zip(WORDS, MATRIX, strict=True)]
    (tmp_path / "c.bin").write_bytes(binary(records, len(WORDS), 5, newline=b"\n"))
    data = read(tmp_path / "c.bin")
    assert data.words == WORDS and np.array_equal(bits(data.matrix), bits(MATRIX)) and not data.notes


def test_fasttexts_vec_has_a_space_at_the_end_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.vec").write_text("2 3\nthe 0.1 -0.2 1e-3 \nof 1 2 3 \n")
    data = read(tmp_path / "a.vec")
    assert data.words == ["the", "of"]
    assert np.array_equal(data.matrix, np.array([[0.1, -0.2, 1e-3], [1, 2, 3]], np.float32))


def test_safetensors_both_ways_against_the_library(tmp_path: Path) -> None:
    write(tmp_path / "ours.safetensors", "safetensors", WORDS, MATRIX)
    actual = safetensors.numpy.load_file(tmp_path / "ours.safetensors")
    assert np.array_equal(actual["vectors"], MATRIX)
    assert actual["words"].tobytes().decode().splitlines() == WORDS
    text = np.frombuffer("".join(f"{word}\n" for word in WORDS).encode(), np.uint8)
    safetensors.numpy.save_file({"words": text, "vectors": MATRIX}, tmp_path / "theirs.safetensors")
    back = read(tmp_path / "theirs.safetensors")
    assert back.words == WORDS and np.array_equal(back.matrix, MATRIX)
    safetensors.numpy.save_file({"embedding": MATRIX.astype(np.float64)}, tmp_path / "plain.safetensors")
    (tmp_path / "plain.words.txt").write_text("\n".join(WORDS) + "\n")
    assert np.array_equal(read(tmp_path / "plain.safetensors").matrix, MATRIX)


def test_numpy_both_ways(tmp_path: Path) -> None:
    write(tmp_path / "ours.npy", "numpy", WORDS, MATRIX)
    assert np.array_equal(np.load(tmp_path / "ours.npy"), MATRIX)
    assert (tmp_path / "ours.words.txt").read_text().splitlines() == WORDS
    np.save(tmp_path / "theirs.npy", MATRIX)
    (tmp_path / "theirs.words.txt").write_text("\n".join(WORDS))
    assert read(tmp_path / "theirs.npy").words == WORDS


@pytest.mark.parametrize("ending", ["safetensors", "npy"])
def test_matrices_are_mapped(ending: str, tmp_path: Path) -> None:
    write(tmp_path / f"a.{ending}", {"npy": "numpy"}.get(ending, ending), WORDS, MATRIX)
    assert isinstance(read(tmp_path / f"a.{ending}").matrix, np.memmap)
    assert isinstance(read(tmp_path / f"a.{ending}", limit=3).matrix, np.memmap)


def test_fasttexts_own_file_goes_to_its_reader(tmp_path: Path) -> None:
    """Against fasttext itself, for a word it has and one that it makes of n-grams."""
    fasttext = pytest.importorskip("fasttext")
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 50)
    model = fasttext.train_unsupervised(str(tmp_path / "text.txt"), dim=8, minCount=1, bucket=100, epoch=1, verbose=0)
    model.save_model(str(tmp_path / "model.bin"))
    data = read(tmp_path / "model.bin")
    assert data.format == "fasttext" and data.subwords is not None
    row = list(data.words).index("cat")
    assert np.allclose(data.matrix[row], model.get_word_vector("cat"), atol=1e-6)
    assert np.allclose(data.subwords("cats"), model.get_word_vector("cats"), atol=1e-6)


# Numbers


def test_numbers_of_a_text_are_those_of_python(tmp_path: Path) -> None:
    """200,000 numbers of 1 to 25 digits, with and without exponents: float32(float(text)), to the bit."""
    draw = random.Random(0)
    texts = []
    for _ in range(200_000):
        digits = "".join(draw.choice("0123456789") for _ in range(draw.randint(1, 25)))
        point = draw.randint(0, len(digits))
        text = digits[:point] + draw.choice([".", ".", ".", ""]) + digits[point:]
        if draw.random() < 0.4:
            text += draw.choice("eE") + draw.choice(["", "+", "-"]) + str(draw.randint(0, 40))
        texts.append(draw.choice(["", "-", "+"]) + text)
    lines = [" ".join([f"w{row}", *texts[row : row + 50]]) for row in range(0, len(texts), 50)]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    with np.errstate(over="ignore"):
        wanted = np.array([np.float32(float(text)) for text in texts], np.float32).reshape(-1, 50)
    assert np.array_equal(bits(read(tmp_path / "a.txt").matrix), bits(wanted))


@pytest.mark.parametrize("to", FORMATS)
def test_every_float32_comes_back(to: str, tmp_path: Path) -> None:
    """Random bits (without NaN, which has many), zeros of both signs, the smallest, the largest and infinities."""
    drawn = np.random.default_rng(2).integers(0, 1 << 32, (3000, 20), dtype=np.uint32).view(np.float32)
    matrix = np.concatenate([drawn[~np.isnan(drawn).any(axis=1)], np.zeros((1, 20), np.float32)])
    odd = [0.0, -0.0, 1e-45, -1e-45, 3.4028235e38, np.inf, -np.inf, 1e-4, 9.9999e-5, 1e7, 9999999.0, 123456.7, 1, 100]
    matrix[-1, : len(odd)] = odd
    words = [f"w{row}" for row in range(len(matrix))]
    path = tmp_path / {"numpy": "a.npy", "safetensors": "a.safetensors"}.get(to, "a")
    write(path, to, words, matrix)
    data = read(path)
    assert data.words == words and np.array_equal(bits(data.matrix), bits(matrix))


def test_infinity_and_nan_in_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 3\nx nan -inf Infinity\n")
    data = read(tmp_path / "a.txt")
    assert np.array_equal(data.matrix, [[np.nan, -np.inf, np.inf]], equal_nan=True)
    assert data.notes == ("One word has NaN or infinite numbers in the vector, which is near to no other: x.",)


# What is asked for


@pytest.fixture(params=["word2vec", "word2vec-text", "glove", "numpy", "safetensors"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / {"numpy": "a.npy", "safetensors": "a.safetensors"}.get(request.param, "a.vectors")
    write(path, request.param, WORDS, MATRIX)
    return path


def test_some_words_only(file: Path) -> None:
    """In the file's order; those that are not there are reported."""
    data = read(file, words=["x", "nowhere", "北京"])
    assert data.words == ["北京", "x"] and np.array_equal(data.matrix, MATRIX[[2, 5]])
    assert data.notes == (f"1 of the 3 words asked for are not in {file}: nowhere.",)


def test_the_first_words_only(file: Path) -> None:
    data = read(file, limit=3)
    assert data.words == WORDS[:3] and np.array_equal(data.matrix, MATRIX[:3]) and not data.notes
    assert read(file, limit=3, words=["x", "the"]).words == ["the"]


def test_half_precision(file: Path) -> None:
    data = read(file, dtype="float16")
    assert data.matrix.dtype == np.float16 and np.array_equal(data.matrix, MATRIX.astype(np.float16))


def test_half_precision_stays_half_and_mapped(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", "safetensors", WORDS, MATRIX.astype(np.float16))
    assert read(tmp_path / "a.safetensors").matrix.dtype == np.float16


@pytest.mark.parametrize(("option", "value"), [("dtype", "float64"), ("errors", "skip")])
def test_options_that_are_not_there(option: str, value: str, file: Path) -> None:
    with pytest.raises(CanonError, match=f'"{value}"'):
        read(file, **{option: value})


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("to", ["word2vec", "glove"])
def test_compressed_files_are_known_by_their_bytes(to: str, ending: str, tmp_path: Path) -> None:
    write(tmp_path / f"a.txt{ending}", to, WORDS, MATRIX)
    (tmp_path / f"a.txt{ending}").rename(tmp_path / "plain")
    data = read(tmp_path / "plain")
    assert data.words == WORDS and np.array_equal(data.matrix, MATRIX)


@pytest.mark.parametrize("block", [64, 100, 1 << 20])
@pytest.mark.parametrize("to", ["word2vec", "word2vec-text", "glove"])
def test_blocks_end_anywhere(to: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks shorter than a record grow; the words and numbers are those of one large block."""
    monkeypatch.setattr(vectors_stream, "BLOCK", block)
    matrix = np.random.default_rng(3).normal(size=(200, 30)).astype(np.float32)
    words = [f"{'w' * (row % 40)}{row}" for row in range(len(matrix))]
    write(tmp_path / "a", to, words, matrix)
    data = read(tmp_path / "a")
    assert data.words == words and np.array_equal(data.matrix, matrix)


# Odd words


def test_words_with_spaces_in_a_text(tmp_path: Path) -> None:
    """The last numbers are the vector, whatever stands before them is the word; no-break spaces part nothing."""
    lines = ["the 0.1 0.2", ". . . 0.3 0.4", "at name@domain.com 0.5 0.6", "New\u00a0York 0.7 0.8", "\u0085 0.9 1"]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read(tmp_path / "a.txt").words == ["the", ". . .", "at name@domain.com", "New\u00a0York", "\u0085"]


def test_tabs_and_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"New York\t0.1\t0.2\r\nof\t0.3 0.4\r\n\r\n")
    data = read(tmp_path / "a.txt")
    assert data.words == ["New York", "of"] and np.array_equal(data.matrix, np.array([[0.1, 0.2], [0.3, 0.4]], "f4"))


def test_an_empty_word_and_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfthe 0.1 0.2\n 0.3 0.4\n")
    assert read(tmp_path / "a.txt").words == ["the", ""]


@pytest.mark.parametrize("to", TEXT)
def test_words_with_spaces_are_written_with_underscores(to: str, tmp_path: Path) -> None:
    notes = write(tmp_path / "a", to, ["New York", "of", "a\nb"], MATRIX[:3])
    assert read(tmp_path / "a").words == ["New_York", "of", "a_b"]
    assert notes == ("2 words have spaces, which are written as _: 'New York', 'a\\nb'.",)
    assert not write(tmp_path / "b.safetensors", "safetensors", ["New York"], MATRIX[:1])
    assert read(tmp_path / "b.safetensors").words == ["New York"]


@pytest.mark.parametrize("is_binary", [True, False])
def test_words_that_are_not_utf8(is_binary: bool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    records = [(b"the", MATRIX[0]), (b"caf\xe9", MATRIX[1])]
    lines = b"2 5\nthe 0.1 0.2 0.3 0.4 5.0\ncaf\xe9 1.5 2.5 3.5 4.5 -0.5\n"
    path.write_bytes(binary(records, 2, 5) if is_binary else lines)
    with pytest.raises(CanonError, match=r'a: the word "caf." is not UTF-8 \(byte 0xE9\); give errors as replace'):
        read(path)
    assert read(path, errors="replace").words == ["the", "caf\ufffd"]
    assert read(path, errors="ignore").words == ["the", "caf"]
    kept = read(path, errors="surrogateescape")
    assert kept.words == ["the", "caf\udce9"]
    write(tmp_path / "back", "word2vec" if is_binary else "word2vec-text", kept.words, kept.matrix)
    assert (tmp_path / "back").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("to", ["word2vec", "glove", "safetensors"])
def test_of_a_word_that_stands_twice_the_first_counts(to: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write(path, to, ["the", "of", "the", "and", "of"], MATRIX[:5])
    data = read(path)
    assert data.words == ["the", "of", "and"] and np.array_equal(data.matrix, MATRIX[[0, 1, 3]])
    assert data.notes == ("2 words stand more than once, and the first vector counts: the, of.",)


# Bad files


def refused(path: Path, message: str, **options: object) -> None:
    with pytest.raises(CanonError) as caught:
        read(path, **options)  # type: ignore[arg-type]
    assert str(caught.value) == message.format(path=path)


@pytest.mark.parametrize("to", ["word2vec", "word2vec-text"])
def test_a_header_that_tells_too_many(to: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, to, WORDS, MATRIX)
    path.write_bytes(path.read_bytes().replace(b"8 5\n", b"99999999999 5\n", 1))
    reported = "{path} ends after 8 of the 99,999,999,999 words that its header says"
    refused(path, reported + "; fetch it again, or read what is there with partial=True (--partial).")
    data = read(path, partial=True)
    assert data.words == WORDS and np.array_equal(data.matrix, MATRIX)
    assert data.notes == (reported.format(path=path) + "; these were read.",)


def test_a_header_that_tells_too_few(tmp_path: Path) -> None:
    """Lines of a text can all be counted; of a binary file only what the header counts is surely words."""
    for to, count in (("word2vec", 3), ("word2vec-text", 8)):
        path = tmp_path / to
        write(path, to, WORDS, MATRIX)
        path.write_bytes(path.read_bytes().replace(b"8 5\n", b"3 5\n", 1))
        reported = "{path} has more than the 3 words that its header says"
        refused(path, reported + "; fetch it again, or read what is there with partial=True (--partial).")
        data = read(path, partial=True)
        assert data.words == WORDS[:count] and np.array_equal(data.matrix, MATRIX[:count])
        assert data.notes == (f"{reported.format(path=path)}; {count} were read.",)


@pytest.mark.parametrize(
    ("to", "where", "cut"),
    [("word2vec", "in the middle of a vector, ", 10), ("word2vec-text", "in the middle of a line, ", 30)],
)
def test_a_file_that_is_cut_short(to: str, where: str, cut: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, to, WORDS, MATRIX)
    path.write_bytes(path.read_bytes()[:-cut])
    reported = f"{{path}} ends {where}after 7 of the 8 words that its header says"
    refused(path, reported + "; fetch it again, or read what is there with partial=True (--partial).")
    data = read(path, partial=True)
    assert data.words == WORDS[:7] and np.array_equal(data.matrix, MATRIX[:7])
    assert read(path, limit=5).words == WORDS[:5]  # what is asked for is there


def test_a_text_without_a_header_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, "glove", WORDS, MATRIX)
    path.write_bytes(path.read_bytes()[:-30])
    reported = "{path} ends in the middle of a line, after 7 words"
    refused(path, reported + "; fetch it again, or read what is there with partial=True (--partial).")
    assert read(path, partial=True).words == WORDS[:7]


def test_a_compressed_file_that_is_cut_short(tmp_path: Path) -> None:
    matrix = np.random.default_rng(4).normal(size=(20_000, 20)).astype(np.float32)
    write(tmp_path / "a.gz", "word2vec", [f"w{row}" for row in range(len(matrix))], matrix)
    whole = (tmp_path / "a.gz").read_bytes()
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) * 9 // 10])
    with pytest.raises(
        CanonError, match=r"ends in the middle of its compressed data, after 1[78],\d+ of the 20,000 words"
    ):
        read(tmp_path / "a.gz")
    result = read(tmp_path / "a.gz", partial=True)
    assert 17_000 < len(result.words) < 20_000 and np.array_equal(result.matrix, matrix[: len(result.words)])


def test_lines_with_another_number_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("3 3\nthe 1 2 3\nof 1 2\nand 1 2 3\n")
    refused(path, "{path}, line 3: 2 numbers where the header says 3.")
    path.write_text("the 0.1 0.2 0.3\nof 0.1 0.2 0.3\nand 0.1 0.2 0.3 0.4\nx 0.1 0.2 0.3\n")
    refused(path, "{path}, line 3: 4 numbers where the others have 3.")
    path.write_text("2 3\nthe 0.1 0.2\nof 0.1 0.2\n")
    refused(path, "{path}, line 2: 2 numbers where the header says 3.")
    path.write_text("the 0.1 0.2 0.3\n\nof 0.1 0.2 o.3\n")
    refused(path, '{path}, line 3: "o.3" is not a number.')
    path.write_text("the 0.1 0.2 0.3\nof 0.1 1_0 0.3\n")
    refused(path, '{path}, line 2: "1_0" is not a number.')


def test_a_binary_file_of_another_width(tmp_path: Path) -> None:
    path = tmp_path / "a"
    matrix = np.random.default_rng(5).normal(size=(300, 50)).astype(np.float32)
    write(path, "word2vec", [f"w{row}" for row in range(300)], matrix)
    path.write_bytes(path.read_bytes().replace(b"300 50\n", b"300 40\n", 1))
    with pytest.raises(CanonError, match=r"is not a text: .* the 40 numbers that its header says|is not UTF-8"):
        read(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a"
    refused(tmp_path / "none", "There is no run, file or folder {path}.")
    path.write_bytes(b"")
    refused(path, "{path} is empty: it has no words.")
    path.write_bytes(b"\n \n")
    refused(path, "{path} is empty: it has no words.")
    path.write_bytes(b"5 3\n")
    refused(path, "{path} ends after its header: 0 of its 5 words were read.")
    path.write_bytes(b"0 3\nx")
    refused(path, "{path}, line 1: the header says 0 words of 3 numbers each.")
    unknown = (
        "{path} is not fastText's .bin or .ftz, word2vec's binary file, word2vec's or fastText's text, GloVe's text, "
        "an .npy matrix with a file of words, a .safetensors file of word vectors or a run (recipe.toml)."
    )
    for junk in (b"It was a dark and stormy night.\nSo it was.\n", os.urandom(5000), b"\0" * 5000, b"x" * (3 << 20)):
        path.write_bytes(junk)
        refused(path, unknown)
    with pytest.raises(CanonError, match=r"is not a run \(recipe\.toml\), fastText's"):
        read(tmp_path)
    path.write_bytes(gzip.compress(b"the 0.1 0.2\n")[:-4])
    with pytest.raises(CanonError, match=r"in the middle of its compressed data|not a whole gzip file"):
        read(path)


def test_pickles_are_not_read(tmp_path: Path) -> None:
    """A model of gensim, its KeyedVectors, and any other."""
    model = Word2Vec([["a", "b"]] * 5, vector_size=4, min_count=1)
    for name, save in (("a.model", model.save), ("a.kv", model.wv.save)):
        save(str(tmp_path / name))
        with pytest.raises(CanonError, match=r"is a pickle of gensim, .* model\.wv\.save_word2vec_format\("):
            read(tmp_path / name)
    (tmp_path / "b.pkl").write_bytes(pickle.dumps({"a": [1, 2]}))
    with pytest.raises(CanonError, match="is a pickle of another tool"):
        read(tmp_path / "b.pkl")


def test_matrices_without_words(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", MATRIX)
    refused(tmp_path / "a.npy", f"{{path}} has no words: put them in {tmp_path}/a.words.txt, one on each line.")
    (tmp_path / "a.words.txt").write_text("one\ntwo\n")
    refused(tmp_path / "a.npy", f"{{path}} has 8 vectors, but {tmp_path}/a.words.txt has 2 words.")
    np.save(tmp_path / "b.npy", MATRIX[0])
    refused(tmp_path / "b.npy", "{path} holds float32 [5], not a matrix with a vector in each row.")
    np.save(tmp_path / "c.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(CanonError, match=r"c\.npy is not a whole \.npy file of numbers"):
        read(tmp_path / "c.npy")
    safetensors.numpy.save_file({"weight": MATRIX, "other": MATRIX}, tmp_path / "d.safetensors")
    with pytest.raises(CanonError, match=r"file of tensors, which has no word vectors; accepted: a run, fastText's"):
        read(tmp_path / "d.safetensors")
    assert not isinstance(interop.recognise(tmp_path / "d.safetensors"), GivesVectors)
    write(tmp_path / "e.safetensors", "safetensors", WORDS, MATRIX)
    assert isinstance(interop.recognise(tmp_path / "e.safetensors"), GivesVectors)
    (tmp_path / "e.safetensors").write_bytes((tmp_path / "e.safetensors").read_bytes()[:-40])
    with pytest.raises(CanonError, match=r"e\.safetensors is not a whole \.safetensors file: .*file not fully covered"):
        read(tmp_path / "e.safetensors")


def test_mapped_files_are_not_compressed(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", "safetensors", WORDS, MATRIX)
    (tmp_path / "b").write_bytes(gzip.compress((tmp_path / "a.safetensors").read_bytes()))
    refused(tmp_path / "b", "{path} is compressed, but a safetensors file is mapped into memory; unpack it first.")


# Writing


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    write(path, "word2vec", WORDS, MATRIX)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CanonError, match=r"^The disk is full: .*a\.bin cannot be written\.$"):
        write(path, "glove", WORDS[:3], MATRIX[:3])
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["a.bin"]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match='No format of word vectors "word2vex"; did you mean word2vec'):
        write(tmp_path / "a", "word2vex", WORDS, MATRIX)
    with pytest.raises(CanonError, match="3 words and 8 vectors cannot be written"):
        write(tmp_path / "a", "glove", WORDS[:3], MATRIX)
    with pytest.raises(CanonError, match=r"is mapped into memory, so it is not compressed; leave out \.gz"):
        write(tmp_path / "a.gz", "safetensors", WORDS, MATRIX)


# Lists of words


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=6), max_size=30), st.text(max_size=3))
def test_word_lists_against_lists(words: list[str], other: str) -> None:
    """Rows, repetitions, slices and membership of a plain list."""
    result = WordList.of(words)
    assert list(result) == words and result == words and len(result) == len(words)
    assert [result[row] for row in range(len(words))] == words and result[1:4] == words[1:4]
    for word in (*words, other.replace("\ud800", "")):
        if not any(0xD800 <= ord(letter) < 0xE000 for letter in word):
            assert result.row(word) == (words.index(word) if word in words else -1)
    assert result.repeated.tolist() == [row for row, word in enumerate(words) if word in words[:row]]


def test_nearest_spellings_against_brute_force() -> None:
    """By Levenshtein's recursion over all words, ties in order; other cases of the word come first."""

    def distance(a: str, b: str) -> int:
        row = list(range(len(b) + 1))
        for i, letter in enumerate(a, 1):
            above, row = row, [i, *[0] * len(b)]
            for j, other in enumerate(b, 1):
                row[j] = min(above[j - 1] + (letter != other), above[j] + 1, row[j - 1] + 1)
        return row[-1]

    draw = random.Random(0)
    words = list(dict.fromkeys("".join(draw.choice("abc") for _ in range(draw.randint(1, 7))) for _ in range(500)))
    listed = WordList.of(words)
    for word in ("abcabd", "ddd", "cabx", "bbbbbbbbbbbb"):
        near = sorted((distance(word, other), row) for row, other in enumerate(words))
        wanted = [words[row] for steps, row in near if steps <= min(2, len(word) // 2)][:5]
        assert listed.nearest(word, 5) == wanted
    assert WordList.of(["hello", "Paris", "pariss"]).nearest("paris") == ["Paris", "pariss"]
    assert WordList.of(["上海市", "北京"]).nearest("北平") == ["北京"]


# Memory and speed

_MEASURE = """
import json, sys
from canon.interop.vectors import read
def memory(name):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status[name].split()[0]) * 1024
read(sys.argv[1], limit=10)
before = memory("VmRSS")
vectors = read(sys.argv[1])
peak = memory("VmHWM")
assert "w0000007" in vectors.words and len(vectors.words) == int(sys.argv[2])
print(json.dumps([peak - before, vectors.matrix.nbytes]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize(("to", "count"), [("word2vec", 250_000), ("glove", 100_000)])
def test_reading_takes_little_more_than_the_matrix(to: str, count: int, tmp_path: Path) -> None:
    """The most memory at any time, over that before, is at most 1.2 times the matrix: 100 MB of it, or 40 of a text.

    Not by ru_maxrss, which a process has from the one that started it.
    """
    path = tmp_path / "large"
    if to == "word2vec":
        kind = np.dtype([("word", "S8"), ("space", "S1"), ("row", "<f4", 100)])
        content = np.zeros(count, kind)
        content["word"] = np.char.add("w", np.char.zfill(np.arange(count).astype(str), 7))
        content["space"] = b" "
        content["row"] = 0.5
        with path.open("wb") as file:
            file.write(b"%d 100\n" % count)
            content.tofile(file)
    else:
        numbers = " ".join(f"{value:.5f}" for value in np.linspace(-1, 1, 100))
        with path.open("w") as text:
            for row in range(count):
                text.write(f"w{row:07d} {numbers}\n")
    command = [sys.executable, "-c", _MEASURE, str(path), str(count)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    added, matrix = json.loads(outcome.stdout)
    assert matrix == count * 400 and added < 1.2 * matrix, added / matrix


@pytest.mark.parametrize(("to", "least"), [("word2vec", 50), ("word2vec-text", 20)])
def test_speed(to: str, least: float, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Megabytes a second, the better of two (a tenth of what an idle machine reaches)."""
    from time import perf_counter

    matrix = np.random.default_rng(6).normal(size=(20_000, 100)).astype(np.float32)
    write(tmp_path / "a", to, [f"w{row}" for row in range(len(matrix))], matrix)
    read(tmp_path / "a", limit=10)  # compiled
    seconds = []
    for _ in range(2):
        begun = perf_counter()
        read(tmp_path / "a")
        seconds.append(perf_counter() - begun)
    rate = (tmp_path / "a").stat().st_size / 1e6 / min(seconds)
    record_property("megabytes_per_second", rate)
    assert rate > least, rate
