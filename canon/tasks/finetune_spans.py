"""Fine-tuning for answers: the part of a document that answers a question, or that there is none.

Devlin et al. 2019, sections 4.2 and 4.3: a window's loss is the mean of both ends' −log softmax over its tokens. The
answer is the best pair i ≤ j of the document's tokens, j − i < system.max_answer, over all windows; where a question
may have no answer, that there is none scores S·C + E·C at the frame's own token, the least of all windows, and is said
unless the answer scores more than system.null_threshold above it. Text is cut from the document's own characters.
Metrics are SQuAD's: exact match and F1 of words (characters where texts are Chinese).
Deviations: the same answer in two windows counts with its better score, where BERT's code takes a token only in the
window in which it stands farthest from the ends.
Shapes: N tokens of S windows of B questions, L the longest window, K candidates of a window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from canon import metrics
from canon.data.batching.loader import Batch
from canon.data.encodings.framed import FramedSchema
from canon.data.encodings.framing_rows import starts_with_own
from canon.data.schema import Columns, Schema
from canon.data.targets import Span
from canon.nn.ragged import Layout
from canon.objectives.classification import CrossEntropy
from canon.tasks.base import Outputs
from canon.tasks.finetune_kinds import Kind, by_example

_BEST = 20  # candidates kept of each window and question, as in the code of BERT
_SHOWN = 3  # questions told at an evaluation
_NOTHING = -1e4  # score of a candidate that is none


class Spans(Kind):
    monitor = "f1"
    rising = ("exact_match", "f1", "answer_f1", "no_answer_accuracy")

    def __init__(self, objective: CrossEntropy, config: Any, schema: Schema) -> None:
        super().__init__(objective, config, schema)
        assert isinstance(schema, FramedSchema) and isinstance(schema.target, Span)
        self._own_first = not schema.framing or starts_with_own(schema.framing)
        self._unanswerable = schema.target.unanswerable

    def count(self, batch: Batch) -> int:
        return len(batch["input_lengths"])

    def losses(self, logits_N2: Tensor, batch: Batch) -> Tensor:
        grid_SL2 = Layout(batch["input_lengths"], logits_N2.device).pad(logits_N2, fill=float("-inf"))
        ends = [F.cross_entropy(grid_SL2[:, :, end], batch["target"][:, end], reduction="none") for end in (0, 1)]
        return (ends[0] + ends[1]) / 2

    def outputs(self, logits_N2: Tensor, batch: Batch) -> Outputs:
        """[B, K, 3] score, first and last token of the document of the best answers; [B] the score of none."""
        layout = Layout(batch["input_lengths"], logits_N2.device)
        own_S2 = logits_N2.index_select(0, layout.starts if self._own_first else layout.ends)
        best_SK3 = best_spans(
            logits_N2.index_select(0, batch["places"]),
            Layout(batch["place_lengths"], logits_N2.device),
            batch["marks"],
            self.config.max_answer,
        )
        parts_B = batch["part_lengths"].tolist()
        merged = [merge(windows) for windows in best_SK3.cpu().split(parts_B)]
        none_B = torch.stack([window.min() for window in own_S2.sum(1).cpu().split(parts_B)])
        found = {"best": torch.stack(merged), "none": none_B}
        if "target" in batch:
            found |= by_example(self.losses(logits_N2, batch), batch["part_lengths"])
        return found

    def names(self) -> tuple[str, ...]:
        return ("exact_match", "f1", *(("answer_f1", "no_answer_accuracy") if self._unanswerable else ()))

    def ranked(self, outputs: Outputs, columns: Columns) -> list[list[tuple[str, float, int]]]:
        """Of each question its candidates by falling score: text ("" for none), score, first character."""
        found = []
        for row, asked in enumerate(columns["asked"]):  # type: ignore[arg-type]
            candidates = []
            for score, first, last in outputs["best"][row].tolist():
                if score > _NOTHING:
                    begin, end = int(asked.spans[int(first), 0]), int(asked.spans[int(last), 1])
                    candidates.append((asked.document[begin:end], score, begin))
            if self._unanswerable:
                none = float(outputs["none"][row]) + self.config.null_threshold
                candidates.append(("", none, -1))
            found.append(sorted(candidates, key=lambda candidate: -candidate[1]))
        return found

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        told = [candidates[0][0] for candidates in self.ranked(outputs, columns)]
        right = [asked.answers for asked in columns["asked"]]  # type: ignore[union-attr]
        kind = "characters" if any(_has_han(answer) for answers in right for answer in answers) else "words"
        scores = metrics.span_scores(told, right, tokenise=kind)
        found = {"exact_match": scores.exact_match, "f1": scores.f1}
        if self._unanswerable:
            answered = [row for row, answers in enumerate(right) if answers]
            empty = [row for row, answers in enumerate(right) if not answers]
            if answered:
                part = metrics.span_scores(
                    [told[row] for row in answered], [right[row] for row in answered], tokenise=kind
                )
                found["answer_f1"] = part.f1
            if empty:
                found["no_answer_accuracy"] = float(np.mean([told[row] == "" for row in empty]))
        return found

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        rows = np.linspace(0, len(columns["asked"]) - 1, min(_SHOWN, len(columns["asked"]))).astype(int)
        some = {"asked": columns["asked"][rows]}  # type: ignore[index]
        told = self.ranked({name: outputs[name][rows] for name in ("best", "none")}, some)
        lines = []
        for asked, candidates in zip(some["asked"], told, strict=True):
            right = asked.answers[0] if asked.answers else "no answer"
            lines.append(f"  {candidates[0][0] or 'no answer'}   (right: {right})")
        return lines

    def records(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        rows = []
        for asked, candidates in zip(columns["asked"], self.ranked(outputs, columns), strict=True):  # type: ignore[arg-type]
            shares = torch.tensor([score for _, score, _ in candidates]).softmax(0).tolist()
            ranked = [
                {"answer": text, "probability": share, "start": begin, "score": score}
                for (text, score, begin), share in zip(candidates, shares, strict=True)
            ][:top]
            row: dict[str, Any] = {"prediction": ranked[0]["answer"], "id": asked.key, "top": ranked}
            if self._unanswerable:
                row["none_over_best"] = next(s for t, s, _ in candidates if not t) - max(
                    (s for t, s, _ in candidates if t), default=_NOTHING
                )
            rows.append(row)
        return rows


def best_spans(logits_P2: Tensor, layout: Layout, marks_P: Tensor, most: int) -> Tensor:
    """[S, K, 3] score, first and last mark of the K best pairs i ≤ j < i + most in each window; a score of _NOTHING
    where there are fewer."""
    grid_SL2 = layout.pad(logits_P2, fill=2 * _NOTHING)
    marks_SL = layout.pad(marks_P)
    most = min(most, layout.max_length)
    last_SLM = F.pad(grid_SL2[:, :, 1], (0, most - 1), value=2 * _NOTHING).unfold(1, most, 1)  # by i and j − i
    score_SLM = grid_SL2[:, :, :1] + last_SLM
    kept = min(_BEST, most * layout.max_length)
    score_SK, pair_SK = score_SLM.flatten(1).topk(kept, dim=1)
    first_SK = pair_SK // most
    last_SK = (first_SK + pair_SK % most).clamp(max=layout.max_length - 1)
    ends = [marks_SL.gather(1, place_SK).to(score_SK.dtype) for place_SK in (first_SK, last_SK)]
    found = torch.stack([score_SK.clamp(min=_NOTHING), *ends], dim=2)
    return F.pad(found, (0, 0, 0, _BEST - kept), value=_NOTHING)


def merge(windows_SK3: Tensor) -> Tensor:
    """[K, 3] the best of some windows of one document, each pair of ends once."""
    flat = windows_SK3.flatten(0, 1)
    flat = flat[flat[:, 0].argsort(descending=True, stable=True)]
    seen: set[tuple[float, float]] = set()
    kept = []
    for row, (_, first, last) in enumerate(flat.tolist()):
        if (first, last) not in seen:
            seen.add((first, last))
            kept.append(row)
        if len(kept) == _BEST:
            break
    found = flat[kept]
    return F.pad(found, (0, 0, 0, _BEST - len(found)), value=_NOTHING)


def _has_han(text: str) -> bool:
    return any("一" <= character <= "鿿" for character in text)
