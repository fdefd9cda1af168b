"""GAN and DCGAN against the paper's theorem, hand-written turns of the game, published shapes and counts."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

import canon
from canon.data.column_encoders import NumberColumn
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema
from canon.data.targets import Nothing
from canon.errors import CanonError
from canon.nn.counting import count_parameters
from canon.objectives import adversarial
from canon.registry import find
from canon.systems.adversarial.dcgan import count_doublings
from canon.tasks import table as tasks
from canon.tasks.base import Turn
from canon.tasks.generation import Generation
from canon.training.trainer import train
from tests.objectives.choices import choice

TABLE = FeatureSchema(Nothing(), (3,), encoders=tuple(NumberColumn(name) for name in "abc"))


def game(
    name: str = "gan:tiny", schema: Schema = TABLE, loss: str = "non-saturating", **changes: object
) -> tuple[nn.Module, Generation]:
    system, preset = find(name)
    config = system.configure(preset, {"shape": list(schema.shape), **changes})
    torch.manual_seed(0)
    network = system.load()[1](config)
    task = tasks.create(system, config, schema, choice(loss, "generation"))
    assert isinstance(task, Generation)
    return network, task


# Theorem 1


def optimal_value(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, float]:
    """max_D V for densities p (data) and q (samples) on a few points, by descent on a logit per point."""
    data, samples = torch.from_numpy(p), torch.from_numpy(q)
    logits = torch.randn(len(p), dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    solver = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        real = adversarial.discriminator(logits, torch.full_like(logits, -1e3))  # −log D(x) alone
        fake = adversarial.discriminator(torch.full_like(logits, 1e3), logits)  # −log(1 − D(G(z))) alone
        total = (data * real + samples * fake).sum()
        total.backward()
        return total

    solver.step(loss)
    return torch.sigmoid(logits.detach()).numpy(), -loss().item()


def test_equal_densities_leave_one_half_and_minus_log_four() -> None:
    p = np.array([0.1, 0.2, 0.3, 0.4])
    best, value = optimal_value(p, p)
    np.testing.assert_allclose(best, 0.5, atol=1e-4)
    assert value == pytest.approx(-log(4), abs=1e-9)


def test_unequal_densities_leave_the_jensen_shannon_divergence() -> None:
    """D* = p/(p + q) and C(G) = −log 4 + 2 JSD(p ‖ q)."""
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.4, 0.1, 0.1])
    best, value = optimal_value(p, q)
    m = (p + q) / 2
    divergence = ((p * np.log(p / m)).sum() + (q * np.log(q / m)).sum()) / 2
    np.testing.assert_allclose(best, p / (p + q), atol=1e-4)
    assert value == pytest.approx(-log(4) + 2 * divergence, abs=1e-9)


# The turns


def gradients(loss: Tensor, network: nn.Module) -> dict[str, Tensor]:
    named = dict(network.named_parameters())
    result = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(named, result, strict=True) if gradient is not None}


def by_hand(network: nn.Module, task: Generation, x: Tensor, z: Tensor, turn: str, loss: str) -> Tensor:
    """Algorithm 1 with torch's own cross-entropy and labels."""
    ones, zeros = torch.ones(len(x)), torch.zeros(len(x))
    G, D = network.generator, network.discriminator
    if turn == "discriminator":
        real = F.binary_cross_entropy_with_logits(D(x), ones, reduction="sum")  # type: ignore[operator]
        return real + F.binary_cross_entropy_with_logits(D(G(z).detach()), zeros, reduction="sum")  # type: ignore[operator]
    if loss == "minimax":
        return -F.binary_cross_entropy_with_logits(D(G(z)), zeros, reduction="sum")  # type: ignore[operator]
    return F.binary_cross_entropy_with_logits(D(G(z)), ones, reduction="sum")  # type: ignore[operator]


@pytest.mark.parametrize("loss", ["non-saturating", "minimax"])
@pytest.mark.parametrize("turn", ["discriminator", "generator"])
def test_gradients_are_those_of_the_turn_by_hand(turn: str, loss: str) -> None:
    network, task = game(loss=loss)
    x = torch.randn(16, 3)
    torch.manual_seed(5)
    z = 2 * torch.rand(16, 8) - 1
    torch.manual_seed(5)
    ours = task.loss(network, {"input": x}, turn, Turn())
    theirs = by_hand(network, task, x, z, turn, loss)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    got, wanted = gradients(ours, network), gradients(theirs, network)
    assert got.keys() == wanted.keys()
    for name in got:
        torch.testing.assert_close(got[name], wanted[name], rtol=1e-4, atol=1e-6)
    assert any(name.startswith("generator") for name in got) == (turn == "generator")


def test_what_is_observed_is_what_the_discriminator_thinks() -> None:
    network, task = game(prior="normal")
    x = torch.randn(16, 3)
    torch.manual_seed(5)
    z = torch.randn(16, 8)
    torch.manual_seed(5)
    turn = Turn()
    task.loss(network, {"input": x}, "discriminator", turn)
    G, D = network.generator, network.discriminator
    for name, judged in (("D(x)", D(x)), ("D(G(z))", D(G(z)))):  # type: ignore[operator]
        total, count = turn.observed[name]
        assert count == 16 and total.item() == pytest.approx(judged.sigmoid().sum().item(), rel=1e-5)


@pytest.mark.parametrize("k", [1, 3])
def test_k_turns_of_the_discriminator_before_each_of_the_generator(k: int, tmp_path: Path) -> None:
    """Counted by Adam itself; and each turn draws its own batch."""
    changes = {
        "system.name": "gan:tiny",
        "system.discriminator_steps": k,
        "data.limit": 500,
        "train.steps": 4,
        "train.batch": 32,
    }
    run = train("mixture-gan", out=tmp_path / "run", changes=changes, quiet=True)
    state = load_file(run.path / "last" / "optimizer.safetensors")
    steps = {name.split("/")[0]: int(tensor) for name, tensor in state.items() if name.endswith("/step")}
    assert steps == {"discriminator": 4 * k, "generator": 4}
    kept = json.loads((run.path / "last" / "state.json").read_text())["learner"]
    assert kept["position"] == 4 * (k + 1)
    assert kept["sums"].keys() == {"discriminator", "generator"}


def test_each_player_has_its_own_optimiser(tmp_path: Path) -> None:
    changes = {
        "system.name": "gan:tiny",
        "train.steps": 2,
        "optimizers.generator.lr": 0.5,
        "optimizer.schedule": {"name": "constant"},
    }
    run = train("mixture-gan", out=tmp_path / "run", changes=changes, quiet=True)
    row = next(row for row in run.metrics() if "train/lr/generator" in row)
    assert row["train/lr/generator"] == 0.5 and row["train/lr/discriminator"] == 0.001


def test_gan_has_the_layers_it_says() -> None:
    network = canon.create("gan", shape=[3], latent=5, generator_hidden=[7], discriminator_hidden=[11, 13])
    assert count_parameters(network.generator) == (5 * 7 + 7) + (7 * 3 + 3)
    assert count_parameters(network.discriminator) == (3 * 11 + 11) + (11 * 13 + 13) + (13 + 1)
    assert network(torch.zeros(4, 5)).shape == (4, 3) and network.turn("generator")(torch.zeros(4, 5)).shape == (4,)
    images = canon.create("gan", shape=[1, 8, 8])(torch.rand(4, 100))
    assert images.shape == (4, 1, 8, 8) and images.abs().max() <= 1


# DCGAN


def outputs_of(module: nn.Module, kinds: tuple[type, ...], *inputs: Tensor) -> list[tuple[int, ...]]:
    shapes: list[tuple[int, ...]] = []
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.register_forward_hook(lambda _layer, _inputs, output: shapes.append(tuple(output.shape[1:])))
    module(*inputs)
    return shapes


def test_the_published_generator_and_discriminator() -> None:
    """Figure 1 of the paper: 100 → 4×4×1024 → 8×8×512 → 16×16×256 → 32×32×128 → 64×64×3; and mirrored."""
    network = canon.create("dcgan")
    layers = (nn.Unflatten, nn.ConvTranspose2d)
    maps = [(1024, 4, 4), (512, 8, 8), (256, 16, 16), (128, 32, 32), (3, 64, 64)]
    assert outputs_of(network.generator, layers, torch.rand(2, 100)) == maps
    seen = outputs_of(network.discriminator, (nn.Conv2d,), torch.rand(2, 3, 64, 64))
    assert seen == [(128, 32, 32), (256, 16, 16), (512, 8, 8), (1024, 4, 4)]
    # Weights of 5 × 5 kernels, two numbers per normalised map, a bias where there is no norm.
    inner = 25 * (1024 * 512 + 512 * 256 + 256 * 128)
    assert count_parameters(network.generator) == (
        100 * 16 * 1024 + 2 * 1024 + inner + 2 * (512 + 256 + 128) + 25 * 128 * 3 + 3
    )
    assert count_parameters(network.discriminator) == (
        25 * 3 * 128 + 128 + inner + 2 * (256 + 512 + 1024) + 16 * 1024 + 1
    )


def test_the_architecture_guidelines() -> None:
    """Section 3: no pooling, batch norm in both players but not at G's output and D's input, tanh, leaky ReLU 0.2."""
    network = canon.create("dcgan")
    kinds = {type(layer) for layer in network.modules()}
    assert not any("Pool" in kind.__name__ for kind in kinds)
    generator = [layer for layer in network.generator.modules() if not list(layer.children())]
    assert isinstance(generator[-1], nn.Tanh) and isinstance(generator[-2], nn.ConvTranspose2d)
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in generator) == 4
    discriminator = [layer for layer in network.discriminator.modules() if not list(layer.children())]
    assert isinstance(discriminator[0], nn.Conv2d) and isinstance(discriminator[1], nn.LeakyReLU)
    assert {layer.negative_slope for layer in discriminator if isinstance(layer, nn.LeakyReLU)} == {0.2}
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d) and layer.weight.numel() > 10_000:
            assert layer.weight.std().item() == pytest.approx(0.02, rel=0.05)
            assert abs(layer.weight.mean().item()) < 0.001


@pytest.mark.parametrize(("shape", "doublings"), [((1, 8, 8), 1), ((1, 28, 28), 2), ((3, 32, 32), 3), ((1, 20, 28), 2)])
def test_other_sizes(shape: tuple[int, int, int], doublings: int) -> None:
    assert count_doublings(*shape[1:]) == doublings
    network = canon.create("dcgan:tiny", shape=list(shape))
    made = network(torch.rand(2, 16))
    assert made.shape == (2, *shape) and made.abs().max() <= 1
    assert network.discriminator(made).shape == (2,)


@pytest.mark.parametrize("sides", [(27, 27), (6, 6), (30, 30), (8, 64)])
def test_sizes_that_cannot_be_made_are_one_sentence(sides: tuple[int, int]) -> None:
    with pytest.raises(CanonError, match=rf"8, 10, 12, 14, 16, 20.* not {sides[0]} x {sides[1]}; .*data.size"):
        canon.create("dcgan", shape=[1, *sides])


def test_two_passes_keep_the_statistics_of_data_and_samples_apart() -> None:
    """D's logit of data must not depend on the samples beside it."""
    schema = PixelSchema(Nothing(), (1, 8, 8), std=(16.0,), white=16)
    network, task = game("dcgan:tiny", schema)
    x, z = torch.rand(8, 1, 8, 8), torch.rand(8, 16)
    turn = network.turn("discriminator")
    first, _ = turn(z, task.scaled(x))
    second, _ = turn(z * 0.1, task.scaled(x))
    torch.testing.assert_close(first, second)
