"""On a machine with an NVIDIA card: the app with CUDA graphs, ERNIE's shape with random weights. Skipped elsewhere.

No fixture and no asyncio plugin is needed, so that it runs on a bare GPU machine too:
`python -m pytest -c /dev/null --noconftest -s tests/gpu`.
"""

import asyncio
import re
import time
from pathlib import Path

import psutil
import pytest

from engine.hardware import detect_card
from tests.app_server import AppServer
from tests.chat_client import ChatClient

pytestmark = pytest.mark.skipif(detect_card() is None, reason="没有 NVIDIA 显卡：显卡测试跳过（no NVIDIA card）")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ERNIE-4.5-0.3B's shape."""
    from tests.gpu.ernie_shape import make_ernie_shape

    return make_ernie_shape(tmp_path_factory.mktemp("models") / "ernie-4.5-0.3b-random")


def app_of(folder: Path, model: Path, method: str | None, script: bool = False) -> AppServer:
    """An app that logs what vLLM captures."""
    env = {"ENGINE_MODEL": str(model), "VLLM_LOGGING_LEVEL": "INFO"}
    return AppServer(folder, env | ({"VLLM_WORKER_MULTIPROC_METHOD": method} if method else {}), script=script)


async def ask(url: str, chats: int, tokens: int) -> list[ChatClient]:
    """So many chats ask at once; returns them when all are answered."""
    pages = [ChatClient(url) for _ in range(chats)]
    for page in pages:
        await page.__aenter__()
        await page.change_settings(max_tokens=tokens)
    began = time.monotonic()
    await asyncio.gather(*(page.ask("你好，请用一句话介绍你自己", 300) for page in pages))
    wall = time.monotonic() - began
    total = sum(int(re.findall(r"回答 (\d+)", page.footer["facts"][-1])[0]) for page in pages)
    print(f"{chats} chats: {total} tokens in {wall:.2f} s, {total / wall:.0f} tokens/s; {pages[0].footer['facts']}")
    for page in pages:
        await page.leave()
    return pages


async def kill_in_mid_answer(app: AppServer) -> None:
    """E4 on a card: told within 10 s, back by itself."""
    async with ChatClient(app.url) as page:
        await page.change_settings(max_tokens=2048)
        await page.send("慢慢说")
        await page.until(lambda: bool(page.answers()) and len(page.answer) > 30)
        for core in app.cores():
            core.kill()
        await page.until(lambda: not page.busy, 10)
        assert page.footer["tone"] == "warning"
        await page.change_settings(max_tokens=64)
        began = time.monotonic()
        assert len(await page.ask("还在吗", 300)) > 30
        print(f"answered again {time.monotonic() - began:.0f} s after EngineCore was killed")


@pytest.mark.parametrize(
    ("method", "script"), [(None, False), (None, True), ("fork", False)], ids=["default", "console-script", "fork"]
)
def test_the_app_with_cuda_graphs(model: Path, tmp_path: Path, method: str | None, script: bool) -> None:
    """E1: Chainlit and vLLM in one process, graphs captured, whichever way EngineCore is started; none is left behind."""
    began = time.monotonic()
    with app_of(tmp_path / "app", model, method, script) as app:
        app.ready(300)
        print(f"\nready after {time.monotonic() - began:.0f} s; {app.readiness()['model']}")
        log = app.log.read_text(errors="replace")
        assert "Graph capturing finished" in log
        asyncio.run(ask(app.url, 1, 512))
        if method is None and not script:
            asyncio.run(ask(app.url, 64, 64))
            asyncio.run(ask(app.url, 64, 512))
            asyncio.run(kill_in_mid_answer(app))
        cores = app.cores()
        assert cores
        app.stop()
    _, alive = psutil.wait_procs(cores, timeout=15)
    assert not alive
