"""Tables (from TOML, `--set`, keyword arguments) to typed records, with one sentence for each mistake.

Every settings class in canon is made by `settings`; `parse` fills one from a table. A value knows where it came from
(`Origins`), so that a sentence can name the recipe file or the `--set` that holds the mistake.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, Protocol, TypeVar, dataclass_transform, get_type_hints, runtime_checkable

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from canon.errors import CanonError, border, unknown

T = TypeVar("T")
Table = dict[str, Any]
Origins = dict[str, str]  # "train.steps" -> "--set"
SHORT = {"from": "train.init"}  # settings that may be given without their section


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
def settings(cls: type[T]) -> type[T]:
    """Makes a class of annotated fields a frozen, validated record that refuses unknown keys and wrong types."""
    config = ConfigDict(extra="forbid", strict=True, validate_default=True, allow_inf_nan=False)
    record: Any = pydantic_dataclass(kw_only=True, frozen=True, config=config)(cls)
    validate = record.__init__

    @wraps(validate)
    def checked(self: Any, *args: Any, **values: Any) -> None:
        if args:
            raise CanonError(f"Settings are given by name, as in {fields(record)[0].name}=…, got {args[0]!r}.")
        try:
            validate(self, **values)
        except ValidationError as mistake:
            raise _sentence(type(self), mistake, "", {}) from mistake

    record.__init__ = checked
    return record


def parse(cls: type[T], table: Mapping[str, Any], section: str, origins: Origins | None = None) -> T:
    """A record of class `cls` from `table`; a mistake is a CanonError that names `section.key` and its origin."""
    if not isinstance(table, Mapping):
        raise CanonError(f"{section} must be a table of settings, got {table!r}{_origin(section, origins or {})}.")
    try:
        return cls(**{str(key): as_tuples(value) for key, value in table.items()})
    except CanonError as mistake:
        if not isinstance(mistake.__cause__, ValidationError):
            raise
        raise _sentence(cls, mistake.__cause__, section, origins or {}) from None


def read_toml(path: Path) -> Table:
    try:
        with border(path):
            return tomllib.loads(path.read_bytes().decode())
    except CanonError as mistake:
        if isinstance(mistake.__cause__, tomllib.TOMLDecodeError):
            raise CanonError(f"{path} is not valid TOML: {mistake.__cause__}.") from None
        raise


def parse_assignment(text: str) -> tuple[str, Any]:
    """`a.b=1` to ("a.b", 1); the right side is a TOML value, or else taken as plain text."""
    key, equals, value = text.partition("=")
    key = SHORT.get(key.strip(), key.strip())
    if not equals or not key or not all(key.split(".")):
        raise CanonError(f'--set takes section.key=value, as in --set train.steps=100; got "{text}".')
    with border(f"--set {key}"):
        try:
            return key, tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            return key, value.strip()


def assign(table: Table, key: str, value: Any) -> None:
    """Sets `table["a"]["b"]` for key "a.b", making tables on the way."""
    *path, last = key.split(".")
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise CanonError(f"{key} cannot be set: {part} is a value, not a table.")
    table[last] = value


def as_tuples(value: Any) -> Any:
    """TOML's lists as tuples: settings are immutable."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list | tuple) else value


_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "dict_type": "a table",
    "dataclass_type": "a table",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "too_short": "a list of at least {min_length}",
}


def _sentence(cls: type, mistake: ValidationError, section: str, origins: Origins) -> CanonError:
    error = mistake.errors()[0]
    # Branches of a union appear in the location as type names; only what the user wrote is a key or an index.
    parts = [str(part) for part in error["loc"] if not isinstance(part, str) or part.isidentifier()]
    place = [part for part in parts if part.isdigit() or part not in ("str", "int", "float", "bool", "none")]
    key = ".".join([section, *place] if section else place)
    kind, got = error["type"], error["input"]
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        prefix = f"{section}." if section else ""
        return unknown("setting", key, [prefix + field.name for field in fields(cls)])
    if kind == "missing" and place[-1].isdigit():  # a list that ends too soon
        key = key.rpartition(".")[0]
        wanted = f"a list of at least {int(place[-1]) + 1}"
        return CanonError(f"{key} must be {wanted}, got {list(got)!r}{_origin(key, origins)}.")
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
        how = f": give it in the recipe or by --set {key}=…" if section else ""
        return CanonError(f"{key} is missing{how}.")
    if kind == "value_error":
        return CanonError(error["msg"].removeprefix("Value error, "))
    context = error.get("ctx", {})
    if kind == "greater_than" and context["gt"] == 0:
        annotation = get_type_hints(cls, include_extras=True).get(place[0] if place else "", "")
        wanted = "a positive whole number" if "int" in str(annotation) else "a positive number"
    elif kind == "literal_error":
        wanted = f"one of {context['expected'].replace(' or ', ', ')}"
    else:
        wanted = _WANTED[kind].format(**context) if kind in _WANTED else error["msg"].lower()
    return CanonError(f"{key} must be {wanted}, got {got!r}{_origin(key, origins)}.")


def _origin(key: str, origins: Origins) -> str:
    for known in (key, key.rsplit(".", 1)[0]):
        if origins.get(known, "default") != "default":
            return f" (from {origins[known]})"
    return ""


# What settings say. A field is the declaration: a system's Config need not name these as its bases.


@runtime_checkable
class HasShape(Protocol):
    """Of a network that reads arrays."""

    shape: tuple[int, ...]  # of one of them


@runtime_checkable
class HasStem(HasShape, Protocol):
    """Of a network for large images, whose first layers may be those for small ones."""

    stem: Any  # canon.nn.blocks.Stem


@runtime_checkable
class HasClasses(Protocol):
    num_classes: int


@runtime_checkable
class HasKind(Protocol):
    """Of a network that can be asked for several kinds of targets."""

    kind: str  # a target's name; "": the data decides


@runtime_checkable
class HasVocabulary(Protocol):
    vocab_size: int


@runtime_checkable
class HasPositions(Protocol):
    """Of a network that has room for so many tokens."""

    max_positions: int


@runtime_checkable
class Freezes(Protocol):
    """Of a network on a backbone that may stay as it is."""

    frozen: bool


@runtime_checkable
class KnowsBackbone(Protocol):
    """Of what is saved without its backbone."""

    sha256: str  # of the backbone's weights; "" where these are saved too


@runtime_checkable
class StartsFromPrompt(Protocol):
    """Of a prompt that may begin with the vectors of another."""

    start: str  # their folder; "" for new ones
