"""canon generate RUN [--count N] [--seed N] [--out FILE] · canon generate RUN [PROMPT … | FILE | -] [--length N] …"""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from canon.cli.options import AsText, Json, print_result
from canon.cli.streams import output
from canon.errors import CanonError, border

_SAMPLES = 64  # of a generator, by default
_LENGTH = 100  # tokens of a language model, by default


def generate(
    run: Annotated[str, typer.Argument(help="The run directory of a generator or a language model.")],
    prompt: Annotated[
        list[str] | None,
        typer.Argument(help="Language models: the text to continue, a file that holds it, or - for standard input."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help=f"How many samples; default {_SAMPLES}, of a language model 1.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the noise.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .png for images, a .csv for a table; default samples.png or samples.csv here. Text is printed "
            "without it."
        ),
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help=f"Language models: how many tokens; default {_LENGTH}.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="Language models: divides the logits; default 1, 0 takes the most likely token."),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Language models: sample only from the k most likely tokens.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Language models: sample only from the most likely tokens with total p.")
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="Language models: end before this text; may be given several times."),
    ] = None,
    as_text: AsText = False,
    json: Json = False,
) -> None:
    """Draw samples from a run's best generator, or continue a text with its best language model.

    Examples:
    canon generate runs/digits-dcgan --count 100 --out digits.png
    canon generate runs/ring-gan --count 1000 --seed 1 --out ring.csv
    canon generate runs/novels "It was a" --length 200 --temperature 0.8 --top-p 0.95
    canon generate runs/code "def " --temperature 0 --stop "\\n\\n"
    canon generate runs/novels beginning.txt --count 3 --out stories.txt
    """
    from canon.use.model import load

    model = load(run)
    stops = [word.replace("\\n", "\n") for word in stop] if stop else None
    options: dict[str, Any] = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    options = {name: value for name, value in {**options, "stop": stops}.items() if value is not None}
    from canon.use.language import LanguageRun, is_language_model

    if is_language_model(model):
        from canon.use.complete import Completion, complete, remark

        prompts = [_prompt(one, as_text) for one in prompt or [""]]
        for note in filter(None, dict.fromkeys(remark(model, one, length or _LENGTH) for one in prompts)):
            print(note, file=sys.stderr)
        live = sys.stdout.isatty() and not json and out is None and (count or 1) * len(prompts) == 1
        if live:  # prints the text as it comes
            options["on_text"] = lambda text: print(text, end="", flush=True)
        texts: list[Completion] = []
        for one in prompts:
            texts += complete(model, one, **{"length": _LENGTH, **options}, count=count or 1, seed=seed)
        with output(out) as write:
            records = json_format.dumps([asdict(one) for one in texts], ensure_ascii=False, indent=1)
            write(records if json else "" if live else "\n\n".join(one.text for one in texts))
        if out is not None:
            print(out)
        return
    from canon.data.encodings.passages import PassageSchema
    from canon.use import generate as use

    if isinstance(model.schema, PassageSchema):
        LanguageRun(model)  # raises the error that says what this system does instead
    if prompt or options:
        wrong = "PROMPT" if prompt else f"--{next(iter(options)).replace('_', '-')}"
        raise CanonError(f"{run} is not a language model; leave out {wrong}.")
    path = use.write_samples(model, use.generate(model, count or _SAMPLES, seed), out)
    print_result(json, {"samples": str(path), "count": count or _SAMPLES, "seed": seed}, path)


def _prompt(argument: str, as_text: bool) -> str:
    """The text itself, or all of a file or of standard input, less the end of its last line."""
    from canon.data.formats.files import read_text
    from canon.data.paths import file_of

    if argument == "-" and not as_text:
        with border("Standard input"):
            return sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n")
    path = file_of(argument, as_text)
    return argument if path is None else read_text(path).removesuffix("\n")
