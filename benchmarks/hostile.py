"""Input of faults.py: a good file of every format, to be damaged, and bad command lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attempts import canon
from common import ROOT

_BAD = (
    "",
    " ",
    "nan",
    "-1",
    "0",
    "1e999",
    "9" * 30,
    "9" * 5000,
    "no/such.csv",
    ".",
    "/dev/null",
    "x" * 300,
    "[",
    "$a_{",
    "\udcff",
)
_BAD_SETS = (
    *("train.steps=0", "train.steps=1e9", "train.batch=-1", "train.threads=100000", "train.seed=x", "train.lr=1"),
    *(
        'optimizer.name=["adam"]',
        "optimizer.lr=nan",
        "data.encoding=rot13",
        "data.encoding=base64",
        "data.label=",
        "=1",
    ),
    *(
        "system.hidden=[1000000,1000000]",
        "system.hidden=[]",
        "system.shape=[-1]",
        "system.name=",
        "a.b.c.d=1",
        "train=1",
    ),
    *(
        "x=" + "[" * 5000,
        "train.steps=" + "[" * 5000 + "]" * 5000,
        "train.steps=" + "9" * 5000,
        "data.limit=" + "9" * 30,
    ),
)


def command_lines(run: str) -> Iterator[tuple[str, list[str]]]:
    """Bad command lines, by verb: each option with each bad value, bad settings, and arguments that do not exist."""
    import typer

    from canon.cli import app, register_verbs

    register_verbs()
    whole: Any = typer.main.get_command(app)
    good = {"train": ["mlp:tiny", "--set", "train.steps=2"], "neighbors": [run, "six"], "analogy": [run, "a", "b", "c"]}
    for verb, spec in whole.commands.items():
        groups = getattr(spec, "commands", {}).items()
        commands: dict[tuple[str, ...], Any] = {(verb, name): inner for name, inner in groups} or {(verb,): spec}
        for words, inner in commands.items():
            arguments = good.get(verb, [run])
            for value in _BAD:
                yield verb, [*words, value]
                for parameter in inner.params:
                    option = parameter.opts[0]
                    if option.startswith("--") and not getattr(parameter, "is_flag", False) and option != "--help":
                        yield verb, [*words, *arguments, option, value]
    for value in _BAD_SETS:
        yield "train --set", ["train", "mlp:tiny", "--set", "train.steps=2", "--set", value]


def samples(place: Path, runs: dict[str, Path]) -> dict[str, tuple[Path, list[str]]]:
    """A small good file or folder of each format, and the command that reads it; {} stands for it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    place.mkdir()
    rows = [{"text": f"number {i} is here", "n": i, "label": "ab"[i % 2]} for i in range(30)]
    table = "n,m,label\n" + "".join(f"{i},{i * i},{'ab'[i % 2]}\n" for i in range(30))
    files: dict[str, bytes] = {
        "t.csv": table.encode(),
        "t.tsv": table.replace(",", "\t").encode(),
        "t.csv.gz": gzip.compress(table.encode()),
        "t.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "t.txt": (ROOT / "tests/battery/text.txt").read_bytes(),
        "labels.txt": (ROOT / "tests/battery/labels.txt").read_bytes(),
        "pairs.tsv": (ROOT / "tests/battery/pairs.tsv").read_bytes()[:2000],
        "tags.conll": ("\n".join("one B-NUM\ntwo I-NUM\nthing O\n" for _ in range(12))).encode(),
        "v.txt": b"3 2\na 1 2\nb 3 4\nc 5 6\n",
        "v.bin": b"2 2\na " + b"\0\0\x80?" * 2 + b"\nb " + b"\0\0\0@" * 2 + b"\n",
    }
    answers = [{"text": "two", "answer_start": 4}]
    paragraphs = [
        {"context": "one two three", "qas": [{"id": str(i), "question": "which?", "answers": answers}]}
        for i in range(12)
    ]
    files["squad.json"] = json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}).encode()
    for name, content in files.items():
        (place / name).write_bytes(content)
    pq.write_table(pa.Table.from_pylist(rows), place / "t.parquet")
    np.savez(place / "d.npz", x=np.zeros((12, 3), np.float32), y=np.arange(12) % 2)
    np.save(place / "d.npy", np.zeros((12, 3), np.float32))
    for label in "ab":
        for i in range(6):
            path = place / "pets" / label / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8), 20 * i).save(path)
    conversions = {"bert-hf": ("bert", "huggingface"), "w.txt": ("word2vec", "glove")}
    conversions |= {"w.safetensors": ("word2vec", "safetensors"), "w.npy": ("word2vec", "numpy")}
    for target, (kind, to) in conversions.items():
        outcome = canon(runs[kind].parent, "convert", "run", str(place / target), "--to", to)
        assert outcome.code == 0, outcome.err
    few = ["--out", "run", "--quiet", "--set", "train.steps=2", "--set", "train.batch=4"]
    read = {name: ["check", "{}"] for name in [*files, "t.parquet", "d.npz", "d.npy", "pets"]}
    read |= {f"{name}!": ["train", "mlp:tiny", "--data", "{}", *few] for name in ("t.csv", "t.jsonl", "t.parquet")}
    read |= {
        "pets!": ["train", "lenet:tiny", "--data", "{}", *few],
        "t.txt!": ["train", "rnn-lm:tiny", "--data", "{}", *few],
        "pairs.tsv!": ["train", "seq2seq:tiny", "--data", "{}", *few],
        "labels.txt!": ["train", "fasttext-classifier:tiny", "--data", "{}", *few],
        "v.txt!": ["neighbors", "{}", "a"],
        "v.bin!": ["neighbors", "{}", "a"],
        "bert-hf": ["describe", "{}"],
        "bert-hf!": ["convert", "{}", "copy", "--to", "canon"],
        "w.txt": ["evaluate", "{}", "--data", "wordsim353"],
        "w.safetensors": ["neighbors", "{}", "six"],
        "w.npy": ["neighbors", "{}", "six"],
    }
    return {name: (place / name.rstrip("!"), line) for name, line in read.items()}
