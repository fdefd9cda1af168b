"""Image files to uint8 [N, C, H, W]: a folder with one sub-folder per class, decoded once or when taken.

Conversions, in this order: EXIF turns the picture upright; 16 bits become 8 by division by 257; what is transparent
becomes white; palettes and other colour models become RGB; then grey or RGB as `channels` says; then bilinear resizing.

Shapes: N images, C channels (1 grey, 3 colour), H height, W width.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from canon.data.formats.files import require_readable
from canon.data.progress import bar
from canon.data.schema import Column, FileRecord
from canon.data.source import SPLITS, ImageSource, Pictures, split_of
from canon.errors import CanonError, reason

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
IN_MEMORY = 2 << 30  # bytes of pixels in one split; more are decoded each time they are taken
LONGEST = 128  # pixels of the longer side of images that are resized and for which no size was asked
LARGE = 512  # pixels of a side from which on images of one size are resized, too
SAMPLE = 10_000  # images that the mean and standard deviation are measured on when they are not in memory
T = TypeVar("T")
R = TypeVar("R")


@cache
def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise CanonError("Reading image files needs Pillow; pip install 'deepcanon[images]'.") from None
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # an error below
    return Image


def _threaded(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Pillow decodes outside the interpreter's lock, so threads are enough."""
    with ThreadPoolExecutor(min(32, os.cpu_count() or 1)) as pool:
        yield from pool.map(work, items)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """The image with its header read; whatever goes wrong then or while its pixels are read is a CanonError."""
    Image = _pillow()
    require_readable(path)  # a pipe never begins
    if not path.is_file():
        raise CanonError(f"There is no file {path}.")
    image = None
    try:
        with Image.open(path) as image:
            if image.width * image.height > Image.MAX_IMAGE_PIXELS:
                raise Image.DecompressionBombError
            yield image
    except CanonError:
        raise
    except Image.DecompressionBombError:
        most = Image.MAX_IMAGE_PIXELS
        raise CanonError(f"{path} has over {most:,} pixels by its header, so it is not opened; remove it.") from None
    except Exception as mistake:  # Pillow's readers raise errors of many classes
        if image is None:
            raise CanonError(f"{path} is not an image that can be read; remove it or replace it.") from None
        raise CanonError(f"{path} is damaged or cut short ({reason(mistake)}); replace it.") from None


def decode(path: Path, channels: int, size: tuple[int, ...] = ()) -> np.ndarray:
    """One file as uint8 [C, H, W]; `size` is (height, width), () as it is."""
    Image = _pillow()
    from PIL import ImageOps

    with _open(path) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):
            wide = np.asarray(image).astype(np.int64).clip(0, 65535)
            image = Image.fromarray(((wide + 128) // 257).astype(np.uint8))
        elif image.mode == "F":
            raise CanonError(f"{path} has pixels that are fractions; save it with 8 or 16 bits.")
        if image.has_transparency_data:
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        image = image.convert("L" if channels == 1 else "RGB")
        if size and (image.height, image.width) != tuple(size):
            image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


@dataclass(frozen=True)
class ImageFiles:
    """A column of images in files."""

    paths: tuple[Path, ...]
    image_shape: tuple[int, int, int]
    dtype: ClassVar[np.dtype] = np.dtype(np.uint8)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.paths), *self.image_shape)

    def __len__(self) -> int:
        return len(self.paths)

    def subset(self, rows: np.ndarray) -> ImageFiles:
        return replace(self, paths=tuple(self.paths[row] for row in rows))

    def take(self, indices: np.ndarray, text: str = "") -> np.ndarray:
        channels, *size = self.image_shape
        images = np.empty((len(indices), *self.image_shape), dtype=np.uint8)
        chosen = [self.paths[index] for index in indices]
        with bar(text, len(chosen), enabled=bool(text)) as progress:
            for row, image in enumerate(_threaded(lambda path: decode(path, channels, tuple(size)), chosen)):
                images[row] = image
                progress.advance()
        return images


def load(files: ImageFiles, split: str) -> np.ndarray | ImageFiles:
    """All pixels in memory if they fit, else the column as it is."""
    if int(np.prod(files.shape, dtype=np.int64)) > IN_MEMORY:
        return files
    return files.take(np.arange(len(files)), f"decoding {split} images")


def pixel_statistics(images: np.ndarray | Column, seed: int = 0) -> tuple[tuple[float, ...], tuple[float, ...], str]:
    """Mean and standard deviation of each channel on the 0-255 scale, exact from counts of the 256 values."""
    note, rows = "", np.arange(len(images))
    if not isinstance(images, np.ndarray) and len(rows) > SAMPLE:
        rows = np.sort(np.random.RandomState(seed & 0xFFFFFFFF).permutation(len(rows))[:SAMPLE])
        note = f"Pixel mean and deviation were measured on {SAMPLE:,} training images."
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    with bar("measuring pixels", len(rows)) as progress:
        for start in range(0, len(rows), 1024):
            part = rows[start : start + 1024]
            pixels = images[part] if isinstance(images, np.ndarray) else images.take(part)
            for channel in range(counts.shape[0]):
                counts[channel] += np.bincount(pixels[:, channel].reshape(-1), minlength=256)
            progress.advance(len(part))
    values, total = np.arange(256, dtype=np.float64), counts.sum(axis=1)
    mean = counts @ values / total
    std = np.sqrt(np.maximum(counts @ values**2 / total - mean**2, 0.0))
    return tuple(mean.tolist()), tuple(float(value) or 1.0 for value in std), note


# A folder


def visible(folder: Path) -> list[Path]:
    """What is in a folder, sorted, without hidden files and those that operating systems write."""
    written = ("Thumbs.db", "desktop.ini", "__MACOSX")
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in written)
    for path in paths:
        require_readable(path)
    return paths


def _by_class(folder: Path, known: tuple[str, ...]) -> tuple[list[Path], list[int], tuple[str, ...]]:
    """(files, class indices, classes) of one part; a flat folder has no classes."""
    folders = [path for path in visible(folder) if path.is_dir()]
    loose = [path for path in visible(folder) if path.is_file()]
    if not folders and not loose:
        raise CanonError(f"{folder} has no images; put them there, or into one folder for each class.")
    if not folders:
        return [_image(path) for path in loose], [], ()
    if any(path.suffix.lower() in ENDINGS for path in loose):
        raise CanonError(
            f"{folder} has both images and class folders; move {loose[0].name} into the folder of its class."
        )
    classes = known or tuple(path.name for path in folders)
    paths: list[Path] = []
    labels: list[int] = []
    for path in folders:
        if path.name not in classes:
            raise CanonError(f'{path}: class "{path.name}" is not one of {", ".join(classes)}.')
        images = [_image(file) for file in visible(path)]
        if not images:
            raise CanonError(f"{path} has no images; remove the folder or fill it.")
        paths.extend(images)
        labels.extend([classes.index(path.name)] * len(images))
    return paths, labels, classes


def _image(path: Path) -> Path:
    if path.is_dir():
        raise CanonError(f"{path} is a folder inside a class folder; put all images of a class into one folder.")
    if path.suffix.lower() not in ENDINGS:
        raise CanonError(f"{path} is not an image, by its ending; remove it from the folder.")
    return path


def list_folder(
    folder: Path, classes: tuple[str, ...] = ()
) -> tuple[dict[str, tuple[list[Path], list[int]]], tuple[str, ...]]:
    """(files, class indices) of each split, and the classes (those given, else the training part's)."""
    roots = {"train": folder}
    folders = [path for path in visible(folder) if path.is_dir()]
    folder_names = {path.name.lower() for path in folders}
    if folder_names & {*SPLITS["train"]} and folder_names <= {name for known in SPLITS.values() for name in known}:
        roots = {split_of(path): path for path in folders}  # train/, valid/, test/ and nothing else
    parts: dict[str, tuple[list[Path], list[int]]] = {}
    for split in sorted(roots, key=list(SPLITS).index):  # train first: it decides the classes
        paths, labels, names = _by_class(roots[split], classes)
        parts[split], classes = (paths, labels), classes or names
    return parts, classes


def read_folder(folder: Path, size: tuple[int, ...], channels: int, like: ImageSource | None = None) -> ImageSource:
    """`like`: the training source, whose classes, channels and size another folder must have."""
    listed, classes = list_folder(folder, like.classes if like else ())
    everything = [path for paths, _ in listed.values() for path in paths]
    known = like.parts["train"].pixels.shape[1:] if like else None
    shape, notes = (known, ()) if known else image_shape(everything, size, channels)
    parts = {
        split: Pictures(ImageFiles(tuple(paths), shape), np.array(labels, dtype=np.int64) if labels else None)
        for split, (paths, labels) in listed.items()
    }
    return ImageSource(folder.name, parts, (folder_record(folder, everything),), notes, classes=classes)


def image_shape(
    paths: Sequence[Path], wanted: tuple[int, ...], channels: int
) -> tuple[tuple[int, int, int], tuple[str, ...]]:
    """(C, H, W) of all images, and a note: as the settings say, else as all are, else their median height and width,
    made smaller where a side is longer than `LONGEST`."""
    channels = channels or _channels(paths[0])
    if wanted:
        if len(wanted) != 2:
            raise CanonError(f"data.size must be a height and a width, as in [32, 32]; got {list(wanted)}.")
        return (channels, wanted[0], wanted[1]), ()
    measured = []
    with bar("measuring images", len(paths)) as progress:
        for size in _threaded(_size, paths):
            progress.advance()
            measured.append(size)
    sizes = set(measured)
    height, width = (int(np.median(sides)) for sides in zip(*measured, strict=True))
    if len(sizes) == 1 and max(height, width) <= LARGE:
        return (channels, height, width), ()
    scale = min(1.0, LONGEST / max(height, width))
    height, width = (max(1, round(side * scale)) for side in (height, width))
    what = f"The images have {len(sizes):,} sizes and are" if len(sizes) > 1 else "The images are large and are"
    return (channels, height, width), (f"{what} resized to {height} x {width} (height x width); data.size chooses.",)


def _size(path: Path) -> tuple[int, int]:
    with _open(path) as image:
        turned = image.getexif().get(0x0112, 1) >= 5  # orientations 5 to 8 are turned by 90°
        return (image.width, image.height) if turned else (image.height, image.width)


def folder_record(folder: Path, paths: Sequence[Path]) -> FileRecord:
    """One record for many files: the hash of their names and hashes."""
    digest, total = hashlib.sha256(), 0
    with bar("hashing files", len(paths)) as progress:
        for path, record in zip(paths, _threaded(FileRecord.of, paths), strict=True):
            digest.update(f"{path.relative_to(folder).as_posix()}\0{record.sha256}\n".encode())
            total += record.bytes
            progress.advance()
    return FileRecord(str(folder), total, digest.hexdigest())


def probe(paths: Sequence[Path]) -> Iterator[str | CanonError]:
    """Each file decoded: "height x width x channels", or the error that says why it cannot be."""

    def look(path: Path) -> str | CanonError:
        try:
            channels, height, width = decode(path, _channels(path)).shape
            return f"{height} x {width} x {channels}"
        except CanonError as mistake:
            return mistake

    return _threaded(look, paths)


def _channels(path: Path) -> int:
    with _open(path) as image:
        return 1 if image.mode in ("1", "L", "LA", "La") or image.mode.startswith("I") else 3
