"""The catalogue: where sets are looked for, and downloads from a server that is right, wrong, short or absent."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import lzma
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from canon.data import catalogue
from canon.data.catalogue import CATALOGUE, Dataset, File, fetch, locate
from canon.data.config import DataConfig
from canon.data.formats.text import documents
from canon.data.kinds.text import TEXT
from canon.errors import CanonError
from tests.reading import read_as

CONTENT = b"one line\nanother line\n" * 5000
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANON_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "data"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/good.txt": CONTENT, "/wrong.txt": CONTENT[::-1], "/short.txt": CONTENT}.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:1000] if self.path == "/short.txt" else body)

        def log_message(self, *_: object) -> None: ...

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}/"
    httpd.shutdown()
    httpd.server_close()


def add(monkeypatch: pytest.MonkeyPatch, url: str, name: str = "good.txt") -> None:
    file = File(name, "train", HASH, url + name, HASH, len(CONTENT))
    record = Dataset("toy", "A toy", "text", "2 lines", "here", "none", (file,), format="text")
    monkeypatch.setitem(CATALOGUE, "toy", record)


def test_fetch_then_read(server: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, server)
    assert locate("toy") is None
    assert fetch("toy") == folder / "toy" == locate("toy")
    assert [path.name for path in (folder / "toy").iterdir()] == ["good.txt"]
    assert (folder / "toy" / "good.txt").read_bytes() == CONTENT
    text = TEXT.source(DataConfig(source="toy")).parts["train"]
    assert len(list(documents(text.files[0]))) == 10000


@pytest.mark.parametrize(
    "name,sentence",
    [
        ("wrong.txt", f"wrong.txt sent a file with sha256 {hashlib.sha256(CONTENT[::-1]).hexdigest()}, not {HASH}"),
        ("short.txt", r"short.txt sent 1,000 of 110,000 bytes; nothing is kept"),
        (
            "absent.txt",
            r"toy could not be fetched \(the server says 404 Not Found\): put absent.txt from http.*into .*toy",
        ),
    ],
)
def test_bad_downloads_leave_nothing(
    server: str, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    add(monkeypatch, server, name)
    with pytest.raises(CanonError, match=sentence):
        fetch("toy")
    assert list((folder / "toy").iterdir()) == []


def test_offline_is_one_sentence_with_file_address_and_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    add(monkeypatch, f"http://127.0.0.1:{port}/")
    with pytest.raises(CanonError) as caught:
        fetch("toy")
    assert str(caught.value) == (
        "toy could not be fetched (connection refused): "
        f"put good.txt from http://127.0.0.1:{port}/good.txt into {folder / 'toy'}."
    )


def test_absent_sets_say_what_to_do(folder: Path) -> None:
    with pytest.raises(CanonError) as caught:
        read_as(DataConfig(source="cifar-10"), "pixels")
    assert str(caught.value) == (
        "cifar-10 is not on this machine: run canon data fetch cifar-10, or put cifar-10-python.tar.gz "
        f"from https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz into {folder / 'cifar-10'}."
    )
    with pytest.raises(
        CanonError, match=r"no address is known for it; put ptb\.train.txt, ptb.valid.txt, ptb.test.txt into"
    ):
        fetch("ptb")
    with pytest.raises(CanonError, match="digits comes with scikit-learn; there is nothing to fetch"):
        fetch("digits")
    with pytest.raises(CanonError, match=r'No data set "cifar10"; did you mean cifar-10\?'):
        fetch("cifar10")


@pytest.mark.parametrize("name", ["good.txt", "good.txt.gz", "good.txt.xz"])
def test_files_may_be_compressed(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    add(monkeypatch, "http://127.0.0.1:1/")
    (folder / "toy").mkdir(parents=True)
    packed = {".gz": gzip.compress, ".xz": lzma.compress}.get(name[-3:], bytes)(CONTENT)
    (folder / "toy" / name).write_bytes(packed)
    assert fetch("toy") == folder / "toy"
    source = TEXT.source(DataConfig(source="toy"))
    assert source.files[0].sha256 == hashlib.sha256(packed).hexdigest()


def test_a_changed_file_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, "http://127.0.0.1:1/")
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / "good.txt.gz").write_bytes(gzip.compress(CONTENT + b"x"))
    with pytest.raises(CanonError, match=r"good\.txt\.gz is not the published file \(sha256 "):
        TEXT.source(DataConfig(source="toy"))


def test_the_folder_is_canon_data_or_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CANON_DATA")
    assert catalogue.data_folder() == tmp_path / "data"  # CANON_CACHE
    monkeypatch.delenv("CANON_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert catalogue.data_folder() == tmp_path / "canon" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert catalogue.data_folder() == Path.home() / ".cache" / "canon" / "data"


def test_records_are_whole() -> None:
    for name, record in CATALOGUE.items():
        assert record.name == name and record.title and record.licence and record.source and record.size
        assert record.builtin != bool(record.files)
        for file in record.files:
            assert all(re.fullmatch("[0-9a-f]{64}", value) for value in (file.content, file.sha256) if value)
            assert bool(file.url) == bool(file.sha256) == bool(file.bytes)
            assert file.content or file.sha256
            assert not file.url or file.url.startswith("https://")


def test_the_catalogue_is_light() -> None:
    heavy = "{'numpy', 'torch', 'pyarrow', 'PIL', 'sklearn', 'rich'}"
    code = f"import sys, canon.data.catalogue; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
