"""GPT as a system: its published size, a network by hand, nothing of the future seen, and learning."""

from __future__ import annotations

import pytest
import torch

import canon
from canon.nn.counting import count_parameters
from tests.systems.pretrained_checks import assert_equals_by_hand, batch, build, logits_of, losses_of_training


def past(length: int) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def test_published_size() -> None:
    """The paper's 117 M: 40,478 tokens, 512 positions, 12 blocks of 768."""
    with torch.device("meta"):
        result = count_parameters(canon.create("gpt:base"))
    block = 4 * (768**2 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
    assert result == 116_534_784 == (40_478 + 512) * 768 + 12 * block
    assert result == pytest.approx(117e6, rel=0.005)


def test_a_network_by_hand() -> None:
    """Logits against head by head, query by query, each seeing itself and what is before it."""
    network = build("gpt")
    token_N, layout = batch(5, 1, 9)
    with torch.no_grad():
        result = logits_of(network, token_N, layout)
    assert network.norm == "post" and network.head is None
    assert_equals_by_hand(network, result, token_N, layout, lambda b, n: [past(n)] * 3)


def test_the_future_is_not_seen() -> None:
    """Other tokens from place 3 on change nothing before it, and everything from there on."""
    network = build("gpt")
    token_N, layout = batch(7, 4)
    changed_N = token_N.clone()
    changed_N[3:7] = (token_N[3:7] + 1) % 23
    one, other = logits_of(network, token_N, layout), logits_of(network, changed_N, layout)
    torch.testing.assert_close(one[:3], other[:3])
    torch.testing.assert_close(one[7:], other[7:])
    assert ((one[3:7] - other[3:7]).abs().amax(1) > 1e-3).all()


def test_pooling_is_the_last_token() -> None:
    network = build("gpt")
    token_N, layout = batch(5, 3)
    states = network.encode(token_N, layout)
    assert torch.equal(network.pool(states[-1], layout), states[-1][torch.tensor([4, 7])])


def test_learning() -> None:
    """The next token of texts that count up: from guessing (log 23 = 3.14) to below 1 in 60 steps."""
    losses = losses_of_training("gpt", masked=False)
    assert losses[0] == pytest.approx(3.13, abs=0.2) and sum(losses[-5:]) / 5 < 1.0
