"""Skip-gram on a GPU against canon's CPU path beside it: `python benchmarks/word2vec_gpu.py` (needs CUDA and triton).

Same text (wiki-words in CANON_DATA), vocabulary, settings and steps; all threads of the CPU. Speed in words of the text
per second over all epochs, after one epoch that compiles; quality by three tests of word vectors over the seeds.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import write_result
from wiki_words import judged, learn, options_of, write_text


def main() -> None:
    options = options_of(__doc__)
    devices = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
    if "cuda" not in devices:
        print("There is no GPU here: only the CPU is measured.")
    measured: dict[str, Any] = {device: {"words_per_second": [], "tests": []} for device in devices}
    with tempfile.TemporaryDirectory() as folder:
        text = write_text(Path(folder), options)
        for device, row in measured.items():
            settings = {"train.device": device, "system.dim": options.dim}
            learn(text, "words/word2vec", 1, 0, settings)  # compiles
            for seed in range(1, options.seeds + 1):
                learned = learn(text, "words/word2vec", options.epochs, 0, settings, seed)
                row["words_per_second"].append(round(options.epochs * text.words / learned.seconds))
                row["tests"].append(judged(learned.matrix, learned.words, text.tests))
                print(device, seed, f"{row['words_per_second'][-1]:,} words/s", row["tests"][-1], flush=True)
    result = {**measured, "threads": torch.get_num_threads()}
    if "cuda" in devices:
        medians = {device: statistics.median(row["words_per_second"]) for device, row in measured.items()}
        result |= {"device": torch.cuda.get_device_name(), "ratio": round(medians["cuda"] / medians["cpu"], 2)}
        print(f"ratio {result['ratio']} ×")
    write_result("word2vec_gpu", result, options, packages=("torch", "triton"))


if __name__ == "__main__":
    main()
