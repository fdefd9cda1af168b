"""Tokenisers: text to token ids and back, stored as JSON of the `tokenizers` library (training: vocabularies.py).

Ids 0 to 3 are <pad> <unk> <bos> <eos> in every vocabulary. Nothing in a text is read as one of them, but <unk> by word
and split, and the others by split. A vocabulary to pre-train with has <mask> after them, and sentinels where a system
asks for them. Networks from elsewhere need their own ids: a tokeniser that is loaded as `native` keeps them, and reads
its special tokens in a text as such.
What decode(encode(text)) keeps: char and byte-bpe everything; bpe and unigram the text in Unicode's NFC, less one space
at its start; word and wordpiece the words, with spaces where English and Chinese have them; split the tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.formats.files import read_text
from canon.data.progress import bar
from canon.data.text.framing import Specials
from canon.data.text.vocabularies import (
    BOS,
    EOS,
    KINDS,
    MASK,
    PAD,
    RESERVED,
    SENTINEL,
    UNK,
    Texts,
    in_batches,
    learn,
    library,
    of_words,
    to_utf8,
)
from canon.errors import CanonError

FOREIGN = "foreign"  # the kind of a tokenizer.json that was made elsewhere
NATIVE = "native"  # how one that keeps its own ids is marked in its file
BATCH = 1 << 22  # characters that are encoded at a time

# Where join_words puts no space.
_CLOSING = frozenset(".,;:!?%)]}…’”»°")
_OPENING = frozenset("([{“‘«¿¡$£€#@")
_QUOTES = frozenset("\"'")
_WIDE = ((0x2E80, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF))


class Tokenizer:
    """Text ⇄ ids. `offset` is what a foreign tokeniser's own ids are moved by, to make room for the reserved ones."""

    def __init__(self, inner: Any, kind: str, native: bool = False) -> None:
        inner.no_truncation()
        inner.no_padding()
        self.kind = kind
        self._inner = inner
        ids = inner.get_vocab(with_added_tokens=True).values()
        reserved = all(inner.id_to_token(index) == token for index, token in enumerate(RESERVED))
        self.native = native and not reserved
        self.offset = 0 if reserved or native else len(RESERVED)
        self.size = max(ids, default=-1) + 1 + self.offset
        self._unknown = _unknown_id(inner) if self.offset else UNK  # in the library's numbers; -1 for none
        self._bytes = type(inner.decoder).__name__ == "ByteLevel"

    @classmethod
    def train(
        cls,
        texts: Texts,
        kind: str,
        vocab_size: int = 0,
        lowercase: bool = False,
        min_count: int = 1,
        mask: bool = False,
        sentinels: int = 0,
    ) -> Tokenizer:
        """A vocabulary of at most `vocab_size` tokens (0: all words or characters, 8000 pieces) from `texts`.

        texts: a list, or a function that gives the texts from their start each time it is called (they are read twice
        for pieces, and never held). min_count: words and characters that are rarer, and pairs that would be merged,
        are left out. mask: whether there is <mask>, for pre-training, and after it so many `sentinels`.
        """
        more = [MASK, *(SENTINEL.format(index) for index in range(sentinels))] if mask or sentinels else []
        return cls(learn(texts, kind, vocab_size, lowercase, min_count, (*RESERVED, *more)), kind)

    @classmethod
    def of_words(cls, words: Sequence[str], kind: str, lowercase: bool) -> Tokenizer:
        """A vocabulary of these words; kind: word or split."""
        return cls(of_words(words, kind, lowercase), kind)

    @cached_property
    def specials(self) -> Specials:
        """The ids of special tokens: of canon's own tokenisers by their places, of others by their names."""
        ids: dict[str, int] = self._inner.get_vocab(with_added_tokens=True)
        if self.native:
            specials, unknown = Specials.of(ids), _unknown_id(self._inner)
            return replace(specials, unk=unknown) if unknown >= 0 else specials
        if self.offset:
            specials = Specials.of({token: index + self.offset for token, index in ids.items()})
            cls, sep = (specials.cls, specials.sep) if specials.cls >= 0 and specials.sep >= 0 else (BOS, EOS)
            return replace(specials, pad=PAD, unk=UNK, cls=cls, sep=sep, bos=BOS, eos=EOS)
        mask = len(RESERVED) if ids.get(MASK) == len(RESERVED) else -1
        places = count(mask + 1) if mask >= 0 else ()
        sentinels = takewhile(lambda place: ids.get(SENTINEL.format(place - mask - 1)) == place, places)
        return Specials(PAD, UNK, BOS, EOS, mask, BOS, EOS, tuple(sentinels))

    @property
    def keeps_space(self) -> bool:
        """Whether white space is text as any other: then the tokens of sentences are those of the whole document."""
        return self._bytes or self.kind == "char"

    @property
    def joins_spaces(self) -> bool:
        """Whether a space is the first character of the token after it (byte-level BPE)."""
        return self._bytes

    # Files

    def to_json(self) -> str:
        """The library's own tokenizer.json; only model.canon, the kind, is ours (the library ignores it)."""
        plain = json.loads(self._inner.to_str())
        plain["model"]["canon"] = NATIVE if self.native else self.kind
        return json.dumps(plain, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str, name: str = "The tokenizer", native: bool = False) -> Tokenizer:
        """What `to_json` gave, or any tokenizer.json of the library; `name` is for the error if it is neither.

        native: one from elsewhere keeps its own ids.
        """
        tokenizers = library()
        try:
            plain = json.loads(text)
            kind = plain["model"].pop("canon", FOREIGN)
            kind, native = (FOREIGN, True) if kind == NATIVE else (kind, native and kind == FOREIGN)
            tokenizer = cls(tokenizers.Tokenizer.from_str(json.dumps(plain)), kind, native)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as mistake:  # a panic of the library is not an Exception
            reason = f"it has no {mistake}" if isinstance(mistake, KeyError) else str(mistake).rstrip(".") or "damaged"
            raise CanonError(f"{name} is not a tokenizer.json of the tokenizers library ({reason}).") from None
        if kind not in (*KINDS, FOREIGN) or (tokenizer.offset and kind != FOREIGN):
            listed = " ".join(RESERVED)
            raise CanonError(f'{name} is damaged: it is not of the kind "{kind}" with {listed} as its first tokens.')
        return tokenizer

    @classmethod
    def load(cls, path: Path, native: bool = False) -> Tokenizer:
        return cls.from_json(read_text(path), str(path), native)

    def require_rows(self, rows: int, tokenizer_file: str | Path, weights_file: str | Path) -> None:
        """The vocabulary must fit an embedding table with `rows` rows; that of others may have some to spare."""
        if rows != self.size and not (self.native and rows > self.size):
            raise CanonError(
                f"{tokenizer_file} has {self.size:,} tokens but {weights_file} was trained with {rows:,}; "
                "use the tokenizer that was stored with those weights."
            )

    # Text and ids

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(ids of all texts end to end, int32; how many each has, int64), without <bos> and <eos>."""
        parts = [(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64))]
        with bar("tokenising", len(texts)) as progress:
            for batch in in_batches(texts, BATCH):
                parts.append(self.encode_batch(batch))
                progress.advance(len(batch))
        ids, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return ids, lengths

    def encode_batch(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode` for so many texts as fit in memory twenty times over; the library uses all cores."""
        return self._arrays([encoding.ids for encoding in self._encode(texts)])

    def encode_spans(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`encode`, and of each token its first character in its text and the one after its last, int64 [N, 2]."""
        parts = [(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64))]
        for batch in in_batches(texts, BATCH):
            encodings = self._encode(batch, fast=False)
            ids, lengths = self._arrays([encoding.ids for encoding in encodings])
            flat = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
            parts.append((ids, lengths, np.fromiter(flat, dtype=np.int64, count=2 * len(ids)).reshape(-1, 2)))
        ids, lengths, spans = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return ids, lengths, spans

    def _arrays(self, rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the library's numbers to ours end to end, int32, and the rows' lengths, int64."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=lengths.sum())
        if self.offset:
            ids = np.where(ids == self._unknown, UNK, ids + self.offset).astype(np.int32)
        return ids, lengths

    def _encode(self, texts: list[str], fast: bool = True) -> list[Any]:
        try:
            work = self._inner.encode_batch_fast if fast else self._inner.encode_batch
            return work(texts, add_special_tokens=False)
        except TypeError:
            to_utf8("".join(texts))  # raises where half a character is among them
            raise

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """The texts of some rows of ids; <pad>, <bos> and <eos> ([CLS] and [SEP] of a native one) are dropped."""
        rows = [self._own(ids) for ids in batch]
        if self.kind in ("word", "wordpiece"):
            return [join_words(_whole_words(self.vocabulary[index] for index in row)) for row in rows]
        if self.kind == "split":
            return [" ".join(self.vocabulary[index] for index in row) for row in rows]
        return self._inner.decode_batch(rows, skip_special_tokens=False)

    def _own(self, ids: Sequence[int] | np.ndarray) -> list[int]:
        """The library's numbers, without the reserved tokens that are not text."""
        numbers = np.asarray(ids, dtype=np.int64).reshape(-1)
        if self.native:
            return numbers[~np.isin(numbers, self._frame) & (numbers < self.size)].tolist()
        numbers = numbers[(numbers == UNK) | (numbers > EOS)]
        if self.offset:
            numbers = np.where(numbers == UNK, self._unknown, numbers - self.offset)
        return numbers[numbers >= 0].tolist()

    def tokens(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """A label for each id: ▁ is a space, \\n a line end, <0xE6> a byte that is not a character by itself."""
        return [self._label(int(index)) for index in np.asarray(ids).reshape(-1)]

    def _label(self, index: int) -> str:
        token = self.vocabulary[index]
        if index in self._special:
            return token
        if self._bytes and all(character in _BYTES for character in token):
            raw = bytes(_BYTES[character] for character in token)
            try:
                token = raw.decode()
            except UnicodeDecodeError:
                return "".join(f"<0x{value:02X}>" for value in raw)
        return token.replace(" ", "▁").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")

    @cached_property
    def _special(self) -> frozenset[int]:
        return frozenset(self.specials.all.tolist())

    @cached_property
    def _frame(self) -> list[int]:
        """Ids of tokens around a text."""
        specials = self.specials
        return list({specials.pad, specials.cls, specials.sep, specials.bos, specials.eos} - {specials.unk})

    @cached_property
    def vocabulary(self) -> list[str]:
        """The token of each id, as the library spells it."""
        tokens = [self._inner.id_to_token(index) or "" for index in range(self.size - self.offset)]
        return [*RESERVED, *tokens] if self.offset else tokens

    def unknown_rate(self, texts: Sequence[str]) -> float:
        """The share of tokens that are <unk>."""
        ids, _ = self.encode(texts)
        return float((ids == self.specials.unk).mean()) if len(ids) else 0.0


def _unknown_id(inner: Any) -> int:
    model = json.loads(inner.to_str())["model"]
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    index = inner.token_to_id(model["unk_token"]) if model.get("unk_token") else None
    return -1 if index is None else int(index)


# Words to text


def _whole_words(tokens: Iterable[str]) -> Iterator[str]:
    """WordPiece's pieces put together: "##" goes on with the word before it."""
    words: list[str] = []
    for token in tokens:
        piece = token.startswith("##") and len(token) > 2
        if piece and words:
            words[-1] += token[2:]
        else:
            words.append(token[2:] if piece else token)
    return filter(None, words)


def join_words(words: Iterable[str]) -> str:
    """Words with spaces between, but none before closing or after opening marks, and none beside Chinese."""
    text: list[str] = []
    glued = True  # no space before the next word
    quoted = dict.fromkeys(_QUOTES, False)
    for word in words:
        closing = word in _CLOSING or (word in _QUOTES and quoted[word])
        if text and not glued and not closing and word != "/" and not (is_wide(word[0]) or is_wide(text[-1][-1])):
            text.append(" ")
        text.append(word)
        glued = word in _OPENING or word == "/"
        if word in _QUOTES:
            quoted[word] = not quoted[word]
            glued = quoted[word]
    return "".join(text)


def is_wide(character: str) -> bool:
    return character > "⹿" and any(low <= ord(character) <= high for low, high in _WIDE)


# The byte that each character of byte-level BPE stands for: printable ones for themselves, the others from 256 on.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTES = {chr(value): value for value in _PRINTABLE}
_BYTES |= {chr(256 + index): value for index, value in enumerate(sorted({*range(256)} - {*_PRINTABLE}))}
