"""Decoding: greedy, sampling and beam search for anything that predicts the next token from a state.

Wu et al. 2016, Google's neural machine translation system (arXiv:1609.08144), equation 14: `penalty`.
How one token is chosen of its logits is in canon/nn/choosing.py.
Deviations: no coverage penalty; a search ends when no open hypothesis can still beat the worst one kept, not earlier.

A network gives `step`: one token per row and the state before it, to logits and the state after it. Nothing of the
past is computed again, no Python runs per sentence or beam, the host waits for the device once a step, and sentences
that are done leave the batch. A length counts tokens and <eos>; at its limit a hypothesis is cut short.
Shapes: B sentences (b of them still in the batch), K beams, R = b·K rows, V tokens in the vocabulary, C and M
candidates of a row and of a sentence, T steps, N hypotheses kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from canon.contracts import WIDEST
from canon.data.text.vocabularies import BOS, EOS, PAD, UNK
from canon.kernels.cpu.threads import own_threads
from canon.nn.choosing import Sampling, best, drawn, likeliest, uniform
from canon.nn.frozen import frozen
from canon.nn.limits import real, require_memory, whole
from canon.nn.ragged import Layout
from canon.nn.states import COMPILED, Rows, State, closed_up, staying

FORBIDDEN = (PAD, UNK, BOS)  # never chosen

Step = Callable[[Tensor, State], tuple[Tensor, State]]

_LEAVE = 0.25  # share of sentences that are done at which they leave the batch: copying the state must pay
_INFINITY = float("inf")


@runtime_checkable
class EncoderDecoder(Protocol):
    """What turns one sequence into another (canon.systems.sequence)."""

    def encode(self, source_N: Tensor, source: Layout) -> State: ...
    def init_state(self, memory: State, capacity: int) -> State: ...
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]: ...


@runtime_checkable
class LanguageModel(Protocol):
    """What goes on with a text: `read` gives the state after its first tokens (there may be none), with room for so
    many more where that has to be made in advance."""

    def read(self, token_BT: Tensor, room: int) -> State: ...
    def step(self, token_B: Tensor, state: State) -> tuple[Tensor, State]: ...


class Start(NamedTuple):
    """Where decoding begins and what may come. It serves once: networks may write into their state."""

    state: State
    token: Tensor  # [B] the tokens to go on from
    limit: Tensor  # [B] most tokens of the output, on the host
    min_length: int = 0  # tokens before <eos>
    forbid: Sequence[int] = FORBIDDEN
    eos: int = EOS  # −1: only the limit ends a sentence

    @property
    def own_threads(self) -> bool:
        """Whether the network's steps are shared among threads that are not torch's."""
        return COMPILED in self.state

    def banned(self) -> tuple[Tensor, Tensor]:
        """The tokens that may not come: in the first min_length steps, and later."""
        later = torch.tensor(self.forbid, dtype=torch.int64, device=self.token.device)
        return (later if self.eos < 0 else F.pad(later, (0, 1), value=self.eos)), later


@dataclass(frozen=True)
class Decoded:
    """Hypotheses on the host, best first; where there are fewer than asked for, the rest has score −∞ and length 0."""

    tokens: Tensor  # [B, N, T] without <eos>, then <pad>
    lengths: Tensor  # [B, N] tokens of each, <eos> not counted
    log_probabilities: Tensor  # [B, N] of the tokens and <eos>, at temperature 1 over the whole vocabulary
    scores: Tensor  # [B, N] log-probability / length penalty, which decides the order
    ended: Tensor  # [B, N] True: by <eos>; False: cut short at the limit

    def __getitem__(self, index: tuple[int, int]) -> list[int]:
        """The tokens of one hypothesis: decoded[sentence, rank]."""
        return self.tokens[index][: int(self.lengths[index])].tolist()


@torch.no_grad()
def begin(
    network: EncoderDecoder,
    source_N: Tensor,
    source: Layout,
    max_length: int = 0,
    ratio: float = 2.0,
    extra: int = 10,
    min_length: int = 0,
    forbid: Sequence[int] = FORBIDDEN,
    bos: int = BOS,
    eos: int = EOS,
) -> Start:
    """Encodes a batch; each sentence may have ratio × its length + extra tokens, and max_length at most (0: any)."""
    limit_B = ((source.lengths * ratio).long() + extra).clamp(min=1, max=max_length or None)
    state = network.init_state(network.encode(source_N, source), _most(limit_B))
    token_B = torch.full((source.size,), bos, device=source_N.device)
    return Start(state, token_B, limit_B, min_length, forbid, eos)


def translate(
    network: EncoderDecoder,
    source_N: Tensor,
    source: Layout,
    beam: int = 1,
    length_penalty: float = 0.6,
    max_length: int = 0,
    n_best: int = 1,
) -> Decoded:
    """The best hypotheses for a batch of sentences, by beam search."""
    with frozen(network):
        start = begin(network, source_N, source, max_length)
        with own_threads(start.own_threads):
            return _search(network.step, start, beam, length_penalty, n_best)


@torch.no_grad()
def begin_text(
    network: LanguageModel, prompt_BT: Tensor, length: int, forbid: Sequence[int] = FORBIDDEN, eos: int = EOS
) -> Start:
    """Reads prompts of one length, to go on with at most `length` tokens."""
    state = network.read(prompt_BT[:, :-1], length)
    return Start(state, prompt_BT[:, -1], torch.full((len(prompt_BT),), length), forbid=forbid, eos=eos)


def check_beam(width: object, length_penalty: object, n_best: object = 1) -> None:
    """Refuses what no search can do; for those that begin one later."""
    most = whole("beam", width, 1, WIDEST)
    whole("n_best", n_best, 1, most)
    real("length_penalty", length_penalty, -10, 10)


def penalty(length: Tensor, alpha: float) -> Tensor:
    """((5 + |Y|) / 6)^α, which a log-probability is divided by."""
    return ((5 + length) / 6) ** alpha


@torch.no_grad()
def greedy(step: Step, start: Start, length_penalty: float = 0.0, shrink: bool = True) -> Decoded:
    """The likeliest token at every step. The penalty changes only the score that is reported."""
    check_beam(1, length_penalty)
    with own_threads(start.own_threads):
        return _one_each(step, start, lambda logits_RV, banned, _: likeliest(logits_RV, banned), length_penalty, shrink)


@torch.no_grad()
def sample(
    step: Step,
    start: Start,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    length_penalty: float = 0.0,
    shrink: bool = True,
) -> Decoded:
    """Tokens drawn from softmax(logits / temperature), of the k likeliest, of the fewest that hold a share p of it.

    One uniform number decides each token, drawn by `generator` (of the host) for all B sentences whether open or not:
    what is drawn for one does not depend on when others end.
    """
    sampling = Sampling(temperature, top_k, top_p)
    size = len(start.token)

    def choose(logits_RV: Tensor, banned: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return drawn(logits_RV, banned, uniform(size, generator).to(rows.device)[rows], sampling)

    with own_threads(start.own_threads):
        return _one_each(step, start, choose, length_penalty, shrink)


@torch.no_grad()
def go_on(
    step: Step, start: Start, sampling: Sampling | None = None, generator: torch.Generator | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens and their log-probabilities [T, B] on the host, some steps at a time, as long as they are asked for.

    Without `sampling` the likeliest; with it what `sample` draws. Ends and limits are the reader's to see.
    """
    state, token_B, (_, banned) = start.state, start.token, start.banned()
    while True:
        logits_BV, state = step(token_B, state)
        if sampling is None:
            gain_B, token_B = likeliest(logits_BV.float(), banned)
        else:
            number_B1 = uniform(len(token_B), generator).to(token_B.device)
            gain_B, token_B = drawn(logits_BV.float(), banned, number_B1, sampling)
        yield token_B[None].cpu(), gain_B[None].cpu()


def _one_each(
    step: Step,
    start: Start,
    choose: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
    length_penalty: float,
    shrink: bool,
) -> Decoded:
    """One hypothesis per sentence: what `choose` makes of the logits. What a row says after its end is not read."""
    state, token_R, limit_B, device = start.state, start.token, start.limit, start.token.device
    size, steps, shortest = len(limit_B), _most(limit_B), _least(limit_B)
    tokens_TB = torch.full((steps, size), PAD, device=device)
    gains_TB = torch.zeros((steps, size), device=device)
    early, later = start.banned()
    rows_R, limit_R = torch.arange(size, device=device), limit_B.to(device)
    done_R = torch.zeros(size, dtype=torch.bool, device=device)
    rows = Rows(device)
    for t in range(steps):
        rows.before(state)
        logits_RV, state = step(token_R, state)
        rows.after(state)
        gain_R, token_R = choose(logits_RV.float(), early if t < start.min_length else later, rows_R)
        tokens_TB[t].index_copy_(0, rows_R, token_R)
        gains_TB[t].index_copy_(0, rows_R, gain_R)
        done_R |= token_R == start.eos
        if t + 1 >= shortest:
            done_R |= limit_R <= t + 1
        done = done_R.cpu().numpy()
        if done.all():
            break
        if shrink and done.mean() >= _LEAVE:
            keep = torch.from_numpy(closed_up(~done)).to(device)
            state, token_R, rows_R = rows.keep(state, keep), token_R[keep], rows_R[keep]
            limit_R, done_R = limit_R[keep], done_R[keep]
    tokens_BT, gains_BT = tokens_TB.t().cpu(), gains_TB.t().cpu().double()
    places_T = torch.arange(steps)
    # The place of the first <eos>, if it comes before the limit; what stands after it was not read.
    is_end_BT = (tokens_BT == start.eos) & (places_T < limit_B[:, None])
    ended_B = is_end_BT.any(1)
    length_B = torch.where(ended_B, (is_end_BT.cumsum(1) == 0).sum(1), limit_B)
    counted_B = length_B + ended_B.long()
    sum_B = gains_BT.where(places_T < counted_B[:, None], 0.0).sum(1)
    score_B = sum_B / penalty(counted_B, length_penalty)
    tokens_BT = tokens_BT.where(places_T < length_B[:, None], PAD)[:, : _most(length_B)]
    best = (tokens_BT, length_B, sum_B.float(), score_B.float(), ended_B)
    return Decoded(*(x_B[:, None] for x_B in best))


def beam(
    step: Step, start: Start, width: int = 4, length_penalty: float = 0.6, n_best: int = 1, shrink: bool = True
) -> Decoded:
    """The n best hypotheses that a beam of `width` finds; one beam is `greedy`.

    Of all continuations by one token of the open hypotheses, those among the best `width` that end are kept if they
    are among the n best so far, and the best `width` that do not end stay open.
    """
    with own_threads(start.own_threads):
        return _search(step, start, width, length_penalty, n_best, shrink)


@torch.no_grad()
def _search(step: Step, start: Start, width: int, length_penalty: float, n_best: int, shrink: bool = True) -> Decoded:
    check_beam(width, length_penalty, n_best)
    if width == 1:
        return greedy(step, start, length_penalty, shrink)
    state, token_R, limit_B, device = start.state, start.token, start.limit, start.token.device
    size, steps, shortest, vocab = len(limit_B), _most(limit_B), _least(limit_B), 1
    held = width * sum(x.nbytes for x in state.values())
    require_memory(held, f"A beam of {width:,} for {size:,} texts", "make the beam or the batch smaller", device)
    early, later = start.banned()
    divisors = penalty(torch.arange(steps + 2), length_penalty).tolist()  # by length
    # The past of the open hypotheses: token and parent at every step, so that it never has to be moved.
    tokens_TBK = torch.zeros((steps, size, width), dtype=torch.int64, device=device)
    parents_TBK = torch.zeros_like(tokens_TBK)
    all_kept, kept = _Kept.none(size, n_best, device), _Kept.none(size, n_best, device)
    rows_b, limit_b = torch.arange(size, device=device), limit_B.to(device)
    open_bK = torch.zeros((size, 1), device=device)  # log-probabilities; all beams begin as one
    rows = Rows(device)
    for t in range(steps):
        sentences, beams = open_bK.shape
        rows.before(state)
        logits_RV, state = step(token_R, state)
        rows.after(state)
        vocab = logits_RV.shape[1]
        banned = early if t < start.min_length else later
        candidates = best(logits_RV.float(), banned, min(width + 1, vocab))
        score_bM, parent_bM, token_bM = _continuations(open_bK, *candidates, width)
        ends_bM = token_bM == start.eos
        if t + 1 >= shortest:
            ends_bM |= (limit_b <= t + 1)[:, None]
        code_bK = (parent_bM[:, :width] + t * width) * vocab + token_bM[:, :width]
        kept = kept.merge(score_bM[:, :width].masked_fill(~ends_bM[:, :width], -_INFINITY), divisors[t + 1], code_bK)
        open_bK, which_bK = score_bM.masked_fill_(ends_bM, -_INFINITY).topk(width)
        token_bK, parent_bK = token_bM.gather(1, which_bK), parent_bM.gather(1, which_bK)
        if beams == width and rows.stay:
            place_bK = torch.from_numpy(staying(parent_bK.numpy()))
            open_bK, token_bK, parent_bK = (x_bK.gather(1, place_bK) for x_bK in (open_bK, token_bK, parent_bK))
        tokens_TBK[t].index_copy_(0, rows_b, token_bK)
        parents_TBK[t].index_copy_(0, rows_b, parent_bK)
        # An open hypothesis can only lose log-probability: at best it keeps it, at the length with the best divisor.
        divisor = penalty(limit_b, length_penalty) if length_penalty > 0 else divisors[t + 2]
        done_b = open_bK.amax(1) / divisor <= kept.score[:, -1]
        done = done_b.cpu().numpy()
        if done.all():
            break
        row_R = (parent_bK + torch.arange(0, sentences * beams, beams, device=device)[:, None]).view(-1)
        state = rows.move(state, row_R) if beams == width else rows.repeat(state, row_R)
        if shrink and done.mean() >= _LEAVE:
            all_kept.put(rows_b, kept)
            keep = torch.from_numpy(closed_up(~done)).to(device)
            kept, rows_b, limit_b = kept.take(keep), rows_b[keep], limit_b[keep]
            open_bK, token_bK = open_bK[keep], token_bK[keep]
            state = rows.keep(state, (keep[:, None] * width + torch.arange(width, device=device)).view(-1))
        elif done.any():  # what is done stays as it is
            open_bK = open_bK.masked_fill(done_b[:, None], -_INFINITY)
        token_R = token_bK.view(-1)
    all_kept.put(rows_b, kept)
    return _trace(all_kept, tokens_TBK, parents_TBK, vocab, start.eos)


def _continuations(open_bK: Tensor, gain_RC: Tensor, token_RC: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability, parent and token of the 2·width best continuations, best first: at least `width` do not end.

    The best width + 1 of each beam, of which one may be <eos>, hold the best `width` of all that end or not, and the
    best `width` that do not end.
    """
    sentences, beams = open_bK.shape
    score_bM = (open_bK[:, :, None] + gain_RC.view(sentences, beams, -1)).flatten(1)
    token_bM, lacking = token_RC.view(sentences, -1), 2 * width - score_bM.shape[1]
    if lacking > 0:
        score_bM, token_bM = F.pad(score_bM, (0, lacking), value=-_INFINITY), F.pad(token_bM, (0, lacking))
    score_bM, place_bM = score_bM.topk(2 * width)
    parent_bM = place_bM.div(gain_RC.shape[1], rounding_mode="floor").clamp_(max=beams - 1)
    return score_bM, parent_bM, token_bM.gather(1, place_bM)


class _Kept(NamedTuple):
    """The best hypotheses that have ended, best first; −∞ where there is none."""

    score: Tensor  # [b, N]
    sum: Tensor  # [b, N] log-probability
    code: Tensor  # [b, N] where it ends: (step·K + parent)·V + token

    @classmethod
    def none(cls, size: int, count: int, device: torch.device) -> _Kept:
        empty_bN = torch.full((size, count), -_INFINITY, device=device)
        return cls(empty_bN, empty_bN.clone(), torch.zeros((size, count), dtype=torch.int64, device=device))

    def merge(self, sum_bK: Tensor, divisor: float, code_bK: Tensor) -> _Kept:
        """The best of these and of those that have just ended."""
        score_bN, which_bN = torch.cat((self.score, sum_bK / divisor), 1).topk(self.score.shape[1])
        sum_bN = torch.cat((self.sum, sum_bK), 1).gather(1, which_bN)
        return _Kept(score_bN, sum_bN, torch.cat((self.code, code_bK), 1).gather(1, which_bN))

    def take(self, rows: Tensor) -> _Kept:
        return _Kept(*(x_bN[rows] for x_bN in self))

    def put(self, rows: Tensor, other: _Kept) -> None:
        for mine_BN, x_bN in zip(self, other, strict=True):
            mine_BN.index_copy_(0, rows, x_bN)


def _trace(kept: _Kept, tokens_TBK: Tensor, parents_TBK: Tensor, vocab: int, eos: int) -> Decoded:
    """The tokens of the kept hypotheses, from the last to the first by their parents."""
    score_BN, sum_BN, code_BN = (x_BN.cpu() for x_BN in kept)
    tokens, parents, code = tokens_TBK.cpu().numpy(), parents_TBK.cpu().numpy(), code_BN.numpy()
    exists = score_BN.numpy() > -_INFINITY
    step, beam = np.divmod(code // vocab, tokens.shape[2])
    last = np.where(exists, code % vocab, PAD)
    end = np.where(exists, step, -1)
    steps = int(end.max(initial=-1)) + 1
    path = np.full((steps, *code.shape), PAD)
    sentence = np.arange(len(code))[:, None]
    for t in range(steps - 1, -1, -1):
        path[t] = np.where(t < end, tokens[t, sentence, beam], np.where(t == end, last, PAD))
        beam = np.where(t < end, parents[t, sentence, beam], beam)
    ended = exists & (last == eos)
    lengths = end + 1 - ended
    path = np.where(np.arange(steps)[:, None, None] < lengths, path, PAD)[: int(lengths.max(initial=0))]
    tokens_BNT = torch.from_numpy(np.ascontiguousarray(path.transpose(1, 2, 0)))
    return Decoded(tokens_BNT, torch.from_numpy(lengths), sum_BN, score_BN, torch.from_numpy(ended))


def _most(lengths: Tensor) -> int:
    return int(lengths.max()) if len(lengths) else 0


def _least(lengths: Tensor) -> int:
    return int(lengths.min()) if len(lengths) else 0
