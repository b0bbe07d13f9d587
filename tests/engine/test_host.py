"""The host: loading, dying, coming back, being exchanged."""

import asyncio
import threading
from pathlib import Path

import pytest

from engine.alarms import Alarm
from engine.base import Engine, EngineHealth, EngineInfo, EngineState, Loading, OnLoading
from engine.errors import ConfigurationError, EngineBusy, EngineDead
from engine.host import EngineHost, Plan
from engine.scripted import ScriptedEngine
from engine.words import Words


class Workshop:
    """Plans scripted engines by profile name and keeps every one it made; some names cannot start."""

    def __init__(self, restarts: int | None = 3) -> None:
        self.made: list[tuple[str, ScriptedEngine]] = []
        self.tried: list[str] = []
        self.restarts = restarts
        self.steps: list[Loading] = []
        self.broken = {"broken"}

    def plan_for(self, profile: str) -> Plan:
        if profile == "unknown":
            raise ConfigurationError(Words("没有这个配置。", "No such profile."))

        def build(on_loading: OnLoading) -> Engine:
            self.tried.append(profile)
            engine = ScriptedEngine()
            if profile in self.broken:
                raise ConfigurationError(Words("显存不够。", "Not enough memory."))
            if profile == "stillborn":
                raise EngineDead(Words("没能启动。", "Did not start."))
            self.made.append((profile, engine))
            return engine

        return Plan(None, build, 2, 2, self.restarts)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.made]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Look often, load at once."""
    monkeypatch.setattr("engine.host.WATCH_S", 0.01)
    script = tmp_path / "quick.toml"
    script.write_text("[[rules]]\ntext = '好'\n", encoding="utf-8")
    monkeypatch.setattr("engine.scripted.DEMO", script)


async def until(host: EngineHost, state: EngineState) -> None:
    """Wait for a state."""
    async with asyncio.timeout(10):
        while host.state is not state:
            await host.changed(1)


def launched(shop: Workshop, profile: str = "a") -> EngineHost:
    host = EngineHost(shop.plan_for, profile, shop.steps.append)
    host.launch()
    return host


async def test_loads_in_the_background_and_is_ready() -> None:
    """LOADING at once, READY when the engine answers, its steps heard."""
    shop = Workshop()
    host = launched(shop)
    assert (host.state, host.engine) == (EngineState.LOADING, None)
    await until(host, EngineState.READY)
    assert host.engine is shop.made[0][1]
    assert host.limiter.concurrent == 2
    assert [step.fraction for step in shop.steps][:2] == [0.0, 0.1]
    await host.stop()


async def test_what_cannot_start_is_said_and_not_tried_again() -> None:
    """A ConfigurationError ends in DEAD with its sentence."""
    shop = Workshop()
    for profile, sentence in (("unknown", "没有这个配置。"), ("broken", "显存不够。")):
        host = launched(shop, profile)
        await until(host, EngineState.DEAD)
        assert host.reason
        assert host.reason.zh == sentence
        assert host.engine is None
        await host.stop()
    assert shop.made == []


async def test_comes_back_after_death_three_times_and_no_more() -> None:
    """Seen dying, it is started again; the fourth death within ten minutes is the last."""
    shop = Workshop()
    host = launched(shop)
    for death in range(4):
        await until(host, EngineState.READY)
        assert len(shop.made) == death + 1
        shop.made[-1][1].die()
        while host.state is EngineState.READY:
            await host.changed(1)
    await until(host, EngineState.DEAD)
    assert len(shop.made) == 4
    assert host.reason
    assert "十分钟内重启了 3 次" in host.reason.zh
    await host.stop()


async def test_deaths_while_starting_count() -> None:
    """An engine that dies while it loads is not tried for ever."""
    host = launched(Workshop(), "stillborn")
    await until(host, EngineState.DEAD)
    assert host.reason
    assert "没能启动。" in host.reason.zh
    await host.stop()


async def test_old_deaths_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deaths spread over more than ten minutes are each followed by a restart."""
    monkeypatch.setattr("engine.deaths.SPAN_S", 0.0)
    shop = Workshop(restarts=1)
    host = launched(shop)
    for death in range(4):
        await until(host, EngineState.READY)
        assert len(shop.made) == death + 1
        shop.made[-1][1].die()
        while host.state is EngineState.READY:
            await host.changed(1)
    await until(host, EngineState.READY)
    await host.stop()


async def test_a_server_is_waited_for_without_end() -> None:
    """Without a limit of restarts, deaths are followed by new attempts."""
    shop = Workshop(restarts=None)
    host = launched(shop)
    for _ in range(6):
        await until(host, EngineState.READY)
        shop.made[-1][1].die()
        while host.state is EngineState.READY:
            await host.changed(1)
    await until(host, EngineState.READY)
    await host.stop()


async def test_whoever_meets_death_takes_the_engine_out_of_use() -> None:
    """report_death acts at once, and only for the engine in use."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    host.report_death(ScriptedEngine())
    assert host.engine is shop.made[0][1]
    host.report_death(shop.made[0][1])
    assert host.engine is None
    await until(host, EngineState.READY)
    assert len(shop.made) == 2
    await host.stop()


async def test_switch_lets_the_old_one_go_before_the_new_one_loads() -> None:
    """E14: two engines never hold the card together."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    words = await host.switch("b")
    assert words.zh == "已切换到 b。"
    assert shop.names == ["a", "b"]
    assert (await shop.made[0][1].health()).state is EngineState.DEAD
    assert host.engine is shop.made[1][1]
    assert host.wanted == "b"
    await host.stop()


async def test_switch_falls_back_when_the_new_one_cannot_start() -> None:
    """The old profile comes back, and the reason is told."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    words = await host.switch("broken")
    assert words.zh == "broken 启动失败，已恢复 a。原因：显存不够。"
    assert shop.names == ["a", "a"]
    assert host.state is EngineState.READY
    assert host.wanted == "a"
    await host.stop()


async def test_switch_says_so_when_nothing_starts_any_more() -> None:
    """Neither the new profile nor the old one: no success is claimed."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    shop.broken.add("a")
    words = await host.switch("broken")
    assert "恢复 a 也没有成功" in words.zh
    assert host.state is EngineState.DEAD
    await host.stop()


async def test_switch_to_what_is_in_use_changes_nothing() -> None:
    """Confirmed in two tabs, the engine is loaded once."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    await asyncio.gather(host.switch("b"), host.switch("b"))
    assert shop.names == ["a", "b"]
    await host.stop()


async def test_a_fault_of_ours_is_on_the_console(caplog: pytest.LogCaptureFixture) -> None:
    """The page says that the engine is gone, and the console has the traceback."""
    host = EngineHost(lambda profile: Plan(None, _broken_build, 1, 1, 3), "a", lambda loading: None)
    host.launch()
    await until(host, EngineState.DEAD)
    assert "RuntimeError: a fault of ours" in caplog.text
    await host.stop()


def _broken_build(on_loading: OnLoading) -> Engine:
    raise RuntimeError("a fault of ours")


async def test_switch_to_what_this_machine_cannot_run_touches_nothing() -> None:
    """Refused before anything is drained."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    with pytest.raises(ConfigurationError):
        await host.switch("unknown")
    assert host.engine is shop.made[0][1]
    await host.stop()


async def test_switch_waits_for_running_answers() -> None:
    """Whoever holds a slot may finish before the engine goes."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    async with host.limiter.slot(lambda place: None):
        switching = asyncio.create_task(host.switch("b"))
        while host.state is EngineState.READY:
            await asyncio.sleep(0)
        assert host.engine is None
        assert shop.names == ["a"]
    await switching
    assert shop.names == ["a", "b"]
    await host.stop()


async def test_stop_while_loading_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended in the middle of loading, the engine under construction is let go."""
    shop = Workshop()
    begun = asyncio.Event()

    async def never(self: ScriptedEngine, on_loading: OnLoading) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(ScriptedEngine, "start", never)
    host = launched(shop)
    await begun.wait()
    await host.stop()
    assert (await shop.made[0][1].health()).state is EngineState.DEAD


def test_info_is_plain_data() -> None:
    """The demo mark is off unless said."""
    assert EngineInfo("m", 4096) == EngineInfo(model="m", window=4096, is_demo=False)


async def test_restart_lets_the_engine_go_and_loads_it_again() -> None:
    """The same profile, a new engine, once the running answers are done; its uptime begins anew."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    async with host.limiter.slot(lambda place: None):
        restarting = asyncio.create_task(host.restart())
        while host.state is EngineState.READY:
            await asyncio.sleep(0)
        assert host.vitals().uptime_s is None
        assert shop.names == ["a"]
    assert (await restarting).zh == "引擎已重新启动。"
    assert shop.names == ["a", "a"]
    assert host.engine is shop.made[1][1]
    assert (await shop.made[0][1].health()).state is EngineState.DEAD
    assert host.vitals().uptime_s is not None
    await host.stop()


async def test_restart_brings_a_dead_engine_back_or_says_why_not() -> None:
    """Dead for good, it can be started from the page; and where it cannot, the reason is told."""
    shop = Workshop()
    shop.broken.add("a")
    host = launched(shop)
    await until(host, EngineState.DEAD)
    assert (await host.restart()).zh == "引擎没有启动起来。原因：显存不够。"
    shop.broken.clear()
    assert (await host.restart()).zh == "引擎已重新启动。"
    assert host.state is EngineState.READY
    await host.stop()


async def test_vitals_are_what_the_engine_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at while ready, kept with the history; nothing of a former engine is left while the next one loads."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    busy = EngineHealth(EngineState.READY, None, 3, 1, 0.5, 7, 100)
    monkeypatch.setattr(shop.made[0][1], "health", lambda: _said(busy))
    while host.health is not busy:
        await asyncio.sleep(0.01)
    now = host.vitals()
    assert (now.health, now.concurrent, now.max_queued) == (busy, 2, 2)
    assert now.samples
    host.report_death(shop.made[0][1])
    assert host.vitals().health.kv_use is None
    assert host.vitals().tokens_s is None
    await host.stop()


async def _said(health: EngineHealth) -> EngineHealth:
    return health


async def test_a_warning_is_logged_when_it_begins(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Seen at many looks, it is one line on the console; gone and come again, it is another."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)

    async def see(kv_use: float, warned: bool) -> None:
        looks = 0

        async def health() -> EngineHealth:
            nonlocal looks
            looks += 1
            return EngineHealth(EngineState.READY, None, 1, 0, kv_use)

        monkeypatch.setattr(shop.made[0][1], "health", health)
        while looks < 4:
            await asyncio.sleep(0.005)
        assert (Alarm.KV_CACHE in host.alarms) is warned

    for kv_use, warned in ((0.99, True), (0.5, False), (0.97, True)):
        await see(kv_use, warned)
    lines = [record.message for record in caplog.records if "KV 缓存已用" in record.message]
    assert [line[:11] for line in lines] == ["KV 缓存已用 99%", "KV 缓存已用 97%"]
    await host.stop()


async def never(engine: ScriptedEngine, on_loading: OnLoading) -> None:
    """A server that is down is waited for without end."""
    await asyncio.Event().wait()


async def test_a_restart_that_is_under_way_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is confirmed, the engine is loaded once; whoever stops waiting leaves it running."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    impatient = asyncio.create_task(host.restart())
    others = [asyncio.create_task(host.restart()) for _ in range(2)]
    await asyncio.sleep(0)
    impatient.cancel()
    assert [(await other).zh for other in others] == ["引擎已重新启动。"] * 2
    assert shop.names == ["a", "a"]
    await host.stop()


async def test_nothing_is_left_of_a_restart_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is down: a switch meanwhile is refused with a sentence, and the app's end ends it all."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    monkeypatch.setattr(ScriptedEngine, "start", never)
    before = asyncio.all_tasks()
    waiting = [asyncio.create_task(host.restart()) for _ in range(3)]
    while len(shop.made) < 2:
        await asyncio.sleep(0.001)
    with pytest.raises(EngineBusy, match="引擎正在重新启动"):
        await host.switch("b")
    await host.stop()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert asyncio.all_tasks() <= before


async def test_questions_wait_through_a_failed_switch() -> None:
    """Neither the restart nor the profile that cannot start sends them away; the old profile answers them, in order."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    order: list[int] = []

    async def ask(number: int) -> None:
        async with host.limiter.slot(lambda place: None):
            order.append(number)
            assert host.serving is shop.made[-1][1]

    switching = asyncio.create_task(host.switch("broken"))
    while host.state is EngineState.READY:
        await asyncio.sleep(0)
    await asyncio.gather(*(ask(number) for number in range(4)))
    assert "已恢复 a" in (await switching).zh
    assert order == [0, 1, 2, 3]
    await host.stop()


async def test_a_dead_engine_sends_those_who_wait_away() -> None:
    """At once, with its own sentence, which names no folder of this machine."""
    shop = Workshop()
    shop.broken.add("a")
    host = launched(shop)
    with pytest.raises(EngineDead, match="显存不够。"):
        async with host.limiter.slot(lambda place: None):
            pass
    host._set(
        EngineState.DEAD, Words("脚本 /srv/office/x.toml 无法读取。", "The script /srv/office/x.toml cannot be read.")
    )
    assert host.reason == Words("脚本 x.toml 无法读取。", "The script x.toml cannot be read.")
    host._set(EngineState.DEAD, Words("连不上 http://127.0.0.1:8001/v1。", "No answer from http://127.0.0.1:8001/v1."))
    assert host.reason == Words("连不上 http://127.0.0.1:8001/v1。", "No answer from http://127.0.0.1:8001/v1.")
    await host.stop()


async def test_the_profile_of_a_dead_engine_is_tried_once() -> None:
    """Switching to what failed already: one attempt, one sentence."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    shop.broken.add("a")
    assert (await host.restart()).zh.startswith("引擎没有启动起来。")
    shop.tried.clear()
    words = await host.switch("a")
    assert words.zh == "a 启动失败，引擎已停止。原因：显存不够。"
    assert shop.tried == ["a"]
    assert host.state is EngineState.DEAD
    await host.stop()


async def test_warnings_end_with_the_engine() -> None:
    """Nothing is warned of while there is no engine; a look that comes back late changes nothing."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    for alarm in Alarm:
        host.alarms[alarm] = Words("警告", "warning")
    host.report_death(shop.made[0][1])
    assert host.alarms == {}
    assert host.vitals().alarms == {}
    await host.stop()


async def test_plans_are_made_off_the_event_loop() -> None:
    """Asking the driver and reading model files would hold everybody's answers up."""
    shop, threads = Workshop(), list[int]()

    def plan_for(profile: str) -> Plan:
        threads.append(threading.get_ident())
        return shop.plan_for(profile)

    host = EngineHost(plan_for, "a", shop.steps.append)
    host.launch()
    await host.planned()
    assert host.limiter.concurrent == 2
    await host.reason_for("b")
    await host.switch("b")
    assert len(threads) == 4
    assert threading.get_ident() not in threads
    await host.stop()


async def test_fifty_panels_share_one_look() -> None:
    """The vitals are gathered once for all who ask within a second, and anew when something happens."""
    shop = Workshop()
    host = launched(shop)
    await until(host, EngineState.READY)
    first = host.vitals()
    assert all(host.vitals() is first for _ in range(50))
    host.report_death(shop.made[0][1])
    assert host.vitals() is not first
    await host.stop()
