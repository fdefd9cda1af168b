"""Zero-shot and few-shot evaluation of a language model: tasks written as text, with no or a few examples before them.

Radford et al. 2019 (GPT-2), section 3: perplexity of a text and the last word of a passage, without examples. Brown et
al. 2020, Language models are few-shot learners (arXiv:2005.14165), section 2.4: for each question K examples of the
training part are drawn and put before it, separated by an empty line; the choice with the highest likelihood is the
answer (`accuracy`), or the one with the highest mean per token (`accuracy_per_token`).

| --task | asked | scores |
| --- | --- | --- |
| questions with choices (.jsonl, .csv, a set) | the most likely choice | accuracy, accuracy_per_token, chance |
| texts with classes (.jsonl, .csv, .tsv, a set) | the most likely word for a class | the same; majority for chance |
| texts alone (.jsonl with "text") | the last word of each | accuracy, perplexity (of a word) |
| a text (.txt) | every token | loss, perplexity, perplexity_per_word, bits_per_byte |
Deviations: examples are drawn again for each question, even where the paper keeps some fixed; no division by the
likelihood of a choice without its question. If the data has no training part, the examples are others of its rows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from canon.data.catalogue import CATALOGUE
from canon.data.config import DataConfig
from canon.data.encodings.framed import FRAMED
from canon.data.formats import json_lines
from canon.data.formats.files import ending, read_text
from canon.data.formats.rows import ChoiceRows, TextRows
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.kinds import open_for
from canon.data.kinds.examples import ExampleKind, ExampleSource
from canon.data.paths import find_path
from canon.data.targets import Number
from canon.errors import CanonError, unknown
from canon.use.language import LanguageRun
from canon.use.likelihood import Request, likelihoods, score
from canon.use.model import Model

CHOICE_TEMPLATE = "{question} {answer}"
TEXT_TEMPLATE = "{text}\nLabel: {label}"
PAIR_TEMPLATE = "{text}\n{second}\nLabel: {label}"
BETWEEN = "\n\n"  # two examples
_FIELD = re.compile(r"\{(\w*)\}")
_TEXT = (".txt", ".text", ".md", "")


@dataclass(frozen=True)
class Scored:
    scores: Mapping[str, float | None]
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Example:
    """What a template is filled with, the answers to choose from, and the number of the right one."""

    fields: Mapping[str, str]
    answers: tuple[str, ...]
    right: int


class Template:
    """A text with named fields; the answer's field occurs once, and the text after it is only for examples."""

    def __init__(self, text: str, fields: Sequence[str], answer: str) -> None:
        self.text, self._answer = text, f"{{{answer}}}"
        for name in _FIELD.findall(text):
            if name not in (*fields, answer):
                raise unknown("field of the template", f"{{{name}}}", (f"{{{known}}}" for known in (*fields, answer)))
        if text.count(self._answer) != 1:
            raise CanonError(
                f'--template must have {self._answer} once, as in "{fields[0]}: {{{fields[0]}}} {self._answer}".'
            )

    def question(self, example: Example) -> str:
        """Everything before the answer."""
        return self._filled(self.text.partition(self._answer)[0], example)

    def whole(self, example: Example) -> str:
        before, _, after = self.text.partition(self._answer)
        answer = example.answers[example.right]
        return self._filled(before, example) + answer + self._filled(after, example)

    def _filled(self, text: str, example: Example) -> str:
        return _FIELD.sub(lambda field: example.fields[field[1]], text)


def few_shot(template: Template, examples: Sequence[Example], asked: Example) -> str:
    """The prompt: examples with their answers, then the question."""
    return "".join(template.whole(example) + BETWEEN for example in examples) + template.question(asked)


def evaluate_task(
    model: Model,
    task: str | Path,
    shots: int = 0,
    template: str = "",
    words: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Scored:
    """Scores a run on a file, folder or named set; words: the word for each class in the text."""
    language, named = LanguageRun(model), str(task) in CATALOGUE
    path = Path(task) if named else find_path(task)
    has_last_words = path.is_file() and _is_texts(path)
    if not has_last_words and (named or path.is_dir() or (path.is_file() and ending(path) in TABLES)):
        return _choose(language, str(task), shots, template, words or {}, seed)
    if not has_last_words and ending(path) not in _TEXT:
        raise CanonError(
            f"{path} is not a task: questions with choices and texts with classes are read from {', '.join(TABLES)}, "
            'texts whose last word is asked from .jsonl with only "text", a text to measure from .txt.'
        )
    for name, value in {"shots": shots, "template": template, "words": words}.items():
        if value:
            raise CanonError(f"{task} has no answers to choose from; leave out --{name}.")
    if has_last_words:
        return last_words(language, path)
    return Scored(model.evaluate(path)) if language.running else perplexity(language, path)


# Choices and classes


def _choose(
    language: LanguageRun, source: str, shots: int, template: str, words: Mapping[str, str], seed: int
) -> Scored:
    opened = open_for(FRAMED.reads, DataConfig(source=source), "--task")
    assert isinstance(opened, ExampleSource) and isinstance(opened.kind, ExampleKind)
    parts: dict[str, Any] = opened.parts
    asked = parts.get("test") or parts.get("valid") or parts["train"]
    single = len(parts) == 1  # there is no training part: examples are other rows of the same part
    is_class = isinstance(asked, TextRows) and not opened.numeric
    if isinstance(asked, ChoiceRows):
        if words:
            raise CanonError(f"{source} has choices of its own; leave out --words.")
        read: Callable[[Any], list[Example]] = _of_choices
        form = Template(template or CHOICE_TEMPLATE, ("question",), "answer")
    elif is_class:
        pair = asked.second is not None
        labels = sorted({label for rows in parts.values() for label in rows.single()})
        if strange := [label for label in words if label not in labels]:
            raise unknown(f"class of {source}", strange[0], labels)
        read = partial(_of_texts, words={label: words.get(label, label) for label in labels})
        default = PAIR_TEMPLATE if pair else TEXT_TEMPLATE
        form = Template(template or default, ("text", "second") if pair else ("text",), "label")
    else:
        what = Number.what if isinstance(asked, TextRows) else opened.kind.targets[0].what
        raise CanonError(f"{source} asks for {what}; --task takes choices, classes, last words or a text.")
    examples = read(asked)
    known = examples if single else read(parts["train"])
    if shots > len(known) - single:
        raise CanonError(f"--shots {shots} is more than the {len(known) - single:,} examples that {source} has.")
    prompts = [few_shot(form, _drawn(known, shots, seed, row, single), asked) for row, asked in enumerate(examples)]
    pairs = [(p, answer) for p, example in zip(prompts, examples, strict=True) for answer in example.answers]
    answers, shortened = likelihoods(language, pairs)
    right = np.array([example.right for example in examples])
    stops = np.cumsum([len(example.answers) for example in examples])[:-1]
    by_sum, by_mean = (
        np.array([part.argmax() for part in np.split(np.array(values), stops)])
        for values in ([one.total for one in answers], [one.mean for one in answers])
    )
    scores = {
        "accuracy": float((by_sum == right).mean()),
        "accuracy_per_token": float((by_mean == right).mean()),
        "chance": float(np.mean([1 / len(example.answers) for example in examples])),
    }
    if is_class:
        del scores["chance"]
        scores["majority"] = float(np.bincount(right).max() / len(right))
    notes = [note for note in opened.notes if not note.startswith("The task")]
    what = opened.kind.targets[0].what
    task = f"The task: {what}, for each of {len(examples):,}; the template: {json.dumps(form.text)}."
    remarks = [*notes, task, *_shortened(shortened, len(pairs), language)]
    if shots and single:
        remarks.append(f"{source} has no training part: the examples of each prompt are other rows of it.")
    return Scored({**scores, "count": len(examples), "shots": shots}, remarks)


def _shortened(count: int, whole: int, language: LanguageRun) -> list[str]:
    if not count:
        return []
    return [f"{count:,} of {whole:,} prompts are longer than {language.limit:,} positions and lost their beginning."]


def _drawn(known: Sequence[Example], shots: int, seed: int, row: int, single: bool) -> list[Example]:
    """K examples for question `row`, decided by seed and row; not the question itself."""
    if not shots:
        return []
    places = np.random.default_rng([seed, row]).choice(len(known) - single, shots, replace=False)
    return [known[place + (single and place >= row)] for place in places.tolist()]


def _of_choices(rows: ChoiceRows) -> list[Example]:
    assert rows.answers is not None
    triples = zip(rows.questions, rows.choices, rows.answers, strict=True)
    return [Example({"question": question}, choices, right) for question, choices, right in triples]


def _of_texts(rows: TextRows, words: Mapping[str, str]) -> list[Example]:
    """words: of each class."""
    assert rows.labels is not None
    answers, numbers = tuple(words.values()), {label: number for number, label in enumerate(words)}
    triples = zip(rows.first, rows.second or [""] * len(rows), rows.single(), strict=True)
    return [Example({"text": text, "second": second}, answers, numbers[label]) for text, second, label in triples]


# Last words, and whole texts


def _is_texts(path: Path) -> bool:
    """Whether a file is JSON lines with only texts."""
    row = json_lines.first_object(path) if ending(path) in json_lines.ENDINGS else None
    return row is not None and list(row) == ["text"]


def last_words(language: LanguageRun, path: Path) -> Scored:
    """Paperno et al. 2016, LAMBADA (arXiv:1606.06031): the last word of a passage, right if all its tokens are."""
    pairs: list[tuple[str, str]] = []
    for number, row in json_lines.rows(path):
        if not isinstance(row, dict) or not isinstance(text := row.get("text"), str):
            raise CanonError(f'{path}, line {number}: not {{"text": …}}.')
        context, _, word = text.strip().rpartition(" ")
        if not context:
            raise CanonError(f"{path}, line {number}: a text must have at least two words.")
        pairs.append((context, f" {word}"))
    words, shortened = likelihoods(language, pairs)
    loss = -float(np.mean([one.total for one in words]))
    scores = {
        "accuracy": float(np.mean([one.greedy for one in words])),
        "perplexity": _exp(loss),
        "loss": loss,
        "count": len(words),
    }
    return Scored(scores, _shortened(shortened, len(pairs), language))


def perplexity(language: LanguageRun, path: Path) -> Scored:
    """Every token of a text but its first, with at least half of the positions as its context, from there on."""
    text = read_text(path)
    ids = language.encode(text)
    if language.opening >= 0:
        ids = np.concatenate([[language.opening], ids])
    if len(ids) < 2:
        raise CanonError(f"{path} has fewer than two tokens, so there is nothing to predict.")
    parts = score(language, windows(ids, language.limit))
    loss = float(np.concatenate([losses for losses, _ in parts]).mean(dtype=np.float64))
    right = float(np.concatenate([right for _, right in parts]).mean())
    count = len(ids) - 1
    scores = {
        "loss": loss,
        "perplexity": _exp(loss),
        "token_accuracy": right,
        "perplexity_per_word": _exp(loss * count / max(len(text.split()), 1)),
        "bits_per_byte": loss * count / math.log(2) / len(text.encode()),
        "count": count,
    }
    return Scored(scores)


def windows(ids: np.ndarray, limit: int) -> list[Request]:
    """Requests that score each token but the first once; the next begins half of the positions further on."""
    step = max(limit // 2, 1)
    requests = [Request(ids[: limit + 1], 1)]
    done = len(requests[0].ids)
    while done < len(ids):
        stop = min(done + step, len(ids))
        start = max(stop - (limit + 1), 0)
        requests.append(Request(ids[start:stop], done - start))
        done = stop
    return requests


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
