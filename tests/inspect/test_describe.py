"""`describe` against counts by hand and the registry; `plot` against the files it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from canon import create
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.inspect.summary import describe, describe_path
from canon.interop import elmo
from canon.interop.huggingface import write_folder
from canon.registry import SYSTEMS, find
from canon.training.run import Run
from canon.training.trainer import train
from tests.interop.folders import read_folder
from tests.interop.test_elmo import OPTIONS, original_arrays


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("runs") / "small"
    return train("digits-mlp", out=path, changes={"train.epochs": 2.0, "system.hidden": [20]}, quiet=True)


def test_lenet_layer_by_layer() -> None:
    result = describe("lenet").to_json()
    counted = [(row["output_shape"], row["parameters"], row["multiply_adds"]) for row in result["layers"]]
    assert [row for row in counted if row[1]] == [
        ([6, 28, 28], 6 * 25 + 6, 6 * 25 * 28 * 28),
        ([16, 10, 10], 16 * 6 * 25 + 16, 16 * 6 * 25 * 100),
        ([120], 400 * 120 + 120, 400 * 120),
        ([84], 120 * 84 + 84, 120 * 84),
        ([10], 84 * 10 + 10, 84 * 10),
    ]
    assert result["parameters"] == 61_706 and result["multiply_adds"] == 416_520


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_system(system) -> None:  # type: ignore[no-untyped-def]
    """With its own settings, at :tiny, and at the preset after it; the others differ in sizes alone."""
    for name in (system.name, *(f"{system.name}:{preset}" for preset in list(system.presets)[:2])):
        result = describe(name).to_json()
        config = system.configure(name.partition(":")[2], {})
        assert {row["setting"]: row["value"] for row in result["settings"]} == {
            key: list(value) if isinstance(value, tuple) else value for key, value in vars(config).items()
        }
        assert all(row["description"] for row in result["settings"])
        assert ("loss" in result["metrics"] or system.loop == "environment") and len(result["metrics"]) > 1
        if system.loop == "gradient":
            _, cls = system.load()
            with torch.device("meta"):
                network = cls(config)
            assert result["parameters"] == sum(p.numel() for p in network.parameters())
        else:
            assert result["parameters"] is None and result["layers"] == []
        json.dumps(result)


def test_changes_reach_the_network() -> None:
    description = describe("mlp", {"system.hidden": [7, 5]})
    assert description.network is not None and description.network.parameters == 64 * 7 + 7 + 7 * 5 + 5 + 5 * 10 + 10
    few = describe("finetune:tiny", {"system.settings.max_positions": 40}).network  # fewer than an example would have
    many = describe("finetune:tiny", {"system.settings.max_positions": 90}).network
    assert few is not None and many is not None and many.parameters - few.parameters == 50 * 768


def test_run(run: Run) -> None:
    actual, result = describe_path(run.path), run.result
    assert result is not None and actual.network is not None
    assert actual.network.parameters == result["cost"]["parameters"] and actual.scores == result["scores"]
    assert set(actual.metrics) == set(result["scores"]["test"])


def test_a_folder_of_hugging_face(canon: Callable) -> None:
    """Settings, parameters and tensors as the folder was read; its tokeniser; what either side has not."""
    for name, sentence in (
        ("bert", "tokenizer    none"),
        ("finetune", "left out     classifier.bias, classifier.weight"),
    ):
        sizes = ["dim=12", "num_layers=3", "num_heads=3", "hidden=20", "max_positions=37"]
        given = [f"system.settings={{{', '.join(sizes)}}}"] if name == "finetune" else [f"system.{s}" for s in sizes]
        sets = [word for text in given for word in ("--set", text)]
        assert canon("convert", name, f"{name}-folder", "--to", "huggingface", *sets).code == 0
        result, reported = read_folder(f"{name}-folder"), canon("describe", f"{name}-folder")
        assert reported.code == 0 and f"BERT ({name}-folder)" in reported.out and sentence in reported.out
        plain = json.loads(canon("describe", f"{name}-folder", "--json").out)
        settings = {row["setting"]: row["value"] for row in plain["settings"]}
        assert result.settings == {key: settings[key] for key in result.settings} and settings["dim"] == 12
        assert plain["parameters"] == sum(tensor.numel() for tensor in result.tensors.values())
        assert f"{plain['parameters']:,}" in reported.out
        assert plain["folder"] == {
            "weights": f"{name}-folder/model.safetensors",
            "tokenizer": None,
            "left_out": result.report.left_out,
            "made_new": list(result.made_new),
        }
    assert canon("describe", "bert-folder", "--set", "system.dim=3").err.endswith("leave out --set.\n")


def test_the_tokenizer_of_a_folder(canon: Callable) -> None:
    """Its size, and its kind by canon's name or, where it was made elsewhere, by the library's."""
    own = Tokenizer.train(["the cat sat on the mat"], "wordpiece", 40)
    config = find("gpt2")[0].configure("tiny", {"vocab_size": own.size})
    write_folder("folder", "gpt2", vars(config), create("gpt2:tiny", vocab_size=own.size).state_dict(), own)
    assert json.loads(canon("describe", "folder", "--json").out)["folder"]["tokenizer"] == {
        "kind": "wordpiece",
        "size": own.size,
    }
    plain = json.loads(Path("folder/tokenizer.json").read_text())
    del plain["model"]["canon"]
    Path("folder/tokenizer.json").write_text(json.dumps(plain))
    assert f"tokenizer    WordPiece, {own.size} tokens" in canon("describe", "folder").out


def test_a_folder_of_elmo(canon: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are the options', parameters the arrays' and the softmax of an empty vocabulary."""
    Path("elmo").mkdir()
    Path("elmo/my_options.json").write_text(json.dumps(OPTIONS))
    Path("elmo/my_weights.hdf5").write_bytes(b"")
    monkeypatch.setattr(elmo, "_read_hdf5", lambda path: original_arrays())
    plain = json.loads(canon("describe", "elmo", "--json").out)
    settings = {row["setting"]: row["value"] for row in plain["settings"]}
    assert plain["system"] == "elmo" and (settings["projection"], settings["hidden"]) == (4, 9)
    assert plain["parameters"] == sum(array.size for array in original_arrays().values()) + 4 * (4 + 1)
    assert plain["folder"]["weights"] == "elmo/my_weights.hdf5" and plain["folder"]["tokenizer"] is None
    assert "new          softmax.weight, softmax.bias" in canon("describe", "elmo").out


def test_a_folder_that_is_none(canon: Callable) -> None:
    Path("nothing").mkdir()
    printed = canon("describe", "nothing")
    assert printed.code == 2 and printed.err == (
        "canon: nothing is not a run (recipe.toml), a folder of sentence-transformers (modules.json), "
        "a Hugging Face folder (config.json), ELMo's published folder (options.json, weights.hdf5), "
        "a state dict of Transformer-XL's authors, a state dict of torchvision, a state dict of timm "
        "or a .safetensors, .pt or .pth file of tensors.\n"
    )
    Path("nothing/config.json").write_text('{"model_type": "bert"}')
    assert canon("describe", "nothing").err.startswith("canon: nothing has no weights: model.safetensors or ")


def test_describe_command(run: Run, canon: Callable) -> None:
    printed = canon("describe", "mlp:base").out
    for piece in ("Multilayer perceptron (mlp:base)", "Rumelhart", "share of hidden units dropped", "85,002", "84,480"):
        assert piece in printed
    assert json.loads(canon("describe", run.path, "--json").out)["parameters"] == 64 * 20 + 20 + 20 * 10 + 10
    assert "without a network" in canon("describe", "adaboost").out
    for wrong, sentence in (
        (("mlpp",), 'No system "mlpp"; did you mean mlp?'),
        (("mlp:bass",), "did you mean mlp:base?"),
        (("mlp", "--set", "system.hiden=[3]"), "did you mean system.hidden?"),
        (("mlp", "--set", "train.steps=3"), "only system settings"),
        ((run.path, "--set", "system.hidden=[3]"), "leave out --set"),
        ((run.path.parent,), "is not a run"),
    ):
        refused = canon("describe", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1


MAGIC = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


def test_plot_command(run: Run, canon: Callable) -> None:
    for ending, begin in MAGIC.items():
        out = Path(f"curves.{ending}")
        printed = canon("plot", run.path, run.path, "--out", out)
        assert (printed.code, printed.out.strip()) == (0, str(out)) and out.read_bytes().startswith(begin)
    assert canon("plot", run.path).out.strip() == "small-curves.png" and Path("small-curves.png").is_file()
    assert json.loads(canon("plot", "activations", "--json").out) == {"figure": "activations.png"}
    canon("plot", run.path, "--metric", "train/lr", "--out", "lr.svg")
    assert ">train/lr</text>" in Path("lr.svg").read_text().replace("\n", "")
    for wrong, sentence in (
        (("activation",), "did you mean activations?"),
        (("activations", run.path), "takes no other argument than --out"),
        ((run.path.parent,), "is not a run"),
        ((run.path, "--metric", "valid/acuracy"), "did you mean valid/accuracy?"),
        ((run.path, "--out", "x.gif"), "a figure is written as .png, .svg, .pdf"),
    ):
        refused = canon("plot", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1
    Path("file").write_text("")
    assert "cannot be written" in canon("plot", run.path, "--out", "file/x.png").err


def test_runs_with_nothing_in_common(run: Run, canon: Callable, tmp_path: Path) -> None:
    other = train("cancer-adaboost", out=tmp_path / "boost", changes={"train.steps": 3, "data.valid": 0.0}, quiet=True)
    assert "have no curve in common" in canon("plot", run.path, other.path).err
    (other.path / "metrics.jsonl").write_text("")
    assert "has logged nothing yet" in canon("plot", other.path).err


def test_plot_needs_matplotlib(run: Run, canon: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canon.report.page.can_draw", lambda: False)
    printed = canon("plot", run.path)
    assert printed.code == 2 and "deepcanon[plots]" in printed.err


def test_a_file_of_another_projects_weights(canon: Callable) -> None:
    """What `convert` wrote is what the preset has; tensors by themselves name no network."""
    canon("convert", "resnet:18", "weights.safetensors", "--to", "timm")
    plain = json.loads(canon("describe", "weights.safetensors", "--json").out)
    assert plain["parameters"] == json.loads(canon("describe", "resnet:18", "--json").out)["parameters"]
    save_file({"a": torch.zeros(2)}, "tensors.safetensors")
    assert canon("describe", "tensors.safetensors").err == (
        "canon: tensors.safetensors is a .safetensors, .pt or .pth file of tensors, which does not name its network; "
        "give a run, a folder or a system.\n"
    )


def test_describe_refuses_in_python() -> None:
    with pytest.raises(CanonError, match="No system"):
        describe("nothing")
