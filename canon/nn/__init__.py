"""Parts that two or more systems are made of. Linear and convolution layers, dropout and layer norm are torch's."""

from canon.nn.activations import ACTIVATIONS, activation, dropout_for, masked_softmax
from canon.nn.connections import DenseConnection, Residual
from canon.nn.counting import count_parameters, summarize
from canon.nn.initialization import INITIALIZERS, initialization_for, initialize
from canon.nn.normalization import BatchNorm1d, BatchNorm2d, LayerNorm
from canon.nn.pooling import POOLINGS, GlobalMeanPool, StochasticPool2d, global_mean, pooling, stochastic_pool

__all__ = [
    "ACTIVATIONS",
    "INITIALIZERS",
    "POOLINGS",
    "BatchNorm1d",
    "BatchNorm2d",
    "DenseConnection",
    "GlobalMeanPool",
    "LayerNorm",
    "Residual",
    "StochasticPool2d",
    "activation",
    "count_parameters",
    "dropout_for",
    "global_mean",
    "initialization_for",
    "initialize",
    "masked_softmax",
    "pooling",
    "stochastic_pool",
    "summarize",
]
