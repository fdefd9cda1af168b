"""Batches of unequal lengths and checks that all recurrent encoder–decoders share."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.data.text.vocabularies import BOS, EOS
from canon.nn.decoding import translate
from canon.nn.ragged import Layout

Batch = tuple[Tensor, Layout, Tensor, Layout]
SOURCE, TARGET = 9, 11  # words of the vocabularies


def made(module: Any, name: str, seed: int = 0, **changes: object) -> Any:
    """A small network of `module`, with weights large enough that every part shows."""
    torch.manual_seed(seed)
    sizes = {"source_vocab": SOURCE, "target_vocab": TARGET, "dim": 5, "hidden": 6, "num_layers": 1}
    network = getattr(module, name)(module.Config(**{**sizes, **changes}))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)
    return network


def some_batch(source: tuple[int, ...] = (4, 7, 1, 5), target: tuple[int, ...] = (6, 2, 3, 5), seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    layouts = Layout(torch.tensor(source)), Layout(torch.tensor(target))
    source_N = torch.randint(4, SOURCE, (layouts[0].total,), generator=generator)
    target_M = torch.randint(4, TARGET, (layouts[1].total,), generator=generator)
    target_M[layouts[1].offsets[:-1].long()] = BOS
    return source_N, layouts[0], target_M, layouts[1]


def each_alone(batch: Batch) -> list[Batch]:
    source_N, source, target_M, target = batch
    sources, targets = source_N.split(source.lengths.tolist()), target_M.split(target.lengths.tolist())
    return [
        (s, Layout(torch.tensor([len(s)])), t, Layout(torch.tensor([len(t)])))
        for s, t in zip(sources, targets, strict=True)
    ]


def steps(network: Any, batch: Batch) -> Tensor:
    """Logits [M, V] token by token through encode, init_state and step."""
    source_N, source, target_M, target = batch
    state = network.init_state(network.encode(source_N, source), target.max_length)
    logits = []
    for token_B in target.pad(target_M).unbind(1):
        logits_BV, state = network.step(token_B, state)
        logits.append(logits_BV)
        for name, tensor in state.items():
            assert name == "position" or len(tensor) == source.size, f"{name} is not batch first"
    return target.unpad(torch.stack(logits, dim=1))


def assert_steps_equal_forward(network: Any, batch: Batch) -> None:
    """Teacher forcing, decoding step by step, and each pair without the others give the same logits."""
    network.eval()
    whole_MV = network(*batch)
    assert whole_MV.shape == (batch[3].total, TARGET)
    torch.testing.assert_close(steps(network, batch), whole_MV, rtol=1e-5, atol=1e-5)
    alone_MV = torch.cat([network(*pair) for pair in each_alone(batch)])
    torch.testing.assert_close(alone_MV, whole_MV, rtol=1e-5, atol=1e-5)


def assert_same_gradients(network: nn.Module, ours_MV: Tensor, theirs_MV: Tensor) -> None:
    """Logits, and the cross-entropy's gradients of all parameters, by two ways of computing them."""
    torch.testing.assert_close(ours_MV, theirs_MV, rtol=1e-9, atol=1e-11)
    labels_M = torch.arange(len(ours_MV)) % TARGET
    names, parameters = zip(*network.named_parameters(), strict=True)
    actual = torch.autograd.grad(F.cross_entropy(ours_MV, labels_M), parameters, allow_unused=True)
    wanted = torch.autograd.grad(F.cross_entropy(theirs_MV, labels_M), parameters, allow_unused=True)
    for name, own, other in zip(names, actual, wanted, strict=True):
        assert own is not None and own.any(), f"{name} takes no part"
        torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-10, msg=name)


def assert_alignment(network: Any, batch: Batch) -> Tensor:
    """Weights [B, 1, T, S]: within a pair they sum to at most one, outside of it they are zero."""
    _, source, _, target = batch
    weights_BHTS = network.attention(*batch)["alignment"]
    assert weights_BHTS.shape == (source.size, 1, target.max_length, source.max_length)
    inside_BTS = target.mask[:, :, None] & source.mask[:, None, :]
    assert not weights_BHTS[:, 0][~inside_BTS].any()
    assert (weights_BHTS >= 0).all() and (weights_BHTS.sum(-1) <= 1 + 1e-5).all()
    return weights_BHTS[:, 0]


def gru(prefix: str, weights: dict[str, Tensor], x: Tensor, h: Tensor, layer: int = 0) -> Tensor:
    """One vector through one GRU layer, gate by gate."""
    W, U, b, d = (
        weights[f"{prefix}.network.{name}_l{layer}"].chunk(3)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    r = torch.sigmoid(W[0] @ x + b[0] + U[0] @ h + d[0])
    z = torch.sigmoid(W[1] @ x + b[1] + U[1] @ h + d[1])
    n = torch.tanh(W[2] @ x + b[2] + r * (U[2] @ h + d[2]))
    return (1 - z) * n + z * h


def lstm(
    prefix: str, weights: dict[str, Tensor], x: Tensor, h: Tensor, c: Tensor, layer: int = 0
) -> tuple[Tensor, Tensor]:
    """One vector through one LSTM layer, gate by gate."""
    W, U, b, d = (
        weights[f"{prefix}.network.{name}_l{layer}"].chunk(4)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    i, f, g, o = (W[k] @ x + b[k] + U[k] @ h + d[k] for k in range(4))
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def words_to_turn_around() -> tuple[Tensor, Layout, list[Tensor]]:
    """24 sources of two to five words, and each from its end."""
    generator = torch.Generator().manual_seed(0)
    source = Layout(torch.randint(2, 6, (24,), generator=generator))
    source_N = torch.randint(4, SOURCE, (source.total,), generator=generator)
    return source_N, source, [part.flip(0) for part in source_N.split(source.lengths.tolist())]


def learn_to_turn_around(network: Any, num_steps: int = 80, lr: float = 0.02) -> list[float]:
    """The losses of a short training: the source comes out from its end."""
    source_N, source, words = words_to_turn_around()
    target = Layout(source.lengths + 1)
    target_M = torch.cat([F.pad(word, (1, 0), value=BOS) for word in words])
    label_M = torch.cat([F.pad(word, (0, 1), value=EOS) for word in words])
    optimizer = torch.optim.Adam(network.parameters(), lr=lr)
    losses = []
    network.train()
    for _ in range(num_steps):
        drawing = {"drawing": network.drawing()} if hasattr(network, "drawing") else {}
        logits_MV = network(source_N, source, target_M, target, **drawing)
        token_losses_M = F.cross_entropy(logits_MV, label_M, reduction="none")
        loss = token_losses_M.sum() / target.total
        losses.append(loss.item())
        if drawing:
            loss = loss + network.extra_loss(token_losses_M, target, **drawing) / target.total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def share_turned_around(network: Any, beam: int) -> float:
    """How many of the sources that were learned are decoded from their end to their beginning, to the letter."""
    source_N, source, words = words_to_turn_around()
    translations = translate(network.eval(), source_N, source, beam)
    return sum(translations[b, 0] == word.tolist() for b, word in enumerate(words)) / source.size
