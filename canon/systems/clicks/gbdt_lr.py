"""Boosted trees whose leaves are the features of a logistic regression: f(x) = b + Σ_t w_{t, leaf_t(x)}.

He et al. 2014, Practical lessons from predicting clicks on ads at Facebook: section 3.1 (each tree is a categorical
feature whose value is the leaf) in `GBDTLR.outputs`; the trees are LightGBM's (Ke et al. 2017), one a step, grown on
one half of the training rows, and the regression is fitted on the other half (or both on all of them).
A tree begins at the scores of those before it, so that a resumed run grows the same trees. The
regression minimises ½‖w‖² + C Σ log(1 + e^(−y f)) by L-BFGS, from zero, when outputs are asked for: it depends on the
trees alone. Deviations: the regression learns on all rows at once, not online.
Shapes: N examples, F fields, T trees, L leaves of all trees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.contracts import Context, Learner
from canon.data.encodings.field_columns import FIRST, BucketField, NumberField, SquaredLogField
from canon.data.encodings.fields import FieldSchema
from canon.data.schema import Columns, Data, num_examples
from canon.errors import CanonError
from canon.systems.clicks.settings import FieldConfig
from canon.systems.settings import Positive

if TYPE_CHECKING:
    import lightgbm

_NUM_LEAVES = re.compile(r"^num_leaves=(\d+)", re.MULTILINE)
_END = b"\0"  # between the texts of trees


@settings
class Config(FieldConfig):
    leaves: Annotated[int, Field(ge=2, le=1 << 16)] = Field(default=31, description="leaves of a tree, at most")
    rate: Annotated[float, Field(gt=0, le=1)] = Field(default=0.1, description="shrinkage of a tree")
    least: Positive = Field(default=20, description="rows of a leaf, at least")
    halves: Literal["disjoint", "same"] = Field(
        default="disjoint", description="trees and regression learn from two halves of the rows, or both from all"
    )
    C: Annotated[float, Field(gt=0)] = Field(default=0.1, description="weight of the regression's loss against ½‖w‖²")


class GBDTLR(Learner):
    config: Config

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        if config.crosses:
            raise CanonError("gbdt-lr does not use data.crosses (its trees find crosses): leave them out.")
        self.trees: list[lightgbm.Booster] = []
        self._sizes: list[int] = []  # leaves of each tree
        self.weights_L = np.zeros(0)  # of the leaves, tree by tree
        self.bias = 0.0
        self._fitted = 0  # trees that the regression knows
        self._loss = 0.0
        self._begun = False

    @property
    def num_parameters(self) -> int:
        return len(self.weights_L) + 1

    # Learning

    def begin(self, data: Data, batch: int, steps: int) -> None:
        lightgbm = _lightgbm()
        columns = data.splits["train"]
        target_N = np.asarray(columns["target"])
        order = np.random.RandomState(self.context.seed & 0xFFFFFFFF).permutation(len(target_N))
        half = len(order) // 2 if self.config.halves == "disjoint" else len(order)
        grown, fitted = order[:half], order[half:] if self.config.halves == "disjoint" else order
        if len(np.unique(target_N[grown])) < 2 or len(np.unique(target_N[fitted])) < 2:
            raise CanonError("One half of the training rows has no clicks, or only clicks; set system.halves = same.")
        matrix = self._matrix(columns)
        self._grown, self._target_N = matrix[grown], target_N[grown]
        self._regressed, self._regressed_target = matrix[fitted], target_N[fitted]
        self._data = lightgbm.Dataset(
            self._grown, self._target_N, categorical_feature=self._categories(), free_raw_data=False,
            params={"verbosity": -1, "min_data_in_leaf": self.config.least},
        )  # fmt: skip
        self._begun = True
        self._follow()

    def step(self, number: int) -> bool:
        lightgbm = _lightgbm()
        self._data.set_init_score(self._scores_N)
        parameters = {
            "objective": "binary",
            "num_leaves": self.config.leaves,
            "learning_rate": self.config.rate,
            "min_data_in_leaf": self.config.least,
            "seed": (self.context.seed + number) & 0x7FFFFFFF,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.context.recipe.train.threads if self.context.recipe else 1,
            "verbosity": -1,
        }
        tree = lightgbm.Booster(parameters, self._data)
        tree.update()
        tree = lightgbm.Booster(model_str=tree.model_to_string())
        self.trees.append(tree)
        self._learned(tree)
        self._loss = float(np.logaddexp(0, (1 - 2 * self._target_N) * self._scores_N).mean())
        return True

    def _follow(self) -> None:
        """The scores and leaves of the training rows, by the trees so far."""
        share = self._target_N.mean()
        self._scores_N = np.full(len(self._target_N), np.log(share / (1 - share)))
        self._leaves: list[np.ndarray] = []
        for tree in self.trees:
            self._learned(tree)

    def _learned(self, tree: lightgbm.Booster) -> None:
        self._scores_N = self._scores_N + tree.predict(self._grown, raw_score=True)
        self._leaves.append(_leaves(tree, self._regressed))

    def logs(self) -> dict[str, float]:
        return {"loss": self._loss}

    def _fit(self) -> None:
        """The regression over the leaves of all trees."""
        if self._fitted == len(self.trees):
            return
        from scipy.optimize import minimize

        starts = self._starts()
        places_NT = np.stack(self._leaves, axis=1) + starts[:-1]
        sign_N, many = 2.0 * self._regressed_target - 1, int(starts[-1])
        flat, trees = places_NT.reshape(-1), len(self.trees)

        def cost(values: np.ndarray) -> tuple[float, np.ndarray]:
            score_N = values[-1] + values[places_NT].sum(axis=1)
            slope_N = -sign_N * np.exp(-np.logaddexp(0, sign_N * score_N)) * self.config.C
            gradient = np.append(np.bincount(flat, np.repeat(slope_N, trees), many) + values[:-1], slope_N.sum())
            loss = self.config.C * np.logaddexp(0, -sign_N * score_N).sum() + 0.5 * values[:-1] @ values[:-1]
            return float(loss), gradient

        solved = minimize(cost, np.zeros(many + 1), jac=True, method="L-BFGS-B", options={"gtol": 1e-5})
        self.weights_L, self.bias, self._fitted = solved.x[:-1], float(solved.x[-1]), trees

    def _starts(self) -> np.ndarray:
        """Where the leaves of each tree begin [T + 1]."""
        for tree in self.trees[len(self._sizes) :]:
            leaves = _NUM_LEAVES.search(tree.model_to_string())
            assert leaves is not None
            self._sizes.append(int(leaves[1]))
        return np.cumsum([0, *self._sizes])

    # Keeping

    def tensors(self) -> dict[str, dict[str, np.ndarray]]:
        self._fit()
        text = _END.join(tree.model_to_string().encode() for tree in self.trees)
        trees = np.frombuffer(text, np.uint8).copy()
        return {"model": {"trees": trees, "leaves": self.weights_L, "bias": np.array([self.bias])}}

    def state(self) -> dict[str, Any]:
        return {"loss": self._loss}

    def restore(self, tensors: Mapping[str, Mapping[str, Any]], state: dict[str, Any]) -> None:
        lightgbm = _lightgbm()
        model = tensors["model"]
        texts = np.asarray(model["trees"]).tobytes().split(_END)
        self.trees = [lightgbm.Booster(model_str=text.decode()) for text in texts if text]
        self.weights_L, self.bias = np.array(model["leaves"]), float(model["bias"][0])
        self._sizes = []
        self._fitted, self._loss = len(self.trees), float(state.get("loss", 0.0))
        if self._begun:
            self._follow()

    # Answering

    def outputs(self, columns: Columns) -> dict[str, np.ndarray]:
        if self._fitted < len(self.trees):
            self._fit()
        matrix = self._matrix(columns)
        score_N = np.full(num_examples(columns), self.bias)
        for tree, start in zip(self.trees, self._starts(), strict=False):
            score_N += self.weights_L[start + _leaves(tree, matrix)]
        return {"logits": score_N[:, None]}

    def _schema(self) -> FieldSchema:
        schema = self.context.schema
        assert isinstance(schema, FieldSchema)
        return schema

    def _categories(self) -> list[int]:
        """The columns of the matrix whose numbers are names."""
        numbers = BucketField, NumberField, SquaredLogField
        columns = [column for column in self._schema().columns if column.width == 1]
        return [place for place, column in enumerate(columns) if not isinstance(column, numbers)]

    def _matrix(self, columns: Columns) -> Any:
        """What trees read: the row or number of a field with one value; the weight of each value of others."""
        schema = self._schema()
        rows_NS = np.asarray(columns["input"])
        weights_NS = np.asarray(columns["weights"]) if "weights" in columns else np.ones(rows_NS.shape, np.float32)
        dense, wide, start = [], [], 0
        for column, offset in zip(schema.columns, schema.offsets, strict=False):
            places = slice(start, start + column.width)
            start += column.width
            local = rows_NS[:, places] - (0 if schema.hash_bits and column.size == FIRST else offset)
            if column.width > 1:
                wide.append(_weighted(local, weights_NS[:, places], column.size))
            elif isinstance(column, NumberField):
                dense.append(np.where(local[:, 0] < FIRST, np.nan, weights_NS[:, places][:, 0]))
            else:
                dense.append(local[:, 0].astype(np.float64))
        table = np.stack(dense, axis=1) if dense else np.zeros((len(rows_NS), 0))
        if not wide:
            return table
        from scipy.sparse import csr_matrix, hstack

        return hstack([csr_matrix(table), *wide], format="csr")


def _weighted(rows_NW: np.ndarray, weights_NW: np.ndarray, size: int) -> Any:
    from scipy.sparse import csr_matrix

    count, width = rows_NW.shape
    starts = np.arange(count + 1) * width
    return csr_matrix((weights_NW.reshape(-1), rows_NW.reshape(-1), starts), shape=(count, size))


def _leaves(tree: lightgbm.Booster, matrix: Any) -> np.ndarray:
    """The leaf that each row falls into [N]."""
    return np.asarray(tree.predict(matrix, pred_leaf=True), dtype=np.int64).reshape(-1)


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError:
        raise CanonError("gbdt-lr needs LightGBM: pip install 'deepcanon[trees]'.") from None
    return lightgbm
