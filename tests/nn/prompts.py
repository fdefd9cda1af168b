"""Prompts of unequal length as the tests of left-to-right networks read them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.nn.decoding import EOS, FORBIDDEN, Start


@torch.no_grad()
def begin_texts(
    network: Any, prompts: Sequence[Tensor], length: int, forbid: Sequence[int] = FORBIDDEN, eos: int = EOS
) -> Start:
    """`begin_text` for prompts of unequal length: they end together, so that all rows go on at one place."""
    prompt_BT, start_B = flush_right(prompts)
    state = network.read(prompt_BT[:, :-1], length, start_B)
    return Start(state, prompt_BT[:, -1], torch.full((len(prompts),), length), forbid=forbid, eos=eos)


def flush_right(prompts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Prompts [B, T] that end at the same place, and where each begins; before that stands nothing that counts."""
    longest = max(len(prompt) for prompt in prompts)
    rows = [F.pad(prompt, (longest - len(prompt), 0)) for prompt in prompts]
    return torch.stack(rows), torch.tensor([longest - len(prompt) for prompt in prompts], device=rows[0].device)
