"""The whole app with vLLM inside, on the tiny model: what only a real engine and real processes can show."""

import asyncio
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine import figures
from tests.app_server import AppServer
from tests.chat_client import PLACEHOLDER, ChatClient
from tests.tiny_model import LOOP, make_tiny_model

WAY_OUT = socket.create_server(("127.0.0.1", 0))
"""Where HTTP clients are sent for every other host, by the proxy variables; it answers nobody."""


@pytest.fixture(scope="module", autouse=True)
def way_out_closed() -> Iterator[None]:
    """Close WAY_OUT after the last test."""
    yield
    WAY_OUT.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, in a folder with a dot in its name (E13); slow enough to be met in mid-answer."""
    return make_tiny_model(tmp_path_factory.mktemp("models") / "ernie-4.5.tiny", layers=16)


def settings(model: Path, home: Path) -> dict[str, str]:
    """An app on the tiny model whose caches are empty, and whose way out leads to `WAY_OUT` (C7)."""
    nowhere = f"http://127.0.0.1:{WAY_OUT.getsockname()[1]}"
    return {
        "ENGINE_MODEL": str(model),
        "ENGINE_LEAVE_GRACE_S": "1",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "http_proxy": nowhere,
        "all_proxy": nowhere,
        "https_proxy": nowhere,
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }


@pytest.fixture(scope="module")
def app(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """E1: started by the console script, with spawned processes, as its users do."""
    home = tmp_path_factory.mktemp("home")
    with AppServer(tmp_path_factory.mktemp("app"), settings(model, home), script=True) as app:
        yield app.ready()


async def test_one_load_and_no_recursion(app: AppServer) -> None:
    """E1: one EngineCore, one page address printed, under the console script with spawn."""
    assert len([core for core in app.cores() if "EngineCore" in " ".join(core.cmdline())]) == 1
    assert app.log.read_text(errors="replace").count("页面地址") == 1


def names_exposed(app: AppServer) -> set[str]:
    """Of the samples on /metrics."""
    return {line.split("{")[0].split(" ")[0] for line in app.get("/metrics").text.splitlines()}


async def test_figures_of_the_engine(app: AppServer) -> None:
    """E16: with today's vLLM in this process, nothing of the engine is unknown to the console or to /metrics."""
    async with ChatClient(app.url) as page:
        await page.change_settings(max_tokens=64)
        await page.ask("你好")
    async with asyncio.timeout(20):  # the engine is looked at every 2 s
        while (status := (await asyncio.to_thread(app.get, "/engine/status")).json())["engine_running"] != 0:
            await asyncio.sleep(0.2)
    assert (status["engine_running"], status["engine_waiting"], status["preemptions"]) == (0, 0, 0)
    assert status["kv_use"] == 0.0
    assert status["first_p50"] > 0
    assert status["profile"]["name"] == "cpu"
    assert status["memory"] > 2**29
    async with asyncio.timeout(20):  # the processor's use takes two looks
        while "zhida_cpu_use_ratio" not in (exposed := await asyncio.to_thread(names_exposed, app)):
            await asyncio.sleep(0.2)
    for names in (figures.RUNNING, figures.WAITING, figures.KV_USE, figures.PREEMPTIONS, figures.GENERATED):
        assert names[0] in exposed
    assert {"zhida_kv_use_ratio", "zhida_preemptions_total", "zhida_memory_bytes", "zhida_cpu_use_ratio"} <= exposed


async def test_questions_in_turn_then_at_once(app: AppServer) -> None:
    """E2: one event loop serves them all."""
    async with ChatClient(app.url) as one, ChatClient(app.url) as other:
        for page in (one, other):
            await page.change_settings(max_tokens=64)
            answer = await page.ask("你好")
            assert answer.startswith(LOOP[:20])
        assert [text.startswith(LOOP[:20]) for text in await asyncio.gather(one.ask("再来"), other.ask("再来"))] == [
            True
        ] * 2
        assert one.footer["facts"][-1].endswith("+ 回答 64 / 4096")


async def test_stop_frees_the_engine(app: AppServer) -> None:
    """S1: within a second no more text comes and vLLM runs nothing."""
    async with ChatClient(app.url) as page:
        await page.change_settings(max_tokens=2048)
        await page.send("慢慢说")
        await page.until(lambda: bool(page.answers()) and len(page.answer) > 30)
        await page.stop()
        async with asyncio.timeout(1):
            await page.until(lambda: not page.busy)
            while running(app):
                await asyncio.sleep(0.02)
        part = page.answer
        assert page.footer["notices"] == ["已停止"]
        assert "\ufffd" not in part
        await page.change_settings(max_tokens=16)
        await page.ask("你好")
        assert page.answers()[0] == part


LEFT = 'zhida_questions_total{outcome="left"}'


def running(app: AppServer) -> float:
    """What vLLM itself says it runs."""
    lines = [line for line in app.get("/metrics").text.splitlines() if line.startswith("vllm:num_requests_running")]
    assert lines, "vLLM's own gauge is missing from /metrics"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@pytest.mark.parametrize("limit", range(16, 40))
async def test_no_half_characters_at_any_length(app: AppServer, limit: int) -> None:
    """E10: cut by max_tokens in the middle of an emoji, the answer ends on a whole character."""
    async with ChatClient(app.url) as page:
        await page.change_settings(max_tokens=limit)
        answer = await page.ask("你好")
        assert "\ufffd" not in answer
        assert LOOP.startswith(answer)


async def test_thirty_long_turns(app: AppServer) -> None:
    """E7: 30 turns of 300 characters and an answer limit of 1,024: always answered, what was left out is said."""
    async with ChatClient(app.url) as page:
        await page.change_settings(max_tokens=32)
        for turn in range(30):
            answer = await page.ask(f"第{turn}个问题：" + "年假怎么算" * 59)
            assert answer.startswith(LOOP[:10])
        await page.change_settings(max_tokens=1024)
        assert len(await page.ask("年假怎么算" * 60)) > 500
        assert any("轮对话已不在上下文中" in notice for notice in page.footer["notices"])
        prompt, reply = (
            int(part) for part in page.footer["facts"][-1].replace("提示", "").replace("/ 4096", "").split("+ 回答")
        )
        assert prompt + reply <= 4096


async def test_one_question_of_six_thousand(app: AppServer) -> None:
    """E7: refused with its exact size, counted by the model's own tokenizer; the chat goes on."""
    async with ChatClient(app.url) as page:
        answer = await page.ask("长" * 6000)
        assert answer.startswith("内容过长：")
        assert "上限 3584 个词元" in answer
        await page.change_settings(max_tokens=16)
        assert (await page.ask("你好")).startswith(LOOP[:5])


async def test_a_closed_tab_frees_the_engine(app: AppServer) -> None:
    """E5: vLLM runs nothing for a browser that is gone longer than the grace time."""
    left = app.metric(LEFT)
    page = ChatClient(app.url)
    await page.__aenter__()
    await page.change_settings(max_tokens=2048)
    await page.send("慢慢说")
    await page.until(lambda: bool(page.answers()) and len(page.answer) > 10)
    await page.leave()
    async with asyncio.timeout(5):
        while running(app) or app.metric(LEFT) == left:
            await asyncio.sleep(0.05)


def test_nothing_outside_was_tried(app: AppServer) -> None:
    """C7: loaded, trimmed and answered; nobody ever knocked at the only way out."""
    WAY_OUT.settimeout(0)
    with pytest.raises(BlockingIOError):
        WAY_OUT.accept()


async def test_a_killed_engine_core(app: AppServer) -> None:
    """E4: killed in mid-answer: a Chinese sentence within 10 s, not ready, then it comes back by itself."""
    async with ChatClient(app.url) as page:
        await page.change_settings(max_tokens=2048)
        await page.send("慢慢说")
        await page.until(lambda: bool(page.answers()) and len(page.answer) > 10)
        cores = app.cores()
        assert cores
        for core in cores:
            core.kill()
        await page.until(lambda: not page.busy, 10)
        assert page.answer.startswith(LOOP[:5])
        assert PLACEHOLDER not in page.answer
        assert page.footer["tone"] == "warning"
        assert page.footer["notices"][0].startswith("引擎已停止")
        assert app.get("/health/ready").status_code == 503
        await page.change_settings(max_tokens=16)
        await page.send("你好")
        await page.until(lambda: page.answer.startswith("模型加载中…"), 10)
        await page.until(lambda: page.answer.startswith(LOOP[:5]) and not page.busy, 180)


@pytest.mark.parametrize(
    ("how", "busy"), [(signal.SIGTERM, True), (signal.SIGTERM, False), (signal.SIGINT, True), (signal.SIGINT, False)]
)
async def test_no_engine_core_outlives_the_app(model: Path, tmp_path: Path, how: signal.Signals, busy: bool) -> None:
    """E3: SIGTERM and Ctrl-C, idle and in mid-answer: within 15 s nothing of the engine is left."""
    app = AppServer(tmp_path / "app", settings(model, tmp_path / "home")).start().ready()
    cores = app.cores()
    assert cores
    async with ChatClient(app.url) as page:
        if busy:
            await page.change_settings(max_tokens=2048)
            await page.send("慢慢说")
            await page.until(lambda: bool(page.answers()) and len(page.answer) > 10)
        await asyncio.to_thread(app.stop, how, 15)
    gone, alive = psutil.wait_procs(cores, timeout=15)
    assert not alive
    assert len(gone) == len(cores)


async def test_what_a_killed_app_leaves_is_found_and_named(model: Path, tmp_path: Path) -> None:
    """E3: after SIGKILL the next start ends what is left of the old engine, says so if there was any, and goes on."""
    folder = tmp_path / "app"
    app = AppServer(folder, settings(model, tmp_path / "home")).start().ready()
    cores = app.cores()
    app.stop(signal.SIGKILL)
    survived = [core for core in cores if core.is_running() and core.status() != psutil.STATUS_ZOMBIE]
    with AppServer(folder, settings(model, tmp_path / "home")) as again:
        again.ready()
        _, alive = psutil.wait_procs(cores, timeout=15)
        assert not alive
        async with ChatClient(again.url) as page:
            await page.change_settings(max_tokens=16)
            assert (await page.ask("你好")).startswith(LOOP[:5])
        assert survived, "vLLM's EngineCore used to outlive its app: if it no longer does, orphans.py can go"
        for core in survived:
            assert f"进程 {core.pid}），已结束它" in again.log.read_text(errors="replace")


async def test_weights_that_cannot_be_used_are_explained(model: Path, tmp_path: Path) -> None:
    """E13: the page answers with the remedy; nothing is loaded and the app goes on serving its page."""
    paddle = tmp_path / "ERNIE-4.5-0.3B-Paddle"
    shutil.copytree(model, paddle)
    (paddle / "model.safetensors").rename(paddle / "model_state.pdparams")
    with AppServer(tmp_path / "app", ENGINE_MODEL=str(paddle)) as app:
        async with ChatClient(app.url) as page:
            answer = await page.ask("你好")
            assert "-PT" in answer
            assert "Traceback" not in answer
        assert app.get("/health/ready").status_code == 503
        assert not app.cores()
