"""The settings of each optimiser and their published defaults; importing this imports no torch.

`OPTIMIZERS` is the one table of names. A class says what its fields are; the arithmetic is torch's or `ours.py`.
Full-batch gradient descent is `sgd` with `momentum = 0` and a batch as large as the data.
Deviations: `weight_decay` is an L2 term added to the gradient, except in `adamw` and `lamb`, where it is decoupled.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from canon.config import settings
from canon.errors import CanonError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]  # of a running average; 1 would never take anything in

# The settings that several optimisers have, with what each stands for in the formulas.
Rate = Annotated[Positive, Field(description="learning rate; the schedule multiplies it")]
WeightDecay = Annotated[
    NonNegative, Field(description="λ: an L2 term in the gradient; in adamw and lamb decoupled from it")
]
Momentum = Annotated[Decay, Field(description="μ, share of the last step that is kept")]
Epsilon = Annotated[Positive, Field(description="ε, added to the denominator")]
Rho = Annotated[Decay, Field(description="ρ, decay of the running mean of squares")]
Betas = Annotated[
    tuple[Decay, Decay], Field(description="β₁, β₂, decay of the running means of gradients and their squares")
]
BiasCorrection = Annotated[
    bool, Field(description="divide the running means by 1 − βᵗ; false is the form BERT was trained with")
]


@settings
class OptimizerSettings:
    """What all optimisers share."""

    paper: ClassVar[str]
    lr: Rate
    weight_decay: WeightDecay = 0.0


@settings
class SGD(OptimizerSettings):
    """Gradient descent, with heavy-ball or Nesterov momentum if `momentum` > 0."""

    paper: ClassVar[str] = "Robbins & Monro 1951; Polyak 1964; Nesterov 1983 as in Sutskever et al. 2013"
    lr: Rate = 0.01
    momentum: Momentum = 0.0
    nesterov: Annotated[bool, Field(description="look ahead along the momentum")] = False

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> SGD:
        if self.nesterov and self.momentum == 0:
            raise CanonError("optimizer.nesterov needs optimizer.momentum above 0.")
        return self


@settings
class AdaGrad(OptimizerSettings):
    """Divides each rate by the root of all squared gradients so far."""

    paper: ClassVar[str] = "Duchi, Hazan & Singer 2011"
    lr: Rate = 0.01
    eps: Epsilon = 1e-10


@settings
class AdaDelta(OptimizerSettings):
    """Divides by a running root mean square of gradients, multiplies by that of updates."""

    paper: ClassVar[str] = "Zeiler 2012, arXiv:1212.5701"
    lr: Rate = 1.0
    rho: Rho = 0.95
    eps: Epsilon = 1e-6


@settings
class RMSProp(OptimizerSettings):
    """Divides each rate by a running root mean square of gradients."""

    paper: ClassVar[str] = "Tieleman & Hinton 2012, lecture 6.5"
    lr: Rate = 0.001
    rho: Rho = 0.9
    eps: Epsilon = 1e-8
    momentum: Momentum = 0.0
    centered: Annotated[bool, Field(description="subtract the squared running mean of the gradients")] = False


@settings
class MomentSettings(OptimizerSettings):
    """What Adam and its relatives share."""

    lr: Rate = 0.001
    betas: Betas = (0.9, 0.999)
    eps: Epsilon = 1e-8


@settings
class Adam(MomentSettings):
    """Running mean over running root mean square of gradients, with or without bias correction."""

    paper: ClassVar[str] = "Kingma & Ba 2015, arXiv:1412.6980"
    bias_correction: BiasCorrection = True


@settings
class NAdam(MomentSettings):
    """Adam with Nesterov momentum on a warming schedule."""

    paper: ClassVar[str] = "Dozat 2016, ICLR workshop"
    lr: Rate = 0.002
    momentum_decay: Annotated[NonNegative, Field(description="ψ of the momentum's own schedule")] = 0.004


@settings
class AdamW(MomentSettings):
    """Adam with weight decay outside the adaptive step; without bias correction, the form BERT was trained with."""

    paper: ClassVar[str] = "Loshchilov & Hutter 2019, arXiv:1711.05101"
    weight_decay: WeightDecay = 0.01
    bias_correction: BiasCorrection = True


@settings
class LAMB(MomentSettings):
    """Adam's direction, per tensor rescaled to the length of the weights (clipped to `trust_clip` if given)."""

    paper: ClassVar[str] = "You et al. 2020, arXiv:1904.00962"
    eps: Epsilon = 1e-6
    weight_decay: WeightDecay = 0.01
    trust_clip: Annotated[
        tuple[NonNegative, Positive] | None, Field(description="bounds of the weights' length in the trust ratio")
    ] = None

    @model_validator(mode="after")
    def _clip_in_order(self) -> LAMB:
        if self.trust_clip and self.trust_clip[0] > self.trust_clip[1]:
            raise CanonError(f"optimizer.trust_clip must be [low, high] with low ≤ high, got {list(self.trust_clip)}.")
        return self


@settings
class AdamThenSGD(MomentSettings):
    """Adam for `switch_step` steps, then SGD with momentum at `sgd_lr`."""

    paper: ClassVar[str] = "Keskar & Socher 2017, arXiv:1712.07628 (with the switch at a given step)"
    switch_step: Annotated[int, Field(ge=0, description="updates by Adam before SGD takes over; must be given")]
    sgd_lr: Annotated[Positive, Field(description="learning rate after the switch")] = 0.01
    momentum: Momentum = 0.9


OPTIMIZERS: dict[str, type[OptimizerSettings]] = {
    "sgd": SGD,
    "adagrad": AdaGrad,
    "adadelta": AdaDelta,
    "rmsprop": RMSProp,
    "adam": Adam,
    "nadam": NAdam,
    "adamw": AdamW,
    "lamb": LAMB,
    "adam-then-sgd": AdamThenSGD,
}
