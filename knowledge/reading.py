"""A file is read in a process of its own: a bad one can be slow, huge or fatal there, and nobody else notices."""

import asyncio
import json
import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from engine.words import Words
from knowledge.base import Block, FileRefused, Locator, Reading
from knowledge.readers import limits
from knowledge.readers.refusals import CRASHED, TOO_MUCH, refused

CHILD = ("-m", "knowledge.reading_child")
"""What Python runs; the file's path and a name with its suffix come after it."""
_ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "TMPDIR")
"""What Python needs to start; keys and tokens of the app stay with the app."""
_log = logging.getLogger(__name__)


def read(path: Path, name: str) -> Reading:
    """The file at `path`, which people call `name`. Blocks; raises FileRefused, and nothing else for any file."""
    check(path)
    return ReadingProcess(path, name).finish()


async def read_async(path: Path, name: str) -> Reading:
    """The same beside the event loop; when it is cancelled, the process is killed."""
    process = ReadingProcess(path, name)
    try:
        return await asyncio.to_thread(_checked, process)
    finally:
        process.kill()


def _checked(process: "ReadingProcess") -> Reading:
    check(process.path)
    return process.finish()


def check(path: Path) -> None:
    """Refuse what is no file to be read, before anything opens it: a pipe would keep its reader for ever."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise refused("找不到或打不开这个文件。", "The file cannot be found or opened.") from error
    if not stat.S_ISREG(found.st_mode) or not os.access(path, os.R_OK):
        raise refused("这不是可以读取的文件。", "This is no file that can be read.")
    if found.st_size > limits.FILE_BYTES:
        raise refused(
            f"文件有 {found.st_size // limits.MIB} MB，超过 {limits.FILE_BYTES // limits.MIB} MB 的上限。请拆成几个文件再上传。",
            f"{found.st_size // limits.MIB} MB: more than {limits.FILE_BYTES // limits.MIB} MB. Split the file.",
        )


class ReadingProcess:
    """The process for one file. `kill` may be called from any thread, before and after it runs too."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        suffix = Path(name).suffix.encode("ascii", "replace").decode().replace("\0", "?")
        self._command = [sys.executable, "-s", *CHILD, str(path.absolute()), f"file{suffix[:32]}"]
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed, self._lock = False, Lock()

    def kill(self) -> None:
        """It ends, or never begins."""
        with self._lock:
            self._is_killed = True
            if self._process is not None:
                self._process.kill()

    def finish(self) -> Reading:
        """Start it, take what it says, and see it ended whatever happens."""
        process = self._start()
        timer = Timer(limits.WALL_S, self.kill)
        timer.daemon = True
        timer.start()
        try:
            return self._result(process)
        finally:
            timer.cancel()
            self.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        with self._lock:
            if self._is_killed:
                raise FileRefused(CRASHED)
            self._process = subprocess.Popen(
                self._command,
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            return self._process

    def _result(self, process: subprocess.Popen[bytes]) -> Reading:
        try:
            found = self._heard(process)
        except (ValueError, TypeError) as error:  # it speaks no such language
            raise FileRefused(CRASHED) from error
        if found is not None:
            return found
        code = process.wait()
        _log.warning("the reading process ended with %s", code)
        ran_over = self._is_killed or code in (-signal.SIGXCPU, -signal.SIGKILL)
        raise FileRefused(TOO_MUCH if ran_over else CRASHED)

    def _heard(self, process: subprocess.Popen[bytes]) -> Reading | None:
        """What the process says; None where it ends too early."""
        blocks = list[Block]()
        for kind, *rest in _said(process):
            if kind == "block":
                blocks.append(_block(rest))
            elif kind == "end":
                pages, warnings = rest
                return Reading(tuple(blocks), pages, tuple(Words(zh, en) for zh, en in warnings))
            else:
                zh, en, why = rest
                if why:
                    _log.info("not read: %s", why)
                raise refused(zh, en)
        return None


def _said(process: subprocess.Popen[bytes]) -> Iterator[list[Any]]:
    """The lines of the process, parsed one by one so that other threads run in between."""
    assert process.stdout is not None
    left = limits.RESULT_BYTES
    while line := process.stdout.readline(left):
        left -= len(line)
        if not line.endswith(b"\n"):
            if left <= 0:
                raise FileRefused(TOO_MUCH)
            return  # it died in the middle of a line
        yield json.loads(line)


def _block(rest: list[Any]) -> Block:
    text, page, headings, sheet, row, is_heading, is_row = rest
    return Block(text, Locator(page, tuple(headings), sheet, row), is_heading, is_row)
