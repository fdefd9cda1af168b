"""How alike two texts are, against scikit-learn's TF-IDF and against counts by hand."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from canon.data.likeness import WIDTH, likeness, weights_of

TEXTS = ["a dog runs", "the dog sleeps here", "a cat runs and runs", "the red cat sleeps", "a dog and a cat"]


def test_cosines_are_scikit_learns() -> None:
    """Binary entries times idf; words that came once are as rare as any, which here they are."""
    idf, rarest = weights_of(TEXTS, str.split)
    maker = TfidfVectorizer(binary=True, token_pattern=r"\S+").fit(TEXTS)
    pairs = [(first, second) for first in TEXTS for second in TEXTS]
    actual = likeness(pairs, idf, rarest, str.split)[:, 0]
    wanted = [float((maker.transform([one]) @ maker.transform([two]).T).toarray()[0, 0]) for one, two in pairs]
    np.testing.assert_allclose(actual, wanted, atol=1e-3)  # idf is kept to four places


def test_counts_by_hand() -> None:
    row = likeness([("a b c", "b c d e")], {}, 1.0, str.split)[0]
    threes = {" a ", "a b", " b ", "b c", " c "}, {" b ", "b c", " c ", "c d", " d ", "d e", " e "}
    shared = 2 * len(threes[0] & threes[1]) / (len(threes[0]) + len(threes[1]))
    np.testing.assert_allclose(row, [2 / math.sqrt(12), 2 / 5, 2 / 3, 2 / 4, shared, math.log(4 / 5)])
    assert likeness([("", "")], {}, 1.0, str.split).tolist() == [[0.0] * WIDTH]
    assert likeness([], {}, 1.0, str.split).shape == (0, WIDTH)


def write_pairs(path: Path, score: Callable[[int], Any]) -> None:
    """Sentences of six words that share 0 to 6 of them; what they are called by `score` is not in either alone."""
    chance = random.Random(0)
    words = [f"{a}{b}{c}" for a in "bdgklm" for b in "aeiou" for c in "nrst"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "verdict"])
        for row in range(600):
            shared = row % 7
            chosen = chance.sample(words, 12 - shared)
            second = chosen[:shared] + chosen[6:]
            chance.shuffle(second)
            writer.writerow([" ".join(chosen[:6]), " ".join(second), score(shared)])


def test_two_texts_are_compared_by_the_first_command(tmp_path: Path, canon: Callable[..., Any]) -> None:
    """Classes and numbers that only both texts together say, and again by predict."""
    write_pairs(tmp_path / "pairs.csv", lambda shared: "same" if shared > 3 else "other")
    trained = canon("train", str(tmp_path / "pairs.csv"), "--out", "run")
    assert trained.code == 0 and "training mlp" in trained.err.splitlines()[0], trained.err
    assert 'Texts of a row are compared by their words and letters: "first" with "second".' in trained.err
    assert json.loads(Path("run/result.json").read_text())["scores"]["test"]["accuracy"] >= 0.9
    Path("new.csv").write_text("second,first\nban dar gin,ban dar gin\nban dar gin,kos lut mer\n")
    rows = json.loads(canon("predict", "run", "new.csv", "--json").out)
    assert [row["prediction"] for row in rows] == ["same", "other"]
    write_pairs(tmp_path / "scores.csv", lambda shared: shared / 6)
    trained = canon("train", str(tmp_path / "scores.csv"), "--out", "numbers")
    assert trained.code == 0 and "training mlp" in trained.err.splitlines()[0], trained.err
    assert json.loads(Path("numbers/result.json").read_text())["scores"]["test"]["r2"] >= 0.8


def test_one_text_with_a_number(tmp_path: Path, canon: Callable[..., Any]) -> None:
    chance = random.Random(0)
    rows = [(chance.randint(0, 4), chance.choice(["film", "book", "play"])) for _ in range(400)]
    worth = ["awful", "dull", "fair", "good", "superb"]
    lines = [
        f"a {worth[points]} {thing} for all of us,{points / 4 + len(thing) % 3 / 50:.3f}" for points, thing in rows
    ]
    (tmp_path / "a.csv").write_text("\n".join(["review,points", *lines]) + "\n")
    trained = canon("train", str(tmp_path / "a.csv"), "--out", "run")
    assert trained.code == 0 and "training mlp" in trained.err.splitlines()[0], trained.err
    assert json.loads(Path("run/result.json").read_text())["scores"]["test"]["r2"] >= 0.9
