"""Counts against formulas and published numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.nn.counting import count_parameters, summarize


def lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )


def test_lenet_has_the_published_61706_parameters_and_416520_multiply_adds() -> None:
    summary = summarize(lenet(), torch.zeros(1, 1, 28, 28))
    assert count_parameters(lenet()) == summary.parameters == 61_706
    by_hand = 28 * 28 * 25 * 6 + 10 * 10 * 25 * 6 * 16 + 400 * 120 + 120 * 84 + 84 * 10
    assert summary.multiply_adds == by_hand == 416_520
    assert summary.rows[0] == ("0", "Conv2d", (1, 6, 28, 28), 1 * 6 * 5**2 + 6, 28 * 28 * 25 * 6)
    assert summary.rows[6] == ("6", "Flatten", (1, 400), 0, 0)


B, T, D, H = 2, 7, 8, 5
LAYERS = {
    "linear": (nn.Linear(D, H), (B, D), D * H + H, B * D * H),
    "conv1d": (nn.Conv1d(4, 6, 3, padding=1), (B, 4, T), 4 * 6 * 3 + 6, B * T * 4 * 6 * 3),
    "conv2d groups": (nn.Conv2d(4, 6, 3, groups=2), (B, 4, 5, 5), 2 * 6 * 9 + 6, B * 9 * 2 * 6 * 9),
    "conv3d": (nn.Conv3d(2, 3, 2), (B, 2, 3, 3, 3), 2 * 3 * 8 + 3, B * 8 * 2 * 3 * 8),
    "transposed": (nn.ConvTranspose2d(3, 4, 3), (B, 3, 5, 5), 3 * 4 * 9 + 4, B * 25 * 3 * 4 * 9),
    "batch norm": (nn.BatchNorm2d(3), (B, 3, 4, 4), 6, 0),
    "rnn": (nn.RNN(D, H), (T, B, D), H * D + H * H + 2 * H, T * B * (H * D + H * H)),
    "gru": (nn.GRU(D, H), (T, B, D), 3 * (H * D + H * H + 2 * H), T * B * 3 * (H * D + H * H)),
    "lstm": (nn.LSTM(D, H), (T, B, D), 4 * (H * D + H * H + 2 * H), T * B * 4 * (H * D + H * H)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_equals_its_formula(name: str) -> None:
    layer, shape, parameters, multiply_adds = LAYERS[name]
    summary = summarize(layer, torch.zeros(shape))
    assert (summary.parameters, summary.multiply_adds) == (parameters, multiply_adds)
    out = layer(torch.zeros(shape))
    assert summary.rows[0].output_shape == tuple((out[0] if isinstance(out, tuple) else out).shape)


class Encoder(nn.Module):
    """BERT's skeleton: V·H for words, and per layer 4H² of attention and 8H² of feed-forward weights."""

    def __init__(self, V: int, H: int, L: int) -> None:
        super().__init__()
        self.words = nn.Embedding(V, H)
        self.start = nn.Parameter(torch.zeros(H))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(H, 4, 4 * H, batch_first=True) for _ in range(L))
        self.head = nn.Linear(H, V, bias=False)
        self.head.weight = self.words.weight  # tied

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.start
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_an_encoder_is_vh_plus_12lh2_and_tied_weights_count_once() -> None:
    V, H, L, S = 1000, 64, 3, 16
    encoder = Encoder(V, H, L)
    summary = summarize(encoder, torch.zeros(2, S, dtype=torch.long))
    small = L * (4 * H + 5 * H + 4 * H) + H  # biases 4H + 5H, two norms 4H; the start vector
    assert summary.parameters == count_parameters(encoder) == V * H + L * 12 * H**2 + small
    assert summary.multiply_adds == 2 * (S * V * H + L * (S * 12 * H**2 + 2 * S**2 * H))
    assert sum(row.parameters for row in summary.rows) == summary.parameters
    assert sum(row.multiply_adds for row in summary.rows) == summary.multiply_adds
    assert ("", "Encoder", None, H, 0) in summary.rows  # what no layer owns


def test_attention_written_as_a_function_is_counted_between_layers() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(self.query(x), x, x)

    rows = summarize(Attention(), torch.zeros(2, 10, 8)).rows
    assert [row.multiply_adds for row in rows] == [2 * 10 * 64, 2 * 2 * 10 * 10 * 8]
    assert rows[1].kind == "between layers"


def test_nothing_is_left_changed() -> None:
    """Modes, numbers, hooks and random state are as before; a layer run twice counts twice."""
    shared = nn.Linear(4, 4)
    net = nn.Sequential(shared, nn.BatchNorm1d(4).eval(), nn.Dropout(0.5), shared)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    generator = torch.get_rng_state()
    summary = summarize(net, torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))
    assert summary.multiply_adds == 2 * 3 * 16 and summary.parameters == 20 + 8
    assert [layer.training for layer in net] == [True, False, True, True]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(value.device.type == "cpu" for value in net.state_dict().values())
    assert not shared._forward_hooks and torch.equal(generator, torch.get_rng_state())


def test_frozen_parameters_are_left_out_of_the_trainable_count() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    net[0].requires_grad_(False)
    assert (count_parameters(net), count_parameters(net, trainable_only=True)) == (26, 10)
