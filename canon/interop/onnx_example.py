"""The program and the README beside a graph that reads texts: plain Python with onnxruntime, tokenizers and numpy."""

from __future__ import annotations

from dataclasses import dataclass

from canon.data.targets import Class, Nothing, Number, Tags, Target

_HEAD = '''"""{about}

python predict.py "some text" "another"{pair}

Needs the packages onnxruntime, tokenizers and numpy.
"""

import json{more}
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = Path(__file__).resolve().parent
session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))  # adds special tokens, cuts and pads
classes = json.loads(session.get_modelmeta().custom_metadata_map["canon.classes"])


def run(texts):
    """The outputs of the graph for texts, or for pairs of texts; and the tokens."""
    tokens = tokenizer.encode_batch(texts)
    grids = {{
        "input_ids": [one.ids for one in tokens],
        "attention_mask": [one.attention_mask for one in tokens],
        "token_type_ids": [one.type_ids for one in tokens],
    }}
    names = [one.name for one in session.get_inputs()]
    return session.run(None, {{name: np.array(grids[name], dtype=np.int64) for name in names}}), tokens

'''
_TEXTS = """

if __name__ == "__main__":
    texts = [tuple(text.split("\\t")) if "\\t" in text else text for text in sys.argv[1:]]
"""
_CLASSES = '''
def predict(texts):
    """The class of each text, and the probability of each class."""
    (logits,), _ = run(texts)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return [classes[row] for row in logits.argmax(axis=1)], powers / powers.sum(axis=1, keepdims=True)
'''
_PRINT_CLASSES = """    for text, name, shares in zip(texts, *predict(texts)):
        print(text, name, f"{shares.max():.4f}", sep="\\t")
"""
_NUMBERS = '''
def predict(texts):
    """A number for each text."""
    (numbers,), _ = run(texts)
    return numbers[:, 0].tolist()
'''
_PRINT_NUMBERS = """    for text, number in zip(texts, predict(texts)):
        print(text, f"{number:.4f}", sep="\\t")
"""
_TAGS = '''
WIDE = "\\u2e80-\\u312f\\u3400-\\u9fff\\uf900-\\ufaff\\uff00-\\uffef"  # Chinese: every character is a word
WORD = re.compile(f"[{WIDE}]|[^\\\\s{WIDE}]+")


def predict(texts):
    """The words of each text with their tags; without those that were cut off."""
    (logits,), tokens = run(texts)
    tagged = []
    for text, token, scores in zip(texts, tokens, logits):
        ends = [end if part == 0 else -1 for (_, end), part in zip(token.offsets, token.sequence_ids)]
        row = []
        for word in WORD.finditer(text):
            # A word's tag is that of its first piece: the first that ends after the word's first character.
            place = next((place for place, end in enumerate(ends) if end > word.start()), None)
            if place is not None:
                row.append((word.group(), classes[scores[place].argmax()]))
        tagged.append(row)
    return tagged
'''
_PRINT_TAGS = """    for row in predict(texts):
        print(" ".join(f"{word}/{tag}" for word, tag in row))
"""
_VECTORS = '''
def encode(texts):
    """The network's own vector of each text [B, D], and the mean of its tokens' last hidden states [B, D]."""
    (hidden, pooled), tokens = run(texts)
    mask = np.array([one.attention_mask for one in tokens])[:, :, None]
    return pooled, (hidden * mask).sum(axis=1) / mask.sum(axis=1)
'''
_PRINT_VECTORS = """    for text, vector in zip(texts, encode(texts)[0]):
        print(text, " ".join(f"{number:.4f}" for number in vector), sep="\\t")
"""


@dataclass(frozen=True)
class Program:
    """What predict.py does with the outputs of a graph."""

    about: str
    body: str
    printing: str
    outputs: str  # of the graph, for the README
    call: str = "predict"  # its function
    more: str = ""  # imports


PROGRAMS: dict[type[Target], Program] = {  # by what the graph predicts
    Class: Program(
        "Predicts the class of texts.",
        _CLASSES,
        _PRINT_CLASSES,
        "`logits` [batch, classes], whose softmax is probabilities. Classes: `canon.classes` in the metadata",
    ),
    Number: Program(
        "Predicts a number for texts.",
        _NUMBERS,
        _PRINT_NUMBERS,
        "`prediction` [batch, 1], in the unit of the data",
    ),
    Tags: Program(
        "Predicts a tag for every word of texts.",
        _TAGS,
        _PRINT_TAGS,
        "`logits` [batch, length, tags], of every token; a word's tag is that of its first piece. Tags: "
        "`canon.classes` in the metadata",
        more="\nimport re",
    ),
    Nothing: Program(
        "Makes vectors of texts.",
        _VECTORS,
        _PRINT_VECTORS,
        "`hidden` [batch, length, dim], the last layer; `pooled` [batch, dim], the network's vector of a text",
        call="encode",
    ),
}


def program(target: type[Target], pair: bool) -> str:
    """predict.py."""
    known = PROGRAMS[target]
    tab = "   (two texts: a tab between them)" if pair else ""
    return _HEAD.format(about=known.about, pair=tab, more=known.more) + known.body + _TEXTS + known.printing


def readme(system: str, target: type[Target], pair: bool, names: list[str], limit: int) -> str:
    texts = 'pairs of texts, as ("first", "second")' if pair else "texts"
    call, outputs = PROGRAMS[target].call, PROGRAMS[target].outputs
    return f"""# {system} as an ONNX graph

| file | is |
| --- | --- |
| model.onnx | the network |
| tokenizer.json | text to numbers, by the package tokenizers: special tokens, cutting and padding are in it |
| predict.py | a program that uses both |

```sh
pip install onnxruntime tokenizers numpy
python predict.py "some text"
```

In Python: `from predict import {call}`, then `{call}([…])` with a list of {texts}.

Inputs: {", ".join(f"`{name}`" for name in names)}, int64 [batch, length]; any batch, at most {limit} tokens.
Outputs: {outputs}.
"""
