"""The room's public names against its promise: light to import, every name there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from canon import metrics


def test_importing_the_room_loads_neither_torch_nor_scikit_learn_nor_numpy_code_of_ours():
    code = (
        "import sys, canon.metrics\n"
        "heavy = {'torch', 'sklearn', 'scipy', 'sacrebleu'} & set(sys.modules)\n"
        "ours = [m for m in sys.modules if m.startswith('canon.metrics.')]\n"
        "print(sorted(heavy), ours)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[] []"


def test_using_a_metric_loads_neither_torch_nor_scikit_learn():
    code = (
        "import sys\nfrom canon.metrics import auc, ndcg\n"
        "auc([0, 1], [0.1, 0.2]); ndcg([1, 0], [0.1, 0.2])\n"
        "print(sorted({'torch', 'sklearn', 'scipy'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


@pytest.mark.parametrize("name", metrics.__all__)
def test_every_public_name_exists_and_is_documented(name):
    value = getattr(metrics, name)
    assert name in dir(metrics)
    if callable(value):
        assert value.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'ndgc'"):
        _ = metrics.ndgc
