"""Attention: one file per kind, one masked softmax, one entry (`attend`) that picks the kernel."""

from canon.nn.attention.attend import attend, weights
from canon.nn.attention.multihead import CrossAttention, SelfAttention
from canon.nn.attention.scores import Scores
from canon.nn.attention.softmax import length_mask, masked_softmax
from canon.nn.attention.sparse import windows

__all__ = [
    "CrossAttention",
    "Scores",
    "SelfAttention",
    "attend",
    "length_mask",
    "masked_softmax",
    "weights",
    "windows",
]
