"""Networks for images: classifiers, learning without labels, and networks that make images."""

from __future__ import annotations

from functools import partial
from typing import Any

from canon.registry.record import Interop, System

_classifier = partial(System, chapter="vision", encodings=("pixels",), task="classification", objective="cross-entropy")
_DIGITS: dict[str, Any] = {"shape": [1, 8, 8], "num_classes": 10}
_CIFAR: dict[str, Any] = {"shape": [3, 32, 32], "num_classes": 10}
_SMALL_STEM = "images with a side under 64 pixels get a stem of their own unless `stem` says otherwise"

# Blocks per stage, He et al. 2016, table 1; and 6n + 2 layers for CIFAR, section 4.2.
_IMAGENET_STAGES: dict[str, dict[str, Any]] = {
    "18": {"stages": [2, 2, 2, 2]},
    "34": {"stages": [3, 4, 6, 3]},
    "50": {"block": "bottleneck", "stages": [3, 4, 6, 3]},
    "101": {"block": "bottleneck", "stages": [3, 4, 23, 3]},
    "152": {"block": "bottleneck", "stages": [3, 8, 36, 3]},
}
# Convolutions per block, Simonyan and Zisserman 2015, table 1.
_VGG_BLOCKS: dict[str, dict[str, Any]] = {
    "11": {},
    "13": {"blocks": [2, 2, 2, 2, 2]},
    "16": {"blocks": [2, 2, 3, 3, 3]},
    "19": {"blocks": [2, 2, 4, 4, 4]},
}


def _cifar_stages(n: int) -> dict[str, Any]:
    return {**_CIFAR, "stages": [n, n, n], "width": 16, "stem": "cifar"}


def _cifar_dense(depth: int, growth: int, bottleneck: bool = True) -> dict[str, Any]:
    """Huang et al. 2017, section 4.1: three blocks; a bottleneck makes a layer two, four are not in blocks."""
    layers = (depth - 4) // (6 if bottleneck else 3)
    kind = {"width": 2 * growth} if bottleneck else {"width": 16, "bottleneck": 0, "compression": 1.0}
    sizes = {**_CIFAR, "growth": growth, "blocks": [layers] * 3}
    return {**sizes, **kind, "stem": "cifar"}


_JUDGED = {
    "D(x)": "mean probability that D gives to data, in its own turns, before it learns from them",
    "D(G(z))": "the same of samples",
}


SYSTEMS: tuple[System, ...] = (
    _classifier(
        name="lenet",
        title="LeNet-5",
        paper="LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document recognition",
        module="canon.systems.vision.lenet:LeNet",
        recipe="vision/digits-lenet",
        presets={
            "tiny": {"activation": "relu", "pooling": "max"},
            "base": {},
            "relu": {"activation": "relu", "pooling": "max"},
        },
        interop=Interop(writes=("onnx",)),
        deviations=(
            "plain mean pooling without trained coefficients, every map connected to every map of the layer below",
            "softmax output with cross-entropy in place of radial basis functions",
        ),
    ),
    _classifier(
        name="resnet",
        title="Residual network",
        title_zh="残差网络（ResNet）",
        paper="He, Zhang, Ren and Sun 2016, Deep residual learning for image recognition (arXiv:1512.03385)",
        module="canon.systems.vision.resnet:ResNet",
        recipe="vision/digits-resnet",
        first_for=("images",),
        presets={
            "tiny": {**_DIGITS, "stages": [1, 1, 1], "width": 8},
            **_IMAGENET_STAGES,
            **{str(6 * n + 2): {**_cifar_stages(n), "shortcut": "A"} for n in (3, 5, 7, 9, 18, 200)},
        },
        interop=Interop(reads=("torchvision", "timm"), writes=("torchvision", "timm", "onnx")),
        deviations=(
            _SMALL_STEM + ", 3×3 with stride 1 and no pooling",
            "bottlenecks stride in their 3×3 convolution, as torchvision's; `stride_at = \"1x1\"` is the paper's",
            "the last layer begins at N(0, 0.01²) and the others as in He et al. 2015 by fan-in",
        ),
    ),
    _classifier(
        name="plain",
        title="Plain network (ResNet without shortcuts)",
        title_zh="无捷径网络（ResNet 的对照）",
        paper="He, Zhang, Ren and Sun 2016, Deep residual learning for image recognition (arXiv:1512.03385)",
        module="canon.systems.vision.plain:Plain",
        recipe="vision/digits-plain",
        presets={
            "tiny": {**_DIGITS, "stages": [1, 1, 1], "width": 8},
            **{name: _IMAGENET_STAGES[name] for name in ("18", "34")},
            **{str(6 * n + 2): _cifar_stages(n) for n in (3, 9)},
        },
        interop=Interop(writes=("onnx",)),
        deviations=(_SMALL_STEM + ", 3×3 with stride 1 and no pooling",),
    ),
    _classifier(
        name="densenet",
        title="DenseNet",
        paper="Huang, Liu, van der Maaten and Weinberger 2017, Densely connected convolutional networks "
        "(arXiv:1608.06993)",
        module="canon.systems.vision.densenet:DenseNet",
        recipe="vision/digits-densenet",
        presets={
            "tiny": {**_DIGITS, "growth": 6, "blocks": [2, 2], "width": 12},
            "121": {},
            "169": {"blocks": [6, 12, 32, 32]},
            "201": {"blocks": [6, 12, 48, 32]},
            "40": _cifar_dense(40, 12, bottleneck=False),
            "bc-40": _cifar_dense(40, 12),
            "bc-100": _cifar_dense(100, 12),
            "bc-190": _cifar_dense(190, 40),
            "bc-250": _cifar_dense(250, 24),
        },
        interop=Interop(reads=("torchvision", "timm"), writes=("torchvision", "timm", "onnx")),
        deviations=(
            _SMALL_STEM + ", one 3×3 convolution",
            "maps of one pixel are not pooled",
            "no dropout by default; the paper's 0.2 on CIFAR without augmentation is `dropout`",
            "the last layer begins at N(0, 0.01²)",
        ),
    ),
    _classifier(
        name="vgg",
        title="VGG",
        paper="Simonyan and Zisserman 2015, Very deep convolutional networks for large-scale image recognition "
        "(arXiv:1409.1556)",
        module="canon.systems.vision.vgg:VGG",
        recipe="vision/digits-vgg",
        presets={
            "tiny": {**_DIGITS, "blocks": [1, 1, 2], "width": 8, "hidden": 32, "dropout": 0.0},
            **_VGG_BLOCKS,
            **{f"{name}bn": {**blocks, "batch_norm": True} for name, blocks in _VGG_BLOCKS.items()},
        },
        interop=Interop(reads=("torchvision", "timm"), writes=("torchvision", "timm", "onnx")),
        deviations=(
            "weights begin as in He et al. 2015, the last layer's at N(0, 0.01²), not from a trained shallower net",
            "maps of one pixel are not pooled, and images under 224 pixels make the first dense layer smaller",
            "batch norm, which is younger than the paper, in the presets that end in bn",
        ),
    ),
    _classifier(
        name="googlenet",
        title="GoogLeNet",
        paper="Szegedy, Liu, Jia et al. 2015, Going deeper with convolutions (arXiv:1409.4842)",
        module="canon.systems.vision.googlenet:GoogLeNet",
        recipe="vision/digits-googlenet",
        presets={
            "tiny": {**_DIGITS, "width": 0.0625, "modules": ["3a", "4a", "5a"], "dropout": 0.0},
            "base": {},
            "aux": {"aux": True},
        },
        interop=Interop(reads=("torchvision",), writes=("torchvision", "onnx")),
        deviations=(
            "batch norm after every convolution in place of response normalisation, as torchvision's",
            "3×3 in the branch of 5×5, as torchvision's; `large = 5` is the paper's",
            "dropout 0.2 in place of 0.4, and the classifiers on the side only with `aux = true`",
            _SMALL_STEM + ", 3×3 with stride 1 and no pooling before the first inception module",
            "weights begin as in He et al. 2015, the last layer's at N(0, 0.01²)",
        ),
    ),
    _classifier(
        name="alexnet",
        title="AlexNet",
        paper="Krizhevsky, Sutskever and Hinton 2012, ImageNet classification with deep convolutional neural networks",
        module="canon.systems.vision.alexnet:AlexNet",
        recipe="vision/digits-alexnet",
        presets={
            "tiny": {**_DIGITS, "widths": [8, 16, 16, 16, 16], "hidden": 32, "dropout": 0.0},
            "base": {},
            "paper": {"widths": [96, 256, 384, 384, 256], "response_norm": True},
        },
        interop=Interop(reads=("torchvision",), writes=("torchvision", "onnx")),
        deviations=(
            "one tower in place of two on two GPUs, unless `groups = 2`",
            "preset base is torchvision's: narrower and without response normalisation",
            _SMALL_STEM + ", 3×3 with stride 1",
            "maps under 3 pixels are not pooled, and small images make the first dense layer smaller",
            "weights begin as in He et al. 2015, the last layer's at N(0, 0.01²)",
            "colour noise and crops are settings of the data, not of the network",
        ),
    ),
    _classifier(
        name="nin",
        title="Network in network",
        title_zh="网络中的网络（NiN）",
        paper="Lin, Chen and Yan 2014, Network in network (arXiv:1312.4400)",
        module="canon.systems.vision.nin:NiN",
        recipe="vision/digits-nin",
        presets={
            "tiny": {**_DIGITS, "width": 0.0625, "dropout": 0.0},
            "cifar": {**_CIFAR, "form": "cifar"},
            "imagenet": {"form": "imagenet"},
        },
        interop=Interop(writes=("onnx",)),
        deviations=(
            "images with a side under 64 pixels get the network for CIFAR unless `form` says otherwise",
            "no ReLU on the class maps, where it can silence a class for good",
            "maps under 3 pixels are not pooled",
            "weights begin as in He et al. 2015",
        ),
    ),
    System(
        name="simclr",
        title="SimCLR",
        title_zh="SimCLR（对比学习）",
        chapter="contrastive",
        paper="Chen, Kornblith, Norouzi and Hinton 2020, A simple framework for contrastive learning of visual "
        "representations (arXiv:2002.05709)",
        module="canon.systems.contrastive.simclr:SimCLR",
        encodings=("pixels",),
        task="contrastive",
        objective="nt-xent",
        recipe="contrastive/digits-simclr",
        presets={
            "tiny": {
                "shape": [1, 8, 8],
                "encoder": "mlp:tiny",
                "dim": 16,
                "augment": ["resized-crop:0.3", "color"],
                "objective": {"temperature": 0.1},
            },
            "base": {},
            "cifar": {"shape": [3, 32, 32], "augment": ["resized-crop", "flip", "color:0.5", "grey"]},
        },
        deviations=(
            "colour changes come in one order (brightness, contrast, saturation, hue) where the paper's is random",
            "the recipes train with Adam and batches of hundreds; the paper with LARS and batches of thousands",
        ),
    ),
    System(
        name="gan",
        title="Generative adversarial network",
        title_zh="生成对抗网络",
        chapter="adversarial",
        paper="Goodfellow et al. 2014, Generative adversarial nets (arXiv:1406.2661)",
        module="canon.systems.adversarial.gan:GAN",
        encodings=("features", "pixels"),
        task="generation",
        objective="non-saturating",
        recipe="adversarial/mixture-gan",
        presets={
            "tiny": {"latent": 8, "generator_hidden": [32, 32], "discriminator_hidden": [32, 32]},
            "base": {"generator_hidden": [1200, 1200], "discriminator_hidden": [240, 240]},
        },
        logs=_JUDGED,
        deviations=(
            "the discriminator has leaky rectifiers in place of maxout and dropout",
            "the generator ends in tanh for images, with pixels brought to −1 … 1, and in a linear layer for tables",
            "the recipes train with Adam; the paper with momentum",
        ),
    ),
    System(
        name="dcgan",
        title="Deep convolutional GAN",
        title_zh="深度卷积生成对抗网络",
        chapter="adversarial",
        paper="Radford, Metz and Chintala 2016, Unsupervised representation learning with deep convolutional "
        "generative adversarial networks (arXiv:1511.06434)",
        module="canon.systems.adversarial.dcgan:DCGAN",
        encodings=("pixels",),
        task="generation",
        objective="non-saturating",
        recipe="adversarial/digits-dcgan",
        presets={"tiny": {"shape": [1, 8, 8], "latent": 16, "width": 16}, "base": {}},
        logs=_JUDGED,
        deviations=(
            "images of other sizes than 64 × 64 have fewer or more doublings, from maps of 4 to 7 places a side",
        ),
    ),
)
