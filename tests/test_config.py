"""Tables to records: each kind of mistake against its sentence, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from canon.config import assign, parse, parse_assignment, read_toml, settings
from canon.errors import CanonError, unknown

Size = Annotated[int, Field(gt=0)]


@settings
class Example:
    name: str
    steps: Size | None = None
    rate: Annotated[float, Field(gt=0)] = 0.1
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    level: Annotated[int, Field(le=3)] = 0
    pair: tuple[float, float] = (0.0, 1.0)
    sizes: Annotated[tuple[Size, ...], Field(min_length=1)] = (1,)
    flag: bool = False
    kind: Literal["left", "right"] = "left"
    place: Annotated[float, Field(ge=0, lt=1)] | str = 0.0
    table: dict[str, int] = Field(default_factory=dict)


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"stepz": 1}, 'No setting "toy.stepz"; did you mean toy.steps?'),
    ({"steps": -5}, "toy.steps must be a positive whole number, got -5."),
    ({"steps": 0}, "toy.steps must be a positive whole number, got 0."),
    ({"steps": 2.5}, "toy.steps must be a whole number, got 2.5."),
    ({"steps": "many"}, "toy.steps must be a whole number, got 'many'."),
    ({"steps": True}, "toy.steps must be a whole number, got True."),
    ({"rate": 0}, "toy.rate must be a positive number, got 0."),
    ({"rate": -0.1}, "toy.rate must be a positive number, got -0.1."),
    ({"rate": "fast"}, "toy.rate must be a number, got 'fast'."),
    ({"rate": float("inf")}, "toy.rate must be a finite number, got inf."),
    ({"rate": float("nan")}, "toy.rate must be a finite number, got nan."),
    ({"share": -0.5}, "toy.share must be at least 0.0, got -0.5."),
    ({"share": 1.0}, "toy.share must be less than 1.0, got 1.0."),
    ({"level": 4}, "toy.level must be at most 3, got 4."),
    ({"pair": [1.0]}, "toy.pair must be a list of at least 2, got [1.0]."),
    ({"sizes": []}, "toy.sizes must be a list of at least 1, got ()."),
    ({"sizes": [1, 0]}, "toy.sizes.1 must be a positive whole number, got 0."),
    ({"sizes": 3}, "toy.sizes must be a list, got 3."),
    ({"sizes": ["a"]}, "toy.sizes.0 must be a whole number, got 'a'."),
    ({"flag": 1}, "toy.flag must be true or false, got 1."),
    ({"flag": "yes"}, "toy.flag must be true or false, got 'yes'."),
    ({"kind": "up"}, "toy.kind must be one of 'left', 'right', got 'up'."),
    ({"place": 1.5}, "toy.place must be less than 1.0, got 1.5."),
    ({"name": 3}, "toy.name must be a text, got 3."),
    ({"table": 3}, "toy.table must be a table, got 3."),
]


@pytest.mark.parametrize(("table", "sentence"), MISTAKES, ids=[str(table) for table, _ in MISTAKES])
def test_a_mistake_is_its_sentence(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CanonError) as caught:
        parse(Example, {"name": "x", **table}, "toy")
    assert str(caught.value) == sentence


def test_a_missing_value_is_named() -> None:
    with pytest.raises(CanonError, match=r"^toy\.name is missing: give it in the recipe or by --set toy\.name=…\.$"):
        parse(Example, {}, "toy")


def test_a_section_that_is_no_table() -> None:
    with pytest.raises(CanonError) as caught:
        parse(Example, 3, "toy", {"toy": "--set"})  # type: ignore[arg-type]
    assert str(caught.value) == "toy must be a table of settings, got 3 (from --set)."


@pytest.mark.parametrize(
    ("origins", "ending"),
    [
        ({"toy.steps": "--set"}, " (from --set)."),
        ({"toy.steps": "recipe a/b"}, " (from recipe a/b)."),
        ({"toy": "recipe a/b"}, " (from recipe a/b)."),
        ({"toy.steps": "default", "toy": "recipe a/b"}, " (from recipe a/b)."),
        ({"toy.steps": "default"}, "."),
        ({"toy.rate": "--set"}, "."),
    ],
)
def test_the_sentence_names_the_origin(origins: dict[str, str], ending: str) -> None:
    with pytest.raises(CanonError) as caught:
        parse(Example, {"name": "x", "steps": -5}, "toy", origins)
    assert str(caught.value) == f"toy.steps must be a positive whole number, got -5{ending}"


def test_an_item_of_a_list_has_the_origin_of_the_list() -> None:
    with pytest.raises(CanonError, match=r"toy\.sizes\.1 .* got 0 \(from --set\)\.$"):
        parse(Example, {"name": "x", "sizes": [1, 0]}, "toy", {"toy.sizes": "--set"})


def test_a_record_is_frozen_and_its_lists_are_tuples() -> None:
    result = parse(Example, {"name": "x", "sizes": [1, 2], "pair": [0, 1]}, "toy")
    assert result.sizes == (1, 2)
    assert result.pair == (0.0, 1.0)
    with pytest.raises(AttributeError):
        result.steps = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=1", 1),
        ("a.b=1e-3", 0.001),
        ("a.b = true", True),
        ("a.b=[1, 2]", [1, 2]),
        ('a.b="two words"', "two words"),
        ("a.b=two words", "two words"),
        ("a.b={ name = 'cosine', warmup = 3 }", {"name": "cosine", "warmup": 3}),
        ("a.b=c=d", "c=d"),
        ("a.b=", ""),
    ],
)
def test_an_assignment_holds_a_toml_value_or_plain_text(text: str, value: Any) -> None:
    assert parse_assignment(text) == ("a.b", value)


@pytest.mark.parametrize("text", ["", "steps", "=3", "train.=3", ".steps=3", "train..steps=3"])
def test_an_assignment_without_key_or_value(text: str) -> None:
    with pytest.raises(CanonError) as caught:
        parse_assignment(text)
    assert str(caught.value) == f'--set takes section.key=value, as in --set train.steps=100; got "{text}".'


def test_assign_makes_tables_and_refuses_to_go_through_a_value() -> None:
    table: dict[str, Any] = {"a": {"b": 1}}
    assign(table, "a.c.d", 2)
    assert table == {"a": {"b": 1, "c": {"d": 2}}}
    with pytest.raises(CanonError, match=r"^a\.b\.x cannot be set: b is a value, not a table\.$"):
        assign(table, "a.b.x", 3)


def test_toml_mistakes_name_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[train]\nsteps = 3\nbatch 4\n")
    with pytest.raises(CanonError, match=r"bad\.toml is not valid TOML: .*line 3"):
        read_toml(path)
    path.write_bytes(b"[train]\n# \xe9t\xe9\n")
    with pytest.raises(CanonError, match=r"bad\.toml cannot be read: it is not UTF-8 text \(byte 10\)\.$"):
        read_toml(path)
    with pytest.raises(CanonError, match=r"none\.toml cannot be read: no such file or directory\.$"):
        read_toml(tmp_path / "none.toml")


def test_unknown_names_the_nearest_or_all_or_how_many() -> None:
    few, many = ["red", "green", "blue"], [f"n{i}" for i in range(13)]
    assert str(unknown("colour", "gren", few)) == 'No colour "gren"; did you mean green?'
    assert str(unknown("colour", "xyz", few)) == 'No colour "xyz"; there are: blue, green, red.'
    assert str(unknown("number", "xyz", many)) == 'No number "xyz"; there are 13 of them.'


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("resnet:35", "resnet:34"),
        ("resnet:60", "resnet:56"),
        ("resnet:1000", "resnet:1202"),
        ("resnet:42", "resnet:34"),  # as near as resnet:50: the first of the names
        ("vgg:15bn", "vgg:16bn"),
        ("resnet:tiney", "resnet:tiny"),
        ("resnt:34", "resnet:34"),
    ],
)
def test_unknown_number_names_the_nearest_number(name: str, meant: str) -> None:
    known = ["resnet:18", "resnet:34", "resnet:50", "resnet:56", "resnet:1202", "resnet:tiny", "vgg:16bn", "vgg:11"]
    assert str(unknown("system", name, known)) == f'No system "{name}"; did you mean {meant}?'
