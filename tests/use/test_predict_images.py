"""`canon predict` on every kind of image file: the right answer, or one sentence."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import canon as package
from canon.data import progress
from canon.data.formats import images
from canon.training.trainer import train
from canon.use import model as using

COLOUR = np.random.default_rng(3).integers(0, 256, (8, 8, 3), dtype=np.uint8)
GREY = COLOUR[:, :, 0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on colour images of 8 × 8 pixels."""
    folder = tmp_path_factory.mktemp("colour")
    rng = np.random.default_rng(0)
    for name in ("dark", "light", "middle"):
        (folder / "data" / name).mkdir(parents=True)
        low = {"dark": 0, "light": 150, "middle": 80}[name]
        for i in range(8):
            pixels = rng.integers(low, low + 100, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "data" / name / f"{i}.png")
    train("mlp:tiny", str(folder / "data"), folder / "run", changes={"train.steps": 5}, quiet=True)
    return folder / "run"


def png(width: int, height: int, depth: int, kind: int, rows: bytes, extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND")


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


WHITE = np.full_like(COLOUR, 255)
HALF = np.dstack([COLOUR, np.where(np.arange(8)[:, None] < 4, 255, 0) * np.ones((8, 8))]).astype(np.uint8)
PALETTE = Image.fromarray(COLOUR).quantize(8)
WIDE = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1023
# What is saved, and the RGB pixels that the run must see.
KINDS: dict[str, tuple[Callable[[Path], Any], np.ndarray]] = {
    "colour.png": (Image.fromarray(COLOUR).save, COLOUR),
    "grey.png": (Image.fromarray(GREY).save, np.dstack([GREY] * 3)),
    "palette.png": (PALETTE.save, np.asarray(PALETTE.convert("RGB"))),
    "palette.gif": (PALETTE.save, np.asarray(PALETTE.convert("RGB"))),
    "alpha.png": (Image.fromarray(HALF).save, np.where(HALF[:, :, 3:] > 0, COLOUR, WHITE)),
    "bits.png": (Image.fromarray(GREY > 99).save, np.dstack([np.where(GREY > 99, 255, 0)] * 3)),
    "wide.png": (Image.fromarray(WIDE).save, np.dstack([np.rint(WIDE / 257)] * 3)),
    "wide-colour.png": (
        lambda path: path.write_bytes(
            png(8, 8, 16, 2, b"".join(b"\0" + (row.astype(">u2") * 257).astype(">u2").tobytes() for row in COLOUR))
        ),
        COLOUR,
    ),
    "cmyk.tif": (
        Image.fromarray(COLOUR).convert("CMYK").save,
        np.asarray(Image.fromarray(COLOUR).convert("CMYK").convert("RGB")),
    ),
    "SHOUTED.PNG": (Image.fromarray(COLOUR).save, COLOUR),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_seen_as_its_pixels(name: str, run: Path, canon: Callable[..., Any]) -> None:
    write, pixels = KINDS[name]
    write(Path(name))
    wanted = package.load(run).predict(pixels.astype(np.uint8).transpose(2, 0, 1)[None], top=3)[0]
    (actual,) = json.loads(canon("predict", run, name, "--top", 3, "--json").out)
    assert actual["source"] == name and actual["prediction"] == wanted["prediction"]
    assert [c["class"] for c in actual["top"]] == [c["class"] for c in wanted["top"]]
    assert [c["probability"] for c in actual["top"]] == pytest.approx(
        [c["probability"] for c in wanted["top"]], abs=1e-6
    )
    assert sum(c["probability"] for c in actual["top"]) == pytest.approx(1)


def cut(path: Path, ending: str) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(f"whole.{ending}")
    whole = Path(f"whole.{ending}").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def flipped(path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "text.png": (lambda path: path.write_text("hello"), "is not an image that can be read"),
    "empty.png": (lambda path: path.write_bytes(b""), "is not an image that can be read"),
    "cut.png": (lambda path: cut(path, "png"), "is damaged or cut short"),
    "cut.jpg": (lambda path: cut(path, "jpg"), "is damaged or cut short"),
    "cut.gif": (lambda path: cut(path, "gif"), "is damaged or cut short"),
    "flipped.png": (flipped, "is damaged or cut short"),
    "bomb.png": (lambda path: path.write_bytes(png(60000, 60000, 8, 0, b"\0" * 99)), "it is not opened"),
    "flat.png": (lambda path: path.write_bytes(png(0, 9, 8, 0, b"")), "is not an image that can be read"),
    "chunk-bomb.png": (
        lambda path: path.write_bytes(
            png(2, 2, 8, 0, b"\0\0\0" * 2, chunk(b"zTXt", b"a\0\0" + zlib.compress(b"\0" * (1 << 26))))
        ),
        "is ",
    ),
    "fractions.tif": (lambda path: Image.fromarray(GREY.astype(np.float32)).save(path), "pixels that are fractions"),
    "absent.png": (lambda path: None, "There is no file"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_one_sentence(name: str, run: Path, canon: Callable[..., Any]) -> None:
    write, sentence = BAD[name]
    write(Path(name))
    for verb in (("predict", run, name), ("inspect", "features", run, name)):
        refused = canon(*verb)
        assert refused.code == 2 and sentence in refused.err and name in refused.err, refused
        assert refused.err.count("\n") == 1 and not refused.out


def test_a_folder_and_files_together(run: Path, canon: Callable[..., Any]) -> None:
    for i in range(3):
        Path("folder/below").mkdir(parents=True, exist_ok=True)
        Image.fromarray(COLOUR[::-1] if i else COLOUR).save(f"folder/below/{i}.png")
    Path("folder/notes.txt").write_text("not an image")
    Image.fromarray(COLOUR).save("one.png")
    _, *lines = canon("predict", run, "folder", "one.png", "--top", 2).out.splitlines()
    assert [line.split()[0] for line in lines] == [*(f"folder/below/{i}.png" for i in range(3)), "one.png"]
    assert lines[0].split()[1:] == lines[3].split()[1:] and len(lines[0].split()) == 5
    Path("nothing").mkdir()
    assert "nothing has no images" in canon("predict", run, "nothing").err
    Path("folder/zz.png").write_bytes(b"")
    refused = canon("predict", run, "folder")
    assert refused.code == 2 and "folder/zz.png is not an image" in refused.err and not refused.out


def test_a_folder_that_does_not_fit_is_read_as_it_goes(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for i in range(7):
        Image.fromarray(np.roll(COLOUR, i, axis=0)).save(tmp_path / f"{i}.png")
    model = package.load(run)
    at_once = model.predict([str(tmp_path)], top=3)
    monkeypatch.setattr(images, "IN_MEMORY", 100)
    monkeypatch.setattr(using, "_AT_ONCE", 3)
    for one, other in zip(at_once, model.predict([str(tmp_path)], top=3), strict=True):
        assert one["source"] == other["source"] and one["prediction"] == other["prediction"]
        assert one["top"][0]["probability"] == pytest.approx(other["top"][0]["probability"], abs=1e-6)


def test_progress_after_two_seconds(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar that hears of every row, and shown only where patience ends and someone looks on."""
    shown: list[tuple[str, int]] = []

    class Bar:
        def update(self, _task: Any, completed: int) -> None:
            shown.append(("update", completed))

        def stop(self) -> None:
            shown.append(("stop", 0))

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "_rich_bar", lambda text, total, unit: (shown.append((text, total)), (Bar(), 0))[1])
    monkeypatch.setattr(using, "_AT_ONCE", 2)
    pixels = np.stack([COLOUR.transpose(2, 0, 1)] * 5)
    model = package.load(run)
    model.predict(pixels)
    assert not shown, "quick work is silent"
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    model.predict(pixels)
    assert shown == [("predicting", 5), ("update", 2), ("update", 4), ("update", 5), ("stop", 0)]
