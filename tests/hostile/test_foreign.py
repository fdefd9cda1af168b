"""Other people's files, wrong or hostile: each case its sentence, random damage never another error.

Of every format a good sample is made here; a row is what becomes of it, and a part of the sentence.
"""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import random
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import canon
from canon import optim, registry
from canon.data.formats import pickles
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop import fasttext, huggingface, onnx, vectors, vectors_write, word_weights
from canon.interop.formats import recognise
from canon.interop.weights import start_from
from canon.objectives.classification import cross_entropy
from canon.objectives.regression import squared
from tests.interop.folders import read_folder

SIZES: dict[str, Any] = {"dim": 8, "num_layers": 1, "num_heads": 2, "hidden": 16, "vocab_size": 12}
SYSTEMS = {
    "bert": {**SIZES, "max_positions": 10},
    "roberta": {**SIZES, "max_positions": 10},
    "gpt2": {**SIZES, "max_positions": 10},
    "gpt": {**SIZES, "hidden": 32, "max_positions": 10},
    "t5": {**SIZES, "head_dim": 4},
    "xlnet": SIZES,
}
WORDS = ["a", "bc", "déf", "g"]
MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
DEEP = "[" * 100_000 + "]" * 100_000
SEED, TRIALS = 15, 60


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good folder of each network of Hugging Face's."""
    base = tmp_path_factory.mktemp("folders")
    for name, changes in SYSTEMS.items():
        config = registry.find(name)[0].configure("", changes)
        network = registry.find(name)[0].load()[1](config)
        huggingface.write_folder(base / name, name, dict(vars(config)), network.state_dict(), None)
    return {name: base / name for name in SYSTEMS}


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def refusal(read: Callable[[], Any]) -> str:
    with pytest.raises(CanonError) as refused:
        read()
    said = str(refused.value)
    assert said.endswith((".", "?")) and "\n" not in said and len(said) < 2000, said
    return said


# Folders of Hugging Face's

FIELDS = {
    "bert": "hidden_size num_hidden_layers num_attention_heads intermediate_size vocab_size layer_norm_eps hidden_act "
    "hidden_dropout_prob max_position_embeddings type_vocab_size",
    "roberta": "hidden_size num_hidden_layers max_position_embeddings hidden_act type_vocab_size",
    "gpt": "n_embd n_layer n_head n_positions afn",
    "gpt2": "n_embd n_layer n_head n_positions vocab_size activation_function resid_pdrop layer_norm_epsilon",
    "t5": "d_model num_layers num_heads d_kv d_ff feed_forward_proj relative_attention_num_buckets tie_word_embeddings",
    "xlnet": "d_model n_layer n_head d_inner ff_activation dropout untie_r attn_type",
}
VALUES: dict[str, Any] = {
    "null": None,
    "text": "x",
    "list": [1],
    "table": {},
    "negative": -1,
    "huge": 10**30,
    "nan": np.nan,
}
CONFIGS = [(system, field, value) for system, names in FIELDS.items() for field in names.split() for value in VALUES]


@pytest.mark.parametrize(("system", "field", "value"), CONFIGS)
def test_a_field_of_config_json_that_is_not_what_it_should_be(
    system: str, field: str, value: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = copied(folders[system], tmp_path / "folder")
    table = json.loads((folder / "config.json").read_text()) | {field: VALUES[value]}
    (folder / "config.json").write_text(json.dumps(table))
    said = refusal(lambda: read_folder(folder))
    assert str(folder) in said


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_tensor(folder: Path, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = sorted(tensors)[0]
    save_file({**tensors, name: change(tensors[name]).contiguous()}, folder / "model.safetensors")


def in_place_of_weights(folder: Path, name: str, content: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(content)


def header(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def saved(content: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def zipped(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", content)
    return stream.getvalue()


def spoiled(tensor: torch.Tensor, value: float) -> torch.Tensor:
    tensor.view(-1)[0] = value
    return tensor


INDEX = "model.safetensors.index.json"
FOLDERS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "deep config.json": ("bert", lambda f: (f / "config.json").write_text(DEEP), "nested too deeply"),
    "config.json of 5,000 digits": (
        "bert",
        lambda f: (f / "config.json").write_text('{"model_type": ' + "1" * 5000 + "}"),
        "over 4,300 digits",
    ),
    "config.json is a list": ("bert", lambda f: (f / "config.json").write_text("[]"), "must hold a JSON object"),
    "config.json is not UTF-8": ("bert", lambda f: (f / "config.json").write_bytes(b"\xff\xfe\xff"), "config.json"),
    "model_type is a list": ("bert", lambda f: edit_config(f, model_type=["bert"]), "No model_type"),
    "architectures is a number": ("bert", lambda f: edit_config(f, model_type=None, architectures=3), "no model_type"),
    "pad_token_id is a text": ("roberta", lambda f: edit_config(f, pad_token_id="x"), "pad_token_id must be a whole"),
    "layers without end": ("bert", lambda f: edit_config(f, num_hidden_layers=10**9), "asks for num_layers"),
    "too wide": ("xlnet", lambda f: edit_config(f, d_model=2**30, d_head=2**29), "asks for dim"),
    "two kinds of d_head": ("xlnet", lambda f: edit_config(f, d_head=5), "d_head is 5, but d_model / n_head is 4"),
    "NaN": ("bert", lambda f: edit_tensor(f, lambda t: spoiled(t, np.nan)), "has NaN or infinite numbers"),
    "inf": ("gpt2", lambda f: edit_tensor(f, lambda t: spoiled(t, np.inf)), "has NaN or infinite numbers"),
    "too large for float32": ("t5", lambda f: edit_tensor(f, lambda t: spoiled(t.double(), 1e300)), "infinite"),
    "integers": ("bert", lambda f: edit_tensor(f, lambda t: t.to(torch.int64)), "is of type int64"),
    "complex": ("bert", lambda f: edit_tensor(f, lambda t: t.to(torch.complex64)), "is of type complex64"),
    "deep header": ("bert", lambda f: in_place_of_weights(f, "model.safetensors", header(DEEP)), "not a whole"),
    "header beyond the end": (
        "bert",
        lambda f: in_place_of_weights(f, "model.safetensors", struct.pack("<Q", 2**62) + b"{}"),
        "not a whole",
    ),
    "deep index": ("bert", lambda f: in_place_of_weights(f, INDEX, DEEP.encode()), "nested too deeply"),
    "weight_map is a list": ("bert", lambda f: in_place_of_weights(f, INDEX, b'{"weight_map": []}'), "a weight_map"),
    "weight_map holds numbers": (
        "bert",
        lambda f: in_place_of_weights(f, INDEX, b'{"weight_map": {"a": 1}}'),
        "a weight_map",
    ),
    "weight_map leads elsewhere": (
        "bert",
        lambda f: in_place_of_weights(f, INDEX, b'{"weight_map": {"a": "../x.safetensors"}}'),
        "not a file of the folder itself",
    ),
    "integer keys": (
        "bert",
        lambda f: in_place_of_weights(f, "pytorch_model.bin", saved({0: torch.zeros(2)})),
        "not a table of tensors by name",
    ),
    "sparse": (
        "bert",
        lambda f: in_place_of_weights(f, "pytorch_model.bin", saved({"a": torch.eye(2).to_sparse()})),
        "pytorch_model.bin",
    ),
    "no numbers": (
        "bert",
        lambda f: in_place_of_weights(f, "pytorch_model.bin", saved({"a": torch.zeros(2, device="meta")})),
        "pytorch_model.bin",
    ),
    "a program": (
        "bert",
        lambda f: in_place_of_weights(f, "pytorch_model.bin", saved({"a": os.getcwd})),
        "holds more than tensors",
    ),
    "packed": (
        "bert",
        lambda f: in_place_of_weights(f, "pytorch_model.bin", zipped(bytes(10**6))),
        "packed archive",
    ),
    "deep pickle": (
        "bert",
        lambda f: in_place_of_weights(f, "pytorch_model.bin", b"\x80\x02})" + b"\x85" * 10**6 + b"K\x01s."),
        "nested more deeply",
    ),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_a_folder_that_is_wrong_is_its_sentence(case: str, folders: dict[str, Path], tmp_path: Path) -> None:
    system, change, part = FOLDERS[case]
    folder = copied(folders[system], tmp_path / "folder")
    change(folder)
    said = refusal(lambda: read_folder(folder))
    assert part in said and str(folder) in said


TOKENIZERS: dict[str, dict[str, Any]] = {
    "deep tokenizer.json": {"tokenizer.json": DEEP},
    "tokenizer.json is a list": {"tokenizer.json": "[]"},
    "vocab.json of texts": {"vocab.json": '{"a": "b"}', "merges.txt": ""},
    "vocab.json is a list": {"vocab.json": "[]", "merges.txt": ""},
    "deep vocab.json": {"vocab.json": DEEP, "merges.txt": ""},
    "strange tokenizer_config.json": {"vocab.txt": "[UNK]\na", "tokenizer_config.json": '{"strip_accents": "x"}'},
}


@pytest.mark.parametrize("case", TOKENIZERS)
def test_a_tokenizer_that_is_wrong_is_a_sentence(case: str, folders: dict[str, Path], tmp_path: Path) -> None:
    folder = copied(folders["bert"], tmp_path / "folder")
    for name, text in TOKENIZERS[case].items():
        (folder / name).write_text(text)
    assert str(folder) in refusal(lambda: read_folder(folder))


# Pickles


def nested(levels: int) -> bytes:
    return b"\x80\x02)" + b"\x85" * levels + b"."


PICKLES: dict[str, tuple[bytes, str]] = {
    "a tuple of 10⁶ levels": (nested(10**6), "nested more deeply"),
    "the same as a key": (b"\x80\x02}" + nested(10**6)[2:-1] + b"K\x01s.", "nested more deeply"),
    "parts shared 2⁶⁰ times": (b"\x80\x02})q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"K\x01s.", "nested more deeply"),
    "lists of 10⁵ levels": (b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".", "nested more deeply"),
    "a program": (pickle.dumps(os.getcwd), "it asks for"),
    "cut short": (pickle.dumps(["a"] * 9)[:-3], "not a whole pickle"),
    "a length beyond the end": (b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"x.", "not a whole pickle"),
    "nothing": (b"", "not a whole pickle"),
}


@pytest.mark.parametrize("case", PICKLES)
def test_a_pickle_that_is_wrong_is_its_sentence(case: str) -> None:
    content, part = PICKLES[case]
    assert part in refusal(lambda: pickles.load(io.BytesIO(content), "data.pkl"))


@pytest.mark.parametrize("protocol", range(5))
def test_plain_pickles_are_read(protocol: int) -> None:
    plain = {"data": np.arange(6).reshape(2, 3), "labels": [1, 2], "pair": (1, (2.5, None)), "set": {1}}
    loaded = pickles.load(io.BytesIO(pickle.dumps(plain, protocol)), "data.pkl")
    assert len(loaded) == 4 and nested(90) and pickles.load(io.BytesIO(nested(90)), "x") is not None


# Word vectors


def write_vectors(path: Path, to: str) -> Path:
    vectors_write.write(path, to, WORDS, MATRIX)
    return path


def npy(descr: str, shape: str) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + MATRIX.tobytes()


NUMPY = {
    "no columns": npy("'<f4'", "(2, 0)"),
    "negative": npy("'<f4'", "(-4, 3)"),
    "more than there is": npy("'<f4'", "(4, 1000000000000)"),
    "beyond numbers": npy("'<f4'", f"({10**30}, 3)"),
    "a shape of texts": npy("'<f4'", "('a', 3)"),
    "objects": npy("'|O'", "(4, 3)"),
    "integers": npy("'<i4'", "(4, 3)"),
    "an unknown type": npy("'zz'", "(4, 3)"),
    "a program": npy("__import__('os').getcwd()", "(4, 3)"),
    "nested": npy("'<f4'", "(" * 5000 + "4" + ")" * 5000),
    "no header": b"\x93NUMPY\x01\x00",
    "a header beyond the end": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31),
}
TEXTS: dict[str, tuple[bytes, str]] = {
    "header of too few": (b"1 2\na 1 2\nb 3 4\n", "has more than the 1 words that its header says"),
    "header of too many": (b"3 2\na 1 2\nb 3 4\n", "after 2 of the 3 words"),
    "another width": (b"2 3\na 1 2\nb 3 4\n", "the header says 3"),
    "a width beyond memory": (b"2 99999999999999\na 1 2\nb 3 4\n", "the header says 2 words"),
    "a width of 5,000 digits": (b"2 " + b"9" * 5000 + b"\na 1 2\n", "over 4,300 digits"),
    "a width that overflows": (b"2 4611686018427387905\na xx", "the header says 2 words"),
}
TABLES = {
    "deep": header('{"vectors": ' + DEEP + "}"),
    "no offsets": header('{"vectors": {"dtype": "F32", "shape": [4, 3]}}'),
    "offsets of texts": header('{"vectors": {"dtype": "F32", "shape": [4, 3], "data_offsets": ["a", "b"]}}'),
    "offsets beyond": header('{"vectors": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}}'),
    "words of floats": header(
        '{"vectors": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]},'
        ' "words": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}'
    )
    + bytes(8),
    "no columns": header(
        '{"vectors": {"dtype": "F32", "shape": [1, 0], "data_offsets": [0, 0]},'
        ' "words": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}'
    )
    + b"a\n",
}


@pytest.mark.parametrize("case", NUMPY)
def test_a_matrix_of_numpy_that_is_wrong(case: str, tmp_path: Path) -> None:
    path = write_vectors(tmp_path / "a.npy", "numpy")
    path.write_bytes(NUMPY[case])
    assert str(path) in refusal(lambda: vectors.read(path))


@pytest.mark.parametrize("case", TEXTS)
def test_a_header_that_contradicts_its_file(case: str, tmp_path: Path) -> None:
    content, part = TEXTS[case]
    (tmp_path / "a.vec").write_bytes(content)
    assert part in refusal(lambda: vectors.read(tmp_path / "a.vec"))


@pytest.mark.parametrize("case", TABLES)
def test_a_table_of_safetensors_that_is_wrong(case: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(TABLES[case])
    assert str(path) in refusal(lambda: vectors.read(path))
    recognise(path)


@pytest.mark.parametrize("to", vectors_write.FORMATS)
def test_vectors_that_are_not_finite_are_noted(to: str, tmp_path: Path) -> None:
    """And refused as weights to start from."""
    path = tmp_path / {"numpy": "a.npy", "safetensors": "a.safetensors"}.get(to, "a")
    matrix = MATRIX.copy()
    matrix[1, 2], matrix[3, 0] = np.nan, np.inf
    vectors_write.write(path, to, WORDS, matrix)
    note = "2 words have NaN or infinite numbers in the vector, which is near to no other: bc, g."
    assert vectors.read(path).notes == (note,)
    assert not vectors.read(path, words=["a"]).notes
    learner = canon.create("word2vec", dim=3, vocab_size=4)
    words = Words(WORDS, np.ones(4, np.int64), 4)
    said = refusal(lambda: word_weights.adopt(learner, registry.find("word2vec")[0], words, str(path)))
    assert 'the vector of "bc" has NaN or infinite numbers' in said


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a device or a pipe" in refusal(lambda: vectors.read(tmp_path / "pipe"))


# fastText


def classifier(prefix: str = "__label__") -> fasttext.FastTextModel:
    own = fasttext.FastTextSettings(dim=3, loss="softmax", model="classifier", buckets=5, minn=0, maxn=0, word_ngrams=2)
    words = Words(["</s>", "good", "bad"], np.array([9, 4, 3]), 16)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)
    return fasttext.FastTextModel(own, words, *rows, (f"{prefix}x", f"{prefix}y"), np.array([2, 3]))


@pytest.mark.parametrize("prefix", ["__label__", "__class__", "#", ""])
def test_labels_keep_their_prefix_on_the_way_through_a_run(prefix: str) -> None:
    model = classifier(prefix)
    system, settings, tensors, words, labels = fasttext.to_run_parts(model)
    config = registry.find(system)[0].configure("", settings)
    again = fasttext.from_run_parts(system, config, tensors, words, labels)
    assert again.labels == model.labels
    assert labels == (("x", "y") if prefix == "__label__" else model.labels)


def test_a_line_ends_where_fasttext_ends_it(tmp_path: Path) -> None:
    """A literal </s> is the end of the line, against fasttext itself."""
    theirs_module = pytest.importorskip("fasttext")
    model = classifier()
    fasttext.write(tmp_path / "a.bin", model)
    theirs = theirs_module.load_model(str(tmp_path / "a.bin"))
    for text in ("good bad", "good </s> bad", "</s> good", "good bad </s>", "</s> </s>"):
        predictions = theirs.f.predict(text + "\n", 2, 0.0, "strict")
        wanted = {label: probability for probability, label in predictions}
        assert dict(fasttext.predict(model, text, 2)) == pytest.approx(wanted, abs=1e-5), text


def test_a_classifier_that_is_not_finite_is_refused() -> None:
    model = classifier()
    model.output[0, 0] = np.nan
    assert "NaN or infinite" in refusal(lambda: fasttext.predict(model, "good"))
    assert "NaN or infinite" in refusal(lambda: fasttext.to_run_parts(model))


# Random damage to each format


def damaged(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        kind, place = draw.randrange(4), draw.randrange(max(len(changed), 1))
        if kind == 0 and changed:
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed = changed[:place]
        elif kind == 2:
            changed[place : place + 8] = draw.randbytes(draw.randrange(9))
        else:
            changed[place:place] = changed[place : place + draw.randrange(64)]
    return bytes(changed)


JSON_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    10**30,
    0.5,
    1e308,
    "",
    "x",
    "gelu",
    [],
    [1],
    {},
    {"a": 1},
    [[[]]],
]


def swapped(content: bytes, draw: random.Random) -> bytes:
    """One value of a JSON text, anywhere in it, for another of a random type."""
    table = json.loads(content)
    places = []

    def visit(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                visit(node[key])

    visit(table)
    for node, key in draw.sample(places, draw.choice((1, 1, 2))):
        node[key] = copy.deepcopy(draw.choice(JSON_VALUES))
    return json.dumps(table).encode()


def _sample(kind: str, folders: dict[str, Path], base: Path) -> tuple[Path, Callable[[], Any]]:
    """The file to damage, and what reads it."""
    if kind.startswith("config.json of "):
        folder = copied(folders[kind.removeprefix("config.json of ")], base / "folder")
        return folder / "config.json", lambda: read_folder(folder)
    if kind == "model.safetensors":
        folder = copied(folders["bert"], base / "folder")
        return folder / kind, lambda: read_folder(folder)
    if kind in ("weights.pt", "weights of old.pt"):
        path, network = base / "a.pt", torch.nn.Linear(2, 2)
        torch.save(network.state_dict(), path, _use_new_zipfile_serialization=kind == "weights.pt")
        return path, lambda: start_from(network, read_folder(path).tensors, str(path))
    if kind == "pickle":
        path = base / "a.pkl"
        path.write_bytes(pickle.dumps({"data": np.arange(6), "labels": [1, (2, 3)], "set": {1}}, 2))
        return path, lambda: pickles.load(path.open("rb"), str(path))
    if kind == "fasttext":
        path = base / "a.bin"
        fasttext.write(path, classifier())
        return path, lambda: (vectors.read(path), fasttext.predict(fasttext.read(path), "good bad"))
    path = base / {"numpy": "a.npy", "safetensors": "a.safetensors"}.get(kind, "a")
    return write_vectors(path, kind), lambda: vectors.read(path)


KINDS = [f"config.json of {name}" for name in SYSTEMS]
KINDS += ["model.safetensors", "weights.pt", "weights of old.pt", "pickle", "fasttext", *vectors_write.FORMATS]


@pytest.mark.parametrize("kind", KINDS)
def test_random_damage_is_read_or_refused(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    path, read = _sample(kind, folders, tmp_path)
    read()
    good, draw = path.read_bytes(), random.Random(f"{SEED} {kind}")
    for trial in range(TRIALS):
        spoil = swapped if path.suffix == ".json" and draw.random() < 0.8 else damaged
        path.write_bytes(spoil(good, draw))
        try:
            read()
        except CanonError as refused:
            assert "\n" not in str(refused), f"seed {SEED}, trial {trial}"
        except Exception as error:
            raise AssertionError(f"seed {SEED}, trial {trial}: {error!r} for {path.read_bytes()[:2000]!r}") from error


# Files that cannot be written


def _export_onnx(target: Path) -> None:
    onnx.write_bytes(target, bytes(10**6))


def _export_folder(target: Path) -> None:
    config = registry.find("bert")[0].configure("", {**SIZES, "vocab_size": 3000, "max_positions": 10})
    tensors = registry.find("bert")[0].load()[1](config).state_dict()
    huggingface.write_folder(target, "bert", dict(vars(config)), tensors, None)


MANY = [f"w{row}" for row in range(9000)]
WRITERS: dict[str, Callable[[Path], Any]] = {
    "folder": _export_folder,
    "model.onnx": _export_onnx,
    "model.bin": lambda target: fasttext.write(
        target,
        fasttext.FastTextModel(
            fasttext.FastTextSettings(dim=3, buckets=0, minn=0, maxn=0),
            Words(MANY, np.ones(len(MANY), np.int64), len(MANY)),
            *(np.ones((len(MANY), 3), np.float32),) * 2,
        ),
    ),
}
for _format in vectors_write.FORMATS:
    _name = {"numpy": "a.npy", "safetensors": "a.safetensors"}.get(_format, f"a.{_format}")
    WRITERS[_name] = lambda target, to=_format: vectors_write.write(target, to, MANY, np.ones((9000, 9), np.float32))


@pytest.mark.parametrize("name", WRITERS)
def test_what_cannot_be_written_whole_is_absent(name: str, tmp_path: Path) -> None:
    """A file may have 64 KiB only, as on a disk that is full: a sentence, and nothing is left."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        said = refusal(lambda: WRITERS[name](tmp_path / name))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot be written" in said and not list(tmp_path.iterdir())


# Python callers

MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "settings of a network": (lambda: canon.create("mlp", hidden="x"), "system.hidden must be a list"),
    "a class of settings": (lambda: optim.OPTIMIZERS["adam"](lr="x"), "lr must be a number, got 'x'."),  # type: ignore
    "an unknown setting": (lambda: optim.OPTIMIZERS["sgd"](rate=1), "No setting"),  # type: ignore[call-arg]
    "a setting without its name": (lambda: optim.OPTIMIZERS["sgd"](1), "Settings are given by name"),  # type: ignore
    "a missing setting": (lambda: optim.OPTIMIZERS["adam-then-sgd"](), "switch_step is missing."),
    "a schedule": (lambda: optim.Schedule(name="x"), "name must be one of"),  # type: ignore[arg-type]
    "a size below 0": (lambda: canon.create("mlp", shape=[-1]), "system.shape.0 must be a positive whole number"),
    "a size beyond memory": (lambda: canon.create("mlp", hidden=[10**7, 10**7]), "of memory, and there are"),
    "a name that is no text": (lambda: canon.create(3), "name must be a text"),  # type: ignore[arg-type]
    "a recipe that is no text": (lambda: canon.train(3), "recipe must be a text"),  # type: ignore[arg-type]
    "a section that is no table": (lambda: canon.train("mlp", train=3), "must be a table"),  # type: ignore[arg-type]
    "a run that is no path": (lambda: canon.load(None), "path must be a path"),  # type: ignore[arg-type]
    "a run that is not there": (lambda: canon.load("/nowhere"), "There is no run"),
    "a path of 300 letters": (lambda: canon.load("x" * 300), "name too long"),
    "settings that are none": (lambda: optim.create("adam", []), "not the settings of an optimiser"),  # type: ignore[arg-type]
    "no parameters": (lambda: optim.create(optim.OPTIMIZERS["sgd"](), []), "nothing to train"),
    "a group without params": (lambda: optim.create(optim.OPTIMIZERS["sgd"](), [{}]), "got no params"),
    "parameters that are numbers": (lambda: optim.create(optim.OPTIMIZERS["sgd"](), [{"params": [3]}]), "be tensors"),
    "a loss of lists": (lambda: squared([1.0], [1.0]), "must be a tensor"),  # type: ignore[arg-type]
    "a label that is no class": (lambda: cross_entropy(torch.zeros(1, 2), torch.tensor([5])), "one of the 2 classes"),
    "labels of floats": (lambda: cross_entropy(torch.zeros(1, 2), torch.zeros(1)), "Labels are whole numbers"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_python_is_a_sentence(case: str) -> None:
    call, part = MISTAKES[case]
    assert part in refusal(call)
