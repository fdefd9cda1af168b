"""Fine-tuned networks as Hugging Face's folders: the backbone's tensors, and a head under the name it has there.

Heads are Devlin et al. 2019's (arXiv:1810.04805, section 4), on the backbone's last layer alone; `ARCHITECTURES` has
the classes of transformers that compute the same. RoBERTa's for whole texts do not: a dense layer and tanh come before.
`write_folder` writes; folders are read without their heads, by huggingface.py.
A number there is in the data's own unit: W s and b s + ȳ, where canon's head gives (y − ȳ)/s. GPT's head for whole
texts has no bias there: since only this head reads the last norm's output γ ⊙ z + β, β becomes β + δ with W δ = b, so
that it gives W(γ ⊙ z + β) + b (`_into_norm`). Texts are read there as here (`as_read`): a tokeniser without <pad>,
which batches need, gets one and the embeddings a row of zeros for it; <eos> stands after a text of GPT's.
Deviations: none. Shapes: C outputs, D features of the backbone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from canon.config import Table
from canon.data.schema import Schema
from canon.data.targets import Choice, Class, Number, Span, Tags, Target
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop.huggingface import FAMILIES, save_folder, special_ids
from canon.interop.huggingface_family import empty_tensors
from canon.interop.huggingface_tokenizers import template
from canon.systems.pretrained.finetune import Config, asked, backbone_config

_GPT2: dict[type[Target], str] = {
    Class: "GPT2ForSequenceClassification",
    Number: "GPT2ForSequenceClassification",
    Tags: "GPT2ForTokenClassification",
    Span: "GPT2ForQuestionAnswering",
}
ARCHITECTURES: dict[str, dict[type[Target], str]] = {  # by backbone and target
    "bert": {
        Class: "BertForSequenceClassification",
        Number: "BertForSequenceClassification",
        Tags: "BertForTokenClassification",
        Span: "BertForQuestionAnswering",
        Choice: "BertForMultipleChoice",
    },
    "roberta": {Tags: "RobertaForTokenClassification", Span: "RobertaForQuestionAnswering"},
    "gpt": {Class: "OpenAIGPTForSequenceClassification", Number: "OpenAIGPTForSequenceClassification"},
    "gpt2": _GPT2,
    "gpt3": _GPT2,
}
_BACKBONE, _TOKENS = "backbone.", "embedding.token.weight"
_PROBLEMS: dict[type[Target], str] = {Class: "single_label_classification", Number: "regression"}
_CLOSE = 1e-6  # how far W δ may be from b, where that is over 1 as a share of it


def write_folder(path: str | Path, config: Config, tensors: Mapping[str, Tensor], schema: Schema) -> list[str]:
    """A folder that AutoModelFor… of the target reads, whole or not at all; the names of its tensors."""
    system, backbone_settings = backbone_config(config)
    target = asked(config)
    architecture = _architecture(system.name, target, config)
    settings = dict(vars(backbone_settings))
    backbone = {n.removeprefix(_BACKBONE): tensor for n, tensor in tensors.items() if n.startswith(_BACKBONE)}
    tokenizer = schema.tokenizers.get("text")
    if tokenizer is not None:
        network: Any = system.load()[1]
        if tokenizer.specials.pad < 0 and tokenizer.size == settings["vocab_size"]:  # a row for <pad>
            settings["vocab_size"] += 1
            backbone[_TOKENS] = torch.cat([backbone[_TOKENS], backbone[_TOKENS].new_zeros(1, settings["dim"])])
        tokenizer = as_read(tokenizer, network.framing)
    family = FAMILIES[system.name]
    everything = {**settings, **special_ids(family, tokenizer)}
    # What only pre-training uses is not there: it goes through without numbers and is left out.
    every = family.tensors_to(empty_tensors(system.name, settings) | backbone, everything)
    theirs = {name: tensor for name, tensor in every.items() if not tensor.is_meta}
    weight_CD, bias_C = tensors["head.weight"].double(), tensors["head.bias"].double()
    if isinstance(schema.target, Number):
        weight_CD, bias_C = weight_CD * schema.target.std, bias_C * schema.target.std + schema.target.mean
    if norm := _last_norm(architecture, settings):
        theirs[norm] = _into_norm(theirs[norm], weight_CD, bias_C, architecture)
        theirs["score.weight"] = weight_CD.float()
    else:
        head = "qa_outputs" if target is Span else "classifier"
        theirs |= {f"{head}.weight": weight_CD.float(), f"{head}.bias": bias_C.float()}
    table = {**family.config_to(everything), "architectures": [architecture], "classifier_dropout": config.dropout}
    save_folder(Path(path), family, settings, table | _labels(target, config, schema), theirs, tokenizer)
    return list(theirs)


def _architecture(backbone: str, target: type[Target], config: Config) -> str:
    """The class of transformers that computes what the network does; a sentence where there is none."""
    can = ", ".join(f"{name} ({', '.join(each.name for each in known)})" for name, known in ARCHITECTURES.items())
    pools = config.pooling != "own" and target in (Class, Number, Choice)
    if config.layers != (-1,) or config.mix or config.lstm or pools:
        raise CanonError(
            "No class of transformers has what system.layers, system.mix, system.lstm or system.pooling put before the "
            f"head; only a head on the last layer can be written as a Hugging Face folder: {can}."
        )
    if target not in ARCHITECTURES.get(backbone, {}):
        raise CanonError(
            f'No class of transformers computes what {backbone} with system.kind = "{target.name}" does; these can be '
            f"written as a Hugging Face folder: {can}."
        )
    return ARCHITECTURES[backbone][target]


def _labels(target: type[Target], config: Config, schema: Schema) -> Table:
    """What config.json says of the outputs; nothing of places and choices."""
    table: Table = {"problem_type": _PROBLEMS[target]} if target in _PROBLEMS else {}
    if target in (Span, Choice):
        return table
    names = schema.classes or tuple(map(str, range(config.num_classes)))
    if target is Number:
        names = (schema.target.label or target.name,)
    codes = {name: code for code, name in enumerate(names)}
    return {**table, "num_labels": len(names), "id2label": {str(c): n for n, c in codes.items()}, "label2id": codes}


def _last_norm(architecture: str, settings: Mapping[str, Any]) -> str:
    """The bias of the norm below a head that has none itself; "" where it has one."""
    if architecture == "GPT2ForSequenceClassification":
        return "transformer.ln_f.bias"
    if architecture == "OpenAIGPTForSequenceClassification":
        return f"transformer.h.{settings['num_layers'] - 1}.ln_2.bias"
    return ""


def _into_norm(norm_D: Tensor, weight_CD: Tensor, bias_C: Tensor, architecture: str) -> Tensor:
    """β + δ, δ the smallest with W δ = b; a sentence where there is none, or rounding would show."""
    moved_D = (norm_D + torch.linalg.pinv(weight_CD) @ bias_C).float()
    error_C = weight_CD @ (moved_D.double() - norm_D.double()) - bias_C
    if error_C.abs().max() > _CLOSE * max(1.0, bias_C.abs().max().item()):
        raise CanonError(
            f"{architecture} has a head without bias, and that of the run cannot go into the last norm, since the rows "
            "of the head's weight are not independent; only with a bias of zeros could such a head be written."
        )
    return moved_D


def as_read(tokenizer: Tokenizer, framing: str) -> Tokenizer:
    """The tokeniser with <pad> and, for GPT, with <eos> after a text; canon's own framing does not need these."""
    plain = json.loads(tokenizer.to_json())
    if tokenizer.specials.pad < 0:
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        plain["added_tokens"].append({"id": tokenizer.size, "content": "<pad>", **flags})
    if framing == "gpt" and tokenizer.specials.eos >= 0:
        before = plain["post_processor"] or {}
        # ByteLevel cuts spaces from offsets; other steps would put special tokens around the text a second time.
        steps = [step for step in before.get("processors", [before]) if step.get("type") == "ByteLevel"]
        plain["post_processor"] = {"type": "Sequence", "processors": [*steps, template(tokenizer, framing)]}
    return Tokenizer.from_json(json.dumps(plain))
