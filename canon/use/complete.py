"""Text from a trained language model: the continuation of a prompt.

canon/use/language.py defines how a text begins and ends. Tokens come one by one, or several at a time where the device
samples them by itself (canon/nn/graphs.py); `on_text` receives the text as it grows. A text ends at `length` tokens, at
its end token, or before the first of the stop words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from canon.errors import CanonError
from canon.nn import decoding, graphs
from canon.nn.choosing import Sampling
from canon.nn.frozen import frozen
from canon.nn.limits import seeded, whole
from canon.use.language import LanguageRun
from canon.use.model import Model

_AT_ONCE = 64  # texts that are sampled together
_HALF = "\ufffd"  # the decoded form of an incomplete character


@dataclass(frozen=True)
class Completion:
    prompt: str
    text: str  # the prompt and what follows it
    log_probability: float  # of what follows, under the model itself


def complete(
    model: Model,
    prompt: str = "",
    length: int = 100,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    count: int = 1,
    seed: int = 0,
    stop: Sequence[str] = (),
    on_text: Callable[[str], None] | None = None,
) -> list[Completion]:
    """`count` texts of at most `length` more tokens; temperature 0 always takes the most likely token.

    A text ends before the first of the words `stop` that occurs in it; the stop word still counts in the
    log-probability. `on_text` receives the only text piece by piece.
    """
    language = LanguageRun(model)
    whole("length", length)
    whole("count", count)
    if on_text is not None and count > 1:
        raise CanonError(f"Only one text can be streamed (on_text), but count is {count}.")
    if not all(stop):
        raise CanonError("A stop word must have at least one character.")
    sampling = Sampling(temperature, top_k, top_p) if temperature else None
    read, before = language.begin(prompt)
    generator = seeded(seed)
    completions: list[Completion] = []
    with frozen(language.network):
        for start in range(0, count, _AT_ONCE):
            rows = [_Text(language, read[before:], stop) for _ in range(min(_AT_ONCE, count - start))]
            prompt_BT = torch.from_numpy(read).to(language.device).expand(len(rows), -1).contiguous()
            have = 0
            for token_TB, gain_TB in _stream(language, prompt_BT, length, sampling, generator):
                for row, tokens, gains in zip(rows, token_TB.T.tolist(), gain_TB.T.tolist(), strict=True):
                    row.add(tokens[: length - have], gains[: length - have])
                have += len(token_TB)
                if on_text is not None:
                    on_text(rows[0].news())
                if have >= length or all(row.done for row in rows):
                    break
            if on_text is not None:
                on_text(rows[0].news(whole=True))
            completions += [Completion(prompt, row.text, float(np.sum(row.gains))) for row in rows]
    return completions


def remark(model: Model, prompt: str, length: int) -> str:
    """A sentence if a text may become longer than the network's positions, else ""."""
    language = LanguageRun(model)
    if not language.limit or len(language.begin(prompt)[0]) + length <= language.limit:
        return ""
    return (
        f"Prompt and continuation may be longer than the network's {language.limit:,} positions: whenever these are "
        "full, it reads the newer half again and forgets the older."
    )


def _stream(
    language: LanguageRun, prompt_BT: Tensor, length: int, sampling: Sampling | None, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens and log-probabilities [T, B] without end, by CUDA graphs if the network can be recorded."""
    network = language.network
    if _records(language):
        capacity = prompt_BT.shape[1] - 1 + length
        recorder = graphs.Recorder(network, len(prompt_BT), capacity, language.device, sampling, language.forbid)
        recorder.begin(prompt_BT)
        return graphs.go_on(recorder, generator)
    begun = decoding.begin_text(network, prompt_BT, length, language.forbid, -1)
    return decoding.go_on(network.step, begun, sampling, generator)


def _records(language: LanguageRun) -> bool:
    return language.device.type == "cuda" and isinstance(language.network, graphs.RecordsSteps)


class _Text:
    """One text as it grows."""

    def __init__(self, language: LanguageRun, prompt: np.ndarray, stop: Sequence[str]) -> None:
        self._language, self._stop = language, tuple(stop)
        self._ids = prompt.tolist()
        self._from = len(language.text(prompt)) if stop else 0  # stop words of the prompt do not count
        self._cut = -1  # characters before the stop word
        self._sent = 0  # characters that `news` has returned
        self.gains: list[float] = []
        self.done = False

    def add(self, tokens: list[int], gains: list[float]) -> None:
        for token, gain in zip(tokens, gains, strict=True):
            if self.done:
                return
            self.gains.append(gain)
            if token == self._language.eos and not self._language.running:
                self.done = True
                return
            self._ids.append(token)
            if self._stop:
                text = self._whole
                places = [place for word in self._stop if (place := text.find(word, self._from)) >= 0]
                self._cut = min(places, default=-1)
                self.done = bool(places)

    @property
    def _whole(self) -> str:
        return self._language.text(np.array(self._ids, dtype=np.int64))

    @property
    def text(self) -> str:
        return self._whole if self._cut < 0 else self._whole[: self._cut]

    def news(self, whole: bool = False) -> str:
        """The text since the last call; unless `whole`, without the end that may still change or be cut off."""
        text = self.text
        if not whole:
            text = text.rstrip(_HALF)
            text = text[: len(text) - max((len(word) - 1 for word in self._stop), default=0)]
        news = text[self._sent :]
        self._sent = max(self._sent, len(text))
        return news
