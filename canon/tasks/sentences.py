"""Sentence vectors: learned from texts that belong together, from scores, from classes of two, or from texts alone.

| target | asked | scored by |
| --- | --- | --- |
| match | which text belongs to a text, among those of a split | recall, hit, MRR, NDCG, MAP |
| score | how alike two texts are | Spearman's and Pearson's correlation of the cosine |
| class | the class of two texts | accuracy |
| none | nothing: two views of a text | the loss |
What a split has decides how it is scored: scores by correlation, whatever was learned. Alignment and uniformity are
Wang and Isola's (arXiv:2005.10242), of vectors of length 1.
Shapes: B rows of a batch, n of a split, C texts of a row, D features, K classes, Q queries, M different texts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon import figures, metrics
from canon.data.batching.loader import Batch, shares
from canon.data.encodings.texts import SentenceSchema
from canon.data.schema import Columns, Schema
from canon.data.targets import Class, Match, Nothing, Score
from canon.errors import CanonError
from canon.metrics.retrieval import retrieval_scores
from canon.nn.compiling import unwrapped
from canon.nn.ragged import Layout
from canon.objectives.record import ObjectiveChoice
from canon.objectives.sentences import CoSENT, MultipleNegatives, SimCSE, Triplet
from canon.tasks.base import Compares, DrawsPictures, NetworkTask, Outputs, Remarks, Turn, spread
from canon.tasks.pictures import can_draw
from canon.tasks.sentence_pictures import sentence_map, similarity_histogram

_TYPICAL = 32  # tokens of a text, where the data does not say
_TOGETHER = 256  # rows of a split that a loss compares with each other
_UNIFORM = 4000  # texts whose pairs are looked at, at most
_ALIGNED = 0.8  # of the range of scores: pairs of more should lie together
_RANKS = 10
_BLOCK = 256  # queries ranked at a time
_NO_DROPOUT = (
    "Nothing is dropped (dropout is 0), so that both views of a text are equal and simcse learns little: set "
    "system.settings.dropout = 0.1."
)


class SentenceTask(NetworkTask, Compares, Remarks, DrawsPictures):
    whole = True  # the network calls its backbone's `encode`
    at_once = 256
    risk_examples = 2000
    monitor = "spearman"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, SentenceSchema)
        self.objective = choice.create()
        self.needs_several = isinstance(self.objective, MultipleNegatives | SimCSE | CoSENT)
        self.typical = schema.typical
        monitors = {Match: f"ndcg@{_RANKS}", Score: "spearman", Class: "accuracy", Nothing: "loss"}
        self.monitor = monitors[type(schema.target)]
        if isinstance(self.objective, Triplet) and schema.width < 3:
            raise CanonError(
                "The objective triplet needs a text, one that belongs to it and one that does not, but the data has "
                f'{schema.width} texts in a row: set objective.name = "mnrl".'
            )

    # ---- training

    def example(self) -> tuple[Any, ...]:
        length = (self.typical or (_TYPICAL,))[0]
        token_N = torch.zeros(2 * length, dtype=torch.int64)
        return token_N, Layout(torch.tensor([length, length])), token_N

    def trial(self, network: nn.Module, *example: Any) -> Any:
        vectors_SD = network(*example)
        if isinstance(self.schema.target, Class):
            unwrapped(network).related(vectors_SD)

    def count(self, batch: Batch) -> int:
        return len(batch["part_lengths"])

    def embed(self, network: nn.Module, batch: Batch, turn: Turn) -> Tensor:
        token_N, segment_N, lengths_S = batch["input"], batch["segment"], batch["input_lengths"]
        B = len(batch["part_lengths"])
        if isinstance(self.objective, SimCSE):  # both views in one pass
            token_N, segment_N, lengths_S = token_N.repeat(2), segment_N.repeat(2), lengths_S.repeat(2)
            if not self.remarks and not unwrapped(network).drops:
                self.remarks = (_NO_DROPOUT,)
            vectors_SD = network(token_N, Layout(lengths_S, token_N.device), segment_N)
            return torch.stack(vectors_SD.chunk(2), dim=1)
        vectors_SD = network(token_N, Layout(lengths_S, token_N.device), segment_N)
        if isinstance(self.schema.target, Class):
            vectors_SD = unwrapped(network).related(vectors_SD)
        return vectors_SD.view(B, -1, vectors_SD.shape[1])

    def facts(self, batch: Batch) -> dict[str, Tensor]:
        facts = {"keys": batch["keys"]}
        if isinstance(self.schema.target, Score):
            facts["target"] = self.schema.target.scaled(batch["target"])
        elif isinstance(self.schema.target, Class):
            facts["target"] = batch["target"]
        return facts

    def compare(self, vectors_N: Tensor, facts: dict[str, Tensor], rows: tuple[int, int], turn: Turn) -> Tensor:
        with torch.autocast(vectors_N.device.type, enabled=False):  # cosines are divided by a small τ
            return self.objective.total(vectors_N.float(), facts, rows)

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        return self.compared(self.embed(network, batch, turn), self.facts(batch), turn)

    # ---- scoring

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        token_N, B = batch["input"], len(batch["part_lengths"])
        vectors_SD = network(token_N, Layout(batch["input_lengths"], token_N.device), batch["segment"])
        outputs = {"vectors": vectors_SD.view(B, -1, vectors_SD.shape[1])}
        if isinstance(self.schema.target, Class) and outputs["vectors"].shape[1] == 2:
            outputs["logits"] = unwrapped(network).related(vectors_SD)
        return outputs

    def names(self) -> tuple[str, ...]:
        at = tuple(f"{name}@{k}" for k in (1, _RANKS) for name in ("recall", "hit", "mrr", "ndcg", "map"))
        several = ("spearman", "pearson", "spearman_mean", "spearman_wmean", "auc", "map", "mrr")
        return ("loss", *several, "accuracy", *at, "alignment", "uniformity")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        vectors_nCD = torch.from_numpy(outputs["vectors"])
        keys_nC = np.asarray(columns["keys"])
        given = np.asarray(columns["target"]) if "target" in columns else None
        scores = self._loss(outputs, keys_nC, given)
        unit_nCD = F.normalize(vectors_nCD.double(), dim=2)
        aligned = None
        if given is not None and given.dtype.kind == "f":
            scores |= _similarity(unit_nCD, keys_nC, given, columns)
            low, high = self._range(given)
            aligned = unit_nCD[torch.from_numpy((given - low) / (high - low) > _ALIGNED)]
        elif "logits" in outputs:
            assert given is not None
            scores["accuracy"] = metrics.accuracy(given, outputs["logits"].argmax(1))
        elif vectors_nCD.shape[1] > 1:
            scores |= _retrieval(unit_nCD, keys_nC)
            aligned = unit_nCD
        if aligned is not None and len(aligned):
            scores["alignment"] = (aligned[:, 0] - aligned[:, 1]).square().sum(1).mean().item()
        if len(places := np.unique(keys_nC, return_index=True)[1]) > 2:
            chosen = unit_nCD.flatten(0, 1)[torch.from_numpy(places[spread(len(places), _UNIFORM)])]
            # log mean_{i<j} e^{−2‖x_i − x_j‖²}
            scores["uniformity"] = torch.pdist(chosen).square().mul(-2).exp().mean().log().item()
        return scores

    def pictures(self, outputs: Outputs, columns: Columns) -> dict[str, bytes]:
        """A map of the texts, and the cosines of pairs that belong together and of pairs that do not."""
        unit_nCD = F.normalize(torch.from_numpy(outputs["vectors"][:_UNIFORM]).double(), dim=2).numpy()
        n, C, _ = unit_nCD.shape
        if not can_draw() or n * C < 3:
            return {}
        together, apart = np.arange(n) < 0, np.arange(n) < 0
        if C > 1 and "target" not in columns:
            together = ~together
        elif "target" in columns and np.asarray(columns["target"]).dtype.kind == "f":
            given = np.asarray(columns["target"])[:n]
            low, high = self._range(np.asarray(columns["target"]))
            share = (given - low) / (high - low)
            together, apart = share > _ALIGNED, share < 1 - _ALIGNED
        flat = unit_nCD.transpose(1, 0, 2).reshape(n * C, -1)
        rows = np.flatnonzero(together)
        drawn = {"map": figures.to_png(sentence_map(flat, np.stack([rows, rows + n], axis=1)))}
        if C > 1:
            cosine_n = (unit_nCD[:, 0] * unit_nCD[:, 1]).sum(1)
            others = cosine_n[apart] if apart.any() else (unit_nCD[:, 0] * np.roll(unit_nCD[:, 1], 1, axis=0)).sum(1)
            histogram = similarity_histogram({"together": cosine_n[together], "apart": others})
            drawn["similarity"] = figures.to_png(histogram)
        return drawn

    def _range(self, given: np.ndarray) -> tuple[float, float]:
        """Of scores: that of training, or the whole numbers around these."""
        target = self.schema.target
        if isinstance(target, Score) and target.low <= given.min() and given.max() <= target.high:
            return target.low, target.high
        return float(np.floor(given.min())), max(float(np.ceil(given.max())), float(np.floor(given.min())) + 1)

    def _loss(self, outputs: Outputs, keys_nC: np.ndarray, given: np.ndarray | None) -> dict[str, float]:
        """The mean over rows in groups of 256 at most; nothing for rows of another form than those of training."""
        vectors_nCD, target = torch.from_numpy(outputs["vectors"]), self.schema.target
        n, C = keys_nC.shape
        if n < 2 or self.schema.width != C or (given is None) != isinstance(target, Match | Nothing):  # type: ignore[attr-defined]
            return {}
        facts: dict[str, Tensor] = {"keys": torch.from_numpy(keys_nC)}
        if given is not None:
            values = torch.from_numpy(given)
            facts["target"] = target.scaled(values.double()) if isinstance(target, Score) else values
        compared = torch.from_numpy(outputs["logits"])[:, None] if isinstance(target, Class) else vectors_nCD
        if isinstance(self.objective, SimCSE):
            compared = compared[:, [0, 0]]
        total = 0.0
        for start, stop in shares(n, math.ceil(n / _TOGETHER)):
            part = {name: values[start:stop] for name, values in facts.items()}
            if stop - start > 1:
                total += self.objective.total(compared[start:stop].double(), part, (0, stop - start)).item()
        return {"loss": total / n}

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """The vector of a text; of two texts their cosine."""
        vectors_nCD = torch.from_numpy(outputs["vectors"])
        if vectors_nCD.shape[1] == 1:
            return [{"vector": vector} for vector in vectors_nCD[:, 0].tolist()]
        cosine_n = F.cosine_similarity(vectors_nCD[:, 0], vectors_nCD[:, 1], dim=1).tolist()
        if "logits" not in outputs:
            return [{"similarity": cosine} for cosine in cosine_n]
        chosen = [self.schema.classes[code] for code in outputs["logits"].argmax(1).tolist()]
        return [{"prediction": name, "similarity": cosine} for name, cosine in zip(chosen, cosine_n, strict=True)]


def _similarity(unit_nCD: Tensor, keys_nC: np.ndarray, given: np.ndarray, columns: Columns) -> dict[str, float]:
    """Correlations of cosine and score: of all rows; where they come from several files, also the mean over files."""
    cosine_n = (unit_nCD[:, 0] * unit_nCD[:, 1]).sum(1).numpy()
    scores = {"spearman": metrics.spearman(given, cosine_n), "pearson": metrics.pearson(given, cosine_n)}
    if "origin" in columns:
        origin = np.asarray(columns["origin"])
        each = [metrics.spearman(given[origin == file], cosine_n[origin == file]) for file in np.unique(origin)]
        scores["spearman_mean"] = float(np.mean(each))
        scores["spearman_wmean"] = float(np.average(each, weights=np.unique(origin, return_counts=True)[1]))
    if set(np.unique(given).tolist()) == {0.0, 1.0}:
        scores["auc"] = metrics.auc(given.astype(np.int64), cosine_n)
        query = np.unique(keys_nC[:, 0], return_inverse=True)[1]
        right, all_of = np.bincount(query, weights=given), np.bincount(query)
        kept = ((right > 0) & (right < all_of))[query]  # questions with a right and a wrong answer
        if kept.any():
            how: dict[str, Any] = {"groups": query[kept], "ties": "order"}
            scores["map"] = metrics.mean_average_precision(given[kept], cosine_n[kept], **how)
            scores["mrr"] = metrics.mean_reciprocal_rank(given[kept], cosine_n[kept], **how)
    return scores


def _retrieval(unit_nCD: Tensor, keys_nC: np.ndarray) -> dict[str, float]:
    """Each different first text ranks all different other texts; relevant are the second texts of its rows."""
    queries, query_place, query_n = np.unique(keys_nC[:, 0], return_index=True, return_inverse=True)
    others, place, other_nK = np.unique(keys_nC[:, 1:], return_index=True, return_inverse=True)
    order = np.argsort(place)  # ties go by row
    rank_of = np.empty(len(others), dtype=np.int64)
    rank_of[order] = np.arange(len(others))
    text_MD = unit_nCD[:, 1:].flatten(0, 1)[torch.from_numpy(place[order])]
    relevant = np.unique(np.stack([query_n, rank_of[other_nK.reshape(len(keys_nC), -1)[:, 0]]], axis=1), axis=0)
    pairs = relevant[:, 0] * len(others) + relevant[:, 1]
    hits = []
    for start in range(0, len(queries), _BLOCK):
        some = np.arange(start, min(start + _BLOCK, len(queries)))
        scores_QM = unit_nCD[torch.from_numpy(query_place[some]), 0] @ text_MD.T
        best_QK = torch.sort(scores_QM, dim=1, descending=True, stable=True)[1][:, :_RANKS].numpy()
        hits.append(np.isin(some[:, None] * len(others) + best_QK, pairs))
    scores = retrieval_scores(np.concatenate(hits), np.bincount(relevant[:, 0], minlength=len(queries)), (1, _RANKS))
    return {name: value for name, value in scores.items() if name != "unanswered"}
