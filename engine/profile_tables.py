"""Tables of profiles as they stand in TOML: read, checked, and one file laid over another."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine.errors import ConfigurationError
from engine.words import Words

T = TypeVar("T")
Source = Literal["published", "derived", "measured", "own"]
"""Two public write-ups, arithmetic and data sheets, a run, or the user's own file or setting."""

EXPECTED = {
    "title": "一行文字",
    "name_pattern": "正则表达式，例如 '\\bA10\\b'",
    "memory_gib": "显存，单位 GiB，例如 22.5",
    "capability": "计算能力，例如 [8, 6]",
    "bandwidth_gb_s": "显存带宽，单位 GB/s",
    "dtype": "bfloat16、half、float16 或 float32",
    "gpu_memory_utilization": "0 到 0.99 之间的数",
    "max_concurrent": "大于 0 的整数",
    "max_queued": "不小于 0 的整数",
    "enforce_eager": "true 或 false",
    "kv_cache_gib": "大于 0 的整数，单位 GiB（只用于 CPU）",
    "attention_backend": "vLLM 的 attention backend 名字",
    "last_vllm": "版本号，例如 0.19.1",
    "published": "一组文字",
}


class Told(BaseModel, Generic[T]):
    """A value, why it is this one, and where that comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    value: T
    source: Source
    reason: Annotated[str, Field(min_length=1)]


class Table(BaseModel):
    """One card's table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str
    name_pattern: str | None = None
    memory_gib: Told[Annotated[float, Field(ge=0, le=1e6)]]  # neither infinite nor what overflows as bytes
    capability: Told[tuple[int, int]]
    bandwidth_gb_s: Told[Annotated[float, Field(ge=0, le=1e6)]]  # neither infinite nor what overflows as bytes
    dtype: Told[Literal["bfloat16", "half", "float16", "float32"]]
    gpu_memory_utilization: Told[Annotated[float, Field(ge=0, le=0.99)]]
    max_concurrent: Told[Annotated[int, Field(ge=1)]]
    max_queued: Told[Annotated[int, Field(ge=0)]]
    enforce_eager: Told[bool]
    kv_cache_gib: Told[Annotated[int, Field(ge=1)]] | None = None
    attention_backend: Told[str] | None = None
    last_vllm: Told[str] | None = None
    published: Mapping[str, str] = Field(default_factory=dict)

    @field_validator("name_pattern")
    @classmethod
    def _is_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(str(error)) from error
        return pattern

    def told(self) -> dict[str, Told[Any]]:
        """The values that have a reason, by name."""
        return {name: value for name in type(self).model_fields if isinstance(value := getattr(self, name), Told)}


PLAIN = ("title", "name_pattern", "published")
DEFAULTS: dict[str, Any] = {
    "bandwidth_gb_s": {"value": 0, "source": "derived", "reason": "没有给出"},
    "gpu_memory_utilization": {"value": 0.9, "source": "derived", "reason": "各配置的默认值"},
    "enforce_eager": {"value": False, "source": "derived", "reason": "各显卡的默认值：CUDA graph"},
}
"""What a new card of the user's may leave out."""


def read_tables(shipped: Path, own: Path | None) -> dict[str, Table]:
    """The shipped tables with the user's laid over them, the user's new cards first.

    Raises ConfigurationError naming file, table and value.
    """
    base = _raw(shipped)
    tables = {name: _check(shipped, name, values) for name, values in base.items()}
    if own is None:
        return tables
    ours = {
        name: _check(own, name, _laid_over(base.get(name), values, own, name)) for name, values in _raw(own).items()
    }
    return {**{name: table for name, table in ours.items() if name not in tables}, **tables, **ours}


def _raw(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise _fault(
            path, f"不能读取（{error.strerror}），请检查 ENGINE_PROFILES", f"cannot be read: {error.strerror}"
        ) from error
    except ValueError as error:  # of TOML, or of UTF-8
        raise _fault(path, f"不是有效的 TOML（{error}）", f"is no valid TOML ({error})") from error


def _laid_over(base: dict[str, Any] | None, values: Any, path: Path, name: str) -> dict[str, Any]:
    """The user's values, each with its reason, over those of the shipped card or over the defaults."""
    if not isinstance(values, dict):
        raise _fault(path, f"中的 {name} 应在一个表里，例如 [a10]", f"has {name} outside a table such as [a10]")
    given = {key: value if key in PLAIN else _told(value) for key, value in values.items()}
    if base is not None:
        return {**base, **given}
    concurrent = given.get("max_concurrent", {}).get("value")
    queue = (
        {"value": 2 * concurrent, "source": "derived", "reason": "并发的 2 倍"} if isinstance(concurrent, int) else None
    )
    return {"title": name, **DEFAULTS, **({"max_queued": queue} if queue else {}), **given}


def _told(value: Any) -> dict[str, Any]:
    """A value of the user's, who need not say why."""
    own = {"source": "own", "reason": "自己的配置文件"}
    return {**own, **value} if isinstance(value, dict) else {"value": value, **own}


def _check(path: Path, name: str, values: dict[str, Any]) -> Table:
    try:
        table = Table.model_validate(values)
    except ValidationError as error:
        raise _explain(path, name, error) from error
    for key, told in (("memory_gib", table.memory_gib), ("gpu_memory_utilization", table.gpu_memory_utilization)):
        if table.capability.value > (0, 0) and not told.value:  # the CPU's alone may be 0
            raise _fault(path, f"的 [{name}] 中 {key} 的值 0 不可用，显卡的应大于 0", f"has a {key} of 0 in [{name}]")
    return table


def _explain(path: Path, name: str, error: ValidationError) -> ConfigurationError:
    """One complaint of pydantic's, as one sentence: of an unknown name first, since what is missing may be it."""
    complaints = error.errors()
    first = next((each for each in complaints if each["type"] == "extra_forbidden"), complaints[0])
    key = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        word = str(first["loc"][-1])
        guess = difflib.get_close_matches(word, [*Table.model_fields, "value", "source", "reason"], n=1)
        hint, hint_en = (f"，是不是 {guess[0]}？", f"; did you mean {guess[0]}?") if guess else ("", "")
        return _fault(path, f"的 [{name}] 中有不认识的 {word}{hint}", f"has an unknown {word} in [{name}]{hint_en}")
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return _fault(path, f"的 [{name}] 缺少 {key}（{EXPECTED[key]}）", f"lacks {key} in [{name}]")
    given = first["input"]
    return _fault(
        path,
        f"的 [{name}] 中 {key} 的值 {given!r} 不可用，应为{EXPECTED[key]}",
        f"has an unusable {key} in [{name}]: {given!r} ({first['msg']})",
    )


def _fault(path: Path, zh: str, en: str) -> ConfigurationError:
    stop = "" if zh.endswith("？") else "。"
    return ConfigurationError(Words(f"显卡配置文件 {path} {zh}{stop}", f"The profiles file {path} {en}."))
