"""Text from a trained language model: what it goes on with after a prompt.

A prompt begins where a line or document begins, so <eos>, which ends the one before it, is read first. <eos> in what
follows is told as a line's end, and the text goes on behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from canon.data.tokenizers import Tokenizer
from canon.data.vocabularies import EOS
from canon.errors import CanonError
from canon.nn.decoding import begin_text, greedy, sample
from canon.use.model import Model

_AT_ONCE = 64  # texts that are drawn together


@dataclass(frozen=True)
class Completion:
    prompt: str
    text: str  # the prompt and what follows it
    log_probability: float  # of what follows, under the model itself


def complete(
    model: Model,
    prompt: str = "",
    length: int = 100,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    count: int = 1,
    seed: int = 0,
) -> list[Completion]:
    """`count` texts of `length` more tokens; temperature 0 takes the likeliest token each time."""
    system = model.run.recipe.system
    if model.schema.target != "next":
        raise CanonError(f"{model.run.path} is a run of {system.name}, which is no language model.")
    if system.loop != "gradient":
        raise CanonError(f"{model.run.path} is a run of {system.name}, which measures text (canon predict), no more.")
    if length < 1 or count < 1:
        raise CanonError(f"length and count must be positive whole numbers, got {length} and {count}.")
    network, tokenizer = model.network.eval(), model.schema.tokenizers["text"]
    device = next(network.parameters()).device
    ids, _ = tokenizer.encode([prompt])
    read = torch.from_numpy(np.concatenate([[EOS], ids])).long().to(device)
    generator = torch.Generator().manual_seed(seed)
    found: list[Completion] = []
    for start in range(0, count, _AT_ONCE):
        rows = min(_AT_ONCE, count - start)
        begun = begin_text(network, read.expand(rows, -1).contiguous(), length, eos=-1)
        if temperature == 0:
            decoded = greedy(network.step, begun)
        else:
            decoded = sample(network.step, begun, temperature, top_k, top_p, generator)
        for row in range(rows):
            text = _text(tokenizer, torch.cat((read[1:].cpu(), decoded.tokens[row, 0])))
            found.append(Completion(prompt, text, decoded.log_probabilities[row, 0].item()))
    return found


def _text(tokenizer: Tokenizer, ids: Tensor) -> str:
    """Ids as text, with a line's end for <eos>."""
    ends = [-1, *np.flatnonzero(ids.numpy() == EOS).tolist(), len(ids)]
    return "\n".join(tokenizer.decode_batch([ids[one + 1 : other].numpy() for one, other in pairwise(ends)]))
