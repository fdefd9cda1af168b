"""Hugging Face's folders, both ways: config.json, model.safetensors, tokenizer files.

`HuggingFaceFolder` reads a system's settings, tensors and tokeniser; `write_folder` writes a folder that
AutoModel.from_pretrained and AutoTokenizer.from_pretrained take. Networks: BERT, UniLM and RoBERTa
(huggingface_bert.py), GPT and GPT-2 (huggingface_gpt.py), T5 (huggingface_t5.py), XLNet (huggingface_xlnet.py); what
does not fit is listed by huggingface_family.py. Fine-tuned ones are written by huggingface_finetuned.py.
Weights are read from model.safetensors, its shards, or pytorch_model.bin with tensors only. Nothing is downloaded, and
no code of a folder is run.
"""

from __future__ import annotations

import json
import reprlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from canon import registry
from canon.config import HasPositions, HasVocabulary, Table
from canon.data.encodings.framed import FRAMED
from canon.data.encodings.passages import PassageSchema
from canon.data.targets import HiddenTokens
from canon.data.text.tokenizer_folder import read_json, read_tokenizer
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError, border, unknown
from canon.interop import huggingface_bert, huggingface_gpt, huggingface_t5, huggingface_tokenizers, huggingface_xlnet
from canon.interop.formats import Candidate, FileChoices, Format, GivesWeights, Written
from canon.interop.huggingface_family import Family
from canon.interop.network import ForeignWeights, Network, Tensors, check_no_choices
from canon.interop.weights import read_file, write_safetensors
from canon.storage import writing_folder

FAMILIES: dict[str, Family] = {
    **huggingface_bert.FAMILIES,
    **huggingface_gpt.FAMILIES,
    "t5": huggingface_t5.FAMILY,
    "xlnet": huggingface_xlnet.FAMILY,
}
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# Settings by which networks of one system differ, beside their vocabulary; the last four are of T5 alone.
_COMMON_SIZES = ("dim", "num_layers", "num_heads", "hidden", "max_positions", "activation")
_SIZES = (*_COMMON_SIZES, "decoder_layers", "head_dim", "num_buckets", "tie")
_ROWS = ("embedding.token.weight", "head.weight", "head.bias")  # tensors with a row for each token
_ROUND = 128  # rows of an embedding are rounded up to a multiple of this in some files
_LENGTH = 128  # tokens of a passage, where the network has room for them
_FRAME = 3  # special tokens around two texts


class HuggingFaceFolder(GivesWeights):
    """What a folder holds, in canon's terms; a sentence where something does not fit."""

    def __init__(self, path: Path, table: Table, family: Family) -> None:
        super().__init__(path, "huggingface", family.system)
        self._table, self._family = table, family

    def read(self) -> ForeignWeights:
        with border(self.path):
            tensors, file = _read_weights(self.path)
            try:
                weights = self._family.take(tensors, self._table, str(file))
            except CanonError as mistake:
                where = f"{self.path}/" if str(mistake).startswith("config.json:") else ""
                raise CanonError(f"{where}{mistake}") from None
        tokenizer, name = read_tokenizer(self.path)
        rows = weights.settings["vocab_size"]
        if tokenizer is not None and not tokenizer.size <= rows <= _rounded(tokenizer.size):  # a row for each token
            raise CanonError(
                f"{self.path / name} has {tokenizer.size:,} tokens but {file} was trained with {rows:,}; use the "
                "tokenizer that belongs to those weights."
            )
        return replace(weights, tokenizer=tokenizer, file=file)

    def notes(self) -> tuple[str, ...]:
        """What was left out or newly initialised."""
        weights = self.weights
        left_out, made_new = ", ".join(weights.left_out), ", ".join(weights.made_new)
        lists = {"left out, because the network has no such part": left_out, "newly initialised": made_new}
        return tuple(f"{weights.file}: {what}: {names}." for what, names in lists.items() if names)

    def tensors_for(self, config: Any, tokenizer: Tokenizer | None) -> tuple[Tensors, tuple[str, ...]]:
        weights = self.weights
        theirs, known = weights.settings, weights.tokenizer
        ours = {name: getattr(config, name) for name in _SIZES if name in theirs and name in vars(config)}
        if unlike := [name for name, value in ours.items() if value != theirs[name]]:
            has, wants = (", ".join(f"{name} = {sizes[name]}" for name in unlike) for sizes in (theirs, ours))
            sets = " ".join(f"--set system.{name}={theirs[name]}" for name in unlike)
            raise CanonError(
                f"train.init: {self.path} is a {self.system} with {has}, but the recipe has {wants}; to start from it "
                f"add {sets}"
            )
        if tokenizer is not None and known is not None and tokenizer.vocabulary != known.vocabulary:
            raise CanonError(
                f"train.init: {self.path} was trained with its own tokenizer of {known.size:,} tokens, which "
                f"is not the data's, of {tokenizer.size:,}: leave data.tokenizer out."
            )
        rows, wanted = theirs["vocab_size"], config.vocab_size if isinstance(config, HasVocabulary) else 0
        if not ours or rows == wanted:
            return weights.tensors, self.notes()
        if not wanted <= rows <= _rounded(wanted):
            raise CanonError(
                f"train.init: {weights.file} was trained with {rows:,} tokens, but the data's tokenizer has "
                f"{wanted:,}; use the tokenizer that belongs to those weights."
            )
        cut = {name: tensor[:wanted] if name in _ROWS else tensor for name, tensor in weights.tensors.items()}
        return cut, self.notes()

    def network(self, choices: FileChoices) -> Network:
        """With what it needs to be evaluated on a text or to be trained on."""
        check_no_choices(choices, self.path)
        weights, source = self.weights, str(self.path)
        system, _ = registry.find(self.system)
        config = system.configure("", weights.settings)
        if weights.tokenizer is None:
            raise CanonError(
                f"{self.path} has no tokenizer (tokenizer.json, vocab.txt, or vocab.json and merges.txt), without "
                "which its network cannot read a text."
            )
        room = config.max_positions if isinstance(config, HasPositions) else _LENGTH + _FRAME
        length = max(min(_LENGTH, room - _FRAME), 1)
        tokenizers = {"text": weights.tokenizer}
        schema = PassageSchema(HiddenTokens(), tokenizers=tokenizers, longest=(length,), typical=(length,))
        data = {"tokenizer": source, "max_length": length}
        return Network(source, system, "", config, weights.tensors, schema, weights, data)


def recognise(candidate: Candidate) -> HuggingFaceFolder | None:
    path = candidate.path
    if not (path / "config.json").is_file():
        return None
    table = read_json(path / "config.json")
    return HuggingFaceFolder(path, table, _family(table, path))


def _rounded(size: int) -> int:
    return -(-size // _ROUND) * _ROUND


def _family(table: Table, folder: Path) -> Family:
    kind = table.get("model_type")
    if kind is None:  # files of before 2020
        listed = table.get("architectures")
        classes = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
        kind = next((f.model_types[0] for f in FAMILIES.values() if classes & set(f.architectures)), None)
    known = list(dict.fromkeys(kind for family in FAMILIES.values() for kind in family.model_types))
    if kind is None:
        raise CanonError(f"{folder / 'config.json'} has no model_type; it is one of {', '.join(known)}.")
    if kind not in known:
        shown = kind if isinstance(kind, str) else reprlib.repr(kind)
        raise unknown(f"model_type ({folder / 'config.json'})", shown, known)
    if kind in huggingface_bert.FAMILIES["bert"].model_types:
        return huggingface_bert.choose(table, folder / "config.json")
    return next(family for family in FAMILIES.values() if kind in family.model_types)


def _read_weights(folder: Path) -> tuple[Tensors, Path]:
    """All tensors, and the file to name where something is wrong with them."""
    for name in _WEIGHTS:
        if (folder / name).is_file():
            return read_file(folder / name), folder / name
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
                tensors |= read_file(folder / part)
            if lost := [tensor for tensor in parts if tensor not in tensors]:
                raise CanonError(f"{index} names tensors that its files do not have: {', '.join(lost)}.")
            return tensors, index
    raise CanonError(f"{folder} has no weights: {' or '.join(_WEIGHTS)} is read, or shards with their index.")


def write_as(format: Format, network: Network, target: Path, choices: FileChoices) -> Written:
    if FRAMED.name in network.system.encodings:
        from canon.interop import huggingface_finetuned

        return Written(
            tuple(huggingface_finetuned.write_folder(target, network.config, network.tensors, network.schema))
        )
    settings = {f.name: getattr(network.config, f.name) for f in fields(network.config)}
    tokenizer = network.schema.tokenizers.get("text")
    return Written(tuple(write_folder(target, network.system.name, settings, network.tensors, tokenizer)))


def write_folder(
    path: str | Path, system: str, settings: Table, tensors: Tensors, tokenizer: Tokenizer | None
) -> list[str]:
    """A folder that transformers reads, whole or not at all; the names of its tensors.

    settings: all of the system's. Without a tokeniser only the network is written.
    """
    family = FAMILIES[system]
    everything = {**settings, **special_ids(family, tokenizer)}
    theirs = family.tensors_to(dict(tensors), everything)
    save_folder(Path(path), family, settings, family.config_to(everything), theirs, tokenizer)
    return list(theirs)


def save_folder(
    folder: Path, family: Family, settings: Table, table: Table, theirs: Tensors, tokenizer: Tokenizer | None
) -> None:
    """`fill_folder` of a new folder, whole or not at all."""
    with writing_folder(folder) as path:
        fill_folder(path, family, settings, table, theirs, tokenizer)


def fill_folder(
    path: Path, family: Family, settings: Table, table: Table, theirs: Tensors, tokenizer: Tokenizer | None
) -> None:
    """config.json of `table` and the special tokens' ids, model.safetensors of `theirs`, and the tokeniser's files."""
    if tokenizer is not None and not tokenizer.size <= settings["vocab_size"]:
        raise CanonError(
            f"The tokenizer has {tokenizer.size:,} tokens, but the network was trained with {settings['vocab_size']:,}."
        )
    config = {**table, **special_ids(family, tokenizer), "dtype": "float32", "torch_dtype": "float32"}
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    write_safetensors(theirs, path / "model.safetensors")
    if tokenizer is not None:
        network: Any = registry.find(family.system)[0].load()[1]
        huggingface_tokenizers.write(tokenizer, path, network.framing, settings.get("max_positions", 0))


def special_ids(family: Family, tokenizer: Tokenizer | None) -> Table:
    """The ids of special tokens that a config.json has."""
    if tokenizer is None:
        return {}
    ids = [getattr(tokenizer.specials, role) for role in ("pad", *family.ends)]
    pad, first, last = (index if index >= 0 else None for index in ids)
    table: Table = {"pad_token_id": pad, "bos_token_id": first, "eos_token_id": last}
    return table | {"decoder_start_token_id": pad} if family.decodes else table
