"""The joints of the house are objects, not strings: what the syntax trees of all files say.

Kinds of data, encodings and targets are asked for by their objects or classes; abilities of networks, learners, tasks
and columns are declared. Only a name's own module compares it as a text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
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
# What is asked of objects that are not ours, which may or may not have it.
FOREIGN = {
    "canon/data/catalogue/builtin.py": {"target_names"},  # scikit-learn's bunches
    "canon/data/catalogue/__init__.py": {"reason", "strerror"},  # errors of urllib
    "canon/data/environments/copy.py": {"P", "initial_state_distrib"},  # environments of gymnasium
    "canon/data/corpus/cooccurrence.py": {"posix_fallocate"},  # what an operating system has
    "canon/data/corpus/threads.py": {"sched_getaffinity"},
    "canon/interop/vectors_stream.py": {"MAP_PRIVATE"},
    "canon/nn/limits.py": {"sysconf"},
    "canon/training/run.py": {"sched_getaffinity"},
    "canon/metrics/_checks.py": {"__getitem__", "__len__", "detach", "ndim"},  # arrays of any library
    "canon/nn/packed.py": {"_linear_pointwise"},  # operators of this build of torch
    "canon/nn/without_dynamo.py": {"_FlopCounterMode", "__wrapped__"},  # torch's optimisers
    "canon/optim/clipping.py": {"full_tensor", "to_local"},  # shards of tensors
    "canon/optim/create.py": {"placements"},
    "canon/training/sharding.py": {"full_tensor", "placements"},
    "canon/runs/checkpoint.py": {"placements"},
}
FOREIGN_METHODS = {"canon/nn/without_dynamo.py"}  # steps of torch's optimisers
MOST_LINES = 450


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def texts(node: ast.expr) -> Iterator[str]:
    """The texts that an operand of a comparison is or holds."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def last_word(node: ast.expr) -> str:
    """What an operand is called: of `schema.target`, `target()` and `target.name` "target"."""
    if isinstance(node, ast.Attribute):
        return last_word(node.value) if node.attr == "name" else node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call | ast.Subscript):
        return last_word(node.func if isinstance(node, ast.Call) else node.value)
    return ""


def is_joint(node: ast.expr) -> bool:
    return last_word(node).lstrip("_") in JOINTS


def compared_names(tree: ast.Module) -> list[tuple[int, str]]:
    """Names of kinds, encodings and targets that something is compared with: by an operator, by `match`, by the
    beginning or the end of a text."""
    compared = []
    for node in ast.walk(tree):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            patterns = [part for case in node.cases for part in ast.walk(case.pattern)]
            sides = [node.subject, *(part.value for part in patterns if isinstance(part, ast.MatchValue))]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("swith"):
            sides = [node.func.value, *node.args]
        if any(map(is_joint, sides)):
            compared += [(node.lineno, text) for side in sides for text in texts(side) if text in NAMES]  # type: ignore[attr-defined]
    return compared


def keyed_by_names(tree: ast.Module) -> list[tuple[int, str]]:
    """Tables of a file, outside functions, whose keys are names of kinds, encodings or targets: a dispatch in disguise.
    One such key may be a word of another sense."""
    keyed = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            for node in ast.walk(statement.value):
                keys = [text for key in node.keys if key for text in texts(key)] if isinstance(node, ast.Dict) else []
                if len(names := [text for text in keys if text in NAMES]) > 1:
                    keyed += [(statement.lineno, name) for name in names]
    return keyed


def bound_methods(tree: ast.Module) -> list[tuple[int, str]]:
    """Functions that are put onto objects after these were made."""
    functions = {
        inner.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.FunctionDef) and inner is not node
    } - {
        node.name
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        for node in ast.walk(cls)
        if isinstance(node, ast.FunctionDef)
    }
    bound = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (
            isinstance(node.value, ast.Lambda) or (isinstance(node.value, ast.Name) and node.value.id in functions)
        ):
            attributes = [target.attr for target in node.targets if isinstance(target, ast.Attribute)]
            bound += [(node.lineno, name) for name in attributes if not name.startswith("__")]
        elif isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).endswith(("MethodType", ".__get__")):
            bound.append((node.lineno, ast.unparse(node)))
    return bound


def asked_types(tree: ast.Module) -> list[tuple[int, str]]:
    """Arguments of a network's `forward` whose type decides what it does."""
    asked = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            own = {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
            for call in ast.walk(node):
                is_asked = isinstance(call, ast.Call) and last_word(call.func) == "isinstance"
                if is_asked and last_word(call.args[0]) in own:  # type: ignore[attr-defined]
                    asked.append((call.lineno, ast.unparse(call)))  # type: ignore[attr-defined]
    return asked


def is_vars(node: ast.expr) -> bool:
    """`vars(x)` or `x.__dict__`."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars"
    return called or (isinstance(node, ast.Attribute) and node.attr == "__dict__")


def looked_up(tree: ast.Module) -> list[tuple[int, str]]:
    """Attributes that are asked for by a literal name: of the object, or in the table of its attributes."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_vars(node.func.value):
            names += [(node.lineno, text) for part in node.args[:1] for text in texts(part) if node.func.attr == "get"]
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_vars(node.value):
            names += [(node.lineno, text) for text in texts(node.slice)]
        elif isinstance(node, ast.Compare) and any(is_vars(other) for other in node.comparators):
            names += [(node.lineno, text) for text in texts(node.left)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            attribute = node.args[1] if len(node.args) > 1 else None
            if isinstance(attribute, ast.Constant):
                names.append((node.lineno, str(attribute.value)))
    return names


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_name_of_a_joint_is_compared(path: Path) -> None:
    tree = parsed(path)
    assert compared_names(tree) == [] and keyed_by_names(tree) == []


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path) not in FOREIGN_METHODS], ids=name_of)
def test_a_class_does_what_its_definition_says(path: Path) -> None:
    tree = parsed(path)
    assert bound_methods(tree) == [] and asked_types(tree) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_abilities_are_declared(path: Path) -> None:
    assert {name for _, name in looked_up(parsed(path))} == FOREIGN.get(name_of(path), set())


@pytest.mark.parametrize("path", FILES, ids=name_of)
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


ODD = re.compile(  # brackets keep these lines out
    r"(?<![A-Za-z])(t[o]ld|a[n]ew|w[h]ence|h[e]eds?|of l[i]ke (length|size))(?![A-Za-z])"
    r"|(?<!left )(?<![A-Za-z_])b[e]hind(?![A-Za-z])"  # what is left there is not meant
    r"|(?<![\w.\"'])f[o]und(, \w+)*(: [^=]+)? ?[|:]?= |for f[o]und\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("room", ["canon", "tests", "benchmarks", "docs"])
def test_english_is_plain(room: str) -> None:
    """None of the words that style replaces: reported or printed, again, from where, after; results have real names."""
    files = sorted((PACKAGE.parent / room).rglob("*.py"))
    odd = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if ODD.search(line)
    ]
    assert files and odd == []


SEEN = """
if schema.target in ("class", "x") or self._kind == "table" or text == "table":
    hasattr(a, "b")
if kind.name != "text" or target.name.startswith("tok") or encoding.startswith("word-ids"):
    match kind:
        case "images" | Other():
            pass
TABLE = {"class": 1, "number": 2, "x": 3}
ROW = {"text": 1, "x": 2}


def watch(part):
    def advance(x):
        return x

    part.advance = advance
    part.step = lambda x: x
    part.__init__ = advance
    part.run = types.MethodType(watch, part)


class Network:
    def forward(self, x, layout):
        return isinstance(layout, Packing) or isinstance(self.head, Linear)


if vars(config).get("c", 0) or "d" in vars(config) or "e" not in config.__dict__ or name in vars(config):
    vars(config).get(name, vars(config)["f"])
"""


def test_the_walk_sees_what_it_should() -> None:
    tree = ast.parse(SEEN)
    lines = sorted(compared_names(tree))
    assert lines == [(2, "class"), (2, "table"), (4, "text"), (4, "word-ids"), (5, "images")]
    assert keyed_by_names(tree) == [(8, "class"), (8, "number")]
    assert sorted(bound_methods(tree)) == [(16, "advance"), (17, "step"), (19, "types.MethodType")]
    assert asked_types(tree) == [(24, "isinstance(layout, Packing)")]
    assert sorted(looked_up(tree)) == [(3, "b"), (27, "c"), (27, "d"), (27, "e"), (28, "f")]
