"""What the last 15 minutes were like: a bounded record, kept by the engine host."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.base import EngineHealth

SPAN_S = 900.0
STEP_S = 5.0
MOST_ANSWERS = 10_000
"""First-token times and outcomes that are kept; beyond, the span gets shorter and not the memory larger."""
UNCOUNTED = ("superseded", "refused", "share", "too_long")
"""Outcomes that say nothing about the engine."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look: seconds of the monotonic clock, tokens a second since the look before, and the load."""

    at: float
    tokens_s: float | None
    running: int
    waiting: int
    kv_use: float | None


class History:
    """Samples every STEP_S, each answer's first-token time and each question's outcome, for SPAN_S."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[Sample] = deque(maxlen=int(SPAN_S / STEP_S))
        self._first_tokens: deque[tuple[float, float]] = deque(maxlen=MOST_ANSWERS)
        self._outcomes: deque[tuple[float, str]] = deque(maxlen=MOST_ANSWERS)
        self._own_tokens = 0
        self._counts_itself = True
        self._counted: tuple[float, int] | None = None
        self.tokens_s: float | None = None
        """Now, between the last two looks."""
        self._sampled: tuple[float, int] | None = None

    def look(self, health: EngineHealth, running: int, waiting: int) -> None:
        """Take a look at a ready engine. Tokens are the engine's own count, else what this app has received."""
        if (health.generated is None) != self._counts_itself:
            self.blind()
            self._counts_itself = not self._counts_itself
        now = (self._clock(), self._own_tokens if health.generated is None else health.generated)
        self.tokens_s, self._counted = _rate(self._counted, now), now
        if self._samples and now[0] - self._samples[-1].at < STEP_S:
            return
        self._samples.append(Sample(now[0], _rate(self._sampled, now), running, waiting, health.kv_use))
        self._sampled = now

    def blind(self) -> None:
        """There is no engine to look at: what it counts next begins anew."""
        self.tokens_s = self._counted = self._sampled = None

    def tokens(self, count: int) -> None:
        """Tokens that an answer brought."""
        self._own_tokens += count

    def first_token(self, seconds: float) -> None:
        """The first-token time of an answer that has ended."""
        self._first_tokens.append((self._clock(), seconds))

    def ended(self, outcome: str) -> None:
        """A question's outcome."""
        self._outcomes.append((self._clock(), outcome))

    @property
    def now(self) -> float:
        """The time of the samples' clock."""
        return self._clock()

    @property
    def samples(self) -> list[Sample]:
        """The samples of the last SPAN_S, oldest first."""
        since = self._clock() - SPAN_S
        return [sample for sample in self._samples if sample.at >= since]

    def first_tokens(self, oldest_s: float = SPAN_S, newest_s: float = 0.0) -> list[float]:
        """First-token times of the answers that ended between so many seconds ago and so many."""
        now = self._clock()
        return [seconds for at, seconds in self._first_tokens if newest_s <= now - at < oldest_s]

    def outcomes(self) -> list[str]:
        """How the questions of the last SPAN_S ended, without those that say nothing about the engine."""
        return [outcome for outcome in self._recent() if outcome not in UNCOUNTED]

    def refused(self) -> int:
        """Questions refused in the last SPAN_S because the queue was full."""
        return sum(outcome == "refused" for outcome in self._recent())

    def _recent(self) -> Iterable[str]:
        since = self._clock() - SPAN_S
        return [outcome for at, outcome in self._outcomes if at >= since]


def _rate(before: tuple[float, int] | None, now: tuple[float, int]) -> float | None:
    """A second's share of what was counted between two looks; None where the count began anew."""
    if before is None or now[0] <= before[0] or now[1] < before[1]:
        return None
    return (now[1] - before[1]) / (now[0] - before[0])


def percentiles(values: Iterable[float], *shares: float) -> list[float | None]:
    """For each of `shares`, the smallest value that so many do not exceed; None of no values."""
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None for share in shares]
