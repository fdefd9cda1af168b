"""Features of text, links and clicks: against bm25s, scikit-learn, networkx, and formulas by hand."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.data.formats.click_log import ClickLog, read_click_log
from canon.data.formats.documents import FIELDS, FieldedDocuments
from canon.data.formats.trec import read_qrels, read_run
from canon.errors import CanonError
from canon.use.features import clicks as of_clicks
from canon.use.features.documents import document_features, pagerank
from canon.use.features.index import EVERY, LETOR, FeatureIndex
from canon.use.features.labels import of_file, of_log
from canon.use.features.text import Candidates, text_features
from canon.use.search.bm25 import BM25, VARIANTS, saturation
from canon.use.search.bm25 import idf as bm25_idf
from canon.use.search.postings import Postings, words_of

WORDS = ["apple", "bread", "cheese", "dill", "egg", "fig", "grape", "ham"]
QUERIES = ("apple fig", "bread bread unknown egg", "zebra")


def texts(seed: int = 0, rows: int = 40) -> list[str]:
    draw = np.random.default_rng(seed)
    chances = 1 / np.arange(1, 1 + len(WORDS))
    made = [" ".join(draw.choice(WORDS, draw.integers(1, 12), p=chances / chances.sum())) for _ in range(rows)]
    return [*made, ""]


def everything(queries: tuple[str, ...], rows: int) -> Candidates:
    return Candidates.of([np.arange(rows) for _ in queries])


def by_query(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(QUERIES), -1)


# ---- text


@pytest.mark.parametrize("variant", VARIANTS)
def test_bm25_is_that_of_bm25s(variant: str) -> None:
    bm25s = pytest.importorskip("bm25s")
    rows = texts()
    postings = Postings.of(rows)
    theirs = bm25s.BM25(k1=1.5, b=0.75, method=variant, delta=1.0 if variant == "bm25+" else 0.5)
    theirs.index([words_of(row) for row in rows], show_progress=False)
    got = by_query(
        text_features(postings, QUERIES, everything(QUERIES, len(rows)), [f"bm25-{variant}"])[f"bm25-{variant}"]
    )
    index = BM25.over(postings, variant)
    for number, query in enumerate(QUERIES[:2]):
        known = [word for word in words_of(query) if word in postings.words]
        wanted = theirs.get_scores(known)
        if variant in ("bm25l", "bm25+"):  # bm25s gives words that are not there the weight of no occurrence
            absent = bm25_idf(variant, postings.df, len(rows)) * (1.25 / 2 if variant == "bm25l" else 1.0)
            for word in known:
                term = postings.words[word]
                wanted = wanted - absent[term] * (postings.counts_in(term, np.arange(len(rows))) == 0)
        assert got[number] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
        assert index.scores(query) == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert not got[2].any()


def test_the_vector_space_is_that_of_scikit_learn() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    rows = texts()
    vectorizer = CountVectorizer(analyzer=words_of)
    counts = vectorizer.fit_transform(rows).toarray()
    weight = np.log(len(rows) / (counts > 0).sum(0))
    wanted = cosine_similarity(vectorizer.transform(QUERIES).toarray() * weight, counts * weight)
    got = text_features(Postings.of(rows), QUERIES, everything(QUERIES, len(rows)), ["vsm"])["vsm"]
    assert by_query(got) == pytest.approx(wanted, abs=1e-12)


def test_language_models_and_counts_by_hand() -> None:
    rows = texts()
    got = text_features(Postings.of(rows), QUERIES, everything(QUERIES, len(rows)))
    every = Counter(word for row in rows for word in words_of(row))
    total = every.total()
    for number, query in enumerate(QUERIES):
        asked = words_of(query)
        for place, row in enumerate(rows):
            tf, length = Counter(words_of(row)), len(words_of(row))
            df = {word: sum(word in words_of(other) for other in rows) for word in asked}
            different = [word for word in set(asked) if df[word]]
            idf = {word: math.log(len(rows) / df[word]) for word in different}
            wanted = {
                "tf": sum(tf[word] for word in different),
                "idf": sum(idf.values()),
                "tfidf": sum(tf[word] * idf[word] for word in different),
                "length": length,
                "and": all(tf[word] for word in set(asked)),
                "or": any(tf[word] for word in asked),
                "share": sum(tf[word] > 0 for word in set(asked)) / len(set(asked)),
                "lm-jm": 0.0,
                "lm-dirichlet": 0.0,
                "lm-absolute": 0.0,
            }
            for word in asked:
                if every[word]:
                    background = every[word] / total
                    wanted["lm-jm"] += math.log(0.9 * tf[word] / max(length, 1) + 0.1 * background)
                    wanted["lm-dirichlet"] += math.log((tf[word] + 2000 * background) / (length + 2000))
                    left = 0.7 * len(tf) / length if length else 1.0
                    wanted["lm-absolute"] += math.log(max(tf[word] - 0.7, 0) / max(length, 1) + left * background)
            for name, value in wanted.items():
                assert by_query(got[name])[number, place] == pytest.approx(float(value), abs=1e-12), name


def test_a_probability_of_words_sums_to_one() -> None:
    """Each smoothing gives the words of the vocabulary probabilities that sum to 1, in any document with words."""
    rows = texts()
    postings = Postings.of(rows)
    queries = list(postings.words)
    got = text_features(
        postings, queries, everything(tuple(queries), len(rows)), ["lm-jm", "lm-dirichlet", "lm-absolute"]
    )
    for name, values in got.items():
        sums = np.exp(values).reshape(len(queries), -1).sum(0)
        assert sums[:-1] == pytest.approx(1.0), name


def test_some_candidates_have_the_features_that_all_have() -> None:
    rows = texts()
    postings = Postings.of(rows)
    all_of_them = text_features(postings, QUERIES, everything(QUERIES, len(rows)))
    lists = [np.array([7, 3]), np.empty(0, dtype=np.int64), np.array([40, 0, 5])]
    for name, values in text_features(postings, QUERIES, Candidates.of(lists)).items():
        wanted = np.concatenate([by_query(all_of_them[name])[number][docs] for number, docs in enumerate(lists)])
        assert np.array_equal(values, wanted), name


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_joined_fields_are_the_joined_texts(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr("canon.use.search.postings._AT_ONCE", at_once)
    words: dict[str, int] = {}
    one, other = texts(1), texts(2)
    joined = Postings.joined([Postings.of(one, words), Postings.of(other, words)])
    whole = Postings.of([f"{a} {b}" for a, b in zip(one, other, strict=True)], dict(words))
    assert np.array_equal(joined.lengths, whole.lengths) and joined.words == whole.words
    for array in ("indptr", "docs", "counts", "df", "cf", "distinct"):
        assert np.array_equal(getattr(joined, array), getattr(whole, array)), array
    indptr, terms, counts = joined.by_row()
    numbered = {place: word for word, place in words.items()}
    for row, text in enumerate(f"{a} {b}" for a, b in zip(one, other, strict=True)):
        some, tf = slice(indptr[row], indptr[row + 1]), Counter(words_of(text))
        assert {numbered[t]: c for t, c in zip(terms[some].tolist(), counts[some].tolist(), strict=True)} == tf
        square = sum((count * math.log(whole.rows / whole.df[words[word]])) ** 2 for word, count in tf.items())
        assert joined.norms[row] == pytest.approx(math.sqrt(square))
    scores = BM25.over(joined).scores("apple fig egg")
    relative_n = whole.lengths / whole.mean_length
    for row in range(whole.rows):
        by_hand = 0.0
        for word in ("apple", "fig", "egg"):
            listed = whole.docs[whole.places(words[word])].tolist()
            if row in listed:
                tf = whole.counts[whole.places(words[word])][[listed.index(row)]]
                by_hand += (
                    bm25_idf("lucene", np.array([len(listed)]), whole.rows) * saturation("lucene", tf, relative_n[row])
                )[0]
        assert scores[row] == pytest.approx(by_hand, rel=1e-6)


def test_saturation_rises_with_tf() -> None:
    tf = np.arange(1, 50)
    for variant in VARIANTS:
        assert (np.diff(saturation(variant, tf, np.ones(49))) > 0).all()


# ---- links and addresses


def test_pagerank_is_that_of_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    draw = np.random.default_rng(3)
    links = draw.integers(0, 30, (2, 90))
    links = links[:, links[0] != links[1]]
    links = links[:, links[0] > 4]  # 0 to 4 link to nothing
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(30))
    graph.add_edges_from(links.T.tolist())
    wanted = networkx.pagerank(graph, alpha=0.85, tol=1e-14, max_iter=1000)
    assert pagerank(30, np.concatenate([links, links], axis=1)) == pytest.approx(
        [wanted[i] for i in range(30)], abs=1e-10
    )
    assert pagerank(4, np.empty((2, 0))) == pytest.approx([0.25] * 4)


def test_addresses_and_links_by_hand() -> None:
    urls = ["http://a.org", "http://a.org/x/", "http://a.org/x/y", "http://b.org/z", ""]
    links = np.array([[0, 0, 0, 1, 3], [1, 3, 1, 1, 0]])
    got = document_features(urls, links, Postings.of(["one two two", "one", "", "", ""]))
    assert got["inlinks"].tolist() == [1, 1, 0, 1, 0] and got["outlinks"].tolist() == [2, 0, 0, 1, 0]
    assert got["slashes"].tolist() == [2, 4, 4, 3, 0] and got["url-length"].tolist() == [12, 15, 16, 14, 0]
    assert got["children"].tolist() == [1, 1, 0, 0, 0]
    assert got["richness"].tolist() == [2 / 3, 1, 0, 0, 0]
    assert got["siterank"][0] == got["siterank"][1] == got["siterank"][3] > got["siterank"][4]


# ---- the index and its file


def documents() -> FieldedDocuments:
    fields = {name: texts(seed) for seed, name in enumerate(FIELDS)}
    fields["url"] = [f"site{i % 3}/page{i}" for i in range(41)]
    return FieldedDocuments(
        [f"d{i}" for i in range(41)], fields, np.array([[0, 1, 2], [1, 2, 0]]), {"spam": list(range(41))}
    )


def test_an_index_is_the_same_after_saving(tmp_path: Path) -> None:
    index = FeatureIndex.of(documents(), ["spam"])
    index.save(tmp_path / "index")
    other = FeatureIndex.load(tmp_path / "index", index.ids)
    candidates = everything(QUERIES, 41)
    names = (*EVERY, "spam")
    values = index.features(names, QUERIES, candidates)
    assert values.shape == (3 * 41, len(names)) and np.isfinite(values).all()
    assert np.array_equal(values, other.features(names, QUERIES, candidates))
    assert values[:41, -1].tolist() == list(range(41))
    assert len(LETOR) == len(set(LETOR)) == 46 and set(LETOR) <= set(EVERY)
    assert LETOR[4] == "tf.whole" and LETOR[20] == "bm25-lucene.body" and LETOR[36] == "bm25-lucene.whole"
    with pytest.raises(CanonError, match="did you mean"):
        index.features(["bm25-lucene.titel"], QUERIES, candidates)


def written(folder: Path) -> None:
    rows = [
        {"id": "a", "title": "apple pie", "body": "an apple and a fig", "url": "s/a", "links": ["b"], "spam": 1},
        {"id": "b", "title": "fig jam", "body": "fig fig fig", "url": "s/a/b", "links": "a c", "spam": 2},
        {"id": "c", "title": "ham", "body": "no fruit", "url": "s/c"},
    ]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.tsv").write_text("id\tquery\nq1\tapple fig\nq2\tham\n")
    (folder / "qrels.txt").write_text("q1 0 a 2\nq1 0 c 0\nq2 0 c 1\n")


def test_the_verb_writes_what_scikit_learn_reads(tmp_path: Path, canon: Callable[..., Any]) -> None:
    from sklearn.datasets import load_svmlight_file

    written(tmp_path)
    outcome = canon("features", "docs.jsonl", "queries.tsv", "--out", "l.txt", "--qrels", "qrels.txt", "--json")
    record = json.loads(outcome.out)
    assert record["rows"] == 4 and record["queries"] == 2 and record["labels"] == {"0": 2, "1": 1, "2": 1}
    x, y, qid = load_svmlight_file("l.txt", query_id=True)
    assert qid.tolist() == [1, 1, 1, 2] and sorted(y.tolist()) == [0, 0, 1, 2]
    names = Path("l.features.txt").read_text().split()
    assert x.shape[1] == len(names) == len(EVERY) == record["features"]
    lines = Path("l.txt").read_text().splitlines()
    row = next(i for i, line in enumerate(lines) if line.endswith("# docid = b query = q1"))
    assert x[row, names.index("tf.body")] == 3 and x[row, names.index("children")] == 0
    assert x[row, names.index("outlinks")] == 2 and x[row, names.index("lm-jm.title")] < 0
    assert canon("features", "docs.jsonl", "queries.tsv", "--out", "m.txt", "--preset", "letor").code == 0
    assert Path("m.features.txt").read_text().split() == list(LETOR)


def test_the_verb_takes_runs_and_clicks(tmp_path: Path, canon: Callable[..., Any]) -> None:
    written(tmp_path)
    Path("run.txt").write_text("q1 Q0 c 1 2 x\nq1 Q0 a 2 1.5 x\nq2 Q0 c 1 1 x\n")
    Path("log.csv").write_text(
        "query,document,position,clicked,dwell\nq1,c,1,0,\nq1,a,2,1,30\nq1,c,1,0,\nq1,a,2,1,10\nq2,c,1,0,\n"
    )
    Path("numbered.txt").write_text("1 Q0 c 1 2 x\n1 Q0 a 2 1.5 x\n2 Q0 c 1 1 x\n")  # as qid has the queries
    for name in ("run.txt", "numbered.txt"):
        how = ("--run", name, "--clicks", "log.csv", "--labels", name, "--json")
        record = json.loads(canon("features", "docs.jsonl", "queries.tsv", "--out", "l.txt", *how).out)
        assert record["rows"] == 3 and record["labels"] == {"0": 2, "0.5": 1}
    how = ("--run", "run.txt", "--clicks", "log.csv", "--labels", "ctr", "--views", "2", "--json")
    record = json.loads(canon("features", "docs.jsonl", "queries.tsv", "--out", "l.txt", *how).out)
    assert record["queries"] == 1 and record["labels"] == {"0": 1, "1": 1}
    how = ("--run", "run.txt", "--clicks", "log.csv", "--labels", "skip-above", "--json")
    record = json.loads(canon("features", "docs.jsonl", "queries.tsv", "--out", "l.txt", *how).out)
    assert record["rows"] == 3 and record["labels"] == {"0": 1, "1": 1, "2": 1}
    assert Path("l.features.txt").read_text().split()[-2:] == ["ctr", "dwell"]
    shown = [line.split(" #")[0].split() for line in Path("l.txt").read_text().splitlines()]
    assert [row[0] for row in shown] == ["0", "2", "1"]
    values = [[float(cell.split(":")[1]) for cell in row[-2:]] for row in shown]
    assert values == [pytest.approx(pair, rel=1e-6) for pair in ([4 / 12, 0], [6 / 12, 20], [4 / 11, 0])]


def test_mistakes_are_sentences(tmp_path: Path, canon: Callable[..., Any]) -> None:
    written(tmp_path)
    Path("bad.txt").write_text("q1 0 a 2\nq1 0 a 1\n")
    Path("twice.jsonl").write_text('{"id": "a", "body": "x"}\n{"id": "a", "body": "y"}\n')
    Path("strange.txt").write_text("q1 0 z 2\nq2 0 y 1\n")
    Path("log.csv").write_text("query,document,position,clicked\nq1,c,0,0\n")
    for arguments, words in {
        ("docs.jsonl", "queries.tsv", "--qrels", "bad.txt"): "bad.txt, line 2: query q1 and document a have the labels",
        ("docs.jsonl", "queries.tsv", "--qrels", "strange.txt"): "No document of the labels (z …) is among the docum",
        ("twice.jsonl", "queries.tsv"): "twice.jsonl, line 2: the id a comes twice",
        ("docs.jsonl",): "needs a table of documents and then the queries",
        ("docs.jsonl", "queries.tsv", "--preset", "leto"): "did you mean letor",
        ("docs.jsonl", "queries.tsv", "--column", "title2"): "No column of the documents",
        ("docs.jsonl", "queries.tsv", "--clicks", "log.csv"): "log.csv, line 2: position must be a whole number from 1",
        ("docs.jsonl", "queries.tsv", "--labels", "ips"): "--labels ips makes labels from a click log: give --clicks",
        ("docs.jsonl", "queries.tsv", "--labels", "isp"): "did you mean ips",
        ("docs.jsonl", "queries.tsv", "--column", "spam"): "Column spam of document c is None",
    }.items():
        outcome = canon("features", *arguments, "--out", "out.txt")
        assert outcome.code == 2 and words in outcome.err, (arguments, outcome.err)
        assert not Path("out.txt").exists()


# ---- TREC's files


def test_qrels_and_runs_are_read_as_trec_eval_reads_them() -> None:
    Path("q.txt").write_text("q 0 a 2\nq 0 b 0\nr 0 a 1\n")
    assert read_qrels("q.txt") == {"q": {"a": 2, "b": 0}, "r": {"a": 1}}
    Path("spam.txt").write_text("q 0 a -2\nq 0 b 1\n")
    assert read_qrels("spam.txt") == {"q": {"a": 0, "b": 1}}
    Path("r.txt").write_text("q Q0 b 1 2.5 x\nq Q0 a 2 1.25 x\n\nr Q0 a 1 -1 x\n")
    assert read_run("r.txt") == {"q": [("b", 2.5), ("a", 1.25)], "r": [("a", -1.0)]}
    Path("t.txt").write_text("q Q0 a 1 3 x\nq Q0 c 2 3 x\nq Q0 b 3 9 x\n")
    assert read_run("t.txt") == {"q": [("b", 9.0), ("c", 3.0), ("a", 3.0)]}  # ties by falling id
    Path("t.txt").write_text("q Q0 a 1 x x\n")
    with pytest.raises(CanonError, match=r't.txt, line 1: a score is a number, got "x"'):
        read_run("t.txt")


# ---- clicks


def log_of(views: list[tuple[str, str, str]], position: np.ndarray | None = None) -> ClickLog:
    """Of (query, documents, clicked ones) of each view."""
    rows = [(n, q, d, k, d in c) for n, (q, docs, c) in enumerate(views) for k, d in enumerate(docs, 1)]
    queries, docs = sorted({row[1] for row in rows}), sorted({row[2] for row in rows})
    view, query, document, place, clicked = zip(*rows, strict=True)
    return ClickLog(
        queries,
        docs,
        np.array([queries.index(q) for q in query]),
        np.array([docs.index(d) for d in document]),
        np.array(place),
        np.array(clicked),
        np.array(view),
    )


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ("skip-above", [("b", "a"), ("d", "a"), ("d", "c")]),
        ("last-click", [("d", "a"), ("d", "c")]),
        ("skip-next", [("b", "c"), ("d", "e")]),
    ],
)
def test_preferences_by_hand(strategy: str, wanted: list[tuple[str, str]]) -> None:
    log = log_of([("q", "abcde", "bd"), ("q", "ea", ""), ("r", "ba", "ba")])
    better, worse = of_clicks.preferences(log, strategy)
    names = [log.documents[i] for i in log.document]
    assert sorted((names[i], names[j]) for i, j in zip(better, worse, strict=True)) == wanted


def test_labels_and_rates_by_hand() -> None:
    log = log_of([("q", "abc", "b"), ("q", "abc", "ab"), ("q", "cab", "b"), ("r", "ab", "b")])
    pairs = of_clicks.LoggedPairs.of(log)
    assert of_clicks.labels(log, pairs, "skip-above").tolist() == [0, 2, 0, 0, 2]
    assert of_log(log, "skip-above", least_views=2) == {"q": {"a": 0, "b": 2, "c": 0}}
    assert of_log(log, "ctr") == {"q": {"a": 1 / 3, "b": 1, "c": 0}, "r": {"a": 0, "b": 1}}
    with pytest.raises(CanonError, match="No query of the click log has 4 views"):
        of_log(log, "ctr", least_views=4)
    rates = of_clicks.rates(log, pairs)
    p0 = 5 / 11
    assert rates["ctr"].tolist() == pytest.approx(
        [(c + 10 * p0) / (v + 10) for c, v in [(1, 3), (3, 3), (0, 3), (0, 1), (1, 1)]]
    )


def test_second_hops_are_counted_among_clicks(tmp_path: Path) -> None:
    log = log_of([("q", "ab", "a"), ("q", "ab", "ab"), ("q", "ab", "a")])
    log = replace(log, hop=np.array([1, 1, 0, 0, np.nan, 0.0]))  # of b: no click but the second, which did not go on
    rates = of_clicks.rates(log, of_clicks.LoggedPairs.of(log))
    assert rates["second-hop"].tolist() == [0.5, 0.0]
    (tmp_path / "log.csv").write_text("query,document,position,clicked,second_hop\nq,a,1,1,1\nq,b,2,0,\nq,c,3,1,2\n")
    with pytest.raises(CanonError, match="line 4: second_hop must be 0 or 1, or empty"):
        read_click_log(tmp_path / "log.csv")


def test_inverse_propensities_are_a_loop_over_clicks() -> None:
    log, _ = simulated(20_000, shuffled=True)
    theta = of_clicks.propensities_by_em(log, of_clicks.LoggedPairs.of(log))
    summed: dict[tuple[str, str], list[float]] = {}
    for q, d, k, c in zip(log.query, log.document, log.position, log.clicked, strict=True):
        weight = min(1 / theta[k - 1], 10.0) if c else 0.0
        summed.setdefault((log.queries[q], log.documents[d]), []).append(weight)
    got = {(q, d): label for q, known in of_log(log, "ips").items() for d, label in known.items()}
    assert got == pytest.approx({pair: sum(values) / len(values) for pair, values in summed.items()})


def test_labels_of_preferences_and_of_another_ranking(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("qid,winner,loser\nq,a,b\nq,b,c\nq,b,a\nr,x,y\n")
    assert of_file(file) == {"q": {"a": 1, "b": 2, "c": 0}, "r": {"x": 2, "y": 0}}
    file.write_text("qid,winner,loser\nq,a,b\nq,b,b\n")
    with pytest.raises(CanonError, match=r"pairs.csv, line 3: a preference is a query and two documents"):
        of_file(file)
    (tmp_path / "fine.run").write_text("q Q0 a 1 2.5 x\nq Q0 b 2 1 x\nr Q0 x 1 -3 x\n")
    assert of_file(tmp_path / "fine.run") == {"q": {"a": 1.5, "b": 0.0}, "r": {"x": 0.0}}


def simulated(rows: int, shuffled: bool) -> tuple[ClickLog, np.ndarray]:
    """Clicks of the position-based model with θ_k = 1/k: 50 queries of 10 documents."""
    draw = np.random.default_rng(1)
    K, Q = 10, 50
    theta, gamma = 1 / np.arange(1, K + 1), draw.uniform(0.05, 0.95, (Q, K))
    V = rows // K
    query = draw.integers(0, Q, V)
    order = np.argsort(draw.random((V, K)) if shuffled else np.arange(K) + 1.5 * draw.random((V, K)), axis=1)
    clicked = draw.random((V, K)) < theta * gamma[query[:, None], order]
    names = [str(i) for i in range(Q * K)]
    log = ClickLog(
        [str(i) for i in range(Q)],
        names,
        np.repeat(query, K),
        (query[:, None] * K + order).ravel(),
        np.tile(np.arange(1, K + 1), V),
        clicked.ravel(),
        np.repeat(np.arange(V), K),
    )
    return log, theta


@pytest.mark.parametrize("shuffled", [True, False])
def test_propensities_of_a_million_rows_are_found(shuffled: bool) -> None:
    log, theta = simulated(1_000_000, shuffled)
    pairs = of_clicks.LoggedPairs.of(log)
    assert of_clicks.propensities_by_em(log, pairs) == pytest.approx(theta, abs=0.02)
    assert of_clicks.propensities_by_swaps(log, pairs) == pytest.approx(theta, abs=0.02)
    weights = of_clicks.weights(log, theta, cap=4.0)
    assert weights.max() == 4.0 and not weights[~log.clicked].any()
    assert set(weights[log.clicked & (log.position == 3)]) == {min(1 / theta[2], 4.0)}
    with pytest.raises(CanonError, match="There are 3 propensities, but a document was at position 10"):
        of_clicks.weights(log, theta[:3])


def test_logs_without_sessions_are_cut_into_views(tmp_path: Path) -> None:
    rows = "q,doc,rank,click\nx,a,1,1\nx,b,2,0\nx,a,1,0\nx,c,2,1\ny,a,3,0\n"
    Path("log.csv").write_text(rows.replace("q,", "query,", 1))
    log = read_click_log("log.csv")
    assert log.view.tolist() == [0, 0, 1, 1, 2] and log.clicked.tolist() == [True, False, False, True, False]
    Path("s.csv").write_text("query,doc,position,clicked,session\nx,b,2,0,7\nx,a,1,1,8\nx,a,1,1,7\nx,b,2,1,8\n")
    Path("z.csv").write_text("会话,查询,文档,位置,点击\na,x,b,1,1\nb,x,a,1,0\n", "utf-8")
    assert read_click_log("z.csv").view.tolist() == [0, 1] and read_click_log("z.csv").documents == ["b", "a"]
    log = read_click_log("s.csv")
    assert log.view.tolist() == [0, 0, 1, 1] and log.position.tolist() == [1, 2, 1, 2]
    assert log.clicked.tolist() == [True, False, True, True]
