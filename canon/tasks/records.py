"""The record of every task: what it predicts, and the metrics that it is judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace

from canon.data.targets import (
    Choice,
    Class,
    HiddenTokens,
    Labels,
    Match,
    NextToken,
    Nothing,
    Number,
    OtherText,
    Relevance,
    Score,
    Span,
    Tags,
    Target,
)
from canon.metrics.records import METRICS


@dataclass(frozen=True)
class TaskScore:
    """A metric as a task reports it."""

    metric: str  # a name of canon.metrics.records
    of: str = ""  # the predictions that have it, where a task has several kinds
    formula: str = ""  # where the task means something else by it
    note: str = ""  # what goes on from the formula
    where: str = ""  # when it is reported
    best: bool = False  # whether it chooses the best checkpoint

    def __str__(self) -> str:
        formula = self.formula or METRICS[self.metric].formula
        sentence = f"{self.of}: {formula}" if self.of else formula
        sentence += f", {self.note}" if self.note else ""
        return "; ".join([sentence, *filter(None, [self.where]), *["chooses the best checkpoint"] * self.best])


@dataclass(frozen=True)
class TaskRecord:
    name: str
    title: str
    predicts: str
    predicts_zh: str
    scores: tuple[TaskScore, ...]
    targets: tuple[type[Target], ...]  # what it can predict; the first that the data has is taken
    per: str = ""  # what the loss is the mean over, where that is not the example
    loss: str = ""  # formula of the loss that scores, where it is not the mean of the objective's
    scoring: str = ""  # how validation differs from training, beside what is learned from
    words: bool = False  # whether a file of text is read by words where the recipe names no tokenizer


_TESTS = "on the split that has the tests (`data.tests`): test, else valid, else train"
_NEXT = "with `next_sentence`"
_ERNIE = "ERNIE 2.0"
_RELATIONS = ("relation", "order", "distance")
_LAID = (
    TaskScore(
        "alignment", formula="mean of ‖x − y‖² over pairs that belong together, or have more than 4/5 of the score"
    ),
    TaskScore("uniformity", formula="log of the mean of e^(−2‖x_i − x_j‖²) over pairs of at most 4,000 texts"),
)
_SCORED = "where a split has scores"
_CORRELATED = (
    TaskScore("spearman", formula="correlation of the ranks of cosine and score", where=_SCORED),
    TaskScore("pearson", formula="correlation of cosine and score", where=_SCORED),
    TaskScore("spearman_mean", where="several files"),
    TaskScore("spearman_wmean", where="several files"),
    TaskScore("auc", where="scores 0 and 1"),
    TaskScore("map", where="scores 0 and 1, several answers of a question"),
    TaskScore("mrr", where="as above"),
)
_GROUPS = "in groups of at most 256 rows; metrics of all rows together"
_ENTITIES = "tags that mark entities"
_SAMPLED = "with a protocol that ranks candidates alone"
_TABLE = "states, where the environment has a table P"
_PLAYED = ("return", "return_std", "return_median", "return_low", "return_high", "length", "truncated", "discounted")
_UNANSWERABLE = "spans, where some questions have no answer"

RECORDS = (
    TaskRecord(
        "classification",
        "Classification",
        "a class",
        "类别",
        (TaskScore("accuracy", best=True), TaskScore("f1_macro"), TaskScore("auc", where="two classes only")),
        (Class,),
    ),
    TaskRecord(
        "regression",
        "Regression",
        "a number",
        "数值",
        (
            TaskScore("mse", formula="(1/n) Σ (ŷ − y)² in the target's own unit", best=True),
            TaskScore("mae"),
            TaskScore("r2"),
            TaskScore("spearman"),
        ),
        (Number,),
    ),
    TaskRecord(
        "contrastive",
        "Contrastive learning",
        "features",
        "特征",
        (TaskScore("probe_accuracy", where="needs labels", best=True), TaskScore("alignment"), TaskScore("uniformity")),
        (Class, Nothing),
        scoring="in groups of at most 256 images; two views of each, made with the same noise in every run",
    ),
    TaskRecord(
        "generation",
        "Generation",
        "samples",
        "样本",
        (TaskScore("two_sample_accuracy", best=True), TaskScore("modes"), TaskScore("high_quality")),
        (Nothing,),
        loss="C(G) = E log D(x) + E log(1 − D(G(z))) of a fresh classifier D, that of the two-sample test, on held-out "
        "points; −log 4 = −1.386 at best",
    ),
    TaskRecord(
        "transduction",
        "Transduction",
        "another text",
        "另一段文本",
        (
            TaskScore("perplexity", note="per target token, <eos> among them"),
            TaskScore(
                "token_accuracy",
                formula="share of target tokens that are the most likely ones, given the right tokens before them",
            ),
            TaskScore("wer", where="where the target is separate symbols", best=True),
            TaskScore("wer_long", where="as above"),
            TaskScore("per", where="as above"),
            TaskScore("bleu", where="where the target is text", best=True),
        ),
        (OtherText,),
        per="per target token",
        scoring="without label smoothing; metrics from greedy decoding (in result.json: with `system.beam`)",
    ),
    TaskRecord(
        "language-model",
        "Language modelling",
        "the next token",
        "下一个词元",
        (
            TaskScore("perplexity", note="per token", best=True),
            TaskScore("token_accuracy"),
            TaskScore("bits_per_character", where="where tokens are characters"),
        ),
        (NextToken,),
        per="per token",
    ),
    TaskRecord(
        "bidirectional-language-model",
        "Language modelling in both directions",
        "the next word and the one before",
        "后一个和前一个词",
        (
            TaskScore("perplexity", note="per token", best=True),
            TaskScore("forward_perplexity"),
            TaskScore("backward_perplexity"),
            TaskScore("token_accuracy", note="mean of both directions"),
        ),
        (NextToken,),
        per="per token, the mean of both directions",
        words=True,
    ),
    TaskRecord(
        "pretraining",
        "Pre-training",
        "tokens of a text",
        "文本中的词元",
        (
            TaskScore("perplexity", formula="e^(mean loss of the predicted tokens)"),
            TaskScore("token_accuracy", formula="share of the predicted tokens that are the most likely ones"),
            TaskScore("token_loss", where="where more than tokens is predicted"),
            TaskScore("next_loss", where=_NEXT),
            TaskScore("next_accuracy", where=_NEXT),
            *(TaskScore(f"{name}_{kind}", where=_ERNIE) for name in _RELATIONS for kind in ("loss", "accuracy")),
        ),
        (HiddenTokens,),
    ),
    TaskRecord(
        "word-vectors",
        "Word vectors",
        "vectors of words",
        "词向量",
        (
            TaskScore("wordsim353", where=_TESTS),
            TaskScore("simlex999", formula="the same of these pairs"),
            TaskScore("questions-words", where="as above"),
            TaskScore("CA8-morphological", formula="the same of these analogies"),
            TaskScore("CA8-semantic", formula="the same of these analogies"),
        ),
        (Nothing,),
    ),
    TaskRecord(
        "labels",
        "Labels",
        "labels",
        "标签（一个或多个）",
        (
            TaskScore(
                "accuracy",
                formula="share of examples whose likeliest label is one of theirs (precision at 1)",
                best=True,
            ),
            TaskScore("f1_micro", note="which are the likeliest label, or with one-vs-all those of p ≥ ½"),
            TaskScore("f1_macro", formula="mean of 2tp/(2tp + fp + fn) over labels that occur or are predicted"),
            TaskScore("recall@1", where="where some example has several"),
            TaskScore("precision@5", where="where there are more than five labels"),
            TaskScore("recall@5", where="as above"),
        ),
        (Labels,),
    ),
    TaskRecord(
        "future-steps",
        "What comes next",
        "features of what came before",
        "前文的特征",
        (
            TaskScore("step_accuracy", best=True),
            TaskScore("information"),
            TaskScore("probe_accuracy", where="where strands are of several documents, or data.label names classes"),
        ),
        (Nothing,),
        scoring="in groups of at most 256 strands",
    ),
    TaskRecord(
        "retrieval",
        "Retrieval",
        "vectors of texts",
        "文本向量",
        (
            TaskScore("recall@1", formula="share of relevant texts that are ranked first"),
            *(
                TaskScore(f"{name}@{k}", best=(name, k) == ("ndcg", 10))
                for k in (1, 10)
                for name in ("recall", "hit", "mrr", "ndcg", "map")
                if (name, k) != ("recall", 1)
            ),
            *_CORRELATED,
            *_LAID,
        ),
        (Match,),
        scoring=_GROUPS,
    ),
    TaskRecord(
        "similarity",
        "Similarity of sentences",
        "how alike two texts are",
        "两段文本的相似度",
        (replace(_CORRELATED[0], best=True), *_CORRELATED[1:], *_LAID),
        (Score,),
        scoring=_GROUPS,
    ),
    TaskRecord(
        "inference",
        "Inference by two vectors",
        "the class of two texts",
        "句对的类别",
        (TaskScore("accuracy", best=True), *_CORRELATED, *_LAID),
        (Class,),
        scoring=_GROUPS,
    ),
    TaskRecord(
        "sentence-views",
        "Sentences and their views",
        "vectors of texts",
        "文本向量",
        (*_CORRELATED, *_LAID),
        (Nothing,),
        scoring=_GROUPS,
    ),
    TaskRecord(
        "fine-tuning",
        "Fine-tuning",
        "a class, a number, tags, a span or a choice",
        "类别、数值、词的标签、答案片段或选项",
        (
            TaskScore("language_loss", formula="as above", where="with `auxiliary`"),
            TaskScore("accuracy", of="classes and choices", best=True),
            TaskScore("f1_macro", of="classes and tags", formula="mean over them of 2tp/(2tp + fp + fn)"),
            TaskScore("matthews", of="classes", where="chooses the best checkpoint on CoLA"),
            TaskScore("pearson", of="numbers"),
            TaskScore("spearman", of="numbers", best=True),
            TaskScore("mse", of="numbers", note="in the data's own unit"),
            TaskScore("tag_accuracy", of="tags", where="chooses the best checkpoint unless there are entities"),
            TaskScore("entity_precision", of=_ENTITIES),
            TaskScore("entity_recall", of=_ENTITIES),
            TaskScore("entity_f1", of=_ENTITIES, best=True),
            TaskScore("exact_match", of="spans", note="the best one taken (none, where that scores more)"),
            TaskScore("f1", of="spans", best=True),
            TaskScore("answer_f1", of=_UNANSWERABLE),
            TaskScore("no_answer_accuracy", of=_UNANSWERABLE),
        ),
        (Class, Number, Choice, Tags, Span),
    ),
    TaskRecord(
        "prompting",
        "Prompting",
        "a class, by the words for it",
        "类别（由标签词得出）",
        (
            TaskScore("accuracy", best=True),
            TaskScore("f1_macro", formula="mean over classes of 2tp/(2tp + fp + fn)"),
            TaskScore("matthews", where="chooses the best checkpoint on CoLA"),
        ),
        (Class,),
        scoring="without hidden tokens; with demonstrations the mean over all draws",
    ),
    TaskRecord(
        "ranking",
        "Ranking",
        "the order of a query's documents",
        "查询的文档排序",
        (
            *(
                TaskScore(
                    f"ndcg@{k}",
                    formula=f"Σ (2^l_i − 1) / log₂(i + 1) of the first {k}, over that of the best order; equal scores "
                    "averaged; 0 without a relevant document",
                    best=k == 10,
                )
                for k in (1, 3, 5, 10)
            ),
            *(TaskScore(f"letor_ndcg@{k}") for k in (1, 3, 5, 10)),
            TaskScore("letor_ndcg"),
            *(TaskScore(f"precision@{k}", formula=f"relevant documents among the first {k} / {k}") for k in (5, 10)),
            TaskScore("map", formula="mean over queries of the mean of P@i at the ranks of relevant documents"),
            TaskScore("mrr", formula="mean over queries of 1 / rank of the first relevant document"),
        ),
        (Relevance,),
        per="per query with documents of unequal grades (of some objectives: per pair, per document)",
        scoring="metrics over all queries, those with documents of one grade too",
    ),
    TaskRecord(
        "recommendation",
        "Recommendation",
        "items for users",
        "给用户的物品",
        (
            TaskScore("hit@1", formula="share of users whose first item is one to be found"),
            TaskScore("hit@10", formula="share of users with an item to be found among the first 10"),
            TaskScore("ndcg@10", best=True),
            TaskScore("recall@20", formula="items to be found among the first 20 / all of them, mean over users"),
            TaskScore("ndcg@20"),
            TaskScore("user_auc"),
            TaskScore("coverage"),
            TaskScore("novelty"),
            TaskScore("full_hit@10", where=_SAMPLED),
            TaskScore("full_ndcg@10", where=_SAMPLED),
            TaskScore("rmse", where="with `system.loss` squared"),
        ),
        (Nothing,),
        loss="log(1 + e^(−(x̂_ui − x̂_uj))), i an item to be found (of training: one of 50,000 events at most), j one "
        "that the user does not have, the same in every run",
        scoring="the protocol (`data.protocol`) says which items are ranked",
    ),
    TaskRecord(
        "click-prediction",
        "Click prediction",
        "the probability of a click",
        "点击概率",
        (
            TaskScore("auc", best=True),
            TaskScore("user_auc", where="where a column says who the user is"),
            TaskScore("ece"),
            TaskScore("accuracy"),
        ),
        (Class,),
    ),
    TaskRecord(
        "control",
        "Control",
        "an action",
        "动作",
        (
            TaskScore("return", best=True),
            *map(TaskScore, _PLAYED[1:]),
            TaskScore("predicted", where="where the agent predicts it"),
            *(TaskScore(name, where=_TABLE) for name in ("exact_return", "value", "best_value")),
            TaskScore("q_error", where="tables of Q"),
        ),
        (Nothing,),
        loss="planning: max over states of abs(V(s) − max_a Σ p (r + γ (1 − terminated) V(s'))); else none",
        scoring="episodes of an environment of their own, greedily, from seeds that training never uses",
    ),
    TaskRecord(
        "policy-evaluation",
        "Policy evaluation",
        "the value of a policy",
        "策略的价值",
        (
            *map(TaskScore, ("ordinary", "weighted", "per_decision", "weighted_per_decision")),
            *map(TaskScore, ("interval_low", "interval_high", "effective_sample", "unweighted")),
            TaskScore("truth", where=_TABLE),
            TaskScore("log_episodes", best=True),
            *(TaskScore(name, of="π itself, played") for name in _PLAYED),
        ),
        (Nothing,),
        loss="none",
        scoring="episodes of the policy itself, beside what the others' episodes say of it",
    ),
)

TASK_RECORDS: dict[str, TaskRecord] = {record.name: record for record in RECORDS}
