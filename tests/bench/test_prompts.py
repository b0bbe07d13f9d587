"""Prompts: exact lengths, and no two that begin alike."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.prompts import TEXT, conversation, cut, question, text
from engine.base import ChatMessage
from engine.errors import ConfigurationError

TEMPLATE_TOKENS = 7


async def by_two(messages: Sequence[ChatMessage]) -> int:
    """A tokenizer of two characters a token, with a template."""
    return sum(math.ceil(len(message["content"]) / 2) + TEMPLATE_TOKENS for message in messages)


async def by_weight(messages: Sequence[ChatMessage]) -> int:
    """A tokenizer in which rare characters are three tokens: some lengths cannot be hit by cutting."""
    return sum(TEMPLATE_TOKENS + sum(3 if ord(c) % 3 == 0 else 1 for c in m["content"]) for m in messages)


@settings(max_examples=60, deadline=None)
@given(number=st.integers(0, 10**7), tokens=st.integers(9, 3000))
async def test_prompts_have_the_stated_length(number: int, tokens: int) -> None:
    """Whatever the tokenizer does with a character, the count is exact."""
    for count in (by_two, by_weight):
        assert await count(await cut(number, tokens, count)) == tokens


def test_no_two_prompts_begin_alike() -> None:
    """Neighbours differ in their first character, and all of very many in their first seven."""
    heads = [text(number, 7) for number in range(20_000)]
    assert len(set(heads)) == len(heads)
    assert all(before[0] != after[0] for before, after in pairwise(heads))


async def test_a_prompt_shorter_than_the_template_is_refused() -> None:
    """The sentence names the option."""
    with pytest.raises(ConfigurationError, match="--input 5 太短"):
        await cut(1, 5, by_two)


async def test_a_conversation_has_history_and_question() -> None:
    """The roles alternate, the whole prompt is exact, and the history is about as long as stated."""
    messages = await conversation(3, 1200, 64, by_two)
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3 + ["user"]
    assert await by_two(messages) == 1264
    assert abs(await by_two(messages[:-1]) - 1200) <= 2


async def test_history_stays_the_same_for_another_question() -> None:
    """What was there before is handed on as it is, so that a prefix cache may know it."""
    history = (await conversation(3, 300, 64, by_two))[:-1]
    other = await cut(9, 364, by_two, history)
    assert other[:-1] == history
    assert await by_two(other) == 364


def test_the_text_is_chinese() -> None:
    """Several thousand characters, next to none of them Latin."""
    assert len(TEXT) > 2500
    assert sum("\u4e00" <= character <= "\u9fff" for character in TEXT) / len(TEXT) > 0.85


def test_a_question_is_one_message() -> None:
    """From the user."""
    assert question("好") == [{"role": "user", "content": "好"}]
