"""A helper process for the heavy work of indexing: low in priority, with an interpreter of its own.

Cutting and embedding a large file takes minutes of all cores. Here neither the event loop nor a question asked meanwhile
has to wait for it: the operating system gives the processor to them first.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.errors import RequestError
from engine.words import Words

NICENESS = 10
IDLE_S = 120.0
"""After which it ends, to give its memory back; the next call starts another."""
ROOT = Path(__file__).resolve().parent.parent
LOST = Words(
    "建索引的进程意外结束，可能是内存不足。请关闭别的程序后重试。",
    "The indexing process ended unexpectedly, perhaps for want of memory. Close other programs and try again.",
)


class WorkerLost(RequestError):
    """The process ended in the middle of a call, twice."""


class Worker:
    """Calls the functions of TASKS in the helper process, one call at a time; for use from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def call(self, task: str, texts: Sequence[str]) -> Any:
        """The task's result for `texts`. Raises WorkerLost, or what the task raised."""
        with self._turn:
            try:
                outcome = self._ask(task, texts)
            except (EOFError, OSError):  # it was idle, or was killed
                self._end()
                try:
                    outcome = self._ask(task, texts)
                except (EOFError, OSError) as error:
                    self._end()
                    raise WorkerLost(LOST) from error
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def pid(self) -> int | None:
        """The process's id; None while there is none."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """End the process; a later call starts another."""
        with self._turn:
            self._end()

    def _ask(self, task: str, texts: Sequence[str]) -> Any:
        if self._connection is None:
            self._start()
        assert self._connection is not None
        self._connection.send((task, list(texts)))
        return self._connection.recv()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "knowledge.worker", str(theirs.fileno())],
                cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},  # spinning threads would starve each other and the rest
            )  # fmt: skip
        self._connection = Connection(ours.detach())

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be half gone
            self._end()


def _cut(texts: list[str]) -> list[str]:
    from knowledge.tokens import cut

    return [cut(text) for text in texts]


def _embed(texts: list[str]) -> Any:
    return _model().passages(texts)


@cache
def _model() -> Any:
    from knowledge.e5 import PassageE5

    return PassageE5()


TASKS: dict[str, Callable[[list[str]], Any]] = {"cut": _cut, "embed": _embed}


def _serve(connection: Connection) -> None:
    """Answer until the other side closes, or nothing was asked for a while."""
    while connection.poll(IDLE_S):
        try:
            task, texts = connection.recv()
        except EOFError:
            return
        try:
            outcome = TASKS[task](texts)
        except Exception as error:  # whatever it is, the caller has to hear of it
            outcome = error
        connection.send(outcome)


if __name__ == "__main__":
    os.nice(NICENESS)
    _serve(Connection(int(sys.argv[1])))
