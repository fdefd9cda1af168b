"""Attention against the network's own weights; figures by what is drawn in them; labels in fonts that have them."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from canon import figures
from canon.data.text.vocabularies import BOS, EOS
from canon.errors import CanonError
from canon.inspect.attention import Attention, Map, attention, attention_figure
from canon.inspect.labels import labels
from canon.nn.ragged import Layout
from canon.training.trainer import train
from canon.use.model import load
from canon.use.translate import translate

WORDS = {"one": "一", "two": "二", "three": "三", "four": "四", "five": "五"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of any system after two steps; digits to Chinese."""
    folder = tmp_path_factory.mktemp("attention")
    chance = random.Random(0)
    texts = [chance.choices([*WORDS], k=chance.randint(1, 6)) for _ in range(100)]
    rows = (" ".join(text) + "\t" + "".join(WORDS[word] for word in text) for text in texts)
    (folder / "pairs.tsv").write_text("\n".join(rows), encoding="utf-8")
    (folder / "text.txt").write_text("\n".join(" ".join(text) for text in texts), encoding="utf-8")
    pairs = {"data.tokenizer": "word", "data.target_tokenizer": "char", "data.max_length": 20, "train.tokens": 0}
    text = {"data.tokenizer": "word", "data.window": 8}

    def run(name: str, **settings: Any) -> Path:
        out = folder / "-".join((name, *map(str, settings.values())))
        if not out.exists():
            is_text = name in ("transformer-xl", "rnn-lm")
            changes = {**(text if is_text else pairs), **settings, "train.steps": 2, "train.batch": 4}
            train(
                f"{name}:tiny", str(folder / ("text.txt" if is_text else "pairs.tsv")), out, changes=changes, quiet=True
            )
        return out

    return run


def test_transformer(runs: Callable) -> None:
    model = load(runs("transformer", **{"system.num_layers": 2}))
    actual = attention(model, "two one five", "二一五")
    source_tokenizer, target_tokenizer = model.schema.tokenizers["source"], model.schema.tokenizers["target"]
    source = torch.tensor([*source_tokenizer.encode(["two one five"])[0].tolist(), EOS])
    given = torch.tensor([BOS, *target_tokenizer.encode(["二一五"])[0].tolist()])
    expected = model.network.attention(
        source, Layout(torch.tensor([len(source)])), given, Layout(torch.tensor([len(given)]))
    )
    assert {f"{one.kind}/{one.layer}" for one in actual.maps} == set(expected) and len(expected) == 6
    for one in actual.maps:
        np.testing.assert_allclose(one.weights, expected[f"{one.kind}/{one.layer}"][0], atol=1e-6)
        np.testing.assert_allclose(one.weights.sum(-1), 1, atol=1e-5)
        assert one.weights.shape == (2, len(one.queries), len(one.keys))
    by_kind = {one.kind: one for one in actual.maps}
    assert by_kind["encoder"].queries == by_kind["cross"].keys == ["two", "one", "five", "<eos>"]
    assert by_kind["decoder"].queries == ["<bos>", "二", "一", "五"]
    assert by_kind["cross"].queries == ["二", "一", "五", "<eos>"], "rows are what is about to be said"
    assert not np.triu(by_kind["decoder"].weights[0], 1).any(), "nothing looks ahead"
    rows = actual.to_json()["maps"]
    assert len(rows) == 6 * 2 and {(row["layer"], row["head"]) for row in rows} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    np.testing.assert_allclose(rows[-1]["weights"], by_kind["cross"].weights[1], atol=1e-6)


@pytest.mark.parametrize("name", ["bahdanau", "luong", "transformer"])
def test_without_a_target_the_network_speaks(runs: Callable, name: str) -> None:
    model = load(runs(name))
    result = attention(model, "two one")
    assert result.target == translate(model, ["two one"])[0][0].text
    last = result.maps[-1]
    assert last.queries[-1] == "<eos>" and last.keys == ["two", "one", "<eos>"]
    if name != "transformer":
        assert [one.kind for one in result.maps] == ["alignment"] and len(last.weights) == 1
        np.testing.assert_allclose(last.weights.sum(-1), 1, atol=1e-5)


def test_language_model(runs: Callable) -> None:
    result = attention(load(runs("transformer-xl")), "one two three")
    assert [(one.kind, one.layer) for one in result.maps] == [("decoder", 0), ("decoder", 1)]
    assert result.maps[0].queries == result.maps[0].keys == ["<eos>", "one", "two", "three"]
    np.testing.assert_allclose(result.maps[0].weights.sum(-1), 1, atol=1e-5)


def test_figures() -> None:
    def one(kind: str, layer: int, heads: int, queries: int, keys: int) -> Map:
        weights = np.random.default_rng(layer).dirichlet(np.ones(keys), (heads, queries))
        return Map(kind, layer, [f"q{i}" for i in range(queries)], [f"$k{i}" for i in range(keys)], weights)

    maps = [one(kind, layer, 10, 4, 5) for kind in ("encoder", "cross") for layer in range(7)]
    figure = attention_figure(Attention("", "", maps))
    assert len(figure.axes) == 2 * 6 * 8
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[0] == "layer 1, head 1" and titles[47] == "layer 6, head 8"
    assert "(the first 6 of 7 layers and 8 of 10 heads)" in figure.subfigs[0].get_suptitle()
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), maps[0].weights[0])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["q0", "q1", "q2", "q3"]
    assert not figure.axes[1].get_yticklabels(), "labels stand at the left"
    alone = attention_figure(Attention("", "", [one("alignment", 0, 1, 90, 3)]))
    assert alone.axes[0].get_title(loc="left") == "alignment: target to source" and len(alone.axes) == 2
    svg = figures.to_svg(alone)
    assert ">q89<" in svg and ">$k0<" in svg


def _font(path: Path, name: str, characters: str) -> None:
    """A font with a box for each of some characters."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for place in ((0, 500), (500, 500), (500, 0)):
        pen.lineTo(place)
    pen.closePath()
    names = [f"uni{ord(character):04X}" for character in characters]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", *names])
    builder.setupCharacterMap(dict(zip(map(ord, characters), names, strict=True)))
    builder.setupGlyf(dict.fromkeys([".notdef", *names], pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys([".notdef", *names], (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": name, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)


def test_chinese_is_drawn_by_a_font_that_has_it_or_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.font_manager import FontEntry, fontManager

    tokens = ["<bos>", "二", "über", "龘"]
    weights = np.full((1, 4, 4), 0.25)
    plain = [entry for entry in fontManager.ttflist if "dejavu" in entry.name.lower()]
    monkeypatch.setattr(fontManager, "ttflist", plain)
    result = labels(tokens)
    assert result.of(tokens) == ["<bos>", "2", "über", "4"] and result.missing == "二龘"
    assert result.warning.startswith("No font here has 二 and others, so such tokens are numbered in the figure")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib would warn of a missing glyph
        figures.to_png(attention_figure(Attention("", "", [Map("alignment", 0, tokens, tokens, weights)])))
    _font(tmp_path / "wide.ttf", "Test Sans CJK XX", "二三")
    monkeypatch.setattr(
        fontManager,
        "ttflist",
        [*plain, FontEntry(fname=str(tmp_path / "wide.ttf"), name="Test Sans CJK XX", weight=400)],
    )
    result = labels(tokens)
    assert result.fonts == ["DejaVu Sans", "Test Sans CJK XX"] and result.of(tokens) == ["<bos>", "二", "über", "4"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.to_png(attention_figure(Attention("", "", [Map("alignment", 0, tokens, tokens, weights)])))
    assert labels(["a", "ß"]).warning == ""


def test_command(runs: Callable, canon: Callable) -> None:
    run = runs("transformer")
    printed = canon("inspect", "attention", run, "two one", "--target", "二一")
    assert printed.code == 0 and printed.out == "transformer-attention.png\ntransformer-attention.json\n"
    written = json.loads(Path("transformer-attention.json").read_text(encoding="utf-8"))
    assert written["source"] == "two one" and written["target"] == "二一" and len(written["maps"]) == 3 * 2
    assert Path("transformer-attention.png").read_bytes().startswith(b"\x89PNG")
    printed = canon("inspect", "attention", runs("bahdanau"), "two", "--out", "a/b.svg", "--json", "-")
    assert json.loads(printed.out)["figure"] == "a/b.svg" and Path("a/b.svg").is_file()
    for wrong, sentence in (
        ((run, ""), "TEXT is empty"),
        ((run, "one " * 30), "The source has 31 tokens, but"),
        ((run, "one", "--target", "一" * 30), "The target has 31 tokens, but"),
        ((runs("seq2seq"), "one"), "which has no attention to look at"),
        ((runs("rnn-lm"), "one"), "which has no attention to look at"),
        ((runs("transformer-xl"), "one", "--target", "x"), "has no target"),
        ((run, "one", "--out", "x.gif"), "a figure is written as"),
        ((run, "one", "--json", f"{run}/recipe.toml/x"), "cannot be written"),
    ):
        refused = canon("inspect", "attention", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1, refused.err


def test_other_networks_have_none() -> None:
    model: Any = SimpleNamespace(network=object(), run=SimpleNamespace(path="x", recipe=SimpleNamespace()))
    model.run.recipe.system = SimpleNamespace(name="mlp")
    with pytest.raises(CanonError, match="a run of mlp, which has no attention"):
        attention(model, "text")
