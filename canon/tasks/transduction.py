"""One sequence from another: spelling to sounds, one language to another.

Loss: cross-entropy per target token (<eos> among them), with label smoothing while training; validation has none, so
that perplexity = exp(loss) is the data's.
Where the target is separate symbols (data.target_tokenizer = "split"), a sequence is judged as right or wrong (wer) and
by its symbols (per), the longest quarter of the sources also by itself (wer_long); where it is text, by sacreBLEU of
the detokenised text.
While training, evaluations decode greedily; the final scores use the system's own beam.
Shapes: N source tokens, M target tokens, B sentences, V vocabulary, T the longest that is decoded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon import metrics
from canon.contracts import LearnsByDrawing
from canon.data.batching.loader import Batch
from canon.data.batching.sequences import Ragged
from canon.data.schema import Columns, Schema, TokenSchema, take
from canon.data.text.vocabularies import BOS, EOS, PAD
from canon.nn import decoding
from canon.nn.compiling import unwrapped
from canon.nn.ragged import Layout, layout_of
from canon.objectives.classification import CrossEntropy, cross_entropy
from canon.objectives.record import ObjectiveChoice
from canon.tasks import tokens
from canon.tasks.base import FitsGraphs, NetworkTask, Outputs, PredictsTexts, Remarks, ShowsSamples, Turn, spread

_SHOWN = 3  # examples printed at an evaluation


class Transduction(NetworkTask, PredictsTexts, FitsGraphs, ShowsSamples, Remarks):
    whole = True
    risk_examples = 1000  # decoding the whole training set would take too long
    monitor = "loss"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, TokenSchema)
        self.typical = schema.typical
        self.objective: CrossEntropy = choice.create()
        self._source, self._target = schema.tokenizers["source"], schema.tokenizers["target"]
        self.symbols = self._target.kind == "split"
        self.monitor = "wer" if self.symbols else "bleu"
        # Decoding stops here: half as long again as anything in the training set.
        self.limit = config.max_length or math.ceil(1.5 * max(schema.longest, default=20)) + 5

    def example(self) -> tuple[Any, ...]:
        source, target = (Layout(torch.tensor([length])) for length in self.typical or (20, 20))
        return torch.full((source.total,), EOS), source, torch.full((target.total,), BOS), target

    def longest(self, columns: Columns) -> int:
        return max(int(column.lengths.max()) for column in columns.values() if isinstance(column, Ragged))

    def teach(self, network: nn.Module, batch: Batch, **options: Any) -> tuple[Tensor, Layout]:
        """Logits [M, V] of every target token given those before it, and the target's layout."""
        source, target = layout_of(batch), layout_of(batch, "target")
        return network(batch["input"], source, batch["target_input"], target, **options), target

    def count(self, batch: Batch) -> int:
        return int(batch["target_lengths"].sum())

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        plain = unwrapped(network)
        if not isinstance(plain, LearnsByDrawing):
            logits_MV, _ = self.teach(network, batch)
            return self.objective.total(logits_MV, batch["target"])
        drawing = plain.drawing(None if turn.share is None else (turn.generator, turn.share))
        logits_MV, target = self.teach(network, batch, drawing=drawing)
        losses_M = self.objective.losses(logits_MV, batch["target"])
        return losses_M.sum() + plain.extra_loss(losses_M, target, drawing)

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        """Sums over each sentence's tokens, and what the network decodes by itself."""
        logits_MV, target = self.teach(network, batch)
        sums = torch.zeros(target.size, 2, device=logits_MV.device)
        right_M = (logits_MV.argmax(1) == batch["target"]).float()
        by_token = torch.stack([cross_entropy(logits_MV.float(), batch["target"]), right_M], dim=1)
        sums = sums.index_add(0, target.rows, by_token)
        return {
            "loss": sums[:, 0],
            "right": sums[:, 1],
            "count": target.lengths.float(),
            "decoded": self.decode(network, batch, self.config.beam if turn.careful else 1),
        }

    def decode(self, network: nn.Module, batch: Batch, beam: int) -> Tensor:
        """[B, T] the decoded tokens, padded; T is the same for every batch."""
        source = Layout(batch["input_lengths"], batch["input"].device)
        translations = decoding.translate(
            network,  # type: ignore[arg-type]
            batch["input"],
            source,
            beam=beam,
            length_penalty=self.config.length_penalty,
            max_length=self.limit,
        )
        best_BT = translations.tokens[:, 0]
        return torch.nn.functional.pad(best_BT, (0, self.limit - best_BT.shape[1]), value=PAD)

    def names(self) -> tuple[str, ...]:
        return ("loss", "perplexity", "token_accuracy", *(("wer", "wer_long", "per") if self.symbols else ("bleu",)))

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        scores = tokens.scores(outputs)
        hypotheses, references = self.texts(outputs), self.references(columns)
        if self.symbols:
            words = [text.split() for text in hypotheses]
            right = [[text.split() for text in several] for several in references]
            scores["wer"] = metrics.sequence_error_rate(words, right)
            long = _longest(columns["input"].lengths)  # type: ignore[union-attr]
            scores["wer_long"] = metrics.sequence_error_rate([words[row] for row in long], [right[row] for row in long])
            scores["per"] = metrics.token_error_rate(words, right)
        else:
            kind = metrics.bleu_tokenizer([several[0] for several in references])
            bleu = metrics.corpus_bleu(hypotheses, references, tokenize=kind)
            scores["bleu"] = bleu.score
            self.remarks = (f"BLEU is sacreBLEU's: {bleu.signature}.",)
        return scores

    def texts(self, outputs: Outputs) -> list[str]:
        return self._target.decode_batch([row[: _ended(row)] for row in outputs["decoded"].astype(np.int64)])

    def references(self, columns: Columns) -> list[tuple[str, ...]]:
        """What counts as right for each row: one text, or several. The text of training rows is not kept, so it is
        decoded from their tokens."""
        if "references" in columns:
            return list(columns["references"])  # type: ignore[arg-type]
        target = columns["target"]
        assert isinstance(target, Ragged)
        return [(text,) for text in self._target.decode_batch([target[row][1:-1] for row in range(len(target))])]

    def shown(self, outputs: Outputs, columns: Columns) -> list[tuple[str, str, tuple[str, ...]]]:
        """Each example's source, what the network says, and what is right."""
        source = columns["input"]
        assert isinstance(source, Ragged)
        texts = self._source.decode_batch([source[row][:-1] for row in range(len(source))])
        return list(zip(texts, self.texts(outputs), self.references(columns), strict=True))

    def samples(self, outputs: Outputs, columns: Columns) -> list[str]:
        rows = spread(len(columns["input"]), _SHOWN)
        shown = self.shown({"decoded": outputs["decoded"][rows]}, take(columns, rows))
        return [
            f"  {source} → {output}" + ("" if output in right else f"   (right: {right[0]})")
            for source, output, right in shown
        ]

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return tokens.floors(targets[targets != BOS], self._target.size)

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        asked, known = tokens.of_split(columns), tokens.of_split(train)
        if asked is None or known is None:
            return ""
        return tokens.shortfall(outputs, asked[asked != BOS], known[known != BOS], self._target.size)

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return [{"prediction": text} for text in self.texts(outputs)]


def _longest(lengths: np.ndarray) -> np.ndarray:
    """The rows of the longest quarter, and of those as long as its shortest."""
    return np.flatnonzero(lengths >= np.quantile(lengths, 0.75, method="higher"))


def _ended(row: np.ndarray) -> int:
    """The length of a decoded row, without <eos> and what comes after it."""
    ends = np.flatnonzero((row == EOS) | (row == PAD))
    return int(ends[0]) if len(ends) else len(row)
