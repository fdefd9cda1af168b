"""Fine-tuning for words: a tag for each, from its first piece.

Where tags are entities (canon/data/text/tags.py), they are scored as conlleval does: precision, recall and F1 of whole
entities. A word whose tag training does not have is never right and has no loss.
Shapes: P words of B sentences, C tags, W the most words of a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.schema import Columns, Schema
from canon.data.text.tags import is_entities
from canon.data.text.tokenizers import join_words
from canon.objectives.record import ObjectiveChoice
from canon.tasks import guesses
from canon.tasks.base import Outputs, PredictsTags, ShowsSamples, spread
from canon.tasks.finetune import FineTuningTask

_UNSEEN = -1
_SHOWN = 3  # sentences printed at an evaluation


class WordTags(FineTuningTask, ShowsSamples, PredictsTags):
    by_word = True
    of_classes = True

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        self.of_entities = is_entities(schema.classes)
        self.monitor = "entity_f1" if self.of_entities else "tag_accuracy"
        entities = ("entity_precision", "entity_recall", "entity_f1")
        self.metrics = ("tag_accuracy", *(entities if self.of_entities else ("f1_macro",)))
        super().__init__(choice, config, schema)

    def lengths(self, batch: Batch) -> Tensor:
        return batch["target_lengths"]

    def shares(self, batch: Batch) -> Tensor:
        return batch["place_lengths"].float()

    def losses(self, logits_PC: Tensor, batch: Batch) -> Tensor:
        return self.objective.losses(logits_PC, batch["target"], _UNSEEN)

    def predicted(self, logits_PC: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The likeliest tag of each word, [B, W] with −1 after the last."""
        # Sequences of one sentence follow each other, and so do their words.
        owners = torch.arange(len(batch["part_lengths"])).repeat_interleave(batch["part_lengths"])
        words_B = torch.zeros(len(batch["part_lengths"]), dtype=torch.int64)
        words_B = words_B.index_add(0, owners, batch["place_lengths"])
        rows_P = torch.arange(len(words_B)).repeat_interleave(words_B).to(logits_PC.device)
        tags_BW = logits_PC.new_full((len(words_B), int(batch["width_lengths"])), _UNSEEN)
        tags_BW[rows_P, batch["marks"]] = logits_PC.argmax(1).to(tags_BW.dtype)
        return {"tags": tags_BW}

    def tags(self, outputs: Outputs) -> list[list[str]]:
        """The tags of each sentence."""
        return [[self.schema.classes[int(tag)] for tag in row if tag >= 0] for row in outputs["tags"]]

    def measure(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        return self._measure(self.tags(outputs), list(columns["tags"]))  # type: ignore[arg-type]

    def _measure(self, predicted: guesses.Sentences, right: guesses.Sentences) -> dict[str, float]:
        flat_predicted, flat_right = ([tag for tags in of for tag in tags] for of in (predicted, right))
        scores = {"tag_accuracy": metrics.accuracy(flat_right, flat_predicted)}
        if self.of_entities:
            entities = metrics.entity_scores(*([list(tags) for tags in of] for of in (right, predicted))).micro
            scores |= {f"entity_{name}": getattr(entities, name) for name in ("precision", "recall", "f1")}
        else:
            scores["f1_macro"] = metrics.f1(flat_right, flat_predicted, average="macro")
        return scores

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        if not {"words", "tags"} <= train.keys():
            return ""
        words, tags, asked, right = (
            list(cast("Iterable[Any]", column))
            for column in (train["words"], train["tags"], columns["words"], columns["tags"])
        )
        usual = self._measure(guesses.most_frequent_tags(words, tags, asked), right)[self.monitor]
        reached = self.measure(outputs, columns)[self.monitor]
        if reached > usual or reached == 1:
            return ""
        return f"no better than each word's most frequent tag: {self.monitor} {reached:.4f} against {usual:.4f}"

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        rows = spread(len(columns["words"]), _SHOWN)
        lines = []
        for row, tags in zip(rows, self.tags({"tags": outputs["tags"][rows]}), strict=True):
            words = columns["words"][row][:12]  # type: ignore[index]
            lines.append("  " + " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=False)))
        return lines

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        rows = []
        for words, tags in zip(columns["words"], self.tags(outputs), strict=True):  # type: ignore[arg-type]
            tagged = " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))
            row: dict[str, Any] = {"prediction": tagged, "words": list(words), "tags": tags}
            row["top"] = [{"tagged": tagged}]  # what the command line prints
            if self.of_entities:
                row["entities"] = [
                    {"type": kind, "text": join_words(words[first : last + 1]), "first": first, "last": last}
                    for kind, first, last in metrics.entities(tags)
                ]
            rows.append(row)
        return rows
