"""Systems over fields against double loops, finite differences and scikit-learn; lazy rows against dense ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder
from torch import Tensor

from canon import optim
from canon.contracts import World
from canon.errors import CanonError
from canon.nn.rows import RowTable, pairwise
from canon.optim import settings as s
from canon.systems.clicks import deepfm, fm, linear, wide_and_deep
from canon.systems.clicks.gbdt_lr import GBDTLR
from canon.training.data import read_data
from canon.training.plan import build
from canon.training.trainer import train

B, WIDTHS, ROWS, DIM = 5, (1, 2, 1), 12, 3
SIZES: dict[str, Any] = {"num_rows": ROWS, "widths": WIDTHS}
DEEP: dict[str, Any] = {**SIZES, "dim": DIM, "hidden": (6, 4), "activation": "sigmoid", "init_std": 0.5}


def batch(crosses: int = 0) -> tuple[Tensor, Tensor, Tensor | None]:
    draw = np.random.default_rng(0)
    rows = torch.from_numpy(draw.integers(0, ROWS, (B, sum(WIDTHS))))
    weights = torch.from_numpy(draw.random((B, sum(WIDTHS))))
    return rows, weights, torch.from_numpy(draw.integers(0, 4, (B, crosses))) if crosses else None


def by_hand(
    network: Any, rows: Tensor, weights: Tensor, with_pairs: bool
) -> tuple[list[float], list[list[np.ndarray]]]:
    """b + Σ w x and, pair by pair, ⟨v_i, v_j⟩ of the fields; and the fields' vectors."""
    table, outputs, fields = network.table.weight.detach().numpy(), [], []
    for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
        value = network.bias.item()
        vectors, place = [], 0
        for width in WIDTHS:
            own = [w * table[r] for r, w in zip(row[place : place + width], weight[place : place + width], strict=True)]
            value += sum(float(each[0]) for each in own)
            vectors.append(sum(each[1:] for each in own))
            place += width
        for i in range(len(vectors)):
            for j in range(i + 1, len(vectors)):
                value += float(vectors[i] @ vectors[j]) if with_pairs else 0.0
        outputs.append(value)
        fields.append(vectors)
    return outputs, fields


def filled(network: Any) -> Any:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.double()


def test_fm_is_its_double_loop() -> None:
    network = filled(fm.FM(fm.Config(**SIZES, dim=DIM)))
    rows, weights, _ = batch()
    expected, _ = by_hand(network, rows, weights, True)
    np.testing.assert_allclose(network(rows, weights)[:, 0].detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("apart", [False, True])
def test_pairs_of_terms(apart: bool) -> None:
    """Features without fields each stand for themselves: pairs of one field count, too."""
    network = filled(fm.FM(fm.Config(**SIZES, dim=DIM, apart=apart)))
    rows, weights, _ = batch()
    _, terms = network.look_up(rows, weights, None)
    assert terms.shape == (B, sum(WIDTHS) if apart else len(WIDTHS), DIM)
    pairs = [sum(t[i] @ t[j] for i in range(len(t)) for j in range(i)) for t in terms.detach().numpy()]
    np.testing.assert_allclose(pairwise(terms).detach().numpy(), pairs, rtol=1e-12)


@pytest.mark.parametrize("module", [wide_and_deep, deepfm])
def test_deep_systems_are_their_formulas(module: Any) -> None:
    crosses = 2 if module is wide_and_deep else 0
    config = module.Config(**DEEP, crosses=crosses, cross_rows=4 if crosses else 1)
    network = filled((wide_and_deep.WideAndDeep if crosses else deepfm.DeepFM)(config))
    rows, weights, crossed = batch(crosses)
    expected, fields = by_hand(network, rows, weights, module is deepfm)
    for place, vectors in enumerate(fields):
        hidden = np.concatenate(vectors)
        for layer in network.deep.layers:
            linear_layer = layer[0]
            hidden = 1 / (
                1 + np.exp(-(linear_layer.weight.detach().numpy() @ hidden + linear_layer.bias.detach().numpy()))
            )
        expected[place] += float((network.deep.output.weight.detach().numpy() @ hidden)[0])
        if crossed is not None:
            expected[place] += network.crosses.weight[crossed[place]].sum().item()
    np.testing.assert_allclose(network(rows, weights, crossed)[:, 0].detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize(
    "build", [lambda: fm.FM(fm.Config(**SIZES, dim=DIM)), lambda: deepfm.DeepFM(deepfm.Config(**DEEP))]
)
def test_gradients_by_finite_differences(build: Callable[[], Any]) -> None:
    network = filled(build())
    rows, weights, _ = batch()
    network(rows, weights).square().sum().backward()
    gradient = network.table.weight.grad.to_dense()
    table = network.table.weight.data
    for row, column in [(int(rows[0, 0]), 0), (int(rows[1, 1]), 1), (int(rows[2, 3]), DIM)]:
        values = []
        for step in (1e-6, -1e-6):
            table[row, column] += step
            values.append(float(network(rows, weights).square().sum()))
            table[row, column] -= step
        assert gradient[row, column].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_crosses_are_for_those_with_a_part_for_them() -> None:
    with pytest.raises(CanonError, match=r"fm does not use data\.crosses"):
        fm.FM(fm.Config(**SIZES, crosses=1, cross_rows=4))


# ---- lazy rows


def trained(settings: Any, sparse: bool, rows: bool, steps: int = 100) -> tuple[Tensor, Tensor]:
    """A table and an ordinary weight after some steps on batches that have few rows each."""
    torch.manual_seed(0)
    table, weight = RowTable(40, 3, 0.1).double(), torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    table.sparse = sparse
    groups: list[dict[str, Any]] = [
        {"params": [table.weight], **({"rows": True} if rows else {})},
        {"params": [weight]},
    ]
    optimizer = optim.create(settings, groups)
    draw = torch.Generator().manual_seed(1)
    for _ in range(steps):
        looked = torch.randint(0, 40, (6, 2), generator=draw)
        optimizer.zero_grad()
        ((table(looked) * weight).sum((1, 2)) - 1).square().sum().backward()
        optimizer.step()
    return table.weight.detach(), weight.detach()


def test_adagrad_of_rows_is_dense_adagrad() -> None:
    settings = s.AdaGrad(lr=0.1)
    for own, dense in zip(trained(settings, True, True), trained(settings, False, False), strict=True):
        torch.testing.assert_close(own, dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "settings", [s.AdaGrad(lr=0.1, weight_decay=0.1), s.Adam(weight_decay=0.1), s.AdamW(), s.SGD()]
)
def test_rows_of_a_dense_gradient_are_those_of_a_sparse_one(settings: Any) -> None:
    for own, dense in zip(trained(settings, True, True), trained(settings, False, True), strict=True):
        torch.testing.assert_close(own, dense, rtol=1e-12, atol=1e-12)


def test_adam_of_rows_is_that_of_torch() -> None:
    """torch's SparseAdam, whose moments rest too; it corrects ε with the moments, so ε is next to nothing here."""
    torch.manual_seed(0)
    tables = [RowTable(20, 2, 0.1).double() for _ in range(2)]
    tables[1].load_state_dict(tables[0].state_dict())
    ours = optim.create(s.Adam(lr=0.01, eps=1e-16), [{"params": [tables[0].weight], "rows": True}])
    theirs = torch.optim.SparseAdam([tables[1].weight], lr=0.01, eps=1e-16)
    draw = torch.Generator().manual_seed(1)
    for _ in range(50):
        looked = torch.randint(0, 20, (4,), generator=draw)
        for table, optimizer in zip(tables, (ours, theirs), strict=True):
            optimizer.zero_grad()
            (table(looked).sum(1) - 1).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(tables[0].weight, tables[1].weight, rtol=1e-9, atol=1e-9)


def test_weight_decay_reaches_only_rows_of_the_batch() -> None:
    table = RowTable(4, 2, 0.1)
    before = table.weight.detach().clone()
    optimizer = optim.create(s.AdaGrad(weight_decay=0.5), [{"params": [table.weight], "rows": True}])
    table(torch.tensor([1, 1])).sum().backward()
    optimizer.step()
    changed = (table.weight.detach() != before).any(1).tolist()
    assert changed == [False, True, False, False]


@pytest.mark.parametrize("settings", [s.LAMB(), s.SGD(momentum=0.9), s.Adam(bias_correction=False), s.RMSProp()])
def test_other_optimisers_are_refused(settings: Any) -> None:
    with pytest.raises(CanonError, match="takes adam, adamw, adagrad, or sgd without momentum"):
        optim.create(settings, [{"params": [RowTable(2, 2, 0.1).weight], "rows": True}])


# ---- the linear system against scikit-learn


def test_field_lr_finds_the_weights_of_scikit_learn(tmp_path: Path) -> None:
    """Both by the log loss with an L2 term: the same probabilities at the minimum."""
    draw = np.random.default_rng(0)
    rows = np.stack([draw.integers(0, 4, 400), 4 + draw.integers(0, 5, 400)], axis=1)
    truth = draw.normal(size=9)
    target = (draw.random(400) < 1 / (1 + np.exp(-truth[rows].sum(1)))).astype(np.int64)
    network = linear.FieldLR(linear.Config(num_rows=9, widths=(1, 1))).double()
    network.table.sparse = False
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=200, tolerance_grad=1e-10)
    label = torch.from_numpy(target).double()

    def closure() -> Tensor:
        optimizer.zero_grad()
        logit = network(torch.from_numpy(rows))[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum")
        loss = loss + 0.5 * network.table.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    one_hot = np.zeros((400, 9))
    one_hot[np.arange(400)[:, None], rows] = 1
    oracle = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(one_hot, target)
    ours = torch.sigmoid(network(torch.from_numpy(rows))[:, 0]).detach().numpy()
    np.testing.assert_allclose(ours, oracle.predict_proba(one_hot)[:, 1], atol=1e-5)


# ---- trees and regression


def test_leaves_and_regression_are_those_of_lightgbm_and_scikit_learn(tmp_path: Path) -> None:
    """The outputs of a run are scikit-learn's regression over LightGBM's own leaves of the other half of the rows."""
    source = Path(__file__).parents[1] / "battery" / "clicks.csv"
    changes = {"train.steps": 5, "data.valid": 0.0, "train.threads": 1, "train.evaluate_every": 5}
    run = train("gbdt-lr", str(source), tmp_path / "run", changes=changes, quiet=True)
    data = read_data(run.recipe)
    learner, _ = build(run.recipe.fitted(data.schema.sizes()), data.schema, World())
    assert isinstance(learner, GBDTLR)
    learner.restore({"model": load_file(run.path / "last" / "model.safetensors")}, {})
    assert len(learner.trees) == 5
    columns = data.splits["train"]
    matrix, target = learner._matrix(columns), np.asarray(columns["target"])
    half = np.random.RandomState(run.recipe.train.seed).permutation(len(target))[len(target) // 2 :]
    leaves = np.stack([np.asarray(tree.predict(matrix, pred_leaf=True)).reshape(-1) for tree in learner.trees], axis=1)
    encoder = OneHotEncoder(categories=[np.arange(31)] * 5).fit(leaves)
    oracle = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000).fit(encoder.transform(leaves[half]), target[half])
    ours = learner.outputs(columns)["logits"][:, 0]
    np.testing.assert_allclose(ours, oracle.decision_function(encoder.transform(leaves)), atol=1e-3)


def test_trees_grow_on_the_scores_of_those_before(tmp_path: Path) -> None:
    """Trees that are grown one a step are those that LightGBM grows at once."""
    import lightgbm

    source = Path(__file__).parents[1] / "battery" / "clicks.csv"
    changes = {"train.steps": 4, "data.valid": 0.0, "train.threads": 1, "system.halves": "same"}
    run = train("gbdt-lr", str(source), tmp_path / "run", changes=changes, quiet=True)
    data = read_data(run.recipe)
    learner, _ = build(run.recipe.fitted(data.schema.sizes()), data.schema, World())
    assert isinstance(learner, GBDTLR)
    learner.restore({"model": load_file(run.path / "last" / "model.safetensors")}, {})
    columns = data.splits["train"]
    matrix, target = learner._matrix(columns), np.asarray(columns["target"])
    order = np.random.RandomState(run.recipe.train.seed).permutation(len(target))
    parameters = {"objective": "binary", "verbosity": -1, "num_threads": 1, "deterministic": True, "seed": 1}
    at_once = lightgbm.train(
        parameters,
        lightgbm.Dataset(matrix[order], target[order], categorical_feature=learner._categories()),
        num_boost_round=4,
    )
    share = target.mean()
    ours = np.log(share / (1 - share)) + sum(np.asarray(tree.predict(matrix, raw_score=True)) for tree in learner.trees)
    np.testing.assert_allclose(ours, at_once.predict(matrix, raw_score=True), atol=1e-6)
