"""How often any two words stand near each other in a corpus: counted exactly, in bounded memory, kept on disk.

Pennington, Socher and Manning 2014, GloVe, section 4.2: X_ij = Σ 1/d over all places where word j is d ≤ window words
away from word i, on either side, within a sentence (a line of the text, where words that are not kept are left out).
The text is taken in stretches that fit `memory` (cooccurrence_counts.py); what they give goes to disk, sorted, and is
added up. X is symmetric, so a pair is kept once, with the rarer word, the greater number, as its row.
Sums are whole numbers of 1/lcm(1 … window): exact, whatever the order, the memory and the threads. (Beyond a window of
22 words that unit grows too small; weights are then rounded to 1e-7 of their size.)
Kept are (row, column, count) in `num_parts` parts: every part is an even sample of all pairs, in random order but for
bands of rows that stay together, so that who reads them in this order finds most rows in the processor's cache.
Shapes: N places of the text, V words, E pairs.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from canon.data.catalogue import corpora_folders
from canon.data.corpus.cooccurrence_counts import ENTRY, Counter, bounds_of, shuffle
from canon.errors import CanonError
from canon.storage import read_json, sync_file, write_text

_PART = 1 << 18  # entries of a part, about
_LEAST_PARTS = 64  # so that few entries too come in several orders
_VERSION = 1


@dataclass(frozen=True)
class Cooccurrence:
    """The pairs of a text in the order to learn them in."""

    entries: np.ndarray  # [E] of ENTRY: column ≤ row, each pair once
    num_diagonal: int  # pairs of a word with itself
    num_parts: int

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def num_nonzero(self) -> int:
        """Entries of the whole symmetric matrix that are not zero."""
        return 2 * len(self.entries) - self.num_diagonal

    @cached_property
    def bounds(self) -> np.ndarray:
        """Where each part begins, and the end: int64 [parts + 1]."""
        return bounds_of(len(self.entries), self.num_parts)


def kept(tokens_N: np.ndarray, vocab_size: int, window: int, memory: int, threads: int = 1) -> Cooccurrence:
    """`count`, or what it gave when it was last asked for this text; beside the corpora (canon.data.corpus.corpus)."""
    content = {"version": _VERSION, "words": vocab_size, "window": window, "text": _digest(tokens_N)}
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
    places = corpora_folders()
    for place in places:
        found = _open(place / f"pairs-{key}", vocab_size)
        if found is not None:
            return found
    place = places[-1]
    final = place / f"pairs-{key}"
    with _writing(place):
        place.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="writing-", dir=place))
        try:
            _write(folder, tokens_N, vocab_size, window, memory, threads)
            sync_file(folder / "entries.bin")  # before the folder has its name
            if _open(final, vocab_size) is None:  # absent, or damaged
                shutil.rmtree(final, ignore_errors=True)
            folder.rename(final)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    found = _open(final, vocab_size)
    if found is None:
        raise CanonError(f"The counts in {final} were removed while they were written; start again.")
    return found


def count(
    tokens_N: np.ndarray, vocab_size: int, window: int, memory: int = 1024, threads: int = 1, place: Path | None = None
) -> Cooccurrence:
    """The co-occurrences of a text, in a temporary folder (below `place`) that goes when they do.

    memory: MB that the counting takes, about; vocab_size: words are below it.
    """
    with _writing(place or Path(tempfile.gettempdir())):
        folder = Path(tempfile.mkdtemp(prefix="canon-pairs-", dir=place))
        try:
            _write(folder, tokens_N, vocab_size, window, memory, threads)
            found = _open(folder, vocab_size)
            assert found is not None
            weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
            return found
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _digest(tokens_N: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(tokens_N).data).hexdigest()


def _open(folder: Path, vocab_size: int) -> Cooccurrence | None:
    """What `_write` has left in a folder; None if it is not there or not whole."""
    try:
        known = read_json(folder / "pairs.json")
        path = folder / "entries.bin"
        if path.stat().st_size != known["pairs"] * ENTRY.itemsize:
            return None
        entries_E = np.memmap(path, dtype=ENTRY, mode="r") if known["pairs"] else np.empty(0, ENTRY)
        if not 0 <= known["diagonal"] <= known["pairs"] or not known["parts"] > 0:
            return None
        return Cooccurrence(entries_E, int(known["diagonal"]), int(known["parts"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as mistake:
        if mistake.errno in (errno.EEXIST, errno.ENOTEMPTY):  # another process was first: then all is there
            return
        if mistake.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CanonError(
                f"The disk of {place} is full: co-occurrences take {2 * ENTRY.itemsize} bytes a pair of words while "
                "they are made; free some room, or raise data.min_count."
            ) from None
        raise CanonError(
            f"{place} cannot be written: {mistake.strerror or mistake}; CANON_DATA chooses another folder."
        ) from None


def _write(folder: Path, tokens_N: np.ndarray, vocab_size: int, window: int, memory: int, threads: int) -> None:
    """entries.bin and pairs.json: counted, then dealt out to the parts."""
    view_N = np.asarray(tokens_N).view()
    view_N.flags.writeable = False
    counter = Counter(view_N, vocab_size, window, memory << 20, threads)
    diagonal = counter.write(folder / "sorted.bin")
    size = (folder / "sorted.bin").stat().st_size // ENTRY.itemsize
    num_parts = max(_LEAST_PARTS, -(-size // _PART))
    shuffle(folder / "sorted.bin", folder / "entries.bin", num_parts, threads)
    (folder / "sorted.bin").unlink()
    write_text(folder / "pairs.json", json.dumps({"pairs": size, "diagonal": diagonal, "parts": num_parts}))
