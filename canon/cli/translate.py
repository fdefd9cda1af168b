"""canon translate RUN [TEXT … | FILE … | -] [--out FILE]"""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from canon.cli.options import AsText, Json
from canon.cli.streams import STANDARD_INPUT, output
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.use.translate import Line, Translation


def translate(
    run: Annotated[str, typer.Argument(help="The run directory of a system that turns one text into another.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Texts to translate, or files with one on each line; without them, or with -, lines of standard "
            "input.",
        ),
    ] = None,
    input: Annotated[Path | None, typer.Option(help="The same as a file among the arguments.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "--output", help="The file to write when all is done; default: print.")
    ] = None,
    beam: Annotated[int, typer.Option(min=0, help="Hypotheses kept; 1 is greedy, 0 the run's own setting.")] = 0,
    length_penalty: Annotated[
        float | None, typer.Option(help="α of log-probability / ((5 + length) / 6)^α; default the run's own.")
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, help="How many translations of each line, best first.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score before each translation.")] = False,
    reference: Annotated[
        Path | None, typer.Option(help="Correct translations, one per line: prints sacreBLEU with its signature.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sentences that are decoded together.")] = 64,
    as_text: AsText = False,
    json: Json = False,
) -> None:
    """Translate texts, a file or standard input; one line out for each line in.

    Examples:
    canon translate runs/spelling canon
    canon translate runs/german test.en --out test.out --reference test.de --beam 5
    cat test.en | canon translate runs/german --n-best 3 --json
    """
    from canon.data.progress import bar
    from canon.use import translate as use
    from canon.use.model import load

    if input is not None and texts:
        raise CanonError("Give texts or --input, not both.")
    inputs: list[Given] = [input] if input is not None else _given(texts or ["-"], as_text)
    _check([one for one in (*inputs, reference) if isinstance(one, Path)], out)
    references = [text for _, text in use.read_lines(reference)] if reference else []
    translator = use.Translator(load(run), beam, length_penalty, n_best, batch)
    # A line that cannot be read is reported before hours of work, not after them.
    total = 0 if None in inputs else sum(1 for _ in _lines(inputs))
    typed = None in inputs and sys.stdin.isatty()
    hypotheses: list[str] = []
    shown = out is not None or not sys.stdout.isatty()
    with output(out) as write, bar("translating", total, enabled=shown) as progress:
        try:
            # At a terminal every line is answered as it comes.
            for source, translations in translator.stream(_lines(inputs), window=1 if typed else 0):
                for line in _formatted(source, translations, n_best, scores, json):
                    write(line)
                if reference:
                    hypotheses.append(translations[0].text)
                progress.advance()
        except KeyboardInterrupt:
            if out is not None:
                print(f"Stopped after {translator.lines:,} lines; {out} was not written.", file=sys.stderr)
            raise
        finally:
            if note := translator.note():
                print(note, file=sys.stderr)
    if reference:
        values = use.score(translator.model, hypotheses, references, str(reference))
        _print_scores(values, json, sys.stdout if out or json else sys.stderr)


Given = str | Path | None  # a text, a file, standard input


def _given(arguments: Sequence[str], as_text: bool) -> list[Given]:
    from canon.data.paths import file_of

    return [None if one == "-" and not as_text else file_of(one, as_text) or one for one in arguments]


def _check(files: Sequence[Path], out: Path | None) -> None:
    for path in files:
        if not path.is_file():
            raise CanonError(f"There is no file {path}.")
        if out is not None and out.exists() and path.samefile(out):
            raise CanonError(f"{out} is also an input; write to another file.")


def _lines(inputs: Sequence[Given]) -> Iterator[Line]:
    """The lines of files and of standard input, and texts."""
    from canon.use.translate import lines_of, read_lines

    for number, one in enumerate(inputs, start=1):
        if isinstance(one, Path):
            yield from read_lines(one)
        elif one is None:
            yield from lines_of(sys.stdin.buffer, STANDARD_INPUT.capitalize())
        else:
            yield f"Text {number}", one


def _formatted(source: str, translations: list[Translation], n_best: int, scores: bool, json: bool) -> Iterator[str]:
    if json:
        yield json_format.dumps(
            {"source": source, "translations": [asdict(one) for one in translations]}, ensure_ascii=False
        )
        return
    for rank, one in enumerate(translations, start=1):
        rank_and_score = [str(rank)] * (n_best > 1) + [f"{one.score:.4f}"] * (scores or n_best > 1)
        yield "\t".join([*rank_and_score, one.text])


def _print_scores(scores: dict[str, float | str], json: bool, file: IO[str]) -> None:
    if json:
        print(json_format.dumps(scores), file=file)
    elif "bleu" in scores:
        print(f"BLEU = {scores['bleu']:.2f} ({scores['signature']})", file=file)
    else:
        print(", ".join(f"{name.upper()} = {value:.4f}" for name, value in scores.items()), file=file)
