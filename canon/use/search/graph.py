"""A graph of near neighbours: HNSW, as faiss builds it.

Malkov and Yashunin 2018, Efficient and robust approximate nearest neighbor search using hierarchical navigable small
world graphs (arXiv:1603.09320): M = 16 links, ef_construction = 200. A row cannot leave the graph: removed rows
are left out of results, and compaction builds it again. One thread builds it: the same rows make the same graph.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from canon.errors import CanonError

LINKS, EF_CONSTRUCTION = 16, 200
_FILE = "hnsw.faiss"
_BLOCK = 16_384
_LEAST_EF = 64


def _library() -> Any:
    try:
        import faiss
    except ImportError:
        raise CanonError("--index hnsw needs faiss: pip install 'deepcanon[search]'.") from None
    return faiss


class Graph:
    def __init__(self, dim: int, index: Any = None) -> None:
        faiss = _library()
        self._index = index
        if index is None:
            self._index = faiss.IndexHNSWFlat(dim, LINKS, faiss.METRIC_INNER_PRODUCT)
            self._index.hnsw.efConstruction = EF_CONSTRUCTION

    @classmethod
    def load(cls, folder: Path, dim: int) -> Graph | None:
        if not (folder / _FILE).is_file():
            return None
        try:
            index = _library().read_index(str(folder / _FILE))
        except RuntimeError:
            raise CanonError(f"{folder / _FILE} is damaged: remove it, and the next search builds it again.") from None
        return cls(dim, index)

    @property
    def rows(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: Callable[[int, int], np.ndarray], rows: int) -> None:
        """Rows up to `rows`; vectors gives those of [start, stop)."""
        faiss = _library()
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        for start in range(self.rows, rows, _BLOCK):
            self._index.add(np.ascontiguousarray(vectors(start, min(start + _BLOCK, rows)), dtype=np.float32))
        faiss.omp_set_num_threads(threads)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{_FILE}.part"
        _library().write_index(self._index, str(part))
        part.replace(folder / _FILE)

    def search(self, queries_QD: np.ndarray, top: int, removed: np.ndarray, ef: int = 0) -> np.ndarray:
        """Rows [Q, K], −1 where the graph finds no more."""
        faiss = _library()
        how: dict[str, Any] = {"efSearch": ef or max(_LEAST_EF, 4 * top)}
        kept = None
        if len(removed):
            ids = np.ascontiguousarray(removed, dtype=np.int64)
            kept = faiss.IDSelectorNot(faiss.IDSelectorBatch(ids))
            how["sel"] = kept
        parameters = faiss.SearchParametersHNSW(**how)
        queries = np.ascontiguousarray(queries_QD, dtype=np.float32)
        rows_QK: np.ndarray = self._index.search(queries, top, params=parameters)[1]
        return rows_QK
