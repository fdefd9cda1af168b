"""Lines to print at an evaluation of pre-training: a text, and what the network fills in where it was asked.

The cat [sat] on the [hat ≠ mat] | It was: predicted sat rightly; predicted hat where mat is right; another text begins.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from canon.contracts import Arrays
from canon.data.batching.composer import Pretext
from canon.data.text.tokenizers import Tokenizer

SHOWN = 3  # sequences
GUESSES = 24  # places of a sequence that are shown at most
_TOKENS = 40  # of a sequence that are shown
_BEFORE = 16  # tokens before the one that is shown, where every token is predicted


def lines(objective: Pretext, batch: Arrays, guesses: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    """guesses [B, G]: the likeliest tokens at the first places, by the network; −1: not asked."""
    if objective.decodes:
        return _decoded(batch, guesses, tokenizer)
    rows = np.repeat(np.arange(len(batch["input_lengths"])), batch["input_lengths"])
    starts = np.cumsum(batch["input_lengths"]) - batch["input_lengths"]
    shown = []
    for row in range(len(starts)):
        of_row = rows[batch["places"]] == row
        places, target = batch["places"][of_row] - starts[row], batch["target"][of_row]
        text = batch["input"][starts[row] : starts[row] + batch["input_lengths"][row]]
        count = min(int((guesses[row] >= 0).sum()), len(places))
        if not count:
            continue
        if objective.continues:
            place = min(_BEFORE, count) - 1
            guess, right = guesses[row, place], target[place]
            shown.append(f"  {_text(tokenizer, text[: place + 1])} {_mark(tokenizer, [guess], [right])}")
        else:
            shown.append("  " + _filled(text, places[:count], target[:count], guesses[row, :count], tokenizer))
    return shown


def _filled(text: np.ndarray, places: np.ndarray, target: np.ndarray, guess: np.ndarray, tokenizer: Tokenizer) -> str:
    """The beginning of a text, up to the last place that is known, with the guesses in brackets."""
    stop = min(len(text), _TOKENS, int(places[-1]) + 8)
    by_place = {int(place): index for index, place in enumerate(places)}
    parts = []
    sep = tokenizer.specials.sep
    for (asked, ends), group in groupby(range(stop), key=lambda place: (place in by_place, text[place] == sep)):
        members = list(group)
        if ends and not asked:
            parts.append("|" if members[-1] < len(text) - 2 else "")  # <sep>, or <cls>, follows the last text too
        elif asked:
            known = [by_place[place] for place in members]
            parts.append(_mark(tokenizer, guess[known], target[known]))
        else:
            parts.append(_text(tokenizer, text[members]))
    return " ".join(part for part in parts if part) + (" …" if stop < len(text) else "")


def _decoded(batch: Arrays, guesses: np.ndarray, tokenizer: Tokenizer) -> list[str]:
    source = np.split(batch["input"], np.cumsum(batch["input_lengths"])[:-1])
    target = np.split(batch["target"], np.cumsum(batch["target_lengths"])[:-1])
    shown = []
    for row in range(len(source)):
        text = _text(tokenizer, source[row][:_TOKENS]) + (" …" if len(source[row]) > _TOKENS else "")
        guess, right = _text(tokenizer, guesses[row][guesses[row] >= 0]), _text(tokenizer, target[row][:GUESSES])
        shown.append(f"  {text} → {guess}" + ("" if guess == right else f"   (right: {right})"))
    return shown


def _mark(tokenizer: Tokenizer, guess: np.ndarray | list, target: np.ndarray | list) -> str:
    guessed, right = (_text(tokenizer, ids) or " ".join(tokenizer.tokens(ids)) for ids in (guess, target))
    return f"[{guessed}]" if np.array_equal(guess, target) else f"[{guessed} ≠ {right}]"


def _text(tokenizer: Tokenizer, ids: np.ndarray | list) -> str:
    """On one line."""
    return " ".join(tokenizer.decode(ids).split())
