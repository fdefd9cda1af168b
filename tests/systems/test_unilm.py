"""UniLM as a system: its three masks by hand, what they are equal to at their ends, and learning under each."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import canon
from canon.nn.counting import count_parameters
from canon.nn.ragged import Layout
from tests.systems.pretrained_checks import assert_equals_by_hand, batch, build, logits_of, losses_of_training


def test_published_sizes() -> None:
    """BERT's, and four more rows of segments."""
    with torch.device("meta"):
        sizes = {preset: count_parameters(canon.create(f"unilm:{preset}")) for preset in ("base", "large")}
    assert sizes == {"base": 110_106_428 + 4 * 768, "large": 336_226_108 + 4 * 1024}


def seen_by(length: int, prefix: int) -> Tensor:
    """Figure 1 of the paper by two loops: the prefix sees itself, the rest sees it and what is before itself."""
    seen = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(length):
            seen[i, j] = j < prefix if i < prefix else j <= i
    return seen


@pytest.mark.parametrize("prefix", [(0, 0, 0), (2, 1, 4), (5, 1, 9), (5, 0, 3)], ids=str)
def test_masks_by_hand(prefix: tuple[int, ...]) -> None:
    """Left to right, one text after another, both ways, and all three in one batch."""
    network = build("unilm")
    token_N, layout = batch(5, 1, 9)
    with torch.no_grad():
        result = logits_of(network, token_N, layout, prefix_lengths=torch.tensor(prefix))
    assert_equals_by_hand(network, result, token_N, layout, lambda b, n: [seen_by(n, prefix[b])] * 3)


def test_without_a_prefix_given_everything_is_seen() -> None:
    """None is every sequence's whole length; so it is for the layers that fine-tuning uses."""
    network = build("unilm")
    token_N, layout = batch(5, 1, 9)
    whole = network(token_N, layout, prefix_lengths=torch.tensor([5, 1, 9]))
    plain = network(token_N, layout)
    torch.testing.assert_close(plain["hidden"], whole["hidden"])
    torch.testing.assert_close(plain["next"], whole["next"])
    states = network.encode(token_N, layout)
    torch.testing.assert_close(states[-1], plain["hidden"])


def test_both_ways_it_is_bert() -> None:
    """The same weights (segments 0 and 1 of six) in BERT give the same numbers."""
    network, bert = build("unilm"), build("bert")
    state = network.state_dict()
    state["embedding.segment.weight"] = state["embedding.segment.weight"][:2]
    bert.load_state_dict(state)
    token_N, layout = batch(5, 3)
    segment_N = torch.tensor([0, 0, 1, 1, 1, 0, 1, 1])
    mine, other = network(token_N, layout, segment_N=segment_N), bert(token_N, layout, segment_N=segment_N)
    for name in ("hidden", "next"):
        torch.testing.assert_close(mine[name], other[name])


def test_what_is_behind_the_prefix_is_not_seen_by_it() -> None:
    """Gradients: nothing flows from the second text to a place of the first, or back in time."""
    network = build("unilm")
    token_N, layout = torch.arange(7), Layout(torch.tensor([7]))
    weight = network.embedding.token.weight
    for place, reach in ((0, 4), (3, 4), (4, 5), (5, 6), (6, 7)):
        hidden = network.layers(
            network.embedding(token_N, layout), Layout(layout.lengths, prefix=torch.tensor([4])), causal=True
        )
        slope = torch.autograd.grad(hidden[place].square().sum(), weight)[0].abs().sum(1)
        assert (slope[:reach] > 0).all() and (slope[reach:] == 0).all(), place


def test_learning() -> None:
    """Hidden tokens of texts of one token: from guessing (log 23 = 3.14) to below 2.6 in 60 steps."""
    losses = losses_of_training("unilm", masked=True)
    assert losses[0] == pytest.approx(3.13, abs=0.2) and sum(losses[-5:]) / 5 < 2.6
