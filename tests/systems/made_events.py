"""Made interactions: users who mostly take items of their own group, and learners of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from canon import registry
from canon.contracts import Context
from canon.data.encodings.events import EventSchema
from canon.data.schema import Columns, Data


def events(num_users: int = 30, num_items: int = 24, each: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Users and items, by both: two of three items are of the user's group, low items come more often."""
    random = np.random.default_rng(seed)
    pairs = set()
    for user in range(num_users):
        weight = np.where(np.arange(num_items) % 3 == user % 3, 6.0, 1.0) / (1 + np.arange(num_items) / 6)
        pairs |= {(user, int(item)) for item in random.choice(num_items, each, replace=False, p=weight / weight.sum())}
    users, items = zip(*sorted(pairs), strict=True)
    return np.array(users, np.int32), np.array(items, np.int32)


def data_of(
    users: np.ndarray, items: np.ndarray, ratings: np.ndarray | None = None, sizes: tuple[int, int] | None = None
) -> Data:
    num_users, num_items = sizes or (int(users.max()) + 1, int(items.max()) + 1)
    schema = EventSchema(
        users=tuple(f"u{user}" for user in range(num_users)),
        items=tuple(f"i{item}" for item in range(num_items)),
        counts=tuple(np.bincount(items, minlength=num_items).tolist()),
    )
    train: Columns = {"input": users, "item": items}
    if ratings is not None:
        train = {**train, "rating": ratings.astype(np.float32)}
    return Data("made", schema, {"train": train})


def learner_of(name: str, data: Data, batch: int = 0, steps: int = 1, seed: int = 1, **settings: Any) -> Any:
    system, _ = registry.find(name)
    assert isinstance(data.schema, EventSchema)
    config = system.configure("", {**data.schema.sizes(), **settings})
    learner = system.load()[1](config, Context(schema=data.schema, seed=seed))
    learner.begin(data, batch or len(np.asarray(data.splits["train"]["input"])), steps)
    learner.threads = 1
    return learner
