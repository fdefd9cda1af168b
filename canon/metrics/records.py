"""The record of every number that a task scores by: its formula, which way is better, what computes and checks it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    name: str  # as in metrics.jsonl and [expect]
    title: str
    formula: str
    higher_is_better: bool
    function: str = ""  # of canon.metrics; "" where the task computes it
    paper: str = ""
    oracle: str = ""  # what the tests compare it with


_HIGH, _LOW = True, False
_ENTITIES = "over whole entities, as conlleval counts"
_SQUAD = "Rajpurkar et al. 2016 (arXiv:1606.05250)"
_SQUAD_2 = "Rajpurkar, Jia and Liang 2018 (arXiv:1806.03822)"
_ERNIE = "Sun et al. 2020 (arXiv:1907.12412)"
_WANG = "Wang and Isola 2020 (arXiv:2005.10242)"
_RATING = "Spearman's ρ between cosine and judgement, of pairs whose words are known"
_ANALOGY = "share of analogies a : b = c : d with argmax cos(d, b − a + c) right, of those whose words are known"
_GENSIM = "gensim"
_HILL = "Hill, Reichart and Korhonen 2015 (arXiv:1408.3456)"
_MIKOLOV = "Mikolov et al. 2013 (arXiv:1301.3781)"
_STS = "Gao, Yao and Chen 2021 (arXiv:2104.08821), appendix B"
_RETRIEVAL = (
    ("recall", "Recall", "relevant texts among the first {k} / relevant texts"),
    ("hit", "Hit rate", "share of queries with a relevant text among the first {k}"),
    ("mrr", "Reciprocal rank", "1 / rank of the first relevant text, 0 after {k}"),
    ("ndcg", "NDCG", "Σ rel_i / log₂(i + 1) of the first {k}, over that of the best order"),
    ("map", "Average precision", "Σ P@i · rel_i of the first {k} / min({k}, relevant texts)"),
)
_JARVELIN = "Järvelin and Kekäläinen 2002; the gain: Burges et al. 2005"
_LETOR = "Qin and Liu 2013, Introducing LETOR 4.0 datasets (Eval-Score-4.0.pl)"
_LI = "Li et al. 2018 (arXiv:1805.06504)"


def _pair(name: str, title: str, question: str, units: str, paper: str = "") -> tuple[Metric, Metric]:
    """The loss and the accuracy of a task of pre-training beside tokens."""
    accuracy = f"share of {units} for which this is predicted rightly"
    return (
        Metric(f"{name}_loss", f"{title} loss", f"mean of −log p({question})", _LOW, paper=paper),
        Metric(f"{name}_accuracy", f"{title} accuracy", accuracy, _HIGH, paper=paper),
    )


_IN_P = "by the table P"
_CONTROL = (
    Metric("return", "Return", "mean over episodes of Σ r", _HIGH),
    Metric("return_std", "Standard deviation of the return", "over episodes", _LOW),
    Metric("return_median", "Median return", "over episodes", _HIGH),
    Metric("return_low", "Return, lower end", "mean − 1.96 standard errors", _HIGH),
    Metric("return_high", "Return, upper end", "mean + 1.96 standard errors", _HIGH),
    Metric("length", "Length", "mean steps of an episode", _LOW),
    Metric("truncated", "Truncated", "share of episodes that are cut off by the limit of steps", _LOW),
    Metric("discounted", "Discounted return", "mean over episodes of Σ γ^t r_t", _HIGH),
    Metric("predicted", "Predicted return", "mean of what the agent predicts at the start of episodes", _HIGH),
    Metric("exact_return", "Exact return", f"mean undiscounted return within the limit of steps, {_IN_P}", _HIGH),
    Metric("value", "Value", f"Σ_s p(start s) V^π(s), {_IN_P}", _HIGH, oracle="linear solve"),
    Metric("best_value", "Best value", f"Σ_s p(start s) V*(s), {_IN_P}", _HIGH, oracle="linear programming"),
    Metric("ordinary", "Ordinary importance sampling", "mean of ρ G", _HIGH, oracle="all trajectories"),
    Metric("weighted", "Weighted importance sampling", "Σ ρ G / Σ ρ", _HIGH, oracle="all trajectories"),
    Metric("per_decision", "Per-decision", "mean of Σ_t γ^t ρ_{0:t} r_t", _HIGH, oracle="all trajectories"),
    Metric("weighted_per_decision", "Weighted per-decision", "Σ_t γ^t Σ ρ_{0:t} r_t / Σ ρ_{0:t}", _HIGH),
    Metric("interval_low", "Interval, lower end", "2.5 % quantile of 1,000 bootstraps of `weighted`", _HIGH),
    Metric("interval_high", "Interval, upper end", "97.5 % quantile of the same", _HIGH),
    Metric("effective_sample", "Effective sample", "(Σ ρ)² / Σ ρ², in episodes", _HIGH),
    Metric("unweighted", "Unweighted return", "mean of G: of the policy that acted, not of π", _HIGH),
    Metric("truth", "Truth", f"discounted return of π within the limit of steps, {_IN_P}", _HIGH),
    Metric("log_episodes", "Episodes of others", "that the estimates are of", _HIGH),
    Metric("q_error", "Error of Q", f"max over visited s, a (dqn: all) of abs(Q − Q*), Q* {_IN_P}", _LOW),
)

RECORDS = (
    *_CONTROL,
    # Classes and labels.
    Metric("accuracy", "Accuracy", "(1/n) Σ [ŷ = y]", _HIGH, "accuracy", oracle="scikit-learn"),
    Metric("f1_macro", "Macro F1", "mean over classes of 2tp/(2tp + fp + fn)", _HIGH, "f1", oracle="scikit-learn"),
    Metric("f1_micro", "Micro F1", "2tp/(2tp + fp + fn) over all predictions", _HIGH, oracle="scikit-learn"),
    Metric(
        "auc",
        "Area under the ROC curve",
        "P(score of a positive > score of a negative) + ½ P(equal)",
        _HIGH,
        "auc",
        "Hanley and McNeil 1982",
        "all pairs in exact fractions; scikit-learn",
    ),
    Metric(
        "matthews",
        "Matthews' correlation",
        "(n Σ C_ii − Σ t_i p_i) / √((n² − Σ p_i²)(n² − Σ t_i²)), t_i and p_i how often class i is true and predicted",
        _HIGH,
        "matthews",
        "Matthews 1975",
        "scikit-learn",
    ),
    Metric("recall@1", "Recall at 1", "likeliest labels that are right / labels of all examples", _HIGH),
    Metric("precision@5", "Precision at 5", "right ones among the five likeliest / (5 n)", _HIGH),
    Metric("recall@5", "Recall at 5", "right ones among the five likeliest / labels of all examples", _HIGH),
    Metric(
        "user_auc",
        "AUC per user",
        "of clicks Σ n_u AUC_u / Σ n_u over users with a click and without one, n_u their examples; of items mean over "
        "users of P(an item to be found comes before another that is ranked)",
        _HIGH,
        "grouped_auc",
        "Zhou et al. 2018 (arXiv:1706.06978), equation 6; Rendle et al. 2009 (arXiv:1205.2618), section 4.1",
        "scikit-learn, user by user",
    ),
    Metric(
        "ece",
        "Expected calibration error",
        "Σ_b (n_b/n) abs(share of clicks in b − mean probability in b), b ten bins of equally many examples",
        _LOW,
        "expected_calibration_error",
        "Naeini, Cooper and Hauskrecht 2015",
        "scikit-learn's calibration_curve",
    ),
    # Numbers.
    Metric("mse", "Mean squared error", "(1/n) Σ (ŷ − y)²", _LOW, "mean_squared_error", oracle="scikit-learn"),
    Metric("mae", "Mean absolute error", "(1/n) Σ abs(ŷ − y)", _LOW, "mean_absolute_error", oracle="scikit-learn"),
    Metric("r2", "R²", "1 − Σ (ŷ − y)² / Σ (y − ȳ)²", _HIGH, "r2", oracle="scikit-learn"),
    Metric("pearson", "Pearson's r", "correlation of ŷ and y", _HIGH, "pearson", "Pearson 1895", "scipy"),
    Metric(
        "spearman", "Spearman's ρ", "correlation of the ranks of ŷ and y", _HIGH, "spearman", "Spearman 1904", "scipy"
    ),
    Metric("spearman_mean", "Spearman's ρ by file", "mean of ρ over the files of a year's test", _HIGH, paper=_STS),
    Metric(
        "spearman_wmean",
        "Spearman's ρ by file, weighted",
        "the same, each file as often as it has rows",
        _HIGH,
        paper=_STS,
    ),
    # Retrieval.
    *(
        Metric(f"{name}@{k}", f"{title} at {k}", formula.format(k=k), _HIGH, "retrieval_scores", oracle="pytrec_eval")
        for k in (1, 10)
        for name, title, formula in _RETRIEVAL
        if (name, k) != ("recall", 1)
    ),
    Metric(
        "map",
        "Mean average precision",
        "mean over questions of the mean of P@i at the ranks of right answers",
        _HIGH,
        "mean_average_precision",
        oracle="pytrec_eval",
    ),
    Metric(
        "mrr",
        "Mean reciprocal rank",
        "mean over questions of 1 / rank of the first right answer",
        _HIGH,
        "mean_reciprocal_rank",
        "Voorhees 1999",
        "pytrec_eval",
    ),
    # Documents of queries.
    *(
        Metric(
            f"ndcg@{k}",
            f"NDCG at {k}",
            f"Σ (2^l_i − 1) / log₂(i + 1) of the first {k}, over that of the best order",
            _HIGH,
            "ndcg",
            _JARVELIN,
            "scikit-learn",
        )
        for k in (3, 5)
    ),
    *(
        Metric(
            f"letor_ndcg@{k}",
            f"LETOR's NDCG at {k}",
            f"as ndcg@{k} with the discounts 1, 1, log₂ 3, log₂ 4 …; 0 for queries of fewer than {k} documents; equal "
            "scores in file order",
            _HIGH,
            "ndcg",
            _LETOR,
            "loops over documents",
        )
        for k in (1, 3, 5, 10)
    ),
    Metric(
        "letor_ndcg",
        "LETOR's mean NDCG",
        "mean over k = 1 … n, n the documents of the query, of its NDCG@k with LETOR's discounts",
        _HIGH,
        paper=_LETOR,
        oracle="loops over documents",
    ),
    Metric(
        "precision@10",
        "Precision at 10",
        "relevant ones among the first 10 / 10",
        _HIGH,
        "precision_at",
        oracle="pytrec_eval",
    ),
    # Recommendation.
    Metric("recall@20", "Recall at 20", _RETRIEVAL[0][2].format(k=20), _HIGH, "retrieval_scores", oracle="pytrec_eval"),
    Metric("ndcg@20", "NDCG at 20", _RETRIEVAL[3][2].format(k=20), _HIGH, "retrieval_scores", oracle="pytrec_eval"),
    Metric("full_hit@10", "Hit rate at 10 of all items", "`hit@10` with all items ranked that a user has not", _HIGH),
    Metric("full_ndcg@10", "NDCG at 10 of all items", "`ndcg@10` with all items ranked that a user has not", _HIGH),
    Metric(
        "coverage",
        "Coverage",
        "items that are among the first 10 of some user / all items",
        _HIGH,
        "coverage",
        "Herlocker, Konstan, Terveen and Riedl 2004",
        "sets",
    ),
    Metric(
        "novelty",
        "Novelty",
        "mean over the first 10 of all users of −log₂(share of training users who have the item)",
        _HIGH,
        "novelty",
        "Zhou et al. 2010 (arXiv:0808.2670)",
        "the formula written out",
    ),
    Metric("rmse", "Root mean squared error", "√((1/n) Σ (r̂ − r)²) of ratings", _LOW, "root_mean_squared_error"),
    # Tokens.
    Metric("perplexity", "Perplexity", "e^loss", _LOW, paper="Jelinek et al. 1977"),
    Metric("forward_perplexity", "Forward perplexity", "e^(the forward direction's loss)", _LOW),
    Metric("backward_perplexity", "Backward perplexity", "e^(the backward direction's loss)", _LOW),
    Metric("bits_per_character", "Bits per character", "loss / log 2", _LOW),
    Metric("token_accuracy", "Token accuracy", "share of tokens that are the most likely ones", _HIGH),
    Metric("token_loss", "Token loss", "mean of −log p over the predicted tokens alone", _LOW),
    Metric("language_loss", "Language-model loss", "mean of −log p(next token)", _LOW),
    *_pair("next", "Next-sentence", "whether the second text follows", "texts"),
    *_pair("relation", "Relation", "whether a token comes elsewhere in its document", "tokens", _ERNIE),
    *_pair("order", "Order", "which of 9 orders a passage's segments are in", "passages", _ERNIE),
    *_pair(
        "distance", "Distance", "whether two texts are neighbours, of one document or of two", "pairs of texts", _ERNIE
    ),
    # Sequences and spans.
    Metric(
        "wer",
        "Word error rate",
        "share of the decoded sequences that equal none of their references",
        _LOW,
        "sequence_error_rate",
        oracle="counts by hand",
    ),
    Metric(
        "wer_long",
        "Word error rate of long sources",
        "`wer` of the longest quarter of the sources (and of those as long as its shortest)",
        _LOW,
        "sequence_error_rate",
    ),
    Metric(
        "per",
        "Phoneme error rate",
        "edits (insertions, deletions, substitutions) to the nearest reference / the length of those references",
        _LOW,
        "token_error_rate",
        "Levenshtein 1966",
        "the recursion written out",
    ),
    Metric(
        "bleu",
        "BLEU",
        "corpus BLEU of the decoded text by sacreBLEU, 0 to 100 (13a; Chinese: zh)",
        _HIGH,
        "corpus_bleu",
        "Papineni et al. 2002; Post 2018 (arXiv:1804.08771)",
        "sacrebleu",
    ),
    Metric(
        "tag_accuracy", "Tag accuracy", "share of words whose tag is right", _HIGH, "accuracy", oracle="scikit-learn"
    ),
    Metric(
        "entity_precision", "Entity precision", f"tp/(tp + fp) {_ENTITIES}", _HIGH, "entity_scores", oracle="seqeval"
    ),
    Metric("entity_recall", "Entity recall", f"tp/(tp + fn) {_ENTITIES}", _HIGH, "entity_scores", oracle="seqeval"),
    Metric("entity_f1", "Entity F1", f"2tp/(2tp + fp + fn) {_ENTITIES}", _HIGH, "entity_scores", oracle="seqeval"),
    Metric(
        "exact_match",
        "Exact match",
        "share of answers that equal a reference once both are normalised",
        _HIGH,
        "span_scores",
        _SQUAD,
        "SQuAD's rules written out",
    ),
    Metric(
        "f1",
        "Token F1",
        "mean over questions of 2PR/(P + R) over the answer's tokens, the best reference's",
        _HIGH,
        "span_scores",
        _SQUAD,
        "SQuAD's rules written out",
    ),
    Metric(
        "answer_f1",
        "Token F1 where there is an answer",
        "`f1` of the questions that have one",
        _HIGH,
        "span_scores",
        _SQUAD_2,
    ),
    Metric(
        "no_answer_accuracy",
        "Accuracy where there is none",
        "share of the questions without an answer that get none",
        _HIGH,
        paper=_SQUAD_2,
    ),
    # Features, samples and vectors.
    Metric(
        "probe_accuracy",
        "Accuracy of a linear probe",
        "share of right answers of a linear classifier of the features (h; of cpc c at a strand's end, asked for its "
        "document, or for the class of a series in data.label), by ridge regression onto ±1, λ = 0.1, fitted on one "
        "half of the split and tested on the other, each once",
        _HIGH,
        oracle="scikit-learn",
    ),
    Metric(
        "alignment",
        "Alignment",
        "mean of ‖z_i − z_j‖² over the two views of each image, z of length 1; 0 where views are one",
        _LOW,
        paper=_WANG,
        oracle="loops over pairs",
    ),
    Metric(
        "uniformity",
        "Uniformity",
        "log of the mean of e^(−2‖z_i − z_k‖²) over pairs of images; −4 is about as spread as can be",
        _LOW,
        paper=_WANG,
        oracle="loops over pairs",
    ),
    Metric(
        "step_accuracy",
        "Accuracy of the next steps",
        "share of steps whose own z scores best among those of the group's strands",
        _HIGH,
        paper="van den Oord, Li and Vinyals 2018 (arXiv:1807.03748)",
        oracle="loops over strands",
    ),
    Metric(
        "information",
        "Mutual information, at least",
        "log N − loss in nats, N the strands that are compared",
        _HIGH,
        paper="van den Oord, Li and Vinyals 2018 (arXiv:1807.03748), section 2.3",
        oracle="loops over strands",
    ),
    Metric(
        "two_sample_accuracy",
        "Accuracy of a two-sample test",
        "share of held-out points that a classifier, trained on the other half of at most 4,000 examples and as many "
        "samples, places rightly; ½ where it cannot tell them apart",
        _LOW,
        "classifier_two_sample_test",
        "Lopez-Paz and Oquab 2017 (arXiv:1610.06545)",
        "permutation tests",
    ),
    Metric(
        "modes",
        "Modes",
        "modes of a built-in mixture with at least 1 % of the samples within 3σ of their centre",
        _HIGH,
        oracle="counts by hand",
    ),
    Metric(
        "high_quality",
        "Samples of high quality",
        "share of samples within 3σ of a centre of a built-in mixture",
        _HIGH,
        oracle="counts by hand",
    ),
    Metric("wordsim353", "WordSim-353", _RATING, _HIGH, "similarity_correlation", "Finkelstein et al. 2002", _GENSIM),
    Metric("simlex999", "SimLex-999", _RATING, _HIGH, "similarity_correlation", _HILL, _GENSIM),
    Metric("questions-words", "Google's analogies", _ANALOGY, _HIGH, "analogy_accuracy", _MIKOLOV, _GENSIM),
    Metric("CA8-morphological", "CA8, morphological", _ANALOGY, _HIGH, "analogy_accuracy", _LI, _GENSIM),
    Metric("CA8-semantic", "CA8, semantic", _ANALOGY, _HIGH, "analogy_accuracy", _LI, _GENSIM),
)

METRICS: dict[str, Metric] = {record.name: record for record in RECORDS}


def is_rising(name: str) -> bool:
    """Whether more of a metric is better; of a loss, and of what has no record, less is."""
    return name in METRICS and METRICS[name].higher_is_better
