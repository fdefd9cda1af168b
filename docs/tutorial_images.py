"""The pictures of the tutorials, from what their commands leave: `small` of a PNG, `compared` of comparisons.

python docs/tutorial_images.py small attention.png docs/images/tutorials/attention.png --below 0.66
python docs/tutorial_images.py compared runs/short runs/compared docs/images/tutorials/compared.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from PIL import Image

from canon.figures import save
from canon.report.curves import dots_figure

_COLORS = 48  # of a figure's PNG: lines, text and their edges
_WIDEST = 1600  # pixels


def small(source: Path, target: Path, below: float) -> None:
    """The lower part of a figure in few colours, which a page loads at once."""
    picture = Image.open(source).convert("RGB")
    picture = picture.crop((0, round(below * picture.height), picture.width, picture.height))
    picture.thumbnail((_WIDEST, picture.height))
    picture.quantize(_COLORS).save(target, optimize=True)


def compared(folders: list[Path], target: Path) -> None:
    """Every run of some comparisons by the main metric, a row for each recipe in each of them."""
    facts = {folder.name: json.loads((folder / "compare.json").read_text(encoding="utf-8")) for folder in folders}
    rows = {f"{recipe['label']}, {name}": recipe for name, one in facts.items() for recipe in one["recipes"]}
    main = next(iter(facts.values()))["main"]
    values = {label: list(recipe["values"][main].values()) for label, recipe in rows.items()}
    intervals = {
        label: (recipe["metrics"][main]["low"], recipe["metrics"][main]["high"]) for label, recipe in rows.items()
    }
    save(dots_figure(values, intervals, f"test {main}"), target)
    small(target, target, 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("small", "compared"))
    parser.add_argument("sources", nargs="+", type=Path, metavar="SOURCE")
    parser.add_argument("target", type=Path)
    parser.add_argument("--below", type=float, default=0.0, help="small: the share of the height that is left out")
    arguments = parser.parse_args()
    if arguments.what == "compared":
        compared(arguments.sources, arguments.target)
    else:
        small(arguments.sources[0], arguments.target, arguments.below)


if __name__ == "__main__":
    main()
