"""Where decoding stops and how sequences are judged, against numbers worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from canon.data.batching.sequences import Ragged
from canon.data.encodings.sequences import SequenceSchema
from canon.data.targets import OtherText
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import EOS, PAD
from canon.tasks.transduction import Transduction
from tests.objectives.choices import choice
from tests.tasks.arrays import arrays

SYMBOLS = "a b c d"


def task(longest: tuple[int, ...] = (), kind: Any = "split", **config: object) -> Transduction:
    tokenizers = {side: Tokenizer.train([SYMBOLS], kind) for side in ("source", "target")}
    schema = SequenceSchema(OtherText(), longest=longest, tokenizers=tokenizers)
    return Transduction(choice("cross-entropy", "transduction"), SimpleNamespace(**{"max_length": 0, **config}), schema)


@pytest.mark.parametrize(
    ("longest", "config", "limit"),
    [
        ((10, 10), {}, 20),
        ((10, 40), {}, 65),  # the target is the longer side
        ((40, 10), {}, 65),  # the source is: what is said of it may be as long
        ((11, 7), {}, 22),  # 16.5 is rounded up
        ((), {}, 35),  # nothing is known
        ((40, 40), {"max_length": 7}, 7),  # as the recipe says
        ((40, 40), {"max_length": 0}, 65),
    ],
)
def test_decoding_stops_half_as_far_again_as_the_longest_side(longest, config, limit) -> None:
    assert task(longest, **config).limit == limit


SOURCES = ["a", "a b", "a b", "a b c", "a b c", "a b c", "a b c d", "a b c d"]
RIGHT = ["a", "a b", "c", "d", "a b c", "b", "d d", "a b c d"]
SAID = ["a", "a b", "c d", "d", "a b c", "c", "d", "a b c d"]


def decoded(own: Transduction, texts: list[str], width: int = 7) -> torch.Tensor:
    """What a network says, as decoding gives it: an end after each, then padding, or anything."""
    rows = torch.full((len(texts), width), PAD)
    for row, text in zip(rows, texts, strict=True):
        ids = own.schema.tokenizers["target"].encode([text])[0].astype(np.int64)
        row[: len(ids) + 1] = torch.from_numpy(np.append(ids, EOS))
        row[len(ids) + 2 :] = int(ids[0])  # never read
    return rows


def outputs(own: Transduction) -> dict[str, torch.Tensor]:
    count = torch.tensor([2.0, 3, 2, 2, 4, 2, 3, 5])
    return {"loss": 0.5 * count, "right": count - 1, "count": count, "decoded": decoded(own, SAID)}


def columns(own: Transduction) -> dict[str, Any]:
    source, target = own.schema.tokenizers["source"], own.schema.tokenizers["target"]
    return {"input": Ragged.encode(source, SOURCES), "target": Ragged.encode(target, RIGHT, bos=True)}


def test_scores_of_symbols() -> None:
    own = task()
    scores = own.score(arrays(outputs(own)), columns(own))
    assert scores["loss"] == pytest.approx(0.5) and scores["perplexity"] == pytest.approx(np.exp(0.5))
    assert scores["token_accuracy"] == pytest.approx(15 / 23)  # of 23 targets all but one a row
    assert scores["wer"] == pytest.approx(3 / 8)  # c, b and d d are wrong
    # The quarter begins at the longest but one, and those as long as its shortest belong to it: two of four symbols.
    assert scores["wer_long"] == pytest.approx(1 / 2)
    assert scores["per"] == pytest.approx(3 / 15)  # one too many, one other, one too few, of 15 symbols
    assert scores.keys() == set(own.names()) and own.monitor == "wer"


def test_rows_end_at_their_end_and_samples_say_what_is_right() -> None:
    own = task()
    assert [row["prediction"] for row in own.rows(arrays(outputs(own)), columns(own), 1)] == SAID
    full = {"decoded": decoded(own, ["a b c"], width=4)[:, :3]}  # cut at the limit, with no end
    assert own.texts(arrays(full)) == ["a b c"]
    shown = own.samples(arrays(outputs(own)), columns(own))  # the first, the last, and one between
    assert shown == ["  a → a", "  a b c → d", "  a b c d → a b c d"]
    wrong = {**columns(own), "references": np.array([(text, "x") for text in RIGHT[::-1]], dtype=object)}
    assert own.samples(arrays(outputs(own)), wrong)[0] == "  a → a   (right: a b c d)"


def test_text_is_judged_by_bleu() -> None:
    own = task(kind="word")
    scores = own.score(arrays(outputs(own)), {**columns(own), "references": [(text,) for text in SAID]})
    assert scores.keys() == set(own.names()) == {"loss", "perplexity", "token_accuracy", "bleu"}
    assert own.monitor == "bleu" and own.remarks[0].startswith("BLEU is sacreBLEU's: ")
