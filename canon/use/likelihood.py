"""How likely a language model finds a text behind another one: log p(continuation | context), token by token.

Context and continuation are tokenised together, so that tokens are those of the running text; a token belongs to the
continuation if it reaches into it, and white space at the end of a context belongs there too. Where positions are few,
a context loses its beginning. Texts whose input is the same are read once: answers of one token to the same question.
Shapes: N tokens of B texts end to end, M tokens that are asked for, T tokens of a text, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from canon.data.progress import bar
from canon.errors import CanonError
from canon.nn.frozen import frozen
from canon.nn.ragged import Layout
from canon.use.language import Language

_AT_ONCE = {"cpu": 1 << 12, "cuda": 1 << 16}  # tokens that are read together
_SEGMENT = 256  # tokens of running text whose logits are held


class Likelihood(NamedTuple):
    total: float  # log p of all its tokens
    tokens: int
    likeliest: bool  # whether each of them was the likeliest

    @property
    def mean(self) -> float:
        return self.total / self.tokens


class Request(NamedTuple):
    """Tokens of which those from `first` on are asked for; there is one before them."""

    ids: np.ndarray
    first: int


def likelihoods(language: Language, pairs: Sequence[tuple[str, str]]) -> tuple[list[Likelihood], int]:
    """Of each continuation behind its context, and how many contexts lost their beginning."""
    requests = encode(language, pairs)
    shortened = 0
    if language.limit:
        cut = [_fitted(request, language.limit) for request in requests]
        shortened = sum(len(one.ids) != len(other.ids) for one, other in zip(cut, requests, strict=True))
        requests = cut
    return [
        Likelihood(float(-losses.sum()), len(losses), bool(right.all())) for losses, right in score(language, requests)
    ], shortened


def encode(language: Language, pairs: Sequence[tuple[str, str]]) -> list[Request]:
    """Contexts with their continuations as tokens, behind the token that begins a text where there is one."""
    stripped = [context.rstrip() for context, _ in pairs]
    wholes = [context + continuation for context, continuation in pairs]
    ids, lengths, spans = language.tokenizer.encode_spans(wholes)
    found: list[Request] = []
    stops = np.cumsum(lengths)
    for context, whole, start, stop in zip(stripped, wholes, stops - lengths, stops, strict=True):
        own = ids[start:stop].astype(np.int64)
        first = int((spans[start:stop, 1] <= len(context)).sum())
        if language.opening >= 0 and (language.running or first == 0):
            own, first = np.concatenate([[language.opening], own]), first + 1
        first = max(first, 1)  # nothing stands before the first token to foretell it by
        if first >= len(own):
            raise CanonError(
                f'There is no token to score in "{_short(whole)}": nothing stands before it, or it is empty.'
            )
        found.append(Request(own, first))
    return found


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _fitted(request: Request, limit: int) -> Request:
    """The last tokens that the positions hold; the last one is never read."""
    lost = len(request.ids) - (limit + 1)
    if lost <= 0:
        return request
    if lost >= request.first:
        raise CanonError(
            f"A continuation has {len(request.ids) - request.first:,} tokens, but the network has {limit:,} positions."
        )
    return Request(request.ids[lost:], request.first - lost)


def score(language: Language, requests: Sequence[Request]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The loss −log p of every token asked for, and whether it was the likeliest."""
    places: dict[bytes, int] = {}
    which = [places.setdefault(request.ids[:-1].tobytes(), len(places)) for request in requests]
    askers: list[list[int]] = [[] for _ in places]
    for index, place in enumerate(which):
        askers[place].append(index)
    # Long texts first: what needs most memory comes at once, and neighbours are of about one length.
    order = sorted(range(len(askers)), key=lambda place: -len(requests[askers[place][0]].ids))
    found: list[Any] = [None] * len(requests)
    at_once = _AT_ONCE.get(language.device.type, 1 << 12)
    measure = _score_running if language.running else _score_packed
    with frozen(language.network), bar("scoring", len(requests)) as progress:
        while order:
            longest = len(requests[askers[order[0]][0]].ids) - 1
            taken, order = order[: max(at_once // longest, 1)], order[max(at_once // longest, 1) :]
            asked = [[requests[index] for index in askers[place]] for place in taken]
            indices = [index for place in taken for index in askers[place]]
            for index, one in zip(indices, measure(language, asked), strict=True):
                found[index] = one
            progress.advance(len(indices))
    return found


@torch.no_grad()
def _score_packed(language: Language, asked: list[list[Request]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Texts end to end; each list has the requests of one input, and a place is asked for as often as they need it."""
    inputs = [group[0].ids[:-1] for group in asked]
    lengths = torch.tensor([len(ids) for ids in inputs])
    starts = (lengths.cumsum(0) - lengths).tolist()
    places, targets, counts = [], [], []
    for start, group in zip(starts, asked, strict=True):
        for request in group:
            places.append(start + np.arange(request.first - 1, len(request.ids) - 1))
            targets.append(request.ids[request.first :])
            counts.append(len(targets[-1]))
    token_N, places_M, target_M = (
        torch.from_numpy(np.concatenate(parts)).to(language.device) for parts in (inputs, places, targets)
    )
    found = language.network(token_N, Layout(lengths, language.device), places_M=places_M, target_M=target_M)
    stops = np.cumsum(counts)[:-1]
    losses, rights = (np.split(found[name].cpu().numpy(), stops) for name in ("losses", "right"))
    return list(zip(losses, rights, strict=True))


@torch.no_grad()
def _score_running(language: Language, asked: list[list[Request]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Texts side by side, a segment at a time; what stands behind a text is not looked at."""
    inputs = [torch.from_numpy(group[0].ids[:-1]) for group in asked]
    token_BT = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True).to(language.device)
    pieces: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for group in asked for _ in group]
    state = None
    for start in range(0, token_BT.shape[1], _SEGMENT):
        logits_BTV, state = language.network(token_BT[:, start : start + _SEGMENT], state)
        gains_BTV = logits_BTV.float().log_softmax(-1)
        number = 0
        for row, group in enumerate(asked):
            for request in group:
                first, stop = max(request.first - 1, start), min(len(request.ids) - 1, start + _SEGMENT)
                if first < stop:
                    gains_MV = gains_BTV[row, first - start : stop - start]
                    target_M = torch.from_numpy(request.ids[first + 1 : stop + 1]).to(language.device)
                    losses_M = -gains_MV.gather(1, target_M[:, None])[:, 0]
                    pieces[number].append((losses_M.cpu().numpy(), (gains_MV.argmax(1) == target_M).cpu().numpy()))
                number += 1
    return [
        (np.concatenate([losses for losses, _ in own]), np.concatenate([right for _, right in own])) for own in pieces
    ]
