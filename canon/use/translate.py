"""Translation with a trained run, or what T5 makes of a text: lists, or streams of lines in bounded memory.

Lines are read a window at a time; within it, sentences of similar length are decoded together, and translations come in
the order of the lines. A line that cannot be translated raises its error after the lines before it are translated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np
import torch

from canon import metrics
from canon.contracts import WIDEST
from canon.data.batching.sequences import Ragged
from canon.data.formats.files import open_bytes
from canon.errors import CanonError
from canon.nn import decoding
from canon.nn.frozen import frozen
from canon.nn.limits import whole
from canon.nn.ragged import Layout
from canon.use.model import Model
from canon.use.sides import Sides

BATCH = 64  # sentences decoded together
WINDOW = 32  # batches read ahead
_TOKENS = 64  # a batch has at most this many source tokens per sentence
_LONGEST_LINE = 1 << 20  # bytes

Line = tuple[str, str]  # its place, for messages; the text


@dataclass(frozen=True)
class Translation:
    text: str
    score: float  # log-probability / length penalty
    log_probability: float
    ended: bool  # False: cut short at the longest length


class Translator:
    """A run's network with a beam; counts the unknown tokens it meets."""

    def __init__(
        self,
        model: Model,
        beam: int = 0,
        length_penalty: float | None = None,
        n_best: int = 1,
        batch: int = BATCH,
    ) -> None:
        self.sides = Sides.of(model)
        config = model.run.recipe.config
        self.model, self.n_best, self.batch = model, n_best, batch
        self.beam = beam or max(config.beam, whole("n_best", n_best, 1, WIDEST))
        self.length_penalty = config.length_penalty if length_penalty is None else length_penalty
        decoding.check_beam(self.beam, self.length_penalty, n_best)
        whole("batch", batch)
        self.lines = self.unknown_tokens = self.unknown_lines = 0

    def stream(self, lines: Iterable[Line], window: int = 0) -> Iterator[tuple[str, list[Translation]]]:
        """Each line with its translations, best first; an empty line has one, which is empty."""
        source, window = iter(lines), window or WINDOW * self.batch
        while True:
            taken: list[Line] = []
            failure: CanonError | None = None
            try:
                for line in islice(source, window):
                    taken.append(line)
            except CanonError as mistake:
                failure = mistake
            sentences = self.sides.encode([text.strip() for _, text in taken])
            too_long = np.flatnonzero(sentences.lengths > self.sides.limit)
            if len(too_long):
                row = int(too_long[0])
                failure = CanonError(
                    f"{taken[row][0]}: the sentence has {sentences.lengths[row]:,} tokens, but {self.model.run.path} "
                    f"takes at most {self.sides.limit:,}; split it."
                )
                sentences = sentences.take(np.arange(row))
            yield from zip((text for _, text in taken), self._window(sentences), strict=False)
            if failure is not None:
                raise failure
            if len(taken) < window:
                return

    @torch.no_grad()
    def _window(self, sentences: Ragged) -> list[list[Translation]]:
        best: list[list[Translation]] = [[Translation("", 0.0, 0.0, True)] for _ in range(len(sentences))]
        full = np.flatnonzero(sentences.lengths > 1)  # the rest is <eos> alone
        order = full[np.argsort(-sentences.lengths[full], kind="stable")]
        unknown_N = np.flatnonzero(sentences.tokens == self.sides.unk)
        self.lines += len(sentences)
        self.unknown_tokens += len(unknown_N)
        self.unknown_lines += len(np.unique(np.searchsorted(sentences.offsets, unknown_N, side="right")))
        with frozen(self.model.network):
            while len(order):
                size = max(min(self.batch, _TOKENS * self.batch // int(sentences.lengths[order[0]])), 1)
                rows, order = order[:size], order[size:]
                for row, translations in zip(rows, self._decode(sentences.take(rows)), strict=True):
                    best[row] = translations
        return best

    def _decode(self, sentences: Ragged) -> list[list[Translation]]:
        network = self.model.network.eval()
        device = next(network.parameters()).device
        sides, tokens_N = self.sides, torch.from_numpy(sentences.tokens).long().to(device)
        layout = Layout(torch.from_numpy(sentences.lengths), device)
        start = decoding.begin(
            network, tokens_N, layout, sides.max_length, forbid=sides.forbid, bos=sides.bos, eos=sides.eos
        )
        decoded = decoding.beam(network.step, start, self.beam, self.length_penalty, self.n_best)
        rows = range(len(sentences))
        ids = [decoded[row, rank] for row in rows for rank in range(self.n_best)]
        texts = sides.target.decode_batch(ids)
        numbers = (x.flatten().tolist() for x in (decoded.scores, decoded.log_probabilities, decoded.ended))
        every = [
            Translation(" ".join(text.splitlines()), *values) for text, *values in zip(texts, *numbers, strict=True)
        ]
        return [
            [one for one in every[row * self.n_best : (row + 1) * self.n_best] if one.score > -np.inf] for row in rows
        ]

    def note(self) -> str:
        """A sentence about tokens that the run does not know; "" if there were none."""
        if not self.unknown_tokens:
            return ""
        tokens = "token" if self.unknown_tokens == 1 else "tokens"
        return f"{self.unknown_tokens:,} unknown {tokens} in {self.unknown_lines:,} of {self.lines:,} lines."


def translate(
    model: Model,
    texts: str | Sequence[str],
    beam: int = 0,
    length_penalty: float | None = None,
    n_best: int = 1,
    batch: int = BATCH,
) -> list[list[Translation]]:
    """The n best translations of a text or of each of several; by default with the beam and length penalty of the run's
    system."""
    several = [texts] if isinstance(texts, str) else texts
    for text in several:
        if not isinstance(text, str):
            raise CanonError(f"translate takes a text or a list of texts, got {type(text).__name__}.")
    lines = ((f"Text {number}", text) for number, text in enumerate(several, start=1))
    return [best for _, best in Translator(model, beam, length_penalty, n_best, batch).stream(lines)]


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file, which may be compressed."""
    with open_bytes(path) as stream:
        yield from lines_of(stream, str(path))


def lines_of(stream: IO[bytes], name: str) -> Iterator[Line]:
    """The lines of a stream of UTF-8 text."""
    number = 0
    while raw := stream.readline(_LONGEST_LINE + 1):
        number += 1
        where = f"{name}, line {number:,}"
        if len(raw) > _LONGEST_LINE:
            raise CanonError(f"{where} is longer than a megabyte; a line holds one sentence.")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as mistake:
            raise CanonError(
                f"{where}: byte {mistake.start + 1} (0x{raw[mistake.start]:02X}) is not UTF-8; convert the text, as "
                "in iconv -f latin1 -t utf-8."
            ) from None
        yield where, text.rstrip("\r\n")


def score(model: Model, hypotheses: Sequence[str], references: Sequence[str], name: str) -> dict[str, float | str]:
    """sacreBLEU and its signature; for targets split at spaces, error rates. `name`: where the references come from."""
    if len(hypotheses) != len(references):
        raise CanonError(
            f"{name} has {len(references):,} lines, but {len(hypotheses):,} were translated; a reference must be in "
            "the line of its sentence."
        )
    if not hypotheses:
        raise CanonError(f"{name} is empty; there is nothing to score.")
    if Sides.of(model).target.kind == "split":
        outputs, right = [text.split() for text in hypotheses], [[text.split()] for text in references]
        return {"wer": metrics.sequence_error_rate(outputs, right), "per": metrics.token_error_rate(outputs, right)}
    bleu = metrics.corpus_bleu(hypotheses, references, tokenize=metrics.bleu_tokenizer(references))
    return {"bleu": bleu.score, "signature": bleu.signature}
