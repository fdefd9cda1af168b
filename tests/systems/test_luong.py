"""Luong's attention: the paper's step equations written out, decoding against teacher forcing, a short training."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from canon.systems.sequence import luong
from canon.systems.sequence.luong import Luong
from tests.systems.recurrent_pairs import (
    Batch,
    assert_alignment,
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

SCORES = ["dot", "general", "concat"]
ZERO = torch.zeros(6, dtype=torch.float64)


def score(kind: str, weights: dict[str, Tensor], h: Tensor, h_s: Tensor) -> Tensor:
    if kind == "dot":
        return h @ h_s
    if kind == "general":
        return h @ weights["score.key.weight"] @ h_s
    return weights["score.vector"] @ torch.tanh(weights["score.joint.weight"] @ torch.cat([h, h_s]))


def by_hand(network: Luong, kind: str, layers: int, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """Logits of all tokens and α of each pair: sections 3.1 and 3.3, one token and source position at a time."""
    weights = dict(network.named_parameters())

    def through(prefix: str, x: Tensor, states: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        after = []
        for layer, (h, c) in enumerate(states):
            if kind == "gru":
                after.append((gru(prefix, weights, x, h, layer), c))
            else:
                after.append(lstm(prefix, weights, x, h, c, layer))
            x = after[-1][0]
        return after

    logits, alignments = [], []
    for source_S, _, target_T, _ in each_alone(batch):
        states = [(ZERO, ZERO)] * layers
        annotations = []
        for word in source_S:
            states = through("encoder.recurrence", weights["source_embedding.weight"][word], states)
            annotations.append(states[-1][0])
        fed, rows = ZERO, []
        for word in target_T:
            y = weights["target_embedding.weight"][word]
            states = through("decoder", torch.cat([y, fed]) if network.input_feeding else y, states)
            h = states[-1][0]
            e = torch.stack([score(network.score.kind, weights, h, h_s) for h_s in annotations])
            alpha = e.exp() / e.exp().sum()
            c = sum(alpha[j] * h_s for j, h_s in enumerate(annotations))
            fed = torch.tanh(weights["combine.weight"] @ torch.cat([c, h]))
            logits.append(weights["output.weight"] @ fed + weights["output.bias"])
            rows.append(alpha)
        alignments.append(torch.stack(rows))
    return torch.stack(logits), alignments


@pytest.mark.parametrize("input_feeding", [False, True])
@pytest.mark.parametrize("score_kind", SCORES)
@pytest.mark.parametrize(("kind", "layers"), [("gru", 1), ("lstm", 2)])
def test_logits_gradients_and_alignment_by_the_equations(
    kind: str, layers: int, score_kind: str, input_feeding: bool
) -> None:
    options = {"kind": kind, "num_layers": layers, "score": score_kind, "input_feeding": input_feeding}
    network = made(luong, "Luong", **options).double()
    batch = some_batch()
    theirs_MV, alignments = by_hand(network, kind, layers, batch)
    assert_same_gradients(network, network(*batch), theirs_MV)
    weights_BTS = assert_alignment(network, batch)
    for row_TS, wanted_TS in zip(weights_BTS, alignments, strict=True):
        torch.testing.assert_close(row_TS[: wanted_TS.shape[0], : wanted_TS.shape[1]], wanted_TS)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("input_feeding", [False, True])
@pytest.mark.parametrize("score_kind", SCORES)
def test_steps_equal_forward(score_kind: str, input_feeding: bool, bidirectional: bool) -> None:
    options = {"score": score_kind, "input_feeding": input_feeding, "bidirectional": bidirectional}
    network = made(luong, "Luong", num_layers=2, dropout=0.3, **options)
    assert_steps_equal_forward(network, some_batch())
    assert_steps_equal_forward(network, some_batch((3, 3), (4, 4)))


def test_dropout_only_in_training() -> None:
    for feeding in (False, True):
        network = made(luong, "Luong", dropout=0.5, input_feeding=feeding)
        batch = some_batch()
        assert not torch.equal(network(*batch), network(*batch))


@pytest.mark.parametrize("input_feeding", [False, True])
def test_autocast_changes_only_the_output_layer(input_feeding: bool) -> None:
    network = made(luong, "Luong", input_feeding=input_feeding)
    batch = some_batch()
    plain = network.attention(*batch)["alignment"]
    with torch.autocast("cpu", torch.bfloat16):
        cast = network.attention(*batch)["alignment"]
        logits_MV = network(*batch)
    assert torch.equal(plain, cast)
    assert logits_MV.dtype == torch.bfloat16
    torch.testing.assert_close(logits_MV.float(), network(*batch), atol=0.05, rtol=0.05)


@pytest.mark.parametrize("input_feeding", [False, True])
@pytest.mark.parametrize("score_kind", SCORES)
def test_learns_to_turn_words_around(score_kind: str, input_feeding: bool) -> None:
    torch.manual_seed(0)
    sizes = {"source_vocab": 9, "target_vocab": 11, "dim": 16, "hidden": 24}
    network = Luong(luong.Config(**sizes, score=score_kind, input_feeding=input_feeding))
    losses = learn_to_turn_around(network)
    assert losses[0] == pytest.approx(2.398, abs=0.1)  # log 11: all words equally likely
    assert losses[-1] < 0.3
    assert share_turned_around(network, beam=1) > 0.9 and share_turned_around(network, beam=3) > 0.9
