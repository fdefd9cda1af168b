"""Recurrence, attention and the Transformer."""

from __future__ import annotations

from functools import partial

from canon.registry.record import Interop, System

_sequence = partial(
    System, chapter="sequence", encodings=("sequences",), task="transduction", objective="cross-entropy"
)
_SMALL = {"dim": 128, "hidden": 256, "bidirectional": True, "dropout": 0.2}  # a recurrent network with attention
_START = "Glorot's weights at the start, orthogonal recurrent ones"

SYSTEMS: tuple[System, ...] = (
    _sequence(
        name="nadaraya-watson",
        title="Nadaraya–Watson kernel regression",
        title_zh="Nadaraya–Watson 核回归",
        paper="Nadaraya 1964, On estimating regression; Watson 1964, Smooth regression analysis",
        module="canon.systems.sequence.kernel_regression:KernelRegression",
        encodings=("features",),
        task="regression",
        objective="squared",
        recipe="sequence/diabetes-kernel",
        presets={"tiny": {}, "fixed": {"learn_width": False}},
        interop=Interop(writes=("onnx",)),
        deviations=(
            "the width may be learned, where the papers choose it; a training row then does not see itself",
            "equal rows hide each other while the width is learned",
        ),
    ),
    _sequence(
        name="rnn-lm",
        title="Recurrent language model",
        title_zh="循环语言模型（RNN、GRU、LSTM）",
        paper="Mikolov et al. 2010, Recurrent neural network based language model; Zaremba, Sutskever and Vinyals "
        "2014, Recurrent neural network regularization (arXiv:1409.2329)",
        module="canon.systems.sequence.rnn_lm:RNNLM",
        encodings=("windows",),
        task="language-model",
        recipe="sequence/python-gru",
        presets={
            "tiny": {"kind": "gru", "dim": 16, "hidden": 16, "num_layers": 1},
            "rnn": {"kind": "rnn", "num_layers": 1},
            "gru": {"kind": "gru", "num_layers": 1},
            "small": {"dim": 200, "hidden": 200, "init_scale": 0.1},
            "medium": {"dim": 650, "hidden": 650, "dropout": 0.5, "init_scale": 0.05},
            "large": {"dim": 1500, "hidden": 1500, "dropout": 0.65, "init_scale": 0.04},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "two biases per gate, and the reset gate of a GRU after the product, as torch has them",
            "the rate falls smoothly (exponential schedule) where Zaremba et al. divide it after each epoch",
        ),
    ),
    _sequence(
        name="seq2seq",
        title="Sequence to sequence, no attention",
        title_zh="序列到序列（无注意力）",
        paper="Sutskever, Vinyals and Le 2014, Sequence to sequence learning with neural networks (arXiv:1409.3215); "
        "Cho et al. 2014, Learning phrase representations using RNN encoder–decoder (arXiv:1406.1078)",
        module="canon.systems.sequence.seq2seq:Seq2Seq",
        recipe="sequence/pronounce-seq2seq",
        presets={
            "tiny": {"dim": 16, "hidden": 16},
            "small": {"dim": 128, "hidden": 256, "num_layers": 2, "dropout": 0.2},
            "cho": {"kind": "gru", "dim": 256, "hidden": 512, "reverse_source": False, "feed_context": True},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "Cho's maxout layer before the output is left out; his context shares the gates' weights of the embedding",
            "the decoder begins at the encoder's last state itself, not at a layer of it",
            "Glorot's weights at the start, orthogonal recurrent ones; a bidirectional encoder is a choice",
        ),
    ),
    _sequence(
        name="bahdanau",
        title="Bahdanau attention (RNNsearch)",
        title_zh="Bahdanau 注意力",
        paper="Bahdanau, Cho and Bengio 2015, Neural machine translation by jointly learning to align and translate "
        "(arXiv:1409.0473)",
        module="canon.systems.sequence.bahdanau:Bahdanau",
        recipe="sequence/pronounce-bahdanau",
        presets={
            "tiny": {"dim": 16, "hidden": 16, "align": 16},
            "small": {"dim": 128, "hidden": 256, "align": 128, "dropout": 0.2},
            "base": {"dim": 620, "hidden": 1000, "align": 1000},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "tanh in place of the maxout readout, from s_t in place of s_{t−1}",
            "Cho's GRU in torch's form: reset after the product, and z keeps the old state; layers may be stacked",
            _START,
        ),
    ),
    _sequence(
        name="luong",
        title="Luong attention",
        title_zh="Luong 注意力",
        paper="Luong, Pham and Manning 2015, Effective approaches to attention-based neural machine translation "
        "(arXiv:1508.04025)",
        module="canon.systems.sequence.luong:Luong",
        recipe="sequence/pronounce-luong",
        presets={
            "tiny": {"dim": 16, "hidden": 16},
            "small": _SMALL,
            "feeding": {**_SMALL, "input_feeding": True},
            "base": {"dim": 1000, "hidden": 1000, "num_layers": 4, "dropout": 0.2, "input_feeding": True},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "input feeding is a choice, off by default; location scores are left out",
            "the output layer has a bias; a bidirectional encoder, which is not in the paper, is a choice",
            _START,
        ),
    ),
    _sequence(
        name="local-attention",
        title="Luong's local attention",
        title_zh="局部注意力",
        paper="Luong, Pham and Manning 2015, Effective approaches to attention-based neural machine translation "
        "(arXiv:1508.04025), section 3.2",
        module="canon.systems.sequence.local_attention:LocalAttention",
        recipe="sequence/pronounce-local",
        presets={
            "tiny": {"dim": 16, "hidden": 16, "window": 2},
            "small": {**_SMALL, "window": 3},
            "monotonic": {**_SMALL, "window": 3, "alignment": "local-m"},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "local-m stops at the last source position, where the paper's window may become empty",
            "no input feeding; scores outside the window are computed and masked",
            _START,
        ),
    ),
    _sequence(
        name="hard-attention",
        title="Hard attention",
        title_zh="硬注意力",
        paper="Xu et al. 2015, Show, attend and tell (arXiv:1502.03044), section 4.1",
        module="canon.systems.sequence.hard_attention:HardAttention",
        recipe="sequence/pronounce-hard",
        presets={
            "tiny": {"dim": 16, "hidden": 16},
            "small": _SMALL,
            "straight-through": {**_SMALL, "estimator": "straight-through"},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "over words in place of image regions, with Luong's decoder",
            "rewards of single words in place of whole sentences: the same mean, less variance",
            "every position is drawn, where the paper replaces half of them by the mean",
            _START,
        ),
    ),
    _sequence(
        name="transformer",
        title="Transformer",
        paper="Vaswani et al. 2017, Attention is all you need (arXiv:1706.03762)",
        module="canon.systems.sequence.transformer:Transformer",
        objective_settings={"label_smoothing": 0.1},
        recipe="sequence/pronounce",
        data_recipe="sequence/pairs",
        first_for=("pairs",),
        presets={
            "tiny": {"dim": 16, "num_layers": 1, "num_heads": 2, "hidden": 32, "dropout": 0.0},
            "small": {"dim": 256, "num_layers": 3, "num_heads": 4, "hidden": 1024},
            "base": {},
            "big": {"dim": 1024, "num_heads": 16, "hidden": 4096, "dropout": 0.3},
        },
        interop=Interop(writes=("vectors",)),
        deviations=(
            "projections have biases",
            "pre-norm, learned positions, GELU, dropout of attention weights and banded layers are additions of canon",
        ),
    ),
    _sequence(
        name="transformer-xl",
        title="Transformer-XL",
        paper="Dai et al. 2019, Transformer-XL: attentive language models beyond a fixed-length context "
        "(arXiv:1901.02860)",
        module="canon.systems.sequence.transformer_xl:TransformerXL",
        encodings=("windows",),
        task="language-model",
        recipe="sequence/python-xl",
        presets={
            "tiny": {"dim": 16, "num_layers": 2, "num_heads": 2, "hidden": 32, "memory": 8, "dropout": 0.0},
            "small": {"dim": 256, "num_layers": 4, "num_heads": 4, "hidden": 1024, "memory": 128},
            "base": {},
        },
        interop=Interop(reads=("transformer-xl",), writes=("vectors",)),
        deviations=(
            "full softmax in place of the adaptive one; embeddings begin at N(0, 1/D)",
            "no dropout inside the feed-forward networks; pre-norm is an addition of canon",
        ),
    ),
)
