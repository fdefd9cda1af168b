"""Rows of texts in a template: sequences of tokens with slots for label words.

An example is one sequence for each variant of its slots (canon/data/text/label_words.py), and with demonstrations for
each draw of them (Gao, Fisch and Chen 2021, arXiv:2012.15723, section 6): one training example of each class, never the
example itself, from the half of its class that is nearest by cosine where vectors are given. Soft tokens have the ids
from the vocabulary's size on, triggers those after them. Columns alone are shortened, the longest first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from canon.data.batching.framed import FramedTexts, Places
from canon.data.formats.rows import TextRows
from canon.data.text.label_words import Filling, Ids, slots_of
from canon.data.text.templates import ColumnPiece, DemosPiece, LiteralPiece, MaskPiece, PromptTemplate, SoftPiece
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

Vectors = Callable[[Sequence[str]], np.ndarray]  # of texts, [n, D], each of length 1


class ColumnSpot(NamedTuple):
    name: str
    space: str  # before it


class SlotSpot(NamedTuple):
    pass


class DemoSpot(NamedTuple):
    pass


Part = Ids | ColumnSpot | SlotSpot | DemoSpot


class Plan(NamedTuple):
    """A template in tokens."""

    parts: tuple[Part, ...]
    spaced: bool  # whether a label word takes the space before the slots
    soft: Ids  # the token that each soft token starts from; −1: a new vector


def _is_spot(part: Part) -> bool:
    return isinstance(part, ColumnSpot | SlotSpot | DemoSpot)


def plan_of(template: PromptTemplate, tokenizer: Tokenizer) -> Plan:
    parts: list[Part] = []
    soft: list[int] = []
    triggers: list[int] = []  # where in `parts` they are
    spaced, space = False, ""
    for place, piece in enumerate(template.pieces):
        if isinstance(piece, LiteralPiece):
            text = piece.text
            if tokenizer.joins_spaces and place + 1 < len(template.pieces) and text.endswith(" "):
                text, space = text[:-1], " "
            if text:
                parts.append(_ids(tokenizer, text))
            continue
        if isinstance(piece, ColumnPiece):
            parts.append(ColumnSpot(piece.name, space))
        elif isinstance(piece, MaskPiece):
            spaced = bool(space)
            parts.append(SlotSpot())
        elif isinstance(piece, DemosPiece):
            parts.append(DemoSpot())
        elif isinstance(piece, SoftPiece):
            ids = _ids(tokenizer, space + piece.text) if piece.text else (-1,) * piece.count
            parts.append(tuple(range(tokenizer.size + len(soft), tokenizer.size + len(soft) + len(ids))))
            soft += ids
        else:
            triggers.append(len(parts))
            parts.append((0,) * piece.count)
        space = ""
    first = tokenizer.size + len(soft)
    for place in triggers:
        count = len(parts[place])
        parts[place], first = tuple(range(first, first + count)), first + count
    return Plan(tuple(parts), spaced, tuple(soft))


def _ids(tokenizer: Tokenizer, text: str) -> Ids:
    return tuple(tokenizer.encode([text])[0].tolist())


def kept_of(lengths: Sequence[int], room: int) -> list[int]:
    """How many tokens of each column are kept where all have no room: the longest are cut first."""
    kept = list(lengths)
    while (over := sum(kept) - room) > 0:
        most = max(kept)
        longest = [index for index, count in enumerate(kept) if count == most]
        below = max((count for count in kept if count < most), default=0)
        cut = max(min(most - below, over // len(longest)), 1)
        for index in longest[:over]:
            kept[index] -= cut
    return kept


@dataclass(frozen=True)
class Demonstrations:
    """The training examples that demonstrations are drawn from."""

    rows: TextRows
    codes: np.ndarray  # [n] the class of each
    draws: int
    seed: int
    vectors: Vectors | None = None  # by which the nearer half of a class is known

    def drawn(self, rows: TextRows) -> np.ndarray:
        """[rows, draws, C] which example of each class; decided by the seed and the row's own text alone."""
        classes = int(self.codes.max()) + 1
        pool, asked = self.rows.joined(), rows.joined()
        near = None if self.vectors is None else self.vectors(asked) @ self.vectors(pool).T
        chosen = np.empty((len(rows), self.draws, classes), dtype=np.int64)
        for row, text in enumerate(asked):
            random = np.random.RandomState([self.seed & 0xFFFFFFFF, zlib.crc32(text.encode())])
            for code in range(classes):
                of_class = np.flatnonzero(self.codes == code).tolist()
                able = np.array([index for index in of_class if pool[index] != text], dtype=np.int64)
                if not len(able):
                    raise CanonError(
                        "{demos} needs two training examples of each class at least, since none demonstrates itself."
                    )
                if near is not None:
                    able = able[np.argsort(-near[row, able], kind="stable")[: -(-len(able) // 2)]]
                chosen[row, :, code] = able[random.randint(len(able), size=self.draws)]
        return chosen


@dataclass(frozen=True)
class PromptWriter:
    """Writes rows into a template."""

    tokenizer: Tokenizer
    template: PromptTemplate
    framing: str
    filling: Filling
    limit: int  # tokens of a sequence
    columns: tuple[str, ...]
    words: tuple[tuple[Ids, ...], ...]  # of each class
    demos: Demonstrations | None = None

    def encode(self, rows: TextRows) -> tuple[FramedTexts, int]:
        """Sequences of each example, and of how many examples a column is cut."""
        plan = plan_of(self.template, self.tokenizer)
        mask = self.template.mask
        slots = slots_of([word for of in self.words for word in of], self.filling, mask.count if mask else 0)
        variants = [self._slot(fill, count) for fill, count in zip(slots.fills, slots.counts, strict=True)]
        if not mask or self.filling is Filling.SENTINEL:  # no slots, or T5's decoder has them
            variants = variants[:1] if mask else [((), ())]
        before, after = self._frame()
        texts = self._columns(plan, rows)
        drawn = None if self.demos is None or not self.template.has_demos else self.demos.drawn(rows)
        pool = self._columns(plan, self.demos.rows) if self.demos is not None and drawn is not None else {}
        bare = [part for part in plan.parts if not isinstance(part, DemoSpot)]
        tokens: list[int] = []
        lengths: list[int] = []
        positions: list[int] = []
        cut = 0
        for row in range(len(rows)):
            was_cut = False
            for examples in [()] if drawn is None else drawn[row]:
                parts = self._with_demos(plan, bare, texts, row, pool, examples)
                for fill, asked in variants:
                    ids, place, shortened = self._write(parts, fill, len(before) + len(after))
                    was_cut |= shortened
                    positions += [len(before) + place + step for step in asked]
                    tokens += [*before, *ids, *after]
                    lengths.append(len(before) + len(ids) + len(after))
            cut += was_cut
        parts_n = np.full(len(rows), len(lengths) // max(len(rows), 1), dtype=np.int64)
        counts = np.resize(np.array([len(asked) for _, asked in variants], dtype=np.int64), len(lengths))
        places = Places(np.array(positions, dtype=np.int64), np.zeros(len(positions), dtype=np.int64), counts)
        flat = np.array(tokens, dtype=np.int64)
        return FramedTexts(flat, np.zeros_like(flat), np.array(lengths, dtype=np.int64), parts_n, places), cut

    def _slot(self, fill: Ids, count: int) -> tuple[Ids, Ids]:
        """The tokens in place of the slots, and from their first one on the places that are read."""
        specials = self.tokenizer.specials
        if self.filling is Filling.MASKS:
            return (specials.require("mask", "a prompt"),) * count, tuple(range(count))
        if self.filling is Filling.CHAIN:
            return fill, tuple(range(-1, count - 1))
        if not specials.sentinels:
            raise CanonError("The tokenizer has no <extra_id_0>, which a prompt for T5 needs; use one that has it.")
        return (specials.sentinels[0],), ()

    def _frame(self) -> tuple[Ids, Ids]:
        specials = self.tokenizer.specials
        if self.filling is Filling.MASKS:
            return (specials.require("cls", "a prompt"),), (specials.require("sep", "a prompt"),)
        return (), () if self.filling is Filling.CHAIN else (specials.require("eos", "a prompt"),)

    def _columns(self, plan: Plan, rows: TextRows) -> dict[ColumnSpot, list[Ids]]:
        """The tokens of every row, by where they stand."""
        texts = dict(zip(self.columns, (rows.first, rows.second or ()), strict=False))
        spots = dict.fromkeys(part for part in plan.parts if isinstance(part, ColumnSpot))
        encoded = {}
        for spot in spots:
            flat, lengths = self.tokenizer.encode([spot.space + text for text in texts[spot.name]])
            stops = list(accumulate(lengths.tolist(), initial=0))
            ids = flat.tolist()
            encoded[spot] = [tuple(ids[a:b]) for a, b in pairwise(stops)]
        return encoded

    def _with_demos(
        self,
        plan: Plan,
        bare: Sequence[Part],
        texts: dict[ColumnSpot, list[Ids]],
        row: int,
        pool: dict[ColumnSpot, list[Ids]],
        examples: Sequence[int],
    ) -> list[tuple[bool, Ids] | SlotSpot]:
        """The pieces of a sequence: tokens and whether they are of a column, and the slots."""

        def filled(parts: Sequence[Part], columns: dict[ColumnSpot, list[Ids]], index: int) -> list:
            return [
                (True, columns[part][index])
                if isinstance(part, ColumnSpot)
                else part
                if _is_spot(part)
                else (False, part)
                for part in parts
            ]

        pieces: list = []
        for piece in filled(plan.parts, texts, row):
            if not isinstance(piece, DemoSpot):
                pieces.append(piece)
                continue
            for code, example in enumerate(examples):
                word = (False, self.words[code][0])
                one = filled(bare, pool, int(example))
                pieces += [word if isinstance(part, SlotSpot) else part for part in one]
        return pieces

    def _write(self, pieces: list, fill: Ids, framed: int) -> tuple[list[int], int, bool]:
        """The tokens, the place of the slots among them, and whether a column is cut."""
        lengths = [len(ids) for is_text, ids in (p for p in pieces if not isinstance(p, SlotSpot)) if is_text]
        fixed = sum(len(p[1]) for p in pieces if not isinstance(p, SlotSpot) and not p[0])
        room = self.limit - framed - fixed - len(fill)
        if room < min(len(lengths), sum(lengths)):
            raise CanonError(
                f"data.template has {self.limit - room} tokens beside its columns, but a sequence has {self.limit}: "
                "shorten it, or raise data.max_length."
            )
        kept = iter(kept_of(lengths, room))
        ids: list[int] = []
        place = 0
        for piece in pieces:
            if isinstance(piece, SlotSpot):
                place = len(ids)
                ids += fill
            else:
                is_text, tokens = piece
                ids += tokens[: next(kept)] if is_text else tokens
        if self.filling is Filling.CHAIN and not place:
            raise CanonError("data.template has nothing before {mask}, which the network would go on from.")
        return ids, place, sum(lengths) > room
