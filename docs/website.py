"""Builds the site of these pages: `python docs/website.py`; it opens offline from the folder that it names at the end.

Before the pages are built, the recipes of the gallery are trained, unless their runs are there. The functions `on_…`
are MkDocs's hooks (mkdocs.yml): they spell out the patterns of the navigation, take in the pages and files that stand
outside of docs/, and bend the links to them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from posixpath import basename, dirname, normpath, relpath
from typing import Any

from writing import ROOT, slug, table

from canon import registry
from canon.registry.chapters import CHAPTERS

BUILD = ROOT / "build"
GALLERY = ("digits-mlp", "digits-lenet", "cancer-adaboost", "cbow", "cliff")
# Pages of the repository that are not in docs/, by where the site has them.
OUTSIDE = {
    "README.md": "start.md",
    "README.zh-CN.md": "zh/start.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
# A line of Chinese that goes on in the next: the break would be shown as a space.
_BROKEN = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n(?=[\u3001-\u9fff])")
_COMMENT = re.compile(r"^<!-- .* -->$", re.MULTILINE)


# ---- the navigation


def spelled(nav: list[Any]) -> list[Any]:
    """The navigation with its patterns replaced by pages: `systems/*` by chapter, `FOLDER/*` in the order of the index
    of the pages."""
    return [
        {title: _below(part) for title, part in entry.items()} if isinstance(entry, dict) else entry for entry in nav
    ]


def _below(part: Any) -> Any:
    if isinstance(part, list):
        return spelled(part)
    folder, star, _ = part.partition("/*")
    if not star:
        return part
    return _chapters() if folder == "systems" else _folder(folder)


def _chapters() -> list[Any]:
    chapters = []
    for chapter in CHAPTERS:
        pages = [system.docs for system in registry.SYSTEMS if system.chapter == chapter.name]
        if pages:
            chapters.append({chapter.title: [page.removeprefix("docs/") for page in dict.fromkeys(pages)]})
    return chapters


def _folder(folder: str) -> list[str]:
    """Its pages, in the order in which the index of the folder's language names them."""
    index = (ROOT / "docs" / dirname(folder) / "index.md").read_text(encoding="utf-8")
    named = re.findall(rf"\]\(({basename(folder)}/[\w-]+\.md)\)", index)
    pages = sorted(page.name for page in (ROOT / "docs" / folder).glob("*.md"))
    order = list(dict.fromkeys([*named, *(f"{basename(folder)}/{page}" for page in pages)]))
    return [f"{dirname(folder)}/{page}".lstrip("/") for page in order]


def listed(nav: list[Any]) -> Iterator[str]:
    """The pages of a navigation."""
    for entry in nav:
        if isinstance(entry, dict):
            for part in entry.values():
                yield from listed(part if isinstance(part, list) else [part])
        else:
            yield entry


# ---- MkDocs's hooks


def on_config(config: Any) -> Any:
    config.nav = spelled(config.nav)
    config.mdx_configs["toc"]["slugify"] = lambda heading, _separator: slug(heading)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that stand outside of docs/, what pages link to there, and the gallery."""
    from mkdocs.structure.files import File

    for outside, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / outside).read_text(encoding="utf-8")))
    for path in {path for file in list(files.documentation_pages()) for path in _linked(file)}:
        files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    for name in GALLERY:
        for file in ("report.html", "curves.svg"):
            picture = BUILD / "gallery" / name / file
            if picture.is_file():
                files.append(File.generated(config, f"gallery/{name}/{file}", abs_src_path=str(picture)))
    files.append(File.generated(config, "gallery.md", content=gallery()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to other places of the repository lead to where the site has them; markers of tables are left out."""
    home = page.file.src_uri
    origin = _origin(home)

    def bent(match: re.Match[str]) -> str:
        start, target, end = match.groups()
        if re.match(r"\w+:", target):
            return match[0]
        path = normpath(f"{dirname(origin)}/{target}".lstrip("/"))
        return f"{start}{relpath(place(path), dirname(home) or '.')}{end}" if (ROOT / path).exists() else match[0]

    return _LINK.sub(bent, _BROKEN.sub("", _COMMENT.sub("", markdown)))


def on_page_context(context: Any, page: Any, config: Any, **_: Any) -> Any:
    """The theme speaks the page's language."""
    config.theme["language"] = "zh" if page.file.src_uri.startswith("zh/") else "en"
    return context


def place(path: str) -> str:
    """Where the site has a file of the repository."""
    return OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}")


def _origin(uri: str) -> str:
    """Where the repository has a page of the site."""
    return next((path for path, name in OUTSIDE.items() if name == uri), f"docs/{uri}")


def _linked(file: Any) -> Iterator[str]:
    """The files outside of docs/ that a page links to."""
    origin = _origin(file.src_uri)
    for _, target, _ in _LINK.findall(file.content_string):
        path = normpath(f"{dirname(origin)}/{target}".lstrip("/"))
        if not re.match(r"\w+:|docs/", path) and path not in OUTSIDE and (ROOT / path).is_file():
            yield path


# ---- the gallery


def gallery() -> str:
    """The page of reports: of each run its curve, its scores, and a link to its report."""
    from canon.registry.recipes import recipe_records
    from canon.training.run import Run

    records = {record.name.rpartition("/")[2]: record for record in recipe_records()}
    parts = [
        "# Gallery\n",
        "Reports as `canon train` leaves them, one for each recipe. `make site` trained them on this machine.\n",
    ]
    for name in GALLERY:
        folder = BUILD / "gallery" / name
        if not (folder / "result.json").is_file():
            continue
        run = Run.open(folder)
        system, _ = registry.find(records[name].system)
        scores: Mapping[str, float] = (run.result or {})["scores"]["test"]
        rows = [[f"`{metric}`", f"{value:.4g}"] for metric, value in scores.items() if value is not None]
        parts += [
            f"## {system.title}: `{name}`\n",
            f"`canon train {name}` · [the report](gallery/{name}/report.html)\n",
            f"[![Curves of {name}](gallery/{name}/curves.svg)](gallery/{name}/report.html)\n",
            table(("on the test set", ""), rows[:6]),
        ]
    return "\n".join(parts)


def trained() -> None:
    """Trains the recipes of the gallery that have no finished run, and draws their curves."""
    for name in GALLERY:
        folder = BUILD / "gallery" / name
        if not (folder / "result.json").is_file():
            _canon("train", name, "--out", str(folder), *(["--resume"] if folder.exists() else []))
        if not (folder / "curves.svg").is_file():
            _canon("plot", str(folder), "--out", str(folder / "curves.svg"))


def _canon(*words: str) -> None:
    print(f"canon {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "canon", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-gallery", action="store_true", help="train nothing; show the runs that are there")
    parser.add_argument("--out", default=str(BUILD / "site"), help="the folder of the site")
    arguments = parser.parse_args()
    if not arguments.no_gallery:
        trained()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", arguments.out]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    print(f"{arguments.out}/index.html")


if __name__ == "__main__":
    main()
