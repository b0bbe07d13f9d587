"""The bench over a real vLLM, in this process and as a server."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
OWN_PREFIXES = ("ENGINE_", "KNOWLEDGE_", "DESK_")


def start(model: Path, scratch: Path, *argv: str) -> subprocess.Popen[str]:
    """`python -m bench` as a user starts it, on the tiny model."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(OWN_PREFIXES)}
    env = {**outside, "ENGINE_MODEL": str(model), "DATA_DIR": str(scratch), "VLLM_CPU_KVCACHE_SPACE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *argv],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_our_stream_against_the_bare_engine(tiny_model: Path, tmp_path: Path) -> None:
    """Both are asked alternately over one engine, every request to its full length, and their ratio is told."""
    lengths = ("--input", "48", "--output", "32", "--requests", "4", "--concurrency", "2", "--rounds", "2")
    with start(tiny_model, tmp_path, "engine", "--against", "bare", *lengths) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    (versus,) = json.loads(output.splitlines()[-1])["versus"]
    assert len(versus["bare"]) == len(versus["ours"]) == 2
    assert min(versus["bare"] + versus["ours"]) > 0
    assert "本引擎是 vLLM 直接输出的" in output.splitlines()[-2]


def test_an_interrupted_bench_leaves_no_process(tiny_model: Path, tmp_path: Path) -> None:
    """Ctrl-C while answers are running ends EngineCore too."""
    with start(tiny_model, tmp_path, "engine", "--concurrency", "2", "--seconds", "600", "--output", "2000") as process:
        assert process.stderr
        heard = next((line for line in process.stderr if line.startswith("并发 2")), "")
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert heard
    assert family
    assert process.returncode == 130
    assert errors.splitlines()[-2:] == ["已中断，引擎已结束。", "Interrupted; the engine has been ended."]
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


def test_the_crosscheck_asks_both_tools_for_the_same(tiny_model: Path, tmp_path: Path) -> None:
    """vLLM's own benchmark runs with our prompts; how far the figures agree depends on the machine, and is told."""
    lengths = ("--input", "64", "--output", "24", "--requests", "4", "--clients", "2", "--rounds", "1")
    with start(tiny_model, tmp_path, "crosscheck", *lengths) as process:
        output, errors = process.communicate()
    assert process.returncode in (0, 1), errors
    result = json.loads(output.splitlines()[-1])
    assert result["agrees"] is (process.returncode == 0)
    for figures in (*result["ours"], *result["theirs"]):
        assert min(figures.values()) > 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_load(how: int, tmp_path: Path) -> None:
    """SIGTERM does what Ctrl-C does."""
    env = {**os.environ, "ENGINE_BACKEND": "scripted", "DATA_DIR": str(tmp_path)}
    argv = [sys.executable, "-m", "bench", "engine", "--concurrency", "2", "--seconds", "600", "--input", "64"]
    with subprocess.Popen(
        argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        assert any(line.startswith("并发 2") for line in process.stderr)
        process.send_signal(how)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "已中断" in errors
    assert "Traceback" not in errors
    assert output == ""
