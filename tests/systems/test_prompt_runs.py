"""Runs of prompts on backbones that are runs themselves: what they save, how they resume, and what is refused."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import canon
from canon.contracts import Context
from canon.data.batching.loader import Examples
from canon.data.formats.rows import TextRows
from canon.errors import CanonError
from canon.interop.backbones import find, vectors_of
from canon.nn.ragged import Layout
from canon.report.run import write_report
from canon.systems.prompts.hard_prompt import logistic_regression
from canon.training.data import read_data
from canon.training.plan import build, plan, resolved
from canon.training.run import Run
from canon.training.trainer import train
from canon.use.distill import distill, soften
from canon.use.export import convert
from canon.use.prompts import nearest

DOCUMENTS = Path(__file__).parent.parent / "battery" / "documents.txt"
SENTENCES = Path(__file__).parent.parent / "battery" / "sentences.csv"
SMALL = {
    "system.dim": 16,
    "system.num_layers": 2,
    "system.num_heads": 2,
    "system.hidden": 32,
    "data.vocab_size": 0,
    "data.max_length": 32,
    "train.steps": 20,
    "train.batch": 8,
    "train.device": "cpu",
    "train.threads": 1,
}
WORDS = {"even": ["two", "four"], "odd": ["one", "three"]}


def pretrain(system: str, out: Path, **more: Any) -> Path:
    tokenizer = {"bert": "word", "gpt2": "byte-bpe", "t5": "word", "roberta": "byte-bpe"}[system]
    size = 300 if tokenizer == "byte-bpe" else 0
    changes = {**SMALL, "system.name": f"{system}:tiny", "data.source": str(DOCUMENTS), "data.tokenizer": tokenizer}
    changes |= {"data.vocab_size": size, "data.limit": 40, **more}
    train(f"pretrained/{system}", out=out, changes=changes, quiet=True)
    return out


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrain("bert", tmp_path_factory.mktemp("bert") / "bert")


def settings(backbone: Path, steps: int = 12, **more: Any) -> dict[str, Any]:
    return {
        "train.init": str(backbone),
        "data.template": "{text} {mask}",
        "data.words": WORDS,
        "data.limit": 64,
        "train.steps": steps,
        "train.batch": 8,
        "train.log_every": 2,
        "train.evaluate_every": 6,
        "train.checkpoint_every": 3,
        "train.device": "cpu",
        "train.threads": 1,
        "optimizer.lr": 0.01,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def fit(out: Path, changes: dict[str, Any], name: str = "prompt", resume: bool = False) -> Run:
    plain = {key: value for key, value in changes.items() if name == "prompt" or not key.startswith("optimizer.")}
    return train("" if resume else name, "" if resume else str(SENTENCES), out, resume, plain, quiet=True)


@pytest.mark.parametrize("system", ["bert", "roberta", "gpt2", "t5"])
def test_every_backbone_learns(system: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"system.num_layers": 1} if system == "t5" else {}
    backbone = pretrain(system, tmp_path / system, **more)
    run = fit(tmp_path / "run", settings(backbone, 60, data__words={"even": ["two"], "odd": ["three"]}))
    losses = [row["train/loss"] for row in run.metrics() if "train/loss" in row]
    assert np.mean(losses[-3:]) < 0.9 * np.mean(losses[:3])
    [row] = canon.load(run.path).predict("forty two", text=True)
    assert row["prediction"] in WORDS


PARTS = {
    "soft": {"data__template": '{soft:2}{text}{soft:"two"} {mask}'},
    "plain": {"data__template": "{soft:2}{text} {mask}", "system__reparametrise": False},
    "prefix": {"system__prefix": 3},
    "projected": {"system__prefix": 3, "system__projection": 5},
    "verbaliser": {"system__verbaliser": "soft"},
    "head": {"system__verbaliser": "head", "system__prefix": 2, "data__template": "{text}", "data__words": {}},
}


@pytest.mark.parametrize("part", PARTS)
def test_a_frozen_run_saves_only_its_prompt_and_resumes_exactly(part: str, bert: Path, tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", settings(bert, 12, system__frozen=True, **PARTS[part]))
    saved = load_file(whole.path / "last" / "model.safetensors")
    assert saved and not any(name.startswith("backbone.") for name in saved)
    parts = fit(
        tmp_path / "parts", settings(bert, 6, system__frozen=True, optimizer__schedule="constant", **PARTS[part])
    )
    straight = fit(
        tmp_path / "s", settings(bert, 12, system__frozen=True, optimizer__schedule="constant", **PARTS[part])
    )
    again = fit(parts.path, {"train.steps": 12}, resume=True)
    for name, tensor in load_file(straight.path / "last" / "model.safetensors").items():
        assert torch.equal(tensor, load_file(again.path / "last" / "model.safetensors")[name]), name
    assert canon.load(whole.path).evaluate() == json.loads((whole.path / "result.json").read_text())["scores"]["test"]


def test_a_prompt_on_a_prompted_run_takes_its_backbone_alone(bert: Path, tmp_path: Path) -> None:
    """Its soft tokens were for another prompt: `system.start` takes vectors."""
    first = fit(tmp_path / "first", settings(bert, 3, **PARTS["plain"]))
    second = fit(tmp_path / "second", settings(first.path, 3, **PARTS["plain"]))
    said = (second.path / "log.txt").read_text()
    assert f"Started from {first.path}" in said and "newly initialised: soft.weight." in said


def test_another_backbone_is_refused_with_both_named(bert: Path, tmp_path: Path) -> None:
    other = pretrain("bert", tmp_path / "other")
    run = fit(tmp_path / "run", settings(other, 6, system__frozen=True, system__prefix=2))
    sha = run.recipe.config.sha256
    moved = tmp_path / "moved"
    other.rename(moved)
    with pytest.raises(CanonError, match=r"[Tt]here is no run"):
        canon.load(run.path)
    again = pretrain("bert", tmp_path / "other", **{"train.seed": 5})
    with pytest.raises(CanonError, match=f"sha256 {sha}, but {again} has sha256") as mistake:
        canon.load(run.path)
    assert str(mistake.value).count("sha256") == 2


@pytest.mark.parametrize("part", ["soft", "projected", "verbaliser"])
def test_convert_writes_folded_vectors_that_another_run_begins_with(part: str, bert: Path, tmp_path: Path) -> None:
    run = fit(tmp_path / "run", settings(bert, 6, system__frozen=True, **PARTS[part]))
    convert(str(run.path), tmp_path / "prompt", "prompt")
    modes = {path.stat().st_mode for path in (tmp_path / "prompt").iterdir()}
    assert len(modes) == 1  # readable by whom any new file is
    facts = json.loads((tmp_path / "prompt" / "prompt.json").read_text())
    assert facts["backbone"]["sha256"] == run.recipe.config.sha256 and facts["words"] == WORDS
    plain = {
        **PARTS[part],
        "system__reparametrise": False,
        "system__projection": 0,
        "system__start": str(tmp_path / "prompt"),
    }
    started = fit(tmp_path / "started", settings(bert, 1, system__frozen=True, optimizer__lr=1e-30, **plain))
    ours, theirs = canon.load(run.path), canon.load(started.path)
    texts = ["forty two", "seven", "one hundred"]
    for one, two in zip(ours.predict(texts, text=True), theirs.predict(texts, text=True), strict=True):
        assert one["top"][0]["probability"] == pytest.approx(two["top"][0]["probability"], abs=1e-5)
    facts["backbone"]["sha256"] = "0" * 64
    (tmp_path / "prompt" / "prompt.json").write_text(json.dumps(facts))
    with pytest.raises(CanonError, match=f"backbone with sha256 {'0' * 64}, but this one has"):
        fit(tmp_path / "refused", settings(bert, 1, system__frozen=True, **plain))
    with pytest.raises(CanonError, match="learned too"):
        convert(str(fit(tmp_path / "tuned", settings(bert, 1)).path), tmp_path / "x", "prompt")


def test_prefix_of_a_packed_batch_is_that_of_single_texts(bert: Path, tmp_path: Path) -> None:
    run = fit(tmp_path / "run", settings(bert, 6, system__frozen=True, system__prefix=3))
    network = canon.load(run.path).network
    rows = [[7, 8, 9], [10, 11, 12, 13, 14], [5, 6]]
    layout = Layout(torch.tensor([len(row) for row in rows]))
    prefix = network.prefix.vectors()
    together = network.backbone.prompted(torch.tensor([t for row in rows for t in row]), layout, prefix_LP2D=prefix)
    alone = [
        network.backbone.prompted(torch.tensor(r), Layout(torch.tensor([len(r)])), prefix_LP2D=prefix) for r in rows
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)


# Hard prompts


def hard(backbone: Path, **more: Any) -> tuple[Any, Any, Any]:
    """A learner before its first step, its task and its data."""
    changes = settings(backbone, 5, data__template="{text} {trigger:1} {mask}", **more)
    changes |= {"train.init": str(backbone)}
    recipe, _ = plan(
        "hard-prompt", str(SENTENCES), None, False, {k: v for k, v in changes.items() if "optimizer" not in k}
    )
    data = read_data(recipe)
    recipe = resolved(recipe, data)
    learner, task = build(recipe, data.schema, Context().world)
    learner.begin(data, recipe.train.batch, 5)
    return learner, task, data


def mean_loss(learner: Any, batch: Any) -> float:
    with torch.no_grad():
        return float(learner._loss(batch)) / len(batch["target"])


def test_autoprompt_with_all_candidates_is_exhaustive_search(bert: Path, tmp_path: Path) -> None:
    """One trigger, a vocabulary of about fifty words: the step takes the very best token."""
    learner, _, data = hard(bert, system__candidates=10_000, data__limit=16, train__batch=16)
    assert data.schema.tokenizers["text"].size < 80
    rows = Examples(data.splits["train"], data.schema, torch.device("cpu")).take(torch.arange(16))
    banned = learner._banned_V
    losses = {}
    for token in range(data.schema.tokenizers["text"].size):
        if not banned[token]:
            learner.network.trigger_K[0] = token
            losses[token] = mean_loss(learner, rows)
    best = min(losses, key=losses.__getitem__)
    learner.network.trigger_K[0] = data.schema.tokenizers["text"].specials.mask
    before = mean_loss(learner, rows)
    assert learner.step(1)
    chosen = int(learner.network.trigger_K[0])
    assert (chosen == best) == (losses[best] < before)
    assert mean_loss(learner, rows) == pytest.approx(min(losses[best], before), abs=1e-6)
    learner.step(2)  # nothing is better
    assert int(learner.network.trigger_K[0]) == chosen and learner.logs()["accepted"] <= 0.5


def test_candidates_are_the_first_order_gains(bert: Path) -> None:
    """−e·g of the gradient by autograd against finite differences."""
    learner, _, data = hard(bert, data__limit=16, train__batch=16)
    network = learner.network.double()
    rows = Examples(data.splits["train"], data.schema, torch.device("cpu")).take(torch.arange(16))
    gradient = learner._gradient(0)
    direction = torch.randn(16, dtype=torch.float64)
    base = network.backbone.embedding.token.weight[network.trigger_K].clone()
    steps = []
    for sign in (1, -1):
        with torch.no_grad():
            loss = learner.scores(rows, base + sign * 1e-5 * direction).log_softmax(1)
            steps.append(float(-loss[torch.arange(16), rows["target"]].mean()))
    assert float(gradient @ direction) == pytest.approx((steps[0] - steps[1]) / 2e-5, rel=1e-4)


def test_content_free_calibration_makes_empty_inputs_uniform(bert: Path) -> None:
    learner, _, _ = hard(bert, system__calibration="content-free")
    columns = {"input": learner._content_free()}
    [batch] = list(learner._batches(columns))
    with torch.no_grad():
        mean = learner.scores(batch).softmax(1).mean(0)
    calibrated = mean / learner.log_prior_C.exp()
    torch.testing.assert_close(calibrated / calibrated.sum(), torch.full((2,), 0.5))
    assert len(batch["input_lengths"]) == 3


def test_prior_calibration_divides_by_the_mean_over_texts(bert: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text\none two\nthree\nforty four\n")
    learner, _, data = hard(bert, system__calibration="prior", data__unlabelled=str(texts))
    [batch] = list(learner._batches(data.more["unlabelled"]))
    with torch.no_grad():
        mean = learner.scores(batch).softmax(1).mean(0)
    torch.testing.assert_close(learner.log_prior_C.exp(), mean)


def test_zero_shot_learns_nothing(bert: Path, tmp_path: Path) -> None:
    run = fit(tmp_path / "run", settings(bert, 1, system__calibration="content-free"), "hard-prompt")
    assert run.result is not None and run.result["ended"] == "nothing is left to learn"
    saved = load_file(run.path / "last" / "model.safetensors")
    assert set(saved) == {"log_prior_C", "found_CW"}


def test_searched_triggers_resume_exactly(bert: Path, tmp_path: Path) -> None:
    more = {"data__template": "{trigger:2} {text} {mask}", "system__candidates": 8}
    straight = fit(tmp_path / "a", settings(bert, 8, **more), "hard-prompt")
    fit(tmp_path / "b", settings(bert, 5, **more), "hard-prompt")
    again = fit(tmp_path / "b", {"train.steps": 8}, resume=True)
    ours, theirs = (load_file(run.path / "last" / "model.safetensors") for run in (straight, again))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_label_words_by_logistic_regression(bert: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    torch.manual_seed(0)
    x, y = torch.randn(60, 5, dtype=torch.float64), torch.randint(0, 3, (60,))
    weight, bias = logistic_regression(x, y, 3)
    theirs = LogisticRegression(C=1 / (2 * 1e-4 * 60), max_iter=5000, tol=1e-10).fit(x.numpy(), y.numpy())
    ours = (x @ weight.T + bias).softmax(1)
    np.testing.assert_allclose(ours.numpy(), theirs.predict_proba(x.numpy()), atol=2e-3)
    learner, _, data = hard(bert, system__search_words=3)
    prompts = learner.found_CW
    assert prompts.shape == (2, 3) and len(set(prompts.flatten().tolist())) == 6
    assert not set(prompts.flatten().tolist()) & set(data.schema.tokenizers["text"].specials.all.tolist())


# Few-shot, demonstrations, distillation


def test_shots_are_of_each_class_and_apart(tmp_path: Path) -> None:
    lines = ["text,label"] + [f"text {index},{'ab'[index % 2]}" for index in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    seen = []
    for seed in (13, 21):
        recipe, _ = plan(
            "prompt:tiny",
            str(tmp_path / "rows.csv"),
            None,
            False,
            {"data.shots": 4, "data.seed": seed, "data.tokenizer": "byte-bpe"},
        )
        data = read_data(recipe)
        for split in ("train", "valid"):
            assert np.bincount(data.splits[split]["target"]).tolist() == [4, 4]
        texts = {
            name: {tuple(c["input"].sequence(i)) for i in range(len(c["input"]))} for name, c in data.splits.items()
        }
        for one, two in itertools.combinations(texts.values(), 2):
            assert not one & two
        seen.append(texts["train"])
    assert seen[0] != seen[1]
    recipe, _ = plan("prompt:tiny", str(tmp_path / "rows.csv"), None, False, {"data.shots": 20})
    with pytest.raises(CanonError, match="shots = 20 needs 40 of each"):
        read_data(recipe)


def test_folds_are_files(tmp_path: Path) -> None:
    for fold in range(2):
        for part in ("train", "dev"):
            rows = [{"sentence": f"{part} {fold} text {index}", "label": "ab"[index % 2]} for index in range(6)]
            (tmp_path / f"{part}_{fold}.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "test_public.json").write_text(
        "\n".join(json.dumps({"sentence": f"test {i}", "label": "ab"[i % 2]}) for i in range(4))
    )
    recipe, _ = plan("prompt:tiny", str(tmp_path), None, False, {"data.fold": 1})
    data = read_data(recipe)
    assert {Path(record.name).name for record in data.files} == {"train_1.json", "dev_1.json", "test_public.json"}
    recipe, _ = plan("prompt:tiny", str(tmp_path), None, False, {"data.fold": 7})
    with pytest.raises(CanonError, match="fold = 7; its folds: 0, 1"):
        read_data(recipe)
    recipe, _ = plan("prompt:tiny", str(tmp_path / "train_0.json"), None, False, {"data.fold": 1})
    with pytest.raises(CanonError, match=r"is one file, without data\.fold = 1"):
        read_data(recipe)


def test_demonstrations_train_and_predict(bert: Path, tmp_path: Path) -> None:
    more = {"data__template": "{text} {mask} {demos}", "data__shots": 8, "data__limit": 0, "data__demo_draws": 3}
    run = fit(tmp_path / "run", settings(bert, 6, data__demo_encoder="tokens", **more))
    assert canon.load(run.path).evaluate() == json.loads((run.path / "result.json").read_text())["scores"]["test"]
    read = read_data(run.recipe, run.path)
    assert read.splits["test"]["input"].parts_n.tolist()[:2] == [3, 3]


def test_demonstrations_near_by_a_network_predict_and_are_evaluated(bert: Path, tmp_path: Path) -> None:
    more = {"data__template": "{text} {mask} {demos}", "data__shots": 8, "data__limit": 0, "data__demo_draws": 3}
    encoder = tmp_path / "encoder"
    shutil.copytree(bert, encoder, symlinks=True)
    run = fit(tmp_path / "run", settings(bert, 2, data__demo_encoder=str(encoder), **more))
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\nforty two,even\nthirty nine,odd\n")
    model = canon.load(run.path)
    assert model.evaluate() == json.loads((run.path / "result.json").read_text())["scores"]["test"]
    shown = model.predict("forty two", text=True)[0]
    assert shown["prediction"] in ("even", "odd") and 0 <= model.evaluate(texts)["accuracy"] <= 1
    # The vectors of other texts are those of training: a text of the test part is shown the same examples.
    schema = model.schema
    rows = TextRows("", str, ["forty two"], None)
    wanted = schema.demonstrations().drawn(rows)
    vectors, sha256 = vectors_of(str(encoder))
    near = vectors(["forty two"]) @ vectors(list(schema.demos[0])).T
    for code, name in enumerate(schema.classes):
        of_class = [i for i, label in enumerate(schema.demos[2]) if label == name and schema.demos[0][i] != "forty two"]
        half = sorted(of_class, key=lambda i: -near[0, i])[: -(-len(of_class) // 2)]
        assert set(wanted[0, :, code]) <= set(half)
    shutil.rmtree(encoder)
    pretrain("bert", encoder, **{"train.seed": 9, "train.steps": 1})
    find.cache_clear()
    with pytest.raises(CanonError, match=f"network with sha256 {sha256}, but .*: restore it"):
        canon.load(run.path).predict("forty two", text=True)


def test_soft_labels_are_the_closed_form(bert: Path, tmp_path: Path) -> None:
    scores = [torch.tensor([[1.0, 3.0]]), torch.tensor([[2.0, 0.0]])]
    wanted = torch.tensor([[(1 * 1 + 3 * 2) / (2 * 4), (1 * 3 + 3 * 0) / (2 * 4)]]).softmax(1)
    torch.testing.assert_close(soften(scores, [1.0, 3.0], 2.0), wanted)
    runs = [fit(tmp_path / str(seed), settings(bert, 20, train__seed=seed)).path for seed in (0, 1)]
    texts = tmp_path / "texts.csv"
    texts.write_text(
        "text\n"
        + "\n".join(f"{tens} {ones}" for tens in ("twenty", "thirty") for ones in ("one", "two", "three", "four"))
    )
    done = distill(runs, texts, tmp_path / "soft.jsonl", weights="accuracy")
    assert done["texts"] == 8 and all(0 <= share <= 1 for share in done["weights"].values())
    rows = [json.loads(line) for line in (tmp_path / "soft.jsonl").read_text().splitlines()]
    models = [canon.load(run) for run in runs]
    uniform = distill(runs, texts, tmp_path / "u.jsonl")
    first = json.loads((tmp_path / "u.jsonl").read_text().splitlines()[0])
    from canon.use.distill import scores_of

    mean = sum(scores_of(model, texts)[0] for model in models) / 2
    assert uniform["temperature"] == 2.0
    np.testing.assert_allclose([first["p(even)"], first["p(odd)"]], (mean / 2).softmax(0).numpy(), atol=1e-5)
    student = train(
        "finetune",
        str(tmp_path / "soft.jsonl"),
        tmp_path / "student",
        changes={
            "train.init": str(bert),
            "train.steps": 30,
            "train.batch": 4,
            "data.valid": str(tmp_path / "soft.jsonl"),
            "train.device": "cpu",
            "data.test": 0.25,
        },
        quiet=True,
    )
    columns = read_data(student.recipe, student.path).splits["train"]
    assert columns["soft"].shape[1] == 2 and len(rows) == 8
    losses = [row["train/loss"] for row in student.metrics() if "train/loss" in row]
    assert losses[-1] < losses[0]


# Mistakes


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data.template": "{text}"}, "no {mask}"),
        ({"data.template": "{mask} {text} {mask}"}, "2 groups"),
        ({"data.template": "{review} {mask}", "data.features": ["text"]}, "not a column"),
        ({"data.words": {"even": ["two"]}}, 'no word for the class "odd"'),
        ({"data.words": {"even": ["two"], "odd": ["two"]}}, "is the word of even and of odd"),
        ({"data.words": {"even": ["zebra"], "odd": ["two"]}}, "not in the tokenizer"),
        ({"data.words": "{一 = 2}"}, "other characters than ASCII letters in quotes"),
        ({"data.template": "{text} {trigger:2} {mask}"}, "hard-prompt searches"),
        ({"data.template": "{text} " + "one " * 600 + "{mask}"}, "beside its columns"),
        ({"data.shots": 10_000, "data.limit": 0}, "data.shots = 10000 needs"),
        ({"system.prefix_decoder": True}, "is for T5"),
        ({"system.frozen": True, "train.init": ""}, "give one"),
        ({"system.frozen": True}, "system.frozen leaves nothing to train"),
    ],
)
def test_mistakes_are_one_sentence(changes: dict[str, Any], sentence: str, bert: Path, tmp_path: Path) -> None:
    with pytest.raises(CanonError) as mistake:
        fit(tmp_path / "run", {**settings(bert), **changes})
    assert sentence in str(mistake.value) and not (tmp_path / "run").exists()


def test_a_backbone_without_its_head_is_refused(bert: Path, tmp_path: Path) -> None:
    tuned = train(
        "finetune",
        str(SENTENCES),
        tmp_path / "tuned",
        changes={"train.init": str(bert), "train.steps": 2, "train.device": "cpu"},
        quiet=True,
    )
    with pytest.raises(CanonError, match="has no masked-LM head"):
        fit(tmp_path / "run", settings(tuned.path))


# Looking inside


def test_the_tokens_that_a_prompt_is_nearest_to(bert: Path, tmp_path: Path) -> None:
    """A soft token that begins as a word, and hardly learns, is nearest to that word."""
    template = '{soft:"two one"}{text} {mask}'
    more = {"data__template": template, "system__reparametrise": False, "optimizer__lr": 1e-30}
    run = fit(tmp_path / "run", settings(bert, 1, system__frozen=True, **more))
    rows = nearest(run.path, top=2)
    assert [row["piece"] for row in rows] == ["soft 1", "soft 2"]
    assert [row["nearest"][0]["token"] for row in rows] == ["two", "one"]
    assert rows[0]["nearest"][0]["cosine"] == pytest.approx(1, abs=1e-5) and len(rows[0]["nearest"]) == 2
    write_report(run)
    page = (run.path / "report.html").read_text()
    assert "Tokens of the prompt" in page and "two (1.00)" in page
    searched = fit(tmp_path / "hard", settings(bert, 2, data__template="{text} {trigger:2} {mask}"), "hard-prompt")
    assert [row["piece"] for row in nearest(searched.path)] == ["trigger 1", "trigger 2"]
