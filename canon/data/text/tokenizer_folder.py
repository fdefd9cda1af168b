"""The tokeniser that a user names (`open_tokenizer`): a file, a run, or a network's folder in Hugging Face's layout.

Such a folder has tokenizer.json, vocab.txt, or vocab.json + merges.txt; ids stay those that the network was trained
with. Files without tokenizer.json are made into what the `tokenizers` library knows: WordPiece with BERT's way of
splitting words (vocab.txt), byte-level BPE of GPT-2 and RoBERTa, or the BPE of GPT with </w> at the end of words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canon import storage
from canon.data.formats.files import read_text
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import KINDS, library
from canon.errors import CanonError, border, reason, unknown

_MOST = 1 << 24  # ids of tokens are below
_ENDED = "</w>"  # of GPT's tokens that end a word
# What the published vocabularies call their special tokens; of a file, those count that it has.
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")


def open_tokenizer(name: str) -> Tokenizer:
    """Of a tokenizer.json, of a network's folder that has one, or of a run; one from elsewhere keeps its own ids."""
    path = Path(name).expanduser()
    if (path / "vocab" / "schema.json").is_file():
        from canon.data.schema import Schema

        tokenizers = Schema.open(path / "vocab").tokenizers
        if "text" not in tokenizers:
            raise CanonError(f"data.tokenizer: {path} is a run without a tokenizer of running text; name another.")
        return tokenizers["text"]
    if path.is_dir():
        tokenizer, _ = read_tokenizer(path)
        if tokenizer is None:
            raise CanonError(f"data.tokenizer: {name} has no tokenizer.json and is not a run of canon.")
        return tokenizer
    if path.is_file():
        return Tokenizer.load(path, native=True)
    if path.suffix or "/" in name:
        raise CanonError(f"data.tokenizer: there is no file {name}.")
    raise unknown("kind of tokenizer", name, KINDS)


def read_tokenizer(folder: Path) -> tuple[Tokenizer | None, str]:
    """The tokeniser of a folder, and the names of its files; None where it has none."""
    if (folder / "tokenizer.json").is_file():
        return Tokenizer.load(folder / "tokenizer.json", native=True), "tokenizer.json"
    for name, other, make in (("vocab.txt", "vocab.txt", _wordpiece), ("vocab.json", "merges.txt", _pairs)):
        if (folder / name).is_file() and (folder / other).is_file():
            with border(folder / name):
                return Tokenizer.from_json(make(folder).to_str(), str(folder / name), native=True), name
    for name in ("spiece.model", "sentencepiece.bpe.model"):
        if (folder / name).is_file():
            raise CanonError(
                f"{folder / name} cannot be read; put the tokenizer.json of the same network beside it "
                "(transformers writes one: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER))."
            )
    return None, ""


def _wordpiece(folder: Path) -> Any:
    tokenizers = library()
    lines = read_text(folder / "vocab.txt").rstrip("\n").split("\n")
    vocabulary = {line.rstrip("\r"): index for index, line in enumerate(lines)}
    if "[UNK]" not in vocabulary:
        raise CanonError(f"{folder / 'vocab.txt'} has no [UNK], so it is not a vocabulary of WordPiece.")
    chosen = _chosen(folder)
    inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = tokenizers.normalizers.BertNormalizer(
        lowercase=bool(chosen.get("do_lower_case", True)),
        strip_accents=chosen.get("strip_accents"),
        handle_chinese_chars=bool(chosen.get("tokenize_chinese_chars", True)),
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    inner.decoder = tokenizers.decoders.WordPiece()
    return _with_special(inner, vocabulary)


def _pairs(folder: Path) -> Any:
    tokenizers = library()
    vocabulary = read_json(folder / "vocab.json")
    lines = read_text(folder / "merges.txt").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
    if wrong := next((pair for pair in merges if len(pair) != 2), None):
        raise CanonError(f'{folder / "merges.txt"}: "{" ".join(wrong)}" is not two pieces with a space between.')
    if odd := [token for token, index in vocabulary.items() if type(index) is not int or not 0 <= index < _MOST]:
        raise CanonError(f'{folder / "vocab.json"}: the id of "{odd[0]}" must be a whole number below {_MOST:,}.')
    ended = any(token.endswith(_ENDED) for token in vocabulary)
    kind = {"end_of_word_suffix": _ENDED, "unk_token": "<unk>"} if ended else {}
    try:
        inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges, **kind))
    except Exception as mistake:  # the library's errors have no common class
        raise CanonError(f"{folder / 'merges.txt'} does not fit {folder / 'vocab.json'}: {reason(mistake)}.") from None
    if ended:
        inner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
        inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        inner.decoder = tokenizers.decoders.BPEDecoder(suffix=_ENDED)
    else:
        space = bool(_chosen(folder).get("add_prefix_space", False))
        inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=space)
        inner.decoder = tokenizers.decoders.ByteLevel()
    return _with_special(inner, vocabulary)


def _with_special(inner: Any, vocabulary: dict[str, int]) -> Any:
    """The library then takes them whole out of a text."""
    added = library().AddedToken
    # A space before <mask> belongs to it in byte-level vocabularies, as published.
    names = [name for name in _SPECIAL if name in vocabulary]
    inner.add_special_tokens([added(name, lstrip=name == "<mask>", normalized=False, special=True) for name in names])
    return inner


def _chosen(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    return read_json(path) if path.is_file() else {}


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds a JSON object."""
    table = storage.read_json(path)
    if not isinstance(table, dict):
        raise CanonError(f"{path} must hold a JSON object, not {type(table).__name__}.")
    return table
