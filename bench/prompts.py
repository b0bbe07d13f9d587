"""Chinese prompts of a stated number of tokens, no two of which begin alike."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from engine.base import ChatMessage
from engine.errors import ConfigurationError
from engine.words import Words

TEXT = Path(__file__).with_name("prompts.txt").read_text(encoding="utf-8").replace("\n", "")
STRIDE = 577
"""Characters between the beginnings of two prompts."""
NUMBERS, SHUFFLE = 10**7, 7654321
"""Neighbouring prompts get seven-digit numbers that differ from their first digit on; no two get the same."""
TRIES, GUESSES = 40, 4
"""Cuts tried, and how many of them in proportion; then the interval is halved."""
FILLERS = ("。", "的", "a", "1", "!", " ")
"""Ends that a prompt gets where cutting by characters misses the number by a token or two."""
REQUEST = "请就以下内容写一段详细的说明："
TURNS = 3

Count = Callable[[Sequence[ChatMessage]], Awaitable[int]]
"""Prompt tokens of messages, chat template included: `Engine.count`."""


def text(number: int, characters: int) -> str:
    """The beginning of prompt `number`: the number comes first, so that no prefix cache answers for another's prompt."""
    start, times = number * STRIDE % len(TEXT), characters // len(TEXT) + 2
    return f"{number * SHUFFLE % NUMBERS:07d}号。{REQUEST}{(TEXT * times)[start:]}"[: max(1, characters)]


def question(content: str) -> list[ChatMessage]:
    """A conversation of one question."""
    return [{"role": "user", "content": content}]


async def cut(number: int, tokens: int, count: Count, history: Sequence[ChatMessage] = ()) -> list[ChatMessage]:
    """Prompt `number` after `history`, of exactly `tokens` tokens by `count` where its tokenizer can hit the number,
    else of the most below it. Raises ConfigurationError where the template alone is longer."""
    base = await count([*history, *question("")])
    if base >= tokens:
        raise _too_short(tokens)
    short, long = 0, 4 * (tokens - base) + len(REQUEST)  # hardly a tokenizer takes four characters for a token
    guess = tokens - base
    for attempt in range(TRIES):
        size = await count([*history, *question(text(number, guess))])
        short, long = (guess, long) if size <= tokens else (short, guess)
        if size == tokens or long - short <= 1:
            break
        aimed = round(guess * (tokens - base) / max(size - base, 1)) if attempt < GUESSES else (short + long) // 2
        guess = min(max(aimed, short + 1), long - 1)
    content = text(number, short) if short else ""
    return [*history, *question(await _filled(content, tokens, count, history))]


async def _filled(content: str, tokens: int, count: Count, history: Sequence[ChatMessage]) -> str:
    """`content` with fillers up to `tokens`; without them where no filler fits."""
    for filler in FILLERS:
        size, filled = await count([*history, *question(content)]), content
        while size < tokens and len(filled) < len(content) + TRIES:
            filled += filler
            size = await count([*history, *question(filled)])
        if size == tokens:
            return filled
    return content


async def conversation(number: int, history_tokens: int, tokens: int, count: Count) -> list[ChatMessage]:
    """TURNS exchanges of about `history_tokens` tokens in all, then a question that brings the prompt to
    `history_tokens + tokens`."""
    history: list[ChatMessage] = []
    for turn in range(1, TURNS + 1):
        asked = await cut(number * TURNS + turn, history_tokens * (2 * turn - 1) // (2 * TURNS), count, history)
        answer = await _answer(asked, history_tokens * turn // TURNS, count)
        history = [*asked, {"role": "assistant", "content": answer}]
    return await cut(number, history_tokens + tokens, count, history)


async def _answer(asked: Sequence[ChatMessage], tokens: int, count: Count) -> str:
    """What the assistant is taken to have said: text that brings the conversation to about `tokens`."""
    short, long = 1, tokens * 4
    while long - short > 1:
        middle = (short + long) // 2
        size = await count([*asked, {"role": "assistant", "content": TEXT[:middle]}])
        short, long = (middle, long) if size <= tokens else (short, middle)
    return TEXT[:short]


def _too_short(tokens: int) -> ConfigurationError:
    return ConfigurationError(
        Words(
            f"--input {tokens} 太短：对话模板本身就超过它，请用更大的数。",
            f"--input {tokens} is too short: the chat template alone is longer.",
        )
    )
