"""Losses that pick the right pair among others: InfoNCE, NT-Xent, NCE, CPC.

Papers: NCE Gutmann & Hyvärinen 2010; CPC and InfoNCE van den Oord, Li & Vinyals 2018 (arXiv:1807.03748), equations 3–4
→ `cpc`, `info_nce`; NT-Xent Chen et al. 2020 (2002.05709), equation 1 → `nt_xent`, and of a recipe `NTXent`.
Deviations: CPC's negatives are the other sequences of the batch at the same time. Shapes: B examples, N keys, D
features, K noise samples or future steps, T times, E features of the context.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.errors import CanonError
from canon.objectives._checks import require_positive, require_same_shape
from canon.objectives.settings import NoSettings, Temperature


class NTXent:
    def __init__(self, settings: Temperature) -> None:
        self.settings = settings

    def losses(self, first_BD: Tensor, second_BD: Tensor, rows: tuple[int, int] | None = None) -> Tensor:
        return nt_xent(first_BD, second_BD, self.settings.temperature, rows)


def info_nce(
    query_BD: Tensor, key_ND: Tensor, positive_B: Tensor | None = None, temperature: float = 0.07, cosine: bool = True
) -> Tensor:
    """−log( e^(s(q, k⁺)/τ) / Σ_N e^(s(q, k)/τ) ), s the cosine, or the inner product.

    | input | shape | meaning |
    | --- | --- | --- |
    | query_BD | [B, D] | q |
    | key_ND | [N, D] | every key, positives and negatives (a queue, the batch's other examples) |
    | positive_B | [B] | which key is the positive of q; by default key b for query b |
    | temperature | — | τ |
    | cosine | — | scale q and k to length 1 first |

    Relations: `nt_xent` uses both sides as queries; `cpc` is this over time; log N minus its mean bounds the mutual
    information from below.
    """
    require_positive("temperature", temperature)
    if query_BD.dim() != 2 or key_ND.dim() != 2 or query_BD.shape[1] != key_ND.shape[1]:
        raise CanonError(f"InfoNCE takes [B, D] and [N, D], got {tuple(query_BD.shape)} and {tuple(key_ND.shape)}.")
    if positive_B is None:
        if len(key_ND) < len(query_BD):
            raise CanonError(f"{len(query_BD)} queries need at least as many keys, got {len(key_ND)}.")
        positive_B = torch.arange(len(query_BD), device=query_BD.device)
    if cosine:
        query_BD, key_ND = F.normalize(query_BD, dim=1), F.normalize(key_ND, dim=1)
    return F.cross_entropy(query_BD @ key_ND.T / temperature, positive_B, reduction="none")


def nt_xent(
    first_BD: Tensor, second_BD: Tensor, temperature: float = 0.5, rows: tuple[int, int] | None = None
) -> Tensor:
    """−log( e^(cos(z_i, z_j)/τ) / Σ_{k≠i} e^(cos(z_i, z_k)/τ) ) for each of the 2B views i, j its other view: [2B].

    | input | shape | meaning |
    | --- | --- | --- |
    | first_BD | [B, D] | one view of each example |
    | second_BD | [B, D] | the other view, in the same order |
    | temperature | — | τ |
    | rows | — | the losses of the examples [start, stop) only, against all views: [2·(stop − start)] |

    Relations: `info_nce` with all 2B views as keys and the view itself struck out.
    """
    require_positive("temperature", temperature)
    require_same_shape(first=first_BD, second=second_BD)
    B = len(first_BD)
    z = F.normalize(torch.cat([first_BD, second_BD]), dim=1)  # [2B, D]
    every = torch.arange(2 * B, device=z.device)
    start, stop = rows or (0, B)
    anchors = torch.cat([every[start:stop], every[B + start : B + stop]])  # [A]
    itself = anchors[:, None] == every
    scores = (z[anchors] @ z.T / temperature).masked_fill(itself, -math.inf)  # [A, 2B]
    return F.cross_entropy(scores, (anchors + B) % (2 * B), reduction="none")


def nce(score_B: Tensor, noise_score_BK: Tensor, log_noise_B: Tensor, log_noise_BK: Tensor) -> Tensor:
    """−log σ(s(x) − log K q(x)) − Σ_K log(1 − σ(s(x̃) − log K q(x̃))): is this x from the data or from the noise q?

    | input | shape | meaning |
    | --- | --- | --- |
    | score_B | [B] | s(x), the model's log-density of the data, normalised or not |
    | noise_score_BK | [B, K] | s(x̃) of K noise samples for each |
    | log_noise_B | [B] | log q(x) |
    | log_noise_BK | [B, K] | log q(x̃) |

    Relations: at its optimum s = log p; negative sampling (word2vec) is this without the log K q terms, which gives up
    the density. `info_nce` picks the right one among all instead of judging each.
    """
    require_same_shape(score=score_B, log_noise=log_noise_B)
    require_same_shape(noise_score=noise_score_BK, noise_log_noise=log_noise_BK)
    if noise_score_BK.dim() != 2 or len(noise_score_BK) != len(score_B):
        raise CanonError(
            f"NCE takes noise scores [B, K] for scores [{len(score_B)}], got {tuple(noise_score_BK.shape)}."
        )
    log_K = math.log(noise_score_BK.shape[1])
    return F.softplus(log_noise_B + log_K - score_B) + F.softplus(noise_score_BK - log_noise_BK - log_K).sum(1)


def cpc(context_BTE: Tensor, latent_BTD: Tensor, weight_KDE: Tensor) -> Tensor:
    """InfoNCE with f_k(z, c_t) = z_{t+k}ᵀ W_k c_t for k = 1 … K: a loss per k, t and sequence, [Σ_k (T−k)·B].

    | input | shape | meaning |
    | --- | --- | --- |
    | context_BTE | [B, T, E] | c_t, a summary of the sequence up to t |
    | latent_BTD | [B, T, D] | z_t |
    | weight_KDE | [K, D, E] | W_k, a linear prediction k steps ahead |

    The negatives of z_{t+k} are the other sequences' latents at t+k. Order: k, then t, then sequence.
    Relations: `info_nce` with cosine=False, τ = 1, at every t and k.
    """
    B, T, _ = latent_BTD.shape
    K = len(weight_KDE)
    if context_BTE.shape[:2] != (B, T) or weight_KDE.shape[1:] != (latent_BTD.shape[2], context_BTE.shape[2]):
        raise CanonError(
            f"CPC takes contexts [B, T, E], latents [B, T, D] and weights [K, D, E], got {tuple(context_BTE.shape)}, "
            f"{tuple(latent_BTD.shape)} and {tuple(weight_KDE.shape)}."
        )
    if not 1 <= K < T:
        raise CanonError(f"CPC looks 1 to {T - 1} steps ahead in sequences of {T}, got {K}.")
    losses = []
    for k in range(1, K + 1):
        scores_TBB, own_TB = _ahead(context_BTE[:, : T - k] @ weight_KDE[k - 1].T, latent_BTD, k, (0, B))
        losses.append(F.cross_entropy(scores_TBB.flatten(0, 1), own_TB.flatten(), reduction="none"))
    return torch.cat(losses)


def _ahead(predicted_BTD: Tensor, latent_NTD: Tensor, k: int, rows: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Scores of all sequences' z_{t+k} [T − k, B, N], and which of them is each row's own."""
    scores_TBN = torch.einsum("btd,ntd->tbn", predicted_BTD, latent_NTD[:, k:])
    own_TB = torch.arange(*rows, device=scores_TBN.device).expand(len(scores_TBN), rows[1] - rows[0])
    return scores_TBN, own_TB


class FutureSteps:
    """`cpc` of strands whose z_t and W_k c_t are given side by side, [N, T, 1 + K, D]: a mean over k and t."""

    def __init__(self, settings: NoSettings) -> None:
        self.settings = settings

    def losses(self, steps_NTKD: Tensor, rows: tuple[int, int]) -> Tensor:
        """[B] of the rows [start, stop)."""
        return self._parts(steps_NTKD, rows)[0]

    def judged(self, steps_NTKD: Tensor) -> tuple[Tensor, Tensor]:
        """Losses, and the share of steps whose own z scores best, of all rows."""
        return self._parts(steps_NTKD, (0, len(steps_NTKD)))

    def _parts(self, steps_NTKD: Tensor, rows: tuple[int, int]) -> tuple[Tensor, Tensor]:
        latent_NTD, predicted_NTKD = steps_NTKD[:, :, 0], steps_NTKD[:, :, 1:]
        T, losses, rights = latent_NTD.shape[1], [], []
        for k in range(1, predicted_NTKD.shape[2] + 1):
            some = predicted_NTKD[rows[0] : rows[1], : T - k, k - 1]
            scores_TBN, own_TB = _ahead(some, latent_NTD, k, rows)
            each_TB = F.cross_entropy(scores_TBN.flatten(0, 1), own_TB.flatten(), reduction="none").view(own_TB.shape)
            losses.append(each_TB)
            rights.append((scores_TBN.argmax(2) == own_TB).to(each_TB.dtype))
        return torch.cat(losses).mean(0), torch.cat(rights).mean(0)
