"""Pre-trained networks to fine-tune: of a run, of a Hugging Face folder, or of ELMo's published files.

`find` opens one, `complete` writes what it is into a recipe for fine-tuning, `reading_of` says what it asks of its
texts, and `take_backbone` copies its weights. Every tensor of the network must be there with its shape; what is not
used (the heads of pre-training) is reported, and a missing pooler is newly initialised.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from canon import registry
from canon.config import Table
from canon.contracts import Encodes, TakesVocabulary
from canon.data.encodings.framed import FRAMED, Backbone
from canon.data.schema import Schema
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop.formats import open_for
from canon.interop.network import ForeignWeights, weight
from canon.interop.runs import RunSource
from canon.recipe import Recipe
from canon.systems.pretrained.finetune import build_backbone

_OPTIONAL = ("pooler.", "characters")  # parts that weights may lack; characters: how the vocabulary is spelled
_SHOWN = 6  # tensors in a sentence
_PREFIX = "backbone."  # of its tensors in a fine-tuned network
_SMALL = "bert:tiny"  # what labelled texts alone can teach something


_UNTRAINED = (
    "{} begins at random weights, with which a bag of words is hard to beat: start from a pre-trained network with "
    "--set from=RUN_OR_FOLDER (canon train pretrained/bert-wiki makes a run), or for classes of texts use canon train "
    "fasttext-classifier."
)


@lru_cache(maxsize=1)
def find(source: str) -> tuple[str, ForeignWeights]:
    """The system and weights that `source` holds, settings as TOML holds them.

    The last one is kept, since a recipe, its data and its weights are made of it in turn.
    """
    tuning = next(system for system in registry.SYSTEMS if FRAMED.name in system.encodings)
    origin = open_for(tuning, source, "weights", "from")
    system, weights = origin.system, origin.weights
    settings, tensors = weights.settings, weights.tensors
    if isinstance(origin, RunSource):
        record = origin.recipe.system
        is_tuned = FRAMED.name in record.encodings
        if weights.tokenizer is None or not (is_tuned or issubclass(record.load()[1], Encodes)):
            raise CanonError(f"from: {source} is a run of {system}, which is not a pre-trained network for texts.")
        if is_tuned:  # its backbone goes on
            system = settings["backbone"].partition(":")[0]
            settings = {"vocab_size": settings["vocab_size"], **settings["settings"]}
            tensors = {name.removeprefix(_PREFIX): t for name, t in tensors.items() if name.startswith(_PREFIX)}
        vocab = origin.path / "vocab" / "text.json"
        weights.tokenizer.require_rows(settings["vocab_size"], vocab, origin.path / "best" / "model.safetensors")
    return system, replace(weights, settings=_plain(settings), tensors=tensors)


def _plain(settings: Table) -> Table:
    """As TOML holds it: no None, and lists for tuples."""

    def listed(value: Any) -> Any:
        return [listed(item) for item in value] if isinstance(value, list | tuple) else value

    return {key: listed(value) for key, value in settings.items() if value is not None}


def complete(recipe: Recipe) -> Recipe:
    """A recipe for fine-tuning with the system and the settings of the network in train.init."""
    origins = {key: recipe.origins.get(f"system.{key}", "default") for key in ("backbone", "settings")}
    chosen = {key: not (origin == "default" or origin.startswith("preset ")) for key, origin in origins.items()}
    if any(key.startswith("system.settings.") for key in recipe.origins):
        chosen["settings"] = True
    if not recipe.train.init:
        if recipe.config.frozen:
            raise CanonError("system.frozen keeps a pre-trained network as it is: give one, --set from=RUN_OR_FOLDER.")
        if origins["backbone"] != "default":
            return recipe
        config = replace(recipe.config, backbone=_SMALL)
        return replace(recipe, config=config, origins=recipe.origins | {"system.backbone": "from nothing pre-trained"})
    system, weights = find(recipe.train.init)
    if chosen["backbone"] and recipe.config.backbone.partition(":")[0] != system:
        asked = f"system.backbone is {recipe.config.backbone} (from {origins['backbone']})"
        raise CanonError(f"{asked}, but {recipe.train.init} is of {system}: leave it out.")
    settings = {**weights.settings, **(recipe.config.settings if chosen["settings"] else {})}
    config = replace(recipe.config, backbone=system, settings=settings)
    noted = dict.fromkeys(("system.backbone", "system.settings"), f"from {recipe.train.init}")
    return replace(recipe, config=config, origins=recipe.origins | noted)


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
        tokenizer = find(recipe.train.init)[1].tokenizer
        if tokenizer is None and not spells and not recipe.data.tokenizer.endswith(".json"):
            raise CanonError(
                f"{recipe.train.init} has no tokenizer; give its file with --set data.tokenizer=FILE.json."
            )
    note = "" if recipe.train.init else _UNTRAINED.format(recipe.config.backbone)
    return Backbone(source, network.framing, network.limit, tokenizer, "word" if spells else "wordpiece", note)


def take_backbone(network: nn.Module, recipe: Recipe, schema: Schema) -> str:
    """Copies the weights of train.init to the network's backbone, in place; says what was taken and left out."""
    source = recipe.train.init
    weights = find(source)[1]
    tensors = weights.tensors
    backbone: Any = network.backbone
    state = backbone.state_dict()
    missing = [name for name in state if name not in tensors and not name.startswith(_OPTIONAL)]
    unlike = [
        f"{name} {list(tensors[name].shape)} where {list(tensor.shape)} is needed"
        for name, tensor in state.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
    if missing or unlike:
        lacks = f"lacks {_listed(missing)}" if missing else ""
        differs = f"has {_listed(unlike)}" if unlike else ""
        raise CanonError(f"from: {source} {' and '.join(filter(None, [lacks, differs]))}, so it does not fit.")
    taken = [name for name in state if name in tensors]
    with torch.no_grad():
        for name in taken:
            state[name].copy_(weight(tensors[name], name, source, state[name].dtype))
    known = {_PREFIX + name for name in tensors}
    others = [name for name in network.state_dict() if name not in known]
    unused = [*weights.left_out, *(name for name in tensors if name not in state)]
    left = f"; left out: {_listed(unused)}" if unused else ""
    find.cache_clear()  # the tensors are copied
    return f"Started from {source}: {len(taken)} tensors taken{left}; newly initialised: {', '.join(others)}."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
