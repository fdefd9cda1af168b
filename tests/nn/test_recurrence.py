"""Recurrence against torch's layers, one sequence at a time, and against the published equations written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from canon.errors import CanonError
from canon.nn.ragged import Layout
from canon.nn.recurrence import CELLS, Recurrent, merge_directions
from canon.nn.states import State

KINDS = ["rnn", "gru", "lstm"]
TORCH = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
LENGTHS = torch.tensor([3, 6, 1, 4, 6])


def made(kind: str, num_layers: int = 1, bidirectional: bool = False, dropout: float = 0.0) -> Recurrent:
    torch.manual_seed(0)
    return Recurrent(kind, 4, 5, num_layers, bidirectional, dropout).double()


def some_state(recurrent: Recurrent, batch: int) -> State:
    return {name: torch.randn_like(zeros) for name, zeros in recurrent.init_state(batch).items()}


def by_equations(kind: str, network: nn.RNNBase, x_TD: Tensor, h_LH: Tensor, c_LH: Tensor) -> tuple[Tensor, ...]:
    """One sequence through all layers, gate by gate and unit by unit as the papers write them."""
    c_LH = c_LH.clone()
    after_h, after_c = [], []
    for layer in range(network.num_layers):
        weights = [getattr(network, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
        W, U, b, d = (weight.chunk(gates) for weight in weights)
        h, c = h_LH[layer], c_LH[layer]
        out = []
        for x in x_TD:
            if kind == "rnn":
                h = torch.tanh(W[0] @ x + b[0] + U[0] @ h + d[0])
            elif kind == "gru":
                r = torch.sigmoid(W[0] @ x + b[0] + U[0] @ h + d[0])
                z = torch.sigmoid(W[1] @ x + b[1] + U[1] @ h + d[1])
                n = torch.tanh(W[2] @ x + b[2] + r * (U[2] @ h + d[2]))
                h = (1 - z) * n + z * h
            else:
                i = torch.sigmoid(W[0] @ x + b[0] + U[0] @ h + d[0])
                f = torch.sigmoid(W[1] @ x + b[1] + U[1] @ h + d[1])
                g = torch.tanh(W[2] @ x + b[2] + U[2] @ h + d[2])
                o = torch.sigmoid(W[3] @ x + b[3] + U[3] @ h + d[3])
                c = f * c + i * g
                h = o * torch.tanh(c)
            out.append(h)
        x_TD = torch.stack(out)
        after_h.append(h)
        after_c.append(c)
    return x_TD, torch.stack(after_h), torch.stack(after_c)


def assert_same_gradients(ours: Tensor, theirs: Tensor, wanted: list[Tensor]) -> None:
    for own, other in zip(
        torch.autograd.grad(ours, wanted), torch.autograd.grad(theirs, wanted, retain_graph=True), strict=True
    ):
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_whole_sequences_and_steps_follow_the_equations(kind: str, num_layers: int) -> None:
    """`forward`, `ragged` and repeated `step`, with gradients, against the equations one sequence at a time."""
    recurrent = made(kind, num_layers)
    layout = Layout(LENGTHS)
    x_ND = torch.randn(layout.total, 4, dtype=torch.float64, requires_grad=True)
    state = some_state(recurrent, 5)
    cells = state.get("cell", state["hidden"])
    rows = [
        by_equations(kind, recurrent.network, x_TD, state["hidden"][b], cells[b])
        for b, x_TD in enumerate(x_ND.split(LENGTHS.tolist()))
    ]
    wanted_NH = torch.cat([out for out, _, _ in rows])
    wanted = {"hidden": torch.stack([h for _, h, _ in rows]), "cell": torch.stack([c for _, _, c in rows])}

    out_NH, after = recurrent.ragged(x_ND, layout, state)
    torch.testing.assert_close(out_NH, wanted_NH)
    assert set(after) == set(recurrent.names)
    for name, tensor in after.items():
        torch.testing.assert_close(tensor, wanted[name])
    parameters = [x_ND, *recurrent.parameters()]
    mix = torch.randn_like(out_NH)
    torch.testing.assert_close(recurrent(layout.pad(x_ND), state)[0][layout.mask], wanted_NH)
    assert_same_gradients((out_NH * mix).sum(), (wanted_NH * mix).sum(), parameters)

    stepped, carried = [], state
    for x_BD in layout.pad(x_ND).unbind(1):
        out_BH, carried = recurrent.step(x_BD, carried)
        stepped.append(out_BH)
    stepped_NH = layout.unpad(torch.stack(stepped, dim=1))
    torch.testing.assert_close(stepped_NH, wanted_NH)
    assert_same_gradients((stepped_NH * mix).sum(), (wanted_NH * mix).sum(), parameters)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_unequal_lengths_against_torch_alone(kind: str, bidirectional: bool) -> None:
    """torch's own layer over each sequence by itself, forward and gradients, two layers and both directions."""
    recurrent = made(kind, 2, bidirectional)
    torch.manual_seed(0)
    theirs = TORCH[kind](4, 5, 2, batch_first=True, bidirectional=bidirectional).double()
    theirs.load_state_dict(recurrent.network.state_dict())
    layout = Layout(LENGTHS)
    x_ND = torch.randn(layout.total, 4, dtype=torch.float64)
    out_NH, after = recurrent.ragged(x_ND, layout)
    alone = [theirs(x_TD) for x_TD in x_ND.split(LENGTHS.tolist())]
    wanted_NH = torch.cat([out for out, _ in alone])
    torch.testing.assert_close(out_NH, wanted_NH)
    last = [carried if isinstance(carried, tuple) else (carried,) for _, carried in alone]
    for place, name in enumerate(recurrent.names):
        torch.testing.assert_close(after[name], torch.stack([carried[place] for carried in last]))
    out_NH.square().sum().backward()
    wanted_NH.square().sum().backward()
    for own, other in zip(recurrent.network.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_lengths_and_carried_state(kind: str) -> None:
    """Two halves with the state carried over equal the whole; equal lengths need no packing and give the same."""
    recurrent = made(kind, 2)
    x_BTD = torch.randn(3, 8, 4, dtype=torch.float64)
    whole_BTH, last = recurrent(x_BTD)
    first_BTH, state = recurrent(x_BTD[:, :5])
    second_BTH, after = recurrent(x_BTD[:, 5:], state)
    torch.testing.assert_close(torch.cat([first_BTH, second_BTH], dim=1), whole_BTH)
    ragged_NH, ragged = recurrent.ragged(x_BTD.flatten(0, 1), Layout(torch.tensor([8, 8, 8])))
    torch.testing.assert_close(ragged_NH.view_as(whole_BTH), whole_BTH)
    for name in recurrent.names:
        assert after[name].shape == (3, 2, 5)
        torch.testing.assert_close(after[name], last[name])
        torch.testing.assert_close(ragged[name], last[name])


def test_rows_of_a_state_are_sequences() -> None:
    """Reordering the rows of a state reorders what comes out: what beam search relies on."""
    recurrent = made("lstm", 2)
    state, x_BD = some_state(recurrent, 4), torch.randn(4, 4, dtype=torch.float64)
    rows = torch.tensor([2, 2, 0])
    out_BH, after = recurrent.step(x_BD, state)
    some_BH, some = recurrent.step(x_BD[rows], {name: tensor.index_select(0, rows) for name, tensor in state.items()})
    torch.testing.assert_close(some_BH, out_BH[rows])
    torch.testing.assert_close(some["cell"], after["cell"][rows])


def test_directions_side_by_side() -> None:
    """The merged last state of the top layer is the forward output at the end beside the backward one at the start."""
    recurrent = made("gru", 2, bidirectional=True)
    layout = Layout(LENGTHS)
    out_NH, state = recurrent.ragged(torch.randn(layout.total, 4, dtype=torch.float64), layout)
    merged_BLH = merge_directions(state)["hidden"]
    first, last = layout.offsets[:-1].long(), layout.offsets[1:].long() - 1
    torch.testing.assert_close(merged_BLH[:, -1], torch.cat([out_NH[last, :5], out_NH[first, 5:]], dim=1))


def test_projection_in_parts() -> None:
    """Columns of the input projected apart sum to the whole projection: what attention decoders rely on."""
    recurrent = made("gru")
    x_BD = torch.randn(3, 4, dtype=torch.float64)
    parts = recurrent.project(x_BD[:, :1], slice(0, 1)) + recurrent.project(x_BD[:, 1:], slice(1, None), bias=False)
    torch.testing.assert_close(parts, recurrent.project(x_BD))


def test_dropout_lies_between_layers_and_only_in_training() -> None:
    recurrent = made("gru", 2, dropout=0.5)
    x_BTD, state = torch.randn(2, 3, 4, dtype=torch.float64), recurrent.init_state(2)
    assert not torch.equal(recurrent(x_BTD)[0], recurrent(x_BTD)[0])
    assert not torch.equal(recurrent.step(x_BTD[:, 0], state)[0], recurrent.step(x_BTD[:, 0], state)[0])
    single = made("gru", 1, dropout=0.5)
    assert torch.equal(single(x_BTD)[0], single(x_BTD)[0])
    recurrent.eval()
    torch.testing.assert_close(recurrent(x_BTD)[0][:, 0], recurrent.step(x_BTD[:, 0], state)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_leaves_the_precision(kind: str) -> None:
    """Under bfloat16 autocast, outputs and states are those of float32, to the last bit."""
    recurrent = made(kind, 2).float()
    layout, x_ND = Layout(LENGTHS), torch.randn(int(LENGTHS.sum()), 4)
    plain, state = recurrent.ragged(x_ND, layout)
    stepped, _ = recurrent.step(x_ND[:5], state)
    with torch.autocast("cpu", torch.bfloat16):
        cast, cast_state = recurrent.ragged(x_ND, layout)
        cast_stepped, _ = recurrent.step(x_ND[:5], cast_state)
    assert torch.equal(plain, cast) and torch.equal(stepped, cast_stepped)


def test_unknown_kind_is_one_sentence() -> None:
    with pytest.raises(CanonError, match=r"No recurrent layer .gruu.; did you mean gru\?"):
        Recurrent("gruu", 4, 5)
    assert set(CELLS) == set(KINDS)
