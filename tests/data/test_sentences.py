"""Sentences: hand-cut English and Chinese; nothing is lost; what has no end is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canon.data.text.sentences import LONGEST, boundaries, split_pieces, split_sentences

# "|" stands where a sentence ends.
CUT = [
    "One.| Two!| Three?| Four",
    "Mr. Smith met Dr. Jones and Prof. Lee.| They talked.",
    "It cost $3.14, e.g. on Sunday, i.e. 5 p.m. or so.| No. 5 won.",
    "J. R. R. Tolkien wrote it.| C. S. Lewis read it.",
    "The U.S. President spoke in the U.S.| The crowd left.",
    "Acme Inc. Limited grew, etc.| However, it fell.",
    "See Fig. 3 and pp. 4–5.| He said no.| Then he left on Jan. 5.",
    'He said "No." | She asked "Why?" | They left (at last.) | End.'.replace(" |", "|"),
    '"Stop!" he cried, and ran... and ran.| Yahoo! is a firm.',
    "1. Introduction and aims.| 2. Methods were few.",
    "Wait…| What?| Yes… and no.",
    "3.5 million people, v. 2.0, www.example.com and a.b are whole.| Good.",
    "A title|\nFirst line.| Second sentence.|\nAnother paragraph",
    "He saw the man.| 25 others came.| (They left.)| “So what?”",
    "今天天气很好。|我们去公园吧！|好吗？|好；|走……|到了",
    "他说：“我不去。”|她问：“为什么？！”|（没有回答。）|完",
    "圆周率是3.14。|Python 3.11很好用！|OK。",
    "他喊道：“走！”，然后跑了。|完。",
]


@pytest.mark.parametrize("marked", CUT)
def test_by_hand(marked: str) -> None:
    text = marked.replace("|", "")
    assert split_pieces(text) == [piece for piece in marked.split("|") if piece]
    assert split_sentences(text) == [piece.strip() for piece in marked.split("|") if piece.strip()]


def test_lines_that_were_broken_to_fit() -> None:
    folded = "This line was\nbroken to fit a page. And this\none too.\n\nA new paragraph\nis here."
    assert split_sentences(folded) == [
        "This line was broken to fit a page.",
        "And this one too.",
        "A new paragraph is here.",
    ]
    assert split_sentences("Names\nAnn Lee\nBob Ray\nof York") == ["Names", "Ann Lee", "Bob Ray", "of York"]


@settings(max_examples=300)
@given(st.text(alphabet='aB1 .!?…。！；”")\n，', max_size=60))
def test_pieces_are_the_text(text: str) -> None:
    stops = boundaries(text)
    assert stops == sorted(set(stops))
    assert "".join(split_pieces(text)) == (text if text.strip() else "")
    assert all(not piece.isspace() for piece in split_pieces(text))
    whole, cut = "".join(text.split()), "".join("".join(split_sentences(text)).split())
    assert cut == whole


def test_what_has_no_end_is_cut() -> None:
    for text in ("word " * 4000, "字" * 10_000, "x" * 9000 + ". End."):
        pieces = split_pieces(text)
        assert max(map(len, pieces)) <= LONGEST and len(pieces) < 4 * len(text) / LONGEST
        assert "".join(pieces) == text
    assert all(set(piece.split()) == {"word"} for piece in split_pieces("word " * 4000))
