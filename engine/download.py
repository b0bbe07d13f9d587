"""Fetch a hub's files: picked up where an earlier try broke off, and each checked against its digest."""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

import httpx

from engine.base import Loading, OnLoading
from engine.cache import GIB, explain_disk_faults, require_space
from engine.errors import WeightsError
from engine.hub import Listing, RemoteFile
from engine.words import Words

CHUNK = 1024**2
PLAIN = {"Accept-Encoding": "identity"}
"""A compressed answer could not be picked up in the middle."""
PATIENCE = 5
"""Tries in a row that bring not one byte, before giving up."""
PAUSE_S = 1.0
"""Before the second of them; doubled each time."""
SILENCE_S = 30.0
REPORT_EVERY = 0.002
"""Share of the whole between two reports of progress."""


def download(listing: Listing, folder: Path, on_loading: OnLoading) -> None:
    """Bring every file of `listing` into `folder`. Raises WeightsError; what has arrived stays for the next try."""
    folder.mkdir(parents=True, exist_ok=True)
    _drop_strays(folder, listing)
    missing = sum(_missing(folder, file) for file in listing.files)
    if missing:
        require_space(folder, missing)
    progress = _Progress(listing, on_loading)
    timeout = httpx.Timeout(SILENCE_S)
    with (
        explain_disk_faults(folder, missing),
        httpx.Client(headers=listing.headers | PLAIN, timeout=timeout, follow_redirects=True) as client,
    ):
        for file in listing.files:
            _bring(client, file, folder, progress)


class _Progress:
    """Bytes there, of all; reports when a visible share has been added."""

    def __init__(self, listing: Listing, on_loading: OnLoading) -> None:
        host = httpx.URL(listing.hub).host
        size = f"{listing.size / GIB:.2f} GiB"
        self._step = Words(f"从 {host} 下载模型（{size}）", f"Downloading the model from {host} ({size})")
        self._total, self._done, self._reported, self._on_loading = max(1, listing.size), 0, -1.0, on_loading

    def add(self, count: int) -> None:
        self._done += count
        share = min(1.0, max(0.0, self._done / self._total))
        if share >= self._reported + REPORT_EVERY or share in (0.0, 1.0):
            self._reported = share
            self._on_loading(Loading(self._step, share))


def _drop_strays(folder: Path, listing: Listing) -> None:
    """Files of an older version, that the model no longer has."""
    wanted = {name for file in listing.files for name in (file.path, _part(folder, file).name)}
    for file in folder.iterdir():
        if file.is_file() and file.name not in wanted:
            file.unlink()


def _missing(folder: Path, file: RemoteFile) -> int:
    """Bytes of `file` still to be written."""
    for present in (folder / file.path, _part(folder, file)):
        if present.is_file():
            return max(0, file.size - present.stat().st_size)
    return file.size


def _part(folder: Path, file: RemoteFile) -> Path:
    return folder / f"{file.path}.part"


def _bring(client: httpx.Client, file: RemoteFile, folder: Path, progress: _Progress) -> None:
    target, part = folder / file.path, _part(folder, file)
    if target.is_file() and _is_right(target, file):
        progress.add(file.size)
        return
    for _ in range(2):  # once more from the start, should what is there be of an older version
        _fill(client, file, part, progress)
        if _is_right(part, file):
            part.replace(target)
            return
        progress.add(-part.stat().st_size)
        part.unlink()
    raise WeightsError(
        Words(
            f"下载的 {file.path} 校验不符，已丢弃：请再启动一次，或用 ENGINE_HUB 换一个模型仓库。",
            f"{file.path} arrived with a wrong checksum and was thrown away: start again, or set ENGINE_HUB "
            "to another hub.",
        )
    )


def _fill(client: httpx.Client, file: RemoteFile, part: Path, progress: _Progress) -> None:
    """Append to `part` until it is as long as `file`, going on after each break."""
    part.touch()
    have = part.stat().st_size
    progress.add(have)
    failures = 0
    while have < file.size:
        with suppress(httpx.HTTPError):  # counted below, by what has arrived
            _append(client, file, part, have, progress)
        failures = 0 if part.stat().st_size > have else failures + 1
        have = part.stat().st_size
        if failures >= PATIENCE:
            raise _broken_off(file)
        if failures:
            time.sleep(PAUSE_S * 2 ** (failures - 1))


def _append(client: httpx.Client, file: RemoteFile, part: Path, have: int, progress: _Progress) -> None:
    """One request for the rest of `file`; a server that sends the whole again starts `part` anew."""
    with client.stream("GET", file.url, headers={"Range": f"bytes={have}-"} if have else {}) as answer:
        if answer.status_code in (401, 403, 404):
            raise _denied(file, answer.status_code)
        if answer.is_error:
            return
        if have and answer.status_code != httpx.codes.PARTIAL_CONTENT:
            progress.add(-have)
            part.write_bytes(b"")
        with part.open("ab") as stream:
            for chunk in answer.iter_raw():  # as it arrives: a break loses nothing
                stream.write(chunk)
                progress.add(len(chunk))
            os.fsync(stream.fileno())


def _is_right(path: Path, file: RemoteFile) -> bool:
    """The size, and the digest where the hub gave one."""
    if path.stat().st_size != file.size:
        return False
    if not file.digest:
        return True
    digest = hashlib.sha256()
    if file.kind == "git":
        digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest() == file.digest.lower()


def _broken_off(file: RemoteFile) -> WeightsError:
    host = httpx.URL(file.url).host
    return WeightsError(
        Words(
            f"从 {host} 下载 {file.path} 时连接一再中断：已下载的部分会保留，请检查网络后再启动一次。",
            f"The connection to {host} kept breaking while {file.path} was downloaded: what has arrived is kept; "
            "check the network and start again.",
        )
    )


def _denied(file: RemoteFile, status: int) -> WeightsError:
    host = httpx.URL(file.url).host
    return WeightsError(
        Words(
            f"{host} 拒绝下载 {file.path}（{status}）："
            "受限的模型请先在网页上申请并设置 HF_TOKEN，或下载后填本地文件夹。",
            f"{host} refuses {file.path} ({status}): for a gated model ask for access there and set HF_TOKEN, "
            "or download it and give the folder.",
        )
    )
