"""Prompts with few examples: zero-shot, a new head, PET, P-tuning, prefix and AutoPrompt, each on five sets of each
data set, with one backbone. Mean and standard deviation of the test accuracy over the sets.

    python benchmarks/prompting.py runs/zh-base --sets eprstmt bustm ocnli tnews
    python benchmarks/prompting.py runs/bert-wiki --sets sst2 rte

Every cell (data set, method, set) is a run of the recipe prompt/SET-METHOD in --runs, and is done once: the same
command goes on where it was interrupted. "pet" are the networks of `--members` seeds; where the data set has
unlabelled texts, "student" is fine-tuned on the labels that they give (canon distill, T = 2). FewCLUE's sets are its
files 0 to 4, the others are 16 texts of each class drawn with the seeds 13, 21, 42, 87 and 100. The checkpoint is
chosen on the dev part of the set; nothing is chosen on the test part. The table goes to
benchmarks/results/prompting.json.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from common import RESULTS, SMALL, arguments, write_result

METHODS = ("zero", "head", "pet", "student", "ptuning", "prefix", "auto")
FOLDS = {"eprstmt": "eprstmt", "bustm": "bustm", "ocnli": "", "tnews": "tnews"}  # and the folder of unlabelled texts
SEEDS = {"sst2": (13, 21, 42, 87, 100), "rte": (13, 21, 42, 87, 100)}


def changes_of(data_set: str, index: int, backbone: str) -> dict[str, Any]:
    which = {"data.fold": index} if data_set in FOLDS else {"data.seed": SEEDS[data_set][index]}
    return {"train.init": backbone, **which}


def trained(recipe: str, out: Path, changes: dict[str, Any]) -> Any:
    """The run, as it is if it is finished, and otherwise trained or resumed."""
    from canon.training.run import Run
    from canon.training.trainer import train

    if out.exists():
        run = Run.open(out)
        return run if run.result is not None else train(out=out, resume=True, quiet=True)
    return train(recipe, out=out, changes=changes, quiet=True)


def accuracy(run: Any) -> float:
    return run.result["scores"]["test"]["accuracy"]


def unlabelled(data_set: str) -> Path | None:
    from canon.data.catalogue import data_folder
    from canon.data.formats.files import COMPRESSIONS

    if not FOLDS.get(data_set):
        return None
    base = data_folder() / "fewclue" / FOLDS[data_set] / "unlabeled.json"
    return next((path for path in (Path(f"{base}{end}") for end in ("", *COMPRESSIONS)) if path.is_file()), None)


def cell(data_set: str, method: str, index: int, options: Any, more: dict[str, Any]) -> float | None:
    """The test accuracy of one method on one set."""
    from canon.use.distill import distill

    folder = options.runs / Path(options.backbone).name
    changes = {**changes_of(data_set, index, options.backbone), **more}
    if method in ("pet", "student"):
        members = [
            trained(
                f"prompt/{data_set}-pet", folder / f"{data_set}-pet-{index}-{seed}", {**changes, "train.seed": seed}
            )
            for seed in range(options.members)
        ]
        if method == "pet":
            return statistics.mean(map(accuracy, members))
        texts = options.texts or unlabelled(data_set)
        if texts is None:
            return None
        soft = folder / f"{data_set}-soft-{index}.jsonl"
        if not soft.is_file():
            distill([run.path for run in members], texts, soft, weights="accuracy")
        student = folder / f"{data_set}-student-{index}"
        if not student.exists():
            held = held_files(data_set, index, folder)
            settings = {"train.init": options.backbone, "train.steps": options.student_steps, "train.batch": 32}
            settings |= {key: value for key, value in more.items() if key.startswith("train.") and key != "train.steps"}
            trained_on(soft, student, {**settings, **held})
        return accuracy(trained("", student, {}))
    return accuracy(trained(f"prompt/{data_set}-{method}", folder / f"{data_set}-{method}-{index}", changes))


def trained_on(data: Path, out: Path, changes: dict[str, Any]) -> Any:
    from canon.training.trainer import train

    return train("finetune", data=str(data), out=out, changes=changes, quiet=True)


def held_files(data_set: str, index: int, folder: Path) -> dict[str, Any]:
    """The dev and test files of a set, for a student that is trained on another file."""
    from canon.data import catalogue

    record = catalogue.find({"ocnli": "ocnli-few", "tnews": "tnews-few"}.get(data_set, data_set))
    place = catalogue.require(record.name)
    files = {}
    for file in record.files:
        split, _, number = file.split.partition("_")
        if split != "train" and number in ("", str(index)):
            path = catalogue.find_file(place, file)
            files[f"data.{split}"] = str(path)
    return {**files, "data.label": "label"} if not record.label.endswith("_desc") else renamed(files, record, folder)


def renamed(files: dict[str, Any], record: Any, folder: Path) -> dict[str, Any]:
    """The files with the class under "label", as the labelled texts have it."""
    from canon.data.formats.files import read_text

    copies = {}
    for key, name in files.items():
        rows = [json.loads(line) for line in read_text(Path(name)).splitlines() if line.strip()]
        copy = folder / f"{record.name}-{Path(name).name.split('.')[0]}.jsonl"
        kept = [{**{column: row[column] for column in record.features}, "label": row[record.label]} for row in rows]
        copy.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept), encoding="utf-8")
        copies[key] = str(copy)
    return copies


def table(scores: dict[str, dict[str, list[float]]]) -> list[str]:
    lines = ["| data | " + " | ".join(METHODS) + " |", "| --- " * (len(METHODS) + 1) + "|"]
    for data_set, of_methods in scores.items():
        cells = []
        for method in METHODS:
            values = [100 * value for value in of_methods.get(method, [])]
            spread = f" ({statistics.stdev(values):.1f})" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}" if values else "–")
        lines.append(f"| {data_set} | " + " | ".join(cells) + " |")
    return lines


def quick(options: Any) -> None:
    """Two methods on a file of the tests, on a network that is trained for a few steps."""
    from canon.training.trainer import train

    folder = options.runs
    small = {
        "system.dim": 16,
        "system.num_layers": 2,
        "system.num_heads": 2,
        "system.hidden": 32,
        "train.device": "cpu",
    }
    text = {"data.source": str(SMALL / "documents.txt"), "data.tokenizer": "word", "data.vocab_size": 0}
    options.backbone = str(folder / "bert")
    made = {**small, **text, "data.max_length": 32, "train.steps": 5, "train.batch": 8, "system.name": "bert:tiny"}
    train("pretrained/bert", out=Path(options.backbone), changes=made, quiet=True)
    source = {"data.source": str(SMALL / "sentences.csv"), "data.shots": 4, "train.device": "cpu", "train.steps": 2}
    words = {"data.words": {"even": ["two"], "odd": ["three"]}}
    templates = {"zero": "{text} {mask}", "pet": "{text} {mask}", "prefix": "{text} {mask}", "head": ""}
    templates |= {"ptuning": "{soft:2}{text} {mask}", "auto": "{text} {trigger:1} {mask}"}
    options.members = 1
    scores: dict[str, list[float]] = {}
    for method, template in templates.items():
        prompt = {"data.template": template, **words} if template else {}
        more = {**source, **prompt} | ({"system.candidates": 3} if method == "auto" else {})
        scores[method] = [cell("sst2", method, index, options, more) or 0.0 for index in range(2)]
    print("\n".join(table({"sentences": scores})))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("backbone", nargs="?", default="", help="a run or folder to prompt")
    parser.add_argument("--sets", nargs="+", default=[*FOLDS], choices=[*FOLDS, *SEEDS], help="data sets")
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=METHODS)
    parser.add_argument("--folds", type=int, default=5, help="sets of each data set")
    parser.add_argument("--members", type=int, default=3, help="seeds of a PET ensemble")
    parser.add_argument("--student-steps", type=int, default=1000)
    parser.add_argument("--texts", type=Path, help="unlabelled texts for the student, where the data set has none")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "prompting", help="where runs are kept")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every run")
    options = parser.parse_args()
    options.runs = options.runs.absolute()
    if options.quick:
        temporary = Path(tempfile.mkdtemp())
        try:
            options.runs = temporary
            quick(options)
        finally:
            shutil.rmtree(temporary)
        return
    if not options.backbone:
        parser.error("give the run or folder to prompt")
    from canon.config import parse_assignment

    more = dict(map(parse_assignment, options.set))
    scores: dict[str, dict[str, list[float]]] = {}
    for data_set in options.sets:
        for method in options.methods:
            for index in range(options.folds):
                value = cell(data_set, method, index, options, more)
                if value is not None:
                    scores.setdefault(data_set, {}).setdefault(method, []).append(value)
                    print(f"{data_set} {method} {index}: {value:.4f}", flush=True)
        print("\n".join(table(scores)), flush=True)
    stored = RESULTS / "prompting.json"
    before = json.loads(stored.read_text()).get("sets", {}) if stored.is_file() else {}
    about = {"backbone": Path(options.backbone).name, "members": options.members}
    sets = {**before, **{data_set: {**about, "accuracy": of} for data_set, of in scores.items()}}
    write_result("prompting", {"sets": sets}, options)


if __name__ == "__main__":
    main()
