"""Training DeepFM, rows per second: `python benchmarks/deepfm.py [--l2 1e-5]`.

Work: 26 fields with Zipf ids, dim 8, hidden layers 256 and 128, Adam. Three sizes: a small table (2,278 rows in all) in
batches of 256 and of 4,096, and one of 520,000 rows in batches of 1,024. canon's is the loop that `canon train` drives:
its loader, its task, lazy Adam on the rows of a batch, L2 on those rows. The opponent is deepctr-torch where that can
be imported, else DeepFM written in plain PyTorch as deepctr-torch has it (benchmarks/opponents/plain_deepfm.py): dense
Adam and, with --l2, a penalty over whole tables. That both compute the same function is asserted before the clock
starts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from common import arguments, installed, interleaved, rates, show_ratios, summary, write_result

from canon import recipe as recipes
from canon.contracts import World
from canon.data.encodings.field_columns import FIRST, CategoryField
from canon.data.encodings.fields import FieldSchema
from canon.data.schema import Data
from canon.data.targets import Class
from canon.training.gradient import Gradient
from canon.training.plan import build

PLAIN = import_module("opponents.plain_deepfm")
FIELDS, DIM, HIDDEN = 26, 8, [256, 128]
CASES = {"small-256": (2278, 256), "small-4096": (2278, 4096), "large-1024": (520_000, 1024)}


def rows_of(size: int, count: int) -> np.ndarray:
    """Ids [count, fields], each field's from 0 to `size` − 1 by Zipf's law."""
    draw = np.random.default_rng(0)
    return np.minimum(draw.zipf(1.2, (count, FIELDS)) - 1, size - 1)


def ours(size: int, rows_NF: np.ndarray, label_N: np.ndarray, batch: int, l2: float) -> tuple[Gradient, Data]:
    columns = tuple(CategoryField(f"C{n}", tuple(map(str, range(size)))) for n in range(FIELDS))
    schema = FieldSchema(Class(("0", "1"), "click"), columns=columns)
    offsets = np.array(schema.offsets[:-1]) + FIRST
    splits: dict[str, Any] = {"train": {"input": (rows_NF + offsets).astype(np.int32), "target": label_N}}
    changes = {
        "system.dim": DIM,
        "system.hidden": HIDDEN,
        "system.dropout": 0.0,
        "train.batch": batch,
        "optimizer.lr": 1e-3,
        "optimizer.weight_decay": l2,
    }
    recipe = recipes.load("ctr/deepfm", changes=changes)
    learner, _ = build(recipe.fitted(schema.sizes()), schema, World())
    assert isinstance(learner, Gradient)
    data = Data("zipf", schema, splits)
    learner.begin(data, batch, 1 << 20)
    return learner, data


def copied(network: Any, sizes: list[int]) -> Any:
    """The opponent with the same weights."""
    model, start = PLAIN.PlainDeepFM(sizes, DIM, tuple(HIDDEN)), 0
    linears = [layer for layer in model.dnn if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for first, table, size in zip(model.linear, model.embeddings, sizes, strict=True):
            own = network.table.weight[start + FIRST : start + FIRST + size]
            first.weight.copy_(own[:, :1])
            table.weight.copy_(own[:, 1:])
            start += FIRST + size
        for linear, layer in zip(linears, network.deep.layers, strict=True):
            linear.load_state_dict(layer[0].state_dict())
        model.output.weight.copy_(network.deep.output.weight)
        model.bias.copy_(network.bias)
    return model


def packaged(size: int) -> Callable[[np.ndarray, np.ndarray, int, int], None]:
    """deepctr-torch's own training."""
    from deepctr_torch.inputs import SparseFeat  # type: ignore[import-not-found]
    from deepctr_torch.models import DeepFM as Theirs  # type: ignore[import-not-found]

    names = [f"C{n}" for n in range(FIELDS)]
    features = [SparseFeat(name, size, DIM) for name in names]

    def run(rows_NF: np.ndarray, label_N: np.ndarray, batch: int, steps: int) -> None:
        model = Theirs(features, features, dnn_hidden_units=tuple(HIDDEN), device="cpu")
        model.compile("adam", "binary_crossentropy")
        given = {name: rows_NF[: batch * steps, place] for place, name in enumerate(names)}
        model.fit(given, label_N[: batch * steps], batch_size=batch, epochs=1, verbose=0)

    return run


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--l2", type=float, default=1e-5, help="λ; deepctr-torch's default is 1e-5")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    real = installed("deepctr_torch")
    result: dict[str, Any] = {"opponent": "deepctr-torch" if real else "plain PyTorch, as deepctr-torch"}
    for name, (total, batch) in CASES.items():
        if options.quick:
            total, batch = min(total, 2600), min(batch, 64)
        size, steps = total // FIELDS, 3 if options.quick else max(32_768 // batch, 16)
        rows_NF, label_N = rows_of(size, batch * steps), np.random.default_rng(1).integers(0, 2, batch * steps)
        learner, _ = ours(size, rows_NF, label_N, batch, options.l2)
        torch.set_num_threads(options.threads)
        model = copied(learner.network, [size] * FIELDS)
        offsets = torch.arange(FIELDS) * (FIRST + size) + FIRST
        some = torch.from_numpy(rows_NF[:64])
        with torch.no_grad():
            own = torch.sigmoid(learner.network(some + offsets)[:, 0])
            torch.testing.assert_close(own, model(some.float()), rtol=1e-5, atol=1e-6)
        given, labels = torch.from_numpy(rows_NF), torch.from_numpy(label_N)
        done = 0

        def train_ours(learner: Gradient = learner, steps: int = steps) -> None:
            nonlocal done
            for _ in range(steps):
                done += 1
                learner.step(done)

        def train_plainly(
            model: Any = model, given: Any = given, labels: Any = labels, batch: int = batch, steps: int = steps
        ) -> None:
            PLAIN.train_plain(model, given, labels, batch, steps, options.l2)

        train_theirs = partial(packaged(size), rows_NF, label_N, batch, steps) if real else train_plainly

        seconds = interleaved({"canon": train_ours, "opponent": train_theirs}, repeats=1 if options.quick else 5)
        print(f"{name}: {FIELDS * size:,} rows in all, batch {batch}, {steps} steps")
        times = summary(seconds)
        ratios = show_ratios(times, "opponent")
        result[name] = {"rows_per_second": rates(seconds, batch * steps), "seconds": times, "ratios": ratios}
    write_result("deepfm", result, options, packages=("torch", "numpy"))


if __name__ == "__main__":
    main()
