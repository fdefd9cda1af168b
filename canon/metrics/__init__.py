"""Metrics as pure functions: arrays in, floats, small records or arrays out; every convention is an argument.

Names are imported on first use, so `import canon.metrics` costs nothing and loads neither numpy, torch nor
scikit-learn. One file per family; docs/metrics.md has each formula and convention.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# module: names
_NAMES = """
calibration: Calibration calibration_curve expected_calibration_error grouped_auc
classification: ClassScores accuracy class_scores confusion_matrix f1 log_loss matthews precision recall zero_one_loss
click_log: ClickMetrics click_metrics
curves: PrCurve RocCurve auc auc_by_pairs auc_by_ranks average_precision gini ks_statistic pr_area pr_curve roc_curve
edits: edit_distance sequence_error_rate token_error_rate
information: cross_entropy entropy js_divergence kl_divergence perplexity sequence_perplexity
queries: Ranked average_precision_by_query cg_by_query dcg_by_query expected_reciprocal_rank_by_query hit_by_query \
    mean_ndcg_by_query mean_over_queries ndcg_by_query precision_by_query rank recall_by_query \
    reciprocal_rank_by_query
ranking: CONVENTIONS Convention cg convention dcg expected_reciprocal_rank hit_rate mean_average_precision \
    mean_reciprocal_rank ndcg precision_at recall_at
recommendation: coverage novelty user_auc
regression: mean_absolute_error mean_squared_error pearson r2 root_mean_squared_error spearman
retrieval: retrieval_scores
spans: SpanScores exact_match normalize_answer span_scores token_f1
tagging: EntityScore EntityScores entities entity_scores
text: BleuScore bleu_tokenizer corpus_bleu sequence_bleu
two_sample: TwoSampleResult classifier_two_sample_test
vectors: AnalogyResult AnalogySection SimilarityResult analogy_accuracy read_analogies read_pairs \
    similarity_correlation
"""
_MODULE_OF = {
    name: module
    for module, names in (line.split(":") for line in _NAMES.strip().splitlines())
    for name in names.split()
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
