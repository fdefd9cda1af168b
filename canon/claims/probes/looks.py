"""What claims look at in a finished run: its network's units, gradients, vectors and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.data.formats.word_tests import Tests
from canon.inspect.features import network_of
from canon.metrics.vectors import similarity_correlation
from canon.nn.activations import activation
from canon.runs import checkpoint
from canon.systems.words.base import VectorLearner
from canon.tasks.contrastive import probe_accuracy
from canon.training.data import read_data
from canon.training.run import Run
from canon.use.model import Model

Values = dict[str, Any]


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
    splits = read_data(run.recipe, run.path).splits.values()
    tests = next(columns["tests"] for columns in splits if "tests" in columns)
    words, learner = model.schema.words, model.learner
    assert isinstance(learner, VectorLearner) and isinstance(tests, Tests) and words is not None
    arrays = learner.arrays
    forms = {word.upper() for word in words.words}
    known = [pair for pair in tests.pairs["wordsim353"] if {pair[0].upper(), pair[1].upper()} <= forms]
    vectors = {"word": arrays["word"], "context": arrays["context"], "sum": arrays["word"] + arrays["context"]}
    return {
        name: similarity_correlation(matrix_VD, words.words, known, restrict_vocab=None).spearman
        for name, matrix_VD in vectors.items()
    }
