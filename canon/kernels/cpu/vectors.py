"""Compiled loops over files of word vectors: where words and numbers stand, numbers from and to text.

A number of a text is read as m × 10^e. Where m < 2^53 and |e| ≤ 22 one division or product of float64 is exact to
half a unit (Clinger 1990), and what Python's float() gives. Elsewhere the product is off by two units at most, which
matters for a float32 only beside the middle of two of them: such numbers, and what is not digits, are left to Python.
What is written is the shortest number of 6 to 10 digits, less zeros at its end, that reads back as the same float32.
Plain version: the same code uncompiled, equal to the bit in tests/kernels/test_loops.py.
Deviations: none. Shapes: B bytes, R records of a block, D numbers of a vector.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import njit

SPACE, TAB, NEWLINE, RETURN = 32, 9, 10, 13
LONGEST_WORD = 4096  # bytes; where no space comes sooner, what is there is not a word
FEW, MANY, LONG = 1, 2, 3  # what may be wrong with a record

_LEAST, _MOST = -64, 40  # powers of ten: a float32 lies between 1e-45 and 4e38, and m below 1e19
_POWERS = np.array([float(f"1e{power}") for power in range(_LEAST, _MOST + 1)])
_EXACT = 22  # 10^22 is the last power of ten that is a float64
_DIGITS = 19  # that a number of 64 bits holds
_HALF = 1 << 28  # the middle of two float32 in the 29 bits that a float64 has more
_UNSURE = 4


# Where words and numbers stand


@njit(nogil=True, cache=True)
def split_binary(
    block_B: np.ndarray, size: int, dim: int, most: int, starts_R: np.ndarray, ends_R: np.ndarray, data_R: np.ndarray
) -> tuple[int, int, int]:
    """Records `word SPACE dim × float32 [NEWLINE]` of block[:size]: how many are whole, their bytes, what is wrong."""
    position, count = 0, 0
    while count < most:
        start = position
        while start < size and block_B[start] == NEWLINE:
            start += 1
        space = start
        while space < size and block_B[space] != SPACE:
            space += 1
        if space - start > LONGEST_WORD:
            return count, position, LONG
        if space + 1 + 4 * dim > size:
            break
        starts_R[count], ends_R[count], data_R[count] = start, space, space + 1
        count += 1
        position = space + 1 + 4 * dim
    return count, position, 0


@njit(nogil=True, cache=True)
def split_text(
    block_B: np.ndarray, size: int, dim: int, most: int, starts_R: np.ndarray, ends_R: np.ndarray, data_R: np.ndarray
) -> tuple[int, int, int, int]:
    """Lines `word number … number` of block[:size]: how many, bytes and lines they take, what is wrong with the next.

    The last `dim` fields are the numbers, whatever stands before them is the word: words may hold spaces.
    """
    position, count, lines = 0, 0, 0
    while count < most:
        stop = position
        while stop < size and block_B[stop] != NEWLINE:
            stop += 1
        if stop == size:
            break
        place = stop - 1
        while place >= position and _is_blank(block_B[place]):
            place -= 1
        if place >= position:
            fields = 0
            first = place + 1
            while fields < dim:
                while place >= position and not _is_blank(block_B[place]):
                    place -= 1
                first = place + 1
                fields += 1
                end = place
                while place >= position and _is_blank(block_B[place]):
                    place -= 1
                if place < position:  # nothing is left: the word is empty if a space stands before the numbers
                    if fields < dim or end < position:
                        return count, position, lines, FEW
                    break
            end = max(place + 1, position)
            for inner in range(position, end):
                if block_B[inner] == SPACE or block_B[inner] == TAB:
                    if _ends_in_decimal(block_B, position, end):
                        return count, position, lines, MANY
                    break
            starts_R[count], ends_R[count], data_R[count] = position, end, first
            count += 1
        lines += 1
        position = stop + 1
    return count, position, lines, 0


@njit(nogil=True, cache=True)
def _is_blank(byte: int) -> bool:
    return byte in (SPACE, TAB, RETURN)


@njit(nogil=True, cache=True)
def _ends_in_decimal(block_B: np.ndarray, start: int, end: int) -> bool:
    """Whether the last field of a word with spaces is a number with a point: then the line has one number too many."""
    place, digits, points = end - 1, 0, 0
    while place >= start and not _is_blank(block_B[place]):
        byte = block_B[place]
        if byte == 46:
            points += 1
        elif 48 <= byte <= 57:
            digits += 1
        elif byte not in (43, 45, 69, 101):  # + - E e
            return False
        place -= 1
    return points == 1 and digits > 0


# Numbers


@njit(nogil=True, cache=True)
def copy_numbers(block_B: np.ndarray, data_R: np.ndarray, out_RB: np.ndarray) -> None:
    """The bytes of each vector to a row of `out`."""
    width = out_RB.shape[1]
    for record in range(len(data_R)):
        first = data_R[record]
        for place in range(width):
            out_RB[record, place] = block_B[first + place]


@njit(nogil=True, cache=True)
def parse_numbers(block_B: np.ndarray, data_R: np.ndarray, out_RD: np.ndarray, hard: np.ndarray) -> int:
    """The numbers of each line to a row of `out`; (row, number, first byte, last byte) of those left to Python go to
    `hard` [any, 4], and their count is given back, also where `hard` is too short for them."""
    dim, left = out_RD.shape[1], 0
    wide = np.zeros(1, np.float64)
    bits = wide.view(np.int64)
    for record in range(len(data_R)):
        place = data_R[record]
        for number in range(dim):
            while _is_blank(block_B[place]):
                place += 1
            start = place
            negative = block_B[place] == 45
            if negative or block_B[place] == 43:
                place += 1
            mantissa, digits, exponent, seen = np.uint64(0), 0, 0, 0
            fraction = False
            byte = block_B[place]
            while True:
                if 48 <= byte <= 57:
                    seen += 1
                    if digits < _DIGITS:
                        mantissa = mantissa * np.uint64(10) + np.uint64(byte - 48)
                        digits += int(mantissa > 0)
                        exponent -= int(fraction)
                    else:
                        exponent += int(not fraction)
                elif byte == 46 and not fraction:
                    fraction = True
                else:
                    break
                place += 1
                byte = block_B[place]
            if seen and (byte == 101 or byte == 69):
                place += 1
                byte = block_B[place]
                below = byte == 45
                if below or byte == 43:
                    place += 1
                    byte = block_B[place]
                power, count = 0, 0
                while 48 <= byte <= 57:
                    power = min(power * 10 + int(np.int64(byte)) - 48, 9999)
                    count += 1
                    place += 1
                    byte = block_B[place]
                exponent += -power if below else power
                seen = seen if count else 0
            good = seen > 0 and (_is_blank(byte) or byte == NEWLINE)
            value = 0.0
            if good and mantissa > 0:
                if mantissa < np.uint64(1 << 53) and -_EXACT <= exponent <= _EXACT:
                    if exponent < 0:
                        value = np.float64(mantissa) / _POWERS[-exponent - _LEAST]
                    else:
                        value = np.float64(mantissa) * _POWERS[exponent - _LEAST]
                elif _LEAST <= exponent <= _MOST:
                    value = np.float64(mantissa) * _POWERS[exponent - _LEAST]
                    wide[0] = value
                    beside = abs((bits[0] & ((1 << 29) - 1)) - _HALF)
                    good = beside > _UNSURE and 1.2e-38 < value < 3.4e38
                else:
                    good = False
            if good:
                out_RD[record, number] = -value if negative else value
                continue
            while not _is_blank(block_B[place]) and block_B[place] != NEWLINE:
                place += 1
            if left < len(hard):
                hard[left, 0], hard[left, 1], hard[left, 2], hard[left, 3] = record, number, start, place
            left += 1
    return left


@njit(nogil=True, cache=True)
def write_text(
    text_B: np.ndarray, starts_R: np.ndarray, ends_R: np.ndarray, rows_RD: np.ndarray, out_B: np.ndarray
) -> tuple[int, int]:
    """Lines `word number … number`, up to the first row with a number that is left to Python; bytes, and rows written.

    `out` has room for the words, 16 bytes for each number and a line's end.
    """
    whole = 0
    for record in range(len(starts_R)):
        at = whole
        for place in range(starts_R[record], ends_R[record]):
            out_B[at] = text_B[place]
            at += 1
        for number in range(rows_RD.shape[1]):
            out_B[at] = SPACE
            at = _put_number(rows_RD[record, number], out_B, at + 1)
            if at < 0:
                return whole, record
        out_B[at] = NEWLINE
        whole = at + 1
    return whole, len(starts_R)


@njit(nogil=True, cache=True)
def write_binary(
    text_B: np.ndarray, starts_R: np.ndarray, ends_R: np.ndarray, rows_RB: np.ndarray, out_B: np.ndarray
) -> int:
    """Records `word SPACE bytes`; gives the bytes written."""
    at = 0
    for record in range(len(starts_R)):
        for place in range(starts_R[record], ends_R[record]):
            out_B[at] = text_B[place]
            at += 1
        out_B[at] = SPACE
        at += 1
        for place in range(rows_RB.shape[1]):
            out_B[at + place] = rows_RB[record, place]
        at += rows_RB.shape[1]
    return at


@njit(nogil=True, cache=True)
def _put_number(value: np.float32, out_B: np.ndarray, at: int) -> int:
    """The digits of a float32 at out[at:]; gives where they end, -1 for one too large, too small or not a number."""
    size = np.float64(abs(value))
    if np.copysign(np.float32(1), value) < 0:
        out_B[at] = 45
        at += 1
    if size == 0:
        out_B[at], out_B[at + 1], out_B[at + 2] = 48, 46, 48
        return at + 3
    if not 1e-12 < size < 1e7:
        return -1
    exponent = int(np.floor(np.log10(size)))  # may be one too low or high beside a power of ten
    for digits in range(6, 11):
        shift = digits - 1 - exponent
        scaled = np.rint(size * _POWERS[shift - _LEAST] if shift >= 0 else size / _POWERS[-shift - _LEAST])
        back = scaled / _POWERS[shift - _LEAST] if shift >= 0 else scaled * _POWERS[-shift - _LEAST]
        if np.float32(back) == abs(value):
            return _put_digits(int(scaled), shift, out_B, at)
    return -1


@njit(nogil=True, cache=True)
def _put_digits(scaled: int, shift: int, out_B: np.ndarray, at: int) -> int:
    """scaled × 10^−shift without zeros at its end: 12.5, 3.0, 0.00123, or 1.5e-07 below 0.0001; gives where it ends."""
    while scaled % 10 == 0:
        scaled //= 10
        shift -= 1
    count, rest = 0, scaled
    while rest:
        rest //= 10
        count += 1
    power = count - 1 - shift  # of the first digit
    point = power + 1 if power >= -4 else 1  # digits before the point
    if point <= 0:
        out_B[at], out_B[at + 1] = 48, 46
        at += 2
        for _ in range(-point):
            out_B[at] = 48
            at += 1
    inside = 0 < point < count
    place = at + count - 1 + inside
    for written in range(count):
        if inside and written == count - point:
            out_B[place] = 46
            place -= 1
        out_B[place] = 48 + scaled % 10
        scaled //= 10
        place -= 1
    at += count + inside
    for _ in range(point - count):
        out_B[at] = 48
        at += 1
    if point >= count and power >= -4:  # a whole number, which is to look like one of a vector
        out_B[at], out_B[at + 1] = 46, 48
        at += 2
    if power < -4:
        out_B[at], out_B[at + 1], out_B[at + 2] = 101, 45, 48 + -power // 10
        out_B[at + 3] = 48 + -power % 10
        at += 4
    return at
