"""Running text as one long row of word numbers in a memory-mapped file: what word vectors are learnt from.

The text is read twice, block by block on all cores: once to count its words (word_counts.py), once to number those that
are kept (`_encode`). Where a share is held out, it is the end of the text, cut where a sentence ends, and the words are
those of the rest: they are counted in the numbered text, which is then numbered anew (`_settle`).
What was made is kept and found again (corpus_store.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from canon.data.checking.measure import ANY_HAN
from canon.data.corpus.store import CHUNK, MARK, Built, Corpus, digest, kept, num_words
from canon.data.corpus.text_blocks import Texts
from canon.data.corpus.word_counts import Counts, Reader, Told, count, num_threads
from canon.data.formats.files import ending
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.settings import Vocabulary
from canon.data.splits import held_count
from canon.data.text.words import Words
from canon.errors import CanonError

RARE = -2  # stands for a word that is not kept, in a text that is to be numbered anew


def build(
    source: Texts | Path | Sequence[Path], config: Vocabulary, keep: Words | None = None, threads: int = 0
) -> tuple[Words, Corpus]:
    """The words of a text (`Texts`, a text file or several) and the text in their numbers; nothing is held out.

    keep: the words of an earlier text. They stay, whatever their counts here, which are added to theirs.
    """
    if not isinstance(source, Texts):
        files = (source,) if isinstance(source, Path) else tuple(source)
        assert not any(ending(path) in TABLES for path in files), "tables are read by canon.data.open"
        source = Texts(files, encoding=config.encoding, name=str(files[0]))
    built = build_parts({"train": source}, config, {}, keep, threads)
    return built.words, built.parts["train"]


def build_parts(
    texts: Mapping[str, Texts],
    config: Vocabulary,
    shares: Mapping[str, float],
    keep: Words | None = None,
    threads: int = 0,
) -> Built:
    """The words of texts["train"], and every part in their numbers.

    shares: of the training text's words that are cut off its end, in this order ("test", then "valid").
    """
    reader = Reader(config, threads or num_threads())
    content = {
        "texts": {name: text.identity() for name, text in texts.items()},
        "reader": reader.identity(),
        "min_count": config.min_count,
        "vocab_size": config.vocab_size,
        "shares": list(shares.items()),
        "keep": keep and digest(keep.to_text()),
    }
    return kept(content, lambda folder: _make(texts, reader, config, shares, keep, folder))


def encode_text(text: Texts, words: Words, config: Vocabulary, threads: int = 0) -> Corpus:
    """Another text in the numbers of words that are known already."""
    reader = Reader(config, threads or num_threads())

    def make(folder: Path) -> tuple[Words, Told]:
        _encode_part(text, words, reader, folder, "train")
        return words, Told()

    content = {"text": text.identity(), "reader": reader.identity(), "words": digest(words.to_text())}
    return kept(content, make).parts["train"]


# Words and numbers


def _make(
    texts: Mapping[str, Texts],
    reader: Reader,
    config: Vocabulary,
    shares: Mapping[str, float],
    keep: Words | None,
    folder: Path,
) -> tuple[Words, Told]:
    text = reader.segment(texts["train"], folder)
    counts, told = count(text, reader)
    if not told.words:
        raise CanonError(f"{text.name} has no words.")
    # All that may be kept once a share is held out: words are then fewer, so none is missed.
    known = _choose(counts, told.words, config, keep, text.name, limited=not shares)
    del counts
    if shares or told.forgotten:
        _encode(text, known, reader, folder / "all.tmp", rare=bool(shares))
        known = _settle(folder / "all.tmp", told.words, known, config, shares, keep, text.name)
    elif not _encode(text, known, reader, folder / "train.i32"):
        raise CanonError(f"{text.name} has none of the words to keep, and no other {config.min_count:,} times.")
    for path in folder.glob("*.txt"):
        path.unlink()
    for name, other in texts.items():
        if name != "train":
            _encode_part(other, known, reader, folder, name)
    return known, told


def _choose(
    counts: Counts, total: int, config: Vocabulary, keep: Words | None, name: str, limited: bool = True
) -> Words:
    found = counts.counts
    rows = np.flatnonzero(found >= config.min_count)
    counted = dict(zip(counts.words(rows), found[rows].tolist(), strict=True))
    before = _wordlike(keep.words) if keep else []
    counted |= zip(before, counts.find(before).tolist(), strict=True)
    if not counted and not keep:
        top = int(found.argmax()) if len(found) else -1
        raise _too_rare(name, config, counts.words(np.array([top]))[0] if top >= 0 else "", int(found.max(initial=0)))
    return _select(counted, total, config.vocab_size if limited else 0, keep)


def _wordlike(words: Sequence[str]) -> list[str]:
    """Those that a text may have; vectors from elsewhere may have others, with spaces in them."""
    raw = {word: word.encode("utf-8", "replace") for word in words}
    return [word for word in words if raw[word].split() == [raw[word]]]


def _select(counted: Mapping[str, int], total: int, vocab_size: int, keep: Words | None) -> Words:
    """The words kept before, with the counts of both texts; and the most frequent new ones, if a size is given."""
    old = dict(zip(keep.words, keep.counts.tolist(), strict=True)) if keep else {}
    new = sorted((pair for pair in counted.items() if pair[0] not in old), key=lambda pair: (-pair[1], pair[0]))
    new = new[: max(vocab_size - len(old), 0)] if vocab_size else new
    grown = [(word, before + counted.get(word, 0)) for word, before in old.items()]
    return Words.of([*grown, *new], total + (keep.total if keep else 0))


def _too_rare(name: str, config: Vocabulary, word: str, times: int) -> CanonError:
    if not word:
        return CanonError(f"{name} has only words that are too long; words are parted by spaces.")
    chinese = ANY_HAN.search(word) and config.tokenizer != "jieba"
    hint = ', or data.tokenizer = "jieba" for Chinese without spaces' if chinese else ""
    shown = word if len(word) <= 20 else word[:19] + "…"
    return CanonError(
        f"{name} has no word that comes data.min_count = {config.min_count:,} times; the most frequent, "
        f'"{shown}", comes {times:,} times: give a smaller number{hint}.'
    )


def _encode(text: Texts, words: Words, reader: Reader, path: Path, rare: bool = False) -> int:
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
                size += _write(file, np.array([MARK], dtype=np.int32))
                last = MARK
            if len(tokens):
                size += _write(file, tokens)
                last = int(tokens[-1])
        file.flush()
        os.fsync(file.fileno())
    return size


def _write(file: BinaryIO, tokens: np.ndarray) -> int:
    file.write(tokens.data)
    return len(tokens)


def _encode_part(text: Texts, words: Words, reader: Reader, folder: Path, name: str) -> None:
    """A part that has a text of its own."""
    segmented = reader.segment(text, folder)
    if not _encode(segmented, words, reader, folder / f"{name}.i32"):
        raise CanonError(f"{text.name} has none of the {words.size:,} words that were learnt.")
    for path in folder.glob("*.txt"):
        path.unlink()


# Held-out shares


def _settle(
    path: Path,
    total: int,
    known: Words,
    config: Vocabulary,
    shares: Mapping[str, float],
    keep: Words | None,
    name: str,
) -> Words:
    """Cuts the text in `path` into parts beside it, in the numbers of those words that the training part has enough of.

    The text has RARE for the words that `known` lacks where shares are held out; else `total` is how many words it has.
    """
    tokens = np.memmap(path, dtype=np.int32, mode="r")
    bounds = _bounds(tokens, shares)
    stop = bounds["train"][1]
    counts = np.zeros(known.size, dtype=np.int64)
    for chunk in _chunks(tokens, 0, stop):
        counts += np.bincount(chunk[chunk >= 0], minlength=known.size)
    before = keep.index if keep else {}
    found = zip(known.words, counts.tolist(), strict=True)
    counted = {word: times for word, times in found if times >= config.min_count or word in before}
    if not counted:
        raise _too_rare(f"The training part of {name}", config, known.words[counts.argmax()], int(counts.max()))
    total = num_words(tokens[:stop]) if shares else total
    words = _select(counted, total, config.vocab_size, keep)
    rows = np.array([words.index.get(word, RARE) for word in known.words], dtype=np.int32)
    for part, (begin, end) in bounds.items():
        with (path.parent / f"{part}.i32").open("wb") as file:
            for chunk in _renumbered(_chunks(tokens, begin, end), rows):
                _write(file, chunk)
            file.flush()
            os.fsync(file.fileno())
    path.unlink()
    return words


def _chunks(tokens: np.ndarray, start: int, stop: int) -> Iterator[np.ndarray]:
    return (tokens[first : min(first + CHUNK, stop)] for first in range(start, stop, CHUNK))


def _bounds(tokens: np.ndarray, shares: Mapping[str, float]) -> dict[str, tuple[int, int]]:
    """Where each part begins and ends: shares of the words, cut at the nearest sentence end that is near enough."""
    bounds: dict[str, tuple[int, int]] = {}
    stop = len(tokens)
    for name, share in shares.items():
        words = num_words(tokens[:stop])
        held = held_count(words, share)
        if held:
            cut = _sentence_end(tokens, _place_of_word(tokens, words - held), held // 2)
            bounds[name] = cut, stop
            stop = cut
    return {"train": (0, stop), **bounds}


def _place_of_word(tokens: np.ndarray, index: int) -> int:
    """Where the word is that `index` others come before."""
    place = 0
    for chunk in _chunks(tokens, 0, len(tokens)):
        words = np.flatnonzero(chunk != MARK)
        if index < len(words):
            return place + int(words[index])
        index -= len(words)
        place += len(chunk)
    raise AssertionError("so many words there are not")


def _sentence_end(tokens: np.ndarray, place: int, reach: int) -> int:
    """The place behind a mark that is nearest to `place`, up to `reach` away; else `place` itself."""
    reach = min(reach, CHUNK)
    begin = max(place - reach, 1)  # something stays before it
    near = np.flatnonzero(tokens[begin - 1 : place + reach] == MARK) + begin
    return int(near[np.abs(near - place).argmin()]) if len(near) else place


def _renumbered(chunks: Iterator[np.ndarray], rows: np.ndarray) -> Iterator[np.ndarray]:
    """rows[number] for every number, without RARE, and without marks that no word comes before."""
    marked = True  # at the end of the chunk before
    for chunk in chunks:
        found = np.where(chunk >= 0, rows[np.maximum(chunk, 0)], chunk)
        found = found[found != RARE]
        marks = found == MARK
        again = marks & np.concatenate([[marked], marks[:-1]])[: len(marks)]
        marked = bool(marks[-1]) if len(marks) else marked
        yield np.ascontiguousarray(found[~again])
