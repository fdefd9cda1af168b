"""`canon help`: short pages whose commands, settings and files exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from canon.cli import _VERBS, _first_word
from canon.data.config import DataConfig
from canon.train_config import TrainConfig

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "canon" / "help").glob("*.md"))
VERBS = {_first_word(place) for places in _VERBS.values() for place in places}
SETTINGS = {f"data.{field.name}" for field in fields(DataConfig)} | {
    f"train.{field.name}" for field in fields(TrainConfig)
}  # type: ignore[arg-type]


def test_topics_are_listed_with_their_titles(canon: Callable[..., Any]) -> None:
    lines = canon("help").out.splitlines()
    assert [line.split()[2] for line in lines] == [page.stem for page in PAGES]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_and_names_what_exists(page: Path, canon: Callable[..., Any]) -> None:
    text = canon("help", page.stem).out
    assert text == page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40 and max(map(len, text.splitlines())) <= 120
    assert set(re.findall(r"^  canon (\w+)", text, flags=re.MULTILINE)) <= VERBS
    assert set(re.findall(r"(?<!docs/)\b(?:data|train)\.[a-z_]+", text)) - {"data.arguments"} <= SETTINGS | {
        "train.en",
        "train.de",
    }
    named = re.findall(r"docs/[\w/-]+\.md", text)
    assert named and all((ROOT / file).is_file() for file in named)


def test_a_wrong_topic_gets_the_nearest(canon: Callable[..., Any]) -> None:
    outcome = canon("help", "recipe")
    assert (outcome.code, outcome.err) == (2, 'canon: No topic "recipe"; did you mean recipes?\n')
