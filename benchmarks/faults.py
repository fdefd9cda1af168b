"""Attacks on canon from outside, counted: `python benchmarks/faults.py [--only GROUP …] [--quick] [--seed N]`.

| group | what is done | held if |
| --- | --- | --- |
| kills | a training is killed at a random file operation and resumed without its source | the end is the same |
| damages | a random file of a run is damaged, then a verb is run | the same answer as before, or one sentence |
| inputs | a file of a foreign format is damaged, then read | an answer or one sentence, in bounded time and memory |
| commands | a bad command line | exit code 2 and one sentence, or 0 |
| interrupts | Ctrl-C after a random time | 130 and silence, or what an unhurried command gives |
| disk | the n-th write fails: no space left | one sentence, nothing left behind, the run resumes to the same end |
| pairs | two trainings start on one directory | one of them is refused, and the end is as if it were alone |
| ranks | one of two processes of torchrun is killed, and the run resumed by two | it ends as if never killed |

Attempts run in copies of this process (fork), since importing torch would take longer than the attempt itself. File
operations are seen by an audit hook. Every attempt that did not hold is printed with what repeats it, and makes the
exit code 1. `--quick` makes one attempt of each group.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, arguments, own_cache, write_result

os.environ["OMP_NUM_THREADS"] = "1"

from attempts import (
    KINDS,
    MEMORY,
    SECONDS,
    Reference,
    canon,
    damage,
    end_of,
    failing,
    finish,
    killing,
    last_line,
    references,
    start,
    train_line,
)
from hostile import command_lines, samples


@dataclass
class Group:
    """What was tried and what held."""

    name: str
    tried: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def judge(self, kind: str, held: bool, what: str) -> None:
        self.tried[kind] += 1
        if not held:
            self.failures.append(f"{kind}: {what}")
            print(f"  FAILED {self.name}/{kind}: {what}", flush=True)

    def record(self) -> dict[str, Any]:
        total = sum(self.tried.values())
        held = total - len(self.failures)
        return {"tried": total, "held": held, "by_kind": dict(self.tried), "failures": self.failures}


def kills(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    ends = {kind: end_of(reference.run) for kind, reference in known.items()}
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        at = draw.randint(1, known[kind].operations)
        folder = place / "kill"
        try:
            folder.mkdir()
            if source := known[kind].source:
                shutil.copytree(source, folder / "source", symlinks=True)
            canon(folder, *train_line(kind), hook=killing(at))
            resumed = (folder / "run").exists()
            if resumed:  # what it started from is not needed again
                shutil.rmtree(folder / "source", ignore_errors=True)
            outcome = canon(folder, *(("train", "run", "--resume", "--quiet") if resumed else train_line(kind)))
            same = outcome.code == 0 and end_of(folder / "run") == ends[kind]
            left = [path.name for path in folder.iterdir() if path.name.endswith(".writing")]
            group.judge(kind, same and not left, f"operation {at}: exit {outcome.code} {left} {last_line(outcome)}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


_WATCHED = ("recipe.toml", "data.json", "env.json", "result.json", "metrics.jsonl", "timing.jsonl", "vocab/*")
_CHECKPOINT = ("checkpoints/*/manifest.json", "checkpoints/*/state.json", "checkpoints/*/*.safetensors")


def damages(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    """Of finished runs and of ones that were stopped; each verb's answer is compared with that of the whole run."""
    kinds = ["mlp", "word2vec", "transformer", "finetune", "adaboost"]
    inputs = {"mlp": "digits.csv", "transformer": "six four seven", "finetune": "seventy one"}
    wholes: dict[tuple[str, bool], Path] = {}
    for kind in kinds:
        for finished in (True, False):
            folder = place / "whole" / f"{kind}-{finished}"
            folder.mkdir(parents=True)
            shutil.copytree(known[kind].run, folder / "run", symlinks=True)
            if kind == "mlp":
                row = ",".join(f"p{i}" for i in range(64)) + "\n" + ",".join(["3"] * 64) + "\n"
                (folder / "digits.csv").write_text(row)
            if not finished:  # as a killed one: the newest checkpoint and the result are not there yet
                (folder / "run" / "result.json").unlink()
                shutil.rmtree(max((folder / "run" / "checkpoints").glob("step-*")))
            wholes[kind, finished] = folder
    ends = {kind: end_of(known[kind].run) for kind in kinds}
    answers: dict[tuple[str, bool, str], str] = {}
    for number in range(count):
        kind, finished = kinds[number % len(kinds)], draw.random() < 0.5
        verbs = {
            "resume": ["train", "run", "--resume", "--quiet"],
            "evaluate": ["evaluate", "run", "--json"],
            "describe": ["describe", "run", "--json"],
            "plot": ["plot", "run", "--out", "curves.png"],
        }
        if kind in inputs:
            verbs["predict"] = ["predict", "run", inputs[kind], "--json"]
        if kind == "word2vec":
            verbs["neighbors"] = ["neighbors", "run", "six", "--json"]
        verb = draw.choice(list(verbs))
        asked = (kind, finished, verb)
        folder = place / "damage"
        try:
            if asked not in answers and verb != "resume":
                shutil.copytree(wholes[kind, finished], folder, symlinks=True)
                answers[asked] = canon(folder, *verbs[verb]).out
                shutil.rmtree(folder)
            shutil.copytree(wholes[kind, finished], folder, symlinks=True)
            patterns = _CHECKPOINT if draw.random() < 0.5 else _WATCHED
            files = [p for pattern in patterns for p in sorted((folder / "run").glob(pattern)) if p.is_file()]
            path = draw.choice(files)
            done = damage(path, draw)
            outcome = canon(folder, *verbs[verb])
            held = outcome.is_clean
            if held and outcome.code == 0:
                if verb == "resume":
                    reported = bool(outcome.err.strip()) or finished
                    held = reported or end_of(folder / "run") == ends[kind]
                else:  # another answer only where it is said that an earlier checkpoint was taken
                    held = outcome.out == answers[asked] or bool(outcome.err.strip()) or verb in ("plot", "describe")
            what = f"{done} {path.relative_to(folder)} of a {'finished' if finished else 'stopped'} {kind}"
            group.judge(verb, held, f"{what}: exit {outcome.code} {last_line(outcome)}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# Hostile input.


def inputs(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    made = samples(place / "samples", {kind: reference.run for kind, reference in known.items()})
    for number in range(count):
        name = list(made)[number % len(made)]
        path, line = made[name]
        folder = place / "input"
        try:
            folder.mkdir()
            copy = folder / path.name
            shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)
            file = draw.choice([p for p in sorted(copy.rglob("*")) if p.is_file()]) if copy.is_dir() else copy
            done = damage(file, draw)
            outcome = canon(folder, *(part.replace("{}", path.name) for part in line))
            held = outcome.is_clean and outcome.memory < MEMORY
            what = f"{done} {file.relative_to(folder)}: exit {outcome.code}, {outcome.memory >> 20} MB"
            group.judge(name, held, f"{what}, {last_line(outcome)}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# Command lines.


def commands(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    every = list(command_lines("run"))
    chosen = draw.sample(every, min(count, len(every)))
    folder = place / "command"
    for verb, line in chosen:
        try:
            folder.mkdir()
            (folder / "t.csv").write_text("a,b,y\n" + "".join(f"{i},{i},{i % 2}\n" for i in range(20)))
            shutil.copytree(known["mlp"].run, folder / "run", symlinks=True)
            outcome = canon(folder, *line)
            shown = " ".join(part if len(part) < 60 else f"{part[:20]}…({len(part)})" for part in line)
            group.judge(verb, outcome.is_clean, f"canon {shown!r}: exit {outcome.code} {last_line(outcome)}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def interrupts(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    """In processes of their own, since importing is part of what is interrupted."""
    folder = place / "interrupt"
    folder.mkdir()
    (folder / "t.csv").write_text("a,b,y\n" + "".join(f"{i},{i},{i % 2}\n" for i in range(200)))
    shutil.copytree(known["mlp"].run, folder / "run", symlinks=True)
    verbs = {
        "train": ["train", "mlp:tiny", "--data", "t.csv", "--quiet"],
        "check": ["check", "t.csv"],
        "list": ["list", "systems"],
        "evaluate": ["evaluate", "run"],
        "describe": ["describe", "bert"],
    }
    for number in range(count):
        verb = list(verbs)[number % len(verbs)]
        shutil.rmtree(folder / "runs", ignore_errors=True)
        after = draw.uniform(0.05, 3.0)
        child = subprocess.Popen(
            [sys.executable, "-m", "canon", *verbs[verb]],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CANON_DATA": str(folder / "sets"), **own_cache(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(after)
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=SECONDS)
        held = child.returncode in (0, 130) and "Traceback" not in out + err
        group.judge(verb, held, f"after {after:.3f} s: exit {child.returncode} {err.strip()[-300:]}")
    shutil.rmtree(folder)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def disk(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    """A disk that is full from the n-th operation on, or for files above a size; for verbs that write and trainings."""
    writers = {
        "plot": ["plot", "run", "--out", "curves.png"],
        "convert": ["convert", "words", "w.npy", "--to", "numpy"],
        "tokenizer": ["tokenizer", "train", "t.txt", "--out", "tokens.json", "--vocab-size", "60"],
        "generate": ["generate", "gan", "--count", "4", "--out", "samples.png"],
    }
    ends = {kind: end_of(reference.run) for kind, reference in known.items()}
    for number in range(count):
        folder = place / "disk"
        try:
            folder.mkdir()
            by_size = number % 3 == 0
            if number % 2:
                kind = draw.choice(list(KINDS))
                if source := known[kind].source:
                    shutil.copytree(source, folder / "source", symlinks=True)
                at = draw.randint(1, known[kind].operations)
                hook, fsize = (None, 1024 << draw.randrange(10)) if by_size else (failing(at), 0)
                outcome = canon(folder, *train_line(kind), hook=hook, fsize=fsize)
                clean, what = outcome.is_clean, f"{'size ' + str(fsize) if by_size else at}: {last_line(outcome)}"
                there = (folder / "run").exists()
                again = canon(folder, *(("train", "run", "--resume", "--quiet") if there else train_line(kind)))
                same = again.code == 0 and end_of(folder / "run") == ends[kind]
                group.judge(f"train {kind}", clean and same, f"{what}; then exit {again.code} {last_line(again)}")
            else:
                verb = draw.choice(list(writers))
                shutil.copytree(known["mlp"].run, folder / "run", symlinks=True)
                shutil.copytree(known["gan"].run, folder / "gan", symlinks=True)
                shutil.copytree(known["word2vec"].run, folder / "words", symlinks=True)
                (folder / "t.txt").write_bytes((ROOT / "tests/battery/text.txt").read_bytes())
                for name in ("curves.png", "w.npy", "tokens.json", "samples.png"):
                    (folder / name).write_bytes(b"earlier")
                before = tree(folder)
                at = draw.randint(1, 6)
                hook, fsize = (None, draw.randint(500, 2000)) if by_size else (failing(at), 0)
                outcome = canon(folder, *writers[verb], hook=hook, fsize=fsize)
                whole = outcome.code == 0 or tree(folder) == before
                what = f"{'size ' + str(fsize) if by_size else at}: exit {outcome.code} {last_line(outcome)}"
                group.judge(verb, outcome.is_clean and whole, what)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def pairs(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        folder = place / "pair"
        try:
            folder.mkdir()
            if source := known[kind].source:
                shutil.copytree(source, folder / "source", symlinks=True)
            line = train_line(kind)
            if number % 2:  # both take up a run that was killed
                canon(folder, *line, hook=killing(known[kind].operations // 2))
                if (folder / "run").exists():
                    line = ["train", "run", "--resume", "--quiet"]
            first = start(folder, *line)
            time.sleep(draw.uniform(0, 0.3))
            second = start(folder, *line)
            outcomes = [finish(folder, child) for child in (first, second)]
            # The second may also come when the first has ended, and find it finished.
            codes = sorted(outcome.code for outcome in outcomes)
            resumed = "--resume" in line
            held = (codes == [0, 2] or (resumed and codes == [0, 0])) and all(o.is_clean for o in outcomes)
            held = held and end_of(folder / "run") == end_of(known[kind].run)
            group.judge(kind, held, f"exits {codes}: {[last_line(o) for o in outcomes]}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def ranks(group: Group, place: Path, known: dict[str, Reference], count: int, draw: random.Random) -> None:
    """By torchrun itself, whose processes are found as its children."""
    folder = place / "ranks"
    folder.mkdir()

    def launch(out: str, resume: bool, kill_after: float | None) -> int:
        line = train_line("mlp", out, steps=60)
        line = ["train", out, "--resume", "--quiet"] if resume else line
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "-m",
            "canon",
        ]
        child = subprocess.Popen(
            [*torchrun, *line],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CANON_DATA": str(folder / "sets"), **own_cache(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if kill_after is not None:
            time.sleep(kill_after)
            workers = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True).stdout.split()
            for worker in workers[:1] if draw.random() < 0.5 else workers[1:2]:
                with suppress(ProcessLookupError):
                    os.kill(int(worker), signal.SIGKILL)
        return child.wait(timeout=SECONDS)

    begun = time.monotonic()
    assert launch("whole", False, None) == 0
    took = time.monotonic() - begun
    end = end_of(folder / "whole")
    for number in range(count):
        after = draw.uniform(0.3, 1.0) * took
        launch(f"r{number}", False, after)
        code = launch(f"r{number}", (folder / f"r{number}").exists(), None)
        held = code == 0 and end_of(folder / f"r{number}") == end
        group.judge("mlp", held, f"killed after {after:.1f} s of {took:.1f}, then exit {code}")
    shutil.rmtree(folder)


GROUPS: dict[str, tuple[Callable[..., None], int]] = {
    "kills": (kills, 306),
    "damages": (damages, 510),
    "inputs": (inputs, 510),
    "commands": (commands, 420),
    "interrupts": (interrupts, 65),
    "disk": (disk, 90),
    "pairs": (pairs, 27),
    "ranks": (ranks, 6),
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # What every attempt would import is imported once.
    import torch

    import canon.report.run
    import canon.training.trainer
    import canon.use.model  # noqa: F401

    torch.set_num_threads(1)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        known = references(place)
        print(f"References: {', '.join(f'{kind} {r.operations} operations' for kind, r in known.items())}", flush=True)
        for name in options.only:
            attack, count = GROUPS[name]
            begun = time.monotonic()
            group = Group(name)
            draw = random.Random(f"{options.seed} {name}")
            attack(group, place, known, 1 if options.quick else count, draw)
            results[name] = group.record()
            seconds = time.monotonic() - begun
            print(
                f"{name:11s} {results[name]['tried']:4d} tried  {results[name]['held']:4d} held  {seconds:6.0f} s",
                flush=True,
            )
    stored = RESULTS / "faults.json"  # groups that were not asked for stay as they were
    results = (json.loads(stored.read_text())["groups"] if stored.is_file() else {}) | results
    write_result("faults", {"seed": options.seed, "groups": results}, options, packages=("torch", "numpy"))
    sys.exit(any(results[name]["failures"] for name in options.only))


if __name__ == "__main__":
    main()
