"""Edit distance between sequences, and the error rates computed from it.

Paper: Levenshtein 1966, Binary codes capable of correcting deletions, insertions and reversals.
D(i, j) = min(D(i−1, j) + 1, D(i, j−1) + 1, D(i−1, j−1) + [a_i ≠ b_j]), in `edit_distance`.
Deviations: none. Where something has several right forms, the nearest one counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from canon.errors import CanonError
from canon.metrics._checks import same_sequence_length, sequence, tokens

Tokens = Sequence[Hashable]


def edit_distance(first: Tokens, second: Tokens) -> int:
    """The least number of insertions, deletions and substitutions that turn `first` into `second`; texts by letters."""
    for name, values in (("first", first), ("second", second)):
        if not isinstance(values, str):
            tokens(name, values)
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, start=1):
        corner, row[0] = row[0], i
        for j, right in enumerate(second, start=1):
            change = corner + (left != right)
            corner = row[j]
            row[j] = min(row[j] + 1, row[j - 1] + 1, change)
    return row[-1]


def _check(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> None:
    """One or more references for each hypothesis; each a list of tokens, or a text."""
    same_sequence_length("hypotheses", hypotheses, "references", references)
    for place, (hypothesis, several) in enumerate(zip(hypotheses, references, strict=True)):
        if not len(sequence(f"references, number {place},", several)):
            raise CanonError(f"references has none for hypothesis {place}.")
        for one in (hypothesis, *several):
            if not isinstance(one, str):
                tokens(f"hypotheses and references, number {place},", one)


def sequence_error_rate(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """Share of the hypotheses that equal none of their references (of pronunciations: the word error rate)."""
    _check(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    wrong = sum(all(list(hypothesis) != list(right) for right in several) for hypothesis, several in pairs)
    return wrong / len(hypotheses)


def token_error_rate(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """Edits to the nearest reference over the length of those references (of phonemes: the phoneme error rate)."""
    _check(hypotheses, references)
    edits = total = 0
    for hypothesis, several in zip(hypotheses, references, strict=True):
        distance, length = min((edit_distance(hypothesis, right), len(right)) for right in several)
        edits, total = edits + distance, total + length
    return edits / max(total, 1)
