"""The one explicit table of systems: command-line choices, help, docs tables and the test battery come from it.

Records hold names of modules, not the modules: reading the table imports no torch. A system's module has a `Config`
(settings) and the class named in the record, built as `cls(config)`: a torch module for the gradient loop, or a
`Learner` (canon.training.learner) that learns in its own way.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from canon.config import Origins, Table, parse
from canon.errors import unknown


@dataclass(frozen=True)
class Range:
    """Where `canon tune` looks for a setting: low to high, evenly by its logarithm; whole numbers if `low` is one."""

    low: float
    high: float


@dataclass(frozen=True)
class System:
    name: str
    title: str
    chapter: str
    paper: str
    module: str  # "canon.systems.linear.mlp:MLP"
    inputs: tuple[str, ...]  # kinds of data it reads: features, image, text
    task: str  # canon.tasks: what is predicted, and by which metrics it is judged
    objective: str
    loop: Literal["gradient", "learner"] = "gradient"
    recipe: str = ""  # what `canon train NAME` runs
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    interop: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    space: Mapping[str, Range | tuple[Any, ...]] = field(default_factory=dict)  # what `canon tune` may change

    @property
    def docs(self) -> str:
        return f"docs/systems/{self.name}.md"

    def load(self) -> tuple[type, type]:
        """The system's Config and class; this imports its module."""
        path, _, name = self.module.partition(":")
        module = importlib.import_module(path)
        return module.Config, getattr(module, name)

    def configure(self, preset: str, changes: Table, origins: Origins | None = None) -> Any:
        """The system's settings: defaults, then the preset's, then `changes`."""
        if preset and preset not in self.presets:
            raise unknown("system", f"{self.name}:{preset}", (f"{self.name}:{known}" for known in self.presets))
        config_class, _ = self.load()
        return parse(config_class, {**self.presets.get(preset, {}), **changes}, "system", origins)


_SMALL_STEM = "images with a side under 64 pixels get a stem of their own unless `stem` says otherwise"

# Blocks per stage, He et al. 2016, table 1; and 6n + 2 layers for CIFAR, section 4.2.
_IMAGENET_STAGES: dict[str, dict[str, Any]] = {
    "18": {"stages": [2, 2, 2, 2]},
    "34": {"stages": [3, 4, 6, 3]},
    "50": {"block": "bottleneck", "stages": [3, 4, 6, 3]},
    "101": {"block": "bottleneck", "stages": [3, 4, 23, 3]},
    "152": {"block": "bottleneck", "stages": [3, 8, 36, 3]},
}


def _cifar_stages(n: int) -> dict[str, Any]:
    return {"shape": [3, 32, 32], "num_classes": 10, "stages": [n, n, n], "width": 16, "stem": "cifar"}


def _cifar_dense(depth: int, growth: int, bottleneck: bool = True) -> dict[str, Any]:
    """Huang et al. 2017, section 4.1: three blocks; a bottleneck makes a layer two, four are not in blocks."""
    layers = (depth - 4) // (6 if bottleneck else 3)
    kind = {"width": 2 * growth} if bottleneck else {"width": 16, "bottleneck": 0, "compression": 1.0}
    sizes = {"shape": [3, 32, 32], "num_classes": 10, "growth": growth, "blocks": [layers] * 3}
    return {**sizes, **kind, "stem": "cifar"}


_T5_1_1: dict[str, Any] = {"activation": "gated-gelu", "tie": False, "dropout": 0.0, "attention_dropout": 0.0}

# The smallest left-to-right networks, for tests and for a first look.
_TINY = {"dim": 64, "num_layers": 2, "num_heads": 2, "hidden": 256, "max_positions": 128}


SYSTEMS: tuple[System, ...] = (
    System(
        name="linear-regression",
        title="Linear regression",
        chapter="linear",
        paper="Legendre 1805, Nouvelles méthodes pour la détermination des orbites des comètes",
        module="canon.systems.linear.regression:LinearRegression",
        inputs=("features", "image"),
        task="regression",
        objective="squared",
        recipe="linear/diabetes-linear",
        presets={"tiny": {}},
    ),
    System(
        name="logistic-regression",
        title="Logistic regression",
        chapter="linear",
        paper="Cox 1958, The regression analysis of binary sequences",
        module="canon.systems.linear.classifiers:LogisticRegression",
        inputs=("features", "image"),
        task="classification",
        objective="logistic",
        recipe="linear/cancer-logistic",
        presets={"tiny": {}},
        deviations=("more than two classes: one against the rest, each with its own logistic loss",),
    ),
    System(
        name="softmax-regression",
        title="Softmax regression",
        chapter="linear",
        paper="McFadden 1973, Conditional logit analysis of qualitative choice behavior",
        module="canon.systems.linear.classifiers:SoftmaxRegression",
        inputs=("features", "image"),
        task="classification",
        objective="cross-entropy",
        recipe="linear/digits-softmax",
        presets={"tiny": {}},
    ),
    System(
        name="linear-svm",
        title="Linear support vector machine",
        chapter="linear",
        paper="Cortes and Vapnik 1995, Support-vector networks",
        module="canon.systems.linear.svm:LinearSVM",
        inputs=("features", "image"),
        task="classification",
        objective="hinge",
        recipe="linear/cancer-svm",
        presets={"tiny": {}},
        deviations=(
            "solved by subgradient steps on the primal, not by quadratic programming",
            "more than two classes: one against the rest",
        ),
    ),
    System(
        name="mlp",
        title="Multilayer perceptron",
        chapter="linear",
        paper="Rumelhart, Hinton and Williams 1986, Learning representations by back-propagating errors",
        module="canon.systems.linear.mlp:MLP",
        inputs=("features", "image"),
        task="classification",
        objective="cross-entropy",
        recipe="linear/digits-mlp",
        presets={"tiny": {"hidden": [16]}, "base": {"hidden": [256, 256], "dropout": 0.2}},
        deviations=("ReLU, dropout and cross-entropy in place of the paper's logistic units and squared error",),
    ),
    System(
        name="adaboost",
        title="AdaBoost with decision stumps",
        chapter="linear",
        paper="Freund and Schapire 1997, A decision-theoretic generalization of on-line learning; "
        "Zhu et al. 2009, Multi-class AdaBoost (SAMME)",
        module="canon.systems.linear.adaboost:AdaBoost",
        inputs=("features", "image"),
        task="classification",
        objective="exponential",
        loop="learner",
        recipe="linear/cancer-adaboost",
        presets={"tiny": {}},
    ),
    System(
        name="lenet",
        title="LeNet-5",
        chapter="vision",
        paper="LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document recognition",
        module="canon.systems.vision.lenet:LeNet",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-lenet",
        presets={
            "tiny": {"activation": "relu", "pooling": "max"},
            "base": {},
            "relu": {"activation": "relu", "pooling": "max"},
        },
        deviations=(
            "plain mean pooling without trained coefficients, every map connected to every map of the layer below",
            "softmax output with cross-entropy in place of radial basis functions",
        ),
    ),
    System(
        name="resnet",
        title="Residual network",
        chapter="vision",
        paper="He, Zhang, Ren and Sun 2016, Deep residual learning for image recognition (arXiv:1512.03385)",
        module="canon.systems.vision.resnet:ResNet",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-resnet",
        presets={
            "tiny": {"shape": [1, 8, 8], "num_classes": 10, "stages": [1, 1, 1], "width": 8},
            **{name: _IMAGENET_STAGES[name] for name in ("18", "34", "50", "101", "152")},
            **{str(6 * n + 2): {**_cifar_stages(n), "shortcut": "A"} for n in (3, 5, 7, 9, 18, 200)},
        },
        deviations=(
            _SMALL_STEM + ", 3×3 with stride 1 and no pooling",
            "bottlenecks stride in their 3×3 convolution, as torchvision's; `stride_at = \"1x1\"` is the paper's",
            "the last layer begins at N(0, 0.01²) and the others as in He et al. 2015 by fan-in",
        ),
    ),
    System(
        name="plain",
        title="Plain network (ResNet without shortcuts)",
        chapter="vision",
        paper="He, Zhang, Ren and Sun 2016, Deep residual learning for image recognition (arXiv:1512.03385)",
        module="canon.systems.vision.plain:Plain",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-plain",
        presets={
            "tiny": {"shape": [1, 8, 8], "num_classes": 10, "stages": [1, 1, 1], "width": 8},
            **{name: _IMAGENET_STAGES[name] for name in ("18", "34")},
            **{str(6 * n + 2): _cifar_stages(n) for n in (3, 9)},
        },
        deviations=(_SMALL_STEM + ", 3×3 with stride 1 and no pooling",),
    ),
    System(
        name="densenet",
        title="DenseNet",
        chapter="vision",
        paper="Huang, Liu, van der Maaten and Weinberger 2017, Densely connected convolutional networks "
        "(arXiv:1608.06993)",
        module="canon.systems.vision.densenet:DenseNet",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-densenet",
        presets={
            "tiny": {"shape": [1, 8, 8], "num_classes": 10, "growth": 6, "blocks": [2, 2], "width": 12},
            "121": {},
            "169": {"blocks": [6, 12, 32, 32]},
            "201": {"blocks": [6, 12, 48, 32]},
            "40": _cifar_dense(40, 12, bottleneck=False),
            "bc-40": _cifar_dense(40, 12),
            "bc-100": _cifar_dense(100, 12),
            "bc-190": _cifar_dense(190, 40),
            "bc-250": _cifar_dense(250, 24),
        },
        deviations=(
            _SMALL_STEM + ", one 3×3 convolution",
            "maps of one pixel are not pooled",
            "no dropout by default; the paper's 0.2 on CIFAR without augmentation is `dropout`",
            "the last layer begins at N(0, 0.01²)",
        ),
    ),
    System(
        name="vgg",
        title="VGG",
        chapter="vision",
        paper="Simonyan and Zisserman 2015, Very deep convolutional networks for large-scale image recognition "
        "(arXiv:1409.1556)",
        module="canon.systems.vision.vgg:VGG",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-vgg",
        presets={
            "tiny": {
                "shape": [1, 8, 8],
                "num_classes": 10,
                "blocks": [1, 1, 2],
                "width": 8,
                "hidden": 32,
                "dropout": 0.0,
            },
            "11": {},
            "13": {"blocks": [2, 2, 2, 2, 2]},
            "16": {"blocks": [2, 2, 3, 3, 3]},
            "19": {"blocks": [2, 2, 4, 4, 4]},
            "11bn": {"batch_norm": True},
            "13bn": {"blocks": [2, 2, 2, 2, 2], "batch_norm": True},
            "16bn": {"blocks": [2, 2, 3, 3, 3], "batch_norm": True},
            "19bn": {"blocks": [2, 2, 4, 4, 4], "batch_norm": True},
        },
        deviations=(
            "weights begin as in He et al. 2015, the last layer's at N(0, 0.01²), not from a trained shallower net",
            "maps of one pixel are not pooled, and images under 224 pixels make the first dense layer smaller",
            "batch norm, which is younger than the paper, in the presets that end in bn",
        ),
    ),
    System(
        name="googlenet",
        title="GoogLeNet",
        chapter="vision",
        paper="Szegedy, Liu, Jia et al. 2015, Going deeper with convolutions (arXiv:1409.4842)",
        module="canon.systems.vision.googlenet:GoogLeNet",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-googlenet",
        presets={
            "tiny": {
                "shape": [1, 8, 8],
                "num_classes": 10,
                "width": 0.0625,
                "modules": ["3a", "4a", "5a"],
                "dropout": 0.0,
            },
            "base": {},
            "aux": {"aux": True},
        },
        deviations=(
            "batch norm after every convolution in place of response normalisation, as torchvision's",
            "3×3 in the branch of 5×5, as torchvision's; `large = 5` is the paper's",
            "dropout 0.2 in place of 0.4, and the classifiers on the side only with `aux = true`",
            _SMALL_STEM + ", 3×3 with stride 1 and no pooling before the first inception module",
            "weights begin as in He et al. 2015, the last layer's at N(0, 0.01²)",
        ),
    ),
    System(
        name="alexnet",
        title="AlexNet",
        chapter="vision",
        paper="Krizhevsky, Sutskever and Hinton 2012, ImageNet classification with deep convolutional neural networks",
        module="canon.systems.vision.alexnet:AlexNet",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-alexnet",
        presets={
            "tiny": {
                "shape": [1, 8, 8],
                "num_classes": 10,
                "widths": [8, 16, 16, 16, 16],
                "hidden": 32,
                "dropout": 0.0,
            },
            "base": {},
            "paper": {"widths": [96, 256, 384, 384, 256], "response_norm": True},
        },
        deviations=(
            "one tower in place of two on two GPUs, unless `groups = 2`",
            "preset base is torchvision's: narrower and without response normalisation",
            _SMALL_STEM + ", 3×3 with stride 1",
            "maps under 3 pixels are not pooled, and small images make the first dense layer smaller",
            "weights begin as in He et al. 2015, the last layer's at N(0, 0.01²)",
            "colour noise and crops are settings of the data, not of the network",
        ),
    ),
    System(
        name="nin",
        title="Network in network",
        chapter="vision",
        paper="Lin, Chen and Yan 2014, Network in network (arXiv:1312.4400)",
        module="canon.systems.vision.nin:NiN",
        inputs=("image",),
        task="classification",
        objective="cross-entropy",
        recipe="vision/digits-nin",
        presets={
            "tiny": {"shape": [1, 8, 8], "num_classes": 10, "width": 0.0625, "dropout": 0.0},
            "cifar": {"shape": [3, 32, 32], "num_classes": 10, "form": "cifar"},
            "imagenet": {"form": "imagenet"},
        },
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
        chapter="contrastive",
        paper="Chen, Kornblith, Norouzi and Hinton 2020, A simple framework for contrastive learning of visual "
        "representations (arXiv:2002.05709)",
        module="canon.systems.contrastive.simclr:SimCLR",
        inputs=("image",),
        task="contrastive",
        objective="nt-xent",
        recipe="contrastive/digits-simclr",
        presets={
            "tiny": {
                "shape": [1, 8, 8],
                "encoder": "mlp:tiny",
                "dim": 16,
                "temperature": 0.1,
                "augment": ["resized-crop:0.3", "color"],
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
        chapter="adversarial",
        paper="Goodfellow et al. 2014, Generative adversarial nets (arXiv:1406.2661)",
        module="canon.systems.adversarial.gan:GAN",
        inputs=("features", "image"),
        task="generation",
        objective="adversarial",
        recipe="adversarial/mixture-gan",
        presets={
            "tiny": {"latent": 8, "generator_hidden": [32, 32], "discriminator_hidden": [32, 32]},
            "base": {"generator_hidden": [1200, 1200], "discriminator_hidden": [240, 240]},
        },
        deviations=(
            "the discriminator has leaky rectifiers in place of maxout and dropout",
            "the generator ends in tanh for images, with pixels brought to −1 … 1, and in a linear layer for tables",
            "the recipes train with Adam; the paper with momentum",
        ),
    ),
    System(
        name="dcgan",
        title="Deep convolutional GAN",
        chapter="adversarial",
        paper="Radford, Metz and Chintala 2016, Unsupervised representation learning with deep convolutional "
        "generative adversarial networks (arXiv:1511.06434)",
        module="canon.systems.adversarial.dcgan:DCGAN",
        inputs=("image",),
        task="generation",
        objective="adversarial",
        recipe="adversarial/digits-dcgan",
        presets={"tiny": {"shape": [1, 8, 8], "latent": 16, "width": 16}, "base": {}},
        deviations=(
            "images of other sizes than 64 × 64 have fewer or more doublings, from maps of 4 to 7 places a side",
        ),
    ),
    System(
        name="nadaraya-watson",
        title="Nadaraya–Watson kernel regression",
        chapter="sequence",
        paper="Nadaraya 1964, On estimating regression; Watson 1964, Smooth regression analysis",
        module="canon.systems.sequence.kernel_regression:KernelRegression",
        inputs=("features",),
        task="regression",
        objective="squared",
        recipe="sequence/diabetes-kernel",
        presets={"tiny": {}, "fixed": {"learn_width": False}},
        deviations=(
            "the width may be learned, where the papers choose it; a training row then does not see itself",
            "equal rows hide each other while the width is learned",
        ),
    ),
    System(
        name="rnn-lm",
        title="Recurrent language model",
        chapter="sequence",
        paper="Mikolov et al. 2010, Recurrent neural network based language model; Zaremba, Sutskever and Vinyals "
        "2014, Recurrent neural network regularization (arXiv:1409.2329)",
        module="canon.systems.sequence.rnn_lm:RNNLM",
        inputs=("text",),
        task="language-model",
        objective="cross-entropy",
        recipe="sequence/python-gru",
        presets={
            "tiny": {"kind": "gru", "dim": 16, "hidden": 16, "num_layers": 1},
            "rnn": {"kind": "rnn", "num_layers": 1},
            "gru": {"kind": "gru", "num_layers": 1},
            "small": {"dim": 200, "hidden": 200, "init_scale": 0.1},
            "medium": {"dim": 650, "hidden": 650, "dropout": 0.5, "init_scale": 0.05},
            "large": {"dim": 1500, "hidden": 1500, "dropout": 0.65, "init_scale": 0.04},
        },
        deviations=(
            "two biases per gate, and the reset gate of a GRU behind the product, as torch has them",
            "the rate falls smoothly (exponential schedule) where Zaremba et al. divide it after each epoch",
        ),
    ),
    System(
        name="seq2seq",
        title="Sequence to sequence, no attention",
        chapter="sequence",
        paper="Sutskever, Vinyals and Le 2014, Sequence to sequence learning with neural networks (arXiv:1409.3215); "
        "Cho et al. 2014, Learning phrase representations using RNN encoder–decoder (arXiv:1406.1078)",
        module="canon.systems.sequence.seq2seq:Seq2Seq",
        inputs=("pairs",),
        task="transduction",
        objective="cross-entropy",
        recipe="sequence/pronounce-seq2seq",
        presets={
            "tiny": {"dim": 16, "hidden": 16},
            "small": {"dim": 128, "hidden": 256, "num_layers": 2, "dropout": 0.2},
            "cho": {"kind": "gru", "dim": 256, "hidden": 512, "reverse_source": False, "feed_context": True},
        },
        deviations=(
            "Cho's maxout layer before the output is left out; his context shares the gates' weights of the embedding",
            "the decoder begins at the encoder's last state itself, not at a layer of it",
            "Glorot's weights at the start, orthogonal recurrent ones; a bidirectional encoder is a choice",
        ),
    ),
    System(
        name="bahdanau",
        title="Bahdanau attention (RNNsearch)",
        chapter="sequence",
        paper="Bahdanau, Cho and Bengio 2015, Neural machine translation by jointly learning to align and translate "
        "(arXiv:1409.0473)",
        module="canon.systems.sequence.bahdanau:Bahdanau",
        inputs=("pairs",),
        task="transduction",
        objective="cross-entropy",
        recipe="sequence/pronounce-bahdanau",
        presets={
            "tiny": {"dim": 16, "hidden": 16, "align": 16},
            "small": {"dim": 128, "hidden": 256, "align": 128, "dropout": 0.2},
            "base": {"dim": 620, "hidden": 1000, "align": 1000},
        },
        deviations=(
            "tanh in place of the maxout readout, from s_t in place of s_{t−1}",
            "Cho's GRU in torch's form: reset behind the product, and z keeps the old state; layers may be stacked",
            "Glorot's weights at the start, orthogonal recurrent ones",
        ),
    ),
    System(
        name="luong",
        title="Luong attention",
        chapter="sequence",
        paper="Luong, Pham and Manning 2015, Effective approaches to attention-based neural machine translation "
        "(arXiv:1508.04025)",
        module="canon.systems.sequence.luong:Luong",
        inputs=("pairs",),
        task="transduction",
        objective="cross-entropy",
        recipe="sequence/pronounce-luong",
        presets={
            "tiny": {"dim": 16, "hidden": 16},
            "small": {"dim": 128, "hidden": 256, "bidirectional": True, "dropout": 0.2},
            "feeding": {"dim": 128, "hidden": 256, "bidirectional": True, "dropout": 0.2, "input_feeding": True},
            "base": {"dim": 1000, "hidden": 1000, "num_layers": 4, "dropout": 0.2, "input_feeding": True},
        },
        deviations=(
            "input feeding is a choice, off by default; location scores are left out",
            "the output layer has a bias; a bidirectional encoder, which the paper has not, is a choice",
            "Glorot's weights at the start, orthogonal recurrent ones",
        ),
    ),
    System(
        name="local-attention",
        title="Luong's local attention",
        chapter="sequence",
        paper="Luong, Pham and Manning 2015, Effective approaches to attention-based neural machine translation "
        "(arXiv:1508.04025), section 3.2",
        module="canon.systems.sequence.local_attention:LocalAttention",
        inputs=("pairs",),
        task="transduction",
        objective="cross-entropy",
        recipe="sequence/pronounce-local",
        presets={
            "tiny": {"dim": 16, "hidden": 16, "window": 2},
            "small": {"dim": 128, "hidden": 256, "bidirectional": True, "dropout": 0.2, "window": 3},
            "monotonic": {
                "dim": 128,
                "hidden": 256,
                "bidirectional": True,
                "dropout": 0.2,
                "window": 3,
                "alignment": "local-m",
            },
        },
        deviations=(
            "local-m stops at the last source position, where the paper's window may become empty",
            "no input feeding; scores outside the window are computed and masked",
            "Glorot's weights at the start, orthogonal recurrent ones",
        ),
    ),
    System(
        name="hard-attention",
        title="Hard attention",
        chapter="sequence",
        paper="Xu et al. 2015, Show, attend and tell (arXiv:1502.03044), section 4.1",
        module="canon.systems.sequence.hard_attention:HardAttention",
        inputs=("pairs",),
        task="transduction",
        objective="cross-entropy",
        recipe="sequence/pronounce-hard",
        presets={
            "tiny": {"dim": 16, "hidden": 16},
            "small": {"dim": 128, "hidden": 256, "bidirectional": True, "dropout": 0.2},
            "straight-through": {
                "dim": 128,
                "hidden": 256,
                "bidirectional": True,
                "dropout": 0.2,
                "estimator": "straight-through",
            },
        },
        deviations=(
            "over words in place of image regions, with Luong's decoder",
            "rewards of single words in place of whole sentences: the same mean, less variance",
            "every position is drawn, where the paper replaces half of them by the mean",
            "Glorot's weights at the start, orthogonal recurrent ones",
        ),
    ),
    System(
        name="transformer",
        title="Transformer",
        chapter="sequence",
        paper="Vaswani et al. 2017, Attention is all you need (arXiv:1706.03762)",
        module="canon.systems.sequence.transformer:Transformer",
        inputs=("pairs",),
        task="transduction",
        objective="cross-entropy",
        recipe="sequence/pronounce",
        presets={
            "tiny": {"dim": 16, "num_layers": 1, "num_heads": 2, "hidden": 32, "dropout": 0.0},
            "small": {"dim": 256, "num_layers": 3, "num_heads": 4, "hidden": 1024},
            "base": {},
            "big": {"dim": 1024, "num_heads": 16, "hidden": 4096, "dropout": 0.3},
        },
        deviations=(
            "projections have biases",
            "pre-norm, learned positions, GELU, dropout of attention weights and banded layers are ours to choose",
        ),
    ),
    System(
        name="transformer-xl",
        title="Transformer-XL",
        chapter="sequence",
        paper="Dai et al. 2019, Transformer-XL: attentive language models beyond a fixed-length context "
        "(arXiv:1901.02860)",
        module="canon.systems.sequence.transformer_xl:TransformerXL",
        inputs=("text",),
        task="language-model",
        objective="cross-entropy",
        recipe="sequence/python-xl",
        presets={
            "tiny": {"dim": 16, "num_layers": 2, "num_heads": 2, "hidden": 32, "memory": 8, "dropout": 0.0},
            "small": {"dim": 256, "num_layers": 4, "num_heads": 4, "hidden": 1024, "memory": 128},
            "base": {},
        },
        deviations=(
            "full softmax in place of the adaptive one; embeddings begin at N(0, 1/D)",
            "no dropout inside the feed-forward networks; pre-norm is ours to choose",
        ),
    ),
    System(
        name="word2vec",
        title="word2vec",
        chapter="words",
        paper="Mikolov, Chen, Corrado and Dean 2013, Efficient estimation of word representations in vector space "
        "(arXiv:1301.3781); Mikolov, Sutskever, Chen, Corrado and Dean 2013, Distributed representations of words and "
        "phrases and their compositionality (arXiv:1310.4546)",
        module="canon.systems.words.word2vec:Word2Vec",
        inputs=("corpus",),
        task="word-vectors",
        objective="negative-sampling",
        loop="learner",
        recipe="words/word2vec",
        presets={
            "tiny": {"dim": 16, "window": 3, "subsample": 0.0, "lr": 0.05},
            "skip-gram": {},
            "cbow": {"architecture": "cbow", "lr": 0.05},
        },
        interop=("word2vec",),
        deviations=(
            'one set of noise words serves all contexts of a word, which learn together; `update = "pair"` is theirs',
            "a line of any length is one sentence, where their program cuts it after 1,000 words",
            "sigmoids are computed, where their program looks them up in a table that ends at ±6",
            "words are left out by 1 − √(t/f) − t/f, as in their program, where the paper has 1 − √(t/f)",
        ),
    ),
    System(
        name="nnlm",
        title="Neural probabilistic language model",
        chapter="words",
        paper="Bengio, Ducharme, Vincent and Jauvin 2003, A neural probabilistic language model",
        module="canon.systems.words.nnlm:NNLM",
        inputs=("text",),
        task="language-model",
        objective="cross-entropy",
        recipe="words/nnlm",
        presets={
            "tiny": {"order": 4, "dim": 8, "hidden": 16, "direct": True},
            "brown": {"order": 5, "dim": 30, "hidden": 100},
            "ap-news": {"order": 6, "dim": 100, "hidden": 60, "direct": True},
            "ptb": {"order": 5, "dim": 100, "hidden": 200, "dropout": 0.2},
        },
        deviations=(
            "dropout of the words' features and of the tanh layer is a choice, which the paper has not",
            "the recipes train with Adam on batches; the paper with gradient descent and weight decay, word by word",
            "the mixture with a trigram model, which gives the paper's best figures, is left out",
            "where a stream begins, <bos> stands for the words before it",
        ),
    ),
    System(
        name="ngram",
        title="Interpolated n-gram model",
        chapter="words",
        paper="Jelinek and Mercer 1980, Interpolated estimation of Markov source parameters from sparse data; Chen and "
        "Goodman 1998, An empirical study of smoothing techniques for language modeling",
        module="canon.systems.words.ngram:NGram",
        inputs=("text",),
        task="language-model",
        objective="likelihood",
        loop="learner",
        recipe="words/ngram",
        presets={
            "tiny": {},
            "trigram": {},
            "kneser-ney": {"order": 5, "smoothing": "kneser-ney"},
        },
        deviations=(
            "weights are estimated on the training text, each word left out of the counts in turn, where Bengio et al. "
            "2003 estimate them on the validation part",
            "each order has weights by its own context's count, where Bengio et al. mix all by that of the longest",
            "contexts run over the ends of lines, as those of canon's other language models do",
        ),
    ),
    System(
        name="fasttext",
        title="fastText vectors",
        chapter="words",
        paper="Bojanowski, Grave, Joulin and Mikolov 2017, Enriching word vectors with subword information "
        "(arXiv:1607.04606)",
        module="canon.systems.words.fasttext:FastText",
        inputs=("corpus",),
        task="word-vectors",
        objective="negative-sampling",
        loop="learner",
        recipe="words/fasttext",
        presets={
            "tiny": {"dim": 16, "window": 3, "buckets": 2000, "subsample": 0.0},
            "skip-gram": {},
            "cbow": {"architecture": "cbow"},
        },
        interop=("fasttext",),
        deviations=(
            "a word's vector is the mean of those of its n-grams, where the paper has their sum; each of them moves by "
            "the whole gradient of that mean, as in fastText's program",
            "noise words are drawn in proportion to √count, as in fastText's program",
            "a line of any length is one sentence, where fastText cuts it after 1,024 words; its end is no word",
            "noise that hits the word itself is left out, where fastText draws again",
            "sigmoids are computed, where fastText looks them up in a table that ends at ±8",
            "with CBOW the rows of a word are written when no window reaches it any more, so that rows that two words "
            "of a window share are late by that",
        ),
    ),
    System(
        name="fasttext-classifier",
        title="fastText classifier",
        chapter="words",
        paper="Joulin, Grave, Bojanowski and Mikolov 2017, Bag of tricks for efficient text classification "
        "(arXiv:1607.01759)",
        module="canon.systems.words.classifier:Classifier",
        inputs=("document",),
        task="labels",
        objective="labels",
        loop="learner",
        recipe="words/modules-classifier",
        presets={
            "tiny": {"dim": 16, "lr": 0.5, "word_ngrams": 2, "buckets": 1000},
            "base": {},
            "bigrams": {"dim": 10, "lr": 0.25, "word_ngrams": 2},
            "tags": {"lr": 1.0, "word_ngrams": 2, "loss": "one-vs-all"},
        },
        interop=("fasttext",),
        deviations=(
            "documents come in another order in every epoch, where fastText reads its file in order",
            "the rate falls by documents seen, where fastText's falls by words seen",
            "pre-trained vectors are taken for words of the training data only; fastText adds the others to its words",
            "sigmoids and logarithms are exact, where fastText looks them up in tables",
        ),
        space={
            "system.lr": Range(0.05, 2.0),
            "system.dim": Range(16, 200),
            "system.word_ngrams": (1, 2, 3),
            "system.maxn": (0, 0, 4),  # letter n-grams in a third of the trials
            "data.min_count": (1, 1, 2, 5),
            "train.epochs": Range(2, 50),
        },
    ),
    System(
        name="glove",
        title="GloVe",
        chapter="words",
        paper="Pennington, Socher and Manning 2014, GloVe: global vectors for word representation",
        module="canon.systems.words.glove:GloVe",
        inputs=("corpus",),
        task="word-vectors",
        objective="glove",
        loop="learner",
        recipe="words/glove",
        presets={
            "tiny": {"dim": 16, "window": 5, "x_max": 10.0},
            "base": {},
            "small-text": {"x_max": 10.0},
            "paper": {"dim": 300},
        },
        deviations=(
            "AdaGrad as Stanford's program has it: sums begin at 1 and grow by (η g)², biases step with η = 1",
            "parts of the entries come in another order every epoch, each entry with its mirror image; that program "
            "shuffles all once",
            "gradients are not clipped at ±100, which none comes near",
            "no vector <unk>: a word that is not known has none",
        ),
    ),
    System(
        name="elmo",
        title="ELMo",
        chapter="pretrained",
        paper="Peters et al. 2018, Deep contextualized word representations (arXiv:1802.05365)",
        module="canon.systems.pretrained.elmo:ELMo",
        inputs=("text",),
        task="bidirectional-language-model",
        objective="cross-entropy",
        recipe="pretrained/elmo",
        presets={
            "tiny": {
                "char_dim": 4,
                "filters": [[1, 8], [2, 8], [3, 16]],
                "num_highway": 1,
                "projection": 16,
                "hidden": 32,
                "dropout": 0.0,
            },
            "small": {"num_highway": 1, "projection": 128, "hidden": 1024},
            "medium": {"num_highway": 1, "projection": 256, "hidden": 2048},
            "original": {},
        },
        interop=("bilm-tf",),
        deviations=(
            "the whole softmax, where the authors sample 8,192 words of it",
            "the backward direction begins anew at the end of every window; the authors read the text's reversal as a "
            "second stream and carry its state too",
            "one token between two sentences, read as <S> by the forward direction and as </S> by the backward one, "
            "where the authors' text has both",
            "a sentence is encoded from an empty state; the authors' code carries the state from one batch to the next",
            "words of other data that the vocabulary lacks are read as <unk> where tokens are given (not by "
            "`encode_words`), where the authors know their characters",
        ),
    ),
    System(
        name="gpt",
        title="GPT",
        chapter="pretrained",
        paper="Radford, Narasimhan, Salimans and Sutskever 2018, Improving language understanding by generative "
        "pre-training",
        module="canon.systems.pretrained.gpt:GPT",
        inputs=("passages",),
        task="pretraining",
        objective="causal",
        recipe="pretrained/gpt",
        presets={"tiny": _TINY, "base": {}},
        interop=("huggingface",),
        deviations=("a sequence is a passage of one document, where the authors cut running text at 512 tokens",),
    ),
    System(
        name="gpt2",
        title="GPT-2",
        chapter="pretrained",
        paper="Radford, Wu, Child, Luan, Amodei and Sutskever 2019, Language models are unsupervised multitask "
        "learners",
        module="canon.systems.pretrained.gpt2:GPT2",
        inputs=("passages",),
        task="pretraining",
        objective="causal",
        recipe="pretrained/gpt2",
        presets={
            "tiny": _TINY,
            "small": {},
            "medium": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
            "large": {"dim": 1280, "num_layers": 36, "num_heads": 20, "hidden": 5120},
            "xl": {"dim": 1600, "num_layers": 48, "num_heads": 25, "hidden": 6400},
        },
        interop=("huggingface",),
        deviations=("a sequence is a passage of one document, where the authors cut running text at 1,024 tokens",),
    ),
    System(
        name="gpt3",
        title="GPT-3 style",
        chapter="pretrained",
        paper="Brown et al. 2020, Language models are few-shot learners (arXiv:2005.14165)",
        module="canon.systems.pretrained.gpt3:GPT3",
        inputs=("passages",),
        task="pretraining",
        objective="causal",
        recipe="pretrained/gpt3",
        presets={
            "tiny": {**_TINY, "window": 8},
            "small": {},
            "350m": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
            "760m": {"dim": 1536, "num_layers": 24, "num_heads": 16, "hidden": 6144},
            "1.3b": {"dim": 2048, "num_layers": 24, "num_heads": 16, "hidden": 8192},
            "2.7b": {"dim": 2560, "num_layers": 32, "num_heads": 32, "hidden": 10240},
            "6.7b": {"dim": 4096, "num_layers": 32, "num_heads": 32, "hidden": 16384},
            "13b": {"dim": 5120, "num_layers": 40, "num_heads": 40, "hidden": 20480},
            "175b": {"dim": 12288, "num_layers": 96, "num_heads": 96, "hidden": 49152},
        },
        interop=("huggingface",),
        deviations=(
            "the paper does not tell the band's width; `window` is 256 here",
            "1.3b has 16 heads and 13b 5,120 features; table 2.1 has 24 heads of 128 in 2,048 features, and 40 of 128 "
            "in 5,140",
            "a sequence is a passage of one document, where the authors pack several into 2,048 tokens",
        ),
    ),
    System(
        name="bert",
        title="BERT",
        chapter="pretrained",
        paper="Devlin, Chang, Lee and Toutanova 2019, BERT: pre-training of deep bidirectional Transformers for "
        "language understanding (arXiv:1810.04805)",
        module="canon.systems.pretrained.bert:Bert",
        inputs=("passages",),
        task="pretraining",
        objective="masked",
        recipe="pretrained/bert",
        presets={
            "tiny": {"dim": 128, "num_layers": 2, "num_heads": 2, "hidden": 512},
            "mini": {"dim": 256, "num_layers": 4, "num_heads": 4, "hidden": 1024},
            "small": {"dim": 512, "num_layers": 4, "num_heads": 8, "hidden": 2048},
            "medium": {"dim": 512, "num_layers": 8, "num_heads": 8, "hidden": 2048},
            "base": {},
            "large": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
        },
        interop=("huggingface",),
        deviations=(
            "masks are drawn anew at every visit, not once for ten copies of the text",
            "sequence lengths are the data's from the first step, not 128 and then 512",
        ),
    ),
    System(
        name="roberta",
        title="RoBERTa",
        chapter="pretrained",
        paper="Liu et al. 2019, RoBERTa: a robustly optimized BERT pretraining approach (arXiv:1907.11692)",
        module="canon.systems.pretrained.roberta:Roberta",
        inputs=("passages",),
        task="pretraining",
        objective="masked",
        recipe="pretrained/roberta",
        presets={
            "tiny": {"dim": 128, "num_layers": 2, "num_heads": 2, "hidden": 512},
            "base": {},
            "large": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
        },
        interop=("huggingface",),
        deviations=(
            "a sequence never crosses documents (DOC-SENTENCES, not FULL-SENTENCES)",
            "the position rows that published checkpoints reserve for padding are put in on export only",
        ),
    ),
    System(
        name="unilm",
        title="UniLM",
        chapter="pretrained",
        paper="Dong et al. 2019, Unified language model pre-training for natural language understanding and generation "
        "(arXiv:1905.03197)",
        module="canon.systems.pretrained.unilm:UniLM",
        inputs=("passages",),
        task="pretraining",
        objective="prefix",
        recipe="pretrained/unilm",
        presets={
            "tiny": {"dim": 128, "num_layers": 2, "num_heads": 2, "hidden": 512},
            "base": {},
            "large": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
        },
        interop=("huggingface",),
        deviations=("right to left (a sixth of the paper's mixture) is the left-to-right mask on the reversed text",),
    ),
    System(
        name="ernie2",
        title="ERNIE 2.0",
        chapter="pretrained",
        paper="Sun et al. 2020, ERNIE 2.0: a continual pre-training framework for language understanding "
        "(arXiv:1907.12412)",
        module="canon.systems.pretrained.ernie2:Ernie2",
        inputs=("passages",),
        task="pretraining",
        objective="continual",
        recipe="pretrained/ernie2",
        presets={
            "tiny": {"dim": 128, "num_layers": 2, "num_heads": 2, "hidden": 512},
            "small": {"dim": 512, "num_layers": 4, "num_heads": 8, "hidden": 2048},
            "base": {},
            "large": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
        },
        deviations=(
            "of the seven tasks those that need no labels and no search log: spans, token–document relation, sentence "
            "reordering, sentence distance; capitals are left out, since tokens show them",
            "a step's task is drawn, each as likely as another; the paper gives tasks numbers of steps for each stage",
            "spans are n-grams of words and the phrases of data.phrases, not entities that a tool has found",
        ),
    ),
    System(
        name="t5",
        title="T5",
        chapter="pretrained",
        paper="Raffel et al. 2020, Exploring the limits of transfer learning with a unified text-to-text Transformer "
        "(arXiv:1910.10683)",
        module="canon.systems.pretrained.t5:T5",
        inputs=("passages",),
        task="pretraining",
        objective="corruption",
        recipe="pretrained/t5",
        presets={
            "tiny": {
                "dim": 16,
                "num_layers": 1,
                "num_heads": 2,
                "head_dim": 8,
                "hidden": 32,
                "dropout": 0.0,
                "attention_dropout": 0.0,
            },
            "small": {},
            "base": {"dim": 768, "num_layers": 12, "num_heads": 12, "hidden": 3072},
            "large": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
            "3b": {"dim": 1024, "num_layers": 24, "num_heads": 32, "head_dim": 128, "hidden": 16_384},
            "11b": {"dim": 1024, "num_layers": 24, "num_heads": 128, "head_dim": 128, "hidden": 65_536},
            "v1.1-small": {"num_layers": 8, "num_heads": 6, "hidden": 1024, **_T5_1_1},
            "v1.1-base": {"dim": 768, "num_layers": 12, "num_heads": 12, **_T5_1_1},
        },
        interop=("huggingface",),
        deviations=(
            "the output's own matrix of T5 1.1 begins at N(0, 1/D)",
            "passages are of one document each, where the authors pack several into a sequence of 512",
        ),
    ),
    System(
        name="xlnet",
        title="XLNet",
        chapter="pretrained",
        paper="Yang et al. 2019, XLNet: generalized autoregressive pretraining for language understanding "
        "(arXiv:1906.08237)",
        module="canon.systems.pretrained.xlnet:XLNet",
        inputs=("passages",),
        task="pretraining",
        objective="permutation",
        recipe="pretrained/xlnet",
        presets={
            "tiny": {
                "dim": 16,
                "num_layers": 2,
                "num_heads": 2,
                "hidden": 32,
                "dropout": 0.0,
                "attention_dropout": 0.0,
            },
            "base": {},
            "large": {"dim": 1024, "num_layers": 24, "num_heads": 16, "hidden": 4096},
        },
        interop=("huggingface",),
        deviations=(
            "passages are drawn anew for every batch, so that pre-training carries no memory from one to the next; the "
            "network takes and gives one where a text is read in order",
            "a token that is predicted before all others, with nothing to see, attends to nothing; the authors' code "
            "lets it average over everything, itself included",
        ),
    ),
    System(
        name="finetune",
        title="Fine-tuning of a pre-trained network",
        chapter="pretrained",
        paper="Devlin, Chang, Lee and Toutanova 2019, BERT: pre-training of deep bidirectional Transformers "
        "(arXiv:1810.04805), sections 4 and 5.3; Howard and Ruder 2018, Universal language model fine-tuning for text "
        "classification (arXiv:1801.06146), section 3.2",
        module="canon.systems.pretrained.finetune:FineTune",
        inputs=("tokens",),
        task="fine-tuning",
        objective="finetune",
        recipe="pretrained/finetune",
        presets={
            "tiny": {
                "backbone": "bert",
                "settings": {
                    "dim": 16,
                    "num_layers": 2,
                    "num_heads": 2,
                    "hidden": 32,
                    "dropout": 0.0,
                    "attention_dropout": 0.0,
                },
                "dropout": 0.0,
            },
        },
        deviations=(
            "where `layers`, `mix` or `lstm` change what the head reads, the vector of a sequence is the mean over its "
            "tokens",
            "a long sentence to be tagged is cut between words into several sequences",
            "the same answer in two windows counts with its better score, where BERT's code takes each token from one "
            "window only",
        ),
    ),
)

_BY_NAME = {system.name: system for system in SYSTEMS}


def find(name: str) -> tuple[System, str]:
    """The system and preset that "resnet:34" names."""
    base, _, preset = name.partition(":")
    if base not in _BY_NAME:
        raise unknown("system", base, _BY_NAME)
    system = _BY_NAME[base]
    if preset and preset not in system.presets:
        raise unknown("system", name, (f"{base}:{known}" for known in system.presets))
    return system, preset
