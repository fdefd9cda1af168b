"""Recurrence, attention and the Transformer."""

from __future__ import annotations

from canon.registry.record import System

SYSTEMS: tuple[System, ...] = (
    System(
        name="nadaraya-watson",
        title="Nadaraya–Watson kernel regression",
        chapter="sequence",
        paper="Nadaraya 1964, On estimating regression; Watson 1964, Smooth regression analysis",
        module="canon.systems.sequence.kernel_regression:KernelRegression",
        encodings=("features",),
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
        encodings=("windows",),
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
        encodings=("sequences",),
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
        encodings=("sequences",),
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
        encodings=("sequences",),
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
        encodings=("sequences",),
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
        encodings=("sequences",),
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
        encodings=("sequences",),
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
        encodings=("windows",),
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
)
