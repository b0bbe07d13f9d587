"""Fit a conversation, and the passages found for its newest question, into the context window.

The system prompt and the newest question always stay; history goes by whole exchanges, oldest first, passages go
whole, the least relevant first. No message is ever cut, and a passage only where the best one alone is too long.
It goes in blocks of a quarter of the room, so that the start of the prompt stays the same for several
questions and the engine's prefix cache keeps hitting.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from assistant.conversation import Exchange
from engine.base import ChatMessage
from engine.errors import PromptTooLong
from knowledge.base import Hit
from knowledge.grounding import user_message
from knowledge.sentences import sentences

Count = Callable[[Sequence[ChatMessage]], Awaitable[int]]
"""Prompt tokens of messages, chat template included: `Engine.count`."""

BLOCKS = 4
PASSAGES_SHARE = 0.6
"""Of the room beside system prompt and question: passages may have as much even where history would fill it."""
SHORTEST = 20
"""Characters of a passage that are worth giving."""
SEAM_TOKENS = 4
"""Allowed for tokens that form across the seam between two messages, an exchange."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt that fits: its messages, its size in tokens, and how many old exchanges were left out."""

    messages: list[ChatMessage]
    prompt_tokens: int
    left_out: int
    passages: tuple[Hit, ...] = ()
    """Those that the question was given, in its order: [1] is the first."""
    is_shortened: bool = False
    """The one passage was longer than the room and ends early, at a sentence's end."""


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


@dataclass(frozen=True, slots=True)
class _Asked:
    """The prompt without history: its size, the question's message, and the passages in it."""

    size: int
    message: str
    passages: tuple[Hit, ...] = ()
    is_shortened: bool = False


async def fit(
    system: str,
    history: Sequence[Exchange],
    question: str,
    *,
    reserve: int,
    window: int,
    count: Count,
    costs: TokenCosts,
    passages: Sequence[Hit] = (),
) -> Fitted:
    """The prompt for `question`, leaving `reserve` of `window` tokens for the answer.

    `passages`, best first, stand before the question. They get what history leaves of the room, PASSAGES_SHARE of it
    at least; the best of them stays whatever becomes of history, and is shortened where it is longer than the room.
    Counts the whole prompt once, once more without history where there is one, and a few times where not all
    passages fit. Raises PromptTooLong where the question, or it and the best passage's beginning, does not fit.
    """
    room = window - reserve
    sizes = [await costs.of(exchange) for exchange in history]
    asked = await _ask(system, question, passages, room, sum(sizes) + SEAM_TOKENS * len(sizes), count)
    if not history:
        return Fitted(_prompt(system, [], asked.message), asked.size, 0, asked.passages, asked.is_shortened)
    first = _first_kept(sizes, asked.size + sum(sizes) - room, max(1, room // BLOCKS))
    size = await count(_prompt(system, history[first:], asked.message)) if first < len(history) else asked.size
    while size > room and first < len(history):
        size -= sizes[first] - SEAM_TOKENS
        first += 1
    if first == len(history):
        size = asked.size
    messages = _prompt(system, history[first:], asked.message)
    return Fitted(messages, size, first, asked.passages, asked.is_shortened)


async def _ask(system: str, question: str, passages: Sequence[Hit], room: int, history: int, count: Count) -> _Asked:
    """The question with as many passages as it may have, beside `history` tokens of old exchanges."""

    async def asked(*given: Hit) -> _Asked:
        message = user_message(question, given)
        return _Asked(await count(_prompt(system, [], message)), message, given)

    if not passages:
        return _checked(await asked(), room)
    everything = await asked(*passages)
    if everything.size + history <= room:
        return everything
    alone = _checked(await asked(), room)
    free = room - alone.size
    limit = alone.size + max(int(PASSAGES_SHARE * free), free - history)
    if everything.size <= limit:
        return everything
    found = await _most(range(1, len(passages)), lambda number: asked(*passages[:number]), limit)
    if found is None:
        best = everything if len(passages) == 1 else await asked(passages[0])
        found = best if best.size <= room else await _shortened(passages[0], asked, room)
    if found is None:
        raise PromptTooLong(limit=room, size=alone.size)
    return found


def _checked(asked: _Asked, room: int) -> _Asked:
    if asked.size > room:
        raise PromptTooLong(limit=room, size=asked.size)
    return asked


async def _shortened(hit: Hit, asked: Callable[[Hit], Awaitable[_Asked]], room: int) -> _Asked | None:
    """The passage up to the last sentence's end, or failing that the last character, that fits."""
    text = hit.passage.text
    ends = [end for _, end in sentences(text)]
    for places in (ends, range(SHORTEST, len(text))):

        def cut(place: int, places: Sequence[int] = places) -> Awaitable[_Asked]:
            return asked(replace(hit, passage=replace(hit.passage, text=text[: places[place]])))

        if found := await _most(range(len(places)), cut, room):
            return replace(found, is_shortened=True)
    return None


async def _most(numbers: Sequence[int], make: Callable[[int], Awaitable[_Asked]], limit: int) -> _Asked | None:
    """The one with the greatest of the rising `numbers` that keeps to the limit, by halving."""
    best, low, high = None, 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        tried = await make(numbers[middle])
        if tried.size <= limit:
            best, low = tried, middle + 1
        else:
            high = middle
    return best


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
