"""Hugging Face's folders through canon's verbs: convert both ways, load, evaluate, and train.init."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import canon as library
from canon.data.text.tokenizers import Tokenizer
from canon.interop.huggingface import write_folder
from tests.interop.folders import read_folder
from tests.parity.pretrained import scatter

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "over", "some", "hill", "and", "saw", "bird", "far"]
TEXT = "\n\n".join(
    " ".join(f"{WORDS[i % 15]} {WORDS[(i * k) % 13]} {WORDS[(i + k) % 11]} .".capitalize() for k in range(1, 6))
    for i in range(60)
)
SMALL: dict[str, Any] = {"dim": 16, "num_layers": 2, "num_heads": 2, "hidden": 32, "max_positions": 40}
STILL = ("--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e-30")  # steps too small to change a float32
RECIPE = """
[system]
name = "{system}"
dim = 16
num_layers = 2
num_heads = 2
hidden = 32
max_positions = 40
[data]
source = "text.txt"
max_length = 30
[train]
steps = 2
batch = 4
"""


def folder(path: Path, system: str = "bert", **changes: Any) -> Path:
    """A network with random weights and a tokeniser of TEXT, as a folder."""
    tokenizer = Tokenizer.train([TEXT], "wordpiece", 60, mask=True)
    torch.manual_seed(0)
    settings = {**SMALL, "vocab_size": tokenizer.size, **changes}
    network = scatter(library.create(system, **settings))
    own = {**vars(_config(system, settings))}
    write_folder(path, system, own, network.state_dict(), tokenizer)
    return path


def _config(system: str, settings: dict[str, Any]) -> Any:
    from canon import registry

    return registry.find(system)[0].configure("", settings)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


@pytest.mark.parametrize("system", ["bert", "gpt2"])
def test_a_folder_to_a_run_and_back(canon: Callable[..., Any], system: str, text: Path, tmp_path: Path) -> None:
    """Every file of the second folder is that of the first, byte for byte; the run tells what was taken."""
    given = folder(tmp_path / "given", system)
    code, out, err = canon("convert", given, "runs/made")
    assert code == 0, err
    count = len(read_folder(given).report.used)
    assert out.splitlines() == [
        system,
        f"{count} tensors of {given} used, 0 missing, 0 unexpected",
        "runs/made",
    ]
    assert canon("convert", "runs/made", "back", "--to", "huggingface").code == 0
    assert sorted(path.name for path in given.iterdir()) == sorted(path.name for path in Path("back").iterdir())
    for path in given.iterdir():
        assert path.read_bytes() == (Path("back") / path.name).read_bytes(), path.name
    record = json.loads(canon("convert", given, "runs/again", "--json").out)
    assert record["format"] == "canon" and len(record["keys"]["used"]) == count and record["keys"]["made_new"] == []


def test_a_folder_is_loaded_as_its_run_is(canon: Callable[..., Any], text: Path, tmp_path: Path) -> None:
    """canon.load, evaluate and predict give of a folder what they give of the run that was made of it."""
    given = folder(tmp_path / "given")
    assert canon("convert", given, "runs/made").code == 0
    one, other = library.load(given), library.load("runs/made")
    state = other.network.state_dict()  # type: ignore[union-attr]
    assert all(torch.equal(state[name], x) for name, x in one.network.state_dict().items())  # type: ignore[union-attr]
    scores = one.evaluate(text)  # type: ignore[union-attr]
    assert scores == other.evaluate(text) and scores["loss"] > 0  # type: ignore[union-attr]
    assert canon("evaluate", given, "--data", text).out == canon("evaluate", "runs/made", "--data", text).out
    assert canon("predict", given, text).out == canon("predict", "runs/made", text).out


def test_training_starts_from_a_folder(canon: Callable[..., Any], text: Path, tmp_path: Path) -> None:
    """train.init takes every tensor, and the folder's tokeniser where no other is asked for; it can be resumed."""
    given = folder(tmp_path / "given")
    (tmp_path / "own.toml").write_text(RECIPE.format(system="bert"))
    options = ("--set", f"train.init={given}", *STILL, "--out", "runs/own")
    code, _, err = canon("train", "own.toml", *options)
    assert code == 0, err
    result = read_folder(given)
    assert f"Started from {given}: {len(result.tensors)} tensors taken." in Path("runs/own/log.txt").read_text()
    state = library.load("runs/own").network.state_dict()  # type: ignore[union-attr]
    assert all(torch.equal(state[name], tensor) for name, tensor in result.tensors.items())
    (given / "tokenizer.json").rename(tmp_path / "gone")
    code, _, err = canon("train", "runs/own", "--resume", "--set", "train.steps=3")
    assert code == 0, err


def test_rows_to_spare_are_left_out(canon: Callable[..., Any], text: Path, tmp_path: Path) -> None:
    """A vocabulary that was rounded up: the network has a row for each token of the data's."""
    size = Tokenizer.train([TEXT], "wordpiece", 60, mask=True).size
    given = folder(tmp_path / "given", vocab_size=size + 11)
    (tmp_path / "own.toml").write_text(RECIPE.format(system="bert"))
    options = ("--set", f"train.init={given}", *STILL, "--out", "runs/own")
    code, _, err = canon("train", "own.toml", *options)
    assert code == 0, err
    state = library.load("runs/own").network.state_dict()  # type: ignore[union-attr]
    assert torch.equal(state["embedding.token.weight"], read_folder(given).tensors["embedding.token.weight"][:size])


def test_sentences(canon: Callable[..., Any], text: Path, tmp_path: Path) -> None:
    """What does not go together is said in one sentence, with what to do."""
    given = folder(tmp_path / "given")
    (tmp_path / "own.toml").write_text(RECIPE.format(system="bert"))
    start = ("train", "own.toml", "--set", f"train.init={given}", "--out", "runs/own")
    said = {
        (*start, "--set", "system.dim=24", "--set", "system.num_layers=3"): (
            f"train.init: {given} is a bert with dim = 16, num_layers = 2, but the recipe has dim = 24, num_layers = 3"
            "; to start from it add --set system.dim=16 --set system.num_layers=2"
        ),
        (*start, "--set", "data.tokenizer=char"): "tokens, which is not the data's, of ",
        ("convert", given, "runs/a", "--to", "timm"): "--to timm writes .safetensors",
        ("convert", given, "runs/a", "--system", "gpt2"): "leave these options out",
        (
            "convert",
            "resnet:tiny",
            "a",
            "--to",
            "huggingface",
        ): "is of the system resnet, which cannot be written as a Hugging",
        ("convert", "resnet:tiny", "a"): "--to says what is written: canon, fasttext-bin, word2vec, ",
        ("convert", given, given, "--to", "huggingface"): "already exists: give another name for the folder.",
    }
    for arguments, sentence in said.items():
        code, _, err = canon(*arguments)
        assert code and sentence in err and "Traceback" not in err, (arguments, err)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (given / name).unlink()
    assert f"{given} has no tokenizer" in canon("convert", given, "runs/a").err
    assert f"{given} has no tokenizer" in canon("evaluate", given, "--data", text).err
    assert not list(Path("runs").glob("*")) if Path("runs").exists() else True


def test_random_weights_of_a_system_are_written_without_a_tokenizer(canon: Callable[..., Any]) -> None:
    code, out, err = canon("convert", "roberta:tiny", "folder", "--to", "huggingface", "--set", "system.vocab_size=99")
    assert code == 0 and out.splitlines() == ["roberta:tiny", "folder"], err
    result = read_folder("folder")
    assert result.tokenizer is None and result.settings["dim"] == 128 and result.settings["vocab_size"] == 99
