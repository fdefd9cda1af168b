"""Which rows of clicks are train, valid and test: the source's own parts, the last in time, whole users, a tenth of
all rows, or rows at random by data.seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from canon.data.kinds.clicks import SPLITS, ClickSource, click_times, click_users
from canon.data.splits import Chosen, choose, held_count, held_out_shares, hold_out
from canon.errors import CanonError, unknown

_TENTHS = 10


def choose_rows(source: ClickSource, config: Any, codes: np.ndarray) -> tuple[Chosen, dict[str, str]]:
    """codes: the class of each training row."""
    if config.split not in SPLITS:
        raise unknown("data.split", config.split, SPLITS[1:])
    if config.tenth is not None:
        return _tenth(source, config, codes)
    has_parts = len(source.parts) > 1
    how = config.split or ("given" if has_parts else "time" if source.time else "random")
    if how in ("given", "random"):
        if how == "given" and not has_parts:
            raise CanonError(f"{source.name} has no parts of its own for data.split = given; give data.test a file.")
        return choose(source, config, codes)
    if how == "time" and not source.time:
        raise CanonError(f"{source.name} has no column of times for data.split = time; name it in data.time.")
    train = source.parts["train"]
    users = click_users(train, source)
    if how == "user" and users is None:
        raise CanonError(f"{source.name} has no column of users for data.split = user; name it in data.user.")
    shares, rule = held_out_shares(config, source)
    chosen: Chosen = {name: (name, np.arange(source.size(name))) for name in rule if name not in shares}
    left = np.arange(len(train))
    for name, share in shares.items():
        if how == "time":
            left, held = _last(left, click_times(train, source.time), share)
            rule[name] = f"the last {share:g} by {source.time}"
        else:
            assert users is not None
            different = np.unique(users[left])
            _, taken = hold_out(len(different), share, config.seed, name)
            inside = np.isin(users[left], different[taken])
            left, held = left[~inside], left[inside]
            rule[name] = f"{share:g} of the users at random"
        chosen[name] = "train", held
    return _limited(chosen, rule, left, codes, config)


def _last(left: np.ndarray, times: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows before a moment and from it on: those of one moment stay together."""
    order = np.sort(times[left])
    moment = order[len(order) - max(held_count(len(order), share), 1)]
    late = times[left] >= moment
    if late.all():
        raise CanonError("All rows have the same time, so none of them is the last; leave data.split = time out.")
    return left[~late], left[late]


def _tenth(source: ClickSource, config: Any, codes: np.ndarray) -> tuple[Chosen, dict[str, str]]:
    order = np.random.RandomState(config.seed & 0xFFFFFFFF).permutation(len(codes))
    folds = np.empty(len(codes), dtype=np.int64)
    folds[order] = np.arange(len(codes)) % _TENTHS
    chosen: Chosen = {"test": ("train", np.flatnonzero(folds == config.tenth))}
    left, rule = np.flatnonzero(folds != config.tenth), {"test": f"tenth {config.tenth} at random"}
    if isinstance(config.valid, float) and config.valid > 0:
        kept, held = hold_out(len(left), config.valid, config.seed, "valid", codes[left])
        chosen["valid"], rule["valid"] = ("train", left[held]), f"{config.valid:g} of each class at random"
        left = left[kept]
    return _limited(chosen, rule, left, codes, config)


def _limited(
    chosen: Chosen, rule: dict[str, str], left: np.ndarray, codes: np.ndarray, config: Any
) -> tuple[Chosen, dict[str, str]]:
    if 0 < config.limit < len(left):
        left = left[hold_out(len(left), config.limit / len(left), config.seed, "limit", codes[left])[1]]
        rule["limit"] = str(config.limit)
    chosen["train"] = "train", left
    return {name: chosen[name] for name in ("train", "valid", "test") if name in chosen}, rule
