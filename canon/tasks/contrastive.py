"""Two views of one example among those of all others: nothing is predicted, features are learned.

NT-Xent (canon.objectives.contrastive) over the global batch: 2N views are anchors, each against the 2N − 1 others.
Labels, where there are some, only judge the features: a linear classifier on half of a split is tested on the other.
Alignment and uniformity: Wang and Isola 2020 (arXiv:2005.10242), equations 1 and 2, of z scaled to length 1.
Shapes: B images, N images of the global batch, F features, D projected features, K classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.data.batching.augment import ImageDraws, augmenter
from canon.data.batching.loader import Batch, shares
from canon.data.schema import Columns, Schema
from canon.data.targets import Nothing
from canon.errors import CanonError
from canon.objectives.contrastive import NTXent
from canon.objectives.record import ObjectiveChoice
from canon.tasks.base import Compares, NetworkTask, Outputs, Turn

_TOGETHER = 256  # examples of a split that are compared with each other; more negatives make a higher loss
_RIDGE = 0.1  # λ of the probe, for features of variance 1 and a mean over the examples


class Contrastive(NetworkTask, Compares):
    monitor = "probe_accuracy"
    divisible = False

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self.objective: NTXent = choice.create()
        augment = augmenter(config.augment, schema, "system.augment")
        if augment is None:
            raise CanonError("system.augment is empty, but views that are all equal teach nothing; name some changes.")
        self._augment = augment
        self._labelled = not isinstance(schema.target, Nothing)
        if not self._labelled:
            self.monitor = "loss"

    def example(self) -> tuple[Any, ...]:
        return (torch.zeros(2, *self.schema.shape),)  # two views

    def count(self, batch: Batch) -> int:
        """Anchors: both views of every image."""
        return 2 * len(batch["input"])

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        """The sum over this process's anchors, each against the views of the global batch."""
        return self.compared(self.embed(network, batch, turn), {}, turn)

    def embed(self, network: nn.Module, batch: Batch, turn: Turn) -> Tensor:
        """z of both views of each image, [B, 2, D]."""
        _, z_2BD = network(self.views(batch["input"], turn))
        return torch.stack(z_2BD.chunk(2), dim=1)

    def facts(self, batch: Batch) -> dict[str, Tensor]:
        return {}

    def compare(self, vectors_N: Tensor, facts: dict[str, Tensor], rows: tuple[int, int], turn: Turn) -> Tensor:
        with torch.autocast(vectors_N.device.type, enabled=False):  # cosines are divided by a small τ
            first_ND, second_ND = vectors_N.float().unbind(1)
            return self.objective.losses(first_ND, second_ND, rows=rows).sum()

    def views(self, images_BCHW: Tensor, turn: Turn) -> Tensor:
        """[2B, C, H, W]: all images changed once, then all changed in another way."""
        draws = ImageDraws(images_BCHW.device, turn.generator, turn.rows(len(images_BCHW)))
        views = torch.cat([self._augment(images_BCHW, draws), self._augment(images_BCHW, draws)])
        if images_BCHW.is_contiguous(memory_format=torch.channels_last):
            views = views.contiguous(memory_format=torch.channels_last)
        return views

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        """Features of the images as they are, and z of two views of each, made with the same noise in every run."""
        images_BCHW = batch["input"]
        B = len(images_BCHW)
        features, z = network(torch.cat([images_BCHW, self.views(images_BCHW, turn)]))
        return {"features": features[:B], "first": z[B : 2 * B], "second": z[2 * B :]}

    def losses(self, outputs: Outputs) -> Tensor:
        """The mean of both anchors of each example, against at most 255 others of its split."""
        groups = _groups(len(outputs["first"]))
        first, second = (torch.from_numpy(outputs[name]) for name in ("first", "second"))
        both = [self.objective.losses(first[a:b], second[a:b]) for a, b in groups]
        return torch.cat([losses.reshape(2, -1).mean(0) for losses in both])

    def names(self) -> tuple[str, ...]:
        return ("loss", *(("probe_accuracy",) if self._labelled else ()), "alignment", "uniformity")

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        scores = {"loss": self.losses(outputs).double().mean().item()}
        if self._labelled:
            target_B = torch.from_numpy(np.asarray(columns["target"]))
            scores["probe_accuracy"] = probe_accuracy(torch.from_numpy(outputs["features"]), target_B)
        first, second = (F.normalize(torch.from_numpy(outputs[name]).double(), dim=1) for name in ("first", "second"))
        scores["alignment"] = (first - second).square().sum(1).mean().item()
        pairs = [torch.pdist(first[start:stop]).square() for start, stop in _groups(len(first))]
        scores["uniformity"] = torch.cat(pairs).mul(-2).exp().mean().log().item()
        return scores

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        return [{"features": features} for features in outputs["features"].tolist()]


def probe_accuracy(features_BF: Tensor, target_B: Tensor) -> float:
    """Share of right answers of a linear classifier of the features, fitted on one half and tested on the other.

    Ridge regression onto ±1 per class, W = (XᵀX/n + λI)⁻¹ XᵀY/n with X and Y centred and X scaled on the half it is
    fitted on; each half is tested once. Which half an example is in is drawn with a fixed seed.
    """
    features_BF = features_BF.double()
    sign_BK = 2 * F.one_hot(target_B).double() - 1
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(features_BF)))
    halves = order.tensor_split(2)
    right = 0
    for fit, test in (halves, halves[::-1]):
        std, mean = torch.std_mean(features_BF[fit], dim=0, correction=0)
        scaled_BF = (features_BF - mean) / std.where(std > 0, 1.0)
        offset_K = sign_BK[fit].mean(0)
        X, Y = scaled_BF[fit], sign_BK[fit] - offset_K
        covariance_FF = X.T @ X / len(fit) + _RIDGE * torch.eye(X.shape[1], dtype=X.dtype)
        weight_FK = torch.linalg.solve(covariance_FF, X.T @ Y / len(fit))
        right += int((scaled_BF[test] @ weight_FK + offset_K).argmax(1).eq(target_B[test]).sum())
    return right / len(order)


def _groups(size: int) -> list[tuple[int, int]]:
    """Examples that are compared with each other: consecutive, about equally many, 256 at most."""
    return shares(size, math.ceil(size / _TOGETHER))
