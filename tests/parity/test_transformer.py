"""The Transformer against torch.nn.Transformer and transformers' MarianMT with the same weights."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.positions import sinusoids
from canon.nn.ragged import Layout
from canon.systems.sequence.transformer import Config, Transformer
from tests.parity.huggingface import marian_of

SIZES = {"source_vocab": 17, "target_vocab": 17, "dim": 12, "num_heads": 3, "num_layers": 2, "hidden": 20}


def shaken(network: nn.Module, by: float = 0.1) -> nn.Module:
    """Norms and biases away from where they begin, so that a mistake in them shows."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(by * torch.randn_like(parameter))
    return network


def torch_transformer(network: Transformer, config: Config) -> tuple[nn.Transformer, list[tuple[Tensor, Tensor]]]:
    """torch's, with our weights; its post-norm stacks have a last norm that the paper has not, so they are given."""
    settings = {"dropout": 0.0, "activation": config.activation, "norm_first": config.norm == "pre"}
    common = (config.dim, config.num_heads, config.hidden)
    last = [nn.LayerNorm(config.dim) if config.norm == "pre" else None for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*common, batch_first=True, **settings),  # type: ignore[arg-type]
            config.num_layers,
            last[0],
            enable_nested_tensor=False,
        )
        decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(*common, batch_first=True, **settings),  # type: ignore[arg-type]
            config.num_layers,
            last[1],
        )
        made = nn.Transformer(
            *common[:2], custom_encoder=encoder, custom_decoder=decoder, batch_first=True, **settings
        ).double()
    pairs: list[tuple[Tensor, Tensor]] = []

    def take(own: nn.Module, other: nn.Module) -> None:
        for kind in ("weight", "bias"):
            pairs.append((getattr(own, kind), getattr(other, kind)))

    for ours, theirs in ((network.encoder, made.encoder), (network.decoder, made.decoder)):
        for own, other in zip(ours.blocks, theirs.layers, strict=True):
            pairs.append((own.attention.qkv.weight, other.self_attn.in_proj_weight))
            pairs.append((own.attention.qkv.bias, other.self_attn.in_proj_bias))
            take(own.attention.output, other.self_attn.out_proj)
            take(own.feed_forward.inner, other.linear1)
            take(own.feed_forward.outer, other.linear2)
            take(own.attention_norm, other.norm1)
            if ours is network.decoder:
                take(own.cross.output, other.multihead_attn.out_proj)
                take(own.cross_norm, other.norm2)
                take(own.feed_forward_norm, other.norm3)
                for start, own_layer in ((0, own.cross.query), (config.dim, own.cross.key_value)):
                    size = len(own_layer.weight)
                    for kind in ("weight", "bias"):
                        whole = getattr(other.multihead_attn, f"in_proj_{kind}")
                        pairs.append((getattr(own_layer, kind), whole[start : start + size]))
            else:
                take(own.feed_forward_norm, other.norm2)
        if config.norm == "pre":
            take(ours.norm, theirs.norm)
    with torch.no_grad():
        for one, two in pairs:
            two.copy_(one)
    return made, pairs


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_torch(norm: str, activation: str) -> None:
    """Logits, and the gradients of every weight, on sequences of unequal length that torch has to pad."""
    config = Config(**SIZES, dropout=0.0, norm=norm, activation=activation)  # type: ignore[arg-type]
    network = shaken(Transformer(config).double())
    assert isinstance(network, Transformer) and network.target_embedding is not None
    theirs, pairs = torch_transformer(network, config)
    source, target = Layout(torch.tensor([4, 2, 6])), Layout(torch.tensor([3, 5, 1]))
    source_N, target_M = torch.randint(17, (source.total,)), torch.randint(17, (target.total,))
    actual = network(source_N, source, target_M, target)

    def embedded(tokens: Tensor, weight: Tensor) -> Tensor:
        places = sinusoids(torch.arange(tokens.shape[1]), config.dim).double()
        return F.embedding(tokens, weight) * config.dim**0.5 + places

    tables = network.source_embedding.weight, network.target_embedding.weight
    grid = theirs(
        embedded(source.pad(source_N), tables[0]),
        embedded(target.pad(target_M), tables[1]),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.max_length, dtype=torch.float64),
        src_key_padding_mask=~source.mask,
        memory_key_padding_mask=~source.mask,
        tgt_key_padding_mask=torch.zeros_like(target.mask, dtype=torch.float64).masked_fill(~target.mask, -torch.inf),
        tgt_is_causal=True,
    )
    wanted = target.unpad(grid) @ tables[1].T
    torch.testing.assert_close(actual, wanted, rtol=1e-7, atol=1e-9)
    upstream = torch.randn_like(actual)
    actual.backward(upstream)
    mine = [one.grad.clone() for one, _ in pairs]  # type: ignore[union-attr]
    of_tables = [table.grad.clone() for table in tables]  # type: ignore[union-attr]
    network.zero_grad()
    wanted.backward(upstream)
    for one, two in zip(of_tables, tables, strict=True):
        torch.testing.assert_close(one, two.grad, rtol=1e-6, atol=1e-9)
    for one, (own, other) in zip(mine, pairs, strict=True):
        whole = part_of_gradient(other) if other._base is not None else other.grad
        torch.testing.assert_close(one, whole, rtol=1e-6, atol=1e-9, msg=lambda text, own=own: f"{own.shape}: {text}")


def part_of_gradient(view: Tensor) -> Tensor:
    """The gradient of a slice of a parameter."""
    base = view._base
    assert base is not None and base.grad is not None
    return base.grad.as_strided(view.shape, view.stride(), view.storage_offset())


def marian_pair() -> tuple[Transformer, Config]:
    config = Config(**{**SIZES, "source_vocab": 40, "target_vocab": 40}, shared_vocab=True)
    network = shaken(Transformer(config), by=0.3).eval()
    assert isinstance(network, Transformer)
    return network, config


def test_marian_logits() -> None:
    network, config = marian_pair()
    theirs = marian_of(network, config)
    torch.manual_seed(2)
    source, target = Layout(torch.tensor([4, 2, 6])), Layout(torch.tensor([3, 5, 1]))
    source_N, target_M = torch.randint(4, 40, (source.total,)), torch.randint(4, 40, (target.total,))
    with torch.no_grad():
        actual = target.pad(network(source_N, source, target_M, target))
        wanted = theirs(
            input_ids=source.pad(source_N),
            attention_mask=source.mask.long(),
            decoder_input_ids=target.pad(target_M),
        ).logits
    torch.testing.assert_close(actual[target.mask], wanted[target.mask], rtol=1e-4, atol=1e-5)


def test_marian_generates_the_same() -> None:
    """Greedy decoding with our steps and with transformers' generate: the same tokens, none of them twice."""
    network, config = marian_pair()
    theirs = marian_of(network, config)
    torch.manual_seed(2)
    source = Layout(torch.tensor([4, 2, 6, 3]))
    source_N = torch.randint(4, 40, (source.total,))
    state = network.init_state(network.encode(source_N, source), 12)
    actual = torch.full((4, 1), 2)
    for _ in range(12):
        logits_BV, state = network.step(actual[:, -1], state)
        token_B = logits_BV.scatter(1, actual, -torch.inf).argmax(-1)
        actual = torch.cat([actual, token_B[:, None]], 1)
    wanted = theirs.generate(
        source.pad(source_N),
        attention_mask=source.mask.long(),
        max_new_tokens=12,
        num_beams=1,
        do_sample=False,
        no_repeat_ngram_size=1,
    )[:, 1:]
    wanted = F.pad(wanted, (0, 12 - wanted.shape[1]))
    for own, other in zip(actual[:, 1:].tolist(), wanted.tolist(), strict=True):
        end = own.index(3) + 1 if 3 in own else 12
        assert own[:end] == other[:end] and not any(other[end:])
    assert len({tuple(row) for row in wanted.tolist()}) == 4
