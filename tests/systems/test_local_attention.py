"""Local attention against a loop over source positions, decoding against teacher forcing, a short training."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from canon.systems.sequence import local_attention
from canon.systems.sequence.local_attention import LocalAttention
from tests.systems.recurrent_pairs import (
    Batch,
    assert_alignment,
    assert_same_gradients,
    assert_steps_equal_forward,
    each_alone,
    learn_to_turn_around,
    made,
    share_turned_around,
    some_batch,
)

KINDS = ["local-m", "local-p"]
LONG: tuple[tuple[int, ...], tuple[int, ...]] = ((9, 12, 1, 4), (6, 3, 3, 9))  # targets on either side of the source


def weights_by_hand(network: LocalAttention, h: Tensor, annotations_SH: Tensor, t: int) -> Tensor:
    """One query: softmax over the positions in the window one by one, and the Gaussian of each."""
    parameters = dict(network.named_parameters())
    length, D = len(annotations_SH), network.window
    if network.predicts:
        inner = torch.tanh(parameters["centre.weight"] @ h)
        centre = length / (1 + torch.exp(-(parameters["centre_vector"] @ inner)))
    else:
        centre = torch.tensor(float(min(t, length - 1)), dtype=h.dtype)
    inside = [s for s in range(length) if centre - D <= s <= centre + D]
    scores = {s: (h @ parameters["score.key.weight"] @ annotations_SH[s]).exp() for s in inside}
    weights = []
    for s in range(length):
        weight = scores[s] / sum(scores.values()) if s in inside else 0 * h.sum()
        if network.predicts:
            weight = weight * torch.exp(-((s - centre) ** 2) / (2 * (D / 2) ** 2))
        weights.append(weight)
    return torch.stack(weights)


def by_hand(network: LocalAttention, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    logits, alignments = [], []
    for source_S, source, target_T, _ in each_alone(batch):
        annotations_SH, state = network.encoder(network.source_embedding(source_S), source)
        hidden_TH = network.decoder(network.target_embedding(target_T)[None], state)[0][0]
        rows = []
        for t, h in enumerate(hidden_TH):
            weights_S = weights_by_hand(network, h, annotations_SH, t)
            rows.append(weights_S)
            logits.append(network.output(torch.tanh(network.combine(torch.cat([weights_S @ annotations_SH, h])))))
        alignments.append(torch.stack(rows))
    return torch.stack(logits), alignments


@pytest.mark.parametrize("window", [1, 2, 10])
@pytest.mark.parametrize("alignment", KINDS)
def test_logits_gradients_and_alignment_by_brute_force(alignment: str, window: int) -> None:
    network = made(local_attention, "LocalAttention", alignment=alignment, window=window).double()
    batch = some_batch(*LONG)
    theirs_MV, alignments = by_hand(network, batch)
    assert_same_gradients(network, network(*batch), theirs_MV)
    weights_BTS = assert_alignment(network, batch)
    for row_TS, wanted_TS in zip(weights_BTS, alignments, strict=True):
        torch.testing.assert_close(row_TS[: wanted_TS.shape[0], : wanted_TS.shape[1]], wanted_TS)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("alignment", KINDS)
def test_steps_equal_forward(alignment: str, bidirectional: bool) -> None:
    """The position that local-m counts is the state's."""
    options = {"alignment": alignment, "bidirectional": bidirectional}
    network = made(local_attention, "LocalAttention", window=2, num_layers=2, dropout=0.3, **options)
    assert_steps_equal_forward(network, some_batch(*LONG))
    assert_steps_equal_forward(network, some_batch((5, 5), (4, 4)))


def test_windows() -> None:
    """local-m of D = 1 sees t − 1, t and t + 1, and past the end the last two; weights of each sum to one."""
    network = made(local_attention, "LocalAttention", alignment="local-m", window=1)
    weights_TS = assert_alignment(network, some_batch((5,), (8,)))[0]
    seen = [(row > 0).nonzero()[:, 0].tolist() for row in weights_TS]
    assert seen == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [3, 4], [3, 4], [3, 4]]
    torch.testing.assert_close(weights_TS.sum(-1), torch.ones(8))


def test_the_predicted_centre_learns() -> None:
    """The gradient of a weight by the centre is that of the Gaussian alone: the window has none."""
    network = made(local_attention, "LocalAttention", window=3).double()
    source_N, source, _, _ = some_batch((8,), (1,))
    state = network.init_state(network.encode(source_N, source), 1)
    hidden_BQH = torch.randn(1, 1, 6, dtype=torch.float64)
    centre = network.centres(hidden_BQH, state)
    assert 0 < centre.item() < 8
    network.align(hidden_BQH, state)[0, 0, round(centre.item() - 0.5)].backward()
    assert network.centre_vector.grad.any() and network.centre.weight.grad.any()
    with torch.no_grad():
        network.centre_vector.zero_()
        peak = network.align(hidden_BQH, state)[0, 0]
    assert math.isclose(network.centres(hidden_BQH, state).item(), 4.0)  # half of the source
    assert not peak[:1].any() and peak[1:8].all()


@pytest.mark.parametrize("alignment", KINDS)
def test_learns_to_turn_words_around(alignment: str) -> None:
    torch.manual_seed(0)
    sizes = {"source_vocab": 9, "target_vocab": 11, "dim": 16, "hidden": 24, "window": 4}
    network = LocalAttention(local_attention.Config(**sizes, alignment=alignment))
    losses = learn_to_turn_around(network)
    assert losses[0] == pytest.approx(2.398, abs=0.1)  # log 11: all words equally likely
    assert losses[-1] < 0.3
    assert share_turned_around(network, beam=1) > 0.9 and share_turned_around(network, beam=3) > 0.9
