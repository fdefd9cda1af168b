"""The kind of clicks and the encoding of fields: files against scikit-learn's reader, splits, rows by hand."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from canon.data.checking.choosing import choose_system
from canon.data.config import DataConfig
from canon.data.encodings import FIELDS
from canon.data.encodings.base import Ask
from canon.data.encodings.field_columns import (
    FIRST,
    MISSING,
    UNSEEN,
    BucketField,
    CategoryField,
    NumberField,
    SeveralField,
    SquaredLogField,
)
from canon.data.encodings.fields import FieldSchema
from canon.data.formats.feature_lines import read_lines
from canon.data.formats.tables import Table
from canon.data.kinds import kind_of
from canon.data.kinds.clicks import CLICKS
from canon.data.kinds.table import TABLE
from canon.data.records import Records
from canon.data.schema import Data, Schema
from canon.data.targets import Class
from canon.errors import CanonError
from canon.tasks.records import TASK_RECORDS

Canon = Callable[..., Any]


def fitted(path: Path, **more: Any) -> Data:
    config = DataConfig(source=str(path), **more)
    return FIELDS.fit(CLICKS.source(config), config, Ask((Class,)))


def table(path: Path, **columns: list[Any]) -> Path:
    rows = 120
    draw = np.random.default_rng(0)
    cells: dict[str, list[Any]] = {
        "user": [f"u{n % 11}" for n in range(rows)],
        "hour": draw.integers(0, 24, rows).tolist(),
        "price": [f"{value:.2f}" for value in draw.lognormal(2, 1, rows)],
        "click": draw.integers(0, 2, rows).tolist(),
        **columns,
    }
    lines = [",".join(map(str, row)) for row in zip(*cells.values(), strict=True)]
    path.write_text("\n".join([",".join(cells), *lines, ""]))
    return path


# ---- files


def random_lines(path: Path, fields: bool = False) -> Path:
    draw, lines = np.random.default_rng(0), []
    for number in range(300):
        chosen = np.sort(draw.choice(np.arange(1, 50), draw.integers(0 if number else 1, 9), replace=False))
        own = [f"{'3:' if fields else ''}{i}:{draw.normal():.4g}" for i in chosen]
        lines.append(" ".join([str(draw.integers(0, 2)), *own]) + (" # note 9:9" if number % 7 == 0 else ""))
        lines += [""] * (number % 50 == 0)
    path.write_text("\n".join(lines))
    return path


def test_lines_are_those_of_scikit_learn(tmp_path: Path) -> None:
    path = random_lines(tmp_path / "a.svm")
    ours, (matrix, labels) = read_lines(path, ""), load_svmlight_file(str(path), zero_based=True)
    np.testing.assert_array_equal(ours.labels, labels)
    np.testing.assert_array_equal(ours.offsets, matrix.indptr)
    np.testing.assert_array_equal(ours.features, matrix.indices)
    np.testing.assert_array_equal(ours.values, matrix.data.astype(np.float32))


def test_fields_and_compression_change_nothing_else(tmp_path: Path) -> None:
    plain, fields = read_lines(random_lines(tmp_path / "a.svm"), ""), random_lines(tmp_path / "a.ffm", fields=True)
    packed = tmp_path / "b.ffm.gz"
    packed.write_bytes(gzip.compress(fields.read_bytes()))
    for lines in (read_lines(fields, ""), read_lines(packed, "")):
        assert lines.fields is not None and set(lines.fields.tolist()) == {3}
        np.testing.assert_array_equal(lines.features, plain.features)
        np.testing.assert_array_equal(lines.offsets, plain.offsets)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2:1\n0 3:x\n", r'line 2: "3:x" is not number:value'),
        ("1 2:1\n\n# all\nyes 3:1\n", r'line 4: the label "yes" is not a number'),
        ("1 2:1 7\n", r'line 1: "7" is not number:value'),
        ("1 2:1\n0 -3:1\n", r'line 2: "-3:1" is not number:value'),
        ("1 2:nan\n", r'line 1: "2:nan"'),
        ("1 0:2:1\n0 3:1\n", r'line 2: "3:1" is not field:number:value'),
        ("1 2:1e99\n", "line 1: a number is too large"),
        ("1\n0\n", "no line has a feature"),
        ("\n", "is empty"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.svm").write_text(text)
    with pytest.raises(CanonError, match=message):
        read_lines(tmp_path / "a.svm", "")


def test_which_files_are_clicks(tmp_path: Path) -> None:
    criteo = "\t".join(["1", *["3"] * 13, *["68fd1e64"] * 26])
    files = {
        "a.libfm": "1 3:1 7:1\n-1 4:1 7:1\n",
        "b.txt": "1 0:3:1 1:7:0.5\n0 0:4:1\n",
        "c.tsv": f"{criteo}\n{criteo.replace('1', '0', 1)}\n",
        "d.csv": "ad,hour,is_click\na,3,0\nb,4,1\na,4,0\n",
        "h.csv": "ad,hour,click\n" + "a,3,0\nb,4,1\n" * 20 + "a,4,maybe\n",
        "e.jsonl": '{"ad": "a", "clicked": true}\n{"ad": "b", "clicked": false}\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert kind_of(DataConfig(source=str(tmp_path / name))) is CLICKS, name
    others = {
        "f.csv": "ad,hour,label\na,3,0\nb,4,1\n",
        "g.csv": "ad,hour,ctr\n" + "".join(f"a,{n},0.{n}\n" for n in range(10, 30)),
    }
    for name, text in others.items():
        (tmp_path / name).write_text(text)
        assert kind_of(DataConfig(source=str(tmp_path / name))) is TABLE, name


# ---- fields


def test_rows_of_fields_by_hand() -> None:
    rows = Table("t", {"a": np.array(["x", "", "new", "y"], object), "n": np.array(["1", "", "30", "?"], object)})
    assert CategoryField("a", ("y", "x")).apply(rows).rows[:, 0].tolist() == [FIRST + 1, MISSING, UNSEEN, FIRST]
    buckets = BucketField("n", edges=(1.0, 8.0)).apply(rows).rows[:, 0].tolist()
    assert buckets == [FIRST, MISSING, FIRST + 2, MISSING]
    # ⌊ln² 30⌋ = ⌊11.57⌋ = 11; 1 is itself, level 1 − 3
    assert SquaredLogField("n", (-2, 11)).apply(rows).rows[:, 0].tolist() == [FIRST, MISSING, FIRST + 1, MISSING]
    encoded = NumberField("n", mean=10.0, std=5.0).apply(rows)
    assert encoded.weights is not None
    np.testing.assert_allclose(encoded.weights[:, 0], [-1.8, 1, 4, 1])
    several = SeveralField("a", values=("x", "y"), separator="|", width=2)
    encoded = several.apply(Table("t", {"a": np.array(["x|y", "y", ""], object)}))
    assert encoded.weights is not None and encoded.rows.tolist() == [[2, 3], [3, 0], [1, 0]]
    assert encoded.weights.tolist() == [[0.5, 0.5], [1, 0], [1, 0]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", ["2020-09-{:02}T12:00:00+00:00", "2020/9/{} 12:00", "{:02}.09.2020", "2020年9月{}日"])
def test_dates_of_every_form_are_times(tmp_path: Path, form: str) -> None:
    dates = [form.format(1 + n // 6) for n in range(120)]
    data = fitted(table(tmp_path / "a.csv", time=dates))
    assert data.protocol["split"]["test"] == "the last 0.1 by time"
    dates[70] = "soon"
    with pytest.raises(CanonError, match='line 72: the time "soon" is neither a number nor a date'):
        fitted(table(tmp_path / "b.csv", time=dates), time="time")


def test_hours_of_the_day_are_no_times(tmp_path: Path) -> None:
    data = fitted(table(tmp_path / "a.csv", time=[f"{n % 24:02}:30" for n in range(120)]))
    assert "by time" not in data.protocol["split"]["test"]


def test_columns_may_have_chinese_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "用户,广告,时间,点击\n" + "".join(f"u{n % 9},a{n % 7},{2 * 10**9 + n},{n % 2}\n" for n in range(90)),
        "utf-8",
    )
    source = CLICKS.read(path, config := DataConfig(source=str(path)))
    assert kind_of(config) is CLICKS and (source.label, source.user, source.time) == ("点击", "用户", "时间")


def test_vocabularies_are_of_the_training_rows(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", ad=["common"] * 100 + ["late"] * 20, time=[1_600_000_000 + n for n in range(120)])
    data = fitted(path)
    assert data.protocol["split"]["test"] == "the last 0.1 by time"
    ad = next(column for column in data.schema.columns if column.name == "ad")  # type: ignore[attr-defined]
    assert ad.values == ("common",)
    place = [column.name for column in data.schema.columns].index("ad")  # type: ignore[attr-defined]
    offset = data.schema.offsets[place]  # type: ignore[attr-defined]
    assert set(np.asarray(data.splits["test"]["input"])[:, place].tolist()) == {offset + UNSEEN}


def test_rare_values_share_a_row(tmp_path: Path) -> None:
    data = fitted(table(tmp_path / "a.csv", ad=["a", "b"] * 59 + ["c", "d"]), min_count=3, valid=0.0, test=0.0)
    assert next(column for column in data.schema.columns if column.name == "ad").values == ("a", "b")  # type: ignore[attr-defined]


def test_hashing_shares_rows_and_counts_collisions(tmp_path: Path) -> None:
    data = fitted(table(tmp_path / "a.csv", ad=[f"a{n % 40}" for n in range(120)]), hash_bits=4, seed=3)
    rows = np.asarray(data.splits["train"]["input"])
    assert rows[:, 0].max() < 16 and rows[:, -1].max() < 16
    assert any("values into 16 rows" in note and "collide" in note for note in data.notes)


def test_crosses_tell_pairs_apart(tmp_path: Path) -> None:
    data = fitted(table(tmp_path / "a.csv"), crosses=(("user", "hour"),), valid=0.0, test=0.0)
    crossed, rows = np.asarray(data.splits["train"]["crosses"])[:, 0], np.asarray(data.splits["train"]["input"])
    pairs = list(map(tuple, rows[:, :2].tolist()))
    by_pair = dict(zip(pairs, crossed.tolist(), strict=True))
    assert len({*by_pair.values()}) == len({*pairs})
    assert [by_pair[pair] for pair in pairs] == crossed.tolist()


def test_a_schema_reads_back_as_itself(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", tags=["x|y", "x", "y|z"] * 40)
    data = fitted(path, crosses=(("user", "hour"),))
    folder = tmp_path / "run" / "vocab"
    folder.mkdir(parents=True)
    for name, text in data.schema.files().items():
        (folder / name).write_text(text)
    again = Schema.open(folder)
    assert again == data.schema
    source = CLICKS.source(DataConfig(source=str(path)))
    for name, column in data.schema.encode(source.parts["train"]).items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(column, again.encode(source.parts["train"])[name])  # type: ignore[attr-defined]


def test_rows_of_a_program_are_those_of_a_file(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv")
    data = fitted(path)
    config = DataConfig(source=str(path))
    assert isinstance(data.schema, FieldSchema)
    of_file, _ = FIELDS.inputs(data.schema, [str(path)], config, False)
    lines = [line.split(",") for line in path.read_text().splitlines()]
    rows = [dict(zip(lines[0], cells, strict=True)) for cells in lines[1:]]
    of_rows, _ = FIELDS.inputs(data.schema, [Records.of_dicts(rows)], config, False)
    np.testing.assert_array_equal(of_file["input"], of_rows["input"])


# ---- splits


def test_clicks_of_one_class_are_nothing_else(tmp_path: Path) -> None:
    config = DataConfig(source=str(table(tmp_path / "a.csv", click=[0] * 120)))
    with pytest.raises(CanonError, match='every row has the label "0"; clicks and other rows are needed'):
        choose_system(config, lambda task: TASK_RECORDS[task].targets)


def test_a_wrong_line_leaves_a_file_of_clicks(tmp_path: Path) -> None:
    path = tmp_path / "a.libfm"
    path.write_text("1 1:1 5:1\n0 2:1 6:1\n" * 10 + "x 1:1\n" + "1 1:1 6:1\n" * 10)
    assert kind_of(DataConfig(source=str(path))) is CLICKS
    with pytest.raises(CanonError, match=r'a\.libfm, line 21: the label "x" is not a number'):
        fitted(path)


def test_users_are_whole(tmp_path: Path) -> None:
    data = fitted(table(tmp_path / "a.csv"), split="user", test=0.2, valid=0.2)
    users = [set(np.asarray(columns["user"]).tolist()) for columns in data.splits.values()]
    assert len(users) == 3 and not users[0] & users[1] and not users[0] & users[2] and not users[1] & users[2]


def test_tenths_are_a_partition(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", price=list(range(120)))
    seen: list[int] = []
    for tenth in range(10):
        data = fitted(path, tenth=tenth, numbers="z")
        part = np.asarray(data.splits["test"]["weights"])[:, 2]
        column = data.schema.columns[2]  # type: ignore[attr-defined]
        seen += np.rint(part * column.std + column.mean).astype(int).tolist()
        assert {name: len(columns["target"]) for name, columns in data.splits.items()} == {
            "train": 97, "valid": 11, "test": 12,
        }  # fmt: skip
    assert sorted(seen) == list(range(120))


# ---- mistakes


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ({"click": [0] * 120}, {}, 'every row has the label "0"'),
        ({"click": [0, 1, 2] * 40}, {"label": "click"}, 'the label "click" has 3 different values'),
        ({"click": [0, 1] * 59 + [0, "maybe"]}, {}, 'line 121: label "maybe" is not one of 0, 1'),
        ({"click": [0, 1, ""] * 40}, {}, r"line 4: the label .* is empty"),
        ({}, {"split": "time"}, r"no column of times for data\.split = time"),
        ({}, {"split": "week"}, "week"),
        ({}, {"crosses": (("user", "house"),)}, "house"),
        ({}, {"features": ("click",)}, "is the label"),
        ({"price": ["1e999"] * 120}, {"numeric": ("price",)}, r"line 2: the number .* is not finite"),
        ({"time": [1_600_000_000] * 119 + [1_600_000_000_000]}, {}, r"line 121: the time .* is in milliseconds"),
        ({}, {"positive": ">= high"}, "compar.* number"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, columns: dict[str, list[Any]], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(CanonError, match=message):
        fitted(table(tmp_path / "a.csv", **columns), **more)


def test_a_strange_label_of_a_line_is_named(tmp_path: Path) -> None:
    lines = [f"{n % 2} 0:{n % 5}:1" for n in range(100)]
    lines[20] = "-1 0:3:1"
    (tmp_path / "a.ffm").write_text("\n".join(lines))
    with pytest.raises(CanonError, match='line 21: label "-1" is not one of 0, 1'):
        fitted(tmp_path / "a.ffm")


def test_a_field_that_is_different_in_every_row_is_left_out(tmp_path: Path) -> None:
    data = fitted(table(tmp_path / "a.csv", key=[f"k{n}" for n in range(120)]))
    assert 'Left out, since almost every row has another value: "key".' in data.notes


def test_a_rating_can_be_a_click(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("userId,movieId,rating\n" + "".join(f"{n % 9},{n % 7},{1 + n % 5}\n" for n in range(90)))
    data = fitted(path, positive=">= 4")
    assert data.schema.classes == ("no", "yes") and data.schema.target.label == "rating"
