"""XLNet as Hugging Face keeps it: config.json and tensors to canon's and back.

Their projections are [D, H, d] and apart; canon's are matrices of linear layers, queries, keys and values one below the
other. Their sinusoids hold all sines before all cosines, canon's alternate: the columns of what multiplies them move.
Ids of special tokens are the tokenizer's business: write_folder adds them.
"""

from __future__ import annotations

import torch

from canon.config import Table
from canon.errors import CanonError
from canon.interop.huggingface_family import Family, field_of, fields_of, nullable, refuse
from canon.interop.network import Tensors, sines_first

_ARCHITECTURES = ("XLNetLMHeadModel", "XLNetModel")

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


def config_from(table: Table) -> Table:
    """The settings of canon's XLNet that a config.json asks for."""
    for name, wanted in _FIXED.items():
        refuse(table, name, wanted)
    if field_of(table, "clamp_len", -1, least=-(1 << 31)) > 0:
        raise CanonError(f"config.json: clamp_len must be −1 for XLNet, got {table['clamp_len']}.")
    names = {theirs: ours for ours, theirs in _ACTIVATIONS.items()}
    refuse(table, "ff_activation", *names)
    settings = fields_of(table, _FIELDS)
    width = settings["dim"] // settings["num_heads"]
    if nullable(table, "d_head", width) != width:
        raise CanonError(
            f"config.json: d_head is {table['d_head']}, but d_model / n_head is {width}; one of them is wrong."
        )
    settings["activation"] = names[table.get("ff_activation", "gelu")]
    settings["memory"] = nullable(table, "mem_len", 0, least=0)
    settings["dropout"] = settings["attention_dropout"] = field_of(table, "dropout", 0.1)
    return settings


def config_to(settings: Table) -> Table:
    """The config.json of canon's XLNet with these settings, all of them."""
    return {
        "architectures": [_ARCHITECTURES[0]],
        "model_type": "xlnet",
        **_FIXED,
        **{theirs: settings[ours] for ours, (theirs, _) in _FIELDS.items()},
        "d_head": settings["dim"] // settings["num_heads"],
        "ff_activation": _ACTIVATIONS[settings["activation"]],
        "mem_len": settings["memory"] or None,
        "dropout": settings["dropout"],
    }


def tensors_from(theirs: Tensors, settings: Table) -> Tensors:
    """canon's tensors of theirs."""
    ours = {
        "embedding.token.weight": theirs["transformer.word_embedding.weight"],
        "embedding.query": theirs["transformer.mask_emb"].flatten(),
        "head.bias": theirs["lm_loss.bias"],
    }
    order = sines_first(settings["dim"])
    for i in range(settings["num_layers"]):
        block, layer = f"layers.blocks.{i}.", f"transformer.layer.{i}."
        ours |= {block + name: theirs[layer + other] for name, other in _SAME.items()}
        # [D, H, d] to [H d, D]
        query, key, value, relative = (theirs[f"{layer}rel_attn.{kind}"].flatten(1).T for kind in "qkvr")
        ours[block + "attention.qkv.weight"] = torch.cat([query, key, value])
        ours[block + "attention.relative.weight"] = relative[:, order].contiguous()
        ours[block + "attention.output.weight"] = theirs[f"{layer}rel_attn.o"].flatten(1)
    return ours


def tensors_to(ours: Tensors, settings: Table) -> Tensors:
    """Their tensors of canon's; the head's matrix is that of the embeddings and not written twice."""
    shape = settings["dim"], settings["num_heads"], settings["dim"] // settings["num_heads"]
    theirs = {
        "transformer.word_embedding.weight": ours["embedding.token.weight"],
        "transformer.mask_emb": ours["embedding.query"][None, None],
        "lm_loss.bias": ours["head.bias"],
    }
    order = sines_first(settings["dim"]).argsort()
    for i in range(settings["num_layers"]):
        block, layer = f"layers.blocks.{i}.", f"transformer.layer.{i}."
        theirs |= {layer + other: ours[block + name] for name, other in _SAME.items()}
        relative = ours[block + "attention.relative.weight"][:, order]
        for kind, part in zip("qkvr", (*ours[block + "attention.qkv.weight"].chunk(3), relative), strict=True):
            theirs[f"{layer}rel_attn.{kind}"] = part.T.reshape(shape)
        theirs[f"{layer}rel_attn.o"] = ours[block + "attention.output.weight"].reshape(shape)
    return {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in theirs.items()}


FAMILY = Family(
    system="xlnet",
    model_types=("xlnet",),
    architectures=_ARCHITECTURES,
    config_from=config_from,
    config_to=config_to,
    tensors_from=tensors_from,
    tensors_to=tensors_to,
    prefix="transformer.",
    roots=("word_embedding.", "mask_emb", "layer."),
    ties={"lm_loss.weight": "transformer.word_embedding.weight"},
    heads=r"^(sequence_summary|logits_proj|classifier|qa_outputs|start_logits|end_logits|answer_class)\b",
    optional=(r"^lm_loss\.bias$",),
)
