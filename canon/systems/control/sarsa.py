"""SARSA: a table of action values of the policy that is followed, exploring included.

Rummery and Niranjan 1994, On-line Q-learning using connectionist systems; expected SARSA: van Seijen, van Hasselt,
Whiteson and Wiering 2009, A theoretical and empirical analysis of Expected Sarsa.
  Q(s, a) += α (y − Q(s, a))                                                          `TableLearner.learn`
  y = r + γ (1 − terminated) Q(s', a') with the a' that is then taken                 `Sarsa.following_value`
  `expected`: y = r + γ (1 − terminated) Σ_a π(a, s') Q(s', a), π the ε-greedy policy
Acting and rates are those of tabular.py.
Deviations: none.
Shapes: A actions.
"""

from __future__ import annotations

from pydantic import Field

from canon.config import settings
from canon.systems.control import tabular
from canon.systems.control.tabular import TableLearner


@settings
class Config(tabular.Config):
    expected: bool = Field(default=False, description="expected SARSA: the mean over the next action")


class Sarsa(TableLearner):
    @property
    def kind(self) -> int:
        return int(tabular.kernel.EXPECTED if self.config.expected else tabular.kernel.SARSA)

    def following_value(self, after: int, epsilon: float) -> tuple[float, int]:
        values_A = self.value_SA[after]
        if self.config.expected:
            return float(epsilon * values_A.mean() + (1 - epsilon) * values_A.max()), -1
        action = self._act(after, epsilon)
        return float(values_A[action]), action
