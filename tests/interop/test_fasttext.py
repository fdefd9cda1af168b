"""fastText's files against fasttext itself: vectors, predictions, both ways; and files that are not as they should be.

Models are trained by fasttext on a small made text; canon reads them, writes them back byte by byte, and answers alike.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import fasttext as theirs
import numpy as np
import pytest

from canon.contracts import Context
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop import fasttext as ours
from canon.interop import vectors as vector_files
from canon.registry import find

LOSSES = {"softmax": "softmax", "hs": "hierarchical-softmax", "ns": "negative-sampling", "ova": "one-vs-all"}
WORDS = [f"wort{i}" for i in range(200)] + ["größe", "北京大学", "naïve", "été", "don't", "😀"]
TEXTS = ["wort1 wort2 wort50 unseen", "北京大学 größe", "qqq zzz", "", "wort3 __label__t1 wort100\twort101  wort102"]
UNKNOWN = ["unseen", "größer", "北京", "x", "wort999"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lines.txt without labels, labelled.txt with a few, many.txt with 300 of them."""
    folder = tmp_path_factory.mktemp("fasttext")
    rng = random.Random(0)
    lines, labelled, many = [], [], []
    for _ in range(2500):
        topic = min(rng.randrange(7), rng.randrange(7))
        words = [WORDS[(rng.randrange(30) + 28 * topic) % len(WORDS)] for _ in range(rng.randrange(1, 12))]
        lines.append(" ".join(words))
        labelled.append(f"__label__t{topic} {lines[-1]}")
        many.append(f"__label__{rng.randrange(300)} {lines[-1]}")
    for name, rows in (("lines", lines), ("labelled", labelled), ("many", many)):
        (folder / f"{name}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def trained(folder: Path, loss: str = "softmax", data: str = "labelled", **more: Any) -> Any:
    options = {"dim": 11, "epoch": 3, "lr": 0.5, "thread": 1, "bucket": 3000, "verbose": 0} | more
    return theirs.train_supervised(str(folder / f"{data}.txt"), loss=loss, **options)


def vectors_of(folder: Path, **more: Any) -> Any:
    options = {"dim": 11, "epoch": 2, "thread": 1, "bucket": 3000, "minCount": 2, "verbose": 0} | more
    return theirs.train_unsupervised(str(folder / "lines.txt"), **options)


def worst_answer(model: Any, read: ours.FastTextModel) -> float:
    """The largest difference of a probability, over all texts and labels; the labels must be the same."""
    worst = 0.0
    for text in TEXTS:
        wanted = {label: probability for probability, label in model.f.predict(text + "\n", -1, 0.0, "strict")}
        values = dict(ours.predict(read, text, top=10_000))
        assert values.keys() == wanted.keys(), text
        worst = max([worst, *(abs(values[label] - wanted[label]) for label in wanted)])
    return worst


def worst_vector(model: Any, read: ours.FastTextModel, words: list[str]) -> float:
    return max(float(np.abs(ours.vector(read, word) - model.get_word_vector(word)).max()) for word in words)


def reloaded(path: Path, model: ours.FastTextModel) -> Any:
    """What fasttext makes of a file that canon writes."""
    ours.write(path, model)
    return theirs.load_model(str(path))


# Word vectors


@pytest.mark.parametrize("options", [{}, {"model": "cbow"}, {"loss": "hs"}, {"minn": 1, "maxn": 2}, {"maxn": 0}])
def test_vectors_of_known_and_unknown_words_are_fasttexts(
    options: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """canon.interop.fasttext.vector against get_word_vector, to 1e-6; and the file written again, byte by byte."""
    model = vectors_of(folder, **options)
    model.save_model(str(tmp_path / "model.bin"))
    read = ours.read(tmp_path / "model.bin")
    assert read.words.words == model.get_words()
    assert read.words.counts.tolist() == model.get_words(include_freq=True)[1].tolist()
    assert worst_vector(model, read, read.words.words + UNKNOWN) < 1e-6
    np.testing.assert_allclose(
        ours.vectors(read), np.stack([model.get_word_vector(word) for word in read.words.words]), atol=1e-6
    )
    ours.write(tmp_path / "again.bin", read)
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "model.bin").read_bytes()


def test_settings_are_fasttexts(folder: Path, tmp_path: Path) -> None:
    """Every setting that a file keeps against the one that fasttext was given."""
    model = vectors_of(folder, model="cbow", ws=7, neg=3, minn=2, maxn=4, t=0.01, epoch=4, loss="hs", lrUpdateRate=50)
    model.save_model(str(tmp_path / "model.bin"))
    wanted = ours.FastTextSettings(
        dim=11, window=7, epochs=4, min_count=2, negatives=3, word_ngrams=1, loss="hierarchical-softmax", model="cbow",
        buckets=3000, minn=2, maxn=4, lr_update_rate=50, subsample=0.01,
    )  # fmt: skip
    assert ours.read(tmp_path / "model.bin").settings == wanted


def test_vectors_as_any_file_of_vectors(folder: Path, tmp_path: Path) -> None:
    """canon.interop.vectors finds the format by itself and gives the same matrix, and unknown words by n-grams."""
    model = vectors_of(folder)
    model.save_model(str(tmp_path / "named-anyhow"))
    data = vector_files.read(tmp_path / "named-anyhow")
    assert list(data.words) == model.get_words() and data.format == "fasttext"
    np.testing.assert_allclose(data.matrix[5], model.get_word_vector(data.words[5]), atol=1e-6)
    assert data.subwords is not None
    np.testing.assert_allclose(data.subwords("unseen"), model.get_word_vector("unseen"), atol=1e-6)


def test_matrices_are_mapped_and_read_once(folder: Path, tmp_path: Path) -> None:
    """A dense matrix is a view of the file; in_memory gives the same numbers in an array of its own."""
    vectors_of(folder).save_model(str(tmp_path / "model.bin"))
    read = ours.read(tmp_path / "model.bin")
    assert isinstance(read.input, np.memmap) and isinstance(read.output, np.memmap)
    copied = ours.in_memory(read.input)
    assert not isinstance(copied, np.memmap) and copied.flags.aligned and np.array_equal(copied, read.input)


# Classifiers


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("options", [{}, {"wordNgrams": 3}, {"wordNgrams": 2, "minn": 2, "maxn": 4}])
def test_predictions_are_fasttexts(loss: str, options: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    """Probabilities of all labels to 1e-6: canon's of fasttext's file, and fasttext's of the file that canon wrote."""
    model = trained(folder, loss, **options)
    model.save_model(str(tmp_path / "model.bin"))
    read = ours.read(tmp_path / "model.bin")
    assert read.settings.loss == LOSSES[loss] and list(read.labels) == model.get_labels()
    assert worst_answer(model, read) < 1e-6
    assert worst_vector(model, read, WORDS + UNKNOWN) < 1e-6
    assert worst_answer(reloaded(tmp_path / "again.bin", read), read) < 1e-6


@pytest.mark.parametrize("loss", LOSSES)
def test_top_and_threshold_are_fasttexts(loss: str, folder: Path, tmp_path: Path) -> None:
    """What is predicted for several k and thresholds: as many labels, of the same probabilities (some may be equal)."""
    model = trained(folder, loss, wordNgrams=2)
    model.save_model(str(tmp_path / "model.bin"))
    read = ours.read(tmp_path / "model.bin")
    for text in TEXTS:
        for top, threshold in ((1, 0.0), (3, 0.0), (3, 0.2), (7, 0.05), (2, 0.999)):
            wanted = model.f.predict(text + "\n", top, threshold, "strict")
            predictions = ours.predict(read, text, top, threshold)
            np.testing.assert_allclose(
                [reported for _, reported in predictions], [reported for reported, _ in wanted], atol=1e-6
            )
            if len({round(reported, 6) for reported, _ in wanted}) == len(
                wanted
            ):  # the last may equal one that is not predicted
                assert [label for label, _ in predictions[:-1]] == [label for _, label in wanted[:-1]]


@pytest.mark.parametrize(
    "options",
    [{}, {"qnorm": True}, {"dsub": 3}, {"cutoff": 400}, {"cutoff": 300, "qnorm": True}, {"qout": True, "qnorm": True}],
)
def test_quantised_files_are_read(options: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    """Predictions and vectors of a .ftz, with and without lengths apart, pruning and quantised outputs, to 1e-6."""
    data = "many" if options.get("qout") else "labelled"  # outputs are quantised from 256 labels on
    trained(folder, data=data, wordNgrams=2, minn=2, maxn=3).save_model(str(tmp_path / "model.bin"))
    model = theirs.load_model(str(tmp_path / "model.bin"))
    model.quantize(input=str(folder / f"{data}.txt"), **options)
    model.save_model(str(tmp_path / "model.ftz"))
    read = ours.read(tmp_path / "model.ftz")
    assert read.quantised and (read.pruned is not None) == ("cutoff" in options)
    assert worst_answer(model, read) < 1e-6
    assert worst_vector(model, read, WORDS + UNKNOWN) < 1e-6


def test_what_is_pruned_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    model = trained(folder, minn=2, maxn=3)
    model.quantize(input=str(folder / "labelled.txt"), cutoff=300)
    model.save_model(str(tmp_path / "model.ftz"))
    with pytest.raises(CanonError, match=r"n-grams are pruned, which only a quantised .ftz can say"):
        ours.write(tmp_path / "out.bin", ours.read(tmp_path / "model.ftz"))
    assert not (tmp_path / "out.bin").exists()


def test_version_11_has_no_letter_ngrams_in_classifiers(folder: Path, tmp_path: Path) -> None:
    """A file of 2016, made by putting 11 for 12: fasttext and canon both ignore minn and maxn of a classifier."""
    trained(folder, wordNgrams=2).save_model(str(tmp_path / "model.bin"))
    content = bytearray((tmp_path / "model.bin").read_bytes())
    struct.pack_into("<i", content, 4, 11)
    struct.pack_into("<2i", content, 8 + 9 * 4, 3, 6)
    (tmp_path / "old.bin").write_bytes(content)
    read = ours.read(tmp_path / "old.bin")
    assert read.settings.maxn == 0
    assert worst_answer(theirs.load_model(str(tmp_path / "old.bin")), read) < 1e-6


# Runs of canon


@pytest.mark.parametrize("options", [{}, {"model": "cbow", "loss": "hs"}])
def test_vectors_become_a_run_and_come_back(options: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    """A learner of canon restored from a .bin has fasttext's vectors; written from there, the file is the same."""
    import torch

    model = vectors_of(folder, **options)
    model.save_model(str(tmp_path / "model.bin"))
    name, changes, tensors, words, labels = ours.to_run_parts(ours.read(tmp_path / "model.bin"))
    assert name == "fasttext" and labels == ()
    system, _ = find(name)
    config = system.configure("", changes)
    learner = system.load()[1](config, Context())
    learner.restore({"model": {key: torch.from_numpy(array) for key, array in tensors.items()}}, {})
    learner.take_words(words)
    for word in [*words.words, *UNKNOWN]:
        np.testing.assert_allclose(learner.vector(word), model.get_word_vector(word), atol=1e-6)
    model_again = ours.from_run_parts(name, config, tensors, words, epochs=2, min_count=2)
    ours.write(tmp_path / "again.bin", model_again)
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "model.bin").read_bytes()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_classifier_becomes_a_run_and_comes_back(loss: str, folder: Path, tmp_path: Path) -> None:
    """Parts for canon's classifier, and the file written from them, byte by byte."""
    trained(folder, loss, wordNgrams=2).save_model(str(tmp_path / "model.bin"))
    name, changes, tensors, words, labels = ours.to_run_parts(ours.read(tmp_path / "model.bin"))
    assert name == "fasttext-classifier" and sorted(labels) == [f"t{i}" for i in range(7)]
    config = find(name)[0].configure("", changes)
    ours.write(
        tmp_path / "again.bin",
        ours.from_run_parts(name, config, tensors, words, labels, epochs=3),
    )
    again, wanted = ours.read(tmp_path / "again.bin"), ours.read(tmp_path / "model.bin")
    assert again.labels == wanted.labels and np.array_equal(again.input, wanted.input)
    model = theirs.load_model(str(tmp_path / "model.bin"))
    assert worst_answer(model, again) < 1e-6
    assert worst_answer(theirs.load_model(str(tmp_path / "again.bin")), wanted) < 1e-6


def test_bytes_that_are_no_utf8(folder: Path, tmp_path: Path) -> None:
    """A word of broken UTF-8 keeps its row and vector, is written back as it was, and shown by its codes in a run."""
    (tmp_path / "text.txt").write_bytes(b"good b\xffd gr\xc3 good \n" * 50)
    model = theirs.train_unsupervised(str(tmp_path / "text.txt"), dim=5, bucket=100, minCount=1, thread=1, verbose=0)
    model.save_model(str(tmp_path / "model.bin"))
    read = ours.read(tmp_path / "model.bin")
    ours.write(tmp_path / "again.bin", read)
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "model.bin").read_bytes()
    assert set(read.words.words) == {"good", "b\udcffd", "gr\udcc3", "</s>"}
    assert set(ours.to_run_parts(read)[3].words) == {"good", "b\\xffd", "gr\\xc3", "</s>"}


# Files that are not what they should be


@pytest.fixture(scope="module")
def content(folder: Path) -> bytes:
    vectors_of(folder).save_model(str(folder / "whole.bin"))
    return (folder / "whole.bin").read_bytes()


def said(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CanonError) as caught:
        ours.read(path)
    return str(caught.value).removeprefix(f"{path} ")


def test_cut_files_say_what_was_read_of_what(content: bytes, tmp_path: Path) -> None:
    """Cut within the settings, the dictionary and both matrices; the counts follow from where the cut is."""
    path = tmp_path / "cut.bin"
    size = struct.unpack_from("<i", content, 64)[0]
    assert said(path, content[:30]) == "is cut short: it ends within the settings; 22 of 56 bytes of it were read."
    entry = content.index(b"\0", 92) + 1 + 9  # after the first word, its count and type
    reported = said(path, content[: entry + 3])
    assert reported == f"is cut short: it ends within the dictionary; 1 of {size} entries were read."
    rows = size + 3000
    end = len(content) - 4 * 11 * size - 17  # of the input matrix
    reported = said(path, content[: end - 44 * 10 - 1])
    assert reported == f"is cut short: it ends within the input matrix; {rows - 11:,} of {rows:,} rows were read."
    assert said(path, content[:-1]).endswith(f"within the output matrix; {size - 1} of {size} rows were read.")
    assert said(path, b"") == "is empty."


def test_wrong_files_are_reported_in_one_sentence(content: bytes, tmp_path: Path) -> None:
    """Another magic number, another version, settings, dictionary and sizes that cannot be."""
    path = tmp_path / "wrong.bin"

    def patched(place: int, form: str, *values: int) -> str:
        changed = bytearray(content)
        struct.pack_into(form, changed, place, *values)
        return said(path, bytes(changed))

    assert patched(0, "<i", 7) == "is not a fastText model: it does not begin with 793712314, but with 7."
    assert patched(4, "<i", 13) == "is of version 13 of fastText's format; 11 and 12 can be read."
    assert patched(8 + 24, "<i", 9) == "does not have fastText's settings: its loss is 9, not 1 to 4."
    assert patched(8 + 28, "<i", 0) == "does not have fastText's settings: its model is 0, not 1 to 3."
    assert patched(8, "<i", -1) == "does not have fastText's settings: -1 dimensions, 3000 buckets."
    size = struct.unpack_from("<i", content, 64)[0]
    assert patched(68, "<i", size - 1).startswith(f"has a wrong dictionary: {size - 1} words and 0 labels, but {size}")
    assert patched(8, "<i", 12).endswith(
        f"rows and 11 columns, where its dictionary and settings ask for {size + 3000:,} and 12."
    )
    with pytest.raises(CanonError, match=r"nowhere.bin cannot be read: no such file"):
        ours.read(tmp_path / "nowhere.bin")


def test_matrices_of_other_sizes_are_not_written(tmp_path: Path) -> None:
    words = Words(["a", "b"], np.array([2, 1]), 3)
    model = ours.FastTextModel(
        ours.FastTextSettings(dim=4, buckets=10), words, np.zeros((11, 4), np.float32), np.zeros((2, 4), np.float32)
    )
    with pytest.raises(CanonError, match=r"input vectors of shape \(11, 4\), where \(12, 4\) is asked for"):
        ours.write(tmp_path / "out.bin", model)
