"""Folders of Hugging Face's: what canon writes transformers reads with the same outputs, and the other way round."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from canon import registry
from canon.data.batching.sequences import Ragged
from canon.data.text.framing import frame
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop.huggingface import FAMILIES, write_folder
from canon.nn.ragged import Layout
from tests.interop.folders import read_folder
from tests.parity.compare import assert_close
from tests.parity.huggingface import transformers_module
from tests.parity.pretrained import Batch, build, scatter, their_network
from tests.systems.pretrained_checks import logits_of

TEXTS = ["The cat sat on the mat.", "A dog, and another dog!", "mat", "Dogs sat on cats; 猫 too."] * 3
SMALL: dict[str, Any] = {"dim": 12, "num_layers": 3, "num_heads": 3, "hidden": 20, "max_positions": 37}
SYSTEMS: dict[str, dict[str, Any]] = {
    "bert": {**SMALL, "next_sentence": True},
    "unilm": {**SMALL, "activation": "gelu-tanh"},
    "roberta": SMALL,
    "gpt": {**SMALL, "hidden": 48},
    "gpt2": SMALL,
    "gpt3": {**SMALL, "sparse": "none"},
    "t5": {"dim": 12, "num_layers": 3, "decoder_layers": 2, "num_heads": 3, "head_dim": 5, "hidden": 20},
    "xlnet": {"dim": 12, "num_layers": 3, "num_heads": 3, "hidden": 20},
}
AUTO = {
    "bert": "AutoModelForPreTraining",
    "unilm": "AutoModelForPreTraining",
    "roberta": "AutoModelForMaskedLM",
    "gpt": "AutoModelForCausalLM",
    "gpt2": "AutoModelForCausalLM",
    "gpt3": "AutoModelForCausalLM",
    "t5": "AutoModelForSeq2SeqLM",
    "xlnet": "AutoModelForCausalLM",
}


def tokenizer_for(system: str) -> Tokenizer:
    """Trained as canon does for pre-training."""
    kind = {"bert": "wordpiece", "roberta": "byte-bpe", "gpt2": "byte-bpe", "t5": "unigram"}.get(system, "bpe")
    return Tokenizer.train(
        TEXTS, kind, 270 if kind == "byte-bpe" else 90, mask=True, sentinels=8 if system == "t5" else 0
    )


def written(system: str, path: Path, **changes: Any) -> tuple[Any, dict[str, Any], Tokenizer]:
    """A network of canon's with random numbers everywhere, its settings and tokeniser, as a folder."""
    tokenizer = tokenizer_for(system)
    record, _ = registry.find(system)
    config = record.configure("", {**SYSTEMS[system], "vocab_size": tokenizer.size, **changes})
    torch.manual_seed(3)
    network = scatter(record.load()[1](config)).eval()
    settings = dict(vars(config))
    write_folder(path, system, settings, network.state_dict(), tokenizer)
    return network, settings, tokenizer


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_written_loads_in_transformers(system: str, tmp_path: Path) -> None:
    """AutoModel and AutoTokenizer: the same ids of a text, the same logits, no tensor missing or too many."""
    network, _, tokenizer = written(system, tmp_path / "out")
    library = transformers_module()
    theirs, reported = getattr(library, AUTO[system]).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not reported["missing_keys"] and not reported["unexpected_keys"] and not reported["mismatched_keys"]
    their_tokenizer = library.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids, lengths = tokenizer.encode(TEXTS[:4])
    framed = frame(network.framing, tokenizer.specials, Ragged(ids, lengths))
    tokens_N, layout = torch.from_numpy(framed.tokens_N), Layout(torch.from_numpy(framed.lengths_B))
    if network.framing != "gpt":  # which puts <eos> after a text only where canon trains
        for text, mine in zip(TEXTS[:4], tokens_N.split(framed.lengths_B.tolist()), strict=True):
            assert their_tokenizer(text)["input_ids"] == mine.tolist()
    padded, mask = layout.pad(tokens_N, max(tokenizer.specials.pad, 0)), layout.mask.long()
    with torch.no_grad():
        if system == "t5":
            targets = torch.arange(12).view(4, 3) + 5
            wanted = theirs.eval()(input_ids=padded, attention_mask=mask, decoder_input_ids=targets).logits
            encoded = logits_of(network, tokens_N, layout, targets.flatten(), Layout(torch.full((4,), 3)))
            assert_close(encoded, wanted.flatten(0, 1), 1e-5, "logits")
            return
        if system == "xlnet":  # one length at a time: its padding stands before the text
            for mine in tokens_N.split(framed.lengths_B.tolist()):
                wanted = theirs.eval().transformer(mine[None], output_hidden_states=True).hidden_states[-1]
                encoded = network.encode(mine, Layout(torch.tensor([len(mine)])))[-1]
                assert_close(encoded, wanted.view(encoded.shape), 1e-5, "hidden states")
            return
        outputs = theirs.eval()(input_ids=padded, attention_mask=mask)
        wanted = outputs.prediction_logits if AUTO[system].endswith("PreTraining") else outputs.logits
        assert_close(logits_of(network, tokens_N, layout), layout.unpad(wanted), 1e-5, "logits")


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_written_is_read_back(system: str, tmp_path: Path) -> None:
    """Settings that decide about numbers, every tensor bit for bit, and the tokeniser's ids."""
    network, settings, tokenizer = written(system, tmp_path / "out")
    folder = read_folder(tmp_path / "out")
    assert folder.system == {"gpt3": "gpt2"}.get(system, system)
    assert {name: settings[name] for name in folder.settings} == folder.settings
    state = network.state_dict()
    assert set(folder.tensors) == set(state) and all(torch.equal(folder.tensors[name], state[name]) for name in state)
    assert folder.notes == () and folder.tokenizer is not None
    assert folder.tokenizer.specials == tokenizer.specials
    for mine, other in zip(folder.tokenizer.encode(TEXTS), tokenizer.encode(TEXTS), strict=True):
        assert (mine == other).all()


def saved(system: str, path: Path, **options: Any) -> Any:
    """A folder as transformers' save_pretrained writes it."""
    model = their_network(system, **{k: v for k, v in options.items() if k != "shard"})
    model.save_pretrained(path, **({"max_shard_size": options["shard"]} if "shard" in options else {}))
    return model


ARCHITECTURES = [
    ("bert", "BertForPreTraining", 0, 0),
    ("bert", "BertForMaskedLM", 0, 2),  # without the pooler
    ("bert", "BertModel", 0, 5),  # without what names tokens
    ("bert", "BertForSequenceClassification", 2, 5),
    ("bert", "BertForQuestionAnswering", 2, 7),
    ("roberta", "RobertaForMaskedLM", 0, 0),
    ("roberta", "RobertaModel", 2, 5),
    ("roberta", "RobertaForTokenClassification", 2, 5),
    ("gpt", "OpenAIGPTModel", 0, 0),
    ("gpt", "OpenAIGPTForSequenceClassification", 1, 0),
    ("gpt2", "GPT2Model", 0, 0),
    ("gpt2", "GPT2ForSequenceClassification", 1, 0),
]


@pytest.mark.parametrize(("system", "architecture", "left_out", "new"), ARCHITECTURES, ids=lambda value: str(value))
def test_heads_that_one_side_has_not(system: str, architecture: str, left_out: int, new: int, tmp_path: Path) -> None:
    """Their heads are left out and canon's are new, both are listed by name; hidden states are theirs."""
    model = saved(system, tmp_path / "in", architecture=architecture)
    folder = read_folder(tmp_path / "in")
    assert len(folder.report.left_out) == left_out and len(folder.notes) == (left_out > 0) + (new > 0)
    reported = " ".join(folder.notes)
    assert all(name in reported for name in folder.report.left_out)
    assert len(folder.made_new) == new and all(name in reported for name in folder.made_new)
    assert folder.settings.get("next_sentence", False) is (architecture == "BertForPreTraining")
    network = build(system, folder.settings, folder.tensors)
    batch = Batch.of(97, model.config.pad_token_id or 0)
    with torch.no_grad():
        base = getattr(model, model.base_model_prefix, model)
        wanted = base(batch.token_BL, attention_mask=batch.mask_BL.long())[0]
        assert_close(network.encode(batch.token_N, batch.layout)[-1], batch.layout.unpad(wanted), 1e-5, "hidden states")


def _shards(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    names = sorted(tensors)
    half = {name: f"model-{1 + (i > 9):05d}-of-00002.safetensors" for i, name in enumerate(names)}
    for part in set(half.values()):
        save_file({name: tensors[name] for name in names if half[name] == part}, path / part)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": half}))


def _pickled(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    torch.save(tensors, path / "pytorch_model.bin")


def _old_names(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    old = {}
    for name, tensor in tensors.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        old[f"module.{name}"] = tensor
    old["module.bert.embeddings.position_ids"] = torch.arange(512)[None]
    old["module.cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    old["module.cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    save_file(old, path / "model.safetensors")


def _halves(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, path / "model.safetensors")


@pytest.mark.parametrize("form", [_shards, _pickled, _old_names, _halves])
def test_forms_of_weights(form: Callable[[Path, dict[str, torch.Tensor]], None], tmp_path: Path) -> None:
    """Shards and their index; pickled tensors; names of 2018 below a wrapper's, tied matrices twice; bfloat16."""
    saved("bert", tmp_path)
    wanted = read_folder(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    form(tmp_path, tensors)
    folder = read_folder(tmp_path)
    for name, tensor in wanted.tensors.items():
        assert folder.tensors[name].dtype == torch.float32
        assert torch.equal(folder.tensors[name], tensor.bfloat16().float() if form is _halves else tensor)


def test_a_checkpoint_without_a_model_type_is_known_by_its_architecture(tmp_path: Path) -> None:
    saved("gpt2", tmp_path)
    table = json.loads((tmp_path / "config.json").read_text())
    del table["model_type"]
    (tmp_path / "config.json").write_text(json.dumps(table))
    assert read_folder(tmp_path).system == "gpt2"


# What does not fit


def spoilt(path: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> str:
    saved("bert", path)
    tensors = load_file(path / "model.safetensors")
    change(tensors)
    save_file(tensors, path / "model.safetensors")
    with pytest.raises(CanonError) as refused:
        read_folder(path)
    return str(refused.value)


def test_all_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    """Missing, unexpected and of another shape, each by name, in one sentence."""

    def change(tensors: dict[str, torch.Tensor]) -> None:
        for kind in ("query", "key"):
            del tensors[f"bert.encoder.layer.1.attention.self.{kind}.weight"]
        tensors["bert.encoder.layer.3.output.dense.bias"] = torch.zeros(12)
        tensors["bert.adapter.weight"] = torch.zeros(2)
        tensors["bert.pooler.dense.bias"] = torch.zeros(13)
        del tensors["cls.predictions.bias"]  # the rest of this head is there

    said = spoilt(tmp_path, change)
    assert said == (
        f"{tmp_path}/model.safetensors is not the bert that its config.json describes: 3 missing "
        "(bert.encoder.layer.1.attention.self.query.weight, bert.encoder.layer.1.attention.self.key.weight, "
        "cls.predictions.bias); 2 unexpected (bert.adapter.weight, bert.encoder.layer.3.output.dense.bias); 1 of "
        "another shape (bert.pooler.dense.bias: [13] in the file, [12] in the network)."
    )


def test_an_output_of_its_own_is_refused(tmp_path: Path) -> None:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["cls.predictions.decoder.weight"] = torch.zeros(97, 12)

    said = spoilt(tmp_path, change)
    assert "cls.predictions.decoder.weight is not bert.embeddings.word_embeddings.weight" in said


def test_a_tokenizer_of_another_size_names_both_files(tmp_path: Path) -> None:
    saved("bert", tmp_path)
    tokenizer = Tokenizer.train(TEXTS, "char", mask=True)
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json())
    assert tokenizer.size < 97 and read_folder(tmp_path).tokenizer is not None  # rows to spare: rounded up
    more = {**SYSTEMS["bert"], "vocab_size": 300}
    shutil.rmtree(tmp_path)
    saved("bert", tmp_path, vocab_size=tokenizer.size - 1)
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json())
    with pytest.raises(CanonError) as refused:
        read_folder(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path}/tokenizer.json has {tokenizer.size} tokens but {tmp_path}/model.safetensors was trained with "
        f"{tokenizer.size - 1}; use the tokenizer that belongs to those weights."
    )
    shutil.rmtree(tmp_path)
    saved("bert", tmp_path, vocab_size=more["vocab_size"])
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json())
    with pytest.raises(CanonError, match=f"has {tokenizer.size} tokens but .* with 300;"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model_type": "llama"}, 'No model_type (FOLDER/config.json) "llama"'),
        ({"model_type": "rberta"}, "did you mean roberta"),
        ({"model_type": None, "architectures": None}, "FOLDER/config.json has no model_type; it is one of bert, "),
        ({"position_embedding_type": "relative_key"}, "FOLDER/config.json: position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "FOLDER/config.json: is_decoder is True"),
        (
            {"hidden_act": "silu"},
            "FOLDER/config.json: hidden_act is 'silu', which canon does not compute; it must be 'gelu'",
        ),
        ({"type_vocab_size": 3}, "FOLDER/config.json: type_vocab_size is 3; canon has BERT with 2 and UniLM with 6."),
        ({"num_attention_heads": 5}, "must be a multiple of"),
        ({"hidden_size": "wide"}, "FOLDER/config.json: hidden_size must be a whole number from 1, got 'wide'."),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_config_that_canon_cannot_compute(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    saved("bert", tmp_path)
    table = json.loads((tmp_path / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps({key: value for key, value in table.items() if value is not None}))
    with pytest.raises(CanonError) as refused:
        read_folder(tmp_path)
    assert said in str(refused.value).replace(str(tmp_path), "FOLDER")


def test_files_that_are_not_there_or_damaged(tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(CanonError) as refused:
            read_folder(tmp_path)
        return str(refused.value).replace(str(tmp_path), "FOLDER")

    assert refusal() == (
        "FOLDER is not a run (recipe.toml), a folder of sentence-transformers (modules.json), "
        "a Hugging Face folder (config.json), ELMo's published folder (options.json, weights.hdf5), "
        "a state dict of Transformer-XL's authors, a state dict of torchvision, a state dict of timm "
        "or a .safetensors, .pt or .pth file of tensors."
    )
    (tmp_path / "config.json").write_text("{")
    assert refusal().startswith("FOLDER/config.json cannot be read: Expecting property name")
    (tmp_path / "config.json").write_text("[]")
    assert refusal() == "FOLDER/config.json must hold a JSON object, not list."
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert refusal().startswith("FOLDER has no weights: model.safetensors or pytorch_model.bin is read")
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "one.safetensors"}}')
    assert refusal() == "FOLDER/model.safetensors.index.json names one.safetensors, which is not there."
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    assert refusal().startswith("FOLDER/model.safetensors is not a whole .safetensors file")
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").unlink()
    torch.save({"a": Path("x")}, tmp_path / "pytorch_model.bin")
    assert refusal().startswith("FOLDER/pytorch_model.bin holds more than tensors")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r'system\.sparse is "alternating"'):
        written("gpt3", tmp_path / "out", sparse="alternating")
    with pytest.raises(CanonError, match=r"system\.hidden is 20, and GPT as Hugging Face has it needs 4 · 12"):
        written("gpt", tmp_path / "out", hidden=20)
    with pytest.raises(CanonError, match=r'system\.activation is "gelu"'):
        written("gpt", tmp_path / "out", activation="gelu")
    assert not list(tmp_path.iterdir())
    written("gpt", tmp_path / "out")
    with pytest.raises(CanonError, match="already exists"):
        written("gpt", tmp_path / "out")


def test_every_family_has_a_system_that_says_so() -> None:
    """The registry's interop and the table of families are the same list."""
    assert set(FAMILIES) == {s.name for s in registry.SYSTEMS if "huggingface" in s.interop.writes} - {"finetune"}
