"""What is held out, what is asked and what is ranked, against the interactions counted one by one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from canon.data.batching.sequences import Uneven
from canon.data.config import DataConfig
from canon.data.encodings.base import Ask
from canon.data.encodings.events import EVENTS, EventSchema
from canon.data.kinds.interactions import INTERACTIONS
from canon.data.schema import Data
from canon.errors import CanonError

Log = list[tuple[str, str, int]]  # user, item, time


def log(users: int = 12, each: int = 8, items: int = 12) -> Log:
    random = np.random.default_rng(0)
    rows: Log = []
    for user in range(users):
        chosen = random.choice(items, each, replace=False)
        rows += [(f"u{user:02}", f"i{item:02}", int(random.integers(978_300_000, 978_400_000))) for item in chosen]
    return rows


def write(path: Path, rows: Log, timed: bool = True) -> Path:
    lines = ["user,item,time" if timed else "user,item"]
    lines += [f"{u},{i},{t}" if timed else f"{u},{i}" for u, i, t in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def fitted(path: Path, **settings: Any) -> Data:
    config = DataConfig(source=str(path), **settings)
    return EVENTS.fit(INTERACTIONS.source(config), config, Ask())


def pairs(data: Data, split: str, column: str = "target") -> set[tuple[str, str]]:
    """The pairs of a split by their names; users that training has not are called ?."""
    schema, columns = data.schema, data.splits[split]
    assert isinstance(schema, EventSchema)
    users = np.asarray(columns["input"])
    if split == "train":
        return {(schema.users[u], schema.items[i]) for u, i in zip(users, np.asarray(columns["item"]), strict=True)}
    lists = columns[column]
    assert isinstance(lists, Uneven)
    names = [schema.users[user] if user >= 0 else "?" for user in users.tolist()]
    return {(name, schema.items[item]) for row, name in enumerate(names) for item in lists[row].tolist()}


def by_time(rows: Log) -> dict[str, list[str]]:
    of: dict[str, list[str]] = defaultdict(list)
    for user, item, _ in sorted(rows, key=lambda row: row[2]):
        of[user].append(item)
    return of


def test_the_last_item_of_each_user(tmp_path: Path) -> None:
    rows = log()
    data = fitted(write(tmp_path / "a.csv", rows))
    order = by_time(rows)
    assert pairs(data, "test") == {(user, items[-1]) for user, items in order.items()}
    assert pairs(data, "valid") == {(user, items[-2]) for user, items in order.items()}
    assert pairs(data, "train") == {(user, item) for user, items in order.items() for item in items[:-2]}
    assert pairs(data, "valid", "history") == pairs(data, "train")
    assert pairs(data, "test", "history") == pairs(data, "train") | pairs(data, "valid")
    assert data.protocol["protocol"] == "loo-full" and data.protocol["split"]["test"] == "the last item of each user"


def test_without_times_a_draw_decides_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", log(), timed=False)
    first, again, other = (fitted(path, seed=seed) for seed in (0, 0, 1))
    assert pairs(first, "test") == pairs(again, "test") != pairs(other, "test")
    assert "drawn by data.seed" in first.protocol["split"]["test"]
    backwards = fitted(write(tmp_path / "b.csv", log()[::-1], timed=False))
    assert pairs(backwards, "test") == pairs(first, "test")  # not the order of lines


def test_equal_times_are_ordered_by_a_draw(tmp_path: Path) -> None:
    rows = [(user, item, 978_300_000) for user, item, _ in log()]
    first, backwards = (fitted(write(tmp_path / f"{n}.csv", each)) for n, each in enumerate((rows, rows[::-1])))
    assert pairs(first, "test") == pairs(backwards, "test")


def test_the_last_of_all_times(tmp_path: Path) -> None:
    rows = sorted(log(), key=lambda row: row[2])
    data = fitted(write(tmp_path / "a.csv", rows), holdout="time", test=0.25, valid=0.1)
    assert data.protocol["protocol"] == "time-full"
    assert pairs(data, "train") == {row[:2] for row in rows[: 96 - 24 - 7]}
    known = {user for user, _, _ in rows[:65]}
    assert pairs(data, "test") == {(user if user in known else "?", item) for user, item, _ in rows[72:]}
    with pytest.raises(CanonError, match=r"data\.holdout = time needs times"):
        fitted(write(tmp_path / "b.csv", rows, timed=False), holdout="time")


def test_some_users(tmp_path: Path) -> None:
    rows = log(20, 10, 20)
    data = fitted(write(tmp_path / "a.csv", rows), holdout="user", test=0.2, valid=0.1)
    schema, order = data.schema, by_time(rows)
    assert isinstance(schema, EventSchema) and len(schema.users) == 14 and data.protocol["protocol"] == "user-full"
    tested = data.splits["test"]
    assert np.asarray(tested["input"]).tolist() == [-1] * 4
    history, target = tested["history"], tested["target"]
    assert isinstance(history, Uneven) and isinstance(target, Uneven)
    lists = {tuple(sorted(items[:8])): set(items[8:]) for user, items in order.items() if user not in schema.users}
    for row in range(4):
        own = tuple(sorted(schema.items[item] for item in history[row]))
        assert {schema.items[item] for item in target[row]} == lists[own]


def test_repeated_pairs_and_lost_items(tmp_path: Path) -> None:
    rows = [*log(), ("u00", "i99", 978_500_000)]  # the last of all, and its item comes nowhere else
    again = [*rows, *((user, item, 978_200_000) for user, item, _ in rows[:5])]
    data = fitted(write(tmp_path / "a.csv", again))
    assert any("5 interactions repeat a pair" in note for note in data.notes)
    assert any("1 of 12 items to be found in the test split are not in training" in note for note in data.notes)
    assert len(np.asarray(data.splits["test"]["input"])) == 11


def test_candidates_are_a_set_with_the_item(tmp_path: Path) -> None:
    rows = log(12, 6, 30)
    data = fitted(write(tmp_path / "a.csv", rows), protocol="loo-sampled-9")
    had = {(user, item) for user, item, _ in rows}
    for split in ("valid", "test"):
        columns = data.splits[split]
        candidates, target = columns["candidates"], columns["target"]
        assert isinstance(candidates, Uneven) and isinstance(target, Uneven)
        for row in range(len(target)):
            assert len(set(candidates[row].tolist())) == len(candidates[row]) == 10
            assert target[row][0] in candidates[row]
    wrong = (pairs(data, "test", "candidates") & had) - pairs(data, "test")
    assert not wrong


def test_given_negatives(tmp_path: Path) -> None:
    rows = log(6, 6, 12)
    order = by_time(rows)
    write(tmp_path / "x.train.csv", [row for row in rows if order[row[0]][-1] != row[1]], timed=False)
    last = [(user, items[-1], 0) for user, items in order.items()]
    write(tmp_path / "x.test.csv", last, timed=False)
    others = {user: [item for item in {i for _, i, _ in rows} if item not in order[user]][:4] for user in order}
    lines = ["\t".join([f"({user},{item})", *others[user], item]) for user, item, _ in last]
    (tmp_path / "x.negative").write_text("\n".join(lines) + "\n")
    data = fitted(tmp_path, protocol="loo-ncf99", valid=0.0)
    assert pairs(data, "test", "candidates") == {(u, i) for u, i, _ in last} | {
        (u, i) for u in others for i in others[u]
    }
    assert list(data.splits) == ["train", "test"] and data.protocol["protocol"] == "loo-ncf99"
    with pytest.raises(CanonError, match=r"has a test part of its own: leave data\.holdout out"):
        fitted(tmp_path, holdout="time")
    with pytest.raises(CanonError, match="judged by loo-full, loo-sampled-N or loo-ncf99"):
        fitted(tmp_path, protocol="time-full")
    with pytest.raises(CanonError, match="needs a file of negatives"):
        fitted(write(tmp_path / "alone.csv", rows), protocol="loo-ncf99")


def test_a_schema_is_read_back(tmp_path: Path) -> None:
    schema = fitted(write(tmp_path / "a.csv", log())).schema
    folder = tmp_path / "run" / "vocab"
    folder.mkdir(parents=True)
    for name, text in schema.files().items():
        (folder / name).write_text(text)
    assert EventSchema.open(folder) == schema
