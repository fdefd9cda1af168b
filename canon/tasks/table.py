"""The one explicit table of tasks, by the names in `System.task`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from canon.data import targets
from canon.data.schema import Schema
from canon.data.targets import Target
from canon.errors import unknown
from canon.objectives import choosing
from canon.objectives.record import ObjectiveChoice
from canon.registry import System
from canon.tasks.base import Task


class _Imported(dict[Any, Any]):
    """Classes, by MODULE:CLASS in canon.tasks, which are imported when they are asked for: networks' import torch."""

    def __getitem__(self, key: Any) -> type[Task]:
        place: Any = super().__getitem__(key)
        if not isinstance(place, str):
            return place
        module, _, name = place.partition(":")
        task: type[Task] = vars(import_module(f"canon.tasks.{module}"))[name]
        return task


_FINE_TUNING = "fine-tuning"
TASKS: Mapping[str, type[Task]] = _Imported(
    {
        "classification": "classification:Classification",
        "regression": "regression:Regression",
        "contrastive": "contrastive:Contrastive",
        "generation": "generation:Generation",
        "transduction": "transduction:Transduction",
        "language-model": "language_model:LanguageModelling",
        "bidirectional-language-model": "bidirectional:BidirectionalModelling",
        "pretraining": "pretraining:Pretraining",
        "word-vectors": "word_vectors:WordVectors",
        "labels": "labels:LabelTask",
        "future-steps": "future:Future",
        **dict.fromkeys(("retrieval", "similarity", "inference", "sentence-views"), "sentences:SentenceTask"),
        _FINE_TUNING: "finetune:FineTuningTask",
        "prompting": "prompting:PromptTask",
        "ranking": "ranking:Ranking",
        "recommendation": "recommendation:Recommendation",
        "click-prediction": "clicks:ClickTask",
        "control": "control:Control",
        "policy-evaluation": "policy_value:PolicyValue",
    }
)
# Of systems that need no torch, where their outputs are judged by another class.
PLAIN: Mapping[str, type[Task]] = _Imported(
    {
        "classification": "classes:PlainClasses",
        "click-prediction": "clicks_plain:PlainClicks",
        "language-model": "next_tokens:NextTokens",
        "ranking": "rankings:RankingScores",
    }
)
# Fine-tuning by what the data asks for.
FINE_TUNING: Mapping[type[Target], type[Task]] = _Imported(
    {
        targets.Class: "finetune_text:TextClasses",
        targets.Number: "finetune_text:TextNumbers",
        targets.Choice: "finetune_text:TextChoices",
        targets.Tags: "finetune_tags:WordTags",
        targets.Span: "finetune_spans:AnswerSpans",
    }
)


def of(system: System) -> type[Task]:
    """The class of a system's task; of fine-tuning, what all of its classes share."""
    if system.task not in TASKS:
        raise unknown("task", system.task, TASKS)
    return (PLAIN if system.torch != "always" and system.task in PLAIN else TASKS)[system.task]


def create(system: System, config: Any, schema: Schema, objective: ObjectiveChoice | None = None) -> Task:
    """The task of a system with these settings; objective: the system's default where it is None."""
    task = FINE_TUNING[type(schema.target)] if system.task == _FINE_TUNING else of(system)
    return task(objective or choosing.default(system, config), config, schema)
