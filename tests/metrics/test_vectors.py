"""Word-vector tests against gensim's KeyedVectors on the same files."""

from __future__ import annotations

import numpy as np
import pytest
from gensim.models import KeyedVectors

from canon import metrics
from canon.errors import CanonError

SIZE, DIM = 300, 12


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghij"))
    result = dict.fromkeys("".join(rng.choice(letters, 3)) for _ in range(2000))
    plain = list(result)[: SIZE - 40]
    # Forty case variants, scattered, so that a folded form has several vectors.
    variants = [w.capitalize() for w in plain[:40]]
    return list(rng.permutation(plain + variants))


@pytest.fixture(scope="module")
def vectors(words):
    """Random, with planted offsets so that some analogies hold."""
    rng = np.random.default_rng(1)
    place = {word: i for i, word in enumerate(words)}
    matrix = rng.normal(size=(len(words), DIM)).astype(np.float32)
    half = len(words) // 2
    matrix[half:] = matrix[: len(words) - half] + 2 + 0.5 * rng.normal(size=(len(words) - half, DIM))
    for word, i in place.items():
        if word != word.lower():  # a case variant lies beside its plain form, so it would win if not excluded
            matrix[i] = matrix[place[word.lower()]] + 0.01 * rng.normal(size=DIM)
    return matrix


@pytest.fixture(scope="module")
def keyed(words, vectors):
    result = KeyedVectors(DIM)
    result.add_vectors(words, vectors)
    return result


@pytest.fixture(scope="module")
def questions(words, tmp_path_factory):
    rng = np.random.default_rng(2)
    half = len(words) // 2
    lines = []
    for section in ("capital-common", "gram1 plural", "nothing-known"):
        lines.append(f": {section}")
        for _ in range(120):
            i, j = rng.integers(0, half, 2)
            if section == "nothing-known":
                lines.append(f"zzz {words[i]} {words[j]} {words[i]}")
            else:
                row = [words[i], words[half + i], words[j], words[half + j]]
                lines.append(" ".join(w.upper() if rng.random() < 0.2 else w for w in row))
    path = tmp_path_factory.mktemp("questions") / "questions-words.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("case", ["upper", "keep"])
@pytest.mark.parametrize("restrict", [300_000, 200])
@pytest.mark.parametrize("unknown", ["skip", "wrong"])
@pytest.mark.parametrize("block", [2**24, 1000])
def test_analogies_equal_gensim_section_by_section(words, vectors, keyed, questions, case, restrict, unknown, block):
    ours = metrics.analogy_accuracy(
        vectors, words, questions, restrict_vocab=restrict, case=case, unknown=unknown, block_elements=block
    )
    score, sections = keyed.evaluate_word_analogies(
        str(questions), restrict_vocab=restrict, case_insensitive=case == "upper", dummy4unknown=unknown == "wrong"
    )
    assert ours.accuracy == pytest.approx(score, abs=1e-15)
    assert 0 < ours.accuracy < 1
    for section in sections[:-1]:
        mine = ours.sections[section["section"]]
        assert mine.correct == len(section["correct"])
        assert mine.asked == len(section["correct"]) + len(section["incorrect"])
    assert ours.sections["nothing-known"].unknown == 120


def test_three_cos_add_excludes_the_question_words_and_normalises_first():
    # b − a + c is nearest to b itself here; the answer is the nearest word that is not in the question.
    words = ["a", "b", "c", "d", "e"]
    vectors = np.array([[1, 0.1], [0, 9], [1, 0.2], [0.2, 1], [-1, 0]])
    result = metrics.analogy_accuracy(vectors, words, {"s": [("a", "b", "c", "d"), ("a", "b", "c", "e")]})
    assert (result.sections["s"].correct, result.sections["s"].asked) == (1, 2)


@pytest.fixture(scope="module")
def pairs(words, tmp_path_factory):
    rng = np.random.default_rng(3)
    lines = ["# word\tword\tjudgement"]
    for _ in range(150):
        i, j = rng.integers(0, len(words), 2)
        lines.append(f"{words[i].upper() if rng.random() < 0.3 else words[i]}\t{words[j]}\t{rng.integers(0, 11)}")
    lines += ["zzz\tabc\t3.5", "yyy\tzzz\t1"]
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("case", ["upper", "keep"])
@pytest.mark.parametrize("restrict", [300_000, 200])
@pytest.mark.parametrize("unknown", ["skip", "zero"])
def test_similarity_equals_gensim(words, vectors, keyed, pairs, case, restrict, unknown):
    ours = metrics.similarity_correlation(vectors, words, pairs, restrict_vocab=restrict, case=case, unknown=unknown)
    pearson, spearman, missing = keyed.evaluate_word_pairs(
        str(pairs), restrict_vocab=restrict, case_insensitive=case == "upper", dummy4unknown=unknown == "zero"
    )
    assert ours.spearman == pytest.approx(spearman[0], abs=1e-6)
    assert ours.spearman_p == pytest.approx(spearman[1], abs=1e-5)
    assert ours.pearson == pytest.approx(pearson[0], abs=1e-5)
    asked = ours.pairs + (ours.unknown if unknown == "skip" else 0)
    assert 100 * ours.unknown / asked == pytest.approx(missing)


def test_readers_name_the_line_that_is_wrong(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text(": section\na b c d\na b c\n")
    with pytest.raises(CanonError, match=r"bad.txt, line 3: the question has 3 words"):
        metrics.read_analogies(path)
    path.write_text("a b c d\n")
    with pytest.raises(CanonError, match="no section line above it"):
        metrics.read_analogies(path)
    path.write_text("a\tb\tmany\n")
    with pytest.raises(CanonError, match="line 1: expected two words and a number"):
        metrics.read_pairs(path)


def test_bad_input_is_one_sentence(words, vectors):
    question = {"s": [(words[0], words[1], words[2], words[3])]}
    for call, expected in (
        (lambda: metrics.analogy_accuracy(vectors, words[:-1], question), "same length"),
        (lambda: metrics.analogy_accuracy(vectors, words, {}), "questions is empty"),
        (lambda: metrics.analogy_accuracy(vectors, words, question, case="title"), 'No case "title"'),
        (lambda: metrics.analogy_accuracy(vectors, words, question, restrict_vocab=0), "restrict_vocab"),
        (lambda: metrics.analogy_accuracy(vectors * np.nan, words, question), "contains NaN"),
        (lambda: metrics.analogy_accuracy(vectors, words, {"s": [("a", "b", "c")]}), "3 words instead of 4"),
        (lambda: metrics.similarity_correlation(vectors, words, [("zz", "yy", 1.0)]), "at least 2 are needed"),
        (lambda: metrics.similarity_correlation(vectors, words, [], unknown="drop"), 'No unknown "drop"'),
    ):
        with pytest.raises(CanonError) as caught:
            call()
        assert expected in str(caught.value)
