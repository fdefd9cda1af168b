"""Pre-trained networks to fine-tune: of a run, of a Hugging Face folder, or of ELMo's published files.

`find` opens one, `complete` writes what it is into a recipe for fine-tuning, `reading_of` says what it asks of its
texts, and `take_backbone` copies its weights. Every tensor of the network must be there with its shape; what is not
used (the heads of pre-training) is reported, and a missing pooler is newly initialised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon import registry
from canon.config import Freezes, KnowsBackbone, Table
from canon.contracts import Encodes, KeepsVectors, StartsFromBackbone, TakesVocabulary
from canon.data.encodings.framed import Backbone
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop.formats import open_for
from canon.interop.network import ForeignWeights, weight
from canon.interop.runs import RunSource
from canon.interop.word_bag import word_bag
from canon.nn.ragged import Layout
from canon.recipe import Recipe
from canon.systems.contrastive.embed import Config as EmbedConfig
from canon.systems.pretrained.finetune import build_backbone

_OPTIONAL = ("pooler.", "characters")  # parts that weights may lack; characters: how the vocabulary is spelled
_SHOWN = 6  # tensors in a sentence
_TOGETHER = 64  # texts whose vectors are made at once
_SENTENCE_SETTINGS = ("pooling", "dense", "dense_activation", "normalize", "prompts", "prompt", "similarity")
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
    tuning = next(system for system in registry.SYSTEMS if system.backbone)
    origin = open_for(tuning, source, "weights", "from")
    system = origin.system
    if isinstance(origin, RunSource) and issubclass(origin.recipe.system.load()[1], KeepsVectors):
        return system, word_bag(origin)
    weights = origin.weights
    settings, tensors = weights.settings, weights.tensors
    if isinstance(origin, RunSource):
        record = origin.recipe.system
        is_tuned = record.backbone
        if weights.tokenizer is None or not (is_tuned or issubclass(record.load()[1], Encodes)):
            raise CanonError(f"from: {source} is a run of {system}, which is not a pre-trained network for texts.")
        vocab = origin.path / "vocab" / "text.json"
        weights.tokenizer.require_rows(settings["vocab_size"], vocab, origin.path / "best" / "model.safetensors")
    above = None
    if registry.find(system)[0].backbone:  # its backbone goes on
        rest = {name: tensor for name, tensor in tensors.items() if not name.startswith(_PREFIX)}
        above = ForeignWeights(_plain(settings), rest)
        system = settings["backbone"].partition(":")[0]
        settings = {"vocab_size": settings["vocab_size"], **settings["settings"]}
        tensors = {name.removeprefix(_PREFIX): t for name, t in tensors.items() if name.startswith(_PREFIX)}
    return system, replace(weights, settings=_plain(settings), tensors=tensors, above=above)


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
    is_frozen = recipe.config.frozen if isinstance(recipe.config, Freezes) else None
    if not recipe.train.init:
        if is_frozen:
            raise CanonError("system.frozen keeps a pre-trained network as it is: give one, --set from=RUN_OR_FOLDER.")
        if origins["backbone"] != "default":
            return recipe
        config = replace(recipe.config, backbone=_SMALL)
        return replace(recipe, config=config, origins=recipe.origins | {"system.backbone": "from nothing pre-trained"})
    system, weights = find(recipe.train.init)
    if issubclass(registry.find(system)[0].load()[1], KeepsVectors) and not isinstance(recipe.config, EmbedConfig):
        raise CanonError(
            f"from: {recipe.train.init} is a run of {system}, which is not a pre-trained network for texts; canon "
            "train embed starts from it, as from a bag of its vectors."
        )
    if chosen["backbone"] and recipe.config.backbone.partition(":")[0] != system:
        asked = f"system.backbone is {recipe.config.backbone} (from {origins['backbone']})"
        raise CanonError(f"{asked}, but {recipe.train.init} is of {system}: leave it out.")
    settings = {**weights.settings, **(recipe.config.settings if chosen["settings"] else {})}
    config = replace(recipe.config, backbone=system, settings=settings)
    noted = dict.fromkeys(("system.backbone", "system.settings"), f"from {recipe.train.init}")
    if (
        isinstance(recipe.config, KnowsBackbone) and is_frozen is not False
    ):  # a prompt that is searched leaves it as it is
        config = replace(config, sha256=sha256(weights.tensors))
        noted["system.sha256"] = f"from {recipe.train.init}"
    if isinstance(config, EmbedConfig):
        pooling = _own_settings(recipe, weights)
        config = replace(config, **pooling)
        noted |= dict.fromkeys((f"system.{name}" for name in pooling), f"from {recipe.train.init}")
    return replace(recipe, config=config, origins=recipe.origins | noted)


def pooled_as(weights: ForeignWeights) -> Table:
    """What weights say of how a text's tokens become one vector; a fine-tuned network pools in its own way."""
    theirs = weights.above.settings if weights.above else {}
    return theirs if "normalize" in theirs else {}


def _own_settings(recipe: Recipe, weights: ForeignWeights) -> Table:
    """What weights for sentence vectors say of pooling and what is above it, as far as the recipe does not."""
    theirs = pooled_as(weights)
    settings = {
        name: tuple(theirs[name]) if isinstance(theirs[name], list) else theirs[name]
        for name in _SENTENCE_SETTINGS
        if name in theirs
        and name in vars(recipe.config)
        and recipe.origins.get(f"system.{name}", "default") == "default"
    }
    if not settings and recipe.origins.get("system.pooling", "default") == "default":
        raise CanonError(
            f"from: {recipe.train.init} does not say how a text's tokens become one vector: add --set "
            "system.pooling=mean, or cls, last and the like."
        )
    return settings


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


def take_backbone(network: nn.Module, recipe: Recipe) -> str:
    """Copies the weights of train.init to the network's backbone, in place; says what was taken and left out."""
    source = recipe.train.init
    weights = find(source)[1]
    tensors = weights.tensors
    backbone: Any = network.backbone
    state = backbone.state_dict()
    missing = [name for name in state if name not in tensors and not name.startswith(_OPTIONAL)]
    if any(name.startswith("head.") for name in missing):
        raise CanonError(f"from: {source} has no masked-LM head, with which a prompt is read: {_listed(missing)}.")
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
    every = network.state_dict()
    above = weights.above.tensors if weights.above else {}
    # Layers above the backbone go on too, where there are such; those of a prompt begin at what the backbone knows.
    above = {} if isinstance(network, StartsFromBackbone) else above
    above = {n: x for n, x in above.items() if n in every and every[n].shape == x.shape and not n.startswith("head.")}
    with torch.no_grad():
        for name in taken:
            state[name].copy_(weight(tensors[name], name, source, state[name].dtype))
        for name, tensor in above.items():
            every[name].copy_(weight(tensor, name, source, every[name].dtype))
    known = {*(_PREFIX + name for name in tensors), *above}
    others = [name for name in network.state_dict() if name not in known]
    unused = [*weights.left_out, *(name for name in tensors if name not in state)]
    left = f"; left out: {_listed(unused)}" if unused else ""
    if isinstance(network, StartsFromBackbone):
        network.start()
    find.cache_clear()  # the tensors are copied
    new = f"; newly initialised: {', '.join(others)}" if others else ""
    return f"Started from {source}: {len(taken) + len(above)} tensors taken{left}{new}."


def lend(borrower: nn.Module, recipe: Recipe) -> None:
    """Gives a prompt the backbone that it was made for, which its run does not keep."""
    source = recipe.train.init
    there = sha256(find(source)[1].tensors)
    if there != recipe.config.sha256:
        raise CanonError(
            f"The prompt is for the backbone with sha256 {recipe.config.sha256}, but {source} has sha256 {there}: "
            "restore the backbone, or train the prompt again."
        )
    take_backbone(borrower, recipe)


def sha256(tensors: dict[str, Tensor]) -> str:
    """Of weights by name: names, shapes and numbers, in the order of the names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def vectors_of(source: str, wanted: str = "") -> tuple[Callable[[Sequence[str]], np.ndarray], str]:
    """Vectors of texts by the network at `source`: the mean over tokens of its last states, each of length 1; and the
    sha256 of its weights, which is `wanted` where that is given."""
    system, weights = find(source)
    tokenizer, there = weights.tokenizer, sha256(weights.tensors)
    if wanted and wanted != there:
        raise CanonError(
            f"The demonstrations are near by the vectors of the network with sha256 {wanted}, but {source} has sha256 "
            f"{there}: restore it, or train the prompt again."
        )
    if tokenizer is None:
        raise CanonError(f"data.demo_encoder: {source} has no tokenizer.")
    _, cls = registry.find(system)[0].load()
    network: Any = cls(registry.find(system)[0].configure("", dict(weights.settings)))
    network.load_state_dict(weights.tensors, strict=False)
    network.eval()

    @torch.no_grad()
    def vectors(texts: Sequence[str]) -> np.ndarray:
        parts = []
        for start in range(0, len(texts), _TOGETHER):
            ids, lengths = tokenizer.encode(texts[start : start + _TOGETHER])
            cut = np.minimum(lengths, network.limit or lengths.max(initial=1))
            kept = np.concatenate([np.arange(c) + s for c, s in zip(cut, np.cumsum(lengths) - lengths, strict=True)])
            layout = Layout(torch.from_numpy(cut))
            states = network.encode(torch.from_numpy(ids[kept].astype(np.int64)), layout)
            parts.append(torch.nn.functional.normalize(layout.mean(states[-1])).numpy())
        return np.concatenate(parts)

    return vectors, there


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
