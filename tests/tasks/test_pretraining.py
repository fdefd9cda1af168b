"""The pre-training task with a tiny network: losses, scores and samples against sums by hand, pieces against wholes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.contracts import IGNORE
from canon.data.batching.draws import EVALUATION, Draws
from canon.data.batching.loader import Examples, Loader, Shuffled
from canon.data.batching.passages import Passages
from canon.data.batching.several_tasks import TASKS
from canon.data.encodings.passages import PassageSchema
from canon.data.schema import Schema
from canon.data.targets import HiddenTokens
from canon.data.text.framing import Specials
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError
from canon.nn.ragged import Layout
from canon.nn.token_loss import TokenLoss
from canon.objectives.table import OBJECTIVES
from canon.tasks.base import Turn
from canon.tasks.pretraining import Pretraining
from tests.objectives.choices import choice
from tests.objectives.makers import passages_of
from tests.tasks.arrays import arrays

CPU = torch.device("cpu")
WORDS = [f"w{number:02d}" for number in range(60)]


def data(sentences: int = 6, documents: int = 60, length: int = 32) -> tuple[Schema, Passages]:
    """Documents of words that each go up by one: w07 w08 w09 …"""
    tokenizer = Tokenizer.train([" ".join(WORDS)], "word", mask=True, sentinels=8)
    chance = np.random.default_rng(3)
    made = []
    for _ in range(documents):
        begins = chance.integers(0, 60, sentences)
        texts = [" ".join(WORDS[(start + i) % 60] for i in range(chance.integers(4, 9))) for start in begins]
        made.append([tokenizer.encode([text])[0].tolist() for text in texts])
    schema = PassageSchema(HiddenTokens(), typical=(length,), tokenizers={"text": tokenizer})
    return schema, passages_of(made, length, tokenizer.specials, tokenizer.size)


SCHEMA, COLUMN = data()
SIZE = SCHEMA.tokenizers["text"].size


class Tiny(nn.Module):
    """A token's logits from its neighbours and the sequence's mean; all the heads that objectives ask for."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(SIZE, 12)
        self.mix = nn.Linear(36, 12)
        self.output = nn.Linear(12, SIZE)
        self.heads = nn.ModuleDict({n: nn.Linear(12, k) for n, k in (("next", 2), ("order", 9), ("distance", 3))})
        self.relation = nn.Linear(12, 2)
        self.seen: list[dict[str, Any]] = []

    def hidden(self, token_N: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        x_BLD = layout.pad(self.embedding(token_N))
        left, right = F.pad(x_BLD, (0, 0, 1, 0))[:, :-1], F.pad(x_BLD, (0, 0, 0, 1))[:, 1:]
        mean_BD = x_BLD.sum(1) / layout.device_lengths[:, None]
        h_ND = torch.tanh(self.mix(layout.unpad(torch.cat([left, x_BLD, right], 2))))
        return h_ND, mean_BD

    def forward(
        self,
        token_N: Tensor,
        layout: Layout,
        given_M: Tensor | None = None,
        decoder: Layout | None = None,
        *,
        places_M: Tensor | None = None,
        relation_R: Tensor | None = None,
        **more: Any,
    ) -> dict[str, Tensor]:
        self.seen.append(more)
        h_ND, mean_BD = self.hidden(token_N, layout)
        if given_M is not None:
            assert decoder is not None
            h_MD = self.embedding(given_M) + mean_BD[decoder.rows]
        else:
            h_MD = h_ND[places_M] if places_M is not None else h_ND
        values = {"hidden": h_MD, **{name: head(mean_BD) for name, head in self.heads.items()}}
        if relation_R is not None:
            values["relation"] = self.relation(h_ND[relation_R])
        return values

    def logits(self, h_MD: Tensor) -> Tensor:
        return self.output(h_MD)

    def token_losses(self, h_MD: Tensor, target_M: Tensor) -> TokenLoss:
        return by_cross_entropy(self.output(h_MD), target_M)


def by_cross_entropy(logits_MV: Tensor, target_M: Tensor) -> TokenLoss:
    losses_M = F.cross_entropy(logits_MV, target_M, reduction="none")
    return TokenLoss(losses_M.sum(), losses_M.detach(), logits_MV.argmax(1) == target_M)


def task(objective: str, **settings: Any) -> Pretraining:
    positions = {"max_positions": settings.pop("max_positions")} if "max_positions" in settings else {}
    return Pretraining(choice(objective, "pretraining", **settings), SimpleNamespace(**positions), SCHEMA)


def batch_of(own: Pretraining, indices: np.ndarray, draws: Draws = EVALUATION, column: Passages = COLUMN) -> Any:
    reported = own.compose({"input": column}, indices, indices, draws)
    return {name: torch.from_numpy(rows) for name, rows in reported.items()}


SETTINGS: dict[str, dict[str, Any]] = {"masked": {"next_sentence": True}, "prefix": {"next_sentence": True}}
WAYS = [own.name for own in OBJECTIVES if "pretraining" in own.tasks]
CASES = [(objective, SETTINGS.get(objective, {})) for objective in WAYS] + [("masked", {"masking": "word"})]


@pytest.mark.parametrize(("objective", "settings"), CASES)
def test_the_loss_of_a_batch_is_the_sum_over_its_pieces(objective, settings) -> None:
    """Gradients of the whole, of two processes and of micro-batches of 3: sums over counts agree."""
    network, columns = Tiny(), {"input": COLUMN}

    def gradient(micro: int, world: int) -> tuple[list[Tensor], int, float]:
        network.zero_grad()
        total, count = 0.0, 0
        for rank in range(world):
            own = task(objective, **settings)
            examples = Examples(columns, SCHEMA, CPU, own.compose)
            loader = Loader(examples, Shuffled(len(COLUMN), 24, seed=7), micro, rank, world, 7)
            for batch, _ in loader.next():
                loss = own.loss(network, batch, "all", Turn())
                loss.backward()
                total, count = total + loss.item(), count + own.count(batch)
        return [(torch.zeros(1) if p.grad is None else p.grad.clone()) for p in network.parameters()], count, total

    whole, count, total = gradient(0, 1)
    assert count > 0 and total > 0 and any(g.abs().sum() > 0 for g in whole)
    for micro, world in ((0, 2), (3, 1), (5, 2)):
        parts, counted, summed = gradient(micro, world)
        assert counted == count and summed == pytest.approx(total, rel=1e-5)
        for one, other in zip(whole, parts, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_next_sentences_count_by_their_tokens() -> None:
    own, network = task("masked", next_sentence=True), Tiny()
    batch = batch_of(own, np.arange(10), Draws(1, 1))
    outputs = network(batch["input"], Layout(batch["input_lengths"]), places_M=batch["places"])
    nexts = F.cross_entropy(outputs["next"], batch["next"], reduction="none")
    tokens = network.token_losses(outputs["hidden"], batch["target"])
    expected = tokens.total + (nexts * batch["places_lengths"]).sum()
    turn = Turn()
    torch.testing.assert_close(own.loss(network, batch, "all", turn), expected)
    assert own.count(batch) == len(batch["target"]) == int(batch["places_lengths"].sum())
    assert turn.observed["next_loss"][1] == 10


def test_scores_are_sums_by_hand() -> None:
    own, network, indices = task("masked", next_sentence=True), Tiny(), np.arange(20)
    batch = batch_of(own, indices)
    outputs = own.run(network, batch, Turn())
    assert all(len(rows) == 20 for rows in outputs.values())
    scores = own.score(arrays(outputs), {"input": COLUMN})
    with torch.no_grad():
        given = (batch["input"], Layout(batch["input_lengths"]))
        direct = network(*given, places_M=batch["places"])
        _, losses_M, right_M = network.token_losses(direct["hidden"], batch["target"])
    nexts = F.cross_entropy(direct["next"], batch["next"], reduction="none")
    tokens = losses_M.mean().item()
    assert scores["token_loss"] == pytest.approx(tokens) and scores["perplexity"] == pytest.approx(math.exp(tokens))
    assert scores["next_loss"] == pytest.approx(nexts.mean().item())
    assert scores["next_accuracy"] == pytest.approx((direct["next"].argmax(1) == batch["next"]).float().mean().item())
    assert scores["token_accuracy"] == pytest.approx(right_M.float().mean().item())
    weighted = (nexts * batch["places_lengths"]).sum() / batch["places_lengths"].sum()
    assert scores["loss"] == pytest.approx(tokens + weighted.item())
    assert set(scores) == set(own.names())
    # Evaluated in other pieces, the same.
    parts = [own.run(network, batch_of(own, indices[p]), Turn()) for p in (slice(0, 7), slice(7, 20))]
    for name in ("loss", "right", "count", "next_loss"):
        torch.testing.assert_close(torch.cat([part[name] for part in parts]), outputs[name])


def test_each_task_of_several_has_its_own_scores() -> None:
    own, network, indices = task("continual"), Tiny(), np.arange(len(COLUMN))
    outputs = own.run(network, batch_of(own, indices), Turn())
    scores = own.score(arrays(outputs), {"input": COLUMN})
    assert set(scores) == set(own.names())
    for name in ("order", "distance", "relation"):
        rows = outputs[f"{name}_count"] > 0
        assert np.array_equal(np.flatnonzero(rows.numpy()), indices[indices % 4 == TASKS.index(name)])
        assert scores[f"{name}_loss"] == pytest.approx(
            (outputs[f"{name}_loss"].sum() / outputs[f"{name}_count"].sum()).item()
        )
    parts = [scores["token_loss"], scores["relation_loss"], scores["order_loss"], scores["distance_loss"]]
    assert scores["loss"] == pytest.approx(sum(parts) / 4)
    step = batch_of(own, indices[:9], Draws(2, 5))
    assert len(set(step["task"].tolist())) == 1
    only = task("continual", tasks=("masked", "order"))
    assert only.names() == ("loss", "perplexity", "token_accuracy", "token_loss", "order_loss", "order_accuracy")
    with pytest.raises(CanonError, match=r"tasks\.1 must be one of 'masked', 'relation', 'order', 'distance'"):
        task("continual", tasks=("masked", "capital"))


def test_every_token_of_a_causal_text_tells_the_next_of_its_own_passage() -> None:
    batch = batch_of(task("causal"), np.arange(5))
    rows = torch.arange(5).repeat_interleave(batch["input_lengths"])
    assert torch.equal(batch["target"], batch["input"][batch["places"] + 1])
    assert torch.equal(rows[batch["places"]], rows[batch["places"] + 1])
    assert len(batch["places"]) == len(batch["input"]) - 5


def test_networks_get_what_they_ask_for() -> None:
    expected = {
        "masked": {"segment_N"},
        "causal": set(),
        "permutation": {"segment_N", "rank_N", "places_lengths"},
        "prefix": {"segment_N", "prefix_lengths"},
        "corruption": set(),
        "continual": {"segment_N", "task_B"},
    }
    for objective, names in expected.items():
        own, network = task(objective, **SETTINGS.get(objective, {})), Tiny()
        own.loss(network, batch_of(own, np.arange(8)), "all", Turn())
        assert set(network.seen[0]) == names, objective
    batch = batch_of(task("corruption"), np.arange(4))
    starts = torch.cumsum(batch["target_lengths"], 0) - batch["target_lengths"]
    assert (batch["target_input"][starts] == COLUMN.specials.pad).all()
    inner = torch.ones(len(batch["target"]), dtype=torch.bool)
    inner[starts] = False
    assert torch.equal(batch["target_input"][inner], batch["target"].roll(1)[inner])


def test_sequences_fit_the_positions() -> None:
    pairs = [(name, {"next_sentence": asked}) for name in ("masked", "prefix") for asked in (False, True)]
    for objective, settings in (*pairs, ("continual", {})):
        batch = batch_of(task(objective, max_positions=20, **settings), np.arange(40))
        assert 15 < batch["input_lengths"].max() <= 20
    assert batch_of(task("masked", max_positions=64), np.arange(40))["input_lengths"].max() <= 32 + 2
    with pytest.raises(CanonError, match="max_positions = 4 leaves no room"):
        batch_of(task("masked", max_positions=4, next_sentence=True), np.arange(4))


def test_one_sentence_documents_are_refused_for_next_sentences() -> None:
    lone = passages_of([[[50, 51, 52]] for _ in range(30)], 32, COLUMN.specials, SIZE)
    with pytest.raises(CanonError, match=r"needs documents of several sentences.*objective\.next_sentence = false"):
        batch_of(task("masked", next_sentence=True), np.arange(4), column=lone)
    assert len(batch_of(task("masked"), np.arange(4), column=lone)["target"]) == 4


class Oracle(nn.Module):
    """Tells every hidden word rightly: its left neighbour's successor, or its right neighbour's predecessor is not
    needed, since the right tokens are given to it."""

    def __init__(self, tokens: dict[tuple[int, ...], list[int]] | None = None, shift: int = 0) -> None:
        super().__init__()
        self.right: Tensor = torch.empty(0)
        self.shift = shift

    def forward(self, token_N: Tensor, layout: Layout, *args: Any, places_M=None, **more: Any) -> Any:
        return {"hidden": args[0] if places_M is None else places_M}

    def logits(self, hidden_M: Tensor) -> Tensor:
        return 10.0 * F.one_hot((self.right[: len(hidden_M)] + self.shift) % SIZE, SIZE).float()

    def token_losses(self, hidden_M: Tensor, target_M: Tensor) -> TokenLoss:
        self.right = target_M
        return by_cross_entropy(self.logits(hidden_M), target_M)


@pytest.mark.parametrize("objective", ("masked", "permutation", "prefix", "corruption", "causal"))
def test_samples_show_what_was_filled_in(objective) -> None:
    own, indices = task(objective), np.arange(12)
    columns = {"input": COLUMN.take(indices)}
    right = own.run(Oracle(), batch_of(own, indices, column=columns["input"]), Turn())
    lines = own.samples(arrays(right), columns)
    assert len(lines) == 3 and not any("≠" in line or "right:" in line for line in lines)
    tokenizer = SCHEMA.tokenizers["text"]
    if objective in ("masked", "permutation"):
        batch = batch_of(own, indices[:1], column=columns["input"])
        first = tokenizer.decode(batch["target"][:1].numpy())
        assert f"[{first}" in lines[0]
    wrong = own.run(Oracle(shift=1), batch_of(own, indices, column=columns["input"]), Turn())
    assert all("≠" in line or "right:" in line for line in own.samples(arrays(wrong), columns))
    assert right["right"].sum() == right["count"].sum() and wrong["right"].sum() == 0
    turn = Turn(share=(512, 524, 600))  # not the beginning of the split: nothing is shown of it
    assert (own.run(Oracle(), batch_of(own, indices), turn)["guesses"] == -1).all()


def test_floors_are_those_of_guesses() -> None:
    tokens = COLUMN.tokens
    shares = np.bincount(tokens) / len(tokens)
    entropy = -sum(share * math.log(share) for share in shares if share)
    reported = task("causal").floors(tokens)
    assert reported["uniform"] == pytest.approx(math.log(SIZE)) and reported["token shares"] == pytest.approx(entropy)
    assert task("masked", next_sentence=True).floors(tokens)["uniform"] == pytest.approx(math.log(SIZE) + math.log(2))


def test_rows_tell_how_well_each_passage_was_predicted() -> None:
    own = task("masked")
    outputs = own.run(Tiny(), batch_of(own, np.arange(6)), Turn())
    rows = own.rows(arrays(outputs), {}, 1)
    assert len(rows) == 6 and rows[2]["perplexity"] == pytest.approx(math.exp(rows[2]["loss"]))
    torch.testing.assert_close(torch.tensor([row["loss"] for row in rows]), outputs["loss"] / outputs["count"])


def test_a_short_training_learns_to_count() -> None:
    """Each word is one more than the word before it: the loss falls far below that of guessing."""
    own, network = task("masked", masking="word"), Tiny()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    losses = []
    for step in range(120):
        chosen = np.random.default_rng(step).integers(0, len(COLUMN), 32)
        reported = own.compose({"input": COLUMN}, chosen, np.arange(32), Draws(0, step))
        batch = {name: torch.from_numpy(rows) for name, rows in reported.items()}
        loss = own.loss(network, batch, "all", Turn()) / own.count(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[:3]) > 3.8 and np.mean(losses[-10:]) < 2.6


def test_ignored_labels_cost_nothing() -> None:
    """UniLM asks for next sentences of a third of the sequences."""
    own, network = task("prefix", next_sentence=True), Tiny()
    batch = batch_of(own, np.arange(30), Draws(5, 5))
    asked = batch["next"] != IGNORE
    assert 3 < asked.sum() < 20 and torch.equal(asked.long(), batch["next_lengths"])
    whole = own.loss(network, batch, "all", Turn())
    without = own.loss(network, {**batch, "next": torch.full_like(batch["next"], IGNORE)}, "all", Turn())
    logits = network(batch["input"], Layout(batch["input_lengths"]), places_M=batch["places"])["next"]
    expected = (
        F.cross_entropy(logits[asked], batch["next"][asked], reduction="none") * batch["places_lengths"][asked]
    ).sum()
    torch.testing.assert_close(whole - without, expected, rtol=1e-4, atol=1e-4)


def test_a_tokenizer_without_a_mask_is_named() -> None:
    bare = passages_of([[[5, 6, 7], [8, 9]]] * 30, 16, Specials(cls=2, sep=3), 60)
    with pytest.raises(CanonError, match=r"The tokenizer has no \[MASK\] or <mask>, which masked language modelling"):
        batch_of(task("masked"), np.arange(3), column=bare)
