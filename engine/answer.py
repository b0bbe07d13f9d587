"""What has arrived of one streamed answer: whole characters, the finish reason, usage and timings."""

import time

from engine.base import FinishReason, Timings, Usage
from engine.cleantext import CleanText
from engine.errors import RequestRejected, StreamBroken
from engine.words import Words

BROKEN = Words(
    "回答中断：与模型服务的连接断开了。",
    "The answer broke off: the connection to the model server was lost.",
)
FILTERED = Words("模型服务的内容过滤中止了回答。", "The model server's content filter stopped the answer.")


class Answer:
    """Created when the question is sent."""

    def __init__(self) -> None:
        self.text = ""
        self.finish: FinishReason | None = None
        self.usage: Usage | None = None
        self.begun = False
        self._asked = self._last = time.monotonic()
        self._first: float | None = None
        self._clean = CleanText()

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come."""
        return self.finish is not None and self.usage is not None

    @property
    def timings(self) -> Timings:
        """From the question to the first text and to the last chunk; without any text, the last chunk for both."""
        return Timings((self._first or self._last) - self._asked, self._last - self._asked)

    def take(self, content: str | None, finish_reason: str | None, usage: Usage | None) -> str:
        """Note what a chunk says and return its text.

        Raises RequestRejected for a filtered answer, StreamBroken for one that the server gave up.
        """
        self.begun = True
        self._last = time.monotonic()
        self.usage = usage or self.usage
        text = self._clean.feed(content or "")
        if text and self._first is None:
            self._first = self._last
        self.text += text
        self._finish(finish_reason)
        return text

    def _finish(self, reason: str | None) -> None:
        match reason:
            case None | "":
                pass
            case "length":
                self.finish = FinishReason.LENGTH
            case "content_filter":
                raise RequestRejected(FILTERED)
            case "abort" | "error":
                raise StreamBroken(BROKEN)
            case _:
                self.finish = FinishReason.STOP
