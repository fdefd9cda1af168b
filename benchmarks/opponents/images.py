"""timm's ResNet-18 with a stem for small pictures on IDX files in an ordinary loop, as torchvision's reference training
has it: a Dataset that flips and crops each picture, a DataLoader with workers, SGD with momentum, a cosine."""

# mypy: ignore-errors

from __future__ import annotations

import argparse
from pathlib import Path

import mended_torchvision  # noqa: F401
import numpy as np
import timm
import torch
from clock import Clock
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def idx(path: Path) -> np.ndarray:
    raw = path.read_bytes()
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


class Pictures(Dataset):
    def __init__(self, folder: Path, part: str, trains: bool) -> None:
        self.images = idx(folder / f"{part}-images-idx3-ubyte")
        self.labels = idx(folder / f"{part}-labels-idx1-ubyte")
        self.trains = trains

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = torch.from_numpy(self.images[index].copy()).float().div(255).sub(0.2860).div(0.3530)[None]
        if self.trains:
            if torch.rand(()) < 0.5:
                image = image.flip(-1)
            top, left = torch.randint(0, 9, (2,)).tolist()
            image = F.pad(image, (4, 4, 4, 4))[:, top : top + image.shape[1], left : left + image.shape[2]]
        return image, int(self.labels[index])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    on_gpu = DEVICE.type == "cuda"
    network = timm.create_model("resnet18", num_classes=10, in_chans=1)
    network.conv1 = nn.Conv2d(1, 64, 3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    network = network.to(DEVICE)
    train = Pictures(options.folder, "train", True)
    loader = DataLoader(
        train, options.batch, shuffle=True, drop_last=True, num_workers=8 if on_gpu else 2, pin_memory=on_gpu
    )
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    clock = Clock()
    step = 0
    network.train()
    while step < options.steps:
        for image, label in loader:
            image, label = image.to(DEVICE, non_blocking=True), label.to(DEVICE, non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=on_gpu):
                loss = F.cross_entropy(network(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            clock.tick()
            step += 1
            if step % 50 == 0:
                print(step, loss.item(), flush=True)
            if step == options.steps:
                break
    network.eval()
    right = 0
    test = Pictures(options.folder, "t10k", False)
    with torch.no_grad():
        for image, label in DataLoader(test, options.batch):
            right += (network(image.to(DEVICE)).argmax(1).cpu() == label).sum().item()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), options.out / "model.pt")
    clock.report(accuracy=right / len(test))


if __name__ == "__main__":
    main()
