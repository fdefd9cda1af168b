"""Items for a user of training, or for anyone by the items that one has; and why.

| who | how | scores |
| --- | --- | --- |
| a user of training | trained | the system's own |
| items | fold-in | those of a user with these items, by the items' factors or neighbours as they are |
| nothing that training has | popular | what most users have |

Items that the user is known to have are left out. "because" are those of the user's items that are nearest to one:
by the cosine of their factors, or as neighbours; a system that knows no likeness gives none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from canon.contracts import Recommends
from canon.data.batching.sequences import Uneven
from canon.data.encodings.events import EventSchema
from canon.data.formats.cells import csv_rows
from canon.data.formats.files import encoding_of, whole_lines
from canon.data.formats.layout import layout_of
from canon.errors import CanonError
from canon.use.model import Model

_REASONS = 2  # of the user's items that are named for one that is recommended
_PAIRS = "::"


def recommend(
    model: Model,
    user: str = "",
    items: Sequence[str] = (),
    top: int = 10,
    titles: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The best items: {"user" or "given", "how", "note", "items": [{"rank", "item", "score", "because"}]}.

    titles: names of items to show beside, by their ids."""
    schema, learner = model.schema, model.learner
    if not isinstance(schema, EventSchema) or not isinstance(learner, Recommends):
        raise CanonError(f"{model.run.path} is a run of {model.run.recipe.system.name}, which recommends nothing.")
    if bool(user) == bool(len(items)):
        raise CanonError("Name a user, or items, one of both.")
    if top < 1:
        raise CanonError(f"top must be a positive whole number, got {top}.")
    place = schema.users.index(user) if user in schema.users else -1
    codes, unknown = _codes(schema, items)
    notes = [f"not in training: {', '.join(unknown)}"] if unknown else []
    if place >= 0:
        how, scores_I, history = "trained", *_of_user(model, place)
    elif len(codes):
        how, history = "fold-in", codes
        scores_I = learner.fold_in(Uneven(codes, np.array([len(codes)])))[0]
    else:
        how, history, scores_I = "popular", codes, np.log1p(np.array(schema.counts, np.float32))
        notes.append("nothing is known of this user, so these are the items that most users have")
    scores_I = scores_I.astype(np.float64)
    scores_I[history] = -np.inf
    best = np.argsort(-scores_I, kind="stable")[:top]
    best = best[np.isfinite(scores_I[best])]
    reasons = _reasons(learner, best, history) if how != "popular" else [[] for _ in best]
    rows = []
    for rank, (item, near) in enumerate(zip(best.tolist(), reasons, strict=True), start=1):
        name = schema.items[item]
        row = {"rank": rank, "item": name, **_title(titles, name), "score": float(scores_I[item])}
        rows.append({**row, "because": [(titles or {}).get(schema.items[i], schema.items[i]) for i in near]})
    asked: dict[str, Any] = {"user": user} if user else {"given": list(items)}
    return {**asked, "how": how, "note": "; ".join(notes), "items": rows}


def _codes(schema: EventSchema, items: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """The items that training has, rising, and the names of the others."""
    index = {name: place for place, name in enumerate(schema.items)} if items else {}
    known = sorted({index[name] for name in items if name in index})
    return np.array(known, np.int32), [name for name in items if name not in index]


def _of_user(model: Model, place: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all items, and the items that the user is known to have."""
    learner: Any = model.learner
    rows = np.array([place])
    return learner.scores(rows, learner.seen.take(rows))[0], learner.known[place]


def _reasons(learner: Recommends, best: np.ndarray, history: np.ndarray) -> list[list[int]]:
    """For each item those of the user's that are most like it."""
    if not len(history) or not len(best):
        return [[] for _ in best]
    alike_KH = learner.alike(best)[:, history]
    order_KH = np.argsort(-alike_KH, axis=1, kind="stable")[:, :_REASONS]
    return [
        [int(history[place]) for place in order.tolist() if alike[place] > 0]
        for order, alike in zip(order_KH, alike_KH, strict=True)
    ]


def _title(titles: Mapping[str, str] | None, name: str) -> dict[str, str]:
    return {} if titles is None else {"title": titles.get(name, "")}


def read_titles(path: Path) -> dict[str, str]:
    """Names of items by their ids: the first two columns of a file, as u.item, movies.dat or movies.csv have them."""
    encoding = encoding_of(path)
    first = next(whole_lines(path, encoding), "")
    if _PAIRS in first:
        rows = (line.rstrip("\n").split(_PAIRS) for line in whole_lines(path, encoding))
    else:
        layout = layout_of(path, encoding, "", table=True)
        delimiter = "|" if first.count("|") > 1 else layout.delimiter if layout else ","
        rows = (cells for _, cells in csv_rows(path, encoding, delimiter, layout.skip if layout else 0))
    titles = {cells[0].strip(): cells[1].strip() for cells in rows if len(cells) > 1}
    if not titles:
        raise CanonError(f"{path} has no titles: each line is an item's id, then its title.")
    return titles
