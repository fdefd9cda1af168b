"""RNNsearch: the paper's step equations written out, decoding against teacher forcing, a short training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from canon.systems.sequence import bahdanau
from canon.systems.sequence.bahdanau import Bahdanau
from tests.systems.recurrent_pairs import (
    Batch,
    assert_alignment,
    assert_same_gradients,
    assert_steps_equal_forward,
    each_alone,
    gru,
    learn_to_turn_around,
    made,
    share_turned_around,
    some_batch,
)


def backward_layer(weights: dict[str, Tensor], xs: list[Tensor]) -> list[Tensor]:
    reverse = {name.replace("_reverse", ""): tensor for name, tensor in weights.items() if name.endswith("_reverse")}
    h, out = torch.zeros(6, dtype=torch.float64), []
    for x in reversed(xs):
        h = gru("encoder", reverse, x, h)
        out.append(h)
    return out[::-1]


def by_hand(network: Bahdanau, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """Logits of all tokens and α of each pair: appendix A, one pair, one token, one source position at a time."""
    weights = dict(network.named_parameters())
    W_a, U_a, v = (weights[f"score.{name}"] for name in ("query.weight", "key.weight", "vector"))
    logits, alignments = [], []
    for source_S, _, target_T, _ in each_alone(batch):
        xs = [weights["source_embedding.weight"][word] for word in source_S]
        h, forward = torch.zeros(6, dtype=torch.float64), []
        for x in xs:
            h = gru("encoder", weights, x, h)
            forward.append(h)
        backward = backward_layer(weights, xs)
        annotations = [torch.cat(pair) for pair in zip(forward, backward, strict=True)]
        s = torch.tanh(weights["bridge.weight"] @ backward[0] + weights["bridge.bias"])
        rows = []
        for word in target_T:
            y = weights["target_embedding.weight"][word]
            e = torch.stack([v @ torch.tanh(W_a @ s + U_a @ h_j) for h_j in annotations])
            alpha = e.exp() / e.exp().sum()
            c = sum(alpha[j] * h_j for j, h_j in enumerate(annotations))
            s = gru("decoder", weights, torch.cat([y, c]), s)
            t = torch.tanh(weights["readout.weight"] @ torch.cat([s, y, c]) + weights["readout.bias"])
            logits.append(weights["output.weight"] @ t + weights["output.bias"])
            rows.append(alpha)
        alignments.append(torch.stack(rows))
    return torch.stack(logits), alignments


@pytest.mark.parametrize("source", [(4, 7, 1, 5), (3, 3, 3, 3)], ids=["unequal", "equal"])
def test_logits_gradients_and_alignment_by_the_equations(source: tuple[int, ...]) -> None:
    network = made(bahdanau, "Bahdanau", align=7).double()
    batch = some_batch(source)
    theirs_MV, alignments = by_hand(network, batch)
    assert_same_gradients(network, network(*batch), theirs_MV)
    weights_BTS = assert_alignment(network, batch)
    for row_TS, wanted_TS in zip(weights_BTS, alignments, strict=True):
        torch.testing.assert_close(row_TS[: wanted_TS.shape[0], : wanted_TS.shape[1]], wanted_TS)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_steps_equal_forward(num_layers: int) -> None:
    network = made(bahdanau, "Bahdanau", num_layers=num_layers, dropout=0.3)
    assert_steps_equal_forward(network, some_batch())
    assert_steps_equal_forward(network, some_batch((3, 3), (4, 4)))


def test_tied_weights_have_the_size_of_the_readout() -> None:
    network = made(bahdanau, "Bahdanau", source_vocab=11, shared_vocab=True, tie=True)
    assert network.source_embedding.weight is network.target_embedding.weight is network.output.weight
    assert_steps_equal_forward(network, some_batch())


def test_reordered_states_go_on_as_their_rows() -> None:
    network = made(bahdanau, "Bahdanau").eval()
    source_N, source, _, _ = some_batch()
    state = network.init_state(network.encode(source_N, source), 8)
    _, state = network.step(torch.tensor([2, 2, 2, 2]), state)
    rows = torch.tensor([3, 1, 1])
    whole_BV, _ = network.step(torch.tensor([4, 5, 6, 7]), state)
    some_BV, _ = network.step(torch.tensor([7, 5, 5]), {name: tensor[rows] for name, tensor in state.items()})
    torch.testing.assert_close(some_BV, whole_BV[rows])


def test_autocast_changes_only_the_output_layer() -> None:
    """Under bfloat16 the alignment is float32's to the last bit; the logits are near, and training goes through."""
    network = made(bahdanau, "Bahdanau")
    batch = some_batch()
    plain = network.attention(*batch)["alignment"]
    with torch.autocast("cpu", torch.bfloat16):
        cast = network.attention(*batch)["alignment"]
        logits_MV = network(*batch)
        stepped = network.step(torch.tensor([2] * 4), network.init_state(network.encode(*batch[:2]), 4))[0]
    assert torch.equal(plain, cast)
    torch.testing.assert_close(logits_MV.float(), network(*batch), atol=0.05, rtol=0.05)
    assert stepped.dtype == logits_MV.dtype == torch.bfloat16
    logits_MV.float().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


def test_learns_to_turn_words_around_and_where_to_look() -> None:
    torch.manual_seed(0)
    network = Bahdanau(bahdanau.Config(source_vocab=9, target_vocab=11, dim=16, hidden=24, align=16))
    losses = learn_to_turn_around(network, num_steps=60)
    assert losses[0] == pytest.approx(2.398, abs=0.3)  # log 11: all words equally likely
    assert losses[-1] < 0.3
    assert share_turned_around(network, beam=1) > 0.9 and share_turned_around(network, beam=3) > 0.9
