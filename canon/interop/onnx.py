"""A network as an ONNX file that onnxruntime runs: pixels in, logits out, any batch size.

Unless asked otherwise the graph begins with the run's own scaling, (input − mean) / std, and ends with that of a
predicted number, so that what goes in is what is in the files: pixels from 0 to 255, unscaled table features.
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

from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema
from canon.data.targets import Number
from canon.errors import CanonError
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


def export(network: nn.Module, schema: Schema, path: Path, system: str, scaled: bool = True) -> float:
    """Writes the file, runs it, and returns the largest difference to torch; a larger one than 1e-4 is refused."""
    onnx, runtime = _packages()
    wrapped = (Scaled(network, schema) if scaled else network).eval().cpu()
    example = inputs_like(schema, 2, scaled)
    name = "prediction" if isinstance(schema.target, Number) else "logits"
    with _quiet():
        program = torch.onnx.export(
            wrapped,
            (example,),
            dynamo=True,
            input_names=["input"],
            output_names=[name],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            opset_version=OPSET,
        )
    assert program is not None, "given by dynamo=True"
    model = program.model_proto
    told = {
        "canon.system": system,
        "canon.scaled": "inside" if scaled else "not inside",
        "canon.classes": json.dumps(schema.classes, ensure_ascii=False),
        "canon.schema": schema.files()["schema.json"],
    }
    onnx.helper.set_model_props(model, told)
    content = model.SerializeToString()
    difference = _compare(runtime, content, wrapped, schema, scaled)
    write_bytes(path, content)
    return difference


def inputs_like(schema: Schema, count: int, scaled: bool) -> Tensor:
    """Random inputs on the scale that the file wants."""
    generator = torch.Generator().manual_seed(0)
    if not scaled:
        return torch.randn(count, *schema.shape, generator=generator)
    if isinstance(schema, PixelSchema):
        return torch.randint(0, schema.white + 1, (count, *schema.shape), generator=generator).float()
    return torch.randn(count, *schema.shape, generator=generator)


@torch.no_grad()
def _compare(runtime: Any, content: bytes, network: nn.Module, schema: Schema, scaled: bool) -> float:
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    worst = 0.0
    for count in _BATCHES:
        inputs = inputs_like(schema, count, scaled)
        ours = network(inputs).numpy()
        (theirs,) = session.run(None, {"input": inputs.numpy()})
        difference = float(np.abs(ours - theirs).max()) / max(1.0, float(np.abs(ours).max()))
        worst = max(worst, difference)
    if not worst <= TOLERANCE:
        raise CanonError(f"onnxruntime differs from torch by {worst:.2g}, more than {TOLERANCE:g}: nothing is written.")
    return worst


def _packages() -> tuple[Any, Any]:
    try:
        onnx, runtime, _ = (import_module(name) for name in ("onnx", "onnxruntime", "onnxscript"))
    except ImportError:
        raise CanonError(PACKAGES) from None
    return onnx, runtime


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter tells its progress and the versions of operators; none of it is for the user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
