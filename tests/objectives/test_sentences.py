"""Losses of sentence vectors against sentence-transformers' and loops over the formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.objectives.sentences import CoSENT, CosineError, MultipleNegatives, SimCSE, SoftmaxNLI, Triplet
from canon.objectives.settings import Contrast, NoSettings, OtherTexts, TripletMargin

N, D = 6, 5
ALL = (0, N)


def vectors(C: int, seed: int = 0) -> Tensor:
    return torch.randn(N, C, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def different(C: int) -> Tensor:
    return torch.arange(N * C).view(N, C)


SCORES = torch.tensor([0.0, 1.0, 0.4, 0.4, 0.8, 0.2], dtype=torch.float64)


class Given(nn.Module):
    """Gives the vectors that it is given."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["vectors"]}


def theirs(name: str, embedded: Tensor, labels: Tensor | None, **settings: Any) -> float:
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    loss = getattr(losses, name)(Given(), **settings)
    return loss.compute_loss_from_embeddings(list(embedded.unbind(1)), labels).item()


@pytest.mark.parametrize("C", [2, 3, 4])
def test_mnrl_is_that_of_sentence_transformers(C: int) -> None:
    ours = MultipleNegatives(OtherTexts()).total(vectors(C), {"keys": different(C)}, ALL) / N
    assert ours.item() == pytest.approx(theirs("MultipleNegativesRankingLoss", vectors(C), None), rel=1e-6)


def test_symmetric_mnrl_is_that_of_sentence_transformers() -> None:
    ours = MultipleNegatives(OtherTexts(symmetric=True)).total(vectors(2), {"keys": different(2)}, ALL) / N
    expected = theirs("MultipleNegativesSymmetricRankingLoss", vectors(2), None)
    assert ours.item() == pytest.approx(expected, rel=1e-6)


def test_mnrl_is_its_formula_with_equal_texts_left_out() -> None:
    """A loop over equation 5 of SimCSE with α, without candidates whose text the anchor or its positive has."""
    x, keys = F.normalize(vectors(4), dim=2), different(4)
    keys[2, 1] = keys[0, 1]  # two rows with one positive
    keys[3, 2] = keys[1, 0]  # a negative that is another row's anchor
    alpha, tau = 3.0, 0.1
    ours = MultipleNegatives(OtherTexts(temperature=tau, hard_weight=alpha)).losses(x, keys, ALL)
    for i in range(N):
        total = 0.0
        for j in range(N):
            for c in range(1, 4):
                right = i == j and c == 1
                if not right and keys[j, c] in (keys[i, 0], keys[i, 1]):
                    continue
                weight = alpha if c > 1 and i == j else 1.0
                total += weight * math.exp((x[i, 0] @ x[j, c]).item() / tau)
        expected = -math.log(math.exp((x[i, 0] @ x[i, 1]).item() / tau) / total)
        assert ours[i].item() == pytest.approx(expected, rel=1e-12)


def test_simcse_is_the_authors_formula() -> None:
    """Their code: cross-entropy of cos(z1_i, z2_j)/τ with the diagonal as labels; equal texts are left out here."""
    z = vectors(2)
    cosine = F.cosine_similarity(z[:, 0].unsqueeze(1), z[:, 1].unsqueeze(0), dim=-1) / 0.05
    ours = SimCSE(Contrast()).total(z, {"keys": different(1)}, ALL)
    assert ours.item() == pytest.approx(F.cross_entropy(cosine, torch.arange(N), reduction="sum").item(), rel=1e-12)
    keys = different(1)
    keys[4] = keys[1]
    cosine[4, 1] = cosine[1, 4] = -math.inf
    ours = SimCSE(Contrast()).total(z, {"keys": keys}, ALL)
    assert ours.item() == pytest.approx(F.cross_entropy(cosine, torch.arange(N), reduction="sum").item(), rel=1e-12)


def test_losses_of_some_rows_are_those_of_all() -> None:
    loss, x = MultipleNegatives(OtherTexts()), vectors(3)
    whole = loss.losses(x, different(3), ALL)
    assert torch.allclose(torch.cat([loss.losses(x, different(3), part) for part in ((0, 2), (2, 6))]), whole)


def test_cosent_is_that_of_sentence_transformers() -> None:
    ours = CoSENT(Contrast()).total(vectors(2), {"target": SCORES}, ALL) / N
    assert ours.item() == pytest.approx(theirs("CoSENTLoss", vectors(2), SCORES), rel=1e-6)


def test_cosent_is_its_formula() -> None:
    s = F.cosine_similarity(vectors(2)[:, 0], vectors(2)[:, 1]).tolist()
    total = sum(math.exp((s[j] - s[i]) / 0.05) for i in range(N) for j in range(N) if SCORES[i] > SCORES[j])
    ours = CoSENT(Contrast()).total(vectors(2), {"target": SCORES}, (0, 3)) / 3
    assert ours.item() == pytest.approx(math.log(1 + total), rel=1e-12)


def test_cosine_is_that_of_sentence_transformers() -> None:
    ours = CosineError(NoSettings()).total(vectors(2), {"target": SCORES}, ALL) / N
    assert ours.item() == pytest.approx(theirs("CosineSimilarityLoss", vectors(2), SCORES), rel=1e-6)


@pytest.mark.parametrize("margin", [1.0, 5.0])
def test_triplet_is_that_of_torch_and_of_sentence_transformers(margin: float) -> None:
    x = vectors(3)
    ours = Triplet(TripletMargin(margin=margin)).total(x, {}, ALL) / N
    assert ours.item() == pytest.approx(F.triplet_margin_loss(*x.unbind(1), margin=margin, eps=0.0).item(), rel=1e-12)
    assert ours.item() == pytest.approx(theirs("TripletLoss", x, None, triplet_margin=margin), rel=1e-4)


def test_softmax_nli_is_cross_entropy() -> None:
    logits, target = vectors(1), torch.tensor([0, 1, 2, 3, 4, 0])
    ours = SoftmaxNLI(NoSettings()).total(logits, {"target": target}, (1, 4))
    assert ours.item() == pytest.approx(F.cross_entropy(logits[1:4, 0], target[1:4], reduction="sum").item())


@pytest.mark.parametrize(
    ("loss", "C"),
    [
        (MultipleNegatives(OtherTexts(symmetric=True, hard_weight=2.0)), 3),
        (CoSENT(Contrast(temperature=0.5)), 2),
        (CosineError(NoSettings()), 2),
        (Triplet(TripletMargin()), 3),
    ],
)
def test_gradients_are_numeric_ones(loss: Any, C: int) -> None:
    facts = {"keys": different(C), "target": SCORES}
    assert torch.autograd.gradcheck(lambda x: loss.total(x, facts, (1, 5)), (vectors(C).requires_grad_(),))
