"""Sizes that no machine can hold, or that are no sizes: one sentence, before anything is built, decoded or drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from math import inf, nan
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
import torch

import canon as library
from canon import registry
from canon.errors import CanonError
from canon.nn import limits
from canon.nn.choosing import Sampling
from canon.nn.decoding import Start, beam, check_beam, greedy
from canon.use import generate as generating
from canon.use.translate import Translator

HUGE = 10**30
MANY = 10**8

# System, settings, and what the sentence names.
SYSTEMS: list[tuple[str, dict[str, Any], str]] = [
    ("mlp", {"hidden": [10**6, 10**6]}, "of memory"),
    ("mlp", {"hidden": [2**31 - 1, 2**31 - 1]}, "of these sizes"),
    ("mlp", {"hidden": [HUGE]}, "system.hidden.0"),
    ("mlp", {"hidden": [1] * 2000}, "system.hidden"),
    ("mlp", {"shape": [-1]}, "system.shape.0"),
    ("mlp", {"shape": [0]}, "system.shape.0"),
    ("linear-regression", {"shape": [-1]}, "system.shape.0"),
    ("gan", {"shape": [1, -8, 8]}, "system.shape.1"),
    ("resnet", {"stages": [MANY]}, "system.stages.0"),
    ("resnet", {"stages": [1] * 1000}, "system.stages"),
    ("vgg", {"blocks": [MANY]}, "system.blocks.0"),
    ("densenet", {"blocks": [MANY]}, "system.blocks.0"),
    ("googlenet", {"width": 1e300}, "system.width"),
    ("rnn-lm", {"num_layers": MANY}, "system.num_layers"),
    ("rnn-lm", {"hidden": 2**31 - 1}, "of these sizes"),
    ("seq2seq", {"beam": MANY}, "system.beam"),
    ("transformer", {"num_layers": MANY}, "system.num_layers"),
    ("transformer", {"dim": 2**31 - 8, "num_heads": 1}, "of these sizes"),
    ("transformer", {"beam": MANY}, "system.beam"),
    ("transformer", {"max_length": 10**12}, "system.max_length"),
    ("transformer", {"length_penalty": 1e300}, "system.length_penalty"),
    ("transformer", {"length_penalty": nan}, "system.length_penalty"),
    ("transformer-xl", {"num_layers": MANY}, "system.num_layers"),
    ("xlnet", {"num_layers": MANY}, "system.num_layers"),
    ("elmo", {"num_highway": MANY}, "system.num_highway"),
    ("t5", {"decoder_layers": MANY}, "system.decoder_layers"),
    ("bert", {"num_layers": MANY}, "system.num_layers"),
    ("gpt2", {"vocab_size": 2**31 - 1, "dim": 12 * 10**7}, "of these sizes"),
    ("ngram", {"order": MANY}, "system.order"),
]


@pytest.mark.parametrize(("name", "changes", "named"), SYSTEMS, ids=lambda one: str(one)[:40])
def test_a_system_of_impossible_sizes(name: str, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(CanonError, match=named.replace(".", r"\.")) as caught:
        library.create(name, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("system", registry.SYSTEMS, ids=lambda system: system.name)
def test_every_whole_number_has_an_upper_bound(system: registry.System) -> None:
    hints = get_type_hints(system.load()[0])
    whole = [field.name for field in fields(system.load()[0]) if hints[field.name] in (int, tuple[int, ...])]
    for name in whole:
        with pytest.raises(CanonError, match=f"system.{name}"):
            system.configure("", {name: HUGE if hints[name] is int else [HUGE]})


def test_memory_is_counted_before_weights_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where nothing is allocated; and the first weights do not depend on the counting."""
    system, _ = registry.find("mlp")
    torch.manual_seed(0)
    wanted = system.load()[1](system.configure("tiny", {}))
    torch.manual_seed(0)
    actual = library.create("mlp:tiny")
    assert all(torch.equal(one, other) for one, other in zip(actual.parameters(), wanted.parameters(), strict=True))
    monkeypatch.setattr(limits, "memory", lambda _device: 1000)
    with pytest.raises(CanonError, match=r"^mlp of these sizes needs 0.0 GB of memory, and there are 0.0 GB; choose"):
        library.create("mlp:tiny")
    with torch.device("meta"):
        assert library.create("mlp:tiny")


def test_memory_of_this_machine() -> None:
    assert 1 << 20 < limits.memory() < 1 << 62


# What is called, and what the sentence names.
NUMBERS: dict[str, tuple[Callable[[], object], str]] = {
    **{
        f"temperature {value}": ((lambda value=value: Sampling(value)), "temperature")  # type: ignore[misc]
        for value in (1e-300, nan, inf, -1, 0.0, 1e300, HUGE, "1", None)
    },
    **{f"top_k {value}": ((lambda value=value: Sampling(top_k=value)), "top_k") for value in (-1, 1.5, HUGE)},  # type: ignore[misc]
    **{f"top_p {value}": ((lambda value=value: Sampling(top_p=value)), "top_p") for value in (0, nan, 1.1)},  # type: ignore[misc]
    **{f"beam {value}": ((lambda value=value: check_beam(value, 0.6)), "beam") for value in (MANY, 0, -1, 2.0, True)},  # type: ignore[misc]
    **{
        f"length_penalty {value}": ((lambda value=value: check_beam(4, value)), "length_penalty")  # type: ignore[misc]
        for value in (nan, inf, -inf, 1e300, "0.6")
    },
    "n_best": (lambda: check_beam(4, 0.6, 5), "n_best"),
    "n_best 10^8": (lambda: check_beam(4, 0.6, MANY), "n_best"),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_of_decoding(case: str) -> None:
    call, named = NUMBERS[case]
    with pytest.raises(CanonError, match=f"^{named} must be a (whole )?number from .*, got "):
        call()


def start(state: dict[str, Any] | None = None) -> Start:
    return Start(state or {}, torch.zeros(2, dtype=torch.int64), torch.tensor([3, 3]))


def never(*_: object) -> Any:
    raise AssertionError("work has begun")


@pytest.mark.parametrize(
    "search",
    [
        lambda: beam(never, start(), MANY),
        lambda: beam(never, start(), 4, nan),
        lambda: greedy(never, start(), nan),
        lambda: beam(never, start({"cache": torch.empty(2, 1 << 50, device="meta")}), 1000),
    ],
    ids=["beam", "penalty", "greedy penalty", "memory"],
)
def test_a_search_is_refused_before_its_first_step(search: Callable[[], object]) -> None:
    with pytest.raises(CanonError):
        search()


@pytest.mark.parametrize("changes", [{"beam": MANY}, {"length_penalty": nan}, {"n_best": MANY}, {"batch": 0}], ids=str)
def test_a_translator_is_refused_when_it_is_made(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canon.use.translate.Sides.of", lambda _model: None)
    recipe = SimpleNamespace(config=SimpleNamespace(beam=4, length_penalty=0.6))
    with pytest.raises(CanonError, match=next(iter(changes))):
        Translator(SimpleNamespace(run=SimpleNamespace(recipe=recipe)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [10**11, HUGE, 0, -1, 1.5])
def test_samples_that_cannot_be_held(count: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generating, "_task", never_run)
    model = SimpleNamespace(network=torch.nn.Linear(2, 2), schema=SimpleNamespace(shape=(3, 256, 256)))
    with pytest.raises(CanonError, match="count"):
        generating.generate(model, count)  # type: ignore[arg-type]


def never_run(_model: object) -> Any:
    return SimpleNamespace(run=never)
