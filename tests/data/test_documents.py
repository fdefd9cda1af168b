"""Documents with labels against fasttext's own reading, and against tables written by hand; every refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.data.batching.documents import Documents, LabelLists, cut_blocks, hashes
from canon.data.config import DataConfig
from canon.data.encodings import bags
from canon.data.encodings.bags import BagSchema
from canon.data.read import inputs, labelled
from canon.data.schema import Data, Schema
from canon.errors import CanonError
from canon.systems.words.subwords import hash_word
from tests.reading import check_as, read_as

LINES = """\
__label__good a fine film
__label__bad __label__long a film that goes on and on and on
__label__good\tfine\u00a0acting ,  fine film
the __label__good middle holds a label
__label__bad
__label__bad dull </s> what follows is not read
"""


def documents(path: Path, **settings: Any) -> Data:
    return read_as(
        DataConfig(**{"source": str(path), "valid": 0.0, "test": 0.0, "tokenizer": "split", **settings}), "bags"
    )


def lined(folder: Path, text: str = LINES, name: str = "reviews.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def words_of(data: Data, split: str = "train") -> list[list[str]]:
    column = data.splits[split]["input"]
    assert isinstance(column, Documents)
    decoded = [word.decode() for word in column.distinct.words]
    codes = np.split(column.codes_N, column.offsets[1:-1])
    return [[decoded[code] for code in row] for row in codes]


def labels_of(data: Data, split: str = "train") -> list[list[str]]:
    labels = LabelLists.of(data.splits[split]["target"])
    return [[data.schema.classes[code] for code in labels[row]] for row in range(len(labels))]


def test_lines_are_read_as_fasttext_reads_them(tmp_path: Path) -> None:
    """Words, their counts, labels and the words of each line against fasttext's dictionary and get_line."""
    import fasttext

    path = lined(tmp_path)
    model = fasttext.train_supervised(str(path), dim=2, epoch=1, thread=1, bucket=0, verbose=0)
    data = documents(path)
    assert data.schema.words is not None
    theirs = dict(zip(*model.get_words(include_freq=True), strict=True))
    # What follows a </s> inside a line is a line of its own for fasttext, one without a label that nothing is learned
    # from; canon does not count it.
    extra = ["what", "follows", "is", "not", "read"]
    theirs = {word: int(count) - extra.count(word) for word, count in theirs.items()}
    theirs["</s>"] -= 1
    ours = dict(zip(data.schema.words.words, data.schema.words.counts.tolist(), strict=True))
    assert ours == {word: count for word, count in theirs.items() if count}
    counted = dict(zip(*model.get_labels(include_freq=True), strict=True))
    assert {f"__label__{name}" for name in data.schema.classes} == set(counted)
    assert [counted[f"__label__{name}"] for name in data.schema.classes] == sorted(counted.values(), reverse=True)
    for line, words, labels in zip(LINES.splitlines(), words_of(data), labels_of(data), strict=True):
        reported, own = model.get_line(line)
        assert words == reported and [f"__label__{name}" for name in labels] == own


def test_hashes_are_fasttexts() -> None:
    """By numpy, all words at once, against the FNV-1a of canon.systems.words.subwords, and two known values."""
    words = [b"", b"a", b"film", "naïve".encode(), "北京".encode(), b"x" * 70, b"</s>"]
    assert hashes(words).view(np.uint32).tolist() == [hash_word(word) for word in words]
    assert hashes([b""]).view(np.uint32)[0] == 0x811C9DC5 and hashes([b"a"]).view(np.uint32)[0] == 0xE40C292C
    assert len(hashes([])) == 0


def test_unknown_words_keep_their_hash(tmp_path: Path) -> None:
    """With min_count = 2 rare words have the id −1; their hashes are what they were."""
    path = lined(tmp_path)
    column, whole = (documents(path, min_count=count).splits["train"]["input"] for count in (2, 1))
    assert isinstance(column, Documents) and isinstance(whole, Documents)
    assert (whole.ids >= 0).all() and np.array_equal(column.hashes, whole.hashes)
    counts = np.bincount(whole.ids)
    assert np.array_equal(column.ids == -1, counts[whole.ids] < 2)
    taken = whole.take(np.array([4, 0]))
    assert (
        taken.lengths.tolist() == [1, 4]
        and taken.hashes.tolist() == hashes([b"</s>", b"a", b"fine", b"film", b"</s>"]).tolist()
    )


def test_tables_of_every_kind_give_the_same(tmp_path: Path) -> None:
    """CSV, TSV, JSON lines and Parquet with the same two columns."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [("a fine film", "good"), ("dull, and long", "bad"), ("fine acting", "good"), ("so long", "bad")]
    (tmp_path / "a.csv").write_text("review,mark\n" + "".join(f'"{text}",{label}\n' for text, label in rows))
    (tmp_path / "a.tsv").write_text("mark\treview\n" + "".join(f"{label}\t{text}\n" for text, label in rows))
    lines = [json.dumps({"review": text, "label": label}) for text, label in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    columns = {"review": [text for text, _ in rows], "label": [label for _, label in rows]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    values = [documents(tmp_path / f"a.{ending}") for ending in ("csv", "tsv", "jsonl", "parquet")]
    for data in values:
        assert data.schema.columns == ("review",) and data.schema.target.label in ("mark", "label")
        assert words_of(data) == [[*text.split(), "</s>"] for text, _ in rows]
        assert labels_of(data) == [[label] for _, label in rows]
        assert data.schema.classes == ("bad", "good") and isinstance(data.splits["train"]["target"], np.ndarray)


def test_several_labels_in_a_cell(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\nx y,red|blue\nz,blue\nw,green | red\n")
    data = documents(tmp_path / "a.csv", label_separator="|")
    assert labels_of(data) == [["red", "blue"], ["blue"], ["green", "red"]]
    assert data.schema.classes == ("blue", "red", "green")
    assert isinstance(data.splits["train"]["target"], LabelLists)


def test_labels_are_numbered_by_the_training_split(tmp_path: Path) -> None:
    """By falling frequency there; one that only the test part has is left out of it, and reported."""
    train = lined(tmp_path, "__label__a x\n__label__b y\n__label__b z\n", "set.train")
    test = lined(tmp_path, "__label__a x\n__label__c y\n__label__b __label__c z\n__label__d __label__c x\n", "set.test")
    data = documents(train, test=str(test))
    assert data.schema.classes == ("b", "a")
    target = data.splits["test"]["target"]
    assert isinstance(target, LabelLists) and target.lengths.tolist() == [1, 0, 1, 0]
    assert target.unseen == (("c", 3), ("d", 1))
    reported = (
        "test: labels that the training examples do not have are left out: c (3), d (1); 2 examples have no other"
    )
    assert any(note.startswith(reported) for note in data.notes)


def test_split_is_of_each_class_and_the_vocabulary_of_the_training_split(tmp_path: Path) -> None:
    lines = [f"__label__{'ab'[row % 2]} word{row} common" for row in range(100)]
    data = documents(lined(tmp_path, "\n".join(lines)), valid=0.1, test=0.2)
    sizes = {name: len(columns["input"]) for name, columns in data.splits.items()}
    assert sizes == {"train": 72, "valid": 8, "test": 20}
    for name, columns in data.splits.items():
        assert np.bincount(np.asarray(columns["target"])).tolist() == [sizes[name] // 2] * 2
    assert data.schema.words is not None
    assert set(data.schema.words.words) == {word for row in words_of(data) for word in row}
    column = data.splits["test"]["input"]
    assert isinstance(column, Documents) and (column.ids == -1).sum() == 20


def test_folders_and_endings_of_any_name(tmp_path: Path) -> None:
    """train, valid and test of a folder, and a file whose ending is nobody's."""
    for name in ("cooking.train", "cooking.valid", "cooking.test"):
        lined(tmp_path, f"__label__a {name}\n__label__b other\n", name)
    data = read_as(DataConfig(source=str(tmp_path), tokenizer="split"), "bags")
    assert {name: words_of(data, name)[0][0] for name in data.splits} == {
        "train": "cooking.train",
        "valid": "cooking.valid",
        "test": "cooking.test",
    }


def test_chinese_by_jieba_and_by_spaces(tmp_path: Path) -> None:
    """jieba's own words, one document a line; a text that is cut already; and the note where neither was done."""
    import jieba

    texts = ["我来到北京清华大学", "他来到了网易\n杭研大厦", "小明 硕士毕业于中国科学院计算所"]
    rows = [json.dumps({"text": text, "label": "ab"[i % 2]}) for i, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    data = documents(tmp_path / "a.jsonl", tokenizer="jieba")
    wanted = [[word for word in jieba.cut(text.replace("\n", " ")) if word.strip()] for text in texts]
    assert words_of(data) == [[*words, "</s>"] for words in wanted]
    plain = documents(tmp_path / "a.jsonl")
    assert any('data.tokenizer = "jieba"' in note for note in plain.notes)
    assert not any("jieba" in note for note in data.notes if "vocabulary" not in note)


def test_word_splitter_and_lower_case() -> None:
    """canon's words, as tokenizers.py has them: punctuation apart, 3.14 and don't whole; and fastText's white space."""
    result = b"".join(cut_blocks(["Don't pay 3.14, please!", ""], "word", lowercase=True))
    assert result.split() == [b"don't", b"pay", b"3.14", b",", b"please", b"!", b"</s>", b"</s>"]
    result = b"".join(cut_blocks(["A\0B\u3000C", "x</s>y </s> z"], "split", lowercase=False))
    assert result.split() == [b"A", "B\u3000C".encode(), b"</s>", b"x</s>y", b"</s>"]


def test_schema_is_stored_and_more_data_is_read_by_it(tmp_path: Path) -> None:
    """Evaluation and prediction number words and labels as training did, from a table and from lines."""
    path = tmp_path / "a.csv"
    path.write_text("text,label\na fine film,good\nvery dull,bad\n")
    data = documents(path)
    for name, content in data.schema.files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    schema = Schema.open(tmp_path)
    assert schema.words is not None and data.schema.words is not None
    assert isinstance(schema, BagSchema) and schema.columns == ("text",)
    assert (schema.words.words, schema.classes) == (data.schema.words.words, data.schema.classes)
    config = DataConfig(source=str(path))
    for other in (
        lined(tmp_path, "__label__bad a dull new film\n"),
        lined(tmp_path, "label,text\nbad,a dull new film\n", "b.csv"),
    ):
        columns = labelled(schema, other, config)
        column = columns["input"]
        assert isinstance(column, Documents)
        wanted = [schema.words.index.get(word, -1) for word in ("a", "dull", "new", "film", "</s>")]
        assert column.ids.tolist() == wanted and -1 in wanted
        assert [schema.classes[code] for code in np.asarray(columns["target"])] == ["bad"]
        reported, names = inputs(schema, [str(other), "fine film"], config)
        rows = reported["input"]
        assert isinstance(rows, Documents) and rows.ids[:5].tolist() == wanted
        assert names[1] == "fine film" and rows.lengths.tolist() == [5, 3]


def test_cutting_is_done_once_for_runs_that_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file again is not cut again; a changed one is."""
    calls = []
    monkeypatch.setattr(bags, "numbered", lambda *a: calls.append(a[1]) or _numbered(*a))
    path = lined(tmp_path, "__label__a once upon\n__label__b a time\n")
    first, again = documents(path), documents(path, min_count=1)
    assert calls == ["split"] and words_of(first) == words_of(again)
    lined(tmp_path, "__label__a twice upon\n__label__b a time\n")
    assert words_of(documents(path))[0][0] == "twice" and len(calls) == 2


_numbered = bags.numbered


def test_check_counts_labels_and_suits_the_classifier(tmp_path: Path) -> None:
    report = check_as(DataConfig(source=str(lined(tmp_path)), valid=0.0, test=0.0))
    assert report.suits == ["fasttext-classifier"]
    assert report.classes["train"] == {"good": 3, "bad": 3, "long": 1} and report.splits == {"train": 6}
    assert "1 training texts are empty." in report.warnings
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"some words {i},{i % 2}\n" for i in range(40)))
    assert "fasttext-classifier" in check_as(DataConfig(source=str(tmp_path / "a.csv"))).suits


@pytest.mark.parametrize(
    ("name", "content", "settings", "sentence"),
    [
        ("a.txt", "no label here\n", {}, "reads texts with labels, but"),
        ("a.txt", "__label__a x\n\nno label\n", {}, "a.txt, line 3: there is no label"),
        ("a.txt", "__label__a x\n__label__ y\n", {}, "a.txt, line 2: __label__ has no name after it"),
        (
            "a.txt",
            "__label__a x\n__label__a y\n",
            {},
            'every example has the label "a"; at least two labels are needed.',
        ),
        ("a.txt", "__label__a\n__label__b\n", {}, "every text is empty."),
        ("a.txt", "__label__a x\n__label__b y\n", {"min_count": 2}, "no word comes 2 times"),
        ("a.txt", "__label__a x\n__label__b y\n", {"tokenizer": "bpe"}, 'No kind of tokenizer for documents "bpe"'),
        ("a.txt", "__label__a x\n", {"valid": "gone.txt"}, 'There is no file or folder "gone.txt"'),
        ("a.csv", "text\nfine\n", {}, "has no column besides its text that could be the label."),
        ("a.csv", "text,label\nfine,good\ndull,\n", {}, 'a.csv: every example has the label "good"'),
        ("a.csv", "text,label\nfine,good\ndull,bad\n", {"label": "stars"}, 'No column "stars"'.lower()),
        ("a.csv", "text,label\n" + "".join(f"t{i},l{i}\n" for i in range(30)), {}, "too many for labels"),
    ],
)
def test_every_mistake_is_a_sentence(
    name: str, content: str, settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(CanonError) as caught:
        documents(lined(tmp_path, content, name), **settings)
    assert sentence.lower() in str(caught.value).lower() and "\n" not in str(caught.value)


def test_other_kinds_of_data_are_refused() -> None:
    """A set of images, by name; and a table under another ending, which data.format makes one."""
    with pytest.raises(CanonError, match="This system reads texts with labels, but digits is a set of images"):
        read_as(DataConfig(source="digits"), "bags")
    Path("a.data").write_text("text,label\nfine,good\ndull,bad\n")
    data = documents(Path("a.data"), format="table")
    assert words_of(data) == [["fine", "</s>"], ["dull", "</s>"]]


def test_empty_texts_are_reported(tmp_path: Path) -> None:
    data = documents(lined(tmp_path))
    assert "1 of 6 texts are empty; their only word is </s>." in data.notes
