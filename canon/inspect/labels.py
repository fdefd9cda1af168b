"""Tokens as labels of a figure, in fonts that have their characters.

matplotlib takes each character from the first font of a list that has it. Its default, DejaVu Sans, has no Chinese,
Japanese or Korean; a token that no installed font can write is shown as its number in the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

_PLAIN = "DejaVu Sans"
# Parts of the names of fonts with many characters, those made for screens first.
_WIDE = (
    *("sans cjk", "han sans", "wenquanyi", "microsoft yahei", "pingfang", "hiragino", "simhei", "heiti"),
    *("serif cjk", "han serif", "droid sans fallback", "arial unicode", "noto sans", "simsun", "unifont", "uming"),
)
_LONGEST = 16  # characters of a label


class TokenLabels(NamedTuple):
    texts: dict[str, str]  # the label of a token; absent if no font can write it
    fonts: list[str]
    missing: str  # characters that no font has

    def of(self, tokens: Sequence[str]) -> list[str]:
        return [self.texts.get(token, str(place)) for place, token in enumerate(tokens, start=1)]

    @property
    def warning(self) -> str:
        if not self.missing:
            return ""
        return (
            f"No font here has {self.missing[0]}{' and others' if len(self.missing) > 1 else ''}, so such tokens are "
            "numbered in the figure; install one that has, such as Noto Sans CJK."
        )


def labels(tokens: Sequence[str]) -> TokenLabels:
    """How to write `tokens`: the fonts to take, and the characters that they lack."""
    missing = {character for token in tokens for character in token if not character.isspace()}
    fonts: list[str] = []
    for name, path in _fonts().items():
        rest = {character for character in missing if ord(character) not in _characters(path)}
        if len(rest) < len(missing):
            fonts.append(name)
        missing = rest
    texts = {token: _short(token) for token in tokens if not set(token) & missing}
    return TokenLabels(texts, fonts or [_PLAIN], "".join(sorted(missing)))


def _short(token: str) -> str:
    return token if len(token) <= _LONGEST else f"{token[: _LONGEST - 1]}…"


def _fonts() -> dict[str, str]:
    """The files of matplotlib's default font and of wide ones, by name."""
    from matplotlib.font_manager import fontManager

    files = {entry.name: entry.fname for entry in fontManager.ttflist if entry.weight in (400, "normal", "regular")}
    wide = [name for part in _WIDE for name in sorted(files) if part in name.lower()]
    return {name: files[name] for name in (_PLAIN, *wide)}


@cache
def _characters(path: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(path).get_charmap())
