"""The fixed cost of a command: `python benchmarks/startup.py` times canon's commands beside importing torch.

Every command is a process, as a user starts it; training writes its report. Data are made here: scikit-learn's wine
(160 rows), text of random words, 10 MB and 2,000 documents, and 2,000 random clicks and ratings each; `digits-softmax`
has its own. A ratio is the median over the rounds of a command's seconds by those of `python -c "import torch"` in the
same round, so that a busy neighbour slows both alike; "cpu" is the same of processor time.
"""

from __future__ import annotations

import csv
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import arguments, of_a_user, write_result

CANON = [sys.executable, "-m", "canon"]
TORCH = [sys.executable, "-c", "import torch"]
RECIPES = {  # system or recipe: its data
    "mlp": "wine.csv",
    "adaboost": "wine.csv",
    "word2vec": "text.txt",
    "glove": "text.txt",
    "fasttext": "text.txt",
    "ngram": "text.txt",
    "fasttext-classifier": "documents.csv",
    "gbdt-lr": "clicks.csv",
    "bpr": "ratings.csv",
    "digits-softmax": "",
    "bm25.toml": "",
}
BM25 = """
[documents]
source = "pages.csv"
[[recall]]
name = "bm25"
"""
ANSWERS = {
    "predict mlp": ["predict", "runs/mlp", "wine.csv"],
    "predict adaboost": ["predict", "runs/adaboost", "wine.csv"],
    "predict ngram": ["predict", "runs/ngram", "--text", "w1 w2 w3"],
    "predict fasttext-classifier": ["predict", "runs/fasttext-classifier", "--text", "w1 w2 w3"],
    "predict gbdt-lr": ["predict", "runs/gbdt-lr", "clicks.csv"],
    "recommend bpr": ["recommend", "runs/bpr", "--user", "3"],
    "search bm25": ["search", "runs/bm25", "w1 w2"],
    "neighbors word2vec": ["neighbors", "runs/word2vec", "w1"],
    "neighbors glove": ["neighbors", "runs/glove", "w1"],
    "neighbors fasttext": ["neighbors", "runs/fasttext", "w1"],
}
GOALS = {
    "train mlp": 2.0,
    "train digits-softmax": 2.0,
    "predict mlp": 1.3,
    "neighbors": 0.5,
}  # by the beginning of a name; else 1


class Spent(NamedTuple):
    wall: float
    cpu: float


def make_data(folder: Path, size: int) -> None:
    """size: bytes of the text, about."""
    from sklearn.datasets import load_wine

    wine, random = load_wine(), np.random.default_rng(0)
    with (folder / "wine.csv").open("w", newline="") as file:
        rows = [[*numbers, f"class {label}"] for numbers, label in zip(wine.data, wine.target, strict=True)]
        csv.writer(file).writerows([[*wine.feature_names, "target"], *rows[9:169]])
    words = np.minimum(random.zipf(1.3, size // 5), 20_000)
    lines = (" ".join(f"w{word}" for word in part) for part in np.array_split(words, max(size // 100, 1)))
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    with (folder / "documents.csv").open("w", newline="") as file:
        draws = np.minimum(random.zipf(1.3, (min(2000, size // 50), 20)), 20_000)
        texts = [[" ".join(f"w{word}" for word in row), "odd" if row[0] % 2 else "even"] for row in draws]
        csv.writer(file).writerows([["text", "label"], *texts])
    with (folder / "pages.csv").open("w", newline="") as file:
        pages = [[number, f"page {number}", text] for number, (text, _) in enumerate(texts)]
        csv.writer(file).writerows([["id", "title", "text"], *pages])
    (folder / "bm25.toml").write_text(BM25)
    fields, users, items = (random.integers(0, most, (2000, 2)) for most in (20, 100, 50))
    with (folder / "clicks.csv").open("w", newline="") as file:
        clicks = [[f"a{a}", f"b{b}", int(random.random() < (a + b) / 40)] for a, b in fields.tolist()]
        csv.writer(file).writerows([["first", "second", "click"], *clicks])
    with (folder / "ratings.csv").open("w", newline="") as file:
        ratings = zip(users[:, 0].tolist(), items[:, 0].tolist(), (1 + items[:, 1] % 5).tolist(), strict=True)
        csv.writer(file).writerows([["user", "item", "rating"], *ratings])


def spend(line: list[str], folder: Path) -> Spent:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(line, cwd=folder, env=of_a_user(), capture_output=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(name: str, line: list[str], folder: Path, repeats: int) -> dict[str, float]:
    """Medians over rounds of `import torch`, then the command; a new run in every round."""
    ratios, seconds = [], []
    for _ in range(repeats):
        if "--out" in line:
            shutil.rmtree(folder / line[line.index("--out") + 1], ignore_errors=True)
        torch, spent = spend(TORCH, folder), spend(line, folder)
        ratios.append((spent.wall / torch.wall, spent.cpu / torch.cpu))
        seconds.append((spent.wall, torch.wall))
    wall, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    own, torch_s = (statistics.median(column) for column in zip(*seconds, strict=True))
    goal = next((goal for start, goal in GOALS.items() if name.startswith(start)), 1.0)
    print(
        f"{name:30s} {own:7.2f} s, import torch {torch_s:.2f} s: {wall:5.2f} × (cpu {cpu:.2f}; goal {goal})", flush=True
    )
    row = {"seconds": own, "import_torch_seconds": torch_s, "ratio": wall, "cpu_ratio": cpu, "goal": goal}
    return {key: round(value, 3) for key, value in row.items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    repeats = 1 if options.quick else options.rounds
    quick = ["--set", "train.epochs=1"] if options.quick else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder, 20_000 if options.quick else 10_000_000)
        commands = {"--help": [*CANON, "--help"], "list systems": [*CANON, "list", "systems"]}
        answers = ANSWERS
        systems = list(RECIPES)
        if options.quick:
            systems, answers = ["adaboost"], {name: ANSWERS[name] for name in ["predict adaboost"]}
        for system in systems:
            name = system.removesuffix(".toml")
            small = f"{system}:tiny" if options.quick else system
            given = ["--data", RECIPES[system]] if RECIPES[system] else []
            commands[f"train {name}"] = [*CANON, "train", small, *given, "--out", f"runs/{name}", *quick]
        commands |= {name: [*CANON, *line] for name, line in answers.items()}
        if not options.quick:
            for line in commands.values():  # kernels are compiled once, before
                spend(line, folder)
        result = {name: measure(name, line, folder, repeats) for name, line in commands.items()}
    write_result("startup", {"commands": result}, options, packages=("torch", "numba", "typer"))


if __name__ == "__main__":
    main()
