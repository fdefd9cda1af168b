"""Files as spreadsheets, contests and data hubs write them: `canon train FILE` with no settings says what it decided,
and is level with scikit-learn's obvious model on the same rows."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_iris

from canon.data.checking.choosing import choose_system
from canon.data.config import DataConfig
from canon.data.formats.files import encoding_of
from canon.tasks.records import TASK_RECORDS
from tests.conftest import Outcome
from tests.first_hour.floors import require_level
from tests.first_hour.test_files import reviews

Canon = Callable[..., Outcome]
MOODS = ("neg", "pos")
OF_TRAINING = ("jieba", "to predict", "on average")  # decisions that `check` does not make
NUMBERED = tuple(enumerate(reviews()))
TOPICS = {"体育": "球队比赛冠军教练进球联赛", "财经": "股票银行基金利率市场投资", "科技": "手机芯片软件互联网数据"}


def write(name: str, content: str, encoding: str = "utf-8") -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode(encoding))


def table(header: str, rows: Sequence[Sequence[object]], delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerows([header.split(",")] if header else [])
    writer.writerows(rows)
    return text.getvalue()


def labelled(header: str = "text,label", names: Sequence[object] = MOODS) -> str:
    return table(header, [(text, names[label]) for text, label in reviews()])


def titles() -> list[tuple[str, str]]:
    draw = random.Random(0)
    rows = []
    for number in range(240):
        topic = list(TOPICS)[number % 3]
        start = 2 * draw.randrange(len(TOPICS[topic]) // 2)
        rows.append((f"今日{TOPICS[topic][start : start + 2]}最新消息{draw.randrange(100)}", topic))
    return rows


def passengers(count: int = 400) -> list[list[object]]:
    draw = random.Random(0)
    rows: list[list[object]] = []
    for number in range(count):
        sex, rank, age = draw.choice(["male", "female"]), draw.choice([1, 2, 3]), draw.randint(1, 70)
        survived = int(draw.random() < (0.95 if sex == "female" else 0.05))
        name = f"Smith, Mr. {draw.choice('ABCDEF')} {number}"
        known = age if draw.random() > 0.2 else ""
        rows.append([number + 1, survived, rank, name, sex, known, f"A/5 {number * 37}", draw.choice("SCQ")])
    return rows


PASSENGERS = "PassengerId,Survived,Pclass,Name,Sex,Age,Ticket,Embarked"


def contest() -> None:
    rows = passengers()
    write("d/train.csv", table(PASSENGERS, rows[:320]))
    write("d/test.csv", table(PASSENGERS.replace("Survived,", ""), [[row[0], *row[2:]] for row in rows[320:]]))
    write("d/sample_submission.csv", table("PassengerId,Survived", [[row[0], 0] for row in rows[320:]]))


def customers() -> str:
    """As a German spreadsheet writes it."""
    draw = random.Random(0)
    rows = []
    for number in range(200):
        size, money = draw.random() * 10, draw.random() * 1000
        cells = (f"{value:.2f}".replace(".", ",") for value in (size, money))
        day = f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.2023"
        rows.append([f"Kunde {number}", draw.choice(["München", "Köln"]), *cells, day, "ja" if size > 5 else "nein"])
    return table("Name,Stadt,Größe,Umsatz (€),Datum,Kauf", rows, ";")


def flowers(delimiter: str, order: Sequence[int] = range(150)) -> list[str]:
    iris = load_iris()
    rows = [[*iris.data[row].tolist(), iris.target_names[iris.target[row]]] for row in order]
    return [delimiter.join(map(str, row)) for row in rows]


def halves(count: int = 200, names: Sequence[object] = ("low", "high")) -> list[tuple[str, str, object]]:
    """Two numbers, and whether the first is over a half."""
    draw = np.random.RandomState(0).rand(count, 2)
    return [(f"{a:.3f}", f"{b:.3f}", names[int(a > 0.5)]) for a, b in draw]


def clicks() -> str:
    draw = random.Random(0)
    rows = []
    for _ in range(400):
        place = draw.randint(0, 1)
        click = int(draw.random() < (0.9 if place else 0.1))
        rows.append([click, f"{draw.getrandbits(32):08x}", place, draw.randint(15700, 15800)])
    return table("click,device_ip,banner_pos,C14", rows)


def houses() -> str:
    draw = random.Random(0)
    rows = []
    for _ in range(300):
        size, rooms = draw.randint(40, 200), draw.randint(1, 5)
        rows.append([size, rooms, draw.choice(["north", "south"]), f"${size * 3000 + rooms * 20000:,}"])
    return table("sqm,rooms,side,price", rows)


def entities(count: int = 150) -> list[list[tuple[str, str]]]:
    draw = random.Random(0)
    who, where = ["Anna", "Bob", "Carol"], ["Paris", "Rome", "Oslo"]
    return [
        [(draw.choice(who), "B-PER"), ("visits", "O"), (draw.choice(where), "B-LOC"), (".", "O")] for _ in range(count)
    ]


def objects(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def records() -> list[dict[str, Any]]:
    return [{"text": text, "label": MOODS[label]} for text, label in reviews()]


def several() -> str:
    draw = random.Random(0)
    rows = [(text + (" long" if (long := draw.random() < 0.5) else ""), (MOODS[m], long)) for text, m in reviews()]
    return table("text,labels", [(text, f"{mood};{'long' if long else 'short'}") for text, (mood, long) in rows])


def by_columns() -> str:
    """As pandas' to_json writes a data frame."""
    rows = records()
    return json.dumps({name: {str(n): row[name] for n, row in enumerate(rows)} for name in ("text", "label")})


class Case(NamedTuple):
    path: str
    make: Callable[[], object]
    first: str  # of the sentence that says what is trained
    says: tuple[str, ...] = ()
    metric: str = "accuracy"


TEXT, TABLE, TAGS = (
    f"is {what}: training {system}"
    for what, system in (
        ("a set of texts with labels (2 labels)", "fasttext-classifier"),
        ("a table (2 classes)", "mlp"),
        ("a set of sentences with tags (3 tags)", "finetune"),
    )
)
CASES = {
    "UTF-8 with a mark": Case("t.csv", lambda: write("t.csv", labelled(), "utf-8-sig"), TEXT),
    "UTF-16": Case(
        "t.csv",
        lambda: write("t.csv", labelled(), "utf-16"),
        TEXT,
        ("t.csv: not UTF-8, read as utf-16 (data.encoding)",),
    ),
    "Windows-1252, semicolons, decimal commas": Case(
        "t.csv",
        lambda: write("t.csv", customers(), "cp1252"),
        TABLE,
        (
            "not UTF-8, read as cp1252",
            't.csv: the columns are separated by ";"',
            'Read as numbers with a decimal comma: "Größe", "Umsatz (€)"',
            'Left out: "Name" (',
        ),
    ),
    "GB 18030": Case(
        "t.tsv",
        lambda: write("t.tsv", table("", titles(), "\t"), "gb18030"),
        "(3 labels): training fasttext-classifier",
        ("not UTF-8, read as gb18030", "The text is Chinese: jieba"),
    ),
    "a contest's folder": Case(
        "d",
        contest,
        TABLE,
        (
            'The label is the column "Survived", which test.csv lacks',
            "test.csv has no labels: it is left out.",
            "Ignored in d: sample_submission.csv.",
        ),
    ),
    "a contest's table": Case(
        "t.csv",
        lambda: write("t.csv", table(PASSENGERS, passengers())),
        TABLE,
        ('The label is the column "Survived"; data.label', 'Left out: "PassengerId" (it counts the rows), "Ticket" ('),
    ),
    "pandas' index": Case(
        "t.csv",
        lambda: write("t.csv", table(",a,b,label", [(n, *row) for n, row in enumerate(halves())])),
        TABLE,
        ("columns without a name of their own are called unnamed: 0.", 'Left out: "unnamed: 0" ('),
    ),
    "a name twice": Case(
        "t.csv",
        lambda: write("t.csv", table("a,a,label", halves())),
        TABLE,
        ("t.csv: columns without a name of their own are called a.1.",),
    ),
    "empty columns at the end": Case(
        "t.csv",
        lambda: write("t.csv", table("v1,v2,,,", [(MOODS[label], text, "", "", "") for text, label in reviews()])),
        TEXT,
        ('The text is the column "v2", the label is the column "v1"',),
    ),
    "spaces between numbers": Case(
        "t.txt",
        lambda: write("t.txt", "\n".join(line.replace(" ", "   ") for line in flowers(" ", range(100))) + "\n"),
        TABLE,
        ("t.txt: the columns are separated by spaces.", "has no header line; its columns are called 1, 2, 3, 4, label"),
    ),
    "rows without a label": Case(
        "t.csv",
        lambda: write("t.csv", table("a,b,label", [*halves(), *(("0.1", "0.2", "") for _ in range(7))])),
        TABLE,
        ("t.csv: 7 of 207 rows have no label and are left out (the first: line 202).",),
    ),
    "texts without a label": Case(
        "t.csv", lambda: write("t.csv", labelled() + "no label,\n"), TEXT, ("1 of 201 rows have no label and are left",)
    ),
    "title and description": Case(
        "t.csv",
        lambda: write(
            "t.csv",
            table("Class,Title,Description", [(MOODS[m], f"Title number {n % 9}", t) for n, (t, m) in NUMBERED]),
        ),
        TEXT,
        ('The texts are the columns "Title", "Description", the label is the column "Class"',),
    ),
    "a review among numbers": Case(
        "t.csv",
        lambda: write(
            "t.csv", table("Review Text,Age,Sentiment", [(t, 20 + n % 50, m) for n, (t, m) in enumerate(reviews())])
        ),
        TEXT,
        ('The text is the column "Review Text", the label is the column "Sentiment"', 'Not read: "Age"; a system for'),
    ),
    "nested JSON lines": Case(
        "t.jsonl",
        lambda: write(
            "t.jsonl",
            objects(
                [{"id": i, "data": {"text": t}, "meta": {"label": m, "x": 0.5}} for i, (t, m) in enumerate(reviews())]
            ),
        ),
        TEXT,
        ('The text is the column "data.text", the label is the column "meta.label"',),
    ),
    "records in an object": Case("t.json", lambda: write("t.json", json.dumps({"data": records()})), TEXT),
    "a data frame's JSON": Case("t.json", lambda: write("t.json", by_columns()), TEXT),
    "an indented list": Case("t.json", lambda: write("t.json", json.dumps(records(), indent=2)), TEXT),
    "several labels": Case(
        "t.csv",
        lambda: write("t.csv", several()),
        "(4 labels): training fasttext-classifier",
        ('Several labels in a cell are separated by ";" (data.label_separator).', "2.00 labels on average, of 4"),
    ),
    "several columns of 0 and 1": Case(
        "t.csv",
        lambda: write("t.csv", table("comment,toxic,rude,threat", [(t, m, n % 2, 0) for n, (t, m) in NUMBERED])),
        TEXT,
        ('"toxic" is one of several columns of 0 and 1', "data.label chooses another: rude, threat."),
    ),
    "one class in twenty": Case(
        "t.csv", lambda: write("t.csv", table("a,b,Class", rare())), TABLE, ('The label is the column "Class".',)
    ),
    "money to predict": Case(
        "t.csv",
        lambda: write("t.csv", houses()),
        "is a table: training mlp; also: linear-regression",
        ("It is a number to predict.",),
        "r2",
    ),
    "lists of words and tags": Case(
        "t.jsonl",
        lambda: write(
            "t.jsonl",
            objects([dict(zip(("tokens", "ner_tags"), zip(*row, strict=True), strict=True)) for row in entities()]),
        ),
        TAGS,
        ('The words are "tokens", the tags are "ner_tags"', "entities in BIO form"),
        "entity_f1",
    ),
    "a word in each row": Case(
        "t.csv",
        lambda: write(
            "t.csv",
            table(
                "Sentence #,Word,Tag",
                [
                    ("" if n else f"Sentence: {i}", *cell)
                    for i, row in enumerate(entities())
                    for n, cell in enumerate(row)
                ],
            ),
        ),
        TAGS,
        ('The words are "Word", the tags are "Tag"', "entities in BIO form"),
        "entity_f1",
    ),
}


def rare() -> list[tuple[str, str, int]]:
    draw = np.random.RandomState(0).randn(600, 2)
    return [(f"{a:.3f}", f"{b:.3f}", int(a > 1.7)) for a, b in draw]


@pytest.mark.parametrize("name", CASES)
def test_the_first_command(name: str, canon: Canon) -> None:
    case = CASES[name]
    case.make()
    trained = canon("train", case.path, "--out", "run")
    assert trained.code == 0, trained.err
    assert case.first in trained.err.splitlines()[0], trained.err
    checked = canon("check", case.path)
    for sentence in case.says:
        assert sentence in trained.err, trained.err
        assert sentence in checked.out or any(word in sentence for word in OF_TRAINING), checked.out
    unsaid = [note for note in re.findall("  note +(.*)", checked.out) if note not in trained.err]
    assert not unsaid, trained.err
    # Each entity has a word of its own, so the most frequent tag of a word is always right; of several labels, too.
    always = case.metric == "entity_f1" or name == "several labels"
    require_level(Path("run"), case.metric, 1.0 if always else None)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("Zürich, Köln, 5 €".encode("cp1252"), "cp1252"),
        ("naïve café, “quoted” – 20 °C".encode("cp1252"), "cp1252"),
        ("今日股票市场消息。".encode("gbk"), "gb18030"),
        ("今日股票市场消息。".encode(), "utf-8"),
        ("Zürich, Köln".encode() + b" \xff", "utf-8"),  # with one wrong byte, which reading reports
        (b"plain \x81\xff bytes", "utf-8"),
        (b"\xff\xfe" + "ab".encode("utf-16-le"), "utf-16"),
        (b"", "utf-8"),
    ],
)
def test_encodings_by_their_bytes(content: bytes, name: str) -> None:
    Path("t.txt").write_bytes(content)
    assert encoding_of(Path("t.txt")) == name


def test_a_dozen_rows_are_not_said_to_have_taught_nothing(canon: Canon) -> None:
    write("t.csv", table("text,label", [(text, MOODS[label]) for text, label in reviews(12)]))
    trained = canon("train", "t.csv", "--out", "run")
    assert trained.code == 0 and "few training examples" in canon("check", "t.csv").out
    score = json.loads(Path("run/result.json").read_text())["scores"]["test"]["accuracy"]
    assert ("has not learned" in trained.err) == (score == 0)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "t.csv is empty."),
        ("a,b,label\n", "t.csv has a header but no rows."),
        ('a,b\n1,2\n3,"4",5\n', "A cell that holds the separator must be between double quotes."),
        ("x\n1\n2\n3\n", 't.csv has no column but the label "x"; there is nothing to predict it from.'),
        ("a,label\n" + "1,x\n2,x\n" * 20, 't.csv: every row has the label "x"; at least two classes are needed.'),
    ],
)
def test_what_cannot_be_trained_on_is_one_sentence(content: str, sentence: str, canon: Canon) -> None:
    write("t.csv", content)
    trained = canon("train", "t.csv")
    assert trained.code == 2 and sentence in trained.err and trained.err.count("\n") == 1


def test_texts_of_one_class_are_running_text_and_it_says_why() -> None:
    write("t.csv", table("text,label", [(text, "pos") for text, _ in reviews()]))
    chosen = choose_system(DataConfig(source="t.csv"), lambda task: TASK_RECORDS[task].targets)
    assert chosen.name == "word2vec" and "t.csv is running text: training word2vec" in chosen.sentence
    assert 'has the label "pos"; at least two classes are needed.' in chosen.sentence


def test_a_text_of_lone_words_has_no_score_and_a_report(canon: Canon) -> None:
    """Nothing is beside anything, in any part."""
    write("t.csv", "\n".join(["text", *(f"w{number}" for number in range(12))]) + "\n")
    trained = canon("train", "word2vec", "--data", "t.csv", "--out", "run", "--set", "train.epochs=1")
    assert trained.code == 0 and Path("run/report.html").exists(), trained.err


def test_a_log_of_clicks_is_recognised(canon: Canon) -> None:
    """By its label; a column of ids is left out."""
    write("t.csv", clicks())
    checked, trained = canon("check", "t.csv"), canon("train", "t.csv", "--out", "run")
    assert (checked.code, trained.code) == (0, 0)
    assert "first       deepfm" in checked.out and 'The label is the column "click"' in checked.out
    assert 'Left out, since almost every row has another value: "device_ip".' in trained.out + trained.err


def test_ratings_in_a_folder_are_interactions(canon: Canon) -> None:
    write("ml/ratings.dat", "".join(f"{n // 20}::{n % 25}::{1 + n % 5}::{978300760 + n}\n" for n in range(60)))
    write("ml/movies.dat", "".join(f"{n}::Film {n} (1999)::Drama|Comedy\n" for n in range(60)))
    trained = canon("train", "ml", "--out", "run")
    assert trained.code == 0 and "ml is a set of interactions: training " in trained.out + trained.err, trained.err


def test_tagged_rows_are_predicted_from_both_forms(canon: Canon) -> None:
    for name in ("lists of words and tags", "a word in each row"):
        CASES[name].make()
    assert canon("train", "t.jsonl", "--out", "run", "--quiet").code == 0
    first, second = (json.loads(canon("predict", "run", name, "--json").out) for name in ("t.jsonl", "t.csv"))
    assert len(first) == len(second) == 150 and first[0]["prediction"] == second[0]["prediction"]
    assert first[0]["prediction"].startswith(f"{entities()[0][0][0]}/B-PER visits/O ")
