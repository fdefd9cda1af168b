"""T5 as Hugging Face keeps it: config.json and tensors to canon's and back.

Google's checkpoints of T5 and T5 1.1, Flan-T5 and what has their form. Tensors are the same numbers; canon stacks
queries, keys and values (and the two inner matrices of gated networks) that their files keep apart.
An unscaled output is canon's `tie = false`; where such a file has no lm_head of its own, its embeddings are copied.
Ids of special tokens are the tokenizer's business: write_folder adds pad_token_id, eos_token_id and
decoder_start_token_id (which is pad's).
"""

from __future__ import annotations

from canon.config import Table
from canon.interop.huggingface_family import Family, Names, field_of, fields_of, gather, nullable, refuse, spread
from canon.interop.network import Tensors

_ARCHITECTURES = ("T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model")

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


def config_from(table: Table) -> Table:
    """The settings of canon's T5 that a config.json asks for."""
    refuse(table, "feed_forward_proj", "relu", "gated-gelu")
    settings = fields_of(table, _FIELDS)
    settings["decoder_layers"] = nullable(table, "num_decoder_layers", settings["num_layers"])
    # Newer files always say that weights are tied; T5 1.1 is known by its output, which is not scaled.
    settings["tie"] = field_of(table, "tie_word_embeddings", True) and field_of(table, "scale_decoder_outputs", True)
    settings["dropout"] = settings["attention_dropout"] = field_of(table, "dropout_rate", 0.1)
    return settings


def config_to(settings: Table) -> Table:
    """The config.json of canon's T5 with these settings, all of them."""
    return {
        "architectures": [_ARCHITECTURES[0]],
        "model_type": "t5",
        "is_encoder_decoder": True,
        **{theirs: settings[ours] for ours, (theirs, _) in _FIELDS.items()},
        "num_decoder_layers": settings["decoder_layers"] or settings["num_layers"],
        "tie_word_embeddings": settings["tie"],
        "dropout_rate": settings["dropout"],
    }


def tensors_from(tensors: Tensors, settings: Table) -> Tensors:
    """canon's tensors of theirs."""
    return gather(tensors, _names(settings))


def tensors_to(tensors: Tensors, settings: Table) -> Tensors:
    """Their tensors of canon's; what is tied is there once."""
    return spread(tensors, _names(settings))


def _names(settings: Table) -> Names:
    """Each of canon's tensors, and theirs that it is made of, one below the other."""
    names: Names = {"embedding.token.weight": ("shared.weight",)}
    if not settings["tie"]:
        names["head.weight"] = ("lm_head.weight",)
    layers = {"encoder": settings["num_layers"], "decoder": settings["decoder_layers"] or settings["num_layers"]}
    for side, count in layers.items():
        names[f"{side}.positions.weight"] = (f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",)
        names[f"{side}.norm.weight"] = (f"{side}.final_layer_norm.weight",)
        for i in range(count):
            names |= _block(f"{side}.blocks.{i}.", f"{side}.block.{i}.layer.", settings, side == "decoder")
    return names


def _block(ours: str, theirs: str, settings: Table, is_decoder: bool) -> Names:
    last = 2 if is_decoder else 1
    inner = ("wi",) if settings["activation"] == "relu" else ("wi_0", "wi_1")
    names = {
        "attention.qkv": tuple(f"0.SelfAttention.{kind}" for kind in "qkv"),
        "attention.output": ("0.SelfAttention.o",),
        "attention_norm": ("0.layer_norm",),
        "feed_forward.inner": tuple(f"{last}.DenseReluDense.{kind}" for kind in inner),
        "feed_forward.outer": (f"{last}.DenseReluDense.wo",),
        "feed_forward_norm": (f"{last}.layer_norm",),
    }
    if is_decoder:
        names |= {
            "cross.query": ("1.EncDecAttention.q",),
            "cross.key_value": ("1.EncDecAttention.k", "1.EncDecAttention.v"),
            "cross.output": ("1.EncDecAttention.o",),
            "cross_norm": ("1.layer_norm",),
        }
    return {f"{ours}{name}.weight": tuple(f"{theirs}{part}.weight" for part in parts) for name, parts in names.items()}


FAMILY = Family(
    system="t5",
    model_types=("t5",),
    architectures=_ARCHITECTURES,
    config_from=config_from,
    config_to=config_to,
    tensors_from=tensors_from,
    tensors_to=tensors_to,
    ties={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    buffers=r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",  # never used
    decodes=True,
    heads=r"^(classification_head|classifier|qa_outputs)\b",
)
