"""A prompt without its backbone: prompt.safetensors, its folded vectors, and prompt.json, what they are for.

| prompt.json | |
| --- | --- |
| template, words | of the data; words by class |
| system, settings | of the prompt: which parts it has |
| backbone | system, sha256 of its weights, and what it was started from |
| vocabulary | sha256 of vocab/text.json |

An LSTM or an MLP that made the vectors is folded into them: "soft" [K, D], "prefix" [L, P, 2·width], "decoder_prefix";
beside these a verbaliser's own numbers, or the tokens of "triggers". A backbone or vocabulary with another sha256 is
refused.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from canon.config import Table
from canon.data.encodings.prompted import PromptedSchema
from canon.errors import CanonError, border
from canon.interop.formats import Candidate, FileChoices, Format, Recognised, Written, open_for
from canon.interop.network import Network, check_no_choices
from canon.interop.weights import write_safetensors
from canon.recipe import Recipe
from canon.storage import writing_folder
from canon.systems.prompts.prompt import Prompt

WEIGHTS, FACTS = "prompt.safetensors", "prompt.json"
_MADE = ("soft", "prefix", "decoder_prefix")  # parts of a network that make vectors


class PromptFolder(Recognised):
    """It has no network of its own: system.start takes it."""

    def read(self) -> tuple[Table, dict[str, Tensor]]:
        """What it is for, and its vectors."""
        with border(self.path / FACTS, "is not a prompt that canon convert --to prompt wrote"):
            facts = json.loads((self.path / FACTS).read_bytes())
            _ = facts["backbone"]["sha256"], facts["vocabulary"]["sha256"]
        with border(self.path / WEIGHTS):
            return facts, load_file(self.path / WEIGHTS)


def recognise(candidate: Candidate) -> PromptFolder | None:
    folder = candidate.path
    return PromptFolder(folder, "prompt", "prompt") if (folder / FACTS).is_file() else None


def write_as(format: Format, network: Network, target: Path, choices: FileChoices) -> Written:
    check_no_choices(choices, Path(network.source))
    schema, config = network.schema, network.config
    assert isinstance(schema, PromptedSchema)
    if not config.sha256:
        raise CanonError(
            f"{network.source} has a backbone that learned too, so that its prompt alone says nothing: write the run "
            "itself, or train with system.frozen = true."
        )
    tensors = folded(network)
    facts = {
        "template": schema.template,
        "words": dict(zip(schema.classes, map(list, schema.label_words), strict=False)),
        "system": network.system.name,
        "settings": {name: list(tensor.shape) for name, tensor in tensors.items()},
        "backbone": {"system": config.backbone, "sha256": config.sha256},
        "vocabulary": {"sha256": vocabulary_sha256(schema)},
    }
    with writing_folder(target) as folder:
        write_safetensors(tensors, folder / WEIGHTS)
        (folder / FACTS).write_text(json.dumps(facts, ensure_ascii=False, indent=1), encoding="utf-8")
    return Written(tuple(tensors))


def folded(network: Network) -> dict[str, Tensor]:
    """What a prompt needs beside its backbone: vectors in place of what makes them."""
    weights = network.tensors
    if not issubclass(network.system.load()[1], Prompt):
        return {"triggers" if name == "trigger_K" else name: tensor.contiguous() for name, tensor in weights.items()}
    prompt = Prompt(network.config)
    prompt.load_state_dict(weights, strict=False)
    parts = {name: part for name, part in prompt.named_children() if name in _MADE and part is not None}
    with torch.no_grad():
        tensors = {name: part.vectors().contiguous().clone() for name, part in parts.items()}  # type: ignore[operator]
    rest = {name: tensor.contiguous() for name, tensor in weights.items() if name.startswith("verbaliser.")}
    return {**tensors, **rest}


def vocabulary_sha256(schema: Any) -> str:
    return hashlib.sha256(schema.files()["text.json"].encode()).hexdigest()


def start_prompt(network: nn.Module, recipe: Recipe, schema: Any) -> str:
    """Begins with the vectors of the folder in system.start, which must be for the same backbone and vocabulary."""
    origin: PromptFolder = open_for(recipe.system, recipe.config.start, "prompt", "system.start")
    path = origin.path
    facts, tensors = origin.read()
    there = facts["backbone"]["sha256"], facts["vocabulary"]["sha256"]
    here = recipe.config.sha256, vocabulary_sha256(schema)
    for what, one, other in zip(("backbone", "vocabulary"), there, here, strict=True):
        if one != other:
            raise CanonError(f"system.start: {path} is for a {what} with sha256 {one}, but this one has {other}.")
    read = {f"{name}.weight" if name in _MADE else name: tensor for name, tensor in tensors.items()}
    read = {name: _flat(tensor) if name.startswith(("prefix", "decoder")) else tensor for name, tensor in read.items()}
    state = {name: tensor for name, tensor in network.state_dict().items() if not name.startswith("backbone.")}
    unlike = (
        [name for name in {**state, **read} if name not in read or state[name].shape != read[name].shape]
        if (state.keys() == read.keys())
        else sorted(state.keys() ^ read.keys())
    )
    if unlike:
        raise CanonError(
            f"system.start: {path} does not fit this prompt ({', '.join(unlike[:4])} differ): its vectors are folded, "
            "so set system.reparametrise = false and system.projection = 0, with its template."
        )
    with torch.no_grad():
        for name, tensor in read.items():
            state[name].copy_(tensor)
    return f"Began with the prompt in {path}."


def _flat(vectors_LPW: Tensor) -> Tensor:
    """[L, P, 2·width] as the prefix's own numbers lie, [P, L·2·width]."""
    return vectors_LPW.transpose(0, 1).flatten(1)
