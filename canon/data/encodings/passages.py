"""Sources of text to pre-train on: named sets, files, folders and table columns to passages of tokens.

Nothing is held in memory: documents are streamed (token_blocks.py), tokens lie in files (token_store.py). The
vocabulary is learnt from the training documents, of a huge text from some of them all over it; or it is that of a
tokenizer.json, of a network's folder or of a run, with its own ids. Both are kept and found again.
Held out are the last documents, so that no page is on both sides; of a text in few documents, the last passages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from canon.config import settings
from canon.data.batching.passages import Passages
from canon.data.catalogue import corpora_folders
from canon.data.corpus.text_blocks import Texts
from canon.data.corpus.token_blocks import TextEncoder, documents, size_of
from canon.data.corpus.token_store import Stored, Told, stored
from canon.data.encodings.base import Ask, Encoding
from canon.data.formats import text as text_files
from canon.data.kinds.text import TEXT
from canon.data.paths import file_of
from canon.data.progress import bar
from canon.data.schema import Columns, Data, FileRecord, TokenSchema
from canon.data.settings import Length, Vocabulary
from canon.data.source import Source
from canon.data.splits import held_count, held_out_shares
from canon.data.targets import HiddenTokens
from canon.data.text.open_tokenizer import open_tokenizer
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import KINDS
from canon.errors import CanonError
from canon.storage import read_json, write_text

if TYPE_CHECKING:
    import torch

    from canon.data.batching.loader import Order

SAMPLE = 1 << 25  # bytes of text that a vocabulary is learnt from
FEW = 20  # documents; with fewer, passages are held out
LEAST = 2  # tokens of a document that something can be predicted of
VERSION = 1  # of the vocabularies that are kept


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

    def sizes(self) -> dict[str, Any]:
        return {**super().sizes(), "vocab_size": self.tokenizers["text"].size}

    def order(self, columns: Columns, batch: int, tokens: int, seed: int, device: torch.device | None = None) -> Order:
        if not tokens:
            return super().order(columns, batch, tokens, seed, device)
        from canon.data.batching.loader import ByLength

        passages = columns["input"]
        assert isinstance(passages, Passages)
        return ByLength(passages.lengths, passages.lengths, tokens, seed)

    def unit(self, columns: Columns) -> tuple[float, str]:
        passages = columns["input"]
        assert isinstance(passages, Passages)
        return passages.num_tokens / max(len(passages), 1), "tokens"


class PassageEncoding(Encoding):
    name = "passages"
    reads = (TEXT,)
    settings = PassageSettings
    schema = PassageSchema
    takes_text = True

    def fit(self, source: Source, config: Any, ask: Ask) -> Data:
        """Split, tokenised and cut into passages of data.max_length tokens."""
        texts: dict[str, Texts] = source.parts
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
        files = source.files
        if config.phrases:
            files = (*files, FileRecord.of(Path(config.phrases).expanduser()))
        protocol = {
            "source": source.name,
            **source.origin,
            "split": rule,
            "max_length": config.max_length,
            "sizes": {name: len(passages) for name, passages in splits.items()},
        }
        train = splits["train"]
        schema = PassageSchema(
            HiddenTokens(),
            tokenizers={"text": tokenizer},
            longest=(int(train.lengths.max()),),
            typical=(round(float(train.lengths.mean())),),
        )
        counted = _counted(stores["train"].told), _described(splits, rule, config.max_length)
        notes = [*source.notes, *notes, *counted[0], counted[1]]
        columns: dict[str, Columns] = {name: {"input": passages} for name, passages in splits.items()}
        return Data(source.name, schema, columns, files, tuple(notes), protocol)

    def verdict(self, source: Source, config: Any, ask: Ask) -> str:
        return "" if HiddenTokens in ask.targets else f"{source.name} has no labels."

    # For a run that was trained

    def columns(self, schema: PassageSchema, source: Source, config: Any) -> Columns:
        text: Texts = source.scored()
        encoder = TextEncoder(schema.tokenizers["text"], config.segmenter, config.phrases, config.encoding)
        return {"input": _passages(stored(text, encoder), config, encoder, text.name)}

    def inputs(
        self, schema: PassageSchema, sources: Sequence[str], config: Any, text: bool
    ) -> tuple[Columns, list[str]]:
        """Files of documents, or texts; and a name for each passage."""
        texts: list[str] = []
        names: list[str] = []
        for source in sources:
            path = file_of(source, text)
            if path is not None:
                documents_ = list(text_files.documents(path, config.encoding))
                texts += documents_
                names += [f"{source}, document {index + 1}" for index in range(len(documents_))]
            elif source.strip():
                texts.append(source)
                names.append(source[:60])
        if not texts:
            raise CanonError(f"{', '.join(sources) or 'The input'}: there is no text.")
        encoder = TextEncoder(schema.tokenizers["text"], config.segmenter, config.phrases, config.encoding)
        passages = passages_of(texts, encoder, config.max_length)
        numbers = passages.document_of(np.arange(len(passages))).tolist()
        return {"input": passages}, [names[number] for number in numbers]


PASSAGES = PassageEncoding()


def _passages(part: Stored, config: Any, encoder: TextEncoder, name: str) -> Passages:
    if not part.told.documents:
        raise CanonError(f"{name} is empty: there is no text to pre-train on.")
    found = part.passages(config.max_length, encoder)
    if found.lengths.max(initial=0) < min(LEAST, config.max_length):
        raise CanonError(
            f"{name} has no document of {LEAST} tokens: there is nothing to predict a token from; blank lines part "
            "documents, or line ends where there are none."
        )
    return found


def _split(parts: Mapping[str, Passages], shares: Mapping[str, float]) -> tuple[dict[str, Passages], str]:
    """Train, valid and test; and how shares were held out if not by documents."""
    train = parts["train"]
    count, how = len(train.documents) - 1, ""
    few = count < FEW
    stop = len(train) if few else count
    cut: dict[str, Passages] = {}
    for name, share in shares.items():
        held = held_count(stop, share)
        held = max(held, 2) if held and not few else held  # another document than one's own is there
        if held:
            cut[name] = train.take(np.arange(stop - held, stop)) if few else train.between(stop - held, stop)
            stop -= held
            how = f"the last {share:g} of the passages" if few else how
    whole = {**parts, **cut, "train": train.take(np.arange(stop)) if few else train.between(0, stop)}
    return {name: whole[name] for name in ("train", "valid", "test") if name in whole and len(whole[name])}, how


def _counted(text: Told) -> list[str]:
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


def _described(splits: Mapping[str, Passages], rule: Mapping[str, str], length: int) -> str:
    counted = ", ".join(f"{len(passages):,} {name}" for name, passages in splits.items())
    how = "; ".join(f"{name}: {text}" for name, text in rule.items())
    mean = float(splits["train"].lengths.mean())
    return (
        f"Passages of at most {length:,} tokens: {counted}{f' ({how})' if how else ''}; "
        f"{mean:.0f} tokens on average in train."
    )


# The vocabulary


@dataclass(frozen=True)
class Survey:
    documents: int
    bytes: int  # of UTF-8


def _tokenizer(
    config: Any, own: Sequence[str], text: Texts, shares: Mapping[str, float], sentinels: int
) -> tuple[Tokenizer, list[str], int]:
    """The tokeniser, notes on it, and the bytes of the text where they were counted."""
    kind = config.tokenizer or (own[0] if own else "bpe")
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
    settings = {
        "kind": kind,
        "vocab_size": config.vocab_size,
        "lowercase": config.lowercase,
        "min_count": config.min_count,
        "sentinels": sentinels,
        "shares": list(shares.items()),
    }

    def make() -> tuple[Tokenizer, Survey, int]:
        survey = _survey(text)
        if not survey.documents:
            raise CanonError(f"{text.name} is empty: there is no text to pre-train on.")
        step = -(-survey.bytes // SAMPLE)
        sample = _sample(text, survey, shares, step)
        how = config.vocab_size, config.lowercase, config.min_count
        return Tokenizer.train(sample, kind, *how, mask=True, sentinels=sentinels), survey, step

    tokenizer, survey, step = _kept({"text": text.identity(), **settings}, make)
    notes = [f"The vocabulary ({kind}) has {tokenizer.size:,} tokens."]
    if step > 1:
        notes.append(
            f"It was learnt from one document in {step:,}, about {SAMPLE >> 20} MB of {survey.bytes >> 20:,} MB."
        )
    return tokenizer, notes, survey.bytes


def _survey(text: Texts) -> Survey:
    count = size = 0
    with bar("counting documents", text.size, "bytes") as progress:
        for _, document in documents(text):
            count += 1
            size += (more := size_of(document))
            progress.advance(more)
    return Survey(count, size)


def _sample(text: Texts, survey: Survey, shares: Mapping[str, float], step: int) -> Callable[[], Iterator[str]]:
    """Every step-th training document; of few documents, the beginning of them all."""
    stop, room = survey.documents, float(survey.bytes)
    for share in shares.values():
        held = held_count(stop, share)
        stop -= max(held, 2) if held else 0
        room *= 1 - share

    def stream() -> Iterator[str]:
        if survey.documents >= FEW:
            yield from (found for place, (_, found) in enumerate(documents(text)) if place < stop and place % step == 0)
            return
        left = min(room, SAMPLE)
        for _, found in documents(text):
            if left > 0:
                size = size_of(found)
                yield found[: max(int(len(found) * left / size), 1)] if size > left else found
                left -= size

    return stream


def _kept(content: dict[str, Any], make: Callable[[], tuple[Tokenizer, Survey, int]]) -> tuple[Tokenizer, Survey, int]:
    """What `make` gave when it was first asked for this content."""
    key = hashlib.sha256(json.dumps({"version": VERSION, **content}, sort_keys=True).encode()).hexdigest()[:32]
    places = [place / f"vocabulary-{key}.json" for place in corpora_folders()]
    for path in places:
        with suppress(KeyError, TypeError, ValueError):  # damaged: it is made again
            known = read_json(path)
            return Tokenizer.from_json(known["tokenizer"]), Survey(**known["survey"]), int(known["step"])
    tokenizer, survey, step = make()
    record = {"survey": asdict(survey), "step": step, "tokenizer": tokenizer.to_json()}
    with suppress(CanonError):  # the tokens need the folder too, and tell what is wrong with it
        write_text(places[-1], json.dumps(record, ensure_ascii=False))
    return tokenizer, survey, step


def passages_of(texts: Sequence[str], encoder: TextEncoder, length: int) -> Passages:
    """Documents in memory as passages, without a store."""
    blocks = list(encoder.blocks(Texts(documents=texts)))
    own = encoder.tokenizer
    sentences, counts = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    for block in blocks:
        # The documents first: they are counted in sentences, of which those before them are known.
        counts.append(block.documents + sum(len(part) for part in sentences) - 1)
        sentences.append(block.sentences + sentences[-1][-1] if len(block.sentences) else block.sentences)
        sentences = [np.concatenate(sentences)]
    tokens, begins = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("tokens", "begins"))
    return Passages(tokens, begins, sentences[0], np.concatenate(counts), length, own.specials, own.size)
