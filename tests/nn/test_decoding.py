"""Decoding against searches written out in plain Python, against all sequences there are, and against chance."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from canon import create, registry
from canon.errors import CanonError
from canon.nn import states
from canon.nn.choosing import largest
from canon.nn.decoding import (
    BOS,
    EOS,
    PAD,
    Decoded,
    Start,
    State,
    beam,
    begin,
    begin_text,
    greedy,
    sample,
    translate,
)
from canon.nn.ragged import Layout
from canon.nn.states import closed_up, select, staying

WORDS = 9


@pytest.fixture(params=["copied", "in place"])
def moving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything twice: caches of hypotheses copied, as small ones are, and moved in place, as large ones are."""
    monkeypatch.setattr(states, "_LARGE", 0 if request.param == "in place" else 1 << 30)


class Toy(nn.Module):
    """Attention over the source and over the tokens so far, whose cache is written in place; <eos> comes by itself."""

    def __init__(self, vocab: int = 4 + WORDS, dim: int = 8, seed: int = 0, sharpness: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(vocab, dim)
        self.query, self.out = nn.Linear(dim, dim), nn.Linear(3 * dim, vocab)
        self.sharpness = sharpness
        self.rows: list[int] = []  # what every step was asked for
        self.eval()

    def encode(self, source_N: Tensor, source: Layout) -> State:
        return {"memory": source.pad(self.embedding(source_N)), "memory_mask": source.mask}

    def init_state(self, memory: State, capacity: int) -> State:
        batch, _, dim = memory["memory"].shape
        cache = torch.full((batch, capacity, dim), math.nan)  # reading what was not written would show
        return {**memory, "cache": cache, "count": torch.zeros(batch), "position": torch.tensor(0)}

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        self.rows.append(len(token_B))
        t = int(state["position"])
        state["cache"][:, t] = self.embedding(token_B)
        logits_BV = self.read(state["memory"], state["memory_mask"], state["cache"][:, : t + 1])
        return logits_BV, {**state, "count": state["count"] + 1, "position": torch.tensor(t + 1)}

    def read(self, memory_BSD: Tensor, mask_BS: Tensor, past_BTD: Tensor) -> Tensor:
        last_BD, query_BD = past_BTD[:, -1], self.query(past_BTD[:, -1])
        context_BD = _attend(query_BD, memory_BSD, mask_BS)
        history_BD = _attend(query_BD, past_BTD, torch.ones(past_BTD.shape[:2], dtype=torch.bool))
        logits_BV = self.sharpness * self.out(torch.cat((last_BD, context_BD, history_BD), 1))
        logits_BV[:, EOS] += 0.4 * past_BTD.shape[1] - 1  # the longer, the likelier it ends
        return logits_BV

    def log_probabilities(self, source: list[int], tokens: tuple[int, ...]) -> Tensor:
        """[V] of the token after `tokens`, computed from the beginning: no state, no batch."""
        memory_1SD, past_1TD = (self.embedding(torch.tensor([ids])) for ids in (source, [BOS, *tokens]))
        mask_1S = torch.ones(1, len(source), dtype=torch.bool)
        return self.read(memory_1SD, mask_1S, past_1TD)[0].log_softmax(-1)


def _attend(query_BD: Tensor, keys_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    scores_BT = torch.einsum("bd,btd->bt", query_BD, keys_BTD).masked_fill(~mask_BT, -math.inf)
    return torch.einsum("bt,btd->bd", scores_BT.softmax(-1), keys_BTD)


def log_probabilities(network: Any, source: list[int], tokens: tuple[int, ...]) -> Tensor:
    """[V] of the token after `tokens`, computed from the beginning."""
    if isinstance(network, Toy):
        return network.log_probabilities(source, tokens)
    given = [BOS, *tokens]
    logits_MV = network(
        torch.tensor(source),
        Layout(torch.tensor([len(source)])),
        torch.tensor(given),
        Layout(torch.tensor([len(given)])),
    )
    return logits_MV[-1].log_softmax(-1)


Hypothesis = tuple[float, float, tuple[int, ...]]  # score, log-probability, tokens with <eos>


@torch.no_grad()
def plain_beam(
    network: Any, source: list[int], limit: int, width: int, alpha: float, n_best: int, min_length: int = 0
) -> list[Hypothesis]:
    """Beam search as the text of the docs has it: no cache, no batch, and no early end."""
    opened, kept = [(0.0, ())], []
    for length in range(1, limit + 1):
        candidates = []
        for total, tokens in opened:
            gains = log_probabilities(network, source, tokens).tolist()
            for token in range(3 if len(tokens) >= min_length else 4, len(gains)):
                candidates.append((total + gains[token], (*tokens, token)))
        candidates.sort(reverse=True)
        divisor = ((5 + length) / 6) ** alpha
        kept += [(s / divisor, s, tokens) for s, tokens in candidates[:width] if tokens[-1] == EOS or length == limit]
        opened = [(s, tokens) for s, tokens in candidates if tokens[-1] != EOS][:width]
    return sorted(kept, reverse=True)[:n_best]


def sources(count: int, seed: int = 1) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [[*generator.integers(4, 4 + WORDS, generator.integers(1, 9)).tolist(), EOS] for _ in range(count)]


def start(network: Toy, texts: list[list[int]], **settings: float) -> Start:
    layout = Layout(torch.tensor([len(text) for text in texts]))
    return begin(network, torch.tensor([token for text in texts for token in text]), layout, **settings)  # type: ignore[arg-type]


def same(decoded: Decoded, other: Decoded) -> None:
    assert torch.equal(decoded.tokens, other.tokens) and torch.equal(decoded.lengths, other.lengths)
    assert torch.equal(decoded.ended, other.ended)
    torch.testing.assert_close(decoded.scores, other.scores)
    torch.testing.assert_close(decoded.log_probabilities, other.log_probabilities)


def with_end(decoded: Decoded, sentence: int, rank: int) -> tuple[int, ...]:
    return (*decoded[sentence, rank], *([EOS] if decoded.ended[sentence, rank] else []))


@pytest.mark.usefixtures("moving")
@pytest.mark.parametrize("width, alpha", [(1, 0.0), (2, 0.0), (4, 0.6), (4, -0.5), (5, 1.5)])
@pytest.mark.parametrize("min_length", [0, 3])
def test_beam_against_plain_python(width: int, alpha: float, min_length: int) -> None:
    network, texts = Toy(), sources(12)
    n_best = min(width, 3)
    begun = start(network, texts, ratio=1.5, extra=2, min_length=min_length)
    actual = beam(network.step, begun, width, alpha, n_best)
    assert actual.ended.any()
    for i, text in enumerate(texts):
        expected = plain_beam(network, text, int(len(text) * 1.5) + 2, width, alpha, n_best, min_length)
        for rank, (score, total, tokens) in enumerate(expected):
            assert with_end(actual, i, rank) == tokens
            assert actual.scores[i, rank].item() == pytest.approx(score, rel=1e-5)
            assert actual.log_probabilities[i, rank].item() == pytest.approx(total, rel=1e-5)


def test_greedy_against_plain_argmax_and_one_beam() -> None:
    network, texts = Toy(), sources(16)
    result = greedy(network.step, start(network, texts))
    for i, text in enumerate(texts):
        tokens: tuple[int, ...] = ()
        total = 0.0
        while len(tokens) < 2 * len(text) + 10 and tokens[-1:] != (EOS,):
            gains = network.log_probabilities(text, tokens)
            gains[:3] = -math.inf
            total += gains.max().item()
            tokens = (*tokens, int(gains.argmax()))
        assert with_end(result, i, 0) == tokens
        assert result.log_probabilities[i, 0].item() == pytest.approx(total, rel=1e-5)
    same(beam(network.step, start(network, texts), 1, 0.0), result)
    layout = Layout(torch.tensor([len(text) for text in texts]))
    flat = torch.tensor([token for text in texts for token in text])
    same(translate(network, flat, layout, beam=1, length_penalty=0.0), result)


@pytest.mark.usefixtures("moving")
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_everything_finds_the_best_of_all_sequences(alpha: float) -> None:
    limit, words = 4, (4, 5)
    network, texts = Toy(vocab=6, seed=3), [[4, EOS], [5, 4, 4, EOS], [5, 5, EOS]]
    everything = sum(len(words) ** n for n in range(limit + 1))
    result = beam(network.step, start(network, texts, ratio=0, extra=limit), everything, alpha, n_best=everything)
    for i, text in enumerate(texts):
        every = []
        for length in range(limit + 1):
            for tokens in itertools.product(words, repeat=length):
                tokens = tokens if length == limit else (*tokens, EOS)
                with torch.no_grad():
                    gains = [network.log_probabilities(text, tokens[:t])[tokens[t]].item() for t in range(len(tokens))]
                every.append((sum(gains) / ((5 + len(tokens)) / 6) ** alpha, tokens))
        every.sort(reverse=True)
        assert len(every) == everything
        assert [with_end(result, i, rank) for rank in range(everything)] == [tokens for _, tokens in every]
        np.testing.assert_allclose(result.scores[i], [score for score, _ in every], rtol=1e-5)


def test_a_state_is_as_good_as_the_whole_past() -> None:
    network, text = Toy(), sources(1)[0]
    begun = start(network, [text])
    tokens, state = (6, 4, 9, 9, 12, 5), begun.state
    for t, token in enumerate((BOS, *tokens)):
        logits_1V, state = network.step(torch.tensor([token]), state)
        torch.testing.assert_close(logits_1V[0].log_softmax(-1), network.log_probabilities(text, tokens[:t]))


@pytest.mark.usefixtures("moving")
@pytest.mark.parametrize("width", [1, 4])
def test_batches_of_unequal_sentences_equal_single_ones(width: int) -> None:
    network, texts = Toy(seed=2), sources(20)
    together = beam(network.step, start(network, texts), width, 0.6, n_best=min(width, 2))
    for i, text in enumerate(texts):
        alone = beam(network.step, start(network, [text]), width, 0.6, n_best=min(width, 2))
        for rank in range(min(width, 2)):
            assert together[i, rank] == alone[0, rank]
            torch.testing.assert_close(together.scores[i, rank], alone.scores[0, rank])


@pytest.mark.usefixtures("moving")
def test_done_sentences_leave_and_nothing_changes() -> None:
    texts = sources(24)
    for decode in (greedy, beam, lambda step, begun, shrink: sample(step, begun, generator=_seeded(0), shrink=shrink)):
        leaving, staying = Toy(), Toy()
        decoded = decode(leaving.step, start(leaving, texts), shrink=True)  # type: ignore[operator]
        same(decoded, decode(staying.step, start(staying, texts), shrink=False))  # type: ignore[operator]
        assert len(leaving.rows) == len(staying.rows) and sum(leaving.rows) < 0.75 * sum(staying.rows)
        assert leaving.rows[0] == 24, "the first step is made once for all beams of a sentence"
        # A quarter at least leaves together.
        sizes = [size for size, _ in itertools.groupby(leaving.rows[1:])]
        assert all(later <= 0.75 * earlier for earlier, later in itertools.pairwise(sizes))


def test_an_exact_end_comes_before_the_limit() -> None:
    network, texts = Toy(), sources(1)
    result = beam(network.step, start(network, texts, extra=200), 4, 0.0)
    # With no penalty a search is over once the best that has ended is likelier than all that are open.
    assert result.ended.all() and len(network.rows) < 100
    assert len(network.rows) >= int(result.lengths[0, 0]) + 1


@pytest.mark.usefixtures("moving")
def test_what_is_copied() -> None:
    network = Toy()
    seen: list[tuple[int, int]] = []

    def step(token_R: Tensor, state: State) -> tuple[Tensor, State]:
        seen.append((state["memory"].data_ptr(), state["cache"].data_ptr()))
        return network.step(token_R, state)

    expected = beam(step, start(network, sources(6), extra=6), 3, shrink=False)
    memories, caches = ({*pointers} for pointers in zip(*seen[1:], strict=True))
    assert len(memories) == 1, "what no step has touched is alike for all beams"
    assert len(caches) == 1 if states._LARGE == 0 else len(caches) > 1, "a large cache stays where it is"
    with torch.inference_mode():  # no tensor counts its changes there
        same(beam(network.step, start(network, sources(6), extra=6), 3), expected)


def test_places_in_a_beam() -> None:
    generator = np.random.default_rng(0)
    for width in (2, 3, 5):
        parent_bK = generator.integers(0, width, (200, width))
        child_bK = staying(parent_bK)
        assert (np.sort(child_bK, 1) == np.arange(width)).all(), "every child has a place"
        new_bK = np.take_along_axis(parent_bK, child_bK, 1)
        for parents, places in zip(parent_bK, new_bK, strict=True):
            assert all(places[parent] == parent for parent in parents), "one child stays where its parent was"
    for size in (1, 4, 9):
        for kept in itertools.product((False, True), repeat=size):
            rows = closed_up(np.array(kept))
            assert sorted(rows) == np.flatnonzero(kept).tolist()
            assert all(row == place or (not kept[place] and row >= len(rows)) for place, row in enumerate(rows))


def test_select_leaves_the_position() -> None:
    position = torch.tensor(3)
    cache = torch.arange(4.0).view(4, 1, 1).repeat(1, 5, 2)
    state = select({"x": torch.arange(4), "cache": cache, "position": position}, torch.tensor([2, 2, 0]))
    assert state["x"].tolist() == [2, 2, 0] and state["position"] is position
    assert torch.equal(state["cache"][:, :3], cache[[2, 2, 0], :3]) and state["cache"].shape == (3, 5, 2)


def test_limits_and_what_may_come() -> None:
    network, texts = Toy(seed=5), sources(10)
    actual = greedy(network.step, start(network, texts)._replace(eos=-1))
    assert not actual.ended.any() and actual.lengths[:, 0].tolist() == [2 * len(text) + 10 for text in texts]
    capped = start(network, texts, max_length=12)
    assert capped.limit.tolist() == [min(2 * len(text) + 10, 12) for text in texts]
    assert capped.state["cache"].shape[1] == 12
    for decode in (greedy, beam, sample):
        long = decode(network.step, start(network, texts, min_length=6, forbid=(0, 1, 2, 7, 8)))  # type: ignore[operator]
        assert (long.lengths >= 6).all()
        assert not set(long.tokens.flatten().tolist()) & {1, 2, EOS, 7, 8}
    # Log-probabilities are of the whole vocabulary, forbidden or not.
    one = greedy(network.step, start(network, texts[:1], ratio=0, extra=1, forbid=(0, 1, 2, 3, 4, 5)))
    expected = network.log_probabilities(texts[0], ())[one[0, 0][0]]
    torch.testing.assert_close(one.log_probabilities[0, 0], expected.detach())


def test_length_penalty() -> None:
    network, texts = Toy(), sources(8)
    for alpha in (0.0, 0.6, 1.0):
        for result in (
            beam(network.step, start(network, texts), 3, alpha, 3),
            greedy(network.step, start(network, texts), alpha),
        ):
            counted = result.lengths + result.ended.long()
            torch.testing.assert_close(result.scores, result.log_probabilities / ((5 + counted) / 6) ** alpha)
            assert (result.scores.diff(dim=1) <= 0).all()
    mean = [beam(network.step, start(network, texts), 4, a).lengths.float().mean() for a in (0.0, 1.0, 3.0)]
    assert mean[0] <= mean[1] <= mean[2] and mean[0] < mean[2], "a penalty makes hypotheses longer"


def test_fewer_hypotheses_than_asked_for() -> None:
    network = Toy(vocab=6)
    result = beam(network.step, start(network, [[4, EOS]], ratio=0, extra=1), 6, 0.6, 6)
    assert result.lengths[0].sum() == 2 and result.tokens.shape == (1, 6, 1)  # <eos>, 4 and 5
    assert torch.isfinite(result.scores[0]).tolist() == [True] * 3 + [False] * 3


def test_no_sentences() -> None:
    nothing = Start({}, torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))
    for decode in (greedy, beam, sample):
        assert decode(Toy().step, nothing).tokens.shape == (0, 1, 0)  # type: ignore[operator]


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Fixed:
    """The same distribution at every step."""

    def __init__(self, logits: list[float]) -> None:
        self.logits = torch.tensor(logits)

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        return self.logits.expand(len(token_B), -1).clone(), state

    def start(self, rows: int, length: int) -> Start:
        return Start({}, torch.full((rows,), BOS), torch.full((rows,), length), forbid=(PAD,), eos=-1)


LOGITS = [5.0, 0.3, -1.0, 1.2, 0.0, 2.0, -0.5, 1.1]


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.8}, {"top_k": 6, "top_p": 0.7}],
)
def test_sampling_frequencies(settings: dict[str, float]) -> None:
    fixed = Fixed(LOGITS)
    actual = sample(fixed.step, fixed.start(200, 100), generator=_seeded(7), **settings)  # type: ignore[arg-type]
    counts = np.bincount(actual.tokens.flatten(), minlength=8)
    # By the definitions: scale, take the k likeliest, then the fewest that hold p.
    shares = np.exp(np.array(LOGITS) / settings.get("temperature", 1.0))
    shares[PAD] = 0
    order = np.argsort(-shares)
    shares[order[int(settings.get("top_k", 8)) :]] = 0
    shares /= shares.sum()
    before = np.cumsum(shares[order]) - shares[order]
    shares[order[before >= settings.get("top_p", 1.0)]] = 0
    shares /= shares.sum()
    assert set(np.flatnonzero(counts)) == set(np.flatnonzero(shares)), "nothing but these, and all of these"
    allowed = shares > 0
    assert chisquare(counts[allowed], shares[allowed] * counts.sum()).pvalue > 0.001
    # Reported is the log-probability under the model itself.
    token = actual.tokens[:, 0]
    expected = torch.tensor(LOGITS).log_softmax(-1)[token].sum(1)
    torch.testing.assert_close(actual.log_probabilities[:, 0], expected)


def test_sampling_is_seeded_and_refuses_nonsense() -> None:
    network, texts = Toy(), sources(6)
    drawn = [sample(network.step, start(network, texts), generator=_seeded(seed)).tokens for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    # Of one token there is nothing to draw.
    same(
        sample(network.step, start(network, texts), top_k=1, generator=_seeded(3)),
        greedy(network.step, start(network, texts)),
    )
    for wrong in ({"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}):
        with pytest.raises(CanonError, match=f"{next(iter(wrong))} must be"):
            sample(network.step, start(network, texts), **wrong)  # type: ignore[arg-type]
    for width, n_best in ((0, 1), (2, 3), (2, 0)):
        with pytest.raises(CanonError, match="must be a whole number from 1"):
            beam(network.step, start(network, texts), width, n_best=n_best)


@pytest.mark.parametrize("shape", [(3, 17), (2, 40_000), (5, 40_037), (700, 70)])
@pytest.mark.parametrize("count", [1, 5])
def test_largest(shape: tuple[int, int], count: int) -> None:
    x = torch.from_numpy(np.random.default_rng(0).permutation(shape[0] * shape[1])).float().view(shape)
    x[0, -1] = 1e9  # in what is no whole block
    x[0, : shape[1] // 2] = -math.inf
    values, places = largest(x, count)
    assert torch.equal(values, x.sort(1, descending=True).values[:, :count]) and torch.equal(
        x.gather(1, places), values
    )


class Recurrent(nn.Module):
    """A language model of one GRU cell."""

    def __init__(self, vocab: int = 12, dim: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.cell, self.out = nn.Embedding(vocab, dim), nn.GRUCell(dim, dim), nn.Linear(dim, vocab)

    def init_state(self, batch: int, device: torch.device | str) -> State:
        return {"hidden": torch.zeros(batch, self.cell.hidden_size, device=device)}

    def read(self, token_BT: Tensor, room: int) -> State:
        return self(token_BT, None)[1] if token_BT.shape[1] else self.init_state(len(token_BT), token_BT.device)

    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]:
        hidden_BD = self.cell(self.embedding(token_B), state["hidden"])
        return 3 * self.out(hidden_BD), {"hidden": hidden_BD}

    def forward(self, token_BT: Tensor, state: State | None) -> tuple[Tensor, State]:
        state = state or self.init_state(len(token_BT), token_BT.device)
        logits = []
        for t in range(token_BT.shape[1]):
            logits_BV, state = self.step(token_BT[:, t], state)
            logits.append(logits_BV)
        return torch.stack(logits, 1), state


@pytest.mark.parametrize("size", [1, 5])
def test_language_models_go_on_from_a_prompt(size: int) -> None:
    network = Recurrent()
    prompt_BT = torch.randint(4, 12, (3, size), generator=_seeded(0))
    result = greedy(network.step, begin_text(network, prompt_BT, 8, eos=-1))
    text_BT = prompt_BT
    for _ in range(8):
        logits_BTV, _ = network(text_BT, None)  # the whole text again
        logits_BTV[:, -1, :3] = -math.inf
        text_BT = torch.cat((text_BT, logits_BTV[:, -1].argmax(-1, keepdim=True)), 1)
    assert torch.equal(result.tokens[:, 0], text_BT[:, size:])
    # What a beam tells of its hypotheses is what the whole text gives.
    beams = beam(network.step, begin_text(network, prompt_BT, 8, eos=-1), 4, 0.0, 4)
    for rank in range(4):
        text_BT = torch.cat((prompt_BT, beams.tokens[:, rank]), 1)
        gains_BTV = network(text_BT, None)[0][:, size - 1 : -1].log_softmax(-1)
        expected_B = gains_BTV.gather(2, text_BT[:, size:, None]).sum((1, 2))
        torch.testing.assert_close(beams.log_probabilities[:, rank], expected_B.detach())


VARIANTS: dict[str, dict[str, Any]] = {
    "seq2seq": {"kind": "gru", "feed_context": True},
    "luong": {"input_feeding": True},
    "transformer": {"norm": "pre"},
}
PAIRS = [system.name for system in registry.SYSTEMS if system.task == "transduction"]


@pytest.mark.usefixtures("moving")
@pytest.mark.parametrize("name, settings", [*((name, {}) for name in PAIRS), *VARIANTS.items()])
def test_systems_against_plain_python(name: str, settings: dict[str, Any]) -> None:
    """The networks' own states in batches that shrink, against their forward pass over the whole past."""
    torch.manual_seed(0)
    network = create(f"{name}:tiny", source_vocab=13, target_vocab=13, **settings).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # far from uniform, so that ties do not decide
            parameter.add_(torch.randn_like(parameter) * 0.3)
    texts = sources(9)
    result = beam(network.step, start(network, texts, ratio=1, extra=2), 3, 0.6, 2)
    alone = greedy(network.step, start(network, texts, ratio=1, extra=2))
    for i, text in enumerate(texts):
        for rank, (score, _, tokens) in enumerate(plain_beam(network, text, len(text) + 2, 3, 0.6, 2)):
            assert with_end(result, i, rank) == tokens
            assert result.scores[i, rank].item() == pytest.approx(score, rel=1e-4)
        ((score, _, tokens),) = plain_beam(network, text, len(text) + 2, 1, 0.0, 1)
        assert with_end(alone, i, 0) == tokens and alone.scores[i, 0].item() == pytest.approx(score, rel=1e-4)


LANGUAGE_MODELS = [s.name for s in registry.SYSTEMS if s.task == "language-model" and s.loop == "gradient"]


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_language_models_go_on_as_their_forward_pass_says(name: str) -> None:
    torch.manual_seed(0)
    network = create(f"{name}:tiny", vocab_size=12).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    prompt_BT = torch.randint(4, 12, (3, 3), generator=_seeded(0))
    result = beam(network.step, begin_text(network, prompt_BT, 5, eos=-1), 3, 0.0, 3)
    for rank in range(3):
        text_BT = torch.cat((prompt_BT, result.tokens[:, rank]), 1)
        gains_BTV = network(text_BT, None)[0][:, 2:-1].log_softmax(-1)
        expected_B = gains_BTV.gather(2, text_BT[:, 3:, None]).sum((1, 2))
        torch.testing.assert_close(result.log_probabilities[:, rank], expected_B.detach(), rtol=1e-4, atol=1e-4)
