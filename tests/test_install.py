"""`make install`: what it chooses by card, driver and wish, and that it survives interruptions."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import pytest

import install
from engine import driver
from engine.driver import CPU, CUDA_12, GPU, V100, NoCard
from engine.installed import REMOTE
from engine.words import Words

ROOT = Path(__file__).parents[1]
A10 = "GPU-8f3c2a1e-0000-0000-0000-000000000000, NVIDIA A10, {}, 8.6\n"
WHY = Words("原因。", "A reason.")


def a10(version: str) -> driver.Seen:
    """An A10 under a driver."""
    return driver.Seen("NVIDIA A10", version, (8, 6), 23028)


class TestChoice:
    """The pure part: what is wished, what is installed, what the card allows."""

    @pytest.mark.parametrize("current", [None, CPU, GPU, CUDA_12])
    def test_by_card(self, current: str | None) -> None:
        """An old driver gets the CUDA 12 build whatever was there: the CUDA 13 build does not start on it."""
        choice = install.by_card(a10("535.183.01"), current)
        assert (choice.kind, choice.asked, choice.note) == (CUDA_12, False, None)
        assert choice.reason
        assert "535.183.01" in choice.reason.zh

    def test_a_new_driver_fetches_nothing(self) -> None:
        """After a driver upgrade the installed CUDA 12 build stays, and it is said how to change over."""
        choice = install.by_card(a10("580.82.07"), CUDA_12)
        assert choice.kind == CUDA_12
        assert choice.note
        assert "KIND=auto" in choice.note.zh
        assert install.by_card(a10("580.82.07"), None).kind == GPU
        assert install.by_card(a10("580.82.07"), CUDA_12, changes_over=True).kind == GPU

    @pytest.mark.parametrize("is_failure", [True, False])
    @pytest.mark.parametrize("changes_over", [True, False])
    @pytest.mark.parametrize("current", [GPU, CUDA_12, V100])
    def test_a_silent_driver_costs_nothing(self, current: str, changes_over: bool, is_failure: bool) -> None:
        """An nvidia-smi that fails (a driver upgraded, not yet rebooted) or is not on PATH makes no CPU machine of it."""
        choice = install.by_card(NoCard(WHY, is_failure), current, changes_over=changes_over)
        assert choice.kind == current
        assert choice.note
        assert "KIND=cpu" in choice.note.zh

    def test_another_card_is_no_silence(self) -> None:
        """A card that vLLM has no code for is known to be there: the CPU build takes the GPU build's place."""
        assert install.by_card(driver.Seen("Tesla P40", "580.82.07", (6, 1)), GPU).kind == CPU

    def test_a_fresh_clone_beside_a_failing_driver(self) -> None:
        """Nothing is installed yet, and there may well be a card: no guess, the kinds are named."""
        with pytest.raises(SystemExit, match=r"原因[\s\S]*KIND=cpu[\s\S]*KIND=gpu[\s\S]*A reason"):
            install.by_card(NoCard(WHY, is_failure=True), None)
        assert install.by_card(NoCard(WHY, is_failure=True), CPU).kind == CPU
        assert install.by_card(NoCard(WHY), None).kind == CPU

    def test_a_refusal_ends_it(self) -> None:
        """A driver that runs no build at all ends it with the reason, in both languages."""
        with pytest.raises(SystemExit, match=r"470 太旧[\s\S]*Driver 470"):
            install.by_card(a10("470"), None)

    @pytest.mark.parametrize(
        ("wish", "now", "expected"),
        [
            (REMOTE, {"kind": GPU, "asked": False}, (REMOTE, True)),
            ("", {"kind": REMOTE, "asked": True}, (REMOTE, True)),
            ("", {"kind": CPU, "asked": True}, (CPU, True)),
            ("", {"kind": None, "asked": False}, (GPU, False)),
            ("auto", {"kind": CPU, "asked": True}, (GPU, False)),
            ("auto", {"kind": CUDA_12, "asked": False}, (GPU, False)),
        ],
    )
    def test_wishes(
        self, monkeypatch: pytest.MonkeyPatch, wish: str, now: dict[str, object], expected: tuple[str, bool]
    ) -> None:
        """What was asked for stays until something else is; `auto` goes by the card, and changes over."""
        monkeypatch.setattr(driver, "look", lambda: a10("580.82.07"))
        choice = install.decide(wish, now)
        assert (choice.kind, choice.asked) == expected

    def test_python_for_the_v100(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where no Python is old enough for vLLM 0.10.1.1, it is said which is needed."""
        monkeypatch.setattr(install, "is_right", lambda *_: False)
        with pytest.raises(SystemExit, match=r"Python 3\.10–3\.12[\s\S]*vLLM 0\.10\.1\.1 takes no newer"):
            install.find_python("server")
        with pytest.raises(SystemExit, match=r"Python 3\.11–3\.13") as refused:
            install.find_python(GPU)
        assert "vLLM 0.10" not in str(refused.value)


def wheel(folder: Path, name: str, version: str) -> None:
    """A wheel with one module that says its version."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


STANDARD_LIBRARY_ONLY = ("__init__", "arguments", "driver", "errors", "installed", "words")
"""What install.py imports of the project: nothing else is in a Clone."""


class Clone:
    """A folder with the project's Makefile and install.py, a remote lock of one small package, and its wheels."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wheels = folder / "clone", folder / "wheels"
        self.site = self.folder / ".venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site /= "site-packages"
        (folder / "home").mkdir()
        (folder / "bin").mkdir()
        self.wheels.mkdir()
        self.folder.mkdir()
        (self.folder / "engine").mkdir()
        for name in ("Makefile", "install.py", *(f"engine/{name}.py" for name in STANDARD_LIBRARY_ONLY)):
            shutil.copy(ROOT / name, self.folder / name)
        for name in ("python3.11", "python3.12", "python3.13"):  # like pyenv's shims of versions not chosen
            (folder / "bin" / name).write_text("#!/bin/sh\necho not found >&2; exit 127\n")
            (folder / "bin" / name).chmod(0o755)
        (folder / "bin" / "python3").symlink_to(sys.executable)
        self.environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("PIP_", "MAKE", "VIRTUAL_ENV"))
            },
            "HOME": str(folder / "home"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull,
        }
        self.lock("1.0")

    def lock(self, version: str) -> None:
        """Make `version` the locked one in every lock but the CPU's, and put its wheel where pip looks."""
        wheel(self.wheels, "pebble", version)
        for name in ("requirements.txt", "requirements-cuda12.txt", "requirements-remote.txt", "requirements-v100.txt"):
            (self.folder / name).write_text(f"pebble=={version}\n")

    def card(self, listing: str, status: int = 0) -> None:
        """Put an nvidia-smi on PATH that prints `listing`."""
        script = self.folder.parent / "bin" / "nvidia-smi"
        script.write_text(f"#!/bin/sh\nprintf '%s' '{listing}'\nexit {status}\n")
        script.chmod(0o755)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """`make install`, with REMOTE=1 unless told otherwise, in a process group of its own, like a terminal's."""
        return subprocess.Popen(
            ["make", "install", *(arguments or ["REMOTE=1"])], cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def install(self, *arguments: str) -> str:
        """Run it to a good end; what it said."""
        with self.start(*arguments) as process:
            said, _ = process.communicate()
        assert process.returncode == 0, said
        return said

    def installed(self) -> str:
        """The version that .venv's own Python imports."""
        command = [str(self.folder / ".venv/bin/python"), "-c", "import pebble; print(pebble.version)"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """A fresh clone."""
    return Clone(tmp_path)


@pytest.mark.skipif(not shutil.which("make"), reason="没有 make / make is not installed")
class TestInstall:
    def test_installs_once(self, clone: Clone) -> None:
        """The first run installs, the second does nothing, a changed lock is installed, a moved folder made anew."""
        assert "创建 .venv" in clone.install()
        assert clone.installed() == "1.0"
        assert clone.install().splitlines() == ["环境就绪：.venv（远端引擎版）"]
        clone.lock("2.0")
        assert "创建 .venv" not in clone.install()
        assert clone.installed() == "2.0"
        clone.folder = clone.folder.rename(clone.folder.with_name("moved"))
        assert "创建 .venv" in clone.install()
        assert clone.installed() == "2.0"

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_half_made_environment(self, clone: Clone, how: signal.Signals) -> None:
        """Whatever ends the making of .venv, the next run makes it whole."""
        process = clone.start()
        while not (clone.folder / ".venv" / "unfinished").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, how)
        process.communicate()
        assert process.returncode != 0
        assert "创建 .venv" in clone.install()
        assert clone.installed() == "1.0"

    def test_half_installed_package(self, clone: Clone) -> None:
        """A package that pip was writing when it was killed is written again, not taken for installed."""
        clone.install()
        (clone.folder / ".venv" / "installed.json").unlink()
        (next(clone.site.glob("pebble-*.dist-info")) / "INSTALLER").unlink()
        (clone.site / "pebble.py").write_text("versi")
        assert "创建 .venv" not in clone.install()
        assert clone.installed() == "1.0"

    def test_failure_is_not_taken_for_success(self, clone: Clone) -> None:
        """A package that cannot be had ends it with a remedy; once it can be had, the same command goes on."""
        (clone.wheels / "pebble-1.0-py3-none-any.whl").rename(clone.wheels / "elsewhere")
        with clone.start() as process:
            said, _ = process.communicate()
        assert process.returncode != 0
        assert "PIP_INDEX_URL" in said
        (clone.wheels / "elsewhere").rename(clone.wheels / "pebble-1.0-py3-none-any.whl")
        clone.install()
        assert clone.installed() == "1.0"

    def test_two_at_once(self, clone: Clone) -> None:
        """While one installs the other waits and says so, then finds nothing to do."""
        with open(clone.folder / ".venv.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            first, second = clone.start(), clone.start()
            for process in (first, second):
                assert process.stdout
                assert "另一个安装正在进行" in process.stdout.readline()
        said = [process.communicate()[0] for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0), said
        assert sum("创建 .venv" in text for text in said) == 1
        assert clone.installed() == "1.0"

    def test_follows_the_driver(self, clone: Clone) -> None:
        """Driver 535 gets CUDA 12 with the reason; upgraded to 580, nothing is fetched until it is asked for."""
        clone.card(A10.format("535.183.01"))
        said = clone.install("KIND=")
        assert "驱动 535.183.01 只能运行 CUDA 12：用 vLLM 0.19.1" in said
        assert "requirements-cuda12.txt" in said
        clone.card(A10.format("580.82.07"))
        said = clone.install("KIND=")
        assert "KIND=auto" in said
        assert "创建 .venv" not in said
        said = clone.install("KIND=auto")
        assert "安装 requirements.txt" in said
        assert clone.install("KIND=").splitlines() == ["环境就绪：.venv（NVIDIA 显卡版，CUDA 13）"]

    def test_v100(self, clone: Clone) -> None:
        """A V100 gets two environments, and is told how to start; the second run does nothing."""
        clone.card("GPU-1, Tesla V100-PCIE-32GB, 550.54.15, 7.0\n")
        said = clone.install("KIND=")
        assert "没有在 V100 上实测过" in said
        assert "make serve" in said
        command = [str(clone.folder / ".venv-server/bin/python"), "-c", "import pebble"]
        subprocess.run(command, check=True)
        assert clone.installed() == "1.0"
        assert "创建" not in clone.install("KIND=")

    def test_old_driver_is_refused(self, clone: Clone) -> None:
        """A driver that runs no build is named with the one to install, and nothing is made."""
        clone.card("GPU-1, NVIDIA A10, 470.256.02, 8.6\n")
        with clone.start("KIND=") as process:
            said, _ = process.communicate()
        assert process.returncode != 0
        assert "升级显卡驱动到 580" in said
        assert not (clone.folder / ".venv").exists()

    def test_an_unknown_kind(self, clone: Clone) -> None:
        """The kinds are named, in Chinese too."""
        with clone.start("KIND=gpus") as process:
            said, _ = process.communicate()
        assert process.returncode != 0
        assert "参数 --kind 不能是 gpus，可用的有：" in said
        assert "Traceback" not in said

    def test_the_doctor_runs_where_the_installation_refuses(self, clone: Clone) -> None:
        """With a .venv that works it runs after the refusal; without one the refusal is all that there is to say."""
        for name in ("doctor", "plan"):
            (clone.folder / "engine" / f"{name}.py").write_text(
                f"if __name__ == '__main__': print('the {name} speaks')\n"
            )
        clone.card("GPU-1, NVIDIA A10, 470.256.02, 8.6\n")
        for name in ("doctor", "plan"):
            command = ["make", name, "KIND="]
            ran = partial(
                subprocess.run, command, cwd=clone.folder, env=clone.environment, capture_output=True, text=True
            )
            refused = ran()
            assert refused.returncode != 0
            assert "升级显卡驱动到 580" in refused.stderr
            assert "speaks" not in refused.stdout
            clone.install("KIND=gpu")
            (clone.folder / ".venv" / "installed.json").write_text('{"kind": "gpu", "asked": false}')
            spoken = ran()
            assert spoken.returncode == 0, spoken.stderr
            assert "升级显卡驱动到 580" in spoken.stderr
            assert spoken.stdout.splitlines()[-1] == f"the {name} speaks"
            shutil.rmtree(clone.folder / ".venv")

    def test_no_python(self, clone: Clone) -> None:
        """Without a Python that will do, it says which is needed and how to get it."""
        broken = clone.folder.parent / "bin" / "python3"
        broken.unlink()
        shutil.copy(broken.with_name("python3.11"), broken)
        with clone.start() as process:
            said, _ = process.communicate()
        assert process.returncode != 0
        assert "Python 3.11–3.13" in said
        assert "python3-venv" in said
        assert not (clone.folder / ".venv").exists()
