"""Hard attention: the mean of many gradient estimates against all positions enumerated, and its contract."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.systems.sequence import hard_attention
from canon.systems.sequence.hard_attention import Drawing, HardAttention
from tests.systems.recurrent_pairs import (
    Batch,
    assert_alignment,
    assert_steps_equal_forward,
    learn_to_turn_around,
    made,
    share_turned_around,
    some_batch,
)

BATCH = some_batch((3, 4), (2, 3))
LABELS = torch.tensor([5, 3, 7, 6, 3])


def losses_of(network: HardAttention, batch: Batch, drawing: Drawing | None = None) -> Tensor:
    return F.cross_entropy(network(*batch, drawing), LABELS, reduction="none")


def extra_of(network: HardAttention) -> Tensor:
    drawing = network.drawing()
    return network.extra_loss(losses_of(network, BATCH, drawing), BATCH[3], drawing)


def losses_by_position(network: HardAttention) -> tuple[Tensor, Tensor]:
    """Weights [M, S] of positions and the loss [M, S] of each word if that position is read."""
    source_N, source, target_M, target = BATCH
    state = network.init_state(network.encode(source_N, source), 3)
    hidden_BTH, _ = network.decoder(target.pad(network.target_embedding(target_M)), state)
    weights_MS = target.unpad(network.align(hidden_BTH, state))
    columns = []
    for position in range(source.max_length):
        context_BTH = state["memory_values"][:, position][:, None]
        own_BTH = F.linear(hidden_BTH, network.combine.weight[:, network.hidden :])
        logits_MV = network.output(target.unpad(torch.tanh(context_BTH + own_BTH)))
        columns.append(F.cross_entropy(logits_MV, LABELS, reduction="none"))
    return weights_MS, torch.stack(columns, dim=1)


def repeated(batch: Batch, times: int) -> Batch:
    """The same pairs many times over: as many draws in one forward."""
    source_N, source, target_M, target = batch
    layouts = [type(source)(layout.lengths.repeat(times)) for layout in (source, target)]
    return source_N.repeat(times), layouts[0], target_M.repeat(times), layouts[1]


@pytest.mark.parametrize("baseline", [0.0, 2.0], ids=["without", "with"])
def test_mean_estimate_is_the_gradient_of_the_expected_loss(baseline: float) -> None:
    """E[Σ ℓ] by enumeration, against the mean of 4000 estimates; each parameter within 5 standard errors."""
    network = made(hard_attention, "HardAttention", kind="gru").double().train()
    weights_MS, losses_MS = losses_by_position(network)
    names, parameters = zip(*network.named_parameters(), strict=True)
    exact = torch.autograd.grad((weights_MS * losses_MS).sum(), parameters)
    chunk, chunks = 100, 40
    torch.manual_seed(1)
    samples: list[list[Tensor]] = [[] for _ in parameters]
    for _ in range(chunks):
        network.baseline.fill_(baseline)
        batch, drawing = repeated(BATCH, chunk), network.drawing()
        token_losses_M = F.cross_entropy(network(*batch, drawing), LABELS.repeat(chunk), reduction="none")
        loss = token_losses_M.sum() + network.extra_loss(token_losses_M, batch[3], drawing)
        assert loss.item() == pytest.approx(token_losses_M.sum().item())
        for actual, gradient in zip(samples, torch.autograd.grad(loss / chunk, parameters), strict=True):
            actual.append(gradient)
    outside, total = 0, 0
    for name, actual, wanted in zip(names, samples, exact, strict=True):
        stacked = torch.stack(actual)
        error = stacked.std(0) / math.sqrt(chunks)
        distance = (stacked.mean(0) - wanted).abs()
        assert (distance <= 5 * error + 1e-9).all(), name
        outside, total = outside + int((distance > 2 * error + 1e-9).sum()), total + distance.numel()
    assert outside / total < 0.15  # of means over 40 chunks, about 5 % lie more than 2 standard errors off


def test_the_words_loss_alone_is_biased_and_a_baseline_calms() -> None:
    """Without `extra_loss` the score function gets no gradient; with b near the mean loss it varies less."""
    network = made(hard_attention, "HardAttention", kind="gru").double().train()
    token_losses_M = losses_of(network, BATCH, network.drawing())
    (alone,) = torch.autograd.grad(token_losses_M.sum(), [network.score.key.weight], allow_unused=True)
    assert alone is None or not alone.any()
    spread = {}
    for baseline in (0.0, 2.5, 20.0):
        torch.manual_seed(0)
        values = []
        for _ in range(60):
            network.baseline.fill_(baseline)
            values.append(torch.autograd.grad(extra_of(network), [network.score.key.weight])[0])
        spread[baseline] = torch.stack(values).var(0).sum().item()
    assert spread[2.5] < spread[0.0] < spread[20.0]


def test_straight_through() -> None:
    """The drawn position is read forward; backward is that of reading the mean by α where the rest is linear."""
    network = made(hard_attention, "HardAttention", estimator="straight-through").double().train()
    weights_BQS = torch.rand(2, 3, 4, dtype=torch.float64).softmax(-1).requires_grad_()
    values_BSH = torch.randn(2, 4, 5, dtype=torch.float64)
    drawn_BQS = network.draw(weights_BQS, Drawing())
    torch.testing.assert_close(drawn_BQS.detach().sort(-1).values, torch.eye(4).double()[3].expand(2, 3, 4))
    (actual,) = torch.autograd.grad((drawn_BQS @ values_BSH).sum(), weights_BQS)
    (wanted,) = torch.autograd.grad((weights_BQS @ values_BSH).sum(), weights_BQS)
    torch.testing.assert_close(actual, wanted)
    drawing = network.drawing()
    token_losses_M = losses_of(network, BATCH, drawing)
    assert network.extra_loss(token_losses_M, BATCH[3], drawing).item() == 0
    token_losses_M.sum().backward()
    assert network.score.key.weight.grad.any()


def test_draws_by_weight() -> None:
    """Over 20,000 draws each position's share is its weight, and one that is hidden is never drawn."""
    network = made(hard_attention, "HardAttention").train()
    torch.manual_seed(0)
    weights = torch.tensor([0.5, 0.0, 0.2, 0.3])
    shares = network.draw(weights.expand(1, 20_000, 4), Drawing()).mean((0, 1))
    torch.testing.assert_close(shares, weights, atol=0.012, rtol=0)
    assert shares[1] == 0


def test_entropy_is_rewarded() -> None:
    """The entropy term's gradient is −λ ∇Σ H(α), H by its definition."""
    options = {"kind": "gru", "estimator": "straight-through", "entropy": 0.7}
    network = made(hard_attention, "HardAttention", **options).double().train()
    weight = network.score.key.weight
    (actual,) = torch.autograd.grad(extra_of(network), [weight])
    weights_MS, _ = losses_by_position(network)
    positive = weights_MS[weights_MS > 0]
    (wanted,) = torch.autograd.grad(0.7 * (positive * positive.log()).sum(), [weight])
    torch.testing.assert_close(actual, wanted)


def test_baseline_is_a_running_mean_in_training_only() -> None:
    network = made(hard_attention, "HardAttention", baseline_decay=0.75).train()
    assert network.baseline.item() == pytest.approx(math.log(11))
    assert "baseline" in network.state_dict()
    drawing = network.drawing()
    token_losses_M = losses_of(network, BATCH, drawing)
    network.extra_loss(token_losses_M, BATCH[3], drawing)
    wanted = 0.75 * math.log(11) + 0.25 * token_losses_M.mean().item()
    assert network.baseline.item() == pytest.approx(wanted)
    network.eval()
    assert extra_of(network).item() == 0
    assert network.baseline.item() == pytest.approx(wanted)


def test_evaluation_reads_the_likeliest_position() -> None:
    """Decoding equals teacher forcing, and both the loss of the position with the largest weight."""
    network = made(hard_attention, "HardAttention", num_layers=2, dropout=0.3)
    assert_steps_equal_forward(network, some_batch())
    weights_BTS = assert_alignment(network, BATCH)
    torch.testing.assert_close(weights_BTS.sum(-1), BATCH[3].mask.float())  # what it would draw by
    weights_MS, losses_MS = losses_by_position(network)
    wanted_M = losses_MS.gather(1, weights_MS.argmax(1, keepdim=True))[:, 0]
    torch.testing.assert_close(losses_of(network, BATCH), wanted_M)


def test_a_seed_decides_the_draws() -> None:
    network = made(hard_attention, "HardAttention").train()
    batch = some_batch()
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(network(*batch, network.drawing()))
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("estimator", ["reinforce", "straight-through"])
def test_learns_to_turn_words_around(estimator: str) -> None:
    torch.manual_seed(0)
    sizes = {"source_vocab": 9, "target_vocab": 11, "dim": 16, "hidden": 24}
    network = HardAttention(hard_attention.Config(**sizes, estimator=estimator))
    losses = learn_to_turn_around(network, num_steps=150)
    assert losses[0] == pytest.approx(2.398, abs=0.1)  # log 11: all words equally likely
    assert losses[-1] < 0.5
    assert share_turned_around(network, beam=1) > 0.9 and share_turned_around(network, beam=3) > 0.9
