"""A trained run, ready to use: what `canon.load` returns for a run directory, or a folder in Hugging Face's format."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.contracts import KeepsVectors, NetworkLearner
from canon.data.progress import bar
from canon.data.read import inputs as read_inputs
from canon.data.read import labelled
from canon.data.schema import Columns, take
from canon.data.targets import NextToken, Nothing
from canon.errors import unknown
from canon.runs import checkpoint
from canon.tasks.base import Decides, Outputs
from canon.training.data import read_data, with_vectors
from canon.training.plan import build
from canon.training.run import Run, defined
from canon.training.world import world_to_use
from canon.use.folders import FolderRun, open_run

if TYPE_CHECKING:
    from canon.use.vectors import Vectors

_AT_ONCE = 512  # rows predicted together


class Model:
    """The best weights of a run with everything needed to use them; `canon.load` makes it.

    run: the Run that it was read from.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.schema = with_vectors(run.schema)
        self.learner, self.task = build(run.recipe, run.schema, world_to_use(run.recipe.system))
        self.learner.careful = True
        if isinstance(self.task, Decides) and not isinstance(run, FolderRun):
            self.task.threshold = (run.result or {}).get("threshold", self.task.threshold)
        self.checkpoint = run.best()
        for role, tokenizer in self.schema.tokenizers.items():
            rows = getattr(run.recipe.config, "vocab_size" if role == "text" else f"{role}_vocab")
            tokenizer.require_rows(rows, run.path / "vocab" / f"{role}.json", self.checkpoint / "model.safetensors")
        if isinstance(run, FolderRun):
            self.learner.restore({"model": run.origin.weights.tensors}, {})
            return
        tensors, state = checkpoint.load(self.checkpoint, run.recipe.system.name, groups=("model",))
        self.learner.restore(tensors, state["learner"])

    @property
    def network(self) -> Any:
        """The torch module, if the system is one; else the learner itself."""
        return self.learner.network if isinstance(self.learner, NetworkLearner) else self.learner

    @cached_property
    def vectors(self) -> Vectors:
        """The word vectors, if the system learns any: neighbors, analogy, similarity."""
        from canon.use.vectors import Vectors

        learner = self.learner
        if self.schema.words is None or not isinstance(learner, KeepsVectors):
            return Vectors.open(self.run.path)  # a network's embeddings; without any, a CanonError
        words, source = self.schema.words.words, str(self.run.path)
        return Vectors(words, learner.vectors(), source=source, subwords=learner.vector)

    def predict(self, inputs: Any, top: int = 1, text: bool = False) -> list[dict[str, Any]]:
        """One record per example: its "source", and what is predicted.

        | inputs | an example is |
        | --- | --- |
        | a text; a path, or a list of both | the text; a row, line or image of the file |
        | a dict, a list of dicts | a dict, with the columns of the training data by name |
        | a data frame (pandas, polars), a pyarrow table | a row |
        | an array, a tensor | a row: pixels, or a table's columns as they are in a file, in the order of training |

        inputs: what to predict.
        top: how many classes, tokens or texts of each, the likeliest first.
        text: the inputs are texts; without it, one that names a file, or looks like a path, is a file.
        """
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(inputs, torch.Tensor):
            inputs = inputs.numpy(force=True)
        columns, names = read_inputs(self.schema, inputs, self.run.recipe.data, text, str(self.run.path))
        parts = self._parts(columns, len(names))
        rows = [row for outputs, taken in parts for row in self.task.rows(outputs, taken, top)]
        return [{"source": name, **row} for name, row in zip(names, rows, strict=True)]

    def _parts(self, columns: Columns, size: int) -> Iterator[tuple[Outputs, Columns]]:
        """The outputs for some rows at a time, and these rows, with a progress bar if it takes long."""
        # Samples are drawn for all together, and a text is read from its beginning.
        together = isinstance(self.schema.target, Nothing | NextToken)
        at_once = max(size, 1) if together else _AT_ONCE
        with bar("predicting", size) as progress:
            for start in range(0, size, at_once):
                rows = np.arange(start, min(start + at_once, size))
                taken = take(columns, rows)
                yield self.learner.outputs(taken), taken
                progress.advance(len(rows))

    def recommend(self, user: str = "", items: Sequence[str] = (), top: int = 10) -> dict[str, Any]:
        """The best items for a user, with their scores; of a run of a recommender.

        user: one of the training data; without one, whoever has these items.
        items: what the user has.
        top: how many items.
        """
        from canon.use.recommend import recommend

        return recommend(self, user, items, top)

    def evaluate(self, data: str | Path | None = None, split: str = "test") -> dict[str, float | None]:
        """Loss and metrics by name; None for a metric that is undefined for these rows but not for the run's.

        data: other labelled data, a path or a named set; by default the run's own.
        split: of the run's own data: train, valid or test.
        """
        if data is not None:
            columns = labelled(self.schema, data, self.run.recipe.data)
        else:
            read = read_data(self.run.recipe, self.run.path)
            self.run.check_same_data(read)
            if split not in read.splits:
                raise unknown("split", split, read.splits)
            columns = read.splits[split]
        scores = defined(self.task.score(self.learner.outputs(columns), columns))
        known = () if isinstance(self.run, FolderRun) else ((self.run.result or {}).get("scores", {})).values()
        names = dict.fromkeys((*(name for of in known for name in of), *scores))
        return {name: scores.get(name) for name in names}


def load(path: str | Path) -> Model:
    """The run at `path`, or the network of a folder in another project's format."""
    return Model(open_run(path))
