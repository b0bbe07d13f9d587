"""The questions offered on an empty page."""

import asyncio
import re

import chainlit as cl

from assistant import boot
from engine.errors import ZhidaError
from engine.words import Words

QUESTIONS: tuple[tuple[Words, Words], ...] = (
    (
        Words("介绍一下你自己", "Introduce yourself"),
        Words("你好，请用一句话介绍你自己。", "Hello, introduce yourself in one sentence."),
    ),
    (
        Words("写一封请假邮件", "A leave request"),
        Words(
            "帮我写一封请假一天的邮件，语气礼貌、简短。", "Write a short, polite e-mail asking for one day of leave."
        ),
    ),
    (
        Words("列一份会议提纲", "A meeting outline"),
        Words("为新员工入职培训列一份半小时会议的提纲。", "Outline a half-hour onboarding meeting for new colleagues."),
    ),
    (
        Words("解释一个概念", "Explain a term"),
        Words("用三句话解释什么是客户关系管理。", "Explain customer relationship management in three sentences."),
    ),
)


def for_language(language: str) -> list[cl.Starter]:
    """The starters in the browser's language."""
    return [cl.Starter(label=label.speak(language), message=question.speak(language)) for label, question in QUESTIONS]


FIXED: tuple[Words, ...] = (
    Words("出差住宿的标准是多少？", "What may a hotel cost on a business trip?"),
    Words("年假有几天？", "How many days of leave are there?"),
    Words("退货期限是几天？", "Within how many days may goods be returned?"),
    Words("报销需要哪些材料？", "What is needed for a refund of expenses?"),
)
PATIENCE_S = 0.3
"""The page does not wait longer than this for its starters."""
SHOWN = 4
DIGITS = "一二三四五六七八九十百零〇0-9"
NUMBERING = re.compile(
    rf"第[{DIGITS}]+[章节条款编部篇]\s*|[（(][{DIGITS}]{{1,3}}[)）]\s*|[{DIGITS}]{{1,3}}、\s*|\d+(?:\.\d+)*(?:[.．)）]\s*|\s+)"
)
SHORTEST, LONGEST = 2, 16
"""Characters of a heading that makes a question."""


async def from_library(language: str) -> list[cl.Starter]:
    """Questions made of the shared library's own headings, one a file at first; fixed ones while there are none."""
    questions = [Words(f"{topic}是怎么规定的？", f"What do the rules say about {topic}?") for topic in await _topics()]
    return [
        cl.Starter(label=question.speak(language), message=question.speak(language))
        for question in (questions or FIXED)[:SHOWN]
    ]


async def _topics() -> list[str]:
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await (await boot.library()).headings()
    except (TimeoutError, ZhidaError):
        return []
    by_file: dict[str, list[str]] = {}
    for file, heading in found:
        topic = spoken(heading)
        if SHORTEST <= len(topic) <= LONGEST:
            by_file.setdefault(file.digest, []).append(topic)
    rounds = [[topics[turn] for topics in by_file.values() if turn < len(topics)] for turn in range(SHOWN)]
    return list(dict.fromkeys(topic for each in rounds for topic in each))


def spoken(heading: str) -> str:
    """A heading without its number."""
    return re.sub(rf"^(?:{NUMBERING.pattern})", "", heading.strip()).strip(" ：:")
