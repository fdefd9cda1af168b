"""Items for users, judged by the ranks of the items that a user turned out to take.

The protocol of the data (canon/data/encodings/events.py) says which items are ranked; where these are candidates only,
`full_hit@10` and `full_ndcg@10` are of all items beside. Items that a user has already are never ranked. Equal scores
are ordered by chance. Coverage and novelty are of the first ten of all items.
Shapes: U users, T items to be found, K best items.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from canon import metrics
from canon.data.batching.sequences import Uneven
from canon.data.encodings.events import EventSchema
from canon.data.schema import Columns, Schema
from canon.objectives.record import ObjectiveChoice
from canon.tasks.base import Outputs, Remarks, Task

LIST = 10  # places of the lists that coverage and novelty are of
_MOST_COMPARED = 1 << 26  # pairs of an item to be found and one that its user has
_SCORED = {1: ("hit",), 10: ("hit", "ndcg"), 20: ("recall", "ndcg")}


class Recommendation(Task, Remarks):
    monitor = "ndcg@10"

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        assert isinstance(schema, EventSchema)
        self.items, self.counts, self.num_users = schema.items, np.array(schema.counts), len(schema.users)
        self.protocol, self.rates = schema.protocol, choice.name == "squared-ratings"
        self.is_guess = choice.name == "popularity"

    def names(self) -> tuple[str, ...]:
        ranked = tuple(f"{name}@{k}" for k, names in _SCORED.items() for name in names)
        return ("loss", *ranked, "user_auc", "coverage", "novelty", "full_hit@10", "full_ndcg@10", "rmse")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        loss = {"loss": float(np.mean(outputs["loss"]))}
        if "item" in columns:
            return loss
        targets = columns["target"]
        assert isinstance(targets, Uneven)
        owner_T = np.repeat(np.arange(len(targets)), targets.lengths)
        known = outputs["above"] >= 0  # others the user has already
        lengths = np.bincount(owner_T[known], minlength=len(targets))
        full = outputs["above"][known]
        top = outputs["top"][:, :LIST]
        beside = {
            "coverage": metrics.coverage(top, len(self.items)),
            "novelty": metrics.novelty(top, self.counts, self.num_users),
        }
        self.remarks = (f"Ranked as {self.protocol} says.", *_left_out(known))
        candidates = columns.get("candidates")
        if not isinstance(candidates, Uneven):
            ranked = _ranked(full, owner_T[known], lengths)
            auc = metrics.user_auc(full, lengths, outputs["ranked"])
        else:
            among = outputs["among"][known]
            ranked = _ranked(among, owner_T[known], lengths)
            auc = metrics.user_auc(among, lengths, candidates.lengths)
            whole = _ranked(full, owner_T[known], lengths)
            beside |= {f"full_{name}": whole[name] for name in ("hit@10", "ndcg@10")}
        ratings = columns.get("rating")
        if self.rates and isinstance(ratings, Uneven):
            beside["rmse"] = metrics.root_mean_squared_error(ratings.tokens, outputs["guess"].astype(np.float64))
        return {**loss, **ranked, "user_auc": auc, **beside}

    def shortfall(self, outputs: Outputs, columns: Columns, train: Columns) -> str:
        history, targets, chosen = (columns.get(name) for name in ("history", "target", "candidates"))
        if self.is_guess or not isinstance(history, Uneven) or not isinstance(targets, Uneven):
            return ""
        others = chosen if isinstance(chosen, Uneven) else None
        guess = self._popular(history, targets, others)
        reached = self.score(outputs, columns)[self.monitor]
        message = f"no better than the items that most users have ({self.monitor} {reached:.4f}, theirs {guess:.4f})"
        return message if reached <= guess else ""

    def _popular(self, history: Uneven, targets: Uneven, chosen: Uneven | None) -> float:
        """`ndcg@10` of the order by popularity, of equal items half before; -1 where it would take long to find."""
        if int(history.lengths @ targets.lengths) > _MOST_COMPARED:
            return -1.0
        owner_T = np.repeat(np.arange(len(targets)), targets.lengths)
        count_T = self.counts[targets.tokens]

        def before(lists: Uneven) -> np.ndarray:
            """For each target how many items of its user's list come before it."""
            items = lists.take(owner_T)
            place = np.repeat(np.arange(len(owner_T)), items.lengths)
            more = self.counts[items.tokens] - count_T[place]
            same = 0.5 * ((more == 0) & (items.tokens != targets.tokens[place]))
            return np.bincount(place, (more > 0) + same, minlength=len(owner_T))

        if chosen is not None:
            above_T = before(chosen)
        else:
            rising = np.sort(self.counts)
            low, high = (np.searchsorted(rising, count_T, side=side) for side in ("left", "right"))
            above_T = len(rising) - high + 0.5 * (high - low - 1) - before(history)
        return _ranked(above_T.astype(np.int64), owner_T, targets.lengths)[self.monitor]

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        """The best items that each user does not have; for an unknown user the most popular ones, marked as such."""
        rows = []
        parts = zip(outputs["top"][:, :top].tolist(), outputs["scores"].tolist(), outputs["cold"].tolist(), strict=True)
        for items, scores, cold in parts:
            best = [{"item": self.items[i], "score": s} for i, s in zip(items, scores, strict=False) if i >= 0]
            first = best[0]["item"] if best else None
            rows.append({"prediction": first, "top": best, **({"unknown_user": True} if cold else {})})
        return rows


def _ranked(above_T: np.ndarray, owner_T: np.ndarray, lengths_U: np.ndarray) -> dict[str, float]:
    most = max(_SCORED)
    relevant_UK = np.zeros((len(lengths_U), most))
    near = above_T < most
    relevant_UK[owner_T[near], above_T[near]] = 1
    scores = metrics.retrieval_scores(relevant_UK, lengths_U, tuple(_SCORED))
    return {f"{name}@{k}": scores[f"{name}@{k}"] for k, names in _SCORED.items() for name in names}


def _left_out(known: np.ndarray) -> list[str]:
    lost = int(np.count_nonzero(~known))
    return [f"{lost:,} items to be found are left out: their users have them already."] if lost else []
