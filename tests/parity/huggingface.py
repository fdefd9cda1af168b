"""transformers as an oracle: importing it where torchvision's operators do not load, and its Marian with our weights.

MarianMT is the paper's Transformer: post-norm, sinusoids, one matrix for both sides and the output. Its sinusoids hold
all sines before all cosines, ours alternate; features in its order (`_order`) make the two the same network.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from canon.systems.sequence.transformer import Config, Transformer
from tests.parity.torchvision_models import torchvision_models


def transformers_module(name: str = "transformers") -> ModuleType:
    """A module of transformers; skips the test where it is not installed."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed (pip install transformers)")
    if importlib.util.find_spec("torchvision") is not None:
        torchvision_models()  # transformers imports it, which fails where its operators are missing
    return importlib.import_module(name)


def marian_of(network: Transformer, config: Config, max_positions: int = 512) -> Any:
    """transformers' MarianMTModel with the weights of `network` (shared vocabulary, tied, post-norm, sinusoidal)."""
    assert config.shared_vocab and config.tie and config.norm == "post" and config.positions == "sinusoidal"
    library = transformers_module()
    settings = library.MarianConfig(
        vocab_size=config.source_vocab,
        d_model=config.dim,
        encoder_layers=config.num_layers,
        decoder_layers=config.num_layers,
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        encoder_ffn_dim=config.hidden,
        decoder_ffn_dim=config.hidden,
        activation_function=config.activation,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=0.0,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        max_position_embeddings=max_positions,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
        decoder_start_token_id=2,
        forced_eos_token_id=None,
    )
    model = library.MarianMTModel(settings).eval()
    state = model.state_dict()
    for key, tensor in _weights(network, config).items():
        assert state[key].shape == tensor.shape, key
        state[key].copy_(tensor)
    return model


def _order(dim: int) -> Tensor:
    return torch.cat([torch.arange(0, dim, 2), torch.arange(1, dim, 2)])


def _weights(network: Transformer, config: Config) -> dict[str, Tensor]:
    order, own, made = _order(config.dim), network.state_dict(), {}
    shared = own["source_embedding.weight"][:, order]
    for key in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        made[f"{key}.weight"] = shared

    def take(theirs: str, ours: str, part: int = 0, parts: int = 1, reads: bool = False, writes: bool = False) -> None:
        """One of `parts` of a linear layer that reads from, or writes to, the features between layers."""
        weight, bias = (own[f"{ours}.{kind}"].chunk(parts)[part] for kind in ("weight", "bias"))
        weight = weight[:, order] if reads else weight
        made[f"{theirs}.weight"] = weight[order] if writes else weight
        made[f"{theirs}.bias"] = bias[order] if writes else bias

    def norm(theirs: str, ours: str) -> None:
        for kind in ("weight", "bias"):
            made[f"{theirs}.{kind}"] = own[f"{ours}.{kind}"][order]

    for side in ("encoder", "decoder"):
        for i in range(config.num_layers):
            theirs, ours = f"model.{side}.layers.{i}", f"{side}.blocks.{i}"
            for part, name in enumerate(("q_proj", "k_proj", "v_proj")):
                take(f"{theirs}.self_attn.{name}", f"{ours}.attention.qkv", part, 3, reads=True)
            take(f"{theirs}.self_attn.out_proj", f"{ours}.attention.output", writes=True)
            norm(f"{theirs}.self_attn_layer_norm", f"{ours}.attention_norm")
            if side == "decoder":
                take(f"{theirs}.encoder_attn.q_proj", f"{ours}.cross.query", reads=True)
                for part, name in enumerate(("k_proj", "v_proj")):
                    take(f"{theirs}.encoder_attn.{name}", f"{ours}.cross.key_value", part, 2, reads=True)
                take(f"{theirs}.encoder_attn.out_proj", f"{ours}.cross.output", writes=True)
                norm(f"{theirs}.encoder_attn_layer_norm", f"{ours}.cross_norm")
            take(f"{theirs}.fc1", f"{ours}.feed_forward.inner", reads=True)
            take(f"{theirs}.fc2", f"{ours}.feed_forward.outer", writes=True)
            norm(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_norm")
    return made
