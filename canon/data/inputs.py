"""More data for a trained run, read by the schema it was trained with: inputs to predict, labelled ones to evaluate.

Nothing is measured here: encoders, classes, image size and scale are the schema's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from canon.data import features
from canon.data.batching.sequences import Ragged, Windows, lined
from canon.data.catalogue import CATALOGUE
from canon.data.config import DataConfig
from canon.data.finetune_inputs import encode_finetune, read_labelled_finetune
from canon.data.formats import idx, images
from canon.data.formats.files import ending, lines
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import Table, read_table
from canon.data.formats.text import documents as text_of
from canon.data.open import file_of, find_path, open_path, open_source
from canon.data.read import PLURAL, SINGULAR, pair_columns
from canon.data.read_corpus import encode_words, read_corpus_or_tests
from canon.data.read_documents import encode_documents, read_labelled_documents
from canon.data.read_passages import encode_passages, read_more_passages
from canon.data.schema import Columns, Schema
from canon.data.source import Part, Source
from canon.errors import CanonError


def encode(
    schema: Schema, sources: Sequence[str | Path], config: DataConfig, text: bool = False
) -> tuple[Columns, list[str]]:
    """The inputs in files (tables, images or folders of them, texts) and a name for each example.

    Where a run reads text, a source may be the text itself (`open.file_of` tells them apart); text: all of them are.
    """
    given = [str(source) for source in sources]
    if schema.input == "corpus":
        return encode_words(given, config, text)
    if schema.input in _TEXTS:
        return _TEXTS[schema.input](schema, given, config, text)
    if text:
        raise CanonError(f"--text is for runs that read text; this one was trained on {PLURAL[schema.input]}.")
    paths = [find_path(source, named=False) for source in sources]
    if schema.input == "features":
        tables = [_table(path, config) for path in paths]
        found = [features.apply(table, schema.encoders, config.missing) for table in tables]
        names = [f"{table.path}, row {row + 1}" for table in tables for row in range(len(table))]
        return {"input": np.concatenate(found)}, names
    if not any(idx.NAME.match(path.name) for path in paths):
        files = images.ImageFiles(tuple(file for path in paths for file in _files(path)), _image_shape(schema))
        names = [str(file) for file in files.paths]
        if int(np.prod(files.shape, dtype=np.int64)) > images.IN_MEMORY and schema.white == 255:
            return {"input": files}, names  # decoded when they are taken
        return {"input": _scaled(files.take(np.arange(len(files)), "decoding images"), schema, 255)}, names
    pixels: list[np.ndarray] = []
    names = []
    for path in paths:
        found_pixels, found_names = _images(path, schema)
        pixels.append(found_pixels)
        names += found_names
    return {"input": np.concatenate(pixels)}, names


def read_labelled(schema: Schema, path: Path, config: DataConfig) -> Columns:
    """Inputs and targets of other labelled data (its test part, where it has one), to evaluate a run on."""
    if schema.input == "corpus":
        return read_corpus_or_tests(schema, str(path), config)
    if schema.input == "tokens":
        return read_labelled_finetune(schema, str(path), config)
    if schema.input == "document":
        return read_labelled_documents(schema, str(path), config)
    if schema.input == "passages":
        return read_more_passages(schema, str(path), config)
    kind: Literal["table", "pairs", "auto"] = "auto"
    if path.exists() and schema.input == "pairs":
        kind = "pairs"  # a table is then one of two texts
    elif path.is_file() and schema.input == "features":
        kind = "table"
    plain = replace(config, source=str(path), format=kind, valid=0.0, test=0.0, size=(), channels=0)
    like = _like(schema)
    named = str(path) in CATALOGUE and not path.exists()
    source = open_source(plain) if named else open_path(find_path(path), plain, like)
    if source.kind != schema.input:
        raise CanonError(f"The run was trained on {PLURAL[schema.input]}, but {path} is {SINGULAR[source.kind]}.")
    part = source.parts.get("test") or source.parts["train"]
    if schema.target == "next":
        return {"input": Windows(lined(schema.tokenizers["text"], part.inputs), config.window)}
    if schema.input == "pairs":
        return pair_columns(schema.tokenizers["source"], schema.tokenizers["target"], part.inputs)
    if isinstance(part.inputs, Table):
        if schema.target == "none":
            return {"input": features.apply(part.inputs, schema.encoders, config.missing)}
        if schema.label not in part.inputs.names:
            raise CanonError(f'{part.inputs.path} has no column "{schema.label}", which is the label.')
        return {
            "input": features.apply(part.inputs, schema.encoders, config.missing),
            "target": _target(schema, part.inputs),
        }
    if part.labels is None and schema.target != "none":
        raise CanonError(f"{path} has no labels to evaluate on.")
    if tuple(part.inputs.shape[1:]) != schema.shape:
        raise CanonError(
            f"{path} has images of {_sizes(part.inputs.shape[1:])}, the run was trained on {_sizes(schema.shape)}."
        )
    pixels = (
        part.inputs
        if isinstance(part.inputs, np.ndarray)
        else part.inputs.take(np.arange(len(part)), "decoding images")
    )
    pixels = _scaled(pixels, schema, source.white)
    if part.labels is None or schema.target == "none":
        return {"input": pixels}
    if schema.target == "number":
        return {"input": pixels, "target": np.array([float(name) for name in source.classes], np.float32)[part.labels]}
    unknown = [name for name in source.classes if name not in schema.classes]
    if unknown:
        raise CanonError(f'{path}: class "{unknown[0]}" is not one of {features.listed(schema.classes)}.')
    codes = np.array([schema.classes.index(name) for name in source.classes], dtype=np.int64)
    return {"input": pixels, "target": codes[part.labels]}


def _like(schema: Schema) -> Source | None:
    """A stand-in for the training source: its classes and image shape."""
    if schema.input != "image":
        return None
    return Source("", "image", {"train": Part(np.empty((0, *schema.shape), dtype=np.uint8))}, schema.classes)


def _target(schema: Schema, table: Table) -> np.ndarray:
    if schema.target == "number":
        return features.number_targets(table, schema.label)
    return features.class_codes(table, schema.label, schema.classes)


def _table(path: Path, config: DataConfig) -> Table:
    if path.is_dir() or (ending(path) not in TABLES and config.format != "table"):
        raise CanonError(f"The run was trained on a table; {path} is none of {', '.join(TABLES)}.")
    return read_table(path, config)


def _images(path: Path, schema: Schema) -> tuple[np.ndarray, list[str]]:
    """Files are converted to the schema's channels, size and scale; an IDX file must have them already."""
    if idx.NAME.match(path.name):
        pixels = idx.read_idx(path, 3)[:, None]
        if tuple(pixels.shape[1:]) != schema.shape:
            raise CanonError(
                f"{path} has images of {_sizes(pixels.shape[1:])}, the run was trained on {_sizes(schema.shape)}."
            )
        return pixels, [f"{path}, image {index + 1}" for index in range(len(pixels))]
    files = _files(path)
    pixels = images.ImageFiles(tuple(files), _image_shape(schema)).take(np.arange(len(files)), "decoding images")
    return _scaled(pixels, schema, 255), [str(file) for file in files]


def _files(path: Path) -> list[Path]:
    """The image itself, or all images in the folder and below it."""
    if not path.is_dir():
        return [path]
    files = [item for item in sorted(path.rglob("*")) if item.suffix.lower() in images.ENDINGS]
    if not files:
        raise CanonError(f"{path} has no images.")
    return files


def _image_shape(schema: Schema) -> tuple[int, int, int]:
    channels, height, width = schema.shape
    return channels, height, width


def _scaled(pixels: np.ndarray, schema: Schema, white: int) -> np.ndarray:
    """Pixels on the scale of the training images, where that is another (digits: 0 to 16)."""
    if white == schema.white:
        return pixels
    return np.rint(pixels.astype(np.float32) * (schema.white / white)).astype(np.uint8)


def _sizes(shape: Sequence[int]) -> str:
    return " x ".join(str(size) for size in shape)


def _encode_text(
    schema: Schema, sources: Sequence[str], config: DataConfig, is_text: bool = False
) -> tuple[Columns, list[str]]:
    """Each source is a file of documents (of pairs: of sentences, one a line), or is itself the text."""
    found: list[str] = []
    names: list[str] = []
    for source in sources:
        if (path := file_of(source, is_text)) is None:
            found.append(source)
            names.append(source[:60])
            continue
        documents = list((lines if schema.input == "pairs" else text_of)(path, config.encoding))
        found += documents
        names += [f"{source}, document {index + 1}" for index in range(len(documents))]
    if schema.target == "next":
        tokens = lined(schema.tokenizers["text"], found)
        if len(tokens) < 2:
            raise CanonError("The text has no tokens.")
        windows = Windows(tokens, config.window)
        return {"input": windows}, [f"window {index + 1}" for index in range(len(windows))]
    if schema.input == "pairs":
        inputs = Ragged.encode(schema.tokenizers["source"], found)
        return {
            "input": inputs,
            "target": Ragged.encode(schema.tokenizers["target"], [""] * len(found), bos=True),
        }, names
    column = np.empty(len(found), dtype=object)
    column[:] = found
    return {"input": column}, names


_TEXTS = {
    "tokens": encode_finetune,
    "document": encode_documents,
    "passages": encode_passages,
    "text": _encode_text,
    "pairs": _encode_text,
}
