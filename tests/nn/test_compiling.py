"""What torch.compile takes of a network, by the graphs that dynamo counts."""

from __future__ import annotations

from functools import partialmethod

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import canon
from canon.nn.compiling import compile_parts
from canon.nn.ragged import Layout


def test_after_two_batches_no_number_of_tokens_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen numbers of tokens and of sequences, there and back. The backend decides nothing: this one needs no
    compiler of C++."""
    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend="aot_eager"))
    torch._dynamo.reset()
    counters.clear()
    network = canon.create("bert:tiny", vocab_size=100)
    compile_parts(network)

    def step(lengths: list[int]) -> None:
        layout = Layout(torch.tensor(lengths))
        token_N = torch.randint(5, 100, (layout.total,))
        out = network(token_N, layout, segment_N=torch.zeros_like(token_N), places_M=torch.arange(len(lengths)))
        out["hidden"].sum().backward()

    step([9, 20, 3])
    step([12, 7, 5, 31])
    graphs = counters["stats"]["unique_graphs"]
    assert graphs > 0
    monkeypatch.setattr(torch._dynamo.config, "error_on_recompile", True)
    for number in range(12):
        step([5 + number, 7 + 3 * number, 64 - number, *[4] * (number % 5)])
    assert counters["stats"]["unique_graphs"] == graphs
    torch._dynamo.reset()
