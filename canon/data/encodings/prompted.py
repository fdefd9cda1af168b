"""Prompted texts: labelled texts in a template with slots, which a pre-trained network fills with label words.

Splits, tokeniser and frames are those of framed texts (framed.py); the template and the words are settings of the data,
since they name its columns and classes. Without them the template is the texts and the mask, and a class's word its
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import Field, PlainValidator

from canon.config import as_tuples, settings
from canon.data.columns import TextColumns
from canon.data.encodings.base import Ask, Inputs, counted, finish, tokenizer_for
from canon.data.encodings.framed import Backbone, FramedEncoding, FramedSchema, FramedSettings, codes_of, divide
from canon.data.encodings.framed_inputs import read_rows
from canon.data.encodings.prompted_rows import Demonstrations, PromptWriter, Vectors, plan_of
from canon.data.formats.rows import TextRows
from canon.data.formats.tables import read_table
from canon.data.kinds.examples import ExampleSource
from canon.data.kinds.labelled import LABELLED, text_rows
from canon.data.paths import find_path
from canon.data.records import Given
from canon.data.schema import Columns, Data, FileRecord
from canon.data.settings import layout
from canon.data.source import Source
from canon.data.targets import Class
from canon.data.text.label_words import Filling, Ids, encode_words, filling_of
from canon.data.text.templates import PromptTemplate, of_columns
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

TOKENS = "tokens"  # data.demo_encoder: vectors that need no network
_MOST_DEMOS = 2000  # training examples that a run keeps to demonstrate with


def _words(value: Any) -> dict[str, tuple[str, ...]]:
    """A word, or a list of words, of each class."""
    table = value if isinstance(value, dict) else {}
    table = {str(name): (words,) if isinstance(words, str) else words for name, words in table.items()}
    if not isinstance(value, dict) or not all(
        isinstance(words, list | tuple) and all(isinstance(word, str) for word in words) for words in table.values()
    ):
        raise ValueError(
            'data.words must be a table of words by class, as in { good = ["great", "fine"] }, and a name that has '
            f'other characters than ASCII letters in quotes, as in {{ "好评" = "满意" }}; got {value!r}.'
        )
    return {name: tuple(words) for name, words in table.items()}


@settings
class PromptedSettings(FramedSettings):
    template: str = layout("", 'of a prompt, as in "{sentence} It was {mask}."; default: the texts and the mask')
    words: Annotated[dict[str, tuple[str, ...]], PlainValidator(_words)] = Field(
        default_factory=dict,
        description='label words by class, as in { good = ["great"], bad = ["terrible"] }; default: the class\'s name',
        json_schema_extra={"layout": True},
    )
    demo_draws: Annotated[int, Field(gt=0, le=1000)] = Field(
        default=16, description="of {demos}: draws whose outputs are averaged"
    )
    demo_encoder: str = Field(
        default="",
        description="of {demos}: whose vectors say which half of each class is near: tokens (how often each comes), or "
        "a run or folder of a pre-trained network; default: all of a class",
    )
    unlabelled: str = layout("", "a file of texts without labels, by which the prior of label words is known")


class PromptStart(NamedTuple):
    """What a network that is prompted asks of its texts (`Ask.start`)."""

    backbone: Backbone
    head: bool = False  # whether a new head reads the sequence, in place of label words
    vectors: Vectors | None = None  # of texts, for demonstrations
    sha256: str = ""  # of the network that makes them


@dataclass(frozen=True)
class PromptedSchema(FramedSchema):
    encoding = "prompted"
    template: str = ""
    label_words: tuple[tuple[str, ...], ...] = ()  # of each class
    head: bool = False
    draws: int = 1  # sequences of each variant, with other demonstrations
    seed: int = 0
    near: str = ""  # by whose vectors demonstrations are near
    near_sha256: str = ""  # of that network
    vectors: Vectors | None = field(default=None, compare=False)  # that network again (`with_vectors`)
    # Of demonstrations: texts, seconds and labels of the training examples.
    demos: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def _of(cls, added: dict[str, Any], **core: Any) -> Self:
        return super()._of({key: as_tuples(value) for key, value in added.items()}, **core)

    def _added(self) -> dict[str, Any]:
        added = super()._added()
        del added["vectors"]
        return added

    @property
    def filling(self) -> Filling:
        return filling_of(self.framing, "the network")

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the columns of text."""
        return self.columns or ("text", "second")

    @property
    def word_ids(self) -> tuple[tuple[Ids, ...], ...]:
        if self.head:
            return ()
        template, tokenizer = PromptTemplate(self.template), self.tokenizers["text"]
        by_class = dict(zip(self.classes, map(tuple, self.label_words), strict=True))
        mask = template.mask
        spaced = plan_of(template, tokenizer).spaced
        return encode_words(tokenizer, by_class, self.classes, spaced, mask.count if mask else 0)

    def sizes(self) -> dict[str, Any]:
        template, specials = PromptTemplate(self.template), self.tokenizers["text"].specials
        opening = (specials.pad, *specials.sentinels[:1]) if self.filling is Filling.SENTINEL else ()
        return {
            **super().sizes(),
            "words": self.word_ids,
            "masks": template.mask.count if template.mask else 0,
            "soft": plan_of(template, self.tokenizers["text"]).soft,
            "triggers": template.num_triggers,
            "mask_id": specials.mask,
            "opening": opening,
        }

    def shown(self, inputs: Any, row: int) -> str:
        """The first sequence of an example, without trained and searched tokens."""
        tokenizer = self.tokenizers["text"]
        ids = inputs.sequence(inputs.starts_n[row])
        return tokenizer.decode(ids[ids < tokenizer.size])

    def writer(self, demos: Demonstrations | None) -> PromptWriter:
        return PromptWriter(
            self.tokenizers["text"],
            PromptTemplate(self.template),
            self.framing,
            self.filling,
            self.limit,
            self.texts,
            self.word_ids,
            demos,
        )

    def demonstrations(self) -> Demonstrations | None:
        if not self.demos:
            return None
        first, second, labels = self.demos
        rows = TextRows("the demonstrations", lambda row: f"example {row + 1}", list(first), list(second) or None)
        codes = np.array([self.classes.index(label) for label in labels])
        return Demonstrations(rows, codes, self.draws, self.seed, self._counts if self.near == TOKENS else self.vectors)

    def _counts(self, texts: Sequence[str]) -> np.ndarray:
        """How often each token comes, [n, V], each of length 1."""
        tokenizer = self.tokenizers["text"]
        ids, lengths = tokenizer.encode(texts)
        counts = np.zeros((len(texts), tokenizer.size), dtype=np.float32)
        np.add.at(counts, (np.repeat(np.arange(len(texts)), lengths), ids), 1)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)

    def comparable(self) -> Any:
        """Without what a prompt is, so that one may be compared with another and with fine-tuning."""
        return FramedSchema(self.target, columns=self.columns, monitor=self.monitor).comparable()


class PromptedEncoding(FramedEncoding):
    reads = (LABELLED,)
    settings = PromptedSettings
    schema = PromptedSchema
    causes = (
        "the label words may not say the classes, or the template may not fit them (data.template, data.words)",
        "the network may not be pre-trained, or on another language (train.init)",
        "another rate is needed: 1e-5 to 5e-5 for whole networks, 1e-3 and more for prompts alone (optimizer.lr)",
    )

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        assert isinstance(source, ExampleSource)
        asked: PromptStart = ask.start
        backbone = asked.backbone
        filling = filling_of(backbone.framing, backbone.name)
        source, target, parts, rule = divide(source, config, ask)
        assert isinstance(target, Class)
        columns = source.columns or ("text", *(() if _is_single(parts["train"]) else ("second",)))
        template = PromptTemplate(config.template or of_columns(columns, filling is Filling.CHAIN))
        template.check(columns, filling is Filling.CHAIN, needs_mask=not asked.head)
        words = config.words or {name: (name,) for name in target.classes}
        more = [template.text, *(word for several in words.values() for word in several)]
        tokenizer, note = backbone.tokenizer_or(
            config, lambda kind: _own_tokenizer(config, kind, [*parts["train"].texts(), *more])
        )
        train = parts["train"]
        assert isinstance(train, TextRows)
        schema = PromptedSchema(
            counted(target, codes_of(train, target.classes)),
            tokenizers={"text": tokenizer},
            framing=backbone.framing,
            limit=min(limit for limit in (backbone.limit, config.max_length) if limit),
            columns=source.columns,
            monitor=source.monitor,
            template=template.text,
            label_words=_ordered(words, target.classes, asked.head),
            head=asked.head,
            draws=config.demo_draws if template.has_demos else 1,
            seed=config.seed,
            near=config.demo_encoder,
            near_sha256=asked.sha256,
            vectors=asked.vectors,
            demos=_kept_demos(train) if template.has_demos else (),
        )
        demos = schema.demonstrations()
        splits: dict[str, Columns] = {}
        notes = ["", note, backbone.note, _shown(schema)]
        for name, part in parts.items():
            splits[name], more = prompted_columns(schema, part, demos)
            notes += [f"{name}: {text}" for text in more]
        schema = schema.measured(splits["train"]["input"].lengths_S)  # type: ignore[union-attr]
        files = source.files
        if config.unlabelled:
            path = find_path(config.unlabelled, named=False)
            files = (*files, FileRecord.of(path))
            rows = text_rows(read_table(path, config), TextColumns(schema.texts if source.columns else ("text",)))
            more_columns: dict[str, Columns] = {"unlabelled": {"input": schema.writer(demos).encode(rows)[0]}}
        else:
            more_columns = {}
        data = finish(replace(source, files=files), schema, splits, rule, config, notes)
        return replace(data, more=more_columns)

    def columns(self, schema: Any, source: Source, config: Any) -> Columns:
        return prompted_columns(schema, source.scored(), schema.demonstrations())[0]

    def inputs(self, schema: Any, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        rows, names = read_rows(schema, sources, config, text)
        assert isinstance(rows, TextRows)
        return prompted_columns(schema, replace(rows, labels=None), schema.demonstrations())[0], names


PROMPTED = PromptedEncoding()


def prompted_columns(schema: PromptedSchema, rows: Any, demos: Demonstrations | None) -> tuple[Columns, list[str]]:
    """Tokens, and targets where there are labels; and notes."""
    texts, cut = schema.writer(demos).encode(rows)
    columns: dict[str, Any] = {"input": texts}
    if rows.labels is not None:
        columns["target"] = codes_of(rows, schema.classes)
    long = f"{cut:,} of {len(rows):,} prompts are longer than {schema.limit} tokens; their columns are cut."
    return columns, [long] if cut else []


def _own_tokenizer(config: Any, kind: str, texts: Sequence[str]) -> tuple[Tokenizer, str]:
    """Of a network with random weights, with the special tokens of a prompt."""
    if kind.endswith(".json"):
        return tokenizer_for(kind, texts, config, native=True)
    lowercase, least = bool(config.lowercase), config.min_count or 1
    tokenizer = Tokenizer.train(texts, kind, config.vocab_size, lowercase, least, mask=True, sentinels=1)
    return tokenizer, f"The vocabulary ({kind}) has {tokenizer.size:,} tokens."


def _is_single(rows: Any) -> bool:
    return isinstance(rows, TextRows) and rows.second is None


def _ordered(words: Mapping[str, tuple[str, ...]], classes: Sequence[str], head: bool) -> tuple[tuple[str, ...], ...]:
    """The words of each class; what is missing or strange is an error of `encode_words`, which needs all of them."""
    if head:
        return ()
    strange = next((name for name in words if name not in classes), None)
    if strange is not None:
        raise CanonError(f'data.words names "{strange}", which is not a class; there is {", ".join(classes)}.')
    for name in classes:
        if not words.get(name):
            raise CanonError(f'data.words has no word for the class "{name}"; give one, as in {{ "{name}" = ["…"] }}.')
    return tuple(words[name] for name in classes)


def _kept_demos(rows: TextRows) -> tuple[tuple[str, ...], ...]:
    if len(rows) > _MOST_DEMOS:
        raise CanonError(
            f"{{demos}} draws from the training examples, {_MOST_DEMOS:,} at most; there are {len(rows):,}: set "
            "data.shots or data.limit."
        )
    return tuple(rows.first), tuple(rows.second or ()), tuple(rows.single())


def _shown(schema: PromptedSchema) -> str:
    listing = ", ".join(
        f"{name}: {'/'.join(words)}" for name, words in zip(schema.classes, schema.label_words, strict=False)
    )
    return f'The template: "{schema.template}"{f"; words: {listing}" if listing else ""}.'
