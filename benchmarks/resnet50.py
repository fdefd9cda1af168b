"""ResNet-50 training on one GPU against torchvision's own: `python benchmarks/resnet50.py` (needs CUDA, torchvision).

Both: 224×224, batch 256, bf16 autocast, channels-last, torch.compile, fused SGD with momentum, images in GPU memory.
torchvision's model runs as a user would write it; canon's as its trainer runs it (with cuDNN's search and CUDA graphs).
They take turns in one process. "from memory" is canon fed by its loader: 8,192 images of 8 bits in the host's memory.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from common import write_result
from torch import nn

import canon
from canon.data.batching import loader as loading
from canon.data.batching.loader import Examples, Loader, Shuffled
from canon.data.schema import Schema

BATCH, STEPS, ROUNDS = 256, 20, 5


def stepper(
    network: nn.Module, batches: Callable[[], tuple[torch.Tensor, torch.Tensor]], search: bool, graphs: bool = False
) -> Callable[[], None]:
    network = network.cuda().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, fused=True)
    model = torch.compile(network, mode="reduce-overhead" if graphs else None)

    def step() -> None:
        torch.backends.cudnn.benchmark = search
        if graphs:
            torch.compiler.cudagraph_mark_step_begin()
        images, labels = batches()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def from_memory() -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """Batches as the trainer gets them; the images are kept off the GPU, where they would fit."""
    draws = np.random.default_rng(0)
    columns = {
        "input": draws.integers(0, 256, (8192, 3, 224, 224), dtype=np.uint8),
        "target": draws.integers(0, 1000, 8192),
    }
    schema = Schema("image", (3, 224, 224), "class", mean=(124.0, 117.0, 104.0), std=(58.0, 57.0, 57.0))
    loading._RESIDENT_SHARE = 0.0
    examples = Examples(columns, schema, torch.device("cuda"))
    loader = Loader(examples, Shuffled(len(columns["target"]), BATCH, seed=0))

    def take() -> tuple[torch.Tensor, torch.Tensor]:
        ((batch, _),) = loader.next()
        return batch["input"].contiguous(memory_format=torch.channels_last), batch["target"]

    return take


def main() -> None:
    import torchvision

    torch.manual_seed(0)
    images = torch.randn(BATCH, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (BATCH,), device="cuda")

    def same() -> tuple[torch.Tensor, torch.Tensor]:
        return images, labels

    steps = {
        "torchvision": stepper(torchvision.models.resnet50(), same, search=False),
        "canon": stepper(canon.create("resnet:50"), same, search=True, graphs=True),
        "canon, from memory": stepper(canon.create("resnet:50"), from_memory(), search=True, graphs=True),
    }
    rates: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(ROUNDS + 1):
        for name, step in steps.items():
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(STEPS):
                step()
            torch.cuda.synchronize()
            if turn:  # the first round compiles
                rates[name].append(STEPS * BATCH / (time.perf_counter() - begun))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratios = {name: round(value / medians["torchvision"], 3) for name, value in medians.items()}
    for name, value in medians.items():
        print(f"{name:30s} {value:8.0f} images/s   {ratios[name]:.3f}×")
    result = {
        "device": torch.cuda.get_device_name(),
        "images_per_second": {name: round(value) for name, value in medians.items()},
        "ratio_to_torchvision": ratios,
    }
    command = "python benchmarks/resnet50.py"
    write_result("resnet50", result, command=command, packages=("torch", "torchvision"))


if __name__ == "__main__":
    main()
