"""Control: planning with known probabilities, and learning by acting."""

from __future__ import annotations

from functools import partial

from canon.registry.record import Range, System

_EPISODES = {
    "episodes": "that ended since the last line",
    "return": "mean of their returns, exploring included",
    "length": "mean of their lengths",
}
_planner = partial(
    System,
    chapter="control",
    encodings=("dynamics",),
    task="control",
    objective="bellman",
    loop="environment",
    torch="never",
    presets={"tiny": {}},
    logs={
        "change": "max over states of abs(V after the step − V before)",
        "start_value": "Σ_s p(start s) V(s)",
        **_EPISODES,
    },
    parameters="states",
)

_table = partial(
    System,
    chapter="control",
    encodings=("states",),
    task="control",
    objective="temporal-difference",
    loop="environment",
    torch="never",
    logs={
        "td_error": "mean of abs(y − Q(s, a)) before each update since the last line",
        "epsilon": "ε now",
        "mean_q": "mean of Q over all states and actions",
        **_EPISODES,
    },
    parameters="states · actions",
)

# RL Baselines3 Zoo's settings for CartPole, which the recipe has too
_ZOO = {
    "hidden": [256, 256],
    "capacity": 100_000,
    "minibatch": 64,
    "learn_from": 1000,
    "learn_every": 256,
    "updates": 128,
    "target_every": 10,
    "epsilon_steps": 8000,
    "epsilon_end": 0.04,
}

SYSTEMS: tuple[System, ...] = (
    _planner(
        name="policy-iteration",
        title="Policy iteration",
        title_zh="策略迭代",
        paper="Howard 1960, Dynamic programming and Markov processes",
        module="canon.systems.control.planning:PolicyIteration",
        recipe="control/dynamic",
        deviations=(
            "of actions whose values are equal but for rounding the first is taken",
            "at γ = 1 the first policy takes moves by which episodes can end soonest, since one that circles has no "
            "value",
        ),
    ),
    _planner(
        name="value-iteration",
        title="Value iteration",
        title_zh="价值迭代",
        paper="Bellman 1957, Dynamic programming",
        module="canon.systems.control.planning:ValueIteration",
        recipe="control/dynamic-sweeps",
        deviations=(
            "at γ = 1 it ends when V changes by less than `tol` in a sweep, and of actions that are equally good takes "
            "one by which episodes can end soonest",
        ),
    ),
    _table(
        name="q-learning",
        title="Q-learning",
        title_zh="Q 学习",
        paper="Watkins 1989, Learning from delayed rewards",
        module="canon.systems.control.tabular:QLearning",
        recipe="control/frozenlake",
        data_recipe="control/taxi",
        first_for=("environments",),
        presets={
            "tiny": {},
            "uniform": {"epsilon": 1.0, "alpha_power": 0.7},
        },
        space={"alpha": Range(0.01, 1.0), "epsilon": Range(0.01, 1.0)},
    ),
    _table(
        name="sarsa",
        title="SARSA",
        paper="Rummery and Niranjan 1994, On-line Q-learning using connectionist systems; van Seijen, van Hasselt, "
        "Whiteson and Wiering 2009, A theoretical and empirical analysis of Expected Sarsa",
        module="canon.systems.control.sarsa:Sarsa",
        recipe="control/cliff-sarsa",
        presets={"tiny": {}, "expected": {"expected": True}},
        space={"alpha": Range(0.01, 1.0), "epsilon": Range(0.01, 1.0)},
    ),
    System(
        name="dqn",
        title="Deep Q-network",
        title_zh="深度 Q 网络（DQN）",
        chapter="control",
        paper="Mnih et al. 2015, Human-level control through deep reinforcement learning; van Hasselt, Guez and "
        "Silver 2016, Deep reinforcement learning with double Q-learning (arXiv:1509.06461); Wang et al. 2016, Dueling "
        "network architectures (arXiv:1511.06581)",
        module="canon.systems.control.dqn:DQN",
        encodings=("observations",),
        task="control",
        objective="temporal-difference",
        objectives=("huber-temporal-difference",),
        loop="environment",
        recipe="control/cartpole",
        first_for=("environments",),
        presets={
            "tiny": {"hidden": [16], "learn_from": 32, "minibatch": 16, "learn_every": 2, "epsilon_steps": 200},
            "double": {**_ZOO, "double": True},
            "dueling": {**_ZOO, "dueling": True},
        },
        logs={
            "loss": "mean over updates since the last line of the mean loss of their transitions",
            "mean_q": "mean of Q(s, a) over their transitions and all actions",
            "gradient_norm": "mean norm of their gradients, before clipping",
            "epsilon": "ε now",
            "ring": "transitions in the ring / its capacity",
            "lr": "the optimiser's rate now",
            **_EPISODES,
        },
        deviations=(
            "observations of a few numbers and a perceptron in place of Atari's frames and convolutions",
            "Adam in place of RMSProp; errors are not clipped unless the objective is Huber's",
        ),
        space={"minibatch": (32, 64, 128), "learn_every": (1, 4, 10), "target_every": (100, 500, 2000)},
    ),
    System(
        name="reinforce",
        title="REINFORCE",
        chapter="control",
        paper="Williams 1992, Simple statistical gradient-following algorithms for connectionist reinforcement "
        "learning",
        module="canon.systems.control.reinforce:Reinforce",
        encodings=("observations",),
        task="control",
        objective="policy-gradient",
        loop="environment",
        recipe="control/cartpole-reinforce",
        presets={
            "tiny": {"hidden": [16], "copies": 2},
            "plain": {"baseline": "none"},
            "mean": {"baseline": "mean"},
        },
        logs={
            "loss": "mean over updates since the last line of the loss below",
            "entropy": "mean over their steps of H(π)",
            "gradient_norm": "mean norm of their gradients, before clipping",
            "value_loss": "mean of (G_t − V(s_t))², with a learned baseline",
            "environment_steps": "steps in the environment so far",
            "lr": "the optimiser's rate now",
            **_EPISODES,
        },
        deviations=("episodes that the limit of steps cuts off count as if they ended there",),
        space={"entropy": Range(0.0001, 0.1), "baseline": ("none", "mean", "learned")},
    ),
    System(
        name="off-policy-evaluation",
        title="Off-policy evaluation",
        title_zh="离策略评估",
        chapter="control",
        paper="Precup, Sutton and Singh 2000, Eligibility traces for off-policy policy evaluation",
        module="canon.systems.control.evaluation:OffPolicyEvaluation",
        encodings=("states",),
        task="policy-evaluation",
        objective="importance-sampling",
        loop="environment",
        torch="never",
        recipe="control/evaluate",
        presets={"tiny": {"copies": 2}},
        logs={
            "weighted": "Σ ρ G / Σ ρ of all episodes so far",
            "effective_share": "effective sample / episodes",
            "episodes": "that ended since the last line",
            "return": "mean of their returns: of the policy that acts",
            "length": "mean of their lengths",
        },
        parameters="numbers of the policy",
        deviations=("the return of an episode that the limit of steps cuts off is that of the steps until then",),
    ),
)
