"""The first command on own data: what is chosen and said, what stays of a recipe, where things are kept, how to ask."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn import datasets

from canon import recipe as recipes
from canon.data.catalogue import CATALOGUE
from canon.data.kinds import KINDS
from canon.errors import CanonError
from canon.registry import SYSTEMS
from canon.registry.ideas import IDEAS
from canon.registry.recipes import time_of
from canon.training.run import Run

ROOT = Path(__file__).parents[2]
FEW = ("--set", "train.steps=3", "--set", "train.threads=1")


def wine(path: Path) -> Path:
    bunch = datasets.load_wine()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*bunch.feature_names, "class"])
        writer.writerows([*row, bunch.target_names[label]] for row, label in zip(bunch.data, bunch.target, strict=True))
    return path


def pairs(path: Path) -> Path:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    lines = (f"{a} {b} {c}\t{c} {b} {a}\n" for a in words for b in words for c in words[:3])
    path.write_text("".join(lines))
    return path


def labels(path: Path) -> Path:
    rows = (f"__label__{'ab'[row % 2]} some {'good' if row % 2 else 'bad'} words {row}\n" for row in range(60))
    path.write_text("".join(rows))
    return path


def text(path: Path) -> Path:
    path.write_text("The quick brown fox jumps over the lazy dog, and the dog sleeps.\n" * 200)
    return path


@pytest.mark.parametrize(
    ("make", "name", "sentence"),
    [
        (wine, "wine.csv", "wine.csv is a table (3 classes): training mlp; also: "),
        (pairs, "pairs.tsv", "training transformer; also: "),
        (labels, "labels.txt", "labels.txt is a set of texts with labels (2 labels): training fasttext-classifier"),
        (text, "story.txt", "story.txt is running text: training word2vec; also: "),
    ],
)
@pytest.mark.parametrize("way", [(), ("--data",)], ids=["argument", "option"])
def test_data_alone_is_enough(
    tmp_path: Path, canon: Callable[..., Any], make: Any, name: str, sentence: str, way: tuple[str, ...]
) -> None:
    make(tmp_path / name)
    done = canon("train", *way, name, *FEW)
    assert done.code == 0, done.err
    assert sentence in done.err
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name == f"{name.partition('.')[0]}-{Run.open(run).recipe.system.name}"


def test_named_sets_and_first_choices(canon: Callable[..., Any]) -> None:
    done = canon("train", "digits", *FEW)
    assert "digits is a set of images (10 classes): training resnet; also: lenet, " in done.err
    kinds = {kind.name for kind in KINDS}
    assert all(set(system.first_for) <= kinds for system in SYSTEMS)


def test_numbers_are_no_texts_whatever_their_names(tmp_path: Path, canon: Callable[..., Any]) -> None:
    """scikit-learn's table of diabetes has columns s1 and s2, as sets of sentence pairs have."""
    bunch = datasets.load_diabetes()
    rows = "\n".join(",".join(map(str, [*row, label])) for row, label in zip(bunch.data, bunch.target, strict=True))
    (tmp_path / "diabetes.csv").write_text(",".join([*bunch.feature_names, "target"]) + "\n" + rows)
    done = canon("train", "diabetes.csv", *FEW)
    assert "diabetes.csv is a table: training mlp; also: linear-regression" in done.err, done.err


def test_what_is_neither_recipe_nor_data(tmp_path: Path, canon: Callable[..., Any]) -> None:
    wine(tmp_path / "wine.csv")
    assert 'There is no data set, file or folder "wines.csv"; did you mean wine.csv?' in canon("train", "wines.csv").err
    both = canon("train", "wine.csv", "--data", "iris").err
    assert "wine.csv and iris are both data: give one of them" in both


def test_a_path_goes_before_a_named_set(tmp_path: Path, canon: Callable[..., Any]) -> None:
    assert "wine.csv" not in CATALOGUE and "digits" in CATALOGUE
    (tmp_path / "digits").mkdir()
    wine(tmp_path / "digits" / "train.csv")
    done = canon("train", "digits", *FEW)
    assert "digits is a table (3 classes): training mlp" in done.err
    assert "digits is the file or folder of that name here, not the named set." in done.err


def test_own_data_keeps_tokenizer_and_lengths_of_a_recipe() -> None:
    kept = recipes.load("pretrained/bert-wiki", "own.txt").data
    assert (kept.tokenizer, kept.vocab_size, kept.max_length, kept.lowercase) == ("wordpiece", 16000, 128, True)
    assert recipes.load("contrastive/digits-few-probe", "own").data.limit == 14
    assert recipes.load("sequence/multi30k-transformer", "own.tsv").data.languages == ()  # of its files
    assert recipes.load("transformer", "own.tsv").data.tokenizer == ""  # a system's recipe is only an example


def test_the_cache_is_shown_and_emptied(tmp_path: Path, canon: Callable[..., Any]) -> None:
    text(tmp_path / "story.txt")
    assert canon("train", "story.txt", *FEW).code == 0
    before = {row["what"]: row["megabytes"] for row in json.loads(canon("data", "cache", "--json").out)["parts"]}
    assert before["text that was counted or tokenized"] > 0 and (tmp_path / "corpora").is_dir()
    after = json.loads(canon("data", "cache", "--clear", "--json").out)
    assert after["folder"] == str(tmp_path) and after["parts"][0]["megabytes"] == 0
    assert str(tmp_path) in canon("data", "cache").out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ranksvm", "(learning to rank); nearest: mlp-ranker, lambdamart, linear-ranker"),
        ("XGBoost", "(gradient-boosted or bagged trees); nearest: adaboost, mlp"),
        ("mistral-7b", "(large language models); nearest: gpt2, gpt3"),
        ("PPO", "(reinforcement learning); nearest: dqn, reinforce, q-learning"),
        ("lstm", "(recurrent networks); nearest: rnn-lm, seq2seq, elmo"),
        ("bert-crf", "(tagging); nearest: finetune"),
        ("gat", ": canon has no graph networks yet."),
        ("svd", "(factorization of a matrix); nearest: mf, ials"),
        ("sst2", "the data set is sst-2: canon train sst-2."),
        ("reznet", "did you mean resnet?"),
    ],
)
def test_the_nearest_idea_is_named(canon: Callable[..., Any], name: str, sentence: str) -> None:
    done = canon("train", name)
    assert done.code == 2 and sentence in done.err


def test_ideas_name_systems() -> None:
    names = {system.name for system in SYSTEMS}
    assert all(set(idea.systems) <= names for idea in IDEAS)
    assert all(word.isalpha() and word.islower() for idea in IDEAS for word in idea.words)
    with pytest.raises(CanonError, match="nearest: adaboost, mlp"):
        recipes.load("gradient-boosting")


def test_version_filter_and_help(canon: Callable[..., Any]) -> None:
    assert canon("--version").out.startswith("canon ")
    shown = canon("list", "systems", "gpt").out.splitlines()[1:]
    assert shown and all("gpt" in line.lower() for line in shown)
    assert 'None of the recipes has "zzz"; canon list recipes shows all.' in canon("list", "recipes", "zzz").err
    out = canon("--help").out
    headings = ("Train and compare:", "Know your data:", "Use a run:", "Look inside:")
    assert [out.index(heading) for heading in headings] == sorted(out.index(heading) for heading in headings)


def test_a_verb_of_another_program_is_named(canon: Callable[..., Any]) -> None:
    done = canon("export", "runs/x")
    assert done.code == 2 and "Did you mean 'canon convert RUN FILE --to onnx'?" in done.err


def test_a_narrow_terminal_has_every_column(canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("canon.cli.options.sys.stdout.isatty", lambda: True)
    lines = canon("list", "recipes", "digits-lenet").out.splitlines()
    assert all(len(line) <= 60 for line in lines) and any("test/accuracy 0.9" in line for line in lines)
    assert not any("…" in line for line in lines)


def test_training_imports_no_compiler(tmp_path: Path) -> None:
    """torch._dynamo takes as long to import as torch; nothing is compiled here."""
    wine(tmp_path / "wine.csv")
    code = (
        "import sys; from canon.training.trainer import train; "
        "train('softmax-regression', 'wine.csv', 'run', changes={'train.steps': 3}, quiet=True); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode == 0


def test_a_recipe_says_its_time(canon: Callable[..., Any]) -> None:
    assert time_of("sequence/pronounce") == "about 3 minutes on two cores" and time_of("none") == ""
    assert "This recipe takes about 2 seconds on two cores, longer" in canon("train", "linear/cancer-logistic").err
    assert "This recipe takes" not in canon("train", "linear/cancer-logistic", "--set", "train.epochs=1").err
