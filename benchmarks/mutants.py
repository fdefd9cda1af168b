"""Whether the tests notice a broken line: random small breaks of the code, each tried on a copy of the tree.

`python benchmarks/mutants.py --count 100 --seed 1 --jobs 2` draws breaks evenly from all places that can be broken,
runs the tests that can see the file (nearest first, to the first that fails) and prints the share noticed by room and
every break that was not. What was tried before with the same lines is not tried again, so the command can be stopped
and repeated; more counts add to the same file.

| break | |
| --- | --- |
| comparison | `<` becomes `<=` or `>=`, `==` becomes `!=`, `in` becomes `not in`, `is` becomes `is not`, and back |
| and, or | become each other |
| not | is dropped |
| True, False | become each other; in a default argument too |
| whole number | becomes one more |
| + and − | become each other, also in `+=` |
| min, max | become each other, as `minimum` and `maximum` |
| statement | an augmented assignment, a call for its effect: left out |

Not broken: docstrings, texts (f-strings, `raise`, help), annotations, `assert`, decorators, what is only for a type
checker; `LOOKS` and `COST` (breaks.py), by which nothing but a drawing or the time changes; `NOT_HERE`: needs a GPU, or
is data. A break that changes nothing is written into mutants_equivalent.tsv (file, line as it is, line as it becomes,
why) and then counts neither way. A break under which the tests hang is noticed. A test that fails without the break is
left out.
`--quick` tries one break of canon/metrics/edits.py and keeps nothing.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import Any

from breaks import Break, breaks_of
from common import RESULTS, ROOT, arguments, machine_record

FIRST, MORE = 6, 20  # test files that are run together: the nearest, and of the rest
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.tsv")
# Files that cannot be seen to break here: they need a GPU, or are tables of settings and of downloads.
NOT_HERE = (
    "canon/kernels/cuda/*.py",
    "canon/nn/graphs.py",
    "canon/training/graphs.py",
    "canon/data/catalogue/sets.py",
    "canon/objectives/table.py",
    "canon/registry/[!r_]*.py",
    "canon/*/records.py",
)
# Tests that start processes or train for minutes come last whatever they see.
SLOW: tuple[str, ...] = (
    "tests/battery/test_battery.py",
    "tests/golden/*",
    "tests/training/test_interruption.py",
    "tests/docs/*",
)
SLOW += ("tests/training/test_torchrun.py", "tests/parity/*")


# The tests that can see a file


def _module(path: Path) -> str:
    parts = list(path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(file: str) -> frozenset[str]:
    """The files of the tree that a file names: by import, wherever it stands, or as text ("canon.x.y:Name"); and the
    rest of its folder, where a package imports what is asked of it."""
    source = (ROOT / file).read_bytes()
    tree = ast.parse(source)
    names: set[str] = set()
    if file.endswith("__init__.py") and b"def __getattr__" in source:
        names |= {_module(path.relative_to(ROOT)) for path in (ROOT / file).parent.glob("*.py")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("canon."):
            names.add(node.value.partition(":")[0])
    return frozenset(known for name in names if (known := _files().get(name)))


@cache
def _files() -> dict[str, str]:
    files = [path.relative_to(ROOT) for room in ("canon", "tests") for path in (ROOT / room).rglob("*.py")]
    return {_module(path): str(path) for path in files}


@cache
def hops_from(test: str) -> dict[str, int]:
    """How many imports lie between a test and each file that it can reach."""
    hops, edge = {test: 0}, [test]
    while edge:
        edge = [
            new
            for file in edge
            for new in imports_of(file)
            if new not in hops and not hops.update({new: hops[file] + 1})
        ]
    return hops


def tests_for(file: str) -> list[str]:
    """Those that reach the file, nearest first; slow ones last."""
    path = Path(file)
    room = f"tests/{path.parts[1]}/" if len(path.parts) > 2 else "tests/test_"
    stem = path.stem.strip("_")

    def key(test: str) -> tuple[Any, ...]:
        named = stem in Path(test).stem or Path(test).stem.removeprefix("test_") in stem
        slow = any(fnmatch.fnmatch(test, pattern) for pattern in SLOW)
        battery = test.startswith("tests/battery/")
        here = test.startswith(room)
        return slow, battery, not (named and here), hops_from(test)[file] > 1, not here, hops_from(test)[file], test

    tests = [name for name in _files().values() if Path(name).name.startswith("test_") and file in hops_from(name)]
    return sorted(tests, key=key)


# Trying them


class Tree:
    """A copy of the working tree to break."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def test(self, tests: list[str], left_out: set[str], seconds: int, each: int) -> tuple[str, str]:
        """("failed", the test), ("passed", ""), ("late", "") where time was over, ("hung", "")."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
        command += [f"--timeout={each}", f"--session-timeout={seconds}", "-m", "not slow"]
        command += [part for test in sorted(left_out) for part in ("--deselect", test)]
        try:
            done = subprocess.run(
                [*command, *tests],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=seconds + 2 * each + 60,
            )
        except subprocess.TimeoutExpired:
            return "hung", ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if failed:
            return "failed", failed[1]
        if "session-timeout" in done.stdout:
            return "late", ""
        return ("passed", "") if done.returncode in (0, 5) else ("failed", f"exit {done.returncode}")


def try_break(tree: Tree, one: Break, unsound: set[str], seconds: int, each: int) -> dict[str, Any]:
    source = (ROOT / one.file).read_bytes()
    before, after = one.diff(source)
    record = {"file": one.file, "line": one.line, "room": one.room, "kind": one.kind, "before": before, "after": after}
    path, tests = tree.folder / one.file, tests_for(one.file)
    if not tests:
        return {**record, "outcome": "no tests", "by": ""}
    compiled = b"njit" in source  # what numba keeps of a file that calls this one would not be made again
    outcome, by, ends = "passed", "", time.monotonic() + seconds
    # A few files at a time: collecting them all takes longer than the first to fail.
    groups = [tests[:FIRST], *(tests[start : start + MORE] for start in range(FIRST, len(tests), MORE))]
    try:
        while groups and outcome == "passed":
            path.write_bytes(one.applied(source))
            if compiled:
                _forget_compiled(tree.folder)
            left = int(ends - time.monotonic())
            outcome, by = tree.test(groups[0], unsound, left, each) if left > 0 else ("late", "")
            if outcome == "failed" and not _is_sound(tree, path, source, by, each):
                if by in unsound:  # its name cannot be left out by itself
                    groups[0] = [test for test in groups[0] if test != by.partition("::")[0]]
                    groups = groups if groups[0] else groups[1:]
                unsound.add(by)
                outcome = "passed"
            elif outcome == "passed":
                groups.pop(0)
    finally:
        path.write_bytes(source)
        if compiled:
            _forget_compiled(tree.folder)
    return {**record, "outcome": outcome, "by": by}


_SOUND: set[str] = set()  # tests that are known to pass without a break


def _is_sound(tree: Tree, path: Path, source: bytes, test: str, each: int) -> bool:
    """Whether a test that fails passes without the break, which is taken away here."""
    path.write_bytes(source)
    if b"njit" in source:
        _forget_compiled(tree.folder)
    if test.startswith("tests/") and test not in _SOUND and tree.test([test], set(), each, each)[0] != "passed":
        return False
    _SOUND.add(test)
    return True


def _forget_compiled(folder: Path) -> None:
    for kept in folder.rglob("*.nb[ic]"):
        kept.unlink(missing_ok=True)


# The command


def key_of(record: dict[str, Any]) -> tuple[str, str, str]:
    return record["file"], record["before"], record["after"]


def equivalent() -> dict[tuple[str, str, str], str]:
    rows = [line.split("\t") for line in EQUIVALENT.read_text(encoding="utf-8").splitlines() if line]
    return {(file, before, after): why for file, before, after, why in rows}


def noticed(record: dict[str, Any]) -> bool:
    return record["outcome"] in ("failed", "hung")


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    rooms: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        rooms[record["room"]].append(noticed(record))
    table = {room: {"tried": len(noticed), "noticed": sum(noticed)} for room, noticed in sorted(rooms.items())}
    tried = [one for noticed in rooms.values() for one in noticed]
    return {
        "tried": len(tried),
        "noticed": sum(tried),
        "share": round(sum(tried) / max(len(tried), 1), 4),
        "rooms": table,
    }


def save(path: Path, records: list[dict[str, Any]], command: str) -> None:
    result = {"command": command, "machine": machine_record(("pytest",)), **summary(records), "mutants": records}
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def show(records: list[dict[str, Any]]) -> None:
    whole = summary(records)
    for room, row in whole["rooms"].items():
        print(f"{room:12s} {row['noticed']:4d} of {row['tried']:4d} noticed  {row['noticed'] / row['tried']:.0%}")
    print(f"{'all':12s} {whole['noticed']:4d} of {whole['tried']:4d} noticed  {whole['share']:.1%}")
    for record in records:
        if not noticed(record):
            print(
                f"\n{record['file']}:{record['line']} ({record['outcome']})\n- {record['before']}\n+ {record['after']}"
            )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--count", type=int, default=100, help="breaks to have tried, earlier ones of this draw included"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", default="", help="as in metrics,optim or data/kinds; default all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=300, help="of tests for one break")
    parser.add_argument("--each", type=int, default=120, help="seconds after which a test hangs")
    parser.add_argument("--json", type=Path, default=RESULTS / "mutants.json")
    parser.add_argument("--again", action="store_true", help="try again what was not noticed, in place of new ones")
    given = parser.parse_args()
    if given.quick:
        with tempfile.TemporaryDirectory() as folder:
            given.count, given.rooms, given.json = 1, "metrics/edits", Path(folder) / "mutants.json"
            return measure(given)
    measure(given)


def measure(given: argparse.Namespace) -> None:
    asked = [f"canon/{room}" for room in given.rooms.split(",") if room] or ["canon/"]
    files = sorted(name for name in _files().values() if name.startswith("canon/"))
    files = [name for name in files if not any(fnmatch.fnmatch(name, pattern) for pattern in NOT_HERE)]
    files = [
        name for name in files if any(name.startswith((room.rstrip("/") + "/", room + ".py", room)) for room in asked)
    ]
    known = equivalent()
    records = json.loads(given.json.read_text())["mutants"] if given.json.exists() else []
    records = [record for record in records if key_of(record) not in known]
    done = {key_of(record): record for record in records}
    drawn = [one for file in files for one in breaks_of(file)]
    random.Random(given.seed).shuffle(drawn)
    sources = {file: (ROOT / file).read_bytes() for file in files}
    keys = {one: (one.file, *one.diff(sources[one.file])) for one in drawn}
    drawn = [one for one in drawn if keys[one] not in known]
    if given.again:
        todo = [one for one in drawn if keys[one] in done and not noticed(done[keys[one]])]
    else:
        todo = [one for one in drawn[: given.count] if keys[one] not in done]
    print(f"{len(drawn):,} breaks of {len(files)} files; {len(todo)} to try", flush=True)
    left_out: set[str] = set()
    lock = Lock()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: Queue[Tree] = Queue()
        for job in range(given.jobs):
            trees.put(Tree(Path(folder) / str(job)))

        def work(one: Break) -> None:
            tree = trees.get()
            try:
                record = try_break(tree, one, left_out, given.seconds, given.each)
            finally:
                trees.put(tree)
            with lock:
                done[key_of(record)] = record
                save(given.json, list(done.values()), " ".join(["python", *sys.argv]))
                mark = "noticed" if noticed(record) else record["outcome"].upper()
                print(
                    f"{mark:8s} {one.file}:{one.line} {record['before']}  ⇒  {record['after']}  {record['by']}",
                    flush=True,
                )

        with ThreadPoolExecutor(given.jobs) as pool:
            list(pool.map(work, todo))
    save(given.json, list(done.values()), " ".join(["python", *sys.argv]))
    show(list(done.values()))
    for test in sorted(left_out):
        print(f"left out, as it fails without a break: {test}")


if __name__ == "__main__":
    main()
