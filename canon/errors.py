"""The one shape of error that users see.

A `CanonError` is a user's mistake told in one sentence: what is wrong, where (recipe key, or file and line),
what is accepted, what to do. The command line prints it and exits with code 2; nothing else is caught there,
so a traceback always means a bug of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


class CanonError(ValueError):
    """A user's mistake, told in one sentence."""


def unknown(what: str, name: str, known: Iterable[str]) -> CanonError:
    """The sentence for a name that is not in a list: the nearest right one, or all of them when there are few."""
    names = sorted(known)
    near = _nearest(name, names)
    if near:
        hint = f"did you mean {near}?"
    elif names and len(names) <= 12:
        hint = f"there are: {', '.join(names)}."
    else:
        hint = f"there are {len(names)} of them."
    return CanonError(f'No {what} "{name}"; {hint}')


def _nearest(name: str, names: list[str]) -> str:
    """The known name with the nearest number where only a number differs, else the one most alike; "" for none."""
    numbers = {}
    words = re.split(r"([0-9]+)", name)  # resnet:35 is "resnet:", "35", "": every second one is a number
    for other in names:
        parts = re.split(r"([0-9]+)", other)
        pairs = list(zip(words[1::2], parts[1::2], strict=False))
        differing = [(ours, theirs) for ours, theirs in pairs if ours != theirs]
        if words[::2] == parts[::2] and len(differing) == 1:
            ours, theirs = differing[0]
            numbers[other] = abs(int(ours) - int(theirs))
    if numbers:
        return min(numbers, key=numbers.__getitem__)
    return next(iter(get_close_matches(name, names, n=1, cutoff=0.6)), "")
