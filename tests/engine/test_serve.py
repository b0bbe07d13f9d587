"""The command of `python -m engine.serve`; that it serves is shown by the contract suite, which starts it."""

import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from engine import preflight, serve
from engine.errors import ConfigurationError
from engine.profiles import Profile, load_profiles
from tests.engine.backends import ROOT

PROFILES = load_profiles()
SLOW_IMPORTS = ("vllm", "torch", "transformers", "openai", "chainlit")


def value_of(argv: list[str], flag: str) -> str:
    """What follows `flag`."""
    return argv[argv.index(flag) + 1]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_the_profile_becomes_flags(profile: Profile) -> None:
    """Every value of the profile that vLLM takes is on the command line; GPU memory only with a GPU."""
    argv = serve.command(Path("/models/m.1"), "m", profile, 4096, "127.0.0.1", 8001)
    assert argv[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert value_of(argv, "--model") == "/models/m.1"
    assert value_of(argv, "--served-model-name") == "m"
    assert value_of(argv, "--max-model-len") == "4096"
    assert value_of(argv, "--dtype") == profile.dtype
    assert value_of(argv, "--max-num-seqs") == str(profile.max_concurrent)
    assert ("--enforce-eager" in argv) is profile.enforce_eager
    assert ("--gpu-memory-utilization" in argv) is profile.on_gpu


def test_the_line_survives_a_shell() -> None:
    """Names with spaces and quotes come out of a shell's parser as they went in."""
    argv = serve.command(Path("/my models/it's"), "a b", PROFILES["cpu"], 4096, "::1", 8001, "python")
    words = shlex.split(serve.shell_line(argv, {"VLLM_CPU_KVCACHE_SPACE": "2"}))
    assert words == ["VLLM_CPU_KVCACHE_SPACE=2", *argv]


def test_print_loads_nothing(tmp_path: Path) -> None:
    """--print answers with the command and the CPU's environment, and imports no library that takes seconds."""
    script = (
        "import sys; from engine.serve import main; code = main(['--profile', 'cpu', '--print', '--port', '8123']);"
        f"print([name for name in {SLOW_IMPORTS} if name in sys.modules]); sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT), "ENGINE_API_KEY": "secret"},
    )  # fmt: skip
    line, imported = ran.stdout.splitlines()
    assert imported == "[]"
    assert "--port 8123" in line
    assert "VLLM_CPU_KVCACHE_SPACE=2" in line
    assert "secret" not in line


def test_print_for_a_card_that_is_not_here(capsys: pytest.CaptureFixture[str]) -> None:
    """The command may be meant for another machine."""
    assert serve.main(["--profile", "a10", "--print"]) == 0
    assert "--gpu-memory-utilization 0.9" in capsys.readouterr().out


def test_a_taken_port_is_refused_before_loading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is named, the exit status is 1, and no weights are looked for."""
    monkeypatch.setattr(serve, "resolve", lambda *_: pytest.fail("weights were resolved"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve.main(["--profile", "cpu", "--port", str(port)]) == 1
    assert f"端口 {port} 已被占用" in capsys.readouterr().err


def test_another_machines_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An address that is not ours is one sentence, too."""
    assert serve.main(["--profile", "cpu", "--host", "192.0.2.1"]) == 1
    assert "192.0.2.1:8001" in capsys.readouterr().err


def test_an_unknown_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """In Chinese, with what was meant beside it."""
    assert serve.main(["--port", "x"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "参数 --port 的值 x 不可用。用法见 python -m engine.serve --help。",
        "argument --port: invalid int value: 'x'. See python -m engine.serve --help.",
    ]


def test_an_unknown_profile_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence and no traceback."""
    assert serve.main(["--profile", "a11", "--print"]) == 1
    assert "a11" in capsys.readouterr().err


def test_a_v100_is_served_from_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where vLLM lies apart from the app its Python is used, for a profile that it can run."""
    monkeypatch.setattr(serve, "server_python", lambda: Path("/elsewhere/bin/python"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert serve._interpreter(PROFILES["v100-32g"]) == "/elsewhere/bin/python"
    with pytest.raises(ConfigurationError):
        serve._interpreter(PROFILES["cpu"])


@pytest.mark.parametrize(("apart", "told"), [(None, "make install"), (Path("/elsewhere/bin/python"), "make serve")])
def test_without_vllm(monkeypatch: pytest.MonkeyPatch, apart: Path | None, told: str) -> None:
    """Where there is no vLLM beside the app, it is said whether to install it or to start it."""
    monkeypatch.setattr(preflight, "server_python", lambda: apart)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError) as refused:
        preflight.preflight(PROFILES["v100-32g"])
    assert told in refused.value.words.zh
