"""Training a neural ranker, documents per second: `python benchmarks/neural_ranker.py [--threads 2]`.

Work: 201 queries with 15 documents in the mean and 300 features, as LightGBM's example of ranking has; one linear layer
to 96, two blocks of attention (2 heads, 384 units), ListNet, Adam, batches of 64 queries. canon's is the loop that
`canon train` drives, on lists end to end. The opponent is the same network in plain PyTorch as allRank has it
(benchmarks/opponents/padded_ranker.py), with slates of 240 (allRank's sample configuration) and of 32. Documents are
those of the data, never padding. That both compute the same function is asserted before the clock starts.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from common import arguments, interleaved, rates, write_result

from canon import recipe as recipes
from canon.contracts import World
from canon.data.batching.lists import Grades, Lists
from canon.data.batching.sequences import offsets_of
from canon.data.encodings.lists import ListSchema
from canon.data.schema import Data
from canon.data.targets import Relevance
from canon.nn.ragged import Layout
from canon.training.gradient import Gradient
from canon.training.plan import build

THEIRS = import_module("opponents.padded_ranker")
QUERIES, FEATURES, MEAN, BATCH = 201, 300, 15, 64
DIM, BLOCKS, HEADS, HIDDEN = 96, 2, 2, 384


def drawn(queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values [N, F], grades [N], sizes [n]: 2 to 31 documents of a query, fewer than half of them relevant."""
    draw = np.random.default_rng(0)
    sizes = np.clip(draw.poisson(MEAN, queries), 2, 31)
    return (
        draw.random((sizes.sum(), FEATURES), dtype=np.float32),
        draw.choice(5, sizes.sum(), p=[0.6, 0.2, 0.1, 0.06, 0.04]).astype(np.float32),
        sizes,
    )


def ours(values: np.ndarray, grades: np.ndarray, sizes: np.ndarray, steps: int) -> Gradient:
    offsets = offsets_of(sizes)
    schema = ListSchema(Relevance(highest=4.0), (FEATURES,), features=tuple(map(str, range(FEATURES))), typical=MEAN)
    names = np.array([str(query) for query in range(len(sizes))], dtype=object)
    columns: dict[str, Any] = {"input": Lists(values, offsets), "target": Grades(grades, offsets), "query": names}
    changes = {
        "system.dim": DIM, "system.num_layers": BLOCKS, "system.num_heads": HEADS, "system.hidden": HIDDEN,
        "system.dropout": 0.0, "objective.name": "listnet", "train.batch": BATCH, "optimizer.schedule": "constant",
    }  # fmt: skip
    recipe = recipes.load("ranking/attention", changes=changes)
    learner, _ = build(recipe.fitted(schema.sizes()), schema, World())
    assert isinstance(learner, Gradient)
    learner.begin(Data("drawn", schema, {"train": columns}), BATCH, steps)
    return learner


_NAMES = {
    "encoder.blocks": "encoder.layers", "attention.output.": "self_attn.out_proj.",
    "attention.qkv.": "self_attn.in_proj_", "feed_forward.inner": "linear1", "feed_forward.outer": "linear2",
    "attention_norm": "norm1", "feed_forward_norm": "norm2", "head.output": "output",
}  # fmt: skip


def copied(network: Any, values: np.ndarray, sizes: np.ndarray) -> Any:
    """The opponent with the same weights, which scores the first queries alike."""
    model, weights = THEIRS.PaddedRanker(FEATURES, DIM, BLOCKS, HEADS, HIDDEN), {}
    for name, value in network.state_dict().items():
        for own, theirs in _NAMES.items():
            name = name.replace(own, theirs)
        weights[name] = value
    model.load_state_dict(weights)
    some = torch.from_numpy(sizes[:8])
    x_NF, longest = torch.from_numpy(values[: int(some.sum())]), int(some.max())
    padded_BS = torch.arange(longest) >= some[:, None]
    x_BSF = torch.zeros(len(some), longest, FEATURES)
    x_BSF[~padded_BS] = x_NF
    with torch.no_grad():
        scores = model(x_BSF, padded_BS)[~padded_BS]
        torch.testing.assert_close(scores, network(x_NF, Layout(some)), rtol=1e-4, atol=1e-5)
    return model


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    queries, epochs = (16, 1) if options.quick else (QUERIES, options.epochs)
    values, grades, sizes = drawn(queries)
    steps = epochs * -(-queries // BATCH)
    learner = ours(values, grades, sizes, 1 << 20)
    torch.set_num_threads(options.threads)
    bounds = offsets_of(sizes)
    lists = [(values[a:b], grades[a:b]) for a, b in pairwise(bounds.tolist())]
    model = copied(learner.network, values, sizes)
    done = 0

    def canons() -> None:
        nonlocal done
        for _ in range(steps):
            done += 1
            learner.step(done)

    calls: dict[str, Any] = {"canon": canons}
    for length in (240, 32):
        slates = THEIRS.Slates(lists, length)
        calls[f"padded to {length}"] = lambda slates=slates: THEIRS.train_padded(model, slates, BATCH, epochs)
    repeats = 1 if options.quick else options.repeats
    speed = rates(interleaved(calls, repeats=repeats), int(sizes.sum()) * epochs)
    for name, row in speed.items():
        ratio = speed["canon"]["median"] / row["median"]
        print(f"{name:16} {row['median']:>8,} documents/s ({row['min']:,}–{row['max']:,})   canon {ratio:.1f} ×")
    facts = {"documents": int(sizes.sum()), "threads": options.threads, "epochs": epochs, "speed": speed}
    facts["ratios"] = {name: round(speed["canon"]["median"] / row["median"], 2) for name, row in speed.items()}
    write_result("neural_ranker", facts, options, packages=("numpy", "torch"))


if __name__ == "__main__":
    main()
