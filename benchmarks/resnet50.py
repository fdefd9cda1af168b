"""ResNet-50 training on one GPU against torchvision's own: `python benchmarks/resnet50.py` (needs CUDA, torchvision).

Both: 224×224, batch 256, bf16 autocast, channels-last, torch.compile, fused SGD with momentum, images in GPU memory.
torchvision's model runs as a user would write it; canon's as its trainer runs it. They take turns in one process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from common import write_result
from torch import nn

import canon

BATCH, STEPS, ROUNDS = 256, 20, 5


def stepper(network: nn.Module, images: torch.Tensor, labels: torch.Tensor, search: bool) -> Callable[[], None]:
    network = network.cuda().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, fused=True)
    model = torch.compile(network)

    def step() -> None:
        torch.backends.cudnn.benchmark = search
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    import torchvision

    torch.manual_seed(0)
    images = torch.randn(BATCH, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (BATCH,), device="cuda")
    steps = {
        "torchvision": stepper(torchvision.models.resnet50(), images, labels, search=False),
        # The trainer lets cuDNN search for the fastest algorithm: its batches have one shape.
        "torchvision, cudnn.benchmark": stepper(torchvision.models.resnet50(), images, labels, search=True),
        "canon": stepper(canon.create("resnet:50"), images, labels, search=True),
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
