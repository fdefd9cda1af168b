"""What all systems that recommend share: which user has which items, scores of all items in blocks, and ranking.

A system gives scores [B, I] for some users (`scores`), and for users who are not in the training set (`fold_in`); the
rest is here. A block takes at most 256 MB, and no Python loop goes over users: matrix products, then compiled ranking
(canon/kernels/cpu/top_items.py).
Shapes: U users, I items, N events, B users of a block, K best items, T items to be found.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from canon.contracts import Context, Learner, Recommends
from canon.data.batching.sequences import Uneven
from canon.data.schema import Columns, Data
from canon.kernels import LINE, Later
from canon.kernels.number import threads
from canon.systems.threads import InThreads

top_items = Later("cpu.top_items")
BLOCK_BYTES = 256 << 20
MOST_ROWS = 2048  # of a block: more do not make a product faster
TOP = 100  # best items that are kept of each user


class Recommender(InThreads, Learner, Recommends):
    """A learner of who takes what. `seen` are the items of each training user; `known` also those held out, which are
    not recommended again."""

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__(config, context)
        self.num_users, self.num_items = config.num_users, config.num_items
        self.seen = Uneven(np.zeros(0, np.int32), np.zeros(self.num_users, np.int64))
        self.known = self.seen
        self.arrays: dict[str, np.ndarray] = {}  # what is learned, by name
        self._loss, self._count = 0.0, 0  # since the last log

    @property
    def num_parameters(self) -> int:
        return sum(array.size for array in self.arrays.values())

    @abstractmethod
    def scores(self, users: np.ndarray, histories: Uneven) -> np.ndarray:
        """[B, I] float32 of training users, whose items `histories` are those of training."""

    @abstractmethod
    def fold_in(self, histories: Uneven) -> np.ndarray:
        """The same for users who are not in the training set, from their items alone."""

    # ---- learning

    def begin(self, data: Data, batch: int, steps: int) -> None:
        columns = data.splits["train"]
        self.users_N, self.items_N = np.asarray(columns["input"]), np.asarray(columns["item"])
        self.ratings_N = np.asarray(columns.get("rating", ()), np.float32)
        self.seen = Uneven(self.items_N, np.bincount(self.users_N, minlength=self.num_users))
        self.known = self._with_held_out(data)
        self.batch, self.draws = batch, steps * batch
        self.unit = 1.0, "events"
        self.threads = threads()
        self._loss, self._count = 0.0, 0

    def _with_held_out(self, data: Data) -> Uneven:
        users, items = [self.users_N], [self.items_N]
        for name, columns in data.splits.items():
            if name != "train":
                targets: Any = columns["target"]
                users.append(np.repeat(np.asarray(columns["input"]), targets.lengths))
                items.append(targets.tokens)
        user, item = np.concatenate(users), np.concatenate(items)
        keys = np.unique(user[user >= 0].astype(np.int64) * self.num_items + item[user >= 0])
        lengths = np.bincount(keys // self.num_items, minlength=self.num_users)
        return Uneven((keys % self.num_items).astype(np.int32), lengths)

    def logs(self) -> dict[str, float]:
        """The mean loss since the last call."""
        mean = self._loss / self._count if self._count else 0.0
        self._loss, self._count = 0.0, 0
        return {"loss": mean}

    # ---- keeping

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        lists = {
            f"{name}_{part}": np.asarray(values)
            for name, each in (("seen", self.seen), ("known", self.known))
            for part, values in (("items", each.tokens), ("counts", each.lengths))
        }
        return {"model": {**{name: np.ascontiguousarray(array) for name, array in self.arrays.items()}, **lists}}

    def state(self) -> dict[str, Any]:
        return {"loss": self._loss, "count": self._count}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        model = {name: np.array(array) for name, array in tensors["model"].items()}
        self.seen, self.known = (
            Uneven(model.pop(f"{name}_items"), model.pop(f"{name}_counts")) for name in ("seen", "known")
        )
        self.take_arrays(model)
        self._loss, self._count = float(state.get("loss", 0.0)), int(state.get("count", 0))

    def take_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Keeps the learned arrays, in the layout that training uses."""
        self.arrays = arrays

    # ---- using

    @cached_property
    def counts(self) -> np.ndarray:
        """Training users of each item, float32."""
        return np.bincount(self.seen.tokens, minlength=self.num_items).astype(np.float32)

    def blocks(self, users: np.ndarray, histories: Uneven) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows of each block, and their scores [B, I]. Users −1 are known by their histories alone."""
        rows = min(max(BLOCK_BYTES // (4 * max(self.num_items, 1)), 1), MOST_ROWS)
        for start in range(0, len(users), rows):
            at = slice(start, min(start + rows, len(users)))
            block, given = users[at], histories.take(np.arange(at.start, at.stop))
            scores_BI = np.empty((len(block), self.num_items), np.float32)
            trained, empty = block >= 0, (block < 0) & (given.lengths == 0)
            if trained.any():
                scores_BI[trained] = self.scores(block[trained], self.seen.take(block[trained]))
            if (new := ~trained & ~empty).any():
                scores_BI[new] = self.fold_in(given.take(np.flatnonzero(new)))
            if empty.any():  # nothing is known about them: recommend the popular items
                scores_BI[empty] = np.log1p(self.counts)
            self.context.pause()
            yield at, scores_BI

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        """The losses of events; the best items of users, and the ranks of those they took."""
        users = np.asarray(columns["input"])
        if "item" in columns:
            return {"loss": self._losses(users, np.asarray(columns["item"]))}
        histories, targets = self._histories(columns), columns.get("target", _nothing(len(users)))
        candidates = columns.get("candidates", _nothing(len(users)))
        assert isinstance(targets, Uneven) and isinstance(candidates, Uneven)
        most, asked_for = min(TOP, self.num_items), len(targets.tokens)
        top_UK, top_scores_UK = np.full((len(users), most), -1, np.int32), np.zeros((len(users), most), np.float32)
        above_T, among_T = np.full(asked_for, -1, np.int64), np.full(asked_for, -1, np.int64)
        loss_T, guess_T = np.zeros(asked_for), np.zeros(asked_for, np.float32)
        ranked_U = np.zeros(len(users), np.int64)
        for at, scores_BI in self.blocks(users, histories):
            rows = np.arange(at.start, at.stop)
            asked, seen, chosen = (each.take(rows) for each in (targets, histories, candidates))
            first, last = targets.offsets[at.start], targets.offsets[at.stop]
            row_of = np.repeat(np.arange(len(rows)), asked.lengths)
            guess_T[first:last] = scores_BI[row_of, asked.tokens]

            span, best = slice(first, last), at  # of rows that follow each other, so what is cut out is written to
            out = loss_T[span], above_T[span], among_T[span], top_UK[best], top_scores_UK[best], ranked_U[best]
            keys = np.where(users[at] >= 0, users[at], rows)
            rank = partial(_rank, scores_BI, keys, (seen, asked, chosen), out)
            self.in_threads(rank, self.ranges(0, len(rows)))
        return {
            "loss": loss_T, "above": above_T, "among": among_T, "ranked": ranked_U, "top": top_UK,
            "scores": top_scores_UK, "guess": guess_T, "cold": (users < 0) & (histories.lengths == 0),
        }  # fmt: skip

    def _histories(self, columns: Columns) -> Uneven:
        """The items of each user: as the split says, else all known items of training users except the targets."""
        given = columns.get("history")
        if isinstance(given, Uneven):
            return given
        users = np.asarray(columns["input"])
        lists, targets = self.known.take(np.maximum(users, 0)), columns.get("target", _nothing(len(users)))
        assert isinstance(targets, Uneven)
        owner, asker = (np.repeat(np.arange(len(users)), each.lengths) for each in (lists, targets))
        keys, asked = owner * self.num_items + lists.tokens, asker * self.num_items + targets.tokens
        kept = (users[owner] >= 0) & ~np.isin(keys, asked)
        return Uneven(lists.tokens[kept], np.bincount(owner[kept], minlength=len(users)))

    def _losses(self, users_N: np.ndarray, items_N: np.ndarray) -> np.ndarray:
        """The losses of training events, each against an unseen item."""
        order = np.argsort(users_N, kind="stable")
        users, counts = np.unique(users_N, return_counts=True)
        events = Uneven(items_N[order], counts)
        losses = np.zeros(len(users_N))
        for at, scores_BI in self.blocks(users, _nothing(len(users))):
            targets, seen = events.take(np.arange(at.start, at.stop)), self.seen.take(users[at])
            out = np.zeros(len(targets.tokens))
            top_items.pair_losses(scores_BI, users[at], seen.tokens, seen.offsets, targets.tokens, targets.offsets, out)
            losses[order[events.offsets[at.start] : events.offsets[at.stop]]] = out
        return losses


def _rank(
    scores_BI: np.ndarray,
    keys_B: np.ndarray,
    lists: tuple[Uneven, ...],
    out: tuple[np.ndarray, ...],
    part: tuple[int, int],
) -> None:
    """Ranks the items of some users of a block."""
    a, b = part
    loss_T, above_T, among_T, top_BK, top_scores_BK, ranked_B = out
    (seen, seen_at), (asked, asked_at), (chosen, chosen_at) = (
        (each.tokens, each.offsets[a : b + 1]) for each in lists
    )  # fmt: skip
    block = scores_BI[a:b], keys_B[a:b], seen, seen_at, asked, asked_at
    top_items.pair_losses(*block, loss_T)
    top_items.rank_block(
        *block, chosen, chosen_at, top_BK[a:b], top_scores_BK[a:b], above_T, among_T, ranked_B[a:b]
    )  # fmt: skip


def _nothing(rows: int) -> Uneven:
    return Uneven(np.zeros(0, np.int32), np.zeros(rows, np.int64))


def in_lines(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """A copy of a matrix, flat, with rows of whole cache lines that end in zeros; and their length."""
    stride = -(-rows.shape[1] // LINE) * LINE
    room = np.zeros(len(rows) * stride + LINE, np.float32)
    start = -(room.ctypes.data // room.itemsize) % LINE
    flat = room[start : start + len(rows) * stride]
    flat.reshape(len(rows), stride)[:, : rows.shape[1]] = rows
    return flat, stride
