"""What happens in one browser's chat, called by the callbacks of app.py."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import chainlit as cl
from chainlit.session import WebsocketSession

from assistant import boot, console, guards, panel, texts
from assistant.chat import Chat
from assistant.screen import AVATAR, AnswerMessage
from engine.errors import EngineBusy, ZhidaError
from engine.words import Words

MAX_CHARACTERS = 100_000
"""Beyond this a message is not even tokenized: 131,072 tokens, the model's native window, is about as much Chinese."""
PROGRESS_S, PROGRESS_SPAN_S = 0.5, 120.0
"""How often, and for how long, a page shows how far an exchange of the engine is; the strip above goes on showing it."""
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
    """A new chat: show the panel with the values in force, and the command for the console."""
    await cl.context.emitter.set_commands([console.command(language())])
    await show_panel()


async def show_panel() -> None:
    """Send the settings panel."""
    await panel.show(
        boot.host(), boot.settings(), chat().preferences, language(), boot.switch_allowed(), _console() is not None
    )


async def ask(message: cl.Message | None) -> None:
    """A question was sent, or an old one edited."""
    if message is None:
        await say(texts.LOST_QUESTION)
        return
    await chat().rewind(message.id)
    if message.command in console.COMMANDS:
        await open_console()
        if _is_blank(message.content):
            await message.remove()
            return
    if refusal := _refusal(message):
        await _refuse(message.id, refusal)
        return
    try:
        with chat().share():
            await _answer(message.id, message.content)
    except EngineBusy as error:
        boot.host().metrics.question("share")
        await _refuse(message.id, error.words)


async def _refuse(question_id: str, words: Words) -> None:
    """Say why a question is not answered; it can still be edited."""
    chat().conversation.ask(question_id, "")
    await say(words)


def _refusal(message: cl.Message) -> Words | None:
    """Why a message is no question at all."""
    if len(message.content) > MAX_CHARACTERS:
        return texts.too_long_text(len(message.content), MAX_CHARACTERS)
    if _is_blank(message.content):
        return texts.NO_FILES if message.elements else texts.EMPTY_QUESTION
    return None


def _is_blank(text: str) -> bool:
    return not text.translate(dict.fromkeys(map(ord, BLANK))).strip()


async def open_console() -> None:
    """Show the engine's state as the newest message; one panel a chat is enough."""
    await close_console()
    panel_element = await asyncio.to_thread(console.element, boot.host(), boot.settings(), boot.switch_allowed())
    message = cl.Message(content="", metadata={"avatarName": AVATAR})
    message.parent_id = None  # not below the question that called for it, which may be taken off the page
    message.elements = [panel_element]  # type: ignore[list-item]  # Chainlit's annotation leaves custom elements out
    cl.user_session.set("console", message)
    await message.send()
    await show_panel()


async def close_console() -> None:
    """Take the panel off the page."""
    if shown := _console():
        await shown.remove()
    cl.user_session.set("console", None)


def _console() -> cl.Message | None:
    """The panel's message, while it is on the page."""
    shown: cl.Message | None = cl.user_session.get("console")
    return shown if shown and shown in cl.chat_context.get() else None


async def regenerate(question_id: str) -> None:
    """The newest answer is wanted again: it goes, and its question is asked anew."""
    try:
        with chat().share():
            await _ask_anew(question_id)
    except EngineBusy as error:
        boot.host().metrics.question("share")
        await say(error.words)


async def _ask_anew(question_id: str) -> None:
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
    await _switch_console(bool(values.get("console", False)))
    host = boot.host()
    if host.plan and host.plan.choice and values.get("profile", host.wanted) != host.wanted:
        await ask_switch(str(values["profile"]))


async def _switch_console(is_on: bool) -> None:
    if is_on and _console() is None:
        await open_console()
    elif not is_on:
        await close_console()


async def switch(profile: str) -> None:
    """The switch was confirmed: exchange the engine, showing how far it is, and say how it went."""
    await _take_question_back()
    if boot.switch_allowed():
        await _exchange(boot.host().switch(profile), partial(texts.switching, profile))
        await show_panel()
    else:
        await say(texts.SWITCH_FORBIDDEN)


async def restart() -> None:
    """The restart was confirmed: let the engine go and load it again, showing how far it is."""
    await _take_question_back()
    if boot.switch_allowed():
        await _exchange(boot.host().restart(), texts.restarting)
    else:
        await say(texts.RESTART_FORBIDDEN)


async def _exchange(work: Coroutine[Any, Any, Words], progress: Callable[[Words, float | None, int], Words]) -> None:
    """Show `progress` in a message until the engine's exchange is done, then how it went; after PROGRESS_SPAN_S, that it
    goes on without us."""
    message = await say(texts.THINKING)
    began, host = time.monotonic(), boot.host()
    job = asyncio.create_task(work)
    while not (await asyncio.wait([job], timeout=PROGRESS_S))[0]:
        if time.monotonic() - began > PROGRESS_SPAN_S:
            job.cancel()  # the host's own task goes on
            message.content = texts.in_the_background(host.loading.step).speak(language())
            await message.update()
            return
        text = progress(host.loading.step, host.loading.fraction, int(time.monotonic() - began))
        await message.stream_token(text.speak(language()), is_sequence=True)
    try:
        message.content = job.result().speak(language())
    except ZhidaError as error:
        message.content = error.words.speak(language())
    await message.update()


async def keep_profile() -> None:
    """The switch was cancelled."""
    await _take_question_back()
    await say(texts.SWITCH_KEPT)
    await show_panel()


async def keep_running() -> None:
    """The restart was cancelled."""
    await _take_question_back()
    await say(texts.RESTART_KEPT)


def _speak(words: Words) -> str:
    return words.speak(language())


async def say(words: Words) -> cl.Message:
    """A message of the app's own."""
    message = cl.Message(content=_speak(words), metadata={"avatarName": AVATAR})
    await message.send()
    return message


async def ask_switch(profile: str) -> None:
    """Another profile was chosen: ask before the whole engine is exchanged."""
    host = boot.host()
    if not boot.switch_allowed():
        await say(texts.SWITCH_FORBIDDEN)
        return
    try:
        reason = await host.reason_for(profile)
    except ZhidaError as error:
        await say(error.words)
        await show_panel()
        return
    question = texts.ask_switch(profile, reason, host.limiter.running)
    yes = cl.Action(name="switch_profile", payload={"profile": profile}, label=_speak(texts.SWITCH_YES), icon="check")
    await _put_question(
        question, yes, cl.Action(name="keep_profile", payload={}, label=_speak(texts.SWITCH_NO), icon="x")
    )


async def ask_restart() -> None:
    """The console's button was pressed: ask before everybody's engine is let go."""
    if not boot.switch_allowed():
        await say(texts.RESTART_FORBIDDEN)
        return
    question = texts.ask_restart(boot.host().limiter.running)
    yes = cl.Action(name="restart_engine", payload={}, label=_speak(texts.RESTART_YES), icon="check")
    await _put_question(
        question, yes, cl.Action(name="keep_engine", payload={}, label=_speak(texts.SWITCH_NO), icon="x")
    )


async def _put_question(question: Words, yes: cl.Action, no: cl.Action) -> None:
    await _take_question_back()
    asked = cl.Message(content=_speak(question), actions=[yes, no], metadata={"avatarName": AVATAR})
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
