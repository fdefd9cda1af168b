"""Asking word vectors against gensim's KeyedVectors and brute force; words that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors

import canon
from canon.errors import CanonError
from canon.interop.vectors_write import write
from canon.use import vectors as module
from canon.use.vectors import Vectors

COUNT, DIM = 500, 20
WORDS = [f"word{row}" for row in range(COUNT)]


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    """With directions that words share, so that neighbours differ much, and one vector of zeros."""
    draw = np.random.default_rng(0)
    made = draw.normal(size=(COUNT, 6)) @ draw.normal(size=(6, DIM)) + 0.1 * draw.normal(size=(COUNT, DIM))
    made[100] = 0
    return made.astype(np.float32)


@pytest.fixture(scope="module")
def vectors(matrix: np.ndarray) -> Vectors:
    return Vectors(WORDS, matrix)


@pytest.fixture(scope="module")
def gensims(matrix: np.ndarray) -> KeyedVectors:
    made = KeyedVectors(DIM)
    made.add_vectors(WORDS, matrix)
    return made


def same(actual: list[module.Neighbor], wanted: list[tuple[str, float]]) -> None:
    assert [one.word for one in actual] == [word for word, _ in wanted]
    assert np.allclose([one.similarity for one in actual], [cosine for _, cosine in wanted], atol=1e-6)


# Against gensim


@pytest.mark.parametrize("block", [1, 7, 150, 1 << 20])
def test_neighbors_are_gensims(
    block: int, vectors: Vectors, gensims: KeyedVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the matrix is cut into blocks: of one row, of some, all."""
    monkeypatch.setattr(module, "_BLOCK", block)
    for word in ("word0", "word7", "word499"):
        same(vectors.neighbors(word, top=12), gensims.most_similar(word, topn=12))


def test_analogies_are_gensims(vectors: Vectors, gensims: KeyedVectors) -> None:
    for a, b, c in (("word1", "word2", "word3"), ("word9", "word9", "word4"), ("word30", "word200", "word77")):
        same(vectors.analogy(a, b, c, top=8), gensims.most_similar(positive=[b, c], negative=[a], topn=8))


def test_similarities_and_neighbors_of_a_vector_are_gensims(vectors: Vectors, gensims: KeyedVectors) -> None:
    assert vectors.similarity("word5", "word6") == pytest.approx(gensims.similarity("word5", "word6"), abs=1e-6)
    asked = np.linspace(-1, 1, DIM)
    same(vectors.neighbors(asked, top=5), gensims.similar_by_vector(asked.astype(np.float32), topn=5))


def test_scores_are_gensims(vectors: Vectors, gensims: KeyedVectors, tmp_path: Path) -> None:
    """Analogies and judgements, with words that neither has."""
    draw = np.random.default_rng(1)
    drawn = [[f"WORD{row}" if row else "nowhere" for row in draw.integers(0, 60, 4)] for _ in range(400)]
    asked = [four for four in drawn if len(set(four)) == 4]
    # Half of them with the right answer, so that the score is not near 0.
    for four in asked[::2]:
        if "nowhere" not in four:
            four[3] = vectors.analogy(*(word.lower() for word in four[:3]), top=1)[0].word
    lines = [": one", *(" ".join(four) for four in asked[:200]), ": two", *(" ".join(four) for four in asked[200:])]
    (tmp_path / "questions.txt").write_text("\n".join(lines) + "\n")
    pairs = [(f"word{a}", f"word{b}", round(float(draw.random()), 3)) for a, b in draw.integers(0, 600, (300, 2))]
    (tmp_path / "judged.tsv").write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in pairs))
    scores = vectors.evaluate([tmp_path / "questions.txt", tmp_path / "judged.tsv"])
    accuracy, _ = gensims.evaluate_word_analogies(str(tmp_path / "questions.txt"))
    assert 0.2 < accuracy < 0.9 and scores["questions"] == pytest.approx(accuracy)
    rho = gensims.evaluate_word_pairs(str(tmp_path / "judged.tsv"))[1].statistic
    assert scores["judged"] == pytest.approx(rho, abs=1e-6)
    assert vectors.evaluate(tmp_path / "judged.tsv") == {"judged": scores["judged"]}


# Against brute force


def test_many_words_at_once_are_each_alone(vectors: Vectors, matrix: np.ndarray) -> None:
    units = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-30)
    asked = ["word3", matrix[8], "word12"]
    neighbors = vectors.neighbors_of(asked, top=4)
    for one, row, near in zip(asked, (3, 8, 12), neighbors, strict=True):
        cosine = units.astype(np.float64) @ units[row]
        if isinstance(one, str):
            cosine[row] = -2
        assert [WORDS.index(n.word) for n in near] == np.argsort(-cosine, kind="stable")[:4].tolist()
    assert vectors.neighbors_of([]) == []


def test_of_equals_the_earlier_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 4)
    made = Vectors(list("abcdefg"), np.array([[1, 0], [0, 1], [1, 0], [1, 0], [1, 1], [1, 0], [1, 0]], np.float32))
    assert [one.word for one in made.neighbors("a", top=3)] == ["c", "d", "f"]


def test_there_are_never_more_than_there_are() -> None:
    made = Vectors(["a", "b", "c"], np.eye(3, dtype=np.float32))
    assert len(made.neighbors("a", top=10)) == 2
    assert made.analogy("a", "b", "c", top=10) == []
    with pytest.raises(CanonError, match="top must be a positive whole number, got 0"):
        made.neighbors("a", top=0)


def test_half_precision_is_the_same_but_for_rounding(vectors: Vectors, matrix: np.ndarray) -> None:
    half = Vectors(WORDS, matrix.astype(np.float16))
    assert half.neighbors("word5", 1)[0].word == vectors.neighbors("word5", 1)[0].word
    assert half.similarity("word5", "word6") == pytest.approx(vectors.similarity("word5", "word6"), abs=2e-3)
    assert half.vector("word5").dtype == np.float32


def test_zeros_and_nan_are_near_to_nothing(matrix: np.ndarray) -> None:
    spoiled = matrix.copy()
    spoiled[7] = np.nan
    made = Vectors(WORDS, spoiled)
    assert made.similarity("word100", "word1") == 0
    assert "word7" not in [one.word for one in made.neighbors("word1", top=COUNT)]


# Words that are not there


def test_an_unknown_word_is_reported_with_near_ones(vectors: Vectors) -> None:
    with pytest.raises(CanonError) as caught:
        vectors.vector("wrd12")
    assert (
        str(caught.value) == 'This set of vectors has no word "wrd12"; the nearest spellings are word12, word1, word2.'
    )
    with pytest.raises(CanonError, match='has no word "北京"; it has 500 others'):
        vectors.neighbors("北京")
    assert "word3" in vectors and "wrd3" not in vectors and 3 not in vectors


def test_subwords_make_a_vector_where_there_are_some(matrix: np.ndarray) -> None:
    made = Vectors(WORDS, matrix, subwords=lambda word: matrix[3] if word.startswith("w") else None)
    assert np.array_equal(made.vector("wxyz"), matrix[3])
    assert made.neighbors("wxyz", 1)[0].word == "word3"  # which is not left out: it is another word
    with pytest.raises(CanonError, match='has no word "xyz"'):
        made.vector("xyz")
    strict = Vectors(WORDS, matrix, subwords=lambda _: matrix[3], unknown="error")
    with pytest.raises(CanonError, match='has no word "wxyz"'):
        strict.vector("wxyz")
    with pytest.raises(CanonError, match="No way with unknown words"):
        Vectors(WORDS, matrix, unknown="guess")  # type: ignore[arg-type]


def test_fasttexts_file_knows_words_it_never_saw(tmp_path: Path) -> None:
    """Their neighbours are those of fasttext's own vector."""
    fasttext = pytest.importorskip("fasttext")
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog sat there\n" * 60)
    model = fasttext.train_unsupervised(str(tmp_path / "text.txt"), dim=8, minCount=1, bucket=200, epoch=2, verbose=0)
    model.save_model(str(tmp_path / "model.bin"))
    loaded = canon.load(tmp_path / "model.bin")
    assert isinstance(loaded, Vectors)
    assert np.allclose(loaded.vector("cats"), model.get_word_vector("cats"), atol=1e-6)
    known = np.stack([model.get_word_vector(word) for word in loaded.words])
    asked = model.get_word_vector("cats")
    cosine = known @ asked / np.linalg.norm(known, axis=1) / np.linalg.norm(asked)
    same(loaded.neighbors("cats", 3), [(loaded.words[int(row)], cosine[row]) for row in np.argsort(-cosine)[:3]])
    with pytest.raises(CanonError, match='has no word "cats"; the nearest spellings are cat'):
        Vectors.open(tmp_path / "model.bin", unknown="error").vector("cats")


# Loading


def test_load_gives_vectors_of_a_file(matrix: np.ndarray, tmp_path: Path) -> None:
    write(tmp_path / "a.bin", "word2vec", WORDS, matrix)
    loaded = canon.load(tmp_path / "a.bin", limit=50)
    assert isinstance(loaded, Vectors) and len(loaded) == 50 and loaded.dim == DIM
    assert np.array_equal(loaded["word9"], matrix[9])
    assert repr(loaded) == f"Vectors(50 words of {DIM} numbers, {tmp_path}/a.bin)"
    with pytest.raises(CanonError, match="There is no run"):
        canon.load(tmp_path / "none")
    with pytest.raises(CanonError, match="is not a file of word vectors, which alone has the option limit"):
        canon.load(tmp_path, limit=3)


def test_a_mapped_file_stays_mapped(matrix: np.ndarray, tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", "safetensors", WORDS, matrix)
    opened = Vectors.open(tmp_path / "a.safetensors")
    assert isinstance(opened.matrix, np.memmap)
    assert [one.word for one in opened.neighbors("word5", 3)] == [
        one.word for one in Vectors(WORDS, matrix).neighbors("word5", 3)
    ]


def test_words_and_vectors_must_be_as_many(matrix: np.ndarray) -> None:
    with pytest.raises(CanonError, match=r"3 words do not fit a matrix of shape \[500, 20\]"):
        Vectors(WORDS[:3], matrix)
    with pytest.raises(CanonError, match=r"has 20 numbers, got shape \[3\]"):
        Vectors(WORDS, matrix).neighbors([1.0, 2.0, 3.0])
