"""canon convert SRC DST --to torchvision|timm|huggingface|elmo|canon|onnx|word2vec|word2vec-text|glove|…"""

from __future__ import annotations

from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from canon.cli.neighbors import ERRORS_HELP, PARTIAL_HELP
from canon.cli.options import Json, Sets, changes_of, print_json
from canon.errors import CanonError, border

if TYPE_CHECKING:
    from canon.use.export import Converted
    from canon.use.export_words import ConvertedWords

_EPILOG = """Examples:

canon convert resnet50.pth runs/resnet50 --to canon --classes names.txt

canon convert runs/flowers flowers.safetensors --to timm

canon convert runs/flowers flowers.onnx --to onnx

canon convert bert-base-uncased runs/bert

canon convert runs/bert bert-folder --to huggingface

canon convert runs/elmo elmo-folder --to elmo

canon convert runs/words words.bin --to word2vec

canon convert glove.6B.100d.txt glove.safetensors --to safetensors --dtype float16"""
_VECTORS = "word2vec, word2vec-text, glove, fasttext-vec, fasttext-bin, safetensors or numpy"


def convert(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC", help="A run, a file of weights or word vectors, a Hugging Face folder, or SYSTEM:preset."
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The file, folder or run directory to write.")],
    to: Annotated[
        str,
        typer.Option(help=f"torchvision, timm, huggingface, elmo, canon or onnx; of word vectors canon, {_VECTORS}."),
    ] = "",
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
    """Convert weights to and from torchvision, timm and Hugging Face, word vectors of all formats; to ELMo's, ONNX."""
    from canon.use import export

    found = export.convert(
        source,
        target,
        to,
        system=system,
        changes=changes_of(set_),
        classes=_names(classes),
        mean=_numbers("--mean", mean),
        std=_numbers("--std", std),
        scaled=not unscaled,
        of_words=export.WordOptions(limit, dtype, errors, partial),
    )
    if json:
        print_json(found.to_json())
    elif isinstance(found, export.Converted):
        _print(found)
    else:
        _print_words(found)


def _print_words(found: ConvertedWords) -> None:
    print(f"{found.kind}: {found.words:,} words of {found.dim} numbers")
    for note in found.notes:
        print(note)
    print(found.target)


def _print(found: Converted) -> None:
    network, report = found.network, found.network.report
    sizes = f"{len(network.schema.classes)} classes, images of {'×'.join(map(str, network.schema.shape))}"
    told = f"{network.name}: {sizes}" if len(network.schema.shape) == 3 else network.name
    print(told)
    if report is not None:
        print(f"{len(report.used)} tensors of {network.source} used, 0 missing, 0 unexpected")
        if report.left_out:
            print(f"left out: {', '.join(report.left_out)}")
    if network.folder is not None and network.folder.found.anew:
        print(f"made anew: {', '.join(network.folder.found.anew)}")
    if found.difference is not None:
        print(f"onnxruntime and torch differ by {found.difference:.1e} at most")
    print(found.target)


def _names(path: Path | None) -> list[str]:
    if path is None:
        return []
    if not path.is_file():
        raise CanonError(f"--classes: there is no file {path}.")
    with border(f"--classes: {path}"):
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _numbers(option: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        numbers = [nan]
    if not all(map(isfinite, numbers)):
        raise CanonError(f'{option} takes numbers with commas between, as in 124,116,104; got "{text}".')
    return numbers


def register(app: typer.Typer) -> None:
    app.command(epilog=_EPILOG)(convert)
