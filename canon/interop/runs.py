"""canon's own runs as something to start from: the best weights, and vectors by word.

A run's vectors are those that its system means to be used, or the rows of its network's token embedding where that has
words (nnlm, rnn-lm …).
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from canon import recipe as recipes
from canon.contracts import Arrays, Context, KeepsVectors
from canon.data.encodings.texts import SentenceSchema
from canon.data.schema import Schema
from canon.errors import CanonError
from canon.interop.formats import Candidate, GivesVectors, GivesWeights
from canon.interop.vectors import VectorFile, VectorOptions, chosen
from canon.interop.word_list import WordList
from canon.runs import checkpoint

if TYPE_CHECKING:
    from canon.interop.network import ForeignWeights

# The tokeniser whose tokens are the rows of an embedding, by the embedding's name in the network.
ROLES = {"embedding": "text", "source_embedding": "source", "target_embedding": "target"}


class RunSource(GivesWeights, GivesVectors):
    """Of a run directory, its best weights, or its newest where none was evaluated."""

    @cached_property
    def recipe(self) -> recipes.Recipe:
        return recipes.load(str(self.path / "recipe.toml"))

    @cached_property
    def schema(self) -> Schema:
        return Schema.open(self.path / "vocab")

    @property
    def system(self) -> str:
        return self.recipe.system.name

    @property
    def kind(self) -> str:
        return self.system

    @cached_property
    def arrays(self) -> Arrays:
        for link in ("best", "last"):
            if (self.path / link).is_dir():
                groups, _ = checkpoint.load((self.path / link).resolve(), groups=("model",))
                return groups["model"]
        raise CanonError(f"{self.path} has no checkpoint yet: train it first.")

    def read(self) -> ForeignWeights:
        import torch

        from canon.interop.network import ForeignWeights

        tensors = {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        settings = {f.name: getattr(self.recipe.config, f.name) for f in fields(self.recipe.config)}
        return ForeignWeights(settings, tensors, tokenizer=self.schema.tokenizers.get("text"))

    def vectors(self, options: VectorOptions) -> VectorFile:
        arrays, source = self.arrays, str(self.path)
        _, cls = self.recipe.system.load()
        if self.schema.words is not None and issubclass(cls, KeepsVectors):
            learner: Any = cls(self.recipe.config, Context(schema=self.schema))  # type: ignore[call-arg]
            learner.restore({"model": arrays}, {})
            words = WordList.of(self.schema.words.words)
            return chosen(VectorFile(source, self.system, words, learner.vectors(), subwords=learner.vector), options)
        for name, role in ROLES.items():
            if f"{name}.weight" in arrays and role in self.schema.tokenizers:
                words = WordList.of(self.schema.tokenizers[role].vocabulary)
                matrix = np.asarray(arrays[f"{name}.weight"], np.float32)
                return chosen(VectorFile(source, self.system, words, matrix), options)
        texts = "; canon encode and canon search find texts by its vectors" * isinstance(self.schema, SentenceSchema)
        raise CanonError(f"{self.path} is a run of {self.system}, which has no word vectors{texts}.")


def recognise(candidate: Candidate) -> RunSource | None:
    return RunSource(candidate.path, "canon") if (candidate.path / "recipe.toml").is_file() else None
