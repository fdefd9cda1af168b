"""Named data sets: found on this machine, checked by hash, fetched from their address.

A set is looked for in CANON_DATA (default ~/.cache/canon/data), in the folders its record names, each file plain or
compressed, and then where a distribution's package puts it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from canon.data.catalogue.sets import RECORDS, Dataset, File
from canon.data.formats.files import COMPRESSIONS, open_bytes
from canon.data.progress import bar
from canon.errors import CanonError, unknown
from canon.storage import cache_folder, sync_file

TIMEOUT = 30.0  # seconds without a byte
CATALOGUE: dict[str, Dataset] = {record.name: record for record in RECORDS}


def find(name: str) -> Dataset:
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    return CATALOGUE[name]


def data_folder() -> Path:
    """CANON_DATA, else data in the cache."""
    if os.environ.get("CANON_DATA"):
        return Path(os.environ["CANON_DATA"]).expanduser()
    return cache_folder() / "data"


def locate(name: str) -> Path | None:
    """The folder that holds all files of the set, or None: then it must be fetched. None for built-in sets too."""
    record = find(name)
    for folder in (record.name, *record.folders):
        place = data_folder() / folder  # an absolute folder stays what it is
        if record.files and all(find_file(place, file) is not None for file in record.files):
            return place
        if record.format == "cifar" and (place / "cifar-10-batches-py" / "data_batch_1").is_file():
            return place
    return None


def find_file(folder: Path, file: File) -> Path | None:
    """The file under its own name, with a compression's ending, or without the one it is published with."""
    names = [file.name, *(file.name + suffix for suffix in COMPRESSIONS)]
    if Path(file.name).suffix in COMPRESSIONS and file.content:
        names += [Path(file.name).stem, *(Path(file.name).stem + suffix for suffix in COMPRESSIONS)]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def require(name: str) -> Path:
    """`locate`, or the error that says how to get the set."""
    folder = locate(name)
    if folder is None:
        record = find(name)
        way = f"run canon data fetch {name}, or put" if record.files[0].url else "no address is known for it; put"
        raise CanonError(f"{name} is not on this machine: {way} {wanted(record)}.")
    return folder


def wanted(record: Dataset) -> str:
    """Files, address and folder, for a sentence."""
    files = ", ".join(file.name for file in record.files)
    urls = [file.url for file in record.files if file.url]
    places = urls if len(urls) == 1 else dict.fromkeys(url.rpartition("/")[0] + "/" for url in urls)
    address = f" from {' and '.join(places)}" if urls else ""
    return f"{files}{address} into {data_folder() / record.name}"


def verify(path: Path, file: File) -> None:
    """The file's content must be the published one. Hashes the file as it lies first: that needs no decompression."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest not in (file.sha256, file.content) and file.content:
        with open_bytes(path) as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    if digest not in (file.sha256, file.content):
        expected = file.content or file.sha256
        raise CanonError(
            f"{path} is not the published file (sha256 {digest}, not {expected}); remove it and get it again."
        )


def fetch(name: str, progress: bool = True) -> Path:
    """Downloads what is missing of a set into CANON_DATA and returns the folder; a file comes whole or not at all."""
    record = find(name)
    if record.builtin:
        raise CanonError(f"{name} comes with {record.source.split(';')[0].split(':')[0]}; there is nothing to fetch.")
    folder = locate(name)
    if folder is None:
        if not all(file.url for file in record.files):
            return require(name)
        folder = data_folder() / name
        for file in record.files:
            if find_file(folder, file) is None:
                _download(record, file, folder / file.name, progress)
    return folder


def _download(record: Dataset, file: File, path: Path, progress: bool) -> None:
    """One file from its address, hashed while it streams, kept only if it is whole and the published one."""
    import http.client
    import urllib.error
    import urllib.request

    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, received = hashlib.sha256(), 0
        request = urllib.request.Request(file.url, headers={"User-Agent": "canon"})
        with (
            urllib.request.urlopen(request, timeout=TIMEOUT) as response,
            part.open("wb") as target,
            bar(path.name, file.bytes, "bytes", progress) as shown,
        ):
            while chunk := response.read(1 << 16):
                digest.update(chunk)
                target.write(chunk)
                received += len(chunk)
                shown.advance(len(chunk))
        sync_file(part)
        if file.bytes and received != file.bytes:
            raise CanonError(f"{file.url} sent {received:,} of {file.bytes:,} bytes; nothing is kept, try again.")
        if (sha256 := digest.hexdigest()) != file.sha256:
            raise CanonError(f"{file.url} sent a file with sha256 {sha256}, not {file.sha256}; it is not kept.")
        part.replace(path)
    except (OSError, http.client.HTTPException) as mistake:
        if isinstance(mistake, urllib.error.HTTPError):
            why = f"the server says {mistake.code} {mistake.reason}"
        else:
            cause = getattr(mistake, "reason", mistake)
            why = str(getattr(cause, "strerror", None) or cause or type(cause).__name__).rstrip(".").lower()
        raise CanonError(f"{record.name} could not be fetched ({why}): put {wanted(record)}.") from None
    finally:
        part.unlink(missing_ok=True)
