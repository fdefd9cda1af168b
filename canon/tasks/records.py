"""The record of every task: what it predicts, and the metrics that it is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from canon.data.targets import (
    Choice,
    Class,
    HiddenTokens,
    Labels,
    NextToken,
    Nothing,
    Number,
    OtherText,
    Span,
    Tags,
    Target,
)
from canon.metrics.records import METRICS


@dataclass(frozen=True)
class Score:
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
    scores: tuple[Score, ...]
    targets: tuple[type[Target], ...]  # what it can predict; the first that the data has is taken
    per: str = ""  # what the loss is the mean over, where that is not the example
    loss: str = ""  # formula of the loss that scores, where it is not the mean of the objective's
    scoring: str = ""  # how validation differs from training, beside what is learned from


_TESTS = "on the split that has the tests (`data.tests`): test, else valid, else train"
_NEXT = "with `next_sentence`"
_ERNIE = "ERNIE 2.0"
_ENTITIES = "tags in BIO or BIOES form"
_UNANSWERABLE = "spans, where some questions have no answer"

RECORDS = (
    TaskRecord(
        "classification",
        "Classification",
        "a class",
        "类别",
        (
            Score("accuracy", best=True),
            Score("f1_macro"),
            Score("auc", where="two classes only"),
        ),
        (Class,),
    ),
    TaskRecord(
        "regression",
        "Regression",
        "a number",
        "数值",
        (
            Score("mse", formula="(1/n) Σ (ŷ − y)² in the target's own unit", best=True),
            Score("mae"),
            Score("r2"),
        ),
        (Number,),
    ),
    TaskRecord(
        "contrastive",
        "Contrastive learning",
        "features",
        "特征",
        (
            Score("probe_accuracy", where="needs labels", best=True),
            Score("alignment"),
            Score("uniformity"),
        ),
        (Class, Nothing),
        scoring="in groups of at most 256 images; two views of each, made with the same noise in every run",
    ),
    TaskRecord(
        "generation",
        "Generation",
        "samples",
        "样本",
        (
            Score("two_sample_accuracy", best=True),
            Score("modes"),
            Score("high_quality"),
        ),
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
            Score("perplexity", note="per target token, <eos> among them"),
            Score(
                "token_accuracy",
                formula="share of target tokens that are the most likely ones, given the right tokens before them",
            ),
            Score("wer", where="where the target is separate symbols", best=True),
            Score("wer_long", where="as above"),
            Score("per", where="as above"),
            Score("bleu", where="where the target is text", best=True),
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
            Score("perplexity", note="per token", best=True),
            Score("token_accuracy"),
            Score("bits_per_character", where="where tokens are characters"),
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
            Score("perplexity", note="per token", best=True),
            Score("forward_perplexity"),
            Score("backward_perplexity"),
            Score("token_accuracy", note="mean of both directions"),
        ),
        (NextToken,),
        per="per token, the mean of both directions",
    ),
    TaskRecord(
        "pretraining",
        "Pre-training",
        "tokens of a text",
        "文本中的词元",
        (
            Score("perplexity", formula="e^(mean loss of the predicted tokens)"),
            Score("token_accuracy", formula="share of the predicted tokens that are the most likely ones"),
            Score("token_loss", where="where more than tokens is predicted"),
            Score("next_loss", where=_NEXT),
            Score("next_accuracy", where=_NEXT),
            Score("relation_loss", where=_ERNIE),
            Score("relation_accuracy", where=_ERNIE),
            Score("order_loss", where=_ERNIE),
            Score("order_accuracy", where=_ERNIE),
            Score("distance_loss", where=_ERNIE),
            Score("distance_accuracy", where=_ERNIE),
        ),
        (HiddenTokens,),
    ),
    TaskRecord(
        "word-vectors",
        "Word vectors",
        "vectors of words",
        "词向量",
        (
            Score("wordsim353", where=_TESTS),
            Score("simlex999", formula="the same of these pairs"),
            Score("questions-words", where="as above"),
            Score("CA8-morphological", formula="the same of these analogies"),
            Score("CA8-semantic", formula="the same of these analogies"),
        ),
        (Nothing,),
    ),
    TaskRecord(
        "labels",
        "Labels",
        "labels",
        "标签（一个或多个）",
        (
            Score(
                "accuracy",
                formula="share of examples whose likeliest label is one of theirs (precision at 1)",
                best=True,
            ),
            Score("f1_micro", note="which are the likeliest label, or with one-vs-all those of p ≥ ½"),
            Score("f1_macro", formula="mean of 2tp/(2tp + fp + fn) over labels that occur or are predicted"),
            Score("recall@1", where="where some example has several"),
            Score("precision@5", where="where there are more than five labels"),
            Score("recall@5", where="as above"),
        ),
        (Labels,),
    ),
    TaskRecord(
        "fine-tuning",
        "Fine-tuning",
        "a class, a number, tags, a span or a choice",
        "类别、数值、词的标签、答案片段或选项",
        (
            Score("language_loss", formula="as above", where="with `auxiliary`"),
            Score("accuracy", of="classes and choices", best=True),
            Score("f1_macro", of="classes and tags", formula="mean over them of 2tp/(2tp + fp + fn)"),
            Score("matthews", of="classes", where="chooses the best checkpoint on CoLA"),
            Score("pearson", of="numbers"),
            Score("spearman", of="numbers", best=True),
            Score("mse", of="numbers", note="in the data's own unit"),
            Score("tag_accuracy", of="tags", where="chooses the best checkpoint unless there are entities"),
            Score("entity_precision", of=_ENTITIES),
            Score("entity_recall", of=_ENTITIES),
            Score("entity_f1", of=_ENTITIES, best=True),
            Score("exact_match", of="spans", note="the best one taken (none, where that scores more)"),
            Score("f1", of="spans", best=True),
            Score("answer_f1", of=_UNANSWERABLE),
            Score("no_answer_accuracy", of=_UNANSWERABLE),
        ),
        (Class, Number, Choice, Tags, Span),
    ),
)

TASK_RECORDS: dict[str, TaskRecord] = {record.name: record for record in RECORDS}
