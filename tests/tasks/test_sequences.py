"""Tasks on sequences: losses and scores against sums by hand, carried state against one long text."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon import metrics
from canon.data.batching.loader import Examples
from canon.data.config import DataConfig
from canon.data.schema import Data
from canon.metrics.records import is_rising
from canon.nn.ragged import Layout
from canon.tasks.base import Turn
from canon.tasks.language_model import LanguageModelling
from canon.tasks.transduction import Transduction
from tests.objectives.choices import choice
from tests.reading import read_as
from tests.tasks.arrays import arrays

CPU = torch.device("cpu")
HERE = Path(__file__).parent.parent / "battery"


def pairs(**more: Any) -> Data:
    own = {"tokenizer": "split", "target_tokenizer": "split", **more}
    return read_as(DataConfig(source=str(HERE / "pairs.tsv"), **own), "sequences")


class Digits(nn.Module):
    """Knows the digit of each word; says the source's words one by one, and `wrong` in place of `missed`."""

    def __init__(self, data: Data, missed: str = "", wrong: str = "") -> None:
        super().__init__()
        source, target = (data.schema.tokenizers[role] for role in ("source", "target"))
        names = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
        digit = {name: str(number) for number, name in enumerate(names)} | ({missed: wrong} if missed else {})
        self.table = torch.tensor([3, 3, 3, 3, *(int(target.encode([digit[w]])[0][0]) for w in source.vocabulary[4:])])
        self.size = target.size

    def forward(self, source_N: Tensor, source: Layout, target_M: Tensor, target: Layout) -> Tensor:
        said_BS = self.table[source.pad(source_N, fill=3)]
        places_M = target.positions.clamp(max=said_BS.shape[1] - 1)
        return 5.0 * F.one_hot(said_BS[target.rows, places_M], self.size).float()

    def encode(self, source_N: Tensor, source: Layout) -> dict[str, Tensor]:
        return {"said": self.table[source.pad(source_N, fill=3)]}

    def init_state(self, memory: dict[str, Tensor], capacity: int) -> dict[str, Tensor]:
        return {**memory, "position": torch.tensor(0)}

    def step(self, token_B: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        place = min(int(state["position"]), state["said"].shape[1] - 1)
        logits_BV = 5.0 * F.one_hot(state["said"][:, place], self.size).float()
        return logits_BV, {**state, "position": state["position"] + 1}


CONFIG = SimpleNamespace(beam=1, length_penalty=0.6, max_length=0)
SMOOTHED = choice("cross-entropy", "transduction", label_smoothing=0.1)
PLAIN = choice("cross-entropy", "language-model")


def scored(
    data: Data, network: Digits, split: str = "test"
) -> tuple[Transduction, dict[str, Tensor], dict[str, float]]:
    task = Transduction(SMOOTHED, CONFIG, data.schema)
    columns = data.splits[split]
    batch = Examples(columns, data.schema, CPU).take(torch.arange(len(columns["input"])))
    outputs = task.run(network, batch, Turn())
    return task, outputs, task.score(arrays(outputs), columns)


@pytest.mark.parametrize(
    ("longest", "max_length", "limit"),
    [
        ((7, 3), 0, 16),  # the source is longer: ⌈1.5 · 7⌉ + 5
        ((3, 7), 0, 16),  # the target is
        ((7, 7), 0, 16),
        ((), 0, 35),  # nothing is known of the data: as if 20 were the longest
        ((7, 3), 2, 2),  # what the system says comes first
        ((7, 3), 40, 40),
    ],
)
def test_the_decoding_limit_follows_the_longest_side(longest: tuple[int, ...], max_length: int, limit: int) -> None:
    """By what is put out too: a network that never ends says as many words as the limit allows."""
    data = pairs()
    config = SimpleNamespace(**{**vars(CONFIG), "max_length": max_length})
    task = Transduction(SMOOTHED, config, replace(data.schema, longest=longest))
    network = Digits(data)
    network.table[:] = 4
    batch = Examples(data.splits["test"], data.schema, CPU).take(torch.arange(3))
    decoded_BT = task.decode(network, batch, beam=1)
    assert task.limit == limit == decoded_BT.shape[1]
    allowed_B = (2 * batch["input_lengths"] + 10).clamp(max=limit)
    assert torch.equal((decoded_BT == 4).sum(1), allowed_B)


def test_a_network_that_knows_makes_no_mistakes() -> None:
    task, _, scores = scored(pairs(), Digits(pairs()))
    assert scores["wer"] == scores["per"] == 0 and scores["token_accuracy"] == 1
    sure = -math.log(math.exp(5) / (math.exp(5) + task.schema.tokenizers["target"].size - 1))
    assert scores["loss"] == pytest.approx(sure, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(sure), rel=1e-5)


def test_mistakes_are_counted_by_sequence_and_by_symbol() -> None:
    """A network that takes seven for one: words with a seven are wrong, and one symbol for each seven."""
    data = pairs()
    _, _, scores = scored(data, Digits(data, missed="seven", wrong="1"))
    texts = [line.split("\t")[1] for line in (HERE / "pairs.tsv").read_text().splitlines()]
    tokenizer, target = data.schema.tokenizers["target"], data.splits["test"]["target"]
    right = tokenizer.decode_batch([target[row][1:-1] for row in range(len(target))])  # type: ignore[index]
    assert set(right) <= set(texts)
    assert scores["wer"] == pytest.approx(np.mean(["7" in text for text in right]))
    lengths = data.splits["test"]["input"].lengths  # type: ignore[union-attr]
    bound = sorted(lengths)[math.ceil(0.75 * (len(lengths) - 1))]
    long = ["7" in text for text, length in zip(right, lengths, strict=True) if length >= bound]
    assert 0 < len(long) < len(right) and scores["wer_long"] == pytest.approx(np.mean(long))
    assert scores["per"] == pytest.approx(sum(text.count("7") for text in right) / sum(len(t.split()) for t in right))


def test_text_is_scored_by_sacrebleu_with_its_signature() -> None:
    data = pairs(tokenizer="word", target_tokenizer="word")
    task, outputs, scores = scored(data, Digits(data, missed="seven", wrong="1"))
    assert task.monitor == "bleu" and is_rising(task.monitor)
    wanted = metrics.corpus_bleu(task.texts(arrays(outputs)), task.references(data.splits["test"]), tokenize="13a")
    assert scores["bleu"] == wanted.score and wanted.signature in task.remarks[0]


def test_training_smooths_and_validation_does_not() -> None:
    data = pairs()
    network, task = Digits(data), Transduction(SMOOTHED, CONFIG, data.schema)
    batch = Examples(data.splits["train"], data.schema, CPU).take(torch.arange(9))
    logits_MV, _ = task.teach(network, batch)
    smooth = F.cross_entropy(logits_MV, batch["target"], label_smoothing=0.1, reduction="sum")
    assert task.loss(network, batch, "all", Turn()).item() == pytest.approx(smooth.item(), rel=1e-6)
    plain = F.cross_entropy(logits_MV, batch["target"], reduction="sum")
    assert task.run(network, batch, Turn())["loss"].sum().item() == pytest.approx(plain.item(), rel=1e-5)
    assert task.count(batch) == len(batch["target"])


class Recalls(nn.Module):
    """A recurrent network so simple that a long text is done by hand: h ← ½ h + e(x), logits h W."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(size, 5), nn.Linear(5, size)

    def forward(self, token_BT: Tensor, state: dict[str, Tensor] | None) -> tuple[Tensor, dict[str, Tensor]]:
        hidden_BD = torch.zeros(len(token_BT), 5) if state is None else state["hidden"]
        values = []
        for x_BD in self.embedding(token_BT).unbind(1):
            hidden_BD = 0.5 * hidden_BD + x_BD
            values.append(self.output(hidden_BD))
        return torch.stack(values, 1), {"hidden": hidden_BD}


def text_data() -> Data:
    config = DataConfig(source=str(HERE / "text.txt"), tokenizer="split", window=7)
    return read_as(config, "windows")


def test_windows_with_carried_state_are_one_long_text() -> None:
    data = text_data()
    torch.manual_seed(0)
    network = Recalls(data.schema.tokenizers["text"].size)
    task = LanguageModelling(PLAIN, SimpleNamespace(), data.schema)
    examples = Examples(data.splits["test"], data.schema, CPU)
    with torch.no_grad():
        turn = Turn()
        outputs = [task.run(network, batch, turn) for batch in examples.streams(1)]
        merged = {name: torch.cat([part[name] for part in outputs]) for name in outputs[0]}
        tokens = torch.from_numpy(data.splits["test"]["input"].tokens.astype(np.int64))  # type: ignore[union-attr]
        logits, _ = network(tokens[None, :-1], None)
        wanted = F.cross_entropy(logits[0], tokens[1:]).item()
    scores = task.score(arrays(merged), data.splits["test"])
    assert scores["loss"] == pytest.approx(wanted, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(wanted), rel=1e-5)
    assert merged["count"].sum() == len(tokens) - 1


def test_gradients_stop_at_the_window() -> None:
    data = text_data()
    network = Recalls(data.schema.tokenizers["text"].size)
    task = LanguageModelling(PLAIN, SimpleNamespace(), data.schema)
    batch = next(Examples(data.splits["train"], data.schema, CPU).streams(4))
    turn = Turn()
    task.loss(network, batch, "all", turn).backward()
    assert turn.state is not None and not turn.state["hidden"].requires_grad
    task.loss(network, batch, "all", turn).backward()  # through the first window again this would fail


def test_references_are_the_text_of_the_file(tmp_path: Path) -> None:
    """Capitals, double spaces and letters that the vocabulary lacks are lost in tokens, and must not be in scoring."""
    lines = [f"word {i}\tEin  Wort {i}" for i in range(40)]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "test.tsv").write_text("word 1\tÉin  Wört ✓\n", encoding="utf-8")
    config = DataConfig(source=str(tmp_path), tokenizer="word", lowercase=True)
    data = read_as(config, "sequences")
    task = Transduction(SMOOTHED, CONFIG, data.schema)
    assert task.references(data.splits["test"]) == [("Éin  Wört ✓",)]
    assert "references" not in data.splits["train"]
