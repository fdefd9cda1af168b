"""Entity precision, recall and F1 for BIO, IOB1, BIOES, BILOU and BMES tags.

Definition: Tjong Kim Sang and De Meulder (2003), the conlleval script: an entity is right when its type, first and
last word all are. `entities` reads spans from tags, `entity_scores` counts them.
Tags are `B-type I-type E-type S-type O` (or the bare letters, type "_"), with L for E and U for S in BILOU, M for I in
BMES. Broken sequences are read as conlleval does: an I or E that continues nothing, or changes type, starts an entity,
which IOB1 does too. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from canon.errors import CanonError
from canon.metrics._checks import number, same_sequence_length, sequence, texts
from canon.metrics.classification import divide

_LETTERS = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "O": "O"}


@dataclass(frozen=True)
class EntityScore:
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class EntityScores:
    """Scores by type (sorted), over all entities pooled, over types evenly, and over types by support."""

    by_type: dict[str, EntityScore]
    micro: EntityScore
    macro: EntityScore
    weighted: EntityScore


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(type, first, last) of every entity in one sentence, both ends inclusive."""
    spans = []
    before, kind_before, start = "O", "_", 0
    for position, tag in enumerate([*texts("tags", tags), "O"]):
        mark, _, kind = tag.partition("-")
        if mark not in _LETTERS or (mark == "O" and tag != "O"):
            known = ", ".join(letter for letter in _LETTERS if letter != "O")
            raise CanonError(f'tag "{tag}" at position {position} is not O or one of {known} followed by "-type".')
        letter = _LETTERS[mark]
        kind = kind or "_"
        cut = before in ("E", "S") or letter in ("B", "S") or kind != kind_before
        if before != "O" and (cut or letter == "O"):
            spans.append((kind_before, start, position - 1))
        if letter != "O" and (cut or before == "O"):
            start = position
        before, kind_before = letter, kind
    return spans


def entity_scores(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]], *, zero_division: float = 0.0
) -> EntityScores:
    """Entity-level precision, recall and F1; labels and predictions hold one list of tags per sentence.

    zero_division: the value of 0/0, such as the precision of a type never predicted (default 0).
    """
    same_sequence_length("labels", labels, "predictions", predictions)
    kinds: dict[str, list[int]] = {}  # type → right, predicted, true
    for sentence, (truth, guess) in enumerate(zip(labels, predictions, strict=True)):
        if len(sequence(f"labels of sentence {sentence}", truth)) != len(sequence("predictions", guess)):
            raise CanonError(f"sentence {sentence} has {len(truth)} labels but {len(guess)} predictions.")
        wanted, offered = set(entities(truth)), set(entities(guess))
        for column, group in enumerate((wanted & offered, offered, wanted)):
            for kind, _, _ in group:
                kinds.setdefault(kind, [0, 0, 0])[column] += 1
    names = sorted(kinds)
    counts = np.array([kinds[name] for name in names], dtype=np.int64).reshape(-1, 3)

    def score(rows: np.ndarray) -> np.ndarray:
        right, offered, wanted = rows.T
        parts = [(right, offered), (right, wanted), (2 * right, offered + wanted)]
        return np.stack([divide(top, bottom, zero_division) for top, bottom in parts], axis=1)

    def record(values: np.ndarray, support: int) -> EntityScore:
        return EntityScore(float(values[0]), float(values[1]), float(values[2]), int(support))

    table, support, total = score(counts), counts[:, 2], int(counts[:, 2].sum())
    nothing = np.full(3, number("zero_division", zero_division, finite=False))
    return EntityScores(
        by_type={name: record(table[i], support[i]) for i, name in enumerate(names)},
        micro=record(score(counts.sum(axis=0, keepdims=True))[0], total),
        macro=record(table.mean(axis=0) if names else nothing, total),
        weighted=record(np.average(table, axis=0, weights=support) if total else nothing, total),
    )
