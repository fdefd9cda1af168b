"""Linear models, the perceptron of several layers, boosting."""

from __future__ import annotations

from functools import partial

from canon.registry.record import Interop, System

_linear = partial(
    System,
    chapter="linear",
    encodings=("features", "pixels"),
    task="classification",
    objective="cross-entropy",
    presets={"tiny": {}},
    interop=Interop(writes=("onnx",)),
)

SYSTEMS: tuple[System, ...] = (
    _linear(
        name="linear-regression",
        title="Linear regression",
        title_zh="线性回归",
        paper="Legendre 1805, Nouvelles méthodes pour la détermination des orbites des comètes",
        module="canon.systems.linear.regression:LinearRegression",
        task="regression",
        objective="squared",
        recipe="linear/diabetes-linear",
    ),
    _linear(
        name="logistic-regression",
        title="Logistic regression",
        title_zh="逻辑回归",
        paper="Cox 1958, The regression analysis of binary sequences",
        module="canon.systems.linear.classifiers:LogisticRegression",
        objective="logistic",
        recipe="linear/cancer-logistic",
        deviations=("more than two classes: one against the rest, each with its own logistic loss",),
    ),
    _linear(
        name="softmax-regression",
        title="Softmax regression",
        title_zh="Softmax 回归",
        paper="McFadden 1973, Conditional logit analysis of qualitative choice behavior",
        module="canon.systems.linear.classifiers:SoftmaxRegression",
        recipe="linear/digits-softmax",
    ),
    _linear(
        name="linear-svm",
        title="Linear support vector machine",
        title_zh="线性支持向量机",
        paper="Cortes and Vapnik 1995, Support-vector networks",
        module="canon.systems.linear.svm:LinearSVM",
        objective="hinge",
        recipe="linear/cancer-svm",
        penalty="½‖w‖²/(C n)",
        deviations=(
            "solved by subgradient steps on the primal, not by quadratic programming",
            "more than two classes: one against the rest",
        ),
    ),
    _linear(
        name="mlp",
        title="Multilayer perceptron",
        title_zh="多层感知机",
        paper="Rumelhart, Hinton and Williams 1986, Learning representations by back-propagating errors",
        module="canon.systems.linear.mlp:MLP",
        others={"regression": "squared"},
        recipe="linear/digits-mlp",
        first_for=("table",),
        data_recipe="linear/table-mlp",
        penalty="λ/(2n) Σ w², λ = `penalty`",
        presets={"tiny": {"hidden": [16]}, "base": {"hidden": [256, 256], "dropout": 0.2}},
        deviations=("ReLU, dropout and cross-entropy in place of the paper's logistic units and squared error",),
    ),
    _linear(
        name="adaboost",
        title="AdaBoost with decision stumps",
        title_zh="AdaBoost（决策树桩）",
        paper="Freund and Schapire 1997, A decision-theoretic generalization of on-line learning; "
        "Zhu et al. 2009, Multi-class AdaBoost (SAMME)",
        module="canon.systems.linear.adaboost:AdaBoost",
        objective="exponential",
        loop="learner",
        torch="never",
        recipe="linear/cancer-adaboost",
        interop=Interop(),
        logs={"weighted_error": "err of the last round: Σ w_i [h(x_i) ≠ y_i] / Σ w_i"},
        parameters="5 numbers per round",
    ),
)
