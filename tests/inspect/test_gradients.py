"""Gradients through time against a closed form and a recurrence written out; by parameter against a pass by hand."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canon import create
from canon.data.batching.loader import Examples
from canon.errors import CanonError
from canon.inspect.gradients import Curve, Gradients, gradients, gradients_figure, through_time
from canon.training.data import read_data
from canon.training.trainer import train
from canon.use.model import load


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_a_linear_recurrence_vanishes_or_explodes_by_its_factor(factor: float) -> None:
    """With W_hh = a·I and states near 0, where tanh is the identity, ‖∂L_T/∂h_t‖ = a^(T−t) ‖∂L_T/∂h_T‖."""
    network = create("rnn-lm:tiny", kind="rnn", vocab_size=11).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1e-6)
        network.recurrence.network.weight_hh_l0.copy_(factor * torch.eye(16))
        torch.nn.init.normal_(network.output.weight)
    tokens = torch.randint(0, 11, (3, 12))
    (curve,) = through_time(network, tokens[:, :2], tokens[:, 2:], tokens[:, 0])
    assert (curve.entry, curve.layer, len(curve.norms)) == ("hidden", 0, 10)
    expected = [curve.norms[0] * factor**back for back in range(10)]
    np.testing.assert_allclose(curve.norms, expected, rtol=1e-4)
    # The first: (softmax − one-hot) W of a uniform softmax.
    weight = network.output.weight.detach()
    first = [(weight.mean(0) - weight[token]).norm().item() for token in tokens[:, 0]]
    assert curve.norms[0] == pytest.approx(np.mean(first), rel=1e-4)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_two_layers_written_out(kind: str) -> None:
    network = create("rnn-lm:tiny", kind=kind, num_layers=2, vocab_size=11, init_scale=0.8).eval()
    generator = torch.Generator().manual_seed(0)
    before, tokens, following = (torch.randint(0, 11, shape, generator=generator) for shape in ((3, 4), (3, 7), (3,)))
    cells = [torch.nn.LSTMCell(16, 16) if kind == "lstm" else torch.nn.GRUCell(16, 16) for _ in range(2)]
    for layer, cell in enumerate(cells):
        cell.load_state_dict(
            {name: getattr(network.recurrence.network, f"{name}_l{layer}") for name, _ in cell.named_parameters()}
        )
    carried: list[Any] = [None, None]
    kept: list[list[tuple[torch.Tensor, ...]]] = []
    for t in range(11):
        x = network.embedding(torch.cat((before, tokens), 1)[:, t])
        for layer, cell in enumerate(cells):
            carried[layer] = cell(x, carried[layer])
            if t == 3:  # the window begins; what was before it has no gradient
                carried[layer] = torch.utils._pytree.tree_map(torch.Tensor.detach, carried[layer])
            x = carried[layer][0] if kind == "lstm" else carried[layer]
        if t > 3:
            kept.append([state if kind == "lstm" else (state,) for state in carried])
            for state in carried:
                torch.utils._pytree.tree_map(torch.Tensor.retain_grad, state)
    F.cross_entropy(network.output(x), following, reduction="sum").backward()
    values = {(curve.entry, curve.layer): curve.norms for curve in through_time(network, before, tokens, following)}
    names = ("hidden", "cell") if kind == "lstm" else ("hidden",)
    assert set(values) == {(name, layer) for name in names for layer in range(2)}
    for (name, layer), norms in values.items():
        expected = [step[layer][names.index(name)].grad.norm(dim=1).mean().item() for step in reversed(kept)]  # type: ignore[union-attr]
        np.testing.assert_allclose(norms, expected, rtol=1e-4)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gradients")
    chance = random.Random(0)
    (folder / "text.txt").write_text("\n".join(" ".join(chance.choices("abcdef", k=9)) for _ in range(200)))
    changes = {"data.tokenizer": "word", "data.window": 12, "train.steps": 4, "train.batch": 4, "system.kind": "lstm"}
    return train("rnn-lm:tiny", str(folder / "text.txt"), folder / "run", changes=changes, quiet=True).path


def test_language_model_run(story: Path, canon: Callable) -> None:
    model = load(story)
    result = gradients(model)
    assert [(curve.entry, curve.layer, len(curve.norms)) for curve in result.steps] == [
        ("hidden", 0, 12),
        ("cell", 0, 12),
    ]
    assert all(math.isfinite(norm) and norm > 0 for curve in result.steps for norm in curve.norms)
    # By hand: the mean loss of the first windows of sixteen streams.
    columns = read_data(model.run.recipe).splits["train"]
    batch = next(Examples(columns, model.schema, torch.device("cpu")).streams(16))
    logits, _ = model.network(batch["input"], None)
    loss = F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten(), ignore_index=-1)
    assert result.losses == {"all": pytest.approx(loss.item(), rel=1e-5)}
    by_hand = torch.autograd.grad(loss, list(model.network.parameters()))
    assert [row.name for row in result.parameters] == [name for name, _ in model.network.named_parameters()]
    np.testing.assert_allclose(
        [row.gradient for row in result.parameters], [g.norm().item() for g in by_hand], rtol=1e-4
    )
    assert all(parameter.grad is None for parameter in model.network.parameters()), "nothing is left behind"
    record = json.loads(canon("inspect", "gradients", story, "--json", "--length", 30, "--split", "valid").out)
    assert record["split"] == "valid" and [len(curve["norms"]) for curve in record["steps"]] == [30, 30]
    assert canon("inspect", "gradients", story).out == "run-gradients.png\n"
    assert Path("run-gradients.png").read_bytes().startswith(b"\x89PNG")
    for wrong, sentence in (
        ((story, "--split", "tset"), 'No split "tset"; did you mean test?'),
        ((story, "--length", 100_000), "too few to go back 100,000 steps"),
    ):
        refused = canon("inspect", "gradients", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1


def test_any_other_run(tmp_path: Path, canon: Callable) -> None:
    run = train("digits-mlp", out=tmp_path / "mlp", changes={"train.epochs": 1.0, "system.hidden": [8]}, quiet=True)
    norms = gradients(load(run.path))
    assert norms.steps == [] and [row.shape for row in norms.parameters] == [(8, 64), (8,), (10, 8), (10,)]
    figure = gradients_figure(norms)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [row.name for row in norms.parameters]
    boost = train("cancer-adaboost", out=tmp_path / "boost", changes={"train.steps": 2}, quiet=True)
    with pytest.raises(CanonError, match="has no network to look into"):
        gradients(load(boost.path))


def test_every_player_of_a_gan_has_its_own(tmp_path: Path) -> None:
    run = train("gan:tiny", "digits", out=tmp_path / "gan", changes={"train.steps": 2, "data.valid": 0.0}, quiet=True)
    norms = gradients(load(run.path))
    assert len(norms.losses) == 2
    assert {row.name.partition(".")[0] for row in norms.parameters} == {"generator", "discriminator"}


def test_figure_of_steps() -> None:
    curves = [Curve("hidden", layer, [10.0**-back for back in range(20)]) for layer in range(2)]
    figure = gradients_figure(Gradients("train", {"all": 1.0}, [], curves))
    lines = figure.axes[0].get_lines()
    assert len(lines) == 2 and figure.axes[0].get_yscale() == "log"
    drawn = np.asarray(lines[0].get_ydata(), dtype=float)
    assert np.isnan(drawn[12:]).all() and drawn[11] == pytest.approx(1e-11), "what has vanished is not drawn"
