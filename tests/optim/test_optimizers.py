"""Every optimiser against ten lines of float64 numpy that follow the paper, and its state through save and restore."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from canon.errors import CanonError
from canon.optim import OPTIMIZERS, create
from canon.optim import settings as s

STEPS = 100
SHAPES = [(3, 4), (5,), (2, 2, 2)]
RNG = np.random.default_rng(0)
START = [RNG.normal(size=shape) for shape in SHAPES]
NOISE = [[RNG.normal(size=shape) for shape in SHAPES] for _ in range(STEPS)]


def gradient(theta: np.ndarray, step: int, index: int) -> np.ndarray:
    """Of a bowl, with noise, so that no moment is ever trivially constant."""
    return 0.7 * theta + 0.5 * NOISE[step][index]


def sgd(x, g, st, c, t):
    g = g + c.weight_decay * x
    if c.momentum == 0:
        return x - c.lr * g
    st["b"] = c.momentum * st.get("b", 0) + g
    return x - c.lr * (g + c.momentum * st["b"] if c.nesterov else st["b"])


def adagrad(x, g, st, c, t):
    g = g + c.weight_decay * x
    st["G"] = st.get("G", 0) + g**2
    return x - c.lr * g / (np.sqrt(st["G"]) + c.eps)


def adadelta(x, g, st, c, t):
    g = g + c.weight_decay * x
    st["G"] = c.rho * st.get("G", 0) + (1 - c.rho) * g**2
    d = np.sqrt(st.get("D", 0) + c.eps) / np.sqrt(st["G"] + c.eps) * g
    st["D"] = c.rho * st.get("D", 0) + (1 - c.rho) * d**2
    return x - c.lr * d


def rmsprop(x, g, st, c, t):
    g = g + c.weight_decay * x
    st["G"] = c.rho * st.get("G", 0) + (1 - c.rho) * g**2
    variance = st["G"]
    if c.centered:
        st["m"] = c.rho * st.get("m", 0) + (1 - c.rho) * g
        variance = variance - st["m"] ** 2
    st["b"] = c.momentum * st.get("b", 0) + g / (np.sqrt(variance) + c.eps)
    return x - c.lr * st["b"]


def moments(g, st, c, t, corrected=True):
    b1, b2 = c.betas
    st["m"] = b1 * st.get("m", 0) + (1 - b1) * g
    st["v"] = b2 * st.get("v", 0) + (1 - b2) * g**2
    m, v = (st["m"] / (1 - b1**t), st["v"] / (1 - b2**t)) if corrected else (st["m"], st["v"])
    return m / (np.sqrt(v) + c.eps)


def adam(x, g, st, c, t):
    return x - c.lr * moments(g + c.weight_decay * x, st, c, t, c.bias_correction)


def adamw(x, g, st, c, t):
    return x - c.lr * (moments(g, st, c, t, c.bias_correction) + c.weight_decay * x)


def nadam(x, g, st, c, t):
    g = g + c.weight_decay * x
    (b1, b2), psi = c.betas, c.momentum_decay
    mu, mu_next = b1 * (1 - 0.5 * 0.96 ** (t * psi)), b1 * (1 - 0.5 * 0.96 ** ((t + 1) * psi))
    st["P"] = st.get("P", 1) * mu
    st["m"] = b1 * st.get("m", 0) + (1 - b1) * g  # torch: β₁ here, μ_t in the paper
    st["v"] = b2 * st.get("v", 0) + (1 - b2) * g**2
    m = mu_next * st["m"] / (1 - st["P"] * mu_next) + (1 - mu) * g / (1 - st["P"])
    return x - c.lr * m / (np.sqrt(st["v"] / (1 - b2**t)) + c.eps)


def lamb(x, g, st, c, t):
    update = moments(g, st, c, t) + c.weight_decay * x
    phi = np.linalg.norm(x)
    if c.trust_clip:
        phi = min(max(phi, c.trust_clip[0]), c.trust_clip[1])
    return x - c.lr * phi / np.linalg.norm(update) * update


def adam_then_sgd(x, g, st, c, t):
    if t <= c.switch_step:
        return x - c.lr * moments(g + c.weight_decay * x, st, c, t)
    st["b"] = c.momentum * st.get("b", 0) + g + c.weight_decay * x
    return x - c.sgd_lr * st["b"]


REFERENCES = {
    "sgd": sgd,
    "adagrad": adagrad,
    "adadelta": adadelta,
    "rmsprop": rmsprop,
    "adam": adam,
    "nadam": nadam,
    "adamw": adamw,
    "lamb": lamb,
    "adam-then-sgd": adam_then_sgd,
}
REQUIRED = {"adam-then-sgd": {"switch_step": 40}}
CASES = [(name, REQUIRED.get(name, {})) for name in OPTIMIZERS] + [
    ("sgd", {"momentum": 0.9, "weight_decay": 0.1}),
    ("sgd", {"momentum": 0.9, "nesterov": True, "lr": 0.02}),
    ("adagrad", {"weight_decay": 0.1}),
    ("adadelta", {"weight_decay": 0.1, "rho": 0.9}),
    ("rmsprop", {"weight_decay": 0.1, "momentum": 0.5}),
    ("rmsprop", {"centered": True}),
    ("adam", {"weight_decay": 0.1, "lr": 0.03}),
    ("adam", {"bias_correction": False}),
    ("adam", {"bias_correction": False, "weight_decay": 0.1}),
    ("nadam", {"weight_decay": 0.1}),
    ("adamw", {"weight_decay": 0.3, "lr": 0.03}),
    ("adamw", {"bias_correction": False, "weight_decay": 0.3, "eps": 1e-6}),
    ("lamb", {"weight_decay": 0.0}),
    ("lamb", {"trust_clip": (0.5, 1.5), "lr": 0.03}),
    ("adam-then-sgd", {"switch_step": 0, "weight_decay": 0.1}),
    ("adam-then-sgd", {"switch_step": 50, "weight_decay": 0.1, "momentum": 0.0}),
]


def run(optimizer: torch.optim.Optimizer, params: list[torch.Tensor], steps: range) -> None:
    for step in steps:
        for index, p in enumerate(params):
            p.grad = 0.7 * p.detach() + 0.5 * torch.as_tensor(NOISE[step][index]).to(p.dtype)
        optimizer.step()


def start(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    return [torch.tensor(x, dtype=dtype, requires_grad=True) for x in START]


@pytest.mark.parametrize(("name", "changes"), CASES, ids=str)
def test_optimizer_equals_its_float64_reference(name: str, changes: dict) -> None:
    config = OPTIMIZERS[name](**changes)
    params = start()
    run(create(config, [{"params": params}]), params, range(STEPS))
    for index, p in enumerate(params):
        x, state = START[index], {}
        for step in range(STEPS):
            x = REFERENCES[name](x, gradient(x, step, index), state, config, step + 1)
        np.testing.assert_allclose(p.detach().numpy(), x, rtol=1e-6)
        assert np.abs(x - START[index]).max() > 1e-3  # it went somewhere


def test_every_optimizer_has_a_reference_and_says_what_it_is() -> None:
    assert set(REFERENCES) == set(OPTIMIZERS)
    for settings in OPTIMIZERS.values():
        assert settings.__doc__ and settings.__doc__.count("\n") == 0 and settings.paper


def test_adam_then_sgd_equals_torch_adam_then_torch_sgd() -> None:
    params, by_hand = start(), start()
    config = s.AdamThenSGD(switch_step=40, lr=0.01, sgd_lr=0.05, momentum=0.8)
    run(create(config, [{"params": params}]), params, range(STEPS))
    run(torch.optim.Adam(by_hand, lr=0.01), by_hand, range(40))
    run(torch.optim.SGD(by_hand, lr=0.05, momentum=0.8), by_hand, range(40, STEPS))
    for p, q in zip(params, by_hand, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-14)


def test_adam_then_sgd_follows_the_groups_rate_after_the_switch() -> None:
    params = start()
    optimizer = create(s.AdamThenSGD(switch_step=0, lr=0.1, sgd_lr=0.4), [{"params": params}])
    optimizer.param_groups[0]["lr"] = 0.05  # a schedule at one half
    run(optimizer, params, range(1))
    for index, p in enumerate(params):
        np.testing.assert_allclose(p.detach().numpy(), START[index] - 0.2 * gradient(START[index], 0, index))


@pytest.mark.parametrize(("name", "changes"), CASES, ids=str)
@pytest.mark.parametrize("cut", [30, 60])
def test_restored_state_continues_bit_for_bit(name: str, changes: dict, cut: int) -> None:
    """Stored as plain tensors by parameter and put back with load_state_dict = never stopped; across the switch too."""
    config = OPTIMIZERS[name](**changes)
    params = start(torch.float32)
    optimizer = create(config, [{"params": params}])
    run(optimizer, params, range(cut))
    for state in optimizer.state.values():
        assert all(isinstance(value, torch.Tensor) for value in state.values())
    saved = [dict(optimizer.state[p]) for p in params]
    saved = [{key: value.clone() for key, value in state.items()} for state in saved]
    again = [p.detach().clone().requires_grad_() for p in params]
    run(optimizer, params, range(cut, STEPS))

    resumed = create(config, [{"params": again}])
    whole = copy.deepcopy(resumed.state_dict())
    whole["state"] = {index: state for index, state in enumerate(saved) if state}
    resumed.load_state_dict(whole)
    run(resumed, again, range(cut, STEPS))
    assert all(torch.equal(p, q) for p, q in zip(params, again, strict=True))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_keep_their_own_rate_and_decay_and_skip_missing_gradients(name: str) -> None:
    """A group's lr and weight_decay = an optimiser made with those; a parameter without a gradient stays put."""
    together, alone = start(), start()
    still = torch.ones(3, dtype=torch.float64, requires_grad=True)
    config = OPTIMIZERS[name](lr=0.5, **REQUIRED.get(name, {}))
    groups = [{"params": [*together[:2], still], "lr": 0.02, "weight_decay": 0.2}, {"params": together[2:]}]
    optimizer = create(config, groups)
    ratio = {"sgd_lr": 0.02 * config.sgd_lr / 0.5} if name == "adam-then-sgd" else {}
    first = create(
        OPTIMIZERS[name](lr=0.02, weight_decay=0.2, **REQUIRED.get(name, {}), **ratio), [{"params": alone[:2]}]
    )
    second = create(config, [{"params": alone[2:]}])
    for step in range(50):
        run(optimizer, together, range(step, step + 1))
        for p, q in zip(alone, together, strict=True):
            p.grad = q.grad.clone()
        first.step()
        second.step()
    for p, q in zip(together, alone, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=0)
    assert torch.equal(still, torch.ones(3, dtype=torch.float64))


def test_lamb_takes_ratio_one_where_weights_or_update_are_zero() -> None:
    zero_weights = torch.zeros(4, requires_grad=True)
    zero_update = torch.ones(4, requires_grad=True)
    zero_weights.grad, zero_update.grad = torch.ones(4), torch.zeros(4)
    create(s.LAMB(lr=0.1, weight_decay=0), [{"params": [zero_weights, zero_update]}]).step()
    torch.testing.assert_close(zero_weights.detach(), torch.full((4,), -0.1))
    assert torch.equal(zero_update.detach(), torch.ones(4))


def test_torchs_fused_kernels_are_chosen_on_the_cpu() -> None:
    for name in ("sgd", "adagrad", "adam", "adamw"):
        assert create(OPTIMIZERS[name](), [{"params": start()}]).param_groups[0]["fused"] is True


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sgd", {"lr": 0}),
        ("sgd", {"lr": float("nan")}),
        ("sgd", {"nesterov": True}),
        ("sgd", {"momentum": 1.0}),
        ("adam", {"betas": (0.9, 1.0)}),
        ("adam", {"beta1": 0.9}),
        ("adamw", {"weight_decay": -0.1}),
        ("lamb", {"trust_clip": (2.0, 1.0)}),
        ("adam-then-sgd", {}),
    ],
    ids=str,
)
def test_bad_settings_are_refused(name: str, changes: dict) -> None:
    with pytest.raises(CanonError):
        OPTIMIZERS[name](**changes)


def test_bad_groups_are_one_sentence() -> None:
    with pytest.raises(CanonError, match="nothing to train"):
        create(s.SGD(), [{"params": []}])
    with pytest.raises(CanonError, match="got momentum"):
        create(s.SGD(), [{"params": start(), "momentum": 0.3}])


def test_settings_and_schedules_need_no_torch() -> None:
    code = "import sys, canon.optim; canon.optim.OPTIMIZERS['adam'](); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_docs_name_every_optimizer_with_every_setting_and_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs/optimizers.md").read_text(encoding="utf-8")
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| `") and line.count(" | ") == 3]
    rows = {name.strip("| `"): settings for name, _, settings, _ in table}
    for name, settings in OPTIMIZERS.items():
        for field in dataclasses.fields(settings):
            match = re.search(rf"`{field.name}` (\[[^\]]*\]|\S+)", rows[name])
            assert match, (name, field.name)
            documented = match[1].rstrip(",")
            if documented in ("none", "(required)"):
                assert field.default in (None, dataclasses.MISSING)
            else:
                default = list(field.default) if isinstance(field.default, tuple) else field.default
                assert json.loads(documented) == default, (name, field.name)
