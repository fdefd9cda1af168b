"""Files in more of the shapes that people have: what `canon check` takes them for, and what it says it decided."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from canon.data.formats.files import encoding_of
from canon.data.formats.tagged_spans import fields_of, read_spans
from tests.conftest import Outcome
from tests.first_hour.test_files import reviews, write

Canon = Callable[..., Outcome]
TOPICS = ("war troops election", "match coach league", "stocks oil profit", "software chip internet")
FILL = ["the", "of", "a", "says", "in", "to", "new", "after", "over", "with", "for", "on", "first"]


def table(rows: Sequence[Sequence[object]], header: str = "", delimiter: str = ",") -> list[str]:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([header.split(",")] if header else [])
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().splitlines()


def news(count: int = 300) -> list[tuple[int, str, str]]:
    """A class from 1, a title and a text, which have no more words in common in one class than in another."""
    draw = random.Random(0)

    def text(topic: int, length: int) -> str:
        words = [*draw.choices(FILL, k=length), *draw.choices(TOPICS[topic].split(), k=2)]
        draw.shuffle(words)
        return " ".join(words)

    return [(n % 4 + 1, text(n % 4, 6), text(n % 4, 16)) for n in range(count)]


def numbers(count: int = 200) -> list[tuple[str, str]]:
    draw = np.random.RandomState(0).randn(count, 2)
    return [(f"{170 + 10 * a:.1f}", f"{60 + 9 * a + b:.1f}") for a, b in draw]


def names(count: int = 300) -> list[tuple[str, str]]:
    draw = random.Random(0)
    return [("".join(draw.choices("bdkmnrst", k=6)) + "oa"[n % 2], "MF"[n % 2]) for n in range(count)]


def cafes() -> list[dict[str, Any]]:
    """As Amazon's reviews: a constant date and a time after the rating."""
    return [
        {"reviewText": text, "overall": [1.0, 5.0][mood], "unixReviewTime": 1393545600 + n, "reviewTime": "02 28, 2014"}
        for n, (text, mood) in enumerate(reviews())
    ]


def hub(kind: str) -> None:
    """Parquet as a data hub keeps it: lists, structs, and the names of classes beside the file's schema."""
    draw = random.Random(0)
    label = {"names": ["bad", "good"], "_type": "ClassLabel"}
    tags = {"feature": {"names": ["O", "B-PER", "B-LOC"], "_type": "ClassLabel"}, "_type": "Sequence"}
    columns: dict[str, list[Any]]
    if kind == "text":
        columns = {"text": [text for text, _ in reviews()], "label": [mood for _, mood in reviews()]}
        columns["vector"] = [[0.1, 0.2]] * len(reviews())
    elif kind == "tags":
        columns = {"tokens": [[draw.choice(["Anna", "Bob"]), "visits", "Rome"] for _ in range(60)]}
        columns["ner_tags"] = [[1, 0, 2]] * 60
    elif kind == "choices":
        columns = {"question": [f"What is {n}?" for n in range(60)], "answer": [n % 2 for n in range(60)]}
        columns["choices"] = [[f"{n}", f"{n + 1}"] for n in range(60)]
    elif kind == "questions":
        columns = {"context": [f"Tower {n} is old." for n in range(60)], "question": ["Which?"] * 60}
        columns["answers"] = [{"text": [f"{n}"], "answer_start": [6]} for n in range(60)]
    elif kind == "labels":
        columns = {"text": [text for text, _ in reviews()], "id": [f"r{n}" for n in range(len(reviews()))]}
        columns["labels"] = [[2] if n % 5 == 4 else [mood, 2][: 1 + n % 3 % 2] for n, (_, mood) in enumerate(reviews())]
    else:
        columns = {"translation": [{"en": f"I see {n} dogs.", "de": f"Ich sehe {n} Hunde."} for n in range(60)]}
    lists = {"labels": {"feature": {**label, "names": ["bad", "good", "old"]}, "_type": "Sequence"}}
    features = {"text": {"label": label}, "tags": {"ner_tags": tags}, "labels": lists}.get(kind, {})
    schema = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    Path("hub/data").mkdir(parents=True)
    parquet.write_table(pa.table(columns).replace_schema_metadata(schema), "hub/data/train-00000-of-00001.parquet")


def pictures() -> None:
    for number in range(12):
        path = Path(f"pets/{'cat' if number % 2 else 'dog'}/{number}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300 + 10 * number, 200)).save(path)


def squad(paragraphs: int = 60) -> list[str]:
    """One article, as people write of their own documents."""
    listed = [
        {
            "context": f"Tower {n} is old.",
            "qas": [{"question": "Which?", "answers": [{"text": f"{n}", "answer_start": 6}]}],
        }
        for n in range(paragraphs)
    ]
    return [json.dumps({"data": [{"title": "towers", "paragraphs": listed}]})]


def unpacked() -> None:
    """As an archive leaves them: the folder of classes below others of one folder each."""
    for number in range(24):
        path = Path(f"pets/pets/images/{'val' if number % 6 == 5 else 'train'}/{'ab'[number % 2]}/{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32)).save(path)
    write("pets/README.txt", ["Pictures of pets."])
    write("pets/__MACOSX/pets/._1.png", ["-"])


def rated(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [json.dumps(row, ensure_ascii=False) for row in rows]


def sentences() -> list[dict[str, Any]]:
    return [{"id": n, "text": "Anna visits Rome.", "label": [[0, 4, "PER"], [12, 16, "LOC"]]} for n in range(60)]


class Shape(NamedTuple):
    path: str
    make: Callable[[], object]
    first: str
    says: tuple[str, ...] = ()


def file(name: str, lines: Sequence[str]) -> Callable[[], object]:
    return lambda: write(name, list(lines))


NUMBER = "It is a number to predict."
SHAPES = {
    "two columns of numbers": Shape("t.csv", file("t.csv", table(numbers(), "height,weight")), "mlp", (NUMBER,)),
    "two columns of numbers, no names": Shape(
        "t.txt", file("t.txt", [" ".join(row) for row in numbers()]), "mlp", ("separated by spaces", NUMBER)
    ),
    "months and a number": Shape(
        "t.csv",
        file("t.csv", table([(f"{1949 + n // 12}-{n % 12 + 1:02}", 112 + 2 * n) for n in range(144)], "Month,Count")),
        "mlp",
        ('Read as dates: "Month" (months', NUMBER),
    ),
    "names and a class": Shape(
        "t.csv",
        file("t.csv", table(names(), "name,gender")),
        "fasttext-classifier",
        ('The text is the column "name", the label is the column "gender"',),
    ),
    "an index beside two languages": Shape(
        "t.csv",
        file("t.csv", table([(n, f"I see {n} dogs.", f"Je vois {n} chiens.") for n in range(60)], ",English,French")),
        "transformer",
    ),
    "a rating before a constant date": Shape(
        "t.json", file("t.json", rated(cafes())), "fasttext-classifier", ('the label is the column "overall"',)
    ),
    "a title and a text without names": Shape(
        "t.csv",
        file("t.csv", table(news())),
        "fasttext-classifier",
        ('The texts are the columns "sentence1", "sentence2"',),
    ),
    "class.txt in a folder of the folder": Shape(
        "d",
        lambda: [
            write("d/data/train.txt", [f"{text}\t{mood}" for text, mood in reviews()]),
            write("d/data/class.txt", ["dull", "fine"]),
        ],
        "fasttext-classifier",
        ("class.txt names the classes: 0 is dull, 1 is fine.",),
    ),
    "tabs in .csv": Shape(
        "t.csv",
        file("t.csv", [f"{text}, they say\t{mood}" + "," * (n % 3) for n, (text, mood) in enumerate(reviews())]),
        "fasttext-classifier",
        ("the columns are separated by tabs",),
    ),
    "a table beside smaller files": Shape(
        "d",
        lambda: [
            write("d/iris.data", [f"{a},{b},{'xy'[float(a) > 170]}" for a, b in numbers()]),
            write("d/Index", ["Index of iris"]),
        ],
        "mlp",
        ("Ignored in d: Index.",),
    ),
    "Parquet with names of classes": Shape(
        "hub",
        lambda: hub("text"),
        "fasttext-classifier",
        ('the column "vector" has lists and is left out',),
    ),
    "Parquet with tags": Shape("hub", lambda: hub("tags"), "finetune", ("The tags are entities in BIO form",)),
    "Parquet with structs": Shape("hub", lambda: hub("pairs"), "transformer"),
    "Parquet with lists of labels": Shape(
        "hub",
        lambda: hub("labels"),
        "fasttext-classifier",
        ('Several labels in a cell are separated by ";"', "bad;old"),
    ),
    "Parquet with questions and choices": Shape(
        "hub", lambda: hub("choices"), "finetune", ("several texts for a question",)
    ),
    "Parquet with questions on texts": Shape("hub", lambda: hub("questions"), "finetune", ("a text that answers",)),
    "lists of labels": Shape(
        "t.jsonl",
        file(
            "t.jsonl",
            rated([{"text": text, "tags": ["abc"[n % 3], "abc"[n % 4 % 3]]} for n, (text, _) in enumerate(reviews())]),
        ),
        "fasttext-classifier",
        ('the label is the column "tags"', 'Several labels in a cell are separated by ";"'),
    ),
    "rows by their names, as pandas writes them": Shape(
        "t.json",
        file("t.json", [json.dumps({f"{n}": {"text": t, "mood": "ab"[m]} for n, (t, m) in enumerate(reviews())})]),
        "fasttext-classifier",
        ('The text is the column "text", the label is the column "mood"',),
    ),
    "pictures below other folders": Shape("pets", unpacked, "resnet", ("20 train, 4 valid",)),
    "texts below other folders": Shape(
        "d",
        lambda: [
            *(write(f"d/films/{'ab'[mood]}/{n}.txt", [text]) for n, (text, mood) in enumerate(reviews(60))),
            write("d/films/README", ["Reviews of films."]),
        ],
        "fasttext-classifier",
        ("Each folder is a class: a, b.", "Ignored in films: README."),
    ),
    "choices by letters": Shape(
        "t.csv",
        file("t.csv", table([(n, f"What is {n}?", n, n + 1, "BA"[n % 2]) for n in range(60)], ",Question,A,B,Answer")),
        "finetune",
        ("the right one of several texts",),
    ),
    "questions on one article": Shape("t.json", file("t.json", squad()), "finetune", ("49 train, 5 valid, 6 test",)),
    "places of entities": Shape(
        "t.jsonl",
        file("t.jsonl", rated(sentences())),
        "finetune",
        ('the places of its entities are "label"', "The tags are entities in BIO form"),
    ),
    "base and test, as MovieLens has them": Shape(
        "ml",
        lambda: [
            write(f"ml/{name}", [f"{n // 25 + 1}\t{n % 25}\t{1 + n % 5}\t{881250949 + n}" for n in rows])
            for name, rows in {
                "u.data": range(300),
                "ua.base": [n for n in range(300) if n % 7],
                "ua.test": range(0, 300, 7),
            }.items()
        ],
        "ials",
        ("Ignored in ml: u.data.",),
    ),
    "numbered features": Shape(
        "d.scale",
        file("d.scale", [f"{'+-'[float(a) > 170]}1 1:{a} 3:{b}" for a, b in numbers()]),
        "mlp",
        ("d.scale has numbered features; those that a line lacks are 0.",),
    ),
    "numbered features and a number": Shape(
        "d.scale", file("d.scale", [f"{b} 1:{a} 2:0.5" for a, b in numbers()]), "mlp", (NUMBER,)
    ),
    "ratings by names": Shape(
        "r.csv",
        file("r.csv", table([(f"A{n % 20}X", f"B{n % 23}", f"{1 + n % 5}.0", 1369699200 + n) for n in range(300)])),
        "ials",
        ("user is column 1, item is column 2, rating is column 3, time is column 4",),
    ),
    "lines of another ending": Shape(
        "d",
        lambda: [
            write(f"d/{name}.tok.9000", [text for text, mood in reviews() if mood == label])
            for label, name in enumerate(("plot", "quote"))
        ],
        "fasttext-classifier",
        ("Each file is a class: plot, quote.",),
    ),
    "text of another ending": Shape("t.utf8", file("t.utf8", [text for text, _ in reviews()]), "word2vec"),
    "pictures of several sizes": Shape(
        "pets",
        pictures,
        "resnet",
        ("The images have 12 sizes and are resized to 72 x 128 (height x width); data.size chooses.",),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_it_is_taken_for(name: str, canon: Canon) -> None:
    shape = SHAPES[name]
    shape.make()
    checked = canon("check", shape.path)
    assert f"  first       {shape.first}, which" in checked.out, checked.out + checked.err
    assert all(sentence in checked.out for sentence in shape.says), checked.out


def test_classes_of_a_hub_have_their_names(canon: Canon) -> None:
    hub("text")
    assert json.loads(canon("check", "hub", "--json").out)["classes"]["train"].keys() == {"bad", "good"}


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp949", "이 영화는 정말 재미있고 배우들의 연기가 훌륭했다"),
        ("gb18030", "客户：张三，¥12,300，2021年3月5日，这部电影很好看"),
        ("shift_jis", "この映画はとても面白いです。カタカナも"),
        ("big5", "今天的比賽球隊贏得冠軍，這部電影很好看"),
        ("cp1252", "Un café à Paris où l'été …"),
        ("cp1252", "Sensor [°C] at £5 per m²"),
        ("cp1251", "Этот фильм очень хороший, но длинный"),
    ],
)
def test_older_encodings(encoding: str, text: str) -> None:
    Path("t.txt").write_bytes(f"text,label\n{text}\n".encode(encoding))
    assert encoding_of(Path("t.txt")) == encoding


@pytest.mark.parametrize(
    ("row", "tags"),
    [
        ({"text": "李娜去了北京", "label": {"name": {"李娜": [[0, 1]]}, "city": {"北京": [[4, 5]]}}}, "B I O O B I"),
        ({"text": "Anna Lee left.", "entities": [{"start": 0, "end": 8, "label": "PER"}]}, "B I O O"),
        ({"text": "Anna Lee left.", "spans": [[0, 8, "PER"], [5, 8, "LOC"]]}, "B I O O"),
    ],
)
def test_places_become_tags(row: dict[str, Any], tags: str) -> None:
    """Also where two spans overlap."""
    Path("t.jsonl").write_text(json.dumps(row), encoding="utf-8")
    fields = fields_of(Path("t.jsonl"))
    assert fields is not None
    [(_, words, read)] = read_spans(Path("t.jsonl"), "", fields)
    assert " ".join(tag[0] for tag in read) == tags and len(words) == len(read)


def test_parts_in_one_object_are_one_sentence(canon: Canon) -> None:
    rows = [{"text": text, "label": mood} for text, mood in reviews(20)]
    Path("t.json").write_text(json.dumps({"train": rows, "test": rows}))
    checked = canon("check", "t.json")
    assert checked.code == 2 and "write each to a file of its own, train.json and test.json" in checked.err


def test_what_is_no_class(canon: Canon) -> None:
    """Chapters, books with paragraphs and code are running text, not a class a file."""
    texts = [text for text, _ in reviews(60)]
    folders = {
        "chapters": {f"ch{n}.txt": texts for n in range(3)},
        "books": {name: "\n\n".join(texts).split("\n") for name in ("emma.txt", "moby.txt")},
        "code": {f"{name}.py": [f"def {name}(x):", "    return x", ""] * 9 for name in ("main", "tools")},
        "intents": {f"{part}/{name}": texts for part in ("train", "test") for name in ("seq.in", "seq.out")},
    }
    for folder, files in folders.items():
        for name, lines in files.items():
            write(f"{folder}/{name}", lines)
        checked = canon("check", folder)
        assert checked.code == 0 and f"{folder}: text" in checked.out and "is a class" not in checked.out, checked.out


def test_a_table_of_pictures_says_what_to_do(canon: Canon) -> None:
    pictures()
    write("pets/labels.csv", table([(f"{n}.jpg", "cat" if n % 2 else "dog") for n in range(12)], "file,label"))
    for path in ("pets", "pets/labels.csv"):
        checked = canon("check", path)
        assert checked.code == 2 and 'names pictures in the column "file": put the pictures' in checked.err


def test_what_lies_beside_classes_is_said(canon: Canon) -> None:
    for part in ("train", "test"):
        for number, (text, mood) in enumerate(reviews(40)):
            write(f"acl/{part}/{'neg' if mood else 'pos'}/{number}.txt", [text])
    write("acl/train/unsup/0.txt", ["a text"])
    write("acl/imdb.vocab", ["the", "of"])
    assert "Ignored in acl: imdb.vocab, unsup." in canon("check", "acl").out
