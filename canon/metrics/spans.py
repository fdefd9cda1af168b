"""Exact match and token F1 of short answers, the way SQuAD scores them.

Paper: Rajpurkar et al. (2016); SQuAD 2.0 (2018) for questions without an answer. `normalize_answer` is the official
normalisation (lower case, drop punctuation, drop a/an/the, squeeze blanks, in that order); `exact_match` is
[normal(prediction) = normal(reference)]; `token_f1` is 2PR/(P+R) over the two bags of tokens; both take the best of
several references; `span_scores` is the mean over questions.
Deviations: scores lie in [0, 1], not in percent.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from canon.metrics._checks import choice, number, same_sequence_length, texts
from canon.metrics._checks import text as checked_text

Tokenise = Callable[[str], Sequence[str]]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Han, kana, Hangul and the compatibility blocks: scripts written without blanks between words.
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")


@dataclass(frozen=True)
class SpanScores:
    """Means over questions, in [0, 1]."""

    exact_match: float
    f1: float
    count: int


def normalize_answer(text: str, *, punctuation: str = "ascii") -> str:
    """Lower case, no punctuation, no English articles, single blanks.

    punctuation: "ascii" (default, the official script's) removes string.punctuation, "unicode" also every character
    of a Unicode punctuation class, such as 。 and 《》.
    """
    choice("punctuation", punctuation, ("ascii", "unicode"))
    text = checked_text("An answer", text).lower().translate(_ASCII_PUNCTUATION)
    if punctuation == "unicode":
        text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", text).split())


def split_characters(text: str) -> list[str]:
    """Each Chinese, Japanese or Korean character a token of its own, other text at blanks."""
    return _CJK.sub(r" \g<0> ", text).split()


TOKENISERS: dict[str, Tokenise] = {"words": str.split, "characters": split_characters}


def _several(references: str | Sequence[str]) -> list[str]:
    # SQuAD 2.0 lists no answer for an unanswerable question; the right prediction is then the empty string.
    return [references] if isinstance(references, str) else texts("references", references) or [""]


def exact_match(prediction: str, references: str | Sequence[str], *, punctuation: str = "ascii") -> float:
    """1 if the normalised prediction equals a normalised reference, else 0; no references means "no answer"."""
    guess = normalize_answer(prediction, punctuation=punctuation)
    return float(any(guess == normalize_answer(r, punctuation=punctuation) for r in _several(references)))


def token_f1(
    prediction: str,
    references: str | Sequence[str],
    *,
    tokenise: str | Tokenise = "words",
    punctuation: str = "ascii",
    both_empty: float = 1.0,
) -> float:
    """2PR/(P+R) over bags of normalised tokens, the best over the references.

    tokenise: "words" (default: blanks, the official rule), "characters" (one token per Chinese, Japanese or Korean
    character), or a function from string to tokens. both_empty: the value when neither side has a token; 1
    (default) as in SQuAD 2.0, 0 as in the 1.1 script.
    """
    split = tokenise if callable(tokenise) else TOKENISERS[choice("tokenise", tokenise, tuple(TOKENISERS))]
    guess = Counter(split(normalize_answer(prediction, punctuation=punctuation)))
    best = 0.0
    for reference in _several(references):
        truth = Counter(split(normalize_answer(reference, punctuation=punctuation)))
        if not guess or not truth:
            value = number("both_empty", both_empty, finite=False) if not guess and not truth else 0.0
        else:
            value = 2 * (guess & truth).total() / (guess.total() + truth.total())
        best = max(best, value)
    return best


def span_scores(
    predictions: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    tokenise: str | Tokenise = "words",
    punctuation: str = "ascii",
    both_empty: float = 1.0,
) -> SpanScores:
    """Mean exact match and mean token F1; references holds for each question one string or a list of them."""
    same_sequence_length("predictions", predictions, "references", references)
    exact = total = 0.0
    for prediction, answers in zip(predictions, references, strict=True):
        exact += exact_match(prediction, answers, punctuation=punctuation)
        total += token_f1(prediction, answers, tokenise=tokenise, punctuation=punctuation, both_empty=both_empty)
    return SpanScores(exact_match=exact / len(predictions), f1=total / len(predictions), count=len(predictions))
