"""A small multilayer perceptron with rectified units by NumPy: forward, and backward into given gradients.

For networks of some hundred units a call of torch costs more than the arithmetic, several times so for one observation.
The arrays are those of the torch module, so that neither has to be copied to the other.
It computes what canon.systems.control.network.ActionNetwork computes by torch, equal to rounding in
tests/systems/test_dqn.py.
Shapes: B rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Layer = tuple[Any, Any]  # weight [O, I] and bias [O]; None for no bias


class Perceptron:
    def __init__(self, layers: Sequence[Layer], gradients: Sequence[Layer] = ()) -> None:
        self._layers, self._gradients = list(layers), list(gradients)
        self._inputs: list[np.ndarray] = []  # of each layer, from the last forward pass that is to be followed back

    def __call__(self, x_BI: np.ndarray, keep: bool = False) -> np.ndarray:
        """keep: whether `backward` follows."""
        inputs = []
        for place, (weight_OI, bias_O) in enumerate(self._layers):
            if place:
                np.maximum(x_BI, 0, out=x_BI)
            inputs.append(x_BI)
            x_BI = x_BI @ weight_OI.T
            if bias_O is not None:
                x_BI += bias_O
        if keep:
            self._inputs = inputs
        return x_BI

    def backward(self, slope_BO: np.ndarray) -> None:
        """Sets the gradients of a loss whose derivative by the outputs is given."""
        for place in reversed(range(len(self._layers))):
            weight_slope_OI, bias_slope_O = self._gradients[place]
            np.matmul(slope_BO.T, self._inputs[place], out=weight_slope_OI)
            if bias_slope_O is not None:
                slope_BO.sum(axis=0, out=bias_slope_O)
            if place:
                slope_BO = slope_BO @ self._layers[place][0]
                slope_BO *= self._inputs[place] > 0

    def norm(self) -> float:
        """Of all gradients together."""
        parts = (part for layer in self._gradients for part in layer if part is not None)
        return float(np.sqrt(sum(float(np.vdot(part, part)) for part in parts)))
