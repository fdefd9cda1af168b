"""Recorded decoding against plain decoding: the same tokens and log-probabilities, whatever the way.

Without a GPU the steps run unrecorded: what is compared then is all but the graphs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from canon.nn import graphs
from canon.nn.choosing import Sampling
from canon.nn.decoding import begin_text, go_on
from canon.nn.graphs import Recorder
from canon.systems.pretrained.causal import CausalTransformer
from tests.nn.prompts import begin_texts, flush_right
from tests.systems.test_causal import build, prompt

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
KINDS = {"gpt": {}, "gpt2": {}, "gpt3": {"window": 5}}


def taken(stream: Iterator[tuple[Tensor, Tensor]], count: int) -> tuple[Tensor, Tensor]:
    """The first `count` steps, [T, B]."""
    tokens, gains, have = [], [], 0
    while have < count:
        token_TB, gain_TB = next(stream)
        tokens.append(token_TB)
        gains.append(gain_TB)
        have += len(token_TB)
    return torch.cat(tokens)[:count], torch.cat(gains)[:count]


def made(kind: str, device: str, **changes: int) -> CausalTransformer:
    return build(kind, **{**KINDS[kind], **changes}).to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drawing", [False, True])
def test_recorded_steps_are_plain_steps(kind: str, device: str, drawing: bool) -> None:
    """Prompts of unequal length; the second batch is read into what the first has left."""
    network = made(kind, device, max_positions=64)
    sampling = Sampling(0.8, top_k=20, top_p=0.9) if drawing else None
    recorder = Recorder(network, 3, 40, torch.device(device), sampling, forbid=(5, 7), every=4)
    for seed in (0, 1):
        rows = [prompt(1, size, seed + size)[0].to(device) for size in (4, 1, 7)]
        start = begin_texts(network, rows, 30, (5, 7), -1)
        wanted = taken(go_on(network.step, start, sampling, torch.Generator().manual_seed(seed)), 30)
        recorder.begin(*flush_right(rows))
        actual = taken(graphs.go_on(recorder, torch.Generator().manual_seed(seed)), 30)
        assert torch.equal(actual[0], wanted[0]) and not (actual[0] == 5).any() and len(actual[0].unique()) > 5
        torch.testing.assert_close(actual[1], wanted[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_they_slide_and_reach_further_alike(device: str) -> None:
    """Past 10 positions, in looks of 3 steps that do not divide them; and past the 128 places of the first graph."""
    for positions, length in ((10, 25), (200, 180)):
        network = made("gpt2", device, max_positions=positions)
        rows = [prompt(1, size, size)[0].to(device) for size in (6, 2)]
        wanted = taken(go_on(network.step, begin_texts(network, rows, length, (), -1)), length)[0]
        recorder = Recorder(network, 2, 6 + length, torch.device(device), every=3)
        recorder.begin(*flush_right(rows))
        assert torch.equal(taken(graphs.go_on(recorder), length)[0], wanted)


def test_room_is_asked_for() -> None:
    network = made("gpt2", "cpu")
    recorder = Recorder(network, 1, 10, torch.device("cpu"), every=4)
    recorder.begin(prompt(1, 4))
    stream = graphs.go_on(recorder)
    wanted = taken(go_on(network.step, begin_text(network, prompt(1, 4), 10, (), -1)), 7)[0]
    assert torch.equal(taken(stream, 7)[0], wanted)
    with pytest.raises(AssertionError, match="room for fewer tokens"):
        next(stream)
