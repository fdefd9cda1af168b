"""How samples are scaled, written down, judged and shown: against closed forms, the data itself and an image reader."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from canon.data.batching.loader import Examples
from canon.data.catalogue.synthetic import MIXTURES
from canon.data.config import DataConfig
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema
from canon.data.targets import Nothing
from canon.registry import find
from canon.report.run import write_report
from canon.tasks import pictures
from canon.tasks import table as tasks
from canon.tasks.base import Turn
from canon.tasks.generation import Generation
from canon.training.run import Run
from canon.training.trainer import train
from tests.reading import read_as

CPU = torch.device("cpu")


def task_of(schema: Schema, **changes: object) -> Generation:
    system, preset = find("gan:tiny")
    task = tasks.create(system, system.configure(preset, {"shape": list(schema.shape), **changes}), schema)
    assert isinstance(task, Generation)
    return task


def table(**columns: list[Any]) -> str:
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))])


# Scales


@pytest.mark.parametrize(("mean", "std", "white"), [((0.0,), (16.0,), 16), ((72.9,), (90.0,), 255)])
def test_pixels_go_to_tanh_and_back(mean: tuple[float], std: tuple[float], white: int) -> None:
    """Black is −1, white is 1, and what the network would have to make is written as the very pixels."""
    schema = PixelSchema(Nothing(), (1, 4, 4), mean=mean, std=std, white=white)
    pixels = np.arange(5 * 16).reshape(5, 1, 4, 4) % (white + 1)
    pixels[0, 0, 0, :2] = 0, white
    batch = next(Examples({"input": pixels.astype(np.uint8)}, schema, CPU).in_order(8))
    task = task_of(schema)
    seen = task.scaled(batch["input"])
    assert seen[0, 0, 0, 0] == pytest.approx(-1, abs=1e-5) and seen[0, 0, 0, 1] == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(task.written({"samples": seen.numpy()}), pixels)


def test_tables_are_written_in_their_own_units(tmp_path: Path) -> None:
    """Rows of the data, as the network sees them, come out as they went in; of a category the likeliest one."""
    size, color = [float(i) for i in range(40)], ["red", "green", "blue", "green"] * 10
    (tmp_path / "things.csv").write_text(table(size=size, color=color))
    data = read_as(DataConfig(source="things.csv", valid=0.0, test=0.0), "features", target=Nothing)
    task = task_of(data.schema)
    blurred = torch.from_numpy(np.asarray(data.splits["train"]["input"])) * torch.tensor([1.0, 0.6, 0.6, 0.6])
    written = task.table({"samples": blurred.numpy()})
    np.testing.assert_allclose(written["size"], size, atol=1e-4)
    assert written["color"].tolist() == color


def test_a_named_label_is_not_generated() -> None:
    iris = read_as(DataConfig(source="iris"), "features", target=Nothing)
    assert iris.schema.shape == (4,) and set(iris.splits["train"]) == {"input"}
    assert 'The column "species" is left out.' in iris.notes


@pytest.mark.parametrize("prior", ["uniform", "normal"])
def test_noise_is_a_function_of_the_place_in_the_global_batch(prior: str) -> None:
    task = task_of(FeatureSchema(Nothing(), (2,)), prior=prior)

    def draw(start: int, stop: int) -> torch.Tensor:
        turn = Turn(torch.Generator().manual_seed(3), (start, stop, 1000))
        return task.noise(torch.empty(stop - start, 2), turn)

    whole = draw(0, 1000)
    assert torch.equal(whole, torch.cat([draw(0, 300), draw(300, 1000)])) and whole.shape == (1000, 8)
    std = 1.0 if prior == "normal" else 1 / 3**0.5
    assert whole.mean().item() == pytest.approx(0, abs=0.03) and whole.std().item() == pytest.approx(std, rel=0.03)
    assert (whole.abs().max() <= 1) == (prior == "uniform")


# The judge


def normals(mean: float, rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1.0, (rows, 1)).astype(np.float32)


def test_samples_from_the_data_cannot_be_distinguished() -> None:
    task = task_of(FeatureSchema(Nothing(), (1,)))
    scores = task.score({"samples": normals(0, 4000, 1)}, {"input": normals(0, 4000, 2)})
    assert scores["two_sample_accuracy"] == pytest.approx(0.5, abs=0.03)
    assert scores["loss"] == pytest.approx(-log(4), abs=0.01)


def test_loss_is_the_paper_s_criterion() -> None:
    """C(G) = −log 4 + 2 JSD, for N(0, 1) and N(2, 1) by numerical integration; accuracy Φ(1)."""
    task = task_of(FeatureSchema(Nothing(), (1,)))
    scores = task.score({"samples": normals(2, 4000, 1)}, {"input": normals(0, 4000, 2)})
    x = np.linspace(-8, 10, 20_001)
    p, q = (np.exp(-((x - mean) ** 2) / 2) / np.sqrt(2 * np.pi) for mean in (0, 2))
    criterion = np.trapezoid(p * np.log(p / (p + q)) + q * np.log(q / (p + q)), x)
    assert scores["loss"] == pytest.approx(criterion, abs=0.05)
    assert scores["two_sample_accuracy"] == pytest.approx(0.8413, abs=0.02)


def test_images_are_judged_by_a_network() -> None:
    schema = PixelSchema(Nothing(), (1, 4, 4), std=(16.0,), white=16)
    random = np.random.default_rng(0)
    real = random.integers(0, 17, (600, 1, 4, 4)).astype(np.uint8)
    task = task_of(schema)

    def judged(pixels: np.ndarray) -> dict[str, float]:
        return task.score({"samples": pixels / 8.0 - 1}, {"input": real})

    assert judged(random.integers(0, 17, real.shape))["two_sample_accuracy"] == pytest.approx(0.5, abs=0.06)
    bright = judged(random.integers(8, 17, real.shape))
    assert bright["two_sample_accuracy"] > 0.95 and bright["loss"] > -0.6


def test_modes_and_quality_of_the_ring_by_hand() -> None:
    """500 samples in each of three modes, 5 (under 1 %) in a fourth, 95 between all modes."""
    data = read_as(DataConfig(source="gaussian-ring"), "features", target=Nothing)
    ring = MIXTURES["gaussian-ring"]
    random = np.random.RandomState(1)
    counts = {0: 500, 3: 500, 5: 500, 6: 5}
    near = [np.array(ring.centers[mode]) + 0.01 * random.uniform(-1, 1, (n, 2)) for mode, n in counts.items()]
    points = np.concatenate([*near, np.zeros((95, 2))])
    means, stds = (np.array([getattr(e, key) for e in data.schema.encoders]) for key in ("mean", "std"))
    scaled = ((points - means) / stds).astype(np.float32)
    scores = task_of(data.schema).score({"samples": scaled}, data.splits["test"])
    assert scores["modes"] == 3 and scores["high_quality"] == pytest.approx(1505 / 1600)
    assert scores["two_sample_accuracy"] > 0.7


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_have_the_moments_of_their_density(name: str) -> None:
    """Mean Σ wμ and variance Σ w(σ² + μ²) − mean²; every mode in its share; drawn the same each time."""
    mixture = MIXTURES[name]
    rows, centers = mixture.draw(50_000, seed=4), np.array(mixture.centers)
    shares, variances = np.array(mixture.shares)[:, None], np.array(mixture.stds)[:, None] ** 2
    mean = (shares * centers).sum(axis=0)
    variance = (shares * (variances + centers**2)).sum(axis=0) - mean**2
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(rows.var(axis=0), variance, rtol=0.02)
    within = 0.9973 if len(mixture.columns) == 1 else 1 - np.exp(-4.5)  # of a normal, within 3σ
    assert mixture.share_of_modes(rows).sum() == pytest.approx(within, abs=0.004)
    first, second = (read_as(DataConfig(source=name), "features", target=Nothing) for _ in range(2))
    assert first.fingerprint() == second.fingerprint() and first.schema.target == Nothing()


# Runs


def png_size(content: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(content)).size


def test_a_grid_holds_the_images() -> None:
    images = np.random.default_rng(0).integers(0, 17, (5, 1, 8, 8)).astype(np.uint8)
    sheet = np.asarray(Image.open(io.BytesIO(pictures.grid(images, 16))))
    assert sheet.shape == (2 * 50 + 2, 3 * 50 + 2)  # 8 pixels six times enlarged, a gap of 2
    for i, image in enumerate(images):
        y, x = 2 + 50 * (i // 3), 2 + 50 * (i % 3)
        np.testing.assert_array_equal(sheet[y : y + 48 : 6, x : x + 48 : 6], np.rint(image[0] * (255 / 16)))
    assert (sheet[:2] == 255).all() and (sheet[54:, 104:] == 255).all()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    short = {"train.steps": 20, "train.evaluate_every": 10, "train.batch": 32, "data.limit": 400}
    asked = {
        "ring-gan": {},
        "mixture-gan": {"objective.name": "minimax"},
        "digits-dcgan": {"system.name": "dcgan:tiny"},
    }
    made = {}
    for recipe, more in asked.items():
        made[recipe] = train(recipe, out=folder / recipe, changes=short | more, quiet=True)
        write_report(made[recipe])
    return made


@pytest.mark.parametrize("name", ["ring-gan", "mixture-gan", "digits-dcgan"])
def test_a_run_shows_its_samples(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    files = sorted((run.path / "samples").iterdir())
    assert [file.name for file in files] == ["step-00000010.png", "step-00000020.png"]
    assert min(png_size(files[-1].read_bytes())) > 300
    assert base64.b64encode(files[-1].read_bytes()).decode() in (run.path / "report.html").read_text()
    rows = run.metrics()
    valid = next(row for row in rows if "valid/loss" in row)
    assert ("valid/modes" in valid) == (name != "digits-dcgan") and 0 <= valid["valid/two_sample_accuracy"] <= 1
    logged = next(row for row in rows if "train/D(x)" in row)
    assert 0 < logged["train/D(x)"] < 1 and 0 < logged["train/D(G(z))"] < 1
    assert (logged["train/loss/generator"] < 0) == (name == "mixture-gan")  # log(1 − D) against −log D


def test_generate_writes_rows(runs: dict[str, Run], canon: Callable[..., Any]) -> None:
    run = runs["ring-gan"].path
    for seed, file in ((0, "a.csv"), (0, "b.csv"), (1, "c.csv")):
        outcome = canon("generate", run, "--count", 700, "--seed", seed, "--out", file)
        assert outcome.code == 0 and outcome.out.strip() == file
    rows = list(csv.reader(Path("a.csv").read_text().splitlines()))
    assert rows[0] == ["ring_x", "ring_y"] and len(rows) == 701
    assert np.isfinite(np.array(rows[1:], dtype=float)).all()
    assert Path("a.csv").read_text() == Path("b.csv").read_text() != Path("c.csv").read_text()


def test_generate_writes_images(runs: dict[str, Run], canon: Callable[..., Any]) -> None:
    run = runs["digits-dcgan"].path
    assert canon("generate", run, "--json").code == 0
    assert png_size(Path("samples.png").read_bytes()) == (8 * 50 + 2, 8 * 50 + 2)
    shown = runs["digits-dcgan"].path / "samples" / f"step-{runs['digits-dcgan'].result['best_step']:08d}.png"  # type: ignore[index]
    # The noise of seed 0 is that of the evaluations, up to the last few of 64.
    ours, theirs = (np.asarray(Image.open(path))[:300].astype(int) for path in ("samples.png", shown))
    assert np.abs(ours - theirs).max() <= 16  # one step of 0 … 16


def test_evaluate_other_data(runs: dict[str, Run], canon: Callable[..., Any]) -> None:
    rows = MIXTURES["gaussian-ring"].draw(300, seed=9)
    Path("other.csv").write_text(table(ring_x=rows[:, 0].tolist(), ring_y=rows[:, 1].tolist()))
    outcome = canon("evaluate", runs["ring-gan"].path, "--data", "other.csv")
    assert outcome.code == 0 and "two_sample_accuracy" in outcome.out


def test_what_cannot_be_done_is_one_sentence(runs: dict[str, Run], canon: Callable[..., Any], tmp_path: Path) -> None:
    ring, digits = runs["ring-gan"].path, runs["digits-dcgan"].path
    Path("rows.csv").write_text("ring_x,ring_y\n1,2\n")
    canon("train", "digits-softmax", "--out", "runs/softmax", "--set", "train.steps=2")
    for i in range(12):
        Image.fromarray(np.zeros((27, 27), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "odd" / "one").mkdir(parents=True)
    for file in tmp_path.glob("*.png"):
        file.rename(tmp_path / "odd" / "one" / file.name)
    Path("few.csv").write_text(table(a=list(range(20)), b=list(range(20))))
    asked = {
        ("generate", ring, "--out", "rows.png"): "written as .csv",
        ("generate", digits, "--out", "rows.csv"): "written as .png",
        ("generate", "runs/softmax"): "generates nothing; use canon predict",
        ("predict", ring, "rows.csv"): "canon generate RUN",
        ("generate", "runs/nowhere"): "There is no run",
        ("train", "dcgan", "--data", "odd", "--out", "runs/odd"): "not 27 x 27",
        (
            "train",
            "gan",
            "--data",
            "few.csv",
            "--out",
            "runs/few",
            "--set",
            "train.steps=2",
        ): "but the valid split",
        ("train", "dcgan", "--data", "gaussian-ring"): "dcgan reads images",
    }
    for arguments, said in asked.items():
        outcome = canon(*arguments)
        assert outcome.code == 2 and said in outcome.err, (arguments, outcome)
        assert outcome.err.startswith("canon: ") and outcome.err.count("\n") == 1
    assert not Path("runs/odd").exists()
