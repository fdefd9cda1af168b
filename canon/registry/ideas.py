"""Methods by names that no system of canon has: what each is, and which systems are nearest to the idea."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from canon.errors import CanonError, unknown


class Idea(NamedTuple):
    what: str
    words: tuple[str, ...]  # letters alone: a name that is one, has one between hyphens, or has a longer one in it
    systems: tuple[str, ...] = ()  # nearest to it
    more: str = ""  # what else to do


IDEAS: tuple[Idea, ...] = (
    Idea(
        "learning to rank",
        ("ranksvm", "rank", "svmrank", "xendcg", "mart", "allrank", "neuralndcg", "wassrank", "letor", "deeprank"),
        ("mlp-ranker", "lambdamart", "linear-ranker"),
        "canon list recipes has a method a line, such as ranking/lambdarank; objective.name chooses another loss",
    ),
    Idea(
        "recommendation",
        (
            "recommend",
            "collaborative",
            "ncf",
            "neumf",
            "lightgcn",
            "svdpp",
            "slim",
            "ease",
            "wrmf",
            "multvae",
            "toppop",
        ),
        ("ials", "bpr", "mf", "item-knn"),
    ),
    Idea(
        "click-through prediction or recommendation",
        (
            "factorization",
            "libfm",
            "ffm",
            "widedeep",
            "dlrm",
            "dcn",
            "xdeepfm",
            "bpr",
            "ials",
            "recommend",
            "ncf",
            "ctr",
        ),
        ("deepfm", "wide-and-deep", "fm"),
        "they predict clicks from fields",
    ),
    Idea(
        "gradient-boosted or bagged trees",
        ("xgboost", "lightgbm", "catboost", "gbdt", "gbm", "boosting", "forest", "tree"),
        ("adaboost", "mlp"),
    ),
    Idea("nearest neighbours or kernels", ("knn", "neighbour", "neighbor", "kernel", "gaussian"), ("nadaraya-watson",)),
    Idea("support vector machines", ("svm", "svc", "supportvector"), ("linear-svm",)),
    Idea(
        "linear classification",
        ("logit", "logistic", "perceptron", "naivebayes", "ridge", "lasso"),
        ("logistic-regression",),
    ),
    Idea(
        "image classification",
        ("vit", "visiontransformer", "efficientnet", "mobilenet", "inception", "convnext", "cnn", "convnet"),
        ("resnet", "densenet", "lenet"),
    ),
    Idea(
        "image generation",
        ("vae", "autoencoder", "diffusion", "ddpm", "stylegan", "wgan", "cyclegan"),
        ("dcgan", "gan"),
    ),
    Idea(
        "large language models",
        ("llama", "mistral", "qwen", "gemma", "deepseek", "nanogpt", "llm", "mamba", "rwkv", "opt", "bloom", "phi"),
        ("gpt2", "gpt3"),
    ),
    Idea(
        "pre-trained encoders",
        ("electra", "albert", "deberta", "distilbert", "xlm", "spanbert", "macbert", "longformer", "minilm"),
        ("bert", "roberta"),
        "finetune starts from a folder of weights",
    ),
    Idea("pre-trained sequence-to-sequence networks", ("bart", "pegasus", "marian", "nllb", "mass"), ("t5",)),
    Idea(
        "sentence embeddings", ("sbert", "sentence", "simcse", "docvec", "infersent", "cosent"), ("embed", "fasttext")
    ),
    Idea(
        "tagging", ("crf", "ner", "tagger", "tagging"), ("finetune",), "it reads words with tags, one sentence a block"
    ),
    Idea("text classification", ("textcnn", "sentiment", "textclass"), ("fasttext-classifier", "finetune")),
    Idea("contrastive learning of images", ("moco", "byol", "dino", "barlow"), ("simclr",)),
    Idea(
        "reinforcement learning",
        ("deepq", "ddqn", "rainbow", "ppo", "actorcritic", "ddpg", "trpo", "policygradient"),
        ("dqn", "reinforce", "q-learning"),
    ),
    Idea(
        "recurrent networks",
        ("lstm", "gru", "rnn", "bilstm", "recurrent", "awdlstm"),
        ("rnn-lm", "seq2seq", "elmo"),
        "of running text, of pairs of texts, of both directions of a text",
    ),
    Idea(
        "factorization of a matrix",
        ("svd", "matrixfactorization", "nmf", "lsa", "funksvd"),
        ("mf", "ials", "glove"),
        "of users and items, or of words",
    ),
    Idea("weights of words", ("tfidf", "bagofwords", "bow", "countvectorizer"), ("fasttext-classifier", "mlp")),
    Idea(
        "pairs of texts to match",
        ("dssm", "twotower", "biencoder", "dualencoder", "crossencoder", "colbert", "siamese", "esim"),
        ("embed", "finetune"),
    ),
    Idea(
        "forecasting",
        ("arima", "prophet", "forecast", "timeseries", "tcn", "nbeats", "informer", "holtwinters"),
        ("mlp",),
        "of a table whose rows have their date or earlier values",
    ),
    Idea("detection or segmentation in images", ("unet", "rcnn", "yolo", "detr", "segmentation", "ssd", "detection")),
    Idea("recognition or synthesis of speech", ("whisper", "wavvec", "speech", "audio", "tacotron", "asr", "tts")),
    Idea("joint training of images and texts", ("clip", "blip", "llava", "captioning")),
    Idea("graph networks", ("gcn", "gat", "graphsage", "gnn", "nodevec", "deepwalk")),
    Idea("clustering or reduction of dimensions", ("kmeans", "pca", "tsne", "umap", "cluster", "lda")),
)


def no_system(what: str, name: str, known: Iterable[str]) -> CanonError:
    """The error for a system that does not exist: the nearest idea where its name is that of a known method, else the
    nearest spelling."""
    parts = re.findall("[a-z]+", name.lower())
    letters = "".join(parts)
    for idea in IDEAS:
        if any(word == letters or word in parts or (len(word) > 3 and word in letters) for word in idea.words):
            if not idea.systems:
                return CanonError(f'No {what} "{name}": canon has no {idea.what} yet.')
            more = f" ({idea.more})" if idea.more else ""
            return CanonError(f'No {what} "{name}" ({idea.what}); nearest: {", ".join(idea.systems)}{more}.')
    return unknown(what, name, known)
