"""What a run starts from beside its seed: weights (train.init) and word vectors (train.embeddings) made elsewhere."""

from __future__ import annotations

from canon.contracts import Learner
from canon.data.encodings.framed import FramedSchema
from canon.data.schema import Schema
from canon.interop import huggingface
from canon.interop.weights import read_tensors, start_from
from canon.recipe import Recipe
from canon.training.gradient import Gradient


def start_from_elsewhere(learner: Learner, recipe: Recipe, schema: Schema) -> str:
    """Takes what was learned elsewhere for whatever part of the network it fits; says which, or "" for nothing."""
    weights, embeddings = recipe.train.init, recipe.train.embeddings
    notes: list[str] = []
    if isinstance(learner, Gradient) and weights and isinstance(schema, FramedSchema):
        from canon.interop.backbones import take_backbone

        notes.append(take_backbone(learner.network, weights))
    elif isinstance(learner, Gradient) and weights:
        if huggingface.is_folder(weights):
            tokenizer = schema.tokenizers.get("text")
            tensors, remarks = huggingface.tensors_to_start_from(weights, recipe.config, tokenizer)
            notes += remarks
        else:
            tensors = read_tensors(weights)
        taken, others = start_from(learner.network, tensors, weights)
        rest = f"; made anew: {', '.join(others)}" if others else ""
        notes.append(f"Started from {weights}: {len(taken)} tensors taken{rest}.")
    elif weights:
        from canon.interop.word_weights import adopt

        notes.append(adopt(learner, recipe.system.name, schema.words, weights))
    if embeddings:
        from canon.interop.word_weights import fill_embeddings

        network = learner.network if isinstance(learner, Gradient) else None
        notes.append(fill_embeddings(network, schema.tokenizers, embeddings, recipe.system.name))
    return " ".join(notes)
