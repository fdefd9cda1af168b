"""ELMo's published files, both ways: options.json and weights.hdf5 as the authors' code (bilm-tf) has them.

Peters et al. 2018 (arXiv:1802.05365). `from_original` and `to_original` map tensors and nothing else; HDF5 is read and
written at the end of this file, by h5py, which is not part of canon. In the files
    char_embed [261, d]                                 characters, 0 to 255 bytes, then the five marks
    CNN/W_cnn_I [1, width, d, filters], CNN/b_cnn_I     convolutions
    CNN_high_I/W_carry, b_carry, W_transform, b_transform   a highway layer: y = carry ⊙ transform + (1 − carry) ⊙ x
    CNN_proj/W_proj, b_proj
    RNN_R/RNN/MultiRNNCell/CellL/LSTMCell/W_0, B, W_P_0     direction R (0 forward), layer L
matrices are [in, out]; an LSTM's are [x; h] by the gates i, j, f, o (j is the new content, g elsewhere), and 1 is added
to f's sum when it is run. canon has its gates as i, f, g, o and that 1 in the bias. The softmax is in no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from canon.config import Table, parse
from canon.contracts import Arrays
from canon.data.formats.files import read_text
from canon.errors import CanonError, border
from canon.interop.formats import Candidate, FileChoices, Format, GivesWeights, Written
from canon.interop.network import ForeignWeights, Network, Tensors
from canon.storage import parse_json, writing, writing_folder

if TYPE_CHECKING:
    from canon.systems.pretrained.elmo import Config, ELMo

_GATES = (0, 2, 1, 3)  # i, j, f, o ⇄ i, f, g, o: the exchange is its own inverse
_FORGET = 1  # which of canon's gates forgets
OPTIONS, WEIGHTS = "options.json", "weights.hdf5"


def config_of(options: Mapping[str, Any], name: str = OPTIONS) -> Table:
    """The settings of the system that an options.json asks for."""
    try:
        cnn, lstm = options["char_cnn"], options["lstm"]
        return {
            "max_characters": cnn["max_characters_per_token"],
            "char_dim": cnn["embedding"]["dim"],
            "filters": [list(pair) for pair in cnn["filters"]],
            "num_highway": cnn.get("n_highway") or 0,
            "activation": cnn["activation"],
            "projection": lstm["projection_dim"],
            "hidden": lstm["dim"],
            "num_layers": lstm.get("n_layers", 1),
            "cell_clip": float(lstm.get("cell_clip") or 0),
            "projection_clip": float(lstm.get("proj_clip") or 0),
            "skip": bool(lstm.get("use_skip_connections")),
        }
    except (KeyError, TypeError, AttributeError) as lack:
        raise CanonError(f"{name} is not the options.json of an ELMo with characters: it lacks {lack}.") from None


def options_of(config: Config) -> dict[str, Any]:
    """The options.json of a network, as the authors' code takes it to compute vectors."""
    return {
        "char_cnn": {
            "activation": config.activation,
            "embedding": {"dim": config.char_dim},
            "filters": [list(pair) for pair in config.filters],
            "max_characters_per_token": config.max_characters,
            "n_characters": 262,  # with the one that fills up sentences, which has no row in the weights
            "n_highway": config.num_highway,
        },
        "lstm": {
            "cell_clip": config.cell_clip or None,
            "dim": config.hidden,
            "n_layers": config.num_layers,
            "proj_clip": config.projection_clip or None,
            "projection_dim": config.projection,
            "use_skip_connections": config.skip,
        },
    }


def from_original(arrays: Mapping[str, np.ndarray], config: Config, name: str = WEIGHTS) -> Tensors:
    """canon's tensors of the characters' network and the LSTMs."""
    left = set(arrays)

    def take(key: str, *shape: int) -> Tensor:
        if key not in arrays:
            raise CanonError(f"{name} has no {key}, which its options ask for.")
        if arrays[key].shape != shape:
            raise CanonError(f"{name}: {key} is {list(arrays[key].shape)}, but its options say {list(shape)}.")
        left.discard(key)
        return torch.from_numpy(np.array(arrays[key], dtype=np.float32))

    filters = sum(count for _, count in config.filters)
    dim, hidden = config.projection, config.hidden
    tensors = {"words.embedding.weight": take("char_embed", 261, config.char_dim)}
    for index, (width, count) in enumerate(config.filters):
        weight = take(f"CNN/W_cnn_{index}", 1, width, config.char_dim, count)
        tensors[f"words.convolutions.{index}.weight"] = weight[0].permute(2, 1, 0).contiguous()
        tensors[f"words.convolutions.{index}.bias"] = take(f"CNN/b_cnn_{index}", count)
    for index in range(config.num_highway):
        both = [take(f"CNN_high_{index}/W_{part}", filters, filters).T for part in ("carry", "transform")]
        tensors[f"words.highways.{index}.both.weight"] = torch.cat(both)
        biases = [take(f"CNN_high_{index}/b_{part}", filters) for part in ("carry", "transform")]
        tensors[f"words.highways.{index}.both.bias"] = torch.cat(biases)
    tensors["words.projection.weight"] = take("CNN_proj/W_proj", filters, dim).T.contiguous()
    tensors["words.projection.bias"] = take("CNN_proj/b_proj", dim)
    for layer in range(config.num_layers):
        sides = []
        for direction in range(2):
            cell = _cell(direction, layer)
            gates = _swapped(take(f"{cell}/W_0", 2 * dim, 4 * hidden).T, hidden)
            bias = _swapped(take(f"{cell}/B", 4 * hidden), hidden)
            bias[_FORGET * hidden : (_FORGET + 1) * hidden] += 1.0
            sides.append((gates[:, :dim], gates[:, dim:], bias, take(f"{cell}/W_P_0", hidden, dim).T))
        names = ("input_weight", "recurrent_weight", "bias", "projection_weight")
        for part, both_sides in zip(names, zip(*sides, strict=True), strict=True):
            tensors[f"layers.{layer}.{part}"] = torch.stack(both_sides)
    if left:
        raise CanonError(f"{name} has {len(left)} tensors that its options do not mention, such as {min(left)}.")
    return tensors


def to_original(tensors: Tensors, config: Config) -> Arrays:
    """The other way round: the arrays of a weights.hdf5."""
    dim, hidden = config.projection, config.hidden
    filters = sum(count for _, count in config.filters)
    arrays = {
        "char_embed": tensors["words.embedding.weight"],
        "CNN_proj/W_proj": tensors["words.projection.weight"].T,
        "CNN_proj/b_proj": tensors["words.projection.bias"],
    }
    for index in range(len(config.filters)):
        arrays[f"CNN/W_cnn_{index}"] = tensors[f"words.convolutions.{index}.weight"].permute(2, 1, 0)[None]
        arrays[f"CNN/b_cnn_{index}"] = tensors[f"words.convolutions.{index}.bias"]
    for index in range(config.num_highway):
        for part, rows in (("carry", slice(0, filters)), ("transform", slice(filters, None))):
            arrays[f"CNN_high_{index}/W_{part}"] = tensors[f"words.highways.{index}.both.weight"][rows].T
            arrays[f"CNN_high_{index}/b_{part}"] = tensors[f"words.highways.{index}.both.bias"][rows]
    for layer in range(config.num_layers):
        for direction in range(2):
            cell = _cell(direction, layer)
            given, carried = (tensors[f"layers.{layer}.{part}_weight"][direction] for part in ("input", "recurrent"))
            bias = tensors[f"layers.{layer}.bias"][direction].clone()
            bias[_FORGET * hidden : (_FORGET + 1) * hidden] -= 1.0
            arrays[f"{cell}/W_0"] = _swapped(torch.cat((given, carried), dim=1), hidden).T
            arrays[f"{cell}/B"] = _swapped(bias, hidden)
            arrays[f"{cell}/W_P_0"] = tensors[f"layers.{layer}.projection_weight"][direction].T
            assert arrays[f"{cell}/W_P_0"].shape == (hidden, dim)
    return {key: np.ascontiguousarray(tensor.detach().cpu().float().numpy()) for key, tensor in arrays.items()}


def _cell(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _swapped(gates: Tensor, hidden: int) -> Tensor:
    """The second and the third of four gates exchanged, in memory of its own."""
    return torch.cat([gates.split(hidden)[gate] for gate in _GATES])


# Files


class ElmoFolder(GivesWeights):
    """A folder with one …options.json and one ….hdf5. It has no vocabulary: the network spells its words."""

    def read(self) -> ForeignWeights:
        from canon.systems.pretrained.elmo import Config

        options, file = _only(self.path, "options.json"), _only(self.path, ".hdf5")
        settings = config_of(parse_json(read_text(options), options), str(options))
        with border(file):
            tensors = from_original(_read_hdf5(file), parse(Config, settings, "system"), str(file))
        return ForeignWeights(settings, tensors, made_new=("softmax.weight", "softmax.bias"), file=file)


def recognise(candidate: Candidate) -> ElmoFolder | None:
    names = [path.name for path in candidate.path.glob("*")]
    is_folder = all(any(name.endswith(ending) for name in names) for ending in ("options.json", ".hdf5"))
    return ElmoFolder(candidate.path, "elmo", "elmo") if is_folder else None


def read(folder: str | Path) -> ELMo:
    """The network of a folder, in evaluation mode; its softmax is new.

    It has no vocabulary but the reserved tokens: `encode_words` takes words as they are; `take_vocabulary` gives one.
    """
    from canon.systems.pretrained.elmo import Config, ELMo

    weights = ElmoFolder(Path(folder), "elmo").weights
    network = ELMo(parse(Config, weights.settings, "system"))
    network.load_state_dict(weights.tensors, strict=False)  # all but the softmax and the vocabulary's spelling
    return network.eval()


def write_as(format: Format, network: Network, target: Path, choices: FileChoices) -> Written:
    with writing_folder(target) as folder:
        return Written(tuple(write(network.build(), folder)))  # type: ignore[arg-type]


def write(network: ELMo, folder: str | Path) -> list[str]:
    """options.json and weights.hdf5 in `folder`, both or neither; the names of its arrays."""
    library = _library()
    path = Path(folder)
    arrays = to_original(network.state_dict(), network.config)
    with writing(path / OPTIONS, path / WEIGHTS) as (options, weights):
        with library.File(weights, "w") as file:
            for key, array in arrays.items():
                file.create_dataset(key, data=array)
        options.write_text(json.dumps(options_of(network.config), indent=1), encoding="utf-8")
    return list(arrays)


def _only(folder: Path, ending: str) -> Path:
    files = [path for path in sorted(folder.glob("*")) if path.name.endswith(ending)]
    if len(files) != 1:
        raise CanonError(f"{folder} must have one file whose name ends in {ending}, and has {len(files) or 'none'}.")
    return files[0]


def _read_hdf5(path: Path) -> Arrays:
    library = _library()
    arrays: Arrays = {}

    def visit(name: str, entry: Any) -> None:
        if isinstance(entry, library.Dataset):
            arrays[name] = entry[...]

    try:
        with library.File(path, "r") as file:
            file.visititems(visit)
    except OSError as damage:
        raise CanonError(f"{path} is not a whole HDF5 file ({damage}).") from None
    return arrays


def _library() -> Any:
    try:
        import h5py  # type: ignore[import-not-found]
    except ModuleNotFoundError:
        raise CanonError("The published files of ELMo are HDF5; install its reader with pip install h5py.") from None
    return h5py
