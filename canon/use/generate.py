"""Samples of a trained generator: images to a PNG grid, rows to a CSV table."""

from __future__ import annotations

import csv
from math import prod
from pathlib import Path

import torch

from canon.data.encodings.pixels import PixelSchema
from canon.errors import CanonError
from canon.nn.limits import require_memory, whole
from canon.storage import write_bytes, writing
from canon.tasks import pictures
from canon.tasks.base import Outputs, Turn
from canon.tasks.generation import Generation
from canon.training.devices import shared_generator
from canon.use.model import Model

_AT_ONCE = 512


@torch.no_grad()
def generate(model: Model, count: int = 64, seed: int = 0) -> Outputs:
    """`count` samples from noise that `seed` decides; seed 0 is the noise of the run's evaluations."""
    task, network = _task(model), model.network.eval()
    device = next(network.parameters()).device
    whole("count", count, 1, 1 << 40)
    require_memory(2 * 4 * count * prod(model.schema.shape), f"{count:,} samples", "ask for fewer (count)")
    samples = []
    for start in range(0, count, _AT_ONCE):
        stop = min(start + _AT_ONCE, count)
        turn = Turn(shared_generator(seed, 0, device), (start, stop, count))
        noise = {"input": torch.empty(stop - start, device=device)}
        samples.append(task.run(network, noise, turn)["samples"].float().cpu())
    return {"samples": torch.cat(samples).numpy()}


def write_samples(model: Model, outputs: Outputs, path: Path | None = None) -> Path:
    """Writes images as a grid (.png), rows in the form of the data's table (.csv)."""
    task = _task(model)
    ending = ".png" if isinstance(model.schema, PixelSchema) else ".csv"
    path = path or Path(f"samples{ending}")
    if path.suffix.lower() != ending:
        what = "images" if ending == ".png" else "rows of a table"
        raise CanonError(f'{path}: samples of {model.run.path} are {what}, written as {ending}, not "{path.suffix}".')
    if isinstance(model.schema, PixelSchema):
        write_bytes(path, pictures.grid(task.written(outputs), model.schema.white))
    else:
        columns = task.table(outputs)
        with writing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return path


def _task(model: Model) -> Generation:
    if not isinstance(model.task, Generation):
        name = model.run.recipe.system.name
        raise CanonError(f"{model.run.path} is a run of {name}, which generates nothing; use canon predict.")
    return model.task
