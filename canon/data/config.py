"""The [data] section of a recipe: common settings, and those of every kind and encoding in one class.

A recipe may give those of its system: `settings_of` lists the settings of encodings and of the kinds that they read. A
setting of another kind or encoding is an error that says whose it is (canon/recipe.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from canon.config import settings
from canon.data.encodings import ENCODINGS, Encoding
from canon.data.kinds import KINDS
from canon.data.settings import Common

_FORMATS = ("auto", *(name for kind in KINDS for name in kind.formats))
_COMMON = {field.name for field in fields(Common)}
_CLASSES = tuple(dict.fromkeys([*(kind.settings for kind in KINDS), *(each.settings for each in ENCODINGS)]))
# A class goes before those that it is made of.
_BASES = tuple(cls for cls in _CLASSES if not any(other is not cls and issubclass(other, cls) for other in _CLASSES))

if TYPE_CHECKING:
    DataConfig = Any
else:
    DataConfig = settings(
        type(
            "DataConfig",
            _BASES,
            {
                "__annotations__": {"format": Literal[_FORMATS]},
                "format": Common.__pydantic_fields__["format"],
                "__module__": __name__,
            },
        )
    )


def settings_of(encodings: Iterable[Encoding]) -> set[str]:
    """The names of the settings that data for these encodings may have."""
    classes = [cls for each in encodings for cls in (each.settings, *(kind.settings for kind in each.reads))]
    return {field.name for cls in classes for field in fields(cls)}


def owners(name: str) -> str:
    """The kinds and encodings that have a setting, for a sentence."""
    holders = {cls for cls in _CLASSES if name in {field.name for field in fields(cls)} - _COMMON}
    kinds = [kind.plural for kind in KINDS if kind.settings in holders]
    names = [each.name for each in ENCODINGS if each.settings in holders]
    if names:
        kinds.append(f"the encoding{'s' if names[1:] else ''} {_and(names)}")
    return _and(kinds)


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def is_layout(name: str) -> bool:
    """Whether a setting describes one file, so that it does not go with another."""
    return bool(DataConfig.__pydantic_fields__[name].json_schema_extra)
