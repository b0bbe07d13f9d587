"""Command lines refuse in Chinese first, and say what is wrong with which argument."""

import subprocess
import sys

import pytest

from engine.arguments import Parser
from engine.errors import ConfigurationError
from tests.engine.backends import ROOT


def parser() -> Parser:
    """One of each kind of argument."""
    made = Parser(prog="tool")
    made.add_argument("--kind", choices=("a", "b"))
    made.add_argument("--port", type=int)
    made.add_argument("--level", type=float)
    made.add_argument("--quiet", action="store_true")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--url")
    which.add_argument("--start", action="store_true")
    made.add_argument("what")
    return made


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--kind", "c", "x"], "参数 --kind 不能是 c，可用的有：a、b。"),
        (["--port", "x", "x"], "参数 --port 的值 x 不可用。"),
        (["x", "--port"], "参数 --port 后面缺少值。"),
        (["x", "--wat", "1"], "不认识的参数 --wat 1。"),
        ([], "缺少参数 what。"),
        (["--quiet=3", "x"], "参数 --quiet 不带值（3）。"),
        (["--url", "3", "--start", "x"], "参数 --start 不能与 --url 同用。"),
    ],
)
def test_what_is_wrong_is_said(argv: list[str], sentence: str) -> None:
    """No English among the Chinese but names and values; argparse's own words are the English sentence."""
    with pytest.raises(ConfigurationError) as refused:
        parser().parse_args(argv)
    assert refused.value.words.zh == f"{sentence}用法见 tool --help。"
    assert refused.value.words.en.endswith(". See tool --help.")


def test_what_is_not_foreseen() -> None:
    """Still a Chinese sentence."""
    with pytest.raises(ConfigurationError) as refused:
        parser().error("something else")
    assert refused.value.words.zh == "参数有误。用法见 tool --help。"


@pytest.mark.parametrize("module", ["engine.settings", "engine.weights", "engine.plan", "engine.serve", "bench"])
def test_every_command_line(module: str) -> None:
    """Each ends with status 1 and our sentence."""
    ran = subprocess.run([sys.executable, "-m", module, "--wat"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.startswith(("不认识的参数 --wat", "缺少参数"))
    assert "Traceback" not in ran.stderr
