"""The loader against its definition: one endless stream of seeded permutations, cut into batches and shares."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from canon.data.batching import loader as loading
from canon.data.batching.epochs import generator
from canon.data.batching.loader import Examples, Loader, Shuffled, shares
from canon.data.encodings.features import FeatureSchema
from canon.data.encodings.pixels import PixelSchema
from canon.data.schema import Schema

CPU = torch.device("cpu")
WORLDS = [1, 2, 3, 4]


def examples(size: int, schema: Schema | None = None) -> Examples:
    """Rows whose input and target both tell their index."""
    index = np.arange(size)
    columns = {"input": np.stack([index, 10 * index], axis=1).astype(np.float32), "target": index}
    return Examples(columns, schema or FeatureSchema(shape=(2,)), CPU)


def loader_of(rows: Examples, batch: int, seed: int, **more: int) -> Loader:
    return Loader(rows, Shuffled(rows.size, batch, seed, rows.index_device), **more)


def stream(loader: Loader, count: int) -> np.ndarray:
    """The targets (row numbers) of the next `count` batches, one after the other."""
    return torch.cat([piece.batch["target"] for _ in range(count) for piece in loader.next()]).numpy()


def oracle(size: int, seed: int, length: int) -> np.ndarray:
    """The stream by its definition: permutation e is drawn from Philox keyed by (seed, e)."""
    epochs = -(-length // size)
    keys = (np.array([seed, epoch], dtype=np.uint64) for epoch in range(epochs))
    return np.concatenate([np.random.Generator(np.random.Philox(key=key)).permutation(size) for key in keys])[:length]


@pytest.mark.parametrize(("size", "batch"), [(10, 5), (10, 3), (7, 7), (11, 4), (5, 13), (1, 3)])
def test_the_stream_is_one_permutation_after_another(size: int, batch: int) -> None:
    """Also where a batch straddles two epochs (10 by 3), or holds several (5 by 13)."""
    result = stream(loader_of(examples(size), batch, seed=3), 3 * size)
    epochs = result[: len(result) // size * size].reshape(-1, size)
    assert (np.sort(epochs, axis=1) == np.arange(size)).all()
    np.testing.assert_array_equal(result, oracle(size, 3, len(result)))
    if size > 6:
        assert len({tuple(epoch) for epoch in epochs}) == len(epochs), "each epoch has its own order"


def test_a_straddling_batch_is_the_end_of_one_epoch_and_the_start_of_the_next() -> None:
    loader = loader_of(examples(10), 4, seed=0)
    first, second = oracle(10, 0, 20)[:10], oracle(10, 0, 20)[10:]
    np.testing.assert_array_equal(loader.order.indices(2), [*first[8:], *second[:2]])


def test_seeds_give_other_orders_and_the_same_seed_the_same() -> None:
    orders = [stream(loader_of(examples(50), 10, seed=seed), 5) for seed in (0, 1, 0, 2**63 - 1)]
    np.testing.assert_array_equal(orders[0], orders[2])
    assert not (orders[0] == orders[1]).all() and not (orders[0] == orders[3]).all()


@pytest.mark.parametrize("position", [0, 1, 6, 7, 23, 1000])
def test_a_position_is_the_same_stepped_to_or_set(position: int) -> None:
    stepped, set_ = loader_of(examples(11), 3, seed=5), loader_of(examples(11), 3, seed=5)
    for _ in range(position):
        stepped.next()
    set_.position = position
    assert stepped.position == position
    for _ in range(5):
        np.testing.assert_array_equal(stream(stepped, 1), stream(set_, 1))
    assert stepped.position == set_.position == position + 5


def test_a_position_is_reached_without_replay() -> None:
    """The permutations drawn to serve batch 10¹² of 100 rows: only the one or two that it lies in."""
    loader = loader_of(examples(100), 30, seed=0)
    drawn: list[int] = []
    assert isinstance(loader.order, Shuffled)
    permute = loader.order._permutation
    loader.order._permutation = lambda epoch: drawn.append(epoch) or permute(epoch)  # type: ignore[assignment, func-returns-value]
    position = 10**12 + 3  # starts 90 rows into its epoch, so it straddles
    loader.position = position
    result = stream(loader, 1)
    epoch = position * 30 // 100
    assert set(drawn) == {epoch, epoch + 1}
    keys = (np.array([0, number], dtype=np.uint64) for number in (epoch, epoch + 1))
    last, first = (np.random.Generator(np.random.Philox(key=key)).permutation(100) for key in keys)
    np.testing.assert_array_equal(result, [*last[90:], *first[:20]])


def test_an_epoch_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def noted(seed: int, epoch: int) -> np.random.Generator:
        drawn.append(epoch)
        return generator(seed, epoch)

    monkeypatch.setattr(loading, "generator", noted)
    stream(loader_of(examples(100), 10, seed=0), 30)
    assert drawn == [0, 1, 2]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("batch", [12, 7, 4])
def test_the_shares_of_all_processes_make_the_batch_of_one(batch: int, world: int) -> None:
    """In rank order, over several epochs, also where the batch cannot be divided evenly."""
    alone = loader_of(examples(17), batch, seed=2)
    ranks = [loader_of(examples(17), batch, seed=2, rank=rank, world=world) for rank in range(world)]
    for _ in range(9):
        parts = [stream(loader, 1) for loader in ranks]
        np.testing.assert_array_equal(np.concatenate(parts), stream(alone, 1))
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1 and sum(sizes) == batch


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("micro", [1, 2, 5, 100])
def test_micro_batches_make_the_share(micro: int, world: int) -> None:
    for rank in range(world):
        whole = loader_of(examples(17), 11, seed=2, rank=rank, world=world)
        pieces = loader_of(examples(17), 11, seed=2, micro_batch=micro, rank=rank, world=world)
        for _ in range(4):
            (share,), cut = whole.next(), pieces.next()
            assert all(len(piece.batch["input"]) <= micro for piece in cut)
            assert [piece.share[0] for piece in cut] == [share.share[0], *(piece.share[1] for piece in cut[:-1])]
            assert cut[-1].share[1:] == share.share[1:] and share.share[2] == 11
            for name in ("input", "target"):
                whole_rows, cut_rows = share.batch[name], torch.cat([piece.batch[name] for piece in cut])
                torch.testing.assert_close(cut_rows, whole_rows, rtol=0, atol=0)


@pytest.mark.parametrize("total", [0, 1, 5, 12])
@pytest.mark.parametrize("parts", WORLDS)
def test_shares_are_contiguous_and_even(total: int, parts: int) -> None:
    result = shares(total, parts)
    assert [i for start, stop in result for i in range(start, stop)] == list(range(total))
    lengths = [stop - start for start, stop in result]
    assert len(result) == parts and max(lengths) - min(lengths) <= 1


class LazyColumn:
    """A column that is not in memory; tells which rows were made, and in which thread."""

    dtype = np.dtype(np.uint8)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape
        self.made: list[tuple[tuple[int, ...], bool]] = []

    def __len__(self) -> int:
        return len(self.array)

    def take(self, indices: np.ndarray) -> np.ndarray:
        self.made.append((tuple(indices), threading.current_thread() is threading.main_thread()))
        return self.array[indices]


IMAGES = np.random.default_rng(0).integers(0, 256, (13, 3, 4, 5), dtype=np.uint8)
COLOUR = PixelSchema(shape=(3, 4, 5), mean=(10.0, 20.0, 30.0), std=(2.0, 3.0, 4.0))


def image_loaders(batch: int = 4) -> tuple[Loader, Loader, LazyColumn]:
    lazy, target = LazyColumn(IMAGES), np.arange(13)
    in_memory = loader_of(Examples({"input": IMAGES, "target": target}, COLOUR, CPU), batch, seed=1)
    return in_memory, loader_of(Examples({"input": lazy, "target": target}, COLOUR, CPU), batch, seed=1), lazy


def assert_same_batches(one: Loader, other: Loader, count: int) -> None:
    for _ in range(count):
        for ours, theirs in zip(one.next(), other.next(), strict=True):
            assert torch.equal(ours.batch["input"], theirs.batch["input"])
            assert torch.equal(ours.batch["target"], theirs.batch["target"])


def test_a_column_made_one_batch_ahead_equals_one_in_memory() -> None:
    in_memory, ahead, lazy = image_loaders()
    assert_same_batches(in_memory, ahead, 10)
    assert [in_main for _, in_main in lazy.made][:10] == [True] + [False] * 9, "all but the first were made ahead"


def test_a_column_made_ahead_is_restored_mid_way() -> None:
    """Set back and forth, the batch that was made ahead for another position is not served."""
    in_memory, ahead, _ = image_loaders()
    for position in (0, 7, 3, 3, 4, 100):
        in_memory.position = ahead.position = position
        assert_same_batches(in_memory, ahead, 2)
    assert ahead.position == 102


def test_a_mistake_made_ahead_is_raised_by_the_batch_it_belongs_to() -> None:
    _, ahead, lazy = image_loaders()
    ahead.next()
    assert ahead._ahead is not None
    ahead._ahead[1].result()  # batch 1 has been made; batch 2 will meet the mistake
    lazy.array = IMAGES[:0]
    assert len(ahead.next()) == 1
    with pytest.raises(IndexError):
        ahead.next()


@pytest.mark.parametrize("ahead_bytes", [0, 512 << 20], ids=["per batch", "ahead"])
@pytest.mark.parametrize(
    ("rows", "schema"),
    [
        (IMAGES, COLOUR),
        (IMAGES, PixelSchema(shape=(3, 4, 5), mean=(0.0,), std=(16.0,))),
        (IMAGES[:, 0, 0].astype(np.float32), PixelSchema(shape=(5,), mean=(3.0,), std=(0.5,))),
        (IMAGES[:, 0, 0].astype(np.float32), FeatureSchema(shape=(5,))),
    ],
    ids=["per channel", "one scale", "rows", "as they are"],
)
def test_inputs_are_scaled_as_the_schema_says(
    rows: np.ndarray, schema: Schema, ahead_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(x − mean) / std, in float32 by numpy; the same bits whether scaled once ahead or batch by batch."""
    monkeypatch.setattr(loading, "_SCALE_AHEAD_BYTES", ahead_bytes)
    actual = Examples({"input": rows}, schema, CPU).take(torch.tensor([3, 0, 12]))["input"]
    trailing = (-1,) + (1,) * (rows.ndim - 2)
    mean, std = (np.array(values, np.float32).reshape(trailing) for values in schema.scaling)
    wanted = (rows[[3, 0, 12]].astype(np.float32) - mean) / std
    assert actual.dtype == torch.float32
    np.testing.assert_array_equal(actual.numpy(), wanted)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_in_order_covers_every_row_once(size: int) -> None:
    batches = list(examples(10).in_order(size))
    assert all(0 < len(batch["target"]) <= size for batch in batches)
    np.testing.assert_array_equal(torch.cat([batch["target"] for batch in batches]), np.arange(10))
