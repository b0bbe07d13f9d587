"""Makes .venv and installs the right lock into it: what `make install` runs. For a V100 .venv-server too.

Standard library only, since it runs before anything is installed. What keeps it honest: `.venv/unfinished` is there
while the environment is being made, and one that has it is made anew; `.venv/installed.json` names a lock only when all
of it is in; packages that pip left half-installed are dropped before the next try; `.venv.lock` keeps installs apart.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from engine import driver, installed
from engine.arguments import Parser
from engine.errors import ConfigurationError
from engine.installed import APP, LOCKS, NAMES, REMOTE, ROOT, SERVER, SERVER_FOLDER, digest, is_right, pythons, record
from engine.words import Words

DEV_LOCK = "requirements-dev.txt"
DISK_GIB = {driver.GPU: 16, driver.CUDA_12: 16, driver.V100: 1, driver.CPU: 5, REMOTE: 1, SERVER: 14}
"""Free space asked for: CPU measured (2.5 GiB) and doubled, for the downloads; the others estimated."""
PINS_A_STEP = 30
"""So many are fetched and installed at a time: what an interruption loses at most."""
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
SEEN = re.compile(r"^(?:Collecting|Ignoring|Requirement already satisfied:) ([\w.-]+)", re.MULTILINE)
"""What pip says of each package that it comes to."""


def main() -> None:
    """Bring .venv to the wanted state; does next to nothing when it is there already."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = Parser(prog="install.py", description="安装知答的运行环境 / Installs into .venv what Zhida needs")
    parser.add_argument("--remote", choices=("", "0", "1"), default="", help="1：只装界面，引擎在别处 / the app alone")
    parser.add_argument(
        "--kind", choices=("", "auto", *(kind for kind in LOCKS if kind != SERVER)), default="",
        help="装哪一种；auto：按显卡与驱动 / which kind; auto: by card and driver",
    )  # fmt: skip
    parser.add_argument("--dev", action="store_true", help="加装测试工具 / test tools too")
    try:
        args = parser.parse_args()
    except ConfigurationError as error:
        fail(error.words.zh, error.words.en)
    wish = args.kind or {"1": REMOTE, "0": "auto", "": ""}[args.remote]
    with only_one_install() as lock_file:
        app = Environment(APP, lock_file)
        choice = decide(wish, record(app.folder))
        app.bring(choice, [DEV_LOCK] if args.dev else [])
        if choice.kind == driver.V100:
            Environment(SERVER_FOLDER, lock_file).bring(Choice(SERVER))
            say("启动：一个终端 make serve；.env 里写 ENGINE_BASE_URL=http://127.0.0.1:8001/v1，另一个终端 make run。")


@dataclass(frozen=True, slots=True)
class Choice:
    """What to install; whether it was asked for by name, and so stays; why, where it was not; what else to say."""

    kind: str
    asked: bool = False
    reason: Words | None = None
    note: Words | None = None


def decide(wish: str, now: dict[str, Any]) -> Choice:
    """`wish` ("auto": nothing any more), else what was asked for the last time, else by the card and its driver."""
    if wish not in ("", "auto"):
        return _on_linux(Choice(wish, asked=True))
    if not wish and now["asked"]:
        return _on_linux(Choice(now["kind"], asked=True))
    return _on_linux(by_card(driver.look(), now["kind"], changes_over=wish == "auto"))


def by_card(seen: driver.Seen | driver.NoCard, current: str | None, *, changes_over: bool = False) -> Choice:
    """What the card and its driver allow, but no gigabytes fetched again because nvidia-smi says something new.

    `current` is what is installed; `changes_over`: the user asks for what is newest.
    """
    build = driver.build_for(seen)
    if build.kind is None:
        fail(build.reason.zh, build.reason.en)
    if isinstance(seen, driver.NoCard):
        if current in (driver.GPU, driver.CUDA_12, driver.V100):
            return Choice(
                current, note=Words(f"{build.reason.zh}{installed.KEPT.zh}", f"{build.reason.en} {installed.KEPT.en}")
            )
        if seen.is_failure and current is None:
            fail(f"{build.reason.zh}{installed.UNCLEAR.zh}", f"{build.reason.en} {installed.UNCLEAR.en}")
    if current == driver.CUDA_12 and build.kind == driver.GPU and not changes_over:
        return Choice(current, note=installed.NEWER)
    return Choice(build.kind, reason=build.reason)


def _on_linux(choice: Choice) -> Choice:
    """The engine runs on Linux alone; the app without one anywhere."""
    if sys.platform != "linux" and choice.kind != REMOTE:
        fail(
            "本机引擎只支持 Linux（Windows 请用 WSL2）。只装界面、引擎在别处：make install REMOTE=1",
            "The engine runs on Linux alone (on Windows: WSL2). The app alone: make install REMOTE=1",
        )
    return choice


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


class Environment:
    """A folder with a Python and what was installed into it; `lock_file` is the descriptor that keeps installs apart."""

    def __init__(self, folder: Path, lock_file: int) -> None:
        self.folder, self.lock_file = folder, lock_file
        self.python = folder / "bin" / "python"
        self.unfinished = folder / "unfinished"
        self.log = folder / "install.log"

    def bring(self, choice: Choice, more: Sequence[str] = ()) -> None:
        """To the wanted state; the reason is told when there is something to do."""
        kind, now = choice.kind, record(self.folder)
        locks = [LOCKS[kind], *more]
        fits = now["kind"] in (None, kind) and self.is_whole(kind)
        missing = locks if not fits else [name for name in locks if now["locks"].get(name) != digest(name)]
        for words in (choice.reason if missing else None, choice.note):
            if words:
                say(f"{words.zh}\n  {words.en}")
        if not fits:
            self.make(kind)
        for name in missing:
            self.install(kind, name)
        if record(self.folder)["asked"] != choice.asked:
            self.write({**record(self.folder), "asked": choice.asked})
        say(f"环境就绪：{self.folder.name}（{NAMES[kind]}）")

    def write(self, now: dict[str, Any]) -> None:
        """Keep the record."""
        (self.folder / "installed.json").write_text(json.dumps(now))

    def is_whole(self, kind: str) -> bool:
        """Whether it works, holds a right Python, was never left half-made and has not been moved."""
        if self.unfinished.exists() or not self.python.exists() or record(self.folder)["folder"] != str(self.folder):
            return False
        return is_right(str(self.python), kind, "pip")

    def make(self, kind: str) -> None:
        """A fresh one, marked unfinished while it is made."""
        python, name = find_python(kind), self.folder.name
        if self.folder.exists():
            say(f"清除损坏、被移动过或另一类型的 {name}")
            shutil.rmtree(self.folder)
        free_gib = shutil.disk_usage(ROOT).free / 2**30
        if free_gib < DISK_GIB[kind]:
            fail(
                f"磁盘空间不足：需要约 {DISK_GIB[kind]} GiB，{ROOT} 所在磁盘只剩 {free_gib:.1f} GiB。请先腾出空间。",
                f"Not enough disk: about {DISK_GIB[kind]} GiB needed, {free_gib:.1f} GiB free.",
            )
        say(f"创建 {name}（{python}）")
        self.folder.mkdir()
        self.unfinished.touch()
        if subprocess.run([python, "-m", "venv", "--symlinks", self.folder], pass_fds=[self.lock_file]).returncode:
            fail(f"未能创建 {name}，原因见上。", f"{name} could not be made: see above.")
        self.unfinished.unlink()

    def install(self, kind: str, name: str) -> None:
        """Install one lock; the record names it only when all of it is in."""
        now = {**record(self.folder), "kind": kind}
        now["locks"].pop(name, None)
        self.write(now)
        self.drop_half_installed()
        pins = [line for line in (ROOT / name).read_text().splitlines() if "==" in line]
        if name == LOCKS[driver.CPU]:
            self.install_cpu_torch(next(pin for pin in pins if pin.startswith("torch==")))
        say(f"安装 {name}（{len(pins)} 个包，详情见 {self.folder.name}/install.log）")
        for start in range(0, len(pins), PINS_A_STEP):
            self.install_pins(pins[start : start + PINS_A_STEP], start, len(pins))
        show_progress(1, "完成\n")
        now["locks"][name] = digest(name)
        self.write(now)

    def drop_half_installed(self) -> None:
        """Forget packages whose installation broke off: pip writes INSTALLER after all of a package's files."""
        for info in self.folder.glob("lib/python*/site-packages/*.dist-info"):
            if not (info / "INSTALLER").exists():
                shutil.rmtree(info)

    def pip(self, *arguments: str) -> list[str]:
        """A pip command line of its own."""
        return [str(self.python), "-m", "pip", "--disable-pip-version-check", *arguments]

    def variables(self) -> dict[str, str]:
        """pip's: temporary files on the environment's disk, since /tmp is often too small for the wheels."""
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return {**os.environ, "TMPDIR": str(temporary)}

    def install_cpu_torch(self, pin: str) -> None:
        """PyTorch's CPU build: from where pip is configured to look, else from PyTorch's own index."""
        command = self.pip("install", "--no-deps", pin)
        probe = subprocess.run([*command, "--dry-run", "--quiet"], capture_output=True, env=self.variables())
        if probe.returncode:
            command += ["--index-url", TORCH_CPU_INDEX]
        say(f"安装 PyTorch（{pin}）")
        if subprocess.run(command, env=self.variables(), pass_fds=[self.lock_file]).returncode:
            fail_install(f"PyTorch（{TORCH_CPU_INDEX}）")

    def install_pins(self, pins: list[str], before: int, total: int) -> None:
        """Some pins of a lock, the bar going on from `before` of `total`."""
        command = self.pip("install", "--no-deps", "--progress-bar", "off", *pins)
        with (
            self.log.open("w") as log,
            subprocess.Popen(
                command, stdout=log, stderr=log, env=self.variables(), pass_fds=[self.lock_file]
            ) as process,
        ):
            try:
                while process.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(0.3)
                    seen = SEEN.findall(self.log.read_text(errors="replace"))
                    show_progress((before + len(seen)) / total, seen[-1] if seen else "")
            except BaseException:  # Ctrl-C and SIGTERM too: pip must not outlive us
                process.terminate()
                raise
        if process.returncode:
            say("\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-12:]))
            fail_install(", ".join(pin.split("==")[0] for pin in pins))


def find_python(kind: str) -> str:
    """The Python that runs this, where it will do; else another that does."""
    for python in (sys.executable, "python3.12", "python3.11", "python3.10"):
        if is_right(python, kind, "venv", "ensurepip"):
            return python
    (major, low), (_, below) = pythons(kind)
    versions = f"{major}.{low}–{major}.{below - 1}"
    why = f" (vLLM {driver.VLLM[driver.V100]} takes no newer one)" if kind == SERVER else ""
    fail(
        f"{NAMES[kind]}需要 Python {versions}（须带 venv），没有找到。Debian/Ubuntu：apt install python3.12 python3.12-venv",
        f"Python {versions} with venv is needed for it{why}; none found.",
    )


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
