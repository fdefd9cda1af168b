"""`canon encode` and `canon search`: a folder of vectors, how it is filled, and how it is searched.

Encoding goes through the input in chunks of fixed size; meta.json records the input, so that a killed encoding
continues where it stopped. A folder is searched by vectors (exact, or a graph), by words (BM25), or by both with
reciprocal ranks: Cormack, Clarke and Büttcher 2009, score = Σ 1/(60 + rank).
Shapes: n rows, Q queries, K results, D features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.data.progress import bar
from canon.data.schema import FileRecord
from canon.errors import CanonError, unknown
from canon.use.search import precision as bits
from canon.use.search.bm25 import BM25
from canon.use.search.exact import exact, nearest_rows, rescored
from canon.use.search.graph import Graph
from canon.use.search.inputs import rows_of
from canon.use.search.store import INDEX, Store, finish_compacting, is_vacant

if TYPE_CHECKING:
    from canon.figures import Figure
    from canon.use.encoder import Encoder

METHODS = ("vectors", "bm25", "hybrid")
INDEXES = ("exact", "hnsw")
_CHUNK = 2048  # rows
_SEEN = 1000  # rows by which recall and overlap are measured
_TOP = 10  # of these
_FUSED = 60  # of reciprocal ranks
_MAPPED = 2000  # rows of a map
_DEPTH = 100  # results of each list that are merged
_MINED = 1 << 22  # results at a time from which negatives are taken
_JOBS = {"files": "list of files", "prompt": "--prompt", "column": "--column", "precision": "--precision"}

Say = Callable[[str], None]


def _quiet(text: str) -> None:
    """Says nothing."""


def encode(
    model: str | Path,
    files: Sequence[str | Path],
    out: str | Path,
    *,
    add: bool = False,
    precision: str = "float32",
    pooling: Sequence[str] = (),
    prompt: str = "",
    column: str = "",
    say: Say = _quiet,
) -> VectorFolder:
    """Writes a vector for every row of the files, in their order, to the folder `out`; continues what a killed process
    left half done. add: appends to the rows of the folder."""
    from canon.use.encoder import Encoder, as_plain

    if not files:
        raise CanonError("There is nothing to encode: name a file.")
    path, encoder = Path(out), Encoder.open(model, pooling)
    records = [FileRecord.of(Path(file)) for file in files if Path(file).is_file()]
    text, rows = encoder.prompt(prompt), rows_of(files, column, say)
    first = next(rows, None)
    if first is None:
        raise CanonError(f"{', '.join(map(str, files))}: no text to encode.")
    dtype, width = bits.width(precision, encoder.dim)
    job = {
        "files": [[record.name, record.sha256] for record in records],
        "prompt": prompt or encoder.config.prompt,
        "column": column,
        "precision": precision,
    }
    finish_compacting(path)
    if is_vacant(path):
        meta = {
            "model": str(Path(model).expanduser().resolve()),
            "sha256": encoder.digest,
            **as_plain(encoder.config),
            "asked_pooling": list(pooling),
            "prompt": job["prompt"],
            "precision": precision,
            "dim": encoder.dim,
            "truncated": 0,
            "empty": 0,
            "named": False,
            "sources": [],
            "pending": {**job, "base": 0},
        }
        store = Store.create(path, meta, dtype, width)
    else:
        store = Store.open(path)
        if store.meta["sha256"] != encoder.digest:
            raise CanonError(
                f"{path} was encoded by {store.meta['model']} (sha256 {store.meta['sha256'][:12]}…), which is not "
                f"{model} ({encoder.digest[:12]}…): encode into another folder."
            )
        pending = store.meta.get("pending")
        if pending is not None:
            if other := [_JOBS[name] for name, value in job.items() if pending[name] != value]:
                raise CanonError(
                    f"{path} is half encoded with another {' and '.join(other)}: give the same, or another folder."
                )
            say(f"{path} continues after {len(store) - pending['base']:,} rows.")
        elif not add:
            raise CanonError(f"{path} already exists: add --add to append to it, or give another name.")
        else:
            if (store.meta["precision"], store.meta["dim"]) != (precision, encoder.dim) and precision != "float32":
                raise CanonError(f"{path} holds vectors in {store.meta['precision']}: leave --precision out.")
            if store.meta["prompt"] != job["prompt"]:
                had = f'with the prompt "{store.meta["prompt"]}"' if store.meta["prompt"] else "without a prompt"
                raise CanonError(f"{path} was encoded {had}: give the same (--prompt), or another folder.")
            store.meta["pending"] = {**job, "base": len(store)}
            store.save()
    folder = VectorFolder(store)
    _fill(folder, encoder, chain([first], rows), text, say)
    store.meta["sources"].append({key: value for key, value in store.meta.pop("pending").items() if key != "base"})
    store.meta["pending"] = None
    store.save()
    for name, what in (("truncated", f"longer than {encoder.schema.limit} tokens and cut"), ("empty", "empty")):
        if store.meta[name]:
            say(f"{store.meta[name]:,} of {len(store):,} texts are {what}.")
    if store.meta["named"] and (repeated := store.repeated_ids()):
        say(f"{repeated:,} of {len(folder):,} rows have the id of an earlier row; --remove takes out all that have it.")
    folder.extend_indexes(say)
    return folder


def _fill(folder: VectorFolder, encoder: Encoder, rows: Iterator[dict[str, Any]], prompt: str, say: Say) -> None:
    store, base = folder.store, folder.store.meta["pending"]["base"]
    store.begin()
    done = len(store) - base
    for _ in islice(rows, done):
        pass
    with bar("encoding", 0, unit="texts") as progress:
        while some := list(islice(rows, _CHUNK)):
            texts = [row["text"] for row in some]
            encoded = encoder.encode(texts, prompt)
            bad = ~np.isfinite(encoded.vectors).all(axis=1)
            if bad.any():
                row = len(store) - base + int(bad.argmax())
                raise CanonError(f"Row {row + 1} of the input has a vector with numbers that are not finite.")
            kind = store.meta["precision"]
            if kind == "int8" and folder.ranges is None:
                np.save(store.path / "ranges.npy", bits.ranges_of(encoded.vectors))
            stored = bits.to_stored(encoded.vectors, kind, folder.ranges)
            # Numbers go on after all that were ever given, so that no row takes the number of one that was removed.
            numbered = [{"id": store.meta["next_id"] + place, **row} for place, row in enumerate(some)]
            store.meta["next_id"] += len(some)
            store.meta["named"] |= any("id" in row for row in some)
            store.meta["truncated"] += encoded.truncated
            store.meta["empty"] += encoded.empty
            if not len(store) and kind != "float32" and len(some) > _TOP:
                share = _overlap(encoded.vectors, stored, kind, folder.ranges)
                store.meta["overlap"] = share
                say(
                    f"{kind}: {share:.1%} of the {_TOP} nearest of {min(len(some), _SEEN):,} rows are those of float32."
                )
            store.append(stored, numbered)
            progress.advance(len(some))


def texts_of(model: str | Path, texts: Sequence[str], pooling: Sequence[str] = (), prompt: str = "") -> list[Any]:
    """Each text and its vector."""
    from canon.use.encoder import Encoder

    encoder = Encoder.open(model, pooling)
    vectors = encoder.encode(list(texts), encoder.prompt(prompt)).vectors.tolist()
    return [{"text": text, "vector": vector} for text, vector in zip(texts, vectors, strict=True)]


def _overlap(vectors_nD: np.ndarray, stored: np.ndarray, kind: str, ranges: np.ndarray | None) -> float:
    seen = vectors_nD[:_SEEN]
    rows_QK, _ = exact(vectors_nD, seen, _TOP)
    return bits.overlap(rows_QK, exact(stored, seen, _TOP, kind, ranges)[0])


class VectorFolder:
    """A folder of vectors that can be searched; `canon.encode` makes it."""

    def __init__(self, store: Store, model: str | Path = "") -> None:
        self.store, self.model = store, str(model) or store.meta["model"]
        self._encoder: Encoder | None = None

    @classmethod
    def open(cls, path: str | Path, model: str | Path = "") -> VectorFolder:
        """The folder at `path`, which `canon encode` wrote; a CanonError if it is not whole.

        model: where its model is now, if it was moved."""
        store = Store.open(path)
        if store.meta.get("pending") is not None:
            raise CanonError(f"{path} is half encoded: repeat the command that encodes it.")
        return cls(store, model)

    def __len__(self) -> int:
        return len(self.store) - len(self.store.removed)

    @property
    def precision(self) -> str:
        """How a number of a vector is stored: float32, int8, …"""
        return str(self.store.meta["precision"])

    @property
    def ranges(self) -> np.ndarray | None:
        """[2, D] of int8: lowest and highest of each dimension."""
        file = self.store.path / "ranges.npy"
        return np.load(file) if file.is_file() else None

    @property
    def encoder(self) -> Encoder:
        """The model that made the vectors; another one is refused."""
        if self._encoder is None:
            from canon.use.encoder import Encoder

            meta = self.store.meta
            if not Path(self.model).expanduser().exists():
                raise CanonError(
                    f"The model of {self.store.path}, {self.model}, is not there: say where it is with --model, or "
                    "search by words with --method bm25."
                )
            self._encoder = Encoder.open(self.model, meta["asked_pooling"])
            if self._encoder.digest != meta["sha256"]:
                raise CanonError(f"{self.model} is not the model that made {self.store.path}: encode again.")
        return self._encoder

    # ---- search

    def search(
        self,
        queries: Sequence[str],
        top: int = 10,
        *,
        method: str = "vectors",
        index: str = "exact",
        prompt: str = "",
        ef: int = 0,
        say: Say = _quiet,
    ) -> list[list[dict[str, Any]]]:
        """For each query the best rows, with their rank and score.

        queries: the texts.
        top: rows for each.
        method: "vectors", "bm25" or "hybrid".
        index: "exact" or "hnsw", which is built at its first use.
        prompt: the name of what the model puts before a query, where it has several.
        ef: how widely the graph is searched; 0 leaves it to the index.
        say: gets the messages about an index that is built.
        """
        if method not in METHODS:
            raise unknown("method (--method)", method, METHODS)
        if index not in INDEXES:
            raise unknown("index (--index)", index, INDEXES)
        for query in queries:
            if not query.strip():
                raise CanonError("A query is empty.")
        lists: list[tuple[np.ndarray, np.ndarray]] = []
        depth = max(top, _DEPTH) if method == "hybrid" else top
        if method != "bm25":
            text = self.encoder.prompt(prompt)
            vectors_QD = self.encoder.encode(list(queries), text).vectors
            lists.append(self.nearest(vectors_QD, depth, index, ef, say))
        if method != "vectors":
            lists.append(self.bm25(say).search(queries, depth, self.store.removed))
        rows_QK, scores_QK = lists[0] if len(lists) == 1 else _fused(lists, top)
        return [self._results(rows, scores) for rows, scores in zip(rows_QK[:, :top], scores_QK[:, :top], strict=True)]

    def nearest(
        self, vectors_QD: np.ndarray, top: int, index: str = "exact", ef: int = 0, say: Say = _quiet
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows [Q, K] and their scores by vectors of queries."""
        store, removed = self.store, self.store.removed
        vectors_QD = np.asarray(vectors_QD, dtype=np.float32)
        if vectors_QD.ndim != 2 or vectors_QD.shape[1] != store.meta["dim"]:
            raise CanonError(f"Queries are vectors [Q, {store.meta['dim']}], got {list(vectors_QD.shape)}.")
        if index == "exact":
            return exact(store.vectors, vectors_QD, top, self.precision, self.ranges, removed)
        rows_QK = self.graph(say).search(vectors_QD, top, removed, ef)
        return rescored(store.vectors, vectors_QD, rows_QK, top, self.precision, self.ranges)

    def _results(self, rows: np.ndarray, scores: np.ndarray) -> list[dict[str, Any]]:
        kept = [(int(row), float(score)) for row, score in zip(rows, scores, strict=True) if row >= 0]
        return [
            {"rank": rank, "score": score, **self.store.row(row)} for rank, (row, score) in enumerate(kept, start=1)
        ]

    # ---- indexes

    def bm25(self, say: Say = _quiet) -> BM25:
        """The index of words, which is built at its first use."""
        folder = self.store.path / INDEX
        bm25 = BM25.load(folder)
        if bm25 is None or bm25.rows != len(self.store):
            bm25 = BM25.of(str(row["text"]) for row in self.store.rows())
            bm25.save(folder)
            say(f"BM25: {len(bm25.words):,} words of {bm25.rows:,} rows.")
        return bm25

    def graph(self, say: Say = _quiet) -> Graph:
        """The graph of neighbours, which is built at its first use, and its recall against all rows."""
        folder = self.store.path / INDEX
        graph = Graph.load(folder, self.store.meta["dim"])
        if graph is None or graph.rows > len(self.store):
            graph = Graph(self.store.meta["dim"])
        if graph.rows < len(self.store):
            graph.add(self._restored(), len(self.store))
            graph.save(folder)
            self.store.meta["recall"] = self._recall(graph)
            self.store.save()
            how = f"against all rows, by {min(_SEEN, len(self.store)):,} rows"
            say(f"hnsw: recall@{_TOP} {self.store.meta['recall']:.4f} {how}.")
        return graph

    def _restored(self) -> Callable[[int, int], np.ndarray]:
        """float32 vectors of rows [start, stop)."""
        vectors, how = self.store.vectors, (self.precision, self.store.meta["dim"], self.ranges)
        return lambda start, stop: bits.restored(vectors[start:stop], *how)

    def _recall(self, graph: Graph) -> float:
        """The share of the 10 nearest rows of some rows that the graph finds."""
        rows = np.linspace(0, len(self.store) - 1, min(_SEEN, len(self.store))).astype(np.int64)
        queries = bits.restored(self.store.vectors[rows], self.precision, self.store.meta["dim"], self.ranges)
        none = np.empty(0, dtype=np.int64)
        top = min(_TOP, len(self.store))
        every = queries @ queries.T if len(rows) == len(self.store) else None
        if every is not None:
            right_QK = np.argsort(-every, axis=1, kind="stable")[:, :top]
        else:
            restored = self._restored()
            right_QK = nearest_rows(restored, len(self.store), queries, top)
        return bits.overlap(right_QK, graph.search(queries, top, none))

    def extend_indexes(self, say: Say = _quiet) -> None:
        """Adds new rows to the indexes that exist."""
        folder = self.store.path / INDEX
        if Graph.load(folder, self.store.meta["dim"]) is not None:
            self.graph(say)
        if BM25.load(folder) is not None:
            self.bm25(say)

    def map(self, by: str = "pca") -> Figure:
        """A picture of the rows along the two directions of most variance (pca), or by their neighbourhoods (tsne,
        umap), with some of their texts."""
        from canon.tasks.sentence_pictures import sentence_map

        kept = np.setdiff1d(np.arange(len(self.store)), self.store.removed)
        if len(kept) < 3:
            raise CanonError(f"{self.store.path} has {len(kept)} rows; a map needs three.")
        kept = kept[np.linspace(0, len(kept) - 1, min(len(kept), _MAPPED)).astype(int)]
        how = self.precision, self.store.meta["dim"], self.ranges
        texts = [str(self.store.row(int(row))["text"]) for row in kept]
        return sentence_map(bits.restored(self.store.vectors[kept], *how), None, texts, by)

    # ---- rows

    def remove(self, ids: Sequence[str]) -> int:
        """Marks the rows with these ids as removed; how many there were."""
        return self.store.remove(ids)

    def compact(self) -> int:
        """Writes the folder again without removed rows; how many those were."""
        return self.store.compact()  # indexes go with the old folder, and are built again when they are asked for

    # ---- hard negatives

    def mine(
        self, pairs: Sequence[tuple[str, str]], count: int, margin: float = 0.0, prompt: str = ""
    ) -> list[dict[str, str]]:
        """For each pair of a text and its match, the nearest rows that score at least `margin` less than the
        match, as columns anchor, positive, negative_1 …; pairs with too few such rows are left out."""
        anchors = list(dict.fromkeys(anchor for anchor, _ in pairs))
        right: dict[str, set[str]] = {}
        for anchor, positive in pairs:
            right.setdefault(anchor, {anchor}).add(positive)
        text = self.encoder.prompt(prompt)
        vectors = dict(zip(anchors, self.encoder.encode(anchors, text).vectors, strict=True))
        positives_nD = self.encoder.encode([positive for _, positive in pairs]).vectors
        queries_nD = np.stack([vectors[anchor] for anchor, _ in pairs])
        most_n = (queries_nD * positives_nD).sum(axis=1) - margin
        negatives: dict[int, list[str]] = {}
        left, depth = list(range(len(pairs))), max(_DEPTH, 4 * count)
        # The rows that are right, or too near, come first: twice as many are asked for until there are enough others.
        while left:
            depth = min(depth, len(self.store))
            for some in _chunks(left, max(_MINED // max(depth, 1), 1)):
                rows_nK, scores_nK = self.nearest(queries_nD[some], depth)
                for place, rows, scores in zip(some, rows_nK, scores_nK, strict=True):
                    below = rows[(scores <= most_n[place]) & (rows >= 0)]
                    negatives[place] = self._others(below, right[pairs[place][0]], count)
            left = [place for place in left if len(negatives[place]) < count] if depth < len(self.store) else []
            depth *= 2
        mined = []
        for place, (anchor, positive) in enumerate(pairs):
            if len(negatives[place]) == count:
                numbered = {f"negative_{k}": negative for k, negative in enumerate(negatives[place], start=1)}
                mined.append({"anchor": anchor, "positive": positive, **numbered})
        return mined

    def _others(self, rows: np.ndarray, right: set[str], count: int) -> list[str]:
        """The first texts of these rows, each once, without the right ones."""
        texts: list[str] = []
        for row in rows.tolist():
            if len(texts) == count:
                break
            text = str(self.store.row(row)["text"])
            if text not in right and text not in texts:
                texts.append(text)
        return texts


def _chunks(items: list[int], size: int) -> Iterator[list[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _fused(lists: Sequence[tuple[np.ndarray, np.ndarray]], top: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows by Σ 1/(60 + rank) over the lists; ties by row."""
    queries = len(lists[0][0])
    rows = np.full((queries, top), -1, dtype=np.int64)
    scores = np.full((queries, top), -np.inf)
    for query in range(queries):
        sums: dict[int, float] = {}
        for nearest, _ in lists:
            for rank, row in enumerate(nearest[query].tolist(), start=1):
                if row >= 0:
                    sums[row] = sums.get(row, 0.0) + 1 / (_FUSED + rank)
        best = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:top]
        for place, (row, score) in enumerate(best):
            rows[query, place], scores[query, place] = row, score
    return rows, scores
