"""Fields: every value of every column has a row of one table of vectors (canon/data/encodings/field_columns.py).

Rows of the table: those that hashed fields share come first, then each field has its own from its offset on.
Vocabularies, buckets and scales are measured on the training rows alone. Crosses, pairs of fields or more, are hashed
into a table of their own.
Columns: "input" int32 [N, places], "weights" float32 [N, places] where not all are 1, "crosses" int32 [N, crosses]
where there are some, "user" int64 [N] where a column says. Shapes: N examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.click_splits import choose_rows
from canon.data.encodings import field_fitting as fitting
from canon.data.encodings.base import Ask, Encoding, Inputs, counted, finish
from canon.data.encodings.field_columns import FIRST, EncodedField, FieldColumn, HashedField, from_record
from canon.data.kinds.clicks import CLICKS, ClickSource, Rows, click_classes, click_codes, click_users
from canon.data.paths import path_of_rows
from canon.data.records import Given, Records
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Common, Count, layout
from canon.data.source import Source
from canon.data.targets import Class, Target
from canon.errors import CanonError

_SHOWN = 8  # fields of a row that a person is shown
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@settings
class FieldSettings(Common):
    numbers: Literal["both", "quantile", "squared-log", "log", "z"] = Field(
        default="both",
        description="what numbers become: quantile: buckets of equally many training rows; squared-log: buckets "
        "⌊ln² x⌋; z or log: x or ln(1 + x) with mean 0 and variance 1; both: quantile and z, as two fields",
    )
    buckets: Annotated[int, Field(gt=1, le=1 << 16)] = Field(default=20, description="of a number (quantile), at most")
    min_count: Count = Field(default=0, description="rarer values share the row of unseen ones; 0: 1")
    hash_bits: Annotated[int, Field(ge=0, le=30)] = Field(
        default=0, description="values are hashed into 2^bits rows that fields share; 0: each has a row of its own"
    )
    numeric: tuple[str, ...] = layout((), "columns that are numbers; default: by what they hold")
    categories: tuple[str, ...] = layout((), "columns that are categories; default: by what they hold")
    crosses: tuple[tuple[str, ...], ...] = Field(
        default=(), description='fields whose values together have a weight, as in [["user", "hour"]]'
    )
    cross_bits: Annotated[int, Field(gt=0, le=30)] = Field(
        default=18, description="crosses are hashed into 2^bits weights"
    )


@dataclass(frozen=True)
class FieldSchema(Schema):
    encoding = "fields"
    columns: tuple[FieldColumn, ...] = ()
    hash_bits: int = 0
    crosses: tuple[tuple[int, ...], ...] = ()  # of each cross its fields
    cross_bits: int = 18
    seed: int = 0  # of the hashes
    user: str = ""
    positive: str = ""

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where the rows of each field begin."""
        shared = 1 << self.hash_bits if self.hash_bits else 0
        return tuple((shared + np.cumsum([0, *(column.size for column in self.columns)])).tolist())

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(column.width for column in self.columns)

    def place_of(self, field: int) -> int:
        """The first place of a field in "input"."""
        return sum(self.widths[:field])

    @property
    def of_lines(self) -> bool:
        return fitting.of_lines(self.columns)

    @property
    def apart(self) -> bool:
        """Whether features belong to no fields, so that each stands for itself."""
        return fitting.without_fields(self.columns)

    def comparable(self) -> FieldSchema:
        """Without crosses, which are made of the fields by hand for the networks that need them."""
        return replace(self, crosses=())

    def sizes(self) -> dict[str, Any]:
        return {
            **super().sizes(),
            "num_rows": self.offsets[-1],
            "widths": self.widths,
            "apart": self.apart,
            "crosses": len(self.crosses),
            "cross_rows": 1 << self.cross_bits if self.crosses else 1,
        }

    def shown(self, inputs: Any, row: int) -> str:
        parts, start = [], 0
        for column, offset in zip(self.columns, self.offsets, strict=False):
            rows_of_column = [int(each) - offset for each in inputs[row, start : start + column.width]]
            texts = [column.shown(each, 1.0) if 0 <= each < column.size else "hashed" for each in rows_of_column]
            parts.append(f"{column.name} {'|'.join(text for text in texts if text != '?') or '?'}")
            start += column.width
        return ", ".join([*parts[:_SHOWN], *["…"] * (len(parts) > _SHOWN)])

    @classmethod
    def _of(cls, added: dict[str, Any], **core: Any) -> FieldSchema:
        crosses = tuple(map(tuple, added.pop("crosses")))
        return cls(**core, **{**added, "columns": tuple(map(from_record, added["columns"])), "crosses": crosses})

    def _added(self) -> dict[str, Any]:
        record = asdict(replace(self, target=Class(), columns=()))
        kept = {name: record[name] for name in ("hash_bits", "crosses", "cross_bits", "seed", "user", "positive")}
        return {"columns": [column.to_record() for column in self.columns], **kept}

    def encode(self, rows: Rows) -> dict[str, np.ndarray]:
        """Every column but the target."""
        ids: list[np.ndarray] = []
        weights: list[np.ndarray | None] = []
        if self.of_lines:
            fitting.require_lines(rows, self.columns)
        for column, offset in zip(self.columns, self.offsets, strict=False):
            encoded_field: EncodedField = column.apply(rows)
            moved = encoded_field.rows + np.int32(offset)
            if isinstance(column, HashedField):
                moved = np.where(encoded_field.rows < FIRST, moved, encoded_field.rows - np.int32(FIRST))
            ids.append(moved)
            weights.append(encoded_field.weights)
        encoded = {"input": np.concatenate(ids, axis=1)}
        if any(each is not None for each in weights):
            full = [np.ones(i.shape, np.float32) if w is None else w for i, w in zip(ids, weights, strict=True)]
            encoded["weights"] = np.concatenate(full, axis=1)
        if self.crosses:
            encoded["crosses"] = np.stack([self._cross(place, ids) for place in range(len(self.crosses))], axis=1)
        return encoded

    def _cross(self, place: int, ids: Sequence[np.ndarray]) -> np.ndarray:
        """A cross of every row: splitmix64 over the rows of its fields."""
        key = np.full(len(ids[0]), np.uint64(self.seed) ^ np.uint64(place + 1), dtype=np.uint64)
        for field in self.crosses[place]:
            key = _mixed(key ^ ids[field][:, 0].astype(np.uint64))
        return (key >> np.uint64(64 - self.cross_bits)).astype(np.int32)


def _mixed(state: np.ndarray) -> np.ndarray:
    state = state + _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


class Fields(Encoding):
    reads = (CLICKS,)
    settings = FieldSettings
    schema = FieldSchema
    causes = (
        "the label may be another column (data.label), or the fields say nothing about it",
        "too many or too few steps, or another rate, is needed (train.epochs, optimizer.lr)",
        "values of the fields may be too rare to learn from (data.min_count, data.buckets)",
    )

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        assert isinstance(source, ClickSource)
        classes = click_classes(source)
        codes = {name: click_codes(rows, source, classes) for name, rows in source.parts.items()}
        chosen, rule = choose_rows(source, config, codes["train"])
        taken = chosen["train"][1]
        if len(np.unique(codes["train"][taken])) < 2:
            only = classes[int(codes["train"][taken][0])]
            raise CanonError(f'{source.name}: every training row has the label "{only}"; clicks and others are needed.')
        columns, notes = fitting.fit(source, config, taken)
        target = counted(Class(classes, source.label), codes["train"][taken])
        schema = FieldSchema(
            target, columns=columns, hash_bits=config.hash_bits, crosses=fitting.crosses(columns, config),
            cross_bits=config.cross_bits, seed=config.seed, user=source.user, positive=source.positive,
        )  # fmt: skip
        encoded = {name: self._encoded(schema, source, rows) for name, rows in source.parts.items()}
        splits: dict[str, Columns] = {
            name: {**{key: each[rows] for key, each in encoded[part].items()}, "target": codes[part][rows]}
            for name, (part, rows) in chosen.items()
        }
        notes += fitting.collisions(schema, source, encoded["train"], taken)
        clicks = f"{codes['train'][taken].mean():.2%} of the training rows are clicks"
        many = f"{len(columns)} fields" if not schema.apart else "features without fields"
        notes.append(f"{many}, {schema.offsets[-1]:,} rows of the table; {clicks}.")
        return finish(source, schema, splits, rule, config, notes, examples="Rows")

    def _encoded(self, schema: FieldSchema, source: ClickSource, rows: Rows) -> dict[str, np.ndarray]:
        users = click_users(rows, source)
        return {**schema.encode(rows), **({"user": users} if users is not None else {})}

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        assert isinstance(source, ClickSource)
        classes = click_classes(source)
        click_codes(source.parts["train"], source, classes)
        return Class(classes, source.label)

    # For a run that was trained

    def layout(self, schema: FieldSchema, config: Any) -> Any:
        label = schema.target.label or config.label
        return replace(super().layout(schema, config), label=label, positive=schema.positive, user=schema.user, time="")

    def columns(self, schema: FieldSchema, source: Source, config: Any) -> Columns:
        assert isinstance(source, ClickSource)
        rows = source.scored()
        source = replace(source, label=schema.target.label, user=schema.user, positive=schema.positive)
        return {**self._encoded(schema, source, rows), "target": click_codes(rows, source, schema.classes)}

    def inputs(self, schema: FieldSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        encoded: list[dict[str, np.ndarray]] = []
        names: list[str] = []
        for source in sources:
            rows: Rows
            if isinstance(source, Records):
                rows, before = source.table(), ""
            else:
                known = [column.name for column in schema.columns]
                path = path_of_rows(source, known)
                if path.is_dir():
                    raise CanonError(f"{path} is a folder; give the file of rows to predict.")
                rows = fitting.read_rows(path, schema.columns, known, config)
                before = f"{path}, "
            encoded.append(schema.encode(rows))
            names += [f"{before}row {row + 1}" for row in range(len(rows))]
        return {key: np.concatenate([each[key] for each in encoded]) for key in encoded[0]}, names

    def array_shape(self, schema: FieldSchema) -> tuple[int, ...]:
        return ()

    def array(self, schema: FieldSchema, array: np.ndarray, config: Any) -> Inputs | None:
        return None

    def piped_ending(self, head: bytes) -> str:
        if head.lstrip().startswith(b"{"):
            return ".jsonl"
        return ".txt" if b":" in head.partition(b"\n")[0] else ".csv"


FIELDS = Fields()
