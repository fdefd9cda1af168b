"""Queries with documents: files of every form are one data set, splits never cut a query, mistakes name their line."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.data.batching.lists import Grades, Lists
from canon.data.checking.check import check
from canon.data.checking.choosing import choose_system
from canon.data.config import DataConfig
from canon.data.encodings import LISTS, Ask
from canon.data.encodings.lists import within_queries
from canon.data.formats.letor import read_letor
from canon.data.kinds import kind_of, open_for
from canon.data.kinds.queries import QUERIES
from canon.data.records import Records
from canon.data.schema import Data, take
from canon.data.targets import Relevance
from canon.errors import CanonError
from canon.tasks.records import TASK_RECORDS

LETOR = """# a comment alone
2 qid:7 1:0.5 2:-1e-2 4:3 # docid = A1 inc = 1
0 qid:7 1:0.25 3:1 # docid = A2 inc = 1
1 qid:9 2:0.125 4:1 # docid = B1

0 qid:9 1:1 # docid = B2
1 qid:9 1:0.75 2:1 # docid = B3
"""
VALUES = [[0.5, -0.01, 0, 3], [0.25, 0, 1, 0], [0, 0.125, 0, 1], [1, 0, 0, 0], [0.75, 1, 0, 0]]


def letor(path: Path, text: str = LETOR) -> Path:
    path.write_text(text)
    return path


def many(path: Path, queries: int = 20, first: int = 1, seed: int = 0, name: str = "D") -> Path:
    draw, lines = np.random.default_rng(seed), []
    for query in range(first, first + queries):
        for document in range(int(draw.integers(2, 6))):
            x = draw.random(3)
            lines.append(
                f"{int(3 * x[0])} qid:{query} 1:{x[0]:.4f} 2:{x[1]:.4f} 3:{x[2]:.4f} # {name}{query}-{document}"
            )
    path.write_text("\n".join(lines) + "\n")
    return path


def fit(path: Path | str, **settings: Any) -> Data:
    config = DataConfig(source=str(path), **settings)
    return LISTS.fit(open_for(LISTS.reads, config), config, Ask((Relevance,)))


def test_lists_are_ragged_columns() -> None:
    lists = Lists.of([np.array([1, 2]), np.array([3]), np.array([], dtype=int), np.array([4, 5, 6])])
    assert len(lists) == 4 and lists.lengths.tolist() == [2, 1, 0, 3] and lists.rows.tolist() == [0, 0, 1, 3, 3, 3]
    assert [row.tolist() for row in lists.take(np.array([3, 2, 0]))] == [[4, 5, 6], [], [1, 2]]
    assert [row.tolist() for row in lists.slice(1, 4)] == [[3], [], [4, 5, 6]]
    batch = lists.batch("input", np.array([3, 1]))
    assert {name: array.tolist() for name, array in batch.items()} == {
        "input": [4, 5, 6, 3],
        "input_lengths": [3, 1],
        "input_items": [3, 4, 5, 2],
    }


def test_pairs_of_unequal_grades() -> None:
    draw = np.random.default_rng(1)
    grades = Grades.of([draw.integers(0, 3, size).astype(float) for size in (0, 1, 5, 9, 2)])
    wanted = [sum(a > b for a in row for b in row) for row in grades]
    assert grades.pairs.tolist() == wanted
    assert grades.batch("target", np.array([3, 0]))["pair_lengths"].tolist() == [wanted[3], 0]


@pytest.mark.parametrize("packed", ["", ".gz", ".xz"])
def test_letor_is_read_as_scikit_learn_reads_svmlight(tmp_path: Path, packed: str) -> None:
    from sklearn.datasets import load_svmlight_file

    plain = many(tmp_path / "plain.txt", 50)
    values, grades, queries = load_svmlight_file(str(plain), query_id=True)
    path = tmp_path / f"a.txt{packed}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packed](plain.read_bytes()))
    rows, notes = read_letor(path)
    assert notes == () and rows.features == ("1", "2", "3")
    assert np.array_equal(rows.values, values.toarray().astype(np.float32))
    assert rows.grades is not None and np.array_equal(rows.grades, grades)
    assert np.repeat(rows.queries, rows.sizes).tolist() == list(map(str, queries))


def test_letor_keeps_documents_and_lines(tmp_path: Path) -> None:
    rows, _ = read_letor(letor(tmp_path / "a.txt"))
    assert rows.values.tolist() == np.array(VALUES, dtype=np.float32).tolist()
    assert rows.documents.tolist() == ["A1", "A2", "B1", "B2", "B3"] and rows.places.tolist() == [2, 3, 4, 6, 7]
    assert rows.queries.tolist() == ["7", "9"] and rows.offsets.tolist() == [0, 2, 5]


def test_features_from_0_and_grades_from_1(tmp_path: Path) -> None:
    data = fit(letor(tmp_path / "a.txt", "1 qid:1 0:5 2:1\n3 qid:1 1:2\n"), valid=0.0, test=0.0, normalize="none")
    assert data.schema.features == ("0", "1", "2") and data.schema.shape == (3,)
    assert data.splits["train"]["target"].values.tolist() == [0, 2] and data.schema.target.sizes() == {"grades": 3}
    assert any("least grade is 1" in note for note in data.notes)


def test_documents_apart_are_brought_together(tmp_path: Path) -> None:
    rows, notes = read_letor(letor(tmp_path / "a.txt", "1 qid:b 1:1\n0 qid:a 1:2\n0 qid:b 1:3\n2 qid:a 1:4\n"))
    assert rows.queries.tolist() == ["b", "a"] and rows.values.ravel().tolist() == [1, 3, 2, 4]
    assert rows.places.tolist() == [1, 3, 2, 4]
    assert notes == ("a.txt: documents of a query are apart (query b goes on in line 3); they were brought together.",)


@pytest.mark.parametrize("side", ["query", "group"])
def test_sizes_of_queries_beside_the_file(tmp_path: Path, side: str) -> None:
    path = letor(tmp_path / "rank.train", "1 1:1\n0 1:2\n0 1:3\n2 1:4\n1 1:5\n")
    (tmp_path / f"rank.train.{side}").write_text("2\n3\n")
    assert kind_of(DataConfig(source=str(path))) is QUERIES
    rows, notes = read_letor(path)
    assert rows.sizes.tolist() == [2, 3] and f"rank.train.{side}" in notes[0]
    (tmp_path / f"rank.train.{side}").write_text("1\n1\n2\n2\n3\n")
    with pytest.raises(CanonError, match="seems to have the query of each document"):
        read_letor(path)


def test_files_beside_are_not_said_to_be_ignored(tmp_path: Path) -> None:
    for part in ("train", "test"):
        letor(tmp_path / f"rank.{part}", "1 1:1\n0 1:2\n")
        (tmp_path / f"rank.{part}.query").write_text("2\n")
    (tmp_path / "rank.train.weight").write_text("1\n1\n")
    (tmp_path / "other.query").write_text("2\n")
    notes = QUERIES.read(tmp_path, DataConfig(source=str(tmp_path))).notes
    assert [note for note in notes if "Ignored" in note] == [f"Ignored in {tmp_path.name}: other.query."]
    assert any("how many documents each query has" in note for note in notes)


def tables(folder: Path) -> list[Path]:
    """The same documents as CSV, JSON lines and Parquet, in another order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    order = [3, 0, 4, 2, 1]
    grades, queries, documents = [2, 0, 1, 0, 1], [7, 7, 9, 9, 9], ["A1", "A2", "B1", "B2", "B3"]
    columns: dict[str, list[Any]] = {
        "docid": [documents[i] for i in order],
        "relevance": [grades[i] for i in order],
        "qid": [queries[i] for i in order],
        **{str(f + 1): [VALUES[i][f] for i in order] for f in range(4)},
    }
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    csv = "\n".join([",".join(columns), *(",".join(map(str, row.values())) for row in rows)]) + "\n"
    (folder / "a.csv").write_text(csv)
    import json

    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return [folder / name for name in ("a.csv", "a.jsonl", "a.parquet")]


def test_three_forms_are_one_data_set(tmp_path: Path) -> None:
    wanted = read_letor(letor(tmp_path / "a.txt"))[0]
    for path in tables(tmp_path):
        assert QUERIES.sniff_table(path, DataConfig(source=str(path)))
        rows = QUERIES.read(path, DataConfig(source=str(path))).parts["train"]
        for query, name in enumerate(rows.queries.tolist()):
            own, other = (
                {
                    document: (values.tolist(), grade)
                    for document, values, grade in zip(
                        part.documents[part.offsets[place] : part.offsets[place + 1]],
                        part.values[part.offsets[place] : part.offsets[place + 1]],
                        part.grades[part.offsets[place] : part.offsets[place + 1]].tolist(),
                        strict=True,
                    )
                }
                for part, place in ((rows, query), (wanted, wanted.queries.tolist().index(name)))
            )
            assert own == other


def test_partitions_of_a_table_are_one(tmp_path: Path) -> None:
    """As DuckDB and Spark write them; a query may be in several."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"qid": [1, 1, 2, 2, 3, 3], "relevance": [0, 1] * 3, "x": [0.1, 0.9, 0.2, 0.8, 0.3, 0.7]})
    for part, rows in enumerate(([0, 2, 1], [3, 4, 5])):
        (tmp_path / "log" / f"part={part}").mkdir(parents=True)
        pq.write_table(table.take(rows), tmp_path / "log" / f"part={part}" / "data_0.parquet")
    source = QUERIES.read(tmp_path / "log", DataConfig(source=str(tmp_path / "log")))
    rows = source.parts["train"]
    assert sum("are apart" in note for note in source.notes) == 1  # of the whole, not of each partition
    assert kind_of(DataConfig(source=str(tmp_path / "log"))) is QUERIES
    read = {q: (v.ravel().tolist(), g) for q, v, g in zip(
        rows.queries.tolist(), np.split(rows.values, rows.offsets[1:-1]),
        [g.tolist() for g in np.split(rows.grades, rows.offsets[1:-1])], strict=True,
    )}  # fmt: skip
    wanted = {"1": ([0.1, 0.9], [0, 1]), "2": ([0.2, 0.8], [0, 1]), "3": ([0.3, 0.7], [0, 1])}
    assert {q: (pytest.approx(v), g) for q, (v, g) in wanted.items()} == read
    pq.write_table(table.rename_columns(["qid", "relevance", "y"]), tmp_path / "log" / "part=1" / "data_0.parquet")
    with pytest.raises(CanonError, match="has other columns of numbers"):
        fit(tmp_path / "log")


def test_a_column_of_queries_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,stars,x\nann,1,0.5\nbob,0,0.1\nann,0,0.2\nbob,2,0.4\n")
    assert not QUERIES.sniff_table(path, DataConfig(source=str(path)))
    for query, message in (("whom", 'no column "whom" .*did you mean who'), ("who", "has no column of grades")):
        named = DataConfig(source=str(path), query=query)  # which makes it no other table
        assert kind_of(named) is QUERIES
        with pytest.raises(CanonError, match=message):
            QUERIES.read(path, named)
    config = DataConfig(source=str(path), query="who", label="stars")
    assert QUERIES.sniff_table(path, config)
    assert QUERIES.read(path, config).parts["train"].queries.tolist() == ["ann", "bob"]
    schema = fit(path, query="who", label="stars", valid=0.0, test=0.0).schema
    (tmp_path / "b.csv").write_text("x,who\n0.5,eve\n0.1,eve\n")
    columns, names = LISTS.inputs(schema, [str(tmp_path / "b.csv")], config, False)
    assert names == ["query eve"] and "target" not in columns
    rows = Records.of_dicts([{"who": "eve", "x": 0.5}, {"who": "ann", "x": 0.25}])
    assert LISTS.inputs(schema, [rows], config, False)[1] == ["query eve", "query ann"]


def test_columns_may_have_chinese_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("查询编号,文档,相关性,特征\n问一,甲,1,0.5\n问二,乙,0,0.1\n问一,丙,0,0.2\n", "utf-8")
    rows = QUERIES.read(path, config := DataConfig(source=str(path))).parts["train"]
    assert kind_of(config) is QUERIES and rows.features == ("特征",)
    assert rows.queries.tolist() == ["问一", "问二"] and rows.documents.tolist() == ["甲", "丙", "乙"]


def test_parts_of_tables_have_the_same_features(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("qid,relevance,x,y\n1,1,0.5,1\n1,0,0.1,2\n")
    (tmp_path / "test.csv").write_text("qid,relevance,x\n2,1,0.5\n2,0,0.1\n")
    with pytest.raises(CanonError, match=r'test\.csv has no column "y" of numbers'):
        fit(tmp_path)


def test_splits_never_cut_a_query(tmp_path: Path) -> None:
    data = fit(many(tmp_path / "a.txt", 40), valid=0.2, test=0.1)
    names = {name: set(columns["query"].tolist()) for name, columns in data.splits.items()}
    assert [len(names[name]) for name in ("train", "valid", "test")] == [29, 7, 4]
    assert len(names["train"] | names["valid"] | names["test"]) == 40


def test_parts_of_a_folder_folds_and_pieces(tmp_path: Path) -> None:
    for fold in (1, 2):
        (tmp_path / "set" / f"Fold{fold}").mkdir(parents=True)
        for place, part in enumerate(("train", "vali", "test")):
            many(tmp_path / "set" / f"Fold{fold}" / f"{part}.txt", 3 + fold, 1 + 100 * place, 10 * fold + place)
    data = fit(tmp_path / "set", fold=2)
    assert data.protocol["sizes"] == {"train": 5, "valid": 5, "test": 5}
    with pytest.raises(CanonError, match=r"no folder for data\.fold = 3; its folds: 1, 2"):
        fit(tmp_path / "set", fold=3)
    (tmp_path / "pieces").mkdir()
    for piece in range(1, 6):
        many(tmp_path / "pieces" / f"S{piece}.txt", piece, 100 * piece, piece)
    for fold, wanted in {1: ([1, 2, 3], 4, 5), 3: ([3, 4, 5], 1, 2)}.items():
        splits = fit(tmp_path / "pieces", fold=fold).splits
        assert {int(q) // 100 for q in splits["train"]["query"]} == set(wanted[0])
        assert {int(q) // 100 for q in splits["valid"]["query"]} == {wanted[1]}
        assert {int(q) // 100 for q in splits["test"]["query"]} == {wanted[2]}


@pytest.mark.parametrize("how", ["query-minmax", "query-z", "train-z", "none"])
def test_features_are_scaled(tmp_path: Path, how: str) -> None:
    path = letor(tmp_path / "a.txt", LETOR + "0 qid:11 1:5 2:0.3\n")
    data = fit(path, valid=0.0, test=0.0, normalize=how)
    x = np.array([*VALUES, [5, 0.3, 0, 0]])
    wanted = x.copy()
    groups = [slice(0, 2), slice(2, 5), slice(5, 6)] if how.startswith("query") else [slice(0, 6)]
    for rows in groups if how != "none" else []:
        middle = x[rows].min(0) if how == "query-minmax" else x[rows].mean(0)
        width = np.ptp(x[rows], axis=0) if how == "query-minmax" else x[rows].std(0)
        wanted[rows] = np.where(np.ptp(x[rows], axis=0) > 0, (x[rows] - middle) / np.where(width > 0, width, 1), 0)
    assert data.splits["train"]["input"].values == pytest.approx(wanted, abs=1e-6)


def test_a_query_alone_is_scaled_to_zeros() -> None:
    assert within_queries(np.ones((3, 2), dtype=np.float32), np.array([0, 3]), minmax=False).tolist() == [[0, 0]] * 3


def test_a_run_reads_more_of_its_data(tmp_path: Path) -> None:
    schema = fit(many(tmp_path / "a.txt"), valid=0.0, test=0.0).schema
    config = DataConfig(source=str(tmp_path / "a.txt"))
    columns, names = LISTS.inputs(
        schema, [str(letor(tmp_path / "b.txt", "0 qid:x 1:0.5 3:1\n0 qid:y 2:1\n"))], config, False
    )
    assert names == ["query x", "query y"] and columns["input"].lengths.tolist() == [1, 1]
    mean, std = np.array(schema.mean), np.array(schema.std)
    assert columns["input"].values == pytest.approx((np.array([[0.5, 0, 1], [0, 1, 0]]) - mean) / std, abs=1e-5)
    assert take(columns, np.array([1]))["document"][0].tolist() == [""]
    with pytest.raises(CanonError, match="has the feature 4, but the training data has 3"):
        LISTS.inputs(schema, [str(letor(tmp_path / "c.txt", "0 qid:x 4:0.5\n"))], config, False)
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"qid": ["x", "y"], "1": [0.5, 0], "2": [0, 1], "3": [1, 0]}), tmp_path / "b.parquet")
    same, _ = LISTS.inputs(schema, [str(tmp_path / "b.parquet")], config, False)
    assert same["input"].values == pytest.approx(columns["input"].values)
    inputs = LISTS.array(schema, np.zeros((7, 3)), config)
    assert inputs is not None and inputs[0]["input"].lengths.tolist() == [7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x qid:1 1:1\n", 'line 1: the label "x" is not a grade'),
        ("0 qid:1 1:1\n-1 qid:1 1:2\n", 'line 2: the label "-1" is not a grade'),
        ("0 qid:1 1:1\nnan qid:1 1:2\n", 'line 2: the label "nan" is not a grade'),
        ("0 qid:1 1:1\n1 1:2\n", "line 2: no qid"),
        ("0 qid:1 1:1 b:2\n", 'line 1: "b:2" is not a feature'),
        ("0 qid:1 1:1 2\n", 'line 1: "2" is not a feature'),
        ("0 qid:1 1:1 1:2\n", "line 1: feature 1 comes twice"),
        ("0 qid:1 1:1 -2:2\n", 'line 1: "-2:2" is not a feature'),
        ("0 qid:1 1:1\n\n1 qid:1 2:nan\n", "line 3: a feature is not a finite number"),
        ("0 qid:1\n1 qid:1\n", "no document has a feature"),
        ("# nothing\n", "has no documents"),
        ("0 qid:1 1:1\n0 qid:1 1:2\n1 qid:2 1:2\n", "no query has documents of different grades"),
        ("0 qid:1 1:1 # D1\n1 qid:1 1:2 # D1\n", "line 2: document D1 of query 1 has the grade 1, and 0 in line 1"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CanonError, match=message):
        fit(letor(tmp_path / "a.txt", text), format="letor", valid=0.0, test=0.0)


def test_a_query_of_training_must_not_be_tested_on(tmp_path: Path) -> None:
    many(tmp_path / "train.txt")
    many(tmp_path / "test.txt", 3)
    with pytest.raises(CanonError, match=r"test\.txt, line 1: query 1 is in the training part too"):
        fit(tmp_path)
    many(tmp_path / "test.txt", 3, seed=5)
    with pytest.raises(CanonError, match=r"test\.txt, line 1: query 1 is in the training part too"):  # by documents
        fit(tmp_path)
    many(tmp_path / "test.txt", 3, seed=5, name="E")
    assert any("but no document is in both: they are taken for others" in note for note in fit(tmp_path).notes)


def test_a_query_must_not_be_cut_by_the_parts(tmp_path: Path) -> None:
    lines = many(tmp_path / "all.txt").read_text().splitlines()
    lines = [line.partition(" #")[0] for line in lines]
    cut = lines.index(next(line for line in lines if "qid:18 " in line)) + 1
    (tmp_path / "set").mkdir()
    for name, own in (("train", lines[:cut]), ("test", lines[cut:])):  # no document is in both, which cannot be seen
        letor(tmp_path / "set" / f"{name}.txt", "\n".join(own) + "\n")
    fit(tmp_path / "set")
    letor(tmp_path / "set" / "test.txt", "\n".join(lines[cut - 1 :]) + "\n")
    with pytest.raises(CanonError, match=r"test\.txt, line 1: query 18 is in the training part too"):
        fit(tmp_path / "set")


def test_common_features_are_no_shared_document(tmp_path: Path) -> None:
    for name in ("train", "test"):
        letor(tmp_path / f"{name}.txt", "".join(f"{n % 2} qid:{n // 2} 1:{n % 2} 2:1\n" for n in range(20)))
    assert any("but no document is in both: they are taken for others" in note for note in fit(tmp_path).notes)


@pytest.mark.parametrize("wrong", ["x qid:3 1:1", "1 qid:3 1:b", "1 1:0.5", "hello"])
def test_a_wrong_line_leaves_a_file_queries(tmp_path: Path, wrong: str) -> None:
    lines = many(tmp_path / "a.txt").read_text().splitlines()
    path = letor(tmp_path / "a.txt", "\n".join([*lines[:5], wrong, *lines[5:]]) + "\n")
    config = DataConfig(source=str(path))
    assert kind_of(config) is QUERIES
    with pytest.raises(CanonError, match=r"a\.txt, line 6"):
        fit(path)


@pytest.mark.parametrize("side", ["weight", "position"])
def test_files_of_documents_beside_are_counted(tmp_path: Path, side: str) -> None:
    path = letor(tmp_path / "a.txt")
    (tmp_path / f"a.txt.{side}").write_text("1\n" * 5)
    assert any(f"a.txt.{side} is not used" in note for note in fit(path, valid=0.0, test=0.0).notes)
    (tmp_path / f"a.txt.{side}").write_text("1\n" * 4)
    with pytest.raises(CanonError, match="has 4 lines, but the data has 5 documents"):
        read_letor(path)


@pytest.mark.parametrize(
    ("grades", "said"),
    [("11", "there is no order to learn"), ("0 31", "from 0 to 30, not 31"), ("0 1.5", "from 0 to 30, not 1.5")],
)
def test_check_says_what_training_would(tmp_path: Path, grades: str, said: str) -> None:
    least, most = grades.split() if " " in grades else grades
    path = letor(tmp_path / "a.txt", "".join(f"{[least, most][n % 2]} qid:{n // 4} 1:{n}\n" for n in range(40)))
    report = check(DataConfig(source=str(path)), lambda task: TASK_RECORDS[task].targets)
    assert any(said in text for text in (*report.notes, *report.warnings))


def test_a_table_with_a_column_of_queries_is_nothing_else(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.csv", [f"{n // 4},d{n},{n % 2},{n / 7},{n % 3}" for n in range(40)]
    path.write_text("\n".join(["qid,doc,relevance,f1,f2", *rows]) + "\n")
    config = DataConfig(source=str(path))
    report = check(config, lambda task: TASK_RECORDS[task].targets)
    assert kind_of(config) is QUERIES and report.first == "mlp-ranker"
    assert not any("last column" in note for note in report.notes)
    rows[7] = "1,d7,1,nan,0"
    path.write_text("\n".join(["qid,doc,relevance,f1,f2", *rows]) + "\n")
    with pytest.raises(CanonError, match=r'line 9: the feature "f1" is missing; give every document a number'):
        choose_system(config, lambda task: TASK_RECORDS[task].targets)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qid,relevance,x\n1,0,0.5\n1,1,\n", 'line 3: the feature "x" is missing; give every document a number'),
        ("qid,relevance,x\n1,0,0.5\n1,-1,1\n", "line 3: the label .* must be a grade from 0 on"),
        (
            "qid,relevance,x\n" + "1,0,0.5\n" * 40 + "1,1,many\n",
            'line 42: the feature "x" must be a number, got "many"',
        ),
        ("qid,relevance,name\n1,0,a\n1,1,b\n", "has no column of numbers"),
        ("qid,colour,x\n1,0,1\n1,1,2\n", "has no column of grades"),
        ("who,relevance,x\n1,0,1\n1,1,2\n", "has no column that names the query"),
    ],
)
def test_a_bad_table_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    config = DataConfig(source=str(tmp_path / "a.csv"))
    with pytest.raises(CanonError, match=message):
        QUERIES.read(tmp_path / "a.csv", config)
