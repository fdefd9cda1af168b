"""Left-to-right Transformers token by token: against transformers' generate, their own forward pass, and by hand."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from canon.errors import CanonError
from canon.nn.decoding import beam, begin_text, go_on, greedy
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from canon.nn.states import COMPILED
from canon.systems.pretrained import gpt, gpt2, gpt3
from canon.systems.pretrained.causal import CausalTransformer
from tests.nn.prompts import begin_texts
from tests.parity.gpt import gpt_of
from tests.systems.pretrained_checks import logits_of

SIZES: dict[str, Any] = {"vocab_size": 61, "dim": 24, "num_heads": 3, "num_layers": 3, "hidden": 40}
VOCAB = SIZES["vocab_size"]


NETWORKS: dict[str, Any] = {
    "gpt": (gpt.GPT, gpt.Config),
    "gpt2": (gpt2.GPT2, gpt2.Config),
    "gpt3": (gpt3.GPT3, gpt3.Config),
}


def configure(kind: str, **changes: Any) -> Any:
    return NETWORKS[kind][1](**{**SIZES, "max_positions": 32, **changes})


@pytest.fixture(params=["modules", "kernels"])
def decoded_by(request: pytest.FixtureRequest) -> Any:
    """In what a network decodes: as it is, or frozen, where compiled kernels do it on a CPU."""
    if request.param == "modules":
        return lambda network: nullcontext()
    pytest.importorskip("numba")
    return frozen


def build(kind: str = "gpt2", **changes: Any) -> CausalTransformer:
    """A random network, far enough from uniform that ties do not decide."""
    torch.manual_seed(0)
    network: CausalTransformer = NETWORKS[kind][0](configure(kind, **changes))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        network.embedding.position.weight.mul_(4)  # so that tokens do not just repeat themselves
    return network.eval()


def prompt(batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1, VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))


def continued(network: CausalTransformer, prompt_BT: Tensor, length: int) -> Tensor:
    """Greedy continuation by the whole forward pass again and again."""
    text_BT = prompt_BT
    for _ in range(length):
        layout = Layout(torch.full((len(text_BT),), text_BT.shape[1]))
        logits_BTV = logits_of(network, text_BT.flatten(), layout).view(*text_BT.shape, -1)
        text_BT = torch.cat((text_BT, logits_BTV[:, -1].argmax(-1, keepdim=True)), 1)
    return text_BT[:, prompt_BT.shape[1] :]


@pytest.mark.parametrize("kind, hidden", [("gpt2", 40), ("gpt", 96)])
def test_the_same_tokens_as_transformers_generate(kind: str, hidden: int, decoded_by: Any) -> None:
    """Greedy, from the same random weights: every token, for prompts of equal and of unequal length."""
    network = build(kind, hidden=hidden)
    theirs = gpt_of(network, configure(kind, hidden=hidden))
    options = {"max_new_tokens": 20, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    prompt_BT = prompt(4, 6)
    wanted = theirs.generate(prompt_BT, attention_mask=torch.ones_like(prompt_BT), **options)[:, 6:]
    with torch.no_grad(), decoded_by(network):
        start = begin_text(network, prompt_BT, 20, (), -1)
        assert start.own_threads == (decoded_by is frozen)
        actual = greedy(network.step, start).tokens[:, 0]
    assert torch.equal(actual, wanted) and len(actual.unique()) > 5
    if kind == "gpt":
        return  # transformers' OpenAIGPT counts positions from the padding on
    rows = [row[6 - size :] for row, size in zip(prompt_BT, (1, 6, 3, 2), strict=True)]
    mask = torch.stack([torch.arange(6) >= 6 - len(row) for row in rows]).long()
    wanted = theirs.generate(prompt_BT * mask, attention_mask=mask, **options)[:, 6:]
    with torch.no_grad(), decoded_by(network):
        actual = greedy(network.step, begin_texts(network, rows, 20, (), -1)).tokens[:, 0]
    assert torch.equal(actual, wanted)


@pytest.mark.parametrize("kind", ["gpt", "gpt2", "gpt3"])
@pytest.mark.parametrize("length", [1, 7])
@torch.no_grad()
def test_reading_and_steps_are_the_forward_pass(kind: str, length: int, decoded_by: Any) -> None:
    """Logits of every step against those of the whole text at once; GPT-3's bands hide what they hide there."""
    network = build(kind, **({"window": 4} if kind == "gpt3" else {}))
    text_BT = prompt(3, 20)
    layout = Layout(torch.full((3,), 20))
    wanted = logits_of(network, text_BT.flatten(), layout).view(3, 20, -1)
    with decoded_by(network):
        state = network.read(text_BT[:, : length - 1], 20)
        for place in range(length - 1, 20):
            logits_BV, state = network.step(text_BT[:, place], state)
            torch.testing.assert_close(logits_BV, wanted[:, place], rtol=1e-4, atol=1e-4)
    assert state["cache"].shape[-2] == min(length - 1 + 20, 32) and int(state["position"]) == 20
    assert (COMPILED in state) == (decoded_by is frozen)


@pytest.mark.parametrize("kind", ["gpt", "gpt3"])
def test_unequal_prompts_are_each_as_if_alone(kind: str, decoded_by: Any) -> None:
    """Tokens and log-probabilities of a batch, with and without rows that leave it, against one text at a time."""
    network = build(kind, **({"window": 4} if kind == "gpt3" else {}))
    rows = [prompt(1, size, size)[0] for size in (5, 1, 9, 2)]
    with torch.no_grad(), decoded_by(network):
        together = greedy(network.step, begin_texts(network, rows, 12, (), 0))
    for index, row in enumerate(rows):
        alone = greedy(network.step, begin_text(network, row[None], 12, (), 0))
        assert together[index, 0] == alone[0, 0]
        torch.testing.assert_close(together.log_probabilities[index], alone.log_probabilities[0], rtol=1e-4, atol=1e-4)
    with torch.no_grad(), decoded_by(network):
        together = beam(network.step, begin_texts(network, rows, 6, (), -1), 3, 0.0, 2)
    for index, row in enumerate(rows):
        alone = beam(network.step, begin_text(network, row[None], 6, (), -1), 3, 0.0, 2)
        assert [together[index, rank] for rank in (0, 1)] == [alone[0, rank] for rank in (0, 1)]


def test_beyond_its_positions_the_newer_half_is_read_again(decoded_by: Any) -> None:
    """By hand: whenever 8 positions are full, the last 4 tokens begin a new text."""
    network = build("gpt2", max_positions=8)
    prompt_BT = prompt(2, 5)
    with torch.no_grad(), decoded_by(network):
        actual = greedy(network.step, begin_text(network, prompt_BT, 20, (), -1)).tokens[:, 0]
    seen_BT, wanted = prompt_BT, []
    for _ in range(20):
        if seen_BT.shape[1] > 8:
            seen_BT = seen_BT[:, -5:]  # four that were read again, and the one after them
        wanted.append(continued(network, seen_BT, 1))
        seen_BT = torch.cat((seen_BT, wanted[-1]), 1)
    assert torch.equal(actual, torch.cat(wanted, 1))
    # Rows of unequal length slide together, and forget no token of the newer half.
    rows = [prompt_BT[0], prompt_BT[1, 3:]]
    with torch.no_grad(), decoded_by(network):
        uneven = greedy(network.step, begin_texts(network, rows, 20, (), -1)).tokens[:, 0]
    assert torch.equal(uneven[0], actual[0])
    with pytest.raises(CanonError, match="A sequence has 9 tokens, the network has 8 positions"):
        begin_text(network, prompt(1, 10), 3)


def test_tokens_come_as_they_are_asked_for() -> None:
    """`go_on` step by step gives what `greedy` gives at once, with the sum of its log-probabilities."""
    network = build()
    prompt_BT = prompt(3, 4)
    wanted = greedy(network.step, begin_text(network, prompt_BT, 9, (), -1))
    stream = go_on(network.step, begin_text(network, prompt_BT, 9, (), -1))
    tokens, gains = zip(*(next(stream) for _ in range(9)), strict=True)
    assert torch.equal(torch.cat(tokens).T, wanted.tokens[:, 0])
    torch.testing.assert_close(torch.cat(gains).sum(0), wanted.log_probabilities[:, 0])
