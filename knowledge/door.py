"""A folder that may be deleted for good while others are about to write to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from engine.errors import RequestError
from engine.words import Words

CLOSED = Words("这个对话的文件已经删除。", "The files of this chat have been deleted.")


class StoreClosed(RequestError):
    """The library was deleted and takes nothing any more."""


class Door:
    """Whatever makes a folder or a file does so in `passing`: after `close` it raises, so that nothing comes back."""

    def __init__(self) -> None:
        self._lock, self._is_closed = Lock(), False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Short things only: `close` waits for them. Raises StoreClosed. Not reentrant."""
        with self._lock:
            if self._is_closed:
                raise StoreClosed(CLOSED)
            yield

    def close(self) -> None:
        """For good."""
        with self._lock:
            self._is_closed = True
