"""Batch norm against torch's in one process, and two processes against one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from canon.nn.normalization import BatchNorm1d, BatchNorm2d

PAIRS = {"1d": (BatchNorm1d, nn.BatchNorm1d, (6, 3)), "1d-length": (BatchNorm1d, nn.BatchNorm1d, (6, 3, 4))}
PAIRS["2d"] = (BatchNorm2d, nn.BatchNorm2d, (6, 3, 4, 5))


def jitter(module: nn.Module) -> None:
    with torch.no_grad():
        for value in module.parameters():
            value.uniform_(0.5, 1.5)


@pytest.mark.parametrize("kind", PAIRS)
def test_one_process_equals_torch_bit_for_bit_in_training_and_evaluation(kind: str) -> None:
    ours_class, torch_class, shape = PAIRS[kind]
    torch.manual_seed(0)
    ours, theirs = ours_class(3), torch_class(3)
    jitter(theirs)
    assert ours.load_state_dict(theirs.state_dict())  # same keys both ways
    for training in (True, True, False):
        ours.train(training), theirs.train(training)
        x = torch.randn(shape).requires_grad_()
        y = x.detach().clone().requires_grad_()
        out, expected = ours(x), theirs(y)
        out.square().sum().backward(), expected.square().sum().backward()
        assert torch.equal(out, expected) and torch.equal(x.grad, y.grad)
    for (name, value), other in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        assert torch.equal(value, other), name


MEAN = 1000.0  # sum of squares minus square of sums would lose most digits here
CUTS = ((0, 4), (4, 6))  # processes hold 4 and 2 of the 6 examples


def setting(kind: str, momentum: float | None) -> tuple[nn.Module, Tensor, Tensor]:
    ours_class, _, shape = PAIRS[kind]
    torch.manual_seed(1)
    module = ours_class(3, momentum=momentum)
    jitter(module)
    return module, torch.randn(2, *shape) + MEAN, torch.randn(2, *shape)


def two_steps(module: nn.Module, x: Tensor, weight: Tensor) -> dict[str, Tensor]:
    """Two training passes; the loss is a weighted sum, so that each example's gradient is its own."""
    x.requires_grad_()
    out = torch.stack([module(part) for part in x])
    (out * weight).sum().backward()
    grads = {f"grad of {name}": p.grad for name, p in module.named_parameters()}
    return {"out": out.detach(), "grad of x": x.grad, **grads, **module.state_dict()}


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    results = {}
    for kind in PAIRS:
        for momentum in (0.1, None):
            module, x, weight = setting(kind, momentum)
            begin, end = CUTS[rank]
            results[f"{kind} {momentum}"] = two_steps(module, x[:, begin:end].clone(), weight[:, begin:end])
            module.eval()
            results[f"{kind} {momentum}"]["evaluated"] = module(x[0]).detach()
    torch.save(results, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Tensor]]]:
    folder: Path = tmp_path_factory.mktemp("gloo")
    mp.spawn(worker, (str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("kind", PAIRS)
def test_two_processes_equal_one(kind: str, momentum: float | None, processes: list) -> None:
    """Outputs, input gradients, summed weight gradients and running statistics of batches 4 + 2 = those of 6."""
    module, x, weight = setting(kind, momentum)
    whole = two_steps(module, x, weight)
    module.eval()
    first, second = (results[f"{kind} {momentum}"] for results in processes)
    # At a mean of 1000 and variance 1, float32 itself leaves about 1e-4 in the normalised values.
    close = {"rtol": 1e-3, "atol": 1e-3}
    for key in ("out", "grad of x"):
        torch.testing.assert_close(torch.cat([first[key], second[key]], 1), whole[key], **close)
    for key in ("grad of weight", "grad of bias"):
        torch.testing.assert_close(first[key] + second[key], whole[key], **close)
    for key in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(first[key], whole[key], rtol=1e-5, atol=1e-5)
        assert torch.equal(first[key], second[key])
    torch.testing.assert_close(first["evaluated"], module(x[0]).detach(), **close)
    local = module.__class__(3)(x[0, :4].detach())  # and the test could fail: local statistics differ
    assert (local * whole["weight"].view(3, *[1] * (local.dim() - 2)) - whole["out"][0, :4]).abs().max() > 0.05
