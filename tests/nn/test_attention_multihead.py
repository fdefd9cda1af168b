"""Multi-head attention against torch.nn.MultiheadAttention with the same weights, and one token at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from canon.errors import CanonError
from canon.nn.attention.multihead import CrossAttention, SelfAttention, cross_step, parts_of, self_step
from canon.nn.attention.relative import RelativeAttention, distances
from canon.nn.ragged import Layout

DIM, HEADS = 12, 3


def theirs(bias: bool = True) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    other = nn.MultiheadAttention(DIM, HEADS, bias=bias, batch_first=True).double()
    for parameter in other.parameters():
        nn.init.normal_(parameter)
    return other


def take_self(own: SelfAttention, other: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor]]:
    """Copies the weights; returns the pairs of parameters."""
    pairs = [(own.qkv.weight, other.in_proj_weight), (own.output.weight, other.out_proj.weight)]
    if own.qkv.bias is not None:
        pairs += [(own.qkv.bias, other.in_proj_bias), (own.output.bias, other.out_proj.bias)]
    return copy(pairs)


def copy(pairs: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    with torch.no_grad():
        for own, other in pairs:
            own.copy_(other)
    return pairs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lengths", [[5, 2, 7], [4, 4]], ids=str)
@pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 2), (False, 2)])
def test_self_attention_equals_torch(lengths: list[int], causal: bool, window: int, bias: bool) -> None:
    other = theirs(bias)
    own = SelfAttention(DIM, HEADS, bias=bias, window=window).double()
    pairs = take_self(own, other)
    layout = Layout(torch.tensor(lengths))
    x_ND = torch.randn(layout.total, DIM, dtype=torch.float64, requires_grad=True)
    actual = own(x_ND, layout, causal)
    grid, longest = layout.pad(x_ND), layout.max_length
    gap = torch.arange(longest)[:, None] - torch.arange(longest)
    hidden = torch.zeros(longest, longest, dtype=torch.bool)
    if causal:
        hidden |= gap < 0
    if window:
        hidden |= gap.abs() >= window
    if window:  # padded queries that see nothing are NaN there: let them see themselves
        hidden_BQK = hidden | ~layout.mask[:, None, :]
        hidden_BQK = hidden_BQK & ~torch.eye(longest, dtype=torch.bool)
        wanted, shares = other(
            grid, grid, grid, attn_mask=hidden_BQK.repeat_interleave(HEADS, 0), average_attn_weights=False
        )
    else:
        wanted, shares = other(
            grid, grid, grid, key_padding_mask=~layout.mask, attn_mask=hidden, average_attn_weights=False
        )
    wanted = layout.unpad(wanted)
    torch.testing.assert_close(actual, wanted)
    reported = own.weights(x_ND, layout, causal)
    torch.testing.assert_close(reported, shares.where(layout.mask[:, None, :, None], 0.0))
    upstream = torch.randn_like(actual)
    mine = torch.autograd.grad(actual, [x_ND, *(one for one, _ in pairs)], upstream)
    others = torch.autograd.grad(wanted, [x_ND, *(two for _, two in pairs)], upstream)
    for one, two in zip(mine, others, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("memory_lengths", [[3, 6, 1], [4, 4, 4]], ids=str)
def test_cross_attention_equals_torch(memory_lengths: list[int]) -> None:
    other = theirs()
    own = CrossAttention(DIM, HEADS).double()
    with torch.no_grad():
        own.query.weight.copy_(other.in_proj_weight[:DIM])
        own.query.bias.copy_(other.in_proj_bias[:DIM])
        own.key_value.weight.copy_(other.in_proj_weight[DIM:])
        own.key_value.bias.copy_(other.in_proj_bias[DIM:])
        own.output.load_state_dict(other.out_proj.state_dict())
    layout, memory = Layout(torch.tensor([2, 5, 3])), Layout(torch.tensor(memory_lengths))
    x_ND = torch.randn(10, DIM, dtype=torch.float64, requires_grad=True)
    memory_MD = torch.randn(memory.total, DIM, dtype=torch.float64, requires_grad=True)
    actual = own(x_ND, layout, memory_MD, memory)
    keys = memory.pad(memory_MD)
    grid, shares = other(layout.pad(x_ND), keys, keys, key_padding_mask=~memory.mask, average_attn_weights=False)
    wanted = layout.unpad(grid)
    torch.testing.assert_close(actual, wanted)
    reported = own.weights(x_ND, layout, memory_MD, memory)
    torch.testing.assert_close(reported, shares.where(layout.mask[:, None, :, None], 0.0))
    upstream = torch.randn_like(actual)
    query, key_value = own.query.weight, own.key_value.weight
    mine = torch.autograd.grad(actual, [x_ND, memory_MD, query, key_value, own.output.weight], upstream)
    others = torch.autograd.grad(wanted, [x_ND, memory_MD, other.in_proj_weight, other.out_proj.weight], upstream)
    torch.testing.assert_close(torch.cat(mine[2:4]), others[2])
    for one, two in zip((*mine[:2], mine[4]), (*others[:2], others[3]), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("window", [0, 1, 3])
def test_steps_equal_causal_attention(window: int) -> None:
    """One token at a time, whose keys and values go into a cache."""
    torch.manual_seed(0)
    own = SelfAttention(DIM, HEADS, window=window).double()
    layout = Layout(torch.tensor([6, 6]))
    x_BTD = torch.randn(2, 6, DIM, dtype=torch.float64)
    wanted = layout.pad(own(x_BTD.flatten(0, 1), layout, causal=True))
    with torch.no_grad():
        cache_B2HCd = torch.zeros(2, 2, HEADS, 8, DIM // HEADS, dtype=torch.float64)
        parts = parts_of(own.qkv), parts_of(own.output)
        steps = []
        for t in range(6):
            first = max(0, t + 1 - window) if window else 0
            keys, values = cache_B2HCd[:, :, :, first : t + 1].unbind(1)
            steps.append(self_step(x_BTD[:, t], *parts, cache_B2HCd[:, :, :, t], keys, values))
    torch.testing.assert_close(torch.stack(steps, 1), wanted.detach())
    assert (cache_B2HCd[:, :, :, 6:] == 0).all()


def test_cross_steps_equal_cross_attention() -> None:
    torch.manual_seed(0)
    own = CrossAttention(DIM, HEADS).double()
    layout, memory = Layout(torch.tensor([3, 3])), Layout(torch.tensor([2, 4]))
    x_BTD = torch.randn(2, 3, DIM, dtype=torch.float64)
    memory_MD = torch.randn(6, DIM, dtype=torch.float64)
    wanted = layout.pad(own(x_BTD.flatten(0, 1), layout, memory_MD, memory))
    keys, values = own.remember(memory.pad(memory_MD)).unbind(1)
    bias = torch.zeros(2, 1, 1, 4, dtype=torch.float64).masked_fill(~memory.mask[:, None, None], -torch.inf)
    parts = parts_of(own.query), parts_of(own.output)
    actual = torch.stack([cross_step(x_BTD[:, t], *parts, keys, values, bias) for t in range(3)], 1)
    torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("older", [0, 4])
def test_relative_attention_equals_its_formula(older: int) -> None:
    """A(i, j) = (q_i + u)·k_j + (q_i + v)·W r_{i−j}, pair by pair."""
    torch.manual_seed(0)
    own = RelativeAttention(DIM, HEADS).double()
    for parameter in own.parameters():
        nn.init.normal_(parameter)
    x, memory = torch.randn(2, 5, DIM).double(), torch.randn(2, older, DIM).double()
    r = distances(older + 5, DIM, torch.device("cpu")).double()
    width = DIM // HEADS
    seen = torch.cat([memory, x], 1)
    q, k, v = (seen @ part.T for part in own.qkv.weight.split(DIM))
    wanted, shares = torch.zeros(2, 5, DIM).double(), torch.zeros(2, HEADS, 5, older + 5).double()
    for b in range(2):
        for h in range(HEADS):
            part = slice(h * width, (h + 1) * width)
            for i in range(5):
                place = older + i
                query = q[b, place, part]
                scores = []
                for j in range(place + 1):
                    distance = r[len(r) - 1 - (place - j)]  # r holds falling distances
                    content = (query + own.content_bias[h]) @ k[b, j, part]
                    position = (query + own.position_bias[h]) @ (own.relative.weight @ distance)[part]
                    scores.append((content + position) / width**0.5)
                share = torch.stack(scores).softmax(0)
                shares[b, h, i, : place + 1] = share
                wanted[b, i, part] = share @ v[b, : place + 1, part]
    torch.testing.assert_close(own(x, memory, r), wanted @ own.output.weight.T)
    torch.testing.assert_close(own.weights(x, memory, r), shares)


def test_first_weights_are_glorots() -> None:
    """Of the fused projection as one matrix: uniform in ±√(6 / 4D); the output's in ±√(6 / 2D); biases 0."""
    torch.manual_seed(0)
    for own in (SelfAttention(256, 4), CrossAttention(256, 4)):
        for name, parameter in own.named_parameters():
            if name.endswith("bias"):
                assert not parameter.any()
                continue
            bound = (6 / (2 * 256 if "output" in name else 4 * 256)) ** 0.5
            assert bound * 0.999 < parameter.abs().max() <= bound
            assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)


def test_heads_must_divide_the_features() -> None:
    with pytest.raises(CanonError, match=r"system\.dim must be a multiple of system\.num_heads, got 10 and 4"):
        SelfAttention(10, 4)
