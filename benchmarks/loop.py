"""What the trainer adds to a bare PyTorch loop: `python benchmarks/loop.py`.

Work: epochs of the MLP of linear/digits-mlp on scikit-learn's digits, batch 64, AdamW. Loops over the same data,
network and optimiser settings take turns: written by hand (fused AdamW, as canon's; and torch's default AdamW), canon's
trainer (with its seeding per step, non-finite guard, logs and schedule), accelerate, Lightning. Timed is training
alone: no reading, evaluation or checkpoint in any of them; the opponents' bars and logs are off. canon's seconds are
those of timing.jsonl, Lightning's from its start of training to its end.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from common import arguments, installed, interleaved, show_ratios, summary, trained, write_result
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from canon import recipe as recipes
from canon.systems.building import build
from canon.training.data import read_data

BATCH = 64
CHANGES = {"train.device": "cpu", "train.threads": 1, "data.valid": 0.0}
Loop = Callable[[], object]


def canon_loop(folder: Path, epochs: int, spent: list[float]) -> Loop:
    """Trains a run; its own clock is kept in `spent`, since a run is also read, scored and written."""
    return lambda: spent.append(trained(folder, "linear/digits-mlp", "", {**CHANGES, "train.epochs": epochs})[1])


def bare_loop(network: nn.Module, inputs: Tensor, targets: Tensor, epochs: int, fused: bool | None) -> Loop:
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.002, fused=fused)

    def train() -> float:
        total = 0.0
        for _ in range(epochs):
            order = torch.randperm(len(inputs))
            for start in range(0, len(inputs), BATCH):
                index = order[start : start + BATCH]
                optimizer.zero_grad()
                loss = F.cross_entropy(network(inputs[index]), targets[index])
                loss.backward()
                optimizer.step()
                total += loss.item()
        return total

    return train


def accelerate_loop(network: nn.Module, inputs: Tensor, targets: Tensor, epochs: int) -> Loop:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.002, fused=True)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=BATCH, shuffle=True)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)

    def train() -> float:
        total = 0.0
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(network(x), y)
                accelerator.backward(loss)
                optimizer.step()
                total += loss.item()
        return total

    return train


def lightning_loop(network: nn.Module, inputs: Tensor, targets: Tensor, epochs: int, spent: list[float]) -> Loop:
    """Its own clock is kept in `spent`: fit() also builds and tears down, which would be unfair to count."""
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    logging.getLogger("lightning.fabric").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            return F.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=0.002, fused=True)

        def on_train_start(self) -> None:
            self.begun = time.perf_counter()

        def on_train_end(self) -> None:
            spent.append(time.perf_counter() - self.begun)

    loader = DataLoader(TensorDataset(inputs, targets), batch_size=BATCH, shuffle=True)

    def train() -> None:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            fit = lightning.Trainer(
                max_epochs=epochs,
                accelerator="cpu",
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            ).fit
            fit(Module(), loader)

    return train


def main() -> None:
    options = arguments(__doc__).parse_args()
    epochs, repeats, warmup = (2, 1, 1) if options.quick else (100, 10, 1)
    torch.set_num_threads(1)  # one: the fastest for networks of this size, and the steadiest
    recipe = recipes.load("linear/digits-mlp", changes=CHANGES)
    data = read_data(recipe)
    columns = data.splits["train"]
    inputs, targets = torch.from_numpy(columns["input"]).float() / 16, torch.from_numpy(columns["target"])
    config = recipe.fitted(data.schema.sizes()).config
    clocks: dict[str, list[float]] = {"canon": [], "lightning": []}

    def fresh() -> nn.Module:
        """The same first weights for each, so that no loop trains on where another has been."""
        torch.manual_seed(0)
        network: nn.Module = build(recipe.system, config)
        return network

    with tempfile.TemporaryDirectory() as folder:
        loops: dict[str, Loop] = {
            "canon": canon_loop(Path(folder), epochs, clocks["canon"]),
            "bare": bare_loop(fresh(), inputs, targets, epochs, fused=True),
            "bare, default AdamW": bare_loop(fresh(), inputs, targets, epochs, fused=None),
        }
        if installed("accelerate"):
            loops["accelerate"] = accelerate_loop(fresh(), inputs, targets, epochs)
        if installed("lightning"):
            loops["lightning"] = lightning_loop(fresh(), inputs, targets, epochs, clocks["lightning"])
        seconds = interleaved(loops, repeats=repeats, warmup=warmup)
    seconds |= {name: spent[warmup:] for name, spent in clocks.items() if spent}
    times = summary(seconds)
    ratios = show_ratios(times, "bare")
    steps = epochs * -(-len(inputs) // BATCH)
    microseconds = {name: round(1e6 * row["median_s"] / steps, 1) for name, row in times.items()}
    print("Microseconds per step:", ", ".join(f"{name} {value}" for name, value in microseconds.items()))
    result = {"steps": steps, "seconds": times, "microseconds_per_step": microseconds, "times_as_fast_as_bare": ratios}
    write_result("loop", result, options, packages=("torch", "accelerate", "lightning"))


if __name__ == "__main__":
    main()
