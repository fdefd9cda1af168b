"""Word vectors of a run as a network for texts: each word of a text is a row of a table (canon/systems/words/bag.py).

Words are cut as the run has cut its text. Those without a vector are zeros, of which a cosine knows nothing; fastText's
vectors of words that it has not seen are not made.
"""

from __future__ import annotations

import numpy as np
import torch

from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.interop.network import ForeignWeights
from canon.interop.runs import RunSource
from canon.interop.vectors import VectorOptions

# What is on top of it: see canon/systems/contrastive/embed.py.
_ABOVE = {"pooling": ["mean"], "normalize": False}


def word_bag(run: RunSource) -> ForeignWeights:
    file = run.vectors(VectorOptions())
    data = run.recipe.data
    if data.tokenizer not in ("word", "split"):
        raise CanonError(
            f"{run.path} has the vectors of words that {data.tokenizer} has cut, which texts are not: train it on text "
            "with spaces between its words and data.tokenizer = split."
        )
    tokenizer = Tokenizer.of_words(list(file.words), data.tokenizer, bool(data.lowercase))
    row = {word: index for index, word in enumerate(tokenizer.vocabulary)}
    table_VD = np.zeros((tokenizer.size, file.matrix.shape[1]), np.float32)
    table_VD[[row[word] for word in file.words]] = file.matrix
    settings = {"vocab_size": tokenizer.size, "dim": file.matrix.shape[1]}
    weights = {"embedding.weight": torch.from_numpy(table_VD)}
    return ForeignWeights(settings, weights, tokenizer=tokenizer, above=ForeignWeights(dict(_ABOVE), {}))
