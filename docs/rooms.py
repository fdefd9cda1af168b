"""Tables of the pages on how it works: kinds, encodings, tasks, objectives and learners, from their records."""

from __future__ import annotations

from pathlib import Path

from writing import link, table

from canon import registry
from canon.data.encodings import ENCODINGS
from canon.data.kinds import KINDS
from canon.objectives.table import OBJECTIVES
from canon.tasks.records import TASK_RECORDS


def kinds(page: Path, chinese: bool) -> str:
    rows = []
    for kind in KINDS:
        formats = ", ".join(f"`{name}`" for name in kind.formats) or "–"
        readers = ", ".join(f"`{encoding.name}`" for encoding in ENCODINGS if kind in encoding.reads) or "–"
        rows.append([f"`{kind.name}`", kind.plural_zh if chinese else kind.plural, formats, readers])
    heads = ("类型", "是什么", "`data.format`", "可用的编码") if chinese else ("kind", "", "`data.format`", "encodings")
    return table(heads, rows)


def read(page: Path, chinese: bool) -> str:
    """Encodings, the kinds that each reads, and the systems that take it."""
    rows = []
    for encoding in ENCODINGS:
        of = ("、" if chinese else ", ").join(kind.plural_zh if chinese else kind.plural for kind in encoding.reads)
        systems = [system for system in registry.SYSTEMS if encoding.name in system.encodings]
        shown = ", ".join(link(page, system) for system in systems[:3]) + (" …" if len(systems) > 3 else "")
        rows.append([f"`{encoding.name}`", of, shown])
    return table(("编码", "读什么", "供哪些系统") if chinese else ("encoding", "reads", "for"), rows)


def tasks(page: Path, chinese: bool) -> str:
    rows = []
    for record in TASK_RECORDS.values():
        best = ", ".join(dict.fromkeys(f"`{score.metric}`" for score in record.scores if score.best)) or "`loss`"
        systems = [system for system in registry.SYSTEMS if record.name in system.tasks]
        rows.append([f"`{record.name}`", record.predicts_zh if chinese else record.predicts, best, str(len(systems))])
    heads = ("任务", "预测", "由它选出最佳检查点", "系统数") if chinese else ("task", "predicts", "best by", "systems")
    return table(heads, rows)


def fitting(page: Path, chinese: bool) -> str:
    """Objectives by the task that they fit."""
    rows = []
    for name in TASK_RECORDS:
        names = [f"`{objective.name}`" for objective in OBJECTIVES if name in objective.tasks]
        rows.append([f"`{name}`", ", ".join(names) or "–"])
    return table(("任务", "目标函数") if chinese else ("task", "objectives"), rows)


def learners(page: Path, chinese: bool) -> str:
    """The systems that do not learn by the gradient loop."""
    rows = []
    for loop, name in (("learner", "`Learner`"), ("environment", "`Agent`")):
        systems = [link(page, system) for system in registry.SYSTEMS if system.loop == loop]
        rows.append([name, ", ".join(systems)])
    return table(("类", "系统") if chinese else ("class", "systems"), rows)


BLOCKS = {"kinds": kinds, "encodings": read, "tasks": tasks, "objectives-of-tasks": fitting, "learners": learners}
