"""The pages against the code: commands run, tables are fresh, links lead somewhere, every setting is documented."""

from __future__ import annotations

import ast
import contextlib
import csv
import importlib
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from canon import recipe as recipes
from canon import registry
from canon.data.config import DataConfig
from canon.optim.schedules import Schedule
from canon.optim.settings import OPTIMIZERS
from canon.registry import SYSTEMS
from canon.train_config import Group, TrainConfig
from canon.training.run import Run
from canon.use.pipeline.settings import is_pipeline

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROSE = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PROSE}
NAMES = {system.name for system in SYSTEMS}
FEW, MORE = 6, 9  # steps of a shortened training, and of one that is resumed
EXAMPLES = 384  # of each run, where a comparison has a budget
TOKENS = 1024  # of a step at most, where a recipe counts by tokens


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """The commands of sh blocks that the tests run; one goes on after a backslash and while a quote is open."""
    result: list[str] = []
    for block in blocks(text, "sh"):
        lines = iter(block.replace("\\\n", "").splitlines())
        for line in lines:
            command = line.strip()
            if not command.startswith(("canon ", "python -m canon", "python -c")):
                continue
            while is_open(command):
                command += f"\n{next(lines)}"
            result.append(command)
    return [command for command in result if "# not run by the tests" not in command]


def is_open(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def shortened(arguments: list[str]) -> list[str]:
    """The command with a budget of a few small steps in place of its own; comparisons with two seeds."""
    verb, rest = arguments[0], list(arguments[1:])
    if verb not in ("train", "compare") or (verb == "compare" and Path(rest[0]).is_dir()):
        return arguments
    if rest and is_pipeline(rest[0]):
        return [*arguments, "--set", f"rank.set.train.steps={FEW}"]
    kept, budget = list[str](), ["--set", f"train.steps={FEW}"]
    while rest:
        word = rest.pop(0)
        if word == "--budget":
            budget = [word, f"examples={EXAMPLES}"]
            rest.pop(0)
        elif word == "--set" and rest[0].startswith(("train.epochs=", "train.steps=")):
            rest.pop(0)
        elif word == "--seeds":
            kept += [word, str(min(2, int(rest.pop(0))))]
        else:
            kept.append(word)
    if "--resume" in kept:
        return [verb, *kept, "--set", f"train.steps={MORE}"]
    recipe = kept[0] if kept and not kept[0].startswith("--") else ""
    named = not recipe or recipes.is_known(recipe)  # else it is data alone
    if named and recipes.load(recipe).train.tokens > TOKENS:
        kept += ["--set", f"train.tokens={TOKENS}"]
    return [verb, *kept, *budget]


def example_files() -> None:
    """Small files of the kinds that pages speak of."""
    from PIL import Image
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

    for name, result in {"wine": load_wine(), "tumours": load_breast_cancer(), "houses": load_diabetes()}.items():
        labels = result.target_names[result.target] if "target_names" in result else result.target
        with Path(f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*result.feature_names, "label"])
            writer.writerows([*row, label] for row, label in zip(result.data, labels, strict=True))
    Path("pairs.tsv").write_bytes((ROOT / "tests" / "battery" / "pairs.tsv").read_bytes())
    Path("ratings.csv").write_bytes((ROOT / "tests" / "battery" / "interactions.csv").read_bytes())
    Path("triples.csv").write_bytes((ROOT / "tests" / "battery" / "triples.csv").read_bytes())
    Path("queries.txt").write_bytes((ROOT / "tests" / "battery" / "queries.letor").read_bytes())
    Path("clicks.csv").write_bytes((ROOT / "tests" / "battery" / "clicks.csv").read_bytes())
    Path("file.libfm").write_text("".join(f"{n % 2} {n % 2}:1 {2 + n % 5}:1\n" for n in range(100)))
    rows = [f"{n % 9},{n % 7},{1 + n % 5}" for n in range(100)]
    Path("ratings.csv").write_text("\n".join(["user,item,rating", *rows, ""]))
    Path("book.txt").write_bytes((ROOT / "tests" / "battery" / "text.txt").read_bytes())
    lines = Path("book.txt").read_text().splitlines()
    rows = [
        {"id": f"d{i}", "title": f"{word} {i % 5}", "body": line}
        for i, (word, line) in enumerate(zip("abcdefgh" * 5, lines, strict=False))
    ]
    Path("docs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Path("queries.tsv").write_text("id\tquery\n" + "".join(f"q{i}\t{lines[i]}\n" for i in range(5)))
    Path("qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(5)))
    shown = "".join(f"q{i},d{i},2,1\n" for i in range(5))
    Path("log.csv").write_text("query,document,position,clicked\nq0,d1,1,0\n" + shown)
    Path("text").mkdir()
    pages = (" ".join(f"{line.capitalize()}." for line in lines[start : start + 5]) for start in range(0, 400, 5))
    Path("text", "pages.txt").write_text("\n\n".join(pages))
    for shape in ("round", "square"):
        Path("photos", shape).mkdir(parents=True)
        for i in range(12):
            pixels = np.full((20, 24, 3), 255 if shape == "round" else i, dtype=np.uint8)
            Image.fromarray(pixels).save(Path("photos", shape, f"{i}.png"))


def is_chinese(page: Path) -> bool:
    return page.name == "README.zh-CN.md" or ROOT / "docs" / "zh" in page.parents


def by_language(page: Path) -> object:
    """The Chinese pages have the English ones' commands, which another test says; `make test-all` runs them too."""
    return pytest.param(page, marks=pytest.mark.slow) if is_chinese(page) else page


def files_of(text: str) -> list[tuple[str, str]]:
    """The files that a page shows in full: a block of Python or TOML that opens with its name, as in `# game.py`."""
    listed = [block for language in ("python", "toml") for block in blocks(text, language)]
    return [(match[1], block) for block in listed if (match := re.match(r"# (\w+\.(?:py|toml))\n", block))]


@pytest.mark.usefixtures("small_texts")
@pytest.mark.parametrize("page", [by_language(page) for page in PAGES if commands(TEXTS[page])], ids=named)
def test_commands_run_in_page_order(page: Path, canon: Callable[..., Any]) -> None:
    example_files()
    for name, content in files_of(TEXTS[page]):
        Path(name).write_text(content, encoding="utf-8")
    for line in commands(TEXTS[page]):
        words = shlex.split(line, comments=True)
        if words[:2] == ["python", "-c"]:
            reported = io.StringIO()
            with contextlib.redirect_stdout(reported):
                exec(words[2], {})
            assert reported.getvalue(), f"{line} printed nothing"
            if words[3:]:
                assert words[3] == ">", line
                Path(words[4]).write_text(reported.getvalue(), encoding="utf-8")
            continue
        arguments = words[3:] if words[0] == "python" else words[1:]
        outcome = canon(*shortened(arguments))
        assert outcome.code == 0, f"{line}\n{outcome.err}"
        assert outcome.out.strip(), f"{line} printed nothing"
    if page.parent.name == "systems":
        pages = TEXTS[page], TEXTS[ROOT / "docs" / "training.md"]
        sections = [text.split("## Logged numbers")[1].split("\n## ")[0] for text in pages]
        sections += [by_task()[anchor] for anchor in re.findall(r"logged\.md#([\w-]+)", sections[0])]
        reported_names = set(re.findall(r"`([^`]+)`", " ".join(sections)))
        own = [run for run in sorted(Path("runs").iterdir()) if (run / "result.json").is_file()]
        assert own, "a page trains its system"
        for name in {name for run in own for name in logged(run)}:
            assert name in reported_names or f".{name.rpartition('.')[2]}" in reported_names, name


def by_task() -> dict[str, str]:
    """The sections of the page of logged numbers, by anchor."""
    parts = TEXTS[ROOT / "docs" / "logged.md"].split("\n## ")[1:]
    return {slug(part.partition("\n")[0]): part for part in parts}


def logged(run: Path) -> Iterator[str]:
    """The names of all numbers that a run has left."""
    for file in ("metrics.jsonl", "timing.jsonl"):
        for line in (run / file).read_text().splitlines():
            yield from json.loads(line)
    for key, value in (Run(run).result or {}).items():
        if key in ("risk", "protocol", "cost", "scores"):
            yield from (f"{key}.{name}" for name in value)
        else:
            yield key


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(TEXTS[page], "python")], ids=named)
def test_python_runs(page: Path) -> None:
    space: dict[str, Any] = {}
    for block in blocks(TEXTS[page], "python"):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, named(page), "exec"), space)


def test_skipped_commands_say_what_they_need() -> None:
    for page, text in TEXTS.items():
        for line in text.splitlines():
            if "# not run by the tests" in line and not line.lstrip().startswith(("- ", "`# not")):
                assert re.search(r"# not run by the tests: needs \w+", line), f"{named(page)}: {line}"


def test_tables_are_up_to_date() -> None:
    script = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    outcome = subprocess.run(script, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def script(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """A script of docs/, imported."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module(name)


@pytest.mark.parametrize("name", ["lenet", "q-learning", "item-knn"])
def test_figures_are_up_to_date(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system, _ = registry.find(name)
    drawn = ROOT / "docs" / "systems" / "images" / f"{name}.svg"
    assert script(monkeypatch, "images").figure(system) == drawn.read_text(encoding="utf-8")


def test_every_system_page_has_a_figure() -> None:
    for system in SYSTEMS:
        match = re.search(r"!\[(.{20,})\]\((images/[\w-]+\.svg)\)", TEXTS[ROOT / system.docs])
        assert match, system.name
        assert ElementTree.parse(ROOT / "docs" / "systems" / match[2]).getroot().tag.endswith("}svg")


def test_every_system_page_opens_with_the_idea() -> None:
    """Two sentences or more that need no formula, no paper and no file."""
    for system in SYSTEMS:
        opening = " ".join(TEXTS[ROOT / system.docs].split("\n\n")[1].split())
        assert len(re.findall(r"[.?](?= |$)", opening)) >= 2, system.name
        assert not re.search(r" = |canon/|\b(1[89]|20)\d\d, \*", opening), system.name


def test_an_old_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    generate = script(monkeypatch, "generate")
    page = ROOT / "README.md"
    fresh = generate.renewed(page, TEXTS[page])
    assert fresh == TEXTS[page]
    assert generate.renewed(page, TEXTS[page].replace("Multilayer perceptron |", "Perceptron |")) == fresh


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", TEXTS[page], flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        file, _, anchor = target.partition("#")
        result = (page.parent / file).resolve() if file else page
        assert result.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", result.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(slug, headings), target


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_no_local_path_and_no_package_host(page: Path) -> None:
    for pattern in (r"(?<![\w.])/(work|root|home|Users)/", r"pypi\.|pythonhosted|anaconda\.org|localhost|127\.0\.0\.1"):
        match = re.search(pattern, TEXTS[page])
        assert not match, match


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_named_tests_exist(page: Path) -> None:
    for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXTS[page]):
        if "NAME" in file:
            continue
        assert (ROOT / file).is_file(), file
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert not name or name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def test_every_setting_is_reported() -> None:
    docs = "\n".join(text for page, text in TEXTS.items() if page.parent.name == "docs")
    for cls in (TrainConfig, DataConfig, Group, Schedule, *OPTIMIZERS.values()):
        for field in fields(cls):  # type: ignore[arg-type]
            assert f"`{field.name}`" in docs, f"{cls.__name__}.{field.name}"
    for name in OPTIMIZERS:
        assert f"`{name}`" in docs, name


def test_every_system_and_recipe_is_reported() -> None:
    listed = TEXTS[ROOT / "docs" / "recipes.md"]
    for name in recipes.names():
        assert f"| `{name}` |" in listed, name
    for system in SYSTEMS:
        for page in (ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "docs" / "index.md"):
            assert f"[`{system.name}`]" in TEXTS[page], f"{named(page)}: {system.name}"
        page = TEXTS[ROOT / system.docs]
        for name in (f"settings-{system.name}", f"logged-{system.name}", f"deviations-{system.name}"):
            assert f"<!-- generated: {name} -->" in page, name


@pytest.mark.parametrize("folder", ["docs", "docs/zh"])
def test_every_page_is_in_the_index(folder: str) -> None:
    index = TEXTS[ROOT / folder / "index.md"]
    for page in (*(ROOT / folder).glob("*.md"), *(ROOT / folder / "tutorials").glob("*.md")):
        name = str(page.relative_to(ROOT / folder))
        assert name == "index.md" or f"]({name})" in index, name


CHINESE = ROOT / "docs" / "zh"
TWINS = [
    (ROOT / "README.md", ROOT / "README.zh-CN.md"),
    *((ROOT / "docs" / page.relative_to(CHINESE), page) for page in sorted(CHINESE.rglob("*.md"))),
]
OF_A_LANGUAGE = {"data.segmenter", "objective.masking"}  # settings for text without spaces


def step(command: str) -> list[str]:
    """What a command does: its verb, the systems and recipes it names, its options and the settings it changes."""
    words = shlex.split(command, comments=True)
    if words[:2] == ["python", "-c"]:
        return words[:2]
    words = words[3:] if words[0] == "python" else words[1:]
    verbs = [words[0], *words[1:2]] if words[0] in ("inspect", "tokenizer", "data", "claims", "list") else [words[0]]
    others = [word for word in words[len(verbs) :] if Path(word).suffix not in (".py", ".toml")]  # files of a page
    named = [word for word in others if recipes.is_known(word) or word.partition(":")[0] in NAMES]
    options = [word for word in words if word.startswith("-")]
    keys = [value.partition("=")[0] for flag, value in pairwise(words) if flag == "--set"]
    return [*verbs, *named, *sorted({*options, *keys} - OF_A_LANGUAGE)]


@pytest.mark.parametrize(("english", "chinese"), TWINS, ids=named)
def test_the_two_languages_are_in_step(english: Path, chinese: Path) -> None:
    """Equal levels of headings, steps and named tests, outside tutorials equal commands and Python too; tutorials
    have examples of their language, and the index has its own headings."""

    def bare(page: Path) -> list[str]:
        matches = [block for language in ("sh", "python") for block in blocks(TEXTS[page], language)]
        return [re.sub(r"\s+# .*", "", line) for block in matches for line in block.splitlines()]

    def levels(page: Path) -> list[str]:
        text = re.sub(r"^ *```.*?^ *```$", "", TEXTS[page], flags=re.DOTALL | re.MULTILINE)
        return re.findall(r"^(#+) ", text, flags=re.MULTILINE)

    one, other = TEXTS[english], TEXTS[chinese]
    assert english.parent.name == "tutorials" or bare(english) == bare(chinese)
    assert [step(line) for line in commands(one)] == [step(line) for line in commands(other)]
    assert re.findall(r"tests/[\w/.:]+", one) == re.findall(r"tests/[\w/.:]+", other)
    assert chinese.name == "index.md" or levels(english) == levels(chinese)


def test_every_tutorial_is_in_both_languages_and_opens_with_a_picture() -> None:
    pages = [page.name for page in sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
    for page in (*(ROOT / "docs" / "tutorials").glob("*.md"), *(CHINESE / "tutorials").glob("*.md")):
        assert re.search(r"!\[.{8,}\]\(.*images/", TEXTS[page].split("\n## ")[0]), named(page)
    assert pages == [page.name for page in sorted((CHINESE / "tutorials").glob("*.md"))]


def test_a_step_is_more_than_a_verb() -> None:
    command = "canon train bert:tiny --data a.txt --set train.steps=9 --set data.segmenter=jieba --out runs/a"
    assert step(command) == ["train", "bert:tiny", "--data", "--out", "--set", "train.steps"]
    assert step("python -m canon inspect attention runs/a 'a b' --out a.png") == ["inspect", "attention", "--out"]
    text = '```sh\npython -c "\nfor i in range(2):\n    print(i)\n" > a.txt\n'
    text += "canon train \\\n  gpt:tiny  # it's small\n```\n"
    assert [step(line) for line in commands(text)] == [["python", "-c"], ["train", "gpt:tiny"]]
    assert "\n    print(i)" in commands(text)[0]


def test_the_readmes_are_short() -> None:
    for page in (ROOT / "README.md", ROOT / "README.zh-CN.md"):
        assert len(TEXTS[page].splitlines()) <= 150, named(page)


def test_the_readmes_show_the_ranges_of_the_recipe() -> None:
    expected = dict(recipes.load("sequence/pronounce").expected())
    last = expected.pop("curve")["valid/wer"][-1]
    ranges = {name.removeprefix("test/"): between for name, between in expected.items()} | {"valid/wer": last[1:]}
    for page in (ROOT / "README.md", ROOT / "README.zh-CN.md"):
        shown = re.findall(r"([\w/]+) [\d.]+ \(expected ([\d.]+)–([\d.]+)\)", TEXTS[page])
        assert len(shown) == 4, named(page)
        for name, *between in shown:
            assert between == [f"{bound:.4g}" for bound in ranges[name]], f"{named(page)}: {name}"


def test_the_example_of_a_recipe_is_the_recipe() -> None:
    """Beside what it has, it shows the system's own objective."""
    shown = tomllib.loads(blocks(TEXTS[ROOT / "docs" / "recipes.md"], "toml")[0])
    shown.pop("objective")
    file = tomllib.loads((ROOT / "canon" / "recipes" / "linear" / "digits-mlp.toml").read_text(encoding="utf-8"))
    expected = shown.pop("expect")
    assert expected and expected.items() <= file.pop("expect").items()
    assert shown == file


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_lines_are_short(page: Path) -> None:
    """Tables, blocks of code and long links may be longer."""
    text = re.sub(r"^ *```.*?^ *```$", "", TEXTS[page], flags=re.DOTALL | re.MULTILINE)
    long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", "!["))]
    assert not long, long


ODD = re.compile(
    r"Asked for|[Tt]he (target|goal) (for .* )?(is|was) [0-9h]|\basked: [\d.]|\baimed at\b|\bwas the goal\b|"
    r"\bgoal [−\d]|\bwere to be [\d.]|\btold\b(?! apart)|"
    r"\btells? (how|what|the (same|mean))\b|\banew\b|\bwhence\b|\bbehind\b"
)


@pytest.mark.parametrize("page", PROSE, ids=named)
def test_english_is_plain(page: Path) -> None:
    """No target that the reader has not seen, and none of the words that style replaces."""
    odd = [line for line in TEXTS[page].splitlines() if ODD.search(line)]
    assert not odd, odd


def test_what_is_logged_is_written_once() -> None:
    """A row of the tables of logged numbers is on one page."""
    pages_of: dict[str, list[str]] = {}
    for page in PAGES:
        for table in re.findall(r"<!-- generated: logged\S* -->(.*?)<!-- end -->", TEXTS[page], re.DOTALL):
            rows = re.findall(r"^\| (?!file \||---)[^|]*\|[^|]*\|[^|]*\|", table, flags=re.MULTILINE)
            for row in set(rows):
                pages_of.setdefault(row, []).append(named(page))
    assert len(pages_of) > 200
    assert not {row: pages for row, pages in pages_of.items() if len(pages) > 1}
