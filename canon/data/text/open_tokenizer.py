"""The tokeniser that a user names: a file, a network's folder, or a run."""

from __future__ import annotations

from pathlib import Path

from canon.data.schema import Schema
from canon.data.text.tokenizer_folder import read_tokenizer
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import KINDS
from canon.errors import CanonError, unknown


def open_tokenizer(name: str) -> Tokenizer:
    """Of a tokenizer.json, of a network's folder that has one, or of a run; one from elsewhere keeps its own ids."""
    path = Path(name).expanduser()
    if (path / "vocab" / "schema.json").is_file():
        found = Schema.open(path / "vocab").tokenizers
        if "text" not in found:
            raise CanonError(f"{path} is a run without a tokenizer of running text.")
        return found["text"]
    if path.is_dir():
        if (own := read_tokenizer(path)[0]) is None:
            raise CanonError(f"data.tokenizer: {name} has no tokenizer.json, and is no run of canon.")
        return own
    if not path.is_file():
        if path.suffix or "/" in name:
            raise CanonError(f"data.tokenizer: there is no file {name}.")
        raise unknown("kind of tokenizer", name, KINDS)
    return Tokenizer.load(path, native=True)
