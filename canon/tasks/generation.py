"""Samples like the data, by a game of two players: k turns of the discriminator, then one of the generator.

Goodfellow et al. 2014 (arXiv:1406.2661), algorithm 1. Samples are judged as they would be written down, pixels rounded
and categories chosen, by the classifier two-sample test (canon.metrics.two_sample): its accuracy is ½ where they cannot
be told from data. `loss` is C(G) = max_D E log D(x) + E log(1 − D(G(z))) of the paper's theorem 1, estimated by the
test's own classifier on held-out points; it is −log 4 at best, which D = ½ always reaches.
Shapes: B examples, Z length of the noise, N examples of a split.
"""

from __future__ import annotations

from math import isqrt, log
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.batching.augment import Draws, Scale
from canon.data.batching.loader import Batch
from canon.data.catalogue.synthetic import mixture_of
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Columns, Schema
from canon.data.targets import Nothing
from canon.errors import CanonError
from canon.metrics.two_sample import classifier_two_sample_test
from canon.objectives.adversarial import GameLoss
from canon.objectives.record import Choice
from canon.tasks import pictures
from canon.tasks.base import Outputs, Task

_JUDGED = 4000  # examples and samples that the test looks at, at most; its accuracy is then known to 0.008
_HIT = 0.01  # share of samples from which a mode counts as hit


class Generation(Task):
    targets = (Nothing,)
    monitor = "two_sample_accuracy"
    rising = ("modes", "high_quality")
    least = 4  # half of them train the judge

    def __init__(self, choice: Choice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self.objective: GameLoss = choice.create()
        self.phases = ("discriminator",) * config.discriminator_steps + ("generator",)
        self._pixels = schema if isinstance(schema, PixelSchema) else None
        self._scale = Scale(schema) if isinstance(schema, PixelSchema) else None
        self._encoders = schema.encoders if isinstance(schema, FeatureSchema) else ()
        self._mixture = mixture_of([encoder.name for encoder in self._encoders])

    def parameters(self, network: nn.Module, phase: str) -> list[tuple[str, nn.Parameter]]:
        return [(name, p) for name, p in network.named_parameters() if name.startswith(f"{phase}.")]

    def example(self) -> tuple[Any, ...]:
        return torch.zeros(1, self.config.latent), "generator"  # goes through both players once

    # The game

    def loss(self, network: nn.Module, batch: Batch, phase: str) -> Tensor:
        z_BZ = self.noise(batch["input"])
        if phase == "generator":
            return self.losses({"fake": network(z_BZ, phase)}, batch).sum()
        real_B, fake_B = network(z_BZ, phase, self.scaled(batch["input"]))
        self.observe("D(x)", real_B.detach().float().sigmoid().sum(), len(real_B))
        self.observe("D(G(z))", fake_B.detach().float().sigmoid().sum(), len(fake_B))
        return self.losses({"real": real_B, "fake": fake_B}, batch).sum()

    def losses(self, outputs: Outputs, batch: Batch) -> Tensor:
        """From logits: the discriminator's where there are some of data, else the generator's."""
        if "real" in outputs:
            return self.objective.discriminator(outputs["real"], outputs["fake"])
        return self.objective.generator(outputs["fake"])

    def noise(self, like: Tensor) -> Tensor:
        """z for the examples of a batch; by their places in the global batch, so that processes can share it."""
        whole = (0, len(like), len(like))
        draws = Draws(like.device, self.generator, self.share or whole)
        shape = (self.config.latent,)
        return draws.normal(shape) if self.config.prior == "normal" else draws.uniform(-1.0, 1.0, shape)

    def scaled(self, inputs: Tensor) -> Tensor:
        """Inputs as the players see them: pixels from −1 (black) to 1 (white), tanh's range; tables as they are."""
        return inputs if self._scale is None else 2 * self._scale.pixels(inputs) - 1

    # Samples

    def run(self, network: nn.Module, batch: Batch) -> Outputs:
        """As many samples as there are examples, from noise that is the same at every evaluation."""
        return {"samples": network(self.noise(batch["input"]))}

    def written(self, outputs: Outputs) -> np.ndarray:
        """Samples as the data has them: pixels uint8 0 … white; of a table's categories exactly one."""
        samples = outputs["samples"]
        if self._pixels is not None:
            return ((samples + 1) * (self._pixels.white / 2)).round().to(torch.uint8).numpy()
        samples = samples.clone()
        for start, stop in self._categories:
            chosen = samples[:, start:stop].argmax(dim=1)
            samples[:, start:stop] = nn.functional.one_hot(chosen, stop - start).to(samples.dtype)
        return samples.numpy()

    @property
    def _categories(self) -> list[tuple[int, int]]:
        """Where in a row of a table each category's columns lie."""
        places, start = [], 0
        for encoder in self._encoders:
            stop = start + encoder.width
            if encoder.is_category:
                places.append((start, stop))
            start = stop
        return places

    def table(self, outputs: Outputs) -> dict[str, np.ndarray]:
        """Samples of a table as its columns, in the data's own units."""
        rows, columns, start = self.written(outputs), {}, 0
        for encoder in self._encoders:
            if encoder.is_category:
                chosen = rows[:, start : start + encoder.width].argmax(axis=1)
                columns[encoder.name] = np.array(encoder.categories, dtype=object)[chosen]
            else:
                columns[encoder.name] = rows[:, start].astype(np.float64) * encoder.std + encoder.mean
            start += encoder.width
        return columns

    def rows(self, outputs: Outputs, top: int) -> list[dict[str, Any]]:
        raise CanonError("A generator predicts nothing of an input: see its samples with canon generate RUN.")

    # How they are judged

    def names(self) -> tuple[str, ...]:
        return ("loss", "two_sample_accuracy", *(("modes", "high_quality") if self._mixture else ()))

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        return self.metrics(outputs, self._spread(columns["input"]))

    @staticmethod
    def _spread(inputs: Any) -> np.ndarray:
        """Rows from all over a split, whose order may be one class after the other."""
        index = np.linspace(0, len(inputs) - 1, min(_JUDGED, len(inputs))).astype(np.int64)
        return inputs[index] if isinstance(inputs, np.ndarray) else inputs.take(index)

    def metrics(self, outputs: Outputs, targets: np.ndarray) -> dict[str, float]:
        """`targets` are examples; the samples are independent, so the first of them do."""
        samples = self.written(outputs)[: len(targets)]
        judge = _Judge(self._pixels is not None)
        sets = [rows.reshape(len(rows), -1) / self._unit for rows in (targets, samples)]
        accuracy = classifier_two_sample_test(sets[0], sets[1], classifier=judge).accuracy
        found = {"loss": judge.value(), "two_sample_accuracy": accuracy}
        if self._mixture:
            points = np.stack(list(self.table(outputs).values()), axis=1)
            shares = self._mixture.share_of_modes(points)
            found |= {"modes": float((shares >= _HIT).sum()), "high_quality": float(shares.sum())}
        return found

    @property
    def _unit(self) -> float:
        return 1.0 if self._pixels is None else self._pixels.white / 2

    def floors(self, targets: np.ndarray) -> dict[str, float]:
        return {}

    def pictures(self, outputs: Outputs, columns: Columns) -> dict[str, bytes]:
        if self._pixels is not None:
            return {"samples": pictures.grid(self.written(outputs)[: pictures.GRID**2], self._pixels.white)}
        if len(self._encoders) > 2 or self._categories or not pictures.can_draw():
            return {}
        names = [encoder.name for encoder in self._encoders]
        stds, means = (np.array([getattr(e, key) for e in self._encoders]) for key in ("std", "mean"))
        real = self._spread(columns["input"]) * stds + means
        made = np.stack(list(self.table(outputs).values()), axis=1)[: len(real)]
        return {"samples": pictures.points(real, made, names)}


class _Judge:
    """The two-sample test's classifier, one of the two in its paper; remembers its probabilities.

    Tables: k nearest neighbours, k = √n, which follow a density of few columns closely and need no training. Images,
    where distances between pixels say little: one hidden layer of 20 units.
    """

    def __init__(self, is_image: bool) -> None:
        self._is_image = is_image

    def fit(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.neural_network import MLPClassifier

        self._seen = isqrt(len(inputs)) | 1  # odd: no ties
        self._classifier: Any = (
            MLPClassifier((20,), max_iter=300, tol=1e-3, random_state=0)
            if self._is_image
            else KNeighborsClassifier(min(self._seen, len(inputs)))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is only a judge: as good as it got
            self._classifier.fit(inputs, labels)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        sampled_N = self._classifier.predict_proba(inputs)[:, 1]
        # Of k neighbours that are all alike one cannot conclude 1: half a neighbour more of either kind.
        data_N = 1 - sampled_N if self._is_image else ((1 - sampled_N) * self._seen + 0.5) / (self._seen + 1)
        self._data_N = np.clip(data_N, 1e-7, 1 - 1e-7)  # D(x)
        return (sampled_N > 0.5).astype(np.int64)

    def value(self) -> float:
        """V(D, G) = E log D(x) + E log(1 − D(G(z))) on the held-out points, of which the first half is data."""
        real, fake = np.array_split(self._data_N, 2)
        return max(-log(4), float(np.log(real).mean() + np.log(1 - fake).mean()))
