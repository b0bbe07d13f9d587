"""What happens in one browser's chat, called by the callbacks of app.py."""

import asyncio
import time
from typing import Any

import chainlit as cl
from chainlit.session import WebsocketSession

from assistant import boot, guards, panel, texts
from assistant.chat import Chat
from assistant.screen import AVATAR, AnswerMessage
from engine.errors import ZhidaError
from engine.words import Words

MAX_CHARACTERS = 100_000
"""Beyond this a message is not even tokenized: 131,072 tokens, the model's native window, is about as much Chinese."""
PROGRESS_S = 0.5
BLANK = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
"""Characters that show nothing and are not white space to str.strip."""


def language() -> str:
    """The browser's language tag."""
    session = cl.context.session
    return session.language if isinstance(session, WebsocketSession) else guards.CHINESE


def chat() -> Chat:
    """This browser's chat."""
    found: Chat | None = cl.user_session.get("chat")
    if found is None:
        found = Chat(panel.default_preferences(boot.settings(), language()))
        cl.user_session.set("chat", found)
    return found


async def begin() -> None:
    """A new chat: show the panel with the values in force."""
    await show_panel()


async def show_panel() -> None:
    """Send the settings panel."""
    await panel.show(boot.host(), boot.settings(), chat().preferences, language(), boot.switch_allowed())


async def ask(message: cl.Message | None) -> None:
    """A question was sent, or an old one edited."""
    if message is None:
        await say(texts.LOST_QUESTION)
        return
    await chat().rewind(message.id)
    if refusal := _refusal(message):
        chat().conversation.ask(message.id, "")
        await say(refusal)
    else:
        await _answer(message.id, message.content)


def _refusal(message: cl.Message) -> Words | None:
    """Why a message is no question at all."""
    if len(message.content) > MAX_CHARACTERS:
        return texts.too_long_text(len(message.content), MAX_CHARACTERS)
    if not message.content.translate(dict.fromkeys(map(ord, BLANK))).strip():
        return texts.NO_FILES if message.elements else texts.EMPTY_QUESTION
    return None


async def regenerate(question_id: str) -> None:
    """The newest answer is wanted again: it goes, and its question is asked anew."""
    question = await chat().rewind(question_id)
    if question is None:
        await say(texts.LOST_QUESTION)
        return
    await _clear_after(question_id)
    await cl.context.emitter.task_start()
    try:
        await _answer(question_id, question)
    finally:
        await cl.context.emitter.task_end()


async def stop() -> None:
    """The stop button: every answer of this chat ends, as far as it has come."""
    await chat().end_turns("stopped")


async def left() -> None:
    """The socket dropped; it may come back."""
    session = cl.context.session
    assert isinstance(session, WebsocketSession)
    leaving = chat().leave(boot.settings().engine_leave_grace_s, lambda: guards.connected(session))
    cl.user_session.set("leaving", asyncio.create_task(leaving))


async def change_settings(values: dict[str, Any]) -> None:
    """The panel was confirmed."""
    current = chat()
    current.preferences = panel.read_preferences(values, boot.settings())
    host = boot.host()
    if host.plan and host.plan.choice and values.get("profile", host.wanted) != host.wanted:
        await _ask_switch(str(values["profile"]))


async def switch(profile: str) -> None:
    """The switch was confirmed: exchange the engine, showing how far it is, and say how it went."""
    await _take_question_back()
    if not boot.switch_allowed():
        await say(texts.SWITCH_FORBIDDEN)
        return
    message = await say(texts.THINKING)
    began, host = time.monotonic(), boot.host()
    job = asyncio.create_task(host.switch(profile))
    while not (await asyncio.wait([job], timeout=PROGRESS_S))[0]:
        seconds = int(time.monotonic() - began)
        text = texts.switching(profile, host.loading.step, host.loading.fraction, seconds)
        await message.stream_token(text.speak(language()), is_sequence=True)
    try:
        message.content = job.result().speak(language())
    except ZhidaError as error:
        message.content = error.words.speak(language())
    await message.update()
    await show_panel()


async def keep_profile() -> None:
    """The switch was cancelled."""
    await _take_question_back()
    await say(texts.SWITCH_KEPT)
    await show_panel()


async def say(words: Words) -> cl.Message:
    """A message of the app's own."""
    message = cl.Message(content=words.speak(language()), metadata={"avatarName": AVATAR})
    await message.send()
    return message


async def _ask_switch(profile: str) -> None:
    host = boot.host()
    if not boot.switch_allowed():
        await say(texts.SWITCH_FORBIDDEN)
        return
    try:
        reason = host.reason_for(profile)
    except ZhidaError as error:
        await say(error.words)
        await show_panel()
        return
    question = texts.ask_switch(profile, reason, host.limiter.running).speak(language())
    yes, no = texts.SWITCH_YES.speak(language()), texts.SWITCH_NO.speak(language())
    actions = [
        cl.Action(name="switch_profile", payload={"profile": profile}, label=yes, icon="check"),
        cl.Action(name="keep_profile", payload={}, label=no, icon="x"),
    ]
    await _take_question_back()
    asked = cl.Message(content=question, actions=actions, metadata={"avatarName": AVATAR})
    cl.user_session.set("asked", asked)
    await asked.send()


async def _take_question_back() -> None:
    """A question that was answered, or asked again, cannot be answered once more."""
    if asked := cl.user_session.get("asked"):
        cl.user_session.set("asked", None)
        await asked.remove_actions()


async def _answer(question_id: str, question: str) -> None:
    if newest := cl.user_session.get("newest"):
        await newest.retire()
    screen = AnswerMessage(question_id, language())
    cl.user_session.set("newest", screen)
    await chat().ask(boot.host(), screen, question_id, question)


async def _clear_after(question_id: str) -> None:
    """Take every message after the question off the page, as Chainlit does after an edit."""
    found = False
    for message in cl.chat_context.get():
        if found:
            await message.remove()
        found = found or message.id == question_id
