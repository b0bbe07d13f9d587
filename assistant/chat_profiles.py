"""The two kinds of chat: 对话, where the model talks, and 知识助手, where it answers from documents alone."""

import chainlit as cl

from assistant import starters
from engine.words import Words

TALK = Words("对话", "Chat")
KNOWLEDGE = Words("知识助手", "Knowledge assistant")
_TALK_HINT = Words("和模型自由对话。", "Talk freely with the model.")
_KNOWLEDGE_HINT = Words(
    "只依据资料回答：每句话注明出处，资料里没有的会直说。把文件拖进来就能问。",
    "Answers from documents only, with their sources, and says so where they hold nothing. Drop files in and ask.",
)


async def for_language(language: str) -> list[cl.ChatProfile]:
    """The profiles as the browser shows them. Their names are the Chinese ones for every language: scripts send them."""
    return [
        cl.ChatProfile(
            name=TALK.zh,
            display_name=TALK.speak(language),
            markdown_description=_TALK_HINT.speak(language),
            default=True,
            starters=starters.for_language(language),
        ),
        cl.ChatProfile(
            name=KNOWLEDGE.zh,
            display_name=KNOWLEDGE.speak(language),
            markdown_description=_KNOWLEDGE_HINT.speak(language),
            icon="/public/avatars/zhida.svg",  # with one, the empty page shows the description below it
            starters=await starters.from_library(language),
        ),
    ]


def is_knowledge(profile: str | None) -> bool:
    """Whether a chat was begun as 知识助手."""
    return profile in (KNOWLEDGE.zh, KNOWLEDGE.en)
