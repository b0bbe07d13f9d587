"""What an engine is: the contract that every backend keeps and one test suite checks."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, TypedDict

from engine.words import Words


class ChatMessage(TypedDict):
    """One message of a conversation, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the answer is drawn; the defaults are ERNIE-4.5's own (its generation_config.json)."""

    temperature: float = 0.8
    top_p: float = 0.8
    max_tokens: int = 512
    ignore_eos: bool = False
    """Go on to `max_tokens`: for benches, on vLLM alone."""


class FinishReason(StrEnum):
    """Why an answer ended: by itself, or at `max_tokens` or the window's end."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the prompt, chat template included, and of the answer."""

    prompt_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds from the request's submission to its first text, and to its end."""

    first_token_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer: whole characters, never U+FFFD. `text` may be empty; the last Delta carries the other three."""

    text: str
    finish: FinishReason | None = None
    usage: Usage | None = None
    timings: Timings | None = None


class EngineState(StrEnum):
    """Where an engine stands."""

    LOADING = "loading"
    READY = "ready"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """An engine's state; None where the engine does not say."""

    state: EngineState
    reason: Words | None = None
    running: int | None = None
    waiting: int | None = None
    kv_use: float | None = None
    """Share of the KV cache in use, 0 to 1."""
    preemptions: int | None = None
    """Requests put back to waiting for want of KV cache, since the engine started."""
    generated: int | None = None
    """Answer tokens since the engine started."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What is being served: model name, context window in tokens, and whether it is the demo model."""

    model: str
    window: int
    is_demo: bool = False


@dataclass(frozen=True, slots=True)
class Loading:
    """A step on the way to readiness; `fraction` (0 to 1) is None where the length is unknown."""

    step: Words
    fraction: float | None = None


OnLoading = Callable[[Loading], None]
"""Called from any thread with the step that begins or goes on."""


class Engine(Protocol):
    """Where tokens come from."""

    @property
    def info(self) -> EngineInfo:
        """What is served; final once `start` has returned."""

    async def start(self, on_loading: OnLoading) -> None:
        """Load and warm up; returns when the engine answers.

        Raises ConfigurationError where starting again would not help, EngineDead where it might.
        """

    async def stop(self) -> None:
        """Let everything go. May be called in any state, and twice."""

    async def health(self) -> EngineHealth:
        """The state now. Raises nothing."""

    async def count(self, messages: Sequence[ChatMessage]) -> int:
        """Prompt tokens of `messages`, chat template and generation prompt included.

        Raises EngineDead or RequestError.
        """

    def stream(
        self, messages: Sequence[ChatMessage], sampling: Sampling, request_id: str
    ) -> AsyncGenerator[Delta, None]:
        """The answer, piece by piece. Closing the iterator, or cancelling its reader, frees the slot.

        Raises PromptTooLong, another RequestError, or EngineDead; text that came before stays valid.
        """
