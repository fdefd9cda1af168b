"""`import canon`: what create, train, load and the lists give, beside the registry and the command line."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils._pytree import tree_leaves

import canon as library
from canon import recipe as recipes
from canon.data.catalogue import CATALOGUE
from canon.data.catalogue.sets import Dataset
from canon.errors import CanonError
from canon.inspect.summary import task_of
from canon.registry import SYSTEMS, System
from canon.registry.recipes import RecipeRecord
from canon.training.run import Run
from canon.use.pipeline.pipeline import Pipeline
from canon.use.search.folder import VectorFolder
from canon.use.vectors import Vectors

BUDGET: dict[str, Any] = {"steps": 4, "batch": 32, "threads": 1}
LARGE = 150_000_000  # numbers of a network that is made without them, for want of memory


def test_the_lists_are_records() -> None:
    assert library.list_systems() == list(SYSTEMS)
    assert library.list_datasets() == list(CATALOGUE.values())
    listed = {record.name: record for record in library.list_recipes()}
    assert list(listed) == recipes.names()
    record, recipe = listed["linear/digits-mlp"], recipes.load("linear/digits-mlp")
    assert (record.system, record.data) == (recipe.system_name, recipe.data.source)
    assert {key: list(bounds) for key, bounds in record.expected.items()} == {
        key: bounds for key, bounds in recipe.expect.items() if key != "curve"
    }


def test_listing_imports_no_torch() -> None:
    """In a fresh interpreter: importing canon and asking for every list."""
    lists = "canon.list_systems(), canon.list_recipes(), canon.list_datasets()"
    code = f"import sys, canon; {lists}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_there_is_nothing_else() -> None:
    lists = {"list_datasets", "list_recipes", "list_systems"}
    verbs = {"build", "create", "encode", "load", "search", "train"}
    assert set(library.__all__) == {"CanonError", "Model", "Run", *verbs, *lists}
    assert all(callable(getattr(library, name)) for name in library.__all__)
    with pytest.raises(AttributeError, match="module 'canon' has no attribute 'fit'"):
        library.fit  # noqa: B018


def public_functions(cls: type) -> dict[str, Any]:
    """Methods and properties of a class that users may call."""
    named = {name: value for name, value in vars(cls).items() if not name.startswith("_")}
    return {name: value for name, value in named.items() if inspect.isroutine(value) or inspect.isdatadescriptor(value)}


PUBLIC = [*(getattr(library, name) for name in library.__all__)]
PUBLIC += [System, Dataset, RecipeRecord, Pipeline, VectorFolder, Vectors]  # what they return


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_public_names_have_docstrings(thing: Any) -> None:
    methods = public_functions(thing) if isinstance(thing, type) else {}
    fields = set(thing.__annotations__) if isinstance(thing, type) and dataclasses.is_dataclass(thing) else set()
    without = [name for name, value in methods.items() if name not in fields and not value.__doc__]
    is_generated = (thing.__doc__ or "").startswith(f"{thing.__name__}(")  # by dataclass
    assert thing.__doc__ and not is_generated and not without, without


@pytest.mark.parametrize("name", [f"{system.name}:{preset}" for system in SYSTEMS for preset in system.presets])
def test_create_makes_every_system_with_its_presets_settings(name: str) -> None:
    system, preset = next((s, p) for s in SYSTEMS for p in s.presets if f"{s.name}:{p}" == name)
    if system.loop == "gradient":
        with torch.device("meta"):
            shapes = library.create(name)
        if sum(parameter.numel() for parameter in shapes.parameters()) > LARGE:
            assert isinstance(shapes, system.load()[1])
            return
    made = library.create(name)
    assert isinstance(made, system.load()[1])
    assert isinstance(made, nn.Module) == (system.loop == "gradient")
    if isinstance(made, nn.Module) and system.task != "prompting":  # a prompt's words are the data's
        config = system.configure(preset, {})
        outputs = made.eval()(*task_of(system, config).example())
        assert all(torch.isfinite(tensor).all() for tensor in tree_leaves(outputs))


def test_create_takes_changes_by_name() -> None:
    network = library.create("mlp:tiny", shape=(5,), hidden=[7, 6], num_classes=3)
    sizes = [(layer.in_features, layer.out_features) for layer in network.modules() if isinstance(layer, nn.Linear)]
    assert sizes == [(5, 7), (7, 6), (6, 3)]


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("mpl", {}, 'No system "mpl"; did you mean mlp?'),
        ("mlp:tinny", {}, 'No system "mlp:tinny"; did you mean mlp:tiny?'),
        ("mlp", {"hiden": (3,)}, 'No setting "system.hiden"; did you mean system.hidden?'),
        ("mlp", {"hidden": (0,)}, "system.hidden.0 must be a positive whole number, got 0."),
        ("mlp", {"activation": "rellu"}, 'No activation "rellu"; did you mean relu?'),
    ],
)
def test_create_tells_mistakes(name: str, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CanonError) as caught:
        library.create(name, **changes)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, ValueError)


def test_train_is_the_command_line(canon: Callable[..., Any], tmp_path: Path) -> None:
    """The same settings by keywords and by --set: the same weights, metrics and result."""
    run = library.train(
        "mlp:tiny", data="iris", out=tmp_path / "python", quiet=True, train=BUDGET, system={"hidden": [9]}
    )
    assert isinstance(run, Run) and run.path == tmp_path / "python"
    settings = [f"train.{key}={value}" for key, value in BUDGET.items()] + ["system.hidden=[9]"]
    flags = [part for text in settings for part in ("--set", text)]
    outcome = canon("train", "mlp:tiny", "--data", "iris", "--out", tmp_path / "shell", "--json", *flags)
    record = json.loads(outcome.out)
    assert record.pop("run") == str(tmp_path / "shell")
    assert run.result is not None
    assert record["cost"].keys() == run.result["cost"].keys()
    assert record | {"cost": {}} == run.result | {"cost": {}}
    ours, theirs = (load_file(tmp_path / name / "last" / "model.safetensors") for name in ("python", "shell"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert (tmp_path / "python/metrics.jsonl").read_text() == (tmp_path / "shell/metrics.jsonl").read_text()


def test_a_run_directory_holds_what_the_plan_says(tmp_path: Path) -> None:
    run = library.train("softmax-regression", out=tmp_path / "run", quiet=True, train=BUDGET)
    names = {path.name for path in run.path.iterdir()}
    wanted = {
        "recipe.toml",
        "data.json",
        "env.json",
        "vocab",
        "metrics.jsonl",
        "log.txt",
        "checkpoints",
        "best",
        "last",
    }
    assert wanted | {"result.json", "report.html"} <= names
    assert not any(name.startswith(".") for name in names), "nothing half-written is left"
    assert {path.suffix for path in (run.path / "last").iterdir()} == {".safetensors", ".json"}
    assert run.recipe.train.steps == 4
    assert run.result is not None and run.result["steps"] == 4


def test_train_refuses_an_existing_run_and_resumes_when_asked(tmp_path: Path) -> None:
    """Four steps and four more are eight at once."""
    library.train("softmax-regression", out=tmp_path / "parts", quiet=True, train=BUDGET)
    with pytest.raises(CanonError, match=r"parts already exists: add --resume"):
        library.train("softmax-regression", out=tmp_path / "parts", quiet=True, train=BUDGET)
    more = BUDGET | {"steps": 8}
    parts = library.train("softmax-regression", out=tmp_path / "parts", resume=True, quiet=True, train=more)
    whole = library.train("softmax-regression", out=tmp_path / "whole", quiet=True, train=more)
    for run in (parts, whole):
        assert run.result is not None and run.result["steps"] == 8
    ours, theirs = (load_file(run.path / "last" / "model.safetensors") for run in (parts, whole))
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_load_gives_what_the_run_can_do(tmp_path: Path) -> None:
    run = library.train("softmax-regression", out=tmp_path / "run", quiet=True, train=BUDGET)
    model = library.load(run.path)
    assert isinstance(model.network, nn.Module)
    assert run.result is not None
    assert model.evaluate() == run.result["scores"]["test"]
    rows = model.predict(np.zeros((2, 1, 8, 8), np.uint8))
    assert [row["prediction"] in "0123456789" for row in rows] == [True, True]
    assert library.load(str(run.path)).evaluate() == model.evaluate()
