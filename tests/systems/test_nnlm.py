"""The neural probabilistic language model: the paper's equation in numpy, one-hot vectors, windows, short trainings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.data.text.vocabularies import BOS
from canon.nn import count_parameters
from canon.nn.states import State
from canon.systems.words.nnlm import NNLM, Config

V = 11
NAMES = {  # by the paper's letters
    "C": "embedding.weight",
    "H": "hidden.weight",
    "d": "hidden.bias",
    "U": "output.weight",
    "b": "output.bias",
    "W": "direct.weight",
}


def made(**changes: object) -> NNLM:
    torch.manual_seed(0)
    network = NNLM(Config(**{"vocab_size": V, "order": 4, "dim": 3, "hidden": 5, "direct": True, **changes})).double()
    with torch.no_grad():
        for parameter in network.parameters():  # biases too, and far enough from 0 that nothing is hidden
            parameter.normal_(std=0.5)
    return network


def weights(network: NNLM) -> dict[str, np.ndarray]:
    """By the paper's letters; W = 0 where there is none."""
    state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    state.setdefault("direct.weight", np.zeros((V, state["hidden.weight"].shape[1])))
    return {letter: state[name] for letter, name in NAMES.items()}


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_logits_by_the_papers_equation(order: int, direct: bool) -> None:
    """y = b + W x + U tanh(d + H x), x = (C(w_{t−1}), …, C(w_{t−n+1})), word by word in numpy; <bos> before it all."""
    network = made(order=order, direct=direct)
    p, token_BT = weights(network), torch.randint(4, V, (2, 7))
    found_BTV = network(token_BT, None)[0].detach().numpy()
    for row, words in enumerate(token_BT.tolist()):
        seen = [BOS] * (order - 2) + words
        for t in range(7):
            before = seen[t : t + order - 1]  # the last of them is word t, from which t + 1 is predicted
            x = np.concatenate([p["C"][word] for word in reversed(before)])
            y = p["b"] + p["W"] @ x + p["U"] @ np.tanh(p["d"] + p["H"] @ x)
            np.testing.assert_allclose(found_BTV[row, t], y, atol=1e-12)


def test_gradients_by_the_chain_rule() -> None:
    """Of −log softmax(y)_w summed over a text, in numpy: ∂L/∂y = p − e_w, and back through W, U, tanh, H and C."""
    network, order, dim = made(), 4, 3
    p, words = weights(network), torch.randint(4, V, (9,)).tolist()
    logits_BTV, _ = network(torch.tensor([words[:-1]]), None)
    F.cross_entropy(logits_BTV[0], torch.tensor(words[1:]), reduction="sum").backward()
    gradient = {letter: np.zeros_like(matrix) for letter, matrix in p.items()}
    seen = [BOS] * (order - 2) + words
    for t in range(8):
        before = seen[t : t + order - 1][::-1]
        x = np.concatenate([p["C"][word] for word in before])
        a = np.tanh(p["d"] + p["H"] @ x)
        y = p["b"] + p["W"] @ x + p["U"] @ a
        dy = np.exp(y - np.logaddexp.reduce(y))
        dy[words[t + 1]] -= 1
        do = (1 - a * a) * (p["U"].T @ dy)
        dx = p["W"].T @ dy + p["H"].T @ do
        gradient["b"] += dy
        gradient["d"] += do
        gradient["W"] += np.outer(dy, x)
        gradient["U"] += np.outer(dy, a)
        gradient["H"] += np.outer(do, x)
        for place, word in enumerate(before):
            gradient["C"][word] += dx[place * dim : (place + 1) * dim]
    own = dict(network.named_parameters())
    for letter, name in NAMES.items():
        np.testing.assert_allclose(own[name].grad, gradient[letter], atol=1e-12)


def test_an_embedding_is_a_one_hot_vector_times_a_matrix() -> None:
    """x by one_hot(w) C, a product with V − 1 zeros, and the gradient of C through it, against looking rows up."""
    network, token_BS = made(), torch.randint(V, (2, 8))
    C_VD = network.embedding.weight.detach().clone().requires_grad_()
    windows_BTN = torch.stack([token_BS[:, t : t + 3].flip(1) for t in range(6)], dim=1)
    theirs_BTN = (F.one_hot(windows_BTN, V).double() @ C_VD).flatten(2)
    ours_BTN = network.context(token_BS)
    torch.testing.assert_close(ours_BTN, theirs_BTN, rtol=0, atol=0)
    pull_BTN = torch.randn_like(ours_BTN)
    (ours_BTN * pull_BTN).sum().backward()
    (theirs_BTN * pull_BTN).sum().backward()
    torch.testing.assert_close(network.embedding.weight.grad, C_VD.grad)


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("sizes", [[10, 10, 10, 3], [1, 2, 1, 29]], ids=["tens", "shorter than the context"])
def test_windows_and_steps_equal_one_long_forward(order: int, sizes: list[int]) -> None:
    network, token_BT = made(order=order), torch.randint(4, V, (3, 33))
    whole_BTV, last = network(token_BT, None)
    state: State | None = None
    windows: list[Tensor] = []
    for window_BT in token_BT.split(sizes, dim=1):
        logits_BTV, state = network(window_BT, state)
        windows.append(logits_BTV)
    torch.testing.assert_close(torch.cat(windows, dim=1), whole_BTV)
    assert state is not None and torch.equal(state["context"], last["context"])
    assert torch.equal(last["context"], token_BT[:, 33 - (order - 2) :])
    state = network.init_state(3, "cpu")
    for t in range(33):
        logits_BV, state = network.step(token_BT[:, t], state)
        torch.testing.assert_close(logits_BV, whole_BTV[:, t])


def test_sees_n_minus_1_words_and_no_more() -> None:
    """With n = 4 the logits after word t depend on words t − 2, t − 1 and t, not on t − 3 or t + 1."""
    network, token_BT = made(), torch.randint(4, V, (1, 8))
    before_TV = network(token_BT, None)[0][0]
    for place in range(8):
        other_BT = token_BT.clone()
        other_BT[0, place] = (other_BT[0, place] - 3) % 7 + 4
        moved_T = (network(other_BT, None)[0][0] - before_TV).abs().amax(1) > 1e-9
        assert moved_T.tolist() == [place <= t <= place + 2 for t in range(8)]


def test_published_count() -> None:
    """Section 2: |V|(1 + n m + h) + h(1 + (n − 1) m) free parameters with direct connections."""
    for n, m, h in ((5, 30, 100), (6, 100, 60)):
        with torch.device("meta"):
            network = NNLM(Config(vocab_size=16_383, order=n, dim=m, hidden=h, direct=True))
        assert count_parameters(network) == 16_383 * (1 + n * m + h) + h * (1 + (n - 1) * m)


def test_learns_what_three_words_tell() -> None:
    """The word three places back comes again, plus one: chance is log 7; n = 4 gets near 0, n = 3 cannot."""
    stream_BT = torch.randint(4, V, (16, 21), generator=torch.Generator().manual_seed(0))
    for t in range(3, 21):
        stream_BT[:, t] = torch.where(torch.rand(16) < 0.3, stream_BT[:, t], (stream_BT[:, t - 3] - 3) % 7 + 4)
    target_BT = (stream_BT[:, :-3] - 3) % 7 + 4
    losses = {}
    for order in (3, 4):
        torch.manual_seed(0)
        network = NNLM(Config(vocab_size=V, order=order, dim=8, hidden=32))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
        for _ in range(200):
            logits_BTV, _ = network(stream_BT[:, :-1], None)
            loss = F.cross_entropy(logits_BTV[:, 2:].flatten(0, 1), target_BT.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[order] = loss.item()
    assert losses[4] < 0.05 and losses[3] > 0.5


def test_trains_and_generates_by_the_command_line(canon: Callable[..., Any]) -> None:
    """Counting from a file: the likeliest words after "three four" go on counting."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    Path("count.txt").write_text("\n".join(" ".join(words[start:]) for start in range(7)) * 60)
    settings = ("data.tokenizer=split", "data.window=8", "train.steps=150", "train.batch=16", "optimizer.lr=0.02")
    given = [part for setting in settings for part in ("--set", setting)]
    assert canon("train", "nnlm:tiny", "--data", "count.txt", "--out", "run", "--quiet", *given).code == 0
    outcome = canon("generate", "run", "three four", "--length", 4, "--temperature", 0)
    assert outcome.out.split()[:6] == ["three", "four", "five", "six", "seven", "eight"], outcome.err


def test_predicts_a_long_text_window_by_window_in_order(canon: Callable[..., Any]) -> None:
    """A text of more windows than are read at once: where a line of nonsense stands is where the loss is high."""
    lines = ["one two three four five six seven eight nine"] * 700
    Path("count.txt").write_text("\n".join(lines))
    settings = ("--set", "data.tokenizer=split", "--set", "data.window=10", "--set", "train.steps=60")
    outcome = canon("train", "nnlm:tiny", "--data", "count.txt", "--out", "run", *settings)
    assert outcome.code == 0, outcome.err
    lines[600] = "nine nine nine one one one four four four"
    Path("odd.txt").write_text("\n".join(lines))
    losses = [row["loss"] for row in json.loads(canon("predict", "run", "odd.txt", "--json").out)]
    assert len(losses) == 700 and np.argmax(losses) == 600
