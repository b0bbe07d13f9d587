"""知答: Chainlit's callbacks, each a few lines that call below."""

import sys
from typing import Any

import chainlit as cl
from chainlit.server import app as server

# Under `-w` engine and library outlive a reload. They raise and return their own modules' classes: keep those modules.
sys.modules.update(getattr(server.state, "kept_modules", {}))

from assistant import boot, chat_profiles, control, session, shelf, starters  # noqa: E402  (modules are back in place)

boot.keep_modules()
boot.prepare()


@cl.on_app_startup
async def on_app_startup() -> None:
    await boot.start()


@cl.on_app_shutdown
async def on_app_shutdown() -> None:
    await boot.stop()


@cl.set_chat_profiles
async def set_chat_profiles(user: cl.User | None, language: str | None) -> list[cl.ChatProfile]:
    return await chat_profiles.for_language(language or "zh-CN")


@cl.set_starters
async def set_starters(user: cl.User | None, language: str | None) -> list[cl.Starter]:
    return starters.for_language(language or "zh-CN")


@cl.on_chat_start
async def on_chat_start() -> None:
    await session.begin()


@cl.on_message
async def on_message(message: cl.Message | None) -> None:
    await session.ask(message)


@cl.action_callback("regenerate")
async def on_regenerate(action: cl.Action) -> None:
    await session.regenerate(str(action.payload["question_id"]))


@cl.action_callback("switch_profile")
async def on_switch_profile(action: cl.Action) -> None:
    await control.switch(str(action.payload["profile"]))


@cl.action_callback("keep_profile")
async def on_keep_profile(action: cl.Action) -> None:
    await control.keep_profile()


@cl.action_callback("ask_switch")
async def on_ask_switch(action: cl.Action) -> None:
    await control.ask_switch(str(action.payload["profile"]))


@cl.action_callback("ask_restart")
async def on_ask_restart(action: cl.Action) -> None:
    await control.ask_restart()


@cl.action_callback("restart_engine")
async def on_restart_engine(action: cl.Action) -> None:
    await control.restart()


@cl.action_callback("keep_engine")
async def on_keep_engine(action: cl.Action) -> None:
    await control.keep_running()


@cl.action_callback("list_files")
async def on_list_files(action: cl.Action) -> dict[str, Any]:
    return await shelf.refresh()


@cl.action_callback("remove_file")
async def on_remove_file(action: cl.Action) -> dict[str, Any]:
    return await shelf.remove(str(action.payload["origin"]), bool(action.payload["shared"]))


@cl.action_callback("share_file")
async def on_share_file(action: cl.Action) -> dict[str, Any]:
    return await shelf.share(str(action.payload["origin"]))


@cl.on_settings_update
async def on_settings_update(values: dict[str, Any]) -> None:
    await session.change_settings(values)


@cl.on_stop
async def on_stop() -> None:
    await session.stop()


@cl.on_chat_end
async def on_chat_end() -> None:
    await session.left()
