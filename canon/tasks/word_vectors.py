"""Vectors of words: judged by the loss they were learned with, and by tests of their likeness and of analogies.

The loss is the mean per pair that the learner's own outputs sum up, computed without learning and with the same noise
every time. Tests (formats/word_tests.py) go with a split: Spearman's ρ between cosine and judgement, and the share of
analogies a : b = c : d solved by 3CosAdd (canon.metrics.vectors); words outside the vocabulary are left out.
Shapes: V words, D dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.formats.word_tests import Tests
from canon.data.schema import Columns
from canon.metrics.vectors import analogy_accuracy, similarity_correlation
from canon.tasks.base import Outputs, Remarks, Task

_TESTS = ("wordsim353", "simlex999", "questions-words", "CA8-morphological", "CA8-semantic")


class WordVectors(Task, Remarks):
    monitor = "loss"
    risk_examples = 1 << 62  # all: a text is measured far faster than it is learned

    def names(self) -> tuple[str, ...]:
        """The loss, and the tests of the catalogue; a test of the user's own is named after its file."""
        return ("loss", *_TESTS)

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        pairs = float(outputs["pairs"].sum())
        loss = {"loss": float(outputs["loss"].sum()) / pairs} if pairs else {}
        tests, self.remarks = columns.get("tests"), ()
        if "input" in columns and not pairs:
            count, settings = f"{len(columns['input']):,} words and line ends", "data.min_count, system.subsample"
            self.remarks = (f"A text of {count} has no score: no two words are beside each other ({settings}).",)
        return loss | (self._tested(outputs["vectors"], tests) if isinstance(tests, Tests) else {})

    def _tested(self, vectors_VD: np.ndarray, tests: Tests) -> dict[str, float]:
        assert self.schema.words is not None
        words = self.schema.words.words
        forms = {word.upper() for word in words}  # as the metrics compare them
        scores: dict[str, float] = {}
        remarks = list(self.remarks)
        for name, pairs in tests.pairs.items():
            known = [pair for pair in pairs if pair[0].upper() in forms and pair[1].upper() in forms]
            if len(known) > 1:
                scores[name] = similarity_correlation(vectors_VD, words, known, restrict_vocab=None).spearman
            remarks.append(f"{name}: {len(known):,} of {len(pairs):,} pairs have words that are known.")
        for name, sections in tests.analogies.items():
            result = analogy_accuracy(vectors_VD, words, sections).total
            if result.asked:
                scores[name] = result.accuracy
            asked = result.asked + result.unknown
            remarks.append(f"{name}: {result.asked:,} of {asked:,} analogies have words that are known.")
        self.remarks = tuple(remarks)
        return scores

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        floors: dict[str, float] = self.choice.create().floors()
        return floors

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        """Of a split with text, against the loss where everything is as likely as not."""
        if not (pairs := float(outputs["pairs"].sum())) or not (floors := self.choice.create().floors()):
            return ""
        reached, floor = float(outputs["loss"].sum()) / pairs, min(floors.values())
        return f"no better than even odds: loss {reached:.4f} against {floor:.4f}" if reached >= floor else ""

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """A word's vector; None for an unknown word."""
        pairs = zip(outputs["vectors"].tolist(), outputs["known"].tolist(), strict=True)
        return [{"vector": vector if known else None} for vector, known in pairs]
