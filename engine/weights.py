"""From ENGINE_MODEL to a folder that can be loaded: `resolve`, and `python -m engine.weights` for people.

A local folder is checked and used as it is. A hub id is taken from the cache, else downloaded, else (no hub answers)
replaced by the demo model. Nothing half-done gets its final name: cache/partial/… becomes cache/models/… when whole.
"""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from engine import demo as demo_model
from engine import hub as hubs
from engine.arguments import Parser
from engine.base import Loading, OnLoading
from engine.cache import cache_root, explain_disk_faults, only_one, other_caches
from engine.download import download
from engine.errors import ConfigurationError, WeightsError
from engine.model_files import check, is_complete, refuse_paddle
from engine.progress import console_progress
from engine.settings import Settings
from engine.words import Words

DEMO = "demo"
ANSWER_WITHIN_S = 10.0
"""How long the hubs have to answer before the demo model takes over."""
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A checked folder, the name that people see, and whether it is the demo model."""

    path: Path
    name: str
    is_demo: bool


def resolve(
    model: str,
    hub: str,
    on_loading: OnLoading,
    cache: Path | None = None,
    *,
    answer_within_s: float = ANSWER_WITHIN_S,
    demo: demo_model.Demo = demo_model.QWEN,
) -> ModelFolder:
    """The folder for ENGINE_MODEL and ENGINE_HUB. Blocks for as long as it takes; raises WeightsError."""
    cache = cache or cache_root()
    folder = _find(model, hub, on_loading, cache, answer_within_s, demo)
    _stay_local()
    return folder


def _find(
    model: str, hub: str, on_loading: OnLoading, cache: Path, answer_within_s: float, demo: demo_model.Demo
) -> ModelFolder:
    if model == DEMO:
        return ModelFolder(demo_model.prepare(cache, on_loading, demo), demo.title, is_demo=True)
    path = Path(model).expanduser()
    if path.exists():
        return _local(path)
    if not HUB_ID.fullmatch(model):
        raise _absent(model)
    try:
        return ModelFolder(_from_hub(model, hub, on_loading, cache, answer_within_s), model, is_demo=False)
    except hubs.NoHubAnswers as silence:
        on_loading(Loading(Words(f"{silence.words.zh}，改用演示模型", f"{silence.words.en}: using the demo model")))
        return ModelFolder(demo_model.prepare(cache, on_loading, demo), demo.title, is_demo=True)


def _local(path: Path) -> ModelFolder:
    path = path.absolute()
    if not path.is_dir():
        raise WeightsError(
            Words(
                f"ENGINE_MODEL 应是模型文件夹，而 {path} 是一个文件：请填它所在的文件夹 {path.parent}。",
                f"ENGINE_MODEL wants a folder and {path} is a file: give the folder it is in, {path.parent}.",
            )
        )
    check(path)
    return ModelFolder(path, path.resolve().name, is_demo=False)


def _from_hub(model: str, hub: str, on_loading: OnLoading, cache: Path, answer_within_s: float) -> Path:
    refuse_paddle(model)
    ready, partial = cache / "models" / model, cache / "partial" / model
    for kept in (ready, *other_caches(model)):
        if is_complete(kept):
            return kept
    on_loading(Loading(Words(f"查找模型 {model}", f"Looking for the model {model}")))
    listing = hubs.find(model, hub, answer_within_s)
    if not any(file.path.endswith(".safetensors") for file in listing.files):
        raise WeightsError(
            Words(
                f"{listing.hub} 上的 {model} 没有 safetensors 权重：请改用有 safetensors 的版本。",
                f"{model} at {listing.hub} has no safetensors weights: take a version that has.",
            )
        )
    lock = cache / "locks" / f"{model.replace('/', '--')}.lock"
    with explain_disk_faults(cache, listing.size), only_one(lock, on_loading):
        if not is_complete(ready):  # else made by the process that held the lock
            _set_aside(ready, partial)
            download(listing, partial, on_loading)
            check(partial)
            ready.parent.mkdir(parents=True, exist_ok=True)
            partial.rename(ready)
    return ready


def _set_aside(ready: Path, partial: Path) -> None:
    """A model damaged since it was whole goes back to being half-done, to be mended."""
    if ready.exists():
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        ready.rename(partial)


def _stay_local() -> None:
    """All that is loaded from now on lies here: the libraries, and the processes they start, ask nobody outside."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def _absent(model: str) -> WeightsError:
    if model.startswith(("/", ".", "~")) or os.sep in model or "\\" in model:
        return WeightsError(
            Words(
                f"模型文件夹 {model} 不存在：请检查 ENGINE_MODEL 的路径（相对路径从 {Path.cwd()} 算起）。",
                f"There is no model folder {model}: check ENGINE_MODEL's path (relative ones start at {Path.cwd()}).",
            )
        )
    return WeightsError(
        Words(
            f"ENGINE_MODEL={model} 不可用：应是已有的文件夹、demo，或 owner/name 形式的仓库名，"
            "例如 baidu/ERNIE-4.5-0.3B-PT。",
            f"ENGINE_MODEL={model} cannot be used: give an existing folder, demo, or a hub id owner/name, "
            "such as baidu/ERNIE-4.5-0.3B-PT.",
        )
    )


def main(arguments: list[str] | None = None) -> int:
    """Print progress, then the folder; exit status 1 and one sentence where there is none."""
    parser = Parser(prog="python -m engine.weights", description="准备模型文件，打印所在的文件夹")
    parser.add_argument("--model", help="仓库名、本地文件夹或 demo（默认取 ENGINE_MODEL）")
    parser.add_argument("--hub", choices=("auto", "huggingface", "modelscope"), help="默认取 ENGINE_HUB")
    try:
        given = parser.parse_args(arguments)
        settings = Settings.load()
        folder = resolve(given.model or settings.engine_model, given.hub or settings.engine_hub, console_progress())
    except ConfigurationError as error:
        print(error.words.zh, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\n已中断：已完成的部分会保留，再运行一次即可接着做。", file=sys.stderr)
        return 130
    print(f"模型 {folder.name}：{folder.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
