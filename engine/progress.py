"""Loading steps on the console: a bar on a terminal, else a line a step and one every tenth of it."""

import sys
import threading
from typing import TextIO

from tqdm import tqdm  # type: ignore[import-untyped]

from engine.base import Loading, OnLoading

BAR = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"


def console_progress(stream: TextIO | None = None) -> OnLoading:
    """What to hand to anything that loads; safe from several threads. `stream` defaults to standard error."""
    output = stream or sys.stderr
    return _Bar(output) if output.isatty() else _Lines(output)


class _Lines:
    """For logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._step, self._tenths = "", 0

    def __call__(self, loading: Loading) -> None:
        with self._lock:
            tenths = int((loading.fraction or 0.0) * 10)
            if loading.step.zh != self._step:
                self._step, self._tenths = loading.step.zh, tenths
            elif tenths > self._tenths:
                self._tenths = tenths
            else:
                return
            share = "" if loading.fraction is None else f" {loading.fraction:.0%}"
            print(f"{self._step}{share}", file=self._stream, flush=True)


class _Bar:
    """For people."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._step = ""
        self._bar: tqdm | None = None

    def __call__(self, loading: Loading) -> None:
        with self._lock:
            if loading.step.zh != self._step:
                self._begin(loading)
            if self._bar is not None and loading.fraction is not None:
                self._bar.update(loading.fraction * 100 - self._bar.n)
                if loading.fraction >= 1:
                    self._bar.close()
                    self._bar = None

    def _begin(self, loading: Loading) -> None:
        self._step = loading.step.zh
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if loading.fraction is None:
            print(self._step, file=self._stream, flush=True)
        else:
            self._bar = tqdm(total=100, desc=self._step, bar_format=BAR, file=self._stream, dynamic_ncols=True)
