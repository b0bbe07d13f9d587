"""A browser's half of Chainlit's protocol, without a browser: Socket.IO in, messages as the page would show them out."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import socketio

PLACEHOLDER = "思考中..."


class ChatClient:
    """One chat of one browser. `messages` maps id to the text that the page shows now, in order of arrival.

    `replaced_at` maps id to when (time.perf_counter) its whole text was last replaced: the placeholder and the states
    are, and the answer's first text is the last to be.
    """

    def __init__(self, url: str, language: str = "zh-CN", profile: str = "") -> None:
        """`profile`: the name of the kind of chat; the page's default without."""
        self.url, self.session_id = url, str(uuid.uuid4())
        self._profile = profile
        self.messages: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.replaced_at: dict[str, float] = {}
        self.footers: dict[str, dict[str, Any]] = {}
        self.elements: dict[str, dict[str, Any]] = {}
        self.actions: list[dict[str, Any]] = []
        self.settings: list[dict[str, Any]] = []
        self.busy = False
        self.events: list[tuple[str, Any]] = []
        self._language = language
        self._changed = asyncio.Event()
        self._socket = socketio.AsyncClient(reconnection=False, websocket_extra_options={"max_msg_size": 0})
        self._socket.on("*", self._hear)
        self._socket.on("disconnect", self._drop)

    async def __aenter__(self) -> Self:
        auth = {"sessionId": self.session_id, "clientType": "webapp", "userEnv": "{}"}
        if self._profile:
            auth["chatProfile"] = quote(self._profile)
        headers = {"Accept-Language": self._language}
        await self._socket.connect(
            self.url, socketio_path="/ws/socket.io", auth=auth, headers=headers, transports=["websocket"]
        )
        await self._socket.emit("connection_successful")
        await self.until(lambda: bool(self.settings))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    @property
    def connected(self) -> bool:
        """Whether the socket is open."""
        return bool(self._socket.connected)

    async def leave(self) -> None:
        """Close the tab."""
        await self._socket.disconnect()

    async def new_chat(self) -> None:
        """Leave this chat for a new one, as the page's button does."""
        await self._socket.call("clear_session")  # its answer, or the client would close before it is sent
        await self._socket.disconnect()

    async def send(self, text: str, question_id: str | None = None, files: Sequence[str] = ()) -> str:
        """Send a question, with the ids of files that were uploaded; returns its id."""
        question_id = question_id or str(uuid.uuid4())
        references = [{"id": file} for file in files] or None
        await self._socket.emit(
            "client_message", {"message": self._user_message(question_id, text), "fileReferences": references}
        )
        return question_id

    async def upload(self, name: str, content: bytes, kind: str = "application/octet-stream") -> httpx.Response:
        """Send a file for the next message; the answer's JSON has its id, or why it is refused."""
        async with httpx.AsyncClient(trust_env=False, timeout=60, headers={"Accept-Language": self._language}) as http:
            address = f"{self.url}/project/file?session_id={self.session_id}"
            return await http.post(address, files={"file": (name, content, kind)})

    async def edit(self, question_id: str, text: str) -> None:
        """Edit an old question."""
        await self._socket.emit("edit_message", {"message": self._user_message(question_id, text)})

    async def stop(self) -> None:
        """Press stop."""
        await self._socket.emit("stop")

    async def change_settings(self, **values: Any) -> None:
        """Confirm the settings panel with some values changed; returns when the app has taken them."""
        now = {widget["id"]: widget["initial"] for widget in self.settings}
        await self._socket.call("chat_settings_change", {**now, **values})

    async def press(self, action: dict[str, Any]) -> Any:
        """Press a button below a message; returns what its callback returned, when it has ended."""
        async with httpx.AsyncClient(trust_env=False, timeout=300) as http:
            reply = await http.post(f"{self.url}/project/action", json={"sessionId": self.session_id, "action": action})
            reply.raise_for_status()
            return reply.json()["response"]

    def button(self, name: str) -> dict[str, Any]:
        """The newest button of a name that is still on the page."""
        return next(action for action in reversed(self.actions) if action["name"] == name)

    async def until(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        """Wait for something to be on the page. Raises TimeoutError with what is there."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"the page shows {self.messages}, {self.footers}") from None

    def answers(self) -> list[str]:
        """What the assistant's messages show, oldest first."""
        return [text for key, text in self.messages.items() if self.kinds[key] == "assistant_message"]

    @property
    def answer(self) -> str:
        """What the newest message of the assistant shows."""
        return self.answers()[-1]

    @property
    def footer(self) -> dict[str, Any]:
        """The footer of the newest answer that has one."""
        return list(self.footers.values())[-1]

    async def ask(self, text: str, timeout_s: float = 120) -> str:
        """Send a question and wait until its answer has ended; returns the answer."""
        before = len(self.answers())
        await self.send(text)
        await self.until(lambda: len(self.answers()) > before, timeout_s)
        await self.until(lambda: not self.busy, timeout_s)
        return self.answer

    def _user_message(self, question_id: str, text: str) -> dict[str, Any]:
        return {
            "id": question_id, "threadId": "", "name": "user", "type": "user_message", "output": text,
            "createdAt": "2026-01-01T00:00:00.000Z",
        }  # fmt: skip

    async def _drop(self, reason: str) -> None:
        """The socket is gone: whoever waits looks again."""
        self._changed.set()

    async def _hear(self, event: str, data: Any = None) -> None:
        self.events.append((event, data))
        if event in ("new_message", "update_message", "stream_start"):
            self.messages[data["id"]] = data["output"]
            self.kinds[data["id"]] = data["type"]
        elif event == "stream_token" and data["id"] in self.messages:
            if data["isSequence"]:
                self.replaced_at[data["id"]] = time.perf_counter()
            old = "" if data["isSequence"] else self.messages[data["id"]]
            self.messages[data["id"]] = old + data["token"]
        elif event == "delete_message":
            self.messages.pop(data["id"], None)
        else:
            self._hear_about(event, data)
        self._changed.set()

    def _hear_about(self, event: str, data: Any) -> None:
        """What is not a message."""
        if event == "element":
            self.elements[data["id"]] = data
            if data["name"] == "AnswerFooter":
                self.footers[data["forId"]] = data["props"]
        elif event == "action":
            self.actions.append(data)
        elif event == "remove_action":
            self.actions = [action for action in self.actions if action["id"] != data["id"]]
        elif event == "chat_settings":
            self.settings = data
        elif event in ("task_start", "task_end"):
            self.busy = event == "task_start"
