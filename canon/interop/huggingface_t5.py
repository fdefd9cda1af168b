"""T5 as Hugging Face keeps it: config.json and tensors to canon's and back.

Google's checkpoints of T5 and T5 1.1, Flan-T5 and what has their form. Tensors are the same numbers; canon stacks
queries, keys and values (and the two inner matrices of gated networks) that their files keep apart.
An unscaled output is canon's `tie = false`; where such a file has no lm_head of its own, its embeddings are copied.
Ids of special tokens are the tokenizer's business: whoever writes a folder adds pad_token_id, eos_token_id and
decoder_start_token_id (which is pad's).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from canon.config import Table
from canon.errors import CanonError
from canon.interop.huggingface_family import Tensors, field_of, fields_of, nullable, refuse

ARCHITECTURES = ("T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model")

_FIELDS = {  # canon's name: theirs, and what is meant where it is absent
    "vocab_size": ("vocab_size", 32_128),
    "dim": ("d_model", 512),
    "num_layers": ("num_layers", 6),
    "num_heads": ("num_heads", 8),
    "head_dim": ("d_kv", 64),
    "hidden": ("d_ff", 2048),
    "num_buckets": ("relative_attention_num_buckets", 32),
    "max_distance": ("relative_attention_max_distance", 128),
    "eps": ("layer_norm_epsilon", 1e-6),
    "activation": ("feed_forward_proj", "relu"),
}


def config_from(table: Mapping[str, Any]) -> Table:
    """The settings of canon's T5 that a config.json asks for."""
    refuse(table, "feed_forward_proj", "relu", "gated-gelu")
    found = fields_of(table, _FIELDS)
    found["decoder_layers"] = nullable(table, "num_decoder_layers", found["num_layers"])
    # Newer files always say that weights are tied, and tell T5 1.1 by its output, which is not scaled.
    found["tie"] = field_of(table, "tie_word_embeddings", True) and field_of(table, "scale_decoder_outputs", True)
    found["dropout"] = found["attention_dropout"] = field_of(table, "dropout_rate", 0.1)
    return found


def config_to(config: Mapping[str, Any]) -> Table:
    """The config.json of canon's T5 with these settings, all of them."""
    found: Table = {"architectures": [ARCHITECTURES[0]], "model_type": "t5", "is_encoder_decoder": True}
    found |= {theirs: config[ours] for ours, (theirs, _) in _FIELDS.items()}
    return found | {
        "num_decoder_layers": config["decoder_layers"] or config["num_layers"],
        "tie_word_embeddings": config["tie"],
        "dropout_rate": config["dropout"],
    }


def tensors_from(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> Tensors:
    """canon's tensors of theirs."""
    known = dict(tensors)
    if "shared.weight" not in known and "encoder.embed_tokens.weight" in known:
        known["shared.weight"] = known["encoder.embed_tokens.weight"]
    own = known.setdefault("lm_head.weight", known.get("shared.weight", torch.empty(0)))
    if config["tie"] and not torch.equal(own, known.get("shared.weight", own)):
        raise CanonError("The T5 weights have an lm_head of their own, but config.json says that it is tied.")
    found: Tensors = {}
    for ours, theirs in _names(config).items():
        if missing := [name for name in theirs if name not in known]:
            raise CanonError(f"The T5 weights have no tensor {missing[0]}, which config.json asks for.")
        found[ours] = known[theirs[0]] if len(theirs) == 1 else torch.cat([known[name] for name in theirs])
    return found


def tensors_to(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> Tensors:
    """Their tensors of canon's; what is tied stands there once."""
    found: Tensors = {}
    for ours, theirs in _names(config).items():
        found |= dict(zip(theirs, (part.clone() for part in tensors[ours].chunk(len(theirs))), strict=True))
    return found


def _names(config: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Each of canon's tensors, and theirs that it is made of, one below the other."""
    found: dict[str, tuple[str, ...]] = {"embedding.token.weight": ("shared.weight",)}
    if not config["tie"]:
        found["head.weight"] = ("lm_head.weight",)
    layers = {"encoder": config["num_layers"], "decoder": config["decoder_layers"] or config["num_layers"]}
    for side, count in layers.items():
        found[f"{side}.positions.weight"] = (f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",)
        found[f"{side}.norm.weight"] = (f"{side}.final_layer_norm.weight",)
        for i in range(count):
            found |= _block(f"{side}.blocks.{i}.", f"{side}.block.{i}.layer.", config, side == "decoder")
    return found


def _block(ours: str, theirs: str, config: Mapping[str, Any], is_decoder: bool) -> dict[str, tuple[str, ...]]:
    last = 2 if is_decoder else 1
    inner = ("wi",) if config["activation"] == "relu" else ("wi_0", "wi_1")
    found = {
        "attention.qkv": tuple(f"0.SelfAttention.{kind}" for kind in "qkv"),
        "attention.output": ("0.SelfAttention.o",),
        "attention_norm": ("0.layer_norm",),
        "feed_forward.inner": tuple(f"{last}.DenseReluDense.{kind}" for kind in inner),
        "feed_forward.outer": (f"{last}.DenseReluDense.wo",),
        "feed_forward_norm": (f"{last}.layer_norm",),
    }
    if is_decoder:
        found |= {
            "cross.query": ("1.EncDecAttention.q",),
            "cross.key_value": ("1.EncDecAttention.k", "1.EncDecAttention.v"),
            "cross.output": ("1.EncDecAttention.o",),
            "cross_norm": ("1.layer_norm",),
        }
    return {f"{ours}{name}.weight": tuple(f"{theirs}{part}.weight" for part in parts) for name, parts in found.items()}
