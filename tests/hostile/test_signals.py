"""How a command ends: Ctrl-C at any moment, a reader that has gone, a full disk for its output, errors of all kinds.

Ctrl-C comes at a counted import or a counted opening of a file, not after a time, so that every machine sees the same.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from canon.cli import list_
from canon.errors import CanonError, Unforeseen

# Starts the command as its entry point does, and interrupts it at the n-th event of a kind; twice where asked for.
START = """
import os, signal, sys
event, moment, times = sys.argv.pop(1), int(sys.argv.pop(1)), int(sys.argv.pop(1))
count = 0
def watch(name, arguments):
    global count
    if name == event:
        count += 1
        if moment <= count < moment + times:
            os.kill(os.getpid(), signal.SIGINT)
from canon.command import main
sys.addaudithook(watch)
sys.argv[0] = "canon"
main()
"""
MOMENTS: list[tuple[str, int, int, tuple[str, ...]]] = [
    *(("import", moment, 1, ("list", "recipes")) for moment in (1, 2, 10, 60, 150)),
    *(("import", moment, 1, ("describe", "mlp:tiny")) for moment in (300, 700, 1200)),
    ("import", 900, 1, ("check", "digits")),
    ("open", 150, 1, ("check", "digits")),
    ("import", 600, 1, ("predict", "nowhere", "nothing.csv")),
    ("import", 250, 2, ("train", "mlp:tiny", "--out", "run", "--quiet")),
    ("open", 700, 1, ("train", "mlp:tiny", "--out", "run", "--quiet")),
]


@pytest.mark.parametrize(("event", "moment", "times", "command"), MOMENTS)
def test_an_interrupt_at_any_moment_ends_quietly(event: str, moment: int, times: int, command: tuple[str, ...]) -> None:
    words = [sys.executable, "-c", START, event, str(moment), str(times), *command]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
    # A command that had come to its end before has its own code; a mistake of its own it may still report.
    assert ended.returncode in (130, 0, 2), ended.stderr
    assert "Traceback" not in ended.stderr and "KeyboardInterrupt" not in ended.stderr
    assert ended.returncode == 130 or moment > 100


@pytest.mark.parametrize("command", [("list", "optimizers"), ("list", "systems")])
def test_where_the_output_goes_may_be_full_gone_or_closed(command: tuple[str, ...]) -> None:
    words = [sys.executable, "-m", "canon", *command]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert (
        ended.stderr.startswith("canon: ")
        and ended.stderr.endswith("disk is full.\n")
        and ended.stderr.count("\n") == 1
    )
    read, write = os.pipe()
    os.close(read)
    gone = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (gone.returncode, gone.stderr) == (141, "")
    closed = subprocess.run(["sh", "-c", '"$@" <&- >&-', "sh", *words], stderr=subprocess.PIPE, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")


def raised(make: Callable[[], object]) -> BaseException:
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError("it was to fail")


def nested(depth: int = 0) -> int:
    return nested(depth + 1) + 1


MEMORY = "This needs more memory than there is: choose smaller sizes (train.micro_batch, train.batch, system.…)."
TEXT = "Some text cannot be read or written: "
ERRORS: dict[str, tuple[Callable[[], BaseException], int, str]] = {
    "a mistake": (lambda: CanonError("a.csv, line 3: wrong."), 2, "a.csv, line 3: wrong."),
    "two lines": (lambda: CanonError("a\nb.csv is wrong."), 2, r"a\nb.csv is wrong."),
    "a terminal's commands": (lambda: CanonError("\x1b[2J\ud800"), 2, r"\x1b[2J\ud800"),
    "memory": (MemoryError, 2, MEMORY),
    "torch's memory": (lambda: raised(lambda: torch.empty(10**15)), 2, MEMORY),
    "torch's sizes": (lambda: raised(lambda: torch.empty(10**12, 10**12)), 2, MEMORY),
    "torch's numbers": (lambda: raised(lambda: torch.empty(10**30)), 2, MEMORY),
    "torch's layer": (lambda: raised(lambda: torch.nn.Linear(10**30, 3)), 2, MEMORY),
    "numpy's memory": (lambda: raised(lambda: np.empty(10**15)), 2, MEMORY),
    "numpy's sizes": (lambda: raised(lambda: np.empty(10**30)), 2, MEMORY),
    "a list's size": (lambda: raised(lambda: [0] * 10**30), 2, MEMORY),
    "depth": (lambda: raised(nested), 2, "Some input is nested too deeply to be read."),
    "bytes": (lambda: raised(lambda: b"\xff".decode()), 2, f"{TEXT}it is not UTF-8 text (byte 0)."),
    "half a character": (lambda: raised("\ud800".encode), 2, TEXT + r"it holds '\ud800', which is half a character."),
    "digits": (lambda: raised(lambda: int("9" * 5000)), 2, f"{TEXT}it holds a number of over 4,300 digits."),
    "a full disk": (lambda: OSError(errno.ENOSPC, "No space left on device"), 2, "The disk is full."),
    "memory of the system": (lambda: OSError(errno.ENOMEM, "Cannot allocate memory"), 2, MEMORY),
    **{
        errno.errorcode[number]: (lambda n=number: OSError(n, os.strerror(n), "a.csv"), 2, f"a.csv: {why}.")
        for number in sorted(set(errno.errorcode) - {errno.ENOSPC, errno.ENOMEM, errno.EPIPE, errno.ESHUTDOWN})
        for why in [os.strerror(number).lower()]
    },
    "an error without a number": (lambda: OSError("something"), 2, "Something."),
    "a closed pipe": (BrokenPipeError, 141, ""),
    "an interrupt": (KeyboardInterrupt, 130, ""),
    "an exit": (lambda: SystemExit(3), 3, ""),
    "an exit without a number": (SystemExit, 0, ""),
    "an exit with a text": (lambda: SystemExit("something"), 1, ""),
}


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, canon: Callable[..., Any]) -> Callable[[BaseException], Any]:
    """Runs a verb that raises an error."""

    def run(error: BaseException) -> Any:
        def verb() -> list[dict[str, Any]]:
            raise error

        monkeypatch.setitem(list_._LISTS, "systems", verb)
        return canon("list", "systems")

    return run


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_one_sentence(name: str, failing: Callable[[BaseException], Any]) -> None:
    make, code, sentence = ERRORS[name]
    ended = failing(make())
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.strip("\n") == (f"canon: {sentence}" if sentence else "")


BUGS: dict[str, Callable[[], BaseException]] = {
    "a key": lambda: KeyError("bytes"),
    "a type": lambda: TypeError("unsupported operand"),
    "torch": lambda: RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
    "an assertion": lambda: AssertionError("the caller has looked"),
    "several lines": lambda: ValueError("first\nsecond"),
    "letters": lambda: ValueError("\ud800"),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_leaves_its_traceback_in_a_file(
    name: str, failing: Callable[[BaseException], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = BUGS[name]()
    code, out, err = failing(error)
    assert (code, out, err.count("\n")) == (1, "", 1) and "Traceback" not in err
    (log,) = tmp_path.glob("canon-*.log")
    assert err.startswith(f"canon: unexpected {type(error).__name__}: ") and err.endswith(f"report it with {log}.\n")
    text = log.read_text()
    assert text.startswith("canon list systems\nTraceback") and type(error).__name__ in text


def test_a_bug_whose_traceback_is_kept_elsewhere_names_that_file(failing: Callable[[BaseException], Any]) -> None:
    error = Unforeseen("runs/a/log.txt")
    error.__cause__ = KeyError("x")
    code, _, err = failing(error)
    assert code == 1 and err.startswith("canon: unexpected KeyError: ") and err.endswith("with runs/a/log.txt.\n")


def test_an_interrupt_that_comes_out_as_another_error_is_one(
    failing: Callable[[BaseException], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from canon import command

    monkeypatch.setattr(command, "_interrupted", True)
    assert failing(ImportError("numpy._core.multiarray failed to import")).code == 130
    assert failing(SystemExit(1)).code == 130


def test_the_guard_comes_before_any_import_that_takes_time() -> None:
    code = "import sys; import canon.command; print(*(name for name in sys.modules if name.startswith('canon')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "canon canon.command\n"


def test_a_command_that_is_not_interrupted_ends_well() -> None:
    """Else the tests of interrupts would pass for another reason."""
    words = [sys.executable, "-c", START, "import", "100000000", "1", "list", "optimizers"]
    assert subprocess.run(words, capture_output=True).returncode == 0
