"""One token through a block by Triton's kernels against plain tensors; without a GPU in Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton", reason="Triton comes with torch for CUDA alone")

from canon.kernels.cuda import step as step_kernel
from tests.systems.test_causal import build

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("kind", ["gpt", "gpt2", "gpt3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_step_as_plain_tensors_do(kind: str, dtype: torch.dtype) -> None:
    """Post- and pre-norm and a window, texts that begin at unequal places, past one block of keys."""
    network = build(kind, max_positions=128, **({"window": 5} if kind == "gpt3" else {})).to(DEVICE, dtype)
    states = [network.make_room(3, 128) for _ in range(2)]
    generator = torch.Generator().manual_seed(0)
    tokens_BT = torch.randint(1, 20, (3, 70), generator=generator).to(DEVICE)
    for state in states:
        state["start"].copy_(torch.tensor([0, 3, 69]))
        network.fill(tokens_BT, state)
    for place in range(70, 76):
        token_B, place_1 = tokens_BT[:, place - 70], torch.tensor([place], device=DEVICE)
        wanted = network.fixed_step(token_B, place_1, states[0], 128)
        actual = network.fixed_step(token_B, place_1, states[1], 128, step_kernel.fixed)
        near = 1e-5 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(actual, wanted, rtol=near, atol=near)
        torch.testing.assert_close(states[1]["cache"], states[0]["cache"], rtol=near, atol=near)
