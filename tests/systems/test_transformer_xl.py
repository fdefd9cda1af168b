"""Transformer-XL: segments with memory against one long text under a mask; one token at a time; learning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.nn.counting import count_parameters
from canon.nn.positions import sinusoids
from canon.nn.states import select
from canon.systems.sequence.transformer_xl import Config, TransformerXL, TransformerXLBlock

SIZES: dict[str, Any] = {"vocab_size": 11, "dim": 12, "num_heads": 3, "num_layers": 3, "hidden": 20, "dropout": 0.0}


def build(**changes: Any) -> TransformerXL:
    torch.manual_seed(0)
    network = TransformerXL(Config(**{**SIZES, **changes}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network.eval()


def in_segments(network: TransformerXL, tokens: Tensor, lengths: list[int]) -> Tensor:
    state, result = None, []
    for segment in tokens.split(lengths, 1):
        logits, state = network(segment, state)
        result.append(logits)
    return torch.cat(result, 1)


def one_long_text(network: TransformerXL, token_BT: Tensor, seen_TT: Tensor, cut: Tensor | None = None) -> Tensor:
    """The whole text at once, where query i sees key j if seen_TT[i, j]: A(i, j) by a table of all distances.

    cut_TT[i, j]: key j is of an earlier segment than query i, so no gradient goes there.
    """
    length = token_BT.shape[1]
    distance = torch.arange(length)[:, None] - torch.arange(length)
    x = F.embedding(token_BT, network.embedding.weight) * network.embedding.scale
    r = sinusoids(distance.clamp(min=0), x.shape[2]).to(x.dtype)
    for block in network.layers.blocks:
        assert isinstance(block, TransformerXLBlock)
        attention, heads = block.attention, block.attention.num_heads

        def split(y: Tensor, heads: int = heads) -> Tensor:
            return y.unflatten(-1, (heads, -1))

        asked = block.attention_norm(x) if block.is_pre else x
        wq, wk, wv = attention.qkv.weight.chunk(3)
        q = split(asked @ wq.T)
        pieces = []
        for past in (asked, asked.detach()):
            if past is not asked and block.is_pre:
                past = block.attention_norm(x.detach())
            k, v = split(past @ wk.T), split(past @ wv.T)
            pieces.append((k, v))
        scores = []
        for k, _ in pieces:
            content = torch.einsum("bihd,bjhd->bhij", q + attention.content_bias, k)
            position = torch.einsum(
                "bihd,ijhd->bhij", q + attention.position_bias, split(r @ attention.relative.weight.T)
            )
            scores.append((content + position) / attention.head_dim**0.5)
        earlier = torch.zeros(length, length, dtype=torch.bool) if cut is None else cut
        share = torch.where(earlier, scores[1], scores[0]).masked_fill(~seen_TT, -torch.inf).softmax(-1)
        mixed = torch.einsum("bhij,bjhd->bihd", share.where(~earlier, 0.0), pieces[0][1])
        mixed = mixed + torch.einsum("bhij,bjhd->bihd", share.where(earlier, 0.0), pieces[1][1])
        x = x + mixed.flatten(2) @ attention.output.weight.T
        if block.is_pre:
            x = x + block.feed_forward(block.feed_forward_norm(x))
        else:
            x = block.attention_norm(x)
            x = block.feed_forward_norm(x + block.feed_forward(x))
    x = network.layers.norm(x)
    return x @ (network.embedding.weight if network.output is None else network.output.weight).T


def masks(lengths: list[int], memory: int) -> tuple[Tensor, Tensor]:
    """Which keys a query sees, its segment's past and `memory` before, and which keys are of earlier segments."""
    total = sum(lengths)
    starts = torch.cat([torch.full((n,), sum(lengths[:i])) for i, n in enumerate(lengths)])
    i, j = torch.arange(total)[:, None], torch.arange(total)
    return (j <= i) & (j >= starts[:, None] - memory), j < starts[:, None]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("memory", [0, 2, 4, 7, 20])
def test_segments_equal_one_long_text_with_the_right_mask(memory: int, norm: str) -> None:
    """Every layer keeps its own inputs, which saw further back than `memory`: the mask alone decides."""
    lengths = [5, 4, 1, 6]
    network = build(memory=memory, context=1, norm=norm).double()
    tokens = torch.randint(11, (2, 16))
    result = in_segments(network, tokens, lengths)
    seen, _ = masks(lengths, memory)
    torch.testing.assert_close(result, one_long_text(network, tokens, seen), rtol=1e-6, atol=1e-8)


def test_a_memory_of_all_segments_is_one_long_forward() -> None:
    network = build(memory=16)
    tokens = torch.randint(11, (2, 16))
    torch.testing.assert_close(in_segments(network, tokens, [5, 4, 1, 6]), network(tokens)[0], rtol=1e-4, atol=1e-5)


def test_without_memory_segments_stand_alone() -> None:
    """The same weights, and nothing carried over."""
    network = build(memory=0)
    assert count_parameters(network) == count_parameters(build(memory=9))
    tokens = torch.randint(11, (2, 10))
    alone = torch.cat([network(part)[0] for part in tokens.split(5, 1)], 1)
    torch.testing.assert_close(in_segments(network, tokens, [5, 5]), alone)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_no_gradient_goes_into_earlier_segments(norm: str) -> None:
    """The last segment's gradients of all weights, against the long text with a cut graph: keys of the memory are
    projected by weights that learn, from inputs that do not."""
    lengths = [4, 3]
    network = build(memory=3, context=1, norm=norm).double().train()
    tokens = torch.randint(11, (2, 7))
    _, state = network(tokens[:, :4], None)
    assert not state["memory"].requires_grad and state["memory"].shape == (2, 3, 3, 12)
    actual = network(tokens[:, 4:], state)[0]
    seen, cut = masks(lengths, 3)
    wanted = one_long_text(network, tokens, seen, cut)[:, 4:]
    torch.testing.assert_close(actual, wanted, rtol=1e-6, atol=1e-8)
    upstream = torch.randn_like(actual)
    mine = torch.autograd.grad(actual, list(network.parameters()), upstream)
    other = torch.autograd.grad(wanted, list(network.parameters()), upstream)
    for (name, _), one, two in zip(network.named_parameters(), mine, other, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8, msg=lambda text, name=name: f"{name}: {text}")
        assert one.abs().sum() > 0, name


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("memory", "context"), [(0, 20), (20, 1), (4, 20)])
def test_steps_equal_one_forward(memory: int, context: int, norm: str) -> None:
    """From the start of a text, and after a prompt; also without memory, where generation sees its own text."""
    network = build(memory=memory, context=context, norm=norm, tie=False)
    tokens = torch.randint(11, (2, 14))
    wanted = network(tokens)[0].detach()
    for prompt in (0, 1, 6):
        state = network(tokens[:, :prompt])[1] if prompt else network.init_state(2)
        for t in range(prompt, 14):
            actual, state = network.step(tokens[:, t], state)
            torch.testing.assert_close(actual, wanted[:, t], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("memory", "context"), [(3, 1), (1, 4)])
def test_steps_look_back_on_a_fixed_span(memory: int, context: int) -> None:
    """Longer than the cache, which moves; against segments of one token with a memory of the span."""
    network = build(memory=memory, context=context)
    tokens = torch.randint(11, (2, 25))
    state, result = network.init_state(2), []
    for t in range(25):
        logits, state = network.step(tokens[:, t], state)
        result.append(logits)
    assert state["cache"].shape[4] == 2 * max(memory, context) + 1
    network.memory = network.span
    torch.testing.assert_close(
        torch.stack(result, 1), in_segments(network, tokens, [1] * 25).detach(), rtol=1e-4, atol=1e-5
    )


def test_rows_of_a_state_can_be_chosen() -> None:
    network = build(memory=4, context=12)
    tokens = torch.randint(11, (3, 10))
    wanted = network(tokens)[0].detach()
    _, state = network(tokens[:, :4])
    rows = torch.tensor([2, 0])
    state = select(state, rows)
    for t in range(4, 10):
        actual, state = network.step(tokens[rows, t], state)
        torch.testing.assert_close(actual, wanted[rows, t], rtol=1e-4, atol=1e-5)
        state = select(state, torch.tensor([0, 1]))
    with pytest.raises(CanonError, match="go on with step"):
        network(tokens[:2], state)


def test_memory_in_training_is_no_longer_than_asked() -> None:
    network = build(memory=5, context=50).train()
    state = None
    for length, held in ((3, 3), (4, 5), (9, 5)):
        _, state = network(torch.randint(11, (2, length)), state)
        assert state["memory"].shape == (2, 3, held, 12)
    assert build(memory=0).train()(torch.randint(11, (2, 4)))[1]["memory"].shape == (2, 3, 0, 12)


def test_attention_weights() -> None:
    network = build(memory=4)
    tokens = torch.randint(11, (2, 9))
    _, state = network(tokens[:, :4])
    weights = network.attention(tokens[:, 4:], state)
    assert list(weights) == ["decoder/0", "decoder/1", "decoder/2"]
    for result in weights.values():
        assert result.shape == (2, 3, 5, 9)
        torch.testing.assert_close(result.sum(-1), torch.ones(2, 3, 5))
        assert torch.equal(result, result.tril(4))


@pytest.mark.parametrize("memory", [8, 0])
def test_learns_from_beyond_its_segment(memory: int) -> None:
    """Each token is that of six places before, in segments of three: only a memory can know."""
    torch.manual_seed(0)
    network = TransformerXL(
        Config(vocab_size=8, dim=16, num_heads=2, num_layers=1, hidden=32, dropout=0.0, memory=memory)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    state: dict[str, Tensor] | None = None
    text = torch.randint(8, (32, 6)).repeat(1, 200)
    losses = []
    for step in range(300):
        if step % 40 == 0:
            text, state = torch.randint(8, (32, 6)).repeat(1, 200), None
        here = text[:, 3 * (step % 40) :]
        logits, state = network(here[:, :3], state)
        loss = F.cross_entropy(logits.flatten(0, 1), here[:, 1:4].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    last = sum(losses[-10:]) / 10
    assert last < 0.2 if memory else last > 1.5
