"""The tokens of a text in memory-mapped files, kept in a folder and found again; built shard by shard.

The folder is corpora/tokens-KEY beside CANON_DATA (catalogue.py), KEY the hash of the text's files, the tokenizer and
the settings. It has four files, each one array end to end: tokens, begins (bits of passages.py), sentences (0, then
where each stops) and documents (0, then which sentence each stops before). A shard is a range of each; SHARD.json has
the ranges, their sha256, and how far the text was read, and is written when they are on the disk. After a kill the
next building goes on behind the last whole shard. store.json is written when all are done.
Sizes and times of change are looked at whenever the folder is opened; where they differ, the shards are hashed, and
those that are damaged are built anew in their place.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from canon.data.batching.passages import Passages, passage_bounds, token_dtype
from canon.data.catalogue import corpora_folders
from canon.data.corpus.text_blocks import Texts
from canon.data.corpus.token_blocks import Block, Place, TextEncoder
from canon.data.progress import Bar, bar
from canon.errors import CanonError
from canon.storage import write_bytes, write_text

VERSION = 1  # of the files that are kept
MANY = 1 << 20  # sentences of a text whose passages are kept too
PIECE = 1 << 22  # bytes that are hashed at a time
HEADS = {"tokens": 0, "begins": 0, "sentences": 8, "documents": 8}  # bytes before the first shard


@dataclass(frozen=True)
class Told:
    """What is known of a text, or of a shard of it, once it was encoded."""

    documents: int = 0
    several: int = 0  # documents of two sentences or more
    sentences: int = 0
    tokens: int = 0
    bytes: int = 0  # of the text, in UTF-8
    unknown: int = 0  # tokens
    longest: int = 0  # tokens of a sentence

    def plus(self, other: Told) -> Told:
        sums = {name: getattr(self, name) + getattr(other, name) for name in asdict(self)}
        return Told(**{**sums, "longest": max(self.longest, other.longest)})


@dataclass(frozen=True)
class Shard:
    """Where a shard lies in each file, in bytes, what these are hashed to, and how far the text was read behind it."""

    start: dict[str, int]
    stop: dict[str, int]
    sha256: dict[str, str]
    place: tuple[int, int]
    told: Told
    last: bool = False


@dataclass(frozen=True)
class Stored:
    folder: Path
    tokens: np.ndarray  # [T] uint16 or int32
    begins: np.ndarray  # [T] uint8
    sentences: np.ndarray  # [S+1] int64
    documents: np.ndarray  # [D+1] int64
    told: Told = field(default_factory=Told)

    def passages(self, length: int, encoder: TextEncoder) -> Passages:
        own = encoder.tokenizer
        arrays = self.tokens, self.begins, self.sentences, self.documents
        return Passages(*arrays, length, own.specials, own.size, self._bounds(length))

    def _bounds(self, length: int) -> np.ndarray:
        """Passages of a long text are found once."""
        path = self.folder / f"passages-{length}"
        if len(self.sentences) <= MANY:
            return passage_bounds(self.sentences, self.documents, length)
        with suppress(OSError, ValueError, IndexError):
            known = np.memmap(path, dtype=np.int64, mode="r")
            # All that reading them relies on: they rise from the first token to the last.
            if known[0] == 0 and known[-1] == self.sentences[-1] and (known[1:] > known[:-1]).all():
                return known
        found = passage_bounds(self.sentences, self.documents, length)
        with suppress(CanonError):
            write_bytes(path, found.tobytes())
        return found


def stored(texts: Texts, encoder: TextEncoder, total: int = 0) -> Stored:
    """The tokens of a text: found, or built. total: its bytes of UTF-8 where they are known, to tell the time left."""
    content = {"version": VERSION, "text": texts.identity(), "encoder": encoder.identity()}
    name = "tokens-" + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
    dtype = token_dtype(encoder.tokenizer.size)
    places = corpora_folders()
    for place in places:
        if (found := _open(place / name, dtype)) is not None:
            return found
    folder = places[-1] / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            found = _open(folder, dtype)  # another process may have built it meanwhile
            if found is None:
                with bar("tokenising", total or texts.size, "bytes") as progress:
                    _build(folder, texts, encoder, dtype, progress)
                found = _open(folder, dtype)
    except OSError as mistake:
        raise _cannot_write(places[-1], mistake) from None
    if found is None:
        raise CanonError(f"The tokens in {folder} were changed while they were written; start again.")
    return found


def _open(folder: Path, dtype: np.dtype) -> Stored | None:
    """The arrays in a folder; None if they are not there, not whole or damaged."""
    try:
        known = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        if any((folder / name).stat().st_size != size for name, size in known["sizes"].items()):
            return None
        if known["stamps"] != _stamps(folder):
            if len(_whole_shards(folder)) != known["shards"]:
                return None
            with suppress(CanonError):  # another's folder may be read alone
                write_text(folder / "store.json", json.dumps({**known, "stamps": _stamps(folder)}))
        told = Told(**{name: int(known["told"][name]) for name in asdict(Told())})
        types = {"tokens": dtype, "begins": np.uint8, "sentences": np.int64, "documents": np.int64}
        arrays = {name: _mapped(folder / name, kind) for name, kind in types.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Stored(folder, **arrays, told=told)


def _mapped(path: Path, dtype: Any) -> np.ndarray:
    # Not as np.memmap, whose every slice is one again, which costs more than it gives.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")) if path.stat().st_size else np.empty(0, dtype=dtype)


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Sizes and times of change, in nanoseconds."""
    found = {name: (folder / name).stat() for name in HEADS}
    return {name: [state.st_size, state.st_mtime_ns] for name, state in found.items()}


def _whole_shards(folder: Path) -> dict[int, Shard]:
    """By number, those whose bytes are as they were written."""
    found: dict[int, Shard] = {}
    with ExitStack() as stack:
        try:
            files = {name: stack.enter_context((folder / name).open("rb")) for name in HEADS}
        except FileNotFoundError:
            return found
        if any(files[name].read(head) != bytes(head) for name, head in HEADS.items()):
            return found
        for path in sorted(folder.glob("[0-9]*.json")):
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                known = json.loads(path.read_text(encoding="utf-8"))
                shard = Shard(**{**known, "place": tuple(known["place"]), "told": Told(**known["told"])})
                if all(_hash(files[name], shard.start[name], shard.stop[name]) == shard.sha256[name] for name in HEADS):
                    found[int(path.stem)] = shard
    return found


def _hash(file: IO[bytes], start: int, stop: int) -> str:
    digest = hashlib.sha256()
    file.seek(start)
    while start < stop and (piece := file.read(min(PIECE, stop - start))):
        digest.update(piece)
        start += len(piece)
    return digest.hexdigest()


# Building


def _build(folder: Path, texts: Texts, encoder: TextEncoder, dtype: np.dtype, progress: Bar) -> None:
    """All shards that are not there or damaged, then store.json."""
    (folder / "store.json").unlink(missing_ok=True)
    whole = _whole_shards(folder)
    shards: list[Shard] = []
    with ExitStack() as stack:
        files: dict[str, IO[bytes]] = {}
        for name, head in HEADS.items():
            (folder / name).touch()
            files[name] = stack.enter_context((folder / name).open("r+b"))
            files[name].write(bytes(head))
        blocks: Iterator[Block] | None = None
        while not (shards and shards[-1].last):
            start = shards[-1].stop if shards else HEADS
            known = whole.get(len(shards))
            if known is not None and known.start == start:
                shards.append(known)
                progress.advance(known.told.bytes)
                blocks = None  # they went on with another shard
                continue
            if blocks is None:
                blocks = encoder.blocks(texts, Place(*shards[-1].place) if shards else Place())
            before = _sums(shards)
            made = _write_shard(files, blocks, start, before, encoder.tokenizer.specials.unk, dtype, progress)
            write_text(folder / f"{len(shards):06d}.json", json.dumps(asdict(made), indent=1))
            shards.append(made)
        for name, file in files.items():
            file.truncate(shards[-1].stop[name])
    for path in folder.glob("[0-9]*.json"):  # of a text that was cut otherwise
        if int(path.stem) >= len(shards):
            path.unlink()
    record = {
        "shards": len(shards),
        "sizes": shards[-1].stop,
        "stamps": _stamps(folder),
        "told": asdict(_sums(shards)),
    }
    write_text(folder / "store.json", json.dumps(record, indent=1))


def _sums(shards: list[Shard]) -> Told:
    total = Told()
    for shard in shards:
        total = total.plus(shard.told)
    return total


def _write_shard(
    files: dict[str, IO[bytes]],
    blocks: Iterator[Block],
    start: dict[str, int],
    before: Told,
    unknown: int,
    dtype: np.dtype,
    progress: Bar,
) -> Shard:
    """The next shard of `blocks`, on the disk when this returns. before: of the shards before it."""
    for name, file in files.items():
        file.seek(start[name])
    stop = dict(start)
    digests = {name: hashlib.sha256() for name in HEADS}
    told, length = Told(), 0  # length: sentences of the document that is not yet over
    for block in blocks:
        counts = np.diff(block.documents, prepend=-length)  # sentences of each document that ends in the block
        length = len(block.sentences) + length if not len(counts) else len(block.sentences) - int(block.documents[-1])
        lengths = np.diff(block.sentences, prepend=0)
        arrays = {
            "tokens": block.tokens.astype(dtype),
            "begins": block.begins,
            "sentences": block.sentences + (before.tokens + told.tokens),
            "documents": block.documents + (before.sentences + told.sentences),
        }
        for name, values in arrays.items():
            raw = values.tobytes()
            files[name].write(raw)
            digests[name].update(raw)
            stop[name] += len(raw)
        more = Told(
            len(block.documents),
            int((counts > 1).sum()),
            len(block.sentences),
            len(block.tokens),
            block.batch.size,
            int((block.tokens == unknown).sum()),
            int(lengths.max(initial=0)),
        )
        told = told.plus(more)
        progress.advance(block.batch.size)
        if block.batch.ends_shard:
            break
    for file in files.values():
        file.flush()
        os.fsync(file.fileno())
    hashes = {name: digest.hexdigest() for name, digest in digests.items()}
    place = block.batch.place
    return Shard(start, stop, hashes, (place.file, place.documents), told, block.batch.ends_text)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process builds a folder at a time; the others wait, and find it built."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cannot_write(place: Path, mistake: OSError) -> CanonError:
    if mistake.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(place).free >> 20
        return CanonError(
            f"The disk of {place} is full ({free:,} MB left): a text takes about its own size; remove what is not "
            "needed, or choose another with CANON_DATA, and start again: what was built is kept."
        )
    return CanonError(f"{place} cannot be written: {mistake.strerror or mistake}; CANON_DATA chooses another folder.")
