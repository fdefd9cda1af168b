"""Fine-tuned networks as folders: transformers' own classes beside canon's network, for every kind that can be written.

Networks are small, of odd sizes, random in all tensors. transformers reads texts with its AutoTokenizer, padded to the
longest; canon reads the ids that its own framing makes of the same texts, end to end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from canon.data.encodings.framed import FramedSchema
from canon.data.encodings.framing_rows import encode_choices, encode_tags, encode_texts
from canon.data.formats.rows import ChoiceRows, TagRows, TextRows
from canon.data.targets import TARGETS, Number
from canon.data.text.framing import PATTERNS
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop.backbones import find
from canon.interop.huggingface_finetuned import ARCHITECTURES, write_folder
from canon.nn.ragged import Layout
from canon.systems.pretrained.finetune import Config, FineTune
from canon.training.run import Run
from tests.interop.folders import read_folder
from tests.parity.compare import assert_close
from tests.parity.huggingface import transformers_module
from tests.parity.pretrained import scatter

CLOSE = 1e-5  # of the largest output
TEXTS = ["The cat sat on the mat.", "mat", "A dog, and another dog: cats sat on dogs!", "cats; a mat"]
PAIRS = ["Where is it?", "A dog", "and", "on what did the cats sit?"]
CLASSES = ("bad", "dull", "good")
SIZES: dict[str, Any] = {"dim": 12, "num_layers": 3, "num_heads": 3, "hidden": 20, "max_positions": 61}
MORE: dict[str, dict[str, Any]] = {"gpt": {"hidden": 48}, "gpt3": {"sparse": "none"}}
CASES = [(backbone, target.name) for backbone, targets in ARCHITECTURES.items() for target in targets]
AUTO = {
    "class": "AutoModelForSequenceClassification",
    "number": "AutoModelForSequenceClassification",
    "tags": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "choice": "AutoModelForMultipleChoice",
}


def tokenizer_for(backbone: str) -> Tokenizer:
    kind = "byte-bpe" if backbone in ("roberta", "gpt2") else "wordpiece"
    return Tokenizer.train([*TEXTS, *PAIRS], kind, 290 if kind == "byte-bpe" else 80)


def published() -> Tokenizer:
    """Byte-level pairs as GPT-2's are published: <|endoftext|> is the only special token, and nothing pads."""
    plain = json.loads(tokenizer_for("gpt2").to_json())
    del plain["model"]["canon"]
    pieces = [token for token in plain["model"]["vocab"] if not token.startswith("<")]
    plain["model"]["vocab"] = {token: index for index, token in enumerate([*pieces, "<|endoftext|>"])}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}
    plain["added_tokens"] = [{"id": len(pieces), "content": "<|endoftext|>", **flags}]
    steps = {"add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    plain["post_processor"] = {"type": "ByteLevel", **steps}
    return Tokenizer.from_json(json.dumps(plain), native=True)


def made(backbone: str, kind: str, tokenizer: Tokenizer, **changes: Any) -> tuple[FineTune, Config, FramedSchema]:
    """A network with random numbers everywhere, and what its run would know of the data."""
    sizes = {**SIZES, **MORE.get(backbone, {}), **changes.pop("sizes", {})}
    config = Config(
        backbone=backbone,
        settings=sizes,
        kind=kind,  # type: ignore[arg-type]
        vocab_size=tokenizer.size,
        num_classes=len(CLASSES),
        **changes,
    )
    torch.manual_seed(5)
    network = scatter(FineTune(config)).eval()
    classes = CLASSES if kind in ("class", "tags") else ()
    scale = {"mean": 31.5, "std": 7.25} if kind == "number" else {}
    target = TARGETS[kind](classes, "stars", **scale)
    framing, limit = network.backbone.framing, SIZES["max_positions"]
    return network, config, FramedSchema(target, tokenizers={"text": tokenizer}, framing=framing, limit=limit)


def ours(network: FineTune, schema: FramedSchema, kind: str, second: list[str] | None) -> tuple[Tensor, Layout]:
    """canon's outputs of TEXTS, in the data's own unit."""
    tokenizer = schema.tokenizers["text"]
    if kind == "choice":
        rows = ChoiceRows("", str, TEXTS, [tuple(PAIRS[:2])] * len(TEXTS))
        texts, _ = encode_choices(tokenizer, schema, rows)
    else:
        texts, _ = encode_texts(tokenizer, schema, TextRows("", str, TEXTS, second))
    layout = Layout(torch.from_numpy(texts.lengths_S))
    token_N, segment_N = torch.from_numpy(texts.tokens_N).long(), torch.from_numpy(texts.segments_N).long()
    with torch.no_grad():
        outputs = network(token_N, layout, segment_N).outputs
    return (schema.target.restored(outputs) if isinstance(schema.target, Number) else outputs), layout


def theirs(model: Any, tokenizer: Any, kind: str, second: list[str] | None, layout: Layout) -> Tensor:
    """transformers' outputs of TEXTS, padded, in canon's order."""
    first = TEXTS
    if kind == "choice":
        first, second = [text for text in TEXTS for _ in range(2)], PAIRS[:2] * len(TEXTS)
    batch = tokenizer(first, second, padding=True, return_tensors="pt")
    assert batch["attention_mask"].sum(1).tolist() == layout.lengths.tolist()
    assert not batch["attention_mask"].all()  # there is padding
    if kind == "choice":
        batch = {name: tensor.view(len(TEXTS), 2, -1) for name, tensor in batch.items()}
    with torch.no_grad():
        actual = model.eval()(**batch)
    if kind == "span":
        return layout.unpad(torch.stack([actual.start_logits, actual.end_logits], dim=2))
    return (
        layout.unpad(actual.logits)
        if kind == "tags"
        else actual.logits.reshape(-1, actual.logits.shape[-1] if kind != "choice" else 1)
    )


def loaded(path: Path, kind: str) -> tuple[Any, Any]:
    """The Auto classes' network and tokeniser; no tensor is missing or too many."""
    library = transformers_module()
    model, reported = getattr(library, AUTO[kind]).from_pretrained(path, output_loading_info=True)
    assert not reported["missing_keys"] and not reported["unexpected_keys"] and not reported["mismatched_keys"]
    return model, library.AutoTokenizer.from_pretrained(path)


@pytest.mark.parametrize("paired", [False, True], ids=["one text", "two texts"])
@pytest.mark.parametrize(("backbone", "kind"), CASES)
def test_the_same_outputs(backbone: str, kind: str, paired: bool, tmp_path: Path) -> None:
    """Classes, numbers in the data's unit, tags and both ends at all tokens, choices; read by AutoTokenizer."""
    network, config, schema = made(backbone, kind, tokenizer_for(backbone))
    names = write_folder(tmp_path / "out", config, network.state_dict(), schema)
    assert set(names) == set(load_file(tmp_path / "out" / "model.safetensors"))
    model, tokenizer = loaded(tmp_path / "out", kind)
    assert type(model).__name__ == ARCHITECTURES[backbone][TARGETS[kind]]
    second = PAIRS if paired else None
    actual, layout = ours(network, schema, kind, second)
    assert_close(theirs(model, tokenizer, kind, second, layout), actual, CLOSE, "outputs")


@pytest.mark.parametrize("kind", ["class", "number", "tags", "span"])
def test_a_tokenizer_that_cannot_pad(kind: str, tmp_path: Path) -> None:
    """GPT-2's published one gets <pad> and a row of zeros; the row is not added where there is one to spare."""
    tokenizer = published()
    assert tokenizer.specials.pad < 0 and tokenizer.native
    for spare in (0, 3):
        network, config, schema = made("gpt2", kind, tokenizer, sizes={"vocab_size": tokenizer.size + spare})
        path = tmp_path / f"out{spare}"
        write_folder(path, config, network.state_dict(), schema)
        model, their_tokenizer = loaded(path, kind)
        assert model.config.vocab_size == tokenizer.size + (spare or 1)
        assert model.config.pad_token_id == their_tokenizer.pad_token_id == tokenizer.size
        actual, layout = ours(network, schema, kind, None)
        assert_close(theirs(model, their_tokenizer, kind, None, layout), actual, CLOSE, "outputs")
        assert read_folder(path).tokenizer is not None


def test_tags_at_the_places_of_words(tmp_path: Path) -> None:
    """A sentence in words: canon's outputs at each word's first piece are theirs at the first token of that word."""
    network, config, schema = made("bert", "tags", tokenizer_for("bert"))
    write_folder(tmp_path / "out", config, network.state_dict(), schema)
    model, tokenizer = loaded(tmp_path / "out", "tags")
    sentences = [["The", "cats", "sat", "."], ["dogs"]]
    texts, _ = encode_tags(schema.tokenizers["text"], schema, TagRows("", str, sentences))
    batch = {name: torch.from_numpy(array) for name, array in texts.batch("input", torch.arange(2).numpy()).items()}
    made_of = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        actual = network(batch["input"], Layout(batch["input_lengths"]), batch["segment"], batch["places"]).outputs
        logits = model.eval()(**made_of).logits
    places = [(row, made_of.word_ids(row).index(word)) for row in range(2) for word in range(len(sentences[row]))]
    assert_close(torch.stack([logits[place] for place in places]), actual, CLOSE, "tags")


@pytest.mark.parametrize(("backbone", "kind"), CASES)
def test_what_config_json_says(backbone: str, kind: str, tmp_path: Path) -> None:
    """Classes by name both ways, how many, the architecture; of a number its column and that it is one."""
    network, config, schema = made(backbone, kind, tokenizer_for(backbone), dropout=0.25)
    write_folder(tmp_path / "out", config, network.state_dict(), schema)
    record = json.loads((tmp_path / "out" / "config.json").read_text())
    assert record["architectures"] == [ARCHITECTURES[backbone][TARGETS[kind]]] and record["classifier_dropout"] == 0.25
    model, tokenizer = loaded(tmp_path / "out", kind)
    if kind in ("class", "tags"):
        assert record["num_labels"] == 3 and record["label2id"] == {"bad": 0, "dull": 1, "good": 2}
        assert model.config.id2label == {0: "bad", 1: "dull", 2: "good"}
    elif kind == "number":
        assert record["num_labels"] == 1 and record["id2label"] == {"0": "stars"}
        assert model.config.problem_type == "regression"
    else:
        assert "id2label" not in record
    assert tokenizer.model_max_length == SIZES["max_positions"]
    segments = any(segment for _, segment in PATTERNS[network.backbone.framing][1])
    assert ("token_type_ids" in tokenizer("a cat")) == segments


@pytest.mark.parametrize(
    ("backbone", "kind"), [("bert", "class"), ("bert", "span"), ("roberta", "tags"), ("gpt2", "tags")]
)
def test_the_backbone_is_read_back(backbone: str, kind: str, tmp_path: Path) -> None:
    """Bit for bit, without the head, which is reported by name."""
    network, config, schema = made(backbone, kind, tokenizer_for(backbone))
    write_folder(tmp_path / "out", config, network.state_dict(), schema)
    system, actual = find(str(tmp_path / "out"))
    find.cache_clear()
    head = "qa_outputs" if kind == "span" else "classifier"
    assert system == backbone and actual.left_out == [f"{head}.bias", f"{head}.weight"]
    for name, tensor in network.backbone.state_dict().items():
        assert torch.equal(actual.tensors[name], tensor), name


def test_only_the_last_norm_moves(tmp_path: Path) -> None:
    """GPT-2's backbone of a class is read back with another bias in its last norm, and equal in everything else."""
    network, config, schema = made("gpt2", "class", tokenizer_for("gpt2"))
    write_folder(tmp_path / "out", config, network.state_dict(), schema)
    actual, own = read_folder(tmp_path / "out"), network.backbone.state_dict()
    assert [name for name in own if not torch.equal(actual.tensors[name], own[name])] == ["layers.norm.bias"]
    moved = actual.tensors["layers.norm.bias"] - own["layers.norm.bias"]
    assert_close(network.head.weight @ moved, network.head.bias, 1e-5, "W δ")
    with torch.no_grad():
        network.head.bias.zero_()
    write_folder(tmp_path / "again", config, network.state_dict(), schema)
    assert torch.equal(read_folder(tmp_path / "again").tensors["layers.norm.bias"], own["layers.norm.bias"])


# The command


def rows_of(kind: str) -> str:
    """A small file of examples of a kind, under the name that tells its format."""
    if kind == "tags":
        Path("tags.conll").write_text("the DET\ncat NOUN\nsat VERB\n\na DET\nmat NOUN\n\n" * 10)
        return "tags.conll"
    lines = [
        f"{text.replace(',', ' ')},{row % 2 + (0.5 if kind == 'number' else 0)}" for row, text in enumerate(TEXTS * 8)
    ]
    Path("rows.csv").write_text("text,stars\n" + "\n".join(lines) + "\n")
    return "rows.csv"


def run_of(canon: Callable[..., Any], kind: str, out: str, *settings: str) -> None:
    options = ["train.steps=4", "train.batch=8", "train.device=cpu", *settings]
    sets = [word for setting in options for word in ("--set", setting)]
    data = rows_of(kind)
    done = canon("train", "finetune:tiny", "--data", data, "--out", out, "--quiet", *sets)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("backbone", "kind"), [("bert", "class"), ("bert", "number"), ("bert", "tags"), ("gpt2", "class")]
)
def test_a_run_is_converted(backbone: str, kind: str, canon: Callable[..., Any]) -> None:
    """`canon predict` on the run and the folder in transformers: the same classes and numbers."""
    run_of(canon, kind, "run", f"system.backbone={backbone}")
    done = canon("convert", "run", "folder", "--to", "huggingface")
    assert done.code == 0 and done.out.splitlines() == ["finetune:tiny", "folder"], done.err
    model, tokenizer = loaded(Path("folder"), kind)
    assert tuple(model.config.label2id) == (Run.open("run").schema.classes or ("stars",))
    if kind == "tags":
        return
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = model.eval()(**batch).logits
    records = json.loads(canon("predict", "run", *TEXTS, "--json").out)
    if kind == "number":
        torch.testing.assert_close(logits[:, 0], torch.tensor([record["prediction"] for record in records]))
        return
    best = logits.softmax(1).max(1)
    assert [model.config.id2label[index] for index in best.indices.tolist()] == [row["prediction"] for row in records]
    torch.testing.assert_close(best.values, torch.tensor([row["top"][0]["probability"] for row in records]))


def test_the_way_back(canon: Callable[..., Any]) -> None:
    """`from=FOLDER` of such a folder fine-tunes its backbone; the head is left out; written again, it is read
    with one <eos>."""
    run_of(canon, "class", "run", "system.backbone=gpt2")
    assert canon("convert", "run", "folder", "--to", "huggingface").code == 0
    find.cache_clear()
    sets = [word for text in ("from=folder", "train.steps=2", "train.device=cpu") for word in ("--set", text)]
    done = canon("train", "finetune", "--data", rows_of("tags"), "--out", "tags", "--quiet", *sets)
    assert done.code == 0, done.err
    assert "left out: score.weight; newly initialised: head.weight, head.bias." in Path("tags/log.txt").read_text()
    assert canon("convert", "tags", "again", "--to", "huggingface").code == 0
    shutil.rmtree("folder")
    model, tokenizer = loaded(Path("again"), "tags")
    ends = model.config.eos_token_id
    assert tokenizer("a cat")["input_ids"].count(ends) == 1 and tokenizer("a cat")["input_ids"][-1] == ends


def test_what_cannot_be_written_is_one_sentence(canon: Callable[..., Any], tmp_path: Path) -> None:
    can = (
        "bert (class, number, tags, span, choice), roberta (tags, span), gpt (class, number), gpt2 (class, number, "
        "tags, span), gpt3 (class, number, tags, span)."
    )

    def refusal(backbone: str, kind: str, **changes: Any) -> str:
        network, config, schema = made(backbone, kind, tokenizer_for("bert"), **changes)
        with pytest.raises(CanonError) as refused:
            write_folder(tmp_path / "out", config, network.state_dict(), schema)
        assert not (tmp_path / "out").exists()
        return str(refused.value)

    for backbone, kind in (("roberta", "class"), ("gpt2", "choice"), ("gpt", "tags"), ("unilm", "class")):
        assert refusal(backbone, kind) == (
            f'No class of transformers computes what {backbone} with system.kind = "{kind}" does; these can be written '
            f"as a Hugging Face folder: {can}"
        )
    for changes in ({"layers": (-2, -1)}, {"mix": True}, {"lstm": 4}, {"pooling": "mean"}):
        assert refusal("bert", "class", **changes) == (
            "No class of transformers has what system.layers, system.mix, system.lstm or system.pooling put before the "
            f"head; only a head on the last layer can be written as a Hugging Face folder: {can}"
        )
    assert 'system.sparse is "alternating"' in refusal("gpt3", "class", sizes={"sparse": "alternating"})
    wide = {"dim": 2, "num_heads": 1}
    assert refusal("gpt2", "class", sizes=wide).startswith("GPT2ForSequenceClassification has a head without bias, and")
    run_of(canon, "class", "run", "system.mix=true")
    done = canon("convert", "run", "folder", "--to", "huggingface")
    assert done.code == 2 and done.err.count("\n") == 1 and "No class of transformers has" in done.err
    assert not Path("folder").exists()
