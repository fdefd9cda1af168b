"""Spelling of words, and the characters' network against its definition written out in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from canon.nn.characters import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_WORD,
    PADDING,
    CharacterCNN,
    Highway,
    spell,
    spell_mark,
)

FILTERS = ((1, 3), (2, 4), (4, 5))


def spelled_by_hand(word: str, length: int) -> list[int]:
    row = [258, *word.encode()[: length - 2], 259]
    return row + [260] * (length - len(row))


@pytest.mark.parametrize("length", [50, 6])
def test_spelling_byte_by_byte(length: int) -> None:
    """Against the rule applied to one word at a time: Latin, Chinese, empty, and longer than there is room for."""
    words = ["the", "猫咪", "", "naïve", "a" * 80, "x" * 48, "🙂"]
    table = spell(words, length)
    assert table.dtype == np.int16
    assert table.tolist() == [spelled_by_hand(word, length) for word in words]


def test_no_words_and_marks() -> None:
    assert spell([]).shape == (0, 50)
    assert spell_mark(BEGIN_SENTENCE, 5).tolist() == [BEGIN_WORD, BEGIN_SENTENCE, END_WORD, PADDING, PADDING]


def test_half_a_character_is_left_out() -> None:
    assert spell(["a\ud800b"], 6).tolist() == [spelled_by_hand("ab", 6)]


def by_definition(network: CharacterCNN, characters: np.ndarray, activation: str) -> np.ndarray:
    """Word by word, filter by filter, place by place, over all places of the word's row."""
    tensors = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    bend = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[activation]
    values = []
    for row in characters:
        embedded_CE = tensors["embedding.weight"][row]
        features = []
        for index, convolution in enumerate(network.convolutions):
            weight_FEW, bias_F = (tensors[f"convolutions.{index}.{part}"] for part in ("weight", "bias"))
            width = convolution.kernel_size[0]
            for weight_EW, bias in zip(weight_FEW, bias_F, strict=True):
                places = range(len(row) - width + 1)
                features.append(max((embedded_CE[t : t + width].T * weight_EW).sum() + bias for t in places))
        x = bend(np.array(features))
        for index in range(len(network.highways)):
            weight, bias = (tensors[f"highways.{index}.both.{part}"] for part in ("weight", "bias"))
            size = len(x)
            gate = 1 / (1 + np.exp(-(weight[:size] @ x + bias[:size])))
            x = gate * np.maximum(weight[size:] @ x + bias[size:], 0) + (1 - gate) * x
        values.append(tensors["projection.weight"] @ x + tensors["projection.bias"])
    return np.array(values)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("num_highway", [0, 2])
@pytest.mark.parametrize("words", [["a", "cat"], ["猫", "internationalisation", "b" * 44], ["c" * 60, "d"]])
def test_network_by_definition(activation: str, num_highway: int, words: list[str]) -> None:
    """Also where the paddings after the longest word are left out, and where a word fills all its places."""
    torch.manual_seed(0)
    network = CharacterCNN(6, FILTERS, num_highway, 7, activation).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    characters = spell(words)
    ours = network(torch.from_numpy(characters)).detach().numpy()
    np.testing.assert_allclose(ours, by_definition(network, characters, activation), rtol=1e-10, atol=1e-12)


def test_places_left_out_change_nothing() -> None:
    """A word beside a short one and beside one that fills all places: the same vector, and the same gradients."""
    torch.manual_seed(0)
    network = CharacterCNN(6, FILTERS, 1, 7).double()
    gradients = []
    for other in ("a", "b" * 48):
        network.zero_grad()
        vector = network(torch.from_numpy(spell(["word", other])))[0]
        vector.square().sum().backward()
        gradients.append([vector.detach(), *(parameter.grad.clone() for parameter in network.parameters())])
    for short, long in zip(*gradients, strict=True):
        torch.testing.assert_close(short, long)


def test_highway_begins_as_nearly_its_input() -> None:
    """With the gate's bias at −2, a share of σ(−2) = 0.12 is transformed on average."""
    torch.manual_seed(0)
    layer = Highway(400)
    x = 0.1 * torch.randn(50, 400)
    gate = torch.sigmoid(layer.both(x)[:, :400])
    assert gate.mean().item() == pytest.approx(1 / (1 + np.e**2), abs=0.01)
    assert (layer(x) - x).norm() < 0.3 * x.norm()


def test_first_weights_are_as_published() -> None:
    """Characters within ± 1, rectified filters within ± 0.05, others with a variance of 1 / fan-in."""
    torch.manual_seed(0)
    rectified, bent = CharacterCNN(16, ((5, 256),), 1, 64), CharacterCNN(16, ((5, 256),), 1, 64, "tanh")
    assert 0.99 < rectified.embedding.weight.abs().max() <= 1
    assert 0.049 < rectified.convolutions[0].weight.abs().max() <= 0.05
    assert bent.convolutions[0].weight.std().item() == pytest.approx((5 * 16) ** -0.5, rel=0.05)
    assert rectified.projection.weight.std().item() == pytest.approx(256**-0.5, rel=0.05)
