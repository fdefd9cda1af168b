"""What each group of kernels brings to a user's command: the same command with CANON_KERNELS=on and off, in turn.

    python benchmarks/kernels.py [--only GROUP …] [--rounds 3] [--quick]

Texts are drawn from a seed, with words as frequent as in natural ones; runs that a command reads are trained before,
untimed. Timed is the whole command, from the shell to its end; of a training also its own time (`cost.seconds`),
without starting Python, importing torch and loading compiled code. A first round, in which numba compiles, is not
counted. Sizes are such that the plain versions, hundreds of times as slow, take about a minute.
Groups that need a GPU are left out without one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import write_result


class Group(NamedTuple):
    """`OUT` in a command is a run directory or file to write, `RUN` the run that `before` has trained."""

    kernels: str  # the files it goes through
    command: str
    before: str = ""
    gpu: bool = False


TEXT = "--data text.txt --set data.tokenizer=split --set data.limit=LIMIT --set train.threads=1 --set train.epochs=1"
LIGHT = "--set train.evaluate_every=1000000 --set data.valid=0 --set data.test=0"
PAIRS = "--data pairs.tsv --set data.tokenizer=split --set data.target_tokenizer=split --set train.steps=20"
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
    "translate, greedy": Group(
        "transformer, choosing, packed",
        "canon translate RUN --input source.txt --output OUT --beam 1",
        f"canon train transformer:small --out RUN {PAIRS}",
    ),
    "translate, beam 4": Group(
        "transformer, choosing, packed",
        "canon translate RUN --input source.txt --output OUT --beam 4",
        f"canon train transformer:small --out RUN {PAIRS}",
    ),
    "translate, recurrent": Group(
        "choosing, packed",
        "canon translate RUN --input source.txt --output OUT --beam 4",
        f"canon train luong:small --out RUN {PAIRS}",
    ),
    "generate on a CPU": Group(
        "choosing, packed",
        "canon generate RUN the --length 200",
        "canon train gpt2:small --out RUN --data text.txt --set data.tokenizer=split --set data.max_length=64 "
        "--set data.limit=LIMIT --set train.steps=2 --set train.batch=2 --set train.device=cpu",
    ),
    "Transformer on a GPU": Group(
        "short_attention, training/graphs",
        "canon train sequence/pronounce --out OUT --set train.steps=STEPS --set train.evaluate_every=1000000",
        gpu=True,
    ),
    "BERT on a GPU": Group(
        "short_attention, cuda/token_loss, training/graphs",
        "canon train bert:base --out OUT --data text.txt --set data.tokenizer=word --set data.max_length=128 "
        "--set system.next_sentence=false --set train.steps=STEPS --set train.batch=256",
        gpu=True,
    ),
    "generate on a GPU": Group(
        "cuda/step, nn/graphs",
        "canon generate RUN the --length 900",
        "canon train gpt2:small --out RUN --data text.txt --set data.tokenizer=split --set train.steps=2 "
        "--set train.batch=8",
        gpu=True,
    ),
    "word2vec on a GPU": Group(
        "cuda/skip_gram",
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
    rows = random.normal(size=(300 * scale, 100)).astype(np.float32)
    vectors = (f"word{i} {' '.join(map(str, row.tolist()))}" for i, row in enumerate(rows))
    (folder / "vectors.txt").write_text(f"{len(rows)} 100\n" + "\n".join(vectors))


def run(command: str, folder: Path, way: str) -> tuple[float, float | None]:
    """Seconds of a command and, of a training, those that it counted itself."""
    begun, out = time.perf_counter(), folder / "out" / way
    arguments = command.replace("OUT", str(out)).split()[1:]
    environment = {**os.environ, "CANON_KERNELS": way, "CANON_DATA": str(folder / "data")}
    subprocess.run(["rm", "-rf", str(out)], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "canon", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stderr}")
    result = out / "result.json"
    return seconds, json.loads(result.read_text())["cost"]["seconds"] if result.is_file() else None


def measured(group: Group, folder: Path, rounds: int) -> dict[str, Any]:
    if group.before:
        run(group.before, folder, "on")
    whole: dict[str, list[float]] = {"on": [], "off": []}
    inner: dict[str, list[float]] = {"on": [], "off": []}
    run(group.command, folder, "on")
    for _ in range(rounds):
        for way in whole:
            seconds, counted = run(group.command, folder, way)
            whole[way].append(seconds)
            inner[way] += [] if counted is None else [counted]
    medians = {way: round(statistics.median(values), 3) for way, values in whole.items()}
    found: dict[str, Any] = {"kernels": group.kernels, "seconds": medians, "range": whole}
    found["ratio"] = round(medians["off"] / medians["on"], 2)
    if inner["on"]:
        alone = {way: round(statistics.median(values), 4) for way, values in inner.items()}
        found["training_seconds"] = alone
        found["training_ratio"] = round(alone["off"] / max(alone["on"], 1e-3), 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(GROUPS), default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="two groups in small, to see that it works; stores nothing"
    )
    options = parser.parse_args()
    import torch

    scale, rounds = (1, 1) if options.quick else (20, options.rounds)
    chosen = options.only or (QUICK if options.quick else list(GROUPS))
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out").mkdir()
        write_texts(folder, scale)
        for title in chosen:
            group = GROUPS[title]
            if group.gpu and not torch.cuda.is_available():
                continue
            sizes = {"LIMIT": str(1000 * scale), "STEPS": str(10 * scale), "RUN": str(folder / f"run-{len(results)}")}
            command, before = group.command, group.before
            for key, value in sizes.items():
                command, before = command.replace(key, value), before.replace(key, value)
            found = results[title] = measured(group._replace(command=command, before=before), folder, rounds)
            line = f"{title:22s} on {found['seconds']['on']:7.2f} s, off {found['seconds']['off']:7.2f} s: "
            line += f"{found['ratio']:.2f} ×"
            if "training_ratio" in found:
                line += f"   training alone {found['training_ratio']:.1f} ×"
            print(f"{line}   ({group.kernels})", flush=True)
    if not options.quick:
        command = f"python benchmarks/kernels.py {' '.join(sys.argv[1:])}".strip()
        path = write_result("kernels", {"groups": results}, command=command, packages=("torch", "numba"))
        print(f"written to {path}")


if __name__ == "__main__":
    main()
