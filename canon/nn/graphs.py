"""Decoding that the device does by itself: each step is a CUDA graph, and the host reads tokens only now and then.

A step of a small network at batch 1 is some 150 kernels of about two microseconds; launched one by one from Python they
take five times as long. Here a step is recorded once and replayed: token, place, cache and what is drawn from live in
memory that stays where it is, and the token that a step chooses is the one that the next reads. Few texts go through
kernels that fuse what a block does between two products, and read only the places in use (cuda/step.py); for many,
whose products are matrices, there is one graph for each power of two of places from 128 on, and a bias hides the rest.
On a CPU, or with CANON_KERNELS=off, the same steps run without graphs; all are equal to canon.nn.decoding's in
tests/nn/test_graphs.py. Random numbers are drawn on the host in the order of `decoding.sample`, so that both draw the
same tokens.
Shapes: B texts, T tokens of a prompt, K steps between two looks, R places in reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from canon.kernels import enabled
from canon.nn.attention.steps import Fixed
from canon.nn.choosing import Sampling, drawn, likeliest, uniform
from canon.nn.states import State

_LEAST = 128  # places of the smallest graph; a bias of whole 16 bytes is what attention kernels ask for
_WARM = 2  # steps before a recording, in which libraries make their workspaces
_FEW = 8  # texts, up to which weights are read again from the cache for each of them


@runtime_checkable
class RecordsSteps(Protocol):
    """What a network needs (canon.systems.pretrained.causal)."""

    limit: int  # positions

    def make_room(self, batch: int, capacity: int) -> State: ...
    def fill(self, token_BT: Tensor, state: State) -> None: ...
    def slide(self, state: State) -> State: ...
    def fixed_step(
        self, token_B: Tensor, place_1: Tensor, state: State, reach: int, run: Fixed | None = None
    ) -> Tensor: ...


class Recorder:
    """Goes on with texts by steps that were recorded; it serves any number of prompts, one batch after the other."""

    def __init__(
        self,
        network: RecordsSteps,
        batch: int,
        capacity: int,
        device: torch.device,
        sampling: Sampling | None = None,
        forbid: Sequence[int] = (),
        every: int = 16,
    ) -> None:
        """capacity: tokens of prompt and continuation; from the network's limit on, any number. every: K."""
        self.network, self.sampling, self.every = network, sampling, every
        self._device, self._records = device, device.type == "cuda" and enabled()
        self._room = min(capacity, network.limit)
        self._state = network.make_room(batch, -(-self._room // _LEAST) * _LEAST)
        self._banned = torch.tensor(list(forbid), dtype=torch.int64, device=device)
        # What the steps read and write, in memory that stays where it is.
        self._token = torch.zeros(batch, dtype=torch.int64, device=device)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._count = torch.zeros(1, dtype=torch.int64, device=device)
        self._tokens = torch.zeros(every, batch, dtype=torch.int64, device=device)
        self._gains = torch.zeros(every, batch, device=device)
        self._numbers = torch.zeros(every, batch, 1, dtype=torch.float64, device=device)
        self._position = 0  # the place, as the host knows it
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._records else None
        self._run = _kernels() if self._records and batch <= _FEW else None

    @torch.no_grad()
    def begin(self, prompt_BT: Tensor, start_B: Tensor | None = None) -> None:
        """Reads prompts; they end together, and row b's is prompt_BT[b, start_B[b]:]."""
        self._state["start"].zero_() if start_B is None else self._state["start"].copy_(start_B)
        self.network.fill(prompt_BT[:, :-1], self._state)
        self._token.copy_(prompt_BT[:, -1])
        self._move(prompt_BT.shape[1] - 1)

    def _move(self, position: int) -> None:
        self._position = position
        self._place.fill_(position)

    @torch.no_grad()
    def advance(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The next tokens and their log-probabilities, [≤ K, B] each, on the host."""
        if self._position == self.network.limit:
            self._move(int(self.network.slide({**self._state, "position": torch.tensor(self._position)})["position"]))
        steps = min(self.every, self._room - self._position)
        assert steps > 0, "there was room for fewer tokens"
        if self.sampling is not None:
            numbers = [uniform(len(self._token), generator) for _ in range(steps)]
            self._numbers[:steps].copy_(torch.stack(numbers))
        self._count.zero_()
        for _ in range(steps):
            self._replay(self._reach(self._position + steps))
        self._position += steps
        return self._tokens[:steps].to("cpu", copy=True), self._gains[:steps].to("cpu", copy=True)

    def _reach(self, needed: int) -> int:
        reach, room = _LEAST, self._state["tokens"].shape[1]
        while reach < needed:
            reach *= 2
        return room if self._run is not None else min(reach, room)

    def _replay(self, reach: int) -> None:
        if not self._records:
            self._step(reach)
            return
        if reach not in self._graphs:
            self._graphs[reach] = self._record(reach)
        self._graphs[reach].replay()

    def _step(self, reach: int) -> None:
        """One token for every text; everything happens on the device, in place."""
        logits_BV = self.network.fixed_step(self._token, self._place, self._state, reach, self._run).float()
        if self.sampling is None:
            gain_B, token_B = likeliest(logits_BV, self._banned)
        else:
            number_B1 = self._numbers.index_select(0, self._count)[0]
            gain_B, token_B = drawn(logits_BV, self._banned, number_B1, self.sampling)
        self._tokens.index_copy_(0, self._count, token_B[None])
        self._gains.index_copy_(0, self._count, gain_B[None])
        self._token.copy_(token_B)
        self._place.add_(1)
        self._count.add_(1)

    def _record(self, reach: int) -> torch.cuda.CUDAGraph:
        """The graph of one step. Warming up writes where the step itself will write, and is then forgotten."""
        kept = self._token.clone(), self._place.clone(), self._count.clone()
        here, side = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            for _ in range(_WARM):
                self._step(reach)
                for mine, before in zip((self._token, self._place, self._count), kept, strict=True):
                    mine.copy_(before)
        here.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._step(reach)
        return graph


def _kernels() -> Fixed:
    from canon.kernels.cuda.step import fixed  # triton comes with torch for CUDA alone

    return fixed


def go_on(recorder: Recorder, generator: torch.Generator | None = None) -> Iterator[tuple[Tensor, Tensor]]:
    """As canon.nn.decoding.go_on, from where the recorder has begun."""
    while True:
        yield recorder.advance(generator)
