"""The one table of other people's formats, and the door through which their files are opened.

A format's module in canon/interop has `recognise(candidate)`, which returns what is at a path or None, and, where the
format is written, `write_as(format, content, target, choices)`, where the content is a Network, or a GivesVectors and
the choices are VectorOptions. Systems name the formats that they read and write
(`System.interop`), by name or, for all that hold vectors, as "vectors"; `canon convert` and train.init follow them.
To add a format: one module, one entry in `FORMATS`, and its name on the systems that it is for.
Records hold names of modules, not the modules: only the formats that are asked are imported, so that vectors are read
without torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from canon import recipe as recipes
from canon import registry
from canon.config import Table
from canon.errors import CanonError, border, unknown
from canon.registry import System

if TYPE_CHECKING:
    from torch import Tensor

    from canon.data.text.tokenizers import Tokenizer
    from canon.interop.network import ForeignWeights, Network
    from canon.interop.vectors import VectorFile, VectorOptions

Content = Literal["weights", "vectors", "prompt"]
_CONTENTS = {"weights": "weights of a network", "vectors": "word vectors", "prompt": "prompt"}  # in sentences
TENSOR_FILES = (".safetensors", ".pt", ".pth", ".bin")  # endings of files that can hold tensors by name
_SIZES = ("dim", "num_layers", "num_heads", "vocab_size", "shape", "num_classes")


@dataclass(frozen=True)
class Format:
    """One way in which other people, or canon itself, keep weights or word vectors."""

    name: str  # in --to and in System.interop
    title: str  # in sentences
    module: str  # in canon.interop, or a whole name
    holds: tuple[Content, ...]
    folder: bool = False  # or else a file
    mark: str = ""  # the files by which a folder is known
    endings: tuple[str, ...] = ()  # of a file that is written; (): any
    reads: bool = True
    writes: bool = True
    general: bool = False  # every system reads it

    def load(self) -> Any:
        return import_module(f"canon.interop.{self.module}" if "." not in self.module else self.module)

    def recognise(self, path: str | Path) -> Recognised | None:
        """What is at the path, if it is of this format."""
        content: Recognised | None = self.load().recognise(Candidate(Path(path).expanduser()))
        return content if content is not None and content.format is self else None

    def named_in(self, names: Iterable[str]) -> bool:
        """Whether `names`, of System.interop, include this format."""
        return not {self.name, *self.holds}.isdisjoint(names)


class Candidate:
    """A path to be recognised; what several formats look at is read once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def tensors(self) -> dict[str, Tensor] | None:
        """The tensors by name of a file that can hold them; None of others."""
        if self.path.suffix not in TENSOR_FILES or not self.path.is_file():
            return None
        from canon.interop.weights import read_file

        return read_file(self.path)


@dataclass(frozen=True)
class Written:
    """What a format's `write_as` reports: of a network its tensors, of vectors their number."""

    names: tuple[str, ...] = ()  # of the tensors in the target
    difference: float | None = None  # of ONNX to torch, relative to the largest output where that is over 1
    kind: str = ""  # of the vectors' source: a format, or a system
    words: int = 0
    dim: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileChoices:
    """What a user says beside a path, as far as the files leave it open."""

    system: str = ""  # SYSTEM:preset that it must be
    settings: Table = field(default_factory=dict)  # of the system
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    vectors: VectorOptions | None = None
    scaled: bool = True  # ONNX: with (pixel - mean) / std inside


class Recognised:
    """What is at a path, in canon's terms. Weights and vectors are read when they are asked for."""

    def __init__(self, path: Path, format: str, system: str = "") -> None:
        self.path, self.format, self._system = path, find(format), system

    @property
    def system(self) -> str:
        """canon's system that it belongs to; "" where that is not known."""
        return self._system

    @property
    def sizes(self) -> Table:
        return {}

    def __str__(self) -> str:
        return f"{self.path} is {self.format.title}{f' ({self.system})' if self.system else ''}"

    def network(self, choices: FileChoices) -> Network:
        """All that a run, or another format, is made of; a sentence where something is missing."""
        raise CanonError(f"{self}, which does not say enough of its network to be converted.")


class GivesWeights(Recognised, ABC):
    """Weights for a network, under the names of canon's system."""

    @abstractmethod
    def read(self) -> ForeignWeights: ...

    @cached_property
    def weights(self) -> ForeignWeights:
        return self.read()

    @property
    def sizes(self) -> Table:
        return {name: self.weights.settings[name] for name in _SIZES if name in self.weights.settings}

    def tensors_for(self, config: Any, tokenizer: Tokenizer | None) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        """The tensors for a network with these settings and the data's tokenizer, and notes."""
        return self.weights.tensors, ()


class GivesVectors(Recognised, ABC):
    """Vectors by word."""

    @property
    def kind(self) -> str:
        """What a file of these vectors is called in a report: a format, or a system."""
        return self.format.name

    @abstractmethod
    def vectors(self, options: VectorOptions) -> VectorFile: ...


FORMATS: tuple[Format, ...] = (  # the first that recognises a path is taken
    Format("canon", "a run", "runs", ("weights", "vectors"), True, " (recipe.toml)", general=True),
    Format("fasttext-bin", "fastText's .bin or .ftz", "fasttext", ("vectors",)),
    Format("word2vec", "word2vec's binary file", "vectors", ("vectors",)),
    Format("word2vec-text", "word2vec's or fastText's text", "vectors", ("vectors",)),
    Format("fasttext-vec", "fastText's .vec", "vectors", ("vectors",), reads=False),
    Format("glove", "GloVe's text", "vectors", ("vectors",)),
    Format("numpy", "an .npy matrix with a file of words", "vectors", ("vectors",), endings=(".npy",)),
    Format("safetensors", "a .safetensors file of word vectors", "vectors", ("vectors",), endings=(".safetensors",)),
    Format(
        "sentence-transformers",
        "a folder of sentence-transformers",
        "sentence_transformers",
        ("weights",),
        True,
        " (modules.json)",
    ),
    Format("huggingface", "a Hugging Face folder", "huggingface", ("weights",), True, " (config.json)"),
    Format("elmo", "ELMo's published folder", "elmo", ("weights",), True, " (options.json, weights.hdf5)"),
    Format("transformer-xl", "a state dict of Transformer-XL's authors", "transformer_xl", ("weights",), writes=False),
    Format("prompt", "a prompt without its backbone", "prompt_folder", ("prompt",), True, " (prompt.json)"),
    Format("torchvision", "a state dict of torchvision", "vision", ("weights",), endings=TENSOR_FILES[:3]),
    Format("timm", "a state dict of timm", "vision", ("weights",), endings=TENSOR_FILES[:3]),
    Format(
        "tensors", "a .safetensors, .pt or .pth file of tensors", "weights", ("weights",), writes=False, general=True
    ),
    Format("onnx", "an ONNX file", "onnx", ("weights",), reads=False),  # of texts, a folder
)


def find(name: str) -> Format:
    by_name = {known.name: known for known in FORMATS}
    if name not in by_name:
        raise unknown("format (--to)", name, (known.name for known in FORMATS if known.writes))
    return by_name[name]


def written_by(system: System) -> list[Format]:
    return [known for known in FORMATS if known.writes and not known.general and known.named_in(system.interop.writes)]


def check_written(system: System, format: Format, source: str) -> None:
    """A sentence where the format is not one of those that the system is written as."""
    if format not in written_by(system):
        these = ", ".join(each.name for each in registry.SYSTEMS if format in written_by(each)) or "no system"
        raise CanonError(
            f"{source} is of the system {system.name}, which cannot be written as {format.title}; --to {format.name} "
            f"writes {these}."
        )


def open(path: str | Path, content: Content | None = None, system: System | None = None) -> Any:
    """What is at `path`; a sentence where that is nothing that canon knows, or another thing than is asked for.

    content: only formats that hold this; of a system, only those that it reads. Nothing is downloaded, and no code of a
    file is run.
    """
    candidate = Candidate(Path(path).expanduser())
    asked = [each for each in FORMATS if each.reads and (content is None or content in each.holds)]
    if system:
        asked = [each for each in asked if each.general or each.named_in(system.interop.reads)]
    with border(path, "cannot be looked for"):  # such as a name that is too long
        exists = candidate.path.exists()
    if not exists:
        if needed := recipes.recipe_of(str(path)):
            raise CanonError(f"There is no run {path} yet; make it with: canon train {needed}")
        accepted = f"; accepted: {', '.join(each.title for each in asked)}" if system else ""
        raise CanonError(f"There is no run, file or folder {path}{accepted}.")
    if not (candidate.path.is_file() or candidate.path.is_dir()):
        raise CanonError(f"{path} is a device or a pipe, not a file.")
    there, mistakes = _recognised(candidate, asked)
    if there is not None:
        return there
    others = [each for each in FORMATS if each.reads and each not in asked]
    if content and (other := _recognised(candidate, others)[0]) is not None:
        unfit = f"{system.name} does not start from" if system else f"has no {_CONTENTS[content]}"
        raise CanonError(f"{other}, which {unfit}; accepted: {', '.join(each.title for each in asked)}.")
    if mistakes:
        raise mistakes[-1]
    asked.sort(key=lambda each: each.folder != candidate.path.is_dir())  # what it looks like first
    titles = [each.title + each.mark for each in asked]
    raise CanonError(f"{path} is not {' or '.join(filter(None, [', '.join(titles[:-1]), titles[-1]]))}.")


def _recognised(candidate: Candidate, formats: list[Format]) -> tuple[Recognised | None, list[CanonError]]:
    """What is there by the first of the formats that knows it, and what they said who could not read it."""
    mistakes = []
    fitting = [each for each in formats if each.folder == candidate.path.is_dir()]
    for each in {each.module: each for each in fitting}.values():  # a module knows all its formats
        try:
            with border(candidate.path):
                known: Recognised | None = each.load().recognise(candidate)
        except CanonError as mistake:  # another format may know it better
            mistakes.append(mistake)
            continue
        if known is not None:
            return known, mistakes
    return None, mistakes


def open_for(system: System, path: str | Path, content: Content, key: str) -> Any:
    """The same of a setting `key` of a recipe: only the formats that the system reads."""
    try:
        return open(path, content, system)
    except CanonError as mistake:
        sentence = str(mistake)
        raise CanonError(f"{key}: {'t' if sentence.startswith('There ') else sentence[0]}{sentence[1:]}") from None


def recognise(path: str | Path) -> Recognised | None:
    """What is at `path`; None where canon does not know it."""
    try:
        known: Recognised = open(path)
    except CanonError:
        return None
    return known
