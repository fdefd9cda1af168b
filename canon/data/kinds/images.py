"""Images: a folder of files with one sub-folder for each class, IDX files (MNIST and the like), or CIFAR-10's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.catalogue import Dataset
from canon.data.checking.counts import count_arrays, count_image_files
from canon.data.checking.report import CheckReport
from canon.data.formats import cifar, idx, images, pairs
from canon.data.kinds.base import Kind, holds_tables, peeked
from canon.data.kinds.parts import inner, is_about
from canon.data.paths import find_path, named_set
from canon.data.settings import Common, layout
from canon.data.source import ImageSource, Pictures, Source
from canon.errors import CanonError


@settings
class ImageSettings(Common):
    size: tuple[Annotated[int, Field(gt=0, le=1 << 14)], ...] = layout((), "height, width of images in a folder")
    channels: Literal[0, 1, 3] = layout(0, "1 grey, 3 colour, 0 as the first image is")


class ImageKind(Kind):
    name = "images"
    singular = "a set of images"
    plural = "images"
    plural_zh = "图像"
    settings = ImageSettings
    formats = ("images", "idx", "cifar")

    def sniff(self, path: Path, config: Any) -> str:
        if path.is_file():
            if path.name.endswith((".tar.gz", ".tgz", ".tar")):
                return f"{path.name} is an archive, as CIFAR-10 comes in"
            if path.suffix.lower() in images.ENDINGS or idx.NAME.match(path.name):
                raise CanonError(f"{path} is one file of a set of images; give its folder.")
            _refuse_names(path, config)
            return ""
        path = inner(path)
        if idx.is_idx_folder(path):
            return f"{path.name} has IDX files"
        if cifar.find(path) is not None:
            return f"{path.name} has the files of CIFAR-10"
        if holds_tables(path, config) or pairs.pair_languages(path):  # pictures may lie beside other data
            _refuse_names(path, config)
            return ""
        files = [item for item in _sample(path) if not is_about(item)]
        pictures = sum(item.suffix.lower() in images.ENDINGS for item in files)
        return f"{path.name} has image files" if 2 * pictures > len(files) else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> ImageSource:
        known = like if isinstance(like, ImageSource) else None
        name, path = path.name, inner(path)
        form = _form(path, config)
        if form == "cifar":
            if (place := cifar.find(path)) is None:
                raise CanonError(f"{path} has none of the files {', '.join(cifar.EXPECTED)}.")
            source = cifar.read_cifar(place)
        elif not path.is_dir():
            raise CanonError(f'{path} is a file; data.format = "{form}" reads a folder.')
        elif form == "idx":
            source = idx.read_folder(path, known.classes if known else ())
        else:
            source = replace(images.read_folder(path, config.size, config.channels, known), name=name)
        if known is not None and source.white != known.white:
            raise CanonError(f"{path} has pixels of another range than {known.name}.")
        return source

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> ImageSource:
        folder = next(iter(files.values())).parent
        if record.format == "idx":
            return idx.read_folder(folder, record.classes)
        return self.read(folder, replace(config, format="cifar"))

    def check(self, report: CheckReport, config: Any) -> Source | None:
        if named_set(config.source) is None:
            path = inner(find_path(config.source))
            if path.is_dir() and _form(path, config) == "images":
                count_image_files(report, config, path)
        try:
            source = self.source(config)
        except CanonError as mistake:
            if not report.kind:  # nothing was counted yet: there is no report to give
                raise
            report.warn(str(mistake))
            return None
        assert isinstance(source, ImageSource)
        if not report.kind:
            count_arrays(report, config, source)
        return source


def like_shape(classes: tuple[str, ...], shape: tuple[int, ...]) -> ImageSource:
    """A stand-in for the training source: its classes and the shape of its images."""
    return ImageSource("", {"train": Pictures(np.empty((0, *shape), dtype=np.uint8))}, classes=classes)


def _refuse_names(path: Path, config: Any) -> None:
    """Refuses a table of nothing but names of pictures and their classes."""
    if not holds_tables(path, config):
        return
    try:
        table = peeked(path, config)
    except CanonError:  # opening the table raises it again
        return
    for name in table.names if len(table.names) == 2 else ():
        if all(cell.strip().lower().endswith(images.ENDINGS) for cell in table.texts(name).tolist()):
            raise CanonError(
                f'{table.path} names pictures in the column "{name}": put the pictures of each class into a folder of '
                "that name, and give the folder that holds these."
            )


def _form(path: Path, config: Any) -> str:
    if config.format in IMAGES.formats:
        return config.format
    if path.is_file() or (not idx.is_idx_folder(path) and cifar.find(path) is not None):
        return "cifar"
    return "idx" if idx.is_idx_folder(path) else "images"


def _sample(folder: Path) -> list[Path]:
    """The files of the folder and of its first sub-folders, two levels down."""
    level, files = [folder], []
    for _ in range(3):
        items = [item for place in level[:8] for item in images.visible(place)]
        files += [item for item in items if item.is_file()]
        level = [item for item in items if item.is_dir()]
    return files


IMAGES = ImageKind()
