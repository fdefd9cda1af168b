"""Word ids: a running text in the numbers of its words, in a memory-mapped file, for word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from canon.config import settings
from canon.data.batching.framed import objects
from canon.data.corpus.corpus import Built, Corpus, build_parts, encode_text
from canon.data.corpus.word_counts import tokenizer_of
from canon.data.encodings.base import Ask, Encoding
from canon.data.formats import word_tests
from canon.data.formats.files import lines as file_lines
from canon.data.kinds.text import TEXT
from canon.data.paths import file_of
from canon.data.schema import Columns, Data, FileRecord, Schema
from canon.data.settings import Vocabulary
from canon.data.source import Source, TextSource
from canon.data.splits import held_out_shares
from canon.data.targets import Nothing
from canon.data.text.words import Words


@settings
class WordIdSettings(Vocabulary):
    tests: tuple[str, ...] = Field(
        default=(),
        description="of word vectors: files of word pairs with a number, or of analogies, or wordsim353, simlex999, "
        "questions-words, CA8/morphological, CA8/semantic",
    )


@dataclass(frozen=True)
class WordIdSchema(Schema):
    encoding = "word-ids"

    def sizes(self) -> dict[str, Any]:
        assert self.words is not None
        return {**super().sizes(), "vocab_size": self.words.size}

    def unit(self, columns: Columns) -> tuple[float, str]:
        corpus = columns["input"]
        assert isinstance(corpus, Corpus)
        return corpus.num_words / max(len(corpus), 1), "words"


class WordIds(Encoding):
    name = "word-ids"
    reads = (TEXT,)
    settings = WordIdSettings
    schema = WordIdSchema
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """The text in the numbers of its words, and the tests of data.tests.

        ask.start: words of an earlier run, which stay; the vocabulary is then that of both texts.
        """
        keep: Words | None = ask.start
        config = replace(config, tokenizer=tokenizer_of(config.tokenizer, source.tokenizers))
        shares, rule = held_out_shares(config, source)
        built = build_parts(source.parts, config, shares, keep)
        splits: dict[str, Columns] = {name: {"input": part} for name, part in built.parts.items() if len(part)}
        if 0 < config.limit < len(built.parts["train"]):
            splits["train"] = {"input": built.parts["train"].part(0, config.limit)}
            rule["limit"] = str(config.limit)
        ordered: dict[str, Columns] = {name: splits[name] for name in ("train", "valid", "test") if name in splits}
        files = source.files
        if config.tests:
            judged = next(name for name in ("test", "valid", "train") if name in ordered)
            ordered[judged] = {**ordered[judged], "tests": word_tests.read_tests(config.tests)}
            files = (*files, *(FileRecord.of(path) for path in word_tests.find_tests(config.tests).values()))
        protocol = {
            "source": source.name,
            **source.origin,
            "split": rule,
            "sizes": {name: len(columns["input"]) for name, columns in ordered.items()},
            **({"tests": list(config.tests)} if config.tests else {}),
        }
        notes = (*source.notes, *_notes(built, config, keep), *_described(ordered, rule))
        return Data(source.name, WordIdSchema(words=built.words), ordered, files, notes, protocol)

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        if isinstance(source, TextSource) and source.frequent == 0:
            return f"{source.name} has too little text to learn word vectors from."
        return "" if Nothing in ask.targets else f"{source.name} has no labels."

    # For a run that was trained

    def labelled(self, schema: WordIdSchema, source: str, config: Any) -> Columns:
        """A test of word vectors, or a text (its test part, where it has one)."""
        place = Path(source).expanduser()
        if source in word_tests.NAMES or (place.is_file() and word_tests.form_of(place)):
            return {"tests": word_tests.read_tests([source])}
        if source == word_tests.SET:
            return {"tests": word_tests.read_tests(word_tests.NAMES)}
        return super().labelled(schema, source, config)

    def columns(self, schema: WordIdSchema, source: Source, config: Any) -> Columns:
        assert schema.words is not None
        config = replace(config, tokenizer=tokenizer_of(config.tokenizer, source.tokenizers))
        return {"input": encode_text(source.scored(), schema.words, config)}

    def inputs(
        self, schema: WordIdSchema, sources: Sequence[str], config: Any, text: bool
    ) -> tuple[Columns, list[str]]:
        """Words whose vectors are asked for: given, or in files, however many a line."""
        words: list[str] = []
        for source in sources:
            path = file_of(source, text)
            rows = [source] if path is None else file_lines(path, config.encoding)
            words += [word for row in rows for word in row.split()]
        if config.lowercase:
            words = [word.lower() for word in words]
        return {"input": objects(words)}, words


WORD_IDS = WordIds()


def _notes(built: Built, config: Any, keep: Words | None) -> list[str]:
    text, words = built.told, built.words
    kept = int(words.counts.sum())
    seen = "seen once or more" if config.min_count == 1 else f"seen {config.min_count:,} times or more"
    different = f"{'over ' if text.forgotten else ''}{text.different:,} different"
    lines = f"{text.sentences:,} line{'' if text.sentences == 1 else 's'}"
    notes = [
        f"The text has {text.words:,} words, {different}, in {lines}.",
        f"{words.size:,} words are kept ({seen}): {kept / max(words.total, 1):.1%} of the training text.",
    ]
    if keep:
        notes[1] = f"{words.size:,} words are kept: the {keep.size:,} of before, and new ones {seen}."
    if text.left:
        notes.append(f"{text.left:,} words are too long for one (over 1,000 bytes) and are left out.")
    if text.forgotten:
        notes.append(
            f"There are too many different words to count all: some seen under {text.forgotten} times are forgotten."
        )
    return notes


def _described(splits: dict[str, Columns], rule: dict[str, str]) -> list[str]:
    places = []
    for name, columns in splits.items():
        corpus = columns["input"]
        assert isinstance(corpus, Corpus)
        places.append(f"{len(corpus):,} {name}")
    how = "; ".join(f"{name}: {text}" for name, text in rule.items())
    return [f"Places (words and line ends): {', '.join(places)}{f' ({how})' if how else ''}."]
