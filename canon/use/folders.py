"""A network's folder in Hugging Face's layout as if it were a run: `canon.load(FOLDER)`, `canon convert FOLDER RUN`.

Nothing is written: settings, vocabulary and weights are those of the folder (canon/interop/huggingface.py), and the
recipe is what they need to be evaluated on a text or to be trained on.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from canon import recipe as recipes
from canon import registry
from canon.config import Table
from canon.data.encodings.passages import PassageSchema
from canon.data.schema import Schema
from canon.data.targets import HiddenTokens
from canon.errors import CanonError
from canon.interop.huggingface import Found, read_folder
from canon.objectives.choosing import of_network
from canon.recipe import Recipe
from canon.training.run import Run

EPOCHS = 10  # of the recipe of weights made elsewhere; it is never trained as it is
_LENGTH = 128  # tokens of a passage, where the network has room for them
_FRAME = 3  # special tokens around two texts


class FolderRun(Run):
    """What `Run` tells of a run directory, of a folder."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path).expanduser())
        self.found: Found = read_folder(path)
        self.system, _ = registry.find(self.found.system)
        self.config: Any = self.system.configure("", self.found.settings)

    @cached_property
    def recipe(self) -> Recipe:
        title = f"weights of {self.path.name}"
        table = of_network(self.system.name, self.found.settings)
        more: Table = {"data": self.data_settings, "train": {"epochs": EPOCHS}}
        return recipes.build(table | more, title, {}).resolved(1)

    @property
    def data_settings(self) -> Table:
        """The [data] section that suits the network."""
        room = vars(self.config).get("max_positions", 0) or _LENGTH + _FRAME
        return {"tokenizer": str(self.path), "max_length": max(min(_LENGTH, room - _FRAME), 1)}

    @cached_property
    def schema(self) -> Schema:
        if self.found.tokenizer is None:
            raise CanonError(
                f"{self.path} has no tokenizer (tokenizer.json, vocab.txt, or vocab.json and merges.txt), without "
                "which its network cannot read a text."
            )
        length = self.data_settings["max_length"]
        tokenizers = {"text": self.found.tokenizer}
        return PassageSchema(HiddenTokens(), tokenizers=tokenizers, longest=(length,), typical=(length,))

    @property
    def weights(self) -> Path:
        """The file to name, and to know the weights by."""
        return self.found.weights

    def best(self) -> Path:
        return self.path
