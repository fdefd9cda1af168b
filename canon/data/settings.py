"""The settings of [data] that all data has, and those that several kinds or encodings share.

A kind and an encoding each have a class of their own settings, made from these; canon/data/config.py puts all of them
together. `layout` marks what describes one file and does not go with another (`--data PATH` drops it).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from canon.config import settings

Share = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[int, Field(gt=0, le=1 << 20)]  # of a window or a passage: more fits no network
Seed = Annotated[int, Field(ge=0, lt=1 << 64)]
Count = Annotated[int, Field(ge=0, le=1 << 40)]  # of examples


def layout(default: Any, description: str) -> Any:
    return Field(default=default, description=description, json_schema_extra={"layout": True})


@settings
class Common:
    source: str = layout("", "a named set (canon list datasets), or a file or folder")
    format: str = layout("auto", "kind of file; auto looks at names and contents")
    valid: Share | str = Field(default=0.1, description="share of the training examples held out, or a file")
    test: Share | str = Field(
        default="",
        description="the same for the test set; default: the source's own, else a tenth (built-in sets: a fifth)",
    )
    seed: Seed = Field(default=0, description="decides the split, apart from train.seed")
    encoding: str = Field(default="utf-8", description="of text files")
    limit: Count = Field(default=0, description="use only so many training examples; 0 all")


@settings
class Columns(Common):
    """Of tables."""

    label: str = layout("", "column to predict; default: label, target, class or y, else the last")
    features: tuple[str, ...] = layout((), "columns to predict from, or of text; default: all but the label")
    delimiter: str = layout("", "column separator of a text table; default: by the file's ending")


@settings
class Vocabulary(Common):
    """Of whatever cuts text into tokens or words."""

    tokenizer: str = Field(
        default="",
        description="word, char, bpe, wordpiece, unigram, byte-bpe, split (at spaces) or jieba, or a tokenizer.json; "
        "for pre-training also a folder of a network or a run; default: the set's own, else bpe",
    )
    vocab_size: Annotated[int, Field(ge=0, le=1 << 28)] = Field(
        default=0, description="most tokens; 0: all words, or 8000 pieces"
    )
    min_count: Annotated[Count, Field(gt=0)] = Field(default=1, description="rarer words and characters are <unk>")
    lowercase: bool = Field(default=False, description="text to lower case")


@settings
class Length(Common):
    max_length: Size = Field(
        default=256, description="tokens of a passage to pre-train on; longer training pairs are left out"
    )


Missing = Literal["error", "mean"]
