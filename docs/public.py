"""The reference of the public names, from their signatures and docstrings.

A line `name: …` of a docstring, with its indented continuation, describes a parameter.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import canon
from canon.use.pipeline.pipeline import Pipeline
from canon.use.search.folder import VectorFolder
from canon.use.vectors import Vectors

# The classes that users meet, and their members that are meant for them.
CLASSES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (canon.Model, ("predict", "evaluate", "recommend", "network", "vectors")),
    (canon.Run, ("open", "recipe", "result", "metrics", "timings", "best", "schema", "settings", "data", "env")),
    (Vectors, ("open", "vector", "neighbors", "similarity", "analogy", "evaluate", "dim")),
    (VectorFolder, ("open", "search", "precision")),
    (Pipeline, ("open", "search")),
    (canon.CanonError, ()),
)
_PARAMETER = re.compile(r"^(\w+): (.*(?:\n    .*)*)$", re.MULTILINE)


def functions() -> list[str]:
    """The names of `canon` that are no classes, in the order in which the page has them."""
    first = ("train", "load", "create", "encode", "search", "build")
    names = [name for name in canon.__all__ if not inspect.isclass(getattr(canon, name))]
    return [*first, *sorted(set(names) - set(first))]


def documented() -> Iterator[tuple[str, Any]]:
    """Everything that the page describes, by the name it has there."""
    for name in functions():
        yield f"canon.{name}", getattr(canon, name)
    for cls, members in CLASSES:
        yield title(cls), cls
        for member in members:
            yield f"{cls.__name__}.{member}", inspect.getattr_static(cls, member)


def title(cls: type) -> str:
    return f"canon.{cls.__name__}" if cls.__name__ in canon.__all__ else cls.__name__


def reference(page: Path) -> str:
    parts = []
    for name, thing in documented():
        level = "##" if name.startswith("canon.") or inspect.isclass(thing) else "###"
        parts.append(f"{level} `{name}`\n")
        if (signature := signature_of(name, thing)) is not None:
            parts.append(f"```text\n{signature}\n```\n")
        parts.append(_markdown(inspect.getdoc(thing) or ""))
    return "\n".join(parts)


def signature_of(name: str, thing: Any) -> str | None:
    """As a call, one parameter in each line if it is long; None for what is not called: a class is opened or made by a
    function."""
    if isinstance(thing, property | cached_property | type):
        return None
    called = inspect.signature(thing.__func__ if isinstance(thing, classmethod) else thing)
    parameters = [one for one in called.parameters.values() if one.name not in ("self", "cls")]
    inputs = [re.sub(r"<function (\w+).*>", r"\1", re.sub(r": '([^']*)'", r": \1", str(one))) for one in parameters]
    kinds = [one.kind for one in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        inputs.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = "" if called.return_annotation is called.empty else called.return_annotation
    end = f" -> {returned}" if returned else ""
    line = f"{name}({', '.join(inputs)}){end}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in inputs), f"){end}"])


def _markdown(text: str) -> str:
    """Paragraphs on one line each, to be wrapped; parameters as a list."""
    parts = []
    for paragraph in re.split(r"\n\n+", inspect.cleandoc(text)):
        if paragraph.startswith("|"):
            parts.append(f"{paragraph}\n")
        elif _PARAMETER.match(paragraph):
            listed = (f"- `{name}`: {' '.join(meaning.split())}\n" for name, meaning in _PARAMETER.findall(paragraph))
            parts.append("".join(listed))
        else:
            head, *rest = re.split(r"\n(?=\w+: )", paragraph, maxsplit=1)
            parts.append(f"{' '.join(head.split())}\n")
            parts += [_markdown(one) for one in rest]
    return "\n".join(parts)
