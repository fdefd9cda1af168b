"""Every use of every system at :tiny after one short training: on several rows and on one, from files and from texts.

A prediction for a row does not depend on the rows beside it; rows come out as many and in the order as they went in;
what `evaluate` scores is what `predict` says; what is exported and loaded again says the same.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import canon as package
from canon import metrics
from canon.errors import CanonError
from canon.inspect import attention, features, filters, gradients
from canon.inspect.summary import describe_path
from canon.interop import fasttext
from canon.interop import open as open_foreign
from canon.interop.formats import FORMATS as TABLE
from canon.interop.formats import written_by
from canon.report.run import write_report
from canon.training.run import Run
from canon.use.complete import complete
from canon.use.export import convert
from canon.use.generate import generate, write_samples
from canon.use.language import LanguageRun
from canon.use.likelihood import likelihoods
from canon.use.model import Model
from canon.use.translate import translate
from tests.battery.runs import BY_NAME, NAMES, SOURCE, fit

EMBEDS = ("word-vectors", "contrastive", "retrieval", "future-steps")  # what is predicted are vectors
ACTING = ("control", "policy-evaluation")  # what is scored are episodes
IMAGE_TASKS = ("classification", "contrastive", "generation")
TEXT_TASKS = ("language-model", "bidirectional-language-model")
CAUSAL = ["gpt", "gpt2", "gpt3"]  # whose loss of a text is decided by the text; others hide some of it by its place
WORDS = ["six", "seven", "zero", "nine"]

of_task = {task: [name for name in NAMES if BY_NAME[name].task == task] for task in SOURCE}
each_system = pytest.mark.parametrize("name", NAMES)
each_network = pytest.mark.parametrize("name", [name for name in NAMES if BY_NAME[name].loop == "gradient"])

ATTEND = ["bahdanau", "luong", "local-attention", "hard-attention", "transformer", "transformer-xl"]
ATTEND += ["gpt", "gpt2", "gpt3", "bert", "roberta", "unilm", "ernie2"]
GO_ON = ["rnn-lm", "transformer-xl", "nnlm", *CAUSAL]  # with a text
HAVE_WORDS = [*of_task["word-vectors"], *of_task["transduction"], "rnn-lm", "transformer-xl", "nnlm"]


@dataclass
class Given:
    """Rows of the kind that a task reads: in one file, and each by itself."""

    file: str
    alone: list[str]
    labelled: str = ""  # the same rows with what is right, for `evaluate`
    labelled_one: str = ""  # the first of them
    right: list[Any] = field(default_factory=list)


def said(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Predictions without where they came from."""
    return [{key: value for key, value in row.items() if key != "source"} for row in rows]


def about(value: Any) -> Any:
    """Equal to rounding."""
    if isinstance(value, dict):
        return {key: about(one) for key, one in value.items()}
    if isinstance(value, list):
        return [about(one) for one in value]
    return pytest.approx(value, rel=2e-4, abs=2e-5) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("runs")

    @cache
    def run(name: str) -> Path:
        fit(name, folder / name, 10, train__evaluate_every=10, train__checkpoint_every=10)
        return folder / name

    return run


@pytest.fixture(scope="module")
def model(trained: Callable[[str], Path]) -> Callable[[str], Model]:
    return cache(lambda name: package.load(trained(name)))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Given]:
    folder = tmp_path_factory.mktemp("given")
    return cache(lambda task: MADE[task](folder))


def write(path: Path, rows: list[str]) -> str:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def of_images(folder: Path) -> Given:
    from sklearn.datasets import load_digits

    digits = load_digits()
    for row in range(24):
        for base in [folder / "digits", *([folder / "digit"] if row == 0 else [])]:  # which is a zero, the first class
            file = base / str(digits.target[row]) / f"{row:02}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.rint(digits.images[row] * 255 / 16).astype(np.uint8)).save(file)
    files = sorted((folder / "digits").rglob("*.png"))
    names = [str(file) for file in files]
    right = [file.parent.name for file in files]
    return Given(str(folder / "digits"), names, str(folder / "digits"), str(folder / "digit"), right)


def of_numbers(folder: Path) -> Given:
    from sklearn.datasets import load_diabetes

    known = load_diabetes(scaled=False)
    header = ",".join([*known.feature_names, "progression"])
    right = known.target[:12].tolist()
    rows = [",".join(map(repr, [*row, y])) for row, y in zip(known.data[:12].tolist(), right, strict=True)]
    file = write(folder / "diabetes.csv", [header, *rows])
    alone = [write(folder / f"diabetes-{index:02}.csv", [header, row]) for index, row in enumerate(rows)]
    return Given(file, alone, file, alone[0], right)


def of_pairs(folder: Path) -> Given:
    lines = Path(SOURCE["transduction"]).read_text().splitlines()[:12]
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    labelled, one = write(folder / "pairs.tsv", lines), write(folder / "pair.tsv", lines[:1])
    return Given(write(folder / "sources.txt", list(sources)), list(sources), labelled, one, list(targets))


def of_text(folder: Path) -> Given:
    lines = Path(SOURCE["language-model"]).read_text().splitlines()[:12]
    text = write(folder / "text.txt", lines)
    return Given(text, [lines[0]], text, write(folder / "line.txt", lines[:1]))


def of_documents(folder: Path) -> Given:
    documents = Path(SOURCE["pretraining"]).read_text().split("\n\n")[:5]
    alone = [" ".join(document.split()[:24]) for document in documents]
    file = write(folder / "documents.txt", ["\n\n".join(alone)])
    return Given(file, alone, file, write(folder / "document.txt", alone[:1]))


def of_labels(folder: Path) -> Given:
    lines = Path(SOURCE["labels"]).read_text().splitlines()[:12]
    texts = [" ".join(word for word in line.split() if not word.startswith("__label__")) for line in lines]
    right = [
        {word.removeprefix("__label__") for word in line.split() if word.startswith("__label__")} for line in lines
    ]
    file = write(folder / "labels.txt", lines)
    return Given(file, texts, file, write(folder / "label.txt", lines[:1]), right)


def of_sentences(folder: Path) -> Given:
    lines = Path(SOURCE["fine-tuning"]).read_text().splitlines()[:13]
    texts, right = zip(*csv.reader(lines[1:]), strict=True)
    file = write(folder / "sentences.csv", lines)
    return Given(file, list(texts), file, write(folder / "sentence.csv", lines[:2]), list(right))


def of_triples(folder: Path) -> Given:
    lines = Path(SOURCE["retrieval"]).read_text().splitlines()[:13]
    anchors = [line.split(",")[0] for line in lines[1:]]
    file = write(folder / "triples.csv", lines)
    return Given(write(folder / "anchors.txt", anchors), anchors, file, write(folder / "triple.csv", lines[:2]))


def of_users(folder: Path) -> Given:
    """Users, and for each an item that it has not."""
    listed = csv.DictReader(Path(SOURCE["recommendation"]).read_text(encoding="utf-8").splitlines())
    pairs = [(row["user"], row["item"]) for row in listed]
    users, items = sorted({user for user, _ in pairs})[:12], sorted({item for _, item in pairs})
    right = [next(item for item in items[4:] if (user, item) not in pairs) for user in users]
    rows = ["user,item", *(f"{user},{item}" for user, item in zip(users, right, strict=True))]
    labelled, one = write(folder / "more.csv", rows), write(folder / "one.csv", rows[:2])
    return Given(write(folder / "users.txt", users), users, labelled, one, right)


def of_clicks(folder: Path) -> Given:
    header, *lines = Path(SOURCE["click-prediction"]).read_text().splitlines()[:13]
    file = write(folder / "clicks.csv", [header, *lines])
    alone = [write(folder / f"click-{index:02}.csv", [header, line]) for index, line in enumerate(lines)]
    return Given(file, alone, file, alone[0], [line.rpartition(",")[2] for line in lines])


def of_words(folder: Path) -> Given:
    return Given(write(folder / "words.txt", [" ".join(WORDS[:2]), *WORDS[2:]]), WORDS)


def of_queries(folder: Path) -> Given:
    """Right are the grades of each query's documents, by name."""
    lines = [line for line in Path(SOURCE["ranking"]).read_text().splitlines() if not line.startswith("#")]
    queries = [[line for line in lines if line.split()[1] == f"qid:{number}"] for number in range(1, 9)]
    alone = [write(folder / f"query-{number}.txt", query) for number, query in enumerate(queries)]
    right = [{line.split()[-1]: int(line.split()[0]) for line in query} for query in queries]
    file = write(folder / "queries.txt", [line for query in queries for line in query])
    return Given(file, alone, file, alone[0], right)


def of_states(folder: Path) -> Given:
    files = [write(folder / f"state-{state}.txt", [str(state)]) for state in range(5)]
    return Given(write(folder / "states.txt", [str(state) for state in range(5)]), files)


MADE: dict[str, Callable[[Path], Given]] = {
    **dict.fromkeys(IMAGE_TASKS, of_images),
    **dict.fromkeys(TEXT_TASKS, of_text),
    "regression": of_numbers,
    "transduction": of_pairs,
    "pretraining": of_documents,
    "future-steps": of_documents,
    "labels": of_labels,
    "fine-tuning": of_sentences,
    "prompting": of_sentences,
    "retrieval": of_triples,
    "ranking": of_queries,
    "word-vectors": of_words,
    "recommendation": of_users,
    "click-prediction": of_clicks,
    **dict.fromkeys(ACTING, of_states),
}


def test_every_task_has_rows() -> None:
    assert MADE.keys() == SOURCE.keys() == {system.task for system in BY_NAME.values()}


def asked_of_windows(file: str, window: int) -> list[int]:
    """How many tokens each window of a text asks for: words and line ends, but not the first."""
    text = Path(file).read_text()
    asked = len(text.split()) + len(text.splitlines()) - 1
    return [min(window, asked - start) for start in range(0, asked, window)]


# Predict


@pytest.mark.parametrize("name", [name for name in NAMES if BY_NAME[name].task != "generation"])
def test_a_row_alone_is_the_row_among_others(
    name: str, model: Callable[[str], Model], given: Callable[[str], Given]
) -> None:
    rows, own = given(BY_NAME[name].task), model(name)
    together, among = own.predict([rows.file]), own.predict(rows.alone)
    if BY_NAME[name].task in TEXT_TASKS:  # one text, whose windows know those before
        assert len(together) == len(asked_of_windows(rows.file, own.run.recipe.data.window))
        assert said(own.predict([rows.labelled_one])) == about(said(among))
        return
    assert len(together) == len(among) == len(rows.alone)
    assert said(together) == about(said(among))
    # A text that is hidden in part is hidden by its place, so only the first is the same alone.
    count = 1 if BY_NAME[name].task == "pretraining" and name not in CAUSAL else len(rows.alone)
    for row, source in zip(among[:count], rows.alone[:count], strict=True):
        assert said(own.predict([source])) == about(said([row]))
    backward = own.predict(rows.alone[::-1])
    assert [row["source"] for row in backward] == [row["source"] for row in among[::-1]]


@pytest.mark.parametrize(
    "name",
    [
        name
        for task in ("classification", "labels", "fine-tuning", "prompting", "click-prediction")
        for name in of_task[task]
    ],
)
def test_classes_are_ranked(name: str, model: Callable[[str], Model], given: Callable[[str], Given]) -> None:
    rows, own = given(BY_NAME[name].task), model(name)
    classes = len(own.schema.classes)
    first, all_ = own.predict([rows.file]), own.predict([rows.file], top=classes + 5)
    for one, several in zip(first, all_, strict=True):
        values = [next(value for key, value in choice.items() if key != "class") for choice in several["top"]]
        assert values == sorted(values, reverse=True) and len(values) == classes
        assert {choice["class"] for choice in several["top"]} == set(own.schema.classes)
        assert one["prediction"] == several["prediction"] == several["top"][0]["class"]
        assert one["top"] == several["top"][:1]
        if "probability" in several["top"][0] and name != "logistic-regression":  # one against the rest each
            assert sum(values) == pytest.approx(1, abs=1e-4)


def judged(task: str, predictions: list[Any], right: list[Any]) -> dict[str, float]:
    """The scores that follow from predictions alone."""
    if task == "regression":
        errors = np.array(predictions) - np.array(right)
        return {"mae": float(np.abs(errors).mean()), "mse": float((errors**2).mean())}
    if task == "transduction":
        return {"wer": float(np.mean([one != two for one, two in zip(predictions, right, strict=True)]))}
    name = "hit@1" if task == "recommendation" else "accuracy"
    hits = [one in two if isinstance(two, set) else one == two for one, two in zip(predictions, right, strict=True)]
    return {name: float(np.mean(hits))}


def ranked_as(predictions: list[dict[str, Any]], right: list[Any]) -> dict[str, float]:
    """Measures of the orders that are predicted."""
    queries = list(zip(predictions, right, strict=True))
    grades = [known[document["document"]] for row, known in queries for document in row["top"]]
    values = [document["score"] for row, _ in queries for document in row["top"]]
    sizes = [len(known) for known in right]
    worst, shared = (metrics.rank(grades, values, sizes=sizes, ties=ties) for ties in ("worst", "average"))
    return {
        "map": float(metrics.average_precision_by_query(worst).mean()),
        "ndcg@3": float(metrics.ndcg_by_query(shared, k=3).mean()),
    }


@pytest.mark.parametrize("name", [name for name in NAMES if BY_NAME[name].task not in (*EMBEDS, *ACTING)])
def test_what_is_predicted_is_what_is_scored(
    name: str, model: Callable[[str], Model], given: Callable[[str], Given]
) -> None:
    """Of several rows and of one."""
    task, own = BY_NAME[name].task, model(name)
    rows = given(task)
    scores = own.evaluate(rows.labelled)
    assert all(math.isfinite(value) for value in scores.values())
    if task == "generation":
        return
    if task == "ranking":
        assert scores == scores | about(ranked_as(own.predict([rows.file], top=1000), rows.right))
        one = own.evaluate(rows.labelled_one)
        assert one == one | about(ranked_as(own.predict([rows.alone[0]], top=1000), rows.right[:1]))
        return
    reported = own.predict([rows.file])
    if rows.right:
        predictions = [row["prediction"] for row in reported]
        assert scores == scores | about(judged(task, predictions, rows.right))
        one = own.evaluate(rows.labelled_one)
        first = own.predict([rows.alone[0]])[0]["prediction"]
        assert one == one | about(judged(task, [first], rows.right[:1]))
        return
    losses = [row["loss"] for row in reported]
    if task in TEXT_TASKS:
        counts = asked_of_windows(rows.file, own.run.recipe.data.window)
        assert scores["loss"] == pytest.approx(np.average(losses, weights=counts), rel=1e-4)
    else:
        of_tokens = scores.get("token_loss", scores["loss"])  # without that of whole sentences
        assert min(losses) - 1e-4 <= of_tokens <= max(losses) + 1e-4
    assert [row["perplexity"] for row in reported] == pytest.approx([math.exp(loss) for loss in losses], rel=1e-4)


@each_system
def test_the_command_prints_what_predict_says(
    name: str, model: Callable[[str], Model], given: Callable[[str], Given], canon: Callable[..., Any]
) -> None:
    rows, own = given(BY_NAME[name].task), model(name)
    printed = canon("predict", own.run.path, rows.file, "--json")
    if BY_NAME[name].task == "generation":
        assert printed.code == 2 and "canon generate" in printed.err
        return
    wanted = own.predict([rows.file])
    assert printed.code == 0, printed.err
    assert json.loads(printed.out) == about(wanted)
    plain = canon("predict", own.run.path, rows.file, "--format", "csv")
    assert [row["source"] for row in csv.DictReader(io.StringIO(plain.out))] == [row["source"] for row in wanted]
    if rows.labelled:
        scored = canon("evaluate", own.run.path, "--data", rows.labelled, "--json")
        assert scored.code == 0, scored.err


# Uses of some kinds of systems


@pytest.mark.parametrize("name", of_task["generation"])
def test_samples_are_drawn(name: str, model: Callable[[str], Model], tmp_path: Path) -> None:
    own = model(name)
    samples = generate(own, 9, seed=1)["samples"]
    assert samples.shape == (9, *own.schema.shape) and np.isfinite(samples).all()
    assert np.array_equal(generate(own, 9, seed=1)["samples"], samples)
    assert not np.array_equal(generate(own, 9, seed=2)["samples"], samples)
    assert len(generate(own, 1)["samples"]) == 1
    for count in (1, 9):
        path = write_samples(own, generate(own, count), tmp_path / f"{count}.png")
        assert Image.open(path).size >= own.schema.shape[:0:-1]


@pytest.mark.parametrize("name", [*of_task["transduction"], "t5"])
def test_translations(name: str, model: Callable[[str], Model], given: Callable[[str], Given]) -> None:
    own, rows = model(name), given("transduction")
    together = [result[0].text for result in translate(own, rows.alone)]
    assert together == [translate(own, [text])[0][0].text for text in rows.alone]
    if name != "t5":
        assert together == [row["prediction"] for row in own.predict(rows.alone)]


@pytest.mark.parametrize("name", GO_ON)
def test_a_text_goes_on_as_likely_as_it_is_scored(name: str, model: Callable[[str], Model]) -> None:
    own, prompt = model(name), "six seven" if BY_NAME[name].task in TEXT_TASKS else "The next number"
    (greedy,) = complete(own, prompt, length=3, temperature=0)
    assert greedy.text.startswith(prompt)
    for one in complete(own, prompt, length=3, temperature=0, count=2):
        assert (one.text, one.log_probability) == (greedy.text, pytest.approx(greedy.log_probability, rel=1e-4))
    drawn = complete(own, prompt, length=1, count=3, seed=4)
    assert drawn == complete(own, prompt, length=1, count=3, seed=4)
    language = LanguageRun(own)
    for one in drawn:
        rest = one.text[len(prompt) :]
        if rest.strip():  # not the end of the text
            (result,), _ = likelihoods(language, [(prompt, rest)])
            assert result.total == pytest.approx(one.log_probability, rel=1e-4)


@pytest.mark.parametrize("name", of_task["word-vectors"])
def test_words(name: str, model: Callable[[str], Model], given: Callable[[str], Given]) -> None:
    own = model(name)
    vectors = own.vectors
    predictions = own.predict([given("word-vectors").file])
    assert [row["source"] for row in predictions] == WORDS
    for row in predictions:
        np.testing.assert_allclose(row["vector"], vectors[row["source"]], rtol=1e-6)
    units = {word: vectors[word] / np.linalg.norm(vectors[word]) for word in vectors.words}

    def nearest(point: np.ndarray, without: tuple[str, ...]) -> list[str]:
        return sorted((w for w in units if w not in without), key=lambda w: -float(units[w] @ point))[:3]

    assert [result.word for result in vectors.neighbors("six", 3)] == nearest(units["six"], ("six",))
    point = units["seven"] - units["six"] + units["nine"]
    asked = ("six", "seven", "nine")
    assert [result.word for result in vectors.analogy(*asked, 3)] == nearest(point, asked)
    assert [len(result) for result in vectors.neighbors_of(["six"], 2)] == [2]


# Looking inside


@pytest.mark.parametrize("name", [name for name in NAMES if BY_NAME[name].task in ("classification", "contrastive")])
def test_filters_and_features(name: str, model: Callable[[str], Model], given: Callable[[str], Given]) -> None:
    own, rows = model(name), given("classification")
    if name == "adaboost":
        for look in (filters.filters, lambda model: features.features(model, rows.alone)):
            with pytest.raises(CanonError, match="no network to look into"):
                look(own)
        return
    result = filters.filters(own)
    assert np.array_equal(result.weights.ravel(), own.network.state_dict()[f"{result.layer}.weight"].numpy().ravel())
    assert filters.filters_figure(result).get_axes()
    together = features.features(own, rows.alone)
    assert together.sources == rows.alone and len(together.values) == len(rows.alone)
    one = features.features(own, rows.alone[3:4])
    np.testing.assert_allclose(one.values[0], together.values[3], rtol=1e-4, atol=1e-5)
    assert features.features_figure(one).get_axes()


@each_network
def test_attention(name: str, model: Callable[[str], Model]) -> None:
    own, text = model(name), "seven six" if BY_NAME[name].encodings != ("passages",) else "The next number is one."
    if name not in ATTEND:
        with pytest.raises(CanonError, match="no attention to look at"):
            attention.attention(own, text)
        return
    result = attention.attention(own, text)
    for one in result.maps:
        assert one.weights.shape[1:] == (len(one.queries), len(one.keys))
        sums = one.weights.sum(axis=2)
        assert np.all(sums <= 1 + 1e-5)
        assert name == "local-attention" or np.all(sums >= 1 - 1e-5)  # whose Gaussian takes some away
    words = [word.strip(".").lower() for word in text.split()]
    assert any(words == [key.lower() for key in one.keys if key.lower() in words] for one in result.maps)
    assert attention.attention_figure(result).get_axes()


@each_system
def test_gradients(name: str, model: Callable[[str], Model]) -> None:
    own = model(name)
    if BY_NAME[name].loop != "gradient":
        with pytest.raises(CanonError, match="no network to look into"):
            gradients.gradients(own)
        return
    result = gradients.gradients(own)
    norms = {name: parameter.norm().item() for name, parameter in own.network.named_parameters()}
    assert {row.name: row.weight for row in result.parameters} == {
        row.name: norms[row.name] for row in result.parameters
    }
    assert all(row.gradient > 0 for row in result.parameters) and result.parameters
    assert bool(result.steps) == (name == "rnn-lm")
    assert all(math.isfinite(loss) for loss in result.losses.values())
    assert gradients.gradients_figure(result).get_axes()
    assert not any(parameter.grad is not None for parameter in own.network.parameters())


@each_system
def test_description(name: str, model: Callable[[str], Model], canon: Callable[..., Any]) -> None:
    own = model(name)
    description = describe_path(own.run.path)
    if BY_NAME[name].loop == "gradient":
        assert description.network is not None
        assert description.network.parameters == sum(p.numel() for p in own.network.parameters())
    assert description.scores == Run.open(own.run.path).result["scores"]  # type: ignore[index]
    described = canon("describe", own.run.path, "--json")
    assert json.loads(described.out)["title"] == BY_NAME[name].title


@pytest.mark.parametrize("name", sorted({name for names in of_task.values() for name in (names[0], names[-1])}))
def test_report_and_curves(name: str, model: Callable[[str], Model], canon: Callable[..., Any], tmp_path: Path) -> None:
    """Of two systems of each task: they draw what the task scores, at a second each."""
    own = model(name)
    page = write_report(own.run).read_text(encoding="utf-8")
    assert escape(BY_NAME[name].title) in page and "<svg" in page
    drawn = canon("plot", own.run.path, "--out", tmp_path / "curves.svg")
    assert drawn.code == 0 and "<svg" in (tmp_path / "curves.svg").read_text()


# Other people's files


ENDINGS = {"onnx": ".onnx", "numpy": ".npy", "torchvision": ".pt", "timm": ".pt", "safetensors": ".safetensors"}
ENDINGS |= {
    "word2vec": ".bin",
    "fasttext-bin": ".bin",
    "word2vec-text": ".txt",
    "glove": ".txt",
    "fasttext-vec": ".vec",
}
# The network that the battery trains has no counterpart in the project, for a reason that the message gives.
NO_COUNTERPART = {
    **{"gpt": "system.hidden", "gpt3": "system.sparse", "elmo": "h5py"},
    **dict.fromkeys(("prompt", "hard-prompt"), "system.frozen"),  # its backbone is its own
}
FORMATS = [known.name for known in TABLE if known.writes]
WORD_FORMATS = [known.name for known in TABLE if known.writes and known.holds == ("vectors",)]


def formats(name: str) -> set[str]:
    """What a run of this system is written as."""
    if name in NO_COUNTERPART and not (name == "elmo" and find_spec("h5py")):
        return set()
    return {known.name for known in written_by(BY_NAME[name])}


def test_systems_with_words_write_vectors() -> None:
    assert {name for name in NAMES if set(WORD_FORMATS) <= formats(name)} == set(HAVE_WORDS)


@pytest.mark.parametrize("name", [name for name in NAMES if "onnx" not in formats(name)])
def test_written_elsewhere_and_read_again_says_the_same(
    name: str, model: Callable[[str], Model], given: Callable[[str], Given], tmp_path: Path
) -> None:
    own, written = model(name), set()
    for form in FORMATS:
        target = tmp_path / f"{form}{ENDINGS.get(form, '')}"
        try:
            convert(str(own.run.path), target, form)
        except CanonError as refusal:
            assert not list(tmp_path.glob(f"*{target.name}*")), "nothing is left of what was refused"
            declared = {known.name for known in written_by(BY_NAME[name])}
            assert form not in declared or NO_COUNTERPART[name] in str(refusal)
            continue
        written.add(form)
        check_same(own, target, form, given)
    assert written == formats(name)


def check_same(own: Model, target: Path, form: str, given: Callable[[str], Given]) -> None:
    if own.run.recipe.system.name == "fasttext-classifier":
        read = fasttext.read(target)
        rows = given("labels")
        wanted = [row["prediction"] for row in own.predict(rows.alone)]
        assert [fasttext.predict(read, text)[0][0].removeprefix("__label__") for text in rows.alone] == wanted
    elif form in WORD_FORMATS:
        again, vectors = package.load(target), package.load(own.run.path).vectors  # type: ignore[union-attr]
        assert list(again.words) == list(vectors.words)  # type: ignore[union-attr]
        for word in vectors.words:
            np.testing.assert_allclose(again[word], vectors[word], rtol=1e-5, atol=1e-6)  # type: ignore[index]
    elif form == "elmo":
        tensors = open_foreign(target, "weights").tensors  # type: ignore[attr-defined]
        ours = own.network.state_dict()
        assert tensors and all(torch.equal(tensor, ours[key]) for key, tensor in tensors.items() if key in ours)
    elif own.run.recipe.system.name == "finetune":
        assert json.loads((target / "config.json").read_text())["label2id"].keys() == set(own.schema.classes)
    else:
        texts = given("pretraining").alone
        again = package.load(target)
        assert isinstance(again, Model)
        with torch.no_grad():
            for text in texts:
                assert again.schema.tokenizers["text"].encode([text])[0].tolist() == (
                    own.schema.tokenizers["text"].encode([text])[0].tolist()
                )
        ours, theirs = own.network.state_dict(), again.network.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(tensor, theirs[key][: len(tensor)]) for key, tensor in ours.items() if tensor.dim())


@pytest.mark.parametrize("name", ["mlp", "linear-regression", "nadaraya-watson"])
def test_onnx_says_what_predict_says(
    name: str, model: Callable[[str], Model], given: Callable[[str], Given], tmp_path: Path
) -> None:
    """All classifiers of images are in tests/interop/test_onnx.py."""
    for package_ in ("onnx", "onnxscript"):
        pytest.importorskip(package_)
    runtime = pytest.importorskip("onnxruntime")
    own, rows = model(name), given(BY_NAME[name].task)
    convert(str(own.run.path), tmp_path / "run.onnx", "onnx")
    session = runtime.InferenceSession(str(tmp_path / "run.onnx"), providers=["CPUExecutionProvider"])
    from canon.data.read import inputs

    columns, _ = inputs(own.schema, [rows.file], own.run.recipe.data)
    inputs = np.asarray(columns["input"], dtype=np.float32)
    several = session.run(None, {"input": inputs})[0]
    one = session.run(None, {"input": inputs[:1]})[0]
    np.testing.assert_allclose(one, several[:1], rtol=1e-4, atol=1e-4)
    values = [row["prediction"] for row in own.predict([rows.file])]
    if BY_NAME[name].task == "regression":
        np.testing.assert_allclose(several.reshape(-1), values, rtol=1e-4)
    else:
        assert [own.schema.classes[index] for index in several.argmax(axis=1)] == values
