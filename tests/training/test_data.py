"""What a recipe's system asks of its data: the tokeniser where nobody names one, and sentinels for spans."""

from __future__ import annotations

from pathlib import Path

import pytest

from canon import recipe as recipes
from canon.training.data import read_data


@pytest.mark.parametrize(
    ("system", "kind", "sentinels"), [("elmo:tiny", "word", 0), ("rnn-lm:tiny", "bpe", 0), ("t5:tiny", "bpe", 32)]
)
def test_a_system_says_how_text_is_cut(system: str, kind: str, sentinels: int, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"The cat sat on mat {number}. It was warm, and it slept." for number in range(60)))
    data = read_data(recipes.load(system, str(text)))
    tokenizer = data.schema.tokenizers["text"]
    assert tokenizer.kind == kind and len(tokenizer.specials.sentinels) == sentinels
