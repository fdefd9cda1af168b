"""What claims look at in a finished run: its network's units, gradients, vectors and samples."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon import metrics
from canon.contracts import Episodes
from canon.data.batching.lists import Grades
from canon.data.batching.sequences import Ragged
from canon.data.formats.word_tests import Tests
from canon.data.schema import Columns, take
from canon.inspect.features import network_of
from canon.metrics.vectors import similarity_correlation
from canon.nn.activations import activation
from canon.objectives.settings import Temperature
from canon.runs import checkpoint
from canon.systems.words.base import VectorLearner
from canon.tasks.contrastive import probe_accuracy
from canon.tasks.finetune_tags import WordTags
from canon.tasks.transduction import Transduction
from canon.training.data import read_data
from canon.training.environment import Playing
from canon.training.run import Run
from canon.use.model import Model

Values = dict[str, Any]
_MOST_DECODED = 2000
_CLIFF = 4, 12  # rows and columns of the grid; the cliff is in the last row
_MOST_MOVES = 30


def last(run: Run) -> Model:
    """The run with its last weights, which need not be its best."""
    model = Model(run)
    tensors, state = checkpoint.load((run.path / "last").resolve(), run.recipe.system.name, groups=("model",))
    model.learner.restore(tensors, state["learner"])
    return model


def dead_units(run: Run) -> Values:
    """The share of hidden units whose input is negative for every training example: a ReLU there never fires."""
    model = last(run)
    network = network_of(model)
    fired: dict[str, Tensor] = {}

    def watch(name: str) -> Any:
        def note(_layer: nn.Module, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
            fires = (inputs[0] > 0).flatten(1).any(0)
            fired[name] = fired.get(name, torch.zeros_like(fires)) | fires

        return note

    kind = type(activation(run.recipe.config.activation))
    layers = [(name, layer) for name, layer in network.named_modules() if type(layer) is kind]
    handles = [layer.register_forward_hook(watch(name)) for name, layer in layers]
    model.learner.outputs(read_data(run.recipe, run.path).splits["train"])
    for handle in handles:
        handle.remove()
    units = torch.cat(list(fired.values()))
    return {"dead": float(1 - units.float().mean())}


def modes(run: Run) -> Values:
    """Whether the samples of a ring of eight Gaussians, at the end, reach fewer than all of them."""
    result = run.result or {}
    return {"dropped": float(result["scores"]["test"]["modes"] < 8)}


def before_and_after(run: Run) -> Values:
    """Accuracy of a linear classifier of h and of z, of test images as they are."""
    model = last(run)
    columns = read_data(run.recipe, run.path).splits["test"]
    target_B = torch.from_numpy(np.asarray(columns["target"]))
    features_BF = torch.from_numpy(model.learner.outputs(columns)["features"])
    with torch.no_grad():
        z_BD = network_of(model).get_submodule("projection")(features_BF)
    return {"before": probe_accuracy(features_BF, target_B), "after": probe_accuracy(z_BD, target_B)}


def sum_and_parts(run: Run) -> Values:
    """Spearman's correlation with WordSim-353 of GloVe's word vectors, its context vectors and their sum."""
    model = last(run)
    words, learner, tests = model.schema.words, model.learner, _tests(run)
    assert isinstance(learner, VectorLearner) and words is not None
    arrays = learner.arrays
    forms = {word.upper() for word in words.words}
    known = [pair for pair in tests.pairs["wordsim353"] if {pair[0].upper(), pair[1].upper()} <= forms]
    vectors = {"word": arrays["word"], "context": arrays["context"], "sum": arrays["word"] + arrays["context"]}
    return {
        name: similarity_correlation(matrix_VD, words.words, known, restrict_vocab=None).spearman
        for name, matrix_VD in vectors.items()
    }


def _tests(run: Run) -> Tests:
    splits = read_data(run.recipe, run.path).splits.values()
    tests = next(columns["tests"] for columns in splits if "tests" in columns)
    assert isinstance(tests, Tests)
    return tests


def hard_negatives(run: Run) -> Values:
    """The share of the loss's gradient, softmax(cosine / τ) over other test images, that the most alike tenth get."""
    model = last(run)
    columns = read_data(run.recipe, run.path).splits["test"]
    with torch.no_grad():
        features_BF = torch.from_numpy(model.learner.outputs(columns)["features"])
        z_BD = F.normalize(network_of(model).get_submodule("projection")(features_BF).double(), dim=1)
    settings = run.recipe.objective.settings
    assert isinstance(settings, Temperature)
    cosine_BB = (z_BD @ z_BD.T).fill_diagonal_(-torch.inf)
    share_BB = torch.softmax(cosine_BB / settings.temperature, dim=1).sort(dim=1, descending=True).values
    return {"on hard negatives": float(share_BB[:, : len(z_BD) // 10].sum(1).mean())}


def log_seconds(run: Run) -> Values:
    """The logarithm, to base 10, of the seconds of training: differences are of ratios."""
    return {"log seconds": math.log10((run.result or {})["cost"]["seconds"])}


def rare_words(run: Run) -> Values:
    """Spearman's correlation with the half of WordSim-353's pairs that have the rarer words, and the time."""
    model = last(run)
    words, learner, tests = model.schema.words, model.learner, _tests(run)
    assert isinstance(learner, VectorLearner) and words is not None
    place = {word.upper(): i for i, word in reversed(list(enumerate(words.words)))}
    pairs = [pair for pair in tests.pairs["wordsim353"] if {pair[0].upper(), pair[1].upper()} <= set(place)]
    rarer = sorted(pairs, key=lambda pair: max(place[pair[0].upper()], place[pair[1].upper()]))[len(pairs) // 2 :]
    correlation = similarity_correlation(learner.vectors(), words.words, rarer, restrict_vocab=None)
    return {"rare words": correlation.spearman, "log seconds": log_seconds(run)["log seconds"]}


def errors_by_length(run: Run) -> Values:
    """The share of test sequences that come out wrong, by the length of the source: of each quarter."""
    model = last(run)
    test = read_data(run.recipe, run.path).splits["test"]
    columns = take(test, np.linspace(0, len(test["input"]) - 1, min(len(test["input"]), _MOST_DECODED)).astype(int))
    source, task = columns["input"], model.task
    assert isinstance(source, Ragged) and isinstance(task, Transduction)
    texts = task.texts(model.learner.outputs(columns))
    wrong = np.array([text not in right for text, right in zip(texts, task.references(columns), strict=True)])
    quarters = np.array_split(np.argsort(source.lengths, kind="stable"), 4)
    return {"errors by length": [[float(source.lengths[of].mean()), float(wrong[of].mean())] for of in quarters]}


def last_evaluations(run: Run) -> Values:
    """The mean return of the last ten evaluations while training, and the largest fall from one to the next."""
    series = [row["valid/return"] for row in run.metrics() if "valid/return" in row]
    falls = [before - after for before, after in pairwise(series)]
    return {"last ten": float(np.mean(series[-10:])), "largest fall": max(falls, default=0.0)}


def contrary_steps(run: Run) -> Values:
    """The share of evaluations at which the loss of the validation queries has fallen and their NDCG@10 too."""
    rows = [(row["valid/loss"], row["valid/ndcg@10"]) for row in run.metrics() if "valid/ndcg@10" in row]
    contrary = [loss < before and ndcg < was for (before, was), (loss, ndcg) in pairwise(rows)]
    return {"contrary": float(np.mean(contrary)), "none": 0.0}


def unseen_words(run: Run) -> Values:
    """Spearman's correlation with the pairs of WordSim-353 of which training has not seen a word; a word without a
    vector is as like to any other as to none."""
    model = last(run)
    words, learner = model.schema.words, model.learner
    assert isinstance(learner, VectorLearner) and words is not None
    forms = set(words.words)
    pairs = [pair for pair in _tests(run).pairs["wordsim353"] if not {pair[0].lower(), pair[1].lower()} <= forms]
    likeness = []
    for one, two, _ in pairs:
        first, second = learner.vector(one.lower()), learner.vector(two.lower())
        known = first is not None and second is not None
        likeness.append(float(F.cosine_similarity(torch.tensor(first), torch.tensor(second), dim=0)) if known else 0.0)
    agreement = 0.0 if len(set(likeness)) < 2 else metrics.spearman(likeness, [score for *_, score in pairs])
    return {"unseen words": agreement, "nothing": 0.0}


def ambiguous_words(run: Run) -> Values:
    """Of words that training has seen with several tags, each at least a fifth of the time: the share of those in the
    test set that are tagged right, and the share that the commonest tag of each word gets."""
    splits = read_data(run.recipe, run.path).splits
    model = last(run)
    assert isinstance(model.task, WordTags)
    seen: dict[str, Counter[str]] = {}
    for word, tag in _tagged(splits["train"]):
        seen.setdefault(word, Counter())[tag] += 1
    several = {word: of for word, of in seen.items() if len(of) > 1 and of.most_common(2)[1][1] >= 0.2 * of.total()}
    predicted = [tag for tags in model.task.tags(model.learner.outputs(splits["test"])) for tag in tags]
    rows = [
        (tag == right, several[word].most_common(1)[0][0] == right)
        for (word, right), tag in zip(_tagged(splits["test"]), predicted, strict=True)
        if word in several
    ]
    ambiguous, commonest = np.mean(rows or [(False, False)], axis=0)
    return {"ambiguous": float(ambiguous), "commonest": float(commonest)}


def _tagged(columns: Columns) -> list[tuple[str, str]]:
    words: Any = columns["words"]
    tags: Any = columns["tags"]
    sentences = zip(words, tags, strict=True)
    return [(word.lower(), tag) for sentence in sentences for word, tag in zip(*sentence, strict=True)]


def failed_tuning(run: Run) -> Values:
    """Whether the last weights are right about no more of the test set than its commonest class is, to a hundredth."""
    model = last(run)
    columns = read_data(run.recipe, run.path).splits["test"]
    scores = model.task.score(model.learner.outputs(columns), columns)
    _, counts = np.unique(np.asarray(columns["target"]), return_counts=True)
    return {"fails": float(scores["accuracy"] <= counts.max() / counts.sum() + 0.01)}


def cliff_path(run: Run) -> Values:
    """How many rows above the cliff the greedy policy is after each move."""
    learner, episodes = last(run).learner, read_data(run.recipe, run.path).splits["test"]["input"]
    assert isinstance(learner, Playing) and isinstance(episodes, Episodes)
    environment = episodes.make()
    rows: list[list[float]] = []
    place, ended = environment.reset(0), False
    while not ended and len(rows) <= _MOST_MOVES:
        rows.append([float(len(rows)), float(_CLIFF[0] - 1 - int(place) // _CLIFF[1])])
        place, _, terminated, truncated = environment.step(int(learner.agent.act(np.array([place]))[0]))
        ended = terminated or truncated
    return {"rows above the cliff": [*rows, [float(len(rows)), float(_CLIFF[0] - 1 - int(place) // _CLIFF[1])]]}


def ndcg_by_length(run: Run) -> Values:
    """NDCG@10 of test queries by how many documents they have: of each quarter."""
    columns = read_data(run.recipe, run.path).splits["test"]
    grades, scores_N = columns["target"], last(run).learner.outputs(columns)["scores"]
    assert isinstance(grades, Grades)
    starts = np.cumsum(grades.lengths) - grades.lengths
    points = []
    for quarter in np.array_split(np.argsort(grades.lengths, kind="stable"), min(4, len(grades))):
        rows_N = np.concatenate([np.arange(starts[i], starts[i] + grades.lengths[i]) for i in quarter])
        quality = metrics.ndcg(grades.values[rows_N], scores_N[rows_N], sizes=grades.lengths[quarter], k=10)
        points.append([float(grades.lengths[quarter].mean()), quality])
    return {"NDCG by length": points}
