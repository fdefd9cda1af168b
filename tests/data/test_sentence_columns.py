"""Which columns of a stranger's table of sentences are read, against those a person would name."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from canon.data.config import DataConfig
from canon.data.encodings.texts_inputs import read_texts
from canon.data.kinds.sentences import SENTENCES, SentenceSource
from canon.errors import CanonError

A = [f"第{k}个问题怎么办呢" for k in range(20)]
B = [f"打开第{k}页就可以看到" for k in range(20)]
SCORES = [str(k % 5) for k in range(20)]
FRACTIONS = [f"{k / 4:.2f}" for k in range(20)]
NAMED = [("same", "other")[k % 2] for k in range(20)]
CODES = [f"F{k:03d}" for k in range(20)]


def source(path: Path, **columns: Sequence[str]) -> SentenceSource:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    opened = SENTENCES.source(DataConfig(source=str(path)))
    assert isinstance(opened, SentenceSource)
    return opened


def test_codes_of_rows_are_no_texts(tmp_path: Path) -> None:
    opened = source(tmp_path / "faq.csv", 编号=CODES, 问题=A, 答案=B)
    assert (opened.columns, opened.label) == (("问题", "答案"), "")
    assert "编号 is not read" in opened.notes[-1]
    assert source(tmp_path / "texts.csv", 链接=[f"http://a.b/{k}" for k in range(20)], 文本=A).columns == ("文本",)
    words = [f"w{'x' * k}" for k in range(20)]
    assert source(tmp_path / "words.csv", word=words, meaning=B).columns == ("word", "meaning")


@pytest.mark.parametrize("first, second", [("句子1", "句子2"), ("句子一", "句子二"), ("a", "b"), ("text_a", "text_b")])
@pytest.mark.parametrize("judged", [SCORES, FRACTIONS, NAMED])
def test_what_stands_beside_two_texts_of_one_name_judges_them(
    first: str, second: str, judged: list[str], tmp_path: Path
) -> None:
    opened = source(tmp_path / "pairs.csv", **{"编号": CODES, first: A, second: B, "关系": judged})
    rows = opened.parts["train"]
    assert (opened.columns, opened.label) == ((first, second), "关系")
    assert rows.labels == judged if judged is NAMED else rows.scores.tolist() == [float(score) for score in judged]


def test_what_is_said_of_one_text_does_not_judge_a_pair(tmp_path: Path) -> None:
    for name in ("category", "stars", "views"):
        opened = source(tmp_path / f"{name}.csv", question=A, answer=B, **{name: SCORES})
        assert (opened.columns, opened.label) == (("question", "answer"), "")
        assert f"{name} is not read" in opened.notes[-1]
    for names in (("question", "answer", "label"), ("前提", "假设", "标签")):
        judged = source(tmp_path / "judged.csv", **dict(zip(names, (A, B, SCORES), strict=True)))
        assert judged.label == names[2]


def test_what_numbers_rows_does_not_judge_them(tmp_path: Path) -> None:
    for first, second, number in (("query", "passage", "year"), ("s1", "s2", "query_id"), ("句子1", "句子2", "组编号")):
        opened = source(tmp_path / "numbered.csv", **{number: SCORES, first: A, second: B})
        assert (opened.columns, opened.label) == ((first, second), "")


def test_another_part_is_judged_by_the_column_of_training(tmp_path: Path) -> None:
    """Where that is missing, nothing is taken in its place."""
    folder = tmp_path / "parts"
    folder.mkdir()
    source(folder / "train.csv", s1=A, s2=B, human=SCORES)
    source(folder / "valid.csv", s1=A, s2=B, human=SCORES, genre=NAMED)
    source(folder / "test.csv", s1=A, s2=B, other=SCORES)
    opened = SENTENCES.source(DataConfig(source=str(folder)))
    assert opened.label == "human" and opened.parts["test"].scores.tolist() == [float(score) for score in SCORES]
    assert 'test.csv has no column "human"' in " ".join(opened.notes)


def test_predictions_read_the_columns_of_training(tmp_path: Path) -> None:
    """Whatever would be chosen of a table by itself."""
    source(tmp_path / "t.csv", question=A, answer=B, remark=[f"看过第{k}次以后才明白" for k in range(20)])
    schema: Any = SimpleNamespace(columns=("remark", "question"))
    rows, names = read_texts(schema, [str(tmp_path / "t.csv")], DataConfig(), False)
    assert rows.sentences[3] == ("看过第3次以后才明白", A[3]) and names[3].endswith("line 5")
    with pytest.raises(CanonError, match="The input: a text is empty"):
        read_texts(schema, [""], DataConfig(), False)
