"""Files of labelled texts as they are published: what is read, what is guessed, and the sentence for each mistake."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from canon.data.config import DataConfig
from canon.data.encodings import Ask
from canon.data.encodings.framed import FRAMED, Backbone
from canon.data.formats.rows import ChoiceRows, Rows, SpanRows, TagRows, TextRows
from canon.data.kinds import open_for
from canon.data.kinds.examples import ExampleSource
from canon.data.read import read
from canon.data.schema import Data
from canon.data.targets import Choice, Class, Number, Span, Tags, Target
from canon.errors import CanonError
from tests.reading import check_as, read_as

EVERY = (Class, Number, Tags, Span, Choice)


def opened(path: Path | str, **settings: object) -> ExampleSource:
    source = open_for(FRAMED.reads, DataConfig(source=str(path), **settings))
    assert isinstance(source, ExampleSource)
    return source


def train(path: Path | str, **settings: object) -> Rows:
    return opened(path, **settings).parts["train"]


def read_all(path: Path | str, *targets: type[Target], **settings: object) -> Data:
    """As fine-tuning reads it, all of it to train on; `targets` are those that are asked for."""
    config = DataConfig(**{"source": str(path), "valid": 0.0, "test": 0.0, **settings})
    return read(config, [FRAMED], Ask(targets or EVERY, "finetune", start=Backbone("net", "bert", 64, kind="word")))


def target(path: Path | str, *targets: type[Target]) -> type[Target]:
    return type(read_all(path, *targets).schema.target)


def write(name: str, *lines: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# Tables


GLUE = {
    "SST-2": (["sentence\tlabel", "a fine film \t1", "dull\t0"], Class, ("sentence",), "label"),
    "MRPC": (
        ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\tHe said "yes.\tYes, he said', "0\t9\t5\tA\tB"],
        Class,
        ("#1 String", "#2 String"),
        "Quality",
    ),
    "QNLI": (
        ["index\tquestion\tsentence\tlabel", "0\tWho?\tHe.\tentailment", "1\tA?\tB.\tnot_entailment"],
        Class,
        ("question", "sentence"),
        "label",
    ),
    "QQP": (
        ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "0\t1\t2\tA?\tB?\t0", "1\t3\t4\tC?\tD?\t1"],
        Class,
        ("question1", "question2"),
        "is_duplicate",
    ),
    "MNLI": (
        [
            "index\tpromptID\tgenre\tsentence1\tsentence2\tlabel1\tgold_label",
            "0\t3\tfiction\tA\tB\tneutral\tneutral",
            "1\t4\tnews\tC\tD\tneutral\tentailment",
        ],
        Class,
        ("sentence1", "sentence2"),
        "gold_label",
    ),
    "STS-B": (
        ["index\tgenre\tsentence1\tsentence2\tscore", "0\tnews\tA\tB\t5.000", "1\tnews\tC\tD\t3.800"],
        Number,
        ("sentence1", "sentence2"),
        "score",
    ),
    "CoLA": (["gj04\t1\t\tOne more line.", "gj04\t0\t*\tOne line more more."], Class, ("sentence",), "label"),
    "tnews": (["新闻标题一\tnews_edu", "第二个标题\tnews_story", "第三个\tnews_edu"], Class, ("text",), "label"),
}


@pytest.mark.parametrize("name", GLUE)
def test_glue_is_read_as_it_is(name: str) -> None:
    """The kind, the columns of text and the label of each task's own files, without a setting."""
    rows, kind, texts, label = GLUE[name]
    path = write("train.tsv", *rows)
    result = opened(path)
    assert (target(path), result.columns, result.label) == (kind, texts, label)
    assert len(result.parts["train"]) == len(rows) - (name not in ("CoLA", "tnews"))
    assert result.monitor == ("matthews" if name == "CoLA" else "")
    assert any(note.endswith("data.features and data.label choose others.") for note in result.notes)


def test_quotes_in_tabs_are_letters() -> None:
    rows = train(write("train.tsv", *GLUE["MRPC"][0]))
    assert isinstance(rows, TextRows)
    assert rows.first[0] == 'He said "yes.' and rows.second is not None and rows.second[0] == "Yes, he said"


def test_a_test_part_without_labels_is_replaced_by_dev() -> None:
    """GLUE keeps the labels of its test parts: dev is then what is tested on."""
    for split, label in (("train", 1), ("dev", 1), ("test", 0)):
        header = "sentence\tlabel" if label else "index\tsentence"
        write(f"SST-2/{split}.tsv", header, "good\t1" if label else "0\tgood", "bad\t0" if label else "1\tbad")
    result = opened("SST-2")
    assert set(result.parts) == {"train", "test"}
    assert result.parts["test"].path.endswith("dev.tsv")
    assert "test.tsv has no labels: dev.tsv is the test set." in result.notes


def test_csv_and_json_lines_say_the_same() -> None:
    csv = write("a.csv", "text,stars", '"Good, very",5', "Bad,1", "Good,5")
    objects = [{"text": "Good, very", "stars": 5}, {"text": "Bad", "stars": 1}, {"text": "Good", "stars": 5}]
    lines = write("a.jsonl", *map(json.dumps, objects))
    for path in (csv, lines):
        rows = train(path)
        assert isinstance(rows, TextRows) and target(path) is Class
        assert list(rows.first) == ["Good, very", "Bad", "Good"] and rows.single() == ["5", "1", "5"]
    assert target("a.csv", Number) is Number


def test_whole_numbers_of_many_values_are_numbers() -> None:
    path = write("prices.csv", "text,price", *(f"item {price},{price}" for price in range(30)))
    assert target(path) is Number


def test_columns_may_be_named() -> None:
    path = write("a.csv", "title,body,mark", "t,long text here,1", "u,another text,0")
    assert opened(path, features=("title",), label="mark").columns == ("title",)
    assert opened(path, features=("title", "body"), label="mark").columns == ("title", "body")


# Choices


SWAG = ["video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"]
SWAG += ["v1,1,He sits. He,He sits.,He,gold,runs.,eats.,sings.,falls.,2"]


def test_swag() -> None:
    """First text sent1, second sent2 with each ending (Devlin et al. 2019, section 4.4)."""
    rows = train(write("train.csv", *SWAG))
    assert isinstance(rows, ChoiceRows)
    assert rows.questions == ["He sits."] and rows.answers == [2]
    assert rows.choices == [("He runs.", "He eats.", "He sings.", "He falls.")]


ARC = {
    "id": "1",
    "question": {"stem": "What is hot?", "choices": [{"text": "ice", "label": "A"}, {"text": "fire", "label": "B"}]},
    "answerKey": "B",
}
FORMS = {
    "nested": ARC,
    "numbers": {
        **ARC,
        "question": {
            "stem": "What is hot?",
            "choices": [{"text": "ice", "label": "1"}, {"text": "fire", "label": "2"}],
        },
        "answerKey": "2",
    },
    "columns": {
        "question_stem": "What is hot?",
        "choices": {"text": ["ice", "fire"], "label": ["A", "B"]},
        "answerKey": "B",
    },
    "plain": {"question": "What is hot?", "choices": ["ice", "fire"], "answer": 1},
    "by text": {"question": "What is hot?", "options": ["ice", "fire"], "answer": "fire"},
    "endings": {"ctx": "What is hot?", "endings": ["ice", "fire"], "label": "1"},
}


@pytest.mark.parametrize("form", FORMS)
def test_choices_in_json_lines(form: str) -> None:
    rows = train(write("train.jsonl", json.dumps(FORMS[form])))
    assert isinstance(rows, ChoiceRows)
    assert rows.questions == ["What is hot?"] and rows.choices == [("ice", "fire")] and rows.answers == [1]


def test_openbookqa() -> None:
    header = "ID\tQuestion Stem\tChoices\tComplete Question\tAnswer Key"
    line = "7-980\tThe sun makes\t(A) ice (B) snow (C) plants grow (D) rain\tThe sun makes (A) ice\tC"
    path = write("train.tsv", header, line)
    rows = train(path)
    assert isinstance(rows, ChoiceRows) and target(path) is Choice
    assert rows.choices == [("ice", "snow", "plants grow", "rain")] and rows.answers == [2]


@pytest.mark.parametrize(("labels", "right"), [(("0", "1"), [0, 1]), (("1", "2"), [0, 1])])
def test_numbers_of_choices_begin_where_the_answers_do(labels: tuple[str, str], right: list[int]) -> None:
    """COPA's choice1 and choice2 have the labels 0 and 1, others 1 and 2."""
    lines = [f"Why?,because,not so,{label}" for label in labels]
    rows = train(write("a.csv", "premise,choice1,choice2,label", *lines))
    assert isinstance(rows, ChoiceRows) and rows.answers == right


# CoNLL


def test_conll_and_its_columns() -> None:
    lines = ["-DOCSTART- -X- O O", "", "EU NNP I-NP B-ORG", "rejects VBZ I-VP O", "", "Peter NNP I-NP B-PER"]
    rows = train(write("train.conll", *lines))
    assert isinstance(rows, TagRows)
    assert rows.words == [["EU", "rejects"], ["Peter"]] and rows.tags == [["B-ORG", "O"], ["B-PER"]]
    second = train("train.conll", label="2")
    assert isinstance(second, TagRows) and second.tags == [["NNP", "VBZ"], ["NNP"]]


UD = [
    "# sent_id = 1",
    "1-2\tcannot\t_\t_\t_\t_\t_\t_\t_\t_",
    "1\tcan\tcan\tAUX\tMD\t_\t0\troot\t_\t_",
    "2\tnot\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_",
    "2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_",
    "",
    "1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_",
]


def test_universal_dependencies_in_a_folder() -> None:
    """Words of several tokens and empty nodes are no words; splits by the files' names, compressed or not."""
    for split in ("train", "dev", "test"):
        write(f"ud/en_x-ud-{split}.conllu", *UD)
    text = Path("ud/en_x-ud-test.conllu")
    Path(f"{text}.xz").write_bytes(lzma.compress(text.read_bytes()))
    text.unlink()
    result = opened("ud")
    assert set(result.parts) == {"train", "valid", "test"}
    rows = result.parts["test"]
    assert isinstance(rows, TagRows) and rows.words == [["can", "not"], ["Yes"]]
    assert rows.tags == [["AUX", "PART"], ["INTJ"]]
    xpos = train("ud", label="xpos")
    assert isinstance(xpos, TagRows) and xpos.tags == [["MD", "RB"], ["UH"]]


def test_characters_with_digits() -> None:
    """Weibo's: the digit tells the character's place in its word, and is no part of the text."""
    result = opened(write("weiboNER.train", "科0\tB-ORG.NAM", "技1\tI-ORG.NAM", "", "好0\tO"))
    rows = result.parts["train"]
    assert isinstance(rows, TagRows) and rows.words == [["科", "技"], ["好"]]
    assert any("digit" in note for note in result.notes)


# SQuAD


CONTEXT = "Normandy is a region of France, named after the Normans."
QUESTIONS = [
    {
        "id": "q1",
        "question": "Where is Normandy?",
        "answers": [{"text": "France", "answer_start": 24}],
        "is_impossible": False,
    },
    {"id": "q2", "question": "Where is Mars?", "answers": [], "is_impossible": True},
]


def squad(questions: list[dict] = QUESTIONS, name: str = "squad.json") -> Path:
    data = [{"title": "Normandy", "paragraphs": [{"context": CONTEXT, "qas": questions}]}]
    return write(name, json.dumps({"version": "v2.0", "data": data}))


def test_squad_and_its_lines_say_the_same() -> None:
    whole = train(squad())
    lines = [{"context": CONTEXT, **row} for row in QUESTIONS]
    lines[0] = {**lines[0], "answers": {"text": ["France"], "answer_start": [24]}}
    by_line = train(write("squad.jsonl", *map(json.dumps, lines)))
    for rows in (whole, by_line):
        assert isinstance(rows, SpanRows) and rows.answers is not None
        assert rows.keys == ["q1", "q2"] and rows.documents == [CONTEXT] * 2
        assert [[answer.text for answer in own] for own in rows.answers] == [["France"], []]


def test_indented_json_is_squad_too() -> None:
    data = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": QUESTIONS}]}]}
    Path("pretty.json").write_text(json.dumps(data, indent=2))
    assert target("pretty.json") is Span


# Mistakes


@pytest.mark.parametrize(
    ("name", "lines", "sentence"),
    [
        ("a.csv", ["text,label", "good,1"], 'a.csv: every text has the label "1"; at least two classes are needed.'),
        ("b.csv", ["text,label", ",1", " ,0"], "b.csv: every text is empty."),
        ("c.csv", ["text", "good", "bad"], "c.csv has no column besides its text that could be the label."),
        ("d.conllu", [*UD, "2\tgo\tVERB"], "d.conllu, line 8: 3 columns, but the lines before it have 10."),
        ("e.conll", ["a O", "b"], "e.conll, line 2: 1 column, but the lines before it have 2."),
        ("f.json", ['{"data": [{"paragraphs": [{}]}]}'], "f.json is not SQuAD's JSON (it has no 'qas'); SQuAD has"),
        ("g.jsonl", [json.dumps({**ARC, "answerKey": "E"})], 'g.jsonl, line 1: the answer "E" is not one of A, B.'),
        ("h.csv", [*SWAG, "v,1,a,b,c,d,w,x,y,z,9"], 'h.csv, line 3: the answer "9" is not one of 0, 1, 2, 3.'),
        (
            "i.unknown",
            ["\0"],
            'i.unknown: the ending ".unknown" is unknown; set data.format to one of '
            "squad, choices, letor, interactions, svmlight, libfm, libffm, criteo, conll, sentences, "
            "fasttext, images, idx, cifar, pairs, table, text.",
        ),
        ("j.csv", [*SWAG, "v,1,a,,c,d,w,x,,z,1"], "j.csv, line 3: the question or a choice is empty."),
    ],
)
def test_bad_files_are_one_sentence(name: str, lines: list[str], sentence: str) -> None:
    write(name, *lines)
    with pytest.raises(CanonError) as mistake:
        read_all(name)
    assert str(mistake.value).startswith(sentence)
    assert "\n" not in str(mistake.value)


def test_an_answer_that_does_not_stand_at_its_offset() -> None:
    wrong = [{**QUESTIONS[0], "answers": [{"text": "France", "answer_start": 25}]}]
    with pytest.raises(CanonError) as mistake:
        opened(squad(wrong))
    assert str(mistake.value) == (
        'squad.json, question "q1": the answer "France" is not at character 25 of its context, where "rance," '
        "is; answer_start counts characters from 0."
    )


def test_empty_texts_are_left_out_and_reported() -> None:
    data = read_all(write("a.csv", "text,label", "good,1", ",1", "bad,0"))
    assert len(data.splits["train"]["input"]) == 2
    assert "a.csv: 1 of 3 texts are empty and left out (the first: line 3)." in data.notes


def test_a_target_that_the_data_does_not_have() -> None:
    path = write("a.csv", "text,label", "good,1", "bad,0")
    for wanted, reads in ((Span, "questions on texts"), (Choice, "questions with choices")):
        with pytest.raises(CanonError, match=rf"finetune reads {reads}, but a\.csv is a table\."):
            read_all(path, wanted)
    with pytest.raises(CanonError, match=r"finetune reads texts with labels, but squad\.json is a set of questions on"):
        read_all(squad(), Class)


def test_a_table_of_choices_may_be_asked_for_a_class() -> None:
    path = write("train.csv", *SWAG, SWAG[1].replace(",2", ",1"))
    assert target(path) is Choice and target(path, Class) is Class


# What check reports


def test_check_counts_tags_questions_and_choices() -> None:
    """Examples, tags and answers of each format, and that fine-tuning is what they suit."""

    write("train.conll", "a X", "b Y", "", "c X")
    whole = {"valid": 0.0, "test": 0.0}
    tags = check_as(DataConfig(source="train.conll", **whole))
    assert tags.splits == {"train": 2} and tags.classes["train"] == {"X": 2, "Y": 1} and tags.suits == ["finetune"]
    questions = check_as(DataConfig(source=str(squad()), **whole))
    assert "train: 1 of 2 questions have an answer." in questions.notes
    assert questions.suits == ["finetune"]  # one question with an answer is no pair to compare with another
    one_article = check_as(DataConfig(source=str(squad())))
    assert one_article.suits == [] and "has one article, so none can be held out" in one_article.warnings[0]
    choices = check_as(DataConfig(source=str(write("c.jsonl", *[json.dumps(ARC)] * 3)), **whole))
    assert choices.classes["train"] == {"2 choices": 3} and "  suits       finetune" in choices.render()
    path = write("a.csv", "text,label", *(f"film {row} is so so,{row % 2}" for row in range(20)))
    table = check_as(DataConfig(source=str(path)))
    assert "finetune" in table.suits


def test_other_systems_say_what_these_are() -> None:
    with pytest.raises(CanonError, match=r"lstm reads running text, but squad is a set of questions on texts\."):
        read_as(DataConfig(source="squad"), "windows", system="lstm")
