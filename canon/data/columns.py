"""Which columns of a table are the label, the features or the text, and labels as class indices or numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from canon.data.checking.measure import distinct, number_digests, words
from canon.data.formats import dates
from canon.data.formats.cells import listed, parse_number
from canon.data.formats.names import COUNTED, LABELS, OUTCOMES, PAIRS, TEXT_LABELS, TEXTS, TITLE
from canon.data.formats.tables import Table, canonical
from canon.errors import CanonError

MOST_CATEGORIES = 1000
PEEK = 1000  # rows of a table that are looked at
IDS = ("id", "uuid", "guid", "index", "rowid", "row_id", "unnamed: 0")  # names of columns that number the rows
_LEAST_COUNTED = 20  # rows from which on consecutive whole numbers are taken for a count of the rows
_TIME, _SECONDS = re.compile("time|date|stamp"), 1e8  # of a column of seconds since 1970, and the least of them
_FEWEST = 5  # rows of a class on average, where classes are numbers: those are more often no classes
_MOST_OF_ROW = 0.5  # of its characters
WORDY = 3  # words of a cell from which on it is a text, not the name of a class


class TextColumns(NamedTuple):
    """The columns of a table that are read as texts with a label."""

    texts: tuple[str, ...]  # of one text, or of two
    label: str = ""  # "" where there is none, as in a test part


def choose_label(table: Table, wanted: str) -> tuple[str, str]:
    """The column to predict and, where it was guessed, a note that says so."""
    if wanted:
        return table.require(wanted, "data.label"), ""
    plain = _plain(table)
    for name in LABELS:
        if name in plain:
            return plain[name], f'The label is the column "{plain[name]}".'
    for name in OUTCOMES:
        if name in plain:
            return plain[name], f'The label is the column "{plain[name]}"; data.label chooses another.'
    if texts_of(table) and (label := choose_columns(table).label):
        return label, f'The label is the column "{label}"; data.label chooses another.'
    filled = [name for name in table.names if table.facts(name).missing < len(table)]
    last = next(reversed([name for name in filled if may_be_label(table, name)] or filled), table.names[-1])
    return last, f'The label is the last column, "{last}"; data.label chooses another.'


def choose_columns(table: Table, label: str = "", wanted: Sequence[str] = ()) -> TextColumns:
    """The texts and the label of a table; `label` and `wanted` (columns of text) are the user's choice."""
    label = table.require(label, "data.label") if label else ""
    if len(wanted) > 2:
        raise CanonError(f"data.features must name one column of text, or two; got {len(wanted)}.")
    texts = choose_features(table, wanted, label) if wanted else texts_of(table, label)
    if not texts:
        texts = (table.names[0] if len(table.names) == 1 else choose_text(table, (), label or _named_label(table)),)
    if label:
        return TextColumns(texts, label)
    rest = [name for name in table.names if name not in texts and name.strip().lower() not in COUNTED]
    rest = [name for name in rest if table.facts(name).missing < len(table)] or rest
    plain = [name for name in rest if not is_text(table, name)] or rest
    plain = [name for name in plain if may_be_label(table, name)] or plain
    return TextColumns(texts, _named_label(table, texts) or next(reversed(plain), ""))


def may_be_label(table: Table, name: str) -> bool:
    """Whether a column may be a label: more than one value, no dates or times and no number of the row."""
    if distinct(table.digests(name)) < 2 or numbers_rows(table, name):
        return False
    if table.facts(name).bad:
        return not dates.form_of(_some(table, name))
    return not (_TIME.search(name.lower()) and np.nanmin(table.numbers(name)[0]) > _SECONDS)


def numbers_rows(table: Table, name: str) -> str:
    """Why a column of numbers is an id; "" if it is none."""
    facts, plain = table.facts(name), name.strip().lower()
    if facts.bad:
        return ""
    if plain in IDS:
        return "an id by its name"
    values = table.numbers(name)[0]
    if len(table) < _LEAST_COUNTED or not np.isfinite(values).all() or (values != np.rint(values)).any():
        return ""
    if distinct(number_digests(values)) < len(values):
        return ""
    if values[0] in (0, 1) and (np.diff(values) == 1).all():
        return "it counts the rows"
    return "an id: all different" if plain.endswith(("_id", " id")) or name.endswith("Id") else ""


def _plain(table: Table) -> dict[str, str]:
    """The columns by their names in lower case; those inside others, as meta.label, by their last part too."""
    plain = {name.strip().lower(): name for name in reversed(table.names)}
    return {name.rpartition(".")[2]: real for name, real in plain.items()} | plain


def texts_of(table: Table, label: str = "") -> tuple[str, ...]:
    """The column of text, or two that have one label, by their names or by what they hold; () where none is text."""
    plain = _plain(table)

    def may_be_text(name: str) -> bool:
        """Not a column of numbers alone, whatever it is called."""
        if name not in plain or plain[name] == label:
            return False
        facts = table.facts(plain[name])
        return bool(facts.bad) or facts.missing == len(table)

    for first, second in PAIRS:
        if may_be_text(first) and may_be_text(second):
            return plain[first], plain[second]
    for name in TEXTS:
        if name != TITLE and may_be_text(name):
            return (plain[name],)
    taken = (label or _named_label(table), *(plain[name] for name in (*LABELS, *COUNTED) if name in plain))
    texts = [name for name in table.names if name not in taken and is_text(table, name)]
    # Not slips among numbers, nor dates, which have no letters.
    texts = [name for name in texts if 2 * table.facts(name).bad >= len(table) and _has_letters(_some(table, name))]
    wordy = [name for name in texts if is_wordy(_some(table, name))]
    # Names of passengers and remarks on orders are columns of a table; a text is most of what its row says.
    if sum(map(table.mean_length, wordy)) < _MOST_OF_ROW * sum(map(table.mean_length, table.names)):
        wordy = []
    if len(wordy) == 2 and len(table.names) > 2:
        return wordy[0], wordy[1]
    if not wordy and may_be_text(TITLE):
        return (plain[TITLE],)
    alone = [name for name in table.names if name not in taken]
    alone = [name for name in alone if is_text(table, name)] if len(alone) == 2 else alone
    texts = wordy or (texts if len(alone) == 1 else [])
    return (max(texts, key=table.mean_length),) if texts else ()


def _has_letters(cells: Sequence[str]) -> bool:
    return any(letter.isalpha() for cell in cells for letter in cell)


def _named_label(table: Table, texts: Sequence[str] = ()) -> str:
    """The column with a name that labels of texts have; "" for none."""
    plain = _plain(table)
    known = (*TEXT_LABELS, *OUTCOMES)
    return next((plain[name] for name in known if name in plain and plain[name] not in texts), "")


def _some(table: Table, name: str) -> list[str]:
    return list(table.stream(name, np.arange(min(len(table), PEEK))))


def choose_features(table: Table, wanted: Sequence[str], label: str, setting: str = "data.features") -> tuple[str, ...]:
    """The columns to predict from: those asked for, else all but the label."""
    if label and label in wanted:
        raise CanonError(f'{setting}: "{label}" is the label, so it cannot be predicted from.')
    names = tuple(table.require(name, setting) for name in wanted) or tuple(
        name for name in table.names if name != label
    )
    if not names:
        raise CanonError(f'{table.path} has no column but the label "{label}"; there is nothing to predict it from.')
    return names


def is_text(table: Table, name: str) -> bool:
    """Whether a column has texts rather than numbers, dates or categories: most rows are different, or have several
    words."""
    if not table.facts(name).bad or dates.form_of(_some(table, name)):
        return False
    count = distinct(table.digests(name))
    if count == 1 < len(table):
        return False
    if count > MOST_CATEGORIES or count > max(len(table) / 2, 2):
        return True
    return is_wordy(_some(table, name))


def is_wordy(cells: Sequence[str]) -> bool:
    """Whether texts have several words on average; a Chinese character is one."""
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and sum(len(words(cell)) for cell in filled) >= WORDY * len(filled)


def short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


# Labels


def has_fractions(table: Table, label: str) -> bool:
    """Whether a label column is numbers that are not all whole: not classes."""
    values, bad = table.numbers(label)
    return not bad.any() and bool((values != np.rint(values)).any())


def is_number(table: Table, label: str) -> bool:
    """Whether a label column is numbers to predict rather than classes: fractions, or too many different ones."""
    values, bad = table.numbers(label)
    if bad.any():
        return False
    return has_fractions(table, label) or _too_many(distinct(number_digests(values)), len(table), _FEWEST)


def class_names(table: Table, label: str) -> tuple[str, ...]:
    """The classes of a label column: numbers in numeric order, texts in the order of their characters."""
    texts = sorted(table.factor(label)[0])
    numbers = [parse_number(text) for text in texts]
    if all(number is not None and np.isfinite(number) for number in numbers):
        names = {canonical(text) for text in texts}
        ordered, fewest = sorted(names, key=float), _FEWEST
    else:
        ordered, fewest = [text for text in texts if text.strip()], 2
    if _too_many(len(ordered), len(table), fewest):
        raise CanonError(
            f'{table.path}: the label "{label}" has {len(ordered)} different values in {len(table)} rows, too many for '
            "classes; choose another with data.label, or a system that predicts a number."
        )
    return tuple(ordered)


def _too_many(classes: int, rows: int, fewest: int) -> bool:
    return classes > MOST_CATEGORIES or (classes > 20 and classes * fewest > rows)


def class_codes(table: Table, label: str, classes: Sequence[str]) -> np.ndarray:
    """The label column as class indices int64 [N]; a label that is not a class is a mistake."""
    place = {name: index for index, name in enumerate(classes)}
    texts, codes = table.factor(label)
    indices = np.array([place.get(text, place.get(canonical(text), -1)) for text in texts], dtype=np.int64)[codes]
    if (indices < 0).any():
        row = int((indices < 0).argmax())
        text = texts[codes[row]]
        if not text.strip():
            raise table.mistake(row, f'the label (column "{label}") is empty.')
        raise table.mistake(row, f'label "{short(text)}" is not one of {listed(classes)}.')
    return indices


def number_targets(table: Table, label: str) -> np.ndarray:
    """The label column as float32 [N]."""
    values, bad = table.numbers(label)
    wrong = bad | ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        text = table.text(label, row)
        raise table.mistake(row, f'the label (column "{label}") must be a number, got "{short(text)}".')
    return values.astype(np.float32)


def choose_text(table: Table, wanted: Sequence[str], label: str, setting: str = "data.features") -> str:
    """The column of text: the one asked for, else the one with the longest texts on average."""
    if len(wanted) > 1:
        raise CanonError(f"{table.path}: one column of text is read, not {len(wanted)}; name it in {setting}.")
    names = choose_features(table, wanted, label, setting)
    return max(names, key=table.mean_length)
