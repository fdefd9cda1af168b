"""Bad command lines: exit code 2 and one line on stderr that starts with "canon: ", and nothing is left behind.

Two tables: mistakes written down one by one, and every argument and option of every verb with values that no one means.
Where a value is legitimate (a name for a new folder may have any letters) the command may succeed; nothing else may
happen.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from canon.cli import app, register_verbs
from tests.hostile import small

LONG = "x" * 300
TINY = ("--set", "train.steps=1", "--set", "train.batch=8", "--set", "train.threads=1")

# Of every verb a command line that succeeds, as arguments in order and options.
GOOD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "train": (("mlp:tiny",), ("--data", "good.csv", "--out", "fresh", "--quiet", *TINY)),
    "check": (("good.csv",), ()),
    "evaluate": (("table",), ()),
    "predict": (("table", "good.csv"), ()),
    "translate": (("pairs", "the cat"), ("--beam", "2")),
    "generate": (("story", "the"), ("--length", "3")),
    "neighbors": (("vectors.txt", "cat"), ("--top", "2")),
    "analogy": (("vectors.txt", "cat", "dog", "red"), ("--top", "2")),
    "compare": (("mlp:tiny",), ("--data", "good.csv", "--seeds", "1", "--out", "fresh", *TINY)),
    "tune": (("mlp:tiny",), ("--data", "good.csv", "--seconds", "0.01", "--trials", "1", "--out", "fresh", *TINY)),
    "list": (("systems",), ()),
    "describe": (("mlp:tiny",), ()),
    "plot": (("table",), ("--out", "fresh.png")),
    "encode": (("likeness", "text.txt"), ("--out", "fresh")),
    "search": (("vectors", "the cat"), ("--top", "2")),
    "distill": (("kinds",), ("--texts", "text.txt", "--out", "fresh.jsonl")),
    "convert": (("vectors.txt", "fresh.npy"), ("--to", "numpy")),
    "inspect filters": (("digits",), ("--out", "fresh.png")),
    "inspect features": (("digits", "seven.png"), ("--out", "fresh.png")),
    "inspect attention": (("pairs", "the cat"), ("--out", "fresh.png", "--json", "fresh.json")),
    "inspect gradients": (("table",), ("--out", "fresh.png")),
    "inspect importances": (("order",), ("--out", "fresh.png")),
    "rank": (("order", "judged.letor"), ("--top", "2", "--out", "fresh.csv")),
    "recommend": (("taste",), ("--user", "u1", "--top", "2", "--out", "fresh.jsonl")),
    "play": (("agent",), ("--episodes", "2", "--seed", "1")),
    "features": (("documents.csv", "queries.tsv"), ("--out", "fresh.txt")),
    "claims": ((), ()),
    "claims run": (("ranknet-tie",), ("--seeds", "1", "--out", "fresh")),
    "claims show": (("ranknet-tie",), ()),
    "claims report": (("verdicts",), ()),
    "claims new": (("fresh",), ()),
    "tokenizer train": (("text.txt",), ("--vocab-size", "20", "--out", "fresh.json")),
    "data fetch": (("digits",), ()),
    "data cache": ((), ()),
    "help": (("data",), ()),
}
VALUES = {
    "empty": "",
    "nan": "nan",
    "minus one": "-1",
    "infinite": "1e999",
    "huge": str(10**30),
    "a missing path": "missing/path",
    "a folder": ".",
    "a run": "table",
    "a device": "/dev/null",
    "half a character": "\ud800",
    "long": LONG,
    "two lines": "a\nb",
    "brackets": "[" * 3000,
    "an assignment": "train.steps=" + "9" * 5000,
}

# What names a new file or is said by nobody may be nearly anything: the values that it may not be are enough.
FREE = ("--out", "--figure", "--output", "--json", "--target")
REFUSED = ("empty", "a folder", "a device", "half a character", "long")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from PIL import Image

    folder = small.make(tmp_path_factory.mktemp("commands") / "small")
    Image.new("L", (8, 8)).save(folder / "seven.png")
    return folder


@pytest.fixture
def world(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder to work in; what a command added to it is removed again."""
    monkeypatch.chdir(made)
    before = small.snapshot(made)
    yield made
    for name in sorted(small.snapshot(made).keys() - before.keys()):
        path = made / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    assert small.snapshot(made) == before


def complaint(world: Path, canon: Callable[..., Any], *command: str, may_succeed: bool = False) -> str:
    """What is wrong with how a bad command line was answered; "" for nothing."""
    before = small.snapshot(world)
    code, _, err = canon(*command)
    if may_succeed and code == 0:
        return ""
    after = small.snapshot(world)
    wrong = []
    if code != 2:
        wrong.append(f"exit code {code}")
    if not (err.startswith("canon: ") and err.count("\n") == 1 and err.endswith("\n")) or "Traceback" in err:
        wrong.append("not one line")
    if changed := sorted(name for name in before | after if before.get(name) != after.get(name)):
        wrong.append(f"changed {changed}")
    shown = " ".join(word if len(word) < 80 else f"{word[:20]}…" for word in command)
    return f"{shown}: {', '.join(wrong)}: {err[:400]}" if wrong else ""


# --- Written down one by one


ROWS: list[tuple[str, ...]] = [
    # the command line itself
    ("trian", "mlp"),
    ("train", "--nothing"),
    ("train", "mlp", "softmax-regression"),
    ("train", "--set"),
    ("generate",),
    ("inspect",),
    ("inspect", "everything", "digits"),
    ("tokenizer", "train"),
    ("data", "fetch"),
    # numbers
    *(("translate", "pairs", "cat", "--length-penalty", value) for value in ("nan", "inf", "-inf", "1e400", "x", "")),
    *(("generate", "story", "the", "--temperature", value) for value in ("nan", "inf", "-1", "1e400", "warm")),
    *(("generate", "story", "the", "--top-p", value) for value in ("nan", "inf", "-0.1", "0", "1.1")),
    *(("evaluate", "table", "--threshold", value) for value in ("nan", "-inf", "2")),
    *(("predict", "table", "good.csv", "--threshold", value) for value in ("nan", "inf", "-1")),
    *(("tune", "mlp:tiny", "--seconds", value, "--out", "fresh", *TINY) for value in ("nan", "inf", "-1")),
    *(("generate", "ring", "--count", value, "--out", "x.csv") for value in ("100000000000", str(10**18), str(10**30))),
    *(("generate", "ring", "--count", value, "--out", "x.csv") for value in ("0", "-1", "1.5", "", "many")),
    *(("generate", "ring", "--seed", value, "--out", "x.csv") for value in ("-1", str(2**70), "nan")),
    *(("generate", "story", "the", "--top-k", value) for value in ("0", "-1", "x")),
    *(("generate", "story", "the", "--length", value) for value in ("0", "-1", str(10**30))),
    *(("translate", "pairs", "cat", "--beam", value) for value in ("-1", str(10**30), "wide")),
    *(("translate", "pairs", "cat", "--n-best", value) for value in ("0", str(10**30))),
    *(("translate", "pairs", "cat", "--batch", value) for value in ("0", "-5", str(10**30))),
    *(("neighbors", "vectors.txt", "cat", "--top", value) for value in ("0", "-1", str(10**30), "x")),
    *(("neighbors", "vectors.txt", "cat", "--limit", value) for value in ("-1", str(10**30), "0.5")),
    *(("tokenizer", "train", "text.txt", "--vocab-size", value) for value in ("-1", "2.5", str(10**30))),
    *(("tokenizer", "train", "text.txt", "--min-count", value) for value in ("0", str(10**30))),
    *(("compare", "mlp:tiny", "lenet", "--seeds", value) for value in ("0", "-1", str(10**30))),
    *(("compare", "mlp:tiny", "--budget", value) for value in ("epochs", "epochs=nan", "epochs=-1", "hours=3", "=")),
    *(("inspect", "gradients", "table", "--length", value) for value in ("-1", str(10**30))),
    *(("play", "agent", "--episodes", value) for value in ("0", "1.5", str(10**18), str(10**30))),
    *(("play", "agent", "--seed", value) for value in ("-1", "nan", str(10**30))),
    *(("claims", "run", "ranknet-tie", "--out", "x", "--seeds", value) for value in ("0", "-1", str(10**18), "many")),
    *(("rank", "order", "judged.letor", "--top", value) for value in ("-1", "0.5", str(10**30))),
    *(("features", "documents.csv", "queries.tsv", "--out", "x", "--top", value) for value in ("0", str(10**30))),
    *(("recommend", "taste", "--user", "u1", "--top", value) for value in ("0", "10001", str(10**30))),
    *(("convert", "vectors.txt", "x.npy", "--to", "numpy", "--limit", value) for value in ("-1", str(10**30))),
    *(
        ("convert", "lenet:tiny", "x.onnx", "--to", "onnx", option, value)
        for option in ("--mean", "--std")
        for value in ("nan", "inf", "1,,2", "0", "1;2")
        if (option, value) != ("--mean", "0")
    ),
    # names that no file can have, folders where files are meant, and the reverse
    *(
        (*command, name)
        for command in (
            ("train", "mlp:tiny", "--data", "good.csv", "--quiet", *TINY, "--out"),
            ("compare", "mlp:tiny", "softmax-regression", "--data", "good.csv", "--seeds", "1", *TINY, "--out"),
            ("tune", "mlp:tiny", "--data", "good.csv", "--seconds", "0.01", "--trials", "1", *TINY, "--out"),
            ("generate", "ring", "--out"),
            ("translate", "pairs", "cat", "--output"),
            ("plot", "table", "--out"),
            ("describe", "lenet:tiny", "--figure"),
            ("inspect", "filters", "digits", "--out"),
            ("inspect", "gradients", "table", "--out"),
            ("inspect", "features", "digits", "seven.png", "--out"),
            ("inspect", "attention", "pairs", "the cat", "--json", "-", "--out"),
            ("inspect", "attention", "pairs", "the cat", "--json"),
            ("tokenizer", "train", "text.txt", "--out"),
            ("inspect", "importances", "order", "--out"),
            ("play", "agent", "--record"),
            ("rank", "order", "judged.letor", "--out"),
            ("recommend", "taste", "--user", "u1", "--out"),
            ("features", "documents.csv", "queries.tsv", "--out"),
            ("convert", "table", "--to", "onnx"),
            ("convert", "vectors.txt", "--to", "canon"),
            ("convert", "vectors.txt", "--to", "numpy"),
            ("convert", "vectors.txt", "--to", "word2vec"),
        )
        for name in (
            f"{LONG}.png",
            f"{LONG}.csv",
            f"{LONG}.npy",
            f"{LONG}.onnx",
            f"{LONG}.gif",
            "good.csv/x.png",
            "good.csv/x.csv",
            "good.csv/x.gif",
            ".",
        )
        if not (name == "." and command[0] in ("compare", "tune"))  # which may work here
    ),
    *(("predict", "table", source) for source in (".", "", "/dev/null", "missing.csv", "good.csv/x")),
    *(("check", source) for source in ("", "/dev/null", "missing.csv", LONG, "\ud800", "a\0b")),
    *(("evaluate", run) for run in ("", "/dev/null", "good.csv", LONG, "missing", "\ud800")),
    *(("plot", run) for run in ("", "/dev/null", "good.csv", LONG, "missing")),
    *(("describe", name) for name in ("", "/dev/null", "good.csv", LONG, ".", ":", ":tiny")),
    *(("translate", "pairs", option, value) for option in ("--input", "--reference") for value in ("", ".", LONG)),
    # empty and contradictory
    ("inspect", "attention", "pairs", ""),
    ("inspect", "attention", "pairs", " "),
    ("inspect", "attention", "story", ""),
    ("inspect", "attention", "table", "cat"),
    ("inspect", "filters", "table", "--layer", ""),
    ("inspect", "filters", "digits", "--layer", "nothing"),
    ("inspect", "features", "digits", ""),
    ("neighbors", "vectors.txt", ""),
    ("neighbors", "", "cat"),
    ("analogy", "vectors.txt", "", "", ""),
    ("convert", "", "", "--to", ""),
    ("convert", "table", "x.npy", "--to", ""),
    ("convert", "vectors.txt", "x.npy", "--to", "numpy", "--dtype", ""),
    ("convert", "vectors.txt", "x.npy", "--to", "numpy", "--errors", "guess"),
    ("tokenizer", "train", "text.txt", "--kind", ""),
    ("tokenizer", "train", "text.txt", "--encoding", "rot13"),
    ("tokenizer", "train", "good.csv", "--column", "nothing"),
    ("list", ""),
    ("data", "fetch", ""),
    ("evaluate", "table", "--split", ""),
    ("evaluate", "story", "--task", "missing.jsonl"),
    ("evaluate", "story", "--task", "", "--shots", "3"),
    ("evaluate", "story", "--task", "text.txt", "--words", "="),
    ("compare", ""),
    ("compare", "table", "mlp:tiny"),
    ("tune", "", "--out", "fresh"),
    *(
        ("tune", "mlp:tiny", "--try", value, "--out", "fresh")
        for value in ("", "=", "system.dropout", "system.dropout=")
    ),
    *(
        ("train", "mlp:tiny", "--set", value, "--out", "fresh")
        for value in ("", "=", "=1", "train=", "train.steps=", ".=")
    ),
    ("rank", "order"),
    ("rank", "table", "good.csv"),
    ("rank", "order", "good.csv"),
    ("rank", "order", "judged.letor", "--trec", "two words"),
    ("rank", "order", "judged.letor", "--trec", "canon", "--json"),
    ("recommend", "taste"),
    ("recommend", "table", "--user", "u1"),
    ("recommend", "taste", "--user", ""),
    ("recommend", "taste", "--items", ","),
    ("recommend", "taste", "--items", "i1", "--user", "u1"),
    ("recommend", "taste", "--user", "u1", "--titles", "."),
    ("play", "table"),
    ("play", "agent", "--policy", "sample"),
    ("play", "agent", "--policy", "boldly"),
    ("features", "documents.csv", "--out", "x.txt"),
    ("features", "documents.csv", "elsewhere.tsv", "--out", "x.txt"),
    ("features", "documents.csv", "queries.tsv", "--out", "/dev/null"),
    ("features", "documents.csv", "queries.tsv", "--out", "x.txt", "--column", "body"),
    ("features", "documents.csv", "queries.tsv", "--out", "x.txt", "--labels", "skip-above"),
    ("features", "documents.csv", "queries.tsv", "--out", "x.txt", "--clicks", "clicks.csv", "--labels", "guess"),
    ("features", "documents.csv", "queries.tsv", "--out", "x.txt", "--preset", "most"),
    ("claims", "nothing"),
    ("claims", "run"),
    ("claims", "run", "ranknet-tie", "--all"),
    ("claims", "run", "ranknet-tie", "nothing", "--out", "x"),
    ("claims", "run", "good.csv", "--out", "x"),
    ("claims", "run", "ranknet-tie", "--out", "good.csv"),
    ("claims", "run", "ranknet-tie", "--out", "/dev/null"),
    ("claims", "show", "ranking"),
    ("claims", "report", "."),
    ("claims", "report", "verdicts", "good.csv"),
    ("claims", "new", "good.csv"),
    ("claims", "new", "/dev/null"),
    ("inspect", "importances", "table"),
    ("plot", "table", "--metric", "nothing"),
    ("plot", "activations", "table"),
    ("tokenizer", "train", ""),
    ("describe", "mlp:"),
    ("translate", "pairs", "the cat", "--n-best", "100000"),
    ("generate", "story", "the", "--temperature", "1e-300"),
    # A file that is not there, or where a text is meant.
    *(
        (*verb, name)
        for verb in (("translate", "pairs"), ("generate", "story"), ("inspect", "attention", "pairs"))
        for name in ("missing.txt", "./missing")
    ),
    ("inspect", "attention", "pairs", "text.txt"),
]


@pytest.mark.parametrize("command", ROWS, ids=lambda words: " ".join(word[:12] for word in words))
def test_a_bad_command_line_is_one_sentence(command: tuple[str, ...], world: Path, canon: Callable[..., Any]) -> None:
    assert complaint(world, canon, *command) == ""


# --- Every argument and option


def _places() -> Iterator[tuple[str, str]]:
    """Every verb with each of its arguments (by place) and of its options that take a value."""
    register_verbs()
    root: Any = typer.main.get_command(app)
    for name, command in root.commands.items():
        for verb, one in {f"{name} {sub}": c for sub, c in getattr(command, "commands", {"": command}).items()}.items():
            yield from ((verb.strip(), str(place)) for place in range(len(GOOD[verb.strip()][0])))
            for parameter in one.params:
                if parameter.param_type_name == "option" and not parameter.is_flag:
                    yield verb.strip(), parameter.opts[0]


@pytest.mark.parametrize(("verb", "place"), [*_places()])
def test_no_value_of_any_option_is_more_than_a_sentence(
    verb: str, place: str, world: Path, canon: Callable[..., Any]
) -> None:
    complaints = []
    for value in (VALUES[name] for name in (REFUSED if place in FREE else VALUES)):
        arguments, options = map(list, GOOD[verb])
        if place.isdigit():
            arguments[int(place)] = value
        elif place in options:
            options[options.index(place) + 1] = value
        else:
            options += [place, value]
        # After --, an argument may begin with a dash.
        complaints.append(complaint(world, canon, *verb.split(), *options, "--", *arguments, may_succeed=True))
        remove_outputs()
    assert "\n".join(filter(None, complaints)) == ""


def remove_outputs() -> None:
    for path in Path().glob("fresh*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("verb", sorted(set(GOOD) - {"data fetch"}))  # which goes to the network
def test_every_verb_has_a_good_command_line(verb: str, world: Path, canon: Callable[..., Any]) -> None:
    """Else the tests above would pass for another reason than the one they are for."""
    arguments, options = GOOD[verb]
    code, _, err = canon(*verb.split(), *arguments, *options)
    assert code == 0, err
