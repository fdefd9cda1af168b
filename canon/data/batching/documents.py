"""Documents cut into words, with one or several labels each: the data of a text classifier (InputKind "document").

A word is what is between ASCII spaces ("split", as fastText has it), or what canon's word splitter or jieba cuts; every
document ends in the word `</s>`, fastText's end of a line, and a `</s>` inside a text ends it too. Words are numbered
by `Words` of the training split; a word that is not among them keeps its hash: word n-grams are made of hashes.
A label that the training split does not have is left out of the others, as fastText leaves it out, and reported
(`LabelLists.unseen`). canon/data/encodings/bags.py makes these columns of files.
Shapes: n documents, N words of all of them, U different words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from canon.data.batching.sequences import Uneven
from canon.data.progress import bar
from canon.data.text.vocabularies import in_batches, normaliser, pipeline, to_utf8
from canon.data.text.words import Words
from canon.errors import unknown

LINE_END = b"</s>"
END = b" </s>\n"
KINDS = ("split", "word", "jieba")
_AT_ONCE = 10_000  # texts


@dataclass(frozen=True, eq=False)
class Distinct:
    """The different words of some documents, in UTF-8."""

    words: Sequence[bytes]
    ids: np.ndarray  # int32 [U]: row in the vocabulary, −1 for none
    hashes: np.ndarray  # int32 [U]: FNV-1a as fastText has it

    @classmethod
    def of(cls, words: Sequence[bytes], vocabulary: Words) -> Distinct:
        index = vocabulary.index
        ids = [index.get(word.decode(), -1) for word in words]
        return cls(words, np.array(ids, dtype=np.int32), hashes(words))


class Documents(Uneven):
    """Word numbers end to end: document i is codes_N[offsets[i] : offsets[i + 1]], places in `distinct`."""

    def __init__(self, codes_N: np.ndarray, lengths_n: np.ndarray, distinct: Distinct) -> None:
        super().__init__(codes_N, lengths_n)
        self.codes_N, self.distinct = codes_N, distinct

    @cached_property
    def ids(self) -> np.ndarray:
        """Rows of the vocabulary, int32 [N]; −1 for words that are not in it."""
        return self.distinct.ids[self.codes_N]

    @cached_property
    def hashes(self) -> np.ndarray:
        """fastText's hashes, int32 [N], of unknown words too."""
        return self.distinct.hashes[self.codes_N]

    @property
    def num_words(self) -> int:
        return len(self.codes_N)

    def _with(self, places: np.ndarray, lengths: np.ndarray) -> Documents:
        return Documents(self.codes_N[places], lengths, self.distinct)


class LabelLists(Uneven):
    """Label numbers end to end: those of example i, or none, are flat[offsets[i] : offsets[i + 1]]."""

    def __init__(self, flat: np.ndarray, lengths: np.ndarray, unseen: tuple[tuple[str, int], ...] = ()) -> None:
        super().__init__(flat, lengths)
        self.flat, self.unseen = flat, unseen

    @classmethod
    def of(cls, target: object) -> LabelLists:
        """A target column as labels: one class each, or what it is already."""
        if isinstance(target, LabelLists):
            return target
        classes = np.asarray(target, dtype=np.int64)
        return cls(classes, np.ones(len(classes), dtype=np.int64))

    def _with(self, places: np.ndarray, lengths: np.ndarray) -> LabelLists:
        return LabelLists(self.flat[places], lengths, self.unseen)


def unseen_sentence(labels: LabelLists) -> str:
    """The note on labels that training does not have; "" where there are none."""
    if not labels.unseen:
        return ""
    listed = ", ".join(f"{name} ({count})" for name, count in labels.unseen[:5])
    more = f" and {len(labels.unseen) - 5:,} more" if len(labels.unseen) > 5 else ""
    alone = int((labels.lengths == 0).sum())
    lost = f"; {alone:,} examples have no other label and are not scored" if alone else ""
    return f"labels that the training examples do not have are left out: {listed}{more}{lost}."


# Text to words


def cut_blocks(texts: Sequence[str], kind: str, lowercase: bool) -> Iterator[bytes]:
    """Some texts at a time, in UTF-8: white space between their words, `</s>` after each text."""
    if kind not in KINDS:
        raise unknown("kind of tokenizer for documents", kind, KINDS)
    lower = map(str.lower, texts) if lowercase else iter(texts)
    if kind == "jieba":
        yield from _by_jieba(lower)
        return
    cut = _word_cutter() if kind == "word" else _utf8
    while some := [cut(text) for text in islice(lower, _AT_ONCE)]:
        yield _ended(some)


def _ended(texts: list[bytes]) -> bytes:
    """One text of all; one that holds the word `</s>` ends there."""
    whole = END.join(texts) + END
    if whole.count(LINE_END) == len(texts):
        return whole
    rows = (text.split() for text in texts)
    return END.join(b" ".join(row[: row.index(LINE_END)] if LINE_END in row else row) for row in rows) + END


def _word_cutter() -> Callable[[str], bytes]:
    inner = pipeline("word", lowercase=False)
    normalise, cut = normaliser(inner), inner.pre_tokenizer.pre_tokenize_str
    return lambda text: b" ".join(word.encode() for word, _ in cut(normalise(_utf8(text).decode())))


def _by_jieba(texts: Iterator[str]) -> Iterator[bytes]:
    """In as many processes as there are cores, where there is much: one line for each text, blocks of lines at once."""
    from canon.data.corpus.threads import num_threads
    from canon.data.text.segment import BLOCK, segment

    batches = in_batches((_utf8(text.replace("\n", " ")) for text in texts), BLOCK)
    blocks = (np.frombuffer(b"\n".join(batch), dtype=np.uint8) for batch in batches)
    for block in segment(blocks, num_threads()):
        yield _ended(block.split(b"\n"))


def _utf8(text: str) -> bytes:
    """NUL is white space in fastText."""
    return to_utf8(text.replace("\0", " "))


class WordNumbers(dict[bytes, int]):
    """A number for each different word, in the order they come."""

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        return number


def numbered(texts: Sequence[str], kind: str, lowercase: bool, numbers: WordNumbers) -> tuple[np.ndarray, np.ndarray]:
    """The words of all texts end to end (int32 [N]) and how many each has ([n])."""
    codes = [np.empty(0, dtype=np.int32)]
    end = numbers[LINE_END]
    with bar("cutting text into words", len(texts)) as progress:
        for block in cut_blocks(texts, kind, lowercase):
            words = block.split()
            codes.append(np.fromiter(map(numbers.__getitem__, words), dtype=np.int32, count=len(words)))
            progress.advance(int((codes[-1] == end).sum()))
    codes_N = np.concatenate(codes)
    return codes_N, np.diff(np.flatnonzero(codes_N == end), prepend=-1)


def hashes(words: Sequence[bytes]) -> np.ndarray:
    """FNV-1a of 32 bits, bytes above 127 widened as signed ones, as fastText hashes; int32 [U]."""
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")  # longest first: those that have a byte at a place are together
    starts = (np.cumsum(lengths) - lengths)[order]
    flat = np.frombuffer(b"".join(words), dtype=np.int8).astype(np.int32).view(np.uint32)
    state = np.full(len(words), 2166136261, dtype=np.uint32)
    reach = np.searchsorted(-lengths[order], -np.arange(int(lengths.max(initial=0))), side="left")
    for place, count in enumerate(reach.tolist()):
        state[:count] = (state[:count] ^ flat[starts[:count] + place]) * np.uint32(16777619)
    hashes_U = np.empty_like(state)
    hashes_U[order] = state
    return hashes_U.view(np.int32)
