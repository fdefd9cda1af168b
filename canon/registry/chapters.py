"""The chapters that systems belong to, in the order in which pages list them."""

from __future__ import annotations

from typing import NamedTuple


class Chapter(NamedTuple):
    title: str
    title_zh: str


CHAPTERS = {
    "linear": Chapter("Tables and lines", "表格与线性模型"),
    "vision": Chapter("Images", "图像"),
    "contrastive": Chapter("Contrastive learning", "对比学习"),
    "adversarial": Chapter("Generative adversarial networks", "生成对抗网络"),
    "sequence": Chapter("Recurrence, attention, translation", "循环网络、注意力与翻译"),
    "words": Chapter("Words and n-grams", "词向量与 n 元模型"),
    "pretrained": Chapter("Pre-training and fine-tuning", "预训练与微调"),
    "prompts": Chapter("Prompts", "提示学习"),
    "embeddings": Chapter("Sentence embeddings", "句向量"),
    "ranking": Chapter("Learning to rank", "排序学习"),
    "clicks": Chapter("Click-through rates", "点击率预估"),
    "recommendation": Chapter("Recommendation", "推荐"),
    "control": Chapter("Reinforcement learning", "强化学习"),
}
