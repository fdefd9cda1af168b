"""What each group of kernels brings to a user's command: the same command with CANON_KERNELS=on and off, in turn.

    python benchmarks/kernels.py [--only GROUP …] [--rounds 3] [--quick]

Texts are drawn from a seed, with words as frequent as in natural ones; runs that a command reads are trained before,
untimed. Timed is the whole command, from the shell to its end; of a training also its own time (`cost.seconds`),
without starting Python, importing torch and loading compiled code. A first call, in which numba compiles, is not
counted. Sizes are such that the plain versions, hundreds of times as slow, take about a minute.
Groups that need a GPU are left out without one. `--quick` times two groups.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import ROOT, arguments, interleaved, own_cache, show_ratios, summary, write_result


class Group(NamedTuple):
    """`OUT` in a command is a run directory or file to write, `RUN` the run that `before` has trained."""

    kernels: str  # the files it goes through, in canon/kernels/cpu or canon
    command: str
    before: str = ""
    gpu: bool = False


TEXT = "--data text.txt --set data.tokenizer=split --set data.limit=LIMIT --set train.threads=1 --set train.epochs=1"
LIGHT = "--set train.evaluate_every=1000000 --set data.valid=0 --set data.test=0"
PAIRS = "--data pairs.tsv --set data.tokenizer=split --set data.target_tokenizer=split --set train.steps=20"
EVENTS = "--data events.csv --set data.seed=1 --set train.epochs=1 --set train.threads=1"
GROUPS = {
    "counting words": Group("corpus", "canon check counted.txt"),
    "word2vec, window": Group("word2vec, lanes", f"canon train word2vec --out OUT {TEXT} {LIGHT}"),
    "word2vec, pair": Group(
        "word2vec, lanes", f"canon train word2vec --out OUT {TEXT} {LIGHT} --set system.update=pair"
    ),
    "word2vec, cbow": Group("word2vec, lanes", f"canon train words/cbow --out OUT {TEXT} {LIGHT}"),
    "fasttext": Group("fasttext, subwords, lanes", f"canon train fasttext --out OUT {TEXT} {LIGHT}"),
    "glove": Group("glove, cooccurrence", f"canon train glove --out OUT {TEXT} {LIGHT}"),
    "classifier": Group(
        "classifier, subwords, lanes",
        f"canon train fasttext-classifier --out OUT --data labels.txt {LIGHT} --set system.word_ngrams=2 "
        "--set train.threads=1 --set train.epochs=5",
    ),
    "files of vectors": Group("vectors, words", "canon convert vectors.txt OUT --to word2vec"),
    "bpr": Group("factors", f"canon train bpr --out OUT {EVENTS} --set system.dim=32"),
    "mf": Group("factors", f"canon train mf --out OUT {EVENTS} --set system.dim=32"),
    "ials": Group("least_squares", f"canon train ials --out OUT {EVENTS} --set system.dim=32"),
    "item-knn": Group("neighbours", f"canon train item-knn --out OUT {EVENTS}"),
    "scores of items": Group(
        "top_items", "canon evaluate RUN --json", f"canon train bpr --out RUN {EVENTS} --set system.dim=32"
    ),
    "reading LETOR": Group("letor", "canon check queries.txt"),
    "a table by acting": Group("tabular", "canon train control/cliff --out OUT --set train.steps=TABLE"),
    "translate, greedy": Group(
        "transformer, choosing, nn/packed",
        "canon translate RUN --input source.txt --output OUT --beam 1",
        f"canon train transformer:small --out RUN {PAIRS}",
    ),
    "translate, beam 4": Group(
        "transformer, choosing, nn/packed",
        "canon translate RUN --input source.txt --output OUT --beam 4",
        f"canon train transformer:small --out RUN {PAIRS}",
    ),
    "translate, recurrent": Group(
        "choosing, nn/packed",
        "canon translate RUN --input source.txt --output OUT --beam 4",
        f"canon train luong:small --out RUN {PAIRS}",
    ),
    "generate on a CPU": Group(
        "choosing, nn/packed",
        "canon generate RUN the --length 200",
        "canon train gpt2:small --out RUN --data text.txt --set data.tokenizer=split --set data.max_length=64 "
        "--set data.limit=LIMIT --set train.steps=2 --set train.batch=2 --set train.device=cpu",
    ),
    "Transformer on a GPU": Group(
        "kernels/cuda/short_attention, training/graphs",
        "canon train sequence/pronounce --out OUT --set train.steps=STEPS --set train.evaluate_every=1000000",
        gpu=True,
    ),
    "BERT on a GPU": Group(
        "kernels/cuda/short_attention, kernels/cuda/token_loss, training/graphs",
        "canon train bert:base --out OUT --data text.txt --set data.tokenizer=word --set data.max_length=128 "
        "--set objective.next_sentence=false --set train.steps=STEPS --set train.batch=256",
        gpu=True,
    ),
    "generate on a GPU": Group(
        "kernels/cuda/step, nn/graphs",
        "canon generate RUN the --length 900",
        "canon train gpt2:small --out RUN --data text.txt --set data.tokenizer=split --set train.steps=2 "
        "--set train.batch=8",
        gpu=True,
    ),
    "word2vec on a GPU": Group(
        "kernels/cuda/skip_gram",
        f"canon train word2vec --out OUT --data long.txt --set data.tokenizer=split --set train.epochs=5 {LIGHT}",
        gpu=True,
    ),
}
QUICK = ["word2vec, window", "translate, greedy"]


def write_texts(folder: Path, scale: int) -> None:
    """scale: thousands of words of the text that is learned from."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, 8001)
    words = ["the", *(f"word{i}" for i in range(1, 8000))]

    def lines(count: int) -> list[str]:
        drawn = random.choice(8000, (max(count // 10, 20), 10), p=shares / shares.sum())
        return [" ".join(words[i] for i in row) for row in drawn]

    text = lines(1000 * scale)
    (folder / "text.txt").write_text("\n".join(text))
    (folder / "counted.txt").write_text("\n".join(lines(20_000 * scale)))
    (folder / "long.txt").write_text("\n".join(lines(100_000 * scale)))
    (folder / "labels.txt").write_text("\n".join(f"__label__{len(line) % 4} {line}" for line in text))
    (folder / "pairs.tsv").write_text("\n".join(f"{line}\t{line}" for line in text))
    (folder / "source.txt").write_text("\n".join(text[:200]))
    users = random.integers(10 * scale, size=500 * scale).tolist()
    items = np.minimum(random.zipf(1.2, 500 * scale), 500).tolist()
    pairs = sorted(set(zip(users, items, strict=True)))
    (folder / "events.csv").write_text("user,item\n" + "\n".join(f"u{user},i{item}" for user, item in pairs))
    values = random.random((3000 * scale, 46)).round(6).tolist()
    features = (" ".join(f"{place}:{value}" for place, value in enumerate(row, start=1)) for row in values)
    queries = (f"{row % 3} qid:{row // 20} {line}" for row, line in enumerate(features))
    (folder / "queries.txt").write_text("\n".join(queries) + "\n")
    rows = random.normal(size=(300 * scale, 100)).astype(np.float32)
    vectors = (f"word{i} {' '.join(map(str, row.tolist()))}" for i, row in enumerate(rows))
    (folder / "vectors.txt").write_text(f"{len(rows)} 100\n" + "\n".join(vectors))


def run(command: str, folder: Path, way: str, clocks: dict[str, list[float]] | None = None) -> None:
    """Carries out a command; what a training counts itself is kept in `clocks`."""
    out = folder / "out" / way
    shutil.rmtree(out.parent, ignore_errors=True)
    out.parent.mkdir()
    given = command.replace("OUT", str(out)).split()[1:]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CANON_KERNELS": way, **own_cache(folder)}
    line = [sys.executable, "-m", "canon", *given]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stderr}")
    result = out / "result.json"
    if clocks is not None and result.is_file():
        clocks[way].append(json.loads(result.read_text())["cost"]["seconds"])


def measured(group: Group, folder: Path, rounds: int) -> dict[str, Any]:
    if group.before:
        run(group.before, folder, "on")
    run(group.command, folder, "on")
    clocks: dict[str, list[float]] = {"on": [], "off": []}
    calls = {way: partial(run, group.command, folder, way, clocks) for way in clocks}
    times = summary(interleaved(calls, repeats=rounds, warmup=0))
    result = {"kernels": group.kernels, "seconds": times, "ratio": show_ratios(times, "off")["on"]}
    if clocks["on"]:
        training = {way: round(statistics.median(seconds), 4) for way, seconds in clocks.items()}
        result["training_seconds"] = training
        result["training_ratio"] = round(training["off"] / max(training["on"], 1e-3), 1)
        print(f"training alone: {result['training_ratio']:.1f} ×", flush=True)
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", choices=list(GROUPS), default=[])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    scale, rounds = (1, 1) if options.quick else (20, options.rounds)
    chosen = options.only or (QUICK if options.quick else list(GROUPS))
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_texts(folder, scale)
        for title in chosen:
            group = GROUPS[title]
            if group.gpu and not torch.cuda.is_available():
                continue
            sizes = {
                "LIMIT": str(1000 * scale),
                "STEPS": str(10 * scale),
                "TABLE": str(100 * scale),
                "RUN": str(folder / f"run-{len(results)}"),
            }
            command, before = group.command, group.before
            for key, value in sizes.items():
                command, before = command.replace(key, value), before.replace(key, value)
            print(f"{title} ({group.kernels})", flush=True)
            results[title] = measured(group._replace(command=command, before=before), folder, rounds)
    write_result("kernels", {"groups": results}, options, packages=("torch", "numba"))


if __name__ == "__main__":
    main()
