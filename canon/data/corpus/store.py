"""What a text was made into: word numbers in memory-mapped files, kept in a folder and found again.

The folder is corpora/KEY beside CANON_DATA (catalogue.py), KEY the hash of the text's files and of the settings. It has
words.tsv, PART.i32 for every part, and corpus.json with their sizes; written under another name first, it is whole or
absent.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.catalogue import corpora_folders
from canon.data.corpus.word_counts import Told
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.storage import read_json, sync_file, write_text

MARK = -1  # ends a sentence, which is a line of the text
CHUNK = 1 << 22  # places that are looked at at a time
STALE = 2 * 86400.0  # seconds after which what an interrupted build has left behind is removed
VERSION = 1  # of the files that are kept


def num_words(tokens: np.ndarray) -> int:
    """How many places are no marks."""
    parts = (tokens[start : start + CHUNK] for start in range(0, len(tokens), CHUNK))
    return sum(int(np.count_nonzero(part != MARK)) for part in parts)


class Corpus:
    """The text as word numbers, end to end: `tokens` [N] int32 are rows of `words`, or MARK where a sentence ends.

    Words that `words` lacks are left out, and no two marks follow each other. One example is one place, marks among
    them; some examples side by side are a corpus again.
    """

    running = True

    def __init__(self, tokens: np.ndarray, words: Words) -> None:
        assert tokens.dtype == np.int32 and tokens.ndim == 1
        self.tokens = tokens
        self.words = words

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self),)

    @property
    def dtype(self) -> np.dtype:
        return self.tokens.dtype

    @property
    def num_words(self) -> int:
        return num_words(self.tokens)

    def part(self, start: int, stop: int) -> Corpus:
        """The places [start, stop): a view, nothing is copied."""
        return Corpus(self.tokens[start:stop], self.words)

    def take(self, indices: np.ndarray) -> Corpus:
        """The places at `indices`, which must lie side by side: a text has its order."""
        if not len(indices):
            return self.part(0, 0)
        start = int(indices[0])
        assert np.array_equal(indices, np.arange(start, start + len(indices))), "a text is taken in one piece"
        return self.part(start, start + len(indices))


@dataclass(frozen=True)
class Built:
    words: Words
    parts: dict[str, Corpus]
    told: Told


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def kept(content: dict[str, Any], make: Callable[[Path], tuple[Words, Told]]) -> Built:
    """What `make` wrote into a folder when it was first asked for this content; whole or absent."""
    key = digest(json.dumps({"version": VERSION, **content}, sort_keys=True))[:32]
    places = corpora_folders()
    for place in places:
        found = _open(place / key)
        if found is not None:
            return found
    place = places[-1]
    try:
        place.mkdir(parents=True, exist_ok=True)
        _remove_stale(place)
        folder = Path(tempfile.mkdtemp(prefix="writing-", dir=place))
        try:
            words, told = make(folder)
            sizes = {path.stem: path.stat().st_size // 4 for path in sorted(folder.glob("*.i32"))}
            write_text(folder / "words.tsv", words.to_text())
            for path in folder.glob("*.i32"):
                sync_file(path)
            write_text(folder / "corpus.json", json.dumps({"sizes": sizes, "told": asdict(told)}, indent=1))
            shutil.rmtree(place / key, ignore_errors=True)  # damaged, else it had been opened
            folder.chmod(0o755)  # a temporary folder is its owner's alone
            folder.rename(place / key)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as mistake:
        if mistake.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was first: then all is there
            raise _cannot_write(place, mistake) from None
    found = _open(place / key)
    if found is None:
        raise CanonError(f"The corpus in {place / key} was removed while it was written; start again.")
    return found


def _open(folder: Path) -> Built | None:
    """The words and parts in a folder; None if it is not there or not whole."""
    try:
        known = read_json(folder / "corpus.json")
        words = Words.from_text((folder / "words.tsv").read_text(encoding="utf-8"))
        parts = {}
        for name, size in known["sizes"].items():
            path = folder / f"{name}.i32"
            if path.stat().st_size != 4 * size:
                return None
            tokens = np.memmap(path, dtype=np.int32, mode="r") if size else np.empty(0, np.int32)
            if not _within(tokens, words.size):
                return None
            parts[name] = Corpus(tokens, words)
        return Built(words, parts, Told(**{name: int(known["told"][name]) for name in asdict(Told())}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _within(tokens: np.ndarray, size: int) -> bool:
    """Whether every number is a word's or MARK: any other would reach beyond a table."""
    parts = (tokens[start : start + CHUNK] for start in range(0, len(tokens), CHUNK))
    return all(part.min() >= MARK and part.max() < size for part in parts)


def _remove_stale(place: Path) -> None:
    for folder in place.glob("writing-*"):
        if time.time() - folder.stat().st_mtime > STALE:
            shutil.rmtree(folder, ignore_errors=True)


def _cannot_write(place: Path, mistake: OSError) -> CanonError:
    if mistake.errno in (errno.ENOSPC, errno.EDQUOT):
        return CanonError(f"The disk of {place} is full: a corpus takes 4 bytes a word; CANON_DATA chooses another.")
    return CanonError(f"{place} cannot be written: {mistake.strerror or mistake}; CANON_DATA chooses another folder.")
