"""Learning to rank without gradient steps: boosted trees, support vector machines, boosting, perceptrons, programs."""

from __future__ import annotations

from typing import Any

from canon.registry.record import Range, System


def _learner(*, module: str, **more: Any) -> System:
    return System(
        chapter="ranking",
        module=f"canon.systems.ranking.{module}",
        encodings=("lists",),
        task="ranking",
        loop="learner",
        takes_objective_settings=True,
        **more,
    )


_TREE_LOGS = {
    "leaves": "of all trees",
    "features_used": "features that some tree splits by",
    "first_feature": "share of the gain of all splits that one feature has, the most of any",
}
_TREE_SPACE: dict[str, Range | tuple[Any, ...]] = {
    "system.learning_rate": Range(0.01, 0.3),
    "system.num_leaves": Range(4, 64),
    "system.min_documents": Range(10, 400),
}
_TINY_TREES = {"num_leaves": 7, "min_documents": 5, "min_hessian": 0.0}

SYSTEMS: tuple[System, ...] = (
    _learner(
        name="lambdamart",
        title="LambdaMART",
        paper="Burges 2010, From RankNet to LambdaRank to LambdaMART: an overview",
        module="trees:LambdaMART",
        objective="lambdarank",
        objectives=("xe-ndcg",),
        recipe="ranking/lambdamart",
        presets={"tiny": _TINY_TREES},
        logs=_TREE_LOGS,
        parameters="numbers of the trees: a value of each leaf, a feature and a threshold of each split",
        deviations=("leaves are grown best first on histograms of the features, as LightGBM does",),
        space=_TREE_SPACE,
    ),
    _learner(
        name="gbdt-ranker",
        title="Boosted trees of grades",
        title_zh="逐点梯度提升树排序",
        paper="Friedman 2001, Greedy function approximation: a gradient boosting machine",
        module="trees:GBDTRanker",
        objective="grade-squared",
        objectives=("grade-logistic",),
        recipe="ranking/gbdt",
        presets={"tiny": _TINY_TREES},
        logs=_TREE_LOGS,
        parameters="numbers of the trees: a value of each leaf, a feature and a threshold of each split",
        deviations=("leaves are grown best first on histograms of the features, as LightGBM does",),
        space=_TREE_SPACE,
    ),
    _learner(
        name="ranking-svm",
        title="Ranking SVM",
        title_zh="排序支持向量机",
        paper="Joachims 2002, Optimizing search engines using clickthrough data; Herbrich, Graepel and Obermayer 2000",
        module="ranking_svm:RankingSVM",
        objective="pair-hinge",
        recipe="ranking/ranking-svm",
        presets={"tiny": {"c": 1.0}},
        penalty="½‖w‖²/(C P), P the pairs",
        logs={
            "value": "the least ½‖w‖² + C Σ loss so far",
            "gap": "hinge: (value − a bound below it)/value; squared: norm of the gradient, by that at w = 0",
            "violated": "share of the pairs with d < m, by their weights",
        },
        parameters="weights",
        deviations=("objective.per = query weighs pairs so that queries count alike; per = pair is the papers' sum",),
        space={"system.c": Range(1e-6, 1e1)},
    ),
    _learner(
        name="rankboost",
        title="RankBoost",
        paper="Freund, Iyer, Schapire and Singer 2003, An efficient boosting algorithm for combining preferences",
        module="rankboost:RankBoost",
        objective="pair-exponential",
        recipe="ranking/rankboost",
        presets={"tiny": {}},
        logs={
            "r": "Σ D(i, j)(h(x_i) − h(x_j)) of the last round",
            "alpha": "½ ln((1 + r)/(1 − r))",
            "loss": "mean of e^(s_j − s_i) over all training pairs l_i > l_j, by their weights",
        },
        parameters="3 numbers per round: feature, threshold, α",
        deviations=(
            "every value of a feature is a threshold, and every feature is known of every document",
            "objective.per = query begins with queries that weigh alike; per = pair is the paper's even distribution",
        ),
    ),
    _learner(
        name="adarank",
        title="AdaRank",
        paper="Xu and Li 2007, AdaRank: a boosting algorithm for information retrieval",
        module="adarank:AdaRank",
        objective="exponential-measure",
        recipe="ranking/adarank",
        presets={"tiny": {}},
        logs={
            "alpha": "½ ln(Σ P(q)(1 + E(q)) / Σ P(q)(1 − E(q))) of the last round",
            "measure": "mean of E over the training queries",
            "loss": "mean of e^(−E) over the training queries",
        },
        parameters="2 numbers per round: feature, α",
        deviations=("a round that changes no query's measure is left out, and the next best feature taken",),
    ),
    _learner(
        name="prank",
        title="PRank",
        paper="Crammer and Singer 2002, Pranking with ranking",
        module="prank:PRank",
        objective="rank-error",
        recipe="ranking/prank",
        presets={"tiny": {}},
        logs={"rank_error": "mean over documents of the thresholds on whose wrong side they were when they came"},
        parameters="weights and thresholds",
        deviations=("queries of one grade only are left out",),
    ),
    _learner(
        name="oap-bpm",
        title="OAP-BPM",
        paper="Harrington 2003, Online ranking/collaborative filtering using the perceptron algorithm",
        module="oap_bpm:OAPBPM",
        objective="rank-error",
        recipe="ranking/oap-bpm",
        presets={"tiny": {"perceptrons": 8}},
        logs={"rank_error": "mean over documents and perceptrons that learned from them, as they came"},
        parameters="weights and thresholds of the mean",
        deviations=("queries of one grade only are left out",),
        space={"system.share": Range(0.05, 0.9)},
    ),
    _learner(
        name="rankprop",
        title="RankProp",
        paper="Caruana, Baluja and Mitchell 1996, Using the future to sort out the present: Rankprop and multitask "
        "learning for medical risk evaluation",
        module="rankprop:RankProp",
        objective="disorder",
        recipe="ranking/rankprop",
        presets={"tiny": {}},
        logs={"moved": "Σ (t − s)² / Σ (s − s̄)² over the training documents, t the targets of the step"},
        parameters="weights and a bias",
        deviations=(
            "a linear scorer that is fitted exactly, in place of a network that takes gradient steps",
            "targets are the nearest numbers in the right order, in place of evenly spaced ranks",
            "the first fit is to the grades",
        ),
        space={"system.penalty": Range(1e-3, 1e3)},
    ),
    _learner(
        name="svm-map",
        title="SVM-MAP",
        paper="Yue, Finley, Radlinski and Joachims 2007, A support vector method for optimizing average precision",
        module="structured:SVMMAP",
        objective="map-hinge",
        recipe="ranking/svm-map",
        presets={"tiny": {}},
        penalty="½‖w‖²/C",
        logs={
            "value": "the least ½‖w‖² + C · loss so far",
            "gap": "(value − a bound below it)/value",
            "loss": "mean over training queries of the structured hinge at the newest w",
        },
        parameters="weights",
        deviations=("one slack variable for all queries in place of one each, which has the same least",),
        space={"system.c": Range(1e-1, 1e4)},
    ),
    _learner(
        name="svm-ndcg",
        title="SVM-NDCG",
        paper="Chakrabarti, Khanna, Sawant and Bhattacharyya 2008, Structured learning for non-smooth ranking losses",
        module="structured:SVMNDCG",
        objective="ndcg-hinge",
        recipe="ranking/svm-ndcg",
        presets={"tiny": {"c": 1e4}},
        penalty="½‖w‖²/C",
        logs={
            "value": "the least ½‖w‖² + C · loss so far",
            "gap": "(value − a bound below it)/value",
            "loss": "mean over training queries of the structured hinge at the newest w",
        },
        parameters="weights",
        deviations=(
            "one slack variable for all queries in place of one each, which has the same least",
            "c(r) = 1/√(1 + r), divided by its sum over the list",
        ),
        space={"system.c": Range(1e-1, 1e4)},
    ),
    _learner(
        name="rankgp",
        title="RankGP",
        title_zh="RankGP（遗传规划排序）",
        paper="Yeh, Lin, Ke and Yang 2007, Learning to rank for information retrieval using genetic programming",
        module="rankgp:RankGP",
        objective="lost-measure",
        recipe="ranking/rankgp",
        presets={"tiny": {"individuals": 12}},
        logs={
            "fitness": "mean of E over the training queries, of the best formula",
            "mean_fitness": "mean over the formulas of a generation",
            "nodes": "of the best formula",
        },
        parameters="nodes of the best formula",
        deviations=("sizes of formulas are bounded by `nodes`",),
    ),
)
