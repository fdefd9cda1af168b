"""Networks and word vectors in other people's files, both ways: `canon convert`.

From a run, a foreign state dict, a folder of Hugging Face's, or a system with random weights; to a state dict of
torchvision or timm, such a folder, ELMo's published files, an ONNX file, or a run directory that `predict`, `evaluate
--data` and train.init take like any other. Word vectors have their own files, which are in canon/use/export_words.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import nn

from canon import recipe as recipes
from canon import registry
from canon.config import Table
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.passages import PassageSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Data, FileRecord, Schema
from canon.data.targets import Class, HiddenTokens, Number
from canon.errors import CanonError, border, unknown
from canon.interop import elmo, huggingface, huggingface_finetuned, onnx, vision
from canon.interop.vision import Report, Tensors
from canon.interop.weights import read_tensors
from canon.objectives.choosing import of_network
from canon.runs import checkpoint
from canon.storage import writing, writing_folder
from canon.systems.building import build
from canon.training.devices import seed_step
from canon.training.run import Run
from canon.use.folders import EPOCHS, FolderRun

if TYPE_CHECKING:
    from canon.use.export_words import ConvertedWords

WORD_FORMATS = ("word2vec", "word2vec-text", "glove", "fasttext-vec", "safetensors", "numpy", "fasttext-bin")
FORMATS = (*vision.PROJECTS, "huggingface", "elmo", "canon", "onnx", *WORD_FORMATS)
FILES = (".safetensors", ".pt", ".pth", ".bin")
# What torchvision's and most of timm's weights were trained with, on the scale of pixels from 0 to 255.
IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_ONNX_TASKS = ("classification", "regression")


@dataclass(frozen=True)
class Network:
    """A network with its weights and all that is known of its data."""

    source: str
    system: registry.System
    preset: str
    config: Any
    tensors: Tensors
    schema: Schema
    report: Report | None = None  # of a foreign file
    folder: FolderRun | None = None  # that it is of

    @property
    def name(self) -> str:
        return f"{self.system.name}:{self.preset}" if self.preset else self.system.name

    def build(self) -> nn.Module:
        with torch.device("meta"):
            network: nn.Module = self.system.load()[1](self.config)
        with border(self.source, "has weights that do not fit its settings"):  # such as a recipe that was edited
            network.load_state_dict(self.tensors, assign=True)
        return network.eval()


@dataclass(frozen=True)
class WordOptions:
    """How a file of word vectors is read (canon.interop.vectors.read), and with what numbers a matrix is written."""

    limit: int = 0
    dtype: str = "float32"
    errors: str = "strict"
    partial: bool = False


@dataclass(frozen=True)
class Converted:
    network: Network
    target: str
    format: str
    names: list[str]  # of the tensors in the target
    difference: float | None = None  # of ONNX: to torch, relative to the largest output where that is over 1

    def to_json(self) -> Table:
        schema, report = self.network.schema, self.network.report
        told: Table = {
            "source": self.network.source,
            "target": self.target,
            "format": self.format,
            "system": self.network.name,
            "shape": list(schema.shape),
            "num_classes": len(schema.classes),
            "parameters": sum(p.numel() for p in self.network.build().parameters()),
        }
        if report is not None:
            told["keys"] = {f.name: getattr(report, f.name) for f in fields(report)}
        if self.network.folder is not None:
            told["keys"]["anew"] = list(self.network.folder.found.anew)
        if self.names:
            told["written"] = self.names
        if self.difference is not None:
            told["difference"] = self.difference
        return told


def convert(
    source: str,
    target: str | Path,
    to: str,
    *,
    system: str = "",
    changes: Table | None = None,
    classes: Sequence[str] = (),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    scaled: bool = True,
    of_words: WordOptions | None = None,
) -> Converted | ConvertedWords:
    """Writes `target` in the format `to`; nothing is written where something does not fit.

    to: "" is a run, of a folder of Hugging Face's.
    """
    if not to and huggingface.is_folder(source):
        to = "canon"
    if not to:
        raise CanonError(f"--to says what is written: {', '.join(FORMATS)}.")
    if to not in FORMATS:
        raise unknown("format (--to)", to, FORMATS)
    target = Path(target)
    if to in WORD_FORMATS or (to == "canon" and _is_words(source)):
        return _convert_words(source, target, to, of_words or WordOptions())
    if of_words not in (None, WordOptions()):
        raise CanonError(f"{source} is no file of word vectors: leave out --dtype, --limit, --errors and --partial.")
    _check_target(target, to)
    network = open_network(source, system, changes, classes, mean, std)
    names: list[str] = []
    difference = None
    if to == "onnx":
        if network.system.loop != "gradient" or network.system.task not in _ONNX_TASKS:
            raise CanonError(
                f"{source} is a {network.system.name}; ONNX is for networks that tell a class or a number."
            )
        difference = onnx.export(network.build(), network.schema, target, network.name, scaled)
    elif to == "canon":
        _write_run(network, target)
        names = list(network.tensors)
    elif to == "elmo":
        if network.system.name != "elmo":
            raise CanonError(f"{source} is a {network.system.name}; --to elmo writes networks of elmo alone.")
        with writing_folder(target) as folder:
            names = elmo.write(network.build(), folder)  # type: ignore[arg-type]
    elif to == "huggingface" and network.system.name == "finetune":
        names = huggingface_finetuned.write_folder(target, network.config, network.tensors, network.schema)
    elif to == "huggingface":
        settings = {f.name: getattr(network.config, f.name) for f in fields(network.config)}
        tokenizer = network.schema.tokenizers.get("text")
        names = huggingface.write_folder(target, network.system.name, settings, network.tensors, tokenizer)
    else:
        tensors = vision.to_project(to, network.system.name, network.config, network.tensors, source)
        _write_tensors(tensors, target)
        names = list(tensors)
    return Converted(network, str(target), to, names, difference)


def _is_words(source: str) -> bool:
    from canon.interop.vectors import is_vectors

    return Path(source).is_file() and is_vectors(source)


def _convert_words(source: str, target: Path, to: str, options: WordOptions) -> ConvertedWords:
    from canon.use import export_words

    return export_words.convert(source, target, to, options)


def _check_target(target: Path, to: str) -> None:
    if to in ("canon", "huggingface", "elmo"):
        if target.exists():
            what = "run" if to == "canon" else "folder"
            raise CanonError(f"{target} already exists: give another name for the {what}.")
        return
    endings = (".onnx",) if to == "onnx" else FILES[:3]
    if target.suffix not in endings:
        raise CanonError(f'{target}: --to {to} writes {" or ".join(endings)}, not "{target.suffix}".')


def open_network(
    source: str,
    system: str = "",
    changes: Table | None = None,
    classes: Sequence[str] = (),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Network:
    """A run's best weights, a foreign file's, or random ones for SYSTEM:preset."""
    path = Path(source)
    if path.is_dir():
        if system or changes or classes or mean or std:
            raise CanonError(f"{source} is a run, which knows its system, classes and scale: leave these options out.")
        return _from_folder(source) if huggingface.is_folder(source) else _from_run(source)
    settings = {}
    for key, value in (changes or {}).items():
        section, _, name = key.partition(".")
        if section != "system" or not name:
            raise CanonError(
                f"canon convert takes only system settings, as in --set system.shape=[3,64,64]; got {key}."
            )
        settings[name] = value
    if path.suffix in FILES:
        if not path.is_file():
            raise CanonError(f"There is no file {source}.")
        found = vision.recognise(read_tensors(source), source, system, settings)
        schema = _schema(source, found.config, classes, mean, std)
        return Network(source, found.system, found.preset, found.config, found.tensors, schema, found.report)
    if path.is_file():
        raise CanonError(f"{source} is neither a run nor a checkpoint: {', '.join(FILES)} are read.")
    if source.partition(":")[0] not in {known.name for known in registry.SYSTEMS}:
        raise CanonError(f'There is no run, checkpoint or system "{source}".')
    if system and system != source:
        raise CanonError(f"{source} is a system itself: leave out --system {system}.")
    return _random(source, settings, classes, mean, std)


def _from_run(source: str) -> Network:
    run = Run.open(source)
    recipe = run.recipe
    tensors, _ = checkpoint.load(run.best(), recipe.system.name, groups=("model",))
    return Network(source, recipe.system, recipe.preset, recipe.config, tensors["model"], run.schema)


def _from_folder(source: str) -> Network:
    run = FolderRun(source)
    return Network(source, run.system, "", run.config, run.found.tensors, run.schema, run.found.report, run)


def _random(
    source: str, settings: Table, classes: Sequence[str], mean: Sequence[float], std: Sequence[float]
) -> Network:
    system, preset = registry.find(source)
    if system.loop != "gradient":
        raise CanonError(f"{source} learns without a network: there is nothing to convert before it is trained.")
    config = system.configure(preset, settings, {f"system.{key}": "--set" for key in settings})
    seed_step(0, 0, 0, torch.device("cpu"))
    network = build(system, config)
    if "shape" not in vars(config):  # a network that reads text
        return Network(source, system, preset, config, network.state_dict(), PassageSchema(HiddenTokens()))
    schema = _schema(source, config, classes, mean or (0.0,), std or (1.0,))
    return Network(source, system, preset, config, network.state_dict(), schema)


def _schema(source: str, config: Any, classes: Sequence[str], mean: Sequence[float], std: Sequence[float]) -> Schema:
    """What is known of the data of a network that canon did not train."""
    count = vars(config).get("num_classes", 0)
    if classes and len(classes) != count:
        raise CanonError(f"--classes has {len(classes)} names, but {source} tells {count} classes apart.")
    if len(set(classes)) < len(classes):
        twice = next(name for name in classes if list(classes).count(name) > 1)
        raise CanonError(f'--classes has the name "{twice}" twice.')
    shape = tuple(config.shape)
    scale = []
    for option, values, usual in (("--mean", mean, IMAGENET_MEAN), ("--std", std, IMAGENET_STD)):
        if not values and shape[0] != len(usual):
            raise CanonError(
                f"{source} reads {shape[0]} channel(s): give {option}, on the scale of pixels from 0 to 255."
            )
        values = tuple(values) or usual
        if len(values) not in (1, shape[0]):
            raise CanonError(f"{option} needs a number for each of the {shape[0]} channels, got {len(values)}.")
        scale.append(values)
    if min(scale[1]) <= 0:
        raise CanonError("--std must be positive.")
    names = tuple(classes) or tuple(map(str, range(count)))
    target = Class(names) if count else Number()
    if len(shape) != 3:
        return FeatureSchema(target, shape)
    return PixelSchema(target, shape, mean=scale[0], std=scale[1])


def _write_tensors(tensors: Tensors, target: Path) -> None:
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with writing(target) as part:
        if target.suffix == ".safetensors":
            save_file(whole, part, metadata={"format": "pt"})
        else:
            with part.open("wb") as file:  # by its name, torch would report a full disk as an error of its own
                torch.save(whole, file)  # tensors only: read it with weights_only=True


def _write_run(network: Network, target: Path) -> None:
    if network.report is None:
        kind = "a run already" if Path(network.source).is_dir() else "a system; canon train makes runs of it"
        raise CanonError(f"{network.source} is {kind}.")
    chosen = {f.name: getattr(network.config, f.name) for f in fields(network.config)}
    table = of_network(network.name, chosen) | {"train": {"epochs": EPOCHS}}
    if network.folder is not None:
        table["data"] = network.folder.data_settings
    origin = f"file {Path(network.source).name}"
    origins = {f"system.{key}": origin for key in chosen}
    recipe = recipes.build(table, f"weights of {Path(network.source).name}", origins)
    recipe = replace(recipe, config=network.config).resolved(1)
    record = FileRecord.of(network.folder.weights if network.folder else Path(network.source))
    data = Data(record.name, network.schema, {}, (record,), notes=(f"Weights made elsewhere: {record.name}.",))
    Run.create(target, recipe, data, start=({"model": network.tensors}, {}), trained=True)
