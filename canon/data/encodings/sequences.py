"""Sequences: sentences and what they become, each in tokens of its own vocabulary or of a shared one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.batching.framed import objects
from canon.data.batching.sequences import Ragged
from canon.data.encodings.base import Ask, Encoding, Inputs, finish, texts_of, tokenizer_for
from canon.data.formats.files import lines
from canon.data.formats.pairs import Pairs
from canon.data.kinds.parallel import PARALLEL
from canon.data.records import Given
from canon.data.schema import Columns, Data, TokenSchema, take
from canon.data.settings import Length, Vocabulary
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import OtherText, Target
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer


@settings
class SequenceSettings(Vocabulary, Length):
    target_tokenizer: str = Field(default="", description="of the target; default: one vocabulary for both sides")


@dataclass(frozen=True)
class SequenceSchema(TokenSchema):
    """Its tokenisers are "source" and "target", which may be one and the same."""

    encoding = "sequences"

    @property
    def shared(self) -> bool:
        """Whether source and target have one vocabulary."""
        return self.tokenizers.get("source") is self.tokenizers.get("target")

    def sizes(self) -> dict[str, Any]:
        vocabularies = {f"{role}_vocab": self.tokenizers[role].size for role in ("source", "target")}
        return {**super().sizes(), **vocabularies, "shared_vocab": self.shared}

    def lengths(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        """By target, then source: both are padded for attention on a CPU."""
        source, target = columns["input"], columns["target"]
        assert isinstance(source, Ragged) and isinstance(target, Ragged)
        return target.lengths * (source.lengths.max() + 1) + source.lengths, target.lengths - 1

    def shown(self, inputs: Any, row: int) -> str:
        return self.tokenizers["source"].decode(inputs[row])

    def unit(self, columns: Columns) -> tuple[float, str]:
        target = columns["target"]
        assert isinstance(target, Ragged)
        return (len(target.tokens) - len(target)) / max(len(target), 1), "tokens"


class SequenceEncoding(Encoding):
    reads = (PARALLEL,)
    settings = SequenceSettings
    schema = SequenceSchema
    causes = (
        "too few steps or another rate is needed (train.steps, optimizer.lr)",
        "the two sides may not belong together: see the alignment of canon check",
        "too few pairs for the network: a smaller preset learns sooner",
    )
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        chosen, rule = choose(source, config)
        pairs = {name: source.parts[part].take(rows) for name, (part, rows) in chosen.items()}
        train = pairs["train"]
        kind = config.tokenizer or next(iter(source.tokenizers), "")
        target_kind = config.target_tokenizer or ("" if config.tokenizer else next(iter(source.tokenizers[1:]), ""))
        if target_kind:
            first, note = tokenizer_for(kind, train.source, config, "source ")
            second, more = tokenizer_for(target_kind, train.target, config, "target ")
            notes = [note, more]
        else:
            first, note = tokenizer_for(kind, [*train.source, *train.target], config, "shared ")
            second, notes = first, [note]
        splits: dict[str, Columns] = {}
        for name, part in pairs.items():
            columns = pair_columns(first, second, part, scored=name != "train")
            fits = np.all([columns[side].lengths <= config.max_length for side in ("input", "target")], axis=0)  # type: ignore[union-attr]
            if name == "train" and not fits.all():
                kept = np.flatnonzero(fits)
                if not len(kept):
                    raise CanonError(f"{source.name}: every pair is longer than data.max_length = {config.max_length}.")
                notes.append(f"{len(fits) - len(kept):,} pairs over {config.max_length} tokens are left out.")
                columns = take(columns, kept)
            splits[name] = columns
        lengths = [splits["train"][column].lengths for column in ("input", "target")]  # type: ignore[union-attr]
        schema = SequenceSchema(OtherText(), tokenizers={"source": first, "target": second}).measured(*lengths)
        return finish(source, schema, splits, rule, config, notes)

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        """Any pairs can be read."""
        return OtherText()

    # For a run that was trained

    def columns(self, schema: SequenceSchema, source: Source, config: Any) -> Columns:
        return pair_columns(schema.tokenizers["source"], schema.tokenizers["target"], source.scored())

    def inputs(self, schema: SequenceSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """Sentences in files, one a line, in a column "source" of rows, or as arguments."""
        sentences, names = texts_of(
            sources,
            text,
            lambda path: (lines(path, config.encoding), "document"),
            lambda rows: rows.texts(("source", "text")),
        )
        return {
            "input": Ragged.encode(schema.tokenizers["source"], sentences),
            "target": Ragged.encode(schema.tokenizers["target"], [""] * len(sentences), bos=True),
        }, names


def pair_columns(source: Tokenizer, target: Tokenizer, pairs: Pairs, scored: bool = True) -> Columns:
    """Tokens of both sides; and, where they will be scored, the right answers as they stand in the data: what a
    tokeniser gives back may lack a character, a space or capitals."""
    columns: dict[str, Any] = {
        "input": Ragged.encode(source, pairs.source),
        "target": Ragged.encode(target, pairs.target, bos=True),
    }
    references = pairs.references
    if references is None and scored:
        references = [(text,) for text in pairs.target]
    if references is not None:
        columns["references"] = objects(references)
    return columns


SEQUENCES = SequenceEncoding()
