"""Sentences of English and Chinese text, by rules: marks that end one, and what looks like an end but is not.

。！？；and …… end a sentence, with the quotes and brackets that close after them. So do . ! ? … before white space,
but not where the next word begins with a small letter, after an abbreviation (Mr., e.g., Fig. 3), an initial
(J. Smith) or the number of an item (1. Title). U.S., etc., Inc. and the like end one only where the next word is one
that often begins a sentence (The, However). The end of a line ends a sentence, unless the document's lines were broken
to fit a page.
Deviations from learnt splitters (Kiss and Strunk, 2006): nothing is learnt, so the same text is always cut alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 4096  # characters; what has no end for so long is cut at white space
MARKS = 64  # that end a sentence together; more of them are looked at from their end, so that time does not square
SEEN = 1 << 16  # characters of a document by which its line ends are judged
_CLOSING = re.escape("\"'”’)]}»」』）】》〉")
_END = re.compile(
    rf"\n\s*|[。！？；][。！？；…]*[{_CLOSING}]*|……+[。！？；]*[{_CLOSING}]*|[.!?…]{{1,{MARKS}}}[{_CLOSING}]*(?=\s)"
)
_NEXT = re.compile(r"\s*(\w+|\S)")
_SMALL_LETTER = re.compile(r"\n[ \t]*[a-z]")
_DOTTED = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]|[A-Z]")  # U.S, e.g, and an initial
_GOES_ON = ("，", "、", "：")
_OPENING = "([{\"'“‘«"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# After these a sentence goes on.
_TITLES = _set(
    "mr mrs ms messrs mx dr drs prof st mt ft gen col lt cpt capt sgt cmdr maj adm rev hon gov sen rep pres supt insp "
    "vs viz cf e.g i.e approx resp ed eds trans illus"
)
# After these too, if a number follows.
_NUMBERED = _set(
    "no nos nr v ver art arts fig figs vol vols p pp sec sect ch chap eq eqs ca c op par para tab app "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
# After these if no word of `_STARTERS` follows.
_EITHER = _set("jr sr inc ltd co corp bros llc plc etc al esq dept univ assn est ph.d")
_STARTERS = _set(
    "The A An In On At It He She They We You I This That These Those But And Or If When While As After Before Since "
    "However For From By With To There Here His Her Its Their Our My One Some Many Most Although Though Because During "
    "Under Until Both Each No Not Now Then Thus So Such What Who Why How Where Which Today Later Another Other All Two "
    "Despite Between According Following Among Within Without Also Once Even Only Yet Instead Moreover Furthermore"
)


def boundaries(text: str) -> list[int]:
    """Where each sentence stops; it begins where the one before it stopped, so white space leads a sentence."""
    seen = text[:SEEN]
    # Lines were broken to fit a page where half of them or more go on with a small letter.
    folded = 2 * len(_SMALL_LETTER.findall(seen)) >= seen.count("\n") > 0
    stops: list[int] = []
    begin = 0
    for match in _END.finditer(text):
        start, stop = match.span()
        mark = text[start]
        if mark == "\n":
            if folded and match.group().count("\n") == 1:
                continue
            stop = start
            if stop == begin or text[begin:stop].isspace():
                continue
        elif mark in ".!?" or match.group() == "…":
            if not _ends(text, begin, start, stop):
                continue
        elif text.startswith(_GOES_ON, stop):
            continue
        stops += _cut(text, begin, stop)
        begin = stop
    if begin < len(text) and not text[begin:].isspace():
        stops += _cut(text, begin, len(text))
    elif stops:
        stops[-1] = len(text)
    return stops


def split_sentences(text: str) -> list[str]:
    """The sentences, without white space around them; line ends within one are spaces."""
    return [piece.strip().replace("\n", " ") for piece in split_pieces(text)]


def split_pieces(text: str) -> list[str]:
    """The same with all white space, before the sentence that follows it: end to end they are the text."""
    stops = boundaries(text)
    return [text[begin:stop] for begin, stop in zip([0, *stops], stops, strict=False)]


def _ends(text: str, begin: int, start: int, stop: int) -> bool:
    """Whether the marks at [start, stop) end the sentence that began at `begin`."""
    following = _NEXT.match(text, stop)
    if following is None:
        return True
    word = following.group(1)
    if word[0].islower():
        return False
    if text[start:stop] != ".":
        return True
    last = text[max(begin, start - 32) : start].split()
    if not last:
        return True
    before = last[-1].lstrip(_OPENING)
    small = before.lower()
    if small in _TITLES or (small in _NUMBERED and word[0].isdigit()):
        return False
    if small in _EITHER or _DOTTED.fullmatch(before):
        return word in _STARTERS
    # 1. Title
    return not (before.isdigit() and len(before) < 4 and text[begin:start].strip() == before)


def _cut(text: str, begin: int, stop: int) -> Iterator[int]:
    """Where the pieces of the sentence [begin, stop) stop; most are one piece."""
    while stop - begin > LONGEST:
        place = max(text.rfind(" ", begin + 1, begin + LONGEST), text.rfind("\n", begin + 1, begin + LONGEST))
        begin = place if place > 0 else begin + LONGEST
        yield begin
    yield stop
