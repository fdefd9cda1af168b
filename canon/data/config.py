"""The [data] section of a recipe: where examples come from and how a file is read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from canon.config import settings

Share = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[int, Field(gt=0, le=1 << 20)]  # of a window or a passage: more fits no network
Seed = Annotated[int, Field(ge=0, lt=1 << 64)]
Count = Annotated[int, Field(ge=0, le=1 << 40)]  # of examples


@settings
class DataConfig:
    source: str = Field(default="", description="a named set (canon list datasets), or a file or folder")
    format: Literal["auto", "table", "images", "idx", "cifar", "text", "pairs", "conll", "squad"] = Field(
        default="auto", description="kind of file; auto looks at names and contents"
    )
    label: str = Field(default="", description="column to predict; default: label, target, class or y, else the last")
    label_separator: str = Field(default="", description="parts several labels in a cell of a table, as in ;")
    features: tuple[str, ...] = Field(default=(), description="columns to predict from; default: all but the label")
    valid: Share | str = Field(default=0.1, description="share of the training examples held out, or a file")
    test: Share | str = Field(
        default="",
        description="the same for the test set; default: the source's own, else a tenth (built-in sets: a fifth)",
    )
    seed: Seed = Field(default=0, description="decides the split, apart from train.seed")
    missing: Literal["error", "mean"] = Field(default="error", description="what to do with an empty number")
    delimiter: str = Field(default="", description="column separator of a text table; default: by the file's ending")
    encoding: str = Field(default="utf-8", description="of text files")
    size: tuple[Annotated[int, Field(gt=0, le=1 << 14)], ...] = Field(
        default=(), description="height, width of images in a folder"
    )
    channels: Literal[0, 1, 3] = Field(default=0, description="1 grey, 3 colour, 0 as the first image is")
    augment: tuple[str, ...] = Field(default=(), description="changes to training images, in this order (docs/data.md)")
    languages: tuple[str, ...] = Field(default=(), description="endings of two parallel files: from, to (en, de)")
    tokenizer: str = Field(
        default="",
        description="word, char, bpe, wordpiece, unigram, byte-bpe, split (at spaces) or jieba, or a tokenizer.json; "
        "for pre-training also a folder of a network or a run; default: the set's own, else bpe",
    )
    segmenter: Literal["", "jieba"] = Field(
        default="", description="what finds the words of Chinese text, for masking whole ones"
    )
    phrases: str = Field(default="", description="a file of phrases, one a line, for masking whole ones")
    target_tokenizer: str = Field(default="", description="of the target; default: one vocabulary for both sides")
    vocab_size: Annotated[int, Field(ge=0, le=1 << 28)] = Field(
        default=0, description="most tokens; 0: all words, or 8000 pieces"
    )
    min_count: Annotated[Count, Field(gt=0)] = Field(default=1, description="rarer words and characters are <unk>")
    lowercase: bool = Field(default=False, description="text to lower case")
    max_length: Size = Field(
        default=256, description="tokens of a passage to pre-train on; longer training pairs are left out"
    )
    window: Size = Field(default=35, description="tokens of a running text read at a time")
    tests: tuple[str, ...] = Field(
        default=(),
        description="of word vectors: files of word pairs with a number, or of analogies, or wordsim353, simlex999, "
        "questions-words, CA8/morphological, CA8/semantic",
    )
    limit: Count = Field(default=0, description="use only so many training examples; 0 all")
