"""The one explicit table of tasks, by the names in `System.task`."""

from __future__ import annotations

from typing import Any

from canon.data.schema import Schema
from canon.errors import unknown
from canon.objectives import choosing
from canon.objectives.record import Choice
from canon.registry import System
from canon.tasks.base import Task
from canon.tasks.bidirectional import BidirectionalLanguageModel
from canon.tasks.classification import Classification
from canon.tasks.contrastive import Contrastive
from canon.tasks.finetune import FineTune
from canon.tasks.generation import Generation
from canon.tasks.labels import LabelTask
from canon.tasks.language_model import LanguageModel
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
    "language-model": LanguageModel,
    "bidirectional-language-model": BidirectionalLanguageModel,
    "pretraining": Pretraining,
    "word-vectors": WordVectors,
    "labels": LabelTask,
    "fine-tuning": FineTune,
}


def create(system: System, config: Any, schema: Schema, objective: Choice | None = None) -> Task:
    """The task of a system with these settings; objective: its own where none is given."""
    if system.task not in TASKS:
        raise unknown("task", system.task, TASKS)
    return TASKS[system.task](objective or choosing.default(system, config), config, schema)
