"""An engine's deaths: a few are followed by a restart, too many within a span are the end."""

import time
from collections import deque

from engine.errors import EngineDead
from engine.words import Words

SPAN_S = 600.0


class Deaths:
    """Those of the last SPAN_S."""

    def __init__(self) -> None:
        self._at: deque[float] = deque()

    def clear(self) -> None:
        """Begin anew."""
        self._at.clear()

    def record(self, allowed: int | None, why: Words) -> None:
        """One more. Raises EngineDead beyond those `allowed`; None: never."""
        now = time.monotonic()
        self._at.append(now)
        while self._at and now - self._at[0] > SPAN_S:
            self._at.popleft()
        if allowed is not None and len(self._at) > allowed:
            raise EngineDead(
                Words(
                    f"引擎已停止：十分钟内重启了 {allowed} 次仍然退出。请运行 python -m engine.doctor 检查，再重新 make run。最后的原因：{why.zh}",
                    f"The engine has stopped: it died again after {allowed} restarts in ten minutes. "
                    f"Run python -m engine.doctor, then make run again. Last reason: {why.en}",
                )
            )
