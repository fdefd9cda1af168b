"""Contrastive losses against brute-force loops; gradients numerically."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from canon.errors import CanonError
from canon.objectives.contrastive import cpc, info_nce, nce, nt_xent


def data(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def cosine(a: Tensor, b: Tensor) -> float:
    return (a @ b / (a.norm() * b.norm())).item()


@pytest.mark.parametrize("use_cosine", [True, False])
def test_info_nce_equals_a_loop(use_cosine: bool) -> None:
    query, key, positive = data(4, 3), data(7, 3, seed=1), torch.tensor([6, 0, 3, 3])
    losses = info_nce(query, key, positive, temperature=0.3, cosine=use_cosine)
    score = cosine if use_cosine else lambda a, b: (a @ b).item()
    for b in range(4):
        weights = [math.exp(score(query[b], k) / 0.3) for k in key]
        assert losses[b].item() == pytest.approx(-math.log(weights[positive[b]] / sum(weights)))
    first = info_nce(query, key)
    assert torch.equal(first, info_nce(query, key, torch.arange(4)))
    assert torch.autograd.gradcheck(lambda q, k: info_nce(q, k, positive, 0.3, use_cosine), (query, key))


def test_info_nce_is_log_n_when_nothing_is_known() -> None:
    assert info_nce(torch.ones(2, 3), torch.ones(8, 3)).tolist() == pytest.approx([math.log(8)] * 2)


def test_nt_xent_equals_a_loop() -> None:
    first, second = data(5, 3), data(5, 3, seed=1)
    losses = nt_xent(first, second, temperature=0.2)
    views = torch.cat([first, second]).detach()
    for i in range(10):
        j = (i + 5) % 10
        others = sum(math.exp(cosine(views[i], views[k]) / 0.2) for k in range(10) if k != i)
        assert losses[i].item() == pytest.approx(-math.log(math.exp(cosine(views[i], views[j]) / 0.2) / others))
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, 0.2), (first, second))


def test_nce_equals_a_loop() -> None:
    score, noise = data(4), data(4, 3, seed=1)
    log_q, log_q_noise = data(4, seed=2).detach() - 1, data(4, 3, seed=3).detach() - 1
    losses = nce(score, noise, log_q, log_q_noise)
    for b in range(4):
        p, kq = math.exp(score[b].item()), 3 * math.exp(log_q[b])
        expected = -math.log(p / (p + kq))
        for k in range(3):
            p, kq = math.exp(noise[b, k].item()), 3 * math.exp(log_q_noise[b, k])
            expected -= math.log(kq / (p + kq))
        assert losses[b].item() == pytest.approx(expected)
    assert torch.autograd.gradcheck(lambda s, n: nce(s, n, log_q, log_q_noise), (score, noise))


def test_nce_is_least_at_the_log_probability_of_the_data() -> None:
    """Expected NCE over 4 outcomes, noise weights and all: the gradient in s is 0 at s = log p and not elsewhere."""
    p, q = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64), torch.full((4,), 0.25, dtype=torch.float64)

    def gradient(start: Tensor) -> Tensor:
        s = start.clone().requires_grad_()
        x, noise = torch.cartesian_prod(torch.arange(4), torch.arange(4)).T
        losses = nce(s[x], s[noise][:, None], q.log()[x], q.log()[noise][:, None])
        (p[x] * q[noise] * losses).sum().backward()
        return s.grad

    torch.testing.assert_close(gradient(p.log()), torch.zeros(4, dtype=torch.float64), atol=1e-12, rtol=0)
    assert gradient(q.log()).abs().max() > 0.01


def test_cpc_equals_a_loop() -> None:
    B, T, K = 3, 5, 2
    context, latent, weight = data(B, T, 2), data(B, T, 4, seed=1), data(K, 4, 2, seed=2)
    losses = cpc(context, latent, weight)
    expected = []
    for k in range(1, K + 1):
        for t in range(T - k):
            for b in range(B):
                scores = [(latent[n, t + k] @ weight[k - 1] @ context[b, t]).item() for n in range(B)]
                expected.append(-math.log(math.exp(scores[b]) / sum(map(math.exp, scores))))
    assert losses.tolist() == pytest.approx(expected)
    assert torch.autograd.gradcheck(cpc, (context, latent, weight))


def test_bad_input_is_one_sentence() -> None:
    x = torch.ones(3, 2)
    with pytest.raises(CanonError, match="temperature must be above 0"):
        info_nce(x, x, temperature=0)
    with pytest.raises(CanonError, match="3 queries"):
        info_nce(x, x[:2])
    with pytest.raises(CanonError, match="one shape"):
        nt_xent(x, x[:2])
    with pytest.raises(CanonError, match="NCE takes"):
        nce(torch.ones(3), torch.ones(2, 5), torch.ones(3), torch.ones(2, 5))
    with pytest.raises(CanonError, match="steps ahead"):
        cpc(torch.ones(2, 3, 4), torch.ones(2, 3, 4), torch.ones(3, 4, 4))
