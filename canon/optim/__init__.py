"""Optimisers, schedules and clipping. Importing this imports no torch; `clipping` is imported where it is used."""

from canon.optim.create import create
from canon.optim.schedules import Schedule, multiplier
from canon.optim.settings import OPTIMIZERS, OptimizerSettings

__all__ = ["OPTIMIZERS", "OptimizerSettings", "Schedule", "create", "multiplier"]
