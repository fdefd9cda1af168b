"""Translation of texts, files and streams against the network asked sentence by sentence; text from language models."""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from canon.data.batching.draws import EVALUATION
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import BOS, EOS
from canon.errors import CanonError
from canon.metrics import corpus_bleu
from canon.nn.ragged import Layout
from canon.systems.sequence.transformer import Config as TransformerConfig
from canon.training.data import read_data
from canon.training.trainer import train
from canon.use.complete import complete
from canon.use.export import convert
from canon.use.model import Model, load
from canon.use.sides import encode_sentinels, source_limit
from canon.use.translate import Line, Translator, lines_of, translate
from tests.parity.huggingface import transformers_module

GERMAN = {"red": "rot", "big": "groß", "cat": "Katze", "dog": "Hund", "sees": "sieht", "the": "die", "a": "eine"}


def sentences(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices([*GERMAN], k=chance.randint(1, 7))) for _ in range(count)]


def german(text: str) -> str:
    return " ".join(GERMAN[word] for word in text.split())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned to translate word by word."""
    folder = tmp_path_factory.mktemp("translate")
    rows = "".join(f"{text}\t{german(text)}\n" for text in sentences(800))
    (folder / "pairs.tsv").write_text(rows, encoding="utf-8")
    changes = {
        "data.tokenizer": "word",
        "data.max_length": 30,
        "system.dim": 32,
        "train.steps": 250,
        "train.tokens": 0,
        "train.batch": 32,
        "train.evaluate_every": 125,
        "optimizer.lr": 0.01,
    }
    return train("transformer:tiny", str(folder / "pairs.tsv"), folder / "run", changes=changes, quiet=True).path


@pytest.fixture(scope="module")
def model(pairs: Path) -> Model:
    return load(pairs)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a language model."""
    folder = tmp_path_factory.mktemp("story")
    (folder / "text.txt").write_text("\n".join(sentences(600)), encoding="utf-8")
    changes = {"data.tokenizer": "word", "data.window": 20, "train.steps": 120, "train.batch": 8, "optimizer.lr": 0.02}
    return train("rnn-lm:tiny", str(folder / "text.txt"), folder / "run", changes=changes, quiet=True).path


def test_order_batches_and_windows_do_not_matter(model: Model) -> None:
    texts = [*sentences(40, seed=1), "", "  ", "dog"]
    expected = [translate(model, [text], beam=3, length_penalty=0.6, n_best=2) for text in texts]
    for batch in (1, 7, 64):
        translations = translate(model, texts, beam=3, length_penalty=0.6, n_best=2, batch=batch)
        assert [[one.text for one in several] for several in translations] == [
            [one.text for one in e[0]] for e in expected
        ]
        for several, ((best, *_),) in zip(translations, expected, strict=True):
            assert several[0].score == pytest.approx(best.score, abs=1e-4)
    translator = Translator(model, beam=3, n_best=2)
    windows = [translations for _, translations in translator.stream((("", text) for text in texts), window=5)]
    assert [several[0].text for several in windows] == [several[0].text for several in translations]
    assert translations[40][0].text == "" and len(translations[40]) == 1
    assert sum(several[0].text == german(text) for several, text in zip(translations, texts, strict=True)) > 35


def test_scores_are_the_networks(model: Model) -> None:
    """Log-probabilities against the forward pass over what was said."""
    text = "the red cat sees a dog"
    translations = translate(model, [text], beam=4, length_penalty=0.6, n_best=4)[0]
    assert [one.score for one in translations] == sorted((one.score for one in translations), reverse=True)
    encode = model.schema.tokenizers["source"].encode, model.schema.tokenizers["target"].encode
    source = torch.tensor([*encode[0]([text])[0].tolist(), EOS])
    for one in translations:
        said = [*encode[1]([one.text])[0].tolist(), EOS]
        given = torch.tensor([BOS, *said[:-1]])
        with torch.no_grad():
            logits = model.network(
                source, Layout(torch.tensor([len(source)])), given, Layout(torch.tensor([len(given)]))
            )
        total = logits.log_softmax(-1)[range(len(said)), said].sum().item()
        assert one.ended and one.log_probability == pytest.approx(total, abs=1e-4)
        assert one.score == pytest.approx(total / ((5 + len(said)) / 6) ** 0.6, abs=1e-4)


def test_lines_are_read_a_window_ahead_and_no_more(model: Model) -> None:
    read = 0

    def lines() -> Iterator[Line]:
        nonlocal read
        for text in sentences(1000):
            read += 1
            yield "", text

    stream = Translator(model, beam=1, batch=4).stream(lines(), window=16)
    for count in range(1, 40):
        next(stream)
        assert read <= (count + 15) // 16 * 16


def test_files(pairs: Path, canon: Callable) -> None:
    texts = [*sentences(30, seed=2), "", "dog"]
    Path("in.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    Path("right.txt").write_text("".join(f"{german(text)}\n" for text in texts), encoding="utf-8")
    reported = canon("translate", pairs, "--input", "in.txt", "--output", "out/said.txt", "--reference", "right.txt")
    said = Path("out/said.txt").read_text(encoding="utf-8").split("\n")
    assert reported.code == 0 and reported.err == "" and len(said) == 33 and said[30:] == ["", "Hund", ""]
    bleu = corpus_bleu(said[:-1], [german(text) for text in texts], tokenize="13a")
    assert reported.out == f"BLEU = {bleu.score:.2f} ({bleu.signature})\n" and "tok:13a" in reported.out
    with gzip.open("in.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(texts))
    assert canon("translate", pairs, "--input", "in.txt.gz").out == "\n".join(said)
    # Where translations are printed, the score goes to stderr.
    reported = canon("translate", pairs, "--input", "in.txt", "--reference", "right.txt", "--beam", 2, "--batch", 3)
    assert reported.out.count("\n") == 32 and reported.err.startswith("BLEU = ")


def test_forms_of_output(pairs: Path, canon: Callable) -> None:
    assert canon("translate", pairs, "the cat", "a big dog").out == "die Katze\neine groß Hund\n"
    score, text = canon("translate", pairs, "the cat", "--scores").out.rstrip("\n").split("\t")
    assert float(score) < 0 and text == "die Katze"
    rows = [line.split("\t") for line in canon("translate", pairs, "the cat", "dog", "--n-best", 2).out.splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "1", "2"] and rows[0][2] == "die Katze" and rows[2][2] == "Hund"
    assert float(rows[0][1]) > float(rows[1][1])
    lines = canon("translate", pairs, "the cat", "", "--n-best", 2, "--json").out.splitlines()
    first, empty = (json.loads(line) for line in lines)
    assert first["source"] == "the cat" and first["translations"][0]["text"] == "die Katze"
    assert set(first["translations"][0]) == {"text", "score", "log_probability", "ended"}
    assert [one["text"] for one in empty["translations"]] == [""]
    # A length penalty of 0 makes the score the log-probability.
    one = json.loads(canon("translate", pairs, "the cat", "--length-penalty", 0, "--json").out)["translations"][0]
    assert one["score"] == pytest.approx(one["log_probability"])


def _stdin(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw), isatty=lambda: False))


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input(
    pairs: Path, canon: Callable, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    _stdin(monkeypatch, "\ufeffthe cat\r\n\nthe zebra sees\ndog".encode())
    printed = canon("translate", pairs, *arguments)
    assert printed.code == 0 and printed.out.splitlines()[:2] == ["die Katze", ""] and printed.out.count("\n") == 4
    assert printed.err == "1 unknown token in 1 of 4 lines.\n"


def test_what_was_printed_before_a_mistake_is_kept_and_a_file_is_whole_or_as_it_was(
    pairs: Path, canon: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("said.txt").write_text("earlier")
    Path("long.txt").write_text("the cat\ndog\n" + "cat " * 60 + "\ndog\n")
    printed = canon("translate", pairs, "--input", "long.txt", "--output", "said.txt")
    sentence = f"long.txt, line 3: the sentence has 61 tokens, but {pairs} takes at most 30; split it."
    assert (printed.code, printed.err) == (2, f"canon: {sentence}\n")
    assert canon("translate", pairs, "--input", "long.txt").out == "die Katze\nHund\n"
    Path("bytes.txt").write_bytes(b"the cat\n\ncaf\xe9\ndog\n")
    printed = canon("translate", pairs, "--input", "bytes.txt", "--output", "said.txt")
    assert (
        printed.code == 2
        and "bytes.txt, line 3: byte 4 (0xE9) is not UTF-8" in printed.err
        and printed.err.count("\n") == 1
    )
    assert Path("said.txt").read_text() == "earlier" and len(list(Path().iterdir())) == 3
    _stdin(monkeypatch, b"dog\n\xff")
    printed = canon("translate", pairs)
    assert printed.out == "Hund\n" and "Standard input, line 2: byte 1 (0xFF)" in printed.err
    with pytest.raises(CanonError, match="line 1 is longer than a megabyte"):
        next(lines_of(io.BytesIO(b"a" * (1 << 21)), "x"))


def test_mistakes(pairs: Path, story: Path, canon: Callable) -> None:
    Path("in.txt").write_text("dog\ncat\n")
    Path("right.txt").write_text("Hund\n")
    Path("nothing.txt").write_text("")
    for wrong, sentence in (
        ((pairs, "dog", "--input", "in.txt"), "Give texts or --input, not both."),
        ((pairs, "--input", "nowhere.txt"), "There is no file nowhere.txt."),
        ((pairs, "dog", "--reference", "nowhere.txt"), "There is no file nowhere.txt."),
        ((pairs, "--input", "in.txt", "--output", "in.txt"), "in.txt is also an input; write to another file."),
        ((pairs, "--input", "in.txt", "--output", "in.txt/x"), "in.txt/x cannot be written"),
        ((pairs, "--input", "in.txt", "--reference", "right.txt"), "right.txt has 1 lines, but 2 were translated"),
        ((pairs, "--input", "nothing.txt", "--reference", "nothing.txt"), "nothing.txt is empty"),
        ((pairs, "dog", "--beam", 10**8), "beam must be a whole number from 1 to 1,000, got 100000000."),
        ((pairs, "dog", "--length-penalty", "nan"), "--length-penalty must be a finite number, got nan."),
        ((pairs, "dog", "--beam", 2, "--n-best", 3), "n_best must be a whole number from 1 to 2, got 3."),
        ((story, "dog"), "which translates nothing"),
        (("nowhere", "dog"), "There is no run nowhere."),
    ):
        printed = canon("translate", *wrong)
        assert printed.code == 2 and sentence in printed.err and printed.err.count("\n") == 1, printed.err


def test_the_limit_is_that_of_the_data_and_of_learned_positions(model: Model) -> None:
    assert source_limit(model) == 30
    config = TransformerConfig(source_vocab=9, target_vocab=9, positions="learned", max_positions=20)
    recipe = SimpleNamespace(data=SimpleNamespace(max_length=50), config=config)
    assert source_limit(SimpleNamespace(run=SimpleNamespace(recipe=recipe))) == 20  # type: ignore[arg-type]


def test_language_models_go_on_with_a_prompt(story: Path, canon: Callable) -> None:
    model = load(story)
    tokenizer = model.schema.tokenizers["text"]
    ((prompt, text, total),) = ((one.prompt, one.text, one.log_probability) for one in complete(model, "the cat", 6, 0))
    # By hand: the likeliest token after the whole text, again and again.
    ids = [EOS, *tokenizer.encode(["the cat"])[0].tolist()]
    by_hand = 0.0
    for _ in range(6):
        with torch.no_grad():
            gains = model.network(torch.tensor([ids]), None)[0][0, -1].log_softmax(-1)
        gains[[0, 1, 2]] = -torch.inf
        by_hand += gains.max().item()
        ids.append(int(gains.argmax()))
    lines = [part.strip() for part in " ".join(tokenizer.tokens(ids[1:])).split("<eos>")]
    assert prompt == "the cat" and text == "\n".join(lines) and total == pytest.approx(by_hand, abs=1e-4)
    first, second = (complete(model, "the", 20, count=70, seed=seed) for seed in (0, 0))
    assert first == second != complete(model, "the", 20, count=70, seed=1)
    assert len({one.text for one in first}) > 40 and all(one.text.startswith("the") for one in first)
    assert len({one.text for one in complete(model, "the", 20, top_k=1, count=5)}) == 1
    printed = canon("generate", story, "the cat", "--length", 5, "--count", 2, "--seed", 3, "--top-p", 0.9, "--json")
    assert [set(row) for row in json.loads(printed.out)] == [{"prompt", "text", "log_probability"}] * 2
    plain = canon("generate", story, "the cat", "--length", 5, "--count", 2, "--seed", 3, "--top-p", 0.9)
    assert plain.out == "\n\n".join(row["text"] for row in json.loads(printed.out)) + "\n"
    assert canon("generate", story).code == 0
    for wrong, sentence in (
        ((story, "the", "--top-p", 1.5), "top_p must be a number from"),
        ((story, "the", "--temperature", -1), "--temperature"),
        ((story, "the", "--temperature", "1e-300"), "temperature must be a number from 0.0001 to"),
        ((story, "the", "--count", 10**11), "count must be a whole number from 1 to 1,000,000, got 100000000000."),
        ((story, "the", "--length", 10**12), "length must be"),
        ((story, "the", "--seed", 10**30), "seed must be"),
    ):
        refused = canon("generate", *wrong)
        assert refused.code == 2 and sentence in refused.err and refused.err.count("\n") == 1


def test_only_language_models_take_a_prompt(pairs: Path, canon: Callable) -> None:
    assert "is not a language model; leave out PROMPT" in canon("generate", pairs, "dog").err
    assert "is not a language model; leave out --top-k" in canon("generate", pairs, "--top-k", 3).err
    assert "generates nothing" in canon("generate", pairs).err
    with pytest.raises(CanonError, match="is not a language model"):
        complete(load(pairs), "dog")


def test_a_vocabulary_that_is_not_the_runs_own_is_refused(pairs: Path, tmp_path: Path) -> None:
    """Another tokeniser put into a run."""
    run = tmp_path / "run"
    shutil.copytree(pairs, run, symlinks=True)
    other = Tokenizer.train(["one two three"], "word")
    (run / "vocab" / "source.json").write_text(other.to_json(), encoding="utf-8")
    with pytest.raises(CanonError, match=r"vocab/source\.json is not as it was written"):
        load(run)


# Text to text


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of T5 that has filled in a few words."""
    folder = tmp_path_factory.mktemp("t5")
    pages = [". ".join(sentences(4, seed)) + "." for seed in range(60)]
    (folder / "text.txt").write_text("\n\n".join(pages), encoding="utf-8")
    changes = {"data.max_length": 24, "train.steps": 30, "train.batch": 16, "optimizer.lr": 0.01, "train.device": "cpu"}
    return train("t5:tiny", str(folder / "text.txt"), folder / "run", changes=changes, quiet=True).path


def test_t5_says_what_transformers_does(texts: Path) -> None:
    """Greedy, and the two best of a beam, on a file's weights in transformers: tokens and log-probabilities. It begins
    with <pad>, ends with the vocabulary's own end, and puts out no special token but sentinels."""
    library = transformers_module()
    own = load(texts)
    export = Path("folder")
    convert(str(texts), export, "huggingface")
    theirs = library.T5ForConditionalGeneration.from_pretrained(export).eval()
    tokenizer = own.schema.tokenizers["text"]
    specials = tokenizer.specials
    assert (theirs.config.decoder_start_token_id, theirs.config.eos_token_id) == (specials.pad, specials.eos)
    lines = ["the red cat <extra_id_0> a dog", "<extra_id_0> big dog sees the <extra_id_1> cat.", "dog"]
    banned = [[index] for index in specials.all.tolist() if index not in (specials.eos, *specials.sentinels)]
    for text in lines:
        source = [*encode_sentinels(tokenizer, [text])[0].tolist(), specials.eos]
        for beam in (1, 3):
            translations = translate(own, [text], beam=beam, length_penalty=0.0, n_best=min(beam, 2))[0]
            said = theirs.generate(
                torch.tensor([source]),
                num_beams=beam,
                num_return_sequences=len(translations),
                max_new_tokens=2 * len(source) + 10,
                bad_words_ids=banned,
                length_penalty=0.0,
                do_sample=False,
                early_stopping="never" if beam > 1 else False,
            )
            for one, row in zip(translations, said.tolist(), strict=True):
                assert row[0] == specials.pad
                put_out = row[1 : row.index(specials.eos) if specials.eos in row else None]
                assert one.text == tokenizer.decode(put_out) and one.ended == (specials.eos in row)
                label = torch.tensor([[*put_out, specials.eos][: 2 * len(source) + 10]])
                with torch.no_grad():  # their forward shifts the labels itself
                    logits = theirs(input_ids=torch.tensor([source]), labels=label).logits
                total = logits.log_softmax(-1)[0].gather(1, label.T).sum().item()
                assert one.log_probability == pytest.approx(total, abs=1e-3)


def test_t5_learns_behind_the_tokens_that_transformers_puts_there(texts: Path) -> None:
    """What a batch of pre-training has the decoder read: transformers' own shift of the same targets."""
    library = transformers_module()
    own = load(texts)
    columns = read_data(own.run.recipe, own.run.path).splits["train"]
    rows = np.arange(4)
    made = own.task.compose(columns, rows, rows, EVALUATION)
    specials = own.schema.tokenizers["text"].specials
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "vocab_size": 9}
    starts = {"pad_token_id": specials.pad, "decoder_start_token_id": specials.pad}
    theirs = library.T5ForConditionalGeneration(library.T5Config(**sizes, **starts))
    ends = np.cumsum(made["target_lengths"])[:-1]
    for given, target in zip(np.split(made["target_input"], ends), np.split(made["target"], ends), strict=True):
        assert theirs._shift_right(torch.tensor(target)[None])[0].tolist() == given.tolist()
        assert target[-1] == specials.eos


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "unigram", "wordpiece", "char"])
def test_sentinels_in_a_text(kind: str) -> None:
    """A text with sentinels is that text's tokens with sentinels in place of its words; unknown numbers are text."""
    tokenizer = Tokenizer.train(sentences(200), kind, 300, mask=True, sentinels=3)
    first, second = tokenizer.specials.sentinels[:2]
    plain = [tokenizer.encode([text])[0].tolist() for text in ("the red", "the red cat sees a dog")]
    space = " " if tokenizer.keeps_space else ""
    middle, last = (tokenizer.encode([text])[0].tolist() for text in (f"{space}cat sees", f"{space}dog"))
    result = encode_sentinels(
        tokenizer, ["the red <extra_id_0> cat sees <extra_id_1> dog", "the red cat sees a dog", "", "<extra_id_1>"]
    )
    assert [row.tolist() for row in (result[0], result[1], result[2], result[3])] == [
        [*plain[0], first, *middle, second, *last],
        plain[1],
        [],
        [second],
    ]
    many = encode_sentinels(tokenizer, ["the <extra_id_99>"])[0].tolist()
    assert many == tokenizer.encode(["the <extra_id_99>"])[0].tolist()
    assert "<extra_id_0>" in tokenizer.decode([first, *plain[0]])


def test_t5_at_the_command_line(texts: Path, canon: Callable) -> None:
    """Texts, files and mistakes; an empty line stays one."""
    Path("in.txt").write_text("the <extra_id_0> cat\n\na dog\n", encoding="utf-8")
    done = canon("translate", texts, "--input", "in.txt", "--output", "out.txt")
    assert done.code == 0, done.err
    lines = Path("out.txt").read_text(encoding="utf-8").split("\n")
    assert len(lines) == 4 and lines[1] == "" == lines[3]
    several = canon("translate", texts, "the <extra_id_0> cat", "--n-best", "2", "--json")
    assert lines[0] == translate(load(texts), ["the <extra_id_0> cat"])[0][0].text
    assert len(json.loads(several.out)["translations"]) == 2
    long = canon("translate", texts, "cat " * 5000)
    assert long.code == 2 and "takes at most 2,048; split it." in long.err
