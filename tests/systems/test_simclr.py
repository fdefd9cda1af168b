"""SimCLR against its parts written out, and what its features are worth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import canon
from canon.errors import CanonError
from canon.training.run import Run
from canon.training.trainer import train

SHORT = {"train.steps": 6, "train.batch": 16, "data.limit": 64, "train.threads": 1, "train.device": "cpu"}


def test_the_paper_s_sizes() -> None:
    """ResNet-50 without its 2,048 × 1000 + 1000 head, then 2048 → 2048 → 128 without biases."""
    with torch.device("meta"):
        network = canon.create("simclr")
    assert sum(p.numel() for p in network.encoder.parameters()) == 25_557_032 - 2_049_000
    assert sum(p.numel() for p in network.projection.parameters()) == 2048 * 2048 + 2048 * 128


def test_forward_is_the_classifier_without_its_head_and_two_layers() -> None:
    torch.manual_seed(0)
    network = canon.create("simclr:tiny", encoder="lenet:relu", shape=(1, 8, 8), hidden=7, dim=5)
    images = torch.rand(3, 1, 8, 8)
    features, z = network(images)
    lenet = canon.create("lenet:relu", shape=(1, 8, 8))
    own = {name.removeprefix("encoder."): tensor for name, tensor in network.state_dict().items()}
    missing = lenet.load_state_dict({k: v for k, v in own.items() if not k.startswith("projection")}, strict=False)
    assert missing.missing_keys == ["classifier.5.weight", "classifier.5.bias"] and not missing.unexpected_keys
    torch.testing.assert_close(features, lenet.classifier[:5](lenet.features(images)))
    hidden, out = network.projection[0].weight, network.projection[2].weight
    assert hidden.shape == (7, 84) and out.shape == (5, 7)
    torch.testing.assert_close(z, F.relu(features @ hidden.T) @ out.T)


@pytest.mark.parametrize(
    ("encoder", "sentence"),
    [
        ("resnet:19", r'No system "resnet:19"; did you mean resnet:18\?'),
        ("adaboost", "must be a network that classifies images, as resnet:18; adaboost is not one"),
        ("simclr", "simclr is not one"),
    ],
)
def test_an_encoder_that_is_none_is_reported(encoder: str, sentence: str) -> None:
    with pytest.raises(CanonError, match=sentence):
        canon.create("simclr", encoder=encoder)


def test_batches_are_not_cut_into_micro_batches(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"train\.micro_batch is 8, but simclr takes whole batches; leave it out\."):
        train("contrastive/digits-simclr", out=tmp_path / "run", changes={**SHORT, "train.micro_batch": 8}, quiet=True)
    assert not (tmp_path / "run").exists()
    train("contrastive/digits-simclr", out=tmp_path / "run", changes={**SHORT, "train.micro_batch": 16}, quiet=True)


def test_features_are_learned_without_labels(tmp_path: Path) -> None:
    """The probe on features after training beats the one on the same network's first weights; labels change nothing."""
    changes = {**SHORT, "train.steps": 120, "train.batch": 128, "data.limit": 0, "train.keep": 20}
    run = train("contrastive/digits-simclr", out=tmp_path / "run", changes=changes, quiet=True)
    first = train(
        "contrastive/digits-simclr", out=tmp_path / "first", changes={**changes, "train.steps": 1}, quiet=True
    )
    assert run.result is not None and first.result is not None
    before, after = (actual.result["scores"]["test"] for actual in (first, run))
    assert after["probe_accuracy"] > before["probe_accuracy"] + 0.03
    assert after["loss"] < before["loss"] - 0.5


def test_a_folder_without_labels_trains_and_gives_features(tmp_path: Path, canon) -> None:  # type: ignore[no-untyped-def]
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    chance = np.random.RandomState(0)
    for i in range(40):
        Image.fromarray(chance.randint(0, 255, (12, 10, 3), dtype=np.uint8)).save(pictures / f"{i}.png")
    sets = [word for key, value in SHORT.items() for word in ("--set", f"{key}={value}")]
    printed = canon("train", "simclr:tiny", "--data", pictures, "--out", tmp_path / "run", *sets)
    assert printed.code == 0, printed.err
    run = Run(tmp_path / "run")
    assert run.recipe.train.monitor == "loss" and run.recipe.origins["train.monitor"] == "the data"
    assert run.result is not None and set(run.result["scores"]["test"]) == {"loss", "alignment", "uniformity"}
    assert (run.path / "report.html").is_file()
    printed = canon("predict", run.path, pictures / "0.png", pictures / "1.png", "--json")
    rows = json.loads(printed.out)
    assert [len(row["features"]) for row in rows] == [16, 16]
    head, line = (line.split() for line in canon("predict", run.path, pictures / "0.png").out.splitlines())
    assert head[1:3] == ["features_1", "features_2"] and line[1:] == [f"{number:.4f}" for number in rows[0]["features"]]
    assert canon("train", run.path, "--resume", "--set", "train.steps=8").code == 0


def test_bfloat16_trains_and_compares_in_float32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from canon.objectives import contrastive

    seen = []
    real = contrastive.nt_xent
    monkeypatch.setattr(contrastive, "nt_xent", lambda *a, **k: seen.append(a[0].dtype) or real(*a, **k))
    changes = {**SHORT, "train.precision": "bfloat16"}
    run = train("contrastive/digits-simclr", out=tmp_path / "run", changes=changes, quiet=True)
    assert set(seen) == {torch.float32} and run.result is not None
    assert np.isfinite(run.result["scores"]["test"]["loss"])
