"""GPT-3's network: published sizes, banded layers against masked dense ones by hand, and learning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import canon
from canon.nn.counting import count_parameters
from tests.systems.pretrained_checks import (
    assert_equals_by_hand,
    batch,
    build,
    logits_of,
    losses_of,
    losses_of_training,
)

PUBLISHED = {  # table 2.1
    "small": 125e6,
    "350m": 350e6,
    "760m": 760e6,
    "1.3b": 1.3e9,
    "2.7b": 2.7e9,
    "6.7b": 6.7e9,
    "13b": 13e9,
    "175b": 175e9,
}


@pytest.mark.parametrize("preset", PUBLISHED)
def test_published_sizes(preset: str) -> None:
    with torch.device("meta"):
        result = count_parameters(canon.create(f"gpt3:{preset}"))
    assert result == pytest.approx(PUBLISHED[preset], rel=0.02)


def past(length: int, window: int = 0) -> Tensor:
    """[q, k] j ≤ i, and less than `window` away where there is one: by two loops."""
    seen = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(i + 1):
            seen[i, j] = not window or i - j < window
    return seen


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"window": 3}, (0, 3, 0)),
        ({"window": 1, "sparse": "banded"}, (1, 1, 1)),
        ({"window": 4, "sparse": "banded"}, (4, 4, 4)),
        ({"window": 50}, (0, 50, 0)),
        ({"sparse": "none"}, (0, 0, 0)),
    ],
    ids=str,
)
def test_a_band_is_a_mask(changes: dict[str, Any], windows: tuple[int, ...]) -> None:
    """Logits against head by head, query by query, with each layer's mask; the first layer of two is dense."""
    network = build("gpt3", **changes)
    token_N, layout = batch(5, 1, 16)
    with torch.no_grad():
        result = logits_of(network, token_N, layout)
    assert_equals_by_hand(network, result, token_N, layout, lambda b, n: [past(n, window) for window in windows])


def test_gradients_through_a_band() -> None:
    """Of all weights, against the same network whose layers are dense with a mask (the band's bias on all scores)."""
    network = build("gpt3", window=3, num_layers=2)
    token_N, layout = batch(9)
    target_M = torch.randint(23, (9,))
    places_M = torch.arange(9)
    losses_of(network, target_M, token_N, layout, places_M=places_M).total.backward()
    mine = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}
    network.zero_grad()
    hidden = network.embedding(token_N, layout)
    for block, window in zip(network.layers.blocks, (0, 3), strict=True):
        asked = block.attention_norm(hidden)
        query, key, value = (
            part.unflatten(1, (3, 4)).transpose(0, 1) for part in block.attention.qkv(asked).chunk(3, 1)
        )
        scores = (query @ key.transpose(1, 2) / 2).masked_fill(~past(9, window), -torch.inf)
        hidden = hidden + block.attention.output((scores.softmax(-1) @ value).transpose(0, 1).flatten(1))
        hidden = hidden + block.feed_forward(block.feed_forward_norm(hidden))
    logits = network.layers.norm(hidden) @ network.embedding.token.weight.T
    torch.nn.functional.cross_entropy(logits, target_M, reduction="sum").backward()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(mine[name], parameter.grad, rtol=1e-8, atol=1e-9, msg=name)


def test_learning() -> None:
    """The next token of texts that count up, with a band of 2: from guessing (log 23 = 3.14) to below 1 in 60 steps."""
    losses = losses_of_training("gpt3", masked=False, window=2)
    assert losses[0] == pytest.approx(3.13, abs=0.2) and sum(losses[-5:]) / 5 < 1.0
