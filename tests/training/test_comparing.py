"""The loss of the global batch has one gradient, whatever the number of processes and of pieces."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from canon.data.batching.loader import Piece
from canon.objectives.settings import OtherTexts
from canon.tasks.base import Compares, Turn
from canon.training.comparing import compare_in_pieces
from tests.battery.runs import in_float64
from tests.training.comparing import fit

ROOT = Path(__file__).parent.parent.parent
OBJECTIVES = ["mnrl", "triplet", "simcse", "cosent", "cosine", "softmax-nli"]


def weights(run: Path) -> dict[str, Tensor]:
    return load_file(run / "last" / "model.safetensors")


def assert_close(ours: Path, theirs: Path) -> None:
    first, second = weights(ours), weights(theirs)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert tensor.dtype == torch.float64
        assert torch.allclose(tensor, second[name], rtol=0, atol=1e-9), name


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    with in_float64():
        for name in OBJECTIVES:
            fit(folder / name, name)
    return folder


@pytest.mark.parametrize("pieces", [2, 8])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_pieces_have_the_gradient_of_the_whole_batch(
    objective: str, pieces: int, at_once: Path, tmp_path: Path
) -> None:
    with in_float64():
        fit(tmp_path / "run", objective, **{"train.micro_batch": 16 // pieces})
    assert_close(tmp_path / "run", at_once / objective)


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_have_the_gradient_of_one(processes: int, at_once: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.training.comparing", str(tmp_path), *OBJECTIVES]
    workers = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    outputs = [worker.communicate(timeout=300)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * processes, "\n".join(outputs)
    for name in OBJECTIVES:
        assert_close(tmp_path / name, at_once / name)


class Drops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = nn.Linear(4, 3).double(), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.layer(x))


class Nearest(Compares):
    """mnrl on rows of two."""

    def embed(self, network, batch, turn):  # type: ignore[no-untyped-def]
        return network(batch["input"])

    def facts(self, batch):  # type: ignore[no-untyped-def]
        return {"keys": batch["keys"]}

    def compare(self, vectors_N, facts, rows, turn):  # type: ignore[no-untyped-def]
        from canon.objectives.sentences import MultipleNegatives

        return MultipleNegatives(OtherTexts()).total(vectors_N, facts, rows)


def test_the_second_pass_drops_what_the_first_dropped() -> None:
    """The gradient in pieces against that of one graph that has gone through the same pieces."""
    torch.manual_seed(0)
    network, task = Drops(), Nearest()
    x, keys = torch.randn(8, 2, 4, dtype=torch.float64), torch.arange(16).view(8, 2)
    bounds = [(0, 3), (3, 6), (6, 8)]
    pieces = [Piece({"input": x[a:b], "keys": keys[a:b]}, (a, b, 8)) for a, b in bounds]
    torch.manual_seed(5)
    whole = torch.cat([task.embed(network, piece.batch, Turn()) for piece in pieces])
    loss = task.compare(whole, {"keys": keys}, (0, 8), Turn())
    loss.backward()
    expected = [parameter.grad.clone() for parameter in network.parameters() if parameter.grad is not None]
    network.zero_grad()
    torch.manual_seed(5)
    value = compare_in_pieces(
        task, network, pieces, Turn(), lambda number: None, lambda last: torch.enable_grad() if last else no(), prepared
    )
    assert value == pytest.approx(loss.item(), rel=1e-12)
    for ours, theirs in zip(network.parameters(), expected, strict=True):
        assert torch.allclose(ours.grad, theirs, rtol=0, atol=1e-12)  # type: ignore[arg-type]


def no():  # type: ignore[no-untyped-def]
    from contextlib import nullcontext

    return nullcontext()


def prepared(loss: Tensor) -> tuple[float, Tensor]:
    return loss.item(), loss
