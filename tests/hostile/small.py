"""A folder with a run of every kind after two steps, and files of every kind, for commands to be tried on."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from canon.claims.lab import run
from canon.claims.record import find
from canon.training.trainer import train
from canon.use.search.folder import encode

WORDS = ("the", "cat", "dog", "sees", "a", "red", "big", "house")
SHORT = {"train.steps": 2, "train.batch": 8, "train.threads": 1}
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "table": ("mlp:tiny", "good.csv", {}),
    "digits": ("lenet:tiny", "", {"data.limit": 40}),
    "ring": ("gan:tiny", "points.csv", {}),
    "pairs": ("transformer:tiny", "pairs.tsv", {"data.tokenizer": "word", "data.max_length": 20, "train.tokens": 0}),
    "story": ("rnn-lm:tiny", "text.txt", {"data.tokenizer": "word", "data.window": 8}),
    "likeness": ("embed:tiny", "alike.csv", {}),
    "kinds": ("finetune:tiny", "kinds.csv", {}),
    "words": ("word2vec:tiny", "text.txt", {"data.min_count": 1, "data.test": 0.0}),
    "order": ("lambdamart:tiny", "judged.letor", {}),
    "taste": ("item-knn:tiny", "ratings.csv", {}),
    "agent": ("q-learning:tiny", "five-state-walk", {}),
}


def make(folder: Path) -> Path:
    chance = np.random.default_rng(0)
    texts = [" ".join(chance.choice(WORDS, 6)) for _ in range(60)]
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder):
        Path("good.csv").write_text(
            "age,city,label\n" + "".join(f"{i},{'PQ'[i % 3 > 0]},{'ab'[i % 2]}\n" for i in range(40))
        )
        Path("points.csv").write_text("x,y\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in chance.normal(size=(40, 2))))
        Path("text.txt").write_text("\n".join(texts))
        Path("pairs.tsv").write_text("".join(f"{text}\t{text.upper()}\n" for text in texts))
        Path("vectors.txt").write_text("".join(f"{word} {i} {i % 3} 1\n" for i, word in enumerate(WORDS)))
        Path("similar.tsv").write_text("cat\tdog\t3\nred\tbig\t1\nthe\ta\t9\n")
        Path("alike.csv").write_text("anchor,positive\n" + "".join(f"{text},{text[::-1]}\n" for text in texts))
        Path("kinds.csv").write_text("text,label\n" + "".join(f"{t},{'ab'[i % 2]}\n" for i, t in enumerate(texts)))
        Path("judged.letor").write_text(
            "".join(f"{i % 3} qid:{i // 5} 1:{x:.3f} 2:{y:.3f}\n" for i, (x, y) in enumerate(chance.random((40, 2))))
        )
        Path("ratings.csv").write_text(
            "user,item,rating\n" + "".join(f"u{i // 6},i{i * i % 11},{i % 5 + 1}\n" for i in range(60))
        )
        Path("documents.csv").write_text("id,title,body\nd1,cat,the cat sees\nd2,dog,a big red dog\n")
        Path("queries.tsv").write_text("id\tquery\nq1\tred dog\nq2\tthe cat\n")
        Path("elsewhere.tsv").write_text("id\tquery\nq1\tzebra\n")
        Path("qrels.txt").write_text("q1 0 d2 2\nq2 0 d1 1\n")
        Path("titles.csv").write_text("item,title\ni0,First\ni1,Second\n")
        Path("clicks.csv").write_text("query,document,position,clicked\nq1,d1,1,0\nq1,d2,2,1\n")
        for name, (system, data, more) in RUNS.items():
            train(system, data, name, changes={**SHORT, **more}, quiet=True)
        encode("likeness", ["text.txt"], "vectors")
        run(find("ranknet-tie")[0], out=Path("verdicts"), say=lambda _: None)
    return folder


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """All that is below a folder: of what kind it is, how large, and when it was written."""
    values = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        values[str(path.relative_to(folder))] = (
            about.st_mode,
            about.st_size,
            0 if path.is_dir() else about.st_mtime_ns,
        )
    return values
