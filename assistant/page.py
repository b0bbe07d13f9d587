"""What one browser's page holds, and how it is told things."""

import asyncio

import chainlit as cl
from chainlit.session import WebsocketSession

from assistant import boot, chat_profiles, console, grounds, guards, panel
from assistant.chat import Chat
from assistant.ground import FreeTalk
from assistant.screen import AVATAR
from engine.words import Words


def language() -> str:
    """The browser's language tag."""
    session = cl.context.session
    return session.language if isinstance(session, WebsocketSession) else guards.CHINESE


def chat() -> Chat:
    """This browser's chat."""
    session_id = cl.context.session.id
    found = boot.chats().get(session_id)
    if found is None:
        is_knowledge = chat_profiles.is_knowledge(cl.context.session.chat_profile)
        preferences = panel.default_preferences(boot.settings(), language(), is_knowledge)
        ground = grounds.documents(session_id, language(), own_system=True) if is_knowledge else FreeTalk()
        found = boot.chats()[session_id] = Chat(preferences, is_knowledge, ground)
    return found


def speak(words: Words) -> str:
    """Words in the browser's language."""
    return words.speak(language())


async def say(words: Words) -> cl.Message:
    """A message of the app's own."""
    message = cl.Message(content=speak(words), metadata={"avatarName": AVATAR})
    await message.send()
    return message


async def show(element: cl.CustomElement) -> cl.Message:
    """A message that is an element alone; not below the question that called for it, which may be taken off the page."""
    message = cl.Message(content="", metadata={"avatarName": AVATAR})
    message.parent_id = None
    message.elements = [element]  # type: ignore[list-item]  # Chainlit's annotation leaves custom elements out
    await message.send()
    return message


async def show_panel() -> None:
    """Send the settings panel, with the values in force."""
    await panel.show(
        boot.host(),
        boot.settings(),
        chat().preferences,
        language(),
        boot.switch_allowed(),
        console_message() is not None,
    )


async def open_console() -> None:
    """Show the engine's state as the newest message; one panel a chat is enough."""
    await close_console()
    element = await asyncio.to_thread(console.element, boot.host(), boot.settings(), boot.switch_allowed())
    cl.user_session.set("console", await show(element))
    await show_panel()


async def close_console() -> None:
    """Take the panel off the page."""
    if shown := console_message():
        await shown.remove()
    cl.user_session.set("console", None)


def console_message() -> cl.Message | None:
    """The panel's message, while it is on the page."""
    return on_page(cl.user_session.get("console"))


def on_page(message: cl.Message | None) -> cl.Message | None:
    """A message, unless it has been taken off the page."""
    return message if message and message in cl.chat_context.get() else None


async def put_question(question: Words, yes: cl.Action, no: cl.Action) -> None:
    """Ask for a confirmation, in place of one that is still open."""
    await take_question_back()
    asked = cl.Message(content=speak(question), actions=[yes, no], metadata={"avatarName": AVATAR})
    cl.user_session.set("asked", asked)
    await asked.send()


async def take_question_back() -> None:
    """A question that was answered, or asked again, cannot be answered once more."""
    if asked := cl.user_session.get("asked"):
        cl.user_session.set("asked", None)
        await asked.remove_actions()
