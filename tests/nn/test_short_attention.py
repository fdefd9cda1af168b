"""Attention of short sequences by Triton's kernels against the padded grid; without a GPU in Triton's interpreter."""

from __future__ import annotations

import importlib
import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton comes with torch for CUDA alone")

from canon.nn.attention import multihead
from canon.nn.attention.attend import attend
from canon.nn.attention.short import attend_short
from canon.nn.ragged import Layout

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
NEAR = {"rtol": 0.05, "atol": 0.05} if DEVICE == "cuda" else {"rtol": 1e-5, "atol": 1e-5}


def made(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(DEVICE, TYPE).requires_grad_()


def attended(asked, memory, layout, keys, causal=False, window=0, dropout=0.0, seed=None):  # type: ignore[no-untyped-def]
    bounds = layout.max_length, keys.max_length
    return attend_short(asked, memory, layout.offsets, keys.offsets, *bounds, causal, window, dropout, seed)


def compare(actual: torch.Tensor, wanted: torch.Tensor, given: list[torch.Tensor]) -> None:
    torch.testing.assert_close(actual.float(), wanted, **NEAR)
    slope = torch.randn_like(wanted)
    pairs = zip(
        torch.autograd.grad(actual, given, slope.to(TYPE)), torch.autograd.grad(wanted, given, slope), strict=True
    )
    for mine, other in pairs:
        torch.testing.assert_close(mine.float(), other.float(), **NEAR)


@pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 3), (False, 4)])
@pytest.mark.parametrize("lengths", [[4, 7, 1, 5], [40, 9, 33], [128, 3, 65]])
def test_own_tokens(lengths: list[int], causal: bool, window: int) -> None:
    torch.manual_seed(0)
    layout = Layout(torch.tensor(lengths), DEVICE)
    asked = made(layout.total, 3, 2, 16)
    wanted = attend(*asked.float().unbind(1), layout=layout, causal=causal, window=window)
    compare(attended(asked, None, layout, layout, causal, window), wanted, [asked])


def test_tokens_of_another_sequence() -> None:
    torch.manual_seed(0)
    layout, keys = Layout(torch.tensor([4, 2, 20]), DEVICE), Layout(torch.tensor([3, 50, 7]), DEVICE)
    asked, reported = made(layout.total, 2, 32), made(keys.total, 2, 2, 32)
    wanted = attend(asked.float(), *reported.float().unbind(1), layout=layout, key_layout=keys)
    compare(attended(asked, reported, layout, keys), wanted, [asked, reported])


def test_heads_of_a_network_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layout, keys = Layout(torch.tensor([4, 2]), DEVICE), Layout(torch.tensor([3, 5]), DEVICE)
    own, cross = (kind(32, 2).to(DEVICE) for kind in (multihead.SelfAttention, multihead.CrossAttention))
    x_ND, memory_MD = (torch.randn(total, 32, device=DEVICE) for total in (layout.total, keys.total))
    wanted = own(x_ND, layout, causal=True), cross(x_ND, layout, memory_MD, keys)
    attend_module = importlib.import_module("canon.nn.attention.attend")
    monkeypatch.setattr(attend_module, "is_packed", lambda *_: True)
    monkeypatch.setattr(attend_module, "_FLASH", None)
    actual = own(x_ND, layout, causal=True), cross(x_ND, layout, memory_MD, keys)
    for one, two in zip(actual, wanted, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-2, atol=1e-2)


def test_the_operator_is_what_it_says() -> None:
    """Its schema, shapes without data, and gradients under torch.compile."""
    layout, keys = Layout(torch.tensor([4, 2]), DEVICE), Layout(torch.tensor([3, 5]), DEVICE)
    rest = (layout.offsets, keys.offsets, 4, 5, False, 0, 0.0, None)
    torch.library.opcheck(attend_short, (made(6, 2, 16), made(8, 2, 2, 16), *rest))
    torch.library.opcheck(attend_short, (made(6, 3, 2, 16), None, *rest[:1], layout.offsets, 4, 4, True, 0, 0.0, None))


def test_empty_sequences_weigh_nothing() -> None:
    """Queries without keys, keys without queries, and neither."""
    torch.manual_seed(0)
    layout, keys = Layout(torch.tensor([3, 0, 0, 2]), DEVICE), Layout(torch.tensor([0, 4, 0, 2]), DEVICE)
    asked, reported = made(layout.total, 1, 16), made(keys.total, 2, 1, 16)
    result = attended(asked, reported, layout, keys)
    assert not result[:3].any() and result[3:].any()
    asked_slope, reported_slope = torch.autograd.grad(result.sum(), [asked, reported])
    assert not asked_slope[:3].any() and not reported_slope[:4].any()
    assert asked_slope[3:].any() and reported_slope[4:].any()


def test_dropout_is_that_of_its_seed_forward_and_backward() -> None:
    torch.manual_seed(0)
    layout = Layout(torch.tensor([16] * 40), DEVICE)
    asked = made(layout.total, 3, 2, 16)
    seed = torch.tensor(7, dtype=torch.int32, device=DEVICE)
    with torch.no_grad():  # values that are one-hot show the weights themselves
        asked[:, 2] = torch.eye(16).repeat(40, 1)[:, None].to(asked)
    plain, dropped = (attended(asked, None, layout, layout, dropout=p, seed=s) for p, s in ((0.0, None), (0.25, seed)))
    kept = dropped != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.01
    torch.testing.assert_close(dropped[kept].float(), plain[kept].float() / 0.75, **NEAR)
    other = attended(asked, None, layout, layout, dropout=0.25, seed=seed + 1)
    assert 0.5 < (kept == (other != 0)).float().mean() < 0.75  # 0.625 of independent draws
    # The way back has the same weights dropped: the slope of the same function, written out.
    x = asked.detach().float().requires_grad_()
    query, key, value = (part.view(40, 16, 2, 16).transpose(1, 2) for part in x.unbind(1))
    mask = kept.view(40, 16, 2, 16).transpose(1, 2)
    wanted = ((query @ key.transpose(-1, -2) / 4).softmax(-1) * mask / 0.75 @ value).transpose(1, 2).flatten(0, 1)
    slope = torch.randn_like(wanted)
    (mine,), (theirs,) = torch.autograd.grad(dropped, asked, slope.to(TYPE)), torch.autograd.grad(wanted, x, slope)
    torch.testing.assert_close(mine.float(), theirs, **NEAR)
