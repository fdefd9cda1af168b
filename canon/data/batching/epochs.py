"""What epochs are made of: their random numbers, and how many batches there are."""

from __future__ import annotations

import math

import numpy as np

from canon.data.schema import Columns, Schema, num_examples


def generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, epoch], dtype=np.uint64)))


def batches_of(weights: np.ndarray, tokens: int) -> int:
    """Batches of about `tokens` tokens, of examples that have so many each."""
    return min(math.ceil(weights.sum() / tokens), len(weights))


def steps_per_epoch(schema: Schema, columns: Columns, batch: int, tokens: int) -> int:
    """Of data whose epochs are whole batches (sentences by tokens, streams); 0 where they are examples / batch."""
    size = num_examples(columns)
    if schema.in_streams:
        return size // min(batch or size, size)
    return batches_of(schema.lengths(columns)[1], tokens) if tokens else 0
