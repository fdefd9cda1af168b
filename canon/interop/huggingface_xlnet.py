"""XLNet as Hugging Face keeps it: config.json and tensors to canon's and back.

Their projections are [D, H, d] and apart; canon's are matrices of linear layers, queries, keys and values one below the
other. Their sinusoids hold all sines before all cosines, canon's alternate: the columns of what multiplies them move.
Ids of special tokens are the tokenizer's business: whoever writes a folder adds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from canon.config import Table
from canon.errors import CanonError
from canon.interop.huggingface_family import Tensors, field_of, fields_of, nullable, refuse

ARCHITECTURES = ("XLNetLMHeadModel", "XLNetModel")

_FIELDS = {  # canon's name: theirs, and what is meant where it is absent
    "vocab_size": ("vocab_size", 32_000),
    "dim": ("d_model", 1024),
    "num_layers": ("n_layer", 24),
    "num_heads": ("n_head", 16),
    "hidden": ("d_inner", 4096),
    "eps": ("layer_norm_eps", 1e-12),
}
_FIXED = {"attn_type": "bi", "bi_data": False, "same_length": False, "untie_r": True, "tie_word_embeddings": True}
_ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu-tanh": "gelu_new"}
# canon's name in a block: theirs; the same numbers.
_SAME = {
    "attention.content_bias": "rel_attn.r_w_bias",
    "attention.position_bias": "rel_attn.r_r_bias",
    "attention.segment_bias": "rel_attn.r_s_bias",
    "attention.segment": "rel_attn.seg_embed",
    "attention_norm.weight": "rel_attn.layer_norm.weight",
    "attention_norm.bias": "rel_attn.layer_norm.bias",
    "feed_forward.inner.weight": "ff.layer_1.weight",
    "feed_forward.inner.bias": "ff.layer_1.bias",
    "feed_forward.outer.weight": "ff.layer_2.weight",
    "feed_forward.outer.bias": "ff.layer_2.bias",
    "feed_forward_norm.weight": "ff.layer_norm.weight",
    "feed_forward_norm.bias": "ff.layer_norm.bias",
}


def config_from(table: Mapping[str, Any]) -> Table:
    """The settings of canon's XLNet that a config.json asks for."""
    for name, wanted in _FIXED.items():
        refuse(table, name, wanted)
    if field_of(table, "clamp_len", -1, least=-(1 << 31)) > 0:
        raise CanonError(f"config.json: clamp_len must be −1 for XLNet, got {table['clamp_len']}.")
    names = {theirs: ours for ours, theirs in _ACTIVATIONS.items()}
    refuse(table, "ff_activation", *names)
    found = fields_of(table, _FIELDS)
    width = found["dim"] // found["num_heads"]
    if nullable(table, "d_head", width) != width:
        raise CanonError(
            f"config.json: d_head is {table['d_head']}, but d_model / n_head is {width}; one of them is wrong."
        )
    found["activation"] = names[table.get("ff_activation", "gelu")]
    found["memory"] = nullable(table, "mem_len", 0, least=0)
    found["dropout"] = found["attention_dropout"] = field_of(table, "dropout", 0.1)
    return found


def config_to(config: Mapping[str, Any]) -> Table:
    """The config.json of canon's XLNet with these settings, all of them."""
    found: Table = {"architectures": [ARCHITECTURES[0]], "model_type": "xlnet", **_FIXED}
    found |= {theirs: config[ours] for ours, (theirs, _) in _FIELDS.items()}
    return found | {
        "d_head": config["dim"] // config["num_heads"],
        "ff_activation": _ACTIVATIONS[config["activation"]],
        "mem_len": config["memory"] or None,
        "dropout": config["dropout"],
    }


def tensors_from(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> Tensors:
    """canon's tensors of theirs, with or without a language model's head (then its bias is 0)."""
    known = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    known.setdefault("lm_loss.bias", torch.zeros(config["vocab_size"]))

    def take(name: str) -> Tensor:
        if name not in known:
            raise CanonError(f"The XLNet weights have no tensor {name}, which config.json asks for.")
        return known[name]

    def matrix(name: str) -> Tensor:
        return take(name).flatten(1).T  # [D, H, d] to [H d, D]

    found = {
        "embedding.token.weight": take("word_embedding.weight"),
        "embedding.query": take("mask_emb").flatten(),
        "head.bias": take("lm_loss.bias"),
    }
    order = _order(config["dim"])
    for i in range(config["num_layers"]):
        ours, theirs = f"layers.blocks.{i}.", f"layer.{i}."
        found |= {ours + own: take(theirs + other) for own, other in _SAME.items()}
        found[ours + "attention.qkv.weight"] = torch.cat([matrix(f"{theirs}rel_attn.{kind}") for kind in "qkv"])
        found[ours + "attention.relative.weight"] = matrix(f"{theirs}rel_attn.r")[:, order].contiguous()
        found[ours + "attention.output.weight"] = take(f"{theirs}rel_attn.o").flatten(1)
    return found


def tensors_to(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> Tensors:
    """Their tensors of canon's; the head's matrix is that of the embeddings and not told again."""
    shape = config["dim"], config["num_heads"], config["dim"] // config["num_heads"]
    found = {
        "transformer.word_embedding.weight": tensors["embedding.token.weight"],
        "transformer.mask_emb": tensors["embedding.query"][None, None],
        "lm_loss.bias": tensors["head.bias"],
    }
    order = _order(config["dim"]).argsort()
    for i in range(config["num_layers"]):
        ours, theirs = f"layers.blocks.{i}.", f"transformer.layer.{i}."
        found |= {theirs + other: tensors[ours + own] for own, other in _SAME.items()}
        parts = (
            *tensors[ours + "attention.qkv.weight"].chunk(3),
            tensors[ours + "attention.relative.weight"][:, order],
        )
        for kind, part in zip("qkvr", parts, strict=True):
            found[f"{theirs}rel_attn.{kind}"] = part.T.reshape(shape)
        found[f"{theirs}rel_attn.o"] = tensors[ours + "attention.output.weight"].reshape(shape)
    return {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in found.items()}


def _order(dim: int) -> Tensor:
    """Where each of canon's alternating sines and cosines stands among theirs."""
    return torch.arange(dim).view(2, -1).T.flatten()
