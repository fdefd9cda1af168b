"""Ranking measures as means over queries, and the conventions under which other tools report NDCG.

Papers and formulas: see `queries`, which computes each measure per query; here they are averaged.
`CONVENTIONS` holds what LightGBM, XGBoost, scikit-learn, trec_eval and LETOR's Eval-Score-4.0.pl each mean by "NDCG":
gain, value of a query without a relevant document, order of equal scores, the precision scores are kept in, discount,
and the value of a list of fewer than k. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from canon.metrics._checks import FloatArray, choice, number, numbers, text
from canon.metrics.queries import (
    Empty,
    Gain,
    average_precision_by_query,
    cg_by_query,
    dcg_by_query,
    expected_reciprocal_rank_by_query,
    hit_by_query,
    mean_over_queries,
    ndcg_by_query,
    precision_by_query,
    rank,
    recall_by_query,
    reciprocal_rank_by_query,
)


@dataclass(frozen=True)
class Convention:
    """What "NDCG" means: the arguments of `ndcg`, under one name."""

    name: str
    gain: Gain
    empty: Empty
    ties: str
    precision: str
    discount: str = "log2"
    short: str = "list"

    def __str__(self) -> str:
        gain = self.gain if isinstance(self.gain, str) else "table"
        parts = f"gain={gain}, empty={self.empty}, ties={self.ties}, precision={self.precision}"
        return f"{self.name}: {parts}, discount={self.discount}, short={self.short}"


CONVENTIONS = {
    convention.name: convention
    for convention in (
        Convention("canon", gain="exponential", empty=0.0, ties="average", precision="given"),
        Convention("lightgbm", gain="exponential", empty=1.0, ties="order", precision="given"),
        Convention("xgboost", gain="exponential", empty=1.0, ties="order", precision="float32"),
        Convention("sklearn", gain="linear", empty=0.0, ties="average", precision="given"),
        Convention("trec", gain="linear", empty=0.0, ties="document", precision="float32"),
        Convention(
            "letor", gain="exponential", empty=0.0, ties="order", precision="given", discount="letor", short="zero"
        ),
    )
}


def convention(
    preset: str = "canon",
    *,
    gain: Gain | None = None,
    empty: Empty | None = None,
    ties: str | None = None,
    precision: str | None = None,
    discount: str | None = None,
    short: str | None = None,
) -> Convention:
    """The named record, with every given field changed (and the name marked so)."""
    fields: dict[str, Any] = {"gain": gain, "empty": empty, "ties": ties, "precision": precision}
    fields |= {"discount": discount, "short": short}
    for name in ("ties", "precision", "discount", "short"):
        if fields[name] is not None:
            text(name, fields[name])
    if empty is not None and not isinstance(empty, str):
        fields["empty"] = number("empty", empty)
    if gain is not None and not isinstance(gain, str):
        fields["gain"] = tuple(numbers("gain", gain).tolist())
    plain = CONVENTIONS[choice("preset", preset, tuple(CONVENTIONS))]
    changed = replace(plain, **{name: value for name, value in fields.items() if value is not None})
    return plain if changed == plain else replace(changed, name=f"{preset}, changed")


def ndcg(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    documents: ArrayLike | None = None,
    k: int | None = None,
    preset: str = "canon",
    gain: Gain | None = None,
    empty: Empty | None = None,
    ties: str | None = None,
    precision: str | None = None,
    discount: str | None = None,
    short: str | None = None,
) -> float:
    """Mean over queries of DCG@k / ideal DCG@k.

    preset: "canon" (default: gain exponential, empty 0, ties averaged), "lightgbm", "xgboost", "sklearn", "trec" or
    "letor"; the later arguments change one field of it each. gain: "exponential" 2^l − 1, "linear" l, "binary"
    [l > 0], or a table indexed by label. empty: the value of a query with nothing relevant, or "skip". k: None is the
    whole list. discount, short: see `queries.ndcg_by_query`. groups, sizes, documents, ties, precision: see
    `queries.rank`.
    """
    how = convention(preset, gain=gain, empty=empty, ties=ties, precision=precision, discount=discount, short=short)
    queries = {"groups": groups, "sizes": sizes, "documents": documents}
    ranked = rank(relevance, scores, **queries, ties=how.ties, precision=how.precision)
    return mean_over_queries(
        ndcg_by_query(ranked, k=k, gain=how.gain, empty=how.empty, discount=how.discount, short=how.short)
    )


def _mean(name: str, measure: Callable[..., FloatArray], default_ties: str = "average") -> Callable[..., float]:
    """The mean over queries of a measure, whose settings it takes beside those of `queries.rank`."""

    def mean(
        relevance: ArrayLike,
        scores: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        documents: ArrayLike | None = None,
        ties: str = default_ties,
        precision: str = "given",
        **settings: Any,
    ) -> float:
        queries = {"groups": groups, "sizes": sizes, "documents": documents}
        return mean_over_queries(
            measure(rank(relevance, scores, **queries, ties=ties, precision=precision), **settings)
        )

    mean.__name__ = mean.__qualname__ = name
    mean.__doc__ = (
        f"{measure.__doc__}\n\nThe mean over queries; ties {default_ties!r} by default. Takes the settings of "
    )
    mean.__doc__ += f"`queries.{measure.__name__}` and of `queries.rank`."
    return mean


cg = _mean("cg", cg_by_query)
dcg = _mean("dcg", dcg_by_query)
precision_at = _mean("precision_at", precision_by_query)
recall_at = _mean("recall_at", recall_by_query)
# These have no simple mean over tied orders. "worst" flatters nobody and does not depend on the order of rows: with all
# scores equal, a relevant document comes last.
hit_rate = _mean("hit_rate", hit_by_query, "worst")
mean_average_precision = _mean("mean_average_precision", average_precision_by_query, "worst")
mean_reciprocal_rank = _mean("mean_reciprocal_rank", reciprocal_rank_by_query, "worst")
expected_reciprocal_rank = _mean("expected_reciprocal_rank", expected_reciprocal_rank_by_query, "worst")
