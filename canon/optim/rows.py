"""Optimisers that change only the rows of a table which a batch has looked up; everything else learns as usual.

Of a looked-up row r with the gradient g_r of the batch, the update is the optimiser's own with g_r + λθ_r: moments,
sums of squares and the L2 term of all other rows stay as they are. Adagrad is then exactly the dense one with λ = 0,
since a row without a gradient does not move there either. Adam is Adam with moments that do not decay between visits,
as torch's SparseAdam has it; corrections of its means count all steps. A dense gradient is read as its rows that are
not all zero. Papers: Duchi, Hazan and Singer 2011; Kingma and Ba 2015. Deviations: none.
Shapes: R rows of the table, U rows of the batch, D numbers of a row.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from canon.optim.clipping import local_part

Group = dict[str, Any]


class _Rows(torch.optim.Optimizer, ABC):
    """Goes before an optimiser of torch's, whose step then sees no gradient of a table."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        held = []
        for group in self.param_groups:
            for table in group["params"] if group.get("rows") else ():
                if table.grad is not None:
                    held.append((table, table.grad))
                    self._look(group, table)
                    table.grad = None
        loss = inspect.unwrap(super().step)(self, closure) if self._others() else None
        for table, gradient in held:
            table.grad = gradient
        return loss

    def _others(self) -> bool:
        return any(p.grad is not None for group in self.param_groups for p in group["params"])

    def _look(self, group: Group, table: Tensor) -> None:
        state = self.state[table]
        if "step" not in state:
            state["step"] = torch.zeros(())
        for name in self.kept:
            if name not in state:
                state[name] = torch.zeros_like(table)
        state["step"] += 1
        assert table.grad is not None
        weight, gradient = local_part(table), local_part(table.grad)
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            row_U, g_UD = gradient.indices()[0], gradient.values()
        else:
            row_U = gradient.ne(0).any(1).nonzero().squeeze(1)
            g_UD = gradient[row_U]
        self._move(
            group, weight, row_U, g_UD, {name: local_part(state[name]) for name in self.kept}, float(state["step"])
        )

    kept: tuple[str, ...] = ()  # what the state has of every row

    @abstractmethod
    def _move(
        self, group: Group, table_RD: Tensor, row_U: Tensor, g_UD: Tensor, kept: dict[str, Tensor], step: float
    ) -> None:
        """Changes the rows, of which the gradient is given."""


class RowSGD(_Rows, torch.optim.SGD):
    def _move(
        self, group: Group, table_RD: Tensor, row_U: Tensor, g_UD: Tensor, kept: dict[str, Tensor], step: float
    ) -> None:
        own_UD = table_RD[row_U]
        table_RD.index_copy_(0, row_U, own_UD - group["lr"] * (g_UD + group["weight_decay"] * own_UD))


class RowAdaGrad(_Rows, torch.optim.Adagrad):
    kept = ("sum",)

    def _move(
        self, group: Group, table_RD: Tensor, row_U: Tensor, g_UD: Tensor, kept: dict[str, Tensor], step: float
    ) -> None:
        """s ← s + g², θ ← θ − α g/(√s + ε)"""
        own_UD = table_RD[row_U]
        g_UD = g_UD + group["weight_decay"] * own_UD if group["weight_decay"] else g_UD
        sum_UD = kept["sum"][row_U].addcmul_(g_UD, g_UD)
        kept["sum"].index_copy_(0, row_U, sum_UD)
        table_RD.index_copy_(0, row_U, own_UD.addcdiv_(g_UD, sum_UD.sqrt_().add_(group["eps"]), value=-group["lr"]))


class _RowAdam(_Rows):
    kept = ("exp_avg", "exp_avg_sq")
    decoupled = False

    def _move(
        self, group: Group, table_RD: Tensor, row_U: Tensor, g_UD: Tensor, kept: dict[str, Tensor], step: float
    ) -> None:
        """m ← β₁ m + (1−β₁) g, v ← β₂ v + (1−β₂) g², θ ← θ − α m̂/(√v̂ + ε)"""
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        own_UD = table_RD[row_U]
        if decay and self.decoupled:
            own_UD.mul_(1 - group["lr"] * decay)
        elif decay:
            g_UD = g_UD + decay * own_UD
        m_UD = kept["exp_avg"][row_U].lerp_(g_UD, 1 - beta1)
        v_UD = kept["exp_avg_sq"][row_U].mul_(beta2).addcmul_(g_UD, g_UD, value=1 - beta2)
        kept["exp_avg"].index_copy_(0, row_U, m_UD)
        kept["exp_avg_sq"].index_copy_(0, row_U, v_UD)
        denominator_UD = v_UD.sqrt_().div_((1 - beta2**step) ** 0.5).add_(group["eps"])
        table_RD.index_copy_(0, row_U, own_UD.addcdiv_(m_UD, denominator_UD, value=-group["lr"] / (1 - beta1**step)))


class RowAdam(_RowAdam, torch.optim.Adam):
    pass


class RowAdamW(_RowAdam, torch.optim.AdamW):
    decoupled = True
