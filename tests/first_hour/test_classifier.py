"""The fastText classifier with no settings, beside TF-IDF with logistic regression on the same rows."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from canon.data.catalogue import builtin

Rows = list[tuple[str, str]]

# What titles of a class are about, and what any of them may say.
TOPICS = {
    "体育": "球队 比赛 冠军 教练 进球 联赛 主场 球员 决赛 奥运",
    "财经": "股票 银行 基金 利率 市场 投资 经济 上涨 货币 企业",
    "科技": "手机 芯片 软件 互联网 机器人 数据 电脑 研发 系统 智能",
    "娱乐": "电影 明星 导演 演唱会 票房 歌手 综艺 角色 粉丝 主演",
}
COMMON = [
    "今日",
    "最新",
    "消息",
    "为何",
    "中国",
    "记者",
    "专家",
    "表示",
    "首次",
    "再次",
    "正式",
    "宣布",
    "一个",
    "三大",
    "全国",
    "如何",
    "公布",
    "引发",
    "关注",
    "热议",
]


def titles(count: int) -> Rows:
    chance = random.Random(0)
    rows = []
    for i in range(count):
        label = list(TOPICS)[i % len(TOPICS)]
        about = chance.sample(TOPICS[label].split(), 1 + (i % 3 > 0))
        other = chance.sample(TOPICS[chance.choice(list(TOPICS))].split(), 1)
        words = [*about, *other, *chance.sample(COMMON, 5)]
        chance.shuffle(words)
        rows.append(("".join(words), label))
    return rows


def docstrings() -> Rows:
    """Of Python's own library, by module."""
    table = builtin.read_builtin("python-modules").parts["train"]
    texts = (str(text).replace('"', "") for text in table.texts("text"))
    return list(zip(texts, map(str, table.texts("module")), strict=True))


def write(rows: Rows) -> tuple[Rows, Rows]:
    random.Random(1).shuffle(rows)
    cut = len(rows) * 3 // 4
    Path("set").mkdir()
    for name, part in (("train", rows[:cut]), ("test", rows[cut:])):
        Path(f"set/{name}.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in part))
    return rows[:cut], rows[cut:]


def baseline(train: Rows, test: Rows, **how: Any) -> float:
    model = make_pipeline(TfidfVectorizer(**how), LogisticRegression(max_iter=300))
    model.fit(*zip(*train, strict=True))
    return float(model.score(*zip(*test, strict=True)))


def accuracy(canon: Callable[..., Any], said: str) -> float:
    done = canon("train", "fasttext-classifier", "--data", "set", "--out", "run")
    assert done.code == 0, done.err
    assert said in done.err and "Chosen for this data: system.dim = 50" in done.err
    return json.loads(Path("run/result.json").read_text())["scores"]["test"]["accuracy"]


def test_english_is_level_with_tf_idf(canon: Callable[..., Any]) -> None:
    train, test = write(docstrings())
    floor = baseline(train, test, ngram_range=(1, 2))
    assert accuracy(canon, "Words are split off punctuation, in lower case") > floor - 0.03
    settings = tomllib.loads(Path("run/recipe.toml").read_text())
    assert (settings["system"]["minn"], settings["system"]["maxn"]) == (3, 5)


@pytest.mark.parametrize("count", [160, 1200])
def test_chinese_is_level_with_tf_idf_of_characters(count: int, canon: Callable[..., Any]) -> None:
    train, test = write(titles(count))
    floor = baseline(train, test, analyzer="char", ngram_range=(1, 3))
    assert accuracy(canon, "The text is Chinese: jieba cuts it into words") > floor - 0.05
    settings = tomllib.loads(Path("run/recipe.toml").read_text())
    assert (settings["system"]["minn"], settings["system"]["maxn"]) == (1, 3)
    assert settings["data"]["tokenizer"] == "jieba"
    done = canon("predict", "run", "球队赢得联赛冠军", "--json")
    assert done.code == 0 and "体育" in done.out


def test_a_setting_that_is_given_counts(canon: Callable[..., Any]) -> None:
    write(titles(160))
    options = ("--set", "system.lr=0.3", "--set", "train.steps=5", "--set", "data.tokenizer=word")
    done = canon("train", "fasttext-classifier", "--data", "set", "--out", "run", *options)
    settings = tomllib.loads(Path("run/recipe.toml").read_text())
    assert done.code == 0 and settings["system"]["lr"] == 0.3 and settings["data"]["tokenizer"] == "word"
    assert settings["train"]["steps"] == 5 and "epochs" not in settings["train"] and settings["system"]["minn"] == 1


def test_a_resumed_run_keeps_what_was_chosen(canon: Callable[..., Any]) -> None:
    write(titles(160))
    assert canon("train", "fasttext-classifier", "--data", "set", "--out", "run").code == 0
    before = Path("run/recipe.toml").read_text()
    done = canon("train", "run", "--resume")
    assert done.code == 0 and "is finished" in done.err and Path("run/recipe.toml").read_text() == before
