"""Features: the columns of a table as numbers (canon/data/column_encoders.py), measured on the training rows alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data import column_plan
from canon.data import columns as tables
from canon.data.column_encoders import CentredLabels, ColumnEncoder, from_record
from canon.data.encodings.base import Ask, Encoding, Inputs, counted, finish
from canon.data.formats.tables import ENDINGS, Table, is_table, read_table
from canon.data.kinds.table import TABLE
from canon.data.paths import find_path, named_set, path_of_rows
from canon.data.records import Given, Records
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Common, Missing
from canon.data.source import Source, TableSource
from canon.data.splits import Chosen, choose
from canon.data.targets import Class, Nothing, Number, Target
from canon.errors import CanonError

_SHOWN = 6  # columns of a row that a person is shown


@settings
class FeatureSettings(Common):
    missing: Missing = Field(
        default="mean", description="an empty number is an error, or the training mean with a feature that says so"
    )


@dataclass(frozen=True)
class FeatureSchema(Schema):
    encoding = "features"
    one_shape: ClassVar[bool] = True
    encoders: tuple[ColumnEncoder, ...] = ()

    def shown(self, inputs: Any, row: int) -> str:
        """The first columns, in their own units."""
        parts, start = [], 0
        for encoder in self.encoders:
            if text := encoder.shown(inputs[row, start : start + encoder.width]):
                parts.append(f"{encoder.name} {text}")
            start += encoder.width
        return ", ".join([*parts[:_SHOWN], *["…"] * (len(self.encoders) > _SHOWN)])

    def column_kinds(self) -> dict[str, int]:
        return dict(Counter(encoder.kind for encoder in self.encoders))

    @classmethod
    def _of(cls, added: dict[str, Any], **core: Any) -> FeatureSchema:
        return cls(**core, encoders=tuple(map(from_record, added["encoders"])))

    def _added(self) -> dict[str, Any]:
        return {"encoders": [encoder.to_record() for encoder in self.encoders]}


class TablePlan(NamedTuple):
    """What the columns of a table become, which rows make each split, and the targets of all parts."""

    columns: column_plan.PlannedColumns
    target: Target
    note: str
    targets: dict[str, np.ndarray]
    chosen: Chosen
    rule: dict[str, str]


class Features(Encoding):
    reads = (TABLE,)
    settings = FeatureSettings
    schema = FeatureSchema
    causes = (
        "the label may be another column (data.label), or the other columns say nothing about it",
        "too few steps or another rate is needed (train.epochs, optimizer.lr)",
        "rows may be mixed up: a label must be in the row it belongs to",
    )

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        plan = _plan(source, config, ask)
        columns = plan.columns
        encoded = {
            name: column_plan.apply(table, columns.encoders, config.missing) for name, table in source.parts.items()
        }
        splits: dict[str, Columns] = {}
        for name, (part, rows) in plan.chosen.items():
            targets = {"target": plan.targets[part][rows]} if plan.targets else {}
            splits[name] = {"input": encoded[part][rows], **targets}
        _replace(splits["train"], columns)
        schema = FeatureSchema(plan.target, (columns.width,), encoders=columns.encoders)
        return finish(source, schema, splits, plan.rule, config, [plan.note, *columns.notes])

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        assert isinstance(source, TableSource)
        plan = _plan(source, replace(config, limit=0), ask)
        train: Table = source.parts["train"]
        if isinstance(plan.target, Class) and tables.has_fractions(train, plan.target.label):
            raise CanonError(f'The label "{plan.target.label}" has fractions: numbers to predict, not classes.')
        if isinstance(plan.target, Nothing) or not tables.is_number(train, plan.target.label):
            label = config.label or source.label or tables.choose_label(train, "")[0]
            column_plan.require_columns(train, plan.columns, label)
        for table in source.parts.values():
            column_plan.refuse(table, plan.columns.encoders, config.missing)
        return plan.target

    # For a run that was trained

    def layout(self, schema: FeatureSchema, config: Any) -> Any:
        """A file is a table whatever its ending."""
        file = named_set(config.source) is None and find_path(config.source).is_file()
        return replace(super().layout(schema, config), format="table" if file else "auto")

    def columns(self, schema: FeatureSchema, source: Source, config: Any) -> Columns:
        table: Table = source.scored()
        inputs = {"input": column_plan.apply(table, schema.encoders, config.missing)}
        return inputs if isinstance(schema.target, Nothing) else {**inputs, "target": _column(table, schema.target)}

    def inputs(self, schema: FeatureSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        encoded: list[np.ndarray] = []
        names: list[str] = []
        known = _names(schema)
        for source in sources:
            if isinstance(source, Records):
                table, before = source.table(), ""
            else:
                path = path_of_rows(source, known)
                if path.is_dir() or not (is_table(path, config) or config.format in TABLE.formats):
                    raise CanonError(f"The run reads tables, but {path} is not a table ({', '.join(ENDINGS)}).")
                table, before = read_table(path, config, like=known), f"{path}, "
            encoded.append(column_plan.apply(table, schema.encoders, config.missing))
            names += [f"{before}row {row + 1}" for row in range(len(table))]
        return {"input": np.concatenate(encoded)}, names

    def array(self, schema: FeatureSchema, array: np.ndarray, config: Any) -> Inputs | None:
        """Rows of the table's columns, as they are in a file, in the order of training."""
        if array.ndim > 2 or array.shape[-1:] != self.array_shape(schema):
            return None
        return self.inputs(schema, [Records.of_array(array, _names(schema))], config, False)

    def example(self, schema: FeatureSchema, texts: tuple[str, ...]) -> Given | None:
        names = _names(schema)
        return Records.of_dicts([dict(zip(names, texts, strict=True))]) if len(texts) == len(names) else None

    def array_shape(self, schema: FeatureSchema) -> tuple[int, ...]:
        return (len(_names(schema)),)

    def piped_ending(self, head: bytes) -> str:
        if head.startswith(b"PAR1"):
            return ".parquet"
        if head.lstrip().startswith(b"{"):
            return ".jsonl"
        return ".tsv" if b"\t" in head.partition(b"\n")[0] else ".csv"


FEATURES = Features()


def _names(schema: FeatureSchema) -> list[str]:
    """The columns of the table that are read, once each."""
    return list(dict.fromkeys(encoder.name for encoder in schema.encoders))


def _plan(source: Source, config: Any, ask: Ask) -> TablePlan:
    assert isinstance(source, TableSource)
    train: Table = source.parts["train"]
    kind = next(target for target in ask.targets if target in (Class, Number, Nothing))
    wanted = config.label or source.label
    if kind is not Nothing:
        label, note = tables.choose_label(train, wanted)
        if kind is Class and Number in ask.targets and tables.is_number(train, label):
            kind, note = Number, f"{note} It is a number to predict.".lstrip()
    else:
        label = train.require(wanted, "data.label") if wanted else ""
        note = f'The column "{wanted}" is left out.' if wanted else ""
    names = tables.choose_features(train, config.features or source.features, label)
    target: Target = Nothing() if kind is Nothing else kind(label=label)
    if kind is Class:
        target = replace(target, classes=tables.class_names(train, label))
    targets = {name: _column(table, target) for name, table in source.parts.items() if kind is not Nothing}
    if len(target.classes) == 1:
        raise CanonError(
            f'{train.path}: every row has the label "{target.classes[0]}"; at least two classes are needed.'
        )
    chosen, rule = choose(source, config, targets["train"] if kind is Class else None)
    if targets:
        target = counted(target, targets["train"][chosen["train"][1]])
    rows = chosen["train"][1]
    labels = CentredLabels.of(targets["train"][rows], len(target.classes)) if targets else None
    asked = bool(config.features or source.features)
    number = kind is Number
    columns = column_plan.plan(train, names, rows, config.missing, labels, asked, number, label if number else "")
    return TablePlan(columns, target, note, targets, chosen, rule)


def _replace(columns: Columns, plan: column_plan.PlannedColumns) -> None:
    """Writes the features that only training rows have over those of other rows."""
    start = 0
    for encoder in plan.encoders:
        if encoder.name in plan.trained:
            columns["input"][:, start : start + encoder.width] = plan.trained[encoder.name]  # type: ignore[index]
        start += encoder.width


def _column(table: Table, target: Target) -> np.ndarray:
    """The target of every row."""
    if target.label not in table:
        raise CanonError(f'{table.path} has no column "{target.label}", which is the label.')
    if isinstance(target, Number):
        return tables.number_targets(table, target.label)
    return tables.class_codes(table, target.label, target.classes)
