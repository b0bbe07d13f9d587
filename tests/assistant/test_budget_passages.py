"""Passages and history share the window, against the tiny model's real tokenizer and chat template."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from assistant.budget import PASSAGES_SHARE, Fitted, TokenCosts, fit
from engine.base import ChatMessage
from engine.errors import PromptTooLong
from knowledge.grounding import user_message
from knowledge.sentences import sentences
from tests.assistant.test_budget import HISTORY, TEXT, Counter, exchanges, tokenizer
from tests.knowledge.made_hits import made_hit

__all__ = ["tokenizer"]  # a fixture
WORDS = st.text(st.sampled_from("年假十五天。出差住宿，报销！\nabc 123"), min_size=1, max_size=200)


def prompt(system: str, question: str) -> list[ChatMessage]:
    """Without history."""
    head: list[ChatMessage] = [{"role": "system", "content": system}] if system.strip() else []
    return [*head, {"role": "user", "content": question}]


async def fitted(
    count: Counter, passages: Sequence[str], history: Sequence[tuple[str, str]] = (), *, window: int, reserve: int = 64
) -> Fitted:
    """What becomes of these."""
    hits = [made_hit(text, f"{place}.docx") for place, text in enumerate(passages)]
    costs = TokenCosts(count, "tiny", {})
    return await fit(
        "系统", exchanges(history), "年假几天", reserve=reserve, window=window, count=count, costs=costs, passages=hits
    )


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=HISTORY,
    question=TEXT,
    system=st.just("") | TEXT,
    passages=st.lists(WORDS, min_size=1, max_size=8),
    window=st.integers(200, 3000),
    reserve=st.integers(16, 64),
)
async def test_never_over_and_the_best_stays(
    tokenizer: PreTrainedTokenizerBase,
    history: list[tuple[str, str]],
    question: str,
    system: str,
    passages: list[str],
    window: int,
    reserve: int,
) -> None:
    """It fits; passages go from the end, whole, and the best stays; the size told is exact; few counts are made."""
    count, hits = Counter(tokenizer), [made_hit(text, f"{place}.docx") for place, text in enumerate(passages)]
    room, costs = window - reserve, TokenCosts(count, "tiny", {})
    past = exchanges(history)
    try:
        found = await fit(
            system, past, question, reserve=reserve, window=window, count=count, costs=costs, passages=hits
        )
    except PromptTooLong:
        shortest = [made_hit(text[:20], "0.docx") for text in passages[:1]]
        assert count.size(prompt(system, user_message(question, shortest))) > room
        return
    assert count.size(found.messages) <= room
    assert 1 <= len(found.passages) <= len(hits)
    assert found.messages[-1]["content"] == user_message(question, found.passages)
    if found.is_shortened:
        assert len(found.passages) == 1
        assert hits[0].passage.text.startswith(found.passages[0].passage.text)
        assert count.size(prompt(system, user_message(question, hits[:1]))) > room
    else:
        assert list(found.passages) == hits[: len(found.passages)]
    kept = [message["content"] for message in found.messages if message["role"] != "system"][:-1]
    assert kept == [text for pair in history[found.left_out :] for text in pair]
    assert len(count.asked) <= len(history) + 1 + 18


async def test_everything_fits(tokenizer: PreTrainedTokenizerBase) -> None:
    """All passages and all history, and one count of the question for them."""
    count = Counter(tokenizer)
    found = await fitted(count, ["年假15天。"] * 4, [("问", "答")] * 2, window=4096)
    assert (len(found.passages), found.left_out, found.is_shortened) == (4, 0, False)
    assert found.prompt_tokens == count.size(found.messages)
    assert len(count.asked) == 4  # the empty exchange, the one that is there twice, the question, the whole


async def test_passages_take_what_history_leaves(tokenizer: PreTrainedTokenizerBase) -> None:
    """Without history the room is theirs; beside a long one they still get their share."""
    count, passages = Counter(tokenizer), [f"第{place}条 年假有十五天。" * 6 for place in range(12)]
    alone = await fitted(count, passages, window=2048)
    beside = await fitted(count, passages, [("问题" * 10, "回答" * 20)] * 40, window=2048)
    assert len(alone.passages) > len(beside.passages) > 0
    assert 0 < beside.left_out < 40
    bare = count.size(prompt("系统", "年假几天"))
    room = 2048 - 64
    taken = count.size(prompt("系统", beside.messages[-1]["content"])) - bare
    next_one = count.size(
        prompt("系统", user_message("年假几天", [made_hit(t, f"{n}.docx") for n, t in enumerate(passages)][: len(beside.passages) + 1]))
    )  # fmt: skip
    assert taken <= PASSAGES_SHARE * (room - bare) < next_one - bare


async def test_history_gives_way_to_the_best_passage(tokenizer: PreTrainedTokenizerBase) -> None:
    """A passage beyond the share, within the room, stays whole; history goes."""
    count = Counter(tokenizer)
    text = "年假有十五天。" * 20
    size = count.size(prompt("系统", user_message("年假几天", [made_hit(text, "0.docx")])))
    found = await fitted(count, [text, text], [("问题" * 20, "回答" * 20)] * 8, window=size + 64 + 5)
    assert [hit.passage.text for hit in found.passages] == [text]
    assert (found.is_shortened, found.left_out) == (False, 8)
    assert found.prompt_tokens == size


async def test_long_passage_ends_at_a_sentence(tokenizer: PreTrainedTokenizerBase) -> None:
    """Longer than the room: it is cut behind a sentence, and the next sentence would not have fitted."""
    count, text = Counter(tokenizer), "".join(f"第{place}条规定年假有{place}天。" for place in range(1, 200))
    found = await fitted(count, [text], window=800)
    kept = found.passages[0].passage.text
    ends = [end for _, end in sentences(text)]
    assert found.is_shortened
    assert len(kept) in ends
    longer = text[: ends[ends.index(len(kept)) + 1]]
    assert count.size(prompt("系统", user_message("年假几天", [made_hit(longer, "0.docx")]))) > 800 - 64


async def test_one_endless_sentence_is_cut_where_it_must(tokenizer: PreTrainedTokenizerBase) -> None:
    """Without a sentence's end within the room, at a character."""
    found = await fitted(Counter(tokenizer), ["年假十五天" * 500], window=800)
    assert found.is_shortened
    assert len(found.passages[0].passage.text) > 20


async def test_no_room_for_any_passage(tokenizer: PreTrainedTokenizerBase) -> None:
    """An answer from the documents without a document is none."""
    count = Counter(tokenizer)
    size = count.size(prompt("系统", "年假几天"))
    with pytest.raises(PromptTooLong):
        await fitted(count, ["年假十五天" * 50], window=size + 64 + 2)
