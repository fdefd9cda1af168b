"""How long a batch of pre-training takes to compose: 128 passages of 512 tokens, each objective.

python benchmarks/objectives.py

A sentence has 22 tokens on average, a word 1.3; everything lies in memory. The loader composes in a thread of its own,
one batch ahead: what counts is that it takes less than a step.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from canon.data.batching.composer import Composer
from canon.data.batching.draws import Draws
from canon.data.batching.passages import SENTENCE, WORD, Passages
from canon.data.text.framing import Specials
from canon.objectives.record import Choice
from canon.objectives.table import BY_NAME

PASSAGES, LENGTH, REPEATS = 128, 512, 30
SPECIALS = Specials(pad=0, unk=1, cls=2, sep=3, mask=4, bos=2, eos=3, sentinels=tuple(range(5, 105)))
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "masked tokens": ("masked", {}),
    "masked words": ("masked", {"masking": "word"}),
    "masked spans": ("masked", {"masking": "span"}),
    "masked tokens, next sentences": ("masked", {"next_sentence": True}),
    "masked words, next sentences": ("masked", {"masking": "word", "next_sentence": True}),
    "causal": ("causal", {}),
    "permutation": ("permutation", {}),
    "corruption": ("corruption", {}),
    "prefix": ("prefix", {"masking": "span", "next_sentence": True}),
    "continual": ("continual", {}),
}


def column() -> Passages:
    chance = np.random.default_rng(0)
    sentences = np.concatenate([[0], np.cumsum(chance.integers(5, 40, 100_000))])
    documents = np.concatenate([np.arange(0, 100_000, 100), [100_000]])
    total = int(sentences[-1])
    begins = np.where(chance.random(total) < 1 / 1.3, WORD, 0).astype(np.uint8)
    begins[sentences[:-1]] |= WORD | SENTENCE
    tokens = chance.integers(105, 30_000, total).astype(np.uint16)
    return Passages(tokens, begins, sentences, documents, LENGTH, SPECIALS, 30_000)


def main() -> None:
    passages = column()
    full = np.flatnonzero(passages.lengths > 0.9 * LENGTH)
    print(f"{PASSAGES} passages of {passages.lengths[full].mean():.0f} tokens, milliseconds: median (fastest)")
    for name, (objective, settings) in CASES.items():
        record = BY_NAME[objective]
        pretext = Choice(record, record.tasks["pretraining"](**settings)).create()
        composer, times = Composer(pretext, passages), []
        for step in range(REPEATS):
            indices = np.random.default_rng(step).choice(full, PASSAGES)
            begin = time.perf_counter()
            composer(indices, np.arange(PASSAGES), Draws(1, step))
            times.append(1e3 * (time.perf_counter() - begin))
        print(f"{name:32}{np.median(times[3:]):6.1f} ({min(times):.1f})")


if __name__ == "__main__":
    main()
