"""Foreign state dicts against the projects they come from: the same logits, names both ways, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import canon as package
from canon import registry
from canon.errors import CanonError
from canon.interop import vision
from canon.interop.formats import check_written, find
from canon.interop.network import IMAGENET_MEAN, IMAGENET_STD
from canon.use.export import convert
from tests.parity.torchvision_models import build, randomize, timm, torchvision_models

Tensors = dict[str, Tensor]


def network_of(known: vision.Identified) -> nn.Module:
    with torch.device("meta"):
        network: nn.Module = known.system.load()[1](known.config)
    network.load_state_dict(known.tensors, assign=True, strict=True)
    return network.eval()


def assert_same_logits(ours: nn.Module, theirs: nn.Module, size: int) -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        actual, wanted = ours.eval()(images), theirs.eval()(images)
    assert (actual - wanted).abs().max() <= 1e-5 * max(1.0, wanted.abs().max().item())


# torchvision's function, its settings, what canon calls it, side of the images compared
MODELS: list[tuple[str, dict[str, Any], str, int]] = [
    ("resnet18", {"num_classes": 7}, "resnet:18", 64),
    ("resnet50", {}, "resnet:50", 64),
    ("densenet121", {"num_classes": 7}, "densenet:121", 64),
    ("vgg11_bn", {"num_classes": 7}, "vgg:11bn", 224),
    ("googlenet", {"aux_logits": True, "init_weights": False}, "googlenet:aux", 96),
    ("alexnet", {"num_classes": 7}, "alexnet:base", 224),
]


@pytest.mark.parametrize("name,settings,ours,size", MODELS, ids=[model[0] for model in MODELS])
def test_torchvision_both_ways(name: str, settings: dict[str, Any], ours: str, size: int) -> None:
    theirs = build(getattr(torchvision_models(), name), **settings)
    actual = vision.identify(theirs.state_dict(), "file.pth")
    assert f"{actual.system.name}:{actual.preset}" == ours
    assert actual.report.used == list(theirs.state_dict()) and actual.report.fits
    assert actual.config.num_classes == settings.get("num_classes", 1000)
    network = network_of(actual)
    assert_same_logits(network, theirs, size)
    # And back, by weights that canon made.
    randomize(network, seed=1)
    back = vision.to_project("torchvision", actual.system.name, actual.config, network.state_dict(), "run")
    theirs.load_state_dict(back, strict=True)
    assert_same_logits(network, theirs, size)


@pytest.mark.parametrize(
    "name,ours,size", [("resnet26", "resnet", 64), ("densenet121", "densenet:121", 64), ("vgg11", "vgg:11", 224)]
)
def test_timm_both_ways(name: str, ours: str, size: int) -> None:
    with torch.device("meta"):
        theirs = timm().create_model(name, num_classes=7)
    theirs = randomize(theirs.to_empty(device="cpu"))
    actual = vision.identify(theirs.state_dict(), "file.safetensors")
    assert f"{actual.system.name}:{actual.preset}".rstrip(":") == ours and actual.config.num_classes == 7
    network = network_of(actual)
    assert_same_logits(network, theirs, size)
    randomize(network, seed=1)
    theirs.load_state_dict(
        vision.to_project("timm", actual.system.name, actual.config, network.state_dict(), "run"), strict=True
    )
    assert_same_logits(network, theirs, size)


def on_meta(name: str, **changes: Any) -> tuple[Any, Tensors]:
    system, preset = registry.find(name)
    config = system.configure(preset, changes)
    with torch.device("meta"):
        return config, system.load()[1](config).state_dict()


PRESETS = [
    f"{a.system}:{preset}" for a in vision.ADAPTERS for preset in registry.find(a.system)[0].presets if preset != "1202"
]


@pytest.mark.parametrize("name", PRESETS)
def test_settings_are_read_from_the_file(name: str) -> None:
    """Every preset of every family, from the shapes of its own tensors; with other classes than its own."""
    config, tensors = on_meta(name, num_classes=23)
    read = vision.identify(tensors, "file.pth")
    kept = ("shape", "stem", "dropout")  # not in a file, or only in part
    assert {k: v for k, v in vars(read.config).items() if k not in kept} == {
        k: v for k, v in vars(config).items() if k not in kept
    }
    assert read.config.shape[0] == config.shape[0]
    given = vision.identify(tensors, "file.pth", name)
    assert given.config.num_classes == 23 and given.preset == name.partition(":")[2]


def test_names_of_old_densenets_and_wrapped_networks() -> None:
    _, tensors = on_meta("densenet:tiny")
    old = {re.sub(r"(denselayer\d+\.(?:norm|conv))([12])\.", r"\1.\2.", name): t for name, t in tensors.items()}
    old = {f"module.{name}": tensor for name, tensor in old.items() if "num_batches_tracked" not in name}
    assert "module.features.denseblock1.denselayer1.norm.1.weight" in old
    network = vision.identify(old, "old.pth")
    assert list(network.tensors) == list(tensors) and network.preset == "tiny"
    assert all(int(t) == 0 for name, t in network.tensors.items() if name.endswith("num_batches_tracked"))


def test_heads_on_the_side_are_left_out_where_they_are_not_wanted() -> None:
    _, tensors = on_meta("googlenet:aux")
    network = vision.identify(tensors, "g.pth", "googlenet:base")
    assert network.report.left_out == [name for name in tensors if name.startswith("aux")] and not network.config.aux
    _, without = on_meta("googlenet:base")
    assert list(network.tensors) == list(without)
    with pytest.raises(CanonError, match=r"does not fit googlenet:aux: \d+ missing \(aux1.conv.conv.weight"):
        vision.identify(without, "g.pth", "googlenet:aux")


def test_half_precision_is_read_as_single() -> None:
    _, tensors = on_meta("resnet:tiny")
    network = vision.identify({n: t.half() if t.is_floating_point() else t for n, t in tensors.items()}, "half.pth")
    assert network.tensors["fc.weight"].dtype == torch.float32


def test_everything_that_does_not_fit_is_listed() -> None:
    _, tensors = on_meta("resnet:18")
    tensors["head.weight"] = tensors["layer1.0.conv1.weight"]
    tensors["layer2.0.conv1.weight"] = tensors.pop("layer1.0.bn1.weight")
    with pytest.raises(CanonError) as refused:
        vision.identify(tensors, "r.pth", "resnet:18")
    assert str(refused.value) == (
        "r.pth does not fit resnet:18: 1 missing (layer1.0.bn1.weight); 1 unexpected (head.weight); "
        "1 of another shape (layer2.0.conv1.weight: [64] in the file, [128, 64, 3, 3] in the network)."
    )
    _, other = on_meta("resnet:34")
    with pytest.raises(CanonError) as refused:
        vision.identify(other, "r34.pth", "resnet:18")
    assert all(name in str(refused.value) for name in set(other) - set(on_meta("resnet:18")[1]))


@pytest.mark.parametrize(
    "name,changes,project,reason",
    [
        ("resnet:20", {}, "torchvision", "shortcut = 'A'"),
        ("resnet:18", {"shape": [3, 32, 32]}, "timm", "the stem for small images"),
        ("resnet:50", {"stride_at": "1x1"}, "torchvision", "stride_at = '1x1'"),
        ("resnet:18", {"width": 32}, "torchvision", "width = 32"),
        ("resnet:18", {"shape": [1, 64, 64]}, "torchvision", "1 input channels"),
        ("vgg:11", {"shape": [3, 96, 96]}, "torchvision", "images of 96×96 pixels, under 224"),
        ("densenet:121", {"bottleneck": 0}, "timm", "bottleneck = 0"),
        ("googlenet:base", {"large": 5}, "torchvision", "large = 5"),
        ("alexnet:paper", {}, "torchvision", "widths = (96, 256, 384, 384, 256)"),
    ],
)
def test_what_the_others_do_not_have(name: str, changes: dict[str, Any], project: str, reason: str) -> None:
    config, tensors = on_meta(name, **changes)
    with pytest.raises(CanonError, match=re.escape(f"has no counterpart in {project}: {reason} is not")):
        vision.to_project(project, name.partition(":")[0], config, tensors, "runs/x")


def test_families_that_timm_or_both_lack() -> None:
    for name, project, others in (
        ("alexnet", "timm", "resnet, densenet, vgg"),
        ("lenet", "torchvision", "resnet, densenet, vgg, googlenet, alexnet"),
    ):
        what = f"x is of the system {name}, which cannot be written as a state dict of {project}"
        said = f"{what}; --to {project} writes {others}."
        with pytest.raises(CanonError, match=re.escape(said)):
            check_written(registry.find(name)[0], find(project), "x")


# Through the command line


def foreign(path: Path, name: str = "resnet:18", **changes: Any) -> nn.Module:
    """A state dict of canon's network, which has torchvision's names, in a file."""
    system, preset = registry.find(name)
    with torch.device("meta"):
        network = system.load()[1](system.configure(preset, changes))
    network = randomize(network.to_empty(device="cpu")).eval()
    if path.suffix == ".safetensors":
        save_file(network.state_dict(), path)
    else:
        torch.save(network.state_dict(), path)
    return network


SMALL = {"stages": [1, 1, 1, 1], "num_classes": 3}  # of what torchvision can be given: ResNet(BasicBlock, [1, 1, 1, 1])


def test_a_run_from_a_file_predicts_as_torchvision(canon: Callable[..., Any], tmp_path: Path) -> None:
    models = torchvision_models()
    theirs = randomize(models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=3)).eval()
    torch.save(theirs.state_dict(), "file.pth")
    Path("names.txt").write_text("ant\nbee\ncat\n")
    printed = canon("convert", "file.pth", "runs/made", "--to", "canon", "--classes", "names.txt")
    assert printed.code == 0 and "74 tensors of file.pth used, 0 missing, 0 unexpected" in printed.out, printed.err
    pixels = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("picture.png")
    (row,) = json.loads(canon("predict", "runs/made", "picture.png", "--top", 3, "--json").out)
    # torchvision's own way: pixels to 0 … 1, then its published mean and deviation.
    scaled = (pixels / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    with torch.no_grad():
        wanted = theirs(torch.from_numpy(scaled.transpose(2, 0, 1)).float()[None]).softmax(1)[0]
    values = {choice["class"]: choice["probability"] for choice in row["top"]}
    assert values == pytest.approx(dict(zip(("ant", "bee", "cat"), wanted.tolist(), strict=True)), abs=1e-5)
    assert np.allclose(IMAGENET_MEAN, 255 * np.array([0.485, 0.456, 0.406]))
    assert np.allclose(IMAGENET_STD, 255 * np.array([0.229, 0.224, 0.225]))
    # Back again, to both endings: tensor for tensor what it was.
    for ending in ("safetensors", "pth"):
        assert canon("convert", "runs/made", f"back.{ending}", "--to", "torchvision").code == 0
    for back in (load_file("back.safetensors"), torch.load("back.pth", weights_only=True)):
        assert list(back) == list(theirs.state_dict()) or set(back) == set(theirs.state_dict())
        assert all(torch.equal(back[name], tensor) for name, tensor in theirs.state_dict().items())
    # Its network is described, and without data of its own it says what is missing.
    assert "file file.pth" in Path("runs/made/recipe.toml").read_text()
    assert canon("describe", "runs/made").code == 0
    assert "data.source is missing" in canon("evaluate", "runs/made").err


def test_training_starts_from_it(canon: Callable[..., Any]) -> None:
    network = foreign(Path("file.safetensors"), "resnet:tiny")
    scale = ("--mean", "5", "--std", "6")
    assert canon("convert", "file.safetensors", "runs/made", "--to", "canon", *scale).code == 0
    budget = ("train.steps=1", "optimizer.name=sgd", "optimizer.lr=1e-12", "system.width=8", "system.stages=[1,1,1]")
    changes = [word for change in budget for word in ("--set", change)]
    printed = canon("train", "resnet:tiny", "--set", "train.init=runs/made", *changes, "--out", "runs/next")
    assert printed.code == 0 and "tensors taken" in printed.out + printed.err, printed.err
    after = package.load("runs/next").network
    assert torch.allclose(after.fc.weight.cpu(), network.fc.weight, atol=1e-6)


def test_json_report(canon: Callable[..., Any]) -> None:
    network = foreign(Path("file.pth"), "resnet:18", **SMALL)
    record = json.loads(canon("convert", "file.pth", "out.safetensors", "--to", "timm", "--json").out)
    assert record["system"] == "resnet" and record["shape"] == [3, 224, 224] and record["num_classes"] == 3
    assert record["keys"]["used"] == list(network.state_dict()) == record["written"]
    assert not record["keys"]["missing"] and not record["keys"]["unexpected"]
    assert record["parameters"] == sum(p.numel() for p in network.parameters())


def test_refusals(canon: Callable[..., Any], tmp_path: Path) -> None:
    foreign(Path("r.pth"), "resnet:18", **SMALL)
    foreign(Path("tiny.pth"), "vgg:tiny")
    Path("broken.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    Path("broken.pth").write_bytes(b"no pickle")
    torch.save({"weight": torch.zeros(2)}, "other.pth")
    torch.save([1, 2], "list.pth")
    Path("table.csv").write_text("a,b\n")
    Path("two.txt").write_text("a\nb\n")
    Path("twice.txt").write_text("a\nb\na\n")
    Path("there").mkdir()
    to_canon = ("out", "--to", "canon")
    for wrong, sentence in (
        (("r.pth", *to_canon, "--system", "vgg:16"), "r.pth is of the family resnet, not vgg."),
        (("tiny.pth", *to_canon, "--system", "resnet"), "tiny.pth is of the family vgg, not resnet."),
        (("r.pth", *to_canon, "--system", "resnet:35"), 'No system "resnet:35"; did you mean resnet:'),
        (("r.pth", *to_canon, "--system", "resnet:18"), "r.pth does not fit resnet:18: "),
        (("other.pth", *to_canon), "other.pth is a .safetensors, .pt or .pth file of tensors, which does not"),
        (("list.pth", *to_canon), "list.pth is not a table of tensors"),
        (("broken.pth", *to_canon), "broken.pth"),
        (("broken.safetensors", *to_canon), "broken.safetensors"),
        (("absent.pth", *to_canon), "There is no run, file or folder absent.pth, and no system"),
        (("table.csv", *to_canon), "table.csv is not fastText's .bin or .ftz, word2vec's"),
        (("resnett:18", *to_canon), "There is no run, file or folder resnett:18, and no system of that name."),
        (("r.pth", "there", "--to", "canon"), "there already exists"),
        (("r.pth", "out.png", "--to", "timm"), "--to timm writes .safetensors or .pt or .pth"),
        (("r.pth", "out.pth", "--to", "onnx"), '--to onnx writes .onnx, not ".pth"'),
        (("r.pth", "out", "--to", "onx"), "did you mean onnx?"),
        (("r.pth", *to_canon, "--classes", "two.txt"), "--classes has 2 names, but r.pth has 3 classes."),
        (("r.pth", *to_canon, "--classes", "twice.txt"), '"a" twice'),
        (("r.pth", *to_canon, "--classes", "none.txt"), "there is no file none.txt"),
        (
            ("r.pth", *to_canon, "--mean", "a,b"),
            '--mean takes numbers with commas between, as in 124,116,104; got "a,b"',
        ),
        (("r.pth", *to_canon, "--mean", "1,2"), "--mean needs a number for each of the 3 channels, got 2."),
        (("r.pth", *to_canon, "--std", "0"), "--std must be positive."),
        (("tiny.pth", *to_canon), "tiny.pth reads 1 channel(s): give --mean"),
        (("r.pth", *to_canon, "--set", "train.steps=3"), "takes only system settings"),
        (("there", "x.onnx", "--to", "onnx"), "there is not a run (recipe.toml), "),
        (("resnet:tiny", *to_canon), "resnet:tiny is a system; canon train makes runs of it."),
        (("adaboost", "x.onnx", "--to", "onnx"), "learns without a network"),
        (
            ("lenet:tiny", "x.pth", "--to", "torchvision"),
            "--to torchvision writes resnet, densenet,",
        ),
    ):
        refused = canon("convert", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1, (wrong, refused)
    assert not Path("out").exists() and not list(tmp_path.glob("*.onnx")) and not list(tmp_path.glob(".*writing"))


def test_a_run_needs_no_options(canon: Callable[..., Any]) -> None:
    foreign(Path("r.pth"), "resnet:18", **SMALL)
    convert("r.pth", "runs/r", "canon")
    assert "leave these options out" in canon("convert", "runs/r", "x.pth", "--to", "timm", "--system", "resnet").err
    assert "runs/r is a run already." in canon("convert", "runs/r", "runs/s", "--to", "canon").err
    Path("full").write_text("")
    assert "cannot be written" in canon("convert", "runs/r", "full/x.pth", "--to", "timm").err
