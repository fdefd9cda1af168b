"""Transformer-XL in its authors' names: their forward pass by hand from their tensors, and the way back."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.interop.transformer_xl import from_original, to_original
from canon.systems.sequence.transformer_xl import Config, TransformerXL
from tests.interop.folders import read_folder

DIM, HEADS, LAYERS, HIDDEN, TOKENS = 12, 3, 2, 20, 11


def original(shared: bool = True, prefix: str = "") -> dict[str, Tensor]:
    """Random tensors under the authors' names."""
    torch.manual_seed(0)
    shapes: dict[str, tuple[int, ...]] = {
        "word_emb.emb_layers.0.weight": (TOKENS, DIM),
        "crit.out_layers.0.bias": (TOKENS,),
    }
    for i in range(LAYERS):
        layer = f"layers.{i}."
        shapes |= {
            f"{layer}dec_attn.qkv_net.weight": (3 * DIM, DIM),
            f"{layer}dec_attn.r_net.weight": (DIM, DIM),
            f"{layer}dec_attn.o_net.weight": (DIM, DIM),
            f"{layer}pos_ff.CoreNet.0.weight": (HIDDEN, DIM),
            f"{layer}pos_ff.CoreNet.0.bias": (HIDDEN,),
            f"{layer}pos_ff.CoreNet.3.weight": (DIM, HIDDEN),
            f"{layer}pos_ff.CoreNet.3.bias": (DIM,),
        }
        shapes |= {
            f"{layer}{part}.layer_norm.{kind}": (DIM,) for part in ("dec_attn", "pos_ff") for kind in ("weight", "bias")
        }
    for where in [""] if shared else [f"layers.{i}.dec_attn." for i in range(LAYERS)]:
        shapes |= {f"{where}{name}": (HEADS, DIM // HEADS) for name in ("r_w_bias", "r_r_bias")}
    values = {name: 0.5 * torch.randn(shape) for name, shape in shapes.items()}
    values["crit.out_layers.0.weight"] = values["word_emb.emb_layers.0.weight"].clone()
    values["pos_emb.inv_freq"] = torch.ones(DIM // 2)
    return {prefix + name: tensor for name, tensor in values.items()}


def by_hand(own: dict[str, Tensor], token_T: Tensor, memory: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Logits of a segment and each layer's inputs, query by query: A(i, j) of section 3.3 with their tensors."""
    x = own["word_emb.emb_layers.0.weight"][token_T] * math.sqrt(DIM)
    kept, width = [], DIM // HEADS
    rates = 10000 ** (-torch.arange(0, DIM, 2) / DIM)
    for i in range(LAYERS):
        layer = f"layers.{i}."
        kept.append(x)
        seen = torch.cat([memory[i], x])
        before = len(memory[i])
        query, key, value = (seen @ own[f"{layer}dec_attn.qkv_net.weight"].T).chunk(3, 1)
        where = "" if "r_w_bias" in own else f"{layer}dec_attn."
        out = torch.zeros_like(x)
        for h in range(HEADS):
            part = slice(h * width, (h + 1) * width)
            u, v = own[f"{where}r_w_bias"][h], own[f"{where}r_r_bias"][h]
            for t in range(len(x)):
                scores = []
                for j in range(before + t + 1):
                    angle = (before + t - j) * rates
                    r = own[f"{layer}dec_attn.r_net.weight"][part] @ torch.cat([angle.sin(), angle.cos()])
                    asked = query[before + t, part]
                    scores.append((asked + u) @ key[j, part] + (asked + v) @ r)
                shares = (torch.stack(scores) / math.sqrt(width)).softmax(0)
                out[t, part] = shares @ value[: before + t + 1, part]
        attended = x + out @ own[f"{layer}dec_attn.o_net.weight"].T
        norms = [
            (own[f"{layer}{name}.layer_norm.weight"], own[f"{layer}{name}.layer_norm.bias"])
            for name in ("dec_attn", "pos_ff")
        ]
        x = F.layer_norm(attended, (DIM,), *norms[0])
        inner = F.relu(F.linear(x, own[f"{layer}pos_ff.CoreNet.0.weight"], own[f"{layer}pos_ff.CoreNet.0.bias"]))
        x = x + F.linear(inner, own[f"{layer}pos_ff.CoreNet.3.weight"], own[f"{layer}pos_ff.CoreNet.3.bias"])
        x = F.layer_norm(x, (DIM,), *norms[1])
    return F.linear(x, own["crit.out_layers.0.weight"], own["crit.out_layers.0.bias"]), kept


def network_of(settings: dict[str, Any], tensors: dict[str, Tensor], memory: int) -> TransformerXL:
    network = TransformerXL(Config(**settings, memory=memory))
    network.load_state_dict(tensors)
    return network.eval()


@pytest.mark.parametrize("shared", [True, False])
def test_the_authors_forward_pass(shared: bool) -> None:
    """Two segments with memory between, u and v of all layers or of each, below a prefix."""
    own = original(shared)
    settings, tensors = from_original(original(shared, prefix="transformer."))
    assert settings["num_heads"] == HEADS and settings["output_bias"] and settings["tie"]
    network = network_of(settings, tensors, memory=5)
    token_T = torch.randint(TOKENS, (9,))
    with torch.no_grad():
        first, state = network(token_T[None, :5])
        second, _ = network(token_T[None, 5:], state)
    wanted, kept = by_hand(own, token_T[:5], [torch.empty(0, DIM)] * LAYERS)
    torch.testing.assert_close(first[0], wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(second[0], by_hand(own, token_T[5:], kept)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_there_and_back(shared: bool) -> None:
    """Every tensor but the buffer, bit for bit."""
    own = original(shared)
    settings, tensors = from_original(own)
    back = to_original(tensors, settings)
    del own["pos_emb.inv_freq"]
    assert set(back) == set(own) and all(torch.equal(back[name], own[name]) for name in own)


def test_an_output_of_its_own() -> None:
    own = original() | {"crit.out_layers.0.weight": torch.ones(TOKENS, DIM)}
    settings, tensors = from_original(own)
    assert not settings["tie"] and torch.equal(tensors["output.weight"], torch.ones(TOKENS, DIM))
    network = network_of(settings, tensors, memory=4)
    token_T = torch.randint(TOKENS, (4,))
    wanted, _ = by_hand(own, token_T, [torch.empty(0, DIM)] * LAYERS)
    torch.testing.assert_close(network(token_T[None])[0][0].detach(), wanted, rtol=1e-5, atol=1e-5)


def test_a_file_of_them_can_be_started_from(tmp_path: Any) -> None:
    """train.init reads such a file under canon's names."""
    torch.save(original(), tmp_path / "model.pt")
    opened = read_folder(tmp_path / "model.pt")
    assert opened.system == "transformer-xl" and set(opened.tensors) == set(from_original(original())[1])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"crit.cluster_weight": torch.zeros(3, DIM)}, "adaptive embeddings or softmax (crit.cluster_weight)"),
        ({"layers.0.dec_attn.o_net.weight": None}, "1 missing (layers.0.dec_attn.o_net.weight)"),
        ({"layers.1.more": torch.zeros(1)}, "1 unexpected (layers.1.more)"),
        ({"r_w_bias": torch.zeros(3, 5)}, "has 3 heads of 5 for 12 features"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_refused(changes: dict[str, Tensor | None], said: str) -> None:
    own = {name: tensor for name, tensor in {**original(), **changes}.items() if tensor is not None}
    with pytest.raises(CanonError) as refused:
        from_original(own, "model.pt")
    assert said in str(refused.value)
