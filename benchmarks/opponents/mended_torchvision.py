"""To be imported before what imports torchvision: one of another build than torch's lacks operators that its own import
asks for, of which the opponents here use none."""

# mypy: ignore-errors

from __future__ import annotations

import importlib.util

from tests.parity.torchvision_models import torchvision_models

if importlib.util.find_spec("torchvision") is not None:
    torchvision_models()
