"""Conditions and numbers in rules, such as `price < 10 and kind in ("class", "module")`: a small, safe grammar.

Python's parser reads the text; then each node must be one of those below, and is turned into a function of a row.
There are no attributes, no calls but `lower`, `length` and `missing`, and no names but columns, so that a rule in a
stranger's file can only compute.

| | |
| --- | --- |
| values | numbers, texts, true, false, lists of them, columns |
| of numbers | + − * / and a sign |
| comparisons | < <= > >= == != in, not in |
| joined by | and, or, not, brackets |
| functions | lower(text), length(text), missing(column) |

A comparison with a missing cell is false; so is one of a text with a number, except == and !=.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from canon.errors import CanonError, unknown

Rule = Callable[[Mapping[str, Any]], Any]
_MOST = 1000  # characters: a rule that a person reads is shorter
_COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_COMPUTED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "lower": lambda text: None if text is None else str(text).lower(),
    "length": lambda text: None if text is None else len(text),
    "missing": lambda cell: cell is None,
}
_WORDS = {"true": True, "false": False, "none": None}
_ACCEPTED = "a rule compares columns with values, as in price < 10 and kind in ('book', 'song')"


def compiled(text: str, columns: Iterable[str], where: str) -> Rule:
    """The rule as a function of a row; `where` names its setting in an error."""
    if len(text) > _MOST:
        raise CanonError(f"{where} has {len(text):,} characters; at most {_MOST:,} are allowed.")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _Reader(text, set(columns), where).read(tree.body)
    except SyntaxError as mistake:
        raise CanonError(f'{where}: "{text}" is not a rule ({mistake.msg}); {_ACCEPTED}.') from None
    except (RecursionError, MemoryError, ValueError) as mistake:
        if isinstance(mistake, CanonError):
            raise
        raise CanonError(f'{where}: "{text[:40]}…" cannot be read; {_ACCEPTED}.') from None


class _Reader:
    def __init__(self, text: str, columns: set[str], where: str) -> None:
        self.text, self.columns, self.where = text, columns, where

    def read(self, node: ast.expr) -> Rule:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            value = node.value
            return lambda row: value
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            parts = [self.read(part) for part in node.elts]
            return lambda row: [part(row) for part in parts]
        if isinstance(node, ast.BoolOp):
            several = [self.read(part) for part in node.values]
            joined = all if isinstance(node.op, ast.And) else any
            return lambda row: joined(bool(part(row)) for part in several)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.read(node.operand)
            return lambda row: not inner(row)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._computed(operator.sub, lambda row: 0, self.read(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
            return self._computed(_COMPUTED[type(node.op)], self.read(node.left), self.read(node.right))
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARED for op in node.ops):
            sides = [self.read(part) for part in (node.left, *node.comparators)]
            return _comparison([type(op) for op in node.ops], sides)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords and len(node.args) == 1:
            return self._called(node.func.id, self.read(node.args[0]))
        part = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        raise CanonError(f'{self.where}: "{part}" is not allowed in a rule; {_ACCEPTED}.')

    def _name(self, name: str) -> Rule:
        if name in self.columns:
            return lambda row: row.get(name)
        if name.lower() in _WORDS:
            value = _WORDS[name.lower()]
            return lambda row: value
        raise CanonError(f"{self.where}: {unknown('column', name, self.columns)}")

    def _called(self, name: str, argument: Rule) -> Rule:
        if name not in _FUNCTIONS:
            raise CanonError(f"{self.where}: {unknown('function', name, _FUNCTIONS)}")
        function = _FUNCTIONS[name]
        return self._safely(lambda row: function(argument(row)))

    def _computed(self, compute: Callable[[Any, Any], Any], left: Rule, right: Rule) -> Rule:
        def result(row: Mapping[str, Any]) -> Any:
            one, other = left(row), right(row)
            if one is None or other is None:
                return None
            if not isinstance(one, int | float) or not isinstance(other, int | float):
                raise TypeError
            return compute(one, other)

        return self._safely(result)

    def _safely(self, rule: Rule) -> Rule:
        def result(row: Mapping[str, Any]) -> Any:
            try:
                return rule(row)
            except (TypeError, ZeroDivisionError, OverflowError):
                raise CanonError(
                    f'{self.where}: "{self.text}" cannot be computed for document {row.get("id")}: it uses a text as '
                    "a number or a number as a text, or divides by 0."
                ) from None

        return result


def _comparison(kinds: list[type], sides: list[Rule]) -> Rule:
    def result(row: Mapping[str, Any]) -> bool:
        values = [side(row) for side in sides]
        return all(_holds(kind, *pair) for kind, pair in zip(kinds, pairwise(values), strict=True))

    return result


def _holds(kind: type, one: Any, other: Any) -> bool:
    if kind in (ast.Eq, ast.NotEq):
        return bool(_COMPARED[kind](one, other))
    if one is None or other is None:
        return False
    try:
        return bool(_COMPARED[kind](one, other))
    except TypeError:
        return False
