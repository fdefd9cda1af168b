"""Augmentations of a batch against one image at a time, with the same draws: torchvision, numpy or a loop."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from canon.data.batching import augment
from canon.data.batching.augment import AUGMENTATIONS, ImageDraws, Scale, augmenter
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.pixels import PixelSchema
from canon.errors import CanonError
from canon.runs import checkpoint
from canon.training.run import Run
from canon.training.trainer import train
from tests.parity.torchvision_models import torchvision_models
from tests.training.test_interruption import SHORT, assert_same_end

torchvision_models()  # makes torchvision importable, or skips
from torchvision.transforms import RandomResizedCrop  # noqa: E402
from torchvision.transforms import functional as TF  # noqa: E402

CPU = torch.device("cpu")
COLOR = PixelSchema(shape=(3, 24, 18), mean=(120.0, 110.0, 90.0), std=(60.0, 55.0, 70.0))
GREY = PixelSchema(shape=(1, 24, 18), mean=(0.0,), std=(16.0,), white=16)
B = 12


class Recorder(ImageDraws):
    """Keeps what it gave, in order."""

    def __init__(self, seed: int = 0, size: int = B) -> None:
        super().__init__(CPU, torch.Generator().manual_seed(seed), (0, size, size))
        self.given: list[Tensor] = []

    def uniform(self, *rest, **more) -> Tensor:
        self.given.append(super().uniform(*rest, **more))
        return self.given[-1]

    def normal(self, *rest) -> Tensor:
        self.given.append(super().normal(*rest))
        return self.given[-1]

    def below(self, limit) -> Tensor:
        result = super().below(limit)
        self.given[-1] = result
        return result


def inputs(schema: PixelSchema, size: int = B) -> Tensor:
    pixels = torch.rand(size, *schema.shape, generator=torch.Generator().manual_seed(5)) * schema.white
    return (pixels - torch.tensor(schema.mean).reshape(-1, 1, 1)) / torch.tensor(schema.std).reshape(-1, 1, 1)


def pixels(images: Tensor, schema: PixelSchema) -> Tensor:
    mean, std = torch.tensor(schema.mean).reshape(-1, 1, 1), torch.tensor(schema.std).reshape(-1, 1, 1)
    return (images * std + mean) / schema.white


def changed(name: str, schema: PixelSchema, number: float, seed: int = 0) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Images, what became of them, and the draws."""
    images, draws = inputs(schema), Recorder(seed)
    return images, AUGMENTATIONS[name].apply(images, draws, number, Scale(schema)), draws.given


def assert_close(ours: Tensor, theirs: Tensor, schema: PixelSchema, tolerance: float = 2e-6) -> None:
    torch.testing.assert_close(pixels(ours, schema), theirs, rtol=0, atol=tolerance)


def test_flip_swaps_the_columns_of_those_drawn() -> None:
    images, flipped, (chance,) = changed("flip", COLOR, 0.4)
    assert 0 < (chance < 0.4).sum() < B
    for image, result, drawn in zip(images, flipped, chance, strict=True):
        assert torch.equal(result, TF.hflip(image) if drawn < 0.4 else image)


@pytest.mark.parametrize("name", ["crop", "reflected-crop"])
def test_crop_is_padding_and_a_slice(name: str) -> None:
    images, cropped, (top, left) = changed(name, COLOR, 0.25)
    assert top.max() > 6 > top.min() and left.max() > 4 > left.min()
    mode = "constant" if name == "crop" else "reflect"
    for image, result, y, x in zip(pixels(images, COLOR).numpy(), cropped, top, left, strict=True):
        padded = np.pad(image, ((0, 0), (6, 6), (4, 4)), mode=mode)  # type: ignore[call-overload]
        assert_close(result[None], torch.from_numpy(padded[None, :, y : y + 24, x : x + 18]), COLOR)


def test_resized_crop_is_a_crop_and_a_bilinear_resize() -> None:
    images = inputs(COLOR)
    actual = AUGMENTATIONS["resized-crop"].apply(images, Recorder(), 0.92, Scale(COLOR))
    boxes = augment.boxes(24, 18, Recorder(), 0.92)
    for image, ours, top, left, height, width in zip(images, actual, *boxes, strict=True):
        piece = image[None, :, top : top + height, left : left + width]
        torch.testing.assert_close(
            ours[None], F.interpolate(piece, (24, 18), mode="bilinear"), rtol=0, atol=2e-5, msg=str(boxes)
        )
        theirs = TF.resized_crop(image, int(top), int(left), int(height), int(width), [24, 18], antialias=True)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(24, 18), (8, 8), (40, 12)])
def test_boxes_are_distributed_as_torchvisions(shape: tuple[int, int]) -> None:
    """Two samples of 4,000 boxes, by the Kolmogorov-Smirnov test on each number; also where few or none fit."""
    H, W = shape
    ours = torch.stack(augment.boxes(H, W, Recorder(size=4000), 0.5), dim=1).numpy()
    torch.manual_seed(1)
    image = torch.zeros(1, H, W)
    theirs = np.array([RandomResizedCrop.get_params(image, [0.5, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)])
    for column in range(4):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3


def test_color_is_torchvisions_one_change_after_the_other() -> None:
    images, actual, (chance, *factors) = changed("color", COLOR, 0.7)
    assert 0 < (chance < 0.8).sum() < B
    for i, image in enumerate(pixels(images, COLOR)):
        if chance[i] >= 0.8:
            assert torch.equal(actual[i], images[i])
            continue
        brightness, contrast, saturation, hue = (float(factor[i]) for factor in factors)
        expected = TF.adjust_brightness(image, brightness)
        expected = TF.adjust_contrast(expected, contrast)
        expected = TF.adjust_saturation(expected, saturation)
        assert_close(actual[i], TF.adjust_hue(expected, hue), COLOR, 1e-5)
    low, high = torch.stack(factors[:3]).min(), torch.stack(factors[:3]).max()
    assert 0.44 <= low < 0.7 and 1.3 < high < 1.56 and factors[3].abs().max() <= 0.14


@pytest.mark.parametrize("turn", [-0.5, -0.2, 0.0, 0.1, 0.5])
def test_hue_of_pure_colours_and_greys(turn: float) -> None:
    """Where a channel is largest in a tie, or all three are equal."""
    levels = torch.tensor([0.0, 0.25, 1.0])
    image = torch.cartesian_prod(levels, levels, levels).T.reshape(3, 9, 3)
    ours = augment.hue(image[None], torch.tensor([turn]))[0]
    torch.testing.assert_close(ours, TF.adjust_hue(image, turn), rtol=0, atol=2e-6)


def test_color_of_grey_images_is_brightness_and_contrast() -> None:
    images, result, (chance, brightness, contrast) = changed("color", GREY, 0.7)
    for i, image in enumerate(pixels(images, GREY)):
        if chance[i] < 0.8:
            bright = (image * brightness[i]).clamp(0, 1)
            assert_close(result[i], (bright.mean() + contrast[i] * (bright - bright.mean())).clamp(0, 1), GREY)


def test_grey_is_torchvisions() -> None:
    images, result, (chance,) = changed("grey", COLOR, 0.4)
    for i, image in enumerate(pixels(images, COLOR)):
        if chance[i] < 0.4:
            assert_close(result[i], TF.rgb_to_grayscale(image, 3), COLOR)
        else:
            assert torch.equal(result[i], images[i])
    assert torch.equal(changed("grey", GREY, 1.0)[0], changed("grey", GREY, 1.0)[1])


@pytest.mark.parametrize("side", [8, 40, 100])
@pytest.mark.parametrize("channels", [1, 3])
def test_blur_is_torchvisions(side: int, channels: int) -> None:
    images, draws = torch.randn(6, channels, side, side + 3), Recorder(size=6)
    scale = Scale(PixelSchema(shape=(channels, side, side + 3)))
    actual = AUGMENTATIONS["blur"].apply(images, draws, 0.6, scale)
    chance, sigma = draws.given
    length = {8: 3, 40: 5, 100: 11}[side]
    for i, image in enumerate(images):
        expected = TF.gaussian_blur(image, [length, length], [float(sigma[i])] * 2) if chance[i] < 0.6 else image
        torch.testing.assert_close(actual[i], expected, rtol=0, atol=2e-6)


def test_pca_lighting_shifts_all_pixels_along_the_principal_colours() -> None:
    images, result, (alpha,) = changed("pca-lighting", COLOR, 0.1)
    for i, image in enumerate(pixels(images, COLOR)):
        shift = sum(0.1 * alpha[i, k] * augment._LIGHTS[k] * np.array(augment._DIRECTIONS)[:, k] for k in range(3))
        assert_close(result[i], image + torch.tensor(shift).float()[:, None, None], COLOR)
    directions = np.array(augment._DIRECTIONS)
    np.testing.assert_allclose(directions.T @ directions, np.eye(3), atol=2e-4)
    images, result, _ = changed("pca-lighting", GREY, 0.1)
    shift = (result - images).flatten(1)
    torch.testing.assert_close(shift, shift[:, :1].expand_as(shift), rtol=0, atol=2e-6)


def test_cutout_covers_a_square_around_each_centre() -> None:
    images, actual, (row, column) = changed("cutout", COLOR, 0.5)
    for image, ours, y, x in zip(images, actual, row, column, strict=True):
        expected = image.clone()
        expected[:, max(0, y - 4) : y + 5, max(0, x - 4) : x + 5] = 0
        assert torch.equal(ours, expected)


def test_half_are_flipped_and_offsets_are_uniform() -> None:
    draws = Recorder(size=20_000)
    ramp = torch.arange(8.0).expand(20_000, 1, 8, 8)
    scale = Scale(PixelSchema(shape=(1, 8, 8)))
    flipped = (AUGMENTATIONS["flip"].apply(ramp, draws, 0.5, scale)[:, 0, 0, 0] == 7).sum().item()
    assert stats.binomtest(flipped, 20_000).pvalue > 1e-3
    moved = AUGMENTATIONS["reflected-crop"].apply(ramp, draws, 0.25, scale)
    offsets = torch.stack(draws.given[1:])
    assert offsets.min() == 0 and offsets.max() == 4
    for row in offsets:
        assert stats.chisquare(np.bincount(row.numpy())).pvalue > 1e-3
    assert stats.chisquare(np.bincount((5 * offsets[0] + offsets[1]).numpy())).pvalue > 1e-3
    assert torch.equal(moved[:, 0, 0, 2].long(), offsets[1])


@pytest.mark.parametrize("schema", [COLOR, GREY], ids=["color", "grey"])
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_strength_nought_changes_nothing(name: str, schema: PixelSchema) -> None:
    images, result, _ = changed(name, schema, 0.0)
    exact = name not in ("color", "pca-lighting")  # these go to the scale of pixels and back
    torch.testing.assert_close(result, images, rtol=0, atol=0 if exact else 2e-5)


@pytest.mark.parametrize("schema", [COLOR, GREY], ids=["color", "grey"])
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_an_image_changes_alike_wherever_it_is_computed(name: str, schema: PixelSchema) -> None:
    """The same seed, the same change; in one batch or in three parts of it; another seed, another change."""
    images, change = inputs(schema), augmenter((name,), schema)
    assert change is not None

    def run(start: int, stop: int, seed: int = 3) -> Tensor:
        return change(images[start:stop], ImageDraws(CPU, torch.Generator().manual_seed(seed), (start, stop, B)))

    whole = run(0, B)
    assert whole.shape == images.shape and whole.dtype == images.dtype
    assert torch.equal(whole, run(0, B))
    parts = torch.cat([run(0, 5), run(5, 6), run(6, B)])
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-6)
    if not (name == "grey" and schema is GREY):
        assert not torch.equal(whole, images) and not torch.equal(whole, run(0, B, seed=4))


class Count(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):  # type: ignore[no-untyped-def]
        self.calls += 1
        return function(*arguments, **(keywords or {}))


def test_no_operation_is_repeated_per_image() -> None:
    """As many calls into torch for 64 images as for 2."""
    counts = []
    change = augmenter(tuple(AUGMENTATIONS), COLOR)
    assert change is not None
    change(inputs(COLOR), ImageDraws(CPU, None, (0, B, B)))
    for size in (2, 64):
        images = inputs(COLOR, size)
        with Count() as count:
            change(images, ImageDraws(CPU, None, (0, len(images), len(images))))
        counts.append(count.calls)
    assert counts[0] == counts[1] > 0


EVERYTHING = ["resized-crop:0.5", "flip", "crop", "color", "blur", "cutout:0.25", "pca-lighting", "grey"]
LENET = {**SHORT, "train.steps": 14, "train.batch": 16, "data.limit": 100, "data.augment": EVERYTHING}


def test_an_augmented_run_resumes_exactly(tmp_path: Path) -> None:
    whole = train("vision/digits-lenet", out=tmp_path / "whole", changes=LENET, quiet=True)
    shutil.copytree(whole.path, tmp_path / "cut", symlinks=True)
    (tmp_path / "cut" / "result.json").unlink()
    for path in list(checkpoint.newest_first(tmp_path / "cut" / "checkpoints"))[:1]:
        shutil.rmtree(path)
    train("vision/digits-lenet", out=tmp_path / "cut", resume=True, quiet=True)
    assert_same_end(whole.path, tmp_path / "cut")
    plain = train("vision/digits-lenet", out=tmp_path / "plain", changes={**LENET, "data.augment": []}, quiet=True)
    assert plain.metrics()[0] != whole.metrics()[0]


def test_micro_batches_see_the_same_augmented_images(tmp_path: Path) -> None:
    losses = []
    for micro in (0, 5):
        changes = {**LENET, "train.micro_batch": micro}
        run = train("vision/digits-lenet", out=tmp_path / str(micro), changes=changes, quiet=True)
        losses.append([row["train/loss"] for row in Run(run.path).metrics() if "train/loss" in row])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("flop",), r'No augmentation \(data.augment\) "flop"; did you mean flip\?'),
        (("crop:2",), r'the number in "crop:2" \(margin, as a share of the side\) must lie between 0 and 1'),
        (("crop:wide",), r'the number in "crop:wide"'),
    ],
)
def test_what_is_wrong_with_a_name_is_said(names: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CanonError, match=sentence):
        augmenter(names, COLOR)


def test_tables_are_not_augmented() -> None:
    assert augmenter((), FeatureSchema(shape=(4,))) is None
    with pytest.raises(CanonError, match=r"data\.augment is for images"):
        augmenter(("flip",), FeatureSchema(shape=(4,)))
