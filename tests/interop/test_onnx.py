"""Exported graphs run by onnxruntime, against torch and against `canon predict`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import canon as package
from canon.interop import onnx as exporting
from canon.registry import SYSTEMS
from canon.training.trainer import train
from canon.use.export import convert

onnx = pytest.importorskip("onnx", reason="onnx is not installed (pip install 'deepcanon[onnx]')")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install 'deepcanon[onnx]')")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (pip install 'deepcanon[onnx]')")

NETWORKS = [s.name for s in SYSTEMS if s.loop == "gradient" and s.task == "classification" and "pixels" in s.encodings]


def answers(path: str | Path, inputs: np.ndarray) -> np.ndarray:
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"input": inputs.astype(np.float32)})[0]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_classifier_of_images(name: str) -> None:
    """Random weights, batches of one and of five, against torch."""
    actual = convert(f"{name}:tiny", "x.onnx", "onnx")
    network = actual.network.build()
    rng = np.random.default_rng(0)
    for count in (1, 5):
        inputs = rng.normal(size=(count, *actual.network.schema.shape)).astype(np.float32)
        with torch.no_grad():
            wanted = network(torch.from_numpy(inputs)).numpy()
        np.testing.assert_allclose(answers("x.onnx", inputs), wanted, rtol=1e-4, atol=1e-4)
    assert actual.written.difference is not None and actual.written.difference < 1e-4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "lenet"
    train("digits-lenet", out=path, changes={"train.steps": 30}, quiet=True)
    return path


def test_pixels_in_probabilities_out(run: Path, canon: Callable[..., Any]) -> None:
    """The scaling is inside: raw pixels give what predict gives."""
    printed = canon("convert", run, "lenet.onnx", "--to", "onnx")
    assert (
        printed.code == 0 and "onnxruntime and torch differ by" in printed.out and printed.out.endswith("lenet.onnx\n")
    )
    model = package.load(run)
    pixels = np.random.default_rng(1).integers(0, 17, (7, *model.schema.shape), dtype=np.uint8)
    rows = model.predict(pixels, top=10)
    wanted = [
        [next(c["probability"] for c in row["top"] if c["class"] == name) for name in model.schema.classes]
        for row in rows
    ]
    np.testing.assert_allclose(softmax(answers("lenet.onnx", pixels)), wanted, atol=1e-5)
    # Without the scaling, what goes in is scaled by hand.
    canon("convert", run, "bare.onnx", "--to", "onnx", "--unscaled")
    scaled = (pixels - np.array(model.schema.mean)[:, None, None]) / np.array(model.schema.std)[:, None, None]
    np.testing.assert_allclose(softmax(answers("bare.onnx", scaled)), wanted, atol=1e-5)


def test_metadata(run: Path) -> None:
    convert(str(run), "lenet.onnx", "onnx")
    session = runtime.InferenceSession("lenet.onnx", providers=["CPUExecutionProvider"])
    reported = session.get_modelmeta().custom_metadata_map
    assert json.loads(reported["canon.classes"]) == list("0123456789")
    assert reported["canon.system"].startswith("lenet") and reported["canon.scaled"] == "inside"
    assert json.loads(reported["canon.schema"])["shape"] == list(session.get_inputs()[0].shape[1:])
    assert session.get_inputs()[0].name == "input" and session.get_outputs()[0].name == "logits"
    assert isinstance(session.get_inputs()[0].shape[0], str), "any batch size"
    onnx.checker.check_model("lenet.onnx", full_check=True)


def test_numbers_in_the_units_of_the_data(tmp_path: Path) -> None:
    train("diabetes-linear", out=tmp_path / "run", changes={"train.steps": 20}, quiet=True)
    convert(str(tmp_path / "run"), "linear.onnx", "onnx")
    model = package.load(tmp_path / "run")
    rows = np.random.default_rng(0).normal(size=(4, *model.schema.shape)).astype(np.float32)
    wanted = model.task.numbers(model.learner.outputs({"input": rows}))
    np.testing.assert_allclose(answers("linear.onnx", rows)[:, 0], wanted, rtol=1e-4)


def test_without_the_packages(run: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        if name == "onnxscript":
            raise ImportError(name)
        return importlib.import_module(name)

    monkeypatch.setattr(exporting, "import_module", absent)
    refused = canon("convert", run, "x.onnx", "--to", "onnx")
    assert refused.code == 2 and "pip install 'deepcanon[onnx]'" in refused.err and refused.err.count("\n") == 1
    assert not Path("x.onnx").exists()


def test_a_graph_that_differs_is_not_written(
    run: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "TOLERANCE", -1.0)
    refused = canon("convert", run, "x.onnx", "--to", "onnx")
    assert refused.code == 2 and "nothing is written" in refused.err and not Path("x.onnx").exists()


def test_what_has_no_logits(canon: Callable[..., Any]) -> None:
    for name in ("gan:tiny", "simclr:tiny"):
        refused = canon("convert", name, "x.onnx", "--to", "onnx")
        assert refused.code == 2 and "which cannot be written as an ONNX file; --to onnx writes " in refused.err, (
            refused.err
        )
