"""Environments that come with canon: two of Sutton and Barto 2018, each with its table P.

five-state-walk: example 6.2, a random walk over five states from the middle; reward 1 at the right end.
short-corridor: example 13.1, three cells that look alike, whose middle one reverses left and right.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Outcome = tuple[float, int, float, bool]


class _Finite(gymnasium.Env):
    """Draws from a table P; `seen` is what a state looks like."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012
    moves: dict[int, dict[int, list[Outcome]]]
    start = 0
    names = ""
    size = 0

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.s: int = self.start
        self.lastaction: int | None = None
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Discrete(self.size)

    def seen(self) -> int:
        return self.s

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.s, self.lastaction = self.start, None
        return self.seen(), {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        outcomes = self.moves[self.s][int(action)]
        place = 0 if len(outcomes) == 1 else int(self.np_random.random() >= outcomes[0][0])
        p, self.s, reward, ends = outcomes[place]
        self.lastaction = int(action)
        return self.seen(), reward, ends, False, {"prob": p}

    def render(self) -> str:
        return "".join(f"[{name}]" if place == self.s else f" {name} " for place, name in enumerate(self.names))


class FiveStateWalk(_Finite):
    """States A … E are 0 … 4; action 0 goes left, 1 right, and both may slip to the other side."""

    start, names, size = 2, "ABCDE", 5

    def __init__(self, slip: float = 0.0, render_mode: str | None = None) -> None:
        if not 0 <= slip < 1:
            raise ValueError(f"slip must be a probability below 1, got {slip}")
        super().__init__(render_mode)
        self.P = self.moves = {
            state: {
                action: [
                    (p, *_walked(state, way)) for p, way in ((1 - slip, 2 * action - 1), (slip, 1 - 2 * action)) if p
                ]
                for action in (0, 1)
            }
            for state in range(self.size)
        }
        self.initial_state_distrib = np.eye(self.size)[self.start]


def _walked(state: int, way: int) -> tuple[int, float, bool]:
    after = state + way
    return (min(max(after, 0), 4), float(after == 5), not 0 <= after <= 4)


class ShortCorridor(_Finite):
    """Cells 0, 1, 2 and the goal on the right; −1 a step. Action 0 goes left, 1 right; in cell 1 the other way round.
    All cells look alike (observation 0), so that the best policy for observations is stochastic; with `aliased=False`
    they do not, and there is a table P."""

    names, size = "012", 3

    def __init__(self, aliased: bool = True, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.aliased = aliased
        self.moves = {}
        for cell in range(3):
            self.moves[cell] = {}
            for action in (0, 1):
                way = (2 * action - 1) * (-1 if cell == 1 else 1)
                after = max(cell + way, 0)
                self.moves[cell][action] = [(1.0, min(after, 2), -1.0, after == 3)]
        if aliased:
            self.observation_space = spaces.Discrete(1)
        else:
            self.P = self.moves
            self.initial_state_distrib = np.eye(3)[0]

    def seen(self) -> int:
        return 0 if self.aliased else self.s


CLASSES: dict[str, type[gymnasium.Env]] = {"five-state-walk": FiveStateWalk, "short-corridor": ShortCorridor}
