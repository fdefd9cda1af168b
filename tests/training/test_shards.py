"""Checkpoints in a file for each process, against those in one file: equal bits, on any number of processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from canon.runs import checkpoint
from canon.training.run import Run
from canon.training.trainer import train

ROOT = Path(__file__).parent.parent.parent
TEXT = ROOT / "tests" / "battery"


def together(count: int, folder: Path, text: Path, steps: int) -> None:
    """Both runs, trained or resumed by so many processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.training.sharded", str(folder), str(text), str(steps)],
            cwd=ROOT,
            env={**os.environ, **address, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(outputs)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two runs of two processes: whole/ and pieces/."""
    folder = tmp_path_factory.mktemp("shards")
    text = folder / "text.txt"
    lines = (f"Number {n} of {n % 7} birds sang. Then {n % 5} of them flew to the {n % 11} trees." for n in range(90))
    text.write_text("\n\n".join(lines), encoding="utf-8")
    together(2, folder, text, 4)
    return folder


def same(one: Path, other: Path) -> None:
    """All tensors of two runs' last checkpoints, bit for bit."""
    tensors, theirs = (checkpoint.load((run / "last").resolve())[0] for run in (one, other))
    assert tensors.keys() == theirs.keys() == {"model", "optimizer"}
    for group in tensors:
        assert set(tensors[group]) == set(theirs[group])
        for name in tensors[group]:
            ours, other_one = (np.asarray(each[group][name]) for each in (tensors, theirs))
            assert ours.dtype == other_one.dtype and np.array_equal(ours, other_one), name


def test_pieces_are_the_whole(runs: Path) -> None:
    last = (runs / "pieces" / "last").resolve()
    names = sorted(str(path.relative_to(last)) for path in last.rglob("*") if path.is_file())
    shards = [
        f"{group}/shard-{rank:05d}-model-00001-of-00001.safetensors"
        for group in ("model", "optimizer")
        for rank in (1, 2)
    ]
    assert names == sorted([*shards, "manifest.json", "state.json"])
    assert (runs / "whole" / "last" / "model.safetensors").is_file()
    same(runs / "whole", runs / "pieces")
    weights = sum(path.stat().st_size for path in (last / "model").iterdir())
    assert weights < 1.2 * (runs / "whole" / "last" / "model.safetensors").stat().st_size  # nothing is written twice


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_processes_goes_on(count: int, runs: Path, tmp_path: Path) -> None:
    for name in ("whole", "pieces"):
        shutil.copytree(runs / name, tmp_path / name, symlinks=True)
    if count == 1:
        for name in ("whole", "pieces"):
            train(str(tmp_path / name), resume=True, changes={"train.steps": 6}, quiet=True)
    else:
        together(count, tmp_path, runs / "text.txt", 6)
        assert len(list((tmp_path / "pieces" / "last" / "model").iterdir())) == count
    same(tmp_path / "whole", tmp_path / "pieces")
    assert Run(tmp_path / "whole").metrics() == Run(tmp_path / "pieces").metrics()


def test_every_reader_reads_pieces(runs: Path, tmp_path: Path, canon) -> None:
    outputs = []
    for name in ("whole", "pieces"):
        scores = canon("evaluate", runs / name, "--json").out
        written = canon("generate", runs / name, "Number 3 of", "--json", "--seed", "1").out
        assert canon("convert", runs / name, tmp_path / name, "--to", "huggingface").code == 0
        weights = (tmp_path / name / "model.safetensors").read_bytes()
        outputs.append((json.loads(scores), json.loads(written), weights))
    assert outputs[0] == outputs[1]


def test_a_damaged_piece_is_noticed(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "pieces", tmp_path / "run", symlinks=True)
    last = (tmp_path / "run" / "last").resolve()
    piece = last / "optimizer" / "shard-00002-model-00001-of-00001.safetensors"
    raw = bytearray(piece.read_bytes())
    raw[-9] ^= 1
    piece.write_bytes(raw)
    with pytest.raises(checkpoint.Damaged, match=r"shard-00002.* is not as it was written"):
        checkpoint.load(last)
    checkpoint.load(last, groups=("model",))
    piece.unlink()
    with pytest.raises(checkpoint.Damaged, match=r"shard-00002.* is missing"):
        checkpoint.verify(last)
