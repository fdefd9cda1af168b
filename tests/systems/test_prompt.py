"""Prompts against transformers: label words by masks, by the chain rule and by T5's decoder; prefixes; P-tuning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from canon.data.text.label_words import Filling, slots_of
from canon.kernels.cpu.threads import has_kernels
from canon.nn.attention import compiled as module
from canon.nn.attention.compiled import CompiledStack
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from canon.systems.prompts.prompt import Config, Prompt
from canon.systems.prompts.vectors import PrefixVectors, SoftTokens
from canon.systems.prompts.verbalisers import SoftVerbaliser, WordVerbaliser
from tests.parity.huggingface import transformers_module
from tests.parity.pretrained import FAMILIES, scatter, their_network

WORDS = (((11, 12), (13,)), ((14,),), ((15, 16, 17), (11, 18)))
MASK = 5


def ours(system: str, theirs: Any, **changes: Any) -> Prompt:
    """A prompt on their weights."""
    taken = FAMILIES[system].take(dict(theirs.state_dict()), theirs.config.to_dict(), "weights")
    settings = {**taken.settings, "dropout": 0.0, "attention_dropout": 0.0}
    values = {"words": WORDS, "num_classes": 3, "vocab_size": settings["vocab_size"], "dropout": 0.0, **changes}
    network = Prompt(Config(backbone=system, settings=settings, **values))
    network.backbone.load_state_dict(taken.tensors, strict=False)
    network.start()
    return network.eval()


def log_p(theirs: Any, ids: list[int], **more: Any) -> Tensor:
    """[L, V] of one sequence."""
    output = theirs(input_ids=torch.tensor([ids]), **more)
    logits = output.prediction_logits if "prediction_logits" in output else output.logits
    return logits[0].log_softmax(-1)


def by_classes(scores: list[list[Tensor]], average: str = "mean") -> Tensor:
    rows = [torch.stack(own) for own in scores]
    if average == "mean":
        return torch.stack([row.exp().mean().log() for row in rows])
    return torch.stack([row.exp().sum().log() if average == "sum" else row.mean() for row in rows])


@torch.no_grad()
@pytest.mark.parametrize("average", ["mean", "sum", "mean-log"])
@pytest.mark.parametrize("system", ["bert", "roberta"])
def test_masks_are_transformers(system: str, average: str) -> None:
    theirs = their_network(system)
    network = ours(system, theirs, average=average)
    before, after = [[3, 21, 22], [3, 24, 25, 26, 27]], [[7, 4], [4]]
    tokens, lengths, places, start = [], [], [], 0
    for head, tail in zip(before, after, strict=True):
        for masks in (1, 2, 3):
            row = [*head, *[MASK] * masks, *tail]
            places += [start + len(head) + step for step in range(masks)]
            tokens += row
            lengths.append(len(row))
            start += len(row)
    layout = Layout(torch.tensor(lengths))
    logits = network(torch.tensor(tokens), layout, None, torch.tensor(places))
    for row, (head, tail) in enumerate(zip(before, after, strict=True)):
        scores = []
        for own in WORDS:
            of_class = []
            for word in own:
                p = log_p(theirs, [*head, *[MASK] * len(word), *tail])
                of_class.append(torch.stack([p[len(head) + j, token] for j, token in enumerate(word)]).mean())
            scores.append(of_class)
        torch.testing.assert_close(logits[row], by_classes(scores, average), atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_gpt2_has_the_chain_rule() -> None:
    theirs = their_network("gpt2")
    network = ours("gpt2", theirs)
    assert network.slots.fills == ((11,), (15, 16))
    before = [[3, 21, 22], [24, 25, 26, 27]]
    tokens, lengths, places, start = [], [], [], 0
    for head in before:
        for fill in network.slots.fills:
            places += [start + len(head) - 1 + step for step in range(len(fill) + 1)]
            tokens += [*head, *fill]
            lengths.append(len(head) + len(fill))
            start += lengths[-1]
    logits = network(torch.tensor(tokens), Layout(torch.tensor(lengths)), None, torch.tensor(places))
    for row, head in enumerate(before):
        scores = []
        for own in WORDS:
            of_class = []
            for word in own:
                p = log_p(theirs, [*head, *word])
                of_class.append(torch.stack([p[len(head) + j - 1, token] for j, token in enumerate(word)]).mean())
            scores.append(of_class)
        torch.testing.assert_close(logits[row], by_classes(scores), atol=2e-5, rtol=1e-5)


def their_t5() -> Any:
    library = transformers_module()
    torch.manual_seed(0)
    settings = {"vocab_size": 61, "d_model": 12, "num_layers": 2, "num_heads": 3, "d_kv": 5, "d_ff": 20}
    return scatter(library.T5ForConditionalGeneration(library.T5Config(**settings)).eval())


@torch.no_grad()
def test_t5_writes_the_words() -> None:
    theirs = their_t5()
    network = ours("t5", theirs, opening=(0, 60))
    before = [[3, 21, 22, 60, 1], [24, 25, 60, 27, 28, 29, 1]]
    layout = Layout(torch.tensor([len(row) for row in before]))
    logits = network(torch.tensor([token for row in before for token in row]), layout, None, torch.zeros(0).long())
    for row, ids in enumerate(before):
        scores = []
        for own in WORDS:
            of_class = []
            for word in own:
                p = log_p(theirs, ids, decoder_input_ids=torch.tensor([[0, 60, *word]]))
                of_class.append(torch.stack([p[1 + j, token] for j, token in enumerate(word)]).mean())
            scores.append(of_class)
        torch.testing.assert_close(logits[row], by_classes(scores), atol=2e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("system", ["bert", "gpt2"])
def test_prefix_is_transformers_past(system: str) -> None:
    """Keys and values before each layer's own, as past key values; sequences of unequal length side by side."""
    library = transformers_module()
    theirs = their_network(system, is_decoder=True) if system == "bert" else their_network(system)
    theirs.config.is_decoder = system != "bert"
    network = ours(system, theirs, prefix=4)
    assert network.prefix is not None
    nn.init.normal_(network.prefix.weight)
    prefix_LP2D = network.prefix.vectors()
    layers, count, width = prefix_LP2D.shape
    rows = [[3, 21, 22], [24, 25, 26, 27, 9], [8]]
    layout = Layout(torch.tensor([len(row) for row in rows]))
    found_ND = network.backbone.prompted(
        torch.tensor([token for row in rows for token in row]), layout, prefix_LP2D=prefix_LP2D
    )
    heads = theirs.config.num_attention_heads
    start = 0
    for row in rows:
        cache = library.DynamicCache()
        for layer in range(layers):
            key, value = (part.view(count, heads, -1).transpose(0, 1)[None] for part in prefix_LP2D[layer].chunk(2, -1))
            cache.update(key, value, layer)
        inner = theirs.bert if system == "bert" else theirs.transformer
        wanted = (
            bert_with_past(inner, row, prefix_LP2D, heads)
            if system == "bert"
            else inner(input_ids=torch.tensor([row]), past_key_values=cache).last_hidden_state[0]
        )
        torch.testing.assert_close(found_ND[start : start + len(row)], wanted, atol=5e-5, rtol=1e-4)
        start += len(row)
    assert width == 2 * theirs.config.hidden_size


def bert_with_past(inner: Any, row: list[int], prefix_LP2D: Tensor, heads: int) -> Tensor:
    """transformers' BERT with more keys and values at each layer and positions after them: its own modules, without a
    mask, since only its decoders take past key values."""
    count = prefix_LP2D.shape[1]
    position = torch.arange(count, count + len(row))[None]
    x = inner.embeddings(input_ids=torch.tensor([row]), position_ids=position)
    for layer, block in enumerate(inner.encoder.layer):
        own = block.attention.self
        key, value = (
            torch.cat([past, each(x)[0]])
            for past, each in zip(prefix_LP2D[layer].chunk(2, -1), (own.key, own.value), strict=True)
        )
        query, key, value = (part.unflatten(-1, (heads, -1)).transpose(0, 1) for part in (own.query(x)[0], key, value))
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)[None]
        x = block.attention.output(mixed, x)
        x = block.output(block.intermediate(x), x)
    return x[0]


@torch.no_grad()
def test_decoder_prefix_of_t5_is_transformers_past() -> None:
    library = transformers_module()
    theirs = their_t5()
    network = ours("t5", theirs, opening=(0, 60), prefix=3, prefix_decoder=True)
    assert network.decoder_prefix is not None
    nn.init.normal_(network.decoder_prefix.weight)
    prefix_LP2D = network.decoder_prefix.vectors()
    source, target = [3, 21, 22, 60, 1], [0, 60, 11]
    memory_ND = network.backbone.prompted(torch.tensor(source), Layout(torch.tensor([5])))
    own = network.backbone.continued(
        torch.tensor(target), Layout(torch.tensor([3])), memory_ND, Layout(torch.tensor([5])), prefix_LP2D
    )
    past = library.EncoderDecoderCache(library.DynamicCache(), library.DynamicCache())
    for layer in range(2):
        key, value = (part.view(3, 3, 5).transpose(0, 1)[None] for part in prefix_LP2D[layer].chunk(2, -1))
        past.self_attention_cache.update(key, value, layer)
    states = theirs.decoder(
        input_ids=torch.tensor([target]), encoder_hidden_states=memory_ND[None], past_key_values=past, use_cache=True
    ).last_hidden_state[0]
    torch.testing.assert_close(own, states, atol=5e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("system", ["bert", "gpt2", "t5"])
def test_a_prefix_is_not_lost_in_compiled_kernels(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While weights are frozen, texts go through compiled kernels, which know no prefix: with one the modules do it."""
    pytest.importorskip("numba")
    if not has_kernels():
        pytest.skip("kernels are turned off")
    theirs = their_t5() if system == "t5" else their_network(system)
    network = ours(system, theirs, prefix=4, soft=(-1, -1), **({"opening": (0, 60)} if system == "t5" else {}))
    assert network.prefix is not None
    nn.init.normal_(network.prefix.weight)
    compiled: list[int] = []
    states = CompiledStack.states

    def counted(self: CompiledStack, x_ND: Tensor, *given: Any) -> Tensor:
        compiled.append(len(x_ND))
        return states(self, x_ND, *given)

    monkeypatch.setattr(module, "_WORTH", 1)
    monkeypatch.setattr(CompiledStack, "states", counted)
    size = network.config.vocab_size
    token_N, layout = torch.tensor([3, size, 21, 22, 24, size + 1, 26]), Layout(torch.tensor([4, 3]))
    given = {**network.given}
    given.pop("decoder_LP2D")
    plain = {**given, "prefix_LP2D": None}
    wanted = [network.backbone.prompted(network.ids(token_N), layout, **each) for each in (given, plain)]
    assert not compiled and float((wanted[0] - wanted[1]).abs().max()) > 0.1
    with frozen(network):
        with_prefix = network.backbone.prompted(network.ids(token_N), layout, **given)
        assert not compiled
        without = network.backbone.prompted(network.ids(token_N), layout, **plain)
    assert compiled == [7]
    torch.testing.assert_close(with_prefix, wanted[0], atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(without, wanted[1], atol=2e-5, rtol=1e-5)


def test_soft_tokens_are_torch_s_lstm() -> None:
    """P-tuning's h = MLP(BiLSTM(e)), against torch's modules; with `wide` twice the units."""
    for wide in (False, True):
        soft = SoftTokens((-1, -1, -1), 8, lstm=True, wide=wide, std=1.0)
        lstm = nn.LSTM(8, 8 if wide else 4, 2, bidirectional=True, batch_first=True)
        assert soft.lstm is not None and soft.mlp is not None
        lstm.load_state_dict({k.removeprefix("network."): v for k, v in soft.lstm.state_dict().items()})
        h = lstm(soft.weight[None])[0][0]
        first, last = soft.mlp[0], soft.mlp[2]
        wanted = F.relu(h @ first.weight.T + first.bias) @ last.weight.T + last.bias
        torch.testing.assert_close(soft.vectors(), wanted)


def test_soft_tokens_begin_as_words_and_are_read_as_their_embeddings() -> None:
    """Without an LSTM, soft tokens that begin as words are those words."""
    theirs = their_network("bert")
    network = ours("bert", theirs, soft=(31, 32), reparametrise=False, words=(((11,),), ((14,),)), num_classes=2)
    layout, places = Layout(torch.tensor([5])), torch.tensor([3])
    soft = network(torch.tensor([3, 97, 98, MASK, 4]), layout, None, places)
    torch.testing.assert_close(soft, network(torch.tensor([3, 31, 32, MASK, 4]), layout, None, places))
    soft.sum().backward()
    assert network.soft is not None and network.soft.weight.grad is not None


def test_projected_prefix_is_an_mlp() -> None:
    prefix = PrefixVectors(3, 2, 4, 5, 6, std=1.0)
    first, last = prefix.mlp[0], prefix.mlp[2]
    wanted = torch.tanh(prefix.weight @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(prefix.vectors(), wanted.view(3, 2, 8).transpose(0, 1))


def test_soft_verbaliser_starts_as_the_mean_of_its_words() -> None:
    theirs = their_network("bert")
    words = (((11,), (12,)), ((13,),), ((14,),))
    network = ours("bert", theirs, verbaliser="soft", words=words)
    assert isinstance(network.verbaliser, SoftVerbaliser)
    tokens, layout, places = torch.tensor([3, 21, MASK, 4]), Layout(torch.tensor([4])), torch.tensor([2])
    logits = network(tokens, layout, None, places)[0]
    inner = theirs.bert(input_ids=tokens[None]).last_hidden_state[0, 2]
    g = theirs.cls.predictions.transform(inner)
    rows = theirs.get_input_embeddings().weight
    wanted = [rows[[token for word in own for token in word]].mean(0) @ g for own in words]
    torch.testing.assert_close(logits, torch.stack(wanted), atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_stepwise_fills_the_most_confident_mask_first() -> None:
    theirs = their_network("bert")
    words = (((11, 12, 13),), ((14,),))
    network = ours("bert", theirs, words=words, num_classes=2, stepwise=True)
    tokens = [3, 21, MASK, 4, 3, 21, MASK, MASK, MASK, 4]
    logits = network(torch.tensor(tokens), Layout(torch.tensor([4, 6])), None, torch.tensor([2, 6, 7, 8]))
    ids, open_, total = [3, 21, MASK, MASK, MASK, 4], [0, 1, 2], 0.0
    while open_:
        p = log_p(theirs, ids)
        best = max(open_, key=lambda j: float(p[2 + j, words[0][0][j]]))
        total += float(p[2 + best, words[0][0][best]])
        ids[2 + best] = words[0][0][best]
        open_.remove(best)
    assert float(logits[0, 0]) == pytest.approx(total / 3, abs=1e-5)


def test_openprompt_s_formulas() -> None:
    """Log-mean of words as OpenPrompt's aggregation, by hand."""
    words = (((0,), (1,)), ((2,),))
    slots = slots_of([(0,), (1,), (2,)], Filling.MASKS)
    p = torch.tensor([[[0.2, 0.4, 0.1, 0.3]]]).log()
    wanted = {"mean": [0.3, 0.1], "sum": [0.6, 0.1], "mean-log": [(0.2 * 0.4) ** 0.5, 0.1]}
    for average, values in wanted.items():
        verbaliser = WordVerbaliser(words, slots, average)  # type: ignore[arg-type]
        logits = verbaliser.of_classes(verbaliser.word_scores(p))
        torch.testing.assert_close(logits, torch.tensor([values]).log())


def test_chains_that_begin_alike_are_read_once() -> None:
    slots = slots_of([(1, 2, 3), (1, 4), (5,)], Filling.CHAIN)
    assert slots.fills == ((1, 2),) and slots.read == ((0, 1, 2), (0, 1), (0,))
