"""T5: against transformers' with the same random weights, step by step, published sizes, and learning."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from canon.errors import CanonError
from canon.interop import huggingface_t5
from canon.nn import decoding
from canon.nn.attention import compiled
from canon.nn.counting import count_parameters
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from canon.registry import find
from canon.systems.pretrained.t5 import T5, Config
from tests.parity.huggingface import transformers_module
from tests.systems.pretrained_checks import logits_of, losses_of

VOCAB = 41
# Heads that do not divide dim, stacks of unequal depth, distances beyond the last bucket.
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "dim": 24,
    "num_layers": 2,
    "decoder_layers": 3,
    "num_heads": 3,
    "head_dim": 10,
    "hidden": 36,
    "num_buckets": 8,
    "max_distance": 12,
}
KINDS: dict[str, dict[str, Any]] = {"1.0": {}, "1.1": {"activation": "gated-gelu", "tie": False}}
LENGTHS = [5, 17, 1, 9], [4, 2, 15, 7]


def build(kind: str = "1.0", **changes: Any) -> tuple[T5, Config]:
    torch.manual_seed(0)
    config = Config(**{**SIZES, **KINDS[kind], **changes})
    network = T5(config)
    with torch.no_grad():  # norms away from where they begin
        for name, parameter in network.named_parameters():
            if "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval(), config


@pytest.fixture(params=["modules", "kernels"])
def decoded_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """In what a network decodes: as it is, or frozen, where compiled kernels do it on a CPU."""
    if request.param == "modules":
        return lambda network: nullcontext()
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "_WORTH", 1)
    return frozen


def batch(lengths: tuple[list[int], list[int]] = LENGTHS) -> tuple[Tensor, Layout, Tensor, Layout]:
    torch.manual_seed(1)
    source, target = (Layout(torch.tensor(of)) for of in lengths)
    return torch.randint(2, VOCAB, (source.total,)), source, torch.randint(2, VOCAB, (target.total,)), target


def their(network: T5, config: Config) -> Any:
    """transformers' model with our weights, by our own conversion; every tensor of theirs is filled."""
    library = transformers_module()
    table = huggingface_t5.config_to(asdict(config))
    settings = library.T5Config(**table, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    model = library.T5ForConditionalGeneration(settings).eval()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())  # not tied, whatever it says
    state = huggingface_t5.tensors_to(network.state_dict(), asdict(config))
    tied = dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), state["shared.weight"])
    model.load_state_dict({"lm_head.weight": state["shared.weight"]} | state | tied)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_transformers(kind: str) -> None:
    """Hidden states of every layer, logits, and a loss's gradients, on unequal lengths that transformers pads."""
    network, config = build(kind)
    model = their(network, config)
    source_N, source, target_M, target = batch()
    label_M = torch.randint(VOCAB, target_M.shape)
    said = model(
        input_ids=source.pad(source_N),
        attention_mask=source.mask,
        decoder_input_ids=target.pad(target_M),
        output_hidden_states=True,
    )
    logits_MV = target.unpad(said.logits)
    encoded = network.encode(source_N, source)
    assert len(encoded) == len(said.encoder_hidden_states) == 3
    for ours, theirs in zip(encoded, said.encoder_hidden_states, strict=True):
        torch.testing.assert_close(ours, source.unpad(theirs), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits_of(network, source_N, source, target_M, target), logits_MV, rtol=1e-5, atol=1e-5)
    found_losses = losses_of(network, label_M, source_N, source, target_M, target)
    losses_M = F.cross_entropy(logits_MV, label_M, reduction="none")
    torch.testing.assert_close(found_losses.losses, losses_M.detach(), rtol=1e-5, atol=1e-5)
    assert torch.equal(found_losses.right, logits_MV.argmax(-1) == label_M)
    found_losses.total.backward()
    losses_M.sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    if config.tie:  # they were untied above: the two gradients of one matrix
        gradients["shared.weight"] = gradients["shared.weight"] + gradients.pop("lm_head.weight")
    wanted = huggingface_t5._names(asdict(config))
    for name, parameter in network.named_parameters():
        theirs = torch.cat([gradients[part] for part in wanted[name]])
        assert parameter.grad is not None and torch.allclose(parameter.grad, theirs, rtol=1e-4, atol=1e-5), name


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_greedy_decoding_is_that_of_transformers(kind: str, decoded_by: Any) -> None:
    """Token for token, at most 30 of each of twelve sources, of which some end before."""
    network, config = build(kind, num_layers=3, decoder_layers=2)  # their cache knows no deeper decoder
    with torch.no_grad():  # weights at which it does not say the same token for ever
        network.embedding.token.weight.mul_(0.1)
        for parameter in network.decoder.parameters():
            parameter.mul_(3)
    model = their(network, config)
    end = 20  # a token that some of them say
    source_N, source, _, _ = batch((3 * LENGTHS[0], [1]))
    asked = {
        "attention_mask": source.mask,
        "max_new_tokens": 30,
        "do_sample": False,
        "num_beams": 1,
        "eos_token_id": end,
    }
    said = model.generate(source.pad(source_N), **asked)[:, 1:].tolist()
    with decoded_by(network):
        start = decoding.begin(network, source_N, source, max_length=30, ratio=0, extra=30, forbid=(), bos=0, eos=end)  # type: ignore[arg-type]
        assert start.own_threads == (decoded_by is frozen)
        actual = decoding.greedy(network.step, start)
    for row, theirs in enumerate(said):
        ends = theirs.index(end) if end in theirs else len(theirs)
        assert actual[row, 0] == theirs[:ends]
        assert bool(actual.ended[row, 0]) == (end in theirs)
    assert len({token for row in said for token in row}) > 8 and 0 < int(actual.ended.sum()) < 12


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_states_are_those_of_the_modules(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every layer of the encoder, for texts of unequal length, one of them empty."""
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "_WORTH", 1)
    network, _ = build(kind)
    source_N, source, _, _ = batch(([5, 17, 0, 1, 40], [1]))
    wanted = network.encode(source_N, source)
    with frozen(network):
        states = network.encode(source_N, source)
    assert len(states) == len(wanted) == 3
    for mine, theirs in zip(states, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [LENGTHS, ([3, 3], [6, 2]), ([0, 4], [3, 3])], ids=str)
@torch.no_grad()
def test_steps_equal_teacher_forcing(kind: str, lengths: tuple[list[int], list[int]], decoded_by: Any) -> None:
    """encode, init_state and one step per token give the rows of forward; an empty source is attended to as nothing."""
    network, _ = build(kind)
    source_N, source, target_M, target = batch(lengths)
    wanted = target.pad(logits_of(network, source_N, source, target_M, target))
    assert wanted.isfinite().all()
    tokens = target.pad(target_M)
    with decoded_by(network):
        state = network.init_state(network.encode(source_N, source), capacity=20)
        for t in range(target.max_length):
            actual, state = network.step(tokens[:, t], state)
            here = target.mask[:, t]
            torch.testing.assert_close(actual[here], wanted[here, t], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_beam_scores_what_forward_says(decoded_by: Any) -> None:
    """The best of four: its log-probability is the sum of forward's, and no less than that of greedy decoding."""
    network, _ = build()
    source_N, source, _, _ = batch()
    options: dict[str, Any] = {"max_length": 12, "ratio": 0, "extra": 12, "forbid": (0,), "bos": 0, "eos": 1}
    with decoded_by(network):
        beam = decoding.beam(network.step, decoding.begin(network, source_N, source, **options), 4, 0.0)  # type: ignore[arg-type]
        greedy = decoding.greedy(network.step, decoding.begin(network, source_N, source, **options))  # type: ignore[arg-type]
    for row, own in enumerate(source_N.split(source.lengths.tolist())):
        said = beam[row, 0] + [1] * bool(beam.ended[row, 0])
        given = torch.tensor([0, *said[:-1]])
        alone = Layout(torch.tensor([len(own)])), Layout(torch.tensor([len(said)]))
        with torch.no_grad():
            total = losses_of(network, torch.tensor(said), own, alone[0], given, alone[1]).total
        torch.testing.assert_close(beam.log_probabilities[row, 0], -total, rtol=1e-4, atol=1e-4)
        assert beam.scores[row, 0] >= greedy.scores[row, 0] - 1e-4


def test_sequences_of_a_batch_do_not_touch() -> None:
    network, _ = build("1.1")
    source_N, source, target_M, target = batch()
    parts = zip(
        logits_of(network, source_N, source, target_M, target).split(LENGTHS[1]),
        source_N.split(LENGTHS[0]),
        target_M.split(LENGTHS[1]),
        strict=True,
    )
    for together, own, given in parts:
        alone = logits_of(network, own, Layout(torch.tensor([len(own)])), given, Layout(torch.tensor([len(given)])))
        torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_pool_is_the_mean_of_each_sequence() -> None:
    network, _ = build()
    source_N, source, _, _ = batch()
    hidden_ND = network.encode(source_N, source)[-1]
    wanted = torch.stack([part.mean(0) for part in hidden_ND.split(LENGTHS[0])])
    torch.testing.assert_close(network.pool(hidden_ND, source), wanted)


@pytest.mark.parametrize(
    ("preset", "published"),
    [
        ("small", 60_506_624),
        ("base", 222_903_552),
        ("large", 737_668_096),
        ("3b", 2_851_598_336),
        ("11b", 11_307_321_344),
        ("v1.1-small", 76_961_152),
        ("v1.1-base", 247_577_856),
    ],
)
def test_published_sizes(preset: str, published: int) -> None:
    """The parameters of the released checkpoints, and of transformers' model with the same config.json."""
    system, _ = find(f"t5:{preset}")
    config = system.configure(preset, {})
    library = transformers_module()
    with torch.device("meta"):
        actual = count_parameters(T5(config))
        table = huggingface_t5.config_to(asdict(config))
        theirs = library.T5ForConditionalGeneration(library.T5Config(**table))
    own_head = 0 if config.tie else theirs.lm_head.weight.numel()  # which transformers ties until weights are loaded
    assert actual == published == theirs.num_parameters() + own_head


@pytest.mark.parametrize("kind", KINDS)
def test_config_and_tensors_there_and_back(kind: str) -> None:
    """canon's to theirs to canon's: the same settings and the same numbers; and theirs of older files."""
    network, config = build(kind)
    table, settings = huggingface_t5.config_to(asdict(config)), asdict(config)
    back = huggingface_t5.config_from(table)
    assert {key: settings[key] for key in back} == back
    tensors = huggingface_t5.tensors_to(network.state_dict(), settings)
    assert ("lm_head.weight" in tensors) == (kind == "1.1")
    copies = {"encoder.embed_tokens.weight": tensors["shared.weight"]}
    if config.tie:
        copies["lm_head.weight"] = tensors["shared.weight"]
    again = T5(Config(**back))
    again.load_state_dict(huggingface_t5.FAMILY.take(tensors | copies, table, "file").tensors)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    del copies["encoder.embed_tokens.weight"], tensors["encoder.block.1.layer.0.SelfAttention.k.weight"]
    with pytest.raises(CanonError, match=r"1 missing \(encoder\.block\.1\.layer\.0\.SelfAttention\.k\.weight\)"):
        huggingface_t5.FAMILY.take(tensors, table, "file")
    with pytest.raises(CanonError, match="feed_forward_proj is 'gated-silu', which canon does not compute"):
        huggingface_t5.config_from({**table, "feed_forward_proj": "gated-silu"})


def test_transformers_reads_a_folder_of_ours(tmp_path: Path) -> None:
    """config.json and model.safetensors of T5 1.1, whose own lm_head must survive the reading: the same logits."""
    import json

    network, config = build("1.1")
    table = huggingface_t5.config_to(asdict(config)) | {"decoder_start_token_id": 0}
    (tmp_path / "config.json").write_text(json.dumps(table))
    tensors = huggingface_t5.tensors_to(network.state_dict(), asdict(config))
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    model = transformers_module().T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    source_N, source, target_M, target = batch(([6], [5]))
    wanted = model(source_N[None], decoder_input_ids=target_M[None]).logits[0]
    torch.testing.assert_close(logits_of(network, source_N, source, target_M, target), wanted, rtol=1e-5, atol=1e-5)


def test_first_weights() -> None:
    """Scores, hidden units and logits begin with variance about 1."""
    torch.manual_seed(0)
    for kind in KINDS:
        network = T5(Config(vocab_size=500, dim=64, num_heads=4, head_dim=16, hidden=256, dropout=0, **KINDS[kind]))
        source_N, source, target_M, target = batch()
        logits = logits_of(network.eval(), source_N, source, target_M, target)
        assert 0.5 < logits.std().item() < 2
        block: Any = network.encoder.blocks[0]
        assert block.attention.qkv.weight[:64].std().item() == pytest.approx((64 * 16) ** -0.5, rel=0.05)
        assert block.attention.qkv.weight[64:].std().item() == pytest.approx(64**-0.5, rel=0.05)


def test_dropout_only_while_training() -> None:
    both: list[dict[str, Any]] = [{"dropout": 0.5}, {"dropout": 0.0, "attention_dropout": 0.5}]
    for changes in both:
        network, _ = build(**changes)
        given = batch()
        assert torch.equal(logits_of(network, *given), logits_of(network, *given))
        network.train()
        assert not torch.equal(logits_of(network, *given), logits_of(network, *given))


@pytest.mark.parametrize("kind", KINDS)
def test_learns_to_fill_in(kind: str, tmp_path: Path) -> None:
    """Counting with one number left out: the loss falls, greedy decoding tells the number, and so does a copy."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 20,
        "dim": 32,
        "num_layers": 1,
        "num_heads": 4,
        "head_dim": 8,
        "hidden": 64,
        "dropout": 0.0,
    }
    config = Config(**sizes, attention_dropout=0.0, **KINDS[kind])
    network = T5(config)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, 600)  # else the last loss is a matter of luck

    def corrupted(size: int) -> tuple[Tensor, Layout, Tensor, Layout, Tensor]:
        """5 numbers in a row of 4 … 18, one of them <2>; the target is that number and </s> (1)."""
        rows = torch.randint(4, 15, (size, 1)) + torch.arange(5)
        place = torch.randint(5, (size, 1))
        reported = F.pad(rows.gather(1, place), (0, 1), value=1)
        given = F.pad(reported[:, :1], (1, 0), value=0)
        source, target = Layout(torch.full((size,), 5)), Layout(torch.full((size,), 2))
        return rows.scatter(1, place, 2).flatten(), source, given.flatten(), target, reported.flatten()

    losses = []
    for _ in range(600):
        *inputs, label_M = corrupted(64)
        loss = losses_of(network, label_M, *inputs).total / 128
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
        losses.append(loss.item())
    assert losses[0] > 2 and losses[-1] < 0.1
    save_file(network.state_dict(), tmp_path / "model.safetensors")
    from safetensors.torch import load_file

    copy = T5(config)
    copy.load_state_dict(load_file(tmp_path / "model.safetensors"))
    copy.eval()
    source_N, source, _, _, reported = corrupted(50)
    start = decoding.begin(copy, source_N, source, max_length=3, forbid=(), bos=0, eos=1)  # type: ignore[arg-type]
    said = decoding.greedy(copy.step, start)
    right = [said[row, 0] == [wanted] for row, wanted in enumerate(reported[::2].tolist())]
    assert sum(right) >= 47
