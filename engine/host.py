"""EngineHost owns the one engine of the process: loads it, watches it, starts it again, exchanges it."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine import vitals
from engine.alarms import Alarm, alarms
from engine.base import Engine, EngineHealth, EngineState, Loading, OnLoading
from engine.deaths import Deaths
from engine.errors import EngineDead, ZhidaError
from engine.exchange import Exchange
from engine.file_names import file_names
from engine.host_words import AGAIN, BEGIN, INTERNAL, RECONNECTING, STOPPED, ready
from engine.limits import Limiter
from engine.machine_use import Machine, MachineUse, Where
from engine.metrics import Metrics
from engine.profiles import Choice
from engine.words import Words

log = logging.getLogger(__name__)

WATCH_S = 2.0
DRAIN_S = 20.0
STOP_S = 15.0
FRESH_S = 1.0
"""Many panels share one look at the vitals."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to make an engine: `build` runs in a thread and may take minutes (it fetches weights)."""

    choice: Choice | None
    build: Callable[[OnLoading], Engine]
    concurrent: int
    queued: int
    restarts: int | None
    """How many deaths within ten minutes are followed by a restart; None: always (a server started elsewhere)."""
    where: Where = Where.INSIDE


Planner = Callable[[str], Plan]
"""The plan for a profile's name or `auto`. Raises ConfigurationError before anything is touched."""


class EngineHost:
    """Created once a process, in its event loop; `run` is called once."""

    def __init__(self, plan_for: Planner, profile: str, on_loading: OnLoading) -> None:
        self._plan_for, self.wanted, self._console = plan_for, profile, on_loading
        self.metrics = Metrics()
        self.limiter = Limiter(1, 0)
        self.limiter.close()
        self.metrics.watch(lambda: self.limiter.running, lambda: self.limiter.waiting)
        self.plan: Plan | None = None
        self.state = EngineState.LOADING
        self.reason: Words | None = None
        self.loading = BEGIN
        self.since = self._ready_at = time.monotonic()
        self.health: EngineHealth | None = None
        self.alarms: dict[Alarm, Words] = {}
        self._vitals: vitals.Vitals | None = None
        self._machine = Machine()
        self._engine: Engine | None = None
        self._changed = asyncio.Event()
        self._trouble = asyncio.Event()
        self._planned = asyncio.Event()
        self._is_draining = False
        self._exchange = Exchange(self)
        self._deaths = Deaths()
        self._task: asyncio.Task[None] | None = None
        self._came_up: asyncio.Future[bool] | None = None

    @property
    def engine(self) -> Engine | None:
        """The engine, while it is ready."""
        return self._engine if self.state is EngineState.READY else None

    @property
    def serving(self) -> Engine | None:
        """The engine for those who hold a slot: while it is ready, and while it is being drained."""
        return self._engine if self._is_draining else self.engine

    def vitals(self) -> vitals.Vitals:
        """Everything known of the engine now, at most FRESH_S old."""
        history = self.metrics.history
        if self._vitals is None or history.now - self._vitals.at > FRESH_S:
            uptime = time.monotonic() - self._ready_at if self.engine else None
            self._vitals = vitals.gather(uptime, self.health, self.limiter, history, self.alarms)
        return self._vitals

    async def machine_use(self) -> MachineUse:
        """What this machine gives the engine."""
        use = await asyncio.to_thread(self._machine.read)
        choice = self.plan.choice if self.plan else None
        return use.of(self.plan.where if self.plan else Where.INSIDE, bool(choice and choice.profile.on_gpu))

    def launch(self, has_fallback: bool = False) -> None:
        """Begin loading in the background; `has_fallback`: not coming up is not the end."""
        self._came_up = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(self.wanted, self._came_up, has_fallback), name="engine-host")

    async def planned(self) -> None:
        """Wait until the limits are known, which the first plan says."""
        await self._planned.wait()

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
        self._exchange.cancel()
        await self._end_watch()
        await self._bury()

    async def reason_for(self, profile: str) -> Words:
        """Why `profile` can run here. Raises ConfigurationError where it cannot."""
        choice = (await asyncio.to_thread(self._plan_for, profile)).choice
        return choice.reason if choice else Words("", "")

    async def switch(self, profile: str) -> Words:
        """Exchange the engine for one of another profile; says how it went.

        Running answers get DRAIN_S seconds to finish. If the new engine cannot start, the old profile comes back.
        Asked for again meanwhile, it is the same switch. Raises ConfigurationError, before anything is touched, for a
        profile that this machine cannot run, and EngineBusy while something else is under way.
        """
        return await self._exchange.switch(profile)

    async def restart(self) -> Words:
        """Let the engine go, once running answers have had DRAIN_S seconds, and load it again; says how it went.

        Asked for again meanwhile, it is the same restart. Raises EngineBusy during a switch.
        """
        return await self._exchange.restart()

    async def begin(self, profile: str, has_fallback: bool = False) -> bool:
        """Launch a life with `profile`; True once it is ready, False once it cannot be."""
        self.wanted = profile
        self.launch(has_fallback)
        assert self._came_up
        return await self._came_up

    async def retire(self, step: Words) -> None:
        """End the present life: no new answers, running ones drained, the engine let go. Whoever waits goes on waiting."""
        self.loading, self._is_draining = Loading(step), True
        self._set(EngineState.LOADING, None)
        try:
            await self._end_watch()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self.limiter.idle()
        finally:
            self._is_draining = False
        await self._bury()
        self._deaths.clear()

    async def _end_watch(self) -> None:
        if self._task and self._came_up:
            self._came_up.cancel()
            self._task.cancel()
            await asyncio.wait([self._task], timeout=STOP_S)

    async def _live(self, profile: str, came_up: "asyncio.Future[bool]", has_fallback: bool) -> None:
        """Load, watch, and load again after a death, until told to stop or the deaths are too many."""
        try:
            self.plan = plan = await asyncio.to_thread(self._plan_for, profile)
            self.limiter.resize(plan.concurrent, plan.queued)
            self._planned.set()
            if plan.choice:
                self._console(Loading(plan.choice.reason))
            while True:
                await self._load(plan)
                if not came_up.done():
                    came_up.set_result(True)
                await self._until_dead()
                await self._bury()
                self._allow_restart(plan)
        except ZhidaError as error:
            print(f"引擎未能启动：{error.words.zh}", file=sys.stderr, flush=True)
            self._give_up(error.words, came_up, has_fallback)
        except Exception:  # the page must say that the engine is gone even where the cause is a fault of ours
            log.exception("the engine's keeper failed")
            self._give_up(INTERNAL, came_up, has_fallback)

    def _give_up(self, why: Words, came_up: "asyncio.Future[bool]", has_fallback: bool) -> None:
        """A life is over. Questions wait on for another profile that is tried instead of one that never came up."""
        is_last = came_up.done() or not has_fallback
        self._set(EngineState.DEAD if is_last else EngineState.LOADING, why)
        self._planned.set()
        if not came_up.done():
            came_up.set_result(False)

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
                self._console(Loading(ready(self._engine.info, time.monotonic() - self.since)))
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
            if self.state is EngineState.READY:  # nobody has met its death meanwhile
                self._look(health)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S):
                    await self._trouble.wait()

    def _look(self, health: EngineHealth) -> None:
        """Keep what is seen of a ready engine, and say once on the console what is wrong with it."""
        self.health, self._vitals = health, None
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
        self._deaths.record(plan.restarts, self.reason or STOPPED)
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
        if state is EngineState.LOADING and self.state is not state:
            self.since = time.monotonic()
        self.state, self.reason = state, reason and file_names(reason)
        self.metrics.state(state)
        self._vitals = None
        if state is EngineState.READY:
            self.limiter.open()
        else:
            self.health, self.alarms = None, {}
            self.metrics.history.blind()
            self.limiter.close(self.reason or STOPPED if state is EngineState.DEAD else None)
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
