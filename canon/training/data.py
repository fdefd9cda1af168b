"""The data of a recipe: what its system asks of it, and what weights that it starts from have decided already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from canon.config import HasKind, HasPositions
from canon.data import encodings
from canon.data.batching.composer import Pretext
from canon.data.encodings import Ask, Encoding
from canon.data.encodings.framed import FRAMED
from canon.data.encodings.passages import PASSAGES
from canon.data.encodings.prompted import PROMPTED, TOKENS, PromptedSchema, PromptStart
from canon.data.encodings.texts import TEXTS
from canon.data.encodings.word_ids import WORD_IDS
from canon.data.read import read
from canon.data.schema import Data, Schema
from canon.data.targets import TARGETS, Target
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop import formats
from canon.recipe import Recipe
from canon.tasks.records import TASK_RECORDS
from canon.training.run import EARLIER

_SPECIALS = 3  # tokens that a frame puts around a text or two, at most


def read_data(recipe: Recipe, run: Path | None = None) -> Data:
    """Everything that a recipe's system reads; `run` is the run that is resumed or used, which has kept what the
    reading depends on."""
    system, task = recipe.system, TASK_RECORDS[recipe.system.task]
    named = "name" in recipe.table.get("objective", {})
    tasks = (system.task,) if named else system.tasks
    targets = tuple(target for name in tasks for target in TASK_RECORDS[name].targets)
    reads = [encodings.find(name) for name in system.encodings]
    ask = Ask(targets, system.name, "word" if task.words else "", _sentinels(recipe))
    config = recipe.data
    for encoding in reads:
        if encoding in _STARTS:
            config, ask = _STARTS[encoding](recipe, run, ask)
    return read(config, reads, ask)


def for_target(recipe: Recipe, target: Target) -> Recipe:
    """A recipe for that task of its system which predicts what the data has."""
    fit = (task for task in recipe.system.tasks if recipe.system.others and type(target) in TASK_RECORDS[task].targets)
    return recipe.doing(next(fit, recipe.system.task))


def _sentinels(recipe: Recipe) -> int:
    # Only a network that is built for an objective has tokens for it.
    objective = recipe.objective.record.load() if recipe.objective.record.exclusive else object
    return objective.sentinels if issubclass(objective, Pretext) else 0


def _from_backbone(recipe: Recipe, run: Path | None, ask: Ask) -> tuple[Any, Ask]:
    """A pre-trained network has a tokeniser and a frame of its own."""
    from canon.interop.backbones import reading_of

    recipe = with_backbone(recipe)
    ask = replace(ask, start=reading_of(recipe, run))
    if not isinstance(recipe.config, HasKind) or not recipe.config.kind:
        return recipe.data, ask
    if recipe.config.kind not in {target.name for target in ask.targets}:
        names = ", ".join(target.name for target in ask.targets)
        raise CanonError(f'system.kind must be one of {names}, got "{recipe.config.kind}".')
    return recipe.data, replace(ask, targets=(TARGETS[recipe.config.kind],))


def _from_prompt(recipe: Recipe, run: Path | None, ask: Ask) -> tuple[Any, Ask]:
    """As a pre-trained network; the columns of the template are those that are read."""
    from canon.data.text.templates import PromptTemplate
    from canon.interop.backbones import reading_of, vectors_of

    recipe = with_backbone(recipe)
    config, data = recipe.config, recipe.data
    backbone = reading_of(recipe, run)
    if backbone.limit:
        backbone = backbone._replace(limit=backbone.limit - config.prefix_places)
    columns = PromptTemplate(data.template).columns
    if columns and not data.features and not set(columns) <= {"text", "second"}:
        data = replace(data, features=columns)
    near = data.demo_encoder
    vectors, sha256 = vectors_of(near) if near and near != TOKENS else (None, "")
    return data, replace(ask, start=PromptStart(backbone, not config.fills_slots, vectors, sha256))


def with_vectors(schema: Schema) -> Schema:
    """A schema of a run that can read more texts, by the vectors of a network that the run does not keep; the network
    is opened when it is first asked."""
    if not isinstance(schema, PromptedSchema) or not schema.near_sha256:
        return schema

    def vectors(texts: Sequence[str]) -> np.ndarray:
        from canon.interop.backbones import vectors_of

        return vectors_of(schema.near, schema.near_sha256)[0](texts)

    return replace(schema, vectors=vectors)


def _from_tokenizer(recipe: Recipe, run: Path | None, ask: Ask) -> tuple[Any, Ask]:
    """Weights that pre-training goes on from know the tokens that they were trained with; the run has kept them, and
    what they came from may be gone. A file of tensors alone has none. Passages are as long as there are positions."""
    data, init = recipe.data, recipe.train.init
    if not data.tokenizer and init:
        if run is None and formats.open_for(recipe.system, init, "weights", "train.init").format.folder:
            data = replace(data, tokenizer=init)
        elif run is not None and Path(init).suffix not in formats.TENSOR_FILES:
            data = replace(data, tokenizer=str(run))
    if isinstance(recipe.config, HasPositions) and recipe.origins.get("data.max_length", "default") == "default":
        data = replace(data, max_length=min(data.max_length, max(recipe.config.max_positions - _SPECIALS, 1)))
    return data, ask


def _from_words(recipe: Recipe, run: Path | None, ask: Ask) -> tuple[Any, Ask]:
    return recipe.data, replace(ask, start=earlier_words(recipe, run))


_STARTS: dict[Encoding, Callable[[Recipe, Path | None, Ask], tuple[Any, Ask]]] = {
    FRAMED: _from_backbone,
    PROMPTED: _from_prompt,
    TEXTS: _from_backbone,
    PASSAGES: _from_tokenizer,
    WORD_IDS: _from_words,
}


def with_backbone(recipe: Recipe) -> Recipe:
    """A recipe for fine-tuning with the network that the weights in train.init are of; others as they are."""
    if not recipe.system.backbone or recipe.origins.get("system.backbone", "").startswith("from "):
        return recipe
    from canon.interop.backbones import complete

    return complete(recipe)


def earlier_words(recipe: Recipe, run: Path | None) -> Words | None:
    """The words of the run in train.init, if any, that a system of word vectors starts from; `run` has kept them."""
    if not recipe.train.init or WORD_IDS.name not in recipe.system.encodings:
        return None
    if run is not None:
        file = run / EARLIER
        return Words.from_text(file.read_text(encoding="utf-8")) if file.is_file() else None
    from canon.interop.runs import RunSource

    origin = formats.open_for(recipe.system, recipe.train.init, "vectors", "train.init")
    return origin.schema.words if isinstance(origin, RunSource) else None
