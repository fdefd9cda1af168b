"""The one shape of error that users see.

A `CanonError` is a user's mistake told in one sentence: what is wrong, where (recipe key, or file and line),
what is accepted, what to do. The command line prints it and exits with code 2; nothing else is caught there,
so a traceback always means a bug of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CanonError(ValueError):
    """A user's mistake, told in one sentence."""


def unknown(what: str, name: str, known: Iterable[str]) -> CanonError:
    """The sentence for a name that is not in a list: the nearest right one, or all of them when there are few."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        hint = f"did you mean {near[0]}?"
    elif names and len(names) <= 12:
        hint = f"there are: {', '.join(names)}."
    else:
        hint = f"there are {len(names)} of them."
    return CanonError(f'No {what} "{name}"; {hint}')
