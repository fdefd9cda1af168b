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
    Settings,
    Tensors,
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
_TRANSPOSED = r"\.(c_attn|c_proj|c_fc)\.weight$"
_BASE = "transformer."
_GPT_ACTIVATIONS = {"gelu": "gelu-tanh", "relu": "relu"}


def config_from(table: Table, system: str) -> Table:
    """The settings of canon's network that a config.json asks for."""
    first = system == "gpt"
    found = fields_of(table, _FIELDS)
    found["vocab_size"] = field_of(table, "vocab_size", 40478 if first else 50257)
    found["max_positions"] = field_of(table, "n_positions", 512 if first else 1024)
    if first:
        refuse(table, "afn", *_GPT_ACTIVATIONS)
        found["activation"] = _GPT_ACTIVATIONS[table.get("afn", "gelu")]
    else:
        refuse(table, "activation_function", "gelu_new", *ACTIVATIONS)
        refuse(table, "scale_attn_weights", True)
        refuse(table, "scale_attn_by_inverse_layer_idx", False)
        refuse(table, "add_cross_attention", False)
        found["activation"] = ACTIVATIONS[table.get("activation_function", "gelu_new")]
    found["hidden"] = 4 * found["dim"] if first else nullable(table, "n_inner", 4 * found["dim"])
    return found


def config_to(settings: Settings, system: str) -> Table:
    """The config.json of canon's network with these settings; a sentence where it cannot be said."""
    if settings.get("sparse", "none") != "none":
        raise CanonError(
            f'system.sparse is "{settings["sparse"]}", and GPT-2 as Hugging Face has it sees everything in all layers; '
            'only sparse = "none" can be written.'
        )
    known = _GPT_ACTIVATIONS if system == "gpt" else ACTIVATIONS
    theirs = {own: name for name, own in reversed(known.items())}
    if settings["activation"] not in theirs:
        raise CanonError(f'system.activation is "{settings["activation"]}", which Hugging Face\'s {system} has not.')
    if system == "gpt" and settings["hidden"] != 4 * settings["dim"]:
        raise CanonError(
            f"system.hidden is {settings['hidden']}, and GPT as Hugging Face has it needs 4 · {settings['dim']}."
        )
    told: Table = {own: settings[ours] for ours, (own, _) in _FIELDS.items()}
    told |= {
        "vocab_size": settings["vocab_size"],
        "n_positions": settings["max_positions"],
        "n_ctx": settings["max_positions"],  # which readers of before 2020 ask for
        "embd_pdrop": settings["dropout"],
        "tie_word_embeddings": True,
    }
    if system == "gpt":
        more = {"afn": theirs[settings["activation"]]}
        return {"architectures": ["OpenAIGPTLMHeadModel"], "model_type": "openai-gpt", **told, **more}
    told |= {"activation_function": theirs[settings["activation"]], "n_inner": settings["hidden"]}
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", **told}


def _tensors_from(tensors: Tensors, settings: Settings, system: str) -> Tensors:
    return gather(tensors, _names(settings, system), _TRANSPOSED)


def _tensors_to(tensors: Tensors, settings: Settings, system: str) -> Tensors:
    return spread(tensors, _names(settings, system), _TRANSPOSED)


def _names(settings: Settings, system: str) -> Names:
    """Each of canon's tensors, and theirs."""
    first = system == "gpt"
    found: Names = {
        "embedding.token.weight": (f"{_BASE}{'tokens_embed' if first else 'wte'}.weight",),
        "embedding.position.weight": (f"{_BASE}{'positions_embed' if first else 'wpe'}.weight",),
    }
    for i in range(settings["num_layers"]):
        ours, theirs = f"layers.blocks.{i}.", f"{_BASE}h.{i}."
        found |= both(f"{ours}attention.qkv", f"{theirs}attn.c_attn")
        found |= both(f"{ours}attention.output", f"{theirs}attn.c_proj")
        found |= both(f"{ours}attention_norm", f"{theirs}ln_1")
        found |= both(f"{ours}feed_forward.inner", f"{theirs}mlp.c_fc")
        found |= both(f"{ours}feed_forward.outer", f"{theirs}mlp.c_proj")
        found |= both(f"{ours}feed_forward_norm", f"{theirs}ln_2")
    return found if first else found | both("layers.norm", f"{_BASE}ln_f")


def _family(system: str) -> Family:
    first = system == "gpt"
    return Family(
        system=system,
        model_types=("openai-gpt",) if first else ("gpt2",),
        architectures=("OpenAIGPTLMHeadModel", "OpenAIGPTModel") if first else ("GPT2LMHeadModel", "GPT2Model"),
        config_from=partial(config_from, system=system),
        config_to=partial(config_to, system=system),
        tensors_from=partial(_tensors_from, system=system),
        tensors_to=partial(_tensors_to, system=system),
        prefix=_BASE,
        roots=("tokens_embed.", "positions_embed.", "h.") if first else ("wte.", "wpe.", "h.", "ln_f."),
        ties={"lm_head.weight": f"{_BASE}{'tokens_embed' if first else 'wte'}.weight"},
        buffers=r"\.attn\.(bias|masked_bias)$|position_ids$",  # masks of what a token sees
        heads=r"^(score|classifier|multiple_choice_head|qa_outputs)\b",
    )


FAMILIES = {system: _family(system) for system in ("gpt", "gpt2", "gpt3")}
