"""Columns of a table to what a network reads: numbers standardised, categories one-hot, labels as class indices.

Everything learnt from the data (means, categories) is learnt from the training rows and kept in `Encoder`s; applying
them to other rows learns nothing. A category that training did not have is all zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from canon.data.schema import Encoder
from canon.data.tables import Table, canonical, parse_number
from canon.errors import CanonError

LABEL_NAMES = ("label", "target", "class", "y")
MOST_CATEGORIES = 1000


def choose_label(table: Table, wanted: str) -> tuple[str, str]:
    """The column to predict and, where it was guessed, a note that says so."""
    if wanted:
        return table.require(wanted, "data.label"), ""
    lowered = {name.lower(): name for name in reversed(table.names)}
    for name in LABEL_NAMES:
        if name in lowered:
            return lowered[name], f'The label is the column "{lowered[name]}".'
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
    return tuple(_fit_column(table, name, rows, missing) for name in names)


def _fit_column(table: Table, name: str, rows: np.ndarray, missing: str) -> Encoder:
    values, bad = table.numbers(name)
    if not bad.any():
        chosen = values[rows]
        known = chosen[np.isfinite(chosen)]
        if not len(known):
            raise CanonError(f'{table.path}: column "{name}" is empty; leave it out with data.features.')
        _refuse_missing(table, name, values, missing)
        std = float(known.std())
        return Encoder(name, "number", mean=float(known.mean()), std=std if std > 0 else 1.0)
    categories = sorted(set(table.texts(name)[rows].tolist()))
    if len(categories) > MOST_CATEGORIES or len(categories) > max(len(rows) / 2, 2):
        if bad.sum() * 2 < len(table):  # mostly numbers, so one that is not is a slip
            row = int(bad.argmax())
            raise table.mistake(row, f'column "{name}" holds numbers, but here "{_short(table.texts(name)[row])}".')
        raise CanonError(
            f'{table.path}: column "{name}" has {len(categories)} different texts in {len(rows)} training rows, '
            "so it looks like text or an id; leave it out by naming the others in data.features."
        )
    return Encoder(name, "category", categories=tuple(categories))


def apply(table: Table, encoders: Sequence[Encoder], missing: str) -> np.ndarray:
    """Features float32 [N, F], in the encoders' order."""
    absent = [encoder.name for encoder in encoders if encoder.name not in table.names]
    if absent:
        raise CanonError(f'{table.path} has no column "{absent[0]}", which the training data had.')
    width = sum(len(encoder.categories) if encoder.kind == "category" else 1 for encoder in encoders)
    features = np.zeros((len(table), width), dtype=np.float32)
    start = 0
    for encoder in encoders:
        if encoder.kind == "number":
            values, bad = table.numbers(encoder.name)
            if bad.any():
                row = int(bad.argmax())
                text = _short(table.texts(encoder.name)[row])
                raise table.mistake(row, f'column "{encoder.name}" must be a number, got "{text}".')
            _refuse_missing(table, encoder.name, values, missing)
            features[:, start] = (np.where(np.isnan(values), encoder.mean, values) - encoder.mean) / encoder.std
            start += 1
            continue
        place = _codes(table.texts(encoder.name), {name: code for code, name in enumerate(encoder.categories)})
        seen = np.flatnonzero(place >= 0)
        features[seen, start + place[seen]] = 1.0
        start += len(encoder.categories)
    return features


def _codes(texts: np.ndarray, places: dict[str, int]) -> np.ndarray:
    """Each text's place, -1 where it has none; int64 [N]."""
    return np.fromiter((places.get(text, -1) for text in texts), dtype=np.int64, count=len(texts))


def _refuse_missing(table: Table, name: str, values: np.ndarray, missing: str) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        raise table.mistake(int(infinite.argmax()), f'column "{name}" is infinite; give a finite number.')
    empty = np.isnan(values)
    if missing == "error" and empty.any():
        row = int(empty.argmax())
        text = table.texts(name)[row].strip()
        state = f'is "{text}"' if text else "is empty"
        raise table.mistake(row, f'column "{name}" {state}; give a number, or set data.missing = "mean".')


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


# Labels


def class_names(table: Table, label: str) -> tuple[str, ...]:
    """The classes of a label column: numbers in numeric order, texts in the order of their characters."""
    texts = sorted(set(table.texts(label).tolist()))
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
    texts = table.texts(label)
    place = {name: index for index, name in enumerate(classes)}
    found = _codes(texts, {text: place.get(text, place.get(canonical(text), -1)) for text in set(texts.tolist())})
    if (found < 0).any():
        row = int((found < 0).argmax())
        text = texts[row]
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
        text = table.texts(label)[row]
        raise table.mistake(row, f'the label (column "{label}") must be a number, got "{_short(text)}".')
    return values.astype(np.float32)


def listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])}, … ({len(names)} in all)"


def choose_text(table: Table, wanted: Sequence[str], label: str) -> str:
    """The column of text: the one asked for, else the one with the longest texts on average."""
    if len(wanted) > 1:
        raise CanonError(f"{table.path}: one column of text is read, not {len(wanted)}; name it in data.features.")
    names = choose_features(table, wanted, label)
    return max(names, key=lambda name: float(np.mean([len(text) for text in table.texts(name)[:1000]])))
