"""What a text was made into: word numbers in memory-mapped files, kept in a folder and opened again.

The folder is corpora/KEY in the cache (CANON_CACHE), KEY the hash of the text's files and of the settings. It has
words.tsv, PART.i32 for every part, and corpus.json with their sizes; written under another name first, it is whole or
absent (`kept`, which keeps other things too).
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from canon.data.batching.sequences import RowColumn
from canon.data.corpus.word_counts import SEGMENTED, TextCounts
from canon.data.schema import Running
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.storage import cache_folder, read_json, sync_file, write_text

MARK = -1  # ends a sentence, which is a line of the text
CHUNK = 1 << 22  # places that are looked at at a time
STALE = 2 * 86400.0  # seconds after which the folder of an interrupted build is removed
VERSION = 2  # of the files that are kept

Opened = TypeVar("Opened")


def chunks(tokens: np.ndarray, start: int, stop: int) -> Iterator[np.ndarray]:
    return (tokens[first : min(first + CHUNK, stop)] for first in range(start, stop, CHUNK))


def num_words(tokens: np.ndarray) -> int:
    """How many places are words and not marks."""
    return sum(int(np.count_nonzero(chunk != MARK)) for chunk in chunks(tokens, 0, len(tokens)))


class Corpus(RowColumn, Running):
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
    def num_words(self) -> int:
        return num_words(self.tokens)

    def part(self, start: int, stop: int) -> Corpus:
        """The places [start, stop): a view, nothing is copied."""
        return Corpus(self.tokens[start:stop], self.words)

    def take(self, indices: np.ndarray) -> Corpus:
        """The places at `indices`, which must lie side by side: a text has its order."""
        start = int(indices[0]) if len(indices) else 0
        assert np.array_equal(indices, np.arange(start, start + len(indices))), "a text is taken in one piece"
        return self.part(start, start + len(indices))


@dataclass(frozen=True)
class Built:
    words: Words
    parts: dict[str, Corpus]
    counts: TextCounts


def corpora_folder() -> Path:
    """Where texts in numbers are kept."""
    return cache_folder() / "corpora"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(content: dict[str, Any]) -> str:
    """The name of a folder for what is made of this content."""
    return digest(json.dumps(content, sort_keys=True))[:32]


def kept(name: str, opened: Callable[[Path], Opened | None], make: Callable[[Path], None], needs: str) -> Opened:
    """What `opened` reads of the folder of this name in the cache; where there is none that is whole, `make` writes one
    first. `needs` says for the error of a full disk how much room that takes."""
    final = corpora_folder() / name
    if (content := opened(final)) is not None:
        return content
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        for folder in final.parent.glob("writing-*"):
            if time.time() - folder.stat().st_mtime > STALE:
                shutil.rmtree(folder, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix="writing-", dir=final.parent))
        try:
            make(folder)
            if opened(final) is None:  # absent, or damaged
                shutil.rmtree(final, ignore_errors=True)
            folder.chmod(0o755)  # a temporary folder is for its owner alone
            folder.rename(final)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as mistake:
        if mistake.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was first: then all is there
            raise cannot_write(final.parent, mistake, needs) from None
    if (content := opened(final)) is None:
        raise CanonError(f"{final} was removed while it was written; start again.")
    return content


def cannot_write(place: Path, mistake: OSError, needs: str) -> CanonError:
    if mistake.errno not in (errno.ENOSPC, errno.EDQUOT):
        return CanonError(
            f"{place} cannot be written: {mistake.strerror or mistake}; set CANON_CACHE to choose another folder."
        )
    return CanonError(
        f"The disk of {place} is full: {needs}; free some room, or set CANON_CACHE to choose another folder, and start "
        "again."
    )


def kept_corpus(content: dict[str, Any], make: Callable[[Path], tuple[Words, TextCounts]]) -> Built:
    """The words and parts that `make` wrote into a folder when it was first asked for this content."""

    def write(folder: Path) -> None:
        words, counts = make(folder)
        (folder / SEGMENTED).unlink(missing_ok=True)
        sizes = {path.stem: path.stat().st_size // 4 for path in sorted(folder.glob("*.i32"))}
        write_text(folder / "words.tsv", words.to_text())
        for path in folder.glob("*.i32"):
            sync_file(path)
        write_text(folder / "corpus.json", json.dumps({"sizes": sizes, "counts": asdict(counts)}, indent=1))

    return kept(key_of({"version": VERSION, **content}), _open, write, "a corpus takes 4 bytes a word")


def _open(folder: Path) -> Built | None:
    """The words and parts in a folder; None if it is not there or not whole."""
    try:
        record = read_json(folder / "corpus.json")
        words = Words.from_text((folder / "words.tsv").read_text(encoding="utf-8"))
        parts = {}
        for name, size in record["sizes"].items():
            path = folder / f"{name}.i32"
            if path.stat().st_size != 4 * size:
                return None
            tokens = np.memmap(path, dtype=np.int32, mode="r") if size else np.empty(0, np.int32)
            if not all(chunk.min() >= MARK and chunk.max() < words.size for chunk in chunks(tokens, 0, size)):
                return None  # any other number would reach beyond a table
            parts[name] = Corpus(tokens, words)
        return Built(words, parts, TextCounts(**{name: int(record["counts"][name]) for name in asdict(TextCounts())}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
