"""What a language model can do without being trained for it: tasks put as text, with no example or a few before them.

Radford et al. 2019 (GPT-2), section 3: perplexity of a text and the last word of a passage, without examples. Brown et
al. 2020, Language models are few-shot learners (arXiv:2005.14165), section 2.4: for each question K examples of the
training part are drawn and put before it, parted by an empty line; the choice with the highest likelihood is the answer
(`accuracy`), or that with the highest mean per token (`accuracy_per_token`).

| --task | asked | scores |
| --- | --- | --- |
| questions with choices (.jsonl, .csv, a set) | the likeliest choice | accuracy, accuracy_per_token, chance |
| texts with classes (.jsonl, .csv, .tsv, a set) | the likeliest word for a class | the same; majority for chance |
| texts alone (.jsonl with "text") | the last word of each | accuracy, perplexity (of a word) |
| a text (.txt) | every token | loss, perplexity, perplexity_per_word, bits_per_byte |
Deviations: examples are drawn anew for each question, also where the paper keeps some fixed; no division by the
likelihood of a choice without its question. Where data has no training part, the examples are others of its rows.
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
from canon.use.language import Language
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
    """A text with named gaps; the gap of the answer stands in it once, and what is behind it is only for examples."""

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
        before, _, behind = self.text.partition(self._answer)
        answer = example.answers[example.right]
        return self._filled(before, example) + answer + self._filled(behind, example)

    def _filled(self, text: str, example: Example) -> str:
        return _FIELD.sub(lambda found: example.fields[found[1]], text)


def few_shot(template: Template, examples: Sequence[Example], asked: Example) -> str:
    """The prompt: examples with their answers, then what is asked."""
    return "".join(template.whole(example) + BETWEEN for example in examples) + template.question(asked)


def evaluate_task(
    model: Model,
    task: str | Path,
    shots: int = 0,
    template: str = "",
    words: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Scored:
    """Scores a run on a file, folder or named set; words: what stands for each class in the text."""
    language = Language(model)
    path = Path(task) if str(task) in CATALOGUE else find_path(task)
    if str(task) in CATALOGUE or path.is_dir() or (path.is_file() and ending(path) in TABLES):
        if path.is_file() and _is_texts(path):
            _refuse(task, shots=shots, template=template, words=words)
            return last_words(language, path)
        return _choose(language, str(task), shots, template, words or {}, seed)
    if ending(path) not in _TEXT:
        raise CanonError(
            f"{path} is no task: questions with choices and texts with classes are read from {', '.join(TABLES)}, "
            'texts whose last word is asked from .jsonl with "text" alone, a text to measure from .txt.'
        )
    _refuse(task, shots=shots, template=template, words=words)
    return Scored(model.evaluate(path)) if language.running else perplexity(language, path)


def _refuse(task: str | Path, **options: Any) -> None:
    for name, value in options.items():
        if value:
            raise CanonError(f"{task} has no answers to choose from; leave out --{name}.")


# Choices and classes


def _choose(language: Language, source: str, shots: int, template: str, words: Mapping[str, str], seed: int) -> Scored:
    opened = open_for(FRAMED.reads, DataConfig(source=source), "--task")
    assert isinstance(opened, ExampleSource) and isinstance(opened.kind, ExampleKind)
    parts: dict[str, Any] = opened.parts
    asked = parts.get("test") or parts.get("valid") or parts["train"]
    own = len(parts) == 1  # no part is kept for learning: examples are other rows of the same
    is_class = isinstance(asked, TextRows) and not opened.numeric
    if isinstance(asked, ChoiceRows):
        if words:
            raise CanonError(f"{source} has choices of its own; leave out --words.")
        made: Callable[[Any], list[Example]] = _of_choices
        form = Template(template or CHOICE_TEMPLATE, ("question",), "answer")
    elif is_class:
        pair = asked.second is not None
        verbal = _verbalised(words, list(parts.values()), source)
        made = partial(_of_texts, verbal=verbal)
        default = PAIR_TEMPLATE if pair else TEXT_TEMPLATE
        form = Template(template or default, ("text", "second") if pair else ("text",), "label")
    else:
        what = Number.what if isinstance(asked, TextRows) else opened.kind.targets[0].what
        raise CanonError(f"{source} asks for {what}; --task takes choices, classes, last words or a text.")
    examples = made(asked)
    known = examples if own else made(parts["train"])
    if shots > len(known) - own:
        raise CanonError(f"--shots {shots} is more than the {len(known) - own:,} examples that {source} has to show.")
    prompts = [few_shot(form, _drawn(known, shots, seed, row, own), asked) for row, asked in enumerate(examples)]
    pairs = [(p, answer) for p, example in zip(prompts, examples, strict=True) for answer in example.answers]
    found, shortened = likelihoods(language, pairs)
    right = np.array([example.right for example in examples])
    stops = np.cumsum([len(example.answers) for example in examples])[:-1]
    by_sum, by_mean = (
        np.array([part.argmax() for part in np.split(np.array(values), stops)])
        for values in ([one.total for one in found], [one.mean for one in found])
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
    if shots and own:
        remarks.append(f"{source} has no training part: the examples of each prompt are other rows of it.")
    return Scored({**scores, "count": len(examples), "shots": shots}, remarks)


def _shortened(count: int, whole: int, language: Language) -> list[str]:
    if not count:
        return []
    return [f"{count:,} of {whole:,} prompts are longer than {language.limit:,} positions and lost their beginning."]


def _drawn(known: Sequence[Example], shots: int, seed: int, row: int, own: bool) -> list[Example]:
    """K examples for question `row`, decided by seed and row; not the question itself."""
    if not shots:
        return []
    places = np.random.default_rng([seed, row]).choice(len(known) - own, shots, replace=False)
    return [known[place + (own and place >= row)] for place in places.tolist()]


def _of_choices(rows: ChoiceRows) -> list[Example]:
    assert rows.answers is not None
    made = zip(rows.questions, rows.choices, rows.answers, strict=True)
    return [Example({"question": question}, choices, right) for question, choices, right in made]


def _verbalised(words: Mapping[str, str], parts: Sequence[TextRows], source: str) -> dict[str, str]:
    """What stands for each class, which is its own name unless `words` says otherwise."""
    labels = sorted({label for rows in parts for label in rows.single()})
    for label in words:
        if label not in labels:
            raise unknown(f"class of {source}", label, labels)
    return {label: words.get(label, label) for label in labels}


def _of_texts(rows: TextRows, verbal: Mapping[str, str]) -> list[Example]:
    assert rows.labels is not None
    answers, numbers = tuple(verbal.values()), {label: number for number, label in enumerate(verbal)}
    second = rows.second or [""] * len(rows)
    return [
        Example({"text": text, "second": other}, answers, numbers[label])
        for text, other, label in zip(rows.first, second, rows.single(), strict=True)
    ]


# Last words, and whole texts


def _is_texts(path: Path) -> bool:
    """Whether a file is JSON lines of nothing but texts."""
    row = json_lines.first_object(path) if ending(path) in json_lines.ENDINGS else None
    return row is not None and list(row) == ["text"]


def last_words(language: Language, path: Path) -> Scored:
    """Paperno et al. 2016, LAMBADA (arXiv:1606.06031): the last word of a passage, right if all its tokens are."""
    pairs: list[tuple[str, str]] = []
    for number, row in json_lines.rows(path):
        if not isinstance(row, dict) or not isinstance(text := row.get("text"), str):
            raise CanonError(f'{path}, line {number}: not {{"text": …}}.')
        context, _, word = text.strip().rpartition(" ")
        if not context:
            raise CanonError(f"{path}, line {number}: a text has two words at least.")
        pairs.append((context, f" {word}"))
    found, shortened = likelihoods(language, pairs)
    loss = -float(np.mean([one.total for one in found]))
    scores = {
        "accuracy": float(np.mean([one.likeliest for one in found])),
        "perplexity": _exp(loss),
        "loss": loss,
        "count": len(found),
    }
    return Scored(scores, _shortened(shortened, len(pairs), language))


def perplexity(language: Language, path: Path) -> Scored:
    """Every token of a text but its first, with at least half of the positions before it once so many have passed."""
    text = read_text(path)
    ids = language.encode(text)
    if language.opening >= 0:
        ids = np.concatenate([[language.opening], ids])
    if len(ids) < 2:
        raise CanonError(f"{path} has no two tokens, so nothing is foretold.")
    found = score(language, windows(ids, language.limit))
    loss = float(np.concatenate([losses for losses, _ in found]).mean(dtype=np.float64))
    right = float(np.concatenate([right for _, right in found]).mean())
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
    """Requests that ask for each token but the first once; the next begins half of the positions further on."""
    step = max(limit // 2, 1)
    found = [Request(ids[: limit + 1], 1)]
    done = len(found[0].ids)
    while done < len(ids):
        stop = min(done + step, len(ids))
        start = max(stop - (limit + 1), 0)
        found.append(Request(ids[start:stop], done - start))
        done = stop
    return found


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
