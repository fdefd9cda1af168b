"""Words of UTF-8 text counted and numbered at the speed of the machine: numba kernels that hold no lock (corpus.py).

A word is what ASCII white space parts or, where `classes` has a kind for every code point (`code_point_classes`), a
word as vocabularies.py knows it: a run of letters, digits and marks, a number like 3.14, any other character alone.
A table of words has entries [E, 4] (hash, first eight bytes, place in a store of bytes, count) and slots [S, 2] with
open addressing and linear probing; S is a power of 2, at least 2 E. Words of equal hashes are compared byte by byte, so
counts are exact. A word of more than LONGEST_WORD bytes is none. The block that is read is its own store.
Plain version: the same code uncompiled, equal to the bit in tests/kernels/test_loops.py; brute force in
tests/data/test_corpus.py. Deviations: none.
Shapes: B bytes of a block, D different words of it, E entries of a table, S slots of it.
"""

from __future__ import annotations

import numpy as np

from canon.kernels.cpu.compiler import GOLDEN, mixed, njit

MARK = -1  # a sentence ends (corpus.py)
RARE = -2  # a word that the table does not have
LONGEST_WORD = 1000  # bytes

SINGLE, LETTER, DIGIT, SPACE = 0, 1, 2, 3  # classes; a digit is a letter too
HASH, KEY, PLACE, COUNT = range(4)  # columns of an entry; the key is the word's first eight bytes
_LENGTH_BITS, _LENGTH = np.uint64(10), np.uint64(1023)  # a place is offset · 1024 + length
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_LOW = np.uint64(0xFFFFFFFF)  # of a slot: the entry + 1, or 0 if it is empty
_FIRST_ENTRIES = 1 << 14


@njit(nogil=True, cache=True)
def first_bad(text):
    """Where the first byte is that is 0 or not UTF-8; −1 if all are good."""
    size, place = len(text), 0
    while place < size:
        stop = min(place + 64, size)
        seen, zero = np.uint8(0), False
        for index in range(place, stop):
            seen |= text[index]
            zero |= text[index] == 0
        if seen < 0x80 and not zero:
            place = stop
            continue
        while place < stop:  # characters one by one; the last may end beyond `stop`
            lead = text[place]
            if lead < 0x80:
                if lead == 0:
                    return place
                place += 1
                continue
            low, high = np.uint8(0x80), np.uint8(0xBF)  # of the second byte
            if 0xC2 <= lead <= 0xDF:
                more = 1
            elif 0xE0 <= lead <= 0xEF:
                more = 2
                if lead == 0xE0:
                    low = np.uint8(0xA0)  # shorter forms are wrong
                elif lead == 0xED:
                    high = np.uint8(0x9F)  # halves of surrogate pairs
            elif 0xF0 <= lead <= 0xF4:
                more = 3
                if lead == 0xF0:
                    low = np.uint8(0x90)
                elif lead == 0xF4:
                    high = np.uint8(0x8F)
            else:
                return place
            if place + more >= size or not low <= text[place + 1] <= high:
                return place
            for index in range(place + 2, place + more + 1):
                if text[index] & 0xC0 != 0x80:
                    return place
            place += more + 1
    return -1


@njit(nogil=True, cache=True)
def lower_ascii(text):
    """A–Z to a–z, in place."""
    for place in range(len(text)):
        byte = text[place]
        text[place] = byte + np.uint8(32) if 65 <= byte <= 90 else byte


@njit(nogil=True, cache=True)
def _blank(byte):
    """ASCII white space: space, and tab to carriage return."""
    return byte == 32 or 9 <= byte <= 13


@njit(nogil=True, cache=True)
def _decode(text, place):
    """The code point at `place` of good UTF-8, and where the next one begins."""
    lead = np.int64(text[place])
    if lead < 0x80:
        return lead, place + 1
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | (text[place + 1] & 0x3F), place + 2
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | np.int64(text[place + 1] & 0x3F) << 6 | (text[place + 2] & 0x3F), place + 3
    code = (lead & 0x07) << 18 | np.int64(text[place + 1] & 0x3F) << 12 | np.int64(text[place + 2] & 0x3F) << 6
    return code | (text[place + 3] & 0x3F), place + 4


@njit(nogil=True, cache=True)
def _run(text, place, classes, digits):
    """Where a run of letters (of digits only, if so asked) that begins at `place` ends."""
    while place < len(text):
        code, after = _decode(text, place)
        kind = classes[code]
        if not (kind == DIGIT or (kind == LETTER and not digits)):
            break
        place = after
    return place


@njit(nogil=True, cache=True)
def _is_unk(text, start):
    """Whether <unk> is there, whose first and fifth bytes are in the text."""
    return text[start + 1] == 117 and text[start + 2] == 110 and text[start + 3] == 107 and text[start + 4] == 62


@njit(nogil=True, cache=True)
def _word_end(text, start, classes):
    """Where the word that begins at `start` ends: the patterns of vocabularies.py, tried in their order."""
    if text[start] == 60 and start + 5 <= len(text) and _is_unk(text, start):
        return start + 5
    code, after = _decode(text, start)
    if classes[code] == SINGLE:
        return after
    if classes[code] == DIGIT:  # 3.14 or 12:30
        stop = _run(text, start, classes, True)
        end = stop
        while end < len(text) and (text[end] == 46 or text[end] == 44 or text[end] == 58):  # . , :
            further = _run(text, end + 1, classes, True)
            if further == end + 1:
                break
            end = further
        if end > stop:
            return end
    end = _run(text, start, classes, False)
    while end < len(text):  # don't, T-shirt
        joint, after = _decode(text, end)
        if not (joint == 39 or joint == 45 or joint == 0x2019):
            break
        further = _run(text, after, classes, False)
        if further == after:
            break
        end = further
    return end


@njit(nogil=True, cache=True)
def _mixed(key, rest, length):
    """The hash of a word from its first eight bytes, FNV-1a of the others, and its length: as splitmix64 mixes."""
    return mixed((key ^ rest) + np.uint64(length) * GOLDEN)


@njit(nogil=True, cache=True)
def _hash(text, start, stop):
    """The hash of a word, and its first eight bytes as a number."""
    rest, key = _FNV_START, np.uint64(0)
    for place in range(start, min(start + 8, stop)):
        key = key << np.uint64(8) | np.uint64(text[place])
    for place in range(start + 8, stop):
        rest = (rest ^ np.uint64(text[place])) * _FNV_PRIME
    return _mixed(key, rest, stop - start), key


@njit(nogil=True, cache=True)
def _next_word(text, place, classes):
    """The next word at or after `place`, or the line's end before it: start, stop, hash and key.

    start = len(text): there is none. stop = start: a line's end.
    """
    size = len(text)
    if len(classes) == 0:
        while place < size and _blank(text[place]):
            if text[place] == 10:
                return place, place, _FNV_START, np.uint64(0)
            place += 1
        # `_hash` while the end is looked for: one loop that cannot be predicted, not two.
        start, rest, key = place, _FNV_START, np.uint64(0)
        near = min(start + 8, size)
        while place < near and not _blank(text[place]):
            key = key << np.uint64(8) | np.uint64(text[place])
            place += 1
        if place == near:
            while place < size and not _blank(text[place]):
                rest = (rest ^ np.uint64(text[place])) * _FNV_PRIME
                place += 1
        return start, place, _mixed(key, rest, place - start), key
    while place < size:
        code, after = _decode(text, place)
        if code == 10:
            return place, place, _FNV_START, np.uint64(0)
        if classes[code] != SPACE:
            stop = _word_end(text, place, classes)
            value, key = _hash(text, place, stop)
            return place, stop, value, key
        place = after
    return size, size, _FNV_START, np.uint64(0)


@njit(nogil=True, cache=True)
def _tag(value, length):
    """What a slot has above the entry's number: upper bits of the hash, and the length."""
    return (value >> np.uint64(42)) << _LENGTH_BITS | np.uint64(length)


@njit(nogil=True, cache=True)
def _find(text, start, length, value, key, slots, entries, store):
    """The slot of a word: the one that has it, or the empty one where it belongs.

    Up to eight bytes, key and length are the word: nothing else is looked at, so most words cost one line of cache.
    """
    mask, tag = np.uint64(len(slots) - 1), _tag(value, length)
    slot = value & mask
    while True:
        held = slots[slot, 1]
        if held == 0:
            return slot
        if held >> np.uint64(32) == tag and slots[slot, 0] == key:
            if length <= 8:
                return slot
            offset, index = np.int64(entries[(held & _LOW) - np.uint64(1), PLACE] >> _LENGTH_BITS), 8
            while index < length and store[offset + index] == text[start + index]:
                index += 1
            if index == length:
                return slot
        slot = (slot + np.uint64(1)) & mask


@njit(nogil=True, cache=True)
def _put(slots, slot, value, key, length, entry):
    slots[slot, 0] = key
    slots[slot, 1] = _tag(value, length) << np.uint64(32) | np.uint64(entry + 1)


@njit(nogil=True, cache=True)
def index_entries(entries, size, slots):
    """Puts entries 0 to size − 1, all different, into slots that are made empty first; empty words are left out."""
    slots[:] = 0
    mask = np.uint64(len(slots) - 1)
    for entry in range(size):
        value, length = entries[entry, HASH], entries[entry, PLACE] & _LENGTH
        if length == 0:
            continue
        slot = value & mask
        while slots[slot, 1] != 0:
            slot = (slot + np.uint64(1)) & mask
        _put(slots, slot, value, entries[entry, KEY], length, entry)


@njit(nogil=True, cache=True)
def count_block(text, classes):
    """The different words of a block in the order they come: entries [D, 4] whose places are where each first lies.

    And a tally [7]: words in all; words left out as too long; line ends; words before the first line end; words after
    the last one (all, if there is none); lines with words between the two; most words of such a line.
    """
    entries = np.empty((_FIRST_ENTRIES, 4), dtype=np.uint64)
    slots = np.zeros((2 * _FIRST_ENTRIES, 2), dtype=np.uint64)
    total = left = ends = head = lines = most = size = place = 0
    line = 0  # words since the last line end
    while True:
        start, stop, value, key = _next_word(text, place, classes)
        if start == len(text):
            break
        if stop == start:
            if ends == 0:
                head = line
            elif line > 0:
                lines += 1
                most = max(most, line)
            ends += 1
            line = 0
            place = stop + 1
            continue
        place = stop
        total += 1
        line += 1
        length = stop - start
        if length > LONGEST_WORD:
            left += 1
            continue
        slot = _find(text, start, length, value, key, slots, entries, text)
        held = slots[slot, 1]
        if held != 0:
            entries[(held & _LOW) - np.uint64(1), COUNT] += np.uint64(1)
            continue
        if size == len(entries):
            larger = np.empty((2 * size, 4), dtype=np.uint64)
            larger[:size] = entries
            entries = larger
            slots = np.empty((4 * size, 2), dtype=np.uint64)
            index_entries(entries, size, slots)
            slot = _find(text, start, length, value, key, slots, entries, text)
        entries[size, HASH], entries[size, KEY], entries[size, COUNT] = value, key, 1
        entries[size, PLACE] = np.uint64(start) << _LENGTH_BITS | np.uint64(length)
        _put(slots, slot, value, key, length, size)
        size += 1
    return entries[:size], np.array([total, left, ends, head, line, lines, most], dtype=np.int64)


@njit(nogil=True, cache=True)
def merge(text, block, slots, entries, store, size, used):
    """Adds a block's counts to a table that has room for all of them; returns entries and bytes of it that are used."""
    for index in range(len(block)):
        value, key, place = block[index, HASH], block[index, KEY], block[index, PLACE]
        start, length = np.int64(place >> _LENGTH_BITS), np.int64(place & _LENGTH)
        slot = _find(text, start, length, value, key, slots, entries, store)
        held = slots[slot, 1]
        if held != 0:
            entries[(held & _LOW) - np.uint64(1), COUNT] += block[index, COUNT]
            continue
        entries[size, HASH], entries[size, KEY], entries[size, COUNT] = value, key, block[index, COUNT]
        entries[size, PLACE] = np.uint64(used) << _LENGTH_BITS | np.uint64(length)
        store[used : used + length] = text[start : start + length]
        _put(slots, slot, value, key, length, size)
        size += 1
        used += length
    return size, used


@njit(nogil=True, cache=True)
def prune(least, slots, entries, store, size):
    """Forgets the words seen fewer than `least` times, in place; returns entries and bytes that are left."""
    kept, used = 0, np.int64(0)
    for entry in range(size):
        if entries[entry, COUNT] < np.uint64(least):
            continue
        place = entries[entry, PLACE]
        offset, length = np.int64(place >> _LENGTH_BITS), np.int64(place & _LENGTH)
        for index in range(length):  # never over bytes that are still to be moved: used ≤ offset
            store[used + index] = store[offset + index]
        entries[kept] = entries[entry]
        entries[kept, PLACE] = np.uint64(used) << _LENGTH_BITS | np.uint64(length)
        kept += 1
        used += length
    index_entries(entries, kept, slots)
    return kept, used


@njit(nogil=True, cache=True)
def index_words(store, lengths):
    """Entries and slots for words that lie end to end in `store`, in their order; one of length 0 never matches."""
    size = len(lengths)
    entries = np.zeros((size, 4), dtype=np.uint64)
    width = 16
    while width < 2 * size:
        width *= 2
    slots, offset = np.empty((width, 2), dtype=np.uint64), 0
    for entry in range(size):
        length = lengths[entry]
        value, key = _hash(store, offset, offset + length)
        entries[entry, HASH], entries[entry, KEY] = value, key
        entries[entry, PLACE] = np.uint64(offset) << _LENGTH_BITS | np.uint64(length)
        offset += length
    index_entries(entries, size, slots)
    return entries, slots


@njit(nogil=True, cache=True)
def encode_block(text, classes, slots, entries, store, rare):
    """The words of a block as entries of a table, int32, MARK where a line with such words ends.

    rare: whether words that the table does not have are RARE, else they are left out. Also returns whether a line ends
    before the block's first token: then a sentence that an earlier block began is over.
    """
    tokens = np.empty(len(text) + 1, dtype=np.int32)
    size, place, ended = 0, 0, False
    while True:
        start, stop, value, key = _next_word(text, place, classes)
        if start == len(text):
            break
        if stop == start:
            if size == 0:
                ended = True
            elif tokens[size - 1] != MARK:
                tokens[size] = MARK
                size += 1
            place = stop + 1
            continue
        place = stop
        held = np.uint64(0)
        if stop - start <= LONGEST_WORD:
            held = slots[_find(text, start, stop - start, value, key, slots, entries, store), 1]
        if held != 0:
            tokens[size] = np.int32((held & _LOW) - np.uint64(1))
            size += 1
        elif rare:
            tokens[size] = RARE
            size += 1
    return tokens[:size], ended
