"""What a report shows of an agent: values, arrows, visits and the greedy path on its grid, and an episode as a GIF."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from canon import figures
from canon.config import Table
from canon.data.encodings.observations import EnvironmentData
from canon.data.environments.abilities import Tabular
from canon.data.environments.copy import EnvironmentCopy
from canon.data.environments.grids import STEPS, arrows_of, grid_of
from canon.data.schema import Data
from canon.errors import CanonError
from canon.report.page import NO_FIGURES, Html, drawings, note, table
from canon.use import frames
from canon.use.model import Model
from canon.use.play import action_of, agent_of
from canon.use.sketches import pillow

_MOST_STATES, _MOST_FRAMES = 400, 150


def policy_of(model: Model, data: Data) -> Table | None:
    """The facts, as JSON; None for what is not an agent."""
    agent = agent_of(model)
    if agent is None or not isinstance(data, EnvironmentData):
        return None
    env = EnvironmentCopy(data.opener)
    known = agent.table() if isinstance(agent, Tabular) else None
    facts: Table = {"grid": None, "states": [], "gif": _gif(agent, env, data)}
    if known is None or len(known.values) > _MOST_STATES:
        return facts
    best_S = known.policy.argmax(axis=1)
    grid = grid_of(env)
    if grid is None or env.model is None:
        facts["states"] = [
            {"state": state, "value": float(known.values[state]), "policy": known.policy[state].tolist()}
            for state in range(len(best_S))
        ]
        return facts
    arrows = arrows_of(env.model, grid)
    ended = np.array([letter in "HGC" for letter in grid.letters]) & (grid.rows > 1)
    facts["grid"] = {
        "rows": grid.rows,
        "cols": grid.cols,
        "letters": grid.letters,
        "values": known.values.tolist(),
        "arrows": ["" if over else arrows[action] for action, over in zip(best_S.tolist(), ended, strict=True)],
        "visits": known.visits.tolist(),
        "path": path_of(env, arrows, best_S, known.values),
    }
    return facts


def path_of(env: EnvironmentCopy, arrows: list[str], best_S: np.ndarray, value_S: np.ndarray) -> list[int]:
    """The cells from the likeliest start on, by the best actions, until the end or until no cell is new: of new ones
    that may follow, the one that the arrow points to, else the likeliest, else the one of most value."""
    model, grid = env.model, grid_of(env)
    assert model is not None and grid is not None
    path, over = [int(model.start.argmax())], False
    while not over:
        state, action = path[-1], best_S[path[-1]]
        down, right = STEPS[arrows[action]]
        chances_K, after_K, ends_K = (of[state, action] for of in (model.probability, model.after, model.ends))
        gains_K = model.reward[state, action] + np.where(ends_K, 0, value_S[after_K])
        meant_K = after_K == state + down * grid.cols + right
        new = [
            (meant, chance, gain, int(after), over)
            for meant, chance, gain, after, over in zip(meant_K, chances_K, gains_K, after_K, ends_K, strict=True)
            if chance > 0 and after not in path
        ]
        if not new:
            break
        *_, following, over = max(new)
        path.append(following)
    return path


def _gif(agent: Any, env: EnvironmentCopy, data: EnvironmentData) -> str:
    """The beginning of the first test episode, in base64; "" where only the environment could draw it."""
    try:
        pillow()
    except CanonError:  # without Pillow
        return ""
    if (mode := frames.drawing_mode(env)) == "rgb_array":
        return ""
    if mode:
        env = EnvironmentCopy(data.opener, mode)
    column: Any = data.splits["test"]["input"]
    seed = int(column.seeds[0])
    paint, observation, random = frames.painter_of(env), env.reset(seed), np.random.default_rng([seed, 1])
    pictures = [paint(observation)]
    over = False
    while not over and len(pictures) < _MOST_FRAMES:
        observation, _, terminated, truncated = env.step(action_of(agent, observation, "", random))
        pictures.append(paint(observation))
        over = terminated or truncated
    return base64.b64encode(frames.gif(pictures, frames.pause_of(env))).decode()


def section(facts: Table | None, draw: bool) -> str:
    """The HTML of it."""
    if facts is None:
        return ""
    html = ""
    if facts["grid"] is not None and not draw:
        html += note(NO_FIGURES)
    elif facts["grid"] is not None:
        html += drawings([_figure(facts["grid"], name) for name in ("values", "visits") if any(facts["grid"][name])])
        html += note("Arrows are the best actions, the line a path that they lead along.")
    if facts["states"]:
        html += table(
            [
                {"state": row["state"], "value": row["value"], "policy": ", ".join(f"{p:.3f}" for p in row["policy"])}
                for row in facts["states"]
            ]
        )
    if facts["gif"]:
        html += Html(f'<p><img src="data:image/gif;base64,{facts["gif"]}" alt="an episode"></p>')
        html += note("The first test episode, by actions as the run is scored.")
    return html


def _figure(grid: Table, name: str) -> figures.Figure:
    rows, cols = grid["rows"], grid["cols"]
    numbers = np.array(grid[name], dtype=float).reshape(rows, cols)
    figure, axes = figures.new_figure(size=(max(2.5, 0.62 * cols), max(1.4, 0.62 * rows + 0.4)))
    axis = axes[0, 0]
    with figures.style():
        axis.imshow(numbers, cmap="Blues", alpha=0.55)
        for place, letter in enumerate(grid["letters"]):
            row, col = divmod(place, cols)
            value = numbers[row, col]
            text = f"{value:.2g}" if name == "values" else f"{value:,.0f}" if value < 1e4 else f"{value:.1e}"
            axis.text(col, row + 0.28, text, ha="center", va="center", fontsize=6, color=figures.INK)
            axis.text(col, row - 0.12, grid["arrows"][place] or letter, ha="center", va="center", fontsize=11)
        if name == "values" and len(grid["path"]) > 1:
            down, right = np.divmod(np.array(grid["path"]), cols)
            axis.plot(right, down, color=figures.COLORS[1], lw=4, alpha=0.35)
        axis.set(title="Values" if name == "values" else "Visits", xticks=[], yticks=[])
        axis.grid(False)
    return figure
