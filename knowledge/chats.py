"""Where the files of single chats lie: one folder a process, so that a later one can tell what nobody uses any more."""

import hashlib
import os
import shutil
import socket
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

STARTED = int(psutil.Process().create_time())
"""Of this process, in seconds: its number alone may be another's after a while."""


class ChatFolders:
    """`<folder>/<process>/<chat>`; while the process lives it holds the lock `<folder>/<process>.lock`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = f"{_plain(socket.gethostname())}-{os.getpid()}-{STARTED}"
        self._lock: FileLock | None = None

    def of(self, chat: str) -> Path:
        """The chat's own folder, made when it is written to. The id is somebody else's text: it becomes no path."""
        return self._folder / self._process / hashlib.sha256(chat.encode("utf-8", "replace")).hexdigest()[:32]

    def hold(self) -> None:
        """Tell other processes that these chats live."""
        if self._lock is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._folder / f"{self._process}.lock", is_singleton=True, thread_local=False)
        lock.acquire(timeout=0)  # a singleton: another library of this process has it in common
        self._lock = lock

    def forget(self, chat: str) -> None:
        """Delete the chat's folder."""
        _delete(self.of(chat))

    def forget_dead(self) -> None:
        """Delete what ended processes left."""
        if not self._folder.is_dir():
            return
        for lock_path in self._folder.glob("*.lock"):
            if lock_path.stem == self._process:
                continue
            try:
                with FileLock(lock_path, timeout=0):
                    _delete(self._folder / lock_path.stem)
                    lock_path.unlink(missing_ok=True)
            except Timeout:  # it lives
                continue


def _delete(folder: Path) -> None:
    """Out of the way in one step; what a kill leaves half deleted is found by nobody, and goes with its process."""
    if not folder.exists():
        return
    doomed = folder.with_name(f"{folder.name}.gone")
    if doomed.exists():
        shutil.rmtree(doomed, ignore_errors=True)
    folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _plain(text: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in text)
