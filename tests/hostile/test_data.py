"""Hostile data: whatever a file holds, reading and checking it end well or in one sentence, and soon.

Named cases first, as users met them, through the command line; then random damages of good samples of every format.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from canon.config import parse
from canon.data.checking.report import CheckReport
from canon.data.checking.text_counts import count_words
from canon.data.config import DataConfig
from canon.data.encodings.framed import FRAMED
from canon.data.kinds import open_for
from canon.data.kinds.text import TEXT as RUNNING
from canon.data.paths import file_of
from canon.errors import CanonError
from tests.data.makers import cifar_folder, idx_folder, image_folder
from tests.reading import check_as, read_as

Make = Callable[[Path], Path]
DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 5000
TABLE = "age,city,text,label\n" + "".join(
    f'{20 + i},{"PL"[i % 2]},"a text, the {i}th of {i * i}",{"ab"[i % 2]}\n' for i in range(30)
)
ROWS = [dict(zip(("age", "city", "label"), (i, "PL"[i % 2], "ab"[i % 2]), strict=True)) for i in range(30)]
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": f"t{article}",
            "paragraphs": [
                {
                    "context": f"The {i} cats sat here.",
                    "qas": [
                        {
                            "id": f"{article}-{i}",
                            "question": "Who sat?",
                            "answers": [{"text": "cats", "answer_start": 6 + i // 10}],
                        }
                    ],
                }
                for i in range(20)
            ],
        }
        for article in range(3)
    ],
}
CHOICES = [{"question": f"Is it {i}?", "choices": ["yes", "no"], "answerKey": "AB"[i % 2]} for i in range(12)]


def file(name: str, content: str | bytes) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# Named cases


def fifo_among_images(folder: Path) -> Path:
    image_folder(folder / "pets", count=3)
    os.mkfifo(folder / "pets" / "cat" / "9.png")
    return folder / "pets"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.csv")
    return folder / "pipe.csv"


def plug(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("plug.csv")
    return folder / "plug.csv"


def cifar(**changes: Any) -> Make:
    """A folder of CIFAR whose first batch, or whose names of classes, are something else."""

    def make(folder: Path) -> Path:
        cifar_folder(folder / "c")
        for name, fields in (("data_batch_1", ("data", "labels")), ("batches.meta", ("label_names",))):
            table = pickle.loads((folder / "c" / name).read_bytes())
            table |= {field.encode(): changes[field] for field in fields if field in changes}
            (folder / "c" / name).write_bytes(pickle.dumps(table, protocol=2))
        return folder / "c"

    return make


def oddly_named(folder: Path) -> Path:
    (folder / "pets").mkdir()
    made = image_folder(folder / "pets", count=2)
    (made / "cat").rename(os.fsdecode(os.fsencode(made) + b"/c\xff"))
    return made


REFUSED: dict[str, tuple[Make | str, dict[str, Any], str]] = {
    "nothing": ("", {}, "SOURCE is empty"),
    "null device": ("/dev/null", {}, "/dev/null is a device; give a file or a folder."),
    "endless device": ("/dev/zero", {}, "/dev/zero is a device; give a file or a folder."),
    "endless device as a table": ("/dev/zero", {"format": "table"}, "/dev/zero is a device"),
    "pipe": (pipe, {}, "pipe.csv is a pipe; give a file or a folder."),
    "socket": (plug, {}, "plug.csv is a socket; give a file or a folder."),
    "pipe among images": (fifo_among_images, {}, "9.png is a pipe; give a file or a folder."),
    "device as test file": (file("t.csv", TABLE), {"test": "/dev/zero"}, "/dev/zero is a device"),
    "name of no text": (oddly_named, {}, "is not UTF-8 text; rename the file."),
    "name too long": ("x" * 300, {}, "name too long"),
    "name with a zero": ("a\0b", {}, "There is no data set, file or folder"),
    "rot13": (file("t.csv", TABLE), {"encoding": "rot13"}, 'data.encoding: there is no text encoding "rot13"'),
    "base64": (file("t.txt", "some text\n"), {"encoding": "base64"}, 'there is no text encoding "base64"'),
    "punycode": (file("t.txt", "some text\n"), {"encoding": "punycode"}, 'there is no text encoding "punycode"'),
    "no BOM": (file("t.csv", TABLE), {"encoding": "utf-16"}, "t.csv"),
    "delimiter": (file("t.csv", TABLE), {"delimiter": '"'}, "data.delimiter must be one character"),
    "deep lines": (
        file("t.jsonl", f'{{"a": 1}}\n{{"a": {DEEP}}}\n'),
        {},
        "t.jsonl, line 2 cannot be read: it is nested",
    ),
    "deep SQuAD": (file("t.json", f'{{"data": {DEEP}}}'), {"format": "squad"}, "t.json cannot be read: it is nested"),
    "digits": (
        file("t.jsonl", f'{{"a": {DIGITS}}}\n'),
        {},
        "t.jsonl, line 1 cannot be read: it holds a number of over",
    ),
    "half a character": (
        file("t.jsonl", lines(ROWS) + '{"age": 3, "city": "P", "label": "\\ud800"}\n'),
        {},
        "t.jsonl, line 31: it holds '\\ud800', which is half a character",
    ),
    "no columns": (file("t.jsonl", "{}\n{}\n"), {}, "t.jsonl has no columns: every object is empty."),
    "ragged pixels": (cifar(data=[[1, 2], [3]]), {}, "data_batch_1"),
    "labels of anything": (cifar(labels=[[1], 2, "x"]), {}, "data_batch_1"),
    "names that are numbers": (
        cifar(label_names=[1, 2, None]),
        {},
        "batches.meta: label_names must be different texts",
    ),
    "names of no text": (cifar(label_names=[b"\xff"] * 10), {}, "batches.meta cannot be read: it is not UTF-8 text"),
    "no names": (cifar(label_names=7), {}, "batches.meta cannot be read"),
    "answers of anything": (
        file("t.jsonl", lines([{"question": "a?", "context": "b", "answers": {"text": 1, "answer_start": [0]}}])),
        {},
        "t.jsonl, line 1: answers must have as many answer_start as text",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_data_that_is_refused(case: str, tmp_path: Path, canon: Callable[..., Any]) -> None:
    source, settings, sentence = REFUSED[case]
    path = source if isinstance(source, str) else source(tmp_path)
    printed = canon("check", path, *(f"--set=data.{key}={value}" for key, value in settings.items()))
    assert (printed.code, printed.out) == (2, "")
    assert printed.err.count("\n") == 1 and sentence in printed.err
    with pytest.raises(CanonError):
        read_as(DataConfig(source=str(path), **settings), "features", "pixels", "windows")


ACCEPTED: dict[str, tuple[Make, dict[str, Any]]] = {
    "many digits": (file("t.csv", f"a,b,y\n{DIGITS},2,u\n3,4,v\n"), {}),
    "odd name": (file("a $HOME `x` [b] 'c'.csv", TABLE), {}),
    "one wide row": (file("t.csv", ",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join("7" * 5000) + "\n"), {}),
    "line ends of all kinds": (file("t.csv", TABLE.replace("\n", "\r\n", 9).replace("\n", "\r")), {}),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_data_that_is_odd_but_whole(case: str, tmp_path: Path, canon: Callable[..., Any]) -> None:
    make, settings = ACCEPTED[case]
    printed = canon("check", make(tmp_path), *(f"--set=data.{key}={value}" for key, value in settings.items()))
    assert (printed.code, printed.err) == (0, "") and ": table" in printed.out


@pytest.mark.parametrize("key", ["window", "vocab_size", "max_length", "min_count", "limit", "seed"])
def test_sizes_that_cannot_fit_are_refused(key: str) -> None:
    with pytest.raises(CanonError, match=rf"^data\.{key} must be (at most|less than) \d+, got 1{'0' * 30}\.$"):
        parse(DataConfig, {"source": "x", key: 10**30}, "data")
    with pytest.raises(CanonError, match=r"^data\.size\.0 must be at most 16384, got 1000000000000\.$"):
        parse(DataConfig, {"source": "x", "size": [10**12, 1]}, "data")


def test_many_columns_cost_no_more_than_their_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted, not timed: each column is made numbers once, and once more of its first rows, the label again;
    the file is read for its first lines and for all of them."""
    from canon.data.formats import tables

    width, calls = 3000, []
    header = ",".join(f"c{i}" for i in range(width - 1)) + ",label"
    body = "".join(",".join(["inf" if i == 0 else str(i)] * (width - 1)) + f",{'ab'[i % 2]}\n" for i in range(12))
    path = file("wide.csv", f"{header}\n{body}")(tmp_path)
    plain, rows = tables._plain_numbers, tables.csv_rows
    monkeypatch.setattr(tables, "_plain_numbers", lambda cells: calls.append("column") or plain(cells))
    monkeypatch.setattr(tables, "csv_rows", lambda *how: calls.append("file") or rows(*how))
    report = check_as(DataConfig(source=str(path)))
    assert calls.count("column") <= 2 * width + 1 and calls.count("file") <= 3
    assert len(report.columns) == width and len(report.warnings) >= width - 1  # each is infinite
    assert len(report.render()) < 500


# Texts and files

LOOKS = {
    "nofile.csv": True,
    "no such film.csv": True,
    "nofile.txt.gz": True,
    "./nothing": True,
    "~/nothing": True,
    "data/reviews": True,
    "/tmp/absent/reviews": True,
    "a fine film": False,
    "good and/or bad": False,
    "https://a.example/film": False,
    "1.5": False,
    "U.S.": False,
    '{"text":"a/b"}': False,
    "two\nlines.csv": False,
}


@pytest.mark.parametrize("source", LOOKS)
def test_texts_and_files_are_kept_apart(source: str, tmp_path: Path) -> None:
    if LOOKS[source]:
        with pytest.raises(CanonError, match=r"^There is no file or folder .* add --text if .* is the text itself\.$"):
            file_of(source)
    else:
        assert file_of(source) is None
    assert file_of(source, text=True) is None
    if "/" not in source and "\n" not in source:
        (tmp_path / source).write_text("x")
        assert file_of(source) == Path(source)


def test_predict_takes_no_missing_file_for_a_text(tmp_path: Path, canon: Callable[..., Any]) -> None:
    source = file("t.txt", "".join(f"__label__{'ab'[i % 2]} {['good', 'bad'][i % 2]} film\n" for i in range(40)))(
        tmp_path
    )
    assert canon("train", "fasttext-classifier", "--data", source, "--out", "run", "--set", "train.epochs=1").code == 0
    missing = canon("predict", "run", "nofile.csv")
    assert (missing.code, missing.out) == (2, "")
    assert missing.err == (
        'canon: There is no file or folder "nofile.csv"; add --text if "nofile.csv" is the text itself.\n'
    )
    for words in (("nofile.csv", "--text"), ("a good film",)):
        printed = canon("predict", "run", *words)
        assert printed.code == 0 and printed.out.splitlines()[1].startswith(f"{words[0]}  ")


# Random damages


def packed(make: Make, suffix: str, pack: Callable[[bytes], bytes]) -> Make:
    def pack_it(folder: Path) -> Path:
        path = make(folder)
        path.with_name(path.name + suffix).write_bytes(pack(path.read_bytes()))
        path.unlink()
        return path.with_name(path.name + suffix)

    return pack_it


def parallel(folder: Path) -> Path:
    for language, text in (("en", "the cat {} sat\n"), ("de", "die Katze {} saß\n")):
        file(f"p/train.{language}", "".join(text.format(i) for i in range(20)))(folder)
    return folder / "p"


def packed_table(folder: Path) -> Path:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    parquet.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


def digits(folder: Path) -> Path:
    idx_folder(folder / "m", train=6, test=3, packed=False)
    return folder / "m"


def pets(folder: Path) -> Path:
    return image_folder(folder / "pets", count=2, size=5)


def small_cifar(folder: Path) -> Path:
    cifar_folder(folder / "c", per_batch=1)
    return folder / "c"


TEXT = file("t.txt", "A text of some words. It has two sentences, and an é.\n\nAnother text, 中文 too.\n" * 9)
CONLL = file("t.conll", "EU B-ORG\nrejects O\nGerman B-MISC\n\nPeter B-PER\n\n" * 6)
CSV, JSONL = file("t.csv", TABLE), file("t.jsonl", lines(ROWS))

FORMATS: dict[str, Make] = {
    "csv": CSV,
    "tsv": file("t.tsv", TABLE.replace(", ", " ").replace(",", "\t").replace('"', "")),
    "jsonl": JSONL,
    "parquet": packed_table,
    "idx": digits,
    "cifar": small_cifar,
    "images": pets,
    "conll": CONLL,
    "squad": file("t.json", json.dumps(SQUAD)),
    "choices": file("choices.jsonl", lines(CHOICES)),
    "text": TEXT,
    "pairs": parallel,
    "labelled": file("t.txt", "".join(f"__label__{'ab'[i % 2]} some text {i}\n" for i in range(20))),
    "csv.gz": packed(CSV, ".gz", gzip.compress),
    "jsonl.xz": packed(JSONL, ".xz", lzma.compress),
    "squad.xz": packed(file("t.json", json.dumps(SQUAD)), ".xz", lzma.compress),
    "text.bz2": packed(TEXT, ".bz2", bz2.compress),
    "conll.gz": packed(CONLL, ".gz", gzip.compress),
}
VALUES = ["null", "true", "-1", "1e999", "[]", "{}", '""', '"\\ud800"', "[[1], 2]", '{"text": 1}', DIGITS[:4400]]


def damaged(raw: bytes, draws: random.Random) -> bytes:
    """A few flipped bits, a cut, some bytes more or less, or a JSON value in place of another."""
    place, length = draws.randrange(len(raw) + 1), draws.randrange(1, 30)
    kind = draws.choice(["flip", "cut", "insert", "remove", "repeat", "value"])
    if kind == "flip":
        changed = bytearray(raw)
        for _ in range(draws.choice([1, 1, 5])):
            changed[draws.randrange(len(raw))] ^= 1 << draws.randrange(8)
        return bytes(changed)
    if kind == "cut":
        return raw[:place]
    if kind == "insert":
        more = draws.choice(
            [bytes(draws.randrange(256) for _ in range(length)), b"\0", b'"', b"\r", b"\xff\xfe", b"\n\n"]
        )
        return raw[:place] + more + raw[place:]
    if kind == "remove":
        return raw[:place] + raw[place + length :]
    if kind == "repeat":
        return raw[:place] + raw[max(place - length, 0) : place] * 3 + raw[place:]
    result = raw.find(b": ", place)
    stop = min((end for end in (raw.find(mark, result) for mark in (b",", b"}", b"]")) if end > 0), default=len(raw))
    return raw[: result + 2] + draws.choice(VALUES).encode() + raw[stop:] if result >= 0 else raw[::-1]


def config_of(path: Path) -> DataConfig:
    return DataConfig(source=str(path), languages=("en", "de") if path.name == "p" else ())


def read_all(path: Path) -> None:
    """Every way in which the data may be read; each ends well or in a sentence."""
    config = config_of(path)
    for way in (
        lambda: check_as(config).render(),
        lambda: read_as(config, "features", "pixels", "windows"),
        lambda: read_as(config, "sequences"),
        lambda: open_for(FRAMED.reads, config),
        lambda: read_as(config, "bags"),
        lambda: count_words(CheckReport(""), config, RUNNING.source(config)),
    ):
        try:
            way()
        except CanonError as mistake:
            assert str(mistake) and "\n" not in str(mistake)


@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMATS)
def test_random_damages_end_in_a_sentence(form: str, count: int, tmp_path: Path) -> None:
    draws = random.Random(form)
    (tmp_path / "good").mkdir()
    good = FORMATS[form](tmp_path / "good")
    for number in range(count):
        place = tmp_path / f"{number}"
        shutil.copytree(tmp_path / "good", place)
        path = place / good.relative_to(tmp_path / "good")
        files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
        victim = draws.choice(files)
        victim.write_bytes(damaged(victim.read_bytes(), draws))
        read_all(path)
        shutil.rmtree(place)


def test_the_good_samples_are_good(tmp_path: Path) -> None:
    for form, make in FORMATS.items():
        folder = tmp_path / form
        folder.mkdir()
        assert check_as(config_of(make(folder))).suits, form


# Words without an end

WORDS = {"letters": "x" * 300_000, "marks": "." * 300_000, "joined": "a-" * 150_000, "Chinese": "中" * 300_000}


@pytest.mark.parametrize("kind", ["word", "char", "split", "bpe", "wordpiece", "unigram", "byte-bpe"])
@pytest.mark.parametrize("word", WORDS)
def test_a_word_without_an_end_stalls_no_tokenizer(word: str, kind: str) -> None:
    from canon.data.text.tokenizers import Tokenizer
    from canon.data.text.vocabularies import LONGEST_WORD

    texts = ["the cat sat", WORDS[word], "the dog"]
    tokenizer = Tokenizer.train(texts, kind, 300)
    # Of bytes, a Chinese character has three; ▁ or ## stands before a piece.
    assert max(map(len, tokenizer.vocabulary)) <= 3 * LONGEST_WORD + 2
    assert len(tokenizer.encode(texts)[1]) == 3


@pytest.mark.parametrize("word", WORDS)
def test_a_word_without_an_end_stalls_no_splitter(word: str) -> None:
    from canon.data.text.segment import load_jieba, segmented
    from canon.data.text.sentences import split_pieces

    assert "".join(split_pieces(WORDS[word] + " end.")) == WORDS[word] + " end."
    if word == "Chinese":
        cut = segmented(load_jieba(), WORDS[word].encode()).decode()
        assert cut.replace(" ", "") == WORDS[word]


# Caches


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_damaged_caches_are_made_again(damage: str, tmp_path: Path) -> None:
    """Whatever file of a cache is damaged, the text is read as it was at first."""
    config = DataConfig(source=str(TEXT(tmp_path)), tokenizer="word", valid=0.0, test=0.0)
    draws = random.Random(damage)

    def words() -> list[int]:
        return read_as(config, "word-ids").splits["train"]["input"].tokens.tolist()  # type: ignore[union-attr]

    def passages() -> list[int]:
        return read_as(config, "passages").splits["train"]["input"].tokens.tolist()  # type: ignore[union-attr]

    for work in (words, passages):
        first = work()
        for path in sorted(item for item in (tmp_path / "corpora").rglob("*") if item.is_file()):
            raw = bytearray(path.read_bytes())
            if damage == "flip" and raw:
                raw[draws.randrange(len(raw))] ^= 0x80
            made = {"cut": raw[: len(raw) // 2], "flip": raw, "empty": b"", "other": b"[1, {}, null]"}[damage]
            path.write_bytes(made)
            assert work() == first, path
    assert np.array_equal(words(), words())
