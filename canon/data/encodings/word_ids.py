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
from canon.data.corpus.word_counts import cut_as, least_count
from canon.data.encodings.base import Ask, Encoding, Inputs, finish, texts_of
from canon.data.formats import word_tests
from canon.data.formats.files import lines
from canon.data.kinds.text import TEXT
from canon.data.records import Given
from canon.data.schema import Columns, Data, FileRecord, Schema
from canon.data.settings import Vocabulary
from canon.data.source import SPLITS, Source, TextSource
from canon.data.splits import held_out_shares
from canon.data.targets import Nothing, Target
from canon.data.text.words import Words
from canon.errors import CanonError


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

    def unit(self, columns: Columns) -> tuple[float, str]:
        corpus = columns["input"]
        assert isinstance(corpus, Corpus)
        return corpus.num_words / max(len(corpus), 1), "words"


class WordIds(Encoding):
    reads = (TEXT,)
    settings = WordIdSettings
    schema = WordIdSchema
    causes = (
        "too little text, or too few words left by data.min_count",
        "another rate or more epochs are needed (system.lr, train.epochs)",
        "words may not be split as they should be (data.tokenizer)",
    )
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """The text in the numbers of its words, and the tests of data.tests.

        ask.start: words of an earlier run, which stay; the vocabulary is then that of both texts.
        """
        keep: Words | None = ask.start
        config, note = cut_as(config, source.parts["train"], source.tokenizers)
        shares, rule = held_out_shares(config, source)
        built = build_parts(source.parts, config, shares, keep)
        parts = dict(built.parts)
        if 0 < config.limit < len(parts["train"]):
            parts["train"] = parts["train"].part(0, config.limit)
            rule["limit"] = str(config.limit)
        splits: dict[str, Columns] = {name: {"input": parts[name]} for name in SPLITS if len(parts.get(name, ()))}
        least = least_count(config.min_count, built.counts.words)
        schema, notes = WordIdSchema(words=built.words), [note, *_notes(built, least, config.min_count == 0, keep)]
        decided = {"tokenizer": config.tokenizer, "lowercase": config.lowercase, "min_count": least}
        places = "Places (words and line ends)"
        data = finish(source, schema, splits, rule, config, notes, protocol={}, examples=places, decided=decided)
        if not config.tests:
            return data
        judged = list(splits)[-1]
        return replace(
            data,
            splits={**splits, judged: {**splits[judged], "tests": word_tests.read_tests(config.tests)}},
            files=(*source.files, *map(FileRecord.of, word_tests.find_tests(config.tests).values())),
            protocol={**data.protocol, "tests": list(config.tests)},
        )

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        if isinstance(source, TextSource) and source.frequent == 0:
            raise CanonError(f"{source.name} has too little text to learn word vectors from.")
        return Nothing()

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
        config, _ = cut_as(config, source.scored(), source.tokenizers)
        return {"input": encode_text(source.scored(), schema.words, config)}

    def inputs(self, schema: WordIdSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """The words to look up: arguments, words in files, any number a line, or in a column "word" of rows."""
        rows, _ = texts_of(
            sources,
            text,
            lambda path: (lines(path, config.encoding), "line"),
            lambda rows: rows.texts(("word", "text")),
        )
        words = [word.lower() if config.lowercase else word for row in rows for word in row.split()]
        return {"input": objects(words)}, words


WORD_IDS = WordIds()


def _notes(built: Built, least: int, chosen: bool, keep: Words | None) -> list[str]:
    """chosen: whether `least` follows from the size of the text."""
    text, words = built.counts, built.words
    kept = int(words.counts.sum())
    seen = "seen once or more" if least == 1 else f"seen {least:,} times or more"
    seen += ", by the text's size: data.min_count" if chosen else ""
    different = f"{'over ' if text.forgotten else ''}{text.different:,} different"
    count = f"{text.sentences:,} line{'' if text.sentences == 1 else 's'}"
    notes = [
        f"The text has {text.words:,} words, {different}, in {count}.",
        f"{words.size:,} words are kept ({seen}): {kept / max(words.total, 1):.1%} of the training text.",
    ]
    if keep:
        notes[1] = f"{words.size:,} words are kept: the {keep.size:,} of the earlier run, and new ones {seen}."
    if text.left:
        notes.append(f"{text.left:,} words are too long for one (over 1,000 bytes) and are left out.")
    if text.forgotten:
        notes.append(
            f"There are too many different words to count all: some seen under {text.forgotten} times are forgotten."
        )
    return notes
