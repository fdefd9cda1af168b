"""A corpus against brute force in plain Python: words, counts, numbers and splits of all sources, good and bad."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import lzma
import os
import re
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from canon.data.config import DataConfig
from canon.data.corpus import corpus, text_blocks, word_counts
from canon.data.corpus.corpus import MARK, Corpus, build_parts
from canon.data.corpus.text_blocks import TextStream
from canon.data.encodings.word_ids import WordIdSchema
from canon.data.formats import files
from canon.data.read import inputs, labelled
from canon.data.schema import Schema
from canon.data.text import segment
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.kernels.cpu import corpus as kernels_corpus
from tests.reading import check_as, read_as

RNG = np.random.default_rng(0)
QUICK = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
CHARACTERS = st.characters(exclude_categories=("Cs", "Cn"), exclude_characters="\0")
TEXT = st.lists(
    st.one_of(
        st.text(CHARACTERS, max_size=6), st.sampled_from(["a", "b ", " ", "\n", "é\n", "\r\n", "\t", "字", "3.14"])
    ),
    max_size=40,
).map("".join)


def build(path: Path, config: Any, keep: Words | None = None, threads: int = 0) -> tuple[Words, Corpus]:
    """The words of a text file and the text in their numbers; nothing is held out."""
    text = TextStream((path,), encoding=config.encoding, name=str(path))
    built = build_parts({"train": text}, config, {}, keep, threads)
    return built.words, built.parts["train"]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def sentences(text: str) -> list[list[str]]:
    """What white space of ASCII parts, line by line; by the methods of bytes, which know no other."""
    return [[word.decode() for word in line.split()] for line in text.encode().split(b"\n")]


def brute(rows: list[list[str]], min_count: int = 1, vocab_size: int = 0) -> tuple[list[tuple[str, int]], list[int]]:
    """Words by falling counts, then by code point, and the text in their numbers."""
    counts = Counter(word for row in rows for word in row)
    ranked = sorted(((w, n) for w, n in counts.items() if n >= min_count), key=lambda pair: (-pair[1], pair[0]))
    ranked = ranked[:vocab_size] if vocab_size else ranked
    return ranked, numbered(rows, [word for word, _ in ranked])


def numbered(rows: list[list[str]], words: list[str]) -> list[int]:
    index = {word: number for number, word in enumerate(words)}
    values: list[int] = []
    for row in rows:
        kept = [index[word] for word in row if word in index]
        values += [*kept, MARK] if kept else []
    return values


def pairs(words: Words) -> list[tuple[str, int]]:
    return list(zip(words.words, words.counts.tolist(), strict=True))


def story(lines: int = 400, seed: int = 1) -> str:
    """Lines of words whose frequencies fall as in language; some lines are empty."""
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.3, 8 * lines), 500).tolist()
    return "\n".join(" ".join(f"w{rank}" for rank in ranks[8 * i : 8 * i + i % 9]) for i in range(lines)) + "\n"


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", 16)


# Words, counts and numbers


@QUICK
@given(TEXT, st.integers(1, 3), st.sampled_from([16, 40, 1 << 20]), st.sampled_from([1, 3]))
def test_counts_and_numbers_are_those_of_brute_force(
    tmp_path: Path, text: str, min_count: int, block: int, threads: int
) -> None:
    ranked, tokens = brute(sentences(text), min_count)
    path = write(tmp_path / "t.txt", text.removeprefix("\ufeff"))
    config = DataConfig(min_count=min_count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK", block)
        patch.setenv("CANON_CACHE", str(tmp_path / f"{time.monotonic_ns()}"))
        if not ranked or text.startswith("\ufeff"):
            return
        words, result = build(path, config, threads=threads)
    assert pairs(words) == ranked and words.total == sum(map(len, sentences(text)))
    assert result.tokens.tolist() == tokens and result.tokens.dtype == np.int32


@QUICK
@given(TEXT, st.booleans(), st.sampled_from([16, 1 << 20]))
def test_words_are_those_of_the_word_tokenizer(tmp_path: Path, text: str, lowercase: bool, block: int) -> None:
    """Against the tokenizers library, whose regular expressions cut the words of canon's other systems."""
    inner = Tokenizer.train(["a"], "word")._inner
    rows = []
    for line in text.removeprefix("\ufeff").split("\n"):
        cut = inner.pre_tokenizer.pre_tokenize_str(inner.normalizer.normalize_str(line))
        rows.append([word.lower() if lowercase else word for word, _ in cut])
    ranked, tokens = brute(rows)
    if not ranked:
        return
    path = write(tmp_path / "t.txt", text.removeprefix("\ufeff"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK", block)
        patch.setenv("CANON_CACHE", str(tmp_path / f"{time.monotonic_ns()}"))
        words, result = build(path, DataConfig(tokenizer="word", lowercase=lowercase), threads=1)
    assert pairs(words) == ranked and result.tokens.tolist() == tokens


@given(st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_bytes_are_good_where_python_decodes_them(content: bytes) -> None:
    actual = kernels_corpus.first_bad(np.frombuffer(bytearray(content), dtype=np.uint8))
    zero = content.find(b"\0")
    try:
        content.decode()
        expected = zero
    except UnicodeDecodeError as mistake:
        expected = mistake.start if zero < 0 else min(zero, mistake.start)
    assert actual == expected


def test_no_word_has_a_code_point_that_is_not_looked_at() -> None:
    """Letters, digits, marks and white space, by Python's own tables."""
    rest = set(map(chr, range(sys.maxunicode + 1))).difference(*(map(chr, part) for part in word_counts._ASSIGNED))
    assert {unicodedata.category(character) for character in rest} <= {"Cn", "Co"}
    assert word_counts.code_point_classes()[ord("\U000e0100")] == kernels_corpus.LETTER  # a mark of the last plane


def test_lower_case_is_unicodes(tmp_path: Path, tiny_blocks: None) -> None:
    text = "The THE the É é ÇA ça\nΟΔΟΣ οδος Straße STRASSE İ\n" * 3
    words, result = build(write(tmp_path / "t.txt", text), DataConfig(lowercase=True))
    ranked, tokens = brute(sentences(text.lower()))
    assert pairs(words) == ranked and result.tokens.tolist() == tokens


def test_the_number_of_threads_and_the_size_of_blocks_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.txt", story())
    seen = []
    for threads, block in ((1, 1 << 20), (3, 1000), (3, 64)):
        monkeypatch.setattr(text_blocks, "BLOCK", block)
        monkeypatch.setenv("CANON_CACHE", str(tmp_path / f"{threads}-{block}"))
        words, result = build(path, DataConfig(min_count=3), threads=threads)
        seen.append((pairs(words), result.tokens.tolist()))
    assert seen[0] == seen[1] == seen[2]


def test_vocab_size_keeps_the_most_frequent(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", story())
    words, result = build(path, DataConfig(vocab_size=20, min_count=2))
    ranked, tokens = brute(sentences(story()), 2, 20)
    assert pairs(words) == ranked and len(ranked) == 20 and result.tokens.tolist() == tokens


def test_a_text_on_one_line_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", 1000)
    text = story(3000).replace("\n", " ")
    words, result = build(write(tmp_path / "t.txt", text), DataConfig())
    assert result.tokens[-1] == MARK and (result.tokens == MARK).sum() == 1
    assert len(result) == len(text.split()) + 1 and words.total == len(text.split())


def test_words_too_long_for_one_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block or over many; what comes after them is not lost, nor is a word of just the greatest length."""
    longest = kernels_corpus.LONGEST_WORD
    text = f"a {'x' * (longest + 1)} b\n{'é' * 20_000} c {'y' * longest}\na"
    for block in (1 << 20, 4096):
        monkeypatch.setattr(text_blocks, "BLOCK", block)
        monkeypatch.setenv("CANON_CACHE", str(tmp_path / f"{block}"))
        path = write(tmp_path / "t.txt", text)
        data = read_as(DataConfig(source=str(path), valid=0.0, test=0.0), "word-ids")
        words = data.schema.words
        assert words is not None and words.words == ["a", "b", "c", "y" * longest] and words.total == 7
        assert data.splits["train"]["input"].tokens.tolist() == [0, 1, MARK, 2, 3, MARK, 0, MARK]  # type: ignore[union-attr]
        assert "2 words are too long for one (over 1,000 bytes) and are left out." in data.notes


def test_chinese_without_spaces_is_cut_between_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", 600)
    text = "".join(chr(0x4E00 + number % 300) for number in range(5000))
    words, result = build(write(tmp_path / "t.txt", text), DataConfig(tokenizer="word"))
    assert result.tokens.tolist() == [*(words.index[character] for character in text), MARK]


def test_a_part_is_a_view(tmp_path: Path) -> None:
    words, result = build(write(tmp_path / "t.txt", story()), DataConfig())
    part = result.part(5, 25)
    assert part.words is words and np.shares_memory(part.tokens, result.tokens) and isinstance(result.tokens, np.memmap)
    assert result.take(np.arange(5, 25)).tokens.tolist() == part.tokens.tolist() == result.tokens[5:25].tolist()
    assert part.shape == (20,) and len(result.take(np.arange(0))) == 0
    with pytest.raises(AssertionError):
        result.take(np.array([1, 3]))


# Memory


def test_pruning_keeps_the_frequent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many words that come once, among a few that come often: these keep their exact counts and order."""
    lines = [f"often{i % 7} seldom{i} more{i % 3}" for i in range(3000)]
    text = "\n".join(lines)
    monkeypatch.setattr(text_blocks, "BLOCK", 2000)
    monkeypatch.setattr(word_counts, "MOST_WORDS", 300)
    values = []
    for threads in (1, 3):
        monkeypatch.setenv("CANON_CACHE", str(tmp_path / f"{threads}"))
        source = TextStream((write(tmp_path / "t.txt", text),))
        built = build_parts({"train": source}, DataConfig(min_count=50), {}, threads=threads)
        ranked, tokens = brute(sentences(text), 50)
        assert pairs(built.words) == ranked and built.parts["train"].tokens.tolist() == tokens
        assert built.counts.forgotten > 1 and built.counts.words == 9000 and built.words.total == 9000
        values.append(built.counts)
    assert values[0] == values[1]


def test_words_that_were_forgotten_for_a_while_are_counted_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`late` comes once among the rare, which are forgotten, and often later: the numbered text counts it whole."""
    text = "late " + " ".join(f"seldom{i}" for i in range(2000)) + "\n" + "late again " * 40
    monkeypatch.setattr(text_blocks, "BLOCK", 500)
    monkeypatch.setattr(word_counts, "MOST_WORDS", 100)
    words, _ = build(write(tmp_path / "t.txt", text), DataConfig(min_count=10))
    assert pairs(words) == [("late", 41), ("again", 40)]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """Peak memory of a process that reads 240 MB against one that reads a hundredth of it."""
    words = [f"word{rank}" for rank in range(20_000)]
    piece = " ".join(words[rank] for rank in np.minimum(RNG.zipf(1.2, 400_000), 20_000) - 1).encode() + b"\n"
    code = """
import resource, sys
from pathlib import Path
from typing import Any
from canon.data.config import DataConfig
from canon.data.corpus.corpus import build_parts
from canon.data.corpus.text_blocks import TextStream
config = DataConfig(tokenizer="split", min_count=1)
built = build_parts({"train": TextStream((Path(sys.argv[1]),))}, config, {}, threads=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(built.parts["train"]))
"""
    peaks = []
    for times in (1, 100):
        path = tmp_path / f"{times}.txt.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            for _ in range(times):
                file.write(piece)
        printed = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout
        peak, places = map(int, printed.split())
        assert places == 400_001 * times
        peaks.append(peak / 1024)
    assert 100 * len(piece) > 200e6 and peaks[1] - peaks[0] < 200, peaks


# Kinds of files


def same_as_plain(path: Path, tmp_path: Path, text: str | None = None, **changes: object) -> None:
    """The source `path` gives the words and numbers of the text in a plain file."""
    text = text or story(60)
    config = DataConfig(source=str(path), valid=0.0, test=0.0, **changes)  # type: ignore[arg-type]
    data = read_as(config, "word-ids", system="word2vec")
    ranked, tokens = brute(sentences(text))
    assert data.schema.words is not None and pairs(data.schema.words) == ranked
    assert data.splits["train"]["input"].tokens.tolist() == tokens  # type: ignore[union-attr]


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".txt.xz", ".txt.bz2"])
def test_compressed_is_plain(tmp_path: Path, ending: str, tiny_blocks: None) -> None:
    pack = {".txt.gz": gzip.compress, ".txt.xz": lzma.compress, ".txt.bz2": bz2.compress}.get(ending, bytes)
    same_as_plain(write(tmp_path / f"t{ending}", pack(story(60).encode())), tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "gb18030", "utf-16", "utf-32-be"])
def test_encodings(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK", 7)
    text = "déjà vu déjà\nà la\n" * 9 if encoding == "latin-1" else "我 爱 你 café\n我 很 好 café\n" * 9
    path = write(tmp_path / "t.txt", text.encode(encoding))
    same_as_plain(path, tmp_path, text, encoding="utf-8" if encoding == "utf-8-sig" else encoding)


def test_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of a table is its cells one after the other, each line of a cell a sentence."""
    monkeypatch.setattr(text_blocks, "ROWS", 7)
    rows = [f"{line}\n{line} again" if number % 5 == 0 else line for number, line in enumerate(story(60).split("\n"))]
    text = "\n".join(rows)
    jsonl = "".join(json.dumps({"id": number, "body": row}) + "\n" for number, row in enumerate(rows))
    same_as_plain(write(tmp_path / "t.jsonl", jsonl), tmp_path, text)
    same_as_plain(write(tmp_path / "t.jsonl.gz", gzip.compress(jsonl.encode())), tmp_path, text, features=("body",))
    quoted = "".join(f'{number},"{row}"\n' for number, row in enumerate(rows))
    same_as_plain(write(tmp_path / "t.csv", "id,body\n" + quoted), tmp_path, text)
    same_as_plain(
        write(tmp_path / "u.csv", "id;body\n" + quoted.replace(",", ";", 1_000)), tmp_path, text, delimiter=";"
    )
    flat = "\n".join(row.replace("\n", " ") for row in rows)
    tsv = "id\tbody\n" + "".join(f"{number}\t{row}\n" for number, row in enumerate(flat.split("\n")))
    same_as_plain(write(tmp_path / "t.tsv", tsv), tmp_path, flat)
    table = pa.table({"id": list(range(len(rows))), "body": rows, "tags": [["a long list of tags"] * 9] * len(rows)})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=10)
    same_as_plain(tmp_path / "t.parquet", tmp_path, text)


def test_a_cell_may_be_missing_or_a_number(tmp_path: Path) -> None:
    rows = [{"text": "a b a\0c"}, {"other": "x"}, {"text": None}, {"text": 7}]
    path = write(tmp_path / "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    same_as_plain(path, tmp_path, "a b a c\n7")


def test_folders(tmp_path: Path) -> None:
    lines = story(60).split("\n")
    folder = tmp_path / "many"
    (folder / "deep").mkdir(parents=True)
    for number in range(0, len(lines), 10):
        (folder / "deep" / f"{number:03d}.txt").write_text("\n".join(lines[number : number + 10]))
    (folder / ".hidden.txt").write_text("hidden hidden")
    same_as_plain(folder, tmp_path)
    shards = tmp_path / "shards"
    shards.mkdir()
    for number in range(0, len(lines), 10):
        rows = [{"text": line} for line in lines[number : number + 10]]
        write(shards / f"{number:03d}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    (shards / "README.md").write_text("not part of it")
    same_as_plain(shards, tmp_path)


def test_built_in_documents() -> None:
    data = read_as(
        DataConfig(source="python-modules", tokenizer="split", min_count=5, lowercase=True),
        "word-ids",
        system="word2vec",
    )
    words = data.schema.words
    assert words is not None and words.words[0] == "the" and set(data.splits) == {"train", "valid", "test"}
    assert data.schema.sizes() == {"shape": (), "vocab_size": words.size}


def test_documents_in_memory(tmp_path: Path) -> None:
    """Texts by themselves, not of a named source: what is kept is distinguished by what is in them."""
    for text in ("a b\nb", "b b a"):
        built = build_parts({"train": TextStream(documents=[text, "", text])}, DataConfig(), {})
        assert built.parts["train"].tokens.tolist() == brute(sentences(f"{text}\n\n{text}"))[1]
        assert build_parts({"train": TextStream((write(tmp_path / "t.txt", text),))}, DataConfig(), {}).words.total == 3


# Splits


def cut(data) -> dict[str, list[int]]:  # type: ignore[no-untyped-def]
    return {name: columns["input"].tokens.tolist() for name, columns in data.splits.items()}


def test_shares_are_the_end_of_the_text_and_words_those_of_the_rest(tmp_path: Path) -> None:
    """Lines of five words each, so that the tenths end where a line does; brute force on the lines before."""
    rng = np.random.default_rng(3)
    rows = [[f"w{rank}" for rank in np.minimum(rng.zipf(1.3, 5), 60).tolist()] for _ in range(1000)]
    path = write(tmp_path / "t.txt", "\n".join(map(" ".join, rows)))
    config = DataConfig(source=str(path), min_count=4, valid=0.1, test=0.2)
    data = read_as(config, "word-ids", system="word2vec")
    ranked, tokens = brute(rows[:720], 4)
    words = data.schema.words
    assert words is not None and pairs(words) == ranked and words.total == 3600
    assert cut(data) == {
        "train": tokens,
        "valid": numbered(rows[720:800], words.words),
        "test": numbered(rows[800:], words.words),
    }
    assert data.protocol["split"] == {"test": "the last 0.2", "valid": "the last 0.1"}
    fewer = read_as(DataConfig(source=str(path), min_count=4, valid=0.1, test=0.2, vocab_size=9), "word-ids")
    assert fewer.schema.words is not None and pairs(fewer.schema.words) == ranked[:9]


def test_a_cut_moves_to_the_nearest_end_of_a_sentence(tmp_path: Path) -> None:
    rows = [[f"w{(7 * row + place) % 40}" for place in range(1 + row % 13)] for row in range(300)]
    data = read_as(DataConfig(source=str(write(tmp_path / "t.txt", "\n".join(map(" ".join, rows))))), "word-ids")
    parts = cut(data)
    words = data.schema.words
    assert words is not None and all(part[-1] == MARK for part in parts.values())
    assert [token for name in parts for token in parts[name]] == numbered(rows, words.words)
    total = sum(map(len, rows))
    assert abs(sum(token != MARK for token in parts["test"]) - 0.1 * total) <= 7


def test_one_line_is_cut_within(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", " ".join(f"w{i % 10}" for i in range(1000)))
    parts = cut(read_as(DataConfig(source=str(path)), "word-ids"))
    assert {name: len(part) for name, part in parts.items()} == {"train": 810, "valid": 90, "test": 101}
    assert parts["test"][-1] == MARK and MARK not in parts["train"]


def test_parts_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    texts_of = {name: story(50, seed) for seed, name in enumerate(("train", "valid", "test"))}
    for name, text in texts_of.items():
        (folder / f"{name}.txt").write_text(text)
    data = read_as(DataConfig(source=str(folder), min_count=2), "word-ids")
    ranked, tokens = brute(sentences(texts_of["train"]), 2)
    words = [word for word, _ in ranked]
    assert cut(data) == {"train": tokens} | {
        name: numbered(sentences(texts_of[name]), words) for name in ("valid", "test")
    }
    given = DataConfig(source=str(folder / "train.txt"), min_count=2, valid=str(folder / "test.txt"), test=0.0)
    other = read_as(given, "word-ids")
    assert cut(other) == {"train": tokens, "valid": numbered(sentences(texts_of["test"]), words)}
    assert other.protocol["split"]["valid"] == "file test.txt"
    assert {Path(record.name).name for record in other.files} == {"train.txt", "test.txt"}


def test_limit_is_places_of_the_training_part(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", story())
    whole = read_as(DataConfig(source=str(path), valid=0.0, test=0.0), "word-ids")
    some = read_as(DataConfig(source=str(path), valid=0.0, test=0.0, limit=100), "word-ids")
    assert cut(some)["train"] == cut(whole)["train"][:100] and some.protocol["split"]["limit"] == "100"
    assert some.schema.words is not None and some.schema.words.words == whole.schema.words.words  # type: ignore[union-attr]


# Going on with more text


@pytest.mark.parametrize("shares", [{}, {"test": 0.25}])
def test_old_words_stay_and_new_ones_come(tmp_path: Path, shares: dict[str, float]) -> None:
    """Old counts are added to; new words need min_count, old ones nothing; not even that a text could have them."""
    old = Words(["the", "gone", "two words", "rare"], np.array([50, 20, 9, 5]), 100)
    rows = [["the", "new", "the"], ["rare", "once", "new"], ["the", "new"], ["the"]]
    source = TextStream((write(tmp_path / "t.txt", "\n".join(map(" ".join, rows))),))
    built = build_parts({"train": source}, DataConfig(min_count=3), shares, keep=old)
    heard = rows if not shares else rows[:2]
    counts = Counter(word for row in heard for word in row)
    expected = [(word, count + counts[word]) for word, count in pairs(old)]
    expected += [] if shares else [("new", 3)]
    assert pairs(built.words) == sorted(expected, key=lambda pair: (-pair[1], pair[0]))
    assert built.words.total == 100 + sum(counts.values())
    assert built.parts["train"].tokens.tolist() == numbered(heard, built.words.words)


def test_old_words_come_before_the_most_frequent_new_ones(tmp_path: Path) -> None:
    old = Words(["gone", "lost"], np.array([2, 1]), 3)
    words, _ = build(write(tmp_path / "t.txt", "a a a b b c"), DataConfig(vocab_size=3), keep=old)
    assert pairs(words) == [("a", 3), ("gone", 2), ("lost", 1)]


# Chinese


CHINESE = "我来到北京清华大学\n他来到了网易杭研大厦\n小明硕士毕业于中国科学院计算所，后在日本京都大学深造\n" * 3


def jieba_rows(text: str) -> list[list[str]]:
    import jieba

    return [[word for word in jieba.lcut(line) if word.strip()] for line in text.split("\n")]


def test_jieba(tmp_path: Path) -> None:
    words, result = build(write(tmp_path / "t.txt", CHINESE), DataConfig(tokenizer="jieba"))
    ranked, tokens = brute(jieba_rows(CHINESE))
    assert pairs(words) == ranked and result.tokens.tolist() == tokens and "北京" in words.index


def test_jieba_in_processes_is_jieba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "BLOCK", 300)
    monkeypatch.setattr(segment, "FEW", 1)
    text = CHINESE * 4
    words, result = build(write(tmp_path / "t.txt", text), DataConfig(tokenizer="jieba"), threads=2)
    ranked, tokens = brute(jieba_rows(text))
    assert pairs(words) == ranked and result.tokens.tolist() == tokens


def test_a_process_that_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "FEW", 0)
    monkeypatch.setattr(sys, "executable", "/bin/true")
    blocks = (np.frombuffer(b"text\n", dtype=np.uint8) for _ in range(3))
    with pytest.raises(CanonError, match="ended early"):
        list(segment.segment(blocks, 2))


def test_segmented_text_needs_no_jieba(tmp_path: Path) -> None:
    text = "我 来到 北京\n来到 北京\n"
    words, _ = build(write(tmp_path / "t.txt", text), DataConfig())
    assert words.words == ["北京", "来到", "我"]


# What is kept


def test_a_second_time_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.txt", story())
    config = DataConfig(source=str(path), tokenizer="split", min_count=2)
    first = read_as(config, "word-ids")
    monkeypatch.setattr(corpus, "count", lambda *_: pytest.fail("counted again"))
    moved = path.rename(tmp_path / "other.txt")
    again = read_as(DataConfig(source=str(moved), tokenizer="split", min_count=2), "word-ids")
    assert cut(again) == cut(first) and again.notes == first.notes and again.fingerprint() != ""
    monkeypatch.undo()
    monkeypatch.setenv("CANON_CACHE", str(tmp_path))
    for change in ({"min_count": 3}, {"lowercase": True}, {"vocab_size": 5}, {"valid": 0.2}, {"tokenizer": "word"}):
        read_as(DataConfig(**{"source": str(moved), "tokenizer": "split", "min_count": 2, **change}), "word-ids")  # type: ignore[arg-type]
    assert len(list((tmp_path / "corpora").iterdir())) == 6


def test_what_is_damaged_is_made_again(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", story())
    tokens = build(path, DataConfig())[1].tokens.tolist()
    (folder,) = (tmp_path / "corpora").iterdir()
    for harm in ("train.i32", "words.tsv", "corpus.json"):
        content = (folder / harm).read_bytes()
        (folder / harm).write_bytes(content[: len(content) // 2] if harm != "words.tsv" else b"no number\n")
        assert build(path, DataConfig())[1].tokens.tolist() == tokens
    assert [item.name for item in (tmp_path / "corpora").iterdir()] == [folder.name]


def test_what_an_interrupted_build_leaves_is_harmless(tmp_path: Path) -> None:
    place = tmp_path / "corpora"
    for name, age in (("writing-new", 0.0), ("writing-old", 3 * 86400.0)):
        (place / name).mkdir(parents=True)
        (place / name / "train.i32").write_bytes(b"half")
        os.utime(place / name, (time.time() - age,) * 2)
    build(write(tmp_path / "t.txt", story()), DataConfig())
    assert (place / "writing-new").exists() and not (place / "writing-old").exists()


def test_nothing_is_left_of_a_build_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "_encode", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        build(write(tmp_path / "t.txt", story()), DataConfig())
    assert list((tmp_path / "corpora").iterdir()) == []


def test_two_processes_at_once_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one finishes while this one counts."""
    path = write(tmp_path / "t.txt", story())
    inner, during = corpus.count, []

    def count(*arguments):  # type: ignore[no-untyped-def]
        if not during:
            during.append(True)
            during.append(build(path, DataConfig())[1].tokens.tolist())
        return inner(*arguments)

    monkeypatch.setattr(corpus, "count", count)
    assert build(path, DataConfig())[1].tokens.tolist() == during[1]
    assert len(list((tmp_path / "corpora").iterdir())) == 1


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file, tokens):  # type: ignore[no-untyped-def]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(corpus, "_write", full)
    with pytest.raises(CanonError, match=r"corpora is full: a corpus takes 4 bytes a word; free some room"):
        build(write(tmp_path / "t.txt", story()), DataConfig())
    assert list((tmp_path / "corpora").iterdir()) == []


def test_nothing_is_written_beside_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "data").mkdir(parents=True)
    monkeypatch.setenv("CANON_DATA", str(tmp_path / "mine" / "data"))
    monkeypatch.delenv("CANON_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    build(write(tmp_path / "mine" / "data" / "t.txt", story()), DataConfig())
    assert len(list((tmp_path / "cache" / "canon" / "corpora").iterdir())) == 1
    assert [path.name for path in (tmp_path / "mine").rglob("*")] == ["data", "t.txt"]


def test_the_schema_keeps_the_words(tmp_path: Path) -> None:
    text = "a\x85b c\xa0d ー 'q\" , \u2028 é\n" * 3 + "x\ny\n"
    data = read_as(
        DataConfig(source=str(write(tmp_path / "t.txt", text)), tokenizer="split", valid=0.0, test=0.0), "word-ids"
    )
    for name, content in data.schema.files().items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    again = Schema.open(tmp_path)
    assert isinstance(again, WordIdSchema) and again.words is not None and data.schema.words is not None
    assert pairs(again.words) == pairs(data.schema.words) == brute(sentences(text))[0]


# A run's other data


def test_other_text_in_the_words_of_a_run(tmp_path: Path) -> None:
    config = DataConfig(min_count=2, lowercase=True)
    words, _ = build(write(tmp_path / "t.txt", story().upper()), config)
    schema = WordIdSchema(words=words)
    other = write(tmp_path / "other.txt", "W1 unseen W2\n\nunseen\nw3 w1\n")
    columns = labelled(schema, other, config)
    assert columns["input"].tokens.tolist() == numbered(sentences(other.read_text().lower()), words.words)  # type: ignore[union-attr]
    write(other, "unseen\n")
    with pytest.raises(CanonError, match=rf"other\.txt has none of the {words.size} words that were learnt"):
        labelled(schema, other, config)


def test_words_to_look_up(tmp_path: Path) -> None:
    schema = WordIdSchema(words=Words(["a"], np.array([1]), 1))
    listed = write(tmp_path / "list.txt", "King queen\nMan\n")
    columns, names = inputs(schema, ["Hello", str(listed), "two words"], DataConfig())
    expected = ["Hello", "King", "queen", "Man", "two", "words"]
    assert columns["input"].tolist() == names == expected and columns["input"].dtype == object  # type: ignore[union-attr]
    assert inputs(schema, ["Hello"], DataConfig(lowercase=True))[1] == ["hello"]


def test_check_tells_what_word_vectors_ask(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", story())
    rows = sentences(story())
    report = check_as(DataConfig(source=str(path)))
    counts = Counter(word for row in rows for word in row)
    assert report.corpus == {
        "words": sum(counts.values()),
        "different": len(counts),
        "seen 5 times or more": sum(count >= 5 for count in counts.values()),
        "in the longest line": max(map(len, rows)),
    }
    assert any(line.startswith(f"  corpus      {sum(counts.values()):,} words, ") for line in report.render())
    assert "seen 3 times or more" in check_as(DataConfig(source=str(path), min_count=3)).corpus
    short = check_as(DataConfig(source=str(write(tmp_path / "short.txt", "so few words\n"))))
    assert "No word comes 5 times: that is too little text for word vectors." in short.notes
    assert "word2vec" in report.suits and "word2vec" not in short.suits and "rnn-lm" in short.suits
    with pytest.raises(CanonError, match="word-vector-tests is a test of word vectors"):
        check_as(DataConfig(source="word-vector-tests"))


# Bad input


def refusal(source: Path | str, **changes: object) -> str:
    config = DataConfig(**{"source": str(source), "valid": 0.0, "test": 0.0, **changes})  # type: ignore[arg-type]
    with pytest.raises(CanonError) as raised:
        read_as(config, "word-ids", system="word2vec")
    said = str(raised.value)
    assert said.endswith((".", "?")) and "\n" not in said
    return said


def test_no_words(tmp_path: Path) -> None:
    for content in ("", "\n \t\n\n"):
        assert (
            refusal(write(tmp_path / "e.txt", content)) == f"{tmp_path / 'e.txt'} has no words; give a file with text."
        )
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty") == f"{tmp_path / 'empty'} is an empty folder."


def test_every_word_is_too_rare(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", "the cat the dog the end")
    assert refusal(path, min_count=5) == (
        f"{path} has no word that occurs data.min_count = 5 times; the most frequent, "
        '"the", occurs 3 times: set a smaller data.min_count.'
    )
    assert "The training part of" in refusal(path, min_count=3, test=0.4)
    path = write(tmp_path / "c.txt", CHINESE)
    assert 'or data.tokenizer = "jieba" for Chinese without spaces' in refusal(path, min_count=5, tokenizer="split")
    path = write(tmp_path / "l.txt", "x" * 5000)
    assert refusal(path) == f"{path} has only words of over 1,000 bytes; put spaces between its words."


def test_bytes_that_are_no_text(tmp_path: Path, tiny_blocks: None) -> None:
    path = write(tmp_path / "t.txt", b"fine text of some length\nthen \x81t\x81\n")
    assert refusal(path).startswith(
        f"{path}, line 2: byte 30 (0x81) is not utf-8; set data.encoding to the encoding of the file"
    )
    path = write(tmp_path / "z.txt", b"fine text of some length\n\nthen\0zero \xff\n")
    assert refusal(path) == f"{path}, line 3: byte 30 is 0x00, so this is not a text file; give another."
    path = write(tmp_path / "p.txt.gz", gzip.compress(b"one\ntwo \xff\n"))
    assert refusal(path).startswith(f"{path}, line 2: byte 8 (0xFF)")
    path = write(tmp_path / "cut.txt", "so far é".encode()[:-1])
    assert refusal(path).startswith(f"{path}, line 1: byte 7 (0xC3) is not utf-8")
    path = write(tmp_path / "u.txt", "a\0b".encode("utf-16"))
    assert (
        refusal(path, encoding="utf-16")
        == f"{path}, line 1: a character is U+0000, so this is not a text file; give another."
    )
    path = write(tmp_path / "o.txt", b"\x81\x30")
    assert "is not gb18030" in refusal(path, encoding="gb18030")
    assert "is not utf-8" in refusal(
        write(tmp_path / "j.txt", CHINESE.encode("gb18030")), tokenizer="jieba", encoding="utf-8"
    )
    path = write(tmp_path / "random.txt", np.random.default_rng(0).bytes(5000))
    assert str(path) in refusal(path) and " byte " in refusal(path)


def test_broken_files(tmp_path: Path) -> None:
    whole = gzip.compress(story().encode())
    for name, content in (("cut.txt.gz", whole[:-20]), ("no.txt.gz", b"no gzip"), ("no.txt.xz", b"no xz at all")):
        path = write(tmp_path / name, content)
        assert refusal(path).startswith(f"{path} is not a whole {name[-2:]} file (")
    path = write(tmp_path / "t.jsonl", '{"text": "a"}\n{"text": \n')
    assert refusal(path).startswith(f"{path}, line 2: not JSON (")
    path = write(tmp_path / "u.jsonl", '{"text": "a"}\n["b"]\n')
    assert refusal(path).startswith(f"{path}, line 2: each line must be an object")
    path = write(tmp_path / "h.jsonl", '{"text": "a \\ud800"}\n')
    assert refusal(path).startswith(f"{path}, line 1: it holds '\\ud800', which is half a character")
    path = write(tmp_path / "l.jsonl", '{"text": "a"}\n{"text": ["b"]}\n')
    assert f'{path}, line 2: "text" is a list' in refusal(path)
    path = write(tmp_path / "t.csv", "id,text\n1,a\n2\n")
    assert refusal(path) == f"{path}, line 3: 1 cell, but there are 2 columns."
    path = write(tmp_path / "q.csv", 'id,text\n1,"a\n')
    assert "a quote that is not closed?" in refusal(path)
    path = write(tmp_path / "t.parquet", b"PAR1 no")
    assert refusal(path).startswith(f"{path} is not a whole Parquet file (")


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
@pytest.mark.parametrize("bad", [1, 2, 3, 4, 5])
def test_the_row_of_a_parquet_file_is_counted_from_one(tmp_path: Path, monkeypatch, bad: int, at_once: int) -> None:
    monkeypatch.setattr(text_blocks, "ROWS", at_once)
    parquet.write_table(pa.table({"text": ["a b"] * 3}), tmp_path / "a.parquet")
    cells = [None if row != bad else ["a", "list"] for row in range(1, 6)]
    parquet.write_table(pa.table({"text": cells}), tmp_path / "b.parquet")
    assert re.match(rf'{tmp_path / "b.parquet"}, (line|row) {bad}: "text" is a list', refusal(tmp_path))


def test_no_such_source(tmp_path: Path) -> None:
    write(tmp_path / "story.txt", story())
    wrong, right = tmp_path / "stroy.txt", tmp_path / "story.txt"
    assert refusal(wrong) == f'There is no data set, file or folder "{wrong}"; did you mean {right}?'
    assert "data.source is missing" in refusal("")
    assert f'There is no file or folder "{tmp_path / "no.txt"}"' in refusal(
        tmp_path / "story.txt", test=str(tmp_path / "no.txt")
    )
    assert refusal("digits") == "word2vec reads running text, but digits is a set of images."
    assert refusal("iris") == "word2vec reads running text, but iris is a table."
    assert "name it in data.tests" in refusal("word-vector-tests")
    assert "wiki-words is not on this machine" in refusal("wiki-words")
    path = write(tmp_path / "t.jsonl", json.dumps({"text": "a"}) + "\n")
    assert 'data.features: no column "body"' in refusal(path, features=("body",))


def test_a_tokenizer_that_makes_no_words(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", story())
    assert refusal(path, tokenizer="bpe") == 'data.tokenizer must be split, word or jieba for word vectors, got "bpe".'


def test_a_part_without_known_words(tmp_path: Path) -> None:
    path, other = write(tmp_path / "t.txt", story()), write(tmp_path / "v.txt", "nothing known")
    assert "v.txt has none of the" in refusal(path, valid=str(other))


@pytest.mark.parametrize(("missing", "needs"), [("numba", "Kernels need numba"), ("jieba", "needs jieba")])
def test_missing_packages(tmp_path: Path, missing: str, needs: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from pathlib import Path
from typing import Any
from canon.data.config import DataConfig
from canon.data.corpus.corpus import build_parts
from canon.data.corpus.text_blocks import TextStream
config = DataConfig(tokenizer={"jieba" if missing == "jieba" else "split"!r})
try:
    build_parts({{"train": TextStream((Path("t.txt"),))}}, config, {{}})
except ValueError as mistake:
    print(mistake)
"""
    write(tmp_path / "t.txt", story())
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout
    assert needs in printed and 'pip install "deepcanon[words]"' in printed and printed.count("\n") == 1


def test_corpora_is_used_by_nothing_that_starts_up() -> None:
    heavy = "{'numba', 'jieba', 'pyarrow', 'torch'}"
    code = f"import sys, canon.data.read, canon.data.encodings; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_column_protocol() -> None:
    column = Corpus(np.array([0, MARK], dtype=np.int32), Words(["a"], np.array([1]), 1))
    assert column.dtype == np.int32 and column.shape == (2,)
