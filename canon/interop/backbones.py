"""Pre-trained networks to fine-tune: of a run of canon's, of a folder of Hugging Face's, or of ELMo's published files.

`find` reads one, `complete` writes what it is into a recipe for fine-tuning, `reading_of` says what it asks of its
texts, and `take_backbone` copies its weights. Every tensor of the network must be there with its shape; what is not
used (the heads of pre-training) is told, and a missing pooler is made anew.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from canon import recipe as recipes
from canon.config import Table
from canon.contracts import Encodes, TakesVocabulary
from canon.data.encodings.framed import FRAMED, Backbone
from canon.data.schema import Schema
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop import elmo
from canon.interop.tensors import weight
from canon.interop.weights import read_tensors
from canon.recipe import Recipe
from canon.systems.pretrained.finetune import build_backbone

_ANEW = ("pooler.", "characters")  # parts that published weights may lack; characters: how the vocabulary is spelled
_SHOWN = 6  # tensors in a sentence


class Found(NamedTuple):
    """A pre-trained network: its system, settings, weights and tokeniser."""

    system: str
    settings: Table
    tensors: dict[str, Tensor]
    tokenizer: Tokenizer | None
    left_out: tuple[str, ...] = ()  # tensors of a folder that belong to another task


@lru_cache(maxsize=1)
def find(source: str) -> Found:
    """What `source` holds; the last one is kept, since a recipe, its data and its weights are made of it in turn."""
    path = Path(source).expanduser()
    if (path / "recipe.toml").is_file():
        return _of_run(path)
    if (path / "config.json").is_file():
        from canon.interop.huggingface import read_folder

        there = read_folder(path)
        left_out = tuple(there.report.left_out)
        return Found(there.system, _plain(there.settings), there.tensors, there.tokenizer, left_out)
    if elmo.is_folder(path):  # a network that spells its words: any vocabulary will do
        return Found("elmo", *elmo.read_folder(path), None)
    if needed := recipes.recipe_of(source):
        raise CanonError(f"from: there is no run {source} yet; make it with: canon train {needed}")
    what = "has neither a recipe.toml nor a config.json" if path.is_dir() else "is not there"
    raise CanonError(f"from: {source} {what}; give a run of canon's, or a folder of Hugging Face's.")


def _of_run(path: Path) -> Found:
    recipe = recipes.load(str(path / "recipe.toml"))
    tensors, schema = read_tensors(str(path)), Schema.open(path / "vocab")
    system, own = recipe.system_name, {f.name: getattr(recipe.config, f.name) for f in fields(recipe.config)}
    if FRAMED.name in recipe.system.encodings:  # fine-tuned already: its backbone goes on
        system, vocab_size = own["backbone"], own["vocab_size"]
        own = {"vocab_size": vocab_size, **own["settings"]}
        tensors = {name.removeprefix("backbone."): t for name, t in tensors.items() if name.startswith("backbone.")}
    reads = FRAMED.name in recipe.system.encodings or issubclass(recipe.system.load()[1], Encodes)
    if "text" not in schema.tokenizers or not reads:
        raise CanonError(f"from: {path} is a run of {recipe.system.name}, which is no pre-trained network for texts.")
    tokenizer = schema.tokenizers["text"]
    tokenizer.require_rows(own["vocab_size"], path / "vocab" / "text.json", path / "best" / "model.safetensors")
    return Found(system.partition(":")[0], _plain(own), tensors, tokenizer)


def _plain(settings: Table) -> Table:
    """As TOML holds it: no None, and lists for tuples."""

    def listed(value: Any) -> Any:
        return [listed(item) for item in value] if isinstance(value, list | tuple) else value

    return {key: listed(value) for key, value in settings.items() if value is not None}


def complete(recipe: Recipe) -> Recipe:
    """A recipe for fine-tuning with the system and the settings of the network in train.init; others as they are."""
    if FRAMED.name not in recipe.system.encodings:
        return recipe
    said = {key: recipe.origins.get(f"system.{key}", "default") for key in ("backbone", "settings")}
    own = {key: not (origin == "default" or origin.startswith("preset ")) for key, origin in said.items()}
    own["settings"] = own["settings"] or any(key.startswith("system.settings.") for key in recipe.origins)
    if not recipe.train.init:
        if said["backbone"] == "default":
            raise CanonError(
                f"{recipe.system.name} starts from a pre-trained network: give --set from=RUN_OR_FOLDER, or for random "
                "weights --set system.backbone=bert:small."
            )
        return recipe
    found = find(recipe.train.init)
    if own["backbone"] and recipe.config.backbone.partition(":")[0] != found.system:
        asked = f"system.backbone is {recipe.config.backbone} (from {said['backbone']})"
        raise CanonError(f"{asked}, but {recipe.train.init} is of {found.system}: leave it out.")
    settings = {**found.settings, **(recipe.config.settings if own["settings"] else {})}
    config = replace(recipe.config, backbone=found.system, settings=settings)
    origin = f"from {recipe.train.init}"
    origins = recipe.origins | {"system.backbone": origin, "system.settings": origin}
    return replace(recipe, config=config, origins=origins)


def reading_of(recipe: Recipe, run: Path | None) -> Backbone:
    """What the network of a recipe asks of its texts; its tokeniser is the one that `run` has kept, if there is one."""
    with torch.device("meta"):
        network: Any = build_backbone(recipe.config)
    source, spells = recipe.train.init or recipe.config.backbone, isinstance(network, TakesVocabulary)
    tokenizer = None
    if run is not None and (run / "vocab" / "text.json").is_file():
        # The tokeniser of random weights is made of the data again, so that other data shows.
        tokenizer = Tokenizer.load(run / "vocab" / "text.json") if recipe.train.init else None
    elif recipe.train.init:
        tokenizer = find(recipe.train.init).tokenizer
        if tokenizer is None and not spells and not recipe.data.tokenizer.endswith(".json"):
            raise CanonError(
                f"{recipe.train.init} has no tokenizer; give its file with --set data.tokenizer=FILE.json."
            )
    return Backbone(source, network.framing, network.limit, tokenizer, "word" if spells else "wordpiece")


def take_backbone(network: nn.Module, source: str) -> str:
    """Copies the weights of `source` to the network's backbone, in place; says what was taken and left out."""
    found = find(source)
    backbone: Any = network.backbone
    own = backbone.state_dict()
    missing = [name for name in own if name not in found.tensors and not name.startswith(_ANEW)]
    other = [
        f"{name} {list(found.tensors[name].shape)} where {list(tensor.shape)} is needed"
        for name, tensor in own.items()
        if name in found.tensors and found.tensors[name].shape != tensor.shape
    ]
    if missing or other:
        lacks = f"lacks {_listed(missing)}" if missing else ""
        differs = f"has {_listed(other)}" if other else ""
        raise CanonError(f"from: {source} {' and '.join(filter(None, [lacks, differs]))}, so it does not fit.")
    with torch.no_grad():
        for name, tensor in own.items():
            if name in found.tensors:
                tensor.copy_(weight(found.tensors[name], name, source, tensor.dtype))
    taken = sum(name in found.tensors for name in own)
    known = {f"backbone.{name}" for name in found.tensors}
    anew = [name for name in network.state_dict() if name not in known]
    unused = [*found.left_out, *(name for name in found.tensors if name not in own)]
    left = f"; left out: {_listed(unused)}" if unused else ""
    find.cache_clear()  # the tensors are copied
    return f"Started from {source}: {taken} tensors taken{left}; made anew: {', '.join(anew)}."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
