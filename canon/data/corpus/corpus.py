"""Running text as one long row of word numbers in a memory-mapped file: what word vectors are learnt from.

The text is read twice, block by block on all cores: once to count its words (word_counts.py), once to number those that
are kept (`_encode`). Where a share is held out, it is the end of the text, cut where a sentence ends, and the words are
those of the rest: they are counted in the numbered text, which is then numbered again (`_settle`).
What was made is kept (store.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from canon.data.checking.measure import ANY_HAN
from canon.data.corpus.store import CHUNK, MARK, Built, Corpus, chunks, digest, kept_corpus, num_words
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.threads import num_threads
from canon.data.corpus.word_counts import Counts, TextCounts, WordReader, count, least_count
from canon.data.settings import Vocabulary
from canon.data.splits import held_count
from canon.data.text.words import Words
from canon.errors import CanonError

RARE = -2  # stands for a word that is not kept, in a text that is to be numbered again


def build_parts(
    texts: Mapping[str, TextStream],
    config: Vocabulary,
    shares: Mapping[str, float],
    keep: Words | None = None,
    threads: int = 0,
) -> Built:
    """The words of texts["train"], and every part in their numbers.

    shares: of the training text's words that are cut off its end, in this order ("test", then "valid").
    keep: the words of an earlier text. They stay, whatever their counts here, which are added to theirs.
    """
    reader = WordReader(config, threads or num_threads())
    content = {
        "texts": {name: text.identity() for name, text in texts.items()},
        "reader": reader.identity(),
        "min_count": config.min_count,
        "vocab_size": config.vocab_size,
        "shares": list(shares.items()),
        "keep": keep and digest(keep.to_text()),
    }
    return kept_corpus(content, lambda folder: _Builder(reader, config, shares, keep, folder).make(texts))


def encode_text(text: TextStream, words: Words, config: Vocabulary) -> Corpus:
    """Another text in the numbers of words that are known already."""
    reader = WordReader(config, num_threads())

    def make(folder: Path) -> tuple[Words, TextCounts]:
        _encode_part(text, words, reader, folder, "train")
        return words, TextCounts()

    content = {"text": text.identity(), "reader": reader.identity(), "words": digest(words.to_text())}
    return kept_corpus(content, make).parts["train"]


@dataclass(frozen=True)
class _Builder:
    """Counts the words of a text, chooses those to keep and writes the text in their numbers into a folder."""

    reader: WordReader
    config: Vocabulary
    shares: Mapping[str, float]
    keep: Words | None
    folder: Path

    def make(self, texts: Mapping[str, TextStream]) -> tuple[Words, TextCounts]:
        text = self.reader.segment(texts["train"], self.folder)
        counts, seen = count(text, self.reader)
        if not seen.words:
            raise CanonError(f"{text.name} has no words; give a file with text.")
        words = self._choose(counts, seen.words, text.name)
        del counts
        if self.shares or seen.forgotten:
            _encode(text, words, self.reader, self.folder / "all.tmp", rare=bool(self.shares))
            words = self._settle(self.folder / "all.tmp", seen.words, words, text.name)
        elif not _encode(text, words, self.reader, self.folder / "train.i32"):
            times = f"{self.least(seen.words):,} times"
            raise CanonError(f"{text.name} has none of the words to keep, and no other word {times}.")
        for name, other in texts.items():
            if name != "train":
                _encode_part(other, words, self.reader, self.folder, name)
        return words, seen

    def least(self, words: int) -> int:
        return least_count(self.config.min_count, words)

    def _choose(self, counts: Counts, total: int, name: str) -> Words:
        times = counts.counts
        least = self.least(total)
        rows = np.flatnonzero(times >= least)
        counted = dict(zip(counts.words(rows), times[rows].tolist(), strict=True))
        before = _wordlike(self.keep.words) if self.keep else []
        counted |= zip(before, counts.find(before).tolist(), strict=True)
        if not counted and not self.keep:
            top = counts.words(times.argmax(axis=0, keepdims=True))[0] if len(times) else ""
            raise _too_rare(name, self.config, least, top, int(times.max(initial=0)))
        # All that may be kept once a share is held out: words are then fewer, so none is missed.
        return self._select(counted, total, 0 if self.shares else self.config.vocab_size)

    def _select(self, counted: Mapping[str, int], total: int, vocab_size: int) -> Words:
        """The words kept before, with the counts of both texts; and new ones, the most frequent if a size is given."""
        old = dict(zip(self.keep.words, self.keep.counts.tolist(), strict=True)) if self.keep else {}
        new = sorted((pair for pair in counted.items() if pair[0] not in old), key=lambda pair: (-pair[1], pair[0]))
        new = new[: max(vocab_size - len(old), 0)] if vocab_size else new
        grown = [(word, before + counted.get(word, 0)) for word, before in old.items()]
        return Words.of([*grown, *new], total + (self.keep.total if self.keep else 0))

    def _settle(self, path: Path, total: int, known: Words, name: str) -> Words:
        """Cuts the text in `path` into parts beside it, in the numbers of the words that the training part has enough
        of. The text has RARE for words that `known` lacks where shares are held out; else `total` is its words."""
        tokens, least = np.memmap(path, dtype=np.int32, mode="r"), self.least(total)
        bounds = _bounds(tokens, self.shares)
        stop = bounds["train"][1]
        counts = np.zeros(known.size, dtype=np.int64)
        for chunk in chunks(tokens, 0, stop):
            counts += np.bincount(chunk[chunk >= 0], minlength=known.size)
        before = self.keep.index if self.keep else {}
        both = zip(known.words, counts.tolist(), strict=True)
        counted = {word: times for word, times in both if times >= least or word in before}
        if not counted:
            top = known.words[counts.argmax()]
            raise _too_rare(f"The training part of {name}", self.config, least, top, int(counts.max()))
        total = num_words(tokens[:stop]) if self.shares else total
        words = self._select(counted, total, self.config.vocab_size)
        rows = np.array([words.index.get(word, RARE) for word in known.words], dtype=np.int32)
        for part, (begin, end) in bounds.items():
            with (path.parent / f"{part}.i32").open("wb") as file:
                for chunk in _renumbered(chunks(tokens, begin, end), rows):
                    _write(file, chunk)
        path.unlink()
        return words


def _wordlike(words: Sequence[str]) -> list[str]:
    """Those that a text may have; vectors from elsewhere may have others, with spaces in them."""
    raw = {word: word.encode("utf-8", "replace") for word in words}
    return [word for word in words if raw[word].split() == [raw[word]]]


def _too_rare(name: str, config: Vocabulary, least: int, word: str, times: int) -> CanonError:
    if not word:
        return CanonError(f"{name} has only words of over 1,000 bytes; put spaces between its words.")
    chinese = ANY_HAN.search(word) and config.tokenizer != "jieba"
    hint = ', or data.tokenizer = "jieba" for Chinese without spaces' if chinese else ""
    shown = word if len(word) <= 20 else word[:19] + "…"
    return CanonError(
        f"{name} has no word that occurs data.min_count = {least:,} times; the most frequent, "
        f'"{shown}", occurs {times:,} times: set a smaller data.min_count{hint}.'
    )


def _encode(text: TextStream, words: Words, reader: WordReader, path: Path, rare: bool = False) -> int:
    """Writes the text in the numbers of `words`; returns how many places it has."""
    kernels = reader.kernels
    raw = [word.encode("utf-8", "replace") for word in words.words]
    lengths = np.array([len(word) if len(word) <= kernels.LONGEST_WORD else 0 for word in raw], dtype=np.int64)
    store = np.frombuffer(bytearray(b"".join(word for word in raw if len(word) <= kernels.LONGEST_WORD)), np.uint8)
    entries, slots = kernels.index_words(store, lengths)
    del raw

    def work(block: np.ndarray) -> tuple[np.ndarray, bool]:
        return kernels.encode_block(reader.ready(block), reader.classes, slots, entries, store, rare)

    size, last = 0, MARK
    with path.open("wb") as file:
        for tokens, ended in reader.map(work, text, "numbering words"):
            if ended and last != MARK:
                size, last = size + _write(file, np.array([MARK], dtype=np.int32)), MARK
            if len(tokens):
                size, last = size + _write(file, tokens), int(tokens[-1])
    return size


def _write(file: BinaryIO, tokens: np.ndarray) -> int:
    file.write(tokens.data)
    return len(tokens)


def _encode_part(text: TextStream, words: Words, reader: WordReader, folder: Path, name: str) -> None:
    """A part that has a text of its own."""
    segmented = reader.segment(text, folder)
    if not _encode(segmented, words, reader, folder / f"{name}.i32"):
        raise CanonError(f"{text.name} has none of the {words.size:,} words that were learnt.")


# Held-out shares


def _bounds(tokens: np.ndarray, shares: Mapping[str, float]) -> dict[str, tuple[int, int]]:
    """Where each part begins and ends: shares of the words, cut at the nearest sentence end that is near enough."""
    bounds: dict[str, tuple[int, int]] = {}
    stop = len(tokens)
    for name, share in shares.items():
        words = num_words(tokens[:stop])
        held = held_count(words, share)
        if held:
            cut = _sentence_end(tokens, _place_of_word(tokens, words - held), held // 2)
            bounds[name], stop = (cut, stop), cut
    return {"train": (0, stop), **bounds}


def _place_of_word(tokens: np.ndarray, index: int) -> int:
    """Where the word is that `index` others come before."""
    place = 0
    for chunk in chunks(tokens, 0, len(tokens)):
        words = np.flatnonzero(chunk != MARK)
        if index < len(words):
            return place + int(words[index])
        index -= len(words)
        place += len(chunk)
    raise AssertionError("the text has fewer words")


def _sentence_end(tokens: np.ndarray, place: int, reach: int) -> int:
    """The place after a mark that is nearest to `place`, up to `reach` away; else `place` itself."""
    reach = min(reach, CHUNK)
    begin = max(place - reach, 1)  # something stays before it
    near = np.flatnonzero(tokens[begin - 1 : place + reach] == MARK) + begin
    return int(near[np.abs(near - place).argmin()]) if len(near) else place


def _renumbered(chunks: Iterator[np.ndarray], rows: np.ndarray) -> Iterator[np.ndarray]:
    """rows[number] for every number, without RARE, and without marks that no word comes before."""
    marked = True  # at the end of the chunk before
    for chunk in chunks:
        numbers = np.where(chunk >= 0, rows[np.maximum(chunk, 0)], chunk)
        numbers = numbers[numbers != RARE]
        marks = numbers == MARK
        again = marks & np.concatenate([[marked], marks[:-1]])[: len(marks)]
        marked = bool(marks[-1]) if len(marks) else marked
        yield np.ascontiguousarray(numbers[~again])
