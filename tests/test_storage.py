"""Files are whole or absent, together or not at all; links, devices and leftovers; JSON by one reader."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from canon import storage
from canon.errors import CanonError

LEFT = ".a.txt.99999999.writing"  # of a process that is gone: numbers of processes end below it


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_is_replaced_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    with storage.writing(path) as part:
        part.write_text("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(KeyError), storage.writing(path) as part:
        part.write_text("two")
        raise KeyError
    assert path.read_text() == "one" and names(tmp_path) == ["new", "new/a.txt"]


def test_folders_that_were_made_go_with_the_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyError), storage.writing(tmp_path / "a" / "b" / "c.txt") as part:
        part.write_text("half")
        raise KeyError
    with pytest.raises(KeyError), storage.writing_folder(tmp_path / "a" / "b"):
        raise KeyError
    assert names(tmp_path) == []


@pytest.mark.parametrize("earlier", [True, False])
def test_several_files_are_replaced_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths if earlier else []:
        path.write_text("earlier")
    replace = os.replace

    def last_fails(source: Path, target: Path) -> None:
        if Path(target).name == "c":
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(os, "replace", last_fails)
    with pytest.raises(CanonError, match="a cannot be written: Permission denied"), storage.writing(*paths) as parts:
        for part in parts:
            part.write_text("later")
    assert names(tmp_path) == (["a", "b", "c"] if earlier else [])
    assert all(path.read_text() == "earlier" for path in paths if earlier)


def test_a_file_system_without_links_keeps_the_earlier_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", no_links)
    test_several_files_are_replaced_together_or_not_at_all(tmp_path, monkeypatch, True)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("one")
    (tmp_path / "link").symlink_to("real")
    storage.write_text(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "two"


def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    (tmp_path / LEFT).write_text("half")
    living = tmp_path / f".a.txt.{os.getppid()}.writing"
    living.write_text("half")
    storage.write_text(tmp_path / "a.txt", "whole")
    assert names(tmp_path) == sorted([living.name, "a.txt"])


@pytest.mark.parametrize("name", ["a" * 255, "ü" * 127, "[*?]", "-", "a\nb"])
def test_any_name_that_a_file_can_have(tmp_path: Path, name: str) -> None:
    storage.write_text(tmp_path / name, "x")
    assert names(tmp_path) == [name]


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a folder": (lambda folder: folder, "is a folder: give the name of a file"),
    "below a file": (lambda folder: folder / "file" / "x", "cannot be written: Not a directory"),
    "a long name": (lambda folder: folder / ("x" * 300), "cannot be written: [Ff]ile name too long"),
    "a zero": (lambda folder: folder / "a\0b", "cannot be written: embedded null byte"),
    "half a character": (lambda folder: folder / "\ud800", "cannot be written: it holds"),
    "a full device": (lambda _: Path("/dev/full"), "The disk is full: /dev/full cannot be written"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, case: str) -> None:
    path, sentence = BAD[case]
    (tmp_path / "file").write_text("earlier")
    with pytest.raises(CanonError, match=sentence):
        storage.write_text(path(tmp_path), "x")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "earlier"


def test_a_text_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CanonError, match="half a character"):
        storage.write_text(tmp_path / "a", "\ud800")
    assert names(tmp_path) == []


@pytest.mark.parametrize("stream", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_open_stream_is_written_to(tmp_path: Path, stream: str) -> None:
    code = (
        f"from pathlib import Path; from canon.storage import write_text; write_text(Path({stream!r}), 'x'); print('y')"
    )
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (piped.stdout, piped.stderr) == ("xy\n", "")
    with (tmp_path / "out").open("a") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == "xy\n" and names(tmp_path) == ["out"]


def test_a_folder_is_there_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder"
    with storage.writing_folder(path) as part:
        (part / "below").mkdir()
        (part / "below" / "a").write_text("x")
        (part / "link").symlink_to("below")
        assert not path.exists()
    assert names(path) == ["below", "below/a", "link"] and names(path.parent)[0] == "folder"
    with pytest.raises(CanonError, match="already exists"), storage.writing_folder(path):
        pass
    with (
        pytest.raises(CanonError, match="another process was first"),
        storage.writing_folder(tmp_path / "race") as part,
    ):
        (tmp_path / "race").mkdir()
        (tmp_path / "race" / "theirs").touch()
    assert names(tmp_path / "race") == ["theirs"] and not list(tmp_path.rglob("*.writing"))


JSON = {"cut": '{"a": ', "deep": "[" * 100_000, "digits": "9" * 5000, "bytes": "\udcff", "empty": ""}


@pytest.mark.parametrize("case", JSON)
def test_json_that_cannot_be_read_is_one_sentence(tmp_path: Path, case: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(JSON[case].encode(errors="surrogateescape"))
    with pytest.raises(CanonError, match=r"a\.json cannot be read: \S.*\.$"):
        storage.read_json(path)
