"""Luong's local attention: each decoder state looks at a window of 2 D + 1 source positions around a centre.

Luong, Pham and Manning 2015, Effective approaches to attention-based neural machine translation (arXiv:1508.04025),
section 3.2; all but the weights is canon/systems/sequence/luong.py. In `LocalAttention.centres` and `.align`:
local-m (monotonic) p_t = t; local-p (predictive) p_t = S σ(v·tanh(W h_t)), equation 9, and with α the softmax over the
window [p_t − D, p_t + D], weights α_ts exp(−(s − p_t)² / (2 σ²)) with σ = D / 2, equation 10, not normalised again.
Positions are counted from 0 on both sides.
Deviations: local-m stops at the last source position, p_t = min(t, S − 1), where the paper's window may become empty;
no input feeding; scores of the whole source are computed and those outside the window masked, since at the lengths of
sentences and words that is one product where windows would be gathered one by one.
Shapes: B sequences, Q queries, S the longest source, H hidden units.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from canon.config import settings
from canon.nn.attention.softmax import masked_softmax
from canon.nn.states import POSITION, State
from canon.systems.sequence.luong import Attentive, Luong
from canon.systems.settings import Positive


@settings
class Config(Attentive):
    alignment: Literal["local-m", "local-p"] = Field(
        default="local-p", description="centre of the window: as far as the target (m), or predicted (p)"
    )
    window: Positive = Field(default=10, description="D: positions on either side of the centre")


class LocalAttention(Luong):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.window = config.window
        self.predicts = config.alignment == "local-p"
        if self.predicts:
            self.centre = nn.Linear(config.hidden, config.hidden, bias=False)  # W of the predicted position
            self.centre_vector = nn.Parameter(torch.empty(config.hidden))  # v
            nn.init.xavier_uniform_(self.centre.weight)
            nn.init.xavier_uniform_(self.centre_vector[None])

    def centres(self, hidden_BQH: Tensor, state: State) -> Tensor:
        """p_t [B, Q] of queries that stand at state["position"] and the places after it."""
        length_B1 = state["memory_mask"].sum(1, keepdim=True).to(hidden_BQH.dtype)
        if self.predicts:
            return length_B1 * torch.sigmoid(torch.tanh(self.centre(hidden_BQH)) @ self.centre_vector)
        first = int(state[POSITION])
        place_Q = torch.arange(first, first + hidden_BQH.shape[1], device=hidden_BQH.device, dtype=hidden_BQH.dtype)
        return torch.minimum(place_Q, (length_B1 - 1).clamp(min=0))

    def align(self, hidden_BQH: Tensor, state: State) -> Tensor:
        """Weights [B, Q, S] within the window; of local-p, by the Gaussian too."""
        scores_BQS = self.score.compare(hidden_BQH, state["memory_keys"])
        place_S = torch.arange(scores_BQS.shape[-1], device=scores_BQS.device, dtype=scores_BQS.dtype)
        offset_BQS = place_S - self.centres(hidden_BQH, state)[..., None]
        inside_BQS = (offset_BQS.abs() <= self.window) & state["memory_mask"][:, None]
        weights_BQS = masked_softmax(scores_BQS, inside_BQS)
        if not self.predicts:
            return weights_BQS
        return weights_BQS * torch.exp(-2 * (offset_BQS / self.window).square())  # σ = D/2: 1/(2σ²) = 2/D²
