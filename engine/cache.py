"""Where weights are kept between starts: the cache folder, its free space, and who may write there now."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.base import Loading, OnLoading
from engine.errors import WeightsError
from engine.words import Words

GIB = 1024**3
SPARE_BYTES = 256 * 1024**2
"""Left free beyond what is written, so that the machine can go on working."""

WAITING = Words("另一个进程正在准备模型文件，等待它完成…", "Another process is preparing the model: waiting for it…")


def cache_root() -> Path:
    """The user's cache folder for this product (XDG base directory specification)."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "zhida"


def other_caches(model: str) -> Iterator[Path]:
    """Where Hugging Face's and ModelScope's own tools would have put the hub id `model`, if they fetched it whole."""
    owner, name = model.split("/")
    hf_home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    repository = Path(os.environ.get("HF_HUB_CACHE") or f"{hf_home}/hub").expanduser() / f"models--{owner}--{name}"
    commit = repository / "refs" / "main"
    if commit.is_file() and not any(repository.glob("blobs/*.incomplete")):
        yield repository / "snapshots" / commit.read_text().strip()
    modelscope = Path(os.environ.get("MODELSCOPE_CACHE") or "~/.cache/modelscope").expanduser()
    for parent in ("hub/models", "models", "hub"):  # newest layout first
        yield modelscope / parent / owner / name.replace(".", "___")


@contextmanager
def only_one(path: Path, on_loading: OnLoading) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever holds it; a process that dies lets go of it."""
    from filelock import FileLock, Timeout  # comes with huggingface_hub: absent where no model is loaded

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, poll_interval=0.2)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_loading(Loading(WAITING))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def require_space(folder: Path, needed: int) -> None:
    """Raises WeightsError where the disk of `folder` has not `needed` bytes and some to spare."""
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE_BYTES:
        raise _disk_full(folder, needed + SPARE_BYTES, free)


@contextmanager
def explain_disk_faults(folder: Path, needed: int) -> Iterator[None]:
    """Turn what the disk of `folder` refuses into a WeightsError; `needed` is what was to be written, in bytes."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(folder if folder.exists() else Path.home()).free
            raise _disk_full(folder, needed, free) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise WeightsError(
                Words(
                    f"无法写入缓存文件夹 {folder}：请检查它的权限，或把环境变量 XDG_CACHE_HOME 设为可写的文件夹。",
                    f"Cannot write to {folder}: check its permissions, or point XDG_CACHE_HOME at a writable folder.",
                )
            ) from error
        raise


def _disk_full(folder: Path, needed: int, free: int) -> WeightsError:
    need, have = f"{needed / GIB:.2f}", f"{free / GIB:.2f}"
    return WeightsError(
        Words(
            f"磁盘空间不足：需要 {need} GiB，{folder} 所在的磁盘只剩 {have} GiB。"
            "请清理磁盘，或把环境变量 XDG_CACHE_HOME 设到别的磁盘，再启动一次。",
            f"Disk full: {need} GiB needed, {have} GiB free at {folder}. "
            "Free some space, or point XDG_CACHE_HOME at another disk, and start again.",
        )
    )


def existing(folder: Path) -> Path:
    """The folder, or the nearest of its parents that is there."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
