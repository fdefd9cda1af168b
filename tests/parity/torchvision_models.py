"""torchvision's models as oracles, also where its compiled operators do not load (as with a CPU build of torch).

`make` installs torchvision and timm into .venv/oracles, which only this adds to Python's path: in the environment
itself a torchvision of another build than torch's would fail every import of it, transformers' too.

The classification models are pure Python, but importing them registers fakes for compiled operators; defining the
names first is enough for that. Nothing is downloaded: weights are random.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, "
    "SymInt height, SymInt width) -> Tensor",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) "
    "-> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
    "-> (Tensor, Tensor)",
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_ORACLES = Path(sys.prefix) / "oracles"
if _ORACLES.is_dir() and str(_ORACLES) not in sys.path:
    sys.path.append(str(_ORACLES))
_library: Any = None  # operators live as long as this does


def torchvision_models() -> ModuleType:
    """torchvision.models; skips the test where torchvision is not installed."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed (make setup installs it into .venv/oracles)")
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError as mistake:
        if "torchvision::" not in str(mistake):
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # what the failed import left behind
    _define_missing()
    return importlib.import_module("torchvision.models")


def timm() -> ModuleType:
    """timm, which itself imports torchvision; skips the test where one of them is not installed."""
    torchvision_models()
    return pytest.importorskip("timm", reason="timm is not installed (make setup installs it into .venv/oracles)")


def _define_missing() -> None:
    global _library
    if _library is None:
        _library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _OPERATORS:
        name = schema.partition("(")[0]
        try:
            torch._C._dispatch_find_schema_or_throw(f"torchvision::{name}", "")
        except RuntimeError:
            _library.define(schema)


def build(make: Any, **settings: Any) -> nn.Module:
    """A model of torchvision with random numbers everywhere, also where it would begin with zeros and ones."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore", FutureWarning)  # GoogLeNet's, of its initialisation
        network: nn.Module = make(weights=None, **settings)
    return randomize(network.to_empty(device="cpu"))


@torch.no_grad()
def randomize(network: nn.Module, seed: int = 0) -> nn.Module:
    """Weights of He's size, norms near but not at the identity: every number matters to the output."""
    torch.manual_seed(seed)
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if not tensor.is_floating_point():
            tensor.zero_()
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
        elif tensor.dim() > 1:
            fan_in = tensor[0].numel()
            tensor.uniform_(-1, 1).mul_((6 / fan_in) ** 0.5)
        elif name.endswith("weight"):
            tensor.uniform_(0.5, 1.0)
        else:
            tensor.uniform_(-0.2, 0.2)
    return network
