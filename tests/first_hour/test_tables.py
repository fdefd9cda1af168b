"""Tables as people have them, trained by the first command: what is decided is said, and the scores are those of
scikit-learn's usual models or better."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_friedman1, make_moons
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import OneHotEncoder

from canon.data.checking.choosing import choose_system
from canon.data.config import DataConfig
from canon.data.formats.dates import form_of
from canon.data.formats.tables import read_table
from canon.tasks.records import TASK_RECORDS

Canon = Callable[..., Any]
GAPS = ("N/A", "?", "-", "", "null", "Unknown", "nan", "--", "#N/A", "\\N")


def write(path: Path, header: str, rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return path


def orders(path: Path, size: int = 400) -> Path:
    """An id, days, money with gaps, per cent, booleans, cities, remarks; a weekend, a high price or a broken parcel
    sends an order back."""
    random, rows = np.random.RandomState(0), []
    for number in range(size):
        day = datetime.date(2021, 1, 1) + datetime.timedelta(days=int(random.randint(900)))
        price, broken, gap = random.lognormal(7, 0.6), random.rand() < 0.3, random.rand() < 0.1
        remark = " ".join(random.choice(["the", "item", "came", "from", "our", "store"], 6)) + " broken" * broken
        back = (day.weekday() >= 5) + (price > 1500 and not gap) + broken > 0
        cell = str(random.choice(GAPS)) if gap else f"${price:,.2f}"
        row = [f"A{number:05}", f"{day:%d/%m/%Y}", cell, f"{random.randint(60)} %", random.rand() < 0.5]
        rows.append([*row, ["Paris", "Rome", "Oslo"][random.randint(3)], remark, "yes" if back else "no"])
    return write(path, "order_id,when,price,discount,paid,city,remark,returned", rows)


DECIDED = (
    'Left out: "order_id" (',
    'Read as dates: "when" (day first: days, month, weekday, day).',
    'Read as amounts, without their signs and separators: "price", "discount".',
    'Missing numbers are the training mean, with a feature that says so: "price".',
    'Sentences are read by which frequent words they have: "remark" (',
)


def test_dates_money_ids_booleans_gaps_and_texts(tmp_path: Path, canon: Canon) -> None:
    path = orders(tmp_path / "orders.csv")
    checked = canon("check", path)
    trained = canon("train", "mlp", "--data", path, "--out", "run", "--json")
    assert (checked.code, trained.code) == (0, 0)
    for sentence in DECIDED:
        assert sentence in checked.out and sentence in trained.err
    result = json.loads(trained.out)
    assert result["scores"]["test"]["accuracy"] >= 0.85  # the majority class is 0.64
    kept = {row["name"]: row["kind"] for row in json.loads(Path("run/vocab/schema.json").read_text())["encoders"]}
    kinds = {"when": "date", "price": "number", "discount": "number", "paid": "category", "city": "category"}
    assert kept == {**kinds, "remark": "words"}
    # Other spellings, an unseen city, unseen words and empty cells.
    rows = [["B1", "31/12/2030", "€2,000", "5%", "true", "Nowhere", "all new words"], ["B2", "", "", "", "", "", ""]]
    new = write(tmp_path / "new.csv", "order_id,when,price,discount,paid,city,remark", rows)
    predicted = canon("predict", "run", new)
    assert predicted.code == 0 and len(predicted.out.splitlines()) == 3  # a header, too
    again = canon("evaluate", "run", "--data", path)
    assert again.code == 0 and "accuracy" in again.out


def test_many_texts_are_level_with_one_hot_logistic_regression(tmp_path: Path, canon: Canon) -> None:
    random = np.random.RandomState(0)
    effect, shop, size = random.randn(1500), random.randint(1500, size=9000), random.randn(9000)
    label = (effect[shop] + 0.5 * size + 0.5 * random.randn(9000) > 0).astype(int)
    rows = [[f"shop{s}", f"{x:.3f}", y] for s, x, y in zip(shop, size, label, strict=True)]
    train = write(tmp_path / "train.csv", "shop,size,label", rows[:8000])
    test = write(tmp_path / "test.csv", "shop,size,label", rows[8000:])
    trained = canon("train", "mlp", "--data", train, "--set", f"data.test={test}", "--out", "run", "--json")
    assert 'Each of many texts is the mean label of its training rows: "shop" (1,' in trained.err
    one_hot = OneHotEncoder(handle_unknown="ignore").fit_transform(shop[:, None]).toarray()
    inputs = np.column_stack([one_hot, size])
    baseline = LogisticRegression(max_iter=300).fit(inputs[:8000], label[:8000]).score(inputs[8000:], label[8000:])
    assert json.loads(trained.out)["scores"]["test"]["accuracy"] >= baseline - 0.02
    unseen = write(tmp_path / "unseen.csv", "shop,size", [["never seen", "0.1"]])
    assert canon("predict", "run", unseen).code == 0


def test_a_number_is_predicted_level_with_ridge_and_boosted_trees(tmp_path: Path, canon: Canon) -> None:
    inputs, target = make_friedman1(900, noise=1.0, random_state=0)
    rows = [[*(f"{x:.5f}" for x in row), f"{y:.4f}"] for row, y in zip(inputs, target, strict=True)]
    names = ",".join(f"x{i}" for i in range(10)) + ",price"
    train = write(tmp_path / "train.csv", names, rows[:600])
    test = write(tmp_path / "test.csv", names, rows[600:])
    trained = canon("train", "mlp", "--data", train, "--set", f"data.test={test}", "--json")
    assert (
        'The label is the last column, "price"; data.label chooses another. It is a number to predict.' in trained.err
    )
    models = (RidgeCV(), HistGradientBoostingRegressor(random_state=0))
    best = max(model.fit(inputs[:600], target[:600]).score(inputs[600:], target[600:]) for model in models)
    assert json.loads(trained.out)["scores"]["test"]["r2"] >= best - 0.02
    predicted = canon("predict", "runs/table-mlp", test, "--json")
    values = [row["prediction"] for row in json.loads(predicted.out)]
    assert np.corrcoef(values, target[600:])[0, 1] > 0.9


def test_classes_that_no_line_separates(tmp_path: Path, canon: Canon) -> None:
    inputs, label = make_moons(500, noise=0.2, random_state=0)
    rows = [[f"{a:.4f}", f"{b:.4f}", y] for (a, b), y in zip(inputs, label, strict=True)]
    train = write(tmp_path / "train.csv", "a,b,y", rows[:350])
    test = write(tmp_path / "test.csv", "a,b,y", rows[350:])
    trained = canon("train", "mlp", "--data", train, "--set", f"data.test={test}", "--json")
    linear = LogisticRegression().fit(inputs[:350], label[:350]).score(inputs[350:], label[350:])
    assert json.loads(trained.out)["scores"]["test"]["accuracy"] >= linear + 0.03


def rare(path: Path, size: int = 1500) -> Path:
    random = np.random.RandomState(0)
    inputs = random.randn(size, 4)
    label = inputs[:, 0] + inputs[:, 1] + random.randn(size) > 2.9  # about one in twenty
    return write(
        path, "a,b,c,d,fraud", [[*(f"{x:.4f}" for x in row), int(y)] for row, y in zip(inputs, label, strict=True)]
    )


def test_a_rare_class_gets_a_threshold_that_the_run_keeps(tmp_path: Path, canon: Canon) -> None:
    path = rare(tmp_path / "t.csv")
    usual = canon("train", "mlp", "--data", path, "--out", "usual", "--set", "objective.threshold=0.5", "--json")
    chosen = canon("train", "mlp", "--data", path, "--out", "chosen", "--json")
    result = json.loads(chosen.out)
    assert 0 < result["threshold"] < 0.5
    assert "(objective.threshold)." in chosen.err
    valid = [json.loads(one.out)["scores"]["valid"]["f1_macro"] for one in (usual, chosen)]
    assert valid[1] >= valid[0]
    scores = json.loads(canon("evaluate", "chosen", "--json").out)
    assert scores["f1_macro"] == pytest.approx(result["scores"]["test"]["f1_macro"])
    counts = [
        sum(row["prediction"] == "1" for row in json.loads(canon("predict", run, path, "--json").out))
        for run in ("usual", "chosen")
    ]
    assert counts[1] > counts[0]
    strict = json.loads(canon("predict", "chosen", path, "--threshold", "0.999", "--json").out)
    assert sum(row["prediction"] == "1" for row in strict) < counts[0]
    balanced = ("--set", "objective.class_weights=balanced", "--set", "objective.threshold=0.5")
    assert canon("train", "mlp", "--data", path, "--out", "weighted", *balanced).code == 0
    weighted = json.loads(canon("predict", "weighted", path, "--json").out)
    assert sum(row["prediction"] == "1" for row in weighted) > counts[0]


def test_a_class_too_rare_for_a_threshold_is_said(tmp_path: Path, canon: Canon) -> None:
    draws = np.random.RandomState(0).randn(400, 2)
    path = write(tmp_path / "t.csv", "a,b,Class", [[f"{a:.3f}", f"{b:.3f}", int(a > 2.1)] for a, b in draws])
    done = canon("train", path, "--out", "run", "--set", "train.epochs=5")
    assert '"1" is 1.9% of the training examples, and 1 of 36 validation examples are too few' in done.err, done.err
    assert 'objective.class_weights = "balanced"' in done.err


def test_decimal_commas_and_slips(tmp_path: Path, canon: Canon) -> None:
    random = np.random.RandomState(0)
    values = random.rand(200) * 10
    cells = [f"{value:.2f}".replace(".", ",") for value in values]
    slips = [str(i % 7 + random.rand()) if i % 50 else "see note" for i in range(200)]
    rows = [[c, s, "high" if v > 5 else "low"] for c, s, v in zip(cells, slips, values, strict=True)]
    path = write(tmp_path / "t.csv", "size,other,label", rows)
    trained = canon("train", "mlp", "--data", path, "--out", "run", "--json")
    assert 'Read as numbers with a decimal comma: "size".' in trained.err
    assert 'Texts among numbers count as missing: "other".' in trained.err
    assert json.loads(trained.out)["scores"]["test"]["accuracy"] >= 0.9
    new = write(tmp_path / "new.csv", "size,other", [["9,125", "1"], ["1,125", "1"]])
    rows = json.loads(canon("predict", "run", new, "--json").out)
    assert [row["prediction"] for row in rows] == ["high", "low"]
    strict = canon("train", "mlp", "--data", path, "--out", "strict", "--set", "data.missing=error")
    assert strict.code == 2 and 'line 2: column "other" has numbers elsewhere, but "see note" here.' in strict.err


@pytest.mark.parametrize("name", ["id", "ID", "customer_id", "n"])
def test_columns_that_number_the_rows_are_left_out(tmp_path: Path, canon: Canon, name: str) -> None:
    random = np.random.RandomState(0)
    numbers = random.permutation(5000)[:60] if name == "customer_id" else np.arange(60)
    rows = [[number, f"{random.rand():.3f}", i >= 30] for i, number in enumerate(numbers)]
    path = write(tmp_path / "t.csv", f"{name},x,label", rows)
    assert f'Left out: "{name}" (' in canon("check", path).out
    kept = canon("check", path, "--set", f'data.features=["{name}"]')
    assert "Left out" not in kept.out


def test_a_text_that_never_changes_is_left_out_and_dates_are_no_texts(tmp_path: Path, canon: Canon) -> None:
    days = [f"{day} May 2021, 10:00" for day in range(1, 31)]
    rows = [[day, "from our own store", f"{number % 7}.5", number >= 15] for number, day in enumerate(days)]
    said = canon("check", write(tmp_path / "t.csv", "when,remark,price,label", rows)).out
    assert 'Left out: "remark" (the same in every row)' in said and 'Read as dates: "when" (day first' in said
    assert "The texts are" not in said and "word2vec" not in said


@pytest.mark.parametrize(("third", "left"), [("c", 4), ("+", 0)])
def test_a_dash_is_no_label_unless_it_is_the_opposite_of_a_plus(
    tmp_path: Path, canon: Canon, third: str, left: int
) -> None:
    rows = [[f"{number % 9}.5", "-" if number % 10 == 9 else third if number % 2 else "b"] for number in range(40)]
    said = canon("check", write(tmp_path / "t.csv", "x,label", rows)).out
    assert (f"{left} of 40 rows have no label and are left out" in said) == bool(left)


def test_what_predicts_nothing_is_not_named_beside_a_number(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,z,y", [[f"{n % 9}.5", n % 4, f"{n}.25"] for n in range(60)])
    chosen = choose_system(DataConfig(source=str(path)), lambda task: TASK_RECORDS[task].targets)
    assert "training mlp; also: linear-regression" in chosen.sentence and "gan" not in chosen.sentence


@pytest.mark.parametrize(
    ("lines", "column", "numbers"),
    [
        (("0,567;1,234;1,801", "1,250;1,500;2,750"), "y", [1.801, 2.75]),  # the first column decides
        (("1,567;1,234;1,801", "1,250;1,500;2,750"), "y", [1801, 2750]),  # nothing does
        (("0,5;1.234,50;2,5", "0,7;1.250;3,1"), "b", [1234.5, 1250]),
    ],
)
def test_a_comma_means_the_same_in_the_whole_file(lines: tuple[str, ...], column: str, numbers: list[float]) -> None:
    Path("t.csv").write_text("a;b;y\n" + "\n".join(lines) + "\n")
    values, bad = read_table(Path("t.csv"), DataConfig(source="t.csv")).numbers(column)
    assert values.tolist() == numbers and not bad.any()


def test_a_target_with_a_decimal_comma(tmp_path: Path, canon: Canon) -> None:
    draws = np.random.RandomState(0).uniform(0, 2, (200, 2))
    rows = [";".join(f"{number:.3f}".replace(".", ",") for number in (a, b, a + b)) for a, b in draws]
    (tmp_path / "t.csv").write_text("a;b;y\n" + "\n".join(rows) + "\n")
    checked, trained = canon("check", "t.csv"), canon("train", "t.csv", "--out", "run", "--set", "train.epochs=20")
    for printed in (checked.out, trained.err):
        assert 'Read as numbers with a decimal comma: "a", "b", "y".' in printed, printed
    assert json.loads(Path("run/result.json").read_text())["scores"]["test"]["mae"] < 1


@pytest.mark.parametrize(
    ("name", "before", "header", "delimiter", "skipped"),
    [
        ("t.csv", "sep=;\n", "x;y;class\n", ";", "1 line"),
        ("t.csv", "# exported 2020\n", "x,y,class\n", ",", "1 line"),
        ("t.csv", "Measured at home,,\n,,\n", "x,y,class\n", ",", "2 lines"),
        ("t.csv", "Measured at home\n\n", "x;y;class\n", ";", "2 lines"),
        ("t.data", "# measured 2020\n# x y class\n", "", "  ", "2 lines"),
    ],
)
def test_lines_before_a_table_are_skipped(
    tmp_path: Path, canon: Canon, name: str, before: str, header: str, delimiter: str, skipped: str
) -> None:
    rows = [
        f"{a:.4f}{delimiter}{b:.4f}{delimiter}{'uv'[int(a > 0.5)]}" for a, b in np.random.RandomState(0).rand(150, 2)
    ]
    (tmp_path / name).write_text(before + header + "\n".join(rows) + "\n")
    checked = canon("check", name)
    assert checked.code == 0 and f"{name}: {skipped} before the table skipped." in checked.out, checked.err
    assert "121 train, 14 valid, 15 test" in checked.out
    if name == "t.csv" and skipped == "1 line":
        (tmp_path / name).write_text(before + header + "\n".join([*rows, f"1{delimiter}2"]) + "\n")
        assert f"t.csv, line {len(rows) + 3}: 2 cells, but there are 3 columns." in canon("train", name).err


def test_a_hash_may_begin_a_row_or_a_name() -> None:
    for head, first in (("#chrom,pos,label", "#chrom"), ("#fun,1,x\n#sad,2,y", "1")):
        Path("t.csv").write_text(head + "\n" + "#a,3,x\nb,4,y\n" * 5)
        table = read_table(Path("t.csv"), DataConfig(source="t.csv"))
        assert table.names[0] == first and len(table) == 10 + head.count("\n") + (first == "1")


def test_texts_that_are_all_equally_alike(tmp_path: Path, canon: Canon) -> None:
    """Their numbers differ by rounding alone."""
    rows = [[f"one two {number}", f"three four five six {number}", number % 2] for number in range(70)]
    path = write(tmp_path / "t.csv", "premise,hypothesis,label", rows)
    trained = canon("train", path, "--out", "run", "--set", "train.steps=2")
    assert trained.code == 0, trained.err


def test_a_time_zone_is_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder, canon: Canon) -> None:
    rows = [[f"2023-01-{1 + n // 24:02}T{n % 24:02}:00:00{('Z', '+01:00')[n % 2]}", f"{n % 24}.5"] for n in range(90)]
    said = canon("check", write(tmp_path / "t.csv", "timestamp,load", rows)).out
    assert 'Read as dates: "timestamp"' in said and not recwarn.list
    assert form_of(["2024/01/05 3:07:11 PM GMT+1", "2024/01/15 10:00:00 AM GMT-5"]) == "year first"  # of Google's forms


def test_numbers_with_a_unit(tmp_path: Path, canon: Canon) -> None:
    """Of the column; a few codes that end alike are none. A run keeps it for a single row."""
    draw = np.random.RandomState(0)
    sizes = draw.randint(60, 200, 120)
    rows = [[f"{size} 平米", f"{size / 10:.1f}kmpl", f"{2 + size % 3}WD", 300 * size] for size in sizes]
    path = write(tmp_path / "t.csv", "area,use,drive,price", rows)
    trained = canon("train", path, "--out", "run", "--set", "train.epochs=60")
    assert 'Read as amounts, without their signs and separators: "area", "use".' in trained.err, trained.err
    row = json.dumps({"area": "100 平米", "use": "10.0kmpl", "drive": "2WD"}, ensure_ascii=False)
    predicted = json.loads(canon("predict", "run", row, "--json").out)[0]["prediction"]
    assert float(predicted) == pytest.approx(30_000, rel=0.1)
