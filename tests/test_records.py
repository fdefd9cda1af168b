"""The records of tasks and metrics against the classes and functions that they describe."""

from __future__ import annotations

import subprocess
import sys

import pytest

from canon import metrics
from canon.metrics.records import METRICS, Metric
from canon.registry import SYSTEMS
from canon.tasks.records import TASK_RECORDS
from canon.tasks.table import TASKS


def test_every_task_has_a_record_and_every_record_a_task() -> None:
    assert list(TASK_RECORDS) == list(TASKS)
    assert {system.task for system in SYSTEMS} <= set(TASK_RECORDS)


@pytest.mark.parametrize("name", TASKS)
def test_the_scores_of_a_task_are_the_metrics_that_its_class_names(name: str) -> None:
    scores = {score.metric: METRICS[score.metric] for score in TASK_RECORDS[name].scores}
    assert TASKS[name].monitor in {"loss", *scores}


@pytest.mark.parametrize("record", METRICS.values(), ids=lambda record: record.name)
def test_a_metrics_function_exists_and_some_task_has_it(record: Metric) -> None:
    assert not record.function or callable(getattr(metrics, record.function))
    assert any(score.metric == record.name for task in TASK_RECORDS.values() for score in task.scores)


def test_metric_records_import_no_torch() -> None:
    code = "import sys, canon.metrics.records; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
