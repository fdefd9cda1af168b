"""The settings of [data] that all data has, and those that several kinds or encodings share.

A kind and an encoding each have a class of their own settings, made from these; canon/data/config.py puts all of them
together. `layout` marks what describes one file and does not go with another (`--data PATH` drops it).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from canon.config import settings

Share = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[int, Field(gt=0, le=1 << 20)]  # of a window or a passage: no network takes more
Seed = Annotated[int, Field(ge=0, lt=1 << 64)]
Count = Annotated[int, Field(ge=0, le=1 << 40)]  # of examples
# Of a column, or its number from 1.
Name = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]


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
    encoding: str = Field(
        default="",
        description="of text files; default: UTF-8, else UTF-16 or an older one that a file's first bytes fit",
    )
    limit: Count = Field(default=0, description="use only so many training examples; 0 all")


@settings
class Delimited(Common):
    delimiter: str = layout("", "column separator of a text table, \\t for a tab; default: by the file's first lines")


@settings
class Columns(Delimited):
    """Settings of tables."""

    label: Name = layout("", "column to predict, by name or number; default: label, target, class or y, else the last")
    features: tuple[Name, ...] = layout((), "columns to predict from, or of text; default: all but the label")


@settings
class Folds(Common):
    """Settings of data that is published in folds."""

    fold: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None,
        description="of files train_0, train_1 …, dev_0, dev_1 … or folders Fold1, Fold2 …: which; default: of a named "
        "set 0, of folders 1",
    )


@settings
class Vocabulary(Common):
    """Settings of everything that cuts text into tokens or words."""

    tokenizer: str = Field(
        default="",
        description="word, char, bpe, wordpiece, unigram, byte-bpe, split (at spaces) or jieba, or a tokenizer.json; "
        "for pre-training also a folder of a network or a run; default: the set's own, else bpe; for words and bags "
        "of words jieba where the text is Chinese, else word",
    )
    vocab_size: Annotated[int, Field(ge=0, le=1 << 28)] = Field(
        default=0, description="most tokens; 0: all words, or 8000 pieces"
    )
    min_count: Count = Field(
        default=0,
        description="rarer words and characters are <unk>; 0: 1, and for word vectors 1 to 10 by the text's size",
    )
    lowercase: bool | None = Field(
        default=None, description="text to lower case; default: for word vectors and bags of words alone"
    )


@settings
class Length(Common):
    max_length: Size = Field(
        default=256, description="tokens of a passage to pre-train on; longer training pairs are left out"
    )


Missing = Literal["error", "mean"]
