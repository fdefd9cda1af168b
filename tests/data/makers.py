"""Small files for the tests, written by other means than canon reads them."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image

RNG = np.random.default_rng(0)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def idx_folder(folder: Path, train: int = 20, test: int = 10, packed: bool = True) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for prefix, count in (("train", train), ("t10k", test)):
        arrays[f"{prefix}-images-idx3-ubyte"] = RNG.integers(0, 256, (count, 5, 4), dtype=np.uint8)
        arrays[f"{prefix}-labels-idx1-ubyte"] = np.arange(count, dtype=np.uint8) % 3
    for name, array in arrays.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(array)))
        else:
            (folder / name).write_bytes(idx_bytes(array))
    return arrays


def cifar_folder(folder: Path, per_batch: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Batches as the published ones are: protocol 2, texts as bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, (6 * per_batch, 3072), dtype=np.uint8)
    labels = np.arange(6 * per_batch) % 10
    for index, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]):
        rows = slice(index * per_batch, (index + 1) * per_batch)
        batch = {
            b"data": pixels[rows],
            b"labels": labels[rows].tolist(),
            b"batch_label": b"x",
            b"filenames": [b"a.png"],
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    meta = {b"label_names": [f"class{i}".encode() for i in range(10)], b"num_vis": 3072}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    return pixels.reshape(-1, 3, 32, 32), labels


def image_folder(folder: Path, classes: tuple[str, ...] = ("cat", "dog"), count: int = 6, size: int = 8) -> Path:
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            pixels = RNG.integers(0, 256, (size, size, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{index}.png")
    return folder


class Payload:
    """A pickle that would run a command: touch the file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        import os

        return os.system, (f"touch {self.path}",)
