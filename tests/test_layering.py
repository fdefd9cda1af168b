"""Imports go one way: a room imports only from rooms above it in the house plan."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "canon"
# Top to bottom; rooms in one row may import each other.
ROOMS = [
    ("errors",),
    ("contracts",),
    ("storage", "user_code"),
    ("figures",),
    ("config",),
    ("registry",),
    ("kernels",),
    ("pretexts",),
    ("data",),
    ("nn",),
    ("objectives",),
    ("metrics",),
    ("tasks",),
    ("systems",),
    ("optim",),
    ("train_config",),
    ("recipe_text",),
    ("recipe",),
    ("runs",),
    ("interop",),
    ("training",),
    ("use",),
    ("inspect",),
    ("report",),
    ("compare",),
    ("claims",),
    ("api",),
    ("cli",),
    ("command",),
    ("__main__",),
]
# What a room must not know though it lies above, by the beginnings of modules' names.
UNKNOWN = {
    "objectives": ("canon.data", "canon.nn", "canon.systems"),
    "metrics": ("canon.data", "canon.nn", "canon.systems", "canon.objectives", "canon.tasks"),
    "optim": ("canon.data", "canon.nn", "canon.systems", "canon.objectives", "canon.tasks"),
    "tasks": ("canon.data.formats", "canon.data.kinds", "canon.systems"),
    "systems": ("canon.objectives", "canon.data.formats", "canon.data.kinds", "canon.interop", "canon.training"),
    "training": ("canon.systems",),
    "report": ("canon.training",),
}
# What they know all the same. Learners that are a loss of their own (ranking by planes, boosting, programs) compute it,
# and read its settings, themselves.
KNOWN = {
    "canon.systems.building": ("training",),  # any system's network, by its record
    "canon.objectives.settings": ("systems",),
    "canon.objectives.ranking": ("systems",),
    "canon.data.formats.word_tests": ("metrics", "tasks"),  # the questions that vectors of words are asked
    "canon.data.formats.rows": ("systems",),
    "canon.training.run": ("report",),  # the run directory
    "canon.training.data": ("report",),  # its data, and the scores that it is compared with
    "canon.training.plan": ("report",),
}
LEVEL = {room: level for level, row in enumerate(ROOMS) for room in row}


def imports(path: Path) -> set[str]:
    """The rooms of canon that a file imports, also inside functions."""
    result: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            result |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("canon.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "canon":
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("canon."):
            result.add(str(node.module).split(".")[1])
    return result


@cache
def modules(path: Path) -> set[str]:
    """All that a file imports of canon, but for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    types = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    skipped = {id(node) for block in types for node in ast.walk(block)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("canon.")}


def begins(name: str, start: str) -> bool:
    return name == start or name.startswith(f"{start}.")


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_upward_import(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert room in LEVEL, f"{room} is a room that the plan does not know"
    upward = {other for other in imports(path) if LEVEL.get(other, 99) > LEVEL[room]}
    assert not upward, f"{path.name} imports {upward}, which lie below {room}"


@pytest.mark.parametrize("room", UNKNOWN)
def test_a_room_does_not_know_what_it_must_not(room: str) -> None:
    allowed = tuple(module for module, rooms in KNOWN.items() if room in rooms)
    known = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in FILES
        if path.relative_to(PACKAGE).parts[0] == room
        for name in modules(path)
        if any(begins(name, start) for start in UNKNOWN[room]) and not any(begins(name, one) for one in allowed)
    }
    assert known == set()


def test_what_is_known_all_the_same_is_used() -> None:
    used = {
        (module, path.relative_to(PACKAGE).parts[0])
        for path in FILES
        for module in KNOWN
        if any(begins(name, module) for name in modules(path))
    }
    assert {(module, room) for module, rooms in KNOWN.items() for room in rooms} <= used


def test_the_walk_sees_an_upward_import(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def f():\n    from canon.cli import main\n    import canon.training.run\n")
    assert imports(wrong) == {"cli", "training"}


@pytest.mark.parametrize(
    "statement",
    [
        "import canon",
        "import canon.registry, canon.recipe, canon.objectives.table, canon.tasks.records",
        "import canon.cli",
        "import canon.data.config, canon.data.checking.check",
    ],
)
def test_starting_imports_no_torch(statement: str) -> None:
    heavy = ("torch", "sklearn", "pandas", "matplotlib")
    code = f"{statement}; import sys; print([name for name in {heavy} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_oracles_are_never_imported() -> None:
    oracles = {
        "transformers",
        "sentence_transformers",
        "bm25s",
        "pytrec_eval",
        "gensim",
        "fasttext",
        "torchvision",
        "timm",
        "lightning",
        "accelerate",
        "xgboost",
    }
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not oracles & {name.split(".")[0] for name in names}, path
