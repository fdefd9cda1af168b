"""The Chinese texts that prompt/zh-base learns from: one text a line, without any that a test set has.

    python benchmarks/zh_texts.py FOLDER   # writes FOLDER/zh-texts/train.txt

FOLDER is CANON_DATA, with fewclue, tnews and chnsenticorp in it. Texts: the unlabelled parts of FewCLUE (eprstmt,
bustm, tnews), the training parts of TNEWS and ChnSentiCorp, of each text one line, each text once. Left out: texts
that are in a test part of FewCLUE (eprstmt, bustm, ocnli, tnews), of TNEWS (its dev part) or of ChnSentiCorp, and
texts of fewer than four characters. Lines are in the order of their hashes, so that the last ones, which are held
out, are of all sources, and the file is always the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from canon.data.formats.files import COMPRESSIONS, read_text

LEARNED = (
    "fewclue/eprstmt/unlabeled.json",
    "fewclue/bustm/unlabeled.json",
    "fewclue/tnews/unlabeled.json",
    "tnews/train.tsv",
    "chnsenticorp/train.tsv",
)
TESTED = (
    *(f"fewclue/{task}/test_public.json" for task in ("eprstmt", "bustm", "ocnli", "tnews")),
    "tnews/dev.tsv",
    "chnsenticorp/test.tsv",
)
TEXTS = ("sentence", "sentence1", "sentence2")  # of FewCLUE's rows
LEAST = 4  # characters


def lines_of(folder: Path, name: str) -> list[str]:
    file = next(path for path in (folder / f"{name}{ending}" for ending in ("", *COMPRESSIONS)) if path.is_file())
    return read_text(file).splitlines()


def texts_of(folder: Path, name: str) -> Iterator[str]:
    """The texts of one file, each as one line."""
    lines = [line for line in lines_of(folder, name) if line.strip()]
    if name.endswith(".json"):
        rows = map(json.loads, lines)
        texts = [row[key] for row in rows for key in TEXTS if key in row]
    elif name.startswith("tnews/"):  # text, label
        texts = [line.split("\t")[0] for line in lines]
    else:  # label, text, after a header line
        texts = [line.split("\t")[1] for line in lines[1:]]
    return (" ".join(text.split()) for text in texts)


def write(folder: Path) -> tuple[Path, str]:
    tested = {text for name in TESTED for text in texts_of(folder, name)}
    texts = {text for name in LEARNED for text in texts_of(folder, name)}
    kept = sorted((text for text in texts - tested if len(text) >= LEAST), key=lambda text: sha256(text))
    content = "".join(f"{text}\n" for text in kept)
    path = folder / "zh-texts" / "train.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="\n")
    report = f"{path}: {len(kept):,} texts, {len(content):,} characters, {len(content.encode()):,} bytes"
    return path, f"{report}; {len(texts & tested):,} texts of test parts left out; sha256 {sha256(content)}"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sample(folder: Path) -> None:
    """A few rows of each file."""
    for number, name in enumerate((*LEARNED, *TESTED)):
        words = [f"第{number}个文件里的第{row}句话" for row in range(3)] + ["测试里也有的一句话"]
        if name.endswith(".json"):
            lines = [json.dumps({"sentence": text}) for text in words]
        else:
            lines = [f"{text}\tx" if name.startswith("tnews/") else f"1\t{text}" for text in ("text", *words)]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="CANON_DATA")
    parser.add_argument("--quick", action="store_true", help="on a few sentences, in a temporary folder")
    options = parser.parse_args()
    if not options.quick and options.folder is None:
        parser.error("give the folder that has fewclue, tnews and chnsenticorp")
    with tempfile.TemporaryDirectory() as temporary:
        if options.quick:
            sample(Path(temporary))
        print(write(Path(temporary) if options.quick else options.folder)[1])


if __name__ == "__main__":
    main()
