"""From summed gradients to a step of the optimiser: unscaling, non-finite numbers, clipping.

No host sync on CUDA between logged steps: a bad step is skipped on the device and reported at the next log.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from canon.contracts import World
from canon.errors import NonFinite
from canon.optim.clipping import clip_by_norm, clip_by_value, local_part
from canon.train_config import TrainConfig
from canon.training.phases import Phase

_LEAST_SCALE = 1.0  # of float16 losses; below it the numbers themselves overflow
_GROWTH, _BACKOFF, _GROWTH_STEPS = 2.0, 0.5, 2000  # of that scale


class Update:
    def __init__(self, train: TrainConfig, world: World, dtype: torch.dtype, sharded: bool) -> None:
        self._train, self._size, self._sharded = train, world.size, sharded
        self._on_cpu = world.device.type == "cpu"
        self._bad = torch.zeros((), dtype=torch.float32, device=world.device)
        self._inverse = torch.ones((), dtype=torch.float32, device=world.device)
        self._inverse_value = 1.0
        # float16 needs its losses scaled into range; 1 otherwise.
        self.scaling = dtype == torch.float16
        self.scale = torch.tensor(2.0**16 if self.scaling else 1.0, device=world.device)
        self._growth = torch.zeros((), dtype=torch.int32, device=world.device)
        self.skipped = 0

    @torch.no_grad()
    def __call__(self, phase: Phase, count: int) -> None:
        """Steps on gradients of a sum over `count` targets, which are averaged over the processes already."""
        gradients = [_values(p) for p in phase.parameters if p.grad is not None]
        # Gradients of a sum, averaged over processes, become the gradient of the mean over all targets.
        inverse = self._inverse_of(self._size / count)
        self._bad.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, self._bad, inverse)
        if self._sharded:
            torch.distributed.all_reduce(self._bad, torch.distributed.ReduceOp.MAX)
        if self._train.clip is not None:
            phase.norm = clip_by_norm(phase.parameters, self._train.clip)
        if self._train.clip_value is not None:
            clip_by_value(phase.parameters, self._train.clip_value)
        if self._on_cpu or not phase.skips_on_device:
            bad = bool(self._bad.item())
            if bad and not self.scaling:
                self._refuse(1)
            if not bad:
                phase.step()
        else:
            phase.bad = phase.bad + self._bad
            phase.optimizer.found_inf = self._bad  # type: ignore[attr-defined]
            phase.step()
        if self.scaling:
            torch._amp_update_scale_(self.scale, self._growth, self._bad, _GROWTH, _BACKOFF, _GROWTH_STEPS)

    def _inverse_of(self, value: float) -> Tensor:
        if value != self._inverse_value:
            self._inverse.fill_(value)
            self._inverse_value = value
        return self._inverse / self.scale if self.scaling else self._inverse

    def _refuse(self, times: int) -> None:
        if self._train.nonfinite == "stop":
            raise NonFinite("The loss or a gradient is not finite")
        self.skipped += times

    def check(self, phase: Phase) -> None:
        """Counts, or refuses, the steps that the device skipped since the last log; this waits for it."""
        bad = int(phase.bad)
        if bad and not self.scaling:
            self._refuse(bad)
        if self.scaling and self.scale.item() < _LEAST_SCALE:
            raise NonFinite("float16 gradients overflow at any loss scale")

    def state(self) -> dict[str, Any]:
        return {"skipped": self.skipped, "scale": self.scale.item(), "growth": self._growth.item()}

    def restore(self, state: dict[str, Any]) -> None:
        self.skipped = state["skipped"]
        self.scale.fill_(state["scale"])
        self._growth.fill_(state["growth"])


def _values(parameter: Tensor) -> Tensor:
    """The gradient, or the values of one that has only some rows, each of them once."""
    gradient = local_part(parameter.grad)  # type: ignore[arg-type]
    if gradient.is_sparse:
        parameter.grad = gradient = gradient.coalesce()
        return gradient.values()
    return gradient
