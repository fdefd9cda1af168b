"""CIFAR-10 in its Python form: the published tar.gz, or the folder that it unpacks to.

Each batch is a pickle of {"data": uint8 [N, 3072] (red, green, blue planes, row by row), "labels": list of N}. It is
read by the allow-list reader (pickles.py), out of the archive, member by member; nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from canon.data.formats import pickles
from canon.data.formats.files import open_bytes, read_raw
from canon.data.schema import FileRecord
from canon.data.source import ImageSource, Pictures
from canon.errors import CanonError, border

FOLDER = "cifar-10-batches-py"
BATCHES = tuple(f"data_batch_{index}" for index in range(1, 6))
EXPECTED = (*BATCHES, "test_batch", "batches.meta")


def find(path: Path) -> Path | None:
    """The archive or folder of batches that `path` is or holds."""
    if path.is_file():
        return path if path.name.endswith((".tar.gz", ".tgz", ".tar")) else None
    for folder in (path, path / FOLDER):
        if any((folder / name).is_file() for name in EXPECTED[:-1]):
            return folder
    return next(iter(sorted(path.glob("cifar-10*.tar.gz"))), None)


def read_cifar(path: Path) -> ImageSource:
    files = [path] if path.is_file() else [path / name for name in EXPECTED if (path / name).is_file()]
    raw = _members(path) if path.is_file() else {file.name: read_raw(file) for file in files}
    classes = _classes(raw, path)
    batches = {name: _batch(raw[name], f"{path}: {name}", len(classes)) for name in EXPECTED[:-1] if name in raw}
    train = [batches[name] for name in BATCHES if name in batches]
    if not train:
        raise CanonError(f"{path} has no batches of CIFAR-10; it must have {', '.join(EXPECTED)}.")
    images, labels = (np.concatenate(columns) for columns in zip(*train, strict=True))
    parts = {"train": Pictures(images, labels)}
    if "test_batch" in batches:
        parts["test"] = Pictures(*batches["test_batch"])
    return ImageSource(path.name, parts, tuple(FileRecord.of(file) for file in files), classes=classes)


def _members(path: Path) -> dict[str, bytes]:
    """The expected members of the archive, by name; others are skipped, and one outside the archive's folder is an
    error."""
    raw: dict[str, bytes] = {}
    try:
        with open_bytes(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                place = PurePosixPath(member.name)
                if place.is_absolute() or ".." in place.parts:
                    raise CanonError(
                        f'{path} has a member "{member.name}" outside its folder, so it is not read; fetch it again.'
                    )
                if member.isfile() and place.parent.name == FOLDER and place.name in EXPECTED:
                    content = archive.extractfile(member)
                    assert content is not None
                    raw[place.name] = content.read()
    except tarfile.TarError as mistake:
        raise CanonError(f"{path} is not a whole tar archive ({mistake}); fetch it again.") from None
    return raw


def _classes(raw: Mapping[str, bytes], path: Path) -> tuple[str, ...]:
    if "batches.meta" not in raw:
        return tuple("0123456789")
    meta = pickles.load(io.BytesIO(raw["batches.meta"]), f"{path}: batches.meta")
    names = _get(meta, "label_names", f"{path}: batches.meta")
    with border(f"{path}: batches.meta"):
        classes = tuple(name.decode() if isinstance(name, bytes) else name for name in names)
    if not all(isinstance(name, str) and name.isprintable() for name in classes) or len(set(classes)) < len(classes):
        raise CanonError(f"{path}: batches.meta: label_names must be different texts.")
    return classes


def _get(table: Any, key: str, name: str) -> Any:
    for form in (key.encode(), key):
        if isinstance(table, dict) and form in table:
            return table[form]
    raise CanonError(f'{name} has no "{key}".')


def _batch(raw: bytes, name: str, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    table = pickles.load(io.BytesIO(raw), name)
    with border(name):  # lists of several lengths, or of anything
        pixels, labels = np.asarray(_get(table, "data", name)), np.asarray(_get(table, "labels", name))
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != 3072:
        raise CanonError(f"{name}: data is {pixels.dtype} {list(pixels.shape)}; it must be uint8 [N, 3072].")
    if labels.shape != (len(pixels),) or labels.dtype.kind not in "iu":
        raise CanonError(f"{name}: {labels.size:,} labels for {len(pixels):,} images; each must have one.")
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= num_classes:
        raise CanonError(f"{name}: a label is not one of the {num_classes} classes.")
    return pixels.reshape(-1, 3, 32, 32), labels.astype(np.int64)
