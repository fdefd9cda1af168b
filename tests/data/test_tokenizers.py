"""Tokenisers: against counting, a plain BPE, enumeration and the library itself; round trips; the same every time."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import sys
import tracemalloc
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tokenizers as library
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers

from canon.data.formats import files
from canon.data.formats.text import documents
from canon.data.text import tokenizers as module
from canon.data.text.tokenizers import Tokenizer, join_words
from canon.data.text.vocabularies import KINDS, PIECES, RESERVED
from canon.errors import CanonError

ENGLISH = [
    "A man in a blue shirt is standing on a ladder.",
    "Two dogs run across the green field, and one of them barks!",
    "The man's T-shirt (the old one) isn't blue; it cost $3.50.",
    'She said: "No way!" and left at 10:30.',
    "One woman, two children and 1,000 balloons: what a day?",
    "The dogs are running, the men are standing, the women walked.",
]
CHINESE = [
    "我喜欢学习机器翻译。",
    "他说：“今天天气很好！”",
    "我们在北京学习中文，也学习英文。",
    "机器学习和深度学习有什么不同？",
    "我用Python编程，他用machine learning写论文。",
    "天气很好，我们去公园学习（晚上再回来）。",
]
TEXTS = [*ENGLISH, *CHINESE] * 4
SIZES = {"byte-bpe": 400, "bpe": 300, "wordpiece": 300, "unigram": 250}


def trained(kind: str, texts: list[str] | None = None, **settings: int | bool) -> Tokenizer:
    return Tokenizer.train(texts or TEXTS, kind, **{"vocab_size": SIZES.get(kind, 0), **settings})  # type: ignore[arg-type]


def rows(tokenizer: Tokenizer, texts: list[str]) -> list[np.ndarray]:
    ids, lengths = tokenizer.encode(texts)
    return np.split(ids, np.cumsum(lengths)[:-1])


# Vocabularies


@pytest.mark.parametrize("kind", KINDS)
def test_reserved_ids_come_first_and_sizes_hold(kind: str) -> None:
    tokenizer = trained(kind)
    assert tuple(tokenizer.vocabulary[:4]) == RESERVED
    assert len(tokenizer.vocabulary) == len(set(tokenizer.vocabulary)) == tokenizer.size
    assert kind not in PIECES or tokenizer.size <= SIZES[kind]
    assert (tokenizer.kind, tokenizer.offset) == (kind, 0)


def ordered(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda token: (-counts[token], token))


def test_characters_and_split_tokens_by_falling_frequency() -> None:
    characters = Counter("".join(TEXTS))
    assert trained("char").vocabulary[4:] == ordered(characters)
    assert trained("char", vocab_size=20).vocabulary[4:] == ordered(characters)[:16]
    words = Counter(word for text in TEXTS for word in text.split())
    assert trained("split").vocabulary[4:] == ordered(words)
    assert trained("split", min_count=5).vocabulary[4:] == [word for word in ordered(words) if words[word] >= 5]


def test_words_by_falling_frequency() -> None:
    texts = ["Don't: the well-known cat,", "the cat costs 3.14; 我爱猫 the <unk> <unk> <unk> <unk>"]
    tokenizer = trained("word", texts)
    assert tokenizer.vocabulary[4:] == ["the", "cat", ",", "3.14", ":", ";", "Don't", "costs", "well-known", *"我爱猫"]
    ids = rows(tokenizer, ["the <unk> dog <pad>"])[0]
    assert tokenizer.tokens(ids) == ["the", "<unk>", "<unk>", "<unk>", "<unk>", "<unk>"]  # dog, <, pad, >
    assert trained("word", texts, lowercase=True).vocabulary[4] == "the"
    assert "don't" in trained("word", texts, lowercase=True).vocabulary


def test_words_of_many_scripts() -> None:
    text = "नमस्ते दुनिया, Привет мир! naïve café 日本語です 한국어 문장."
    words = ["नमस्ते", "दुनिया", ",", "Привет", "мир", "!", "naïve", "café", *"日本語です", "한국어", "문장", "."]
    tokenizer = trained("word", [text])
    assert tokenizer.tokens(rows(tokenizer, [text])[0]) == words


def plain_bpe(words: Counter[str], merges: int) -> list[tuple[str, str]]:
    """Sennrich et al.'s algorithm, written out; ties are avoided by the test's text."""
    spelled = {word: tuple(word) for word in words}
    learnt = []
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(spelled[word]):
                pairs[pair] += count
        (best, most), (_, second) = pairs.most_common(2)
        assert most > second, "a tie"
        learnt.append(best)
        for word, pieces in spelled.items():
            joined: list[str] = []
            for piece in pieces:
                if joined and (joined[-1], piece) == best:
                    joined[-1] += piece
                else:
                    joined.append(piece)
            spelled[word] = tuple(joined)
    return learnt


# Words in which twelve merges meet no tie.
WORDS = Counter(
    {"abbcaa": 62, "bcaac": 65, "aacb": 8, "acbbb": 39, "bacb": 87, "abab": 81, "acaaa": 27}
    | {"cbab": 88, "bbbacc": 44, "aabaaa": 66, "ccac": 13, "bcb": 79, "aab": 24, "bbb": 60}
)


def test_bpe_learns_what_the_algorithm_says() -> None:
    text = " ".join(word for word, count in WORDS.items() for _ in range(count))
    expected = plain_bpe(Counter({"▁" + word: count for word, count in WORDS.items()}), 12)
    tokenizer = Tokenizer.train([text], "bpe", 4 + len(set(text)) + 12)
    record = json.loads(tokenizer.to_json())["model"]["merges"]
    assert [tuple(merge) for merge in record] == expected
    assert tokenizer.vocabulary[-12:] == ["".join(pair) for pair in expected]


def test_wordpiece_learns_what_the_librarys_trainer_does() -> None:
    """Up to ties, which the library settles each time; here are none."""
    text = " ".join(word for word, count in WORDS.items() for _ in range(count))
    own = Tokenizer.train([text], "wordpiece", 4 + 6 + 12)
    theirs = library.Tokenizer(models.WordPiece(unk_token="<unk>"))
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.train_from_iterator(
        [text], trainers.WordPieceTrainer(vocab_size=own.size, special_tokens=list(RESERVED), show_progress=False)
    )
    assert own.size == 22 and set(own.vocabulary) == set(theirs.get_vocab())


def test_unigram_takes_the_best_of_all_segmentations() -> None:
    tokenizer = trained("unigram", ENGLISH * 4, vocab_size=120)
    scores = dict(json.loads(tokenizer.to_json())["model"]["vocab"])
    for word in ("standing", "walked", "dogs", "blue"):
        text = "▁" + word
        values = []
        for cuts in itertools.product([False, True], repeat=len(text) - 1):
            places = [0, *(index + 1 for index, cut in enumerate(cuts) if cut), len(text)]
            pieces = [text[start:stop] for start, stop in itertools.pairwise(places)]
            if all(piece in scores for piece in pieces):
                values.append((sum(scores[piece] for piece in pieces), pieces))
        ids = rows(tokenizer, [word])[0]
        total = sum(scores[tokenizer.vocabulary[index]] for index in ids)
        assert total == pytest.approx(max(values)[0], abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_training_gives_the_same_vocabulary_each_time(kind: str) -> None:
    """The library's own WordPiece and Unigram fail this; texts are many enough for ties."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefgh我喜欢学习"))
    texts = [" ".join("".join(rng.choice(letters, 5)) for _ in range(6)) for _ in range(60)]
    first = trained(kind, texts).to_json()
    assert all(trained(kind, texts).to_json() == first for _ in range(4))


@pytest.mark.parametrize("kind", KINDS)
def test_texts_may_be_a_list_an_iterator_or_a_function(kind: str) -> None:
    expected = trained(kind).to_json()
    for texts in (iter(TEXTS), lambda: iter(TEXTS), tuple(TEXTS)):
        assert Tokenizer.train(texts, kind, SIZES.get(kind, 0)).to_json() == expected


def test_characters_that_do_not_fit_are_unknown() -> None:
    texts = ["abcdefgh" * 10 + "xyz", "abababab"]
    for kind, size in (("bpe", 14), ("unigram", 14), ("wordpiece", 24)):
        tokenizer = trained(kind, texts, vocab_size=size, min_count=2)
        assert tokenizer.size <= size
        assert not any("z" in piece for piece in tokenizer.vocabulary)
        assert tokenizer.unknown_rate(["z"]) > 0 and tokenizer.unknown_rate(["abab"]) == 0
    crowded = trained("bpe", [chr(0x4E00 + index) * (400 - index) for index in range(300)], vocab_size=100)
    assert crowded.size == 100
    assert crowded.unknown_rate([chr(0x4E00)]) == 0 < crowded.unknown_rate([chr(0x4E00 + 299)])


def test_memory_does_not_grow_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK", 1 << 14)
    peaks = []
    for count in (4_000, 16_000):
        path = tmp_path / "big.txt.gz"
        path.write_bytes(gzip.compress(("some words of text, repeated\n" * count).encode()))
        tracemalloc.start()
        tokenizer = Tokenizer.train(partial(documents, path), "bpe", 60)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert "▁text" in tokenizer.vocabulary
    assert peaks[1] < 1.1 * peaks[0]


# Round trips

WORDY = [*ENGLISH, *CHINESE, "我们用BERT和GPT做翻译，效果不错！", "Prices (in €) rose by 3.5%; it's 1,234 now..."]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", WORDY)
def test_sentences_come_back(kind: str, text: str) -> None:
    tokenizer = trained(kind, [*TEXTS, *WORDY])
    assert tokenizer.unknown_rate([text]) == 0
    assert tokenizer.decode(rows(tokenizer, [text])[0]) == text


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_pieces_keep_spaces_and_line_ends_in_nfc(kind: str) -> None:
    tokenizer = trained(kind, ["cafe\u0301  two  spaces\n\tand a line ", *TEXTS])
    back = tokenizer.decode(rows(tokenizer, ["cafe\u0301  two  spaces\n\tand a line "])[0])
    assert back == "caf\u00e9  two  spaces\n\tand a line "
    assert tokenizer.decode(rows(tokenizer, [" and"])[0]) == "and"  # the one thing that is lost


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
BYTES = trained("byte-bpe")


@given(TEXT)
def test_bytes_bring_back_any_text(text: str) -> None:
    ids, lengths = BYTES.encode([text, "x", text])
    assert 1 not in ids and BYTES.decode(ids[: lengths[0]]) == text
    assert BYTES.decode_batch(np.split(ids, np.cumsum(lengths)[:-1])) == [text, "x", text]


@given(TEXT.filter(lambda text: bool(text.strip())))
def test_characters_bring_back_any_text(text: str) -> None:
    tokenizer = Tokenizer.train([text], "char")
    ids, lengths = tokenizer.encode([text])
    assert lengths.tolist() == [len(text)] and tokenizer.decode(ids) == text
    assert [tokenizer.vocabulary[index] for index in ids] == list(text)


@given(st.sampled_from([kind for kind in KINDS if kind != "split"]), TEXT)
@settings(max_examples=40)
def test_no_text_is_taken_for_a_reserved_token(kind: str, text: str) -> None:
    tokenizer = MIXED[kind]
    ids, _ = tokenizer.encode([f"{text}<pad>{text}<eos><bos>"])
    assert not np.isin(ids, (0, 2, 3)).any()


MIXED = {kind: trained(kind, [*TEXTS, "< > pad bos eos"]) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_drops_what_is_not_text(kind: str) -> None:
    tokenizer = MIXED[kind]
    ids = rows(tokenizer, ["A man"])[0]
    padded = [2, *ids.tolist(), 3, 0, 0]
    assert tokenizer.decode(padded) == tokenizer.decode(np.array(padded)) == tokenizer.decode(ids) == "A man"
    assert tokenizer.decode([]) == "" and tokenizer.decode_batch([]) == []
    assert "<unk>" in tokenizer.decode([1])
    assert tokenizer.tokens([0, 1, 2, 3]) == list(RESERVED)


def test_words_are_joined_as_they_are_written() -> None:
    for text in (
        "He (who?) said: “no”, then 'maybe', and left…",
        'a "b" and "c d" / e',
        "5% of $3 & #1",
    ):
        words = re.findall(r"\w+|\S", text)
        assert join_words(words) == text.replace(" / ", "/")
    assert join_words(["中", "文", "和", "English", "混", "合", "。"]) == "中文和English混合。"


def test_labels_show_spaces_line_ends_and_lone_bytes() -> None:
    tokenizer = Tokenizer.train(["a a"], "byte-bpe", 260)
    assert tokenizer.tokens(tokenizer.encode(["a \n我"])[0]) == ["a", "▁", "\\n", "<0xE6>", "<0x88>", "<0x91>"]
    characters = Tokenizer.train(["a \t\n"], "char")
    assert characters.tokens(characters.encode(["a \t\n"])[0]) == ["a", "▁", "\\t", "\\n"]


def test_encoding_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = MIXED["bpe"]
    ids, lengths = tokenizer.encode(TEXTS)
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64) and lengths.sum() == len(ids)
    monkeypatch.setattr(module, "BATCH", 50)
    again, counts = tokenizer.encode(np.array(TEXTS, dtype=object))  # type: ignore[arg-type]
    assert np.array_equal(ids, again) and np.array_equal(lengths, counts)
    assert [len(part) for part in tokenizer.encode([])] == [0, 0]
    assert tokenizer.encode(["", "a", ""])[1].tolist() == [0, 1, 0]


# Files


@pytest.mark.parametrize("kind", KINDS)
def test_stored_and_read_again(kind: str, tmp_path: Path) -> None:
    tokenizer = MIXED[kind]
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_json(), encoding="utf-8")
    again = Tokenizer.load(path)
    assert again.kind == kind and again.to_json() == tokenizer.to_json()
    ids, _ = tokenizer.encode(WORDY)
    assert np.array_equal(again.encode(WORDY)[0], ids)
    # The library reads the same file, and so does transformers.
    theirs = library.Tokenizer.from_file(str(path))
    assert [index for text in WORDY for index in theirs.encode(text).ids] == ids.tolist()


def test_transformers_reads_the_file(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "tokenizer.json"
    path.write_text(MIXED["bpe"].to_json(), encoding="utf-8")
    names = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token"), RESERVED, strict=True))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), **names)
    assert theirs(WORDY[0]).input_ids == MIXED["bpe"].encode(WORDY[:1])[0].tolist()
    assert (theirs.pad_token_id, theirs.eos_token_id) == (0, 3)


def foreign(tmp_path: Path, model: str) -> tuple[library.Tokenizer, Path]:
    """A tokenizer.json as BERT or GPT-2 have it: other reserved tokens, and padding and truncation switched on."""
    if model == "bert":
        own = library.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        own.pre_tokenizer, own.decoder = pre_tokenizers.BertPreTokenizer(), library.decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    else:
        own = library.Tokenizer(models.BPE())
        own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), library.decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    trainer.show_progress = False
    own.train_from_iterator(ENGLISH, trainer)
    own.enable_padding(length=50)
    own.enable_truncation(5)
    own.save(str(tmp_path / "tokenizer.json"))
    own.no_padding()
    own.no_truncation()
    return own, tmp_path / "tokenizer.json"


@pytest.mark.parametrize("model", ["bert", "gpt2"])
def test_foreign_files_make_room_for_the_reserved_ids(model: str, tmp_path: Path) -> None:
    theirs, path = foreign(tmp_path, model)
    tokenizer = Tokenizer.load(path)
    assert (tokenizer.kind, tokenizer.offset) == ("foreign", 4)
    assert tokenizer.size == theirs.get_vocab_size() + 4 and tuple(tokenizer.vocabulary[:4]) == RESERVED
    text = ENGLISH[1]
    ids = rows(tokenizer, [text])[0]
    expected = theirs.encode(text, add_special_tokens=False).ids
    assert (ids - 4).tolist() == expected
    assert tokenizer.decode([2, *ids, 3]) == theirs.decode(expected)
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.kind == "foreign" and np.array_equal(again.encode([text])[0], ids)
    if model == "bert":
        assert tokenizer.encode(["我"])[0].tolist() == [1] and tokenizer.unknown_rate(["我"]) == 1
        assert tokenizer.decode([1]) == "[UNK]"
    else:
        assert tokenizer.tokens(tokenizer.encode([" a"])[0])[0] == "▁a"
        assert tokenizer.decode([1]) == ""


# Bad input


@pytest.mark.parametrize(
    "text,sentence",
    [
        ("", r"t\.json is not a tokenizer\.json of the tokenizers library \(Expecting value.*\)\."),
        ('{"model": ', r"t\.json is not a tokenizer\.json .*\(Expecting value"),
        ("{}", r"t\.json is not a tokenizer\.json .*\(it has no 'model'\)"),
        ("[1, 2]", r"t\.json is not a tokenizer\.json"),
        ('{"model": {"type": "BPE"}}', r"t\.json is not a tokenizer\.json"),
        ('{"model": {"type": "Unigram", "unk_id": 5, "vocab": [["a", 0.0]]}}', r"t\.json is not a tokenizer\.json"),
    ],
)
def test_damaged_files_are_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(CanonError, match=sentence) as caught:
        Tokenizer.load(path)
    assert "\n" not in str(caught.value)


def test_cut_files_and_changed_kinds_are_reported(tmp_path: Path) -> None:
    whole = MIXED["bpe"].to_json()
    for share in (0.2, 0.5, 0.9):
        with pytest.raises(CanonError, match=r"The tokenizer is not a tokenizer\.json"):
            Tokenizer.from_json(whole[: int(share * len(whole))])
    changed = json.loads(whole)
    changed["model"]["canon"] = "syllable"
    with pytest.raises(CanonError, match=r'is damaged: it is not of the kind "syllable" with <pad> <unk> <bos> <eos>'):
        Tokenizer.from_json(json.dumps(changed))
    changed = json.loads(whole.replace('"<pad>"', '"<fill>"'))
    with pytest.raises(CanonError, match='is damaged: it is not of the kind "bpe" with <pad>'):
        Tokenizer.from_json(json.dumps(changed))
    with pytest.raises(CanonError, match=r"There is no file .*absent\.json"):
        Tokenizer.load(tmp_path / "absent.json")


def test_wrong_settings_are_reported() -> None:
    for arguments, sentence in (
        ((TEXTS, "bqe"), r'No kind of tokenizer "bqe"; did you mean bpe\?'),
        ((TEXTS, "byte-bpe", 100), "vocab_size must be at least 260 for byte-bpe, got 100"),
        ((TEXTS, "word", 3), "vocab_size must be at least 5 for word, got 3"),
        ((TEXTS, "bpe", 0, False, 0), "min_count must be a positive whole number, got 0"),
        (("one text", "bpe"), "trained on a list of texts, not on one string"),
    ):
        with pytest.raises(CanonError, match=sentence):
            Tokenizer.train(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["  ", "\n"]])
def test_no_text_is_reported(kind: str, texts: list[str]) -> None:
    with pytest.raises(CanonError, match=r"There is no text to train a tokenizer on\."):
        Tokenizer.train(texts, kind)


@pytest.mark.parametrize("kind", ["word", "char", "split", "bpe", "unigram", "wordpiece"])
def test_nothing_frequent_enough_is_reported(kind: str) -> None:
    with pytest.raises(CanonError, match=r"occurs 1,000 times; set a smaller min_count\."):
        Tokenizer.train(["ab ab"], kind, min_count=1000)


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_character_is_reported(kind: str) -> None:
    sentence = r"A text holds U\+D83D, half of a surrogate pair and not a character; correct or remove it\."
    with pytest.raises(CanonError, match=sentence):
        MIXED[kind].encode(["fine", "not \ud83d"])
    with pytest.raises(CanonError, match=sentence):
        Tokenizer.train(["fine", "not \ud83d"], kind, 300)


def test_a_vocabulary_that_does_not_fit_names_both_files() -> None:
    tokenizer = MIXED["char"]
    tokenizer.require_rows(tokenizer.size, "a.json", "b")
    expected = rf"a\.json has {tokenizer.size} tokens but run/best was trained with 37,000; use the tokenizer that was"
    with pytest.raises(CanonError, match=expected):
        tokenizer.require_rows(37_000, "a.json", "run/best")


def test_without_the_library_the_way_to_get_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        CanonError, match=r'needs the tokenizers library; install it with pip install "deepcanon\[text\]"'
    ):
        Tokenizer.train(TEXTS, "bpe")
