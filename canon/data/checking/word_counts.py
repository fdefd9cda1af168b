"""The words of a text as systems of word vectors count them, for `check`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from canon.data.checking.report import CheckReport
from canon.data.corpus.word_counts import TOKENIZERS, Reader, count, num_threads, tokenizer_of
from canon.data.source import Source
from canon.errors import CanonError

USUAL_COUNT = 5  # data.min_count of the recipes


def count_words(report: CheckReport, config: Any, source: Source) -> int:
    """Counts the words of the training text, shares that would be held out among it. Returns how many come often
    enough: data.min_count times, or as often as the recipes of word vectors ask for where that is 1."""
    if config.tokenizer not in ("", *TOKENIZERS):
        config = replace(config, tokenizer="split")
    config = replace(config, tokenizer=tokenizer_of(config.tokenizer, source.tokenizers))
    least = config.min_count if config.min_count > 1 else USUAL_COUNT
    try:
        reader = Reader(config, num_threads())
        with TemporaryDirectory() as folder:
            counts, text = count(reader.segment(source.parts["train"], Path(folder)), reader)
    except CanonError as mistake:
        report.notes.append(str(mistake))
        return 0
    frequent = int((counts.counts >= least).sum())
    report.corpus = {
        "words": text.words,
        "different": text.different,
        f"seen {least} times or more": frequent,
        "in the longest line": text.longest,
    }
    if not frequent:
        report.notes.append(f"No word comes {least} times: that is too little text for word vectors.")
    return frequent
