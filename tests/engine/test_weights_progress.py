"""Progress on the console, and `python -m engine.weights`."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from engine.base import Loading
from engine.progress import console_progress
from engine.weights import main
from engine.words import Words
from tests.engine.weights_support import model_files, write_files

DOWNLOAD, CONVERT = Words("下载模型", "Downloading"), Words("转换模型", "Converting")


@pytest.fixture(autouse=True)
def environment_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """`resolve` sets these two for good."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")


class Terminal(StringIO):
    """A stream that people look at."""

    def isatty(self) -> bool:
        return True


def load(report: Callable[[Loading], None]) -> None:
    """A thousand reports of one step, then a step of unknown length, reported twice."""
    for thousandth in range(1001):
        report(Loading(DOWNLOAD, thousandth / 1000))
    report(Loading(CONVERT))
    report(Loading(CONVERT))


def test_log_gets_a_line_every_tenth() -> None:
    """Where no one looks, a step is one line and each tenth of it another."""
    stream = StringIO()
    load(console_progress(stream))
    assert stream.getvalue().splitlines() == [f"下载模型 {tenth * 10}%" for tenth in range(11)] + ["转换模型"]


def test_terminal_gets_one_bar() -> None:
    """On a terminal a step is one line that grows, ended before the next step's line."""
    stream = Terminal()
    load(console_progress(stream))
    bar, step = stream.getvalue().splitlines()[-2:]
    assert stream.getvalue().count("\n") == 2
    assert "下载模型 100%|" in bar
    assert step == "转换模型"


def test_unfinished_bar_makes_room() -> None:
    """A step that ends before its bar is full leaves its line whole."""
    stream = Terminal()
    report = console_progress(stream)
    report(Loading(DOWNLOAD, 0.5))
    report(Loading(CONVERT))
    assert stream.getvalue().endswith("\n转换模型\n")


def test_command_prints_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m engine.weights --model FOLDER` prints the name and the folder."""
    folder = write_files(tmp_path / "my.model", model_files(10))
    assert main(["--model", str(folder)]) == 0
    assert capsys.readouterr().out == f"模型 my.model：{folder}\n"


def test_command_takes_the_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --model it is ENGINE_MODEL that is prepared."""
    monkeypatch.setenv("ENGINE_MODEL", str(write_files(tmp_path / "set", model_files(10))))
    assert main([]) == 0
    assert "模型 set：" in capsys.readouterr().out


def test_command_fails_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault is exit status 1 and its sentence, without a traceback."""
    assert main(["--model", "/nowhere"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "模型文件夹 /nowhere 不存在" in said.err
