"""Other people: chats over the socket, in a thread with an event loop of its own, beside the pages of a browser test."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from tests.chat_client import PLACEHOLDER, ChatClient


class Crowd:
    """Chats that ask; leaving the context closes their tabs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._chats: list[ChatClient] = []
        self._talking: list[Future[Any]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for talk in self._talking:
            talk.cancel()
        self._do(self._leave())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def arrive(self, text: str) -> Callable[[], str]:
        """A new chat asks; returns once its place is known, with what tells its answer as it stands."""
        chat = self._do(self._open())

        async def ask() -> None:
            await chat.send(text)
            await chat.until(lambda: bool(chat.answers()) and chat.answer != PLACEHOLDER)

        self._do(ask())
        return lambda: chat.answer

    def ask(self, text: str, times: int) -> None:
        """A new chat asks the same several times; returns when it has its answers."""
        chat = self._do(self._open())

        async def ask() -> None:
            for _ in range(times):
                await chat.ask(text)

        self._do(ask())

    def keep_asking(self, chats: int, text: str) -> None:
        """So many chats ask one question after another until the end."""

        async def talk(chat: ChatClient) -> None:
            while True:
                await chat.ask(text)

        for _ in range(chats):
            chat = self._do(self._open())
            self._talking.append(asyncio.run_coroutine_threadsafe(talk(chat), self._loop))

    async def _open(self) -> ChatClient:
        chat = ChatClient(self._url)
        self._chats.append(chat)
        return await chat.__aenter__()

    async def _leave(self) -> None:
        for chat in self._chats:
            await chat.leave()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)
