"""The rows of fastText's matrices: of a word's letter n-grams and a line's word n-grams by hashing, of a tree's nodes.

Bojanowski, Grave, Joulin and Mikolov 2017, Enriching word vectors with subword information (arXiv:1607.04606), section
3.2; Joulin et al. 2017, Bag of tricks for efficient text classification (arXiv:1607.01759), section 2.2.
A word is seen as "<word>"; its n-grams are those of minn to maxn characters, and each has row V + hash mod B. The hash
is FNV-1a of the UTF-8 bytes in 32 bits, with bytes taken as signed: those above 127 are widened with ones, as they were
when the models that are around were trained. "</s>", fastText's end of a line, has no n-grams.
Row numbers: `subword_ids` of one word, `subword_table` of a vocabulary, `word_ngram_ids` of a line (from the hashes of
its words: h ← 116049371 h + next, in 64 bits). Their kernels may be called from other kernels. The output
rows of a hierarchical softmax are the inner nodes of `output_tree`.
Deviations: none. Shapes: V words, B buckets, T words of a line, S rows of all words together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from canon.kernels import Later
from canon.systems.words.sampling import Tree, huffman

kernels = Later("cpu.subwords")
LINE_END = b"</s>"


def to_bytes(word: str | bytes) -> bytes:
    """UTF-8; bytes of a foreign file that were none come back as they stood."""
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


def hash_word(word: bytes) -> int:
    """fastText's hash of a word or n-gram, an unsigned number of 32 bits; word n-grams take it as a signed one."""
    return int(kernels.hash_bytes(np.frombuffer(word, np.uint8), 0, len(word)))


def subword_ids(word: str | bytes, minn: int, maxn: int, buckets: int, offset: int = 0) -> np.ndarray:
    """Rows (int32) of a word's n-grams, shorter ones first at each letter; `offset` is where those rows begin."""
    content = to_bytes(word)
    if content == LINE_END or not buckets or maxn < 1:
        return np.zeros(0, np.int32)
    marked = np.frombuffer(b"<" + content + b">", np.uint8)
    out = np.empty(len(marked) * (maxn - max(minn, 1) + 1), np.int32)
    return out[: kernels.put_subwords(marked, 0, len(marked), minn, maxn, buckets, offset, out, 0)].copy()


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
    starts = kernels.put_table(text, ends_V, plain_V, minn, maxn, buckets, rows_S)
    return starts, rows_S[: starts[-1]].copy()


def word_ngram_ids(hashes: Sequence[int] | np.ndarray, most: int, buckets: int, offset: int = 0) -> np.ndarray:
    """Rows (int32) of all n-grams of 2 to `most` words of a line, from the words' hashes in order."""
    hashes_T = np.asarray(hashes, np.int64).astype(np.uint32).view(np.int32)  # the same 32 bits, signed
    if not buckets or most < 2:
        return np.zeros(0, np.int32)
    out = np.empty(len(hashes_T) * (most - 1), np.int32)
    return out[: kernels.put_word_ngrams(hashes_T, len(hashes_T), most, buckets, offset, out, 0)].copy()


def output_tree(counts_V: np.ndarray) -> Tree:
    """Huffman's tree with fastText's choice among equals: what is joined goes before what is not.

    Every word counts a little less, so that a joined pair of the same count is the smaller one."""
    return huffman(counts_V.astype(np.int64) * (len(counts_V) + 1) - 1)
