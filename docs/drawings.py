"""Draws the pictures of the pages on how it works: `python docs/drawings.py`; --check lists the old ones.

A drawing is boxes on a grid and arrows between them. Every text stands in English and in Chinese, so that both pages
have the same picture: docs/images/NAME.svg and NAME-zh.svg. Black on white, for print and for dark mode.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from writing import ROOT

FOLDER = ROOT / "docs" / "images"
_INK, _FAINT, _FILL = "#111827", "#4b5563", "#f3f4f6"
_LINE, _PAD, _GAP_X, _GAP_Y = 16, 10, 46, 40  # pixels
Text = tuple[str, str]  # English, Chinese


@dataclass(frozen=True)
class Box:
    column: int
    row: int
    name: Text
    lines: tuple[Text, ...] = ()


@dataclass(frozen=True)
class Drawing:
    title: Text
    boxes: dict[str, Box]
    arrows: tuple[tuple[str, str], ...]


def same(text: str) -> Text:
    """A text that both languages have."""
    return text, text


DRAWINGS = {
    "how-it-works": Drawing(
        (
            "One row of wine.csv on its way: kind, source, encoding, system, objective, trainer, task, run directory",
            "wine.csv 里一行数据走过的路：数据类型、数据源、编码、系统、目标函数、训练器、任务、运行目录",
        ),
        {
            "file": Box(0, 0, same("wine.csv"), (("178 rows", "178 行"),)),
            "kind": Box(1, 0, ("KIND: table", "数据类型：表格"), (("sniffs, opens", "识别、打开"),)),
            "encoding": Box(
                2, 0, ("ENCODING: features", "编码：features"), (("splits, fits on train", "划分，只看训练集"),)
            ),
            "system": Box(3, 0, ("SYSTEM: mlp", "系统：mlp"), (("[64, 13] → logits [64, 3]",) * 2,)),
            "objective": Box(4, 0, ("OBJECTIVE", "目标函数"), (("one loss per row", "每行一个损失"),)),
            "recipe": Box(0, 1, ("RECIPE", "配方"), (("all five choices", "五个选择"),)),
            "verbs": Box(1, 1, same("predict, evaluate"), (("report, compare …", "报告、比较……"),)),
            "run": Box(2, 1, ("RUN DIRECTORY", "运行目录"), (("logs, checkpoints, scores", "日志、检查点、得分"),)),
            "task": Box(3, 1, ("TASK", "任务"), (("scores and predictions", "得分与预测"),)),
            "trainer": Box(4, 1, ("TRAINER", "训练器"), (("sum / global count, step", "求和 / 全局目标数，更新"),)),
        },
        (
            *pairwise(("file", "kind", "encoding", "system", "objective", "trainer", "task", "run", "verbs")),
            ("recipe", "file"),
        ),
    ),
    "kinds": Drawing(
        (
            "From a path or a named set to a source: kinds are asked in order, the first that recognises it opens it",
            "从路径或具名数据集到数据源：依次询问每种数据类型，第一个认得的负责打开",
        ),
        {
            "path": Box(0, 0, ("a path", "一个路径"), (("reviews.csv", "reviews.csv"),)),
            "set": Box(0, 1, ("a named set", "具名数据集"), (same("sst-2"),)),
            "sniff": Box(
                1, 0, same("Kind.sniff"), (("a reason, or no", "给出理由，或不认得"), ("the first wins", "先到先得"))
            ),
            "record": Box(1, 1, ("its record", "它的记录"), (("names the kind", "写明类型"),)),
            "open": Box(2, 0, same("Kind.open"), (("settings of this kind", "这种类型的设置"),)),
            "source": Box(3, 0, same("Source"), (("parts, files, notes", "各部分、文件、说明"),)),
            "check": Box(4, 0, same("canon check")),
            "train": Box(4, 1, same("canon train")),
        },
        (
            *pairwise(("path", "sniff", "open", "source", "check")),
            *pairwise(("set", "record", "open")),
            ("source", "train"),
        ),
    ),
    "encodings": Drawing(
        (
            "An encoding fits on the training part, keeps what it learned in the run, and turns any rows into columns",
            "编码只在训练集上统计，把学到的东西存进运行目录，之后任何行都变成同样的列",
        ),
        {
            "source": Box(0, 0, same("Source"), (("train, valid, test", "训练、验证、测试"),)),
            "fit": Box(1, 0, same("Encoding.fit"), (("training part only", "只看训练集"),)),
            "columns": Box(2, 0, ("columns", "列"), (("input, target", "input、target"),)),
            "order": Box(3, 0, ("batches", "批"), (("shuffled, or by length", "打乱，或按长度"),)),
            "network": Box(4, 0, ("network", "网络")),
            "given": Box(2, 2, ("other rows", "别的行"), (("file, text, dicts", "文件、文本、字典"),)),
            "schema": Box(1, 1, same("vocab/schema.json"), (("means, classes, tokens", "均值、类别、词表"),)),
            "inputs": Box(2, 1, same("Encoding.inputs"), (("the same columns", "同样的列"),)),
        },
        (
            *pairwise(("source", "fit", "columns", "order", "network")),
            ("fit", "schema"),
            *pairwise(("schema", "inputs", "network")),
            ("given", "inputs"),
        ),
    ),
    "tasks": Drawing(
        (
            "A task turns outputs into scores and predictions, and gives the loop the sum of losses of a batch",
            "任务把输出变成得分和预测，并为训练循环给出一批的损失之和",
        ),
        {
            "batch": Box(0, 0, ("a batch", "一批数据")),
            "loss": Box(1, 0, same("Training.loss"), (("a sum of losses", "损失之和"),)),
            "step": Box(2, 0, ("gradient step", "梯度更新")),
            "outputs": Box(0, 1, ("outputs", "输出"), (("of a network or learner", "来自网络或学习者"),)),
            "score": Box(1, 1, same("Scoring.score"), (("loss and metrics", "损失与指标"),)),
            "best": Box(2, 1, ("the best checkpoint", "最佳检查点"), (("by one metric", "由一个指标决定"),)),
            "rows": Box(1, 2, same("Predicting.rows"), (("records to print", "可打印的记录"),)),
            "predict": Box(2, 2, same("canon predict")),
        },
        (
            *pairwise(("batch", "loss", "step")),
            *pairwise(("outputs", "score", "best")),
            *pairwise(("outputs", "rows", "predict")),
        ),
    ),
    "objectives": Drawing(
        (
            "A loss is one number per target; sums of all processes are divided by the global number of targets",
            "损失对每个目标给出一个数；所有进程的和除以全局目标数",
        ),
        {
            "first": Box(0, 0, ("process 1", "进程 1"), (("logits [32, C]", "logits [32, C]"),)),
            "second": Box(0, 1, ("process 2", "进程 2"), (("logits [32, C]", "logits [32, C]"),)),
            "one": Box(1, 0, ("losses [32]", "损失 [32]"), (("one per target", "每个目标一个"),)),
            "two": Box(1, 1, ("losses [32]", "损失 [32]")),
            "sum": Box(2, 0, ("sum / 64", "求和 / 64"), (("global number of targets", "全局目标数"),)),
            "gradient": Box(
                3, 0, ("one gradient", "同一个梯度"), (("the same for 1, 2, 4 processes", "与进程数无关"),)
            ),
        },
        (*pairwise(("first", "one", "sum", "gradient")), *pairwise(("second", "two", "sum"))),
    ),
    "learners": Drawing(
        (
            "The trainer drives a learner: a network, a system that learns in its own way, or an agent that acts",
            "训练器驱动学习者：用梯度训练的网络、用自己方式学习的系统，或在环境中行动的智能体",
        ),
        {
            "trainer": Box(0, 1, ("TRAINER", "训练器"), (("logs, evaluates, saves", "记录、评估、存档"),)),
            "learner": Box(1, 1, same("Learner"), (same("begin, step, logs"), same("outputs, tensors, restore"))),
            "gradient": Box(2, 0, same("Gradient"), (("network + objective + optimiser", "网络 + 目标函数 + 优化器"),)),
            "own": Box(2, 1, ("a system itself", "系统本身"), (same("adaboost, word2vec, ials …"),)),
            "playing": Box(2, 2, same("Playing"), (("an Agent and its copies", "Agent 与环境副本"),)),
            "environment": Box(3, 2, same("Environment"), (same("reset, step, state"),)),
        },
        (
            ("trainer", "learner"),
            ("learner", "gradient"),
            ("learner", "own"),
            ("learner", "playing"),
            ("playing", "environment"),
        ),
    ),
    "runs": Drawing(
        (
            "What training writes at the start, at each log, at each checkpoint and at the end, and who reads it",
            "训练在开始、每次记录、每个检查点和结束时写下的文件；之后的命令都只读这些",
        ),
        {
            "start": Box(0, 0, ("at the start", "开始"), (same("recipe.toml, data.json"), same("env.json, vocab/"))),
            "log": Box(1, 0, ("at each log", "每次记录"), (same("metrics.jsonl"), same("timing.jsonl"))),
            "save": Box(2, 0, ("at each checkpoint", "每个检查点"), (same("checkpoints/step-…"), same("best, last"))),
            "end": Box(3, 0, ("at the end", "结束"), (same("result.json"), same("report.html"))),
            "resume": Box(1, 1, same("--resume"), (("from the last whole one", "从最后一个完整的继续"),)),
            "model": Box(2, 1, same("predict, generate …"), (("the best weights", "最佳权重"),)),
            "compare": Box(3, 1, same("evaluate, compare"), (("the same data and seeds", "同样的数据与种子"),)),
        },
        (*pairwise(("start", "log", "save", "end")), ("save", "resume"), ("save", "model"), ("end", "compare")),
    ),
}


def svg(drawing: Drawing, language: int) -> str:
    """The picture in English (0) or Chinese (1)."""
    boxes = drawing.boxes.values()
    widths = _spans({box.column: 0.0 for box in boxes}, [(box.column, _width(box, language)) for box in boxes])
    heights = _spans({box.row: 0.0 for box in boxes}, [(box.row, _height(box)) for box in boxes])
    lefts, width = _places(widths, _GAP_X)
    tops, height = _places(heights, _GAP_Y)
    at = {
        name: (lefts[box.column], tops[box.row], widths[box.column], heights[box.row])
        for name, box in drawing.boxes.items()
    }
    parts = [_arrow(at[start], at[end], drawing.boxes[start], drawing.boxes[end]) for start, end in drawing.arrows]
    for name, box in drawing.boxes.items():
        left, top, wide, high = at[name]
        parts.append(
            f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{high:g}" rx="4" fill="{_FILL}" stroke="{_INK}"/>'
        )
        texts = [box.name, *box.lines]
        first = top + (high - _LINE * len(texts)) / 2 + _LINE - 4
        for place, text in enumerate(texts):
            style = f'font-weight="bold" fill="{_INK}"' if place == 0 else f'fill="{_FAINT}"'
            x, y = left + wide / 2, first + _LINE * place
            parts.append(
                f'<text x="{x:g}" y="{y:g}" font-size="12" text-anchor="middle" {style}>{escape(text[language])}</text>'
            )
    head = '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" font-family="sans-serif" role="img">',
            f"<title>{escape(drawing.title[language])}</title>",
            f'<defs>{head}<path d="M0 0L8 4L0 8z" fill="{_INK}"/></marker></defs>',
            f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _spans(empty: dict[int, float], sizes: list[tuple[int, float]]) -> dict[int, float]:
    """The widest box of each column, or the highest of each row."""
    for place, size in sizes:
        empty[place] = max(empty[place], size)
    return empty


def _places(spans: dict[int, float], gap: float) -> tuple[dict[int, float], float]:
    """Where each column or row begins, and the length of all."""
    places, here = {}, float(_PAD)
    for place in sorted(spans):
        places[place] = here
        here += spans[place] + gap
    return places, here - gap + _PAD


def _width(box: Box, language: int) -> float:
    return 2 * _PAD + max(_letters(text[language]) for text in (box.name, *box.lines))


def _letters(text: str) -> float:
    """About as many pixels as a text is wide: a Chinese character is 12, any other 7."""
    return sum(12.5 if letter > "\u2e80" else 7 for letter in text)


def _height(box: Box) -> float:
    return 14 + _LINE * (1 + len(box.lines))


def _arrow(start: tuple[float, ...], end: tuple[float, ...], one: Box, other: Box) -> str:
    """Straight within a row or a column; else across, with two corners."""
    (x, y, w, h), (u, v, k, m) = start, end
    if one.row == other.row:
        path = f"M{x + w:g} {y + h / 2:g}H{u:g}" if u > x else f"M{x:g} {y + h / 2:g}H{u + k:g}"
    elif one.column == other.column:
        path = f"M{x + w / 2:g} {y + h:g}V{v:g}" if v > y else f"M{x + w / 2:g} {y:g}V{v + m:g}"
    elif other.column > one.column:
        path = f"M{x + w:g} {y + h / 2:g}H{u - _GAP_X / 2:g}V{v + m / 2:g}H{u:g}"
    else:
        path = f"M{x + w / 2:g} {y + h:g}V{v - _GAP_Y / 2:g}H{u + k / 2:g}V{v:g}"
    return f'<path d="{path}" stroke="{_INK}" fill="none" marker-end="url(#head)"/>'


def drawn() -> dict[str, str]:
    """Every picture, by the name of its file."""
    return {
        f"{name}{ending}.svg": svg(drawing, language)
        for name, drawing in DRAWINGS.items()
        for language, ending in enumerate(("", "-zh"))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a drawing is out of date")
    check = parser.parse_args().check
    old = []
    for name, text in drawn().items():
        file = FOLDER / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            old.append(name)
            if not check:
                file.write_text(text, encoding="utf-8")
    if old:
        print(f"{'Out of date' if check else 'Drew'}: {', '.join(old)}.")
    if check and old:
        sys.exit(1)


if __name__ == "__main__":
    main()
