"""Kernels that count, copy, hash and read, compiled and as plain Python: equal to the last bit, for the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from canon.data.corpus.cooccurrence import _PAIR, ENTRY
from canon.data.corpus.word_counts import code_point_classes
from tests.kernels.plain import compiled, plain

TEXT = (
    "The naïve cat’s 3.14 T-shirts at 12:30, don't — 北京大学 <unk> été. 1,000.5 <unk\n\n  x_y\t𝔘nicode a a a b's \r\n"
    "straße STRASSE " + "long" * 300 + " end\n"
)
WORDS = ["cat", "größe", "北京大学", "a", "naïve", "</s>", "T-shirt", "aa"]

Case = Callable[[ModuleType], Iterator[Any]]


def corpus(kernels: ModuleType) -> Iterator[Any]:
    text = np.frombuffer(bytearray(TEXT.encode()), np.uint8)
    more = np.frombuffer(bytearray("cats and a naïve dog of 北京大学\na mat".encode()), np.uint8)
    for bad in ("fine", "nul\0", "é" * 40, b"\xff", b"a\xc3", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"):
        yield kernels.first_bad(np.frombuffer(bad.encode() if isinstance(bad, str) else bad, np.uint8))
    low = text.copy()
    kernels.lower_ascii(low)
    yield low
    for classes in (np.empty(0, np.uint8), code_point_classes()):
        entries, tally = kernels.count_block(text, classes)
        block, _ = kernels.count_block(more, classes)
        yield from (entries, tally, block)
        table, slots = np.zeros((200, 4), np.uint64), np.zeros((512, 2), np.uint64)
        store, size, used = np.zeros(5000, np.uint8), 0, 0
        for source, result in ((text, entries), (more, block)):
            size, used = kernels.merge(source, result, slots, table, store, size, used)
        yield from (table.copy(), slots.copy(), store.copy(), size, used)
        yield from kernels.encode_block(more, classes, slots, table, store, True)
        yield from kernels.prune(2, slots, table, store, size)
        yield from (table, slots, store)
        content = [word.encode() for word in WORDS]
        lengths = np.array([len(word) for word in content])
        joined = np.frombuffer(bytearray(b"".join(content)), np.uint8)
        entries, slots = kernels.index_words(joined, lengths)
        yield from (entries, slots)
        for rare in (True, False):
            yield from kernels.encode_block(text, classes, slots, entries, joined, rare)


def cooccurrence(kernels: ModuleType) -> Iterator[Any]:
    random = np.random.default_rng(0)
    tokens = (12 * random.random(300) ** 2).astype(np.int32)
    tokens[random.random(300) < 0.1] = -1
    counts = np.zeros(12, np.int64)
    kernels.count_words(tokens, 10, 290, counts)
    begins = np.concatenate([[0], np.cumsum(counts)])
    places, weights = np.empty(begins[-1], np.int32), np.array([0, 6, 3, 2])
    kernels.list_places(tokens, 10, 290, begins[:-1].copy(), places)
    sums, seen, pairs = np.zeros(12, np.int64), np.zeros(12, np.int32), np.zeros(78, _PAIR)
    size = kernels.count_rows(tokens, 10, places, begins, 0, 12, weights, sums, seen, pairs)
    yield from (counts, places, size, pairs.copy(), sums)
    runs = np.concatenate([pairs[:size], pairs[:size]])
    rows = np.searchsorted(pairs[:size]["row"], np.arange(13))
    yield kernels.add_rows(runs, np.stack([rows, rows + size]), 0, 12, sums, seen, pairs)
    yield pairs
    entries = np.array([(*pair.tolist()[:2], pair["sum"] / 6) for pair in pairs[:size]], ENTRY)
    dealt, shuffled = np.zeros_like(entries), np.zeros_like(entries)
    kernels.deal(entries, 0, -(-size // 7), 7, dealt)
    kernels.shuffle_part(entries, 3, 4, shuffled)
    yield from (dealt, shuffled)


def subwords(kernels: ModuleType) -> Iterator[Any]:
    marked = [f"<{word}>".encode() for word in WORDS]
    text, ends = np.frombuffer(b"".join(marked), np.uint8), np.cumsum([len(word) for word in marked])
    hashes = np.array([kernels.hash_bytes(np.frombuffer(word, np.uint8), 1, len(word) - 1) for word in marked])
    yield hashes
    signed = hashes.astype(np.uint32).view(np.int32)
    out = np.zeros(500, np.int32)
    yield kernels.put_word_ngrams(signed, len(signed), 4, 97, 5, out, 2)
    yield out.copy()
    starts = kernels.put_table(text, ends, np.arange(len(ends)) == 5, 2, 4, 97, out)
    yield from (starts, out.copy())
    rows = np.random.default_rng(1).normal(size=(97 + len(ends), 6)).astype(np.float32)
    means = np.zeros((len(ends), 6), np.float32)
    kernels.mean_rows(rows, starts, out, 1, len(ends), means)
    yield means


def vectors(kernels: ModuleType) -> Iterator[Any]:
    random = np.random.default_rng(2)
    numbers = (random.normal(size=(40, 5)) * 10.0 ** random.integers(-11, 6, (40, 5))).astype(np.float32)
    numbers[0] = 0, -0.0, 1, -100000, 0.0001
    words = [f"w{i}" if i % 7 else f"two {i}" for i in range(40)]
    text = np.frombuffer("".join(words).encode(), np.uint8)
    ends = np.cumsum([len(word) for word in words])
    starts = ends - [len(word) for word in words]
    out, raw = np.zeros(20000, np.uint8), np.zeros(20000, np.uint8)
    size, whole = kernels.write_text(text, starts, ends, numbers, out)
    sized = kernels.write_binary(text, starts, ends, numbers.view(np.uint8), raw)
    yield from (size, whole, sized, out.copy(), raw)
    large = numbers[:2] * np.float32(1e30)
    yield kernels.write_text(text, starts[:2], ends[:2], large, np.zeros(999, np.uint8))
    hard = "one 1e-3 +2.5E+02 .5 -7. 123456789012345678901234567890\ntwo 1e-50 nan 3e999 0x1 1.00000006\n"
    hard += "six 1e150 9.5e-12 0.1 16777217 00000000000000000000000001.5\n"
    for block, length in ((out, size), (np.frombuffer(hard.encode(), np.uint8), len(hard))):
        result = [np.zeros(50, np.int64) for _ in range(3)]
        count, *reported = kernels.split_text(block, length, 5, 50, *result)
        values, left = np.zeros((count, 5), np.float32), np.zeros((9, 4), np.int64)
        yield from (
            count,
            reported,
            *result,
            kernels.parse_numbers(block, result[2][:count], values, left),
            values,
            left,
        )
    for line in ("a 1 2\n", "a b 1 2 3 4 5 6.5\n", " 1 2 3 4 5\n", "\n\t\r\na b 1 2 3 4 5\n"):
        block = np.frombuffer(line.encode(), np.uint8)
        yield kernels.split_text(block, len(block), 5, 9, *[np.zeros(9, np.int64) for _ in range(3)])
    result = [np.zeros(50, np.int64) for _ in range(3)]
    yield kernels.split_binary(raw, sized, 5, 50, *result)
    yield from result
    copied = np.zeros((3, 20), np.uint8)
    kernels.copy_numbers(raw, result[2][:3], copied)
    yield copied
    yield kernels.split_binary(np.full(9000, 65, np.uint8), 9000, 5, 50, *result)


def words(kernels: ModuleType) -> Iterator[Any]:
    listed = [*WORDS, "cat", "caт", "", "a"]
    text = np.frombuffer("".join(f"{word}\n" for word in listed).encode(), np.uint8)
    ends = np.cumsum([len(word.encode()) + 1 for word in listed]) - 1
    rows, again = np.full(32, kernels.EMPTY, np.int32), np.zeros(len(listed), np.bool_)
    yield kernels.index_words(text, ends, rows, again)
    yield from (rows, again)
    asked = ["cat", "dog", "北京大学", "a"]
    query = np.frombuffer("".join(asked).encode(), np.uint8)
    stops = np.cumsum([len(word.encode()) for word in asked])
    result = np.zeros(4, np.int64)
    kernels.find_words(text, ends, rows, query, np.concatenate([[0], stops[:-1]]), stops, result)
    yield result
    distances = np.zeros(len(listed), np.uint8)
    kernels.edit_distances(text, ends, np.frombuffer(b"cats", np.uint8), 2, distances)
    yield distances
    out = np.zeros(40, np.uint8)
    yield kernels.gather(text, ends[:3], ends[1:4], out)
    yield out
    matrix = np.arange(len(listed) * 3, dtype=np.uint8).reshape(-1, 3)
    kernels.keep_rows(matrix, again)
    yield matrix


@pytest.mark.parametrize("case", [corpus, cooccurrence, subwords, vectors, words], ids=lambda case: case.__name__)
def test_compiled_and_plain_are_equal(case: Case) -> None:
    both = (list(case(module(case.__name__))) for module in (compiled, plain))
    for one, other in zip(*both, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        np.testing.assert_array_equal(one, other)
