"""Systems that recommend items to users."""

from __future__ import annotations

from functools import partial

from canon.registry.record import Range, System

_DRAWN = "of all draws since the last line, each before it was learned from"
_system = partial(
    System,
    chapter="recommendation",
    encodings=("events",),
    task="recommendation",
    loop="learner",
    torch="never",
)

SYSTEMS: tuple[System, ...] = (
    _system(
        name="ials",
        title="Implicit ALS",
        title_zh="隐式交替最小二乘",
        paper="Hu, Koren and Volinsky 2008, Collaborative filtering for implicit feedback datasets; Rendle, Krichene, "
        "Zhang and Koren 2022, Revisiting the performance of iALS on item recommendation benchmarks (arXiv:2110.14037)",
        module="canon.systems.recommendation.ials:IALS",
        objective="weighted-squares",
        recipe="recommend/ials",
        first_for=("interactions",),
        presets={"tiny": {"dim": 8, "decay": 0.01}},
        logs={"loss": "the objective / N, at the rows as they are"},
        parameters="factors of users and items",
        deviations=(
            "ratings do not weigh",
            "rows move by three steps of conjugate gradients from where they are, where the papers solve",
        ),
        space={
            "system.dim": (32, 64, 128),
            "system.unobserved": Range(0.01, 1.0),
            "system.decay": Range(0.0003, 0.03),
            "train.epochs": Range(5, 30),
        },
    ),
    _system(
        name="bpr",
        title="Bayesian personalised ranking",
        title_zh="贝叶斯个性化排序",
        paper="Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009, BPR: Bayesian personalized ranking from "
        "implicit feedback (arXiv:1205.2618)",
        module="canon.systems.recommendation.bpr:BPR",
        objective="bpr",
        recipe="recommend/bpr",
        presets={"tiny": {"dim": 8, "lr": 0.5, "decay": 0.001}},
        logs={"loss": f"mean of −ln σ(x̂_ui − x̂_uj) {_DRAWN}"},
        parameters="factors of users and items, and biases of items",
        deviations=(
            "the rate may fall, which theirs does not",
            "one λ for all parameters, biases too",
            "negatives may be drawn by count^β",
        ),
        space={
            "system.dim": (32, 64, 128),
            "system.lr": Range(0.01, 0.2),
            "system.decay": Range(0.0005, 0.05),
            "train.epochs": Range(10, 100),
        },
    ),
    _system(
        name="mf",
        title="Matrix factorisation",
        title_zh="矩阵分解",
        paper="Koren, Bell and Volinsky 2009, Matrix factorization techniques for recommender systems; Rendle, "
        "Krichene, Zhang and Anderson 2020, Neural collaborative filtering vs. matrix factorization revisited "
        "(arXiv:2005.09683)",
        module="canon.systems.recommendation.mf:MF",
        objective="logistic-events",
        objectives=("squared-ratings",),
        recipe="recommend/mf",
        presets={
            "tiny": {"dim": 8, "lr": 0.3, "negatives": 4, "decay": 0.001},
            "ratings": {"loss": "squared", "decay": 0.05},
        },
        logs={"loss": f"mean of the objective {_DRAWN}"},
        parameters="factors and biases of users and items",
        deviations=(
            "events come evenly drawn, where the papers go through all in an epoch",
            "the rate may fall, which theirs does not",
        ),
        space={
            "system.dim": (32, 64, 128, 192),
            "system.lr": Range(0.002, 0.1),
            "system.decay": Range(0.0005, 0.05),
            "system.negatives": (4, 8, 16),
            "train.epochs": Range(10, 100),
        },
    ),
    _system(
        name="item-knn",
        title="Item-based nearest neighbours",
        title_zh="基于物品的近邻",
        paper="Sarwar, Karypis, Konstan and Riedl 2001, Item-based collaborative filtering recommendation algorithms; "
        "shrinkage: Bell and Koren 2007, Scalable collaborative filtering with jointly derived neighborhood "
        "interpolation weights",
        module="canon.systems.recommendation.item_knn:ItemKNN",
        objective="shared-users",
        recipe="recommend/item-knn",
        presets={"tiny": {"neighbours": 5, "shrink": 1.0}},
        logs={"found": "items whose neighbours are known"},
        parameters="neighbours and how alike they are",
        deviations=("who has an item counts, not how it was rated",),
        space={"system.neighbours": Range(10, 400), "system.shrink": Range(1.0, 200.0)},
    ),
    _system(
        name="popular",
        title="Popularity",
        title_zh="流行度",
        paper="Cremonesi, Koren and Turrin 2010, Performance of recommender algorithms on top-N recommendation tasks",
        module="canon.systems.recommendation.popular:Popular",
        objective="popularity",
        recipe="recommend/popular",
        presets={"tiny": {}},
        logs={"counted": "events counted so far"},
        parameters="counts of items",
        deviations=("the score is the logarithm of the count, which changes no order",),
    ),
)
