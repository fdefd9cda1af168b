"""The site of the docs: its navigation against the pages that there are, and a strict build."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]


PAGES = {page: page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")}


def script(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """A script of docs/, imported."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module(name)


@pytest.fixture
def website(monkeypatch: pytest.MonkeyPatch) -> Any:
    return script(monkeypatch, "website")


def test_every_page_is_in_the_navigation_once(website: Any) -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = list(website.listed(website.spelled(nav)))
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]
    assert sorted(listed) == sorted([*pages, *website.OUTSIDE.values(), "gallery.md"])


def test_links_of_the_repository_are_bent_to_the_site(website: Any) -> None:
    class Page:
        class file:  # noqa: N801
            src_uri = "zh/how-it-works.md"

    text = "[a](../data.md) [b](../../CONTRIBUTING.md#tests) [c](../../LICENSE) [d](https://example.org/x)"
    bent = website.on_page_markdown(text, Page)
    assert bent == "[a](../data.md) [b](../contributing.md#tests) [c](../files/LICENSE) [d](https://example.org/x)"


def test_every_public_name_and_each_of_its_parameters_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    public = script(monkeypatch, "public")
    for name, thing in public.documented():
        text = inspect.getdoc(thing) or ""
        assert text, name
        given = public.signature_of(name, thing) or ""
        for parameter in re.findall(r"(?<=[(, *])(\w+): ", given.partition(") ->")[0]):
            assert re.search(rf"\b{parameter}\b", text), f"{name}: {parameter}"


def test_drawings_are_up_to_date_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, drawing in script(monkeypatch, "drawings").drawn().items():
        file = ROOT / "docs" / "images" / name
        assert file.read_text(encoding="utf-8") == drawing, f"{name}: python docs/drawings.py"
        assert any(f"images/{name})" in text for text in PAGES.values()), name


def test_every_page_on_how_it_works_is_short_and_has_a_drawing() -> None:
    for page in (page for page in PAGES if page.parent.name == "how"):
        assert len(PAGES[page].splitlines()) <= 80, page
        assert re.search(r"!\[.{10,}\]\(.*images/[\w-]+\.svg\)", PAGES[page]), page


def test_pictures_are_small_and_all_of_them_are_shown() -> None:
    shown = "".join([*PAGES.values(), *(page.read_text(encoding="utf-8") for page in ROOT.glob("README*.md"))])
    for picture in (ROOT / "docs").rglob("images/**/*.*"):
        assert f"{picture.name})" in shown, picture
        assert picture.stat().st_size < 150_000, picture


@pytest.mark.slow
def test_the_site_is_built_strictly_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    """A link or an anchor that leads nowhere ends the build."""
    pytest.importorskip("material")
    command = [sys.executable, str(ROOT / "docs" / "website.py"), "--no-gallery", "--out", str(tmp_path / "site")]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* href="https?:', text), page
        chinese = page.is_relative_to(tmp_path / "site" / "zh")
        assert f'<html lang="{"zh" if chinese else "en"}"' in text, page
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {entry["title"].replace("\u200b", "") for entry in index["docs"]}
    assert {"Residual networks (ResNet)", "工作原理"} <= titles
