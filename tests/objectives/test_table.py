"""The table of objectives: every record is whole, can be built and has an oracle; recipes choose from it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from canon import recipe as recipes
from canon.config import parse
from canon.errors import CanonError
from canon.objectives.choosing import choose, default, fitting
from canon.objectives.table import OBJECTIVES, by_name
from canon.registry import SYSTEMS, find
from canon.tasks.table import TASKS

ROOT = Path(__file__).parents[2]
RANKS = "tests/objectives/test_rank_losses.py"
# Of every objective, a test that compares it with another implementation, a closed form or brute force.
ORACLES = {
    "cross-entropy": "tests/objectives/test_classification.py::test_cross_entropy_equals_a_loop_and_torch",
    "logistic": "tests/objectives/test_margin.py::test_logistic_is_binary_cross_entropy_and_hinge_is_torchs",
    "hinge": "tests/objectives/test_margin.py::test_logistic_is_binary_cross_entropy_and_hinge_is_torchs",
    "exponential": "tests/objectives/test_margin.py::test_multiclass_exponential_equals_a_loop_and_is_the_binary_loss_"
    "for_two_classes",
    "squared": "tests/objectives/test_regression.py::test_equals_torch",
    "absolute": "tests/objectives/test_regression.py::test_equals_torch",
    "nt-xent": "tests/objectives/test_contrastive.py::test_nt_xent_equals_a_loop",
    "cpc": "tests/objectives/test_contrastive.py::test_cpc_equals_a_loop",
    "mnrl": "tests/objectives/test_sentences.py::test_mnrl_is_that_of_sentence_transformers",
    "simcse": "tests/objectives/test_sentences.py::test_simcse_is_the_authors_formula",
    "cosent": "tests/objectives/test_sentences.py::test_cosent_is_that_of_sentence_transformers",
    "cosine": "tests/objectives/test_sentences.py::test_cosine_is_that_of_sentence_transformers",
    "triplet": "tests/objectives/test_sentences.py::test_triplet_is_that_of_torch_and_of_sentence_transformers",
    "softmax-nli": "tests/objectives/test_sentences.py::test_softmax_nli_is_cross_entropy",
    "non-saturating": "tests/objectives/test_adversarial.py::test_losses_equal_the_logarithms_of_d",
    "minimax": "tests/objectives/test_adversarial.py::test_losses_equal_the_logarithms_of_d",
    "bidirectional": "tests/systems/test_elmo.py::test_losses_by_hand_over_carried_windows",
    "masked": "tests/objectives/test_masking.py::test_the_words_are_those_of_berts_loop",
    "causal": "tests/tasks/test_pretraining.py::test_every_token_of_a_causal_text_tells_the_next_of_its_own_passage",
    "permutation": "tests/objectives/test_permutation.py::test_the_predicted_are_the_last_of_the_order",
    "corruption": "tests/objectives/test_corruption.py::test_the_papers_example",
    "prefix": "tests/objectives/test_prefix.py::test_modes_come_in_their_shares_and_read_as_they_should",
    "continual": "tests/objectives/test_continual.py::test_orders_can_be_undone",
    "finetune": "tests/tasks/test_finetune.py::test_classes_by_hand",
    "verbaliser": "tests/systems/test_prompt.py::test_masks_are_transformers",
    "negative-sampling": "tests/systems/test_word2vec.py::test_loss_is_that_of_a_direct_computation",
    "glove": "tests/systems/test_glove.py::test_the_measured_loss_is_the_papers_mean",
    "hierarchical-softmax": "tests/systems/test_word2vec.py::test_loss_is_that_of_a_direct_computation",
    "softmax": "tests/systems/test_classifier.py::test_one_step_is_the_gradients",
    "one-vs-all": "tests/systems/test_classifier.py::test_one_step_is_the_gradients",
    **dict.fromkeys(("grade-squared", "grade-logistic"), f"{RANKS}::test_pointwise_losses"),
    "grade-hinge": f"{RANKS}::test_hinges_of_grades",
    "ordinal-hinge": f"{RANKS}::test_ordinal_hinge_has_every_threshold_on_its_side",
    "pair-bpr": f"{RANKS}::test_bpr_draws_one_of_lower_grade_for_each",
    "mcrank": f"{RANKS}::test_mcrank_ranks_by_the_expected_grade",
    "cumulative-logit": f"{RANKS}::test_cumulative_logits_are_chances_of_grades",
    **dict.fromkeys(("ranknet", "pair-hinge", "pair-exponential", "rank-mix"), f"{RANKS}::test_pairwise_losses"),
    "listnet": f"{RANKS}::test_listnet_over_all_orders_of_the_first_places",
    "listmle": f"{RANKS}::test_listmle_is_the_likelihood_of_the_best_order",
    "boltzrank": f"{RANKS}::test_boltzrank_weighs_rankings_by_all_pairs",
    **dict.fromkeys(("softrank", "approxndcg"), f"{RANKS}::test_approxndcg_and_softrank"),
    "lambdarank": f"{RANKS}::test_lambdarank_weighs_pairs_by_what_their_exchange_changes",
    "xe-ndcg": "tests/systems/test_ranking_others.py::test_xe_ndcg_is_a_cross_entropy",
    **dict.fromkeys(
        ("exponential-measure", "lost-measure", "rank-error", "disorder"),
        "tests/systems/test_ranking_others.py::test_losses_by_hand",
    ),
    "map-hinge": "tests/systems/test_ranking_svm.py::test_svm_map_finds_the_worst_ranking_of_all",
    "ndcg-hinge": "tests/systems/test_ranking_svm.py::test_svm_ndcg_finds_the_worst_ranking_of_all",
    "bpr": "tests/systems/test_bpr.py::test_a_step_is_the_gradient_by_finite_differences",
    **dict.fromkeys(
        ("logistic-events", "squared-ratings"),
        "tests/systems/test_mf.py::test_a_step_is_the_gradient_by_finite_differences",
    ),
    "weighted-squares": "tests/systems/test_ials.py::test_rows_fulfil_the_normal_equations",
    "shared-users": "tests/systems/test_item_knn.py::test_neighbours_and_scores_are_those_of_dense_matrices",
    "popularity": "tests/systems/test_item_knn.py::test_popular_counts",
    "likelihood": "tests/systems/test_ngram.py::test_perplexity_and_likeliest_word_by_brute_force",
    "bellman": "tests/systems/test_planning.py::test_values_solve_the_linear_program",
    "temporal-difference": "tests/systems/test_tabular.py::test_a_transition_is_learned_from_by_the_formula",
    "huber-temporal-difference": "tests/systems/test_dqn.py::test_loss_and_gradients_are_those_of_stable_baselines3",
    "policy-gradient": "tests/systems/test_reinforce.py::test_the_mean_over_all_trajectories_is_the_exact_gradient",
    "importance-sampling": "tests/systems/test_evaluation.py::test_ordinary_and_per_decision_are_unbiased",
}
BY_NAME = by_name()
PAIRS = [(own.name, task) for own in OBJECTIVES for task in own.tasks]


@pytest.mark.parametrize("own", OBJECTIVES, ids=lambda own: own.name)
def test_every_record_is_whole(own) -> None:
    assert own.title and own.formula and re.search(r"\b(1[789]|20)\d\d\b", own.paper), "title, formula and paper"
    assert own.outputs and own.tasks and set(own.tasks) <= set(TASKS)
    file, _, test = ORACLES[own.name].partition("::")
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
    assert not any(set(own.shapes) - {f.name for f in fields(settings)} for settings in own.tasks.values())


@pytest.mark.parametrize(("name", "task"), PAIRS)
def test_settings_have_defaults_and_descriptions_and_build_what_computes_it(name: str, task: str) -> None:
    settings = parse(BY_NAME[name].tasks[task], {}, "objective")
    for own in fields(settings):
        assert own.default.description  # type: ignore[union-attr]
    if BY_NAME[name].module:
        assert BY_NAME[name].load()(settings).settings is settings


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_system_has_an_objective_that_fits_and_its_settings_parse(system) -> None:
    fit = fitting(system)
    assert fit[0] == system.objective and all(system.task in BY_NAME[name].tasks for name in fit)
    for preset in system.presets:
        chosen = choose(system, preset, {}, {})
        own = {**system.objective_settings, **system.presets[preset].get("objective", {})}
        assert chosen.name in fit and (chosen.name == system.objective or system.loop == "learner")
        assert {key: getattr(chosen.settings, key) for key in own} == own


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_system_and_its_objective_agree_on_their_defaults(system) -> None:
    """A setting that the objective decides has one default, whether a recipe or Python makes the network."""
    for preset in ("", *system.presets):
        config, own = system.configure(preset, {}), choose(system, preset, {}, {})
        known = {f.name for f in fields(config)}
        decided = {key: getattr(own.settings, key) for key in own.record.shapes} | dict(own.record.decides)
        assert {key: getattr(config, key) for key in decided if key in known} == {
            key: value for key, value in decided.items() if key in known
        }


def test_names_are_unique_and_reading_the_table_imports_no_torch() -> None:
    assert len(BY_NAME) == len(OBJECTIVES) and ORACLES.keys() == BY_NAME.keys()
    code = "import canon.objectives.table, canon.objectives.choosing, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_what_fits() -> None:
    classification = ("cross-entropy", "logistic", "hinge", "exponential")
    assert set(fitting(find("mlp")[0])) == set(classification) == set(fitting(find("linear-svm")[0]))
    assert fitting(find("linear-svm")[0])[0] == "hinge"
    assert set(fitting(find("fasttext-classifier")[0])) == {
        "softmax", "hierarchical-softmax", "one-vs-all", "negative-sampling"
    }  # fmt: skip
    assert fitting(find("glove")[0]) == ("glove",) and len(fitting(find("word2vec")[0])) == 2
    assert fitting(find("adaboost")[0]) == ("exponential",)  # it learns by its own rule
    assert fitting(find("bert")[0]) == ("masked",) and fitting(find("gpt2")[0]) == ("causal",)
    assert fitting(find("rnn-lm")[0]) == ("cross-entropy",) and fitting(find("ngram")[0]) == ("likelihood",)
    assert set(fitting(find("gan")[0])) == {"non-saturating", "minimax"}


def test_the_list_of_objectives(canon) -> None:
    rows = json.loads(canon("list", "objectives", "--json").out)
    assert [row["objective"] for row in rows] == [own.name for own in OBJECTIVES]
    hinge = next(row for row in rows if row["objective"] == "hinge")
    assert hinge["tasks"] == "classification" and hinge["settings"] == "class_weights, margin"
    assert "max(0, m − y f)" in hinge["formula"] and "Cortes" in hinge["paper"]
    assert "cross-entropy" in canon("list", "objectives").out


# Recipes


def chosen(name: str, **changes: Any) -> recipes.Recipe:
    return recipes.load(name, changes={key.replace("__", "."): value for key, value in changes.items()})


def test_a_recipe_chooses_an_objective_and_says_where_each_setting_came_from(tmp_path: Path) -> None:
    own = chosen("sequence/pronounce")
    assert own.objective.settings.label_smoothing == 0.0
    assert '[objective]\nname = "cross-entropy"  # default\nlabel_smoothing = 0.0  # recipe' in own.to_toml()
    other = chosen("transformer:big")
    assert other.objective.settings.label_smoothing == 0.1
    assert "label_smoothing = 0.1  # system transformer" in other.to_toml()
    assert "temperature = 0.1  # preset tiny" in chosen("simclr:tiny").to_toml()
    weights = {"left out": 2.0, "b": 1.0}
    mine = chosen("mlp", objective__class_weights=weights, objective__label_smoothing=0.1)
    (tmp_path / "recipe.toml").write_text(mine.to_toml(), encoding="utf-8")
    again = recipes.load(str(tmp_path / "recipe.toml"))
    assert again.objective == mine.objective and again.objective.settings.class_weights == weights
    assert again.origins["objective.label_smoothing"] == "--set" and not mine.expected()


def test_another_name_drops_the_other_objectives_settings_in_any_order(tmp_path: Path) -> None:
    first = {"objective.margin": 2.0, "objective.name": "hinge"}
    for changes in (first, dict(reversed(first.items()))):
        own = recipes.load("mlp", changes=changes)
        assert own.objective.name == "hinge" and own.objective.settings.margin == 2.0
    file = tmp_path / "own.toml"
    text = "[system]\nname = 'mlp:tiny'\n[objective]\nlabel_smoothing = 0.2\n[train]\nepochs = 1\n"
    file.write_text(text, encoding="utf-8")
    assert recipes.load(str(file), changes={"objective.name": "logistic"}).objective.name == "logistic"
    same = recipes.load(str(file), changes={"objective.name": "cross-entropy"})
    assert same.objective.settings.label_smoothing == 0.2
    other = recipes.load(str(file), changes={"objective.name": "hinge", "system.name": "lenet:tiny"})
    assert other.objective.name == "hinge" and other.system.name == "lenet"


SENTENCES = {
    ("bert", "objective.name", "causal"): 'objective.name = "causal" does not fit bert, whose task is pretraining; '
    "what fits: masked.",
    ("linear-regression", "objective.name", "hinge"): 'objective.name = "hinge" does not fit linear-regression, whose '
    "task is regression; what fits: squared, absolute.",
    ("adaboost", "objective.name", "hinge"): 'objective.name = "hinge" does not fit adaboost, whose task is '
    "classification; what fits: exponential.",
    ("mlp", "objective.name", "hing"): 'No objective "hing"; did you mean hinge?',
    ("mlp", "objective.smoothing", 0.1): 'The objective cross-entropy of mlp has no setting "objective.smoothing"; it '
    "has: class_weights, threshold, label_smoothing.",
    ("gpt", "objective.mask_share", 0.1): 'The objective causal of gpt has no setting "objective.mask_share"; it has '
    "none.",
    ("adaboost", "objective.class_weights", "balanced"): "The objective exponential of adaboost has no setting "
    '"objective.class_weights"; it has none.',
    ("mlp", "objective.class_weights", "heavy"): 'objective.class_weights must be "none", "balanced" or a table of '
    "positive weights by class name, as in { spam = 2.0, ham = 1.0 }, got 'heavy'.",
    ("mlp", "system.label_smoothing", 0.1): "system.label_smoothing is a setting of the objective: write "
    "objective.label_smoothing instead.",
    ("simclr", "system.temperature", 0.1): "system.temperature is a setting of the objective: write "
    "objective.temperature instead.",
    ("gan", "system.loss", "minimax"): 'system.loss is the objective: write objective.name = "minimax" instead.',
    ("word2vec", "system.loss", "hierarchical-softmax"): "system.loss is 'hierarchical-softmax' (from --set), but the "
    'objective decides it: write objective.name = "hierarchical-softmax" instead.',
    ("fasttext", "system.negatives", 7): "system.negatives is 7 (from --set), but the objective decides it: write "
    "objective.negatives instead.",
    ("glove", "objective.name", "negative-sampling"): 'objective.name = "negative-sampling" does not fit glove, whose '
    "task is word-vectors; what fits: glove.",
    ("word2vec", "objective.negatives", 0): "objective.negatives must be a positive whole number, got 0 (from --set).",
    ("bert", "system.next_sentence", False): "system.next_sentence is False (from --set), but the objective decides "
    "it: write objective.next_sentence instead.",
    ("roberta", "objective.next_sentence", True): "objective.next_sentence is True, but roberta has no part for it: "
    "leave it out.",
}


@pytest.mark.parametrize(("name", "key", "value"), SENTENCES)
def test_mistakes_are_one_sentence(name: str, key: str, value: object) -> None:
    with pytest.raises(CanonError) as mistake:
        recipes.load(name, changes={key: value})
    assert str(mistake.value) == SENTENCES[name, key, value]


def test_the_objective_decides_the_parts_of_a_network(tmp_path: Path) -> None:
    own = chosen("bert:tiny", objective__next_sentence=False)
    assert own.config.next_sentence is False and "next_sentence = false  # the objective" in own.to_toml()
    (tmp_path / "recipe.toml").write_text(own.to_toml(), encoding="utf-8")
    again = recipes.load(str(tmp_path / "recipe.toml"))
    assert again.config == own.config
    back = recipes.load(str(tmp_path / "recipe.toml"), changes={"objective.next_sentence": True})
    assert back.config.next_sentence is True
    assert chosen("ernie2:tiny", objective__tasks=["masked", "order"]).config.tasks == ("masked", "order")


def test_the_objective_decides_what_a_learner_lowers(tmp_path: Path) -> None:
    own = chosen("fasttext-classifier:tags")
    assert own.config.loss == "one-vs-all" and own.objective.name == "one-vs-all"
    assert 'name = "one-vs-all"  # preset tags' in own.to_toml()
    (tmp_path / "recipe.toml").write_text(own.to_toml(), encoding="utf-8")
    assert recipes.load(str(tmp_path / "recipe.toml")).config == own.config
    other = chosen("fasttext-classifier:tags", objective__name="negative-sampling", objective__negatives=7)
    assert other.config.loss == "negative-sampling" and other.config.negatives == 7
    assert default(other.system, other.config) == other.objective
    tree = chosen("word2vec:tiny", objective__name="hierarchical-softmax")
    assert tree.config.loss == "hierarchical-softmax" and default(tree.system, tree.config).name == tree.objective.name


# One network, every objective of its task


@pytest.mark.parametrize("objective", ["cross-entropy", "logistic", "hinge", "exponential"])
def test_one_network_learns_by_every_objective_of_classification(objective: str, canon, tmp_path: Path) -> None:
    """The name alone is changed: every one learns the digits, and predicts probabilities where it has some."""
    from sklearn.datasets import load_digits

    from canon.training.trainer import train
    from canon.use.model import load

    # The exponential loss compares the right class with the mean of the others, not with the best of them.
    least = {"exponential": 0.8}.get(objective, 0.93)
    changes = {"objective.name": objective, "train.epochs": 10, "train.seed": 1}
    run = train("linear/digits-mlp", out=tmp_path / "run", changes=changes, quiet=True)
    assert run.result is not None and run.result["scores"]["test"]["accuracy"] > least
    images, labels = load_digits(return_X_y=True)
    rows = load(run.path).predict(images[:200].reshape(-1, 1, 8, 8).astype("uint8"), top=10)
    assert sum(row["prediction"] == str(label) for row, label in zip(rows, labels[:200], strict=True)) > 200 * least
    score = "probability" if objective in ("cross-entropy", "logistic") else "score"
    values = torch.tensor([[one[score] for one in row["top"]] for row in rows])
    assert values.shape == (200, 10)
    if objective == "cross-entropy":
        torch.testing.assert_close(values.sum(1), torch.ones(200))


def test_one_output_for_two_classes_is_read_by_every_objective(tmp_path: Path) -> None:
    """Cross-entropy of the logits (0, f) is the logistic loss of f: the same run to the last digits but rounding."""
    from canon.training.trainer import train

    scores = {}
    for objective in ("cross-entropy", "logistic", "hinge", "exponential"):
        changes = {"objective.name": objective, "train.epochs": 30}
        run = train("linear/cancer-logistic", out=tmp_path / objective, changes=changes, quiet=True)
        assert run.result is not None
        scores[objective] = run.result["scores"]["test"]
        assert scores[objective]["accuracy"] > 0.9 and scores[objective]["auc"] > 0.95
    assert scores["cross-entropy"] == pytest.approx(scores["logistic"], rel=1e-4)
