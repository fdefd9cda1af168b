"""Positions against their closed forms; T5's buckets against transformers."""

from __future__ import annotations

import math

import pytest
import torch

from canon.errors import CanonError
from canon.nn.positions import BucketedBias, Learned, Sinusoidal, bucket, relative_shift, sinusoids
from tests.parity.huggingface import transformers_module


def test_sinusoids_equal_their_closed_form() -> None:
    result = sinusoids(torch.arange(50), 12)
    for p in (0, 1, 7, 49):
        for i in range(6):
            phase = p / 10_000 ** (2 * i / 12)
            assert result[p, 2 * i].item() == pytest.approx(math.sin(phase), abs=1e-6)
            assert result[p, 2 * i + 1].item() == pytest.approx(math.cos(phase), abs=1e-6)


@pytest.mark.parametrize("offset", [0, 1, 5, 100])
def test_products_depend_on_the_offset_alone(offset: int) -> None:
    """PE(p)·PE(p + k) = Σ_i cos(k ω_i) at any p, also at a hundred thousand."""
    places = torch.tensor([0, 3, 1000, 100_000])
    products = (sinusoids(places, 64).double() * sinusoids(places + offset, 64).double()).sum(-1)
    wanted = sum(math.cos(offset / 10_000 ** (2 * i / 64)) for i in range(32))
    assert products.tolist() == pytest.approx([wanted] * 4, abs=1e-4)


def test_the_table_grows_and_is_no_weight() -> None:
    positions = Sinusoidal(8)
    assert not positions.state_dict() and not list(positions.parameters())
    places = torch.tensor([0, 2, 2, 1])
    assert torch.equal(positions(places, 3), sinusoids(places, 8))
    assert torch.equal(positions(torch.tensor([999]), 1000), sinusoids(torch.tensor([999]), 8))
    assert len(positions.table(5, torch.device("cpu"))) >= 1000
    assert positions(places.to("meta"), 3).is_meta
    with pytest.raises(CanonError, match=r"system\.dim must be even, got 7"):
        Sinusoidal(7)


def test_learned_positions_end() -> None:
    positions = Learned(4, 6)
    places = torch.tensor([3, 0, 3])
    assert torch.equal(positions(places, 4), positions.weight[[3, 0, 3]])
    gradient = torch.autograd.grad(positions(places, 4).sum(), positions.weight)[0]
    assert gradient[:, 0].tolist() == [1, 0, 0, 2]
    with pytest.raises(CanonError, match=r"A sequence of 5 tokens is longer than the 4 positions that were learned"):
        positions(torch.tensor([4]), 5)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (3, 3), (2, 5), (1, 6)])
def test_relative_shift_equals_a_loop(queries: int, keys: int) -> None:
    """Column c holds distance K − 1 − c; key j of query i is (K − Q + i) − j away."""
    scores = torch.randn(2, 3, queries, keys, dtype=torch.float64, requires_grad=True)
    result = relative_shift(scores)
    assert result.shape == scores.shape
    for i in range(queries):
        place = keys - queries + i
        for j in range(place + 1):
            assert torch.equal(result[..., i, j], scores[..., i, keys - 1 - (place - j)])
    assert torch.autograd.gradcheck(relative_shift, scores)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (16, 50), (8, 20)])
def test_buckets_equal_t5(bidirectional: bool, num_buckets: int, max_distance: int) -> None:
    t5 = transformers_module("transformers.models.t5.modeling_t5")
    offset = torch.arange(-300, 301)
    theirs = t5.T5Attention._relative_position_bucket(offset, bidirectional, num_buckets, max_distance)
    assert torch.equal(bucket(offset, bidirectional, num_buckets, max_distance), theirs)


def test_buckets_by_hand() -> None:
    """32 buckets for the past alone: 0 … 15 each their own, then wider, the last from 128 on."""
    distance = torch.tensor([0, 1, 15, 16, 17, 127, 128, 10_000])
    assert bucket(-distance, bidirectional=False).tolist() == [0, 1, 15, 16, 16, 31, 31, 31]
    assert bucket(distance, bidirectional=False).tolist() == [0] * 8  # the future is at distance 0
    both = bucket(torch.tensor([-1, 0, 1, 7, 8, -8, 500]), bidirectional=True)
    assert both.tolist() == [1, 0, 17, 23, 24, 8, 31]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_bucketed_bias_equals_a_loop_and_depends_on_the_offset_alone(bidirectional: bool) -> None:
    bias = BucketedBias(3, bidirectional, num_buckets=8, max_distance=10)
    torch.nn.init.normal_(bias.weight)
    result = bias(4, 6)
    assert result.shape == (1, 3, 4, 6)
    for i in range(4):
        for j in range(6):
            place = bucket(torch.tensor(j - (2 + i)), bidirectional, 8, 10)
            assert torch.equal(result[0, :, i, j], bias.weight[place])
    assert torch.equal(result[..., 1:, 1:], result[..., :-1, :-1])
    torch.testing.assert_close(bias(1, 6), result[:, :, -1:])  # the last query alone, as in decoding
