"""Image files against Pillow, IDX files against hand-written bytes, CIFAR batches against pickled ones."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from canon.data.config import DataConfig
from canon.data.formats import images, pickles
from canon.errors import CanonError
from tests.data.makers import Payload, cifar_folder, idx_bytes, idx_folder, image_folder
from tests.reading import read_as

COLOUR = np.random.default_rng(1).integers(0, 256, (6, 5, 3), dtype=np.uint8)
GREY = COLOUR[:, :, 0]


def saved(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_decode_equals_pillow(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(COLOUR))
    np.testing.assert_array_equal(images.decode(path, 3), COLOUR.transpose(2, 0, 1))
    np.testing.assert_array_equal(images.decode(path, 1)[0], np.asarray(Image.fromarray(COLOUR).convert("L")))
    resized = Image.fromarray(COLOUR).resize((3, 4), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(images.decode(path, 3, (4, 3)), np.asarray(resized).transpose(2, 0, 1))


def test_grey_as_colour_and_palette_and_bits(tmp_path: Path) -> None:
    grey = saved(tmp_path / "g.png", Image.fromarray(GREY))
    np.testing.assert_array_equal(images.decode(grey, 3), np.stack([GREY] * 3))
    palette = Image.fromarray(COLOUR).quantize(8)
    path = saved(tmp_path / "p.png", palette)
    np.testing.assert_array_equal(images.decode(path, 3), np.asarray(palette.convert("RGB")).transpose(2, 0, 1))
    bits = saved(tmp_path / "b.png", Image.fromarray(GREY > 127))
    np.testing.assert_array_equal(images.decode(bits, 1)[0], np.where(GREY > 127, 255, 0))


def test_sixteen_bits_become_eight(tmp_path: Path) -> None:
    wide = np.array([[0, 257, 65535], [128, 129, 32768]], dtype=np.uint16)
    path = saved(tmp_path / "w.png", Image.fromarray(wide))
    np.testing.assert_array_equal(images.decode(path, 1)[0], np.rint(wide / 257).astype(np.uint8))


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    alpha = np.dstack([COLOUR, np.zeros((6, 5), np.uint8)])
    alpha[0, 0, 3] = 255
    decoded = images.decode(saved(tmp_path / "t.png", Image.fromarray(alpha)), 3)
    np.testing.assert_array_equal(decoded[:, 0, 0], COLOUR[0, 0])
    assert (decoded[:, 1:] == 255).all()


def test_exif_turns_the_picture(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path / "e.png", Image.fromarray(COLOUR), exif=exif)
    np.testing.assert_array_equal(images.decode(path, 3), np.rot90(COLOUR, -1).transpose(2, 0, 1))
    assert images.image_shape([path], (), 0) == ((3, 5, 6), ())


def test_pixel_statistics_equal_numpys() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (3000, 3, 4, 5), dtype=np.uint8)
    mean, std, _ = images.pixel_statistics(pixels)
    np.testing.assert_allclose(mean, pixels.mean(axis=(0, 2, 3), dtype=np.float64))
    np.testing.assert_allclose(std, pixels.std(axis=(0, 2, 3), dtype=np.float64))


def test_folder_by_class(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "pets", count=10)
    data = read_as(DataConfig(source=str(folder), test=0.2), "pixels")
    assert data.schema.classes == ("cat", "dog") and data.schema.shape == (3, 8, 8)
    assert {name: len(split["target"]) for name, split in data.splits.items()} == {"train": 14, "valid": 2, "test": 4}
    assert np.bincount(np.asarray(data.splits["test"]["target"])).tolist() == [2, 2]
    result = {bytes(image) for split in data.splits.values() for image in np.asarray(split["input"])}
    paths = [folder / name / f"{index}.png" for name in ("cat", "dog") for index in range(10)]
    assert result == {np.asarray(Image.open(path)).transpose(2, 0, 1).tobytes() for path in paths}
    assert len(data.files) == 1 and data.files[0].bytes == sum(path.stat().st_size for path in paths)


def test_folder_with_its_own_splits_and_size(tmp_path: Path) -> None:
    for split, count in (("train", 6), ("val", 3), ("test", 2)):
        image_folder(tmp_path / "pets" / split, count=count, size=9)
    data = read_as(DataConfig(source=str(tmp_path / "pets"), size=(4, 5), channels=1), "pixels")
    assert {name: np.shape(split["input"]) for name, split in data.splits.items()} == {
        "train": (12, 1, 4, 5),
        "valid": (6, 1, 4, 5),
        "test": (4, 1, 4, 5),
    }


def test_images_that_do_not_fit_are_decoded_when_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = DataConfig(source=str(image_folder(tmp_path / "pets")))
    whole = read_as(config, "pixels")
    monkeypatch.setattr(images, "IN_MEMORY", 100)
    lazy = read_as(config, "pixels")
    column = lazy.splits["train"]["input"]
    assert isinstance(column, images.ImageFiles)
    rows = np.array([3, 0, 3])
    np.testing.assert_array_equal(column.take(rows), np.asarray(whole.splits["train"]["input"])[rows])
    assert lazy.schema == whole.schema and lazy.fingerprint() == whole.fingerprint()


# IDX


@pytest.mark.parametrize("packed", [True, False])
def test_idx_equals_the_written_bytes(tmp_path: Path, packed: bool) -> None:
    arrays = idx_folder(tmp_path / "m", packed=packed)
    data = read_as(DataConfig(source=str(tmp_path / "m"), valid=0.0), "pixels")
    np.testing.assert_array_equal(data.splits["train"]["input"][:, 0], arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(data.splits["test"]["target"], arrays["t10k-labels-idx1-ubyte"])
    assert data.schema.classes == ("0", "1", "2") and data.protocol["split"]["test"] == "the source's own"
    assert len(data.files) == 4


@pytest.mark.parametrize(
    "raw,message",
    [
        (b"\1\2\3\4", "is not an IDX file"),
        (b"", "is not an IDX file"),
        (b"\0\0\x0d\3" + b"\0" * 12, "has type 0x0D with 3 dimensions; accepted are bytes"),
        (idx_bytes(np.zeros((2, 2, 2)))[:-1], "is 23 bytes long but its header says 24"),
        (idx_bytes(np.zeros((2, 2, 2))) + b"x", "is 25 bytes long but its header says 24"),
    ],
)
def test_idx_headers_are_checked(tmp_path: Path, raw: bytes, message: str) -> None:
    idx_folder(tmp_path, packed=False)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(raw)
    with pytest.raises(CanonError, match=message):
        read_as(DataConfig(source=str(tmp_path)), "pixels")


# CIFAR-10 and pickles


def test_cifar_folder_and_archive_equal_the_pickled_arrays(tmp_path: Path) -> None:
    pixels, labels = cifar_folder(tmp_path / "cifar-10-batches-py")
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "cifar-10-batches-py", "cifar-10-batches-py")
    for source in (tmp_path / "cifar-10-batches-py", tmp_path, archive):
        data = read_as(DataConfig(source=str(source), valid=0.0), "pixels")
        np.testing.assert_array_equal(data.splits["train"]["input"], pixels[:30])
        np.testing.assert_array_equal(data.splits["test"]["input"], pixels[30:])
        np.testing.assert_array_equal(data.splits["train"]["target"], labels[:30])
        assert data.schema.classes == tuple(f"class{i}" for i in range(10))


def test_an_archive_that_points_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("../evil")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(CanonError, match=r'has a member "\.\./evil" outside its folder'):
        read_as(DataConfig(source=str(archive)), "pixels")


@pytest.mark.parametrize("protocol", range(5))
def test_plain_pickles_are_read(protocol: int) -> None:
    value = {"a": np.arange(6, dtype=np.uint8).reshape(2, 3), "b": [1, 2.5, None, True], "c": (np.int64(3), {4})}
    loaded = pickles.load(io.BytesIO(pickle.dumps(value, protocol)), "x")
    loaded = {key.decode() if isinstance(key, bytes) else key: item for key, item in loaded.items()}
    np.testing.assert_array_equal(loaded["a"], value["a"])
    assert loaded["b"] == value["b"] and loaded["c"] == value["c"]


@pytest.mark.parametrize("protocol", range(5))
def test_a_malicious_pickle_does_nothing(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "touched"
    with pytest.raises(CanonError, match=r"it asks for (posix|nt)\.system"):
        pickles.load(io.BytesIO(pickle.dumps({"data": Payload(marker)}, protocol)), "x")
    assert not marker.exists()


@pytest.mark.parametrize("raw", [b"", b"\x80\x02}q", b"not a pickle", b"cbuiltins\neval\n(S'1'\ntR.", b"P1\n."])
def test_broken_pickles_are_a_sentence(raw: bytes) -> None:
    with pytest.raises(CanonError, match="x is not"):
        pickles.load(io.BytesIO(raw), "x")
