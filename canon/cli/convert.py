"""canon convert SRC DST --to FORMAT"""

from __future__ import annotations

from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canon.cli.neighbors import ERRORS_HELP, PARTIAL_HELP
from canon.cli.options import Json, Sets, changes_of, print_json
from canon.errors import CanonError, border
from canon.interop.formats import FORMATS

if TYPE_CHECKING:
    from canon.use.export import Converted

_NETWORKS, _VECTORS = (
    ", ".join(known.name for known in FORMATS if known.writes and content in known.holds)
    for content in ("weights", "vectors")
)


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="A run, a file of weights or word vectors, a Hugging Face folder, or SYSTEM:preset."
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The file, folder or run directory to write.")],
    to: Annotated[str, typer.Option(help=f"Of networks {_NETWORKS}; of word vectors {_VECTORS}.")] = "",
    system: Annotated[str, typer.Option(help="Of a file: the SYSTEM:preset it must be; default as its keys say.")] = "",
    set_: Sets = [],  # noqa: B006  typer reads it and never changes it
    classes: Annotated[Path | None, typer.Option(help="Of a file: names of its classes, one on each line.")] = None,
    mean: Annotated[str, typer.Option(help="Of a file: mean of pixels, 0 to 255, as in 124,116,104.")] = "",
    std: Annotated[str, typer.Option(help="Of a file: their standard deviation; default both ImageNet's.")] = "",
    unscaled: Annotated[bool, typer.Option("--unscaled", help="ONNX without (pixel - mean) / std inside.")] = False,
    dtype: Annotated[
        str, typer.Option(help="Of word vectors: float32 or float16, in safetensors and numpy.")
    ] = "float32",
    limit: Annotated[int, typer.Option(min=0, help="Of word vectors: the first so many only.")] = 0,
    errors: Annotated[str, typer.Option(help=ERRORS_HELP)] = "strict",
    partial: Annotated[bool, typer.Option("--partial", help=PARTIAL_HELP)] = False,
    json: Json = False,
) -> None:
    """Convert weights and word vectors to and from the formats of other projects.

    Examples:
    canon convert resnet50.pth runs/resnet50 --to canon --classes names.txt
    canon convert runs/flowers flowers.safetensors --to timm
    canon convert runs/flowers flowers.onnx --to onnx
    canon convert bert-base-uncased runs/bert
    canon convert runs/bert bert-folder --to huggingface
    canon convert runs/elmo elmo-folder --to elmo
    canon convert runs/words words.bin --to word2vec
    canon convert glove.6B.100d.txt glove.safetensors --to safetensors --dtype float16
    """
    from canon.interop.formats import FileChoices
    from canon.interop.vectors import VectorOptions
    from canon.use import export

    settings = {}
    for key, value in changes_of(set_).items():
        section, _, name = key.partition(".")
        if section != "system" or not name:
            raise CanonError(
                f"canon convert takes only system settings, as in --set system.shape=[3,64,64]; got {key}."
            )
        settings[name] = value
    pixels = _numbers("--mean", mean), _numbers("--std", std)
    options = VectorOptions(None, limit, dtype, errors, partial)
    choices = FileChoices(system, settings, _names(classes), *pixels, vectors=options, scaled=not unscaled)
    converted = export.convert(source, target, to, choices)
    if json:
        print_json(converted.to_json())
        return
    if isinstance(converted, export.Converted):
        _print_network(converted)
    else:
        written = converted.written
        print("\n".join([f"{written.kind}: {written.words:,} words of {written.dim} numbers", *written.notes]))
    print(converted.target)


def _print_network(converted: Converted) -> None:
    network, origin = converted.network, converted.network.origin
    sizes = f": {len(network.schema.classes)} classes, images of {'×'.join(map(str, network.schema.shape))}"
    print(f"{network.name}{sizes if len(network.schema.shape) == 3 else ''}")
    if origin is not None and origin.report is not None:
        print(f"{len(origin.report.used)} tensors of {network.source} used, 0 missing, 0 unexpected")
        if origin.left_out:
            print(f"left out: {', '.join(origin.left_out)}")
        if origin.made_new:
            print(f"newly initialised: {', '.join(origin.made_new)}")
    if converted.written.difference is not None:
        print(f"onnxruntime and torch differ by {converted.written.difference:.1e} at most")


def _names(path: Path | None) -> tuple[str, ...]:
    if path is None:
        return ()
    if not path.is_file():
        raise CanonError(f"--classes: there is no file {path}.")
    with border(f"--classes: {path}"):
        return tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        numbers = (nan,)
    if not all(map(isfinite, numbers)):
        raise CanonError(f'{option} takes numbers with commas between, as in 124,116,104; got "{text}".')
    return numbers
