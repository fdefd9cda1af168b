"""LambdaMART in segments that can be resumed against LightGBM alone: the same trees, on MQ2008's training part.

    CANON_DATA=DIR python benchmarks/lambdamart.py [--trees 100] [--repeats 9] [--threads 1] [--quick]

Both bin the features and grow the trees; canon does so in segments of 50 trees, and with `checkpoints` it also gives
the model as text after each segment. `--quick` takes the tests' small queries. Target: at most 1.1 × LightGBM's time.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import lightgbm
import numpy as np
from common import SMALL, arguments, interleaved, show_ratios, summary, write_result

from canon import recipe as recipes
from canon.contracts import Context
from canon.data.schema import Data
from canon.objectives.ranking.settings import Lambda
from canon.systems.ranking.learner import TrainingLists
from canon.systems.ranking.trees import Config, LambdaMART
from canon.training.data import read_data

_SEGMENT = 50


def grown(data: Data, trees: int, threads: int, checkpoints: bool) -> LambdaMART:
    train = SimpleNamespace(checkpoint_every=_SEGMENT, threads=threads)
    objective = SimpleNamespace(name="lambdarank", settings=Lambda())
    shape = data.schema.shape
    learner = LambdaMART(Config(shape=shape), Context(recipe=SimpleNamespace(train=train, objective=objective)))
    learner.begin(data, 0, trees)
    for number in range(1, trees + 1):
        if not learner.step(number):
            break
        if checkpoints and number % _SEGMENT == 0:
            learner.tensors()
    return learner


def alone(lists: TrainingLists, trees: int, threads: int) -> Any:
    settings = {"objective": "lambdarank", "lambdarank_norm": False, "verbose": -1, "metric": "None", "seed": 0}
    settings |= {"num_threads": threads, "deterministic": True, "force_row_wise": True}
    data = lightgbm.Dataset(np.ascontiguousarray(lists.values), lists.labels, group=lists.sizes)
    return lightgbm.train(settings, data, trees)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    changes = {"train.threads": options.threads}
    if options.quick:
        options.trees, options.repeats = 5, 1
        data = read_data(recipes.load("ranking/lambdamart", str(SMALL / "queries.letor"), changes=changes))
    else:
        data = read_data(recipes.load("ranking/lambdamart", changes=changes))
    lists = TrainingLists.of(data.splits["train"], 0)
    candidates = {
        "canon": lambda: grown(data, options.trees, options.threads, False),
        "canon, with checkpoints": lambda: grown(data, options.trees, options.threads, True),
        "LightGBM": lambda: alone(lists, options.trees, options.threads),
    }
    ours = grown(data, options.trees, options.threads, False).scores(lists.values)
    theirs = alone(lists, options.trees, options.threads).predict(lists.values, raw_score=True)
    times = summary(interleaved(candidates, repeats=options.repeats))
    result = {
        "trees": options.trees,
        "threads": options.threads,
        "documents": len(lists.labels),
        "seconds": times,
        "times_as_fast_as_lightgbm": show_ratios(times, "LightGBM"),
        "scores_differ_by": float(np.abs(ours - theirs).max()),
    }
    print(f"scores differ by at most {result['scores_differ_by']:.1e}")
    write_result("lambdamart", result, options, packages=("lightgbm", "numpy"))


if __name__ == "__main__":
    main()
