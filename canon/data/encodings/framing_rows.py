"""Examples for fine-tuning to framed tokens: cut to the network's limit, words to pieces, documents to windows.

Two texts that are too long together are cut from the longer one, as Hugging Face's `longest_first`; a sentence in words
is cut between words into several sequences; a document goes through in windows that overlap (Devlin et al. 2019,
section 4.2, as in their code). A word's tag is asked at its first piece (section 5.3). An answer's first piece is the
first that ends after its first character, its last piece the last that begins before its end; a window without the
answer, or a question without one, points to the frame's own token: [CLS], or where that comes last, the last token.
Shapes: n examples, S sequences, N tokens, W words of a sentence, P pieces of a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from canon.data.batching.framed import Asked, FramedTexts, Places, Values, objects
from canon.data.batching.sequences import Ragged
from canon.data.formats.rows import ChoiceRows, SpanRows, TagRows, TextRows
from canon.data.text.framing import Framed, frame, num_specials
from canon.data.text.tokenizers import Tokenizer, is_wide
from canon.errors import CanonError


class Reading(Protocol):
    """How a network reads its texts."""

    @property
    def framing(self) -> str: ...  # canon/data/text/framing.py: where special tokens stand
    @property
    def limit(self) -> int: ...  # tokens of a sequence, special ones among them
    @property
    def overlap(self) -> int: ...  # tokens that neighbouring windows of a long text share


LONGEST_QUESTION = 64  # pieces, as in the code of BERT
LEAST_ROOM = 8  # pieces of text that a sequence must have room for


def shorten(first_n: np.ndarray, second_n: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """How many tokens of two texts are kept where both together have no room: the longer one is cut first."""
    small, large = np.minimum(first_n, second_n), np.maximum(first_n, second_n)
    large = np.minimum(large, np.maximum(small, room - small))
    over = small + large > room
    small = np.where(over, room // 2, small)
    large = np.where(over, room - room // 2, large)
    swapped = first_n > second_n
    return np.where(swapped, large, small), np.where(swapped, small, large)


def _room(tokenizer: Tokenizer, reading: Reading, pair: bool) -> int:
    room = reading.limit - num_specials(reading.framing, tokenizer.specials, pair)
    if room < LEAST_ROOM:
        raise CanonError(f"Sequences of {reading.limit} tokens have no room for text; raise data.max_length.")
    return room


def _heads(texts: Ragged, kept_n: np.ndarray) -> Ragged:
    """The first so many tokens of each text."""
    if (kept_n >= texts.lengths).all():
        return texts
    places = np.arange(kept_n.sum()) + np.repeat(texts.offsets[:-1] - (np.cumsum(kept_n) - kept_n), kept_n)
    return Ragged(texts.tokens[places], kept_n)


def _as_texts(framed: Framed, parts_n: np.ndarray, places: Places | None = None) -> FramedTexts:
    return FramedTexts(framed.tokens_N, framed.segments_N, framed.lengths_B, parts_n, places)


# One text, two texts, choices


def encode_texts(tokenizer: Tokenizer, reading: Reading, rows: TextRows) -> tuple[FramedTexts, int]:
    """A sequence for each example, and how many were too long and are cut."""
    first = Ragged(*tokenizer.encode(rows.first))
    second = None if rows.second is None else Ragged(*tokenizer.encode(rows.second))
    framed, cut = _framed(tokenizer, reading, first, second)
    return _as_texts(framed, np.ones(len(rows), dtype=np.int64)), cut


def _framed(tokenizer: Tokenizer, reading: Reading, first: Ragged, second: Ragged | None) -> tuple[Framed, int]:
    room = _room(tokenizer, reading, second is not None)
    if second is None:
        cut = int((first.lengths > room).sum())
        first = _heads(first, np.minimum(first.lengths, room))
    else:
        cut = int((first.lengths + second.lengths > room).sum())
        kept_first, kept_second = shorten(first.lengths, second.lengths, room)
        first, second = _heads(first, kept_first), _heads(second, kept_second)
    return frame(reading.framing, tokenizer.specials, first, second), cut


def encode_choices(tokenizer: Tokenizer, reading: Reading, rows: ChoiceRows) -> tuple[FramedTexts, int]:
    """A sequence for each choice, the question before it, and how many were too long and are cut."""
    parts_n = np.array([len(choices) for choices in rows.choices], dtype=np.int64)
    questions = Ragged(*tokenizer.encode(rows.questions))
    repeated = questions.take(np.repeat(np.arange(len(rows)), parts_n))
    choices = Ragged(*tokenizer.encode([choice for row in rows.choices for choice in row]))
    framed, cut = _framed(tokenizer, reading, repeated, choices)
    return _as_texts(framed, parts_n), cut


# Words


def joined(words: Sequence[str]) -> tuple[str, np.ndarray]:
    """The words as a text, and where each begins in it: spaces between, but for characters that are written without."""
    text: list[str] = []
    starts: list[int] = []
    place = 0
    for word in words:
        if text and not (word and text[-1] and is_wide(word[0]) and is_wide(text[-1][-1])):
            text.append(" ")
            place += 1
        starts.append(place)
        text.append(word)
        place += len(word)
    return "".join(text), np.array(starts, dtype=np.int64)


def first_pieces(starts_W: np.ndarray, spans_P2: np.ndarray) -> np.ndarray:
    """The first piece of each word [W]: the first that ends after its first character. A word that left no piece (a
    control character) shares one with its neighbour."""
    pieces_W = np.searchsorted(np.maximum.accumulate(spans_P2[:, 1]), starts_W, side="right")
    return np.minimum(pieces_W, len(spans_P2) - 1)


def encode_tags(tokenizer: Tokenizer, reading: Reading, rows: TagRows) -> tuple[FramedTexts, int]:
    """Sequences of whole words, one or more for each sentence, and how many sentences were cut into several."""
    room = _room(tokenizer, reading, pair=False)
    texts, starts = zip(*(joined(words) for words in rows.words), strict=True)
    ids, lengths_n, spans = tokenizer.encode_spans(texts)
    offsets = np.concatenate([[0], np.cumsum(lengths_n)])
    windows: list[np.ndarray] = []  # the tokens of each sequence
    places: list[np.ndarray] = []
    marks: list[np.ndarray] = []
    parts_n = np.ones(len(rows), dtype=np.int64)
    for row, starts_W in enumerate(starts):
        ids_P, spans_P2 = ids[offsets[row] : offsets[row + 1]], spans[offsets[row] : offsets[row + 1]]
        if not len(ids_P):
            raise CanonError(f"{rows.path}, {rows.where(row)}: the sentence has no words that the tokenizer knows.")
        pieces_W = first_pieces(starts_W, spans_P2)
        cuts = _word_cuts(pieces_W, len(ids_P), room)
        parts_n[row] = len(cuts)
        for first_word, last_word, begin, end in cuts:
            windows.append(ids_P[begin:end])
            places.append(pieces_W[first_word:last_word] - begin)
            marks.append(np.arange(first_word, last_word))
    counts_S, lengths_S = (np.array([len(part) for part in parts], dtype=np.int64) for parts in (places, windows))
    sequences = Ragged(np.concatenate(windows), lengths_S)
    framed = frame(reading.framing, tokenizer.specials, sequences)
    starts_S = framed.first_starts_B - (np.cumsum(framed.lengths_B) - framed.lengths_B)
    placed = np.concatenate(places) + np.repeat(starts_S, counts_S)
    return _as_texts(framed, parts_n, Places(placed, np.concatenate(marks), counts_S)), int((parts_n > 1).sum())


def _word_cuts(pieces_W: np.ndarray, num_pieces: int, room: int) -> list[tuple[int, int, int, int]]:
    """(first word, after the last, first piece, after the last) of each sequence; a word longer than a whole sequence
    is cut."""
    if num_pieces <= room:
        return [(0, len(pieces_W), 0, num_pieces)]
    cuts, word = [], 0
    while word < len(pieces_W):
        begin = int(pieces_W[word])
        stop = int(np.searchsorted(pieces_W, begin + room, side="right"))  # words whose first piece lies in reach
        while stop - 1 > word and _end(pieces_W, stop, num_pieces) > begin + room:
            stop -= 1
        stop = max(stop, word + 1)
        cuts.append((word, stop, begin, min(_end(pieces_W, stop, num_pieces), begin + room)))
        word = stop
    return cuts


def _end(pieces_W: np.ndarray, word: int, num_pieces: int) -> int:
    """The piece after the words before `word`."""
    return int(pieces_W[word]) if word < len(pieces_W) else num_pieces


# Answers in documents


def window_starts(num_pieces: int, room: int, overlap: int) -> list[int]:
    """Where windows of `room` pieces begin that share `overlap` with the one before; the last reaches the end."""
    step = max(room - min(overlap, room // 2), 1)
    return list(range(0, max(num_pieces - room, 0) + step, step)) if num_pieces > room else [0]


def answer_pieces(start: int, end: int, spans_P2: np.ndarray) -> tuple[int, int]:
    """The first and the last piece of the characters start … end − 1."""
    first = int(first_pieces(np.array([start]), spans_P2)[0])
    return first, max(int(np.searchsorted(spans_P2[:, 0], end, side="left")) - 1, first)


def encode_spans(
    tokenizer: Tokenizer, reading: Reading, rows: SpanRows
) -> tuple[FramedTexts, np.ndarray, Values | None, int]:
    """Windows of each question's document; what scoring needs; where the answer lies in each window, [S, 2]; and how
    many documents are in several windows."""
    documents = {text: index for index, text in enumerate(dict.fromkeys(rows.documents))}
    ids, lengths_D, spans = tokenizer.encode_spans(list(documents))
    offsets_D = np.concatenate([[0], np.cumsum(lengths_D)])
    asked = Ragged(*tokenizer.encode(rows.questions))
    most = min(LONGEST_QUESTION, _room(tokenizer, reading, pair=True) // 2)
    asked = _heads(asked, np.minimum(asked.lengths, most))
    room_n = _room(tokenizer, reading, pair=True) - asked.lengths
    owners: list[int] = []  # the question of each window
    begins: list[int] = []
    document_n = np.array([documents[text] for text in rows.documents])
    for row, document in enumerate(document_n.tolist()):
        if not lengths_D[document]:
            raise CanonError(f"{rows.path}, {rows.where(row)}: the context has no words that the tokenizer knows.")
        starts = window_starts(int(lengths_D[document]), int(room_n[row]), reading.overlap)
        owners += [row] * len(starts)
        begins += starts
    owner_S, begin_S = np.array(owners), np.array(begins)
    length_S = np.minimum(lengths_D[document_n[owner_S]] - begin_S, room_n[owner_S])
    first_S = offsets_D[document_n[owner_S]] + begin_S
    inside = np.arange(length_S.sum()) - np.repeat(np.cumsum(length_S) - length_S, length_S)
    windows = Ragged(ids[np.repeat(first_S, length_S) + inside], length_S)
    framed = frame(reading.framing, tokenizer.specials, asked.take(owner_S), windows)
    starts_S = framed.second_starts_B - (np.cumsum(framed.lengths_B) - framed.lengths_B)
    places = Places(np.repeat(starts_S, length_S) + inside, np.repeat(begin_S, length_S) + inside, length_S)
    texts = _as_texts(framed, np.bincount(owner_S, minlength=len(rows)), places)
    spans_D = [spans[offsets_D[index] : offsets_D[index + 1]] for index in range(len(documents))]
    questions = []
    for row, document in enumerate(document_n.tolist()):
        answers = () if rows.answers is None else tuple(answer.text for answer in rows.answers[row])
        key = rows.keys[row] if rows.keys else str(row + 1)
        questions.append(Asked(key, rows.documents[row], spans_D[document], answers))
    cut = int((texts.parts_n > 1).sum())
    if rows.answers is None:
        return texts, objects(questions), None, cut
    null_S = np.zeros_like(framed.lengths_B) if starts_with_own(reading.framing) else framed.lengths_B - 1
    target_S2 = np.stack([null_S, null_S], axis=1)
    for row, given in enumerate(rows.answers):
        if not given:
            continue
        start, end = given[0].start, given[0].start + len(given[0].text)
        first, last = answer_pieces(start, end, spans_D[document_n[row]])
        for window in range(texts.starts_n[row], texts.starts_n[row + 1]):
            if begin_S[window] <= first and last < begin_S[window] + length_S[window]:
                target_S2[window] = starts_S[window] + np.array([first, last]) - begin_S[window]
    return texts, objects(questions), Values(target_S2.astype(np.int64), texts.parts_n), cut


def starts_with_own(framing: str) -> bool:
    """Whether the frame's own token, which stands for "no answer", is the first; else it is the last."""
    return framing in ("bert", "roberta")
