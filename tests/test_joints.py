"""The joints of the house are objects, not strings: what the syntax trees of all files say.

Kinds of data, encodings and targets are asked for by their objects or classes; abilities of networks, learners, tasks
and columns are declared. Only a name's own module compares it as a text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from canon.data.encodings import ENCODINGS
from canon.data.kinds import KINDS
from canon.data.targets import TARGETS

PACKAGE = Path(__file__).parent.parent / "canon"
FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = {kind.name for kind in KINDS} | {encoding.name for encoding in ENCODINGS} | set(TARGETS)
# What a text is compared with, by the last word of its name: the others are texts of another sense.
JOINTS = {"kind", "kinds", "target", "targets", "encoding", "encodings", "input", "inputs", "reads", "task"}
# Objects that are not ours, which may or may not have something.
FOREIGN = {
    "canon/data/catalogue/builtin.py",  # scikit-learn's bunches, nodes of Python's syntax trees
    "canon/data/catalogue/__init__.py",  # errors of urllib
    "canon/data/corpus/cooccurrence.py",  # what an operating system has
    "canon/data/corpus/threads.py",
    "canon/interop/vectors_stream.py",
    "canon/nn/limits.py",
    "canon/training/run.py",
    "canon/metrics/_checks.py",  # arrays of any library
    "canon/nn/packed.py",  # operators of this build of torch
    "canon/optim/clipping.py",  # shards of tensors
    "canon/optim/create.py",
    "canon/training/sharding.py",
}
TABLES = {"canon/data/catalogue/sets.py"}
MOST_LINES = 450


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def texts(node: ast.expr) -> Iterator[str]:
    """The texts that an operand of a comparison is or holds."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def last_word(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call | ast.Subscript):
        return last_word(node.func if isinstance(node, ast.Call) else node.value)
    return ""


def compared_names(tree: ast.Module) -> list[tuple[int, str]]:
    """Names of kinds, encodings and targets that something is compared with."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = {last_word(side).lstrip("_") for side in sides}
            if words & JOINTS:
                found += [(node.lineno, text) for side in sides for text in texts(side) if text in NAMES]
    return found


def looked_up(tree: ast.Module) -> list[tuple[int, str]]:
    """Attributes that are asked for by a literal name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            attribute = node.args[1] if len(node.args) > 1 else None
            if isinstance(attribute, ast.Constant):
                found.append((node.lineno, str(attribute.value)))
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_name_of_a_joint_is_compared(path: Path) -> None:
    assert compared_names(parsed(path)) == []


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path) not in FOREIGN], ids=name_of)
def test_abilities_are_declared(path: Path) -> None:
    assert looked_up(parsed(path)) == []


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path) not in TABLES], ids=name_of)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_a_class_name_means_one_thing() -> None:
    """A system's settings alone are called Config in every system's file."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and node.name != "Config":
                places.setdefault(node.name, []).append(name_of(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_walk_sees_what_it_should() -> None:
    tree = ast.parse('if schema.target in ("class", "x") or self._kind == "table" or text == "table": hasattr(a, "b")')
    assert compared_names(tree) == [(1, "class"), (1, "table")]
    assert looked_up(tree) == [(1, "b")]
