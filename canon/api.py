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
    """The network of a system, untrained, as create("mlp:tiny", shape=(13,), num_classes=3): a torch module, or the
    learner of a system that learns in its own way.

    name: a system with or without a preset: "bert", "resnet:18". `list_systems()` has them all.
    changes: settings of the system, in place of the preset's; its page lists them.

    A CanonError names a system or a setting that is unknown, and the nearest one.
    """
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
    """Trains, evaluates and writes a run directory, as train("digits-mlp", train={"epochs": 5}).

    recipe: the name or file of a recipe, the name of a system, or data alone; "" is the demo where there is no data.
    data: a path or a named set, in place of the recipe's.
    out: the run directory; by default runs/ and the recipe's name. One that exists is refused without `resume`.
    resume: continues a run that was interrupted; with a larger budget, one that had ended.
    quiet: prints nothing.
    changes: settings by section: train, data, system, objective, optimizer, each a dict.

    Returns the Run: `run.result["scores"]["test"]` has the scores. A CanonError is one sentence that says which
    setting, file or line is wrong and what is accepted.
    """
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
    """Builds a search engine of recalls, a ranker and later steps, as build("pipeline/pydocs").

    recipe: a pipeline's recipe, by name or file.
    out: the run directory; by default runs/ and the recipe's name.
    resume: continues a build that was interrupted.
    quiet: prints nothing.
    changes: sections of the recipe that replace its own.
    """
    from canon.use.pipeline.build import build as build_pipeline
    from canon.use.pipeline.pipeline import Pipeline

    with _in_sentences():
        path, _ = build_pipeline(_text("recipe", recipe), out, resume, changes, quiet)
        return Pipeline.open(path)


def load(path: str | Path, **options: Any) -> Model | Vectors:
    """A trained model, as load("runs/demo"); of a file of word vectors, the vectors, as load("glove.txt").

    path: a run directory, a folder in Hugging Face's format, or a file of word vectors by any tool.
    options: of a file alone: words, limit, dtype, errors, partial and unknown, as Vectors.open has them.
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
    """Writes a vector for each text of files to a folder, as encode("runs/embed", "corpus.txt", "vectors").

    model: a run of a system that encodes texts, or a folder in Hugging Face's format.
    files: a path or several: text with one text in each line, a table, JSON lines.
    out: the folder of vectors; a process that was killed is continued by the same call.
    options: add (to the rows of the folder), precision, pooling, prompt, column, and say, which gets the messages.
    """
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
    """The best rows for each query, as search("vectors", "How are volcanoes formed?").

    path: a folder that `encode` wrote, or the run of a pipeline.
    queries: a text, or a list of them.
    top: rows for each query.
    options: those of VectorFolder.search, and model, where the folder's model is now; or those of Pipeline.search.

    Returns a list for each query, of rows as dicts with rank, score and the columns of the file.
    """
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
