"""The projected, clipped LSTM of two directions against torch.nn.LSTM, finite differences and its equations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from canon.nn.projected_lstm import BACKWARD, FORWARD, Grid, ProjectedLSTM
from canon.nn.ragged import Layout

UNEQUAL = [3, 6, 1, 4]


def made(cell_clip: float = 0.0, projection_clip: float = 0.0) -> ProjectedLSTM:
    torch.manual_seed(0)
    layer = ProjectedLSTM(5, 7, 4, cell_clip, projection_clip).double()
    with torch.no_grad():
        layer.bias.add_(torch.randn_like(layer.bias))
    return layer


def torchs(layer: ProjectedLSTM, direction: int) -> nn.LSTM:
    own = nn.LSTM(5, 7, proj_size=4, batch_first=True).double()
    with torch.no_grad():
        own.weight_ih_l0.copy_(layer.input_weight[direction])
        own.weight_hh_l0.copy_(layer.recurrent_weight[direction])
        own.bias_ih_l0.copy_(layer.bias[direction])
        own.bias_hh_l0.zero_()
        own.weight_hr_l0.copy_(layer.projection_weight[direction])
    return own


@pytest.mark.parametrize("lengths", [UNEQUAL, [4, 4], [1]], ids=str)
def test_equals_torchs_lstm_over_each_sequence_alone(lengths: list[int]) -> None:
    """Outputs, the forward direction's last state, and all gradients; without clips, which torch has not."""
    layer = made()
    layout = Layout(torch.tensor(lengths))
    x = torch.randn(2, layout.total, 5, dtype=torch.float64, requires_grad=True)
    out, (hidden, cell) = layer(x, Grid(layout))
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    ours_x, x.grad = x.grad, None
    names = ("input_weight", "recurrent_weight", "bias", "projection_weight")
    for direction in (FORWARD, BACKWARD):
        theirs = torchs(layer, direction)
        total = torch.zeros((), dtype=torch.float64)
        for row, (tokens, tokens_out, own_weights) in enumerate(
            zip(
                x[direction].split(lengths),
                out[direction].split(lengths),
                weights[direction].split(lengths),
                strict=True,
            )
        ):
            turned = tokens.flip(0) if direction == BACKWARD else tokens
            reported, (last, last_cell) = theirs(turned[None])
            reported = reported[0].flip(0) if direction == BACKWARD else reported[0]
            torch.testing.assert_close(tokens_out, reported)
            if direction == FORWARD:
                torch.testing.assert_close((hidden[row], cell[row]), (last[0, 0], last_cell[0, 0]))
            total = total + (reported * own_weights).sum()
        total.backward()
        expected = (theirs.weight_ih_l0, theirs.weight_hh_l0, theirs.bias_ih_l0, theirs.weight_hr_l0)
        for name, parameter in zip(names, expected, strict=True):
            torch.testing.assert_close(gradients[name][direction], parameter.grad)
    torch.testing.assert_close(ours_x, x.grad)


@pytest.mark.parametrize("clips", [(0.0, 0.0), (0.4, 0.0), (0.0, 0.1), (0.3, 0.1)], ids=str)
def test_gradients_by_finite_differences(clips: tuple[float, float]) -> None:
    """With clips that bind in a good part of the places."""
    layer = made(*clips)
    grid = Grid(Layout(torch.tensor(UNEQUAL)))
    x = torch.randn(2, 14, 5, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, grid))[0]

    if clips[1]:
        assert 0.1 < (layer(x, grid)[0].abs() == clips[1]).float().mean() < 0.9
    parameters = [parameter.detach().requires_grad_() for parameter in layer.parameters()]
    assert torch.autograd.gradcheck(run, (x, *parameters))


def test_clipped_steps_by_the_equations() -> None:
    """Gate by gate for one sequence, from a state that is carried in; and autograd's gradients of those equations."""
    layer = made(0.3, 0.1)
    x = torch.randn(2, 6, 5, dtype=torch.float64)
    carried = torch.full((1, 4), 0.05, dtype=torch.float64), torch.full((1, 7), -0.2, dtype=torch.float64)
    out, (_, last_cell) = layer(x, Grid(Layout(torch.tensor([6]))), carried)
    out.sin().sum().backward()
    ours = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    values = []
    for direction in (FORWARD, BACKWARD):
        hidden, cell = (part[0] if direction == FORWARD else torch.zeros_like(part[0]) for part in carried)
        steps = range(6) if direction == FORWARD else reversed(range(6))
        by_place = {}
        for t in steps:
            sums = (
                layer.input_weight[direction] @ x[direction, t]
                + layer.recurrent_weight[direction] @ hidden
                + layer.bias[direction]
            )
            let_in, forget, new, let_out = sums.split(7)
            cell = torch.clamp(forget.sigmoid() * cell + let_in.sigmoid() * new.tanh(), -0.3, 0.3)
            hidden = torch.clamp(layer.projection_weight[direction] @ (let_out.sigmoid() * cell.tanh()), -0.1, 0.1)
            by_place[t] = hidden
        values.append(torch.stack([by_place[t] for t in range(6)]))
        if direction == FORWARD:
            torch.testing.assert_close(last_cell[0], cell.detach())
    torch.testing.assert_close(out, torch.stack(values))
    torch.stack(values).sin().sum().backward()
    for own, parameter in zip(ours, layer.parameters(), strict=True):
        torch.testing.assert_close(own, parameter.grad)


def test_carried_windows_equal_one_reading() -> None:
    """The forward direction over windows with its state carried on; sequences of unequal length, in any order."""
    layer = made(0.5, 0.2)
    lengths, cut = [7, 5, 9], 4
    x = torch.randn(2, sum(lengths), 5, dtype=torch.float64)
    whole, (hidden, cell) = layer(x, Grid(Layout(torch.tensor(lengths))))
    parts = x.split(lengths, dim=1)
    first, state = layer(torch.cat([part[:, :cut] for part in parts], 1), Grid(Layout(torch.tensor([cut] * 3))))
    rest = [length - cut for length in lengths]
    second, after = layer(torch.cat([part[:, cut:] for part in parts], 1), Grid(Layout(torch.tensor(rest))), state)
    for row, (one, two) in enumerate(zip(first[FORWARD].split(cut), second[FORWARD].split(rest), strict=True)):
        torch.testing.assert_close(torch.cat((one, two)), whole[FORWARD].split(lengths)[row])
    torch.testing.assert_close(after, (hidden, cell))


def test_grid_names_each_token_once() -> None:
    """`tokens` and `rows` are inverse to each other; steps hold the sequences that are still there."""
    grid = Grid(Layout(torch.tensor(UNEQUAL)))
    assert grid.alive == (4, 3, 3, 2, 1, 1)
    assert torch.equal(grid.tokens[grid.rows], torch.arange(28))
    assert grid.tokens[:4].tolist() == [3, 10, 0, 9]  # first tokens, longest sequence first
    assert grid.tokens[4:8].tolist() == [14 + place for place in (8, 13, 2, 9)]  # last tokens, second direction


def test_begins_as_published() -> None:
    """Uniform by Glorot's rule for [x; h] together; 1 for the forget gate's bias and 0 for the others."""
    layer = ProjectedLSTM(40, 100, 30)
    reach = (6 / (70 + 400)) ** 0.5
    for weight in (layer.input_weight, layer.recurrent_weight):
        assert 0.98 * reach < weight.abs().max().item() <= reach
    assert layer.bias.view(2, 4, 100).mean(2).tolist() == [[0.0, 1.0, 0.0, 0.0]] * 2
