"""A compiled encoder and decoder against the modules in all their forms, the compiled choice of tokens against torch's,
and threads that stand aside."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from canon.kernels.cpu import threads
from canon.nn import choosing
from canon.nn.attention import compiled as module
from canon.nn.decoding import beam, begin, greedy, sample
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from canon.systems.pretrained import bert, gpt3, roberta, unilm
from canon.systems.sequence.transformer import Transformer
from tests.systems import test_transformer

pytest.importorskip("numba")

SIZES: dict[str, Any] = {
    "source_vocab": 11,
    "target_vocab": 45,
    "dim": 48,
    "num_heads": 3,
    "num_layers": 2,
    "hidden": 70,
}
KINDS: list[dict[str, Any]] = [
    {},
    {"norm": "pre", "activation": "gelu"},
    {"activation": "gelu-tanh", "tie": False},
    {"norm": "pre", "dim": 40, "num_heads": 5, "sparse": "alternating", "window": 2},  # heads of 8: less than a vector
    {"dim": 80, "num_heads": 2, "hidden": 64, "positions": "learned", "max_positions": 12},  # 40: two vectors and more
    {"source_vocab": 45, "shared_vocab": True, "sparse": "banded", "window": 3},
]


def build(**changes: Any) -> Transformer:
    return test_transformer.build(**{**SIZES, **changes})


def sources(lengths: list[int]) -> tuple[Tensor, Layout]:
    layout = Layout(torch.tensor(lengths))
    return torch.randint(11, (layout.total,), generator=torch.Generator().manual_seed(1)), layout


def logits_of(network: Transformer, lengths: list[int], steps: int = 7) -> Tensor:
    """[T, B, V] for tokens that do not depend on what comes out."""
    state = network.init_state(network.encode(*sources(lengths)), steps)
    tokens_TB = torch.randint(45, (steps, len(lengths)), generator=torch.Generator().manual_seed(2))
    values = []
    for token_B in tokens_TB:
        logits_BV, state = network.step(token_B, state)
        values.append(logits_BV)
    return torch.stack(values)


def is_compiled(network: Transformer) -> bool:
    return begin(network, *sources([3, 2]), max_length=7).own_threads


@torch.no_grad()
@pytest.mark.parametrize("lengths", [[4], [1], [0], [0, 0], [5, 0, 2, 4, 4], [3, 1, 9, 2, 11, 1, 7]], ids=str)
@pytest.mark.parametrize("part", [1, 4, 256])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_encoder_equals_the_modules(
    kind: dict[str, Any], part: int, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever sequences go together."""
    network, before = build(**kind), torch.get_num_threads()
    wanted = network.encode(*sources(lengths))
    monkeypatch.setattr(module, "_PART", part)
    torch.set_num_threads(2)
    try:
        with frozen(network):
            encoded = network.encode(*sources(lengths))
    finally:
        torch.set_num_threads(before)
    assert encoded["memory"].shape == wanted["memory"].shape and torch.equal(
        encoded["memory_mask"], wanted["memory_mask"]
    )
    seen_BS1 = wanted["memory_mask"][:, :, None]
    torch.testing.assert_close(encoded["memory"] * seen_BS1, wanted["memory"] * seen_BS1, rtol=1e-5, atol=1e-5)


def test_learning_takes_the_modules() -> None:
    """Where gradients are wanted, and where dropout is."""
    network = build(dropout=0.5)
    with frozen(network):
        memory = network.encode(*sources([3, 2]))["memory"]
    assert memory.requires_grad
    with torch.no_grad(), frozen(network):
        assert torch.equal(network.encode(*sources([3, 2]))["memory"], network.encode(*sources([3, 2]))["memory"])
        network.train()
        network.dropout.p = 0.0  # that of embeddings: the blocks have their own
        assert not torch.equal(network.encode(*sources([3, 2]))["memory"], network.encode(*sources([3, 2]))["memory"])


@torch.no_grad()
@pytest.mark.parametrize("lengths", [[4], [3, 1], [5, 2, 4, 4], [2, 0, 7, 1, 3], [3] * 9], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_equals_the_modules(kind: dict[str, Any], lengths: list[int]) -> None:
    network = build(**kind)
    assert not is_compiled(network)
    wanted = logits_of(network, lengths)
    with frozen(network):
        assert is_compiled(network)
        actual = logits_of(network, lengths)
    torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("count", [2, 3])
def test_rows_do_not_depend_on_threads(count: int) -> None:
    network, before = build(), torch.get_num_threads()
    values = []
    try:
        for number in (1, count):
            torch.set_num_threads(number)
            with torch.no_grad(), frozen(network), threads.own_threads():
                state = network.init_state({"memory": torch.ones(13, 4, 48), "memory_mask": torch.ones(13, 4) > 0}, 2)
                values.append(network.step(torch.arange(13), state)[0])
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(*values, rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_a_compiled_state_goes_on_outside() -> None:
    """Weights are then read again at every step."""
    network = build()
    with frozen(network):
        wanted = logits_of(network, [3, 2], 2)
        state = network.init_state(network.encode(*sources([3, 2])), 2)
    tokens_TB = torch.randint(45, (2, 2), generator=torch.Generator().manual_seed(2))
    actual, state = network.step(tokens_TB[0], state)
    torch.testing.assert_close(actual, wanted[0], rtol=0, atol=0)
    network._target.weight.data.zero_()
    assert not network.step(tokens_TB[1], state)[0].any()


BERTS: dict[str, Any] = {"bert": bert.Bert, "roberta": roberta.Roberta, "unilm": unilm.UniLM, "gpt3": gpt3.GPT3}


@torch.no_grad()
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh"])
@pytest.mark.parametrize("name", BERTS)
def test_states_of_texts_equal_the_modules(name: str, activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer of networks that see all, what came before, a band of it, or a prefix; long texts and an empty one,
    by one thread and by three."""
    monkeypatch.setattr(module, "_WORTH", 1)
    torch.manual_seed(0)
    config = importlib.import_module(BERTS[name].__module__).Config(
        vocab_size=50, dim=40, num_heads=5, num_layers=3, hidden=50, max_positions=90, activation=activation,
        **({"window": 7} if name == "gpt3" else {}),
    )  # fmt: skip
    network = BERTS[name](config).eval()
    for parameter in network.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
    layout = Layout(torch.tensor([3, 70, 0, 1, 33, 8]))
    token_N = torch.randint(1, 50, (layout.total,))
    wanted = network.encode(token_N, layout)
    prefixed = Layout(layout.lengths, prefix=torch.tensor([2, 30, 0, 1, 5, 8]))
    wanted_ND = network.layers(wanted[0], prefixed, True)
    before = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            monkeypatch.setattr(module, "_PART", 20 * count)
            with frozen(network):
                states = network.encode(token_N, layout)
                found_ND = network.layers(wanted[0], prefixed, True)
            assert len(states) == len(wanted) == 4
            for mine, theirs in zip(states, wanted, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=2e-5)
            if name != "gpt3":  # a band knows no prefix
                torch.testing.assert_close(found_ND, wanted_ND, rtol=1e-4, atol=2e-5)
    finally:
        torch.set_num_threads(before)


def test_searches_find_the_same() -> None:
    """Greedily, by a beam whose hypotheses change places, and drawn; sentences leave as they end."""
    network = build(norm="pre")
    lengths = [4, 1, 6, 2, 3, 5]

    def all_ways() -> list[Tensor]:
        def start() -> Any:
            return begin(network, *sources(lengths), ratio=1, extra=4)

        values = [
            greedy(network.step, start()),
            beam(network.step, start(), 5, n_best=3),
            sample(network.step, start(), generator=torch.Generator().manual_seed(3)),
        ]
        return [part for one in values for part in (one.tokens, one.lengths, one.scores)]

    wanted = all_ways()
    with frozen(network):
        values = all_ways()
        assert is_compiled(network)
    for mine, theirs in zip(values, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "network",
    [build().double(), build(positions="learned").bfloat16()],
    ids=["double", "bfloat16"],
)
def test_other_precisions_take_the_modules(network: Transformer) -> None:
    with frozen(network):
        assert not is_compiled(network)


@torch.no_grad()
@pytest.mark.parametrize("width", [7, 16, 33, 5001])
@pytest.mark.parametrize("count", [1, 5])
def test_best_equals_torch(width: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logits_RV = 5 * torch.randn(67, width, generator=torch.Generator().manual_seed(0))
    logits_RV[3, 1:] = -torch.inf  # but one of each kind
    logits_RV[4] += 1000
    banned = torch.tensor([2, width - 1])
    monkeypatch.setattr(choosing, "_BLOCKS_FROM", 1 << 40)
    wanted = choosing.best(logits_RV, banned, count)
    monkeypatch.setattr(choosing, "_BLOCKS_FROM", 0)
    actual = choosing.best(logits_RV, banned, count)
    assert actual[0].isfinite().any(1).all()
    torch.testing.assert_close(actual[0], wanted[0], rtol=1e-5, atol=1e-5)
    assert (actual[1] == wanted[1])[actual[0].isfinite()].all()
    view_RV = torch.cat((logits_RV, logits_RV), 1)[:, :width]  # rows that are further apart
    with threads.own_threads():
        torch.testing.assert_close(choosing.best(view_RV, banned, count), actual, rtol=0, atol=0)


@torch.no_grad()
def test_best_takes_the_first_of_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_BLOCKS_FROM", 0)
    gain_RC, token_RC = choosing.best(torch.zeros(2, 40), torch.tensor([0, 2]), 3)
    assert token_RC.tolist() == [[1, 3, 4]] * 2
    torch.testing.assert_close(gain_RC, torch.full((2, 3), -torch.tensor(40.0).log().item()))


def test_threads_come_back() -> None:
    """Also where loops overlap, and where one fails."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads.own_threads():
            assert torch.get_num_threads() == 1
            with pytest.raises(ValueError, match="within"), threads.own_threads():
                raise ValueError("within")
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with threads.own_threads(False):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("size", "unit"), [(1, 4), (4, 4), (8, 4), (12, 4), (100, 32), (7, 1)])
def test_shares_are_whole_units(size: int, unit: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        seen: list[int] = []
        starts: list[int] = []
        with threads.own_threads():
            threads.share(lambda first, count: seen.extend(range(first, first + count)), size, unit)
            threads.share(lambda first, _count: starts.append(first), size, unit)
        alone: list[tuple[int, int]] = []
        threads.share(lambda first, count: alone.append((first, count)), size, unit)
    finally:
        torch.set_num_threads(before)
    assert sorted(seen) == list(range(size))
    assert len(starts) == max(1, min(3, size // unit))
    assert all(start % unit == 0 for start in starts)
    assert alone == [(0, size)]  # torch's threads are at work


def test_a_share_that_fails_is_reported() -> None:
    def work(first: int, _count: int) -> None:
        if first:
            raise ValueError("of another thread")

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(ValueError, match="of another thread"), threads.own_threads():
            threads.share(work, 8, 4)
    finally:
        torch.set_num_threads(before)


def test_two_decodings_at_once() -> None:
    """One network in two threads of Python: each finds what it finds alone."""
    network = build()
    batches = ([5, 2, 4, 4, 1, 3, 2, 2], [3] * 9)
    with torch.no_grad(), frozen(network):
        wanted = [logits_of(network, lengths) for lengths in batches]

    def decode(lengths: list[int]) -> Tensor:
        with torch.no_grad(), frozen(network), threads.own_threads():
            return logits_of(network, lengths)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            actual = pool.map(decode, batches)
            for mine, theirs in zip(actual, wanted, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
