"""What `check` tells of labelled texts that are no plain tables: CoNLL, SQuAD, choices in JSON lines."""

from __future__ import annotations

from collections import Counter

from canon.data.catalogue import CATALOGUE
from canon.data.checking.measure import quantiles, words
from canon.data.checking.report import CheckReport
from canon.data.config import DataConfig
from canon.data.finetune_open import open_labelled
from canon.data.finetune_rows import ChoiceRows, Rows, SpanRows, TagRows
from canon.data.finetune_tables import choice_rows, guess
from canon.data.formats.choices import is_choices
from canon.data.formats.conll import ENDINGS
from canon.data.formats.files import ending
from canon.data.formats.images import visible
from canon.data.formats.squad import is_squad
from canon.data.open import find_path
from canon.data.source import Source
from canon.errors import CanonError


def holds_examples(config: DataConfig) -> bool:
    """Whether a source is of these formats."""
    if config.source in CATALOGUE:
        return CATALOGUE[config.source].format in ("conll", "squad")
    if config.format in ("conll", "squad"):
        return True
    path = find_path(config.source)
    files = [path] if path.is_file() else [item for item in visible(path) if item.is_file()] if path.is_dir() else []
    found = [item for item in files if ending(item) in ENDINGS]
    return bool(found) or any(is_squad(item, config.encoding) or is_choices(item, config.encoding) for item in files)


def count_examples(report: CheckReport, config: DataConfig) -> None:
    """Examples, tags and lengths of each part as it lies, and what is asked."""
    opened = open_labelled(config)
    report.kind = {"tags": "sentences with tags", "span": "questions", "choice": "questions with choices"}[opened.kind]
    texts: list[str] = []
    for name, part in opened.source.parts.items():
        rows: Rows = part.inputs
        report.splits[name] = len(rows)
        texts += rows.texts()
        if isinstance(rows, TagRows):
            report.classes[name] = dict(Counter(tag for own in rows.tags or () for tag in own).most_common())
        elif isinstance(rows, SpanRows):
            answered = sum(bool(own) for own in rows.answers or ())
            report.notes.append(f"{name}: {answered:,} of {len(rows):,} questions have an answer.")
        elif isinstance(rows, ChoiceRows):
            report.classes[name] = dict(sorted(Counter(f"{len(own)} choices" for own in rows.choices).items()))
    report.lengths["words"] = quantiles(Counter(len(words(text)) for text in texts))
    report.notes += [note for note in opened.source.notes if note not in report.notes]


def suits_finetuning(source: Source, config: DataConfig) -> bool:
    """Whether a table has a text and a label."""
    tables = [part.inputs for part in source.parts.values()]
    try:
        found = guess(tables[0], config.label or source.label, config.features or source.features)
        if found.kind == "choice":
            return bool([choice_rows(table, found) for table in tables])
    except CanonError:
        return False
    return found.label in tables[0] and all(
        name in table and any(text.strip() for texts, _ in table.blocks(name) for text in texts)
        for name in found.texts
        for table in tables
    )
