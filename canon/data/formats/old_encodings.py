"""Which encoding a text is in that is not UTF-8: the one that makes its bytes letters of one writing.

Korean in CP 949, Chinese in GB 18030 or Big5, Japanese in Shift JIS, the letters of western Europe in Windows-1252,
Cyrillic in Windows-1251. Each is asked whether nine tenths of what is not ASCII are the common letters of its language;
most bytes of one are rare letters, or none, in the others. Where none fits the text is UTF-8 with mistakes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

_SIGNS = frozenset("€£¥§°²³µ·¼½¾±×÷«»‘’“”„…–—•™©®¡¿№￥\u00a0")  # which people write beside anything
_ALONE = frozenset("àáèéíóúåöøÀÁÈÉÍÓÚÅÖØ")  # words of one letter
_MOST = 0.9
_CYRILLIC = 0.7  # of its letters are in words of three or more
_KANA = 0.1  # of Japanese letters, at least


def guess_encoding(head: bytes, whole: bool = True) -> str:
    """By the beginning of a file; whole: nothing is cut off in it. A few wrong bytes leave a text UTF-8."""
    as_utf8 = head.decode("utf-8", "surrogateescape")
    strange = [letter for letter in as_utf8[: None if whole else -3] if letter > "\x7f"]
    wrong = sum("\udc80" <= letter <= "\udcff" for letter in strange)
    if 2 * wrong <= len(strange):
        return "utf-8"
    if {letter for letter in head.decode("cp1252", "replace") if letter > "\x7f"} <= _SIGNS:
        return "cp1252"  # as in °C and £5, which may be letters of China and Japan too
    for encoding, fits in _WRITINGS.items():
        try:
            text = codecs.getincrementaldecoder(encoding)().decode(head)
        except UnicodeDecodeError:
            continue
        if fits(text):
            return encoding
    return "utf-8"


def _mostly(is_common: Callable[[str], bool]) -> Callable[[str], bool]:
    """Whether most letters beside ASCII and signs are common ones."""

    def fits(text: str) -> bool:
        foreign = [letter for letter in text if letter > "\x7f" and letter not in _SIGNS]
        return sum(map(is_common, foreign)) > _MOST * len(foreign) > 0

    return fits


def _coded(encoding: str, first: int, last: int) -> Callable[[str], bool]:
    """Whether a letter has two bytes in an encoding, the first of them in this range."""

    def is_common(letter: str) -> bool:
        try:
            code = letter.encode(encoding)
        except UnicodeEncodeError:
            return False
        return letter >= "\u3000" and len(code) == 2 and first <= code[0] <= last

    return is_common


def _is_japanese(text: str) -> bool:
    letters = [letter for letter in text if "\u3040" <= letter <= "\u9fff"]
    kana = sum(letter <= "\u30ff" for letter in letters)
    return kana > _KANA * len(letters) and _mostly(lambda letter: "\u3000" <= letter <= "\u9fff")(text)


def _is_western(text: str) -> bool:
    """Whether letters are next to plain ones, or a word alone, as à."""
    places = [place for place, letter in enumerate(text) if letter > "\x7f"]
    return sum(text[place] in _SIGNS or _inside_word(text, place) for place in places) > _MOST * len(places)


def _inside_word(text: str, place: int) -> bool:
    letters = [
        letter for letter in (*text[max(place - 1, 0) : place], *text[place + 1 : place + 2]) if letter.isalpha()
    ]
    return text[place].isalpha() and (any(map(str.isascii, letters)) if letters else text[place] in _ALONE)


def _is_cyrillic(text: str) -> bool:
    """Whether letters are words of three or more, mostly in lower case."""
    words = re.findall("[\u0400-\u045f]{3,}", text)
    foreign = sum(letter > "\x7f" and letter not in _SIGNS for letter in text)
    small = sum(map(str.islower, "".join(words)))
    return 2 * small > sum(map(len, words)) > _CYRILLIC * foreign > 0


_WRITINGS: dict[str, Callable[[str], bool]] = {
    "cp949": _mostly(_coded("euc_kr", 0xB0, 0xC8)),
    "gb18030": _mostly(_coded("gb2312", 0xA1, 0xF7)),
    "shift_jis": _is_japanese,
    "big5": _mostly(_coded("big5", 0xA1, 0xC6)),
    "cp1252": _is_western,
    "cp1251": _is_cyrillic,
}
