"""A house that grows by one file: a kind of data, an encoding, an objective, a learner and a system of its own.

All five are defined here, and each is one line in its table. Check, train, a kill and a resume, evaluate, predict, the
report and a comparison then work with nothing else of the house touched.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field
from safetensors.torch import load_file
from torch import Tensor

import canon.data.config
from canon import registry
from canon.config import settings
from canon.contracts import Context, Learner
from canon.data import encodings, kinds
from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.encodings.base import Ask, Encoding, finish
from canon.data.kinds.base import Kind, records_of
from canon.data.schema import Columns, Data, Schema, num_examples
from canon.data.settings import Common
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import Class
from canon.errors import CanonError
from canon.objectives import table as objective_table
from canon.objectives.classes import ClassLoss
from canon.objectives.record import Objective
from canon.objectives.settings import Weighted
from canon.registry import System
from canon.report.run import write_report
from canon.training.run import Run
from canon.training.trainer import Trainer, train

ENDING = ".bars"

# ---- a kind: lines of "label: bar bar bar", where a bar is a run of #


@dataclass(frozen=True)
class BarRows:
    labels: list[str]
    bars: list[list[int]]

    def __len__(self) -> int:
        return len(self.labels)


@settings
class BarSettings(Common):
    mark: str = Field(default="#", description="what a bar is made of")


class BarKind(Kind):
    name = "bars"
    singular = "a set of bars"
    plural = "bars"
    plural_zh = "条形"
    settings = BarSettings
    formats = ("bars",)

    def sniff(self, path: Path, config: Any) -> str:
        return f"{path.name} ends in {ENDING}" if path.suffix == ENDING else ""

    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        labels, bars = [], []
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            label, colon, rest = line.partition(":")
            if not colon or not rest.split():
                raise CanonError(f"{path}, line {number}: a line is label: bars, as in low: ## #.")
            labels.append(label.strip())
            bars.append([bar.count(config.mark) for bar in rest.split()])
        return Source(path.name, {"train": BarRows(labels, bars)}, records_of({"train": path}))

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        raise CanonError(f"{record.name} is no set of bars.")

    def check(self, report: CheckReport, config: Any) -> Source:
        source = self.source(config)
        report.kind, report.splits = self.name, {"train": len(source.parts["train"])}
        return source


BARS = BarKind()

# ---- an encoding: the sorted lengths of the first bars


@settings
class LengthSettings(Common):
    count: int = Field(default=3, gt=0, description="bars that are read")


@dataclass(frozen=True)
class LengthSchema(Schema):
    encoding = "lengths"
    count: int = 3


class LengthEncoding(Encoding):
    reads = (BARS,)
    settings = LengthSettings
    schema = LengthSchema
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        rows: BarRows = source.parts["train"]
        classes = tuple(sorted(set(rows.labels)))
        codes = np.array([classes.index(label) for label in rows.labels])
        chosen, rule = choose(source, config, codes)
        inputs = _lengths(rows.bars, config.count)
        splits: dict[str, Columns] = {
            name: {"input": inputs[taken], "target": codes[taken]} for name, (_, taken) in chosen.items()
        }
        return finish(
            source, LengthSchema(Class(classes), (config.count,), count=config.count), splits, rule, config, []
        )

    def columns(self, schema: LengthSchema, source: Source, config: Any) -> Columns:
        rows: BarRows = source.scored()
        codes = np.array([schema.classes.index(label) for label in rows.labels])
        return {"input": _lengths(rows.bars, schema.count), "target": codes}

    def inputs(
        self, schema: LengthSchema, sources: Sequence[str], config: Any, text: bool
    ) -> tuple[Columns, list[str]]:
        bars = [[bar.count(config.mark) for bar in source.split()] for source in sources]
        return {"input": _lengths(bars, schema.count)}, list(sources)


def _lengths(bars: list[list[int]], count: int) -> np.ndarray:
    padded = [sorted(row, reverse=True)[:count] + [0] * (count - len(row)) for row in bars]
    return np.array(padded, dtype=np.float32)


LENGTHS = LengthEncoding()

# ---- an objective, and a learner that lowers it: the squared distance to the mean of the own class

DISTANCE = Objective(
    name="distance",
    title="Squared distance to a class's mean",
    formula="‖x − m_y‖²",
    paper="Fix and Hodges 1951, Discriminatory analysis",
    tasks={"classification": Weighted},
    columns=("target",),
    outputs=("logits",),
    module="tests.test_extension:Distance",
)


class Distance(ClassLoss[Weighted]):
    def unweighted(self, logits_BK: Tensor, label_B: Tensor) -> Tensor:
        return -logits_BK.gather(1, label_B[:, None]).squeeze(1)


@settings
class Config:
    shape: tuple[int, ...] = (3,)
    num_classes: int = 2
    rate: float = Field(default=0.5, gt=0, description="how far a mean moves to an example")


class NearestMean(Learner):
    """The means of the classes, moved a little by every example."""

    def __init__(self, config: Config, context: Context) -> None:
        super().__init__(config, context)
        self.means = torch.zeros(config.num_classes, config.shape[0])
        self.cost, self.seen = 0.0, 0

    @property
    def num_parameters(self) -> int:
        return self.means.numel()

    def begin(self, data: Data, batch: int, steps: int) -> None:
        self.columns, self.batch = data.splits["train"], batch

    def step(self, number: int) -> bool:
        size = num_examples(self.columns)
        for place in range((number - 1) * self.batch, number * self.batch):
            row = place % size
            x, label = (
                torch.from_numpy(np.asarray(self.columns["input"])[row]),
                int(np.asarray(self.columns["target"])[row]),
            )
            self.cost += float(((x - self.means[label]) ** 2).sum())
            self.seen += 1
            self.means[label] += self.config.rate / number * (x - self.means[label])
        return True

    def logs(self) -> dict[str, float]:
        logged, self.cost, self.seen = {"loss": self.cost / max(self.seen, 1)}, 0.0, 0
        return logged

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        return {"model": {"means": self.means.clone()}}

    def state(self) -> dict[str, Any]:
        return {"cost": self.cost, "seen": self.seen}

    def restore(self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        self.means = torch.from_numpy(tensors["model"]["means"].copy())
        self.cost, self.seen = state.get("cost", 0.0), state.get("seen", 0)

    def outputs(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        x_B1D = torch.from_numpy(np.asarray(columns["input"]))[:, None]
        return {"logits": -((x_B1D - self.means) ** 2).sum(dim=2).numpy()}


NEAREST = System(
    name="nearest-mean",
    title="Nearest mean",
    chapter="linear",
    paper="Fix and Hodges 1951, Discriminatory analysis",
    module="tests.test_extension:NearestMean",
    encodings=("lengths",),
    task="classification",
    objective="distance",
    loop="learner",
    recipe="linear/iris-softmax",
    presets={"tiny": {}},
)


def grow(patch: pytest.MonkeyPatch) -> None:
    """One line more in each table."""
    patch.setattr(kinds, "KINDS", (BARS, *kinds.KINDS))
    patch.setattr(encodings, "ENCODINGS", (*encodings.ENCODINGS, LENGTHS))
    patch.setattr(objective_table, "OBJECTIVES", (*objective_table.OBJECTIVES, DISTANCE))
    patch.setattr(registry, "SYSTEMS", (*registry.SYSTEMS, NEAREST))
    importlib.reload(canon.data.config)


@pytest.fixture(autouse=True)
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    grow(monkeypatch)
    yield
    monkeypatch.undo()
    importlib.reload(canon.data.config)


def train_until_killed(recipe: str, data: str, out: str) -> None:
    """In a process of its own: SIGKILL once the checkpoint of step 6 is there."""
    patch = pytest.MonkeyPatch()
    grow(patch)
    keep = Trainer._checkpoint

    def keep_and_die(self: Trainer) -> None:
        keep(self)
        if self.step == 6:
            os.kill(os.getpid(), signal.SIGKILL)

    patch.setattr(Trainer, "_checkpoint", keep_and_die)
    train(recipe, data, Path(out), quiet=True)


RECIPE = """
[system]
name = "nearest-mean"
[train]
steps = 12
batch = 4
log_every = 1
evaluate_every = 3
checkpoint_every = 3
"""


def bars(path: Path) -> Path:
    draw = np.random.default_rng(0)
    lines = []
    for row in range(60):
        high = row % 2
        lengths = draw.integers(4 * high + 1, 4 * high + 5, 3)
        lines.append(f"{'high' if high else 'low'}: {' '.join('#' * n for n in lengths)}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "bars.toml").write_text(RECIPE)
    return str(tmp_path / "bars.toml")


def test_everything_works_with_a_system_of_another_file(tmp_path: Path, recipe: str, canon: Callable[..., Any]) -> None:
    data = str(bars(tmp_path / "a.bars"))
    report = json.loads(canon("check", data, "--json").out)
    assert report["kind"] == "bars" and report["suits"] == ["nearest-mean"]
    whole = train(recipe, data, tmp_path / "whole", quiet=True)
    code = "import sys; from tests.test_extension import train_until_killed; train_until_killed(*sys.argv[1:])"
    words = [sys.executable, "-c", code, recipe, data, str(tmp_path / "cut")]
    killed = subprocess.run(words, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = train(str(tmp_path / "cut"), resume=True, quiet=True)
    assert (whole.path / "metrics.jsonl").read_bytes() == (resumed.path / "metrics.jsonl").read_bytes()
    one, other = (load_file(run.path / "last" / "model.safetensors") for run in (whole, resumed))
    assert torch.equal(one["means"], other["means"])
    assert whole.result is not None and whole.result["scores"]["test"]["accuracy"] == 1.0
    assert "nearest-mean" in write_report(whole).read_text()
    scores = json.loads(canon("evaluate", str(whole.path), "--data", data, "--json").out)
    assert scores["accuracy"] == 1.0
    row = json.loads(canon("predict", str(whole.path), "##### ###### ######", "--text", "--json").out)[0]
    assert row["prediction"] == "high"
    compared = canon("compare", recipe, recipe, "--data", data, "--seeds", "2", "--out", str(tmp_path / "compared"))
    assert compared.code == 0, compared.err


def test_settings_of_the_new_kind_and_encoding_are_its_own(tmp_path: Path, recipe: str) -> None:
    data = bars(tmp_path / "a.bars")
    other = data.with_name("b.bars")
    other.write_text(data.read_text().replace("#", "+"))
    changes = {"data.mark": "+", "data.count": 2}
    run = train(recipe, str(other), tmp_path / "run", changes=changes, quiet=True)
    assert run.schema.shape == (2,) and Run.open(run.path).recipe.data.mark == "+"
    with pytest.raises(CanonError, match=r"data\.window is a setting of .*windows"):
        train(recipe, str(data), tmp_path / "wrong", changes={"data.window": 3}, quiet=True)
    with pytest.raises(CanonError, match=r"data\.mark is a setting of bars"):
        train("mlp:tiny", "iris", tmp_path / "wrong", changes={"data.mark": "+"}, quiet=True)
    with pytest.raises(CanonError, match=r"mlp reads tables or images, but .* is a set of bars"):
        train("mlp:tiny", str(data), tmp_path / "wrong", quiet=True)
