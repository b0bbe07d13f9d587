"""The app client over a real, scripted app."""

import json
from collections.abc import Iterator

import pytest

from bench.app_load import CLIENTS_A_PROCESS, Share, generate, processes_for, shares
from bench.cli import main
from engine.errors import ConfigurationError
from tests.app_server import AppServer, free_port

SCRIPT = """
[engine]
tokens_a_character = 1.0
[[rules]]
match = "^坏"
text = "说到一半就断了"
after = 1
error = "StreamBroken"
[[rules]]
text = "一二三四五六七八九十"
characters_a_delta = 2
delay_s = 0.01
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for this file's tests."""
    folder = tmp_path_factory.mktemp("bench-app")
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    with AppServer(folder, ENGINE_BACKEND="scripted", ENGINE_SCRIPT="script.toml") as server:
        yield server.ready()


def test_levels_over_the_socket(app: AppServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompts about as long as asked, tokens from the footers, every request answered, first text before the end."""
    argv = ["app", "--url", app.url, "--concurrency", "1,3", "--requests", "3", "--input", "100", "--output", "64"]
    assert main(argv) == 0
    levels = json.loads(capsys.readouterr().out.splitlines()[-1])["levels"]
    assert [(level["load"], level["answered"], level["answer_tokens"]) for level in levels] == [
        ("1", 3, 30),
        ("3", 3, 30),
    ]
    for level in levels:
        assert level["prompt_tokens"][0] == pytest.approx(100, abs=3)
        assert 0 < level["first_s"]["p50"] < level["total_s"]["p50"]
    assert levels[1]["most_at_once"] == 3
    assert app.metric("zhida_running") == 0


def test_an_open_loop_over_the_socket(app: AppServer, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrivals at a rate, each in a chat of its own."""
    assert main(["app", "--url", app.url, "--rate", "50", "--requests", "4", "--input", "80", "--output", "32"]) == 0
    (level,) = json.loads(capsys.readouterr().out.splitlines()[-1])["levels"]
    assert (level["requests"], level["answered"]) == (4, 4)


def test_failed_answers_are_counted_in_the_pages_words(app: AppServer) -> None:
    """And are no answers, although text had come."""
    _, (outcome,) = generate(Share(app.url, ["坏一", "坏二", "好"], 32, 2), 1)
    assert [sample.error is None for sample in outcome.samples].count(True) == 1
    assert {sample.error for sample in outcome.samples if sample.error} == {"演示脚本按要求出了这个错误。"}


def test_several_processes_share_the_work(app: AppServer) -> None:
    """Each asks its own questions; none is lost or asked twice."""
    _, outcomes = generate(Share(app.url, [f"问题{number}" for number in range(5)], 32, 3), 2)
    assert [len(outcome.samples) for outcome in outcomes] == [3, 2]


def test_nobody_listens() -> None:
    """A load generator that cannot connect says so, and no process is left."""
    with pytest.raises(ConfigurationError, match="压测端失败"):
        generate(Share(f"http://127.0.0.1:{free_port()}", ["好"], 32, 1), 1)


def test_too_long_an_answer_is_refused(app: AppServer, capsys: pytest.CaptureFixture[str]) -> None:
    """By the app's own panel."""
    assert main(["app", "--url", app.url, "--output", "4000", "--input", "90"]) == 1
    assert "--output 4000 超过应用允许的最长回答 2048。" in capsys.readouterr().err


def test_shares_are_fair() -> None:
    """Clients, questions and arrivals are all dealt out, none twice."""
    whole = Share("", [str(number) for number in range(10)], 16, 5, [number / 10 for number in range(10)])
    parts = shares(whole, 3)
    assert [part.clients for part in parts] == [2, 2, 1]
    assert sorted(question for part in parts for question in part.questions) == sorted(whole.questions)
    assert sorted(moment for part in parts for moment in part.moments or ()) == whole.moments


def test_processes() -> None:
    """One for every 32 clients within half of the cores; what is asked for, but none without a client."""
    assert processes_for(1, None) == 1
    assert 1 <= processes_for(8 * CLIENTS_A_PROCESS, None) <= 8
    assert processes_for(8, 4) == 4
    assert processes_for(2, 4) == 2
