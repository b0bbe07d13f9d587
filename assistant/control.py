"""The engine from the page: exchange its profile, start it again, each after a confirmation."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import chainlit as cl

from assistant import boot, page, texts
from engine.errors import ZhidaError
from engine.words import Words

PROGRESS_S, PROGRESS_SPAN_S = 0.5, 120.0
"""How often, and for how long, a page shows how far an exchange of the engine is; the strip above goes on showing it."""


async def switch(profile: str) -> None:
    """The switch was confirmed: exchange the engine, showing how far it is, and say how it went."""
    await page.take_question_back()
    if boot.switch_allowed():
        await _exchange(boot.host().switch(profile), partial(texts.switching, profile))
        await page.show_panel()
    else:
        await page.say(texts.SWITCH_FORBIDDEN)


async def restart() -> None:
    """The restart was confirmed: let the engine go and load it again, showing how far it is."""
    await page.take_question_back()
    if boot.switch_allowed():
        await _exchange(boot.host().restart(), texts.restarting)
    else:
        await page.say(texts.RESTART_FORBIDDEN)


async def _exchange(work: Coroutine[Any, Any, Words], progress: Callable[[Words, float | None, int], Words]) -> None:
    """Show `progress` in a message until the engine's exchange is done, then how it went; after PROGRESS_SPAN_S, that it
    goes on without us."""
    message = await page.say(texts.THINKING)
    began, host = time.monotonic(), boot.host()
    job = asyncio.create_task(work)
    while not (await asyncio.wait([job], timeout=PROGRESS_S))[0]:
        if time.monotonic() - began > PROGRESS_SPAN_S:
            job.cancel()  # the host's own task goes on
            message.content = texts.in_the_background(host.loading.step).speak(page.language())
            await message.update()
            return
        text = progress(host.loading.step, host.loading.fraction, int(time.monotonic() - began))
        await message.stream_token(text.speak(page.language()), is_sequence=True)
    try:
        message.content = job.result().speak(page.language())
    except ZhidaError as error:
        message.content = error.words.speak(page.language())
    await message.update()


async def keep_profile() -> None:
    """The switch was cancelled."""
    await page.take_question_back()
    await page.say(texts.SWITCH_KEPT)
    await page.show_panel()


async def keep_running() -> None:
    """The restart was cancelled."""
    await page.take_question_back()
    await page.say(texts.RESTART_KEPT)


async def ask_switch(profile: str) -> None:
    """Another profile was chosen: ask before the whole engine is exchanged."""
    host = boot.host()
    if not boot.switch_allowed():
        await page.say(texts.SWITCH_FORBIDDEN)
        return
    try:
        reason = await host.reason_for(profile)
    except ZhidaError as error:
        await page.say(error.words)
        await page.show_panel()
        return
    question = texts.ask_switch(profile, reason, host.limiter.running)
    yes = cl.Action(
        name="switch_profile", payload={"profile": profile}, label=page.speak(texts.SWITCH_YES), icon="check"
    )
    await page.put_question(
        question, yes, cl.Action(name="keep_profile", payload={}, label=page.speak(texts.SWITCH_NO), icon="x")
    )


async def ask_restart() -> None:
    """The console's button was pressed: ask before everybody's engine is let go."""
    if not boot.switch_allowed():
        await page.say(texts.RESTART_FORBIDDEN)
        return
    question = texts.ask_restart(boot.host().limiter.running)
    yes = cl.Action(name="restart_engine", payload={}, label=page.speak(texts.RESTART_YES), icon="check")
    await page.put_question(
        question, yes, cl.Action(name="keep_engine", payload={}, label=page.speak(texts.SWITCH_NO), icon="x")
    )
