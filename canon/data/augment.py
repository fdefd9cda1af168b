"""Changes to training images, as tensor operations on the device: what a class is stays, what a pixel is does not.

All draws come from torch's global generator, which the loop seeds at every step: an augmented run resumes exactly.
Inputs are images as the network sees them, (pixel - mean) / std. Shapes: B images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from canon.data.schema import Schema
from canon.errors import CanonError, unknown

Augmentation = Callable[[Tensor, Schema], Tensor]


def flip(images_BCHW: Tensor, schema: Schema) -> Tensor:
    """Left and right swapped, for half of the images."""
    swap_B = torch.rand(len(images_BCHW), device=images_BCHW.device) < 0.5
    return torch.where(swap_B[:, None, None, None], images_BCHW.flip(3), images_BCHW)


AUGMENTATIONS: dict[str, Augmentation] = {"flip": flip}


def augmenter(names: tuple[str, ...], schema: Schema) -> Callable[[Tensor], Tensor] | None:
    """The changes called `names`, one after the other; None for none."""
    if not names:
        return None
    if schema.input != "image":
        raise CanonError("data.augment is for images.")
    for name in names:
        if name not in AUGMENTATIONS:
            raise unknown("augmentation (data.augment)", name, AUGMENTATIONS)

    def augment(images_BCHW: Tensor) -> Tensor:
        for name in names:
            images_BCHW = AUGMENTATIONS[name](images_BCHW, schema)
        return images_BCHW

    return augment
