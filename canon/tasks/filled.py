"""Lines to print at an evaluation of pre-training: a text, and what the network fills in where it was asked.

The cat [sat] on the [hat ≠ mat] | It was: told rightly; told hat where mat is right; another text begins.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from canon.data.batching.composer import Pretext
from canon.data.text.tokenizers import Tokenizer

SHOWN = 3  # sequences
GUESSES = 24  # places of a sequence that are shown at most
_TOKENS = 40  # of a sequence that are shown
_BEFORE = 16  # tokens before the one to tell, where every one is told

Arrays = dict[str, np.ndarray]


def lines(objective: Pretext, batch: Arrays, guesses: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    """guesses [B, G]: the tokens that the network holds for likeliest at the first places; −1: not asked."""
    if objective.decodes:
        return _put_out(batch, guesses, tokenizer)
    rows = np.repeat(np.arange(len(batch["input_lengths"])), batch["input_lengths"])
    starts = np.cumsum(batch["input_lengths"]) - batch["input_lengths"]
    found = []
    for row in range(len(starts)):
        own = rows[batch["places"]] == row
        places, target = batch["places"][own] - starts[row], batch["target"][own]
        text = batch["input"][starts[row] : starts[row] + batch["input_lengths"][row]]
        count = min(int((guesses[row] >= 0).sum()), len(places))
        if not count:
            continue
        if objective.continues:
            place = min(_BEFORE, count) - 1
            said, right = guesses[row, place], target[place]
            found.append(f"  {_text(tokenizer, text[: place + 1])} {_mark(tokenizer, [said], [right])}")
        else:
            found.append("  " + _filled(text, places[:count], target[:count], guesses[row, :count], tokenizer))
    return found


def _filled(text: np.ndarray, places: np.ndarray, target: np.ndarray, told: np.ndarray, tokenizer: Tokenizer) -> str:
    """The beginning of a text, up to the last place that is known, with what was told in brackets."""
    stop = min(len(text), _TOKENS, int(places[-1]) + 8)
    by_place = {int(place): index for index, place in enumerate(places)}
    parts = []
    sep = tokenizer.specials.sep
    for (asked, ends), group in groupby(range(stop), key=lambda place: (place in by_place, text[place] == sep)):
        members = list(group)
        if ends and not asked:
            parts.append("|" if members[-1] < len(text) - 2 else "")  # behind the last text stands <sep> too, or <cls>
        elif asked:
            known = [by_place[place] for place in members]
            parts.append(_mark(tokenizer, told[known], target[known]))
        else:
            parts.append(_text(tokenizer, text[members]))
    return " ".join(part for part in parts if part) + (" …" if stop < len(text) else "")


def _put_out(batch: Arrays, guesses: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    source = np.split(batch["input"], np.cumsum(batch["input_lengths"])[:-1])
    target = np.split(batch["target"], np.cumsum(batch["target_lengths"])[:-1])
    found = []
    for row in range(len(source)):
        right, said = target[row][:GUESSES], guesses[row][guesses[row] >= 0]
        given = _text(tokenizer, source[row][:_TOKENS]) + (" …" if len(source[row]) > _TOKENS else "")
        told, wanted = _text(tokenizer, said), _text(tokenizer, right)
        found.append(f"  {given} → {told}" + ("" if told == wanted else f"   (right: {wanted})"))
    return found


def _mark(tokenizer: Tokenizer, told: np.ndarray | list, right: np.ndarray | list) -> str:
    said, wanted = (_text(tokenizer, ids) or " ".join(tokenizer.tokens(ids)) for ids in (told, right))
    return f"[{said}]" if np.array_equal(told, right) else f"[{said} ≠ {wanted}]"


def _text(tokenizer: Tokenizer, ids: np.ndarray | list) -> str:
    """On one line."""
    return " ".join(tokenizer.decode(ids).split())
