"""BERT and RoBERTa as Hugging Face keeps them: config.json and tensors to canon's and back.

Google's and the Chinese checkpoints of BERT, sentence encoders made of it (MiniLM …), RoBERTa, XLM-RoBERTa and
CamemBERT, and what has their form. UniLM is BERT with six kinds of segments. canon stacks queries, keys and values,
which their files keep apart. RoBERTa's first rows of positions, up to its padding's id, stand for padding: they are
left out here and are zeros on the way back. BERT's `next_sentence` is whether there is a head for it.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import torch

from canon.config import Table
from canon.errors import CanonError
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
from canon.interop.network import Tensors

ACTIVATIONS = {  # theirs: canon's
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "relu": "relu",
}
RESERVED = 2  # rows of positions before a sequence's first in the published RoBERTa, whose padding is token 1
_FIELDS = {  # canon's name: theirs, and what is meant where it is absent
    "vocab_size": ("vocab_size", 30522),
    "dim": ("hidden_size", 768),
    "num_layers": ("num_hidden_layers", 12),
    "num_heads": ("num_attention_heads", 12),
    "hidden": ("intermediate_size", 3072),
    "eps": ("layer_norm_eps", 1e-12),
    "dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
}
_BLOCK = {  # canon's layer in a block: theirs
    "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feed_forward.inner": ("intermediate.dense",),
    "feed_forward.outer": ("output.dense",),
    "feed_forward_norm": ("output.LayerNorm",),
}
_SEGMENTS = {"bert": 2, "unilm": 6, "roberta": 1}


def config_from(table: Table, system: str) -> Table:
    """The settings of canon's network that a config.json asks for."""
    refuse(table, "position_embedding_type", "absolute", None)
    refuse(table, "is_decoder", False)
    refuse(table, "add_cross_attention", False)
    # The head of their RoBERTa has GELU whatever the blocks have; canon's has what these have.
    refuse(table, "hidden_act", *(ACTIVATIONS if system != "roberta" else ("gelu",)))
    if system == "roberta":
        refuse(table, "type_vocab_size", 1)
    settings = fields_of(table, _FIELDS)
    settings["activation"] = ACTIVATIONS[table.get("hidden_act", "gelu")]
    positions = field_of(table, "max_position_embeddings", 512)
    settings["max_positions"] = positions - (reserved(table) if system == "roberta" else 0)
    return settings


def config_to(settings: Table, system: str) -> Table:
    """The config.json of canon's network with these settings."""
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}  # the first of each
    is_roberta = system == "roberta"
    if is_roberta and settings["activation"] != "gelu":
        raise CanonError(f'system.activation is "{settings["activation"]}", and RoBERTa there has "gelu" in its head.')
    kind = "BertForPreTraining" if not is_roberta and settings["next_sentence"] else "BertForMaskedLM"
    return {
        "architectures": ["RobertaForMaskedLM" if is_roberta else kind],
        "model_type": "roberta" if is_roberta else "bert",
        **{theirs: settings[ours] for ours, (theirs, _) in _FIELDS.items()},
        "hidden_act": activations[settings["activation"]],
        "max_position_embeddings": settings["max_positions"] + (reserved(settings) if is_roberta else 0),
        "type_vocab_size": _SEGMENTS[system],
        "tie_word_embeddings": True,
    }


def reserved(table: Table) -> int:
    """Rows of RoBERTa's positions that do not belong to a token's place."""
    return nullable(table, "pad_token_id", RESERVED - 1, least=0) + 1


def _tensors_from(theirs: Tensors, settings: Table, system: str) -> Tensors:
    ours = gather(theirs, _names(settings, system))
    if system == "roberta":
        rows = ours["embedding.position.weight"]
        ours["embedding.position.weight"] = rows[len(rows) - settings["max_positions"] :].clone()
    return ours


def _tensors_to(ours: Tensors, settings: Table, system: str) -> Tensors:
    theirs = spread(ours, _names(settings, system))
    if system == "roberta":
        name = "roberta.embeddings.position_embeddings.weight"
        theirs[name] = torch.cat([theirs[name].new_zeros(reserved(settings), settings["dim"]), theirs[name]])
    return theirs


def _names(settings: Table, system: str) -> Names:
    """Each of canon's tensors, and theirs that it is made of, one below the other."""
    base = "roberta." if system == "roberta" else "bert."
    tables = {"token": "word_embeddings", "position": "position_embeddings", "segment": "token_type_embeddings"}
    names: Names = {f"embedding.{ours}.weight": (f"{base}embeddings.{name}.weight",) for ours, name in tables.items()}
    names |= both("embedding.norm", f"{base}embeddings.LayerNorm")
    names |= block_names(settings["num_layers"], f"{base}encoder.layer.", _BLOCK)
    if system == "roberta":
        names |= both("head.dense", "lm_head.dense") | both("head.norm", "lm_head.layer_norm")
        return names | {"head.bias": ("lm_head.bias",)}
    names |= both("head.dense", "cls.predictions.transform.dense")
    names |= both("head.norm", "cls.predictions.transform.LayerNorm")
    names |= {"head.bias": ("cls.predictions.bias",)} | both("pooler", "bert.pooler.dense")
    return names | both("next", "cls.seq_relationship") if settings["next_sentence"] else names


def _family(system: str) -> Family:
    is_roberta = system == "roberta"
    base, head = ("roberta.", "lm_head") if is_roberta else ("bert.", "cls.predictions")
    return Family(
        system=system,
        model_types=("roberta", "xlm-roberta", "camembert") if is_roberta else ("bert",),
        architectures=("RobertaForMaskedLM", "RobertaModel")
        if is_roberta
        else ("BertForPreTraining", "BertForMaskedLM", "BertModel"),
        config_from=partial(config_from, system=system),
        config_to=partial(config_to, system=system),
        tensors_from=partial(_tensors_from, system=system),
        tensors_to=partial(_tensors_to, system=system),
        prefix=base,
        roots=("embeddings.", "encoder.", "pooler."),
        ties={
            f"{head}.decoder.weight": f"{base}embeddings.word_embeddings.weight",
            f"{head}.decoder.bias": f"{head}.bias",
        },
        buffers=r"embeddings\.(position_ids|token_type_ids)$",
        # RoBERTa's pooler was never trained; classifiers and the like belong to one task.
        heads=r"^(classifier|qa_outputs|score|logits_proj)\b" + (r"|^roberta\.pooler\." if is_roberta else ""),
        optional=(rf"^{re.escape(head)}\.", r"^bert\.pooler\."),
        ends=("cls", "sep"),
        switches={} if is_roberta else {"next_sentence": "cls.seq_relationship.weight"},
    )


FAMILIES = {system: _family(system) for system in _SEGMENTS}


def choose(table: Table, path: Path) -> Family:
    """BERT, or UniLM where a config.json has its six kinds of segments."""
    kinds = table.get("type_vocab_size", 2)
    for system in ("bert", "unilm"):
        if kinds == _SEGMENTS[system]:
            return FAMILIES[system]
    raise CanonError(f"{path}: type_vocab_size is {kinds!r}; canon has BERT with 2 and UniLM with 6.")
