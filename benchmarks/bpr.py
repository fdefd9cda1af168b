"""BPR against implicit: interactions per second and quality on the same data with the same settings, in turn.

    CANON_DATA=… python benchmarks/bpr.py [--data movielens-1m-ncf] [--rounds 3] [--epochs 30] [--dim 64] [--quick]

Both learn from the same training events with two threads, a constant rate of 0.05 and λ = 0.01, from factors of
their own; an epoch is as many draws as there are events, those counted that fall on an item which the user has already
(implicit passes these over; canon draws again). Timed is learning alone: of canon its steps, of implicit `fit`, which
draws its first factors too. implicit draws negatives by popularity; canon evenly, and by popularity
for comparison. Quality is NDCG@20 and recall@20 by the same code, all items ranked that a user has not; a random fifth
of all training interactions of the data set is held out.
Targets: 1.2 × the interactions per second and 1.5 × the NDCG@20 of implicit.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
from common import SMALL, arguments, installed, interleaved, rates, write_result

THREADS = 2
RATE, DECAY = 0.05, 0.01


def read(name: str, quick: bool) -> Any:
    """The data, a random fifth of all interactions held out."""
    from canon.data.config import DataConfig
    from canon.data.encodings.base import Ask
    from canon.data.encodings.events import EVENTS
    from canon.data.kinds.interactions import INTERACTIONS

    config = DataConfig(source=str(SMALL / "interactions.csv") if quick else name, valid=0.0)
    source: Any = INTERACTIONS.source(config)
    train = source.parts["train"]
    held = np.zeros(len(train), bool)
    held[np.random.default_rng(0).permutation(len(train))[: len(train) // 5]] = True
    parts = {"train": train.take(np.flatnonzero(~held)), "test": train.take(np.flatnonzero(held))}
    return EVENTS.fit(replace(source, parts=parts, negatives=None), config, Ask())


def canons(data: Any, epochs: int, dim: int, negatives: str) -> Any:
    """A learner that is ready to learn, and a call that makes it learn."""
    from canon import registry
    from canon.contracts import Context

    system, _ = registry.find("bpr")
    sizes = data.schema.sizes()
    config = system.configure(
        "", {**sizes, "dim": dim, "lr": RATE, "decay": DECAY, "falls": 0.0, "negatives": negatives}
    )
    learner = system.load()[1](config, Context(schema=data.schema, seed=1))
    learner.begin(data, len(data.splits["train"]["input"]), epochs)
    learner.threads = THREADS

    def learn() -> None:
        for step in range(1, epochs + 1):
            learner.step(step)

    return learner, learn


def implicits(data: Any, epochs: int, dim: int) -> Any:
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    train, sizes = data.splits["train"], data.schema.sizes()
    shape = sizes["num_users"], sizes["num_items"]
    matrix = csr_matrix((np.ones(len(train["input"]), np.float32), (train["input"], train["item"])), shape=shape)
    model = BayesianPersonalizedRanking(
        factors=dim, learning_rate=RATE, regularization=DECAY, iterations=epochs, num_threads=THREADS, random_state=1
    )
    return model, lambda: model.fit(matrix, show_progress=False)


def quality(data: Any, learner: Any) -> dict[str, float]:
    from canon import registry
    from canon.tasks import table as tasks

    system, _ = registry.find("bpr")
    columns = data.splits["test"]
    scores = tasks.create(system, learner.config, data.schema).score(learner.outputs(columns), columns)
    return {name: round(scores[name], 4) for name in ("ndcg@20", "recall@20")}


def judged(data: Any, options: argparse.Namespace, with_implicit: bool) -> dict[str, dict[str, float]]:
    """Of one training each."""
    result = {}
    for negatives in ("uniform", "popular"):
        learner, learn = canons(data, options.epochs, options.dim, negatives)
        learn()
        result[f"canon, {negatives}"] = quality(data, learner)
    if with_implicit:
        model, fit = implicits(data, options.epochs, options.dim)
        fit()
        factors = {"users": model.user_factors[:, : options.dim], "items": model.item_factors[:, : options.dim]}
        learner.take_arrays({**factors, "bias": np.ascontiguousarray(model.item_factors[:, options.dim])})
        result["implicit"] = quality(data, learner)
    for name, scores in result.items():
        print(f"{name:20} {scores}")
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", default="movielens-1m-ncf", help="a named set of interactions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--dim", type=int, default=64)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.epochs, options.dim = 1, 2, 16
    with_implicit = installed("implicit")
    data = read(options.data, options.quick)
    events = len(data.splits["train"]["input"])
    seconds: dict[str, list[float]] = {}

    def timed(name: str, make: Any) -> Any:
        def call() -> None:
            _, learn = make()
            begin = time.perf_counter()
            learn()
            seconds.setdefault(name, []).append(time.perf_counter() - begin)

        return call

    calls = {
        f"canon, {negatives}": timed(
            f"canon, {negatives}", lambda negatives=negatives: canons(data, options.epochs, options.dim, negatives)
        )
        for negatives in ("uniform", "popular")
    }
    if with_implicit:
        calls["implicit"] = timed("implicit", lambda: implicits(data, options.epochs, options.dim))
    interleaved(calls, repeats=options.rounds, warmup=1)  # kernels are compiled, or read from the cache
    speed = rates({name: spent[1:] for name, spent in seconds.items()}, events * options.epochs)
    for name, row in speed.items():
        print(f"{name:20} {row['median']:>12,} interactions/s ({row['min']:,}–{row['max']:,})")
    result: dict[str, Any] = {"events": events, "speed": speed, "quality": judged(data, options, with_implicit)}
    if with_implicit:
        ours, theirs = result["quality"]["canon, uniform"]["ndcg@20"], result["quality"]["implicit"]["ndcg@20"]
        result["ratios"] = {
            "speed": round(speed["canon, uniform"]["median"] / speed["implicit"]["median"], 2),
            "ndcg@20": round(ours / max(theirs, 1e-9), 2),
        }
        print(result["ratios"])
    options_kept = {"data": options.data, "epochs": options.epochs, "dim": options.dim, "threads": THREADS}
    write_result("bpr", {**options_kept, **result}, options, packages=("numba", "implicit", "numpy"))


if __name__ == "__main__":
    main()
