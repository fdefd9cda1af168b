"""Image classifiers with their default settings learn on digits and on a small folder of pictures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Canon = Callable[..., Any]


def test_lenet_on_digits_in_six_epochs(canon: Canon) -> None:
    trained = canon("train", "lenet", "--data", "digits", "--set", "train.epochs=6", "--json")
    assert json.loads(trained.out)["scores"]["test"]["accuracy"] > 0.8


def test_the_papers_lenet_on_digits(canon: Canon) -> None:
    trained = canon("train", "lenet:base", "--data", "digits", "--set", "train.epochs=6", "--json")
    assert json.loads(trained.out)["scores"]["test"]["accuracy"] > 0.8


def pictures(folder: Path, each: int = 30) -> Path:
    """Upright and level stripes with noise, 16 x 16."""
    random = np.random.RandomState(0)
    for kind in ("level", "upright"):
        (folder / kind).mkdir(parents=True)
        for number in range(each):
            stripes = 120 * ((np.arange(16) + random.randint(4)) % 4 < 2)
            pixels = np.broadcast_to(stripes if kind == "upright" else stripes[:, None], (16, 16))
            noisy = (pixels + random.randint(100, size=(16, 16))).astype(np.uint8)
            Image.fromarray(noisy).save(folder / kind / f"{number}.png")
    return folder


@pytest.mark.parametrize("system", ["lenet", "lenet:tiny", "resnet:tiny", "mlp"])
def test_a_small_folder_of_pictures(tmp_path: Path, canon: Canon, system: str) -> None:
    folder = pictures(tmp_path / "stripes")
    trained = canon("train", system, "--data", folder, "--set", "data.test=0.3", "--json")
    assert trained.code == 0
    assert json.loads(trained.out)["scores"]["test"]["accuracy"] >= 0.85  # half of them by chance
