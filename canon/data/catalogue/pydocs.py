"""The running Python's standard library for a search engine: documents, queries, and which document answers which.

A document is a module, class, function or method. Its title is its name, its address the modules and classes that it is
in, its body the source without the first line of its docstring; methods of a class, and what a module holds, are
documents of their own, of which the class and the module have the names alone. A document links to what it names in its
own module or class; its anchors are the names of what links to it.
A query is the first line of a docstring, where it has three words at least and no other object begins so. The object
has relevance 2, all others of its module 1. Modules, and so queries, are in one split alone, by a hash of their names.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.catalogue import builtin
from canon.data.formats.documents import FieldedDocuments
from canon.data.progress import bar

FEWEST_WORDS = 3  # of a query
OBJECT, MODULE = 2, 1  # relevance
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class _Object:
    name: str  # json.decoder.JSONDecoder.decode
    module: str
    kind: str
    lines: int
    query: str
    body: str
    inside: tuple[str, ...]  # names of what is in it
    named: set[str]  # what its source names


@dataclass(frozen=True)
class SearchData:
    """Documents, and judged queries by split."""

    documents: FieldedDocuments
    queries: dict[str, dict[str, str]] = field(default_factory=dict)  # split -> query -> text
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)  # query -> document -> relevance


def pydocs() -> SearchData:
    objects = list(_objects())
    places: dict[str, int] = {}
    for place, one in enumerate(objects):
        places.setdefault(one.name, place)
    links = sorted(_links(objects, places))
    anchors: list[list[str]] = [[] for _ in objects]
    for start, stop in links:
        anchors[stop].append(_apart(objects[start].name.rpartition(".")[2]))
    ids = [one.name if places[one.name] == place else f"{one.name}#{place}" for place, one in enumerate(objects)]
    fields = {
        "body": [one.body for one in objects],
        "anchor": [" ".join(names) for names in anchors],
        "title": [_apart(one.name.rpartition(".")[2]) for one in objects],
        "url": [one.name.replace(".", "/") for one in objects],
    }
    more: dict[str, list[Any]] = {name: [vars(one)[name] for one in objects] for name in ("module", "kind", "lines")}
    documents = FieldedDocuments(ids, fields, np.array(links, dtype=np.int64).reshape(-1, 2).T, more)
    return SearchData(documents, *_judged(objects, ids))


def _judged(objects: list[_Object], ids: list[str]) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, int]]]:
    times: dict[str, int] = {}
    members: dict[str, list[str]] = {}
    for one, name in zip(objects, ids, strict=True):
        times[one.query] = times.get(one.query, 0) + 1
        members.setdefault(one.module, []).append(name)
    queries: dict[str, dict[str, str]] = {"train": {}, "valid": {}, "test": {}}
    qrels: dict[str, dict[str, int]] = {}
    for one, name in zip(objects, ids, strict=True):
        if len(one.query.split()) >= FEWEST_WORDS and times[one.query] == 1:
            queries[split_of_module(one.module)][name] = one.query
            qrels[name] = dict.fromkeys(members[one.module], MODULE) | {name: OBJECT}
    return queries, qrels


def split_of_module(module: str) -> str:
    """Six tenths of modules are for training, two each for validation and test."""
    share = zlib.crc32(module.encode()) % 10
    return "train" if share < 6 else "valid" if share < 8 else "test"


def _objects() -> Iterator[_Object]:
    root = Path(sysconfig.get_path("stdlib"))
    paths = list(builtin._modules())
    with bar("reading Python", len(paths)) as progress:
        for path in paths:
            progress.advance()
            parts = path.relative_to(root).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8", errors="replace")
            try:
                tree = ast.parse(text)
            except SyntaxError:
                continue
            lines = text.split("\n")
            waiting: list[tuple[_Scope, str]] = [(tree, module)]
            while waiting:
                node, name = waiting.pop(0)
                inside = [
                    child
                    for child in node.body
                    if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                ]
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    inside = []
                yield _described(node, name, module, lines, inside)
                waiting += [(child, f"{name}.{child.name}") for child in inside]


def _described(node: _Scope, name: str, module: str, lines: list[str], inside: list[Any]) -> _Object:
    docstring = ast.get_docstring(node) or ""
    first, _, rest = docstring.strip().partition("\n")
    whole = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    kinds = {ast.Module: "module", ast.ClassDef: "class"}
    names = tuple(child.name for child in inside)
    # The lines of a function; of others those of their own statements, with the names of what they hold.
    statements = [child for child in node.body if child not in inside and not _is_docstring(node, child)]
    source = "\n".join("\n".join(lines[one.lineno - 1 : one.end_lineno]) for one in statements)
    head = ast.unparse(node.args) if whole else " ".join(names)  # type: ignore[union-attr]
    used = {
        part.id if isinstance(part, ast.Name) else part.attr
        for one in statements
        for part in ast.walk(one)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    size = len(lines) if isinstance(node, ast.Module) else (node.end_lineno or node.lineno) - node.lineno + 1
    kind = kinds.get(type(node), "function")
    return _Object(name, module, kind, size, " ".join(first.split()), _apart(f"{head}\n{rest}\n{source}"), names, used)


def _is_docstring(node: _Scope, child: ast.stmt) -> bool:
    return child is node.body[0] and isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)


def _apart(text: str) -> str:
    """The words of identifiers apart: JSONDecoder is JSON Decoder."""
    return _CAMEL.sub(" ", text).replace("_", " ")


def _links(objects: list[_Object], places: dict[str, int]) -> set[tuple[int, int]]:
    """From each object to what it holds or names of its own module, or of the class that it is in."""
    links = set()
    for start, one in enumerate(objects):
        parent = one.name.rpartition(".")[0]
        names = [f"{one.name}.{name}" for name in one.inside]
        names += [f"{scope}.{name}" for name in one.named for scope in {one.module, parent}]
        links |= {(start, places[name]) for name in names if name in places and places[name] != start}
    return links
