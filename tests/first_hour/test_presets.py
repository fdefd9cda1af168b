"""Every system, its :tiny and its default preset, on small files of each kind that it reads, with no other setting."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from canon import recipe as recipes
from canon.contracts import Context, World
from canon.data import encodings
from canon.data.encodings import Ask
from canon.data.kinds import Kind
from canon.data.kinds.choices import CHOICES
from canon.data.kinds.images import IMAGES
from canon.data.kinds.labelled import LABELLED
from canon.data.kinds.parallel import PARALLEL
from canon.data.kinds.questions import QUESTIONS
from canon.data.kinds.table import TABLE
from canon.data.kinds.tagged import TAGGED
from canon.data.kinds.text import TEXT
from canon.data.targets import Class, Number
from canon.nn.counting import summarize
from canon.registry import SYSTEMS, System
from canon.systems.building import build
from canon.tasks import table as tasks
from canon.tasks.records import TASK_RECORDS
from canon.training.data import read_data, with_backbone
from canon.training.plan import resolved

WORDS = [
    "a",
    "man",
    "walks",
    "over",
    "the",
    "old",
    "bridge",
    "while",
    "two",
    "dogs",
    "sleep",
    "near",
    "his",
    "red",
    "car",
    "and",
    "nobody",
    "sees",
    "the",
    "rain",
    "coming",
]


def sentence(chance: random.Random, least: int = 4, most: int = 12) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(least, most)))


def write_text(chance: random.Random) -> str:
    """Documents of 300 words and more, which is more than a small network has positions."""
    documents = (" ".join(f"{sentence(chance).capitalize()}." for _ in range(40)) for _ in range(24))
    Path("book.txt").write_text("\n\n".join(documents))
    return "book.txt"


def write_pairs(chance: random.Random) -> str:
    rows = [sentence(chance) for _ in range(60)]
    Path("pairs.tsv").write_text("".join(f"{row}\t{' '.join(reversed(row.split()))}\n" for row in rows))
    return "pairs.tsv"


def write_labelled(chance: random.Random) -> str:
    rows = [(sentence(chance), "dog" if i % 2 else "cat") for i in range(60)]
    Path("texts.csv").write_text("text,label\n" + "".join(f"{text} {label},{label}\n" for text, label in rows))
    return "texts.csv"


def write_classes(chance: random.Random) -> str:
    rows = [(chance.random(), chance.random(), "yes" if i % 2 else "no") for i in range(60)]
    Path("classes.csv").write_text("x,y,label\n" + "".join(f"{x:.3f},{y:.3f},{name}\n" for x, y, name in rows))
    return "classes.csv"


def write_numbers(chance: random.Random) -> str:
    rows = [(chance.random(), chance.random()) for _ in range(60)]
    Path("numbers.csv").write_text("x,y,target\n" + "".join(f"{x:.3f},{y:.3f},{x + 2 * y:.4f}\n" for x, y in rows))
    return "numbers.csv"


def write_images(chance: random.Random) -> str:
    pixels = np.random.default_rng(0)
    for i in range(48):
        folder = Path("images") / ("dark" if i % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        high = 128 if i % 2 else 255
        Image.fromarray(pixels.integers(high - 100, high, (32, 32, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    return "images"


def write_tagged(chance: random.Random) -> str:
    def line(word: str) -> str:
        return f"{word} {'B-X' if word in ('dogs', 'car') else 'O'}"

    rows = ["\n".join(map(line, sentence(chance).split())) for _ in range(40)]
    Path("tags.conll").write_text("\n\n".join(rows) + "\n")
    return "tags.conll"


def write_questions(chance: random.Random) -> str:
    rows = []
    for i in range(40):
        context = sentence(chance, 10, 20)
        word = context.split()[i % 8]
        answers = {"text": [word], "answer_start": [context.index(word)]}
        rows.append({"id": str(i), "question": "which word is it?", "context": context, "answers": answers})
    Path("questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "questions.jsonl"


def write_choices(chance: random.Random) -> str:
    rows = "".join(f"{sentence(chance)},{sentence(chance)},{sentence(chance)},{i % 2}\n" for i in range(40))
    Path("choices.csv").write_text("question,ending0,ending1,label\n" + rows)
    return "choices.csv"


FILES: dict[Kind, Callable[[random.Random], str]] = {
    TEXT: write_text,
    PARALLEL: write_pairs,
    LABELLED: write_labelled,
    IMAGES: write_images,
    TAGGED: write_tagged,
    QUESTIONS: write_questions,
    CHOICES: write_choices,
}


def files_for(system: System) -> list[str]:
    """A file of each kind that the system reads, here."""
    targets = TASK_RECORDS[system.task].targets
    kinds: list[Kind] = []
    for name in system.encodings:
        kinds += [kind for kind in encodings.find(name).kinds(Ask(targets, system.name)) if kind not in kinds]
    chance = random.Random(0)
    if targets and Class not in targets and IMAGES in kinds:
        kinds.remove(IMAGES)  # pictures have classes alone
    values = [FILES[kind](chance) for kind in kinds if kind in FILES]
    if TABLE in kinds:
        values += [write_classes(chance)] * (not targets or Class in targets)
        values += [write_numbers(chance)] * (Number in targets)
    return values


BY_NAME = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)


@BY_NAME
def test_tiny_trains_on_any_data_of_its_kind(system: System, canon: Callable[..., Any]) -> None:
    for file in files_for(system):
        out = f"runs/{Path(file).stem}"
        done = canon("train", f"{system.name}:tiny", "--data", file, "--out", out, "--set", "train.steps=2")
        assert done.code == 0, f"{file}: {done.err}"


@BY_NAME
def test_the_default_fits_any_data_of_its_kind(system: System) -> None:
    """The data is read and the network built on the meta device, and passes a typical example of that data."""
    for file in files_for(system):
        recipe = with_backbone(recipes.load(system.name, file))
        data = read_data(recipe)
        recipe = resolved(recipe, data)
        assert recipe.total_steps(len(next(iter(data.splits["train"].values())))) > 0
        task: Any = tasks.create(system, recipe.config, data.schema, recipe.objective)
        with torch.device("meta"):
            built = build(system, recipe.config, Context(recipe, data.schema, World("meta")))
        if system.loop == "gradient":
            summarize(built, *task.example(), run=task.trial)


@pytest.mark.parametrize("name", ["bert", "unilm"])
def test_next_sentences_are_left_out_where_a_text_has_none(name: str, canon: Callable[..., Any]) -> None:
    chance = random.Random(0)
    Path("lines.txt").write_text("".join(" ".join(chance.choices("abcdefgh", k=8)) + "\n" for _ in range(60)))
    given = ("train", f"{name}:tiny", "--data", "lines.txt", "--set", "train.steps=2")
    done = canon(*given, "--out", "run")
    assert done.code == 0 and "Chosen for this data: objective.next_sentence = False." in done.err, done.err
    assert not any("next" in key for key in json.loads(Path("run/result.json").read_text())["scores"]["test"])
    assert canon("train", "run", "--resume").code == 0
    asked = canon(*given, "--set", "objective.next_sentence=true")
    assert asked.code == 2 and "but 100% of the passages have only one" in asked.err
