"""Networks and word vectors in other people's files, both ways: `canon convert`.

From anything that canon.interop.open recognises, or a system with random weights; to any format of canon.interop that
the system names in its record, or to a run directory that `predict`, `evaluate --data`, `neighbors` and train.init take
like any other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from canon import recipe as recipes
from canon import registry
from canon.config import HasShape, KnowsBackbone, Table
from canon.data.encodings.passages import PassageSchema
from canon.data.schema import Data, FileRecord
from canon.data.targets import HiddenTokens
from canon.errors import CanonError
from canon.interop import formats
from canon.interop.formats import FileChoices, Format, GivesVectors, Recognised, Written
from canon.interop.network import Network, check_no_choices, schema_of
from canon.interop.runs import RunSource
from canon.interop.vectors import VectorOptions
from canon.objectives.choosing import of_network
from canon.runs import checkpoint
from canon.systems.building import build
from canon.training.devices import seed_step
from canon.training.run import Run
from canon.training.sharding import as_tensors
from canon.use.folders import EPOCHS


@dataclass(frozen=True)
class Converted:
    """A network that was written."""

    network: Network
    target: str
    format: str
    written: Written

    def to_json(self) -> Table:
        schema, origin = self.network.schema, self.network.origin
        facts: Table = {
            "source": self.network.source,
            "target": self.target,
            "format": self.format,
            "system": self.network.name,
            "shape": list(schema.shape),
            "num_classes": len(schema.classes),
            "parameters": self._parameters(),
        }
        if origin is not None and origin.report is not None:
            facts["keys"] = asdict(origin.report) | ({"made_new": list(origin.made_new)} if origin.file else {})
        if self.written.names:
            facts["written"] = list(self.written.names)
        if self.written.difference is not None:
            facts["difference"] = self.written.difference
        return facts

    def _parameters(self) -> int:
        if isinstance(config := self.network.config, KnowsBackbone) and config.sha256:  # its backbone is elsewhere
            return sum(tensor.numel() for tensor in self.network.tensors.values())
        return sum(p.numel() for p in self.network.build().parameters())


@dataclass(frozen=True)
class ConvertedWords:
    """Word vectors that were written."""

    source: str
    target: str
    format: str
    written: Written

    def to_json(self) -> Table:
        facts = {"source": self.source, "target": self.target, "format": self.format}
        known = asdict(self.written)
        return facts | {key: known[key] for key in ("kind", "words", "dim")} | {"notes": list(self.written.notes)}


def convert(
    source: str, target: str | Path, to: str = "", choices: FileChoices | None = None
) -> Converted | ConvertedWords:
    """Writes `target` in the format `to`; nothing is written where something does not fit.

    to: "" is a run, of another project's folder.
    """
    choices, target = choices or FileChoices(), Path(target)
    is_folder = Path(source).is_dir() and not (Path(source) / "recipe.toml").is_file()
    writable = [each for each in formats.FORMATS if each.writes]
    if not to and not is_folder:
        raise CanonError(f"--to says what is written: {', '.join(each.name for each in writable)}.")
    format = formats.find(to) if to else next(each for each in writable if each.general)
    if format not in writable:
        raise CanonError(f"{format.title} is read, not written; --to is {', '.join(each.name for each in writable)}.")
    _check_target(target, format)
    if format.holds == ("vectors",):
        origin: Any = formats.open(source, "vectors")
        if isinstance(origin, RunSource):
            formats.check_written(origin.recipe.system, format, source)
        written = format.load().write_as(format, origin, target, choices.vectors or VectorOptions())
        return ConvertedWords(str(origin.path), str(target), to, written)
    known = _open(source) if format.general else _open(source, "weights")
    if choices.vectors not in (None, VectorOptions()) and not isinstance(known, GivesVectors):
        raise CanonError(f"{source} is not a file of word vectors: leave out --dtype, --limit, --errors and --partial.")
    network = _network(source, known, choices)
    if not format.general:
        formats.check_written(network.system, format, source)
        return Converted(network, str(target), format.name, format.load().write_as(format, network, target, choices))
    _write_run(network, known, target)
    if isinstance(known, GivesVectors) and network.schema.words is not None:
        words = Written((), None, known.kind, network.schema.words.size, network.config.dim, network.notes)
        return ConvertedWords(network.source, str(target), format.name, words)
    return Converted(network, str(target), format.name, Written(tuple(network.tensors)))


def _check_target(target: Path, format: Format) -> None:
    if format.folder and target.exists():
        what = "run" if format.general else "folder"
        raise CanonError(f"{target} already exists: give another name for the {what}.")
    if format.endings and target.suffix not in format.endings:
        endings = " or ".join(format.endings)
        raise CanonError(f'{target}: --to {format.name} writes {endings}, not "{target.suffix}".')


def _open(source: str, content: formats.Content | None = None) -> Recognised | None:
    """What is at the path `source`; None where it names a system."""
    if Path(source).expanduser().exists() or recipes.recipe_of(source):
        return formats.open(source, content)
    if not registry.is_system(source):
        raise CanonError(f"There is no run, file or folder {source}, and no system of that name.")
    return None


def _network(source: str, known: Recognised | None, choices: FileChoices) -> Network:
    """A run's best weights, a foreign file's, or random ones for SYSTEM:preset."""
    if isinstance(known, RunSource):
        check_no_choices(choices, known.path)
        run = Run.open(source)
        recipe = run.recipe
        arrays, _ = checkpoint.load(run.best(), recipe.system.name, groups=("model",))
        weights = dict(as_tensors(arrays["model"]))
        return Network(source, recipe.system, recipe.preset, recipe.config, weights, run.schema)
    if known is not None:
        return known.network(choices)
    if choices.system and choices.system != source:
        raise CanonError(f"{source} is a system itself: leave out --system {choices.system}.")
    system, preset = registry.find(source)
    if system.loop != "gradient":
        raise CanonError(f"{source} learns without a network: there is nothing to convert before it is trained.")
    config = system.configure(preset, choices.settings, {f"system.{key}": "--set" for key in choices.settings})
    seed_step(0, 0, 0, torch.device("cpu"))
    tensors = build(system, config).state_dict()
    reads_text = not isinstance(config, HasShape)
    schema = PassageSchema(HiddenTokens()) if reads_text else schema_of(source, config, choices, (0.0,), (1.0,))
    return Network(source, system, preset, config, tensors, schema)


def _write_run(network: Network, known: Recognised | None, target: Path) -> None:
    if network.origin is None:
        kind = "a system; canon train makes runs of it" if known is None else "a run already"
        raise CanonError(f"{network.source} is {kind}.")
    name = Path(network.source).name
    what = "weights" if network.schema.words is None else "vectors"
    settings = {f.name: getattr(network.config, f.name) for f in fields(network.config)}
    table = of_network(network.name, settings) | {"train": {"epochs": EPOCHS}}
    if network.data:
        table["data"] = network.data
    recipe = recipes.build(table, f"{what} of {name}", {f"system.{key}": f"file {name}" for key in settings})
    recipe = replace(recipe, config=network.config).resolved(1)
    record = FileRecord.of(network.origin.file or Path(network.source))
    notes = (f"{what.capitalize()} made elsewhere: {record.name}.",)
    data = Data(record.name, network.schema, {}, (record,), notes=notes)
    Run.create(target, recipe, data, start=({"model": network.tensors}, {}), trained=True)
