"""What the rooms of the house agree on."""

from __future__ import annotations

IGNORE = -100  # a label that no loss counts, as in torch
