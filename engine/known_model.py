"""A model's footprint without fetching anything: from its folder, from the caches, or from what is known of it."""

import json
from dataclasses import dataclass
from pathlib import Path

from engine import demo, footprint, weights
from engine.cache import cache_root, other_caches
from engine.config_values import Config, read_config
from engine.errors import ConfigurationError
from engine.model_files import is_complete, refuse_paddle
from engine.words import Words

SHIPPED = Path(__file__).with_name("default_model.json")
"""The default model's config.json and the bytes of its weights in bf16 (a run: docs/measurements.md)."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model's name, what is known of it, and where that comes from."""

    name: str
    source: Words
    folder: Path | None
    config: Config
    weight_bytes: int | None = None

    def footprint(self, dtype: str) -> footprint.Footprint:
        """What it takes in `dtype`. Raises Unforeseeable, WeightsError."""
        if self.folder:
            return footprint.of_folder(self.folder, dtype)
        known = self.weight_bytes and self.weight_bytes // 2 * footprint.ITEM_BYTES[dtype]
        return footprint.of_config(self.config, dtype, known)


def find(model: str) -> KnownModel:
    """The model of ENGINE_MODEL. Raises ConfigurationError where nothing is known of it on this machine."""
    path = Path(model).expanduser()
    if model != weights.DEMO and path.is_dir():
        refuse_paddle(path.name)
        return _folder(path.absolute().name, path)
    if model != weights.DEMO and (path.exists() or not weights.HUB_ID.fullmatch(model)):
        weights.resolve(model, "auto", lambda loading: None)  # says what is wrong with it
    if model != weights.DEMO:
        refuse_paddle(model)
    for folder in _kept(model):
        if is_complete(folder):
            return _folder(model, folder)
    return _shipped(model)


def _kept(model: str) -> list[Path]:
    """Where its files would be."""
    if model == weights.DEMO:
        return [cache_root() / "demo" / demo.QWEN.name]
    return [cache_root() / "models" / model, *other_caches(model)]


def _folder(name: str, folder: Path) -> KnownModel:
    return KnownModel(name, Words(f"文件夹 {folder}", f"the folder {folder}"), folder, read_config(folder))


def _shipped(model: str) -> KnownModel:
    known = json.loads(SHIPPED.read_bytes())
    if model != known["model"]:
        raise ConfigurationError(
            Words(
                f"模型 {model} 不在这台机器上，无法计算：请先运行 python -m engine.weights --model {model}，"
                "或用 --model 给出有 config.json 的文件夹。",
                f"{model} is not on this machine: run python -m engine.weights --model {model} first, "
                "or give a folder with its config.json as --model.",
            )
        )
    source = Words(
        f"权重不在这台机器上，按已知的 config.json 和 {known['weight_bytes']:,} 字节计算",
        f"not on this machine: computed from its known config.json and {known['weight_bytes']:,} bytes",
    )
    return KnownModel(model, source, None, known["config"], known["weight_bytes"])
