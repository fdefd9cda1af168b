"""Batches filled up to shapes that repeat, and steps recorded as CUDA graphs, against the same steps without."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from canon.contracts import IGNORE
from canon.nn.attention import block, multihead
from canon.nn.ragged import FixedLayout, Layout, layout_of
from canon.objectives.classification import cross_entropy
from canon.systems.pretrained.bert import Bert
from canon.systems.pretrained.bert import Config as BertConfig
from canon.systems.sequence.transformer import Config, Transformer
from canon.training.graphs import Filled
from tests.nn.test_attention import flash_by_contract


def test_a_fixed_layout_is_the_layout_and_fillers() -> None:
    layout = FixedLayout(16, 6, 5, "cpu")
    layout.fill(torch.tensor([3, 5, 1]))
    assert layout.offsets.tolist() == [0, 3, 8, 9, 14, 16, 16]  # 7 tokens more: a sequence of 5, one of 2, one of none
    plain = Layout(torch.tensor([3, 5, 1, 5, 2]))
    assert torch.equal(layout.positions, plain.positions) and layout.packing.bound >= 5
    assert torch.equal(layout.starts[:5], plain.starts) and torch.equal(layout.ends[:5], plain.ends)
    layout.fill(torch.tensor([4, 4, 4, 4]))
    assert layout.offsets.tolist() == [0, 4, 8, 12, 16, 16, 16]


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens end to end on a CPU too, by the kernel's contract."""
    monkeypatch.setattr(block, "can_pack", lambda *_: True)
    monkeypatch.setattr(multihead, "is_packed", lambda *_: True)
    monkeypatch.setattr(sys.modules["canon.nn.attention.attend"], "_FLASH", flash_by_contract)


def gradients(network: torch.nn.Module, loss: Tensor) -> list[Tensor]:
    network.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.usefixtures("packed")
def test_a_filled_batch_of_pairs_has_the_same_loss_and_gradients() -> None:
    torch.manual_seed(0)
    network = Transformer(Config(source_vocab=11, target_vocab=13, dim=8, num_layers=1, num_heads=2, hidden=8)).eval()
    source, target = torch.tensor([3, 5, 1]), torch.tensor([2, 4, 3])
    batch = {
        "input": torch.randint(4, 11, (9,)),
        "input_lengths": source,
        "target_input": torch.randint(4, 13, (9,)),
        "target": torch.randint(4, 13, (9,)),
        "target_lengths": target,
    }

    def loss(of: dict[str, Tensor]) -> Tensor:
        logits = network(of["input"], layout_of(of), of["target_input"], layout_of(of, "target"))
        return cross_entropy(logits, of["target"], 0.1, reduction="sum")

    filled = Filled(batch, longest=8)
    assert filled.sequences == 128 and {len(tokens) for tokens in filled.tokens.values()} == {512}
    whole = {**filled.tokens, **{f"{name}_layout": made for name, made in filled.layouts(torch.device("cpu")).items()}}
    torch.testing.assert_close(loss(whole), loss(batch))
    for one, other in zip(gradients(network, loss(whole)), gradients(network, loss(batch)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("packed")
def test_a_filled_batch_of_passages_has_the_same_losses() -> None:
    torch.manual_seed(0)
    network = Bert(BertConfig(vocab_size=31, dim=8, num_layers=1, num_heads=2, hidden=8, max_positions=40)).eval()
    batch = {
        "input": torch.randint(0, 31, (9,)),
        "input_lengths": torch.tensor([3, 5, 1]),
        "segment": torch.randint(0, 2, (9,)),
        "places": torch.tensor([1, 4, 5]),
        "target": torch.tensor([7, 8, 9]),
        "next": torch.tensor([0, 1, 1]),
    }

    def run(of: dict[str, Tensor]) -> dict[str, Tensor]:
        outputs = network(of["input"], layout_of(of), segment_N=of["segment"], places_M=of["places"])
        return {**outputs, **network.token_losses(outputs["hidden"], of["target"])._asdict()}

    filled = Filled(batch, 8, ("next",))
    whole = {**filled.tokens, "input_layout": filled.layouts(torch.device("cpu"))["input"]}
    plain, found = run(batch), run(whole)
    assert whole["next"].tolist()[:4] == [0, 1, 1, IGNORE] and len(whole["next"]) == filled.sequences
    torch.testing.assert_close(found["total"], plain["total"])
    torch.testing.assert_close(found["losses"][:3], plain["losses"])
    assert (found["losses"][3:] == 0).all() and not found["right"][3:].any()
    torch.testing.assert_close(found["next"][:3], plain["next"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs")
def test_recorded_steps_learn_the_same(tmp_path: Path) -> None:
    """The same recipe with and without graphs: bfloat16 losses of 60 steps agree."""
    import json

    from canon.training.trainer import train

    losses = []
    for compile_ in ("auto", "off"):
        changes = {"train.steps": 60, "train.log_every": 10, "train.compile": compile_, "train.evaluate_every": 60}
        run = train("sequence/pronounce", out=tmp_path / compile_, changes=changes, quiet=True)
        lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        losses.append(torch.tensor([line["train/loss"] for line in lines if "train/loss" in line]))
    torch.testing.assert_close(losses[0], losses[1], rtol=0.01, atol=0.01)
