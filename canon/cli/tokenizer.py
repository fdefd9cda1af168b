"""canon tokenizer train FILE… --kind bpe --vocab-size 8000 --out tokenizer.json"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from canon.cli.options import Json, print_result
from canon.errors import CanonError
from canon.storage import write_text

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer

SAMPLE = 2_000_000  # characters that the trained tokeniser is measured on


def train(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Text files (also compressed), tables, folders.")],
    kind: Annotated[
        str, typer.Option(help="word, char, split (at spaces), bpe, wordpiece, unigram, byte-bpe.")
    ] = "bpe",
    vocab_size: Annotated[int, typer.Option(min=0, help="Most tokens; 0 is all words, or 8000 pieces.")] = 0,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("tokenizer.json"),
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Convert all text to lower case.")] = False,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words and characters that are rarer.")] = 1,
    encoding: Annotated[str, typer.Option(help="Character encoding of the files.")] = "utf-8",
    column: Annotated[str, typer.Option(help="Tables: the column of text; default the longest.")] = "",
    json: Json = False,
) -> None:
    """Learn a vocabulary from your text and write it as a tokenizer.json.

    Examples:
    canon tokenizer train train.en train.de --kind bpe --vocab-size 8000 --out shared.json
    canon tokenizer train corpus.txt.gz --kind byte-bpe --json
    """
    from canon.data.formats.text import documents
    from canon.data.text.tokenizers import Tokenizer

    paths = [_require(Path(file)) for file in files]

    def texts() -> Iterator[str]:
        for path in paths:
            yield from documents(path, encoding, column)

    tokenizer = Tokenizer.train(texts, kind, vocab_size, lowercase, min_count)
    measured = _measure(tokenizer, texts())
    write_text(out, tokenizer.to_json())
    lines = (
        f"{kind}: {tokenizer.size:,} tokens",
        f"{measured['tokens_per_word']:.2f} tokens per word, {measured['unknown']:.2%} unknown",
        measured["example"],
        f"  → {' '.join(measured['example_tokens'])}",
        str(out),
    )
    print_result(json, {"tokenizer": str(out), "kind": kind, "size": tokenizer.size, **measured}, "\n".join(lines))


def _require(path: Path) -> Path:
    """The path, if it has text."""
    from canon.data.formats.text import text_files
    from canon.data.paths import missing_path

    if not path.exists():
        raise missing_path(path, named=False)
    if path.is_dir() and not text_files(path):
        raise CanonError(f"{path} has no text files.")
    return path


def _measure(tokenizer: Tokenizer, texts: Iterator[str]) -> dict[str, Any]:
    """How the tokeniser divides the beginning of the text."""
    from canon.data.checking.measure import words
    from canon.data.text.vocabularies import UNK

    sample: list[str] = []
    characters = 0
    for text in texts:
        sample.append(text)
        characters += len(text)
        if characters > SAMPLE:
            break
    ids, _ = tokenizer.encode(sample)
    example = next(text for text in sample if text.strip()).strip().split("\n")[0][:80]
    return {
        "tokens_per_word": len(ids) / max(sum(len(words(text)) for text in sample), 1),
        "unknown": float((ids == UNK).mean()) if len(ids) else 0.0,
        "example": example,
        "example_tokens": tokenizer.tokens(tokenizer.encode([example])[0]),
    }
