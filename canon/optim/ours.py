"""The optimisers torch lacks: Adam without bias correction, LAMB, and Adam followed by SGD.

Papers: Kingma & Ba 2015 (arXiv:1412.6980), Loshchilov & Hutter 2019 (1711.05101), You et al. 2020 (1904.00962,
algorithm 2 → `LAMBOptimizer._update`), Keskar & Socher 2017 (1712.07628).
Deviations: `AdamThenSGDOptimizer` switches at a given step, not by SWATS's projection test. LAMB's layer is one
parameter tensor, and the ratio is 1 where φ(‖θ‖) or the update is zero, as in the authors' code.
All arithmetic is multi-tensor: one `torch._foreach_*` call handles every parameter of a group. State is tensors
under torch's names (step, exp_avg, exp_avg_sq, momentum_buffer), so it is stored and restored like torch's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

Group = dict[str, Any]


class _MultiTensor(torch.optim.Optimizer, ABC):
    """Runs `_update` once per group, over the parameters that have gradients."""

    def __init__(self, groups: Iterable[Group], **defaults: Any) -> None:
        super().__init__(groups, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if not self.state[p]:
                    self.state[p].update(step=torch.zeros(()), exp_avg=torch.zeros_like(p))
                    self.state[p]["exp_avg_sq"] = torch.zeros_like(p)
            if params:
                torch._foreach_add_(self._states(params, "step"), 1)  # on the CPU: reading it costs no sync
                self._update(group, params)
        return loss

    def _states(self, params: list[Tensor], name: str) -> list[Tensor]:
        return [self.state[p][name] for p in params]

    def _moments(self, group: Group, params: list[Tensor], grads: list[Tensor], corrected: bool) -> list[Tensor]:
        """Takes the gradients in and returns m̂ / (√v̂ + ε), or m / (√v + ε) without the correction."""
        beta1, beta2 = group["betas"]
        m, v = self._states(params, "exp_avg"), self._states(params, "exp_avg_sq")
        torch._foreach_lerp_(m, grads, 1 - beta1)  # m = β₁ m + (1−β₁) g
        torch._foreach_mul_(v, beta2)
        torch._foreach_addcmul_(v, grads, grads, 1 - beta2)  # v = β₂ v + (1−β₂) g²
        denominator = torch._foreach_sqrt(v)
        steps = [step.item() for step in self._states(params, "step")] if corrected else []
        if corrected:
            torch._foreach_div_(denominator, [(1 - beta2**t) ** 0.5 for t in steps])
        torch._foreach_add_(denominator, group["eps"])
        update = torch._foreach_div(m, denominator)
        if corrected:
            torch._foreach_div_(update, [1 - beta1**t for t in steps])
        return list(update)

    @abstractmethod
    def _update(self, group: Group, params: list[Tensor]) -> None:
        """Changes the parameters of one group, whose gradients are there and whose step is counted."""


def _gradients(params: list[Tensor], weight_decay: float) -> list[Tensor]:
    """g, or g + λθ."""
    grads = [p.grad for p in params if p.grad is not None]
    return list(torch._foreach_add(grads, params, alpha=weight_decay)) if weight_decay else grads


class UncorrectedAdam(_MultiTensor):
    """Adam with m and v as they are; `decoupled` makes it AdamW."""

    def _update(self, group: Group, params: list[Tensor]) -> None:
        decoupled = group["decoupled"]
        grads = _gradients(params, 0.0 if decoupled else group["weight_decay"])
        update = self._moments(group, params, grads, corrected=False)
        if decoupled and group["weight_decay"]:
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(params, update, alpha=-group["lr"])


class LAMBOptimizer(_MultiTensor):
    """θ ← θ − α · φ(‖θ‖)/‖r + λθ‖ · (r + λθ) per tensor, r = m̂/(√v̂+ε), φ(z) = z or clipped to `trust_clip`."""

    def _update(self, group: Group, params: list[Tensor]) -> None:
        update = self._moments(group, params, _gradients(params, 0.0), corrected=True)
        if group["weight_decay"]:
            torch._foreach_add_(update, params, alpha=group["weight_decay"])  # r + λθ
        weight_N = torch.stack(torch._foreach_norm(params))  # N: parameter tensors of this group
        update_N = torch.stack(torch._foreach_norm(update))
        if group["trust_clip"]:
            weight_N = weight_N.clamp(*group["trust_clip"])
        ratio_N = torch.where((weight_N > 0) & (update_N > 0), weight_N / update_N, 1.0)
        torch._foreach_mul_(update, list(ratio_N.unbind()))  # stays on the device
        torch._foreach_add_(params, update, alpha=-group["lr"])


class AdamThenSGDOptimizer(_MultiTensor):
    """Adam until a parameter has had `switch_step` updates, then SGD with momentum at rate lr · `sgd_scale`.

    The SGD rate is a multiple of the group's `lr`, so a schedule and per-group rates keep acting after the switch.
    Adam's moments are dropped at the switch: from then on the state is the momentum buffer.
    """

    def _update(self, group: Group, params: list[Tensor]) -> None:
        early = [p for p in params if self.state[p]["step"] <= group["switch_step"]]
        late = [p for p in params if self.state[p]["step"] > group["switch_step"]]
        if early:
            update = self._moments(group, early, _gradients(early, group["weight_decay"]), corrected=True)
            torch._foreach_add_(early, update, alpha=-group["lr"])
        if late:
            for p in late:
                if "momentum_buffer" not in self.state[p]:
                    self.state[p] = {"step": self.state[p]["step"], "momentum_buffer": torch.zeros_like(p)}
            momentum = self._states(late, "momentum_buffer")
            torch._foreach_mul_(momentum, group["momentum"])
            torch._foreach_add_(momentum, _gradients(late, group["weight_decay"]))
            torch._foreach_add_(late, momentum, alpha=-group["lr"] * group["sgd_scale"])
