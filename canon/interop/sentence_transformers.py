"""Folders of sentence-transformers, both ways: modules.json, and a folder for each of its modules.

The modules are a Transformer (a Hugging Face folder, canon/interop/huggingface.py), Pooling, and where they are there
Dense and Normalize; each is known by the last word of its type, and others are refused. Prompts and the similarity are
in config_sentence_transformers.json, the longest text in sentence_bert_config.json. Normalize may have no folder, since
it holds nothing. `SentenceFolder` reads, `write_as` writes. Nothing is downloaded, and no code of a folder is run.
Deviations: of pooling by several ways, their order is kept by `pooling_mode`, which releases before 5.7 do not know.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from canon import registry
from canon.config import Table
from canon.data.encodings.texts import SentenceSchema
from canon.data.targets import Match
from canon.data.text.tokenizer_folder import read_json
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError, border
from canon.interop import huggingface
from canon.interop.formats import Candidate, FileChoices, Format, GivesWeights, Written
from canon.interop.huggingface_family import empty_tensors
from canon.interop.huggingface_finetuned import as_read
from canon.interop.network import ForeignWeights, Network, Tensors, check_no_choices, on_meta
from canon.interop.weights import read_file, write_safetensors
from canon.storage import writing_folder
from canon.systems.contrastive.embed import Config
from canon.systems.pretrained.finetune import backbone_config

MODULES = "modules.json"
_BACKBONE = "backbone."
# Ways of pooling by their names there: of before release 5.7 and since.
_POOLINGS = {
    "cls": ("pooling_mode_cls_token", "cls"),
    "max": ("pooling_mode_max_tokens", "max"),
    "mean": ("pooling_mode_mean_tokens", "mean"),
    "mean-sqrt": ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    "weighted-mean": ("pooling_mode_weightedmean_tokens", "weightedmean"),
    "last": ("pooling_mode_lasttoken", "lasttoken"),
}
_ACTIVATIONS = {"tanh": "Tanh", "identity": "Identity", "relu": "ReLU", "gelu": "GELU"}
_MODULE = {"Identity": "linear"}  # of torch.nn.modules, where it is not activation
_SIMILARITIES = {"cosine": "cosine", "dot": "dot", "dot_product": "dot"}
_LENGTH = 128  # tokens of a text, where no file says
_TYPICAL = 32


class SentenceFolder(GivesWeights):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "sentence-transformers", "embed")

    @cached_property
    def _modules(self) -> list[Table]:
        return _modules(self.path / MODULES)

    @cached_property
    def transformer(self) -> huggingface.HuggingFaceFolder:
        folder = self._folder(0)
        known = huggingface.recognise(Candidate(folder))
        if known is None:
            raise CanonError(f"{folder} has no config.json, so it has no network that {self.path / MODULES} names.")
        return known

    def _folder(self, index: int) -> Path:
        name = self._modules[index].get("path", "")
        if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
            raise CanonError(f"{self.path / MODULES} names {name!r}, which is not a folder inside.")
        return self.path / name

    @cached_property
    def max_length(self) -> int:
        """Tokens of a text, with those of its frame."""
        file = self._folder(0) / "sentence_bert_config.json"
        length = read_json(file).get("max_seq_length") if file.is_file() else None
        return length if isinstance(length, int) and length > 0 else 0

    def read(self) -> ForeignWeights:
        with border(self.path):
            inner = self.transformer.weights
            kinds = [str(module["type"]).rpartition(".")[2] for module in self._modules]
            settings: Table = {
                "backbone": self.transformer.system,
                "settings": {
                    k: list(v) if isinstance(v, tuple) else v for k, v in inner.settings.items() if v is not None
                },
                "vocab_size": inner.settings["vocab_size"],
                "pooling": self._pooling(),
                "normalize": "Normalize" in kinds,
                **self._prompts(),
            }
            settings["settings"].pop("vocab_size")
            projection: Tensors = {}
            if "Dense" in kinds:
                more, projection = self._dense(self._folder(kinds.index("Dense")))
                settings |= more
            network = on_meta(*_configured(settings))
            wanted = network.state_dict()
            tensors = {_BACKBONE + name: tensor for name, tensor in inner.tensors.items()} | projection
            missing = [name for name in wanted if name not in tensors]
            if missing:
                raise CanonError(f"{self.path} has no tensors for {', '.join(missing[:5])}.")
            unlike = [name for name in wanted if tensors[name].shape != wanted[name].shape]
            if unlike:
                raise CanonError(f"{self.path}: {unlike[0]} has the shape {list(tensors[unlike[0]].shape)}.")
            self._check_case(inner.tokenizer)
            return replace(inner, settings=settings, tensors={name: tensors[name] for name in wanted})

    def _pooling(self) -> list[str]:
        file = self._folder(1) / "config.json"
        table = read_json(file)
        if "pooling_mode" in table:
            listed = table["pooling_mode"]
            asked = [listed] if isinstance(listed, str) else list(listed)
            by_name = {new: ours for ours, (_, new) in _POOLINGS.items()}
        else:
            asked = [name for name, value in table.items() if name.startswith("pooling_mode_") and value]
            by_name = {old: ours for ours, (old, _) in _POOLINGS.items()}
            asked.sort(key=lambda name: list(by_name).index(name) if name in by_name else -1)
        for name in asked:
            if name not in by_name:
                raise CanonError(f"{file} asks for {name}, which is not one of {', '.join(by_name)}.")
        if not asked:
            raise CanonError(f"{file} chooses no way of pooling; it is one of {', '.join(by_name)}.")
        if table.get("include_prompt") is False:
            raise CanonError(f"{file} leaves prompts out of the mean (include_prompt), which canon does not.")
        return [by_name[name] for name in asked]

    def _dense(self, folder: Path) -> tuple[Table, Tensors]:
        table = read_json(folder / "config.json")
        activation = str(table.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
        known = {theirs: ours for ours, theirs in _ACTIVATIONS.items()}
        if activation not in known or table.get("use_residual"):
            what = "use_residual" if activation in known else activation
            raise CanonError(f"{folder / 'config.json'} asks for {what}; a dense layer has {', '.join(known)}.")
        names = [name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()]
        if not names:
            raise CanonError(f"{folder} has no weights: model.safetensors or pytorch_model.bin is read.")
        theirs = read_file(folder / names[0])
        if "linear.weight" not in theirs:
            raise CanonError(f"{folder / names[0]} has no linear.weight.")
        weight: Tensor = theirs["linear.weight"]
        bias = theirs.get("linear.bias", weight.new_zeros(len(weight)))
        return {"dense": len(weight), "dense_activation": known[activation]}, {
            "dense.weight": weight,
            "dense.bias": bias,
        }

    def _prompts(self) -> Table:
        """Prompts by name, the one that is put before every text, and the similarity."""
        file = self.path / "config_sentence_transformers.json"
        table = read_json(file) if file.is_file() else {}
        prompts = table.get("prompts") or {}
        if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
            raise CanonError(f"{file}: prompts must be texts by name.")
        similarity = table.get("similarity_fn_name") or "cosine"
        if similarity not in _SIMILARITIES:
            raise CanonError(f"{file}: the similarity {similarity} is not one of {', '.join(_SIMILARITIES)}.")
        return {
            "prompts": {name: text for name, text in prompts.items() if text},
            "prompt": table.get("default_prompt_name") or "",
            "similarity": _SIMILARITIES[similarity],
        }

    def _check_case(self, tokenizer: Tokenizer | None) -> None:
        file = self._folder(0) / "sentence_bert_config.json"
        lowers = file.is_file() and bool(read_json(file).get("do_lower_case"))
        if lowers and tokenizer is not None and list(tokenizer.encode(["Ab"])[0]) != list(tokenizer.encode(["ab"])[0]):
            raise CanonError(f"{file} lowers the case of texts (do_lower_case), which its tokenizer does not.")

    def network(self, choices: FileChoices) -> Network:
        check_no_choices(choices, self.path)
        weights = self.weights
        system, config = _configured(weights.settings)
        if weights.tokenizer is None:
            raise CanonError(f"{self.path} has no tokenizer, without which its network cannot read a text.")
        backbone: Any = registry.find(config.backbone)[0].load()[1]
        room = int(weights.settings["settings"].get("max_positions", 0) or 0)
        length = min(filter(None, (self.max_length or _LENGTH, room)))
        schema = SentenceSchema(
            Match(),
            tokenizers={"text": weights.tokenizer},
            longest=(length,),
            typical=(min(_TYPICAL, length),),
            framing=backbone.framing,
            limit=length,
            width=2,
        )
        return Network(str(self.path), system, "", config, weights.tensors, schema, weights, {"max_length": length})


def _configured(settings: Table) -> tuple[registry.System, Any]:
    system, _ = registry.find("embed")
    return system, system.configure("", settings)


def recognise(candidate: Candidate) -> SentenceFolder | None:
    path = candidate.path
    if not (path / MODULES).is_file():
        return None
    return SentenceFolder(path)


def _modules(file: Path) -> list[Table]:
    try:
        modules = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise CanonError(f"{file} is not JSON.") from None
    if not isinstance(modules, list) or not modules or not all(isinstance(m, dict) and "type" in m for m in modules):
        raise CanonError(f"{file} must be a list of modules with their types.")
    modules.sort(key=lambda module: module.get("idx", 0) if isinstance(module.get("idx", 0), int) else 0)
    words = [str(module["type"]).rpartition(".")[2] for module in modules]
    for word in words:
        if word not in ("Transformer", "Pooling", "Dense", "Normalize"):
            raise CanonError(f"{file} names a module {word}; Transformer, Pooling, Dense and Normalize are read.")
    if words[:2] != ["Transformer", "Pooling"] or words[2:] not in (
        [],
        ["Dense"],
        ["Normalize"],
        ["Dense", "Normalize"],
    ):
        raise CanonError(
            f"{file} has {', '.join(words)}; what is read is Transformer, Pooling, and after them Dense and Normalize."
        )
    return modules


# ---- writing


def write_as(format: Format, network: Network, target: Path, choices: FileChoices) -> Written:
    """A folder that SentenceTransformer(FOLDER) takes, whole or not at all."""
    config: Config = network.config
    ways = ["cls" if way == "cls-mlp-train" else way for way in config.pooling]  # its MLP is for training alone
    tensors = dict(network.tensors)
    dense: list[tuple[Tensor, Tensor, str]] = []
    if ways == ["cls-mlp"]:
        ways = ["cls"]
        dense.append((tensors["pooling.mlp.weight"], tensors["pooling.mlp.bias"], "Tanh"))
    if strange := [way for way in ways if way not in _POOLINGS]:
        raise CanonError(
            f"sentence-transformers has no pooling by {strange[0]}; it has {', '.join(_POOLINGS)}, and what cls-mlp "
            "and cls-mlp-train are."
        )
    if config.dense:
        dense.append((tensors["dense.weight"], tensors["dense.bias"], _ACTIVATIONS[config.dense_activation]))
    dim = len(next(iter(dense))[0][0]) // len(ways) if dense else 0
    with writing_folder(target) as folder:
        names = _write_transformer(folder, config, tensors, network)
        listed = [("", "models.Transformer"), ("1_Pooling", "models.Pooling")]
        dim = dim or _dim(config)
        _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": dim, **_pooling_table(ways)})
        for weight, bias, activation in dense:
            name = f"{len(listed)}_Dense"
            listed.append((name, "models.Dense"))
            table = {
                "in_features": weight.shape[1],
                "out_features": weight.shape[0],
                "bias": True,
                "activation_function": f"torch.nn.modules.{_MODULE.get(activation, 'activation')}.{activation}",
            }
            _write(folder / name / "config.json", table)
            write_safetensors({"linear.weight": weight, "linear.bias": bias}, folder / name / "model.safetensors")
        if config.normalize:
            name = f"{len(listed)}_Normalize"
            (folder / name).mkdir()
            listed.append((name, "models.Normalize"))
        modules = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
            for i, (path, kind) in enumerate(listed)
        ]
        (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")
        assert isinstance(network.schema, SentenceSchema)
        _write(folder / "sentence_bert_config.json", {"max_seq_length": network.schema.limit, "do_lower_case": False})
        about = {"prompts": config.prompts, "default_prompt_name": config.prompt or None}
        _write(folder / "config_sentence_transformers.json", about | {"similarity_fn_name": config.similarity})
    return Written(tuple(names))


def _write_transformer(folder: Path, config: Config, tensors: Tensors, network: Network) -> Sequence[str]:
    if registry.find(config.backbone)[0].name not in huggingface.FAMILIES:
        raise CanonError(f"{network.source} has the backbone {config.backbone}, which is not a Hugging Face network.")
    system, backbone_settings = backbone_config(config)
    settings = dict(vars(backbone_settings))
    backbone = {n.removeprefix(_BACKBONE): x for n, x in tensors.items() if n.startswith(_BACKBONE)}
    tokenizer = network.schema.tokenizers.get("text")
    cls: Any = system.load()[1]
    if tokenizer is not None:
        tokens = "embedding.token.weight"
        if tokenizer.specials.pad < 0 and tokenizer.size == settings["vocab_size"]:  # a row for <pad>
            settings["vocab_size"] += 1
            backbone[tokens] = torch.cat([backbone[tokens], backbone[tokens].new_zeros(1, settings["dim"])])
        tokenizer = as_read(tokenizer, cls.framing)
    family = huggingface.FAMILIES[system.name]
    everything = {**settings, **huggingface.special_ids(family, tokenizer)}
    # What only pre-training uses is not there: it goes through without numbers and is left out.
    every = family.tensors_to(empty_tensors(system.name, settings) | backbone, everything)
    theirs = {name: tensor for name, tensor in every.items() if not tensor.is_meta}
    huggingface.fill_folder(folder, family, settings, family.config_to(everything), theirs, tokenizer)
    return list(theirs)


def _dim(config: Config) -> int:
    _, settings = backbone_config(config)
    return int(settings.dim)


def _pooling_table(ways: list[str]) -> Table:
    order = list(_POOLINGS)
    if ways == sorted(ways, key=order.index) and len(set(ways)) == len(ways):
        return {old: way in ways for way, (old, _) in _POOLINGS.items()}
    return {"pooling_mode": [_POOLINGS[way][1] for way in ways]}


def _write(file: Path, table: Table) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
