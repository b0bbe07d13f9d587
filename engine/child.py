"""The EngineCore process beside the app: kept from running the app again, and heard when it fails to start."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

from engine.words import Words

CONFIG_NAME, LOG_NAME = "vllm-logging.json", "vllm-errors.log"
CAUSE = re.compile(r"^(?:[\w.]*\.)?\w*(?:Error|Exception|Interrupt|Killed)\w*: ?(.+)$", re.MULTILINE)
WRAPPERS = (
    "Engine core initialization failed",
    "EngineCore encountered an issue",
    "Worker failed",
    "WorkerProc initialization",
)

REMEDIES: tuple[tuple[str, Words], ...] = (
    (
        r"less than desired GPU memory utilization|out of memory|No available memory for the cache blocks",
        Words("显存不足：请先关闭占用显存的其他程序，或换小一些的模型",
              "Not enough GPU memory: close what else uses the card, or take a smaller model"),
    ),
    (
        r"Not enough memory|Cannot allocate memory|MemoryError|available (?:node )?memory",
        Words("内存不足：请关闭其他程序，或把 VLLM_CPU_KVCACHE_SPACE 设小", "Not enough memory: set VLLM_CPU_KVCACHE_SPACE smaller"),
    ),
    (
        r"larger than the (?:available KV cache memory|maximum number of tokens that can be stored)",
        Words("KV 缓存放不下一个完整的对话：请把 ENGINE_MAX_MODEL_LEN 设小",
              "The KV cache cannot hold one full chat: set ENGINE_MAX_MODEL_LEN smaller"),
    ),
    (
        r"derived max_model_len|greater than the derived",
        Words("模型的上下文没有这么长：请把 ENGINE_MAX_MODEL_LEN 设小",
              "The model's context is not that long: set ENGINE_MAX_MODEL_LEN smaller"),
    ),
    (
        r"architectures? .*not supported|not supported for now|does not recognize this architecture|Unrecognized model",
        Words("vLLM 不支持这个模型的结构：请换 ENGINE_MODEL", "vLLM does not know this architecture: choose another ENGINE_MODEL"),
    ),
    (
        r"no kernel image|compute capability",
        Words("显卡不支持这样运行：请设 ENGINE_PROFILE=auto", "The card cannot run it like this: set ENGINE_PROFILE=auto"),
    ),
)  # fmt: skip


@contextmanager
def bare_main() -> Iterator[None]:
    """Keep processes spawned meanwhile from importing the app's main module again.

    multiprocessing's spawn runs the parent's main module in the child, except one named `*.__main__`. EngineCore needs
    nothing of the app's; under the `chainlit` console script it would import Chainlit, whose lazy attributes break
    torch.compile's pickling, and a script without a main guard would load the model again and again.
    """
    main = sys.modules["__main__"]
    saved = main.__spec__
    main.__spec__ = ModuleSpec("app.__main__", None)
    try:
        yield
    finally:
        main.__spec__ = saved


def log_errors(folder: Path) -> Path | None:
    """Have vLLM's processes write their errors below `folder` too; returns the (emptied) log.

    Why a start failed is only ever told in the child's log. None where the user configured vLLM's logging.
    """
    own = Path(os.environ.get("VLLM_LOGGING_CONFIG_PATH", CONFIG_NAME)).name == CONFIG_NAME
    if not own or os.environ.get("VLLM_CONFIGURE_LOGGING") == "0":
        return None
    folder.mkdir(parents=True, exist_ok=True)
    log, config = (folder / LOG_NAME).absolute(), (folder / CONFIG_NAME).absolute()
    log.write_text("", encoding="utf-8")
    config.write_text(json.dumps(_logging_config(log)), encoding="utf-8")
    os.environ["VLLM_LOGGING_CONFIG_PATH"] = str(config)
    return log


def _logging_config(log: Path) -> dict[str, object]:
    """logging.config's dictionary: the console as vLLM has it, and errors to `log`."""
    level = os.environ.get("VLLM_LOGGING_LEVEL", "WARNING")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(levelname)s %(asctime)s [vllm] %(message)s", "datefmt": "%m-%d %H:%M:%S"}},
        "handlers": {
            "console": {"class": "logging.StreamHandler", "level": level, "formatter": "plain"},
            "errors": {"class": "logging.FileHandler", "level": "ERROR", "formatter": "plain",
                       "filename": str(log), "encoding": "utf-8", "delay": True},
        },
        "loggers": {"vllm": {"handlers": ["console", "errors"], "level": level, "propagate": False}},
    }  # fmt: skip


UNKNOWN = Words(
    "引擎启动失败，原因见控制台；也可运行 python -m engine.doctor 检查",
    "The engine could not start; the console says why, and python -m engine.doctor may",
)


def explain(error: BaseException, log: Path | None) -> tuple[Words, str]:
    """Why loading failed: a sentence with the remedy, where that is known, and vLLM's last informative line."""
    told = log.read_text(encoding="utf-8", errors="replace") if log and log.exists() else ""
    causes = [c.strip() for c in CAUSE.findall(told) if not c.startswith(WRAPPERS)]
    line = causes[-1] if causes else (str(error).strip() or type(error).__name__).splitlines()[0]
    for pattern, words in REMEDIES:
        if re.search(pattern, f"{told}\n{error}", re.IGNORECASE):
            return Words(f"{words.zh}。", f"{words.en}."), line
    return Words(f"{UNKNOWN.zh}。", f"{UNKNOWN.en}."), line
