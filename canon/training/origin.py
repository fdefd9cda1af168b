"""What a run starts from beside its seed: weights (train.init) and word vectors (train.embeddings) made elsewhere."""

from __future__ import annotations

from canon.contracts import Learner
from canon.data.encodings.framed import FramedSchema
from canon.data.schema import Schema
from canon.recipe import Recipe
from canon.training.gradient import Gradient


def start_from_elsewhere(learner: Learner, recipe: Recipe, schema: Schema) -> str:
    """Takes what was learned elsewhere for whatever part of the network it fits; says which, or "" for nothing."""
    if not recipe.train.init and not recipe.train.embeddings:
        return ""
    from canon.interop.backbones import take_backbone
    from canon.interop.weights import start_network
    from canon.interop.word_weights import adopt, fill_embeddings

    network = learner.network if isinstance(learner, Gradient) else None
    notes = []
    if recipe.train.init and network is not None:
        start = take_backbone if isinstance(schema, FramedSchema) else start_network
        notes.append(start(network, recipe, schema))
    elif recipe.train.init:
        notes.append(adopt(learner, recipe.system, schema.words, recipe.train.init))
    if recipe.train.embeddings:
        notes.append(fill_embeddings(network, schema.tokenizers, recipe.train.embeddings, recipe.system.name))
    return " ".join(notes)
