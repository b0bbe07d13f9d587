"""The command line: results as the last line, and refusals in one sentence."""

import json
import re
from pathlib import Path

import pytest

from bench.cli import main
from tests.bench.test_load import SCRIPT

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is a script, and no .env is read."""
    (tmp_path / "script.toml").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINE_BACKEND", "scripted")
    monkeypatch.setenv("ENGINE_SCRIPT", "script.toml")
    monkeypatch.setenv("ENGINE_API_KEY", "sk-secret")
    monkeypatch.setenv("KNOWLEDGE_EMBEDDER_KEY", "sk-secret")
    for name in ("ENGINE_MODEL", "ENGINE_BASE_URL", "ENGINE_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def last_line(text: str) -> dict[str, object]:
    """The JSON object that standard output ends with."""
    found: dict[str, object] = json.loads(text.splitlines()[-1])
    return found


def test_engine_prints_a_table_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same results go to the file that --save names; no key is among them."""
    save = tmp_path / "new" / "results.json"
    assert main(["engine", "--concurrency", "1,2", "--input", "64", "--requests", "3", "--save", str(save)]) == 0
    output = capsys.readouterr().out
    assert "首字 ms" in output
    result = last_line(output)
    assert result == json.loads(save.read_text(encoding="utf-8"))
    levels = result["levels"]
    assert isinstance(levels, list)
    assert [(level["load"], level["answered"]) for level in levels] == [("1", 3), ("2", 3)]
    assert "sk-secret" not in output
    assert str(tmp_path) not in save.read_text(encoding="utf-8").replace(str(save), "")


def test_open_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """--rate takes the place of --concurrency."""
    assert main(["engine", "--rate", "200", "--requests", "4", "--input", "64"]) == 0
    levels = last_line(capsys.readouterr().out)["levels"]
    assert isinstance(levels, list)
    assert [(level["load"], level["requests"]) for level in levels] == [("200/s", 4)]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["engine", "--concurrency", "1,x"], "--concurrency '1,x' 不可用：应是逗号分开的正整数，例如 1,4,8。"),
        (["engine", "--concurrency", "0"], "--concurrency '0' 不可用：应是逗号分开的正整数，例如 1,4,8。"),
        (["engine", "--rate", "0"], "'0' 不是正数。"),
        (["engine", "--input", "-5"], "'-5' 不是正整数。"),
        (["engine", "--input", "4000", "--output", "512"], "--input 4000 加 --output 512 超过窗口 4096。"),
        (["engine", "--against", "bare"], "--against bare 和 --eager 只能用于本进程内的引擎，现在的引擎是 scripted。"),
        (["engine", "--input", "2"], "--input 2 太短：对话模板本身就超过它，请用更大的数。"),
        (["app", "--url", NOBODY], f"{NOBODY} 上没有运行中的应用。请先 make run，或用 --start 让压测自己启动。"),
        (["app", "--url", "乱写"], "乱写 上没有运行中的应用。请先 make run，或用 --start 让压测自己启动。"),
        (["app", "--seconds", "5"], "压测应用时，--seconds 要与 --rate 一起用；闭环请用 --requests。"),
        (
            ["crosscheck", "--input", "2000"],
            "vLLM 的压测工具会跳过长的请求：--input 至多 1000，与 --output 之和至多 2000。",
        ),
        (
            ["engines"],
            "参数 命令 不能是 engines，可用的有：engine、app、tables、crosscheck、knowledge、knowledge-speed。用法见 python -m bench --help。",
        ),
        (["engine", "--jsn"], "不认识的参数 --jsn。用法见 python -m bench --help。"),
        (
            ["app", "--rate", "0.01", "--seconds", "5"],
            "每秒 0.01 个，5 秒里没有一个请求到达：请加大 --rate 或 --seconds。",
        ),
        (
            ["engine", "--rate", "0.01", "--seconds", "5"],
            "每秒 0.01 个，5 秒里没有一个请求到达：请加大 --rate 或 --seconds。",
        ),
    ],
)
def test_refusals(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence in Chinese and one in English, status 1, nothing on standard output."""
    assert main(argv) == 1
    captured = capsys.readouterr()
    assert sentence in captured.err.splitlines()[-2]
    assert re.match("[-A-Za-z'h]", captured.err.splitlines()[-1])
    assert captured.out == ""


def test_a_server_that_is_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """crosscheck does not wait for ever."""
    monkeypatch.setenv("ENGINE_MODEL", str(tmp_path))
    monkeypatch.setattr("bench.crosscheck.MEET_S", 0.1)
    assert main(["crosscheck", "--base-url", f"{NOBODY}/v1"]) == 1
    assert f"{NOBODY}/v1 没有应答。" in capsys.readouterr().err


def test_results_that_cannot_be_saved_are_printed_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """A measurement is not lost to a wrong path."""
    assert main(["engine", "--concurrency", "1", "--input", "64", "--save", "script.toml/x.json"]) == 1
    captured = capsys.readouterr()
    assert last_line(captured.out)["kind"] == "engine"
    assert "无法写入 script.toml/x.json" in captured.err
