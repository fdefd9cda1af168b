"""Which interactions are held out: the last of each user, the last of all, or all of some users.

Interactions come in the order of users and items, so nothing depends on the order of a file: where times are equal, or
there are none, a permutation that the seed decides says which is later. Shapes: N interactions.
"""

from __future__ import annotations

import numpy as np

from canon.data.splits import held_count

TRAIN, VALID, TEST = range(3)
TARGETS = 0.2  # share of a held-out user's interactions that are to be found, the last ones


def permutation(size: int, seed: int, name: str) -> np.ndarray:
    """RandomState, since numpy promises its stream for ever."""
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, *name.encode()]
    return np.random.RandomState(np.array(key, dtype=np.uint32)).permutation(size)


def by_time(users_N: np.ndarray, times_N: np.ndarray | None, seed: int) -> np.ndarray:
    """The order by user, then time, then chance."""
    chance_N = permutation(len(users_N), seed, "ties")
    return np.lexsort((chance_N, users_N) if times_N is None else (chance_N, times_N, users_N))


def place_from_end(users_N: np.ndarray, order_N: np.ndarray) -> np.ndarray:
    """How many of its user's interactions come after each one, by an order as that of `by_time`."""
    ends = np.flatnonzero(np.append(np.diff(users_N[order_N]) != 0, True))
    after = np.repeat(ends, np.diff(np.concatenate([[-1], ends])))
    after -= np.arange(len(order_N))
    places_N = np.empty(len(order_N), np.int64)
    places_N[order_N] = after
    return places_N


def last_of_each(users_N: np.ndarray, times_N: np.ndarray | None, seed: int, valid: bool, test: bool) -> np.ndarray:
    """The part of each interaction: the last of a user is to be tested, the one before it to validate; one stays."""
    after_N = place_from_end(users_N, by_time(users_N, times_N, seed))
    count_N = np.bincount(users_N)[users_N]
    part_N = np.full(len(users_N), TRAIN, np.int8)
    if test:
        part_N[(after_N == 0) & (count_N > 1)] = TEST
    if valid:
        part_N[(after_N == int(test)) & (count_N > 1 + test)] = VALID
    return part_N


def last_of_all(times_N: np.ndarray, seed: int, valid: float, test: float) -> np.ndarray:
    """The latest share is to be tested, the share before it to validate."""
    order_N = np.lexsort((permutation(len(times_N), seed, "ties"), times_N))
    part_N = np.full(len(times_N), TRAIN, np.int8)
    left = len(times_N)
    for part, share in ((TEST, test), (VALID, valid)):
        held = held_count(left, share)
        part_N[order_N[left - held : left]] = part
        left -= held
    return part_N


def some_users(users_N: np.ndarray, seed: int, valid: float, test: float) -> np.ndarray:
    """All interactions of a share of the users."""
    known = np.unique(users_N)
    order = known[permutation(len(known), seed, "users")]
    part_of = np.full(int(known.max()) + 1, TRAIN, np.int8)
    left = len(order)
    for part, share in ((TEST, test), (VALID, valid)):
        held = held_count(left, share)
        part_of[order[left - held : left]] = part
        left -= held
    return part_of[users_N]


def are_targets(users_N: np.ndarray, times_N: np.ndarray | None, seed: int) -> np.ndarray:
    """Of interactions of held-out users: those to be found from the earlier ones."""
    after_N = place_from_end(users_N, by_time(users_N, times_N, seed))
    count_N = np.bincount(users_N)[users_N]
    return after_N < np.maximum(np.round(TARGETS * count_N), 1)


def sampled(history: list[np.ndarray], targets: np.ndarray, num_items: int, count: int, seed: int) -> list[np.ndarray]:
    """For each user its target and `count` different items that it does not have, drawn evenly; fewer where there are
    no more."""
    random = np.random.RandomState(np.array([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, *b"sampled"], np.uint32))
    rows = []
    for seen, target in zip(history, targets.tolist(), strict=True):
        ruled_out = {*seen.tolist(), target}
        most = min(count, num_items - len(ruled_out))
        chosen: dict[int, None] = {}
        while len(chosen) < most:
            draws = random.randint(0, num_items, 2 * (most - len(chosen)) + 8).tolist()
            chosen |= dict.fromkeys(item for item in draws if item not in ruled_out)
        rows.append(np.array([target, *list(chosen)[:most]], np.int32))
    return rows
