"""Users as judged queries of a pipeline: what the data of its first recommender holds out of each is to be found.

A query is the items that the user has, and its answer is folded in, so that no recall knows the user. The test part of
the recommender's data is that of the pipeline. The ranker learns from the validation part: no recommender was trained
on it, and users are split into those that the ranker is trained on and those that it is chosen by.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

from canon.data.batching.sequences import Uneven
from canon.data.encodings.events import EventSchema
from canon.data.schema import Columns
from canon.errors import CanonError
from canon.training.data import read_data
from canon.training.run import Run
from canon.use.pipeline.documents import StoredDocuments
from canon.use.pipeline.recall import names_of, run_of
from canon.use.pipeline.settings import PipelineRecipe, RecommenderRecall


def users_of(recipe: PipelineRecipe, path: Path, rows: StoredDocuments) -> dict[str, list[str]]:
    """Lines of JSON by split; a user none of whose items to be found is a document is left out."""
    named = zip(names_of(recipe.recalls), (config for _, config in recipe.recalls), strict=True)
    name, config = next((name, config) for name, config in named if isinstance(config, RecommenderRecall))
    run = Run.open(run_of(config, path / "recall" / name))
    data = read_data(run.recipe, run.path)
    run.check_same_data(data)
    schema = data.schema
    assert isinstance(schema, EventSchema)
    if not {"valid", "test"} <= data.splits.keys():
        raise CanonError(f"queries.users: the data of {run.path} holds nothing out to train or to evaluate by.")
    lines: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for place, user in enumerate(_asked(schema, data.splits["valid"], rows)):
        share = zlib.crc32(f"{recipe.queries.seed} {place}".encode()) / 2**32
        lines["valid" if share < recipe.queries.valid else "train"].append(user)
    lines["test"] = _asked(schema, data.splits["test"], rows)
    return lines


def _asked(schema: EventSchema, columns: Columns, rows: StoredDocuments) -> list[str]:
    histories, targets = columns["history"], columns["target"]
    assert isinstance(histories, Uneven) and isinstance(targets, Uneven)
    lines = []
    for place, user in enumerate(np.asarray(columns["input"]).tolist()):
        wanted = (schema.items[item] for item in targets[place].tolist())
        grades = {str(rows.places[item]): 1 for item in wanted if item in rows.places}
        items = [schema.items[item] for item in histories[place].tolist()]
        if grades and items:
            name = schema.users[user] if user >= 0 else f"new {place}"
            lines.append(json.dumps({"id": name, "query": "", "items": items, "grades": grades}, ensure_ascii=False))
    return lines
