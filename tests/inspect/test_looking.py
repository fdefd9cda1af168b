"""Filters against the weights, features against a pass by hand, stages against published tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import canon as package
from canon.inspect.features import features, features_figure
from canon.inspect.filters import Filters, filters, filters_figure, mosaic
from canon.inspect.layers_figure import layers_figure
from canon.inspect.stages import stages, without_repeats
from canon.inspect.summary import describe
from canon.registry import SYSTEMS
from canon.training.trainer import train

ROWS = np.random.default_rng(0).integers(0, 17, (3, 8, 8), dtype=np.uint8)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("lenet", "mlp", "densenet", "dcgan"):
        train(f"digits-{name}", out=folder / name, changes={"train.steps": 4}, quiet=True)
    train("cancer-logistic", out=folder / "table", changes={"train.steps": 2}, quiet=True)
    train("cancer-adaboost", out=folder / "boost", changes={"train.steps": 2}, quiet=True)
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> list[str]:
    """The rows as files; digits have 16 for white."""
    paths = [str(tmp_path / f"{i}.png") for i in range(len(ROWS))]
    for path, row in zip(paths, ROWS, strict=True):
        Image.fromarray(np.rint(row * (255 / 16)).astype(np.uint8)).save(path)
    return paths


# Filters


def test_filters_are_the_weights(runs: Path, canon: Callable[..., Any]) -> None:
    model = package.load(runs / "lenet")
    record = json.loads(canon("inspect", "filters", runs / "lenet", "--json").out)
    assert (record["layer"], record["kind"], record["shape"]) == ("features.0", "convolution", [6, 1, 5, 5])
    np.testing.assert_allclose(record["weights"], model.network.features[0].weight.detach().numpy(), rtol=1e-6)
    assert not Path("lenet-filters.png").exists()
    model = package.load(runs / "mlp")
    result = filters(model)
    assert result.kind == "dense" and result.weights.shape[1:] == model.schema.shape
    first = next(m for m in model.network.modules() if isinstance(m, torch.nn.Linear))
    assert np.array_equal(result.weights.reshape(len(result.weights), -1), first.weight.detach().numpy())


def test_filters_figure(runs: Path, canon: Callable[..., Any]) -> None:
    assert canon("inspect", "filters", runs / "lenet").out.strip() == "lenet-filters.png"
    assert Image.open("lenet-filters.png").size[0] > 400
    assert json.loads(canon("inspect", "filters", runs / "mlp", "--json", "--out", "x.svg").out)["figure"] == "x.svg"
    # One input channel, three and many; more filters than fit.
    for shape in ((4, 1, 5, 5), (8, 3, 7, 7), (40, 20, 3, 3), (300, 3, 3, 3), (2, 3, 1, 1)):
        figure = filters_figure(Filters("conv1", "convolution", np.random.default_rng(0).normal(size=shape)))
        assert f"{shape[0]} filters" in figure.axes[0].get_title(loc="left")


def test_the_mosaic_has_every_panel_in_its_place() -> None:
    panels = np.arange(5 * 2 * 3, dtype=float).reshape(5, 1, 2, 3)
    picture = mosaic(panels, 2)[:, :, 0]
    assert picture.shape == (3 * 3 - 1, 2 * 4 - 1)
    assert np.array_equal(picture[3:5, 4:7], panels[3, 0]) and np.isnan(picture[6:, 4:]).all()
    assert np.isnan(picture[2]).all() and np.isnan(picture[:, 3]).all()


# Features


def test_features_equal_a_pass_by_hand(runs: Path, pictures: list[str]) -> None:
    model = package.load(runs / "lenet")
    scaled = (torch.from_numpy(ROWS).float()[:, None] - model.schema.mean[0]) / model.schema.std[0]
    network = model.network.eval()
    with torch.no_grad():
        wanted = network.features[:4](scaled).numpy()
    actual = features(model, pictures, "features.3")
    np.testing.assert_allclose(actual.values, wanted, atol=1e-5)
    np.testing.assert_allclose(actual.pooled(), wanted.mean(axis=(2, 3)), atol=1e-5)
    assert np.array_equal(actual.images[:, 0], ROWS) and actual.sources == pictures
    assert not network.features[3]._forward_hooks, "nothing is left behind"


def test_what_follows_does_not_write_into_a_feature(runs: Path, pictures: list[str]) -> None:
    """DenseNet's ReLUs are in place: a norm's output must still have its negative numbers."""
    model = package.load(runs / "densenet")
    assert features(model, pictures, "features.norm5").values.min() < 0
    assert features(model, pictures).values.min() < 0


def test_default_layers(runs: Path, pictures: list[str]) -> None:
    assert features(package.load(runs / "lenet"), pictures).layer == "features"
    result = features(package.load(runs / "mlp"), pictures)
    assert result.layer == "layers" and result.values.ndim == 2


def test_features_command(runs: Path, pictures: list[str], canon: Callable[..., Any]) -> None:
    assert canon("inspect", "features", runs / "lenet", *pictures).out.strip() == "lenet-features.png"
    assert canon("inspect", "features", runs / "mlp", *pictures, "--out", "v.pdf").code == 0 and Path("v.pdf").is_file()
    record = json.loads(canon("inspect", "features", runs / "lenet", *pictures, "--layer", "features.0", "--json").out)
    assert record["shape"] == [6, 28, 28] or record["shape"][0] == 6
    assert [len(row["features"]) for row in record["images"]] == [6, 6, 6]
    assert record["images"][0]["source"] == pictures[0]
    many = features(package.load(runs / "lenet"), pictures * 5, "features.3")
    assert "first 12 of 15 images" in str(features_figure(many)._suptitle)


def test_inspect_refuses(runs: Path, pictures: list[str], canon: Callable[..., Any]) -> None:
    lenet = runs / "lenet"
    for wrong, sentence in (
        (("features", lenet, pictures[0], "--layer", "featurs.3"), 'No layer "featurs.3"; did you mean features.3?'),
        (("features", lenet, pictures[0], "--layer", "zz"), "canon describe RUN lists all layers."),
        (("features", lenet, "none.png"), 'There is no file or folder "none.png"'),
        (("features", runs / "table", pictures[0]), "is for runs on images"),
        (("features", runs / "dcgan", pictures[0]), "is a run of dcgan, whose network does not read images."),
        (("filters", runs / "table"), "a convolution has filters, or a dense layer that reads whole images"),
        (("filters", runs / "boost"), "which has no network to look into"),
        (("filters", lenet, "--layer", "features.1"), 'layer "features.1" is '),
        (("filters", lenet, "--layer", "classifier.1"), 'layer "classifier.1" is Linear'),
        (("filters", lenet, "--out", "x.gif"), "a figure is written as .png, .svg, .pdf"),
        (("filters", runs), "is not a run"),
        (("filtres", lenet), "inspect --help."),
    ):
        refused = canon("inspect", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1, (wrong, refused)


# Stages


def test_resnet50_is_the_papers_table() -> None:
    """He et al. 2016, table 1, with the stride in the 3×3 convolution: outputs by stage, counted by hand."""
    description = describe("resnet:50")
    rows = [(stage.name, stage.kind, stage.output_shape[1:], stage.parameters) for stage in description.stages]  # type: ignore[index]
    inner = lambda wide, narrow: wide * narrow + 9 * narrow**2 + narrow * 4 * narrow + 2 * 6 * narrow  # noqa: E731

    def stage(count: int, wide: int, narrow: int) -> int:
        shortcut = wide * 4 * narrow + 2 * 4 * narrow
        return inner(wide, narrow) + shortcut + (count - 1) * inner(4 * narrow, narrow)

    assert rows[1:5] == [
        ("layer1", "3 × Bottleneck", (256, 56, 56), stage(3, 64, 64)),
        ("layer2", "4 × Bottleneck", (512, 28, 28), stage(4, 256, 128)),
        ("layer3", "6 × Bottleneck", (1024, 14, 14), stage(6, 512, 256)),
        ("layer4", "3 × Bottleneck", (2048, 7, 7), stage(3, 1024, 512)),
    ]
    assert rows[0][0] == "conv1–maxpool" and rows[0][2:] == ((64, 56, 56), 64 * 3 * 49 + 128)
    assert description.network is not None and description.network.parameters == 25_557_032
    assert round(description.network.multiply_adds / 1e9, 2) == 4.09


@pytest.mark.parametrize(
    "name,names",
    [
        (
            "vgg:16",
            [
                "features.0–4",
                "features.5–9",
                "features.10–16",
                "features.17–23",
                "features.24–30",
                "avgpool",
                "classifier",
            ],
        ),
        ("densenet:121", ["features.conv0–pool0", "features.denseblock1", "features.transition1"]),
        (
            "googlenet",
            ["conv1–maxpool1", "conv2", "conv3–maxpool2", "inception3a", "inception3b–maxpool3", "inception4a"],
        ),
        ("simclr", ["encoder.conv1–maxpool", "encoder.layer1", "encoder.layer2"]),
        ("gan", ["generator"]),
    ],
)
def test_names_of_stages(name: str, names: list[str]) -> None:
    assert [stage.name for stage in describe(name).stages][: len(names)] == names


def test_equal_blocks_inside_a_stage_are_one_line() -> None:
    """Of a stack that is the child of a stage, too: twelve blocks of GPT-2, with the sums of all."""
    (stack,) = (stage for stage in describe("gpt2").stages if stage.name == "layers")
    layers = without_repeats(stack)
    assert {layer.name.rsplit(".", 2)[0] for layer in layers[:4]} == {"layers.blocks.0–11"}
    assert [layer.times for layer in layers] == [12] * 7 + [1] and layers[-1].name == "layers.norm"
    assert sum(layer.times * layer.row.parameters for layer in layers) == stack.parameters


@pytest.mark.parametrize("system", [s for s in SYSTEMS if s.loop == "gradient"], ids=lambda system: system.name)
def test_stages_add_up(system: Any) -> None:
    """Every layer in one stage, and the sums are the network's."""
    for preset in ("", "tiny"):
        description = describe(f"{system.name}:{preset}".rstrip(":"))
        assert description.network is not None
        assert sum(stage.parameters for stage in description.stages) == description.network.parameters
        assert sum(stage.multiply_adds for stage in description.stages) == description.network.multiply_adds
        names = [row.name for stage in description.stages for row in stage.rows]
        left = [row.name for row in description.network.rows if row.kind != "Identity"]
        assert len(set(names)) == len(names) and set(left) <= set(names)
        values = [repeated for stage in description.stages for repeated in without_repeats(stage)]
        assert sum(r.times * r.row.parameters for r in values) == description.network.parameters
        assert sum(r.times * r.row.multiply_adds for r in values) == description.network.multiply_adds
        assert sum(r.times for r in values) == len(names)


def test_counting_leaves_no_hooks() -> None:
    network = package.create("resnet:tiny")
    stages(network, torch.zeros(1, 1, 8, 8))
    assert not any(module._forward_hooks for module in network.modules())


def test_describe_tells_stages(canon: Callable[..., Any]) -> None:
    printed = canon("describe", "resnet:50").out
    for piece in ("layer1.1–2.conv1", "3 × Bottleneck", "25,557,032", "4,089,184,256", "14,964,736"):
        assert piece in printed, piece
    record = json.loads(canon("describe", "resnet:50", "--json").out)
    assert [stage["output_shape"] for stage in record["stages"]][-2:] == [[2048, 7, 7], [1000]]
    assert sum(len(stage["layers"]) for stage in record["stages"]) <= len(record["layers"])
    assert record["input_shape"] == [3, 224, 224]
    assert all(len(line) <= 120 for line in printed.split("\n\n")[1].splitlines()), "facts are wrapped"


def test_describe_figure(canon: Callable[..., Any]) -> None:
    printed = canon("describe", "lenet", "--figure", "net.svg")
    assert printed.out.endswith("\nnet.svg\n")
    drawn = Path("net.svg").read_text()
    for piece in ("features.0–2", "1×28×28", "16×5×5", "59.1 k", "LeNet-5 (lenet)"):
        assert piece in drawn, piece
    assert json.loads(canon("describe", "mlp", "--figure", "net.png", "--json").out)["figure"] == "net.png"
    assert "nothing to draw" in canon("describe", "adaboost", "--figure", "x.png").err
    assert "a figure is written as" in canon("describe", "lenet", "--figure", "x.bmp").err
    for name in ("densenet:121", "gan", "googlenet"):
        assert len(layers_figure(describe(name)).axes) == 1
