"""A network as an ONNX file that onnxruntime runs: pixels in, logits out, any batch size. Of texts: onnx_text.py.

Unless asked otherwise the graph begins with the run's own scaling, (input − mean) / std, and ends with that of a
predicted number, so that what goes in is what is in the files: pixels from 0 to 255; of tables, encoded features.
What the outputs mean is in the file's metadata: `canon.classes`, `canon.schema`, `canon.system`, `canon.scaled`.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.config import HasShape
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema
from canon.data.targets import Number
from canon.errors import CanonError
from canon.interop.formats import FileChoices, Format, Written
from canon.interop.network import Network
from canon.storage import write_bytes

PACKAGES = "ONNX needs the packages onnx, onnxscript and onnxruntime: pip install 'deepcanon[onnx]'."
TOLERANCE = 1e-4  # largest difference to torch, relative to the largest output where that is over 1
OPSET = 20
_BATCHES = (1, 3)  # sizes at which a file is checked


class Scaled(nn.Module):
    """A network with the data's own scale at both ends."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, schema: Schema) -> None:
        super().__init__()
        self.network = network
        trailing = (1,) * (len(schema.shape) - 1)
        mean, std = schema.scaling
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, *trailing))
        self.register_buffer("std", torch.tensor(std).reshape(-1, *trailing))
        target = schema.target
        self.target = (target.std, target.mean) if isinstance(target, Number) else None

    def forward(self, input: Tensor) -> Tensor:
        output = self.network((input - self.mean) / self.std)
        return output * self.target[0] + self.target[1] if self.target else output


def write_as(format: Format, network: Network, target: Path, choices: FileChoices) -> Written:
    if network.schema.tokenizers or not isinstance(network.config, HasShape):
        from canon.interop import onnx_text

        return Written(difference=onnx_text.write(network, target))
    if target.suffix != ".onnx":
        raise CanonError(f'{target}: --to {format.name} writes .onnx, not "{target.suffix}".')
    return Written(difference=export(network.build(), network.schema, target, network.name, choices.scaled))


def export(network: nn.Module, schema: Schema, path: Path, system: str, scaled: bool = True) -> float:
    """Writes the file, runs it, and returns the largest difference to torch; a larger one than 1e-4 is refused."""
    wrapped = (Scaled(network, schema) if scaled else network).eval().cpu()
    name = "prediction" if isinstance(schema.target, Number) else "logits"
    shapes = [{0: torch.export.Dim("batch")}]
    more = {"canon.scaled": "inside" if scaled else "not inside"}
    content = graph(wrapped, (inputs_like(schema, 2, scaled),), ["input"], [name], shapes, facts(system, schema) | more)
    difference = _compare(content, wrapped, schema, scaled)
    write_bytes(path, content)
    return difference


def facts(system: str, schema: Schema) -> dict[str, str]:
    """What a file says of itself."""
    return {
        "canon.system": system,
        "canon.classes": json.dumps(schema.classes, ensure_ascii=False),
        "canon.schema": schema.files()["schema.json"],
    }


def graph(
    network: nn.Module,
    example: tuple[Tensor, ...],
    inputs: list[str],
    outputs: list[str],
    shapes: list[dict[int, Any]],
    metadata: dict[str, str],
) -> bytes:
    """What an .onnx file holds; `shapes` are the dimensions of each input that may have any size."""
    onnx, _ = _packages()
    with _quiet():
        program = torch.onnx.export(
            network,
            example,
            dynamo=True,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=tuple(shapes),
            opset_version=OPSET,
        )
    assert program is not None, "given by dynamo=True"
    model = program.model_proto
    onnx.helper.set_model_props(model, metadata)
    content: bytes = model.SerializeToString()
    return content


def run(content: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes."""
    _, runtime = _packages()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run(None, inputs)
    return outputs


def check(difference: float) -> None:
    if not difference <= TOLERANCE:
        raise CanonError(
            f"onnxruntime differs from torch by {difference:.2g}, more than {TOLERANCE:g}: nothing is written."
        )


def inputs_like(schema: Schema, count: int, scaled: bool) -> Tensor:
    """Random inputs on the scale that the file wants."""
    generator = torch.Generator().manual_seed(0)
    if not scaled:
        return torch.randn(count, *schema.shape, generator=generator)
    if isinstance(schema, PixelSchema):
        return torch.randint(0, schema.white + 1, (count, *schema.shape), generator=generator).float()
    return torch.randn(count, *schema.shape, generator=generator)


@torch.no_grad()
def _compare(content: bytes, network: nn.Module, schema: Schema, scaled: bool) -> float:
    worst = 0.0
    for count in _BATCHES:
        inputs = inputs_like(schema, count, scaled)
        ours = network(inputs).numpy()
        (theirs,) = run(content, {"input": inputs.numpy()})
        difference = float(np.abs(ours - theirs).max()) / max(1.0, float(np.abs(ours).max()))
        worst = max(worst, difference)
    check(worst)
    return worst


def _packages() -> tuple[Any, Any]:
    try:
        onnx, runtime, _ = (import_module(name) for name in ("onnx", "onnxruntime", "onnxscript"))
    except ImportError:
        raise CanonError(PACKAGES) from None
    return onnx, runtime


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's progress and versions of operators, which are not for the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
