"""Hard attention: each decoder state reads one source position, drawn by its weights.

Xu, Ba, Kiros et al. 2015, Show, attend and tell (arXiv:1502.03044), section 4.1, over words in place of image regions;
the decoder is canon/systems/sequence/luong.py, so that α_t = softmax(score(h_t, h̄_s)) and the position drawn at t
affects word t only. `draw`: a_t ~ α_t in training; `choose`: the likeliest position otherwise. With ℓ_t = −log p(y_t |
a_t), the expected loss Σ_t E[ℓ_t] has the gradient Σ_t E[∇ℓ_t + (ℓ_t − b) ∇log α_t(a_t)]: the first term flows from the
loss of the words, the second is `extra_loss`, with b a running mean of ℓ and a reward for entropy, as in the paper.
estimator = "straight-through" (Bengio, Léonard and Courville 2013, arXiv:1308.3432) reads the drawn position and lets
the gradient pass as if the mean by α had been read.
Deviations: Luong's decoder in place of the paper's, and with it rewards of single words in place of whole sentences,
which has the same mean and less variance; every position is drawn, where the paper replaces half of them by the mean.
Shapes: B sequences, M target tokens, Q queries, S the longest source, V tokens of the target's vocabulary.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Literal

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from canon.config import settings
from canon.contracts import LearnsByDrawing
from canon.nn.ragged import Layout
from canon.nn.without_dynamo import uncompiled
from canon.systems.sequence.luong import Attentive, Luong
from canon.systems.settings import Share

_DRAWN = 256  # positions that numbers are drawn for

# Numbers that all processes share, and which rows of the batch these are: [start, stop) of so many.
Noise = tuple[torch.Generator | None, tuple[int, int, int]]


@settings
class Config(Attentive):
    estimator: Literal["reinforce", "straight-through"] = Field(
        default="reinforce", description="gradient of the choice: score function with a baseline, or straight-through"
    )
    baseline_decay: Share = Field(default=0.9, description="share that the running mean b keeps of itself at a step")
    entropy: Annotated[float, Field(ge=0)] = Field(default=0.0, description="weight of Σ entropy(α), which is rewarded")


class Drawing:
    """The positions of one training forward: what they are drawn by, and after it the weights and the choice."""

    def __init__(self, noise: Noise | None = None) -> None:
        self._noise = noise
        self.weights_BTS: Tensor | None = None
        self.chosen_BT: Tensor | None = None

    def numbers(self, like: Tensor) -> Tensor:
        """[B, Q] from [0, 1); by the loop's generator the same for a sentence in whatever process it is."""
        rows, queries = like.shape[:2]
        if self._noise is None:
            return torch.rand(rows, queries, device=like.device, dtype=like.dtype)
        generator, (start, stop, total) = self._noise
        # Drawn for more than there are, so that processes whose longest sentences differ draw alike.
        drawn = torch.rand(max(_DRAWN, queries), total, generator=generator, device=like.device)
        return drawn[:queries, start:stop].T.to(like.dtype)


class HardAttention(Luong, LearnsByDrawing):
    baseline: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.reinforces = config.estimator == "reinforce"
        self.baseline_decay, self.entropy = config.baseline_decay, config.entropy
        self.register_buffer("baseline", torch.tensor(math.log(config.target_vocab)))  # a loss before any learning

    def choose(self, weights_BQS: Tensor) -> Tensor:
        """The likeliest position of each query."""
        return _one_hot(weights_BQS.argmax(-1), weights_BQS)

    def draw(self, weights_BQS: Tensor, drawing: Drawing) -> Tensor:
        """One position of each query, which `drawing` keeps."""
        # The first position where Σ_{s' ≤ s} α_s' passes a number drawn from [0, Σ α).
        passed_BQS = weights_BQS.detach().cumsum(-1)
        drawn_BQ1 = drawing.numbers(weights_BQS)[..., None].contiguous() * passed_BQS[..., -1:]
        chosen_BQ = torch.searchsorted(passed_BQS, drawn_BQ1, right=True)[..., 0].clamp(max=weights_BQS.shape[2] - 1)
        drawing.weights_BTS, drawing.chosen_BT = weights_BQS, chosen_BQ
        drawn_BQS = _one_hot(chosen_BQ, weights_BQS)
        return drawn_BQS if self.reinforces else drawn_BQS + weights_BQS - weights_BQS.detach()

    @uncompiled  # as Luong's
    def forward(
        self,
        source_N: Tensor,
        source: Layout,
        target_M: Tensor,
        target: Layout,
        drawing: Drawing | None = None,
    ) -> Tensor:
        """Logits [M, V] given positions: in training drawn by `drawing`, where it is given, and else the likeliest."""
        draw = partial(self.draw, drawing=drawing) if self.training and drawing is not None else None
        return self.output(self.dropout(self._decode(source_N, source, target_M, target, draw)[0]))

    def drawing(self, noise: Noise | None = None) -> Drawing:
        """What one training forward needs, and its `extra_loss` after it."""
        return Drawing(noise)

    def extra_loss(self, token_losses_M: Tensor, target: Layout, drawing: Drawing) -> Tensor:
        """What to add to the sum of the tokens' losses of the forward that drew: Σ_t (ℓ_t − b) log α_t(a_t) − λ H(α_t).

        Its value is 0, so that the reported loss is the words'; its gradient is the formula's. Moves b in training.
        """
        if drawing.weights_BTS is None or drawing.chosen_BT is None:
            return token_losses_M.new_zeros(())
        weights_MS = target.unpad(drawing.weights_BTS).clamp(min=torch.finfo(drawing.weights_BTS.dtype).tiny)
        term = token_losses_M.new_zeros(())
        if self.reinforces:
            chosen_M = target.unpad(drawing.chosen_BT)
            log_M = weights_MS.gather(1, chosen_M[:, None])[:, 0].log()
            losses_M = token_losses_M.detach().to(log_M.dtype)
            term = ((losses_M - self.baseline) * log_M).sum()
            self.baseline.lerp_(_mean(losses_M).to(self.baseline.dtype), 1 - self.baseline_decay)
        if self.entropy:
            term = term + self.entropy * (weights_MS * weights_MS.log()).sum()
        return term - term.detach()


def _mean(losses_M: Tensor) -> Tensor:
    """Over the tokens of all processes."""
    if not (dist.is_available() and dist.is_initialized()):
        return losses_M.mean()
    both = torch.stack([losses_M.sum(), losses_M.new_tensor(len(losses_M))])
    dist.all_reduce(both)
    return both[0] / both[1]


def _one_hot(place_BQ: Tensor, like_BQS: Tensor) -> Tensor:
    return torch.zeros_like(like_BQS).scatter_(-1, place_BQ[..., None], 1.0)
