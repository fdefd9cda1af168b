"""How a text of one's own is cut into words where nobody says: by what it is written in.

Words are split off punctuation. Chinese without spaces is cut by jieba, or by characters where jieba is not installed;
Japanese by characters; Chinese with spaces between its words at those spaces.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import NamedTuple

from canon.data.text.vocabularies import HAN

_HAN = re.compile(f"[{HAN}]")
_KANA = re.compile("[\u3040-\u30ff]")
_LETTER = re.compile(r"[^\W\d_]")
_SPACED = re.compile(rf"(?<=[{HAN}])[ \t]+(?=[{HAN}])")


class Cutting(NamedTuple):
    tokenizer: str
    chinese: bool  # whether it is written without spaces between words
    note: str


def choose_cutting(sample: str) -> Cutting:
    """By a part of the text."""
    han, letters = len(_HAN.findall(sample)), len(_LETTER.findall(sample))
    if 2 * han <= letters:
        return Cutting(
            "word", False, "Words are split off punctuation, in lower case (data.tokenizer, data.lowercase)."
        )
    if 5 * len(_SPACED.findall(sample)) > han:
        return Cutting("split", False, "The text is Chinese with spaces between words, which are kept as they are.")
    if 10 * len(_KANA.findall(sample)) > han:
        return Cutting("word", True, "The text is Japanese: every character is a word (data.tokenizer = word).")
    if find_spec("jieba") is None:
        install = 'pip install "deepcanon[words]"'
        note = f"The text is Chinese and jieba is not installed ({install}): every character is a word."
        return Cutting("word", True, note)
    return Cutting("jieba", True, "The text is Chinese: jieba cuts it into words (data.tokenizer = jieba).")
