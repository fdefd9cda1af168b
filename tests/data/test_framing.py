"""Framings: against the post-processors of the tokenizers library; special tokens by the names of published
vocabularies, and through a tokeniser's file and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers as library
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors

from canon.data.batching.sequences import Ragged
from canon.data.encodings.passages import PassageSchema
from canon.data.schema import Schema
from canon.data.targets import HiddenTokens
from canon.data.text.framing import PATTERNS, Specials, frame, num_specials
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import KINDS
from canon.errors import CanonError

OWN = Specials(pad=0, unk=1, cls=2, sep=3, mask=4, bos=5, eos=6)
TOKENS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "<s>": 5, "</s>": 6}
WORDS = [f"w{index}" for index in range(20)]
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "A dog and a fox, quick and brown!",
    "我喜欢学习机器翻译。",
] * 3
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=5)


def framed_by(framing: str) -> library.Tokenizer:
    """The library's own framing of that family."""
    made = library.Tokenizer(
        models.WordLevel(TOKENS | {word: 7 + i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = {
        "bert": processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)),
        "roberta": processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)),
        "xlnet": processors.TemplateProcessing(
            single="$A:0 [SEP]:0 [CLS]:2",
            pair="$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2",
            special_tokens=[("[SEP]", 3), ("[CLS]", 2)],
        ),
        "gpt": processors.TemplateProcessing(single="$A </s>", pair="$A:0 $B:0 </s>:0", special_tokens=[("</s>", 6)]),
        "t5": processors.TemplateProcessing(single="$A </s>", pair="$A:0 $B:0 </s>:0", special_tokens=[("</s>", 6)]),
        "words": processors.TemplateProcessing(single="$A", pair="$A:0 $B:0", special_tokens=[]),
    }[framing]
    return made


def ragged(made: library.Tokenizer, rows: list[str]) -> Ragged:
    ids = [made.encode(row, add_special_tokens=False).ids for row in rows]
    return Ragged(
        np.array([index for row in ids for index in row], dtype=np.int32), np.array([len(row) for row in ids])
    )


@pytest.mark.parametrize("framing", PATTERNS)
@given(first=texts, second=texts)
def test_framings_are_the_librarys(framing: str, first: list[str], second: list[str]) -> None:
    made = framed_by(framing)
    count = min(len(first), len(second))
    for pairs in ([(a,) for a in first], list(zip(first[:count], second[:count], strict=True))):
        expected = made.encode_batch([pair if len(pair) > 1 else pair[0] for pair in pairs])
        columns = [ragged(made, list(column)) for column in zip(*pairs, strict=True)]
        actual = frame(framing, OWN, *columns)
        assert actual.tokens_N.tolist() == [index for row in expected for index in row.ids]
        assert actual.segments_N.tolist() == [index for row in expected for index in row.type_ids]
        assert actual.lengths_B.tolist() == [len(row.ids) for row in expected]
        assert actual.tokens_N.dtype == actual.lengths_B.dtype == np.int64
        starts = actual.first_starts_B, actual.second_starts_B
        for column, starts_B in zip(columns, starts, strict=False):
            for row, start in enumerate(starts_B.tolist()):
                own = column[row].tolist()
                assert actual.tokens_N[start : start + len(own)].tolist() == own
        if len(columns) == 1:
            assert (actual.second_starts_B == -1).all()
        added = num_specials(framing, OWN, pair=len(columns) > 1)
        assert actual.lengths_B.tolist() == [
            sum(len(column[row]) for column in columns) + added for row in range(len(pairs))
        ]


def test_what_a_framing_lacks_is_one_sentence() -> None:
    row = Ragged(np.array([7], dtype=np.int32), np.array([1]))
    with pytest.raises(CanonError, match=r'no \[CLS\] or .* which framing = "bert" needs'):
        frame("bert", Specials(sep=3), row)
    with pytest.raises(CanonError, match=r'No framing "bort"; did you mean bert\?'):
        frame("bort", OWN, row)
    with pytest.raises(CanonError, match=r"no \[MASK\] or <mask>, which a masked objective needs"):
        Specials().require("mask", "a masked objective")
    assert frame("gpt", Specials(), row).tokens_N.tolist() == [7]  # GPT has no end of its own


# Special tokens by their names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        # id by place: BERT, RoBERTa, XLNet, T5, GPT-2
        ("[PAD] a [UNK] [CLS] [SEP] [MASK]", Specials(0, 2, 3, 4, 5, 3, 4)),
        ("<s> <pad> </s> <unk> b <mask>", Specials(1, 3, 0, 2, 5, 0, 2)),
        ("<unk> <s> </s> <cls> <sep> <pad> <mask> <eod>", Specials(5, 0, 3, 4, 6, 1, 2)),
        ("<pad> </s> <unk> x <extra_id_1> <extra_id_0>", Specials(0, 2, -1, 1, -1, -1, 1, (5, 4))),
        ("a b <|endoftext|>", Specials(bos=2, eos=2)),
    ],
)
def test_names_of_published_vocabularies(names: str, expected: Specials) -> None:
    assert Specials.of({name: place for place, name in enumerate(names.split())}) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_to_pretrain_with(kind: str, tmp_path: Path) -> None:
    size = {"byte-bpe": 360, "bpe": 120, "unigram": 120, "wordpiece": 160}.get(kind, 0)
    made = Tokenizer.train(TEXTS, kind, size, mask=True, sentinels=3)
    assert made.specials == Specials(0, 1, 2, 3, 4, 2, 3, (5, 6, 7))
    assert made.vocabulary[:8] == ["<pad>", "<unk>", "<bos>", "<eos>", "<mask>", *(f"<extra_id_{i}>" for i in range(3))]
    ids, _ = made.encode(TEXTS)
    assert ids.min() > 7 or (ids[ids <= 7] == 1).all()
    # The same text without them: the same tokens, four places lower.
    plain = Tokenizer.train(TEXTS, kind, size - 4 if size else 0)
    assert plain.specials == Specials(0, 1, 2, 3, -1, 2, 3)
    assert [made.vocabulary[index] for index in ids] == [plain.vocabulary[index] for index in plain.encode(TEXTS)[0]]
    if kind != "split":
        assert not {4, 5} & set(made.encode(["a <mask> of <extra_id_0>"])[0].tolist())
    again = Tokenizer.from_json(made.to_json())
    assert (again.specials, again.vocabulary, again.kind) == (made.specials, made.vocabulary, kind)


def foreign(path: Path) -> Path:
    made = framed_by("bert")
    made.save(str(path))
    return path


def test_a_native_tokenizer_keeps_its_ids(tmp_path: Path) -> None:
    path = foreign(tmp_path / "tokenizer.json")
    theirs = library.Tokenizer.from_file(str(path))
    rows = ["w3 w4", "w0 zzz w19"]
    native, moved = Tokenizer.load(path, native=True), Tokenizer.load(path)
    expected = [theirs.encode(row, add_special_tokens=False).ids for row in rows]
    assert native.encode(rows)[0].tolist() == [index for row in expected for index in row]
    assert moved.encode(rows)[0].tolist() == [1 if index == 1 else index + 4 for row in expected for index in row]
    assert (native.size, moved.size) == (27, 31)
    assert native.specials == Specials(0, 1, 2, 3, 4, 5, 6)
    assert moved.specials == Specials(0, 1, 6, 7, 8, 2, 3)
    assert native.decode([2, 10, 11, 3, 0, 0]).split() == ["w3", "w4"]
    assert native.tokens([2, 4, 10]) == ["[CLS]", "[MASK]", "w3"]
    assert native.unknown_rate(rows) == moved.unknown_rate(rows) == pytest.approx(1 / 5)
    # A network may have rows to spare, but none too few.
    native.require_rows(32, "a.json", "b")
    with pytest.raises(CanonError, match=r"a.json has 27 tokens but b was trained with 20"):
        native.require_rows(20, "a.json", "b")
    with pytest.raises(CanonError, match=r"a.json has 31 tokens but b was trained with 32"):
        moved.require_rows(32, "a.json", "b")
    # Through a run's folder.
    schema = PassageSchema(HiddenTokens(), tokenizers={"text": native})
    for name, content in schema.files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    again = Schema.open(tmp_path).tokenizers["text"]
    assert again.native and again.encode(rows)[0].tolist() == native.encode(rows)[0].tolist()
    assert schema.sizes()["vocab_size"] == 27
    # And the file is still the library's.
    plain = json.loads(native.to_json())
    plain["model"].pop("canon")
    assert library.Tokenizer.from_str(json.dumps(plain)).encode(rows[1]).ids == theirs.encode(rows[1]).ids
