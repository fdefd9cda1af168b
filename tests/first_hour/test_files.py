"""A stranger's files, in the shapes that they come in: the first command reads every row, says what it decided, in
`check` and in `train` alike, and gives a model that is level with the obvious one of scikit-learn."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sklearn.datasets import load_iris, load_wine

from tests.conftest import Outcome
from tests.first_hour.floors import require_level

Canon = Callable[..., Outcome]
Make = Callable[[], object]
GOOD, BAD = ["good", "fine", "great", "lovely", "superb"], ["bad", "dull", "awful", "poor", "boring"]
OTHER = ["the", "film", "plot", "actor", "scene", "was", "quite", "very", "and", "story"]
N = 200


@cache
def reviews(count: int = N, seed: int = 0) -> tuple[tuple[str, int], ...]:
    draw = random.Random(seed)
    rows = []
    for row in range(count):
        words = [*draw.choices(OTHER, k=6), *draw.choices((BAD, GOOD)[row % 2], k=2)]
        draw.shuffle(words)
        rows.append((" ".join(words), row % 2))
    return tuple(rows)


def text_of(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def write(name: str, lines: Sequence[str]) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text_of(lines).encode()
    packed = {".xz": lzma.compress, ".gz": gzip.compress}.get(path.suffix, bytes)
    path.write_bytes(packed(content))


def tabbed(rows: Sequence[tuple[str, int]], names: Sequence[object] = (0, 1), header: str = "") -> list[str]:
    return [*filter(None, [header]), *(f"{text}\t{names[label]}" for text, label in rows)]


PARTS = reviews(160), reviews(20, seed=1), reviews(20, seed=2)


def parts(*names: str, form: Callable[..., list[str]] = tabbed, more: dict[str, list[str]] | None = None) -> Make:
    """Train, valid and test under these names, and other files beside them."""

    def make() -> None:
        for name, rows in zip(names, PARTS, strict=True):
            write(name, form(rows))
        for name, lines in (more or {}).items():
            write(name, lines)

    return make


def one(name: str, lines: Sequence[str], *, more: dict[str, list[str]] | None = None) -> Make:
    def make() -> None:
        for file, content in {name: lines, **(more or {})}.items():
            write(file, content)

    return make


def by_class(names: dict[int, str], *, folders: bool = False, split: str = "{}") -> Make:
    def make() -> None:
        for label, name in names.items():
            texts = [text for text, own in reviews() if own == label]
            if folders:
                for number, text in enumerate(texts):
                    write(f"d/{name}/{number}.txt", [text])
            else:
                write(f"d/{split.format(name)}", texts)

    return make


def pairs() -> list[tuple[str, str, int]]:
    """Two texts, and whether they are equal up to the order of their words."""
    rows = []
    for number, (text, label) in enumerate(reviews()):
        other = " ".join(reversed(text.split())) if label else reviews()[(number + 7) % N][0] + " not so"
        rows.append((text, other, label))
    return rows


def objects(**fields: Callable[[str, int], Any]) -> list[str]:
    return [json.dumps({name: value(text, label) for name, value in fields.items()}) for text, label in reviews()]


def lines_of(table: Any, delimiter: str, first: bool = False, header: str = "") -> list[str]:
    """The rows of a table of scikit-learn, the class last or first."""
    rows = []
    for numbers, label in zip(table.data.tolist(), table.target.tolist(), strict=True):
        cells = [label, *numbers] if first else [*numbers, table.target_names[label]]
        rows.append(delimiter.join(map(str, cells)))
    random.Random(0).shuffle(rows)
    return [*filter(None, [header]), *rows]


class Shape(NamedTuple):
    path: str
    make: Make
    system: str
    says: tuple[str, ...]  # decisions, in check and in train
    settings: tuple[str, ...] = ()
    examples: int = N


IRIS, WINE = load_iris(), load_wine()
TEXT, TABLE = "fasttext-classifier", "mlp"
BARE = "has no header line; its columns are called"
COMPARED = "Texts of a row are compared by their words and letters"
TEXT_LABEL = 'The text is the column "text", the label is the column "label"'
NAMES = ("negative", "positive")
SHAPES = {
    "tabs in .txt": Shape("t.txt", one("t.txt", tabbed(reviews(), NAMES)), TEXT, (f"t.txt {BARE} text, label.",)),
    "tabs in .txt with a header": Shape(
        "t.txt",
        one("t.txt", tabbed(reviews(), NAMES, "review\tmood")),
        TEXT,
        (
            "t.txt: the columns are separated by tabs.",
            'The text is the column "review", the label is the column "mood"',
        ),
    ),
    "class numbers and class.txt": Shape(
        "d",
        parts("d/train.txt", "d/dev.txt", "d/test.txt", more={"d/class.txt": [*NAMES], "d/vocab.pkl": ["x"]}),
        TEXT,
        (
            "class.txt names the classes: 0 is negative, 1 is positive.",
            f"train.txt {BARE} text, label.",
            "Ignored in d: class.txt, vocab.pkl.",
        ),
    ),
    "one file beside class.txt": Shape(
        "d/titles.txt",
        one("d/titles.txt", tabbed(reviews(), (1, 2)), more={"d/class.txt": [*NAMES]}),
        TEXT,
        ("class.txt names the classes: 1 is negative, 2 is positive.",),
    ),
    "label first": Shape(
        "t.tsv", one("t.tsv", [f"{label}\t{text}" for text, label in reviews()]), TEXT, (f"t.tsv {BARE} label, text.",)
    ),
    "label first, no header, .csv": Shape(
        "t.csv",
        one("t.csv", [f'{label},"{text}, said I"' for text, label in reviews()]),
        TEXT,
        (f"t.csv {BARE} label",),
    ),
    "semicolons in .csv": Shape(
        "t.csv",
        one("t.csv", ["text;label", *(f"{text};{label}" for text, label in reviews())]),
        TEXT,
        ('t.csv: the columns are separated by ";".', TEXT_LABEL),
    ),
    "bars in .txt": Shape(
        "t.txt",
        one("t.txt", [f"{text}|{NAMES[label]}" for text, label in reviews()]),
        TEXT,
        ('t.txt: the columns are separated by "|".', f"t.txt {BARE} text, label."),
    ),
    "a delimiter that is given": Shape(
        "t.data",
        one("t.data", ["text\tlabel", *tabbed(reviews())]),
        TEXT,
        (TEXT_LABEL,),
        ("--set", r"data.delimiter=\t"),
    ),
    "__label__": Shape(
        "t.txt", one("t.txt", [f"__label__{NAMES[label]} {text}" for text, label in reviews()]), TEXT, ()
    ),
    "__label__ in parts": Shape(
        "d",
        parts(
            "d/reviewtrain.txt.gz",
            "d/review.valid.txt",
            "d/review-test.txt",
            form=lambda rows: [f"__label__{label} {text}" for text, label in rows],
            more={"d/README.md": ["# About"], "d/LICENSE": ["free"]},
        ),
        TEXT,
        ("Ignored in d: LICENSE, README.md.",),
    ),
    "train inside a word": Shape(
        "d",
        parts("d/mytrainset.tsv", "d/mydevset.tsv", "d/mytestset.tsv", more={"d/README.txt": ["words, words"]}),
        TEXT,
        ("Ignored in d: README.txt.", f"mytrainset.tsv {BARE} text, label."),
    ),
    "pos.txt and neg.txt": Shape(
        "d", by_class({0: "neg", 1: "pos"}, split="{}.txt"), TEXT, ("Each file is a class: neg, pos.",)
    ),
    "rt-polarity": Shape(
        "d", by_class({0: "neg", 1: "pos"}, split="rt-polarity.{}"), TEXT, ("Each file is a class: neg, pos.",)
    ),
    "a file for each class": Shape(
        "d", by_class({0: "sport", 1: "money"}, split="{}.txt"), TEXT, ("Each file is a class: money, sport.",)
    ),
    "a folder for each class": Shape(
        "d", by_class({0: "dull", 1: "fine"}, folders=True), TEXT, ("Each folder is a class: dull, fine.",)
    ),
    "JSON lines": Shape(
        "t.jsonl", one("t.jsonl", objects(text=lambda text, _: text, stars=lambda _, label: label)), TEXT, ('"stars"',)
    ),
    "nested JSON lines": Shape(
        "t.jsonl",
        one(
            "t.jsonl",
            objects(doc=lambda text, _: {"body": text, "id": 7}, note=lambda _, label: {"mood": NAMES[label]}),
        ),
        TEXT,
        (),
        ("--set", "data.label=note.mood", "--set", 'data.features=["doc.body"]'),
    ),
    "a list in .json": Shape(
        "t.json",
        lambda: Path("t.json").write_text(json.dumps([{"text": text, "label": label} for text, label in reviews()])),
        TEXT,
        (TEXT_LABEL,),
    ),
    "JSON lines with lists": Shape(
        "t.jsonl",
        one("t.jsonl", objects(text=lambda text, _: text, label=lambda _, label: label, spans=lambda *_: ["x"])),
        TEXT,
        ('t.jsonl: the column "spans" has lists and is left out.',),
    ),
    "a header in train alone": Shape(
        "d",
        lambda: [
            write("d/train.csv", ["words,mood", *(f"{text},{NAMES[label]}" for text, label in PARTS[0])]),
            write("d/test.csv", [f"{text},{NAMES[label]}" for text, label in reviews(40, seed=2)]),
        ],
        TEXT,
        (f"test.csv {BARE} words, mood.",),
    ),
    "a header in test alone": Shape(
        "d",
        lambda: [
            write("d/train.csv", [f"{text},{NAMES[label]}" for text, label in PARTS[0]]),
            write("d/test.csv", ["words,mood", *(f"{text},{NAMES[label]}" for text, label in reviews(40, seed=2))]),
        ],
        TEXT,
        (f"train.csv {BARE} words, mood.",),
    ),
    "a test part without labels": Shape(
        "d",
        lambda: [
            write("d/train.csv", ["text,label", *(f"{text},{label}" for text, label in PARTS[0])]),
            write("d/dev.csv", ["text,label", *(f"{text},{label}" for text, label in reviews(40, seed=1))]),
            write("d/test.csv", ["text", *(text for text, _ in PARTS[2])]),
        ],
        TEXT,
        ("test.csv has no labels: dev.csv is the test set.",),
    ),
    "paraphrases": Shape(
        "t.tsv",
        one("t.tsv", ["same\tleft\tright", *(f"{label}\t{one}\t{two}" for one, two, label in pairs())]),
        "mlp",
        (f'{COMPARED}: "left" with "right".',),
    ),
    "paraphrases without a header": Shape(
        "t.txt",
        one("t.txt", [f"{one}\t{two}\t{label}" for one, two, label in pairs()]),
        "mlp",
        (f"t.txt {BARE} sentence1, sentence2, label.", f'{COMPARED}: "sentence1" with "sentence2".'),
    ),
    "iris.data": Shape(
        "iris.data",
        one("iris.data", lines_of(IRIS, ",")),
        TABLE,
        (f"iris.data {BARE} 1, 2, 3, 4, label.", 'The label is the column "label".'),
        examples=150,
    ),
    "wine.data, label first": Shape(
        "wine.data",
        one("wine.data", lines_of(WINE, ",", first=True)),
        TABLE,
        (f"wine.data {BARE} label, 2, 3",),
        examples=178,
    ),
    "iris in .txt": Shape(
        "iris.txt",
        one("iris.txt", lines_of(IRIS, "\t", header="a\tb\tc\td\tkind")),
        TABLE,
        ('The label is the last column, "kind"',),
        examples=150,
    ),
    "a column by its number": Shape(
        "iris.csv",
        one("iris.csv", lines_of(IRIS, ";", header="a;b;c;d;kind")),
        TABLE,
        ('iris.csv: the columns are separated by ";".',),
        ("--set", "data.label=5"),
        examples=150,
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_first_command(name: str, canon: Canon) -> None:
    shape = SHAPES[name]
    shape.make()
    checked = canon("check", shape.path, *shape.settings)
    trained = canon("train", shape.path, "--out", "run", *shape.settings)
    assert (checked.code, trained.code) == (0, 0), checked.err + trained.err
    assert f": training {shape.system}" in trained.err.splitlines()[0], trained.err
    for sentence in shape.says:
        assert sentence in checked.out, checked.out
        assert sentence in trained.err, trained.err
    unsaid = [note for note in re.findall("  note +(.*)", checked.out) if note not in trained.err]
    assert not unsaid, trained.err
    # Every row is there, in the same parts.
    counted = re.search(r"examples +(.*)", checked.out)
    assert counted and counted[1] in trained.err, checked.out + trained.err
    assert sum(int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= \w)", counted[1])) == shape.examples
    suits = re.search(r"suits +(.*)", checked.out)
    assert suits and shape.system in suits[1].split(", ")
    assert f"  first       {shape.system}, which canon train {shape.path} trains" in checked.out
    require_level(Path("run"), "accuracy")


def test_classes_are_named_by_class_txt(canon: Canon) -> None:
    SHAPES["class numbers and class.txt"].make()
    assert canon("train", TEXT, "--data", "d", "--out", "run").code == 0
    predicted = canon("predict", "run", "a superb and lovely story", "dull, awful, boring")
    assert predicted.code == 0 and "positive" in predicted.out and "negative" in predicted.out
    # Other labelled data, beside the same file.
    assert canon("evaluate", "run", "--data", "d/dev.txt").code == 0


def test_a_table_without_a_header_is_predicted_from_one(canon: Canon) -> None:
    """With or without the label's column."""
    rows = lines_of(IRIS, ",")
    write("iris.data", rows)
    assert canon("train", "adaboost", "--data", "iris.data", "--out", "run").code == 0
    write("new.csv", [row.rpartition(",")[0] for row in rows[:20]])
    write("old.csv", rows[:20])
    new, old = (json.loads(canon("predict", "run", name, "--json").out) for name in ("new.csv", "old.csv"))
    assert [row["prediction"] for row in new] == [row["prediction"] for row in old] and len(new) == 20
    assert sum(row["prediction"] == line.rpartition(",")[2] for row, line in zip(old, rows, strict=False)) >= 15


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("go.txt", ["Go.\tVa !", "Run!\tCours !", "Hello there.\tBonjour.", "I see him.\tJe le vois."]),
        ("fra.txt", [f"I see {n}.\tJe vois {n}.\tCC-BY 2.0 (France) #{n}" for n in range(9)]),
        (
            "pairs.tsv",
            ["english\tfrench", *(f"I really do see {n} of them.\tJe vois {n} choses ici." for n in range(9))],
        ),
        ("pairs.csv", ["source;target", *(f"I see {n}.;Je vois {n}." for n in range(9))]),
    ],
)
def test_pairs_of_texts(name: str, lines: list[str], canon: Canon) -> None:
    write(name, lines)
    header = lines[0].startswith(("english", "source"))
    checked = canon("check", name)
    assert checked.code == 0 and "transformer" in checked.out
    quick = ("--set", "train.steps=2", "--set", "data.valid=0.0", "--set", "data.test=0.0", "--quiet")
    trained = canon("train", "transformer:tiny", "--data", name, "--out", "run", *quick)
    assert trained.code == 0, trained.err
    sizes = json.loads(Path("run/result.json").read_text())["protocol"]["sizes"]
    assert sizes == {"train": len(lines) - header}
    assert ("has no header line; its columns are called source, target" in checked.out) == (not header)


def test_a_label_is_not_a_translation(canon: Canon) -> None:
    """`check` and `train` agree that reviews are not pairs of texts."""
    write("t.csv", ["text,label", *(f"{text},{label}" for text, label in reviews())])
    suits = re.search(r"suits +(.*)", canon("check", "t.csv").out)
    assert suits and "transformer" not in suits[1].split(", ")
    trained = canon("train", "transformer:tiny", "--data", "t.csv", "--out", "run")
    assert trained.code == 2 and 'the column "label" is a label, not a text' in trained.err


def test_pictures_beside_text_do_not_make_it_images(canon: Canon) -> None:
    parts("d/train.txt", "d/dev.txt", "d/test.txt", more={"d/logo.png": ["no picture"], "d/plot.jpg": ["none"]})()
    checked = canon("check", "d")
    assert checked.code == 0 and "Ignored in d: logo.png, plot.jpg." in checked.out
    write("book/one.txt", ["Once upon a time there was a king."] * 3)
    write("book/two.txt", ["He had a horse."] * 3)
    write("book/cover.png", ["none"])
    write("book/README", ["about"])
    checked = canon("check", "book")
    assert checked.code == 0 and "book: text" in checked.out
    assert "Ignored in book: README, cover.png." in checked.out


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("u.data", [f"{n % 7}\t{n % 13}\t{1 + n % 5}\t{881250949 + n}" for n in range(60)]),
        ("ratings.dat", [f"{n // 20}::{n % 25}::{1 + n % 5}::{978300760 + n}" for n in range(60)]),
        ("r.csv", ["userId,movieId,rating", *(f"{n},{n % 7},4.5" for n in range(30))]),
        ("pairs.tsv", [f"{n // 20}\t{n % 20}" for n in range(60)]),
    ],
)
def test_interactions_are_recognised(name: str, lines: list[str], canon: Canon) -> None:
    write(name, lines)
    checked, trained = canon("check", name), canon("train", "mlp", "--data", name, "--out", "run")
    assert checked.code == 0 and f"{name}: interactions" in checked.out and "bpr" in checked.out
    assert f"mlp reads tables or images, but {name} is a set of interactions." in trained.err


def test_parts_that_cannot_be_kept_apart_are_one_sentence(canon: Canon) -> None:
    for name in ("train_0", "train_1", "dev_0"):
        write(f"d/{name}.tsv", tabbed(reviews(20)))
    checked = canon("check", "d")
    assert checked.code == 2
    assert "train_0.tsv, train_1.tsv all seem to be the train part; give one file" in checked.err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("t.xlsx", "t.xlsx is a spreadsheet: save it as CSV."),
        ("t.zip", "t.zip is an archive: unpack it and give the folder or file in it."),
        ("t.pdf", "t.pdf is a document: save its text as .txt."),
        ("t.npz", "t.npz holds arrays or tables of another program: write them as CSV or Parquet."),
        ("arrays/t.npy", "arrays/t.npy holds arrays or tables of another program: write them as CSV or Parquet."),
        ("https://example.org/t.csv", "is an address: fetch the file first and give its path here."),
    ],
)
def test_files_of_other_programs_say_what_to_do(name: str, sentence: str, canon: Canon) -> None:
    if ":" not in name:
        Path("arrays").mkdir()
        Path(name).write_bytes(b"PK\x03\x04" + bytes(range(256)))
    for verb in ("check", "train"):
        done = canon(verb, name.replace("/t.npy", ""))
        assert done.code == 2 and done.err.endswith(f"{sentence}\n"), done.err


@pytest.mark.parametrize("beside", ["_about.txt", "about.txt", "notes.txt"])
def test_notes_beside_pairs_are_no_class(beside: str, canon: Canon) -> None:
    folder = Path("d")
    folder.mkdir()
    pairs_of = (f"I see {n} dogs.\tJe vois {n} chiens.\tCC-BY {n}" for n in range(60))
    (folder / "fra.txt").write_text("\n".join(pairs_of) + "\n")
    (folder / beside).write_text("About these sentences\n")
    checked = canon("check", "d")
    assert "first       transformer" in checked.out and f"Ignored in d: {beside}." in checked.out, checked.out


def test_two_languages_have_a_direction(canon: Canon) -> None:
    folder = Path("d")
    folder.mkdir()
    for name, text in (("fr", "Je vois {} chiens."), ("en", "I see {} dogs.")):
        (folder / f"train.{name}").write_text("".join(f"{text.format(n)}\n" for n in range(60)))
    note = 'd: from en to fr; data.languages = ["fr", "en"] turns it round.'
    assert note in canon("check", "d").out
    turned = canon("check", "d", "--set", 'data.languages=["fr", "en"]')
    assert turned.code == 0 and note not in turned.out
