"""What `check` reports about running text: the words that systems of word vectors would count, and the sentences that
pre-training would read.

Objectives with next sentences need documents of several sentences; masked and left-to-right objectives take any text.
If data.tokenizer names a tokenizer, `check` encodes the beginning of the text and reports the share of unknown tokens.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from canon.data.checking import measure
from canon.data.checking.report import CheckReport
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.threads import num_threads
from canon.data.corpus.token_blocks import documents, size_of
from canon.data.corpus.word_counts import TOKENIZERS, WordReader, count, cut_as
from canon.data.progress import bar
from canon.data.source import Source
from canon.data.text.sentences import split_sentences
from canon.data.text.tokenizer_folder import open_tokenizer
from canon.data.text.vocabularies import KINDS
from canon.errors import CanonError

USUAL_COUNT = 5  # data.min_count of most texts for word vectors
SEEN = 1 << 24  # characters that a tokenizer is tried on
MANY = 0.5  # share of documents with several sentences from which on next sentences are worth asking for


def count_words(report: CheckReport, config: Any, source: Source) -> int:
    """Counts the words of the training text, including the shares that training would hold out. Returns how many
    different ones come data.min_count times or more; if that is 1, USUAL_COUNT times."""
    if config.tokenizer not in ("", *TOKENIZERS):
        config = replace(config, tokenizer="split")
    config, _ = cut_as(config, source.parts["train"], source.tokenizers)
    least = config.min_count if config.min_count > 1 else USUAL_COUNT
    try:
        reader = WordReader(config, num_threads())
        with TemporaryDirectory() as folder:
            counts, text = count(reader.segment(source.parts["train"], Path(folder)), reader)
    except CanonError as mistake:
        report.decided.append(str(mistake))
        return 0
    frequent = int((counts.counts >= least).sum())
    report.corpus = {
        "words": text.words,
        "different": text.different,
        f"seen {least} times or more": frequent,
        "in the longest line": text.longest,
    }
    if not frequent:
        report.decided.append(f"No word comes {least} times: that is too little text for word vectors.")
    return frequent


def count_sentences(report: CheckReport, config: Any, source: Source) -> None:
    """Counts the sentences of the same text; a tokenizer that cannot be read is a warning."""
    text: TextStream = source.parts["train"]
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
        report.decided.append("Pre-training: any objective; documents have the sentences that next sentences need.")
    else:
        report.decided.append(
            f"Pre-training: masked and left-to-right objectives; next sentences need documents of several sentences, "
            f"and {1 - several:.0%} have one (blank lines part documents, or line ends where there are none)."
        )
    if config.tokenizer not in ("", "jieba", *KINDS):
        try:
            report.passages["of the tokens are unknown"] = _unknown(text, config)
        except CanonError as mistake:
            report.warn(str(mistake))


def _unknown(text: TextStream, config: Any) -> float:
    tokenizer = open_tokenizer(config.tokenizer)
    left, sample = SEEN, []
    for _, document in documents(text):
        sample.append(document[:left])
        left -= len(document)
        if left <= 0:
            break
    return tokenizer.unknown_rate(sample)
