"""Hugging Face's folders, both ways: config.json, model.safetensors, tokenizer files.

`read_folder` makes a system's settings, tensors and tokeniser of one; `write_folder` writes one that
AutoModel.from_pretrained and AutoTokenizer.from_pretrained take. Networks: BERT, UniLM and RoBERTa
(huggingface_bert.py), GPT and GPT-2 (huggingface_gpt.py), T5 (huggingface_t5.py), XLNet (huggingface_xlnet.py); what
does not fit is listed by huggingface_family.py. Fine-tuned ones are written by huggingface_finetuned.py.
Weights are read from model.safetensors, its shards, or pytorch_model.bin with tensors only. Nothing is downloaded, and
no code of a folder is run.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from canon import registry
from canon.config import Table
from canon.data.text.tokenizer_folder import read_json, read_tokenizer
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError, border, unknown
from canon.interop import huggingface_bert, huggingface_gpt, huggingface_t5, huggingface_tokenizers, huggingface_xlnet
from canon.interop.huggingface_family import Family, Tensors
from canon.interop.vision import Report
from canon.interop.weights import read_tensors
from canon.storage import writing_folder

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Settings by which networks of one system differ, beside their vocabulary; and those of T5 alone.
_COMMON_SIZES = ("dim", "num_layers", "num_heads", "hidden", "max_positions", "activation")
_SIZES = (*_COMMON_SIZES, "decoder_layers", "head_dim", "num_buckets", "tie")
_ROWS = ("embedding.token.weight", "head.weight", "head.bias")  # tensors with a row for each token
_ROUND = 128  # rows of an embedding are rounded up to a multiple of this in some files

_T5 = Family(
    system="t5",
    model_types=("t5",),
    architectures=huggingface_t5.ARCHITECTURES,
    config_from=huggingface_t5.config_from,
    config_to=huggingface_t5.config_to,
    tensors_from=huggingface_t5.tensors_from,
    tensors_to=huggingface_t5.tensors_to,
    ties={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    },
    buffers=r"^decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight$",  # never used
    heads=r"^(classification_head|classifier|qa_outputs)\b",
)
_XLNET = Family(
    system="xlnet",
    model_types=("xlnet",),
    architectures=huggingface_xlnet.ARCHITECTURES,
    config_from=huggingface_xlnet.config_from,
    config_to=huggingface_xlnet.config_to,
    tensors_from=huggingface_xlnet.tensors_from,
    tensors_to=huggingface_xlnet.tensors_to,
    prefix="transformer.",
    roots=("word_embedding.", "mask_emb", "layer."),
    ties={"lm_loss.weight": "transformer.word_embedding.weight"},
    heads=r"^(sequence_summary|logits_proj|classifier|qa_outputs|start_logits|end_logits|answer_class)\b",
    optional=(r"^lm_loss\.bias$",),
)
FAMILIES: dict[str, Family] = {
    **huggingface_bert.FAMILIES,
    **huggingface_gpt.FAMILIES,
    "t5": _T5,
    "xlnet": _XLNET,
}


@dataclass(frozen=True)
class Found:
    """What a folder holds, in canon's terms."""

    path: Path
    weights: Path  # its file of weights, or their index
    system: str
    settings: Table
    tensors: Tensors
    tokenizer: Tokenizer | None
    report: Report
    anew: tuple[str, ...]  # tensors, by their names, that the weights have not
    notes: tuple[str, ...]  # what was left out or made anew, in sentences


def is_folder(path: str | Path) -> bool:
    """Whether this is a folder of Hugging Face's, and no run."""
    path = Path(path).expanduser()
    return (path / "config.json").is_file() and not (path / "recipe.toml").is_file()


def read_folder(path: str | Path) -> Found:
    """The network and tokeniser of a folder; a sentence where something does not fit."""
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        raise CanonError(f"{folder} has no config.json, so it is no folder of Hugging Face's.")
    with border(folder):
        table = read_json(folder / "config.json")
        family = _family(table, folder)
        tensors, source = _read_weights(folder)
        try:
            taken = family.take(tensors, table, str(source))
        except CanonError as mistake:
            where = f"{folder}/" if str(mistake).startswith("config.json:") else ""
            raise CanonError(f"{where}{mistake}") from None
    tokenizer, named = read_tokenizer(folder)
    if tokenizer is not None:
        check_vocabulary(tokenizer, folder / named, taken.settings["vocab_size"], source)
    notes = tuple(f"{source}: {note}." for note in taken.notes())
    system, settings, anew = family.system, taken.settings, tuple(taken.anew)
    return Found(folder, source, system, settings, taken.tensors, tokenizer, taken.report, anew, notes)


def tensors_to_start_from(
    source: str, config: Any, tokenizer: Tokenizer | None = None
) -> tuple[Tensors, tuple[str, ...]]:
    """What a folder gives to a network with these settings, and notes; a sentence where they do not go together."""
    found = read_folder(source)
    own = {name: getattr(config, name) for name in _SIZES if name in found.settings and name in vars(config)}
    if unlike := [name for name, value in own.items() if value != found.settings[name]]:
        theirs = ", ".join(f"{name} = {found.settings[name]}" for name in unlike)
        ours = ", ".join(f"{name} = {own[name]}" for name in unlike)
        sets = " ".join(f"--set system.{name}={found.settings[name]}" for name in unlike)
        raise CanonError(
            f"train.init: {source} is a {found.system} with {theirs}, but the recipe has {ours}; to start from it add "
            f"{sets}"
        )
    if tokenizer is not None and found.tokenizer is not None and tokenizer.vocabulary != found.tokenizer.vocabulary:
        raise CanonError(
            f"train.init: {source} was trained with its own tokenizer of {found.tokenizer.size:,} tokens, which is not "
            f"the data's, of {tokenizer.size:,}: leave data.tokenizer out."
        )
    rows, wanted = found.settings["vocab_size"], vars(config).get("vocab_size", 0)
    if not own or rows == wanted:
        return found.tensors, found.notes
    if not wanted <= rows <= _rounded(wanted):
        raise CanonError(
            f"train.init: {found.weights} was trained with {rows:,} tokens, but the data's tokenizer has {wanted:,}; "
            f"use the tokenizer that belongs to those weights."
        )
    cut = {name: tensor[:wanted] if name in _ROWS else tensor for name, tensor in found.tensors.items()}
    return cut, found.notes


def check_vocabulary(tokenizer: Tokenizer, tokenizer_file: Path, rows: int, weights_file: Path) -> None:
    """Each token has a row; rows to spare are those of rounding only."""
    if not tokenizer.size <= rows <= _rounded(tokenizer.size):
        raise CanonError(
            f"{tokenizer_file} has {tokenizer.size:,} tokens but {weights_file} was trained with {rows:,}; use the "
            "tokenizer that belongs to those weights."
        )


def _rounded(size: int) -> int:
    return -(-size // _ROUND) * _ROUND


def _family(table: Table, folder: Path) -> Family:
    kind = table.get("model_type")
    if kind is None:  # files of before 2020
        listed = table.get("architectures")
        named = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        kind = next((f.model_types[0] for f in FAMILIES.values() if set(named) & set(f.architectures)), None)
    if kind is None:
        raise CanonError(f"{folder / 'config.json'} has no model_type; it is one of {', '.join(model_types())}.")
    if kind not in model_types():
        shown = kind if isinstance(kind, str) else reprlib.repr(kind)
        raise unknown(f"model_type ({folder / 'config.json'})", shown, model_types())
    if kind in huggingface_bert.FAMILIES["bert"].model_types:
        return huggingface_bert.choose(table, folder / "config.json")
    return next(family for family in FAMILIES.values() if kind in family.model_types)


def model_types() -> list[str]:
    """What config.json may say of its network."""
    return list(dict.fromkeys(kind for family in FAMILIES.values() for kind in family.model_types))


def _read_weights(folder: Path) -> tuple[Tensors, Path]:
    """All tensors, and the file to name where something is wrong with them."""
    for name in _WEIGHTS:
        if (folder / name).is_file():
            return read_tensors(str(folder / name)), folder / name
        index = folder / f"{name}.index.json"
        if index.is_file():
            parts = read_json(index).get("weight_map")
            if not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
                raise CanonError(f"{index} must have a weight_map, a table of tensors and the names of their files.")
            tensors: Tensors = {}
            for part in dict.fromkeys(parts.values()):
                if part != Path(part).name:
                    raise CanonError(f"{index} names {part}, which is not a file of the folder itself.")
                if not (folder / part).is_file():
                    raise CanonError(f"{index} names {part}, which is not there.")
                tensors |= read_tensors(str(folder / part))
            if lost := [tensor for tensor in parts if tensor not in tensors]:
                raise CanonError(f"{index} names tensors that its files have not: {', '.join(lost)}.")
            return tensors, index
    raise CanonError(f"{folder} has no weights: {' or '.join(_WEIGHTS)} is read, or shards with their index.")


def write_folder(
    path: str | Path,
    system: str,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer | None,
) -> list[str]:
    """A folder that transformers reads, whole or not at all; the names of its tensors.

    settings: all of the system's. Without a tokeniser only the network is written.
    """
    folder = Path(path)
    if system not in FAMILIES:
        can = ", ".join((*FAMILIES, "finetune"))
        raise CanonError(f"{system} cannot be written as a Hugging Face folder; these can: {can}.")
    family = FAMILIES[system]
    told = {**settings, **special_ids(system, tokenizer)}
    theirs = family.tensors_to(dict(tensors), told)
    save_folder(folder, system, settings, family.config_to(told), theirs, tokenizer)
    return list(theirs)


def save_folder(
    folder: Path, system: str, settings: Mapping[str, Any], table: Table, theirs: Tensors, tokenizer: Tokenizer | None
) -> None:
    """config.json of `table` and the special tokens' ids, model.safetensors of `theirs`, and the tokeniser's files."""
    if tokenizer is not None and not tokenizer.size <= settings["vocab_size"]:
        raise CanonError(
            f"The tokenizer has {tokenizer.size:,} tokens, but the network was trained with {settings['vocab_size']:,}."
        )
    with writing_folder(folder) as path:
        told = {**table, **special_ids(system, tokenizer), "dtype": "float32", "torch_dtype": "float32"}
        (path / "config.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in theirs.items()}
        save_file(whole, path / "model.safetensors", metadata={"format": "pt"})
        if tokenizer is not None:
            network: Any = registry.find(system)[0].load()[1]
            huggingface_tokenizers.write(tokenizer, path, network.framing, settings.get("max_positions", 0))


def special_ids(system: str, tokenizer: Tokenizer | None) -> Table:
    """The ids of special tokens that a config.json has."""
    if tokenizer is None:
        return {}
    own = tokenizer.specials
    starts, ends = (own.cls, own.sep) if system in ("bert", "unilm", "roberta") else (own.bos, own.eos)
    named = {"pad_token_id": own.pad, "bos_token_id": starts, "eos_token_id": ends}
    found: Table = {name: index if index >= 0 else None for name, index in named.items()}
    return found | {"decoder_start_token_id": found["pad_token_id"]} if system == "t5" else found
