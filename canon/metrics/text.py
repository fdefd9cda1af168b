"""BLEU, corpus and sequence form.

Papers: Papineni et al. (2002) and Post (2018) (corpus BLEU, through sacrebleu, with its signature);
Zhang, Lipton, Li and Smola, Dive into Deep Learning, section 10.7 (the sequence form).
exp(min(0, 1 − |ref|/|hyp|)) · ∏_{n=1}^{N} p_n^{1/2^n} in `sequence_bleu`, p_n the clipped n-gram precision.
Deviations: none. The two are different numbers and have different names on purpose: only `corpus_bleu` is comparable
with published BLEU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from canon.errors import CanonError
from canon.metrics._checks import cutoff, same_sequence_length, texts, tokens


@dataclass(frozen=True)
class BleuScore:
    """Corpus BLEU on the 0–100 scale with the signature that makes it comparable."""

    score: float
    signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int

    def __str__(self) -> str:
        return f"BLEU = {self.score:.2f} ({self.signature})"


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    tokenize: str | None = None,
    lowercase: bool = False,
    smooth: str = "exp",
    max_order: int = 4,
) -> BleuScore:
    """Corpus BLEU of detokenised text by sacrebleu.

    references: for each hypothesis one string, or a list of one or more. tokenize: sacrebleu's name ("13a", "zh",
    "ja-mecab", "char", "none" …); None (default) is sacrebleu's own default, 13a. smooth: "exp" (default), "floor",
    "add-k" or "none", for orders without a match.
    """
    try:
        from sacrebleu.metrics import BLEU
    except ModuleNotFoundError:
        raise CanonError('corpus_bleu needs sacrebleu; install it with pip install "deepcanon[text]".') from None
    same_sequence_length("hypotheses", hypotheses, "references", references)
    hypotheses = texts("hypotheses", hypotheses)
    several = [[entry] if isinstance(entry, str) else texts("references", entry) for entry in references]
    for position, entry in enumerate(several):
        if not entry:
            raise CanonError(f"references has no reference for hypothesis {position}.")
    # sacrebleu wants one stream per reference number; None marks a sentence that has fewer.
    most = max(len(entry) for entry in several)
    streams: list[Any] = [[entry[i] if i < len(entry) else None for entry in several] for i in range(most)]
    try:
        metric = BLEU(tokenize=tokenize, lowercase=lowercase, smooth_method=smooth, max_ngram_order=max_order)
    except Exception as error:  # sacrebleu's errors have no class of their own
        raise CanonError(f"sacrebleu does not accept tokenize={tokenize!r}, smooth={smooth!r} ({error}).") from None
    result = metric.corpus_score(list(hypotheses), streams)
    return BleuScore(
        score=float(result.score),
        signature=str(metric.get_signature()),
        precisions=tuple(float(p) for p in result.precisions),
        brevity_penalty=float(result.bp),
        hypothesis_length=int(result.sys_len),
        reference_length=int(result.ref_len),
    )


def bleu_tokenizer(references: Sequence[str]) -> str:
    """sacrebleu's "zh" where most letters are Chinese, which has no spaces, so that characters are counted; else
    "13a"."""
    letters = [letter for text in texts("references", references)[:200] for letter in text if letter.isalpha()]
    chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in letters)
    return "zh" if chinese > len(letters) / 2 else "13a"


def sequence_bleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable], *, max_order: int = 4) -> float:
    """exp(min(0, 1 − |ref|/|hyp|)) · ∏_{n=1}^{min(N, |hyp|)} p_n^{1/2^n}, in [0, 1], of two token lists.

    max_order: N. Orders longer than the hypothesis are left out of the product; an order without a match makes the
    score 0 (no smoothing); an empty hypothesis scores 0.
    """
    cutoff(max_order)
    tokens("hypothesis", hypothesis), tokens("reference", reference)
    if not len(reference):
        raise CanonError("reference is empty; at least one token is needed.")
    size = len(hypothesis)
    if not size:
        return 0.0
    score = exp(min(0.0, 1 - len(reference) / size))
    for n in range(1, min(max_order, size) + 1):
        offered = Counter(tuple(hypothesis[i : i + n]) for i in range(size - n + 1))
        wanted = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
        score *= ((offered & wanted).total() / (size - n + 1)) ** (0.5**n)
    return score
