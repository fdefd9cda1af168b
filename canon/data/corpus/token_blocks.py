"""A stream of documents to blocks of tokens in the order of the text: read, split into sentences, encoded.

A short text is encoded by two threads, and the tokenizers library uses every core. What follows in a longer one goes to
a process for each core (workers.py; each is this module, run by itself), which splits it too: half of that work is
Python's. This process reads the text and takes the tokens, in order: they do not depend on who makes them.
A few batches are in memory at a time, however large the text is. Where a shard of the text ends is decided by its
characters alone (`batches`), so that every building of it is cut alike and can be taken up at any shard.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from canon.data.batching.passages import WORD
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.threads import in_order, num_threads
from canon.data.corpus.workers import Workers, serve
from canon.data.formats import text
from canon.data.text import segment
from canon.data.text.sentences import split_pieces, split_sentences
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import in_batches, to_utf8
from canon.data.text.word_starts import Phrases, WordStarts, chinese_starts

SHARD = 1 << 26  # characters after which a shard ends, with the document
BATCH = 1 << 20  # characters after which a batch ends, with the document; also those that are encoded at a time
SEGMENT = 1 << 17  # and where jieba segments them, which is slower
FEW = 4  # batches; so short a text is encoded in this process
AHEAD = 2  # batches that are then encoded while another is read
VERSION = 1  # of the rules for sentences and words


class Place(NamedTuple):
    """How far a text has been read: so many documents of a file, the files before it done."""

    file: int = 0
    documents: int = 0


@dataclass(frozen=True)
class Batch:
    documents: list[str]  # whole ones
    size: int  # bytes of UTF-8
    place: Place  # where it stops
    ends_shard: bool
    ends_text: bool


class DocumentTokens(NamedTuple):
    """Documents as arrays: of sentences and documents, the places where they stop."""

    tokens: np.ndarray  # int32
    begins: np.ndarray  # uint8, bits of passages.py
    sentences: np.ndarray  # int64, in tokens
    documents: np.ndarray  # int64, in sentences

    def to_bytes(self) -> bytes:
        sizes = json.dumps([len(values) for values in self]).encode()
        return b"".join((sizes, b"\n", *(values.tobytes() for values in self)))

    @classmethod
    def from_bytes(cls, packed: bytes) -> DocumentTokens:
        place = packed.index(b"\n") + 1
        arrays = []
        for size, kind in zip(json.loads(packed[:place]), (np.int32, np.uint8, np.int64, np.int64), strict=True):
            arrays.append(np.frombuffer(packed, kind, size, place))
            place += arrays[-1].nbytes
        return cls(*arrays)


class TokenBlock(NamedTuple):
    encoded: DocumentTokens
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
        self._settings = {"segmenter": segmenter, "phrases": phrases, "encoding": encoding}
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

    def encode_documents(self, documents: list[str]) -> DocumentTokens:
        """Whole documents, so many characters at a time."""
        sentences: list[str] = []
        counts: list[int] = []
        for document in documents:
            before = len(sentences)
            sentences += self.split(document)
            counts.append(len(sentences) - before)
        limit = SEGMENT if self.jieba else BATCH
        together = list(in_batches(sentences, limit)) or [[]]
        parts = [self.encode(some, self._segmented(some)) for some in together]
        ids, bits, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        full = lengths > 0  # a tokeniser may drop all characters of a sentence
        stops = np.cumsum(lengths[full], dtype=np.int64)
        return DocumentTokens(
            ids, bits, stops, np.append(0, np.cumsum(full, dtype=np.int64))[np.cumsum(counts, dtype=np.int64)]
        )

    def _segmented(self, sentences: list[str]) -> bytes | None:
        if self.jieba is None:
            return None
        return segment.segmented(self.jieba, to_utf8("\n".join(text.replace("\n", " ") for text in sentences)))

    def batches(self, texts: TextStream, place: Place = Place()) -> Iterator[Batch]:  # noqa: B008
        """The text from a place on, which must be the start of a shard."""
        limit = SEGMENT if self.segmenter else BATCH
        held: list[str] = []
        size = length = shard = 0

        def batch(ends_shard: bool, ends_text: bool = False) -> Batch:
            nonlocal held, size, length
            full = Batch(held, size, place, ends_shard, ends_text)
            held, size, length = [], 0, 0
            return full

        for number, document in documents(texts, place):
            held.append(document)
            size += size_of(document)
            length += len(document)
            shard += len(document)
            place = Place(number, place.documents + 1 if number == place.file else 1)
            if shard >= SHARD:
                shard = 0
                yield batch(True)
            elif length >= limit:
                yield batch(False)
        yield batch(True, ends_text=True)

    def blocks(self, texts: TextStream, place: Place = Place()) -> Generator[TokenBlock]:  # noqa: B008
        """The text from a place on, encoded while it is read."""
        batches, workers = self.batches(texts, place), num_threads()
        first = list(islice(batches, FEW + 1))
        if workers == 1 or len(first) <= FEW:
            yield from self._encoded(self.encode_documents, chain(first, batches), AHEAD)
            return
        settings = json.dumps({"tokenizer": self.tokenizer.to_json(), **self._settings}).encode()
        with Workers(__name__, workers, "tokenizes", settings) as processes:

            def ask(documents: list[str]) -> DocumentTokens:
                return DocumentTokens.from_bytes(processes.ask(_packed(documents)))

            yield from self._encoded(ask, chain(first, batches), workers)

    def _encoded(
        self, encode: Callable[[list[str]], DocumentTokens], batches: Iterator[Batch], threads: int
    ) -> Generator[TokenBlock]:
        for batch, encoded in in_order(lambda batch: encode(batch.documents), batches, threads):
            yield TokenBlock(encoded, batch)


# What a process is sent


def _packed(documents: list[str]) -> bytes:
    """Half characters too: the process then reports them."""
    texts = [document.encode("utf-8", "surrogatepass") for document in documents]
    return b"".join((json.dumps([len(text) for text in texts]).encode(), b"\n", *texts))


def _unpacked(request: bytes) -> list[str]:
    place = request.index(b"\n") + 1
    documents = []
    for size in json.loads(request[:place]):
        documents.append(request[place : place + size].decode("utf-8", "surrogatepass"))
        place += size
    return documents


def _begin(settings: bytes) -> Callable[[bytes], bytes]:
    content = json.loads(settings)
    encoder = TextEncoder(Tokenizer.from_json(content.pop("tokenizer")), **content)
    return lambda request: encoder.encode_documents(_unpacked(request)).to_bytes()


if __name__ == "__main__":
    serve(_begin)
