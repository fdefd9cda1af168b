"""canon translate RUN [TEXT …] [--input FILE] [--output FILE]"""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from canon.cli.options import AsText, Json
from canon.errors import CanonError
from canon.storage import writing

if TYPE_CHECKING:
    from canon.use.translate import Line, Translation

_EPILOG = """Examples:

canon translate runs/spelling canon

canon translate runs/german --input test.en --output test.out --reference test.de --beam 5

cat test.en | canon translate runs/german --n-best 3 --json"""


def translate(
    run: Annotated[str, typer.Argument(help="The run directory of a system that turns one text into another.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts to translate; none, or -: lines of standard input."),
    ] = None,
    input: Annotated[Path | None, typer.Option(help="A file with one sentence per line.")] = None,
    output: Annotated[Path | None, typer.Option(help="The file to write, once all is done; default here.")] = None,
    beam: Annotated[int, typer.Option(min=0, help="Hypotheses kept open; 1 greedy, 0 as the run says.")] = 0,
    length_penalty: Annotated[
        float | None, typer.Option(help="α of log-probability / ((5 + length) / 6)^α; default as the run says.")
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="How many translations of each, best first.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each translation.")] = False,
    reference: Annotated[
        Path | None, typer.Option(help="Right translations, one per line: prints sacreBLEU with its signature.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sentences that are decoded together.")] = 64,
    as_text: AsText = False,
    json: Json = False,
) -> None:
    """Translate texts, a file or standard input; one line out for each line in."""
    from canon.data.paths import text_of
    from canon.data.progress import bar
    from canon.use import translate as use
    from canon.use.model import load

    _check(texts, input, output, reference)
    if texts and texts != ["-"]:
        texts = [text_of(one, as_text, "give it with --input, or ") for one in texts]
    references = [text for _, text in use.read_lines(reference)] if reference else []
    translator = use.Translator(load(run), beam, length_penalty, n_best, batch)
    lines, total, waits = _lines(texts, input)
    hypotheses: list[str] = []
    shown = output is not None or not sys.stdout.isatty()
    with _writing(output) as write, bar("translating", total, enabled=shown) as progress:
        try:
            # At a terminal every line is answered as it comes.
            for source, found in translator.stream(lines, window=1 if waits else 0):
                for line in _told(source, found, n_best, scores, json):
                    write(line)
                if reference:
                    hypotheses.append(found[0].text)
                progress.advance()
        except KeyboardInterrupt:
            if output is not None:
                print(f"Stopped after {translator.lines:,} lines; {output} is not written.", file=sys.stderr)
            raise
        finally:
            if translator.note():
                print(translator.note(), file=sys.stderr)
    if reference:
        found_scores = use.score(translator.model, hypotheses, references, str(reference))
        _print_scores(found_scores, json, sys.stdout if output or json else sys.stderr)


def _check(texts: list[str] | None, input: Path | None, output: Path | None, reference: Path | None) -> None:
    if input is not None and texts:
        raise CanonError("Give texts or --input, not both.")
    for path in (input, reference):
        if path is not None and not path.is_file():
            raise CanonError(f"There is no file {path}.")
        if path is not None and output is not None and output.exists() and path.samefile(output):
            raise CanonError(f"{output} is read from; write to another file.")


def _lines(texts: list[str] | None, input: Path | None) -> tuple[Iterator[Line], int, bool]:
    """The lines, how many there are (0 where nobody knows), and whether somebody types them."""
    from canon.use.translate import lines_of, read_lines

    if input is not None:
        # A line that cannot be read is reported before hours of work, not after them.
        return read_lines(input), sum(1 for _ in read_lines(input)), False
    if texts and texts != ["-"]:
        return ((f"Text {number}", text) for number, text in enumerate(texts, start=1)), len(texts), False
    return lines_of(sys.stdin.buffer, "Standard input"), 0, sys.stdin.isatty()


@contextmanager
def _writing(output: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes a line: at once where it is printed; a file is there when all its lines are."""
    if output is None:
        yield lambda line: print(line, flush=True)
        return
    with writing(output) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda line: print(line, file=file)


def _told(source: str, found: list[Translation], n_best: int, scores: bool, json: bool) -> Iterator[str]:
    if json:
        yield json_format.dumps({"source": source, "translations": [asdict(one) for one in found]}, ensure_ascii=False)
        return
    for rank, one in enumerate(found, start=1):
        rank_and_score = [str(rank)] * (n_best > 1) + [f"{one.score:.4f}"] * (scores or n_best > 1)
        yield "\t".join([*rank_and_score, one.text])


def _print_scores(scores: dict[str, float | str], json: bool, file: IO[str]) -> None:
    if json:
        print(json_format.dumps(scores), file=file)
    elif "bleu" in scores:
        print(f"BLEU = {scores['bleu']:.2f} ({scores['signature']})", file=file)
    else:
        print(", ".join(f"{name.upper()} = {value:.4f}" for name, value in scores.items()), file=file)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(translate)
