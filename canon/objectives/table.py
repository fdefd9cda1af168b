"""The one explicit table of objectives: recipes, `canon list objectives`, docs and tests come from it.

Adding one is a record here, a settings class, and a class that computes it. Reading the table imports no torch.
"""

from __future__ import annotations

from typing import Any

from canon import pretexts as pretraining
from canon.objectives.ranking.plain_records import PLAIN
from canon.objectives.ranking.records import RANKING
from canon.objectives.recommendation import RECOMMENDATION
from canon.objectives.record import Objective
from canon.objectives.settings import (
    Contrast,
    Decided,
    FineTuning,
    Margin,
    Negatives,
    NoSettings,
    OtherTexts,
    Smoothed,
    SmoothedDecided,
    Temperature,
    TripletMargin,
    Verbalised,
    Weighted,
)

_TOKENS = ("input_lengths", "places", "target")
_REST = "; more than two classes: the sum over classes, one against the rest"

_DISCRIMINATOR = "mean of −log D(x) − log(1 − D(G(z))) over its turns; log 4 = 1.386 where it cannot tell"


def _of_passages(*, settings: type, composer: str, **more: Any) -> Objective:
    """A way of pre-training: a class in canon.data.batching.composer makes batches of passages. Only a network that is
    built for it can be trained by it."""
    module = f"canon.data.batching.composer:{composer}"
    more = {"columns": _TOKENS, "outputs": ("loss",), **more}
    return Objective(tasks={"pretraining": settings}, module=module, exclusive=True, **more)


def _of_sentences(*, module: str, **more: Any) -> Objective:
    """A loss of vectors of texts, which compares the rows of the global batch."""
    more = {"columns": ("keys",), "outputs": ("vectors",), **more}
    return Objective(module=f"canon.objectives.sentences:{module}", **more)


def _of_acting(**more: Any) -> Objective:
    """What an agent computes of its own experience."""
    return Objective(columns=(), outputs=("return",), **{"tasks": {"control": NoSettings}, **more})


_CONTROL = (
    _of_acting(
        name="bellman",
        title="Bellman's optimality equation",
        formula="abs(V(s) − max_a Σ p (r + γ (1 − terminated) V(s')))",
        paper="Bellman 1957, Dynamic programming",
    ),
    _of_acting(
        name="temporal-difference",
        title="Temporal difference",
        formula="(y − Q(s, a))², y = r + γ (1 − terminated) max_a Q(s', a); SARSA: Q(s', a') with the a' that is taken",
        paper="Sutton 1988, Learning to predict by the methods of temporal differences; Watkins 1989, Learning from "
        "delayed rewards",
    ),
    _of_acting(
        name="huber-temporal-difference",
        title="Huber's loss of a temporal difference",
        formula="½ e² where abs(e) < 1, else abs(e) − ½, e = y − Q(s, a)",
        paper="Huber 1964, Robust estimation of a location parameter; Mnih et al. 2015, Human-level control through "
        "deep reinforcement learning",
        decides={"loss": "huber"},
    ),
    _of_acting(
        name="policy-gradient",
        title="Policy gradient",
        formula="−(1/E) Σ_t [(G_t − b_t) log π(a_t given s_t) + β H(π(· given s_t))] over E episodes",
        paper="Williams 1992, Simple statistical gradient-following algorithms for connectionist reinforcement "
        "learning",
    ),
    _of_acting(
        name="importance-sampling",
        title="Importance sampling",
        formula="ρ G, ρ = Π π(a_t given s_t)/b(a_t given s_t)",
        paper="Precup, Sutton and Singh 2000, Eligibility traces for off-policy policy evaluation",
        tasks={"policy-evaluation": NoSettings},
    ),
)

OBJECTIVES: tuple[Objective, ...] = (
    Objective(
        name="cross-entropy",
        title="Cross-entropy",
        formula="−Σ_c p_c log softmax(f)_c, p = (1 − ε)·[c = y] + ε/C",
        paper="McFadden 1973, Conditional logit analysis of qualitative choice behavior; label smoothing: Szegedy et "
        "al. 2016, Rethinking the Inception architecture for computer vision (arXiv:1512.00567)",
        tasks={"classification": SmoothedDecided, "transduction": Smoothed, "language-model": Smoothed},
        module="canon.objectives.classification:CrossEntropy",
    ),
    Objective(
        name="logistic",
        title="Logistic loss",
        formula="log(1 + e^(−y f)), y = ±1" + _REST,
        paper="Cox 1958, The regression analysis of binary sequences",
        tasks={"classification": Decided, "click-prediction": Decided},
        module="canon.objectives.margin:Logistic",
        plain="canon.objectives.plain:PlainLogistic",
    ),
    Objective(
        name="hinge",
        title="Hinge loss",
        formula="max(0, m − y f), y = ±1" + _REST,
        paper="Cortes and Vapnik 1995, Support-vector networks",
        tasks={"classification": Margin},
        module="canon.objectives.margin:Hinge",
    ),
    Objective(
        name="exponential",
        title="Exponential loss",
        formula="e^(−y·f/C), y = 1 for the true class and −1/(C − 1) for the others",
        paper="Freund and Schapire 1997, A decision-theoretic generalization of on-line learning; Zhu et al. 2009, "
        "Multi-class AdaBoost",
        tasks={"classification": Weighted},
        module="canon.objectives.margin:Exponential",
        plain="canon.objectives.plain:PlainExponential",
    ),
    Objective(
        name="squared",
        title="Squared error",
        formula="(f − (y − ȳ)/s)², ȳ and s the mean and standard deviation of the training targets",
        paper="Legendre 1805, Nouvelles méthodes pour la détermination des orbites des comètes",
        tasks={"regression": NoSettings},
        module="canon.objectives.regression:Squared",
    ),
    Objective(
        name="absolute",
        title="Absolute error",
        formula="|f − (y − ȳ)/s|, ȳ and s the mean and standard deviation of the training targets",
        paper="Boscovich 1757, De litteraria expeditione per pontificiam ditionem",
        tasks={"regression": NoSettings},
        module="canon.objectives.regression:Absolute",
    ),
    Objective(
        name="nt-xent",
        title="NT-Xent",
        formula="−log( e^(cos(z_i, z_j)/τ) / Σ_{k≠i} e^(cos(z_i, z_k)/τ) ), j the other view of i, k over all views of "
        "the global batch",
        paper="Chen, Kornblith, Norouzi and Hinton 2020, A simple framework for contrastive learning of visual "
        "representations (arXiv:2002.05709), equation 1",
        tasks={"contrastive": Temperature},
        columns=(),
        outputs=("first", "second"),
        module="canon.objectives.contrastive:NTXent",
    ),
    Objective(
        name="cpc",
        title="Contrastive predictive coding",
        formula="mean over k = 1 … K and t of −log( e^(z_{t+k}·W_k c_t) / Σ_j e^(z^j_{t+k}·W_k c_t) ), j over the "
        "strands of the global batch",
        paper="van den Oord, Li and Vinyals 2018, Representation learning with contrastive predictive coding "
        "(arXiv:1807.03748), equations 3 and 4",
        tasks={"future-steps": NoSettings},
        columns=(),
        outputs=("z", "predicted"),
        module="canon.objectives.contrastive:FutureSteps",
    ),
    _of_sentences(
        name="mnrl",
        title="Multiple negatives ranking",
        formula="−log( e^(s(a_i,p_i)/τ) / Σ_j [e^(s(a_i,p_j)/τ) + Σ_k α^[i=j] e^(s(a_i,n_jk)/τ)] ), j over the global "
        "batch, s the cosine; candidates equal to a_i or p_i are left out; with symmetric the mean of this and of p_i "
        "among all a_j",
        paper="Henderson et al. 2017, Efficient natural language response suggestion for Smart Reply "
        "(arXiv:1705.00652), section 4; hard negatives: Gao, Yao and Chen 2021 (arXiv:2104.08821), equation 5",
        tasks={"retrieval": OtherTexts},
        module="MultipleNegatives",
    ),
    _of_sentences(
        name="simcse",
        title="SimCSE",
        formula="mnrl with p_i = a_i under another dropout mask",
        paper="Gao, Yao and Chen 2021, SimCSE: simple contrastive learning of sentence embeddings (arXiv:2104.08821), "
        "equation 4",
        tasks={"sentence-views": Contrast},
        module="SimCSE",
    ),
    _of_sentences(
        name="cosent",
        title="CoSENT",
        formula="log(1 + Σ_{y_i > y_j} e^((s_j − s_i)/τ)) over the rows of the global batch, s the cosine of a row",
        paper="Su 2022, CoSENT: a more effective sentence embedding scheme than Sentence-BERT",
        tasks={"similarity": Contrast},
        columns=("target",),
        module="CoSENT",
    ),
    _of_sentences(
        name="cosine",
        title="Squared error of the cosine",
        formula="(s − y)², s the cosine and y the score from 0 to 1",
        paper="Reimers and Gurevych 2019, Sentence-BERT (arXiv:1908.10084), section 3",
        tasks={"similarity": NoSettings},
        columns=("target",),
        module="CosineError",
    ),
    _of_sentences(
        name="triplet",
        title="Triplet",
        formula="max(0, ‖a − p‖ − ‖a − n‖ + m), of several n the mean",
        paper="Reimers and Gurevych 2019, Sentence-BERT (arXiv:1908.10084), section 3",
        tasks={"retrieval": TripletMargin},
        module="Triplet",
    ),
    _of_sentences(
        name="softmax-nli",
        title="Classes of two vectors",
        formula="−log softmax(W[u; v; abs(u − v)])_y",
        paper="Reimers and Gurevych 2019, Sentence-BERT (arXiv:1908.10084), section 3",
        tasks={"inference": NoSettings},
        columns=("target",),
        outputs=("logits",),
        module="SoftmaxNLI",
    ),
    Objective(
        name="non-saturating",
        title="Adversarial, non-saturating",
        formula="D: −log D(x) − log(1 − D(G(z))); G: −log D(G(z))",
        paper="Goodfellow et al. 2014, Generative adversarial nets (arXiv:1406.2661), section 3",
        tasks={"generation": NoSettings},
        columns=(),
        outputs=("real", "fake"),
        module="canon.objectives.adversarial:NonSaturating",
        phases={"discriminator": _DISCRIMINATOR, "generator": "mean of −log D(G(z))"},
    ),
    Objective(
        name="minimax",
        title="Adversarial, minimax",
        formula="D: −log D(x) − log(1 − D(G(z))); G: log(1 − D(G(z)))",
        paper="Goodfellow et al. 2014, Generative adversarial nets (arXiv:1406.2661), equation 1",
        tasks={"generation": NoSettings},
        columns=(),
        outputs=("real", "fake"),
        module="canon.objectives.adversarial:Minimax",
        phases={"discriminator": _DISCRIMINATOR, "generator": "mean of log(1 − D(G(z)))"},
    ),
    Objective(
        name="bidirectional",
        title="Next and previous tokens",
        formula="−½ log p(t_k given t_1 … t_{k−1}) − ½ log p(t_k given t_{k+1} … t_N)",
        paper="Peters et al. 2018, Deep contextualized word representations (arXiv:1802.05365), section 3.1",
        tasks={"bidirectional-language-model": NoSettings},
        outputs=("losses",),
    ),
    _of_passages(
        name="masked",
        title="Masked language modelling",
        formula="−log p(token given the text with some hidden), of the tokens to fill in; with next_sentence plus the "
        "mean of −log p(whether the second text follows), each sequence as often as it has tokens to fill in",
        paper="Devlin, Chang, Lee and Toutanova 2019, BERT: pre-training of deep bidirectional Transformers "
        "(arXiv:1810.04805), section 3.1",
        settings=pretraining.MaskedSettings,
        composer="MaskedPretext",
        shapes=("next_sentence",),
    ),
    _of_passages(
        name="causal",
        title="Causal language modelling",
        formula="−log p(token given those before it in its passage), of all tokens but each passage's first",
        paper="Radford, Narasimhan, Salimans and Sutskever 2018, Improving language understanding by generative "
        "pre-training, equation 1",
        settings=pretraining.CausalSettings,
        composer="CausalPretext",
    ),
    _of_passages(
        name="permutation",
        title="Permutation language modelling",
        formula="−log p(token given those before it in a random order), of the last 1/K of the order",
        paper="Yang et al. 2019, XLNet: generalized autoregressive pretraining for language understanding "
        "(arXiv:1906.08237), equation 3",
        settings=pretraining.PermutationSettings,
        composer="PermutationPretext",
        columns=(*_TOKENS, "rank"),
    ),
    _of_passages(
        name="corruption",
        title="Span corruption",
        formula="−log p(token given the text without some spans, and the tokens put out before it), of the sentinels, "
        "the spans' tokens and </s>",
        paper="Raffel et al. 2020, Exploring the limits of transfer learning with a unified text-to-text Transformer "
        "(arXiv:1910.10683), section 3.1.4",
        settings=pretraining.CorruptionSettings,
        composer="CorruptionPretext",
        columns=("input_lengths", "target_input", "target", "target_lengths"),
    ),
    _of_passages(
        name="prefix",
        title="Masked language modelling under several masks",
        formula="−log p(token given what its mask lets it see, some hidden), of the tokens to fill in; with "
        "next_sentence plus −log p(whether the second text follows) of the sequences that are read in both directions",
        paper="Dong et al. 2019, Unified language model pre-training for natural language understanding and generation "
        "(arXiv:1905.03197), section 2.3",
        settings=pretraining.PrefixSettings,
        composer="PrefixPretext",
        columns=(*_TOKENS, "prefix_lengths"),
        shapes=("next_sentence",),
    ),
    _of_passages(
        name="continual",
        title="Several tasks in one run",
        formula="−log p of the targets of each step's task: tokens to fill in, whether a token comes elsewhere in its "
        "document, the order of segments, how far two texts are apart; scored: the mean of the tasks' means",
        paper="Sun et al. 2020, ERNIE 2.0: a continual pre-training framework for language understanding "
        "(arXiv:1907.12412), section 4.2",
        settings=pretraining.ContinualSettings,
        composer="ContinualPretext",
        columns=(*_TOKENS, "task", "relation", "order", "distance"),
        outputs=("loss", "relation", "order", "distance"),
        shapes=("tasks",),
    ),
    Objective(
        name="finetune",
        title="Fine-tuning",
        formula="classes and tags: −w_y Σ_c p_c log softmax(f)_c, p = (1 − ε)·[c = y] + ε/C; numbers: "
        "(f − (y − ȳ)/s)²; choices: −log softmax over a question's choices; spans: half of −log softmax over a "
        "window's tokens, for both ends; plus λ times the mean of −log p(next token)",
        paper="Devlin, Chang, Lee and Toutanova 2019, BERT (arXiv:1810.04805), section 4; Radford, Narasimhan, "
        "Salimans and Sutskever 2018, Improving language understanding by generative pre-training, equation 5",
        tasks={"fine-tuning": FineTuning},
        module="canon.objectives.classification:CrossEntropy",
        shapes=("auxiliary",),
    ),
    Objective(
        name="verbaliser",
        title="Cross-entropy of label words",
        formula="−(1 − α) w_y log q(y) − α · mean of log p(hidden token), q = softmax over classes of their words' "
        "scores s(v) = 1/m Σ_j log p(v_j given the prompt), of several words log mean e^s",
        paper="Schick and Schütze 2021, Exploiting cloze questions for few-shot text classification and natural "
        "language inference (arXiv:2001.07676), equation 3",
        tasks={"prompting": Verbalised},
        module="canon.objectives.classification:CrossEntropy",
    ),
    Objective(
        name="negative-sampling",
        title="Negative sampling",
        formula="−log σ(v·u) − Σ_k log σ(−v·u_k) per pair, v the context (CBOW: the mean of all), u the word and u_k "
        "noise other than it; of labels −log σ(B_y h) − Σ_k log σ(−B_k h) (scored: the noise's mean)",
        paper="Mikolov, Sutskever, Chen, Corrado and Dean 2013, Distributed representations of words and phrases and "
        "their compositionality (arXiv:1310.4546), equation 4",
        tasks={"word-vectors": Negatives, "labels": Negatives},
        columns=(),
        outputs=("loss",),
        module="canon.objectives.words:NegativeSampling",
        shapes=("negatives",),
        decides={"loss": "negative-sampling"},
    ),
    Objective(
        name="hierarchical-softmax",
        title="Hierarchical softmax",
        formula="−Σ log σ(±v·u) over the nodes u on the way down a Huffman tree to the word or the label",
        paper="Morin and Bengio 2005, Hierarchical probabilistic neural network language model; Mikolov, Sutskever, "
        "Chen, Corrado and Dean 2013 (arXiv:1310.4546), equation 3",
        tasks={"word-vectors": NoSettings, "labels": NoSettings},
        columns=(),
        outputs=("loss",),
        module="canon.objectives.words:OfWords",
        decides={"loss": "hierarchical-softmax"},
    ),
    Objective(
        name="glove",
        title="Weighted least squares of log counts",
        formula="f(x) (w_i·w̃_j + b_i + b̃_j − log x)² over the entries x of the co-occurrence matrix that are not "
        "zero; of a text that was not learned from, with log x raised by the logarithm of how many times smaller it is",
        paper="Pennington, Socher and Manning 2014, GloVe: global vectors for word representation, equation 8",
        tasks={"word-vectors": NoSettings},
        columns=(),
        outputs=("loss", "pairs"),
        module="canon.objectives.words:OfWords",
    ),
    Objective(
        name="softmax",
        title="Softmax over labels",
        formula="−log softmax(B h)_y, y drawn from the example's labels (scored: their mean)",
        paper="Joulin, Grave, Bojanowski and Mikolov 2017, Bag of tricks for efficient text classification "
        "(arXiv:1607.01759), section 2",
        tasks={"labels": NoSettings},
        outputs=("labels", "probabilities", "loss"),
        module="canon.objectives.words:OfWords",
        decides={"loss": "softmax"},
    ),
    Objective(
        name="one-vs-all",
        title="One label against all others",
        formula="−Σ_l log σ(±B_l h) over all labels, + for the example's own",
        paper="Rifkin and Klautau 2004, In defense of one-vs-all classification",
        tasks={"labels": NoSettings},
        outputs=("labels", "probabilities", "loss"),
        module="canon.objectives.words:OneVsAll",
        decides={"loss": "one-vs-all"},
    ),
    Objective(
        name="likelihood",
        title="Likelihood",
        formula="−log p(w given the words before it)",
        paper="Jelinek and Mercer 1980, Interpolated estimation of Markov source parameters from sparse data",
        tasks={"language-model": NoSettings},
        outputs=("loss",),
    ),
    *RANKING,
    *PLAIN,
    *RECOMMENDATION,
    *_CONTROL,
)


def by_name() -> dict[str, Objective]:
    return {objective.name: objective for objective in OBJECTIVES}
