"""The counting of `canon check` for parallel text: sizes, lengths, what a test part has that train has not, and
whether source and target belong together."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from canon.data.checking import alignment, measure
from canon.data.checking.report import CheckReport
from canon.data.formats.pairs import Pairs
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.text.vocabularies import UNK

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer


def count_pairs(report: CheckReport, config: Any, source: Source) -> None:
    """Fills the report of a set of pairs."""
    report.kind = "pairs"
    chosen, _ = choose(source, config, None)
    parts = {split: source.parts[part].take(rows) for split, (part, rows) in chosen.items()}
    report.splits = {split: len(pairs) for split, pairs in parts.items()}
    report.notes += source.notes
    for split, pairs in parts.items():
        described = describe_pairs(pairs, train=None if split == "train" else parts["train"])
        report.pairs[split] = described
        report.duplicates[split] = described["duplicates"]
        if "overlap" in described:
            report.overlap[split] = described["overlap"]
        for warning in (*judge_pairs(split, described), alignment_warning(pairs, f"The {split} pairs")):
            if warning:
                report.warn(warning)


def alignment_score(pairs: Pairs) -> float:
    """About 0 if targets belong to other sources, towards 1 if they fit; NaN where lengths and words cannot tell."""
    return alignment.score(pairs.source, pairs.target)


def alignment_warning(pairs: Pairs, name: str = "The pairs") -> str:
    """The sentence for pairs that do not seem to belong together, all of them or a stretch; "" if nothing is wrong."""
    found = alignment_score(pairs)
    if found < 0.1 + 1 / math.sqrt(len(pairs) or 1):
        return (
            f"{name} do not look aligned: lengths and rare words of source and target go together no better than "
            f"chance (score {found:.2f}); is line k of one the translation of line k of the other?"
        )
    stretch = alignment.loose_stretch(pairs.source, pairs.target)
    if stretch is None:
        return ""
    return f"{name} do not look aligned from about pair {stretch[0] + 1:,} to {stretch[1] + 1:,}, the others do."


def describe_pairs(
    pairs: Pairs,
    source_tokenizer: Tokenizer | None = None,
    target_tokenizer: Tokenizer | None = None,
    train: Pairs | None = None,
) -> dict[str, Any]:
    """Counts for `canon check`, plain enough for JSON; `train` is what a valid or test part is compared with."""
    score = alignment_score(pairs)
    described: dict[str, Any] = {
        "pairs": len(pairs),
        "empty": sum(
            not (one.strip() and other.strip()) for one, other in zip(pairs.source, pairs.target, strict=True)
        ),
        "duplicates": measure.duplicates(_digests(pairs)),
        "copies": sum(one == other for one, other in zip(pairs.source, pairs.target, strict=True)),
        "ratio": _ratios(pairs),
        "alignment": None if math.isnan(score) else round(score, 4),
    }
    for side, tokenizer in (("source", source_tokenizer), ("target", target_tokenizer)):
        texts: list[str] = getattr(pairs, side)
        counted: dict[str, Any] = {
            "characters": measure.quantiles(Counter(map(len, texts))) if texts else {},
            "words": measure.quantiles(Counter(len(measure.words(text)) for text in texts)) if texts else {},
        }
        if tokenizer is not None:
            ids, lengths = tokenizer.encode(texts)
            counted["tokens"] = measure.quantiles(Counter(lengths.tolist())) if texts else {}
            counted["unknown_tokens"] = float((ids == UNK).mean()) if len(ids) else 0.0
        if train is not None:
            known: list[str] = getattr(train, side)
            letters, words = set[str](), set[str]()
            for text in known:
                letters.update(text)
                words.update(measure.words(text))
            counted["unknown_characters"] = measure.unknown_rate(texts, letters)
            counted["unknown_words"] = measure.unknown_rate((measure.words(text) for text in texts), words)
        described[side] = counted
    if train is not None:
        described["overlap"] = measure.overlap(measure.digests(train.source), measure.digests(pairs.source))
    return described


def _digests(pairs: Pairs) -> np.ndarray:
    return measure.digests(f"{one}\t{other}" for one, other in zip(pairs.source, pairs.target, strict=True))


def _ratios(pairs: Pairs) -> dict[str, float]:
    """Quantiles of (characters of the target) / (characters of the source)."""
    ratios = [len(other) / len(one) for one, other in zip(pairs.source, pairs.target, strict=True) if one]
    if not ratios:
        return {}
    found = np.quantile(ratios, list(measure.QUANTILES.values()), method="nearest")
    return {name: round(float(value), 4) for name, value in zip(measure.QUANTILES, found, strict=True)}


def judge_pairs(split: str, described: dict[str, Any]) -> list[str]:
    """Warnings about what `describe_pairs` found in a split, alignment apart."""
    warnings = []
    count = described["pairs"]
    if described["copies"] > 0.1 * count:
        warnings.append(f"{described['copies']:,} of {count:,} {split} pairs have the same text on both sides.")
    for side in ("source", "target"):
        tokens, characters = (described[side].get(name, 0.0) for name in ("unknown_tokens", "unknown_characters"))
        if tokens > 0.01:
            warnings.append(
                f"{tokens:.1%} of the {side} tokens in {split} are <unk>; "
                'pieces of words (data.tokenizer = "bpe") know more.'
            )
        if characters > 0.001:
            warnings.append(f"{characters:.1%} of the {side} characters in {split} are not in train.")
    return warnings
