"""What is decided about the columns of a table: which become features and how, which are left out, and the notes that
say so. `canon check` prints what `canon train` will do, and a run keeps its encoders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from canon.data.checking.measure import distinct
from canon.data.column_encoders import (
    CategoryColumn,
    CentredLabels,
    ColumnEncoder,
    DateColumn,
    LikenessColumns,
    MeansColumn,
    NumberColumn,
    WordsColumn,
)
from canon.data.columns import MOST_CATEGORIES, PEEK, is_wordy, listed, numbers_rows, short, texts_of
from canon.data.formats import dates
from canon.data.formats.tables import Table
from canon.data.progress import bar
from canon.errors import CanonError

_ID = "id"
_MOSTLY = 0.9  # numbers of a column whose other cells are slips; different texts of a column that are ids
_COMPARED = 3  # columns of sentences that are compared with each other


class PlannedColumns(NamedTuple):
    """What the columns of a table become."""

    encoders: tuple[ColumnEncoder, ...]
    notes: tuple[str, ...]
    kinds: dict[str, str]  # of every column, for `check`
    # Of the training rows: features that are not those of other rows, by column.
    trained: dict[str, np.ndarray]

    @property
    def width(self) -> int:
        return sum(encoder.width for encoder in self.encoders)


class ColumnChoice(NamedTuple):
    """What one column becomes: a kind, and how to fit it; None where it is left out, with the reason."""

    kind: str
    fit: Callable[[], ColumnEncoder] | None
    note: str = ""


def plan(
    table: Table,
    names: Sequence[str],
    rows: np.ndarray,
    missing: str,
    labels: CentredLabels | None,
    asked: bool = False,
    words_alone: bool = False,
    label: str = "",
) -> PlannedColumns:
    """Fits the columns on training rows. labels: None where nothing is predicted, so that only numbers and categories
    are read. asked: whether the user named the columns, so that none is left out for its looks. words_alone: whether
    a single column of sentences is enough. label: a column of numbers to predict, for the notes."""
    chosen: dict[str, ColumnChoice] = {}
    trained: dict[str, np.ndarray] = {}
    encoders: list[ColumnEncoder] = []
    with bar("reading columns", len(names)) as progress:
        for name in progress.over(names):
            chosen[name] = choice = _choose(table, name, rows, missing, labels is not None, asked)
            if choice.kind == MeansColumn.kind and labels is not None:
                encoder, trained[name] = MeansColumn.fit(table, name, rows, labels)
                encoders.append(encoder)
            elif choice.fit is not None:
                encoders.append(choice.fit())
    texts = [encoder.name for encoder in encoders if isinstance(encoder, WordsColumn)]
    encoders += [LikenessColumns.fit(table, *pair, rows) for pair in combinations(texts[:_COMPARED], 2)]
    if not any(encoder.width and (words_alone or not isinstance(encoder, WordsColumn)) for encoder in encoders):
        if not asked and not texts and any(choice.kind == _ID for choice in chosen.values()):
            return plan(table, names, rows, missing, labels, True, words_alone, label)  # there is nothing better
        raise _nothing(table, chosen)
    commas = {e.name: e.comma for e in encoders if isinstance(e, NumberColumn) and e.comma is not None}
    commas |= {label: table.commas[label]} if label in table.commas else {}
    return PlannedColumns(
        tuple(encoders), _notes(chosen, encoders, commas), {n: c.kind for n, c in chosen.items()}, trained
    )


def require_columns(table: Table, planned: PlannedColumns, label: str) -> None:
    """Raises where nothing is left beside texts and the label: that is for systems that read text."""
    words = {encoder.name for encoder in planned.encoders if isinstance(encoder, WordsColumn)} or set(texts_of(table))
    left = [encoder for encoder in planned.encoders if encoder.name not in (*words, label)]
    if words and not left and not any(isinstance(encoder, LikenessColumns) for encoder in planned.encoders):
        raise _only_text(table, min(words))


def _only_text(table: Table, name: str) -> CanonError:
    return CanonError(
        f'{table.path} has only text beside its label (column "{name}"): train a system that reads text, such as '
        "fasttext-classifier or finetune."
    )


def _nothing(table: Table, chosen: dict[str, ColumnChoice]) -> CanonError:
    if texts := [name for name, choice in chosen.items() if choice.kind == WordsColumn.kind]:
        return _only_text(table, texts[0])
    left = "; ".join(f'"{name}": {choice.note}' for name, choice in list(chosen.items())[:3])
    return CanonError(f"{table.path} has no column to predict from ({left}); name some in data.features.")


def _choose(table: Table, name: str, rows: np.ndarray, missing: str, predicts: bool, asked: bool) -> ColumnChoice:
    facts = table.facts(name)
    if not facts.bad:
        if facts.missing + facts.infinite and not np.isfinite(table.numbers(name)[0][rows]).any():
            return ColumnChoice("empty", None, "empty")
        require_known(table, name, missing)
        if predicts and not asked and (reason := numbers_rows(table, name)):
            return ColumnChoice(_ID, None, reason)
        return ColumnChoice(NumberColumn.kind, lambda: NumberColumn.fit(table, name, rows, predicts, False))
    count = distinct(table.digests(name)[rows])
    few = count <= MOST_CATEGORIES and count <= max(len(rows) / 2, 2)
    if count == 1 and predicts and not asked:
        return ColumnChoice(CategoryColumn.kind, None, "the same in every row")
    some = list(table.stream(name, np.sort(rows)[:PEEK]))
    if predicts and dates.form_of(some) and (form := dates.form_of(_filled(table, name, rows))):
        return ColumnChoice(DateColumn.kind, lambda: DateColumn.fit(table, name, rows, form))
    if few:
        return ColumnChoice(CategoryColumn.kind, lambda: CategoryColumn.fit(table, name, rows))
    if facts.bad <= (1 - _MOSTLY) * len(table):
        _refuse_text(table, name, missing)
        return ColumnChoice(NumberColumn.kind, lambda: NumberColumn.fit(table, name, rows, predicts, True))
    if predicts and is_wordy(some):
        return ColumnChoice(WordsColumn.kind, lambda: WordsColumn.fit(table, name, rows))
    if not predicts or (count > _MOSTLY * len(rows) and (not asked or count == len(rows))):
        return ColumnChoice(_ID, None, f"{count:,} different texts in {len(rows):,} rows")
    return ColumnChoice(MeansColumn.kind, None)


def _filled(table: Table, name: str, rows: np.ndarray) -> list[str]:
    """The different texts of some rows."""
    texts, codes = table.factor(name)
    return [texts[code] for code in np.unique(codes[rows])]


def _notes(
    chosen: dict[str, ColumnChoice], encoders: Sequence[ColumnEncoder], commas: dict[str, bool]
) -> tuple[str, ...]:
    """One sentence for each thing that was decided and that is not plain from the data. commas: of each column of
    amounts, whether a comma is its decimal point."""
    left = [f'"{name}" ({choice.note})' for name, choice in chosen.items() if choice.fit is None and choice.note]
    kinds = [(encoder, f'"{encoder.name}"') for encoder in encoders]
    flagged = [text for e, text in kinds if isinstance(e, NumberColumn) and e.flag]
    slips = [text for e, text in kinds if isinstance(e, NumberColumn) and e.strays]
    amounts = [f'"{name}"' for name, comma in commas.items() if not comma]
    decimal = [f'"{name}"' for name, comma in commas.items() if comma]
    read = [f"{text} ({e.form}: {', '.join(e.parts)})" for e, text in kinds if isinstance(e, DateColumn)]
    means = [f"{text} ({len(e.categories):,} texts)" for e, text in kinds if isinstance(e, MeansColumn)]
    words = [f"{text} ({e.width:,} words)" for e, text in kinds if isinstance(e, WordsColumn)]
    compared = [f'"{e.name}" with "{e.other}"' for e in encoders if isinstance(e, LikenessColumns)]
    sentences = {
        "Left out: {}; data.features can name them.": left,
        "Read as dates: {}.": read,
        "Read as amounts, without their signs and separators: {}.": amounts,
        "Read as numbers with a decimal comma: {}.": decimal,
        "Missing numbers are the training mean, with a feature that says so: {}.": flagged,
        "Texts among numbers count as missing: {}.": slips,
        "Each of many texts is the mean label of its training rows: {}.": means,
        "Sentences are read by which frequent words they have: {}.": words,
        "Texts of a row are compared by their words and letters: {}.": compared,
    }
    return tuple(sentence.format(listed(names)) for sentence, names in sentences.items() if names)


# Other rows


def apply(table: Table, encoders: Sequence[ColumnEncoder], missing: str) -> np.ndarray:
    """Features float32 [N, F], in the encoders' order."""
    refuse(table, encoders, missing)
    features = np.zeros((len(table), sum(encoder.width for encoder in encoders)), dtype=np.float32)
    start = 0
    for encoder in encoders:
        encoder.write(table, features[:, start : start + encoder.width])
        start += encoder.width
    return features


def refuse(table: Table, encoders: Sequence[ColumnEncoder], missing: str) -> None:
    """Raises if a table lacks a column, or if one that was numbers in training has something else."""
    names = chain.from_iterable(encoder.columns for encoder in encoders)
    absent = next((name for name in names if name not in table), None)
    if absent is not None:
        raise CanonError(f'{table.path} has no column "{absent}", which the training data had.')
    for encoder in encoders:
        if not isinstance(encoder, NumberColumn):
            continue
        if encoder.comma is not None:
            table.commas.setdefault(encoder.name, encoder.comma)
            table.units.setdefault(encoder.name, encoder.unit)
        facts = table.facts(encoder.name)
        if facts.bad and not encoder.strays:
            text = short(table.text(encoder.name, facts.first_bad))
            raise table.mistake(facts.first_bad, f'column "{encoder.name}" must be a number, got "{text}".')
        require_known(table, encoder.name, missing)


def require_known(table: Table, name: str, missing: str) -> None:
    """Raises where a number is infinite, or missing if that is a mistake."""
    facts = table.facts(name)
    if facts.infinite:
        raise table.mistake(facts.first_infinite, f'column "{name}" is infinite; give a finite number.')
    if missing == "error" and facts.missing:
        text = table.text(name, facts.first_missing).strip()
        state = f'"{text}"' if text else "empty"
        wrong = f'column "{name}" is {state}; give a number, or set data.missing = "mean".'
        raise table.mistake(facts.first_missing, wrong)


def _refuse_text(table: Table, name: str, missing: str) -> None:
    facts = table.facts(name)
    if missing == "error":
        text = short(table.text(name, facts.first_bad))
        raise table.mistake(facts.first_bad, f'column "{name}" has numbers elsewhere, but "{text}" here.')
    require_known(table, name, missing)
