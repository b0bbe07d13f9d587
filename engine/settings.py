"""The product's settings: environment variables, or `.env` beside app.py, read once and frozen.

`.env.example` and the README's table are printed from this class: `python -m engine.settings example|table`.
"""

import difflib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from dotenv import dotenv_values
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from engine.arguments import Parser
from engine.cache import existing
from engine.errors import ConfigurationError
from engine.profiles import Profile, Reason
from engine.words import Words

OWN_PREFIXES = ("ENGINE_", "KNOWLEDGE_", "DESK_")
DEFAULT_MODEL = "baidu/ERNIE-4.5-0.3B-PT"
ENV_FILE = ".env"
ENCODING = "utf-8-sig"
"""UTF-8, with or without the mark that Windows' editors put in front (it would hide the first name)."""


class Settings(BaseSettings):
    """Every name a deployment may set. An empty value means the default."""

    model_config = SettingsConfigDict(
        env_file=ENV_FILE, env_file_encoding=ENCODING, env_ignore_empty=True, extra="ignore", frozen=True
    )

    engine_backend: Literal["auto", "inprocess", "server", "scripted"] = Field(
        "auto",
        description="引擎：auto（设了 ENGINE_BASE_URL 用 server，否则 inprocess）、inprocess、server、scripted（演示界面用）",
    )
    engine_base_url: str | None = Field(
        None, description="vLLM 或其他 OpenAI 兼容服务的地址，例如 http://127.0.0.1:8001/v1"
    )
    engine_api_key: str | None = Field(None, description="该服务的密钥；make serve 启动的服务也用它")
    engine_model: str = Field(DEFAULT_MODEL, description="模型：仓库名、本地文件夹，或 demo（演示模型）")
    engine_hub: Literal["auto", "huggingface", "modelscope"] = Field(
        "auto", description="从哪里下载：auto（先应答者）、huggingface、modelscope"
    )
    engine_profile: str = Field(
        "auto", description="显卡配置：auto 或 engine/profiles.toml 中的名字，如 a10、a100-40g、v100-32g、cpu"
    )
    engine_profiles: Path | None = Field(
        None, description="自己的显卡配置文件（TOML，写法同 engine/profiles.toml）：增加显卡，或改已有显卡的值"
    )
    engine_gpu_utilization: Annotated[float, Field(ge=0.02, le=0.99)] | None = Field(
        None, description="引擎最多占用显存的比例，0.02–0.99；默认取自显卡配置，CPU 上不用"
    )
    engine_max_model_len: Annotated[int, Field(ge=256, le=131072)] = Field(4096, description="上下文窗口（词元）")
    engine_max_tokens: Annotated[int, Field(ge=16, le=131072)] = Field(512, description="一次回答的最大长度（词元）")
    engine_max_concurrent: Annotated[int, Field(ge=1)] | None = Field(
        None, description="同时生成的回答数；默认取自显卡配置"
    )
    engine_max_queued: Annotated[int, Field(ge=0)] | None = Field(
        None, description="排队的问题数上限；默认取自显卡配置"
    )
    engine_leave_grace_s: Annotated[float, Field(ge=0)] = Field(
        10, description="关闭页面后回答继续生成的秒数，之后释放引擎"
    )
    engine_allow_switch: bool | None = Field(
        None, description="页面上可否切换显卡配置、重新启动引擎；默认仅当只监听本机、也不在反向代理之后时可以"
    )
    engine_script: Path | None = Field(None, description="scripted 引擎播放的脚本（TOML）；默认内置示例")
    knowledge_dir: Path | None = Field(None, description="资料库所在的文件夹；默认 DATA_DIR 下的 knowledge")
    knowledge_embedder: str = Field(
        "bundled", description="语义检索：bundled（自带 multilingual-e5-small）、none，或 OpenAI 兼容的向量服务地址"
    )
    knowledge_embedder_model: str | None = Field(None, description="向量服务的模型名；默认取服务列出的第一个")
    knowledge_embedder_key: str | None = Field(None, description="向量服务的密钥")
    knowledge_allow_edit: bool | None = Field(
        None, description="页面上可否增删公共资料库的文件；默认仅当只监听本机、也不在反向代理之后时可以"
    )
    data_dir: Path = Field(Path(".data"), description="运行中写入的一切（默认在 app.py 旁）")

    @property
    def backend(self) -> Literal["inprocess", "server", "scripted"]:
        """The backend in force, `auto` resolved."""
        if self.engine_backend == "auto":
            return "server" if self.engine_base_url else "inprocess"
        return self.engine_backend

    @property
    def library(self) -> Path:
        """The folder of the knowledge library."""
        return self.knowledge_dir or self.data_dir / "knowledge"

    def unwritable(self) -> Words | None:
        """What is wrong with DATA_DIR; None where it can be written."""
        if os.access(existing(self.data_dir), os.W_OK):
            return None
        return Words(
            f"无法写入 {self.data_dir}：请检查权限，或改 DATA_DIR。",
            f"Cannot write to {self.data_dir}: see to its permissions, or set DATA_DIR.",
        )

    def limited(self, profile: Profile) -> Profile:
        """`profile` with the limits that are set here in place of its own."""
        utilization = self.engine_gpu_utilization if profile.on_gpu else None
        given = {
            "max_concurrent": ("ENGINE_MAX_CONCURRENT", self.engine_max_concurrent),
            "max_queued": ("ENGINE_MAX_QUEUED", self.engine_max_queued),
            "gpu_memory_utilization": ("ENGINE_GPU_UTILIZATION", utilization),
        }
        reasons = {field: Reason(f"设置 {name}", "own") for field, (name, value) in given.items() if value is not None}
        return replace(
            profile,
            max_concurrent=self.engine_max_concurrent or profile.max_concurrent,
            max_queued=profile.max_queued if self.engine_max_queued is None else self.engine_max_queued,
            gpu_memory_utilization=utilization or profile.gpu_memory_utilization,
            reasons={**profile.reasons, **reasons},
        )

    @classmethod
    def load(cls) -> Self:
        """Read the environment and `.env`. Raises ConfigurationError naming the first wrong name or value."""
        try:
            _refuse_unknown_names(set(cls.model_fields))
            settings = cls()
        except ValidationError as error:
            raise _explain(error) from error
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                Words(
                    "文件 .env 不是 UTF-8 编码：请在编辑器中另存为 UTF-8。",
                    "The file .env is not UTF-8: save it as UTF-8 in your editor.",
                )
            ) from error
        if settings.backend == "server" and not settings.engine_base_url:
            raise ConfigurationError(
                Words(
                    "ENGINE_BACKEND=server 需要 ENGINE_BASE_URL，例如 http://127.0.0.1:8001/v1（make serve 启动的服务）。",
                    "ENGINE_BACKEND=server needs ENGINE_BASE_URL, e.g. http://127.0.0.1:8001/v1 (what make serve starts).",
                )
            )
        return settings


def _refuse_unknown_names(fields: set[str]) -> None:
    """A misspelt name would be ignored in silence: refuse it, with a guess at what was meant."""
    known = sorted(name.upper() for name in fields)
    given = {
        name.upper()
        for name in (*os.environ, *dotenv_values(ENV_FILE, encoding=ENCODING))
        if name.upper().startswith(OWN_PREFIXES)
    }
    for name in sorted(given - set(known)):
        guess = difflib.get_close_matches(name, known, n=1)
        hint_zh = f"是不是 {guess[0]}？" if guess else "可用的名字见 .env.example。"
        hint_en = f"Did you mean {guess[0]}?" if guess else "See .env.example for the names."
        raise ConfigurationError(Words(f"不认识的设置 {name}。{hint_zh}", f"Unknown setting {name}. {hint_en}"))


def _explain(error: ValidationError) -> ConfigurationError:
    """The first complaint of pydantic's, as one sentence."""
    first = error.errors()[0]
    name = str(first["loc"][0]).upper()
    return ConfigurationError(
        Words(
            f"设置 {name} 的值 {first['input']!r} 不可用：{Settings.model_fields[name.lower()].description}。",
            f"The value {first['input']!r} of {name} cannot be used: {first['msg']}.",
        )
    )


def _described() -> Iterator[tuple[str, str, str]]:
    """Each setting's name, default (empty for none) and description."""
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else str(field.default)
        yield name.upper(), default, field.description or ""


def example() -> str:
    """The text of .env.example."""
    head = "# 知答的设置：复制为 .env 后，去掉要改的行前面的 # 号。空值等于默认值；环境变量优先于本文件。\n"
    return head + "".join(f"\n# {description}\n#{name}={value}\n" for name, value, description in _described())


def table() -> str:
    """The README's table, in Markdown."""
    rows = [f"| `{name}` | {f'`{value}`' if value else ''} | {text} |" for name, value, text in _described()]
    return "\n".join(["| 名字 | 默认 | 说明 |", "| --- | --- | --- |", *rows]) + "\n"


if __name__ == "__main__":
    parser = Parser(prog="python -m engine.settings", description="打印 .env.example 或 README 的设置表")
    parser.add_argument("what", choices=("example", "table"))
    try:
        what = parser.parse_args().what
    except ConfigurationError as error:
        sys.exit(f"{error.words.zh}\n{error.words.en}")
    print({"example": example, "table": table}[what](), end="")
