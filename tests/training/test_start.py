"""What a command imports: its fixed cost. Systems that need no torch train, report and answer without it.

Counted by sys.modules in a process of its own, since other tests import everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from canon.registry import SYSTEMS

BATTERY = Path(__file__).parent.parent / "battery"
TEXT, SENTENCES = str(BATTERY / "text.txt"), str(BATTERY / "sentences.csv")
_WATCHED = (
    *("torch", "torch._dynamo", "torch._inductor", "torch.distributed.fsdp", "sympy"),
    *("matplotlib", "sklearn", "scipy", "pandas"),
)
_PROGRAM = f"""
import json, sys
from canon.command import run
for line in json.loads(sys.argv[1]):
    sys.argv = ["canon", *line]
    code = run()
    assert code == 0, line
print("\\n" + json.dumps([name for name in {_WATCHED} if name in sys.modules]))
"""
_ON_A_GRID = ("q-learning", "sarsa", "policy-iteration", "value-iteration")
# The data of a system, and how a run of it answers.
PLAIN = {
    "word2vec": (TEXT, ("neighbors", "run", "six")),
    "glove": (TEXT, ("neighbors", "run", "six")),
    "fasttext": (TEXT, ("neighbors", "run", "six", "sixths")),
    "ngram": (TEXT, ("predict", "run", "--text", "one two three")),
    "fasttext-classifier": (SENTENCES, ("predict", "run", "--text", "twenty one")),
    "adaboost": ("rows.csv", ("predict", "run", "rows.csv")),
    **dict.fromkeys(("bpr", "mf", "ials", "item-knn", "popular"), ("ratings.csv", ("recommend", "run", "--user", "3"))),
    "gbdt-lr": ("clicks.csv", ("predict", "run", "clicks.csv")),
    **dict.fromkeys(_ON_A_GRID, ("FrozenLake-v1", ("play", "run", "--episodes", "1"))),
    "off-policy-evaluation": ("five-state-walk", ("evaluate", "run")),
}


def imported(folder: Path, *lines: tuple[str, ...]) -> set[str]:
    """Of what is watched, what commands have imported that one process carries out."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(lines)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_these_are_all_that_need_no_torch() -> None:
    assert {system.name for system in SYSTEMS if system.torch != "always"} == set(PLAIN)


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A table of two numbers and a class."""
    lines = "".join(f"{i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(60))
    (tmp_path / "rows.csv").write_text(f"x,y,label\n{lines}")
    events = "".join(f"{i % 9},{(i * i + i // 9) % 20},{1 + i % 5}\n" for i in range(100))
    (tmp_path / "ratings.csv").write_text(f"user,item,rating\n{events}")
    clicks = "".join(f"{'pqr'[i % 3]},{'uvw'[i % 7 % 3]},{i % 2}\n" for i in range(100))
    (tmp_path / "clicks.csv").write_text(f"who,what,click\n{clicks}")
    return "rows.csv"


@pytest.mark.parametrize("name", PLAIN)
def test_trained_reported_and_asked_without_torch(name: str, tmp_path: Path, rows: str) -> None:
    """scipy is imported by numba, the others by LightGBM; matplotlib draws an agent's values on its grid."""
    data, answer = PLAIN[name]
    length = "train.epochs=1" if data.endswith(".csv") or data in (TEXT, SENTENCES) else "train.steps=2"
    train = ("train", f"{name}:tiny", "--data", data, "--out", "run", "--set", length, "--quiet")
    drawn = (*_ON_A_GRID, "off-policy-evaluation")
    more = {"gbdt-lr": ("sklearn", "matplotlib"), **dict.fromkeys(drawn, ("matplotlib",))}
    assert imported(tmp_path, train, answer) <= {"scipy", *more.get(name, ())}
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_network_is_trained_with_torch_alone(tmp_path: Path, rows: str) -> None:
    """Nothing of torch that `import torch` leaves out: no compiler, no FSDP."""
    train = ("train", "mlp", "--data", rows, "--out", "run", "--set", "train.epochs=1", "--quiet")
    digits = ("train", "digits-softmax", "--out", "digits", "--set", "train.epochs=1", "--quiet")
    assert imported(tmp_path, train, ("predict", "run", rows), digits) == {"torch"}
