"""Pixels: images of one shape, scaled by the mean and standard deviation of the training images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.columns import listed
from canon.data.encodings.base import Ask, Encoding, finish, with_statistics
from canon.data.formats import idx, images
from canon.data.kinds import open_for
from canon.data.kinds.images import IMAGES, like_shape
from canon.data.paths import find_path, named_set
from canon.data.schema import Column, Columns, Data, Schema
from canon.data.settings import Common
from canon.data.source import ImageSource, Pictures, Source
from canon.data.splits import choose
from canon.data.targets import Class, Nothing, Number, Target
from canon.errors import CanonError


@settings
class PixelSettings(Common):
    augment: tuple[str, ...] = Field(default=(), description="changes to training images, in this order (docs/data.md)")


@dataclass(frozen=True)
class PixelSchema(Schema):
    encoding = "pixels"
    one_shape: ClassVar[bool] = True
    mean: tuple[float, ...] = (0.0,)  # by channel, or one for all
    std: tuple[float, ...] = (1.0,)
    white: int = 255  # the value of a white pixel

    @property
    def scaling(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.mean, self.std


class Pixels(Encoding):
    name = "pixels"
    reads = (IMAGES,)
    settings = PixelSettings
    schema = PixelSchema

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        assert isinstance(source, ImageSource)
        target, targets = _targets(source, ask)
        labels = source.parts["train"].labels
        chosen, rule = choose(source, config, labels if isinstance(target, Class) else None)
        splits: dict[str, Columns] = {}
        for name, (part, rows) in chosen.items():
            pixels = source.parts[part].pixels
            taken = pixels[rows] if isinstance(pixels, np.ndarray) else images.load(pixels.subset(rows), name)
            splits[name] = {"input": taken, **({"target": targets[part][rows]} if targets else {})}
        train: np.ndarray | Column = splits["train"]["input"]
        note = ""
        mean: tuple[float, ...]
        std: tuple[float, ...]
        if source.white != 255:  # not measured, so that the network reads 0 to 1
            mean, std = (0.0,), (float(source.white),)
        else:
            mean, std, note = images.pixel_statistics(train, config.seed)
        if isinstance(target, Number):
            target = with_statistics(target, np.asarray(splits["train"]["target"]))
        elif isinstance(target, Class):
            counts = np.bincount(np.asarray(splits["train"]["target"]), minlength=len(target.classes))
            target = replace(target, counts=tuple(counts.tolist()))
        schema = PixelSchema(target, tuple(train.shape[1:]), mean=mean, std=std, white=source.white)
        return finish(source, schema, splits, rule, config, [note])

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        """Without decoding: what `fit` asks of images is their labels."""
        assert isinstance(source, ImageSource)
        try:
            _targets(source, ask)
        except CanonError as mistake:
            return str(mistake)
        return ""

    # For a run that was trained

    def layout(self, schema: PixelSchema, config: Any) -> Any:
        return replace(super().layout(schema, config), size=(), channels=0)

    def labelled(self, schema: PixelSchema, source: str, config: Any) -> Columns:
        """Files are converted to the shape and the classes of the training images."""
        layout = self.layout(schema, replace(config, source=source))
        if named_set(source) is not None or not IMAGES.sniff(find_path(source), layout):
            return self.columns(schema, open_for(self.reads, layout, "The run"), config)
        like = like_shape(schema.classes, schema.shape)
        return self.columns(schema, IMAGES.read(find_path(source), layout, like), config)

    def columns(self, schema: PixelSchema, source: Source, config: Any) -> Columns:
        assert isinstance(source, ImageSource)
        part: Pictures = source.scored()
        predicts = not isinstance(schema.target, Nothing)
        if part.labels is None and predicts:
            raise CanonError(f"{source.name} has no labels to evaluate on.")
        _require_shape(source.name, part.pixels.shape[1:], schema)
        pixels = part.pixels
        if not isinstance(pixels, np.ndarray):
            pixels = pixels.take(np.arange(len(pixels)), "decoding images")
        pixels = _scaled(pixels, schema, source.white)
        if part.labels is None or not predicts:
            return {"input": pixels}
        if isinstance(schema.target, Number):
            return {"input": pixels, "target": np.array([float(c) for c in source.classes], np.float32)[part.labels]}
        unknown = [name for name in source.classes if name not in schema.classes]
        if unknown:
            raise CanonError(f'{source.name}: class "{unknown[0]}" is not one of {listed(schema.classes)}.')
        codes = np.array([schema.classes.index(name) for name in source.classes], dtype=np.int64)
        return {"input": pixels, "target": codes[part.labels]}

    def inputs(self, schema: PixelSchema, sources: Sequence[str], config: Any, text: bool) -> tuple[Columns, list[str]]:
        """Image files and folders of them, or IDX files; these must have the shape already."""
        paths = [find_path(source, named=False) for source in sources]
        if not any(idx.NAME.match(path.name) for path in paths):
            files = images.ImageFiles(tuple(file for path in paths for file in _files(path)), _image_shape(schema))
            names = [str(file) for file in files.paths]
            if int(np.prod(files.shape, dtype=np.int64)) > images.IN_MEMORY and schema.white == 255:
                return {"input": files}, names  # decoded when they are taken
            return {"input": _scaled(files.take(np.arange(len(files)), "decoding images"), schema, 255)}, names
        pixels: list[np.ndarray] = []
        names = []
        for path in paths:
            more, more_names = _read(path, schema)
            pixels.append(more)
            names += more_names
        return {"input": np.concatenate(pixels)}, names


def _targets(source: ImageSource, ask: Ask) -> tuple[Target, dict[str, np.ndarray]]:
    """What is to be predicted, and the target column of each part."""
    labels = {name: part.labels for name, part in source.parts.items() if part.labels is not None}
    labelled = len(source.classes) > 1 and set(labels) == set(source.parts)
    wanted = [target for target in ask.targets if target in (Class, Number, Nothing)]
    kind = wanted[0] if labelled or Nothing not in wanted else Nothing
    if kind is Nothing:
        return Nothing(), {}
    if set(labels) != set(source.parts):
        raise CanonError(f"{source.name} has images but no labels.")
    if kind is Class:
        if len(source.classes) < 2:
            raise CanonError(f'{source.name}: every image is of the class "{source.classes[0]}"; two are the least.')
        return Class(source.classes), labels
    try:
        values = np.array([float(name) for name in source.classes], dtype=np.float32)
    except ValueError:
        raise CanonError(f"{source.name} has classes ({listed(source.classes)}), not numbers to predict.") from None
    return Number(), {name: values[codes] for name, codes in labels.items()}


def _read(path: Path, schema: PixelSchema) -> tuple[np.ndarray, list[str]]:
    if idx.NAME.match(path.name):
        pixels = idx.read_idx(path, 3)[:, None]
        _require_shape(str(path), pixels.shape[1:], schema)
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


def _image_shape(schema: PixelSchema) -> tuple[int, int, int]:
    channels, height, width = schema.shape
    return channels, height, width


def _scaled(pixels: np.ndarray, schema: PixelSchema, white: int) -> np.ndarray:
    """Pixels on the scale of the training images, where that is another (digits: 0 to 16)."""
    if white == schema.white:
        return pixels
    return np.rint(pixels.astype(np.float32) * (schema.white / white)).astype(np.uint8)


def _require_shape(name: str, shape: Sequence[int], schema: PixelSchema) -> None:
    if tuple(shape) != schema.shape:
        there, wanted = (" x ".join(str(size) for size in sizes) for sizes in (shape, schema.shape))
        raise CanonError(f"{name} has images of {there}, the run was trained on {wanted}.")


PIXELS = Pixels()
