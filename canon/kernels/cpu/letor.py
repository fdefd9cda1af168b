"""A compiled reader of LETOR's and svmlight's lines: `2 qid:10 1:0.03 2:0.5 # comment`.

Plain version: canon/data/formats/letor.py, compared by tests/kernels/test_letor.py.
It reads lines as they should be: a plain number, qid, numbered features that rise, a comment. At anything else it
stops, and the plain version reads the part again and says what is wrong. A number is its digits as a whole number
times a power of ten: exact in float64 up to 15 digits, so that a float32 of more may differ in its last bit.
Shapes: B bytes, N lines, M features of all lines.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import njit

_SPACE, _TAB, _RETURN, _LINE, _HASH, _COLON = 32, 9, 13, 10, 35, 58
_ZERO, _NINE, _MINUS, _PLUS, _DOT, _E, _SMALL_E = 48, 57, 45, 43, 46, 69, 101
_Q, _I, _D = 113, 105, 100
_MOST_DIGITS = 18
_POWERS = np.array([10.0**power for power in range(23)])


@njit(nogil=True, cache=True)
def _number(text_B: np.ndarray, place: int, stop: int) -> tuple[float, int]:
    """A number and where it ends; an end of −1 where it is none."""
    negative = False
    if place < stop and (text_B[place] == _MINUS or text_B[place] == _PLUS):
        negative = text_B[place] == _MINUS
        place += 1
    whole, digits, scale, seen = np.int64(0), 0, 0, False
    after = False
    while place < stop:
        byte = text_B[place]
        if byte == _DOT and not after:
            after = True
        elif _ZERO <= byte <= _NINE:
            seen = True
            if digits < _MOST_DIGITS:
                whole = whole * 10 + (np.int64(byte) - _ZERO)
                digits += 1 if whole else 0
                scale -= 1 if after else 0
            else:
                scale += 0 if after else 1
        else:
            break
        place += 1
    if not seen:
        return 0.0, -1
    if place < stop and (text_B[place] == _E or text_B[place] == _SMALL_E):
        place += 1
        sign = 1
        if place < stop and (text_B[place] == _MINUS or text_B[place] == _PLUS):
            sign = -1 if text_B[place] == _MINUS else 1
            place += 1
        if place == stop or not _ZERO <= text_B[place] <= _NINE:
            return 0.0, -1
        power = 0
        while place < stop and _ZERO <= text_B[place] <= _NINE:
            power = min(power * 10 + int(text_B[place]) - _ZERO, 9999)
            place += 1
        scale += sign * power
    value = np.float64(whole)
    while scale < 0 and value != 0:
        step = min(-scale, 22)
        value /= _POWERS[step]
        scale += step
    while scale > 0 and value != 0 and value < 1e300:
        step = min(scale, 22)
        value *= _POWERS[step]
        scale -= step
    if scale > 0 and value != 0:
        return 0.0, -1
    return (-value if negative else value), place


@njit(nogil=True, cache=True)
def read_lines(
    text_B: np.ndarray,
    labels_N: np.ndarray,
    queries_N2: np.ndarray,
    counts_N: np.ndarray,
    columns_M: np.ndarray,
    numbers_M: np.ndarray,
    comments_N2: np.ndarray,
    lines_N: np.ndarray,
) -> tuple[int, int]:
    """Fills the arrays; gives how many lines with a document and how many features there are, or −1 where something is
    not as it should be. Of queries and comments the places of their first byte and after their last."""
    place, size, line, documents, features = 0, len(text_B), 0, 0, 0
    while place < size:
        stop = place
        while stop < size and text_B[stop] != _LINE:
            stop += 1
        end = place
        while end < stop and text_B[end] != _HASH:
            end += 1
        line += 1
        comment, after = end + 1, stop
        while place < end and _blank(text_B[place]):
            place += 1
        if place == end:
            place = stop + 1
            continue
        label, place = _number(text_B, place, end)
        if place < 0 or label < 0 or (place < end and not _blank(text_B[place])):
            return -1, line
        labels_N[documents], lines_N[documents] = label, line
        comments_N2[documents, 0], comments_N2[documents, 1] = min(comment, after), after
        queries_N2[documents, 0] = queries_N2[documents, 1] = 0
        last, before, first = -1, features, True
        while True:
            while place < end and _blank(text_B[place]):
                place += 1
            if place == end:
                break
            if first and _begins(text_B, place, end):
                place += 4
                queries_N2[documents, 0] = place
                while place < end and not _blank(text_B[place]):
                    place += 1
                queries_N2[documents, 1] = place
                first = False
                continue
            first = False
            column, digits = 0, 0
            while place < end and _ZERO <= text_B[place] <= _NINE and digits < 10:
                column = column * 10 + int(text_B[place]) - _ZERO
                place += 1
                digits += 1
            if digits == 0 or place == end or text_B[place] != _COLON or column <= last:
                return -1, line
            value, place = _number(text_B, place + 1, end)
            if place < 0 or (place < end and not _blank(text_B[place])):
                return -1, line
            columns_M[features], numbers_M[features] = column, value
            last = column
            features += 1
        counts_N[documents] = features - before
        documents += 1
        place = stop + 1
    return documents, features


@njit(nogil=True, cache=True)
def _blank(byte: int) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)


@njit(nogil=True, cache=True)
def _begins(text_B: np.ndarray, place: int, end: int) -> bool:
    """Whether `qid:` is here."""
    if place + 4 > end or text_B[place] != _Q or text_B[place + 1] != _I:
        return False
    return bool(text_B[place + 2] == _D and text_B[place + 3] == _COLON)
