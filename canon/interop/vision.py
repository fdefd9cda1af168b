"""torchvision's and timm's state dicts of image classifiers, both ways: one adapter for each family, in one table.

canon's parameters have torchvision's names, so most of an adapter reads sizes out of tensors: `settings` gives the
system's settings that a file was made with. Names that differ: timm's VGG (dense layers as convolutions), torchvision's
DenseNets of before 2018 (norm.1 for norm1), a common prefix such as module. of wrapped networks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from canon import registry
from canon.config import Table
from canon.errors import CanonError, border
from canon.interop.tensors import weight
from canon.nn.blocks import has_small_stem

Tensors = dict[str, Tensor]
PROJECTS = ("torchvision", "timm")
_COUNTER = "num_batches_tracked"  # of batch norms; files of before 2018 have none
_WRAPPERS = ("module.", "model.", "_orig_mod.")


@dataclass(frozen=True)
class Report:
    """What became of the tensors of a file."""

    used: list[str]
    missing: list[str]  # that the network has and the file has not
    unexpected: list[str]  # that the file has and the network has not
    unlike: list[str]  # name: shape in the file, shape in the network
    left_out: list[str] = field(default_factory=list)  # known to belong to what the network was built without

    @property
    def fits(self) -> bool:
        return not (self.missing or self.unexpected or self.unlike)

    def sentence(self) -> str:
        """Everything that does not fit, by name."""
        parts = (("missing", self.missing), ("unexpected", self.unexpected), ("of another shape", self.unlike))
        return "; ".join(f"{len(names)} {what} ({', '.join(names)})" for what, names in parts if names)


@dataclass(frozen=True)
class Adapter:
    system: str
    marks: tuple[str, ...]  # patterns of names that this family has, each of them, and no other family all of them
    settings: Callable[[Tensors], Table]
    counterpart: Callable[[Any], str]  # why a network of these settings is none of theirs, or ""
    rename: Callable[[Tensors], Tensors] = dict  # from either project
    to_timm: Callable[[Tensors, Any], Tensors] | None = None  # None: timm has no such family
    optional: str = ""  # names of what a network may be built without


# Every `settings` reads a file that is as it should be; KeyError and the like are told as a sentence by `recognise`.


def _same(tensors: Tensors, _config: Any) -> Tensors:
    return dict(tensors)


def _numbers(pattern: str, names: Tensors) -> list[int]:
    return sorted({int(found[1]) for name in names if (found := re.match(pattern, name))})


def _counts(pattern: str, names: Tensors) -> list[int]:
    """How many different second numbers go with each first one."""
    pairs = {(int(found[1]), int(found[2])) for name in names if (found := re.match(pattern, name))}
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


def _resnet_counterpart(config: Any) -> str:
    if config.shortcut != "B":
        return f"shortcut = {config.shortcut!r}"
    if has_small_stem(config.stem, config.shape):
        return "the stem for small images"
    if config.stride_at != "3x3" and config.block == "bottleneck":
        return f"stride_at = {config.stride_at!r}"
    return _unlike(config, width=64) or ("" if len(config.stages) == 4 else f"{len(config.stages)} stages")


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


def _densenet_counterpart(config: Any) -> str:
    if has_small_stem(config.stem, config.shape):
        return "the stem for small images"
    if not config.bottleneck:
        return "bottleneck = 0"
    return _unlike(config, compression=0.5)


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
    found: Tensors = {}
    for name, tensor in tensors.items():
        for theirs, ours in _VGG_TIMM:
            if name.startswith(f"{theirs}."):
                name, tensor = ours + name.removeprefix(theirs), tensor.flatten(1) if tensor.dim() == 4 else tensor
        found[name] = tensor
    return found


def _vgg_to_timm(tensors: Tensors, _config: Any) -> Tensors:
    found: Tensors = {}
    for name, tensor in tensors.items():
        for theirs, ours in _VGG_TIMM:
            if name.startswith(f"{ours}."):
                name = theirs + name.removeprefix(ours)
                if name == "pre_logits.fc1.weight":
                    tensor = tensor.unflatten(1, (-1, 7, 7))
                elif name == "pre_logits.fc2.weight":
                    tensor = tensor[:, :, None, None]
        found[name] = tensor
    return found


def _vgg_counterpart(config: Any) -> str:
    if min(config.shape[1:]) < 224:
        return f"images of {config.shape[1]}×{config.shape[2]} pixels, under 224"
    return _unlike(config, width=64, hidden=4096) or ("" if len(config.blocks) == 5 else f"{len(config.blocks)} blocks")


def _googlenet(tensors: Tensors) -> Table:
    first = tensors["conv1.conv.weight"]
    return {
        **_image(first, 7),
        "num_classes": len(tensors["fc.weight"]),
        "width": len(first) / 64,
        "large": tensors["inception3a.branch3.1.conv.weight"].shape[2],
        "aux": "aux1.conv.conv.weight" in tensors,
    }


def _googlenet_counterpart(config: Any) -> str:
    small = has_small_stem(config.stem, config.shape)
    return "the stem for small images" if small else _unlike(config, width=1.0, large=3)


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


def _alexnet_counterpart(config: Any) -> str:
    if has_small_stem(config.stem, config.shape):
        return "the stem for small images"
    if min(config.shape[1:]) < 224:
        return f"images of {config.shape[1]}×{config.shape[2]} pixels, under 224"
    return _unlike(config, widths=(64, 192, 384, 256, 256), hidden=4096, groups=1, response_norm=False)


def _unlike(config: Any, **theirs: Any) -> str:
    """The first setting that the other projects' networks have fixed at another value."""
    return next(
        (f"{key} = {getattr(config, key)!r}" for key, value in theirs.items() if getattr(config, key) != value), ""
    )


ADAPTERS: tuple[Adapter, ...] = (
    Adapter("resnet", (r"layer1\.0\.conv1\.weight", r"fc\.weight"), _resnet, _resnet_counterpart, to_timm=_same),
    Adapter(
        "densenet",
        (r"features\.denseblock1\.denselayer1\.", r"classifier\.weight"),
        _densenet,
        _densenet_counterpart,
        rename=_densenet_names,
        to_timm=_same,
    ),
    Adapter(
        "vgg",
        (r"features\.0\.weight", r"(classifier\.0|pre_logits\.fc1)\.weight"),
        _vgg,
        _vgg_counterpart,
        rename=_vgg_names,
        to_timm=_vgg_to_timm,
    ),
    Adapter(
        "googlenet",
        (r"inception3a\.branch1\.conv\.weight", r"fc\.weight"),
        _googlenet,
        _googlenet_counterpart,
        optional=r"aux[12]\.",
    ),
    Adapter(
        "alexnet",
        (r"features\.0\.weight", r"features\.1[02]\.weight", r"classifier\.1\.weight", r"classifier\.6\.weight"),
        _alexnet,
        _alexnet_counterpart,
    ),
)
_BY_SYSTEM = {adapter.system: adapter for adapter in ADAPTERS}


@dataclass(frozen=True)
class Recognised:
    """A foreign file as canon's tensors, and the network they belong to."""

    system: registry.System
    preset: str
    config: Any
    tensors: Tensors
    report: Report


def adapter_of(tensors: Tensors) -> Adapter | None:
    """The family that a table of tensors belongs to, by names alone."""
    for adapter in ADAPTERS:
        if all(any(re.match(mark, name) for name in tensors) for mark in adapter.marks):
            return adapter
    return None


def recognise(tensors: Tensors, source: str, wanted: str = "", changes: Table | None = None) -> Recognised:
    """The network of a file: settings that `changes` says, then those of the preset `wanted` names, then the file's.

    Without a preset, depth and widths are the file's own. Tensors that do not fit are a mistake that lists them all.
    """
    tensors = _unwrapped(tensors)
    adapter = adapter_of(tensors)
    system, preset = registry.find(wanted) if wanted else (None, "")
    if adapter is None:
        known = ", ".join(_BY_SYSTEM)
        raise CanonError(f"{source} is of no family that canon reads from other projects: {known}.")
    if system is not None and system.name != adapter.system:
        raise CanonError(f"{source} is of the family {adapter.system}, not {system.name}.")
    system = system or registry.find(adapter.system)[0]
    with border(source, f"looks like {system.name}, but its sizes cannot be read"):
        tensors = adapter.rename(tensors)
        read = adapter.settings(tensors)
    if not preset:
        preset = _preset(system, read)
    # Of a preset that is given, the file still decides classes, channels and stem: no preset does.
    sizes: Table = {key: read[key] for key in ("shape", "num_classes", "stem") if key in read}
    if own := system.presets.get(preset, {}).get("shape"):
        sizes["shape"] = (read["shape"][0], *own[1:])
    config = system.configure(preset, {**(sizes if preset else read), **(changes or {})})
    name = f"{system.name}:{preset}" if preset else system.name
    with border(source, f"does not fit {name}"):
        with torch.device("meta"):
            network = system.load()[1](config)
        tensors, report = fit(network, tensors, source, adapter.optional)
    if not report.fits:
        raise CanonError(f"{source} does not fit {name}: {report.sentence()}.")
    return Recognised(system, preset, config, tensors, report)


def _unwrapped(tensors: Tensors) -> Tensors:
    for prefix in _WRAPPERS:
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


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
    own = network.state_dict()
    left_out = [name for name in tensors if name not in own and optional and re.match(optional, name)]
    found: Tensors = {}
    missing, unlike = [], []
    for name, tensor in own.items():
        given = tensors.get(name)
        if given is None and name.endswith(_COUNTER):
            found[name] = torch.zeros((), dtype=torch.int64)
        elif given is None:
            missing.append(name)
        elif given.shape != tensor.shape:
            unlike.append(f"{name}: {_shape(given)} in the file, {_shape(tensor)} in the network")
        else:
            found[name] = weight(given, name, source, tensor.dtype)
    used = [name for name in found if name in tensors]
    unexpected = [name for name in tensors if name not in own and name not in left_out]
    return found, Report(used, missing, unexpected, unlike, left_out)


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "one number"


def to_project(project: str, system: str, config: Any, tensors: Tensors, source: str) -> Tensors:
    """The tensors by the names and in the shapes of `project`."""
    adapter = _BY_SYSTEM.get(system)
    known = [adapter.system for adapter in ADAPTERS if project == "torchvision" or adapter.to_timm]
    if adapter is None or system not in known:
        raise CanonError(f"{source} is of the family {system}, which {project} has not; it has: {', '.join(known)}.")
    reason = adapter.counterpart(config)
    if not reason and project == "torchvision" and config.shape[0] != 3:
        reason = f"{config.shape[0]} input channels"
    if reason:
        raise CanonError(f"{source} has no counterpart in {project}: {reason} is not what its {system} has.")
    if project == "timm":
        assert adapter.to_timm is not None
        return adapter.to_timm(tensors, config)
    return dict(tensors)
