"""`data.source` to a `Source`: which set, file or folder is meant, and which reader reads it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from canon.data import catalogue
from canon.data.catalogue import CATALOGUE, Dataset
from canon.data.catalogue.builtin import read_builtin
from canon.data.config import DataConfig
from canon.data.formats import cifar, idx, images, pairs, text
from canon.data.formats.conll import ENDINGS as CONLL
from canon.data.formats.files import ending, require_readable
from canon.data.formats.tables import ENDINGS as TABLES
from canon.data.formats.tables import read_table
from canon.data.schema import FileRecord
from canon.data.source import Part, Source, split_of
from canon.errors import CanonError, border

_FILES = (*TABLES, *text.ENDINGS[:-1], *images.ENDINGS, *CONLL, ".npy", ".tar", ".tgz")
_WORD_WITH_SEPARATOR = re.compile(r"[\w.~@+-]*[/\\][\w.~@+/\\-]*")


def open_source(config: DataConfig) -> Source:
    """A name of the catalogue first, then a path."""
    if config.source in CATALOGUE:
        record = CATALOGUE[config.source]
        return read_builtin(record.name) if record.builtin else _open_named(record, config)
    return open_path(find_path(config.source), config)


def find_path(source: str | Path, named: bool = True) -> Path:
    """The file or folder that a user named: the one door to a user's data. It is there, and is no device or pipe."""
    if not str(source):
        raise CanonError("data.source is missing: name a set (canon list datasets), a file or a folder.")
    with border(f'The path "{ascii(str(source))[1:-1]}"'):
        path = Path(source).expanduser()
        require_readable(path)
        if not path.exists():
            raise missing_path(path, named)
    return path


def file_of(source: str, text: bool = False) -> Path | None:
    """The file that an argument names, or None where it is itself the text.

    It names a file if there is one; if there is none but it looks like one (it begins with ./, ../ or ~/, is one word
    with a separator in it, or has the ending of a data file), that is an error. text: it is a text in any case.
    """
    if text or len(source) >= 4096 or "\n" in source or "\0" in source:
        return None
    with border(f'The path "{ascii(source)[1:-1]}"'):
        path = Path(source).expanduser()
        if path.exists() and not path.is_dir():
            require_readable(path)
            return path
        if not _looks_like_a_path(source):
            return None
    if path.is_dir():
        raise CanonError(f'{path} is a folder; give the files in it, or --text if "{source}" is the text itself.')
    missing = str(missing_path(path, named=False)).removesuffix(".")
    raise CanonError(f'{missing}; add --text if "{source}" is the text itself.')


def text_of(source: str, text: bool = False, instead: str = "") -> str:
    """An argument that is a text and no file, by the same rule; `instead` says how a file is given."""
    if (path := file_of(source, text)) is not None:
        raise CanonError(f'{path} is a file; {instead}add --text if "{source}" is the text itself.')
    return source


def _looks_like_a_path(source: str) -> bool:
    if source.startswith(("./", "../", "~/")) or ending(Path(source)) in _FILES:
        return True
    return bool(_WORD_WITH_SEPARATOR.fullmatch(source))


def missing_path(path: Path, named: bool = True) -> CanonError:
    """The sentence for a path that is not there, with the nearest name in its folder or in the catalogue."""
    siblings = (
        {item.name: str(path.with_name(item.name)) for item in path.parent.iterdir()} if path.parent.is_dir() else {}
    )
    siblings = {name: place for name, place in siblings.items() if name.isprintable()}  # half characters are not
    known = dict.fromkeys(CATALOGUE, "") if named and path.parent == Path() else {}
    near = get_close_matches(path.name, [*known, *siblings], n=1, cutoff=0.7)
    hint = f"; did you mean {siblings.get(near[0]) or near[0]}?" if near else "."
    what = "data set, file or folder" if named else "file or folder"
    return CanonError(f'There is no {what} "{path}"{hint}')


def open_path(path: Path, config: DataConfig, like: Source | None = None) -> Source:
    """A file or folder; `like` is the training source that a valid or test file belongs to."""
    path = find_path(path, named=like is None)
    kind = format_of(path, config.format)
    if kind in ("conll", "squad"):
        raise CanonError(f'data.format = "{kind}" is for fine-tuning: canon train finetune --data {path}.')
    if kind == "table":
        return _open_tables(path, config)
    if kind == "text":
        return text.read_text_source(path, config)
    if kind == "pairs":
        return _open_pairs(path, config)
    if kind == "idx":
        return idx.read_folder(_folder(path, "idx"), like.classes if like else ())
    if kind == "cifar":
        found = cifar.find(path)
        if found is None:
            raise CanonError(f"{path} has none of the files {', '.join(cifar.EXPECTED)}.")
        return cifar.read_cifar(found)
    return images.read_folder(_folder(path, "images"), config, like if like and like.kind == "image" else None)


def _folder(path: Path, kind: str) -> Path:
    if not path.is_dir():
        raise CanonError(f'{path} is a file; data.format = "{kind}" reads a folder.')
    return path


def format_of(path: Path, wanted: str = "auto") -> str:
    """table, text, pairs, images, idx or cifar: as the setting says, else by names and contents."""
    if wanted != "auto":
        return wanted
    if path.is_file():
        if ending(path) in TABLES:
            return "table"
        if path.name.endswith((".tar.gz", ".tgz", ".tar")):
            return "cifar"
        if ending(path) in text.ENDINGS and not path.name.endswith("ubyte"):
            return "text"
        if path.suffix.lower() in images.ENDINGS or idx.NAME.match(path.name):
            raise CanonError(f"{path} is one file of a set of images; give the folder it is in.")
        raise CanonError(f'{path}: the ending "{ending(path)}" is not known; say what it is with data.format.')
    if idx.is_idx_folder(path):
        return "idx"
    if cifar.find(path) is not None:
        return "cifar"
    files = [item for item in images.visible(path) if item.is_file()]
    if pairs.pair_languages(path):
        return "pairs"
    if any(ending(item) in TABLES for item in files):
        return "table"
    if text.text_files(path) and not any(item.suffix.lower() in images.ENDINGS for item in _sample(path)):
        return "text"
    if not files and not any(item.is_dir() for item in images.visible(path)):
        raise CanonError(f"{path} is an empty folder.")
    return "images"


def _sample(folder: Path) -> list[Path]:
    """The files of the folder and of its first sub-folders, two levels down."""
    level, found = [folder], []
    for _ in range(3):
        items = [item for place in level[:8] for item in images.visible(place)]
        found += [item for item in items if item.is_file()]
        level = [item for item in items if item.is_dir()]
    return found


def table_files(folder: Path) -> dict[str, Path]:
    """train.csv, valid.csv and test.csv of a folder; or its only table."""
    files = [item for item in images.visible(folder) if item.is_file() and ending(item) in TABLES]
    if len(files) == 1:
        return {"train": files[0]}
    found: dict[str, Path] = {}
    for file in files:
        split = split_of(file)
        if split in found:
            raise CanonError(
                f"{folder}: {found[split].name} and {file.name} both seem to be the {split} part; keep one."
            )
        if split:
            found[split] = file
    if "train" not in found:
        raise CanonError(f"{folder} has {len(files)} tables and none is named train; give the file.")
    return found


def _open_tables(path: Path, config: DataConfig) -> Source:
    files = {"train": path} if path.is_file() else table_files(path)
    parts = {split: Part(read_table(file, config)) for split, file in files.items()}
    return Source(path.name, "features", parts, files=tuple(FileRecord.of(file) for file in files.values()))


def _open_pairs(path: Path, config: DataConfig) -> Source:
    """Two files by their languages, or tables of two columns."""
    parts: dict[str, Part] = {}
    notes: list[str] = []
    if path.is_dir() and (config.languages or pairs.pair_languages(path)):
        if len(config.languages) not in (0, 2):
            raise CanonError(f"data.languages must name two, from and to; got {len(config.languages)}.")
        both = pairs.pair_files(path, *config.languages)
        found = {split: pairs.read_pair_files(*files, config.encoding) for split, files in both.items()}
        files = [file for two in both.values() for file in two]
    else:
        tables = {"train": path} if path.is_file() else table_files(path)
        found = {split: pairs.read_pair_table(file, config.features, config.encoding) for split, file in tables.items()}
        files = list(tables.values())
    for split, (read, told) in found.items():
        parts[split] = Part(read)
        notes += told
    records = tuple(FileRecord.of(file) for file in files)
    return Source(path.name, "pairs", parts, files=records, notes=tuple(notes))


def _open_named(record: Dataset, config: DataConfig) -> Source:
    from dataclasses import replace

    if record.format in ("conll", "squad"):
        raise CanonError(f"{record.name} is {record.kind} for fine-tuning: canon train finetune --data {record.name}.")
    folder = catalogue.require(record.name)
    found = {file: catalogue.find_file(folder, file) for file in record.files}
    for file, path in found.items():
        if path is not None:
            catalogue.verify(path, file)
    if record.format == "idx":
        return replace(idx.read_folder(folder, record.classes), name=record.name)
    if record.format == "cifar":
        place = cifar.find(folder)
        assert place is not None
        return replace(cifar.read_cifar(place), name=record.name)
    if record.format == "pairs":
        languages = config.languages or record.languages
        source = _open_pairs(folder, replace(config, languages=languages))
        return replace(source, name=record.name, tokenizers=record.tokenizers, origin={"languages": list(languages)})
    files = {file.split: path for file, path in found.items() if path is not None}
    records = tuple(FileRecord.of(path) for path in files.values())
    if record.format == "text":
        parts = {split: Part(text.load([path])) for split, path in files.items()}
        return Source(record.name, "text", parts, files=records, tokenizers=record.tokenizers)
    parts = {split: Part(read_table(path, config, record.columns)) for split, path in files.items()}
    return Source(record.name, "features", parts, label=record.label, features=record.features, files=records)
