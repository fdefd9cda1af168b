"""BERT as a system: published sizes, a network by hand, sequences that do not touch, heads, limits, and learning.

Beside transformers' own: tests/interop/test_huggingface_parity.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import canon
from canon.errors import CanonError
from canon.nn.counting import count_parameters
from canon.nn.ragged import Layout
from tests.systems.pretrained_checks import (
    SMALL,
    assert_equals_by_hand,
    batch,
    build,
    logits_of,
    losses_of,
    losses_of_training,
)


@pytest.mark.parametrize(
    ("preset", "exact", "published"),
    [
        ("base", 110_106_428, 110e6),
        ("large", 336_226_108, 340e6),
        ("tiny", 4_433_468, 4.4e6),
        ("small", 29_058_876, 29e6),
    ],
)
def test_published_sizes(preset: str, exact: int, published: float) -> None:
    """Section 3 of the paper (base, large) and the authors' later small ones, all heads of pre-training counted."""
    with torch.device("meta"):
        result = count_parameters(canon.create(f"bert:{preset}"))
    assert result == exact == pytest.approx(published, rel=0.02)


def test_a_network_by_hand() -> None:
    """Logits of texts of unequal length against head by head, query by query, all of a text seen."""
    network = build("bert")
    token_N, layout = batch(5, 1, 9)
    with torch.no_grad():
        result = logits_of(network, token_N, layout)
    assert_equals_by_hand(network, result, token_N, layout, lambda b, n: [torch.ones(n, n, dtype=torch.bool)] * 3)


def test_sequences_do_not_touch() -> None:
    """A text alone has the logits that it has among others, and nothing of theirs in its gradient."""
    network = build("bert")
    token_N, layout = batch(5, 3, 9)
    weight = network.embedding.token.weight
    among = network(token_N, layout)
    alone = network(token_N[5:8], Layout(torch.tensor([3])))
    torch.testing.assert_close(network.logits(among["hidden"])[5:8], network.logits(alone["hidden"]))
    torch.testing.assert_close(among["next"][1], alone["next"][0])
    others = torch.autograd.grad(among["next"][1].sum(), weight)[0]
    absent = sorted(set(range(23)) - set(token_N[5:8].tolist()))
    assert others[absent].abs().sum() == 0 and others.abs().sum() > 0


def test_logits_at_some_places_are_rows_of_all() -> None:
    network = build("bert")
    token_N, layout = batch(5, 3, 9)
    places_M, target_M = torch.tensor([0, 4, 6, 16]), torch.tensor([3, 22, 0, 7])
    everywhere = logits_of(network, token_N, layout)
    some = logits_of(network, token_N, layout, places_M=places_M)
    torch.testing.assert_close(some, everywhere[places_M])
    total, losses_M, right_M = losses_of(network, target_M, token_N, layout, places_M=places_M)
    torch.testing.assert_close(losses_M, torch.nn.functional.cross_entropy(some, target_M, reduction="none"))
    torch.testing.assert_close(total, losses_M.sum())
    assert torch.equal(right_M, some.argmax(1) == target_M)


def test_segments() -> None:
    """None is all zeros; another segment changes what is predicted."""
    network = build("bert")
    token_N, layout = batch(5, 3)
    plain = logits_of(network, token_N, layout)
    zeros = torch.zeros_like(token_N)
    torch.testing.assert_close(logits_of(network, token_N, layout, segment_N=zeros), plain)
    assert not torch.allclose(logits_of(network, token_N, layout, segment_N=zeros + 1), plain)


def test_layers_and_pooling() -> None:
    """encode gives the embeddings and each layer, pool is tanh of a dense layer of the first tokens."""
    network = build("bert")
    token_N, layout = batch(5, 3)
    states = network.encode(token_N, layout)
    assert len(states) == SMALL["num_layers"] + 1 and all(state.shape == (8, 12) for state in states)
    torch.testing.assert_close(states[0], network.embedding(token_N, layout))
    first = states[-1][torch.tensor([0, 5])]
    wanted = torch.tanh(first @ network.pooler.weight.T + network.pooler.bias)
    torch.testing.assert_close(network.pool(states[-1], layout), wanted)
    torch.testing.assert_close(network(token_N, layout)["next"], network.next(wanted))
    assert "next" not in build("bert", next_sentence=False)(token_N, layout)


def test_attention_weights_are_those_of_the_network() -> None:
    """Each row sums to one over the text's own tokens; the names are those that canon inspect shows."""
    network = build("bert")
    token_N, layout = batch(5, 3)
    record = network.attention(token_N, layout)
    assert list(record) == ["encoder/0", "encoder/1", "encoder/2"]
    for shares in record.values():
        assert shares.shape == (2, 3, 5, 5)
        torch.testing.assert_close(shares[0].sum(-1), torch.ones(3, 5, dtype=torch.float64))
        torch.testing.assert_close(shares[1, :, :3].sum(-1), torch.ones(3, 3, dtype=torch.float64))
        assert shares[1, :, :, 3:].abs().sum() == 0


def test_a_text_longer_than_its_positions_is_refused() -> None:
    network = build("bert")
    token_N, layout = batch(4, 17)
    with pytest.raises(CanonError, match="A sequence has 17 tokens, the network has 16 positions"):
        network(token_N, layout)


def test_first_weights() -> None:
    """N(0, 0.02²), biases 0, norms 1, as in section A.2 and the authors' code."""
    torch.manual_seed(0)
    network = canon.create("bert:tiny", vocab_size=500)
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            assert parameter.abs().sum() == 0, name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        elif parameter.numel() > 1000:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05), name


@pytest.mark.parametrize("changes", [{}, {"next_sentence": False}], ids=str)
def test_learning(changes: dict[str, Any]) -> None:
    """Hidden tokens of texts of one token: from guessing (log 23 = 3.14) to below 2.6 in 60 steps."""
    losses = losses_of_training("bert", masked=True, **changes)
    assert losses[0] == pytest.approx(3.13, abs=0.2) and sum(losses[-5:]) / 5 < 2.6
