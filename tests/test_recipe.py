"""Recipes: what overrides what, where a value came from, and every mistake's sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from canon import recipe as recipes
from canon.config import parse_assignment
from canon.errors import CanonError
from canon.recipe import Group, Recipe

MLP = "linear/digits-mlp"


def load(*assignments: str, name: str = MLP, data: str = "") -> Recipe:
    return recipes.load(name, data, dict(map(parse_assignment, assignments)))


def written(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


# Mistakes. {set}: the --set that is wrong; the sentence, word for word.
MISTAKES = {
    "train.stepz=5": 'No setting "train.stepz"; did you mean train.steps?',
    "train.steps=-5": "train.steps must be a positive whole number, got -5 (from --set).",
    "train.steps=0": "train.steps must be a positive whole number, got 0 (from --set).",
    "train.steps=2.5": "train.steps must be a whole number, got 2.5 (from --set).",
    "train.steps=many": "train.steps must be a whole number, got 'many' (from --set).",
    "train.epochs=0": "train.epochs must be a positive number, got 0 (from --set).",
    "train.epochs=inf": "train.epochs must be a finite number, got inf (from --set).",
    "train.batch=-1": "train.batch must be at least 0, got -1 (from --set).",
    "train.seed=9223372036854775808": (
        "train.seed must be less than 9223372036854775808, got 9223372036854775808 (from --set)."
    ),
    "train.device=gpu": "train.device must be one of 'auto', 'cpu', 'cuda', 'mps', got 'gpu' (from --set).",
    "train.tensorboard=1": "train.tensorboard must be true or false, got 1 (from --set).",
    "data.valid=1.0": "data.valid must be less than 1.0, got 1.0 (from --set).",
    "data.size=[0, 3]": "data.size.0 must be a positive whole number, got 0 (from --set).",
    "data.labl=x": 'No setting "data.labl"; did you mean data.label?',
    "system.hiden=[3]": 'No setting "system.hiden"; did you mean system.hidden?',
    "system.hidden=[0]": "system.hidden.0 must be a positive whole number, got 0 (from --set).",
    "system.norm=instance": "system.norm must be one of 'none', 'batch', 'layer', got 'instance' (from --set).",
    "system.name=mpl": 'No system "mpl"; did you mean mlp?',
    "system.name=mlp:tinny": 'No system "mlp:tinny"; did you mean mlp:tiny?',
    "system.name=3": (
        'linear/digits-mlp: system.name is missing; it names one of `canon list systems`, as in "mlp:tiny".'
    ),
    "optimizer.name=adm": 'No optimizer "adm"; did you mean adam?',
    "optimizer.lr=0": "optimizer.lr must be a positive number, got 0 (from --set).",
    "optimizer.lr=big": "optimizer.lr must be a number, got 'big' (from --set).",
    "optimizer.betas=[0.9]": "optimizer.betas must be a list of at least 2, got [0.9] (from --set).",
    "optimizer.schedule=cosin": (
        "optimizer.schedule.name must be one of 'constant', 'linear', 'cosine', 'exponential', 'inverse-sqrt', "
        "got 'cosin' (from --set)."
    ),
    "optimizer.schedule=3": "optimizer.schedule must be a table of settings, got 3 (from --set).",
    "optimizer.schedule={name='cosine', warmup=-1}": (
        "optimizer.schedule.warmup must be at least 0, got -1 (from --set)."
    ),
    "optimizer.schedule.warmup=-1": "optimizer.schedule.warmup must be at least 0, got -1 (from --set).",
    "optimizer.schedule.warm=1": ('No setting "optimizer.schedule.warm"; did you mean optimizer.schedule.warmup?'),
    "optimizer.groups=3": 'optimizer.groups must be a list of tables, as in [{match = "output.*"}], got 3.',
    "optimizer.groups=[3]": "optimizer.groups must be a table of settings, got 3 (from --set).",
    "optimizer.groups=[{match='a', rate=1}]": ('No setting "optimizer.groups.rate"; did you mean optimizer.groups.lr?'),
    "optimizer.groups=[{match='a', lr=-1.0}]": "optimizer.groups.lr must be at least 0.0, got -1.0 (from --set).",
    "optimizers.all=3": "optimizers.all must be a table of settings, got 3.",
    "opimizer.lr=1": 'No section "opimizer"; did you mean optimizer?',
    "train=3": "--set takes section.key=value, as in --set train.steps=100; got train.",
    "train.device.x=3": "train.device must be one of 'auto', 'cpu', 'cuda', 'mps', got {'x': 3} (from recipe *).",
}


@pytest.mark.parametrize("assignment", MISTAKES)
def test_a_wrong_setting_is_its_sentence(assignment: str) -> None:
    with pytest.raises(CanonError) as caught:
        load(assignment)
    wanted = re.escape(MISTAKES[assignment]).replace(r"\*", ".+")
    assert re.fullmatch(wanted, str(caught.value)), str(caught.value)


FILES = {
    "[train]\nsteps = 3\n": 'mine: system.name is missing; it names one of `canon list systems`, as in "mlp:tiny".',
    '[system]\nname = "mlp"\n': "Neither train.steps nor train.epochs is given; add --set train.epochs=10.",
    '[system]\nname = "mlp"\n[train]\nsteps = 3\nepochs = 2\n': (
        "train.steps and train.epochs are both given; give one of them."
    ),
    '[system]\nname = "mlp"\n[train]\nsteps = -3\n': (
        "train.steps must be a positive whole number, got -3 (from recipe mine)."
    ),
    'train = 3\n[system]\nname = "mlp"\n': "train must be a table of settings, as in [train], got 3.",
    '[sistem]\nname = "mlp"\n': 'No section "sistem"; did you mean system?',
    '[system]\nname = "mlp"\n[train]\nsteps = 3\n[optimizer]\nname = "adam-then-sgd"\n': (
        "optimizer.switch_step is missing: give it in the recipe or by --set optimizer.switch_step=…."
    ),
    '[system]\nname = "mlp"\n[train]\nsteps = 3\n[optimizer]\nname = "sgd"\nnesterov = true\n': (
        "optimizer.nesterov needs optimizer.momentum above 0."
    ),
    '[system]\nname = "mlp"\n[train]\nsteps = 3\n[[optimizer.groups]]\nlr = 0.1\n': (
        "optimizer.groups.match is missing: give it in the recipe or by --set optimizer.groups.match=…."
    ),
    '[system]\nname = "mlp"\n[train]\nsteps = 3\n[expect]\n"test/accuracy" = 0.9\n': (
        'expect takes pairs of numbers, as in "test/accuracy" = [0.95, 0.97].'
    ),
    '[system]\nname = "mlp"\n[train]\nsteps = 3\n[expect.curve]\n"train/loss" = [1, 2]\n': (
        'expect.curve takes lists of [step, low, high], as in "train/loss" = [[100, 0.4, 0.5]].'
    ),
}


@pytest.mark.parametrize("text", FILES)
def test_a_wrong_file_is_its_sentence(text: str, tmp_path: Path) -> None:
    with pytest.raises(CanonError) as caught:
        recipes.load(written(tmp_path, text))
    assert str(caught.value) == FILES[text]


def test_toml_that_is_none_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match=r"mine\.toml is not valid TOML: .*line 3"):
        recipes.load(written(tmp_path, '[system]\nname = "mlp"\nhidden = 3 3\n'))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("digits-mpl", 'No recipe or system "digits-mpl"; did you mean digits-mlp?'),
        ("linear/digits-mpl", 'No recipe or system "linear/digits-mpl"; did you mean linear/digits-mlp?'),
        ("lennet", 'No recipe or system "lennet"; did you mean lenet?'),
        ("mlp:hughe", 'No system "mlp:hughe"; there are: '),
        ("absent.toml", "There is no recipe file absent.toml."),
    ],
)
def test_an_unknown_recipe_names_the_nearest(name: str, sentence: str) -> None:
    with pytest.raises(CanonError) as caught:
        recipes.load(name)
    assert str(caught.value).startswith(sentence)


# What overrides what.


def test_default_preset_recipe_data_and_set_each_override_the_one_before(tmp_path: Path) -> None:
    """One setting per layer, each given by all layers below it too."""
    path = written(
        tmp_path,
        '[system]\nname = "lenet:relu"\npooling = "mean"\n'
        '[data]\nsource = "digits"\nlabel = "x"\nvalid = 0.2\n[train]\nsteps = 5\nbatch = 7\nkeep = 4\n',
    )
    loaded = recipes.load(path, "other.csv", {"train.keep": 9, "data.seed": 3})
    assert loaded.config.num_classes == 10  # default
    assert loaded.config.activation == "relu"  # the preset over the default sigmoid
    assert loaded.config.pooling == "mean"  # the recipe over the preset's max
    assert loaded.train.batch == 7  # the recipe over the default
    assert loaded.data.source == "other.csv"  # --data over the recipe
    assert loaded.data.label == ""  # what belongs to the recipe's own file goes with it
    assert loaded.data.valid == 0.2  # what suits any source stays
    assert (loaded.train.keep, loaded.data.seed) == (9, 3)  # --set over all
    origins = {
        "system.num_classes": "default",
        "system.activation": "preset relu",
        "system.pooling": "recipe mine",
        "train.batch": "recipe mine",
        "data.source": "--data",
        "data.label": "default",
        "data.valid": "recipe mine",
        "data.seed": "--set",
        "train.keep": "--set",
    }
    assert {key: loaded.origins.get(key, "default") for key in origins} == origins


def test_set_overrides_data_and_preset() -> None:
    loaded = recipes.load("lenet:relu", "one.csv", {"data.source": "two.csv", "system.activation": "tanh"})
    assert loaded.data.source == "two.csv" and loaded.origins["data.source"] == "--set"
    assert loaded.config.activation == "tanh" and loaded.origins["system.activation"] == "--set"


def test_a_budget_by_set_replaces_the_recipes_other_kind() -> None:
    loaded = load("train.steps=5")
    assert (loaded.train.steps, loaded.train.epochs) == (5, None)
    with pytest.raises(CanonError, match=r"^train\.steps and train\.epochs are both given; give one of them\.$"):
        load("train.steps=5", "train.epochs=2")


def test_another_optimizer_takes_over_only_the_plan_of_the_rate() -> None:
    loaded = load("optimizer.name=sgd")
    assert loaded.optimizer.settings.lr == 0.01, "sgd's default, not the recipe's 0.002 for adamw"
    assert loaded.origins.get("optimizer.lr", "default") == "default"
    assert loaded.optimizer.schedule == load().optimizer.schedule
    assert load("optimizer.name=adamw").optimizer == load().optimizer


def test_a_system_name_means_its_recipe_and_a_preset_starts_from_its_settings() -> None:
    assert recipes.load("mlp").config == load().config
    tiny = recipes.load("mlp:tiny")
    assert tiny.preset == "tiny" and tiny.system_name == "mlp:tiny"
    assert tiny.config.dropout == 0.0, "the recipe's dropout belongs to its own system"
    assert not tiny.expect, "what was measured was measured with other settings"


# What is written back.


def test_toml_says_where_every_value_came_from() -> None:
    loaded = recipes.load("lenet:relu", "digits", {"train.steps": 5})
    text = loaded.to_toml()
    assert text.startswith("# vision/digits-lenet: every effective value and where it came from.\n")
    for line in (
        'name = "lenet:relu"  # recipe vision/digits-lenet',
        'activation = "relu"  # preset relu',
        "num_classes = 10  # default",
        'source = "digits"  # --data',
        "steps = 5  # --set",
        "batch = 64  # recipe vision/digits-lenet",
        "lr = 0.002  # recipe vision/digits-lenet",
    ):
        assert f"\n{line}\n" in text
    assert "epochs" not in text
    settings = [line for line in text.split("\n[expect]")[0].splitlines() if " = " in line]
    assert all("  # " in line for line in settings)


def same(one: Recipe, other: Recipe) -> None:
    for part in ("system", "preset", "config", "data", "train", "optimizer", "optimizers", "expect"):
        assert getattr(one, part) == getattr(other, part), part


STRANGE = (
    "data.label='a [ b, \"c\"  # d'",
    'data.features=["x, y", "[ z", "é\\n"]',
    "data.size=[8, 9]",
    "data.valid=held.csv",
    "train.clip=0.5",
    "optimizer.betas=[0.5, 0.75]",
    "optimizer.schedule={name='inverse-sqrt', warmup=3, dim=64}",
    'optimizer.groups=[{match="output.*", lr=0.0}, {match="*.weight", weight_decay=1e-5}]',
    "optimizers.all={lr=0.25, groups=[]}",
    "optimizers.critic={name='sgd', momentum=0.9, schedule='linear'}",
)


def test_what_is_written_reads_back_as_itself(tmp_path: Path) -> None:
    """Values that TOML, comments or our own one-line form could trip over."""
    loaded = load(*STRANGE)
    again = recipes.load(written(tmp_path, loaded.to_toml()))
    same(again, loaded)
    assert again.to_toml().count("\n") == loaded.to_toml().count("\n")


def test_an_effective_recipe_keeps_its_name_and_origins(tmp_path: Path) -> None:
    """Read back, the origins are those noted in it, not the file that it was read from."""
    loaded = load(*STRANGE, "train.steps=5")
    again = recipes.load(written(tmp_path, loaded.to_toml()))
    same(again, loaded)
    assert again.name == MLP
    for key in ("train.steps", "train.batch", "data.label", "system.shape", "optimizer.lr", "optimizer.schedule"):
        assert again.origins.get(key, "default") == loaded.origins.get(key, "default"), key
    assert again.to_toml() == loaded.to_toml()
    assert again.expected() == {}, "what --set changed then is still changed"


# Sizes, intervals and expectations.


def test_the_data_decides_sizes_and_a_contradiction_is_reported() -> None:
    sizes: dict[str, Any] = {"shape": (30,), "num_classes": 3, "unheard_of": 1}
    fitted = load().fitted(sizes)
    assert (fitted.config.shape, fitted.config.num_classes) == ((30,), 3)
    assert fitted.origins["system.shape"] == "the data"
    assert load("system.num_classes=3").fitted(sizes).config.num_classes == 3
    with pytest.raises(CanonError) as caught:
        load("system.num_classes=7").fitted(sizes)
    assert str(caught.value) == "system.num_classes is 7 (from --set), but the data has 3: leave it out."
    assert fitted.fitted({"shape": (8,)}).config.shape == (8,), "what the data said, other data may say otherwise"


def test_intervals_are_worked_out_from_the_budget() -> None:
    result = load("train.epochs=40").resolved(1294)
    total = 809  # ⌈40 · 1294 / 64⌉
    assert result.total_steps(1294) == total
    assert (result.train.log_every, result.train.evaluate_every, result.train.checkpoint_every) == (10, 40, 40)
    assert result.origins["train.log_every"] == "worked out"
    long = load("train.steps=5000", "train.evaluate_every=7").resolved(1294)
    assert (long.train.log_every, long.train.evaluate_every, long.train.checkpoint_every) == (50, 7, 7)
    assert load("train.steps=3", "train.batch=0").resolved(1294).train.batch == 1294
    assert load("train.steps=3", "train.batch=5000").resolved(1294).train.batch == 1294


@pytest.mark.parametrize(
    ("assignments", "data", "shown"),
    [
        ((), "", True),
        (("train.seed=3", "train.tensorboard=true", "train.keep=9", "train.threads=1"), "", True),
        (("train.epochs=3",), "", False),
        (("optimizer.lr=0.1",), "", False),
        (("system.dropout=0.0",), "", False),
        (("train.seed=3", "train.batch=8"), "", False),
        ((), "digits", False),
    ],
)
def test_expectations_are_withheld_when_something_that_decides_them_was_changed(
    assignments: tuple[str, ...], data: str, shown: bool
) -> None:
    loaded = load(*assignments, data=data)
    assert "test/accuracy" in loaded.expect
    assert loaded.expected() == (loaded.expect if shown else {})


# Optimisers.


def test_schedules_as_a_name_and_as_an_inline_table() -> None:
    by_name, by_table = load("optimizer.schedule=linear"), load("optimizer.schedule={name='linear', warmup=5}")
    assert (by_name.optimizer.schedule.name, by_name.optimizer.schedule.warmup) == ("linear", 0)
    assert (by_table.optimizer.schedule.name, by_table.optimizer.schedule.warmup) == ("linear", 5)
    one = load("optimizer.schedule.warmup=7").optimizer.schedule
    assert (one.name, one.warmup) == ("cosine", 7), "one key changes, the recipe's others stay"


def test_groups_are_patterns_with_their_own_rates() -> None:
    loaded = load('optimizer.groups=[{match="output.*", lr=0.0}, {match="*.bias", weight_decay=0.0}]')
    assert loaded.optimizer.groups == (Group(match="output.*", lr=0.0), Group(match="*.bias", weight_decay=0.0))


def test_a_phase_takes_the_common_optimizer_with_its_own_changes() -> None:
    loaded = load("optimizers.critic.lr=0.5", "optimizers.other.name=sgd")
    assert loaded.optimizer_for("critic").settings.lr == 0.5
    assert loaded.optimizer_for("critic").name == "adamw"
    assert loaded.optimizer_for("critic").schedule == loaded.optimizer.schedule
    assert loaded.optimizer_for("other").settings.lr == 0.01, "sgd's own default"
    assert loaded.optimizer_for("all") == loaded.optimizer
