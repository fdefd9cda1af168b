"""Word vectors in other people's files, both ways: the part of `canon convert` that is about words.

From a run, or a file of any kind that is read; to the files that other tools read, or to a run directory that
`neighbors`, `analogy`, `evaluate` and train.init take like any other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from canon import recipe as recipes
from canon import registry
from canon.config import Table
from canon.data.encodings.bags import BagSchema
from canon.data.encodings.word_ids import WordIdSchema
from canon.data.schema import Data, FileRecord
from canon.data.targets import Labels
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop import fasttext, vectors_write
from canon.interop.vectors import VectorFile
from canon.interop.word_weights import is_run, read_vectors
from canon.runs import checkpoint
from canon.training.run import Run
from canon.use.export import WordOptions

FORMATS = (*vectors_write.FORMATS, "fasttext-bin")
_ENDINGS = {"numpy": ".npy", "safetensors": ".safetensors"}
_EPOCHS = 10  # of the recipe in a run that was made from a file; it is never trained as it is


@dataclass(frozen=True)
class ConvertedWords:
    source: str
    target: str
    format: str
    kind: str  # of the source: a format, or a system
    words: int
    dim: int
    notes: tuple[str, ...]

    def to_json(self) -> Table:
        return {**asdict(self), "notes": list(self.notes)}


def convert(source: str, target: Path, to: str, options: WordOptions) -> ConvertedWords:
    """Writes `target` in the format `to`, one of FORMATS or canon, as a whole or not at all."""
    wanted = _ENDINGS.get(to, target.suffix)
    if to != "canon" and target.suffix != wanted:
        raise CanonError(f'{target}: --to {to} writes {wanted}, not "{target.suffix}".')
    if to in ("canon", "fasttext-bin"):
        return _convert_whole(source, target, to, options)
    found = read_vectors(source, **asdict(options))
    notes = vectors_write.write(target, to, found.words, found.matrix)
    return _told(found, target, to, (*found.notes, *notes))


def _told(found: VectorFile, target: Path, to: str, notes: tuple[str, ...]) -> ConvertedWords:
    return ConvertedWords(found.source, str(target), to, found.format, len(found.words), found.dim, notes)


def _convert_whole(source: str, target: Path, to: str, options: WordOptions) -> ConvertedWords:
    """To what holds more than one vector for each word: fastText's .bin with its n-grams, and runs."""
    if is_run(source) and to == "canon":
        raise CanonError(f"{source} is a run already.")
    path, plain = Path(source), options == WordOptions()
    if plain and is_run(source):
        recipe, schema = Run.open(source).recipe, Run.open(source).schema
        if recipe.system.name in ("fasttext", "fasttext-classifier") and schema.words is not None:
            groups, _ = checkpoint.load(Run.open(source).best(), recipe.system.name, groups=("model",))
            tensors = {name: tensor.numpy() for name, tensor in groups["model"].items()}
            model = fasttext.from_run_parts(recipe.system.name, recipe.config, tensors, schema.words, schema.classes)
            fasttext.write(target, model)
            return ConvertedWords(source, str(target), to, recipe.system.name, schema.words.size, recipe.config.dim, ())
    elif plain and fasttext.is_fasttext(path):
        model = fasttext.read(path)
        told = ConvertedWords(source, str(target), to, "fasttext", model.words.size, model.settings.dim, ())
        if to == "fasttext-bin":
            fasttext.write(target, model)
        else:
            system, settings, arrays, words, labels = fasttext.to_run_parts(model)
            _write_run(source, target, system, settings, arrays, words, labels)
        return told
    found = read_vectors(source, **asdict(options))
    matrix_VD = np.array(found.matrix, np.float32)
    words = Words(list(found.words), np.ones(len(found.words), np.int64), len(found.words))
    output_VD = np.zeros_like(matrix_VD)
    notes = (*found.notes, "Its words have no counts there; each counts once here.")
    if to == "fasttext-bin":
        own = fasttext.Settings(dim=found.dim, buckets=0, minn=0, maxn=0)
        fasttext.write(target, fasttext.Model(own, words, matrix_VD, output_VD))
        notes = (*notes, "It has no n-grams, so unknown words have no vectors.")
    else:
        settings = {"vocab_size": words.size, "dim": found.dim}
        _write_run(source, target, "word2vec", settings, {"input": matrix_VD, "output": output_VD}, words, ())
    return _told(found, target, to, notes)


def _write_run(
    source: str,
    target: Path,
    system: str,
    settings: Table,
    arrays: dict[str, np.ndarray],
    words: Words,
    labels: tuple[str, ...],
) -> None:
    if target.exists():
        raise CanonError(f"{target} already exists: give another name for the run.")
    record, name = registry.find(system)[0], Path(source).name
    config: Any = record.configure("", settings)
    chosen = {field.name: getattr(config, field.name) for field in fields(config)}
    table: Table = {"system": {"name": system, **chosen}, "train": {"epochs": _EPOCHS}}
    recipe = recipes.build(table, f"vectors of {name}", {f"system.{key}": f"file {name}" for key in chosen})
    schema = BagSchema(Labels(labels), words=words) if labels else WordIdSchema(words=words)
    file = FileRecord.of(Path(source))
    data = Data(file.name, schema, {}, (file,), notes=(f"Vectors made elsewhere: {file.name}.",))
    tensors = {key: torch.from_numpy(np.ascontiguousarray(array)) for key, array in arrays.items()}
    Run.create(target, recipe.resolved(1), data, start=({"model": tensors}, {}), trained=True)
