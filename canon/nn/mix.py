"""One vector of a token from those of all layers, by weights that are learned.

Peters et al. 2018, Deep contextualized word representations (arXiv:1802.05365), eq. 1: γ Σ_j s_j h_j, s = softmax(w).
All w begin at 0 and γ at 1, so that the first mix is the mean. The paper's λ‖w‖² is weight decay of `weights` (give its
parameters a group of their own); with `norm`, layers are normalised first, as the paper says it sometimes helps: over
the features of each token.
Deviations: the published code takes means and variances of `norm` over a whole sentence.
Shapes: J layers, N tokens, D features.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ScalarMix(nn.Module):
    def __init__(self, num_layers: int, norm: bool = False) -> None:
        super().__init__()
        self.norm = norm
        self.weights = nn.Parameter(torch.zeros(num_layers))  # w
        self.scale = nn.Parameter(torch.ones(()))  # γ

    @property
    def shares(self) -> Tensor:
        """[J] s: how much of each layer is in the mix."""
        return self.weights.softmax(0)

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """J tensors [N, D] to one."""
        assert len(layers) == len(self.weights), f"{len(layers)} layers for {len(self.weights)} weights"
        if self.norm:
            layers = [F.layer_norm(layer, layer.shape[-1:]) for layer in layers]
        factors = (self.scale * self.shares).unbind()
        total = factors[0] * layers[0]
        for factor, layer in zip(factors[1:], layers[1:], strict=True):
            total = total + factor * layer
        return total
