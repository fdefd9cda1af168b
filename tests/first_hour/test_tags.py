"""A stranger's tagged sentences: every form of tags, any column, characters. Entities are compared with those marked by
hand, and a short training with the most frequent tag of each word."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from canon import metrics
from canon.data.formats.conll import has_tags, read_conll
from canon.data.text.tags import is_entities, scheme
from canon.errors import CanonError
from tests.conftest import Outcome

Canon = Callable[..., Outcome]
Sentence = list[tuple[str, str]]
PEOPLE, PLACES = ["anna", "bob", "carol", "dave", "erin", "frank"], ["paris", "rome", "oslo", "cairo", "lima", "quito"]
VERBS = ["visits", "likes", "leaves", "saw", "remembers"]

# The forms of one and the same entities: PER of one word, LOC of three, LOC of two right after another.
WORDS = ["anna", "saw", "new", "old", "rome", "upper", "lima", "today"]
SPANS = [("PER", 0, 0), ("LOC", 2, 4), ("LOC", 5, 6)]
FORMS = {
    "BIO": ["B-PER", "O", "B-LOC", "I-LOC", "I-LOC", "B-LOC", "I-LOC", "O"],
    "IOB1": ["I-PER", "O", "I-LOC", "I-LOC", "I-LOC", "B-LOC", "I-LOC", "O"],
    "BIOES": ["S-PER", "O", "B-LOC", "I-LOC", "E-LOC", "B-LOC", "E-LOC", "O"],
    "BILOU": ["U-PER", "O", "B-LOC", "I-LOC", "L-LOC", "B-LOC", "L-LOC", "O"],
    "BMES": ["S-PER", "O", "B-LOC", "M-LOC", "E-LOC", "B-LOC", "E-LOC", "O"],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_entities(form: str) -> None:
    tags = FORMS[form]
    assert scheme([tags]) == form and is_entities(set(tags))
    assert metrics.entities(tags) == SPANS
    scores = metrics.entity_scores([tags], [[*tags[:5], "O", *tags[6:]]])
    assert scores.micro.support == 3 and scores.micro.recall == pytest.approx(2 / 3)
    assert metrics.entity_scores([tags], [tags]).micro.f1 == 1.0


@pytest.mark.parametrize(
    ("tags", "form"),
    [
        (["B", "M", "E", "S", "S"], "BMES"),  # words of Chinese
        (["B", "I", "O"], "BIO"),
        (["NN", "VB", "DT"], ""),
        (["O", "O"], ""),
        (["B-X", "NN"], ""),
        (["B", "C"], ""),
    ],
)
def test_bare_letters_and_other_tags(tags: list[str], form: str) -> None:
    assert scheme([tags]) == form


@cache
def sentences(form: str, count: int, seed: int) -> tuple[Sentence, ...]:
    draw = random.Random(seed)
    place = {"BIO": ("B", "I", "I"), "IOB1": ("I", "I", "I"), "BILOU": ("B", "I", "L"), "BMES": ("B", "M", "E")}
    begin, inside, end = place.get(form, ("B", "I", "E"))
    single = {"BIO": "B", "IOB1": "I", "BILOU": "U"}.get(form, "S")
    rows = []
    for _ in range(count):
        person = (draw.choice(PEOPLE), f"{single}-PER")
        where = [("new", f"{begin}-LOC"), ("old", f"{inside}-LOC"), (draw.choice(PLACES), f"{end}-LOC")]
        rows.append([person, (draw.choice(VERBS), "O"), *where])
    return tuple(rows)


def write(name: str, rows: Sequence[Sentence], between: str = " ") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join("\n".join(between.join(cells) for cells in row) for row in rows) + "\n"
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return path


LEARN = ("--set", "optimizer.lr=0.01", "--set", "train.epochs=12", "--set", "data.tokenizer=word", "--quiet")


@pytest.mark.parametrize(
    ("form", "names", "between"),
    [
        ("BIO", ("d/social17train.conll.xz", "d/emerging.dev.conll", "d/emerging.test.conll"), "\t"),
        ("IOB1", ("d/eng.train", "d/eng.testa", "d/eng.testb"), " "),
        ("BIOES", ("d/train.txt", "d/dev.txt", "d/test.txt"), " "),
        ("BILOU", ("d/my-train.tsv", "d/my-valid.tsv", "d/my-test.tsv"), "\t"),
        ("BMES", ("d/train.char.bmes.xz", "d/dev.char.bmes", "d/test.char.bmes"), " "),
    ],
)
def test_entities_are_learned_in_every_form(form: str, names: tuple[str, str, str], between: str, canon: Canon) -> None:
    for seed, (name, count) in enumerate(zip(names, (300, 20, 40), strict=True)):
        write(name, sentences(form, count, seed), between)
    Path("d/README.md").write_text("About these sentences.\n")
    Path("d/labels.txt").write_text("PER\nLOC\n")
    checked = canon("check", "d")
    assert checked.code == 0, checked.err
    sentence = f"The tags are entities in {form} form, scored by the F1 of whole entities."
    assert sentence in checked.out and "300 train, 20 valid, 40 test" in checked.out
    assert "Ignored in d: README.md, labels.txt." in checked.out and "suits       finetune" in checked.out
    trained = canon("train", "finetune:tiny", "--data", "d", "--out", "run", *LEARN)
    assert trained.code == 0, trained.err
    assert any(sentence in line for line in Path("run/log.txt").read_text().splitlines())
    scores = json.loads(Path("run/result.json").read_text())["scores"]["test"]
    # The most frequent tag of each word: all words of the test part are known.
    assert scores["entity_f1"] >= _most_frequent(form) - 0.1


def _most_frequent(form: str) -> float:
    """Entity F1 of tagging each word as training does most often."""
    seen: dict[str, list[str]] = {}
    for sentence in sentences(form, 300, 0):
        for word, tag in sentence:
            seen.setdefault(word, []).append(tag)
    test = sentences(form, 40, 2)
    guessed = [[max(seen.get(word, ["O"]), key=seen[word].count) for word, _ in row] for row in test]
    return metrics.entity_scores([[tag for _, tag in row] for row in test], guessed).micro.f1


# Columns


def test_chinese_characters_one_a_line(canon: Canon) -> None:
    """In BMES, with a space among the characters; predict gives back text without spaces."""
    names = ("哈尔滨", "石家庄", "连云港")
    rows = [[("我", "O"), *zip(name, ("B-GPE", "M-GPE", "E-GPE"), strict=True)] for name in names] * 30
    write("train.char.bmes", [*rows, [("好", "O"), (" ", "O"), ("的", "O")]])
    read, notes = read_conll(Path("train.char.bmes"))
    assert list(read.words[-1]) == ["好", " ", "的"] and len(read) == 91
    assert any("BMES" in note for note in notes)
    checked = canon("check", "train.char.bmes")
    assert checked.code == 0 and "suits       finetune" in checked.out
    quick = ("--set", "train.steps=2", "--quiet")
    assert canon("train", "finetune:tiny", "--data", "train.char.bmes", "--out", "run", *quick).code == 0


FOUR = [[("EU", "NNP", "B-NP", "B-ORG"), ("rejects", "VBZ", "B-VP", "O")], [("Peter", "NNP", "B-NP", "B-PER")]]


@pytest.mark.parametrize(
    ("header", "label", "features", "words", "tags"),
    [
        ("", "", (), ["EU", "rejects"], ["B-ORG", "O"]),
        ("", "2", (), ["EU", "rejects"], ["NNP", "VBZ"]),
        ("", "3", ("1",), ["EU", "rejects"], ["B-NP", "B-VP"]),
        ("Word POS Chunk Tag", "chunk", (), ["EU", "rejects"], ["B-NP", "B-VP"]),
        ("Word POS Chunk Tag", "", (), ["EU", "rejects"], ["B-ORG", "O"]),
        ("# global.columns = FORM UPOS CHUNK NER", "upos", ("form",), ["EU", "rejects"], ["NNP", "VBZ"]),
        ("", "1", ("2",), ["NNP", "VBZ"], ["EU", "rejects"]),
    ],
)
def test_any_column_by_number_or_name(
    header: str, label: str, features: tuple[str, ...], words: list[str], tags: list[str]
) -> None:
    path = write("train.conll", FOUR)  # type: ignore[arg-type]
    path.write_text((header + "\n" if header else "") + path.read_text())
    rows, notes = read_conll(path, label=label, features=features)
    assert rows.tags is not None
    assert (rows.words[0], rows.tags[0]) == (words, tags) and len(rows) == 2
    assert notes[0].startswith("The words are column") and notes[0].endswith("choose others.")


def test_a_column_by_its_number_on_the_command_line(canon: Canon) -> None:
    write("train.conll", [[*FOUR[0], *FOUR[1]]] * 30)  # type: ignore[list-item]
    checked = canon("check", "train.conll", "--set", "data.label=2")
    assert checked.code == 0 and "The words are column 1, the tags are column 2" in checked.out
    assert "NNP 48, VBZ 24" in checked.out
    named = canon("check", "train.conll", "--set", "data.label=pos")
    assert named.code == 2 and "data.label must be the number of a column, 1 to 4" in named.err


def test_the_second_column_has_the_words_where_the_first_counts_them() -> None:
    rows = [[("1", "EU", "B-ORG"), ("2", "left", "O")], [("1", "Peter", "B-PER"), ("2", "too", "O")]]
    read, notes = read_conll(write("t.conll", rows, "\t"))  # type: ignore[arg-type]
    assert read.words == [["EU", "left"], ["Peter", "too"]] and "The words are column 2" in notes[0]


def test_a_hash_may_be_a_word() -> None:
    """Of social media; a comment has another number of columns."""
    path = Path("t.conll")
    path.write_text("# about this file\n#win O\nAnna B-PER\n\n# O\nBob B-PER\n")
    read, _ = read_conll(path)
    assert read.words == [["#win", "Anna"], ["#", "Bob"]]


@pytest.mark.parametrize(
    ("text", "tagged"),
    [
        ("EU B-ORG\nleft O\n\nPeter B-PER\n", True),
        ("the DT\ncat NN\nsat VB\n\na DT\ndog NN\nran VB\n", True),
        ("the cat\nsat down\n\nmy dog\nran off\n", False),  # two words a line
        ("one two\nthree four\n", False),
        ("good film\tpositive\nbad film\tnegative\n\nfine film\tpositive\n", False),  # texts with labels
        ("A poem of lines.\n\nNot of tags.\n", False),
    ],
)
def test_which_texts_have_tags(text: str, tagged: bool) -> None:
    Path("t.txt").write_text(text)
    assert has_tags(Path("t.txt")) == tagged


def test_ragged_columns_are_one_sentence() -> None:
    Path("t.conll").write_text("EU B-ORG\nleft O\n\nPeter PER B-PER\n")
    with pytest.raises(CanonError, match=r"^t\.conll, line 4: 3 columns, but the lines before it have 2\.$"):
        read_conll(Path("t.conll"))
