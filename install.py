"""Makes .venv and installs the right lock into it: what `make install` runs.

Standard library only, since it runs before anything is installed. What keeps it honest: `.venv/unfinished` is there
while the environment is being made, and one that has it is made anew; `.venv/installed.json` names a lock only when all
of it is in; packages that pip left half-installed are dropped before the next try; `.venv.lock` keeps installs apart.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, cast

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UNFINISHED = VENV / "unfinished"
INSTALLED = VENV / "installed.json"
LOG = VENV / "install.log"
LOCKS = {"gpu": "requirements.txt", "cpu": "requirements-cpu.txt", "remote": "requirements-remote.txt"}
DEV_LOCK = "requirements-dev.txt"
NAMES = {"gpu": "NVIDIA 显卡版", "cpu": "CPU 版", "remote": "远端引擎版"}
DISK_GIB = {"gpu": 16, "cpu": 5, "remote": 1}
"""Free space asked for: CPU measured (2.5 GiB) and doubled, for the downloads; the others estimated."""
PINS_A_STEP = 30
"""So many are fetched and installed at a time: what an interruption loses at most."""
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
SEEN = re.compile(r"^(?:Collecting|Ignoring|Requirement already satisfied:) ([\w.-]+)", re.MULTILINE)
"""What pip says of each package that it comes to."""
IS_PYTHON_RIGHT = "import pip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))"


def main() -> None:
    """Bring .venv to the wanted state; does next to nothing when it is there already."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description="安装知答的运行环境 / Installs into .venv what Zhida needs")
    parser.add_argument("--remote", choices=("", "0", "1"), default="", help="1：只装界面，引擎在别处 / the app alone")
    parser.add_argument("--dev", action="store_true", help="加装测试工具 / test tools too")
    args = parser.parse_args()
    with only_one_install() as lock_file:
        kind = wanted_kind(args.remote, installed_kind())
        if installed_kind() not in (None, kind) or not is_whole():
            make_venv(kind)
        for name in [LOCKS[kind], *([DEV_LOCK] if args.dev else [])]:
            if read_record()["locks"].get(name) != digest(name):
                install(kind, name, lock_file)
        say(f"环境就绪：.venv（{NAMES[kind]}）")


def say(text: str) -> None:
    """One step, told to the terminal at once."""
    print(text, flush=True)


def fail(zh: str, en: str) -> NoReturn:
    """End with status 1 and a sentence in both languages."""
    sys.exit(f"\n✗ {zh}\n  {en}")


@contextmanager
def only_one_install() -> Iterator[int]:
    """Hold the lock; yields its descriptor. pip inherits it, so a pip that outlives us still holds it."""
    with open(ROOT / ".venv.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("另一个安装正在进行，等它结束… / Waiting for another install.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def wanted_kind(remote: str, current: str | None) -> str:
    """`remote` when asked for, or when it was the last choice and nothing is said; else by the graphics card."""
    if remote == "1" or (not remote and current == "remote"):
        return "remote"
    if sys.platform != "linux":
        fail(
            "本机引擎只支持 Linux（Windows 请用 WSL2）。只装界面、引擎在别处：make install REMOTE=1",
            "The engine runs on Linux alone (on Windows: WSL2). The app alone: make install REMOTE=1",
        )
    return "gpu" if has_card() else "cpu"


def has_card() -> bool:
    """Whether nvidia-smi lists a graphics card."""
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listing.returncode == 0 and "GPU " in listing.stdout


def read_record() -> dict[str, Any]:
    """What .venv holds: its kind, its folder, and the digest of each lock that is wholly in."""
    try:
        record = json.loads(INSTALLED.read_text())
    except (OSError, ValueError):
        record = {}
    return {"kind": None, "folder": str(VENV), "locks": {}, **record}


def installed_kind() -> str | None:
    """Which kind .venv is, or was about to become; None where nothing says."""
    return cast(str | None, read_record()["kind"])


def digest(name: str) -> str:
    """sha256 of a lock file."""
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()


def is_whole() -> bool:
    """Whether .venv works, holds a right Python, was never left half-made and has not been moved."""
    if UNFINISHED.exists() or not PYTHON.exists() or read_record()["folder"] != str(VENV):
        return False
    return subprocess.run([PYTHON, "-c", IS_PYTHON_RIGHT], capture_output=True).returncode == 0


def make_venv(kind: str) -> None:
    """A fresh .venv, marked unfinished while it is made."""
    if VENV.exists():
        say("清除损坏、被移动过或另一类型的 .venv")
        shutil.rmtree(VENV)
    free_gib = shutil.disk_usage(ROOT).free / 2**30
    if free_gib < DISK_GIB[kind]:
        fail(
            f"磁盘空间不足：需要约 {DISK_GIB[kind]} GiB，{ROOT} 所在磁盘只剩 {free_gib:.1f} GiB。请先腾出空间。",
            f"Not enough disk: about {DISK_GIB[kind]} GiB needed, {free_gib:.1f} GiB free.",
        )
    say(f"创建 .venv（Python {sys.version_info.major}.{sys.version_info.minor}）")
    VENV.mkdir()
    UNFINISHED.touch()
    venv.EnvBuilder(with_pip=True, symlinks=True).create(VENV)
    UNFINISHED.unlink()


def install(kind: str, name: str, lock_file: int) -> None:
    """Install one lock; the record names it only when all of it is in."""
    record = {**read_record(), "kind": kind}
    record["locks"].pop(name, None)
    INSTALLED.write_text(json.dumps(record))
    drop_half_installed()
    pins = [line for line in (ROOT / name).read_text().splitlines() if "==" in line]
    if kind == "cpu" and name == LOCKS["cpu"]:
        install_cpu_torch(next(pin for pin in pins if pin.startswith("torch==")), lock_file)
    say(f"安装 {name}（{len(pins)} 个包，详情见 .venv/install.log）")
    for start in range(0, len(pins), PINS_A_STEP):
        install_pins(pins[start : start + PINS_A_STEP], start, len(pins), lock_file)
    show_progress(1, "完成\n")
    record["locks"][name] = digest(name)
    INSTALLED.write_text(json.dumps(record))


def drop_half_installed() -> None:
    """Forget packages whose installation broke off: pip writes INSTALLER after all of a package's files."""
    for info in VENV.glob("lib/python*/site-packages/*.dist-info"):
        if not (info / "INSTALLER").exists():
            shutil.rmtree(info)


def pip(*arguments: str) -> list[str]:
    """A pip command line of .venv's own."""
    return [str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments]


def environment() -> dict[str, str]:
    """pip's: temporary files on .venv's disk, since /tmp is often too small for the wheels."""
    temporary = VENV / "tmp"
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(temporary)}


def install_cpu_torch(pin: str, lock_file: int) -> None:
    """PyTorch's CPU build: from where pip is configured to look, else from PyTorch's own index."""
    command = pip("install", "--no-deps", pin)
    probe = subprocess.run([*command, "--dry-run", "--quiet"], capture_output=True, env=environment())
    if probe.returncode:
        command += ["--index-url", TORCH_CPU_INDEX]
    say(f"安装 PyTorch（{pin}）")
    if subprocess.run(command, env=environment(), pass_fds=[lock_file]).returncode:
        fail_install(f"PyTorch（{TORCH_CPU_INDEX}）")


def install_pins(pins: list[str], before: int, total: int, lock_file: int) -> None:
    """Some pins of a lock, the bar going on from `before` of `total`."""
    command = pip("install", "--no-deps", "--progress-bar", "off", *pins)
    with (
        LOG.open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment(), pass_fds=[lock_file]) as process,
    ):
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.3)
                seen = SEEN.findall(LOG.read_text(errors="replace"))
                show_progress((before + len(seen)) / total, seen[-1] if seen else "")
        except BaseException:  # Ctrl-C and SIGTERM too: pip must not outlive us
            process.terminate()
            raise
    if process.returncode:
        say("\n" + "\n".join(LOG.read_text(errors="replace").splitlines()[-12:]))
        fail_install(", ".join(pin.split("==")[0] for pin in pins))


last_shown = ""


def show_progress(share: float, doing: str) -> None:
    """Draw the bar (`share`: 0 to 1). Without a terminal: a line every tenth."""
    global last_shown
    if sys.stdout.isatty():
        text = f"\r\033[K  {'█' * round(share * 30):░<30} {share:4.0%}  {doing}"
    else:
        text = f"  {share * 10 // 1 * 10:.0f}%\n"
    if text != last_shown:
        print(text, end="", flush=True)
    last_shown = text


def fail_install(what: str) -> NoReturn:
    """pip gave up: say what usually helps."""
    fail(
        f"未能安装：{what}。请检查网络后再运行一次；代理设 HTTPS_PROXY，镜像设 PIP_INDEX_URL 或 PIP_FIND_LINKS。",
        "Check the network (HTTPS_PROXY, PIP_INDEX_URL, PIP_FIND_LINKS) and run it again.",
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("\n已中断。再运行一次，会从断开处接着装。 / Interrupted: run it again and it goes on from here.")
        sys.exit(130)
