"""Word vectors, models of n-grams and the classifier of fastText."""

from __future__ import annotations

from functools import partial

from canon.registry.record import Interop, Range, System

_LOSS = "the loss below, of all {} since the last line, each before it was learned from; summed in float64"
_TREE = "hierarchical-softmax"
_vectors = partial(
    System,
    chapter="words",
    encodings=("word-ids",),
    task="word-vectors",
    objective="negative-sampling",
    loop="learner",
    torch="never",
    logs={
        "loss": _LOSS.format("pairs"),
        "lr": "`system.lr` · max(1 − places seen / places of all steps, `system.min_lr`)",
    },
    parameters="numbers of the inputs and outputs",
)

# fastText's own settings of its classifier
_WORDS_ALONE = {"dim": 100, "lr": 0.1, "word_ngrams": 1, "minn": 0, "maxn": 0, "paces": "equal"}

SYSTEMS: tuple[System, ...] = (
    _vectors(
        name="word2vec",
        title="word2vec",
        paper="Mikolov, Chen, Corrado and Dean 2013, Efficient estimation of word representations in vector space "
        "(arXiv:1301.3781); Mikolov, Sutskever, Chen, Corrado and Dean 2013, Distributed representations of words and "
        "phrases and their compositionality (arXiv:1310.4546)",
        module="canon.systems.words.word2vec:Word2Vec",
        objectives=(_TREE,),
        torch="on a GPU",
        recipe="words/word2vec",
        first_for=("text",),
        presets={
            "tiny": {"dim": 16, "window": 3, "subsample": 0.0, "lr": 0.05},
            "skip-gram": {},
            "cbow": {"architecture": "cbow", "lr": 0.05},
        },
        interop=Interop(reads=("vectors",), writes=("vectors",)),
        deviations=(
            'one set of noise words serves all contexts of a word, which learn together; `update = "pair"` is theirs',
            "a line of any length is one sentence, where their program cuts it after 1,000 words",
            "sigmoids are computed, where their program looks them up in a table that ends at ±6",
            "words are left out by 1 − √(t/f) − t/f, as in their program, where the paper has 1 − √(t/f)",
            "on a GPU words at either end of a step's text have no contexts outside it",
        ),
    ),
    System(
        name="nnlm",
        title="Neural probabilistic language model",
        title_zh="神经概率语言模型",
        chapter="words",
        paper="Bengio, Ducharme, Vincent and Jauvin 2003, A neural probabilistic language model",
        module="canon.systems.words.nnlm:NNLM",
        encodings=("windows",),
        task="language-model",
        objective="cross-entropy",
        recipe="words/nnlm",
        presets={
            "tiny": {"order": 4, "dim": 8, "hidden": 16, "direct": True},
            "brown": {"order": 5, "dim": 30, "hidden": 100},
            "ap-news": {"order": 6, "dim": 100, "hidden": 60, "direct": True},
            "ptb": {"order": 5, "dim": 100, "hidden": 200, "dropout": 0.2},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "dropout of the words' features and of the tanh layer is a choice, which the paper has not",
            "the recipes train with Adam on batches; the paper with gradient descent and weight decay, word by word",
            "the mixture with a trigram model, which gives the paper's best figures, is left out",
            "where a stream begins, <bos> stands for the words before it",
        ),
    ),
    System(
        name="ngram",
        title="Interpolated n-gram model",
        title_zh="插值 n 元模型",
        chapter="words",
        paper="Jelinek and Mercer 1980, Interpolated estimation of Markov source parameters from sparse data; Chen and "
        "Goodman 1998, An empirical study of smoothing techniques for language modeling",
        module="canon.systems.words.ngram:NGram",
        encodings=("windows",),
        task="language-model",
        objective="likelihood",
        loop="learner",
        torch="never",
        recipe="words/ngram",
        presets={
            "tiny": {},
            "trigram": {},
            "kneser-ney": {"order": 5, "smoothing": "kneser-ney"},
        },
        logs={
            "loss": "mean of −log p of the words counted so far, each left out of the counts in turn, at the λ before "
            "this step's iteration of EM; with `interpolated`",
            "discount_1": "D₁ of n words: D_i = i − (i + 1) Y n_{i+1}/n_i, Y = n₁/(n₁ + 2 n₂), n_i n-grams that came i "
            "times; with `kneser-ney`",
            "discount_2": "D₂, the same",
            "discount_3": "D₃₊, the same",
        },
        parameters="k-grams counted, k = 1 … n",
        deviations=(
            "weights are estimated on the training text, each word left out of the counts in turn, where Bengio et al. "
            "2003 estimate them on the validation part",
            "each order has weights by its own context's count, where Bengio et al. mix all by that of the longest",
            "contexts run over the ends of lines, as those of canon's other language models do",
        ),
    ),
    _vectors(
        name="fasttext",
        title="fastText vectors",
        title_zh="fastText 词向量",
        paper="Bojanowski, Grave, Joulin and Mikolov 2017, Enriching word vectors with subword information "
        "(arXiv:1607.04606)",
        module="canon.systems.words.fasttext:FastText",
        objectives=(_TREE,),
        recipe="words/fasttext",
        presets={
            "tiny": {"dim": 16, "window": 3, "buckets": 2000, "subsample": 0.0},
            "skip-gram": {},
            "cbow": {"architecture": "cbow"},
        },
        interop=Interop(reads=("vectors",), writes=("vectors",)),
        deviations=(
            "a word's vector is the mean of those of its n-grams, where the paper has their sum; each of them moves by "
            "the whole gradient of that mean, as in fastText's program",
            "noise words are drawn in proportion to √count, as in fastText's program",
            "a line of any length is one sentence, where fastText cuts it after 1,024 words; its end is not a word",
            "noise that hits the word itself is left out, where fastText draws again",
            "sigmoids are computed, where fastText looks them up in a table that ends at ±8",
            "with CBOW the rows of a word are written when no window reaches it any more, so that rows that two words "
            "of a window share are late by that",
        ),
    ),
    System(
        name="fasttext-classifier",
        title="fastText classifier",
        title_zh="fastText 文本分类器",
        chapter="words",
        paper="Joulin, Grave, Bojanowski and Mikolov 2017, Bag of tricks for efficient text classification "
        "(arXiv:1607.01759)",
        module="canon.systems.words.classifier:Classifier",
        encodings=("bags",),
        task="labels",
        objective="softmax",
        objectives=(_TREE, "one-vs-all", "negative-sampling"),
        loop="learner",
        torch="never",
        recipe="words/classifier",
        first_for=("labelled",),
        presets={
            "tiny": {**_WORDS_ALONE, "dim": 16, "lr": 0.5, "word_ngrams": 2, "buckets": 1000},
            "base": _WORDS_ALONE,
            "bigrams": {**_WORDS_ALONE, "dim": 10, "lr": 0.25, "word_ngrams": 2},
            "tags": {**_WORDS_ALONE, "lr": 1.0, "word_ngrams": 2, "loss": "one-vs-all"},
        },
        interop=Interop(reads=("vectors",), writes=("fasttext-bin",)),
        logs={
            "loss": _LOSS.format("examples"),
            "lr": "`system.lr` · max(1 − examples seen / examples of all steps, 1e-4)",
        },
        parameters="numbers of the input rows that training touches, and of the outputs",
        deviations=(
            "documents come in another order in every epoch, where fastText reads its file in order",
            "the rate falls by documents seen, where fastText's falls by words seen",
            "pre-trained vectors are taken for words of the training data only; fastText adds the others to its words",
            "sigmoids and logarithms are exact, where fastText looks them up in tables",
            "where neither a recipe nor a preset gives them, features, rates and epochs follow from the data, and rare "
            "features learn faster; `fasttext-classifier:base` has fastText's own settings",
        ),
        space={
            "system.lr": Range(0.05, 2.0),
            "system.dim": Range(16, 200),
            "system.word_ngrams": (1, 2, 3),
            "system.maxn": (0, 0, 4),  # letter n-grams in a third of the trials
            "data.min_count": (1, 1, 2, 5),
            "train.epochs": Range(2, 50),
        },
    ),
    _vectors(
        name="glove",
        title="GloVe",
        paper="Pennington, Socher and Manning 2014, GloVe: global vectors for word representation",
        module="canon.systems.words.glove:GloVe",
        objective="glove",
        recipe="words/glove",
        presets={
            "tiny": {"dim": 16, "window": 5, "x_max": 10.0},
            "base": {},
            "small-text": {"x_max": 10.0},
            "paper": {"dim": 300},
        },
        interop=Interop(reads=("vectors",), writes=("vectors",)),
        logs={"loss": _LOSS.format("entries"), "lr": "`system.lr`, which stays as it is"},
        parameters="numbers of w, w̃, b and b̃",
        deviations=(
            "AdaGrad as Stanford's program has it: sums begin at 1 and grow by (η g)², biases step with η = 1",
            "parts of the entries come in another order every epoch, each entry with its mirror image; that program "
            "shuffles all once",
            "gradients are not clipped at ±100, which none comes near",
            "no vector <unk>: a word that is not known has none",
        ),
    ),
)
