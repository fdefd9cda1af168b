"""The small breaks of a file that mutants.py tries: where they are, and what stands there then."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import ROOT

# Names in a line by which it is about time or memory alone: how much is done at once, progress, threads, caches.
COST = re.compile(
    r"AT_ONCE|_BLOCK\b|\bBLOCK\b|CHUNK|\bROWS\b|_PART\b|\bTILE\b|_SEGMENT|\bPEEK\b|_BATCH\b|WINDOW\b|IN_MEMORY|LANES|"
    r"\bbar\(|progress|thread|\bcache|nogil|non_blocking|pin_memory|cuda|prefetch|maxsize|empty_cache|contiguous|flush|"
    r"filterwarnings|warnings\.|logging|print\(|isatty|fsync|del |sharded|fsdp|set_grad_enabled"
)
# Functions that draw, and arguments that are about how a thing looks.
LOOKS = re.compile(
    r"_figure$|^_?(draw|show|bare|style|mosaic|inches|points|steps|contours|print_fact)|__repr__|__str__"
)
LOOKS_FILES = ("canon/figures.py", "canon/inspect/plots.py", "canon/inspect/layers_figure.py", "canon/report/curves.py")
TEXT_ARGUMENTS = ("help", "epilog", "metavar", "title", "label", "figsize", "size", "fontsize", "alpha", "lw", "ms")

NEAR: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
OPPOSITE = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot}
COMPARISONS: dict[type, tuple[type, ...]] = {**NEAR, **{one: (other,) for one, other in OPPOSITE.items()}}
COMPARISONS[ast.IsNot] = (ast.Is,)
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Break:
    file: str
    line: int
    kind: str
    start: int  # bytes of the file
    stop: int
    text: str  # what stands there then

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.stop :]

    @property
    def room(self) -> str:
        parts = Path(self.file).parts
        return parts[1] if len(parts) > 2 else Path(self.file).stem

    def diff(self, source: bytes) -> tuple[str, str]:
        """The lines that change, as they are and as they become."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.stop)
        before = source[first:last].decode()
        after = (source[first : self.start] + self.text.encode() + source[self.stop : last]).decode()
        return " ".join(before.split()), " ".join(after.split())


def breaks_of(file: str) -> list[Break]:
    source = (ROOT / file).read_bytes()
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    lines = source.decode().splitlines()
    breaks = []
    for node, kind, new in _sites(ast.parse(source), file):
        line: int = node.lineno
        if any(COST.search(text) for text in lines[line - 1 : node.end_lineno]):
            continue
        start = starts[line - 1] + node.col_offset
        stop = starts[node.end_lineno - 1] + node.end_col_offset
        breaks.append(Break(file, line, kind, start, stop, new))
    return breaks


def _sites(tree: ast.AST, file: str) -> Iterator[tuple[Any, str, str]]:
    """(node, kind, what stands there then) of every break of the tree."""
    for child in ast.iter_child_nodes(tree):
        if _is_left_out(child, file):
            continue
        yield from _own(child)
        if isinstance(child, ast.AnnAssign):
            if child.value is not None:
                yield from _sites(ast.Expression(child.value), file)
        elif isinstance(child, ast.arguments):
            yield from _sites(ast.Tuple([value for value in (*child.defaults, *child.kw_defaults) if value]), file)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _sites(ast.Module([child.args, *child.body], []), file)  # type: ignore[list-item]
        elif isinstance(child, ast.ClassDef):
            yield from _sites(ast.Module(child.body, []), file)
        else:
            yield from _sites(child, file)


def _is_left_out(node: ast.AST, file: str) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
        return True
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and (LOOKS.search(node.name) or file in LOOKS_FILES):
        return True
    if isinstance(node, ast.keyword) and node.arg in TEXT_ARGUMENTS:
        return True
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Annotated", "Literal")


def _own(node: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """The breaks of this node itself."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                yield node, "comparison", ast.unparse(ast.Compare(node.left, ops, node.comparators))
    elif isinstance(node, ast.BoolOp):
        joined = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield node, "and, or", f"({ast.unparse(ast.BoolOp(joined, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, "not", f"bool({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, "True, False", str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield node, "whole number", str(node.value + 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        if not any(
            isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) or _is_text(side) for side in (node.left, node.right)
        ):
            other_ = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield node, "+ and −", ast.unparse(ast.BinOp(node.left, other_, node.right))
    elif isinstance(node, ast.Call):
        name = node.func
        if isinstance(name, ast.Name) and name.id in EXTREMES:
            yield name, "min, max", EXTREMES[name.id]
        elif isinstance(name, ast.Attribute) and name.attr in EXTREMES:
            yield name, "min, max", ast.unparse(ast.Attribute(name.value, EXTREMES[name.attr]))
    elif isinstance(node, ast.AugAssign):
        yield node, "statement", "pass"
        if isinstance(node.op, ast.Add | ast.Sub) and not _is_text(node.value):
            other_ = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield node, "+ and −", ast.unparse(ast.AugAssign(node.target, other_, node.value))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node, "statement", "pass"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
