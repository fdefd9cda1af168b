"""Losses as pure functions of tensors, and the table of objectives that a recipe can name (table.py).

A loss returns one number per target and sums nothing over the batch: the loop divides a sum by the global number of
valid targets, so that one process and several compute the same gradient. An objective is a record (record.py) with its
formula, paper and settings, and a small class built from the settings; those of pre-training make their batches of
passages (canon.data.batching.composer).
"""
