"""`describe` against counts by hand and the registry; `plot` against the files it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from canon.errors import CanonError
from canon.inspect.summary import describe, describe_run
from canon.registry import SYSTEMS
from canon.training.run import Run
from canon.training.trainer import train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs") / "small"
    return train("digits-mlp", out=path, changes={"train.epochs": 2.0, "system.hidden": [20]}, quiet=True)


def test_lenet_layer_by_layer() -> None:
    found = describe("lenet").to_json()
    counted = [(row["output_shape"], row["parameters"], row["multiply_adds"]) for row in found["layers"]]
    assert [row for row in counted if row[1]] == [
        ([6, 28, 28], 6 * 25 + 6, 6 * 25 * 28 * 28),
        ([16, 10, 10], 16 * 6 * 25 + 16, 16 * 6 * 25 * 100),
        ([120], 400 * 120 + 120, 400 * 120),
        ([84], 120 * 84 + 84, 120 * 84),
        ([10], 84 * 10 + 10, 84 * 10),
    ]
    assert found["parameters"] == 61_706 and found["multiply_adds"] == 416_520


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_system_and_preset(system) -> None:  # type: ignore[no-untyped-def]
    for name in (system.name, *(f"{system.name}:{preset}" for preset in system.presets)):
        found = describe(name).to_json()
        config = system.configure(name.partition(":")[2], {})
        assert {row["setting"]: row["value"] for row in found["settings"]} == {
            key: list(value) if isinstance(value, tuple) else value for key, value in vars(config).items()
        }
        assert all(row["description"] for row in found["settings"])
        assert "loss" in found["metrics"] and len(found["metrics"]) > 1
        if system.loop == "gradient":
            _, cls = system.load()
            with torch.device("meta"):
                network = cls(config)
            assert found["parameters"] == sum(p.numel() for p in network.parameters())
        else:
            assert found["parameters"] is None and found["layers"] == []
        json.dumps(found)


def test_changes_reach_the_network() -> None:
    found = describe("mlp", {"system.hidden": [7, 5]})
    assert found.network is not None and found.network.parameters == 64 * 7 + 7 + 7 * 5 + 5 + 5 * 10 + 10


def test_run(run: Run) -> None:
    found, result = describe_run(run.path), run.result
    assert result is not None and found.network is not None
    assert found.network.parameters == result["cost"]["parameters"] and found.scores == result["scores"]
    assert set(found.metrics) == set(result["scores"]["test"])


def test_describe_command(run: Run, canon: Callable) -> None:
    told = canon("describe", "mlp:base").out
    for piece in ("Multilayer perceptron (mlp:base)", "Rumelhart", "share of hidden units dropped", "85,002", "84,480"):
        assert piece in told
    assert json.loads(canon("describe", run.path, "--json").out)["parameters"] == 64 * 20 + 20 + 20 * 10 + 10
    assert "without a network" in canon("describe", "adaboost").out
    for wrong, sentence in (
        (("mlpp",), 'No system "mlpp"; did you mean mlp?'),
        (("mlp:bass",), "did you mean mlp:base?"),
        (("mlp", "--set", "system.hiden=[3]"), "did you mean system.hidden?"),
        (("mlp", "--set", "train.steps=3"), "only system settings"),
        ((run.path, "--set", "system.hidden=[3]"), "leave out --set"),
        ((run.path.parent,), "is not a run"),
    ):
        refused = canon("describe", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1


MAGIC = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def test_plot_command(run: Run, canon: Callable) -> None:
    for ending, begin in MAGIC.items():
        out = Path(f"curves.{ending}")
        told = canon("plot", run.path, run.path, "--out", out)
        assert (told.code, told.out.strip()) == (0, str(out)) and out.read_bytes().startswith(begin)
    assert canon("plot", run.path).out.strip() == "small-curves.png" and Path("small-curves.png").is_file()
    assert json.loads(canon("plot", "activations", "--json").out) == {"figure": "activations.png"}
    canon("plot", run.path, "--metric", "train/lr", "--out", "lr.svg")
    assert ">train/lr</text>" in Path("lr.svg").read_text().replace("\n", "")
    for wrong, sentence in (
        (("activation",), "did you mean activations?"),
        (("activations", run.path), "takes nothing more than --out"),
        ((run.path.parent,), "is not a run"),
        ((run.path, "--metric", "valid/acuracy"), "did you mean valid/accuracy?"),
        ((run.path, "--out", "x.gif"), "a figure is written as .png, .svg, .pdf"),
    ):
        refused = canon("plot", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1
    Path("file").write_text("")
    assert "cannot be written" in canon("plot", run.path, "--out", "file/x.png").err


def test_runs_with_nothing_in_common(run: Run, canon: Callable, tmp_path: Path) -> None:
    other = train("cancer-adaboost", out=tmp_path / "boost", changes={"train.steps": 3, "data.valid": 0.0}, quiet=True)
    assert "have no curve in common" in canon("plot", run.path, other.path).err
    (other.path / "metrics.jsonl").write_text("")
    assert "has logged nothing yet" in canon("plot", other.path).err


def test_plot_needs_matplotlib(run: Run, canon: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canon.report.page.can_draw", lambda: False)
    told = canon("plot", run.path)
    assert told.code == 2 and "deepcanon[plots]" in told.err


def test_describe_refuses_in_python() -> None:
    with pytest.raises(CanonError, match="No system"):
        describe("nothing")
