"""CANON_KERNELS: what a user gets with kernels on and off is the same, and off needs neither numba nor a compiler."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from canon import kernels
from canon.contracts import Context, World
from canon.nn import choosing, packed
from canon.nn.attention.compiled import compiles
from canon.nn.decoding import beam, begin, greedy
from canon.nn.frozen import frozen
from canon.nn.packed import Packed
from canon.systems.words.word2vec import Word2Vec
from tests.kernels import runs
from tests.nn.test_compiled import build, sources

pytest.importorskip("numba")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what asks at each call; numba's kernels are compiled or not when their files are imported."""
    monkeypatch.setattr(kernels, "_ENABLED", False)


def python(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=given)


def numbers(result: Any) -> Iterator[float]:
    """All of a JSON value, but what the clock decides."""
    if isinstance(result, dict):
        for key in sorted(result):
            if "second" not in key and "memory" not in key:
                yield from numbers(result[key])
    elif isinstance(result, list):
        for value in result:
            yield from numbers(value)
    elif isinstance(result, int | float):
        yield result


def test_runs_are_the_same_on_and_off(tmp_path: Path) -> None:
    """Weights to 1e-5 of the largest, scores to 1e-4; files of vectors, which hold the weights, as their numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    runs.main(tmp_path / "on")
    torch.set_num_threads(before)
    blocked = f"import sys; sys.modules |= dict.fromkeys({('numba', 'llvmlite')!r}); "
    code = f"{blocked}from pathlib import Path; from tests.kernels import runs; runs.main(Path('off'))"
    outcome = python("-W", "error::RuntimeWarning", "-c", code, CANON_KERNELS="off")
    assert outcome.returncode == 0, outcome.stderr
    for name in runs.RUNS:
        both = [tmp_path / way / name for way in ("on", "off")]
        one, other = (load_file(path / "last" / "model.safetensors") for path in both)
        assert one.keys() == other.keys()
        for key, wanted in one.items():
            near = 1e-5 * max(np.abs(wanted).max(initial=0), 1e-3)
            np.testing.assert_allclose(other[key], wanted, rtol=0, atol=near, err_msg=f"{name} {key}")
        scores = [list(numbers(json.loads((path / "result.json").read_text()))) for path in both]
        assert len(scores[0]) > 3
        np.testing.assert_allclose(scores[1], scores[0], rtol=1e-4, err_msg=name)
    one, other = (np.loadtxt(tmp_path / way / "vectors.txt", skiprows=1, usecols=range(1, 17)) for way in ("on", "off"))
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)
    assert len((tmp_path / "on" / "vectors.bin").read_bytes()) == len((tmp_path / "off" / "vectors.bin").read_bytes())


@torch.no_grad()
@pytest.mark.parametrize("width", [1, 4])
def test_decoding_is_the_same(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    network, tokens = build(norm="pre", activation="gelu"), []
    for wanted in (True, False):
        monkeypatch.setattr(kernels, "_ENABLED", wanted)
        with frozen(network):
            assert compiles(network) == wanted
            start = begin(network, *sources([4, 2, 5]), max_length=9)
            actual = greedy(network.step, start) if width == 1 else beam(network.step, start, width)
        tokens.append(([actual[row, 0] for row in range(3)], actual.scores))
    assert tokens[0][0] == tokens[1][0]
    torch.testing.assert_close(tokens[0][1], tokens[1][1], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_choosing_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, banned = torch.randn(8, 5000, generator=torch.Generator().manual_seed(0)), torch.tensor([3, 8])
    gains, tokens = choosing.best(logits, banned, 5)
    monkeypatch.setattr(kernels, "_ENABLED", False)
    monkeypatch.setattr(choosing, "share", None)
    plain_gains, plain_tokens = choosing.best(logits, banned, 5)
    assert tokens.equal(plain_tokens)
    torch.testing.assert_close(gains, plain_gains, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not packed._AVAILABLE, reason="this torch has no oneDNN")
@torch.no_grad()
def test_packed_layers_stand_aside(off: None) -> None:
    layer, x = torch.nn.Linear(512, 512), torch.randn(3, 512)
    assert Packed(layer)._copy is None and Packed(layer)(x, layer.weight, layer.bias).equal(layer(x))


def test_a_gpu_learns_no_word_vectors(off: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.systems.test_word2vec import learner_of, topics

    monkeypatch.setattr("canon.systems.words.word2vec._LONG", 100)
    learner: Word2Vec = learner_of(topics(20))
    learner.context = Context(world=World("cuda"))
    assert not learner.on_gpu()
    monkeypatch.setattr(kernels, "_ENABLED", True)
    assert learner.on_gpu()


@pytest.mark.parametrize("words", [("train", "words/word2vec", "--out", "run"), ("list", "systems"), ("--help",)])
def test_another_value_is_one_sentence(words: tuple[str, ...]) -> None:
    """By whatever verb."""
    outcome = python("-m", "canon", *words, CANON_KERNELS="no")
    assert outcome.returncode == 2 and not outcome.stdout and not Path("run").exists()
    assert outcome.stderr == 'canon: The environment variable CANON_KERNELS must be on or off, got "no".\n'


@pytest.mark.parametrize("path", sorted((ROOT / "canon/kernels").glob("*/*.py")), ids=lambda path: path.name)
def test_each_kernel_names_its_plain_version_and_a_test(path: Path) -> None:
    text = path.read_text()
    if not re.search(r"^ *@(njit|part|_compiled|intrinsic|triton\.jit)\b", text, re.MULTILINE):
        return
    documentation = ast.get_docstring(ast.parse(text)) or ""
    if path.name not in ("compiler.py", "lanes.py"):  # what kernels are made of
        assert "Plain version: " in documentation
        assert re.findall(r"tests/\S+?\.py", documentation)
    for test in re.findall(r"(?:tests|canon)/\S+?\.py", documentation):
        assert (ROOT / test).is_file(), test


def test_the_switch_itself_imports_nothing() -> None:
    code = "import sys, canon.kernels; print({'torch', 'numba', 'numpy'} & set(sys.modules))"
    assert python("-c", code).stdout.strip() == "set()"
