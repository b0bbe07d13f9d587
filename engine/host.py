"""EngineHost owns the one engine of the process: loads it, watches it, starts it again, exchanges it."""

import asyncio
import contextlib
import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine import vitals
from engine.alarms import Alarm, alarms
from engine.base import Engine, EngineHealth, EngineInfo, EngineState, Loading, OnLoading
from engine.errors import EngineDead, ZhidaError
from engine.limits import Limiter
from engine.machine_use import Machine, MachineUse
from engine.metrics import Metrics
from engine.profiles import Choice
from engine.words import Words

log = logging.getLogger(__name__)

RESTART_SPAN_S = 600.0
WATCH_S = 2.0
DRAIN_S = 20.0
STOP_S = 15.0

BEGIN = Loading(Words("模型加载中", "Loading the model"))
AGAIN = Loading(Words("引擎意外停止，正在重新启动", "The engine died, starting it again"))
RECONNECTING = Loading(
    Words("与模型服务的连接中断，正在重新连接", "The connection to the model server was lost, reconnecting")
)
RESTARTING = Words("正在重新启动引擎", "Restarting the engine")
STOPPED = Words("引擎已停止。", "The engine has stopped.")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to make an engine: `build` runs in a thread and may take minutes (it fetches weights)."""

    choice: Choice | None
    build: Callable[[OnLoading], Engine]
    concurrent: int
    queued: int
    restarts: int | None
    """How many deaths within ten minutes are followed by a restart; None: always (a server started elsewhere)."""


Planner = Callable[[str], Plan]
"""The plan for a profile's name or `auto`. Raises ConfigurationError before anything is touched."""


class EngineHost:
    """Created once a process, in its event loop; `run` is called once."""

    def __init__(self, plan_for: Planner, profile: str, on_loading: OnLoading) -> None:
        self._plan_for, self.wanted, self._console = plan_for, profile, on_loading
        self.metrics = Metrics()
        self.limiter = Limiter(1, 0)
        self.metrics.watch(lambda: self.limiter.running, lambda: self.limiter.waiting)
        self.plan: Plan | None = None
        self.state = EngineState.LOADING
        self.reason: Words | None = None
        self.loading = BEGIN
        self.since = self._ready_at = time.monotonic()
        self.health: EngineHealth | None = None
        self.alarms: dict[Alarm, Words] = {}
        self._machine = Machine()
        self._engine: Engine | None = None
        self._changed = asyncio.Event()
        self._trouble = asyncio.Event()
        self._switch: asyncio.Lock = asyncio.Lock()
        self._deaths: deque[float] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def engine(self) -> Engine | None:
        """The engine, while it is ready."""
        return self._engine if self.state is EngineState.READY else None

    def vitals(self) -> vitals.Vitals:
        """Everything known of the engine now."""
        is_ready = self.state is EngineState.READY
        uptime = time.monotonic() - self._ready_at if is_ready else None
        return vitals.gather(uptime, self.health, self.limiter, self.metrics.history, self.alarms)

    async def machine_use(self) -> MachineUse:
        """What the machine gives; a card that the engine does not run on is none of its own."""
        use = await asyncio.to_thread(self._machine.read)
        choice = self.plan.choice if self.plan else None
        return use if choice and choice.profile.on_gpu else replace(use, gpu=None)

    def launch(self) -> None:
        """Begin loading in the background."""
        self._task = asyncio.create_task(self._live(self.wanted), name="engine-host")

    async def changed(self, timeout_s: float) -> None:
        """Wait for the next change of state or loading step, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    def report_death(self, engine: Engine) -> None:
        """Called by whoever met EngineDead, so that nobody else is sent to a dead engine."""
        if self.engine is engine:
            self.loading = self._after_death()
            self._set(EngineState.LOADING, STOPPED)
            self._trouble.set()

    async def stop(self) -> None:
        """Let the engine go, whatever it is doing."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=STOP_S)
        if self._engine:
            await self._engine.stop()

    def reason_for(self, profile: str) -> Words:
        """Why `profile` can run here. Raises ConfigurationError where it cannot."""
        choice = self._plan_for(profile).choice
        return choice.reason if choice else Words("", "")

    async def switch(self, profile: str) -> Words:
        """Exchange the engine for one of another profile; says how it went.

        Running answers get DRAIN_S seconds to finish. If the new engine cannot start, the old profile comes back.
        Raises ConfigurationError, before anything is touched, for a profile that this machine cannot run.
        """
        async with self._switch:
            before = self.wanted
            if profile == before and self.state is EngineState.READY:
                return Words(f"已在使用 {profile}。", f"{profile} is in use already.")
            self._plan_for(profile)
            await self._retire(Words(f"正在切换到显卡配置 {profile}", f"Switching to profile {profile}"))
            if await self._begin(profile):
                return Words(f"已切换到 {profile}。", f"Switched to {profile}.")
            why = self.reason or STOPPED
            await self._retire(Words(f"正在恢复显卡配置 {before}", f"Going back to profile {before}"))
            if not await self._begin(before):
                return Words(
                    f"{profile} 启动失败，恢复 {before} 也没有成功，引擎已停止。原因：{why.zh}",
                    f"{profile} could not start, nor could {before} again; the engine has stopped. Reason: {why.en}",
                )
            return Words(
                f"{profile} 启动失败，已恢复 {before}。原因：{why.zh}",
                f"{profile} could not start; back on {before}. Reason: {why.en}",
            )

    async def restart(self) -> Words:
        """Let the engine go, once running answers have had DRAIN_S seconds, and load it again; says how it went."""
        async with self._switch:
            await self._retire(RESTARTING)
            if await self._begin(self.wanted):
                return Words("引擎已重新启动。", "The engine has been restarted.")
            why = self.reason or STOPPED
            return Words(f"引擎没有启动起来。原因：{why.zh}", f"The engine did not come up. Reason: {why.en}")

    async def _begin(self, profile: str) -> bool:
        """Launch a life with `profile`; True once it is ready, False once it is dead."""
        self.wanted = profile
        self.launch()
        while self.state is EngineState.LOADING:
            await self.changed(WATCH_S)
        return self.state is EngineState.READY

    async def _retire(self, step: Words) -> None:
        """End the present life: no new answers, running ones drained, the engine let go."""
        self.loading = Loading(step)
        self._set(EngineState.LOADING, None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await self.limiter.idle()
        await self.stop()
        self._engine = None
        self._deaths.clear()

    async def _live(self, profile: str) -> None:
        """Load, watch, and load again after a death, until told to stop or the deaths are too many."""
        try:
            self.plan = plan = self._plan_for(profile)
            self.limiter.resize(plan.concurrent, plan.queued)
            if plan.choice:
                self._console(Loading(plan.choice.reason))
            while True:
                await self._load(plan)
                await self._until_dead()
                await self._bury()
                self._allow_restart(plan)
        except ZhidaError as error:
            self._set(EngineState.DEAD, error.words)
            print(f"引擎未能启动：{error.words.zh}", file=sys.stderr, flush=True)
        except Exception:  # the page must say that the engine is gone even where the cause is a fault of ours
            log.exception("the engine's keeper failed")
            self._set(EngineState.DEAD, Words("引擎已停止：内部错误，详见控制台。", "Internal error, see the console."))

    async def _load(self, plan: Plan) -> None:
        """Build and start; a death while starting counts as a death."""
        while True:
            self.since = time.monotonic()
            self._set(EngineState.LOADING, self.reason)
            try:
                self._engine = await asyncio.to_thread(plan.build, self._on_loading())
                await self._engine.start(self._on_loading())
            except EngineDead as error:
                self.reason = error.words
                await self._bury()
                self._allow_restart(plan)
            else:
                self._trouble.clear()
                self._ready_at = time.monotonic()
                self._set(EngineState.READY, None)
                self._console(Loading(_ready(self._engine.info, time.monotonic() - self.since)))
                return

    async def _until_dead(self) -> None:
        """Return when the engine has died: told by whoever met it, or seen by looking every WATCH_S seconds."""
        assert self._engine
        while not self._trouble.is_set():
            health = await self._engine.health()
            if health.state is EngineState.DEAD:
                self.loading = self._after_death()
                self._set(EngineState.LOADING, health.reason or STOPPED)
                return
            self._look(health)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._trouble.wait()

    def _look(self, health: EngineHealth) -> None:
        """Keep what is seen of a ready engine, and say once on the console what is wrong with it."""
        self.health = health
        self.metrics.history.look(health, self.limiter.running, self.limiter.waiting)
        before, self.alarms = self.alarms, alarms(health.kv_use, self.metrics.history, self.alarms)
        for alarm in self.alarms.keys() - before.keys():
            log.warning("%s", self.alarms[alarm].zh)

    async def _bury(self) -> None:
        if self._engine:
            await self._engine.stop()
            self._engine = None

    def _allow_restart(self, plan: Plan) -> None:
        """Record a death; raises EngineDead when there were too many."""
        now = time.monotonic()
        self._deaths.append(now)
        while self._deaths and now - self._deaths[0] > RESTART_SPAN_S:
            self._deaths.popleft()
        if plan.restarts is not None and len(self._deaths) > plan.restarts:
            why = self.reason or STOPPED
            raise EngineDead(
                Words(
                    f"引擎已停止：十分钟内重启了 {plan.restarts} 次仍然退出。请运行 python -m engine.doctor 检查，再重新 make run。最后的原因：{why.zh}",
                    f"The engine has stopped: it died again after {plan.restarts} restarts in ten minutes. "
                    f"Run python -m engine.doctor, then make run again. Last reason: {why.en}",
                )
            )
        self._console(self.loading)

    def _after_death(self) -> Loading:
        """What is done about it; a server that runs elsewhere can only be waited for."""
        return RECONNECTING if self.plan and self.plan.restarts is None else AGAIN

    def _on_loading(self) -> OnLoading:
        """A listener for any thread, that moves each step into the event loop."""
        loop = asyncio.get_running_loop()

        def hear(loading: Loading) -> None:
            self._console(loading)
            loop.call_soon_threadsafe(self._step, loading)

        return hear

    def _step(self, loading: Loading) -> None:
        self.loading = loading
        self._announce()

    def _set(self, state: EngineState, reason: Words | None) -> None:
        self.state, self.reason = state, reason
        self.metrics.state(state)
        if state is not EngineState.READY:
            self.health = None
            self.alarms.pop(Alarm.KV_CACHE, None)
            self.metrics.history.blind()
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _ready(info: EngineInfo, seconds: float) -> Words:
    """What the console says when questions are answered."""
    return Words(
        f"就绪：{info.model}，上下文 {info.window} 词元，用时 {seconds:.0f} 秒",
        f"Ready: {info.model}, a window of {info.window} tokens, after {seconds:.0f} s",
    )
