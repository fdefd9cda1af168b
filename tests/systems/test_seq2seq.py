"""Sequence to sequence: the equations written out, decoding against teacher forcing, options, a short training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from canon.errors import CanonError
from canon.systems.sequence import seq2seq
from canon.systems.sequence.seq2seq import Seq2Seq
from tests.systems.recurrent_pairs import (
    assert_same_gradients,
    assert_steps_equal_forward,
    each_alone,
    gru,
    learn_to_turn_around,
    lstm,
    made,
    share_turned_around,
    some_batch,
)


def by_hand(network: Seq2Seq, kind: str, layers: int, batch: tuple) -> Tensor:
    """Each pair by itself, token by token, gate by gate."""
    weights = dict(network.named_parameters())
    logits = []
    for source_S, _, target_T, _ in each_alone(batch):
        h, c = [torch.zeros(6, dtype=torch.float64)] * layers, [torch.zeros(6, dtype=torch.float64)] * layers

        def advance(
            prefix: str, x: Tensor, h: list[Tensor], c: list[Tensor]
        ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
            h, c = list(h), list(c)
            for layer in range(layers):
                if kind == "gru":
                    h[layer] = gru(prefix, weights, x, h[layer], layer)
                else:
                    h[layer], c[layer] = lstm(prefix, weights, x, h[layer], c[layer], layer)
                x = h[layer]
            return x, h, c

        for word in source_S.flip(0) if network.reverse_source else source_S:
            _, h, c = advance("encoder.recurrence", weights["source_embedding.weight"][word], h, c)
        context = h[-1] if network.feed_context else torch.zeros(0, dtype=torch.float64)
        for word in target_T:
            x = torch.cat([weights["target_embedding.weight"][word], context])
            s, h, c = advance("decoder", x, h, c)
            logits.append(weights["output.weight"] @ torch.cat([s, context]) + weights["output.bias"])
    return torch.stack(logits)


@pytest.mark.parametrize("feed_context", [False, True])
@pytest.mark.parametrize("reverse_source", [False, True])
@pytest.mark.parametrize(("kind", "layers"), [("gru", 1), ("lstm", 2)])
def test_logits_and_gradients_by_the_equations(
    kind: str, layers: int, reverse_source: bool, feed_context: bool
) -> None:
    options = {"num_layers": layers, "reverse_source": reverse_source, "feed_context": feed_context}
    network = made(seq2seq, "Seq2Seq", kind=kind, **options).double()
    batch = some_batch()
    assert_same_gradients(network, network(*batch), by_hand(network, kind, layers, batch))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("feed_context", [False, True])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_steps_equal_forward(kind: str, feed_context: bool, bidirectional: bool) -> None:
    network = made(seq2seq, "Seq2Seq", kind=kind, num_layers=2, feed_context=feed_context, bidirectional=bidirectional)
    assert_steps_equal_forward(network, some_batch())
    assert_steps_equal_forward(network, some_batch((3, 3), (4, 4)))


def test_both_directions_see_the_whole_source() -> None:
    """The first and the last source token both change the state that the decoder begins with, in either half."""
    network = made(seq2seq, "Seq2Seq", kind="gru", bidirectional=True)
    source_N, source, _, _ = some_batch((5,), (1,))
    plain = network.encode(source_N, source)["hidden"]
    for place in (0, 4):
        other_N = source_N.clone()
        other_N[place] = 4 + (source_N[place] - 3) % 5
        changed = network.encode(other_N, source)["hidden"] != plain
        assert changed[..., :3].any() and changed[..., 3:].any()


def test_one_table_for_shared_words() -> None:
    network = made(seq2seq, "Seq2Seq", dim=6, source_vocab=11, shared_vocab=True, tie=True)
    assert network.source_embedding.weight is network.target_embedding.weight is network.output.weight
    apart = made(seq2seq, "Seq2Seq", dim=6, source_vocab=11, tie=True)
    assert apart.source_embedding.weight is not apart.target_embedding.weight is apart.output.weight
    with pytest.raises(CanonError, match=r"system\.tie needs system\.dim = 6, the features before .*; got 5"):
        made(seq2seq, "Seq2Seq", tie=True)
    with pytest.raises(CanonError, match=r"system\.hidden must be even"):
        made(seq2seq, "Seq2Seq", hidden=7, bidirectional=True)


def test_dropout_only_in_training() -> None:
    network = made(seq2seq, "Seq2Seq", num_layers=2, dropout=0.5)
    batch = some_batch()
    assert not torch.equal(network(*batch), network(*batch))
    assert_steps_equal_forward(network, batch)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_learns_to_turn_words_around(kind: str) -> None:
    torch.manual_seed(0)
    network = Seq2Seq(seq2seq.Config(source_vocab=9, target_vocab=11, dim=16, hidden=32, kind=kind))
    losses = learn_to_turn_around(network, num_steps=120)
    assert losses[0] == pytest.approx(2.398, abs=0.1)  # log 11: all words equally likely
    assert losses[-1] < 0.6
    assert share_turned_around(network, beam=1) > 0.9 and share_turned_around(network, beam=3) > 0.9
