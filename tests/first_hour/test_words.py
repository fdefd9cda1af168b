"""Word vectors of a text of one's own, with no settings: words, not raw tokens; Chinese in words."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib import util
from pathlib import Path
from pydoc_data import topics
from typing import Any

import pytest

from canon.data.corpus.word_counts import least_count
from canon.data.text.cutting import choose_cutting

CHINESE = "我们昨天来到北京大学参观。\n他们明天离开上海，前往北京学习。\n学生在图书馆学习中国历史。\n" * 60


def decided(run: str) -> dict[str, Any]:
    return tomllib.loads((Path(run) / "recipe.toml").read_text())["data"]


def words_of(run: str) -> dict[str, int]:
    lines = (Path(run) / "vocab" / "words.tsv").read_text().splitlines()[1:]
    return {word: int(count) for word, count in (line.rsplit("\t", 1) for line in lines)}


@pytest.mark.parametrize("system", ["word2vec", "glove"])
def test_words_are_split_off_punctuation_in_lower_case(system: str, canon: Callable[..., Any]) -> None:
    Path("mytext.txt").write_text("\n".join(topics.topics[name] for name in sorted(topics.topics)[:40]))
    done = canon("train", system, "--data", "mytext.txt", "--out", "run", "--set", "train.epochs=1")
    assert done.code == 0, done.err
    assert "Words are split off punctuation, in lower case" in done.err
    kept = words_of("run")
    assert all(word == word.lower() for word in kept)
    assert not any(word[-1] in '.,;:!?)"' for word in kept if word[0].isalpha())
    total = sum(kept.values())
    assert min(kept.values()) >= 2 and 20_000 < total < 100_000
    assert "seen 2 times or more, by the text's size: data.min_count" in done.err
    assert {key: decided("run")[key] for key in ("tokenizer", "lowercase", "min_count")} == {
        "tokenizer": "word",
        "lowercase": True,
        "min_count": 2,
    }
    printed = canon("neighbors", "run", "Class".lower(), "--top", "3")
    assert printed.code == 0 and "class" in printed.out


def test_chinese_is_cut_by_jieba(canon: Callable[..., Any]) -> None:
    Path("mytext.txt").write_text(CHINESE)
    done = canon("train", "fasttext:tiny", "--data", "mytext.txt", "--out", "run", "--set", "train.epochs=1")
    assert done.code == 0, done.err
    assert "The text is Chinese: jieba cuts it into words" in done.err
    assert {"北京", "学习", "图书馆"} <= words_of("run").keys()
    again = canon("evaluate", "run", "--data", "mytext.txt")
    assert again.code == 0, again.err


def test_without_jieba_characters_are_words(canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canon.data.text.cutting.find_spec", lambda name: None)
    Path("mytext.txt").write_text(CHINESE)
    done = canon("train", "word2vec:tiny", "--data", "mytext.txt", "--out", "run", "--set", "train.epochs=1")
    assert done.code == 0 and "jieba is not installed" in done.err
    assert "北" in words_of("run") and "北京" not in words_of("run")


def test_what_is_named_stays(canon: Callable[..., Any]) -> None:
    Path("mytext.txt").write_text("The Cat, the Dog.\nThe Dog.\n" * 200)
    options = ("--set", "data.tokenizer=split", "--set", "data.min_count=3")
    done = canon("train", "word2vec:tiny", "--data", "mytext.txt", "--out", "run", "--set", "train.epochs=1", *options)
    assert done.code == 0, done.err
    assert words_of("run").keys() == {"The", "Cat,", "the", "Dog."}


@pytest.mark.parametrize(
    ("text", "tokenizer"),
    [
        ("An English text with one 北京 in it.", "word"),
        ("我来到北京清华大学，学习历史。", "jieba"),
        ("我 来到 北京 清华 大学 学习 历史", "split"),
        ("これは日本語のテキストです。", "word"),
        ("Русский текст, как есть.", "word"),
        ("", "word"),
    ],
)
def test_writing_decides(text: str, tokenizer: str) -> None:
    if tokenizer == "jieba" and util.find_spec("jieba") is None:
        pytest.skip("jieba is not installed")
    assert choose_cutting(text).tokenizer == tokenizer


def test_the_least_count_grows_with_the_text() -> None:
    sizes = (0, 19_999, 20_000, 99_999, 100_000, 99_999_999, 100_000_000)
    assert [least_count(0, words) for words in sizes] == [1, 1, 2, 2, 5, 5, 10]
    assert least_count(7, 10) == 7


def test_a_tiny_text_with_tags_trains_and_says_what_is_wrong_with_it(canon: Callable[..., Any]) -> None:
    Path("t.txt").write_text("the/DT dog/NN runs/VBZ\nthe/DT cat/NN sleeps/VBZ\n" * 20)
    done = canon("train", "t.txt", "--out", "run")
    assert done.code == 0, done.err
    assert "t.txt has tags beside its words (the/DT): a word and its tag on each line" in done.err
    assert "has no score: no two words are beside each other" in done.err
