"""Commands of a user that use kernels, in small: python -m tests.kernels.runs FOLDER

Run with CANON_KERNELS=on and off; tests/kernels/test_switch.py compares the files that both leave."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.battery.runs import fit

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "window": ("word2vec", {}),
    "pair": ("word2vec", {"system__update": "pair"}),
    "cbow": ("word2vec", {"system__architecture": "cbow", "objective__name": "hierarchical-softmax"}),
    "subwords": ("fasttext", {"system__buckets": 200}),
    "glove": ("glove", {"system__window": 3}),
    "classifier": ("fasttext-classifier", {"system__word_ngrams": 2, "system__buckets": 500}),
    "transformer": ("transformer", {"system__beam": 2}),
}


def command(*arguments: object) -> None:
    from canon.command import run

    sys.argv = ["canon", *map(str, arguments)]
    assert run() == 0, arguments


def main(folder: Path) -> None:
    for name, (system, changes) in RUNS.items():
        fit(system, folder / name, 3, **changes)
    text = folder / "vectors.txt"
    command("convert", folder / "window", text, "--to", "word2vec-text")
    command("convert", text, folder / "vectors.bin", "--to", "word2vec")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
