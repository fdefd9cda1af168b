"""The tokeniser of a text: trained on the training texts, or read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer


def tokenizer_for(kind: str, texts: Sequence[str], config: Any, whose: str = "") -> tuple[Tokenizer, str]:
    """A tokeniser of a kind, "bpe" for none, or of a file; and a note on its size."""
    from canon.data.text.tokenizers import Tokenizer

    kind = kind or "bpe"
    if kind.endswith(".json"):
        tokenizer = Tokenizer.load(Path(kind).expanduser())
    else:
        tokenizer = Tokenizer.train(texts, kind, config.vocab_size, config.lowercase, config.min_count)
    return tokenizer, f"The {whose}vocabulary ({kind}) has {tokenizer.size:,} tokens."
