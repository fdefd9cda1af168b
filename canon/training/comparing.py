"""A loss that compares all rows of the global batch, learned in pieces: gradient caching.

Gao, Zhang, Han and Callan 2021, Scaling deep contrastive learning batch size under memory limited setup
(arXiv:2101.06983), section 3.2: (1) the vectors of every piece, without gradients; (2) the loss of all of them, and its
gradient by each vector; (3) each piece again, with the random numbers of the first time, so that the same units are
dropped, and the chain rule through it. The gradient is that of the whole batch at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from canon.data.batching.loader import Piece
from canon.tasks.base import Compares, Turn


def compare_in_pieces(
    task: Compares,
    model: nn.Module,
    pieces: list[Piece],
    turn: Turn,
    begin: Callable[[int], Any],
    within: Callable[[bool], Any],
    prepared: Callable[[Tensor], tuple[Any, Tensor]],
) -> Any:
    """Adds the gradients of all pieces; returns the loss.

    begin: sets the turn for a piece. within: the context of a piece's pass; whether it is the last one that adds
    gradients. prepared: a loss as it is reported, and as its gradient is taken.
    """
    cached, states = [], []
    with torch.no_grad():
        for number, piece in enumerate(pieces):
            begin(number)
            states.append(_random_state(piece.batch["input"].device))
            with within(False):
                cached.append(task.embed(model, piece.batch, turn))
    vectors_B = torch.cat(cached).requires_grad_()
    facts = [task.facts(piece.batch) for piece in pieces]
    start, _, total = pieces[0].share
    turn.share = (start, pieces[-1].share[1], total)
    merged = {name: torch.cat([each[name] for each in facts]) for name in facts[0]}
    value, loss = prepared(task.compared(vectors_B, merged, turn))
    loss.backward()
    assert vectors_B.grad is not None
    gradients = vectors_B.grad.split([len(part) for part in cached])
    for number, (piece, gradient) in enumerate(zip(pieces, gradients, strict=True)):
        begin(number)
        with _seeded(piece.batch["input"].device, states[number]), within(number == len(pieces) - 1):
            task.embed(model, piece.batch, turn).backward(gradient)
    return value


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_random_state(device: torch.device, state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


@contextmanager
def _seeded(device: torch.device, state: tuple[Tensor, Tensor | None]) -> Iterator[None]:
    """With the random numbers of an earlier moment; afterwards they go on as if nothing had been drawn."""
    before = _random_state(device)
    _set_random_state(device, state)
    yield
    _set_random_state(device, before)
