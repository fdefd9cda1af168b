"""From settings to a torch optimiser, in the fastest form that torch has for the device.

torch is imported inside, so that recipes which name an optimiser are read without it.
Deviations are torch's own and are listed in docs/optimizers.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from canon.errors import CanonError
from canon.optim import settings as s

if TYPE_CHECKING:
    import torch


def create(settings: s.Settings, param_groups: Iterable[dict[str, Any]]) -> torch.optim.Optimizer:
    """The optimiser for `settings` over groups {"params": [tensors], "lr"?: rate, "weight_decay"?: λ}."""
    import torch

    from canon.optim import ours

    if not isinstance(settings, s.Settings):
        raise CanonError(f"{settings!r} is not the settings of an optimiser; those are in canon.optim.OPTIMIZERS.")
    groups = [dict(group) for group in param_groups]
    for group in groups:
        if "params" not in group or (extra := set(group) - {"params", "lr", "weight_decay"}):
            got = ", ".join(sorted(extra)) if "params" in group else "no params"
            raise CanonError(f"A parameter group takes params, lr and weight_decay, got {got}.")
        group["params"] = list(group["params"])
        if not all(isinstance(p, torch.Tensor) for p in group["params"]):
            raise CanonError("The params of a group must be tensors.")
    params = [p for group in groups for p in group["params"]]
    if not params:
        raise CanonError("There is nothing to train: the network has no parameters that take gradients.")

    sharded = any(hasattr(p, "placements") for p in params)

    def kernel(*fused_on: str, of_shards: bool = False) -> dict[str, bool]:
        fused = all(p.device.type in fused_on and p.is_floating_point() for p in params)
        fused = fused and (of_shards or not sharded)
        return {"fused": True} if fused else {"foreach": True}

    common: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    match settings:
        case s.SGD(momentum=momentum, nesterov=nesterov):
            return torch.optim.SGD(groups, momentum=momentum, nesterov=nesterov, **common, **kernel("cpu", "cuda"))
        case s.AdaGrad(eps=eps):
            return torch.optim.Adagrad(groups, eps=eps, **common, **kernel("cpu"))  # torch has no fused one on CUDA
        case s.AdaDelta(rho=rho, eps=eps):
            return torch.optim.Adadelta(groups, rho=rho, eps=eps, **common, foreach=True)
        case s.RMSProp(rho=rho, eps=eps, momentum=momentum, centered=centered):
            common |= {"momentum": momentum, "centered": centered}
            return torch.optim.RMSprop(groups, alpha=rho, eps=eps, **common, foreach=True)
        case s.NAdam(betas=betas, eps=eps, momentum_decay=momentum_decay):
            common |= {"betas": betas, "momentum_decay": momentum_decay}
            return torch.optim.NAdam(groups, eps=eps, **common, foreach=True)
        case s.Adam(betas=betas, eps=eps, bias_correction=True):
            return torch.optim.Adam(groups, betas=betas, eps=eps, **common, **kernel("cpu", "cuda", of_shards=True))
        case s.AdamW(betas=betas, eps=eps, bias_correction=True):
            return torch.optim.AdamW(groups, betas=betas, eps=eps, **common, **kernel("cpu", "cuda", of_shards=True))
        case s.Adam(betas=betas, eps=eps) | s.AdamW(betas=betas, eps=eps):
            return ours.UncorrectedAdam(groups, betas=betas, eps=eps, decoupled=isinstance(settings, s.AdamW), **common)
        case s.LAMB(betas=betas, eps=eps, trust_clip=trust_clip):
            return ours.LAMB(groups, betas=betas, eps=eps, trust_clip=trust_clip, **common)
        case s.AdamThenSGD(betas=betas, eps=eps):
            sgd = {"switch_step": settings.switch_step, "sgd_scale": settings.sgd_lr / settings.lr}
            return ours.AdamThenSGD(groups, betas=betas, eps=eps, momentum=settings.momentum, **sgd, **common)
    raise CanonError(f"{type(settings).__name__} is not the settings of an optimiser.")
