"""Tokenisers: text to token ids and back, stored as JSON of the `tokenizers` library (training: vocabularies.py).

Ids 0 to 3 are <pad> <unk> <bos> <eos> in every vocabulary. Nothing in a text is read as one of them, but <unk> by word
and split, and the others by split.
What decode(encode(text)) keeps: char and byte-bpe everything; bpe and unigram the text in Unicode's NFC, less one space
at its start; word and wordpiece the words, with spaces where English and Chinese have them; split the tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.files import read_text
from canon.data.progress import bar
from canon.data.vocabularies import EOS, KINDS, RESERVED, UNK, Texts, half_character, learn, library
from canon.errors import CanonError

FOREIGN = "foreign"  # the kind of a tokenizer.json that was made elsewhere
BATCH = 1 << 22  # characters that are encoded at a time

# Where join_words puts no space.
_CLOSING = frozenset(".,;:!?%)]}…’”»°")
_OPENING = frozenset("([{“‘«¿¡$£€#@")
_QUOTES = frozenset("\"'")
_WIDE = ((0x2E80, 0x312F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF00, 0xFFEF), (0x20000, 0x3FFFF))


class Tokenizer:
    """Text ⇄ ids. `offset` is what a foreign tokeniser's own ids are moved by, to make room for the reserved ones."""

    def __init__(self, inner: Any, kind: str) -> None:
        inner.no_truncation()
        inner.no_padding()
        self.kind = kind
        self._inner = inner
        ids = inner.get_vocab(with_added_tokens=True).values()
        reserved = all(inner.id_to_token(index) == token for index, token in enumerate(RESERVED))
        self.offset = 0 if reserved else len(RESERVED)
        self.size = max(ids, default=-1) + 1 + self.offset
        self._unknown = _unknown_id(inner) if self.offset else UNK  # in the library's numbers; -1 for none
        self._bytes = type(inner.decoder).__name__ == "ByteLevel"

    @classmethod
    def train(
        cls, texts: Texts, kind: str, vocab_size: int = 0, lowercase: bool = False, min_count: int = 1
    ) -> Tokenizer:
        """A vocabulary of at most `vocab_size` tokens (0: all words or characters, 8000 pieces) from `texts`.

        texts: a list, or a function that gives the texts from their start each time it is called (they are read twice
        for pieces, and never held). min_count: words and characters that are rarer, and pairs that would be merged,
        are left out.
        """
        return cls(learn(texts, kind, vocab_size, lowercase, min_count), kind)

    # Files

    def to_json(self) -> str:
        """The library's own tokenizer.json; only model.canon, the kind, is ours (the library passes over it)."""
        plain = json.loads(self._inner.to_str())
        plain["model"]["canon"] = self.kind
        return json.dumps(plain, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str, name: str = "The tokenizer") -> Tokenizer:
        """What `to_json` gave, or any tokenizer.json of the library; `name` stands in the sentence if it is neither."""
        own = library()
        try:
            plain = json.loads(text)
            kind = plain["model"].pop("canon", FOREIGN)
            made = cls(own.Tokenizer.from_str(json.dumps(plain)), kind)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as mistake:  # a panic of the library is not an Exception
            reason = f"it has no {mistake}" if isinstance(mistake, KeyError) else str(mistake).rstrip(".") or "damaged"
            raise CanonError(f"{name} is not a tokenizer.json of the tokenizers library ({reason}).") from None
        if kind not in (*KINDS, FOREIGN) or (made.offset and kind != FOREIGN):
            listed = " ".join(RESERVED)
            raise CanonError(f'{name} is damaged: it is not of the kind "{kind}" with {listed} as its first tokens.')
        return made

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        return cls.from_json(read_text(path), str(path))

    def require_rows(self, rows: int, tokenizer_file: str | Path, weights_file: str | Path) -> None:
        """The vocabulary must fit an embedding table with `rows` rows."""
        if rows != self.size:
            raise CanonError(
                f"{tokenizer_file} has {self.size:,} tokens but {weights_file} was trained with {rows:,}; "
                "use the tokenizer that was stored with those weights."
            )

    # Text and ids

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(ids of all texts end to end, int32; how many each has, int64), without <bos> and <eos>."""
        flat: list[np.ndarray] = []
        lengths: list[int] = []
        with bar("tokenising", len(texts)) as progress:
            for batch in _batches(texts):
                rows = self._encode(batch)
                counts = [len(row) for row in rows]
                flat.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=sum(counts)))
                lengths += counts
                progress.advance(len(batch))
        ids = np.concatenate(flat) if flat else np.empty(0, dtype=np.int32)
        if self.offset:
            ids = np.where(ids == self._unknown, UNK, ids + self.offset).astype(np.int32)
        return ids, np.array(lengths, dtype=np.int64)

    def _encode(self, texts: list[str]) -> list[list[int]]:
        try:
            return [found.ids for found in self._inner.encode_batch_fast(texts, add_special_tokens=False)]
        except TypeError:
            try:
                "".join(texts).encode()
            except UnicodeEncodeError as mistake:
                raise half_character(mistake) from None
            raise

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int] | np.ndarray]) -> list[str]:
        """The texts of some rows of ids; <pad>, <bos> and <eos> are dropped."""
        rows = [self._own(ids) for ids in batch]
        if self.kind in ("word", "wordpiece"):
            return [join_words(_whole_words(self.vocabulary[index] for index in row)) for row in rows]
        if self.kind == "split":
            return [" ".join(self.vocabulary[index] for index in row) for row in rows]
        return self._inner.decode_batch(rows, skip_special_tokens=False)

    def _own(self, ids: Sequence[int] | np.ndarray) -> list[int]:
        """The library's numbers, without the reserved tokens that are not text."""
        found = np.asarray(ids, dtype=np.int64).reshape(-1)
        found = found[(found == UNK) | (found > EOS)]
        if self.offset:
            found = np.where(found == UNK, self._unknown, found - self.offset)
            found = found[found >= 0]
        return found.tolist()

    def tokens(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        """A label for each id: ▁ is a space, \\n a line's end, <0xE6> a byte that is no character by itself."""
        return [self._label(int(index)) for index in np.asarray(ids).reshape(-1)]

    def _label(self, index: int) -> str:
        token = self.vocabulary[index]
        if index < len(RESERVED):
            return token
        if self._bytes and all(character in _BYTES for character in token):
            raw = bytes(_BYTES[character] for character in token)
            try:
                token = raw.decode()
            except UnicodeDecodeError:
                return "".join(f"<0x{value:02X}>" for value in raw)
        return token.replace(" ", "▁").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")

    @cached_property
    def vocabulary(self) -> list[str]:
        """The token of each id, as the library spells it."""
        own = [self._inner.id_to_token(index) or "" for index in range(self.size - self.offset)]
        return [*RESERVED, *own] if self.offset else own

    def unknown_rate(self, texts: Sequence[str]) -> float:
        """The share of tokens that are <unk>."""
        ids, _ = self.encode(texts)
        return float((ids == UNK).mean()) if len(ids) else 0.0


def _unknown_id(inner: Any) -> int:
    model = json.loads(inner.to_str())["model"]
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    index = inner.token_to_id(model["unk_token"]) if model.get("unk_token") else None
    return -1 if index is None else int(index)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text) + 1
        if characters > BATCH:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


# Words to text


def _whole_words(tokens: Iterable[str]) -> Iterator[str]:
    """WordPiece's pieces put together: "##" goes on with the word before it."""
    word = ""
    for token in tokens:
        if token.startswith("##") and len(token) > 2:
            word += token[2:]
            continue
        if word:
            yield word
        word = token
    if word:
        yield word


def join_words(words: Iterable[str]) -> str:
    """Words with spaces between, but none before closing or after opening marks, and none beside Chinese."""
    text: list[str] = []
    glued = True  # no space before the next word
    quoted = dict.fromkeys(_QUOTES, False)
    for word in words:
        closing = word in _CLOSING or (word in _QUOTES and quoted[word])
        if text and not glued and not closing and word != "/" and not (_wide(word[0]) or _wide(text[-1][-1])):
            text.append(" ")
        text.append(word)
        glued = word in _OPENING or word == "/"
        if word in _QUOTES:
            quoted[word] = not quoted[word]
            glued = quoted[word]
    return "".join(text)


def _wide(character: str) -> bool:
    return character > "⹿" and any(low <= ord(character) <= high for low, high in _WIDE)


def _byte_alphabet() -> dict[str, int]:
    """The byte behind each character of byte-level BPE: printable ones stand for themselves, the others from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in plain]
    return {chr(value): value for value in plain} | {chr(256 + index): value for index, value in enumerate(others)}


_BYTES = _byte_alphabet()
