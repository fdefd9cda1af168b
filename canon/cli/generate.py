"""canon generate RUN [--count N] [--seed N] [--out FILE] · canon generate RUN [PROMPT] [--length N] …"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from canon.cli.options import AsText, Json, print_json
from canon.errors import CanonError

_EPILOG = """Examples:

canon generate runs/digits-dcgan --count 100 --out digits.png

canon generate runs/ring-gan --count 1000 --seed 1 --out ring.csv

canon generate runs/novels "It was a" --length 200 --temperature 0.8 --top-p 0.95

canon generate runs/code "def " --temperature 0 --stop "\\n\\n"
"""
_SAMPLES = 64  # of a generator, where --count does not say
_LENGTH = 100  # tokens of a language model, where --length does not say


def generate(
    run: Annotated[str, typer.Argument(help="The run directory of a generator or a language model.")],
    prompt: Annotated[str | None, typer.Argument(help="Language models: the text to go on with.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help=f"How many samples; default {_SAMPLES}, of a language model 1.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the noise.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="A .png for images, a .csv for a table; default samples.png or samples.csv here."),
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help=f"Language models: how many tokens; default {_LENGTH}.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="Language models: logits are divided by it; default 1, 0 takes the likeliest."),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Language models: draw from the k likeliest tokens only.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Language models: draw from the likeliest that hold a share p only.")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="Language models: end before this text; may be given several times."),
    ] = None,
    as_text: AsText = False,
    json: Json = False,
) -> None:
    """Draw samples from a run's best generator, or go on with a text by its best language model."""
    from canon.use.language import is_language_model
    from canon.use.model import load

    model = load(run)
    options: dict[str, Any] = {
        "length": length,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "stop": [word.replace("\\n", "\n") for word in stop] if stop else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if is_language_model(model):
        from canon.data.paths import text_of
        from canon.use.complete import complete, remark

        prompt = text_of(prompt or "", as_text)
        if out is not None:
            raise CanonError(f"{run} is a language model, whose text is printed; leave out --out.")
        if told := remark(model, prompt, length or _LENGTH):
            print(told, file=sys.stderr)
        shown = sys.stdout.isatty() and not json and (count or 1) == 1
        if shown:  # as it comes
            given["tell"] = lambda text: print(text, end="", flush=True)
        found = complete(model, prompt, **{"length": _LENGTH, **given}, count=count or 1, seed=seed)
        if json:
            print_json([asdict(one) for one in found])
        else:
            print("" if shown else "\n\n".join(one.text for one in found))
        return
    from canon.data.encodings.passages import PassageSchema

    if isinstance(model.schema, PassageSchema):
        from canon.use.language import Language

        Language(model)  # says what it does instead
    from canon.use import generate as use

    if prompt is not None or given:
        wrong = "PROMPT" if prompt is not None else f"--{next(iter(given)).replace('_', '-')}"
        raise CanonError(f"{run} is no language model; leave out {wrong}.")
    path = use.write_samples(model, use.generate(model, count or _SAMPLES, seed), out)
    if json:
        print_json({"samples": str(path), "count": count or _SAMPLES, "seed": seed})
    else:
        print(path)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(generate)
