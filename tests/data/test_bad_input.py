"""The table of bad inputs: for each, the one sentence that `read` says, without a traceback."""

from __future__ import annotations

import gzip
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from canon.data.config import DataConfig
from canon.data.formats import images
from canon.data.targets import Number
from canon.errors import CanonError
from tests.data.makers import Payload, cifar_folder, idx_bytes, idx_folder, image_folder
from tests.reading import read_as

GOOD = "age,city,label\n" + "".join(f"{20 + i},{'PL'[i % 2]},{'ab'[i % 2]}\n" for i in range(10))


def text(content: str | bytes, name: str = "t.csv") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def pets(change: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        made = image_folder(folder / "pets", count=3)
        change(made)
        return made

    return make


def short_labels(folder: Path) -> Path:
    idx_folder(folder / "m", packed=False)
    (folder / "m" / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(19)))
    return folder / "m"


def malicious(folder: Path) -> Path:
    cifar_folder(folder / "c")
    (folder / "c" / "data_batch_3").write_bytes(pickle.dumps({b"data": Payload(folder / "touched")}, protocol=2))
    return folder / "c"


def cut(path: Path, share: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def with_test_file(folder: Path) -> Path:
    text(GOOD, "train.csv")(folder)
    text("age,city,label\n30,P,c\n", "test.csv")(folder)
    return folder


# name: (what makes the bad data, settings, the sentence; {p} is the path, {d} the folder)
CASES: dict[str, tuple[Callable[[Path], Path], dict[str, Any], str]] = {
    "empty file": (text(""), {}, "{p} is empty."),
    "header only": (text("a,b\n"), {}, "{p} has a header but no rows."),
    "ragged row": (text("a,b\n1,2\n3\n4,5\n"), {}, "{p}, line 3: 1 cell, but there are 2 columns."),
    "row too long": (
        text('a,b\n"x\ny",2\n3,4,5\n'),
        {},
        "{p}, line 4: 3 cells, but there are 2 columns. A cell that holds the separator must be between double quotes.",
    ),
    "open quote": (text('a,b\n1,"2\n'), {}, "{p}, line 2: unexpected end of data (a quote that is not closed?)."),
    "wrong encoding": (
        text(b"nom,y\n\x81t\x81,1\n"),
        {},
        '{p}, line 2: byte 6 (0x81) is not utf-8; set data.encoding to the encoding of the file, as in "latin-1".',
    ),
    "wrong delimiter": (
        text("a;b;c\n1;2\n"),
        {},
        "{p} has one column, \"a;b;c\"; if ';' is between its columns, set data.delimiter.",
    ),
    "unknown label in test": (with_test_file, {}, '{p}/test.csv, line 2: label "c" is not one of a, b.'),
    "missing value": (
        text(GOOD + ",P,a\n"),
        {"missing": "error"},
        '{p}, line 12: column "age" is empty; give a number, or set data.missing = "mean".',
    ),
    "not a number": (
        text(GOOD + "NaN,P,a\n"),
        {"missing": "error"},
        '{p}, line 12: column "age" is "NaN"; give a number, or set data.missing = "mean".',
    ),
    "infinite": (
        text(GOOD + "inf,P,a\n"),
        {"missing": "mean"},
        '{p}, line 12: column "age" is infinite; give a finite number.',
    ),
    "unknown data.label": (
        text(GOOD),
        {"label": "lable"},
        'data.label: no column "lable" in {p}; did you mean label?',
    ),
    "unknown data.features": (
        text(GOOD),
        {"features": ("age", "cty")},
        'data.features: no column "cty" in {p}; did you mean city?',
    ),
    "label among the features": (
        text(GOOD),
        {"features": ("age", "label")},
        'data.features: "label" is the label, so it cannot be predicted from.',
    ),
    "only a label": (
        text("label\na\nb\n"),
        {},
        '{p} has no column but the label "label"; there is nothing to predict it from.',
    ),
    "one class": (
        text("a,y\n1,x\n2,x\n3,x\n"),
        {},
        '{p}: every row has the label "x"; at least two classes are needed.',
    ),
    "an id column": (
        text("id,y\n" + "".join(f"n{i},{i % 2}\n" for i in range(30))),
        {},
        '{p} has no column to predict from ("id": 24 different texts in 24 rows); name some in data.features.',
    ),
    "broken JSON line": (
        text('{"a": 1, "y": 0}\n{"a": 1, "y"\n', "t.jsonl"),
        {},
        "{p}, line 2: not JSON (Expecting ':' delimiter at character 13).",
    ),
    "JSON list": (
        text("[1, 2]\n", "t.jsonl"),
        {},
        '{p}, line 1: each line must be an object, as {{"text": "…", "label": "…"}}.',
    ),
    "nested JSON": (
        text('{"a": [1], "y": 0}\n', "t.jsonl"),
        {"features": ("a",)},
        '{p}, line 1: "a" is a list; a cell is text, a number, true, false or null.',
    ),
    "not Parquet": (text(b"PAR0 no", "t.parquet"), {}, "{p} is not a whole Parquet file (*)."),
    "corrupted gz": (
        text(gzip.compress(GOOD.encode() * 50)[:-30], "t.csv.gz"),
        {},
        "{p} is not a whole gz file (*); fetch it again.",
    ),
    "not gz": (text(GOOD, "t.csv.gz"), {}, "{p} is not a whole gz file (*); fetch it again."),
    "no such path": (
        lambda folder: text(GOOD, "reviews.csv")(folder).with_name("revews.csv"),
        {},
        'There is no data set, file or folder "{p}"; did you mean {d}/reviews.csv?',
    ),
    "no such set": (
        lambda _: Path("digitz"),
        {},
        'There is no data set, file or folder "digitz"; did you mean digits?',
    ),
    "no source": (
        lambda _: Path(),
        {"source": ""},
        "data.source is missing: name a set (canon list datasets), a file or a folder.",
    ),
    "unknown ending": (
        text("\0", "t.xyz"),
        {},
        '{p}: the ending ".xyz" is unknown; set data.format to one of '
        "squad, choices, letor, interactions, svmlight, libfm, libffm, criteo, conll, sentences, "
        "fasttext, images, idx, cifar, pairs, table, text.",
    ),
    "empty folder": (lambda folder: folder, {}, "{p} is an empty folder."),
    "not an image by its ending": (
        pets(lambda folder: (folder / "cat" / "notes.txt").write_text("x")),
        {},
        "{p}/cat/notes.txt is not an image, by its ending; remove it from the folder.",
    ),
    "not an image": (
        pets(lambda folder: (folder / "cat" / "1.png").write_text("not a picture")),
        {},
        "{p}/cat/1.png is not an image that can be read; remove it or replace it.",
    ),
    "truncated image": (
        pets(lambda folder: cut(folder / "dog" / "2.png", 0.6)),
        {},
        "{p}/dog/2.png is damaged or cut short (*); replace it.",
    ),
    "empty class folder": (
        pets(lambda folder: (folder / "bird").mkdir()),
        {},
        "{p}/bird has no images; remove the folder or fill it.",
    ),
    "one class of images": (
        lambda folder: image_folder(folder / "pets", ("cat",)),
        {},
        'pets: every image is of the class "cat"; at least two are needed.',
    ),
    "too large an image": (
        pets(lambda folder: Image.new("1", (40, 30)).save(folder / "cat" / "0.png")),
        {},
        "{p}/cat/0.png has over 500 pixels by its header, so it is not opened; remove it.",
    ),
    "images beside class folders": (
        pets(lambda folder: Image.new("RGB", (8, 8)).save(folder / "a.png")),
        {},
        "{p} has both images and class folders; move a.png into the folder of its class.",
    ),
    "images without classes": (
        lambda folder: image_folder(folder, ("flat",)) / "flat",
        {},
        "flat has images but no labels; put those of each class into a folder of that name.",
    ),
    "one image file": (
        lambda folder: image_folder(folder, ("cat",)) / "cat" / "0.png",
        {},
        "{p} is one file of a set of images; give its folder.",
    ),
    "fewer labels than images": (
        short_labels,
        {},
        "{p}/train-labels-idx1-ubyte has 19 labels for 20 images in train-images-idx3-ubyte; fetch both again.",
    ),
    "malicious pickle": (
        malicious,
        {},
        "{p}: data_batch_3 is not read: it asks for posix.system, and only plain data and numpy arrays are allowed.",
    ),
    "wrong kind of test data": (
        text(GOOD),
        {"test": "digits-folder"},
        'There is no file or folder "digits-folder".',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, settings, sentence = CASES[name]
    if name == "too large an image":
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500)
    path = make(tmp_path)
    with pytest.raises(CanonError) as caught:
        read_as(DataConfig(**{"source": str(path), **settings}), "features", "pixels")
    wanted = re.escape(sentence.format(p=path, d=tmp_path)).replace(r"\*", ".+")
    assert re.fullmatch(wanted, str(caught.value)), str(caught.value)
    assert not (tmp_path / "touched").exists()


def test_number_targets_name_the_line(tmp_path: Path) -> None:
    path = text("x,y\n1,2\n3,four\n")(tmp_path)
    with pytest.raises(CanonError) as caught:
        read_as(DataConfig(source=str(path)), "features", target=Number)
    assert str(caught.value) == f'{path}, line 3: the label (column "y") must be a number, got "four".'


def test_a_decompression_bomb_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("1", (2000, 2000)).save(tmp_path / "b.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(CanonError, match=r"b\.png has over 1,000 pixels"):
        images.decode(tmp_path / "b.png", 1)
