"""Fit a conversation into the context window, without ever cutting a message.

The system prompt and the newest question always stay; history goes by whole exchanges, oldest first.
It goes in blocks of a quarter of the room, so that the start of the prompt stays the same for several
questions and the engine's prefix cache keeps hitting.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from assistant.conversation import Exchange
from engine.base import ChatMessage
from engine.errors import PromptTooLong

Count = Callable[[Sequence[ChatMessage]], Awaitable[int]]
"""Prompt tokens of messages, chat template included: `Engine.count`."""

BLOCKS = 4
SEAM_TOKENS = 4
"""Allowed for tokens that form across the seam between two messages, an exchange."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt that fits: its messages, its size in tokens, and how many old exchanges were left out."""

    messages: list[ChatMessage]
    prompt_tokens: int
    left_out: int


class TokenCosts:
    """Tokens an exchange adds to a prompt of `model`, each asked of the tokenizer once; `known` outlives a question."""

    def __init__(self, count: Count, model: str, known: dict[tuple[str, str, str], int]) -> None:
        self._count, self._model, self._known = count, model, known

    async def of(self, exchange: Exchange) -> int:
        """The difference that the exchange makes before another question."""
        probe: list[ChatMessage] = [{"role": "user", "content": "问"}]
        spoken = await self._size("", "", probe)
        return await self._size(exchange.question, exchange.answer, [*_messages([exchange]), *probe]) - spoken

    async def _size(self, question: str, answer: str, messages: list[ChatMessage]) -> int:
        key = (self._model, question, answer)
        if key not in self._known:
            self._known[key] = await self._count(messages)
        return self._known[key]


async def fit(
    system: str,
    history: Sequence[Exchange],
    question: str,
    *,
    reserve: int,
    window: int,
    count: Count,
    costs: TokenCosts,
) -> Fitted:
    """The prompt for `question`, leaving `reserve` of `window` tokens for the answer.

    Counts the whole prompt once, and once more without history where there is one.
    Raises PromptTooLong where the question does not fit even alone.
    """
    room = window - reserve
    frame = _prompt(system, [], question)
    alone = await count(frame)
    if alone > room:
        raise PromptTooLong(limit=room, size=alone)
    if not history:
        return Fitted(frame, alone, 0)
    sizes = [await costs.of(exchange) for exchange in history]
    first = _first_kept(sizes, alone + sum(sizes) - room, max(1, room // BLOCKS))
    messages = _prompt(system, history[first:], question)
    size = await count(messages)
    while size > room and first < len(history):
        size -= sizes[first] - SEAM_TOKENS
        first += 1
    if first == len(history):
        size = alone
    return Fitted(_prompt(system, history[first:], question), size, first)


def _first_kept(sizes: Sequence[int], excess: int, block: int) -> int:
    """Index of the oldest exchange to keep, so that at least `excess` tokens go, rounded up to whole blocks."""
    if excess <= 0:
        return 0
    due = -(-excess // block) * block
    gone = 0
    for place, size in enumerate(sizes):
        if gone >= due:
            return place
        gone += size
    return len(sizes)


def _prompt(system: str, history: Sequence[Exchange], question: str) -> list[ChatMessage]:
    head: list[ChatMessage] = [{"role": "system", "content": system}] if system.strip() else []
    return [*head, *_messages(history), {"role": "user", "content": question}]


def _messages(history: Sequence[Exchange]) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for exchange in history:
        messages.append({"role": "user", "content": exchange.question})
        messages.append({"role": "assistant", "content": exchange.answer})
    return messages
