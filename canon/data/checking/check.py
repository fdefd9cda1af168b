"""`check`: what is in a data set, what is wrong with it, and which systems it suits, before anything is trained.

Reads every kind that `read` reads, but goes on where `read` stops: a mistake becomes a warning, and the counting
continues (counts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from canon.data import labelled, read_documents
from canon.data.catalogue import CATALOGUE
from canon.data.checking import counts, finetune_counts, pair_counts
from canon.data.checking.report import CheckReport
from canon.data.config import DataConfig
from canon.data.corpus.word_counts import TOKENIZERS
from canon.data.formats.files import decoder
from canon.data.open import find_path, format_of, open_source
from canon.data.read import examine, label_of, prepare, with_given_parts
from canon.data.schema import TargetKind
from canon.data.source import Source
from canon.errors import CanonError
from canon.registry import SYSTEMS

FEW = 10  # training examples; a class with fewer is told
TARGET_KINDS: tuple[TargetKind, ...] = ("class", "number", "none", "sequence", "labels", "tokens")
TARGETS: dict[str, TargetKind] = {
    "classification": "class",
    "regression": "number",
    "transduction": "sequence",
    "labels": "labels",
    "pretraining": "tokens",
}


def check(config: DataConfig, inputs: Sequence[str] | None = None, target: TargetKind | None = None) -> CheckReport:
    """The report on `config.source`; `inputs` and `target` narrow what it is judged for (a recipe's system)."""
    report = CheckReport(config.source)
    decoder(config.encoding)  # refuses one that there is not, before anything is read
    path = Path(config.source) if config.source in CATALOGUE else find_path(config.source)
    kind = _kind(config, path)
    if kind == "pairs":
        return _check_pairs(report, config)
    if kind == "examples":
        finetune_counts.count_examples(report, config)
        report.suits = [system.name for system in SYSTEMS if "tokens" in system.inputs]
        return report
    if kind == "tests":
        raise CanonError(f"{config.source} tests word vectors and is no text to learn them from: see data.tests.")
    if kind == "documents":
        found = counts.count_documents(report, config)
        report.suits = [system.name for system in SYSTEMS if "document" in system.inputs]
        if reason := read_documents.verdict(found, config):
            report.suits = []
            report.warn(reason)
        _judge_counts(report)
        return report
    if kind == "text":
        counts.count_text(report, config, path)
        if inputs is None or "corpus" in inputs:
            _count_words(report, config)
        if inputs is None or "passages" in inputs:
            _count_sentences(report, config)
    elif kind == "images":
        counts.count_image_files(report, config, path)
    source = None
    if kind != "text":
        try:
            source = with_given_parts(open_source(config), config)
        except CanonError as mistake:
            if not report.kind:  # nothing was counted yet: there is no report to give
                raise
            report.warn(str(mistake))
    if source is not None and source.kind == "features":
        counts.count_table(report, config, source)
    elif source is not None and not report.kind:
        counts.count_arrays(report, config, source)
    _judge(report, config, source, inputs, target)
    _judge_counts(report)
    return report


def _kind(config: DataConfig, path: Path) -> str:
    if finetune_counts.holds_examples(config):
        return "examples"
    if config.source in CATALOGUE:
        record = CATALOGUE[config.source]
        return record.kind if record.kind != "images" else "arrays"
    if config.format == "auto" and labelled.holds_lines(path, config.encoding):
        return "documents"
    return format_of(path, config.format)


def _check_pairs(report: CheckReport, config: DataConfig) -> CheckReport:
    """Parallel text: two files that do not fit together are a mistake that nothing can be counted behind."""
    pair_counts.count_pairs(report, config, with_given_parts(open_source(config), config))
    report.suits = [system.name for system in SYSTEMS if "pairs" in system.inputs]
    _judge_counts(report)
    return report


def _count_words(report: CheckReport, config: DataConfig) -> None:
    """The words of a text as systems of word vectors count them, where numba is there to count with."""
    from canon.data.read_corpus import count_corpus

    if report.warnings:  # it cannot be read
        return
    if config.tokenizer not in ("", *TOKENIZERS):
        config = replace(config, tokenizer="split")
    try:
        told, frequent, least = count_corpus(config)
    except CanonError as mistake:
        report.notes.append(str(mistake))
        return
    report.corpus = {
        "words": told.words,
        "different": told.different,
        f"seen {least} times or more": frequent,
        "in the longest line": told.longest,
    }
    if not frequent:
        report.notes.append(f"No word comes {least} times: that is too little text for word vectors.")


def _count_sentences(report: CheckReport, config: DataConfig) -> None:
    """What pre-training would find in the text; a tokenizer that cannot be read is a warning."""
    from canon.data.checking.passage_counts import count_sentences

    if report.warnings:  # it cannot be read
        return
    try:
        count_sentences(report, config)
    except CanonError as mistake:
        report.warn(str(mistake))


# What it suits


def _judge(
    report: CheckReport,
    config: DataConfig,
    source: Source | None,
    inputs: Sequence[str] | None,
    target: TargetKind | None,
) -> None:
    """The systems whose kind of input and target this data has; tried by preparing the data for them."""
    kinds = {
        "table": ("features", "text", "pairs", "corpus", "document", "passages"),
        "images": ("image",),
        "text": ("text", "corpus", "passages"),
    }[report.kind]
    verdicts: dict[tuple[str, str], str] = {}
    for kind in kinds:
        for wanted in TARGET_KINDS:
            verdicts[kind, wanted] = _verdict(report, config, source, kind, wanted)
    tuned = source is not None and bool(report.lengths) and finetune_counts.suits_finetuning(source, config)
    for system in SYSTEMS:
        wanted = TARGETS.get(system.task, "none")
        if any(verdicts.get((kind, wanted), "no") == "" for kind in system.inputs):
            report.suits.append(system.name)
        if tuned and "tokens" in system.inputs:
            report.suits.append(system.name)
    asked = [kind for kind in kinds if inputs is None or kind in inputs]
    if inputs is not None and not asked:
        report.warn(f"{report.kind} is not what the system reads ({', '.join(inputs)}).")
    reasons = [verdicts[kind, target] for kind in asked] if target else []
    if reasons and all(reasons):
        report.warn(reasons[0])
    if not report.suits and not reasons:
        for reason in dict.fromkeys(verdicts[kinds[0], wanted] for wanted in ("class", "number")):
            report.warn(reason)


def _verdict(report: CheckReport, config: DataConfig, source: Source | None, kind: str, target: TargetKind) -> str:
    """ "" if the data can be prepared so, else the sentence that says why not."""
    if kind == "passages" or target == "tokens":
        text = report.passages if report.kind == "text" else report.lengths
        return "" if kind == "passages" and target == "tokens" and text else f"{report.name} has no text to learn from."
    if kind == "document" or target == "labels":
        if kind != "document" or target != "labels" or source is None or not report.lengths:
            return f"{report.name} has no texts with labels."
        return read_documents.verdict(source, config)
    if kind == "corpus":
        enough = all(report.corpus.values()) if report.corpus else report.kind == "table" and bool(report.lengths)
        return "" if enough and target == "none" else f"{report.name} has too little text to learn word vectors from."
    if source is None:
        can = report.kind == kind == "text" and target == "none" and bool(report.splits)
        return "" if can else f"{report.name} has no labels." if report.kind == "text" else "It cannot be read."
    if kind == "text" and not report.lengths:
        return f"{report.name} has no column of text."
    if "pairs" in (kind, source.kind) or target == "sequence":
        texts = [column for column in report.columns if column["kind"] == "text"]
        two = kind == "pairs" and target == "sequence" and len(texts) == len(report.columns) == 2
        return "" if two else f"{report.name} is not two columns of text."
    try:
        if source.kind == "features" and target == "class":
            label, _ = label_of(source, config, target)
            values, bad = source.parts["train"].inputs.numbers(label)
            if not bad.any() and (values != np.rint(values)).any():
                return f'The label "{label}" has fractions: numbers to predict, not classes.'
        if source.kind == "image":
            return _image_verdict(source, target)
        if source.kind == "features":
            examine(source, replace(config, limit=0), (kind,), target)
            return ""
        prepare(source, replace(config, limit=0), (kind,), target)
    except CanonError as mistake:
        return str(mistake)
    return ""


def _image_verdict(source: Source, target: TargetKind) -> str:
    """Without decoding: what `prepare` asks of images is their labels."""
    if target == "none":
        return ""
    if any(part.labels is None for part in source.parts.values()):
        return f"{source.name} has images but no labels."
    if target == "number":
        numeric = all(name.lstrip("-").replace(".", "", 1).isdigit() for name in source.classes)
        return "" if numeric else f"{source.name} has classes, not numbers to predict."
    return "" if len(source.classes) > 1 else f"{source.name} has one class."


def _judge_counts(report: CheckReport) -> None:
    for split, count in report.duplicates.items():
        if count > 0.01 * report.splits[split]:
            report.warn(f"{count:,} of {report.splits[split]:,} {split} examples repeat an earlier one.")
    for split, count in report.overlap.items():
        if count:
            report.warn(
                f"{count:,} of {report.splits[split]:,} {split} examples are also in train: scores will flatter.",
            )
    small = {name: count for name, count in report.classes.get("train", {}).items() if count < FEW}
    if small and len(small) < 20:
        report.warn("few training examples: " + ", ".join(f"{name} ({count})" for name, count in small.items()) + ".")
    if report.unknown_words is not None and report.unknown_words > 0.2:
        report.warn(f"{report.unknown_words:.0%} of the test part's words are not in train.")
    if len(report.image_sizes) > 1:
        report.warn(f"images have {len(report.image_sizes):,} different sizes; data.size makes them equal.")
