"""What a run starts from beside its seed: weights (train.init) and word vectors (train.embeddings) made elsewhere."""

from __future__ import annotations

from canon.config import StartsFromPrompt
from canon.contracts import Borrows, Learner, NetworkLearner
from canon.data.schema import Schema
from canon.recipe import Recipe


def start_from_elsewhere(learner: Learner, recipe: Recipe, schema: Schema) -> str:
    """Takes what was learned elsewhere for whatever part of the network it fits; says which, or "" for nothing."""
    if not recipe.train.init and not recipe.train.embeddings:
        return ""
    from canon.interop.word_weights import adopt, fill_embeddings

    network = learner.network if isinstance(learner, NetworkLearner) else None
    borrower = network if network is not None else learner
    notes = []
    if isinstance(borrower, Borrows) and borrower.borrows:  # it has the weights already
        notes.append(f"On {recipe.train.init}, which stays as it is and is not saved again.")
        if network is not None and isinstance(recipe.config, StartsFromPrompt) and recipe.config.start:
            from canon.interop.prompt_folder import start_prompt

            notes.append(start_prompt(network, recipe, schema))
    elif recipe.train.init and network is not None:
        from canon.interop.backbones import take_backbone
        from canon.interop.weights import start_network

        on_backbone = recipe.system.backbone
        notes.append(take_backbone(network, recipe) if on_backbone else start_network(network, recipe, schema))
    elif recipe.train.init:
        notes.append(adopt(learner, recipe.system, schema.words, recipe.train.init))
    if recipe.train.embeddings:
        notes.append(fill_embeddings(network, schema.tokenizers, recipe.train.embeddings, recipe.system.name))
    return " ".join(notes)
