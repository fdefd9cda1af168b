"""Files of interactions: every usual form is the same data, and what is wrong is a sentence with file and line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canon.data.config import DataConfig
from canon.data.kinds import kind_of
from canon.data.kinds.interactions import INTERACTIONS, InteractionSource
from canon.errors import CanonError

pa = pytest.importorskip("pyarrow")

START = 978_300_000


def rows(count: int = 60) -> list[tuple[int, int, int, int]]:
    random = np.random.default_rng(0)
    order = random.permutation(count)
    return [(n % 7 + 1, (n * 5) % 23 + 1, n % 5 + 1, START + int(order[n])) for n in range(count)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def opened(path: Path, **settings: Any) -> InteractionSource:
    config = DataConfig(source=str(path), **settings)
    assert settings.get("format") or kind_of(config) is INTERACTIONS
    source = INTERACTIONS.source(config)
    assert isinstance(source, InteractionSource)
    return source


def by_ids(source: InteractionSource) -> list[tuple[str, str, float | None, float | None]]:
    """Each interaction by its ids, in any order."""
    part = source.parts["train"]
    ratings, times = ([None] * len(part) if each is None else each.tolist() for each in (part.ratings, part.times))
    users, items = (
        [names[code] for code in codes] for names, codes in ((source.users, part.users), (source.items, part.items))
    )
    return sorted(zip(users, items, ratings, times, strict=True))


def forms(folder: Path) -> dict[str, Path]:
    data = rows()
    header, other = "user_id,item_id,rating,timestamp", "timestamp\trating\tmovieId\tuserId"
    files = {
        "csv": write(folder / "a.csv", [header, *(",".join(map(str, row)) for row in data)]),
        "tsv, other order": write(folder / "b.tsv", [other, *("\t".join(map(str, row[::-1])) for row in data)]),
        "no header": write(folder / "u.data", ["\t".join(map(str, row)) for row in data]),
        "colons": write(folder / "ratings.dat", ["::".join(map(str, row)) for row in data]),
        "recbole": write(
            folder / "c.inter",
            [
                "user_id:token\titem_id:token\trating:float\ttimestamp:float",
                *("\t".join(map(str, row)) for row in data),
            ],
        ),
        "jsonl": write(
            folder / "d.jsonl",
            [
                json.dumps(
                    {"reviewerID": str(u), "asin": str(i), "overall": float(r), "unixReviewTime": t, "helpful": 1}
                )
                for u, i, r, t in data
            ],
        ),
        "jsonl with numbers": write(
            folder / "l.jsonl",
            [json.dumps({"user": u, "item": str(i), "rating": r, "time": str(t)}) for u, i, r, t in data],
        ),
        "milliseconds": write(folder / "e.csv", [header, *(f"{u},{i},{r},{t}000" for u, i, r, t in data)]),
        "ts": write(folder / "j.csv", ["customer,product,stars,ts", *(",".join(map(str, row)) for row in data)]),
        "created_at": write(
            folder / "k.csv", ["user_id,item_id,rating,created_at", *(",".join(map(str, row)) for row in data)]
        ),
        "dates": write(
            folder / "f.csv",
            ["user,item,rating,date", *(f"{u},{i},{r},{np.datetime64(t, 's')}Z" for u, i, r, t in data)],
        ),
        "shuffled": write(folder / "g.csv", [header, *(",".join(map(str, row)) for row in data[::-1])]),
    }
    files["gz"] = folder / "h.csv.gz"
    files["gz"].write_bytes(gzip.compress(files["csv"].read_bytes()))
    import pyarrow.parquet as parquet

    names = header.split(",")
    files["parquet"] = folder / "i.parquet"
    parquet.write_table(
        pa.table({name: list(c) for name, c in zip(names, zip(*data, strict=True), strict=True)}), files["parquet"]
    )
    return files


def test_every_form_is_the_same_data(tmp_path: Path) -> None:
    wanted = sorted((str(u), str(i), float(r), float(t)) for u, i, r, t in rows())
    for name, path in forms(tmp_path).items():
        source = opened(path, format="interactions" if name == "jsonl" else "auto")
        assert by_ids(source) == wanted, name
        assert source.users == [str(n) for n in range(1, 8)], name  # whole numbers by size
        assert source.items == sorted((str(n) for n in {i for _, i, _, _ in rows()}), key=int), name


def test_columns_are_chosen_by_name_or_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["who,bought,paid,note", *(f"p{n % 5},x{n % 9},{n},z" for n in range(40))])
    source = opened(path, format="interactions", user="who", item="2", rating="paid")
    assert source.users == [f"p{n}" for n in range(5)] and source.items == [f"x{n}" for n in range(9)]
    assert source.parts["train"].ratings.tolist() == list(range(40))
    assert any('user is "who"' in note and 'not read: "note"' in note for note in source.notes)
    with pytest.raises(CanonError, match=r'data\.item: no column "bough" in .*did you mean bought'):
        opened(path, format="interactions", user="who", item="bough")
    with pytest.raises(CanonError, match=r"no column is named as users or items are; set data\.user"):
        opened(path, format="interactions", time="paid")


def test_the_third_of_three_numbers_may_be_a_time(tmp_path: Path) -> None:
    part = opened(write(tmp_path / "u.txt", [f"{u}\t{i}\t{t}" for u, i, _, t in rows()])).parts["train"]
    assert part.ratings is None and part.times.min() >= START


@pytest.mark.parametrize(
    ("condition", "kept"), [(">= 4", {4, 5}), ("> 4", {5}), ("<= 2", {1, 2}), ("= 3", {3}), ("< 3.5", {1, 2, 3})]
)
def test_positive_ratings(condition: str, kept: set[int], tmp_path: Path) -> None:
    source = opened(forms(tmp_path)["csv"], positive=condition)
    assert set(source.parts["train"].ratings.tolist()) == kept
    assert any(f"of 60 ratings are {condition}" in note for note in source.notes)


def test_a_folder_with_parts_and_negatives(tmp_path: Path) -> None:
    data = rows()
    write(tmp_path / "x.train.tsv", [f"{u}\t{i}" for u, i, _, _ in sorted(data) if u < 7])
    write(tmp_path / "x.test.rating", ["1\t50\t3\t978300000", "2\t51\t4\t978300000"])
    write(tmp_path / "x.test.negative", ["(1,50)\t1\t6\t50\t999", "(2,51)\t11\t1\t1"])
    source = opened(tmp_path)
    assert {name: len(part) for name, part in source.parts.items()} == {
        "train": sum(u < 7 for u, *_ in data),
        "test": 2,
    }
    assert source.negatives is not None
    named = [[source.items[code] for code in source.negatives.items[row]] for row in range(2)]
    assert named == [["50", "1", "6"], ["51", "11", "1"]]  # each once; an unknown one is left out
    write(tmp_path / "x.test.negative", ["(1,49)\t1"])
    with pytest.raises(
        CanonError, match=r"x\.test\.negative, line 1: \(1,49\) is not an interaction of x\.test\.rating"
    ):
        opened(tmp_path)
    write(tmp_path / "x.test.negative", ["(1,50)\t1", "2,51\t4"])
    with pytest.raises(CanonError, match=r"line 2: a line is \(user,item\), then items"):
        opened(tmp_path)


BAD = {
    "a rating": (["1,2,3,978300000", "1,3,good,978300001"], 'line 3: the rating "good" is not a number'),
    "no rating": (["1,2,3,978300000", "1,3,,978300001"], "line 3: the rating is missing or is not a number"),
    "no item": (["1,2,3,978300000", "1,,3,978300001"], "line 3: the item is missing"),
    "a cell more": (["1,2,3,978300000", "1,3,3,978300001,9"], "line 3: 5 columns, but other lines have 4"),
    "units": (["1,2,3,978300000", "1,3,3,978300001000"], "line 3: the time 978300001000 is in milliseconds since 1970"),
    "a date": (["1,2,3,2001-01-01 10:00:00", *["1,4,3,2001-01-02 10:00:00"] * 60, "1,3,3,later"], "line 63: the time"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    lines, said = BAD[name]
    path = write(tmp_path / "a.csv", ["user,item,rating,time", *lines])
    with pytest.raises(CanonError, match=r"a\.csv, .*") as mistake:
        opened(path, format="interactions")
    assert said in str(mistake.value) and str(mistake.value).count("\n") == 0


def test_a_line_of_colons_that_is_wrong(tmp_path: Path) -> None:
    path = write(tmp_path / "r.dat", [*(f"{u}::{i}::{r}::{t}" for u, i, r, t in rows()), "1::2::3"])
    with pytest.raises(CanonError, match=r"r\.dat, line 61: 3 columns, but other lines have 4"):
        opened(path, format="interactions")


def test_positive_needs_ratings_and_a_comparison(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["user,item", "1,2", "1,3", "2,3"])
    with pytest.raises(CanonError, match="chooses interactions by their rating"):
        opened(path, positive=">= 4")
    with pytest.raises(CanonError, match='must be a comparison with a number, as in ">= 4"'):
        opened(path, positive="good")


@pytest.mark.parametrize("names", ["reader,book,date", "用户,菜品,日期", "会员编号,商品,评分"])
def test_columns_are_known_by_names_in_english_and_chinese(names: str, tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [names, *(f"u{n % 7},i{n % 5},{2000 + n}-01-01" for n in range(35))])
    if names.endswith("评分"):
        path.write_text(path.read_text(encoding="utf-8").replace("-01-01", ""), encoding="utf-8")
    source = opened(path)
    assert len(source.users) == 7 and len(source.items) == 5


def test_a_log_that_is_not_known_says_how_it_would_be(tmp_path: Path, canon: Callable[..., Any]) -> None:
    path = write(tmp_path / "log.csv", ["who,what", *(f"u{n % 7},i{n % 5}" for n in range(35))])
    outcome = canon("train", "popular", "--data", path)
    assert outcome.err.endswith("is a table; data.user and data.item name the columns of interactions.\n"), outcome.err
