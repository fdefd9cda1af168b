"""BLEU against sacrebleu and hand counts; answers against the official SQuAD rules; entities against seqeval."""

from __future__ import annotations

import math
import re
import string
import warnings
from collections import Counter

import numpy as np
import pytest
import sacrebleu
import seqeval.metrics as seq
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as seqeval_scores

from canon import metrics
from canon.errors import CanonError

HYPOTHESES = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
REFERENCES = [
    ["The dog bit the man.", "The dog had bit the man."],
    ["It was not surprising.", "No one was surprised."],
    ["The man bit him first.", "The man had bitten the dog."],
]


@pytest.mark.parametrize(
    "options",
    [{}, {"tokenize": "char"}, {"tokenize": "zh"}, {"lowercase": True}, {"smooth": "floor"}],
)
def test_corpus_bleu_equals_sacrebleu_and_carries_its_signature(options):
    ours = metrics.corpus_bleu(HYPOTHESES, REFERENCES, **options)
    names = {"smooth": "smooth_method"}
    theirs = sacrebleu.BLEU(**{names.get(k, k): v for k, v in options.items()})
    result = theirs.corpus_score(HYPOTHESES, [list(stream) for stream in zip(*REFERENCES, strict=True)])
    assert ours.score == result.score
    assert ours.signature == str(theirs.get_signature())
    assert "nrefs:2" in ours.signature and ours.signature in str(ours)
    assert (ours.brevity_penalty, ours.hypothesis_length) == (result.bp, result.sys_len)


def test_corpus_bleu_takes_one_reference_or_a_varying_number():
    single = [r[0] for r in REFERENCES]
    assert metrics.corpus_bleu(HYPOTHESES, single).score == sacrebleu.corpus_bleu(HYPOTHESES, [single]).score
    ragged = [REFERENCES[0], REFERENCES[1][:1], REFERENCES[2]]
    streams = [single, [REFERENCES[0][1], None, REFERENCES[2][1]]]
    expected = sacrebleu.BLEU().corpus_score(HYPOTHESES, streams).score
    assert metrics.corpus_bleu(HYPOTHESES, ragged).score == expected


def test_corpus_bleu_worked_example():
    # A perfect copy scores 100; the hand count for one changed word: p = 3/4, 1/3, then exp smoothing.
    assert metrics.corpus_bleu(["a b c d e"], ["a b c d e"]).score == pytest.approx(100)
    assert metrics.corpus_bleu(["a b c x"], ["a b c d"], smooth="none").precisions[:2] == pytest.approx((75, 200 / 3))


@pytest.mark.parametrize(
    ("hypothesis", "reference", "order", "expected"),
    [
        ("va !", "va !", 2, 1.0),
        # Dive into Deep Learning's translations: 'j'ai perdu .' for 'j'ai perdu .', and a wrong ending.
        ("il est calme .", "il est calme .", 2, 1.0),
        # p1 = 4/5, p2 = 3/4: (4/5)^(1/2) · (3/4)^(1/4), no brevity penalty.
        ("il est bon . .", "il est bon .", 2, (4 / 5) ** 0.5 * (3 / 4) ** 0.25),
        # p1 = 1, p2 = 1 but half the length: exp(1 − 4/2).
        ("a b", "a b c d", 2, math.exp(-1)),
        # Orders above the hypothesis length are left out: only p1, p2 exist.
        ("a b", "a b", 4, 1.0),
        # Repeated words count only as often as the reference has them: p1 = 1/3.
        ("a a a", "a b c", 1, (1 / 3) ** 0.5),
        ("x y", "a b", 2, 0.0),
        ("", "a", 2, 0.0),
    ],
)
def test_sequence_bleu_equals_hand_counts(hypothesis, reference, order, expected):
    value = metrics.sequence_bleu(hypothesis.split(), reference.split(), max_order=order)
    assert value == pytest.approx(expected, rel=1e-14)


@given(st.lists(st.sampled_from("abc"), min_size=4, max_size=12), st.lists(st.sampled_from("abc"), min_size=1))
@settings(max_examples=100)
def test_sequence_bleu_equals_the_formula_with_counting_by_removal(hypothesis, reference):
    """The book counts matches by taking n-grams out of a pool; the library intersects counters."""
    score = math.exp(min(0, 1 - len(reference) / len(hypothesis)))
    for n in range(1, 5):
        pool = Counter("".join(reference[i : i + n]) for i in range(len(reference) - n + 1))
        matches = 0
        for i in range(len(hypothesis) - n + 1):
            gram = "".join(hypothesis[i : i + n])
            if pool[gram] > 0:
                matches += 1
                pool[gram] -= 1
        score *= (matches / (len(hypothesis) - n + 1)) ** (0.5**n)
    assert metrics.sequence_bleu(hypothesis, reference) == pytest.approx(score, rel=1e-13, abs=1e-300)


def official_normalise(text):
    """The steps of SQuAD's evaluation as its documentation lists them, one after another."""
    text = "".join(ch for ch in text.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def official_f1(prediction, reference):
    guess, truth = official_normalise(prediction).split(), official_normalise(reference).split()
    if not guess or not truth:
        return float(guess == truth)
    same = sum((Counter(guess) & Counter(truth)).values())
    if same == 0:
        return 0.0
    p, r = same / len(guess), same / len(truth)
    return 2 * p * r / (p + r)


answers = st.lists(
    st.sampled_from(["The", "a", "cat,", "CAT", "sat.", "on", "mat", "an", "U.S.", "--", "x-y"]), max_size=6
).map(" ".join)


@given(answers, st.lists(answers, min_size=1, max_size=3))
@settings(max_examples=150)
def test_exact_match_and_f1_equal_the_official_definition(prediction, references):
    expected = max(official_f1(prediction, r) for r in references)
    assert metrics.token_f1(prediction, references) == pytest.approx(expected, abs=1e-15)
    assert metrics.exact_match(prediction, references) == max(
        float(official_normalise(prediction) == official_normalise(r)) for r in references
    )


def test_span_worked_examples():
    assert metrics.exact_match("The Eiffel Tower!", "eiffel tower") == 1.0
    # P = 2/3, R = 1 → F1 = 0.8, and the best of two references is taken.
    assert metrics.token_f1("big Eiffel tower", ["Paris", "the Eiffel Tower"]) == pytest.approx(0.8)
    result = metrics.span_scores(["Paris", "in 1889"], ["Paris", ["1889", "the year 1889"]])
    assert (result.exact_match, result.count) == (0.5, 2)
    assert result.f1 == pytest.approx((1 + 2 / 3) / 2)


def test_chinese_answers_are_compared_by_character_when_asked():
    # Two of four characters shared with three: F1 = 2·2/(4+3); as words nothing matches.
    assert metrics.token_f1("北京大学", "北京市", tokenise="characters") == pytest.approx(4 / 7)
    assert metrics.token_f1("北京大学", "北京市") == 0.0
    assert metrics.token_f1("北京大学", "北京市", tokenise=list) == pytest.approx(4 / 7)
    # Mixed text: each Han character, and each Latin word, is one token.
    assert metrics.token_f1("BERT模型", "bert 模型", tokenise="characters") == 1.0
    assert metrics.exact_match("《红楼梦》。", "红楼梦") == 0.0
    assert metrics.exact_match("《红楼梦》。", "红楼梦", punctuation="unicode") == 1.0


def test_no_answer_questions_follow_the_argument():
    assert metrics.token_f1("", []) == 1.0  # SQuAD 2.0
    assert metrics.token_f1("", [], both_empty=0.0) == 0.0  # the 1.1 script
    assert metrics.token_f1("something", []) == 0.0
    assert metrics.exact_match("the", []) == 1.0  # nothing is left of it


def random_tags(rng, letters, sentences):
    tags = ["O", *(f"{letter}-{kind}" for letter in letters for kind in ("PER", "LOC", "X-Y"))]
    return [list(rng.choice(tags, rng.integers(1, 15))) for _ in range(sentences)]


@pytest.mark.parametrize("letters", ["BI", "BIES"])
@pytest.mark.parametrize("seed", range(5))
def test_entity_scores_equal_seqeval_on_well_and_ill_formed_tags(letters, seed):
    rng = np.random.default_rng(seed)
    labels = random_tags(rng, letters, 40)
    predictions = [[t if rng.random() < 0.6 else "O" for t in s] for s in labels]
    for i, noise in enumerate(random_tags(rng, letters, 10)):  # and ten sentences that have nothing in common
        predictions[i] = (noise + ["O"] * len(labels[i]))[: len(labels[i])]
    ours = metrics.entity_scores(labels, predictions)
    assert [metrics.entities(s) for s in labels] == [get_entities(list(map(str, s))) for s in labels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("micro", "macro", "weighted"):
            p, r, f, n = seqeval_scores(labels, predictions, average=name)
            mine = getattr(ours, name)
            np.testing.assert_allclose([mine.precision, mine.recall, mine.f1], [p, r, f], atol=1e-14)
            assert mine.support == n
        report = seq.classification_report(labels, predictions, output_dict=True)
    for kind, score in ours.by_type.items():
        expected = report[kind]
        np.testing.assert_allclose(
            [score.precision, score.recall, score.f1, score.support],
            [expected[key] for key in ("precision", "recall", "f1-score", "support")],
            atol=1e-14,
        )


def test_entity_hand_count_and_empty_case():
    labels = [["B-PER", "I-PER", "O", "B-LOC"]]
    # The person is cut short (wrong), the place is right: P = R = F1 = ½ micro.
    result = metrics.entity_scores(labels, [["B-PER", "O", "O", "S-LOC"]])
    assert result.micro.f1 == 0.5 and result.by_type["PER"].f1 == 0.0 and result.by_type["LOC"].f1 == 1.0
    nothing = metrics.entity_scores([["O"]], [["O"]], zero_division=1.0)
    assert nothing.micro.f1 == nothing.macro.f1 == 1.0 and nothing.by_type == {}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.corpus_bleu(["a"], ["a", "b"]), "same length"),
        (lambda: metrics.corpus_bleu("a", ["a"]), "must be a list, got 'a'"),
        (lambda: metrics.corpus_bleu(["a"], [[]]), "no reference for hypothesis 0"),
        (lambda: metrics.corpus_bleu([], []), "are empty"),
        (lambda: metrics.corpus_bleu(["a"], ["a"], tokenize="nope"), "tokenize='nope'"),
        (lambda: metrics.sequence_bleu("a b", ["a"]), "must be a list, got 'a b'"),
        (lambda: metrics.sequence_bleu(["a"], []), "reference is empty"),
        (lambda: metrics.sequence_bleu(["a"], ["a"], max_order=0), "positive whole number"),
        (lambda: metrics.token_f1("a", "b", tokenise="letters"), 'No tokenise "letters"'),
        (lambda: metrics.span_scores(["a"], []), "same length"),
        (lambda: metrics.entity_scores([["O"]], [["O", "O"]]), "sentence 0 has 1 labels but 2"),
        (lambda: metrics.entity_scores([["PER"]], [["O"]]), 'tag "PER" at position 0'),
        (lambda: metrics.entity_scores(["O"], ["O"]), "must be a list, got 'O'"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(CanonError) as caught:
        call()
    assert words in str(caught.value)
