"""Texts to vectors: a run of `embed`, a folder of sentence-transformers, any pre-trained network with a pooling, or
word vectors, whose mean a text is.

Texts of a chunk go through the network end to end, without padding, texts of similar length together; a vector depends
on its text alone, up to the rounding of sums. Shapes: n texts, D features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from canon import registry
from canon.data.encodings.framing_rows import encode_texts
from canon.data.encodings.texts import SentenceSchema
from canon.data.formats.rows import TextRows
from canon.data.targets import Match
from canon.errors import CanonError, unknown
from canon.interop import backbones, formats
from canon.interop.formats import GivesWeights
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from canon.nn.sentence_pooling import HAVE_MLP, POOLINGS
from canon.recipe import recipe_of
from canon.systems.building import build
from canon.systems.contrastive.embed import Config, Embed
from canon.use.folders import open_run

_TOKENS = 4096  # that go through the network together on a CPU: more leave its caches
_CUDA_TOKENS = 131_072
_LENGTH = 512  # tokens of a text, where no run says
_HAS_LAYER = HAVE_MLP[0]  # the pooling with a layer that only embed trains; cls-mlp-train has it in training alone


class TextVectors(NamedTuple):
    vectors: np.ndarray  # float32 [n, D]; of length 1 where they are compared by cosine
    truncated: int  # texts that were too long
    empty: int


class Encoder:
    def __init__(self, network: Embed, schema: SentenceSchema, source: str) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network, self.schema, self.source = network.to(self.device).eval(), schema, source
        self.config: Config = network.config
        self.dim = network.dim

    @classmethod
    def open(cls, source: str | Path, pooling: Sequence[str] = ()) -> Encoder:
        """pooling: of a network that does not say how it pools; of one that does, none."""
        for way in pooling:
            if way not in POOLINGS:
                raise unknown("pooling", way, POOLINGS)
        if not Path(source).expanduser().exists() and not recipe_of(str(source)):
            raise CanonError(
                f"There is no run or folder {source}, and canon downloads no networks: give the folder of one, as "
                "sentence-transformers or transformers saves it."
            )
        origin = formats.open(source, "weights")
        if not isinstance(origin, GivesWeights):
            raise CanonError(f"{origin}, which has no network for texts.")
        if (
            isinstance(origin.system, str)
            and origin.system
            and issubclass(registry.find(origin.system)[0].load()[1], Embed)
        ):
            if pooling:
                raise CanonError(f"{source} pools in its own way: leave --pooling out.")
            from canon.use.model import Model

            model = Model(open_run(source))
            assert isinstance(model.schema, SentenceSchema)
            return cls(model.network, model.schema, str(source))
        system, weights = backbones.find(str(source))
        pooling = tuple(pooling or backbones.pooled_as(weights).get("pooling", ()))
        if not pooling:
            raise CanonError(
                f"{source} does not say how a text's tokens become one vector: add --pooling mean, or cls, last and "
                "the like."
            )
        if weights.tokenizer is None:
            raise CanonError(f"{source} has no tokenizer, without which its network cannot read a text.")
        if _HAS_LAYER in pooling:
            raise CanonError(
                f"--pooling {_HAS_LAYER} has a layer that {source} was not trained with: take cls, or train embed with "
                f"system.pooling = {_HAS_LAYER}."
            )
        record, _ = registry.find("embed")
        rows = weights.settings["vocab_size"]
        settings = {"backbone": system, "settings": weights.settings, "vocab_size": rows, "pooling": list(pooling)}
        network: Embed = build(record, record.configure("", settings))
        state = network.state_dict()
        lost = [name for name in state if name.removeprefix("backbone.") not in weights.tensors]
        if lost := [name for name in lost if name.startswith("backbone.")]:
            raise CanonError(f"{source} has no {', '.join(lost[:3])}.")
        with torch.no_grad():
            for name, tensor in state.items():
                if name.startswith("backbone."):
                    tensor.copy_(weights.tensors[name.removeprefix("backbone.")])
        limit = min(filter(None, (network.backbone.limit, _LENGTH)))
        tokenizers = {"text": weights.tokenizer}
        schema = SentenceSchema(Match(), tokenizers=tokenizers, framing=network.backbone.framing, limit=limit)
        return cls(network, schema, str(source))

    @property
    def digest(self) -> str:
        """Of everything that decides a vector: weights, what is computed with them, vocabulary and the longest text."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        config = {key: value for key, value in vars(self.config).items() if key not in ("vocab_size", "num_classes")}
        config["settings"] = {key: value for key, value in config["settings"].items() if "dropout" not in key}
        how = {**config, "limit": self.schema.limit, "framing": self.schema.framing}
        digest.update(json.dumps(how, sort_keys=True).encode())
        digest.update(self.schema.tokenizers["text"].to_json().encode())
        return digest.hexdigest()

    def prompt(self, name: str) -> str:
        """The text that is put before others; "" for the one that the model always takes."""
        name = name or self.config.prompt
        if name and name not in self.config.prompts:
            raise (
                unknown("prompt", name, self.config.prompts)
                if self.config.prompts
                else CanonError(f"{self.source} has no prompts: leave --prompt out.")
            )
        return self.config.prompts[name] if name else ""

    def encode(self, texts: Sequence[str], prompt: str = "") -> TextVectors:
        """Vectors in the order of the texts."""
        empty = sum(not text.strip() for text in texts)
        rows = TextRows(
            "the texts", lambda row: f"row {row + 1}", [prompt + text for text in texts] if prompt else texts
        )
        framed, truncated = encode_texts(self.schema.tokenizers["text"], self.schema, rows)
        vectors_nD = np.empty((len(texts), self.dim), dtype=np.float32)
        order = np.argsort(framed.lengths_S, kind="stable")
        on_cuda = self.device.type == "cuda"
        lower = torch.autocast(self.device.type, torch.bfloat16, enabled=on_cuda)
        with torch.no_grad(), frozen(self.network), lower:
            for some in _batches(order, framed.lengths_S, _CUDA_TOKENS if on_cuda else _TOKENS):
                part = framed.take(some)
                token_N = torch.from_numpy(part.tokens_N.astype(np.int64)).to(self.device)
                segment_N = torch.from_numpy(part.segments_N.astype(np.int64)).to(self.device)
                layout = Layout(torch.from_numpy(part.lengths_S), self.device)
                vectors_SD = self.network(token_N, layout, segment_N).float()
                if self.config.similarity == "cosine" and not self.config.normalize:
                    vectors_SD = F.normalize(vectors_SD, dim=1)
                vectors_nD[some] = vectors_SD.cpu().numpy()
        return TextVectors(vectors_nD, truncated, empty)


def _batches(order: np.ndarray, lengths_n: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Texts in this order, as many together as have so many tokens; at least one."""
    start, total = 0, 0
    for place, row in enumerate(order.tolist()):
        length = int(lengths_n[row])
        if total and total + length > tokens:
            yield order[start:place]
            start, total = place, 0
        total += length
    if start < len(order):
        yield order[start:]


def as_plain(config: Any) -> dict[str, Any]:
    """What a folder of vectors says of its model."""
    return {"pooling": list(config.pooling), "normalize": config.normalize, "similarity": config.similarity}
