"""Absolute and squared error against torch.nn.functional, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.objectives import regression


@pytest.mark.parametrize(("ours", "theirs"), [(regression.absolute, F.l1_loss), (regression.squared, F.mse_loss)])
def test_equals_torch(ours: Callable[..., Tensor], theirs: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    x, y = (torch.randn(7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(ours(x, y), theirs(x, y, reduction="none"))
    assert torch.autograd.gradcheck(ours, (x, y))


@pytest.mark.parametrize("ours", [regression.absolute, regression.squared])
def test_a_column_against_a_row_is_refused(ours: Callable[..., Tensor]) -> None:
    with pytest.raises(CanonError, match=r"prediction \(4, 1\) and target \(4,\)"):
        ours(torch.zeros(4, 1), torch.zeros(4))
