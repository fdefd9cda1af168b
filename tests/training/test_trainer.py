"""The trainer's rules: global batch, several optimisers, groups, precision, stopping, links, files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from canon import recipe as recipes
from canon import registry
from canon.contracts import World
from canon.data.batching.sequences import Ragged
from canon.data.schema import some
from canon.errors import CanonError
from canon.objectives import table as objectives
from canon.report import facts
from canon.runs import checkpoint
from canon.tasks import table as tasks
from canon.tasks.records import TASK_RECORDS
from canon.training import devices, trainer
from canon.training.plan import build
from canon.training.run import Run
from canon.training.trainer import train
from tests.training import duel
from tests.training.test_interruption import SHORT, assert_same_end, fit


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.path / "last" / "model.safetensors")


def logged(run: Run, name: str) -> list[float]:
    return [row[name] for row in run.metrics() if name in row]


def test_micro_batches_make_the_same_step(tmp_path: Path) -> None:
    """Accumulated in pieces of 10, 10, 10, 2, against one piece of 32; without dropout, whose noise is per piece."""
    whole = fit(tmp_path / "whole", system__dropout=0.0)
    pieces = fit(tmp_path / "pieces", system__dropout=0.0, train__micro_batch=10)
    for one, other in zip(logged(whole, "train/loss"), logged(pieces, "train/loss"), strict=True):
        assert math.isclose(one, other, rel_tol=1e-5)


def test_the_logged_loss_is_the_mean_over_targets(tmp_path: Path) -> None:
    """The first logged loss against a network with the same first weights, run by hand on the same batches."""
    run = fit(tmp_path / "run", train__steps=1, train__log_every=1)
    recipe = run.recipe
    training = trainer.Trainer(recipe, tmp_path / "again", trainer.enter_world(recipe.train), quiet=True)
    training.learner.begin(training.data, recipe.train.batch, training.total)
    devices.seed_step(recipe.train.seed, 1, 0, torch.device("cpu"))
    ((batch, _),) = training.learner.loader.next()
    by_hand = torch.nn.functional.cross_entropy(training.learner.network(batch["input"]), batch["target"])
    assert math.isclose(logged(run, "train/loss")[0], by_hand.item(), rel_tol=1e-6)


@pytest.fixture
def duel_recipe(monkeypatch: pytest.MonkeyPatch) -> recipes.Recipe:
    monkeypatch.setattr(registry, "SYSTEMS", (*registry.SYSTEMS, duel.SYSTEM))
    monkeypatch.setitem(tasks.TASKS, "turn-taking", duel.TurnTaking)
    monkeypatch.setitem(TASK_RECORDS, "turn-taking", TASK_RECORDS["classification"])
    monkeypatch.setattr(objectives, "OBJECTIVES", (*objectives.OBJECTIVES, duel.OBJECTIVE))
    table = {
        "system": {"name": "duel"},
        "data": {"source": "digits", "limit": 200},
        "train": {key.removeprefix("train."): value for key, value in SHORT.items()},
        "optimizer": {"name": "adam", "lr": 0.01},
        "optimizers": {"head": {"name": "sgd", "lr": 0.05, "momentum": 0.9}},
    }
    return recipes.build(table, "duel", {})


def fit_duel(recipe: recipes.Recipe, out: Path) -> trainer.Trainer:
    training = trainer.Trainer(recipe, out, trainer.enter_world(recipe.train), quiet=True)
    training.fit()
    return training


def test_each_phase_has_its_own_optimiser_parameters_and_batch(duel_recipe: recipes.Recipe, tmp_path: Path) -> None:
    training = fit_duel(duel_recipe, tmp_path / "run")
    kinds = [type(phase.optimizer).__name__ for phase in training.learner.phases]
    assert kinds == ["Adam", "SGD"], "two turns of one phase share its optimiser"
    assert training.learner.phases[0].names == ["body.1.weight", "body.1.bias"]
    assert training.learner.loader.position > 0
    row = training.run.metrics()[0]
    assert row["train/lr/body"] == 0.01 and row["train/lr/head"] == 0.05
    state = json.loads((tmp_path / "run" / "last" / "state.json").read_text())
    assert state["learner"]["position"] == 3 * 30, "one batch for each phase of each step"
    losses = logged(training.run, "valid/loss")
    assert losses[-1] < 0.8 * losses[0]


def test_a_phase_changes_only_its_own_parameters(duel_recipe: recipes.Recipe, tmp_path: Path) -> None:
    recipe = duel_recipe.fitted({"shape": (1, 8, 8)}).resolved(200)
    training = trainer.Trainer(recipe, tmp_path / "run", trainer.enter_world(recipe.train), quiet=True)
    training.learner.begin(training.data, recipe.train.batch, training.total)
    before = {name: p.detach().clone() for name, p in training.learner.network.named_parameters()}
    training.learner.run(training.learner.phases[1])
    changed = {n for n, p in training.learner.network.named_parameters() if not torch.equal(p, before[n])}
    assert changed == {"head.weight", "head.bias"}
    assert all(p.grad is None for p in training.learner.network.parameters()), "no gradient is left for the next phase"


def test_resume_is_exact_with_several_optimisers(duel_recipe: recipes.Recipe, tmp_path: Path) -> None:
    fit_duel(duel_recipe, tmp_path / "whole")
    fit_duel(duel_recipe, tmp_path / "parts")
    (tmp_path / "parts" / "result.json").unlink()
    for path in list(checkpoint.newest_first(tmp_path / "parts" / "checkpoints"))[:2]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    fit_duel(recipes.load(str(tmp_path / "parts" / "recipe.toml")), tmp_path / "parts")
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_groups_have_their_own_rates_and_zero_freezes(tmp_path: Path) -> None:
    groups = [{"match": "output.*", "lr": 0.0}, {"match": "*.bias", "weight_decay": 0.0}]
    changes = {**SHORT, "optimizer.groups": groups}
    run = train("linear/digits-mlp", out=tmp_path / "run", changes={**changes, "train.steps": 4}, quiet=True)
    start = build(run.recipe, run.schema, World())[0].network.state_dict()
    end = weights(run)
    assert torch.equal(start["output.weight"], end["output.weight"])
    assert not torch.equal(start["layers.1.0.weight"], end["layers.1.0.weight"])
    assert not any("output" in key for key in load_file(run.path / "last" / "optimizer.safetensors"))


def test_a_pattern_that_matches_nothing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r'no parameter of the network matches "heads\.\*"'):
        fit(tmp_path / "run", optimizer__groups=[{"match": "heads.*", "lr": 0.1}])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_learns_and_keeps_float32_weights(precision: str, tmp_path: Path) -> None:
    run = fit(tmp_path / "run", train__precision=precision, train__steps=60)
    assert all(tensor.dtype == torch.float32 for tensor in weights(run).values())
    assert logged(run, "valid/accuracy")[-1] > 0.8
    exact = fit(tmp_path / "exact", train__steps=60)
    assert logged(run, "train/loss") != logged(exact, "train/loss"), "the arithmetic was another"


def test_float16_resumes_exactly_with_its_loss_scale(tmp_path: Path) -> None:
    fit(tmp_path / "whole", train__precision="float16")
    fit(tmp_path / "parts", train__precision="float16")
    (tmp_path / "parts" / "result.json").unlink()
    newest = next(checkpoint.newest_first(tmp_path / "parts" / "checkpoints"))
    (newest / "state.json").write_text("")
    fit(tmp_path / "parts", resume=True)
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_clipping_bounds_the_norm_and_logs_it(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", train__clip=0.01, train__steps=4, optimizer__name="sgd", optimizer__lr=1.0)
    assert min(logged(run, "train/gradient_norm")) > 0.01, "the norm before clipping is what is logged"
    first = build(run.recipe, run.schema, World())[0].network.state_dict()
    moved = math.sqrt(sum(float((weights(run)[key] - first[key]).square().sum()) for key in first))
    assert moved <= 4 * 0.01 * 1.0001, "four steps of at most lr · clip"


def test_early_stopping_waits_for_patience(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", train__steps=2000, train__patience=3, optimizer__lr=1e-12)
    assert run.result is not None
    assert run.result["ended"].startswith("no better accuracy in 3 evaluations")
    assert run.result["steps"] == 20, "the first evaluation is the best, then three without a better one"


def test_a_short_run_scores_no_more_of_the_training_set_than_it_learned_from(tmp_path: Path) -> None:
    """But a thousand; a run of an epoch or more scores all of it. The rows come from all over the set."""
    runs = [
        train("linear/digits-softmax", out=tmp_path / str(steps), changes={"train.steps": steps}, quiet=True)
        for steps in (2, 100)
    ]
    training = trainer.Trainer(runs[0].recipe, runs[0].path, devices.enter_world(runs[0].recipe.train), quiet=True)
    columns = training.data.splits["train"]
    assert [run.result["risk_examples"] for run in runs if run.result] == [1000, len(columns["target"])]
    assert runs[0].result is not None
    training.keeper.restore_best(training.learner)
    scored = training.task.score(training.learner.outputs(some(columns, 1000)), some(columns, 1000))
    assert scored["loss"] == pytest.approx(runs[0].result["scores"]["train"]["loss"], rel=1e-6)
    rows = [row for row in facts.gather(runs[0])["scores"] if row["split"] == "train"]
    assert {row["examples"] for row in rows} == {1000}


def test_best_and_last_point_where_they_say(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", train__steps=60)
    values = {row["step"]: (row["valid/accuracy"], -row["valid/loss"]) for row in run.metrics() if "valid/loss" in row}
    best = max(values, key=lambda step: values[step])
    assert (run.path / "best").resolve().name == f"step-{int(best):08d}"
    assert (run.path / "last").resolve().name == "step-00000060"
    kept = {path.name for path in run.checkpoints.iterdir()}
    assert len(kept - {f"step-{int(best):08d}"}) <= 3, "train.keep newest, and the best"


def test_the_seed_decides_everything(tmp_path: Path) -> None:
    first, again = fit(tmp_path / "first"), fit(tmp_path / "again")
    assert_same_end(first.path, again.path)
    other = fit(tmp_path / "other", train__seed=1)
    assert logged(other, "train/loss") != logged(first, "train/loss")


def test_a_longer_budget_goes_on_from_the_end(tmp_path: Path) -> None:
    fit(tmp_path / "run")
    run = train(out=tmp_path / "run", resume=True, changes={"train.steps": 40}, quiet=True)
    assert run.result is not None and run.result["steps"] == 40
    assert [row["step"] for row in run.metrics() if "train/loss" in row] == list(range(2, 41, 2))


def test_what_decided_the_run_cannot_change_on_resume(tmp_path: Path) -> None:
    fit(tmp_path / "run")
    with pytest.raises(CanonError, match=r"optimizer\.lr cannot change when .* is resumed; what can: train\.steps"):
        train(out=tmp_path / "run", resume=True, changes={"optimizer.lr": 1.0}, quiet=True)
    with pytest.raises(CanonError, match=r"is a run of mlp, not of softmax-regression"):
        train("softmax-regression", out=tmp_path / "run", resume=True, quiet=True)


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(tmp_path / "run")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    train(out=tmp_path / "run", resume=True)
    assert "is finished; nothing is left to do" in capsys.readouterr().err
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_the_run_directory_holds_what_the_plan_says(tmp_path: Path) -> None:
    run = fit(tmp_path / "run", train__tensorboard=True)
    files = ("recipe.toml", "data.json", "env.json", "metrics.jsonl", "timing.jsonl", "log.txt", "result.json")
    for name in (*files, "vocab/schema.json"):
        assert (run.path / name).stat().st_size > 0, name
    assert list((run.path / "tensorboard").glob("events*"))
    timing = run.timings()[-1]
    assert timing["examples_per_second"] > 0 and 0 < timing["share_of_peak"] < 2 and timing["memory_bytes"] > 1e7
    assert not list(run.path.rglob("*.pkl")) and not list(run.path.rglob("*.pt"))


def test_risks_have_their_names(tmp_path: Path) -> None:
    """Empirical: mean training loss; structural: with the regulariser; generalisation: mean test loss."""
    changes = {"train.steps": 50, "train.device": "cpu"}
    run = train("linear/cancer-svm", out=tmp_path / "run", changes=changes, quiet=True)
    assert run.result is not None
    risk, scores = run.result["risk"], run.result["scores"]
    weight = weights(run)["output.weight"]
    penalty = 0.5 * float(weight.square().sum()) / run.recipe.config.num_examples
    assert risk["empirical"] == scores["train"]["loss"] and risk["generalization"] == scores["test"]["loss"]
    assert math.isclose(risk["structural"] - risk["empirical"], penalty, rel_tol=1e-4) and penalty > 0


def test_some_rows_of_a_split_keep_texts_and_labels_together() -> None:
    """Row i has i + 1 tokens i and label i."""
    lengths = np.arange(1, 8)
    columns = {"input": Ragged(np.repeat(np.arange(7, dtype=np.int32), lengths), lengths), "target": np.arange(7)}
    rows = some(columns, 3)
    assert rows["target"].tolist() == [0, 3, 6]
    assert [row.tolist() for row in rows["input"]] == [[0], [3] * 4, [6] * 7]


def test_expected_figures_are_beside_the_runs_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train("linear/digits-softmax", out=tmp_path / "run", changes={"train.seed": 3})
    printed = capsys.readouterr().err
    assert "train/loss" in printed and "(expected " in printed
    last = next(line for line in printed.splitlines() if line.strip().startswith("test "))
    assert "accuracy" in last and "(expected " in last


def test_a_compiled_run_learns_the_same(tmp_path: Path) -> None:
    plain = fit(tmp_path / "plain", train__steps=4, system__dropout=0.0)
    try:
        compiled = fit(tmp_path / "compiled", train__steps=4, system__dropout=0.0, train__compile="on")
    except Exception as failure:
        if "compiler" in str(failure).lower() or "InvalidCxxCompiler" in repr(failure):
            pytest.skip("needs a C++ compiler")
        raise
    for one, other in zip(logged(plain, "train/loss"), logged(compiled, "train/loss"), strict=True):
        assert math.isclose(one, other, rel_tol=1e-5)
