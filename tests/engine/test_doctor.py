"""The doctor: each trouble is named with its remedy, and decides the exit status; nothing heavy is imported."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import build_check, doctor, installed
from engine.driver import CUDA_12, GPU, V100
from engine.hardware import Card
from engine.report import Problem, Report
from engine.settings import OWN_PREFIXES, Settings
from engine.words import Words
from tests.fake_server import FakeServer

ROOT = Path(__file__).parents[2]
A10 = Card("NVIDIA A10", 23028, 22800, (8, 6), "580.82.07")
V100_CARD = Card("Tesla V100-PCIE-32GB", 32768, 32500, (7, 0), "550.54.15")


@pytest.fixture(autouse=True)
def empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder and cache, no settings, and chat and server ports that nobody holds."""
    for name in [name for name in os.environ if name.startswith((*OWN_PREFIXES, "DATA_DIR"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "CHAT_PORT", free_port())
    monkeypatch.setattr(doctor, "SERVER_PORT", free_port())
    return tmp_path


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def listener() -> Iterator[int]:
    """A port that something listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def told(settings: Settings, card: Card | None = None) -> str:
    """All problems that the engine of `settings` would meet, in Chinese."""
    return "\n".join(problem.words.zh for problem in doctor.engine(settings, card)[1])


class TestReport:
    @pytest.mark.parametrize(("stops", "status"), [(True, "✗ 目前不能启动"), (False, "✓ 可以启动")])
    def test_ending(self, stops: bool, status: str) -> None:
        """A problem that stops the start is the verdict; another is only told."""
        report = Report({"软件": [("vLLM", "0.29.0")]}, [Problem(Words("有问题。", "A problem."), stops=stops)])
        assert report.starts is not stops
        assert status in report.text()
        assert "【软件】\n  vLLM：0.29.0" in report.text()
        assert "有问题。\n    A problem." in report.text()

    def test_scripted_starts(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """With an engine that needs nothing, a whole machine gets exit status 0 and sees its setting."""
        monkeypatch.setenv("ENGINE_BACKEND", "scripted")
        assert doctor.main() == 0
        said = capsys.readouterr().out
        assert "ENGINE_BACKEND：scripted" in said
        assert "【问题】无" in said

    def test_misspelt_setting(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """A setting that is refused stops the start, and what else is known is still shown."""
        monkeypatch.setenv("ENGINE_MODLE", "demo")
        assert doctor.main() == 1
        said = capsys.readouterr().out
        assert "是不是 ENGINE_MODEL？" in said
        assert "【这台机器" in said

    def test_key_is_not_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The report can be sent to somebody: no key is in it."""
        monkeypatch.setenv("ENGINE_API_KEY", "sk-hidden")
        assert "sk-hidden" not in doctor.examine().text()


class TestMachine:
    def test_taken_port(self, monkeypatch: pytest.MonkeyPatch, listener: int) -> None:
        """A taken chat port stops the start and is named, with another to use."""
        monkeypatch.setattr(doctor, "CHAT_PORT", listener)
        (problem,) = doctor.look_at_ports()[1]
        assert problem.stops
        assert str(listener) in problem.words.zh
        assert "make run PORT=" in problem.words.zh

    def test_taken_server_port(self, monkeypatch: pytest.MonkeyPatch, listener: int) -> None:
        """The server's port is only shown as taken: the app does not need it."""
        monkeypatch.setattr(doctor, "SERVER_PORT", listener)
        lines, problems = doctor.look_at_ports()
        assert problems == []
        assert "已被占用" in lines[1][1]

    @pytest.mark.parametrize(
        ("change", "remedy"),
        [
            ({"driver": "550.54.15"}, "驱动 550.54.15 太旧：已安装的 vLLM 0.29.0 需要 580"),
            ({"driver": "470.256.02"}, "请升级显卡驱动到 580"),
            ({}, None),
        ],
    )
    def test_driver(self, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], remedy: str | None) -> None:
        """A driver that the installed vLLM does not run on stops the start, with the one that it does."""
        monkeypatch.setattr(build_check, "installed_vllm", lambda: ("0.29.0", False))
        problems = list(build_check.problems(replace(A10, **change)))
        assert [problem.stops for problem in problems] == ([True] if remedy else [])
        if remedy:
            assert remedy in problems[0].words.zh

    def test_cuda_12_runs_on_550(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The older build's own driver is no problem."""
        monkeypatch.setattr(build_check, "installed_vllm", lambda: ("0.19.1", False))
        assert list(build_check.problems(replace(A10, driver="550.54.15"))) == []

    @pytest.mark.parametrize(
        ("card", "kind", "told"),
        [
            (replace(A10, driver="550.54.15"), CUDA_12, ["requirements-cuda12.txt", "升级到 580 或更新后可以用 vLLM 0.29.0"]),
            (A10, CUDA_12, ["现在装的是 CUDA 12 版", "make install KIND=auto"]),
            (A10, GPU, ["requirements.txt", "驱动 580.82.07（不低于 580）"]),
            (V100_CARD, V100, ["requirements-remote.txt", "还没有安装：make install", "没有在 V100 上实测过"]),
            (None, None, ["不是 make install 装的"]),
        ],
    )  # fmt: skip
    def test_build(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, card: Card | None, kind: str | None, told: list[str]
    ) -> None:
        """Over recorded cards: the lock in use, what the driver allows and why, and what would lift it."""
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setattr(installed, "SERVER_FOLDER", tmp_path / ".venv-server")
        if kind:
            (tmp_path / "installed.json").write_text(json.dumps({"kind": kind, "locks": {}}))
        said = "\n".join(": ".join(line) for line in build_check.lines(card))
        for part in told:
            assert part in said

    def test_v100_server(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """With the V100's server installed, it is said how to start it."""
        monkeypatch.setattr(installed, "SERVER_FOLDER", tmp_path)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").touch()
        (tmp_path / "installed.json").write_text(
            json.dumps({"kind": "server", "locks": {"requirements-v100.txt": "x"}})
        )
        assert "make serve" in dict(build_check.lines(V100_CARD))["V100 的服务"]

    def test_taken_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Memory that others hold is told as the start itself would: by the planner, with the numbers."""
        lines, problems = doctor.room(Settings(engine_profile="a10"), replace(A10, free_mib=2000))
        assert "权重 0.67 GiB" in lines[0][1]
        assert [problem.stops for problem in problems] == [True]
        assert "显存空闲 2.0 GiB" in problems[0].words.zh
        assert doctor.room(Settings(engine_profile="a10"), A10)[1] == []

    def test_little_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Memory that does not hold weights and KV cache is told with the numbers, and stops the start."""
        memory = type("Memory", (), {"available": 2 * 2**30, "total": 8 * 2**30})
        monkeypatch.setattr("psutil.virtual_memory", memory)
        monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)  # set for the tiny models of other tests
        (problem,) = doctor.room(Settings(engine_profile="cpu"), None)[1]
        assert problem.stops
        assert "可用内存 2.0 GiB" in problem.words.zh

    def test_a_model_that_is_not_here_is_no_problem(self) -> None:
        """The start fetches it; only the forecast has to wait."""
        lines, problems = doctor.room(Settings(engine_model="somebody/something"), None)
        assert problems == []
        assert "somebody/something" in lines[0][1]

    def test_an_address_is_shown_without_its_password(self) -> None:
        """A report may be passed on; one that is no address is no traceback."""
        assert "hunter2" not in doctor.shown("engine_base_url", "http://u:hunter2@127.0.0.1:8001/v1")
        assert "127.0.0.1:8001" in doctor.shown("engine_base_url", "http://u:hunter2@127.0.0.1:8001/v1")
        assert "not an address" in doctor.shown("engine_base_url", "http://u:hunter2@127.0.0.1:80000/v1")

    def test_unwritable_data(self, empty_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A data folder that cannot be written stops the start (access() asked, since root may write anywhere)."""
        monkeypatch.setattr(os, "access", lambda path, mode: path != empty_place)
        (problem,) = doctor.data_problems(Settings(data_dir=empty_place / "new" / "data"))
        assert "DATA_DIR" in problem.words.zh


class TestEngine:
    def test_gpu_profile_without_a_card(self) -> None:
        """A profile that this machine cannot run is refused with what can be set instead."""
        assert "ENGINE_PROFILE=auto 或 cpu" in told(Settings(engine_profile="a10"))

    def test_unknown_profile(self) -> None:
        """An unknown profile's message lists those there are."""
        assert "a100-40g" in told(Settings(engine_profile="a11"))

    def test_shows_the_choice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Profile, its reason and the limits in force are shown."""
        monkeypatch.setattr(doctor, "preflight", lambda profile: None)
        lines = dict(doctor.engine(Settings(engine_max_concurrent=3), A10)[0])
        assert lines["配置"].startswith("a10")
        assert "检测到 NVIDIA A10" in lines["原因"]
        assert "同时 3，排队 64" in lines["数值"]

    @pytest.mark.parametrize(
        ("model", "remedy"),
        [
            ("/nowhere/model", "/nowhere/model 不存在"),
            ("baidu/ERNIE-4.5-0.3B-Paddle", "-PT"),
            ("what is this", "owner/name"),
        ],
    )
    def test_weights(self, model: str, remedy: str) -> None:
        """Weights that cannot be used are named with the remedy."""
        assert remedy in told(Settings(engine_model=model))

    def test_folder_without_config(self, empty_place: Path) -> None:
        """A local folder is looked into."""
        (empty_place / "model").mkdir()
        assert "config.json" in told(Settings(engine_model=str(empty_place / "model")))

    def test_weights_to_be_fetched(self, empty_place: Path) -> None:
        """Nothing is fetched by looking, and it is said that the start will."""
        assert "启动时下载" in doctor.find_weights(Settings())
        assert not (empty_place / "cache").exists()

    def test_full_disk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Weights that have to be fetched need room: said with the numbers before the start."""
        usage = type("Usage", (), {"free": 10 * 2**20})
        monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
        assert "磁盘空间不足" in told(Settings())

    def test_broken_script(self, empty_place: Path) -> None:
        """A script that cannot be played is named."""
        (empty_place / "demo.toml").write_text("= no toml")
        assert "demo.toml" in told(Settings(engine_backend="scripted", engine_script=empty_place / "demo.toml"))


class TestServer:
    def test_nobody_there(self) -> None:
        """A server that does not answer stops the start, with how to start one."""
        assert "make serve" in told(Settings(engine_base_url=f"http://127.0.0.1:{free_port()}/v1"))

    async def test_model_is_shown(self) -> None:
        """The model that the server serves is shown."""
        async with FakeServer() as fake:
            said = await asyncio.to_thread(doctor.ask_server, Settings(engine_base_url=fake.base_url))
        assert "fake-model" in said

    @pytest.mark.parametrize("models", ["401", "404", "html"])
    async def test_wrong_answer(self, models: str) -> None:
        """A refusal, and a page that is none of an OpenAI-compatible server's, are told from success."""
        async with FakeServer(models=models) as fake:
            said = await asyncio.to_thread(told, Settings(engine_base_url=fake.base_url))
        assert "ENGINE_API_KEY" in said


def test_imports_nothing_heavy(empty_place: Path) -> None:
    """The doctor answers at once, also where importing vLLM or torch is what fails."""
    code = "import sys; from engine import doctor; doctor.main(); print('heavy', {'vllm', 'torch'} & {*sys.modules})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ENGINE_MODEL": "demo"}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "heavy set()", ended.stderr
    assert "【将运行" in ended.stdout
