"""知答: Chainlit's callbacks, each a few lines that call below."""

import sys
from typing import Any

import chainlit as cl
from chainlit.server import app as server

# Under `-w` the engine host outlives a reload. It raises and returns its own modules' classes: keep those modules.
sys.modules.update(getattr(server.state, "engine_modules", {}))

from assistant import boot, session, starters  # noqa: E402  (after the modules are back in place)

server.state.engine_modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "engine"}
boot.prepare()


@cl.on_app_startup
async def on_app_startup() -> None:
    await boot.start()


@cl.on_app_shutdown
async def on_app_shutdown() -> None:
    await boot.stop()


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
    await session.switch(str(action.payload["profile"]))


@cl.action_callback("keep_profile")
async def on_keep_profile(action: cl.Action) -> None:
    await session.keep_profile()


@cl.action_callback("ask_switch")
async def on_ask_switch(action: cl.Action) -> None:
    await session.ask_switch(str(action.payload["profile"]))


@cl.action_callback("ask_restart")
async def on_ask_restart(action: cl.Action) -> None:
    await session.ask_restart()


@cl.action_callback("restart_engine")
async def on_restart_engine(action: cl.Action) -> None:
    await session.restart()


@cl.action_callback("keep_engine")
async def on_keep_engine(action: cl.Action) -> None:
    await session.keep_running()


@cl.on_settings_update
async def on_settings_update(values: dict[str, Any]) -> None:
    await session.change_settings(values)


@cl.on_stop
async def on_stop() -> None:
    await session.stop()


@cl.on_chat_end
async def on_chat_end() -> None:
    await session.left()
