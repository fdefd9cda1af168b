"""The recurrent language model: published sizes, torch's layers by hand, carried state, a short training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.errors import CanonError
from canon.nn import count_parameters
from canon.nn.states import State
from canon.systems.sequence.rnn_lm import RNNLM, Config

KINDS = ["rnn", "gru", "lstm"]


def made(kind: str = "lstm", **changes: object) -> RNNLM:
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "dim": 6, "hidden": 7, "num_layers": 2, "init_scale": 0.4}
    return RNNLM(Config(**{**sizes, "kind": kind, **changes}))


@pytest.mark.parametrize(("hidden", "published"), [(650, 20e6), (1500, 66e6)], ids=["medium", "large"])
def test_published_sizes(hidden: int, published: float) -> None:
    """With 10,000 words: 20 M and 66 M parameters, as Merity et al. 2016 (arXiv:1609.07843) count them in table 2."""
    with torch.device("meta"):
        network = RNNLM(Config(vocab_size=10_000, dim=hidden, hidden=hidden))
    cells = 2 * (8 * hidden * hidden + 8 * hidden)
    assert count_parameters(network) == 2 * 10_000 * hidden + 10_000 + cells
    assert count_parameters(network) == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_by_torchs_layers(kind: str) -> None:
    network = made(kind).double()
    token_BT = torch.randint(11, (3, 5))
    theirs = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](6, 7, 2, batch_first=True).double()
    theirs.load_state_dict(network.recurrence.network.state_dict())
    ours_BTV, _ = network(token_BT, None)
    hidden_BTH = theirs(network.embedding.weight[token_BT])[0]
    theirs_BTV = hidden_BTH @ network.output.weight.T + network.output.bias
    torch.testing.assert_close(ours_BTV, theirs_BTV)
    target = torch.randint(11, (15,))
    F.cross_entropy(ours_BTV.flatten(0, 1), target).backward()
    F.cross_entropy(theirs_BTV.flatten(0, 1), target).backward()
    for own, other in zip(network.recurrence.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)


@pytest.mark.parametrize("kind", KINDS)
def test_windows_and_steps_equal_one_long_forward(kind: str) -> None:
    """State carried over windows of unequal length, and token by token."""
    network = made(kind)
    token_BT = torch.randint(11, (3, 9))
    whole_BTV, last = network(token_BT, None)
    state: State | None = None
    windows = []
    for window_BT in token_BT.split([4, 1, 4], dim=1):
        logits_BTV, state = network(window_BT, state)
        windows.append(logits_BTV)
    torch.testing.assert_close(torch.cat(windows, dim=1), whole_BTV, rtol=1e-5, atol=1e-5)
    state = network.init_state(3, "cpu")
    for t in range(9):
        logits_BV, state = network.step(token_BT[:, t], state)
        torch.testing.assert_close(logits_BV, whole_BTV[:, t], rtol=1e-5, atol=1e-5)
    for name, tensor in last.items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-5, atol=1e-5)


def test_gradients_reach_back_through_steps() -> None:
    """∂L/∂h_t of a late loss is read from stepped states, and is that of finite differences."""
    network = made("rnn", num_layers=1).double()
    token_BT = torch.randint(11, (1, 6))
    state, states = network.init_state(1), []
    for t in range(6):
        logits_BV, state = network.step(token_BT[:, t], state)
        state["hidden"].retain_grad()
        states.append(state)
    logits_BV.logsumexp(1).sum().backward()

    def late(hidden: Tensor) -> float:
        carried = {"hidden": hidden}
        for t in range(3, 6):
            logits_BV, carried = network.step(token_BT[:, t], carried)
        return logits_BV.logsumexp(1).sum().item()

    before = states[2]["hidden"].detach()
    for unit in range(7):
        nudge = torch.zeros_like(before)
        nudge[0, 0, unit] = 1e-6
        slope = (late(before + nudge) - late(before - nudge)) / 2e-6
        assert states[2]["hidden"].grad[0, 0, unit].item() == pytest.approx(slope, abs=1e-8)


def test_detached_state_truncates() -> None:
    """With the state cut off, the first window's tokens get no gradient from the second window's loss."""
    network = made(vocab_size=4, tie=False)
    _, state = network(torch.tensor([[1, 1]]), None)
    for cut in (True, False):
        network.zero_grad()
        carried = {name: tensor.detach() if cut else tensor for name, tensor in state.items()}
        network(torch.tensor([[2, 3]]), carried)[0].square().sum().backward()
        assert bool(network.embedding.weight.grad[1].any()) != cut


def test_tied_weights() -> None:
    network = made(dim=7, tie=True)
    assert network.output.weight is network.embedding.weight
    assert count_parameters(made(dim=7)) - count_parameters(network) == 11 * 7
    with pytest.raises(CanonError, match=r"system\.tie needs system\.dim equal to system\.hidden, got 6 and 7"):
        made(tie=True)


def test_begins_uniform() -> None:
    values = torch.cat([p.detach().flatten() for p in made(init_scale=0.05, hidden=50).parameters()])
    assert values.abs().max() <= 0.05
    assert values.std().item() == pytest.approx(0.05 / 3**0.5, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_learns_what_only_memory_tells(kind: str) -> None:
    """The token two places back comes again: chance is log 4; a network with a state gets near 0."""
    network = made(kind, vocab_size=4, dim=12, hidden=24, num_layers=1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(0)
    stream_BT = torch.randint(4, (16, 10), generator=generator)
    for t in range(2, 10):
        stream_BT[:, t] = (stream_BT[:, t - 2] + 1) % 4
    for _ in range(120):
        logits_BTV, _ = network(stream_BT[:, :-1], None)
        loss = F.cross_entropy(logits_BTV[:, 1:].flatten(0, 1), stream_BT[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
