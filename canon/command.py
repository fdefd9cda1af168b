"""The command `canon` as a process: the guard around everything that a verb imports and does.

Exit codes: 0; 2 and one sentence on stderr for a mistake, or for what the machine refused (memory, a full disk);
130 for Ctrl-C at any moment, quietly; 141 where the reader of our output has gone; 1 for a bug of ours, whose
traceback goes to a file, as does that of a mistake in a user's system (2). Nothing is imported here that takes time, so
that the guard stands from the first moment.
"""

from __future__ import annotations

import os
import signal
import sys

_interrupted = False


def main() -> None:
    """The entry point of the installed command."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        sys.unraisablehook = _unraisable
        _mend_streams()
        code = run()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; only the interpreter's shutdown remains
    except KeyboardInterrupt:
        code = 130
    # An interrupt inside exec of a text (namedtuple, dataclass) leaves a mark by which Python would end as if killed.
    exec("")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        # Threads of torch's process group outlive it; one that asks for the interpreter while that shuts down aborts.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run() -> int:
    """Carries out the command line in sys.argv; returns the exit code."""
    try:
        code = _carry_out()
    except BaseException as error:
        code = _report(error)
    return _flushed(code)


def _mend_streams() -> None:
    """Opens streams that were closed before we began, and escapes text that the terminal cannot show, as in JSON."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _carry_out() -> int:
    import canon.kernels  # noqa: F401  refuses a CANON_KERNELS that is neither on nor off, whatever the verb
    from canon.cli import app, register_verbs

    register_verbs(sys.argv[1] if len(sys.argv) > 1 else "")
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    return int(app(standalone_mode=False) or 0)


def _report(error: BaseException) -> int:
    """Prints what ended the command, if a user needs to know; returns the exit code."""
    if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
        return 141  # typer makes an exit of it
    # An interrupt inside an import or a callback may come out as another error.
    if _interrupted or isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return 130
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    from canon.errors import Unforeseen, reason, sentence

    if text := _usage(error) or sentence(error):
        _say(text)
        return 2
    log = error.log if isinstance(error, Unforeseen) else _keep_traceback(error)
    cause = error.__cause__ if isinstance(error, Unforeseen) and error.__cause__ else error
    from canon.user_code import blame

    what, (place, surely) = f"{type(cause).__name__}: {reason(cause)}", blame(cause)
    if surely:
        _say(f"{place}: {what}; the traceback is in {log}.")
        return 2
    mistake = f", or a mistake in {place}" if place else ""
    _say(f"unexpected {what}. This is a bug in canon{mistake}: please report it with {log}.")
    return 1


def _usage(error: BaseException) -> str:
    """The sentence for a command line that typer could not read; "" for any other error."""
    from canon.errors import CanonError

    if isinstance(error, CanonError | OSError):
        return ""
    import typer

    # Its parent is click's UsageError: typer's own copy of click or the installed one, by version.
    usage: type[typer.BadParameter] = typer.BadParameter.__mro__[1]
    if not isinstance(error, usage):
        return ""
    asked = error.ctx.command_path if error.ctx else "canon"
    text = error.format_message().rstrip(".")
    return f"{text} See {asked} --help." if text.endswith("?") else f"{text}; see {asked} --help."


def _say(text: str) -> None:
    """Prints one line, even if a name in it has a line's end, a terminal's commands or half a character."""
    line = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in f"canon: {text}")
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # nobody reads it


def _flushed(code: int) -> int:
    """The exit code, once what was printed has gone out: only then is it known that it could."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as failure:
        # What could not go out is dropped, or the interpreter would complain about it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failure, BrokenPipeError):
            return code or 141
        if not code:
            from canon.errors import reason

            _say(f"The output cannot be written: {reason(failure)}.")
        return code or 2
    return code


def _keep_traceback(error: BaseException) -> str:
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="canon-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{' '.join(sys.argv)}\n{text}")
    except OSError:
        _say(text)  # there is no place left for it but the screen
        return "the line above"
    return path


def _interrupt(_number: int, _frame: object) -> None:
    global _interrupted
    if _interrupted:
        os._exit(130)  # the second interrupt: do not wait for what holds the first one back
    _interrupted = True
    raise KeyboardInterrupt


def _unraisable(problem: sys.UnraisableHookArgs) -> None:
    """Python prints a traceback for an interrupt inside a callback or finaliser and goes on; we exit quietly."""
    if isinstance(problem.exc_value, KeyboardInterrupt):
        os._exit(130)
    sys.__unraisablehook__(problem)
