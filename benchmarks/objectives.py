"""How long a batch of pre-training takes to compose: 128 passages of 512 tokens, each objective.

    python benchmarks/objectives.py [--quick]

A sentence has 22 tokens on average, a word 1.3; everything lies in memory. The loader composes in a thread of its own,
one batch ahead: what counts is that it takes less than a step.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import numpy as np
from common import arguments, interleaved, summary, write_result

from canon.data.batching.composer import Composer
from canon.data.batching.draws import Draws
from canon.data.batching.passages import SENTENCE, WORD, Passages
from canon.data.text.framing import Specials
from canon.objectives.record import ObjectiveChoice
from canon.objectives.table import by_name

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


def column(length: int, size: int) -> Passages:
    chance = np.random.default_rng(0)
    sentences = np.concatenate([[0], np.cumsum(chance.integers(5, 40, size))])
    documents = np.append(np.arange(0, size, 100), size)
    total = int(sentences[-1])
    begins = np.where(chance.random(total) < 1 / 1.3, WORD, 0).astype(np.uint8)
    begins[sentences[:-1]] |= WORD | SENTENCE
    tokens = chance.integers(105, 30_000, total).astype(np.uint16)
    return Passages(tokens, begins, sentences, documents, length, SPECIALS, 30_000)


def composer(name: str, settings: dict[str, Any], passages: Passages) -> Composer:
    record = by_name()[name]
    return Composer(ObjectiveChoice(record, record.tasks["pretraining"](**settings)).create(), passages)


def compose(batches: Composer, rows: np.ndarray, batch: int, steps: count[int]) -> None:
    step = next(steps)
    batches(np.random.default_rng(step).choice(rows, batch), np.arange(batch), Draws(1, step))


def main() -> None:
    options = arguments(__doc__).parse_args()
    batch, length, repeats, size = (8, 64, 2, 1000) if options.quick else (128, 512, 27, 100_000)
    passages = column(length, size)
    full = np.flatnonzero(passages.lengths > 0.9 * length)
    print(f"{batch} passages of {passages.lengths[full].mean():.0f} tokens, milliseconds: median (least–greatest)")
    calls = {
        name: partial(compose, composer(objective, settings, passages), full, batch, count())
        for name, (objective, settings) in CASES.items()
    }
    times = summary(interleaved(calls, repeats=repeats, warmup=3))
    for name, row in times.items():
        print(f"{name:32}{1e3 * row['median_s']:6.1f} ({1e3 * row['min_s']:.1f}–{1e3 * row['max_s']:.1f})")
    write_result("objectives", {"passages": batch, "length": length, "seconds": times}, options)


if __name__ == "__main__":
    main()
