"""BERT, RoBERTa, GPT and GPT-2 beside transformers' own, from random weights of odd sizes, in float32.

Theirs read padded batches with a mask, canon's the same tokens end to end (tests/parity/pretrained.py).
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from canon.interop.huggingface import FAMILIES
from tests.parity.compare import assert_close
from tests.parity.pretrained import CASES, SIZES, Batch, assert_same_gradients, our_network, their_network

CLOSE = 1e-5  # of the largest number


def segments_of(system: str, batch: Batch) -> dict[str, torch.Tensor]:
    return {"token_type_ids": batch.segment_BL} if system == "bert" else {}


@pytest.mark.parametrize(("system", "index"), CASES)
def test_hidden_states_and_logits(system: str, index: int) -> None:
    """Embeddings, every layer's output, logits of all tokens; of BERT the pooled vector and the next sentence too."""
    theirs = their_network(system, index)
    ours = our_network(system, theirs)
    batch = Batch.of(SIZES[system][index]["vocab_size"], theirs.config.pad_token_id or 0)
    segment_N = batch.segment_N if system == "bert" else None
    more = segments_of(system, batch)
    with torch.no_grad():
        wanted = theirs(batch.token_BL, attention_mask=batch.mask_BL.long(), output_hidden_states=True, **more)
        states = ours.encode(batch.token_N, batch.layout, segment_N)
        actual = ours(batch.token_N, batch.layout, segment_N=segment_N)
        logits_MV = ours.logits(actual["hidden"])
    assert len(states) == len(wanted.hidden_states) == theirs.config.num_hidden_layers + 1
    for i, (mine, other) in enumerate(zip(states, wanted.hidden_states, strict=True)):
        assert_close(mine, batch.layout.unpad(other), CLOSE, f"state {i}")
    if system == "bert":
        assert_close(logits_MV, batch.layout.unpad(wanted.prediction_logits), CLOSE, "logits")
        assert_close(actual["next"], wanted.seq_relationship_logits, CLOSE, "next")
        pooled = theirs.bert(batch.token_BL, attention_mask=batch.mask_BL.long(), **more).pooler_output
        assert_close(ours.pool(states[-1], batch.layout), pooled.detach(), CLOSE, "pooled")
    else:
        assert_close(logits_MV, batch.layout.unpad(wanted.logits), CLOSE, "logits")


@pytest.mark.parametrize(("system", "index"), CASES)
def test_gradients(system: str, index: int) -> None:
    """Of every weight: canon's chunked loss at some places against cross-entropy of their logits there."""
    theirs = their_network(system, index)
    ours = our_network(system, theirs)
    batch = Batch.of(SIZES[system][index]["vocab_size"], theirs.config.pad_token_id or 0)
    places_M = torch.tensor([0, 3, 5, 8, 11, 17])
    target_M = torch.randint(SIZES[system][index]["vocab_size"], (6,))
    segment_N = batch.segment_N if system == "bert" else None
    actual = ours(batch.token_N, batch.layout, segment_N=segment_N, places_M=places_M)
    mine, losses_M, right_M = ours.token_losses(actual["hidden"], target_M)
    wanted = theirs(batch.token_BL, attention_mask=batch.mask_BL.long(), **segments_of(system, batch))
    logits_BLV = wanted.prediction_logits if system == "bert" else wanted.logits
    logits_MV = batch.layout.unpad(logits_BLV)[places_M]
    loss = functional.cross_entropy(logits_MV, target_M, reduction="sum")
    assert_close(losses_M, functional.cross_entropy(logits_MV, target_M, reduction="none"), CLOSE, "losses")
    assert torch.equal(right_M, logits_MV.argmax(1) == target_M)
    assert_close(mine.detach(), loss.detach(), CLOSE, "loss")
    if system == "bert":
        next_B = torch.tensor([0, 1, 1, 0])
        mine = mine + functional.cross_entropy(actual["next"], next_B, reduction="sum")
        loss = loss + functional.cross_entropy(wanted.seq_relationship_logits, next_B, reduction="sum")
    mine.backward()
    loss.backward()
    settings = FAMILIES[system].config_from(theirs.config.to_dict()) | {"next_sentence": True}
    assert_same_gradients(system, ours, theirs, settings, CLOSE)
