"""Triton's kernels and CUDA graphs with CANON_KERNELS on and off; without a GPU the first in Triton's interpreter."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton comes with torch for CUDA alone")

from canon import kernels
from canon.kernels.cuda.token_loss import settle
from canon.nn import graphs
from canon.nn.attention.attend import packed
from canon.nn.graphs import Recorder
from canon.nn.ragged import Layout
from canon.nn.token_loss import _settle, token_loss
from tests.nn.test_graphs import made, taken
from tests.systems.test_causal import prompt

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
on_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="half precision and graphs of CUDA")


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("width", [(40, 64), (9000, 9024), (9000, 9000)], ids=str)
def test_softmax_of_a_block(width: tuple[int, int], learns: bool) -> None:
    """Rows that are filled up after the vocabulary, one and two tiles of them; a target that does not count."""
    size, whole = width
    torch.manual_seed(0)
    logits = torch.randn(5, whole, device=DEVICE, dtype=torch.bfloat16 if DEVICE == "cuda" else torch.float32)
    target = torch.tensor([0, size - 1, -100, 7, 7], device=DEVICE)
    logits[:3, 5], logits[3, 7], logits[4, 3] = 20.0, 20.0, 20.0  # the likeliest
    wanted = _settle(logits[:, :size].clone(), target, size, learns)
    actual = settle(logits.clone(), target, size, learns)
    torch.testing.assert_close(actual[0], wanted[0], rtol=1e-5, atol=1e-5)
    assert actual[1].tolist() == wanted[1].tolist() == [False, False, False, True, False]
    if learns:
        assert actual[2] is not None and wanted[2] is not None
        assert (actual[2][:, size:] == 0).all()
        torch.testing.assert_close(actual[2][:, :size], wanted[2], rtol=1e-2, atol=1e-6)
    else:
        assert actual[2] is None


def both(monkeypatch: pytest.MonkeyPatch, work) -> tuple:  # type: ignore[no-untyped-def, type-arg]
    results = []
    for wanted in (True, False):
        monkeypatch.setattr(kernels, "_ENABLED", wanted)
        results.append(work())
    return tuple(results)


@on_gpu
def test_token_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, device=DEVICE).requires_grad_() for shape in ((50, 32), (999, 32), (999,)))
    target = torch.randint(-1, 999, (50,), device=DEVICE)

    def work() -> list[Tensor]:
        with torch.autocast("cuda", torch.bfloat16):
            loss = token_loss(x, weight, bias, target)
        return [loss.losses, loss.right, *torch.autograd.grad(loss.total, (x, weight, bias))]

    for one, other in zip(*both(monkeypatch, work), strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)


@on_gpu
@pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 5)])
def test_short_sequences(causal: bool, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layout = Layout(torch.tensor([3, 70, 128, 1]), torch.device(DEVICE)).packing
    qkv = torch.randn(202, 3, 2, 32, device=DEVICE, dtype=torch.bfloat16).requires_grad_()

    def work() -> list[Tensor]:
        out = packed(qkv, None, layout, layout, causal, window)
        return [out, *torch.autograd.grad(out.float().square().sum(), qkv)]

    for one, other in zip(*both(monkeypatch, work), strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)


@on_gpu
def test_recorded_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    network = made("gpt2", DEVICE, max_positions=64)

    def work() -> tuple[Tensor, Tensor]:
        recorder = Recorder(network, 3, 40, torch.device(DEVICE), every=4)
        assert (recorder._pool is not None) == kernels.enabled()
        recorder.begin(prompt(3, 5).to(DEVICE))
        return taken(graphs.go_on(recorder), 30)

    one, other = both(monkeypatch, work)
    assert one[0].equal(other[0])
    torch.testing.assert_close(one[1], other[1], rtol=1e-4, atol=1e-4)


@on_gpu
def test_recorded_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_texts: None) -> None:
    """Graphs, kernels for short sequences and none of both: the bfloat16 losses of 20 steps agree."""
    from canon.training.trainer import train

    def work() -> Tensor:
        changes = {"train.steps": 20, "train.log_every": 5, "train.evaluate_every": 20, "train.compile": "auto"}
        run = train("sequence/pronounce", out=tmp_path / str(kernels.enabled()), changes=changes, quiet=True)
        lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        return torch.tensor([line["train/loss"] for line in lines if "train/loss" in line])

    one, other = both(monkeypatch, work)
    assert len(one) > 1
    torch.testing.assert_close(one, other, rtol=0.01, atol=0.01)
