"""The split rule: sizes, shares of each class, independence from everything but order and seed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canon.data.splits import hold_out


@given(st.integers(2, 300), st.floats(0.01, 0.9), st.integers(0, 2**40), st.integers(1, 5))
def test_partition_with_exact_size_and_fair_classes(n: int, share: float, seed: int, num_classes: int) -> None:
    classes = np.random.default_rng(n).integers(0, num_classes, n)
    kept, held = hold_out(n, share, seed, "test", classes)
    assert sorted([*kept, *held]) == list(range(n))
    assert len(held) == min(max(round(n * share), 1), n - 1)
    for code in range(num_classes):
        assert abs((classes[held] == code).sum() - len(held) / n * (classes == code).sum()) <= 1.0 + 1e-9


def test_seed_and_name_decide() -> None:
    held = {(seed, name): tuple(hold_out(100, 0.2, seed, name)[1]) for seed in (0, 1) for name in ("test", "valid")}
    assert len(set(held.values())) == 4
    assert held[0, "test"] == tuple(hold_out(100, 0.2, 0, "test")[1])


def test_the_split_is_the_same_in_every_process_and_for_ever() -> None:
    code = "from canon.data.splits import hold_out; print(hold_out(20, 0.25, 7, 'test')[1].tolist())"
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": hash_seed}, check=True
        )
        assert run.stdout.strip() == str(hold_out(20, 0.25, 7, "test")[1].tolist()) == GOLDEN


GOLDEN = "[3, 6, 7, 12, 17]"


@pytest.mark.parametrize("n,share", [(1, 0.5), (10, 0.0)])
def test_nothing_to_hold_out(n: int, share: float) -> None:
    kept, held = hold_out(n, share, 0, "test")
    assert kept.tolist() == list(range(n)) and not len(held)
