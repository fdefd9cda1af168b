"""Q-learning and SARSA on the cliff (Sutton and Barto 2018, example 6.6): the table of docs/systems/q-learning.md.

    python benchmarks/cliff.py [--quick] [--seeds 20]

ε = 0.1, γ = 1, α = 0.5/(1 + episode/100), 500 episodes. Printed: the mean return of episodes 101 to 500, exploring
included, its deviation over seeds, and the greedy policy's path: its steps, and how many of its cells touch the cliff.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import arguments, write_result
from scipy import stats

from canon.contracts import Context
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.opening import Opener
from canon.systems.control import sarsa, tabular
from canon.training.environment import Copies

OPENER = Opener("CliffWalking-v1")
FIRST, LAST = 100, 500  # episodes before those that are counted, and in all
ROW, COLS = 2, range(1, 11)  # of the cells that touch the cliff
MOST = 100  # steps of a path: one that is longer circles


def learned(agent: Any) -> float:
    """Trains to the last episode; returns the mean return after the first ones."""
    agent.begin(Copies(lambda: EnvironmentCopy(OPENER), 1, 0), 1, 1)
    early = 0.0
    while agent._tally[1] < LAST:
        agent.step(1)
        if agent._tally[1] == FIRST:
            early = agent._tally[2]
    return float((agent._tally[2] - early) / (LAST - FIRST))


def path_of(agent: Any) -> list[int]:
    """The cells of the greedy policy's path."""
    env = EnvironmentCopy(OPENER)
    cells, over = [int(env.reset(0))], False
    while not over and len(cells) <= MOST:
        move = env.step(int(agent.act(np.array(cells[-1:]))[0]))
        cells.append(move.observation)
        over = move.terminated
    return cells


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    sizes: Any = {"states": 48, "actions": 4, "gamma": 1.0, "alpha": 0.5, "alpha_decay": 100.0, "epsilon": 0.1}
    rows: dict[str, dict[str, list[float]]] = {}
    for seed in range(2 if given.quick else given.seeds):
        context = Context(seed=seed)
        for name, agent in (
            ("q-learning", tabular.QLearning(tabular.Config(**sizes), context)),
            ("sarsa", sarsa.Sarsa(sarsa.Config(**sizes), context)),
        ):
            row = rows.setdefault(name, {"return": [], "steps": [], "beside": []})
            row["return"].append(round(learned(agent), 3))
            cells = path_of(agent)
            row["steps"].append(len(cells) - 1)
            row["beside"].append(sum(divmod(cell, 12)[0] == ROW and cell % 12 in COLS for cell in cells))
    for name, row in rows.items():
        print(
            f"{name:<11} return {np.mean(row['return']):6.1f} ± {np.std(row['return'], ddof=1):.1f}   "
            f"steps {row['steps']}   cells beside the cliff {row['beside']}"
        )
    p = float(stats.ttest_ind(rows["sarsa"]["return"], rows["q-learning"]["return"], equal_var=False).pvalue)
    print(f"Welch's t-test of the returns: p = {p:.2g}")
    write_result("cliff", {"rows": rows, "p": p}, given, ("numpy", "numba", "gymnasium"))


if __name__ == "__main__":
    main()
