"""Runs under attack: killed at any file operation, damaged, owned by two, stopped in an evaluation, of few rows."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from canon.errors import CanonError, Unforeseen
from canon.training.ownership import Ownership
from canon.training.run import Run
from canon.training.trainer import Interrupted, Trainer, train

ROOT = Path(__file__).parent.parent.parent
Canon = Callable[..., Any]
SHORT = {
    "train.steps": 6,
    "train.batch": 8,
    "train.log_every": 1,
    "train.evaluate_every": 2,
    "train.checkpoint_every": 2,
    "train.keep": 2,
    "train.threads": 1,
    "train.device": "cpu",
}
SETS = [word for key, value in SHORT.items() for word in ("--set", f"{key}={value}")]


def table(path: Path, rows: int = 40) -> Path:
    """Two numbers and a class that depends on them."""
    numbers = np.random.default_rng(0).normal(size=(rows, 2)).round(3)
    lines = [f"{a},{b},{'yes' if a > b else 'no'}" for a, b in numbers]
    path.write_text("\n".join(["a,b,y", *lines, ""]))
    return path


def text(path: Path) -> Path:
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "to", "it"]
    draw = np.random.default_rng(1)
    path.write_text("\n".join(" ".join(draw.choice(words, 8)) for _ in range(40)) + "\n")
    return path


def assert_same_end(ours: Path, theirs: Path) -> None:
    """The same curves, weights, state of the optimiser and result; what the clock decides apart."""
    assert (ours / "metrics.jsonl").read_bytes() == (theirs / "metrics.jsonl").read_bytes()
    for file in sorted(path.name for path in (ours / "last").glob("*.safetensors")):
        one, other = load_file(ours / "last" / file), load_file(theirs / "last" / file)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), file
    one, other = Run(ours).result, Run(theirs).result
    assert one is not None and other is not None
    for key in ("steps", "best_step", "ended", "scores", "risk"):
        assert one[key] == other[key], key


# ---- what a run starts from

# A system, its data, and settings; each starts from a run of the one in the second column, or from its vectors.
ORIGINS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "mlp": ("mlp:tiny", "mlp:tiny", "init", {}),
    "word2vec": ("word2vec:tiny", "word2vec:tiny", "init", {"system.dim": 8}),
    "word2vec of a run": ("rnn-lm:tiny", "word2vec:tiny", "embeddings", {"data.tokenizer": "word", "system.dim": 8}),
    "bert": ("bert:tiny", "bert:tiny", "init", {"objective.next_sentence": False}),
    "finetune": ("finetune:tiny", "bert:tiny", "init", {}),
}


def kind_of_data(system: str) -> Path:
    return table(Path("rows.csv")) if system.startswith(("mlp", "finetune")) else text(Path("text.txt"))


@pytest.mark.parametrize("name", ORIGINS)
def test_a_run_goes_on_from_its_beginning_without_its_source(name: str) -> None:
    """Stopped before the first step, with the source gone: the end is that of a run that was never stopped."""
    system, first, key, more = ORIGINS[name]
    few = {**SHORT, "train.steps": 2}
    own = {"word2vec:tiny": {"system.dim": 8}, "bert:tiny": {"objective.next_sentence": False}}.get(first, {})
    source = train(first, str(kind_of_data(first)), Path("source"), changes=few | own, quiet=True).path
    data = reviews(Path("reviews.csv")) if system.startswith("finetune") else kind_of_data(system)
    changes = {**few, **more, f"train.{key}": str(source)}
    whole = train(system, str(data), Path("whole"), changes=changes, quiet=True)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "fit", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        train(system, str(data), Path("cut"), changes=changes, quiet=True)
    shutil.rmtree(source)
    resumed = train("cut", resume=True, quiet=True)
    assert_same_end(whole.path, resumed.path)
    assert (resumed.checkpoints / "step-00000000").is_dir()


def reviews(path: Path) -> Path:
    lines = [f"the {a} sat on a {b},{'good' if a == 'cat' else 'bad'}" for a in ("cat", "dog") for b in "abcdefghij"]
    path.write_text("\n".join(["text,label", *lines, ""]))
    return path


def test_a_run_without_hashes_of_its_records_is_read_as_before() -> None:
    """Earlier versions wrote no hash into recipe.toml, result.json or the state of a checkpoint."""
    whole = train("mlp:tiny", str(table(Path("rows.csv"))), Path("whole"), changes=SHORT, quiet=True)
    shutil.copytree(whole.path, "earlier", symlinks=True)
    earlier = Run(Path("earlier"))
    recipe = earlier.path / "recipe.toml"
    recipe.write_text("".join(line for line in recipe.read_text().splitlines(True) if "sha256" not in line))
    (earlier.path / "result.json").unlink()
    shutil.rmtree(earlier.checkpoints / "step-00000006")
    for folder in earlier.checkpoints.iterdir():
        state = json.loads((folder / "state.json").read_text())
        del state["metrics_sha256"]
        content = json.dumps(state).encode()
        (folder / "state.json").write_bytes(content)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"]["state.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        (folder / "manifest.json").write_text(json.dumps({key: manifest[key] for key in ("system", "step", "files")}))
    resumed = train("earlier", resume=True, quiet=True)
    assert_same_end(whole.path, resumed.path)


def test_a_run_from_weights_never_starts_over_from_random_ones(canon: Canon) -> None:
    data = str(table(Path("rows.csv")))
    train("mlp:tiny", data, Path("source"), changes=SHORT, quiet=True)
    run = train("mlp:tiny", data, Path("run"), changes={**SHORT, "train.init": "source"}, quiet=True)
    shutil.rmtree(run.checkpoints)
    run.checkpoints.mkdir()
    (run.path / "result.json").unlink()
    code, _, err = canon("train", "run", "--resume", "--quiet")
    assert code == 2 and "no whole checkpoint, not even of what run started from" in err


# ---- killed at any file operation

_KILLED = """
import os, sys
from pathlib import Path

from canon.training.trainer import train

def attempt(out, moment, changes):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    count = 0
    def counted(call):
        def inner(*arguments, **options):
            nonlocal count
            count += 1
            if count == moment:
                os._exit(9)
            return call(*arguments, **options)
        return inner
    for name in ("replace", "rename", "fsync", "mkdir", "unlink", "symlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    opened = Path.open
    def watched(self, mode="r", *rest, **options):
        if mode[0] in "wax":
            counted(lambda: None)()
        return opened(self, mode, *rest, **options)
    Path.open = watched
    code = 1
    try:
        train("mlp:tiny", "rows.csv", out, resume=True, changes=changes, quiet=True)
        code = 0
    finally:
        os._exit(code)
"""


def test_killed_at_every_file_operation_ends_as_never_killed() -> None:
    """A run that starts from weights, killed at its n-th file operation for every n, then resumed."""
    table(Path("rows.csv"))
    changes = {**SHORT, "train.steps": 1, "train.init": "source"}
    script = f"""{_KILLED}
changes = {changes!r}
train("mlp:tiny", "rows.csv", "source", changes={{**changes, "train.init": ""}}, quiet=True)  # loads all code once
assert attempt("whole", 0, changes) == 0
moment = 0
while True:
    moment += 1
    code = attempt(f"cut-{{moment}}", moment, changes)
    if code == 0:
        break
    assert code == 9, code
    assert attempt(f"cut-{{moment}}", 0, changes) == 0, moment
print(moment)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=environment, cwd=Path.cwd()
    )
    assert outcome.returncode == 0, outcome.stderr
    moments = int(outcome.stdout.split()[-1])
    assert moments > 30
    for moment in range(1, moments):
        assert_same_end(Path("whole"), Path(f"cut-{moment}"))
        left = [path for path in Path(f"cut-{moment}").rglob(".*") if "link" not in path.name]
        assert left == [], left


# ---- one owner


def test_one_process_owns_a_run_and_others_may_read_it(canon: Canon) -> None:
    data = str(table(Path("rows.csv")))
    train("mlp:tiny", data, Path("run"), changes=SHORT, quiet=True)
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file() and path.name != "lock"}
    owner = Ownership()
    owner.take(Path("run"))
    code, _, err = canon("train", "run", "--resume", "--set", "train.steps=9", "--quiet")
    assert code == 2 and f"run is being trained by process {os.getpid()} on " in err
    assert {path: path.read_bytes() for path in before} == before
    for verb in (("evaluate", "run"), ("predict", "run", "rows.csv"), ("plot", "run"), ("describe", "run")):
        assert canon(*verb).code == 0
    owner.release()
    assert Path("run/lock").read_bytes() == b""
    assert canon("train", "run", "--resume", "--set", "train.steps=9", "--quiet").code == 0


def test_the_lock_ends_with_its_process() -> None:
    Path("run").mkdir()
    child = os.fork()
    if not child:
        Ownership().take(Path("run"))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert b"process" in Path("run/lock").read_bytes()
    Ownership().take(Path("run"))


def test_of_two_that_make_one_run_the_second_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has made its directory while the second reads its data."""
    data = str(table(Path("rows.csv")))
    create = Run.create.__func__  # type: ignore[attr-defined]

    def late(cls: type[Run], path: Path, *rest: Any, **named: Any) -> Run:
        create(cls, path, *rest[:2])
        return create(cls, path, *rest, **named)

    monkeypatch.setattr(Run, "create", classmethod(late))
    with pytest.raises(CanonError, match="run already exists"):
        train("mlp:tiny", data, Path("run"), changes=SHORT, quiet=True)


# ---- damaged files


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    train("mlp:tiny", str(table(folder / "rows.csv")), folder / "run", changes=SHORT, quiet=True)
    return folder / "run"


def flip(word: bytes) -> Callable[[Path], object]:
    """One bit of a word in a file."""

    def harm(path: Path) -> None:
        content = path.read_bytes()
        assert word in content, path
        path.write_bytes(content.replace(word, word[:-1] + bytes([word[-1] ^ 1]), 1))

    return harm


def cut(share: float) -> Callable[[Path], object]:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def content(new: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(new)


HARMS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": content(b""),
    "half": cut(0.5),
    "not text": content(b"\xff\x00" * 50),
    "a list": content(b"[]"),
    "other keys": content(b'{"x": 1}'),
    "deep": content(b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nulls": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}
KEYS: list[tuple[str, bytes]] = [
    ("recipe.toml", b"steps"),
    ("recipe.toml", b'"mlp'),
    ("recipe.toml", b"lr = 0"),
    ("data.json", b"fingerprint"),
    ("data.json", b"examples"),
    ("data.json", b'"bytes'),
    ("vocab/schema.json", b"classes"),
    ("vocab/schema.json", b"mean"),
    ("result.json", b"scores"),
    ("result.json", b"seconds"),
    ("metrics.jsonl", b'"step'),
    ("timing.jsonl", b'"step'),
]
RESUME = ("train", "run", "--resume", "--quiet", "--set", "train.steps=8")
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "recipe.toml": (("plot", "run"), ("evaluate", "run"), RESUME),
    "data.json": (("evaluate", "run"), ("compare", "run"), RESUME),
    "env.json": (("compare", "run"), RESUME),
    "result.json": (("evaluate", "run"), ("describe", "run"), ("compare", "run"), RESUME),
    "vocab/schema.json": (("evaluate", "run"), RESUME),
    "metrics.jsonl": (("plot", "run"), RESUME),
    "timing.jsonl": (RESUME,),
}


@pytest.mark.parametrize("file", READERS)
def test_a_damaged_file_is_a_sentence(file: str, finished: Path, canon: Canon) -> None:
    """Whatever harm is done to it: an exit code of 0 or of 2 with a sentence, for every verb that reads runs."""
    harms = {**HARMS, **{word.decode(): flip(word) for name, word in KEYS if name == file}}
    for what, harm in harms.items():
        for verb in READERS[file]:
            shutil.rmtree("run", ignore_errors=True)
            shutil.copytree(finished, "run", symlinks=True)
            harm(Path("run", file))
            code, _, err = canon(*verb)
            assert code in (0, 2), (what, verb, err)
            assert code == 0 or err.startswith("canon: ") or "\ncanon: " in err, (what, verb, err)
            assert "Traceback" not in err, (what, verb, err)


@pytest.mark.parametrize(("file", "word"), [row for row in KEYS if row[0] not in ("metrics.jsonl", "timing.jsonl")])
def test_one_bit_of_what_a_run_rests_on_is_noticed(file: str, word: bytes, finished: Path, canon: Canon) -> None:
    shutil.copytree(finished, "run", symlinks=True)
    flip(word)(Path("run", file))
    code, _, err = canon("train", "run", "--resume", "--quiet")
    assert code == 2 and file in err, err


CHECKPOINT: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{f"{file} {what}": (file, HARMS[what]) for file in ("manifest.json", "state.json") for what in HARMS},
    "weights cut": ("model.safetensors", cut(0.5)),
    "the system's name": ("manifest.json", flip(b'"mlp')),
    "a key": ("manifest.json", flip(b'"bytes')),
    "a file's name": ("manifest.json", flip(b"optimizer")),
    "the step": ("manifest.json", flip(b'"step": 6')),
}


@pytest.mark.parametrize("name", CHECKPOINT)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(name: str, finished: Path, canon: Canon) -> None:
    file, harm = CHECKPOINT[name]
    shutil.copytree(finished, "run", symlinks=True)
    Path("run/result.json").unlink()
    newest = Path("run/checkpoints/step-00000006")
    harm(newest / file)
    code, _, err = canon("train", "run", "--resume")
    assert code == 0, err
    assert newest.name in err and "Falling back to the one before" in err and "Resumed from step 4" in err
    assert_same_end(finished, Path("run"))


@pytest.mark.parametrize("link", ["best", "last"])
def test_a_link_to_nowhere_is_passed_over(link: str, finished: Path, canon: Canon) -> None:
    shutil.copytree(finished, "run", symlinks=True)
    Path("run", link).unlink()
    Path("run", link).symlink_to("checkpoints/step-00000099")
    assert canon("evaluate", "run").code == 0
    Path("run/result.json").unlink()
    assert canon("train", "run", "--resume", "--quiet").code == 0
    assert_same_end(finished, Path("run"))


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.7, 0.95])
def test_shortened_metrics_fall_back_as_far_as_they_reach(kept: float, finished: Path, canon: Canon) -> None:
    shutil.copytree(finished, "run", symlinks=True)
    Path("run/result.json").unlink()
    cut(kept)(Path("run/metrics.jsonl"))
    code, _, err = canon("train", "run", "--resume")
    assert code == 0 and "metrics.jsonl changed since" in err, err
    assert_same_end(finished, Path("run"))
    assert b"\0" not in Path("run/metrics.jsonl").read_bytes()


@pytest.mark.parametrize("file", ["metrics.jsonl", "timing.jsonl"])
def test_a_line_cut_off_is_no_damage(file: str, finished: Path, canon: Canon) -> None:
    shutil.copytree(finished, "run", symlinks=True)
    with Path("run", file).open("a") as stream:
        stream.write('{"step": 7, "train/lo')
    assert canon("plot", "run").code == 0
    assert [row["step"] for row in Run(Path("run")).timings()] == [1, 2, 3, 4, 5, 6]


def test_a_finished_run_says_that_its_weights_are_damaged(finished: Path, canon: Canon) -> None:
    shutil.copytree(finished, "run", symlinks=True)
    cut(0.5)(Path("run/best/model.safetensors"))
    code, _, err = canon("train", "run", "--resume", "--quiet")
    assert code == 2 and "run is finished, but" in err and "model.safetensors has" in err


def test_an_edited_recipe_is_refused_and_a_copy_is_a_recipe(finished: Path, canon: Canon) -> None:
    shutil.copytree(finished, "run", symlinks=True)
    recipe = Path("run/recipe.toml")
    recipe.write_text(recipe.read_text().replace("hidden = [", "hidden = [3, "))
    for verb in (("evaluate", "run"), ("convert", "run", "x.onnx", "--to", "onnx"), ("train", "run", "--resume")):
        code, _, err = canon(*verb)
        assert code == 2 and "run/recipe.toml is not as canon wrote it: undo the change" in err, err
    recipe.rename("mine.toml")
    assert canon("train", "mine.toml", "--out", "other", "--quiet").code == 0


def test_a_recipe_edited_without_its_seal_is_a_sentence(finished: Path, canon: Canon) -> None:
    shutil.copytree(finished, "run", symlinks=True)
    recipe = Path("run/recipe.toml")
    first, _, *rest = recipe.read_text().splitlines(keepends=True)
    recipe.write_text("".join([first, *rest]).replace("hidden = [", "hidden = [3, "))
    for verb in (("evaluate", "run"), ("convert", "run", "x.onnx", "--to", "onnx"), RESUME):
        code, _, err = canon(*verb)
        assert code == 2 and "Traceback" not in err, err


# ---- stopped in the midst of an evaluation


@pytest.mark.parametrize("moment", range(1, 9))
def test_stopped_in_an_evaluation_ends_as_never_stopped(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal at the n-th batch of all evaluations, the last of which are the final scores."""
    from canon.tasks.classification import Classification

    monkeypatch.setattr(Classification, "at_once", 2)
    data, changes = str(table(Path("rows.csv"))), {**SHORT, "train.patience": 2}
    whole = train("mlp:tiny", data, Path("whole"), changes=changes, quiet=True)
    inner, calls = Classification.run, []

    def stopping(self: Classification, network: torch.nn.Module, batch: Any, turn: Any) -> Any:
        if not network.training:
            calls.append(1)
            if len(calls) == 3 * moment - 2:
                os.kill(os.getpid(), signal.SIGTERM)
        return inner(self, network, batch, turn)

    monkeypatch.setattr(Classification, "run", stopping)
    with pytest.raises(Interrupted):
        train("mlp:tiny", data, Path("parts"), changes=changes, quiet=True)
    assert len(calls) == 3 * moment - 2, "answered before the next batch"
    train("parts", resume=True, quiet=True)
    assert_same_end(whole.path, Path("parts"))
    kept = [json.loads((path / "last/state.json").read_text()) for path in (whole.path, Path("parts"))]
    assert [{key: state[key] for key in ("best", "waited", "valid", "ended", "due")} for state in kept[:1]] == [
        {key: state[key] for key in ("best", "waited", "valid", "ended", "due")} for state in kept[1:]
    ]


def test_a_bug_leaves_its_traceback_in_the_log(monkeypatch: pytest.MonkeyPatch, canon: Canon) -> None:
    monkeypatch.setattr(Trainer, "_evaluate", lambda self: {}["what was not foreseen"])
    code, out, err = canon("train", "mlp:tiny", "--data", table(Path("rows.csv")), "--out", "run", "--quiet", *SETS)
    assert (code, out) == (1, "") and "Traceback" not in err and "report it with run/log.txt" in err
    log = Path("run/log.txt").read_text()
    assert "Traceback" in log and "what was not foreseen" in log
    with pytest.raises(Unforeseen) as caught:
        train("run", resume=True, quiet=True)
    assert isinstance(caught.value.__cause__, KeyError)


# ---- small data

ROWS = {
    "five rows": "a,b,y\n1,2,p\n2,1,q\n3,3,p\n4,2,q\n5,1,p\n",
    "three rows": "a,b,y\n1,2,p\n2,1,q\n3,3,p\n",
    "numbers": "a,b,y\n1,2,0.5\n2,1,1.5\n3,3,2.5\n4,2,3.5\n5,1,4.5\n",
}


@pytest.mark.parametrize("name", ROWS)
def test_few_rows_are_trained_scored_and_compared(name: str, canon: Canon) -> None:
    Path("rows.csv").write_text(ROWS[name])
    system = "mlp:tiny" if name != "numbers" else "linear-regression"
    for out in ("one", "two"):
        code, _, err = canon("train", system, "--data", "rows.csv", "--out", out, *SETS)
        assert code == 0, err
    result = Run(Path("one")).result
    assert result is not None
    names = {split: list(scores) for split, scores in result["scores"].items()}
    assert len({tuple(actual) for actual in names.values()}) == 1, "every split has all names"
    undefined = [(split, key) for split, of in result["scores"].items() for key, value in of.items() if value is None]
    reported = Path("one/report.html").read_text()
    for split, key in undefined:
        shown = canon("evaluate", "one", "--split", split)
        line = next(line for line in shown.out.splitlines() if line.startswith(key))
        assert shown.code == 0 and line.split() == [key, "–"]
        assert json.loads(canon("evaluate", "one", "--split", split, "--json").out)[key] is None
        assert f"{key} –" in err and "–" in reported
    assert canon("plot", "one").code == 0 and canon("describe", "one").code == 0
    code, out, err = canon("compare", "one", "two", "--out", "both")
    assert code == 0, err
    assert undefined or name == "three rows"


def test_two_folders_of_six_images(canon: Canon) -> None:
    for label in ("cat", "dog"):
        Path("pets", label).mkdir(parents=True)
        for i in range(6):
            Image.fromarray(np.full((8, 8), 20 * i, np.uint8)).save(f"pets/{label}/{i}.png")
    assert canon("train", "mlp:tiny", "--data", "pets", "--out", "run", "--quiet", *SETS).code == 0
    assert canon("evaluate", "run").code == 0


@pytest.mark.parametrize("processes", [2, 4])
def test_more_processes_than_rows(processes: int) -> None:
    """Every step and every score is that of one process."""
    Path("rows.csv").write_text(ROWS["five rows"])
    changes = {**SHORT, "system.dropout": 0.0}
    one = train("mlp:tiny", "rows.csv", Path("one"), changes=changes, quiet=True)
    sets = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [*launch, "-m", "canon", "train", "mlp:tiny", "--data", "rows.csv", "--out", "several", *sets]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert outcome.returncode == 0, outcome.stderr
    for ours, theirs in zip(one.metrics(), Run(Path("several")).metrics(), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


# ---- what the command line is given

LONG = "9" * 5000
DEEP = "[" * 5000 + "]" * 5000
MISTAKES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "a list of sections": ("[[data]]\nsource = 'rows.csv'\n", ("--set", "data.seed=1"), "data must be a table"),
    "a list of sections, and data": ("[[data]]\nsource = 'x'\n", ("--data", "rows.csv"), "data must be a table"),
    "an optimizer that is a list": ("", ("--set", 'optimizer.name=["adam"]'), "No optimizer"),
    "an optimizer's list in a phase": ("", ("--set", 'optimizers.all.name=["adam"]'), "No optimizer"),
    "nested brackets": (f"[train]\nsteps = {DEEP}\n", (), "nested too deeply"),
    "nested brackets by --set": ("", ("--set", f"train.steps={DEEP}"), "nested too deeply"),
    "nested tables by --set": ("", ("--set", f"train.{'a.' * 5000}b=1"), ""),
    "a long number": (f"[train]\nsteps = {LONG}\n", (), "over 4,300 digits"),
    "a long number by --set": ("", ("--set", f"train.steps={LONG}"), "over 4,300 digits"),
    "a long number in hexadecimal": ("", ("--set", f"train.steps=0x{LONG}"), "over 4,300 digits"),
    "too many steps": ("", ("--set", "train.steps=1000000000000000000000"), "train.steps must be at most"),
    "too many epochs": ("", ("--set", "train.epochs=1e300"), "train.epochs must be at most"),
    "too many threads": ("", ("--set", "train.threads=100000"), "train.threads must be at most 1024"),
    "a long name": ("", ("--out", "x" * 300), "file name too long"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str, canon: Canon) -> None:
    recipe, options, sentence = MISTAKES[name]
    table(Path("rows.csv"))
    Path("mine.toml").write_text(recipe + "[system]\nname = 'mlp:tiny'\n" if recipe else recipe)
    what = ("mine.toml",) if recipe else ("mlp:tiny", "--data", "rows.csv")
    code, out, err = canon("train", *what, *SETS, *options)
    assert (code, out) == (2, "") and sentence in err, err
    assert len(err.splitlines()) == 1 and err.startswith("canon: ")
    assert sorted(path.name for path in Path().iterdir()) == ["mine.toml", "rows.csv"]


# ---- of two settings for one thing the later one counts

PAIRS = [
    ("train.batch", 16, "train.tokens"),
    ("train.tokens", 300, "train.batch"),
    ("train.batch", 10**6, "train.tokens"),
]


@pytest.mark.parametrize(("given", "value", "replaced"), PAIRS)
def test_the_later_choice_replaces_the_earlier(given: str, value: int, replaced: str, canon: Canon) -> None:
    text(Path("text.txt"))
    first = {"train.tokens": "tokens = 200", "train.batch": "batch = 4"}[replaced]
    system = "[system]\nname = 'bert:tiny'\n[objective]\nnext_sentence = false\n[data]\nsource = 'text.txt'\n"
    Path("mine.toml").write_text(f"{system}[train]\nsteps = 2\n{first}\ndevice = 'cpu'\n")
    command = ("train", "mine.toml", "--out", "run", "--set", f"{given}={value}")
    code, _, err = canon(*command)
    assert code == 0 and f"{replaced} of the recipe is replaced by {given}." in err, err
    kept = Run(Path("run")).recipe
    assert kept.origins[replaced] == f"replaced by {given}" or replaced == "train.batch"
    assert bool(kept.train.tokens) == (given == "train.tokens")
    if value == 16:
        assert kept.train.batch == 16
    code, _, err = canon(*command, "--resume")
    assert code == 0 and "is finished" in err, err
