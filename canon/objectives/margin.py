"""Losses of the margin y·f(x), y in ±1: logistic, hinge, exponential; several classes as one against the rest.

Papers: hinge and soft margin Cortes & Vapnik 1995 → `hinge`, `soft_margin`; exponential is AdaBoost's, Freund &
Schapire 1997 as read by Friedman, Hastie & Tibshirani 2000. The objectives of a recipe are `Logistic`, `Hinge` and
`Exponential`. Deviations: none.
Shapes: B examples, C classes, K outputs (C, or 1 for two classes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.objectives._checks import require_positive, require_same_shape
from canon.objectives.classes import ClassLoss
from canon.objectives.settings import Decided, Margin, Weighted


class Logistic(ClassLoss[Decided]):
    probabilities: ClassVar[bool] = True

    def unweighted(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        return one_vs_rest(logits_BK, label_B, logistic)

    def scores(self, logits_BK: Tensor) -> Tensor:
        return super().scores(logits_BK).sigmoid()


class Hinge(ClassLoss[Margin]):
    def unweighted(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        return one_vs_rest(logits_BK, label_B, partial(hinge, margin=self.settings.margin))


class Exponential(ClassLoss[Weighted]):
    def unweighted(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        return multiclass_exponential(self.scores(logits_BK), label_B)


def logistic(score_B: Tensor, sign_B: Tensor) -> Tensor:
    """log(1 + e^(−y f))

    | input | shape | meaning |
    | --- | --- | --- |
    | score_B | [B] | f |
    | sign_B | [B] | y: −1 or +1 |

    Relations: same inputs as `hinge` and `exponential`; equals `classification.binary_cross_entropy` with y in 0/1.
    Prefer it when probabilities σ(f) are wanted.
    """
    require_same_shape(score=score_B, sign=sign_B)
    return F.softplus(-sign_B * score_B)


def hinge(score_B: Tensor, sign_B: Tensor, margin: float = 1.0) -> Tensor:
    """max(0, m − y f)

    | input | shape | meaning |
    | --- | --- | --- |
    | score_B | [B] | f |
    | sign_B | [B] | y: −1 or +1 |
    | margin | — | m |

    Relations: same inputs as `logistic` and `exponential`; exactly 0 beyond the margin, so only the examples near the
    border (support vectors) have a gradient. At y f = m the subgradient is 0.
    """
    require_same_shape(score=score_B, sign=sign_B)
    require_positive("margin", margin)
    return F.relu(margin - sign_B * score_B)


def exponential(score_B: Tensor, sign_B: Tensor) -> Tensor:
    """e^(−y f)

    | input | shape | meaning |
    | --- | --- | --- |
    | score_B | [B] | f |
    | sign_B | [B] | y: −1 or +1 |

    Relations: same inputs as `logistic` and `hinge`; grows fastest on mistakes, so prefer the others with noisy labels.
    """
    require_same_shape(score=score_B, sign=sign_B)
    return torch.exp(-sign_B * score_B)


def one_vs_rest(logits_BK: Tensor, label_B: Tensor, margin_loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Σ_c loss(f_c, +1 if c = y else −1); with a single output, loss(f, +1 if y = 1 else −1).

    | input | shape | meaning |
    | --- | --- | --- |
    | logits_BK | [B, K] | one score per class, or one in all for two classes |
    | label_B | [B] | class numbers |
    | margin_loss | — | `logistic`, `hinge` or `exponential` |

    Relations: `classification.cross_entropy` makes the classes compete; here each is its own two-class problem.
    """
    if logits_BK.dim() != 2 or label_B.shape != logits_BK.shape[:1]:
        raise CanonError(
            f"One against the rest takes scores [B, K] and labels [B], got {tuple(logits_BK.shape)} and "
            f"{tuple(label_B.shape)}."
        )
    K = logits_BK.shape[1]
    own_BK = label_B[:, None] == (torch.arange(K, device=label_B.device) if K > 1 else 1)
    return margin_loss(logits_BK, own_BK.to(logits_BK.dtype) * 2 - 1).sum(1)


def multiclass_exponential(scores_BC: Tensor, label_B: Tensor) -> Tensor:
    """e^(−y·f / C), with y = 1 for the true class and −1/(C−1) for the others: AdaBoost's loss for several classes.

    | input | shape | meaning |
    | --- | --- | --- |
    | scores_BC | [B, C] | f, one score per class, summing to 0 |
    | label_B | [B] | class numbers |

    Relations: Zhu et al. 2009, eq. 4; with two classes and f = (−s, s) it is `exponential` of s.
    """
    C = scores_BC.shape[1]
    true_B = scores_BC.gather(1, label_B[:, None]).squeeze(1)
    others_B = scores_BC.sum(1) - true_B
    return torch.exp(-(true_B - others_B / (C - 1)) / C)


def soft_margin(weight: Tensor, score_B: Tensor, sign_B: Tensor, C: float = 1.0) -> Tensor:
    """½‖w‖² + C Σ max(0, 1 − y f): the whole objective of the linear support vector machine, one number.

    | input | shape | meaning |
    | --- | --- | --- |
    | weight | any | w, without the bias |
    | score_B | [B] | f = w·x + b of all examples |
    | sign_B | [B] | y: −1 or +1 |
    | C | — | price of a violated margin |

    Relations: `hinge` with weight decay. Divided by C·B it is the mean hinge loss + ‖w‖²/(2CB).
    """
    require_positive("price C", C)
    return 0.5 * weight.square().sum() + C * hinge(score_B, sign_B).sum()
