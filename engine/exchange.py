"""Switching the engine's profile and restarting it: one at a time, however often it is asked for."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from engine.base import EngineState
from engine.errors import EngineBusy
from engine.host_words import RESTARTING, STOPPED, UNDER_WAY
from engine.words import Words

if TYPE_CHECKING:
    from engine.host import EngineHost


class Exchange:
    """What is under way goes on in the background, whoever stops waiting for it."""

    def __init__(self, host: "EngineHost") -> None:
        self._host = host
        self._name = ""
        self._task: asyncio.Task[Words] | None = None

    async def switch(self, profile: str) -> Words:
        """See EngineHost.switch."""
        return await self._join(f"switch {profile}", self._switch(profile))

    async def restart(self) -> Words:
        """See EngineHost.restart."""
        return await self._join("restart", self._restart())

    def cancel(self) -> None:
        """Give up what is under way."""
        if self._task:
            self._task.cancel()

    async def _join(self, name: str, work: Coroutine[Any, Any, Words]) -> Words:
        """Begin it, or wait for the same one that is under way. Raises EngineBusy while another one is."""
        if self._task is None or self._task.done():
            self._name, self._task = name, asyncio.create_task(work, name="engine-exchange")
        else:
            work.close()
            if name != self._name:
                raise EngineBusy(UNDER_WAY)
        return await asyncio.shield(self._task)

    async def _switch(self, profile: str) -> Words:
        host, before = self._host, self._host.wanted
        if profile == before and host.state is EngineState.READY:
            return Words(f"已在使用 {profile}。", f"{profile} is in use already.")
        await host.reason_for(profile)
        await host.retire(Words(f"正在切换到显卡配置 {profile}", f"Switching to profile {profile}"))
        if await host.begin(profile, has_fallback=profile != before):
            return Words(f"已切换到 {profile}。", f"Switched to {profile}.")
        why = host.reason or STOPPED
        if profile == before:
            return Words(
                f"{profile} 启动失败，引擎已停止。原因：{why.zh}",
                f"{profile} could not start; the engine has stopped. Reason: {why.en}",
            )
        await host.retire(Words(f"正在恢复显卡配置 {before}", f"Going back to profile {before}"))
        if not await host.begin(before):
            return Words(
                f"{profile} 启动失败，恢复 {before} 也没有成功，引擎已停止。原因：{why.zh}",
                f"{profile} could not start, nor could {before} again; the engine has stopped. Reason: {why.en}",
            )
        return Words(
            f"{profile} 启动失败，已恢复 {before}。原因：{why.zh}",
            f"{profile} could not start; back on {before}. Reason: {why.en}",
        )

    async def _restart(self) -> Words:
        await self._host.retire(RESTARTING)
        if await self._host.begin(self._host.wanted):
            return Words("引擎已重新启动。", "The engine has been restarted.")
        why = self._host.reason or STOPPED
        return Words(f"引擎没有启动起来。原因：{why.zh}", f"The engine did not come up. Reason: {why.en}")
