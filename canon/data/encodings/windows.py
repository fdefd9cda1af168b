"""Windows: a running text as one long row of tokens, read a window at a time as streams side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from canon.config import settings
from canon.data.batching.sequences import Windows, lined
from canon.data.corpus.text_blocks import Texts
from canon.data.encodings.base import Ask, Encoding, finish
from canon.data.encodings.tokenizing import tokenizer_for
from canon.data.formats import text as text_files
from canon.data.kinds.text import TEXT
from canon.data.paths import file_of
from canon.data.progress import bar
from canon.data.schema import Columns, Data, Schema, num_examples
from canon.data.settings import Size, Vocabulary
from canon.data.source import Source
from canon.data.splits import choose
from canon.data.targets import NextToken
from canon.errors import CanonError

if TYPE_CHECKING:
    import torch

    from canon.data.batching.loader import Order


@settings
class WindowSettings(Vocabulary):
    window: Size = Field(default=35, description="tokens of a running text read at a time")


@dataclass(frozen=True)
class WindowSchema(Schema):
    """Its tokeniser is "text"."""

    encoding = "windows"
    in_streams: ClassVar[bool] = True

    def sizes(self) -> dict[str, Any]:
        return {**super().sizes(), "vocab_size": self.tokenizers["text"].size}

    def order(self, columns: Columns, batch: int, tokens: int, seed: int, device: torch.device | None = None) -> Order:
        from canon.data.batching.loader import Streams

        return Streams(num_examples(columns), batch)

    def unit(self, columns: Columns) -> tuple[float, str]:
        windows = columns["input"]
        assert isinstance(windows, Windows)
        return (len(windows.tokens) - 1) / max(len(windows), 1), "tokens"


class WindowEncoding(Encoding):
    name = "windows"
    reads = (TEXT,)
    settings = WindowSettings
    schema = WindowSchema
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        documents = {name: _documents(text) for name, text in source.parts.items()}
        for name in documents:
            if not documents[name]:
                raise CanonError(f"{source.parts[name].name} is empty.")
        sized = Source(source.name, documents, test=source.test, origin=source.origin)
        chosen, rule = choose(sized, config, None, tail=True)
        texts = {name: [documents[part][row] for row in rows] for name, (part, rows) in chosen.items()}
        own = source.tokenizers[:1] or (ask.tokenizer,)
        tokenizer, note = tokenizer_for(config.tokenizer or own[0], texts["train"], config)
        splits: dict[str, Columns] = {}
        for name, some in texts.items():
            tokens = lined(tokenizer, some)
            if len(tokens) < 2:
                raise CanonError(f"The {name} split of {source.name} has {len(tokens)} tokens; two are the least.")
            splits[name] = {"input": Windows(tokens, config.window)}
        schema = WindowSchema(NextToken(), tokenizers={"text": tokenizer})
        counted = ", ".join(f"{len(columns['input'].tokens):,} {name}" for name, columns in splits.items())  # type: ignore[union-attr]
        return finish(source, schema, splits, rule, config, [note, f"Tokens: {counted}."])

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        return "" if NextToken in ask.targets else f"{source.name} has no labels."

    def columns(self, schema: WindowSchema, source: Source, config: Any) -> Columns:
        return {"input": _windows(schema, _documents(source.scored()), config)}

    def inputs(
        self, schema: WindowSchema, sources: Sequence[str], config: Any, text: bool
    ) -> tuple[Columns, list[str]]:
        documents: list[str] = []
        for source in sources:
            path = file_of(source, text)
            documents += [source] if path is None else text_files.documents(path, config.encoding)
        windows = _windows(schema, documents, config)
        return {"input": windows}, [f"window {index + 1}" for index in range(len(windows))]


def _documents(text: Texts) -> list[str]:
    from canon.data.corpus.token_blocks import documents

    found: list[str] = []
    with bar("reading text", 0) as progress:
        for _, document in documents(text):
            found.append(document)
            progress.advance()
    return found


def _windows(schema: WindowSchema, documents: Sequence[str], config: Any) -> Windows:
    tokens = lined(schema.tokenizers["text"], documents)
    if len(tokens) < 2:
        raise CanonError("The text has no tokens.")
    return Windows(tokens, config.window)


WINDOWS = WindowEncoding()
