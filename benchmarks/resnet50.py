"""ResNet-50 training on one GPU against torchvision's own: `python benchmarks/resnet50.py` (needs CUDA, torchvision).

Both: 224×224, batch 256, bf16 autocast, channels-last, torch.compile, fused SGD with momentum, images in GPU memory.
torchvision's model runs as a user would write it; canon's as its trainer runs it (with cuDNN's search and CUDA graphs).
They take turns in one process. "from memory" is canon fed by its loader: 8,192 images of 8 bits in the host's memory.
`--quick` makes steps of two small images on any device, without compiling.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from common import arguments, installed, interleaved, rates, write_result
from torch import Tensor, nn

import canon
from canon.data.batching import loader as loading
from canon.data.batching.loader import Examples, Loader, Shuffled
from canon.data.encodings.pixels import PixelSchema
from canon.data.targets import Class

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Batches = Callable[[], tuple[Tensor, Tensor]]


class Sizes(NamedTuple):
    batch: int = 256
    side: int = 224
    images: int = 8192  # in the host's memory
    steps: int = 20
    rounds: int = 5


def stepper(network: nn.Module, batches: Batches, sizes: Sizes, compiled: bool, as_canon: bool) -> Callable[[], None]:
    """A round of steps; `as_canon` with cuDNN's search and CUDA graphs."""
    network = network.to(DEVICE).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, fused=True)
    model = torch.compile(network, mode="reduce-overhead" if as_canon else None) if compiled else network

    def steps() -> None:
        torch.backends.cudnn.benchmark = as_canon
        for _ in range(sizes.steps):
            if as_canon and compiled:
                torch.compiler.cudagraph_mark_step_begin()
            images, labels = batches()
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE.type, torch.bfloat16):
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()

    return steps


def from_memory(sizes: Sizes) -> Batches:
    """Batches as the trainer gets them; the images are kept off the GPU, where they would fit."""
    draws = np.random.default_rng(0)
    shape = (3, sizes.side, sizes.side)
    columns: dict[str, np.ndarray] = {
        "input": draws.integers(0, 256, (sizes.images, *shape), dtype=np.uint8),
        "target": draws.integers(0, 1000, sizes.images),
    }
    schema = PixelSchema(Class(), shape, mean=(124.0, 117.0, 104.0), std=(58.0, 57.0, 57.0))
    loading._RESIDENT_SHARE = 0.0
    examples = Examples(columns, schema, DEVICE)
    loader = Loader(examples, Shuffled(len(columns["target"]), sizes.batch, seed=0))

    def take() -> tuple[Tensor, Tensor]:
        ((batch, _),) = loader.next()
        return batch["input"].contiguous(memory_format=torch.channels_last), batch["target"]

    return take


def main() -> None:
    options = arguments(__doc__).parse_args()
    if DEVICE.type != "cuda" and not options.quick:
        raise SystemExit("This benchmark needs a GPU.")
    sizes = Sizes(2, 64, 4, 1, 1) if options.quick else Sizes()
    torch.manual_seed(0)
    images = torch.randn(sizes.batch, 3, sizes.side, sizes.side, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (sizes.batch,), device=DEVICE)
    compiled = not options.quick
    rounds = {
        "canon": stepper(canon.create("resnet:50"), lambda: (images, labels), sizes, compiled, True),
        "canon, from memory": stepper(canon.create("resnet:50"), from_memory(sizes), sizes, compiled, True),
    }
    if installed("tests.parity.torchvision_models") and installed("torchvision"):  # the first finds the second
        import torchvision

        network = torchvision.models.resnet50()
        rounds["torchvision"] = stepper(network, lambda: (images, labels), sizes, compiled, False)
    seconds = interleaved(rounds, repeats=sizes.rounds, warmup=1)  # the first round compiles
    measured = rates(seconds, sizes.steps * sizes.batch)
    for name, row in measured.items():
        print(f"{name:30s} {row['median']:8.0f} images/s")
    result = {"device": torch.cuda.get_device_name() if compiled else "", "images_per_second": measured}
    if "torchvision" in measured:
        base = statistics.median(seconds["torchvision"])
        ratios = {name: round(base / statistics.median(values), 3) for name, values in seconds.items()}
        result["ratio_to_torchvision"] = ratios
        print("ratio to torchvision", ratios)
    write_result("resnet50", result, options, packages=("torch", "torchvision"))


if __name__ == "__main__":
    main()
