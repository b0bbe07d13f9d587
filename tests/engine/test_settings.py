"""Settings: what is read, what is refused, and that the printed copies agree with the class."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import ConfigurationError
from engine.settings import OWN_PREFIXES, Settings, example, table

ROOT = Path(__file__).parents[2]
WriteEnv = Callable[[str | bytes], None]


@pytest.fixture(autouse=True)
def write_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteEnv:
    """An empty folder to start in, no setting in the environment, and a way to write `.env` there."""
    for name in [name for name in os.environ if name.startswith((*OWN_PREFIXES, "DATA_DIR"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def write(text: str | bytes) -> None:
        (tmp_path / ".env").write_bytes(text.encode() if isinstance(text, str) else text)

    return write


class TestReading:
    def test_defaults(self) -> None:
        """Without a file and without variables the defaults hold, and the engine runs in this process."""
        settings = Settings.load()
        assert settings.engine_model == "baidu/ERNIE-4.5-0.3B-PT"
        assert settings.backend == "inprocess"

    def test_environment_wins_over_the_file(self, write_env: WriteEnv, monkeypatch: pytest.MonkeyPatch) -> None:
        """A variable overrides `.env`, which overrides the default."""
        write_env("ENGINE_MAX_TOKENS=100\nENGINE_MAX_MODEL_LEN=2048\n")
        monkeypatch.setenv("ENGINE_MAX_TOKENS", "200")
        settings = Settings.load()
        assert (settings.engine_max_tokens, settings.engine_max_model_len) == (200, 2048)

    @pytest.mark.parametrize(
        ("line", "model"),
        [
            ("ENGINE_MODEL=/模型/文心 0.3B", "/模型/文心 0.3B"),
            ('ENGINE_MODEL="/模型/文心 # 0.3B"', "/模型/文心 # 0.3B"),
            ("ENGINE_MODEL='/a b/c'", "/a b/c"),
            ("export ENGINE_MODEL = demo  # 演示", "demo"),
            ("engine_model=demo\r", "demo"),
            ("ENGINE_MODEL=", "baidu/ERNIE-4.5-0.3B-PT"),
            ('ENGINE_MODEL=""', "baidu/ERNIE-4.5-0.3B-PT"),
        ],
    )
    def test_file_syntax(self, write_env: WriteEnv, line: str, model: str) -> None:
        """Quotes, spaces, comments, `export`, Windows line ends and UTF-8 are read; empty means the default."""
        write_env(f"{line}\n")
        assert Settings.load().engine_model == model

    def test_byte_order_mark(self, write_env: WriteEnv) -> None:
        """The mark that Windows' editors put first does not hide the first name, right or wrong."""
        write_env("\ufeffENGINE_MODEL=demo\n")
        assert Settings.load().engine_model == "demo"
        write_env("\ufeffENGINE_MODLE=demo\n")
        with pytest.raises(ConfigurationError, match="ENGINE_MODLE"):
            Settings.load()

    def test_empty_variable_leaves_the_file_in_force(
        self, write_env: WriteEnv, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An empty variable, as compose files make them, is no setting."""
        write_env("ENGINE_MODEL=demo\n")
        monkeypatch.setenv("ENGINE_MODEL", "")
        assert Settings.load().engine_model == "demo"

    @pytest.mark.parametrize(
        ("lines", "backend"),
        [
            ("", "inprocess"),
            ("ENGINE_BASE_URL=http://127.0.0.1:8001/v1", "server"),
            ("ENGINE_BASE_URL=http://127.0.0.1:8001/v1\nENGINE_BACKEND=inprocess", "inprocess"),
            ("ENGINE_BACKEND=scripted", "scripted"),
        ],
    )
    def test_backend(self, write_env: WriteEnv, lines: str, backend: str) -> None:
        """`auto` is the server where an address is set; a named backend is taken as it is."""
        write_env(lines)
        assert Settings.load().backend == backend


class TestRefusing:
    @pytest.mark.parametrize(
        ("name", "guess"),
        [
            ("ENGINE_MODLE", "ENGINE_MODEL"),
            ("ENGINE_BASEURL", "ENGINE_BASE_URL"),
            ("DESK_XYZZY", None),
            ("KNOWLEDGE_DRI", "KNOWLEDGE_DIR"),
        ],
    )
    @pytest.mark.parametrize("source", ["file", "environment"])
    def test_unknown_name(
        self, write_env: WriteEnv, monkeypatch: pytest.MonkeyPatch, source: str, name: str, guess: str | None
    ) -> None:
        """A misspelt name is refused, with what was probably meant, wherever it stands."""
        if source == "file":
            write_env(f"{name}=1\n")
        else:
            monkeypatch.setenv(name, "1")
        with pytest.raises(ConfigurationError) as caught:
            Settings.load()
        assert name in caught.value.words.zh
        assert f"是不是 {guess}？" in caught.value.words.zh if guess else ".env.example" in caught.value.words.zh

    def test_foreign_names_are_left_alone(self, write_env: WriteEnv) -> None:
        """Names of other programs are none of ours."""
        write_env("CHAINLIT_AUTH_SECRET=x\nHTTPS_PROXY=http://proxy:3128\n")
        assert Settings.load() == Settings()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ENGINE_BACKEND", "vllm"),
            ("ENGINE_MAX_MODEL_LEN", "0"),
            ("ENGINE_MAX_TOKENS", "many"),
            ("ENGINE_LEAVE_GRACE_S", "-1"),
            ("ENGINE_ALLOW_SWITCH", "perhaps"),
        ],
    )
    def test_wrong_value(self, write_env: WriteEnv, name: str, value: str) -> None:
        """A value that cannot be used is named with its setting and what the setting takes, in Chinese."""
        write_env(f"{name}={value}\n")
        with pytest.raises(ConfigurationError) as caught:
            Settings.load()
        assert name in caught.value.words.zh
        assert value in caught.value.words.zh
        assert str(Settings.model_fields[name.lower()].description) in caught.value.words.zh

    def test_other_encoding(self, write_env: WriteEnv) -> None:
        """A file in GBK is named as such, not read wrongly and not met with a traceback."""
        write_env("ENGINE_MODEL=/模型\n".encode("gbk"))
        with pytest.raises(ConfigurationError, match="UTF-8"):
            Settings.load()


class TestPrintedCopies:
    def test_env_example(self) -> None:
        """`.env.example` is what the class prints: python -m engine.settings example > .env.example."""
        assert (ROOT / ".env.example").read_text(encoding="utf-8") == example()

    def test_readme_table(self) -> None:
        """The README's table is what the class prints: python -m engine.settings table."""
        assert table() in (ROOT / "README.md").read_text(encoding="utf-8")

    def test_every_example_line_is_a_setting(self, write_env: WriteEnv) -> None:
        """`.env.example` with every # taken away is accepted and changes nothing."""
        write_env(
            "\n".join(line.removeprefix("#") for line in example().splitlines() if "=" in line and line[1] != " ")
        )
        assert Settings.load() == Settings()

    @pytest.mark.parametrize(("what", "text"), [("example", example()), ("table", table())])
    def test_command(self, what: str, text: str) -> None:
        """`python -m engine.settings` prints them."""
        command = [sys.executable, "-m", "engine.settings", what]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert printed.stdout == text


def test_a_server_needs_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """ENGINE_BACKEND=server alone is refused with an example of what is missing."""
    monkeypatch.setenv("ENGINE_BACKEND", "server")
    with pytest.raises(ConfigurationError, match=r"ENGINE_BASE_URL，例如 http://127\.0\.0\.1:8001/v1"):
        Settings.load()
