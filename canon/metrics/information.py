"""Entropy and its relatives for discrete distributions.

Definitions: Shannon (1948) (H), Kullback and Leibler (1951) (KL), Lin (1991) (JS).
H(p) = −Σ p log p · H(p, q) = −Σ p log q · KL(p‖q) = Σ p log(p/q) · JS = ½ KL(p‖m) + ½ KL(q‖m) with m = ½(p+q) ·
perplexity = base^{H(p,q)}; each in the function of that name.
Conventions: 0·log 0 = 0 always; `base` is e by default (nats; 2 gives bits); what q = 0 where p > 0 means is the
argument `zero`. Deviations: none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from canon.errors import CanonError
from canon.metrics._checks import FloatArray, choice, logarithm, number, numbers, same_length, unit_interval

ZEROS = ("inf", "error", "clip")


def distribution(name: str, values: ArrayLike, normalize: bool) -> FloatArray:
    """Non-negative numbers that sum to 1, or counts to be divided by their sum when `normalize`."""
    p = numbers(name, values).astype(np.float64)
    if p.min() < 0:
        raise CanonError(f"{name} must not be negative, got {p.min():g} at position {int(p.argmin())}.")
    total = float(p.sum())
    if normalize:
        if total == 0 or not np.isfinite(total):
            raise CanonError(f"{name} sums to {total:g} and cannot be normalised.")
        return p / total
    if abs(total - 1) > 1e-6:
        raise CanonError(f"{name} must sum to 1, got {total:g}; pass normalize=True for counts.")
    return p


def entropy(p: ArrayLike, *, base: float = np.e, normalize: bool = False) -> float:
    """−Σ p log p. normalize: divide counts by their sum first (default False: p must sum to 1)."""
    log = logarithm(base)
    held = distribution("p", p, normalize)
    held = held[held > 0]
    return float(0.0 - np.sum(held * log(held)))


def cross_entropy(
    p: ArrayLike,
    q: ArrayLike,
    *,
    base: float = np.e,
    zero: str = "inf",
    epsilon: float = 1e-12,
    normalize: bool = False,
) -> float:
    """−Σ p log q, the code length of p under q.

    zero, for q = 0 where p > 0: "inf" (default) returns infinity, "error" raises, "clip" raises q to `epsilon` there.
    """
    choice("zero", zero, ZEROS)
    log = logarithm(base)
    truth, model = distribution("p", p, normalize), distribution("q", q, normalize)
    same_length("p", truth, "q", model)
    held = truth > 0
    truth, model = truth[held], model[held]
    if (model == 0).any():
        if zero == "inf":
            return float("inf")
        if zero == "error":
            raise CanonError(
                f"q is zero at position {int(np.flatnonzero(held)[(model == 0).argmax()])} where p is not; "
                'pass zero="inf" or zero="clip".'
            )
        model = np.maximum(model, number("epsilon", epsilon))
    return float(0.0 - np.sum(truth * log(model)))


def kl_divergence(
    p: ArrayLike,
    q: ArrayLike,
    *,
    base: float = np.e,
    zero: str = "inf",
    epsilon: float = 1e-12,
    normalize: bool = False,
) -> float:
    """Σ p log(p/q) = H(p, q) − H(p); the arguments are those of `cross_entropy`."""
    choice("zero", zero, ZEROS)
    # Summed as p·(log p − log q), term by term: the difference of two entropies loses digits when p ≈ q.
    log = logarithm(base)
    truth, model = distribution("p", p, normalize), distribution("q", q, normalize)
    same_length("p", truth, "q", model)
    held = truth > 0
    if (model[held] == 0).any() and zero != "clip":
        return cross_entropy(truth, model, base=base, zero=zero)
    truth, model = truth[held], model[held]
    model = np.maximum(model, number("epsilon", epsilon)) if zero == "clip" else model
    return float(np.sum(truth * (log(truth) - log(model))))


def js_divergence(p: ArrayLike, q: ArrayLike, *, base: float = np.e, normalize: bool = False) -> float:
    """½ KL(p‖m) + ½ KL(q‖m), m = ½(p+q): symmetric, finite, at most log 2 (1 in base 2)."""
    first, second = distribution("p", p, normalize), distribution("q", q, normalize)
    same_length("p", first, "q", second)
    middle = (first + second) / 2
    return (kl_divergence(first, middle, base=base) + kl_divergence(second, middle, base=base)) / 2


def perplexity(cross_entropy: float, *, base: float = np.e) -> float:
    """base^{cross-entropy}; `base` must be the one the cross-entropy was measured in (default e)."""
    logarithm(base)
    if np.isnan(number("cross_entropy", cross_entropy, finite=False)):
        raise CanonError("cross_entropy is NaN.")
    return float(np.power(float(base), cross_entropy))


def sequence_perplexity(probabilities: ArrayLike) -> float:
    """exp(−(1/n) Σ log p_i) for the probabilities a model gave to the n tokens that occurred; infinite if one is 0."""
    p = unit_interval("probabilities", probabilities).astype(np.float64)
    with np.errstate(divide="ignore"):
        return float(np.exp(-np.log(p).mean()))
