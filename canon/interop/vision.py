"""torchvision's and timm's state dicts of image classifiers, both ways: one adapter for each family, in one table.

canon's parameters have torchvision's names, so most of an adapter reads sizes out of tensors: `settings` gives the
system's settings that a file was made with. Names that differ: timm's VGG (dense layers as convolutions), torchvision's
DenseNets of before 2018 (norm.1 for norm1), a common prefix such as module. of wrapped networks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from canon import registry
from canon.config import HasStem, Table
from canon.errors import CanonError, border
from canon.interop.formats import Candidate, FileChoices, Format, GivesWeights, Written
from canon.interop.network import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    ForeignWeights,
    Network,
    Report,
    Tensors,
    compare,
    on_meta,
    schema_of,
    unwrapped,
    weight,
)
from canon.interop.weights import write_safetensors
from canon.nn.blocks import has_small_stem
from canon.storage import writing

_COUNTER = "num_batches_tracked"  # of batch norms; files of before 2018 have none


@dataclass(frozen=True)
class Adapter:
    """One family of networks, in canon and in the other projects. `settings` may assume that a file is whole."""

    system: str
    marks: tuple[str, ...]  # patterns of names that this family has, each of them, and no other family all of them
    settings: Callable[[Tensors], Table]
    fixed: Mapping[str, Any]  # settings that the other projects' networks have
    rename: Callable[[Tensors], Tensors] = dict  # from either project
    to_timm: Callable[[Tensors], Tensors] = dict
    least: int = 0  # pixels of an image's side
    special: Callable[[Any], str] = lambda config: ""  # another setting that they do not have
    optional: str = ""  # names of what a network may be built without


def _numbers(pattern: str, names: Tensors) -> list[int]:
    return sorted({int(match[1]) for name in names if (match := re.match(pattern, name))})


def _counts(pattern: str, names: Tensors) -> list[int]:
    """How many different second numbers go with each first one."""
    pairs = {(int(match[1]), int(match[2])) for name in names if (match := re.match(pattern, name))}
    return [sum(pair[0] == first for pair in pairs) for first in sorted({pair[0] for pair in pairs})]


def _image(weight: Tensor, large: int) -> Table:
    """Channels and stem from the first convolution; how large images were is not in a file."""
    imagenet = weight.shape[2] >= large
    side = 224 if imagenet else 32
    return {"shape": (weight.shape[1], side, side), "stem": "imagenet" if imagenet else "cifar"}


def _resnet(tensors: Tensors) -> Table:
    stages = _counts(r"layer(\d+)\.(\d+)\.", tensors)
    bottleneck = "layer1.0.conv3.weight" in tensors
    # The first block of stage 2 always changes shape; a block that does not has a convolution beside it only with C.
    everywhere = any(re.match(r"layer\d+\.[1-9]\d*\.downsample\.", name) for name in tensors)
    first = "layer1.0.downsample.0.weight" in tensors and not bottleneck
    projected = any(".downsample." in name for name in tensors)
    return {
        **_image(tensors["conv1.weight"], 7),
        "num_classes": len(tensors["fc.weight"]),
        "block": "bottleneck" if bottleneck else "basic",
        "stages": tuple(stages),
        "width": len(tensors["conv1.weight"]),
        "shortcut": "C" if everywhere or first else "B" if projected else "A",
    }


def _densenet(tensors: Tensors) -> Table:
    blocks = _counts(r"features\.denseblock(\d+)\.denselayer(\d+)\.", tensors)
    layer = "features.denseblock1.denselayer1."
    narrow = tensors[layer + "conv1.weight"]
    last = tensors.get(layer + "conv2.weight", narrow)
    transition = tensors.get("features.transition1.conv.weight")
    return {
        **_image(tensors["features.conv0.weight"], 7),
        "num_classes": len(tensors["classifier.weight"]),
        "growth": len(last),
        "blocks": tuple(blocks),
        "width": len(tensors["features.conv0.weight"]),
        "bottleneck": 0 if last is narrow else len(narrow) // len(last),
        "compression": 0.5 if transition is None else round(transition.shape[0] / transition.shape[1], 2),
    }


def _densenet_names(tensors: Tensors) -> Tensors:
    old = re.compile(r"^(.*denselayer\d+\.(?:norm|conv))\.([12]\.\w+)$")
    return {old.sub(r"\1\2", name): tensor for name, tensor in tensors.items()}


def _vgg(tensors: Tensors) -> Table:
    convolutions = [
        i for i in _numbers(r"features\.(\d+)\.weight", tensors) if tensors[f"features.{i}.weight"].dim() == 4
    ]
    batch_norm = "features.1.running_mean" in tensors
    step = 3 if batch_norm else 2  # layers from one convolution to the next; a pooling layer is one more
    blocks = [1]
    for before, after in pairwise(convolutions):
        if after - before == step:
            blocks[-1] += 1
        else:
            blocks.append(1)
    channels = len(tensors[f"features.{convolutions[-1]}.weight"])
    side = math.isqrt(tensors["classifier.0.weight"].shape[1] // channels)
    pixels = side << len(blocks)
    return {
        "shape": (tensors["features.0.weight"].shape[1], pixels, pixels),
        "num_classes": len(tensors["classifier.6.weight"]),
        "blocks": tuple(blocks),
        "width": len(tensors["features.0.weight"]),
        "hidden": len(tensors["classifier.0.weight"]),
        "batch_norm": batch_norm,
    }


# timm's name, canon's name: the dense layers of VGG, which timm has as convolutions of 7×7 and 1×1
_VGG_TIMM = (("pre_logits.fc1", "classifier.0"), ("pre_logits.fc2", "classifier.3"), ("head.fc", "classifier.6"))


def _vgg_names(tensors: Tensors) -> Tensors:
    renamed = dict(tensors)
    for theirs, ours in _VGG_TIMM:
        for name in [name for name in tensors if name.startswith(f"{theirs}.")]:
            tensor = renamed.pop(name)
            renamed[ours + name.removeprefix(theirs)] = tensor.flatten(1) if tensor.dim() == 4 else tensor
    return renamed


def _vgg_to_timm(tensors: Tensors) -> Tensors:
    renamed = {name: tensor for name, tensor in tensors.items() if not name.startswith("classifier.")}
    for theirs, ours in _VGG_TIMM:
        for part in ("weight", "bias"):
            renamed[f"{theirs}.{part}"] = tensors[f"{ours}.{part}"]
    renamed["pre_logits.fc1.weight"] = renamed["pre_logits.fc1.weight"].unflatten(1, (-1, 7, 7))
    renamed["pre_logits.fc2.weight"] = renamed["pre_logits.fc2.weight"][:, :, None, None]
    return renamed


def _googlenet(tensors: Tensors) -> Table:
    first = tensors["conv1.conv.weight"]
    return {
        **_image(first, 7),
        "num_classes": len(tensors["fc.weight"]),
        "width": len(first) / 64,
        "large": tensors["inception3a.branch3.1.conv.weight"].shape[2],
        "aux": "aux1.conv.conv.weight" in tensors,
    }


def _alexnet(tensors: Tensors) -> Table:
    places = _numbers(r"features\.(\d+)\.weight", tensors)
    convolutions = [tensors[f"features.{place}.weight"] for place in places]
    widths = tuple(map(len, convolutions))
    image = _image(convolutions[0], 11)
    return {
        **image,
        "num_classes": len(tensors["classifier.6.weight"]),
        "widths": widths,
        "hidden": len(tensors["classifier.1.weight"]),
        "groups": widths[0] // convolutions[1].shape[1],
        "response_norm": places[1] == 4,
    }


def _resnet_special(config: Any) -> str:
    if config.block == "bottleneck" and config.stride_at != "3x3":
        return f"stride_at = {config.stride_at!r}"
    return "" if len(config.stages) == 4 else f"{len(config.stages)} stages"


ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        "resnet",
        (r"layer1\.0\.conv1\.weight", r"fc\.weight"),
        _resnet,
        {"shortcut": "B", "width": 64},
        special=_resnet_special,
    ),
    Adapter(
        "densenet",
        (r"features\.denseblock1\.denselayer1\.", r"classifier\.weight"),
        _densenet,
        {"compression": 0.5},
        rename=_densenet_names,
        special=lambda config: "" if config.bottleneck else "bottleneck = 0",
    ),
    Adapter(
        "vgg",
        (r"features\.0\.weight", r"(classifier\.0|pre_logits\.fc1)\.weight"),
        _vgg,
        {"width": 64, "hidden": 4096},
        rename=_vgg_names,
        to_timm=_vgg_to_timm,
        least=224,
        special=lambda config: "" if len(config.blocks) == 5 else f"{len(config.blocks)} blocks",
    ),
    Adapter(
        "googlenet",
        (r"inception3a\.branch1\.conv\.weight", r"fc\.weight"),
        _googlenet,
        {"width": 1.0, "large": 3},
        optional=r"aux[12]\.",
    ),
    Adapter(
        "alexnet",
        (r"features\.0\.weight", r"features\.1[02]\.weight", r"classifier\.1\.weight", r"classifier\.6\.weight"),
        _alexnet,
        {"widths": (64, 192, 384, 256, 256), "hidden": 4096, "groups": 1, "response_norm": False},
        least=224,
    ),
)


class Identified(NamedTuple):
    """A foreign file as canon's tensors, and the network they belong to."""

    system: registry.System
    preset: str
    config: Any
    tensors: Tensors
    report: Report


class VisionFile(GivesWeights):
    """A state dict of one of the families; for train.init its tensors alone, whatever is missing."""

    def __init__(self, path: Path, tensors: Tensors, adapter: Adapter) -> None:
        is_timm = any(name.startswith(_VGG_TIMM[0][0]) for name in tensors)
        super().__init__(path, "timm" if is_timm else "torchvision", adapter.system)
        self._tensors, self._adapter = tensors, adapter

    def read(self) -> ForeignWeights:
        tensors = self._adapter.rename(unwrapped(self._tensors))
        return ForeignWeights(_settings(self._adapter, tensors, str(self.path)), tensors)

    def network(self, choices: FileChoices) -> Network:
        source = str(self.path)
        it = identify(self._tensors, source, choices.system, choices.settings)
        schema = schema_of(source, it.config, choices, IMAGENET_MEAN, IMAGENET_STD)
        origin = ForeignWeights({}, it.tensors, it.report)
        return Network(source, it.system, it.preset, it.config, it.tensors, schema, origin)


def recognise(candidate: Candidate) -> VisionFile | None:
    adapter = adapter_of(unwrapped(candidate.tensors)) if candidate.tensors is not None else None
    return VisionFile(candidate.path, candidate.tensors or {}, adapter) if adapter is not None else None


def adapter_of(tensors: Tensors) -> Adapter | None:
    """The family that a table of tensors belongs to, by names alone."""
    for adapter in ADAPTERS:
        if all(any(re.match(mark, name) for name in tensors) for mark in adapter.marks):
            return adapter
    return None


def identify(tensors: Tensors, source: str, wanted: str = "", changes: Table | None = None) -> Identified:
    """The network of a file: settings that `changes` says, then those of the preset `wanted` names, then the file's.

    Without a preset, depth and widths are the file's own. Tensors that do not fit are a mistake that lists them all.
    """
    tensors = unwrapped(tensors)
    adapter = adapter_of(tensors)
    assert adapter is not None, "a file that was recognised"
    system, preset = registry.find(wanted or adapter.system)
    if system.name != adapter.system:
        raise CanonError(f"{source} is of the family {adapter.system}, not {system.name}.")
    tensors = adapter.rename(tensors)
    read = _settings(adapter, tensors, source)
    preset = preset or _preset(system, read)
    # Of a preset that is given, the file still decides classes, channels and stem: no preset does.
    sizes: Table = {key: read[key] for key in ("shape", "num_classes", "stem") if key in read}
    if image := system.presets.get(preset, {}).get("shape"):
        sizes["shape"] = (read["shape"][0], *image[1:])
    config = system.configure(preset, {**(sizes if preset else read), **(changes or {})})
    name = f"{system.name}:{preset}" if preset else system.name
    with border(source, f"does not fit {name}"):
        tensors, report = fit(on_meta(system, config), tensors, source, adapter.optional)
    if not report.fits:
        raise CanonError(f"{source} does not fit {name}: {report.sentence()}.")
    return Identified(system, preset, config, tensors, report)


def _settings(adapter: Adapter, tensors: Tensors, source: str) -> Table:
    with border(source, f"looks like {adapter.system}, but its sizes cannot be read"):
        return adapter.settings(tensors)


def _preset(system: registry.System, read: Table) -> str:
    """The preset whose settings are those read from a file, whatever its classes and images; "" for none."""
    free = {"shape", "num_classes", "stem", "dropout"}
    for name in system.presets:
        config = system.configure(name, {})
        small = "stem" in read and (read["stem"] == "cifar") != has_small_stem(config.stem, config.shape)
        if not small and all(getattr(config, key) == value for key, value in read.items() if key not in free):
            return name
    return ""


def fit(network: nn.Module, tensors: Tensors, source: str, optional: str = "") -> tuple[Tensors, Report]:
    """The tensors that the network takes, in its order and in its precision, and what became of all of them."""
    state = network.state_dict()
    counters = {name: torch.zeros((), dtype=torch.int64) for name in state if name.endswith(_COUNTER)}
    left_out = [name for name in tensors if name not in state and optional and re.match(optional, name)]
    report = compare(state, tensors, left_out, tuple(counters))
    known = counters | {name: weight(tensors[name], name, source, state[name].dtype) for name in report.used}
    return {name: known[name] for name in state if name in known}, report


def to_project(project: str, system: str, config: Any, tensors: Tensors, source: str) -> Tensors:
    """The tensors by the names and in the shapes of `project`."""
    adapter = next(adapter for adapter in ADAPTERS if adapter.system == system)
    channels, *sides = config.shape
    other = {key: getattr(config, key) for key, value in adapter.fixed.items() if getattr(config, key) != value}
    unlike = [f"{key} = {value!r}" for key, value in other.items()]
    if isinstance(config, HasStem) and has_small_stem(config.stem, config.shape):
        unlike.append("the stem for small images")
    if min(sides) < adapter.least:
        unlike.append(f"images of {'×'.join(map(str, sides))} pixels, under {adapter.least}")
    if project == "torchvision" and channels != 3:
        unlike.append(f"{channels} input channels")
    if reason := next(filter(None, [*unlike, adapter.special(config)]), ""):
        raise CanonError(f"{source} has no counterpart in {project}: {reason} is not what its {system} has.")
    return adapter.to_timm(tensors) if project == "timm" else dict(tensors)


def write_as(format: Format, network: Network, target: Path, choices: FileChoices) -> Written:
    """A state dict that the other project's network loads: .safetensors, or .pt and .pth with tensors only."""
    tensors = to_project(format.name, network.system.name, network.config, network.tensors, network.source)
    write_tensors(tensors, target)
    return Written(tuple(tensors))


def write_tensors(tensors: Tensors, target: Path) -> None:
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with writing(target) as part:
        if target.suffix == ".safetensors":
            write_safetensors(whole, part)
        else:
            with part.open("wb") as file:  # by its name, torch would report a full disk as an error of its own
                torch.save(whole, file)  # tensors only: read it with weights_only=True
