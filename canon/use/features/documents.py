"""Features of a document alone: its links, its address, its words.

Page, Brin, Motwani and Winograd 1999, The PageRank citation ranking: r = (1 − d)/N + d (Σ r_j / out_j + D / N) with d =
.85 and D the mass of documents without links, which is shared equally. SiteRank is the same over sites: the host of an
address, or its first part where there is none; one site links to another where one of its documents does.
A link counts once, and a link from a document to itself not at all. Deviations: none.
Shapes: n documents, M links.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import numpy as np

from canon.use.search.postings import Postings

DAMPING = 0.85
_CLOSE = 1e-12  # a sum of changes, after which ranks stay
FEATURES = ("pagerank", "siterank", "inlinks", "outlinks", "slashes", "url-length", "children", "richness")


def pagerank(rows: int, links_2M: np.ndarray) -> np.ndarray:
    """[n] ranks, which sum to 1; links are (from, to)."""
    from scipy.sparse import csr_array

    if not rows:
        return np.empty(0)
    start_M, stop_M = distinct(rows, links_2M)
    out_n = np.bincount(start_M, minlength=rows)
    flow = csr_array((1 / out_n[start_M], (stop_M, start_M)), shape=(rows, rows))
    rank_n = np.full(rows, 1 / rows)
    while True:
        spread = DAMPING * rank_n[out_n == 0].sum() / rows + (1 - DAMPING) / rows
        new_n = DAMPING * (flow @ rank_n) + spread
        if np.abs(new_n - rank_n).sum() < _CLOSE:
            return new_n / new_n.sum()
        rank_n = new_n


def distinct(rows: int, links_2M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The links without repeats and without those to oneself."""
    start, stop = np.asarray(links_2M, dtype=np.int64).reshape(2, -1)
    keys = np.unique((start * rows + stop)[start != stop])
    return np.divmod(keys, max(rows, 1))


def site_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc or parts.path.strip("/").partition("/")[0]


def parent_of(url: str) -> str:
    """The address above: a/b for a/b/c, "" for one without a parent."""
    return url.rstrip("/").rpartition("/")[0].rstrip("/")


def document_features(urls: Sequence[str], links_2M: np.ndarray, whole: Postings) -> dict[str, np.ndarray]:
    """Each feature [n] by name."""
    n = len(urls)
    sites: dict[str, int] = {}
    site_n = np.array([sites.setdefault(site_of(url), len(sites)) for url in urls], dtype=np.int64)
    links_2M = np.asarray(links_2M, dtype=np.int64).reshape(2, -1)
    start_M, stop_M = distinct(n, links_2M)
    places = {url.rstrip("/"): place for place, url in enumerate(urls) if url}
    above = [places[parent] for url in urls if url and (parent := parent_of(url)) in places]
    values = {
        "pagerank": pagerank(n, links_2M),
        "siterank": pagerank(len(sites), site_n[links_2M])[site_n],
        "inlinks": np.bincount(stop_M, minlength=n),
        "outlinks": np.bincount(start_M, minlength=n),
        "slashes": np.array([url.count("/") for url in urls]),
        "url-length": np.array([len(url) for url in urls]),
        "children": np.bincount(above, minlength=n) if above else np.zeros(n),
        "richness": whole.distinct / np.maximum(whole.lengths, 1),
    }
    return {name: value.astype(np.float64) for name, value in values.items()}
