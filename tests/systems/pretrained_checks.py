"""What the tests of networks for running text share: small ones with random numbers, one by hand, and a short training.

`by_hand` computes logits of one sequence from the tensors alone, one head and one query after the other, with a mask
for every layer: the oracle of whatever sees only a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import canon
from canon.nn.ragged import Layout
from canon.nn.token_loss import TokenLoss

SMALL: dict[str, Any] = {
    "vocab_size": 23,
    "dim": 12,
    "num_layers": 3,
    "num_heads": 3,
    "hidden": 20,
    "max_positions": 16,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


def logits_of(network: Any, *inputs: Any, **options: Any) -> Tensor:
    """[M, V] at the places asked for."""
    return network.logits(network(*inputs, **options)["hidden"])


def losses_of(network: Any, target_M: Tensor, *inputs: Any, **options: Any) -> TokenLoss:
    return network.token_losses(network(*inputs, **options)["hidden"], target_M)


def build(system: str, **changes: Any) -> Any:
    """In float64, with every number random."""
    torch.manual_seed(0)
    network = canon.create(system, **{**SMALL, **changes}).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def batch(*lengths: int) -> tuple[Tensor, Layout]:
    torch.manual_seed(1)
    layout = Layout(torch.tensor(lengths))
    return torch.randint(23, (layout.total,)), layout


def by_hand(network: Any, token_L: Tensor, seen: Sequence[Tensor], segment_L: Tensor | None = None) -> Tensor:
    """Logits [L, V] of one sequence; seen[i][q, k]: whether layer i's query q sees key k."""
    own = network.state_dict()
    heads, eps = network.layers.blocks[0].attention.num_heads, network.layers.blocks[0].attention_norm.eps

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ own[f"{name}.weight"].T + own[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
        return centred * scale * own[f"{name}.weight"] + own[f"{name}.bias"]

    def attention(x: Tensor, name: str, seen_LL: Tensor) -> Tensor:
        query, key, value = (part.chunk(heads, 1) for part in linear(x, f"{name}.qkv").chunk(3, 1))
        out = torch.empty_like(x)
        width = x.shape[1] // heads
        for h in range(heads):
            for q in range(len(x)):
                keys = seen_LL[q].nonzero()[:, 0]
                shares = (key[h][keys] @ query[h][q] / width**0.5).softmax(0)
                out[q, h * width : (h + 1) * width] = shares @ value[h][keys]
        return linear(out, f"{name}.output")

    activation = network.layers.blocks[0].feed_forward.activation
    x = own["embedding.token.weight"][token_L] + own["embedding.position.weight"][: len(token_L)]
    if "embedding.segment.weight" in own:
        x = x + own["embedding.segment.weight"][torch.zeros_like(token_L) if segment_L is None else segment_L]
    if "embedding.norm.weight" in own:
        x = norm(x, "embedding.norm")
    for i, seen_LL in enumerate(seen):
        name = f"layers.blocks.{i}"
        if network.norm == "pre":
            x = x + attention(norm(x, f"{name}.attention_norm"), f"{name}.attention", seen_LL)
            inner = activation(linear(norm(x, f"{name}.feed_forward_norm"), f"{name}.feed_forward.inner"))
            x = x + linear(inner, f"{name}.feed_forward.outer")
        else:
            x = norm(x + attention(x, f"{name}.attention", seen_LL), f"{name}.attention_norm")
            inner = linear(activation(linear(x, f"{name}.feed_forward.inner")), f"{name}.feed_forward.outer")
            x = norm(x + inner, f"{name}.feed_forward_norm")
    if network.norm == "pre":
        x = norm(x, "layers.norm")
    if network.head is None:
        return x @ own["embedding.token.weight"].T
    x = norm(activation(linear(x, "head.dense")), "head.norm")
    return x @ own["embedding.token.weight"].T + own["head.bias"]


def assert_equals_by_hand(network: Any, found_NV: Tensor, token_N: Tensor, layout: Layout, seen: Any) -> None:
    """`seen(b, length)` gives the masks of all layers for sequence b."""
    parts = zip(token_N.split(layout.lengths.tolist()), found_NV.split(layout.lengths.tolist()), strict=True)
    for b, (token_L, found_LV) in enumerate(parts):
        wanted_LV = by_hand(network, token_L, seen(b, len(token_L)))
        torch.testing.assert_close(found_LV, wanted_LV, rtol=1e-9, atol=1e-9)


def losses_of_training(system: str, masked: bool, steps: int = 60, **changes: Any) -> list[float]:
    """Mean loss per predicted token in each step.

    masked: texts of one token over and over, of which two of nine are hidden by token 0; else texts that count up,
    where every token tells the next.
    """
    torch.manual_seed(0)
    network = canon.create(system, **{**SMALL, "dim": 24, "hidden": 48, **changes})
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    layout = Layout(torch.full((16,), 9))
    values = []
    for _ in range(steps):
        text_BL = 1 + (torch.randint(22, (16, 1)) + (0 if masked else 1) * torch.arange(10)) % 22
        token_N = text_BL[:, :9].flatten().clone()
        places_M = torch.arange(layout.total)
        target_M = text_BL[:, 1:].flatten()
        if masked:
            places_M = (torch.arange(16)[:, None] * 9 + torch.rand(16, 9).argsort(1)[:, :2].sort(1)[0]).flatten()
            target_M = token_N[places_M].clone()
            token_N[places_M] = 0
        losses = losses_of(network, target_M, token_N, layout, places_M=places_M)
        loss = losses.total / len(target_M)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert F.relu(losses.losses.sum() - losses.total).item() < 1e-2
        values.append(loss.item())
    return values
