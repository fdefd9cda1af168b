"""GPT-2 as a system: published sizes, a network by hand, first weights by depth, and learning."""

from __future__ import annotations

import math

import pytest
import torch

import canon
from canon.nn.counting import count_parameters
from tests.systems.pretrained_checks import assert_equals_by_hand, batch, build, logits_of, losses_of_training


@pytest.mark.parametrize(
    ("preset", "exact"),
    [("small", 124_439_808), ("medium", 354_823_168), ("large", 774_030_080), ("xl", 1_557_611_200)],
)
def test_published_sizes(preset: str, exact: int) -> None:
    """The counts of the released checkpoints; the paper's table has 117 M and 345 M for the first two."""
    with torch.device("meta"):
        assert count_parameters(canon.create(f"gpt2:{preset}")) == exact


def test_a_network_by_hand() -> None:
    """Logits against head by head, query by query: norms before each sublayer and after the last block."""
    network = build("gpt2")
    token_N, layout = batch(5, 1, 9)
    with torch.no_grad():
        result = logits_of(network, token_N, layout)
    assert network.norm == "pre"
    seen = [torch.ones(9, 9, dtype=torch.bool).tril()] * 3
    assert_equals_by_hand(network, result, token_N, layout, lambda b, n: [mask[:n, :n] for mask in seen])


def test_first_weights_are_smaller_where_residuals_add_up() -> None:
    """Section 2.3: projections back to the residual stream are divided by √(2 · blocks), the others are not."""
    torch.manual_seed(0)
    network = canon.create("gpt2:tiny", num_layers=8, dim=128, hidden=512, vocab_size=500)
    for block in network.layers.blocks:
        for layer in (block.attention.output, block.feed_forward.outer):
            assert layer.weight.std().item() == pytest.approx(0.02 / math.sqrt(16), rel=0.05)
        for layer in (block.attention.qkv, block.feed_forward.inner):
            assert layer.weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_learning() -> None:
    """The next token of texts that count up: from guessing (log 23 = 3.14) to below 1 in 60 steps."""
    losses = losses_of_training("gpt2", masked=False)
    assert losses[0] == pytest.approx(3.13, abs=0.2) and sum(losses[-5:]) / 5 < 1.0
