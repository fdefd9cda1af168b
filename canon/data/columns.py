"""Columns of a table to what a network reads: numbers standardised, categories one-hot, labels as class indices.

Everything learnt from the data (means, categories) is learnt from the training rows and kept in `Encoder`s; applying
them to other rows learns nothing. A category that training did not have is all zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from canon.data.checking.measure import distinct, words
from canon.data.formats.cells import parse_number
from canon.data.formats.tables import Table, canonical
from canon.data.progress import bar
from canon.errors import CanonError

LABELS = ("label", "target", "class", "y")  # names of columns that hold what is to be predicted
MOST_CATEGORIES = 1000
PEEK = 1000  # rows of a table that are looked at
WORDY = 3  # words of a cell from which on it is no name of a class


@dataclass(frozen=True)
class Encoder:
    """How one column of a table becomes features: a number is standardised, a category becomes one-hot."""

    name: str
    kind: Literal["number", "category"]
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] = ()  # an unseen category is all zeros

    @property
    def width(self) -> int:
        return len(self.categories) if self.is_category else 1

    @property
    def is_category(self) -> bool:
        return self.kind == "category"


def choose_label(table: Table, wanted: str) -> tuple[str, str]:
    """The column to predict and, where it was guessed, a note that says so."""
    if wanted:
        return table.require(wanted, "data.label"), ""
    plain = {name.lower(): name for name in reversed(table.names)}
    for name in LABELS:
        if name in plain:
            return plain[name], f'The label is the column "{plain[name]}".'
    last = table.names[-1]
    return last, f'The label is the last column, "{last}"; data.label chooses another.'


def choose_features(table: Table, wanted: Sequence[str], label: str) -> tuple[str, ...]:
    """The columns to predict from: those asked for, else all but the label."""
    if label and label in wanted:
        raise CanonError(f'data.features: "{label}" is the label, so it cannot be predicted from.')
    names = tuple(table.require(name, "data.features") for name in wanted) or tuple(
        name for name in table.names if name != label
    )
    if not names:
        raise CanonError(f'{table.path} has no column but the label "{label}"; there is nothing to predict it from.')
    return names


def fit(table: Table, names: Sequence[str], rows: np.ndarray, missing: str) -> tuple[Encoder, ...]:
    with bar("reading columns", len(names)) as progress:
        return tuple(_fit_column(table, name, rows, missing) for name in progress.over(names))


def _fit_column(table: Table, name: str, rows: np.ndarray, missing: str) -> Encoder:
    if is_category(table, name, rows, missing):
        texts, codes = table.factor(name)
        return Encoder(name, "category", categories=tuple(sorted(texts[code] for code in np.unique(codes[rows]))))
    known = _known(table, name, rows)
    std = float(known.std())
    return Encoder(name, "number", mean=float(known.mean()), std=std if std > 0 else 1.0)


def _known(table: Table, name: str, rows: np.ndarray) -> np.ndarray:
    chosen = table.numbers(name)[0][rows]
    return chosen[np.isfinite(chosen)]


def is_category(table: Table, name: str, rows: np.ndarray, missing: str) -> bool:
    """Whether a column is fitted as categories rather than as numbers; a sentence where it is neither."""
    facts = table.facts(name)
    if not facts.bad:
        if facts.missing + facts.infinite and not len(_known(table, name, rows)):
            raise CanonError(f'{table.path}: column "{name}" is empty; leave it out with data.features.')
        _refuse_missing(table, name, missing)
        return False
    count = distinct(table.digests(name)[rows])
    if count > MOST_CATEGORIES or count > max(len(rows) / 2, 2):
        if facts.bad * 2 < len(table):  # mostly numbers, so one that is not is a slip
            text = _short(table.text(name, facts.first_bad))
            raise table.mistake(facts.first_bad, f'column "{name}" holds numbers, but here "{text}".')
        raise CanonError(
            f'{table.path}: column "{name}" has {count} different texts in {len(rows)} training rows, '
            "so it looks like text or an id; leave it out by naming the others in data.features."
        )
    return True


def is_text(table: Table, name: str) -> bool:
    """Whether a column has texts rather than numbers or categories: most rows are different, or have several words."""
    if not table.facts(name).bad:
        return False
    count = distinct(table.digests(name))
    if count > MOST_CATEGORIES or count > max(len(table) / 2, 2):
        return True
    return is_wordy(list(table.stream(name, np.arange(min(len(table), PEEK)))))


def is_wordy(cells: Sequence[str]) -> bool:
    """Whether texts have several words on average; a Chinese character is one."""
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and sum(len(words(cell)) for cell in filled) >= WORDY * len(filled)


def refuse(table: Table, names: Sequence[str], categories: set[str], missing: str) -> None:
    """A sentence for what `apply` cannot encode of a table whose columns in `categories` are fitted as such."""
    absent = next((name for name in names if name not in table), None)
    if absent is not None:
        raise CanonError(f'{table.path} has no column "{absent}", which the training data had.')
    for name in names:
        if name in categories:
            continue
        if (facts := table.facts(name)).bad:
            text = _short(table.text(name, facts.first_bad))
            raise table.mistake(facts.first_bad, f'column "{name}" must be a number, got "{text}".')
        _refuse_missing(table, name, missing)


def apply(table: Table, encoders: Sequence[Encoder], missing: str) -> np.ndarray:
    """Features float32 [N, F], in the encoders' order."""
    categories = {encoder.name for encoder in encoders if encoder.is_category}
    refuse(table, [encoder.name for encoder in encoders], categories, missing)
    features = np.zeros((len(table), sum(encoder.width for encoder in encoders)), dtype=np.float32)
    start = 0
    for encoder in encoders:
        if encoder.is_category:
            place = _codes(table, encoder.name, {name: code for code, name in enumerate(encoder.categories)})
            seen = np.flatnonzero(place >= 0)
            features[seen, start + place[seen]] = 1.0
        else:
            values, _ = table.numbers(encoder.name)
            features[:, start] = (np.where(np.isnan(values), encoder.mean, values) - encoder.mean) / encoder.std
        start += encoder.width
    return features


def _codes(table: Table, name: str, places: dict[str, int]) -> np.ndarray:
    """Each text's place, -1 where it has none; int64 [N]."""
    texts, codes = table.factor(name)
    return np.array([places.get(text, -1) for text in texts], dtype=np.int64)[codes]


def _refuse_missing(table: Table, name: str, missing: str) -> None:
    facts = table.facts(name)
    if facts.infinite:
        raise table.mistake(facts.first_infinite, f'column "{name}" is infinite; give a finite number.')
    if missing == "error" and facts.missing:
        text = table.text(name, facts.first_missing).strip()
        state = f'is "{text}"' if text else "is empty"
        advice = 'give a number, or set data.missing = "mean".'
        raise table.mistake(facts.first_missing, f'column "{name}" {state}; {advice}')


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


# Labels


def class_names(table: Table, label: str) -> tuple[str, ...]:
    """The classes of a label column: numbers in numeric order, texts in the order of their characters."""
    texts = sorted(table.factor(label)[0])
    numbers = [parse_number(text) for text in texts]
    if all(number is not None and np.isfinite(number) for number in numbers):
        names = {canonical(text) for text in texts}
        ordered, fewest = sorted(names, key=float), 5  # rows a class, on average: numbers are more often no classes
    else:
        ordered, fewest = [text for text in texts if text.strip()], 2
    if len(ordered) > MOST_CATEGORIES or (len(ordered) > 20 and len(ordered) * fewest > len(table)):
        raise CanonError(
            f'{table.path}: the label "{label}" has {len(ordered)} different values in {len(table)} rows, too many for '
            "classes; choose another with data.label, or a system that predicts a number."
        )
    return tuple(ordered)


def class_codes(table: Table, label: str, classes: Sequence[str]) -> np.ndarray:
    """The label column as class indices int64 [N]; a label that is not a class is a mistake."""
    place = {name: index for index, name in enumerate(classes)}
    texts, codes = table.factor(label)
    found = np.array([place.get(text, place.get(canonical(text), -1)) for text in texts], dtype=np.int64)[codes]
    if (found < 0).any():
        row = int((found < 0).argmax())
        text = texts[codes[row]]
        if not text.strip():
            raise table.mistake(row, f'the label (column "{label}") is empty.')
        raise table.mistake(row, f'label "{_short(text)}" is not one of {listed(classes)}.')
    return found


def number_targets(table: Table, label: str) -> np.ndarray:
    """The label column as float32 [N]."""
    values, bad = table.numbers(label)
    wrong = bad | ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        text = table.text(label, row)
        raise table.mistake(row, f'the label (column "{label}") must be a number, got "{_short(text)}".')
    return values.astype(np.float32)


def listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])}, … ({len(names)} in all)"


def choose_text(table: Table, wanted: Sequence[str], label: str) -> str:
    """The column of text: the one asked for, else the one with the longest texts on average."""
    if len(wanted) > 1:
        raise CanonError(f"{table.path}: one column of text is read, not {len(wanted)}; name it in data.features.")
    names = choose_features(table, wanted, label)
    return max(names, key=table.mean_length)
