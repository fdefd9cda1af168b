"""Fine-tuning for answers: the part of a document that answers a question, or that there is none.

Devlin et al. 2019, sections 4.2 and 4.3: a window's loss is the mean of both ends' −log softmax over its tokens. The
answer is the best pair i ≤ j of the document's tokens, j − i < system.max_answer, over all windows; where a question
may have no answer, "no answer" scores S·C + E·C at the frame's own token, the least of all windows, and is predicted
unless the answer scores more than system.null_threshold above it. Text is cut from the document's own characters.
Metrics are SQuAD's: exact match and F1 of words (characters where texts are Chinese).
Deviations: the same answer in two windows counts with its better score, where BERT's code takes a token only in the
window in which it is farthest from the ends.
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
from canon.objectives.record import ObjectiveChoice
from canon.tasks.base import Outputs, ShowsSamples, spread
from canon.tasks.finetune import FineTuningTask

_BEST = 20  # candidates kept of each window and question, as in the code of BERT
_SHOWN = 3  # questions printed at an evaluation
_NOTHING = -1e4  # score that fills the places of missing candidates


class AnswerSpans(FineTuningTask, ShowsSamples):
    monitor = "f1"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, FramedSchema) and isinstance(schema.target, Span)
        self._own_first = not schema.framing or starts_with_own(schema.framing)
        self._unanswerable = schema.target.unanswerable
        unanswerable = ("answer_f1", "no_answer_accuracy") if self._unanswerable else ()
        self.metrics = ("exact_match", "f1", *unanswerable)

    def lengths(self, batch: Batch) -> Tensor:
        return batch["part_lengths"]

    def losses(self, logits_N2: Tensor, batch: Batch) -> Tensor:
        grid_SL2 = Layout(batch["input_lengths"], logits_N2.device).pad(logits_N2, fill=float("-inf"))
        ends = [F.cross_entropy(grid_SL2[:, :, end], batch["target"][:, end], reduction="none") for end in (0, 1)]
        return (ends[0] + ends[1]) / 2

    def predicted(self, logits_N2: Tensor, batch: Batch) -> dict[str, Tensor]:
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
        return {"best": torch.stack(merged), "none": none_B}

    def candidates(self, outputs: Outputs, columns: Columns) -> list[list[tuple[str, float, int]]]:
        """Of each question its candidates by falling score: text ("" for no answer), score, first character."""
        of_questions = []
        for row, asked in enumerate(columns["asked"]):  # type: ignore[arg-type]
            candidates = []
            for score, first, last in outputs["best"][row].tolist():
                if score > _NOTHING:
                    begin, end = int(asked.spans[int(first), 0]), int(asked.spans[int(last), 1])
                    candidates.append((asked.document[begin:end], score, begin))
            if self._unanswerable:
                none = float(outputs["none"][row]) + self.config.null_threshold
                candidates.append(("", none, -1))
            of_questions.append(sorted(candidates, key=lambda candidate: -candidate[1]))
        return of_questions

    def measure(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        answers = [candidates[0][0] for candidates in self.candidates(outputs, columns)]
        right = [asked.answers for asked in columns["asked"]]  # type: ignore[union-attr]
        kind = "characters" if any(_has_han(one) for several in right for one in several) else "words"
        spans = metrics.span_scores(answers, right, tokenise=kind)
        scores = {"exact_match": spans.exact_match, "f1": spans.f1}
        if self._unanswerable:
            pairs = list(zip(answers, right, strict=True))
            answered = [pair for pair in pairs if pair[1]]
            if answered:
                scores["answer_f1"] = metrics.span_scores(*zip(*answered, strict=True), tokenise=kind).f1
            if len(answered) < len(pairs):
                scores["no_answer_accuracy"] = float(np.mean([not answer for answer, several in pairs if not several]))
        return scores

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        reached = self.measure(outputs, columns)["f1"]
        nothing = float(np.mean([not asked.answers for asked in columns["asked"]]))  # type: ignore[union-attr]
        better = f"no better than always saying that there is no answer: f1 {reached:.4f} against {nothing:.4f}"
        return better if reached <= nothing < 1 else ""

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        rows = spread(len(columns["asked"]), _SHOWN)
        some = {"asked": columns["asked"][rows]}  # type: ignore[index]
        of_questions = self.candidates({name: outputs[name][rows] for name in ("best", "none")}, some)
        lines = []
        for asked, candidates in zip(some["asked"], of_questions, strict=True):
            right = asked.answers[0] if asked.answers else "no answer"
            lines.append(f"  {candidates[0][0] or 'no answer'}   (right: {right})")
        return lines

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        rows = []
        for asked, candidates in zip(columns["asked"], self.candidates(outputs, columns), strict=True):  # type: ignore[arg-type]
            shares = torch.tensor([score for _, score, _ in candidates]).softmax(0).tolist()
            best = [
                {"answer": text, "probability": share, "start": begin, "score": score}
                for (text, score, begin), share in zip(candidates, shares, strict=True)
            ][:top]
            row: dict[str, Any] = {"prediction": best[0]["answer"], "id": asked.key, "top": best}
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
    best_SK3 = torch.stack([score_SK.clamp(min=_NOTHING), *ends], dim=2)
    return F.pad(best_SK3, (0, 0, 0, _BEST - kept), value=_NOTHING)


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
    return F.pad(flat[kept], (0, 0, 0, _BEST - len(kept)), value=_NOTHING)


def _has_han(text: str) -> bool:
    return any("一" <= character <= "鿿" for character in text)
