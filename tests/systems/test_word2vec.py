"""word2vec against its formulas in numpy (float64), a reference Huffman code, χ² of its noise, and gensim."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from canon.contracts import Context, World
from canon.data.corpus.corpus import MARK, Corpus
from canon.data.encodings.word_ids import WordIdSchema
from canon.data.formats import word_tests
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.kernels.cpu import word2vec as kernels
from canon.systems.words.base import VectorLearner, in_lines, spans
from canon.systems.words.sampling import alias_table, huffman, keep_shares, noise_shares
from canon.systems.words.word2vec import Config, Word2Vec
from canon.tasks.word_vectors import WordVectors
from tests.learners import data_of
from tests.objectives.choices import choice

WAYS = [
    pytest.param({"architecture": "skip-gram", "update": "window"}, id="window"),
    pytest.param({"architecture": "skip-gram", "update": "pair"}, id="pair"),
    pytest.param({"architecture": "cbow"}, id="cbow"),
]
LOSSES = [
    pytest.param({"negatives": 2}, id="2 negatives"),
    pytest.param({"negatives": 5}, id="5 negatives"),
    pytest.param({"negatives": 8}, id="8 negatives"),
    pytest.param({"loss": "hierarchical-softmax"}, id="tree"),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def corpus_of(size: int = 600, vocabulary: int = 83) -> Corpus:
    """A text in which no word comes twice in a window, with sentences of unequal length; frequent words first."""
    order = np.random.default_rng(5).permutation(vocabulary)
    tokens = np.resize(order, size).astype(np.int32)
    tokens[[7, 8 + vocabulary, 8 + 2 * vocabulary, size - 20]] = MARK
    counts = (1000 / np.arange(1, vocabulary + 1)).astype(np.int64) + 1
    words = Words([f"w{i}" for i in range(vocabulary)], counts, int(counts.sum()))
    return Corpus(tokens, words)


def learner_of(corpus: Corpus, batch: int = 600, steps: int = 2, seed: int = 3, **changes: object) -> Word2Vec:
    settings = {"dim": 20, "window": 3, "subsample": 0.02, "lr": 0.3, **changes}
    learner = Word2Vec(Config(vocab_size=corpus.words.size, **settings), Context(seed=seed))  # type: ignore[arg-type]
    learner.begin(data_of({"input": corpus}), batch, steps)
    return learner


def topics(sentences: int = 3000) -> Corpus:
    """Sentences of six words, all of one of five topics of twenty words; some words are far more frequent."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, 21)
    rows = random.choice(20, (sentences, 6), p=shares / shares.sum()) + 20 * random.integers(0, 5, (sentences, 1))
    counts = np.bincount(rows.ravel(), minlength=100)
    order = np.argsort(-counts, kind="stable")
    rank = np.argsort(order)
    tokens = np.column_stack([rank[rows], np.full(sentences, MARK)]).astype(np.int32).ravel()
    words = Words([f"t{i // 20}w{i % 20}" for i in order], counts[order].astype(np.int64), int(counts.sum()))
    return Corpus(tokens, words)


# ---- the formulas, word by word


class Reference:
    """What the kernels must do, in Python and float64."""

    def __init__(self, learner: Word2Vec, corpus: Corpus) -> None:
        self.config = learner.config
        self.tokens = corpus.tokens.tolist()
        self.input, self.output = (learner.arrays[name].astype(np.float64) for name in ("input", "output"))
        self.keep = keep_shares(corpus.words.counts, self.config.subsample)
        self.noise = alias_table(noise_shares(corpus.words.counts))
        self.tree = huffman(corpus.words.counts) if self.config.loss == "hierarchical-softmax" else None
        self.loss, self.pairs = 0.0, 0

    def read(self, seed: int, epoch: int, place: int, places: int, learning: bool) -> None:
        """One pass over the text, whose first token is number `place` of `places` in all."""
        key, size = splitmix_key(seed, epoch), len(self.tokens)
        drawn = [mixed(key + p * GOLDEN) for p in range(size)]
        kept = [t == MARK or (r >> 32) / 2**32 < self.keep[t] for t, r in zip(self.tokens, drawn, strict=True)]
        at = [p for p in range(size) if kept[p]]
        for i, p in enumerate(at):
            if self.tokens[p] == MARK:
                continue
            reach = 1 + ((drawn[p] & 0xFFFFFFFF) * self.config.window >> 32)
            left = list(until_mark(self.tokens[q] for q in reversed(at[max(0, i - reach) : i])))
            right = list(until_mark(self.tokens[q] for q in at[i + 1 : i + 1 + reach]))
            if left or right:
                lr = self.config.lr * max(1 - (place + p) / places, self.config.min_lr) if learning else 0.0
                self.learn(self.tokens[p], left + right, drawn[p], lr)

    def learn(self, word: int, contexts: list[int], bits: int, lr: float) -> None:
        if self.config.architecture == "cbow":
            change, _ = self.one(self.input[contexts].mean(axis=0), *self.outputs(word, bits)[0], lr)
            self.input[contexts] += change
            self.pairs += 1
        elif self.config.update == "pair":
            for context in contexts:
                (rows, signs), bits = self.outputs(word, bits)
                change, _ = self.one(self.input[context], rows, signs, lr)
                self.input[context] += change
            self.pairs += len(contexts)
        else:
            rows, signs = self.outputs(word, bits)[0]
            changes, moves = zip(
                *[self.one(self.input[context], rows, signs, lr, apart=True) for context in contexts], strict=True
            )
            self.input[contexts] += changes
            np.add.at(self.output, rows, np.sum(moves, axis=0))
            self.pairs += len(contexts)

    def outputs(self, word: int, bits: int) -> tuple[tuple[list[int], list[int]], int]:
        """Rows of the outputs and their signs, and the bits to go on from."""
        if self.tree is not None:
            way = slice(self.tree.starts_V[word], self.tree.starts_V[word + 1])
            return (self.tree.nodes_L[way].tolist(), (1 - 2 * self.tree.turns_L[way].astype(int)).tolist()), bits
        rows, signs = [word], [1]
        for _ in range(self.config.negatives):
            bits = (bits + GOLDEN) % 2**64
            draw = mixed(bits)
            row = (draw >> 32) * len(self.noise.other_V) >> 32
            row = row if (draw & 0xFFFFFFFF) < int(self.noise.threshold_V[row]) else int(self.noise.other_V[row])
            rows.append(row)
            signs.append(-1 if row != word else 0)
        return (rows, signs), bits

    def one(self, x: np.ndarray, rows: list[int], signs: list[int], lr: float, apart: bool = False) -> tuple:
        """What x is to move by, and each output; the outputs move at once unless they are wanted apart."""
        s = np.array(signs)
        dots = s * (self.output[rows] @ x)
        self.loss += np.logaddexp(0, -dots)[s != 0].sum()
        g = lr * s / (1 + np.exp(dots))
        change, moves = np.zeros_like(x), np.outer(g, x)
        for k, row in enumerate(rows):
            change += g[k] * self.output[row]
            if not apart:
                self.output[row] += moves[k]
        return change, moves


GOLDEN = 0x9E3779B97F4A7C15


def mixed(x: int) -> int:
    x %= 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def splitmix_key(seed: int, epoch: int) -> int:
    return mixed(mixed(seed + GOLDEN) + epoch * GOLDEN)


def until_mark(tokens: Iterator[int]) -> Iterator[int]:
    for token in tokens:
        if token == MARK:
            return
        yield token


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("way", WAYS)
def test_learns_as_the_formulas_say(way: dict, loss: dict) -> None:
    """Vectors, loss and pairs after two epochs against the same in numpy."""
    corpus = corpus_of()
    learner = learner_of(corpus, **way, **loss)
    reference = Reference(learner, corpus)
    for epoch in (0, 1):
        learner.step(epoch + 1)
        reference.read(3, epoch, 600 * epoch, 1200, learning=True)
    assert np.abs(reference.input).max() > 0.1, "something was learned"
    np.testing.assert_allclose(learner.arrays["input"], reference.input, atol=2e-5)
    np.testing.assert_allclose(learner.arrays["output"], reference.output, atol=2e-5)
    state = learner.state()
    assert state["pairs"] == reference.pairs
    assert learner.logs()["loss"] == pytest.approx(reference.loss / reference.pairs, rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("way", WAYS)
def test_loss_is_that_of_a_direct_computation(way: dict, loss: dict) -> None:
    """−log σ(v·u) − Σ log σ(−v·u_k), or −Σ log σ over a way, of given vectors, with the noise of seed 0; also where
    dot products are large."""
    corpus = corpus_of()
    learner = learner_of(corpus, **way, **loss)
    random = np.random.default_rng(1)
    for array in learner.arrays.values():
        array[:] = random.normal(size=array.shape)
    before = {name: array.copy() for name, array in learner.arrays.items()}
    outputs = learner.outputs({"input": corpus})
    reference = Reference(learner, corpus)
    reference.read(0, 0, 0, 1, learning=False)
    assert outputs["loss"].sum().item() == pytest.approx(reference.loss, rel=1e-6)
    assert outputs["pairs"].sum().item() == reference.pairs
    assert reference.loss / reference.pairs > 3
    for name, array in before.items():
        np.testing.assert_array_equal(learner.arrays[name], array)


def test_what_lies_between_rows_stays_zero() -> None:
    corpus = corpus_of()
    learner = learner_of(corpus, dim=19)
    learner.step(1)
    for array in learner.arrays.values():
        assert array.ctypes.data % 64 == 0 and array.strides[0] == 128
        assert not np.lib.stride_tricks.as_strided(array, (len(array), 32))[:, 19:].any()


# ---- draws


def test_noise_is_in_proportion_to_counts_to_the_three_quarters() -> None:
    """A million draws of the kernel against count^¾ by χ²; a table of plain counts is noticed."""
    counts = (50_000 / np.arange(1, 301) ** 1.1).astype(np.int64) + 1
    shares = noise_shares(counts)
    assert shares == pytest.approx(counts**0.75 / (counts**0.75).sum())
    drawn = kernels.draw_noise(1, 1_000_000, *alias_table(shares))
    seen = np.bincount(drawn, minlength=300)
    assert stats.chisquare(seen, 1_000_000 * shares).pvalue > 1e-3
    assert stats.chisquare(seen, 1_000_000 * counts / counts.sum()).pvalue < 1e-6


def test_alias_table_holds_the_shares_themselves() -> None:
    """What the table gives each word, summed over its rows, against the shares."""
    shares = noise_shares(np.sort(np.random.default_rng(2).zipf(1.4, 5000))[::-1])
    threshold, other = alias_table(shares)
    own = threshold / 2**32
    given = own.copy()
    np.add.at(given, other, 1 - own)
    np.testing.assert_allclose(given / len(shares), shares, atol=1e-12)


def test_words_are_kept_as_often_as_the_program_keeps_them() -> None:
    """min(1, √(t/f) + t/f): by hand for one word, and of what is drawn for 200,000 places by χ²."""
    counts = np.array([8000, 1500, 490, 10])
    share = 0.8
    assert keep_shares(counts, 1e-2)[0] == pytest.approx(math.sqrt(1e-2 / share) + 1e-2 / share)
    assert keep_shares(counts, 1e-2)[3] == 1 and (keep_shares(counts, 0.0) == 1).all()
    key = np.uint64(kernels.key_of(4, 0))
    bits = np.array([int(kernels.drawn_at(key, place)) >> 32 for place in range(200_000)])
    kept = (bits / 2**32 < keep_shares(counts, 1e-2)[0]).sum()
    expected = 200_000 * keep_shares(counts, 1e-2)[0]
    assert stats.chisquare([kept, 200_000 - kept], [expected, 200_000 - expected]).pvalue > 1e-3


def test_windows_reach_each_distance_as_often() -> None:
    key = np.uint64(kernels.key_of(9, 2))
    reach = [int(kernels.reach_of(np.uint64(kernels.drawn_at(key, place)), 5)) for place in range(100_000)]
    seen = np.bincount(reach, minlength=6)
    assert seen[0] == 0 and len(seen) == 6
    assert stats.chisquare(seen[1:]).pvalue > 1e-3


# ---- the tree


def reference_lengths(counts: np.ndarray) -> list[int]:
    """Huffman's code lengths by a heap, words before joined nodes where weights are equal."""
    heap = [(int(count), 0, -i, [i]) for i, count in enumerate(counts)]
    heapq.heapify(heap)
    lengths, made = [0] * len(counts), 0
    while len(heap) > 1:
        (a, _, _, one), (b, _, _, two) = heapq.heappop(heap), heapq.heappop(heap)
        for leaf in one + two:
            lengths[leaf] += 1
        made += 1
        heapq.heappush(heap, (a + b, 1, made, one + two))
    return lengths


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
def test_code_lengths_are_huffmans(size: int) -> None:
    counts = np.sort(np.random.default_rng(size).zipf(1.5, size).clip(max=10**6))[::-1]
    tree = huffman(counts)
    assert tree.lengths_V.tolist() == reference_lengths(counts)
    ways = [tuple(tree.turns_L[a:b]) for a, b in zip(tree.starts_V[:-1], tree.starts_V[1:], strict=True)]
    assert len(set(ways)) == size, "no two words have one code"


def test_code_does_not_ask_for_sorted_counts() -> None:
    counts = np.random.default_rng(1).permutation(np.arange(1, 200))
    assert huffman(counts).lengths_V.tolist() == reference_lengths(counts)


def test_probabilities_of_the_tree_sum_to_one() -> None:
    """Σ_w Π σ(± v·u) over all words, for vectors that were learned, and for large ones."""
    corpus = corpus_of()
    learner = learner_of(corpus, loss="hierarchical-softmax")
    learner.step(1)
    tree, output = learner._tree, learner.arrays["output"].astype(np.float64)
    for v in (learner.arrays["input"][0].astype(np.float64), 5 * np.ones(20)):
        turn = (1 - 2 * tree.turns_L.astype(int)) * (output @ v)[tree.nodes_L]
        likely = np.add.reduceat(-np.logaddexp(0, -turn), tree.starts_V[:-1])
        assert np.exp(likely).sum() == pytest.approx(1, abs=1e-6)


# ---- steps, threads, resume


@pytest.mark.parametrize("way", WAYS)
def test_where_steps_are_cut_changes_nothing(way: dict) -> None:
    """1,200 places in steps of 7 against steps of 400 and of 1,200, wrapping round the text: bit for bit."""
    corpus, result = corpus_of(500), []
    for batch in (7, 400, 1200):
        learner = learner_of(corpus, batch=batch, **way)
        learner.places = 1300
        for step in range(1, 1200 // batch + 1):
            learner.step(step)
        done = 1200 // batch * batch
        if done < 1200:  # what is left, as one span
            for span in spans(done, 1200, 500):
                learner.learn(span)
        result.append(learner.arrays)
    for arrays in result[1:]:
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, result[0][name])


def test_longer_texts_than_a_block_are_read_without_a_seam() -> None:
    """Two spans that meet inside a sentence against one, over more places than are read at once."""
    corpus = topics(6000)
    ones = learner_of(corpus, batch=40_000, steps=1)
    ones.step(1)
    halves = learner_of(corpus, batch=40_000, steps=1)
    for span in (*spans(0, 13_333, len(corpus)), *spans(13_333, 40_000, len(corpus))):
        halves.learn(span)
    np.testing.assert_array_equal(ones.arrays["input"], halves.arrays["input"])


def test_resumed_is_never_stopped() -> None:
    corpus = topics()
    whole, parts = (learner_of(corpus, batch=5000, steps=6) for _ in range(2))
    for step in range(1, 7):
        whole.step(step)
    for step in range(1, 4):
        parts.step(step)
    again = learner_of(corpus, batch=5000, steps=6, seed=3)
    again.restore({"model": {k: v.copy() for k, v in parts.tensors()["model"].items()}}, parts.state())
    for step in range(4, 7):
        again.step(step)
    assert again.logs() == whole.logs()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)


@pytest.mark.parametrize("way", WAYS)
def test_two_threads_read_all_and_learn_as_well(way: dict) -> None:
    """Of two threads: as many pairs as of one, and a loss within 2 % of it."""
    corpus, result = topics(), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        learner = learner_of(corpus, batch=7000, steps=30, lr=0.05, **way)
        for step in range(1, 31):
            learner.step(step)
        pairs = learner.state()["pairs"]
        loss = learner.outputs({"input": corpus})
        result.append((pairs, (loss["loss"].sum() / loss["pairs"].sum()).item()))
    assert result[0][0] == result[1][0]
    assert result[1][1] == pytest.approx(result[0][1], rel=0.02)


def test_outputs_do_not_depend_on_threads() -> None:
    corpus = topics(60_000)
    learner = learner_of(corpus, batch=1000)
    learner.step(1)
    one = learner.outputs({"input": corpus})
    learner.threads = 2
    two = learner.outputs({"input": corpus})
    assert len(one["loss"]) > 1
    assert np.array_equal(one["loss"], two["loss"]) and np.array_equal(one["pairs"], two["pairs"])


def test_rate_falls_linearly_to_its_least() -> None:
    corpus = topics(100)
    learner = learner_of(corpus, batch=70, steps=10, lr=0.4, min_lr=0.01)
    values = []
    for step in range(1, 11):
        learner.step(step)
        values.append(learner.logs()["lr"])
    assert values == pytest.approx([0.4 * max(1 - step / 10, 0.01) for step in range(1, 11)])


def test_seeds_differ() -> None:
    corpus = topics(100)
    first, second = (learner_of(corpus, batch=700, steps=1, seed=seed) for seed in (1, 2))
    assert not np.array_equal(first.arrays["input"], second.arrays["input"])
    assert np.abs(first.arrays["input"]).max() <= 0.5 / 20 and not first.arrays["output"].any()


# ---- quality


@pytest.mark.parametrize("loss", [LOSSES[1], LOSSES[3]])
@pytest.mark.parametrize("way", WAYS)
def test_words_of_a_topic_come_together(way: dict, loss: dict) -> None:
    """The nearest word of each by cosine is of its own topic, for 95 of 100 words at least."""
    corpus = topics()
    learner = learner_of(corpus, batch=7000, steps=30, subsample=1e-1, lr=0.05, **way, **loss)
    for step in range(1, 31):
        learner.step(step)
    unit = learner.vectors() / np.linalg.norm(learner.vectors(), axis=1, keepdims=True)
    likeness = unit @ unit.T
    np.fill_diagonal(likeness, -2)
    topic = [word[:2] for word in corpus.words.words]
    right = [topic[i] == topic[nearest] for i, nearest in enumerate(likeness.argmax(axis=1))]
    assert sum(right) >= 95


@pytest.mark.parametrize("way", WAYS)
def test_loss_is_that_of_gensim(way: dict) -> None:
    """Vectors that gensim learned with the same settings, measured here, against our own: within 3 %."""
    gensim = pytest.importorskip("gensim.models")
    corpus = topics()
    names = corpus.words.words
    lines = [[names[token] for token in line] for line in corpus.tokens.reshape(-1, 7)[:, :6]]
    cbow = way["architecture"] == "cbow"
    theirs = gensim.Word2Vec(
        lines, vector_size=20, window=3, min_count=1, sg=0 if cbow else 1, negative=5, sample=1e-1, alpha=0.05,
        min_alpha=0.05e-4, epochs=10, workers=1, seed=1,
    )  # fmt: skip
    learner = learner_of(corpus, batch=7000, steps=30, subsample=1e-1, lr=0.05, **way)
    for step in range(1, 31):
        learner.step(step)
    ours = learner.outputs({"input": corpus})
    rows = [theirs.wv.key_to_index[word] for word in names]
    learner.arrays["input"][:] = theirs.wv.vectors[rows]
    learner.arrays["output"][:] = theirs.syn1neg[rows]
    gensims = learner.outputs({"input": corpus})
    mine, other = ((o["loss"].sum() / o["pairs"].sum()).item() for o in (ours, gensims))
    assert mine < 0.8 * 6 * math.log(2)
    assert mine == pytest.approx(other, rel=0.03)


# ---- going on with other text


def test_goes_on_with_new_words() -> None:
    """Rows of known words are the earlier run's, by word; new ones begin as they would have."""
    corpus = topics()
    earlier = learner_of(corpus, batch=7000, steps=3)
    earlier.step(1)
    words = Words(["new", *reversed(corpus.words.words[:50])], np.arange(51, 0, -1), 51 * 26)
    text = Corpus(np.arange(51, dtype=np.int32), words)
    fresh = learner_of(text, batch=51)
    for when in ("before", "after"):
        later = Word2Vec(Config(vocab_size=51, dim=20), Context(seed=3))
        for action in ("adopt", "begin") if when == "before" else ("begin", "adopt"):
            if action == "begin":
                later.begin(data_of({"input": text}), 51, 2)
            else:
                later.take_words(words)
                later.adopt(earlier.tensors()["model"], corpus.words)
        for name in ("input", "output"):
            np.testing.assert_array_equal(later.arrays[name][1:], earlier.arrays[name][:50][::-1])
            np.testing.assert_array_equal(later.arrays[name][0], fresh.arrays[name][0])


def test_vectors_of_other_tools_begin_with_no_outputs() -> None:
    text = topics(100)
    learner = learner_of(text)
    learner.adopt({"input": torch.ones(1, 20)}, Words([text.words.words[7]], np.array([1]), 1))
    assert (learner.arrays["input"][7] == 1).all() and not learner.arrays["output"].any()


def test_nodes_of_another_tree_are_not_taken() -> None:
    corpus = topics()
    earlier = learner_of(corpus, batch=7000, steps=3, loss="hierarchical-softmax")
    earlier.step(1)
    later = learner_of(corpus, loss="hierarchical-softmax")
    later.adopt(earlier.tensors()["model"], corpus.words)
    np.testing.assert_array_equal(later.arrays["input"], earlier.arrays["input"])
    assert not later.arrays["output"].any()


def test_other_dimensions_are_refused_in_one_sentence() -> None:
    text = topics(100)
    with pytest.raises(CanonError, match=r"have 7 dimensions, but system\.dim is 20: set system\.dim=7"):
        learner_of(text).adopt({"input": torch.zeros(100, 7)}, text.words)


def test_pairwise_cbow_is_refused() -> None:
    with pytest.raises(CanonError, match=r"system\.update"):
        Word2Vec(Config(architecture="cbow", update="pair"), Context())


# ---- the task


def task_of(corpus: Corpus) -> WordVectors:
    return WordVectors(choice("negative-sampling", "word-vectors"), Config(), WordIdSchema(words=corpus.words))


def test_scores_are_the_mean_loss_and_the_tests() -> None:
    """loss = Σ loss / Σ pairs; ρ by scipy over the pairs that are known; analogies by hand."""
    corpus = topics(100)
    learner = learner_of(corpus)
    learner.step(1)
    words = corpus.words.words
    pairs = [(words[i], words[i + 1].upper(), float(i * 7 % 13)) for i in range(20)]
    questions = [(words[i], words[i + 1], words[i + 2], words[i + 3]) for i in range(30)]
    tests = word_tests.Tests(
        {"likeness": [*pairs, ("never", "seen", 1.0)]}, {"asked": {"": [*questions, ("a", "b", "c", "d")]}}
    )
    task, columns = task_of(corpus), {"input": corpus, "tests": tests}
    outputs = learner.outputs(columns)
    scores = task.score(outputs, columns)
    assert scores["loss"] == (outputs["loss"].sum() / outputs["pairs"].sum()).item()
    unit = learner.vectors() / np.linalg.norm(learner.vectors(), axis=1, keepdims=True)
    cosines = [unit[i] @ unit[i + 1] for i in range(20)]
    assert scores["likeness"] == pytest.approx(stats.spearmanr(cosines, [pair[2] for pair in pairs]).statistic)
    right = 0
    for i in range(30):
        likeness = unit @ (unit[i + 1] - unit[i] + unit[i + 2])
        likeness[i : i + 3] = -np.inf
        right += int(likeness.argmax() == i + 3)
    assert scores["asked"] == right / 30
    assert task.remarks == (
        "likeness: 20 of 21 pairs have words that are known.",
        "asked: 30 of 31 analogies have words that are known.",
    )


def test_tests_alone_have_no_loss() -> None:
    corpus = topics(100)
    learner = learner_of(corpus)
    columns = {"tests": word_tests.Tests({"likeness": [("a", "b", 1.0)]})}
    assert task_of(corpus).score(learner.outputs(columns), columns) == {}


def test_a_text_without_two_words_has_no_score() -> None:
    corpus = topics(100)
    alone = Corpus(corpus.tokens[:1], corpus.words)
    task = task_of(corpus)
    assert "loss" not in task.score(learner_of(corpus).outputs({"input": alone}), {"input": alone})
    assert "has no score: no two words are beside each other" in task.remarks[0]


def test_predictions_are_vectors() -> None:
    corpus = topics(100)
    learner = learner_of(corpus)
    outputs = learner.outputs({"input": np.array([corpus.words.words[2], "never"], dtype=object)})
    assert task_of(corpus).rows(outputs, {}, 1) == [{"vector": learner.arrays["input"][2].tolist()}, {"vector": None}]


def test_even_odds_are_where_training_begins() -> None:
    """(1 + K) log 2, for outputs of 0 and noise that never is the word: what the first step's loss is near to."""
    corpus = corpus_of()
    learner = learner_of(corpus, negatives=5)
    outputs = learner.outputs({"input": corpus})
    mean = (outputs["loss"].sum() / outputs["pairs"].sum()).item()
    floor = task_of(corpus).floors(np.zeros(0))["even odds"]
    assert floor == pytest.approx(6 * math.log(2))
    assert 0.9 * floor < mean <= floor


# ---- small things


def test_words_are_looked_up() -> None:
    """Of words: their vectors, and which are known."""
    corpus = topics(100)
    learner = learner_of(corpus)
    words = [corpus.words.words[3], "never-seen"]
    outputs = learner.outputs({"input": np.array(words, dtype=object)})
    assert outputs["known"].tolist() == [True, False]
    np.testing.assert_array_equal(outputs["vectors"][0], learner.arrays["input"][3])
    assert learner.vector("never-seen") is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", [LOSSES[1], LOSSES[3]])
@pytest.mark.parametrize("tokens", [[0], [0, MARK], [MARK, 0, MARK, 1], [0, 1]], ids=str)
def test_tiny_texts(tokens: list[int], loss: dict, way: dict) -> None:
    """As many pairs as there are neighbours; nothing where a word stands alone."""
    words = Words(["a", "b"], np.array([2, 1]), 3)
    learner = learner_of(
        Corpus(np.array(tokens, dtype=np.int32), words), batch=len(tokens), subsample=0.0, **way, **loss
    )
    learner.step(1)
    assert learner.state()["pairs"] == (2 if tokens == [0, 1] else 0)
    assert np.isfinite(learner.arrays["input"]).all()


def test_spans_cover_each_place_once() -> None:
    result = spans(5, 47, 10)
    assert [(s.epoch, s.start, s.stop, s.place) for s in result] == [
        (0, 5, 10, 5), (1, 0, 10, 10), (2, 0, 10, 20), (3, 0, 10, 30), (4, 0, 7, 40),
    ]  # fmt: skip


def test_matrices_begin_at_cache_lines() -> None:
    for dim in (1, 16, 17, 100):
        array = in_lines(5, dim)
        assert array.shape == (5, dim) and array.ctypes.data % 64 == 0 and array.strides[0] % 64 == 0


def test_is_a_vector_learner() -> None:
    learner = learner_of(topics(100))
    assert isinstance(learner, VectorLearner)
    assert learner.num_parameters == 2 * 100 * 20
    assert {name: tuple(t.shape) for name, t in learner.tensors()["model"].items()} == {
        "input": (100, 20),
        "output": (100, 20),
    }


# ---- on a GPU


def test_where_a_gpu_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA, for long texts, one set of noise for a word, and where numbers need not be the same every time."""
    corpus = topics(20)

    def used(device: str = "cuda", **changes: Any) -> bool:
        learner = Word2Vec(Config(vocab_size=corpus.words.size, **changes), Context(world=World(device), seed=1))
        learner.begin(data_of({"input": corpus}), 100, 1)
        return learner.on_gpu()

    assert not used()  # too short
    monkeypatch.setattr("canon.systems.words.word2vec._LONG", 100)
    assert used()
    assert not used("cpu") and not used(architecture="cbow") and not used(update="pair")
    assert not used(loss="hierarchical-softmax")
    torch.use_deterministic_algorithms(True)
    try:
        assert not used()
    finally:
        torch.use_deterministic_algorithms(False)
