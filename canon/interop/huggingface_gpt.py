"""GPT and GPT-2 as Hugging Face keeps them: config.json and tensors to canon's and back.

OpenAI's checkpoints and what has their form (DistilGPT-2 …). The files keep matrices [in, out], canon [out, in]. GPT-3
is GPT-2 where all its layers are dense; with a band it has no counterpart there. GPT's "gelu" is the one by tanh.
"""

from __future__ import annotations

from functools import partial

from canon.config import Table
from canon.errors import CanonError
from canon.interop.huggingface_bert import ACTIVATIONS
from canon.interop.huggingface_family import (
    Family,
    Names,
    block_names,
    both,
    field_of,
    fields_of,
    gather,
    nullable,
    refuse,
    spread,
)

_FIELDS = {  # canon's name: theirs, and what is meant where it is absent
    "dim": ("n_embd", 768),
    "num_layers": ("n_layer", 12),
    "num_heads": ("n_head", 12),
    "eps": ("layer_norm_epsilon", 1e-5),
    "dropout": ("resid_pdrop", 0.1),
    "attention_dropout": ("attn_pdrop", 0.1),
}
_BLOCK = {  # canon's layer in a block: theirs
    "attention.qkv": ("attn.c_attn",),
    "attention.output": ("attn.c_proj",),
    "attention_norm": ("ln_1",),
    "feed_forward.inner": ("mlp.c_fc",),
    "feed_forward.outer": ("mlp.c_proj",),
    "feed_forward_norm": ("ln_2",),
}
_TRANSPOSED = r"\.(c_attn|c_proj|c_fc)\.weight$"
_BASE = "transformer."
_GPT_ACTIVATIONS = {"gelu": "gelu-tanh", "relu": "relu"}


def config_from(table: Table, system: str) -> Table:
    """The settings of canon's network that a config.json asks for."""
    first = system == "gpt"
    settings = fields_of(table, _FIELDS)
    settings["vocab_size"] = field_of(table, "vocab_size", 40478 if first else 50257)
    settings["max_positions"] = field_of(table, "n_positions", 512 if first else 1024)
    if first:
        refuse(table, "afn", *_GPT_ACTIVATIONS)
        settings["activation"] = _GPT_ACTIVATIONS[table.get("afn", "gelu")]
    else:
        refuse(table, "activation_function", "gelu_new", *ACTIVATIONS)
        refuse(table, "scale_attn_weights", True)
        refuse(table, "scale_attn_by_inverse_layer_idx", False)
        refuse(table, "add_cross_attention", False)
        settings["activation"] = ACTIVATIONS[table.get("activation_function", "gelu_new")]
    settings["hidden"] = 4 * settings["dim"] if first else nullable(table, "n_inner", 4 * settings["dim"])
    return settings


def config_to(settings: Table, system: str) -> Table:
    """The config.json of canon's network with these settings; a sentence where it cannot be said."""
    if settings.get("sparse", "none") != "none":
        raise CanonError(
            f'system.sparse is "{settings["sparse"]}", and GPT-2 as Hugging Face has it sees everything in all layers; '
            'only sparse = "none" can be written.'
        )
    first, activation = system == "gpt", settings["activation"]
    theirs = {ours: name for name, ours in reversed((_GPT_ACTIVATIONS if first else ACTIVATIONS).items())}
    if activation not in theirs:
        raise CanonError(f'system.activation is "{activation}", which Hugging Face\'s {system} does not have.')
    if first and settings["hidden"] != 4 * settings["dim"]:
        raise CanonError(
            f"system.hidden is {settings['hidden']}, and GPT as Hugging Face has it needs 4 · {settings['dim']}."
        )
    inner = {"activation_function": theirs[activation], "n_inner": settings["hidden"]}
    return {
        "architectures": ["OpenAIGPTLMHeadModel" if first else "GPT2LMHeadModel"],
        "model_type": "openai-gpt" if first else "gpt2",
        **{name: settings[ours] for ours, (name, _) in _FIELDS.items()},
        "vocab_size": settings["vocab_size"],
        "n_positions": settings["max_positions"],
        "n_ctx": settings["max_positions"],  # which readers of before 2020 ask for
        "embd_pdrop": settings["dropout"],
        "tie_word_embeddings": True,
        **({"afn": theirs[activation]} if first else inner),
    }


def _names(settings: Table, system: str) -> Names:
    """Each of canon's tensors, and theirs."""
    token, position = ("tokens_embed", "positions_embed") if system == "gpt" else ("wte", "wpe")
    names: Names = {
        "embedding.token.weight": (f"{_BASE}{token}.weight",),
        "embedding.position.weight": (f"{_BASE}{position}.weight",),
    }
    names |= block_names(settings["num_layers"], f"{_BASE}h.", _BLOCK)
    return names if system == "gpt" else names | both("layers.norm", f"{_BASE}ln_f")


def _family(system: str) -> Family:
    first = system == "gpt"
    return Family(
        system=system,
        model_types=("openai-gpt",) if first else ("gpt2",),
        architectures=("OpenAIGPTLMHeadModel", "OpenAIGPTModel") if first else ("GPT2LMHeadModel", "GPT2Model"),
        config_from=partial(config_from, system=system),
        config_to=partial(config_to, system=system),
        tensors_from=lambda theirs, settings: gather(theirs, _names(settings, system), _TRANSPOSED),
        tensors_to=lambda ours, settings: spread(ours, _names(settings, system), _TRANSPOSED),
        prefix=_BASE,
        roots=("tokens_embed.", "positions_embed.", "h.") if first else ("wte.", "wpe.", "h.", "ln_f."),
        ties={"lm_head.weight": f"{_BASE}{'tokens_embed' if first else 'wte'}.weight"},
        buffers=r"\.attn\.(bias|masked_bias)$|position_ids$",  # masks of what a token sees
        heads=r"^(score|classifier|multiple_choice_head|qa_outputs)\b",
    )


FAMILIES = {system: _family(system) for system in ("gpt", "gpt2", "gpt3")}
