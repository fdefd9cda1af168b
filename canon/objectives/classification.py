"""Losses for classes: zero–one, log loss, cross-entropy with any target distribution.

Label smoothing: Szegedy et al. 2016 (arXiv:1512.00567), section 7 → `cross_entropy`. The objective of a recipe is
`CrossEntropy`.
Deviations: none. Shapes: B targets (any leading shape), C classes. Logarithms are natural.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.contracts import IGNORE
from canon.errors import CanonError
from canon.objectives._checks import require_same_shape, require_tensors
from canon.objectives.classes import ClassLoss
from canon.objectives.settings import Smoothed


class CrossEntropy(ClassLoss[Smoothed]):
    probabilities: ClassVar[bool] = True

    def unweighted(self, logits_BK: Tensor, label_B: Tensor, ignore_index: int = IGNORE) -> Tensor:
        return cross_entropy(_compared(logits_BK), label_B, self.settings.label_smoothing, ignore_index)

    def losses(self, logits_BK: Tensor, label_B: Tensor, ignore_index: int = IGNORE) -> Tensor:
        """0 where a label is `ignore_index`."""
        return self.weighted(self.unweighted(logits_BK, label_B, ignore_index), label_B)

    def total(self, logits_BK: Tensor, label_B: Tensor, ignore_index: int = IGNORE) -> Tensor:
        if self.weights_C is not None:
            return self.losses(logits_BK, label_B, ignore_index).sum()
        smoothing = self.settings.label_smoothing
        return cross_entropy(_compared(logits_BK), label_B, smoothing, ignore_index, reduction="sum")

    def scores(self, logits_BK: Tensor) -> Tensor:
        return _compared(logits_BK).softmax(dim=1)

    def floors(self, label_N: np.ndarray, num_classes: int) -> dict[str, float]:
        known_N = label_N[label_N >= 0]
        counts_C = np.bincount(known_N, minlength=num_classes).astype(np.float64)
        if self.weights_C is not None:
            counts_C *= self.weights_C.cpu().numpy()
        shares_C = counts_C[counts_C > 0] / max(counts_C.sum(), 1)
        return {"uniform": float(np.log(num_classes)), "class shares": float(-(shares_C * np.log(shares_C)).sum())}


def _compared(logits_BK: Tensor) -> Tensor:
    """Of one output for two classes the logits (0, f)."""
    return logits_BK if logits_BK.shape[-1] > 1 else torch.cat([torch.zeros_like(logits_BK), logits_BK], dim=-1)


def zero_one(prediction_B: Tensor, label_B: Tensor) -> Tensor:
    """1 where ŷ ≠ y, else 0. Reported, never trained on: its gradient is 0 everywhere.

    | input | shape | meaning |
    | --- | --- | --- |
    | prediction_B | [B] | ŷ, class numbers |
    | label_B | [B] | y, class numbers |

    Relations: its mean is 1 − accuracy; `cross_entropy` and the margin losses are minimised instead.
    """
    require_same_shape(prediction=prediction_B, label=label_B)
    return (prediction_B != label_B).to(torch.get_default_dtype())


def binary_cross_entropy(logit_B: Tensor, label_B: Tensor) -> Tensor:
    """−y log σ(f) − (1−y) log(1−σ(f)), from the logit f: no overflow and no log 0 at any f.

    | input | shape | meaning |
    | --- | --- | --- |
    | logit_B | [B] | f |
    | label_B | [B] | y: 0 or 1, or a probability in between |

    Relations: `margin.logistic` with y in ±1; `cross_entropy` of the two logits (0, f).
    """
    require_same_shape(logit=logit_B, label=label_B)
    return F.binary_cross_entropy_with_logits(logit_B, label_B.to(logit_B.dtype), reduction="none")


def cross_entropy(
    logits_BC: Tensor,
    label_B: Tensor,
    smoothing: float = 0.0,
    ignore_index: int = IGNORE,
    reduction: Literal["none", "sum"] = "none",
) -> Tensor:
    """−Σ_c p_c log softmax(f)_c with p = (1−ε)·onehot(y) + ε/C; 0 where y is `ignore_index`.

    | input | shape | meaning |
    | --- | --- | --- |
    | logits_BC | [..., C] | f |
    | label_B | [...] | y, whole numbers below C, or `ignore_index` |
    | smoothing | — | ε in [0, 1) |
    | ignore_index | — | label of places that do not count; leave them out of the divisor too |
    | reduction | — | "sum" for the sum of all, which is cheaper than summing afterwards |

    Relations: `distribution_cross_entropy` with that p; with ε = 0 the log loss −log q_y. Prefer `margin.hinge` with
    `margin.one_vs_rest` where only the decision matters and no probability is wanted.
    """
    require_tensors(logits=logits_BC, labels=label_B)
    if logits_BC.shape[:-1] != label_B.shape:
        raise CanonError(
            f"Logits need the labels' shape and one dimension of classes, got {tuple(logits_BC.shape)} for labels of "
            f"{tuple(label_B.shape)}."
        )
    if not 0 <= smoothing < 1:
        raise CanonError(f"Label smoothing must be at least 0 and below 1, got {smoothing}.")
    if label_B.is_floating_point() or not logits_BC.is_floating_point():
        raise CanonError(f"Labels are whole numbers and logits are not, got {label_B.dtype} and {logits_BC.dtype}.")
    if logits_BC.dim() == 2:
        try:
            return F.cross_entropy(
                logits_BC, label_B, ignore_index=ignore_index, label_smoothing=smoothing, reduction=reduction
            )
        except IndexError:
            raise CanonError(f"A label is not one of the {logits_BC.shape[1]} classes.") from None
    flat_BC = logits_BC.reshape(-1, logits_BC.shape[-1])
    losses = cross_entropy(flat_BC, label_B.flatten(), smoothing, ignore_index, reduction)
    return losses.view(label_B.shape) if reduction == "none" else losses


def distribution_cross_entropy(logits_BC: Tensor, target_BC: Tensor) -> Tensor:
    """−Σ_c p_c log q_c with q = softmax(logits), for any target distribution p; 0 · log 0 is 0.

    | input | shape | meaning |
    | --- | --- | --- |
    | logits_BC | [..., C] | before the softmax; −inf excludes a class |
    | target_BC | [..., C] | p, rows that sum to 1 (distillation, mixed labels) |

    Relations: `cross_entropy` where p is one class; minus the entropy of p it is KL(p‖q), with the same gradient.
    """
    require_same_shape(logits=logits_BC, target=target_BC)
    return _expected_code_length(F.log_softmax(logits_BC, -1), target_BC)


def distribution_cross_entropy_from_probabilities(probability_BC: Tensor, target_BC: Tensor) -> Tensor:
    """−Σ_c p_c log q_c; 0 · log 0 is 0, and a class that p has and q lacks costs ∞.

    | input | shape | meaning |
    | --- | --- | --- |
    | probability_BC | [..., C] | q, rows that sum to 1 |
    | target_BC | [..., C] | p, rows that sum to 1 |

    Relations: prefer `distribution_cross_entropy` in training; log(softmax(·)) loses digits that it keeps.
    Example: p one-hot, q = (.4, .3, .05, .05, .2) → 0.916; q = (.98, …) → 0.020.
    """
    require_same_shape(probability=probability_BC, target=target_BC)
    # log 0 where p is 0 as well: kept out of the graph, or its gradient would be 0/0
    unused = (target_BC == 0) & (probability_BC == 0)
    return _expected_code_length(probability_BC.masked_fill(unused, 1.0).log(), target_BC)


def _expected_code_length(log_q_BC: Tensor, p_BC: Tensor) -> Tensor:
    log_q_BC = log_q_BC.masked_fill((p_BC == 0) & log_q_BC.isneginf(), 0.0)
    return -(p_BC * log_q_BC).sum(-1)
