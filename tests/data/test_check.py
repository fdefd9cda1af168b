"""`check` against counts made by hand or by brute force, on every kind of data, good and bad."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from canon.data.checking import measure
from canon.data.config import DataConfig
from canon.errors import CanonError
from canon.registry import SYSTEMS
from tests.data.makers import cifar_folder, idx_folder, image_folder
from tests.reading import check_as, read_as, texts_of


def look(path: Path | str, **settings: object):  # type: ignore[no-untyped-def]
    report = check_as(DataConfig(source=str(path), **settings))  # type: ignore[arg-type]
    json.dumps(asdict(report))
    assert all(isinstance(line, str) and "\n" not in line for line in report.render())
    return report


# The measures


@given(st.lists(st.integers(0, 30), min_size=1))
def test_quantiles_equal_numpys_nearest_rank(values: list[int]) -> None:
    result = measure.quantiles(Counter(values))
    for name, share in measure.QUANTILES.items():
        assert result[name] == np.quantile(values, share, method="inverted_cdf")


@given(st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2))))
def test_row_digests_are_equal_where_rows_are(rows: list[tuple[str, str]]) -> None:
    if rows:
        first, second = (measure.digests(row[index] for row in rows) for index in range(2))
        digests = measure.mixed(measure.mixed(np.zeros(len(rows), dtype=np.uint64), first), second)
        assert measure.duplicates(digests) == len(rows) - len(set(rows))


def test_words_part_at_spaces_and_chinese_characters() -> None:
    assert measure.words("a bc, d") == ["a", "bc,", "d"]
    assert measure.words("我爱NLP 很好。") == ["我", "爱", "NLP", "很", "好", "。"]


# Tables


def test_table_counts(tmp_path: Path) -> None:
    rows = [f"{i},{'xyz'[i % 3]},7,{'' if i < 4 else i},{'ab'[i % 2]}" for i in range(60)]
    rows += [rows[0], rows[1], rows[2][:-1] + "b"]  # two repeated rows, and one with another label
    path = tmp_path / "t.csv"
    path.write_text("n,kind,same,gaps,label\n" + "\n".join(rows) + "\n")
    report = look(path, valid=0.0, test=0.0, missing="error")
    assert report.kind == "table" and report.splits == {"train": 63}
    assert report.classes == {"train": {"a": 31, "b": 32}}
    assert report.duplicates == {"train": 2} and report.conflicts == 1
    columns = {column["name"]: column for column in report.columns}
    assert columns["gaps"] == {"name": "gaps", "kind": "number", "missing": 7, "distinct": 57}
    assert columns["kind"]["kind"] == "category" and columns["same"]["distinct"] == 1
    said = " ".join(report.warnings)
    assert 'column "gaps" has 7 missing values' in said and 'column "same" has the same value in every row' in said
    assert "1 rows have the same inputs as another row but not its label" in said
    assert report.suits == [] and "data.missing" in said
    mended = look(path, valid=0.0, test=0.0)
    assert "softmax-regression" in mended.suits and "linear-regression" not in mended.suits


def test_splits_and_overlap_are_those_of_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{i % 40},{'ab'[i % 2]}" for i in range(80)]
    path.write_text("n,label\n" + "\n".join(rows) + "\n")
    report = look(path)
    data = read_as(DataConfig(source=str(path)), "features")
    assert report.splits == data.protocol["sizes"]
    train = {bytes(row) for row in np.asarray(data.splits["train"]["input"])}
    result = sum(bytes(row) in train for row in np.asarray(data.splits["test"]["input"]))
    assert report.overlap["test"] == result > 0
    assert any("scores will be too high" in warning for warning in report.warnings)


def test_numbers_to_predict_suit_regression(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i * 0.37}\n" for i in range(50)))
    report = look(path)
    assert report.suits == ["linear-regression", "mlp", "gan", "nadaraya-watson"] and report.classes == {}


def test_a_table_of_text(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("text\tlabel\n" + "".join(f"this is review {i}\t{i % 2}\n" for i in range(40)))
    report = look(path, test=0.25)
    assert report.lengths["words"] == dict.fromkeys(measure.QUANTILES, 4)
    assert report.unknown_words == pytest.approx(0.25)  # every number is new
    assert {"rnn-lm", "transformer-xl"} <= set(report.suits) and report.vocabulary == 3 + report.splits["train"]


def test_two_columns_of_text_are_pairs_too(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("source\ttarget\n" + "".join(f"word {i} and {i * i}\t{i * i} und {i} Wort\n" for i in range(60)))
    assert {"transformer", "bahdanau"} <= set(look(path).suits)


def parallel(folder: Path, shuffled: bool) -> Path:
    """Sentences of many lengths and their translations, which may be of other sentences."""
    lengths = [3 + (7 * i) % 23 for i in range(120)]
    order = lengths if not shuffled else [lengths[(i * 37 + 11) % 120] for i in range(120)]
    folder.mkdir()
    (folder / "train.en").write_text("".join(f"{'word ' * length}{i}\n" for i, length in enumerate(lengths)))
    (folder / "train.de").write_text("".join(f"{'Wort ' * length}{i * 7}\n" for i, length in enumerate(order)))
    return folder


def test_parallel_text(tmp_path: Path) -> None:
    report = look(parallel(tmp_path / "fits", shuffled=False), languages=("en", "de"))
    assert report.kind == "pairs" and report.splits == {"train": 97, "valid": 11, "test": 12}
    assert report.pairs["train"]["alignment"] > 0.9 and not any("aligned" in text for text in report.warnings)
    assert report.suits == [system.name for system in SYSTEMS if system.task == "transduction"]
    assert "alignment" in "\n".join(report.render())


def test_parallel_text_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    report = look(parallel(tmp_path / "loose", shuffled=True), languages=("en", "de"))
    assert any("do not look aligned" in text for text in report.warnings)


# Images


def test_image_folder_counts_and_names_every_bad_file(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "pets", count=12)
    (folder / "cat" / "copy.png").write_bytes((folder / "cat" / "0.png").read_bytes())
    Image.new("L", (5, 9)).save(folder / "dog" / "odd.png")
    (folder / "dog" / "text.png").write_text("no")
    (folder / "cat" / "cut.png").write_bytes((folder / "cat" / "1.png").read_bytes()[:60])
    report = look(folder)
    assert report.kind == "images" and report.classes["train"] == {"cat": 14, "dog": 14}
    assert report.image_sizes == {"8 x 8 x 3": 25, "9 x 5 x 1": 1}
    assert report.duplicates == {"train": 1}
    said = " ".join(report.warnings)
    assert "text.png is not an image" in said and "cut.png is damaged" in said
    assert report.suits == []


def test_idx_cifar_and_digits(tmp_path: Path) -> None:
    idx_folder(tmp_path / "m", train=40)
    report = look(tmp_path / "m", valid=0.0)
    assert report.splits == {"train": 40, "test": 10} and report.image_sizes == {"5 x 4 x 1": 50}
    assert report.classes["test"] == {"0": 4, "1": 3, "2": 3} and "lenet" in report.suits
    cifar_folder(tmp_path / "c")
    assert look(tmp_path / "c").image_sizes == {"32 x 32 x 3": 36}
    digits = look("digits")
    assert digits.splits == {"train": 1294, "valid": 144, "test": 359} and "lenet" in digits.suits
    assert digits.duplicates == {"train": 0, "valid": 0, "test": 0} and digits.warnings == []


# Text


def test_text_counts(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a b c\n\nd e\na b c\n\nf\n")
    (tmp_path / "test.txt").write_text("a x\n\nf\n")
    report = look(tmp_path, valid=0.0)
    assert report.kind == "text" and report.splits == {"train": 3, "test": 2}
    assert report.lines == {"all": 9, "empty": 3, "repeated": 2}
    assert report.vocabulary == 6 and report.unknown_words == pytest.approx(1 / 3)
    assert report.overlap == {"test": 1} and report.duplicates == {"train": 0, "test": 0}
    assert report.lengths["words"]["max"] == 5 and report.lengths["characters"]["min"] == 1


def test_one_text_is_cut_as_read_cuts_it(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("".join(f"word{i} and\n" for i in range(50)))

    def sizes(**settings: Any) -> dict[str, int]:
        data = read_as(DataConfig(source=str(path), tokenizer="word", **settings), "windows")
        return {name: len(texts) for name, texts in texts_of(data).items()}

    report = look(path, test=0.2, valid=0.1)
    assert report.splits == sizes(test=0.2)
    assert report.unknown_words == pytest.approx(0.5)
    other = tmp_path / "other.txt"
    other.write_text("word1 new\n")
    given = look(path, test=str(other))
    assert given.splits == sizes(test=str(other))
    assert given.unknown_words == pytest.approx(0.5)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"fine\n\xe9t\xe9\nfine\n\xff\n")
    report = look(path)
    assert report.warnings[0].startswith(f"{path}, line 2: byte 5 (0xE9) is not utf-8")
    assert f"{path}: 2 of 4 lines are not utf-8." in report.warnings
    assert look(path, encoding="latin-1").splits == {"train": 2, "valid": 1, "test": 1}


def test_nothing_to_report_on(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match='There is no data set, file or folder "digist"; did you mean digits'):
        check_as(DataConfig(source="digist"))
    (tmp_path / "e.csv").write_text("")
    with pytest.raises(CanonError, match=r"e\.csv is empty"):
        check_as(DataConfig(source=str(tmp_path / "e.csv")))
    (tmp_path / "e.txt").write_text("\n\n")
    assert "there is no text." in look(tmp_path / "e.txt").warnings


def test_check_and_train_agree_on_a_table_of_repeated_texts(tmp_path: Path) -> None:
    """Sentences that come again and again are text, and names of several letters are not."""
    verbs, things = {"love": "good", "hate": "bad"}, ("film", "book")
    moods = [f"I {verb} this {thing} very much,{mood}" for verb, mood in verbs.items() for thing in things]
    (tmp_path / "moods.csv").write_text("\n".join(["remark,mood", *moods * 8]) + "\n")
    assert {"fasttext-classifier", "finetune"} <= set(look(tmp_path / "moods.csv").suits)
    assert len(read_as(DataConfig(source=str(tmp_path / "moods.csv")), "bags").splits["train"]["input"]) > 20
    flowers = [f"{name},{size}" for name in ("iris-versicolor", "iris-virginica-alba") for size in range(8)]
    (tmp_path / "flowers.csv").write_text("\n".join(["species,size", *flowers]) + "\n")
    assert "fasttext-classifier" not in look(tmp_path / "flowers.csv").suits
    with pytest.raises(CanonError, match=r"reads texts with labels, but .* is a table"):
        read_as(DataConfig(source=str(tmp_path / "flowers.csv")), "bags")
