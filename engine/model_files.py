"""Is this folder a model that can be loaded? Each fault is one sentence with its remedy."""

import json
import re
import struct
from pathlib import Path
from typing import Any

from engine.errors import WeightsError
from engine.words import Words

TOKENIZERS = ("tokenizer.json", "*.model", "*.tiktoken", "tekken.json", "vocab.json", "vocab.txt")
OTHER_FORMATS = ("*.gguf", "pytorch_model*.bin", "*.pth", "*.onnx")
PADDLE_FILES = ("*.pdparams", "*.pdiparams", "*.pdmodel")
PADDLE_FORMATS = ("np", "pd", "paddle")
"""What Paddle writes as a safetensors file's "format"; PyTorch's is "pt"."""
LFS_POINTER = b"version https://git-lfs"
INDEX = "model.safetensors.index.json"


def refuse_paddle(name: str) -> None:
    """Raises WeightsError for a hub id or folder name that ends in -Paddle."""
    if name.lower().endswith("-paddle"):
        raise _paddle(name, re.sub(r"-paddle$", "-PT", name, flags=re.IGNORECASE))


def check(folder: Path) -> None:
    """Raises WeightsError where `folder` lacks something, is broken, or holds the wrong kind of weights."""
    refuse_paddle(folder.name)
    if any(any(folder.glob(pattern)) for pattern in PADDLE_FILES):
        raise _paddle(str(folder))
    _check_config(folder)
    if not any(any(folder.glob(pattern)) for pattern in TOKENIZERS):
        raise _incomplete(folder, "tokenizer.json")
    _check_shards(folder)
    for file in _safetensors(folder):
        _check_safetensors(file)


def is_complete(folder: Path) -> bool:
    """Whether `check` finds no fault."""
    try:
        check(folder)
    except WeightsError:
        return False
    return True


def _safetensors(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))
    if files:
        return files
    if other := next((file for pattern in OTHER_FORMATS for file in folder.glob(pattern)), None):
        raise WeightsError(
            Words(
                f"{folder} 中只有 {other.name}，没有 safetensors 权重：请改用同一模型的 safetensors 版本。",
                f"{folder} holds {other.name} and no safetensors weights: take the model's safetensors version.",
            )
        )
    raise _incomplete(folder, "model.safetensors")


def _check_config(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise _incomplete(folder, "config.json")
    config = _read_json(folder / "config.json")
    if not isinstance(config.get("model_type"), str) or "paddlenlp_version" in config:
        raise _paddle(str(folder))


def _check_shards(folder: Path) -> None:
    """Every shard that the index names must be there."""
    if not (folder / INDEX).is_file():
        return
    weight_map = _read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict):
        raise _broken(folder / INDEX)
    for shard in sorted({str(name) for name in weight_map.values()}):
        if not (folder / shard).is_file():
            raise _incomplete(folder, shard)


def _check_safetensors(file: Path) -> None:
    """Header readable, and exactly as many bytes after it as it promises (the safetensors format's own rule)."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(len(LFS_POINTER))
        if start == LFS_POINTER:
            raise _lfs_pointer(file)
        (length,) = struct.unpack("<Q", start[:8]) if len(start) >= 8 else (size,)
        if length + 8 > size:
            raise _truncated(file, size, None)
        stream.seek(8)
        header = _parse(file, stream.read(length))
    if header.pop("__metadata__", {}).get("format") in PADDLE_FORMATS:
        raise _paddle(str(file.parent))
    try:
        promised = 8 + length + max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise _broken(file) from error
    if promised != size:
        raise _truncated(file, size, promised)


def _read_json(file: Path) -> dict[str, Any]:
    return _parse(file, file.read_bytes())


def _parse(file: Path, raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise _broken(file) from error
    if not isinstance(value, dict):
        raise _broken(file)
    return value


def _incomplete(folder: Path, missing: str) -> WeightsError:
    return WeightsError(
        Words(
            f"模型文件夹 {folder} 中缺少 {missing}：请把模型下载完整，或把 ENGINE_MODEL 指向完整的文件夹。",
            f"{missing} is missing in {folder}: download the whole model, or point ENGINE_MODEL at a complete folder.",
        )
    )


def _broken(file: Path) -> WeightsError:
    return WeightsError(
        Words(f"{file} 已损坏，无法读取：请重新下载它。", f"{file} is broken and cannot be read: download it again.")
    )


def _truncated(file: Path, size: int, promised: int | None) -> WeightsError:
    ought, ought_en = (f"，应有 {promised:,} 字节", f", {promised:,} expected") if promised is not None else ("", "")
    return WeightsError(
        Words(
            f"{file} 不完整（现有 {size:,} 字节{ought}），多半是下载中断所致：请重新下载这个文件。",
            f"{file} is not whole ({size:,} bytes{ought_en}), probably an interrupted download: download it again.",
        )
    )


def _lfs_pointer(file: Path) -> WeightsError:
    return WeightsError(
        Words(
            f"{file} 只是 git-lfs 的占位文件：请在 {file.parent} 中运行 git lfs pull 取回真正的权重。",
            f"{file} is a git-lfs placeholder: run git lfs pull in {file.parent} to get the weights.",
        )
    )


def _paddle(found: str, better: str | None = None) -> WeightsError:
    use = better or "名字以 -PT 结尾的版本，例如 baidu/ERNIE-4.5-0.3B-PT"
    use_en = better or "the one whose name ends in -PT, such as baidu/ERNIE-4.5-0.3B-PT"
    return WeightsError(
        Words(
            f"{found} 是 Paddle 格式的权重（或不是 transformers 格式），vLLM 无法加载：请改用 {use}。",
            f"{found} holds Paddle weights (or none of transformers' format), which vLLM cannot load: use {use_en}.",
        )
    )
