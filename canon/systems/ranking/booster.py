"""Boosted trees of LightGBM that stop and continue bit for bit.

Ke et al. 2017, LightGBM: a highly efficient gradient boosting decision tree. LightGBM keeps more in memory than it
writes into a model (scores of the rows, states of its generators), so a booster that was read from a file does not
continue like the original. Trees are therefore always grown in segments: each is a booster of its own, which
starts at the scores of the trees before it, with the seed plus the number of those trees. A checkpoint holds the trees
as LightGBM's text and the scores at the beginning of the segment; `resume` grows the trees of the open segment again.
Without sampling, the trees are the same as those of one booster. Shapes: N rows, F features, T trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.errors import CanonError

if TYPE_CHECKING:
    import lightgbm

_SEEDS = 1 << 31  # LightGBM's seeds are below
_BLOCK = 16  # trees that are summed up together
_FIRST, _AFTER = "\nTree=", "\nend of trees"


def lightgbm_module() -> Any:
    try:
        import lightgbm
    except ImportError:
        raise CanonError('Boosted trees need LightGBM: pip install "deepcanon[trees]".') from None
    return lightgbm


class TreeRows:
    """What trees are grown on: `sizes_Q` are the rows of each query, `weights_N` those of their losses."""

    def __init__(
        self, values_NF: np.ndarray, labels_N: np.ndarray, sizes_Q: np.ndarray, weights_N: np.ndarray | None = None
    ) -> None:
        self.values_NF = np.ascontiguousarray(values_NF, np.float32)
        self.labels_N, self.sizes_Q, self.weights_N = np.asarray(labels_N, np.float32), sizes_Q, weights_N
        self._binned: Any = None

    def binned(self, parameters: Mapping[str, Any], start_N: np.ndarray | None) -> Any:
        """LightGBM's data set, made once, whose trees add to `start`."""
        if self._binned is None or start_N is None:
            lightgbm = lightgbm_module()
            more = {"group": self.sizes_Q, "weight": self.weights_N, "params": dict(parameters)}
            self._binned = lightgbm.Dataset(self.values_NF, self.labels_N, **more).construct()
        if start_N is not None:
            self._binned.set_init_score(start_N)
        return self._binned


class Boosted:
    """T trees and, while they grow, the open segment."""

    def __init__(self, parameters: Mapping[str, Any], seed: int, segment: int) -> None:
        self.parameters, self.seed, self.segment = dict(parameters), seed, segment
        self.closed = ""  # the trees before the open segment, as LightGBM's text
        self.num_closed = self.num_open = 0
        self.start_N: np.ndarray | None = None  # scores of the rows by the closed trees; None before the first
        self._open: Any = None  # lightgbm.Booster
        self._whole: Any = None  # the same trees as one booster, to predict with
        self._scored: tuple[np.ndarray, int, np.ndarray] | None = None

    @property
    def num_trees(self) -> int:
        return self.num_closed + self.num_open

    # ---- growing

    def grow(self, rows: TreeRows) -> bool:
        """One more tree; False if no split is worth it."""
        if self._open is not None and self.num_open == self.segment:
            self._close(rows)
        if self._open is None:
            self._begin(rows)
        before = self.num_open
        done = self._open.update()
        self.num_open = self._open.num_trees()  # a tree without a split stays only where it is the first
        self._whole = None if self.num_open > before else self._whole
        return not done

    def _begin(self, rows: TreeRows) -> None:
        binned = rows.binned({**self.parameters, "seed": self.seed % _SEEDS}, self.start_N)
        seed = (self.seed + self.num_closed) % _SEEDS
        self._open = lightgbm_module().Booster({**self.parameters, "seed": seed}, binned)

    def _close(self, rows: TreeRows) -> None:
        self.start_N = self._scores(rows)
        self.closed = self.text()
        self.num_closed, self.num_open, self._open = self.num_trees, 0, None

    def _scores(self, rows: TreeRows) -> np.ndarray:
        """[N] the sums of all trees so far, before the objective transforms them."""
        if self.parameters["objective"] == "binary":  # whose scores LightGBM gives as probabilities
            before = 0.0 if self.start_N is None else self.start_N
            return np.asarray(before + self._open.predict(rows.values_NF, raw_score=True), np.float64)
        seen: list[np.ndarray] = []

        def see(scores_N: np.ndarray, _: Any) -> tuple[str, float, bool]:
            seen.append(np.array(scores_N, np.float64))
            return "seen", 0.0, True

        self._open.eval_train(see)
        return seen[0]

    # ---- as text

    def text(self) -> str:
        """All trees as LightGBM's own text."""
        if self._open is None:
            return self.closed
        return joined(self.closed, self._open.model_to_string(num_iteration=-1))

    def take(self, text: str) -> None:
        """The trees of a text, to predict with."""
        self.closed, self.num_closed, self.num_open = text, text.count(_FIRST), 0
        self._open = self._whole = self._scored = self.start_N = None

    def resume(self, text: str, start_N: np.ndarray | None, num_closed: int, rows: TreeRows) -> None:
        """Continues from the trees of a text, of which all after the first `num_closed` are grown again."""
        self.take(first_trees(text, num_closed))
        self.start_N = start_N
        for _ in range(text.count(_FIRST) - num_closed):
            self.grow(rows)
        if self.text() != text:
            raise CanonError(
                "The trees since the last segment could not be grown again bit for bit: the version of LightGBM or "
                "the processor has changed. Train again with another --out."
            )

    # ---- using

    def whole(self) -> Any:
        if self._whole is None:
            self._whole = lightgbm_module().Booster(model_str=self.text())
        return self._whole

    def predict(self, values_NF: np.ndarray) -> np.ndarray:
        """[N] Σ_t tree_t(x). Sums of whole blocks are kept for the rows that were scored last, in an order that does
        not depend on what was kept."""
        rows_NF = np.ascontiguousarray(values_NF, np.float32)
        if not self.num_trees:
            return np.zeros(len(rows_NF))
        done, sum_N = 0, np.zeros(len(rows_NF))
        if self._scored is not None and self._scored[0] is values_NF and self._scored[1] <= self.num_trees:
            _, done, sum_N = self._scored
        whole: lightgbm.Booster = self.whole()
        threads = self.parameters.get("num_threads", 0)
        while done < self.num_trees:
            count = min(_BLOCK, self.num_trees - done)
            block_N = whole.predict(
                rows_NF, start_iteration=done, num_iteration=count, raw_score=True, num_threads=threads
            )
            if count < _BLOCK:
                return np.asarray(sum_N + block_N)
            sum_N, done = sum_N + block_N, done + count
            self._scored = (values_NF, done, sum_N)
        return sum_N

    def importances(self, kind: str) -> np.ndarray:
        """[F] how often ("split") or with what gain ("gain") the trees split by each feature."""
        both = [_read(self.closed)] if self.closed else []
        both += [] if self._open is None else [self._open]
        return np.asarray(sum(trees.feature_importance(importance_type=kind) for trees in both), np.float64)


@lru_cache(maxsize=2)
def _read(text: str) -> Any:
    return lightgbm_module().Booster(model_str=text)


def joined(first: str, second: str) -> str:
    """Two texts as one, the trees of the second numbered after those of the first."""
    if not first:
        return _without_settings(second)
    trees = [*_trees(first), *_trees(second)]
    return _with_trees(_without_settings(second), trees)


def first_trees(text: str, count: int) -> str:
    return _with_trees(text, _trees(text)[:count]) if count else ""


def _trees(text: str) -> list[str]:
    """The text of each tree after its number."""
    inner = text[: text.index(_AFTER)]
    return [part.partition("\n")[2].rstrip("\n") for part in inner.split(_FIRST)[1:]]


def _with_trees(text: str, trees: list[str]) -> str:
    head = [line for line in text[: text.index(_FIRST)].split("\n") if not line.startswith("tree_sizes=")]
    parts = [f"Tree={number}\n{tree}\n\n\n" for number, tree in enumerate(trees)]
    sizes = " ".join(str(len(part.encode())) for part in parts)
    return "\n".join([*head[:-1], f"tree_sizes={sizes}", "", ""]) + "".join(parts) + "end of trees\n"


def _without_settings(text: str) -> str:
    """Without what follows the trees: importances, which LightGBM counts again, and settings, which the run has."""
    return _with_trees(text, _trees(text))
