"""Moves a second of Q-learning and SARSA on tables of transition probabilities, drawn by the compiled kernel.

    python benchmarks/tabular.py [--quick] [--moves 20000000]

One thread; the kernel is compiled before the clock starts. ε = 0.1, α = 0.1, γ = 0.99, from a table of zeros.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import arguments, write_result

from canon.contracts import Context
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener
from canon.systems.control import sarsa, tabular
from canon.training.environment import Copies

ENVIRONMENTS = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4")
LEARNERS: dict[str, Any] = {
    "q-learning": tabular.QLearning,
    "sarsa": sarsa.Sarsa,
    "sarsa:expected": sarsa.Sarsa,
}


def moves_per_second(learner: str, name: str, moves: int, repeats: int) -> list[float]:
    opener = Opener(name)
    env = EnvironmentCopy(opener)
    sizes: dict[str, Any] = {"states": env.observation.size, "actions": env.num_actions}
    config: Any = tabular.Config(**sizes)
    if learner != "q-learning":
        config = sarsa.Config(**sizes, expected=learner == "sarsa:expected")
    agent = LEARNERS[learner](config, Context())
    agent.begin(Copies(lambda: EnvironmentCopy(opener), 1, 0), moves, repeats)
    agent.batch = 1
    agent.step(0)  # compiles
    agent.batch = moves
    rates = []
    for number in range(repeats):
        begun = time.perf_counter()
        agent.step(number)
        rates.append(round(moves / (time.perf_counter() - begun), 1))
    return rates


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--moves", type=int, default=20_000_000, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    moves, repeats = (100_000, 2) if given.quick else (given.moves, given.repeats)
    rows = {}
    for name in ENVIRONMENTS:
        for learner in LEARNERS:
            rates = rows[f"{name} {learner}"] = moves_per_second(learner, name, moves, repeats)
            print(
                f"{name:<16} {learner:<15} {np.median(rates) / 1e6:6.1f} million moves/s ({min(rates) / 1e6:.1f} least)"
            )
    write_result("tabular", {"moves": moves, "rows": rows}, given, ("numpy", "numba", "gymnasium"))


if __name__ == "__main__":
    main()
