"""fastText's vectors against fasttext itself and against the same steps written out in numpy, pair by pair.

The reference reads and writes every row for every pair, in float64 and with the same random numbers; canon sums the
rows of a word once for a whole window. Hashes and n-grams are compared with fasttext's own, learned models by the loss
that both reach, and files by what fasttext answers from them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fasttext as theirs
import numpy as np
import pytest
import torch

from canon.contracts import Context
from canon.data.corpus.corpus import MARK, Corpus
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop import fasttext as files
from canon.systems.words.fasttext import Config, FastText
from canon.systems.words.sampling import Tree, alias_table, keep_limits, noise_shares
from canon.systems.words.subwords import (
    hash_word,
    output_tree,
    subword_ids,
    subword_table,
    word_ngram_ids,
)
from tests.learners import data_of

BITS = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
STEMS = ["garten", "baum", "größe", "北京大学", "naïve", "fluss", "stein", "wolke", "x", "licht", "été", "haus"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made_text(sentences: int, seed: int) -> list[list[str]]:
    """Sentences about one of four topics, each word with one of several endings."""
    rng = random.Random(seed)
    topics = [STEMS[i : i + 3] for i in range(0, 12, 3)]
    return [
        [rng.choice(topic) + rng.choice(["", "s", "er", "lich"]) for _ in range(rng.randrange(1, 9))]
        for topic in (rng.choice(topics) for _ in range(sentences))
    ]


def corpus_of(sentences: list[list[str]], least: int = 1) -> Corpus:
    counted = Counter(word for sentence in sentences for word in sentence)
    total = sum(counted.values())
    words = Words.of([(word, count) for word, count in counted.items() if count >= least], total)
    tokens: list[int] = []
    for sentence in sentences:
        tokens += [words.index[word] for word in sentence if word in words.index]
        if tokens and tokens[-1] != MARK:
            tokens.append(MARK)
    return Corpus(np.array(tokens, np.int32), words)


def learner_of(corpus: Corpus, steps: int, batch: int, **changes: Any) -> FastText:
    config = Config(**{"vocab_size": corpus.words.size, "dim": 20, "buckets": 60, "subsample": 0.05, **changes})
    learner = FastText(config, Context(seed=7))
    learner.begin(data_of({"input": corpus}), batch, steps)
    return learner


# Hashes and rows


def test_hash_is_fnv_with_signed_bytes() -> None:
    """hash_word against FNV-1a written out, each byte widened as a signed one, for 500 random strings of bytes."""
    rng = random.Random(0)
    for _ in range(500):
        word = rng.randbytes(rng.randrange(12))
        state = 2166136261
        for byte in word:
            widened = byte - 256 if byte > 127 else byte
            state = (state ^ (widened & 0xFFFFFFFF)) * 16777619 % (1 << 32)
        assert hash_word(word) == state


@pytest.mark.parametrize(("minn", "maxn"), [(3, 6), (1, 3), (2, 2), (0, 0)])
def test_subwords_are_fasttexts(minn: int, maxn: int, tmp_path: Path) -> None:
    """Rows of known words (their own first) and of unknown ones against get_subwords."""
    (tmp_path / "text").write_text("\n".join(" ".join(sentence) for sentence in made_text(200, 1)), encoding="utf-8")
    model = theirs.train_unsupervised(
        str(tmp_path / "text"), dim=2, bucket=777, minn=minn, maxn=maxn, minCount=1, epoch=1, thread=1, verbose=0
    )
    words = model.get_words()
    starts, rows = subword_table(words, minn, maxn, 777)
    for row, word in enumerate(words):
        assert rows[starts[row] : starts[row + 1]].tolist() == model.get_subwords(word)[1].tolist(), word
    for word in ("unbekannt", "北", "ab", "ééé", "😀😀", "z"):
        assert subword_ids(word, minn, maxn, 777, len(words)).tolist() == model.get_subwords(word)[1].tolist(), word


def test_word_ngrams_by_hand() -> None:
    """Rows of 2- and 3-grams of words against the recurrence in whole numbers of 64 bits, hashes taken as signed."""
    hashes = [hash_word(word.encode()) for word in ("the", "größe", "北京大学", "of", "stein")]
    signed = [value - (1 << 32) if value >= 1 << 31 else value for value in hashes]
    wanted = []
    for first in range(5):
        state = signed[first] & BITS
        for value in signed[first + 1 : first + 3]:
            state = (state * 116049371 + value) & BITS
            wanted.append(1000 + state % 12345)
    assert word_ngram_ids(hashes, 3, 12345, 1000).tolist() == wanted
    assert len(word_ngram_ids(hashes, 1, 12345)) == len(subword_ids("the", 3, 6, 0)) == 0


def test_tree_is_fasttexts() -> None:
    """Nodes and turns of every word against fastText's way: a word is joined only where it is rarer than a node."""
    rng = random.Random(3)
    for size in (2, 3, 10, 60):
        counts = sorted((rng.randrange(1, 8) for _ in range(size)), reverse=True)
        weight, parent, turn = counts + [10**15] * (size - 1), {}, {}
        leaf, node = size - 1, size
        for new in range(size, 2 * size - 1):
            weight[new] = 0
            pair = []
            for side in (0, 1):
                if leaf >= 0 and (node >= new or counts[leaf] < weight[node]):
                    pair.append(leaf)
                    leaf -= 1
                else:
                    pair.append(node)
                    node += 1
                parent[pair[-1]], turn[pair[-1]] = new, side
            weight[new] = weight[pair[0]] + weight[pair[1]]
        tree = output_tree(np.array(counts))
        for word in range(size):
            way, at = [], word
            while at in parent:
                way.append((parent[at] - size, turn[at]))
                at = parent[at]
            part = slice(tree.starts_V[word], tree.starts_V[word + 1])
            values = list(zip(tree.nodes_L[part].tolist(), tree.turns_L[part].tolist(), strict=True))
            assert values == way[::-1]


# Learning


def mixed(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & BITS
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & BITS
    return x ^ (x >> 31)


class Reference:
    """fastText's loops as they stand: every pair gathers its rows, and every row gets the gradient of their mean."""

    def __init__(self, learner: FastText, corpus: Corpus) -> None:
        config, words = learner.config, corpus.words
        self.config, self.corpus = config, corpus
        self.input = learner.arrays["input"].astype(np.float64)
        self.output = learner.arrays["output"].astype(np.float64)
        share = config.subsample * words.total / words.counts.sum()
        self.keep = keep_limits(words.counts, share).tolist()
        self.noise = alias_table(noise_shares(words.counts, 0.5))
        self.tree: Tree | None = output_tree(words.counts) if config.loss == "hierarchical-softmax" else None
        starts, rows = subword_table(words.words, config.minn, config.maxn, config.buckets)
        self.rows = [rows[starts[word] : starts[word + 1]] for word in range(words.size)]

    def read(self, seed: int, epoch: int, places: int, learning: bool) -> tuple[float, int]:
        """One pass over the corpus; the sum of losses and the number of pairs."""
        config, tokens = self.config, self.corpus.tokens.tolist()
        key = mixed((mixed((seed + GOLDEN) & BITS) + epoch * GOLDEN) & BITS)
        bits = [mixed((key + place * GOLDEN) & BITS) for place in range(len(tokens))]
        kept = [place for place, word in enumerate(tokens) if word == MARK or bits[place] >> 32 < self.keep[word]]
        loss, pairs = 0.0, 0
        for t, place in enumerate(kept):
            word = tokens[place]
            if word == MARK:
                continue
            reach = 1 + ((bits[place] & 0xFFFFFFFF) * config.window >> 32)
            low = high = t
            while low > max(0, t - reach) and tokens[kept[low - 1]] != MARK:
                low -= 1
            while high < min(len(kept) - 1, t + reach) and tokens[kept[high + 1]] != MARK:
                high += 1
            around = [(c - low, tokens[kept[c]]) for c in range(low, high + 1) if c != t]
            seen = epoch * len(tokens) + place
            lr = config.lr * max(1 - seen / places, config.min_lr) if learning else 0.0
            if config.architecture == "skip-gram":
                examples = [(self.rows[word], target, nth) for nth, target in around]
            else:
                examples = [(np.concatenate([self.rows[c] for _, c in around]), word, 0)] if around else []
            for rows, target, nth in examples:
                loss += self.pair(rows, target, bits[place] + nth * config.negatives * GOLDEN, lr)
                pairs += 1
        return loss, pairs

    def pair(self, rows: np.ndarray, target: int, series: int, lr: float) -> float:
        x = self.input[rows].mean(axis=0)
        loss, pull = 0.0, np.zeros_like(x)
        before = self.output.copy()  # a word that is drawn twice is scored as it was; fastText scores it in turn
        for row, label in self.targets(target, series):
            score = before[row] @ x
            loss += np.logaddexp(0, -score if label else score)
            g = lr * (label - 1 / (1 + np.exp(-score)))
            pull += g * self.output[row]
            self.output[row] += g * x
        np.add.at(self.input, rows, pull)
        return float(loss)

    def targets(self, word: int, series: int) -> list[tuple[int, int]]:
        if self.tree is not None:
            part = slice(self.tree.starts_V[word], self.tree.starts_V[word + 1])
            return list(zip(self.tree.nodes_L[part].tolist(), self.tree.turns_L[part].tolist(), strict=True))
        values = [(word, 1)]
        for k in range(1, self.config.negatives + 1):
            drawn = mixed((series + k * GOLDEN) & BITS)
            row = (drawn >> 32) * len(self.noise.threshold_V) >> 32
            if drawn & 0xFFFFFFFF >= self.noise.threshold_V[row]:
                row = int(self.noise.other_V[row])
            if row != word:
                values.append((row, 0))
        return values


def assert_learned_alike(learner: FastText, reference: Reference) -> None:
    """To 1e-4 of the largest number, after thousands of steps in float32."""
    for name, wanted in (("input", reference.input), ("output", reference.output)):
        assert np.abs(learner.arrays[name] - wanted).max() < 1e-4 * np.abs(wanted).max(), name


@pytest.mark.parametrize("loss", ["negative-sampling", "hierarchical-softmax"])
@pytest.mark.parametrize("negatives", [5, 3, 8])
def test_skip_gram_is_fasttexts_pair_by_pair(loss: str, negatives: int) -> None:
    """Two epochs, with n-grams that collide in 60 buckets: matrices and mean loss to float32's rounding."""
    corpus = corpus_of(made_text(60, 4))
    size = len(corpus)
    learner = learner_of(corpus, 2, size, loss=loss, negatives=negatives, lr=0.2)
    reference = Reference(learner, corpus)
    for epoch in range(2):
        learner.step(epoch + 1)
        total, pairs = reference.read(7, epoch, 2 * size, learning=True)
        assert learner.logs()["loss"] == pytest.approx(total / pairs, rel=2e-6)
    assert_learned_alike(learner, reference)


@pytest.mark.parametrize("loss", ["negative-sampling", "hierarchical-softmax"])
def test_cbow_is_fasttexts_where_no_words_share_rows(loss: str) -> None:
    """Without n-grams, and with equal words so far apart that no window is near both, writing late changes nothing."""
    rng = random.Random(5)
    order = [f"w{i}" for i in range(40)]
    sentences = []
    for _ in range(25):
        cuts = sorted(rng.sample(range(1, 40), 4))
        sentences += [order[first:last] for first, last in zip([0, *cuts], [*cuts, 40], strict=True)]
    corpus = corpus_of(sentences)
    learner = learner_of(corpus, 1, len(corpus), architecture="cbow", loss=loss, maxn=0, lr=0.2, subsample=0.0)
    reference = Reference(learner, corpus)
    learner.step(1)
    total, pairs = reference.read(7, 0, len(corpus), learning=True)
    assert learner.logs()["loss"] == pytest.approx(total / pairs, rel=2e-6)
    assert_learned_alike(learner, reference)


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
@pytest.mark.parametrize("loss", ["negative-sampling", "hierarchical-softmax"])
def test_measured_loss_is_numpys(architecture: str, loss: str) -> None:
    """The loss of a text by trained vectors, without learning, against float64 pair by pair; matrices do not change."""
    corpus = corpus_of(made_text(120, 6))
    learner = learner_of(corpus, 3, len(corpus), architecture=architecture, loss=loss, lr=0.3)
    for step in (1, 2, 3):
        learner.step(step)
    before = {name: array.copy() for name, array in learner.arrays.items()}
    outputs = learner.outputs({"input": corpus})
    total, pairs = Reference(learner, corpus).read(0, 0, 1, learning=False)
    assert outputs["pairs"].sum().item() == pairs
    assert outputs["loss"].sum().item() == pytest.approx(total, rel=1e-6)
    assert all(np.array_equal(before[name], array) for name, array in learner.arrays.items())


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
@pytest.mark.parametrize("loss", ["negative-sampling", "hierarchical-softmax"])
def test_learned_vectors_are_as_good_as_fasttexts(architecture: str, loss: str, tmp_path: Path) -> None:
    """One text, the same settings: the loss that canon measures of fasttext's model and of its own, within 3 %."""
    sentences = made_text(1500, 8)
    (tmp_path / "text").write_text("".join(" ".join(sentence) + "\n" for sentence in sentences), encoding="utf-8")
    names = {"skip-gram": "skipgram", "negative-sampling": "ns", "hierarchical-softmax": "hs"}
    model = theirs.train_unsupervised(
        str(tmp_path / "text"), model=names.get(architecture, "cbow"), loss=names[loss], dim=20, bucket=2000,
        minCount=1, epoch=8, thread=1, t=1.0, verbose=0,
    )  # fmt: skip
    model.save_model(str(tmp_path / "model.bin"))
    name, changes, tensors, words, _ = files.to_run_parts(files.read(tmp_path / "model.bin"))
    assert name == "fasttext"
    # fastText learns the line's end as a word; here it is one too, so that both see the same text.
    corpus = corpus_of([[*sentence, "</s>"] for sentence in sentences])
    own = learner_of(corpus, 8, len(corpus), architecture=architecture, loss=loss, buckets=2000, subsample=1.0)
    for step in range(1, 9):
        own.step(step)
    other = FastText(Config(**changes), Context())
    other.restore({"model": {key: torch.from_numpy(array) for key, array in tensors.items()}}, {})
    other.take_words(words)
    places = np.array([*map(words.index.__getitem__, corpus.words.words), MARK], np.int32)
    losses = []
    for learner, text in ((own, corpus), (other, Corpus(places[corpus.tokens], words))):
        outputs = learner.outputs({"input": text})
        losses.append((outputs["loss"].sum() / outputs["pairs"].sum()).item())
    assert losses[0] == pytest.approx(losses[1], rel=0.03)


# Keeping and using


def trained(**changes: Any) -> tuple[FastText, Corpus]:
    corpus = corpus_of(made_text(300, 9))
    learner = learner_of(corpus, 4, len(corpus), lr=0.2, **changes)
    for step in (1, 2, 3, 4):
        learner.step(step)
    return learner, corpus


@pytest.mark.parametrize(
    "changes",
    [{}, {"architecture": "cbow"}, {"loss": "hierarchical-softmax"}, {"minn": 2, "maxn": 3}, {"maxn": 0, "dim": 16}],
)
def test_what_canon_learns_is_what_fasttext_loads(changes: dict[str, Any], tmp_path: Path) -> None:
    """A .bin written by canon: fasttext's vectors of known and unknown words to 1e-6, and the same neighbours."""
    learner, corpus = trained(**changes)
    tensors = learner.tensors()["model"]
    files.write(tmp_path / "model.bin", files.from_run_parts("fasttext", learner.config, tensors, corpus.words))
    model = theirs.load_model(str(tmp_path / "model.bin"))
    assert model.get_words() == corpus.words.words
    vectors = learner.vectors()
    for row, word in enumerate(corpus.words.words):
        np.testing.assert_allclose(vectors[row], model.get_word_vector(word), atol=1e-6)
        np.testing.assert_allclose(learner.vector(word), model.get_word_vector(word), atol=1e-6)
    for word in ("gartenhaus", "北京", "unbekannt", "größenwahn"):
        if (actual := learner.vector(word)) is None:
            assert not model.get_word_vector(word).any()
        else:
            np.testing.assert_allclose(actual, model.get_word_vector(word), atol=1e-6)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for word in ("baum", "größe"):
        near = unit @ unit[corpus.words.index[word]]
        near[corpus.words.index[word]] = -2
        reported = {name: score for score, name in model.get_nearest_neighbors(word, k=5)}
        assert sorted(reported.values(), reverse=True) == pytest.approx(np.sort(near)[::-1][:5].tolist(), abs=1e-5)
        for name, score in reported.items():
            assert near[corpus.words.index[name]] == pytest.approx(score, abs=1e-5)


def test_unknown_words() -> None:
    """The mean of the rows of their n-grams; None where there are no n-grams at all."""
    learner, corpus = trained()
    rows = subword_ids("gartenhaus", 3, 6, 60, corpus.words.size)
    np.testing.assert_allclose(learner.vector("gartenhaus"), learner.arrays["input"][rows].mean(axis=0))
    assert learner.vector("gartenhaus") is not None and learner.vector("") is None
    plain, _ = trained(maxn=0)
    assert plain.vector("gartenhaus") is None and plain.vector("garten") is not None


def test_restored_learner_goes_on_bit_for_bit() -> None:
    """Two steps, kept, restored in a new learner, two more: the same matrices as four in one go."""
    whole, corpus = trained()
    first = learner_of(corpus, 4, len(corpus), lr=0.2)
    first.step(1)
    first.step(2)
    kept = {group: {name: tensor.copy() for name, tensor in some.items()} for group, some in first.tensors().items()}
    second = learner_of(corpus, 4, len(corpus), lr=0.2)
    second.restore(kept, first.state())
    second.step(3)
    second.step(4)
    for name, array in whole.arrays.items():
        assert np.array_equal(array, second.arrays[name]), name


def test_span_edges_change_nothing_for_skip_gram() -> None:
    """Steps of other sizes read the same text with the same random numbers: equal loss and matrices."""
    corpus = corpus_of(made_text(300, 10))
    size = len(corpus) // 6 * 6
    ends = []
    for steps in (1, 6):
        learner = learner_of(corpus, steps, size // steps, lr=0.1)
        for step in range(1, steps + 1):
            learner.step(step)
        ends.append((learner.arrays["input"].copy(), learner.logs()["loss"]))
    assert np.array_equal(ends[0][0], ends[1][0]) and ends[0][1] == pytest.approx(ends[1][1], rel=1e-6)


def test_two_threads_learn_as_well_as_one() -> None:
    """The loss after four epochs with two threads, which write past each other, within 2 % of that with one."""
    losses = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        learner, corpus = trained(buckets=2000)
        outputs = learner.outputs({"input": corpus})
        losses.append((outputs["loss"].sum() / outputs["pairs"].sum()).item())
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_training_goes_on_with_new_words() -> None:
    """Rows of words that were there and of all n-grams are taken over; new words begin with their n-grams' rows."""
    earlier, corpus = trained()
    more = corpus_of([*made_text(200, 11), *[["gartenhaus", "baum", "neuland"]] * 20])
    later = learner_of(more, 2, len(more), lr=0.05)
    later.adopt(earlier.tensors()["model"], corpus.words)
    known = [word for word in more.words.words if word in corpus.words.index]
    assert known and set(more.words.words) - set(known) == {"gartenhaus", "neuland"}
    for word in known:
        np.testing.assert_array_equal(later.vector(word), earlier.vector(word))
    new, old = later.vector("gartenhaus"), earlier.vector("gartenhaus")
    assert new is not None and old is not None and np.corrcoef(new, old)[0, 1] > 0.9
    before = later.outputs({"input": more})
    later.step(1)
    later.step(2)
    after = later.outputs({"input": more})
    assert (after["loss"].sum() / after["pairs"].sum()) < 0.95 * (before["loss"].sum() / before["pairs"].sum())


def test_plain_vectors_are_taken_by_word() -> None:
    """Vectors of another tool become the words' own rows, as fastText's pretrainedVectors do; n-grams begin again."""
    corpus = corpus_of(made_text(50, 12))
    foreign = np.random.default_rng(0).normal(size=(2, 20)).astype(np.float32)
    learner = learner_of(corpus, 1, 100)
    before = learner.arrays["input"].copy()
    words = Words(["baum", "fremd"], np.array([2, 1]), 3)
    learner.adopt({"input": torch.from_numpy(foreign)}, words)
    row = corpus.words.index["baum"]
    np.testing.assert_array_equal(learner.arrays["input"][row], foreign[0])
    before[row] = foreign[0]
    np.testing.assert_array_equal(learner.arrays["input"], before)


def test_vectors_that_do_not_fit_are_refused() -> None:
    earlier, corpus = trained()
    model = earlier.tensors()["model"]
    with pytest.raises(CanonError, match=r"have 20 dimensions, but system.dim is 10: set system.dim=20"):
        learner_of(corpus, 1, 100, dim=10).adopt(model, corpus.words)
    with pytest.raises(CanonError, match=r"have 60 rows for n-grams, but system.buckets is 50: set system.buckets=60"):
        learner_of(corpus, 1, 100, buckets=50).adopt(model, corpus.words)
    with pytest.raises(CanonError, match=r"system.minn is 4, more than system.maxn, 3"):
        FastText(Config(minn=4, maxn=3), Context())
