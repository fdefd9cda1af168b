"""Another project's folder as if it were a run: `canon.load(FOLDER)`, `canon evaluate FOLDER`.

Nothing is written: settings, vocabulary and weights are those of the folder (canon/interop), and the recipe is what
they need to be evaluated on a text.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from canon import recipe as recipes
from canon.config import Table
from canon.data.schema import Schema
from canon.errors import CanonError
from canon.interop import formats
from canon.interop.formats import FileChoices, GivesWeights
from canon.objectives.choosing import of_network
from canon.recipe import Recipe
from canon.training.run import Run
from canon.use.pipeline.settings import is_pipeline_run

if TYPE_CHECKING:
    from canon.interop.network import Network

EPOCHS = 10  # of the recipe of weights made elsewhere; it is never trained unchanged


def open_run(path: str | Path) -> Run:
    """The run at `path`, or another project's folder as one."""
    folder = Path(path).expanduser()
    if folder.is_dir() and not (folder / "recipe.toml").is_file():
        origin = formats.recognise(folder)
        if isinstance(origin, GivesWeights):
            return FolderRun(origin)
    if is_pipeline_run(folder):
        ranker = folder / "rank" / "run"
        more = f"; its ranker is the run {ranker}" if ranker.is_dir() else ""
        raise CanonError(f"{path} is a pipeline, which canon search, recommend and evaluate read{more}.")
    return Run.open(path)


class FolderRun(Run):
    """`Run` for a folder instead of a run directory."""

    def __init__(self, origin: GivesWeights) -> None:
        super().__init__(origin.path)
        self.origin = origin

    @cached_property
    def network(self) -> Network:
        return self.origin.network(FileChoices())

    @cached_property
    def recipe(self) -> Recipe:
        table = of_network(self.network.system.name, self.origin.weights.settings)
        more: Table = {"data": self.network.data, "train": {"epochs": EPOCHS}}
        return recipes.build(table | more, f"weights of {self.path.name}", {}).resolved(1)

    @cached_property
    def schema(self) -> Schema:
        return self.network.schema

    def best(self) -> Path:
        return self.path
