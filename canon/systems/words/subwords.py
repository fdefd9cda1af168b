"""The rows of fastText's matrices: of a word's letter n-grams and a line's word n-grams by hashing, of a tree's nodes.

Bojanowski, Grave, Joulin and Mikolov 2017, Enriching word vectors with subword information (arXiv:1607.04606), section
3.2; Joulin et al. 2017, Bag of tricks for efficient text classification (arXiv:1607.01759), section 2.2.
A word is seen as "<word>"; its n-grams are those of minn to maxn characters, and each has row V + hash mod B. The hash
is FNV-1a of the UTF-8 bytes in 32 bits, with bytes taken as signed: those above 127 are widened with ones, as they were
when the models that are around were trained. "</s>", fastText's end of a line, has no n-grams.
Row numbers: `subword_ids` of one word, `subword_table` of a vocabulary, `word_ngram_ids` of a line (from the hashes of
its words: h ← 116049371 h + next, in 64 bits). The kernels behind them may be called from other kernels. The output
rows of a hierarchical softmax are the inner nodes of `output_tree`.
Deviations: none. Shapes: V words, B buckets, T words of a line, S rows of all words together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from canon.data.kernels import njit
from canon.systems.words.sampling import Tree, huffman

LINE_END = b"</s>"

_BASIS = 2166136261  # FNV's offset basis and prime of 32 bits
_PRIME = 16777619
_LINE_PRIME = 116049371
_BITS = 0xFFFFFFFF


@njit(nogil=True, cache=True)
def hash_bytes(text: np.ndarray, start: int, stop: int) -> int:
    """FNV-1a of text[start:stop] (uint8), as an unsigned number of 32 bits."""
    state = np.uint64(_BASIS)
    for place in range(start, stop):
        byte = np.uint64(text[place])
        if byte >= 128:
            byte |= np.uint64(0xFFFFFF00)
        state = ((state ^ byte) * np.uint64(_PRIME)) & np.uint64(_BITS)
    return int(np.int64(state))


@njit(nogil=True, cache=True)
def put_subwords(
    text: np.ndarray, start: int, stop: int, least: int, most: int, buckets: int, offset: int, out: np.ndarray, at: int
) -> int:
    """Puts the rows of all n-grams of text[start:stop] ("<word>" in UTF-8) at out[at:]; gives where they end."""
    for first in range(start, stop):
        if text[first] & 0xC0 == 0x80:  # inside a character
            continue
        state = np.uint64(_BASIS)
        place, length = first, 0
        while place < stop and length < most:
            while True:  # one character
                byte = np.uint64(text[place])
                if byte >= 128:
                    byte |= np.uint64(0xFFFFFF00)
                state = ((state ^ byte) * np.uint64(_PRIME)) & np.uint64(_BITS)
                place += 1
                if place >= stop or text[place] & 0xC0 != 0x80:
                    break
            length += 1
            marker = length == 1 and (first == start or place == stop)  # "<" or ">" alone says nothing
            if length >= least and not marker:
                out[at] = offset + np.int64(state % np.uint64(buckets))
                at += 1
    return at


@njit(nogil=True, cache=True)
def put_word_ngrams(
    hashes_T: np.ndarray, length: int, most: int, buckets: int, offset: int, out: np.ndarray, at: int
) -> int:
    """Puts the rows of n-grams of 2 to `most` words, of the first `length` hashes (int32), at out[at:]."""
    for first in range(length):
        state = np.uint64(np.int64(hashes_T[first]))
        for place in range(first + 1, min(length, first + most)):
            state = state * np.uint64(_LINE_PRIME) + np.uint64(np.int64(hashes_T[place]))
            out[at] = offset + np.int64(state % np.uint64(buckets))
            at += 1
    return at


@njit(nogil=True, cache=True)
def _put_table(
    text: np.ndarray, ends_V: np.ndarray, plain_V: np.ndarray, least: int, most: int, buckets: int, out_S: np.ndarray
) -> np.ndarray:
    """The rows of every word, its own first, at out_S; gives where each word's begin. `text` holds every "<word>"."""
    size = len(ends_V)
    starts = np.zeros(size + 1, np.int64)
    start, at = 0, 0
    for word in range(size):
        out_S[at] = word
        at += 1
        if not plain_V[word]:
            at = put_subwords(text, start, ends_V[word], least, most, buckets, size, out_S, at)
        start = ends_V[word]
        starts[word + 1] = at
    return starts


@njit(nogil=True, cache=True)
def mean_rows(
    input_RD: np.ndarray, starts_V: np.ndarray, rows_S: np.ndarray, first: int, last: int, out_VD: np.ndarray
) -> None:
    """The mean of the rows of every word from `first` to before `last`."""
    for word in range(first, last):
        out_VD[word] = 0
        for s in range(starts_V[word], starts_V[word + 1]):
            out_VD[word] += input_RD[rows_S[s]]
        out_VD[word] *= np.float32(1 / (starts_V[word + 1] - starts_V[word]))


def to_bytes(word: str | bytes) -> bytes:
    """UTF-8; bytes of a foreign file that were none come back as they stood."""
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


def hash_word(word: bytes) -> int:
    """fastText's hash of a word or n-gram, an unsigned number of 32 bits; word n-grams take it as a signed one."""
    return int(hash_bytes(np.frombuffer(word, np.uint8), 0, len(word)))


def subword_ids(word: str | bytes, minn: int, maxn: int, buckets: int, offset: int = 0) -> np.ndarray:
    """Rows (int32) of a word's n-grams, shorter ones first at each letter; `offset` is where those rows begin."""
    content = to_bytes(word)
    if content == LINE_END or not buckets or maxn < 1:
        return np.zeros(0, np.int32)
    marked = np.frombuffer(b"<" + content + b">", np.uint8)
    out = np.empty(len(marked) * (maxn - max(minn, 1) + 1), np.int32)
    return out[: put_subwords(marked, 0, len(marked), minn, maxn, buckets, offset, out, 0)].copy()


def subword_table(words: Sequence[str | bytes], minn: int, maxn: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all words one after another (int32), each word's own row and then its n-grams'; and where each begins.

    rows[starts[w] : starts[w + 1]] are those of word w, from V on where they are n-grams'.
    """
    content = [to_bytes(word) for word in words]
    ends_V = np.cumsum([len(word) + 2 for word in content], dtype=np.int64)
    if not buckets or maxn < 1 or not content:
        return np.arange(len(content) + 1, dtype=np.int64), np.arange(len(content), dtype=np.int32)
    text = np.frombuffer(b"".join(b"<" + word + b">" for word in content), np.uint8)
    plain_V = np.array([word == LINE_END for word in content])
    most = len(text) * (maxn - max(minn, 1) + 1) + len(content)
    rows_S = np.empty(most, np.int32)
    starts = _put_table(text, ends_V, plain_V, minn, maxn, buckets, rows_S)
    return starts, rows_S[: starts[-1]].copy()


def word_ngram_ids(hashes: Sequence[int] | np.ndarray, most: int, buckets: int, offset: int = 0) -> np.ndarray:
    """Rows (int32) of all n-grams of 2 to `most` words of a line, from the words' hashes in order."""
    hashes_T = np.asarray(hashes, np.int64).astype(np.uint32).view(np.int32)  # the same 32 bits, signed
    if not buckets or most < 2:
        return np.zeros(0, np.int32)
    out = np.empty(len(hashes_T) * (most - 1), np.int32)
    return out[: put_word_ngrams(hashes_T, len(hashes_T), most, buckets, offset, out, 0)].copy()


def output_tree(counts_V: np.ndarray) -> Tree:
    """Huffman's tree with fastText's choice among equals: what is joined goes before what is not.

    Every word counts a little less, so that a joined pair of the same count is the smaller one."""
    return huffman(counts_V.astype(np.int64) * (len(counts_V) + 1) - 1)
