"""Environments to act in: gymnasium's by their ids, a class or function in a file, plugins, and two that canon has.

They have no training examples: experience comes from acting. What is split is episodes to be judged by, each decided by
the seed of its reset; none of these seeds is used in training.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from canon.config import settings
from canon.data.catalogue import Dataset
from canon.data.checking.report import CheckReport
from canon.data.environments import opening
from canon.data.environments.opening import Opener
from canon.data.kinds.base import Kind
from canon.data.schema import FileRecord
from canon.data.settings import Common, Count, layout
from canon.data.source import Source
from canon.errors import CanonError


@settings
class EnvironmentSettings(Common):
    arguments: Annotated[dict[str, Any], Field(json_schema_extra={"layout": True})] = Field(
        default_factory=dict, description="of the environment, by name, as in is_slippery = false"
    )
    max_steps: Count = layout(0, "an episode is cut off after so many steps; 0: the environment's limit, or 1,000")
    transitions: str = layout(
        "",
        "a table of steps to learn from in place of acting (q-learning), with columns state, action, reward, "
        "next_state, terminated",
    )
    valid_episodes: Count = Field(default=20, description="played at each evaluation; 0: none")
    test_episodes: Annotated[int, Field(gt=0)] = Field(default=100, description="played in the end")


@dataclass(frozen=True)
class EnvironmentSource(Source):
    """Parts are empty: there is nothing to read."""

    opener: Opener = field(default_factory=lambda: Opener(""))


class EnvironmentKind(Kind):
    name = "environments"
    singular = "an environment to act in"
    plural = "environments"
    plural_zh = "环境"
    settings = EnvironmentSettings
    formats = ()

    def sniff(self, path: Path, config: Any) -> str:
        return ""

    def sniff_name(self, source: str, config: Any) -> str:
        return opening.recognised(source)

    def read(self, path: Path, config: Any, like: Source | None = None) -> Source:
        raise CanonError(f"{path} is not an environment: name a gymnasium id, or FILE.py:NAME.")

    def read_files(self, record: Dataset, files: dict[str, Path], config: Any) -> Source:
        raise CanonError(f"{record.name} is not an environment.")

    def source(self, config: Any) -> EnvironmentSource:
        opener = Opener(config.source, dict(config.arguments), config.max_steps)
        record = json.dumps([config.source, opener.arguments], sort_keys=True, default=str).encode()
        files = [FileRecord(config.source, 0, hashlib.sha256(record).hexdigest())]
        if (path := opening.file_of(config.source)) is not None and path.is_file():
            files = [FileRecord.of(path)]
        if config.transitions and (log := Path(config.transitions).expanduser()).is_file():
            files.append(FileRecord.of(log))
        notes = (f"It learns from the steps in {config.transitions}, not by acting.",) if config.transitions else ()
        return EnvironmentSource(
            config.source,
            {},
            tuple(files),
            notes,
            origin={"arguments": json.loads(json.dumps(opener.arguments, default=str))},
            kind=self,
            opener=opener,
        )

    def check(self, report: CheckReport, config: Any) -> Source:
        from canon.data.environments.checking import examine

        source = self.source(config)
        report.kind = self.plural
        notes, warnings = examine(source.opener)
        report.notes += notes
        for warning in warnings:
            report.warn(warning)
        return source


ENVIRONMENTS = EnvironmentKind()
