"""Layouts against loops over their sequences."""

from __future__ import annotations

import pytest
import torch

from canon.nn.ragged import Layout

LENGTHS = [[3, 1, 4], [2, 2], [0, 3, 0, 2], [5], [1, 1, 1], [0, 0]]

each = pytest.mark.parametrize("lengths", LENGTHS, ids=str)


@each
def test_indices_equal_a_loop(lengths: list[int]) -> None:
    layout = Layout(torch.tensor(lengths))
    tokens = [(b, t) for b, length in enumerate(lengths) for t in range(length)]
    longest = max(lengths)
    assert (layout.size, layout.total, layout.max_length) == (len(lengths), len(tokens), longest)
    assert layout.rows.tolist() == [b for b, _ in tokens]
    assert layout.positions.tolist() == [t for _, t in tokens]
    assert layout.places.tolist() == [b * longest + t for b, t in tokens]
    assert layout.offsets.tolist() == [sum(lengths[:b]) for b in range(len(lengths) + 1)]
    assert layout.offsets.dtype == torch.int32  # as the kernels want it
    assert layout.mask.tolist() == [[t < length for t in range(longest)] for length in lengths]


@each
def test_pad_and_unpad_equal_a_loop(lengths: list[int]) -> None:
    layout = Layout(torch.tensor(lengths))
    x_ND = torch.randn(layout.total, 2, 3, dtype=torch.float64, requires_grad=True)
    grid = layout.pad(x_ND, fill=7.0)
    assert grid.shape == (len(lengths), max(lengths), 2, 3)
    for b, piece in enumerate(x_ND.split(lengths)):
        assert torch.equal(grid[b, : lengths[b]], piece)
        assert (grid[b, lengths[b] :] == 7).all()
    assert torch.equal(layout.unpad(grid), x_ND)
    if layout.total:
        assert torch.autograd.gradcheck(layout.pad, x_ND)
        assert torch.autograd.gradcheck(layout.unpad, grid.detach().requires_grad_())


def test_equal_lengths_copy_nothing() -> None:
    layout = Layout(torch.tensor([4, 4]))
    x_ND = torch.randn(8, 3)
    grid = layout.pad(x_ND)
    assert layout.is_full and grid.data_ptr() == x_ND.data_ptr() == layout.unpad(grid).data_ptr()


def test_lengths_stay_on_the_host() -> None:
    layout = Layout(torch.tensor([2, 3]), device="meta")
    assert layout.lengths.device.type == "cpu" and layout.max_length == 3
    assert layout.mask.is_meta and layout.offsets.is_meta and layout.pad(torch.zeros(5, 1, device="meta")).is_meta
