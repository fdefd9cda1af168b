"""Kinds and encodings: what a path is taken for and why, what each encoding takes, whose setting is whose, and that the
schema of every encoding comes back from its files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon import recipe as recipes
from canon.data import encodings, kinds
from canon.data.column_encoders import CategoryColumn, NumberColumn
from canon.data.config import DataConfig, is_layout, owners, settings_of
from canon.data.encodings import ENCODINGS, Ask
from canon.data.encodings.bags import BagSchema
from canon.data.encodings.events import EventSchema
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.field_columns import CategoryField, HashedField
from canon.data.encodings.fields import FieldSchema
from canon.data.encodings.framed import FramedSchema
from canon.data.encodings.lists import ListSchema
from canon.data.encodings.observations import DynamicsSchema, ObservationSchema, StateSchema
from canon.data.encodings.passages import PassageSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.encodings.prompted import PromptedSchema
from canon.data.encodings.sequences import SequenceSchema
from canon.data.encodings.steps import StepSchema
from canon.data.encodings.texts import SentenceSchema
from canon.data.encodings.windows import WindowSchema
from canon.data.encodings.word_ids import WordIdSchema
from canon.data.kinds import KINDS, accepts, kind_of
from canon.data.read import read
from canon.data.schema import Schema
from canon.data.settings import Common
from canon.data.targets import (
    TARGETS,
    Class,
    HiddenTokens,
    Labels,
    NextToken,
    Nothing,
    Number,
    OtherText,
    Relevance,
    Score,
    Span,
)
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.registry import SYSTEMS
from canon.tasks.records import TASK_RECORDS
from tests.data.makers import cifar_folder, idx_folder, image_folder
from tests.reading import read_as

Make = Callable[[], object]


def write(name: str, *lines: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def files(*names: str, lines: tuple[str, ...]) -> Make:
    return lambda: [write(name, *lines) for name in names]


def table_beside_pictures() -> None:
    image_folder(Path("d/plots"), count=1)
    write("d/train.csv", "x,y", "1,a", "2,b")


TABLE = ("size,colour,label", *(f"{row},{'red' if row % 2 else 'blue'},{row % 2}" for row in range(12)))
REVIEWS = ("text,label", *(f"film {row} was so so,{row % 2}" for row in range(12)))
SWAG = ("sent1,sent2,ending0,ending1,label", "He sits down.,He,runs.,eats.,1", "She sits down.,She,runs.,eats.,0")
CONLL = ("EU B-ORG", "rejects O", "", "Peter B-PER", "left O")
TEXT = ("A text of words.", "", "And another one, which is longer.")
LABELLED = ("__label__a good film", "__label__b a bad one")
TABBED = ("the cat\tdie Katze", "the dog sat\tder Hund saß", "a bird\tein Vogel")
QUESTION = (json.dumps({"question": "Who?", "context": "He.", "answers": {"text": ["He"], "answer_start": [0]}}),)
CHOICES = (json.dumps({"question": "Who?", "choices": ["he", "she"], "answer": 1}),)

# path, how it is made, settings, its kind, the reason, and the kinds that it can be read as too.
CASES: dict[str, tuple[str, Make, dict[str, Any], str, str, set[str]]] = {
    "table": ("t.csv", files("t.csv", lines=TABLE), {}, "table", "t.csv is a table by its ending", {"pairs"}),
    "table of texts": (
        "t.csv",
        files("t.csv", lines=REVIEWS),
        {},
        "table",
        "t.csv is a table by its ending",
        {"labelled", "text", "pairs", "sentences"},
    ),
    "table of choices": (
        "t.csv",
        files("t.csv", lines=SWAG),
        {},
        "table",
        "t.csv is a table by its ending",
        {"choices", "labelled", "text", "pairs", "sentences"},
    ),
    "folder of tables": (
        "d",
        files("d/train.csv", "d/test.csv", lines=TABLE),
        {},
        "table",
        "d is a table by its ending",
        {"pairs"},
    ),
    "table beside pictures": ("d", table_beside_pictures, {}, "table", "d is a table by its ending", {"pairs"}),
    "table under another ending": ("t.data", files("t.data", lines=TABLE), {"format": "table"}, "table", "", {"pairs"}),
    "text": ("t.txt", files("t.txt", lines=TEXT), {}, "text", "t.txt is a text file by its ending", {"sentences"}),
    "folder of text": ("d", files("d/a.txt", "d/b.md", lines=TEXT), {}, "text", "d has text files", {"sentences"}),
    "text with tabs": (
        "t.txt",
        files("t.txt", lines=TABBED),
        {},
        "table",
        "t.txt is a table by its first lines",
        {"pairs", "text", "sentences"},
    ),
    "text in columns": (
        "t.txt",
        files("t.txt", lines=CONLL),
        {},
        "tagged",
        "t.txt has a word and its tag on each line",
        set(),
    ),
    "labelled lines": (
        "t.txt",
        files("t.txt", lines=LABELLED),
        {},
        "labelled",
        "t.txt has lines that begin with __label__",
        set(),
    ),
    "labelled lines of any ending": (
        "d",
        files("d/x.train", "d/x.test", lines=LABELLED),
        {},
        "labelled",
        "d has lines that begin with __label__",
        set(),
    ),
    "labelled lines as text": ("t.txt", files("t.txt", lines=LABELLED), {"format": "text"}, "text", "", {"sentences"}),
    "CoNLL": ("t.conll", files("t.conll", lines=CONLL), {}, "tagged", "t.conll is CoNLL by its ending", set()),
    "SQuAD": (
        "q.jsonl",
        files("q.jsonl", lines=QUESTION),
        {},
        "questions",
        "q.jsonl has questions with their contexts, as SQuAD has them",
        {"sentences"},
    ),
    "choices": (
        "c.jsonl",
        files("c.jsonl", lines=CHOICES),
        {},
        "choices",
        "c.jsonl has questions with lists of choices",
        set(),
    ),
    "parallel": (
        "d",
        files("d/train.en", "d/train.de", lines=TEXT),
        {},
        "pairs",
        "d has files in de, en side by side",
        set(),
    ),
    "pictures": ("d", lambda: image_folder(Path("d")), {}, "images", "d has image files", set()),
    "IDX": ("d", lambda: idx_folder(Path("d")), {}, "images", "d has IDX files", set()),
    "CIFAR-10": ("d", lambda: cifar_folder(Path("d")), {}, "images", "d has the files of CIFAR-10", set()),
}


@pytest.mark.parametrize("case", CASES)
def test_a_path_is_taken_for_a_kind_with_a_reason(case: str) -> None:
    path, make, settings, name, reason, others = CASES[case]
    make()
    config = DataConfig(source=path, **settings)
    kind = kind_of(config)
    assert kind.name == name
    if reason:
        assert kind.sniff(Path(path), config) == reason
    assert {each.name for each in KINDS if each is not kind and each.offered and accepts(each, config)} == others
    assert accepts(kind, config) == f"{path} is {kind.singular}"


def test_tabs_and_columns_under_an_unknown_ending() -> None:
    """First lines decide."""
    write("pairs.data", *TABBED)
    write("ner.data", *CONLL)
    assert kind_of(DataConfig(source="pairs.data")).name == "table"
    assert accepts(kinds.find("pairs"), DataConfig(source="pairs.data"))
    assert kind_of(DataConfig(source="ner.data")).name == "tagged"
    data = read_as(DataConfig(source="pairs.data", tokenizer="word", valid=0.0, test=0.0), "sequences")
    assert len(data.splits["train"]["input"]) == 3


def test_a_path_goes_before_a_named_set() -> None:
    assert kind_of(DataConfig(source="digits")).name == "images"
    files("digits/train.csv", lines=TABLE)()
    assert kind_of(DataConfig(source="digits")).name == "table"


# What systems read


READS = {
    "features": {"table"},
    "pixels": {"images"},
    "windows": {"text"},
    "sequences": {"pairs"},
    "passages": {"text"},
    "word-ids": {"text"},
    "bags": {"labelled"},
    "framed": {"questions", "choices", "tagged", "labelled"},
    "prompted": {"labelled"},
    "texts": {"sentences"},
    "steps": {"text", "table"},
    "lists": {"queries"},
    "fields": {"clicks"},
    "events": {"interactions"},
    **{name: {"environments"} for name in ("observations", "states", "dynamics")},
}


def test_every_encoding_says_what_it_reads() -> None:
    assert {each.name: {kind.name for kind in each.reads} for each in ENCODINGS} == READS
    assert {encodings.find(name) for system in SYSTEMS for name in system.encodings} == set(ENCODINGS)
    assert {kinds.find(name) for names in READS.values() for name in names} < set(KINDS)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda each: each.name)
@pytest.mark.parametrize("case", CASES)
def test_what_an_encoding_takes(case: str, encoding: Any) -> None:
    """Data is opened as the first of the kinds that it reads, or refused with a sentence that names both kinds."""
    path, make, settings, name, _, others = CASES[case]
    make()
    config = DataConfig(source=path, **settings)
    wanted = [kind.name for kind in encoding.reads if kind.name in {name, *others}]
    if wanted:
        assert next(kind for kind in encoding.reads if accepts(kind, config)).name == wanted[0]
        return
    if not encoding.reads[0].offered and accepts(encoding.reads[0], config):
        return  # a recipe's kind, which any table can be
    with pytest.raises(CanonError) as mistake:
        read(config, [encoding], encodings.Ask(tuple(TARGETS.values()), "x"))
    reads = " or ".join(kind.plural for kind in encoding.reads)
    named = "".join(dict.fromkeys(kind.named_by for kind in encoding.reads))
    assert str(mistake.value) == f"x reads {reads}, but {path} is {kinds.find(name).singular}{named}."


def test_unknown_names() -> None:
    with pytest.raises(CanonError, match=r'No encoding "pixel"; did you mean pixels\?'):
        encodings.find("pixel")
    with pytest.raises(CanonError, match=r'No kind of data "tabel"; did you mean table\?'):
        kinds.find("tabel")


# Settings


@pytest.mark.parametrize(
    ("name", "wanted", "not_in"),
    [
        ("size", "images", "features"),
        ("augment", "the encoding pixels", "windows"),
        ("languages", "pairs of texts", "pixels"),
        ("label_separator", "texts with labels", "features"),
        ("window", "the encoding windows", "passages"),
        ("missing", "the encoding features", "bags"),
        ("tests", "the encoding word-ids", "sequences"),
        ("user", "interactions and clicks", "bags"),
        ("max_length", "the encodings sequences, passages, framed, prompted, texts and steps", "features"),
    ],
)
def test_settings_of_another_kind(name: str, wanted: str, not_in: str) -> None:
    """A setting is its kind's or its encoding's own: `settings_of` leaves it out of the others'."""
    assert owners(name) == wanted
    assert name not in settings_of([encodings.find(not_in)])
    assert any(name in settings_of([each]) for each in ENCODINGS)


def test_every_setting_has_an_owner() -> None:
    common = {field.name for field in fields(Common)}
    for field in fields(DataConfig):
        assert field.name in common or owners(field.name), field.name
    assert all(common <= settings_of([each]) for each in ENCODINGS)
    assert settings_of(ENCODINGS) == {field.name for field in fields(DataConfig)}


def test_layout_is_what_describes_one_file() -> None:
    described = {field.name for field in fields(DataConfig) if is_layout(field.name)}
    plain = {"source", "format", "label", "features", "delimiter", "size", "channels", "languages"}
    plain |= {"template", "words", "unlabelled"}  # of prompts: they name columns and classes
    plain |= {"query", "user", "item", "rating", "time", "negatives", "positive"}  # of queries, clicks and interactions
    plain |= {"categories", "numeric"}  # of clicks
    plain |= {"arguments", "max_steps", "transitions"}  # of environments
    assert described == plain


# Schemas


def schemas() -> list[Schema]:
    text, target = (Tokenizer.train([words], "word") for words in ("some words of text", "einige Worte"))
    words = Words(["a", "b"], np.array([3, 1]), 5)
    numbers = NumberColumn("size", 1.5, 2.0), CategoryColumn("colour", categories=("blue", "red"))
    return [
        FeatureSchema(Number(label="price", mean=2.5, std=0.5), (3,), encoders=numbers),
        PixelSchema(Class(("cat", "dog"), counts=(3, 4)), (3, 8, 8), mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0)),
        WindowSchema(NextToken(), tokenizers={"text": text}),
        SequenceSchema(OtherText(), tokenizers={"source": text, "target": target}, longest=(5, 6), typical=(3, 3)),
        SequenceSchema(OtherText(), tokenizers={"source": text, "target": text}),
        PassageSchema(HiddenTokens(), tokenizers={"text": text}, longest=(16,), typical=(9,)),
        WordIdSchema(words=words),
        BagSchema(Labels(("x", "y"), "label", (7, 2)), words=words, columns=("title", "body")),
        FramedSchema(
            Span(unanswerable=True), tokenizers={"text": text}, framing="bert", limit=64, overlap=32, monitor="f1"
        ),
        PromptedSchema(
            Class(("x", "y")),
            tokenizers={"text": text},
            framing="bert",
            limit=64,
            template="{text} {mask}",
            label_words=(("some",), ("words", "text")),
            demos=(("a b", "c"), (), ("x", "y")),
        ),
        StepSchema(Nothing(), (8, 6), stride=2, columns=("a", "b", "c"), mean=(0.0,) * 3, std=(1.0,) * 3),
        SentenceSchema(
            Score(label="score", low=1.0, high=5.0), tokenizers={"text": text}, framing="bert", limit=64, width=2
        ),
        ListSchema(
            Relevance(), (2,), features=("bm25", "length"), normalize="train-z", mean=(1.0, 2.0), std=(3.0, 4.0)
        ),
        FieldSchema(
            Class(("no", "yes"), "click", (3, 1)),
            columns=(CategoryField("user", ("u1", "u2")), HashedField("item", 4, 7)),
            hash_bits=4,
            crosses=((0, 1),),
            seed=7,
        ),
        EventSchema(Nothing(), users=("u", "v"), items=("a", "b"), counts=(2, 1), protocol="loo-ncf99", rated=True),
        ObservationSchema(Nothing(), (4,), actions=2, limit=500),
        *(cls(Nothing(), states=16, actions=4, limit=100) for cls in (StateSchema, DynamicsSchema)),
    ]


def test_every_encoding_has_a_schema() -> None:
    assert {type(schema) for schema in schemas()} == {each.schema for each in ENCODINGS}
    assert all(each.schema.encoding == each.name for each in ENCODINGS)


@pytest.mark.parametrize("index", range(len(schemas())))
def test_a_schema_comes_back_from_its_files(index: int, tmp_path: Path) -> None:
    schema = schemas()[index]
    for name, content in schema.files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    again = Schema.open(tmp_path)
    assert type(again) is type(schema) and again.target == schema.target
    assert again.files() == schema.files()
    assert again.sizes() == schema.sizes() and again.scaling == schema.scaling
    plain = {field.name for field in fields(schema)} - {"tokenizers", "words"}
    assert all(getattr(again, name) == getattr(schema, name) for name in plain)
    if isinstance(schema, SequenceSchema):
        assert isinstance(again, SequenceSchema) and again.shared == schema.shared


@pytest.mark.parametrize("name", recipes.names())
def test_the_named_set_of_a_recipe_suits_its_system(name: str) -> None:
    """By its record alone: the files of most sets are not on this machine."""
    recipe = recipes.load(name)
    ask = Ask(TASK_RECORDS[recipe.system.task].targets)
    kinds = [kind for name in recipe.system.encodings for kind in encodings.find(name).kinds(ask)]
    assert any(accepts(kind, recipe.data) for kind in kinds)
