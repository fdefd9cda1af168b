"""The Transformer as a system: published sizes, one token at a time, sequences that do not touch, and learning."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from canon.errors import CanonError
from canon.nn.counting import count_parameters
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from canon.nn.states import select
from canon.systems.sequence.transformer import Config, Transformer

SIZES: dict[str, Any] = {
    "source_vocab": 11,
    "target_vocab": 13,
    "dim": 16,
    "num_heads": 2,
    "num_layers": 2,
    "hidden": 24,
}
SHARED: dict[str, Any] = {"source_vocab": 13, "shared_vocab": True}
KINDS: list[dict[str, Any]] = [
    {},
    {"norm": "pre"},
    {"norm": "pre", "activation": "gelu", **SHARED},
    {"positions": "learned", "tie": False, "max_positions": 9},
    {"sparse": "alternating", "window": 2},
    {"sparse": "banded", "window": 3, "norm": "pre", "tie": False, **SHARED},
]


def build(**changes: Any) -> Transformer:
    torch.manual_seed(0)
    network = Transformer(Config(**{**SIZES, **changes}))
    with torch.no_grad():  # norms and biases away from where they begin
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network.eval()


def batch(source_lengths: list[int], target_lengths: list[int]) -> tuple[Tensor, Layout, Tensor, Layout]:
    torch.manual_seed(1)
    source, target = Layout(torch.tensor(source_lengths)), Layout(torch.tensor(target_lengths))
    return torch.randint(11, (source.total,)), source, torch.randint(13, (target.total,)), target


def layer_parameters(dim: int, hidden: int, attentions: int) -> int:
    """Four D × D projections with bias for each attention, two feed-forward layers, a norm after each sublayer."""
    feed_forward = 2 * dim * hidden + hidden + dim
    return attentions * 4 * (dim * dim + dim) + feed_forward + (attentions + 1) * 2 * dim


@pytest.mark.parametrize(
    ("sizes", "exact", "published"),
    [
        ({}, 63_082_496, 65e6),
        ({"dim": 1024, "num_heads": 16, "hidden": 4096}, 214_245_376, 213e6),
    ],
)
def test_published_sizes(sizes: dict[str, Any], exact: int, published: float) -> None:
    """Table 3 of the paper, base and big, with 37,000 tokens shared."""
    config = Config(source_vocab=37_000, target_vocab=37_000, shared_vocab=True, **sizes)
    with torch.device("meta"):
        result = count_parameters(Transformer(config))
    layers = sum(layer_parameters(config.dim, config.hidden, attentions) for attentions in (1, 2))
    assert result == exact == 37_000 * config.dim + 6 * layers
    assert result == pytest.approx(published, rel=0.03)


@pytest.fixture(params=["modules", "compiled"])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both ways through a network; that they are equal in all else is in tests/nn/test_compiled.py."""
    if request.param == "modules":
        yield
        return
    pytest.importorskip("numba")
    with ExitStack() as stack:

        def frozen_one(**changes: Any) -> Transformer:
            network = plain(**changes)
            stack.enter_context(frozen(network))
            return network

        plain = build
        monkeypatch.setattr(sys.modules[__name__], "build", frozen_one)
        yield


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_steps_equal_teacher_forcing(kind: dict[str, Any]) -> None:
    """encode, init_state and one step per token give the rows of forward, at sources and targets of unequal length."""
    network = build(**kind)
    source_N, source, target_M, target = batch([3, 5, 1], [4, 2, 7])
    with torch.no_grad():
        wanted = target.pad(network(source_N, source, target_M, target))
        state = network.init_state(network.encode(source_N, source), capacity=9)
    tokens = target.pad(target_M)
    for t in range(7):
        actual, state = network.step(tokens[:, t], state)
        here = target.mask[:, t]
        torch.testing.assert_close(actual[here], wanted[here, t], rtol=1e-5, atol=1e-5)
    assert int(state["position"]) == 7 and not actual.requires_grad


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("lengths", [[0, 3], [2, 0]])
def test_an_empty_source_is_attended_to_as_nothing(lengths: list[int]) -> None:
    network = build()
    source_N, source, target_M, target = batch(lengths, [3, 3])
    wanted = target.pad(network(source_N, source, target_M, target))
    assert wanted.isfinite().all()
    state = network.init_state(network.encode(source_N, source), 3)
    for t in range(3):
        actual, state = network.step(target.pad(target_M)[:, t], state)
        torch.testing.assert_close(actual, wanted[:, t].detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("steps")
def test_rows_of_a_state_can_be_chosen_and_repeated() -> None:
    """As beams do in the middle of a sentence."""
    network = build()
    source_N, source, target_M, target = batch([3, 5, 2], [6, 6, 6])
    tokens = target.pad(target_M)
    state = network.init_state(network.encode(source_N, source), 6)
    for t in range(3):
        _, state = network.step(tokens[:, t], state)
    rows = torch.tensor([2, 0, 0, 1])
    state, tokens = select(state, rows), torch.cat([tokens[rows, :3], torch.randint(13, (4, 3))], 1)
    layout = Layout(torch.full((4,), 6))
    sources = [source_N.split([3, 5, 2])[row] for row in rows.tolist()]
    chosen = Layout(torch.tensor([len(part) for part in sources]))
    wanted = layout.pad(network(torch.cat(sources), chosen, tokens.flatten(), layout))
    for t in range(3, 6):
        actual, state = network.step(tokens[:, t], state)
        torch.testing.assert_close(actual, wanted[:, t].detach(), rtol=1e-5, atol=1e-5)


class Calls(TorchDispatchMode):
    """Counts operators that compute or copy; a view costs no memory."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.names.append(func.__name__)
            outs = out if isinstance(out, tuple | list) else (out,)
            self.largest = max([self.largest, *(x.numel() for x in outs if isinstance(x, Tensor))])
        return out


@pytest.mark.usefixtures("steps")
def test_a_step_costs_the_same_at_any_position() -> None:
    """No mask, no concatenation, nothing of the past again: few operators, and none whose result grows."""
    network = build(num_layers=3)
    source_N, source, _, _ = batch([3, 5], [1, 1])
    state = network.init_state(network.encode(source_N, source), capacity=64)
    memory = {key: (x.data_ptr(), x.shape) for key, x in state.items() if key != "position"}
    counts = []
    for _ in range(64):
        with Calls() as calls:
            _, state = network.step(torch.tensor([2, 3]), state)
        counts.append((len(calls.names), calls.largest))
        assert not {"cat.default", "clone.default", "stack.default", "where.self"} & set(calls.names)
    assert len(set(counts)) == 1
    # Six products, two attentions, three sums and norms, the cache and ReLU for each of three layers, and the ends.
    assert counts[0][0] <= 3 * 16 + 5
    assert {key: (x.data_ptr(), x.shape) for key, x in state.items() if key != "position"} == memory


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_sequences_of_a_batch_do_not_touch(kind: dict[str, Any]) -> None:
    network = build(**kind)
    source_N, source, target_M, target = batch([3, 5, 1], [4, 2, 7])
    together = network(source_N, source, target_M, target).split([4, 2, 7])
    for b, (own, given) in enumerate(zip(source_N.split([3, 5, 1]), target_M.split([4, 2, 7]), strict=True)):
        alone = network(own, Layout(torch.tensor([len(own)])), given, Layout(torch.tensor([len(given)])))
        torch.testing.assert_close(together[b], alone, rtol=1e-5, atol=1e-5)


def test_the_future_is_not_seen() -> None:
    network = build()
    source_N, source, target_M, target = batch([4], [6])
    before = network(source_N, source, target_M, target)
    changed = target_M.clone()
    changed[4] = (changed[4] + 1) % 13
    after = network(source_N, source, changed, target)
    torch.testing.assert_close(after[:4], before[:4])
    assert (after[4:] - before[4:]).abs().min(-1).values.max() > 0


def test_attention_weights() -> None:
    """One matrix per layer and kind; rows of tokens sum to 1, padding has none, the future neither."""
    network = build(sparse="alternating", window=2)
    source_N, source, target_M, target = batch([3, 5], [4, 2])
    weights = network.attention(source_N, source, target_M, target)
    assert list(weights) == ["encoder/0", "encoder/1", "decoder/0", "cross/0", "decoder/1", "cross/1"]
    for name, queries, keys in (("encoder", source, source), ("decoder", target, target), ("cross", target, source)):
        for i in range(2):
            result = weights[f"{name}/{i}"]
            assert result.shape == (2, 2, queries.max_length, keys.max_length)
            torch.testing.assert_close(result.sum(-1), queries.mask[:, None].float().expand(-1, 2, -1))
            assert (result.masked_select(~keys.mask[:, None, None]) == 0).all()
            if name == "decoder":
                assert torch.equal(result, result.tril())
            if name != "cross" and i == 1:
                assert torch.equal(result, result.tril(1).triu(-1))  # the band of the second layer


def test_a_band_reaches_as_far_as_its_windows_together() -> None:
    """Two layers of window 3 carry a change 2 · 2 places."""
    network = build(sparse="banded", window=3)
    source_N, source, _, _ = batch([12], [1])
    changed = source_N.clone()
    changed[6] = (changed[6] + 1) % 11
    before, after = (network.encode(tokens, source)["memory"][0] for tokens in (source_N, changed))
    moved = (before - after).abs().amax(-1) > 1e-6
    assert moved.nonzero()[:, 0].tolist() == list(range(2, 11))


def test_one_matrix_serves_what_is_shared() -> None:
    shared, tied, apart = build(**SHARED), build(), build(tie=False)
    assert count_parameters(tied) - count_parameters(shared) == 11 * 16
    assert count_parameters(apart) - count_parameters(tied) == 13 * 16
    for network in (shared, tied, apart):
        tensors = network.state_dict().values()
        assert len({tensor.data_ptr() for tensor in tensors}) == len(tensors)  # safetensors stores each once


def test_begins_with_all_tokens_nearly_equally_likely() -> None:
    """Embeddings of variance 1 after scaling; logits of about variance 1."""
    torch.manual_seed(0)
    network = Transformer(
        Config(source_vocab=500, target_vocab=500, shared_vocab=True, dim=64, num_heads=4, hidden=128)
    )
    assert network.source_embedding.weight.std().item() == pytest.approx(1 / 8, rel=0.02)
    source_N, source, target_M, target = batch([9, 7], [8, 6])
    logits = network.eval()(source_N, source, target_M, target)
    loss = F.cross_entropy(logits, torch.randint(500, (14,)))
    assert loss.item() == pytest.approx(math.log(500) + 0.5, abs=0.6)


def test_dropout_only_while_training() -> None:
    for settings in ({"dropout": 0.5}, {"dropout": 0.0, "attention_dropout": 0.5}):
        network = build(**settings)
        given = batch([3, 5], [4, 2])
        assert torch.equal(network(*given), network(*given))
        network.train()
        assert not torch.equal(network(*given), network(*given))


def test_every_parameter_gets_a_gradient() -> None:
    for kind in KINDS:
        network = build(**kind).train()
        network(*batch([3, 5, 1], [4, 2, 7])).square().sum().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_mistakes_are_one_sentence() -> None:
    with pytest.raises(CanonError, match=r"system\.dim must be a multiple of system\.num_heads, got 16 and 3"):
        build(num_heads=3)
    with pytest.raises(CanonError, match=r"shared_vocab needs system\.source_vocab equal to system\.target_vocab"):
        build(shared_vocab=True)
    with pytest.raises(CanonError, match=r"system\.dim must be even, got 15"):
        build(dim=15, num_heads=3)
    with pytest.raises(CanonError, match=r"system\.window must be a positive whole number"):
        build(sparse="banded")
    network = build(positions="learned", max_positions=4)
    with pytest.raises(CanonError, match=r"A sequence of 5 tokens is longer than the 4 positions"):
        network(*batch([5], [2]))


def test_learns_to_reverse() -> None:
    """Short training on reversed digits; then greedy decoding says them backwards."""
    torch.manual_seed(0)
    network = Transformer(
        Config(
            source_vocab=14, target_vocab=14, shared_vocab=True, dim=32, num_heads=4, num_layers=1, hidden=64, dropout=0
        )
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.004)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, 500)
    losses = []
    for _ in range(500):
        lengths = torch.randint(2, 6, (48,))
        source, target = Layout(lengths), Layout(lengths + 1)
        words = [torch.randint(4, 14, (int(length),)) for length in lengths]
        given = torch.cat([F.pad(word.flip(0), (1, 0), value=2) for word in words])
        wanted = torch.cat([F.pad(word.flip(0), (0, 1), value=3) for word in words])
        loss = F.cross_entropy(network(torch.cat(words), source, given, target), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    # Over five seeds and three instruction sets the last twenty are 0.02 to 0.04 on average.
    assert losses[0] > 2 and sum(losses[-20:]) / 20 < 0.2
    network.eval()
    words = [torch.tensor([4, 9, 12, 5]), torch.tensor([7, 8]), torch.tensor([13, 6, 10])]
    source = Layout(torch.tensor([4, 2, 3]))
    state = network.init_state(network.encode(torch.cat(words), source), 6)
    token, said = torch.full((3,), 2), []
    for _ in range(6):
        logits, state = network.step(token, state)
        token = logits.argmax(-1)
        said.append(token)
    for word, row in zip(words, torch.stack(said, 1).tolist(), strict=True):
        assert row[: row.index(3)] == word.flip(0).tolist()
