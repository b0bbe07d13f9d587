"""A streamed answer's server-sent events, decoded: the frames of OpenAI's `chat.completion.chunk`.

The openai client builds a pydantic model a token, which at 64 answers is half of the app's event loop; it hands over the
raw response as well, and this decodes it. Format: https://html.spec.whatwg.org/multipage/server-sent-events.html, of
which servers of this kind use `data:` lines, comments that keep the connection alive, and an `event:` name.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

DONE = b"[DONE]"


class _Text(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Text | None = None
    finish_reason: str | None = None


class _Tokens(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Frame(msgspec.Struct):
    """One chunk; what a server leaves out or sends as null is None. `error` stands in place of an answer."""

    choices: list[_Choice] | None = None
    usage: _Tokens | None = None
    error: Any = None

    @property
    def choice(self) -> _Choice | None:
        """The one choice that was asked for."""
        return self.choices[0] if self.choices else None

    @property
    def content(self) -> str | None:
        """Its text."""
        return self.choice.delta.content if self.choice and self.choice.delta else None

    @property
    def finish_reason(self) -> str | None:
        """Why it ended, once it has."""
        return self.choice.finish_reason if self.choice else None


class Frames:
    """Bytes in, frames out; holds what has arrived of the next event."""

    def __init__(self) -> None:
        self.done = False
        self._rest = b""
        self._data: list[bytes] = []
        self._decoder = msgspec.json.Decoder(Frame)

    def feed(self, received: bytes) -> Iterator[Frame]:
        """The frames that `received` completes. Raises ValueError for JSON or UTF-8 that is none."""
        *lines, self._rest = (self._rest + received).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].lstrip(b" "))
            elif not line and self._data:
                data, self._data = b"\n".join(self._data), []
                if data.startswith(DONE):
                    self.done = True
                    return
                yield self._decode(data)

    def _decode(self, data: bytes) -> Frame:
        try:
            return self._decoder.decode(data)
        except msgspec.DecodeError:  # half a surrogate pair, which msgspec takes for an error and json does not
            return msgspec.convert(json.loads(data), Frame)
