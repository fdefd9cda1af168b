"""Pre-trained Transformers, ELMo, and their fine-tuning."""

from __future__ import annotations

from functools import partial
from typing import Any

from canon.registry.record import Interop, Range, System

_pretrained = partial(System, chapter="pretrained", encodings=("passages",), task="pretraining")
_NO_DROPOUT: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0}
_T5_1_1 = {"activation": "gated-gelu", "tie": False, **_NO_DROPOUT}

# The smallest networks, for tests and for a first look: left to right, like BERT, and the others.
_TINY = {"dim": 64, "num_layers": 2, "num_heads": 2, "hidden": 256, "max_positions": 128}
_TINY_BERT = {"dim": 128, "num_layers": 2, "num_heads": 2, "hidden": 512}
TINIEST = {"dim": 16, "num_layers": 2, "num_heads": 2, "hidden": 32, **_NO_DROPOUT}
_LARGE = {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096}

_NEXT_SENTENCE = {
    "token_loss": "mean of −log p over the tokens to fill in; with `next_sentence`",
    "next_loss": "mean of −log p(whether the second text follows); with `next_sentence`",
}


SYSTEMS: tuple[System, ...] = (
    _pretrained(
        name="elmo",
        title="ELMo",
        paper="Peters et al. 2018, Deep contextualized word representations (arXiv:1802.05365)",
        module="canon.systems.pretrained.elmo:ELMo",
        encodings=("windows",),
        task="bidirectional-language-model",
        objective="bidirectional",
        recipe="pretrained/elmo",
        presets={
            "tiny": {
                "char_dim": 4,
                "filters": [[1, 8], [2, 8], [3, 16]],
                "num_highway": 1,
                "projection": 16,
                "hidden": 32,
                "dropout": 0.0,
            },
            "small": {"num_highway": 1, "projection": 128, "hidden": 1024},
            "medium": {"num_highway": 1, "projection": 256, "hidden": 2048},
            "original": {},
        },
        interop=Interop(reads=("elmo",), writes=("elmo",)),
        deviations=(
            "the whole softmax, where the authors sample 8,192 words of it",
            "the backward direction starts from an empty state at the end of every window; the authors read the "
            "reversed text as a second stream and carry its state too",
            "one token between two sentences, read as <S> by the forward direction and as </S> by the backward one, "
            "where the authors' text has both",
            "a sentence is encoded from an empty state; the authors' code carries the state from one batch to the next",
            "words of other data that the vocabulary lacks are read as <unk> where tokens are given (not by "
            "`encode_words`), where the authors know their characters",
        ),
    ),
    _pretrained(
        name="gpt",
        title="GPT",
        paper="Radford, Narasimhan, Salimans and Sutskever 2018, Improving language understanding by generative "
        "pre-training",
        module="canon.systems.pretrained.gpt:GPT",
        objective="causal",
        recipe="pretrained/gpt",
        presets={"tiny": _TINY, "base": {}},
        interop=Interop(reads=("huggingface",), writes=("huggingface",)),
        deviations=("a sequence is a passage of one document, where the authors cut running text at 512 tokens",),
    ),
    _pretrained(
        name="gpt2",
        title="GPT-2",
        paper="Radford, Wu, Child, Luan, Amodei and Sutskever 2019, Language models are unsupervised multitask "
        "learners",
        module="canon.systems.pretrained.gpt2:GPT2",
        objective="causal",
        recipe="pretrained/gpt2",
        presets={
            "tiny": _TINY,
            "small": {},
            "medium": _LARGE,
            "large": {"dim": 1280, "num_layers": 36, "num_heads": 20, "hidden": 5120},
            "xl": {"dim": 1600, "num_layers": 48, "num_heads": 25, "hidden": 6400},
        },
        interop=Interop(reads=("huggingface",), writes=("huggingface",)),
        deviations=("a sequence is a passage of one document, where the authors cut running text at 1,024 tokens",),
    ),
    _pretrained(
        name="gpt3",
        title="GPT-3 style",
        paper="Brown et al. 2020, Language models are few-shot learners (arXiv:2005.14165)",
        module="canon.systems.pretrained.gpt3:GPT3",
        objective="causal",
        recipe="pretrained/gpt3",
        presets={
            "tiny": {**_TINY, "window": 8},
            "small": {},
            "350m": _LARGE,
            "760m": {"dim": 1536, "num_layers": 24, "num_heads": 16, "hidden": 6144},
            "1.3b": {"dim": 2048, "num_layers": 24, "num_heads": 16, "hidden": 8192},
            "2.7b": {"dim": 2560, "num_layers": 32, "num_heads": 32, "hidden": 10240},
            "6.7b": {"dim": 4096, "num_layers": 32, "num_heads": 32, "hidden": 16384},
            "13b": {"dim": 5120, "num_layers": 40, "num_heads": 40, "hidden": 20480},
            "175b": {"dim": 12288, "num_layers": 96, "num_heads": 96, "hidden": 49152},
        },
        interop=Interop(reads=("huggingface",), writes=("huggingface",)),
        deviations=(
            "the paper does not give the band's width; `window` is 256 here",
            "1.3b has 16 heads and 13b 5,120 features; table 2.1 has 24 heads of 128 in 2,048 features, and 40 of 128 "
            "in 5,140",
            "a sequence is a passage of one document, where the authors pack several into 2,048 tokens",
        ),
    ),
    _pretrained(
        name="bert",
        title="BERT",
        paper="Devlin, Chang, Lee and Toutanova 2019, BERT: pre-training of deep bidirectional Transformers for "
        "language understanding (arXiv:1810.04805)",
        module="canon.systems.pretrained.bert:Bert",
        objective="masked",
        objective_settings={"next_sentence": True},
        recipe="pretrained/bert",
        presets={
            "tiny": _TINY_BERT,
            "mini": {"dim": 256, "num_layers": 4, "num_heads": 4, "hidden": 1024},
            "small": {"dim": 512, "num_layers": 4, "num_heads": 8, "hidden": 2048},
            "medium": {"dim": 512, "num_layers": 8, "num_heads": 8, "hidden": 2048},
            "base": {},
            "large": _LARGE,
        },
        interop=Interop(reads=("huggingface",), writes=("huggingface", "onnx")),
        logs=_NEXT_SENTENCE,
        deviations=(
            "masks are drawn again at every visit, not once for ten copies of the text",
            "sequence lengths are the data's from the first step, not 128 and then 512",
        ),
    ),
    _pretrained(
        name="roberta",
        title="RoBERTa",
        paper="Liu et al. 2019, RoBERTa: a robustly optimized BERT pretraining approach (arXiv:1907.11692)",
        module="canon.systems.pretrained.roberta:Roberta",
        objective="masked",
        recipe="pretrained/roberta",
        presets={
            "tiny": _TINY_BERT,
            "base": {},
            "large": _LARGE,
        },
        interop=Interop(reads=("huggingface",), writes=("huggingface", "onnx")),
        logs=_NEXT_SENTENCE,
        deviations=(
            "a sequence never crosses documents (DOC-SENTENCES, not FULL-SENTENCES)",
            "the position rows that published checkpoints reserve for padding are put in on export only",
        ),
    ),
    _pretrained(
        name="unilm",
        title="UniLM",
        paper="Dong et al. 2019, Unified language model pre-training for natural language understanding and generation "
        "(arXiv:1905.03197)",
        module="canon.systems.pretrained.unilm:UniLM",
        objective="prefix",
        objective_settings={"next_sentence": True},
        recipe="pretrained/unilm",
        presets={
            "tiny": _TINY_BERT,
            "base": {},
            "large": _LARGE,
        },
        interop=Interop(reads=("huggingface",), writes=("huggingface",)),
        logs=_NEXT_SENTENCE,
        deviations=("right to left (a sixth of the paper's mixture) is the left-to-right mask on the reversed text",),
    ),
    _pretrained(
        name="ernie2",
        title="ERNIE 2.0",
        title_zh="ERNIE 2.0（持续多任务预训练）",
        paper="Sun et al. 2020, ERNIE 2.0: a continual pre-training framework for language understanding "
        "(arXiv:1907.12412)",
        module="canon.systems.pretrained.ernie2:Ernie2",
        objective="continual",
        recipe="pretrained/ernie2",
        presets={
            "tiny": _TINY_BERT,
            "small": {"dim": 512, "num_layers": 4, "num_heads": 8, "hidden": 2048},
            "base": {},
            "large": _LARGE,
        },
        interop=Interop(reads=("huggingface",), writes=("onnx",)),
        logs={
            "token_loss": "mean of −log p over the tokens to fill in, of the steps that were of this task",
            **dict.fromkeys(("relation_loss", "order_loss", "distance_loss"), "the same of this task"),
        },
        deviations=(
            "of the seven tasks those that need no labels and no search log: spans, token–document relation, sentence "
            "reordering, sentence distance; capitals are left out, since tokens show them",
            "a step's task is drawn, each as likely as another; the paper gives tasks numbers of steps for each stage",
            "spans are n-grams of words and the phrases of data.phrases, not entities marked by a tool",
        ),
    ),
    _pretrained(
        name="t5",
        title="T5",
        paper="Raffel et al. 2020, Exploring the limits of transfer learning with a unified text-to-text Transformer "
        "(arXiv:1910.10683)",
        module="canon.systems.pretrained.t5:T5",
        objective="corruption",
        recipe="pretrained/t5",
        presets={
            "tiny": {**TINIEST, "num_layers": 1, "head_dim": 8},
            "small": {},
            "base": {"dim": 768, "num_layers": 12, "num_heads": 12, "hidden": 3072},
            "large": _LARGE,
            "3b": {"dim": 1024, "num_layers": 24, "num_heads": 32, "head_dim": 128, "hidden": 16_384},
            "11b": {"dim": 1024, "num_layers": 24, "num_heads": 128, "head_dim": 128, "hidden": 65_536},
            "v1.1-small": {"num_layers": 8, "num_heads": 6, "hidden": 1024, **_T5_1_1},
            "v1.1-base": {"dim": 768, "num_layers": 12, "num_heads": 12, **_T5_1_1},
        },
        interop=Interop(reads=("huggingface",), writes=("huggingface",)),
        deviations=(
            "the output's own matrix of T5 1.1 begins at N(0, 1/D)",
            "passages are of one document each, where the authors pack several into a sequence of 512",
        ),
    ),
    _pretrained(
        name="xlnet",
        title="XLNet",
        paper="Yang et al. 2019, XLNet: generalized autoregressive pretraining for language understanding "
        "(arXiv:1906.08237)",
        module="canon.systems.pretrained.xlnet:XLNet",
        objective="permutation",
        recipe="pretrained/xlnet",
        presets={
            "tiny": TINIEST,
            "base": {},
            "large": _LARGE,
        },
        interop=Interop(reads=("huggingface",), writes=("huggingface",)),
        deviations=(
            "passages are drawn again for every batch, so pre-training carries no memory from one to the next; the "
            "network takes and gives one where a text is read in order",
            "a token that is predicted before all others, with nothing to see, attends to nothing; the authors' code "
            "lets it average over everything, itself included",
        ),
    ),
    _pretrained(
        name="finetune",
        title="Fine-tuning of a pre-trained network",
        title_zh="预训练网络的微调",
        paper="Devlin, Chang, Lee and Toutanova 2019, BERT: pre-training of deep bidirectional Transformers "
        "(arXiv:1810.04805), sections 4 and 5.3; Howard and Ruder 2018, Universal language model fine-tuning for text "
        "classification (arXiv:1801.06146), section 3.2",
        module="canon.systems.pretrained.finetune:FineTune",
        encodings=("framed",),
        backbone=True,
        task="fine-tuning",
        objective="finetune",
        recipe="pretrained/finetune",
        first_for=("labelled", "tagged", "choices", "questions"),
        presets={"tiny": {"backbone": "bert", "settings": TINIEST, "dropout": 0.0}},
        interop=Interop(reads=("sentence-transformers", "huggingface", "elmo"), writes=("huggingface", "onnx")),
        logs={
            "language_loss": "mean of −log p(next token), over each sequence's tokens, then over sequences, each as "
            "often as it has targets (a question's choices: once together); with `auxiliary`",
        },
        deviations=(
            'with `pooling = "mean"`, and where `layers`, `mix` or `lstm` change what the head reads, the vector of a '
            "sequence is the mean over its tokens",
            "a long sentence to be tagged is cut between words into several sequences",
            "the same answer in two windows counts with its better score, where BERT's code takes each token from one "
            "window only",
        ),
        space={"optimizer.lr": Range(1e-5, 1e-3)},
    ),
)
