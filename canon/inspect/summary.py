"""A system, or the network of a run or folder, on one screen: what it reads and learns, settings, layers, their cost.

Folders are Hugging Face's (config.json) and ELMo's published files (…options.json and ….hdf5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from canon import recipe as recipes
from canon import registry
from canon.config import Table, assign, read_toml
from canon.data import encodings
from canon.data.targets import TARGETS
from canon.data.text.framing import Specials
from canon.data.text.tokenizers import FOREIGN, Tokenizer
from canon.errors import CanonError
from canon.inspect.stages import Stage, on_meta
from canon.interop import elmo, huggingface
from canon.nn.counting import Summary
from canon.registry import System
from canon.tasks import table as tasks
from canon.tasks.base import Task
from canon.training.run import Run
from canon.use.folders import FolderRun

_EXAMPLE = 128  # tokens of the text that costs are counted on, where the network has room for them


class Folder(NamedTuple):
    """What a folder has beside the network, and what was made of it."""

    weights: str  # its file
    tokenizer: Table | None  # kind and size
    left_out: list[str]  # tensors of the file that the network has not
    anew: list[str]  # tensors of the network that the file has not


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
    folder: Folder | None = None  # that it is of

    def to_json(self) -> Table:
        system = self.system
        layers = [{**row._asdict(), "output_shape": _batchless(row.output_shape)} for row in self._rows()]
        stages = [
            {
                "name": stage.name,
                "kind": stage.kind,
                "output_shape": _batchless(stage.output_shape),
                "layers": [row.name for row in stage.rows],
                "parameters": stage.parameters,
                "multiply_adds": stage.multiply_adds,
            }
            for stage in self.stages
        ]
        return {
            "name": self.name,
            "system": system.name,
            "title": system.title,
            "chapter": system.chapter,
            "paper": system.paper,
            "reads": list(system.encodings),
            "task": system.task,
            "objective": system.objective,
            "metrics": self.metrics,
            "presets": {name: dict(changes) for name, changes in system.presets.items()},
            "deviations": list(system.deviations),
            "recipe": system.recipe,
            "expected": self.expected,
            "settings": self.settings,
            "input_shape": list(self.input_shape),
            "layers": layers,
            "stages": stages,
            "parameters": self.network.parameters if self.network else None,
            "multiply_adds": self.network.multiply_adds if self.network else None,
            "scores": self.scores,
            "folder": self.folder and self.folder._asdict(),
        }

    def _rows(self) -> list[Any]:
        return self.network.rows if self.network else []


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


def describe_directory(path: str | Path) -> Description:
    """The network of a run, with the sizes that its data gave it, or of a folder; a sentence where it is neither."""
    if (Path(path) / "recipe.toml").is_file():
        return describe_run(path)
    if huggingface.is_folder(path):
        run = FolderRun(path)
        found = run.found
        folder = Folder(str(found.weights), _told(found.tokenizer), list(found.report.left_out), list(found.anew))
        return _description(run.system, str(path), run.config, {}, {}, folder)
    if elmo.is_folder(path):
        system, _ = registry.find("elmo")
        settings, _ = elmo.read_folder(path)
        folder = Folder(str(next(Path(path).glob("*.hdf5"))), None, [], ["softmax.weight", "softmax.bias"])
        return _description(system, str(path), system.configure("", settings), {}, {}, folder)
    raise CanonError(
        f"{path} is not a run (recipe.toml), nor a folder of Hugging Face's (config.json) or ELMo's (options.json and "
        "weights.hdf5)."
    )


def describe_run(path: str | Path) -> Description:
    """The network of a run, with the sizes that its data gave it."""
    run = Run.open(path)
    scores = (run.result or {}).get("scores", {})
    return _description(run.recipe.system, str(path), run.recipe.config, run.recipe.expected(), scores)


def _description(
    system: System, name: str, config: Any, expect: Table, scores: Table, folder: Folder | None = None
) -> Description:
    expected = {key: bounds for key, bounds in expect.items() if key != "curve"}
    known = config.__pydantic_fields__
    settings = [
        {"setting": f.name, "value": _plain(getattr(config, f.name)), "description": known[f.name].description or ""}
        for f in fields(config)
    ]
    task = task_of(system, config)
    stages: list[Stage] = []
    network = None
    if system.loop == "gradient":
        stages, network = on_meta(system.load()[1], config, *task.example())
    input_shape = tuple(task.example()[0].shape[1:])
    metrics = list(task.names())
    return Description(system, name, metrics, expected, settings, input_shape, network, stages, scores, folder)


def task_of(system: System, config: Any) -> Task:
    """The task on data of the sizes that the settings have."""
    sizes: Table = {each.name: getattr(config, each.name) for each in fields(config)}
    classes = tuple(map(str, range(sizes.get("num_classes", 0))))
    roles = {"text": "vocab_size", "source": "source_vocab", "target": "target_vocab"}
    vocabularies = {role: _Vocabulary(sizes[field]) for role, field in roles.items() if sizes.get(field)}
    schema_class: Any = encodings.find(system.encodings[0]).schema
    kind = TARGETS[sizes["kind"]] if sizes.get("kind") in TARGETS else tasks.TASKS[system.task].targets[0]
    schema = schema_class(kind(classes), tuple(sizes.get("shape", ())), vocabularies)
    limit = (sizes | sizes.get("settings", {})).get("max_positions", 0)
    if 0 < limit < _EXAMPLE and "typical" in {each.name for each in fields(schema_class)}:
        schema = replace(schema, typical=(limit,))
    return tasks.create(system, config, schema)


class _Vocabulary(NamedTuple):
    """As much of a tokeniser as a description needs."""

    size: int
    kind: str = "bpe"
    specials: Specials = Specials()


def _told(tokenizer: Tokenizer | None) -> Table | None:
    """Kind and size; the kind of one that was made elsewhere is what the library calls it: WordPiece, BPE …"""
    if tokenizer is None:
        return None
    kind = json.loads(tokenizer.to_json())["model"]["type"] if tokenizer.kind == FOREIGN else tokenizer.kind
    return {"kind": kind, "size": tokenizer.size}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _batchless(shape: tuple[int, ...] | None) -> list[int] | None:
    return None if shape is None else list(shape[1:])
