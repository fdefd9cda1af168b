"""Windows: a running text as one long row of tokens, read a window at a time as streams side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from canon.config import settings
from canon.data.batching.sequences import Windows, lined
from canon.data.corpus.text_blocks import TextStream
from canon.data.encodings.base import Ask, Encoding, Inputs, finish, texts_of, tokenizer_for
from canon.data.formats import text as text_files
from canon.data.kinds.text import TEXT
from canon.data.progress import bar
from canon.data.records import Given
from canon.data.schema import Columns, Data, Schema, num_examples
from canon.data.settings import Size, Vocabulary
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import NextToken, Target
from canon.errors import CanonError

if TYPE_CHECKING:
    import torch

    from canon.data.batching.loader import Order


_SHOWN = 12  # tokens that a person is shown


@settings
class WindowSettings(Vocabulary):
    window: Size = Field(default=35, description="tokens of a running text read at a time")


@dataclass(frozen=True)
class WindowSchema(Schema):
    """Its tokeniser is "text"."""

    encoding = "windows"
    in_streams: ClassVar[bool] = True

    def order(self, columns: Columns, batch: int, tokens: int, seed: int, device: torch.device | None = None) -> Order:
        from canon.data.batching.loader import Streams

        return Streams(num_examples(columns), batch)

    def shown(self, inputs: Any, row: int) -> str:
        return self.tokenizers["text"].decode(inputs.tokens[row * inputs.window :][:_SHOWN])

    def unit(self, columns: Columns) -> tuple[float, str]:
        windows = columns["input"]
        assert isinstance(windows, Windows)
        return (len(windows.tokens) - 1) / max(len(windows), 1), "tokens"


class WindowEncoding(Encoding):
    reads = (TEXT,)
    settings = WindowSettings
    schema = WindowSchema
    causes = (
        "too few steps or another rate is needed (train.steps, optimizer.lr)",
        "too little text for the vocabulary (data.vocab_size, data.tokenizer)",
        "the text may not be what it seems: see canon check",
    )
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        documents = {name: _documents(text) for name, text in source.parts.items()}
        for name, part in documents.items():
            if not part:
                raise CanonError(f"{source.parts[name].name} is empty: there is no text to learn from.")
        sized = Source(source.name, documents, test=source.test, origin=source.origin)
        chosen, rule = choose(sized, config, tail=True)
        texts = {name: [documents[part][row] for row in rows] for name, (part, rows) in chosen.items()}
        kind = config.tokenizer or next(iter(source.tokenizers), ask.tokenizer)
        tokenizer, note = tokenizer_for(kind, texts["train"], config)
        splits: dict[str, Columns] = {}
        for name, some in texts.items():
            tokens = lined(tokenizer, some)
            if len(tokens) < 2:
                raise CanonError(
                    f"The {name} split of {source.name} has {len(tokens)} tokens; at least two are needed."
                )
            splits[name] = {"input": Windows(tokens, config.window)}
        schema = WindowSchema(NextToken(), tokenizers={"text": tokenizer})
        counted = ", ".join(f"{len(columns['input'].tokens):,} {name}" for name, columns in splits.items())  # type: ignore[union-attr]
        return finish(source, schema, splits, rule, config, [note, f"Tokens: {counted}."])

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        """Any text can be read."""
        return NextToken()

    def columns(self, schema: WindowSchema, source: Source, config: Any) -> Columns:
        return {"input": _windows(schema, _documents(source.scored()), config)}

    def inputs(self, schema: WindowSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        documents, _ = texts_of(sources, text, lambda path: (text_files.documents(path, config.encoding), "document"))
        windows = _windows(schema, documents, config)
        return {"input": windows}, [f"window {index + 1}" for index in range(len(windows))]


def _documents(text: TextStream) -> list[str]:
    from canon.data.corpus.token_blocks import documents

    with bar("reading text", 0) as progress:
        return [document for _, document in progress.over(documents(text))]


def _windows(schema: WindowSchema, documents: Sequence[str], config: Any) -> Windows:
    tokens = lined(schema.tokenizers["text"], documents)
    if len(tokens) < 2:
        raise CanonError("The text has no tokens; give a text of two words or more.")
    return Windows(tokens, config.window)


WINDOWS = WindowEncoding()
