"""Texts to framed tokens for fine-tuning, against transformers' fast tokenizers, brute force and the definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from canon.data.batching.framed import FramedTexts, Values
from canon.data.config import DataConfig
from canon.data.encodings import Ask
from canon.data.encodings.framed import FRAMED, Backbone, FramedSchema
from canon.data.encodings.framed_inputs import split_words
from canon.data.encodings.framing_rows import (
    answer_pieces,
    encode_choices,
    encode_spans,
    encode_tags,
    encode_texts,
    shorten,
)
from canon.data.formats.rows import Answer, ChoiceRows, SpanRows, TagRows, TextRows
from canon.data.read import inputs, labelled, read
from canon.data.schema import Data, Schema
from canon.data.targets import Choice, Class, Number, Span, Tags, Target
from canon.data.text.framing import PATTERNS
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from tests.parity.huggingface import transformers_module

SENTENCES = [
    "Hello world, this isn't easy!",
    "  The naïve café-owner's 3.14 dollars…  ",
    "我在北京 learning 机器学习。",
    "unbelievable antidisestablishmentarianism",
    "a",
    "two words here and then some more, to be cut off somewhere",
]
WORDS = [
    ["He", "does", "n't", "like", "U.S.", "beer", "-", "brewing", "!"],
    ["我", "在", "北", "京", "2024", "年"],
    ["naïve", "café"],
    ["a\u200b", "\u200d", "b"],  # the second leaves no piece
]


def where(row: int) -> str:
    return f"line {row + 1}"


def bert_tokenizer() -> tuple[Tokenizer, Any]:
    """One WordPiece tokenizer for both sides, with BERT's normaliser and special tokens."""
    import tokenizers as library

    transformers = transformers_module()
    inner = library.Tokenizer(library.models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = library.normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = library.trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    inner.train_from_iterator([*SENTENCES, *(" ".join(words) for words in WORDS)], trainer)
    theirs = transformers.BertTokenizerFast(tokenizer_object=library.Tokenizer.from_str(inner.to_str()))
    return Tokenizer.from_json(inner.to_str(), native=True), theirs


def sequences(texts: FramedTexts) -> list[list[int]]:
    return [texts.sequence(index).tolist() for index in range(len(texts.lengths_S))]


def segments(texts: FramedTexts) -> list[list[int]]:
    bounds = np.cumsum(texts.lengths_S)[:-1]
    return [part.tolist() for part in np.split(texts.segments_N, bounds)]


# One text and two, against transformers


@pytest.mark.parametrize("limit", [64, 12, 11])
def test_texts_and_pairs_as_transformers_has_them(limit: int) -> None:
    """Ids and segments with truncation: of one text at its end, of two `longest_first`."""
    ours, theirs = bert_tokenizer()
    reading = FramedSchema(framing="bert", limit=limit)
    single, cut = encode_texts(ours, reading, TextRows("x", where, SENTENCES))
    wanted = theirs(SENTENCES, truncation=True, max_length=limit)
    assert sequences(single) == wanted["input_ids"]
    assert cut == sum(len(ids) > limit for ids in theirs(SENTENCES)["input_ids"])
    second = SENTENCES[::-1]
    pair, cut = encode_texts(ours, reading, TextRows("x", where, SENTENCES, second))
    wanted = theirs(SENTENCES, second, truncation="longest_first", max_length=limit)
    assert sequences(pair) == wanted["input_ids"]
    assert segments(pair) == wanted["token_type_ids"]
    assert cut == sum(len(ids) > limit for ids in theirs(SENTENCES, second)["input_ids"])


def test_cutting_two_texts_by_one_token_at_a_time() -> None:
    """The formula against the loop that it stands for: drop a token of the longer; of an odd room, the text that was
    longer at first keeps one more."""
    for first in range(13):
        for second in range(13):
            for room in (5, 8):
                a, b = first, second
                while a + b > room:
                    a, b = (a - 1, b) if a > b else (a, b - 1)
                if a + b == room and abs(a - b) == 1:
                    a, b = (max(a, b), min(a, b)) if first > second else (min(a, b), max(a, b))
                kept = shorten(np.array([first]), np.array([second]), room)
                assert (int(kept[0][0]), int(kept[1][0])) == (a, b), (first, second, room)


def test_choices_are_pairs_with_their_question() -> None:
    ours, theirs = bert_tokenizer()
    rows = ChoiceRows("x", where, ["Hello world", "a"], [("two words", "here"), ("naïve", "café", "beer")])
    texts, _ = encode_choices(ours, FramedSchema(framing="bert", limit=64), rows)
    assert texts.parts_n.tolist() == [2, 3] and len(texts) == 2
    wanted = theirs(["Hello world"] * 2 + ["a"] * 3, ["two words", "here", "naïve", "café", "beer"])
    assert sequences(texts) == wanted["input_ids"]


# Words


def test_first_pieces_as_transformers_has_them() -> None:
    """Places of words against word_ids() of the fast tokenizer on the same words; a word that leaves no piece, which
    transformers leaves out, shares its neighbour's place."""
    ours, theirs = bert_tokenizer()
    texts, cut = encode_tags(ours, FramedSchema(framing="bert", limit=64), TagRows("x", where, WORDS))
    assert cut == 0 and texts.places is not None
    places = np.split(texts.places.positions, np.cumsum(texts.places.counts)[:-1])
    for row, words in enumerate(WORDS):
        encoded = theirs(words, is_split_into_words=True)
        assert texts.sequence(row).tolist() == encoded["input_ids"]
        assert len(places[row]) == len(words)
        known = [word for word in range(len(words)) if word in encoded.word_ids()]
        for word in known:
            assert places[row][word] == encoded.word_ids().index(word), words[word]
        assert len(known) == len(words) - (row == 3)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte-bpe", "unigram", "char", "word"])
def test_every_word_has_the_piece_that_holds_its_first_character(kind: str) -> None:
    """For canon's own tokenisers: the piece at a word's place holds the word's first character."""
    tokenizer = Tokenizer.train([" ".join(words) for words in WORDS[:3]] * 3, kind, 300 if kind == "byte-bpe" else 60)
    texts, _ = encode_tags(tokenizer, FramedSchema(framing="bert", limit=128), TagRows("x", where, WORDS[:3]))
    assert texts.places is not None
    places = np.split(texts.places.positions, np.cumsum(texts.places.counts)[:-1])
    for row, words in enumerate(WORDS[:3]):
        glue = "" if row == 1 else " "
        text = glue.join(words).replace("京2024年", "京 2024 年")
        _, _, spans = tokenizer.encode_spans([text])
        start = 0
        for word, place in zip(words, places[row], strict=True):
            start = text.index(word, start)
            first, last = spans[place - 1]  # after [CLS]
            assert first <= start < last or text[first:start].strip() == "", (kind, word, text[first:last])
            start += len(word)


def test_long_sentences_are_cut_between_words() -> None:
    """Every word once, in order, whole; sequences within the limit; the same pieces as uncut."""
    tokenizer = Tokenizer.train(["abcdefgh " * 9], "char")
    words = [["ab", "cdefg", "h"] * 7, ["abcdefgh" * 3], ["a"]]  # the second is longer than a sequence
    reading = FramedSchema(framing="bert", limit=14)
    texts, cut = encode_tags(tokenizer, reading, TagRows("x", where, words))
    assert cut == 1 and texts.places is not None and int(texts.lengths_S.max()) <= 14
    marks = np.split(texts.places.marks, np.cumsum(texts.places.counts)[:-1])
    owners = np.repeat(np.arange(3), texts.parts_n)
    for row, own in enumerate(words):
        assert np.concatenate([m for m, owner in zip(marks, owners, strict=True) if owner == row]).tolist() == list(
            range(len(own))
        )
    places = np.split(texts.places.positions, np.cumsum(texts.places.counts)[:-1])
    for index, (place, mark) in enumerate(zip(places, marks, strict=True)):
        for position, word in zip(place, mark, strict=True):
            piece = tokenizer.decode([texts.sequence(index)[position]])
            assert piece == words[owners[index]][word][0]


# Answers


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece"])
def test_answer_pieces_by_brute_force(kind: str) -> None:
    """Of all pairs of pieces the shortest whose characters cover the answer."""
    text = "Normandy is a région of France (北京), 10th-century."
    tokenizer = Tokenizer.train([text] * 2, kind, 290 if kind == "byte-bpe" else 50)
    spans = tokenizer.encode_spans([text])[2]
    for answer in ("France", "région of France", "北京", "10th-century", "Normandy"):
        start = text.index(answer)
        end = start + len(answer)
        covering = [
            (first, last)
            for first in range(len(spans))
            for last in range(first, len(spans))
            if spans[first][0] <= start < spans[first][1] and spans[last][0] < end <= spans[last][1]
        ]
        # A character of several bytes has several pieces, of which the outermost ones cover as much.
        wanted = max(last for first, last in covering), min(first for first, last in covering)
        assert answer_pieces(start, end, spans) == (wanted[1], wanted[0])


@pytest.mark.parametrize("framing", PATTERNS)
def test_windows_of_long_documents(framing: str) -> None:
    """Every piece of the document in a window, neighbours share `overlap` pieces, and the target is the answer where
    the window holds all of it, else the frame's own token."""
    text = " ".join(f"w{number}" for number in range(60))
    tokenizer = Tokenizer.train([text, "where is it ?"], "word", mask=True)
    answer = Answer("w30 w31 w32", text.index("w30"))
    rows = SpanRows("x", where, ["where is it ?", "it ?"], [text, text], [(answer,), ()])
    texts, asked, target, cut = encode_spans(tokenizer, FramedSchema(framing=framing, limit=24, overlap=6), rows)
    assert cut == 2 and target is not None and texts.places is not None
    assert int(texts.lengths_S.max()) <= 24 and target.lengths.tolist() == texts.parts_n.tolist()
    marks = np.split(texts.places.marks, np.cumsum(texts.places.counts)[:-1])
    places = np.split(texts.places.positions, np.cumsum(texts.places.counts)[:-1])
    spans = asked[0].spans
    hits = 0
    for index, (mark, place) in enumerate(zip(marks, places, strict=True)):
        own = texts.sequence(index)
        for piece, position in zip(mark, place, strict=True):
            assert tokenizer.decode([own[position]]) == f"w{piece}"
        first, last = target.tokens[index]
        null = 0 if framing in ("bert", "roberta") else len(own) - 1
        if index < texts.parts_n[0] and {30, 31, 32} <= set(mark.tolist()):
            begin, end = mark[place.tolist().index(first)], mark[place.tolist().index(last)]
            assert text[spans[begin][0] : spans[end][1]] == "w30 w31 w32"
            hits += 1
        else:
            assert (first, last) == (null, null)
    assert hits >= 1
    for start, stop in ((0, texts.parts_n[0]), (texts.parts_n[0], len(marks))):
        assert sorted({int(piece) for mark in marks[start:stop] for piece in mark}) == list(range(60))
        for before, after in zip(marks[start : stop - 1], marks[start + 1 : stop], strict=True):
            assert len(set(before.tolist()) & set(after.tolist())) == 6


# Columns


def test_batches_are_rows_end_to_end() -> None:
    """take and batch against the rows themselves, in any order."""
    tokenizer = Tokenizer.train(["a b c d e f g"], "word")
    words = [["a", "b"], ["c"], ["d", "e", "f"], ["g"]]
    texts, _ = encode_tags(tokenizer, FramedSchema(framing="bert", limit=64), TagRows("x", where, words))
    values = Values(np.arange(7), np.array([2, 1, 3, 1]))
    order = np.array([2, 0, 2])
    batch = {**texts.batch("input", order), **values.batch("target", order)}
    wanted = np.concatenate([texts.sequence(row) for row in order])
    np.testing.assert_array_equal(batch["input"], wanted)
    assert batch["input_lengths"].tolist() == [5, 4, 5] and batch["part_lengths"].tolist() == [1, 1, 1]
    np.testing.assert_array_equal(batch["places"], [1, 2, 3, 6, 7, 10, 11, 12])
    assert batch["marks"].tolist() == [0, 1, 2, 0, 1, 0, 1, 2] and int(batch["width_lengths"]) == 3
    assert batch["target"].tolist() == [3, 4, 5, 0, 1, 3, 4, 5] and batch["target_lengths"].tolist() == [3, 2, 3]
    again = texts.take(order)
    np.testing.assert_array_equal(again.batch("input", np.arange(3))["input"], batch["input"])


def framed(config: Any, backbone: Backbone) -> Data:
    return read(config, [FRAMED], Ask((Class, Number, Tags, Span, Choice), start=backbone))


def read_rows(rows: list[str], name: str = "train.csv", **settings: Any) -> Any:
    from pathlib import Path

    Path(name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.train(rows, "word")
    return framed(DataConfig(source=name, **settings), Backbone("net", "bert", 16, tokenizer))


def test_what_is_too_long_is_reported() -> None:
    data = read_rows(["text,label", "a a,x", f"{'a ' * 40},y", "b,x", "c,y"], valid=0.0, test=0.0)
    assert "train: 1 of 4 texts are longer than 16 tokens and cut." in data.notes
    assert data.schema.target.counts == (2, 2) and data.schema.sizes()["kind"] == "class"


def test_schema_of_a_run_reads_back_as_itself(tmp_path: Any) -> None:
    data = read_rows(["text,label", "a,x", "b,y", "c,x", "d,y"], valid=0.0, test=0.0)
    for name, text in data.schema.files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    again = Schema.open(tmp_path)
    assert again.target == data.schema.target
    assert again.files() == data.schema.files()


def test_articles_stay_together() -> None:
    """Questions of one article are in one split."""
    import json
    from pathlib import Path

    articles = []
    for number in range(12):
        context = f"Thing {number} is {number * number}."
        answer = {"text": str(number * number), "answer_start": context.index(" is ") + 4}
        qas = [{"id": f"{number}-{k}", "question": f"what {k} ?", "answers": [answer]} for k in range(3)]
        articles.append({"title": str(number), "paragraphs": [{"context": context, "qas": qas}]})
    Path("all.json").write_text(json.dumps({"data": articles}))
    tokenizer = Tokenizer.train(["Thing is what ? . 0 1 2 3 4 5 6 7 8 9"], "char")
    data = framed(DataConfig(source="all.json", valid=0.25, test=0.25), Backbone("net", "bert", 64, tokenizer))
    values = {split: {asked.key.split("-")[0] for asked in columns["asked"]} for split, columns in data.splits.items()}
    assert {split: len(names) for split, names in values.items()} == {"train": 7, "valid": 2, "test": 3}
    assert not (
        values["train"] & values["valid"] or values["train"] & values["test"] or values["valid"] & values["test"]
    )
    assert not data.schema.target.unanswerable  # type: ignore[attr-defined]


# More data for a run


def test_unseen_labels_and_tags() -> None:
    """A class that training does not have is a mistake with its line; such a tag counts as wrong and is reported."""
    from pathlib import Path

    Path("dev.csv").write_text("text,label\nc,x\nd,z\n")
    with pytest.raises(CanonError) as mistake:
        read_rows(["text,label", "a,x", "b,y"], valid="dev.csv", test=0.0)
    assert str(mistake.value) == 'dev.csv, line 3: label "z" is not one of x, y.'
    Path("dev.conll").write_text("a X\nb NEW\n")
    data = read_rows(["a X", "b Y", "", "a X", "b Y"], "train.conll", valid="dev.conll", test=0.0)
    assert "valid: 1 words have tags that training does not have and count as wrong: NEW (1)." in data.notes
    assert data.splits["valid"]["target"].tokens.tolist() == [0, -1]


def test_the_networks_own_tokenizer_is_used() -> None:
    with pytest.raises(CanonError, match="net needs the tokenizer that it was trained with: leave"):
        read_rows(["text,label", "a,x", "b,y"], tokenizer="bpe")


def test_words_of_plain_text() -> None:
    assert split_words("The cat, 我们 saw北京 it") == ["The", "cat,", "我", "们", "saw", "北", "京", "it"]


@pytest.mark.parametrize(
    ("target", "columns", "source", "sentence"),
    [
        (Class, ("text",), "", "The text is empty."),
        (Class, ("a", "b"), "one", '"one": the run reads two texts with a tab between them.'),
        (Class, ("a", "b"), "one\t ", '"one\t ": a text is empty.'),
        (Span, (), "what?", '"what?": the run reads a question and its text with a tab between them'),
        (
            Span,
            (),
            '{"question": "q"}',
            '"{"question": "q"}": there is no "context"; an object has question, context.',
        ),
        (Choice, (), "q\tone", '"q\tone": the run reads a question and its choices with tabs between them'),
    ],
)
def test_bad_texts_to_predict(target: type[Target], columns: tuple[str, ...], source: str, sentence: str) -> None:
    tokenizer = Tokenizer.train(["one two"], "word")
    schema = FramedSchema(target(), tokenizers={"text": tokenizer}, framing="bert", limit=16, columns=columns)
    with pytest.raises(CanonError) as mistake:
        inputs(schema, [source], DataConfig())
    assert str(mistake.value).startswith(sentence)


def test_texts_to_predict_in_every_form() -> None:
    """The same pair typed, as an object, in a table and on a line."""
    import json
    from pathlib import Path

    tokenizer = Tokenizer.train(["one two three"], "word")
    schema = FramedSchema(
        Class(("x", "y")), tokenizers={"text": tokenizer}, framing="bert", limit=16, columns=("a", "b")
    )
    Path("more.csv").write_text("b,a,other\ntwo three,one,5\n")
    Path("more.txt").write_text("one\ttwo three\n")
    sources = ["one\ttwo three", json.dumps({"a": "one", "b": "two three"}), "more.csv", "more.txt"]
    columns, names = inputs(schema, sources, DataConfig())
    texts = columns["input"]
    assert isinstance(texts, FramedTexts) and len(texts) == 4
    assert len({tuple(own) for own in sequences(texts)}) == 1
    assert names[2:] == ["more.csv, line 2", "more.txt, line 1"]


def test_fasttext_lines_are_read_and_predicted() -> None:
    """Texts with labels are one kind: lines to learn from; lines, a table, an object and a text to predict."""
    import json
    from pathlib import Path

    data = read_rows(["__label__x one two", "__label__y three", "__label__x two"], "train.txt", valid=0.0, test=0.0)
    assert data.schema.classes == ("x", "y") and data.schema.target.counts == (2, 1) and data.schema.columns == ()
    Path("more.txt").write_text("__label__y one two\n")
    Path("more.csv").write_text("stars,text\n5,one two\n")
    sources = ["one two", json.dumps({"text": "one two"}), "more.txt", "more.csv"]
    columns, names = inputs(data.schema, sources, DataConfig())
    texts = columns["input"]
    assert isinstance(texts, FramedTexts) and names[2:] == ["more.txt, line 1", "more.csv, line 2"]
    assert all(texts.sequence(row).tolist() == texts.sequence(0).tolist() for row in range(4))
    other = labelled(data.schema, "more.txt", DataConfig(source="train.txt"))
    assert np.asarray(other["target"]).tolist() == [1]


def test_several_labels_are_not_a_class() -> None:
    with pytest.raises(CanonError, match=r"train\.txt, line 2: "):
        read_rows(["__label__x one", "__label__x __label__y two"], "train.txt", valid=0.0, test=0.0)
