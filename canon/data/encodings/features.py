"""Features: numbers of a table standardised, categories one-hot, measured on the training rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data import columns as tables
from canon.data.columns import Encoder
from canon.data.encodings.base import Ask, Encoding, finish, with_statistics
from canon.data.formats.files import ending
from canon.data.formats.tables import ENDINGS, Table, read_table
from canon.data.kinds.table import TABLE
from canon.data.paths import find_path, named_set
from canon.data.schema import Columns, Data, Schema
from canon.data.settings import Common, Missing
from canon.data.source import Source, TableSource
from canon.data.splits import Chosen, choose
from canon.data.targets import Class, Nothing, Number, Target
from canon.errors import CanonError


@settings
class FeatureSettings(Common):
    missing: Missing = Field(default="error", description="what to do with an empty number")


@dataclass(frozen=True)
class FeatureSchema(Schema):
    encoding = "features"
    one_shape: ClassVar[bool] = True
    encoders: tuple[Encoder, ...] = ()

    @classmethod
    def _of(cls, added: dict[str, Any], **core: Any) -> FeatureSchema:
        rows = ({**row, "categories": tuple(row["categories"])} for row in added["encoders"])
        return cls(**core, encoders=tuple(Encoder(**row) for row in rows))


class Plan(NamedTuple):
    """Which columns of a table are read, which rows make each split, and the targets of all parts."""

    names: tuple[str, ...]
    target: Target
    note: str
    targets: dict[str, np.ndarray]
    chosen: Chosen
    rule: dict[str, str]


class Features(Encoding):
    name = "features"
    reads = (TABLE,)
    settings = FeatureSettings
    schema = FeatureSchema

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        assert isinstance(source, TableSource)
        plan = self.plan(source, config, ask)
        encoders = tables.fit(source.parts["train"], plan.names, plan.chosen["train"][1], config.missing)
        encoded = {name: tables.apply(table, encoders, config.missing) for name, table in source.parts.items()}
        splits: dict[str, Columns] = {}
        for name, (part, rows) in plan.chosen.items():
            targets = {"target": plan.targets[part][rows]} if plan.targets else {}
            splits[name] = {"input": encoded[part][rows], **targets}
        schema = FeatureSchema(plan.target, (encoded["train"].shape[1],), encoders=encoders)
        return finish(source, schema, splits, plan.rule, config, [plan.note])

    def plan(self, source: TableSource, config: Any, ask: Ask) -> Plan:
        kind = next(target for target in ask.targets if target in (Class, Number, Nothing))
        label, note = label_of(source, config, kind)
        names = tables.choose_features(source.parts["train"], config.features or source.features, label)
        target, targets = _targets(source.parts, label, kind)
        classes = targets["train"] if isinstance(target, Class) else None
        chosen, rule = choose(source, config, classes)
        part, rows = chosen["train"]
        if isinstance(target, Number):
            target = with_statistics(target, targets[part][rows])
        elif isinstance(target, Class):
            counts = np.bincount(targets[part][rows], minlength=len(target.classes))
            target = replace(target, counts=tuple(counts.tolist()))
        return Plan(names, target, note, targets, chosen, rule)

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        assert isinstance(source, TableSource)
        try:
            plan = self.plan(source, replace(config, limit=0), ask)
            train = source.parts["train"]
            if isinstance(plan.target, Class):
                values, bad = train.numbers(plan.target.label)
                if not bad.any() and (values != np.rint(values)).any():
                    return f'The label "{plan.target.label}" has fractions: numbers to predict, not classes.'
            rows = plan.chosen["train"][1]
            categories = {name for name in plan.names if tables.is_category(train, name, rows, config.missing)}
            for table in source.parts.values():
                tables.refuse(table, plan.names, categories, config.missing)
        except CanonError as mistake:
            return str(mistake)
        return ""

    # For a run that was trained

    def layout(self, schema: FeatureSchema, config: Any) -> Any:
        """A file is a table whatever its ending."""
        file = named_set(config.source) is None and find_path(config.source).is_file()
        return replace(super().layout(schema, config), format="table" if file else "auto")

    def columns(self, schema: FeatureSchema, source: Source, config: Any) -> Columns:
        table: Table = source.scored()
        inputs = tables.apply(table, schema.encoders, config.missing)
        target = schema.target
        if isinstance(target, Nothing):
            return {"input": inputs}
        if target.label not in table.names:
            raise CanonError(f'{table.path} has no column "{target.label}", which is the label.')
        if isinstance(target, Number):
            return {"input": inputs, "target": tables.number_targets(table, target.label)}
        return {"input": inputs, "target": tables.class_codes(table, target.label, target.classes)}

    def inputs(
        self, schema: FeatureSchema, sources: Sequence[str], config: Any, text: bool
    ) -> tuple[Columns, list[str]]:
        read = [_table(find_path(source, named=False), config) for source in sources]
        encoded = [tables.apply(table, schema.encoders, config.missing) for table in read]
        names = [f"{table.path}, row {row + 1}" for table in read for row in range(len(table))]
        return {"input": np.concatenate(encoded)}, names


def label_of(source: TableSource, config: Any, kind: type[Target]) -> tuple[str, str]:
    """The label's column and a note; "" where nothing is to be predicted and none was named."""
    table: Table = source.parts["train"]
    wanted = config.label or source.label
    if kind is Nothing:
        return (table.require(wanted, "data.label"), f'The column "{wanted}" is left out.') if wanted else ("", "")
    return tables.choose_label(table, wanted)


def _targets(parts: dict[str, Table], label: str, kind: type[Target]) -> tuple[Target, dict[str, np.ndarray]]:
    """What is to be predicted, and the target column of each part; the classes are those of the training part."""
    if kind is Nothing:
        return Nothing(), {}
    for table in parts.values():
        if label not in table:
            raise CanonError(f'{table.path} has no column "{label}", which is the label.')
    if kind is Number:
        return Number(label=label), {name: tables.number_targets(table, label) for name, table in parts.items()}
    classes = tables.class_names(parts["train"], label)
    codes = {name: tables.class_codes(table, label, classes) for name, table in parts.items()}
    if len(classes) < 2:
        raise CanonError(f'{parts["train"].path}: every row has the label "{classes[0]}"; two classes are the least.')
    return Class(classes, label), codes


def _table(path: Path, config: Any) -> Table:
    if path.is_dir() or (ending(path) not in ENDINGS and config.format not in TABLE.formats):
        raise CanonError(f"The run was trained on a table; {path} is none of {', '.join(ENDINGS)}.")
    return read_table(path, config)


FEATURES = Features()
