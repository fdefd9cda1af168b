"""Changes to training images, as tensor operations on the device: what a class is stays, what a pixel is does not.

Papers: Krizhevsky, Sutskever and Hinton 2012, section 4.1 → `flip`, `pca_lighting`; He et al. 2016, section 4.2 →
`crop`; Szegedy et al. 2015, section 6 → `resized_crop`; DeVries and Taylor 2017 (arXiv:1708.04552) → `cutout`; Chen et
al. 2020 (2002.05709), appendix A → `color`, `grey`, `blur`.
Deviations: colour changes come in one order (brightness, contrast, saturation, hue), not in a random one; the principal
colours are ImageNet's, not those of the data at hand.
Inputs are images as the network sees them, (pixel - mean) / std; colours are changed on a scale from 0, black, to 1.
Shapes: B images, C channels (1 grey, 3 colour), H height, W width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema
from canon.errors import CanonError, unknown

_GREY = (0.2989, 0.587, 0.114)  # shares of red, green and blue in brightness, as Pillow and torchvision have them
# Of ImageNet's colours on the scale 0 to 1: λ, and the principal directions as columns.
_LIGHTS = (0.2175, 0.0188, 0.0045)
_DIRECTIONS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203))
_TRIES = 10  # boxes drawn for a resized crop; if none fits, the middle of the image is taken


class ImageDraws:
    """Random numbers for the images [start, stop) of `total`, the global batch.

    They are drawn for all of it and cut: an image's numbers depend on its place in the global batch and not on the
    process or micro-batch it is in. Without a generator, torch's own is used.
    """

    def __init__(self, device: torch.device, generator: torch.Generator | None, share: tuple[int, int, int]) -> None:
        self.device, self.generator = device, generator
        self.start, self.stop, self.total = share

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: tuple[int, ...] = ()) -> Tensor:
        """[B, *shape] from [low, high)."""
        drawn = torch.rand(self.total, *shape, generator=self.generator, device=self.device)
        return low + (high - low) * drawn[self.start : self.stop]

    def normal(self, shape: tuple[int, ...] = ()) -> Tensor:
        drawn = torch.randn(self.total, *shape, generator=self.generator, device=self.device)
        return drawn[self.start : self.stop]

    def below(self, limit: int | Tensor) -> Tensor:
        """[B] whole numbers 0 … limit − 1, each as likely; the limit may differ from image to image."""
        drawn = (self.uniform() * limit).floor()
        return drawn.minimum(torch.as_tensor(limit - 1.0, device=self.device)).long()  # 0.99999997 · n rounds up to n


class Scale:
    """Between what the network sees and brightness from 0 to 1."""

    def __init__(self, schema: PixelSchema) -> None:
        self.channels = schema.shape[0]

        @cache
        def constants(device: torch.device) -> tuple[Tensor, Tensor]:
            mean, std = (
                torch.tensor(numbers, device=device).reshape(-1, 1, 1) for numbers in (schema.mean, schema.std)
            )
            return mean / schema.white, std / schema.white

        self._constants = constants

    def pixels(self, images_BCHW: Tensor) -> Tensor:
        mean, std = self._constants(images_BCHW.device)
        return images_BCHW * std + mean

    def inputs(self, pixels_BCHW: Tensor) -> Tensor:
        mean, std = self._constants(pixels_BCHW.device)
        return (pixels_BCHW - mean) / std


# Where pixels go


def flip(images_BCHW: Tensor, draws: ImageDraws, chance: float, scale: Scale) -> Tensor:
    """Left and right swapped."""
    return _where(draws.uniform() < chance, images_BCHW.flip(3), images_BCHW)


def crop(images_BCHW: Tensor, draws: ImageDraws, margin: float, scale: Scale) -> Tensor:
    """A margin of black around the image, then a piece of the old size at a random place."""
    rows_BH, columns_BW = _shifted(images_BCHW, draws, margin)
    H, W = images_BCHW.shape[2:]
    inside_BHW = ((rows_BH >= 0) & (rows_BH < H))[:, :, None] & ((columns_BW >= 0) & (columns_BW < W))[:, None, :]
    moved_BCHW = _pick(images_BCHW, rows_BH.clamp(0, H - 1), columns_BW.clamp(0, W - 1))
    black = scale.inputs(images_BCHW.new_zeros(1, images_BCHW.shape[1], 1, 1))
    return torch.where(inside_BHW[:, None], moved_BCHW, black)


def reflected_crop(images_BCHW: Tensor, draws: ImageDraws, margin: float, scale: Scale) -> Tensor:
    """The same with the image mirrored at its edges in place of black."""
    rows_BH, columns_BW = _shifted(images_BCHW, draws, margin)
    H, W = images_BCHW.shape[2:]
    # −1, −2 … become 1, 2 …; H, H+1 … become H−2, H−3 …
    return _pick(images_BCHW, H - 1 - (H - 1 - rows_BH.abs()).abs(), W - 1 - (W - 1 - columns_BW.abs()).abs())


def _shifted(images_BCHW: Tensor, draws: ImageDraws, margin: float) -> tuple[Tensor, Tensor]:
    """For each row and column of the result, the one it comes from; it may lie outside."""
    sources = []
    for side in images_BCHW.shape[2:]:
        pad = min(round(margin * side), side - 1)
        offset_B = draws.below(2 * pad + 1) - pad
        sources.append(offset_B[:, None] + torch.arange(side, device=images_BCHW.device))
    return sources[0], sources[1]


def _pick(images_BCHW: Tensor, rows_BH: Tensor, columns_BW: Tensor) -> Tensor:
    B, C, _, W = images_BCHW.shape
    places_BHW = rows_BH[:, :, None] * W + columns_BW[:, None, :]
    return images_BCHW.flatten(2).gather(2, places_BHW.reshape(B, 1, -1).expand(B, C, -1)).view_as(images_BCHW)


def resized_crop(images_BCHW: Tensor, draws: ImageDraws, cut: float, scale: Scale) -> Tensor:
    """A box with 1 − cut to 1 of the area and sides 3 : 4 to 4 : 3, brought back to the old size (bilinear)."""
    if not cut:
        return images_BCHW
    H, W = images_BCHW.shape[2:]
    top_B, left_B, height_B, width_B = boxes(H, W, draws, cut)
    y_BH = _sources(top_B, height_B, H)
    x_BW = _sources(left_B, width_B, W)
    grid_BHW2 = torch.stack([x_BW[:, None, :].expand(-1, H, -1), y_BH[:, :, None].expand(-1, -1, W)], dim=3)
    return F.grid_sample(images_BCHW, grid_BHW2, mode="bilinear", padding_mode="border", align_corners=False)


def boxes(H: int, W: int, draws: ImageDraws, cut: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Top, left, height and width of one box in whole pixels per image: the first of ten drawn that fits."""
    area_BT = H * W * draws.uniform(1.0, 1.0 - cut, (_TRIES,))
    ratio_BT = draws.uniform(math.log(3 / 4), math.log(4 / 3), (_TRIES,)).exp()
    width_BT, height_BT = (area_BT * ratio_BT).sqrt().round(), (area_BT / ratio_BT).sqrt().round()
    fits_BT = (width_BT > 0) & (width_BT <= W) & (height_BT > 0) & (height_BT <= H)
    first_B1 = fits_BT.int().argmax(dim=1, keepdim=True)
    none_B = ~fits_BT.any(dim=1)
    # Else as much of the image as has sides within 3 : 4 and 4 : 3.
    whole = (H, min(W, round(H * 4 / 3))) if W > H else (min(H, round(W * 4 / 3)), W)
    height_B = height_BT.gather(1, first_B1)[:, 0].masked_fill(none_B, whole[0])
    width_B = width_BT.gather(1, first_B1)[:, 0].masked_fill(none_B, whole[1])
    top_B = draws.below(H - height_B + 1).where(~none_B, torch.tensor((H - whole[0]) // 2, device=draws.device))
    left_B = draws.below(W - width_B + 1).where(~none_B, torch.tensor((W - whole[1]) // 2, device=draws.device))
    return top_B, left_B, height_B.long(), width_B.long()


def _sources(first_B: Tensor, length_B: Tensor, side: int) -> Tensor:
    """Where each of `side` places lies in the piece [first, first + length), in grid_sample's units, -1 to 1."""
    steps = torch.arange(side, device=first_B.device) + 0.5
    inside = (steps * length_B[:, None] / side - 0.5).clamp(min=0.0).minimum(length_B[:, None] - 1.0)
    return (2 * (first_B[:, None] + inside) + 1) / side - 1


def cutout(images_BCHW: Tensor, draws: ImageDraws, side: float, scale: Scale) -> Tensor:
    """A square of the mean colour around a random pixel; at the edge a part of it."""
    H, W = images_BCHW.shape[2:]
    length = round(side * min(H, W))
    covered = []
    for size in (H, W):
        first_B1 = (draws.below(size) - length // 2)[:, None]
        place = torch.arange(size, device=images_BCHW.device)
        covered.append((place >= first_B1) & (place < first_B1 + length))
    return images_BCHW.masked_fill((covered[0][:, :, None] & covered[1][:, None, :])[:, None], 0.0)


# What colour they have


def color(images_BCHW: Tensor, draws: ImageDraws, strength: float, scale: Scale) -> Tensor:
    """Brightness, contrast, saturation (factors 1 ± 0.8·strength) and hue (± 0.2·strength turns) of 8 images in 10."""
    changed_B = draws.uniform() < 0.8
    low, high = max(0.0, 1 - 0.8 * strength), 1 + 0.8 * strength
    pixels = brightness(scale.pixels(images_BCHW), draws.uniform(low, high))
    pixels = contrast(pixels, draws.uniform(low, high))
    if scale.channels == 3:
        pixels = saturation(pixels, draws.uniform(low, high))
        pixels = hue(pixels, draws.uniform(-0.2 * strength, 0.2 * strength))
    return _where(changed_B, scale.inputs(pixels), images_BCHW)


def brightness(pixels_BCHW: Tensor, factor_B: Tensor) -> Tensor:
    return _blend(pixels_BCHW, torch.zeros((), device=pixels_BCHW.device), factor_B)


def contrast(pixels_BCHW: Tensor, factor_B: Tensor) -> Tensor:
    return _blend(pixels_BCHW, _grey_of(pixels_BCHW).mean(dim=(1, 2, 3), keepdim=True), factor_B)


def saturation(pixels_BCHW: Tensor, factor_B: Tensor) -> Tensor:
    return _blend(pixels_BCHW, _grey_of(pixels_BCHW), factor_B)


def hue(pixels_BCHW: Tensor, turn_B: Tensor) -> Tensor:
    """The colour circle turned: RGB → hue, saturation, value → RGB."""
    red, green, blue = pixels_BCHW.unbind(1)
    most, least = pixels_BCHW.amax(1), pixels_BCHW.amin(1)
    span = most - least
    safe = span.where(span > 0, 1.0)
    # In sixths of the circle, from the largest of the three.
    sixth = torch.where(
        most == red,
        (green - blue) / safe,
        torch.where(most == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    sixth = sixth + 6 * turn_B[:, None, None]
    # Back: channel n has value − span · max(0, min(k, 4 − k, 1)), k = (n + 6·hue) mod 6, n = 5, 3, 1.
    k = torch.stack([sixth + 5, sixth + 3, sixth + 1], dim=1)
    k = k - 6 * (k / 6).floor()  # on a CPU many times faster than %
    return most[:, None] - span[:, None] * torch.minimum(k, 4 - k).clamp(0, 1)


def grey(images_BCHW: Tensor, draws: ImageDraws, chance: float, scale: Scale) -> Tensor:
    """Without colour; grey images stay as they are."""
    chosen_B = draws.uniform() < chance
    if scale.channels == 1:
        return images_BCHW
    without = scale.inputs(_grey_of(scale.pixels(images_BCHW)).expand_as(images_BCHW))
    return _where(chosen_B, without, images_BCHW)


def pca_lighting(images_BCHW: Tensor, draws: ImageDraws, deviation: float, scale: Scale) -> Tensor:
    """Adds [p₁ p₂ p₃][α₁λ₁ α₂λ₂ α₃λ₃]ᵀ to every pixel, α normal with the given standard deviation."""
    alpha_B3 = deviation * draws.normal((3,)) * torch.tensor(_LIGHTS, device=images_BCHW.device)
    shift_BC = alpha_B3 @ torch.tensor(_DIRECTIONS, device=images_BCHW.device).T
    if scale.channels == 1:
        shift_BC = alpha_B3[:, :1] / math.sqrt(3)  # the first direction is nearly grey, (1, 1, 1)/√3
    return scale.inputs(scale.pixels(images_BCHW) + shift_BC[:, :, None, None])


def blur(images_BCHW: Tensor, draws: ImageDraws, chance: float, scale: Scale) -> Tensor:
    """A Gaussian of σ from 0.1 to 2 pixels, over a tenth of the side (3 pixels at least)."""
    B, C, H, W = images_BCHW.shape
    chosen_B, sigma_B = draws.uniform() < chance, draws.uniform(0.1, 2.0)
    reach = min(max(1, round(0.05 * min(H, W))), min(H, W) - 1)
    place = torch.arange(-reach, reach + 1, device=images_BCHW.device)
    kernel_BK = (-0.5 * (place / sigma_B[:, None]).square()).softmax(dim=1)
    # One group per image and channel: each has its own kernel. First down, then across.
    kernels = kernel_BK.repeat_interleave(C, dim=0)[:, None]
    padded = F.pad(images_BCHW, (reach, reach, reach, reach), mode="reflect").reshape(1, B * C, H + 2 * reach, -1)
    down = F.conv2d(padded, kernels[:, :, :, None], groups=B * C)
    blurred = F.conv2d(down, kernels[:, :, None, :], groups=B * C)
    return _where(chosen_B, blurred.reshape(B, C, H, W), images_BCHW)


def _grey_of(pixels_BCHW: Tensor) -> Tensor:
    if pixels_BCHW.shape[1] == 1:
        return pixels_BCHW
    red, green, blue = pixels_BCHW.split(1, dim=1)
    return _GREY[0] * red + _GREY[1] * green + _GREY[2] * blue


def _blend(pixels_BCHW: Tensor, other: Tensor, factor_B: Tensor) -> Tensor:
    """other + factor · (pixels − other), kept between black and white."""
    return torch.lerp(other.expand_as(pixels_BCHW), pixels_BCHW, factor_B[:, None, None, None]).clamp(0, 1)


def _where(chosen_B: Tensor, then_BCHW: Tensor, else_BCHW: Tensor) -> Tensor:
    return torch.where(chosen_B[:, None, None, None], then_BCHW, else_BCHW)


class Augmentation(NamedTuple):
    apply: Callable[[Tensor, ImageDraws, float, Scale], Tensor]
    default: float
    number: str  # what it stands for; 0 changes nothing


AUGMENTATIONS: dict[str, Augmentation] = {
    "flip": Augmentation(flip, 0.5, "share of images flipped"),
    "crop": Augmentation(crop, 0.125, "margin, as a share of the side"),
    "reflected-crop": Augmentation(reflected_crop, 0.125, "margin, as a share of the side"),
    "resized-crop": Augmentation(resized_crop, 0.92, "largest share of the area cut away"),
    "cutout": Augmentation(cutout, 0.5, "side of the square, as a share of the image's"),
    "color": Augmentation(color, 0.5, "strength"),
    "grey": Augmentation(grey, 0.2, "share of images made grey"),
    "blur": Augmentation(blur, 0.5, "share of images blurred"),
    "pca-lighting": Augmentation(pca_lighting, 0.1, "standard deviation of α"),
}


def augmenter(
    names: tuple[str, ...], schema: Schema, key: str = "data.augment"
) -> Callable[[Tensor, ImageDraws], Tensor] | None:
    """The changes called `names`, one after the other, each with its number or as in "crop:0.25"; None for none."""
    if not names:
        return None
    if not isinstance(schema, PixelSchema):
        raise CanonError(f"{key} is for images; leave it out for other data.")
    changes = [_parsed(name, key) for name in names]
    scale = Scale(schema)

    @torch.no_grad()
    def augment(images_BCHW: Tensor, draws: ImageDraws) -> Tensor:
        with torch.autocast(images_BCHW.device.type, enabled=False):
            for change, number in changes:
                images_BCHW = change.apply(images_BCHW, draws, number, scale)
        return images_BCHW

    return augment


def _parsed(text: str, key: str) -> tuple[Augmentation, float]:
    name, colon, number = text.partition(":")
    if name not in AUGMENTATIONS:
        raise unknown(f"augmentation ({key})", name, AUGMENTATIONS)
    change = AUGMENTATIONS[name]
    if not colon:
        return change, change.default
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise CanonError(f'{key}: the number in "{text}" ({change.number}) must lie between 0 and 1.')
    return change, value
