"""Sentence embeddings: vectors of texts by which they are compared, searched and grouped."""

from __future__ import annotations

from canon.registry.pretrained import TINIEST
from canon.registry.record import Interop, Range, System

SYSTEMS: tuple[System, ...] = (
    System(
        name="embed",
        title="Sentence embeddings",
        title_zh="句向量（SBERT、SimCSE、CoSENT）",
        chapter="embeddings",
        paper="Reimers and Gurevych 2019, Sentence-BERT: sentence embeddings using Siamese BERT-networks "
        "(arXiv:1908.10084); Gao, Yao and Chen 2021, SimCSE: simple contrastive learning of sentence embeddings "
        "(arXiv:2104.08821)",
        module="canon.systems.contrastive.embed:Embed",
        encodings=("texts",),
        task="retrieval",
        objective="mnrl",
        others={"similarity": "cosent", "inference": "softmax-nli", "sentence-views": "simcse"},
        backbone=True,
        recipe="embed/texts",
        first_for=("sentences",),
        presets={"tiny": {"backbone": "bert", "settings": TINIEST}},
        interop=Interop(reads=("sentence-transformers", "huggingface", "elmo"), writes=("sentence-transformers",)),
        deviations=(
            "candidates whose text equals the anchor or its positive are left out of the sum",
            "negatives come from the global batch, whatever the number of processes or pieces",
            "SimCSE's auxiliary masked language modelling is not there",
            "W of softmax-nli begins at N(0, 0.02²)",
        ),
        space={"optimizer.lr": Range(1e-6, 1e-4)},
    ),
    System(
        name="cpc",
        title="Contrastive predictive coding",
        title_zh="对比预测编码（CPC）",
        chapter="embeddings",
        paper="van den Oord, Li and Vinyals 2018, Representation learning with contrastive predictive coding "
        "(arXiv:1807.03748)",
        module="canon.systems.contrastive.cpc:CPC",
        encodings=("steps",),
        task="future-steps",
        objective="cpc",
        recipe="embed/python-cpc",
        presets={"tiny": {"dim": 16, "hidden": 24, "ahead": 2}, "base": {"dim": 620, "hidden": 2400}},
        deviations=(
            "negatives are the other strands' steps at the same time, in the global batch",
            "the convolution is padded, so that a sentence keeps its length",
            "the encoder of a series is two dense layers on the rows of a step; the paper's is convolutions on sound",
        ),
    ),
)
