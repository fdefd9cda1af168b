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
from canon.data.encodings.base import Ask, Encoding, Inputs, counted, finish
from canon.data.formats import idx, images
from canon.data.kinds import open_for
from canon.data.kinds.images import IMAGES, like_shape
from canon.data.paths import find_path, named_set
from canon.data.records import Given, Records
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
    reads = (IMAGES,)
    settings = PixelSettings
    schema = PixelSchema
    example_file = "FILE.png"
    takes_rows = False
    causes = (
        "too few steps or another rate is needed (train.epochs, optimizer.lr)",
        "too few images of each class, or images under the wrong class",
        "what matters may be lost in small or grey images (data.size, data.channels)",
    )

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
        if source.white == 255:
            mean, std, note = images.pixel_statistics(train, config.seed)
        else:  # not measured, so that the network reads 0 to 1
            mean, std, note = (0.0,), (float(source.white),), ""
        if targets:
            target = counted(target, np.asarray(splits["train"]["target"]))
        schema = PixelSchema(target, tuple(train.shape[1:]), mean=mean, std=std, white=source.white)
        return finish(source, schema, splits, rule, config, [note])

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        """Without decoding: `fit` needs labels of the images, nothing else."""
        assert isinstance(source, ImageSource)
        return _targets(source, ask)[0]

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

    def inputs(self, schema: PixelSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """Image files and folders of them, or IDX files; these must have the shape already."""
        if any(isinstance(source, Records) for source in sources):
            raise CanonError(f"{self.accepted(schema, 'The run')}; got rows.")
        paths = [find_path(str(source), named=False) for source in sources]
        if not any(idx.NAME.match(path.name) for path in paths):
            files = _image_files([file for path in paths for file in _files(path)], schema)
            names = [str(file) for file in files.paths]
            if int(np.prod(files.shape, dtype=np.int64)) > images.IN_MEMORY and schema.white == 255:
                return {"input": files}, names  # decoded when they are taken
            return {"input": _decoded(files, schema)}, names
        pixels: list[np.ndarray] = []
        names = []
        for path in paths:
            if idx.NAME.match(path.name):
                pixels.append(idx.read_idx(path, 3)[:, None])
                _require_shape(str(path), pixels[-1].shape[1:], schema)
                names += [f"{path}, image {index + 1}" for index in range(len(pixels[-1]))]
            else:
                files = _image_files(_files(path), schema)
                pixels.append(_decoded(files, schema))
                names += [str(file) for file in files.paths]
        return {"input": np.concatenate(pixels)}, names

    def piped_ending(self, head: bytes) -> str:
        return ".png"  # what an image is, its content says


def _targets(source: ImageSource, ask: Ask) -> tuple[Target, dict[str, np.ndarray]]:
    """What is to be predicted, and the target column of each part."""
    labels = {name: part.labels for name, part in source.parts.items() if part.labels is not None}
    labelled = len(source.classes) > 1 and set(labels) == set(source.parts)
    wanted = [target for target in ask.targets if target in (Class, Number, Nothing)]
    kind = wanted[0] if labelled or Nothing not in wanted else Nothing
    if kind is Nothing:
        return Nothing(), {}
    if set(labels) != set(source.parts):
        raise CanonError(f"{source.name} has images but no labels; put those of each class into a folder of that name.")
    if kind is Class:
        if len(source.classes) < 2:
            raise CanonError(
                f'{source.name}: every image is of the class "{source.classes[0]}"; at least two are needed.'
            )
        return Class(source.classes), labels
    try:
        values = np.array([float(name) for name in source.classes], dtype=np.float32)
    except ValueError:
        raise CanonError(f"{source.name} has classes ({listed(source.classes)}), not numbers to predict.") from None
    return Number(), {name: values[codes] for name, codes in labels.items()}


def _files(path: Path) -> list[Path]:
    """The image itself, or all images in the folder and below it."""
    if not path.is_dir():
        return [path]
    files = [item for item in sorted(path.rglob("*")) if item.suffix.lower() in images.ENDINGS]
    if not files:
        raise CanonError(f"{path} has no images.")
    return files


def _image_files(paths: Sequence[Path], schema: PixelSchema) -> images.ImageFiles:
    channels, height, width = schema.shape
    return images.ImageFiles(tuple(paths), (channels, height, width))


def _decoded(files: images.ImageFiles, schema: PixelSchema) -> np.ndarray:
    return _scaled(files.take(np.arange(len(files)), "decoding images"), schema, 255)


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
