"""What `import canon` offers: create, train, load, and the lists of systems, recipes and data sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canon import registry
from canon.config import Table
from canon.data.catalogue import CATALOGUE
from canon.data.catalogue.sets import Dataset
from canon.errors import CanonError, border, sentence, unknown
from canon.registry import System
from canon.registry.recipes import RecipeRecord, recipe_records

if TYPE_CHECKING:
    from canon.training.run import Run
    from canon.use.model import Model
    from canon.use.pipeline.pipeline import Pipeline
    from canon.use.search.folder import VectorFolder
    from canon.use.vectors import Vectors


def create(name: str, **changes: Any) -> Any:
    """The network (or learner) that `name` means, as in create("mlp:tiny", num_classes=3)."""
    from canon.systems.building import build

    system, preset = registry.find(_text("name", name))
    config = system.configure(preset, changes)
    with border(f"{name} with these settings", "cannot be made"):
        return build(system, config)


def train(
    recipe: str = "",
    *,
    data: str | Path = "",
    out: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    **changes: Table,
) -> Run:
    """Trains a recipe; changes are tables by section, as in train("mlp", train={"epochs": 5})."""
    for section, table in changes.items():
        if not isinstance(table, dict):
            raise CanonError(f'{section} must be a table of settings, as in train={{"epochs": 5}}, got {table!r}.')
    flat = {f"{section}.{key}": value for section, table in changes.items() for key, value in table.items()}
    out = out if out is None else _path("out", out)
    source = str(_path("data", data)) if data else ""
    with _in_sentences():
        run = train_run(_text("recipe", recipe), data=source, out=out, resume=resume, changes=flat, quiet=quiet)
    assert run is not None, "canon.train is for one process; under torchrun use python -m canon train"
    return run


def train_run(
    recipe: str, *, data: str, out: str | Path | None, resume: bool, changes: Table, quiet: bool
) -> Run | None:
    """Trains and writes report.html; None on the helper processes of torchrun."""
    import os

    from canon.report.run import write_report
    from canon.training.trainer import train_and_keep

    run, read = train_and_keep(recipe, data, out, resume, changes, quiet)
    if os.environ.get("RANK", "0") != "0":
        return None
    write_report(run, read)
    return run


def build(
    recipe: str, *, out: str | Path | None = None, resume: bool = False, quiet: bool = False, **changes: Any
) -> Pipeline:
    """Builds a pipeline of recalls, ranker and later steps, as build("pipeline/pydocs"); changes replace sections."""
    from canon.use.pipeline.build import build as build_pipeline
    from canon.use.pipeline.pipeline import Pipeline

    with _in_sentences():
        path, _ = build_pipeline(_text("recipe", recipe), out, resume, changes, quiet)
        return Pipeline.open(path)


def load(path: str | Path, **options: Any) -> Model | Vectors:
    """A run, which can predict, evaluate and more; or the vectors of another tool's file of word vectors.

    options: of a file, those of canon.use.vectors.Vectors.open, as in load("glove.txt", limit=100_000).
    """
    path = _path("path", path)
    with _in_sentences():
        if path.expanduser().is_file():
            from canon.use.vectors import Vectors

            for name in options:
                if name not in (known := signature(Vectors.open).parameters):
                    raise unknown("option", name, known)
            return Vectors.open(path, **options)
        if options:
            raise CanonError(f"{path} is not a file of word vectors, which alone has the option {next(iter(options))}.")
        from canon.use.model import load as load_model

        return load_model(path)


def encode(model: str | Path, files: Any, out: str | Path, **options: Any) -> VectorFolder:
    """Vectors of the texts in files, in the folder `out`, as encode("runs/embed", "corpus.txt", "vectors").

    options: add, precision, pooling, prompt, column and say, as in canon.use.search.folder.encode."""
    from canon.use.search import folder

    for name in options:
        if name not in (known := signature(folder.encode).parameters):
            raise unknown("option", name, known)
    listed = [files] if isinstance(files, str | PathLike) else list(files)
    with _in_sentences():
        return folder.encode(
            _path("model", model), [_path("files", file) for file in listed], _path("out", out), **options
        )


def search(path: str | Path, queries: Any, top: int = 10, **options: Any) -> list[list[dict[str, Any]]]:
    """For each query the best rows of a folder of vectors, as search("vectors", "How are volcanoes formed?"); or the
    answers of a pipeline's run.

    options: those of canon.use.search.folder.VectorFolder.search, and model, where the folder's model is now; or those
    of canon.use.pipeline.pipeline.Pipeline.search."""
    from canon.use.pipeline.pipeline import Pipeline
    from canon.use.pipeline.settings import is_pipeline_run
    from canon.use.search.folder import VectorFolder

    folder = _path("path", path)
    kind: type[Pipeline] | type[VectorFolder] = Pipeline if is_pipeline_run(folder) else VectorFolder
    where = {"model": options.pop("model", "")} if kind is VectorFolder else {}
    for name in options:
        if name not in (known := signature(kind.search).parameters):
            raise unknown("option", name, known)
    with _in_sentences():
        return kind.open(folder, **where).search([queries] if isinstance(queries, str) else queries, top, **options)


@contextmanager
def _in_sentences() -> Iterator[None]:
    """Python callers too get a CanonError for what the machine or the input refuses; a bug keeps its error."""
    try:
        yield
    except CanonError:
        raise
    except Exception as error:
        if not (message := sentence(error)):
            raise
        raise CanonError(message) from error


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise CanonError(f"{what} must be a text, got {value!r}.")
    return value


def _path(what: str, value: object) -> Path:
    if not isinstance(value, str | PathLike):
        raise CanonError(f"{what} must be a path, got {value!r}.")
    return Path(value)


def list_systems() -> list[System]:
    """The record of every system: name, title, paper, presets, what it reads and predicts."""
    return list(registry.SYSTEMS)


def list_recipes() -> list[RecipeRecord]:
    """The record of every recipe that comes with canon: name, system, data, settings, expected scores."""
    return recipe_records()


def list_datasets() -> list[Dataset]:
    """The record of every named data set: name, title, kind, size, source, licence."""
    return list(CATALOGUE.values())
