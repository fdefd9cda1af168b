"""Word vectors to start from: of a run or of another tool's file, copied by word to wherever they belong.

`read_vectors` is the one door to both. A run gives the vectors that its system means to be used, or the rows of its
network's token embedding where that has words (nnlm, rnn-lm …). `adopt` starts a system of word vectors from them
(train.init), `fill_embeddings` a network's token embeddings (train.embeddings).
Shapes: V words, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from canon import recipe as recipes
from canon.contracts import AdoptsVectors, Context, KeepsVectors
from canon.data.schema import Schema
from canon.data.text.words import Words
from canon.errors import CanonError
from canon.interop import vectors
from canon.interop.vectors import VectorFile
from canon.interop.weights import read_tensors
from canon.interop.word_list import WordList

if TYPE_CHECKING:
    from canon.data.text.tokenizers import Tokenizer

# The tokeniser whose tokens are the rows of an embedding, by the embedding's name in the network.
ROLES = {"embedding": "text", "source_embedding": "source", "target_embedding": "target"}


def is_run(source: str | Path) -> bool:
    return (Path(source).expanduser() / "recipe.toml").is_file()


def read_vectors(
    source: str | Path,
    *,
    words: Iterable[str] | None = None,
    limit: int = 0,
    dtype: str = "float32",
    errors: str = "strict",
    partial: bool = False,
) -> VectorFile:
    """The word vectors of a run, or of a file; the options are those of canon.interop.vectors.read."""
    if not is_run(source):
        if needed := recipes.recipe_of(str(source)):
            raise CanonError(f"There is no run {source} yet; make it with: canon train {needed}")
        if not Path(source).expanduser().exists():
            raise CanonError(f"There is no run or file {source}.")
        return vectors.read(source, words=words, limit=limit, dtype=dtype, errors=errors, partial=partial)
    wanted = None if words is None else WordList.of(words)
    options = vectors.Options(wanted, limit, dtype, errors, partial)
    return vectors.chosen(_of_run(Path(source).expanduser()), options)


def _of_run(path: Path) -> VectorFile:
    recipe = recipes.load(str(path / "recipe.toml"))
    schema = Schema.open(path / "vocab")
    if not any((path / link / "model.safetensors").is_file() for link in ("best", "last")):
        raise CanonError(f"{path} has no checkpoint yet: train it first.")
    tensors = read_tensors(str(path))
    _, cls = recipe.system.load()
    if schema.words is not None and issubclass(cls, KeepsVectors):
        learner: Any = cls(recipe.config, Context(schema=schema))  # type: ignore[call-arg]
        learner.restore({"model": tensors}, {})
        words = WordList.of(schema.words.words)
        return VectorFile(str(path), recipe.system.name, words, learner.vectors(), subwords=learner.vector)
    for name, role in ROLES.items():
        if f"{name}.weight" in tensors and role in schema.tokenizers:
            return VectorFile(
                str(path),
                recipe.system.name,
                WordList.of(schema.tokenizers[role].vocabulary),
                tensors[f"{name}.weight"].float().numpy(),
            )
    raise CanonError(f"{path} is a run of {recipe.system.name}, which has no word vectors.")


def words_of(source: str | Path) -> Words | None:
    """The words of a run, which stay when it goes on with other text; a file's need not."""
    if not is_run(source):
        return None
    return Schema.open(Path(source).expanduser() / "vocab").words


def adopt(learner: Any, system: str, words: Words | None, source: str) -> str:
    """Starts a learner that keeps vectors by word from a run or a file; says how many words were known."""
    if not isinstance(learner, AdoptsVectors) or words is None:
        raise CanonError(f"train.init is for networks; {system} learns in its own way.")
    earlier = words_of(source)
    path = Path(source).expanduser()
    if earlier is not None and recipes.load(str(path / "recipe.toml")).system.name == system:
        tensors: dict[str, Tensor] = read_tensors(source)  # all of it: what the system predicts with and learns from
    else:
        found = read_vectors(source, words=words.words)
        matrix = _finite(np.array(found.matrix, np.float32), found.words, f"train.init = {source}")
        tensors = {"input": torch.from_numpy(matrix)}
        earlier = Words(list(found.words), np.ones(len(matrix), np.int64), len(matrix))
    try:
        learner.adopt(tensors, earlier)
    except CanonError as mistake:
        raise CanonError(f"train.init = {source}: {str(mistake)[0].lower()}{str(mistake)[1:]}") from None
    known = sum(word in earlier.index for word in words.words)
    if not known:
        raise CanonError(f"train.init: none of the {words.size:,} words of the data has a vector in {source}.")
    return f"Started from {source}: vectors of {known:,} of {words.size:,} words taken, the others made anew."


def _finite(rows_VD: np.ndarray, words: Sequence[str], source: str) -> np.ndarray:
    """Vectors that are to be weights; a sentence where one has NaN or infinite numbers."""
    if len(odd := vectors.not_finite(rows_VD)):
        raise CanonError(f'{source}: the vector of "{words[int(odd[0])]}" has NaN or infinite numbers.')
    return rows_VD


def fill_embeddings(network: nn.Module | None, tokenizers: Mapping[str, Tokenizer], source: str, system: str) -> str:
    """Copies vectors to the rows of the network's token embeddings whose token is a word; says how many were found."""
    modules = {name: getattr(network, name, None) for name in ROLES}
    places = {name: module for name, module in modules.items() if module is not None and ROLES[name] in tokenizers}
    if not places:
        raise CanonError(f"train.embeddings is for networks that embed the tokens of a text, which {system} does not.")
    tokens = dict.fromkeys(token for name in places for token in tokenizers[ROLES[name]].vocabulary)
    found = read_vectors(source, words=tokens)
    told = []
    filled: set[int] = set()
    for name, module in places.items():
        weight: Tensor = module.weight
        if weight.shape[1] != found.dim:
            raise CanonError(
                f"train.embeddings: {source} has vectors of {found.dim} numbers, but {name} of the network has "
                f"{weight.shape[1]}: set system.dim={found.dim}."
            )
        if id(weight) in filled:  # one table for both sides
            continue
        filled.add(id(weight))
        vocabulary = tokenizers[ROLES[name]].vocabulary
        rows_V = found.words.rows(vocabulary)
        known = np.flatnonzero(rows_V >= 0)
        if not len(known):
            raise CanonError(
                f"train.embeddings: none of the {len(vocabulary):,} tokens of {name} is a word of {source}; "
                "data.tokenizer must be word or split, and data.lowercase as the vectors are."
            )
        with torch.no_grad():
            values = _finite(
                np.asarray(found.matrix[rows_V[known]], np.float32), [vocabulary[i] for i in known], source
            )
            weight[torch.from_numpy(known).to(weight.device)] = torch.from_numpy(values).to(weight)
        told.append(f"{len(known):,} of {len(vocabulary):,} rows of {name}")
    return f"Vectors of {source} taken for {' and '.join(told)}; the others begin anew."
