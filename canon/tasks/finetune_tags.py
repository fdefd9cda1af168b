"""Fine-tuning for words: a tag for each, from its first piece.

Where tags are entities in BIO or BIOES form, they are scored as conlleval does: precision, recall and F1 of whole
entities. A word whose tag training does not have is never right and has no loss.
Shapes: P words of B sentences, C tags, W the most words of a sentence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.objectives.classification import CrossEntropy
from canon.tasks.base import Outputs
from canon.tasks.finetune_kinds import Kind, by_example

_UNSEEN = -1
_SHOWN = 3  # sentences told at an evaluation


class Tags(Kind):
    monitor = "tag_accuracy"
    rising = ("tag_accuracy", "f1_macro", "entity_f1", "entity_precision", "entity_recall")
    by_word = True
    of_classes = True

    def __init__(self, objective: CrossEntropy, config: Any, schema: Schema) -> None:
        super().__init__(objective, config, schema)
        self.of_entities = is_entities(schema.classes)
        if self.of_entities:
            self.monitor = "entity_f1"  # type: ignore[misc]

    def count(self, batch: Batch) -> int:
        return int(batch["target_lengths"].sum())

    def shares(self, batch: Batch) -> Tensor:
        return batch["place_lengths"].float()

    def losses(self, logits_PC: Tensor, batch: Batch) -> Tensor:
        return self.objective.losses(logits_PC, batch["target"], _UNSEEN)

    def outputs(self, logits_PC: Tensor, batch: Batch) -> Outputs:
        """The likeliest tag of each word, [B, W] with −1 behind the last."""
        # Sequences of one sentence follow each other, and so do their words.
        owners = torch.arange(len(batch["part_lengths"])).repeat_interleave(batch["part_lengths"])
        words_B = torch.zeros(len(batch["part_lengths"]), dtype=torch.int64)
        words_B = words_B.index_add(0, owners, batch["place_lengths"])
        rows_P = torch.arange(len(words_B)).repeat_interleave(words_B).to(logits_PC.device)
        tags_BW = logits_PC.new_full((len(words_B), int(batch["width_lengths"])), _UNSEEN)
        tags_BW[rows_P, batch["marks"]] = logits_PC.argmax(1).to(tags_BW.dtype)
        found = {"tags": tags_BW}
        if "target" in batch:
            found |= by_example(self.losses(logits_PC, batch), batch["target_lengths"])
        return found

    def names(self) -> tuple[str, ...]:
        if self.of_entities:
            return ("tag_accuracy", "entity_precision", "entity_recall", "entity_f1")
        return ("tag_accuracy", "f1_macro")

    def predicted(self, outputs: Outputs) -> list[list[str]]:
        """The tags of each sentence."""
        return [[self.classes[int(tag)] for tag in row if tag >= 0] for row in outputs["tags"].numpy()]

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        told, right = self.predicted(outputs), list(columns["tags"])  # type: ignore[arg-type]
        flat_told = [tag for sentence in told for tag in sentence]
        flat_right = [tag for sentence in right for tag in sentence]
        found = {"tag_accuracy": metrics.accuracy(flat_right, flat_told)}
        if self.of_entities:
            scores = metrics.entity_scores([list(sentence) for sentence in right], told).micro
            found |= {"entity_precision": scores.precision, "entity_recall": scores.recall, "entity_f1": scores.f1}
        else:
            found["f1_macro"] = metrics.f1(flat_right, flat_told, average="macro")
        return found

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return self.objective.floors(targets, len(self.classes))

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        rows = np.linspace(0, len(columns["words"]) - 1, min(_SHOWN, len(columns["words"]))).astype(int)
        told = self.predicted({"tags": outputs["tags"][rows]})
        lines = []
        for row, tags in zip(rows, told, strict=True):
            words = columns["words"][row][:12]  # type: ignore[index]
            lines.append("  " + " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=False)))
        return lines

    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        rows = []
        for words, tags in zip(columns["words"], self.predicted(outputs), strict=True):  # type: ignore[arg-type]
            tagged = " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
            row: dict[str, Any] = {"prediction": tagged, "words": list(words), "tags": tags}
            row["top"] = [{"tagged": tagged}]  # what the command line prints
            if self.of_entities:
                row["entities"] = [
                    {"type": kind, "text": _text(words[first : last + 1]), "first": first, "last": last}
                    for kind, first, last in metrics.entities(tags)
                ]
            rows.append(row)
        return rows


def is_entities(classes: tuple[str, ...]) -> bool:
    """Whether tags are O and B-type, I-type and the like."""
    letters = {tag.partition("-")[0] for tag in classes}
    marked = any(tag[:2] in ("B-", "I-", "S-") for tag in classes)
    return marked and letters <= {"B", "I", "E", "S", "O"} and all(tag == "O" or "-" in tag for tag in classes)


def _text(words: tuple[str, ...]) -> str:
    from canon.data.text.tokenizers import join_words

    return join_words(words)
