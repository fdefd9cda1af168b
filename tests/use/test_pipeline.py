"""Pipelines: rules, steps and recalls by hand on 20 documents, MMR by brute force, measures as pytrec_eval has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.errors import CanonError
from canon.use.features.text import Candidates
from canon.use.pipeline import settings
from canon.use.pipeline.documents import StoredDocuments
from canon.use.pipeline.evaluate import measures, paired_p
from canon.use.pipeline.pipeline import Pipeline
from canon.use.pipeline.recall import PipelineRequest, Recall, Recalled, recall
from canon.use.pipeline.rerank import Likeness, Moment, Ordered, minmax, mmr, step_of
from canon.use.pipeline.rules import compiled
from canon.use.search.postings import Postings

DAY = 86_400
KINDS = ("tea", "cake", "soup", "bread")
SCENTS = ("mint", "rose", "salt", "rye", "fig")


def documents() -> list[dict[str, Any]]:
    """20 documents: number i of kind i mod 4, priced i, i days old, sold 2^(i mod 5) times."""
    return [
        {
            "id": f"d{i}",
            "title": f"{KINDS[i % 4]} {SCENTS[i % 5]}",
            "body": f"{KINDS[i % 4]} with {SCENTS[i % 5]} " + "and more " * (i % 3),
            "kind": KINDS[i % 4],
            "price": i if i != 7 else None,
            "day": 20_000 * DAY - i * DAY,
            "sold": 2 ** (i % 5),
        }
        for i in range(20)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents()))
    queries = "".join(f"q{i}\t{KINDS[i % 4]} {SCENTS[i % 5]}\n" for i in range(20))
    (tmp_path / "queries.tsv").write_text("id\tquery\n" + queries)
    grades = "".join(
        f"q{i} 0 d{j} {2 if i == j else 1}\n" for i in range(20) for j in range(20) if KINDS[i % 4] == KINDS[j % 4]
    )
    (tmp_path / "qrels.txt").write_text(grades)
    return tmp_path


RECIPE = """
[documents]
source = "docs.jsonl"
[[recall]]
name = "bm25"
top = 6
[[recall]]
name = "popular"
column = "sold"
top = 3
"""


def built(canon: Callable[..., Any], more: str = "", recipe: str = RECIPE, out: str = "run") -> Pipeline:
    Path("shop.toml").write_text(recipe + more)
    outcome = canon("train", "shop.toml", "--out", out, "--json")
    assert outcome.code == 0, outcome.err
    return Pipeline.open(out)


# ---- rules

ROW = {"id": "x", "price": 3, "kind": "tea", "name": "Green TEA", "none": None}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("price < 10 and kind in ('tea', 'cake')", True),
        ("not (price >= 3)", False),
        ("1 < price <= 3", True),
        ("price * 2 - 1 == 5", True),
        ("-price + 4 > 0.5", True),
        ("lower(name) == 'green tea' or 1 / 0 > 1", True),
        ("length(name) == 9", True),
        ("missing(none) and not missing(price)", True),
        ("none < 3", False),
        ("kind < 3", False),
        ("kind not in ['cake']", True),
        ("kind == 'tea' and true", True),
        ("'een' in name", True),
    ],
)
def test_a_rule_is_what_python_says(rule: str, value: bool) -> None:
    assert bool(compiled(rule, ROW, "rerank.filter.when")(ROW)) is value


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("pric < 3", 'No column "pric"; did you mean price?'),
        ("__import__('os').system('true')", "is not allowed in a rule"),
        ("kind.__class__ == 1", '"kind.__class__" is not allowed in a rule'),
        ("eval('1')", 'No function "eval"'),
        ("[x for x in kind]", "is not allowed in a rule"),
        ("lambda: 1", "is not allowed in a rule"),
        ("price ** 99999 > 1", "is not allowed in a rule"),
        ("price <", "is not a rule"),
        ("(price := 3) > 1", "is not allowed in a rule"),
        ("f'{price}' == '3'", "is not allowed in a rule"),
        ("b'x' == kind", "is not allowed in a rule"),
        ("lower(name, kind) == 1", "is not allowed in a rule"),
        ("(" * 400 + "1" + ")" * 400, "rerank.filter.when"),
        ("1 + " * 300 + "1", "at most 1,000 are allowed"),
        ("", "is not a rule"),
    ],
)
def test_what_a_rule_may_not_say(rule: str, words: str) -> None:
    with pytest.raises(CanonError) as refusal:
        compiled(rule, ROW, "rerank.filter.when")
    assert words in str(refusal.value) and str(refusal.value).startswith("rerank.filter.when")


@pytest.mark.parametrize("rule", ["kind + 1 > 2", "price / 0 > 1", "length(price) > 1"])
def test_what_cannot_be_computed_names_the_document(rule: str) -> None:
    with pytest.raises(CanonError, match="cannot be computed for document x"):
        compiled(rule, ROW, "rerank.boost.when")(ROW)


# ---- steps


def test_mmr_is_the_brute_force_of_its_equation() -> None:
    draw = np.random.default_rng(0)
    for k, weight in ((1, 0.5), (9, 0.7), (20, 0.3), (20, 1.0), (20, 0.0)):
        scores = np.sort(draw.random(k))[::-1]
        vectors = np.abs(draw.normal(size=(k, 4)))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        alike = vectors @ vectors.T
        chosen: list[int] = []
        while len(chosen) < min(k, 12):
            left = [i for i in range(k) if i not in chosen]
            value = {i: weight * scores[i] - (1 - weight) * max([alike[i, j] for j in chosen], default=0) for i in left}
            chosen.append(max(left, key=lambda i: value[i]))
        order, values = mmr(scores, alike, weight, 12)
        assert order.tolist() == chosen and (np.diff(values) <= 1e-12).all()


def test_likeness_is_the_cosine_of_scikit_learn() -> None:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    texts = [row["body"] for row in documents()]
    counts = CountVectorizer().fit_transform(texts).toarray()
    wanted = cosine_similarity(counts * np.log(len(texts) / (counts > 0).sum(0)))
    docs = np.array([3, 0, 19, 8])
    assert Likeness(Postings.of(texts)).among(docs) == pytest.approx(wanted[np.ix_(docs, docs)], abs=1e-12)


@pytest.fixture
def rows(folder: Path) -> StoredDocuments:
    from canon.data.formats.documents import read_documents

    return StoredDocuments.write(read_documents([folder / "docs.jsonl"]), folder / "rows")


def given(*docs: int) -> Ordered:
    """These documents, with scores that fall evenly from 10 to 0."""
    return Ordered(np.array(docs), np.linspace(10, 0, len(docs)))


def after(rows: StoredDocuments, name: str, start: Ordered, **config: Any) -> Ordered:
    likeness = Likeness(Postings.of([row["body"] for row in documents()]))
    step = step_of(name, settings.RERANKS[name](**config), rows, likeness)
    return step(start, Moment(20_000 * DAY))


def test_filter_pin_and_cap_by_hand(rows: StoredDocuments) -> None:
    start = given(5, 9, 1, 2, 13, 7)  # cakes but for 2 and 7
    assert after(rows, "filter", start, when="price > 4 and kind == 'cake'").docs.tolist() == [5, 9, 13]
    assert after(rows, "filter", start, when="score > 3 and rank != 2").docs.tolist() == [5, 1, 2]
    pinned = after(rows, "pin", start, when="id in ('d7', 'd2')", position=2)
    assert pinned.docs.tolist() == [5, 2, 7, 9, 1, 13] and (np.diff(pinned.scores) <= 0).all()
    capped = after(rows, "cap", start, by="kind", most=2, within=4)
    assert capped.docs.tolist() == [5, 9, 2, 7, 1, 13] and (np.diff(capped.scores) <= 0).all()
    assert not len(after(rows, "filter", start, when="price > 99").docs)


def test_boost_freshness_and_novelty_by_hand(rows: StoredDocuments) -> None:
    start = given(0, 4, 3)  # 1, .5, 0; 0, 4 and 3 days old; sold 1, 16 and 8 times
    boosted = after(rows, "boost", start, when="price == 4", by=0.6)
    assert boosted.docs.tolist() == [4, 0, 3] and boosted.scores.tolist() == pytest.approx([1.1, 1, 0])
    fresh = after(rows, "freshness", start, column="day", half_life=2.0, weight=0.5)
    assert fresh.docs.tolist() == [0, 4, 3]
    assert fresh.scores.tolist() == pytest.approx([1.0, 0.25 + 0.125, 2**-1.5 / 2])
    total = 4 * 31
    novel = after(rows, "novelty", start, column="sold", beta=0.1)
    wanted = {0: 1 - 0.1 * np.log2(1 / total), 4: 0.5 - 0.1 * np.log2(16 / total), 3: -0.1 * np.log2(8 / total)}
    assert dict(zip(novel.docs.tolist(), novel.scores.tolist(), strict=True)) == pytest.approx(wanted)
    assert minmax(np.array([2.0, 2.0])).tolist() == [1, 1] and minmax(np.empty(0)).tolist() == []


def test_mmr_puts_something_else_second(rows: StoredDocuments) -> None:
    start = Ordered(np.array([0, 1, 2, 3]), np.array([4.0, 3.9, 3.8, 0.0]))
    plain = after(rows, "mmr", start, weight=1.0)
    assert plain.docs.tolist() == [0, 1, 2, 3]
    some = after(rows, "mmr", start, weight=0.7, top=2)
    assert len(some.docs) == 4 and (np.diff(some.scores) <= 0).all() and some.docs[0] == 0


# ---- recall and fusion


def test_a_union_keeps_every_rank_and_fuses_by_hand() -> None:
    lists = {
        "a": (np.array([[4, 2, 7], [1, -1, -1]]), np.array([[3.0, 2.0, 1.0], [5.0, -np.inf, -np.inf]])),
        "b": (np.array([[7, 9], [1, 3]]), np.array([[0.9, 0.8], [0.7, 0.6]])),
    }
    recalled = recall(
        [Recall(name, lambda requests, both=both: both) for name, both in lists.items()],
        [PipelineRequest("x"), PipelineRequest("y")],
    )
    assert [recalled.candidates.of_query(q).tolist() for q in (0, 1)] == [[4, 2, 7, 9], [1, 3]]
    assert recalled.ranks.tolist() == [[1, 0], [2, 0], [3, 1], [0, 2], [1, 1], [0, 2]]
    assert recalled.scores.tolist() == [[3, 0], [2, 0], [1, 0.9], [0, 0.8], [5, 0.7], [0, 0.6]]
    wanted = [1 / 61, 1 / 62, 1 / 63 + 1 / 61, 1 / 62, 2 / 61, 1 / 62]
    assert recalled.fused().tolist() == pytest.approx(wanted)
    assert recalled.features()[2].tolist() == pytest.approx([1 / 3, 1.0, 1.0, 0.9])


def test_nothing_found_is_no_answer(canon: Callable[..., Any], folder: Path) -> None:
    pipeline = built(canon, '[[rerank]]\nname = "mmr"\n', RECIPE.split('[[recall]]\nname = "popular"')[0])
    assert pipeline.search(["zebra"]) == [[]]
    assert [row["id"] for row in pipeline.search(["zebra", "rye"])[1]] == ["d3", "d18", "d13", "d8"]


def test_a_pipeline_on_twenty_documents_is_done_by_hand(canon: Callable[..., Any], folder: Path) -> None:
    kept_ones = '[[rerank]]\nname = "filter"\nwhen = "price >= 2"\n'
    pipeline = built(canon, kept_ones + '[[rerank]]\nname = "cap"\nby = "kind"\nmost = 1\nwithin = 2\n')
    # Rose is in d1, d6, d11, d16, tea in d0, d4, d8, d12, d16: d16 has both. Most sold are d4, d9, d14, in this order.
    answer = pipeline.answer(["tea rose"])[0]
    words = answer.recalled.candidates.docs[answer.recalled.ranks[:, 0] > 0].tolist()
    assert words[0] == 16 and set(words) <= {0, 1, 4, 6, 8, 11, 12, 16} and len(words) == 6
    assert answer.recalled.candidates.docs[answer.recalled.ranks[:, 1] > 0].tolist()[-2:] == [9, 14]
    fused = dict(zip(answer.stages["recall"].docs.tolist(), answer.stages["recall"].scores, strict=True))
    ranks = {doc: place for place, doc in enumerate(words, start=1)}
    popular = {4: 1, 9: 2, 14: 3}
    for doc, score in fused.items():
        parts = [1 / (60 + known[doc]) for known in (ranks, popular) if doc in known]
        assert score == pytest.approx(sum(parts))
    kept = [doc for doc in answer.stages["recall"].docs.tolist() if doc >= 2 and doc != 7]
    assert answer.stages["filter"].docs.tolist() == kept
    first = kept[0]
    second = next(doc for doc in kept if doc % 4 != first % 4)
    assert answer.stages["cap"].docs.tolist() == [first, second, *(doc for doc in kept if doc not in (first, second))]
    row = pipeline.search(["tea rose"], 3, explain=True)[0][0]
    assert row["id"] == f"d{first}" and row["rank"] == 1 and row["title"]
    assert row["stages"]["cap"]["rank"] == 1 and row["found"]["bm25"]["rank"] == ranks[first]


# ---- evaluation


def test_measures_are_those_of_pytrec_eval_and_by_hand() -> None:
    grades = [{0: 2, 1: 1, 2: 1}, {5: 2}, {3: 1, 4: 1}]
    lists = [np.array([9, 1, 0]), np.empty(0, dtype=np.int64), np.array([8, 7, 3])]
    got = measures(lists, grades, least=1)
    assert got["recall@100"].tolist() == pytest.approx([2 / 3, 0, 1 / 2])
    assert got["mrr@10"].tolist() == pytest.approx([1 / 2, 0, 1 / 3])
    discount = 1 / np.log2(np.arange(2, 13))
    wanted = [
        (1 * discount[1] + 3 * discount[2]) / (3 * discount[0] + discount[1] + discount[2]),
        0,
        discount[2] / discount[:2].sum(),
    ]
    assert got["ndcg@10"].tolist() == pytest.approx(wanted)
    assert measures(lists, grades, least=2)["mrr@10"].tolist() == pytest.approx([1 / 3, 0, 0])
    pytrec_eval = pytest.importorskip("pytrec_eval")
    draw = np.random.default_rng(0)
    every = [{int(d): int(draw.integers(0, 2)) for d in draw.permutation(30)[:12]} for _ in range(20)]
    orders = [draw.permutation(30)[:25] for _ in every]
    qrels = {str(q): {str(d): grade for d, grade in one.items()} for q, one in enumerate(every)}
    run = {str(q): {str(d): float(-place) for place, d in enumerate(order)} for q, order in enumerate(orders)}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100"}).evaluate(run)
    ours = measures(orders, every, least=1)
    for q in range(20):
        assert ours["ndcg@10"][q] == pytest.approx(theirs[str(q)]["ndcg_cut_10"])
        assert ours["recall@100"][q] == pytest.approx(theirs[str(q)]["recall_100"])


def test_the_paired_test_is_that_of_scipy_by_hand() -> None:
    first, other = np.array([0.1, 0.4, 0.2, 0.5]), np.array([0.3, 0.5, 0.2, 0.9])
    difference = other - first
    t = difference.mean() / (difference.std(ddof=1) / 2)
    from scipy.stats import t as student

    assert paired_p(first, other) == pytest.approx(2 * student.sf(t, 3))
    assert paired_p(first, first) is None and paired_p(first, first + 1.0) is None


# ---- the command line


def test_a_pipeline_is_built_searched_and_evaluated(canon: Callable[..., Any], folder: Path) -> None:
    judged = '[queries]\nsource = "queries.tsv"\nqrels = "qrels.txt"\ntest = 0.5\nrelevant = 2\n'
    Path("shop.toml").write_text(RECIPE + judged)
    outcome = canon("train", "shop.toml", "--out", "runs/shop")
    assert outcome.code == 0 and "all recalls" in outcome.out, outcome.err
    result = json.loads(Path("runs/shop/result.json").read_text())
    assert [row["stage"] for row in result["stages"]] == ["bm25", "popular", "all recalls"]
    assert result["stages"][0]["mrr@10"] > result["stages"][1]["mrr@10"]
    gains = [row["after"] - row["before"] for row in result["moves"]]
    assert gains == sorted(gains, reverse=True) and len(gains) == len({row["query"] for row in result["moves"]})
    page = Path("runs/shop/report.html").read_text()
    assert "all recalls" in page and result["moves"][0]["query"] in page and "<svg" in page
    shown = json.loads(canon("search", "runs/shop", "cake fig", "--top", "2", "--json", "--explain").out)
    assert shown[0]["results"][0]["id"] == "d9" and len(shown[0]["results"]) == 2
    assert "bm25:1" in canon("search", "runs/shop", "cake fig", "--explain").out
    before = {path: path.stat().st_mtime_ns for path in Path("runs/shop/index").iterdir()}
    assert canon("train", "runs/shop", "--resume").code == 0
    assert before == {path: path.stat().st_mtime_ns for path in Path("runs/shop/index").iterdir()}


def test_freshness_counts_from_now(canon: Callable[..., Any], folder: Path) -> None:
    recipe = RECIPE.replace('"popular"\ncolumn = "sold"', '"recent"\ncolumn = "day"')
    more = '[[rerank]]\nname = "freshness"\ncolumn = "day"\nhalf_life = 1.0\nweight = 0.9\n'
    pipeline = built(canon, more, recipe)
    ids = [row["id"] for row in pipeline.search(["bread fig"], 3, now=20_000 * DAY)[0]]
    assert ids == ["d0", "d1", "d2"]
    first = canon("search", "run", "bread fig", "--now", "2024-10-04", "--json").out
    assert json.loads(first)[0]["results"][0]["id"] == "d0"


def test_mistakes_are_sentences(canon: Callable[..., Any], folder: Path) -> None:
    cases = {
        '[[rerank]]\nname = "filter"\nwhen = "prize < 3"\n': 'filter.when: No column "prize"; did you mean price?',
        '[[rerank]]\nname = "cap"\nby = "brand"\n': 'rerank.cap.by: No column "brand"',
        '[[rerank]]\nname = "mnr"\n': "did you mean mmr?",
        '[[rerank]]\nname = "mmr"\nwieght = 0.5\n': "did you mean rerank.mmr.weight?",
        '[[rerank]]\nname = "freshness"\ncolumn = "kind"\n': "column kind of document d0 is 'tea'",
        '[rank]\nfeatures = "all"\n': "[rank] takes either `recipe`, which is trained, or `runs`",
        "[extra]\nx = 1\n": 'No section "extra"',
        '[queries]\nsource = "queries.tsv"\n': "queries.qrels is missing",
        '[[recall]]\nname = "bm25"\nfield = "summary"\n': "recall.bm25.field",
    }
    for number, (more, words) in enumerate(cases.items()):
        Path("shop.toml").write_text(RECIPE + more)
        outcome = canon("train", "shop.toml", "--out", f"bad{number}")
        assert outcome.code == 2 and words in outcome.err, (more, outcome.err)
    Path("none.toml").write_text('recall = []\n[documents]\nsource = "docs.jsonl"\n')
    assert "give at least one recall" in canon("train", "none.toml").err
    built(canon)
    assert "run already exists" in canon("train", "shop.toml", "--out", "run").err
    assert '--now "soon" is not a time' in canon("search", "run", "tea", "--now", "soon").err
    assert "whose recipe says how it searches" in canon("search", "run", "tea", "--method", "bm25").err
    assert "A query is empty" in canon("search", "run", " ", "--text").err


def test_a_recommender_finds_for_users_and_for_items(canon: Callable[..., Any], folder: Path) -> None:
    draw = np.random.default_rng(0)
    events = [f"u{u},d{i}\n" for u in range(12) for i in draw.permutation(20)[:6] if i % 2 == u % 2]
    Path("events.csv").write_text("user,item\n" + "".join(events))
    assert canon("train", "item-knn:tiny", "--data", "events.csv", "--out", "knn", "--quiet").code == 0
    pipeline = built(canon, "", RECIPE + '[[recall]]\nname = "recommender"\nrun = "knn"\ntop = 5\n')
    had = {event.split(",")[1].strip() for event in events if event.startswith("u3,")}
    answers = pipeline.search([PipelineRequest(user="u3")], 20)[0]
    assert answers and not had & {row["id"] for row in answers}
    some = json.loads(canon("recommend", "run", "--items", "d1,d3", "--json").out)[0]
    assert some["how"] == {"recommender": "fold-in"} and not {"d1", "d3"} & {row["id"] for row in some["results"]}
    alone = json.loads(canon("recommend", "knn", "--items", "d1,d3", "--top", "5", "--json").out)["items"]
    recalled = pipeline.answer([PipelineRequest(items=("d1", "d3"))])[0].recalled
    recommended = recalled.candidates.docs[recalled.ranks[:, 2] > 0]
    assert sorted(f"d{doc}" for doc in recommended) == sorted(one["item"] for one in alone)
    new = json.loads(canon("recommend", "run", "--user", "nobody", "--json").out)[0]
    assert new["how"] == {"recommender": "popular"} and new["results"]
    assert pipeline.search(["tea rose"], 1)[0][0]["id"] == "d16"


def test_users_are_queries(canon: Callable[..., Any], folder: Path) -> None:
    """What the recommender's data holds out is to be found; a recommender is trained with the pipeline."""
    draw = np.random.default_rng(0)
    events = [f"u{u},d{i},{t}\n" for u in range(30) for t, i in enumerate(draw.permutation(20)[:8])]
    Path("events.csv").write_text("user,item,time\n" + "".join(events))
    recommender = (
        '[[recall]]\nname = "recommender"\nrecipe = "item-knn:tiny"\nset = { data = { source = "events.csv" } }\n'
    )
    ranker = '[rank]\nrecipe = "lambdamart:tiny"\nfeatures = ["length.whole"]\nset = { train = { steps = 3 } }\n'
    pipeline = built(canon, ranker, '[documents]\nsource = "docs.jsonl"\n[queries]\nusers = true\n' + recommender)
    assert [one.name for one in pipeline.recalls] == ["item-knn-tiny"]
    lines = {
        split: [json.loads(line) for line in Path(f"run/queries/{split}.jsonl").read_text().splitlines()]
        for split in ("train", "valid", "test")
    }
    assert len(lines["train"]) + len(lines["valid"]) == len(lines["test"]) == 30
    own = [event.strip().split(",")[1] for event in events if event.startswith("u3,")]
    last = next(row for row in lines["test"] if row["id"] == "u3")
    before = next(row for row in (*lines["train"], *lines["valid"]) if row["id"] == "u3")
    assert sorted(last["items"]) == sorted(own[:-1]) and last["grades"] == {own[-1][1:]: 1}
    assert sorted(before["items"]) == sorted(own[:-2]) and before["grades"] == {own[-2][1:]: 1}
    stages = json.loads(canon("evaluate", "run", "--json").out)
    alone = json.loads(canon("evaluate", "run/recall/item-knn-tiny/run", "--json").out)
    assert stages[0]["stage"] == "item-knn-tiny" and stages[0]["ndcg@10"] == pytest.approx(alone["ndcg@10"], abs=0.02)
    done = canon("recommend", "run", "--user", "u3")
    assert done.code == 0 and "d" in done.out


def test_nothing_found_is_said(canon: Callable[..., Any], folder: Path) -> None:
    built(canon, "", RECIPE.split('[[recall]]\nname = "popular"')[0])
    done = canon("search", "run", "zebra")
    assert done.code == 0 and "Nothing found for 'zebra'" in done.err
    done = canon("recommend", "run", "--user", "u1")
    assert "no recall of run knows users" in done.err


def test_fields_of_no_candidates() -> None:
    recalled = Recalled(
        Candidates.of([np.empty(0, dtype=np.int64)]), np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2))
    )
    assert recalled.features().shape == (0, 4) and recalled.fused().shape == (0,)
