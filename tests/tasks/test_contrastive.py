"""The contrastive task against loops and scikit-learn: loss, views, probe, alignment and uniformity."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from canon.data.batching.augment import ImageDraws, augmenter
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema
from canon.data.targets import Class, Nothing
from canon.errors import CanonError
from canon.objectives.contrastive import nt_xent
from canon.registry import find
from canon.tasks.base import Turn
from canon.tasks.contrastive import Contrastive, probe_accuracy
from canon.tasks.gathering import gathered
from tests.objectives.choices import choice
from tests.tasks.arrays import arrays

ROOT = Path(__file__).parents[2]
SCHEMA = PixelSchema(Class(("a", "b", "c")), (1, 8, 8), std=(16.0,), white=16)


def task(schema: Schema = SCHEMA, temperature: float = 0.1, **changes: object) -> tuple[Contrastive, nn.Module]:
    system, _ = find("simclr:tiny")
    config = system.configure("tiny", {"shape": list(schema.shape), **changes})
    torch.manual_seed(0)
    return Contrastive(choice("nt-xent", "contrastive", temperature=temperature), config, schema), system.load()[1](
        config
    )


def images(size: int = 10) -> Tensor:
    return torch.rand(size, 1, 8, 8, generator=torch.Generator().manual_seed(2))


def cosine(a: Tensor, b: Tensor) -> float:
    return (a @ b / (a.norm() * b.norm())).item()


def test_the_loss_is_a_sum_over_both_views_of_every_image() -> None:
    """A loop over the 2N anchors of equation 1, with views made outside the task from the same generator."""
    made, network = task(temperature=0.2)
    turn = Turn(torch.Generator().manual_seed(9))
    loss = made.loss(network, {"input": images()}, "all", turn).item()
    assert made.count({"input": images()}) == 20
    change = augmenter(made.config.augment, SCHEMA)
    assert change is not None
    draws = ImageDraws(images().device, torch.Generator().manual_seed(9), (0, len(images()), len(images())))
    first, second = change(images(), draws), change(images(), draws)
    assert not torch.equal(first, second)
    with torch.no_grad():
        z = network(torch.cat([first, second]))[1]
    total = 0.0
    for i in range(20):
        others = sum(math.exp(cosine(z[i], z[k]) / 0.2) for k in range(20) if k != i)
        total -= math.log(math.exp(cosine(z[i], z[(i + 10) % 20]) / 0.2) / others)
    assert loss == pytest.approx(total, rel=1e-5)


def test_views_depend_on_the_place_in_the_global_batch_only() -> None:
    made, _ = task()
    parts = []
    for start, stop in ((0, 10), (0, 4), (4, 10)):
        turn = Turn(torch.Generator().manual_seed(1), (start, stop, 10))
        parts.append(made.views(images()[start:stop], turn))
    for whole, pieces in zip(parts[0].chunk(2), zip(parts[1].chunk(2), parts[2].chunk(2), strict=True), strict=True):
        torch.testing.assert_close(whole, torch.cat(pieces), rtol=0, atol=1e-6)


def test_some_rows_have_the_losses_they_have_among_all() -> None:
    first, second = torch.randn(2, 7, 3, dtype=torch.float64).unbind()
    every = nt_xent(first, second, 0.3)
    torch.testing.assert_close(nt_xent(first, second, 0.3, rows=(2, 5)), every[[2, 3, 4, 9, 10, 11]])


def test_gathered_rows_carry_the_gradients_of_all_processes(tmp_path: Path) -> None:
    """Two gloo processes with 3 and 4 rows: each adds a loss over all 7; a row's gradient is that of the sum."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.tasks.test_contrastive", str(tmp_path)]
    workers = [subprocess.Popen(command, cwd=ROOT, env={**os.environ, **place, "RANK": str(r)}) for r in range(2)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    rows = _rows().requires_grad_()
    sum(_loss(rows, rank) for rank in range(2)).backward()  # type: ignore[union-attr]
    assert rows.grad is not None
    result = torch.cat([torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)])
    torch.testing.assert_close(result, rows.grad)


def _rows() -> Tensor:
    return torch.randn(7, 2, generator=torch.Generator().manual_seed(3))


def _loss(rows_ND: Tensor, rank: int) -> Tensor:
    return ((rows_ND @ rows_ND.T) * torch.arange(49.0).reshape(7, 7) * (1 + rank)).sin().sum()


def test_the_probe_is_scikit_learns_ridge_on_each_half() -> None:
    from sklearn.linear_model import Ridge  # which the processes of another test, made of this file, do without

    chance = np.random.RandomState(4)
    target = chance.randint(0, 3, 61)
    features = chance.randn(61, 5) + 1.5 * np.eye(5)[target] + 3
    features[:, 4] = 7.0  # constant: no information, no division by nought
    order = np.random.RandomState(0).permutation(61)
    halves = order[:31], order[31:]
    right = 0
    for fit, test in (halves, halves[::-1]):
        mean, std = features[fit].mean(0), features[fit].std(0)
        scaled = (features - mean) / np.where(std > 0, std, 1)
        ridge = Ridge(alpha=0.1 * len(fit)).fit(scaled[fit], 2 * np.eye(3)[target[fit]] - 1)
        right += (ridge.predict(scaled[test]).argmax(1) == target[test]).sum()
    assert 25 < right < 61
    assert probe_accuracy(torch.from_numpy(features), torch.from_numpy(target)) == right / 61


def test_scores_equal_loops_over_groups_of_at_most_256() -> None:
    made, _ = task(temperature=0.5)
    first, second = torch.randn(2, 300, 4, generator=torch.Generator().manual_seed(5)).unbind()
    second = first + 0.5 * second
    target = np.arange(300) % 3
    scores = made.score(arrays({"features": first, "first": first, "second": second}), {"target": target})
    assert tuple(scores) == made.names() == ("loss", "probe_accuracy", "alignment", "uniformity")
    unit = [view.double() / view.double().norm(dim=1, keepdim=True) for view in (first, second)]
    losses = [nt_xent(first[half], second[half], 0.5) for half in (slice(0, 150), slice(150, 300))]
    assert scores["loss"] == pytest.approx(torch.cat(losses).mean().item(), rel=1e-6)
    assert scores["alignment"] == pytest.approx(float(((unit[0] - unit[1]) ** 2).sum(1).mean()))
    pairs = [
        math.exp(-2 * float(((unit[0][i] - unit[0][j]) ** 2).sum()))
        for start in (0, 150)
        for i in range(start, start + 150)
        for j in range(start, i)
    ]
    assert scores["uniformity"] == pytest.approx(math.log(sum(pairs) / len(pairs)))


def test_without_labels_the_loss_decides() -> None:
    made, network = task(PixelSchema(Nothing(), (1, 8, 8)))
    assert made.monitor == "loss" and made.names() == ("loss", "alignment", "uniformity")
    with torch.no_grad():
        outputs = made.run(network, {"input": images()}, Turn())
    assert made.score(arrays(outputs), {"input": images().numpy()}).keys() == set(made.names())
    assert len(made.rows(arrays(outputs), {}, 1)[0]["features"]) == 16


def test_no_changes_are_refused() -> None:
    with pytest.raises(CanonError, match=r"system\.augment is empty"):
        task(augment=[])
    with pytest.raises(CanonError, match=r'No augmentation \(system\.augment\) "colour"; did you mean color\?'):
        task(augment=["colour"])


if __name__ == "__main__":
    import torch.distributed as dist

    dist.init_process_group("gloo")
    mine = _rows()[:3] if dist.get_rank() == 0 else _rows()[3:]
    mine.requires_grad_()
    share = (0, 3, 7) if dist.get_rank() == 0 else (3, 7, 7)
    _loss(gathered(mine, share), dist.get_rank()).backward()
    torch.save(mine.grad, Path(sys.argv[1]) / f"{dist.get_rank()}.pt")
    dist.destroy_process_group()
