"""From settings to a torch optimiser, in the fastest form that torch has for the device.

torch is imported inside, so that recipes which name an optimiser are read without it.
Deviations are torch's own and are listed in docs/optimizers.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from canon.errors import CanonError
from canon.optim import settings as s

if TYPE_CHECKING:
    import torch


def create(settings: s.OptimizerSettings, param_groups: Iterable[dict[str, Any]]) -> torch.optim.Optimizer:
    """The optimiser for `settings` over groups {"params": [tensors], "lr"?: rate, "weight_decay"?: λ, "rows"?: whether
    these are tables of which only looked-up rows learn}."""
    import torch

    from canon.optim import ours

    if not isinstance(settings, s.OptimizerSettings):
        raise CanonError(f"{settings!r} is not the settings of an optimiser; those are in canon.optim.OPTIMIZERS.")
    groups = [dict(group) for group in param_groups]
    for group in groups:
        if "params" not in group or (extra := set(group) - {"params", "lr", "weight_decay", "rows"}):
            got = ", ".join(sorted(extra)) if "params" in group else "no params"
            raise CanonError(f"A parameter group takes params, lr, weight_decay and rows, got {got}.")
        group["params"] = list(group["params"])
        if not all(isinstance(p, torch.Tensor) for p in group["params"]):
            raise CanonError("The params of a group must be tensors.")
    params = [p for group in groups for p in group["params"]]
    if not params:
        raise CanonError("There is nothing to train: the network has no parameters that take gradients.")

    sharded = any(hasattr(p, "placements") for p in params)

    def kernel(*fused_on: str, of_shards: bool = False) -> dict[str, Any]:
        fused = all(p.device.type in fused_on and p.is_floating_point() for p in params)
        fused = fused and (of_shards or not sharded)
        return {"fused": True} if fused else {"foreach": True}

    options = asdict(settings)
    if any(group.get("rows") for group in groups):
        return _of_rows(settings, options, groups, kernel("cpu"))
    match settings:
        case s.SGD():
            return torch.optim.SGD(groups, **options, **kernel("cpu", "cuda"))
        case s.AdaGrad():
            return torch.optim.Adagrad(groups, **options, **kernel("cpu"))  # torch has no fused one on CUDA
        case s.AdaDelta():
            return torch.optim.Adadelta(groups, **options, foreach=True)
        case s.RMSProp():
            return torch.optim.RMSprop(groups, alpha=options.pop("rho"), **options, foreach=True)
        case s.NAdam():
            return torch.optim.NAdam(groups, **options, foreach=True)
        case s.Adam() | s.AdamW():
            decoupled = isinstance(settings, s.AdamW)
            if not options.pop("bias_correction"):
                return ours.UncorrectedAdam(groups, decoupled=decoupled, **options)
            optimizer = torch.optim.AdamW if decoupled else torch.optim.Adam
            return optimizer(groups, **options, **kernel("cpu", "cuda", of_shards=True))
        case s.LAMB():
            return ours.LAMBOptimizer(groups, **options)
        case s.AdamThenSGD():
            return ours.AdamThenSGDOptimizer(groups, sgd_scale=options.pop("sgd_lr") / settings.lr, **options)
    raise CanonError(f"{type(settings).__name__} is not the settings of an optimiser.")


def _of_rows(
    settings: s.OptimizerSettings, options: dict[str, Any], groups: list[dict[str, Any]], kernel: dict[str, Any]
) -> torch.optim.Optimizer:
    """The optimiser where some parameters are tables of rows (canon/optim/rows.py)."""
    from canon.optim import rows

    match settings:
        case s.SGD() if not settings.momentum:
            return rows.RowSGD(groups, **options, **kernel)
        case s.AdaGrad():
            return rows.RowAdaGrad(groups, **options, **kernel)
        case s.Adam() | s.AdamW() if options.pop("bias_correction"):
            return (rows.RowAdamW if isinstance(settings, s.AdamW) else rows.RowAdam)(groups, **options, **kernel)
    raise CanonError(
        "optimizer.name: a system with tables, of which only looked-up rows learn, takes adam, adamw, adagrad, or sgd "
        "without momentum; choose one of these."
    )
