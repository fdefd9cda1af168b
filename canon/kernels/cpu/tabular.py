"""Learning of a table Q by acting in transition probabilities, compiled by numba: no environment is called.

One move of the loop: act ε-greedily (of equal values one at random), draw what follows from P, learn, and begin again
where an episode ends. Random numbers are splitmix64's, whose state of 64 bits is part of a checkpoint.
Plain version: the same code uncompiled (CANON_KERNELS=off), equal bit for bit; and `learn` of
canon/systems/control/tabular.py, which acts in the environment itself. tests/systems/test_tabular.py compares them.
Shapes: S states, A actions, K outcomes of a move.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit, part

QLEARNING, SARSA, EXPECTED = 0, 1, 2
STATE, PENDING, LENGTH, EPISODES, STEPS = range(5)  # of `whole`; PENDING is SARSA's next action, −1 for none
_11 = np.uint64(11)
_UNIT = 1.0 / (1 << 53)


@part
def _uniform(random):
    random[0] = random[0] + GOLDEN
    return np.float64(mixed(random[0]) >> _11) * _UNIT


@part
def _drawn(cumulative, random):
    """The place of the first sum that is above a random number."""
    u = _uniform(random)
    last = len(cumulative) - 1
    for place in range(last):
        if u < cumulative[place]:
            return place
    return last


@part
def _greatest(q_A):
    best = q_A[0]
    for value in q_A:
        best = max(best, value)
    return best


@part
def _act(q_A, epsilon, random):
    """A random action with probability ε, else the best, one of equal ones at random."""
    if _uniform(random) < epsilon:
        return min(int(_uniform(random) * len(q_A)), len(q_A) - 1)
    best = _greatest(q_A)
    ties = 0
    for action in range(len(q_A)):
        ties += q_A[action] == best
    chosen = min(int(_uniform(random) * ties), ties - 1) if ties > 1 else 0
    for action in range(len(q_A)):
        if q_A[action] == best:
            if chosen == 0:
                return action
            chosen -= 1
    return 0


@part
def _expected(q_A, epsilon):
    """The mean of Q over ε-greedy actions, those of equal value equally likely."""
    best, total, ties = _greatest(q_A), 0.0, 0
    for value in q_A:
        total += value
        ties += value == best
    return epsilon * total / len(q_A) + (1 - epsilon) * best


@part
def rate(alpha, decay, power, visits, episodes):
    """α of an update: by how often the pair was visited, by how many episodes are over, or constant."""
    if power > 0:
        return np.float64(visits) ** -power
    return alpha / (1 + episodes / decay) if decay > 0 else alpha


@njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
def learn(
    moves, kind, cumulative_SAK, after_SAK, reward_SAK, ends_SAK, start_S, limit, gamma, alpha, decay, power,
    epsilon, last_epsilon, epsilon_steps, q_SA, visits_SA, whole, total, random, tally,
):  # fmt: skip
    """So many moves. `total` [1] is the open episode's return; `tally` adds up the absolute errors, and of the episodes
    that ended their number, returns and lengths."""
    for _ in range(moves):
        steps = whole[STEPS]
        now = last_epsilon
        if steps < epsilon_steps:
            now = epsilon + (last_epsilon - epsilon) * steps / epsilon_steps
        state = whole[STATE]
        if state < 0:
            state = _drawn(start_S, random)
        action = whole[PENDING]
        if action < 0:
            action = _act(q_SA[state], now, random)
        place = _drawn(cumulative_SAK[state, action], random)
        after, reward = after_SAK[state, action, place], reward_SAK[state, action, place]
        ends = ends_SAK[state, action, place]
        whole[LENGTH] += 1
        whole[STEPS] += 1
        total[0] += reward
        following, target = -1, reward
        if not ends:
            if kind == SARSA:
                following = _act(q_SA[after], now, random)
                target += gamma * q_SA[after, following]
            elif kind == EXPECTED:
                target += gamma * _expected(q_SA[after], now)
            else:
                target += gamma * _greatest(q_SA[after])
        visits_SA[state, action] += 1
        error = target - q_SA[state, action]
        q_SA[state, action] += rate(alpha, decay, power, visits_SA[state, action], whole[EPISODES]) * error
        tally[0] += abs(error)
        whole[STATE], whole[PENDING] = after, following
        if ends or whole[LENGTH] >= limit:
            tally[1] += 1
            tally[2] += total[0]
            tally[3] += whole[LENGTH]
            whole[EPISODES] += 1
            whole[STATE], whole[PENDING], whole[LENGTH], total[0] = -1, -1, 0, 0.0
