"""Figures of sentence vectors: a map by their two main directions, and histograms of the cosine of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from canon import figures

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


def sentence_map(
    vectors_nD: np.ndarray, pairs_P2: np.ndarray | None = None, texts: Sequence[str] = ()
) -> figures.Figure:
    """A point for each text; lines between texts that belong together; some of the texts, where they are given."""
    kept = np.linspace(0, len(vectors_nD) - 1, min(len(vectors_nD), _POINTS)).astype(int)
    place_n2, share_2 = main_directions(vectors_nD)
    figure, axes = figures.new_figure(size=(5.4, 4.6))
    axis = axes[0, 0]
    with figures.style():
        axis.plot(place_n2[kept, 0], place_n2[kept, 1], "o", color=figures.FAINT, ms=2.2, alpha=0.45, mew=0)
        for first, second in () if pairs_P2 is None else pairs_P2[:_LINES]:
            both = place_n2[[first, second]]
            axis.plot(both[:, 0], both[:, 1], "-o", color=figures.COLORS[0], lw=0.8, ms=2.5, alpha=0.8)
        axis.set(xlabel=f"first direction ({share_2[0]:.0%} of the variance)")
        axis.set(ylabel=f"second direction ({share_2[1]:.0%})")
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
