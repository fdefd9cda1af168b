"""Writes the tables that the pages have from the code: `python docs/generate.py`; with --check, only says what is old.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`. Names: systems, systems-zh, recipes, train,
optimizer, schedule, groups, objectives, objective-settings, and for a system settings-NAME, logged-NAME,
deviations-NAME.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from canon import recipe as recipes
from canon import registry
from canon.config import read_toml
from canon.objectives.table import BY_NAME, OBJECTIVES
from canon.optim.schedules import Schedule
from canon.optim.settings import OPTIMIZERS
from canon.registry import System
from canon.tasks import TASKS

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

_CHINESE = {
    "linear-regression": "线性回归",
    "logistic-regression": "逻辑回归",
    "softmax-regression": "Softmax 回归",
    "linear-svm": "线性支持向量机",
    "mlp": "多层感知机",
    "adaboost": "AdaBoost（决策树桩）",
    "lenet": "LeNet-5",
    "resnet": "残差网络（ResNet）",
    "plain": "无捷径网络（ResNet 的对照）",
    "nin": "网络中的网络（NiN）",
    "simclr": "SimCLR（对比学习）",
    "gan": "生成对抗网络",
    "dcgan": "深度卷积生成对抗网络",
    "features": "表格",
    "image": "图像",
    "text": "文本",
    "pairs": "成对文本",
    "nadaraya-watson": "Nadaraya–Watson 核回归",
    "rnn-lm": "循环语言模型（RNN、GRU、LSTM）",
    "seq2seq": "序列到序列（无注意力）",
    "bahdanau": "Bahdanau 注意力",
    "luong": "Luong 注意力",
    "local-attention": "局部注意力",
    "hard-attention": "硬注意力",
    "transformer": "Transformer",
    "transformer-xl": "Transformer-XL",
    "elmo": "ELMo",
    "t5": "T5",
    "xlnet": "XLNet",
    "ernie2": "ERNIE 2.0（持续多任务预训练）",
    "classification": "类别",
    "regression": "数值",
    "generation": "样本",
    "contrastive": "特征",
    "transduction": "另一段文本",
    "language-model": "下一个词元",
    "bidirectional-language-model": "后一个和前一个词",
    "pretraining": "文本中的词元",
    "passages": "文档",
    "word-vectors": "词向量",
    "word2vec": "word2vec",
    "glove": "GloVe",
    "fasttext": "fastText 词向量",
    "nnlm": "神经概率语言模型",
    "ngram": "插值 n 元模型",
    "corpus": "连续文本",
    "fasttext-classifier": "fastText 文本分类器",
    "document": "带标签的文本",
    "labels": "标签（一个或多个）",
    "finetune": "预训练网络的微调",
    "fine-tuning": "类别、数值、词的标签、答案片段或选项",
    "tokens": "带标签的文本",
}
_READS = {
    "features": "tables",
    "image": "images",
    "text": "text",
    "pairs": "pairs of texts",
    "corpus": "running text",
    "document": "texts with labels",
    "tokens": "texts with labels",
    "passages": "documents",
}
_PREDICTS = {
    "classification": "a class",
    "regression": "a number",
    "generation": "samples",
    "contrastive": "features",
    "transduction": "another text",
    "language-model": "the next token",
    "bidirectional-language-model": "the next word and the one before",
    "pretraining": "tokens of a text",
    "word-vectors": "vectors of words",
    "labels": "labels",
    "fine-tuning": "a class, a number, tags, a span or a choice",
}

# The settings of optimisers and schedules have formulas rather than descriptions: what each symbol stands for.
_OPTIMIZER_SETTINGS = {
    "lr": "learning rate; the schedule multiplies it",
    "weight_decay": "λ: an L2 term in the gradient; in adamw and lamb decoupled from it",
    "momentum": "μ, share of the last step that is kept",
    "nesterov": "look ahead along the momentum",
    "eps": "ε, added to the denominator",
    "rho": "ρ, decay of the running mean of squares",
    "centered": "subtract the squared running mean of the gradients",
    "betas": "β₁, β₂, decay of the running means of gradients and their squares",
    "bias_correction": "divide the running means by 1 − βᵗ; false is the form BERT was trained with",
    "momentum_decay": "ψ of the momentum's own schedule",
    "trust_clip": "bounds of the weights' length in the trust ratio",
    "switch_step": "updates by Adam before SGD takes over; must be given",
    "sgd_lr": "learning rate after the switch",
}
_SCHEDULE_SETTINGS = {
    "name": "constant, linear, cosine, exponential or inverse-sqrt",
    "warmup": "steps of linear rise at the start; below 1, their share of all steps",
    "final": "share of lr left at the last step (linear, cosine, exponential)",
    "hold": "share of the steps before the fall begins (exponential)",
    "dim": "width of the model in the paper's formula (inverse-sqrt)",
}

# Where the loss that scores is not the mean of the objective's.
_SCORED = {
    "generation": "C(G) = E log D(x) + E log(1 − D(G(z))) of a fresh classifier D, that of the two-sample test, on "
    "held-out points; −log 4 = −1.386 at best",
}
# Of systems whose phases have losses of their own: what each is, by phase, and what the task observes beside them.
_PHASES = {
    "non-saturating": {
        "discriminator": "mean of −log D(x) − log(1 − D(G(z))) over its turns; log 4 = 1.386 where it cannot tell",
        "generator": 'mean of −log D(G(z)); with `objective.name = "minimax"` of log(1 − D(G(z)))',
    },
}
_NEXT = {
    "token_loss": "mean of −log p over the tokens to fill in; where next sentences are asked for too",
    "next_loss": "mean of −log p(whether the second text follows); as above",
}
_OBSERVED = {
    "masked": _NEXT,
    "prefix": _NEXT,
    "continual": {
        "token_loss": "mean of −log p over the tokens to fill in, of the steps that were of this task",
        "relation_loss`, `train/order_loss`, `train/distance_loss": "the same of each other task",
    },
    "finetune": {
        "language_loss": "mean of −log p(next token), over each sequence's tokens, then over sequences, each as often "
        "as it has targets (a question's choices: once together); with `auxiliary`"
    },
    "non-saturating": {
        "D(x)": "mean probability that D gives to data, in its own turns, before it learns from them",
        "D(G(z))": "the same of samples",
    },
}
_PER = {
    "transduction": " per target token",
    "language-model": " per token",
    "bidirectional-language-model": " per token, the mean of both directions",
}
_AMONG = {"nt-xent": ", in groups of at most 256 images; two views of each, made with the same noise in every run"}
# What learners that are no gradient loop log, by objective; and of how many numbers they are made.
_LEARNED = {
    "exponential": {"weighted_error": "err of the last round: Σ w_i [h(x_i) ≠ y_i] / Σ w_i"},
    "negative-sampling": {
        "loss": "the loss below, of all pairs since the last line, each before it was learned from; summed in float64",
        "lr": "`system.lr` · max(1 − places seen / places of all steps, `system.min_lr`)",
    },
    "labels": {
        "loss": "the loss below, of all examples since the last line, each before it was learned from; summed in "
        "float64",
        "lr": "`system.lr` · max(1 − examples seen / examples of all steps, 1e-4)",
    },
    "glove": {
        "loss": "the loss below, of all entries since the last line, each before it was learned from; summed in "
        "float64",
        "lr": "`system.lr`, which stays as it is",
    },
    "likelihood": {
        "loss": "mean of −log p of the words counted so far, each left out of the counts in turn, at the λ before this "
        "step's iteration of EM; with `interpolated`",
        "discount_1`, `train/discount_2`, `train/discount_3": "D₁, D₂, D₃₊ of n words: D_i = i − (i + 1) Y n_{i+1}/"
        "n_i, Y = n₁/(n₁ + 2 n₂), n_i the number of n-grams that came i times; with `kneser-ney`",
    },
}
_NUMBERS = {
    "exponential": "5 numbers per round",
    "negative-sampling": "numbers of the inputs and outputs",
    "labels": "numbers of the input rows that training touches, and of the outputs",
    "glove": "numbers of w, w̃, b and b̃",
    "likelihood": "k-grams counted, k = 1 … n",
}
_METRICS = {
    "fine-tuning": {
        "language_loss": "as above; with `auxiliary`",
        "accuracy": "classes and choices: (1/n) Σ [ŷ = y]; chooses the best checkpoint",
        "f1_macro": "classes and tags: mean over them of 2tp/(2tp + fp + fn)",
        "matthews": "classes: Matthews' correlation; chooses the best checkpoint on CoLA",
        "pearson`, `valid/spearman": "numbers: correlations of ŷ and y; Spearman's chooses the best checkpoint",
        "mse": "numbers: (1/n) Σ (ŷ − y)² in the data's own unit",
        "tag_accuracy": "tags: share of words whose tag is right; chooses the best checkpoint",
        "entity_precision`, `valid/entity_recall`, `valid/entity_f1": "tags in BIO or BIOES form: of whole entities, "
        "as conlleval counts; F1 chooses the best checkpoint",
        "exact_match`, `valid/f1": "spans: SQuAD's, of the best answer (of none, where that scores more); f1 chooses "
        "the best checkpoint",
        "answer_f1`, `valid/no_answer_accuracy": "spans, where some questions have no answer: F1 of those that have, "
        "share of the others that are told",
    },
    "pretraining": {
        "perplexity": "e^(mean loss of the told tokens)",
        "token_accuracy": "share of told tokens that are the most likely ones",
        "token_loss": "mean loss of the told tokens alone; where there is more to tell",
        "next_loss`, `valid/next_accuracy": "mean of −log p(whether the second text follows), share told rightly; with "
        "`next_sentence`",
        "relation_loss`, `valid/relation_accuracy": "whether a token comes elsewhere in its document; ERNIE 2.0",
        "order_loss`, `valid/order_accuracy": "of passages: which of 9 orders their segments are in; ERNIE 2.0",
        "distance_loss`, `valid/distance_accuracy": "of two texts: neighbours, one document or two; ERNIE 2.0",
    },
    "classification": {
        "accuracy": "(1/n) Σ [ŷ = y]; chooses the best checkpoint",
        "f1_macro": "mean over classes of 2tp/(2tp + fp + fn)",
        "auc": "P(score of a positive > score of a negative) + ½ P(equal); two classes only",
    },
    "regression": {
        "mse": "(1/n) Σ (ŷ − y)² in the target's own unit; chooses the best checkpoint",
        "mae": "(1/n) Σ abs(ŷ − y)",
        "r2": "1 − Σ (ŷ − y)² / Σ (y − ȳ)²",
    },
    "contrastive": {
        "probe_accuracy": "share of right answers of a linear classifier of h (ridge regression onto ±1, λ = 0.1), "
        "fitted on one half of the split and tested on the other, each once; needs labels; chooses the best checkpoint",
        "alignment": "mean of ‖z_i − z_j‖² over the two views of each image, z of length 1; 0 where views are one",
        "uniformity": "log of the mean of e^(−2‖z_i − z_k‖²) over pairs of images; −4 is about as spread as can be",
    },
    "transduction": {
        "perplexity": "e^loss, per target token, <eos> among them",
        "token_accuracy": "share of target tokens that are the most likely ones, given the right tokens before them",
        "wer": "share of the decoded sequences that equal none of their references; where the target is separate "
        "symbols; chooses the best checkpoint",
        "wer_long": "the same of the longest quarter of the sources (and of those as long as its shortest)",
        "per": "edits (insertions, deletions, substitutions) to the nearest reference / the length of those references",
        "bleu": "corpus BLEU of the decoded text by sacreBLEU, 0 to 100 (13a; Chinese: zh); where the target is text; "
        "chooses the best checkpoint",
    },
    "language-model": {
        "perplexity": "e^loss, per token; chooses the best checkpoint",
        "token_accuracy": "share of tokens that are the most likely ones",
        "bits_per_character": "loss / log 2; where tokens are characters",
    },
    "bidirectional-language-model": {
        "perplexity": "e^loss, per token; chooses the best checkpoint",
        "forward_perplexity": "e^(the forward direction's loss)",
        "backward_perplexity": "e^(the backward direction's loss)",
        "token_accuracy": "share of tokens that are the most likely ones, mean of both directions",
    },
    "word-vectors": {
        "wordsim353`, `valid/simlex999": "Spearman's ρ between cosine and judgement, of pairs whose words are known; "
        "on the split that has the tests (`data.tests`): test, else valid, else train",
        "questions-words`, `valid/CA8-…": "share of analogies a : b = c : d with argmax cos(d, b − a + c) right, of "
        "those whose words are known; as above",
    },
    "labels": {
        "accuracy": "share of examples whose likeliest label is one of theirs (precision at 1); chooses the best "
        "checkpoint",
        "f1_micro": "2tp/(2tp + fp + fn) over all predictions: the likeliest label, or with one-vs-all those of p ≥ ½",
        "f1_macro": "mean of 2tp/(2tp + fp + fn) over labels that occur or are predicted",
        "recall@1": "likeliest labels that are right / labels of all examples; where some example has several",
        "precision@5": "right ones among the five likeliest / (5 n); where there are more than five labels",
        "recall@5": "right ones among the five likeliest / labels of all examples; as above",
    },
    "generation": {
        "two_sample_accuracy": "share of held-out points that a classifier, trained on the other half of at most 4,000 "
        "examples and as many samples, places rightly; ½ where they cannot be told apart; chooses the best checkpoint",
        "modes": "modes of a built-in mixture with at least 1 % of the samples within 3σ of their centre",
        "high_quality": "share of samples within 3σ of a centre of a built-in mixture",
    },
}


def systems(page: Path, chinese: bool = False) -> str:
    heads = ("系统", "名称", "输入", "预测", "论文") if chinese else ("system", "", "reads", "predicts", "paper")
    rows = []
    for system in registry.SYSTEMS:
        link = _relative(page, ROOT / system.docs)
        reads = [(_CHINESE if chinese else _READS)[kind] for kind in system.inputs]
        predicts = (_CHINESE if chinese else _PREDICTS)[system.task]
        title = _CHINESE.get(system.name, system.title) if chinese else system.title
        cells = [f"[`{system.name}`]({link})", title, ("、" if chinese else ", ").join(reads), predicts, system.paper]
        rows.append(cells)
    return _table(heads, rows)


def recipe_table(page: Path) -> str:
    rows = []
    for name in recipes.names():
        table = read_toml(recipes.RECIPES / f"{name}.toml")
        train, optimizer = table["train"], table.get("optimizer", {})
        budget = f"{train['epochs']:g} epochs" if "epochs" in train else f"{train['steps']:,} steps"
        batch = f"{train['tokens']:,} tokens" if "tokens" in train else f"{train.get('batch', 64) or 'all'}"
        reached = "<br>".join(
            f"{key.removeprefix('test/')} {bounds[0]:.4g} to {bounds[1]:.4g}"
            for key, bounds in table.get("expect", {}).items()
            if key != "curve"
        )
        system, _ = registry.find(table["system"]["name"])
        link = f"[`{table['system']['name']}`]({_relative(page, ROOT / system.docs)})"
        how = f"`{optimizer.get('name', 'adam')}`" if system.loop == "gradient" else "–"
        rows.append([f"`{name}`", link, f"`{table['data']['source']}`", budget, batch, how, reached])
    return _table(("recipe", "system", "data", "budget", "batch", "optimiser", "expected on the test set"), rows)


def train_table(page: Path) -> str:
    return _settings(recipes.TrainConfig, "train.")


def optimizer_table(page: Path) -> str:
    users: dict[str, list[str]] = {}
    for name, cls in OPTIMIZERS.items():
        for field in fields(cls):  # type: ignore[arg-type]
            users.setdefault(field.name, []).append(name)
    everyone = list(OPTIMIZERS)
    rows = [
        ["`name`", "all", '`"adam"`', "one of the names in this table"],
    ]
    for key, names in users.items():
        if key not in _OPTIMIZER_SETTINGS:
            raise SystemExit(f"docs/generate.py: say in _OPTIMIZER_SETTINGS what optimizer.{key} is.")
        defaults: dict[str, list[str]] = {}
        for name in names:
            field = next(field for field in fields(OPTIMIZERS[name]) if field.name == key)  # type: ignore[arg-type]
            defaults.setdefault(_default(field), []).append(name)
        told = [f"{value} ({', '.join(own)})" if len(defaults) > 1 else value for value, own in defaults.items()]
        rows.append(
            [f"`{key}`", "all" if names == everyone else ", ".join(names), "; ".join(told), _OPTIMIZER_SETTINGS[key]]
        )
    return _table(("`optimizer.`", "of", "default", ""), rows)


def schedule_table(page: Path) -> str:
    rows = []
    for field in fields(Schedule):  # type: ignore[arg-type]
        if field.name not in _SCHEDULE_SETTINGS:
            raise SystemExit(f"docs/generate.py: say in _SCHEDULE_SETTINGS what schedule.{field.name} is.")
        rows.append([f"`{field.name}`", _default(field), _SCHEDULE_SETTINGS[field.name]])
    return _table(("`optimizer.schedule.`", "default", ""), rows)


def group_table(page: Path) -> str:
    return _settings(recipes.Group, "optimizer.groups.")


def settings(system: System) -> str:
    config, _ = system.load()
    presets = []
    for preset, changes in system.presets.items():
        of_objective = {f"objective.{key}": value for key, value in changes.get("objective", {}).items()}
        flat = {key: value for key, value in changes.items() if key != "objective"} | of_objective
        listed = ", ".join(f"`{key} = {_toml(value)}`" for key, value in flat.items()) or "the defaults"
        presets.append([f"`{system.name}:{preset}`", listed])
    return _settings(config, "system.") + "\n" + _objective(system) + _table(("preset", "sets"), presets)


def _objective(system: System) -> str:
    """The settings of a system's own objective, with the defaults that they have there."""
    own = BY_NAME[system.objective].tasks[system.task]
    if system.loop == "learner" or not fields(own):  # type: ignore[arg-type]
        return ""
    return _settings(own, "objective.", system.objective_settings) + "\n"


def objective_table(page: Path) -> str:
    rows = []
    for own in OBJECTIVES:
        names = dict.fromkeys(field.name for cls in own.tasks.values() for field in fields(cls))  # type: ignore[arg-type]
        listed = ", ".join(f"`{name}`" for name in names) or "–"
        formula = own.formula.replace("|", "\\|")
        rows.append([f"`{own.name}`", ", ".join(own.tasks), formula, listed, own.paper])
    return _table(("`objective.name`", "tasks", "loss of one target", "settings", "paper"), rows)


def objective_settings(page: Path) -> str:
    users: dict[tuple[str, str, str], list[str]] = {}
    for own in OBJECTIVES:
        for cls in own.tasks.values():
            for field in fields(cls):  # type: ignore[arg-type]
                described = cls.__pydantic_fields__[field.name].description  # type: ignore[attr-defined]
                users.setdefault((field.name, _default(field), described), []).append(f"`{own.name}`")
    rows = [[f"`{n}`", ", ".join(dict.fromkeys(names)), default, text] for (n, default, text), names in users.items()]
    return _table(("`objective.`", "of", "default", ""), rows)


def logged(system: System) -> str:
    """Every number that a run of the system leaves, by file."""
    if system.task not in _METRICS:
        raise SystemExit(f"docs/generate.py: _METRICS lacks {system.task}.")
    loss = f"mean of {BY_NAME[system.objective].formula}" + _PER.get(system.task, "")
    loss = _SCORED.get(system.task, loss)
    rows = [["metrics.jsonl", "`step`, `epoch`", "steps done; examples seen / training examples"]]

    def add(file: str, name: str, meaning: str) -> None:
        rows.append([file, f"`{name}`", meaning])

    metrics = "metrics.jsonl"
    if system.loop == "gradient":
        plain = "; without the penalty" if system.objective == "hinge" else ""
        phases = _PHASES.get(system.objective, {"": loss})
        for phase, formula in phases.items():
            ending = f"/{phase}" if phase else ""
            rate = f"optimizers.{phase}.lr`, else `optimizer.lr" if phase else "optimizer.lr"
            told = f"{formula}; over all examples since the last line, in training mode{plain}"
            add(metrics, f"train/loss{ending}", told)
            add(metrics, f"train/lr{ending}", f"learning rate of this step: `{rate}` × the schedule's multiplier")
            norm = "‖g‖ before clipping, of the last step; only with `train.clip`"
            add(metrics, f"train/gradient_norm{ending}", norm)
        for name, formula in _OBSERVED.get(system.objective, {}).items():
            add(metrics, f"train/{name}", formula)
        add(
            metrics,
            "train/skipped_steps",
            "steps left out so far, where there are any (`train.nonfinite`)",
        )
    else:
        for name, formula in _LEARNED.get(system.objective, {}).items():
            add(metrics, f"train/{name}", formula)
    same = system.loop == "gradient" and system.objective not in _PHASES
    told = "the same on the validation set" + _AMONG.get(system.objective, "")
    if system.task == "transduction":
        told += ", without label smoothing; metrics from greedy decoding (in result.json: with `system.beam`)"
    add(metrics, "valid/loss", told if same else loss)
    for name, formula in _METRICS[system.task].items():
        add(metrics, f"valid/{name}", formula)
    timing = "timing.jsonl"
    add(timing, "seconds", "of training, over all sittings")
    add(timing, "examples_per_second", "examples since this sitting began / its seconds")
    add(timing, "share_of_peak", _PEAK if system.loop == "gradient" else "0: its operations are not counted")
    add(timing, "memory_bytes", "most memory in use so far: the GPU's, or this process's")
    result = "result.json"
    add(result, "recipe`, `system`, `seed", "what was run")
    add(result, "steps`, `best_step`, `ended", "steps made, the step whose weights are used, and why the run ended")
    most = TASKS[system.task].risk_examples
    told = f"; train: of {most:,} examples at most" if most < 1 << 60 else ""
    add(result, "scores.train`, `.valid`, `.test", f"loss and metrics at the best weights{told}")
    add(result, "remarks", "what is told beside the scores: the signature of sacreBLEU")
    add(result, "risk.empirical", "the loss on the training set at the best weights")
    penalty = " + ½‖w‖²/(C n)" if system.objective == "hinge" else "; this system has no penalty, so the same number"
    add(result, "risk.structural", f"the empirical risk{penalty}")
    add(result, "risk.generalization", "the loss on the test set")
    add(result, "expected", "the recipe's ranges; empty where a setting that decides them was changed")
    add(result, "protocol.data`, `.source`, `.split`, `.seed`, `.sizes", "fingerprint of the data; how it was split")
    add(result, "protocol.python`, `.languages", "of some sets: the Python they are part of; from which to which")
    if "passages" in system.inputs:
        add(result, "protocol.max_length", "most tokens of a passage")
    parameters = (
        "trained numbers of the network"
        if system.loop == "gradient"
        else _NUMBERS.get(system.objective, "numbers learned")
    )
    add(result, "cost.seconds`, `.examples`, `.examples_per_second", "as above; examples = steps × batch")
    add(result, "cost.parameters", parameters)
    add(result, "cost.memory_bytes`, `.device`, `.processes", "as above; cpu, cuda or mps; processes of torchrun")
    return _table(("file", "name", "formula or meaning"), rows)


_PEAK = "6 × multiply-adds of the network × examples per second / the device's peak FLOP/s; 0 where the peak is unknown"


def deviations(system: System) -> str:
    return "\n".join(f"- {text}" for text in system.deviations) + "\n" if system.deviations else "None.\n"


def _relative(page: Path, target: Path) -> str:
    return str(target.relative_to(page.parent, walk_up=True)) if sys.version_info >= (3, 12) else _walk(page, target)


def _walk(page: Path, target: Path) -> str:
    ours, theirs = page.parent.parts, target.parts
    shared = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), len(ours))
    return "/".join([*[".."] * (len(ours) - shared), *theirs[shared:]])


def _settings(cls: type, prefix: str, other: Mapping[str, Any] | None = None) -> str:
    """other: defaults in place of the class's."""
    described, other = cls.__pydantic_fields__, other or {}  # type: ignore[attr-defined]
    rows = []
    for field in fields(cls):  # type: ignore[arg-type]
        default = f"`{_toml(other[field.name])}`" if field.name in other else _default(field)
        rows.append([f"`{field.name}`", default, described[field.name].description])
    return _table((f"`{prefix}`", "default", ""), rows)


def _default(field: Any) -> str:
    value = field.default
    value = getattr(value, "default", value)  # of a pydantic Field
    return "–" if value in (MISSING, PydanticUndefined) else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if value is None:
        return "none"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def blocks() -> dict[str, Callable[[Path], str]]:
    """What writes each block, by its name."""
    found: dict[str, Callable[[Path], str]] = {
        "systems": systems,
        "systems-zh": lambda page: systems(page, chinese=True),
        "recipes": recipe_table,
        "train": train_table,
        "optimizer": optimizer_table,
        "schedule": schedule_table,
        "groups": group_table,
        "objectives": objective_table,
        "objective-settings": objective_settings,
    }
    for system in registry.SYSTEMS:
        found[f"settings-{system.name}"] = lambda page, own=system: settings(own)
        found[f"logged-{system.name}"] = lambda page, own=system: logged(own)
        found[f"deviations-{system.name}"] = lambda page, own=system: deviations(own)
    return found


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renewed(page: Path, text: str) -> str:
    writers = blocks()

    def write(match: re.Match[str]) -> str:
        head, name, end = match.groups()
        if name not in writers:
            raise SystemExit(f"{page.relative_to(ROOT)}: there is no table {name}.")
        return head + writers[name](page) + end

    return _BLOCK.sub(write, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a table is out of date")
    check = parser.parse_args().check
    old = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = renewed(page, text)
        if new != text:
            old.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(new, encoding="utf-8")
    if old:
        print(f"{'Out of date' if check else 'Renewed'}: {', '.join(old)}.")
    if check and old:
        print("Renew them with: python docs/generate.py")
        sys.exit(1)


if __name__ == "__main__":
    main()
