"""Passages: running text to pre-train on, as pieces of documents in tokens.

Nothing is held in memory: documents are streamed (token_blocks.py), tokens lie in files (token_store.py). The
vocabulary is learned from the training documents (from a sample of them if the text is huge), or it is that of a
tokenizer.json, a network's folder or a run, with its own ids. Tokens and vocabulary are kept on disk and used again.
The last documents are held out, so that no page is on both sides; of a text with few documents, the last passages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.batching.passages import Passages
from canon.data.corpus.store import corpora_folder
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.token_blocks import TextEncoder, documents, size_of
from canon.data.corpus.token_store import Stored, TokenCounts, stored
from canon.data.encodings.base import Ask, Encoding, Inputs, finish, texts_of
from canon.data.formats import text as text_files
from canon.data.kinds.text import TEXT
from canon.data.progress import bar
from canon.data.records import Given
from canon.data.schema import Columns, Data, FileRecord, TokenSchema
from canon.data.settings import Length, Vocabulary
from canon.data.source import SPLITS, Source
from canon.data.splits import held_count, held_out_shares
from canon.data.targets import HiddenTokens, Target
from canon.data.text.tokenizer_folder import open_tokenizer
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import KINDS
from canon.errors import CanonError
from canon.storage import read_json, write_text

SAMPLE = 1 << 25  # bytes of text that a vocabulary is learned from
FEW = 20  # documents; with fewer, passages are held out
LEAST = 2  # tokens of a document that something can be predicted of
VERSION = 1  # of the vocabularies that are kept


_SHOWN = 12  # tokens that a person is shown


@settings
class PassageSettings(Vocabulary, Length):
    segmenter: Literal["", "jieba"] = Field(
        default="", description="what finds the words of Chinese text, for masking whole ones"
    )
    phrases: str = Field(default="", description="a file of phrases, one a line, for masking whole ones")


@dataclass(frozen=True)
class PassageSchema(TokenSchema):
    """Its tokeniser is "text"."""

    encoding = "passages"

    def lengths(self, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
        passages = columns["input"]
        assert isinstance(passages, Passages)
        return passages.lengths, passages.lengths

    def shown(self, inputs: Any, row: int) -> str:
        return self.tokenizers["text"].decode(inputs.sequence(np.array([row])).tokens[:_SHOWN])

    def unit(self, columns: Columns) -> tuple[float, str]:
        passages = columns["input"]
        assert isinstance(passages, Passages)
        return passages.num_tokens / max(len(passages), 1), "tokens"


class PassageEncoding(Encoding):
    reads = (TEXT,)
    settings = PassageSettings
    schema = PassageSchema
    causes = (
        "too few steps or another rate is needed (train.steps, optimizer.lr with warmup)",
        "too little text for the network and its vocabulary (data.vocab_size)",
        "the text may not be what it seems: see canon check",
    )
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Split, tokenised and cut into passages of data.max_length tokens."""
        texts: dict[str, TextStream] = source.parts
        shares, rule = held_out_shares(config, source)
        tokenizer, notes, total = _tokenizer(config, source.tokenizers, texts["train"], shares, ask.sentinels)
        encoder = TextEncoder(tokenizer, config.segmenter, config.phrases, config.encoding)
        stores = {name: stored(text, encoder, total if name == "train" else 0) for name, text in texts.items()}
        parts = {name: _passages(store, config, encoder, texts[name].name) for name, store in stores.items()}
        splits, how = _split(parts, shares)
        if how:
            rule |= dict.fromkeys(shares, how)
        if 0 < config.limit < len(splits["train"]):
            splits["train"] = splits["train"].take(np.arange(config.limit))
            rule["limit"] = str(config.limit)
        if config.phrases:
            phrases = FileRecord.of(Path(config.phrases).expanduser())
            source = replace(source, files=(*source.files, phrases))
        lengths = splits["train"].lengths
        return finish(
            source,
            PassageSchema(HiddenTokens(), tokenizers={"text": tokenizer}).measured(lengths),
            {name: {"input": passages} for name, passages in splits.items()},
            rule,
            config,
            [*notes, *_counted(stores["train"].counts)],
            protocol={"max_length": config.max_length},
            examples=f"Passages of at most {config.max_length:,} tokens",
            remark=f"; {float(lengths.mean()):.0f} tokens on average in train",
            decided={"max_length": config.max_length},
        )

    def try_fit(self, source: Source, config: Any, ask: Ask) -> Target:
        """Any text can be read."""
        return HiddenTokens()

    # For a run that was trained

    def columns(self, schema: PassageSchema, source: Source, config: Any) -> Columns:
        text: TextStream = source.scored()
        encoder = TextEncoder(schema.tokenizers["text"], config.segmenter, config.phrases, config.encoding)
        return {"input": _passages(stored(text, encoder), config, encoder, text.name)}

    def inputs(self, schema: PassageSchema, sources: Sequence[Given], config: Any, text: bool) -> Inputs:
        """Files of documents, or texts; and a name for each passage."""
        given = [source for source in sources if not isinstance(source, str) or source.strip()]
        texts, names = texts_of(given, text, lambda path: (text_files.documents(path, config.encoding), "document"))
        encoder = TextEncoder(schema.tokenizers["text"], config.segmenter, config.phrases, config.encoding)
        passages = passages_of(texts, encoder, config.max_length)
        numbers = passages.document_of(np.arange(len(passages))).tolist()
        return {"input": passages}, [names[number] for number in numbers]


PASSAGES = PassageEncoding()


def _passages(part: Stored, config: Any, encoder: TextEncoder, name: str) -> Passages:
    if not part.counts.documents:
        raise CanonError(f"{name} is empty: there is no text to pre-train on.")
    passages = part.passages(config.max_length, encoder)
    if passages.lengths.max(initial=0) < min(LEAST, config.max_length):
        raise CanonError(
            f"{name} has no document of {LEAST} tokens: there is nothing to predict a token from; blank lines part "
            "documents, or line ends where there are none."
        )
    return passages


def _split(parts: Mapping[str, Passages], shares: Mapping[str, float]) -> tuple[dict[str, Passages], str]:
    """Train, valid and test; and how shares were held out if not by documents."""
    train = parts["train"]
    count, how = len(train.documents) - 1, ""
    few = count < FEW
    stop = len(train) if few else count
    cut: dict[str, Passages] = {}
    for name, share in shares.items():
        held = held_count(stop, share)
        held = max(held, 2) if held and not few else held  # two, so that each has another document to draw from
        if held:
            cut[name] = train.take(np.arange(stop - held, stop)) if few else train.between(stop - held, stop)
            stop -= held
            how = f"the last {share:g} of the passages" if few else how
    whole = {**parts, **cut, "train": train.take(np.arange(stop)) if few else train.between(0, stop)}
    return {name: whole[name] for name in SPLITS if name in whole and len(whole[name])}, how


def _counted(text: TokenCounts) -> list[str]:
    unknown_share = f"; {text.unknown / max(text.tokens, 1):.2%} are unknown" if text.unknown else ""
    notes = [
        f"The text has {text.documents:,} documents, {text.sentences:,} sentences and {text.tokens:,} tokens"
        f"{unknown_share}."
    ]
    if 2 * text.several < text.documents:
        notes.append(
            f"Only {text.several / text.documents:.0%} of the documents have several sentences, which objectives with "
            "next sentences need; blank lines part documents, or line ends where there are none."
        )
    return notes


# The vocabulary


@dataclass(frozen=True)
class Survey:
    documents: int
    bytes: int  # of UTF-8


def _tokenizer(
    config: Any, kinds: Sequence[str], text: TextStream, shares: Mapping[str, float], sentinels: int
) -> tuple[Tokenizer, list[str], int]:
    """The tokeniser, notes on it, and the bytes of the text where they were counted."""
    kind = config.tokenizer or next(iter(kinds), "bpe")
    if kind == "jieba":
        raise CanonError(
            'data.tokenizer = "jieba" is for word vectors; to mask whole Chinese words give data.segmenter = "jieba" '
            "and a tokenizer such as char or wordpiece."
        )
    if kind not in KINDS:
        tokenizer = open_tokenizer(kind)
        if config.vocab_size and tokenizer.size > config.vocab_size:
            raise CanonError(
                f"{kind} has {tokenizer.size:,} tokens, more than data.vocab_size = {config.vocab_size}; leave that "
                "out, or name a kind of tokenizer to be trained."
            )
        return tokenizer, [f"The vocabulary ({kind}) has {tokenizer.size:,} tokens."], 0
    content = {"text": text.identity(), "kind": kind, "sentinels": sentinels, "shares": list(shares.items())}
    lowercase, min_count = bool(config.lowercase), config.min_count or 1
    content |= {"vocab_size": config.vocab_size, "lowercase": lowercase, "min_count": min_count}

    def make() -> tuple[Tokenizer, Survey, int]:
        count = size = 0
        with bar("counting documents", text.size, "bytes") as progress:
            for _, document in documents(text):
                count += 1
                size += (more := size_of(document))
                progress.advance(more)
        if not count:
            raise CanonError(f"{text.name} is empty: there is no text to pre-train on.")
        survey, step = Survey(count, size), -(-size // SAMPLE)
        how = config.vocab_size, lowercase, min_count
        sample = _sample(text, survey, shares, step)
        return Tokenizer.train(sample, kind, *how, mask=True, sentinels=sentinels), survey, step

    tokenizer, survey, step = _kept(content, make)
    notes = [f"The vocabulary ({kind}) has {tokenizer.size:,} tokens."]
    if step > 1:
        notes.append(
            f"It was learned from one document in {step:,}, about {SAMPLE >> 20} MB of {survey.bytes >> 20:,} MB."
        )
    return tokenizer, notes, survey.bytes


def _sample(text: TextStream, survey: Survey, shares: Mapping[str, float], step: int) -> Callable[[], Iterator[str]]:
    """Every step-th training document; of few documents, the beginning of them all."""
    stop, room = survey.documents, float(survey.bytes)
    for share in shares.values():
        held = held_count(stop, share)
        stop -= max(held, 2) if held else 0
        room *= 1 - share

    def stream() -> Iterator[str]:
        if survey.documents >= FEW:
            yield from (document for _, document in islice(documents(text), 0, stop, step))
            return
        left = min(room, SAMPLE)
        for _, document in documents(text):
            if left > 0:
                size = size_of(document)
                yield document[: max(int(len(document) * left / size), 1)] if size > left else document
                left -= size

    return stream


def _kept(content: dict[str, Any], make: Callable[[], tuple[Tokenizer, Survey, int]]) -> tuple[Tokenizer, Survey, int]:
    """What `make` gave when it was first asked for this content."""
    key = hashlib.sha256(json.dumps({"version": VERSION, **content}, sort_keys=True).encode()).hexdigest()[:32]
    path = corpora_folder() / f"vocabulary-{key}.json"
    with suppress(KeyError, TypeError, ValueError):  # damaged: it is made again
        known = read_json(path)
        return Tokenizer.from_json(known["tokenizer"]), Survey(**known["survey"]), int(known["step"])
    tokenizer, survey, step = make()
    record = {"survey": asdict(survey), "step": step, "tokenizer": tokenizer.to_json()}
    with suppress(CanonError):  # writing the tokens needs the folder too, and reports what is wrong with it
        write_text(path, json.dumps(record, ensure_ascii=False))
    return tokenizer, survey, step


def passages_of(texts: Sequence[str], encoder: TextEncoder, length: int) -> Passages:
    """Documents in memory as passages, without a store."""
    blocks = [block.encoded for block in encoder.blocks(TextStream(documents=texts))]
    tokenizer = encoder.tokenizer
    tokens, begins, sentences, counts = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    # Each block counts its tokens and sentences from its own start.
    sentences += np.repeat(_before([len(block.tokens) for block in blocks]), [len(block.sentences) for block in blocks])
    counts += np.repeat(_before([len(block.sentences) for block in blocks]), [len(block.documents) for block in blocks])
    bounds = np.append(0, sentences), np.append(0, counts)
    return Passages(tokens, begins, *bounds, length, tokenizer.specials, tokenizer.size)


def _before(sizes: list[int]) -> np.ndarray:
    return np.cumsum([0, *sizes[:-1]])
