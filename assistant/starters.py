"""The questions offered on an empty page."""

import chainlit as cl

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
