"""Skip-gram on a GPU against canon's CPU path beside it: `python benchmarks/word2vec_gpu.py` (needs CUDA and triton).

One program of the kernel is one word with all its contexts and one set of noise words, as update = "window" on the CPU.
Thousands of them run at once and add to the same matrices by atomic operations, without waiting for each other.
Same corpus (wiki-words in CANON_DATA), vocabulary and settings; speed in words of the corpus per second, quality by the
three tests of word vectors. Whether a GPU path is worth having is what this tells.
Shapes: M words kept of an epoch, V words, D dimensions (S with what fills a row up), K noise words.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from common import write_result

from canon.data.words import Words
from canon.systems.words.sampling import alias_table, keep_limits, noise_shares

DIM, WINDOW, NEGATIVES, SUBSAMPLE, LR = 100, 5, 5, 1e-3, 0.025


@triton.jit
def skip_gram(
    kept, sentence, size, input_VS, output_VS, threshold_V, other_V, vocabulary, seed, lr_first, lr_last, tally,
    WINDOW: tl.constexpr, OUTPUTS: tl.constexpr, ROWS: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """x ← x + Σ_k g_k o_k and o_k ← o_k + Σ_x g_k x with g = lr (label − σ(x·o)), for every x around one word."""
    place = tl.program_id(0)
    here = tl.load(kept + place)
    line = tl.load(sentence + place)
    lr = lr_first + (lr_last - lr_first) * place / size
    reach = 1 + (tl.rand(seed, place * 16) * WINDOW).to(tl.int32)
    k = tl.arange(0, ROWS)
    lanes = tl.arange(0, STRIDE)
    # Alias method: a row evenly, then itself or its other.
    drawn = (tl.rand(seed, place * 16 + 1 + k) * vocabulary).to(tl.int32)
    chance = tl.rand(seed + 1, place * 16 + 1 + k)
    drawn = tl.where(chance < tl.load(threshold_V + drawn), drawn, tl.load(other_V + drawn))
    outputs = tl.where(k == 0, here, drawn)
    counted = (k < OUTPUTS) & ((k == 0) | (drawn != here))
    label = tl.where(k == 0, 1.0, 0.0)
    where_RS = output_VS + outputs[:, None] * STRIDE + lanes[None, :]
    o_RS = tl.load(where_RS, mask=counted[:, None], other=0.0)
    more_RS = tl.zeros((ROWS, STRIDE), tl.float32)
    loss = 0.0
    pairs = 0.0
    for step in range(2 * WINDOW):
        away = tl.where(step < WINDOW, step - WINDOW, step - WINDOW + 1)
        other = place + away
        inside = (other >= 0) & (other < size) & (away <= reach) & (-away <= reach)
        inside = inside & (tl.load(sentence + other, mask=inside, other=-1) == line)
        if inside:
            word = tl.load(kept + other)
            at_S = input_VS + word * STRIDE + lanes
            x_S = tl.load(at_S)
            f_R = tl.sum(o_RS * x_S[None, :], axis=1)
            p_R = 1.0 / (1.0 + tl.exp(-f_R))
            g_R = tl.where(counted, lr * (label - p_R), 0.0)
            right_R = tl.where(label > 0, p_R, 1.0 - p_R)
            loss -= tl.sum(tl.where(counted, tl.log(tl.maximum(right_R, 1e-7)), 0.0))
            pairs += 1.0
            more_RS += g_R[:, None] * x_S[None, :]
            tl.atomic_add(at_S, tl.sum(g_R[:, None] * o_RS, axis=0), sem="relaxed")
    tl.atomic_add(where_RS, more_RS, mask=counted[:, None], sem="relaxed")
    tl.atomic_add(tally + place % 1024, loss, sem="relaxed")
    tl.atomic_add(tally + 1024 + place % 1024, pairs, sem="relaxed")


class OnGpu:
    """The matrices and tables on the device, and an epoch at a time."""

    def __init__(self, tokens_N: np.ndarray, words: Words, device: str = "cuda", dim: int = DIM, seed: int = 0) -> None:
        self.device, self.words, self.dim, self.seed = device, words, dim, seed
        self.stride = triton.next_power_of_2(dim)
        self.tokens_N = torch.from_numpy(np.array(tokens_N, dtype=np.int32)).to(device)
        generator = torch.Generator().manual_seed(seed)
        input_VD = (torch.rand(words.size, dim, generator=generator) - 0.5) / dim
        self.input_VS = torch.nn.functional.pad(input_VD, (0, self.stride - dim)).to(device)
        self.output_VS = torch.zeros_like(self.input_VS)
        threshold_V, other_V = alias_table(noise_shares(words.counts))
        self.threshold_V = torch.from_numpy(np.asarray(threshold_V, np.float64) / 2**32).float().to(device)
        self.other_V = torch.from_numpy(np.ascontiguousarray(other_V, np.int32)).to(device)
        keep_V = np.asarray(keep_limits(words.counts, SUBSAMPLE), np.float64) / 2**32
        self.keep_V = torch.from_numpy(keep_V).float().to(device)
        self.draws = torch.Generator(device).manual_seed(seed)

    def epoch(self, number: int, epochs: int, blocks: int = 20) -> float:
        """One pass; returns the mean loss per pair. The rate falls linearly over all epochs."""
        marks_N = self.tokens_N < 0
        chance_N = torch.rand(len(self.tokens_N), generator=self.draws, device=self.device)
        stays_N = marks_N | (chance_N < self.keep_V[self.tokens_N.clamp(min=0).long()])
        sentence_M = (marks_N.cumsum(0, dtype=torch.int32))[stays_N & ~marks_N]
        kept_M = self.tokens_N[stays_N & ~marks_N]
        tally = torch.zeros(2048, device=self.device)
        edges = np.linspace(0, len(kept_M), blocks + 1).astype(int)
        for block, (start, stop) in enumerate(pairwise(edges)):
            done = (number + np.array([block, block + 1]) / blocks) / epochs
            first, last = (LR * max(1 - share, 1e-4) for share in done)
            skip_gram[(int(stop - start),)](
                kept_M[start:stop], sentence_M[start:stop], int(stop - start), self.input_VS, self.output_VS,
                self.threshold_V, self.other_V, self.words.size, self.seed * 1000 + number * blocks + block,
                float(first), float(last), tally, WINDOW=WINDOW, OUTPUTS=1 + NEGATIVES,
                ROWS=triton.next_power_of_2(1 + NEGATIVES), STRIDE=self.stride, num_warps=1,
            )  # fmt: skip
        loss, pairs = tally.double().reshape(2, 1024).sum(1).tolist()
        return loss / pairs

    def vectors(self) -> np.ndarray:
        return self.input_VS[:, : self.dim].cpu().numpy()


def main() -> None:
    from canon import recipe as recipes
    from canon.tasks.word_vectors import WordVectors
    from canon.training.plan import read_data
    from canon.training.trainer import train

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    changes = {"train.epochs": arguments.epochs}
    recipe = recipes.load("words/wiki-skipgram", changes=changes)
    data = read_data(recipe)
    task = WordVectors(recipe.system.objective, recipe.config, data.schema)
    columns = data.splits["train"]
    corpus: Any = columns["input"]
    size = int((corpus.tokens >= 0).sum())
    found: dict[str, Any] = {"gpu": {"words_per_second": [], "tests": []}, "cpu": {"words_per_second": [], "tests": []}}
    for seed in range(arguments.seeds):
        learner = OnGpu(corpus.tokens, corpus.words, seed=seed)
        learner.epoch(0, 1000, blocks=1000)  # compiles
        learner = OnGpu(corpus.tokens, corpus.words, seed=seed)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for number in range(arguments.epochs):
            loss = learner.epoch(number, arguments.epochs)
        torch.cuda.synchronize()
        rate = arguments.epochs * size / (time.perf_counter() - begun)
        told = {"loss": torch.tensor([loss]), "pairs": torch.ones(1), "vectors": torch.from_numpy(learner.vectors())}
        scores = task.score(told, columns)
        print(f"GPU seed {seed}: {rate:,.0f} words/s, loss {loss:.4f}, {scores}", flush=True)
        found["gpu"]["words_per_second"].append(round(rate))
        found["gpu"]["tests"].append(scores)
        with tempfile.TemporaryDirectory() as folder:
            own = {**changes, "train.seed": seed}
            result = train("words/wiki-skipgram", out=Path(folder) / "run", changes=own, quiet=True).result
        assert result is not None
        rate = arguments.epochs * size / result["cost"]["seconds"]
        print(f"CPU seed {seed}: {rate:,.0f} words/s, {result['scores']['train']}", flush=True)
        found["cpu"]["words_per_second"].append(round(rate))
        found["cpu"]["tests"].append(result["scores"]["train"])
    medians = {name: statistics.median(part["words_per_second"]) for name, part in found.items()}
    print(f"ratio {medians['gpu'] / medians['cpu']:.2f}×")
    result = {**found, "device": torch.cuda.get_device_name(), "ratio": round(medians["gpu"] / medians["cpu"], 3)}
    write_result("word2vec_gpu", result, command="python benchmarks/word2vec_gpu.py", packages=("torch", "triton"))


if __name__ == "__main__":
    main()
