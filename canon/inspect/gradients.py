"""How gradients flow in a trained network: back through time, and to each parameter, on one batch of its data.

Pascanu, Mikolov and Bengio 2013, On the difficulty of training recurrent neural networks (arXiv:1211.5063), equation 5:
∂L_T/∂h_t = ∂L_T/∂h_T Π_{t<k≤T} ∂h_k/∂h_{k−1}, in `through_time`: of the loss at the last step of a window, by autograd.
Norms are of each stream's gradient, then averaged. The network is in evaluation mode: no dropout.
Shapes: B streams, T steps, L layers, H hidden units.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from canon import figures
from canon.data.batching.loader import Batch, Examples
from canon.data.batching.sequences import Windows
from canon.data.schema import num_examples
from canon.errors import CanonError, unknown
from canon.inspect.features import network_of
from canon.nn.recurrence import Recurrent
from canon.nn.states import State
from canon.objectives.classification import cross_entropy
from canon.tasks.base import Training, Turn, composer
from canon.training.data import read_data
from canon.training.devices import shared_generator
from canon.use.model import Model

_STREAMS = 16
_MOST_EXAMPLES = 64
_MOST_BARS = 60  # parameters in the figure
_LEAST = 1e-12  # where the logarithmic axes end


class Curve(NamedTuple):
    """‖∂L_T/∂h_t‖ of one entry of the state, by steps back from the end."""

    entry: str  # hidden, cell
    layer: int
    norms: list[float]  # [T]: at 0 that of h_T, the state after the last token read


class Norms(NamedTuple):
    name: str
    shape: tuple[int, ...]
    gradient: float
    weight: float


class Gradients(NamedTuple):
    split: str
    losses: dict[str, float]  # by phase; most systems have one, "all"
    parameters: list[Norms]
    steps: list[Curve]  # recurrent language models only

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"name": row.name, "shape": list(row.shape), "gradient_norm": row.gradient, "weight_norm": row.weight}
            for row in self.parameters
        ]
        steps = [{"state": curve.entry, "layer": curve.layer, "norms": curve.norms} for curve in self.steps]
        record = {"split": self.split, "losses": self.losses, "parameters": rows}
        return {**record, "steps": steps} if steps else record


def gradients(model: Model, split: str = "train", length: int = 0) -> Gradients:
    """Norms on the first examples of a split; `length`: the steps of a text to go back, default data.window."""
    network = network_of(model)
    data = read_data(model.run.recipe, model.run.path)
    model.run.check_same_data(data)
    if split not in data.splits:
        raise unknown("split", split, data.splits)
    columns = data.splits[split]
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    try:
        # cuDNN has no gradients of recurrent layers in evaluation mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            steps: list[Curve] = []
            text = columns["input"]
            if isinstance(text, Windows) and any(isinstance(part, Recurrent) for part in network.children()):
                steps = through_time(network, *_streams(text, length or text.window, device))
            examples = Examples(columns, model.schema, device, composer(_task(model)))
            rows = min(_MOST_EXAMPLES, num_examples(columns))
            batch = next(examples.streams(min(_STREAMS, rows)) if model.schema.in_streams else examples.in_order(rows))
            losses, parameters = _by_parameter(model, network, batch, device)
    finally:
        network.zero_grad(set_to_none=True)
        network.train(training)
    return Gradients(split, losses, parameters, steps)


def through_time(network: Any, before_BS: Tensor, token_BT: Tensor, next_B: Tensor) -> list[Curve]:
    """∂L_T/∂h_t for every step of `token_BT`, L_T = −log p(next_B | …); `before_BS` is read first, to have a state."""
    state: State = network.init_state(len(token_BT), token_BT.device)
    with torch.no_grad():
        for token_B in before_BS.unbind(1):
            _, state = network.step(token_B, state)
    with network.recurrence.watched() as steps:
        for token_B in token_BT.unbind(1):
            logits_BV, state = network.step(token_B, state)
    # Streams do not mix, so the gradient of the sum holds each stream's gradient.
    loss = cross_entropy(logits_BV.float(), next_B, reduction="sum")
    carried = [x_BH for step in reversed(steps) for layer in step for x_BH in layer]
    norms = [gradient_BH.norm(dim=1).mean() for gradient_BH in torch.autograd.grad(loss, carried)]
    layers, entries = len(steps[0]), network.recurrence.names
    norms_TLE = torch.stack(norms).view(len(steps), layers, len(entries)).cpu()
    return [
        Curve(entry, layer, norms_TLE[:, layer, i].tolist())
        for i, entry in enumerate(entries)
        for layer in range(layers)
    ]


def _streams(text: Windows, length: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Evenly spaced pieces of a text: a window to begin with, `length` tokens, and the token after them."""
    whole = length + text.window + 1
    if len(text.tokens) < whole:
        raise CanonError(f"The text has {len(text.tokens):,} tokens, too few to go back {length:,} steps.")
    count = min(_STREAMS, len(text.tokens) - whole + 1)
    starts = np.linspace(0, len(text.tokens) - whole, count).astype(np.int64)
    ids = torch.from_numpy(text.tokens[starts[:, None] + np.arange(whole)]).long().to(device)
    return ids[:, : text.window], ids[:, text.window : -1], ids[:, -1]


def _by_parameter(
    model: Model, network: nn.Module, batch: Batch, device: torch.device
) -> tuple[dict[str, float], list[Norms]]:
    """The gradient of the mean loss, by phase where a system has several (a GAN's players)."""
    task, losses, rows = _task(model), {}, []
    for phase in dict.fromkeys(task.phases):
        network.zero_grad(set_to_none=True)
        count = len(batch[next(name for name in ("part_lengths", "input_lengths", "input") if name in batch)])
        turn = Turn(shared_generator(0, 0, device), (0, count, count))
        loss = task.loss(network, batch, phase, turn) / task.count(batch)
        loss.backward()
        losses[phase] = loss.item()
        for name, parameter in task.parameters(network, phase):
            if parameter.grad is not None:
                norms = parameter.grad.norm().item(), parameter.detach().norm().item()
                rows.append(Norms(name, tuple(parameter.shape), *norms))
    return losses, rows


def _task(model: Model) -> Training:
    assert isinstance(model.task, Training), "what has a network is trained by gradients"
    return model.task


def gradients_figure(norms: Gradients) -> figures.Figure:
    """Above, where there is a recurrence, norms back through time; below, the norm of each parameter's gradient."""
    shown = norms.parameters[:_MOST_BARS]
    bars = 0.17 * len(shown) + 0.9
    rows = 2 if norms.steps else 1
    figure, axes = figures.new_figure(rows, 1, (7.0, bars + (3.2 if norms.steps else 0)))
    with figures.style():
        if norms.steps:
            axes[0, 0].get_gridspec().set_height_ratios([3.2, bars])
            _steps(axes[0, 0], norms.steps)
        axis = axes[-1, 0]
        values = [max(row.gradient, _LEAST) for row in shown]
        axis.plot(values, range(len(shown)), "o", ms=5)
        axis.set_yticks(range(len(shown)), [row.name for row in shown], fontsize=7)
        more = f" (the first {len(shown)} of {len(norms.parameters)})" if len(shown) < len(norms.parameters) else ""
        axis.set(xscale="log", title=f"‖∂L/∂θ‖ by parameter, {norms.split} batch{more}", ylim=(len(shown) - 0.4, -0.6))
    return figure


def _steps(axis: Any, curves: list[Curve]) -> None:
    styles = {"hidden": "-", "cell": (0, (4, 2))}
    symbols = {"hidden": "h", "cell": "c"}
    layers = 1 + max(curve.layer for curve in curves)
    for curve in curves:
        what = symbols.get(curve.entry, curve.entry)
        axis.plot(
            range(len(curve.norms)),
            [value if value > _LEAST else np.nan for value in curve.norms],
            color=figures.COLORS[curve.layer % len(figures.COLORS)],
            ls=styles.get(curve.entry, "-"),
            label=f"∂L(T)/∂{what}(t)" + (f", layer {curve.layer + 1}" if layers > 1 else ""),
        )
    axis.set(yscale="log", title="Norm of the last step's gradient, back through time", xlabel="steps back, T − t")
    axis.set_xlim(0, len(curves[0].norms) - 1)
    axis.legend()
