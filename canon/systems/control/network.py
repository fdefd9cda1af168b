"""The network of agents: a multilayer perceptron from an observation to a number for each action.

`dueling`: Wang et al. 2016, Dueling network architectures (arXiv:1511.06581), equation 9:
Q(s, a) = V(s) + A(s, a) − mean_a' A(s, a'), both linear in the last hidden layer.
Weights begin as torch's Linear does. States are read as one-hot vectors, and a network of them without hidden layers
has no bias: it is a table.
Deviations: none.
Shapes: N observations, I inputs, A outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from canon.kernels import enabled
from canon.systems.control.perceptron import Perceptron

_AT_ONCE = 512  # states


class ActionNetwork(nn.Module):
    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, dueling: bool = False, bias: bool = True):
        super().__init__()
        sizes = [inputs, *hidden]
        self.hidden = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.output = nn.Linear(sizes[-1], outputs, bias)
        self.value = nn.Linear(sizes[-1], 1, bias) if dueling else None

    def forward(self, x_NI: Tensor) -> Tensor:
        for layer in self.hidden:
            x_NI = torch.relu(layer(x_NI))
        out_NA: Tensor = self.output(x_NI)
        if self.value is None:
            return out_NA
        return self.value(x_NI) + out_NA - out_NA.mean(dim=1, keepdim=True)


class ObservationReader:
    """Observations as a network reads them: float32 numbers, or one-hot vectors of states."""

    def __init__(self, shape: tuple[int, ...], states: int) -> None:
        self.size, self._states = states or shape[0], states

    def __call__(self, observations_N: np.ndarray) -> np.ndarray:
        if self._states:
            one_hot_NI = np.zeros((len(observations_N), self._states), np.float32)
            one_hot_NI[np.arange(len(observations_N)), observations_N] = 1
            return one_hot_NI
        return observations_N.astype(np.float32, copy=False)


class Actor:
    """A network for acting, by NumPy where that is possible: on the CPU, and without dueling."""

    def __init__(self, network: ActionNetwork, device: torch.device) -> None:
        self.network, self.device = network.to(device), device
        self.small: Perceptron | None = None
        if enabled() and device.type == "cpu" and network.value is None:
            layers = [*network.hidden, network.output]
            for parameter in network.parameters():
                parameter.grad = torch.zeros_like(parameter)
            self.small = Perceptron([_arrays(layer) for layer in layers], [_slopes(layer) for layer in layers])

    def __call__(self, x_NI: np.ndarray) -> np.ndarray:
        if self.small is not None:
            return self.small(x_NI)
        with torch.no_grad():
            return self.network(torch.from_numpy(x_NI).to(self.device)).cpu().numpy()

    def of_states(self, read: ObservationReader) -> np.ndarray:
        """[S, A] its outputs for every state, some at a time: one-hot vectors of all would fill the memory."""
        states_S = np.arange(read.size)
        return np.concatenate([self(read(states_S[i : i + _AT_ONCE])) for i in range(0, read.size, _AT_ONCE)])

    def take(self, weights: Mapping[str, Any]) -> None:
        """Sets the weights, in place: arrays that are shared stay shared."""
        with torch.no_grad():
            for name, tensor in self.network.state_dict().items():
                tensor.copy_(torch.as_tensor(weights[name]))


def _arrays(layer: Any) -> tuple[np.ndarray, np.ndarray | None]:
    return layer.weight.detach().numpy(), None if layer.bias is None else layer.bias.detach().numpy()


def _slopes(layer: Any) -> tuple[np.ndarray, np.ndarray | None]:
    return layer.weight.grad.numpy(), None if layer.bias is None else layer.bias.grad.numpy()
