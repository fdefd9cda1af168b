"""RankGP: formulas of features that evolve towards a high MAP.

Yeh, Lin, Ke and Yang 2007, Learning to rank for information retrieval using genetic programming; Koza 1992, Genetic
programming. An individual is a tree whose leaves are features or constants and whose nodes are +, −, × or ÷ (by 0: 1);
its fitness is the mean measure of the training queries. A step is one generation: the best stay as they are; others
come from parents that win tournaments, by crossover (a subtree of one replaces one of the other), mutation (a new
subtree) or as copies → `step`. Trees are lists in prefix order: an operator is −1 … −4, a feature f ≥ 0, a constant
−5 with its value beside. All choices of generation g are drawn from (seed, g).
Deviations: sizes are bounded by `nodes`; of equally fit individuals the one that came first is kept.
Shapes: N documents, F features, P individuals, L nodes of a tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context
from canon.objectives.ranking.plain import measured
from canon.objectives.ranking.plain_records import Measured
from canon.systems.ranking.learner import RankingLearner
from canon.systems.settings import Shape

_PLUS, _MINUS, _TIMES, _OVER, _CONSTANT = -1, -2, -3, -4, -5
_SIGNS = {_PLUS: "+", _MINUS: "−", _TIMES: "×", _OVER: "÷"}
_MOST = 1e12  # larger values are cut off

Part = Annotated[float, Field(ge=0, le=1)]


@settings
class Config:
    shape: Shape = Field(default=(46,), description="features of a document; the data decides")
    individuals: Annotated[int, Field(ge=2, le=100_000)] = Field(default=70, description="of a generation")
    nodes: Annotated[int, Field(ge=3, le=1023)] = Field(default=31, description="of a formula, at most")
    depth: Annotated[int, Field(ge=1, le=12)] = Field(default=4, description="of a new formula or subtree, at most")
    tournament: Annotated[int, Field(ge=1, le=1000)] = Field(default=5, description="individuals that a parent beats")
    crossover: Part = Field(default=0.8, description="probability that a child has two parents")
    mutation: Part = Field(default=0.15, description="and that it is a parent with a new subtree; the rest are copies")
    elite: Annotated[int, Field(ge=1, le=100_000)] = Field(default=2, description="the best that stay as they are")


class Formula:
    """A tree in prefix order."""

    def __init__(self, codes: list[int], values: list[float]) -> None:
        self.codes, self.values = codes, values

    def end(self, start: int) -> int:
        """Where the subtree that begins at `start` ends."""
        open_ends = 1
        while open_ends:
            open_ends += 1 if _OVER <= self.codes[start] <= _PLUS else -1
            start += 1
        return start

    def with_subtree(self, at: int, other: Formula, start: int) -> Formula:
        """This with the subtree at `at` replaced by that of another at `start`."""
        end, other_end = self.end(at), other.end(start)
        return Formula(
            self.codes[:at] + other.codes[start:other_end] + self.codes[end:],
            self.values[:at] + other.values[start:other_end] + self.values[end:],
        )

    def __call__(self, values_FN: np.ndarray) -> np.ndarray:
        """[N] float64; from the last node to the first, so that both operands lie on the stack."""
        stack: list[Any] = []
        for code, value in zip(reversed(self.codes), reversed(self.values), strict=True):
            if code >= 0:
                stack.append(values_FN[code])
            elif code == _CONSTANT:
                stack.append(np.float64(value))
            else:
                stack.append(_result(code, stack.pop(), stack.pop()))
        return np.broadcast_to(stack[0], values_FN.shape[1:])

    def __str__(self) -> str:
        stack: list[str] = []
        for code, value in zip(reversed(self.codes), reversed(self.values), strict=True):
            if _OVER <= code <= _PLUS:
                stack.append(f"({stack.pop()} {_SIGNS[code]} {stack.pop()})")
            else:
                stack.append(f"x{code + 1}" if code >= 0 else f"{value:.3g}")
        return stack[0]


def _result(code: int, left: Any, right: Any) -> Any:
    if code == _PLUS:
        result = left + right
    elif code == _MINUS:
        result = left - right
    elif code == _TIMES:
        result = left * right
    else:
        result = np.divide(left, right, out=np.ones(np.broadcast(left, right).shape), where=np.abs(right) > 1e-9)
    return np.clip(result, -_MOST, _MOST)


def grown(draw: np.random.Generator, features: int, depth: int) -> Formula:
    """A random formula."""
    if depth == 0 or draw.random() < 0.2:
        if draw.random() < 0.8:
            return Formula([int(draw.integers(features))], [0.0])
        return Formula([_CONSTANT], [float(draw.random())])
    left, right = grown(draw, features, depth - 1), grown(draw, features, depth - 1)
    codes = [int(draw.integers(_OVER, _PLUS + 1)), *left.codes, *right.codes]
    return Formula(codes, [0.0, *left.values, *right.values])


class RankGP(RankingLearner):
    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.formulas: list[Formula] = []  # the fittest first
        self.fitness: list[float] = []
        self.measure: Measured = self.objective(Measured)

    @property
    def num_parameters(self) -> int:
        return len(self.formulas[0].codes) if self.formulas else 0

    def start(self) -> None:
        self._values_FN = np.ascontiguousarray(self.documents.values.T.astype(np.float64))

    def _fitness(self, formula: Formula) -> float:
        scores_N = formula(self._values_FN)
        return float(measured(self.documents.labels, scores_N, self.documents.offsets, self.measure).mean())

    def step(self, number: int) -> bool:
        config, draw = self.config, np.random.default_rng((self.context.seed, number))
        features, size = len(self._values_FN), config.individuals
        if number == 1:
            kept: list[Formula] = []
            new = [grown(draw, features, 1 + place % config.depth) for place in range(size)]
        else:
            kept = self.formulas[: min(config.elite, size)]
            new = [self._child(draw, features) for _ in range(size - len(kept))]
        fitness = [*self.fitness[: len(kept)], *map(self._fitness, new)]
        order = np.argsort(-np.array(fitness), kind="stable").tolist()
        everyone = [*kept, *new]
        self.formulas, self.fitness = [everyone[place] for place in order], [fitness[place] for place in order]
        best = self.formulas[0]
        self._logged = {
            "fitness": self.fitness[0],
            "mean_fitness": float(np.mean(self.fitness)),
            "nodes": float(len(best.codes)),
        }
        return True

    def _child(self, draw: np.random.Generator, features: int) -> Formula:
        parent, choice = self._winner(draw), float(draw.random())
        if choice >= self.config.crossover + self.config.mutation:
            return parent
        at = int(draw.integers(len(parent.codes)))
        other = self._winner(draw) if choice < self.config.crossover else grown(draw, features, self.config.depth)
        start = int(draw.integers(len(other.codes))) if choice < self.config.crossover else 0
        child = parent.with_subtree(at, other, start)
        return child if len(child.codes) <= self.config.nodes else parent

    def _winner(self, draw: np.random.Generator) -> Formula:
        """The fittest of several formulas, which are sorted by fitness."""
        return self.formulas[int(draw.integers(len(self.formulas), size=self.config.tournament).min())]

    def importances(self) -> dict[str, np.ndarray]:
        """How often each feature is in the formula."""
        codes = np.array([code for each in self.formulas[:1] for code in each.codes if code >= 0], np.int64)
        return {"occurrences": np.bincount(codes, minlength=self.config.shape[0]).astype(np.float64)}

    def scores(self, values_NF: np.ndarray) -> np.ndarray:
        if not self.formulas:
            return np.zeros(len(values_NF))
        return np.array(self.formulas[0](np.ascontiguousarray(values_NF.T.astype(np.float64))))

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        def packed(formulas: list[Formula]) -> dict[str, np.ndarray]:
            return {
                "codes": np.array([code for each in formulas for code in each.codes], np.int64),
                "values": np.array([value for each in formulas for value in each.values], np.float64),
                "lengths": np.array([len(each.codes) for each in formulas], np.int64),
            }

        rest = {**packed(self.formulas[1:]), "fitness": np.array(self.fitness, np.float64)}
        return {"model": packed(self.formulas[:1]), "optimizer": rest}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        self.take_state(state)
        self.formulas = _unpacked(tensors["model"])
        if "optimizer" in tensors:
            self.formulas += _unpacked(tensors["optimizer"])
            self.fitness = tensors["optimizer"]["fitness"].tolist()


def _unpacked(tensors: Mapping[str, Any]) -> list[Formula]:
    ends = np.cumsum(tensors["lengths"]).tolist()
    codes, values = tensors["codes"].tolist(), tensors["values"].tolist()
    return [Formula(codes[first:end], values[first:end]) for first, end in zip([0, *ends], ends, strict=False)]
