"""Figures of sentence vectors: a map by their two main directions or their neighbourhoods, and histograms of the cosine
of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np

from canon import figures
from canon.errors import CanonError, unknown

MAPS = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
_FEWEST = 5  # texts of a map by neighbourhoods

_POINTS = 2000
_TEXTS, _SHOWN = 14, 32  # texts that are written, and characters of them
_LINES = 60  # pairs that are drawn as lines


def main_directions(vectors_nD: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[n, 2] coordinates along the two directions of most variance, and their shares of it (PCA)."""
    centred_nD = vectors_nD - vectors_nD.mean(0)
    values, directions = np.linalg.eigh(centred_nD.T @ centred_nD)
    order = np.argsort(-values)[:2]
    directions_D2 = directions[:, order]
    signs = np.sign(
        directions_D2[np.abs(directions_D2).argmax(0), np.arange(len(order))]
    )  # one of two, always the same
    return centred_nD @ (directions_D2 * signs), values[order] / max(values.sum(), 1e-12)


def neighbourhoods(vectors_nD: np.ndarray, by: str) -> np.ndarray:
    """[n, 2] coordinates in which near vectors, by their cosine, stay near: t-SNE, or UMAP where it is installed."""
    if len(vectors_nD) < _FEWEST:
        raise CanonError(
            f"A map by {by} needs {_FEWEST} texts at least, and there are {len(vectors_nD)}: leave --by out."
        )
    if by == "tsne":
        from sklearn.manifold import TSNE

        near = min(30.0, (len(vectors_nD) - 1) / 3)
        return np.asarray(TSNE(2, perplexity=near, metric="cosine", random_state=0).fit_transform(vectors_nD))
    try:
        umap = import_module("umap")
    except ImportError:
        raise CanonError("--by umap needs umap-learn: pip install umap-learn, or take --by tsne.") from None
    return np.asarray(umap.UMAP(metric="cosine", random_state=0).fit_transform(vectors_nD))


def sentence_map(
    vectors_nD: np.ndarray, pairs_P2: np.ndarray | None = None, texts: Sequence[str] = (), by: str = "pca"
) -> figures.Figure:
    """A point for each text; lines between texts that belong together; some of the texts, where they are given."""
    if by not in MAPS:
        raise unknown("map (--by)", by, MAPS)
    kept = np.linspace(0, len(vectors_nD) - 1, min(len(vectors_nD), _POINTS)).astype(int)
    if by == "pca":
        place_n2, share_2 = main_directions(vectors_nD)
        axes_2 = (f"first direction ({share_2[0]:.0%} of the variance)", f"second direction ({share_2[1]:.0%})")
    else:
        place_n2, axes_2 = neighbourhoods(vectors_nD, by), (f"{MAPS[by]}, first", "second")
    figure, axes = figures.new_figure(size=(5.4, 4.6))
    axis = axes[0, 0]
    with figures.style():
        axis.plot(place_n2[kept, 0], place_n2[kept, 1], "o", color=figures.FAINT, ms=2.2, alpha=0.45, mew=0)
        for first, second in () if pairs_P2 is None else pairs_P2[:_LINES]:
            both = place_n2[[first, second]]
            axis.plot(both[:, 0], both[:, 1], "-o", color=figures.COLORS[0], lw=0.8, ms=2.5, alpha=0.8)
        axis.set(xlabel=axes_2[0], ylabel=axes_2[1])
        for row in np.linspace(0, len(texts) - 1, min(len(texts), _TEXTS)).astype(int):
            axis.annotate(texts[row][:_SHOWN], place_n2[row], fontsize=6, color=figures.INK)
        axis.set_title("Texts" if pairs_P2 is None else "Texts; lines join those that belong together")
    return figure


def similarity_histogram(cosines: dict[str, np.ndarray]) -> figures.Figure:
    """The cosine of pairs, by what they are."""
    figure, axes = figures.new_figure(size=(5.4, 3.4))
    axis = axes[0, 0]
    with figures.style():
        for color, (label, values) in zip(figures.COLORS, cosines.items(), strict=False):
            if len(values):
                shown = f"{label}: {len(values):,}, mean {values.mean():.2f}"
                axis.hist(
                    values, bins=np.linspace(-1, 1, 81), density=True, histtype="step", color=color, label=shown, lw=1.6
                )
        axis.set(xlabel="cosine", ylabel="density")
        axis.set_title("Pairs that belong together, and others")
        axis.legend(fontsize=8)
    return figure
