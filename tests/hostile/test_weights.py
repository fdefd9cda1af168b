"""Weights that are written to in any way, and searches that share a network: nothing is stale, nothing disturbs.

A copy of weights (packed for oneDNN, laid out for compiled kernels) lives inside `with frozen(network):` alone, and
what a search remembers is in its own state. Both are compared with a copy of the network that has never been used.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import canon.nn
import canon.systems
from canon import registry
from canon.nn import decoding, packed
from canon.nn.frozen import frozen
from canon.nn.graphs import Recorder
from canon.nn.packed import Linear
from canon.nn.ragged import Layout

VOCAB = 24
LAYOUT = Layout(torch.tensor([4, 3]))
TOKENS = torch.arange(4, 4 + LAYOUT.total)


def build(name: str, **sizes: Any) -> Any:
    torch.manual_seed(0)
    system, preset = registry.find(name)
    fields = system.load()[0].__dataclass_fields__
    words = {key: VOCAB for key in ("vocab_size", "source_vocab", "target_vocab") if key in fields}
    network = system.load()[1](system.configure(preset, {**words, **sizes}))
    return network.eval()


# What a network computes of its weights, by name.


def through_encoder(network: Any) -> Tensor:
    return network.encode(TOKENS, LAYOUT)[-1]


def through_pairs(network: Any) -> Tensor:
    return through_steps(network, pairs_start(network, 0))


def through_text(network: Any) -> Tensor:
    return through_steps(network, text_start(network, 0))


def through_steps(network: Any, start: decoding.Start) -> Tensor:
    """Logits after tokens that do not depend on what comes out."""
    first, state = network.step(TOKENS[:2], start.state)
    return torch.cat([first, network.step(TOKENS[2:4], state)[0]])


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[Any], Tensor]]] = {
    "Linear": (lambda: Linear(16, 16), lambda network: network(torch.ones(3, 16))),
    "bert:tiny": (lambda: build("bert:tiny"), through_encoder),
    "transformer encoder": (
        lambda: build("transformer:tiny"),
        lambda network: network.encode(TOKENS, LAYOUT)["memory"] * LAYOUT.mask[:, :, None],
    ),
    "transformer decoder": (lambda: build("transformer:tiny"), through_pairs),
    "t5": (lambda: build("t5:tiny"), through_pairs),
    "gpt2": (lambda: build("gpt2:tiny"), through_text),
    "transformer-xl": (lambda: build("transformer-xl:tiny"), through_text),
    "bahdanau": (lambda: build("bahdanau:tiny"), through_pairs),
}


def by_optimizer(network: nn.Module, **options: Any) -> None:
    for parameter in network.parameters():
        parameter.grad = torch.linspace(-1, 1, parameter.numel()).view_as(parameter)
    torch.optim.SGD(network.parameters(), lr=0.3, **options).step()


def by_hook(network: nn.Module) -> None:
    """A parametrisation of torch.nn.utils, which gives another weight than the one that is stored."""
    for module in list(network.modules()):
        if isinstance(module, nn.Linear):
            torch.nn.utils.parametrizations.weight_norm(module)
            with torch.no_grad():
                module.parametrizations.weight.original0.mul_(2)  # type: ignore[union-attr, operator]


def every(write: Callable[[Tensor], object]) -> Callable[[nn.Module], None]:
    def all_of(network: nn.Module) -> None:
        with torch.no_grad():
            for parameter in network.parameters():
                write(parameter)

    return all_of


def by_numpy(parameter: Tensor) -> None:
    view = parameter.detach().numpy()
    view *= 1.5


def by_new_memory(parameter: Tensor) -> None:
    parameter.data = parameter.data * 1.5


WRITES: dict[str, Callable[[Any], object]] = {
    "in place": every(lambda p: p.mul_(1.5)),
    ".data": every(lambda p: p.data.mul_(1.5)),
    ".data replaced": every(by_new_memory),
    "numpy view": every(by_numpy),
    "copy_": every(lambda p: p.copy_(p * 1.5)),
    "under inference mode": torch.inference_mode()(every(lambda p: p.mul_(1.5))),
    "vector": lambda network: torch.nn.utils.vector_to_parameters(
        1.5 * torch.nn.utils.parameters_to_vector(network.parameters()).detach(), network.parameters()
    ),
    "load_state_dict": lambda network: network.load_state_dict({k: 1.5 * x for k, x in network.state_dict().items()}),
    "load_state_dict, assigned": lambda network: network.load_state_dict(
        {k: 1.5 * x for k, x in network.state_dict().items()}, assign=True
    ),
    "for-loop optimiser": lambda network: by_optimizer(network, foreach=False),
    "foreach optimiser": lambda network: by_optimizer(network, foreach=True),
    "fused optimiser": lambda network: by_optimizer(network, fused=True),
    "parametrisation": by_hook,
}


@pytest.fixture
def packs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small weights are packed too."""
    monkeypatch.setattr(packed, "_LEAST", 0)


@torch.no_grad()
@pytest.mark.usefixtures("packs_all")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_write_is_missed(name: str, write: str) -> None:
    """Used frozen and not, then written to, then used again both ways: as a copy that was never used."""
    make, use = NETWORKS[name]
    network = make()
    before = use(network)
    with frozen(network):
        torch.testing.assert_close(use(network), before, rtol=1e-4, atol=1e-4)
    with torch.enable_grad():
        WRITES[write](network)
    wanted = use(copy.deepcopy(network))
    assert not torch.allclose(wanted, before, atol=1e-3), "the write changes what comes out"
    torch.testing.assert_close(use(network), wanted, rtol=0, atol=0)
    with frozen(network):
        torch.testing.assert_close(use(network), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("packs_all")
@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_of_a_copy_stays_on_a_module(name: str) -> None:
    """What is saved, copied or looked at is the same before and after."""
    make, use = NETWORKS[name]
    network = make()
    use(network)  # tables of places are made at the first use
    before = attributes(network)
    with torch.no_grad(), frozen(network):
        use(network)
    assert attributes(network) == before


def attributes(network: nn.Module) -> dict[str, Any]:
    """Everything that stands on modules: tensors by identity, the rest as it is."""
    return {
        f"{name}.{key}": (id(value), value.shape) if isinstance(value, Tensor) else repr(value)
        for name, module in network.named_modules()
        for key, value in vars(module).items()
    }


# Searches


def pairs_start(network: Any, which: int) -> decoding.Start:
    """Sources of another length and number for each search, and other limits."""
    layout = (LAYOUT, Layout(torch.tensor([2, 5, 3])))[which]
    tokens_N = torch.arange(4, 4 + layout.total)
    return decoding.begin(network, tokens_N, layout, ratio=1.0, extra=(4, 8)[which])


def text_start(network: Any, which: int) -> decoding.Start:
    prompt_BT = (TOKENS[:6].view(2, 3), TOKENS[:3].view(3, 1))[which]
    return decoding.begin_text(network, prompt_BT, (6, 9)[which], eos=-1)


def steps(network: Any, start: decoding.Start) -> Iterator[Tensor]:
    """Logits step by step, each for the likeliest token before."""
    state, token_B = start.state, start.token
    for _ in range(int(start.limit.max())):
        with torch.no_grad():
            logits_BV, state = network.step(token_B, state)
        token_B = logits_BV.argmax(1)
        yield logits_BV


DECODERS = {
    system.name: pairs_start if hasattr(cls, "init_state") and hasattr(cls, "encode") else text_start
    for system in registry.SYSTEMS
    if system.loop == "gradient" and hasattr(cls := system.load()[1], "step")
}


def test_the_table_has_all_that_decode() -> None:
    assert DECODERS.keys() >= {"transformer", "t5", "seq2seq", "bahdanau", "luong", "rnn-lm", "transformer-xl", "gpt2"}


@pytest.mark.parametrize("is_frozen", [False, True], ids=["plain", "frozen"])
@pytest.mark.parametrize("name", DECODERS)
def test_searches_in_turns(name: str, is_frozen: bool) -> None:
    """Two searches on one network, step by step in turns: each as it is alone on a network of its own."""
    start, network = DECODERS[name], build(f"{name}:tiny")
    with frozen(network if is_frozen else None):
        wanted = [list(steps(network, start(network, which))) for which in (0, 1)]
        begun = [steps(network, start(network, which)) for which in (0, 1)]
        values: list[list[Tensor]] = [[], []]
        while len(values[0]) < len(wanted[0]) or len(values[1]) < len(wanted[1]):
            for which in (0, 1):
                values[which] += [logits for logits in (next(begun[which], None),) if logits is not None]
    for mine, theirs in zip(values, wanted, strict=True):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", DECODERS)
def test_searches_in_threads(name: str) -> None:
    start, network = DECODERS[name], build(f"{name}:tiny")

    def search(which: int) -> Tensor:
        with frozen(network):
            return torch.stack([logits.sum() for logits in steps(network, start(network, which))])

    wanted = [search(which) for which in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        values = list(pool.map(search, [0, 1] * 3))
    for which, mine in enumerate(values):
        torch.testing.assert_close(mine, wanted[which % 2], rtol=0, atol=0)


@pytest.mark.parametrize("name", DECODERS)
def test_a_search_writes_nothing_on_modules(name: str) -> None:
    start, network = DECODERS[name], build(f"{name}:tiny")
    list(steps(network, start(network, 0)))
    before = attributes(network)
    with frozen(network):
        list(steps(network, start(network, 1)))
    assert attributes(network) == before


@pytest.mark.parametrize("name", ["gpt", "gpt2", "gpt3"])
def test_recorders_in_turns(name: str) -> None:
    """The memory of recorded steps belongs to the recorder: two on one network go on as each does alone."""
    network = build(f"{name}:tiny")

    def begun(which: int) -> Recorder:
        recorder = Recorder(network, (2, 3)[which], 12, torch.device("cpu"), every=2)
        recorder.begin((TOKENS[:6].view(2, 3), TOKENS[:3].view(3, 1))[which])
        return recorder

    wanted = [[recorder.advance() for _ in range(4)] for recorder in (begun(0), begun(1))]
    both = begun(0), begun(1)
    values = list(zip(*([recorder.advance() for recorder in both] for _ in range(4)), strict=True))
    torch.testing.assert_close([list(one) for one in values], wanted, rtol=0, atol=0)


# What a module may keep of its own, beside what __init__ makes.
KEPT = {
    ("Sinusoidal", "table"),  # a table of constants, longer when a longer one is asked for
    ("ELMo", "take_vocabulary"),  # the words, once, before anything is computed
    ("RowTable", "reset_parameters"),  # the weights, as torch.nn.Embedding's own
    ("Recurrent", "watched"),  # what steps carry, for as long as a with block watches them
}


def test_modules_write_nothing_on_themselves() -> None:
    """No method but __init__ assigns to an attribute of a module: what a call needs is passed along."""
    for package in (canon.nn, canon.systems):
        for result in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "kernel" not in result.name and not result.name.endswith("_cuda"):  # these need compilers
                importlib.import_module(result.name)
    classes = [cls for cls in every_class(nn.Module) if cls.__module__.startswith("canon.")]
    assert len(classes) > 80
    written = {(cls.__name__, method) for cls in classes for method in methods_that_assign(cls)}
    assert written == KEPT


def every_class(cls: type) -> set[type]:
    return set(cls.__subclasses__()).union(*map(every_class, cls.__subclasses__()))


def methods_that_assign(cls: type) -> Iterator[str]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    for method in body.body:
        if isinstance(method, ast.FunctionDef) and method.name != "__init__":
            stores = (node for node in ast.walk(method) if isinstance(node, ast.Attribute | ast.Subscript))
            if any(isinstance(node.ctx, ast.Store) and ast.unparse(node).startswith("self.") for node in stores):
                yield method.name
