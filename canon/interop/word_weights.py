"""Word vectors to start from: of a run or of another tool's file, copied by word to where they belong.

`adopt` starts a system of word vectors from them (train.init), `fill_embeddings` a network's token embeddings
(train.embeddings), and `network_of` makes a run's parts of them.
Shapes: V words, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from canon import registry
from canon.config import Table
from canon.contracts import AdoptsVectors, Arrays
from canon.data.encodings.bags import BagSchema
from canon.data.encodings.word_ids import WordIdSchema
from canon.data.targets import Labels
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop import formats
from canon.interop.runs import ROLES, RunSource
from canon.interop.vectors import VectorFile, VectorOptions, not_finite
from canon.interop.word_list import WordList
from canon.registry import System

if TYPE_CHECKING:
    from torch import Tensor, nn

    from canon.data.text.tokenizers import Tokenizer
    from canon.interop.network import Network

NO_COUNTS = "Its words have no counts there; each counts once here."
_PLAIN = "word2vec"  # the system of vectors that say nothing of how they were learned


def adopt(learner: Any, system: System, words: Words | None, source: str) -> str:
    """Starts a learner that keeps vectors by word from a run or a file; says how many words were known."""
    if not isinstance(learner, AdoptsVectors) or words is None:
        raise CanonError(f"train.init is for networks and word vectors; {system.name} learns in its own way.")
    origin = formats.open_for(system, source, "vectors", "train.init")
    if isinstance(origin, RunSource) and origin.schema.words is not None and origin.system == system.name:
        arrays: Arrays = origin.arrays  # all of it: what the system predicts with and learns from
        earlier = origin.schema.words
    else:
        file = origin.vectors(VectorOptions(WordList.of(words.words)))
        arrays = {"input": _finite(file.matrix, file.words, f"train.init = {source}")}
        earlier = counted_once(file.words)
    try:
        learner.adopt(arrays, earlier)
    except CanonError as mistake:
        raise CanonError(f"train.init = {source}: {str(mistake)[0].lower()}{str(mistake)[1:]}") from None
    known = sum(word in earlier.index for word in words.words)
    if not known:
        raise CanonError(f"train.init: none of the {words.size:,} words of the data has a vector in {source}.")
    return f"Started from {source}: vectors of {known:,} of {words.size:,} words taken, the others newly initialised."


def counted_once(words: Iterable[str]) -> Words:
    """Words of a file that does not say how often each stood in its text."""
    known = list(words)
    return Words(known, np.ones(len(known), np.int64), len(known))


def _finite(rows_VD: np.ndarray, words: Sequence[str], source: str) -> np.ndarray:
    """A copy to be used as weights; a sentence where a vector has NaN or infinite numbers."""
    if len(odd := not_finite(rows_VD)):
        raise CanonError(f'{source}: the vector of "{words[int(odd[0])]}" has NaN or infinite numbers.')
    return np.array(rows_VD, np.float32)


def fill_embeddings(network: nn.Module | None, tokenizers: Mapping[str, Tokenizer], source: str, system: str) -> str:
    """Copies vectors to the rows of the network's token embeddings whose token is a word; says to how many."""
    import torch

    modules = dict(network.named_children()) if network is not None else {}
    places: dict[str, Any] = {name: modules[name] for name in ROLES if name in modules and ROLES[name] in tokenizers}
    if not places:
        raise CanonError(f"train.embeddings is for networks that embed the tokens of a text, which {system} does not.")
    tokens = dict.fromkeys(token for name in places for token in tokenizers[ROLES[name]].vocabulary)
    origin: Any = formats.open(source, "vectors")
    file = origin.vectors(VectorOptions(WordList.of(tokens)))
    filled: dict[int, str] = {}
    for name, module in places.items():
        weight: Tensor = module.weight
        if weight.shape[1] != file.dim:
            raise CanonError(
                f"train.embeddings: {source} has vectors of {file.dim} numbers, but {name} of the network has "
                f"{weight.shape[1]}: set system.dim={file.dim}."
            )
        if id(weight) in filled:  # one table for both sides
            continue
        vocabulary = tokenizers[ROLES[name]].vocabulary
        rows_V = file.words.rows(vocabulary)
        known = np.flatnonzero(rows_V >= 0)
        if not len(known):
            raise CanonError(
                f"train.embeddings: none of the {len(vocabulary):,} tokens of {name} is a word of {source}; "
                "data.tokenizer must be word or split, and data.lowercase as the vectors are."
            )
        with torch.no_grad():
            values = _finite(file.matrix[rows_V[known]], [vocabulary[i] for i in known], source)
            weight[torch.from_numpy(known).to(weight.device)] = torch.from_numpy(values).to(weight)
        filled[id(weight)] = f"{len(known):,} of {len(vocabulary):,} rows of {name}"
    return f"Vectors of {source} taken for {' and '.join(filled.values())}; the others are newly initialised."


def network_of(file: VectorFile) -> Network:
    """A run's parts, made of vectors alone: outputs are zeros, and each word counts once."""
    matrix_VD = np.array(file.matrix, np.float32)
    settings = {"vocab_size": len(matrix_VD), "dim": file.dim}
    arrays = {"input": matrix_VD, "output": np.zeros_like(matrix_VD)}
    network = network_of_parts(file.source, _PLAIN, settings, arrays, counted_once(file.words), ())
    return replace(network, notes=(*file.notes, NO_COUNTS))


def network_of_parts(
    source: str, system: str, settings: Table, arrays: dict[str, np.ndarray], words: Words, labels: tuple[str, ...]
) -> Network:
    import torch

    from canon.interop.network import ForeignWeights, Network

    record = registry.find(system)[0]
    schema = BagSchema(Labels(labels), words=words) if labels else WordIdSchema(words=words)
    tensors = {key: torch.from_numpy(np.ascontiguousarray(array)) for key, array in arrays.items()}
    config, origin = record.configure("", settings), ForeignWeights(settings, tensors)
    return Network(source, record, "", config, tensors, schema, origin)
