"""What `check` tells of a text that may be pre-trained on: its sentences, and what an objective would find in them.

Next sentences are told from others in documents of several sentences alone; masked and left-to-right objectives take
any text. A tokenizer that is given is tried on the beginning of the text: how much of it is unknown.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from canon.data.checking import measure
from canon.data.checking.report import CheckReport
from canon.data.corpus.text_blocks import Texts
from canon.data.corpus.token_blocks import documents, size_of
from canon.data.progress import bar
from canon.data.source import Source
from canon.data.text.open_tokenizer import open_tokenizer
from canon.data.text.sentences import split_sentences
from canon.data.text.vocabularies import KINDS
from canon.errors import CanonError

SEEN = 1 << 24  # characters that a tokenizer is tried on
MANY = 0.5  # share of documents with several sentences from which on next sentences are worth asking for


def count_sentences(report: CheckReport, config: Any, source: Source) -> None:
    """Of the training text, shares that would be held out among it; a tokenizer that cannot be read is a warning."""
    text: Texts = source.parts["train"]
    lengths: Counter[int] = Counter()
    with bar("counting sentences", text.size, "bytes") as progress:
        for _, document in documents(text):
            lengths[len(split_sentences(document))] += 1
            progress.advance(size_of(document))
    total = lengths.total()
    if not total:
        return
    several = 1 - lengths[1] / total
    report.passages = {
        "sentences": sum(size * count for size, count in lengths.items()),
        "of the documents have several": several,
    }
    report.lengths = {**report.lengths, "sentences": measure.quantiles(lengths)}
    if several >= MANY:
        report.notes.append("Pre-training: any objective; documents have the sentences that next sentences need.")
    else:
        report.notes.append(
            f"Pre-training: masked and left-to-right objectives; next sentences need documents of several sentences, "
            f"and {1 - several:.0%} have one (blank lines part documents, or line ends where there are none)."
        )
    if config.tokenizer not in ("", "jieba", *KINDS):
        try:
            report.passages["of the tokens are unknown"] = _unknown(text, config)
        except CanonError as mistake:
            report.warn(str(mistake))


def _unknown(text: Texts, config: Any) -> float:
    tokenizer = open_tokenizer(config.tokenizer)
    left, sample = SEEN, []
    for _, document in documents(text):
        sample.append(document[:left])
        left -= len(document)
        if left <= 0:
            break
    return tokenizer.unknown_rate(sample)
