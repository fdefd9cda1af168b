"""The tokens that a prompt's trained vectors are nearest to, or those that were searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from canon.data.encodings.prompted import PromptedSchema
from canon.errors import CanonError
from canon.systems.prompts.hard_prompt import HardPrompt
from canon.systems.prompts.prompt import Prompt
from canon.use.model import Model, load

_NEAREST = 5


def nearest(run: str | Path | Model, top: int = _NEAREST) -> list[dict[str, Any]]:
    """One row for each soft token or trigger of a run: its place, and the nearest tokens by cosine of embeddings.

    A trigger is a token itself, with the cosine 1; label words that were searched follow, by class.
    """
    model = run if isinstance(run, Model) else load(run)
    schema, learner = model.schema, model.learner
    network = learner.network if isinstance(learner, HardPrompt) else model.network
    if not isinstance(schema, PromptedSchema):
        raise CanonError(f"{model.run.path} is not a run of prompts, so it has no prompt to look into.")
    tokenizer = schema.tokenizers["text"]
    rows: list[dict[str, Any]] = []
    if isinstance(network, Prompt) and network.soft is not None:
        with torch.no_grad():
            embedding_VD = F.normalize(network.backbone.embedding.token.weight[: tokenizer.size])
            cosine_KV = F.normalize(network.soft.vectors()) @ embedding_VD.T
            cosine_KN, token_KN = cosine_KV.topk(min(top, tokenizer.size))
        for place, (cosines, ids) in enumerate(zip(cosine_KN.tolist(), token_KN.tolist(), strict=True), start=1):
            names = tokenizer.tokens(ids)
            near = [{"token": name, "cosine": cosine} for name, cosine in zip(names, cosines, strict=True)]
            rows.append({"piece": f"soft {place}", "nearest": near})
    if isinstance(learner, HardPrompt):
        for place, name in enumerate(tokenizer.tokens(network.trigger_K.cpu().numpy()), start=1):
            rows.append({"piece": f"trigger {place}", "nearest": [{"token": name, "cosine": 1.0}]})
        for label, ids in zip(schema.classes, learner.found_CW.tolist(), strict=True):
            near = [{"token": name, "cosine": 1.0} for name in tokenizer.tokens(ids)]
            rows += [{"piece": f"words of {label}", "nearest": near}] if near else []
    return rows
