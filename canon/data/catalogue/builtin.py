"""Sets that need no download: scikit-learn's small tables and digits, mixtures of Gaussians, the running Python's
documentation and source, and its docstrings by module."""

from __future__ import annotations

import ast
import gzip
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from canon.data.catalogue import cmudict
from canon.data.catalogue.synthetic import MIXTURES, read_mixture
from canon.data.formats.tables import Table
from canon.data.progress import bar
from canon.data.source import ImageSource, Pictures, Source, TableSource, array_record

# name -> (loader in sklearn.datasets, its arguments, name of the label's column)
TABLES = {
    "iris": ("load_iris", {}, "species"),
    "wine": ("load_wine", {}, "cultivar"),
    "breast-cancer": ("load_breast_cancer", {}, "diagnosis"),
    "diabetes": ("load_diabetes", {"scaled": False}, "progression"),
}

# Of the standard library of every Python that canon runs on, on every system: those with the most docstrings.
MODULES = (
    "_pydecimal asyncio email encodings http importlib inspect ipaddress logging mailbox multiprocessing tarfile "
    "unittest urllib xml"
)
LEAST_WORDS = 5  # of a docstring that can be classified


def read_builtin(name: str) -> Source:
    if name == "digits":
        return _digits()
    if name in TABLES:
        return _table(name)
    if name in MIXTURES:
        return read_mixture(name)
    if name == "cmudict":
        parts, record, notes = cmudict.read_cmudict(), cmudict.cmudict_record(), cmudict.cmudict_notes()
        return Source(name, dict(parts), files=(record,), notes=notes, tokenizers=("char", "split"))
    if name == "python-modules":
        return _docstrings_by_module()
    documents = list(python_docs() if name == "python-docs" else python_source())
    version = ".".join(map(str, sys.version_info[:3]))
    record = array_record(f"Python {version} {name}", np.frombuffer("\0".join(documents).encode(), dtype=np.uint8))
    return Source(name, {"train": documents}, (record,), origin={"python": version})


def _digits() -> Source:
    """Of scikit-learn's file itself, as its load_digits reads it: importing scikit-learn takes as long as torch."""
    folder = Path(str(find_spec("sklearn").origin)).parent  # type: ignore[union-attr]
    with gzip.open(folder / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.int64)
    images, labels = rows[:, :-1], rows[:, -1]
    inputs = images.reshape(-1, 1, 8, 8).astype(np.uint8)  # 0 to 16
    return ImageSource(
        "digits",
        {"train": Pictures(inputs, labels.astype(np.int64))},
        classes=tuple("0123456789"),
        files=(array_record("scikit-learn digits", inputs, labels.astype(np.int64)),),
        test=0.2,
        white=16,
    )


def _table(name: str) -> Source:
    from sklearn import datasets

    loader, arguments, label = TABLES[name]
    bunch = getattr(datasets, loader)(**arguments)
    cells = {column: bunch.data[:, index] for index, column in enumerate(bunch.feature_names)}
    names = getattr(bunch, "target_names", None)
    cells[label] = (
        bunch.target if names is None else np.array([str(names[code]) for code in bunch.target], dtype=object)
    )
    record = array_record(f"scikit-learn {name}", bunch.data, bunch.target.astype(np.float64))
    return TableSource(name, {"train": Table(name, cells)}, label=label, files=(record,), test=0.2)


def _modules() -> Iterator[Path]:
    """The standard library's files in a fixed order, without its tests and what was installed beside it."""
    root = Path(sysconfig.get_path("stdlib"))
    left_out = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "lib2to3", "pydoc_data"}
    paths: list[Path] = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if name not in left_out]  # not entered
        paths += [Path(folder, name) for name in files if name.endswith(".py")]
    yield from sorted(paths, key=lambda path: path.relative_to(root).parts)


def python_source() -> Iterator[str]:
    """One document per module."""
    for path in _modules():
        text = path.read_text(encoding="utf-8", errors="replace")
        if text.strip():
            yield text


def python_docs() -> Iterator[str]:
    """English prose: the language reference's topics, then every docstring of the standard library over a line long."""
    from pydoc_data import topics

    for name in sorted(topics.topics):
        yield topics.topics[name].strip()
    sources = list(python_source())
    with bar("reading docstrings", len(sources)) as progress:
        for text in sources:
            progress.advance()
            yield from _docstrings(text)


def _docstrings_by_module() -> Source:
    """A table of two columns: a docstring on one line, and the package or module of the standard library it is from."""
    root = Path(sysconfig.get_path("stdlib"))
    rows: dict[str, str] = {}  # a docstring that comes twice is kept once
    for path in _modules():
        module = path.relative_to(root).parts[0].removesuffix(".py")
        if module in MODULES.split():
            for docstring in _docstrings(path.read_text(encoding="utf-8", errors="replace"), whole=True):
                text = " ".join(docstring.split())
                if text.count(" ") >= LEAST_WORDS - 1:
                    rows.setdefault(text, module)
    cells = {"text": np.array(list(rows), dtype=object), "module": np.array(list(rows.values()), dtype=object)}
    version = ".".join(map(str, sys.version_info[:3]))
    content = "\0".join(f"{module}\0{text}" for text, module in rows.items()).encode()
    record = array_record(f"Python {version} python-modules", np.frombuffer(content, dtype=np.uint8))
    return TableSource(
        "python-modules",
        {"train": Table("python-modules", cells)},
        label="module",
        features=("text",),
        files=(record,),
        test=0.2,
        origin={"python": version},
    )


def _docstrings(text: str, whole: bool = False) -> Iterator[str]:
    """Docstrings of more than one line, or all of them."""
    try:
        nodes: list[ast.AST] = [ast.parse(text)]
    except SyntaxError:
        return
    for node in nodes:  # which grows: the order of ast.walk, without the expressions, which are most of a tree
        for block in ("body", "handlers", "cases", "orelse", "finalbody"):
            nodes += getattr(node, block, ())
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring and (whole or "\n" in docstring):
                yield docstring
