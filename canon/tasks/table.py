"""The one explicit table of tasks, by the names in `System.task`."""

from __future__ import annotations

from typing import Any

from canon.data import targets
from canon.data.schema import Schema
from canon.data.targets import Target
from canon.errors import unknown
from canon.objectives import choosing
from canon.objectives.record import ObjectiveChoice
from canon.registry import System
from canon.tasks.base import Task
from canon.tasks.bidirectional import BidirectionalModelling
from canon.tasks.classification import Classification
from canon.tasks.contrastive import Contrastive
from canon.tasks.finetune import FineTuningTask
from canon.tasks.finetune_spans import AnswerSpans
from canon.tasks.finetune_tags import WordTags
from canon.tasks.finetune_text import TextChoices, TextClasses, TextNumbers
from canon.tasks.generation import Generation
from canon.tasks.labels import LabelTask
from canon.tasks.language_model import LanguageModelling
from canon.tasks.pretraining import Pretraining
from canon.tasks.regression import Regression
from canon.tasks.transduction import Transduction
from canon.tasks.word_vectors import WordVectors

TASKS: dict[str, type[Task]] = {
    "classification": Classification,
    "regression": Regression,
    "contrastive": Contrastive,
    "generation": Generation,
    "transduction": Transduction,
    "language-model": LanguageModelling,
    "bidirectional-language-model": BidirectionalModelling,
    "pretraining": Pretraining,
    "word-vectors": WordVectors,
    "labels": LabelTask,
    "fine-tuning": FineTuningTask,  # type: ignore[type-abstract]
}
# Fine-tuning by what the data asks for.
FINE_TUNING: dict[type[Target], type[FineTuningTask]] = {
    targets.Class: TextClasses,
    targets.Number: TextNumbers,
    targets.Choice: TextChoices,
    targets.Tags: WordTags,
    targets.Span: AnswerSpans,
}


def create(system: System, config: Any, schema: Schema, objective: ObjectiveChoice | None = None) -> Task:
    """The task of a system with these settings; objective: the system's default where it is None."""
    if system.task not in TASKS:
        raise unknown("task", system.task, TASKS)
    task = TASKS[system.task]
    task = FINE_TUNING[type(schema.target)] if task is FineTuningTask else task
    return task(objective or choosing.default(system, config), config, schema)
