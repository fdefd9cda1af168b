"""The state of a decoder between two tokens, and how its rows are chosen, repeated and moved.

A state is all that a search has beside the network, which it never writes to: a dictionary of tensors, batch first, so
that an index of rows says which hypotheses go on. Some names mean something: "position" (tokens so far) is one number
that all rows share, as they share an entry whose name begins with "shared"; one that begins with "cache" is
[B, …, C, d], written by the network in place, and read only at its first `position` of C places. One with
"compiled_start" is read by kernels that have threads of their own (canon/nn/attention/compiled.py).
Shapes: R rows, C places of a cache, d features.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

State = dict[str, Tensor]
POSITION, CACHE, SHARED, COMPILED = "position", "cache", "shared", "compiled_start"

_LARGE = 1 << 18  # bytes: below, a fresh copy costs less than finding out which rows can stay


def select(state: State, rows: Tensor) -> State:
    """The state of `rows`: chosen, repeated or left out, in memory of its own."""
    return {key: x if _has_no_rows(key) else _select(x, rows, _filled(key, state)) for key, x in state.items()}


def _has_no_rows(key: str) -> bool:
    return key == POSITION or key.startswith(SHARED)


def _filled(key: str, state: State) -> int:
    """The places of a cache that are in use; −1 for other entries."""
    return int(state[POSITION]) if key.startswith(CACHE) and POSITION in state else -1


def _select(x: Tensor, rows: Tensor, filled: int) -> Tensor:
    if filled < 0 or x.device.type != "cpu":
        return x.index_select(0, rows)
    copy = x.new_empty(len(rows), *x.shape[1:])  # memory that nothing is written to costs nothing yet
    torch.index_select(x.narrow(-2, 0, filled), 0, rows, out=copy.narrow(-2, 0, filled))
    return copy


class Rows:
    """Moves the rows of a state with as little copying as may be; it must see the state before and after every step.

    An entry that no step has touched is alike for all beams of a sentence, which can change places without it.
    On the CPU an entry that steps write into keeps its memory, and only rows that must move are copied.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_cpu = device.type == "cpu"
        self._given: dict[str, tuple[Tensor, int]] = {}
        self._alike: set[str] | None = None  # the same for all beams of a sentence; None before the first step
        self._own: set[str] = set()  # in memory that was made here, and so is nothing else's

    def before(self, state: State) -> None:
        self._given = {key: (x, _writes(x)) for key, x in state.items() if not _has_no_rows(key)}

    def after(self, state: State) -> None:
        same = {key for key, (x, _) in self._given.items() if state.get(key) is x}
        untouched = {key for key in same if self._given[key][1] == _writes(state[key]) >= 0}
        self._alike = untouched if self._alike is None else self._alike & untouched
        self._own &= same

    @property
    def stay(self) -> bool:
        """Whether so much is kept in place that moving rows would cost too much."""
        moving = self._own - (self._alike or set())
        return self._on_cpu and sum(self._given[key][0].nbytes for key in moving) >= _LARGE

    def move(self, state: State, rows: Tensor) -> State:
        """Row r becomes what row rows[r] was, another hypothesis for the same sentence.

        If `stay`, no row that others are made from may become another.
        """
        alike = self._alike or set()
        return self._make(state, rows, alike, self._own - alike if self.stay else set())

    def keep(self, state: State, rows: Tensor) -> State:
        """Only `rows`, in this order; none but rows that are left out may become another. See `closed_up`."""
        return self._make(state, rows, set(), set(self._own) if self._on_cpu else set())

    def repeat(self, state: State, rows: Tensor) -> State:
        return self._make(state, rows, set(), set())

    def _make(self, state: State, rows: Tensor, untouched: set[str], in_place: set[str]) -> State:
        kept = {*filter(_has_no_rows, state), *untouched, *in_place}
        # Copies come first: they may be of views of what is changed in place.
        chosen = {key: x if key in kept else _select(x, rows, _filled(key, state)) for key, x in state.items()}
        self._own |= chosen.keys() - kept
        if in_place:
            source = rows.numpy()
            to = np.flatnonzero(source != np.arange(len(source)))
            for key in in_place:
                _move(chosen[key], to.tolist(), source[to].tolist(), _filled(key, state))
                chosen[key] = chosen[key][: len(source)]
        return chosen


def _writes(x: Tensor) -> int:
    """How often a tensor was written into; −1 where torch does not count."""
    return -1 if x.is_inference() else x._version


def _move(x: Tensor, to: list[int], source: list[int], filled: int) -> None:
    if to:
        rows = (x if filled < 0 else x.narrow(-2, 0, filled)).unbind(0)
        torch._foreach_copy_([rows[row] for row in to], [rows[row] for row in source])


def staying(parent_bK: np.ndarray) -> np.ndarray:
    """[b, K] which child takes each place: a parent's first child its parent's, the others what others leave."""
    width = parent_bK.shape[1]
    is_child_bKK = parent_bK[:, :, None] == np.arange(width)  # child by parent
    born_bK = np.take_along_axis(is_child_bKK.cumsum(1), parent_bK[:, :, None], 2)[:, :, 0]
    children_bK = np.argsort(np.where(born_bK == 1, parent_bK, width), 1, kind="stable")  # first ones by parent
    places_bK = np.argsort(~is_child_bKK.any(1), 1, kind="stable")  # those of parents, then the free ones
    found_bK = np.empty_like(children_bK)
    np.put_along_axis(found_bK, places_bK, children_bK, 1)
    return found_bK


def closed_up(kept_b: np.ndarray) -> np.ndarray:
    """Which rows make up the shorter batch: those kept, with the last ones in the gaps of those that leave."""
    count = int(kept_b.sum())
    rows = np.arange(count)
    rows[~kept_b[:count]] = np.flatnonzero(kept_b[count:]) + count
    return rows
