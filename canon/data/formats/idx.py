"""IDX files (MNIST and its likes): images and labels of the train and t10k parts in one folder, compressed or not.

Layout, big-endian: two zero bytes, a type byte (8: unsigned byte), the number of dimensions, each dimension as 32 bits,
then the values, the last dimension fastest (Y. LeCun, "The MNIST database").
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from canon.data.formats.files import read_bytes
from canon.data.schema import FileRecord
from canon.data.source import ImageSource, Pictures
from canon.errors import CanonError

NAME = re.compile(r"(train|t10k|test)[-_.](images|labels)[-_.]idx[13]-ubyte(\.gz|\.xz|\.bz2)?$")
SPLIT = {"train": "train", "t10k": "test", "test": "test"}


def read_idx(path: Path, num_dimensions: int) -> np.ndarray:
    """The array in one file, uint8; it must have that many dimensions and exactly the length that its header gives."""
    raw = read_bytes(path)
    if len(raw) < 4 or raw[:2] != b"\0\0":
        raise CanonError(f"{path} is not an IDX file, which begins with two zero bytes; fetch it again.")
    if raw[2] != 8 or raw[3] != num_dimensions:
        raise CanonError(
            f"{path} has type 0x{raw[2]:02X} with {raw[3]} dimensions; accepted are bytes (0x08) with {num_dimensions}."
        )
    start = 4 + 4 * num_dimensions
    if len(raw) < start:
        raise CanonError(f"{path} is {len(raw):,} bytes long, shorter than its header; fetch it again.")
    shape = tuple(int(size) for size in np.frombuffer(raw[4:start], dtype=">u4"))
    wanted = start + math.prod(shape)
    if len(raw) != wanted:
        raise CanonError(f"{path} is {len(raw):,} bytes long but its header says {wanted:,}; fetch it again.")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)


def is_idx_folder(folder: Path) -> bool:
    return any(NAME.match(path.name) for path in folder.iterdir())


def read_folder(folder: Path, classes: tuple[str, ...] = ()) -> ImageSource:
    files: dict[tuple[str, str], Path] = {}
    for path in sorted(folder.iterdir()):
        if match := NAME.match(path.name):
            files.setdefault((SPLIT[match[1]], match[2]), path)
    parts: dict[str, Pictures] = {}
    for split in sorted({split for split, _ in files}, reverse=True):  # train, then test
        images_path, labels_path = files.get((split, "images")), files.get((split, "labels"))
        if images_path is None:
            raise CanonError(f"{folder} has labels of the {split} part but no images.")
        images = read_idx(images_path, 3)[:, None]
        labels = None
        if labels_path is not None:
            labels = read_idx(labels_path, 1).astype(np.int64)
            if len(labels) != len(images):
                sizes = f"{len(labels):,} labels for {len(images):,} images"
                raise CanonError(f"{labels_path} has {sizes} in {images_path.name}; fetch both again.")
            classes = classes or tuple(str(code) for code in range(int(labels.max(initial=0)) + 1))
            if len(labels) and labels.max() >= len(classes):
                row = int((labels >= len(classes)).argmax())
                raise CanonError(
                    f"{labels_path}, label {row + 1}: {labels[row]} is over the largest class, {len(classes) - 1}."
                )
        if not len(images):
            raise CanonError(f"{images_path} has no images.")
        parts[split] = Pictures(images, labels)
    if "train" not in parts:
        parts = {"train": parts["test"]}
    records = tuple(FileRecord.of(path) for path in files.values())
    return ImageSource(folder.name, parts, records, classes=classes)
