"""A stream of documents to blocks of tokens in the order of the text: read, split into sentences, encoded.

This thread reads and splits while others encode: the tokenizers library lets go of the interpreter and uses every core.
A few blocks are in memory at a time, however large the text is. Where a shard of the text ends is decided by its
characters alone (`batches`), so that every building of it is cut alike and can be taken up at any shard.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from canon.data.batching.passages import WORD
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.threads import in_order, num_threads
from canon.data.formats import text
from canon.data.text import segment
from canon.data.text.sentences import split_pieces, split_sentences
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import to_utf8
from canon.data.text.word_starts import Phrases, WordStarts, chinese_starts

SHARD = 1 << 26  # characters after which a shard ends, with the document
BATCH = 1 << 20  # characters that are encoded at a time
SEGMENT = 1 << 17  # and where jieba segments them, which is slower
AHEAD = 2  # batches that are encoded while another is read
VERSION = 1  # of the rules for sentences and words


class Place(NamedTuple):
    """How far a text has been read: so many documents of a file, the files before it done."""

    file: int = 0
    documents: int = 0


@dataclass(frozen=True)
class Batch:
    texts: list[str]  # sentences
    ends: np.ndarray  # bool: whether a sentence is the last of its document
    size: int  # bytes of UTF-8
    place: Place  # where it stops
    ends_shard: bool
    ends_text: bool


@dataclass(frozen=True)
class TokenBlock:
    """A batch as arrays: of sentences and documents, the places where they stop within the block."""

    tokens: np.ndarray  # int32
    begins: np.ndarray  # uint8, bits of passages.py
    sentences: np.ndarray  # int64, in tokens
    documents: np.ndarray  # int64, in sentences
    batch: Batch


def documents(texts: TextStream, place: Place = Place()) -> Iterator[tuple[int, str]]:  # noqa: B008
    """(number of the file, document) from a place on, without blank documents."""
    for number, source in enumerate([None, *texts.files] if texts.documents else texts.files):
        if number < place.file:
            continue
        if source is None:
            read: Iterator[str] = (document.replace("\0", " ") for document in texts.documents)
        elif texts.tables:
            read = texts.cells(source)
        else:
            read = text.documents(source, texts.encoding)
        skipped = place.documents if number == place.file else 0
        for document in read:
            if not document or document.isspace():
                continue
            if skipped:
                skipped -= 1
            else:
                yield number, document


def size_of(document: str) -> int:
    return len(document) if document.isascii() else len(document.encode("utf-8", "replace"))


class TextEncoder:
    """How sentences become tokens, and how the words and phrases in them are marked."""

    def __init__(self, tokenizer: Tokenizer, segmenter: str = "", phrases: str = "", encoding: str = "utf-8") -> None:
        self.tokenizer, self.segmenter = tokenizer, segmenter
        self.jieba = segment.load_jieba("data.segmenter") if segmenter else None
        self.words = WordStarts(tokenizer)
        self.phrases = Phrases(Path(phrases).expanduser(), tokenizer, encoding) if phrases else None

    def identity(self) -> dict[str, Any]:
        """All that the tokens and marks depend on."""
        listed = "\n".join(self.phrases.phrases) if self.phrases else ""
        return {
            "version": VERSION,
            "tokenizer": hashlib.sha256(self.tokenizer.to_json().encode()).hexdigest(),
            "segmenter": f"jieba {self.jieba.__version__}" if self.jieba else "",
            "phrases": hashlib.sha256(listed.encode()).hexdigest() if listed else "",
        }

    def split(self, document: str) -> list[str]:
        """The sentences of a document, with white space where that is text."""
        return split_pieces(document.strip()) if self.tokenizer.keeps_space else split_sentences(document)

    def encode(self, texts: list[str], segmented: bytes | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(ids [N], bits [N], lengths of the sentences); segmented: the texts as lines, cut into words by jieba."""
        if segmented is None:
            ids, lengths = self.tokenizer.encode_batch(texts)
        else:
            ids, lengths, spans = self.tokenizer.encode_spans(texts)
        bits = self.words.mark(ids, lengths)
        edges = bits & WORD > 0
        if segmented is not None and len(ids):
            chinese, starts = chinese_starts(texts, segmented, spans[:, 0], lengths)
            firsts = (np.cumsum(lengths) - lengths)[lengths > 0]
            bits[chinese & ~starts] &= ~np.uint8(WORD)
            bits[chinese & starts] |= WORD
            bits[firsts] |= WORD
        if self.phrases is not None:
            self.phrases.mark(ids, bits, edges)
        return ids, bits, lengths

    def batches(self, texts: TextStream, place: Place = Place()) -> Iterator[Batch]:  # noqa: B008
        """The text from a place on, which must be the start of a shard."""
        limit = SEGMENT if self.segmenter else BATCH
        held: list[str] = []
        ends: list[bool] = []
        size = length = shard = 0

        def batch(ends_shard: bool, ends_text: bool = False) -> Batch:
            nonlocal held, ends, size, length
            full = Batch(held, np.array(ends, dtype=bool), size, place, ends_shard, ends_text)
            held, ends, size, length = [], [], 0, 0
            return full

        for number, document in documents(texts, place):
            sentences = self.split(document)
            last = len(sentences) - 1
            size += size_of(document)
            for index, sentence in enumerate(sentences):
                held.append(sentence)
                ends.append(index == last)
                length += len(sentence) + 1
                if length >= limit and index < last:
                    yield batch(False)  # its place is not asked for: a shard does not end within a document
            place = Place(number, place.documents + 1 if number == place.file else 1)
            shard += len(document)
            if shard >= SHARD:
                shard = 0
                yield batch(True)
            elif length >= limit:
                yield batch(False)
        yield batch(True, ends_text=True)

    def blocks(self, texts: TextStream, place: Place = Place()) -> Iterator[TokenBlock]:  # noqa: B008
        """The text from a place on, encoded by two threads while this one reads it."""
        batches = self._segmented(self.batches(texts, place))
        return (block for _, block in in_order(self._block, batches, AHEAD))

    def _block(self, batch_and_words: tuple[Batch, bytes | None]) -> TokenBlock:
        batch, segmented = batch_and_words
        ids, bits, lengths = self.encode(batch.texts, segmented)
        full = lengths > 0  # a tokeniser may drop all characters of a sentence
        return TokenBlock(ids, bits, np.cumsum(lengths[full]), np.cumsum(full)[batch.ends], batch)

    def _segmented(self, batches: Iterator[Batch]) -> Iterator[tuple[Batch, bytes | None]]:
        if not self.segmenter:
            yield from ((batch, None) for batch in batches)
            return
        waiting: deque[Batch] = deque()

        def lines() -> Iterator[np.ndarray]:
            for batch in batches:
                waiting.append(batch)
                joined = "\n".join(sentence.replace("\n", " ") for sentence in batch.texts)
                yield np.frombuffer(to_utf8(joined), dtype=np.uint8)

        for segmented in segment.segment(lines(), num_threads()):
            yield waiting.popleft(), segmented
