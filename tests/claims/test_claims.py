"""Claims: every file resolves; the lab against the runs it makes; verbs, gallery, and every refusal in one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from canon import recipe as recipes
from canon.claims import lab, record, results
from canon.claims.figures import figure_of, words
from canon.claims.record import BUDGETS, LEARNED, Claim, find, names
from canon.errors import CanonError
from canon.metrics.records import METRICS
from canon.training import trainer
from canon.training.run import Run
from tests.claims.stand_ins import smallest

CLAIMS = {claim.name: claim for name in names() for claim in find(name)}
SECTIONS = ("train", "valid", "test", "cost", "last", "least", "most", "curve")
# At their smallest these take over four seconds of a processor.
SLOWLY = (
    *("elmo-layers", "static-vs-contextual", "glove-sum", "dropout-as-augmentation", "dqn-ablation", "cliff"),
    *("bpr-topn", "subword-oov"),
)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim.name)
def test_a_claim_resolves(claim: Claim) -> None:
    """Recipes take the settings, probes the arguments, and values exist."""
    for name, variant in claim.variants.items():
        for budget in BUDGETS:
            changes = claim.changes(name, budget)
            if variant.probe:
                signature(claim.function(variant.probe)).bind(seed=0, **changes)
            else:
                recipes.load(variant.recipe, variant.data, changes)
        looked = claim.function(variant.look).__code__.co_consts if variant.look else ()
        for value in claim.ruled(name) if variant.recipe else ():
            section, _, key = value.partition("/")
            known = value in ("learned", "failed") or (section in SECTIONS and bool(key)) or value in str(looked)
            assert known, f"{value} of {name}"
            if section in ("train", "valid", "test"):
                assert key in METRICS or key in ("loss", "modes", "probe_accuracy"), value
    assert claim.claim == claim.claim.strip() and not claim.claim.endswith(".")
    assert len(claim.claim) < 200 and claim.source and claim.predicts


def test_a_figure_that_no_run_has_values_for() -> None:
    """As of variants that diverged: it is said, and drawn without lines."""
    for name in ("query-dominance", "adam-then-sgd"):
        claim = CLAIMS[name]
        empty = replace(results.shipped(name)[0], values={variant: {} for variant in claim.variants})
        assert words(claim, empty).endswith(": no run has it.")
        assert not figure_of(claim, empty).axes[0].get_lines()
    assert words(CLAIMS["selu"], results.shipped("selu")[0]).endswith(" at 50.")


def test_words_of_a_line_that_does_not_end_at_its_extremes() -> None:
    """SARSA's path is away from the cliff in between; the recurrence only rises."""
    said = words(CLAIMS["cliff"], results.shipped("cliff")[0])
    assert "q-learning from 0.0000 at 0 to 0.0000 at 13, highest 1.0000 at 1;" in said
    assert said.endswith("sarsa from 0.0000 at 0 to 0.0000 at 17, highest 3.0000 at 6.")
    assert "highest" not in words(CLAIMS["attention-cost"], results.shipped("attention-cost")[0])


def test_names_are_unique_and_results_are_of_claims() -> None:
    assert len(CLAIMS) == len(names())
    for path in results.SHIPPED.glob("*.json"):
        result = results.read(path)
        assert path.stem == f"{result.name}-{result.budget}" and result.name in CLAIMS
        assert "another rule" not in result.standing(CLAIMS[result.name]), result.name
        if result.standing(CLAIMS[result.name]) == result.verdict:
            assert result.seeds >= CLAIMS[result.name].budgets[result.budget].seeds, result.name
        assert result.seeds > 0 and result.machine and re.fullmatch(r"\d{4}-\d\d-\d\d", result.date)


def test_the_page_has_one_row_for_each_claim() -> None:
    text = (record.CLAIMS.parents[1] / "docs" / "claims.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \w+ \| `([a-z0-9-]+)` \|", text, re.MULTILINE)) == sorted(CLAIMS)
    assert f"\n{len(CLAIMS)} claims, of which " in text


def by_time(claim: Claim) -> object:
    return pytest.param(claim, id=claim.name, marks=[pytest.mark.slow] if claim.name in SLOWLY else [])


@pytest.mark.usefixtures("small_texts")
@pytest.mark.parametrize("claim", [by_time(claim) for claim in CLAIMS.values()])
def test_a_claim_runs_at_its_smallest(claim: Claim, tmp_path: Path, small_files: Path) -> None:
    result = lab.run(smallest(claim, small_files), out=tmp_path, say=lambda _: None)
    assert not result.failed, result.failed
    drawn = figure_of(claim, result).axes[0]
    assert drawn.has_data() and drawn.get_ylabel()
    assert claim.figure.ylabel in words(claim, result)


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where stand-ins are made once."""
    return tmp_path_factory.mktemp("stand-ins")


MINE = """
claim = "A wider network has a lower training loss"
source = "this test"
predicts = "so"
[variants.narrow]
recipe = "mlp:tiny"
set = { "system.hidden" = [2] }
[variants.wide]
recipe = "mlp:tiny"
set = { "system.hidden" = [32] }
[[rule]]
kind = "greater"
says = "the narrow network's loss is higher"
value = "last/train/loss"
first = "narrow"
than = "wide"
effect = 0.1
sd = 0.05
[quick]
seeds = 2
set = { "train.steps" = 40 }
[full]
seeds = 3
set = { "train.steps" = 40 }
[figure]
kind = "dots"
value = "last/train/loss"
ylabel = "training loss"
"""


def write(text: str, name: str = "mine") -> str:
    Path(f"{name}.toml").write_text(text)
    return f"{name}.toml"


def quiet(claim: Claim, **more: Any) -> results.Result:
    return lab.run(claim, out=Path("out"), say=lambda _: None, **more)


def test_the_lab_against_its_runs() -> None:
    """Values are those of ordinary runs; more seeds add to what is there, and nothing is trained twice."""
    (claim,) = find(write(MINE))
    result = quiet(claim)
    for name in claim.variants:
        for seed in (0, 1):
            run = Run.open(Path("out/mine/quick", name, f"seed-{seed}"))
            assert run.recipe.train.seed == seed
            losses = [row["train/loss"] for row in run.metrics() if "train/loss" in row]
            assert result.values[name][seed] == {"last/train/loss": losses[-1]}
    gaps = [
        result.values["narrow"][seed]["last/train/loss"] - result.values["wide"][seed]["last/train/loss"]
        for seed in (0, 1)
    ]  # type: ignore[operator]
    assert result.parts[0].effect == pytest.approx(sum(gaps) / 2)
    stamps = {path: path.stat().st_mtime_ns for path in Path("out").rglob("seed-*/result.json")}
    more = quiet(claim, seeds=3)
    assert more.seeds == 3 and more.values["wide"][0] == result.values["wide"][0]
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    stored = results.read(Path("out/mine/quick/result.json"))
    assert stored == more and stored.standing(claim) == more.verdict
    assert results.here("mine", Path("out")) == more
    figure = Path("out/mine/quick/figure.svg").read_text()
    assert figure.startswith("<?xml") and '<svg role="img" aria-label="training loss: narrow ' in figure


def test_a_changed_rule_or_design_is_said() -> None:
    (claim,) = find(write(MINE))
    result = quiet(claim)
    (other,) = find(write(MINE.replace("effect = 0.1", "effect = 0.2")))
    assert result.standing(other) == f"{result.verdict} (judged by another rule)"
    (other,) = find(write(MINE.replace("[32]", "[33]")))
    assert result.standing(other) == f"{result.verdict} (of other variants or another budget)"
    with pytest.raises(CanonError, match=r"was made with system.hidden \[32\], not \[33\]: give another --out"):
        broken = quiet(other)
        raise CanonError(broken.failed["wide"])


def test_a_variant_that_fails_leaves_the_others() -> None:
    text = MINE.replace('recipe = "mlp:tiny"\nset = { "system.hidden" = [32] }', 'probe = "mine.py:broken"')
    Path("mine.py").write_text("def broken(seed):\n    raise KeyError('x')\n")
    result = quiet(find(write(text))[0])
    assert result.failed == {"wide": "mine.py:broken failed: it has no 'x'."}
    assert len(result.values["narrow"]) == 2 and result.verdict == "inconclusive"
    assert "wide failed (mine.py:broken failed" in result.sentence


PROBED = MINE.replace('recipe = "mlp:tiny"\nset = { "system.hidden" = [2] }', 'probe = "mine.py:one"').replace(
    'recipe = "mlp:tiny"\nset = { "system.hidden" = [32] }', 'probe = "mine.py:two"'
)
PROBED = PROBED.replace('set = { "train.steps" = 40 }\n', "")


def probes(one: str, two: str = "{'last/train/loss': seed + 0.5}") -> Claim:
    Path("mine.py").write_text(f"def one(seed):\n    return {one}\n\n\ndef two(seed):\n    return {two}\n")
    return find(write(PROBED))[0]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("None", "mine.py:one must return numbers and curves [[x, y], …] by name, got None."),
        ("'a text'", "mine.py:one must return numbers and curves [[x, y], …] by name, got 'a text'."),
        ("{'last/train/loss': 'low'}", "mine.py:one: last/train/loss must be a number or a curve"),
        ("{'last/train/loss': [1.0, 2.0]}", "mine.py:one: last/train/loss must be a number or a curve"),
        ("{'last/train/lost': 1.0}", 'No value of narrow "last/train/loss"; did you mean last/train/lost?'),
    ],
)
def test_a_probe_that_returns_no_values_leaves_the_others(returned: str, message: str) -> None:
    result = quiet(probes(returned))
    assert message in result.failed["narrow"] and len(result.values["wide"]) == 2


def test_a_changed_probe_is_measured_again() -> None:
    """Not one that has not changed, nor a value that was noted before sources were."""
    said: list[str] = []

    def values(claim: Claim) -> list[Any]:
        said.clear()
        result = lab.run(claim, out=Path("out"), say=said.append)
        return [of["last/train/loss"] for of in result.values["narrow"].values()]

    assert values(probes("{'last/train/loss': seed + 1.0}")) == [1.0, 2.0]
    note = Path("out/mine/quick/narrow/seed-0.json")
    stamp = note.stat().st_mtime_ns
    assert values(find("mine.toml")[0]) == [1.0, 2.0] and note.stat().st_mtime_ns == stamp
    assert values(probes("{'last/train/loss': seed + 3.0}")) == [3.0, 4.0]
    assert "mine.py:one has changed since seed 0 of narrow was measured; it is measured again." in said
    noted = json.loads(note.read_text())
    del noted["of"]["source"]
    note.write_text(json.dumps(noted))
    assert values(probes("{'last/train/loss': seed + 5.0}")) == [3.0, 6.0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'value = "last/train/loss"\nylabel',
            'value = "last/valid/acuracy"\nylabel',
            r"figure.value.*last/valid/accuracy",
        ),
        ('value = "last/train/loss"\nfirst', 'value = "test/acuracy"\nfirst', "value of narrow.*mean test/accuracy"),
        ('value = "last/train/loss"\nfirst', 'value = "ratio"\nfirst', 'No value of narrow "ratio"'),
        ('value = "last/train/loss"\nfirst', 'value = "cost/second"\nfirst', "did you mean cost/seconds"),
    ],
)
def test_a_misspelt_value_is_refused_before_training(old: str, new: str, message: str) -> None:
    assert old in MINE
    with pytest.raises(CanonError, match=message):
        quiet(find(write(MINE.replace(old, new, 1)))[0])
    assert not list(Path("out").rglob("seed-*"))


def test_a_misspelt_value_of_a_probes_figure_is_refused() -> None:
    claim = probes("{'last/train/loss': 1.0}")
    other = replace(claim, figure=replace(claim.figure, value="lost"))
    with pytest.raises(CanonError, match=r'No value of a variant \(figure.value\) "lost"; there are: last/train/loss'):
        quiet(other)


def test_fewer_seeds_do_not_replace_the_result_of_more(canon: Callable[..., Any]) -> None:
    claim = probes("{'last/train/loss': seed + 1.0}")
    assert quiet(claim, seeds=4).seeds == 4
    assert quiet(claim, seeds=1).seeds == 4
    stored = results.here("mine", Path("out"))
    assert stored is not None and stored.seeds == 4
    rows = {row["claim"]: row for row in json.loads(canon("claims", "--json").out)}
    assert rows["auc-two-ways"]["seeds shipped"] >= 5 and rows["auc-two-ways"]["seeds here"] == "–"


def test_a_budget_is_not_changed_by_the_other() -> None:
    (claim,) = find(write(MINE))
    (other,) = find(write(MINE.replace("[full]\nseeds = 3", "[full]\nseeds = 5")))
    assert claim.designs["quick"] == other.designs["quick"] and claim.designs["full"] != other.designs["full"]


def test_the_name_of_a_packaged_claim_is_taken(canon: Callable[..., Any]) -> None:
    with pytest.raises(CanonError, match="canon's own claim ranking/ranknet-tie has this name; give the file another"):
        find(write(MINE, "ranknet-tie"))
    Path("ranknet-tie.toml").unlink()
    assert "canon's own claim ranking/ranknet-tie has this name" in canon("claims", "new", "ranknet-tie").err
    (path,) = record.CLAIMS.glob("*/ranknet-tie.toml")
    assert find(str(path))[0].name == "ranknet-tie"


def test_an_interrupt_inside_a_probe_is_a_sentence(canon: Callable[..., Any]) -> None:
    Path("mine.py").write_text("def one(seed):\n    raise KeyboardInterrupt\n\n\ndef two(seed):\n    return {}\n")
    outcome = canon("claims", "run", write(PROBED), "--out", "out")
    assert outcome.code == 130 and outcome.err.endswith("Give the same command again to continue.\n")


def test_training_that_runs_away_has_failed_to_learn() -> None:
    text = MINE.replace("last/train/loss", LEARNED).replace(
        "[2] }", '[2], "optimizer.name" = "sgd", "optimizer.lr" = 1e30 }'
    )
    result = quiet(find(write(text))[0])
    assert [of[LEARNED] for of in result.values["narrow"].values()] == [0.0, 0.0]
    assert [of[LEARNED] for of in result.values["wide"].values()] == [1.0, 1.0]
    assert quiet(find("mine.toml")[0]).values == result.values  # noted, not trained again


def test_a_variant_may_start_from_anothers_run() -> None:
    more = '[variants.after]\nrecipe = "mlp:tiny"\nstart = "narrow"\nset = { "system.hidden" = [2] }\n[[rule]]'
    result = quiet(find(write(MINE.replace("[[rule]]", more, 1)))[0], seeds=1)
    run = Run.open("out/mine/quick/after/seed-0")
    assert run.recipe.train.init == "out/mine/quick/narrow/seed-0" and not result.failed


def test_an_interrupted_variant_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of another system than its recipe's."""
    text = MINE.replace('"system.hidden" = [2]', '"system.name" = "softmax-regression:tiny"')
    (claim,) = find(write(text.replace('"train.steps" = 40 }', '"train.steps" = 40, "train.evaluate_every" = 10 }')))
    inner = trainer.Trainer._evaluate

    def stopping(self: trainer.Trainer) -> bool:
        if self.step == 10:
            self.signals.number = 15
        return inner(self)

    with monkeypatch.context() as patch, pytest.raises(trainer.Interrupted):
        patch.setattr(trainer.Trainer, "_evaluate", stopping)
        quiet(claim, seeds=1)
    assert not quiet(claim, seeds=1).failed
    assert "Resumed from step" in Path("out/mine/quick/narrow/seed-0/log.txt").read_text()


def test_variants_that_may_not_be_compared() -> None:
    with pytest.raises(CanonError, match="narrow and wide cannot be compared: the data of one is digits, of the other"):
        quiet(find(write(MINE.replace("[32] }", '[32] }\ndata = "wine"')))[0])
    with pytest.raises(CanonError, match="The budgets differ"):
        quiet(find(write(MINE.replace("[32] }", '[32], "train.batch" = 7 }')))[0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("says =", 'saying = ""\nsays =', r'rule\[0\]: No setting "saying"; did you mean says'),
        ('kind = "greater"', 'kind = "bigger"', r"kind must be one of"),
        ("effect = 0.1", "", r'a rule of kind "greater" needs effect'),
        ('first = "narrow"', 'first = "narow"', r'No variant "narow"; did you mean narrow'),
        ('first = "narrow"', 'first = "narrow - wide"', r"must name the same number of variants"),
        ('source = "this test"', "", r"source is missing"),
        ("[quick]", "[quik]", r'No key "quik"; did you mean quick'),
        ("seeds = 2", "seeds = 0", r"quick: seeds must be a positive whole number, got 0"),
        ('recipe = "mlp:tiny"', 'recipe = "mlp:tiny"\nprobe = "exact:x"', r"give either recipe or probe"),
        ('recipe = "mlp:tiny"', 'recipe = "mlp:tiny"\nstart = "wide"', r"which must come before it"),
        ('"system.hidden" = [2]', '"train.seed" = 2', r"train.seed is what a claim varies"),
        ('"train.steps" = 40', '"train.seed" = 2', r"train.seed is what a claim varies"),
        (
            'recipe = "mlp:tiny"\nset = { "system.hidden"',
            'probe = "x:y"\nset = { seed',
            r"narrow: seed is what a claim",
        ),
        ('first = "narrow"', 'first = ""', r'a rule of kind "greater" needs first'),
        ("[variants.narrow]", "[variants]\nodd = 3\n[variants.narrow]", r"variants.odd must be a table, got 3"),
        (
            'kind = "dots"',
            'kind = "lines"',
            r"figure: lines are of curves, as of curve/train/loss, or through variants",
        ),
        ('value = "last/train/loss"\nyl', 'value = "curve/train/loss"\nyl', r"figure: dots are of numbers"),
        ("variants.narrow", 'variants."../narrow"', r"a name is of letters, digits, _, - and dots, and begins with a"),
        ("variants.narrow", 'variants."wide - narrow"', r"a name is of letters"),
        ("predicts =", "predicts =\n=", r"is not valid TOML"),
    ],
)
def test_a_file_that_is_wrong(old: str, new: str, message: str) -> None:
    assert old in MINE
    with pytest.raises(CanonError, match=message):
        find(write(MINE.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[32]", "[-32]", r"^variants.wide: system.hidden.0 must be a positive whole number, got -32\.$"),
        (
            "[32] }",
            '[32] }\ndata = "nowhere.csv"',
            r'^variants.wide: There is no data set, file or folder "nowhere.csv"',
        ),
        ("[32] }", '[32] }\nlook = "looks:nowhere"', r"mine.toml: looks has no function nowhere"),
        ("[32] }", '[32] }\ndata = "fashion-mnist"', r"^variants.wide: fashion-mnist is not on this machine"),
    ],
)
@pytest.mark.parametrize("start", ["", 'start = "narrow"\n'])
def test_what_a_variant_lacks_shows_before_training(
    old: str, new: str, message: str, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one that starts from another's run."""
    monkeypatch.setenv("CANON_DATA", "empty")
    claim = find(write(MINE.replace(old, new).replace("[variants.wide]\n", f"[variants.wide]\n{start}")))[0]
    with pytest.raises(CanonError, match=message):
        quiet(claim)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verdict": "perhaps"}, "verdict is 'perhaps'"),
        ({"budget": "slow"}, "budget is 'slow'"),
        ({"parts": [{"says": "so"}]}, "parts.0.verdict is missing"),
        ({"values": {"pair": {"first": {}}}}, "'first' is not a seed"),
        ({"values": {"pair": {"0": {"loss": "low"}}}}, "values.pair.0.loss is 'low'"),
        ({"environment": {}}, "environment.device is missing"),
    ],
)
def test_a_damaged_result_is_a_sentence_and_is_made_again(
    changes: dict[str, Any], message: str, canon: Callable[..., Any]
) -> None:
    claim, path = find("ranknet-tie")[0], Path("out/ranknet-tie/quick/result.json")
    whole = quiet(claim)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    refused = canon("claims", "report", "out")
    assert refused.code == 2 and refused.err == f"canon: {path} is damaged: {message}; run the claim again.\n"
    assert replace(quiet(claim), date=whole.date) == whole == replace(results.read(path), date=whole.date)


def test_the_verbs(canon: Callable[..., Any]) -> None:
    listed = canon("claims")
    assert listed.code == 0 and all(re.search(rf"^{name} ", listed.out, re.MULTILINE) for name in CLAIMS)
    assert {row["claim"] for row in json.loads(canon("claims", "--json").out)} == set(CLAIMS)
    shown = canon("claims", "show", "ranknet-tie")
    assert "cost RankNet log 2" in shown.out and "expected=0.693147" in shown.out
    shown = canon("claims", "show", "finetune-variance").out
    assert "short: pretrained/finetune on rte from the run of bert optimizer.bias_correction=False" in shown
    assert "quick: 20 seeds" in shown and "long: data.limit=600 train.epochs=20.0" in shown
    ran = canon("claims", "run", "ranknet-tie", "--json")
    assert json.loads(ran.out)["results"][0]["verdict"] == "holds" and "[1/1] ranknet-tie: pair, seed 0" in ran.err
    assert re.search(r"ranknet-tie +ranking +holds", canon("claims").out)
    assert canon("claims", "new", "own").out.startswith("own.toml")
    assert find("own.toml")[0].rule[0].kind == "greater"
    ran = canon("claims", "run", write(MINE), "metrics", "--out", "out")
    assert ran.code == 0 and "auc-two-ways: holds" in ran.out
    page = Path(canon("claims", "report", "out", "mine.toml").out.strip()).read_text()
    assert page.count('<svg role="img" aria-label=') == 1 + len(
        [claim for claim in CLAIMS.values() if claim.chapter == "metrics"]
    )
    for piece in (
        "canon claims run mine.toml --seeds 2 --out out",
        "canon claims run auc-two-ways --seeds 5 --out out",
        "the narrow network",
        "the claims lab",
    ):
        assert piece in page.lower()
    assert not re.search(r"https?://(?!www.w3)", page)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run",), "Give the claims or chapters to run, or --all"),
        (("run", "degradations"), 'No claim or chapter "degradations"; did you mean degradation?'),
        (("show", "nothing like it"), "All are listed by: canon claims."),
        (("run", "none.toml"), "There is no claim file none.toml."),
        (("run", "ranknet-tie", "--seeds", "0"), "--seeds must be a positive whole number, got 0."),
        (("show", "metrics"), '"metrics" is a chapter; give one of its claims: auc-two-ways'),
        (("report", "nowhere"), "nowhere has no result of a claim; canon claims run NAME --out nowhere makes one."),
    ],
)
def test_refusals(words: tuple[str, ...], message: str, canon: Callable[..., Any]) -> None:
    outcome = canon("claims", *words)
    assert outcome.code == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1


def test_missing_data_is_a_sentence_and_other_claims_run(canon: Callable[..., Any]) -> None:
    write(MINE.replace("[32] }", '[32] }\ndata = "nowhere.csv"'))
    alone = canon("claims", "run", "mine.toml")
    assert alone.code == 2 and "nowhere.csv" in alone.err
    both = canon("claims", "run", "mine.toml", "ranknet-tie")
    assert both.code == 2 and "ranknet-tie: holds" in both.out and "1 of 2 claims were not run: mine." in both.err


def test_new_does_not_overwrite(canon: Callable[..., Any]) -> None:
    write("text", "own")
    assert "own.toml exists: give another name." in canon("claims", "new", "own").err
    assert canon("claims", "new", 'a "quoted" name').out.endswith("canon claims run 'a \"quoted\" name.toml'\n")
    assert find('a "quoted" name.toml')[0].name == 'a "quoted" name'
    assert record.names() == sorted(record.names())
