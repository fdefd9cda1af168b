"""Training of vocabularies from the user's text, through the `tokenizers` library; tokenizers.py puts them to use.

Papers: Sennrich, Haddow and Birch (2016) (byte-pair encoding of words); Radford et al. (2019) (of bytes);
Schuster and Nakajima (2012) (WordPiece); Kudo (2018) (Unigram).
Words, characters and what is between spaces ("split") are numbered by falling frequency, ties by the alphabet. A word
is a run of letters, digits and marks (don't, T-shirt and 3.14 too); punctuation marks and Chinese characters (Japanese
kana too) are words by themselves. Pieces of bpe and unigram do not run over punctuation, nor from Chinese into another
writing, and have 16 characters at most. A run of over LONGEST_WORD characters without a space (of Chinese ones: without
a mark either) is learnt from in pieces of so many, since the library's time grows with the square of a word's length.
Deviations: the same text gives the same vocabulary, which the library's WordPiece and Unigram, following the order of a
random hash, do not: the library's BPE learns WordPiece (`_learn_wordpiece`), and Unigram's ties are settled
(`_learn_unigram`).
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, AnyStr

from canon.data.progress import bar
from canon.errors import CanonError, unknown

RESERVED = ("<pad>", "<unk>", "<bos>", "<eos>")
PAD, UNK, BOS, EOS = range(4)
MASK = "<mask>"  # the fifth of a vocabulary to pre-train with; sentinels follow it where they are asked for
SENTINEL = "<extra_id_{}>"
WHOLE = ("word", "char", "split")  # every word is a token
PIECES = ("bpe", "wordpiece", "unigram", "byte-bpe")
KINDS = (*WHOLE, *PIECES)
VOCAB_SIZE = 8000  # of pieces, where none is given
LONGEST_PIECE = 16  # characters
LONGEST_WORD = 1000  # characters
EVERYTHING = 1 << 40  # as a vocabulary's size
LONG = 30_000_000  # characters; training on more shows the library's own progress

HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # and kana

# Patterns of the library's regular expressions (Oniguruma).
_LETTER = rf"[\p{{L}}\p{{M}}\p{{N}}_&&[^{HAN}]]"
_WORD = rf"<unk>|\p{{N}}+(?:[.,:]\p{{N}}+)+|{_LETTER}+(?:['’\-]{_LETTER}+)*|\S"
_APART = rf"[{HAN}]+|['’]\p{{L}}+|▁?[\p{{P}}\p{{S}}&&[^▁]]|[^\S ]+"

Texts = Iterable[str] | Callable[[], Iterable[str]]
Stream = Callable[[], Iterator[str]]  # the texts, from the start each time it is called


def library() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise CanonError('Text needs the tokenizers library; install it with pip install "deepcanon[text]".') from None
    return tokenizers


def learn(
    texts: Texts, kind: str, vocab_size: int, lowercase: bool, min_count: int, reserved: Sequence[str] = RESERVED
) -> Any:
    """The library's tokeniser of that kind with a vocabulary from `texts`; it looks for no reserved token in a text."""
    if kind not in KINDS:
        raise unknown("kind of tokenizer", kind, KINDS)
    least = len(reserved) + {"byte-bpe": 256, "wordpiece": 2}.get(kind, 1)
    if vocab_size and vocab_size < least:
        raise CanonError(f"vocab_size must be at least {least} for {kind}, got {vocab_size}.")
    size = vocab_size or (EVERYTHING if kind in WHOLE else VOCAB_SIZE)
    if min_count < 1:
        raise CanonError(f"min_count must be a positive whole number, got {min_count}.")
    inner, stream = pipeline(kind, lowercase), _repeatable(texts)
    try:
        if kind in ("word", "split"):
            _learn_words(inner, stream, size, min_count, reserved)
        elif kind == "char":
            kept = _frequent(_characters(inner, stream), size - len(reserved), min_count)
            inner.model = library().models.BPE(_numbered(kept, reserved), [], unk_token=RESERVED[UNK])
        else:
            _learn_pieces(inner, stream, kind, size, min_count, reserved)
    except UnicodeEncodeError as mistake:
        raise half_character(mistake) from None
    plain = json.loads(inner.to_str())
    plain["added_tokens"] = []
    return library().Tokenizer.from_str(json.dumps(plain))


def of_words(words: Iterable[str], kind: str, lowercase: bool) -> Any:
    """The library's tokeniser for which these words, as `kind` cuts them, are the tokens, after the reserved ones."""
    inner = pipeline(kind, lowercase)
    inner.model = library().models.WordLevel(_numbered(words, RESERVED), unk_token=RESERVED[UNK])
    return inner


def in_batches(texts: Iterable[AnyStr], limit: int) -> Iterator[list[AnyStr]]:
    """Texts one after the other, together until they are longer than `limit`, with one between any two."""
    batch: list[AnyStr] = []
    length = 0
    for text in texts:
        batch.append(text)
        length += len(text) + 1
        if length > limit:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def half_character(mistake: UnicodeEncodeError) -> CanonError:
    code = ord(mistake.object[mistake.start])
    return CanonError(f"A text holds U+{code:04X}, half of a surrogate pair and not a character; correct or remove it.")


def to_utf8(text: str, path: Path | None = None) -> bytes:
    """The text as UTF-8; an error where half a character is in it (of the file at `path`)."""
    try:
        return text.encode()
    except UnicodeEncodeError as mistake:
        error = half_character(mistake)
        raise (CanonError(f"{path}: {error}") if path else error) from None


def _repeatable(texts: Texts) -> Stream:
    """An iterator, which runs only once, is put in a list."""
    if isinstance(texts, str):
        raise CanonError("A tokenizer is trained on a list of texts, not on one string.")
    held = list(texts) if isinstance(texts, Iterator) else texts

    def stream() -> Iterator[str]:
        with bar("reading text", 0) as progress:
            for text in held() if callable(held) else held:
                yield cut_words(text)
                progress.advance()

    return stream


_WIDE_MARKS = "\u3000-\u303f\uff00-\uffef"  # between Chinese sentences
_OVERLONG = re.compile(rf"[^\s{HAN}{_WIDE_MARKS}]{{{LONGEST_WORD}}}|[{HAN}]{{{LONGEST_WORD}}}")


def cut_words(text: str) -> str:
    """The text with spaces within words that are too long for one."""
    if max(map(len, text.split()), default=0) <= LONGEST_WORD:
        return text
    return _OVERLONG.sub(lambda match: f"{match[0]} ", text)


def pipeline(kind: str, lowercase: bool) -> Any:
    """The library's parts around a model that is still empty."""
    tokenizers = library()
    models, parts, decoders = tokenizers.models, tokenizers.pre_tokenizers, tokenizers.decoders
    spaces = {"replacement": "▁", "prepend_scheme": "always"}
    model = {"word": models.WordLevel, "split": models.WordLevel, "wordpiece": models.WordPiece}.get(kind, models.BPE)
    inner = tokenizers.Tokenizer(models.Unigram() if kind == "unigram" else model(unk_token=RESERVED[UNK]))
    steps = [] if kind in ("char", "split", "byte-bpe") else [tokenizers.normalizers.NFC()]
    steps += [tokenizers.normalizers.Lowercase()] if lowercase else []
    if steps:
        inner.normalizer = tokenizers.normalizers.Sequence(steps)
    if kind == "split":
        inner.pre_tokenizer = parts.WhitespaceSplit()
    elif kind == "char":
        inner.decoder = decoders.Fuse()  # the model, a BPE that merges nothing, takes the whole text
    elif kind == "byte-bpe":
        inner.pre_tokenizer = parts.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
    elif kind in ("word", "wordpiece"):
        inner.pre_tokenizer = parts.Split(tokenizers.Regex(_WORD), behavior="removed", invert=True)
        if kind == "wordpiece":
            inner.decoder = decoders.WordPiece(cleanup=False)  # for other readers; canon joins words itself
    else:
        apart = parts.Split(tokenizers.Regex(_APART), behavior="isolated")
        inner.pre_tokenizer = parts.Sequence([parts.Metaspace(**spaces), apart])
        inner.decoder = decoders.Metaspace(**spaces)
    return inner


def _numbered(tokens: Iterable[str], reserved: Sequence[str]) -> dict[str, int]:
    """Ids in the order given, the reserved ones first."""
    return {token: index for index, token in enumerate(dict.fromkeys(chain(reserved, tokens)))}


def normaliser(inner: Any) -> Callable[[str], str]:
    return inner.normalizer.normalize_str if inner.normalizer is not None else str


def _characters(inner: Any, stream: Stream) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in map(normaliser(inner), stream()):
        counts.update(text)
    "".join(counts).encode()  # raises where half a character is among them
    if all(character.isspace() for character in counts):
        raise CanonError("There is no text to train a tokenizer on.")
    return counts


def _frequent(counts: Counter[str], size: int, min_count: int) -> list[str]:
    """The most frequent ones first, ties by code point."""
    kept = [token for token, count in counts.items() if count >= min_count]
    if not kept:
        raise CanonError(f"Nothing in the text occurs {min_count:,} times; set a smaller min_count.")
    return sorted(kept, key=lambda token: (-counts[token], token))[:size]


def _learn_words(inner: Any, stream: Stream, size: int, min_count: int, reserved: Sequence[str]) -> None:
    tokenizers = library()
    options = {"vocab_size": EVERYTHING, "min_frequency": min_count, "special_tokens": [], "show_progress": False}
    inner.train_from_iterator(stream(), tokenizers.trainers.WordLevelTrainer(**options))
    ids = inner.get_vocab()
    if not ids:
        _characters(inner, stream)  # raises if there is no text
        raise CanonError(f"No word of the text occurs {min_count:,} times; set a smaller min_count.")
    words = sorted((word for word in ids if word not in reserved), key=ids.__getitem__)[: size - len(reserved)]
    inner.model = tokenizers.models.WordLevel(_numbered(words, reserved), unk_token=RESERVED[UNK])


def _learn_pieces(inner: Any, stream: Stream, kind: str, size: int, min_count: int, reserved: Sequence[str]) -> None:
    """The library's trainers, on the text without its rarest characters where there are more than fit."""
    tokenizers = library()
    counts = _characters(inner, stream)
    shown = sys.stderr.isatty() and counts.total() > LONG
    common: dict[str, Any] = {"special_tokens": list(reserved), "vocab_size": size, "show_progress": shown}
    pairs = {**common, "min_frequency": min_count}  # for BPE
    if kind == "byte-bpe":
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        trainer = tokenizers.trainers.BpeTrainer(initial_alphabet=alphabet, **pairs)
        inner.train_from_iterator(stream(), trainer)
        return
    counts.pop(" ", 0)
    room = size - len(reserved) - (kind != "wordpiece")  # one for ▁, the space
    kept = _frequent(counts, room // 2 if kind == "wordpiece" else room, min_count)
    rare = dict.fromkeys(map(ord, counts.keys() - set(kept)))

    def cleaned() -> Iterator[str]:
        normalise = normaliser(inner)
        return (normalise(text).translate(rare) for text in stream()) if rare else stream()

    if kind == "bpe":
        trainer = tokenizers.trainers.BpeTrainer(max_token_length=LONGEST_PIECE, **pairs)
        inner.train_from_iterator(cleaned(), trainer)
    elif kind == "unigram":
        _learn_unigram(inner, cleaned(), common, reserved)
    else:
        pairs |= {"special_tokens": [], "vocab_size": size - len(reserved)}
        _learn_wordpiece(inner, cleaned, kept, pairs, reserved)


def _learn_wordpiece(
    inner: Any, stream: Stream, alphabet: Sequence[str], options: dict[str, Any], reserved: Sequence[str]
) -> None:
    """WordPiece as the library has it: a BPE for which a character inside a word is another one than at its start.

    The two are spelled as two characters of Unicode's private planes, so that the library's BPE, whose numbers do not
    depend on a hash, can learn the pieces.
    """
    tokenizers = library()
    start = {character: chr(code) for character, code in zip(alphabet, range(0xF0000, 0x10FFFE, 2), strict=False)}
    spelled = {code: character for character, code in start.items()}
    spelled |= {chr(ord(code) + 1): "##" + character for code, character in spelled.items()}

    @lru_cache(maxsize=1 << 17)
    def spell(word: str) -> str:
        codes = [start[character] for character in word if character in start]
        return "".join(codes[:1] + [chr(ord(code) + 1) for code in codes[1:]])

    def piece(codes: str) -> str:
        return spelled[codes[0]] + "".join(spelled[code].removeprefix("##") for code in codes[1:])

    def lines() -> Iterator[str]:
        normalise, cut = normaliser(inner), inner.pre_tokenizer.pre_tokenize_str
        return (" ".join(spell(word) for word, _ in cut(normalise(text))) for text in stream())

    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    # The alphabet is there so that no word is unknown for its first letter.
    trainer = tokenizers.trainers.BpeTrainer(initial_alphabet=list(start.values()), **options)
    learner.train_from_iterator(lines(), trainer)
    ids = learner.get_vocab()
    pieces = map(piece, sorted(ids, key=ids.__getitem__))
    inner.model = tokenizers.models.WordPiece(_numbered(pieces, reserved), unk_token=RESERVED[UNK])


def _learn_unigram(inner: Any, texts: Iterator[str], common: dict[str, Any], reserved: Sequence[str]) -> None:
    """Scores are rounded to 0.001, and the characters that the trainer adds for completeness get one score.

    It gives them the lowest score plus k/10000 with k in the order of a random hash; sums differ in their last bits.
    """
    tokenizers = library()
    trainer = tokenizers.trainers.UnigramTrainer(unk_token=RESERVED[UNK], max_piece_length=LONGEST_PIECE, **common)
    inner.train_from_iterator(texts, trainer)
    rows = json.loads(inner.to_str())["model"]["vocab"]
    learnt = [(piece, score) for piece, score in rows if piece not in reserved]
    lowest = min(score for _, score in learnt)
    reach = 1e-4 * sum(len(piece) == 1 for piece, _ in learnt)

    def settled(piece: str, score: float) -> float:
        steps = (score - lowest) / 1e-4
        added = len(piece) == 1 and score - lowest < reach and abs(steps - round(steps)) < 1e-4
        return round(lowest if added else score, 3)

    scored = sorted(((piece, settled(piece, score)) for piece, score in learnt), key=lambda row: (-row[1], row[0]))
    inner.model = tokenizers.models.Unigram([*((token, 0.0) for token in reserved), *scored], UNK, False)
