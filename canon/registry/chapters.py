"""The chapters that systems belong to, in the order in which pages list them."""

from __future__ import annotations

from typing import NamedTuple


class Chapter(NamedTuple):
    name: str
    title: str
    title_zh: str
    docs: str = ""  # a page about all of its systems


CHAPTERS = (
    Chapter("linear", "Tables and lines", "表格与线性模型"),
    Chapter("vision", "Images", "图像"),
    Chapter("contrastive", "Contrastive learning", "对比学习"),
    Chapter("adversarial", "Generative adversarial networks", "生成对抗网络"),
    Chapter("sequence", "Recurrence, attention, translation", "循环网络、注意力与翻译"),
    Chapter("words", "Words and n-grams", "词向量与 n 元模型"),
    Chapter("pretrained", "Pre-training and fine-tuning", "预训练与微调"),
    Chapter("prompts", "Prompts", "提示学习"),
    Chapter("embeddings", "Sentence embeddings", "句向量"),
    Chapter("ranking", "Learning to rank", "排序学习", "docs/ranking.md"),
    Chapter("clicks", "Click-through rates", "点击率预估", "docs/clicks.md"),
    Chapter("recommendation", "Recommendation", "推荐", "docs/recommendation.md"),
    Chapter("control", "Reinforcement learning", "强化学习", "docs/control.md"),
)
