"""Prompts: pre-trained networks that answer in words."""

from __future__ import annotations

from functools import partial

from canon.registry.record import Interop, Range, System

_prompt = partial(
    System, chapter="prompts", encodings=("prompted",), task="prompting", objective="verbaliser", backbone=True
)
_TINIEST = {
    "dim": 16,
    "num_layers": 2,
    "num_heads": 2,
    "hidden": 32,
    "max_positions": 128,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}

SYSTEMS: tuple[System, ...] = (
    _prompt(
        name="prompt",
        title="Prompt: template and label words",
        title_zh="提示学习：模板与标签词",
        paper="Schick and Schütze 2021, Exploiting cloze questions for few-shot text classification and natural "
        "language inference (arXiv:2001.07676)",
        module="canon.systems.prompts.prompt:Prompt",
        recipe="prompt/sst2-pet",
        presets={"tiny": {"backbone": "bert", "settings": _TINIEST}},
        interop=Interop(reads=("huggingface", "prompt"), writes=("prompt",)),
        logs={
            "hidden_loss": "mean over examples of the mean of −log p(hidden token); with `mlm`",
        },
        deviations=(
            "all tokens of a prompt are of segment 0",
            "a frozen network has no dropout",
            "with `mlm` the hidden tokens are those of the labelled texts, where the authors take unlabelled ones",
            "a soft verbaliser of several slots reads the mean of their states",
            "demonstrations of a training example are one of 16 draws that are made once, where the authors draw again "
            "at every visit",
        ),
        space={"optimizer.lr": Range(1e-5, 1e-2)},
    ),
    _prompt(
        name="hard-prompt",
        title="Hard prompts: zero-shot and AutoPrompt",
        title_zh="离散提示：零样本与 AutoPrompt",
        paper="Shin, Razeghi, Logan, Wallace and Singh 2020, AutoPrompt: eliciting knowledge from language models with "
        "automatically generated prompts (arXiv:2010.15980); Zhao et al. 2021, Calibrate before use: improving "
        "few-shot performance of language models (arXiv:2102.09690)",
        module="canon.systems.prompts.hard_prompt:HardPrompt",
        loop="learner",
        recipe="prompt/sst2-auto",
        presets={"tiny": {"backbone": "bert", "settings": _TINIEST, "candidates": 10}},
        interop=Interop(reads=("huggingface",), writes=("prompt",)),
        logs={
            "loss": "mean of −log q(y) over the steps since the last log, of what each step chose, on fresh batches",
            "accepted": "share of the steps at which a trigger changed",
        },
        parameters="tokens that are searched",
        deviations=("candidates are compared by the loss, where the authors' code takes accuracies on some sets",),
        space={"system.candidates": (10, 30, 100)},
    ),
)
