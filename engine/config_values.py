"""A model's config.json, read with suspicion."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import WeightsError
from engine.words import Words

Config = Mapping[str, Any]


class Unforeseeable(Exception):
    """What this model will take cannot be computed; `words` say why. No reason not to load it."""

    def __init__(self, zh: str, en: str) -> None:
        super().__init__(zh)
        self.words = Words(zh, en)


def read_config(folder: Path) -> Config:
    """The content of config.json. Raises WeightsError where there is none that can be read."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_bytes())
    except OSError as error:
        raise WeightsError(
            Words(f"不能读取 {file}（{error.strerror}）：请检查 ENGINE_MODEL。",
                  f"Cannot read {file} ({error.strerror}): check ENGINE_MODEL.")
        ) from error  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise _broken(file) from error
    if not isinstance(config, dict):
        raise _broken(file)
    return config


def _broken(file: Path) -> WeightsError:
    return WeightsError(
        Words(f"{file} 已损坏，无法读取：请重新下载它。", f"{file} is broken and cannot be read: download it again.")
    )


def whole(config: Config, *names: str) -> int:
    """The first of `names` that is set, a positive whole number. Raises Unforeseeable."""
    for name in names:
        if (value := config.get(name)) is not None:
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
            raise Unforeseeable(
                f"config.json 中的 {name} 是 {value!r}，不是正整数。", f"{name} in config.json is {value!r}."
            )
    raise Unforeseeable(f"config.json 中没有 {names[0]}。", f"config.json lacks {names[0]}.")


def whole_or(config: Config, default: int, *names: str) -> int:
    """The same, or `default` where none is set."""
    return whole(config, *names) if any(config.get(name) not in (None, 0) for name in names) else default
