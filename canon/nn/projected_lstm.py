"""An LSTM whose output is projected and whose cell and output are clipped, forward and backward at once.

Papers: Sak, Senior and Beaufays 2014 (arXiv:1402.1128), eqs. 1 to 6 without peepholes; the clips are those of Peters et
al. 2018 (arXiv:1802.05365). With i, f, o = σ(W x + U h + b), g = tanh(W x + U h + b), each direction with its own:
    c_t = clip(f ⊙ c_{t−1} + i ⊙ g);  h_t = clip(P (o ⊙ tanh c_t))
`ProjectedLSTM` has both directions' weights in one tensor, so that a step is one batched product for both. The inputs'
product is one for all steps; so are the gradients of U and P (`_Recurrence.backward`), which step by step would add to
matrices of many megabytes at every step. `Grid` brings tokens into the order of time, longer sequences first, so that
nothing is computed after a sequence's end.
Deviations: no gradient goes through a clipped value, nor into the state that is carried in (truncated backpropagation).
Gates are in torch's order i, f, g, o, with one bias. Arithmetic is in the weights' precision also under autocast.
Shapes: T steps, R = 2 directions, B sequences, N tokens, D input features, H cells, P projected features, G = 4 H.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from canon.nn.ragged import Layout
from canon.nn.recurrence import full_precision
from canon.nn.without_dynamo import uncompiled

FORWARD, BACKWARD = 0, 1
Carried = tuple[Tensor, Tensor]  # h [R, B, P] and c [R, B, H]


class Grid:
    """Where the tokens of a layout lie in time, read from the left (direction 0) and from the right (direction 1).

    Rows of time are the steps one after the other, each with its `alive[t]` sequences, the first ones by falling
    length: those of the one direction and then those of the other. There are 2 N. Made on the host, where lengths are.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        lengths, order = layout.lengths.sort(descending=True, stable=True)
        starts = (layout.lengths.cumsum(0) - layout.lengths)[order]
        steps = torch.arange(layout.max_length)[:, None]
        alive_TB = steps < lengths
        both_TRB = torch.stack((starts + steps, starts + lengths - 1 - steps + layout.total), dim=1)
        tokens = both_TRB[alive_TB[:, None].expand_as(both_TRB)]
        rows = torch.empty_like(tokens).scatter_(0, tokens, torch.arange(len(tokens)))
        last = rows[layout.lengths.cumsum(0) - 1]
        sizes = [len(tokens), len(rows), layout.size, layout.size]
        sent = layout.send(torch.cat((tokens, rows, last, order))).split(sizes)  # one transfer
        self.alive: tuple[int, ...] = tuple(alive_TB.sum(1).tolist())
        self.tokens, self.rows = sent[:2]  # [2 N] which token r N + n lies at a row of time; at which row each lies
        self.last = sent[2]  # [B] at which row of time the forward direction ends
        self.order = sent[3]  # [B] the sequences by falling length


class ProjectedLSTM(nn.Module):
    """One layer in both directions; a clip of 0 is none."""

    def __init__(
        self, input_dim: int, hidden: int, projection: int, cell_clip: float = 0.0, projection_clip: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden, self.projection = hidden, projection
        self.clips = (cell_clip, projection_clip)
        self.input_weight = nn.Parameter(torch.empty(2, 4 * hidden, input_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(2, 4 * hidden, projection))
        self.bias = nn.Parameter(torch.empty(2, 4 * hidden))
        self.projection_weight = nn.Parameter(torch.empty(2, projection, hidden))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform as Glorot and Bengio 2010 for [W U] as one matrix and for P; the forget gate's bias is 1."""
        fan_in = self.input_weight.shape[2] + self.projection
        reach = (6 / (fan_in + 4 * self.hidden)) ** 0.5
        nn.init.uniform_(self.input_weight, -reach, reach)
        nn.init.uniform_(self.recurrent_weight, -reach, reach)
        reach = (6 / (self.hidden + self.projection)) ** 0.5
        nn.init.uniform_(self.projection_weight, -reach, reach)
        nn.init.zeros_(self.bias)
        with torch.no_grad():
            self.bias[:, self.hidden : 2 * self.hidden].fill_(1.0)

    @uncompiled
    def forward(self, x_2ND: Tensor, grid: Grid, carried: Carried | None = None) -> tuple[Tensor, Carried]:
        """Outputs [2, N, P] of tokens [2, N, D], and what the forward direction carries on: h [B, P] and c [B, H].

        carried: the same of an earlier part of each sequence; the backward direction begins with nothing.
        """
        total, size = grid.layout.total, grid.layout.size
        with full_precision(x_2ND):
            x_2ND = x_2ND.to(self.input_weight.dtype)
            input_2NG = torch.baddbmm(self.bias[:, None], x_2ND, self.input_weight.transpose(1, 2))
            hidden_RBP = input_2NG.new_zeros(2, size, self.projection)
            cell_RBH = input_2NG.new_zeros(2, size, self.hidden)
            if carried is not None:
                hidden_RBP[FORWARD] = carried[0].detach().index_select(0, grid.order)
                cell_RBH[FORWARD] = carried[1].detach().index_select(0, grid.order)
            in_time = input_2NG.flatten(0, 1).index_select(0, grid.tokens)
            out, cells = _Recurrence.apply(
                in_time,
                self.recurrent_weight,
                self.projection_weight,
                hidden_RBP,
                cell_RBH,
                grid.alive,
                self.clips,
            )
            out_2NP = out.index_select(0, grid.rows).view(2, total, self.projection)
            after = out.detach().index_select(0, grid.last), cells.index_select(0, grid.last)
        return out_2NP, after


class _Recurrence(torch.autograd.Function):
    """All steps, over rows of time [2 N, …]; the backward pass is written out, so that sums over steps are products."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,  # [2 N, G] W x + b
        recurrent_weight_RGP: Tensor,
        projection_weight_RPH: Tensor,
        hidden_RBP: Tensor,
        cell_RBH: Tensor,
        alive: tuple[int, ...],
        clips: tuple[float, float],
    ) -> tuple[Tensor, Tensor]:
        dim, hidden = projection_weight_RPH.shape[1:]
        learns = any(ctx.needs_input_grad)
        gates = input  # in its memory, which nothing else reads
        cells, inners = input.new_empty(len(input), hidden), input.new_empty(len(input), hidden)
        outs = input.new_empty(len(input), dim)
        recurrent_RPG = recurrent_weight_RGP.transpose(1, 2)
        projection_RHP = projection_weight_RPH.transpose(1, 2)
        first = (hidden_RBP, cell_RBH)
        for (start, stop), count in zip(_bounds(alive), alive, strict=True):
            hidden_RBP, cell_RBH = hidden_RBP[:, :count], cell_RBH[:, :count]
            gate_RBG = gates[start:stop].view(2, count, 4 * hidden)
            torch.baddbmm(gate_RBG, hidden_RBP, recurrent_RPG, out=gate_RBG)
            gate_RBG[..., : 2 * hidden].sigmoid_()
            gate_RBG[..., 2 * hidden : 3 * hidden].tanh_()
            gate_RBG[..., 3 * hidden :].sigmoid_()
            let_in, forget, new, let_out = gate_RBG.chunk(4, dim=-1)
            kept_RBH = cells[start:stop].view(2, count, hidden)
            torch.mul(forget, cell_RBH, out=kept_RBH)
            kept_RBH.addcmul_(let_in, new)
            if clips[0]:
                kept_RBH.clamp_(-clips[0], clips[0])
            cell_RBH = kept_RBH
            inner_RBH = inners[start:stop].view(2, count, hidden)
            torch.tanh(cell_RBH, out=inner_RBH)
            inner_RBH.mul_(let_out)
            hidden_RBP = outs[start:stop].view(2, count, dim)
            torch.bmm(inner_RBH, projection_RHP, out=hidden_RBP)
            if clips[1]:
                hidden_RBP.clamp_(-clips[1], clips[1])
        if learns:
            ctx.save_for_backward(gates, cells, inners, outs, recurrent_weight_RGP, projection_weight_RPH, *first)
            ctx.alive, ctx.clips = alive, clips
        ctx.mark_non_differentiable(cells)
        return outs, cells

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells, inners, outs, recurrent_weight_RGP, projection_weight_RPH, hidden_RBP, cell_RBH = (
            ctx.saved_tensors
        )
        alive: tuple[int, ...] = ctx.alive
        cell_clip, projection_clip = ctx.clips
        dim, hidden = projection_weight_RPH.shape[1:]
        slopes = torch.empty_like(gates)  # ∂L/∂(W x + U h + b)
        out_slopes = upstream[0].clone(memory_format=torch.contiguous_format)  # ∂L/∂(P …)
        back_RBP: Tensor | None = None  # ∂L/∂h and ∂L/∂c that come from the next step
        back_RBH: Tensor | None = None
        bounds = _bounds(alive)
        for step in reversed(range(len(alive))):
            (start, stop), count = bounds[step], alive[step]
            out_slope_RBP = out_slopes[start:stop].view(2, count, dim)
            if back_RBP is not None:
                out_slope_RBP[:, : back_RBP.shape[1]] += back_RBP
            if projection_clip:
                out_slope_RBP.mul_(outs[start:stop].view(2, count, dim).abs() < projection_clip)
            let_in, forget, new, let_out = gates[start:stop].view(2, count, 4 * hidden).chunk(4, dim=-1)
            now_RBH = cells[start:stop].view(2, count, hidden)
            before_RBH = cells[slice(*bounds[step - 1])].view(2, -1, hidden) if step else cell_RBH
            inner_slope_RBH = torch.bmm(out_slope_RBP, projection_weight_RPH)
            bent_RBH = torch.tanh(now_RBH)
            cell_slope_RBH = inner_slope_RBH * let_out * (1 - bent_RBH * bent_RBH)
            if back_RBH is not None:
                cell_slope_RBH[:, : back_RBH.shape[1]] += back_RBH
            if cell_clip:
                cell_slope_RBH.mul_(now_RBH.abs() < cell_clip)
            slope = slopes[start:stop].view(2, count, 4 * hidden)
            slope[..., :hidden] = cell_slope_RBH * new * let_in * (1 - let_in)
            slope[..., hidden : 2 * hidden] = cell_slope_RBH * before_RBH[:, :count] * forget * (1 - forget)
            slope[..., 2 * hidden : 3 * hidden] = cell_slope_RBH * let_in * (1 - new * new)
            slope[..., 3 * hidden :] = inner_slope_RBH * bent_RBH * let_out * (1 - let_out)
            back_RBH = cell_slope_RBH * forget
            if step:
                back_RBP = torch.bmm(slope, recurrent_weight_RGP)
        # What each step was given: the states of the step before it, of the sequences that are still there.
        given = [hidden_RBP[:, : alive[0]]] if alive else []
        given += [
            outs[start:stop].view(2, -1, dim)[:, :count]
            for (start, stop), count in zip(bounds, alive[1:], strict=False)
        ]
        given_RMP = torch.cat(given, dim=1)
        recurrent_slope = torch.bmm(_by_direction(slopes, alive).transpose(1, 2), given_RMP)
        projection_slope = torch.bmm(_by_direction(out_slopes, alive).transpose(1, 2), _by_direction(inners, alive))
        return slopes, recurrent_slope, projection_slope, None, None, None, None


def _bounds(alive: tuple[int, ...]) -> list[tuple[int, int]]:
    """Which rows of time each step has."""
    return list(pairwise(accumulate((2 * count for count in alive), initial=0)))


def _by_direction(rows: Tensor, alive: tuple[int, ...]) -> Tensor:
    """[2 N, …] in the order of time to [2, N, …], each direction's steps one after the other."""
    if len(set(alive)) <= 1:
        count = alive[0] if alive else 0
        return rows.view(len(alive), 2, count, -1).transpose(0, 1).flatten(1, 2)
    steps = [rows[start:stop].view(2, count, -1) for (start, stop), count in zip(_bounds(alive), alive, strict=True)]
    return torch.cat(steps, dim=1)
