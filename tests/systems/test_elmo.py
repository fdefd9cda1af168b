"""ELMo: published sizes, its two losses written out, carried state, tokens and words alike, use as frozen layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from canon.data.batching.loader import Examples
from canon.data.config import DataConfig
from canon.errors import CanonError
from canon.nn import count_parameters
from canon.nn.characters import BEGIN_SENTENCE, END_SENTENCE, spell_mark
from canon.nn.mix import ScalarMix
from canon.nn.ragged import Layout
from canon.registry import find
from canon.systems.pretrained.elmo import Config, ELMo
from canon.tasks.base import Turn
from canon.tasks.bidirectional import BidirectionalModelling
from tests.objectives.choices import choice
from tests.reading import read_as

VOCABULARY = ["<pad>", "<unk>", "<bos>", "<eos>", "the", "cat", "sat", "on", "mat", "猫", "antidisestablishment", "."]
SIZES = {"char_dim": 3, "filters": ((1, 4), (2, 5)), "num_highway": 1, "projection": 6, "hidden": 10, "dropout": 0.0}


def made(**changes: Any) -> ELMo:
    torch.manual_seed(0)
    network = ELMo(Config(**{"vocab_size": len(VOCABULARY), **SIZES, **changes}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    network.take_vocabulary(VOCABULARY)
    return network.double()


@pytest.mark.parametrize(("preset", "millions"), [("small", 13.6), ("medium", 28.0), ("original", 93.6)])
def test_published_sizes(preset: str, millions: float) -> None:
    """Parameters without the softmax, in millions, as the authors' page of models tells them."""
    with torch.device("meta"):
        network = ELMo(find("elmo")[0].configure(preset, {}))
    counted = count_parameters(network) - count_parameters(network.softmax)
    assert round(counted / 1e6, 1) == millions


def one_direction(
    network: ELMo, words: torch.Tensor, direction: int, state: Any = None
) -> tuple[list[torch.Tensor], Any]:
    """The layers of one direction over vectors [T, P] in the order in which it reads them, step by step."""
    layers, after = [words], []
    for number, layer in enumerate(network.layers):
        hidden = words.new_zeros(layer.projection) if state is None else state[number][0]
        cell = words.new_zeros(layer.hidden) if state is None else state[number][1]
        outputs = []
        for x in layers[-1]:
            sums = (
                layer.input_weight[direction] @ x + layer.recurrent_weight[direction] @ hidden + layer.bias[direction]
            )
            let_in, forget, new, let_out = sums.split(layer.hidden)
            cell = torch.clamp(forget.sigmoid() * cell + let_in.sigmoid() * new.tanh(), -3, 3)
            hidden = torch.clamp(layer.projection_weight[direction] @ (let_out.sigmoid() * cell.tanh()), -3, 3)
            outputs.append(hidden)
        layers.append(torch.stack(outputs) + (layers[-1] if number else 0))
        after.append((hidden, cell))
    return layers, after


def vectors(network: ELMo, tokens: list[int], direction: int) -> torch.Tensor:
    """[T, P] of tokens as a direction reads them: line ends are <S> forward and </S> backward."""
    mark = spell_mark(BEGIN_SENTENCE if direction == 0 else END_SENTENCE)
    rows = [torch.from_numpy(mark) if token in (2, 3) else network.characters[token] for token in tokens]
    return torch.cat([network.words(row[None]) for row in rows])


def test_losses_by_hand_over_carried_windows() -> None:
    """Two windows of two streams: the forward direction goes on, the backward one begins again at a window's end."""
    network = made()
    stream_BT = torch.tensor([[4, 5, 6, 3, 7, 4, 8, 11, 3], [9, 10, 3, 4, 5, 1, 6, 7, 8]])
    window, state, expected_state = 4, None, [None, None]
    for first in (0, 4):
        token_BT, next_BT = stream_BT[:, first : first + window], stream_BT[:, first + 1 : first + window + 1]
        actual, state = network(token_BT, next_BT, Layout(torch.tensor([4, 4])), state)
        losses_2BT = actual.losses.view(2, 2, 4)
        for row in range(2):
            layers, expected_state[row] = one_direction(
                network, vectors(network, token_BT[row].tolist(), 0), 0, expected_state[row]
            )
            logits = network.softmax(layers[-1])
            torch.testing.assert_close(losses_2BT[0, row], F.cross_entropy(logits, next_BT[row], reduction="none"))
            layers, _ = one_direction(network, vectors(network, next_BT[row].flip(0).tolist(), 1), 1)
            logits = network.softmax(layers[-1])
            expected = F.cross_entropy(logits, token_BT[row].flip(0), reduction="none").flip(0)
            torch.testing.assert_close(losses_2BT[1, row], expected)
        torch.testing.assert_close(actual.total, actual.losses.sum())
    for row in range(2):
        for number in range(2):
            torch.testing.assert_close(state["hidden"][row, number], expected_state[row][number][0])
            torch.testing.assert_close(state["cell"][row, number], expected_state[row][number][1])


def test_a_short_window_is_read_to_its_end_only() -> None:
    """A row of two tokens in a window of four gives the losses that it gives alone."""
    network = made()
    token_BT = torch.tensor([[4, 5, 6, 7], [9, 10, 0, 0]])
    next_BT = torch.tensor([[5, 6, 7, 8], [10, 11, -1, -1]])
    result, state = network(token_BT, next_BT, Layout(torch.tensor([4, 2])))
    alone, alone_state = network(token_BT[1:], next_BT[1:], Layout(torch.tensor([2])))
    torch.testing.assert_close(result.losses.view(2, 6)[:, 4:], alone.losses.view(2, 2))
    torch.testing.assert_close({name: x[1:] for name, x in state.items()}, alone_state)


def test_gradients_of_the_loss_by_autograd_alone() -> None:
    """Against the same loss with every step in torch's own operations, for all parameters."""
    network = made()
    tokens = [4, 5, 3, 6, 5, 7]
    token_BT = torch.tensor([tokens])
    network(token_BT[:, :-1], token_BT[:, 1:], Layout(torch.tensor([5])))[0].total.backward()
    ours = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}
    network.zero_grad()
    forward = one_direction(network, vectors(network, tokens[:-1], 0), 0)[0][-1]
    backward = one_direction(network, vectors(network, tokens[:0:-1], 1), 1)[0][-1]
    loss = F.cross_entropy(network.softmax(forward), token_BT[0, 1:], reduction="sum")
    loss = loss + F.cross_entropy(network.softmax(backward), token_BT[0, :-1].flip(0), reduction="sum")
    loss.backward()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, msg=name)


def test_convolution_sees_each_word_once() -> None:
    network = made()
    seen = []
    network.words.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    token_BT = torch.tensor([[4, 5, 4, 4, 5, 6, 4], [6, 6, 5, 4, 4, 4, 5]])
    network(token_BT[:, :-1], token_BT[:, 1:], Layout(torch.tensor([6, 6])))
    network.encode(token_BT.flatten(), Layout(torch.tensor([7, 7])))
    assert [len(rows) for rows in seen] == [3, 3]


def test_layers_of_tokens_and_of_words_by_hand() -> None:
    """`encode` of framed tokens, `encode_words` of the same words and the equations step by step; unequal lengths."""
    network = made().eval()
    sentences = [["the", "cat", "sat"], ["猫"], ["antidisestablishment", "the", ".", "the"]]
    rows = [[2, *(VOCABULARY.index(word) for word in sentence), 3] for sentence in sentences]
    layout = Layout(torch.tensor([len(row) for row in rows]))
    layers = network.encode(torch.tensor([token for row in rows for token in row]), layout)
    assert [layer.shape for layer in layers] == [(14, network.dim)] * 3
    by_words = network.encode_words(sentences)
    start = 0
    for row, reported in zip(rows, by_words, strict=True):
        forward, _ = one_direction(network, vectors(network, row, 0), 0)
        backward, _ = one_direction(network, vectors(network, row[::-1], 1), 1)
        for number in range(3):
            expected = torch.cat((forward[number], backward[number].flip(0)), 1)
            torch.testing.assert_close(layers[number][start : start + len(row)], expected)
            torch.testing.assert_close(reported[number], expected[1:-1])
        start += len(row)
    means = network.pool(layers[-1], layout)
    torch.testing.assert_close(means[1], layers[-1][5:8].mean(0))


def test_unknown_words_have_characters() -> None:
    """Words of no vocabulary differ from each other; as tokens they are all <unk>; another vocabulary knows them."""
    network = made().eval()
    (reported,) = network.encode_words([["dog", "dig"]])
    assert (reported[0, 0] - reported[0, 1]).abs().max() > 1e-3
    before = network.encode(torch.tensor([2, 1, 3]), Layout(torch.tensor([3])))
    network.take_vocabulary([*VOCABULARY[:4], "dog", "dig"])
    layers = network.encode(torch.tensor([2, 4, 5, 3]), Layout(torch.tensor([4])))
    torch.testing.assert_close(torch.stack([layer[1:-1] for layer in layers]), reported)
    assert (before[0][1] - layers[0][1]).abs().max() > 1e-3


def test_a_smaller_softmax_predicts_the_others_as_unknown() -> None:
    network = made(softmax_words=6)
    assert network.softmax.weight.shape == (6, 6)
    token_BT = torch.tensor([[4, 9, 5, 10]])
    actual, _ = network(token_BT[:, :-1], token_BT[:, 1:], Layout(torch.tensor([3])))
    renamed = [1, 5, 1]
    hidden = one_direction(network, vectors(network, [4, 9, 5], 0), 0)[0][-1]
    expected = F.cross_entropy(network.softmax(hidden), torch.tensor(renamed), reduction="none")
    torch.testing.assert_close(actual.losses[:3], expected)


def test_dropout_works_in_training_only() -> None:
    network = made(dropout=0.5)
    token_BT = torch.tensor([[4, 5, 6, 7, 8]])
    layout = Layout(torch.tensor([4]))
    torch.manual_seed(0)
    training = [network(token_BT[:, :-1], token_BT[:, 1:], layout)[0].total.item() for _ in range(2)]
    network.eval()
    using = [network(token_BT[:, :-1], token_BT[:, 1:], layout)[0].total.item() for _ in range(2)]
    assert training[0] != training[1] and using[0] == using[1]


def test_mix_over_the_frozen_network_learns() -> None:
    """Only the mix and a classifier on top are trained: which of two words stood before a third."""
    torch.manual_seed(0)
    network = made().float().eval().requires_grad_(False)
    mix, head = ScalarMix(3), torch.nn.Linear(network.dim, 2)
    label_B = torch.randint(2, (64,))
    rows = torch.stack([torch.tensor([2, 4, 5 + int(label), 7, 3]) for label in label_B])  # the cat on | the sat on
    layout = Layout(torch.full((64,), 5))
    with torch.no_grad():
        layers = network.encode(rows.flatten(), layout)
    middle = [layer.view(64, 5, -1)[:, 3] for layer in layers]  # "on", whose own vector tells nothing
    optimizer = torch.optim.Adam([*mix.parameters(), *head.parameters()], lr=0.05)
    losses = []
    for _ in range(1000):
        loss = F.cross_entropy(head(mix(middle)), label_B)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.5 and losses[-1] < 0.1
    assert mix.shares[0] < 1 / 3  # the words themselves say nothing here, the contextual layers do
    assert all(parameter.grad is None for parameter in network.parameters())


def test_task_scores_by_its_windows(tmp_path: Path) -> None:
    """Sums over windows to loss and perplexities against one pass of the network over the same text."""
    lines = ["the cat sat on the mat .", "the mat sat on the cat .", "on the mat the cat sat ."] * 8
    (tmp_path / "text.txt").write_text("\n".join(lines))
    config = DataConfig(source=str(tmp_path / "text.txt"), tokenizer="word", window=5, valid=0.0, test=0.0)
    data = read_as(config, "windows")
    vocabulary = data.schema.tokenizers["text"].vocabulary
    network = made(vocab_size=len(vocabulary))
    network.take_vocabulary(vocabulary)
    task = BidirectionalModelling(choice("bidirectional", "bidirectional-language-model"), network.config, data.schema)
    columns = data.splits["train"]
    examples = Examples(columns, data.schema, torch.device("cpu"))
    turn = Turn()
    parts = [task.run(network, batch, turn) for batch in examples.streams(1)]
    scores = task.score({name: torch.cat([part[name] for part in parts]).numpy() for name in parts[0]}, columns)
    text = torch.from_numpy(np.asarray(columns["input"].tokens).astype(np.int64))[None]
    whole, _ = network(text[:, :-1], text[:, 1:], Layout(torch.tensor([text.shape[1] - 1])))
    forward = whole.losses.view(2, -1)[0].mean()
    assert scores["forward_perplexity"] == pytest.approx(forward.exp().item(), rel=1e-4)
    assert scores["loss"] == pytest.approx(
        np.log(scores["forward_perplexity"] * scores["backward_perplexity"]) / 2, rel=1e-5
    )
    assert tuple(scores) == task.names() and task.example()[2].total == 16


def test_learns_a_text_from_both_sides() -> None:
    """A cycle of words with a random first one: each direction gets near a loss of 0 within a hundred steps."""
    torch.manual_seed(0)
    network = ELMo(Config(**{"vocab_size": len(VOCABULARY), **SIZES, "projection": 12, "hidden": 24}))
    network.take_vocabulary(VOCABULARY)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    layout = Layout(torch.full((16,), 8))
    for _ in range(100):
        start_B1 = torch.randint(8, (16, 1))
        stream_BT = 4 + (start_B1 + torch.arange(9)) % 8
        result, _ = network(stream_BT[:, :-1], stream_BT[:, 1:], layout)
        optimizer.zero_grad()
        (result.total / 256).backward()
        optimizer.step()
    forward, backward = result.losses.view(2, -1).mean(1).tolist()
    assert forward < 0.1 and backward < 0.1


def test_half_precision_is_near() -> None:
    """Under autocast the convolution is in bfloat16 and the recurrence is not: losses and mixed layers to 2 %."""
    network = made().float().eval()
    token_BT = torch.tensor([[4, 5, 6, 7, 8, 3, 9, 10]])
    layout = Layout(torch.tensor([7]))
    values = []
    for halved in (False, True):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=halved):
            result, _ = network(token_BT[:, :-1], token_BT[:, 1:], layout)
            values.append((result.losses.float(), ScalarMix(3)(network.encode(token_BT[0, 1:], layout)).float()))
    torch.testing.assert_close(values[0], values[1], rtol=0.02, atol=0.05)


def test_filters_that_do_not_fit_are_reported() -> None:
    with pytest.raises(CanonError, match=r"system\.filters needs widths from 1 to system\.max_characters = 5, got 6"):
        made(filters=((6, 4),), max_characters=5)
