"""Processes that an app left behind, with processes that are cheap to start in EngineCore's place."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from engine import orphans
from engine.orphans import Orphan

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
WILLING = "import time; print(flush=True); time.sleep(600)"
GONE = psutil.Process().create_time() - 1000


@contextmanager
def sleeper(code: str = WILLING) -> Iterator[psutil.Process]:
    """A process that is up and does nothing."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield psutil.Process(process.pid)
        process.kill()


def write(records: Path, process: psutil.Process, app: psutil.Process | None = None, moved_s: float = 0) -> None:
    """A record as `app` would have left it: None for an app that is gone; `moved_s` falsifies the creation time."""
    app_pid, app_time = (app.pid, app.create_time()) if app else (os.getpid(), GONE)
    orphan = Orphan(process.pid, process.create_time() + moved_s, "VLLM::EngineCore", app_pid, app_time)
    path = records / orphans.FOLDER / f"{app_pid}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(orphan)]), encoding="utf-8")


@pytest.mark.parametrize("code", [WILLING, STUBBORN], ids=["willing", "stubborn"])
def test_an_orphan_is_named_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A process whose app is gone is ended, also one that ignores SIGTERM, and told of exactly once."""
    monkeypatch.setattr(orphans, "GRACE_S", 1.0)
    with sleeper(code) as process:
        write(tmp_path, process)
        assert [(orphan.pid, orphan.name) for orphan in orphans.reap(tmp_path)] == [(process.pid, "VLLM::EngineCore")]
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        assert orphans.reap(tmp_path) == []


def test_another_apps_engine_is_left_alone(tmp_path: Path) -> None:
    """While the app lives, its processes are no orphans, and the record stays."""
    with sleeper() as process:
        write(tmp_path, process, app=psutil.Process())
        assert orphans.reap(tmp_path) == []
        assert process.is_running()
        assert list((tmp_path / orphans.FOLDER).iterdir())


def test_a_pid_given_to_someone_else_is_left_alone(tmp_path: Path) -> None:
    """The same pid with another creation time is another process."""
    with sleeper() as process:
        write(tmp_path, process, moved_s=-100)
        assert orphans.reap(tmp_path) == []
        assert process.status() != psutil.STATUS_ZOMBIE


def test_what_is_recorded_can_be_reaped(tmp_path: Path) -> None:
    """`record` writes this app down; `forget` removes it."""
    with sleeper() as process:
        orphans.record([process], tmp_path)
        (file,) = (tmp_path / orphans.FOLDER).iterdir()
        assert json.loads(file.read_text(encoding="utf-8"))[0]["pid"] == process.pid
        assert orphans.reap(tmp_path) == []
        orphans.forget(tmp_path)
        assert not file.exists()


def test_a_broken_record_is_cleared(tmp_path: Path) -> None:
    """A file that a crash cut short stops nobody from starting."""
    file = tmp_path / orphans.FOLDER / "1.json"
    file.parent.mkdir()
    file.write_text('[{"pid": 1', encoding="utf-8")
    assert orphans.reap(tmp_path) == []
    assert not file.exists()


def test_no_records_no_orphans(tmp_path: Path) -> None:
    """The first start of all."""
    assert orphans.reap(tmp_path / "nowhere") == []
