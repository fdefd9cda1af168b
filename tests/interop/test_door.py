"""The one door to other people's files: each format is recognised by it, nonsense is a sentence, and a format that is
only a record and a module goes through `canon convert` and train.init."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from canon import interop, registry
from canon.errors import CanonError
from canon.inspect.summary import describe_path
from canon.interop import fasttext, formats, vectors_write
from canon.interop.formats import Candidate, FileChoices, Format, GivesVectors, GivesWeights
from canon.interop.huggingface import write_folder
from canon.interop.network import ForeignWeights
from canon.interop.vectors import VectorOptions
from canon.interop.word_list import WordList
from canon.interop.word_weights import counted_once
from canon.training.trainer import train
from canon.use.encoder import Encoder
from canon.use.export import convert
from tests.interop.test_elmo import OPTIONS
from tests.interop.test_transformer_xl import original

WORDS = ["a", "bc", "déf", "g"]
MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
SIZES: dict[str, Any] = {"dim": 8, "num_layers": 1, "num_heads": 2, "hidden": 32, "vocab_size": 12}


def state_of(name: str, **changes: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    system, preset = registry.find(name)
    config = system.configure(preset, changes)
    return config, system.load()[1](config).state_dict()


def vectors(form: str, ending: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        vectors_write.write(folder / f"words{ending}", form, WORDS, MATRIX)
        return folder / f"words{ending}"

    return write


def fasttext_bin(folder: Path) -> Path:
    settings = fasttext.FastTextSettings(dim=3, buckets=0, minn=0, maxn=0)
    fasttext.write(folder / "a.bin", fasttext.FastTextModel(settings, counted_once(WORDS), MATRIX, MATRIX))
    return folder / "a.bin"


def huggingface(system: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        config, tensors = state_of(system, **SIZES)
        write_folder(folder / system, system, dict(vars(config)), tensors, None)
        return folder / system

    return write


def elmo(folder: Path) -> Path:
    (folder / "my_options.json").write_text(json.dumps(OPTIONS))
    (folder / "my_weights.hdf5").write_bytes(b"read when it is asked for")
    return folder


def saved(name: str, tensors: Callable[[], dict[str, torch.Tensor]]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        if name.endswith(".safetensors"):
            save_file(tensors(), folder / name)
        else:
            torch.save(tensors(), folder / name)
        return folder / name

    return write


def a_run(folder: Path) -> Path:
    convert(str(vectors("glove", ".txt")(folder)), folder / "run", "canon")
    return folder / "run"


def timm_vgg() -> dict[str, torch.Tensor]:
    return {"features.0.weight": torch.ones(1), "pre_logits.fc1.weight": torch.ones(1, 1, 7, 7)}


def sentences(folder: Path) -> Path:
    """A network and its pooling."""
    path = huggingface("bert")(folder)
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [{"idx": i, "path": name, "type": f"x.{kind}"} for i, (name, kind) in enumerate(kinds.items())]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return path


def prompt(folder: Path) -> Path:
    facts = {part: {"sha256": "0"} for part in ("backbone", "vocabulary")}
    (folder / "prompt.json").write_text(json.dumps(facts))
    save_file({"soft": torch.ones(2, 3)}, folder / "prompt.safetensors")
    return folder


EACH: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "a run": (a_run, "canon", "word2vec"),
    "fastText": (fasttext_bin, "fasttext-bin", "fasttext"),
    "word2vec, binary": (vectors("word2vec", ".bin"), "word2vec", ""),
    "word2vec, text": (vectors("word2vec-text", ".txt"), "word2vec-text", ""),
    "fastText's .vec": (vectors("fasttext-vec", ".vec"), "word2vec-text", ""),
    "GloVe, compressed": (vectors("glove", ".txt.gz"), "glove", ""),
    "numpy": (vectors("numpy", ".npy"), "numpy", ""),
    "safetensors of vectors": (vectors("safetensors", ".safetensors"), "safetensors", ""),
    **{name: (huggingface(name), "huggingface", name) for name in ("bert", "roberta", "gpt", "gpt2", "t5", "xlnet")},
    "sentence-transformers": (sentences, "sentence-transformers", "embed"),
    "ELMo": (elmo, "elmo", "elmo"),
    "a prompt": (prompt, "prompt", "prompt"),
    "Transformer-XL": (saved("xl.pt", original), "transformer-xl", "transformer-xl"),
    "torchvision": (saved("r.pth", lambda: state_of("resnet:tiny")[1]), "torchvision", "resnet"),
    "timm": (saved("v.pth", timm_vgg), "timm", "vgg"),
    "other tensors": (saved("mine.safetensors", lambda: {"weight": torch.ones(2)}), "tensors", ""),
    "other tensors, .bin": (saved("mine.bin", lambda: {"weight": torch.ones(2)}), "tensors", ""),
}


def test_every_format_that_is_read_is_here() -> None:
    assert {form for _, form, _ in EACH.values()} == {known.name for known in interop.FORMATS if known.reads}


@pytest.mark.parametrize("case", EACH)
def test_each_format_is_recognised(case: str, tmp_path: Path) -> None:
    write, form, system = EACH[case]
    path = write(tmp_path)
    known = interop.open(path)
    assert (known.format.name, known.system, known.path) == (form, system, path)
    assert str(known).startswith(f"{path} is {known.format.title}")
    again = interop.find(form).recognise(path)
    assert again is not None and type(again) is type(known)
    assert isinstance(known, GivesVectors) == ("vectors" in known.format.holds)
    assert isinstance(known, GivesWeights) == ("weights" in known.format.holds)
    if isinstance(known, GivesVectors):
        read = known.vectors(VectorOptions(WordList.of(["déf", "a"])))
        assert read.words == ["a", "déf"] and np.array_equal(read.matrix, MATRIX[[0, 2]])
    elif isinstance(known, GivesWeights) and form not in ("elmo", "timm"):
        assert known.weights.tensors and (form == "tensors" or known.sizes)


NONSENSE: dict[str, tuple[str, bytes, str]] = {
    "prose": ("a.txt", b"It was a dark and stormy night.\nSo it was.\n", "a.txt is not fastText's .bin or .ftz, word"),
    "empty": ("a.vec", b"", "a.vec is empty: it has no words."),
    "a picture": ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(100), "a.png is not fastText's"),
    "a cut checkpoint": ("a.pt", b"PK\x03\x04" + bytes(50), "a.pt"),
    "a program": ("a.pth", pickle.dumps(print), "a.pth"),
    "a pickle of words": ("a.model", pickle.dumps({"a": [1.0]}), "a.model is a pickle of another tool"),
    "an empty stack": ("a.pth", b"\x80\x022.\n\n", "a.pth is not a whole pickle: it takes more objects than it has."),
    "a cut table": ("a.safetensors", b"\x10\x00", "a.safetensors is not a whole .safetensors file"),
    "a strange model": ("model/config.json", b'{"model_type": "gptx"}', 'No model_type (model/config.json) "gptx"'),
    "an empty folder": ("model/none.txt", b"", "model is not a run (recipe.toml), a folder of sentence-transf"),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_one_sentence(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, content, part = NONSENSE[case]
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(content)
    with pytest.raises(CanonError) as refused:
        interop.open(Path(name).parts[0])
    said = str(refused.value)
    assert part in said and said.endswith((".", "?")) and "\n" not in said
    assert interop.recognise(Path(name).parts[0]) is None


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"^There is no run, file or folder .*none\.bin\.$"):
        interop.open(tmp_path / "none.bin")
    with pytest.raises(CanonError, match="There is no run runs/digits-mlp yet; make it with: canon train linear/dig"):
        interop.open("runs/digits-mlp")


def test_a_system_names_what_it_starts_from(tmp_path: Path) -> None:
    """A format that a system does not name is refused with what was recognised and what is accepted."""
    folder = huggingface("bert")(tmp_path)
    lenet, bert = registry.find("lenet")[0], registry.find("bert")[0]
    assert interop.open_for(bert, folder, "weights", "train.init").system == "bert"
    with pytest.raises(CanonError) as refused:  # folders and files alike
        interop.open_for(bert, Path(__file__), "weights", "train.init")
    assert str(refused.value).endswith(
        "not a .safetensors, .pt or .pth file of tensors, a run (recipe.toml) or a Hugging Face folder (config.json)."
    )
    with pytest.raises(CanonError) as refused:
        interop.open_for(lenet, folder, "weights", "train.init")
    assert str(refused.value) == (
        f"train.init: {folder} is a Hugging Face folder (bert), which lenet does not start from; accepted: a run, a "
        ".safetensors, .pt or .pth file of tensors."
    )


@pytest.mark.parametrize("case", ["word2vec, binary", "GloVe, compressed", "fastText", "numpy"])
def test_vectors_are_named_where_a_network_is_asked_for(case: str, tmp_path: Path) -> None:
    """By every verb: the file is refused as what it is, not as what it is not."""
    path = EACH[case][0](tmp_path)
    refused = f"^{re.escape(str(interop.open(path)))}, which has no weights of a network; accepted: a run, a folder of"
    verbs: list[Callable[[], object]] = [
        lambda: interop.open(path, "weights"),
        lambda: describe_path(path),
        lambda: convert(str(path), tmp_path / "a.onnx", "onnx"),
        lambda: convert(str(path), tmp_path / "other", "huggingface"),
        lambda: Encoder.open(path),
    ]
    for verb in verbs:
        with pytest.raises(CanonError, match=refused):
            verb()


def test_a_network_is_named_where_vectors_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"Hugging Face folder \(bert\), which has no word vectors; accepted: a run"):
        interop.open(huggingface("bert")(tmp_path), "vectors")


def test_a_folder_is_a_tokenizer_only_where_the_door_knows_it(tmp_path: Path) -> None:
    """What train.init names is opened before its tokenizer is taken."""
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 50)
    with pytest.raises(CanonError, match=r"^train\.init: .*empty is not a run \(recipe\.toml\), a Hugging Face folder"):
        (tmp_path / "empty").mkdir()
        train("bert:tiny", data=str(tmp_path / "text.txt"), changes={"train.init": str(tmp_path / "empty")}, quiet=True)


def test_every_name_on_a_record_is_a_format() -> None:
    names = {known.name for known in interop.FORMATS} | {"vectors"}
    for system in registry.SYSTEMS:
        assert {*system.interop.reads, *system.interop.writes} <= names, system.name


# A new format is a module and an entry


class ToyFolder(GivesWeights):
    """A folder of .npy files, one for each tensor."""

    def read(self) -> ForeignWeights:
        arrays = {path.stem: torch.from_numpy(np.load(path)) for path in self.path.glob("*.npy")}
        return ForeignWeights({}, arrays)


def recognise(candidate: Candidate) -> ToyFolder | None:
    return ToyFolder(candidate.path, "toy", "mlp") if (candidate.path / "toy").is_file() else None


def write_as(format: Format, network: Any, target: Path, choices: Any) -> formats.Written:
    target.mkdir()
    (target / "toy").touch()
    for name, tensor in network.tensors.items():
        np.save(target / f"{name}.npy", tensor.numpy())
    return formats.Written(tuple(network.tensors))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry in the table, and the name on the record of mlp."""
    module = ModuleType("toy.format")
    module.recognise, module.write_as = recognise, write_as  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy.format", module)
    record = Format("toy", "a toy folder", "toy.format", ("weights",), folder=True)
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, record))
    mlp = registry.find("mlp")[0]
    named = replace(mlp, interop=registry.Interop((*mlp.interop.reads, "toy"), (*mlp.interop.writes, "toy")))
    monkeypatch.setattr(registry, "SYSTEMS", tuple(named if s is mlp else s for s in registry.SYSTEMS))


@pytest.mark.usefixtures("toy")
def test_a_new_format_goes_through_convert_and_train_init(tmp_path: Path) -> None:
    written = convert("mlp:tiny", tmp_path / "folder", "toy", FileChoices(settings={"num_classes": 10}))
    assert len(written.to_json()["written"]) == len(list((tmp_path / "folder").glob("*.npy")))
    assert interop.open(tmp_path / "folder").format.title == "a toy folder"
    start = {"train.init": str(tmp_path / "folder")}
    changes = {**start, "train.steps": 1, "optimizer.name": "sgd", "optimizer.lr": 1e-12}
    run = train("mlp:tiny", out=tmp_path / "run", changes=changes, quiet=True)
    theirs = interop.open(run.path, "weights").weights.tensors  # type: ignore[attr-defined]
    ours = {path.stem: np.load(path) for path in (tmp_path / "folder").glob("*.npy")}
    assert theirs.keys() == ours.keys() and all(np.allclose(theirs[name], ours[name], atol=1e-6) for name in ours)
    refused = "is of the system lenet, which cannot be written as a toy folder; --to toy writes mlp"
    with pytest.raises(CanonError, match=refused):
        convert("lenet:tiny", tmp_path / "other", "toy")
