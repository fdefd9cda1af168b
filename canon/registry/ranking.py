"""Learning to rank by gradients: scorers of documents, each trained by any loss of an order."""

from __future__ import annotations

from typing import Any

from canon.registry.record import Range, System


def _scorer(*, module: str, **more: Any) -> System:
    return System(
        chapter="ranking",
        module=f"canon.systems.ranking.{module}",
        encodings=("lists",),
        task="ranking",
        space={"optimizer.lr": Range(1e-4, 1e-1)},
        **more,
    )


SYSTEMS: tuple[System, ...] = (
    _scorer(
        name="linear-ranker",
        title="Linear ranker",
        title_zh="线性排序模型",
        paper="Joachims 2002, Optimizing search engines using clickthrough data",
        module="linear:LinearRanker",
        objective="ranknet",
        recipe="ranking/linear",
        presets={"tiny": {}},
        penalty="λ/2 ‖w‖², λ = `penalty`",
        deviations=("trained by gradient steps on the primal; ranknet, not the paper's hinge, by default",),
    ),
    _scorer(
        name="mlp-ranker",
        title="Multilayer ranker",
        title_zh="多层排序网络（RankNet、ListNet、LambdaRank 等）",
        paper="Burges et al. 2005, Learning to rank using gradient descent",
        module="mlp:MLPRanker",
        objective="lambdarank",
        recipe="ranking/neural",
        first_for=("queries",),
        presets={"tiny": {"hidden": [16]}, "base": {"hidden": [256, 128, 64], "dropout": 0.2}},
        deviations=("ReLU, dropout and norms in place of the paper's sigmoid units",),
    ),
    _scorer(
        name="fm-ranker",
        title="Factorization machine that ranks",
        title_zh="因子分解机排序模型",
        paper="Rendle 2010, Factorization machines",
        module="fm:FMRanker",
        objective="ranknet",
        recipe="ranking/fm-ranker",
        presets={"tiny": {"dim": 4}},
        penalty="λ/2 (‖w‖² + ‖V‖²), λ = `penalty`",
    ),
    _scorer(
        name="attention-ranker",
        title="Attentive ranker",
        title_zh="自注意力排序网络",
        paper="Pobrotyn et al. 2020, Context-aware learning to rank with self-attention (arXiv:2005.10084)",
        module="attention:AttentionRanker",
        objective="approxndcg",
        recipe="ranking/attention",
        presets={
            "tiny": {"dim": 16, "num_layers": 1, "hidden": 32, "dropout": 0.0},
            "base": {"dim": 256, "num_layers": 4, "num_heads": 4, "hidden": 512},
        },
    ),
)
