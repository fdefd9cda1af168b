"""Texts to stored tokens: against encoding each document by itself; killed, damaged and built again; words and phrases
against hand marks; bad input; memory and time of a generated stream."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from canon.data.batching.passages import INSIDE, PHRASE, SENTENCE, WORD, Passages
from canon.data.config import DataConfig
from canon.data.corpus import token_blocks, token_store
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.token_blocks import Place, TextEncoder, TokenBlock
from canon.data.encodings.passages import passages_of
from canon.data.read import inputs, labelled
from canon.data.schema import Data
from canon.data.text.sentences import split_pieces, split_sentences
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import KINDS
from canon.errors import CanonError
from tests.reading import check_as, read_as

ENGLISH = [
    "A man in a blue shirt stood on a ladder. Two dogs ran across the green field!\nOne of them barked.",
    "The man's T-shirt (the old one) isn't blue; it cost $3.50. She said: \"No way!\" Then she left.",
    "One woman, two children and 1,000 balloons: what a day? The dogs are running.",
]
CHINESE = ["我喜欢学习机器翻译。他说：“今天天气很好！”", "我们在北京学习中文，也学习英文。我用Python编程。"]
DOCUMENTS = [*ENGLISH, *CHINESE, "Short."] * 8
SIZES = {"byte-bpe": 400, "bpe": 220, "wordpiece": 300, "unigram": 220}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tokens are kept."""
    monkeypatch.setenv("CANON_CACHE", str(tmp_path))
    return tmp_path / "corpora"


def trained(kind: str) -> Tokenizer:
    return Tokenizer.train(DOCUMENTS, kind, SIZES.get(kind, 0), mask=True)


def kept(folder: Path) -> Path:
    (result,) = folder.glob("tokens-*")
    return result


def arrays(stored: token_store.Stored) -> list[list[int]]:
    return [array.tolist() for array in (stored.tokens, stored.begins, stored.sentences, stored.documents)]


# What is stored


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_sentences(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_blocks, "BATCH", 200)  # documents run over batches
    monkeypatch.setattr(token_blocks, "SHARD", 500)
    tokenizer = trained(kind)
    result = token_store.stored(TextStream(documents=DOCUMENTS), TextEncoder(tokenizer))
    cut = split_pieces if tokenizer.keeps_space else split_sentences
    sentences = [[tokenizer.encode([sentence])[0].tolist() for sentence in cut(document)] for document in DOCUMENTS]
    flat = [sentence for document in sentences for sentence in document]
    assert result.tokens.tolist() == [index for sentence in flat for index in sentence]
    assert result.sentences.tolist() == [0, *np.cumsum([len(sentence) for sentence in flat]).tolist()]
    assert result.documents.tolist() == [0, *np.cumsum([len(document) for document in sentences]).tolist()]
    assert np.flatnonzero(result.begins & SENTENCE).tolist() == result.sentences[:-1].tolist()
    if tokenizer.keeps_space:  # the whole documents, each encoded at once
        assert result.tokens.tolist() == tokenizer.encode(DOCUMENTS)[0].tolist()
    counts = result.counts
    assert (counts.documents, counts.sentences, counts.tokens) == (len(DOCUMENTS), len(flat), len(result.tokens))
    assert counts.several == sum(len(document) > 1 for document in sentences)
    assert counts.longest == max(map(len, flat)) and counts.unknown == int((result.tokens == 1).sum())
    assert len(list(result.folder.glob("[0-9]*.json"))) > 3
    # The same without a store.
    column = passages_of(DOCUMENTS, TextEncoder(tokenizer), 16)
    assert [
        column.tokens.tolist(),
        column.begins.tolist(),
        column.sentences.tolist(),
        column.documents.tolist(),
    ] == arrays(result)


def words_of(tokenizer: Tokenizer, text: str, **settings: str) -> list[str]:
    """The text put together again from the marks: tokens of one word without spaces between."""
    ids, bits, _ = TextEncoder(tokenizer, **settings).encode([text], *_segmented(text, settings))
    rows = np.split(ids, np.flatnonzero(bits & WORD)[1:])
    return [tokenizer.decode(row).strip() for row in rows]


def _segmented(text: str, settings: dict[str, str]) -> list[bytes]:
    from canon.data.text.segment import load_jieba, segmented

    return [segmented(load_jieba(), text.encode())] if settings.get("segmenter") else []


@pytest.mark.parametrize("kind", ["word", "wordpiece", "byte-bpe", "bpe", "unigram", "char"])
def test_where_words_begin(kind: str) -> None:
    """Pieces put together by the marks are the words, and marks of writing are words by themselves."""
    text = "The ladders (old, green) cost 1000 balloons: What a day! 学 café"
    tokenizer = Tokenizer.train([*DOCUMENTS, text], kind, SIZES.get(kind, 0), mask=True)
    apart = "The ladders ( old , green ) cost 1000 balloons : What a day ! 学 café"
    assert [word for word in words_of(tokenizer, text) if word] == apart.split()


def test_words_of_other_tokenizers(tmp_path: Path) -> None:
    """GPT's </w> ends a word."""
    import tokenizers as library

    vocabulary = {
        token: place for place, token in enumerate(["lad", "der</w>", "s</w>", "</w>", "l", "a", "d", "lad</w>", "o"])
    }
    model = library.models.BPE(vocabulary, [], end_of_word_suffix="</w>")
    made = library.Tokenizer(model)
    tokenizer = Tokenizer(made, "foreign", native=True)
    bits = TextEncoder(tokenizer).words.mark(np.array([0, 1, 7, 0, 2]), np.array([5]))
    assert (bits & WORD).tolist() == [1, 0, 1, 1, 0]


@pytest.mark.parametrize("kind", ["char", "wordpiece", "bpe", "unigram", "byte-bpe"])
def test_chinese_words_by_jieba(kind: str) -> None:
    """The characters of one of jieba's words are pieces of one; other words are as they were."""
    import jieba

    text = "我们在北京学习机器翻译，用Python编程。"
    size = {"byte-bpe": 270, "bpe": 140, "unigram": 140, "wordpiece": 300}.get(kind, 0)
    tokenizer = Tokenizer.train([*DOCUMENTS, text], kind, size, mask=True)
    words = list(jieba.cut(text))
    assert words == ["我们", "在", "北京", "学习", "机器翻译", "，", "用", "Python", "编程", "。"]
    starts = {sum(map(len, words[:place])) for place in range(len(words))}
    ids, bits, _ = TextEncoder(tokenizer, "jieba").encode([text], *_segmented(text, {"segmenter": "jieba"}))
    places = tokenizer.encode_spans([text])[2][:, 0].tolist()
    expected = [place in starts and places.index(place) == row for row, place in enumerate(places)]
    assert (bits & WORD > 0).tolist() == expected
    assert sum(expected) == len(words) or kind in ("bpe", "unigram")  # whose pieces run over words
    alone = TextEncoder(tokenizer).encode([text])[1]
    assert (alone & WORD).sum() > (bits & WORD).sum() or kind != "char"
    # Through the pipeline, over blocks that jieba gets.
    column = passages_of([text, "你好。世界很大。"], TextEncoder(tokenizer, "jieba"), 64)
    assert (column.begins[: len(ids)] == bits).all()


def test_phrases_of_a_lexicon(tmp_path: Path) -> None:
    lexicon = tmp_path / "phrases.txt"
    lexicon.write_text("blue shirt\nblue shirt stood\tNP 12\n机器翻译\nladder\n\n", encoding="utf-8")
    text = "A man in a blue shirt stood on a blue shirt ladder, blue shirts stood."
    for kind in ("wordpiece", "byte-bpe", "bpe", "unigram", "word", "char"):
        tokenizer = trained(kind)
        ids, bits, _ = TextEncoder(tokenizer, phrases=str(lexicon)).encode([text, "我喜欢学习机器翻译。"])
        starts = np.flatnonzero(bits & PHRASE)
        values = []
        for start in starts.tolist():
            stop = start + 1
            while stop < len(bits) and bits[stop] & INSIDE:
                stop += 1
            values.append(tokenizer.decode(ids[start:stop]).strip())
        # The longest first; "blue shirts" is not "blue shirt". A piece of bpe and unigram may run into a Chinese one.
        chinese = ["机器翻译"] if kind not in ("bpe", "unigram") else []
        assert [phrase for phrase in values if phrase != "机器翻译" or chinese] == [
            "blue shirt stood",
            "blue shirt",
            "ladder",
            *chinese,
        ]
        assert not (bits & PHRASE & ~((bits & WORD) << 1)).any()
    (tmp_path / "none.txt").write_text("\n\n")
    with pytest.raises(CanonError, match=r"data.phrases: .*none.txt has no phrases; write one on each line."):
        TextEncoder(tokenizer, phrases=str(tmp_path / "none.txt"))


# By several processes


@pytest.mark.parametrize("segmenter", ["", "jieba"])
def test_processes_make_the_same_files(segmenter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte those of one process, however many there are."""
    monkeypatch.setattr(token_blocks, "BATCH", 300)
    monkeypatch.setattr(token_blocks, "SEGMENT", 300)
    monkeypatch.setattr(token_blocks, "SHARD", 1000)
    lexicon = tmp_path / "phrases.txt"
    lexicon.write_text("blue shirt\n机器翻译\n", encoding="utf-8")
    encoder = TextEncoder(trained("wordpiece"), segmenter, str(lexicon))
    contents = []
    for count in (1, 2, 3):
        monkeypatch.setattr(token_blocks, "num_threads", lambda count=count: count)
        monkeypatch.setenv("CANON_CACHE", str(tmp_path / str(count)))
        place = token_store.stored(files(tmp_path), encoder).folder
        names = sorted(path.name for path in place.iterdir() if path.name not in ("lock", "store.json"))
        contents.append([(name, (place / name).read_bytes()) for name in names])
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) > len(token_store.HEADS) + 2  # several shards


def test_a_mistake_in_a_process_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_blocks, "BATCH", 100)
    monkeypatch.setattr(token_blocks, "num_threads", lambda: 2)
    encoder = TextEncoder(trained("wordpiece"))
    with pytest.raises(CanonError, match=r"^A text holds U\+D800, half of a surrogate pair"):
        token_store.stored(TextStream(documents=[*DOCUMENTS, "half \ud800 of one"]), encoder)
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(CanonError, match=r"^A process that tokenizes ended early"):
        token_store.stored(TextStream(documents=DOCUMENTS), encoder)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="asks Linux for the children of a process")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them(number: int, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(trained("word").to_json(), encoding="utf-8")
    script = f"""
        import signal
        from pathlib import Path
        from canon.data.corpus import token_blocks, token_store
        from canon.data.corpus.text_blocks import TextStream
        from canon.data.text.tokenizers import Tokenizer
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it starts with &
        token_blocks.BATCH, token_blocks.num_threads = 1000, lambda: 2
        class Stream:  # without end
            def __len__(self): return 1
            def __iter__(self):
                while True: yield "A man in a blue shirt stood on a ladder. " * 5
        texts = TextStream(documents=Stream(), records=(type("R", (), {{"sha256": "endless"}}),))
        encoder = token_blocks.TextEncoder(Tokenizer.load(Path({str(tmp_path / "tokenizer.json")!r})))
        token_store.stored(texts, encoder)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    parent = subprocess.Popen(command, env={**os.environ}, stderr=subprocess.DEVNULL)

    def started() -> list[int]:
        tasks = Path(f"/proc/{parent.pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]

    def until(done: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end
            time.sleep(0.02)

    try:
        until(lambda: len(started()) == 2)
        children = started()
        parent.send_signal(number)
        assert parent.wait(timeout=60) == -number
    finally:
        parent.kill()
    until(lambda: not any(Path(f"/proc/{child}/cmdline").exists() for child in children))


# Kept and built again


def counted(monkeypatch: pytest.MonkeyPatch, stop_after: int = 1 << 30) -> list[Place]:
    """The places after blocks that are made from now on; after so many, the building fails."""
    seen: list[Place] = []
    inner = TextEncoder.blocks

    def blocks(self: TextEncoder, texts: TextStream, place: Place = Place()) -> Iterator[TokenBlock]:  # noqa: B008
        for block in inner(self, texts, place):
            if len(seen) >= stop_after:
                raise KeyboardInterrupt
            seen.append(block.batch.place)
            yield block

    monkeypatch.setattr(TextEncoder, "blocks", blocks)
    return seen


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_blocks, "SHARD", 300)
    monkeypatch.setattr(token_blocks, "BATCH", 100)


def files(tmp_path: Path) -> TextStream:
    """A text in two files."""
    for name, documents in (("a.txt", DOCUMENTS[:20]), ("b.txt", DOCUMENTS[20:])):
        (tmp_path / name).write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return TextStream((tmp_path / "a.txt", tmp_path / "b.txt"))


def test_a_building_goes_on_behind_its_last_shard(
    tmp_path: Path, folder: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, encoder = files(tmp_path), TextEncoder(trained("wordpiece"))
    with monkeypatch.context() as patch:
        patch.setenv("CANON_CACHE", str(tmp_path / "elsewhere"))
        expected = arrays(token_store.stored(texts, encoder))
    with monkeypatch.context() as patch:
        every = counted(patch)
        whole = token_store.stored(texts, encoder)
    assert arrays(whole) == expected
    total = len(every)
    for path in kept(folder).iterdir():
        path.unlink()
    done = 0
    for stop in (total // 4, total // 3):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            counted(patch, stop)
            token_store.stored(texts, encoder)
        shards = sorted(kept(folder).glob("[0-9]*.json"))
        assert len(shards) > done
        done = len(shards)
    with (kept(folder) / "tokens").open("ab") as file:  # what a shard that was not finished has left
        file.write(b"rest")
    with monkeypatch.context() as patch:
        made = counted(patch)
        assert arrays(token_store.stored(texts, encoder)) == expected
    assert 0 < len(made) < total and made == every[-len(made) :]
    with monkeypatch.context() as patch:
        made = counted(patch)
        assert arrays(token_store.stored(texts, encoder)) == expected
        assert not made  # found
        more = [*DOCUMENTS, "New."]
        token_store.stored(TextStream(documents=more), encoder)
        assert made  # another text


def test_a_kill_loses_one_shard_at_most(tmp_path: Path, folder: Path) -> None:
    """A process that is killed while it builds; this one goes on where it was."""
    tokenizer = trained("word")
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    (tmp_path / "text.txt").write_text("\n\n".join(DOCUMENTS * 5), encoding="utf-8")
    script = f"""
        import os, signal
        from pathlib import Path
        from canon.data.corpus import token_blocks, token_store
        from canon.data.corpus.text_blocks import TextStream
        from canon.data.text.tokenizers import Tokenizer
        token_blocks.SHARD, token_blocks.BATCH = 3000, 500
        inner, count = token_store.write_text, []
        def write(path, content):
            inner(path, content)
            count.append(path)
            if len(count) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        token_store.write_text = write
        encoder = token_blocks.TextEncoder(Tokenizer.load(Path({str(tmp_path / "tokenizer.json")!r})))
        token_store.stored(TextStream((Path({str(tmp_path / "text.txt")!r}),)), encoder)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env={**os.environ}, capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    assert len(list(kept(folder).glob("[0-9]*.json"))) == 3 and not (kept(folder) / "store.json").exists()
    before = {path: path.stat().st_mtime_ns for path in kept(folder).glob("[0-9]*.json")}
    token_blocks_shard, token_blocks.SHARD = token_blocks.SHARD, 3000
    try:
        result = token_store.stored(TextStream((tmp_path / "text.txt",)), TextEncoder(tokenizer))
    finally:
        token_blocks.SHARD = token_blocks_shard
    assert {path: path.stat().st_mtime_ns for path in before} == before  # they were not built again
    sentences = [sentence for document in DOCUMENTS * 5 for sentence in split_sentences(document)]
    assert result.tokens.tolist() == tokenizer.encode(sentences)[0].tolist()


@pytest.mark.parametrize("damage", ["byte", "short", "gone", "record", "long"])
def test_damage_is_noticed_and_mended(
    damage: str, tmp_path: Path, folder: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, encoder = files(tmp_path), TextEncoder(trained("wordpiece"))
    actual = token_store.stored(texts, encoder)
    expected = arrays(actual)
    shards = len(list(kept(folder).glob("[0-9]*.json")))
    del actual
    path = kept(folder) / "begins"
    raw = bytearray(path.read_bytes())
    if damage == "byte":
        raw[len(raw) // 2] ^= 64
        path.write_bytes(raw)
    elif damage == "short":
        path.write_bytes(raw[: -len(raw) // 3])
    elif damage == "gone":
        path.unlink()
    elif damage == "long":
        path.write_bytes(raw + b"more")
    else:
        (kept(folder) / "000002.json").write_text("{")
        (kept(folder) / "store.json").unlink()
    made = counted(monkeypatch)
    assert arrays(token_store.stored(texts, encoder)) == expected
    if damage in ("byte", "record"):
        assert 0 < len(set(made)) < shards  # one shard alone
    if damage == "long":
        assert not made
    made.clear()
    token_store.stored(texts, encoder)
    assert not made


def test_a_touched_store_is_read_again_not_built(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, encoder = TextStream(documents=DOCUMENTS), TextEncoder(trained("word"))
    token_store.stored(texts, encoder)
    for name in token_store.HEADS:
        os.utime(kept(folder) / name, ns=(1, 1))
    made, hashed = counted(monkeypatch), []
    inner = token_store._hash
    monkeypatch.setattr(token_store, "_hash", lambda *args: hashed.append(args) or inner(*args))
    token_store.stored(texts, encoder)
    assert hashed and not made
    hashed.clear()
    token_store.stored(texts, encoder)
    assert not hashed and not made


def test_processes_build_one_after_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, encoder = TextStream(documents=DOCUMENTS * 20), TextEncoder(trained("word"))
    made = counted(monkeypatch)
    values: list[token_store.Stored] = []
    threads = [threading.Thread(target=lambda: values.append(token_store.stored(texts, encoder))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(values) == 3 and len({json.dumps(arrays(own)) for own in values}) == 1
    assert len([place for place in made if place.documents == len(DOCUMENTS * 20)]) == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpora").write_text("a file")
    with pytest.raises(CanonError, match=r"corpora cannot be written: .*; set CANON_CACHE to choose another folder"):
        token_store.stored(TextStream(documents=DOCUMENTS), TextEncoder(trained("word")))


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(token_store, "_write_shard", full)
    with pytest.raises(CanonError, match=r"The disk of .*corpora is full: .* those that were written are kept"):
        token_store.stored(TextStream(documents=DOCUMENTS), TextEncoder(trained("word")))


# Sources


def column(data: Data, split: str = "train") -> Passages:
    result = data.splits[split]["input"]
    assert isinstance(result, Passages)
    return result


def config(source: Path, **settings: object) -> DataConfig:
    return DataConfig(source=str(source), **{"tokenizer": "word", "max_length": 16, **settings})  # type: ignore[arg-type]


def test_every_kind_of_file_gives_the_same(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    documents = [document.replace("\n", " ") for document in DOCUMENTS]
    text = "\n\n".join(documents) + "\n"
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.txt.xz").write_bytes(lzma.compress(text.encode()))
    lines = [json.dumps({"id": number, "text": document}) for number, document in enumerate(documents)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    parquet.write_table(pyarrow.table({"text": documents}), tmp_path / "a.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "1.txt").write_text("\n\n".join(documents[:10]), encoding="utf-8")
    (tmp_path / "folder" / "2.txt").write_text("\n\n".join(documents[10:]), encoding="utf-8")
    values = [
        read_as(config(tmp_path / name, features=("text",) if "." in name and "txt" not in name else ()), "passages")
        for name in ("a.txt", "a.txt.gz", "b.txt.xz", "a.jsonl", "a.parquet", "folder")
    ]
    for data in values[1:]:
        for split in ("train", "valid", "test"):
            assert (
                column(data, split).sequence(np.arange(3)).tokens.tolist()
                == column(values[0], split).sequence(np.arange(3)).tokens.tolist()
            )
            assert column(data, split).lengths.tolist() == column(values[0], split).lengths.tolist()


def test_read_passages(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    data = read_as(config(path, tokenizer="wordpiece", vocab_size=250, valid=0.1, test=0.1), "passages")
    train, valid, test = (column(data, split) for split in ("train", "valid", "test"))
    # 48 documents: the last 5 are the test part, the 4 before them validate.
    for part, (first, stop) in {train: (0, 39), valid: (39, 43), test: (43, 48)}.items():
        numbers = part.document_of(np.arange(len(part)))
        assert sorted(set(numbers.tolist())) == list(range(first, stop))
    assert max(train.lengths) <= 16 and data.schema.longest == (int(train.lengths.max()),)
    tokenizer = data.schema.tokenizers["text"]
    assert data.schema.sizes()["vocab_size"] == tokenizer.size == train.vocab_size <= 250
    assert train.specials == tokenizer.specials and tokenizer.specials.mask == 4 and not tokenizer.specials.sentinels
    reported = " ".join(data.notes)
    assert (
        "48 documents" in reported
        and "Passages of at most 16 tokens" in reported
        and "several sentences" not in reported
    )
    assert data.protocol["sizes"] == {"train": len(train), "valid": len(valid), "test": len(test)}
    # The vocabulary is of the training documents alone.
    alone = Tokenizer.train(DOCUMENTS[:39], "wordpiece", 250, mask=True)
    assert tokenizer.vocabulary == alone.vocabulary
    # T5 asks for sentinels.
    spanned = read_as(config(path, tokenizer="wordpiece", vocab_size=250), "passages", sentinels=32)
    spans = spanned.schema.tokenizers["text"]
    assert len(spans.specials.sentinels) == 32
    # More text, by the same schema: in a file, and given.
    (tmp_path / "more.txt").write_text("Two dogs ran. They barked!\n\nA man stood.", encoding="utf-8")
    more = labelled(data.schema, tmp_path / "more.txt", config(path))["input"]
    given, names = inputs(data.schema, ["Two dogs ran. They barked!", "A man stood."], config(path))
    assert isinstance(more, Passages) and isinstance(given["input"], Passages)
    assert more.tokens.tolist() == given["input"].tokens.tolist() and names == [
        "Two dogs ran. They barked!",
        "A man stood.",
    ]
    assert tokenizer.decode(more.sequence(np.array([1])).tokens) == "A man stood."
    # Fewer passages.
    assert len(column(read_as(config(path, limit=7), "passages"))) == 7


def test_one_long_document_is_split_by_passages(tmp_path: Path) -> None:
    path = tmp_path / "book.jsonl"
    path.write_text(json.dumps({"text": " ".join(DOCUMENTS)}), encoding="utf-8")
    data = read_as(config(path, valid=0.1, test=0.1), "passages")
    sizes = {split: len(columns["input"]) for split, columns in data.splits.items()}
    assert sizes["valid"] and sizes["test"] and sizes["train"] > 5 * sizes["valid"]
    assert column(data).starts[-1] < column(data, "valid").starts[0] < column(data, "test").starts[0]
    assert "of the passages" in data.notes[-1]


def test_a_huge_text_is_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from canon.data.encodings import passages as module

    monkeypatch.setattr(module, "SAMPLE", 2000)
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(DOCUMENTS * 3), encoding="utf-8")
    data = read_as(config(path), "passages")
    size = sum(len(document.encode()) for document in DOCUMENTS * 3)
    step = -(-size // 2000)
    assert any(f"one document in {step}," in note for note in data.notes)
    train = (DOCUMENTS * 3)[: 144 - 14 - 13]
    assert data.schema.tokenizers["text"].vocabulary == Tokenizer.train(train[::step], "word", mask=True).vocabulary


def test_a_tokenizer_from_elsewhere_or_of_a_run(tmp_path: Path) -> None:
    import tokenizers as library

    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    own = trained("wordpiece")
    words = {
        word: place for place, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *own.vocabulary[5:]])
    }
    theirs = library.Tokenizer(library.models.WordPiece(words, unk_token="[UNK]"))
    theirs.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    (tmp_path / "hub").mkdir()
    theirs.save(str(tmp_path / "hub" / "tokenizer.json"))
    for given in (tmp_path / "hub", tmp_path / "hub" / "tokenizer.json"):
        data = read_as(config(path, tokenizer=str(given)), "passages")
        first = split_sentences(DOCUMENTS[0])[0]
        assert column(data).tokens[: len(theirs.encode(first).ids)].tolist() == theirs.encode(first).ids
        assert column(data).specials.mask == 4 and data.schema.tokenizers["text"].native
    vocab = tmp_path / "run" / "vocab"
    vocab.mkdir(parents=True)
    for name, content in data.schema.files().items():
        (vocab / name).write_text(content, encoding="utf-8")
    again = read_as(config(path, tokenizer=str(tmp_path / "run")), "passages")
    assert column(again).tokens.tolist() == column(data).tokens.tolist()


# Bad input: one sentence each


@pytest.mark.parametrize(
    ("content", "settings", "sentence"),
    [
        (b"", {}, r"text.txt is empty: there is no text to pre-train on."),
        (b"\n \n\n", {}, r"text.txt is empty: there is no text to pre-train on."),
        (b"a\n\nb\n\nc\n", {}, r"text.txt has no document of 2 tokens: there is nothing to predict a token from;"),
        (b"good\nbad \xff\xfe line\n", {}, r"text.txt, line 2: byte 9 \(0xFF\) is not utf-8;"),
        (b"some text here", {"tokenizer": "jieba"}, r'data.tokenizer = "jieba" is for word vectors; .*data.segmenter'),
        (b"some text here", {"tokenizer": "wrdpiece"}, r'No kind of tokenizer "wrdpiece"; did you mean wordpiece\?'),
        (
            b"some text here",
            {"tokenizer": "gone/tokenizer.json"},
            r"data.tokenizer: there is no file gone/tokenizer.json.",
        ),
        (b"some text here", {"phrases": "gone.txt"}, r"There is no file gone.txt."),
    ],
)
def test_bad_input(content: bytes, settings: dict[str, str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(CanonError, match=sentence) as mistake:
        read_as(config(tmp_path / "text.txt", **settings), "passages")
    assert str(mistake.value).count("\n") == 0


def test_a_tokenizer_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    (tmp_path / "own.json").write_text(trained("word").to_json(), encoding="utf-8")
    with pytest.raises(CanonError, match=r"own.json has \d+ tokens, more than data.vocab_size = 10;"):
        read_as(config(path, tokenizer=str(tmp_path / "own.json"), vocab_size=10), "passages")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CanonError, match=r"empty has no tokenizer.json and is not a run of canon."):
        read_as(config(path, tokenizer=str(tmp_path / "empty")), "passages")
    (tmp_path / "maskless.json").write_text(Tokenizer.train(DOCUMENTS, "word").to_json(), encoding="utf-8")
    result = column(read_as(config(path, tokenizer=str(tmp_path / "maskless.json")), "passages"))
    with pytest.raises(CanonError, match=r"The tokenizer has no \[MASK\] or <mask>, which a masked objective needs"):
        result.specials.require("mask", "a masked objective")


def test_check_tells_what_pretraining_needs(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join([*DOCUMENTS, DOCUMENTS[0]]), encoding="utf-8")
    report = check_as(config(path, tokenizer="", valid=0.0, test=0.0))
    counts = [len(split_sentences(document)) for document in [*DOCUMENTS, DOCUMENTS[0]]]
    assert report.passages["sentences"] == sum(counts)
    assert report.passages["of the documents have several"] == pytest.approx(np.mean([n > 1 for n in counts]))
    assert report.duplicates["train"] == len(counts) - len(set(DOCUMENTS))
    assert any("any objective" in note for note in report.notes) and {"bert", "gpt2"} <= set(report.suits)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(f"Line number {n}." for n in range(50)), encoding="utf-8")
    (tmp_path / "own.json").write_text(trained("word").to_json(), encoding="utf-8")
    report = check_as(config(lines, tokenizer=str(tmp_path / "own.json")))
    assert report.passages["of the documents have several"] == 0
    assert any("100% have one" in note for note in report.notes)
    assert report.passages["of the tokens are unknown"] == pytest.approx(0.75, abs=0.01)  # all but the full stop
    data = read_as(config(lines), "passages")
    assert any("Only 0% of the documents have several sentences" in note for note in data.notes)


# Memory


STREAM = """
import resource, sys
from pathlib import Path
from canon.data.corpus import token_store
from canon.data.corpus.text_blocks import TextStream
from canon.data.corpus.token_blocks import TextEncoder
from canon.data.text.tokenizers import Tokenizer
megabytes = int(sys.argv[1])
words = ["".join(chr(97 + (7 * n + 3 * k * k) % 26) for k in range(60 + n % 60)) for n in range(500)]
tokenizer = Tokenizer.train([" ".join(words)], "split", mask=True)
class Stream:  # documents that are made when they are read
    def __len__(self): return 1
    def __iter__(self):
        size = number = 0
        while size < megabytes << 20:
            first = number * 31
            sentences = (" ".join(words[(first + k * 17 + s) % 500] for k in range(12)) for s in range(20))
            document = ". ".join(sentence.capitalize() for sentence in sentences)
            number += 1
            size += len(document)
            yield document
texts = TextStream(documents=Stream(), records=(type("R", (), {"sha256": f"stream {megabytes}"}),))
store = token_store.stored(texts, TextEncoder(tokenizer))
passages = store.passages(128, TextEncoder(tokenizer))
print(store.counts.tokens, len(passages), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def peak(megabytes: int) -> tuple[int, int]:
    """(tokens, peak memory in MB) of building a stream of that size in a process of its own."""
    done = subprocess.run([sys.executable, "-c", STREAM, str(megabytes)], capture_output=True, text=True, check=True)
    tokens, _, memory = map(int, done.stdout.split())
    return tokens, memory


def test_memory_does_not_grow_with_the_text() -> None:
    few, base = peak(8)
    many, most = peak(96)
    assert many > 10 * few
    assert most < base + 64, f"{most} MB at 96 MB of text, {base} MB at 8 MB"


@pytest.mark.slow
def test_memory_of_gigabytes() -> None:
    few, base = peak(64)
    many, most = peak(3072)
    assert many > 40 * few
    assert most < base + 160, f"{most} MB at 3 GB of text, {base} MB at 64 MB"
