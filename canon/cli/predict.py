"""canon predict RUN [FILE … | TEXT … | -] [--format table|csv|jsonl] [--out FILE]"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from canon.cli.options import AsText, Json, Threshold, set_threshold
from canon.cli.streams import STANDARD_INPUT, Format, Out, format_of, standard_input_as_file, with_piped, write_rows


def predict(
    run: Annotated[str, typer.Argument(help="A run directory.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables, images or folders of images, or texts, as the run was trained on; without them, or with -, "
            "standard input."
        ),
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="How many classes to give for each; default 1.")] = None,
    threshold: Threshold = None,
    as_text: AsText = False,
    format: Format = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Predict with a run's best weights; one line per example.

    Examples:
    canon predict runs/digits-mlp digits.csv --top 3
    canon predict runs/reviews "A film to remember"
    cat reviews.txt | canon predict runs/reviews - --out predicted.csv
    """
    from canon.data import encodings
    from canon.use.model import load

    form = format_of(format, out, json)
    inputs = with_piped(sources, f"a file or a text, as in canon predict {run} FILE")
    model = load(run)
    if threshold is not None:
        set_threshold(model.task, threshold)
    count = top or (1 if threshold is None else len(model.schema.classes))
    with ExitStack() as stack:
        piped = ""
        if "-" in inputs and not as_text:
            ending = encodings.find(model.schema.encoding).piped_ending
            piped = str(stack.enter_context(standard_input_as_file(ending)))
        rows = model.predict([piped if piped and name == "-" else name for name in inputs], count, as_text)
    for row in rows:
        row["source"] = row["source"].replace(piped, STANDARD_INPUT) if piped else row["source"]
    write_rows(rows, form, out)
    if out is not None:
        print(out)
