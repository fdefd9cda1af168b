"""Losses as pure functions of tensors, and pre-training's objectives as transforms of passages (`compose`).

A loss returns one number per target and sums nothing over the batch: the loop divides a sum by the global number of
valid targets, so that one process and several compute the same gradient.
"""
