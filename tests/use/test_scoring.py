"""Scoring and completing texts against transformers' logits and generate, brute force, and prompts written by hand.

Runs are stand-ins: a random network and a tokeniser with what `canon.load` has beside them.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from canon.data.encodings.passages import PassageSchema
from canon.data.encodings.windows import WindowSchema
from canon.data.schema import Schema
from canon.data.targets import HiddenTokens, NextToken
from canon.data.text.tokenizers import Tokenizer
from canon.data.text.vocabularies import EOS
from canon.errors import CanonError
from canon.nn.decoding import begin_text, greedy
from canon.systems.pretrained import bert, gpt2
from canon.systems.sequence import rnn_lm
from canon.use.complete import complete, remark
from canon.use.language import LanguageRun
from canon.use.likelihood import Request, likelihoods, score
from canon.use.scoring import Example, Template, evaluate_task, few_shot, windows
from tests.parity.gpt import gpt_of

WORDS = ["the", "cat", "dog", "sees", "a", "red", "big", "house", "tree", "runs", "to", "from", "café", "猫"]
LIMIT = 24


def sentences(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(3, 8))) for _ in range(count)]


def native_tokenizer() -> Tokenizer:
    """Byte-level BPE as GPT-2's, whose one special token both ends and begins texts."""
    from tokenizers import Tokenizer as Inner
    from tokenizers import decoders, models, pre_tokenizers, trainers

    inner = Inner(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    inner.train_from_iterator(sentences(200), trainer)
    return Tokenizer.from_json(inner.to_str(), native=True)


def stand_in(network: Any, tokenizer: Tokenizer, name: str, running: bool = False) -> Any:
    recipe = SimpleNamespace(system=SimpleNamespace(name=name, loop="gradient"))
    tokenizers = {"text": tokenizer}
    schema: Schema = PassageSchema(HiddenTokens(), tokenizers=tokenizers)
    if running:
        schema = WindowSchema(NextToken(), tokenizers=tokenizers)
    return SimpleNamespace(run=SimpleNamespace(path=Path("run"), recipe=recipe), schema=schema, network=network.eval())


def gpt2_config(vocab_size: int) -> gpt2.Config:
    return gpt2.Config(
        vocab_size=vocab_size, dim=24, num_layers=2, num_heads=3, hidden=48, max_positions=LIMIT, dropout=0.0
    )


def sharpen(network: torch.nn.Module) -> Any:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


@pytest.fixture(scope="module")
def native() -> Any:
    """A GPT-2 with its own ids."""
    tokenizer = native_tokenizer()
    torch.manual_seed(1)
    return stand_in(sharpen(gpt2.GPT2(gpt2_config(tokenizer.size))), tokenizer, "gpt2")


@pytest.fixture(scope="module")
def own() -> Any:
    """A GPT-2 with a vocabulary of canon's, where nothing stands before a text."""
    tokenizer = Tokenizer.train(sentences(200), "byte-bpe", 300, mask=True)
    torch.manual_seed(2)
    return stand_in(sharpen(gpt2.GPT2(gpt2_config(tokenizer.size))), tokenizer, "gpt2")


@pytest.fixture(scope="module")
def running() -> Any:
    tokenizer = Tokenizer.train(sentences(200), "word")
    torch.manual_seed(3)
    network = sharpen(rnn_lm.RNNLM(rnn_lm.Config(vocab_size=tokenizer.size, dim=8, hidden=8, num_layers=1)))
    return stand_in(network, tokenizer, "rnn-lm", running=True)


@pytest.fixture
def use(canon: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """The command line with a stand-in for what the run would be."""

    def call(model: Any, *arguments: object) -> Any:
        monkeypatch.setattr("canon.use.model.load", lambda path: model)
        return canon(*arguments)

    return call


@cache
def theirs_of(network: gpt2.GPT2) -> Any:
    return gpt_of(network, gpt2_config(len(network.embedding.token.weight)))


def gains_of(model: Any, ids: list[int]) -> np.ndarray:
    """log p [T, V] after each of some tokens, by transformers, or by an RNN over the whole text."""
    with torch.no_grad():
        if isinstance(model.schema.target, NextToken):
            logits = model.network(torch.tensor([ids]), None)[0][0]
        else:
            logits = theirs_of(model.network)(torch.tensor([ids])).logits[0]
    return logits.log_softmax(-1).numpy()


def by_hand(model: Any, context: str, continuation: str) -> tuple[float, int, bool]:
    """Of tokenisations of the context and of the whole, where no token lies on the border."""
    tokenizer = model.schema.tokenizers["text"]
    before = tokenizer.encode([context.rstrip()])[0].tolist()
    ids = tokenizer.encode([context + continuation])[0].tolist()
    assert ids[: len(before)] == before
    first = len(before)
    if isinstance(model.schema.target, NextToken):
        ids, first = [EOS, *ids], first + 1
    elif not first and tokenizer.native:
        ids, first = [0, *ids], 1
    first = max(first, 1)
    if not isinstance(model.schema.target, NextToken) and len(ids) > LIMIT + 1:
        ids, first = ids[-(LIMIT + 1) :], first - (len(ids) - LIMIT - 1)
    gains = gains_of(model, ids[:-1])
    own = [gains[place - 1, ids[place]] for place in range(first, len(ids))]
    return sum(own), len(own), all(gains[place - 1].argmax() == ids[place] for place in range(first, len(ids)))


PAIRS = [
    ("the cat sees", " a red tree"),
    ("the cat sees ", "a red tree"),
    ("the cat sees", " a"),
    ("the cat sees", " the"),
    ("", "big house"),
    ("the dog runs to the 猫 café\nfrom the big red house to the tree" + " and the house" * 4, " a 猫"),
    ("the cat sees", " a red tree"),
]


@pytest.mark.parametrize("name", ["native", "own", "running"])
def test_likelihoods_are_those_of_transformers(name: str, request: pytest.FixtureRequest) -> None:
    """All pairs at once against one forward pass each: of transformers' network, or of an RNN over the whole text."""
    model = request.getfixturevalue(name)
    result, shortened = likelihoods(LanguageRun(model), PAIRS)
    for pair, one in zip(PAIRS, result, strict=True):
        total, tokens, likeliest = by_hand(model, *pair)
        assert (one.tokens, one.greedy) == (tokens, likeliest)
        assert one.total == pytest.approx(total, abs=1e-3) and one.mean == pytest.approx(total / tokens, abs=1e-3)
    assert result[0] == pytest.approx(result[1], abs=1e-5) and result[0] == pytest.approx(result[6], abs=1e-5)
    assert shortened == (name != "running")  # one context is longer than the positions


def test_the_likeliest_token_is_reported(native: Any) -> None:
    """What greedy decoding goes on with is likeliest, token by token; with one other token it is not."""
    prompt_BT = torch.tensor([native.schema.tokenizers["text"].encode(["the cat"])[0].tolist()])
    tokens = greedy(native.network.step, begin_text(native.network, prompt_BT, 6, (), -1)).tokens[0, 0]
    ids = np.concatenate([prompt_BT[0].numpy(), tokens.numpy()])
    other = ids.copy()
    other[-3] = (other[-3] + 1) % 256
    requests = [Request(ids, prompt_BT.shape[1]), Request(other, prompt_BT.shape[1])]
    (_, same), (_, changed) = score(LanguageRun(native), requests)
    assert same.all() and changed[:3].all() and not changed[3]


def test_windows_ask_for_every_token_once() -> None:
    for count, limit in ((2, 8), (9, 8), (10, 8), (50, 8), (23, 1), (31, 7)):
        ids = np.arange(count)
        result = windows(ids, limit)
        asked = np.concatenate([request.ids[request.first :] for request in result])
        assert asked.tolist() == list(range(1, count))
        for place, request in enumerate(result):
            assert len(request.ids) <= limit + 1 and request.first >= (
                1 if place == 0 else limit - max(limit // 2, 1) + 1
            )


def test_perplexity_of_a_text(native: Any, use: Callable) -> None:
    """Against transformers on windows of 24 tokens that move on by 12."""
    text = "\n".join(sentences(12, 5))
    Path("text.txt").write_text(text, encoding="utf-8")
    ids = [0, *native.schema.tokenizers["text"].encode([text])[0].tolist()]
    losses = (-gains_of(native, ids[:LIMIT])[range(LIMIT), ids[1 : LIMIT + 1]]).tolist()
    while len(losses) < len(ids) - 1:
        stop = min(len(losses) + 1 + LIMIT // 2, len(ids))
        window = ids[stop - LIMIT - 1 : stop]
        own = -gains_of(native, window[:-1])[range(LIMIT), window[1:]]
        losses += own[LIMIT - (stop - 1 - len(losses)) :].tolist()
    reported = use(native, "evaluate", "run", "--task", "text.txt", "--json")
    record = json.loads(reported.out)
    loss = sum(losses) / len(losses)
    assert record["count"] == len(ids) - 1 == len(losses)
    assert record["loss"] == pytest.approx(loss, rel=1e-4) and record["perplexity"] == pytest.approx(
        math.exp(loss), rel=1e-3
    )
    assert record["bits_per_byte"] == pytest.approx(sum(losses) / math.log(2) / len(text.encode()), rel=1e-4)
    assert record["perplexity_per_word"] == pytest.approx(math.exp(sum(losses) / len(text.split())), rel=1e-2)


def test_last_words(own: Any, use: Callable) -> None:
    """LAMBADA's way against the same by hand."""
    texts = [text for text in sentences(30, 7) if len(text) < 40]
    texts.append(complete(own, "the cat", 2, temperature=0)[0].text)
    Path("last.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    parted = [(text.rpartition(" ")[0], " " + text.rpartition(" ")[2]) for text in texts]
    wanted = [by_hand(own, *pair) for pair in parted]
    reported = use(own, "evaluate", "run", "--task", "last.jsonl", "--json")
    record = json.loads(reported.out)
    loss = -np.mean([total for total, _, _ in wanted])
    assert record["accuracy"] == np.mean([likeliest for _, _, likeliest in wanted])
    assert record["loss"] == pytest.approx(loss, rel=1e-4) and record["count"] == len(texts)


def test_multiple_choice(native: Any, use: Callable) -> None:
    """OpenBookQA's lines: the likeliest choice by sum and by mean, against brute force; a table for people."""
    chance = random.Random(3)
    rows, wanted = [], []
    for number in range(20):
        question = " ".join(chance.choices(WORDS[:8], k=3))
        choices = [" ".join(chance.choices(WORDS[:8], k=chance.randint(1, 3))) for _ in range(3)]
        right = chance.randrange(3)
        listed = [{"text": text, "label": label} for text, label in zip(choices, "ABC", strict=True)]
        rows.append({"id": str(number), "question": {"stem": question, "choices": listed}, "answerKey": "ABC"[right]})
        record = [by_hand(native, question, f" {choice}") for choice in choices]
        best = [int(np.argmax([one[0] for one in record])), int(np.argmax([one[0] / one[1] for one in record]))]
        wanted.append([best[0] == right, best[1] == right])
    Path("qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reported = use(native, "evaluate", "run", "--task", "qa.jsonl", "--json")
    record = json.loads(reported.out)
    assert [record["accuracy"], record["accuracy_per_token"]] == pytest.approx(np.mean(wanted, axis=0).tolist())
    assert record["chance"] == pytest.approx(1 / 3) and (record["count"], record["shots"]) == (20, 0)
    plain = use(native, "evaluate", "run", "--task", "qa.jsonl")
    assert plain.out.startswith("metric") and "accuracy_per_token" in plain.out


def test_classes_by_their_words(native: Any, use: Callable) -> None:
    """Words for classes in a template, against brute force; one forward pass serves answers of one token."""
    texts = sentences(10, 9)
    labels = [str(number % 2) for number in range(10)]
    lines = [f"{text[:25]}\t{label}\n" for text, label in zip(texts, labels, strict=True)]
    Path("reviews.tsv").write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    words = {"0": "red", "1": "big"}
    right = []
    for text, label in zip(texts, labels, strict=True):
        totals = {name: by_hand(native, f"{text[:25]} is", f" {word}")[0] for name, word in words.items()}
        right.append(max(totals, key=totals.__getitem__) == label)
    options = ("--template", "{text} is {label}!", "--words", "0=red", "--words", "1=big")
    reported = use(native, "evaluate", "run", "--task", "reviews.tsv", *options, "--json")
    assert json.loads(reported.out) == {
        "accuracy": pytest.approx(np.mean(right)),
        "accuracy_per_token": pytest.approx(np.mean(right)),
        "majority": 0.5,
        "count": 10,
        "shots": 0,
    }


def test_few_shot_prompts() -> None:
    """GPT-3's prompts, written by hand; what stands after the answer is shown in examples only."""
    template = Template("Q: {question}\nA: {answer}.", ("question",), "answer")
    examples = [Example({"question": "one?"}, ("yes", "no"), 1), Example({"question": "two?"}, ("maybe",), 0)]
    asked = Example({"question": "three {answer}?"}, ("x", "y"), 0)
    assert few_shot(template, examples, asked) == "Q: one?\nA: no.\n\nQ: two?\nA: maybe.\n\nQ: three {answer}?\nA: "
    assert few_shot(template, [], asked) == "Q: three {answer}?\nA: "


def test_examples_are_drawn_of_the_training_part(native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By seed; of a lone file never the question itself."""
    seen: list[tuple[str, str]] = []

    def spy(language: LanguageRun, pairs: list[tuple[str, str]]) -> Any:
        seen.extend(pairs)
        return likelihoods(language, [("the", " cat")] * len(pairs))

    monkeypatch.setattr("canon.use.scoring.likelihoods", spy)

    def rows(name: str, count: int) -> str:
        made = ({"question": f"{name}{n}?", "choices": ["yes", "no"], "answer": n % 2} for n in range(count))
        return "".join(json.dumps(row) + "\n" for row in made)

    Path("set").mkdir()
    Path("set/train.jsonl").write_text(rows("train", 9))
    Path("set/test.jsonl").write_text(rows("test", 4))
    evaluate_task(native, "set", shots=3)
    first = list(seen)
    assert len(first) == 8 and all(prompt.count("train") == 3 and prompt.count("test") == 1 for prompt, _ in first)
    assert all("yes" in prompt or "no" in prompt for prompt, _ in first)
    seen.clear()
    evaluate_task(native, "set", shots=3)
    assert seen == first
    seen.clear()
    evaluate_task(native, "set", shots=3, seed=1)
    assert seen != first
    seen.clear()
    result = evaluate_task(native, "set/train.jsonl", shots=8)
    for place in range(9):  # all the others, each once
        asked = f"train{place}?"
        prompt = seen[2 * place][0]
        assert prompt.endswith(f"{asked} ") and sorted(prompt.split()[:-1:2]) == sorted(
            f"train{other}?" for other in range(9) if other != place
        )
    assert any("other rows" in remark for remark in result.remarks)
    with pytest.raises(CanonError, match="--shots 9 is more than the 8 examples"):
        evaluate_task(native, "set/train.jsonl", shots=9)


def test_mistakes(native: Any, use: Callable) -> None:
    Path("qa.jsonl").write_text('{"question": "a?", "choices": ["b", "c"], "answer": 0}\n')
    Path("bad.jsonl").write_text('{"text": "one two"}\n{"text": "word"}\n')
    Path("x.pdf").write_bytes(b"%PDF")
    Path("text.txt").write_text("the cat")
    Path("empty.txt").write_text("")
    Path("tags.conll").write_text("the DET\ncat NOUN\n\n")
    Path("scores.csv").write_text("text,score\nthe cat,1.5\nthe dog,2.25\n")
    for arguments, sentence in (
        (("--task", "nowhere.jsonl"), 'There is no data set, file or folder "nowhere.jsonl"'),
        (("--task", "x.pdf"), "x.pdf is not a task: questions with choices"),
        (("--task", "tags.conll"), "tags.conll is not a task"),
        (("--task", "scores.csv"), "scores.csv asks for a number"),
        (("--task", "bad.jsonl"), "bad.jsonl, line 2: a text must have at least two words."),
        (("--task", "text.txt", "--shots", 2), "text.txt has no answers to choose from; leave out --shots."),
        (("--task", "empty.txt"), "empty"),
        (("--task", "qa.jsonl", "--data", "qa.jsonl"), "Give --data or --task, not both."),
        (("--task", "qa.jsonl", "--template", "{question}"), "--template must have {answer} once"),
        (("--task", "qa.jsonl", "--template", "{text} {answer}"), 'No field of the template "{text}"'),
        (("--task", "qa.jsonl", "--words", "a=b"), "has choices of its own; leave out --words."),
        (("--task", "qa.jsonl", "--words", "a"), "--words takes a class and its word"),
        (("--shots", 3), "--shots, --template and --words belong to --task"),
    ):
        reported = use(native, "evaluate", "run", *arguments)
        assert reported.code == 2 and sentence in reported.err and reported.err.count("\n") == 1, reported.err


def test_networks_that_fill_in_say_so(native: Any, use: Callable) -> None:
    tokenizer = native.schema.tokenizers["text"]
    sizes: dict[str, Any] = {"dim": 12, "num_layers": 1, "num_heads": 2, "hidden": 12}
    network = bert.Bert(bert.Config(vocab_size=tokenizer.size, **sizes))
    masked = stand_in(network, tokenizer, "bert")
    Path("text.txt").write_text("the cat")
    for arguments in (("evaluate", "run", "--task", "text.txt"), ("generate", "run", "the cat")):
        reported = use(masked, *arguments)
        assert reported.code == 2 and reported.err.count("\n") == 1
        assert "run of bert, which cannot continue a text; systems that read from left to right can" in reported.err


# Completing


def test_completions_are_those_of_generate(native: Any, use: Callable) -> None:
    """Greedy text against transformers' generate, cut at <|endoftext|>; the log-probability is that of its tokens."""
    tokenizer = native.schema.tokenizers["text"]
    theirs = theirs_of(native.network)
    for prompt in ("the cat", "a big", ""):
        ids = tokenizer.encode([prompt])[0].tolist() or [0]
        read = torch.tensor([ids])
        rows = theirs.generate(
            read, attention_mask=torch.ones_like(read), max_new_tokens=12, do_sample=False, pad_token_id=0
        )
        wanted = [token for token in rows[0].tolist() if token]
        (actual,) = complete(native, prompt, 12, temperature=0)
        assert actual.text == tokenizer.decode(wanted)
        gains = gains_of(native, rows[0].tolist()[:-1])
        total = sum(gains[place - 1, rows[0, place]] for place in range(len(ids), rows.shape[1]))
        assert actual.log_probability == pytest.approx(total, abs=1e-3)
    reported = use(native, "generate", "run", "the cat", "--length", 12, "--temperature", 0, "--json")
    assert json.loads(reported.out) == [vars(one) for one in complete(native, "the cat", 12, temperature=0)]


def test_stop_words_end_a_text(own: Any, running: Any) -> None:
    """The whole text cut before the first stop word after the prompt, whichever comes first; counts end there."""
    for model in (own, running):
        whole = complete(model, "the cat", 16, count=6, seed=4)
        for one, cut in zip(whole, complete(model, "the cat", 16, count=6, seed=4, stop=("e", "a ")), strict=True):
            places = [place for word in ("e", "a ") if (place := one.text.find(word, len("the cat"))) >= 0]
            assert cut.text == (one.text[: min(places)] if places else one.text)
            assert cut.log_probability >= one.log_probability


def test_text_is_reported_as_it_comes(own: Any, use: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces make up the text: no half characters, no part of a stop word; on a terminal the command prints them."""
    for stop in ((), ("e",), ("ee", " c")):
        pieces: list[str] = []
        (result,) = complete(own, "the", 20, seed=11, stop=stop, on_text=pieces.append)
        assert "".join(pieces) == result.text
        assert stop or len([piece for piece in pieces if piece]) > 5
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    reported = use(own, "generate", "run", "the", "--length", 20, "--seed", 11)
    assert reported.out == complete(own, "the", 20, seed=11)[0].text + "\n"


def test_recorded_steps_complete_alike(own: Any, native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, some tokens at a time, past the positions, with stop words and several batches of texts."""
    settings: list[dict[str, Any]] = [
        {"length": 60, "temperature": 0, "count": 2},
        {"length": 21, "count": 70, "seed": 5},
        {"length": 40, "stop": ("e",), "count": 3, "top_k": 9},
    ]
    for model in (own, native):
        wanted = [complete(model, "the cat", **one) for one in settings]
        monkeypatch.setattr("canon.use.complete._records", lambda language: True)
        for one, rows in zip(settings, wanted, strict=True):
            actual = complete(model, "the cat", **one)
            assert [row.text for row in actual] == [row.text for row in rows]
            torch.testing.assert_close(
                torch.tensor([row.log_probability for row in actual]),
                torch.tensor([row.log_probability for row in rows]),
                rtol=1e-4,
                atol=1e-3,
            )
        monkeypatch.undo()


def test_prompts_that_cannot_be_read(own: Any, native: Any, use: Callable) -> None:
    reported = use(own, "generate", "run")
    assert (
        reported.code == 2
        and "The prompt is empty; run continues texts" in reported.err
        and reported.err.count("\n") == 1
    )
    reported = use(own, "generate", "run", "the cat " * 30)
    assert reported.code == 2 and "tokens, but the network has 24 positions; give a shorter one." in reported.err
    reported = use(own, "generate", "run", "the cat", "--stop", "")
    assert reported.code == 2 and "A stop word must have" in reported.err
    # Longer than the positions is said, and goes on.
    reported = use(own, "generate", "run", "the cat", "--length", 60)
    assert reported.code == 0 and "longer than the network's 24 positions" in reported.err
    assert not remark(own, "the cat", 5) and not remark(native, "", 5)


def test_what_is_no_text_is_never_put_out(own: Any) -> None:
    """<pad>, <unk>, <bos>, <mask> are forbidden; <eos> ends a text."""
    language = LanguageRun(own)
    specials = own.schema.tokenizers["text"].specials
    assert set(language.forbid) == {specials.pad, specials.unk, specials.bos, specials.mask}
    assert language.eos == specials.eos
