"""What happens in one browser's chat, called by the callbacks of app.py."""

import asyncio
from functools import partial
from typing import Any

import chainlit as cl
from chainlit.session import WebsocketSession

from assistant import boot, console, control, grounds, guards, page, panel, shelf, texts
from assistant.intake import Intake, arriving
from assistant.page import chat, language
from assistant.screen import AnswerMessage
from engine.errors import EngineBusy
from engine.words import Words

MAX_CHARACTERS = 100_000
"""Beyond this a message is not even tokenized: 131,072 tokens, the model's native window, is about as much Chinese."""
BLANK = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
"""Characters that show nothing and are not white space to str.strip."""


async def begin() -> None:
    """A new chat: show the panel with the values in force, and the commands for the lists."""
    await cl.context.emitter.set_commands([shelf.command(language()), console.command(language())])
    await page.show_panel()


async def ask(message: cl.Message | None) -> None:
    """A question was sent, or an old one edited; files with it are read first."""
    if message is None:
        await page.say(texts.LOST_QUESTION)
        return
    await chat().rewind(message.id)
    if await _open_list(message) and _is_blank(message.content) and not message.elements:
        await message.remove()
        return
    if message.elements and (not await _take_in(message) or _is_blank(message.content)):
        return
    if refusal := _refusal(message.content):
        await _refuse(message.id, refusal)
        return
    try:
        with chat().share():
            await _answer(message.id, message.content)
    except EngineBusy as error:
        boot.host().metrics.question("share")
        await _refuse(message.id, error.words)


async def _open_list(message: cl.Message) -> bool:
    """Show what a command calls for; returns whether there was one."""
    if message.command in console.COMMANDS:
        await page.open_console()
    elif message.command in shelf.COMMANDS:
        await shelf.open_shelf()
    else:
        return False
    return True


async def _take_in(message: cl.Message) -> bool:
    """Read the files of a message, showing how far each is; returns whether that came to its end."""
    session = cl.context.session
    assert isinstance(session, WebsocketSession)
    files = arriving(session, message)
    if not files:  # read before: the message was edited
        return True
    intake = Intake(session, files, language())
    await page.show(intake.element)
    is_through = await chat().take_in(partial(_read, intake, session.id))
    await shelf.refresh()
    return is_through


async def _read(intake: Intake, session_id: str) -> None:
    """Take the files in, and let the chat answer from those that are ready, before the next question's turn comes."""
    try:
        await intake.run(boot.library)
    finally:
        if intake.ready and await grounds.settle(chat(), session_id, language()):
            intake.note = texts.FROM_FILES
            await intake.show()


async def _refuse(question_id: str, words: Words) -> None:
    """Say why a question is not answered; it can still be edited."""
    chat().conversation.ask(question_id, "")
    await page.say(words)


def _refusal(content: str) -> Words | None:
    """Why a message is no question at all."""
    if len(content) > MAX_CHARACTERS:
        return texts.too_long_text(len(content), MAX_CHARACTERS)
    return texts.EMPTY_QUESTION if _is_blank(content) else None


def _is_blank(text: str) -> bool:
    return not text.translate(dict.fromkeys(map(ord, BLANK))).strip()


async def regenerate(question_id: str) -> None:
    """The newest answer is wanted again: it goes, and its question is asked anew."""
    try:
        with chat().share():
            await _ask_anew(question_id)
    except EngineBusy as error:
        boot.host().metrics.question("share")
        await page.say(error.words)


async def _ask_anew(question_id: str) -> None:
    question = await chat().rewind(question_id)
    if question is None:
        await page.say(texts.LOST_QUESTION)
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
        await control.ask_switch(str(values["profile"]))


async def _switch_console(is_on: bool) -> None:
    if is_on and page.console_message() is None:
        await page.open_console()
    elif not is_on:
        await page.close_console()


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
