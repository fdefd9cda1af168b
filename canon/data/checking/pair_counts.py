"""The counting of `canon check` for parallel text: sizes, lengths, what a test part has that train has not, and
whether source and target belong together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from canon.data.checking import alignment, measure
from canon.data.checking.report import CheckReport
from canon.data.formats.pairs import Pairs
from canon.data.source import Source
from canon.data.splits import choose


def count_pairs(report: CheckReport, config: Any, source: Source) -> None:
    """Fills the report of a set of pairs."""
    report.kind = "pairs"
    chosen, _ = choose(source, config)
    parts = {split: source.parts[part].take(rows) for split, (part, rows) in chosen.items()}
    report.splits = {split: len(pairs) for split, pairs in parts.items()}
    for split, pairs in parts.items():
        report.pairs[split] = described = describe_pairs(pairs, None if split == "train" else parts["train"])
        report.duplicates[split] = described["duplicates"]
        if "overlap" in described:
            report.overlap[split] = described["overlap"]
        for warning in (*judge_pairs(split, described), alignment_warning(pairs, f"The {split} pairs")):
            if warning:
                report.warn(warning)


def alignment_warning(pairs: Pairs, name: str = "The pairs") -> str:
    """The sentence for pairs that do not seem to belong together, all of them or a stretch; "" if nothing is wrong."""
    score = alignment.score(pairs.source, pairs.target)
    if score < 0.1 + 1 / math.sqrt(len(pairs) or 1):
        return (
            f"{name} do not look aligned: lengths and rare words of source and target go together no better than "
            f"chance (score {score:.2f}); is line k of one the translation of line k of the other?"
        )
    stretch = alignment.loose_stretch(pairs.source, pairs.target)
    if stretch is None:
        return ""
    return f"{name} do not look aligned from about pair {stretch[0] + 1:,} to {stretch[1] + 1:,}, the others do."


def describe_pairs(pairs: Pairs, train: Pairs | None = None) -> dict[str, Any]:
    """Counts for `canon check`, plain enough for JSON; `train` is what a valid or test part is compared with."""
    score = alignment.score(pairs.source, pairs.target)
    both = list(zip(pairs.source, pairs.target, strict=True))
    ratios = [len(other) / len(one) for one, other in both if one]
    described: dict[str, Any] = {
        "pairs": len(pairs),
        "empty": sum(not (one.strip() and other.strip()) for one, other in both),
        "duplicates": measure.duplicates(measure.digests(f"{one}\t{other}" for one, other in both)),
        "copies": sum(one == other for one, other in both),
        "ratio": _quantiles(ratios),  # characters of the target / characters of the source
        "alignment": None if math.isnan(score) else round(score, 4),
        "source": _describe_side(pairs.source, None if train is None else train.source),
        "target": _describe_side(pairs.target, None if train is None else train.target),
    }
    if train is not None:
        described["overlap"] = measure.overlap(measure.digests(train.source), measure.digests(pairs.source))
    return described


def _describe_side(texts: Sequence[str], train: Sequence[str] | None) -> dict[str, Any]:
    words = [measure.words(text) for text in texts]
    described: dict[str, Any] = {
        "characters": measure.quantiles(Counter(map(len, texts))) if texts else {},
        "words": measure.quantiles(Counter(map(len, words))) if texts else {},
    }
    if train is not None:
        described["unknown_characters"] = measure.unknown_rate(texts, set().union(*train))
        described["unknown_words"] = measure.unknown_rate(words, set().union(*map(measure.words, train)))
    return described


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    quantiles = np.quantile(values, list(measure.QUANTILES.values()), method="nearest").tolist()
    return {name: round(value, 4) for name, value in zip(measure.QUANTILES, quantiles, strict=True)}


def judge_pairs(split: str, described: dict[str, Any]) -> list[str]:
    """Warnings about the counts of `describe_pairs`; `alignment_warning` judges the alignment."""
    warnings = []
    count = described["pairs"]
    if described["copies"] > 0.1 * count:
        warnings.append(f"{described['copies']:,} of {count:,} {split} pairs have the same text on both sides.")
    for side in ("source", "target"):
        if (rate := described[side].get("unknown_characters", 0.0)) > 0.001:
            warnings.append(f"{rate:.1%} of the {side} characters in {split} are not in train.")
    return warnings
