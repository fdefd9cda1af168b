"""RoBERTa as a system: published sizes, a network by hand, one kind of segment, no pooler, and learning."""

from __future__ import annotations

import pytest
import torch

import canon
from canon.nn.counting import count_parameters
from tests.systems.pretrained_checks import assert_equals_by_hand, batch, build, logits_of, losses_of_training


@pytest.mark.parametrize(
    ("preset", "exact", "published"), [("base", 124_695_897, 125e6), ("large", 355_410_009, 355e6)]
)
def test_published_sizes(preset: str, exact: int, published: float) -> None:
    """The checkpoints' 124,697,433 and 355,412,057 less two rows of positions, which stand for padding."""
    with torch.device("meta"):
        network = canon.create(f"roberta:{preset}")
    assert count_parameters(network) == exact == pytest.approx(published, rel=0.005)
    assert exact + 2 * network.dim == {"base": 124_697_433, "large": 355_412_057}[preset]


def test_a_network_by_hand() -> None:
    """Logits against head by head, query by query; the one row of segments is added everywhere."""
    network = build("roberta")
    token_N, layout = batch(5, 1, 9)
    with torch.no_grad():
        result = logits_of(network, token_N, layout)
    assert network.embedding.segment.weight.shape == (1, 12) and not hasattr(network, "pooler")
    assert_equals_by_hand(network, result, token_N, layout, lambda b, n: [torch.ones(n, n, dtype=torch.bool)] * 3)


def test_pooling_is_the_first_token() -> None:
    network = build("roberta")
    token_N, layout = batch(5, 3)
    states = network.encode(token_N, layout)
    assert torch.equal(network.pool(states[-1], layout), states[-1][torch.tensor([0, 5])])
    assert set(network(token_N, layout)) == {"hidden"} and network.framing == "roberta"


def test_learning() -> None:
    """Hidden tokens of texts of one token: from guessing (log 23 = 3.14) to below 2.6 in 60 steps."""
    losses = losses_of_training("roberta", masked=True)
    assert losses[0] == pytest.approx(3.13, abs=0.2) and sum(losses[-5:]) / 5 < 2.6
