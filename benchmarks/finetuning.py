"""Fine-tuning a pre-trained network beside the same network from random weights and a bag of words.

`python benchmarks/finetuning.py --from RUN --seeds 3 --out runs/finetuning` (needs the sets in CANON_DATA). Every row
is one data set: the mean and the standard deviation over seeds of its metric on the test set, each run an ordinary run
directory OUT/SET/WEIGHTS-SEED, which is used as it is if it is finished. Random weights have the same tokenizer, steps
and data. The bag of words is that of benchmarks/baselines.py.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from baselines import of_text
from common import SMALL, arguments, write_result

from canon.interop.backbones import find
from canon.training.run import Run
from canon.training.trainer import train

# Set: metric, epochs, tokens of a sequence.
SETS: dict[str, tuple[str, int, int]] = {
    "sst-2": ("accuracy", 3, 128),
    "cola": ("matthews", 8, 128),
    "sts-b": ("spearman", 8, 128),
    "rte": ("accuracy", 8, 256),
    "ud-english-ewt": ("tag_accuracy", 5, 256),
    "weibo-ner": ("entity_f1", 20, 256),
    "squad": ("f1", 4, 384),
    "openbookqa": ("accuracy", 6, 128),
    "chnsenticorp": ("accuracy", 4, 256),
}


def settings(name: str, source: str, weights: str, seed: int, lr: float, limit: int) -> dict[str, Any]:
    _, epochs, length = SETS[name]
    changes: dict[str, Any] = {
        "train.epochs": float(epochs),
        "train.seed": seed,
        "data.max_length": length,
        "data.limit": limit,
        "optimizer.lr": lr,
    }
    if weights == "random":
        system, pretrained = find(source)
        run = Path(source) / "vocab" / "text.json"
        file = run if run.is_file() else Path(source) / "tokenizer.json"
        changes |= {"system.backbone": system, "system.settings": pretrained.settings}
        return changes | {"data.tokenizer": str(file)}
    return changes | {"train.init": source}


def fit(name: str, source: str, weights: str, seed: int, lr: float, limit: int, out: Path) -> float:
    """The metric on the test set; a finished run is not trained again."""
    path = out / Path(name).stem / f"{weights}-{seed}"
    run = Run(path)
    if not path.exists() or run.result is None:
        changes = settings(name, source, weights, seed, lr, limit)
        run = train("pretrained/finetune", name, path, resume=path.exists(), changes={} if path.exists() else changes)
    assert run.result is not None
    return float(run.result["scores"]["test"][SETS[name][0]])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--from", dest="source", default="", help="a run, or a folder in Hugging Face's format")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--random-lr", type=float, default=3e-4)
    parser.add_argument("--limit", type=int, default=0, help="training examples; 0: all")
    parser.add_argument("--out", type=Path, default=Path("runs/finetuning"))
    options = parser.parse_args()
    if options.quick:
        with tempfile.TemporaryDirectory() as folder:
            options.out, options.seeds, options.sets = Path(folder), 1, [str(SMALL / "sentences.csv")]
            options.source = str(small_network(Path(folder) / "bert"))
            SETS[options.sets[0]] = ("accuracy", 1, 16)
            measure(options)
    elif options.source:
        measure(options)
    else:
        parser.error("name a pre-trained network: --from RUN")


def small_network(path: Path) -> Path:
    """A BERT that has seen a few steps."""
    sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "hidden": 32}
    changes: dict[str, Any] = {f"system.{key}": value for key, value in sizes.items()}
    changes |= {
        "data.tokenizer": "word",
        "data.vocab_size": 0,
        "data.max_length": 32,
        "train.steps": 2,
        "train.batch": 8,
    }
    return train("pretrained/bert", str(SMALL / "documents.txt"), path, changes=changes, quiet=True).path


def measure(options: argparse.Namespace) -> None:
    rows = []
    for name in options.sets:
        row: dict[str, Any] = {
            "data": name,
            "metric": SETS[name][0],
            "bag of words": of_text(name, SETS[name][0], options.limit),
        }
        for weights, lr in (("pre-trained", options.lr), ("random", options.random_lr)):
            scores = [
                fit(name, options.source, weights, seed, lr, options.limit, options.out)
                for seed in range(options.seeds)
            ]
            row[weights] = {"mean": statistics.fmean(scores), "sd": statistics.pstdev(scores), "seeds": scores}
        rows.append(row)
        bag = "–" if row["bag of words"] is None else f"{row['bag of words']:.3f}"
        cells = [f"{row[weights]['mean']:.3f} ± {row[weights]['sd']:.3f}" for weights in ("pre-trained", "random")]
        print(f"| {name} | {row['metric']} | {cells[0]} | {cells[1]} | {bag} |", flush=True)
    result = {
        "from": options.source, "seeds": options.seeds, "lr": options.lr, "random_lr": options.random_lr, "rows": rows,
    }  # fmt: skip
    write_result("finetuning", result, options, packages=("torch", "scikit-learn"))


if __name__ == "__main__":
    main()
