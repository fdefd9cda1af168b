"""Starting from learned weights: what is taken, what is new, what stays still, what each part's rate does."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import canon
from canon.errors import CanonError
from canon.interop.weights import start_from
from canon.nn.normalization import BatchNorm2d
from canon.training import trainer
from canon.training.run import Run
from canon.training.trainer import train
from tests.interop.folders import read_folder
from tests.training.test_interruption import SHORT, assert_same_end

ROOT = Path(__file__).parents[2]
RESNET = {
    **SHORT,
    "train.steps": 8,
    "data.limit": 120,
    "system.width": 8,
    "system.stages": [1, 1, 1],
    "optimizer.name": "adam",
}
FROZEN = [{"match": "fc.*", "lr": 0.01}, {"match": "*", "lr": 0.0}]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A residual network that has learned the ten digits."""
    out = tmp_path_factory.mktemp("source") / "run"
    train("vision/digits-resnet", out=out, changes=RESNET, quiet=True)
    return out


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another task on images of the same size: three classes of pictures."""
    folder = tmp_path_factory.mktemp("shapes")
    chance = np.random.RandomState(0)
    for kind, low in (("dark", 0), ("middle", 90), ("light", 180)):
        (folder / kind).mkdir()
        for i in range(12):
            Image.fromarray(chance.randint(low, low + 70, (8, 8), dtype=np.uint8)).save(folder / kind / f"{i}.png")
    return folder


def weights(run: Path, of: str = "last") -> dict[str, Tensor]:
    return load_file(run / of / "model.safetensors")


def begun(recipe: str, out: Path, data: str = "", **changes: object) -> trainer.Trainer:
    """A training that has not made a step."""
    planned, path = trainer.plan(recipe, data, out, False, changes)
    return trainer.Trainer(planned, path, trainer.enter_world(planned.train), quiet=True)


def finetuned(out: Path, source: Path | str, shapes: Path, **more: object) -> Run:
    changes = {**RESNET, "train.init": str(source), **{key.replace("__", "."): value for key, value in more.items()}}
    return train("vision/digits-resnet", data=str(shapes), out=out, changes=changes, quiet=True)


def test_the_backbone_is_the_sources_and_the_head_is_new(source: Path, shapes: Path, tmp_path: Path) -> None:
    """At step 0, bit for bit; the head of three classes is as it would be without a source."""
    changes = {**RESNET, "train.init": str(source)}
    ours = begun("vision/digits-resnet", tmp_path / "tuned", str(shapes), **changes)
    fresh = begun("vision/digits-resnet", tmp_path / "fresh", str(shapes), **RESNET)
    theirs = weights(source, "best")
    for name, tensor in ours.learner.network.state_dict().items():
        if name.startswith("fc."):
            assert tensor.shape[0] == 3 and theirs[name].shape[0] == 10
            assert torch.equal(tensor, fresh.learner.network.state_dict()[name])
        else:
            assert torch.equal(tensor, theirs[name]), name
    assert (
        ours._origin
        == f"Started from {source}: {len(theirs) - 2} tensors taken; newly initialised: fc.weight, fc.bias."
    )


@pytest.fixture(scope="module")
def frozen(source: Path, shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """All but the head frozen: in one process, and in two by copies and by shards."""
    folder = tmp_path_factory.mktemp("frozen")
    finetuned(folder / "one", source, shapes, optimizer__groups=FROZEN)
    two_processes(folder, source, shapes)
    return {parallel: Run(folder / parallel) for parallel in ("one", "ddp", "fsdp")}


@pytest.mark.parametrize("parallel", ["one", "ddp", "fsdp"])
def test_a_frozen_backbone_does_not_change(parallel: str, source: Path, frozen: dict[str, Run]) -> None:
    """Nor do the running statistics of its batch norms."""
    run = frozen[parallel]
    before, after = weights(source, "best"), weights(run.path)
    for name, tensor in after.items():
        if not name.startswith("fc."):
            assert torch.equal(tensor, before[name]), name
    assert any("running_mean" in name for name in after)
    optimizer = load_file(run.path / "last" / "optimizer.safetensors")
    assert optimizer and all(name.startswith("all/fc.") for name in optimizer)
    for ours, theirs in zip(frozen["one"].metrics(), run.metrics(), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)


def two_processes(folder: Path, source: Path, shapes: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.training.test_finetuning", str(folder), str(source), str(shapes)]
    workers = [
        subprocess.Popen(command, cwd=ROOT, env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(2)
    ]
    assert [worker.wait(timeout=240) for worker in workers] == [0, 0]


def test_what_is_frozen_is_a_fixed_function_while_the_rest_trains(source: Path, shapes: Path, tmp_path: Path) -> None:
    changes = {**RESNET, "train.init": str(source), "optimizer.groups": [{"match": "layer1.*", "lr": 0.0}]}
    tuning = begun("vision/digits-resnet", tmp_path / "run", str(shapes), **changes)
    network = tuning.learner.network
    for _ in range(2):  # also after an evaluation, which changes modes
        modes = {name: m.training for name, m in network.named_modules() if isinstance(m, BatchNorm2d)}
        assert {name for name, training in modes.items() if not training} == {
            name for name in modes if name.startswith("layer1.")
        }
        assert network.training and any(modes.values())
        tuning.learner.outputs(tuning.data.splits["valid"])


def test_each_group_moves_by_its_own_rate(source: Path, shapes: Path, tmp_path: Path) -> None:
    """One step of plain SGD: Δw = −rate · g, so the backbone's steps are a tenth of what they are at the full rate."""
    moved = []
    for rate in (0.1, 0.01):
        groups = [{"match": "fc.*"}, {"match": "*", "lr": rate}]
        plain = {"optimizer__name": "sgd", "optimizer__lr": 0.1, "optimizer__groups": groups}
        run = finetuned(tmp_path / str(rate), source, shapes, train__steps=1, optimizer__schedule="constant", **plain)
        end, start = weights(run.path), weights(source, "best")
        moved.append({name: end[name] - start[name] for name in end if name.endswith("conv1.weight")})
        moved[-1]["fc.weight"] = end["fc.weight"]
    for name, step in moved[0].items():
        if name == "fc.weight":
            torch.testing.assert_close(moved[1][name], step)
        else:
            assert step.abs().max() > 0
            torch.testing.assert_close(moved[1][name], step / 10, rtol=1e-3, atol=1e-7)


def test_freezing_everything_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"optimizer\.groups freezes every parameter, so nothing is left to train\."):
        begun("vision/digits-resnet", tmp_path / "run", **{**RESNET, "optimizer.groups": [{"match": "*", "lr": 0.0}]})


def torchvision_like(classes: int = 1000) -> dict[str, Tensor]:
    """A state dict with the names and shapes that other tools save for this network."""
    torch.manual_seed(3)
    return canon.create("resnet:tiny", num_classes=classes, shape=(1, 8, 8)).state_dict()


@pytest.mark.parametrize("ending", ["pth", "pt", "safetensors", "pth in a checkpoint", "pth of wrapped"])
def test_other_tools_files_are_started_from(ending: str, shapes: Path, tmp_path: Path) -> None:
    tensors = torchvision_like()
    file = tmp_path / f"model.{ending.split()[0]}"
    if ending == "safetensors":
        save_file(tensors, file)
    elif ending == "pth in a checkpoint":
        torch.save({"epoch": 3, "state_dict": tensors, "optimizer": {"lr": 0.1}}, file)
    elif ending == "pth of wrapped":
        torch.save({f"module.encoder_q.{name}": tensor for name, tensor in tensors.items()}, file)
    else:
        torch.save(tensors, file)
    tuning = begun("vision/digits-resnet", tmp_path / "run", str(shapes), **{**RESNET, "train.init": str(file)})
    for name, tensor in tuning.learner.network.state_dict().items():
        assert torch.equal(tensor, tensors[name]) != name.startswith("fc."), name


def test_a_part_starts_from_a_whole_and_a_whole_from_a_part() -> None:
    small, large = canon.create("resnet:tiny"), canon.create("simclr", encoder="resnet:tiny", shape=(1, 8, 8))
    taken, fresh = start_from(small, large.state_dict(), "x")
    assert fresh == ["fc.weight", "fc.bias"] and len(taken) == len(small.state_dict()) - 2
    other = canon.create("resnet:tiny")
    taken, fresh = start_from(large, other.state_dict(), "x")
    assert all(name.startswith("encoder.") for name in taken) and all(name.startswith("projection.") for name in fresh)
    assert torch.equal(large.encoder.conv1.weight, other.conv1.weight)


class Malice:
    def __reduce__(self):  # type: ignore[no-untyped-def]
        return os.system, ("touch harmed",)


def test_a_malicious_pickle_is_refused_before_anything_is_called(tmp_path: Path) -> None:
    torch.save({"conv1.weight": torch.ones(1), "extra": Malice()}, tmp_path / "a.pth")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Malice()))
    (tmp_path / "c.bin").write_bytes(b"\x00 nothing of the kind")
    for name in ("a.pth", "b.pt", "c.bin"):
        with pytest.raises(CanonError, match=rf"{name} (holds more than tensors|is not a whole pickle)"):
            read_folder(tmp_path / name)
    assert not (tmp_path / "harmed").exists() and not Path("harmed").exists()


def test_what_does_not_fit_is_reported_with_names_of_both(tmp_path: Path) -> None:
    save_file({"body.0.weight": torch.ones(2, 2), "body.0.bias": torch.ones(2)}, tmp_path / "other.safetensors")
    changes = {**SHORT, "train.init": str(tmp_path / "other.safetensors")}
    with pytest.raises(CanonError) as reported:
        begun("linear/digits-mlp", tmp_path / "run", **changes)
    assert "tensors none can be taken from" in str(reported.value) and not (tmp_path / "run").exists()
    assert "the network has layers.1.0.weight [256, 64]" in str(reported.value)
    assert str(reported.value).endswith("the other has body.0.bias [2], body.0.weight [2, 2].")


def test_what_is_no_source_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cut.safetensors").write_bytes(b"\x10\x00")
    torch.save([torch.ones(1)], tmp_path / "list.pth")
    for name, sentence in {
        "cut.safetensors": r"cut\.safetensors is not a whole \.safetensors file",
        "list.pth": r"list\.pth is not a table of tensors",
        "absent.pth": r"There is no run, file or folder .*absent\.pth",
    }.items():
        with pytest.raises(CanonError, match=sentence):
            read_folder(tmp_path / name)
    with pytest.raises(
        CanonError, match="There is no run runs/digits-mlp yet; make it with: canon train linear/digits"
    ):
        read_folder("runs/digits-mlp")


def test_a_learner_without_a_network_takes_no_weights(source: Path, tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"train\.init is for networks and word vectors; adaboost learns in its"):
        train("linear/cancer-adaboost", out=tmp_path / "run", changes={"train.init": str(source)}, quiet=True)


def test_resuming_does_not_start_again_from_the_source(source: Path, shapes: Path, tmp_path: Path) -> None:
    """The source may be gone by then; the end is that of a run that was never stopped."""
    shutil.copytree(source, tmp_path / "source", symlinks=True)
    whole = finetuned(tmp_path / "whole", tmp_path / "source", shapes, optimizer__groups=FROZEN)
    shutil.copytree(whole.path, tmp_path / "cut", symlinks=True)
    (tmp_path / "cut" / "result.json").unlink()
    shutil.rmtree((tmp_path / "cut" / "last").resolve())
    shutil.rmtree(tmp_path / "source")
    train("vision/digits-resnet", out=tmp_path / "cut", resume=True, quiet=True)
    assert_same_end(whole.path, tmp_path / "cut")


def test_frozen_features_are_those_of_the_source(source: Path, tmp_path: Path) -> None:
    """With all but the head frozen, the features of an image are those of the source, also in training mode."""
    changes = {**RESNET, "train.init": str(source), "optimizer.groups": FROZEN}
    tuning = begun("vision/digits-resnet", tmp_path / "run", **changes)
    images = torch.randn(5, 1, 8, 8)
    theirs: nn.Module = canon.load(source).network.eval()
    assert tuning.learner.network.training
    with torch.no_grad():
        torch.testing.assert_close(tuning.learner.network.features(images), theirs.features(images))


if __name__ == "__main__":
    out, start, data = sys.argv[1:]
    trainer.leave_world = lambda _: None  # one group serves both runs
    for kind in ("ddp", "fsdp"):
        finetuned(Path(out, kind), start, Path(data), optimizer__groups=FROZEN, train__parallel=kind)
    torch.distributed.destroy_process_group()
