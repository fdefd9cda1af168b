"""Templates of prompts: a text with columns, masks, and tokens that are trained or searched.

| piece | becomes |
| --- | --- |
| {COLUMN} | the text of a column; only columns are shortened |
| {mask}, {mask:2} | the slots of a label word: as many as it has tokens, or always so many |
| {soft:4}, {soft:"it was"} | trained vectors: new ones, or as many as the words have tokens, which they start from |
| {trigger:3} | tokens that are searched (AutoPrompt) |
| {demos} | one training example of each class in the same template, with its label word |
| {{, }} | a brace |

A tokenizer whose tokens hold the space before them (byte-level BPE) reads the space before a column, before soft words
and before a label word as the first character of these, as it does in running text. A tokenizer that begins every text
as a word (SentencePiece) begins every piece so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from canon.errors import CanonError

_PIECE = re.compile(r'\{\{|\}\}|\{(?:[^{}"]|"[^"]*")*\}|[{}]')
_MOST = 1000  # soft tokens, triggers or masks of one piece


@dataclass(frozen=True)
class LiteralPiece:
    text: str


@dataclass(frozen=True)
class ColumnPiece:
    name: str


@dataclass(frozen=True)
class MaskPiece:
    count: int = 0  # 0: as many as the word has tokens


@dataclass(frozen=True)
class SoftPiece:
    count: int = 0
    text: str = ""  # words to start from, in place of a count


@dataclass(frozen=True)
class TriggerPiece:
    count: int


@dataclass(frozen=True)
class DemosPiece:
    pass


Piece = LiteralPiece | ColumnPiece | MaskPiece | SoftPiece | TriggerPiece | DemosPiece


@dataclass(frozen=True)
class PromptTemplate:
    text: str

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(_joined(_parsed(self.text)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, each once, in its order."""
        return tuple(dict.fromkeys(piece.name for piece in self.pieces if isinstance(piece, ColumnPiece)))

    @property
    def mask(self) -> MaskPiece | None:
        return next((piece for piece in self.pieces if isinstance(piece, MaskPiece)), None)

    @property
    def has_demos(self) -> bool:
        return any(isinstance(piece, DemosPiece) for piece in self.pieces)

    @property
    def num_triggers(self) -> int:
        return sum(piece.count for piece in self.pieces if isinstance(piece, TriggerPiece))

    def check(self, columns: tuple[str, ...], ends: bool, needs_mask: bool = True) -> None:
        """A sentence where it cannot be used. ends: whether the mask must be last, as for networks that read from left
        to right."""
        masks = sum(isinstance(piece, MaskPiece) for piece in self.pieces)
        if masks != 1 and (masks or needs_mask):
            how = "no {mask}" if not masks else f"{masks} groups of masks"
            raise CanonError(f'data.template has {how}: it needs one, as in "{{{columns[0]}}} It was {{mask}}."')
        for name in self.columns:
            if name not in columns:
                known = ", ".join(f"{{{known}}}" for known in columns)
                raise CanonError(f"data.template has {{{name}}}, which is not a column of text; there is {known}.")
        if not self.columns:
            raise CanonError(f'data.template has no column of text: put {{{columns[0]}}} into "{self.text}".')
        if ends and not isinstance(self.pieces[-1], MaskPiece):
            raise CanonError(
                f'data.template must end with {{mask}}, since the network reads from left to right; got "{self.text}".'
            )
        if sum(isinstance(piece, DemosPiece) for piece in self.pieces) > 1:
            raise CanonError("data.template has {demos} twice: give it once.")


def of_columns(columns: tuple[str, ...], ends: bool) -> str:
    """The plainest template: one text and the mask, or the mask between two texts."""
    first, *second = (f"{{{name}}}" for name in columns)
    pieces = [first, *second, "{mask}"] if ends else [first, "{mask}", *second]
    return " ".join(pieces)


def _parsed(text: str) -> Iterator[Piece]:
    start = 0
    for match in _PIECE.finditer(text):
        if match.start() > start:
            yield LiteralPiece(text[start : match.start()])
        start = match.end()
        whole = match[0]
        if whole in ("{{", "}}"):
            yield LiteralPiece(whole[0])
        elif len(whole) == 1:
            raise CanonError(f'data.template has a single "{whole}" in "{text}"; a brace as text is {whole * 2}.')
        else:
            yield _piece(whole[1:-1].strip())
    if start < len(text):
        yield LiteralPiece(text[start:])


def _piece(inside: str) -> Piece:
    name, colon, value = (part.strip() for part in inside.partition(":"))
    if name == "mask":
        return MaskPiece(_count(value, inside)) if colon else MaskPiece()
    if name == "trigger":
        return TriggerPiece(_count(value, inside) if colon else 1)
    if name == "soft":
        if value.startswith('"') and value.endswith('"') and value.strip('" '):
            return SoftPiece(text=value[1:-1])
        return SoftPiece(_count(value, inside) if colon else 1)
    if name == "demos" and not colon:
        return DemosPiece()
    if not name or colon:
        raise CanonError(
            f"data.template has {{{inside}}}, which is not a piece; pieces are {{COLUMN}}, {{mask}}, {{mask:2}}, "
            '{soft:4}, {soft:"words"}, {trigger:3} and {demos}.'
        )
    return ColumnPiece(name)


def _count(value: str, inside: str) -> int:
    if not value.isdecimal() or not 0 < int(value) <= _MOST:
        raise CanonError(f"data.template: {{{inside}}} needs a whole number from 1 to {_MOST}, as in {{soft:4}}.")
    return int(value)


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Literals that follow each other are one."""
    text = ""
    for piece in pieces:
        if isinstance(piece, LiteralPiece):
            text += piece.text
            continue
        if text:
            yield LiteralPiece(text)
            text = ""
        yield piece
    if text:
        yield LiteralPiece(text)
