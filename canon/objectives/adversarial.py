"""The two players' losses of a generative adversarial network, from the discriminator's logits.

Paper: Goodfellow et al. 2014 (arXiv:1406.2661), equation 1: V(D, G) = E log D(x) + E log(1 − D(G(z))), D = σ(logit).
`discriminator` descends −V; `minimax_generator` descends V; `non_saturating_generator` is the paper's section 3 remedy.
The objectives of a recipe are `Minimax` and `NonSaturating`.
Deviations: none. Shapes: B examples. All are softplus forms: finite, with a finite gradient, at any logit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from canon.objectives._checks import require_same_shape
from canon.objectives.settings import NoSettings


def discriminator(real_logit_B: Tensor, fake_logit_B: Tensor) -> Tensor:
    """−log D(x) − log(1 − D(G(z))); log 4 where D cannot tell, D = ½.

    | input | shape | meaning |
    | --- | --- | --- |
    | real_logit_B | [B] | of data x |
    | fake_logit_B | [B] | of samples G(z), cut from the generator's graph |

    Relations: `classification.binary_cross_entropy` with label 1 for data, 0 for samples, added up.
    """
    require_same_shape(real_logit=real_logit_B, fake_logit=fake_logit_B)
    return F.softplus(-real_logit_B) + F.softplus(fake_logit_B)


def minimax_generator(fake_logit_B: Tensor) -> Tensor:
    """log(1 − D(G(z)))

    | input | shape | meaning |
    | --- | --- | --- |
    | fake_logit_B | [B] | of samples G(z) |

    Relations: the zero-sum game of the theory; its gradient vanishes while D wins. Train with the next one.
    """
    return -F.softplus(fake_logit_B)


def non_saturating_generator(fake_logit_B: Tensor) -> Tensor:
    """−log D(G(z))

    | input | shape | meaning |
    | --- | --- | --- |
    | fake_logit_B | [B] | of samples G(z) |

    Relations: same inputs and fixed point as `minimax_generator`, with a strong gradient while D wins.
    """
    return F.softplus(-fake_logit_B)


class GameLoss:
    """The losses of both players, one per example."""

    discriminator = staticmethod(discriminator)
    generator: Callable[[Tensor], Tensor]

    def __init__(self, settings: NoSettings) -> None:
        self.settings = settings


class NonSaturating(GameLoss):
    generator = staticmethod(non_saturating_generator)


class Minimax(GameLoss):
    generator = staticmethod(minimax_generator)
