"""XLNet: against transformers' with the same random weights, the masks by brute force, memory, sizes, and learning."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from canon.errors import CanonError
from canon.interop import huggingface_xlnet
from canon.nn.attention.two_stream import look
from canon.nn.counting import count_parameters
from canon.nn.ragged import Layout
from canon.registry import find
from canon.systems.pretrained.xlnet import Config, XLNet
from tests.parity.huggingface import transformers_module
from tests.systems.pretrained_checks import logits_of, losses_of

VOCAB = 37
SIZES: dict[str, Any] = {"vocab_size": VOCAB, "dim": 20, "num_layers": 3, "num_heads": 2, "hidden": 28}
LENGTHS = [7, 4, 9]


def build(**changes: Any) -> tuple[XLNet, Config]:
    torch.manual_seed(0)
    config = Config(**{**SIZES, **changes})
    network = XLNet(config)
    with torch.no_grad():  # weights large enough for attention to matter, norms and biases away from where they begin
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network.eval(), config


def their(network: XLNet, config: Config) -> Any:
    """transformers' model with our weights, by our own conversion; every tensor of theirs is filled."""
    library = transformers_module()
    model = library.XLNetLMHeadModel(library.XLNetConfig(**huggingface_xlnet.config_to(asdict(config)))).eval()
    state = huggingface_xlnet.tensors_to(network.state_dict(), asdict(config))
    model.load_state_dict({**state, "lm_loss.weight": state["transformer.word_embedding.weight"]})
    return model


def batch(ordered: bool = True) -> tuple[Tensor, Layout, Tensor, Tensor, Tensor, Tensor]:
    """Tokens, their layout, segments, ranks, the places predicted and what is there.

    ordered: each sequence has a permutation, and the last of it are predicted. Otherwise what is not predicted has
    rank 0, so that it sees all of its kind.
    """
    torch.manual_seed(1)
    layout = Layout(torch.tensor(LENGTHS))
    token_N = torch.randint(VOCAB, (layout.total,))
    segment_N = torch.cat([(torch.arange(length) * 3 // length) for length in LENGTHS])
    rank_N = torch.cat([torch.randperm(length) for length in LENGTHS])
    places_M = (rank_N >= layout.lengths[layout.rows] - 3).nonzero()[:, 0]
    if not ordered:
        rank_N = torch.zeros_like(rank_N).index_copy(0, places_M, rank_N[places_M])
    return token_N, layout, segment_N, rank_N, places_M, token_N[places_M]


def their_inputs(layout: Layout, token_N: Tensor, rank_N: Tensor, places_M: Tensor) -> dict[str, Tensor]:
    """perm_mask (1: not seen) and target_mapping of transformers, filled in one by one."""
    length, most = layout.max_length, max(torch.bincount(layout.rows[places_M]).tolist())
    perm_mask = torch.zeros(layout.size, length, length)
    target_mapping = torch.zeros(layout.size, most, length)
    start = 0
    for b, own in enumerate(layout.lengths.tolist()):
        rank = rank_N[start : start + own].tolist()
        asked = [place - start for place in places_M.tolist() if start <= place < start + own]
        for i, j in itertools.product(range(own), range(own)):
            # Their mask is of the query stream, and content sees itself besides.
            hidden = rank[j] >= rank[i] if i in asked else rank[j] > rank[i]
            perm_mask[b, i, j] = float(hidden)
        for p, place in enumerate(asked):
            target_mapping[b, p, place] = 1
        start += own
    return {
        "input_ids": layout.pad(token_N),
        "attention_mask": layout.mask.float(),
        "perm_mask": perm_mask,
        "target_mapping": target_mapping,
    }


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("segments", [True, False])
def test_transformers(ordered: bool, segments: bool) -> None:
    """Logits of the query stream, losses and a loss's gradients, on unequal lengths that transformers pads."""
    network, config = build()
    model = their(network, config)
    token_N, layout, segment_N, rank_N, places_M, target_M = batch(ordered)
    given = {"rank_N": rank_N, "places_M": places_M, "segment_N": segment_N if segments else None}
    theirs = their_inputs(layout, token_N, rank_N, places_M)
    more = {"token_type_ids": layout.pad(segment_N)} if segments else {}
    wanted = model(**theirs, **more).logits[theirs["target_mapping"].sum(-1) > 0]
    torch.testing.assert_close(logits_of(network, token_N, layout, **given), wanted, rtol=1e-5, atol=1e-5)
    actual = losses_of(network, target_M, token_N, layout, **given)
    losses_M = F.cross_entropy(wanted, target_M, reduction="none")
    torch.testing.assert_close(actual.losses, losses_M.detach(), rtol=1e-5, atol=1e-5)
    actual.total.backward()
    losses_M.sum().backward()
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in model.named_parameters()
    }
    actual = huggingface_xlnet.tensors_from(gradients, asdict(config))
    for name, parameter in network.named_parameters():
        own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert bool(own.any()) == (segments or "segment" not in name)
        assert torch.allclose(own, actual[name], rtol=1e-4, atol=1e-5), name


def test_transformers_encode() -> None:
    """The content stream alone, seeing everything: the states of every layer; and the last token's."""
    network, config = build()
    model = their(network, config)
    token_N, layout, segment_N, *_ = batch()
    for more, own in (({}, None), ({"token_type_ids": layout.pad(segment_N)}, segment_N)):
        said = model.transformer(
            layout.pad(token_N), attention_mask=layout.mask.float(), output_hidden_states=True, **more
        )
        encoded = network.encode(token_N, layout, own)
        assert len(encoded) == 4
        for ours, theirs in zip(encoded, said.hidden_states, strict=True):
            torch.testing.assert_close(ours, layout.unpad(theirs), rtol=1e-5, atol=1e-5)
    ends = torch.tensor(LENGTHS).cumsum(0) - 1
    assert torch.equal(network.pool(encoded[-1], layout), encoded[-1][ends])


def test_transformers_memory() -> None:
    """A text in three segments, the memory shorter than two of them: logits and memories of transformers."""
    network, config = build(memory=8)
    model = their(network, config)
    layout = Layout(torch.tensor([6, 6]))
    torch.manual_seed(1)
    memory: Tensor | None = None
    mems = None
    for _ in range(3):
        token_N, segment_N = torch.randint(VOCAB, (12,)), torch.randint(2, (12,))
        rank_N = torch.cat([torch.randperm(6), torch.randperm(6)])
        places_M = (rank_N >= 3).nonzero()[:, 0]
        outputs = network(token_N, layout, segment_N=segment_N, rank_N=rank_N, places_M=places_M, memory=memory)
        inputs = their_inputs(layout, token_N, rank_N, places_M)
        said = model(**inputs, token_type_ids=segment_N.view(2, 6), mems=mems, use_mems=True)
        logits_MV = network.logits(outputs["hidden"])
        torch.testing.assert_close(logits_MV, said.logits.flatten(0, 1), rtol=1e-5, atol=1e-5)
        memory, mems = outputs["memory"], said.mems
        torch.testing.assert_close(memory, torch.stack(mems, 0).permute(2, 0, 1, 3), rtol=1e-5, atol=1e-5)
        assert not memory.requires_grad
    assert memory is not None and memory.shape == (2, 3, 8, 20)


@pytest.mark.parametrize("memory", [0, 2])
def test_masks_by_brute_force(memory: int) -> None:
    """Content sees ranks up to its own, the query below its own, both all memory, nobody padding."""
    _, layout, segment_N, rank_N, places_M, _ = batch(ordered=False)
    asked = Layout(torch.bincount(layout.rows[places_M], minlength=3))
    sight = look(layout, 8, rank_N, (places_M, asked), segment_N, memory)
    assert sight.query is not None and sight.content.same is not None and sight.query.same is not None
    tokens = list(
        zip(layout.rows.tolist(), layout.positions.tolist(), rank_N.tolist(), segment_N.tolist(), strict=True)
    )
    of_query = asked.pad(places_M)
    for b, length in enumerate(LENGTHS):
        own = [(place, rank, segment) for row, place, rank, segment in tokens if row == b]
        for i, (_, rank, segment) in enumerate(own):
            seen = [True] * memory + [other <= rank for _, other, _ in own] + [False] * (9 - length)
            assert sight.content.seen[b, i].tolist() == seen
            same = [segment == 0] * memory + [other == segment for _, _, other in own]
            assert sight.content.same[b, i, : memory + length].tolist() == same
        for p in range(int(asked.lengths[b])):
            _, place, rank, segment = tokens[int(of_query[b, p])]
            seen = [True] * memory + [other < rank for _, other, _ in own] + [False] * (9 - length)
            assert sight.query.seen[b, p].tolist() == seen and not seen[memory + place]
            same = [segment == 0] * memory + [other == segment for _, _, other in own]
            assert sight.query.same[b, p, : memory + length].tolist() == same


def test_a_prediction_depends_on_what_came_before_and_on_its_place() -> None:
    """Other tokens at ranks not below: the same logits. At ranks below, or at another place: others."""
    network, _ = build()
    layout = Layout(torch.tensor([6]))
    token_N, rank_N = torch.randint(VOCAB, (6,)), torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        logits_NV = logits_of(network, token_N, layout, rank_N=rank_N)
        for changed in range(6):
            other_N = token_N.clone()
            other_N[changed] = (other_N[changed] + 1) % VOCAB
            moved = (logits_of(network, other_N, layout, rank_N=rank_N) - logits_NV).abs().amax(1) > 1e-6
            assert moved.tolist() == [bool(rank_N[changed] < rank_N[i]) for i in range(6)]
        # Places 0 and 2 come last, one at a time: both see the same tokens, from where they are.
        both = [logits_of(network, token_N, layout, rank_N=(torch.arange(6) == i).long() * 9)[i] for i in (0, 2)]
    assert not torch.allclose(both[0], both[1])


def test_without_ranks() -> None:
    """Some places: predicted from the others, whatever is at any of these places. All: each from those to its left."""
    network, _ = build()
    token_N, layout, _, _, places_M, _ = batch()
    other_N = token_N.index_copy(0, places_M, (token_N[places_M] + 1) % VOCAB)
    with torch.no_grad():
        one, two = (logits_of(network, text_N, layout, places_M=places_M) for text_N in (token_N, other_N))
        assert torch.equal(one, two)
        for m, place in enumerate(places_M.tolist()):  # in an order that has all of them last, each in turn the first
            rank_N = torch.zeros_like(token_N).index_fill(0, places_M, 2).index_fill(0, torch.tensor(place), 1)
            alone = logits_of(network, token_N, layout, rank_N=rank_N, places_M=places_M[m : m + 1])
            torch.testing.assert_close(alone[0], one[m], rtol=1e-5, atol=1e-5)
        left = logits_of(network, token_N, layout)
        torch.testing.assert_close(left, logits_of(network, token_N, layout, rank_N=layout.positions))


def test_nothing_to_see() -> None:
    """A token that comes first, without memory: the same logits whatever the text is."""
    network, _ = build(num_layers=1)
    layout, rank_N = Layout(torch.tensor([4])), torch.tensor([2, 0, 1, 3])
    places_M = torch.tensor([1])
    texts = [torch.randint(VOCAB, (4,)) for _ in range(2)]
    one, two = (logits_of(network, text, layout, rank_N=rank_N, places_M=places_M) for text in texts)
    assert one.isfinite().all() and torch.equal(one, two)


def test_sequences_of_a_batch_do_not_touch() -> None:
    network, _ = build()
    token_N, layout, segment_N, rank_N, places_M, _ = batch()
    together = logits_of(network, token_N, layout, segment_N=segment_N, rank_N=rank_N, places_M=places_M)
    counts = torch.bincount(layout.rows[places_M]).tolist()
    known = logits_of(
        network,
        token_N,
        layout,
        segment_N=segment_N,
        rank_N=rank_N,
        places_M=places_M,
        places_lengths=torch.tensor(counts),
    )
    assert torch.equal(known, together)
    start = 0
    for length, part in zip(LENGTHS, together.split(counts), strict=True):
        own = slice(start, start + length)
        places = places_M[(places_M >= start) & (places_M < start + length)] - start
        alone = logits_of(
            network,
            token_N[own],
            Layout(torch.tensor([length])),
            segment_N=segment_N[own],
            rank_N=rank_N[own],
            places_M=places,
        )
        torch.testing.assert_close(part, alone, rtol=1e-5, atol=1e-5)
        start += length


@pytest.mark.parametrize(("preset", "published"), [("base", 116_718_336 + 32_000), ("large", 360_268_800 + 32_000)])
def test_published_sizes(preset: str, published: int) -> None:
    """The released models' parameters and the head's bias, as transformers counts them."""
    system, _ = find(f"xlnet:{preset}")
    config = system.configure(preset, {})
    library = transformers_module()
    with torch.device("meta"):
        actual = count_parameters(XLNet(config))
        table = huggingface_xlnet.config_to(asdict(config))
        theirs = library.XLNetLMHeadModel(library.XLNetConfig(**table)).num_parameters()
    assert actual == published == theirs


def test_config_and_tensors_there_and_back() -> None:
    """canon's to theirs to canon's: the same settings and the same numbers; XLNetModel's, which have no head, too."""
    network, config = build(activation="gelu-tanh", memory=5)
    settings = asdict(config)
    table = huggingface_xlnet.config_to(settings)
    back = huggingface_xlnet.config_from(table)
    assert {key: settings[key] for key in back} == back
    tensors = huggingface_xlnet.tensors_to(network.state_dict(), settings)
    again = huggingface_xlnet.tensors_from(tensors, back)
    assert again.keys() == network.state_dict().keys()
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, again[name]), name
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items() if "lm_loss" not in name}
    assert not huggingface_xlnet.FAMILY.take(plain, table, "file").tensors["head.bias"].any()
    del plain["layer.2.rel_attn.r"]
    with pytest.raises(CanonError, match=r"1 missing \(transformer\.layer\.2\.rel_attn\.r\)"):
        huggingface_xlnet.FAMILY.take(plain, table, "file")
    for wrong, said in (
        ({"attn_type": "uni"}, "attn_type is 'uni', which canon does not"),
        ({"ff_activation": "silu"}, "ff_activation"),
    ):
        with pytest.raises(CanonError, match=said):
            huggingface_xlnet.config_from(table | wrong)


def test_dropout_only_while_training() -> None:
    token_N, layout, _, rank_N, *_ = batch()
    for changes in ({"dropout": 0.5}, {"dropout": 0.0, "attention_dropout": 0.5}):
        network, _ = build(**changes)
        one, two = (logits_of(network, token_N, layout, rank_N=rank_N) for _ in range(2))
        assert torch.equal(one, two)
        network.train()
        one, two = (logits_of(network, token_N, layout, rank_N=rank_N) for _ in range(2))
        assert not torch.equal(one, two)


def test_learns_to_fill_in(tmp_path: Path) -> None:
    """Counting, a third of the tokens predicted in random orders: the loss falls, and a copy names what is asked."""
    torch.manual_seed(0)
    config = Config(
        vocab_size=20, dim=32, num_layers=2, num_heads=4, hidden=64, dropout=0.0, attention_dropout=0.0, eps=1e-6
    )
    network = XLNet(config)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    layout = Layout(torch.full((32,), 6))

    def texts() -> tuple[Tensor, Tensor, Tensor]:
        token_N = (torch.randint(14, (32, 1)) + torch.arange(6)).flatten()
        rank_N = torch.cat([torch.randperm(6) for _ in range(32)])
        return token_N, rank_N, (rank_N >= 4).nonzero()[:, 0]

    losses = []
    for _ in range(350):
        token_N, rank_N, places_M = texts()
        losses_M = losses_of(network, token_N[places_M], token_N, layout, rank_N=rank_N, places_M=places_M)
        loss = losses_M.total / len(places_M)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 2.5 and losses[-1] < 0.2
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    copy = XLNet(config)
    copy.load_state_dict(load_file(tmp_path / "model.safetensors"))
    token_N, rank_N, places_M = texts()
    said = logits_of(copy.eval(), token_N, layout, rank_N=rank_N, places_M=places_M).argmax(1)
    assert (said == token_N[places_M]).float().mean() > 0.95
