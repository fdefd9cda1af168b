"""Co-occurrence counts against brute force and Stanford's program; what is kept, in which order, in how much memory."""

from __future__ import annotations

import errno
import tracemalloc
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from canon.data.corpus import cooccurrence
from canon.data.corpus.cooccurrence import BAND, Cooccurrence, count, kept
from canon.errors import CanonError

TEXT = """the cat sat on the mat and the dog sat on the cat
a dog and a cat met on a mat the mat was the dog s
the rare
"""
WORDS = ["the", "a", "cat", "dog", "mat", "on", "and", "sat"]


def text(size: int, vocab_size: int, marks: float = 0.05, seed: int = 0) -> np.ndarray:
    """Words drawn so that small numbers are frequent, and sentence ends."""
    rng = np.random.default_rng(seed)
    tokens = (vocab_size * rng.random(size) ** 3).astype(np.int32)
    tokens[rng.random(size) < marks] = -1
    return tokens


def matrix(counted: Cooccurrence, vocab_size: int) -> np.ndarray:
    """The whole symmetric matrix; each pair must be there once."""
    entries = counted.entries
    assert len({(row, column) for row, column, _ in entries.tolist()}) == len(entries)
    assert (entries["column"] <= entries["row"]).all()
    full = np.zeros((vocab_size, vocab_size), dtype=np.float32)
    full[entries["row"], entries["column"]] = entries["count"]
    full[entries["column"], entries["row"]] = entries["count"]
    return full


def brute_force(tokens: np.ndarray, vocab_size: int, window: int) -> np.ndarray:
    """Σ 1/distance over ordered pairs of places with no mark between them, in fractions; then rounded once."""
    sums: dict[tuple[int, int], Fraction] = {}
    words = tokens.tolist()
    for place, word in enumerate(words):
        for distance in range(1, window + 1):
            if word < 0 or place + distance >= len(words) or words[place + distance] < 0:
                break
            for pair in ((word, words[place + distance]), (words[place + distance], word)):
                sums[pair] = sums.get(pair, Fraction(0)) + Fraction(1, distance)
    full = np.zeros((vocab_size, vocab_size), dtype=np.float32)
    for pair, total in sums.items():
        full[pair] = float(total)
    return full


def test_counts_of_stanfords_program() -> None:
    """All entries, times 12, of Stanford's `cooccur -window-size 4 -max-product 12 -overflow-length 50` for TEXT, after
    `vocab_count -min-count 2` (commit 52f7dbc). Where no pair overflows its table, it doubles the first entry."""
    rows = [
        [32, 9, 31, 35, 58, 39, 18, 24],
        [9, 16, 21, 18, 19, 18, 21, 0],
        [31, 21, 0, 7, 7, 24, 6, 16],
        [35, 18, 7, 0, 13, 9, 18, 12],
        [58, 19, 7, 13, 12, 15, 12, 7],
        [39, 18, 24, 9, 15, 0, 11, 24],
        [18, 21, 6, 18, 12, 11, 0, 7],
        [24, 0, 16, 12, 7, 24, 7, 0],
    ]
    tokens: list[int] = []
    for line in TEXT.splitlines():
        tokens += [*(WORDS.index(word) for word in line.split() if word in WORDS), -1]
    result = count(np.array(tokens, np.int32), len(WORDS), window=4)
    np.testing.assert_array_equal(matrix(result, len(WORDS)), np.array(rows, np.float32) / 12)
    assert 2 * len(result) - result.num_diagonal == np.count_nonzero(rows)


@pytest.mark.parametrize("window", [1, 5, 15, 22])
def test_counts_equal_brute_force(window: int) -> None:
    """Bit for bit the sums in fractions, rounded to float32; the places of marks and both ends matter."""
    tokens = text(3000, 60)
    np.testing.assert_array_equal(matrix(count(tokens, 60, window), 60), brute_force(tokens, 60, window))


def test_wide_windows_are_rounded_little() -> None:
    """Beyond 22 words a weight is rounded: 1e-6 of the sum in fractions."""
    tokens = text(2000, 40, marks=0.005)
    np.testing.assert_allclose(matrix(count(tokens, 40, 60), 40), brute_force(tokens, 40, 60), rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_neither_memory_nor_threads_change_anything(threads: int) -> None:
    """No memory at all: runs of 4096 places on disk, merged; the same entries in the same order as in one piece."""
    tokens = text(30_000, 300)
    whole, pieces = count(tokens, 300, 15), count(tokens, 300, 15, memory=0, threads=threads)
    np.testing.assert_array_equal(whole.entries, pieces.entries)
    np.testing.assert_array_equal(matrix(pieces, 300), brute_force(tokens, 300, 15))
    assert (whole.num_diagonal, whole.num_parts) == (pieces.num_diagonal, pieces.num_parts)


def test_memory_is_bounded() -> None:
    """Pairs of 100 MB, counted with 16 MB: numpy's allocations stay below 20, and the text came in several runs."""
    tokens = text(1_500_000, 20_000)
    count(tokens[:1000], 20_000, 6, 16)  # compiles
    tracemalloc.start()
    result = count(tokens, 20_000, 6, 16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.entries.nbytes > 60e6
    assert peak < 20e6


def test_parts_are_even_samples_in_random_order() -> None:
    """Sizes differ by one at most; each part has its share of every word; bands of rows stay together, unsorted."""
    tokens = text(60_000, 1200, seed=3)
    result = count(tokens, 1200, 10)
    sizes = np.diff(result.bounds)
    assert result.bounds[-1] == len(result) and sizes.max() - sizes.min() <= 1 and len(sizes) == result.num_parts == 64
    rows = result.entries["row"]
    often = np.flatnonzero(np.bincount(rows) >= 640)
    for begin, end in pairwise(result.bounds.tolist()):
        shares = np.bincount(rows[begin:end], minlength=1200)[often] / np.bincount(rows)[often]
        assert (np.abs(shares - 1 / 64) < 0.004).all()
        bands = rows[begin:end] // BAND
        assert np.count_nonzero(np.diff(bands)) == len(np.unique(bands)) - 1
        inside = rows[begin:end][bands == 2]
        assert abs(np.corrcoef(inside, np.arange(len(inside)))[0, 1]) < 0.25, "shuffled within a band"
    orders = {tuple(dict.fromkeys((rows[a:b] // BAND).tolist())) for a, b in pairwise(result.bounds.tolist())}
    assert len(orders) > 30, "bands come in another order in every part"


def test_a_text_without_pairs_has_none() -> None:
    for tokens in ([], [-1], [0, -1, 1, -1, 2]):
        result = count(np.array(tokens, np.int32), 3, 5)
        assert len(result) == result.num_diagonal == 0 and result.bounds.tolist() == [0] * (result.num_parts + 1)


def test_a_temporary_count_leaves_nothing_behind(tmp_path: Path) -> None:
    result = count(text(2000, 50), 50, 5, place=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    del result
    assert not list(tmp_path.iterdir())


# What is kept


def test_counts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nothing is counted, whatever memory and threads; another window or text is counted again."""
    tokens = text(5000, 50)
    first = kept(tokens, 50, 5, 64)
    monkeypatch.setattr(cooccurrence, "_write", lambda *_: pytest.fail("counted again"))
    again = kept(tokens.copy(), 50, 5, 16, threads=2)
    np.testing.assert_array_equal(first.entries, again.entries)
    monkeypatch.undo()
    assert len(kept(tokens, 50, 6, 64)) > len(first)
    assert len(kept(tokens[:2000], 50, 5, 64)) < len(first)


def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANON_CACHE", str(tmp_path))
    return tmp_path / "corpora"


def test_a_damaged_file_is_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tokens = corpora(tmp_path, monkeypatch), text(5000, 50)
    first = kept(tokens, 50, 5, 64).entries.copy()
    (path,) = folder.glob("pairs-*/entries.bin")
    path.write_bytes(path.read_bytes()[:-5])
    np.testing.assert_array_equal(kept(tokens, 50, 5, 64).entries, first)
    assert [entry.name for entry in folder.iterdir()] == [path.parent.name], "nothing else is left there"


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = corpora(tmp_path, monkeypatch)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cooccurrence, "_allocate", full)
    with pytest.raises(CanonError, match=r"disk of .* is full.*min_count"):
        kept(text(5000, 50), 50, 5, 64)
    assert not list(folder.iterdir())
