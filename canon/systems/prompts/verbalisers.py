"""Verbalisers: what the hidden states of a prompt's slots say about the classes.

Schick and Schütze 2021 (arXiv:2001.07676): s(v) = 1/m Σ_j log p(v_j given the prompt), v the m tokens of a label word →
`WordVerbaliser.word_scores`. Of several words of a class: log mean e^s; "sum" is log Σ e^s (Shin et al. 2020,
arXiv:2010.15980, equation 1); "mean-log" is the mean of s (Ding et al. 2021, OpenPrompt) → `of_classes`. The classes'
probabilities are the softmax over their scores. `SoftVerbaliser`: w_y · g(h), g the output of the network's head for a
state (Hambardzumyan et al. 2021, WARP, arXiv:2101.00121); w_y begins as the mean of its words' output rows.
`HeadVerbaliser`: a new layer on the sequence's own vector, for prefixes (Liu et al. 2022, arXiv:2110.07602).
Deviations: a soft verbaliser of several slots reads the mean of g over them.
Shapes: B examples, S slots, W words, M the most tokens of a word, C classes, D features, V tokens.
"""

# ruff: noqa: N815 (buffers with shape suffixes)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from canon.contracts import TakesPrompts
from canon.data.text.label_words import Ids, Slots

Average = Literal["mean", "sum", "mean-log"]


class WordVerbaliser(nn.Module):
    """No parameters of its own."""

    token_WM: Tensor
    slot_WM: Tensor
    length_W: Tensor
    class_W: Tensor

    def __init__(self, words: Sequence[Sequence[Ids]], slots: Slots, average: Average) -> None:
        super().__init__()
        self.average, self.num_classes = average, len(words)
        flat = [word for of in words for word in of]
        most = max(map(len, flat), default=1)
        rows = {
            "token_WM": [[*word, *[0] * (most - len(word))] for word in flat],
            "slot_WM": [[*read, *[0] * (most - len(read))] for read in slots.read],
            "length_W": [len(word) for word in flat],
            "class_W": [code for code, of in enumerate(words) for _ in of],
        }
        for name, values in rows.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.int64), persistent=False)

    def forward(self, hidden_BSD: Tensor, backbone: TakesPrompts) -> Tensor:
        """[B, C]."""
        logits_XV = backbone.logits(hidden_BSD.flatten(0, 1)).float()
        log_p_BSV = logits_XV.log_softmax(1).unflatten(0, hidden_BSD.shape[:2])
        return self.of_classes(self.word_scores(log_p_BSV))

    def word_scores(self, log_p_BSV: Tensor) -> Tensor:
        """s(v) of each word, [B, W]."""
        log_p_BWM = log_p_BSV[:, self.slot_WM, self.token_WM]
        places_M = torch.arange(self.token_WM.shape[1], device=log_p_BWM.device)
        there_WM = places_M < self.length_W[:, None]
        return log_p_BWM.masked_fill(~there_WM, 0).sum(2) / self.length_W

    def of_classes(self, score_BW: Tensor) -> Tensor:
        """[B, C] from the scores of words."""
        is_of_WC = self.class_W[:, None] == torch.arange(self.num_classes, device=score_BW.device)
        count_C = is_of_WC.sum(0)
        if self.average == "mean-log":
            return score_BW @ is_of_WC.to(score_BW.dtype) / count_C
        sums_BC = score_BW[:, :, None].masked_fill(~is_of_WC, -math.inf).logsumexp(1)
        return sums_BC if self.average == "sum" else sums_BC - count_C.log()


class SoftVerbaliser(nn.Module):
    def __init__(self, words: Sequence[Sequence[Ids]], num_classes: int, dim: int) -> None:
        super().__init__()
        self.words = words
        self.weight = nn.Parameter(torch.zeros(num_classes, dim))

    @torch.no_grad()
    def start(self, output_VD: Tensor) -> None:
        for code, words in enumerate(self.words):
            tokens = torch.tensor([token for word in words for token in word], device=output_VD.device)
            self.weight[code].copy_(output_VD.index_select(0, tokens).mean(0))

    def forward(self, hidden_BSD: Tensor, backbone: TakesPrompts) -> Tensor:
        features_XD = backbone.naming(hidden_BSD.flatten(0, 1))[0]
        mean_BD = features_XD.unflatten(0, hidden_BSD.shape[:2]).mean(1)
        return (mean_BD.to(self.weight.dtype) @ self.weight.T).float()


class HeadVerbaliser(nn.Module):
    """A new layer, on the vector of the sequence."""

    def __init__(self, num_classes: int, dim: int, dropout: float, std: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.layer = nn.Linear(dim, num_classes)
        nn.init.normal_(self.layer.weight, std=std)
        nn.init.zeros_(self.layer.bias)

    def forward(self, pooled_BD: Tensor) -> Tensor:
        return self.layer(self.dropout(pooled_BD)).float()
