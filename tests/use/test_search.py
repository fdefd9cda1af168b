"""Encoding and search: against brute force, bm25s and pytrec_eval; files that survive a kill; what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import canon
from canon.errors import CanonError
from canon.metrics.retrieval import retrieval_scores
from canon.training.trainer import train
from canon.use.encoder import Encoder
from canon.use.search import folder as folders
from canon.use.search import precision as bits
from canon.use.search import store as stores
from canon.use.search.bm25 import BM25, words_of
from canon.use.search.exact import exact
from canon.use.search.folder import VectorFolder, encode
from canon.use.vectors import Vectors
from tests.battery.runs import SOURCE

NONE = np.empty(0, dtype=np.int64)


def texts() -> list[str]:
    rows = list(csv.reader(Path(SOURCE["retrieval"]).read_text().splitlines()))[1:]
    return list(dict.fromkeys(text for row in rows for text in row))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "embed"
    train("embed:tiny", out=out, quiet=True, changes={"data.source": SOURCE["retrieval"], "train.steps": 2})
    return out


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(texts()) + "\n")
    return file


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}


# ---- parts


def vectors(n: int, dim: int = 24, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_exact_search_is_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canon.use.search.exact._BLOCK", 70)
    monkeypatch.setattr("canon.use.search.exact._QUERIES", 3)
    x, queries = vectors(500), vectors(8, seed=1)
    x[200] = x[100]  # ties go by row
    gone = np.array([3, 77, 499])
    rows, scores = exact(x, queries, 9, removed=gone)
    every = queries @ x.T
    every[:, gone] = -np.inf
    expected = np.argsort(-every, axis=1, kind="stable")[:, :9]
    assert np.array_equal(rows, expected)
    assert np.allclose(scores, np.take_along_axis(every, expected, 1), atol=1e-6)
    few, _ = exact(x[:4], queries, 9)
    assert few.shape == (8, 4) and sorted(few[0]) == [0, 1, 2, 3]


def test_int8_rounds_clips_and_comes_back() -> None:
    x = vectors(300)
    ranges = bits.ranges_of(x[:200])
    stored = bits.to_stored(x, "int8", ranges)
    step = (ranges[1] - ranges[0]) / 255
    inside = (x >= ranges[0]) & (x <= ranges[1])
    back = bits.restored(stored, "int8", 24, ranges)
    assert np.all(np.abs(back - x)[inside] <= (step / 2 + 1e-6)[None].repeat(300, 0)[inside])
    high = bits.to_stored(np.full((1, 24), 9, dtype=np.float32), "int8", ranges)
    low = bits.to_stored(np.full((1, 24), -9, dtype=np.float32), "int8", ranges)
    assert set(high[0]) == {127} and set(low[0]) == {-128}  # never wrapped round


def test_binary_search_is_hamming_and_then_the_float_query() -> None:
    x, queries = vectors(300, 20), vectors(5, 20, seed=1)
    stored = bits.to_stored(x, "binary")
    rows, scores = exact(stored, queries, 3, "binary")
    signs = np.where(x > 0, 1, -1)
    for query in range(5):
        distance = (np.where(queries[query] > 0, 1, -1) != signs).sum(1)
        first = np.argsort(distance, kind="stable")[:12]
        by_query = sorted(first, key=lambda row: (-(signs[row] @ queries[query]), row))[:3]
        assert rows[query].tolist() == by_query
        assert scores[query] == pytest.approx([signs[row] @ queries[query] for row in by_query], abs=1e-5)


def test_bm25_is_that_of_bm25s() -> None:
    bm25s = pytest.importorskip("bm25s")
    rows = [*texts(), "", "the three, THREE nine!", "three"]
    ours = BM25.of(rows)
    theirs = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    theirs.index([words_of(row) for row in rows], show_progress=False)
    for query in ("three nine", "zero one two zero", "unknown five"):
        known = [word for word in words_of(query) if word in ours.words]
        assert ours.scores(query) == pytest.approx(theirs.get_scores(known), rel=1e-5, abs=1e-6)
    assert words_of("Ein Haus, 2 Häuser! 你好 world") == ["ein", "haus", "2", "häuser", "你", "好", "world"]


def test_retrieval_scores_are_those_of_trec_eval() -> None:
    pytrec = pytest.importorskip("pytrec_eval")
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(12, 40))
    relevant = rng.random((12, 40)) < 0.1
    relevant[3] = False
    relevant[5, 7] = True
    order = np.argsort(-scores, axis=1)
    ours = retrieval_scores(np.take_along_axis(relevant, order, 1)[:, :10], relevant.sum(1), (1, 10))
    qrels = {str(q): {str(d): 1 for d in np.flatnonzero(relevant[q])} for q in range(12) if relevant[q].any()}
    results = {q: {str(d): float(scores[int(q), d]) for d in range(40)} for q in qrels}
    judge = pytrec.RelevanceEvaluator(qrels, {"recall.1,10", "success.1,10", "ndcg_cut.1,10", "map_cut.10"})
    theirs = list(judge.evaluate(results).values())
    for name, other in {"recall@10": "recall_10", "hit@10": "success_10", "ndcg@10": "ndcg_cut_10"}.items():
        assert ours[name] == pytest.approx(np.mean([row[other] for row in theirs])), name
    assert ours["recall@1"] == pytest.approx(np.mean([row["recall_1"] for row in theirs]))
    # trec_eval's MAP divides by all relevant rows, ours by those that fit into ten.
    most = np.array([len(qrels[q]) for q in qrels])
    scaled = [row["map_cut_10"] * n / min(n, 10) for row, n in zip(theirs, most, strict=True)]
    assert ours["map@10"] == pytest.approx(np.mean(scaled))
    assert ours["unanswered"] == (~relevant.any(1)).sum()


# ---- folders


def test_vectors_do_not_depend_on_batch_or_order(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, rows = Encoder.open(run), texts()
    together = encoder.encode(rows).vectors
    backward = encoder.encode(rows[::-1]).vectors[::-1]
    monkeypatch.setattr("canon.use.encoder._TOKENS", 1)
    alone = encoder.encode(rows).vectors
    assert np.abs(together - backward).max() < 1e-6 and np.abs(together - alone).max() < 1e-6
    predicted = np.array([row["vector"] for row in canon.load(run).predict(rows, text=True)])
    predicted /= np.linalg.norm(predicted, axis=1, keepdims=True)
    assert np.abs(together - predicted).max() < 1e-6


def test_the_digest_is_of_all_that_decides_a_vector(run: Path) -> None:
    encoder = Encoder.open(run)
    before, config = encoder.digest, encoder.config
    for change in ({"dense_activation": "relu"}, {"settings": {**config.settings, "eps": 1e-5}}, {"pooling": ("max",)}):
        encoder.config = replace(config, **change)
        assert encoder.digest != before, change
    encoder.config = replace(config, settings={**config.settings, "dropout": 0.5})
    assert encoder.digest == before


def test_a_folder_is_in_the_order_of_its_input(run: Path, corpus: Path, tmp_path: Path) -> None:
    folder = canon.encode(run, corpus, tmp_path / "v")
    assert np.array_equal(np.load(tmp_path / "v" / "vectors.npy"), folder.store.vectors)
    assert np.abs(folder.store.vectors - Encoder.open(run).encode(texts()).vectors).max() < 1e-6
    lines = [json.loads(line) for line in (tmp_path / "v" / "rows.jsonl").read_text().splitlines()]
    assert [(row["id"], row["text"]) for row in lines] == list(enumerate(texts()))
    assert folder.store.row(7) == lines[7] and len(folder) == len(texts())
    meta = json.loads((tmp_path / "v" / "meta.json").read_text())
    assert meta["sha256"] == Encoder.open(run).digest and meta["pooling"] == ["mean"]


@pytest.mark.parametrize("kind, at", [("float32", 3), ("int8", 1)])
def test_killed_and_resumed_is_never_killed(
    kind: str, at: int, run: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_CHUNK", 16)
    canon.encode(run, corpus, tmp_path / "whole", precision=kind)
    work = Encoder.encode
    calls = iter(range(100))

    def dies(self: Encoder, some: Any, prompt: str = "") -> Any:
        if next(calls) == at:
            raise KeyboardInterrupt
        return work(self, some, prompt)

    monkeypatch.setattr(Encoder, "encode", dies)
    with pytest.raises(KeyboardInterrupt):
        canon.encode(run, corpus, tmp_path / "parts", precision=kind)
    with (tmp_path / "parts" / "rows.jsonl").open("ab") as file:
        file.write(b'{"half a row')  # of a chunk that was not finished
    with pytest.raises(CanonError, match="is half encoded"):
        canon.search(tmp_path / "parts", "three")
    monkeypatch.setattr(Encoder, "encode", work)
    said: list[str] = []
    canon.encode(run, corpus, tmp_path / "parts", precision=kind, say=said.append)
    assert said[0].endswith(f"continues after {16 * at} rows.")
    assert files_of(tmp_path / "parts") == files_of(tmp_path / "whole")


def test_rows_are_added_removed_and_compacted(run: Path, corpus: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "x1", "text": "nine nine nine"}\n{"id": "x2", "text": "zero zero seven"}\n')
    folder = canon.encode(run, corpus, tmp_path / "v")
    folder.bm25()
    with pytest.raises(CanonError, match="already exists: add --add"):
        canon.encode(run, more, tmp_path / "v")
    folder = canon.encode(run, more, tmp_path / "v", add=True)
    n = len(texts())
    assert len(folder) == n + 2 and folder.store.row(n)["id"] == "x1"
    for method in ("vectors", "bm25", "hybrid"):
        best = canon.search(tmp_path / "v", "zero zero seven", 2, method=method)[0]
        assert best[0]["id"] == "x2" and [row["rank"] for row in best] == [1, 2], method
    assert folder.remove(["x2", "5"]) == 2
    for method in ("vectors", "bm25", "hybrid"):
        ids = [row["id"] for row in canon.search(tmp_path / "v", "zero zero seven", n, method=method)[0]]
        assert not {"x2", 5} & set(ids), method
    with pytest.raises(CanonError, match="has no row with the id x2"):
        folder.remove(["x2"])
    before = canon.search(tmp_path / "v", "three one", 5)
    assert folder.compact() == 2
    folder = VectorFolder.open(tmp_path / "v")
    assert len(folder) == n == len(folder.store) and canon.search(tmp_path / "v", "three one", 5) == before
    assert [row["id"] for row in folder.store.rows()] == [*range(5), *range(6, n), "x1"]


def test_no_row_takes_the_number_of_one_that_went(run: Path, corpus: Path, tmp_path: Path) -> None:
    folder = canon.encode(run, corpus, tmp_path / "v")
    n = len(texts())
    folder.remove(["3", str(n - 1)])
    folder.compact()
    said: list[str] = []
    folder = canon.encode(run, corpus, tmp_path / "v", add=True, say=said.append)
    ids = [row["id"] for row in folder.store.rows()]
    assert ids == [*(i for i in range(n - 1) if i != 3), *range(n, 2 * n)] and not said
    (tmp_path / "t.csv").write_text("id,text\n7,three one nine\nx,nine\nx,nine three\n")
    canon.encode(run, tmp_path / "t.csv", tmp_path / "v", add=True, say=said.append)
    assert any(text.startswith(f"2 of {2 * n + 1} rows have the id of an earlier row") for text in said)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("move", range(5))
def test_compacting_survives_a_kill(
    move: int, done: bool, run: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each removal and each renaming."""
    folder = canon.encode(run, corpus, tmp_path / "v")
    folder.remove(["3"])
    before = folder.search(["three one"], 5)
    moves: list[Path] = []

    def dies(act: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Path, *others: Any, **more: Any) -> None:
            moves.append(path)
            if len(moves) != move + 1:
                act(path, *others, **more)
                return
            if done:
                act(path, *others, **more)
            raise KeyboardInterrupt

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dies(Path.rename))
        patch.setattr(stores, "_remove", dies(stores._remove))
        with pytest.raises(KeyboardInterrupt):
            folder.compact()
    again = VectorFolder.open(tmp_path / "v")
    assert again.search(["three one"], 5) == before
    again.compact()
    assert len(again.store) == len(texts()) - 1 and again.search(["three one"], 5) == before
    assert [path.name for path in tmp_path.iterdir() if "v" in path.name] == ["v"]


def test_a_folder_that_was_killed_before_it_began_is_filled(
    run: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before meta.json there is nothing in it to lose."""
    (tmp_path / "empty").mkdir()

    def dies(self: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stores.Store, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            canon.encode(run, corpus, tmp_path / "killed")
    for name in ("empty", "killed"):
        assert len(canon.encode(run, corpus, tmp_path / name)) == len(texts())


def test_a_folder_goes_on_as_it_was_begun(
    run: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "_CHUNK", 16)
    work = Encoder.encode

    def dies(self: Encoder, some: Any, prompt: str = "") -> Any:
        encoded = work(self, some, prompt)
        if "stop" not in vars(self):
            vars(self)["stop"] = True
            return encoded
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Encoder, "encode", dies)
        with pytest.raises(KeyboardInterrupt):
            canon.encode(run, corpus, tmp_path / "v", precision="int8")
    with pytest.raises(CanonError, match="half encoded with another --precision: give the same"):
        canon.encode(run, corpus, tmp_path / "v", precision="float16")
    assert canon.encode(run, corpus, tmp_path / "v", precision="int8").precision == "int8"
    prompts = {"system.prompts": {"q": "three "}, "data.source": SOURCE["retrieval"], "train.steps": 1}
    train("embed:tiny", out=tmp_path / "prompted", quiet=True, changes=prompts)
    canon.encode(tmp_path / "prompted", corpus, tmp_path / "w", prompt="q")
    with pytest.raises(CanonError, match='was encoded with the prompt "q": give the same'):
        canon.encode(tmp_path / "prompted", corpus, tmp_path / "w", add=True)


def test_a_vector_that_is_not_finite_names_its_row(
    run: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Encoder.encode

    def spoils(self: Encoder, some: Any, prompt: str = "") -> Any:
        encoded = work(self, some, prompt)
        encoded.vectors[20, 3] = np.nan
        return encoded

    monkeypatch.setattr(Encoder, "encode", spoils)
    with pytest.raises(CanonError, match=r"Row 21 of the input has a vector with numbers that are not finite\."):
        canon.encode(run, corpus, tmp_path / "v")


def test_the_graph_finds_what_all_rows_have(run: Path, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    canon.encode(run, corpus, tmp_path / "v")
    said: list[str] = []
    graph = canon.search(tmp_path / "v", ["three one", "nine"], 5, index="hnsw", say=said.append)
    assert said[0].startswith("hnsw: recall@10 ") and float(said[0].split()[2]) > 0.98
    whole = canon.search(tmp_path / "v", ["three one", "nine"], 5)
    assert [[row["id"] for row in rows] for rows in graph] == [[row["id"] for row in rows] for rows in whole]
    folder = VectorFolder.open(tmp_path / "v")
    folder.remove([str(whole[0][0]["id"])])
    less = canon.search(tmp_path / "v", "three one", 4, index="hnsw")[0]
    assert [row["id"] for row in less] == [row["id"] for row in whole[0][1:]]


@pytest.mark.parametrize("kind", ["float16", "int8", "binary"])
def test_fewer_bits_find_nearly_the_same(kind: str, run: Path, corpus: Path, tmp_path: Path) -> None:
    said: list[str] = []
    folder = canon.encode(run, corpus, tmp_path / "v", precision=kind, say=said.append)
    assert said[0].startswith(f"{kind}: ") and folder.store.meta["overlap"] > (0.2 if kind == "binary" else 0.9)
    sizes = {"float16": 32, "int8": 16, "binary": 2}
    assert folder.store.vectors.nbytes == sizes[kind] * len(texts())
    assert len(canon.search(tmp_path / "v", "three one", 5)[0]) == 5


def test_ranks_are_put_together() -> None:
    lists = [
        (np.array([[4, 2, 9]]), np.zeros((1, 3))),
        (np.array([[2, 7, -1]]), np.zeros((1, 3))),
    ]
    rows, scores = folders._fused(lists, 3)
    assert rows.tolist() == [[2, 4, 7]]
    assert scores[0] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])


def test_hard_negatives_score_less_than_the_pair(run: Path, corpus: Path, tmp_path: Path) -> None:
    folder = canon.encode(run, corpus, tmp_path / "v")
    rows = list(csv.reader(Path(SOURCE["retrieval"]).read_text().splitlines()))[1:]
    pairs = [(row[0], row[1]) for row in rows[:12]]
    mined = folder.mine(pairs, 3, margin=0.05)
    assert mined
    encoder = Encoder.open(run)
    for row in mined:
        a, p, *negatives = encoder.encode(list(row.values())).vectors
        assert list(row) == ["anchor", "positive", "negative_1", "negative_2", "negative_3"]
        assert all(a @ negative <= a @ p - 0.05 + 1e-6 for negative in negatives)
        assert not {row["anchor"], row["positive"]} & {row[f"negative_{k}"] for k in (1, 2, 3)}


def test_negatives_are_found_behind_many_that_are_too_near(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "same.txt"
    file.write_text("three one\n" * 250 + "".join(f"{text}\n" for text in texts()[:20] if text != "three one"))
    folder = canon.encode(run, file, tmp_path / "v")
    (mined,) = folder.mine([("three one", "three one")], 5, margin=-2.0)
    assert len(mined) == 7 and "three one" not in list(mined.values())[2:]
    assert folder.mine([("three one", "three one")], 30, margin=-2.0) == []  # there are fewer


# ---- the command line


def test_the_commands_print_what_python_returns(
    run: Path, corpus: Path, tmp_path: Path, canon: Callable[..., Any]
) -> None:
    result = canon("encode", run, corpus, "--out", tmp_path / "v", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["rows"] == len(texts())
    answer = canon("search", tmp_path / "v", "three one", "--top", "3", "--json")
    assert answer.code == 0, answer.err
    expected = VectorFolder.open(tmp_path / "v").search(["three one"], 3)
    assert [row["id"] for row in json.loads(answer.out)[0]["results"]] == [row["id"] for row in expected[0]]
    plain = canon("search", tmp_path / "v", "three one", "nine", "--method", "bm25")
    assert plain.code == 0 and "three one" in plain.out
    nothing = canon("search", tmp_path / "v", "zebra", "--method", "bm25")
    assert nothing.code == 0 and "Nothing found for 'zebra'." in nothing.err
    mined = canon("search", tmp_path / "v", SOURCE["retrieval"], "--mine", "2", "--out", tmp_path / "hard.jsonl")
    assert mined.code == 0, mined.err
    assert set(json.loads((tmp_path / "hard.jsonl").read_text().splitlines()[0])) == {
        "anchor",
        "positive",
        "negative_1",
        "negative_2",
    }
    gone = canon("encode", tmp_path / "v", "--remove", "3", "--compact", "--json")
    assert gone.code == 0 and json.loads(gone.out)["compacted"] == 1


def test_texts_come_by_standard_input(
    run: Path, corpus: Path, tmp_path: Path, canon: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipe(text: str) -> None:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode())))

    encode(run, [corpus], tmp_path / "v")
    for name, given in (("piped", ()), ("dash", ("-",))):
        pipe(corpus.read_text())
        result = canon("encode", run, *given, "--out", tmp_path / name)
        assert result.code == 0, result.err
        assert (tmp_path / name / "vectors.npy").read_bytes() == (tmp_path / "v" / "vectors.npy").read_bytes()
    pipe("three one\nnine\n")
    piped = canon("search", tmp_path / "v", "-", "--json").out
    assert piped == canon("search", tmp_path / "v", "three one", "nine", "--json").out
    pipe("\n")
    assert "Standard input is empty." in canon("encode", run, "-", "--out", tmp_path / "w").err


def test_files_in_other_encodings_are_read(run: Path, tmp_path: Path) -> None:
    lines = ["狗在河边看羊", "猫在山上"]
    file = tmp_path / "lines.txt"
    for encoding in ("gb18030", "utf-16"):
        file.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
        folder = encode(run, [file], tmp_path / encoding)
        assert [row["text"] for row in folder.store.rows()] == lines


def test_the_column_of_text_is_said(run: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    (tmp_path / "t.csv").write_text("id,short,long\n7,one,three one nine\n8,two,nine three\n")
    result = canon("encode", run, tmp_path / "t.csv", "--out", tmp_path / "v")
    assert 't.csv: the text is the column "long" (--column).' in result.err
    assert canon("encode", run, tmp_path / "t.csv", "--column", "short", "--out", tmp_path / "w").err == ""


def test_queries_in_a_table_are_its_column(run: Path, corpus: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    encode(run, [corpus], tmp_path / "v")
    (tmp_path / "q.csv").write_text("id,question,answer\n7,three one,one two three four\n8,nine,five six seven eight\n")
    asked = ("search", tmp_path / "v", tmp_path / "q.csv", "--top", 1, "--json")
    result = canon(*asked)
    assert [row["query"] for row in json.loads(result.out)] == ["three one", "nine"]
    assert 'the text is the column "question" (--column).' in result.err
    assert json.loads(canon(*asked, "--column", "answer").out)[0]["query"] == "one two three four"


def test_word_vectors_are_a_model_of_texts(tmp_path: Path, corpus: Path, canon: Callable[..., Any]) -> None:
    """A text is the mean of its words' vectors, as they are in the run."""
    words = {"data.source": SOURCE["word-vectors"], "data.tokenizer": "word", "data.min_count": 1, "data.valid": 0.0}
    words |= {"data.test": 0.0, "train.epochs": 1}
    for system in ("word2vec", "fasttext", "glove"):
        run = tmp_path / system
        train(f"words/{system}", out=run, quiet=True, changes={**words, "system.dim": 8})
        encoder, vectors = Encoder.open(run), Vectors.open(run)
        mean = sum(vectors[word] for word in ("one", "two", "two")) / 3
        assert np.allclose(encoder.encode(["one two two"]).vectors[0], mean / np.linalg.norm(mean), atol=1e-6)
        strange = encoder.encode(["one neverseen", "", "neverseen"]).vectors
        one = vectors["one"] / np.linalg.norm(vectors["one"])
        assert np.allclose(strange, [one, np.zeros(8), np.zeros(8)], atol=1e-6)
    result = canon("encode", run, corpus, "--out", tmp_path / "v")
    assert result.code == 0, result.err
    assert canon("search", tmp_path / "v", "three one").code == 0
    tuned = train(
        "embed", SOURCE["retrieval"], tmp_path / "tuned", changes={"train.init": str(run), "train.steps": 3}, quiet=True
    )
    assert tuned.recipe.config.backbone == "glove" and tuned.recipe.config.pooling == ("mean",)
    before, after = (Encoder.open(path).encode(["three one"]).vectors for path in (run, tuned.path))
    assert after.shape == before.shape and not np.allclose(before, after)
    for place, sentence in (
        (tmp_path / "v", "has vectors of texts, not of words: canon search "),
        (tuned.path, "find"),
    ):
        asked = canon("neighbors", place, "three")
        assert asked.code == 2 and sentence in asked.err and "search" in asked.err
    unlike = canon("convert", tuned.path, tmp_path / "folder", "--to", "sentence-transformers")
    assert unlike.code == 2 and "has the backbone glove, which is not a Hugging Face network" in unlike.err
    refused = canon("train", "finetune", "--data", SOURCE["fine-tuning"], "--set", f"from={run}")
    assert refused.code == 2 and "canon train embed starts from it" in refused.err


def test_a_pooling_that_was_asked_for_is_asked_for_again(tmp_path: Path, corpus: Path) -> None:
    small = {"data.source": SOURCE["pretraining"], "train.steps": 1, "data.tokenizer": "word", "data.limit": 30}
    train("pretrained/bert", out=tmp_path / "bert", quiet=True, changes={"system.name": "bert:tiny", **small})
    encode(tmp_path / "bert", [corpus], tmp_path / "v", pooling=["max"])
    assert len(VectorFolder.open(tmp_path / "v").search(["three one"], 3)[0]) == 3
    with pytest.raises(CanonError, match=r"has a layer that .* was not trained with: take cls"):
        encode(tmp_path / "bert", [corpus], tmp_path / "w", pooling=["cls-mlp"])


def test_a_model_that_was_moved_is_named(run: Path, corpus: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    import shutil

    old, new, other = tmp_path / "old", tmp_path / "new", tmp_path / "other"
    shutil.copytree(run, old)  # follows links, as copies on other systems do
    encode(old, [corpus], tmp_path / "v")
    expected = canon("search", tmp_path / "v", "three one", "--json")
    old.rename(new)
    lost = canon("search", tmp_path / "v", "three one")
    assert lost.code == 2 and "is not there: say where it is with --model" in lost.err
    moved = canon("search", tmp_path / "v", "three one", "--model", new, "--json")
    assert moved.code == 0 and moved.out == expected.out
    changes = {"data.source": SOURCE["retrieval"], "train.steps": 1, "train.seed": 5}
    train("embed:tiny", out=other, quiet=True, changes=changes)
    wrong = canon("search", tmp_path / "v", "three one", "--model", other)
    assert wrong.code == 2 and "is not the model that made" in wrong.err


@pytest.mark.parametrize("name", ["bm25.json", "bm25-docs.npy"])
def test_a_damaged_index_of_words_is_a_sentence(name: str, run: Path, corpus: Path, tmp_path: Path) -> None:
    folder = encode(run, [corpus], tmp_path / "v")
    folder.bm25()
    file = tmp_path / "v" / "index" / name
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(CanonError, match="index is damaged: remove it, and the next search builds it again"):
        folder.search(["three one"], method="bm25")


def test_bm25_needs_no_torch(run: Path, corpus: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    encode(run, [corpus], tmp_path / "v")
    code = (
        "import sys\nfrom canon.use.search.folder import VectorFolder\n"
        f"print(len(VectorFolder.open({str(tmp_path / 'v')!r}).search(['three'], 3, method='bm25')[0]))\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert result.split() == ["3", "False"]


def test_mistakes_are_sentences(run: Path, corpus: Path, tmp_path: Path, canon: Callable[..., Any]) -> None:
    encode(run, [corpus], tmp_path / "v")
    other = tmp_path / "other"
    train(
        "embed:tiny",
        out=other,
        quiet=True,
        changes={"data.source": SOURCE["retrieval"], "train.steps": 1, "train.seed": 5},
    )
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    scored = tmp_path / "scored.csv"
    scored.write_text("sentence1,sentence2,score\n" + "".join(f"three {n},one {n},{n}\n" for n in range(5)))
    cases = {
        ("search", tmp_path / "none", "x"): "does not exist; canon encode MODEL FILE --out",
        ("search", tmp_path / "v", "x", "--method", "tfidf"): "No method (--method)",
        ("search", tmp_path / "v", "x", "--index", "flat"): "No index (--index)",
        ("search", tmp_path / "v", " "): "A query is empty",
        ("search", tmp_path / "v", "x", "--prompt", "query"): "has no prompts: leave --prompt out",
        ("search", tmp_path / "v", "x", "--margin", "0.1"): "--margin and --out belong to --mine",
        ("search", tmp_path / "v", corpus, "--mine", "2", "--out", tmp_path / "m"): "has one text in each row",
        ("encode", run, corpus): "needs files of texts and --out V",
        ("encode", "all-MiniLM-L6-v2", corpus, "--out", tmp_path / "w"): "canon downloads no networks",
        (
            "search",
            tmp_path / "v",
            scored,
            "--mine",
            "2",
            "--out",
            tmp_path / "m",
        ): "has scores, but --mine needs pairs",
        ("encode", run, scored, "--out", tmp_path / "w", "--column", "body"): "--column: no column",
        ("encode", run, corpus, "--out", run): "is not a folder of vectors",
        ("encode", run, empty, "--out", tmp_path / "w"): "no text to encode",
        ("encode", run, corpus, "--out", tmp_path / "w2", "--precision", "int4"): "No precision",
        ("encode", run, corpus, "--out", tmp_path / "w3", "--pooling", "cls"): "pools in its own way",
        ("encode", run, corpus, "--out", tmp_path / "w4", "--column", "text"): "leave --column out",
        ("encode", other, corpus, "--out", tmp_path / "v", "--add"): "was encoded by",
        ("encode", tmp_path / "v", "--remove", "nobody"): "has no row with the id nobody",
    }
    for command, sentence in cases.items():
        result = canon(*command)
        assert result.code == 2 and sentence in result.err, (command, result.err)
