"""docs/losses.md against the code: every loss is there, with its arguments' defaults."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from canon.objectives import adversarial, classification, contrastive, margin, regression

PAGE = (Path(__file__).parents[2] / "docs/losses.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", [adversarial, classification, contrastive, margin, regression])
def test_every_loss_has_a_row_and_a_docstring_with_formula_inputs_and_relations(module) -> None:
    functions = [
        function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    ]
    assert functions
    for function in functions:
        row = re.search(rf"^\| `{function.__name__}\((.*?)\)`", PAGE, re.M)
        assert row, function.__name__
        parameters = inspect.signature(function).parameters.values()
        assert len(row[1].split(",")) == len(parameters), function.__name__
        for parameter in parameters:
            if parameter.default is not inspect.Parameter.empty:
                documented = re.search(rf"{parameter.name.removesuffix('_B')}=([^,]+)", row[1])
                assert documented and ast.literal_eval(documented[1]) == parameter.default, parameter.name
            assert f"| {parameter.name} |" in function.__doc__
        assert "Relations:" in function.__doc__
