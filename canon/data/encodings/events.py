"""Events: interactions as numbers of users and items of the training part, and what each user is to be asked.

A training row is an event: "input" its user, "item" its item, "rating" where there are ratings. A row of another split
is a user: "input" the user (−1: not in training), "history" the items that it has already, which are not ranked,
"target" the items to be found, and with a sampled protocol "candidates", the only items that are ranked.

| protocol | asked | ranked |
| --- | --- | --- |
| loo-full | the last item of each user | all items that the user has not |
| loo-sampled-N | the same | the item and N others, drawn by data.seed |
| loo-ncf99 | the same | the item and those of the file of negatives, as a set |
| time-full | all items of a user after a moment | all items that the user has not |
| user-full | the last fifth of the items of users that training has not | all others |
| given-full | the items of the test file | all items that the user has not |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, PlainValidator

from canon.config import settings
from canon.data.batching import held_out
from canon.data.batching.held_out import TEST, TRAIN, VALID
from canon.data.batching.sequences import Uneven
from canon.data.encodings.base import Ask, Encoding, Inputs, finish, texts_of
from canon.data.formats.files import lines
from canon.data.formats.interactions import Interactions
from canon.data.kinds.interactions import INTERACTIONS, InteractionSource
from canon.data.records import Given
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Common
from canon.data.source import Source
from canon.data.targets import Nothing
from canon.errors import CanonError

_PROTOCOL = re.compile(r"auto|loo-full|loo-ncf99|loo-sampled-([1-9]\d{0,6})|time-full|user-full|given-full")
_CANDIDATES = ("loo-ncf99", "loo-sampled-")


def _protocol(value: Any) -> Any:
    if isinstance(value, str) and _PROTOCOL.fullmatch(value):
        return value
    raise ValueError(
        "data.protocol must be loo-full, loo-ncf99, loo-sampled-N (as loo-sampled-99), time-full, user-full or "
        f"given-full, got {value!r}."
    )


@settings
class EventSettings(Common):
    holdout: Literal["auto", "leave-one-out", "time", "user", "given"] = Field(
        default="auto",
        description="what is tested: the last item of each user, the last share of all interactions, a share of the "
        "users, or what the test file gives; auto: the test file, else the last item of each user",
    )
    protocol: Annotated[str, PlainValidator(_protocol)] = Field(
        default="auto",
        description="which items are ranked: loo-full, loo-sampled-N, loo-ncf99, time-full, user-full, given-full; "
        "auto: all that a user has not",
    )


@dataclass(frozen=True)
class EventSchema(Schema):
    encoding = "events"
    users: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()  # training events of each item
    protocol: str = "loo-full"
    rated: bool = False

    def sizes(self) -> dict[str, Any]:
        return {"num_users": len(self.users), "num_items": len(self.items)}

    def unit(self, columns: Columns) -> tuple[float, str]:
        return 1.0, "events"

    def shown(self, inputs: Any, row: int) -> str:
        return self.users[inputs[row]] if inputs[row] >= 0 else ""

    def _added(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("users", "items", "counts", "protocol", "rated")}


class EventPairs(NamedTuple):
    """Different interactions by user, then item; of a pair that comes again the latest is kept."""

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray | None
    times: np.ndarray | None

    def where(self, mask: np.ndarray) -> EventPairs:
        return EventPairs(*(None if each is None else each[mask] for each in self))  # type: ignore[arg-type]


class Held(NamedTuple):
    """What a split asks: its pairs, and which of them are only known, not asked."""

    pairs: EventPairs
    asked: np.ndarray


class EventEncoding(Encoding):
    reads = (INTERACTIONS,)
    settings = EventSettings
    schema = EventSchema
    causes = (
        "too few interactions, or too few epochs (train.epochs, system.lr)",
        "columns may be mistaken for each other (data.user, data.item)",
        "interactions that count may be few or mixed up with dislikes (data.positive)",
    )
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        assert isinstance(source, InteractionSource)
        config = replace(config, holdout=_holdout(source, config))
        parts, notes, rule = _split(source, config)
        train = parts.pop("train").pairs
        if 0 < config.limit < len(train.users):
            rows = held_out.permutation(len(train.users), config.seed, "limit")[: config.limit]
            train = train.where(np.isin(np.arange(len(train.users)), rows))
            rule["limit"] = str(config.limit)
        user_code, users = _vocabulary(train.users, source.users)
        item_code, items = _vocabulary(train.items, source.items)
        train = train._replace(users=user_code[train.users], items=item_code[train.items])
        protocol = _protocol_for(config, source, parts)
        counts = np.bincount(train.items, minlength=len(items))
        schema = EventSchema(
            Nothing(), users=users, items=items, counts=tuple(counts.tolist()), protocol=protocol,
            rated=train.ratings is not None,
        )  # fmt: skip
        splits: dict[str, Columns] = {"train": {"input": train.users, "item": train.items}}
        if train.ratings is not None:
            splits["train"] = {**splits["train"], "rating": train.ratings}
        seen = (train.users, train.items)
        for name in ("valid", "test"):
            if name not in parts:
                continue
            held = parts[name]
            coded = held.pairs._replace(users=user_code[held.pairs.users], items=item_code[held.pairs.items])
            known = coded.items >= 0
            lost = int(np.count_nonzero(held.asked & ~known))
            if lost:
                of = f"{lost:,} of {int(held.asked.sum()):,} items to be found in the {name} split"
                notes.append(f"{of} are not in training, so no system can find them: they are left out.")
            # Users that training does not have come after those that it has.
            keys = np.where(coded.users >= 0, coded.users, len(users) + held.pairs.users).astype(np.int32)
            asked = held.asked & known
            if not asked.any():
                raise CanonError(
                    f"{source.name}: no item to be found in the {name} split is in training, as where every item comes "
                    "once; give more interactions, or name other columns by data.user and data.item."
                )
            columns = _asked(keys, coded.items, coded.ratings, asked, known & ~held.asked, seen, len(users))
            splits[name] = _with_candidates(columns, name, protocol, source, config, user_code, item_code)
            of_known = asked & (coded.users >= 0)
            seen = (np.append(seen[0], coded.users[of_known]), np.append(seen[1], coded.items[of_known]))
        how = {"seed": config.seed, "holdout": config.holdout, "protocol": protocol}
        notes.append(f"Protocol {protocol}: {_PROTOCOLS[_family(protocol)]} (data.protocol).")
        named = f"{len(users):,} users, {len(items):,} items"
        return finish(
            source, schema, splits, rule, config, notes, protocol=how, examples="Events of training, users of others",
            remark=f"; {named} in training",
        )  # fmt: skip

    # For a run that was trained

    def columns(self, schema: EventSchema, source: Source, config: Any) -> Columns:
        """The users of the file, and their items to be found; the run knows what they have already."""
        assert isinstance(source, InteractionSource)
        pairs, _ = _pairs(source.scored(), len(source.items))
        users, items = (
            np.array([index.get(name, -1) for name in names], np.int32)
            for index, names in ((_index(schema.users), source.users), (_index(schema.items), source.items))
        )
        asked = items[pairs.items] >= 0
        if not asked.any():
            raise CanonError(f"{source.name} has no item that the run was trained on.")
        keys = np.where(users[pairs.users] >= 0, users[pairs.users], len(schema.users) + pairs.users)
        nothing = (np.zeros(0, np.int32), np.zeros(0, np.int32))
        columns = _asked(keys, items[pairs.items], pairs.ratings, asked, ~asked, nothing, len(schema.users))
        return {name: column for name, column in columns.items() if name != "history"}

    def inputs(self, schema: EventSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """Users: arguments, one on each line of a file, or a column "user" of rows."""
        names, labels = texts_of(
            sources,
            text,
            lambda path: ((line.strip() for line in lines(path, config.encoding) if line.strip()), "line"),
            lambda rows: rows.texts(("user", "user_id", "userid")),
        )
        index = _index(schema.users)
        return {"input": np.array([index.get(name.strip(), -1) for name in names], np.int32)}, labels


EVENTS = EventEncoding()

_PROTOCOLS = {
    "loo-full": "one item of each user is ranked among all items that the user has not",
    "loo-ncf99": "one item of each user is ranked among those of the file of negatives, each once",
    "loo-sampled": "one item of each user is ranked among so many that are drawn",
    "time-full": "later items are ranked among all items that the user has not",
    "user-full": "the last items of users that training has not are ranked among all others",
    "given-full": "the items of the test file are ranked among all items that the user has not",
}


def _family(protocol: str) -> str:
    return "loo-sampled" if protocol.startswith("loo-sampled") else protocol


def _index(names: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _holdout(source: InteractionSource, config: Any) -> str:
    has_test = "test" in source.parts
    natural = "given" if has_test else "leave-one-out"
    if config.holdout == "auto":
        return natural
    if has_test != (config.holdout == "given"):
        what = "has a test part of its own" if has_test else "has no test part"
        raise CanonError(f"data.holdout is {config.holdout}, but {source.name} {what}: leave data.holdout out.")
    return str(config.holdout)


def _protocol_for(config: Any, source: InteractionSource, parts: dict[str, Held]) -> str:
    single = "test" not in parts or int(np.bincount(parts["test"].pairs.users[parts["test"].asked]).max()) == 1
    loo = config.holdout == "leave-one-out" or (config.holdout == "given" and single)
    natural = "loo-full" if loo else f"{config.holdout}-full"
    if config.protocol in ("auto", natural):
        return natural
    chosen = str(config.protocol)
    if not loo or not chosen.startswith(_CANDIDATES):
        fit = "loo-full, loo-sampled-N or loo-ncf99" if loo else natural
        raise CanonError(f"data.protocol is {chosen}, but what is held out here can be judged by {fit}.")
    if chosen == "loo-ncf99" and source.negatives is None:
        raise CanonError("data.protocol = loo-ncf99 needs a file of negatives (data.negatives), as (user,item), items.")
    return chosen


def _pairs(rows: Interactions, num_items: int) -> tuple[EventPairs, int]:
    """Sorted, each once; and how many came again."""
    last_N = _latest(rows, num_items)
    ratings, times = (None if each is None else each[last_N] for each in (rows.ratings, rows.times))
    return EventPairs(rows.users[last_N], rows.items[last_N], ratings, times), len(rows) - len(last_N)


def _latest(rows: Interactions, num_items: int) -> np.ndarray:
    """The row of the latest interaction of each pair of a user and an item, in the order of users and items."""
    keys_N = rows.users.astype(np.int64) * num_items + rows.items
    later = [each for each in (rows.ratings, rows.times) if each is not None]
    order_N = np.lexsort((*later, keys_N)) if later else np.argsort(keys_N, kind="stable")
    keys_N = keys_N[order_N]
    return order_N[np.append(keys_N[1:] != keys_N[:-1], True)]


def _split(source: InteractionSource, config: Any) -> tuple[dict[str, Held], list[str], dict[str, str]]:
    """The pairs of each split, notes, and the rule for each split."""
    notes: list[str] = []
    pairs, again = _pairs(source.parts["train"], len(source.items))
    if again:
        notes.append(f"{again:,} interactions repeat a pair of user and item; the latest of each pair is kept.")
    rule: dict[str, str] = {}
    given = {name: _pairs(rows, len(source.items))[0] for name, rows in source.parts.items() if name != "train"}
    for name, held in given.items():
        rule[name] = f"file {source.origin[name]}" if name in source.origin else "the source's own"
        keys, ours = (each.users.astype(np.int64) * len(source.items) + each.items for each in (held, pairs))
        both = np.isin(keys, ours)
        if both.any():
            notes.append(f"{int(both.sum()):,} interactions of the {name} part are in training too: they are left out.")
            given[name] = held.where(~both)
        if both.all():
            raise CanonError(f"{source.name}: every interaction of the {name} part is in training too.")
    test = config.test if isinstance(config.test, float) else source.test
    valid = config.valid if isinstance(config.valid, float) and "valid" not in given else 0.0
    test = 0.0 if "test" in given else test
    part_N = _parts_of(source, config, pairs, valid, test, rule)
    train = pairs._replace(times=None).where(part_N == TRAIN)  # whose times are not asked for again
    parts = {"train": Held(train, np.zeros(0, bool))}
    for name, code in (("valid", VALID), ("test", TEST)):
        if name in given:
            parts[name] = Held(given[name], np.ones(len(given[name].users), bool))
        elif (part_N == code).any():
            chosen = pairs.where(part_N == code)
            asked = np.ones(len(chosen.users), bool)
            if config.holdout == "user":
                asked = held_out.are_targets(chosen.users, chosen.times, config.seed)
            parts[name] = Held(chosen, asked)
    if not len(parts["train"].pairs.users):
        raise CanonError(f"{source.name} has too few interactions: none is left to learn from.")
    return parts, notes, rule


def _parts_of(
    source: InteractionSource, config: Any, pairs: EventPairs, valid: float, test: float, rule: dict[str, str]
) -> np.ndarray:
    """The part of each pair of the training file."""
    chance = "" if pairs.times is not None else " one drawn by data.seed, for there are no times:"
    if config.holdout in ("leave-one-out", "given"):
        last = "item" if chance else "last item"
        if valid:
            before = "" if chance or not test else ", before that of the test split"
            rule["valid"] = f"{chance.strip()} {'an' if chance else 'the'} {last} of each user{before}".strip()
        if test:
            rule["test"] = f"{chance.strip()} {'an' if chance else 'the'} {last} of each user".strip()
        return held_out.last_of_each(pairs.users, pairs.times, config.seed, valid > 0, test > 0)
    if config.holdout == "user":
        rule |= {name: f"{share:g} of the users" for name, share in (("valid", valid), ("test", test)) if share}
        return held_out.some_users(pairs.users, config.seed, valid, test)
    if pairs.times is None:
        raise CanonError(
            f"data.holdout = time needs times, which {source.name} has not (data.time names their column)."
        )
    rule |= {name: f"the last {share:g} of all times" for name, share in (("valid", valid), ("test", test)) if share}
    return held_out.last_of_all(pairs.times, config.seed, valid, test)


def _vocabulary(codes_N: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The place of each name among those of training, −1 for others; and these names."""
    used = np.zeros(len(names), bool)
    used[codes_N] = True
    places = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    return places, tuple(names[place] for place in np.flatnonzero(used).tolist())


def _asked(
    keys: np.ndarray,
    items: np.ndarray,
    ratings: np.ndarray | None,
    asked: np.ndarray,
    shown: np.ndarray,
    seen: tuple[np.ndarray, np.ndarray],
    num_users: int,
) -> dict[str, Any]:
    """A row for each user with a question; keys from `num_users` on are users who are not in the training set.

    shown: what else is known about them. seen: users and items of what came before."""
    users, row = np.unique(keys[asked], return_inverse=True)
    row_of = np.full(int(max(keys.max(), num_users)) + 1, -1)
    row_of[users] = np.arange(len(users))

    def lists(of: np.ndarray, values: np.ndarray) -> Uneven:
        pairs = row_of[of]  # row · 2³² + value, sorted in place: there may be as many as in training
        pairs <<= 32
        pairs |= values
        pairs.sort()
        bounds = np.searchsorted(pairs, np.arange(len(users) + 1) << 32)
        return Uneven(pairs[bounds[0] :].astype(np.int32), np.diff(bounds))

    targets = lists(keys[asked], items[asked])
    history = lists(np.append(seen[0], keys[shown]), np.append(seen[1], items[shown]))
    columns: dict[str, Any] = {"input": np.where(users < num_users, users, -1).astype(np.int32)}
    columns |= {"history": history, "target": targets}
    if ratings is not None:
        order = np.lexsort((items[asked], row))
        columns["rating"] = Uneven(ratings[asked][order], targets.lengths)
    return columns


def _with_candidates(
    columns: dict[str, Any],
    name: str,
    protocol: str,
    source: InteractionSource,
    config: Any,
    user_code: np.ndarray,
    item_code: np.ndarray,
) -> dict[str, Any]:
    """The items that are ranked, where these are not all: of the validation split always as many that are drawn."""
    if not protocol.startswith(_CANDIDATES):
        return columns
    count = 99 if protocol == "loo-ncf99" else int(protocol.rpartition("-")[2])
    history, target = columns["history"], columns["target"]
    if protocol != "loo-ncf99" or name != "test":
        seen = [history[row] for row in range(len(history))]
        rows = held_out.sampled(seen, target.tokens, int((item_code >= 0).sum()), count, config.seed)
        candidates = Uneven(np.concatenate(rows), np.array(list(map(len, rows)), np.int64))
        return {**columns, "candidates": candidates}
    assert source.negatives is not None
    given = source.negatives
    place = {user: row for row, user in enumerate(user_code[given.users].tolist())}
    if lacking := [user for user in columns["input"].tolist() if user not in place]:
        raise CanonError(f"{len(lacking):,} users of the test part have no line in the file of negatives.")
    chosen = given.items.take(np.array([place[user] for user in columns["input"].tolist()]))
    codes = item_code[chosen.tokens]
    kept = codes >= 0
    owner = np.repeat(np.arange(len(chosen)), chosen.lengths)[kept]
    return {**columns, "candidates": Uneven(codes[kept], np.bincount(owner, minlength=len(chosen)))}
