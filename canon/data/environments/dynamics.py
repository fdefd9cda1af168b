"""The transition probabilities of an environment with finitely many states, as arrays.

gymnasium's tables (`env.unwrapped.P[s][a]`) are lists of (p, s', r, terminated). Outcomes that are equal in s', r and
terminated add up. The flag ends the return, not the state: what P says of a terminal state's own moves never counts.
Shapes: S states, A actions, K outcomes of a move at most, padded with probability 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from canon.errors import CanonError, border

_SUM = 1e-8  # that probabilities may be off by


@dataclass(frozen=True)
class Dynamics:
    probability: np.ndarray  # [S, A, K]
    after: np.ndarray  # [S, A, K] int64, the state that follows
    reward: np.ndarray  # [S, A, K]
    ends: np.ndarray  # [S, A, K] bool
    start: np.ndarray  # [S] probability that an episode begins in a state

    @property
    def num_states(self) -> int:
        return self.probability.shape[0]

    @property
    def num_actions(self) -> int:
        return self.probability.shape[1]

    def digest(self) -> str:
        """Equal for equal models."""
        parts = (self.probability, self.after, self.reward, self.ends)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

    def rewards(self) -> np.ndarray:
        """[S, A] R(s, a), the mean reward of a move."""
        means: np.ndarray = (self.probability * self.reward).sum(axis=2)
        return means

    def backup(self, value_S: np.ndarray, gamma: float) -> np.ndarray:
        """[S, A] Q(s, a) = Σ p (r + γ (1 − terminated) V(s'))."""
        after_SAK = self.reward + gamma * np.where(self.ends, 0.0, value_S[self.after])
        values: np.ndarray = (self.probability * after_SAK).sum(axis=2)
        return values

    def matrix(self, policy_SA: np.ndarray) -> Any:
        """Sparse [S, S]: the probability of going on from s in s' by a policy."""
        from scipy.sparse import coo_matrix

        weight_SAK = policy_SA[:, :, None] * self.probability * ~self.ends
        keep = weight_SAK > 0
        rows = np.broadcast_to(np.arange(self.num_states)[:, None, None], keep.shape)[keep]
        shape = (self.num_states, self.num_states)
        return coo_matrix((weight_SAK[keep], (rows, self.after[keep])), shape).tocsc()


def dynamics_of(table: Any, states: int, actions: int, start_S: Any, name: str) -> Dynamics:
    """From a table P; `name` is what sentences call the environment."""
    moves: list[list[dict[tuple[int, float, bool], float]]] = []
    for state in range(states):
        moves.append([])
        for action in range(actions):
            outcomes: dict[tuple[int, float, bool], float] = {}
            for p, after, reward, ends in _rows(table, state, action, name):
                key = (after, reward, ends)
                outcomes[key] = outcomes.get(key, 0.0) + p
                if not 0 <= after < states or not np.isfinite(reward):
                    raise CanonError(f"{name}: P[{state}][{action}] goes to state {after} with reward {reward}.")
            if min(outcomes.values()) < 0 or not abs(sum(outcomes.values()) - 1) <= _SUM:
                raise CanonError(
                    f"{name}: the probabilities of P[{state}][{action}] sum to {sum(outcomes.values()):.6g}, not 1."
                )
            moves[-1].append(outcomes)
    most = max(len(outcomes) for row in moves for outcomes in row)
    shape = (states, actions, most)
    probability, after_ = np.zeros(shape), np.zeros(shape, np.int64)
    reward_, ends_ = np.zeros(shape), np.ones(shape, bool)
    for state, row in enumerate(moves):
        for action, outcomes in enumerate(row):
            for place, (key, p) in enumerate(outcomes.items()):
                probability[state, action, place] = p
                after_[state, action, place], reward_[state, action, place], ends_[state, action, place] = key
    return Dynamics(probability, after_, reward_, ends_, _starts(start_S, states, name))


def _starts(start_S: Any, states: int, name: str) -> np.ndarray:
    with border(f"{name}: initial_state_distrib"):
        start_S = np.asarray(start_S, float)
    if start_S.shape != (states,) or not (start_S >= 0).all() or not 0 < start_S.sum() < np.inf:
        raise CanonError(f"{name}: initial_state_distrib is not a probability for each of its {states:,} states.")
    shares_S: np.ndarray = start_S / start_S.sum()
    return shares_S


def _rows(table: Any, state: int, action: int, name: str) -> Sequence[tuple[float, int, float, bool]]:
    try:
        rows = [(float(p), index(after), float(reward), bool(ends)) for p, after, reward, ends in table[state][action]]
        if rows:
            return rows
    except (LookupError, TypeError, ValueError, OverflowError):
        pass
    raise CanonError(f"{name}: P[{state}][{action}] is not a list of (probability, state, reward, terminated).")
