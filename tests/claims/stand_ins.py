"""Small made-up files in place of the named sets that claims read, and claims at their smallest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from canon import recipe as recipes
from canon.claims.record import Claim, Variant
from canon.data.catalogue import CATALOGUE

_NOUNS = ("plan", "work", "dog", "cat", "house", "film", "king", "river", "tree", "road")
_VERBS = ("plan", "work", "sees", "likes", "finds", "calls", "hits", "moves")
_RATED = ("good", "great", "nice", "fine"), ("bad", "terrible", "poor", "dull")
_chance = np.random.default_rng(0)

# What a probe does in full, and at its smallest.
PROBES = {
    "batches": 512,
    "draws": 2000,
    "hidden": 16,
    "points": 60,
    "positions": 300,
    "repeats": 2,
    "steps": 12,
    "train": 60,
    "width": 32,
}
SETTINGS: dict[str, Any] = {
    "data.limit": 60,
    "data.min_count": 1,
    "data.vocab_size": 400,
    "data.shots": 4,
    "system.buckets": 500,
    "system.candidates": 3,
    "system.stages": [1, 1, 1],
    "train.evaluate_every": 2,
}
_STEPS = ("train.steps", "train.epochs", "train.tokens")


def _sentence() -> str:
    return f"the {_chance.choice(_NOUNS)} {_chance.choice(_VERBS)} the {_chance.choice(_NOUNS)}"


def _articles(path: Path, lines: int = 240) -> None:
    rows = [f"{_sentence().capitalize()} and it was {_chance.choice([*_RATED[0], *_RATED[1]])}." for _ in range(lines)]
    path.write_text("\n\n".join(" ".join(rows[i : i + 6]) for i in range(0, lines, 6)))


def _words(path: Path) -> None:
    """Frequent words would all be left out of a small vocabulary."""
    others = [f"{a}{b}{c}" for a in ("ba", "ku", "ti", "mo") for b in ("re", "sil", "da") for c in _NOUNS + _VERBS]
    path.write_text(" ".join(_chance.choice([*others, *_NOUNS], 12_000)))


def _judged(path: Path) -> None:
    rows = []
    for i in range(80):
        label = i % 2
        rows.append(f"{_sentence()} is {_chance.choice(_RATED[1 - label])}\t{label}\n")
    path.write_text("sentence\tlabel\n" + "".join(rows))


def _pairs(path: Path) -> None:
    names = "entailment", "not_entailment"
    rows = (f"{_sentence()}\t{_sentence()}\t{names[i % 2]}\n" for i in range(60))
    path.write_text("sentence1\tsentence2\tlabel\n" + "".join(rows))


def _alike(path: Path) -> None:
    rows = (f"{_sentence()}\t{_sentence()}\t{i % 6}.0\n" for i in range(60))
    path.write_text("sentence1\tsentence2\tscore\n" + "".join(rows))


def _tagged(path: Path) -> None:
    lines = []
    for _ in range(60):
        words = _sentence().split()
        tags = "DET", "NOUN", "VERB", "DET", "NOUN"
        for i, (word, tag) in enumerate(zip(words, tags, strict=True), start=1):
            lines.append(f"{i}\t{word}\t{word}\t{tag}\t_\t_\t0\t_\t_\t_\n")
        lines.append("\n")
    path.write_text("".join(lines))


def _queries(path: Path) -> None:
    rows = []
    for query in range(24):
        for _ in range(4 + query % 5):
            features = " ".join(f"{i}:{x:.3f}" for i, x in enumerate(_chance.random(5), start=1))
            rows.append(f"{_chance.integers(3)} qid:{query} {features}\n")
    path.write_text("".join(rows))


def _ratings(path: Path) -> None:
    rows = (f"u{i // 8},i{i * i % 23},{i % 5 + 1},{1000 + i}\n" for i in range(240))
    path.write_text("user,item,rating,timestamp\n" + "".join(rows))


def _clicks(path: Path) -> None:
    rows = (f"{i % 2},u{i % 7},i{i % 5},{i % 3},{i % 4},{x:.2f}\n" for i, x in enumerate(_chance.normal(size=120)))
    path.write_text("clicked,field 1,field 2,field 3,field 4,amount\n" + "".join(rows))


_MAKERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "wiki-words": ("words.txt", _words),
    "wikipedia-en": ("articles.txt", _articles),
    "wikitext-2": ("articles.txt", _articles),
    "sst-2": ("judged.tsv", _judged),
    "rte": ("pairs.tsv", _pairs),
    "sts-b": ("alike.tsv", _alike),
    "ud-english-ewt": ("tagged.conllu", _tagged),
    "mq2008": ("queries.letor", _queries),
    "movielens-100k": ("ratings.csv", _ratings),
    "frappe": ("clicks.csv", _clicks),
    "criteo-sample": ("clicks.csv", _clicks),
}


def stand_in(name: str, folder: Path) -> str:
    """The path of the file in place of a named set; the set itself where it is built in."""
    if name not in CATALOGUE or CATALOGUE[name].builtin:
        return name
    file, make = _MAKERS[name]
    path = folder / file
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(path)
    return str(path)


def _tests(folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wordsim353.tsv").write_text(
        "dog\tcat\t7\nhouse\troad\t3\nking\triver\t1\ntree\ttrees\t9\nfilm\tfilms\t8\n"
    )
    (folder / "questions-words.txt").write_text(": all\ndog cat house road\nking river tree film\n")
    return [str(folder / "wordsim353.tsv"), str(folder / "questions-words.txt")]


def smallest(claim: Claim, folder: Path) -> Claim:
    """One seed, four steps of each training, probes at the sizes above, and stand-ins for data that is not built in."""
    quick = claim.budgets["quick"]
    variants = {name: _smallest_variant(claim, name, folder) for name in claim.variants}
    return replace(
        claim, variants=variants, budgets={**claim.budgets, "quick": replace(quick, seeds=1, set={}, each={})}
    )


def _smallest_variant(claim: Claim, name: str, folder: Path) -> Variant:
    variant, changes = claim.variants[name], claim.changes(name, "quick")
    if variant.probe:
        return replace(
            variant, set={key: min(value, PROBES[key]) if key in PROBES else value for key, value in changes.items()}
        )
    changes = {key: SETTINGS.get(key, value) for key, value in changes.items() if key not in _STEPS}
    recipe = recipes.load(variant.recipe, variant.data, changes)
    source = recipe.data.source
    data = variant.data
    if (other := stand_in(source, folder)) != source:
        data = other
        changes.pop("data.source", None)
        asked = {key: value for key, value in recipe.table["data"].items() if key in ("words", "template")}
        changes |= {f"data.{key}": value for key, value in asked.items()}
    if "tests" in recipe.table["data"]:
        changes["data.tests"] = _tests(folder)
    if recipe.table["data"].get("valid") == "sts-b":
        changes["data.valid"] = stand_in("sts-b", folder)
    if recipe.train.batch > 16 and recipe.system.loop == "gradient":
        changes["train.batch"] = 16
    acting = recipe.system.loop == "environment"  # an episode must end
    return replace(variant, data=data, set=changes | {"train.steps": 20 if acting else 4})
