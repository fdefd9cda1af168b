"""What the trainer adds to a bare PyTorch loop: `python benchmarks/loop.py`.

Work: one epoch of the MLP of linear/digits-mlp on scikit-learn's digits, batch 64, AdamW. Loops over the same data,
network and optimiser settings take turns: written by hand (fused AdamW, as canon's; and torch's
default AdamW), canon's trainer (with its seeding per step, non-finite guard, logs and schedule), accelerate, Lightning.
Timed is training alone: no reading, evaluation or checkpoint in any of them; the opponents' bars and logs are off.
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
from common import interleaved, summary, write_result
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from canon.contracts import World
from canon.training import trainer

BATCH = 64
REPEATS = 40
CHANGES = {
    "train.epochs": 1,
    "train.device": "cpu",
    "train.threads": 1,
    "train.evaluate_every": 1000,
    "train.checkpoint_every": 1000,
    "data.valid": 0.0,
}


class TimedTrainer(trainer.Trainer):
    """The trainer without the checkpoint at the end of its loop."""

    def _checkpoint(self) -> None:
        pass


def canon_loop(folder: Path) -> tuple[Callable[[], object], trainer.Trainer]:
    recipe, path = trainer.plan("linear/digits-mlp", "", folder / "run", False, CHANGES)
    training = TimedTrainer(recipe, path, World(torch.device("cpu")), quiet=True)
    training.learner.begin(training.data, training.recipe.train.batch, training.total)
    training.open_files(0)
    training.start_clock()

    def epoch() -> None:
        training.step = 0
        training._loop()

    return epoch, training


def bare_loop(network: nn.Module, inputs: Tensor, targets: Tensor, fused: bool | None) -> Callable[[], object]:
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.002, fused=fused)

    def epoch() -> float:
        total = 0.0
        order = torch.randperm(len(inputs))
        for start in range(0, len(inputs), BATCH):
            index = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = F.cross_entropy(network(inputs[index]), targets[index])
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    return epoch


def accelerate_loop(network: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], object]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.002, fused=True)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=BATCH, shuffle=True)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)

    def epoch() -> float:
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(network(x), y)
            accelerator.backward(loss)
            optimizer.step()
            total += loss.item()
        return total

    return epoch


def lightning_loop(network: nn.Module, inputs: Tensor, targets: Tensor) -> Callable[[], object]:
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

        def on_train_epoch_start(self) -> None:
            self.begun = time.perf_counter()

        def on_train_epoch_end(self) -> None:
            spent.append(time.perf_counter() - self.begun)

    loader = DataLoader(TensorDataset(inputs, targets), batch_size=BATCH, shuffle=True)
    spent: list[float] = []  # its own clock: fit() also builds and tears down, which would be unfair to count

    def epoch() -> float:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            fit = lightning.Trainer(
                max_epochs=1,
                accelerator="cpu",
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            ).fit
            fit(Module(), loader)
        return spent[-1]

    epoch.spent = spent  # type: ignore[attr-defined]
    return epoch


def main() -> None:
    torch.set_num_threads(1)  # one: the fastest for networks of this size, and the steadiest
    with tempfile.TemporaryDirectory() as folder:
        ours, training = canon_loop(Path(folder))
        network = training.learner.network  # type: ignore[attr-defined]
        columns = training.data.splits["train"]
        inputs = torch.from_numpy(columns["input"]).float() / 16
        targets = torch.from_numpy(columns["target"])
        start = {key: value.clone() for key, value in network.state_dict().items()}

        def fresh() -> nn.Module:
            """A copy with the same first weights, so that no loop trains on where another has been."""
            made = training.recipe.system.load()[1](training.recipe.config)
            made.load_state_dict(start)
            return made

        lightning_epoch = lightning_loop(fresh(), inputs, targets)
        seconds = interleaved(
            {
                "canon": ours,
                "bare": bare_loop(fresh(), inputs, targets, fused=True),
                "bare, default AdamW": bare_loop(fresh(), inputs, targets, fused=None),
                "accelerate": accelerate_loop(fresh(), inputs, targets),
                "lightning": lightning_epoch,
            },
            repeats=REPEATS,
            warmup=3,
        )
        seconds["lightning"] = lightning_epoch.spent[3:]  # type: ignore[attr-defined]
    times = summary(seconds)
    bare = times["bare"]["median_s"]
    ratios = {name: round(row["median_s"] / bare, 3) for name, row in times.items()}
    steps = -(-len(inputs) // BATCH)
    for name, row in times.items():
        print(f"{name:20s} {1e6 * row['median_s'] / steps:7.1f} µs/step   {ratios[name]:.2f}× bare")
    result = {"steps_per_epoch": steps, "seconds": times, "ratio_to_bare": ratios}
    packages = ("torch", "accelerate", "lightning")
    write_result("loop", result, command="python benchmarks/loop.py", packages=packages)


if __name__ == "__main__":
    main()
