"""GAN losses against their closed forms, and their stability at extreme logits."""

from __future__ import annotations

import math

import pytest
import torch

from canon.errors import CanonError
from canon.objectives import adversarial as a


def test_losses_equal_the_logarithms_of_d() -> None:
    torch.manual_seed(0)
    real, fake = (torch.randn(6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    D_real, D_fake = real.sigmoid(), fake.sigmoid()
    torch.testing.assert_close(a.discriminator(real, fake), -D_real.log() - (1 - D_fake).log())
    torch.testing.assert_close(a.minimax_generator(fake), (1 - D_fake).log())
    torch.testing.assert_close(a.non_saturating_generator(fake), -D_fake.log())
    assert torch.autograd.gradcheck(a.discriminator, (real, fake))
    assert torch.autograd.gradcheck(a.minimax_generator, fake)
    assert torch.autograd.gradcheck(a.non_saturating_generator, fake)


def test_at_the_equilibrium_d_is_one_half_and_v_is_minus_log_4() -> None:
    """p_g = p_data on three outcomes: gradient descent on the discriminator ends at D* = ½, V = −log 4."""
    p = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    logit = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    for _ in range(500):
        (grad,) = torch.autograd.grad((p * a.discriminator(logit, logit)).sum(), logit)
        with torch.no_grad():
            logit -= 2.0 * grad
    torch.testing.assert_close(logit.sigmoid(), torch.full((3,), 0.5, dtype=torch.float64))
    assert -(p * a.discriminator(logit, logit)).sum().item() == pytest.approx(-math.log(4))


def test_the_optimal_discriminator_is_the_density_ratio() -> None:
    """D* = p/(p + g): there the expected loss has no gradient."""
    p, g = torch.tensor([0.2, 0.8], dtype=torch.float64), torch.tensor([0.6, 0.4], dtype=torch.float64)
    logit = (p / g).log().requires_grad_()
    real, fake = torch.cartesian_prod(torch.arange(2), torch.arange(2)).T
    (p[real] * g[fake] * a.discriminator(logit[real], logit[fake])).sum().backward()
    torch.testing.assert_close(logit.grad, torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)


def test_when_d_wins_only_the_non_saturating_loss_has_a_gradient() -> None:
    for loss, slope in ((a.minimax_generator, 0.0), (a.non_saturating_generator, -1.0)):
        fake = torch.tensor([-200.0], requires_grad=True)
        loss(fake).backward()
        assert fake.grad.item() == slope
    extreme = torch.tensor([1e4, -1e4])
    for losses in (
        a.discriminator(extreme, extreme),
        a.minimax_generator(extreme),
        a.non_saturating_generator(extreme),
    ):
        assert losses.isfinite().all()


def test_batches_of_different_sizes_are_refused() -> None:
    with pytest.raises(CanonError, match="one shape"):
        a.discriminator(torch.zeros(3), torch.zeros(4))
