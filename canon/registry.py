"""The one explicit table of systems: command-line choices, help, docs tables and the test battery come from it.

Records hold names of modules, not the modules: reading the table imports no torch. A system's module has a `Config`
(settings) and the class named in the record, built as `cls(config)`: a torch module for the gradient loop, or a
`Learner` (canon.training.learner) that learns in its own way.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from canon.config import Origins, Table, parse
from canon.errors import unknown


@dataclass(frozen=True)
class System:
    name: str
    title: str
    chapter: str
    paper: str
    module: str  # "canon.systems.linear.mlp:MLP"
    inputs: tuple[str, ...]  # kinds of data it reads: features, image, text
    task: str  # canon.tasks: what is predicted, and by which metrics it is judged
    objective: str
    loop: Literal["gradient", "learner"] = "gradient"
    recipe: str = ""  # what `canon train NAME` runs
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    interop: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()

    @property
    def docs(self) -> str:
        return f"docs/systems/{self.name}.md"

    def load(self) -> tuple[type, type]:
        """The system's Config and class; this imports its module."""
        path, _, name = self.module.partition(":")
        module = importlib.import_module(path)
        return module.Config, getattr(module, name)

    def configure(self, preset: str, changes: Table, origins: Origins | None = None) -> Any:
        """The system's settings: defaults, then the preset's, then `changes`."""
        if preset and preset not in self.presets:
            raise unknown("system", f"{self.name}:{preset}", (f"{self.name}:{known}" for known in self.presets))
        config_class, _ = self.load()
        return parse(config_class, {**self.presets.get(preset, {}), **changes}, "system", origins)


SYSTEMS: tuple[System, ...] = (
    System(
        name="linear-regression",
        title="Linear regression",
        chapter="linear",
        paper="Legendre 1805, Nouvelles méthodes pour la détermination des orbites des comètes",
        module="canon.systems.linear.regression:LinearRegression",
        inputs=("features", "image"),
        task="regression",
        objective="squared",
        recipe="linear/diabetes-linear",
        presets={"tiny": {}},
    ),
    System(
        name="logistic-regression",
        title="Logistic regression",
        chapter="linear",
        paper="Cox 1958, The regression analysis of binary sequences",
        module="canon.systems.linear.classifiers:LogisticRegression",
        inputs=("features", "image"),
        task="classification",
        objective="logistic",
        recipe="linear/cancer-logistic",
        presets={"tiny": {}},
        deviations=("more than two classes: one against the rest, each with its own logistic loss",),
    ),
    System(
        name="softmax-regression",
        title="Softmax regression",
        chapter="linear",
        paper="McFadden 1973, Conditional logit analysis of qualitative choice behavior",
        module="canon.systems.linear.classifiers:SoftmaxRegression",
        inputs=("features", "image"),
        task="classification",
        objective="cross-entropy",
        recipe="linear/digits-softmax",
        presets={"tiny": {}},
    ),
    System(
        name="linear-svm",
        title="Linear support vector machine",
        chapter="linear",
        paper="Cortes and Vapnik 1995, Support-vector networks",
        module="canon.systems.linear.svm:LinearSVM",
        inputs=("features", "image"),
        task="classification",
        objective="hinge",
        recipe="linear/cancer-svm",
        presets={"tiny": {}},
        deviations=(
            "solved by subgradient steps on the primal, not by quadratic programming",
            "more than two classes: one against the rest",
        ),
    ),
    System(
        name="mlp",
        title="Multilayer perceptron",
        chapter="linear",
        paper="Rumelhart, Hinton and Williams 1986, Learning representations by back-propagating errors",
        module="canon.systems.linear.mlp:MLP",
        inputs=("features", "image"),
        task="classification",
        objective="cross-entropy",
        recipe="linear/digits-mlp",
        presets={"tiny": {"hidden": [16]}, "base": {"hidden": [256, 256], "dropout": 0.2}},
        deviations=("ReLU, dropout and cross-entropy in place of the paper's logistic units and squared error",),
    ),
    System(
        name="adaboost",
        title="AdaBoost with decision stumps",
        chapter="linear",
        paper="Freund and Schapire 1997, A decision-theoretic generalization of on-line learning; "
        "Zhu et al. 2009, Multi-class AdaBoost (SAMME)",
        module="canon.systems.linear.adaboost:AdaBoost",
        inputs=("features", "image"),
        task="classification",
        objective="exponential",
        loop="learner",
        recipe="linear/cancer-adaboost",
        presets={"tiny": {}},
    ),
    System(
        name="lenet",
        title="LeNet-5",
        chapter="vision",
        paper="LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document recognition",
        module="canon.systems.vision.lenet:LeNet",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-lenet",
        presets={
            "tiny": {"activation": "relu", "pooling": "max"},
            "base": {},
            "relu": {"activation": "relu", "pooling": "max"},
        },
        deviations=(
            "plain mean pooling without trained coefficients, every map connected to every map of the layer below",
            "softmax output with cross-entropy in place of radial basis functions",
        ),
    ),
)

_BY_NAME = {system.name: system for system in SYSTEMS}


def find(name: str) -> tuple[System, str]:
    """The system and preset that "resnet:34" names."""
    base, _, preset = name.partition(":")
    if base not in _BY_NAME:
        raise unknown("system", base, _BY_NAME)
    system = _BY_NAME[base]
    if preset and preset not in system.presets:
        raise unknown("system", name, (f"{base}:{known}" for known in system.presets))
    return system, preset
