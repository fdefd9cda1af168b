"""A claim as its TOML file states it: sentence, source, variants, rule, budgets, figure; every unknown key is an error.

A variant is a recipe with changes, or a probe: a function `module:function` of a seed and the settings that returns
named values. `look` is such a function of a finished run. A value is a probe's or a look's own (`ratio`), or of a run:
SPLIT/METRIC, cost/NAME, last/NAME, least/NAME or most/NAME of a logged series, curve/NAME for all of it, and
`learned` and `failed`: 1 or 0 by whether the training loss has fallen by a tenth since it was first logged; a run whose
numbers are no longer finite has failed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from canon.config import Table, parse, read_toml, settings
from canon.errors import CanonError, border, unknown
from canon.storage import write_text
from canon.user_code import module_of

CLAIMS = Path(__file__).parent
BUDGETS = ("quick", "full")
LEARNED, FAILED = "learned", "failed"
_NAME = re.compile(r"\w[\w.-]*")
Positive = Annotated[float, Field(gt=0)]


@settings
class Variant:
    """One of the things that are compared."""

    recipe: str = ""  # a recipe, a TOML file or a system
    probe: str = ""  # or module:function
    data: str = ""  # in place of the recipe's own
    set: dict[str, Any] = Field(default_factory=dict)  # settings of the recipe, arguments of the probe
    look: str = ""  # module:function, of the finished run
    start: str = ""  # another variant: training starts from its run of the same seed
    line: str = ""  # of the figure: to which line it belongs, and its place on it
    at: float | None = None


@settings
class Part:
    """One comparison of the rule. The claim holds if all its parts hold."""

    kind: Literal["greater", "level", "equal", "counted", "exact", "often"]
    says: str  # what it says if it holds
    value: str
    first: str  # a variant, or a difference of two: "a - b"
    than: str = ""
    than_value: str = ""  # if it is another than `value`
    effect: Annotated[float, Field(ge=0)] | None = None  # greater, counted: the difference that counts
    margin: Positive | None = None  # level, equal: the difference that does not
    sd: Positive | None = None  # greater, level, equal: of the differences between seeds, for which `seeds` are enough
    expected: float | None = None  # exact
    tolerance: Annotated[float, Field(ge=0)] | None = None
    sizes: bool = False  # of differences: how large each side's is, whatever its sign
    at_least: Annotated[float, Field(gt=0, lt=1)] | None = None  # often: the share of seeds

    @property
    def sides(self) -> list[tuple[str, str]]:
        """Variant and value of each term, those of `first` before those of `than`."""
        ours = [(name, self.value) for name in terms(self.first)]
        return ours + [(name, self.than_value or self.value) for name in terms(self.than)]


@settings
class Budget:
    seeds: Annotated[int, Field(gt=0)]
    set: dict[str, Any] = Field(default_factory=dict)  # for every variant: section.key of recipes, names of probes
    each: dict[str, dict[str, Any]] = Field(default_factory=dict)  # by variant


@settings
class Figure:
    kind: Literal["dots", "lines"]
    value: str
    ylabel: str
    xlabel: str = ""
    log: Literal["", "x", "y", "xy"] = ""


@dataclass(frozen=True)
class Claim:
    name: str
    chapter: str
    path: Path
    claim: str
    source: str
    predicts: str
    discussion: str  # "" until there is something to say
    variants: dict[str, Variant]
    rule: tuple[Part, ...]
    budgets: dict[str, Budget]
    figure: Figure
    rule_digest: str
    designs: dict[str, str]  # by budget, the digest of the variants and of it

    def changes(self, name: str, budget: str) -> Table:
        """The settings of a variant: the budget's for all, its own, then the budget's for it; the last one counts."""
        variant, of = self.variants[name], self.budgets[budget]
        common = {key: value for key, value in of.set.items() if ("." in key) == bool(variant.recipe)}
        return {**common, **variant.set, **of.each.get(name, {})}

    def ruled(self, name: str) -> list[str]:
        """What the rule needs of a variant."""
        return list(dict.fromkeys(value for part in self.rule for variant, value in part.sides if variant == name))

    def values_of(self, name: str) -> list[str]:
        """What the rule and the figure need of a variant."""
        return list(dict.fromkeys([*self.ruled(name), self.figure.value]))

    def source_of(self, place: str) -> str:
        """The digest of the file that a probe is in."""
        module = place.partition(":")[0]
        file = self.path.parent / module if module.endswith(".py") else CLAIMS / "probes" / f"{module}.py"
        with border(f"{self.path}: {place}", "cannot be imported"):
            return hashlib.sha256(file.read_bytes()).hexdigest()

    def function(self, place: str) -> Callable[..., dict[str, Any]]:
        """A probe or a look: of canon.claims.probes, or of a file beside the claim, as in mine.py:ratio."""
        module, colon, name = place.partition(":")
        with border(f"{self.path}: {place}", "cannot be imported"):
            if not colon:
                raise CanonError(f'{self.path}: "{place}" must be module:function.')
            if module.endswith(".py"):
                loaded = module_of(self.path.parent / module, "canon_claim")
            else:
                loaded = import_module(f"canon.claims.probes.{module}")
        function = vars(loaded).get(name)
        if not callable(function):
            raise CanonError(f"{self.path}: {module} has no function {name}.")
        return function


def terms(side: str) -> list[str]:
    """The variants of `a` or of `a - b`."""
    return [name.strip() for name in side.split(" - ")] if side else []


_NEEDS = {
    "greater": ("than", "effect", "sd"),
    "level": ("than", "margin", "sd"),
    "equal": ("than", "margin", "sd"),
    "counted": ("than", "effect"),
    "exact": ("expected", "tolerance"),
    "often": ("at_least",),
}
_TEXTS = ("claim", "source", "predicts")
_TABLES = ("variants", "rule", "quick", "full", "figure")


def names() -> list[str]:
    """All claims that come with canon, as chapter/name."""
    return sorted(path.relative_to(CLAIMS).with_suffix("").as_posix() for path in CLAIMS.glob("*/*.toml"))


def find(name: str) -> list[Claim]:
    """The claim that `name` means, a file of one, or all claims of a chapter."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise CanonError(f"There is no claim file {name}.")
        if taken := _packaged(path):
            raise CanonError(f"{name}: canon's own claim {taken} has this name; give the file another.")
        return [read(path)]
    every = names()
    chosen = [known for known in every if name in (known, known.split("/")[1], known.split("/")[0])]
    if not chosen:
        words = {part for known in every for part in known.split("/")}
        raise CanonError(f"{unknown('claim or chapter', name, words)} All are listed by: canon claims.")
    return [read(CLAIMS / f"{known}.toml") for known in chosen]


def _packaged(path: Path) -> str:
    """The claim that comes with canon and would share results with the one of another file; "" for none."""
    if path.resolve().is_relative_to(CLAIMS.resolve()):
        return ""
    return next((known for known in names() if known.split("/")[1] == path.stem), "")


def read(path: Path) -> Claim:
    table = read_toml(path)
    for key in table:
        if key not in (*_TEXTS, "discussion", *_TABLES):
            raise CanonError(f"{path}: {unknown('key', key, (*_TEXTS, 'discussion', *_TABLES))}")
    for key in (*_TEXTS, *_TABLES):
        if key not in table:
            raise CanonError(f"{path}: {key} is missing.")
    for key in (*_TEXTS, "discussion"):
        if not isinstance(table.get(key, ""), str):
            raise CanonError(f"{path}: {key} must be a text, got {table[key]!r}.")
    if not isinstance(table["variants"], dict) or not table["variants"]:
        raise CanonError(f"{path}: variants must be tables, as in [variants.plain].")
    if not isinstance(table["rule"], list) or not table["rule"]:
        raise CanonError(f"{path}: rule must be tables in a list, as in [[rule]].")
    claim = Claim(
        name=path.stem,
        chapter=path.parent.name,
        path=path,
        claim=table["claim"],
        source=table["source"],
        predicts=table["predicts"],
        discussion=table.get("discussion", ""),
        variants={name: _part(Variant, of, path, f"variants.{name}") for name, of in table["variants"].items()},
        rule=tuple(_part(Part, of, path, f"rule[{i}]") for i, of in enumerate(table["rule"])),
        budgets={name: _part(Budget, table[name], path, name) for name in BUDGETS},
        figure=_part(Figure, table["figure"], path, "figure"),
        rule_digest=_digest(table["rule"]),
        designs={name: _digest([table["variants"], table[name]]) for name in BUDGETS},
    )
    _check(claim)
    return claim


def _part(cls: type[Any], table: Any, path: Path, section: str) -> Any:
    if not isinstance(table, dict):
        raise CanonError(f"{path}: {section} must be a table, got {table!r:.40}.")
    try:
        return parse(cls, table, "")
    except CanonError as mistake:
        raise CanonError(f"{path}, {section}: {mistake}") from None


def _digest(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()


def _check(claim: Claim) -> None:
    """Names that must be known, and settings that belong together."""
    for name, variant in claim.variants.items():
        where = f"{claim.path}, variants.{name}"
        if not _NAME.fullmatch(name):  # it becomes a folder's name, and a term of "a - b"
            raise CanonError(
                f"{where}: a name is of letters, digits, _, - and dots, and begins with a letter or digit."
            )
        if bool(variant.recipe) == bool(variant.probe):
            raise CanonError(f"{where}: give either recipe or probe.")
        if variant.probe and (variant.look or variant.start or variant.data):
            raise CanonError(f"{where}: look, start and data belong to recipes, not to probes.")
        if variant.start and list(claim.variants).index(name) <= list(claim.variants).index(
            _known(claim, variant.start)
        ):
            raise CanonError(f"{where}: it starts from {variant.start}, which must come before it.")
        varied = "seed" if variant.probe else "train.seed"
        if any(varied in claim.changes(name, budget) for budget in BUDGETS):
            raise CanonError(f"{where}: {varied} is what a claim varies: leave it out.")
    for part in claim.rule:
        missing = [key for key in ("says", "value", "first", *_NEEDS[part.kind]) if getattr(part, key) in (None, "")]
        if missing:
            raise CanonError(f'{claim.path}: a rule of kind "{part.kind}" needs {", ".join(missing)}.')
        for name, _ in part.sides:
            _known(claim, name)
        if part.than and len(terms(part.first)) != len(terms(part.than)):
            raise CanonError(f"{claim.path}: {part.first} and {part.than} must name the same number of variants.")
    for budget in claim.budgets.values():
        for name in budget.each:
            _known(claim, name)
    of, variants = claim.figure, claim.variants.values()
    if of.kind == "dots" and of.value.startswith("curve/"):
        raise CanonError(
            f'{claim.path}, figure: dots are of numbers, as of last/train/loss; kind = "lines" draws curves.'
        )
    numbers = of.value.partition("/")[0] in ("train", "valid", "test", "cost", "last", "least", "most", LEARNED, FAILED)
    if of.kind == "lines" and numbers and all(variant.at is None for variant in variants):
        raise CanonError(
            f"{claim.path}, figure: lines are of curves, as of curve/train/loss, or through variants with line and at."
        )


def _known(claim: Claim, name: str) -> str:
    if name not in claim.variants:
        raise CanonError(f"{claim.path}: {unknown('variant', name, claim.variants)}")
    return name


TEMPLATE = """claim = "A wider network of one hidden layer has a lower training loss"
source = "the paper, and the section"
predicts = "what it says about the variants below, and by how much"

[variants.narrow]
recipe = "digits-mlp"
set = { "system.hidden" = [8] }

[variants.wide]
recipe = "digits-mlp"
set = { "system.hidden" = [64] }

# Write the rule before the first run. effect: the difference that counts; sd: of the differences between seeds.
[[rule]]
kind = "greater"
says = "the narrow network's loss is higher"
value = "last/train/loss"
first = "narrow"
than = "wide"
effect = 0.1
sd = 0.05

[quick]
seeds = 5
set = { "train.epochs" = 5 }

[full]
seeds = 10

[figure]
kind = "dots"
value = "last/train/loss"
ylabel = "training loss"
"""


def new(name: str) -> Path:
    """A file with a claim to start from."""
    path = Path(name if name.endswith(".toml") else f"{name}.toml")
    for taken in (Path(name), path):
        if taken.exists() and not taken.is_dir():
            raise CanonError(f"{taken} exists: give another name.")
    if known := _packaged(path):
        raise CanonError(f"canon's own claim {known} has this name: give another.")
    write_text(path, TEMPLATE)
    return path


def with_seeds(claim: Claim, budget: str, seeds: int | None) -> Claim:
    if seeds is None:
        return claim
    if seeds < 1:
        raise CanonError(f"--seeds must be a positive whole number, got {seeds}.")
    return replace(claim, budgets={**claim.budgets, budget: replace(claim.budgets[budget], seeds=seeds)})
