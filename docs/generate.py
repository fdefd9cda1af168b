"""Writes the generated tables of the docs from the records: `python docs/generate.py`; --check lists the old ones.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`. Names: systems, chapters, peers, kinds, encodings,
tasks, objectives-of-tasks and learners (-zh in Chinese), recipes, metrics, train, data, datasets, optimizer, schedule,
groups, objectives, objective-settings, first-hour, pipeline-settings, claims, claims-counted, claims-discussed, api,
benchmarks, logged, logged-by-task, and for a system figure-NAME, settings-NAME, logged-NAME, deviations-NAME.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import figures
import logged
import public
import rooms
from pydantic_core import PydanticUndefined
from writing import ROOT, link, relative, table, wrapped

from canon import registry
from canon.claims.judge import FAILS, HOLDS, OPEN, JudgedPart
from canon.claims.record import Claim
from canon.claims.record import find as find_claims
from canon.claims.record import names as claim_names
from canon.claims.results import Result
from canon.claims.results import shipped as claims_shipped
from canon.data import encodings
from canon.data.catalogue import CATALOGUE
from canon.data.config import DataConfig
from canon.data.formats.cells import counted
from canon.metrics.records import METRICS
from canon.objectives.choosing import settings_for
from canon.objectives.table import OBJECTIVES
from canon.optim.schedules import Schedule
from canon.optim.settings import OPTIMIZERS
from canon.registry import System
from canon.registry.chapters import CHAPTERS
from canon.registry.recipes import recipe_records
from canon.report.page import number
from canon.tasks.records import TASK_RECORDS
from canon.train_config import Group, TrainConfig
from canon.use.pipeline.settings import (
    RECALLS,
    RERANKS,
    DocumentSettings,
    QuerySourceSettings,
    Ranker,
    RankSettings,
)

_MOST_EFFECTS = 3  # of a claim, in the table of claims
# What is measured, the same in Chinese, beside what, the file of results, and where the ratio stands in it.
PEERS = (
    ("skip-gram vectors", "skip-gram 词向量", "gensim", "word2vec", ("ratios", "window / gensim skip-gram")),
    ("fastText vectors, the whole command", "fastText 词向量，整条命令", "fastText", "fasttext_vectors",
     ("speed", "ratios", "skip-gram, whole: canon / fasttext")),
    ("GloVe, the whole command", "GloVe，整条命令", "Stanford's GloVe", "glove", ("ratios", "total")),
    ("training a Transformer", "训练 Transformer", "torch.nn.Transformer", "translation", ("ratio",)),
    ("training a Transformer", "训练 Transformer", "torch.nn.Transformer", "translation-cuda", ("ratio",)),
    ("pre-training BERT-base", "预训练 BERT-base", "transformers, compiled", "pretraining-cuda", ("bert-128", "ratio")),
    ("translating 32 sentences", "翻译 32 个句子", "transformers", "decoding",
     ("results", "greedy, batch 32", "ratio")),
    ("encoding sentences with MiniLM", "用 MiniLM 编码句子", "sentence-transformers", "encoding", ("ratio",)),
)  # fmt: skip
_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def system_table(page: Path, chinese: bool) -> str:
    heads = ("系统", "名称", "输入", "预测", "论文") if chinese else ("system", "", "reads", "predicts", "paper")
    rows = []
    for system in registry.SYSTEMS:
        task = TASK_RECORDS[system.task]
        kinds = dict.fromkeys(kind for name in system.encodings for kind in encodings.find(name).reads)
        reads = ("、" if chinese else ", ").join(kind.plural_zh if chinese else kind.plural for kind in kinds)
        title = (chinese and system.title_zh) or system.title
        predicts = task.predicts_zh if chinese else task.predicts
        rows.append([link(page, system), title, reads, predicts, system.paper])
    return table(heads, rows)


def chapter_table(page: Path, chinese: bool) -> str:
    rows = []
    for chapter in CHAPTERS:
        links = [link(page, system) for system in registry.SYSTEMS if system.chapter == chapter.name]
        if links:
            title = chapter.title_zh if chinese else chapter.title
            rows.append([f"[{title}]({relative(page, chapter.docs)})" if chapter.docs else title, " · ".join(links)])
    return table(("章", "系统") if chinese else ("chapter", "systems"), rows)


def peer_table(page: Path, chinese: bool) -> str:
    """The ratios that benchmarks printed, from their results."""
    rows = []
    for title, title_zh, peer, file, at in PEERS:
        result = json.loads((ROOT / "benchmarks" / "results" / f"{file}.json").read_text(encoding="utf-8"))
        ratio = result
        for key in at:
            ratio = ratio[key]
        machine = result.get("device", "cpu").replace("cpu", "") or f"{result['machine']['cores']} CPU cores"
        where = machine.replace("CPU cores", "核 CPU") if chinese else machine
        rows.append([title_zh if chinese else title, peer, f"{ratio:.1f} ×", where, f"`{result['command']}`"])
    heads = ("工作", "对照", "canon 快", "机器", "命令") if chinese else ("work", "beside", "canon", "on", "command")
    return table(heads, rows)


def recipe_table(page: Path) -> str:
    rows = []
    for record in recipe_records():
        train, optimizer = record.settings.get("train", {}), record.settings.get("optimizer", {})
        steps = f"{train['steps']:,} steps" if "steps" in train else "by the data"
        budget = f"{train['epochs']:g} epochs" if "epochs" in train else steps
        batch = f"{train.get('batch', 64 if train else 'by the data') or 'all'}"
        batch = f"{train['tokens']:,} tokens" if "tokens" in train else batch
        expected = "<br>".join(
            f"{key.removeprefix('test/')} {low:.4g} to {high:.4g}" for key, (low, high) in record.expected.items()
        )
        system, _ = registry.find(record.system)
        how = f"`{optimizer.get('name', 'adam')}`" if system.loop == "gradient" else "–"
        rows.append([f"`{record.name}`", link(page, system), f"`{record.data}`", budget, batch, how, expected])
    return table(("recipe", "system", "data", "budget", "batch", "optimiser", "expected on the test set"), rows)


def metric_table(page: Path) -> str:
    rows = [
        [
            f"`{metric.name}`",
            metric.title,
            metric.formula,
            "more" if metric.higher_is_better else "less",
            f"`{metric.function}`" if metric.function else "",
            metric.paper,
            metric.oracle,
        ]
        for metric in METRICS.values()
    ]
    return table(("name", "", "formula", "better", "function", "paper", "checked against"), rows)


def optimizer_table(page: Path) -> str:
    users: dict[str, list[str]] = {}
    for name, cls in OPTIMIZERS.items():
        for field in fields(cls):  # type: ignore[arg-type]
            users.setdefault(field.name, []).append(name)
    rows = [["`name`", "all", '`"adam"`', "one of the names in this table"]]
    for key, names in users.items():
        defaults: dict[str, list[str]] = {}
        for name in names:
            field = next(field for field in fields(OPTIMIZERS[name]) if field.name == key)  # type: ignore[arg-type]
            defaults.setdefault(_default(field), []).append(name)
        values = [f"{value} ({', '.join(of)})" if len(defaults) > 1 else value for value, of in defaults.items()]
        users_of = "all" if len(names) == len(OPTIMIZERS) else ", ".join(names)
        rows.append([f"`{key}`", users_of, "; ".join(values), _description(OPTIMIZERS[names[0]], key)])
    return table(("`optimizer.`", "of", "default", ""), rows)


def preset_table(system: System) -> str:
    rows = []
    for preset, changes in system.presets.items():
        of_objective = {f"objective.{key}": value for key, value in changes.get("objective", {}).items()}
        flat = {key: value for key, value in changes.items() if key != "objective"} | of_objective
        values = ", ".join(f"`{key} = {_toml(value)}`" for key, value in flat.items()) or "the defaults"
        rows.append([f"`{system.name}:{preset}`", values])
    return table(("preset", "sets"), rows)


def objective_table(page: Path) -> str:
    rows = []
    for objective in OBJECTIVES:
        names = dict.fromkeys(field.name for cls in objective.tasks.values() for field in fields(cls))  # type: ignore[arg-type]
        listed = ", ".join(f"`{name}`" for name in names) or "–"
        formula = objective.formula.replace("|", "\\|")
        rows.append([f"`{objective.name}`", ", ".join(objective.tasks), formula, listed, objective.paper])
    return table(("`objective.name`", "tasks", "loss of one target", "settings", "paper"), rows)


def objective_settings(page: Path) -> str:
    users: dict[tuple[str, str, str], list[str]] = {}
    for objective in OBJECTIVES:
        for cls in objective.tasks.values():
            for field in fields(cls):  # type: ignore[arg-type]
                key = field.name, _default(field), _description(cls, field.name)
                users.setdefault(key, []).append(f"`{objective.name}`")
    rows = [[f"`{n}`", ", ".join(dict.fromkeys(names)), default, text] for (n, default, text), names in users.items()]
    return table(("`objective.`", "of", "default", ""), rows)


def first_hour_table(page: Path) -> str:
    """What `benchmarks/first_hour.py` measured."""
    result = json.loads((ROOT / "benchmarks" / "results" / "first_hour.json").read_text(encoding="utf-8"))
    rows = []
    for row in result["rows"]:
        ours, theirs = (f"{row[name]:.{1 if row['metric'] == 'bleu' else 3}f}" for name in ("canon", "baseline"))
        metric = f"{row['metric']}, {row['splits']} splits" if row["splits"] > 1 else row["metric"]
        rows.append([row["data"], row["system"], metric, ours, f"{theirs} ({row['about']})", f"{row['seconds']:.0f}"])
    machine, script = result["machine"], result["command"].partition(" --")[0]
    days = sorted({row["date"] for row in result["rows"]})
    about = f"{machine['processor']}, {machine['cores']} cores, {' to '.join(dict.fromkeys((days[0], days[-1])))}: "
    about += f"`{script}`. Commit, date and load of each row are in `benchmarks/results/first_hour.json`."
    why = "".join(f"\n- {row['data']}: {row['why']}" for row in result["rows"] if "why" in row)
    rows_text = table(("data", "chosen", "metric", "canon", "baseline", "seconds"), rows)
    return f"{rows_text}\n{about}\n{why}\n" if why else f"{table}\n{about}\n"


def claim_results() -> list[tuple[Claim, list[Result]]]:
    """Every claim that comes with canon, with its shipped results, the full one first."""
    return [(claim, claims_shipped(claim.name)) for name in claim_names() for claim in find_claims(name)]


def claim_table(page: Path) -> str:
    """One row for each claim: of its full result where there is one, and of the quick one where that differs."""
    rows = []
    for claim, results in claim_results():
        if not results:
            rows.append([claim.chapter, f"`{claim.name}`", claim.claim, "not yet run", "", claim.discussion])
            continue
        standing = {result.budget: f"**{result.standing(claim)}**" for result in results}
        alike = len(set(standing.values())) == 1
        first = results[0]
        each = "; ".join(f"{budget}: {verdict}" for budget, verdict in standing.items())
        verdict = standing[first.budget] if alike else each
        shown = [part for part in first.parts if part.verdict == first.verdict and part.effect is not None]
        effects = "<br>".join(_effect(part) for part in shown[:_MOST_EFFECTS])
        effects += f"<br>and {len(shown) - _MOST_EFFECTS} more" if len(shown) > _MOST_EFFECTS else ""
        ran = [f"{result.budget}, {counted(result.seeds, 'seed')}, {result.date}" for result in results]
        about = "; ".join([*ran, *dict.fromkeys(result.machine for result in results)])
        rows.append([claim.chapter, f"`{claim.name}`", claim.claim, verdict, effects, about])
    return table(("chapter", "name", "claim", "verdict", "effect [bounds]", "shown by"), rows)


def _effect(part: JudgedPart) -> str:
    assert part.effect is not None
    if part.low is None or part.high is None or part.low == part.high:
        return f"{part.says}: {number(part.effect)}"
    return f"{part.says}: {number(part.effect)} [{number(part.low)}, {number(part.high)}]"


def claim_counts(page: Path) -> str:
    every = claim_results()
    latest = [results[0] for _, results in every if results]
    counts = {verdict: sum(result.verdict == verdict for result in latest) for verdict in (HOLDS, FAILS, OPEN)}
    said = ", ".join(f"{count} **{verdict}**" for verdict, count in counts.items())
    return f"{len(every)} claims, of which {len(latest)} were run: {said}.\n"


def claim_discussions(page: Path) -> str:
    """Of the claims that were run; the table says of the others why they were not."""
    return "".join(f"- `{of.name}`: {of.discussion}\n" for of, results in claim_results() if results and of.discussion)


def deviations(system: System) -> str:
    return "\n".join(f"- {text}" for text in system.deviations) + "\n" if system.deviations else "None.\n"


def figure_link(page: Path, system: System) -> str:
    """The figure that docs/images.py draws; its title is the text beside it."""
    file = Path("images") / f"{system.name}.svg"
    title = re.search(r"<title>(.*?)</title>", (page.parent / file).read_text(encoding="utf-8"))
    assert title is not None, file
    return f"![{unescape(title[1])}]({file.as_posix()})\n"


def dataset_table(page: Path) -> str:
    rows = []
    for record in CATALOGUE.values():
        hosts = {urlsplit(file.url).hostname or "" for file in record.files} - {""}
        origin = "built in" if record.builtin else ", ".join(sorted(hosts)) or "your copy"
        rows.append([f"`{record.name}`", record.title, record.kind, record.size, origin, record.source, record.licence])
    return table(("name", "", "kind", "size", "from", "source", "licence"), rows)


def settings_table(cls: type, prefix: str, other: Mapping[str, Any] | None = None) -> str:
    """other: defaults that replace those of the class."""
    rows = []
    for field in fields(cls):  # type: ignore[arg-type]
        default = f"`{_toml(other[field.name])}`" if other and field.name in other else _default(field)
        rows.append([f"`{field.name}`", default, _description(cls, field.name)])
    return table((f"`{prefix}`", "default", ""), rows)


def _objective_line(page: Path, system: System, objective: type) -> str:
    names = ", ".join(f"`{field.name}`" for field in fields(objective))  # type: ignore[arg-type]
    own = ", ".join(f"`{key} = {_toml(value)}`" for key, value in system.objective_settings.items())
    at = f"[`{system.objective}`]({relative(page, 'docs/losses.md')}#settings-of-objectives)"
    return f"`objective.` has the settings of {at}: {names}{f', here with {own}' if own else ''}.\n"


def pipeline_settings(page: Path) -> str:
    sections = {
        "documents": DocumentSettings,
        "queries": QuerySourceSettings,
        "rank": RankSettings,
        "rank.runs": Ranker,
    }
    several = {"recall": RECALLS, "rerank": RERANKS}
    sections |= {f"{section}.{name}": cls for section, classes in several.items() for name, cls in classes.items()}
    rows = [
        [f"`{section}`", f"`{field.name}`", _default(field), _description(cls, field.name)]
        for section, cls in sections.items()
        for field in fields(cls)
    ]
    return table(("section, or name", "setting", "default", ""), rows)


def _description(cls: type, field: str) -> str:
    description = cls.__pydantic_fields__[field].description  # type: ignore[attr-defined]
    if not description:
        raise SystemExit(f"{cls.__module__}: {cls.__name__}.{field} has no description.")
    return description


def _default(field: Any) -> str:
    value = field.default
    value = getattr(value, "default", value)  # of a pydantic Field
    return "–" if value in (MISSING, PydanticUndefined) else f"`{_toml(value)}`"


def _toml(value: Any) -> str:
    if value is None:
        return "none"
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def blocks() -> dict[str, Callable[[Path], str]]:
    """The function that writes each block, by its name."""
    writers: dict[str, Callable[[Path], str]] = {
        "systems": partial(system_table, chinese=False),
        "systems-zh": partial(system_table, chinese=True),
        "chapters": partial(chapter_table, chinese=False),
        "chapters-zh": partial(chapter_table, chinese=True),
        "peers": partial(peer_table, chinese=False),
        "peers-zh": partial(peer_table, chinese=True),
        "recipes": recipe_table,
        "metrics": metric_table,
        "first-hour": first_hour_table,
        "claims": claim_table,
        "claims-counted": claim_counts,
        "claims-discussed": claim_discussions,
        "train": lambda page: settings_table(TrainConfig, "train."),
        "data": lambda page: settings_table(DataConfig, "data."),
        "datasets": dataset_table,
        "optimizer": optimizer_table,
        "schedule": lambda page: settings_table(Schedule, "optimizer.schedule."),
        "groups": lambda page: settings_table(Group, "optimizer.groups."),
        "objectives": objective_table,
        "objective-settings": objective_settings,
        "pipeline-settings": pipeline_settings,
        "api": public.reference,
        "benchmarks": figures.every,
        "logged": logged.by_all,
        "logged-by-task": logged.by_task,
    }

    for name, write in rooms.BLOCKS.items():
        writers[name] = partial(write, chinese=False)
        writers[f"{name}-zh"] = partial(write, chinese=True)

    def settings(page: Path, system: System) -> str:
        config, objective = system.load()[0], settings_for(system, system.objective)
        tables = [settings_table(config, "system."), preset_table(system)]
        if fields(objective):
            tables.insert(1, _objective_line(page, system, objective))
        return "\n".join(tables)

    for system in registry.SYSTEMS:
        writers[f"figure-{system.name}"] = partial(figure_link, system=system)
        writers[f"settings-{system.name}"] = partial(settings, system=system)
        writers[f"logged-{system.name}"] = partial(logged.alone, system=system)
        writers[f"deviations-{system.name}"] = lambda page, system=system: deviations(system)  # type: ignore[misc]
    return writers


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renewed(page: Path, text: str) -> str:
    writers = blocks()

    def write(match: re.Match[str]) -> str:
        head, name, end = match.groups()
        if name not in writers:
            raise SystemExit(f"{page.relative_to(ROOT)}: no table is called {name}.")
        return head + wrapped(writers[name](page)) + end

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
