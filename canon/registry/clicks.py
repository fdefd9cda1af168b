"""Predicting clicks from fields."""

from __future__ import annotations

from functools import partial

from canon.registry.record import Range, System

_fields = partial(
    System,
    chapter="clicks",
    encodings=("fields",),
    task="click-prediction",
    objective="logistic",
)
_DEEP = {"tiny": {"dim": 4, "hidden": [16]}, "base": {"dim": 10, "hidden": [400, 400, 400]}}
_LAZY = "rows of the table learn only in steps whose batch has them: lazy Adam or Adagrad"

SYSTEMS: tuple[System, ...] = (
    _fields(
        name="deepfm",
        title="DeepFM",
        paper="Guo et al. 2017, DeepFM: a factorization-machine based neural network for CTR prediction "
        "(arXiv:1703.04247)",
        module="canon.systems.clicks.deepfm:DeepFM",
        recipe="ctr/deepfm",
        data_recipe="ctr/clicks",
        first_for=("clicks",),
        presets=_DEEP,
        deviations=(_LAZY,),
        space={"system.dim": (4, 8, 10, 16, 32), "optimizer.lr": Range(1e-4, 1e-2)},
    ),
    _fields(
        name="wide-and-deep",
        title="Wide & Deep",
        paper="Cheng et al. 2016, Wide & deep learning for recommender systems (arXiv:1606.07792)",
        module="canon.systems.clicks.wide_and_deep:WideAndDeep",
        recipe="ctr/wide-and-deep",
        presets=_DEEP,
        deviations=(
            "one optimiser for both parts, in place of FTRL for the wide one and AdaGrad for the deep one",
            "the wide part reads every field, and crosses are hashed",
            _LAZY,
        ),
        space={"system.dim": (4, 8, 10, 16, 32), "optimizer.lr": Range(1e-4, 1e-2)},
    ),
    _fields(
        name="fm",
        title="Factorization machine",
        title_zh="因子分解机（FM）",
        paper="Rendle 2010, Factorization machines",
        module="canon.systems.clicks.fm:FM",
        recipe="ctr/fm",
        presets={"tiny": {"dim": 4}, "base": {"dim": 10}},
        deviations=("a cell of several values is one term, the mean of their vectors", _LAZY),
        space={"system.dim": (4, 8, 10, 16, 32), "optimizer.lr": Range(1e-4, 1e-2)},
    ),
    _fields(
        name="field-lr",
        title="Logistic regression over fields",
        title_zh="字段逻辑回归",
        paper="Richardson, Dominowska and Ragno 2007, Predicting clicks: estimating the click-through rate for new ads",
        module="canon.systems.clicks.linear:FieldLR",
        recipe="ctr/lr",
        presets={"tiny": {}},
        deviations=("weights learn by lazy Adagrad or Adam, not by L-BFGS",),
        space={"optimizer.lr": Range(1e-4, 1e-1)},
    ),
    _fields(
        name="gbdt-lr",
        title="Boosted trees and logistic regression",
        title_zh="GBDT+LR",
        paper="He et al. 2014, Practical lessons from predicting clicks on ads at Facebook; Ke et al. 2017, LightGBM",
        module="canon.systems.clicks.gbdt_lr:GBDTLR",
        loop="learner",
        torch="never",
        recipe="ctr/gbdt-lr",
        presets={"tiny": {"leaves": 4, "least": 3, "halves": "same"}},
        logs={"loss": "mean of log(1 + e^(−y f)) of the trees alone, on the rows that they grow on"},
        parameters="weights of leaves, and a bias",
        deviations=("the regression learns on all rows at once, not online",),
        space={"system.leaves": (7, 15, 31, 63), "system.rate": Range(0.02, 0.3)},
    ),
)
