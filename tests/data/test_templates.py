"""Templates and label words: ids written by hand for each kind of tokenizer, shortening, and mistakes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from canon.data.encodings.prompted_rows import Demonstrations, PromptWriter, kept_of, plan_of
from canon.data.formats.rows import TextRows
from canon.data.text.label_words import Filling, encode_words
from canon.data.text.templates import PromptTemplate, of_columns
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

TEXTS = ["a fine film", "it was great", "it was terrible", "the plot"] * 5


def wordpiece() -> Tokenizer:
    """BERT's, with ids that can be read: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then these words."""
    from tokenizers import Tokenizer as Library
    from tokenizers import models, normalizers, pre_tokenizers

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "it", "was", "great", "ter", "##rible",
             ".", "体", "育", "财", "经", "好", "新", "闻", "？", "，", "不", "是"]  # fmt: skip
    inner = Library(models.WordPiece({name: index for index, name in enumerate(names)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Tokenizer.from_json(inner.to_str(), native=True)


def byte_level() -> Tokenizer:
    """GPT-2's and RoBERTa's way: a space is the first byte of a token; a character is a token here, but for words that
    are merged whole."""
    return Tokenizer.train(TEXTS, "byte-bpe", 300, mask=True)


def rows(first: list[str], second: list[str] | None = None) -> TextRows:
    return TextRows("rows", lambda row: f"line {row + 1}", first, second)


def written(
    tokenizer: Tokenizer, template: str, texts: TextRows, words: dict[str, Any], framing: str = "bert", **more: Any
) -> Any:
    form = PromptTemplate(template)
    filling = {"bert": Filling.MASKS, "roberta": Filling.MASKS, "gpt": Filling.CHAIN, "t5": Filling.SENTINEL}[framing]
    mask, plan = form.mask, plan_of(form, tokenizer)
    ids = encode_words(tokenizer, words, list(words), plan.spaced, mask.count if mask else 0)
    columns = ("sentence",) if texts.second is None else ("sentence1", "sentence2")
    options = {"limit": 64, **more}
    return PromptWriter(tokenizer, form, framing, filling, options["limit"], columns, ids, options.get("demos")).encode(
        texts
    )


WORDS = {"no": ("terrible",), "yes": ("great",)}


def test_wordpiece_ids() -> None:
    texts, cut = written(wordpiece(), "{sentence} It was {mask}.", rows(["A fine film"]), WORDS)
    # terrible is two pieces, so there are two variants: with one mask and with two.
    assert texts.tokens_N.tolist() == [2, 5, 6, 7, 8, 9, 4, 13, 3, 2, 5, 6, 7, 8, 9, 4, 4, 13, 3]
    assert texts.lengths_S.tolist() == [9, 10] and texts.parts_n.tolist() == [2] and cut == 0
    assert texts.places.positions.tolist() == [6, 6, 7] and texts.places.counts.tolist() == [1, 2]


def test_chinese_words_of_two_characters() -> None:
    template, words = "{mask:2}新闻。{sentence}", {"sport": ("体育",), "finance": ("财经",)}
    texts, _ = written(wordpiece(), template, rows(["好"]), words)
    assert texts.tokens_N.tolist() == [2, 4, 4, 19, 20, 1, 18, 3]
    assert texts.places.positions.tolist() == [1, 2]
    pair, _ = written(
        wordpiece(), "{sentence1}？{mask}，{sentence2}", rows(["好"], ["财经"]), {"no": ("不是",), "yes": ("是",)}
    )
    assert pair.tokens_N.tolist() == [2, 18, 21, 4, 22, 16, 17, 3, 2, 18, 21, 4, 4, 22, 16, 17, 3]


def test_a_byte_level_word_takes_the_space_before_its_slot() -> None:
    tokenizer = byte_level()
    texts, _ = written(
        tokenizer,
        "{sentence} it was {mask}.",
        rows(["a fine film"]),
        {"no": ("terrible",), "yes": ("great",)},
        "roberta",
    )
    vocabulary = tokenizer.vocabulary
    tokens = [vocabulary[index] for index in texts.sequence(0)]
    assert "".join(tokens[1:-1]).startswith("aĠfineĠfilmĠitĠwas<mask>")
    ids = encode_words(tokenizer, WORDS, list(WORDS), True, 0)
    assert ["".join(vocabulary[token] for token in word) for own in ids for word in own] == ["Ġterrible", "Ġgreat"]
    first, _ = written(tokenizer, "it: {sentence} {mask}", rows(["a film"]), {"yes": ("great",), "no": ("the",)}, "gpt")
    assert "".join(vocabulary[index] for index in first.sequence(0)).startswith("it:ĠaĠfilm")


def test_the_chain_goes_on_from_the_prompt() -> None:
    tokenizer = wordpiece()
    texts, _ = written(tokenizer, "{sentence} it was {mask}", rows(["a film"]), WORDS, "gpt")
    # "ter" is given for "##rible"; "great" and "ter" are read from its first place.
    assert texts.tokens_N.tolist() == [5, 7, 8, 9, 11]
    assert texts.places.positions.tolist() == [3, 4]


def test_t5_has_a_sentinel() -> None:
    tokenizer = Tokenizer.train(TEXTS, "unigram", 60, mask=True, sentinels=2)
    texts, _ = written(
        tokenizer, "{sentence} it was {mask}.", rows(["a film", "the plot"]), {"no": ("it",), "yes": ("great",)}, "t5"
    )
    sentinel, eos = tokenizer.specials.sentinels[0], tokenizer.specials.eos
    for row in range(2):
        ids = texts.sequence(row).tolist()
        assert ids.count(sentinel) == 1 and ids[-1] == eos
    assert len(texts.places.positions) == 0 and texts.parts_n.tolist() == [1, 1]


def test_soft_tokens_and_triggers_have_ids_after_the_vocabulary() -> None:
    tokenizer = wordpiece()
    plan = plan_of(PromptTemplate('{soft:"it was"}{trigger:2}{sentence}{soft:1}{mask}'), tokenizer)
    size = tokenizer.size
    assert plan.soft == (8, 9, -1)
    assert plan.parts[0] == (size, size + 1) and plan.parts[1] == (size + 3, size + 4) and plan.parts[3] == (size + 2,)


def test_only_columns_are_shortened_the_longest_first() -> None:
    assert kept_of([10, 3], 8) == [5, 3] and kept_of([4, 4], 7) == [3, 4] and kept_of([9, 9, 2], 12) == [5, 5, 2]
    texts, cut = written(
        wordpiece(),
        "{sentence1}？{mask}，{sentence2}",
        rows(["a " * 30], ["film"]),
        {"x": ("好",), "y": ("是",)},
        limit=16,
    )
    assert cut == 1 and texts.lengths_S.tolist() == [16]
    assert texts.tokens_N.tolist() == [2, *[5] * 10, 21, 4, 22, 7, 3]


def test_demonstrations_are_other_examples_of_each_class() -> None:
    """Brute force: every draw has one example of each class, never the query, from the nearer half of its class."""
    texts = [f"{word} film" for word in ("a", "fine", "great", "was")] + [
        f"{word} it" for word in ("a", "fine", "great", "was")
    ]
    codes = np.array([0] * 4 + [1] * 4)

    def vectors(asked: Any) -> np.ndarray:
        table = {text: np.array([np.cos(index), np.sin(index)]) for index, text in enumerate(texts)}
        return np.stack([table[text] for text in asked])

    demos = Demonstrations(rows(texts), codes, 16, 3, vectors)
    drawn = demos.drawn(rows(texts))
    assert drawn.shape == (8, 16, 2) and (drawn == demos.drawn(rows(texts))).all()
    for row in range(8):
        for code in (0, 1):
            pool = [index for index in range(8) if codes[index] == code and index != row]
            near = sorted(pool, key=lambda index: -np.cos(index - row))[: (len(pool) + 1) // 2]
            assert set(drawn[row, :, code].tolist()) == set(near)
    batch, _ = written(
        wordpiece(),
        "{sentence} {mask} . {demos}",
        rows(texts[:1]),
        {"no": ("好",), "yes": ("是",)},
        demos=Demonstrations(rows(texts), codes, 2, 3),
    )
    first, second = Demonstrations(rows(texts), codes, 2, 3).drawn(rows(texts[:1]))[0, 0]
    tokenizer = wordpiece()
    one, two = (tokenizer.encode([texts[index]])[0].tolist() for index in (first, second))
    assert batch.parts_n.tolist() == [2]
    assert batch.sequence(0).tolist() == [2, 5, 7, 4, 13, *one, 18, 13, *two, 24, 13, 3]


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{sentence} was", "no {mask}"),
        ("{mask} {sentence} {mask}", "2 groups of masks"),
        ("{text} {mask}", "not a column of text"),
        ("was {mask}", "no column of text"),
        ("{sentence} {mask:0}", "whole number"),
        ("{sentence} {soft:x} {mask}", "whole number"),
        ("{sentence {mask}", 'a single "{"'),
        ("{sentence:3} {mask}", "not a piece"),
        ("{demos}{demos}{sentence}{mask}", "{demos} twice"),
    ],
)
def test_mistakes_in_a_template(template: str, sentence: str) -> None:
    with pytest.raises(CanonError, match=sentence.replace("{", r"\{").replace("}", r"\}")) as mistake:
        PromptTemplate(template).check(("sentence",), ends=False)
    assert str(mistake.value).count(". ") == 0


def test_mistakes_in_words() -> None:
    tokenizer = wordpiece()
    for words, sentence in (
        ({"a": ("great",), "b": ()}, "no word for the class"),
        ({"a": ("great",), "b": ("great",)}, "is the word of a and of b"),
        ({"a": ("zebra",), "b": ("great",)}, "not in the tokenizer"),
        ({"a": ("terrible",), "b": ("great",)}, "has 1 tokens"),
    ):
        with pytest.raises(CanonError, match=sentence):
            encode_words(tokenizer, words, ["a", "b"], False, 2 if "1 tokens" in sentence else 0)
    with pytest.raises(CanonError, match="not a class"):
        encode_words(tokenizer, {"c": ("great",)}, ["a"], False, 0)
    with pytest.raises(CanonError, match="must end with"):
        PromptTemplate("{mask} {sentence}").check(("sentence",), ends=True)
    with pytest.raises(CanonError, match="beside its columns"):
        written(tokenizer, "it was " * 10 + "{sentence} {mask}", rows(["a film"]), WORDS, limit=16)
    assert of_columns(("a", "b"), False) == "{a} {mask} {b}" and of_columns(("a", "b"), True) == "{a} {b} {mask}"


def test_braces() -> None:
    texts, _ = written(wordpiece(), "{{ {sentence} }} {mask}", rows(["a"]), {"a": ("great",), "b": ("was",)})
    assert texts.tokens_N.tolist() == [2, 1, 5, 1, 4, 3]
    assert json.dumps(PromptTemplate("{{x}}{mask}").columns) == "[]"
