"""The files' own bytes, under their SHA-256: a user's file name never becomes a path."""

import hashlib
import os
import secrets
import time
from pathlib import Path

from engine.words import Words
from knowledge.base import FileRefused
from knowledge.reading import check

CHUNK = 1 << 20
STALE_S = 24 * 3600.0
"""A copy that nobody took over by then was left by a process that ended."""
UNREADABLE = Words(
    "无法读取这个文件：请检查它是否存在、是否有权限。", "This file cannot be read: does it exist, may it be read?"
)
FULL = Words(
    "资料库所在的磁盘写不进去：空间不足或没有权限。",
    "The library's disk cannot be written: it is full, or not allowed.",
)


class Originals:
    """`<folder>/originals/<sha256>`, and `<folder>/incoming/` for copies whose file is not yet in the table."""

    def __init__(self, folder: Path) -> None:
        self._kept, self._incoming = folder / "originals", folder / "incoming"

    def path(self, digest: str) -> Path:
        """Where the bytes lie."""
        return self._kept / digest

    def copy(self, source: Path) -> tuple[Path, str, int]:
        """A private copy, its SHA-256 and its size in bytes. Raises FileRefused."""
        check(source)
        copy, digest, size = self._incoming / secrets.token_hex(16), hashlib.sha256(), 0
        try:
            reading = source.open("rb")
        except (OSError, ValueError) as error:
            raise FileRefused(UNREADABLE) from error
        try:
            self._incoming.mkdir(parents=True, exist_ok=True)
            with reading, copy.open("xb") as writing:
                while chunk := reading.read(CHUNK):
                    digest.update(chunk)
                    size += writing.write(chunk)
                writing.flush()
                os.fsync(writing.fileno())
        except OSError as error:
            if copy.parent.is_dir():
                copy.unlink(missing_ok=True)
            raise FileRefused(FULL) from error
        return copy, digest.hexdigest(), size

    def keep(self, copy: Path, digest: str) -> None:
        """Take the copy over. Under the store's lock: until the table names it, `sweep` would delete it."""
        self._kept.mkdir(parents=True, exist_ok=True)
        copy.replace(self.path(digest))

    def sweep(self, digests: set[str]) -> None:
        """Delete what the table does not name. Under the store's lock."""
        for path in _entries(self._kept):
            if path.name not in digests:
                path.unlink(missing_ok=True)
        for path in _entries(self._incoming):
            if time.time() - path.stat().st_mtime > STALE_S:
                path.unlink(missing_ok=True)

    def wrong(self, digests: set[str]) -> list[str]:
        """Of `digests`, those whose bytes are missing or changed."""
        return [digest for digest in sorted(digests) if _digest(self.path(digest)) != digest]


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as reading:
            return hashlib.file_digest(reading, "sha256").hexdigest()
    except OSError:
        return None
