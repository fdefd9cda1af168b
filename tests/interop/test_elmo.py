"""ELMo's published layout: its definition written out in numpy against the network that was read from it, both ways."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from canon.config import parse
from canon.errors import CanonError
from canon.interop import elmo as interop
from canon.interop.backbones import find
from canon.systems.pretrained.elmo import Config, ELMo
from tests.interop.folders import read_folder

SENTENCES = [["The", "cat", "sat", "."], ["猫"], ["x" * 60, "The", "naïve"]]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "cell_clip": 0.5,
        "use_skip_connections": True,
        "n_layers": 2,
        "proj_clip": 0.3,
        "projection_dim": 4,
        "dim": 9,
    },
    "char_cnn": {
        "embedding": {"dim": 3},
        "filters": [[1, 4], [3, 5]],
        "n_highway": 2,
        "n_characters": 262,
        "max_characters_per_token": 50,
        "activation": "relu",
    },
}


def original_arrays() -> dict[str, np.ndarray]:
    """Random weights by the names and shapes of the format."""
    draws = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "char_embed": (261, 3),
        "CNN/W_cnn_0": (1, 1, 3, 4),
        "CNN/b_cnn_0": (4,),
        "CNN/W_cnn_1": (1, 3, 3, 5),
        "CNN/b_cnn_1": (5,),
        "CNN_proj/W_proj": (9, 4),
        "CNN_proj/b_proj": (4,),
    }
    for layer in range(2):
        shapes |= {f"CNN_high_{layer}/W_{part}": (9, 9) for part in ("carry", "transform")}
        shapes |= {f"CNN_high_{layer}/b_{part}": (9,) for part in ("carry", "transform")}
        for direction in range(2):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{cell}/W_0": (8, 36), f"{cell}/B": (36,), f"{cell}/W_P_0": (9, 4)}
    return {name: draws.normal(size=shape).astype(np.float32) * 0.6 for name, shape in shapes.items()}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def by_definition(arrays: dict[str, np.ndarray], words: list[str]) -> np.ndarray:
    """[3, words, 8] of a sentence, from the format's definition: TensorFlow's convolution, highway and LSTMCell."""
    marks = [[258, 256, 259], [258, 257, 259]]
    spelled = [marks[0], *([258, *word.encode()[:48], 259] for word in words), marks[1]]
    tokens = []
    for row in spelled:
        x_CE = arrays["char_embed"][row + [260] * (50 - len(row))]
        features: list[float] = []
        for index, width in enumerate((1, 3)):
            weight, bias = arrays[f"CNN/W_cnn_{index}"][0], arrays[f"CNN/b_cnn_{index}"]
            places = [np.einsum("wd,wdf->f", x_CE[t : t + width], weight) + bias for t in range(50 - width + 1)]
            features += np.maximum(np.max(places, axis=0), 0).tolist()
        x = np.array(features)
        for index in range(2):
            own = {
                key: arrays[f"CNN_high_{index}/{key}"] for key in ("W_carry", "b_carry", "W_transform", "b_transform")
            }
            carry = sigmoid(x @ own["W_carry"] + own["b_carry"])
            x = carry * np.maximum(x @ own["W_transform"] + own["b_transform"], 0) + (1 - carry) * x
        tokens.append(x @ arrays["CNN_proj/W_proj"] + arrays["CNN_proj/b_proj"])
    sides = []
    for direction in range(2):
        layers = [tokens if direction == 0 else tokens[::-1]]
        for layer in range(2):
            cell_name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            weight, bias, projection = (arrays[f"{cell_name}/{part}"] for part in ("W_0", "B", "W_P_0"))
            hidden, cell, outputs = np.zeros(4), np.zeros(9), []
            for x in layers[-1]:
                i, j, f, o = np.split(np.concatenate((x, hidden)) @ weight + bias, 4)
                cell = np.clip(sigmoid(f + 1.0) * cell + sigmoid(i) * np.tanh(j), -0.5, 0.5)
                hidden = np.clip((sigmoid(o) * np.tanh(cell)) @ projection, -0.3, 0.3)
                outputs.append(hidden + x if layer else hidden)  # a skip connection from the second layer on
            layers.append(outputs)
        sides.append(np.array(layers if direction == 0 else [rows[::-1] for rows in layers]))
    return np.concatenate(sides, axis=2)[:, 1:-1]


def network_of(arrays: dict[str, np.ndarray], options: dict[str, Any] = OPTIONS) -> ELMo:
    config = parse(Config, interop.config_of(options), "system")
    network = ELMo(config)
    network.load_state_dict(interop.from_original(arrays, config), strict=False)
    return network.eval()


def test_vectors_by_the_formats_definition() -> None:
    """Gate order, the forget bias of 1 and both clips, which bind here: 5e-6 for every layer of every word."""
    arrays = original_arrays()
    network = network_of(arrays).double()
    for sentence, reported in zip(SENTENCES, network.encode_words(SENTENCES), strict=True):
        np.testing.assert_allclose(reported.detach().numpy(), by_definition(arrays, sentence), rtol=1e-6, atol=5e-6)


def test_there_and_back() -> None:
    """Arrays to tensors and back are the same arrays but for rounding of the bias ± 1; options are the same options."""
    arrays = original_arrays()
    network = network_of(arrays)
    again = interop.to_original(network.state_dict(), network.config)
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_allclose(again[name], array, rtol=0, atol=3e-7, err_msg=name)
    assert interop.options_of(network.config) == OPTIONS


@pytest.mark.parametrize("change", ["missing", "unlike", "more"])
def test_files_that_do_not_fit_their_options(change: str) -> None:
    arrays = original_arrays()
    if change == "missing":
        del arrays["CNN_proj/b_proj"]
    elif change == "unlike":
        arrays["CNN_proj/b_proj"] = np.zeros(5, dtype=np.float32)
    else:
        arrays["embedding"] = np.zeros((7, 4), dtype=np.float32)
    values = {
        "missing": r"weights\.hdf5 has no CNN_proj/b_proj",
        "unlike": r"CNN_proj/b_proj is \[5\], but its options say \[4\]",
        "more": r"has 1 tensors that its options do not mention, such as embedding",
    }
    with pytest.raises(CanonError, match=values[change]):
        network_of(arrays)


def test_other_options_are_reported() -> None:
    with pytest.raises(CanonError, match=r"is not the options\.json of an ELMo with characters: it lacks 'char_cnn'"):
        interop.config_of({"lstm": OPTIONS["lstm"]})


def test_without_the_reader_of_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    (tmp_path / "weights.hdf5").write_bytes(b"")
    with pytest.raises(CanonError, match="install its reader with pip install h5py"):
        interop.read(tmp_path)
    with pytest.raises(CanonError, match=r"must have one file whose name ends in options\.json, and has none"):
        interop.read(tmp_path / "nothing")


def test_files_there_and_back(tmp_path: Path) -> None:
    """Written and read again: the same vectors to the last bit but for the bias ± 1; a damaged file is reported."""
    pytest.importorskip("h5py")
    network = network_of(original_arrays())
    interop.write(network, tmp_path / "elmo")
    again = interop.read(tmp_path / "elmo")
    with torch.no_grad():
        for ours, theirs in zip(network.encode_words(SENTENCES), again.encode_words(SENTENCES), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    (tmp_path / "elmo" / "weights.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(CanonError, match="is not a whole HDF5 file"):
        interop.read(tmp_path / "elmo")


# canon convert RUN FOLDER --to elmo


class StandIn:
    """As much of h5py as the files need, in numpy's own format."""

    Dataset = np.ndarray

    class File:
        def __init__(self, path: Path, mode: str) -> None:
            self.path, self.mode = path, mode
            self.arrays = dict(np.load(path)) if mode == "r" else {}

        def __enter__(self) -> StandIn.File:
            return self

        def __exit__(self, *failure: object) -> None:
            if self.mode == "w":
                with self.path.open("wb") as file:
                    np.savez(file, **self.arrays)

        def create_dataset(self, key: str, data: np.ndarray) -> None:
            self.arrays[key] = data

        def visititems(self, visit: Callable[[str, np.ndarray], None]) -> None:
            for key, array in self.arrays.items():
                visit(key, array)


@pytest.fixture(params=["h5py", "stand-in"])
def hdf5(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "h5py":
        pytest.importorskip("h5py")
    else:
        monkeypatch.setattr(interop, "_library", StandIn)


def trained(canon: Callable[..., Any]) -> None:
    """A run of a few steps, whose forget gates stay near their first bias of 1."""
    Path("book.txt").write_text("the cat sat on the mat .\na dog ran over some hill .\n" * 30)
    sets = [word for text in ("train.steps=3", "train.batch=4", "train.device=cpu") for word in ("--set", text)]
    done = canon("train", "elmo:tiny", "--data", "book.txt", "--out", "run", "--quiet", *sets)
    assert done.code == 0, done.err


@pytest.mark.usefixtures("hdf5")
def test_a_run_is_converted(canon: Callable[..., Any]) -> None:
    """The published files of a run, read back: its settings and all its tensors but the softmax and the vocabulary, bit
    for bit; fine-tuning starts from them."""
    trained(canon)
    done = canon("convert", "run", "folder", "--to", "elmo")
    assert done.code == 0 and done.out.splitlines() == ["elmo:tiny", "folder"], done.err
    assert sorted(path.name for path in Path("folder").iterdir()) == ["options.json", "weights.hdf5"]
    own = {
        name: tensor for name, tensor in read_folder("run").tensors.items() if not name.startswith(("softmax", "chara"))
    }
    folder = read_folder("folder")
    settings, tensors = folder.settings, folder.tensors
    assert settings["projection"] == 16 and settings["filters"] == [[1, 8], [2, 8], [3, 16]]
    assert set(tensors) == set(own) and all(torch.equal(tensors[name], own[name]) for name in own)
    written = json.loads(canon("convert", "run", "again", "--to", "elmo", "--json").out)["written"]
    assert len(written) == 3 + 2 * 3 + 4 + 2 * 2 * 3  # characters and projection, 3 convolutions, 1 highway, 4 cells
    Path("rows.csv").write_text("text,label\n" + "the cat sat,a\na dog ran,b\n" * 12)
    find.cache_clear()
    sets = [word for text in ("from=folder", "system.frozen=true", "train.steps=2") for word in ("--set", text)]
    done = canon("train", "finetune", "--data", "rows.csv", "--out", "tuned", "--quiet", *sets)
    assert done.code == 0, done.err
    tuned = read_folder("tuned").tensors
    assert all(torch.equal(tuned[f"backbone.{name}"], tensor) for name, tensor in own.items())


def test_what_is_not_converted(canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other systems, a folder that is there, and no writer of HDF5: one sentence each, and nothing is written."""
    monkeypatch.setitem(sys.modules, "h5py", None)
    Path("there").mkdir()
    for source, target, sentence in (
        ("bert:tiny", "folder", "is of the system bert, which cannot be written as ELMo's published folder; --to elmo"),
        ("elmo:tiny", "there", "there already exists: give another name for the folder."),
        ("elmo:tiny", "folder", "install its reader with pip install h5py"),
    ):
        done = canon("convert", source, target, "--to", "elmo")
        assert done.code == 2 and sentence in done.err and done.err.count("\n") == 1, done.err
    assert [path.name for path in Path().iterdir()] == ["there"]
