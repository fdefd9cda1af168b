"""Classification losses against torch.nn.functional, loops and the worked examples; gradients numerically."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.objectives import classification as c

B, C = 6, 5


@pytest.fixture
def logits() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(B, C, dtype=torch.float64, requires_grad=True)


LABEL = torch.tensor([0, 1, 2, 3, 4, 2])


def distribution() -> Tensor:
    p = torch.rand(B, C, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    p[0, 2:] = 0
    return p / p.sum(1, keepdim=True)


def by_hand(logits: Tensor, p: Tensor) -> list[float]:
    rows = []
    for f, target in zip(logits.tolist(), p.tolist(), strict=True):
        total = sum(math.exp(value) for value in f)
        rows.append(-sum(t * math.log(math.exp(value) / total) for t, value in zip(target, f, strict=True)))
    return rows


def test_zero_one_counts_what_differs() -> None:
    assert c.zero_one(torch.tensor([1, 2, 3]), torch.tensor([1, 0, 3])).tolist() == [0.0, 1.0, 0.0]


def test_binary_equals_torch_and_the_formula(logits: Tensor) -> None:
    logit, label = logits[:, 0], torch.tensor([0, 1, 1, 0, 1, 0])
    q = logit.sigmoid()
    torch.testing.assert_close(c.binary_cross_entropy(logit, label), -(label * q.log() + (1 - label) * (1 - q).log()))
    assert torch.autograd.gradcheck(lambda f: c.binary_cross_entropy(f, label), logit.detach().requires_grad_())
    extreme = torch.tensor([1e4, -1e4], requires_grad=True)
    losses = c.binary_cross_entropy(extreme, torch.tensor([0, 1]))
    losses.sum().backward()
    assert losses.tolist() == [1e4, 1e4] and extreme.grad.tolist() == [1.0, -1.0]


def test_cross_entropy_equals_a_loop_and_torch(logits: Tensor) -> None:
    losses = c.cross_entropy(logits, LABEL)
    torch.testing.assert_close(losses, torch.tensor(by_hand(logits, F.one_hot(LABEL, C)), dtype=torch.float64))
    torch.testing.assert_close(losses.mean(), F.cross_entropy(logits, LABEL))
    assert torch.autograd.gradcheck(lambda f: c.cross_entropy(f, LABEL), logits)


def test_smoothing_is_the_mixed_target(logits: Tensor) -> None:
    p = 0.9 * F.one_hot(LABEL, C) + 0.1 / C
    losses = c.cross_entropy(logits, LABEL, smoothing=0.1)
    torch.testing.assert_close(losses, torch.tensor(by_hand(logits, p), dtype=torch.float64))
    torch.testing.assert_close(losses, c.distribution_cross_entropy(logits, p))
    assert torch.autograd.gradcheck(lambda f: c.cross_entropy(f, LABEL, smoothing=0.1), logits)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_ignored_places_cost_nothing_and_have_no_gradient(logits: Tensor, smoothing: float) -> None:
    label = LABEL.clone()
    label[[1, 4]] = c.IGNORE
    losses = c.cross_entropy(logits, label, smoothing=smoothing)
    losses.sum().backward()
    kept = label != c.IGNORE
    assert losses[~kept].eq(0).all() and logits.grad[~kept].eq(0).all()
    torch.testing.assert_close(losses[kept], c.cross_entropy(logits, LABEL, smoothing=smoothing)[kept])
    torch.testing.assert_close(
        losses.sum() / kept.sum(), F.cross_entropy(logits, label, label_smoothing=smoothing)
    )  # what the loop computes = torch's mean over valid targets


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_sum_is_the_sum_of_the_losses(logits: Tensor, shape: tuple[int, ...]) -> None:
    label = torch.where(LABEL == 3, c.IGNORE, LABEL).view(shape)
    folded = logits.view(*shape, C)
    total = c.cross_entropy(folded, label, smoothing=0.1, reduction="sum")
    torch.testing.assert_close(total, c.cross_entropy(folded, label, smoothing=0.1).sum())


def test_leading_shapes_are_kept(logits: Tensor) -> None:
    folded = c.cross_entropy(logits.view(2, 3, C), LABEL.view(2, 3))
    assert torch.equal(folded, c.cross_entropy(logits, LABEL).view(2, 3))
    assert torch.equal(c.cross_entropy(logits[0], LABEL[0]), c.cross_entropy(logits, LABEL)[0])


@pytest.mark.parametrize(
    ("q", "expected"), [((0.4, 0.3, 0.05, 0.05, 0.2), 0.916), ((0.98, 0.01, 0.0, 0.0, 0.01), 0.020)]
)
def test_worked_example(q: tuple[float, ...], expected: float) -> None:
    p = torch.tensor([[1.0, 0, 0, 0, 0]])
    assert c.distribution_cross_entropy_from_probabilities(torch.tensor([q]), p).item() == pytest.approx(
        expected, abs=5e-4
    )
    assert c.distribution_cross_entropy(torch.tensor([q]).log(), p).item() == pytest.approx(expected, abs=5e-4)
    assert c.cross_entropy(torch.tensor([q]).log(), torch.tensor([0])).item() == pytest.approx(expected, abs=5e-4)


def test_any_distribution_equals_a_loop_from_logits_and_from_probabilities(logits: Tensor) -> None:
    p = distribution()
    expected = torch.tensor(by_hand(logits, p), dtype=torch.float64)
    torch.testing.assert_close(c.distribution_cross_entropy(logits, p), expected)
    torch.testing.assert_close(c.distribution_cross_entropy_from_probabilities(logits.softmax(1), p), expected)
    torch.testing.assert_close(c.distribution_cross_entropy(logits, p), F.cross_entropy(logits, p, reduction="none"))
    both = (logits, p.requires_grad_())
    assert torch.autograd.gradcheck(c.distribution_cross_entropy, both)
    q = logits.detach().softmax(1).requires_grad_()
    assert torch.autograd.gradcheck(c.distribution_cross_entropy_from_probabilities, (q, p))


def test_zero_times_log_zero_is_zero_forward_and_backward() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0]])
    q = torch.tensor([[0.5, 0.5, 0.0]], requires_grad=True)
    f = torch.tensor([[0.0, 0.0, -math.inf]], requires_grad=True)
    for losses, x in (
        (c.distribution_cross_entropy_from_probabilities(q, p), q),
        (c.distribution_cross_entropy(f, p), f),
    ):
        losses.sum().backward()
        assert losses.item() == pytest.approx(math.log(2)) and x.grad.isfinite().all()
    missing = c.distribution_cross_entropy_from_probabilities(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    assert missing.item() == math.inf


def test_bad_input_is_one_sentence(logits: Tensor) -> None:
    with pytest.raises(CanonError, match="got"):
        c.cross_entropy(logits, LABEL[:3])
    with pytest.raises(CanonError, match="smoothing"):
        c.cross_entropy(logits, LABEL, smoothing=1.0)
    with pytest.raises(CanonError, match=r"logit \(6, 1\) and label \(6,\)"):
        c.binary_cross_entropy(logits[:, :1], LABEL)
