"""The tokens of a text in memory-mapped files, kept in a folder and opened again; built shard by shard.

The folder is corpora/tokens-KEY in the cache (CANON_CACHE), KEY the hash of the text's files, the tokenizer and
the settings. It has four files, each one array end to end: tokens, begins (bits of passages.py), sentences (0, then
where each stops) and documents (0, then which sentence each stops before). A shard is a range of each; SHARD.json has
the ranges, their sha256, and how far the text was read, and is written when they are on the disk. After a kill the
next building goes on after the last whole shard. store.json is written when all are done.
Sizes and times of change are looked at whenever the folder is opened; where they differ, the shards are hashed, and
those that are damaged are built again in their place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from canon.data.batching.passages import Passages, passage_bounds, token_dtype
from canon.data.corpus.store import cannot_write, corpora_folder, key_of
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.token_blocks import Place, TextEncoder, TokenBlock
from canon.data.progress import Bar, bar
from canon.errors import CanonError
from canon.storage import write_bytes, write_text

VERSION = 2  # of the files that are kept
MANY = 1 << 20  # sentences of a text whose passages are kept too
PIECE = 1 << 22  # bytes that are hashed at a time
# Bytes before the first shard.
HEADS = {**dict.fromkeys(("tokens", "begins"), 0), **dict.fromkeys(("sentences", "documents"), 8)}


@dataclass(frozen=True)
class TokenCounts:
    """What is known of a text, or of a shard of it, once it was encoded."""

    documents: int = 0
    several: int = 0  # documents of two sentences or more
    sentences: int = 0
    tokens: int = 0
    bytes: int = 0  # of the text, in UTF-8
    unknown: int = 0  # tokens
    longest: int = 0  # tokens of a sentence

    def __add__(self, other: TokenCounts) -> TokenCounts:
        both = asdict(other)
        sums = {name: count + both[name] for name, count in asdict(self).items()}
        return TokenCounts(**{**sums, "longest": max(self.longest, other.longest)})


@dataclass(frozen=True)
class Shard:
    """Where a shard lies in each file, in bytes, what these are hashed to, and how far the text was read."""

    start: dict[str, int]
    stop: dict[str, int]
    sha256: dict[str, str]
    place: tuple[int, int]
    counts: TokenCounts
    last: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Shard:
        record = json.loads(text)
        counts = TokenCounts(**record.pop("counts"))
        return cls(**{**record, "place": tuple(record["place"]), "counts": counts})


@dataclass(frozen=True)
class Stored:
    folder: Path
    tokens: np.ndarray  # [T] uint16 or int32
    begins: np.ndarray  # [T] uint8
    sentences: np.ndarray  # [S+1] int64
    documents: np.ndarray  # [D+1] int64
    counts: TokenCounts = field(default_factory=TokenCounts)

    def passages(self, length: int, encoder: TextEncoder) -> Passages:
        arrays = self.tokens, self.begins, self.sentences, self.documents
        return Passages(*arrays, length, encoder.tokenizer.specials, encoder.tokenizer.size, self._bounds(length))

    def _bounds(self, length: int) -> np.ndarray:
        """The bounds of a long text's passages are kept in a file."""
        path = self.folder / f"passages-{length}"
        if len(self.sentences) <= MANY:
            return passage_bounds(self.sentences, self.documents, length)
        with suppress(OSError, ValueError, IndexError):
            offsets = np.memmap(path, dtype=np.int64, mode="r")
            # All that reading them relies on: they rise from the first token to the last.
            if offsets[0] == 0 and offsets[-1] == self.sentences[-1] and (offsets[1:] > offsets[:-1]).all():
                return offsets
        bounds = passage_bounds(self.sentences, self.documents, length)
        with suppress(CanonError):
            write_bytes(path, bounds.tobytes())
        return bounds


def stored(texts: TextStream, encoder: TextEncoder, total: int = 0) -> Stored:
    """The tokens of a text, opened or built. total: its bytes of UTF-8 where they are known, for the time left."""
    name = "tokens-" + key_of({"version": VERSION, "text": texts.identity(), "encoder": encoder.identity()})
    dtype = token_dtype(encoder.tokenizer.size)
    folder = corpora_folder() / name
    if (store := _open(folder, dtype)) is not None:
        return store
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            store = _open(folder, dtype)  # another process may have built it meanwhile
            if store is None:
                with bar("tokenising", total or texts.size, "bytes") as progress:
                    _build(folder, texts, encoder, dtype, progress)
                store = _open(folder, dtype)
    except OSError as mistake:
        needs = "the tokens of a text take about its own size, and those that were written are kept"
        raise cannot_write(folder.parent, mistake, needs) from None
    if store is None:
        raise CanonError(f"The tokens in {folder} were changed while they were written; start again.")
    return store


def _open(folder: Path, dtype: np.dtype) -> Stored | None:
    """The arrays in a folder; None if they are not there, not whole or damaged."""
    try:
        record = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        if any((folder / name).stat().st_size != size for name, size in record["sizes"].items()):
            return None
        if record["stamps"] != _stamps(folder):
            if len(_whole_shards(folder)) != record["shards"]:
                return None
            with suppress(CanonError):  # the folder may be read-only
                write_text(folder / "store.json", json.dumps({**record, "stamps": _stamps(folder)}))
        counts = TokenCounts(**{name: int(record["counts"][name]) for name in asdict(TokenCounts())})
        types = {"tokens": dtype, "begins": np.uint8, "sentences": np.int64, "documents": np.int64}
        arrays = {name: _mapped(folder / name, kind) for name, kind in types.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Stored(folder, **arrays, counts=counts)


def _mapped(path: Path, dtype: Any) -> np.ndarray:
    # Not as np.memmap, whose every slice is one again, which costs more than it gives.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")) if path.stat().st_size else np.empty(0, dtype=dtype)


def _stamps(folder: Path) -> dict[str, list[int]]:
    """Sizes and times of change, in nanoseconds."""
    states = {name: (folder / name).stat() for name in HEADS}
    return {name: [state.st_size, state.st_mtime_ns] for name, state in states.items()}


def _whole_shards(folder: Path) -> dict[int, Shard]:
    """By number, those whose bytes are as they were written."""
    shards: dict[int, Shard] = {}
    with ExitStack() as stack:
        try:
            files = {name: stack.enter_context((folder / name).open("rb")) for name in HEADS}
        except FileNotFoundError:
            return shards
        if any(files[name].read(head) != bytes(head) for name, head in HEADS.items()):
            return shards
        for path in sorted(folder.glob("[0-9]*.json")):
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                shard = Shard.from_json(path.read_text(encoding="utf-8"))
                if all(_hash(files[name], shard.start[name], shard.stop[name]) == shard.sha256[name] for name in HEADS):
                    shards[int(path.stem)] = shard
    return shards


def _hash(file: IO[bytes], start: int, stop: int) -> str:
    digest = hashlib.sha256()
    file.seek(start)
    while start < stop and (piece := file.read(min(PIECE, stop - start))):
        digest.update(piece)
        start += len(piece)
    return digest.hexdigest()


# Building


def _build(folder: Path, texts: TextStream, encoder: TextEncoder, dtype: np.dtype, progress: Bar) -> None:
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
        blocks: Generator[TokenBlock] | None = None
        while not (shards and shards[-1].last):
            start = shards[-1].stop if shards else HEADS
            known = whole.get(len(shards))
            if known is not None and known.start == start:
                shards.append(known)
                progress.advance(known.counts.bytes)
                blocks = None  # they went on with another shard
                continue
            if blocks is None:
                blocks = encoder.blocks(texts, Place(*shards[-1].place) if shards else Place())
                stack.callback(blocks.close)  # ends its processes, whatever happens
            before = sum((shard.counts for shard in shards), TokenCounts())
            shard = _write_shard(files, blocks, start, before, encoder.tokenizer.specials.unk, dtype, progress)
            write_text(folder / f"{len(shards):06d}.json", shard.to_json())
            shards.append(shard)
        for name, file in files.items():
            file.truncate(shards[-1].stop[name])
    for path in folder.glob("[0-9]*.json"):  # of a text that was cut otherwise
        if int(path.stem) >= len(shards):
            path.unlink()
    counts = asdict(sum((shard.counts for shard in shards), TokenCounts()))
    record = {"shards": len(shards), "sizes": shards[-1].stop, "stamps": _stamps(folder), "counts": counts}
    write_text(folder / "store.json", json.dumps(record, indent=1))


def _write_shard(
    files: dict[str, IO[bytes]],
    blocks: Iterator[TokenBlock],
    start: dict[str, int],
    before: TokenCounts,
    unknown: int,
    dtype: np.dtype,
    progress: Bar,
) -> Shard:
    """The next shard of `blocks`, on the disk when this returns. before: of the shards before it."""
    for name, file in files.items():
        file.seek(start[name])
    stop = dict(start)
    digests = {name: hashlib.sha256() for name in HEADS}
    counts = TokenCounts()
    for encoded, batch in blocks:
        sizes = np.diff(encoded.documents, prepend=0)  # sentences of each document
        arrays = {
            "tokens": encoded.tokens.astype(dtype),
            "begins": encoded.begins,
            "sentences": encoded.sentences + (before.tokens + counts.tokens),
            "documents": encoded.documents + (before.sentences + counts.sentences),
        }
        for name, values in arrays.items():
            raw = values.tobytes()
            files[name].write(raw)
            digests[name].update(raw)
            stop[name] += len(raw)
        counts += TokenCounts(
            documents=len(encoded.documents),
            several=int((sizes > 1).sum()),
            sentences=len(encoded.sentences),
            tokens=len(encoded.tokens),
            bytes=batch.size,
            unknown=int((encoded.tokens == unknown).sum()),
            longest=int(np.diff(encoded.sentences, prepend=0).max(initial=0)),
        )
        progress.advance(batch.size)
        if batch.ends_shard:
            break
    for file in files.values():
        file.flush()
        os.fsync(file.fileno())
    hashes = {name: digest.hexdigest() for name, digest in digests.items()}
    return Shard(start, stop, hashes, (batch.place.file, batch.place.documents), counts, batch.ends_text)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process builds a folder at a time; the others wait until it is built."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
