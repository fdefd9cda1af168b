"""A system, or the network of a run or folder, on one screen: what it reads and learns, settings, layers, their cost.

Folders are in Hugging Face's format (config.json) or ELMo's (…options.json and ….hdf5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from canon import interop, registry
from canon import recipe as recipes
from canon.config import Table, assign, read_toml
from canon.data import encodings
from canon.data.targets import TARGETS
from canon.data.text.framing import Specials
from canon.data.text.tokenizers import FOREIGN, Tokenizer
from canon.errors import CanonError
from canon.inspect.stages import Stage
from canon.inspect.stages import stages as stages_of
from canon.interop.runs import RunSource
from canon.nn.counting import Summary
from canon.registry import System
from canon.tasks import table as tasks
from canon.tasks.base import Task, Training
from canon.tasks.records import TASK_RECORDS
from canon.training.run import Run

_EXAMPLE = 128  # tokens of the text that costs are counted on, if the network has room for them
# What a description takes from the system's record as it is.
_OF_RECORD = ("title", "chapter", "paper", "task", "objective", "recipe")


class Folder(NamedTuple):
    """What a folder has beside the network, and how its tensors fit."""

    weights: str  # the file
    tokenizer: Table | None  # kind and size
    left_out: list[str]  # tensors of the file that the network does not have
    made_new: list[str]  # tensors of the network that the file does not have


@dataclass(frozen=True)
class Description:
    system: System
    name: str  # with its preset, or the run or folder
    metrics: list[str]
    expected: Table  # of the default recipe, by split/metric
    settings: list[Table]  # name, value, description
    input_shape: tuple[int, ...]
    network: Summary | None  # None: it learns without a network
    stages: list[Stage]  # the network's layers, grouped
    scores: Table  # of a run, by split
    folder: Folder | None = None

    def to_json(self) -> Table:
        system, network = self.system, self.network
        rows = network.rows if network else []
        return {
            "name": self.name,
            "system": system.name,
            **{key: vars(system)[key] for key in _OF_RECORD},
            "reads": list(system.encodings),
            "metrics": self.metrics,
            "presets": {name: dict(changes) for name, changes in system.presets.items()},
            "deviations": list(system.deviations),
            "expected": self.expected,
            "settings": self.settings,
            "input_shape": list(self.input_shape),
            "layers": [{**row._asdict(), "output_shape": _batchless(row.output_shape)} for row in rows],
            "stages": [
                {
                    "name": stage.name,
                    "kind": stage.kind,
                    "output_shape": _batchless(stage.output_shape),
                    "layers": [row.name for row in stage.rows],
                    "parameters": stage.parameters,
                    "multiply_adds": stage.multiply_adds,
                }
                for stage in self.stages
            ],
            "parameters": network.parameters if network else None,
            "multiply_adds": network.multiply_adds if network else None,
            "scores": self.scores,
            "folder": self.folder and self.folder._asdict(),
        }


def describe(name: str, changes: Mapping[str, Any] | None = None) -> Description:
    """The system that "mlp:tiny" names, with `changes` ("system.hidden": [64]) to its settings."""
    system, preset = registry.find(name)
    table: Table = {}
    for key, value in (changes or {}).items():
        section, _, field = key.partition(".")
        if section != "system" or not field:
            raise CanonError(f"canon describe takes only system settings, as in --set system.dropout=0.1; got {key}.")
        assign(table, field, value)
    config = system.configure(preset, table, dict.fromkeys(changes or {}, "--set"))
    table = read_toml(recipes.RECIPES / f"{system.recipe}.toml") if system.recipe else {}
    return _description(system, name, config, table.get("expect", {}), {})


def describe_path(path: str | Path) -> Description:
    """The network of a run, with the sizes that its data gave it, or of somebody's folder or file of weights."""
    origin: Any = interop.open(path, "weights")
    if isinstance(origin, RunSource):
        run, recipe = Run.open(path), Run.open(path).recipe
        scores = (run.result or {}).get("scores", {})
        return _description(recipe.system, str(path), recipe.config, recipe.expected(), scores)
    if not origin.system:
        raise CanonError(f"{origin}, which does not name its network; give a run, a folder or a system.")
    system, _ = registry.find(origin.system)
    weights, tokenizer = origin.weights, _tokenizer_record(origin.weights.tokenizer)
    folder = Folder(str(weights.file or path), tokenizer, list(weights.left_out), list(weights.made_new))
    return _description(system, str(path), system.configure("", weights.settings), {}, {}, folder)


def _description(
    system: System, name: str, config: Any, expect: Table, scores: Table, folder: Folder | None = None
) -> Description:
    expected = {key: bounds for key, bounds in expect.items() if key != "curve"}
    known = config.__pydantic_fields__
    settings = []
    for field in fields(config):
        value = getattr(config, field.name)
        plain = list(value) if isinstance(value, tuple) else value
        settings.append({"setting": field.name, "value": plain, "description": known[field.name].description or ""})
    task = task_of(system, config)
    network = None
    stages: list[Stage] = []
    if system.loop == "gradient" and isinstance(task, Training):
        with torch.device("meta"):  # shapes only, so that a large network costs nothing
            module = system.load()[1](config)
        stages, network = stages_of(module, *task.example())
    shape = tuple(task.example()[0].shape[1:]) if isinstance(task, Training) else task.schema.shape
    metrics = list(task.names())
    return Description(system, name, metrics, expected, settings, shape, network, stages, scores, folder)


def task_of(system: System, config: Any, length: int = 0) -> Task:
    """The task on data with the sizes that the settings have; length: tokens of its example, where it has any."""
    sizes: Table = {each.name: getattr(config, each.name) for each in fields(config)}
    classes = tuple(map(str, range(sizes.get("num_classes", 0))))
    roles = {"text": "vocab_size", "source": "source_vocab", "target": "target_vocab"}
    vocabularies = {role: _VocabularySize(sizes[field]) for role, field in roles.items() if sizes.get(field)}
    schema_class: Any = encodings.find(system.encodings[0]).schema
    kind = TARGETS[sizes["kind"]] if sizes.get("kind") in TARGETS else TASK_RECORDS[system.task].targets[0]
    schema = schema_class(kind(classes), tuple(sizes.get("shape", ())), vocabularies)
    limit = (sizes | sizes.get("settings", {})).get("max_positions", 0)
    if (length or 0 < limit < _EXAMPLE) and "typical" in {each.name for each in fields(schema_class)}:
        schema = replace(schema, typical=(min(length or limit, limit or length),) * len(vocabularies))
    return tasks.create(system, config, schema)


class _VocabularySize(NamedTuple):
    """The part of a tokeniser that a description needs."""

    size: int
    kind: str = "bpe"
    specials: Specials = Specials()


def _tokenizer_record(tokenizer: Tokenizer | None) -> Table | None:
    """Kind and size; a tokeniser from elsewhere has its library's name for the kind: WordPiece, BPE …"""
    if tokenizer is None:
        return None
    kind = json.loads(tokenizer.to_json())["model"]["type"] if tokenizer.kind == FOREIGN else tokenizer.kind
    return {"kind": kind, "size": tokenizer.size}


def _batchless(shape: tuple[int, ...] | None) -> list[int] | None:
    return None if shape is None else list(shape[1:])
