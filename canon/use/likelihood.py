"""The likelihood of a text after another one under a language model: log p(continuation | context), token by token.

Context and continuation are tokenised together, so that tokens are those of the running text; a token belongs to the
continuation if it reaches into it, and white space at the end of a context belongs there too. A context that is too
long for the positions loses its beginning. Texts with the same input, as one-token answers have, are read once.
Shapes: N tokens of B texts end to end, M tokens that are scored, T tokens of a text, V tokens of the vocabulary.
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
from canon.use.language import LanguageRun

_AT_ONCE = {"cpu": 1 << 12, "cuda": 1 << 16}  # tokens read together
_SEGMENT = 256  # tokens of running text whose logits are in memory


class Likelihood(NamedTuple):
    total: float  # log p of all its tokens
    tokens: int
    greedy: bool  # whether each of them was the most likely

    @property
    def mean(self) -> float:
        return self.total / self.tokens


class Request(NamedTuple):
    """Tokens, of which those from `first` on are scored; at least one comes before them."""

    ids: np.ndarray
    first: int


def likelihoods(language: LanguageRun, pairs: Sequence[tuple[str, str]]) -> tuple[list[Likelihood], int]:
    """Of each continuation after its context, and how many contexts lost their beginning."""
    requests = encode(language, pairs)
    shortened = 0
    if language.limit:
        cut = [_fitted(request, language.limit) for request in requests]
        shortened = sum(len(one.ids) != len(other.ids) for one, other in zip(cut, requests, strict=True))
        requests = cut
    return [
        Likelihood(float(-losses.sum()), len(losses), bool(right.all())) for losses, right in score(language, requests)
    ], shortened


def encode(language: LanguageRun, pairs: Sequence[tuple[str, str]]) -> list[Request]:
    """Contexts with their continuations as tokens, after the token that begins a text, if there is one."""
    stripped = [context.rstrip() for context, _ in pairs]
    wholes = [context + continuation for context, continuation in pairs]
    ids, lengths, spans = language.tokenizer.encode_spans(wholes)
    requests: list[Request] = []
    stops = np.cumsum(lengths)
    for context, whole, start, stop in zip(stripped, wholes, stops - lengths, stops, strict=True):
        tokens = ids[start:stop].astype(np.int64)
        first = int((spans[start:stop, 1] <= len(context)).sum())
        if language.opening >= 0 and (language.running or first == 0):
            tokens, first = np.concatenate([[language.opening], tokens]), first + 1
        first = max(first, 1)  # the first token has nothing before it to predict it from
        if first >= len(tokens):
            short = whole if len(whole) <= 40 else f"{whole[:40]}…"
            raise CanonError(f'There is no token to score in "{short}": it is empty, or has nothing before it.')
        requests.append(Request(tokens, first))
    return requests


def _fitted(request: Request, limit: int) -> Request:
    """The last tokens that fit into the positions; the very last one is never read."""
    lost = len(request.ids) - (limit + 1)
    if lost <= 0:
        return request
    if lost >= request.first:
        raise CanonError(
            f"A continuation has {len(request.ids) - request.first:,} tokens, but the network has {limit:,} positions."
        )
    return Request(request.ids[lost:], request.first - lost)


def score(language: LanguageRun, requests: Sequence[Request]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The loss −log p of every scored token, and whether it was the most likely."""
    groups: dict[bytes, list[int]] = {}  # requests by their input
    for index, request in enumerate(requests):
        groups.setdefault(request.ids[:-1].tobytes(), []).append(index)
    # Long texts first: what needs most memory comes at once, and neighbours have about the same length.
    order = sorted(groups.values(), key=lambda group: -len(requests[group[0]].ids))
    scores: list[Any] = [None] * len(requests)
    at_once = _AT_ONCE.get(language.device.type, 1 << 12)
    measure = _score_running if language.running else _score_packed
    with frozen(language.network), bar("scoring", len(requests)) as progress:
        while order:
            count = max(at_once // (len(requests[order[0][0]].ids) - 1), 1)
            taken, order = order[:count], order[count:]
            indices = [index for group in taken for index in group]
            parts = measure(language, [[requests[index] for index in group] for group in taken])
            for index, part in zip(indices, parts, strict=True):
                scores[index] = part
            progress.advance(len(indices))
    return scores


@torch.no_grad()
def _score_packed(language: LanguageRun, asked: list[list[Request]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Texts end to end; each list has the requests of one input, and a place is scored as often as they need it."""
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
    outputs = language.network(token_N, Layout(lengths, language.device), places_M=places_M)
    _, losses_M, right_M = language.network.token_losses(outputs["hidden"], target_M)
    stops = np.cumsum(counts)[:-1]
    losses, rights = (np.split(values_M.cpu().numpy(), stops) for values_M in (losses_M, right_M))
    return list(zip(losses, rights, strict=True))


@torch.no_grad()
def _score_running(language: LanguageRun, asked: list[list[Request]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Texts side by side, a segment at a time; padding after a text is not scored."""
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
        (np.concatenate([losses for losses, _ in text]), np.concatenate([right for _, right in text]))
        for text in pieces
    ]
