"""OAP-BPM: the mean of many PRank perceptrons, each of which learns from a random part of the documents.

Harrington 2003, Online ranking/collaborative filtering using the perceptron algorithm, section 3: an approximation of
the Bayes point, the centre of all scorers that make no mistake. A perceptron learns from a document with probability
`share`; weights and thresholds are averaged → canon.systems.ranking.prank. Deviations: as PRank's.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.systems.ranking import prank
from canon.systems.settings import Positive


@settings
class Config(prank.Config):
    perceptrons: Positive = Field(default=100, description="M")
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.3, description="τ: probability with which a perceptron learns from a document"
    )


class OAPBPM(prank.PRank):
    def __init__(self, config: Config, context: Context) -> None:
        self.perceptrons, self.share = config.perceptrons, config.share
        super().__init__(config, context)
