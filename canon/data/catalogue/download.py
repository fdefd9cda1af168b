"""One file from its address, hashed while it streams, kept only if it is whole and the published one."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from canon.data.progress import bar
from canon.errors import CanonError

if TYPE_CHECKING:
    from canon.data.catalogue import File

TIMEOUT = 30.0  # seconds without a byte


def download(file: File, folder: Path, trouble: str, remedy: str, progress: bool = True) -> Path:
    """`trouble` and `remedy` are the two halves of the sentence for a connection that fails."""
    path, part = folder / file.name, folder / f"{file.name}.{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        digest, received = _stream(file, part, progress)
        if file.bytes and received != file.bytes:
            raise CanonError(f"{file.url} sent {received:,} of {file.bytes:,} bytes; nothing is kept, try again.")
        if digest != file.sha256:
            raise CanonError(f"{file.url} sent a file with sha256 {digest}, not {file.sha256}; it is not kept.")
        part.replace(path)
    except (OSError, http.client.HTTPException) as mistake:
        raise CanonError(f"{trouble} ({_reason(mistake)}): put {remedy}.") from None
    finally:
        part.unlink(missing_ok=True)
    return path


def _stream(file: File, part: Path, progress: bool) -> tuple[str, int]:
    digest, received = hashlib.sha256(), 0
    request = urllib.request.Request(file.url, headers={"User-Agent": "canon"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response, part.open("wb") as target:
        with bar(file.name, file.bytes, "bytes", progress) as shown:
            while chunk := response.read(1 << 16):
                digest.update(chunk)
                target.write(chunk)
                received += len(chunk)
                shown.advance(len(chunk))
        target.flush()
        os.fsync(target.fileno())
    return digest.hexdigest(), received


def _reason(mistake: Exception) -> str:
    if isinstance(mistake, urllib.error.HTTPError):
        return f"the server says {mistake.code} {mistake.reason}"
    reason = getattr(mistake, "reason", mistake)
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__).rstrip(".").lower()
