"""Whether probabilities are what they say, and how well a scorer orders the rows of each group.

Calibration curve: rows sorted by probability are cut into bins of equally many; of each bin the mean probability and
the share of positives. Expected calibration error: Σ_b (n_b/n) |share_b − mean_b| (Naeini, Cooper and Hauskrecht 2015).
Grouped AUC: Σ_g n_g AUC_g / Σ_g n_g over groups that have both classes (Zhou et al. 2018, arXiv:1706.06978, eq. 6).
Deviations: bins have equally many rows (Naeini's are equally wide), so that rare clicks fill more than one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from canon.errors import CanonError
from canon.metrics._checks import FloatArray, IntArray, array, binary_labels, numbers, same_length


@dataclass(frozen=True)
class Calibration:
    """Bins by rising probability."""

    probability: FloatArray  # mean of each bin
    share: FloatArray  # of positives in each bin
    count: IntArray


def calibration_curve(labels: ArrayLike, probabilities: ArrayLike, *, bins: int = 10) -> Calibration:
    """bins: how many, of equally many rows to within one; fewer where there are fewer rows."""
    positive, values = binary_labels("labels", labels), numbers("probabilities", probabilities).astype(np.float64)
    same_length("labels", positive, "probabilities", values)
    if not len(values) or bins < 1:
        raise CanonError(f"A calibration curve needs rows and bins, got {len(values)} and {bins}.")
    order = np.argsort(values, kind="stable")
    cuts = np.linspace(0, len(values), min(bins, len(values)) + 1).astype(np.int64)
    counts = np.diff(cuts)
    sums = (np.add.reduceat(column[order].astype(np.float64), cuts[:-1]) for column in (values, positive))
    probability, share = (total / counts for total in sums)
    return Calibration(probability, share, counts)


def expected_calibration_error(labels: ArrayLike, probabilities: ArrayLike, *, bins: int = 10) -> float:
    """bins: as of `calibration_curve`."""
    curve = calibration_curve(labels, probabilities, bins=bins)
    return float(np.abs(curve.share - curve.probability) @ curve.count / curve.count.sum())


def grouped_auc(labels: ArrayLike, scores: ArrayLike, groups: ArrayLike) -> float | None:
    """The mean of the groups' AUCs, each weighted by its rows, ties counting ½; None if no group has both classes."""
    positive, values, group = binary_labels("labels", labels), numbers("scores", scores), array("groups", groups)
    same_length("labels", positive, "scores", values)
    same_length("labels", positive, "groups", group)
    if not len(values):
        return None
    codes = np.unique(group, return_inverse=True)[1]
    order = np.lexsort((values, codes))
    code, score, clicked = codes[order], values[order], positive[order]
    # Mid-ranks within a group: the mean place of equal scores, less the places before the group.
    new = np.flatnonzero(np.diff(code, prepend=-1) | (np.diff(score, prepend=score[0] - 1) != 0))
    sizes = np.diff(np.append(new, len(code)))
    rank = np.repeat(new + (sizes + 1) / 2, sizes)
    count = np.bincount(code)
    before = (np.cumsum(count) - count)[code]
    positives = np.bincount(code, clicked)
    ranks = np.bincount(code, (rank - before) * clicked)
    both = (positives > 0) & (positives < count)
    if not both.any():
        return None
    p, n = positives[both], count[both]
    aucs = (ranks[both] - p * (p + 1) / 2) / (p * (n - p))
    return float(aucs @ n / n.sum())
