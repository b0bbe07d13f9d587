"""`python -m engine.serve`: this project's own vLLM server, with the profile's flags. vLLM itself is not imported here."""

import argparse
import errno
import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine import ports
from engine.arguments import Parser
from engine.driver import V100, VLLM
from engine.errors import ConfigurationError, ZhidaError
from engine.hardware import detect_card
from engine.installed import server_python
from engine.launch import vllm_environment, vllm_options
from engine.preflight import preflight, require_room, unfit
from engine.profiles import Profile, choose, load_profiles
from engine.progress import console_progress
from engine.settings import Settings
from engine.weights import resolve
from engine.words import Words

MODULE = "vllm.entrypoints.openai.api_server"
"""Not `vllm serve`: that script crashes with the CPU build."""
PORT = 8001


def command(
    model: Path | str, name: str, profile: Profile, window: int, host: str, port: int, python: str = sys.executable
) -> list[str]:
    """The server's command line."""
    argv = [python, "-m", MODULE, "--host", host, "--port", str(port)]
    for option, value in vllm_options(model, name, profile, window).items():
        flag = f"--{option.replace('_', '-')}"
        if isinstance(value, bool):
            argv += [flag] if value else []
        else:
            argv += [flag, str(value)]
    return argv


def shell_line(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """What to paste into a shell for the same; the API key stays in the shell's own environment."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    return " ".join([*settings, shlex.join(argv)])


def refuse_taken(host: str, port: int) -> None:
    """Raises ConfigurationError where the port is taken, or the address is not this machine's."""
    if error := ports.fault(host, port):
        raise _unusable(host, port, error) from error


def _unusable(host: str, port: int, error: OSError) -> ConfigurationError:
    if error.errno == errno.EADDRINUSE:
        return ConfigurationError(
            Words(f"端口 {port} 已被占用。请用 --port 换一个，或先停掉占用它的程序。",
                  f"Port {port} is taken. Choose another with --port, or stop what uses it.")
        )  # fmt: skip
    return ConfigurationError(
        Words(f"不能在 {host}:{port} 上监听：{error.strerror}。", f"Cannot listen on {host}:{port}: {error.strerror}.")
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m engine.serve", description="启动本项目的 vLLM 服务。")
    parser.add_argument("--profile", help="显卡配置（默认取 ENGINE_PROFILE）")
    parser.add_argument("--host", default="127.0.0.1", help="监听地址（默认 127.0.0.1）")
    parser.add_argument("--port", type=int, default=PORT, help=f"端口（默认 {PORT}）")
    parser.add_argument("--print", action="store_true", dest="only_print", help="只打印命令，不下载也不启动")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Become the server, or print its command; 1 with one sentence where that is impossible."""
    try:
        _run(_arguments(argv))
    except ZhidaError as error:
        print(error.words.zh, error.words.en, sep="\n", file=sys.stderr)
        return 1
    return 0


def _run(arguments: argparse.Namespace) -> None:
    settings = Settings.load()
    wanted, window = arguments.profile or settings.engine_profile, settings.engine_max_model_len
    own = settings.engine_profiles
    if arguments.only_print:
        # The command may be for another machine: a card that is not here is no obstacle.
        profile = settings.limited(load_profiles(own).get(wanted) or choose(wanted, detect_card(), own).profile)
        model = settings.engine_model
        argv = command(model, model, profile, window, arguments.host, arguments.port, "python")
        print(shell_line(argv, vllm_environment(profile, is_local=Path(model).is_dir())))
        return
    choice = choose(wanted, detect_card(), own)
    profile = settings.limited(choice.profile)
    print(choice.reason.zh, file=sys.stderr)
    refuse_taken(arguments.host, arguments.port)
    python = _interpreter(profile)
    folder = resolve(settings.engine_model, settings.engine_hub, console_progress())
    for line in require_room(folder.path, profile, window):
        print(line.zh, file=sys.stderr)
    argv = command(folder.path, folder.name, profile, window, arguments.host, arguments.port, python)
    environment = vllm_environment(profile, is_local=True) | os.environ
    if settings.engine_api_key:
        environment["VLLM_API_KEY"] = settings.engine_api_key
    sys.stderr.flush()
    os.execve(argv[0], argv, environment)


def _interpreter(profile: Profile) -> str:
    """This Python, or the V100 server's where vLLM lies apart from the app. Raises ConfigurationError."""
    apart = server_python()
    if apart is None or importlib.util.find_spec("vllm"):
        preflight(profile)
        return sys.executable
    if refusal := unfit(profile, VLLM[V100], is_cpu_build=False):
        raise ConfigurationError(refusal)
    return str(apart)


if __name__ == "__main__":
    sys.exit(main())
