"""Every mistake a user can make, through the command line: exit code 2, one sentence on stderr, nothing lost.

Each row: what makes the mistake, the command, the sentence ("*" stands for anything). Every file and link below the
folder is compared before and after the command: an existing run is untouched, and no half-made directory is left.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from canon.training.trainer import train
from tests.data.makers import image_folder

GOOD = "age,city,label\n" + "".join(f"{i},{'PQ'[i % 3 > 0]},{'ab'[i % 2]}\n" for i in range(40))
TINY = ("--set", "train.steps=3", "--set", "train.batch=8", "--quiet")
FRESH = ("--out", "fresh", *TINY)
SHORT = {"train.steps": 3, "train.batch": 8, "train.threads": 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good.csv and three runs: `run` (MLP on it), `soft` (the same data) and `pictures` (images)."""
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        Path("good.csv").write_text(GOOD)
        train("mlp:tiny", "good.csv", "run", changes=SHORT, quiet=True)
        train("softmax-regression", "good.csv", "soft", changes=SHORT, quiet=True)
        train("lenet:tiny", "", "pictures", changes=SHORT | {"data.limit": 40}, quiet=True)
    return folder


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Path:
    """A copy of it, in which a test may break things."""
    shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True)
    return tmp_path


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files with their contents, all links with their targets, all folders."""
    values: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            content = str(path.readlink()).encode()
        else:
            content = b"" if path.is_dir() else path.read_bytes()
        values[str(path.relative_to(folder))] = content
    return values


def no_change() -> None:
    pass


def file(name: str, content: str | bytes) -> Callable[[], object]:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda: Path(name).write_bytes(data)


def csv(extra: str) -> Callable[[], object]:
    return file("bad.csv", GOOD + extra)


def pets_with_a_text() -> None:
    image_folder(Path("pets"), count=3)
    Path("pets/cat/1.png").write_text("not a picture")


def foreign_checkpoint() -> None:
    """The newest checkpoint of `run` becomes one of `soft`."""
    shutil.rmtree("run/checkpoints/step-00000003")
    shutil.copytree("soft/checkpoints/step-00000003", "run/checkpoints/step-00000003")


def another_table() -> None:
    """One more column and class than the run began with."""
    lines = GOOD.splitlines()
    Path("good.csv").write_text("\n".join(["new," + lines[0], *(f"1,{line}" for line in lines[1:]), "1,3,P,c", ""]))


Row = tuple[Callable[[], object], tuple[str, ...], str]

MISTAKES: dict[str, Row] = {
    # names
    "recipe": (
        no_change,
        ("train", "digits-mpl", *FRESH),
        'No recipe or system "digits-mpl"; did you mean digits-mlp?',
    ),
    "recipe file": (no_change, ("train", "mine.toml", *FRESH), "There is no recipe file mine.toml."),
    "recipe not TOML": (
        file("mine.toml", "[system]\nname mlp\n"),
        ("train", "mine.toml", *FRESH),
        "mine.toml is not valid TOML: * (at line 2, column 6).",
    ),
    "recipe not text": (
        file("mine.toml", b"\xff\xfe"),
        ("train", "mine.toml", *FRESH),
        "mine.toml cannot be read: it is not UTF-8 text (byte 0).",
    ),
    "key": (
        no_change,
        ("train", "mlp", "--set", "train.stepz=5", *FRESH),
        'No setting "train.stepz"; did you mean train.steps?',
    ),
    "section": (
        no_change,
        ("train", "mlp", "--set", "trian.steps=5", *FRESH),
        'No section "trian"; did you mean train?',
    ),
    "assignment": (
        no_change,
        ("train", "mlp", "--set", "train.steps", *FRESH),
        '--set takes section.key=value, as in --set train.steps=100; got "train.steps".',
    ),
    "system": (no_change, ("train", "lennet", *FRESH), 'No recipe or system "lennet"; did you mean lenet?'),
    "preset": (no_change, ("train", "mlp:tinny", *FRESH), 'No system "mlp:tinny"; did you mean mlp:tiny?'),
    "optimizer": (
        no_change,
        ("train", "mlp", "--set", "optimizer.name=adm", *FRESH),
        'No optimizer "adm"; did you mean adam?',
    ),
    "activation": (
        no_change,
        ("train", "mlp", "--set", "system.activation=rellu", *FRESH),
        'No activation "rellu"; did you mean relu?',
    ),
    "label column": (
        no_change,
        ("train", "mlp", "--data", "good.csv", "--set", "data.label=lable", *FRESH),
        'data.label: no column "lable" in good.csv; did you mean label?',
    ),
    "feature column": (
        no_change,
        ("train", "mlp", "--data", "good.csv", "--set", 'data.features=["aeg"]', *FRESH),
        'data.features: no column "aeg" in good.csv; did you mean age?',
    ),
    "data": (
        no_change,
        ("train", "mlp", "--data", "god.csv", *FRESH),
        'There is no data set, file or folder "god.csv"; did you mean good.csv?',
    ),
    "topic": (no_change, ("help", "serach"), 'No topic "serach"; did you mean search?'),
    "list": (no_change, ("list", "sistems"), 'No list "sistems"; did you mean systems?'),
    "data set to fetch": (no_change, ("data", "fetch", "digitz"), 'No data set "digitz"; did you mean digits?'),
    "split": (no_change, ("evaluate", "run", "--split", "tset"), 'No split "tset"; did you mean test?'),
    "setting of check": (
        no_change,
        ("check", "good.csv", "--set", "train.steps=3"),
        "canon check takes only data settings, as in --set data.label=stars; got train.steps.",
    ),
    "monitor": (
        no_change,
        ("train", "mlp", "--set", "train.monitor=acuracy", *FRESH),
        'No metric (train.monitor) "acuracy"; did you mean accuracy?',
    ),
    "group pattern": (
        no_change,
        ("train", "mlp", "--set", 'optimizer.groups=[{match="outptu.*", lr=0.1}]', *FRESH),
        'optimizer.groups: no parameter of the network matches "outptu.*".',
    ),
    # types and sizes
    "not a number": (
        no_change,
        ("train", "mlp", "--set", "optimizer.lr=big", *FRESH),
        "optimizer.lr must be a number, got 'big' (from --set).",
    ),
    "not a list": (
        no_change,
        ("train", "mlp", "--set", "system.hidden=3", *FRESH),
        "system.hidden must be a list, got 3 (from --set).",
    ),
    "negative steps": (
        no_change,
        ("train", "mlp", "--out", "fresh", "--set", "train.steps=-5"),
        "train.steps must be a positive whole number, got -5 (from --set).",
    ),
    "zero units": (
        no_change,
        ("train", "mlp", "--set", "system.hidden=[0]", *FRESH),
        "system.hidden.0 must be a positive whole number, got 0 (from --set).",
    ),
    "negative rate": (
        no_change,
        ("train", "mlp", "--set", "optimizer.lr=-1", *FRESH),
        "optimizer.lr must be a positive number, got -1 (from --set).",
    ),
    "infinite epochs": (
        no_change,
        ("train", "mlp", "--set", "train.epochs=inf", "--out", "fresh"),
        "train.epochs must be a finite number, got inf (from --set).",
    ),
    "a shape that is not the data's": (
        no_change,
        ("train", "mlp", "--set", "system.shape=[3]", *FRESH),
        "system.shape is (3,) (from --set), but the data has (1, 8, 8): leave it out.",
    ),
    "nothing left to train": (
        no_change,
        ("train", "mlp", "--set", 'optimizer.groups=[{match="*", lr=0.0}]', *FRESH),
        "optimizer.groups freezes every parameter, so nothing is left to train.",
    ),
    # files
    "empty file": (file("bad.csv", ""), ("train", "mlp", "--data", "bad.csv", *FRESH), "bad.csv is empty."),
    "empty file to check": (file("bad.csv", ""), ("check", "bad.csv"), "bad.csv is empty."),
    "ragged row": (
        csv("1\n"),
        ("train", "mlp", "--data", "bad.csv", *FRESH),
        "bad.csv, line 42: 1 cell, but there are 3 columns.",
    ),
    "wrong encoding": (
        file("bad.csv", GOOD.encode() + b"3,\x81,a\n"),
        ("train", "mlp", "--data", "bad.csv", *FRESH),
        'bad.csv, line 42: byte * (0x81) is not utf-8; set data.encoding to the encoding of the file, as in "latin-1".',
    ),
    "missing value": (
        csv(",P,a\n"),
        ("train", "mlp", "--data", "bad.csv", "--set", "data.missing=error", *FRESH),
        'bad.csv, line 42: column "age" is empty; give a number, or set data.missing = "mean".',
    ),
    "NaN": (
        csv("nan,P,a\n"),
        ("train", "mlp", "--data", "bad.csv", "--set", "data.missing=error", *FRESH),
        'bad.csv, line 42: column "age" is "nan"; give a number, or set data.missing = "mean".',
    ),
    "infinity": (
        csv("inf,P,a\n"),
        ("train", "mlp", "--data", "bad.csv", *FRESH),
        'bad.csv, line 42: column "age" is infinite; give a finite number.',
    ),
    "unknown label": (
        csv("3,P,c\n"),
        ("evaluate", "run", "--data", "bad.csv"),
        'bad.csv, line 42: label "c" is not one of a, b.',
    ),
    "no label": (
        file("bad.csv", "age,city\n3,P\n"),
        ("evaluate", "run", "--data", "bad.csv"),
        'bad.csv has no column "label", which is the label.',
    ),
    "column gone": (
        file("bad.csv", "age,label\n3,a\n"),
        ("predict", "run", "bad.csv"),
        'bad.csv has no column "city", which the training data had.',
    ),
    "a number where a class was": (
        no_change,
        ("train", "linear-regression", "--data", "good.csv", *FRESH),
        'good.csv, line 2: the label (column "label") must be a number, got "a".',
    ),
    "not an image": (
        file("bad.png", "not a picture"),
        ("predict", "pictures", "bad.png"),
        "bad.png is not an image that can be read; remove it or replace it.",
    ),
    "not an image in a folder": (
        pets_with_a_text,
        ("train", "lenet", "--data", "pets", *FRESH),
        "pets/cat/1.png is not an image that can be read; remove it or replace it.",
    ),
    "a table where images are read": (
        no_change,
        ("train", "lenet", "--data", "good.csv", *FRESH),
        "lenet reads images, but good.csv is a table.",
    ),
    "an image where a table was": (
        file("bad.png", "x"),
        ("predict", "run", "bad.png"),
        "The run reads tables, but bad.png is not a table (*).",
    ),
    "no such file to predict": (
        no_change,
        ("predict", "run", "god.csv"),
        'There is no file or folder "god.csv"; did you mean good.csv?',
    ),
    # runs
    "run exists": (
        no_change,
        ("train", "mlp", "--out", "run", *TINY),
        "run already exists: add --resume to continue it, or give another name with --out.",
    ),
    "run given without --resume": (
        no_change,
        ("train", "run"),
        "run already exists: add --resume to continue it, or give another name with --out.",
    ),
    "resume by another system": (
        no_change,
        ("train", "lenet", "--out", "run", "--resume"),
        "run is a run of mlp, not of lenet: give another --out.",
    ),
    "resume on other data": (
        file("bad.csv", GOOD),
        ("train", "mlp", "--out", "run", "--data", "bad.csv", "--resume"),
        "run was trained on good.csv, not on bad.csv: give another --out.",
    ),
    "resume with another batch": (
        no_change,
        ("train", "run", "--resume", "--set", "train.batch=9"),
        "train.batch cannot change when run is resumed; what can: train.steps, *.",
    ),
    "data changed since": (
        file("good.csv", GOOD.replace("39,", "38,")),
        ("train", "run", "--resume", "--set", "train.steps=9"),
        "good.csv changed since run began: restore it, or train again with another --out.",
    ),
    "data of another shape since": (
        another_table,
        ("train", "run", "--resume", "--set", "train.steps=9"),
        "good.csv changed since run began: restore it, or train again with another --out.",
    ),
    "data changed since, to evaluate": (
        file("good.csv", GOOD.replace("39,", "38,")),
        ("evaluate", "run"),
        "good.csv changed since run began: restore it, or train again with another --out.",
    ),
    "checkpoint of another system": (
        foreign_checkpoint,
        ("evaluate", "run"),
        "*/run/checkpoints/step-00000003 is a checkpoint of softmax-regression, not of mlp.",
    ),
    "checkpoint cut short": (
        lambda: os.truncate("run/checkpoints/step-00000003/model.safetensors", 100),
        ("predict", "run", "good.csv"),
        "*model.safetensors has 100 bytes where * were written.",
    ),
    "no run": (no_change, ("evaluate", "runn"), "There is no run runn."),
    "a folder that is no run": (
        lambda: Path("empty").mkdir(),
        ("evaluate", "empty"),
        "empty is not a run: it has no recipe.toml.",
    ),
    "a folder that is no run, to train in": (
        lambda: Path("empty").mkdir(),
        ("train", "mlp", "--out", "empty", *TINY),
        "empty is not a run: it has no recipe.toml.",
    ),
    "a run without checkpoints": (
        lambda: [shutil.rmtree("run/checkpoints"), Path("run/last").unlink(), Path("run/best").unlink()],
        ("predict", "run", "good.csv"),
        "run has no checkpoint yet: train it first.",
    ),
    # the machine
    "a file where a folder should be": (
        file("taken", ""),
        ("train", "mlp", "--out", "taken/run", *TINY),
        "taken/run cannot be written: *.",
    ),
    "no Apple GPU": (
        no_change,
        ("train", "mlp", "--set", "train.device=mps", *FRESH),
        "train.device is mps, but torch sees no Apple GPU here; use train.device=cpu or auto.",
    ),
    "no CUDA": (
        no_change,
        ("train", "mlp", "--set", "train.device=cuda", *FRESH),
        "train.device is cuda, but torch sees no CUDA device here; use train.device=cpu or auto.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_nothing_is_lost(
    name: str, world: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    make, command, sentence = MISTAKES[name]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    make()
    before = snapshot(world)
    code, out, err = canon(*command)
    assert (code, out) == (2, "")
    wanted = re.escape(f"canon: {sentence}\n").replace(r"\*", ".+")
    assert re.fullmatch(wanted, err), err
    assert snapshot(world) == before


def test_a_foreign_checkpoint_is_not_resumed_from(world: Path, canon: Callable[..., Any]) -> None:
    """Reported when the run has been entered, so what describes it may change; checkpoints and curves do not."""
    foreign_checkpoint()
    before = snapshot(world)
    code, out, err = canon("train", "run", "--resume", "--set", "train.steps=9", "--quiet")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"canon: \S+step-00000003 is a checkpoint of softmax-regression, not of mlp\.\n", err), err
    after = snapshot(world)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {"run/log.txt", "run/recipe.toml", "run/result.json"}
    assert after["run/log.txt"].startswith(before["run/log.txt"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_to_write(world: Path, canon: Callable[..., Any]) -> None:
    Path("locked").mkdir(mode=0o500)
    before = snapshot(world)
    code, out, err = canon("train", "mlp", "--out", "locked/run", *TINY)
    assert (code, out, err) == (2, "", "canon: locked/run cannot be written: Permission denied.\n")
    assert snapshot(world) == before
