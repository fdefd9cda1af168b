"""Batches filled up to shapes that repeat, and steps recorded as CUDA graphs, against the same steps without."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from canon.contracts import IGNORE
from canon.nn.attention import block
from canon.nn.ragged import FixedLayout, Layout, layout_of
from canon.objectives.classification import cross_entropy
from canon.systems.pretrained.bert import Bert
from canon.systems.pretrained.bert import Config as BertConfig
from canon.systems.sequence.transformer import Config, Transformer
from canon.training.graphs import Graphs, Recorded, Size, plan
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


def batch_of(lengths: Tensor, share: float = 0.15) -> dict[str, Tensor]:
    tokens = int(lengths.sum())
    places = torch.arange(int(tokens * share))
    more = {"segment": torch.ones(tokens), "places": places, "target": places, "next": torch.ones(len(lengths))}
    return {"input": torch.ones(tokens, dtype=torch.int64), "input_lengths": lengths, **more}


def test_eight_sizes_take_nearly_all_batches() -> None:
    """Sizes chosen by 24 batches, tried on 2,000 others: at most one in a hundred has none, and little is filled in."""
    draws = torch.Generator().manual_seed(0)
    batches = [batch_of(torch.randint(20, 129, (256,), generator=draws)) for _ in range(2024)]
    sizes = plan(batches[:24], 128, ("next",))
    assert len(sizes) == 8 and all(size.rows["next"] == size.sequences for size in sizes)
    taken = [next((size for size in sizes if size.room_for(batch, 128)), None) for batch in batches[24:]]
    assert sum(size is None for size in taken) <= 20
    filled = [size.rows["input"] / len(b["input"]) for size, b in zip(taken, batches[24:], strict=True) if size]
    assert sum(filled) / len(filled) < 1.02
    assert plan(batches[:24], 128, ("next",)) == sizes


def test_batches_that_are_all_alike_have_one_size_and_are_not_filled() -> None:
    lengths = torch.full((4,), 64)
    (size,) = plan([batch_of(lengths)] * 3, 64)
    assert size.rows["input"] == 256 and size.sequences == 4
    recorded = Recorded.of(size, batch_of(lengths), 64, torch.device("cpu"), ())
    assert recorded.layouts["input"].is_full and size.room_for(batch_of(lengths), 64)
    assert not size.room_for(batch_of(torch.tensor([64, 64, 64, 60])), 64)


def test_near_the_limit_the_smaller_sizes_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device with room for three of eight sizes, played by an error; a failed recording is let go before the next."""
    held: list[weakref.ref[Any]] = []

    def record(self: Graphs, examples: Any) -> None:
        assert all(known() is None for known in held)
        recorded = Recorded({}, {})
        held.append(weakref.ref(recorded))
        if len(self._sizes) > 3:
            raise torch.OutOfMemoryError
        self._recorded = [recorded]

    monkeypatch.setattr(Graphs, "_record_all", record)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.empty(0))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    draws = torch.Generator().manual_seed(0)
    batches = [batch_of(torch.randint(20, 129, (256,), generator=draws)) for _ in range(24)]
    graphs = Graphs(lambda batch: batch["input"], [torch.nn.Parameter(torch.ones(1))], 128, of_sequences=("next",))
    graphs.prepare(batches)
    assert len(held) == 6 and graphs._sizes == plan(batches, 128, ("next",))[:3]


def filled(size: Size, batch: dict[str, Tensor], longest: int, more: tuple[str, ...] = ()) -> dict[str, Any]:
    recorded = Recorded.of(size, batch, longest, torch.device("cpu"), more)
    recorded.fill(batch, more)
    return recorded.batch


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens end to end on a CPU too, by the kernel's contract."""
    monkeypatch.setattr(block, "can_pack", lambda *_: True)
    attend = sys.modules["canon.nn.attention.attend"]
    monkeypatch.setattr(attend, "is_packed", lambda query, layout, keys, bias=None: bias is None)
    monkeypatch.setattr(attend, "_FLASH", flash_by_contract)


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

    size = Size(sequences=20, rows={"input": 64, "target_input": 60, "target": 60})
    assert size.room_for(batch, 8)
    whole = filled(size, batch, 8)
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

    whole = filled(Size(20, {"input": 64, "segment": 64, "places": 10, "target": 10, "next": 20}), batch, 8, ("next",))
    plain, result = run(batch), run(whole)
    assert whole["next"].tolist()[:4] == [0, 1, 1, IGNORE] and len(whole["next"]) == 20
    torch.testing.assert_close(result["total"], plain["total"])
    torch.testing.assert_close(result["losses"][:3], plain["losses"])
    assert (result["losses"][3:] == 0).all() and not result["right"][3:].any()
    torch.testing.assert_close(result["next"][:3], plain["next"])


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
