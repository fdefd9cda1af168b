"""Claims of mathematics, checked with canon's own functions to numerical tolerance.

Shapes: N draws, D features, T positions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from canon.metrics.curves import auc_by_pairs, auc_by_ranks
from canon.metrics.information import entropy, js_divergence
from canon.nn.activations import gelu_sigmoid
from canon.nn.convolution import PointwiseConv2d
from canon.nn.positions import sinusoids
from canon.objectives.adversarial import discriminator, minimax_generator, non_saturating_generator
from canon.objectives.classification import binary_cross_entropy
from canon.systems.words.sampling import huffman

Values = dict[str, Any]


def score_variance(seed: int, law: str, draws: int) -> Values:
    """Var(q·k) / D of independent entries with mean 0 and variance 1, for D = 1 … 512."""
    random = np.random.default_rng(seed)
    sample = {
        "normal": lambda shape: random.standard_normal(shape),
        "uniform": lambda shape: random.uniform(-math.sqrt(3), math.sqrt(3), shape),
        "signs": lambda shape: random.choice([-1.0, 1.0], shape),
    }[law]
    dims = [2**power for power in range(10)]
    scores = {dim: (sample((draws, dim)) * sample((draws, dim))).sum(1) for dim in dims}
    variance = {dim: float(score_N.var()) for dim, score_N in scores.items()}
    ratios = [variance[dim] / dim for dim in dims]
    return {"least": min(ratios), "most": max(ratios), "variance": [[dim, variance[dim]] for dim in dims]}


def sinusoid_offset(seed: int, dim: int, positions: int) -> Values:
    """PE(p)·PE(p + k) against Σ cos(ω k), and PE(p + k) against PE(p) turned by k, for random p and all k < 128."""
    draws = torch.Generator().manual_seed(seed)
    place_T = torch.randint(positions, (200,), generator=draws)
    offset_K = torch.arange(128)
    here_T1D = sinusoids(place_T, dim).double()[:, None]
    there_TKD = sinusoids(place_T[:, None] + offset_K, dim).double()
    dot_TK = (here_T1D * there_TKD).sum(-1)
    angle_KE = offset_K[:, None].double() * 10_000 ** (-torch.arange(0, dim, 2).double() / dim)
    by_offset_K = angle_KE.cos().sum(-1)
    sine, cosine = here_T1D[..., 0::2], here_T1D[..., 1::2]
    turned = torch.stack(
        [sine * angle_KE.cos() + cosine * angle_KE.sin(), cosine * angle_KE.cos() - sine * angle_KE.sin()], -1
    )
    return {
        "offset error": float((dot_TK - by_offset_K).abs().max() / (dim / 2)),
        "rotation error": float((turned.flatten(-2) - there_TKD).abs().max()),
        "dot product": [[int(k), float(value)] for k, value in zip(offset_K, dot_TK[0], strict=True)],
    }


def gelu_form(seed: int, form: str) -> Values:
    """The largest error of an approximation on [−8, 8]."""
    x = torch.linspace(-8, 8, 160_001, dtype=torch.float64)
    other = F.gelu(x, approximate="tanh") if form == "tanh" else gelu_sigmoid(x)
    error = (other - F.gelu(x)).abs()
    return {
        "largest error": float(error.max()),
        "error": [[float(x[i]), float(error[i])] for i in range(0, len(x), 500)],
    }


def entropy_code(seed: int, dyadic: bool) -> Values:
    """The mean length of a Huffman code against the entropy in bits; dyadic: of probabilities 2^−n."""
    random = np.random.default_rng(seed)
    excess, curve = [], []
    for size in range(2, 65):
        counts = _dyadic(random, size) if dyadic else np.sort(random.integers(1, 1000, size))[::-1]
        bits = entropy(counts / counts.sum(), base=2)
        length = float((huffman(counts).lengths_V * counts).sum() / counts.sum())
        excess.append(length - bits)
        curve.append([bits, length])
    example = huffman(np.array([4, 2, 1, 1])).lengths_V  # of ½, ¼, ⅛, ⅛
    return {
        "example": float(example @ np.array([0.5, 0.25, 0.125, 0.125])),
        "least excess": min(excess),
        "largest excess": max(excess),
        "length": sorted(curve),
    }


def _dyadic(random: np.random.Generator, size: int) -> np.ndarray:
    """Counts, largest first, whose shares are powers of ½: one share is halved again and again."""
    depths = [0]
    while len(depths) < size:
        depth = depths.pop(int(random.integers(len(depths))))
        if depth >= 40:
            depths.append(depth)
            continue
        depths += [depth + 1, depth + 1]
    return np.array(sorted((2 ** (40 - depth) for depth in depths), reverse=True), dtype=np.int64)


def auc_two_ways(seed: int, ties: bool) -> Values:
    """The largest difference between pair counting and the rank sum over random samples."""
    random = np.random.default_rng(seed)
    pairs, ranks = [], []
    for size in range(4, 204):
        labels = np.r_[0, 1, random.integers(0, 2, size - 2)]
        scores = random.integers(0, 5, size) if ties else random.standard_normal(size)
        pairs.append(auc_by_pairs(labels, scores))
        ranks.append(auc_by_ranks(labels, scores))
    gap = max(abs(one - two) for one, two in zip(pairs, ranks, strict=True))
    return {"largest difference": gap, "AUC": sorted([one, two] for one, two in zip(pairs, ranks, strict=True))}


def ranknet_tie(seed: int) -> Values:
    """RankNet's loss of a pair, −log σ(s_i − s_j), and its slope where both scores are equal."""
    difference = torch.linspace(-6, 6, 121, dtype=torch.float64)
    loss = binary_cross_entropy(difference, torch.ones_like(difference))
    tie = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    at_tie = binary_cross_entropy(tie, torch.ones_like(tie))
    at_tie.sum().backward()
    assert tie.grad is not None
    curve = [[float(x), float(y)] for x, y in zip(difference, loss, strict=True)]
    return {"loss": float(at_tie.detach()), "slope": float(tie.grad), "pair loss": curve}


def gan_optimum(seed: int, agree: bool, steps: int) -> Values:
    """The best discriminator of two densities on ten points, by descent; agree: the generator's is that of the data."""
    random = np.random.default_rng(seed)
    data, samples = random.dirichlet(np.ones(10)), random.dirichlet(np.ones(10))
    samples = data if agree else samples
    guess, value = _best_discriminator(data, samples, steps)
    error = guess - data / (data + samples)
    bound = 2 * js_divergence(data, samples) - math.log(4)
    return {
        "D": float(guess[np.abs(error).argmax()]),
        "D error": float(np.abs(error).max()),
        "V": value,
        "excess": value - bound,
    }


def generator_slope(seed: int, form: str) -> Values:
    """|∂ loss of the generator / ∂ logit| by the logit of D(G(z))."""
    logit = torch.linspace(-12, 4, 65, dtype=torch.float64, requires_grad=True)
    loss = {"minimax": minimax_generator, "non-saturating": non_saturating_generator}[form](logit)
    slope = torch.autograd.grad(loss.sum(), logit)[0].abs()
    curve = [[float(x), float(y)] for x, y in zip(logit.detach(), slope, strict=True)]
    return {"slope where D wins": curve[0][1], "slope": curve}


def _best_discriminator(data: np.ndarray, samples: np.ndarray, steps: int) -> tuple[np.ndarray, float]:
    """D at every point, and V = Σ p log D + Σ q log(1 − D), once descent has converged."""
    logit = torch.zeros(len(data), dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        logit += 1.0
    p, q = torch.from_numpy(data), torch.from_numpy(samples)
    optimizer = torch.optim.LBFGS([logit], max_iter=steps, tolerance_grad=1e-12, tolerance_change=1e-16)

    def loss() -> torch.Tensor:
        # −V: the term of the data and that of the samples, each where the other is 0, have their own weights.
        sure = torch.full_like(logit, math.inf)
        return (p * discriminator(logit, -sure) + q * discriminator(sure, logit)).sum()

    def closure() -> float:
        optimizer.zero_grad()
        total = loss()
        total.backward()
        return float(total.detach())

    optimizer.step(closure)
    return torch.sigmoid(logit.detach()).numpy(), -float(loss().detach())


def one_by_one(seed: int, channels: int, out: int) -> Values:
    """A 1×1 convolution against a dense layer with its weights at every pixel: outputs and gradients."""
    torch.manual_seed(seed)
    convolution, dense = PointwiseConv2d(channels, out).double(), torch.nn.Linear(channels, out).double()
    with torch.no_grad():
        dense.weight.copy_(convolution.weight.flatten(1))
        dense.bias.copy_(convolution.bias)  # type: ignore[arg-type]
    x_BCHW = torch.randn(2, channels, 7, 5, dtype=torch.float64)
    ours, theirs = convolution(x_BCHW), dense(x_BCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    assert convolution.weight.grad is not None and dense.weight.grad is not None
    ours, theirs = ours.detach(), theirs.detach()
    return {
        "output difference": float((ours - theirs).abs().max()),
        "gradient difference": float((convolution.weight.grad.flatten(1) - dense.weight.grad).abs().max()),
        "outputs": sorted(
            [float(a), float(b)] for a, b in zip(ours.flatten()[:60], theirs.flatten()[:60], strict=True)
        ),
    }


def short_corridor(seed: int, policy: str, epsilon: float = 0.1) -> Values:
    """Sutton and Barto 2018, example 13.1: the value of the start by the probability of *right*, which is the same in
    all three states; in the middle one the actions are exchanged. Every step costs 1."""
    grid = np.linspace(0.05, 0.95, 1801)
    allowed = {"stochastic": grid, "ε-greedy": np.array([epsilon / 2, 1 - epsilon / 2])}[policy]
    reached = [_corridor_value(p) for p in allowed]
    best = int(np.argmax(reached))
    shown = slice(None, None, max(1, len(allowed) // 60))
    return {
        "best value": reached[best],
        "best probability": float(allowed[best]),
        "value": [[float(p), value] for p, value in zip(allowed[shown], reached[shown], strict=True)],
    }


def _corridor_value(right: float) -> float:
    """Of state 0: v = −1 + P v over three states, the goal being worth 0."""
    left = 1 - right
    P = np.array([[left, right, 0.0], [right, 0.0, left], [0.0, left, 0.0]])
    return float(np.linalg.solve(np.eye(3) - P, -np.ones(3))[0])


def policy_gradient(seed: int, baseline: bool) -> Values:
    """Mean and summed variance of (r − b) ∇ log π(a) of a softmax policy over six actions, by going through them; b is
    the mean reward or 0, rewards lie around 10."""
    random = np.random.default_rng(seed)
    reward_A, preference_A = 10 + random.standard_normal(6), random.standard_normal(6)
    curve = []
    for temperature in (1.0, 0.25, 0.5, 2.0, 4.0):
        share_A = np.exp(preference_A / temperature)
        share_A /= share_A.sum()
        slope_AA = np.eye(6) - share_A  # row a: ∇ log π(a)
        gradient_AA = (reward_A - (share_A @ reward_A if baseline else 0.0))[:, None] * slope_AA
        mean_A = share_A @ gradient_AA
        variance = float((share_A[:, None] * (gradient_AA - mean_A) ** 2).sum())
        curve.append([temperature, variance])
        if temperature == 1.0:
            first = {"mean": float(np.abs(mean_A).sum()), "variance": variance}
    return {**first, "variance by temperature": sorted(curve)}
