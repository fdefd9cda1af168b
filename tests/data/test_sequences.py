"""Sequences as columns and the orders they are read in, against lists and brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from canon.data.batching.epochs import steps_per_epoch
from canon.data.batching.loader import ByLength, Examples, Loader, Streams
from canon.data.batching.sequences import Ragged, Windows
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.sequences import SequenceSchema
from canon.data.encodings.windows import WindowSchema
from canon.data.targets import NextToken, OtherText
from canon.data.text.vocabularies import BOS, EOS, PAD
from canon.errors import CanonError

CPU = torch.device("cpu")
PAIRS = SequenceSchema(OtherText())
TEXT = WindowSchema(NextToken())


class Letters:
    """A tokeniser of letters: a is 4, b is 5 …"""

    def encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        flat = [ord(letter) - 93 for text in texts for letter in text]
        return np.array(flat, dtype=np.int32), np.array([len(text) for text in texts], dtype=np.int64)


def column(texts: list[str], bos: bool = False) -> Ragged:
    return Ragged.encode(Letters(), texts, bos)  # type: ignore[arg-type]


TEXTS = ["ab", "", "cab", "a", "bbbb"]


def by_hand(text: str) -> list[int]:
    return [ord(letter) - 93 for letter in text]


@pytest.mark.parametrize("bos", [False, True])
def test_sentences_get_their_ends(bos: bool) -> None:
    actual = column(TEXTS, bos)
    wanted = [[BOS] * bos + by_hand(text) + [EOS] for text in TEXTS]
    assert [actual[row].tolist() for row in range(len(actual))] == wanted
    assert [row.tolist() for row in (actual.take(np.array([3, 0]))[0], actual.take(np.array([3, 0]))[1])] == [
        wanted[3],
        wanted[0],
    ]


def test_a_batch_has_no_padding_and_the_target_is_one_token_on() -> None:
    columns = {"input": column(TEXTS), "target": column(TEXTS[::-1], bos=True)}
    batch = Examples(columns, PAIRS, CPU).take(torch.tensor([2, 0, 1]))
    assert batch["input"].tolist() == [*by_hand("cab"), EOS, *by_hand("ab"), EOS, EOS]
    assert batch["input_lengths"].tolist() == [4, 3, 1]
    said = [TEXTS[::-1][row] for row in (2, 0, 1)]
    assert batch["target_input"].tolist() == [token for text in said for token in [BOS, *by_hand(text)]]
    assert batch["target"].tolist() == [token for text in said for token in [*by_hand(text), EOS]]
    assert batch["target_lengths"].tolist() == [len(text) + 1 for text in said]


@pytest.mark.parametrize("length", [2, 7, 8, 9, 23])
def test_windows_hold_every_token_once(length: int) -> None:
    text = np.arange(100, 100 + length, dtype=np.int32)
    windows = Windows(text, 4)
    batch = windows.batch("input", np.arange(len(windows)))
    there = batch["target"] >= 0
    assert batch["target"][there].tolist() == text[1:].tolist()
    assert batch["input"][there].tolist() == text[:-1].tolist()
    assert (batch["input"][~there] == PAD).all() and batch["target_lengths"].tolist() == there.sum(1).tolist()


def random_pairs(size: int, seed: int = 0) -> dict[str, Ragged]:
    draws = np.random.default_rng(seed)
    lengths = draws.integers(1, 30, size)
    more = np.maximum(lengths + draws.integers(-3, 4, size), 1)
    texts = ["a" * int(length) for length in lengths], ["b" * int(length) for length in more]
    return {"input": column(texts[0]), "target": column(texts[1], bos=True)}


@pytest.mark.parametrize(("size", "tokens"), [(400, 100), (50, 1000), (7, 1), (30, 45)])
def test_batches_by_tokens_hold_every_sentence_once_in_every_epoch(size: int, tokens: int) -> None:
    columns = random_pairs(size)
    order = PAIRS.order(columns, 0, tokens, seed=3)
    assert isinstance(order, ByLength)
    total = int((columns["target"].lengths - 1).sum())
    assert order.batches == min(-(-total // tokens), size) == steps_per_epoch(PAIRS, columns, 0, tokens)
    epochs = []
    for epoch in range(3):
        batches = [order.indices(epoch * order.batches + i).tolist() for i in range(order.batches)]
        assert sorted(row for batch in batches for row in batch) == list(range(size))
        assert all(batches)
        epochs.append(batches)
    if size > 10:
        assert epochs[0] != epochs[1]


def test_batches_by_tokens_are_about_as_large_as_asked_and_of_like_length() -> None:
    columns = random_pairs(3000)
    order = PAIRS.order(columns, 0, 500, seed=0)
    assert isinstance(order, ByLength)
    lengths = columns["target"].lengths - 1
    batches = [lengths[order.indices(i).numpy()] for i in range(order.batches)]
    assert all(abs(batch.sum() - 500) <= 40 for batch in batches)
    padded, alone = sum(len(batch) * batch.max() for batch in batches), sum(batch.sum() for batch in batches)
    assert padded < 1.05 * alone  # in random batches it is nearly twice as much


def test_a_position_by_tokens_is_the_same_stepped_to_or_set() -> None:
    columns = random_pairs(200)
    stepped, jumped = (PAIRS.order(columns, 0, 90, seed=1) for _ in range(2))
    there = [stepped.indices(position).tolist() for position in range(3 * int(stepped.per_epoch))]
    for position in (70, 3, 41):
        assert jumped.indices(position).tolist() == there[position]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_processes_share_a_batch_by_tokens(world: int) -> None:
    examples = Examples(random_pairs(100), PAIRS, CPU)
    columns = random_pairs(100)
    loaders = [Loader(examples, PAIRS.order(columns, 0, 120, seed=0), rank=rank, world=world) for rank in range(world)]
    alone = Loader(examples, PAIRS.order(columns, 0, 120, seed=0))
    for _ in range(30):
        (whole,) = alone.next()
        parts = [piece for loader in loaders for piece in loader.next()]
        for name in ("input", "target", "target_lengths"):
            assert torch.equal(torch.cat([part.batch[name] for part in parts]), whole.batch[name])


def test_a_process_without_sentences_of_its_own_takes_one_of_another() -> None:
    """The loop gives it no weight (tests/hostile/test_runs.py trains so); shares of the others are as they were."""
    columns = random_pairs(6)
    examples = Examples(columns, PAIRS, CPU)
    first, second = (Loader(examples, PAIRS.order(columns, 0, 1, seed=0), rank=rank, world=2) for rank in range(2))
    for _ in range(6):
        (ours,), (theirs,) = first.next(), second.next()
        assert torch.equal(ours.batch["target"], theirs.batch["target"]) and len(ours.batch["target_lengths"]) == 1


def test_streams_go_through_the_text_side_by_side() -> None:
    text = np.arange(4, 4 + 65, dtype=np.int32)
    columns = {"input": Windows(text, 4)}  # 16 windows
    order = TEXT.order(columns, 3, 0, seed=0)
    assert isinstance(order, Streams) and order.per_epoch == 5 == steps_per_epoch(TEXT, columns, 3, 0)
    examples = Examples(columns, TEXT, CPU)
    seen = torch.cat([examples.take(order.indices(position))["input"] for position in range(5)], dim=1)
    wanted = torch.from_numpy(text[:60].astype(np.int64)).view(3, 20)
    assert torch.equal(seen, wanted)
    assert torch.equal(order.indices(5), order.indices(0))


@pytest.mark.parametrize("count", [1, 3, 8])
def test_evaluation_reads_every_token_once(count: int) -> None:
    text = np.arange(4, 4 + 62, dtype=np.int32)
    examples = Examples({"input": Windows(text, 4)}, TEXT, CPU)
    targets = torch.cat([batch["target"].flatten() for batch in examples.streams(count)])
    assert sorted(targets[targets >= 0].tolist()) == text[1:].tolist()


def test_tokens_are_for_texts() -> None:
    with pytest.raises(
        CanonError, match=r"train.tokens is for systems that read text as tokens; give train.batch instead."
    ):
        FeatureSchema().order({"input": np.zeros((3, 2))}, 2, 100, seed=0)
