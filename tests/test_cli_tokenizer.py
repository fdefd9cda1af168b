"""canon tokenizer train: what it writes, what it prints, and its sentences."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from canon import cli
from canon.data.text.tokenizers import Tokenizer
from canon.errors import CanonError

LINES = ["The dogs ran over the hill.", "我们在学习机器翻译。", "A dog is running home, and the hill is green!"] * 5


@pytest.fixture
def app(tmp_path: Path) -> typer.Typer:
    Path("t.en").write_text("\n".join(LINES), encoding="utf-8")
    Path("t.tsv.gz").write_bytes(gzip.compress(("label\ttext\n" + "".join(f"1\t{line}\n" for line in LINES)).encode()))
    cli.register_verbs()
    return cli.app


def call(app: typer.Typer, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["tokenizer", "train", *arguments], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_prints_size_fertility_unknowns_and_an_example(app: typer.Typer) -> None:
    shown = call(app, "t.en", "--kind", "bpe", "--vocab-size", "90", "--out", "bpe.json").splitlines()
    made = Tokenizer.load(Path("bpe.json"))
    ids, _ = made.encode(LINES)
    words = len(LINES[0].split()) + len(LINES[1]) + len(LINES[2].split())  # a Chinese character is a word
    assert shown[0] == f"bpe: {made.size} tokens" and made.kind == "bpe"
    assert shown[1] == f"{len(ids) / (5 * words):.2f} tokens per word, 0.00% unknown"
    assert shown[2] == LINES[0]
    assert shown[3] == "  → " + " ".join(made.tokens(made.encode(LINES[:1])[0]))
    assert shown[4] == "bpe.json"
    assert made.to_json() == Tokenizer.train(LINES, "bpe", 90).to_json()


def test_json_and_settings(app: typer.Typer) -> None:
    record = json.loads(call(app, "t.en", "--kind", "word", "--lowercase", "--min-count", "6", "--json"))
    made = Tokenizer.load(Path("tokenizer.json"))
    assert made.to_json() == Tokenizer.train(LINES, "word", lowercase=True, min_count=6).to_json()
    assert (record["tokenizer"], record["kind"], record["size"]) == ("tokenizer.json", "word", made.size)
    assert record["unknown"] == pytest.approx(made.unknown_rate(LINES)) and record["unknown"] > 0
    assert record["example_tokens"] == ["the", "<unk>", "<unk>", "<unk>", "the", "hill", "<unk>"]


def test_several_files_and_tables(app: typer.Typer) -> None:
    call(app, "t.en", "t.tsv.gz", "--kind", "char", "--out", "c.json")
    assert Tokenizer.load(Path("c.json")).to_json() == Tokenizer.train(LINES * 2, "char").to_json()


def test_help_has_examples(app: typer.Typer) -> None:
    shown = call(app, "--help")
    assert "canon tokenizer train train.en train.de --kind bpe" in shown and "--vocab-size" in shown


@pytest.mark.parametrize(
    "arguments,sentence",
    [
        (("t.em",), r'There is no file or folder "t\.em"; did you mean t\.en\?'),
        ((".", "--kind", "bqe"), r"\. has no text files\."),
        (("t.en", "--kind", "bqe"), r'No kind of tokenizer "bqe"; did you mean bpe\?'),
        (("t.en", "--kind", "byte-bpe", "--vocab-size", "9"), "vocab_size must be at least 260 for byte-bpe, got 9"),
        (
            ("t.en", "--out", "t.en/folder.json"),
            r"t\.en/folder\.json cannot be written: Not a directory\.",
        ),
        (("bad.txt",), r"bad\.txt, line 1: byte 1 \(0xFF\) is not utf-8"),
        (("empty.txt",), r"There is no text to train a tokenizer on\."),
    ],
)
def test_mistakes_are_one_sentence(app: typer.Typer, arguments: tuple[str, ...], sentence: str) -> None:
    Path("bad.txt").write_bytes(b"a\xff\n")
    Path("empty.txt").write_text("\n\n")
    if arguments[0] == ".":
        for path in Path().iterdir():
            if path.is_file():
                path.unlink()
    with pytest.raises(CanonError, match=sentence):
        call(app, *arguments)
