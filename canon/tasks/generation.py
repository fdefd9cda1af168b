"""Samples like the data, by a game of two players: k turns of the discriminator, then one of the generator.

Goodfellow et al. 2014 (arXiv:1406.2661), algorithm 1. Samples are judged as they would be written down, pixels rounded
and categories chosen, by the classifier two-sample test (canon.metrics.two_sample): its accuracy is ½ where they cannot
be distinguished from data. `loss` is C(G) = max_D E log D(x) + E log(1 − D(G(z))) of the paper's theorem 1, estimated
by the test's own classifier on held-out points; it is −log 4 at best, which D = ½ always reaches.
Shapes: B examples, Z length of the noise, N examples of a split.
"""

from __future__ import annotations

from math import isqrt, log
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.contracts import TakesTurns
from canon.data.batching.augment import ImageDraws, Scale
from canon.data.batching.loader import Batch
from canon.data.catalogue.synthetic import mixture_of
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Columns, Schema
from canon.errors import CanonError
from canon.metrics.two_sample import classifier_two_sample_test
from canon.objectives.adversarial import GameLoss
from canon.objectives.record import ObjectiveChoice
from canon.tasks import pictures
from canon.tasks.base import DrawsPictures, DrawsSamples, NetworkTask, Outputs, Turn, spread

_JUDGED = 4000  # examples and samples that the test looks at, at most; its accuracy is then known to 0.008
_HIT = 0.01  # share of samples from which a mode counts as hit


class Generation(NetworkTask, DrawsSamples, DrawsPictures):
    monitor = "two_sample_accuracy"
    loss_falls = False  # of two players
    least = 4  # half of them train the judge

    def __init__(self, choice: ObjectiveChoice, config: Any, schema: Schema) -> None:
        super().__init__(choice, config, schema)
        self.objective: GameLoss = choice.create()
        self.phases = ("discriminator",) * config.discriminator_steps + ("generator",)
        self._pixels = schema if isinstance(schema, PixelSchema) else None
        self._scale = Scale(schema) if isinstance(schema, PixelSchema) else None
        self._encoders = schema.encoders if isinstance(schema, FeatureSchema) else ()
        # Of a table: where in a row the numbers of each column are.
        stops = np.cumsum([encoder.width for encoder in self._encoders], dtype=int).tolist()
        self._places = [slice(stop - e.width, stop) for e, stop in zip(self._encoders, stops, strict=True)]
        self._mixture = mixture_of([encoder.name for encoder in self._encoders])

    def parameters(self, network: nn.Module, phase: str) -> list[tuple[str, nn.Parameter]]:
        return [(name, p) for name, p in network.named_parameters() if name.startswith(f"{phase}.")]

    def example(self) -> tuple[Any, ...]:
        return (torch.zeros(1, self.config.latent),)

    def trial(self, network: nn.Module, *example: Any) -> Any:
        assert isinstance(network, TakesTurns)
        return network.turn("generator")(*example)  # goes through both players once

    # The game

    def loss(self, network: nn.Module, batch: Batch, phase: str, turn: Turn) -> Tensor:
        play = network.turn(phase) if isinstance(network, TakesTurns) else network  # alone, or as training wraps it
        z_BZ = self.noise(batch["input"], turn)
        if phase == "generator":
            return self.objective.generator(play(z_BZ)).sum()
        real_B, fake_B = play(z_BZ, self.scaled(batch["input"]))
        for name, logit_B in (("D(x)", real_B), ("D(G(z))", fake_B)):
            turn.observe(name, logit_B.detach().float().sigmoid().sum(), len(logit_B))
        return self.objective.discriminator(real_B, fake_B).sum()

    def noise(self, like: Tensor, turn: Turn) -> Tensor:
        """z for the examples of a batch; by their places in the global batch, so that processes can share it."""
        draws = ImageDraws(like.device, turn.generator, turn.rows(len(like)))
        shape = (self.config.latent,)
        return draws.normal(shape) if self.config.prior == "normal" else draws.uniform(-1.0, 1.0, shape)

    def scaled(self, inputs: Tensor) -> Tensor:
        """Inputs as the players see them: pixels from −1 (black) to 1 (white), tanh's range; tables as they are."""
        return inputs if self._scale is None else 2 * self._scale.pixels(inputs) - 1

    # Samples

    def run(self, network: nn.Module, batch: Batch, turn: Turn) -> dict[str, Tensor]:
        """As many samples as there are examples, from noise that is the same at every evaluation."""
        return {"samples": network(self.noise(batch["input"], turn))}

    def written(self, outputs: Outputs) -> np.ndarray:
        """Samples as the data has them: pixels uint8 0 … white; of a table's categories exactly one."""
        samples = torch.from_numpy(outputs["samples"])
        if self._pixels is not None:
            return ((samples + 1) * (self._pixels.white / 2)).round().to(torch.uint8).numpy()
        samples = samples.clone()
        for encoder, place in zip(self._encoders, self._places, strict=True):
            if encoder.is_category:
                chosen = samples[:, place].argmax(dim=1)
                samples[:, place] = nn.functional.one_hot(chosen, encoder.width).to(samples.dtype)
        return samples.numpy()

    def table(self, outputs: Outputs) -> dict[str, np.ndarray]:
        """Samples of a table as its columns, in the data's own units."""
        rows, columns = self.written(outputs), {}
        for encoder, place in zip(self._encoders, self._places, strict=True):
            if encoder.is_category:
                columns[encoder.name] = np.array(encoder.categories, dtype=object)[rows[:, place].argmax(axis=1)]
            else:
                columns[encoder.name] = rows[:, place.start].astype(np.float64) * encoder.std + encoder.mean
        return columns

    def rows(self, outputs: Outputs, columns: Columns, top: int) -> list[dict[str, Any]]:
        raise CanonError("A generator predicts nothing from an input: canon generate RUN writes samples of it.")

    # How they are judged

    def names(self) -> tuple[str, ...]:
        return ("loss", "two_sample_accuracy", *(("modes", "high_quality") if self._mixture else ()))

    def score(self, outputs: Outputs, columns: Columns) -> dict[str, float]:
        """The samples are independent, so the first of them are enough."""
        examples = _some(columns["input"])
        judge = _Judge(self._pixels is not None)
        unit = 1.0 if self._pixels is None else self._pixels.white / 2
        sets = (examples, self.written(outputs)[: len(examples)])
        test = classifier_two_sample_test(*(rows.reshape(len(rows), -1) / unit for rows in sets), classifier=judge)
        scores = {"loss": judge.value(), "two_sample_accuracy": test.accuracy}
        if self._mixture:
            points = np.stack(list(self.table(outputs).values()), axis=1)
            shares = self._mixture.share_of_modes(points)
            scores |= {"modes": float((shares >= _HIT).sum()), "high_quality": float(shares.sum())}
        return scores

    def pictures(self, outputs: Outputs, columns: Columns) -> dict[str, bytes]:
        if self._pixels is not None:
            return {"samples": pictures.grid(self.written(outputs)[: pictures.GRID**2], self._pixels.white)}
        if len(self._encoders) > 2 or any(e.is_category for e in self._encoders) or not pictures.can_draw():
            return {}
        names = [encoder.name for encoder in self._encoders]
        stds, means = (np.array([getattr(e, key) for e in self._encoders]) for key in ("std", "mean"))
        real = _some(columns["input"]) * stds + means
        samples = np.stack(list(self.table(outputs).values()), axis=1)[: len(real)]
        return {"samples": pictures.points(real, samples, names)}


def _some(inputs: Any) -> np.ndarray:
    rows = spread(len(inputs), _JUDGED)
    return inputs[rows] if isinstance(inputs, np.ndarray) else inputs.take(rows)


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
