"""Which tokens begin a word, and which a phrase of the user's lexicon: what whole words and phrases are masked by.

Cui et al. (2021) (whole words of Chinese, by a segmenter); Sun et al. (2019), section 3.2 (phrases and entities).
By a tokeniser's own marks: WordPiece's ## goes on with a word; Ġ, ▁ and white space come before one; </w> ends one. Of
tokens without marks, punctuation and Chinese characters are words by themselves. Where data.segmenter is jieba, the
characters of a Chinese word are pieces of one (`chinese_starts`). Phrases are looked for among the tokens of a
sentence, longest first; one begins and ends where a word does, and is missed where a piece runs over its edge.

V: vocabulary, N: tokens of sentences end to end, C: characters of them.
"""

from __future__ import annotations

import json
import unicodedata
from collections import defaultdict
from pathlib import Path

import numpy as np

from canon.data.batching.passages import INSIDE, PHRASE, SENTENCE, WORD
from canon.data.checking.measure import ANY_HAN, HAN
from canon.data.formats.files import lines
from canon.data.text.tokenizers import _BYTES, Tokenizer
from canon.errors import CanonError

LONGEST_PHRASE = 32  # tokens
_PARTIAL = "\ufffd"  # stands for bytes that are not a whole character
_COMMA = "，"
_HAN_BOUNDS = [0x3001, 0x303F, 0xFF00, 0xFFEF, *(ord(character) for character in HAN if character != "-")]
# White space up to U+3000, as str.isspace has it.
_SPACES = np.array([chr(code).isspace() for code in range(0x3001)])


class WordStarts:
    """starts [V]: tokens that begin a word whatever comes before; ends [V]: tokens after which a word begins."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = json.loads(tokenizer.to_json())["model"]
        vocabulary = tokenizer.vocabulary
        self.starts_V = np.ones(len(vocabulary), dtype=bool)
        self.ends_V = np.zeros(len(vocabulary), dtype=bool)
        if model["type"] == "WordPiece":
            prefix = model.get("continuing_subword_prefix") or "##"
            self.starts_V = np.array([not token.startswith(prefix) for token in vocabulary])
        elif suffix := model.get("end_of_word_suffix"):
            self.starts_V[:] = False
            self.ends_V = np.array([token.endswith(suffix) for token in vocabulary])
        elif model["type"] != "WordLevel":
            single = tokenizer.kind == "char"
            texts = [_spelled(token) for token in vocabulary] if tokenizer.keeps_space and not single else vocabulary
            self.starts_V = np.array([not text or text[0] in " ▁" or _alone(text[0]) for text in texts])
            # A lone mark of space belongs to the word after it; of characters it is one by itself.
            open_ends = (text[-1:] if single else text[-1:].strip(" ▁") for text in texts)
            self.ends_V = np.array([bool(last) and _alone(last) for last in open_ends])

    def mark(self, ids_N: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The bits WORD and SENTENCE of sentences of these lengths, uint8 [N]."""
        begins_N = self.starts_V[ids_N]
        begins_N[1:] |= self.ends_V[ids_N[:-1]]
        bits_N = begins_N.astype(np.uint8)  # WORD
        bits_N[(np.cumsum(lengths) - lengths)[lengths > 0]] |= WORD | SENTENCE
        return bits_N


def _spelled(token: str) -> str:
    """The text of a token of bytes, with U+FFFD for bytes that are not a whole character."""
    if not all(character in _BYTES for character in token):
        return token
    return bytes(_BYTES[character] for character in token).decode("utf-8", "replace")


def _alone(character: str) -> bool:
    """Whether a character is a word by itself: no letter, digit or mark on one, or a Chinese one."""
    if character == _PARTIAL:
        return False
    return unicodedata.category(character)[0] not in "LNM" or bool(ANY_HAN.match(character))


def chinese_starts(
    texts: list[str], segmented: bytes, places_N: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens that a segmenter decides on [N] bool; those of them that begin a word [N] bool).

    They are those of Chinese characters and marks, those that go on with a character, and the first after Chinese.

    segmented: the texts as lines, with spaces between words; all characters but spaces are the same in both.
    places_N: the place of each token's first character in its text; lengths: tokens of each text.
    """
    codes_C = _codes("\n".join(texts))
    solid_C = ~_is_space(codes_C)
    number_C = np.cumsum(solid_C) - 1  # of each character among those that are not spaces
    cut = _codes(segmented.decode())
    solid = ~_is_space(cut)
    first = solid.copy()
    first[1:] &= ~solid[:-1]
    starts = first[solid]
    assert len(starts) == int(solid_C.sum()), "a segmenter changes nothing but spaces"
    sizes = np.fromiter((len(text) + 1 for text in texts), dtype=np.int64, count=len(texts))
    place_N = places_N + np.repeat(np.cumsum(sizes) - sizes, lengths)
    fresh_N = np.ones(len(place_N), dtype=bool)
    fresh_N[1:] = place_N[1:] != place_N[:-1]  # a character of several tokens begins with the first of them
    place_N = np.minimum(place_N, len(codes_C) - 1)
    chinese_N = _is_chinese(codes_C[place_N])
    after_N = np.zeros(len(place_N), dtype=bool)
    after_N[1:] = chinese_N[:-1] & ~chinese_N[1:]
    starts_N = np.where(chinese_N, starts[number_C[place_N]] & solid_C[place_N], True)
    return chinese_N | after_N | ~fresh_N, starts_N & fresh_N


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def _is_space(codes: np.ndarray) -> np.ndarray:
    return _SPACES[np.minimum(codes, len(_SPACES) - 1)] & (codes < len(_SPACES))


def _is_chinese(codes: np.ndarray) -> np.ndarray:
    """Characters of measure.HAN, and the wide marks."""
    bounds = zip(_HAN_BOUNDS[::2], _HAN_BOUNDS[1::2], strict=True)
    return np.logical_or.reduce([(codes >= low) & (codes <= high) for low, high in bounds])


class Phrases:
    """The phrases of a file, one a line (what follows a tab is ignored), as they are tokenised within a text."""

    def __init__(self, path: Path, tokenizer: Tokenizer, encoding: str = "utf-8") -> None:
        phrases = (line.partition("\t")[0].strip() for line in lines(path, encoding))
        self.phrases = list(dict.fromkeys(filter(None, phrases)))
        if not self.phrases:
            raise CanonError(f"data.phrases: {path} has no phrases; write one on each line.")
        comma = tokenizer.encode_batch([_COMMA])[0].tolist()
        hashes: dict[int, set[int]] = defaultdict(set)
        # At a text's start, after a space, and after a mark without one, as Chinese is written.
        for before, skipped in (("", []), (" ", []), (_COMMA, comma)):
            ids, lengths = tokenizer.encode_batch([before + phrase for phrase in self.phrases])
            for row in np.split(ids, np.cumsum(lengths)[:-1]):
                if row[: len(skipped)].tolist() == skipped and 0 < len(row) - len(skipped) <= LONGEST_PHRASE:
                    phrase = row[len(skipped) :]
                    hashes[len(phrase)].add(int(_window_hashes(phrase, len(phrase))[0]))
        self._hashes = {size: np.array(sorted(known), dtype=np.uint64) for size, known in sorted(hashes.items())}

    def mark(self, ids_N: np.ndarray, bits_N: np.ndarray, edges_N: np.ndarray) -> None:
        """Sets PHRASE and INSIDE in bits_N; edges_N: where a phrase may begin, and the token after one."""
        edge_N = np.append(edges_N, True)
        sentence_N = np.cumsum(bits_N & SENTENCE > 0)
        taken_N = np.zeros(len(ids_N), dtype=bool)
        for size, known in reversed(self._hashes.items()):
            if size > len(ids_N):
                continue
            place = np.searchsorted(known, hashes := _window_hashes(ids_N, size))
            hit = known[np.minimum(place, len(known) - 1)] == hashes
            count = len(hit)
            hit &= edge_N[:count] & edge_N[size : size + count]
            hit &= sentence_N[:count] == sentence_N[size - 1 : size - 1 + count]
            for start in np.flatnonzero(hit).tolist():
                if not taken_N[start : start + size].any():
                    taken_N[start : start + size] = True
                    bits_N[start] |= PHRASE
                    bits_N[start + 1 : start + size] |= INSIDE


def _window_hashes(ids: np.ndarray, size: int) -> np.ndarray:
    """A hash of every `size` tokens side by side, uint64: Σ mix(id_j) · b^j modulo 2⁶⁴."""
    mixed = ids.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    count = len(ids) - size + 1
    total = np.zeros(count, dtype=np.uint64)
    for offset in range(size):
        total = total * np.uint64(0x9E3779B97F4A7C15) + mixed[offset : offset + count]
    return total
