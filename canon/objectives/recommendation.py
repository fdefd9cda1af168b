"""Records of what is lowered by systems that recommend. They are learners, which compute it themselves."""

from __future__ import annotations

from canon.objectives.record import Objective
from canon.objectives.settings import NoSettings

RECOMMENDATION: tuple[Objective, ...] = (
    Objective(
        name="bpr",
        title="Bayesian personalised ranking",
        formula="−ln σ(x̂_ui − x̂_uj), i an item that user u has and j one that u has not",
        paper="Rendle, Freudenthaler, Gantner and Schmidt-Thieme 2009, BPR: Bayesian personalized ranking from "
        "implicit feedback (arXiv:1205.2618)",
        tasks={"recommendation": NoSettings},
        columns=("item",),
        outputs=("loss",),
    ),
    Objective(
        name="logistic-events",
        title="Logistic loss of events",
        formula="−ln σ(x̂_ui) of an event, and −ln(1 − σ(x̂_uj)) of each of m items j that u has not",
        paper="Rendle, Krichene, Zhang and Anderson 2020, Neural collaborative filtering vs. matrix factorization "
        "revisited (arXiv:2005.09683)",
        tasks={"recommendation": NoSettings},
        columns=("item",),
        outputs=("loss",),
        decides={"loss": "logistic"},
    ),
    Objective(
        name="squared-ratings",
        title="Squared error of ratings",
        formula="(r_ui − x̂_ui)²",
        paper="Koren, Bell and Volinsky 2009, Matrix factorization techniques for recommender systems, equation 5",
        tasks={"recommendation": NoSettings},
        columns=("item", "rating"),
        outputs=("loss",),
        decides={"loss": "squared"},
    ),
    Objective(
        name="weighted-squares",
        title="Weighted squares of all pairs",
        formula="Σ over events of (x̂_ui − 1)² + α₀ Σ over all pairs of x̂_ui²",
        paper="Hu, Koren and Volinsky 2008, Collaborative filtering for implicit feedback datasets; Rendle, Krichene, "
        "Zhang and Koren 2022 (arXiv:2110.14037), equation 1",
        tasks={"recommendation": NoSettings},
        columns=("item",),
        outputs=("loss",),
    ),
    Objective(
        name="shared-users",
        title="Users in common",
        formula="c_ij / (√(c_i c_j) + shrink), which is counted, not minimised",
        paper="Sarwar, Karypis, Konstan and Riedl 2001, Item-based collaborative filtering recommendation algorithms",
        tasks={"recommendation": NoSettings},
        columns=("item",),
        outputs=("loss",),
    ),
    Objective(
        name="popularity",
        title="Popularity",
        formula="−log of an item's share of all events, whose least value counting reaches",
        paper="Cremonesi, Koren and Turrin 2010, Performance of recommender algorithms on top-N recommendation tasks",
        tasks={"recommendation": NoSettings},
        columns=("item",),
        outputs=("loss",),
    ),
)
