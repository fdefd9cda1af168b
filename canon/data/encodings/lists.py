"""Lists: the documents of a query as numbers, end to end and never padded; an example is a query.

| column | shape | meaning |
| --- | --- | --- |
| input | [n] Lists of [F] | features, scaled as data.normalize says |
| target | [n] Grades | how relevant each document is |
| query | [n] | its name |
| document | [n] Lists | names of documents; "" where there are none |
Scaling: within a query x → (x − min)/(max − min) as LETOR's files are (`query-minmax`) or (x − mean)/std (`query-z`);
or by mean and std of the training documents (`train-z`); a feature that is constant there becomes 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.batching.lists import Grades, Lists
from canon.data.encodings.base import Ask, Encoding, Inputs, finish
from canon.data.formats.letor import QueryRows, is_letor, joined, read_letor
from canon.data.formats.tables import is_table, read_table
from canon.data.kinds.queries import QUERIES, rows_of_table, unordered
from canon.data.paths import find_path
from canon.data.records import Given, Records
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Common
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import Relevance, Target
from canon.errors import CanonError

Normalize = Literal["train-z", "query-minmax", "query-z", "none"]


@settings
class ListSettings(Common):
    normalize: Normalize = Field(
        default="train-z",
        description="how features are scaled: by mean and deviation of the training documents (train-z) or of the "
        "query's (query-z), to [0, 1] within a query (query-minmax), or none",
    )


@dataclass(frozen=True)
class ListSchema(Schema):
    """Its shape is that of a document: (features,)."""

    encoding = "lists"
    features: tuple[str, ...] = ()  # names; of LETOR's their numbers
    normalize: str = "none"
    mean: tuple[float, ...] = ()  # of the training documents, where they scale the features
    std: tuple[float, ...] = ()
    longest: int = 0  # documents of a training query, at most
    typical: int = 0  # and in the mean

    def lengths(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        documents = columns["input"]
        assert isinstance(documents, Lists)
        return documents.lengths, documents.lengths

    def unit(self, columns: Columns) -> tuple[float, str]:
        documents = columns["input"]
        assert isinstance(documents, Lists)
        return len(documents.values) / len(documents), "documents"

    def shown(self, inputs: Any, row: int) -> str:
        return f"{len(inputs[row])} documents"

    def scaled(self, rows: QueryRows) -> np.ndarray:
        """The features as they are read, float32 [N, F]."""
        if self.normalize == "none":
            return rows.values
        if self.normalize == "train-z":
            return ((rows.values - np.array(self.mean)) / np.array(self.std)).astype(np.float32)
        return within_queries(rows.values, rows.offsets, minmax=self.normalize == "query-minmax")


def within_queries(values_NF: np.ndarray, offsets: np.ndarray, minmax: bool) -> np.ndarray:
    """(x − min)/(max − min), or (x − mean)/std, of the query's documents; 0 where a feature is constant."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    if minmax:
        low = np.minimum.reduceat(values_NF, starts)
        width = np.maximum.reduceat(values_NF, starts) - low
    else:
        wide = values_NF.astype(np.float64)
        low = np.add.reduceat(wide, starts) / sizes[:, None]
        width = np.sqrt(np.add.reduceat((wide - np.repeat(low, sizes, axis=0)) ** 2, starts) / sizes[:, None])
        width[np.maximum.reduceat(values_NF, starts) == np.minimum.reduceat(values_NF, starts)] = 0
    least, span = np.repeat(low, sizes, axis=0), np.repeat(width, sizes, axis=0)
    scaled = np.divide(values_NF - least, span, out=np.zeros(values_NF.shape), where=span > 0)
    return scaled.astype(np.float32)


class ListEncoding(Encoding):
    reads = (QUERIES,)
    settings = ListSettings
    schema = ListSchema
    causes = (
        "another rate or more epochs are needed (optimizer.lr, train.epochs)",
        "features may be of very different sizes (data.normalize)",
        "grades may be those of other documents, or too few queries have a relevant one",
    )

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        parts, target, notes = _graded(source)
        chosen, rule = choose(replace(source, parts=parts), config)
        rows = {name: parts[part].take(taken) for name, (part, taken) in chosen.items()}
        train = rows["train"]
        sizes = train.sizes
        schema = ListSchema(
            replace(target, highest=float(train.grades.max())),  # type: ignore[union-attr]
            (train.values.shape[1],),
            features=train.features,
            normalize=config.normalize,
            longest=int(sizes.max()),
            typical=round(float(sizes.mean())),
        )
        if config.normalize == "train-z":
            wide = train.values.astype(np.float64)
            std = np.where(np.ptp(train.values, axis=0) > 0, wide.std(axis=0), 0)
            schema = replace(schema, mean=tuple(wide.mean(axis=0)), std=tuple(np.where(std > 0, std, 1.0)))
        splits = {name: columns_of(schema, part) for name, part in rows.items()}
        for name, columns in splits.items():
            pairs = columns["target"].pairs  # type: ignore[union-attr]
            silent = int((pairs == 0).sum())
            if name == "train" and silent == len(pairs):
                raise CanonError(unordered(train))
            if silent:
                notes.append(
                    f"{name}: {silent:,} of {len(pairs):,} queries have documents of one grade only; they say nothing "
                    "about order, and count in the metrics."
                )
        return finish(source, schema, splits, rule, config, notes, examples="Queries")

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        return _graded(source)[1]

    # For a run that was trained

    def layout(self, schema: ListSchema, config: Any) -> Any:
        return replace(super().layout(schema, config), limit=0)

    def columns(self, schema: ListSchema, source: Source, config: Any) -> Columns:
        rows: QueryRows = source.scored()
        if rows.grades is None:
            raise CanonError(f"{rows.path} has no grades to score by.")
        return columns_of(schema, shifted(fitted(rows, schema.features), schema))

    def inputs(self, schema: ListSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        parts = [fitted(_given(source, config, schema), schema.features) for source in sources]
        rows = joined([replace(part, grades=None) for part in parts], parts[0].path)
        columns = dict(columns_of(schema, rows))
        names = [
            f"{part.path}, query {query}" if len(parts) > 1 else f"query {query}"
            for part in parts
            for query in part.queries
        ]
        return columns, names

    def array(self, schema: ListSchema, array: np.ndarray, config: Any) -> Inputs | None:
        """The documents of one query."""
        if array.shape[-1:] != schema.shape or array.ndim > 2:
            return None
        values = np.atleast_2d(array).astype(np.float32)
        rows = _one_query(values, schema.features)
        return columns_of(schema, rows), ["the array"]

    def array_shape(self, schema: ListSchema) -> tuple[int, ...]:
        return schema.shape

    def piped_ending(self, head: bytes) -> str:
        if head.startswith(b"PAR1"):
            return ".parquet"
        return ".jsonl" if head.lstrip().startswith(b"{") else ".csv" if b"," in head.partition(b"\n")[0] else ".txt"


LISTS = ListEncoding()


def columns_of(schema: ListSchema, rows: QueryRows) -> Columns:
    columns: dict[str, Any] = {"input": Lists(schema.scaled(rows), rows.offsets)}
    if rows.grades is not None:
        columns["target"] = Grades(rows.grades, rows.offsets)
    return {**columns, "query": rows.queries, "document": Lists(rows.documents, rows.offsets)}


def fitted(rows: QueryRows, features: tuple[str, ...]) -> QueryRows:
    """The rows with the features of a run, in its order. What a file of numbered features leaves out is 0."""
    if rows.features == features:
        return rows
    known = {name: place for place, name in enumerate(features)}
    strange = [name for name in rows.features if name not in known]
    lacking = [name for name in features if name not in rows.features]
    if rows.unit == "line" and strange:
        raise CanonError(
            f"{rows.path} has the feature {strange[0]}, but the training data has {len(features)} (the last: "
            f"{features[-1]}); give files of the same features."
        )
    if rows.unit == "row" and lacking:
        raise CanonError(
            f'{rows.path} has no column "{lacking[0]}" of numbers, which is a feature of the training data.'
        )
    values = np.zeros((len(rows.values), len(features)), dtype=np.float32)
    for place, name in enumerate(rows.features):
        if name in known:
            values[:, known[name]] = rows.values[:, place]
    return replace(rows, values=values, features=features)


def shifted(rows: QueryRows, schema: ListSchema) -> QueryRows:
    """With grades from 0, as in training."""
    assert isinstance(schema.target, Relevance) and rows.grades is not None
    grades = rows.grades - np.float32(schema.target.shift)
    if (grades < 0).any():
        document = int((grades < 0).argmax())
        raise CanonError(
            f"{rows.path}, {rows.where(document)}: the grade {rows.grades[document]:g} is less than the least of the "
            f"training data, {schema.target.shift:g}."
        )
    return replace(rows, grades=grades)


def _graded(source: Source) -> tuple[dict[str, QueryRows], Relevance, list[str]]:
    """The parts with the same features and grades from 0, the target, and notes."""
    parts: dict[str, QueryRows] = dict(source.parts)
    notes: list[str] = []
    for rows in parts.values():
        if rows.grades is None:
            raise CanonError(f"{rows.path} has no grades to learn from.")
        _check_documents(rows)
    numbered = all(rows.unit == "line" for rows in parts.values())
    features = parts["train"].features
    if numbered:  # a sparse file names no feature that is 0 in all of it
        features = tuple(map(str, sorted({int(name) for rows in parts.values() for name in rows.features})))
        features = tuple(map(str, range(int(features[0]), int(features[-1]) + 1)))
    parts = {name: fitted(rows, features) for name, rows in parts.items()}
    least = min(float(rows.grades.min()) for rows in parts.values() if rows.grades is not None)
    if least >= 1:
        notes.append(f"The least grade is {least:g}, which becomes 0 (not relevant).")
    shift = least if least >= 1 else 0.0
    parts = {n: replace(rows, grades=rows.grades - np.float32(shift)) for n, rows in parts.items()}  # type: ignore[operator]
    notes += _shared(parts)
    return parts, Relevance(highest=max(float(rows.grades.max()) for rows in parts.values()), shift=shift), notes  # type: ignore[union-attr]


def _check_documents(rows: QueryRows) -> None:
    """A document of a query must not come with two grades."""
    if not rows.documents.astype(bool).any():
        return
    seen: dict[tuple[int, str], int] = {}
    of = np.repeat(np.arange(len(rows)), rows.sizes)
    for document, key in enumerate(zip(of.tolist(), rows.documents.tolist(), strict=True)):
        first = seen.setdefault(key, document) if key[1] else document
        if rows.grades is not None and rows.grades[first] != rows.grades[document]:
            raise CanonError(
                f"{rows.path}, {rows.where(document)}: document {key[1]} of query {rows.queries[key[0]]} has the grade "
                f"{rows.grades[document]:g}, and {rows.grades[first]:g} in {rows.where(first)}; give it one."
            )


def _shared(parts: dict[str, QueryRows]) -> list[str]:
    """Refuses queries of the training part of which another part has documents too; a name alone may be a count."""
    train, notes = parts["train"], []
    known = {name: place for place, name in enumerate(train.queries.tolist())}
    for split, rows in parts.items():
        if rows is train:
            continue
        both = [(known[name], place) for place, name in enumerate(rows.queries.tolist()) if name in known]
        if both:
            own, other = (np.array(places) for places in zip(*both, strict=True))
            _refuse_shared(train, train.take(own), rows.take(other))
            notes.append(
                f"{split}: {len(both):,} queries are called as queries of the training part, but no document is in "
                "both: they are taken for others."
            )
    return notes


def _refuse_shared(train: QueryRows, own: QueryRows, other: QueryRows) -> None:
    """own, other: the queries of the same names in the training part and in another, in the same order. Two are one
    where half of the smaller one's documents are in both: by names, or by features, that training has only once."""
    names, rows = _once(train.documents), _once(_raw(train.values))
    for place, (first, second) in enumerate(zip(*(_by_query(each) for each in (own, other)), strict=True)):
        known = (set(first[0]) & names) - {""}, set(first[1]) & rows
        shared = [at for at, (name, row) in enumerate(zip(*second, strict=True)) if name in known[0] or row in known[1]]
        if 2 * len(shared) >= min(len(first[0]), len(second[0])):
            where = other.where(int(other.offsets[place]) + shared[0])
            raise CanonError(
                f"{other.path}, {where}: query {other.queries[place]} is in the training part too ({train.path}), "
                "so scores would be too high; leave it out of one."
            )


def _once(values: np.ndarray) -> set[Any]:
    different, counts = np.unique(values, return_counts=True)
    return set(different[counts == 1].tolist())


def _raw(values_NF: np.ndarray) -> np.ndarray:
    """[N] the bytes of each row."""
    whole = np.ascontiguousarray(values_NF)
    return whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()


def _by_query(rows: QueryRows) -> Iterator[tuple[list[str], list[bytes]]]:
    """The names of each query's documents, and the bytes of their features."""
    names, raw = rows.documents.tolist(), _raw(rows.values).tolist()
    for start, stop in pairwise(rows.offsets.tolist()):
        yield names[start:stop], raw[start:stop]


def _given(source: Given, config: Any, schema: ListSchema) -> QueryRows:
    """The queries of a file, or of rows that a program hands over, to predict from."""
    if isinstance(source, Records):
        table = source.table()
        return rows_of_table(table, replace(config, features=()), schema.features)[0]
    path = find_path(source, named=False)
    if path.is_file() and is_letor(path, config.encoding):
        return read_letor(path, config.encoding)[0]
    if path.is_file() and is_table(path, config):
        return rows_of_table(read_table(path, config), replace(config, features=()), schema.features)[0]
    if path.is_file():
        return read_letor(path, config.encoding)[0]
    raise CanonError(f"{Path(source)} is a folder; give a file of queries with documents.")


def _one_query(values_NF: np.ndarray, features: tuple[str, ...]) -> QueryRows:
    count = len(values_NF)
    names = np.array([str(row + 1) for row in range(count)], dtype=object)
    query = np.array(["1"], dtype=object)
    places = np.arange(1, count + 1)
    return QueryRows("The array", values_NF, None, np.array([0, count]), query, names, features, places, "row")
